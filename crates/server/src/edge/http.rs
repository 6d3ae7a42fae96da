//! One connection: hyper, its deadlines, and what happens to each request on it.
//!
//! Called by `listen` for each accepted connection. No task, timer or box is made for a request; the connection has one timer,
//! which is armed anew only when it fires or when a deadline comes nearer. Runs in: server, on one reactor.

use std::cell::OnceCell;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::{self, HeaderValue};
use http::{Method, StatusCode, request};
use http_body::Body;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{HttpService, service_fn};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::task::TaskTracker;
use tracing::debug;

use super::access_log::AccessLog;
use super::access_log::Line;
use super::params::{self, Addresses, Source};
use super::reply::{self, Ending, Refusal};
use super::reply_body::{Content, ReplyBody};
use super::route::{self, Lookup, Route};
use super::wire::{Fault, Phase, Progress, Wire};
use super::{Backend, Sites, body, check, linger, static_files};
use crate::config::{Config, Limits};
use crate::dispatch::{Request, RequestBody, RequestId, ResponseBody};

/// hyper's own default; asking for it would make hyper allocate the headers' table for each request.
const HYPER_HEADERS: usize = 100;
/// Longest time between two looks at a connection's deadlines while none is near.
const LOOK: Duration = Duration::from_mins(1);

/// What the connections of one reactor share.
pub(super) struct Shared<B: Backend> {
    sites: Arc<Sites<B::Pools>>,
    backend: B,
    files: Lookup,
    tasks: TaskTracker,
    leaving: AtomicBool,
    stopping: AtomicBool,
    stopped: Notify,
}

impl<B: Backend> Shared<B> {
    pub(super) fn new(sites: Arc<Sites<B::Pools>>, backend: B) -> Self {
        let (files, tasks) = (Lookup::default(), TaskTracker::new());
        Self {
            sites,
            backend,
            files,
            tasks,
            leaving: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            stopped: Notify::new(),
        }
    }

    /// Every task of this reactor.
    pub(super) fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }

    /// From now on each connection ends with the request it is at, or with its next one: an idle one is not closed, which its client
    /// might see only behind a request it has sent.
    pub(super) fn leave(&self) {
        // Relaxed: the connections run on this thread.
        self.leaving.store(true, Ordering::Relaxed);
    }

    /// From now on each connection ends with the request it is at, an idle one at once.
    pub(super) fn stop(&self) {
        self.leave();
        // Relaxed: as above.
        self.stopping.store(true, Ordering::Relaxed);
        self.stopped.notify_waiters();
    }
}

/// The connection, as its requests see it.
pub(super) struct Client {
    /// That of the connection's first moment: its limits hold to its end.
    config: Arc<Config>,
    log: Option<Arc<AccessLog>>,
    tasks: TaskTracker,
    addresses: Addresses,
    progress: Arc<Progress>,
}

/// Serves `socket` until either side ends it.
pub(super) async fn serve<B: Backend>(socket: TcpStream, shared: Arc<Shared<B>>) {
    let (Ok(remote), Ok(local)) = (socket.peer_addr(), socket.local_addr()) else {
        return;
    };
    // Small responses must not wait for an acknowledgement of the one before. A failure costs speed, nothing else.
    let _ = socket.set_nodelay(true);
    let config = Arc::clone(&shared.sites.now().config);
    let limits = &config.limits;
    let progress = Arc::new(Progress::new(Instant::now()));
    let client = Arc::new(Client {
        config: Arc::clone(&config),
        log: shared.sites.log.clone(),
        tasks: shared.tasks.clone(),
        addresses: Addresses::new(remote, local),
        progress: Arc::clone(&progress),
    });
    let wire = Wire::new(socket, Arc::clone(&progress), limits);
    let service = service_fn(|request| handle(request, &shared, &client));
    let mut connection = builder(limits).serve_connection(wire, service);
    let end = run(&mut connection, &shared, (&progress, limits)).await;
    let wire = connection.into_parts().io;
    conclude(end, wire, &client).await;
}

fn builder(limits: &Limits) -> http1::Builder {
    let header_bytes = usize::try_from(limits.header_bytes.0).unwrap_or(usize::MAX / 2);
    let mut builder = http1::Builder::new();
    // `pipeline_flush` stays off: with it hyper buffers a response without bound while the next request waits unread.
    builder
        .half_close(true)
        .header_read_timeout(None)
        .max_header_size(header_bytes);
    builder.max_buf_size(header_bytes.saturating_add(16 * 1024));
    if limits.header_count != HYPER_HEADERS {
        builder.max_headers(limits.header_count);
    }
    builder
}

/// How a connection ended.
enum End {
    /// By the rules of HTTP, or because the client left.
    Done(hyper::Result<()>),
    /// By a deadline.
    Fault(Fault),
}

