//! Is the head of a request one that may be answered? What hyper leaves to its users, after RFC 9110 and RFC 9112.
//!
//! Pure functions. hyper has refused before: broken request lines and header lines, conflicting lengths, transfer codings that do
//! not end in `chunked`. Called by `exchange`. Runs in: server, on a reactor.

use http::header::{
    AUTHORIZATION, CONTENT_LENGTH, COOKIE, EXPECT, HOST, HeaderMap, HeaderValue, TRANSFER_ENCODING,
};
use http::{Method, Uri, Version, request};

use super::reply::Refusal;

/// Methods that scripts get; in `Allow`.
pub(super) const ALLOW_ANY: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

/// Refuses what must be refused.
pub(super) fn head(head: &request::Parts) -> Result<(), Refusal> {
    if head.method == Method::CONNECT || head.method == Method::TRACE {
        return Err(Refusal::Method(ALLOW_ANY));
    }
    // Of HTTP/1 `http1::framing` has refused it.
    if head.version == Version::HTTP_2 && !is_method(head.method.as_str().as_bytes()) {
        return Err(Refusal::BadRequest("invalid method"));
    }
    coding(&head.headers)?;
    expectation(&head.headers)?;
    credentials(&head.headers)?;
    host(head)
}

/// Refuses more than `limit` headers. The pieces in which HTTP/2 has cookies sent (RFC 9113 §8.2.3) are one.
pub(super) fn count(headers: &HeaderMap, limit: usize) -> Result<(), Refusal> {
    if headers.len() <= limit {
        return Ok(());
    }
    let pieces = headers.get_all(COOKIE).iter().count();
    if headers.len() - pieces.saturating_sub(1) > limit {
        return Err(Refusal::TooManyHeaders);
    }
    Ok(())
}

/// In capital letters, as nginx wants it: applications that compare without regard to case would take `get` for another method than
/// those who guard them.
pub(super) fn is_method(name: &[u8]) -> bool {
    let is_one = |b: &u8| b.is_ascii_uppercase() || matches!(b, b'-' | b'_');
    !name.is_empty() && name.iter().all(is_one)
}

/// Whether a request may run again by its method (RFC 9110 §9.2.2).
pub(super) fn is_idempotent(method: &[u8]) -> bool {
    matches!(method, b"GET" | b"HEAD" | b"OPTIONS" | b"PUT" | b"DELETE")
}

/// The name the client asked for, with its port: of the target when that is absolute (RFC 9112 §3.2.2), else of `Host`.
pub(super) fn host_of<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> &'a [u8] {
    match uri.authority() {
        Some(authority) => authority.as_str().as_bytes(),
        None => headers.get(HOST).map_or(b"", |v| v.as_bytes().trim_ascii()),
    }
}

/// `host` without its port.
pub(super) fn name_of(host: &[u8]) -> &[u8] {
    let after_v6 = host.iter().position(|&b| b == b']').unwrap_or(0);
    let end = host
        .iter()
        .skip(after_v6)
        .position(|&b| b == b':')
        .map_or(host.len(), |at| at + after_v6);
    host.get(..end).unwrap_or_default()
}

/// RFC 9112 §6.1: only `chunked`, once, and never with a length (the way smuggled requests come in).
fn coding(headers: &HeaderMap) -> Result<(), Refusal> {
    let mut values = headers.get_all(TRANSFER_ENCODING).iter();
    let Some(first) = values.next() else { return Ok(()) };
    if !first.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked") || values.next().is_some() {
        return Err(Refusal::BadRequest("transfer coding other than chunked"));
    }
    if headers.contains_key(CONTENT_LENGTH) {
        return Err(Refusal::BadRequest("length and transfer coding"));
    }
    Ok(())
}

fn expectation(headers: &HeaderMap) -> Result<(), Refusal> {
    match headers.get(EXPECT) {
        Some(value)
            if !value
                .as_bytes()
                .trim_ascii()
                .eq_ignore_ascii_case(b"100-continue") =>
        {
            Err(Refusal::Expectation)
        }
        _ => Ok(()),
    }
}

