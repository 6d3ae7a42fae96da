//! Packets of senders that are not trusted. One test: it changes a limit of the whole process.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};

use ipc::control::{FromWorker, pair, receive_packet, send};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

fn send_nothing_but(fd: BorrowedFd<'_>, to: BorrowedFd<'_>) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let fds = [fd];
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(&fds)));
    sendmsg(to, &[], &mut ancillary, SendFlags::NOSIGNAL).unwrap();
}

#[test]
fn descriptors_without_room_and_without_a_message_are_told_apart_from_an_end() {
    let (ours, theirs) = pair().unwrap();
    send(theirs.as_fd(), &FromWorker::Ready, &[theirs.as_fd()]).unwrap();
    let before = getrlimit(Resource::Nofile);
    let none_left = Rlimit {
        current: Some(3),
        ..before
    };
    setrlimit(Resource::Nofile, none_left).unwrap();
    let packet = receive_packet(ours.as_fd());
    setrlimit(Resource::Nofile, before).unwrap();
    let error = packet.unwrap().unwrap().message::<FromWorker>().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::QuotaExceeded);
    assert!(error.to_string().contains("LimitNOFILE="), "{error}");

    send_nothing_but(ours.as_fd(), ours.as_fd());
    drop(ours);
    // The receiver has the descriptor, and closes it where it likes.
    let packet = receive_packet(theirs.as_fd()).unwrap().unwrap();
    assert_eq!(packet.fds.len(), 1);
    assert!(packet.message::<FromWorker>().is_err());
    drop(packet);
    assert!(receive_packet(theirs.as_fd()).unwrap().is_none());
}
