//! File descriptors: as many as the system allows, and always some for the server itself.
//!
//! Called by `app`. Runs in: server.

use anyhow::bail;
use tracing::warn;

use crate::config::Config;

/// Descriptors of the server itself, and for some files at a time.
const OWN: u64 = 64;
/// Descriptors of a worker, and as many of its successor.
const A_WORKER: u64 = 16;

/// Clients must not take the descriptors without which no worker can be replaced and no file be sent. A connection takes a
/// descriptor, a spooled body another: the limit of the process is raised as far as the system allows. An error if there is no room
/// for one connection.
pub(super) fn keep(config: &mut Config) -> anyhow::Result<()> {
    let limit = raise_limit();
    let room = connections_within(limit, config.workers());
    if room == 0 {
        bail!(
            "the limit of open files is {limit}, too low for {} workers and one connection: raise it to {} or more (`ulimit -n`, \
             LimitNOFILE= of a unit), or lower `pool.web.workers`",
            config.workers(),
            limit_for(config.workers()) + 1
        );
    }
    if config.limits.connections > room {
        warn!(
            wanted = config.limits.connections,
            connections = room,
            limit,
            "fewer connections than limits.connections: raise the limit of open files (ulimit -n)"
        );
        config.limits.connections = room;
    }
    Ok(())
}

fn raise_limit() -> u64 {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            warn!(%error, "limit of descriptors not raised");
        }
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// How many connections `limit` descriptors leave room for.
fn connections_within(limit: u64, workers: usize) -> usize {
    usize::try_from(limit.saturating_sub(limit_for(workers))).unwrap_or(usize::MAX)
}

/// The descriptors that are needed beside those of connections.
const fn limit_for(workers: usize) -> u64 {
    OWN + A_WORKER * workers as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_for_new_workers() {
        assert_eq!(connections_within(1024, 4), 1024 - 64 - 64);
        assert_eq!(connections_within(64, 4), 0);
    }
}
