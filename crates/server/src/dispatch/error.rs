//! Why a request got no (complete) response. `edge::reply` maps these to a status, there and only there.

use std::time::Duration;

use super::spool::NoRoom;

/// What went wrong with one exchange.
#[derive(Debug, thiserror::Error)]
pub enum DispatchError {
    /// As many requests wait as `queue_length` allows. 503.
    #[error("the queue of pool {pool:?} is full")]
    QueueFull {
        /// Name of the pool.
        pool: String,
    },
    /// No worker took the request within `queue_timeout`. 503.
    #[error("no worker of pool {pool:?} became free within {waited:?}")]
    QueueTimeout {
        /// Name of the pool.
        pool: String,
        /// How long the request waited.
        waited: Duration,
    },
    /// The worker that ran the request died and the request may not run again. 502.
    #[error("worker {worker} died while it ran the request")]
    WorkerDied {
        /// Number of the worker within its pool.
        worker: u16,
    },
    /// The response makes no sense: the script set a status or header that is none, or the worker broke the protocol between
    /// server and worker and was killed. 502.
    #[error("worker {worker} sent an invalid response: {reason}")]
    BadResponse {
        /// Number of the worker within its pool.
        worker: u16,
        /// What was wrong.
        reason: String,
    },
    /// The request ran longer than `request_timeout`. 504.
    #[error("the request ran longer than {limit:?}")]
    RequestTimeout {
        /// The limit.
        limit: Duration,
    },
    /// The request's head does not fit into a slot. 431.
    #[error("the head of the request takes {size} bytes, more than the {limit} a slot holds")]
    HeadTooLarge {
        /// Bytes of the encoded head.
        size: usize,
        /// Bytes a slot holds.
        limit: usize,
    },
    /// The server is stopping and takes no new request. 503.
    #[error("the server is stopping")]
    Stopping,
    /// A spool file would have become too large. 503.
    #[error("no room for a spool file: {0}")]
    NoRoom(#[from] NoRoom),
    /// Reading or writing a spool file failed. 500.
    #[error("spool file: {0}")]
    Spool(#[from] std::io::Error),
}
