//! FastCGI over a real connection: records in, records out.

use super::*;
use crate::config::{ByteSize, Rate, RateKey};

const BEGIN: u8 = 1;
const ABORT: u8 = 2;
const END: u8 = 3;
const PARAMS: u8 = 4;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;
const STDERR: u8 = 7;
const GET_VALUES: u8 = 9;
const GET_VALUES_RESULT: u8 = 10;
const UNKNOWN_TYPE: u8 = 11;

#[test]
fn a_client_of_the_web_server_asks_no_more_often_than_it_may() {
    let server = |key: RateKey| {
        Server::start_with(Mode::Classic, move |config| {
            config.listen[0].protocol = Protocol::FastCgi;
            config.rate = Some(Rate {
                requests: 1,
                period: Duration::from_hours(1),
                burst: 2,
                key,
                paths: vec!["/a".into()],
            });
        })
    };
    let is_refused = |server: &Server, uri: &str, address: &str, key: &str| {
        let more = [("REMOTE_ADDR", address), ("HTTP_X_KEY", key)];
        let mut socket = server.connect();
        socket.write_all(&request(1, false, uri, &more, b"")).unwrap();
        let out = read(&mut socket, 1).out;
        out.contains("Status: 429") && out.to_ascii_lowercase().contains("retry-after: ")
    };
    let by_address = server(RateKey::Address);
    let by_key = server(RateKey::Header("x-key".parse().unwrap()));
    for server in [&by_address, &by_key] {
        assert!(!is_refused(server, "/a?1", "192.0.2.1", "one"));
        assert!(!is_refused(server, "/a?2", "192.0.2.1", "one"));
        assert!(is_refused(server, "/a?3", "192.0.2.1", "one"));
        assert!(!is_refused(server, "/b", "192.0.2.1", "one"));
    }
    assert!(!is_refused(&by_address, "/a", "192.0.2.2", "one"));
    assert!(!is_refused(&by_key, "/a", "192.0.2.1", "two"));
    assert!(!is_refused(&by_address, "/a", "unix:", ""), "nobody to count for");
}

fn server() -> Server {
    Server::speaking(Protocol::FastCgi, Mode::Classic, |_| {})
}

fn record(kind: u8, id: u16, content: &[u8]) -> Vec<u8> {
    let len = u16::try_from(content.len()).unwrap();
    let padding = u8::try_from(len % 7).unwrap();
    let [id_high, id_low] = id.to_be_bytes();
    let [len_high, len_low] = len.to_be_bytes();
    let mut bytes = vec![1, kind, id_high, id_low, len_high, len_low, padding, 0];
    bytes.extend(content);
    bytes.extend(vec![b'#'; usize::from(padding)]);
    bytes
}

fn begin(id: u16, role: u8, keep: bool) -> Vec<u8> {
    record(BEGIN, id, &[0, role, u8::from(keep), 0, 0, 0, 0, 0])
}

fn params(id: u16, pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut content = Vec::new();
    for (name, value) in pairs {
        for len in [name.len(), value.len()] {
            content.extend((u32::try_from(len).unwrap() | 0x8000_0000).to_be_bytes());
        }
        content.extend_from_slice(name.as_bytes());
        content.extend_from_slice(value.as_bytes());
    }
    let mut bytes: Vec<u8> = content
        .chunks(60_000)
        .flat_map(|part| record(PARAMS, id, part))
        .collect();
    bytes.extend(record(PARAMS, id, b""));
    bytes
}

/// A request for `uri` with these parameters, too.
fn request(id: u16, keep: bool, uri: &str, more: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut pairs = vec![("REQUEST_METHOD", "GET"), ("REQUEST_URI", uri)];
    pairs.extend(more);
    let mut bytes = begin(id, 1, keep);
    bytes.extend(params(id, &pairs));
    bytes.extend(body.chunks(60_000).flat_map(|part| record(STDIN, id, part)));
    bytes.extend(record(STDIN, id, b""));
    bytes
}

