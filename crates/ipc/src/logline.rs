//! What a zygote or worker says on its output pipe, told apart from what libraries and scripts print there.
//!
//! ```text
//! record:  0x1e  request  0x1f  level  0x1f  message  \n
//! request: 16 hex digits, or "-" outside of a request
//! level:   one digit, a syslog priority (3 error, 4 warning, 5 notice, 6 info, 7 debug)
//! message: bytes; \n, \r, \\, 0x1e and 0x1f are written as \n, \r, \\, \x1e and \x1f
//! anything else up to \n: plain text, printed by somebody who does not know this format
//! ```
//! A record is one `write`, and a pipe belongs to one process, so records stay whole. Plain text without an end of line does not
//! spoil the record behind it: 0x1e always begins one. [`push`] runs in: zygote | worker. [`Lines`] runs in: server.

/// Bytes of a message (or plain line) that are kept; what is longer is cut, and ends in `…`.
pub const MESSAGE_MAX: usize = 32 * 1024;

const RECORD: u8 = 0x1e;
const FIELD: u8 = 0x1f;
const CUT: &[u8] = "…".as_bytes();

/// A syslog priority: 0 (emergency) to 7 (debug).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Level(u8);

impl Level {
    /// `LOG_ERR`
    pub const ERROR: Self = Self(3);
    /// `LOG_WARNING`
    pub const WARNING: Self = Self(4);
    /// `LOG_NOTICE`
    pub const NOTICE: Self = Self(5);
    /// `LOG_INFO`
    pub const INFO: Self = Self(6);
    /// `LOG_DEBUG`
    pub const DEBUG: Self = Self(7);

    /// From its number; one out of range becomes the nearest priority.
    pub const fn new(priority: i32) -> Self {
        match priority {
            ..=0 => Self(0),
            1 => Self(1),
            2 => Self(2),
            3 => Self(3),
            4 => Self(4),
            5 => Self(5),
            6 => Self(6),
            _ => Self(7),
        }
    }

    /// The number.
    pub const fn get(self) -> u8 {
        self.0
    }
}

/// Appends one record to `out`. `request` is its id, `None` outside of a request.
pub fn push(out: &mut Vec<u8>, request: Option<u64>, level: Level, message: &[u8]) {
    out.push(RECORD);
    match request {
        Some(id) => out.extend((0..16).rev().map(|digit| hex_digit(id >> (digit * 4)))),
        None => out.push(b'-'),
    }
    out.extend_from_slice(&[FIELD, b'0' + level.0, FIELD]);
    let (kept, cut) = message.split_at_checked(MESSAGE_MAX).unwrap_or((message, &[]));
    for &byte in kept {
        match byte {
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\\' => out.extend_from_slice(b"\\\\"),
            RECORD => out.extend_from_slice(b"\\x1e"),
            FIELD => out.extend_from_slice(b"\\x1f"),
            _ => out.push(byte),
        }
    }
    if !cut.is_empty() {
        out.extend_from_slice(CUT);
    }
    out.push(b'\n');
}

/// One thing that was said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Id of the request during which it was said.
    pub request: Option<u64>,
    /// `None` for plain text.
    pub level: Option<Level>,
    /// As given to [`push`], or the plain text without its end of line. Any bytes.
    pub message: &'a [u8],
}

/// Cuts a stream of bytes into lines. Holds at most twice [`MESSAGE_MAX`] bytes, whatever comes in.
#[derive(Debug, Default)]
pub struct Lines {
    pending: Vec<u8>,
    dropping: bool,
    message: Vec<u8>,
}

/// Escapes make a record longer than its message.
const PENDING_MAX: usize = 2 * MESSAGE_MAX;

