//! The body of every response, and the record that is written when it ends.
//!
//! hyper drops a body when its last byte was taken or its connection ended; that is the one place where a request is over.
//! Called by hyper. Runs in: server, on a reactor.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::dispatch::{DispatchError, ResponseBody};
use crate::edge::files::body::FileBody;
use crate::edge::packing::Packer;
use crate::edge::record::Record;
use crate::edge::reply::{self, Ending};

/// A stream from a worker.
pub(in crate::edge) type Stream = Pin<Box<dyn Body<Data = Bytes, Error = DispatchError> + Send>>;

/// Why a body broke off. hyper ends the connection without the final bytes, so that the client sees it.
#[derive(Debug, thiserror::Error)]
pub(in crate::edge) enum BrokenOff {
    #[error(transparent)]
    Dispatch(#[from] DispatchError),
    #[error("reading the file: {0}")]
    File(#[from] std::io::Error),
    #[error("the script announced more bytes than it sent")]
    TooShort,
    #[error("compressing: {0}")]
    Pack(std::io::Error),
}

impl BrokenOff {
    fn ending(&self) -> Ending {
        match self {
            Self::Dispatch(error) => reply::dispatch_outcome(error).1,
            Self::File(_) | Self::Pack(_) => Ending::Internal,
            Self::TooShort => Ending::BadResponse,
        }
    }
}

/// Where the bytes come from.
pub(in crate::edge) enum Content {
    /// Nowhere.
    Empty,
    /// They are here.
    Whole(Bytes),
    /// Fewer than the headers announce.
    TooShort(Option<Bytes>),
    /// A worker makes them; so many are announced, if any number is.
    Stream(Stream, Option<u64>),
    /// The worker's bytes may not be sent (HEAD, 204, 205, 304).
    Discarded(ResponseBody),
    /// A file.
    File(FileBody),
    /// Any of them, compressed on its way.
    Packed(Box<Packer>),
}

/// A [`Content`] with the record of its request.
pub(in crate::edge) struct ReplyBody {
    content: Content,
    record: Record,
    complete: bool,
    failed: Option<BrokenOff>,
}

impl ReplyBody {
    pub(in crate::edge) fn new(content: Content, record: Record) -> Self {
        let content = match content {
            Content::Whole(bytes) if bytes.is_empty() => Content::Empty,
            Content::Discarded(body) => {
                record.discard(body);
                Content::Empty
            }
            other => other,
        };
        let complete = matches!(content, Content::Empty);
        Self {
            content,
            record,
            complete,
            failed: None,
        }
    }

    /// Its client is to blame for what is missing.
    pub(in crate::edge) fn set_ending(&mut self, ending: Ending) {
        self.record.set_ending(ending);
    }

    /// hyper drops a stream once the announced bytes are out.
    fn is_announced_end(&self) -> bool {
        matches!(&self.content, Content::Stream(_, Some(length)) if self.record.bytes() >= *length)
    }

    fn poll_content(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        match &mut self.content {
            Content::Empty | Content::Discarded(_) => Poll::Ready(None),
            Content::Whole(bytes) => {
                let bytes = std::mem::take(bytes);
                self.content = Content::Empty;
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Content::TooShort(bytes) => Poll::Ready(Some(match bytes.take() {
                Some(bytes) => Ok(Frame::data(bytes)),
                None => Err(BrokenOff::TooShort),
            })),
            Content::Stream(stream, _) => stream.as_mut().poll_frame(cx).map_err(BrokenOff::from),
            Content::File(file) => file.poll_chunk(cx).map(|next| next.map(|r| Ok(Frame::data(r?)))),
            Content::Packed(packer) => packer.poll_frame(cx),
        }
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        let this = self.get_mut();
        if let Some(error) = this.failed.take() {
            return Poll::Ready(Some(Err(error)));
        }
        let polled = this.poll_content(cx);
        match polled {
            Poll::Pending => {}
            Poll::Ready(None) => this.complete = true,
            Poll::Ready(Some(Ok(ref frame))) => {
                this.record.add_bytes(frame.data_ref().map_or(0, Bytes::len));
                this.complete = this.is_end_stream() || this.is_announced_end();
            }
            Poll::Ready(Some(Err(error))) => {
                this.record.set_ending(error.ending());
                this.failed = Some(error);
                // hyper throws away what it has not written when a body fails. Pending lets it write that first.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Empty | Content::Discarded(_) => true,
            Content::Whole(_) | Content::TooShort(_) => false,
            Content::Stream(stream, _) => stream.is_end_stream(),
            Content::File(file) => file.is_end(),
            Content::Packed(packer) => packer.is_end(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Empty | Content::Discarded(_) => SizeHint::with_exact(0),
            Content::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            // Unknown: hyper counts by the script's header then, and would take our word for it otherwise.
            Content::TooShort(_) | Content::Stream(..) | Content::Packed(_) => SizeHint::default(),
            Content::File(file) => SizeHint::with_exact(file.remaining()),
        }
    }
}

impl Drop for ReplyBody {
    fn drop(&mut self) {
        if !self.complete {
            self.record.broken_off();
        }
    }
}
