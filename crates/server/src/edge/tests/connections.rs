//! Connections: requests one after another, slow clients, and a stop.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::{Server, read_all, statuses, wait_for_log};
use crate::config::Mode;

#[test]
fn pipelined_requests_are_answered_in_order() {
    let server = Server::start(Mode::Resident, |_| {});
    let asked: Vec<String> = (0..40)
        .map(|n| format!("GET /p{n} HTTP/1.1\r\nHost: a\r\n\r\n"))
        .collect();
    let answer = server.exchange(asked.concat().as_bytes());
    let order: Vec<&str> = answer
        .lines()
        .filter_map(|l| l.strip_prefix("REQUEST_URI=/p"))
        .collect();
    assert_eq!(order, (0..40).map(|n| n.to_string()).collect::<Vec<_>>());
}

#[test]
fn slow_clients_are_cut() {
    let server = Server::start(Mode::Resident, |l| {
        l.header_timeout = Duration::from_millis(200);
        l.idle_timeout = Duration::from_millis(300);
        l.body_timeout = Duration::from_millis(200);
        l.write_timeout = Duration::from_millis(300);
    });
    // Nothing sent: closed without a word.
    assert_eq!(read_all(&mut server.connect()), "");
    let mut head = server.connect();
    head.write_all(b"GET / HT").unwrap();
    assert_eq!(statuses(&read_all(&mut head)), [408]);
    let mut body = server.connect();
    body.write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\na")
        .unwrap();
    assert_eq!(statuses(&read_all(&mut body)), [408]);
    let mut idle = server.connect();
    idle.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    assert_eq!(statuses(&read_all(&mut idle)), [200], "answered, then closed");
    let big = fs::File::create(server.dir.join("big.bin")).unwrap();
    big.set_len(256 << 20).unwrap();
    let mut deaf = server.connect();
    deaf.write_all(b"GET /big.bin HTTP/1.1\r\nHost: a\r\n\r\n")
        .unwrap();
    let log = wait_for_log(&server, "write-timeout");
    assert!(
        log.contains("head-timeout") && log.contains("body-timeout"),
        "{log}"
    );
}

#[test]
fn a_stop_answers_what_was_asked_and_closes_the_rest() {
    let server = Server::start(Mode::Resident, |_| {});
    let mut idle = server.connect();
    idle.write_all(b"GET /short HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut first = [0; 16];
    idle.read_exact(&mut first).unwrap();
    let mut busy = server.connect();
    busy.write_all(b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    server.arrivals.recv_timeout(Duration::from_secs(20)).unwrap();
    let mut fresh = server.connect();
    fresh.write_all(b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    server.stop.cancel();
    // It is closed by the stop, which has begun then.
    assert!(read_all(&mut idle).ends_with("hel"));
    server.gate.cancel();
    for socket in [&mut busy, &mut fresh] {
        let answer = read_all(socket);
        assert!(
            answer.contains("connection: close") && answer.ends_with("waited"),
            "{answer}"
        );
    }
    let address = server.address;
    let log = server.stop();
    assert_eq!(log.lines().count(), 3, "{log}");
    assert!(TcpStream::connect(address).is_err());
}
