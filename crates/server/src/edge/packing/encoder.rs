//! The three compressors behind one face: bytes in, bytes out, into memory.
//!
//! What one holds while a response lasts, says [`memory`]. Called by `packing` and `files::shelf`. Runs in: server.

use std::cell::RefCell;
use std::io::{self, Write};

use brotli::CompressorWriter;
use brotli::enc::BrotliEncoderParams;
use bytes::Bytes;
use flate2::write::GzEncoder;

use crate::config::{Coding, Compression};

/// How far zstd and br look back, as a power of two: what is farther away is rarely found again in a page, and costs memory.
const WINDOW: u8 = 18;
/// Bytes that br hands on at once.
const BUFFER: usize = 16 * 1024;

thread_local! {
    /// For answers that are packed in one go: making its tables anew costs as much as packing.
    static ZSTD: RefCell<Option<(i32, zstd::bulk::Compressor<'static>)>> = const { RefCell::new(None) };
}

/// One response being compressed.
pub(super) enum Encoder {
    Gzip(GzEncoder<Vec<u8>>),
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
    Brotli(Box<CompressorWriter<Vec<u8>>>),
}

impl Encoder {
    pub(super) fn new(coding: Coding, settings: &Compression) -> io::Result<Self> {
        Ok(match coding {
            Coding::Gzip => Self::Gzip(GzEncoder::new(
                Vec::new(),
                flate2::Compression::new(settings.gzip_level),
            )),
            Coding::Zstd => {
                let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), settings.zstd_level)?;
                encoder.window_log(u32::from(WINDOW))?;
                Self::Zstd(encoder)
            }
            Coding::Brotli => Self::Brotli(Box::new(brotli(settings))),
        })
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.writer().write_all(bytes)
    }

    /// What was fed can be read by the client once it has what [`Encoder::take`] gives.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.writer().flush()
    }

    /// What has come out, if it is so much at least.
    pub(super) fn take(&mut self, at_least: usize) -> Option<Bytes> {
        let out = match self {
            Self::Gzip(encoder) => encoder.get_mut(),
            Self::Zstd(encoder) => encoder.get_mut(),
            Self::Brotli(encoder) => encoder.get_mut(),
        };
        (out.len() >= at_least.max(1)).then(|| Bytes::from(std::mem::take(out)))
    }

    /// The rest.
    pub(super) fn finish(self) -> io::Result<Bytes> {
        let out = match self {
            Self::Gzip(encoder) => encoder.finish()?,
            Self::Zstd(encoder) => encoder.finish()?,
            Self::Brotli(encoder) => encoder.into_inner(),
        };
        Ok(Bytes::from(out))
    }

    fn writer(&mut self) -> &mut dyn Write {
        match self {
            Self::Gzip(encoder) => encoder,
            Self::Zstd(encoder) => encoder,
            Self::Brotli(encoder) => encoder,
        }
    }
}

/// Bytes that an [`Encoder`] has, roughly; measured with the default levels.
pub(super) fn memory(coding: Coding) -> usize {
    match coding {
        Coding::Gzip => 320 * 1024,
        Coding::Zstd => 1024 * 1024,
        Coding::Brotli => 2 * 1024 * 1024,
    }
}

fn brotli(settings: &Compression) -> CompressorWriter<Vec<u8>> {
    let params = BrotliEncoderParams {
        quality: i32::try_from(settings.br_level).unwrap_or(4),
        lgwin: i32::from(WINDOW),
        ..BrotliEncoderParams::default()
    };
    CompressorWriter::with_params(Vec::new(), BUFFER, &params)
}

/// `bytes` in one go.
pub(in crate::edge) fn pack(coding: Coding, settings: &Compression, bytes: &[u8]) -> io::Result<Bytes> {
    if coding == Coding::Zstd {
        return ZSTD.with_borrow_mut(|kept| {
            let level = settings.zstd_level;
            if kept.as_ref().is_none_or(|(of, _)| *of != level) {
                *kept = Some((level, zstd::bulk::Compressor::new(level)?));
            }
            let (_, compressor) = kept.as_mut().ok_or(io::ErrorKind::NotFound)?;
            compressor.compress(bytes).map(Bytes::from)
        });
    }
    let mut encoder = Encoder::new(coding, settings)?;
    encoder.feed(bytes)?;
    encoder.finish()
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::Read;

    use super::*;

    /// What a client makes of it.
    pub(in super::super) fn unpack(coding: Coding, packed: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        match coding {
            Coding::Gzip => drop(flate2::read::GzDecoder::new(packed).read_to_end(&mut out)),
            Coding::Zstd => drop(
                zstd::stream::read::Decoder::new(packed)
                    .unwrap()
                    .read_to_end(&mut out),
            ),
            Coding::Brotli => drop(brotli::Decompressor::new(packed, 4096).read_to_end(&mut out)),
        }
        out
    }

    #[test]
    fn what_was_flushed_can_be_read() {
        let settings = Compression::default();
        for coding in [Coding::Gzip, Coding::Zstd, Coding::Brotli] {
            let mut encoder = Encoder::new(coding, &settings).unwrap();
            let (mut packed, mut given) = (Vec::new(), Vec::new());
            let long = vec![b'x'; 100_000];
            for part in [&b"first "[..], &long, b"last"] {
                encoder.feed(part).unwrap();
                encoder.flush().unwrap();
                given.extend_from_slice(part);
                packed.extend_from_slice(&encoder.take(0).unwrap());
                assert!(unpack(coding, &packed) == given, "{coding}");
            }
            packed.extend_from_slice(&encoder.finish().unwrap());
            assert!(unpack(coding, &packed) == given, "{coding}");
            let whole = pack(coding, &settings, &given).unwrap();
            assert!(unpack(coding, &whole) == given && whole.len() < 1000, "{coding}");
        }
    }
}
