//! Boots the application as [`super::run`] would, only to look at it. Called by `cli`. Runs in: the command.

use anyhow::Context;

use crate::config::{Config, Pool};
use crate::dispatch::PoolShared;
use crate::edge;
use crate::supervise::{Inspection, inspect};

/// What the application of `pool` boots to. Nothing listens, and no worker is forked.
pub(crate) fn run(config: &Config, pool: &Pool) -> anyhow::Result<Inspection> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("building the runtime")?
        .block_on(async {
            let created = PoolShared::create(pool, config).context("creating the shared memory")?;
            let warmup = edge::warmup_requests(pool, &config.listen);
            Ok(inspect(pool, (&created.shared, created.eventfds), warmup).await?)
        })
}
