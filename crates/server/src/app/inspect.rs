//! Boots the application as [`super::run`] would, only to look at it. Called by `cli`. Runs in: the command.

use anyhow::Context;

use crate::config::Config;
use crate::dispatch::PoolShared;
use crate::edge;
use crate::supervise::{Inspection, inspect};

/// What the application of `config` boots to. Nothing listens, and no worker is forked.
pub(crate) fn run(config: &Config) -> anyhow::Result<Inspection> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("building the runtime")?
        .block_on(async {
            let pool = PoolShared::create(&config.pool, config).context("creating the shared memory")?;
            let warmup = edge::warmup_requests(config, config.listen);
            Ok(inspect(config, (&pool.shared, pool.eventfds), warmup).await?)
        })
}
