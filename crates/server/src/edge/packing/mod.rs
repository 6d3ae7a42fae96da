//! Compression of answers on the fly: which are, what becomes of their headers, and the body that is compressed as it is sent.
//!
//! A short answer is compressed in one go. A longer one a slice at a turn: compressing takes a hundred times as long as sending, and
//! the other connections of the reactor have their turn in between. A script that pauses is flushed, so that its client sees what it
//! has said. `coding` says what a client takes, `encoder` compresses. Called by `exchange` and `files`, and by
//! `reply::body` for the bytes. Runs in: server, on a reactor.

pub(super) mod coding;
pub(super) mod encoder;

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderMap};
use http::{Method, Response, StatusCode, request};
use http_body::Frame;
use tokio::time::{Sleep, sleep};

use self::coding::Accepted;
use self::encoder::Encoder;
use super::files::body::FileBody;
use super::reply::announced_length;
use super::reply::body::{BrokenOff, Content, Stream};
use crate::config::{Coding, Compression};
use crate::dispatch::held::{self, Held};

/// What is compressed in one go takes half a millisecond.
const AT_ONCE: usize = 32 * 1024;
/// Bytes that are compressed at a turn.
const SLICE: usize = 16 * 1024;
/// Bytes that are worth a write.
const WORTH: usize = 16 * 1024;
/// How long a script must have said nothing until what it has said is flushed. Shorter pauses are those between two `echo`.
const PAUSE: Duration = Duration::from_millis(5);

/// A script's response, compressed if client, settings and the response itself are for it.
pub(super) fn answer(
    head: &request::Parts,
    mut response: Response<Content>,
    settings: &Compression,
) -> Response<Content> {
    if settings.algorithms.is_empty() || !may_be(&response, settings) {
        return response;
    }
    let least = settings.min_size.0;
    let announced = announced_length(response.headers());
    let length = match response.body() {
        Content::Whole(bytes) => Some(bytes.len() as u64),
        Content::Stream(_, length) => *length,
        Content::Discarded(_) => announced,
        _ => return response,
    };
    if length.is_some_and(|length| length < least) {
        return response;
    }
    coding::put_vary(response.headers_mut());
    let Some(coding) = Accepted::of(&head.headers).best(&settings.algorithms) else {
        return response;
    };
    // Whether a GET would be long enough is not known then.
    if head.method == Method::HEAD && length.is_none() {
        return response;
    }
    // An encoder has more than a response is held to then.
    let at_once = matches!(response.body(), Content::Whole(bytes) if bytes.len() <= AT_ONCE);
    if !at_once && held::is_scarce() {
        return response;
    }
    let (mut parts, content) = response.into_parts();
    let content = match content {
        Content::Whole(bytes) if bytes.len() <= AT_ONCE => match encoder::pack(coding, settings, &bytes) {
            Ok(packed) if packed.len() < bytes.len() => Content::Whole(packed),
            _ => return Response::from_parts(parts, Content::Whole(bytes)),
        },
        Content::Whole(bytes) => match Packer::new(Source::Whole, coding, settings) {
            Some(packer) => Content::Packed(Box::new(packer.after(bytes))),
            None => return Response::from_parts(parts, Content::Whole(bytes)),
        },
        Content::Stream(stream, length) => {
            let Some(mut packer) = Packer::new(Source::Whole, coding, settings) else {
                return Response::from_parts(parts, Content::Stream(stream, length));
            };
            packer.source = Source::Stream(stream, length);
            Content::Packed(Box::new(packer))
        }
        other => other,
    };
    put_coding(&mut parts.headers, coding);
    Response::from_parts(parts, content)
}

/// What the headers say of a body that is coded on the fly.
pub(super) fn put_coding(headers: &mut HeaderMap, coding: Coding) {
    headers.insert(header::CONTENT_ENCODING, coding::name(coding));
    headers.remove(header::CONTENT_LENGTH);
    headers.remove(header::ACCEPT_RANGES);
    coding::weaken(headers);
}

/// Whether the response may be compressed, whoever asks for it.
fn may_be(response: &Response<Content>, settings: &Compression) -> bool {
    let headers = response.headers();
    let has_body = !matches!(
        response.status(),
        StatusCode::NO_CONTENT
            | StatusCode::RESET_CONTENT
            | StatusCode::PARTIAL_CONTENT
            | StatusCode::NOT_MODIFIED
    );
    has_body
        && coding::is_packable(headers.get(header::CONTENT_TYPE), settings)
        && !headers.contains_key(header::CONTENT_ENCODING)
        && !headers.contains_key(header::CONTENT_RANGE)
        && !coding::is_fixed(headers)
}

