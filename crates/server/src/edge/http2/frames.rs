//! What a client sends over HTTP/2, seen from outside: is a header block being kept open, has it too many fields, is it more noise than
//! requests?
//!
//! Follows the frames by their nine-byte headers (RFC 9113 §4.1), and has `fields` count; whether they are right is h2's affair.
//! Called by `wire`; `upgrade` knows frames by their numbers here. Runs in: server, on one reactor.

use super::fields::Fields;

/// Bytes of a frame's header.
pub(super) const HEADER: usize = 9;
/// Bytes that begin a connection (RFC 9113 §3.4).
pub(in crate::edge) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const SETTINGS: u8 = 4;
const CONTINUATION: u8 = 9;
pub(super) const END_STREAM: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const PRIORITY: u8 = 32;
/// Bytes of a priority in front of a block.
const PRIORITY_BYTES: usize = 5;
/// Bytes of frames that carry nothing that a connection may have in any case.
const QUIET: u64 = 1024 * 1024;
/// How many of them a byte of requests pays for; nginx's measure, too.
const NOISE: u64 = 8;
/// Bytes that were sent which pay for as much as one that came: acknowledgements of a download are no noise.
const SENT: u64 = 64;

/// Where in the stream of frames a connection is.
#[derive(Debug)]
pub(super) struct Frames {
    header: [u8; HEADER],
    /// Bytes of `header` that are there.
    have: usize,
    /// Bytes of the payload that are not.
    left: usize,
    preface_left: usize,
    in_header_frame: bool,
    block_open: bool,
    /// Of a frame of headers: whether the length of its padding comes next, bytes before the block, and behind it.
    padded: bool,
    lead: usize,
    padding: usize,
    fields: Fields,
    /// Fields that a block may have, and that one had.
    most: usize,
    peak: usize,
    noise: u64,
    payload: u64,
}

/// What became of header blocks in some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Block {
    /// None is open.
    None,
    /// One is open that was open before.
    Open,
    /// One is open that has begun in these bytes.
    Begun,
}

impl Frames {
    /// A block may have so many fields.
    pub(super) fn new(most: usize) -> Self {
        Self {
            header: [0; HEADER],
            have: 0,
            left: 0,
            preface_left: PREFACE.len(),
            in_header_frame: false,
            block_open: false,
            padded: false,
            lead: 0,
            padding: 0,
            fields: Fields::new(),
            most,
            peak: 0,
            noise: 0,
            payload: 0,
        }
    }

    /// Takes the next bytes.
    pub(super) fn read(&mut self, mut bytes: &[u8]) -> Block {
        let mut block = if self.is_in_block() {
            Block::Open
        } else {
            Block::None
        };
        skip(&mut bytes, &mut self.preface_left);
        while !bytes.is_empty() {
            if self.left > 0 && self.in_header_frame {
                self.read_block(&mut bytes);
            } else if self.left > 0 {
                skip(&mut bytes, &mut self.left);
            } else {
                let (taken, rest) = bytes.split_at((HEADER - self.have).min(bytes.len()));
                let room = self.header.iter_mut().skip(self.have);
                room.zip(taken).for_each(|(to, from)| *to = *from);
                self.have += taken.len();
                bytes = rest;
                if self.have == HEADER {
                    self.have = 0;
                    self.begin();
                }
            }
            block = match (self.is_in_block(), block) {
                (false, _) => Block::None,
                (true, Block::None) => Block::Begun,
                (true, open) => open,
            };
        }
        block
    }

    /// Whether what came is mostly frames that ask for nothing; so many bytes were `sent`.
    pub(super) fn is_noise(&self, sent: u64) -> bool {
        self.noise / NOISE > self.payload + sent / SENT + QUIET / NOISE
    }

    /// Whether a block had more fields than it may have.
    pub(super) fn is_crowded(&self) -> bool {
        self.peak > self.most
    }

    fn is_in_block(&self) -> bool {
        self.block_open || self.in_header_frame && self.left > 0
    }

    fn begin(&mut self) {
        let [a, b, c, kind, flags, ..] = self.header;
        self.left = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
        self.in_header_frame = matches!(kind, HEADERS | CONTINUATION);
        if self.in_header_frame {
            self.block_open = flags & END_HEADERS == 0;
            (self.padded, self.lead, self.padding) = (false, 0, 0);
        }
        if kind == HEADERS {
            self.fields = Fields::new();
            self.padded = flags & PADDED != 0;
            self.lead = if flags & PRIORITY != 0 { PRIORITY_BYTES } else { 0 };
        }
        match kind {
            DATA | HEADERS | CONTINUATION if self.left > 0 => self.payload += self.left as u64,
            _ => self.noise += (HEADER + self.left) as u64,
        }
    }

