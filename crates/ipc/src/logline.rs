//! What a zygote or worker says on its output pipe, told apart from what libraries and scripts print there.
//!
//! ```text
//! record:  0x1e  request  0x1f  level  0x1f  message  \n
//! request: 16 hex digits, or "-" outside of a request
//! level:   one digit, a syslog priority (3 error, 4 warning, 5 notice, 6 info, 7 debug); or "s": the message is where the
//!          request stands, see `ask`
//! message: bytes; \n, \r, \\, 0x1e and 0x1f are written as \n, \r, \\, \x1e and \x1f
//! anything else up to \n: plain text, printed by somebody who does not know this format
//! ```
//! A record is one `write`, and a pipe belongs to one process, so records stay whole. Plain text without an end of line does not
//! spoil the record behind it: 0x1e always begins one. [`push`] runs in: zygote | worker. [`Lines`] runs in: server.

/// Bytes of a message (or plain line) that are kept; what is longer is cut, and ends in `…`.
pub const MESSAGE_MAX: usize = 32 * 1024;

/// Bytes of a [`stack`] record, at most.
pub const STACK_MAX: usize = 16 * 1024;

/// A zygote's message before the boot that serves, if it has booted before to be warmed: that one repeats what was said.
pub const REPEAT_BEGINS: &str = "warmed: the boot that serves begins";

/// The message after that boot.
pub const REPEAT_ENDS: &str = "warmed: the boot that serves has ended";

const RECORD: u8 = 0x1e;
const STACK: u8 = b's';
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
    let (kept, cut) = message.split_at_checked(MESSAGE_MAX).unwrap_or((message, &[]));
    record(request, b'0' + level.0, kept, |bytes| {
        out.extend_from_slice(bytes);
        true
    });
    if !cut.is_empty() {
        out.extend_from_slice(CUT);
    }
    out.push(b'\n');
}

/// Writes a record about where a request stands to `out` and returns its length. Allocates nothing, so that a signal handler may
/// call it. What has no room is left out.
pub fn stack(out: &mut [u8; STACK_MAX], request: u64, text: &[u8]) -> usize {
    let mut len = 0;
    let mut put = |bytes: &[u8], most: usize| {
        let end = len + bytes.len();
        let Some(room) = out.get_mut(len..end).filter(|_| end <= most) else {
            return false;
        };
        room.copy_from_slice(bytes);
        len = end;
        true
    };
    record(Some(request), STACK, text, |bytes| put(bytes, STACK_MAX - 1));
    put(b"\n", STACK_MAX);
    len
}

/// Hands the parts of a record, without its end, to `put` until that answers false.
fn record(request: Option<u64>, level: u8, message: &[u8], mut put: impl FnMut(&[u8]) -> bool) {
    put(&[RECORD]);
    match request {
        Some(id) => {
            for digit in (0..16).rev() {
                put(&[hex_digit(id >> (digit * 4))]);
            }
        }
        None => {
            put(b"-");
        }
    }
    put(&[FIELD, level, FIELD]);
    for byte in message {
        let went = match *byte {
            b'\n' => put(b"\\n"),
            b'\r' => put(b"\\r"),
            b'\\' => put(b"\\\\"),
            RECORD => put(b"\\x1e"),
            FIELD => put(b"\\x1f"),
            _ => put(std::slice::from_ref(byte)),
        };
        if !went {
            return;
        }
    }
}

/// Who says a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text of somebody who does not know the format.
    Plain,
    /// A message.
    Message(Level),
    /// Where the request stands: the answer to [`crate::ask`].
    Stack,
}

/// One thing that was said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Id of the request during which it was said.
    pub request: Option<u64>,
    /// What it is.
    pub kind: Kind,
    /// As given to [`push`] or [`stack`], or the plain text without its end of line. Any bytes.
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
                kind: Kind::Plain,
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
    let kind = match *fields.next()? {
        [digit @ b'0'..=b'7'] => Kind::Message(Level(digit - b'0')),
        [STACK] => Kind::Stack,
        _ => return None,
    };
    unescape(fields.next()?, message);
    Some(Line {
        request,
        kind,
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

    type Owned = (Option<u64>, Kind, Vec<u8>);

    fn read(stream: &[u8], chunk: usize) -> Vec<Owned> {
        let mut lines = Lines::default();
        let mut seen = Vec::new();
        let mut keep = |line: Line<'_>| seen.push((line.request, line.kind, line.message.to_vec()));
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
                written.push((request, Kind::Message(Level::new(level)), message));
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
                (None, Kind::Plain, b"segfault soon".to_vec()),
                (None, Kind::Plain, b"half a li".to_vec()),
                (Some(0xabc), Kind::Message(Level::ERROR), b"a\nb".to_vec()),
            ]
        );
    }

    #[test]
    fn a_stack_is_read_as_one_and_cut_to_its_room() {
        let mut out = [0; STACK_MAX];
        let len = stack(&mut out, 7, b"#0 f()\n#1 g()");
        assert_eq!(
            read(&out[..len], 5),
            [(Some(7), Kind::Stack, b"#0 f()\n#1 g()".to_vec())]
        );
        let len = stack(&mut out, 7, &vec![b'\n'; 2 * STACK_MAX]);
        let lines = read(&out[..len], 4096);
        assert_eq!((lines.len(), lines[0].1), (1, Kind::Stack));
        assert!(len > STACK_MAX - 3 && lines[0].2.iter().all(|byte| *byte == b'\n'));
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
