//! Certificates whose files change: a renewed one is used without a reload; a broken one is said, and what was there stays.
//!
//! Called by `app`. Runs in: server, on the main thread; files are read on a blocking thread.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::{JoinHandle, spawn_blocking};
use tracing::{error, info};

use crate::dispatch::Pool;
use crate::edge::Sites;

/// Time between two looks at the files.
const PAUSE: Duration = Duration::from_secs(2);

/// Time between two words about certificates that expire.
const DAY: Duration = Duration::from_hours(24);

/// Looks until it is dropped.
#[derive(Debug)]
pub(super) struct Watch(JoinHandle<()>);

impl Watch {
    pub(super) fn start(sites: Arc<Sites<Vec<Vec<Pool>>>>) -> Self {
        Self(tokio::spawn(async move {
            let mut said = Instant::now();
            loop {
                tokio::time::sleep(PAUSE).await;
                if said.elapsed() >= DAY {
                    said = Instant::now();
                    sites.tls.complain();
                }
                let sites = Arc::clone(&sites);
                match spawn_blocking(move || sites.tls.refresh()).await {
                    Ok(Ok(true)) => info!("certificates loaded anew: their files have changed"),
                    Ok(Ok(false)) => {}
                    Ok(Err(error)) => error!(
                        error = format!("{error:#}"),
                        "certificates not loaded anew: those of before are used on"
                    ),
                    // The runtime ends.
                    Err(_) => return,
                }
            }
        }))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.abort();
    }
}
