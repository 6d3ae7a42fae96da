//! From an outcome to an HTTP response: the one map from errors to status, the error page, and the rules for a script's headers.
//!
//! `error_pages` are the site's own, `body` is that of every response. Called by `exchange`. Runs in: server, on a reactor.

pub(super) mod body;
pub(super) mod error_pages;

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::{BufMut, Bytes};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode, request};
use tracing::{debug, error, warn};

use self::body::Content;
use crate::dispatch::{DispatchError, RequestId, Response, ResponseBody};

/// Seconds a client is asked to wait after 503.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");
const SERVER: HeaderValue = HeaderValue::from_static("hearth");
const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");
const CLOSE: HeaderValue = HeaderValue::from_static("close");
/// RFC 9110 §7.6.1: these speak of a connection, and the connection is ours.
const HOP_BY_HOP: [&str; 8] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
];

/// Why a request was not answered as asked.
#[derive(Debug)]
pub(super) enum Refusal {
    /// It breaks the rules of HTTP; the text is for the log.
    BadRequest(&'static str),
    /// The path names nothing.
    NotFound,
    /// Nothing answers `/`; the text says why, to whoever works on it.
    NoIndex(Option<String>),
    /// A rule says so.
    Denied(StatusCode),
    /// The script has said so, and the site has a page of its own for it.
    Script(StatusCode),
    /// The method is none of these.
    Method(&'static str),
    /// The head did not arrive in time.
    HeadTimeout,
    /// The body did not arrive in time, or too slowly.
    BodyTimeout,
    /// The body is larger than it may be.
    BodyTooLarge,
    /// The request line is longer than a head may be.
    TargetTooLong,
    /// There are more headers than there may be.
    TooManyHeaders,
    /// The client asks more often than it may; so long it has to wait.
    TooManyRequests(Duration),
    /// `Expect` with anything but `100-continue`.
    Expectation,
    /// A precondition does not hold (RFC 9110 §13).
    Precondition,
    /// No byte of a file lies in the ranges; the file has this many.
    Range(u64),
    /// The client ended the connection in its request.
    ClientGone,
    /// A static file is there and cannot be read.
    File(io::Error),
    /// The worker could not be asked, or did not answer.
    Dispatch(DispatchError),
    /// The code that is being worked on does not run, for this reason; only while files are watched.
    Broken(Arc<str>),
}

/// How a request ended, as the access log shows it: one word each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Answered to the last byte.
    Ok,
    /// Refused by the server, not by the application: not found, method, precondition.
    Refused,
    /// Not HTTP as it should be, or beyond a limit.
    BadRequest,
    /// The client asks too often.
    RateLimit,
    /// The client was too slow with its head.
    HeadTimeout,
    /// The client was too slow with its body.
    BodyTimeout,
    /// The client was too slow to take the response.
    WriteTimeout,
    /// The client left before its response was complete.
    ClientGone,
    /// Too many requests waited.
    QueueFull,
    /// No worker became free.
    QueueTimeout,
    /// There was no room for a spool file.
    SpoolFull,
    /// The worker died.
    WorkerDied,
    /// The worker broke the protocol.
    BadResponse,
    /// The script ran too long.
    RequestTimeout,
    /// The server is stopping.
    Stopping,
    /// The server failed (files, mostly).
    Internal,
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ok => "ok",
            Self::Refused => "refused",
            Self::BadRequest => "bad-request",
            Self::RateLimit => "rate-limit",
            Self::HeadTimeout => "head-timeout",
            Self::BodyTimeout => "body-timeout",
            Self::WriteTimeout => "write-timeout",
            Self::ClientGone => "client-gone",
            Self::QueueFull => "queue-full",
            Self::QueueTimeout => "queue-timeout",
            Self::SpoolFull => "spool-full",
            Self::WorkerDied => "worker-died",
            Self::BadResponse => "bad-response",
            Self::RequestTimeout => "request-timeout",
            Self::Stopping => "stopping",
            Self::Internal => "internal",
        })
    }
}

