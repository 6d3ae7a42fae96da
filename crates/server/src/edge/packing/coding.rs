//! Which coding a client takes (RFC 9110 §12.5.3), and what may be coded at all. Pure functions of headers and settings.
//!
//! Called by `packing` and `files`. Runs in: server, on a reactor.

use http::header::{self, HeaderMap, HeaderValue};

use crate::config::{Coding, Compression};

/// Weights in thousandths: `0.001` is the least that is not "not at all".
type Weight = u16;
const FULL: Weight = 1000;

/// What a client says of codings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::edge) struct Accepted {
    zstd: Weight,
    brotli: Weight,
    gzip: Weight,
    /// Only where it is named: whoever does not, takes it, and likes the others better.
    identity: Option<Weight>,
}

impl Accepted {
    /// Of a request. One without the header takes any coding, says RFC 9110; in practice it is a client that knows none.
    pub(in crate::edge) fn of(headers: &HeaderMap) -> Self {
        let mut named: [Option<Weight>; 4] = [None; 4];
        let mut any = None;
        let lines = headers.get_all(header::ACCEPT_ENCODING).iter();
        let items = lines
            .filter_map(|line| line.to_str().ok())
            .flat_map(|line| line.split(','));
        for item in items {
            let mut parts = item.split(';').map(str::trim);
            let name = parts.next().unwrap_or_default();
            let weight = weight(parts);
            let place = match name {
                "*" => &mut any,
                name if is(name, "zstd") => &mut named[0],
                name if is(name, "br") => &mut named[1],
                name if is(name, "gzip") || is(name, "x-gzip") => &mut named[2],
                name if is(name, "identity") => &mut named[3],
                _ => continue,
            };
            *place = Some(weight);
        }
        let [zstd, brotli, gzip, identity] = named;
        let or_any = |weight: Option<Weight>| weight.or(any).unwrap_or(0);
        Self {
            zstd: or_any(zstd),
            brotli: or_any(brotli),
            gzip: or_any(gzip),
            identity,
        }
    }

    pub(in crate::edge) fn weight(&self, coding: Coding) -> Weight {
        match coding {
            Coding::Zstd => self.zstd,
            Coding::Brotli => self.brotli,
            Coding::Gzip => self.gzip,
        }
    }

    /// Whether this coding is taken, and liked no less than none at all.
    pub(in crate::edge) fn takes(&self, coding: Coding) -> bool {
        let weight = self.weight(coding);
        weight > 0 && self.identity.is_none_or(|identity| weight >= identity)
    }

    /// The one that is liked best; of equals the first.
    pub(in crate::edge) fn best(&self, offered: &[Coding]) -> Option<Coding> {
        let taken = offered.iter().copied().filter(|&coding| self.takes(coding));
        // `max_by_key` prefers the last.
        taken.rev().max_by_key(|&coding| self.weight(coding))
    }
}

fn is(name: &str, coding: &str) -> bool {
    name.eq_ignore_ascii_case(coding)
}

/// RFC 9110 §12.4.2. What is no weight is none: such an item is not wanted.
fn weight<'a>(mut parameters: impl Iterator<Item = &'a str>) -> Weight {
    let Some(text) = parameters.find_map(|p| p.strip_prefix("q=").or_else(|| p.strip_prefix("Q="))) else {
        return FULL;
    };
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = fraction.len() <= 3 && fraction.bytes().all(|b| b.is_ascii_digit());
    let thousandths = format!("{fraction:0<3}").parse::<Weight>();
    match (whole, thousandths) {
        ("0", Ok(value)) if digits => value,
        ("1", Ok(0)) if digits => FULL,
        _ => 0,
    }
}

/// Whether answers of this type are compressed.
pub(in crate::edge) fn is_packable(kind: Option<&HeaderValue>, settings: &Compression) -> bool {
    let Some(kind) = kind.and_then(|kind| kind.to_str().ok()) else {
        return false;
    };
    let essence = kind.split(';').next().unwrap_or_default().trim();
    // Its events must arrive one by one; whoever names it wants it.
    let all = |name: &str| name.ends_with("/*") && !essence.eq_ignore_ascii_case("text/event-stream");
    settings.types.iter().any(|name| {
        let kind = name.strip_suffix('*').filter(|_| all(name));
        kind.map_or_else(
            || essence.eq_ignore_ascii_case(name),
            |kind| {
                essence
                    .get(..kind.len())
                    .is_some_and(|start| start.eq_ignore_ascii_case(kind))
            },
        )
    })
}

/// Whether an intermediary may not change the body, as `Cache-Control: no-transform` says.
pub(super) fn is_fixed(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(header::CACHE_CONTROL).iter();
    lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(','))
        .any(|directive| directive.trim().eq_ignore_ascii_case("no-transform"))
}

