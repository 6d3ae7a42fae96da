//! Packets of senders that are not trusted. One test: it changes a limit of the whole process.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::io;
use std::os::fd::AsFd;

use ipc::control::{FromWorker, pair, receive_packet, send};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[test]
fn a_lack_of_descriptors_is_told_apart_from_a_message_that_is_cut_short() {
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
}
