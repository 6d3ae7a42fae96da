//! Answers a request from a file: GET and HEAD, validators, preconditions, ranges, type by name.
//!
//! The file is opened, examined and (when small) read in one blocking task. Which file, is decided by `route`. Called by `exchange`.
//! Runs in: server, on a reactor; files on tokio's blocking threads.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, Response, StatusCode, request};

use super::file_body::{self, FileBody, Piece};
use super::range::{self, Verdict, Version, Wanted};
use super::reply::{self, Refusal};
use super::reply_body::Content;

/// Between the parts of a response with several ranges. It need not be secret: the lengths are known.
const BOUNDARY: &str = "hearth-part-5b1f0c9e4d7a";
/// Methods a file answers.
const ALLOW: &str = "GET, HEAD";

/// The response for the file at `path`.
pub(super) async fn serve(head: &request::Parts, path: PathBuf) -> Result<Response<Content>, Refusal> {
    if head.method != Method::GET && head.method != Method::HEAD {
        return Err(Refusal::Method(ALLOW));
    }
    let kind = media_type(&path);
    let opened = tokio::task::spawn_blocking(move || open(&path)).await;
    let opened = opened
        .unwrap_or_else(|lost| Err(io::Error::other(lost)))
        .map_err(refusal)?;
    let Opened { file, small, version } = opened;
    match range::evaluate(&head.headers, &version) {
        Verdict::Failed => return Err(Refusal::Precondition),
        Verdict::NotModified => {
            let mut response = reply::empty(StatusCode::NOT_MODIFIED);
            put_version(response.headers_mut(), &version);
            return Ok(response);
        }
        Verdict::Send => {}
    }
    let wanted = range::wanted(&head.method, &head.headers, &version);
    let mut response = reply::empty(StatusCode::OK);
    let headers = response.headers_mut();
    put_version(headers, &version);
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(header::CONTENT_TYPE, kind.clone());
    let size = version.size;
    match wanted {
        Wanted::Nothing => return Err(Refusal::Range(size)),
        Wanted::Whole if head.method == Method::HEAD => {
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(size));
        }
        Wanted::Whole => {
            *response.body_mut() = match small {
                Some(bytes) => Content::Whole(bytes),
                None => Content::File(FileBody::new(file, [Piece::Part(0, size)])),
            };
        }
        Wanted::Parts(parts) => {
            put_parts(headers, &parts, size)?;
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            *response.body_mut() = Content::File(FileBody::new(file, pieces(&parts, size, &kind)));
        }
    }
    Ok(response)
}

struct Opened {
    file: File,
    small: Option<Bytes>,
    version: Version,
}

fn open(path: &Path) -> io::Result<Opened> {
    let file = File::open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::ErrorKind::NotFound.into());
    }
    let modified = range::whole_seconds(meta.modified()?);
    let seconds = modified
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    let size = meta.len();
    let version = Version {
        etag: format!("\"{seconds:x}-{size:x}\""),
        modified,
        size,
    };
    let small = if size <= file_body::CHUNK {
        Some(file_body::read(&file, 0, size)?)
    } else {
        None
    };
    Ok(Opened { file, small, version })
}

/// A file that vanished meanwhile or may not be read does not exist for the client.
fn refusal(error: io::Error) -> Refusal {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => Refusal::NotFound,
        _ => Refusal::File(error),
    }
}

fn put_version(headers: &mut HeaderMap, version: &Version) {
    if let Ok(etag) = HeaderValue::try_from(version.etag.as_str()) {
        headers.insert(header::ETAG, etag);
    }
    if let Ok(date) = HeaderValue::try_from(httpdate::fmt_http_date(version.modified)) {
        headers.insert(header::LAST_MODIFIED, date);
    }
}

fn put_parts(headers: &mut HeaderMap, parts: &[(u64, u64)], size: u64) -> Result<(), Refusal> {
    let value = |text: String| HeaderValue::try_from(text).map_err(|_| Refusal::Range(size));
    if let [(start, end)] = parts {
        headers.insert(
            header::CONTENT_RANGE,
            value(format!("bytes {start}-{}/{size}", end - 1))?,
        );
    } else {
        let kind = value(format!("multipart/byteranges; boundary={BOUNDARY}"))?;
        headers.insert(header::CONTENT_TYPE, kind);
    }
    Ok(())
}

fn pieces(parts: &[(u64, u64)], size: u64, kind: &HeaderValue) -> Vec<Piece> {
    if let [(start, end)] = parts {
        return vec![Piece::Part(*start, *end)];
    }
    let kind = kind.to_str().unwrap_or_default();
    let mut pieces = Vec::with_capacity(parts.len() * 2 + 1);
    for (start, end) in parts {
        let last = end - 1;
        pieces.push(Piece::Text(Bytes::from(format!(
            "\r\n--{BOUNDARY}\r\ncontent-type: {kind}\r\ncontent-range: bytes {start}-{last}/{size}\r\n\r\n"
        ))));
        pieces.push(Piece::Part(*start, *end));
    }
    pieces.push(Piece::Text(Bytes::from(format!("\r\n--{BOUNDARY}--\r\n"))));
    pieces
}

/// By the extension; text is taken for UTF-8.
fn media_type(path: &Path) -> HeaderValue {
    match mime_guess::from_path(path).first_raw() {
        None => HeaderValue::from_static("application/octet-stream"),
        Some(kind) if kind.starts_with("text/") => {
            HeaderValue::try_from(format!("{kind}; charset=utf-8")).unwrap_or(HeaderValue::from_static(kind))
        }
        Some(kind) => HeaderValue::from_static(kind),
    }
}