/// What came back.
#[derive(Debug, Default, PartialEq, Eq)]
struct Answer {
    out: String,
    log: String,
    /// Ids and protocol states of the requests that ended.
    ends: Vec<(u16, u8)>,
    /// Others, by type.
    others: Vec<(u8, Vec<u8>)>,
}

/// Reads records until `ends` requests have ended, or to the end of the connection.
fn read(socket: &mut TcpStream, ends: usize) -> Answer {
    let mut answer = Answer::default();
    while answer.ends.len() < ends {
        let mut head = [0; 8];
        if socket.read_exact(&mut head).is_err() {
            break;
        }
        assert_eq!(head[0], 1);
        let id = u16::from_be_bytes([head[2], head[3]]);
        let mut content = vec![0; usize::from(u16::from_be_bytes([head[4], head[5]]))];
        socket.read_exact(&mut content).unwrap();
        socket.read_exact(&mut vec![0; usize::from(head[6])]).unwrap();
        let text = || String::from_utf8_lossy(&content).into_owned();
        match head[1] {
            STDOUT => answer.out += &text(),
            STDERR => answer.log += &text(),
            END => answer.ends.push((id, content[4])),
            other => answer.others.push((other, content)),
        }
    }
    answer
}

/// Sends `bytes` and reads to the end.
fn exchange(server: &Server, bytes: &[u8]) -> Answer {
    let mut socket = server.connect();
    // The server may have closed before it took everything.
    let _ = socket.write_all(bytes);
    read(&mut socket, usize::MAX)
}

#[test]
fn a_request_is_answered_and_the_connection_closed_unless_it_is_to_be_kept() {
    let server = server();
    let answer = exchange(&server, &request(1, false, "/x", &[("HTTP_A", "1")], b""));
    assert!(answer.out.starts_with("Status: 200 OK\r\n"), "{answer:?}");
    let variables = answer.out.split_once("\r\n\r\n").unwrap().1;
    let expected = "HTTP_A=1\nREQUEST_URI=/x\nREQUEST_METHOD=GET\nFCGI_ROLE=RESPONDER\nHEARTH_REQUEST_ID=";
    assert!(variables.starts_with(expected), "{variables}");
    assert_eq!(
        (answer.ends, answer.log),
        (vec![(1, 0)], "Primary script unknown".to_owned())
    );

    let mut socket = server.connect();
    for id in [7, 7, 300] {
        socket.write_all(&request(id, true, "/x", &[], b"")).unwrap();
        assert_eq!(read(&mut socket, 1).ends, [(id, 0)]);
    }
    socket.write_all(&request(1, false, "/x", &[], b"")).unwrap();
    assert_eq!(read(&mut socket, 2).ends, [(1, 0)]);
}

#[test]
fn a_body_is_as_long_as_announced_or_the_request_is_refused() {
    let server = server();
    let body = |length: &[(&str, &str)], sent: &[u8]| {
        let answer = exchange(&server, &request(1, false, "/x", length, sent));
        let status = answer.out.split("\r\n").next().unwrap().to_owned();
        let lines = answer
            .out
            .lines()
            .filter(|l| l.starts_with("body") || l.starts_with("CONTENT_LENGTH"));
        (status, lines.collect::<Vec<_>>().join(" "))
    };
    let ok = "Status: 200 OK".to_owned();
    assert_eq!(
        body(&[("CONTENT_LENGTH", "5")], b"hello"),
        (ok.clone(), "CONTENT_LENGTH=5 body: memory hello".to_owned())
    );
    assert_eq!(
        body(&[("CONTENT_LENGTH", "2")], b"hello"),
        (ok.clone(), "CONTENT_LENGTH=2 body: memory he".to_owned())
    );
    // The web server does not know it of a body that came in chunks and that it does not wait for.
    assert_eq!(
        body(&[("CONTENT_LENGTH", "")], b"hello"),
        (ok.clone(), "CONTENT_LENGTH=5 body: memory hello".to_owned())
    );
    assert_eq!(body(&[], b""), (ok, "body: none".to_owned()));
    for (length, sent) in [
        ("9", &b"hello"[..]),
        ("1", b""),
        ("x", b"hello"),
        ("-1", b""),
        ("+5", b"hello"),
    ] {
        let (status, _) = body(&[("CONTENT_LENGTH", length)], sent);
        assert_eq!(status, "Status: 400 Bad Request", "{length}");
    }
}

