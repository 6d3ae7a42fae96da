//! The CGI variables, as nginx (Debian's `fastcgi.conf` with `snippets/fastcgi-php.conf`) and php-fpm 8.2 give them to a script.
//!
//! The order is the one `$_SERVER` has under php-fpm: headers from the last to the first, then the parameters from the last to the
//! first (recorded with nginx 1.22 and php-fpm 8.2). `USER`, `HOME`, `PHP_SELF`, `PHP_AUTH_*` and `REQUEST_TIME*` are PHP's own
//! affair. Encoded straight into the bytes that go to the worker. Called by `exchange`. Runs in: server, on a reactor.

use http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, HOST, HeaderName, HeaderValue};
use http::request;
use http::{HeaderMap, Version};
use ipc::head::{Known, RequestWriter};

use super::check;
use super::peer::{Addresses, Scheme};
use super::site::route::Script;
use crate::dispatch::RequestId;

/// `SERVER_SOFTWARE`. Applications look for the names of servers they know: `WordPress` offers URLs without `index.php` only where it
/// finds one that passes them to it.
const SOFTWARE: &str = concat!("hearth/", env!("CARGO_PKG_VERSION"), " (like nginx)");
/// Bytes of the variables that every request has, and of the names of its headers; a guess that spares growing.
const USUAL: usize = 1536;

/// Everything the variables are made of.
pub(super) struct Source<'a> {
    pub(super) id: RequestId,
    pub(super) head: &'a request::Parts,
    pub(super) script: &'a Script<'a>,
    /// `QUERY_STRING`
    pub(super) query: &'a str,
    pub(super) root: &'a [u8],
    pub(super) addresses: &'a Addresses,
    /// Bytes of the body that was received; `None` when none was announced.
    pub(super) body: Option<u64>,
}

/// The encoded head of the request.
pub(super) fn encode(source: &Source<'_>) -> Vec<u8> {
    let target = source
        .head
        .uri
        .path_and_query()
        .map_or("/", http::uri::PathAndQuery::as_str);
    let headers: usize = source.head.headers.len() * 48;
    let mut writer = RequestWriter::new(source.id.0, USUAL + headers + target.len() * 2);
    put_headers(&mut writer, source);
    put_server(&mut writer, source);
    put_request(&mut writer, source, target);
    writer.finish()
}

fn put_headers(writer: &mut RequestWriter, source: &Source<'_>) {
    let map = &source.head.headers;
    let mut pairs: Vec<(&HeaderName, &HeaderValue)> = Vec::with_capacity(map.len());
    pairs.extend(map.iter());
    let mut rest = pairs.as_slice();
    while let Some(((name, value), before)) = rest.split_last() {
        let same = before.iter().rev().take_while(|(other, _)| other == name).count();
        let first = before.len() - same;
        if *name == HOST {
            writer.param(b"HTTP_HOST", check::host_of(&source.head.uri, map));
        } else if is_passed(name) {
            if *name == COOKIE {
                writer.mark(Known::Cookie);
            } else if *name == AUTHORIZATION {
                writer.mark(Known::Authorization);
            }
            if same == 0 {
                writer.header(name.as_str().as_bytes(), value.as_bytes());
            } else {
                let separator: &[u8] = if *name == COOKIE { b"; " } else { b", " };
                let all = rest.get(first..).unwrap_or_default();
                let values: Vec<&[u8]> = all.iter().map(|(_, v)| v.as_bytes()).collect();
                writer.header(name.as_str().as_bytes(), &values.join(separator));
            }
        }
        rest = rest.get(..first).unwrap_or_default();
    }
    // Of HTTP/2 it comes as `:authority`, before all headers.
    if source.head.version == Version::HTTP_2 && !map.contains_key(HOST) {
        writer.param(b"HTTP_HOST", check::host_of(&source.head.uri, map));
    }
}

