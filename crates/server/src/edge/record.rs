//! What is known of a request when it ends. Kept by `exchange`, ended by `reply::body`. Runs in: server, on a reactor.

use std::sync::Arc;

use http::header::{self, HeaderValue};
use http::{Method, StatusCode, request};
use http_body::Body;
use http_body_util::BodyExt;
use tokio::time::Instant;
use tracing::debug;

use super::access_log::Line;
use super::connection::Client;
use super::peer::{Addresses, forwarded};
use super::progress::Fault;
use super::reply::{self, Ending};
use crate::dispatch::{Interim, RequestId, ResponseBody};

/// One request, from its head to its end. Dropping it ends the exchange: one line in the access log, and the connection is idle.
pub(super) struct Record {
    pub(super) client: Arc<Client>,
    /// Where they are not the connection's: those that a trusted proxy names.
    addresses: Option<Box<Addresses>>,
    pub(super) id: RequestId,
    pub(super) started: Instant,
    head: Option<Head>,
    status: StatusCode,
    ending: Ending,
    bytes: u64,
    /// For the access log; absent without one.
    pool: Option<Arc<str>>,
    pub(super) worker: Option<u16>,
    /// Its body has not been read, or not to its end.
    pub(super) unread: bool,
    begun: bool,
    /// Where interim responses go.
    pub(super) interim: Option<Arc<Interim>>,
}

/// The parts of a head that the access log shows; absent without a log.
struct Head {
    method: Method,
    target: http::Uri,
    version: http::Version,
    referer: Option<HeaderValue>,
    agent: Option<HeaderValue>,
}

impl Record {
    /// `head` asks for the host that a trusted proxy names, from now on.
    pub(super) fn begin(client: Arc<Client>, head: &mut request::Parts, unread: bool) -> Self {
        let addresses = if client.is_trusted {
            forwarded::apply(head, &client.addresses, &client.config.trusted_proxies)
        } else {
            None
        };
        let shown = client.log.is_some().then(|| Head {
            method: head.method.clone(),
            target: head.uri.clone(),
            version: head.version,
            referer: head.headers.get(header::REFERER).cloned(),
            agent: head.headers.get(header::USER_AGENT).cloned(),
        });
        let mut record = Self::without_head(client);
        record.head = shown;
        record.addresses = addresses;
        record.unread = unread;
        record.begun = true;
        record.client.progress.begin_exchange(record.started);
        record
    }

    /// Of a request that never became one.
    pub(super) fn without_head(client: Arc<Client>) -> Self {
        Self {
            client,
            addresses: None,
            id: RequestId::next(),
            started: Instant::now(),
            head: None,
            // Until it is known better: the connection was dropped while the request ran.
            status: reply::client_gone(),
            ending: Ending::ClientGone,
            bytes: 0,
            pool: None,
            worker: None,
            unread: false,
            begun: false,
            interim: None,
        }
    }

    /// Who asks whom.
    pub(super) fn addresses(&self) -> &Addresses {
        self.addresses.as_deref().unwrap_or(&self.client.addresses)
    }

    /// How it is answered.
    pub(super) fn set(&mut self, status: StatusCode, ending: Ending) {
        self.status = status;
        self.ending = ending;
    }

    pub(super) fn set_ending(&mut self, ending: Ending) {
        self.ending = ending;
    }

    pub(super) fn add_bytes(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// A pool is asked to answer.
    pub(super) fn note_pool(&mut self, pool: &Arc<str>) {
        self.pool = self.client.log.is_some().then(|| Arc::clone(pool));
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The client did not take the whole body.
    pub(super) fn broken_off(&mut self) {
        if self.ending == Ending::Ok {
            self.ending = Ending::ClientGone;
        }
    }

    /// The client has not taken what was sent to it, for longer than it may.
    fn is_stuck(&self, now: Instant) -> bool {
        let deadline = self.client.progress.deadline(&self.client.config.limits);
        deadline.is_some_and(|(at, fault)| fault == Fault::SlowReader && at <= now)
    }

    /// Lets a script whose output is not wanted run to its end; dropping its stream would tell it that the client is gone.
    pub(super) fn discard(&self, body: ResponseBody) {
        if let ResponseBody::Stream(mut stream) = body
            && !stream.is_end_stream()
        {
            self.client
                .tasks
                .spawn(async move { while let Some(Ok(_)) = stream.frame().await {} });
        }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let now = Instant::now();
        if self.begun && self.ending == Ending::ClientGone && self.is_stuck(now) {
            self.ending = Ending::WriteTimeout;
        }
        if self.begun {
            self.client.progress.end_exchange(now);
        }
        debug!(id = %self.id, status = self.status.as_u16(), worker = self.worker, ending = %self.ending, "request ended");
        let Some(log) = &self.client.log else { return };
        let head = self.head.as_ref();
        log.write(&Line {
            remote: self.addresses().remote(),
            method: head.map_or("-", |h| h.method.as_str()),
            target: head.map_or("-", |h| h.target.path_and_query().map_or("/", |t| t.as_str())),
            version: head.map_or(http::Version::HTTP_11, |h| h.version),
            status: self.status.as_u16(),
            bytes: self.bytes,
            referer: head.and_then(|h| h.referer.as_ref()).map(HeaderValue::as_bytes),
            agent: head.and_then(|h| h.agent.as_ref()).map(HeaderValue::as_bytes),
            duration: now.saturating_duration_since(self.started),
            id: self.id,
            pool: self.pool.as_deref(),
            worker: self.worker,
            ending: self.ending,
        });
    }
}