/// Polls the connection, ends it on a deadline and leads it to its end when the reactor stops.
async fn run<B, S>(
    connection: &mut http1::Connection<Wire, S>,
    shared: &Shared<B>,
    (progress, limits): (&Progress, &Limits),
) -> End
where
    B: Backend,
    S: HttpService<Incoming, ResBody = ReplyBody>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut stopped = pin!(shared.stopped.notified());
    let mut sleep = pin!(sleep_until(Instant::now() + limits.header_timeout));
    let mut timer = Timer {
        sleep: sleep.as_mut(),
        started: false,
    };
    let (mut watched, mut led_out) = (false, false);
    poll_fn(move |cx| {
        shared.backend.look();
        // Relaxed: `Shared::stop` stores it on this thread, so it stays as it is during a poll.
        let stopping = shared.stopping.load(Ordering::Relaxed);
        if stopping {
            progress.stop();
        } else if !watched {
            watched = true;
            let _ = stopped.as_mut().poll(cx);
        }
        if let Poll::Ready(result) = Pin::new(&mut *connection).poll(cx) {
            return Poll::Ready(End::Done(result));
        }
        if !led_out && stopping && (progress.phase() == Phase::Exchange || !progress.unread()) {
            led_out = true;
            Pin::new(&mut *connection).graceful_shutdown();
            if let Poll::Ready(result) = Pin::new(&mut *connection).poll(cx) {
                return Poll::Ready(End::Done(result));
            }
        }
        timer.check(cx, progress, limits).map(End::Fault)
    })
    .await
}

/// The connection's one timer.
struct Timer<'a> {
    sleep: Pin<&'a mut Sleep>,
    started: bool,
}