/// Adds `Accept-Encoding` to `Vary`, unless it is there.
pub(in crate::edge) fn put_vary(headers: &mut HeaderMap) {
    let lines = headers.get_all(header::VARY).iter();
    let there = lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(','))
        .any(|name| name.trim() == "*" || name.trim().eq_ignore_ascii_case("accept-encoding"));
    if !there {
        headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    }
}

/// A strong `ETag` of the whole becomes a weak one of what it was made into: the bytes differ, the meaning does not.
pub(in crate::edge) fn weaken(headers: &mut HeaderMap) {
    let weak = headers.get(header::ETAG).and_then(|tag| {
        let tag = tag.to_str().ok().filter(|tag| tag.starts_with('"'))?;
        HeaderValue::try_from(format!("W/{tag}")).ok()
    });
    if let Some(weak) = weak {
        headers.insert(header::ETAG, weak);
    }
}

/// The name of a coding as a header.
pub(in crate::edge) fn name(coding: Coding) -> HeaderValue {
    HeaderValue::from_static(match coding {
        Coding::Zstd => "zstd",
        Coding::Brotli => "br",
        Coding::Gzip => "gzip",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(lines: &[&'static str]) -> Accepted {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(header::ACCEPT_ENCODING, HeaderValue::from_static(line));
        }
        Accepted::of(&headers)
    }

    #[test]
    fn the_best_coding_is_that_of_the_greatest_weight_then_ours() {
        use Coding::{Brotli, Gzip, Zstd};
        let table: &[(&[&'static str], Option<Coding>)] = &[
            (&[], None),
            (&[""], None),
            (&["identity"], None),
            (&["gzip"], Some(Gzip)),
            (&["x-gzip"], Some(Gzip)),
            (&["GZIP"], Some(Gzip)),
            (&["gzip, deflate, br, zstd"], Some(Zstd)),
            (&["gzip", "br"], Some(Brotli)),
            (&["gzip;q=1.0, br;q=0.9"], Some(Gzip)),
            (&["gzip;q=0.5, br;q=0.501"], Some(Brotli)),
            (&["gzip; q=0"], None),
            (&["gzip;q=0.000, *"], Some(Zstd)),
            (&["*"], Some(Zstd)),
            (&["*;q=0"], None),
            (&["zstd;q=0, *;q=0.1"], Some(Brotli)),
            (&["identity;q=1, gzip;q=0.5"], None),
            (&["identity;q=0.5, gzip;q=0.5"], Some(Gzip)),
            (&["identity;q=0, gzip;q=0.1"], Some(Gzip)),
            (&["gzip;q=2"], None),
            (&["gzip;q=nonsense"], None),
            (&["gzip;q=0.1234"], None),
            (&["deflate, sdch"], None),
        ];
        for (lines, best) in table {
            assert_eq!(accepted(lines).best(&[Zstd, Brotli, Gzip]), *best, "{lines:?}");
        }
        assert_eq!(accepted(&["gzip, br, zstd"]).best(&[Gzip, Zstd]), Some(Gzip));
        assert_eq!(accepted(&["gzip"]).best(&[]), None);
    }

    #[test]
    fn only_what_shrinks_is_packed() {
        let settings = Compression::default();
        for (kind, packable) in [
            ("text/html; charset=UTF-8", true),
            ("Text/HTML", true),
            ("application/json", true),
            ("image/svg+xml", true),
            ("application/wasm", true),
            ("text/event-stream", false),
            ("text/event-stream;charset=UTF-8", false),
            ("image/png", false),
            ("application/zip", false),
            ("application/octet-stream", false),
            ("", false),
        ] {
            let value = HeaderValue::from_static(kind);
            assert_eq!(is_packable(Some(&value), &settings), packable, "{kind}");
        }
        assert!(!is_packable(None, &settings));
        let named = Compression {
            types: vec!["text/event-stream".to_owned()],
            ..settings
        };
        let events = HeaderValue::from_static("text/event-stream");
        assert!(is_packable(Some(&events), &named));
    }

    #[test]
    fn vary_is_added_once_and_a_tag_weakened_once() {
        let mut headers = HeaderMap::new();
        headers.insert(header::VARY, HeaderValue::from_static("Cookie"));
        headers.insert(header::ETAG, HeaderValue::from_static("\"a\""));
        for _ in 0..2 {
            put_vary(&mut headers);
            weaken(&mut headers);
        }
        let vary: Vec<_> = headers.get_all(header::VARY).iter().collect();
        assert_eq!(vary, ["Cookie", "Accept-Encoding"]);
        assert_eq!(headers.get(header::ETAG).unwrap(), "W/\"a\"");
    }
}
