//! FastCGI's records as bytes: reading them, and writing those that an application sends.
//!
//! Pure: nothing is read from or written to a socket here. FastCGI specification 1.0, §3.3 (records), §3.4 (name-value pairs), §5.
//! ```text
//! 0 version:u8 = 1  1 type:u8  2 id:u16  4 length:u16  6 padding:u8  7 –   8 content, padding
//! ```
//! Numbers are big-endian. Called by the other files of this folder. Runs in: server, on a reactor.

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Bytes in front of a record's content.
pub(super) const HEADER: usize = 8;
/// Bytes of content that one record of a response has at most: the longest that needs no padding.
pub(super) const CONTENT_MAX: usize = 65_528;
const VERSION: u8 = 1;

/// Type of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Begin,
    Abort,
    End,
    Params,
    Stdin,
    Stdout,
    Stderr,
    Data,
    GetValues,
    GetValuesResult,
    UnknownType,
    /// No type of the specification.
    Other(u8),
}

impl Kind {
    /// As it is written.
    pub(super) const fn number(self) -> u8 {
        match self {
            Self::Begin => 1,
            Self::Abort => 2,
            Self::End => 3,
            Self::Params => 4,
            Self::Stdin => 5,
            Self::Stdout => 6,
            Self::Stderr => 7,
            Self::Data => 8,
            Self::GetValues => 9,
            Self::GetValuesResult => 10,
            Self::UnknownType => 11,
            Self::Other(number) => number,
        }
    }

    const fn new(number: u8) -> Self {
        match number {
            1 => Self::Begin,
            2 => Self::Abort,
            3 => Self::End,
            4 => Self::Params,
            5 => Self::Stdin,
            6 => Self::Stdout,
            7 => Self::Stderr,
            8 => Self::Data,
            9 => Self::GetValues,
            10 => Self::GetValuesResult,
            11 => Self::UnknownType,
            other => Self::Other(other),
        }
    }
}

/// One record, without its padding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) kind: Kind,
    /// 0: it speaks of the connection, not of a request.
    pub(super) id: u16,
    pub(super) content: Bytes,
}

/// Why bytes are no FastCGI: nothing on this connection can be understood any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Malformed {
    #[error("version {0} of FastCGI is unknown")]
    Version(u8),
    #[error("the length of a name or value is impossible")]
    Pair,
    #[error("the record that begins a request has {0} bytes instead of 8")]
    Begin(usize),
    #[error("a record that belongs into a request came before the one that begins it has ended")]
    Order,
}

/// Takes the first record off `buffer`, if it is there whole.
pub(super) fn take(buffer: &mut BytesMut) -> Result<Option<Record>, Malformed> {
    let Some(&[version, kind, id_high, id_low, len_high, len_low, padding, _]) = buffer.first_chunk() else {
        // Another protocol is told by its first byte: whoever speaks it may wait for an answer.
        return match buffer.first() {
            Some(&other) if other != VERSION => Err(Malformed::Version(other)),
            _ => Ok(None),
        };
    };
    if version != VERSION {
        return Err(Malformed::Version(version));
    }
    let len = usize::from(u16::from_be_bytes([len_high, len_low]));
    let whole = HEADER + len + usize::from(padding);
    if buffer.len() < whole {
        buffer.reserve(whole - buffer.len());
        return Ok(None);
    }
    buffer.advance(HEADER);
    let content = buffer.split_to(len).freeze();
    buffer.advance(usize::from(padding));
    Ok(Some(Record {
        kind: Kind::new(kind),
        id: u16::from_be_bytes([id_high, id_low]),
        content,
    }))
}

/// Role of the application, as the record that begins a request names it.
pub(super) const RESPONDER: u16 = 1;

/// What begins a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Begin {
    pub(super) role: u16,
    /// The web server wants to send another request behind this one.
    pub(super) keep: bool,
}

impl Begin {
    pub(super) fn read(content: &[u8]) -> Result<Self, Malformed> {
        match *content {
            [high, low, flags, _, _, _, _, _] => Ok(Self {
                role: u16::from_be_bytes([high, low]),
                keep: flags & 1 != 0,
            }),
            _ => Err(Malformed::Begin(content.len())),
        }
    }
}

