//! What a server must refuse, and how. The names tell the cases apart in failures; they are those of the HTTP suites that servers
//! have been compared with.

use super::{Server, statuses};
use crate::config::{ByteSize, Mode};

type Case = (&'static str, &'static str, u16);

/// RFC 9112 §3.
const HOST_AND_TARGET: &[Case] = &[
    ("host-missing", "GET / HTTP/1.1\r\n\r\n", 400),
    ("host-missing-1.0", "GET / HTTP/1.0\r\n\r\n", 200),
    ("host-twice", "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400),
    ("host-port-text", "GET / HTTP/1.1\r\nHost: x:abc\r\n\r\n", 400),
    ("host-user", "GET / HTTP/1.1\r\nHost: u@h\r\n\r\n", 400),
    ("host-v6-open", "GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", 400),
    ("host-empty", "GET / HTTP/1.1\r\nHost:\r\n\r\n", 400),
    (
        "host-absform",
        "GET http://u/ HTTP/1.1\r\nHost: other\r\n\r\n",
        200,
    ),
    ("absform-no-host", "GET http://u/ HTTP/1.1\r\n\r\n", 400),
    ("absform-scheme", "GET ftp://u/ HTTP/1.1\r\nHost: u\r\n\r\n", 400),
    ("connect", "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n", 405),
    ("trace", "TRACE / HTTP/1.1\r\nHost: a\r\n\r\n", 405),
    ("options-star", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 204),
    ("get-star", "GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("path-nul", "GET /a%00b HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ("path-bad-escape", "GET /a%zz HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    (
        "path-above",
        "GET /../etc/passwd HTTP/1.1\r\nHost: a\r\n\r\n",
        400,
    ),
    (
        "path-above-encoded",
        "GET /%2e%2e%2fetc/passwd HTTP/1.1\r\nHost: a\r\n\r\n",
        400,
    ),
    ("header-no-colon", "GET / HTTP/1.1\r\nHost: a\r\nabc\r\n\r\n", 400),
    (
        "header-paren",
        "GET / HTTP/1.1\r\nHost: a\r\na(b): c\r\n\r\n",
        400,
    ),
    ("tls-on-plain", "\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}\r\n\r\n", 400),
];

/// RFC 9112 §6 and §7. The bytes after `Host: a`.
const FRAMING: &[Case] = &[
    (
        "te-twice",
        "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    (
        "te-gzip",
        "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    (
        "te-lines",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    (
        "cl-differ",
        "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        400,
    ),
    ("cl-text", "Content-Length: x\r\n\r\n", 400),
    ("cl-sign", "Content-Length: +1\r\n\r\na", 400),
    ("cl-empty", "Content-Length:\r\n\r\n", 400),
    ("cl-short-fin", "Content-Length: 9\r\n\r\nab", 400),
    ("ck-trunc-fin", "Transfer-Encoding: chunked\r\n\r\n5\r\nab", 400),
    (
        "ck-lf-size",
        "Transfer-Encoding: chunked\r\n\r\n2\nab\r\n0\r\n\r\n",
        400,
    ),
    (
        "ck-size-text",
        "Transfer-Encoding: chunked\r\n\r\nzz\r\nab\r\n0\r\n\r\n",
        400,
    ),
    ("expect-other", "Expect: x\r\nContent-Length: 1\r\n\r\na", 417),
    ("half-close", "Content-Length: 2\r\n\r\nab", 200),
];

#[test]
fn malformed_requests_get_their_status() {
    let server = Server::start(Mode::Resident, |l| l.header_bytes = ByteSize::kib(16));
    for (name, bytes, status) in HOST_AND_TARGET {
        let answer = server.exchange(bytes.as_bytes());
        assert_eq!(statuses(&answer), [*status], "{name}: {answer}");
    }
    for (name, rest, status) in FRAMING {
        let answer = server.exchange(["POST / HTTP/1.1\r\nHost: a\r\n", rest].concat().as_bytes());
        assert_eq!(statuses(&answer), [*status], "{name}: {answer}");
    }
    let answer = server.exchange(b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
    assert_eq!(statuses(&answer), [400], "te-1.0: {answer}");
}

#[test]
fn heads_beyond_the_limits_get_their_status() {
    let server = Server::start(Mode::Resident, |l| l.header_bytes = ByteSize::kib(16));
    let long = "x".repeat(20_000);
    let many = "a: b\r\n".repeat(150);
    for (name, bytes, status) in [
        (
            "uri-long",
            format!("GET /{long} HTTP/1.1\r\nHost: a\r\n\r\n"),
            414,
        ),
        ("uri-endless", format!("GET /{long}"), 414),
        (
            "header-long",
            format!("GET / HTTP/1.1\r\nHost: a\r\nx: {long}\r\n\r\n"),
            431,
        ),
        (
            "header-endless",
            format!("GET / HTTP/1.1\r\nHost: a\r\nx: {long}{long}"),
            431,
        ),
        (
            "header-many",
            format!("GET / HTTP/1.1\r\nHost: a\r\n{many}\r\n"),
            431,
        ),
    ] {
        let answer = server.exchange(bytes.as_bytes());
        assert_eq!(statuses(&answer), [status], "{name}: {answer}");
    }
}

#[test]
fn head_is_answered_as_get_without_the_body() {
    for mode in [Mode::Classic, Mode::Resident] {
        let server = Server::start(mode, |_| {});
        let ask = |method: &str, target: &str| {
            let request = format!("{method} {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            let answer = server.exchange(request.as_bytes());
            let (head, body) = answer.split_once("\r\n\r\n").unwrap();
            let mut lines: Vec<String> = head.lines().map(str::to_owned).collect();
            lines.retain(|line| !line.starts_with("date: "));
            (lines, body.len())
        };
        for target in [
            "/a.txt", "/a.php", "/sub", "/sub/", "/none", "/.env", "/%zz", "/short", "/stream", "/died",
            "/full", "/nobody", "/a", "/a.php/x",
        ] {
            let (get, length) = ask("GET", target);
            let (head, nothing) = ask("HEAD", target);
            assert_eq!((nothing, &get[0]), (0, &head[0]), "{target}");
            for line in head {
                let differs =
                    line.starts_with("content-length: ") && line == format!("content-length: {length}");
                assert!(
                    get.contains(&line) || differs,
                    "{target}: {line} is not in {get:?}"
                );
            }
        }
    }
}
