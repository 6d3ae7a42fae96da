//! Strictness: every request in `strict/cases.txt` has the answers that stand there, and no bytes are taken for a request that were not
//! meant as one. With real PHP behind, which says what it got.

use std::fmt::Write as _;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use crate::harness::{App, Server};

const CASES: &str = include_str!("strict/cases.txt");
const PROBE: &[u8] = b"GET /probe HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
const SHORT: [(&str, &str); 4] = [
    ("<C>", r"<P>Transfer-Encoding: chunked\r\n\r\n"),
    ("<G>", r"GET /a HTTP/1.1\r\nHost: h\r\n"),
    ("<P>", r"POST /length HTTP/1.1\r\nHost: h\r\n"),
    ("<S>", r"GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n"),
];
/// A case of more bytes is not sent byte by byte.
const LONG: usize = 1000;

/// What follows the bytes of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// A request, which is answered.
    Open,
    /// A request, which is not answered.
    Closed,
    /// The end of the client's side.
    Fin,
}

struct Case {
    name: &'static str,
    /// Status, and the body if it matters.
    answers: Vec<(u16, Option<&'static str>)>,
    then: Then,
    bytes: Vec<u8>,
}

fn cases() -> Vec<Case> {
    let lines = CASES
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(case).collect()
}

fn case(line: &'static str) -> Case {
    let mut parts = line.splitn(3, '|');
    let mut next = || parts.next().unwrap_or_else(|| panic!("no case: {line}"));
    let (name, answers, bytes) = (next().trim(), next().trim(), next());
    let (answers, then) = match answers.rsplit_once(' ') {
        Some((answers, "open")) => (answers, Then::Open),
        Some((answers, "fin")) => (answers, Then::Fin),
        _ => (answers, Then::Closed),
    };
    let answers = answers.split(',').filter(|one| *one != "-").map(|one| {
        let (status, body) = one.split_once('=').map_or((one, None), |(s, b)| (s, Some(b)));
        (
            status.parse().unwrap_or_else(|_| panic!("no status: {line}")),
            body,
        )
    });
    let mut text = bytes.strip_prefix(' ').unwrap_or(bytes).to_owned();
    for (short, long) in SHORT {
        text = text.replace(short, long);
    }
    Case {
        name,
        answers: answers.collect(),
        then,
        bytes: read(&mut text.bytes().peekable(), false),
    }
}

/// Bytes as they are written in a case: to their end, or to the `*` of a `{TEXT*N}`.
fn read(chars: &mut std::iter::Peekable<std::str::Bytes<'_>>, is_unit: bool) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some(b) = chars.next_if(|&b| !is_unit || b != b'*') {
        match b {
            b'{' => {
                let unit = repeated(chars);
                out.extend(unit);
            }
            b'\\' => out.push(escaped(chars)),
            b => out.push(b),
        }
    }
    out
}

fn repeated(chars: &mut std::iter::Peekable<std::str::Bytes<'_>>) -> Vec<u8> {
    let unit = read(chars, true);
    assert_eq!(chars.next(), Some(b'*'), "a repetition without a number");
    let digits: String = std::iter::from_fn(|| chars.next_if(u8::is_ascii_digit).map(char::from)).collect();
    assert_eq!(chars.next(), Some(b'}'), "a repetition without an end");
    unit.repeat(digits.parse().unwrap())
}

fn escaped(chars: &mut std::iter::Peekable<std::str::Bytes<'_>>) -> u8 {
    match chars.next() {
        Some(b'r') => b'\r',
        Some(b'n') => b'\n',
        Some(b't') => b'\t',
        Some(b'0') => 0,
        Some(b'\\') => b'\\',
        Some(b'x') => {
            let digits: String = chars.take(2).map(char::from).collect();
            u8::from_str_radix(&digits, 16).unwrap()
        }
        other => panic!("unknown escape {other:?}"),
    }
}

/// Sends the bytes of a case, `piece` at a time, and returns all that comes back.
fn send(address: SocketAddr, case: &Case, piece: usize) -> Vec<u8> {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_nodelay(true).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let probe: &[u8] = if case.then == Then::Fin { b"" } else { PROBE };
    let all = [&case.bytes[..], probe].concat();
    for bytes in all.chunks(piece) {
        // The server may have answered and closed before it took everything.
        let _ = socket.write_all(bytes);
    }
    if case.then == Then::Fin {
        let _ = socket.shutdown(Shutdown::Write);
    }
    let mut back = Vec::new();
    match socket.read_to_end(&mut back) {
        Ok(_) => back,
        // A server that has closed the connection as it said need not swallow what still comes.
        Err(e) if e.kind() == ErrorKind::ConnectionReset && case.then == Then::Closed => back,
        Err(e) => panic!("{}: {e} behind {}", case.name, show(&back)),
    }
}

