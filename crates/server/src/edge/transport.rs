//! What a connection's bytes go over. An enum, so that plain TCP pays for no virtual call and no box.
//!
//! Made by `listen`, read and written by `http1::wire`, `http2::wire` and `linger`. Runs in: server, on one reactor.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::sendfile;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;

use super::peer::{Addresses, Scheme};

/// Bytes that the kernel takes of a response before it can send them. By default it is megabytes, which 1000 clients that read
/// nothing turn into gigabytes.
const UNSENT: u32 = 128 * 1024;
/// Bytes that are read ahead at once.
const AHEAD: usize = 2048;

/// A client's socket.
#[derive(Debug)]
pub(super) struct Transport {
    socket: Socket,
    /// Bytes that were read to see what is spoken, and are read again.
    before: Vec<u8>,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
    /// Over one of the others.
    Tls(Box<TlsStream<Transport>>),
}

/// How much of a response the kernel takes before it can send it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unsent {
    /// What keeps the network busy.
    Little,
    /// As much as its buffers hold.
    Any,
}

/// A socket that was accepted and belongs to no runtime yet.
#[derive(Debug)]
pub(super) enum Accepted {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
}

impl Accepted {
    /// Gives it to the runtime of this thread.
    pub(super) fn register(self) -> io::Result<Transport> {
        match self {
            Self::Tcp(socket) => {
                socket.set_nonblocking(true)?;
                // Small responses must not wait for an acknowledgement of the one before. A failure costs speed, nothing else.
                let _ = socket.set_nodelay(true);
                let _ = SockRef::from(&socket).set_tcp_notsent_lowat(UNSENT);
                TcpStream::from_std(socket).map(|socket| Transport::new(Socket::Tcp(socket)))
            }
            Self::Unix(socket) => {
                socket.set_nonblocking(true)?;
                UnixStream::from_std(socket).map(|socket| Transport::new(Socket::Unix(socket)))
            }
        }
    }
}

impl Transport {
    const fn new(socket: Socket) -> Self {
        Self {
            socket,
            before: Vec::new(),
        }
    }

    /// One that is encrypted.
    pub(super) fn encrypted(stream: TlsStream<Self>) -> Self {
        Self::new(Socket::Tls(Box::new(stream)))
    }

    /// What was read by [`Self::poll_ahead`] and will be read again.
    pub(super) fn before(&self) -> &[u8] {
        &self.before
    }

    /// Has these bytes read instead of those.
    pub(super) fn replace_before(&mut self, bytes: Vec<u8>) {
        self.before = bytes;
    }

    /// Reads more to look at before anybody else reads it; the number of bytes, 0 at the end.
    pub(super) fn poll_ahead(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut bytes = [0; AHEAD];
        let mut buf = ReadBuf::new(&mut bytes);
        ready!(self.socket.poll_read(cx, &mut buf))?;
        self.before.extend_from_slice(buf.filled());
        Poll::Ready(Ok(buf.filled().len()))
    }