impl Refusal {
    /// What the client gets and the log says. The only such map.
    pub(super) fn outcome(&self) -> (StatusCode, Ending) {
        match self {
            Self::BadRequest(_) => (StatusCode::BAD_REQUEST, Ending::BadRequest),
            Self::NotFound | Self::NoIndex(_) => (StatusCode::NOT_FOUND, Ending::Refused),
            Self::Denied(status) => (*status, Ending::Refused),
            Self::Script(status) => (*status, Ending::Ok),
            Self::Method(_) => (StatusCode::METHOD_NOT_ALLOWED, Ending::Refused),
            Self::HeadTimeout => (StatusCode::REQUEST_TIMEOUT, Ending::HeadTimeout),
            Self::BodyTimeout => (StatusCode::REQUEST_TIMEOUT, Ending::BodyTimeout),
            Self::BodyTooLarge => (StatusCode::PAYLOAD_TOO_LARGE, Ending::BadRequest),
            Self::TargetTooLong => (StatusCode::URI_TOO_LONG, Ending::BadRequest),
            Self::TooManyHeaders => (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, Ending::BadRequest),
            Self::TooManyRequests(_) => (StatusCode::TOO_MANY_REQUESTS, Ending::RateLimit),
            Self::Expectation => (StatusCode::EXPECTATION_FAILED, Ending::BadRequest),
            Self::Precondition => (StatusCode::PRECONDITION_FAILED, Ending::Refused),
            Self::Range(_) => (StatusCode::RANGE_NOT_SATISFIABLE, Ending::Refused),
            Self::ClientGone => (StatusCode::BAD_REQUEST, Ending::ClientGone),
            Self::File(_) | Self::Broken(_) => (StatusCode::INTERNAL_SERVER_ERROR, Ending::Internal),
            Self::Dispatch(error) => dispatch_outcome(error),
        }
    }

    /// True when the request may not have been read to its end, so that nothing can follow it on its connection.
    pub(super) fn closes(&self) -> bool {
        match self {
            Self::NotFound
            | Self::NoIndex(_)
            | Self::Denied(_)
            | Self::Script(_)
            | Self::Precondition
            | Self::Range(_)
            | Self::TooManyRequests(_)
            | Self::File(_)
            | Self::Dispatch(_)
            | Self::Broken(_) => false,
            Self::BadRequest(_)
            | Self::Method(_)
            | Self::HeadTimeout
            | Self::BodyTimeout
            | Self::BodyTooLarge
            | Self::TargetTooLong
            | Self::TooManyHeaders
            | Self::Expectation
            | Self::ClientGone => true,
        }
    }
}

/// Status in the access log of a request that was being answered when its client left. nginx uses this number.
pub(super) fn client_gone() -> StatusCode {
    StatusCode::from_u16(499).unwrap_or(StatusCode::BAD_REQUEST)
}

/// How a response ended that broke off for `error`.
pub(super) fn dispatch_outcome(error: &DispatchError) -> (StatusCode, Ending) {
    match error {
        DispatchError::QueueFull { .. } => (StatusCode::SERVICE_UNAVAILABLE, Ending::QueueFull),
        DispatchError::QueueTimeout { .. } => (StatusCode::SERVICE_UNAVAILABLE, Ending::QueueTimeout),
        DispatchError::WorkerDied { .. } => (StatusCode::BAD_GATEWAY, Ending::WorkerDied),
        DispatchError::BadResponse { .. } => (StatusCode::BAD_GATEWAY, Ending::BadResponse),
        DispatchError::RequestTimeout { .. } => (StatusCode::GATEWAY_TIMEOUT, Ending::RequestTimeout),
        DispatchError::HeadTooLarge { .. } => {
            (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, Ending::BadRequest)
        }
        DispatchError::Stopping => (StatusCode::SERVICE_UNAVAILABLE, Ending::Stopping),
        DispatchError::NoRoom(_) => (StatusCode::SERVICE_UNAVAILABLE, Ending::SpoolFull),
        DispatchError::Spool(_) => (StatusCode::INTERNAL_SERVER_ERROR, Ending::Internal),
    }
}

