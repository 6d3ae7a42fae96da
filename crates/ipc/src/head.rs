//! Request and response heads as bytes: the writer and the reader of each, side by side.
//!
//! Request (server → worker): a fixed part of [`REQUEST_FIXED`] bytes, then the CGI variables. Names and values are followed by
//! a NUL, so that C can use them where they lie.
//! ```text
//! 0 len:u32  4 params:u32  8 id:u64  16 body_len:u64  24 body_kind:u32  28 –  32 known:[u32; 16]  96 params…
//! param: name_len:u32 value_len:u32 name 0 value 0
//! ```
//! Response (worker → server), before the body in the lane:
//! ```text
//! 0 len:u32  4 status:u16  6 reason_len:u16  8 lines:u32  12 reason  then per line: len:u32 bytes
//! ```
//! All numbers are little-endian. `known[k]` is the offset of that variable's entry, 0 when absent; entries are padded to 4
//! bytes. The request's writer is trusted by its reader; the response's is not.

/// Bytes before the first variable of a request.
pub const REQUEST_FIXED: usize = 96;
/// Bytes before the reason of a response.
pub const RESPONSE_FIXED: usize = 12;
/// Status of a final head whose script asked for a status that no response can have; the reason is what it asked for, in digits.
pub const NO_STATUS: u16 = 0;
/// Bytes a response's head may have.
pub const RESPONSE_MAX: usize = 256 * 1024;

/// Variables that the worker needs by name, found without a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Known {
    /// `REQUEST_METHOD`
    Method = 0,
    /// `REQUEST_URI`
    Uri = 1,
    /// `QUERY_STRING`
    Query = 2,
    /// `CONTENT_TYPE`
    ContentType = 3,
    /// `CONTENT_LENGTH`
    ContentLength = 4,
    /// `HTTP_COOKIE`
    Cookie = 5,
    /// `HTTP_AUTHORIZATION`
    Authorization = 6,
    /// `SCRIPT_FILENAME`
    Script = 7,
    /// `SERVER_PROTOCOL`
    Protocol = 8,
}

/// Where the body of a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyKind {
    /// There is none.
    Empty,
    /// In the request area, after the head.
    InSlot,
    /// In a file; the worker asks for its descriptor ([`crate::control::FromWorker::BodyFd`]).
    Spooled,
}

/// Builds a request's head.
#[derive(Debug)]
pub struct RequestWriter {
    bytes: Vec<u8>,
    params: u32,
}

impl RequestWriter {
    /// An empty head of request `id`. `capacity` is a guess at its bytes.
    pub fn new(id: u64, capacity: usize) -> Self {
        let mut bytes = Vec::with_capacity(capacity.max(REQUEST_FIXED));
        bytes.resize(REQUEST_FIXED, 0);
        put(&mut bytes, 8, &id.to_le_bytes());
        Self { bytes, params: 0 }
    }

    /// Appends a variable.
    pub fn param(&mut self, name: &[u8], value: &[u8]) {
        self.begin(name.len(), value.len());
        self.bytes.extend_from_slice(name);
        self.end(value);
    }

    /// Appends a variable that the worker needs by name.
    pub fn known(&mut self, known: Known, name: &[u8], value: &[u8]) {
        self.mark(known);
        self.param(name, value);
    }

    /// Appends a request header as `HTTP_` variable: upper case, `-` becomes `_`.
    pub fn header(&mut self, name: &[u8], value: &[u8]) {
        self.begin(name.len() + 5, value.len());
        self.bytes.extend_from_slice(b"HTTP_");
        self.bytes.extend(
            name.iter()
                .map(|&b| if b == b'-' { b'_' } else { b.to_ascii_uppercase() }),
        );
        self.end(value);
    }

    /// Says that the next variable is `known`.
    pub fn mark(&mut self, known: Known) {
        // The length of a head is 32 bits, too; a longer one fits into no slot.
        let at = u32::try_from(self.bytes.len()).unwrap_or(0);
        put(&mut self.bytes, 32 + 4 * known as usize, &at.to_le_bytes());
    }

