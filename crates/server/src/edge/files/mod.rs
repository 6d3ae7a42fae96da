//! Answers a request from a file: GET and HEAD, validators, preconditions, ranges, and in the coding that the client likes.
//!
//! Which file, is decided by `site::route` or by a script. A file may be sent in three forms, each with an `ETag` of its own: as it is; as
//! the compressed file beside it, which has its own ranges; or compressed here, which has none. `shelf` knows files and keeps
//! small ones, `range` reads what is asked of them, `body` reads them as they are sent, or `sendfile` has the kernel send them; `accel` is
//! for files that scripts name. Called by `exchange`. Runs in: server, on a reactor.

pub(super) mod accel;
pub(super) mod body;
mod range;
pub(super) mod sendfile;
pub(super) mod shelf;

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, Response, StatusCode};

use self::body::{FileBody, Piece};
use self::range::{Verdict, Wanted};
use self::sendfile::Outbox;
use self::shelf::{Files, Kept, Siblings};
use super::packing::Packer;
use super::packing::coding::{self, Accepted};
use super::reply::body::Content;
use super::reply::{self, Refusal};
use super::site::route::say_denied;
use crate::config::{Coding, Compression};
use crate::dispatch::held;
use crate::rights::Rights;

/// Between the parts of a response with several ranges. It need not be secret: the lengths are known.
const BOUNDARY: &str = "hearth-part-5b1f0c9e4d7a";
/// Methods a file answers.
const ALLOW: &str = "GET, HEAD";
/// How often a file is looked at that becomes another one meanwhile.
const LOOKS: usize = 10;

/// What is asked of a file.
pub(super) struct Asked<'a> {
    pub(super) method: &'a Method,
    pub(super) headers: &'a HeaderMap,
    pub(super) files: &'a Files,
    /// Whose rights it is read with.
    pub(super) rights: &'a Rights,
    pub(super) compression: &'a Compression,
    /// Whether it may be compressed here.
    pub(super) packing: bool,
    /// Whether a compressed file beside it may be sent for it.
    pub(super) siblings: bool,
    /// Of the connection, if the kernel can send files over it.
    pub(super) outbox: Option<&'a Arc<Outbox>>,
    /// Whether PHP source may be sent: where a script has chosen the file.
    pub(super) source: bool,
    /// `Content-Type`, if somebody knows better than the name tells.
    pub(super) kind: Option<HeaderValue>,
}

/// The response for the file at `path`.
pub(super) async fn serve(asked: &Asked<'_>, path: PathBuf) -> Result<Response<Content>, Refusal> {
    if *asked.method != Method::GET && *asked.method != Method::HEAD {
        return Err(Refusal::Method(ALLOW));
    }
    let mut looks = 1;
    loop {
        match look(asked, &path).await {
            Err(error) if has_changed(&error) && looks < LOOKS => looks += 1,
            Err(Refusal::File(error)) => {
                let text = format!("{}: {error}", path.display());
                return Err(Refusal::File(io::Error::new(error.kind(), text)));
            }
            result => return result,
        }
    }
}

/// The response for the file that is at `path` now.
async fn look(asked: &Asked<'_>, path: &Path) -> Result<Response<Content>, Refusal> {
    let kept = asked.files.get(path, asked.rights).await;
    let kept = kept.map_err(|error| refusal(error, path))?;
    if kept.is_source && !asked.source {
        return Err(Refusal::NotFound);
    }
    let (form, varies) = form(asked, kept, path).await;
    let mut response = represent(asked, &form)?;
    if varies {
        coding::put_vary(response.headers_mut());
    }
    Ok(response)
}

/// Whether the file was written, or another one put in its place, between two looks at it, as when an application is deployed.
fn has_changed(refusal: &Refusal) -> bool {
    let kinds = [shelf::CHANGED, io::ErrorKind::UnexpectedEof];
    matches!(refusal, Refusal::File(error) if kinds.contains(&error.kind()))
}

/// How the file is sent.
struct Form<'a> {
    kept: Arc<Kept>,
    path: Cow<'a, Path>,
    kind: HeaderValue,
    /// What its bytes are, coded by whomever.
    coding: Option<Coding>,
    here: Option<Here>,
}

/// Compressed here.
enum Here {
    /// All of it.
    Whole(Bytes),
    /// On its way.
    OnItsWay,
}

