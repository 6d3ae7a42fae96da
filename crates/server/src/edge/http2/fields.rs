//! How many fields a block of headers of HTTP/2 names, told without decoding it (RFC 7541 §6).
//!
//! A byte may name a field that is there already, so 16 kB of a block may be 16 000 fields, each of which costs more to decode than to
//! send. Lengths are all that is looked at: whether a block is right is h2's affair. Called by `frames`. Pure. Runs in: server, on one
//! reactor.

/// Bits of an integer beyond its first byte that are believed; what is longer, h2 refuses.
const BITS: u32 = 28;

/// What the next byte of a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// The first of a field; of a change of the table's size, which counts as one.
    Field,
    /// Of a number that says where a name is, before so many texts.
    Index { texts: u8 },
    /// The first of a text's length; with this text so many are missing.
    Length { texts: u8 },
    /// A later one of it: so much, before so many bits.
    LongLength { texts: u8, length: usize, bits: u32 },
    /// Of a text of which so many bytes are missing; so many texts follow.
    Text { left: usize, texts: u8 },
}

/// One block, in pieces.
#[derive(Debug)]
pub(super) struct Fields {
    at: At,
    count: usize,
}

impl Fields {
    pub(super) const fn new() -> Self {
        Self {
            at: At::Field,
            count: 0,
        }
    }

    /// Fields that have begun.
    pub(super) const fn count(&self) -> usize {
        self.count
    }

    /// Takes the next bytes of the block.
    pub(super) fn read(&mut self, mut bytes: &[u8]) {
        while let Some((&byte, rest)) = bytes.split_first() {
            if let At::Text { left, texts } = self.at {
                let taken = left.min(bytes.len());
                self.at = text(left - taken, texts);
                bytes = bytes.get(taken..).unwrap_or_default();
            } else {
                self.at = self.step(byte);
                bytes = rest;
            }
        }
    }

    fn step(&mut self, byte: u8) -> At {
        match self.at {
            At::Field => {
                self.count += 1;
                begin(byte)
            }
            At::Index { .. } if byte & 0x80 != 0 => self.at,
            At::Index { texts } => after_index(texts),
            At::Length { texts } => match usize::from(byte & 0x7f) {
                0x7f => At::LongLength {
                    texts,
                    length: 0x7f,
                    bits: 0,
                },
                length => text(length, texts - 1),
            },
            At::LongLength { texts, length, bits } => {
                let more = if bits < BITS {
                    usize::from(byte & 0x7f) << bits
                } else {
                    0
                };
                let length = length.saturating_add(more);
                match byte & 0x80 {
                    0 => text(length, texts - 1),
                    _ => At::LongLength {
                        texts,
                        length,
                        bits: (bits + 7).min(BITS),
                    },
                }
            }
            At::Text { .. } => self.at,
        }
    }
}

/// By a field's first byte: how many bits of it are a number, and how many texts follow.
fn begin(byte: u8) -> At {
    let (mask, has_value) = match byte {
        0x80.. => (0x7f, false),
        0x40..0x80 => (0x3f, true),
        0x20..0x40 => (0x1f, false),
        0..0x20 => (0x0f, true),
    };
    let number = byte & mask;
    let texts = match (has_value, number) {
        (false, _) => 0,
        // The name is there, too.
        (true, 0) => 2,
        (true, _) => 1,
    };
    if number == mask {
        At::Index { texts }
    } else {
        after_index(texts)
    }
}

fn after_index(texts: u8) -> At {
    if texts == 0 {
        At::Field
    } else {
        At::Length { texts }
    }
}

fn text(left: usize, texts: u8) -> At {
    match (left, texts) {
        (0, 0) => At::Field,
        (0, _) => At::Length { texts },
        _ => At::Text { left, texts },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(block: &[u8]) -> usize {
        let mut whole = Fields::new();
        whole.read(block);
        // However it comes.
        for cut in 0..block.len() {
            let mut fields = Fields::new();
            fields.read(&block[..cut]);
            fields.read(&block[cut..]);
            assert_eq!((fields.count, fields.at), (whole.count, whole.at), "cut at {cut}");
        }
        let mut fields = Fields::new();
        for byte in block {
            fields.read(&[*byte]);
        }
        assert_eq!((fields.count, fields.at), (whole.count, whole.at), "byte by byte");
        whole.count
    }

    #[test]
    fn the_examples_of_the_rfc_have_their_fields() {
        // RFC 7541 C.2 to C.4.
        assert_eq!(count(b"\x40\x0acustom-key\x0dcustom-header"), 1);
        assert_eq!(count(b"\x04\x0c/sample/path"), 1);
        assert_eq!(count(b"\x10\x08password\x06secret"), 1);
        assert_eq!(count(b"\x82"), 1);
        assert_eq!(count(b"\x82\x86\x84\x41\x0fwww.example.com"), 4);
        assert_eq!(count(b"\x82\x86\x84\xbe\x58\x08no-cache"), 5);
        assert_eq!(count(b"\x82\x87\x85\xbf\x40\x0acustom-key\x0ccustom-value"), 5);
        let huffman = b"\x82\x86\x84\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff";
        assert_eq!(count(huffman), 4);
    }

    #[test]
    fn long_numbers_are_followed() {
        // An index, a name and a value beyond what fits into their first byte.
        let mut block = vec![0xff, 0x80, 0x01];
        block.extend([0x7f, 0x03, 0x7f, 0x80, 0x02]);
        block.extend([0xff; 127 + 256]);
        block.extend([0x00, 0x7f, 0x00]);
        block.extend([0xff; 127]);
        block.extend([0x00, 0x82, 0x3f, 0xe1, 0x1f, 0x82]);
        assert_eq!(count(&block), 6);
        assert_eq!(count(&[0x82; 1000]), 1000);
    }

    #[test]
    fn numbers_without_end_overflow_nothing() {
        let mut block = vec![0x00, 0x7f];
        block.extend([0xff; 64]);
        assert_eq!(count(&block), 1);
        assert_eq!(count(&[0xff; 64]), 1);
    }
}
