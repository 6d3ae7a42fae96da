//! Conditional requests and ranges (RFC 9110 §13 and §14). Pure functions of the request's headers and a file's size and times.
//!
//! Called by `files`. Runs in: server, on a reactor.

use std::time::SystemTime;

use http::Method;
use http::header::{self, HeaderMap, HeaderName};

/// Ranges in one request; more are answered with the whole file.
const MAX_RANGES: usize = 16;

/// What identifies a version of a file.
#[derive(Debug)]
pub(super) struct Version {
    /// Strong, in quotes.
    pub(super) etag: String,
    /// Whole seconds.
    pub(super) modified: SystemTime,
    /// Bytes.
    pub(super) size: u64,
}

/// What the preconditions say.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Send it.
    Send,
    /// The client has it. 304.
    NotModified,
    /// The client wants another version. 412.
    Failed,
}

/// RFC 9110 §13.2.2, in its order.
pub(super) fn evaluate(headers: &HeaderMap, version: &Version) -> Verdict {
    if headers.contains_key(header::IF_MATCH) {
        if !matches((headers, &header::IF_MATCH), &version.etag, Weak::Differs) {
            return Verdict::Failed;
        }
    } else if let Some(date) = date(headers, &header::IF_UNMODIFIED_SINCE)
        && version.modified > date
    {
        return Verdict::Failed;
    }
    if headers.contains_key(header::IF_NONE_MATCH) {
        if matches((headers, &header::IF_NONE_MATCH), &version.etag, Weak::Equals) {
            return Verdict::NotModified;
        }
    } else if let Some(date) = date(headers, &header::IF_MODIFIED_SINCE)
        && version.modified <= date
    {
        return Verdict::NotModified;
    }
    Verdict::Send
}

/// Which bytes are wanted.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// All.
    Whole,
    /// These: start and end (exclusive), in the client's order, none empty.
    Parts(Vec<(u64, u64)>),
    /// None that exists. 416.
    Nothing,
}

/// RFC 9110 §14.2. What is no valid range, too many of them, or more than the file together, is answered with the whole file.
pub(super) fn wanted(method: &Method, headers: &HeaderMap, version: &Version) -> Wanted {
    // Units have no case (RFC 9110 §14.1).
    let set = text(headers, &header::RANGE).and_then(|value| value.split_once('='));
    let Some((_, set)) = set.filter(|(unit, _)| unit.eq_ignore_ascii_case("bytes")) else {
        return Wanted::Whole;
    };
    if *method != Method::GET || !if_range(headers, version) {
        return Wanted::Whole;
    }
    let mut parts = Vec::new();
    let mut total = 0_u64;
    for (count, spec) in set
        .split(',')
        .map(str::trim)
        .filter(|s| !s.is_empty())
        .enumerate()
    {
        match parse(spec, version.size) {
            _ if count >= MAX_RANGES => return Wanted::Whole,
            Spec::Invalid => return Wanted::Whole,
            Spec::Outside => {}
            Spec::Part(start, end) => {
                parts.push((start, end));
                total += end - start;
            }
        }
    }
    let any = set.split(',').any(|spec| !spec.trim().is_empty());
    if parts.is_empty() && any {
        Wanted::Nothing
    } else if parts.is_empty() || total > version.size {
        Wanted::Whole
    } else {
        Wanted::Parts(parts)
    }
}

/// One range, and whether it can be served.
enum Spec {
    /// Start and end (exclusive).
    Part(u64, u64),
    /// Outside of the file.
    Outside,
    /// No range at all.
    Invalid,
}

fn parse(spec: &str, size: u64) -> Spec {
    let number = |s: &str| {
        let digits = !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
        digits.then(|| s.parse().unwrap_or(u64::MAX))
    };
    let (start, end) = match spec.split_once('-') {
        Some(("", suffix)) => match number(suffix) {
            Some(0) => return Spec::Outside,
            Some(suffix) => (size.saturating_sub(suffix), u64::MAX),
            None => return Spec::Invalid,
        },
        Some((first, "")) => match number(first) {
            Some(start) => (start, u64::MAX),
            None => return Spec::Invalid,
        },
        Some((first, last)) => match (number(first), number(last)) {
            (Some(start), Some(end)) if start <= end => (start, end),
            _ => return Spec::Invalid,
        },
        None => return Spec::Invalid,
    };
    if start < size {
        Spec::Part(start, end.saturating_add(1).min(size))
    } else {
        Spec::Outside
    }
}

/// RFC 9110 §13.1.5: strong comparison, or the very date.
fn if_range(headers: &HeaderMap, version: &Version) -> bool {
    match text(headers, &header::IF_RANGE) {
        None => !headers.contains_key(header::IF_RANGE),
        Some(tag) if tag.starts_with('"') => tag == version.etag,
        Some(tag) if tag.starts_with("W/") => false,
        Some(date) => httpdate::parse_http_date(date).is_ok_and(|d| d == version.modified),
    }
}

/// How a weak tag compares (RFC 9110 §8.8.3.2).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Weak {
    Equals,
    Differs,
}

