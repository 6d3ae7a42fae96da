//! A response as CGI text in records (RFC 3875 §6.2, FastCGI specification 1.0 §6.2).
//!
//! Called by `exchange`. Runs in: server, on a reactor.

use bytes::{BufMut, BytesMut};
use http::{HeaderMap, StatusCode};

use super::records::{self, Completion, Kind};
use crate::edge::reply::put_lines;

/// The head.
pub(super) fn head(status: StatusCode, reason: &[u8], headers: &HeaderMap) -> BytesMut {
    let mut head = BytesMut::with_capacity(512);
    head.put_slice(b"Status: ");
    head.put_slice(status.as_str().as_bytes());
    let reason = match reason {
        b"" => status.canonical_reason().unwrap_or_default().as_bytes(),
        given => given,
    };
    head.put_slice(b" ");
    head.put_slice(reason);
    head.put_slice(b"\r\n");
    put_lines(&mut head, headers);
    head
}

/// Appends a part of the response: its head, or of its body.
pub(super) fn put(out: &mut BytesMut, id: u16, bytes: &[u8]) {
    records::put_stream(out, Kind::Stdout, id, bytes);
}

/// Appends a line for the web server's log.
pub(super) fn put_log(out: &mut BytesMut, id: u16, line: &str) {
    records::put_stream(out, Kind::Stderr, id, line.as_bytes());
}

/// Appends the end of the response.
pub(super) fn put_end(out: &mut BytesMut, id: u16) {
    records::put_record(out, Kind::Stdout, id, b"");
    records::put_end(out, id, Completion::Complete);
}