    /// The head; its body is set later by [`set_body`].
    pub fn finish(mut self) -> Vec<u8> {
        let len = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        put(&mut self.bytes, 0, &len.to_le_bytes());
        put(&mut self.bytes, 4, &self.params.to_le_bytes());
        self.bytes
    }

    fn begin(&mut self, name: usize, value: usize) {
        self.params += 1;
        self.bytes
            .extend_from_slice(&u32::try_from(name).unwrap_or(u32::MAX).to_le_bytes());
        self.bytes
            .extend_from_slice(&u32::try_from(value).unwrap_or(u32::MAX).to_le_bytes());
    }

    fn end(&mut self, value: &[u8]) {
        self.bytes.push(0);
        self.bytes.extend_from_slice(value);
        self.bytes.push(0);
        let padded = self.bytes.len().next_multiple_of(4);
        self.bytes.resize(padded, 0);
    }
}

/// Writes where the body is into a finished head.
pub fn set_body(head: &mut [u8], kind: BodyKind, len: u64) {
    put(head, 16, &len.to_le_bytes());
    let kind: u32 = match kind {
        BodyKind::Empty => 0,
        BodyKind::InSlot => 1,
        BodyKind::Spooled => 2,
    };
    put(head, 24, &kind.to_le_bytes());
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + value.len()) {
        place.copy_from_slice(value);
    }
}

/// Reads a request's head where it lies.
#[derive(Clone, Copy, Debug)]
pub struct RequestReader<'a> {
    bytes: &'a [u8],
}

/// A CGI variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param<'a> {
    /// Followed by a NUL in memory.
    pub name: &'a [u8],
    /// Followed by a NUL in memory.
    pub value: &'a [u8],
}

impl<'a> RequestReader<'a> {
    /// `area` starts with a head and may go on. `None` when it is none.
    pub fn new(area: &'a [u8]) -> Option<Self> {
        let len = u32_at(area, 0)? as usize;
        if len < REQUEST_FIXED {
            return None;
        }
        Some(Self {
            bytes: area.get(..len)?,
        })
    }

    /// Bytes of the head; the body of [`BodyKind::InSlot`] follows.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// A head is never empty.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Id of the request.
    pub fn id(&self) -> u64 {
        u64_at(self.bytes, 8).unwrap_or(0)
    }

    /// Where the body is, and its bytes. `None` for a kind that does not exist.
    pub fn body(&self) -> Option<(BodyKind, u64)> {
        let kind = match u32_at(self.bytes, 24)? {
            0 => BodyKind::Empty,
            1 => BodyKind::InSlot,
            2 => BodyKind::Spooled,
            _ => return None,
        };
        Some((kind, u64_at(self.bytes, 16)?))
    }

    /// Number of variables.
    pub fn param_count(&self) -> usize {
        u32_at(self.bytes, 4).unwrap_or(0) as usize
    }

    /// The bytes of the head.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The variables, in order. Ends early where the bytes make no sense.
    pub fn params(&self) -> impl Iterator<Item = Param<'a>> + use<'a> {
        self.params_with_nul().map(|param| Param {
            name: without_nul(param.name),
            value: without_nul(param.value),
        })
    }

    /// As [`Self::params`]; both slices include the NUL behind them.
    pub fn params_with_nul(&self) -> impl Iterator<Item = Param<'a>> + use<'a> {
        let bytes = self.bytes;
        let mut at = REQUEST_FIXED;
        (0..self.param_count()).map_while(move |_| {
            let (param, next) = param_at(bytes, at)?;
            at = next;
            Some(param)
        })
    }