#[test]
fn a_big_body_is_spooled_and_one_too_big_is_refused_on_a_connection_that_goes_on() {
    let server = Server::speaking(Protocol::FastCgi, Mode::Classic, |limits| {
        limits.body_memory = ByteSize(1000);
        limits.body_bytes = Some(ByteSize(200_000));
    });
    let big = vec![b'x'; 150_000];
    let answer = exchange(
        &server,
        &request(1, false, "/x", &[("CONTENT_LENGTH", "150000")], &big),
    );
    assert!(
        answer.out.ends_with("body: spooled 150000 of 150000\n"),
        "{answer:?}"
    );

    let mut socket = server.connect();
    let huge = vec![b'x'; 300_000];
    for length in [&[][..], &[("CONTENT_LENGTH", "300000")]] {
        socket.write_all(&request(1, true, "/x", length, &huge)).unwrap();
        let answer = read(&mut socket, 1);
        assert!(
            answer.out.starts_with("Status: 413 Payload Too Large\r\n"),
            "{answer:?}"
        );
        assert!(answer.log.starts_with("hearth: request "), "{answer:?}");
    }
    socket.write_all(&request(1, true, "/x", &[], b"")).unwrap();
    assert!(read(&mut socket, 1).out.starts_with("Status: 200 OK"));
    drop(socket);
    // Without a connection that is kept, it is closed so that the answer is not lost.
    let answer = exchange(&server, &request(1, false, "/x", &[], &huge));
    assert!(answer.out.starts_with("Status: 413"), "{answer:?}");
}

#[test]
fn only_a_responder_answers_and_one_request_at_a_time() {
    let server = server();
    let mut socket = server.connect();
    for role in [2, 3, 9] {
        socket.write_all(&begin(5, role, true)).unwrap();
        socket.write_all(&params(5, &[("A", "1")])).unwrap();
        assert_eq!(read(&mut socket, 1).ends, [(5, 3)]);
    }
    socket.write_all(&request(1, true, "/wait", &[], b"")).unwrap();
    server.arrivals.recv().unwrap();
    socket.write_all(&request(2, true, "/x", &[], b"body")).unwrap();
    assert_eq!(read(&mut socket, 1).ends, [(2, 1)]);
    server.gate.cancel();
    let answer = read(&mut socket, 1);
    assert_eq!(answer.ends, [(1, 0)]);
    assert!(answer.out.ends_with("\r\n\r\nwaited"), "{answer:?}");
    // The same while the body is on its way, and between two pieces of the parameters.
    let mut bytes = begin(1, 1, true);
    bytes.extend(record(PARAMS, 1, b"\x01\x01AB"));
    bytes.extend(begin(2, 1, true));
    bytes.extend(params(1, &[("REQUEST_METHOD", "PUT"), ("REQUEST_URI", "/x")]));
    bytes.extend(record(STDIN, 1, b"he"));
    bytes.extend(begin(3, 1, true));
    bytes.extend(record(STDIN, 3, b"no"));
    bytes.extend(record(STDIN, 1, b"llo"));
    bytes.extend(record(STDIN, 1, b""));
    socket.write_all(&bytes).unwrap();
    let answer = read(&mut socket, 3);
    assert_eq!(answer.ends, [(2, 1), (3, 1), (1, 0)]);
    assert!(answer.out.ends_with("body: memory hello\n"), "{answer:?}");
}