    /// Ready when something has come in, or the end. Costs no system call.
    pub(super) fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &self.socket {
            Socket::Tcp(socket) => socket.poll_read_ready(cx),
            Socket::Unix(socket) => socket.poll_read_ready(cx),
            Socket::Tls(stream) => stream.get_ref().0.poll_readable(cx),
        }
    }

    /// Whether a client that sends no more still reads. `None`: over TCP it says so only once something is sent to it.
    pub(super) fn is_half_closed(&self) -> Option<bool> {
        let mut watched = [PollFd::new(self, PollFlags::empty())];
        let looked = poll(&mut watched, Some(&Timespec::default()));
        let [watched] = watched;
        if looked.is_ok() && watched.revents().intersects(PollFlags::HUP | PollFlags::ERR) {
            return Some(false);
        }
        match &self.socket {
            Socket::Tcp(_) => None,
            Socket::Unix(_) => Some(true),
            Socket::Tls(stream) => stream.get_ref().0.is_half_closed(),
        }
    }

    /// Who speaks with whom.
    pub(super) fn addresses(&self) -> io::Result<Addresses> {
        match &self.socket {
            Socket::Tcp(socket) => {
                let (remote, local) = (socket.peer_addr()?, socket.local_addr()?);
                Ok(Addresses::of_tcp(remote, local, Scheme::Http))
            }
            Socket::Unix(socket) => {
                let local = socket.local_addr()?;
                let path = local.as_pathname().map(|path| path.to_string_lossy());
                Ok(Addresses::of_unix(&path.unwrap_or_default(), Scheme::Http))
            }
            Socket::Tls(stream) => stream.get_ref().0.addresses(),
        }
    }

    /// How much the kernel takes before it can send it.
    pub(super) fn bound_unsent(&self, unsent: Unsent) {
        if let Socket::Tcp(socket) = &self.socket {
            let bytes = match unsent {
                Unsent::Little => UNSENT,
                Unsent::Any => u32::MAX,
            };
            // A failure costs speed or memory, nothing else.
            let _ = SockRef::from(socket).set_tcp_notsent_lowat(bytes);
        }
    }

    /// Has the kernel send `count` bytes of `file` from the place `at`, which moves on; fewer where fewer go out at once.
    pub(super) fn poll_send_file(
        &self,
        cx: &mut Context<'_>,
        file: &File,
        (at, count): (&mut u64, usize),
    ) -> Poll<io::Result<usize>> {
        loop {
            let sent = match &self.socket {
                Socket::Tcp(socket) => {
                    ready!(socket.poll_write_ready(cx))?;
                    socket.try_io(Interest::WRITABLE, || {
                        Ok(sendfile(socket, file, Some(&mut *at), count)?)
                    })
                }
                Socket::Unix(socket) => {
                    ready!(socket.poll_write_ready(cx))?;
                    socket.try_io(Interest::WRITABLE, || {
                        Ok(sendfile(socket, file, Some(&mut *at), count)?)
                    })
                }
                // There is no outbox then.
                Socket::Tls(_) => return Poll::Ready(Err(io::ErrorKind::Unsupported.into())),
            };
            match sent {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return Poll::Ready(other),
            }
        }
    }

    /// Whether bytes have come that nobody has read.
    pub(super) fn has_unread(&self) -> bool {
        !self.before.is_empty() || rustix::io::ioctl_fionread(self.as_fd()).unwrap_or(0) > 0
    }
}

impl Socket {
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(socket) => Pin::new(socket).poll_read(cx, buf),
            Self::Unix(socket) => Pin::new(socket).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsFd for Transport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Socket::Tcp(socket) => socket.as_fd(),
            Socket::Unix(socket) => socket.as_fd(),
            Socket::Tls(stream) => stream.get_ref().0.as_fd(),
        }
    }
}

impl AsyncRead for Transport {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.before.is_empty() {
            let room = buf.remaining().min(this.before.len());
            let rest = this.before.split_off(room);
            buf.put_slice(&std::mem::replace(&mut this.before, rest));
            return Poll::Ready(Ok(()));
        }
        this.socket.poll_read(cx, buf)
    }
}

impl AsyncWrite for Transport {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().socket {
            Socket::Tcp(socket) => Pin::new(socket).poll_write(cx, bytes),
            Socket::Unix(socket) => Pin::new(socket).poll_write(cx, bytes),
            Socket::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().socket {
            Socket::Tcp(socket) => Pin::new(socket).poll_flush(cx),
            Socket::Unix(socket) => Pin::new(socket).poll_flush(cx),
            Socket::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().socket {
            Socket::Tcp(socket) => Pin::new(socket).poll_shutdown(cx),
            Socket::Unix(socket) => Pin::new(socket).poll_shutdown(cx),
            Socket::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().socket {
            Socket::Tcp(socket) => Pin::new(socket).poll_write_vectored(cx, parts),
            Socket::Unix(socket) => Pin::new(socket).poll_write_vectored(cx, parts),
            Socket::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
        }
    }
}
