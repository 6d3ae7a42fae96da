//! The body of a request, out of the records that carry it.
//!
//! Called by `edge::body`, which knows what may be kept in memory and how slow a client may be. Runs in: server, on a reactor.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame};
use tokio::io::{AsyncRead, AsyncWrite};

use super::wire::{Aside, Lost, Wire};

/// Why a body broke off.
#[derive(Debug)]
pub(super) enum BrokenOff {
    /// The connection is over.
    Lost(Lost),
    /// The web server has given the request up.
    Aborted,
    /// The body ended before the bytes were there that had been announced.
    TooShort,
}

/// The body of the request `id`.
pub(super) struct Stdin<'a, S> {
    wire: &'a mut Wire<S>,
    id: u16,
    /// Bytes still to come; `None`: nobody has said how many.
    left: Option<u64>,
    ended: bool,
    broken_off: Option<BrokenOff>,
}

impl<'a, S> Stdin<'a, S> {
    /// `announced`: so many bytes are its body; what follows them is dropped, as by php-fpm.
    pub(super) fn new(wire: &'a mut Wire<S>, id: u16, announced: Option<u64>) -> Self {
        Self {
            wire,
            id,
            left: announced,
            ended: false,
            broken_off: None,
        }
    }

    /// Why it broke off, if it did; and whether it was read to its end.
    pub(super) fn end(self) -> (Option<BrokenOff>, bool) {
        (self.broken_off, self.ended)
    }

    fn cut(&mut self, mut content: Bytes) -> Bytes {
        if let Some(left) = &mut self.left {
            content.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
            *left -= content.len() as u64;
        }
        content
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Stdin<'_, S> {
    fn poll_content(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BrokenOff>> {
        while !self.ended {
            let record = ready!(self.wire.poll_record(cx)).map_err(BrokenOff::Lost)?;
            let aside = self.wire.aside(record, Some(self.id));
            match aside.map_err(|bad| BrokenOff::Lost(bad.into()))? {
                Aside::Nothing => {}
                Aside::Aborted => return Poll::Ready(Err(BrokenOff::Aborted)),
                Aside::Stdin(content) if content.is_empty() => self.ended = true,
                Aside::Stdin(content) => {
                    let content = self.cut(content);
                    if !content.is_empty() {
                        return Poll::Ready(Ok(Some(content)));
                    }
                }
            }
        }
        if self.left.is_some_and(|left| left > 0) {
            return Poll::Ready(Err(BrokenOff::TooShort));
        }
        Poll::Ready(Ok(None))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Body for Stdin<'_, S> {
    type Data = Bytes;
    /// Told by [`Stdin::end`].
    type Error = ();

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, ()>>> {
        let this = self.get_mut();
        let polled = ready!(this.poll_content(cx));
        Poll::Ready(match polled {
            Ok(content) => content.map(|bytes| Ok(Frame::data(bytes))),
            Err(broken_off) => {
                this.broken_off = Some(broken_off);
                Some(Err(()))
            }
        })
    }
}
