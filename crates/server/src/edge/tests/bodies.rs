//! Bodies of requests.

use std::io::{Read, Write};
use std::net::Shutdown;

use super::{Server, read_all, statuses};
use crate::config::{ByteSize, Mode};

#[test]
fn a_request_with_length_and_coding_ends_its_connection() {
    let server = Server::start(Mode::Resident, |_| {});
    let answer = server.exchange(
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /x HTTP/1.1\r\nHost: a\r\n\r\n",
    );
    assert_eq!(statuses(&answer).len(), 1, "{answer}");
}

#[test]
fn bodies_are_received_whole_and_spooled_when_big() {
    let server = Server::start(Mode::Resident, |l| {
        l.body_memory = ByteSize(8);
        l.body_bytes = Some(ByteSize::kib(64));
    });
    let post = |head: &str, body: &str| {
        server.exchange(
            format!("POST /b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{head}\r\n\r\n{body}").as_bytes(),
        )
    };
    let small = post("Content-Length: 3", "abc");
    assert!(
        small.contains("\nCONTENT_LENGTH=3\n") && small.ends_with("body: memory abc\n"),
        "{small}"
    );
    let chunked = post("Transfer-Encoding: chunked", "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
    assert!(
        chunked.contains("\nCONTENT_LENGTH=5\n") && chunked.ends_with("body: memory abcde\n"),
        "{chunked}"
    );
    let big = post("Content-Length: 40000", &"x".repeat(40_000));
    assert!(big.ends_with("body: spooled 40000 of 40000\n"), "{big}");
    assert_eq!(statuses(&post("Content-Length: 70000", "")), [413]);
    let endless = format!("10000\r\n{}\r\n10\r\n0123456789abcdef\r\n", "x".repeat(65536));
    assert_eq!(statuses(&post("Transfer-Encoding: chunked", &endless)), [413]);
    assert_eq!(
        statuses(&post("Expect: 100-continue\r\nContent-Length: 70000", "")),
        [413]
    );
    let mut socket = server.connect();
    socket
        .write_all(b"POST /b HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        .unwrap();
    let mut interim = [0; 25];
    socket.read_exact(&mut interim).unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    socket.write_all(b"ab").unwrap();
    socket.shutdown(Shutdown::Write).unwrap();
    assert!(read_all(&mut socket).ends_with("body: memory ab\n"));
}
