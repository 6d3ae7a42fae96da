//! Gets a request to a worker and its response back.
//!
//! Runs in: server, on a reactor. Called by `edge` and, for the fate of workers, by `supervise`;
//! knows nothing of HTTP connections. The wire format and the shared memory are in the `ipc` crate.
//!
//! | module | what |
//! |---|---|
//! | [`pool`] | [`Pool::send`]: the door; [`PoolShared`]: what reactors and supervise share |
//! | [`desk`] | what one reactor knows about its slots; completions and deaths |
//! | [`sweep`] | deadlines, and whatever else has to be looked for |
//! | [`slots`] | those slots, as plain data |
//! | [`workers`] | the memory of each worker, and what supervise is asked to do about one |
//! | [`deadlines`] | when a request has run too long: pure |
//! | [`full`] | what is said when requests are refused |
//! | [`lease`] | the right to one slot, and what happens when it is dropped |
//! | [`exchange`] | waits for the response and reads its head |
//! | [`relay`] | a response that is still being produced, and slow clients |
//! | [`held`] | how much of all bodies is in memory |
//! | [`glance`] | what a pool is at right now, for people |
//! | [`seldom`] | lines of the log that clients could cause without end |
//! | [`spool`] | files for bodies that are too big for memory |
//! | [`reactor`] | how a reactor's runtime learns of completions |

mod deadlines;
mod desk;
pub mod error;
mod exchange;
mod full;
pub mod glance;
pub(crate) mod held;
mod interim;
mod lease;
pub mod pool;
pub mod reactor;
mod relay;
pub mod request;
pub mod response;
pub(crate) mod seldom;
mod slots;
pub mod spool;
mod sweep;
pub mod workers;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use desk::Reruns;
pub use error::DispatchError;
pub use interim::Interim;
pub use pool::{Pool, PoolShared};
pub use reactor::{Reactor, Side};
pub use request::{Request, RequestBody, RequestId};
pub use response::{Response, ResponseBody};
pub use workers::WorkerOrder;

/// A lock whose holder never panics while it holds it; if one did, the data is still whole enough to go on.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