    /// A variable that was marked.
    pub fn known(&self, known: Known) -> Option<&'a [u8]> {
        self.known_with_nul(known).map(without_nul)
    }

    /// As [`Self::known`]; includes the NUL behind it.
    pub fn known_with_nul(&self, known: Known) -> Option<&'a [u8]> {
        let at = u32_at(self.bytes, 32 + 4 * known as usize)?;
        if at == 0 {
            return None;
        }
        Some(param_at(self.bytes, at as usize)?.0.value)
    }
}

/// All but the last byte.
fn without_nul(bytes: &[u8]) -> &[u8] {
    bytes.split_last().map_or(bytes, |(_, rest)| rest)
}

/// The variable at `at`, NULs included, and where the next one begins.
fn param_at(bytes: &[u8], at: usize) -> Option<(Param<'_>, usize)> {
    let name_len = u32_at(bytes, at)? as usize;
    let value_len = u32_at(bytes, at + 4)? as usize;
    let name_at = at + 8;
    let value_at = name_at.checked_add(name_len)?.checked_add(1)?;
    let end = value_at.checked_add(value_len)?.checked_add(1)?;
    let param = Param {
        name: bytes.get(name_at..value_at)?,
        value: bytes.get(value_at..end)?,
    };
    if param.name.last() != Some(&0) || param.value.last() != Some(&0) {
        return None;
    }
    Some((param, end.next_multiple_of(4)))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Writes a response's head in pieces to `out`. False, and nothing was written, when it would be longer than [`RESPONSE_MAX`].
pub fn write_response<'a>(
    status: u16,
    reason: &[u8],
    lines: impl Iterator<Item = &'a [u8]> + Clone,
    mut out: impl FnMut(&[u8]),
) -> bool {
    let (count, bytes) = lines
        .clone()
        .fold((0_u32, 0_usize), |(n, sum), line| (n + 1, sum + 4 + line.len()));
    let len = RESPONSE_FIXED + reason.len() + bytes;
    let (Ok(len32), Ok(reason_len), true) = (
        u32::try_from(len),
        u16::try_from(reason.len()),
        len <= RESPONSE_MAX,
    ) else {
        return false;
    };
    let mut fixed = [0; RESPONSE_FIXED];
    put(&mut fixed, 0, &len32.to_le_bytes());
    put(&mut fixed, 4, &status.to_le_bytes());
    put(&mut fixed, 6, &reason_len.to_le_bytes());
    put(&mut fixed, 8, &count.to_le_bytes());
    out(&fixed);
    out(reason);
    for line in lines {
        // The length fits: it is part of `len`.
        out(&u32::try_from(line.len()).unwrap_or(0).to_le_bytes());
        out(line);
    }
    true
}

/// A response's head, checked. Reads a private copy, never shared memory.
#[derive(Clone, Copy, Debug)]
pub struct ResponseReader<'a> {
    bytes: &'a [u8],
    status: u16,
    reason_len: usize,
    lines: u32,
}

/// Why the bytes of a worker are no response head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadHead {
    /// A length points outside.
    #[error("a length in the response head is impossible")]
    Length,
    /// Not 200–999, or 101.
    #[error("the script's final status is {0}, which no response can have: use one of 200 to 999")]
    Status(i32),
    /// RFC 9110 §5.1, §5.5.
    #[error("a response header has an invalid name or value")]
    Header,
}

impl<'a> ResponseReader<'a> {
    /// Bytes of the whole head, known from its first four; `None` while fewer are there.
    pub fn expected_len(bytes: &[u8]) -> Option<Result<usize, BadHead>> {
        let len = u32_at(bytes, 0)? as usize;
        Some(if (RESPONSE_FIXED..=RESPONSE_MAX).contains(&len) {
            Ok(len)
        } else {
            Err(BadHead::Length)
        })
    }

