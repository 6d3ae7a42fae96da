//! Settings of compression.
//!
//! Called by `resolve`. Runs in: server.

use std::fmt;

use super::file::Value;
use super::limits::ByteSize;
use super::reader::Reader;

/// Types that shrink, unless told otherwise. `text/event-stream` is left out by name: its events are short and must not wait.
const TYPES: [&str; 22] = [
    "application/atom+xml",
    "application/geo+json",
    "application/graphql-response+json",
    "application/hal+json",
    "application/javascript",
    "application/json",
    "application/ld+json",
    "application/manifest+json",
    "application/problem+json",
    "application/rss+xml",
    "application/vnd.api+json",
    "application/vnd.ms-fontobject",
    "application/wasm",
    "application/xhtml+xml",
    "application/xml",
    "application/x-javascript",
    "font/otf",
    "font/ttf",
    "image/bmp",
    "image/svg+xml",
    "image/x-icon",
    "text/*",
];

/// A coding of contents (RFC 9110 §8.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// RFC 8878.
    Zstd,
    /// RFC 7932.
    Brotli,
    /// RFC 1952.
    Gzip,
}

impl fmt::Display for Coding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Zstd => "zstd",
            Self::Brotli => "br",
            Self::Gzip => "gzip",
        })
    }
}

/// Which answers are compressed, and how.
#[derive(Clone, Debug)]
pub struct Compression {
    /// What may be used; of two that a client likes as much, the first. Default zstd, gzip, br; empty: nothing is compressed.
    pub algorithms: Vec<Coding>,
    /// Shorter answers are sent as they are. Default 1 KiB.
    pub min_size: ByteSize,
    /// Types that are compressed, in small letters: `a/b`, or `a/*` for all of a kind.
    pub types: Vec<String>,
    /// Whether `x.css.br` beside `x.css` is sent for it. Default true.
    pub precompressed: bool,
    /// 1 to 9. Default 4.
    pub gzip_level: u32,
    /// 0 to 11. Default 4.
    pub br_level: u32,
    /// 1 to 19. Default 3.
    pub zstd_level: i32,
}

impl Default for Compression {
    fn default() -> Self {
        Self {
            algorithms: vec![Coding::Zstd, Coding::Gzip, Coding::Brotli],
            min_size: ByteSize::kib(1),
            types: TYPES.iter().map(|&name| name.to_owned()).collect(),
            precompressed: true,
            gzip_level: 4,
            br_level: 4,
            zstd_level: 3,
        }
    }
}

/// Reads `[compression]`.
pub(super) fn compression(reader: &mut Reader) -> Compression {
    let default = Compression::default();
    Compression {
        algorithms: algorithms(reader).unwrap_or(default.algorithms),
        min_size: reader.size(
            "compression.min_size",
            default.min_size,
            ByteSize(0)..=ByteSize::gib(1),
        ),
        types: types(reader).unwrap_or(default.types),
        precompressed: reader.switch("compression.precompressed", default.precompressed),
        gzip_level: reader.number("compression.gzip_level", default.gzip_level, 1..=9),
        br_level: reader.number("compression.br_level", default.br_level, 0..=11),
        zstd_level: reader.number("compression.zstd_level", default.zstd_level, 1..=19),
    }
}

fn algorithms(reader: &mut Reader) -> Option<Vec<Coding>> {
    let key = "compression.algorithms";
    let all = [Coding::Zstd, Coding::Brotli, Coding::Gzip];
    let (names, origin) = reader.list(key)?;
    let known = |name: &String| all.into_iter().find(|coding| coding.to_string() == *name);
    let codings: Option<Vec<Coding>> = names.iter().map(known).collect();
    if codings.is_none() {
        let form = "expected a list of \"zstd\", \"br\" and \"gzip\"; an empty one switches compression off";
        reader.wrong(origin, key, &Value::List(names), form);
    }
    codings
}

fn types(reader: &mut Reader) -> Option<Vec<String>> {
    let key = "compression.types";
    let (names, origin) = reader.list(key)?;
    let is_type = |name: &str| {
        let part = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_graphic() && b != b';');
        name.split_once('/')
            .is_some_and(|(kind, rest)| part(kind) && part(rest))
    };
    if let Some(wrong) = names.iter().find(|name| !is_type(name)) {
        let why = format!("\"{wrong}\" is no type: expected for instance \"text/html\" or \"text/*\"");
        reader.wrong(origin, key, &Value::List(names.clone()), &why);
    }
    Some(names.iter().map(|name| name.to_ascii_lowercase()).collect())
}