/// Final responses; a body is as its framing says. `heads` of them have none.
fn responses(mut bytes: &[u8], heads: usize) -> Result<Vec<(u16, Vec<u8>)>, String> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let end = find(bytes, b"\r\n\r\n").ok_or("a head without an end")?;
        let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
        bytes = &bytes[end + 4..];
        let status: u16 = head.get(9..12).and_then(|s| s.parse().ok()).ok_or("no status")?;
        if !head.starts_with("http/1.") {
            return Err(format!("no response: {head}"));
        }
        if status < 200 {
            continue;
        }
        let value = |name: &str| head.lines().find_map(|line| line.strip_prefix(name));
        let mut body = Vec::new();
        if all.len() < heads || status == 204 {
        } else if value("transfer-encoding: ").is_some() {
            loop {
                let end = find(bytes, b"\r\n").ok_or("a chunk without a size")?;
                let size = std::str::from_utf8(&bytes[..end]).unwrap_or_default();
                let size = usize::from_str_radix(size, 16).map_err(|e| e.to_string())?;
                body.extend_from_slice(bytes.get(end + 2..end + 2 + size).ok_or("a chunk cut short")?);
                bytes = bytes.get(end + 4 + size..).ok_or("a chunk without an end")?;
                if size == 0 {
                    break;
                }
            }
        } else {
            let length = value("content-length: ").map_or(Ok(bytes.len()), str::parse);
            let length = length.map_err(|e| e.to_string())?;
            body.extend_from_slice(bytes.get(..length).ok_or("a body cut short")?);
            bytes = &bytes[length..];
        }
        all.push((status, body));
    }
    Ok(all)
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

fn show(bytes: &[u8]) -> String {
    let start = &bytes[..bytes.len().min(2000)];
    String::from_utf8_lossy(start).into_owned()
}

/// What is wrong with what came back.
fn complaint(case: &Case, back: &[u8]) -> Option<String> {
    let is_head = case.bytes.starts_with(b"HEAD ");
    let heads = if is_head { case.answers.len() } else { 0 };
    let got = match responses(back, heads) {
        Ok(got) => got,
        Err(why) => return Some(format!("{}: {why} in {}", case.name, show(back))),
    };
    let mut wanted = case.answers.clone();
    if case.then == Then::Open {
        wanted.push((200, Some("hello from /probe")));
    }
    let same = got.len() == wanted.len()
        && got.iter().zip(&wanted).all(|((status, body), (wanted, text))| {
            status == wanted && text.is_none_or(|text| text.as_bytes() == body)
        });
    (!same).then(|| {
        let got: Vec<_> = got.iter().map(|(status, body)| (status, show(body))).collect();
        format!("{}: expected {wanted:?}, got {got:?}", case.name)
    })
}

fn server() -> Server {
    let settings = [
        "pool.web.mode=classic",
        "pool.web.script=public/index.php",
        "limits.body_bytes=\"1 MiB\"",
    ];
    Server::start(&App::of_tests(), &settings)
}

fn assert_none(complaints: &[String]) {
    let mut text = String::new();
    for complaint in complaints {
        writeln!(text, "{complaint}").unwrap();
    }
    assert!(complaints.is_empty(), "{} are wrong:\n{text}", complaints.len());
}

#[test]
fn each_case_has_its_answers() {
    let server = server();
    let cases = cases();
    assert!(cases.len() > 300, "the list was read");
    let answers = cases.iter().filter_map(|case| {
        let back = send(server.address(), case, usize::MAX);
        complaint(case, &back)
    });
    assert_none(&answers.collect::<Vec<_>>());
    assert_eq!(server.log.count("worker died"), 0);
}

#[test]
fn each_case_has_the_same_answers_byte_by_byte() {
    let server = server();
    let cases = cases().into_iter().filter(|case| case.bytes.len() < LONG);
    let answers = cases.filter_map(|case| {
        let back = send(server.address(), &case, 1);
        complaint(&case, &back)
    });
    assert_none(&answers.collect::<Vec<_>>());
}