    /// A part of a frame of headers.
    fn read_block(&mut self, bytes: &mut &[u8]) {
        let (mut part, rest) = bytes.split_at(self.left.min(bytes.len()));
        *bytes = rest;
        let behind = self.left - part.len();
        if self.padded
            && let Some((&length, rest)) = part.split_first()
        {
            (self.padded, self.padding) = (false, usize::from(length));
            part = rest;
        }
        skip(&mut part, &mut self.lead);
        let block = (behind + part.len()).saturating_sub(self.padding);
        self.fields.read(part.get(..block).unwrap_or(part));
        self.peak = self.peak.max(self.fields.count());
        self.left = behind;
    }
}

fn skip(bytes: &mut &[u8], left: &mut usize) {
    let count = (*left).min(bytes.len());
    *left -= count;
    *bytes = bytes.get(count..).unwrap_or_default();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, payload: usize) -> Vec<u8> {
        let length = u32::try_from(payload).unwrap().to_be_bytes();
        let mut bytes = length[1..].to_vec();
        bytes.extend([kind, flags, 0, 0, 0, 1]);
        bytes.extend(std::iter::repeat_n(0, payload));
        bytes
    }

    const MOST: usize = 4;

    fn after_preface() -> Frames {
        let mut frames = Frames::new(MOST);
        assert_eq!(frames.read(PREFACE), Block::None);
        frames
    }

    #[test]
    fn a_header_block_is_open_until_its_last_frame_is_whole() {
        let mut frames = after_preface();
        let mut bytes = frame(HEADERS, 0, 5);
        bytes.extend(frame(CONTINUATION, END_HEADERS, 5));
        for cut in 1..bytes.len() {
            let mut frames = after_preface();
            let first = frames.read(&bytes[..cut]);
            assert_eq!(first != Block::None, cut >= HEADER, "{cut}");
            assert_eq!(frames.read(&bytes[cut..]), Block::None, "{cut}");
        }
        assert_eq!(frames.read(&frame(HEADERS, 0, 5)), Block::Begun);
        assert_eq!(frames.read(&frame(CONTINUATION, 0, 0)), Block::Open);
        bytes = frame(CONTINUATION, END_HEADERS, 3);
        bytes.extend(frame(HEADERS, 0, 1));
        assert_eq!(frames.read(&bytes), Block::Begun, "another one");
    }

    #[test]
    fn pings_are_noise_and_an_upload_or_a_download_is_none() {
        let many = |kind, payload| {
            let mut frames = after_preface();
            let one = frame(kind, END_HEADERS, payload);
            for _ in 0..200_000 {
                frames.read(&one);
            }
            frames
        };
        assert!(many(6, 8).is_noise(200_000 * 17));
        assert!(many(4, 0).is_noise(200_000 * 9));
        assert!(many(DATA, 0).is_noise(0));
        assert!(!many(8, 4).is_noise(200_000 * 1024), "updates of a window");
        assert!(!many(DATA, 100).is_noise(0));
        assert!(!many(HEADERS, 20).is_noise(0));
    }

    /// A frame of headers with this payload.
    fn block(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let mut bytes = frame(kind, flags, payload.len());
        bytes.truncate(HEADER);
        bytes.extend(payload);
        bytes
    }

    fn is_crowded(bytes: &[u8]) -> bool {
        let mut whole = after_preface();
        whole.read(bytes);
        for cut in 1..bytes.len() {
            let mut frames = after_preface();
            frames.read(&bytes[..cut]);
            frames.read(&bytes[cut..]);
            assert_eq!(frames.is_crowded(), whole.is_crowded(), "cut at {cut}");
        }
        whole.is_crowded()
    }

    #[test]
    fn fields_of_a_block_are_counted_over_its_frames() {
        let four = block(HEADERS, END_HEADERS, &[0x82; 4]);
        assert!(!is_crowded(&four));
        assert!(!is_crowded(&[&four[..], &four[..]].concat()), "two blocks");
        assert!(is_crowded(&block(HEADERS, END_HEADERS, &[0x82; 5])));
        let begun = block(HEADERS, 0, &[0x82, 0x82, 0x82, 0x00, 3, b'a']);
        let ended = |more: &[u8]| block(CONTINUATION, END_HEADERS, more);
        assert!(!is_crowded(&[&begun[..], &ended(b"bc\x01d")].concat()));
        assert!(is_crowded(&[&begun[..], &ended(b"bc\x01d\x82")].concat()));
    }

    #[test]
    fn padding_and_priority_are_no_fields() {
        let framed = |fields: usize| {
            let payload = [&[3, 0, 0, 0, 0, 9][..], &vec![0x82; fields], &[0; 3]].concat();
            block(HEADERS, END_HEADERS | PADDED | PRIORITY, &payload)
        };
        assert!(!is_crowded(&framed(4)));
        assert!(is_crowded(&framed(5)));
        // More padding than there is: h2 ends such a connection.
        assert!(!is_crowded(&block(HEADERS, PADDED, &[200, 0x82, 0x82])));
    }
}
