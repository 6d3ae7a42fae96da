//! What a pool is at right now, for people: how many requests wait, and who runs which.

use std::time::Duration;

use ipc::head::{Known, RequestReader};
use ipc::slot::{Incarnation, WorkerId};

use super::RequestId;

/// Characters of a request's URI that are shown.
const URI_SHOWN: usize = 256;

/// A moment in the life of a pool.
#[derive(Clone, Debug, Default)]
pub struct Glance {
    /// Requests that no worker has yet.
    pub waiting: usize,
    /// Requests in the hands of workers.
    pub running: Vec<Running>,
}

/// One request in the hands of a worker.
#[derive(Clone, Debug)]
pub struct Running {
    /// Who has it.
    pub worker: WorkerId,
    /// Which of that number.
    pub incarnation: Incarnation,
    /// The request.
    pub request: RequestId,
    /// `GET`; empty if the head names none.
    pub method: String,
    /// As the client sent it, cut to 256 characters.
    pub uri: String,
    /// How long it has run.
    pub elapsed: Duration,
}

impl Running {
    /// From the head of the request.
    pub(super) fn new(
        (worker, incarnation): (WorkerId, Incarnation),
        request: RequestId,
        head: &[u8],
        elapsed: Duration,
    ) -> Self {
        let known = |which| {
            let value = RequestReader::new(head).and_then(|reader| reader.known(which));
            String::from_utf8_lossy(value.unwrap_or_default())
                .chars()
                .take(URI_SHOWN)
                .collect()
        };
        Self {
            worker,
            incarnation,
            request,
            method: known(Known::Method),
            uri: known(Known::Uri),
            elapsed,
        }
    }
}