#[test]
fn questions_about_the_connection_are_answered() {
    let server = Server::speaking(Protocol::FastCgi, Mode::Resident, |_| {});
    let mut socket = server.connect();
    let mut asked = Vec::new();
    for name in ["FCGI_MAX_CONNS", "FCGI_MAX_REQS", "FCGI_MPXS_CONNS", "OTHER"] {
        asked.extend([u8::try_from(name.len()).unwrap(), 0]);
        asked.extend(name.as_bytes());
    }
    socket.write_all(&record(GET_VALUES, 0, &asked)).unwrap();
    socket.write_all(&record(99, 0, b"?")).unwrap();
    socket.write_all(&request(1, true, "/x", &[], b"")).unwrap();
    let answer = read(&mut socket, 1);
    let (kind, told) = &answer.others[0];
    assert_eq!(*kind, GET_VALUES_RESULT);
    let told = String::from_utf8_lossy(told);
    assert!(told.contains("FCGI_MAX_CONNS10000"), "{told}");
    assert!(
        told.contains("FCGI_MAX_REQS10000") && told.ends_with("FCGI_MPXS_CONNS0"),
        "{told}"
    );
    assert_eq!(answer.others[1], (UNKNOWN_TYPE, vec![99, 0, 0, 0, 0, 0, 0, 0]));
    // While a request is being answered, too.
    socket.write_all(&request(1, true, "/wait", &[], b"")).unwrap();
    server.arrivals.recv().unwrap();
    socket.write_all(&record(GET_VALUES, 0, &asked)).unwrap();
    let mut head = [0; 8];
    socket.read_exact(&mut head).unwrap();
    assert_eq!(head[1], GET_VALUES_RESULT);
}

#[test]
fn a_request_that_is_given_up_ends_at_once() {
    let server = server();
    let mut socket = server.connect();
    for phase in 0..3 {
        let mut bytes = begin(1, 1, true);
        if phase > 0 {
            bytes.extend(params(1, &[("REQUEST_METHOD", "GET"), ("REQUEST_URI", "/wait")]));
        }
        if phase > 1 {
            bytes.extend(record(STDIN, 1, b""));
        }
        socket.write_all(&bytes).unwrap();
        if phase > 1 {
            server.arrivals.recv().unwrap();
        }
        // Another one's, which means nothing.
        socket.write_all(&record(ABORT, 2, b"")).unwrap();
        socket.write_all(&record(ABORT, 1, b"")).unwrap();
        let answer = read(&mut socket, 1);
        assert_eq!(
            (answer.ends, answer.out),
            (vec![(1, 0)], String::new()),
            "{phase}"
        );
    }
    // With the connection.
    socket.write_all(&request(1, true, "/wait", &[], b"")).unwrap();
    server.arrivals.recv().unwrap();
    drop(socket);
    let log = server.stop();
    let gone = log.lines().filter(|line| line.ends_with("- client-gone")).count();
    assert_eq!(gone, 3, "{log}");
}

#[test]
fn what_is_no_fastcgi_closes_the_connection() {
    let server = server();
    let request = request(1, true, "/x", &[], b"");
    let mut twice = begin(1, 1, true);
    twice.extend(begin(1, 1, true));
    let mut stdin_first = begin(1, 1, true);
    stdin_first.extend(record(STDIN, 1, b"x"));
    let mut params_late = request.clone();
    params_late.truncate(request.len() - 8);
    params_late.extend(record(PARAMS, 1, b""));
    let mut bad_pair = begin(1, 1, true);
    bad_pair.extend(record(PARAMS, 1, b"\x7f\x7fabc"));
    bad_pair.extend(record(PARAMS, 1, b""));
    for bytes in [
        b"GET / HTTP/1.1\r\nHost: h\r\n\r\n".to_vec(),
        b"\x16\x03\x01".to_vec(),
        record(BEGIN, 1, b"short"),
        begin(0, 1, true),
        twice,
        stdin_first,
        params_late,
        bad_pair,
    ] {
        let answer = exchange(&server, &bytes);
        let ends: Vec<_> = answer.ends.iter().filter(|(_, state)| *state == 0).collect();
        assert!(ends.is_empty() && answer.out.is_empty(), "{bytes:?} {answer:?}");
    }
}

