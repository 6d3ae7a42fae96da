//! Warnings about the users that PHP runs as: what a script may do then. Called by `start`. Runs in: server, on the main thread.

use rustix::process::geteuid;
use tracing::warn;

use super::release::Release;
use crate::config::Sources;

/// Warns of pools whose scripts may do everything, or read the keys of certificates.
pub(super) async fn warn_of(release: &Release, sources: &Sources) {
    // One that was made for this machine alone is worth nothing elsewhere.
    let has_keys = sources.https.is_none() && !release.config.tls.certificates.is_empty();
    for pool in release.report().await {
        let Some(user) = pool.workers.first().and_then(|worker| user_of(worker.pid)) else {
            continue;
        };
        if user == 0 {
            warn!(
                pool = pool.name,
                "PHP runs as root, so a script may do everything: set `user` of the pool to an unprivileged user"
            );
        } else if user == geteuid().as_raw() && has_keys {
            warn!(
                pool = pool.name,
                "PHP has the server's own user, so a script may read the keys of its certificates: set `user` of the pool to \
                 another one, see docs/operating.md"
            );
        }
    }
}

/// The effective user of a process, if it is still there.
fn user_of(pid: i32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}