/// RFC 9110 §11.6.2: one value. Of two, what checks them and what uses them could take different ones; nginx refuses too.
fn credentials(headers: &HeaderMap) -> Result<(), Refusal> {
    match headers.get_all(AUTHORIZATION).iter().nth(1) {
        Some(_) => Err(Refusal::BadRequest("more than one Authorization")),
        None => Ok(()),
    }
}

/// RFC 9112 §3.2: one valid `Host`, which HTTP/1.0 may lack.
fn host(head: &request::Parts) -> Result<(), Refusal> {
    let mut values = head.headers.get_all(HOST).iter();
    match (values.next(), values.next()) {
        (Some(_), Some(_)) => return Err(Refusal::BadRequest("more than one Host")),
        (Some(host), None) if !is_host(host.as_bytes().trim_ascii()) => {
            return Err(Refusal::BadRequest("invalid Host"));
        }
        // RFC 9113 §8.3.1: of two names, what chooses a site and what makes links could take different ones.
        (Some(host), None) if head.version == Version::HTTP_2 && !is_authority(head, host) => {
            return Err(Refusal::BadRequest("Host and :authority differ"));
        }
        (None, _) if head.version == Version::HTTP_2 && head.uri.authority().is_some() => {}
        (None, _) if head.version != Version::HTTP_10 => return Err(Refusal::BadRequest("no Host")),
        _ => {}
    }
    if let Some(scheme) = head.uri.scheme_str() {
        if scheme != "http" && scheme != "https" {
            return Err(Refusal::BadRequest("scheme of the target"));
        }
        let authority = head.uri.authority();
        if !authority.is_some_and(|a| is_host(a.as_str().as_bytes())) {
            return Err(Refusal::BadRequest("invalid host in the target"));
        }
    }
    match head.uri.path() {
        "*" if head.method == Method::OPTIONS => Ok(()),
        path if path.starts_with('/') => Ok(()),
        "" if head.uri.scheme().is_some() => Ok(()),
        _ => Err(Refusal::BadRequest("form of the target")),
    }
}

fn is_authority(head: &request::Parts, host: &HeaderValue) -> bool {
    let host = host.as_bytes().trim_ascii();
    let authority = head.uri.authority();
    authority.is_none_or(|authority| authority.as_str().as_bytes().eq_ignore_ascii_case(host))
}

/// RFC 3986 §3.2.2 and §3.2.3, without user information and percent-encoding.
pub(super) fn is_host(host: &[u8]) -> bool {
    let name = name_of(host);
    let port = host.get(name.len()..).unwrap_or_default();
    let port_ok = match port.split_first() {
        None => true,
        Some((_, digits)) => {
            digits.len() <= 5
                && digits.iter().all(u8::is_ascii_digit)
                && digits.iter().fold(0_u32, |n, d| n * 10 + u32::from(d - b'0')) <= 65_535
        }
    };
    let name_ok = match name.split_first() {
        None => false,
        Some((b'[', rest)) => rest.split_last().is_some_and(|(last, address)| {
            *last == b']'
                && std::str::from_utf8(address).is_ok_and(|a| a.parse::<std::net::Ipv6Addr>().is_ok())
        }),
        Some(_) => name.iter().all(|&b| {
            b.is_ascii_alphanumeric()
                || matches!(
                    b,
                    b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'&'..=b',' | b';' | b'='
                )
        }),
    };
    name_ok && port_ok
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_told_from_what_is_none() {
        for good in [
            "a",
            "a.b:80",
            "127.0.0.1",
            "[::1]",
            "[::1]:8080",
            "a_b",
            "a:",
            "x-1.example.",
        ] {
            assert!(is_host(good.as_bytes()), "{good}");
        }
        for bad in [
            "",
            ":80",
            "x:abc",
            "u@h",
            "[::1",
            "a b",
            "a/b",
            "a:99999",
            "[x]",
            "a:1:2",
            "[::1]x",
            "a,b\u{e9}",
        ] {
            assert!(!is_host(bad.as_bytes()), "{bad}");
        }
    }

    #[test]
    fn the_port_is_no_part_of_the_name() {
        assert_eq!(name_of(b"a.b:80"), b"a.b");
        assert_eq!(name_of(b"[::1]:80"), b"[::1]");
        assert_eq!(name_of(b"a"), b"a");
    }
}
