//! A control socket on the supervisor's runtime: messages of `ipc::control`, without blocking. Runs in: server.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ipc::control;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The server's end of a control socket.
#[derive(Debug)]
pub(crate) struct Socket(AsyncFd<OwnedFd>);

impl Socket {
    #[expect(
        deprecated,
        reason = "the new constructor is unsafe for types whose as_raw_fd may change; an OwnedFd's never does"
    )]
    pub(crate) fn new(fd: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok(Self(AsyncFd::with_interest(
            fd,
            Interest::READABLE | Interest::WRITABLE,
        )?))
    }

    /// The next message; `None` once the other side is gone. Cancel-safe.
    pub(crate) async fn receive<T: DeserializeOwned>(&self) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
        let received = self
            .0
            .async_io(Interest::READABLE, |fd| control::receive(fd.as_fd()))
            .await;
        gone_is_end(received)
    }

    /// The next message if one is there: used to read what a dead process left behind.
    pub(crate) fn receive_now<T: DeserializeOwned>(&self) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
        match gone_is_end(control::receive(self.0.get_ref().as_fd())) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            received => received,
        }
    }

    /// Returns once nobody holds the other end any more. Messages are left unread. Cancel-safe.
    pub(crate) async fn closed(&self) {
        // An error means that the runtime is shutting down: then nobody asks for the answer either.
        while let Ok(mut guard) = self.0.readable().await {
            if guard.ready().is_read_closed() {
                return;
            }
            guard.clear_ready();
        }
    }

    /// Sends one message. Waits while the other side has not taken earlier ones (the kernel holds about ten).
    pub(crate) async fn send(&self, message: &impl Serialize, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.0
            .async_io(Interest::WRITABLE, |fd| control::send(fd.as_fd(), message, fds))
            .await
    }
}

fn gone_is_end<T>(received: io::Result<Option<T>>) -> io::Result<Option<T>> {
    match received {
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(None),
        received => received,
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
        socket.0.readable().await.unwrap().retain_ready();
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
