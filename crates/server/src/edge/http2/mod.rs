//! HTTP/2: a connection of streams, each of which is one exchange.
//!
//! h2 keeps the rules of the protocol and its flow control; here are limits, deadlines, and how a connection ends. Each stream is a
//! task, so that the connection writes what several of them have to say at once: see `stream`. `wire` has `frames` and `fields` look at
//! all that is read before h2 does. `upgrade` makes HTTP/2 of HTTP/1. Called by `connection`. Runs in: server, on one
//! reactor.

mod fields;
pub(super) mod frames;
mod stream;
pub(super) mod upgrade;
mod wire;

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use h2::server::{Connection, SendResponse};
use h2::{Reason, RecvStream};
use http::Request;
use http_body::{Body, Frame};
use tokio::time::{Instant, sleep_until, timeout};

use self::wire::Wire;
use super::Backend;
use super::connection::{Client, Shared};
use super::progress::{Fault, Phase};
use super::timer::Timer;
use super::transport::Transport;
use crate::config::Limits;

/// Streams of a connection at a time, as with nginx.
const STREAMS: u32 = 128;
/// Bytes of a request's body, and of all of a connection's, that may be on their way. Bodies are taken as they come, so these bound the
/// speed of an upload, not its memory.
const STREAM_WINDOW: u32 = 256 * 1024;
const WINDOW: u32 = 1024 * 1024;
/// Bytes of a response that wait for the connection.
const SEND_BUFFER: usize = 128 * 1024;
/// Streams that a client may spoil before its connection ends: decoding what is thrown away costs more than sending it.
const SPOILED: usize = 32;
/// Requests that a client may take back, whatever it does else.
const TAKEN_BACK: u32 = 100;
/// How long a connection that is over may take to say so.
const FAREWELL: Duration = Duration::from_secs(2);

type Streams = Connection<Wire, Bytes>;

/// Serves the connection until either side ends it.
pub(super) async fn serve<B: Backend>(socket: Transport, shared: &Arc<Shared<B>>, client: &Arc<Client>) {
    let limits = &client.config.limits;
    let wire = Wire::new(socket, Arc::clone(&client.progress), limits);
    let handshake = builder(limits).handshake(wire);
    let Ok(Ok(mut connection)) = timeout(limits.header_timeout, handshake).await else {
        return;
    };
    // The preface has come: from now on the client may take its time.
    client.progress.enter(Phase::Idle, Instant::now());
    match run(&mut connection, shared, client).await {
        // Of the second the socket takes nothing any more.
        End::Done | End::Fault(Fault::SlowReader) => return,
        End::Fault(Fault::Idle) => connection.graceful_shutdown(),
        End::Fault(Fault::SlowHead) | End::Noise => connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM),
    }
    let _ = timeout(FAREWELL, poll_fn(|cx| connection.poll_closed(cx))).await;
}

fn builder(limits: &Limits) -> h2::server::Builder {
    let header_bytes = u32::try_from(limits.header_bytes.0).unwrap_or(u32::MAX);
    let mut builder = h2::server::Builder::new();
    builder
        .max_concurrent_streams(STREAMS)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_header_list_size(header_bytes)
        .max_send_buffer_size(SEND_BUFFER)
        .max_local_error_reset_streams(Some(SPOILED));
    builder
}

/// How a connection ended.
enum End {
    /// By the rules of HTTP/2, or because the client left.
    Done,
    /// By a deadline.
    Fault(Fault),
    /// The client sends what asks for nothing, or takes back what it asks for.
    Noise,
}

/// Accepts streams, ends the connection on a deadline and leads it to its end when the reactor leaves or stops.
async fn run<B: Backend>(connection: &mut Streams, shared: &Arc<Shared<B>>, client: &Arc<Client>) -> End {
    let progress = &client.progress;
    let mut left = pin!(shared.left.notified());
    let mut stopped = pin!(shared.stopped.notified());
    let mut farewell = pin!(None);
    let mut sleep = pin!(sleep_until(Instant::now() + client.config.limits.idle_timeout));
    let mut timer = Timer::new(sleep.as_mut());
    let mut led_out = false;
    poll_fn(move |cx| {
        shared.backend.look();
        // Polled until it has come, so that its wake-up is registered.
        let leaving = shared.is_leaving() || left.as_mut().poll(cx).is_ready();
        if leaving && !led_out {
            led_out = true;
            // Streams of the client that are on their way are still accepted: it has a round trip to hear of it.
            connection.graceful_shutdown();
        }
        loop {
            match connection.poll_accept(cx) {
                Poll::Ready(Some(Ok((request, respond)))) => {
                    begin(request, respond, shared, client);
                    if client.is_last_request() && !led_out {
                        led_out = true;
                        connection.graceful_shutdown();
                    }
                }
                Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(End::Done),
                Poll::Pending => break,
            }
        }
        if progress.is_noise() || progress.is_fickle(TAKEN_BACK) {
            return Poll::Ready(End::Noise);
        }
        let stopping = shared.is_stopping() || stopped.as_mut().poll(cx).is_ready();
        if stopping && progress.phase() == Phase::Idle {
            // A client that is gone does not answer the farewell.
            if farewell.is_none() {
                farewell.set(Some(tokio::time::sleep(FAREWELL)));
            }
            if let Some(farewell) = farewell.as_mut().as_pin_mut() {
                ready!(farewell.poll(cx));
                return Poll::Ready(End::Done);
            }
        }
        timer.check(cx, progress, &client.config.limits).map(End::Fault)
    })
    .await
}

fn begin<B: Backend>(
    request: Request<RecvStream>,
    respond: SendResponse<Bytes>,
    shared: &Arc<Shared<B>>,
    client: &Arc<Client>,
) {
    let serving = stream::serve(
        request.map(Upload),
        respond,
        Arc::clone(shared),
        Arc::clone(client),
    );
    shared.tasks().spawn(serving);
}

/// The body of a request. What was taken of it may be sent anew.
pub(super) struct Upload(RecvStream);

impl Body for Upload {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        let stream = &mut self.get_mut().0;
        match ready!(stream.poll_data(cx)) {
            Some(Ok(data)) => {
                let released = stream.flow_control().release_capacity(data.len());
                Poll::Ready(Some(released.map(|()| Frame::data(data))))
            }
            // The client wants no answer to the rest of its body, which is no error.
            Some(Err(error)) if error.reason() == Some(Reason::NO_ERROR) => Poll::Ready(None),
            // Trailers are dropped: CGI has no place for them.
            other => Poll::Ready(other.map(|result| result.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }
}