/// The name-value pairs in `bytes`, in order. After an error there are no more.
pub(super) fn pairs(bytes: &[u8]) -> impl Iterator<Item = Result<(&[u8], &[u8]), Malformed>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let taken = take_pair(&mut rest);
        if taken.is_none() {
            rest = &[];
        }
        Some(taken.ok_or(Malformed::Pair))
    })
}

fn take_pair<'a>(rest: &mut &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
    let name = take_length(rest)?;
    let value = take_length(rest)?;
    let (name, behind) = rest.split_at_checked(name)?;
    let (value, behind) = behind.split_at_checked(value)?;
    *rest = behind;
    Some((name, value))
}

/// One byte below 128, or four with the highest bit set.
fn take_length(rest: &mut &[u8]) -> Option<usize> {
    let (&first, behind) = rest.split_first()?;
    if first < 0x80 {
        *rest = behind;
        return Some(usize::from(first));
    }
    let (four, behind) = rest.split_first_chunk()?;
    *rest = behind;
    usize::try_from(u32::from_be_bytes(*four) & 0x7fff_ffff).ok()
}

/// Appends a name-value pair.
pub(super) fn put_pair(out: &mut BytesMut, name: &[u8], value: &[u8]) {
    for len in [name.len(), value.len()] {
        match u8::try_from(len) {
            Ok(short) if short < 0x80 => out.put_u8(short),
            _ => out.put_u32(u32::try_from(len).unwrap_or(u32::MAX) | 0x8000_0000),
        }
    }
    out.put_slice(name);
    out.put_slice(value);
}

/// The bytes in front of `len` bytes of content.
pub(super) fn header(kind: Kind, id: u16, len: u16) -> [u8; HEADER] {
    let ([id_high, id_low], [len_high, len_low]) = (id.to_be_bytes(), len.to_be_bytes());
    [VERSION, kind.number(), id_high, id_low, len_high, len_low, 0, 0]
}

/// Appends `content` as a part of a stream: in as many records as it takes, in none if it is empty, which would end the stream.
pub(super) fn put_stream(out: &mut BytesMut, kind: Kind, id: u16, content: &[u8]) {
    for part in content.chunks(CONTENT_MAX) {
        put_record(out, kind, id, part);
    }
}

/// Appends one record. `content` is at most [`CONTENT_MAX`] bytes.
pub(super) fn put_record(out: &mut BytesMut, kind: Kind, id: u16, content: &[u8]) {
    let len = u16::try_from(content.len()).unwrap_or(u16::MAX);
    out.put_slice(&header(kind, id, len));
    out.put_slice(content.get(..usize::from(len)).unwrap_or(content));
}

/// How a request ended, as far as the protocol is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Completion {
    /// It was answered.
    Complete = 0,
    /// It came while another one of this connection was being answered.
    CannotMultiplex = 1,
    /// Only requests to a responder are answered.
    UnknownRole = 3,
}

/// Appends the record that ends a request.
pub(super) fn put_end(out: &mut BytesMut, id: u16, completion: Completion) {
    put_record(out, Kind::End, id, &[0, 0, 0, 0, completion as u8, 0, 0, 0]);
}

/// Appends the answer to a record of a type that nobody knows.
pub(super) fn put_unknown_type(out: &mut BytesMut, kind: Kind) {
    put_record(out, Kind::UnknownType, 0, &[kind.number(), 0, 0, 0, 0, 0, 0, 0]);
}

/// Appends the answer to a question for values: those of `known` that are asked for. `content` holds the question.
pub(super) fn put_values(
    out: &mut BytesMut,
    content: &[u8],
    known: &[(&str, String)],
) -> Result<(), Malformed> {
    let mut values = BytesMut::new();
    for pair in pairs(content) {
        let (asked, _) = pair?;
        if let Some((name, value)) = known.iter().find(|(name, _)| name.as_bytes() == asked) {
            put_pair(&mut values, name.as_bytes(), value.as_bytes());
        }
        if values.len() > CONTENT_MAX / 2 {
            // Asked the same again and again.
            return Err(Malformed::Pair);
        }
    }
    put_record(out, Kind::GetValuesResult, 0, &values);
    Ok(())
}

#[cfg(test)]
mod tests;