impl Lines {
    /// Takes the next bytes of the stream, cut anywhere, and hands each line that they complete to `each`. Empty plain lines
    /// are left out.
    pub fn feed(&mut self, bytes: &[u8], mut each: impl FnMut(Line<'_>)) {
        for &byte in bytes {
            match byte {
                b'\n' => self.end(&mut each),
                RECORD => {
                    self.end(&mut each);
                    self.pending.push(RECORD);
                }
                _ if self.dropping => {}
                _ if self.pending.len() >= PENDING_MAX => {
                    self.dropping = true;
                    self.pending.extend_from_slice(CUT);
                }
                _ => self.pending.push(byte),
            }
        }
    }

    /// The stream has ended: what is left is a line.
    pub fn finish(&mut self, mut each: impl FnMut(Line<'_>)) {
        self.end(&mut each);
    }

    fn end(&mut self, each: &mut impl FnMut(Line<'_>)) {
        self.dropping = false;
        if !self.pending.is_empty() {
            self.message.clear();
            each(parse_record(&self.pending, &mut self.message).unwrap_or(Line {
                request: None,
                level: None,
                message: &self.pending,
            }));
            self.pending.clear();
        }
    }
}

fn parse_record<'a>(bytes: &[u8], message: &'a mut Vec<u8>) -> Option<Line<'a>> {
    let mut fields = bytes.strip_prefix(&[RECORD])?.splitn(3, |&b| b == FIELD);
    let request = match fields.next()? {
        b"-" => None,
        hex if hex.len() == 16 => Some(u64::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()?),
        _ => return None,
    };
    let level = match fields.next()? {
        &[digit @ b'0'..=b'7'] => Level(digit - b'0'),
        _ => return None,
    };
    unescape(fields.next()?, message);
    Some(Line {
        request,
        level: Some(level),
        message,
    })
}

fn unescape(mut text: &[u8], out: &mut Vec<u8>) {
    const ESCAPES: [(&[u8], u8); 5] = [
        (b"\\n", b'\n'),
        (b"\\r", b'\r'),
        (b"\\\\", b'\\'),
        (b"\\x1e", RECORD),
        (b"\\x1f", FIELD),
    ];
    while let Some((&first, rest)) = text.split_first() {
        let escape = ESCAPES
            .iter()
            .find_map(|(escape, byte)| Some((*byte, text.strip_prefix(*escape)?)));
        let (byte, tail) = escape.unwrap_or((first, rest));
        out.push(byte);
        text = tail;
    }
}

fn hex_digit(nibble: u64) -> u8 {
    match (nibble & 0xf) as u8 {
        digit @ 0..=9 => b'0' + digit,
        letter => b'a' + letter - 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Owned = (Option<u64>, Option<Level>, Vec<u8>);

    fn read(stream: &[u8], chunk: usize) -> Vec<Owned> {
        let mut lines = Lines::default();
        let mut seen = Vec::new();
        let mut keep = |line: Line<'_>| seen.push((line.request, line.level, line.message.to_vec()));
        for part in stream.chunks(chunk) {
            lines.feed(part, &mut keep);
        }
        lines.finish(&mut keep);
        seen
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            records in prop::collection::vec((any::<Option<u64>>(), 0..8_i32, any::<Vec<u8>>()), 0..8),
            chunk in 1..64_usize,
        ) {
            let mut stream = Vec::new();
            let mut written = Vec::new();
            for (request, level, message) in records {
                push(&mut stream, request, Level::new(level), &message);
                written.push((request, Some(Level::new(level)), message));
            }
            prop_assert_eq!(read(&stream, chunk), written);
        }

        #[test]
        fn arbitrary_bytes_are_read_without_panic(stream in any::<Vec<u8>>(), chunk in 1..64_usize) {
            for (_, _, message) in read(&stream, chunk) {
                prop_assert!(message.len() <= stream.len());
            }
        }
    }

    #[test]
    fn plain_text_without_an_end_of_line_does_not_spoil_the_next_record() {
        let mut stream = b"segfault soon\nhalf a li".to_vec();
        push(&mut stream, Some(0xabc), Level::ERROR, b"a\nb");
        assert_eq!(&stream[23..], b"\x1e0000000000000abc\x1f3\x1fa\\nb\n");
        assert_eq!(
            read(&stream, 5),
            [
                (None, None, b"segfault soon".to_vec()),
                (None, None, b"half a li".to_vec()),
                (Some(0xabc), Some(Level::ERROR), b"a\nb".to_vec()),
            ]
        );
    }

    #[test]
    fn too_long_is_cut() {
        let mut stream = Vec::new();
        push(&mut stream, None, Level::INFO, &vec![b'\n'; 3 * MESSAGE_MAX]);
        stream.extend(vec![b'x'; 3 * PENDING_MAX]);
        let lines = read(&stream, 4096);
        assert_eq!(lines.len(), 2);
        assert!(lines[0].2.ends_with(CUT));
        assert!(lines[1].2.len() <= PENDING_MAX + CUT.len());
    }
}