/// Tells the log who is to blame: us, the application or the client.
pub(super) fn report(id: RequestId, refusal: &Refusal) {
    match refusal {
        Refusal::Dispatch(e @ (DispatchError::Spool(_) | DispatchError::BadResponse { .. })) => {
            error!(%id, error = %e, "request failed");
        }
        Refusal::File(e) => error!(%id, error = %e, "static file not read"),
        // `spool` says so, once in a while.
        Refusal::Dispatch(e @ (DispatchError::HeadTooLarge { .. } | DispatchError::NoRoom(_))) => {
            debug!(%id, reason = %e, "request refused");
        }
        Refusal::Dispatch(e) => warn!(%id, error = %e, "request failed"),
        Refusal::BadRequest(reason) => debug!(%id, reason, "request refused"),
        other => debug!(%id, reason = ?other, "request refused"),
    }
}

/// The response for a refusal.
pub(super) fn refused(id: RequestId, refusal: &Refusal, method: &Method) -> http::Response<Content> {
    let (status, _) = refusal.outcome();
    let page = match refusal {
        Refusal::Broken(why) => broken_page(why),
        Refusal::NoIndex(Some(why)) => page_saying(status, id, why),
        _ => page(status, id),
    };
    let length = page.len();
    let mut response = http::Response::new(if *method == Method::HEAD {
        Content::Empty
    } else {
        Content::Whole(page)
    });
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::SERVER, SERVER);
    headers.insert(header::CONTENT_TYPE, HTML);
    if *method == Method::HEAD {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    if status == StatusCode::SERVICE_UNAVAILABLE {
        headers.insert(header::RETRY_AFTER, RETRY_AFTER);
    }
    match refusal {
        Refusal::Method(allow) => {
            headers.insert(header::ALLOW, HeaderValue::from_static(allow));
        }
        Refusal::TooManyRequests(wait) => {
            let seconds = wait.as_millis().div_ceil(1000).max(1);
            headers.insert(
                header::RETRY_AFTER,
                HeaderValue::from(u64::try_from(seconds).unwrap_or(u64::MAX)),
            );
        }
        Refusal::Range(size) => {
            if let Ok(value) = HeaderValue::try_from(format!("bytes */{size}")) {
                headers.insert(header::CONTENT_RANGE, value);
            }
        }
        _ => {}
    }
    if refusal.closes() || status == StatusCode::SERVICE_UNAVAILABLE && is_stopping(refusal) {
        headers.insert(header::CONNECTION, CLOSE);
    }
    response
}

/// For a client that asks for JSON and not for HTML: `{"error": "…"}` in the place of the page.
pub(super) fn as_json_if_wanted(response: &mut http::Response<Content>, head: &request::Parts, why: &str) {
    let accepts = |kind| {
        let all = head.headers.get_all(header::ACCEPT).iter();
        all.flat_map(|value| value.to_str())
            .any(|value| value.contains(kind))
    };
    if !accepts("application/json") || accepts("text/html") {
        return;
    }
    let text = serde_json::json!({ "error": why }).to_string() + "\n";
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if head.method == Method::HEAD {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(text.len()));
    } else {
        *response.body_mut() = Content::Whole(Bytes::from(text));
    }
}

/// The same as bytes, for a connection that hyper has given up.
pub(super) fn raw(id: RequestId, refusal: &Refusal) -> Vec<u8> {
    let (status, _) = refusal.outcome();
    let page = page(status, id);
    let mut out = format!(
        "HTTP/1.1 {status}\r\nserver: hearth\r\ndate: {}\r\nconnection: close\r\ncontent-type: text/html; charset=utf-8\r\n\
         content-length: {}\r\n\r\n",
        httpdate::fmt_http_date(SystemTime::now()),
        page.len()
    )
    .into_bytes();
    out.extend_from_slice(&page);
    out
}

/// The response to HTTP in the clear on a connection that was to be encrypted; in the words of nginx.
pub(super) fn not_encrypted() -> Vec<u8> {
    let page = "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>400 Bad Request</title></head>\n<body>\n\
                <h1>400 Bad Request</h1>\n<p>The plain HTTP request was sent to HTTPS port</p>\n</body>\n</html>\n";
    format!(
        "HTTP/1.1 400 Bad Request\r\nserver: hearth\r\nconnection: close\r\ncontent-type: text/html; charset=utf-8\r\n\
         content-length: {}\r\n\r\n{page}",
        page.len()
    )
    .into_bytes()
}

/// What an authority asked for.
pub(super) fn challenge(answer: String, method: &Method) -> http::Response<Content> {
    let mut response = http::Response::new(Content::Whole(Bytes::from(answer)));
    let kind = HeaderValue::from_static("application/octet-stream");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    if *method == Method::HEAD {
        *response.body_mut() = Content::Empty;
    }
    response
}

