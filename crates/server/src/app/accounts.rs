//! Warnings about the users that PHP runs as: what a script may do then. Called by `start`. Runs in: server, on the main thread.

use rustix::process::geteuid;
use tracing::warn;

use super::release::Release;
use crate::config::Sources;

/// What the kernel says of a process.
struct Standing {
    /// Its effective user.
    user: u32,
    /// The capabilities that it is permitted.
    permitted: u64,
}

/// Warns of pools whose scripts may do everything, read the keys of certificates, or look into a process that starts.
pub(super) async fn warn_of(release: &Release, sources: &Sources) {
    // One that was made for this machine alone is worth nothing elsewhere.
    let has_keys = sources.https.is_none() && !release.config.tls.certificates.is_empty();
    for pool in release.report().await {
        let zygote = pool.generations.last().and_then(|generation| generation.pid);
        let Some(zygote) = zygote.and_then(standing_of) else {
            continue;
        };
        let mut settings = release.config.pools.iter();
        let is_dumpable = settings.any(|of| of.name == pool.name && of.process.dumpable);
        let has_servers_user = zygote.user == geteuid().as_raw();
        let finding = if zygote.user == 0 {
            Some((
                "PHP runs as root",
                "a script may do everything: set `user` of the pool to an unprivileged user",
            ))
        } else if has_servers_user && has_keys {
            Some((
                "PHP has the server's own user",
                "a script may read the keys of the certificates: set `user` of the pool to another one, see docs/operating.md",
            ))
        } else if !has_servers_user && zygote.permitted == 0 && !is_dumpable {
            Some((
                "nothing shields a worker that starts",
                "a script may read its memory for some microseconds: give the server CAP_NET_BIND_SERVICE as well, see \
                 docs/operating.md",
            ))
        } else {
            None
        };
        if let Some((message, hint)) = finding {
            warn!(pool = pool.name, hint, "{message}");
        }
    }
}

/// Nothing if the process is not there any more.
fn standing_of(pid: i32) -> Option<Standing> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let value = |name| status.lines().find_map(|line| line.strip_prefix(name));
    Some(Standing {
        user: value("Uid:")?.split_ascii_whitespace().nth(1)?.parse().ok()?,
        permitted: u64::from_str_radix(value("CapPrm:")?.trim(), 16).ok()?,
    })
}
