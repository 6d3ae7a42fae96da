//! `Upgrade: h2c`: from HTTP/1.1 to HTTP/2 in the clear, with the first request of a connection (RFC 7540 §3.2).
//!
//! The request becomes the frame that a client of HTTP/2 would have sent, behind the client's own preface and settings: h2 takes it for
//! stream 1, and every check is that of any other request. Who is not upgraded is answered in HTTP/1.1, as this way provides for. Since it
//! was withdrawn (RFC 9113 §3.1), much is reason enough: a body, a head that did not come at once, a proxy, which may pass on an offer that
//! it does not understand, and then whatever follows. Called by `connection`. Runs in: server, on one reactor.

use std::future::poll_fn;
use std::io;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use memchr::memmem;
use tokio::io::AsyncWriteExt;

use super::frames::{END_HEADERS, END_STREAM, HEADER, HEADERS, PREFACE, SETTINGS};
use crate::edge::check;
use crate::edge::transport::Transport;

/// What `Upgrade` says.
const TOKEN: &str = "h2c";
const ACCEPTED: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n";
/// Methods that come without a body.
const METHODS: [&str; 3] = ["GET", "HEAD", "OPTIONS"];
const SETTINGS_HEADER: HeaderName = HeaderName::from_static("http2-settings");
/// Headers with which a request is not upgraded: those of a body, of a connection, and of proxies.
const REFUSED: [HeaderName; 13] = [
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::TRAILER,
    header::EXPECT,
    header::TE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::VIA,
    header::FORWARDED,
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-forwarded-host"),
    HeaderName::from_static("x-forwarded-proto"),
    HeaderName::from_static("x-real-ip"),
];
/// Bytes of a client's first frame; there are a dozen settings of 6 bytes.
const FIRST_FRAME: usize = 1024;
/// Characters of `HTTP2-Settings` that come together: four of base64 are three bytes, a setting has six.
const SETTING: usize = 8;

/// A request that may be upgraded, as the frame of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::edge) struct Offer(Vec<u8>);

/// The offer in what has come of a connection, if that is one whole head and nothing more.
pub(in crate::edge) fn offered(bytes: &[u8]) -> Option<Offer> {
    memmem::find(bytes, TOKEN.as_bytes())?;
    let head = std::str::from_utf8(bytes).ok()?.strip_suffix("\r\n\r\n")?;
    let mut lines = head.split("\r\n");
    let (method, target) = lines.next()?.strip_suffix(" HTTP/1.1")?.split_once(' ')?;
    let mut headers = HeaderMap::new();
    for line in lines {
        let (name, value) = line.split_once(':')?;
        let value = HeaderValue::from_str(value.trim_matches([' ', '\t'])).ok()?;
        headers.append(HeaderName::from_bytes(name.as_bytes()).ok()?, value);
    }
    let host = only(&headers, &header::HOST)?;
    let is_offer = only(&headers, &header::UPGRADE)? == TOKEN
        && is_of_upgrade(only(&headers, &header::CONNECTION)?)
        && is_settings(only(&headers, &SETTINGS_HEADER)?);
    let is_target = target.starts_with('/') && target.bytes().all(|b| b.is_ascii_graphic() && b != b'#');
    if !is_offer || !is_target || !METHODS.contains(&method) || !check::is_host(host.as_bytes()) {
        return None;
    }
    if REFUSED.iter().any(|name| headers.contains_key(name)) {
        return None;
    }
    let mut block = Vec::with_capacity(2 * bytes.len());
    for (name, value) in [(":method", method), (":scheme", "http"), (":path", target)] {
        put(&mut block, name, value.as_bytes());
    }
    put(&mut block, ":authority", host.as_bytes());
    let own = [header::HOST, header::UPGRADE, header::CONNECTION, SETTINGS_HEADER];
    for (name, value) in headers.iter().filter(|(name, _)| !own.contains(name)) {
        put(&mut block, name.as_str(), value.as_bytes());
    }
    Some(Offer(frame(&block)))
}