/// `a_b` and, since PHP writes names so, `a.b` could stand for `a-b` and deceive the application; nginx drops both, as every name
/// with more than letters, digits and hyphens. `Proxy` would become `HTTP_PROXY`, which libraries take for a setting (httpoxy).
fn is_passed(name: &HeaderName) -> bool {
    let name = name.as_str();
    name != "proxy" && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

fn put_server(writer: &mut RequestWriter, source: &Source<'_>) {
    let addresses = source.addresses;
    let host = check::name_of(check::host_of(&source.head.uri, &source.head.headers));
    let name = if host.is_empty() {
        addresses.server_addr.as_bytes()
    } else {
        host
    };
    writer.param(b"REDIRECT_STATUS", b"200");
    writer.param(b"SERVER_NAME", name);
    writer.param(b"SERVER_PORT", addresses.server_port.as_bytes());
    writer.param(b"SERVER_ADDR", addresses.server_addr.as_bytes());
    writer.param(b"REMOTE_USER", &remote_user(&source.head.headers));
    writer.param(b"REMOTE_PORT", addresses.remote_port.as_bytes());
    writer.param(b"REMOTE_ADDR", addresses.remote_addr.as_bytes());
    writer.param(b"SERVER_SOFTWARE", SOFTWARE.as_bytes());
    writer.param(b"GATEWAY_INTERFACE", b"CGI/1.1");
    for (name, value) in addresses.tls.iter().flat_map(|all| all.iter()) {
        writer.param(name.as_bytes(), value.as_bytes());
    }
    if addresses.scheme == Scheme::Https {
        writer.param(b"HTTPS", b"on");
    }
    writer.param(b"REQUEST_SCHEME", addresses.scheme.as_str().as_bytes());
    let protocol: &[u8] = match source.head.version {
        Version::HTTP_10 => b"HTTP/1.0",
        Version::HTTP_2 => b"HTTP/2.0",
        _ => b"HTTP/1.1",
    };
    writer.known(Known::Protocol, b"SERVER_PROTOCOL", protocol);
    writer.param(b"DOCUMENT_ROOT", source.root);
}

fn put_request(writer: &mut RequestWriter, source: &Source<'_>, target: &str) {
    let script = source.script;
    let mut length = Decimal::new();
    let content_length = source.body.map_or(&b""[..], |n| length.write(n));
    let content_type = source
        .head
        .headers
        .get(CONTENT_TYPE)
        .map_or(&b""[..], HeaderValue::as_bytes);
    writer.param(b"DOCUMENT_URI", &script.name);
    writer.known(Known::Uri, b"REQUEST_URI", target.as_bytes());
    writer.param(b"SCRIPT_NAME", &script.name);
    writer.known(Known::ContentLength, b"CONTENT_LENGTH", content_length);
    writer.known(Known::ContentType, b"CONTENT_TYPE", content_type);
    writer.known(
        Known::Method,
        b"REQUEST_METHOD",
        source.head.method.as_str().as_bytes(),
    );
    writer.known(Known::Query, b"QUERY_STRING", source.query.as_bytes());
    writer.known(Known::Script, b"SCRIPT_FILENAME", &script.filename);
    writer.param(b"PATH_INFO", &script.info);
    writer.param(b"FCGI_ROLE", b"RESPONDER");
    put_id(writer, source.id);
}

/// The request's number, by which it is found in the log.
pub(super) fn put_id(writer: &mut RequestWriter, id: RequestId) {
    let mut digits = [0; 16];
    writer.param(b"HEARTH_REQUEST_ID", hex_id(id, &mut digits));
}

/// As `RequestId` prints itself.
fn hex_id(id: RequestId, out: &mut [u8; 16]) -> &[u8] {
    use std::io::Write;
    let room = out.len();
    let mut rest = &mut out[..];
    // 16 digits hold every number.
    let _ = write!(rest, "{id}");
    let used = room - rest.len();
    out.get(..used).unwrap_or_default()
}

/// The length announced by the client. hyper has refused what is no number.
pub(super) fn announced_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.trim().parse().ok()
}

/// The user of `Authorization: Basic`, as nginx shows it whether or not anyone checked the password.
fn remote_user(headers: &HeaderMap) -> Vec<u8> {
    let value = headers.get(AUTHORIZATION).map_or(&b""[..], HeaderValue::as_bytes);
    let Some((scheme, code)) = value.split_at_checked(6) else {
        return Vec::new();
    };
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return Vec::new();
    }
    let mut user = base64(code.trim_ascii());
    match user.iter().position(|&b| b == b':') {
        Some(end) => {
            user.truncate(end);
            user
        }
        None => Vec::new(),
    }
}

/// RFC 4648 §4; empty for what is none.
fn base64(code: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(code.len() / 4 * 3 + 3);
    let (mut bits, mut count) = (0_u32, 0_u32);
    for &b in code.iter().take_while(|&&b| b != b'=') {
        let six = match b {
            b'A'..=b'Z' => b - b'A',
            b'a'..=b'z' => b - b'a' + 26,
            b'0'..=b'9' => b - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return Vec::new(),
        };
        bits = bits << 6 | u32::from(six);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count & 0xff).try_into().unwrap_or(0));
        }
    }
    out
}

/// A number as text without an allocation.
struct Decimal([u8; 20]);

impl Decimal {
    fn new() -> Self {
        Self([0; 20])
    }

    fn write(&mut self, mut n: u64) -> &[u8] {
        let mut at = self.0.len();
        for digit in self.0.iter_mut().rev() {
            *digit = b'0' + u8::try_from(n % 10).unwrap_or(0);
            n /= 10;
            at -= 1;
            if n == 0 {
                break;
            }
        }
        self.0.get(at..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
