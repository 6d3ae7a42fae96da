//! A worker's response, head checked, body as a stream.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use http_body::{Body, Frame, SizeHint};

use super::DispatchError;

/// What the worker answered. Header values are checked: no CR, LF or NUL.
#[derive(Debug)]
pub struct Response {
    /// 200–999.
    pub status: StatusCode,
    /// Text of a status line set by the script (`header("HTTP/1.1 404 Gone fishing")`), empty by default.
    pub reason: Bytes,
    /// As the script sent them, in order.
    pub headers: HeaderMap,
    /// The rest.
    pub body: ResponseBody,
    /// Number of the worker that answered, for the access log.
    pub worker: u16,
}

/// The body: whole, or a stream that ends early with an error when its worker dies.
pub enum ResponseBody {
    /// Complete when the head arrived; `None` once it was taken.
    Whole(Option<Bytes>),
    /// Still being produced (or larger than a lane).
    Stream(Pin<Box<dyn Body<Data = Bytes, Error = DispatchError> + Send>>),
}

impl std::fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Whole(bytes) => write!(f, "Whole({} bytes)", bytes.as_ref().map_or(0, Bytes::len)),
            Self::Stream(_) => f.write_str("Stream"),
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = DispatchError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, DispatchError>>> {
        match self.get_mut() {
            Self::Whole(bytes) => {
                Poll::Ready(bytes.take().filter(|b| !b.is_empty()).map(|b| Ok(Frame::data(b))))
            }
            Self::Stream(body) => body.as_mut().poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.as_ref().is_none_or(Bytes::is_empty),
            Self::Stream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Self::Stream(body) => body.size_hint(),
        }
    }
}
