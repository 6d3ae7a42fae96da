//! Gets a request to a worker and its response back.
//!
//! Runs in: server, on a reactor. Called by `edge` and, for the fate of workers, by `supervise`;
//! knows nothing of HTTP connections. The wire format and the shared memory are in the `ipc` crate.
//!
//! | module | what |
//! |---|---|
//! | [`pool`] | [`Pool::send`]: the door; [`PoolShared`]: what reactors and supervise share |
//! | [`desk`] | what one reactor knows about its slots; completions, deaths, deadlines |
//! | [`lease`] | the right to one slot, and what happens when it is dropped |
//! | [`exchange`] | waits for the response and reads its head |
//! | [`relay`] | a response that is still being produced, and slow clients |
//! | [`spool`] | files for bodies that are too big for memory |
//! | [`reactor`] | how a reactor's runtime learns of completions |

pub mod desk;
pub mod error;
pub mod exchange;
pub mod lease;
pub mod pool;
pub mod reactor;
pub mod relay;
pub mod request;
pub mod response;
pub mod spool;

pub use error::DispatchError;
pub use pool::{KillRequest, Pool, PoolShared};
pub use reactor::Reactor;
pub use request::{Request, RequestBody, RequestId};
pub use response::{Response, ResponseBody};