/// Of a header that may be there several times (RFC 9110 §5.3).
fn matches((headers, name): (&HeaderMap, &HeaderName), etag: &str, weak: Weak) -> bool {
    let lines = headers.get_all(name).iter();
    let tags = lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(','))
        .map(str::trim);
    let mut tags = tags.filter(|tag| !tag.is_empty());
    tags.any(|tag| match tag.strip_prefix("W/") {
        Some(tag) => weak == Weak::Equals && tag == etag,
        None => tag == "*" || tag == etag,
    })
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn date(headers: &HeaderMap, name: &HeaderName) -> Option<SystemTime> {
    httpdate::parse_http_date(text(headers, name)?).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn version() -> Version {
        Version {
            etag: "\"a-64\"".into(),
            modified: SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777),
            size: 100,
        }
    }

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(n, v)| (HeaderName::from_static(n), v.parse().unwrap()))
            .collect()
    }

    #[test]
    fn preconditions_follow_their_order() {
        let cases: &[(&[(&str, &str)], Verdict)] = &[
            (&[], Verdict::Send),
            (&[("if-none-match", "\"a-64\"")], Verdict::NotModified),
            (&[("if-none-match", "\"x\", W/\"a-64\"")], Verdict::NotModified),
            (&[("if-none-match", "*")], Verdict::NotModified),
            (
                &[("if-modified-since", "Sun, 06 Nov 1994 08:49:37 GMT")],
                Verdict::NotModified,
            ),
            (
                &[("if-modified-since", "Sun, 06 Nov 1994 08:49:36 GMT")],
                Verdict::Send,
            ),
            (
                &[
                    ("if-none-match", "\"x\""),
                    ("if-modified-since", "Sun, 06 Nov 1994 08:49:37 GMT"),
                ],
                Verdict::Send,
            ),
            (&[("if-match", "\"x\"")], Verdict::Failed),
            (&[("if-match", "W/\"a-64\"")], Verdict::Failed),
            (
                &[("if-unmodified-since", "Sun, 06 Nov 1994 08:49:36 GMT")],
                Verdict::Failed,
            ),
            (&[("if-modified-since", "yesterday")], Verdict::Send),
            (
                &[("if-none-match", "\"x\""), ("if-none-match", "\"a-64\"")],
                Verdict::NotModified,
            ),
            (&[("if-none-match", "\"x\", ")], Verdict::Send),
            (&[("if-match", "*")], Verdict::Send),
            (&[("if-match", "\"x\""), ("if-match", "\"a-64\"")], Verdict::Send),
            (
                &[
                    ("if-match", "\"a-64\""),
                    ("if-unmodified-since", "Sun, 06 Nov 1994 08:49:36 GMT"),
                ],
                Verdict::Send,
            ),
        ];
        for (given, verdict) in cases {
            let mut map = HeaderMap::new();
            for (name, value) in *given {
                map.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
            }
            assert_eq!(evaluate(&map, &version()), *verdict, "{given:?}");
        }
    }

    #[test]
    fn ranges_are_cut_to_the_file() {
        let cases: &[(&'static str, Wanted)] = &[
            ("bytes=0-9", Wanted::Parts(vec![(0, 10)])),
            ("bytes=90-", Wanted::Parts(vec![(90, 100)])),
            ("Bytes=90-", Wanted::Parts(vec![(90, 100)])),
            ("bytes = 90-", Wanted::Whole),
            ("bytes=0-9,", Wanted::Parts(vec![(0, 10)])),
            ("bytes=,", Wanted::Whole),
            ("bytes=-5", Wanted::Parts(vec![(95, 100)])),
            ("bytes=-500", Wanted::Parts(vec![(0, 100)])),
            ("bytes=0-0,-1", Wanted::Parts(vec![(0, 1), (99, 100)])),
            ("bytes=50-1000", Wanted::Parts(vec![(50, 100)])),
            ("bytes=100-", Wanted::Nothing),
            ("bytes=-0", Wanted::Nothing),
            ("bytes=9-0", Wanted::Whole),
            ("bytes=a-b", Wanted::Whole),
            ("lines=0-1", Wanted::Whole),
            ("bytes=0-,0-", Wanted::Whole),
            ("bytes=0-18446744073709551615", Wanted::Parts(vec![(0, 100)])),
            (
                "bytes=0-0,0-0,0-0,0-0,0-0,0-0,0-0,0-0,0-0,0-0,0-0,0-0,0-0,0-0,0-0,0-0,0-0",
                Wanted::Whole,
            ),
        ];
        for (range, expected) in cases {
            assert_eq!(
                wanted(&Method::GET, &headers(&[("range", range)]), &version()),
                *expected,
                "{range}"
            );
        }
        let stale = headers(&[("range", "bytes=0-9"), ("if-range", "\"other\"")]);
        assert_eq!(wanted(&Method::GET, &stale, &version()), Wanted::Whole);
        let fresh = headers(&[("range", "bytes=0-9"), ("if-range", "\"a-64\"")]);
        assert_eq!(
            wanted(&Method::GET, &fresh, &version()),
            Wanted::Parts(vec![(0, 10)])
        );
        assert_eq!(
            wanted(&Method::HEAD, &headers(&[("range", "bytes=0-9")]), &version()),
            Wanted::Whole
        );
    }
}