/// Upgrades the connection: its next bytes are those of HTTP/2, with the request among them.
pub(in crate::edge) async fn accept(socket: &mut Transport, Offer(frame): Offer) -> io::Result<()> {
    socket.replace_before(Vec::new());
    socket.write_all(ACCEPTED).await?;
    let end = loop {
        if let Some(end) = end_of_first_frame(socket.before())? {
            break end;
        }
        if poll_fn(|cx| socket.poll_ahead(cx)).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    };
    let mut bytes = socket.before().to_vec();
    bytes.splice(end..end, frame);
    socket.replace_before(bytes);
    Ok(())
}

/// How many bytes a preface and its settings are, once they are there.
fn end_of_first_frame(bytes: &[u8]) -> io::Result<Option<usize>> {
    let (preface, rest) = bytes.split_at(bytes.len().min(PREFACE.len()));
    if !PREFACE.starts_with(preface) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "no preface"));
    }
    let Some([a, b, c, kind, ..]) = rest.get(..HEADER) else {
        return Ok(None);
    };
    let length = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
    if *kind != SETTINGS || length > FIRST_FRAME {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "no settings"));
    }
    let end = PREFACE.len() + HEADER + length;
    Ok((bytes.len() >= end).then_some(end))
}

/// A header that is there once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    let mut values = headers.get_all(name).iter();
    values.next().filter(|_| values.next().is_none())
}

/// Whether `Connection` names what belongs to the offer, and nothing else.
fn is_of_upgrade(value: &HeaderValue) -> bool {
    let names = value.to_str().unwrap_or_default().split(',').map(str::trim);
    let mut names: Vec<_> = names.map(str::to_ascii_lowercase).collect();
    names.sort_unstable();
    names == [SETTINGS_HEADER.as_str(), header::UPGRADE.as_str()]
}

/// Whether these are settings, whatever they say: those that count come with the preface.
fn is_settings(value: &HeaderValue) -> bool {
    let is_character = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    value.len().is_multiple_of(SETTING) && value.as_bytes().iter().all(is_character)
}

/// A field that is to be remembered nowhere (RFC 7541 §6.2.2).
fn put(block: &mut Vec<u8>, name: &str, value: &[u8]) {
    block.push(0);
    for text in [name.as_bytes(), value] {
        put_length(block, text.len());
        block.extend(text);
    }
}

/// RFC 7541 §5.1, with seven bits in the first byte.
fn put_length(block: &mut Vec<u8>, length: usize) {
    const FULL: usize = 0x7f;
    let low = |number: usize| u8::try_from(number & FULL).unwrap_or_default();
    block.push(low(length.min(FULL)));
    let Some(mut rest) = length.checked_sub(FULL) else {
        return;
    };
    while rest > FULL {
        block.push(low(rest) | 0x80);
        rest >>= 7;
    }
    block.push(low(rest));
}

