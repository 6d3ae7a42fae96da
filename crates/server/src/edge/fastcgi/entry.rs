//! What the access log says of a request. Dropping it writes the line.
//!
//! Called by `exchange`. Runs in: server, on a reactor.

use std::sync::Arc;

use http::{Method, StatusCode, Version};
use tokio::time::Instant;
use tracing::debug;

use super::variables::Variables;
use crate::dispatch::RequestId;
use crate::edge::access_log::{AccessLog, Line};
use crate::edge::reply::{self, Ending};

/// One request, from its parameters to its end.
pub(super) struct Entry {
    pub(super) id: RequestId,
    pub(super) status: StatusCode,
    pub(super) ending: Ending,
    pub(super) bytes: u64,
    /// For the access log; absent without one.
    pool: Option<Arc<str>>,
    pub(super) worker: Option<u16>,
    log: Option<Arc<AccessLog>>,
    started: Instant,
    is_head: bool,
    /// Absent without a log, or before the parameters are known.
    shown: Option<Shown>,
}

/// The parameters that the access log shows.
struct Shown {
    remote: String,
    method: String,
    target: String,
    version: Version,
    referer: Option<Vec<u8>>,
    agent: Option<Vec<u8>>,
}

impl Entry {
    pub(super) fn begin(log: Option<Arc<AccessLog>>) -> Self {
        Self {
            id: RequestId::next(),
            // Until it is known better.
            status: reply::client_gone(),
            ending: Ending::ClientGone,
            bytes: 0,
            pool: None,
            worker: None,
            log,
            started: Instant::now(),
            is_head: false,
            shown: None,
        }
    }

    /// Notes what is shown of the parameters.
    pub(super) fn describe(&mut self, variables: &Variables<'_>) {
        self.is_head = variables.get(b"REQUEST_METHOD") == Some(b"HEAD");
        if self.log.is_none() {
            return;
        }
        let text = |name: &[u8]| printable(variables.text(name)).to_owned();
        let bytes = |name: &[u8]| variables.filled(name).map(<[u8]>::to_vec);
        self.shown = Some(Shown {
            remote: text(b"REMOTE_ADDR"),
            method: text(b"REQUEST_METHOD"),
            target: match variables.text(b"REQUEST_URI") {
                "" => "-".to_owned(),
                target => target.to_owned(),
            },
            version: match variables.text(b"SERVER_PROTOCOL") {
                "HTTP/1.0" => Version::HTTP_10,
                "HTTP/2.0" | "HTTP/2" => Version::HTTP_2,
                "HTTP/3.0" | "HTTP/3" => Version::HTTP_3,
                _ => Version::HTTP_11,
            },
            referer: bytes(b"HTTP_REFERER"),
            agent: bytes(b"HTTP_USER_AGENT"),
        });
    }

    /// A pool is asked to answer.
    pub(super) fn note_pool(&mut self, pool: &Arc<str>) {
        self.pool = self.log.is_some().then(|| Arc::clone(pool));
    }

    /// For those parts of the server that know methods by their type.
    pub(super) fn method(&self) -> Method {
        if self.is_head { Method::HEAD } else { Method::GET }
    }

    /// Whether a response with this status has a body.
    pub(super) fn takes_body(&self, status: StatusCode) -> bool {
        !self.is_head && status != StatusCode::NO_CONTENT && status != StatusCode::NOT_MODIFIED
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let now = Instant::now();
        debug!(id = %self.id, status = self.status.as_u16(), worker = self.worker, ending = %self.ending, "request ended");
        let Some(log) = &self.log else { return };
        let shown = self.shown.as_ref();
        log.write(&Line {
            remote: shown.map_or("-", |s| &s.remote),
            method: shown.map_or("-", |s| &s.method),
            target: shown.map_or("-", |s| &s.target),
            version: shown.map_or(Version::HTTP_11, |s| s.version),
            status: self.status.as_u16(),
            bytes: self.bytes,
            referer: shown.and_then(|s| s.referer.as_deref()),
            agent: shown.and_then(|s| s.agent.as_deref()),
            duration: now.saturating_duration_since(self.started),
            id: self.id,
            pool: self.pool.as_deref(),
            worker: self.worker,
            ending: self.ending,
        });
    }
}

/// Address and method are not escaped by the log: over HTTP they are what their types allow.
fn printable(text: &str) -> &str {
    if !text.is_empty()
        && text
            .bytes()
            .all(|b| b.is_ascii_graphic() && b != b'"' && b != b'\\')
    {
        text
    } else {
        "-"
    }
}
