//! HTTP/2: the rules of the protocol by h2spec, what PHP sees, how connections end, and clients that mean harm.

mod floods;
mod upgrade;
mod wire;

use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use self::wire::{
    Connection, DATA, END_HEADERS, END_STREAM, Event, GOAWAY, HEADERS, RST_STREAM, WINDOW_UPDATE,
};
use crate::harness::{App, Server};

const RESIDENT: [&str; 3] = [
    "pool.web.mode=\"resident\"",
    "pool.web.script=\"worker.php\"",
    "pool.web.workers=2",
];

/// Runs h2spec with `arguments` and returns what failed.
pub(crate) fn h2spec(arguments: &[&str]) -> Vec<String> {
    let program = std::env::var("HEARTH_TEST_H2SPEC").expect("HEARTH_TEST_H2SPEC: `make it` sets it");
    let output = Command::new(program)
        .args(arguments)
        .args(["--timeout", "5"])
        .output()
        .expect("running h2spec");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("145 tests, "), "h2spec did not run whole:\n{text}");
    let failed = text.split("Failures:").nth(1).unwrap_or_default();
    let failed = failed.lines().filter(|line| line.contains('×'));
    failed.map(|line| line.trim().to_owned()).collect()
}

#[test]
fn h2spec_passes_by_prior_knowledge() {
    let server = Server::start(&App::of_tests(), &RESIDENT);
    let port = server.address().port().to_string();
    let failed = h2spec(&["-h", "127.0.0.1", "-p", &port]);
    // In the clear, what is no preface is a request of HTTP/1, and answered as such.
    let failed: Vec<_> = failed
        .iter()
        .filter(|case| !case.contains("Sends invalid connection preface"))
        .collect();
    assert!(failed.is_empty(), "{failed:?}");
}

fn curl(server: &Server, arguments: &[&str], target: &str) -> String {
    let output = Command::new("curl")
        .args(["-sS", "--max-time", "20"])
        .args(arguments)
        .arg(format!("http://{}{target}", server.address()))
        .output()
        .expect("running curl");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "curl: {complaint}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn php_sees_a_request_of_http_2_as_behind_nginx() {
    let server = Server::start(&App::of_tests(), &RESIDENT);
    let text = curl(
        &server,
        &[
            "--http2-prior-knowledge",
            "-H",
            "Host: shop.test:81",
            "-H",
            "Cookie: a=1; b=2",
        ],
        "/server?x=1",
    );
    let seen: Value = serde_json::from_str(&text).unwrap();
    for (name, value) in [
        ("SERVER_PROTOCOL", "HTTP/2.0"),
        ("HTTP_HOST", "shop.test:81"),
        ("SERVER_NAME", "shop.test"),
        ("REQUEST_URI", "/server?x=1"),
        ("REQUEST_SCHEME", "http"),
        ("HTTP_COOKIE", "a=1; b=2"),
        ("REMOTE_ADDR", "127.0.0.1"),
    ] {
        assert_eq!(seen[name], value, "{name}");
    }
}

#[test]
fn bodies_go_both_ways_and_head_has_none() {
    let server = Server::start(&App::of_tests(), &RESIDENT);
    let file = server.file("body");
    std::fs::write(&file, vec![b'x'; 3_000_000]).unwrap();
    let body = format!("@{}", file.display());
    let h2 = "--http2-prior-knowledge";
    assert_eq!(curl(&server, &[h2, "--data-binary", &body], "/length"), "3000000");
    assert_eq!(
        curl(&server, &[h2], "/style.css"),
        server.get("/style.css").text()
    );
    let head = curl(&server, &[h2, "-I"], "/style.css");
    assert!(head.starts_with("HTTP/2 200"), "{head}");
    assert!(head.contains("content-length: "), "{head}");
    assert!(!head.contains("connection: "), "{head}");
    // More than a stream's window and than the server keeps of it.
    let big = curl(
        &server,
        &[h2, "-o", "/dev/null", "-w", "%{size_download}"],
        "/big?mib=8",
    );
    assert_eq!(big, (8 << 20).to_string());
}

#[test]
fn cookies_that_come_in_pieces_are_one() {
    let server = Server::start(&App::of_tests(), &RESIDENT);
    let mut connection = Connection::open(server.address());
    let mut block = wire::request("GET", "/server");
    for crumb in ["a=1", "b=2", "c=3"] {
        wire::field(&mut block, "cookie", crumb);
    }
    connection.send(HEADERS, END_HEADERS | END_STREAM, 1, &block);
    let seen: Value = serde_json::from_slice(&connection.body(1)).unwrap();
    assert_eq!(seen["HTTP_COOKIE"], "a=1; b=2; c=3");
}

#[test]
fn headers_are_counted_and_a_cookie_in_pieces_is_one() {
    let server = Server::start(&App::of_tests(), &["limits.header_count=10"]);
    let mut connection = Connection::open(server.address());
    for (stream, headers, crumbs, status) in [(1, 10, 0, "200"), (3, 11, 0, "431"), (5, 9, 30, "200")] {
        let mut block = wire::request("GET", "/a");
        for number in 0..headers {
            wire::field(&mut block, &format!("x-{number}"), "y");
        }
        for _ in 0..crumbs {
            wire::field(&mut block, "cookie", "a=1");
        }
        connection.send(HEADERS, END_HEADERS | END_STREAM, stream, &block);
        let body = String::from_utf8(connection.body(stream)).unwrap();
        match status {
            "200" => assert_eq!(body, "hello from /a", "{headers} headers, {crumbs} crumbs"),
            _ => assert!(
                body.contains(status),
                "{headers} headers, {crumbs} crumbs: {body}"
            ),
        }
    }
}

