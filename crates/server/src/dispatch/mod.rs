//! Gets a request to a worker and its response back.
//!
//! Runs in: server, on a reactor. Called by `edge` (and later by jobs and FastCGI); knows nothing of HTTP connections. The wire
//! format and the shared memory are in the `ipc` crate.

pub mod error;
pub mod request;
pub mod response;

pub use error::DispatchError;
pub use request::{Request, RequestBody, RequestId};
pub use response::{Response, ResponseBody};