#[test]
fn parameters_that_cannot_be_are_refused() {
    let server = Server::speaking(Protocol::FastCgi, Mode::Classic, |limits| {
        limits.header_bytes = ByteSize(70_000);
        limits.header_count = 5;
    });
    let long = "x".repeat(80_000);
    let names: Vec<String> = (0..200).map(|n| format!("N{n}")).collect();
    let many: Vec<_> = names.iter().map(|name| (name.as_str(), "")).collect();
    let mut socket = server.connect();
    for (more, status) in [
        (&[("HTTP_A", &*long)][..], "431"),
        (&many, "431"),
        (&[("HTTP_A", "a\0b")], "400"),
        (&[("REQUEST_METHOD", "")], "400"),
        (&[("REQUEST_URI", "/%")], "400"),
    ] {
        socket.write_all(&request(1, true, "/x", more, b"")).unwrap();
        let answer = read(&mut socket, 1);
        assert!(
            answer.out.starts_with(&format!("Status: {status} ")),
            "{status} {answer:?}"
        );
        assert!(answer.log.starts_with("hearth: request "), "{answer:?}");
    }
}

#[test]
fn a_slow_request_is_given_up_and_an_idle_connection_is_not() {
    let server = Server::speaking(Protocol::FastCgi, Mode::Classic, |limits| {
        limits.header_timeout = Duration::from_millis(100);
        limits.body_timeout = Duration::from_millis(100);
        limits.idle_timeout = Duration::from_millis(50);
    });
    let mut idle = server.connect();
    assert_eq!(exchange(&server, &begin(1, 1, true)), Answer::default());
    assert_eq!(exchange(&server, &[1]), Answer::default());
    let mut bytes = request(1, false, "/x", &[("CONTENT_LENGTH", "9")], b"");
    bytes.truncate(bytes.len() - 8);
    let answer = exchange(&server, &bytes);
    assert!(answer.out.starts_with("Status: 408 "), "{answer:?}");
    idle.write_all(&request(1, true, "/x", &[], b"")).unwrap();
    assert_eq!(read(&mut idle, 1).ends, [(1, 0)]);
}

#[test]
fn outcomes_are_those_of_http() {
    let server = server();
    let mut socket = server.connect();
    for (uri, start, end) in [
        ("/died", "Status: 502 Bad Gateway\r\n", "</html>\n"),
        ("/full", "Status: 503 Service Unavailable\r\n", "</html>\n"),
        ("/late", "Status: 504 Gateway Timeout\r\n", "</html>\n"),
        (
            "/reason",
            "Status: 200 Fine by me\r\ncontent-length: ",
            "body: none\n",
        ),
        ("/stream", "Status: 200 OK\r\n\r\n", "onetwo"),
        (
            "/hops",
            "Status: 200 OK\r\nx-kept: 1\r\ncontent-length: 4\r\n\r\n",
            "hops",
        ),
        ("/nobody", "Status: 204 No Content\r\n\r\n", "\r\n\r\n"),
    ] {
        socket.write_all(&request(1, true, uri, &[], b"")).unwrap();
        let answer = read(&mut socket, 1);
        assert!(
            answer.out.starts_with(start) && answer.out.ends_with(end),
            "{uri} {answer:?}"
        );
    }
    socket
        .write_all(&request(1, true, "/x", &[("REQUEST_METHOD", "HEAD")], b""))
        .unwrap();
    assert!(read(&mut socket, 1).out.ends_with("\r\n\r\n"));
    // A response that breaks off has no end but that of the connection.
    socket
        .write_all(&request(1, true, "/stream-died", &[], b""))
        .unwrap();
    let answer = read(&mut socket, 1);
    assert!(
        answer.out.ends_with("onetwo") && answer.ends.is_empty(),
        "{answer:?}"
    );
    assert!(answer.log.contains("(worker-died): worker 1 died"), "{answer:?}");
}

