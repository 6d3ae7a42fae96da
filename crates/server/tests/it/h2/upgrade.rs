//! From HTTP/1.1 to HTTP/2 by `Upgrade: h2c`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use rustix::process::Signal;
use serde_json::Value;

use super::wire::{Connection, Event, GOAWAY};
use super::{PATIENCE, RESIDENT, curl};
use crate::harness::{App, Server};

/// One that upgrades.
fn serve(settings: &[&str]) -> Server {
    Server::start(&App::of_tests(), &[settings, &["h2c_upgrade=true"]].concat())
}

/// Asks for `target`, and to be upgraded.
fn offer(server: &Server, target: &str, more: &str) -> TcpStream {
    let mut socket = TcpStream::connect(server.address()).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = format!(
        "GET {target} HTTP/1.1\r\nHost: test\r\n{more}Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\
         HTTP2-Settings: AAMAAABk\r\n\r\n"
    );
    socket.write_all(head.as_bytes()).unwrap();
    socket
}

/// The status with which a head begins that is read to its end.
fn status(socket: &TcpStream) -> String {
    let mut lines = BufReader::with_capacity(1, socket).lines().map(Result::unwrap);
    let first = lines.next().unwrap();
    lines.find(String::is_empty).unwrap();
    first
}

fn upgraded(server: &Server, target: &str) -> Connection {
    let socket = offer(server, target, "");
    assert_eq!(status(&socket), "HTTP/1.1 101 Switching Protocols");
    Connection::over(socket)
}

#[test]
fn curl_is_upgraded_and_goes_on_in_http_2() {
    let server = serve(&RESIDENT);
    let text = curl(
        &server,
        &["--http2", "-H", "Cookie: a=1", "-H", "X-A: b"],
        "/server?x=1",
    );
    let seen: Value = serde_json::from_str(&text).unwrap();
    for (name, value) in [
        ("SERVER_PROTOCOL", "HTTP/2.0"),
        ("REQUEST_METHOD", "GET"),
        ("REQUEST_URI", "/server?x=1"),
        ("REQUEST_SCHEME", "http"),
        ("HTTP_COOKIE", "a=1"),
        ("HTTP_X_A", "b"),
        ("REMOTE_ADDR", "127.0.0.1"),
    ] {
        assert_eq!(seen[name], value, "{name}");
    }
    for name in ["HTTP_UPGRADE", "HTTP_CONNECTION", "HTTP_HTTP2_SETTINGS"] {
        assert_eq!(seen[name], Value::Null, "{name}");
    }
    // Two on one connection.
    let format = ["--http2", "-w", " %{http_version} %{http_code} %{num_connects}\n"];
    let second = format!("http://{}/b", server.address());
    let text = curl(&server, &[&format[..], &[&second]].concat(), "/a");
    assert_eq!(text, "hello from /b 2 200 1\nhello from /a 2 200 0\n");
}

#[test]
fn a_request_with_a_body_is_answered_in_http_1() {
    let server = serve(&RESIDENT);
    let format = ["--http2", "-d", "12345", "-w", " %{http_version} %{http_code}"];
    assert_eq!(curl(&server, &format, "/length"), "5 1.1 200");
}

#[test]
fn nobody_is_upgraded_who_need_not_be() {
    let server = Server::start(&App::of_tests(), &RESIDENT);
    assert_eq!(status(&offer(&server, "/a", "")), "HTTP/1.1 200 OK");
}

#[test]
fn what_a_proxy_passes_on_is_answered_in_http_1() {
    let server = serve(&RESIDENT);
    let socket = offer(&server, "/a", "X-Forwarded-For: 192.0.2.1\r\n");
    assert_eq!(status(&socket), "HTTP/1.1 200 OK");
    let trusting = serve(&["trusted_proxies.addresses=['127.0.0.0/8']"]);
    assert_eq!(status(&offer(&trusting, "/a", "")), "HTTP/1.1 200 OK");
}

#[test]
fn streams_go_on_after_the_first() {
    let server = serve(&RESIDENT);
    let mut connection = upgraded(&server, "/a");
    assert_eq!(connection.body(1), b"hello from /a");
    connection.get(3, "/b");
    assert_eq!(connection.body(3), b"hello from /b");
    server
        .out
        .wait_for_line_with(r#""target":"/a","protocol":"HTTP/2.0","status":200"#);
}

#[test]
fn limits_hold_for_a_request_that_is_upgraded() {
    let server = serve(&["limits.header_count=5"]);
    let socket = offer(&server, "/a", "A: 1\r\nB: 2\r\nC: 3\r\nD: 4\r\nE: 5\r\nF: 6\r\n");
    assert_eq!(status(&socket), "HTTP/1.1 101 Switching Protocols");
    let body = Connection::over(socket).body(1);
    assert!(String::from_utf8(body).unwrap().contains("431"));
}

#[test]
fn who_agreed_and_says_nothing_is_closed_in_time() {
    let server = serve(&["limits.header_timeout='500 ms'"]);
    let mut socket = offer(&server, "/a", "");
    assert_eq!(status(&socket), "HTTP/1.1 101 Switching Protocols");
    assert_eq!(socket.read(&mut [0]).unwrap(), 0);
    // Nor is anything but HTTP/2 taken.
    let mut socket = offer(&server, "/a", "");
    assert_eq!(status(&socket), "HTTP/1.1 101 Switching Protocols");
    socket
        .write_all(b"GET /b HTTP/1.1\r\nHost: test\r\n\r\n")
        .unwrap();
    let mut rest = Vec::new();
    // A reset says it, too.
    let _ = socket.read_to_end(&mut rest);
    assert_eq!(rest, b"");
}

#[test]
fn a_stop_lets_an_upgraded_request_finish() {
    let mut server = serve(&RESIDENT);
    let open = server.file("open");
    let mut connection = upgraded(&server, &format!("/gate?open={}", open.display()));
    server.log.wait("php", |event| event["text"] == "at the gate");
    server.signal(Signal::TERM);
    connection.wait(|event| matches!(event, Event::Frame { kind: GOAWAY, .. }));
    std::fs::write(&open, "").unwrap();
    connection.body(1);
    connection.wait(|event| *event == Event::End);
    assert!(server.wait_for_end().success());
}
