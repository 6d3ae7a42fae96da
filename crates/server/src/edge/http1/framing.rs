//! Follows the bytes of an HTTP/1 connection: where does a request end and the next one begin? Refuses what others may answer
//! otherwise.
//!
//! hyper parses after this; it takes a line feed alone for the end of a line, forgets a length beside a transfer coding, and cuts a
//! fragment off. Whoever stands in front of the server may see other requests in the same bytes then, which is how requests are
//! smuggled (RFC 9112 §11.2). What passes here has one meaning. Lengths, codings and line ends are looked at, the rest is hyper's and
//! `check`'s. Called by `wire` with all that is read. Pure, and it keeps no bytes but the start of an unfinished line. Runs in: server,
//! on a reactor.

use memchr::memchr;

use crate::edge::check;

/// Bytes that are kept of a line that did not come at once: enough for a length or a coding.
const KEPT: usize = 64;
/// Empty lines that may come before a request; old clients send one behind a body (RFC 9112 §2.2).
const EMPTY_LINES: u8 = 4;
/// Digits of a chunk's size.
const SIZE_DIGITS: u8 = 16;
/// Bytes of the extensions of a chunk, and of all trailers of a body. Nobody reads either, and they cost as much as a body.
const EXTENSIONS: u16 = 1024;
const TRAILERS: usize = 8 * 1024;

/// What [`Malformed::why`] is for a request line beyond its limit.
pub(super) const TOO_LONG: &str = "request line too long";

/// What is wrong, for the log, and with which byte of those that were looked at last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed {
    pub(super) at: usize,
    pub(super) why: &'static str,
}

/// Where in a request the next byte is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    RequestLine,
    HeaderLine,
    /// In a body of which so many bytes are missing.
    Body(u64),
    ChunkSize(u64, Size),
    /// In a chunk of which so many bytes are missing.
    Chunk(u64),
    /// Behind a chunk; true once the carriage return was seen.
    ChunkEnd(bool),
    Trailer,
}

/// Where in the line of a chunk's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    Digits(u8),
    /// RFC 9112 §7.1.1: space before an extension.
    Space,
    Extension(u16),
    LineFeed,
}

/// One connection.
#[derive(Debug)]
pub(super) struct Framing {
    at: At,
    /// Heads that have ended.
    heads: u64,
    /// The start of a line whose end has not come yet, its length so far and its last byte.
    kept: [u8; KEPT],
    seen: usize,
    last: u8,
    empty_lines: u8,
    length: Option<u64>,
    chunked: bool,
    trailers: usize,
    line_limit: usize,
}

impl Framing {
    /// A request line may have `line_limit` bytes.
    pub(super) fn new(line_limit: usize) -> Self {
        Self {
            line_limit,
            at: At::RequestLine,
            heads: 0,
            kept: [0; KEPT],
            seen: 0,
            last: 0,
            empty_lines: 0,
            length: None,
            chunked: false,
            trailers: 0,
        }
    }

    /// How many heads have ended.
    pub(super) fn heads(&self) -> u64 {
        self.heads
    }

    /// True when a head has begun and not ended.
    pub(super) fn in_head(&self) -> bool {
        match self.at {
            At::RequestLine => self.seen > 0,
            At::HeaderLine => true,
            _ => false,
        }
    }

    /// True when a body has begun and not ended.
    pub(super) fn in_body(&self) -> bool {
        !matches!(self.at, At::RequestLine | At::HeaderLine)
    }

    /// True when a request has ended and no other has begun.
    pub(super) fn is_between(&self) -> bool {
        self.heads > 0 && !self.in_head() && !self.in_body()
    }