/// Where the bytes come from.
enum Source {
    /// They are all here.
    Whole,
    /// A worker makes them; so many are still announced, if any number is.
    Stream(Stream, Option<u64>),
    /// A file.
    File(FileBody),
}

/// A body that is compressed as it is sent.
pub(super) struct Packer {
    source: Source,
    /// Until its end was sent.
    encoder: Option<Encoder>,
    /// Not compressed yet.
    waiting: Bytes,
    /// Something was compressed and not flushed.
    unflushed: bool,
    /// It had its turn.
    tired: bool,
    pause: Option<Pin<Box<Sleep>>>,
    trailers: Option<Frame<Bytes>>,
    _held: Held,
}

impl Packer {
    fn new(source: Source, coding: Coding, settings: &Compression) -> Option<Self> {
        let mut held = Held::default();
        held.set(encoder::memory(coding));
        Some(Self {
            _held: held,
            source,
            encoder: Some(Encoder::new(coding, settings).ok()?),
            waiting: Bytes::new(),
            unflushed: false,
            tired: false,
            pause: None,
            trailers: None,
        })
    }

    /// Of a whole file; `None` where there is no memory for it.
    pub(super) fn of_file(file: FileBody, coding: Coding, settings: &Compression) -> Option<Self> {
        Self::new(Source::File(file), coding, settings)
    }

    fn after(mut self, bytes: Bytes) -> Self {
        self.waiting = bytes;
        self
    }

    pub(super) fn is_end(&self) -> bool {
        self.encoder.is_none() && self.trailers.is_none()
    }

    pub(super) fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        if std::mem::take(&mut self.tired) {
            give_way(cx);
            return Poll::Pending;
        }
        loop {
            let Some(encoder) = &mut self.encoder else {
                return Poll::Ready(self.trailers.take().map(Ok));
            };
            if !self.waiting.is_empty() {
                let slice = self.waiting.split_to(self.waiting.len().min(SLICE));
                encoder.feed(&slice).map_err(BrokenOff::Pack)?;
                self.unflushed = true;
                self.tired = true;
                if let Some(out) = encoder.take(WORTH) {
                    return Poll::Ready(Some(Ok(Frame::data(out))));
                }
                self.tired = false;
                give_way(cx);
                return Poll::Pending;
            }
            match self.source.poll_next(cx) {
                Poll::Ready(Some(frame)) => {
                    self.pause = None;
                    match frame?.into_data() {
                        Ok(data) => self.waiting = data,
                        Err(trailers) => self.trailers = Some(trailers),
                    }
                }
                Poll::Ready(None) => {
                    let rest = self.encoder.take().map(Encoder::finish);
                    let rest = rest.transpose().map_err(BrokenOff::Pack)?.unwrap_or_default();
                    return Poll::Ready(Some(Ok(Frame::data(rest))));
                }
                Poll::Pending => return self.poll_flush(cx),
            }
        }
    }

    /// Nothing comes in at the moment.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        let (Some(encoder), Source::Stream(..), true) = (&mut self.encoder, &self.source, self.unflushed)
        else {
            return Poll::Pending;
        };
        let pause = self.pause.get_or_insert_with(|| Box::pin(sleep(PAUSE)));
        ready!(pause.as_mut().poll(cx));
        self.pause = None;
        self.unflushed = false;
        encoder.flush().map_err(BrokenOff::Pack)?;
        match encoder.take(1) {
            Some(out) => Poll::Ready(Some(Ok(Frame::data(out)))),
            None => Poll::Pending,
        }
    }
}

/// Comes again when the runtime has looked what has come in meanwhile; a task that is only woken comes before that, and two of them
/// would let 61 turns pass (tokio's `event_interval`).
fn give_way(cx: &mut Context<'_>) {
    let _ = pin!(tokio::task::yield_now()).poll(cx);
}

impl Source {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        match self {
            Self::File(file) => file
                .poll_chunk(cx)
                .map(|next| next.map(|chunk| Ok(Frame::data(chunk?)))),
            Self::Whole | Self::Stream(_, Some(0)) => Poll::Ready(None),
            Self::Stream(stream, length) => {
                let Some(frame) = ready!(stream.as_mut().poll_frame(cx)) else {
                    // What was announced did not come: the client must not take it for all there is.
                    return Poll::Ready(length.map(|_| Err(BrokenOff::TooShort)));
                };
                let mut frame = frame?;
                if let (Some(left), Some(data)) = (length, frame.data_mut()) {
                    data.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
                    *left -= data.len() as u64;
                }
                Poll::Ready(Some(Ok(frame)))
            }
        }
    }
}

#[cfg(test)]
mod tests;