#[test]
fn methods_in_small_letters_are_refused() {
    let server = Server::start(&App::of_tests(), &RESIDENT);
    let mut connection = Connection::open(server.address());
    for (stream, method, refused) in [(1, "PURGE", false), (3, "M-SEARCH", false), (5, "get", true)] {
        connection.send(
            HEADERS,
            END_HEADERS | END_STREAM,
            stream,
            &wire::request(method, "/"),
        );
        let body = String::from_utf8(connection.body(stream)).unwrap();
        assert_eq!(body.contains("400 Bad Request"), refused, "{method}: {body}");
    }
}

#[test]
fn host_and_authority_that_differ_are_refused() {
    let server = Server::start(&App::of_tests(), &RESIDENT);
    let mut connection = Connection::open(server.address());
    for (stream, host, refused) in [(1, "test", false), (3, "TEST", false), (5, "other", true)] {
        let mut block = wire::request("GET", "/");
        wire::field(&mut block, "host", host);
        connection.send(HEADERS, END_HEADERS | END_STREAM, stream, &block);
        let body = String::from_utf8(connection.body(stream)).unwrap();
        assert_eq!(body.contains("400 Bad Request"), refused, "{host}: {body}");
    }
}

#[test]
fn a_stop_lets_streams_finish_and_says_good_bye() {
    let mut server = Server::start(&App::of_tests(), &RESIDENT);
    let open = server.file("open");
    let mut connection = Connection::open(server.address());
    connection.get(1, &format!("/gate?open={}", open.display()));
    server.log.wait("php", |event| event["text"] == "at the gate");
    let mut idle = Connection::open(server.address());
    idle.get(1, "/a");
    idle.body(1);
    server.signal(Signal::TERM);
    connection.wait(|event| matches!(event, Event::Frame { kind: GOAWAY, .. }));
    idle.wait(|event| matches!(event, Event::End));
    std::fs::write(&open, "").unwrap();
    connection.wait(|event| matches!(event, Event::Frame { kind: 0, flags, .. } if flags & END_STREAM != 0));
    connection.wait(|event| matches!(event, Event::End));
    assert!(server.wait_for_end().success());
}

#[test]
fn an_idle_connection_is_closed_in_its_time() {
    let server = Server::start(&App::of_tests(), &["limits.idle_timeout='300 ms'"]);
    let mut connection = Connection::open(server.address());
    connection.get(1, "/a");
    assert_eq!(connection.body(1), b"hello from /a");
    connection.wait(|event| matches!(event, Event::Frame { kind: GOAWAY, .. }));
    connection.wait(|event| matches!(event, Event::End));
}

#[test]
fn a_header_block_must_end_in_time_even_beside_a_running_request() {
    let server = Server::start(
        &App::of_tests(),
        &["limits.header_timeout='500 ms'", "pool.web.workers=2"],
    );
    let open = server.file("open");
    let mut connection = Connection::open(server.address());
    connection.get(1, &format!("/gate?open={}", open.display()));
    server.log.wait("php", |event| event["text"] == "at the gate");
    connection.send(HEADERS, 0, 3, &wire::request("GET", "/"));
    connection.wait(|event| matches!(event, Event::End));
    std::fs::write(&open, "").unwrap();
}

#[test]
fn a_response_that_nobody_takes_is_given_up() {
    let server = Server::start(&App::of_tests(), &["limits.write_timeout='500 ms'"]);
    let mut connection = Connection::open_with_window(server.address(), 100);
    connection.get(1, "/big?mib=1");
    connection.wait(|event| {
        matches!(
            event,
            Event::Frame {
                kind: RST_STREAM,
                stream: 1,
                ..
            }
        )
    });
    // Others on the same connection go on.
    connection.get(3, "/a");
    assert_eq!(connection.body(3), b"hello from /a");
    server.out.wait_for_line_with("write-timeout");
}

#[test]
fn a_response_that_is_taken_byte_by_byte_is_given_up() {
    let server = Server::start(&App::of_tests(), &["limits.write_timeout='500 ms'"]);
    let mut connection = Connection::open_with_window(server.address(), 1);
    connection.get(1, "/big?mib=1");
    for _ in 0..100 {
        let next = connection.wait(|event| {
            matches!(
                event,
                Event::Frame {
                    kind: DATA | RST_STREAM,
                    ..
                }
            )
        });
        if matches!(next, Event::Frame { kind: RST_STREAM, .. }) {
            server.out.wait_for_line_with("write-timeout");
            return;
        }
        // Sooner than after the longest pause that is allowed.
        std::thread::sleep(Duration::from_millis(100));
        connection.send(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1]);
    }
    panic!("a client may take a byte at a time for ever");
}

#[test]
fn requests_end_while_the_binary_is_replaced() {
    let mut server = Server::start(&App::of_tests(), &RESIDENT);
    let mut connection = Connection::open(server.address());
    let open = server.file("open");
    connection.get(1, &format!("/gate?open={}", open.display()));
    server.log.wait("php", |event| event["text"] == "at the gate");
    server.signal(Signal::USR2);
    connection.wait(|event| matches!(event, Event::Frame { kind: GOAWAY, .. }));
    let replaced = "replaced: another server has taken over, this one finishes its requests";
    let pid = server.log.wait(replaced, |_| true)["pid"].as_i64().unwrap();
    std::fs::write(&open, "").unwrap();
    connection.wait(|event| matches!(event, Event::Frame { kind: 0, flags, .. } if flags & END_STREAM != 0));
    server.log.wait_for_count("server stopped", 1);
    server.follow(i32::try_from(pid).unwrap());
    let mut next = Connection::open(server.address());
    next.get(1, "/b");
    assert_eq!(next.body(1), b"hello from /b");
}

/// Longest time that another client may wait while one does harm.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