/// Which form this client gets, and whether another one may get another.
async fn form<'a>(asked: &Asked<'_>, kept: Arc<Kept>, path: &'a Path) -> (Form<'a>, bool) {
    let settings = asked.compression;
    let kind = asked.kind.clone().unwrap_or_else(|| kept.kind.clone());
    let packable = asked.packing
        && !settings.algorithms.is_empty()
        && kept.version.size >= settings.min_size.0
        && coding::is_packable(Some(&kind), settings);
    let siblings = if settings.precompressed && asked.siblings {
        asked.files.siblings(path, &kept).await
    } else {
        Siblings::default()
    };
    let varies = packable || !siblings.is_empty();
    let plain = |kept, path| Form {
        kept,
        path,
        kind: kind.clone(),
        coding: None,
        here: None,
    };
    if !varies || !asked.headers.contains_key(header::ACCEPT_ENCODING) {
        return (plain(kept, Cow::Borrowed(path)), varies);
    }
    let accepted = Accepted::of(asked.headers);
    let taken = siblings.iter().filter(|(coding, ..)| accepted.takes(*coding));
    // What the client likes best; of equals the smallest.
    let best = taken.max_by_key(|(coding, sibling, _)| {
        (accepted.weight(*coding), std::cmp::Reverse(sibling.version.size))
    });
    if let Some((coding, sibling, beside)) = best {
        let mut form = plain(Arc::clone(sibling), Cow::Owned(beside.clone()));
        form.coding = Some(*coding);
        return (form, true);
    }
    // A part of what is compressed here could not be told from a part of something else.
    let partial = asked.headers.contains_key(header::RANGE);
    let coding = (packable && !partial)
        .then(|| accepted.best(&settings.algorithms))
        .flatten();
    let here = match coding {
        None => None,
        Some(coding) => match asked.files.packed((path, &kept), coding, settings).await {
            Some(bytes) => Some(Here::Whole(bytes)),
            // An encoder has more memory than a response is held to where that is scarce.
            None if kept.small.is_none() && !held::is_scarce() => Some(Here::OnItsWay),
            None => None,
        },
    };
    let mut form = plain(kept, Cow::Borrowed(path));
    form.coding = coding.filter(|_| here.is_some());
    form.here = here;
    (form, true)
}

/// The file in this form, or the part of it that is wanted.
fn represent(asked: &Asked<'_>, form: &Form<'_>) -> Result<Response<Content>, Refusal> {
    let version = &form.kept.version;
    match range::evaluate(asked.headers, version) {
        Verdict::Failed => return Err(Refusal::Precondition),
        Verdict::NotModified => {
            let mut response = reply::empty(StatusCode::NOT_MODIFIED);
            put_version(response.headers_mut(), form);
            return Ok(response);
        }
        Verdict::Send => {}
    }
    let mut response = reply::empty(StatusCode::OK);
    let headers = response.headers_mut();
    put_version(headers, form);
    headers.insert(header::CONTENT_TYPE, form.kind.clone());
    if let Some(coding) = form.coding {
        headers.insert(header::CONTENT_ENCODING, coding::name(coding));
    }
    if let Some(here) = &form.here {
        *response.body_mut() = packed(asked, form, here)?;
        return Ok(headed(asked.method, response));
    }
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    let size = version.size;
    match range::wanted(asked.method, asked.headers, version) {
        Wanted::Nothing => return Err(Refusal::Range(size)),
        Wanted::Whole => *response.body_mut() = whole(asked, form)?,
        Wanted::Parts(parts) => {
            put_parts(headers, &parts, size)?;
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            let file = open(form)?;
            let body = FileBody::new(file, pieces(&parts, size, &form.kind));
            *response.body_mut() = Content::File(body.by_kernel(asked.outbox));
        }
    }
    if *asked.method == Method::HEAD {
        response
            .headers_mut()
            .insert(header::CONTENT_LENGTH, HeaderValue::from(size));
    }
    Ok(response)
}

fn whole(asked: &Asked<'_>, form: &Form<'_>) -> Result<Content, Refusal> {
    if *asked.method == Method::HEAD {
        return Ok(Content::Empty);
    }
    if let Some(bytes) = &form.kept.small {
        return Ok(Content::Whole(bytes.clone()));
    }
    let file = open(form)?;
    let all = Piece::Part(0, form.kept.version.size);
    Ok(Content::File(FileBody::new(file, [all]).by_kernel(asked.outbox)))
}

fn packed(asked: &Asked<'_>, form: &Form<'_>, here: &Here) -> Result<Content, Refusal> {
    if let Here::Whole(bytes) = here {
        return Ok(Content::Whole(bytes.clone()));
    }
    let out_of_memory = || Refusal::File(io::ErrorKind::OutOfMemory.into());
    let file = open(form)?;
    let body = FileBody::new(file, [Piece::Part(0, form.kept.version.size)]);
    let coding = form.coding.ok_or_else(out_of_memory)?;
    let packer = Packer::of_file(body, coding, asked.compression);
    Ok(Content::Packed(Box::new(packer.ok_or_else(out_of_memory)?)))
}

/// To HEAD the same without its body.
fn headed(method: &Method, mut response: Response<Content>) -> Response<Content> {
    if *method == Method::HEAD {
        let content = std::mem::replace(response.body_mut(), Content::Empty);
        if let Content::Whole(bytes) = content {
            let length = HeaderValue::from(bytes.len());
            response.headers_mut().insert(header::CONTENT_LENGTH, length);
        }
    }
    response
}

fn open(form: &Form<'_>) -> Result<File, Refusal> {
    form.kept
        .open(&form.path)
        .map_err(|error| refusal(error, &form.path))
}

/// A file that vanished meanwhile or may not be read does not exist for the client.
fn refusal(error: io::Error, path: &Path) -> Refusal {
    match error.kind() {
        io::ErrorKind::NotFound => Refusal::NotFound,
        io::ErrorKind::PermissionDenied => {
            say_denied(path, &error);
            Refusal::NotFound
        }
        _ => Refusal::File(error),
    }
}

fn put_version(headers: &mut HeaderMap, form: &Form<'_>) {
    headers.insert(header::ETAG, form.kept.etag.clone());
    headers.insert(header::LAST_MODIFIED, form.kept.last_modified.clone());
    if form.here.is_some() {
        coding::weaken(headers);
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