/// The first request of a connection, without a body.
fn frame(block: &[u8]) -> Vec<u8> {
    let length = u32::try_from(block.len()).unwrap_or_default().to_be_bytes();
    let mut frame = length.get(1..).unwrap_or_default().to_vec();
    frame.extend([HEADERS, END_HEADERS | END_STREAM, 0, 0, 0, 1]);
    frame.extend(block);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What curl sends.
    const CURL: &str = "GET /a?b HTTP/1.1\r\nHost: shop.test:81\r\nUser-Agent: curl/7.88.1\r\nAccept: */*\r\n\
        Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n\r\n";

    #[test]
    fn an_offer_becomes_a_frame_of_its_first_stream() {
        let Offer(bytes) = offered(CURL.as_bytes()).unwrap();
        let mut block = Vec::new();
        for (name, value) in [
            (":method", "GET"),
            (":scheme", "http"),
            (":path", "/a?b"),
            (":authority", "shop.test:81"),
            ("user-agent", "curl/7.88.1"),
            ("accept", "*/*"),
        ] {
            put(&mut block, name, value.as_bytes());
        }
        let length = u8::try_from(block.len()).unwrap();
        assert_eq!(bytes[..9], [0, 0, length, 1, 5, 0, 0, 0, 1]);
        assert_eq!(bytes[9..], block);
    }

    #[test]
    fn lengths_are_written_as_the_rfc_says() {
        for (length, bytes) in [
            (0, &[0][..]),
            (126, &[126]),
            (127, &[127, 0]),
            (254, &[127, 127]),
            (255, &[127, 128, 1]),
            (1337, &[127, 186, 9]),
        ] {
            let mut block = Vec::new();
            put_length(&mut block, length);
            assert_eq!(block, bytes, "{length}");
        }
    }

    #[test]
    fn what_is_no_clean_offer_stays_with_http_1() {
        let with = |old: &str, new: &str| {
            assert!(CURL.contains(old), "{old}");
            CURL.replace(old, new)
        };
        for (name, head) in [
            ("a part", CURL[..CURL.len() - 1].to_owned()),
            ("another one behind it", CURL.repeat(2)),
            ("a body", with("Accept: */*", "Content-Length: 1")),
            ("chunks", with("Accept: */*", "Transfer-Encoding: chunked")),
            ("a method with a body", with("GET", "POST")),
            ("an old version", with("HTTP/1.1", "HTTP/1.0")),
            ("an absolute target", with("/a?b", "http://shop.test/")),
            ("a fragment", with("/a?b", "/a#b")),
            ("a space in the target", with("/a?b", "/a b")),
            ("no host", with("Host: shop.test:81\r\n", "")),
            ("two hosts", with("Accept: */*", "Host: other")),
            ("an invalid host", with("shop.test:81", "a/b")),
            ("a proxy", with("Accept: */*", "X-Forwarded-For: 1.2.3.4")),
            ("a proxy by its own header", with("Accept: */*", "Via: 1.1 proxy")),
            (
                "a connection of a proxy",
                with("Upgrade, HTTP2-Settings", "upgrade"),
            ),
            (
                "more of the connection",
                with("Upgrade, HTTP2", "Upgrade, X-Secret, HTTP2"),
            ),
            (
                "another protocol",
                with("Upgrade: h2c", "Upgrade: websocket, h2c"),
            ),
            (
                "no settings",
                with("HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n", ""),
            ),
            ("two settings", with("Accept: */*", "HTTP2-Settings: AAMAAABk")),
            ("part of a setting", with("AAMAAABkAAQC", "AAMAAABkAA")),
            ("no base64", with("AAMAAABkAAQC", "AAMAAABkAA=*")),
            ("a line feed alone", with("Accept: */*\r\n", "Accept: */*\n")),
            ("a folded line", with("Accept: */*", "Accept:\r\n */*")),
            ("space in front of a colon", with("Accept:", "Accept :")),
            ("a carriage return alone", with("Accept: */*", "Accept: a\rb")),
        ] {
            assert_eq!(offered(head.as_bytes()), None, "{name}");
        }
    }

    #[test]
    fn the_preface_is_awaited_and_must_be_one() {
        let whole = [&PREFACE[..], &[0, 0, 6, 4, 0, 0, 0, 0, 0], &[0; 6]].concat();
        for cut in 0..whole.len() {
            assert!(matches!(end_of_first_frame(&whole[..cut]), Ok(None)), "{cut}");
        }
        let more = [&whole[..], b"more"].concat();
        assert_eq!(end_of_first_frame(&more).unwrap(), Some(whole.len()));
        assert!(end_of_first_frame(b"GET / HTTP/1.1").is_err());
        for (at, byte) in [(PREFACE.len(), 1), (PREFACE.len() + 3, 6)] {
            let mut wrong = whole.clone();
            wrong[at] = byte;
            assert!(end_of_first_frame(&wrong).is_err(), "{at}");
        }
    }
}