    /// Looks at what was read. After an error nothing that follows has a meaning.
    pub(super) fn follow(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let done = bytes.len() - rest.len();
            let taken = self
                .step(rest)
                .map_err(|(at, why)| Malformed { at: done + at, why })?;
            rest = rest.get(taken..).unwrap_or_default();
        }
        Ok(())
    }

    /// Looks at a part of `bytes`, which are not empty; returns its length.
    fn step(&mut self, bytes: &[u8]) -> Result<usize, (usize, &'static str)> {
        match self.at {
            At::RequestLine | At::HeaderLine | At::Trailer => self.line(bytes),
            At::Body(missing) => {
                let (taken, missing) = take(bytes, missing);
                self.at = if missing == 0 {
                    At::RequestLine
                } else {
                    At::Body(missing)
                };
                Ok(taken)
            }
            At::Chunk(missing) => {
                let (taken, missing) = take(bytes, missing);
                self.at = if missing == 0 {
                    At::ChunkEnd(false)
                } else {
                    At::Chunk(missing)
                };
                Ok(taken)
            }
            At::ChunkEnd(returned) => {
                self.at = match (returned, bytes.first()) {
                    (false, Some(b'\r')) => At::ChunkEnd(true),
                    (true, Some(b'\n')) => FIRST_DIGIT,
                    _ => return Err((0, "chunk longer than its size")),
                };
                Ok(1)
            }
            At::ChunkSize(size, part) => self.chunk_size(bytes, size, part),
        }
    }

    /// A line of a head or of the trailers, or a part of one.
    fn line(&mut self, bytes: &[u8]) -> Result<usize, (usize, &'static str)> {
        let end = memchr(b'\n', bytes);
        let part = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default();
        if self.at == At::RequestLine {
            // RFC 9112 §3.2: no form of the target has one.
            if let Some(at) = memchr(b'#', part) {
                return Err((at, "fragment in the target"));
            }
            if self.seen + part.len() > self.line_limit {
                return Err((0, TOO_LONG));
            }
        }
        if self.at == At::Trailer {
            self.trailers += part.len();
            if self.trailers > TRAILERS {
                return Err((0, "trailers too long"));
            }
        }
        let Some(end) = end else {
            self.keep(part);
            return Ok(part.len());
        };
        if part.last().copied().unwrap_or(self.last_seen()) != b'\r' {
            return Err((end, "line feed without carriage return"));
        }
        let judged = if self.seen == 0 {
            let line = part.get(..part.len() - 1).unwrap_or_default();
            self.whole_line(line, line.len() <= KEPT)
        } else {
            self.keep(part);
            let (length, kept) = (self.seen - 1, self.kept);
            let line = kept.get(..length.min(KEPT)).unwrap_or_default();
            self.whole_line(line, length <= KEPT)
        };
        self.seen = 0;
        judged.map_err(|why| (end, why))?;
        Ok(end + 1)
    }

    fn last_seen(&self) -> u8 {
        if self.seen == 0 { 0 } else { self.last }
    }

    fn keep(&mut self, part: &[u8]) {
        if let Some(last) = part.last() {
            self.last = *last;
        }
        if let Some(room) = self.kept.get_mut(self.seen..) {
            let count = room.len().min(part.len());
            let (room, _) = room.split_at_mut(count);
            room.copy_from_slice(part.get(..count).unwrap_or_default());
        }
        self.seen += part.len();
    }

    /// A line without its end; if it is longer than what is kept, not `is_all` of it is judged, lest it depend on how it came.
    fn whole_line(&mut self, line: &[u8], is_all: bool) -> Result<(), &'static str> {
        match self.at {
            At::RequestLine if line.is_empty() => {
                self.empty_lines += 1;
                if self.empty_lines > EMPTY_LINES {
                    return Err("too many empty lines");
                }
            }
            At::RequestLine => {
                method(line)?;
                (self.length, self.chunked, self.empty_lines) = (None, false, 0);
                self.at = At::HeaderLine;
            }
            At::Trailer if line.is_empty() => self.at = At::RequestLine,
            _ if line.is_empty() => {
                self.at = self.end_of_head()?;
                self.heads += 1;
            }
            // RFC 9112 §5.2; what continues the line above may be a line of its own to others.
            _ if matches!(line.first(), Some(b' ' | b'\t')) => return Err("folded line"),
            At::HeaderLine => self.header(line, is_all)?,
            _ => {}
        }
        Ok(())
    }

    fn header(&mut self, line: &[u8], is_all: bool) -> Result<(), &'static str> {
        if !matches!(line.first(), Some(b'c' | b'C' | b't' | b'T')) {
            return Ok(());
        }
        let Some(colon) = memchr(b':', line) else {
            return Ok(());
        };
        let (name, value) = line.split_at(colon);
        let is_length = name.eq_ignore_ascii_case(b"content-length");
        if !is_length && !name.eq_ignore_ascii_case(b"transfer-encoding") {
            return Ok(());
        }
        let value = value
            .get(1..)
            .filter(|_| is_all)
            .ok_or("length or coding too long")?;
        if is_length {
            if self.length.is_some() {
                return Err("more than one Content-Length");
            }
            self.length = Some(length(trim(value)).ok_or("invalid Content-Length")?);
        } else {
            // RFC 9112 §6.1: nothing else is implemented, and `chunked` must not be applied twice.
            if self.chunked || !trim(value).eq_ignore_ascii_case(b"chunked") {
                return Err("transfer coding other than chunked");
            }
            self.chunked = true;
        }
        Ok(())
    }

    fn end_of_head(&self) -> Result<At, &'static str> {
        match (self.length, self.chunked) {
            (Some(_), true) => Err("length and transfer coding"),
            (None, true) => Ok(FIRST_DIGIT),
            (None | Some(0), false) => Ok(At::RequestLine),
            (Some(length), false) => Ok(At::Body(length)),
        }
    }

    fn chunk_size(
        &mut self,
        bytes: &[u8],
        mut size: u64,
        mut part: Size,
    ) -> Result<usize, (usize, &'static str)> {
        for (at, &b) in bytes.iter().enumerate() {
            part = match (part, b) {
                (Size::Digits(count), _) if b.is_ascii_hexdigit() && count < SIZE_DIGITS => {
                    size = size << 4 | char::from(b).to_digit(16).map_or(0, u64::from);
                    Size::Digits(count + 1)
                }
                (Size::Digits(1..) | Size::Space, b' ' | b'\t') => Size::Space,
                (Size::Digits(1..) | Size::Space, b';') => Size::Extension(0),
                (Size::Extension(count), b'\t' | b' '..=b'~' | 0x80..) if count < EXTENSIONS => {
                    Size::Extension(count + 1)
                }
                (Size::Digits(1..) | Size::Extension(_), b'\r') => Size::LineFeed,
                (Size::LineFeed, b'\n') => {
                    self.trailers = 0;
                    self.at = if size == 0 { At::Trailer } else { At::Chunk(size) };
                    return Ok(at + 1);
                }
                (Size::Digits(_) | Size::Space, _) => return Err((at, "invalid size of a chunk")),
                (Size::Extension(_) | Size::LineFeed, _) => return Err((at, "invalid extension of a chunk")),
            };
        }
        self.at = At::ChunkSize(size, part);
        Ok(bytes.len())
    }
}