/// The same page, encrypted.
pub(super) fn encrypted(location: &str, method: &Method) -> http::Response<Content> {
    // Of 301 some clients make a GET of whatever it was (RFC 9110 §15.4.2).
    let status = if matches!(*method, Method::GET | Method::HEAD) {
        StatusCode::MOVED_PERMANENTLY
    } else {
        StatusCode::PERMANENT_REDIRECT
    };
    let mut response = empty(status);
    if let Ok(location) = HeaderValue::try_from(location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

/// `Date`, which hyper makes by itself for HTTP/1.
pub(super) fn date() -> HeaderValue {
    thread_local! {
        static LAST: RefCell<(u64, HeaderValue)> = const { RefCell::new((0, HeaderValue::from_static(""))) };
    }
    let now = SystemTime::now();
    let second = now
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    LAST.with_borrow_mut(|last| {
        if last.0 != second
            && let Ok(text) = HeaderValue::try_from(httpdate::fmt_http_date(now))
        {
            *last = (second, text);
        }
        last.1.clone()
    })
}

/// A redirection to the same path with a slash.
pub(super) fn moved(location: &str, query: Option<&str>) -> http::Response<Content> {
    let target = match query {
        Some(query) => format!("{location}?{query}"),
        None => location.to_owned(),
    };
    redirection(&target, StatusCode::MOVED_PERMANENTLY)
}

/// A redirection.
pub(super) fn redirection(target: &str, status: StatusCode) -> http::Response<Content> {
    let mut response = empty(status);
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::try_from(target) {
        headers.insert(header::LOCATION, value);
    }
    response
}

/// The answer to `OPTIONS *`, which asks about the server.
pub(super) fn options(allow: &'static str) -> http::Response<Content> {
    let mut response = empty(StatusCode::NO_CONTENT);
    response
        .headers_mut()
        .insert(header::ALLOW, HeaderValue::from_static(allow));
    response
}

/// A response of ours without a body.
pub(super) fn empty(status: StatusCode) -> http::Response<Content> {
    let mut response = http::Response::new(Content::Empty);
    *response.status_mut() = status;
    response.headers_mut().insert(header::SERVER, SERVER);
    response
}

/// What a script answered.
pub(super) fn from_script(answer: Response, method: &Method) -> http::Response<Content> {
    let Response {
        status,
        reason,
        mut headers,
        body,
        ..
    } = answer;
    drop_hop_by_hop(&mut headers);
    if !headers.contains_key(header::SERVER) {
        headers.insert(header::SERVER, SERVER);
    }
    let bodiless = *method == Method::HEAD || matches!(status.as_u16(), 204 | 205 | 304);
    let length = script_length(&mut headers, status);
    let content = if bodiless {
        Content::Discarded(body)
    } else {
        script_content(body, length)
    };
    let mut response = http::Response::new(content);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    // An empty one, too, where the status has no usual text: hyper would make one up.
    if (!reason.is_empty() || status.canonical_reason().is_none())
        && let Ok(reason) = hyper::ext::ReasonPhrase::try_from(reason)
    {
        response.extensions_mut().insert(reason);
    }
    response
}

/// A length that holds for the whole body lets hyper write it in one go; one that does not is left to hyper's encoder, which
/// cuts what is too long and breaks the connection off after what is too short.
fn script_content(body: ResponseBody, length: Option<u64>) -> Content {
    match body {
        ResponseBody::Whole(bytes) => {
            let bytes = bytes.unwrap_or_default();
            match length {
                None => Content::Whole(bytes),
                Some(length) if length == bytes.len() as u64 => Content::Whole(bytes),
                Some(length) if length < bytes.len() as u64 => {
                    Content::Whole(bytes.slice(..usize::try_from(length).unwrap_or(bytes.len())))
                }
                Some(_) => Content::TooShort(Some(bytes)),
            }
        }
        ResponseBody::Stream(stream) => Content::Stream(stream, length),
    }
}

/// The length that a response says it has.
pub(super) fn announced_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Appends headers as lines, and the empty one behind them.
pub(super) fn put_lines(out: &mut impl BufMut, headers: &HeaderMap) {
    for (name, value) in headers {
        out.put_slice(name.as_str().as_bytes());
        out.put_slice(b": ");
        out.put_slice(value.as_bytes());
        out.put_slice(b"\r\n");
    }
    out.put_slice(b"\r\n");
}

/// The one valid `Content-Length` of a script; others are removed.
fn script_length(headers: &mut HeaderMap, status: StatusCode) -> Option<u64> {
    let mut values = headers.get_all(header::CONTENT_LENGTH).iter();
    let text = values.next()?.to_str().unwrap_or_default().trim();
    // `parse` takes a sign, which others in front of us may read as something else.
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    let length = text.parse::<u64>().ok().filter(|_| digits);
    let usable = length.is_some() && values.next().is_none() && !matches!(status.as_u16(), 204 | 205);
    if !usable {
        headers.remove(header::CONTENT_LENGTH);
        return None;
    }
    length
}

/// The response for an error, with the body of a page.
pub(super) fn paged(
    plain: http::Response<Content>,
    page: http::Response<Content>,
    method: &Method,
) -> http::Response<Content> {
    let (mut parts, _) = plain.into_parts();
    let (mut of_page, content) = page.into_parts();
    parts.headers.remove(header::CONTENT_LENGTH);
    for name in [
        header::CONTENT_TYPE,
        header::CONTENT_ENCODING,
        header::CONTENT_LANGUAGE,
        header::VARY,
    ] {
        if let Some(value) = of_page.headers.remove(&name) {
            parts.headers.insert(name, value);
        }
    }
    let content = match (method, content) {
        (&Method::HEAD, Content::Whole(bytes)) => {
            parts
                .headers
                .insert(header::CONTENT_LENGTH, HeaderValue::from(bytes.len()));
            Content::Empty
        }
        (&Method::HEAD, Content::Stream(stream, _)) => Content::Discarded(ResponseBody::Stream(stream)),
        (&Method::HEAD, _) => Content::Empty,
        // The length of a script's page is its own.
        (_, Content::Stream(stream, _)) => Content::Stream(stream, None),
        (_, content) => content,
    };
    http::Response::from_parts(parts, content)
}

/// Removes what speaks of a connection.
pub(super) fn drop_hop_by_hop(headers: &mut HeaderMap) {
    let any = headers.keys().any(is_hop_by_hop);
    if any {
        for name in HOP_BY_HOP {
            headers.remove(name);
        }
    }
}

fn is_hop_by_hop(name: &HeaderName) -> bool {
    let name = name.as_str();
    matches!(
        name.as_bytes().first(),
        Some(b'c' | b'k' | b'p' | b't' | b'u' | b'h')
    ) && HOP_BY_HOP.contains(&name)
}

fn is_stopping(refusal: &Refusal) -> bool {
    matches!(refusal, Refusal::Dispatch(DispatchError::Stopping))
}

/// Tells nothing but the status and the number to look for in the log.
fn page(status: StatusCode, id: RequestId) -> Bytes {
    page_saying(status, id, "")
}

fn page_saying(status: StatusCode, id: RequestId, why: &str) -> Bytes {
    let why = match why.replace('&', "&amp;").replace('<', "&lt;") {
        none if none.is_empty() => none,
        why => format!("<p>{why}</p>\n"),
    };
    let reason = status.canonical_reason().unwrap_or("Error");
    let code = status.as_u16();
    Bytes::from(format!(
        "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>{code} {reason}</title></head>\n<body>\n\
         <h1>{code} {reason}</h1>\n{why}<p>Request {id}</p>\n</body>\n</html>\n"
    ))
}

/// For the one who works on the code: PHP's message with file and line.
fn broken_page(why: &str) -> Bytes {
    let why = why.replace('&', "&amp;").replace('<', "&lt;");
    Bytes::from(format!(
        "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>The application does not boot</title>\n\
         <style>body{{font-family:sans-serif;margin:3em}}pre{{white-space:pre-wrap;padding:1em;background:#f4f4f4;\
         color:#222}}</style></head>\n<body>\n<h1>The application does not boot</h1>\n<pre>{why}</pre>\n\
         <p>Hearth is watching its files: save a change, and this page is tried again.</p>\n</body>\n</html>\n"
    ))
}

#[cfg(test)]
mod tests;