    /// `bytes` is exactly one head.
    pub fn new(bytes: &'a [u8]) -> Result<Self, BadHead> {
        if Self::expected_len(bytes) != Some(Ok(bytes.len())) {
            return Err(BadHead::Length);
        }
        let status = u16_at(bytes, 4).ok_or(BadHead::Length)?;
        let reason_len = usize::from(u16_at(bytes, 6).ok_or(BadHead::Length)?);
        let lines = u32_at(bytes, 8).ok_or(BadHead::Length)?;
        let reason = bytes
            .get(RESPONSE_FIXED..RESPONSE_FIXED + reason_len)
            .ok_or(BadHead::Length)?;
        if !is_field_value(reason) {
            return Err(BadHead::Header);
        }
        if !(100..1000).contains(&status) || status == 101 {
            return Err(BadHead::Status(asked_for(status, reason)));
        }
        let rest = bytes.len() - RESPONSE_FIXED - reason_len;
        // Each line has a length at least: so their number is bounded by the head's.
        if lines as usize > rest / 4 || (lines == 0 && rest != 0) {
            return Err(BadHead::Length);
        }
        Ok(Self {
            bytes,
            status,
            reason_len,
            lines,
        })
    }

    /// 100–999 without 101, which no other head follows (RFC 9110 §15.2.2). Below 200 it is an interim response.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Text of the status line; may be empty. No control characters.
    pub fn reason(&self) -> &'a [u8] {
        self.bytes
            .get(RESPONSE_FIXED..RESPONSE_FIXED + self.reason_len)
            .unwrap_or_default()
    }

    /// Name and value of each header. Ends with the first thing that is wrong, such as bytes after the last line.
    pub fn headers(&self) -> impl Iterator<Item = Result<(&'a [u8], &'a [u8]), BadHead>> + use<'a> {
        let bytes = self.bytes;
        let mut at = RESPONSE_FIXED + self.reason_len;
        let mut left = self.lines;
        let mut next = move || {
            let len = u32_at(bytes, at).ok_or(BadHead::Length)? as usize;
            let end = (at + 4).checked_add(len).ok_or(BadHead::Length)?;
            let line = bytes.get(at + 4..end).ok_or(BadHead::Length)?;
            at = end;
            let colon = line.iter().position(|&b| b == b':').ok_or(BadHead::Header)?;
            let (name, value) = line.split_at_checked(colon).ok_or(BadHead::Header)?;
            let value = trim_blanks(value.get(1..).unwrap_or_default());
            if name.is_empty() || !name.iter().all(|&b| is_token(b)) || !is_field_value(value) {
                return Err(BadHead::Header);
            }
            left -= 1;
            if left == 0 && at != bytes.len() {
                return Err(BadHead::Length);
            }
            Ok((name, value))
        };
        let mut failed = false;
        (0..self.lines).map_while(move |_| {
            if failed {
                return None;
            }
            let header = next();
            failed = header.is_err();
            Some(header)
        })
    }
}

/// The status that a script asked for where it cannot be had.
fn asked_for(status: u16, reason: &[u8]) -> i32 {
    let text = std::str::from_utf8(reason).unwrap_or_default();
    match text.parse() {
        Ok(asked_for) if status == NO_STATUS => asked_for,
        _ => i32::from(status),
    }
}

/// RFC 9110 §5.6.3: optional white space is spaces and tabs. CR and LF are not trimmed but refused.
fn trim_blanks(value: &[u8]) -> &[u8] {
    let is_blank = |b: &u8| matches!(b, b' ' | b'\t');
    let start = value.iter().position(|b| !is_blank(b)).unwrap_or(value.len());
    let end = value
        .iter()
        .rposition(|b| !is_blank(b))
        .map_or(start, |last| last + 1);
    value.get(start..end).unwrap_or_default()
}

/// RFC 9110 §5.6.2 tchar.
const fn is_token(b: u8) -> bool {
    b.is_ascii_alphanumeric()
        || matches!(
            b,
            b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~'
        )
}

/// RFC 9110 §5.5: visible characters, spaces, tabs and obs-text; no CR, LF, NUL or other controls.
fn is_field_value(value: &[u8]) -> bool {
    value.iter().all(|&b| b == b'\t' || (b >= b' ' && b != 0x7f))
}
