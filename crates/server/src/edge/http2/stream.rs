//! One stream of HTTP/2: a request, its response, and the body of it as fast as the client makes room.
//!
//! Called by `http2`. Runs in: server, a task on a reactor.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, SendStream};
use http::header::{self, HeaderMap, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body::Body;
use tokio::time::{Instant, timeout};

use super::Upload;
use crate::config::Limits;
use crate::dispatch::Interim;
use crate::edge::connection::{Client, Shared};
use crate::edge::record::Record;
use crate::edge::reply::body::ReplyBody;
use crate::edge::reply::{self, Ending};
use crate::edge::{Backend, exchange};

/// Of HTTP/1's connection; RFC 9113 §8.2.2 forbids them.
const OF_CONNECTION: [header::HeaderName; 3] =
    [header::CONNECTION, header::TRANSFER_ENCODING, header::UPGRADE];
/// Most that the interim heads of one response may have together, in bytes: h2 keeps heads until they are sent, and HTTP/2 has no flow
/// control for them. What comes after them is dropped, as it is only a hint (docs/http.md).
const INTERIM_BYTES: usize = 64 * 1024;
/// What a line of a head counts beyond its name and value.
const LINE_BYTES: usize = 32;

/// Answers one request.
pub(super) async fn serve<B: Backend>(
    request: Request<Upload>,
    mut respond: SendResponse<Bytes>,
    shared: Arc<Shared<B>>,
    client: Arc<Client>,
) {
    let (mut head, body) = request.into_parts();
    let mut record = Record::begin(Arc::clone(&client), &mut head, !body.is_end_stream());
    if record.unread && asks_to_continue(&head.headers) {
        let mut interim = Response::new(());
        *interim.status_mut() = StatusCode::CONTINUE;
        // A connection that has failed fails below, too.
        let _ = respond.send_informational(interim);
    }
    let interim = Arc::new(Interim::default());
    record.interim = Some(Arc::clone(&interim));
    let mut room = INTERIM_BYTES;
    let response = {
        let mut answering = pin!(exchange::respond(&head, body, &shared, &mut record));
        poll_fn(|cx| {
            if respond.poll_reset(cx).is_ready() {
                return Poll::Ready(None);
            }
            let answer = answering.as_mut().poll(cx);
            for (status, headers) in interim.take() {
                room = room.saturating_sub(size(&headers));
                if room == 0 {
                    break;
                }
                let mut response = Response::new(());
                (*response.status_mut(), *response.headers_mut()) = (status, headers);
                // As above.
                let _ = respond.send_informational(response);
            }
            answer.map(Some)
        })
        .await
    };
    let Some(response) = response else {
        // The record says that the client has gone.
        client.progress.end_stream(true);
        return;
    };
    let (mut parts, content) = response.into_parts();
    for name in OF_CONNECTION {
        parts.headers.remove(name);
    }
    parts.headers.entry(header::DATE).or_insert_with(reply::date);
    let body = ReplyBody::new(content, record);
    let ended = body.is_end_stream();
    if !ended && let Some(length) = body.size_hint().exact() {
        let length = || HeaderValue::from(length);
        parts.headers.entry(header::CONTENT_LENGTH).or_insert_with(length);
    }
    let announced = reply::announced_length(&parts.headers);
    let sent = match respond.send_response(Response::from_parts(parts, ()), ended) {
        Ok(_) if ended => Ok(()),
        Ok(stream) => send(stream, body, announced, &client).await,
        Err(_) => Err(Gone),
    };
    client.progress.end_stream(sent.is_err());
}

/// The size of a block of headers, as `SETTINGS_MAX_HEADER_LIST_SIZE` counts it (RFC 9113 §6.5.2), with its status.
fn size(headers: &HeaderMap) -> usize {
    let lines = headers.iter();
    let sizes = lines.map(|(name, value)| name.as_str().len() + value.len() + LINE_BYTES);
    LINE_BYTES + sizes.sum::<usize>()
}

/// The client takes no more of it.
struct Gone;

/// How fast a client takes a response, once it lets the server wait.
#[derive(Debug, Default)]
struct Pace {
    waited: Duration,
    /// Bytes since it first did.
    taken: u64,
}

impl Pace {
    fn took(&mut self, bytes: usize) {
        if !self.waited.is_zero() {
            self.taken += bytes as u64;
        }
    }

    /// How long it may take until there is room again, as for a connection of HTTP/1; so many streams share the least rate.
    fn patience(&self, limits: &Limits, streams: u32) -> Duration {
        let shared = self.taken.saturating_mul(u64::from(streams.max(1)));
        let Some(seconds) = shared.checked_div(limits.write_min_rate) else {
            return limits.write_timeout;
        };
        let allowed = limits.write_timeout.max(Duration::from_secs(seconds));
        allowed.saturating_sub(self.waited).min(limits.write_timeout)
    }
}

/// Sends the body, of which `left` bytes are announced, if any number is.
async fn send(
    mut stream: SendStream<Bytes>,
    body: ReplyBody,
    mut left: Option<u64>,
    client: &Client,
) -> Result<(), Gone> {
    let mut body = pin!(body);
    let mut pace = Pace::default();
    loop {
        // Room first: a body that nobody takes must not be made.
        stream.reserve_capacity(1);
        if stream.capacity() == 0 && !has_room(&mut stream, (client, &mut pace), body.as_mut()).await? {
            continue;
        }
        let frame = poll_fn(|cx| {
            if stream.poll_reset(cx).is_ready() {
                return Poll::Ready(Err(Gone));
            }
            body.as_mut().poll_frame(cx).map(Ok)
        });
        let (mut data, is_over) = match frame.await? {
            Some(Ok(frame)) => (frame.into_data().unwrap_or_default(), false),
            None if left.is_none_or(|left| left == 0) => (Bytes::new(), true),
            // It broke off, or fell short: the client has to see it.
            Some(Err(_)) | None => {
                stream.send_reset(Reason::INTERNAL_ERROR);
                return Ok(());
            }
        };
        let is_last = match &mut left {
            Some(left) => {
                data.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= data.len() as u64;
                *left == 0
            }
            None => is_over || body.is_end_stream(),
        };
        pace.took(data.len());
        stream.send_data(data, is_last).map_err(|_| Gone)?;
        if is_last {
            return Ok(());
        }
    }
}

/// Waits until something can be sent. False: look again.
async fn has_room(
    stream: &mut SendStream<Bytes>,
    (client, pace): (&Client, &mut Pace),
    body: Pin<&mut ReplyBody>,
) -> Result<bool, Gone> {
    let room = poll_fn(|cx| {
        if stream.poll_reset(cx).is_ready() {
            return Poll::Ready(Err(Gone));
        }
        match stream.poll_capacity(cx) {
            Poll::Ready(Some(Ok(room))) => Poll::Ready(Ok(room > 0)),
            Poll::Ready(Some(Err(_)) | None) => Poll::Ready(Err(Gone)),
            Poll::Pending => Poll::Pending,
        }
    });
    let since = Instant::now();
    let patience = pace.patience(&client.config.limits, client.progress.open());
    if let Ok(room) = timeout(patience, room).await {
        pace.waited += since.elapsed();
        return room;
    }
    body.get_mut().set_ending(Ending::WriteTimeout);
    stream.send_reset(Reason::CANCEL);
    Err(Gone)
}

fn asks_to_continue(headers: &HeaderMap) -> bool {
    let value = headers.get(header::EXPECT);
    value.is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_may_pause_until_it_is_slower_than_it_may_be() {
        let limits = Limits {
            write_timeout: Duration::from_mins(1),
            write_min_rate: 500,
            ..Limits::default()
        };
        let seconds = Duration::from_secs;
        let after = |waited: u64, taken: u64| Pace {
            waited: seconds(waited),
            taken,
        };
        assert_eq!(after(0, 0).patience(&limits, 1), seconds(60));
        assert_eq!(after(59, 1).patience(&limits, 1), seconds(1));
        assert_eq!(after(60, 1).patience(&limits, 1), Duration::ZERO);
        assert_eq!(after(60, 500 * 70).patience(&limits, 1), seconds(10));
        // Of a hundred streams each is as slow as one may be together.
        assert_eq!(after(60, 5 * 70).patience(&limits, 100), seconds(10));
        let any = Limits {
            write_min_rate: 0,
            ..limits
        };
        assert_eq!(after(6000, 1).patience(&any, 1), seconds(60));
    }
}