const FIRST_DIGIT: At = At::ChunkSize(0, Size::Digits(0));

/// How many of `bytes` belong to what is `missing`, and how many are missing then.
fn take(bytes: &[u8], missing: u64) -> (usize, u64) {
    let taken = bytes.len().min(usize::try_from(missing).unwrap_or(usize::MAX));
    (taken, missing - taken as u64)
}

fn method(line: &[u8]) -> Result<(), &'static str> {
    let (name, rest) = line.split_at(memchr(b' ', line).unwrap_or(line.len()));
    if rest.is_empty() || name.len() >= KEPT || !check::is_method(name) {
        return Err("invalid method");
    }
    Ok(())
}

/// RFC 9110 §5.6.3: without the space around it.
fn trim(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

/// RFC 9110 §8.6: digits and nothing else; no more than others can count.
fn length(value: &[u8]) -> Option<u64> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number: i64 = std::str::from_utf8(value).ok()?.parse().ok()?;
    number.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &[&str] = &[
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "\r\nGET / HTTP/1.1\r\n\r\nPUT / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc\r\nGET / HTTP/1.0\r\n\r\n",
        "POST / HTTP/1.1\r\ntransfer-encoding:\tChunked \r\n\r\n3\r\na\nb\r\n0A ; x=\"y\"\r\n0123456789\r\n0\r\nx: y\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Lengths: x\r\nTe: x\r\nCookie: x\r\nContent-Length:0\r\n\r\nGET / HTTP/1.1\r\n\r\n",
        "GET /a-target-that-is-longer-than-what-is-kept-of-a-line-that-comes-in-pieces HTTP/1.1\r\n\r\n",
    ];

    /// `^` stands before the byte that is wrong.
    const BAD: &[&str] = &[
        "GET / HTTP/1.1^\n\r\n",
        "GET / HTTP/1.1\r\nHost: a^\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n^\n",
        "^\nGET / HTTP/1.1\r\n\r\n",
        "\r\n\r\n\r\n\r\n\r^\n",
        "get / HTTP/1.1\r^\n\r\n",
        "GET\r^\n\r\n",
        "GET /^#a HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\na: b\r\n c: d\r^\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: +1\r^\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: 1, 1\r^\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r^\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: 99999999999999999999\r^\n\r\n",
        "GET / HTTP/1.1\r\nTransfer-Encoding: \x0bchunked\r^\n\r\n",
        "GET / HTTP/1.1\r\nTransfer-Encoding: \x0cchunked\r^\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r^\n",
        "GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1^\n",
        "P / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2^\nab",
        "P / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2 ^\r\nab",
        "P / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n^\r\n",
        "P / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0^x2\r\nab",
        "P / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2;^\nab",
        "P / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2;\r^\r\nab",
        "P / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab^c\r\n",
        "P / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab^\n",
        "P / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n^\n",
        "P / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\na: b^\n\r\n",
        "P / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0000000000000000^1\r\n",
    ];

    #[test]
    fn what_is_well_formed_passes_however_it_is_cut() {
        for text in GOOD {
            for piece in 1..=text.len() {
                let mut framing = Framing::new(100);
                for bytes in text.as_bytes().chunks(piece) {
                    assert_eq!(framing.follow(bytes), Ok(()), "{text:?} by {piece}");
                }
                assert!(!framing.in_head() && !framing.in_body(), "{text:?} by {piece}");
            }
        }
    }

    #[test]
    fn what_is_malformed_is_refused_at_the_same_byte_however_it_is_cut() {
        for marked in BAD {
            let (text, at) = (marked.replacen('^', "", 1), marked.find('^'));
            for piece in 1..=text.len() {
                let mut framing = Framing::new(100);
                let mut pieces = text.as_bytes().chunks(piece).enumerate();
                let found = pieces.find_map(|(number, bytes)| {
                    let malformed = framing.follow(bytes).err()?;
                    Some(number * piece + malformed.at)
                });
                assert_eq!(found, at, "{marked:?} by {piece}");
            }
        }
    }

    #[test]
    fn a_length_that_is_padded_beyond_what_is_kept_is_refused() {
        let text = format!(
            "GET / HTTP/1.1\r\nContent-Length:{}5\r\n\r\nabcde",
            " ".repeat(100)
        );
        for piece in [7, text.len()] {
            let mut framing = Framing::new(100);
            let mut pieces = text.as_bytes().chunks(piece);
            assert!(pieces.any(|bytes| framing.follow(bytes).is_err()), "by {piece}");
        }
    }

    /// xorshift64*: the same sequence each time.
    fn dice(state: &mut u64, sides: usize) -> usize {
        *state ^= *state >> 12;
        *state ^= *state << 25;
        *state ^= *state >> 27;
        let high = state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(high).unwrap() % sides
    }

    #[test]
    fn the_same_bytes_have_the_same_meaning_however_they_are_cut() {
        const BYTES: &[u8] = b"\r\n\r\n\n\r :;,\t#0123456789abcdefgGPx\0\xff";
        let seeds: Vec<String> = GOOD.iter().chain(BAD).map(|text| text.replace('^', "")).collect();
        let mut state = 20_261_121;
        for round in 0..20_000 {
            let mut bytes = seeds[dice(&mut state, seeds.len())].clone().into_bytes();
            for _ in 0..=dice(&mut state, 4) {
                let (at, new) = (
                    dice(&mut state, bytes.len()),
                    BYTES[dice(&mut state, BYTES.len())],
                );
                match dice(&mut state, 3) {
                    0 => bytes[at] = new,
                    1 => bytes.insert(at, new),
                    _ if bytes.len() > 1 => drop(bytes.remove(at)),
                    _ => {}
                }
            }
            let mut whole = Framing::new(100);
            let expected = whole.follow(&bytes).is_ok();
            let mut pieces = Framing::new(100);
            let (mut rest, mut is_ok) = (&bytes[..], true);
            while is_ok && !rest.is_empty() {
                let (piece, more) = rest.split_at(1 + dice(&mut state, rest.len()));
                is_ok = pieces.follow(piece).is_ok();
                rest = more;
            }
            let seen = |framing: &Framing| (framing.heads(), is_ok && framing.in_head(), framing.in_body());
            let text = String::from_utf8_lossy(&bytes);
            assert_eq!(
                (is_ok, seen(&pieces)),
                (expected, seen(&whole)),
                "{round}: {text:?}"
            );
        }
    }
}
