//! The packets that carry the messages: sending, receiving, and who has sent them.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::retry_on_intr;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::layout::MAX_REACTORS;

/// Bytes of a message.
const MAX_MESSAGE: usize = 128 * 1024;
/// Descriptors of a message that is sent: CTL, EST, REQ and an eventfd a reactor.
const MAX_FDS: usize = 4 + MAX_REACTORS;
/// Descriptors of a message that anybody can send: `SCM_MAX_FD` of Linux.
const MAX_RECEIVED_FDS: usize = 253;

/// Sends one message.
pub fn send(socket: BorrowedFd<'_>, message: &impl Serialize, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let bytes = serde_json::to_vec(message)?;
    if bytes.len() > MAX_MESSAGE {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("a message of {} bytes; {MAX_MESSAGE} are possible", bytes.len()),
        ));
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "too many descriptors in a message",
        ));
    }
    retry_on_intr(|| {
        sendmsg(
            socket,
            &[IoSlice::new(&bytes)],
            &mut ancillary,
            SendFlags::NOSIGNAL,
        )
    })?;
    Ok(())
}

/// The process that sent a message, as the kernel says: its number, its real user and group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    /// Process id.
    pub pid: i32,
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// What has been received, unread: the descriptors are there whether it makes sense or not.
#[derive(Debug)]
pub struct Packet {
    bytes: Vec<u8>,
    /// What the kernel has left out of it.
    missing: ReturnFlags,
    /// Its descriptors.
    pub fds: Vec<OwnedFd>,
    /// Who sent it, if [`ask_for_sender`] was called for the socket.
    pub sender: Option<Sender>,
}

impl Packet {
    /// The message. `QuotaExceeded`: this process had no descriptor left for those that came with it; the sender has done nothing
    /// wrong.
    pub fn message<T: DeserializeOwned>(&self) -> io::Result<T> {
        if self.missing.contains(ReturnFlags::CTRUNC) {
            return Err(io::Error::new(
                io::ErrorKind::QuotaExceeded,
                "no file descriptor was left for those of a message: raise the limit of open files (`ulimit -n`, \
                 LimitNOFILE= of a unit)",
            ));
        }
        if self.missing.contains(ReturnFlags::TRUNC) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "a message was cut short",
            ));
        }
        Ok(serde_json::from_slice(&self.bytes)?)
    }
}

/// From now on the kernel says of each message that is sent to `socket` who sent it (unix(7), `SO_PASSCRED`).
pub fn ask_for_sender(socket: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::net::sockopt::set_socket_passcred(socket, true)?)
}

/// Receives one message; `None` when the other side has closed.
pub fn receive<T: DeserializeOwned>(socket: BorrowedFd<'_>) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let Some(packet) = receive_packet(socket)? else {
        return Ok(None);
    };
    Ok(Some((packet.message()?, packet.fds)))
}

/// As [`receive`], of a sender that is not trusted: closing its descriptors may take long.
pub fn receive_packet(socket: BorrowedFd<'_>) -> io::Result<Option<Packet>> {
    let mut bytes = vec![0; MAX_MESSAGE];
    // Room for all that may come: what has none, the kernel closes here and now, which may take its time.
    let mut space =
        [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_RECEIVED_FDS), ScmCredentials(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = retry_on_intr(|| {
        recvmsg(
            socket,
            &mut [IoSliceMut::new(&mut bytes)],
            &mut ancillary,
            RecvFlags::CMSG_CLOEXEC,
        )
    })?;
    let mut packet = Packet {
        bytes,
        missing: received.flags & (ReturnFlags::TRUNC | ReturnFlags::CTRUNC),
        fds: Vec::new(),
        sender: None,
    };
    packet.bytes.truncate(received.bytes);
    for message in ancillary.drain() {
        match message {
            RecvAncillaryMessage::ScmRights(fds) => packet.fds.extend(fds),
            RecvAncillaryMessage::ScmCredentials(of) => {
                packet.sender = Some(Sender {
                    pid: of.pid.as_raw_nonzero().get(),
                    uid: of.uid.as_raw(),
                    gid: of.gid.as_raw(),
                });
            }
            _ => {}
        }
    }
    // Descriptors without a message are the caller's to close.
    let is_there = received.bytes > 0 || !packet.fds.is_empty();
    Ok(is_there.then_some(packet))
}

/// A connected pair of sockets for these messages.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    Ok(socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?)
}
