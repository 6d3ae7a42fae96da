//! HTTP/1: hyper, its deadlines, and how a connection ends.
//!
//! No task, timer or box is made for a request; the connection has one timer, which is armed anew only when it fires or when a deadline
//! comes nearer. Called by `connection`. Runs in: server, on one reactor.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::StatusCode;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{HttpService, service_fn};
use tokio::time::{Instant, Sleep, sleep_until};

use super::connection::{Client, Shared};
use super::record::Record;
use super::reply::{self, Ending, Refusal};
use super::reply_body::ReplyBody;
use super::wire::{Fault, Phase, Progress, Wire};
use super::{Backend, exchange, linger};
use crate::config::Limits;

/// hyper's own default; asking for it would make hyper allocate the headers' table for each request.
const HYPER_HEADERS: usize = 100;
/// Longest time between two looks at a connection's deadlines while none is near.
const LOOK: Duration = Duration::from_mins(1);

/// Serves the connection until either side ends it.
pub(super) async fn serve<B: Backend>(wire: Wire, shared: &Shared<B>, client: &Arc<Client>) {
    let limits = &client.config.limits;
    let service = service_fn(|request| exchange::handle(request, shared, client));
    let mut connection = builder(limits).serve_connection(wire, service);
    let end = run(&mut connection, shared, (&client.progress, limits)).await;
    let wire = connection.into_parts().io;
    conclude(end, wire, client).await;
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
        let stopping = shared.is_stopping();
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
