//! HTTP/1: hyper, its deadlines, and how a connection ends.
//!
//! `wire` is the socket as hyper sees it, `framing` looks at all that is read before hyper does. No task, timer or box is made for a
//! request. Called by `connection`. Runs in: server, on one reactor.

mod framing;
mod wire;

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use http::StatusCode;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{HttpService, service_fn};
use tokio::time::{Instant, sleep_until};

use self::wire::Wire;
use super::connection::{Client, Shared};
use super::progress::{Fault, Phase, Progress};
use super::record::Record;
use super::reply::body::ReplyBody;
use super::reply::{self, Ending, Refusal};
use super::timer::Timer;
use super::transport::Transport;
use super::{Backend, exchange, linger};
use crate::config::Limits;

/// hyper's own default; asking for it would make hyper allocate the headers' table for each request.
const HYPER_HEADERS: usize = 100;

/// Serves the connection until either side ends it.
pub(super) async fn serve<B: Backend>(socket: Transport, shared: &Shared<B>, client: &Arc<Client>) {
    let limits = &client.config.limits;
    let outbox = client.outbox.clone().unwrap_or_default();
    let wire = Wire::new(socket, (Arc::clone(&client.progress), outbox), limits);
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
    let mut timer = Timer::new(sleep.as_mut());
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

/// What is left to do when hyper is done: answers that hyper cannot give, and a gentle close.
async fn conclude(end: End, wire: Wire, client: &Arc<Client>) {
    let progress = &client.progress;
    let refusal = match end {
        End::Fault(Fault::SlowHead) if progress.head_begun() => Refusal::HeadTimeout,
        End::Fault(Fault::SlowReader) => return,
        End::Fault(_) => return linger::part(wire.into_socket()).await,
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