impl Timer<'_> {
    /// Ready when a deadline has passed.
    fn check(&mut self, cx: &mut Context<'_>, progress: &Progress, limits: &Limits) -> Poll<Fault> {
        let deadline = progress.deadline(limits);
        let nearer = deadline.is_some_and(|(at, _)| at < self.sleep.deadline());
        if self.started && !nearer && !self.sleep.is_elapsed() {
            return Poll::Pending;
        }
        self.started = true;
        loop {
            if nearer || self.sleep.is_elapsed() {
                let now = Instant::now();
                match deadline {
                    Some((at, fault)) if at <= now => return Poll::Ready(fault),
                    Some((at, _)) => self.sleep.as_mut().reset(at),
                    None => self.sleep.as_mut().reset(now + LOOK),
                }
            }
            // Registers the wake-up; ready only when the time has passed meanwhile.
            if self.sleep.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

/// What is left to do when hyper is done: answers that hyper cannot give, and a gentle close.
async fn conclude(end: End, wire: Wire, client: &Arc<Client>) {
    let progress = &client.progress;
    let refusal = match end {
        End::Fault(Fault::SlowHead) if progress.head_begun() => Refusal::HeadTimeout,
        End::Fault(_) => return,
        End::Done(Err(_)) if progress.target_too_long() => Refusal::TargetTooLong,
        End::Done(result) => {
            // hyper has answered with 400 or 431.
            if result.is_err_and(|e| e.is_parse()) {
                let mut record = Record::without_head(Arc::clone(client));
                record.set(StatusCode::BAD_REQUEST, Ending::BadRequest);
                drop(record);
                linger::close(wire.into_socket(), b"").await;
            } else if progress.lingers() {
                linger::close(wire.into_socket(), b"").await;
            }
            return;
        }
    };
    let mut record = Record::without_head(Arc::clone(client));
    let (status, ending) = refusal.outcome();
    record.set(status, ending);
    let last = reply::raw(record.id, &refusal);
    drop(record);
    linger::close(wire.into_socket(), &last).await;
}

/// One request.
async fn handle<B: Backend>(
    request: http::Request<Incoming>,
    shared: &Shared<B>,
    client: &Arc<Client>,
) -> Result<http::Response<ReplyBody>, Infallible> {
    let (head, body) = request.into_parts();
    let mut record = Record::begin(Arc::clone(client), &head, !body.is_end_stream());
    let result = answer(&head, body, shared, &mut record).await;
    let mut response = match result {
        Ok(response) => {
            record.set(response.status(), Ending::Ok);
            response
        }
        Err(refusal) => {
            reply::report(record.id, &refusal);
            let (status, ending) = refusal.outcome();
            record.set(status, ending);
            reply::refused(record.id, &refusal, &head.method)
        }
    };
    if record.unread {
        client.progress.set_linger();
    }
    // Relaxed: `Shared::leave` stores it on this thread. hyper is told of a stop only between two polls, maybe after this response.
    if record.unread || shared.leaving.load(Ordering::Relaxed) {
        response
            .headers_mut()
            .insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response.map(|content| ReplyBody::new(content, record)))
}

async fn answer<B: Backend>(
    head: &request::Parts,
    body: Incoming,
    shared: &Shared<B>,
    record: &mut Record,
) -> Result<http::Response<Content>, Refusal> {
    check::head(head)?;
    if head.uri.path() == "*" {
        return Ok(reply::options(check::ALLOW_ANY));
    }
    let path = route::decode(head.uri.path())?;
    let announced = params::announced_length(&head.headers);
    let first = shared.sites.open().await.map_err(Refusal::Broken)?;
    let mut site = &*first;
    let (mut pool, mut router) = site.pick(head, &path);
    let mut route = router.route(&path, &shared.files, record.started)?;
    let (mut received, newer) = (RequestBody::Empty, OnceCell::new());
    if record.unread && matches!(route, Route::Script(_)) {
        // Boxed, as are files: their states would make the future of every request, which hyper moves, larger.
        received = Box::pin(body::receive(body, announced, &site.config)).await?;
        record.unread = false;
        // The site may be another by now, and the pools of the first one may be gone.
        let now = shared.sites.open().await.map_err(Refusal::Broken)?;
        site = newer.get_or_init(|| now);
        (pool, router) = site.pick(head, &path);
        route = router.route(&path, &shared.files, record.started)?;
    }
    let script = match route {
        Route::File(file) => return Box::pin(static_files::serve(head, file)).await,
        Route::AddSlash(location) => return Ok(reply::moved(&location, head.uri.query())),
        Route::Script(script) => script,
    };
    let chunked = head.headers.contains_key(header::TRANSFER_ENCODING);
    let source = Source {
        id: record.id,
        head,
        script: &script,
        root: router.root(),
        addresses: &record.client.addresses,
        body: (announced.is_some() || chunked).then(|| received.len()),
    };
    let request = Request {
        id: record.id,
        head: params::encode(&source),
        body: received,
        idempotent: is_idempotent(head),
    };
    let response = shared
        .backend
        .send((&site.pools, pool), request)
        .await
        .map_err(Refusal::Dispatch)?;
    record.worker = Some(response.worker);
    Ok(reply::from_script(response, &head.method))
}

/// RFC 9110 §9.2.2; or its sender says so (draft-ietf-httpapi-idempotency-key-header).
fn is_idempotent(head: &request::Parts) -> bool {
    let by_method = matches!(
        head.method,
        Method::GET | Method::HEAD | Method::OPTIONS | Method::PUT | Method::DELETE
    );
    by_method || head.headers.contains_key("idempotency-key")
}

/// What is known of a request when it ends. Dropping it ends the exchange: one line in the access log, and the connection is idle.
pub(super) struct Record {
    client: Arc<Client>,
    id: RequestId,
    started: Instant,
    head: Option<Head>,
    status: StatusCode,
    ending: Ending,
    bytes: u64,
    worker: Option<u16>,
    unread: bool,
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
    fn begin(client: Arc<Client>, head: &request::Parts, unread: bool) -> Self {
        let shown = client.log.is_some().then(|| Head {
            method: head.method.clone(),
            target: head.uri.clone(),
            version: head.version,
            referer: head.headers.get(header::REFERER).cloned(),
            agent: head.headers.get(header::USER_AGENT).cloned(),
        });
        let mut record = Self::without_head(client);
        record.head = shown;
        record.unread = unread;
        record.client.progress.enter(Phase::Exchange, record.started);
        record
    }

    /// Of a request that never became one.
    fn without_head(client: Arc<Client>) -> Self {
        Self {
            client,
            id: RequestId::next(),
            started: Instant::now(),
            head: None,
            status: StatusCode::BAD_REQUEST,
            // Until it is known better: the connection was dropped while the request ran.
            ending: Ending::ClientGone,
            bytes: 0,
            worker: None,
            unread: false,
        }
    }

    fn set(&mut self, status: StatusCode, ending: Ending) {
        self.status = status;
        self.ending = ending;
    }

    pub(super) fn set_ending(&mut self, ending: Ending) {
        self.ending = ending;
    }

    pub(super) fn add_bytes(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The client did not take the whole body.
    pub(super) fn broken_off(&mut self) {
        if self.ending == Ending::Ok {
            let stuck = self.client.progress.deadline(&self.client.config.limits);
            let stuck = stuck.is_some_and(|(at, fault)| fault == Fault::SlowReader && at <= Instant::now());
            self.ending = if stuck {
                Ending::WriteTimeout
            } else {
                Ending::ClientGone
            };
        }
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
        self.client.progress.enter(Phase::Idle, now);
        debug!(id = %self.id, status = self.status.as_u16(), worker = self.worker, ending = %self.ending, "request ended");
        let Some(log) = &self.client.log else { return };
        let head = self.head.as_ref();
        log.write(&Line {
            remote: self.client.addresses.remote(),
            method: head.map_or("-", |h| h.method.as_str()),
            target: head.map_or("-", |h| h.target.path_and_query().map_or("/", |t| t.as_str())),
            version: head.map_or(http::Version::HTTP_11, |h| h.version),
            status: self.status.as_u16(),
            bytes: self.bytes,
            referer: head.and_then(|h| h.referer.as_ref()).map(HeaderValue::as_bytes),
            agent: head.and_then(|h| h.agent.as_ref()).map(HeaderValue::as_bytes),
            duration: now.saturating_duration_since(self.started),
            id: self.id,
            worker: self.worker,
            ending: self.ending,
        });
    }
}
