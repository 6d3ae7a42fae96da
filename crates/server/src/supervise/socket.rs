//! A control socket on the supervisor's runtime: messages of `ipc::control`, without blocking. Runs in: server.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ipc::control::{self, Packet, Sender};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::Handle;

/// The server's end of a control socket.
#[derive(Debug)]
pub(crate) struct Socket(Option<AsyncFd<OwnedFd>>);

/// A message, who sent it if the socket was made to ask, and its descriptors.
#[derive(Debug)]
pub(crate) struct Received<T> {
    pub(crate) message: T,
    pub(crate) sender: Option<Sender>,
    pub(crate) fds: Vec<OwnedFd>,
}

impl Socket {
    #[expect(
        deprecated,
        reason = "the new constructor is unsafe for types whose as_raw_fd may change; an OwnedFd's never does"
    )]
    pub(crate) fn new(fd: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok(Self(Some(AsyncFd::with_interest(
            fd,
            Interest::READABLE | Interest::WRITABLE,
        )?)))
    }

    fn fd(&self) -> io::Result<&AsyncFd<OwnedFd>> {
        self.0.as_ref().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// The next message; `None` once the other side is gone. Cancel-safe.
    pub(crate) async fn receive<T: DeserializeOwned>(&self) -> io::Result<Option<Received<T>>> {
        let received = self
            .fd()?
            .async_io(Interest::READABLE, |fd| control::receive_packet(fd.as_fd()))
            .await;
        read(received)
    }

    /// The next message if one is there: used to read what a dead process left behind.
    pub(crate) fn receive_now<T: DeserializeOwned>(&self) -> io::Result<Option<Received<T>>> {
        match read(control::receive_packet(self.fd()?.get_ref().as_fd())) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            received => received,
        }
    }

    /// Returns once nobody holds the other end any more. Messages are left unread. Cancel-safe.
    pub(crate) async fn closed(&self) {
        // An error means that the runtime is shutting down: then nobody asks for the answer either.
        let Ok(fd) = self.fd() else { return };
        while let Ok(mut guard) = fd.readable().await {
            if guard.ready().is_read_closed() {
                return;
            }
            guard.clear_ready();
        }
    }

    /// Sends one message. Waits while the other side has not taken earlier ones (the kernel holds about ten).
    pub(crate) async fn send(&self, message: &impl Serialize, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.fd()?
            .async_io(Interest::WRITABLE, |fd| control::send(fd.as_fd(), message, fds))
            .await
    }
}

impl<T> Received<T> {
    /// A message that carries no descriptors; an error if it came with some.
    pub(crate) fn bare(self) -> io::Result<T> {
        if self.fds.is_empty() {
            return Ok(self.message);
        }
        let count = self.fds.len();
        close_elsewhere(self.fds);
        Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{count} descriptors with a message that has none"),
        ))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // With what nobody has read.
        if let Some(fd) = self.0.take() {
            close_elsewhere(vec![fd.into_inner()]);
        }
    }
}

/// Closes descriptors on a thread of its own: closing may take as long as whoever made them likes (`SO_LINGER`, a remote file).
pub(super) fn close_elsewhere(fds: Vec<OwnedFd>) {
    // At the end of the process there is no runtime any more.
    if let Ok(runtime) = Handle::try_current() {
        runtime.spawn_blocking(move || drop(fds));
    }
}

fn read<T: DeserializeOwned>(received: io::Result<Option<Packet>>) -> io::Result<Option<Received<T>>> {
    let packet = match received {
        Ok(Some(packet)) => packet,
        Ok(None) => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
        Err(error) => return Err(error),
    };
    let (message, sender) = (packet.message(), packet.sender);
    match message {
        Ok(message) => Ok(Some(Received {
            message,
            sender,
            fds: packet.fds,
        })),
        Err(error) => {
            close_elsewhere(packet.fds);
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{Future, poll_fn};
    use std::pin::pin;
    use std::task::Poll;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_socket_is_closed_once_the_last_holder_of_the_other_end_is_gone() {
        let (ours, theirs) = control::pair().unwrap();
        let socket = Socket::new(ours).unwrap();
        let held = theirs.try_clone().unwrap();
        control::send(theirs.as_fd(), &"unread", &[]).unwrap();
        drop(theirs);
        socket.fd().unwrap().readable().await.unwrap().retain_ready();
        let mut closed = pin!(socket.closed());
        poll_fn(|cx| {
            assert!(closed.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        drop(held);
        tokio::time::timeout(Duration::from_secs(20), closed)
            .await
            .unwrap();
    }
}