#[test]
fn only_some_files_are_scripts() {
    let server = server();
    let file = |name: &str| server.dir.join(name).display().to_string();
    for (name, status, note) in [
        ("a.php", "200", ""),
        ("a.php~", "403", "Access to the script '"),
        ("a.txt", "403", "Access to the script '"),
        ("sub", "403", "Access to the script '"),
        ("none.php", "200", "Primary script unknown"),
        ("sub/../a.php", "200", "Primary script unknown"),
    ] {
        let path = file(name);
        let answer = exchange(
            &server,
            &request(1, false, "/x", &[("SCRIPT_FILENAME", &path)], b""),
        );
        assert!(
            answer.out.starts_with(&format!("Status: {status} ")),
            "{name} {answer:?}"
        );
        assert!(
            answer.log.starts_with(note) && answer.log.is_empty() == note.is_empty(),
            "{name} {answer:?}"
        );
        assert_eq!(
            status == "403",
            answer.out.ends_with("\r\n\r\nAccess denied.\n"),
            "{name}"
        );
    }
    // A resident application answers whatever is asked.
    let server = Server::speaking(Protocol::FastCgi, Mode::Resident, |_| {});
    let answer = exchange(
        &server,
        &request(1, false, "/x", &[("SCRIPT_FILENAME", "/no.txt")], b""),
    );
    assert!(
        answer.out.contains("SCRIPT_FILENAME=/no.txt\n") && answer.log.is_empty(),
        "{answer:?}"
    );
}

#[test]
fn a_stop_lets_a_request_finish_and_closes_what_is_idle() {
    let server = server();
    let mut idle = server.connect();
    idle.write_all(&request(1, true, "/x", &[], b"")).unwrap();
    read(&mut idle, 1);
    let mut busy = server.connect();
    busy.write_all(&request(1, true, "/wait", &[], b"")).unwrap();
    server.arrivals.recv().unwrap();
    server.stop.cancel();
    assert_eq!(read(&mut idle, 1), Answer::default());
    server.gate.cancel();
    let answer = read(&mut busy, 2);
    assert!(
        answer.out.ends_with("waited") && answer.ends == [(1, 0)],
        "{answer:?}"
    );
}

#[test]
fn the_access_log_shows_what_the_web_server_says() {
    let server = server();
    let more = [
        ("REMOTE_ADDR", "192.0.2.9"),
        ("SERVER_PROTOCOL", "HTTP/2.0"),
        ("HTTP_USER_AGENT", "a\"b"),
        ("HTTP_REFERER", ""),
    ];
    exchange(&server, &request(1, false, "/x?y=\"", &more, b""));
    let odd = [("REMOTE_ADDR", "a \"b"), ("REQUEST_METHOD", "G\nT")];
    exchange(&server, &request(1, false, "/x", &odd, b""));
    let log = server.stop();
    let lines: Vec<_> = log.lines().collect();
    assert!(lines[0].starts_with("192.0.2.9 - - ["), "{log}");
    assert!(lines[0].contains("\"GET /x?y=\\x22 HTTP/2.0\" 200 "), "{log}");
    assert!(lines[0].contains("\"-\" \"a\\x22b\""), "{log}");
    assert!(lines[1].starts_with("- - - ["), "{log}");
    assert!(lines[1].contains("\"- /x HTTP/1.1\""), "{log}");
}
