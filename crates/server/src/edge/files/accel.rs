//! Files that a script has sent for it: `X-Accel-Redirect` as for nginx, `X-Sendfile` as for Apache.
//!
//! Only from the folders of `[pool.web.internal]`. The script's own headers stay, but for those that speak of its body. None of
//! these headers gets to the client; a trusted proxy in front may be the one they are meant for. Called by `exchange`. Runs in: server, on a reactor.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use tracing::warn;

use crate::dispatch;
use crate::edge::files;
use crate::edge::record::Record;
use crate::edge::reply::body::Content;
use crate::edge::reply::{self, Refusal};
use crate::edge::site::route;
use crate::rights::Rights;

const REDIRECT: &str = "x-accel-redirect";
const SENDFILE: &str = "x-sendfile";
/// What else scripts say to nginx.
const OTHERS: [&str; 4] = [
    "x-accel-buffering",
    "x-accel-charset",
    "x-accel-expires",
    "x-accel-limit-rate",
];
/// Headers of a script that spoke of a body which is not sent.
const OF_ITS_BODY: [HeaderName; 7] = [
    header::CONTENT_LENGTH,
    header::CONTENT_RANGE,
    header::ACCEPT_RANGES,
    header::TRANSFER_ENCODING,
    header::ETAG,
    header::LAST_MODIFIED,
    header::CONNECTION,
];

/// A file that a script wants to have sent.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::edge) enum Wanted {
    /// This one.
    File(PathBuf),
    /// One that it may not; as it was named.
    Nothing(String),
}

/// Takes the headers out, and says what they ask for. What is not for us is left to a trusted proxy, if it is one that asks.
pub(in crate::edge) fn take(
    headers: &mut HeaderMap,
    (internal, rights): (&[(String, PathBuf)], &Rights),
    to_proxy: bool,
) -> Option<Wanted> {
    if !headers.keys().any(is_ours) || to_proxy && internal.is_empty() {
        return None;
    }
    let (redirect, sendfile) = (headers.remove(REDIRECT), headers.remove(SENDFILE));
    for name in OTHERS.iter().filter(|_| !to_proxy) {
        headers.remove(*name);
    }
    let (named, file) = match (redirect, sendfile) {
        (Some(uri), _) => {
            let file = by_uri(&uri, internal);
            (uri, file)
        }
        (None, Some(path)) => {
            let file = by_path(&path, (internal, rights));
            (path, file)
        }
        (None, None) => return None,
    };
    let nothing = || Wanted::Nothing(String::from_utf8_lossy(named.as_bytes()).into_owned());
    Some(file.map_or_else(nothing, Wanted::File))
}

fn is_ours(name: &HeaderName) -> bool {
    let name = name.as_str();
    name.starts_with("x-accel-") || name == SENDFILE
}

/// The file of a path of a URL: encoded, maybe with a query, which says nothing.
fn by_uri(uri: &HeaderValue, internal: &[(String, PathBuf)]) -> Option<PathBuf> {
    let path = uri.to_str().ok()?.split('?').next()?;
    let path = route::decode(path).ok()?;
    let (prefix, folder) = internal
        .iter()
        .find(|(prefix, _)| path.starts_with(prefix.as_bytes()))?;
    let rest = path.get(prefix.len()..)?;
    Some(folder.join(OsStr::from_bytes(rest)))
}

/// The file of an absolute path, if it lies in one of the folders; links are followed before that is looked at.
fn by_path(path: &HeaderValue, (internal, rights): (&[(String, PathBuf)], &Rights)) -> Option<PathBuf> {
    rights.assume().ok()?;
    let path = Path::new(OsStr::from_bytes(path.as_bytes()));
    let file = path.is_absolute().then(|| path.canonicalize().ok()).flatten()?;
    let mut folders = internal
        .iter()
        .filter_map(|(_, folder)| folder.canonicalize().ok());
    folders.any(|folder| file.starts_with(folder)).then_some(file)
}

/// Sends the file that a script has named, with what the script has said of it.
pub(in crate::edge) async fn send(
    (wanted, response): (Wanted, dispatch::Response),
    mut asked: files::Asked<'_>,
    record: &Record,
) -> Result<http::Response<Content>, Refusal> {
    record.discard(response.body);
    let path = match wanted {
        Wanted::File(path) => path,
        Wanted::Nothing(name) => {
            warn!(id = %record.id, name, "script named a file that lies in no folder of pool.*.internal");
            return Err(Refusal::NotFound);
        }
    };
    // As nginx does: the file is got, however the script was asked.
    if *asked.method != Method::HEAD {
        asked.method = &Method::GET;
    }
    let mut script = response.headers;
    reply::drop_hop_by_hop(&mut script);
    // An empty type is what a script says that does not know: it cannot have PHP say nothing.
    if script
        .get(header::CONTENT_TYPE)
        .is_some_and(HeaderValue::is_empty)
    {
        script.remove(header::CONTENT_TYPE);
    }
    asked.kind = script.get(header::CONTENT_TYPE).cloned();
    asked.source = true;
    if script.contains_key(header::CONTENT_ENCODING) {
        (asked.packing, asked.siblings) = (false, false);
    }
    let shown = path.display().to_string();
    let served = files::serve(&asked, path).await;
    if matches!(served, Err(Refusal::NotFound)) {
        warn!(id = %record.id, path = shown, "script named a file that cannot be read");
    }
    let mut response = served?;
    merge(script, &mut response);
    Ok(response)
}

/// Puts what a script has said on the response that was made of its file.
fn merge(mut script: HeaderMap, response: &mut http::Response<impl Sized>) {
    for name in OF_ITS_BODY {
        script.remove(name);
    }
    let whole = response.status() == StatusCode::OK;
    let parts = response.headers().get(header::CONTENT_TYPE);
    let in_parts = parts.is_some_and(|kind| kind.as_bytes().starts_with(b"multipart/byteranges"));
    if in_parts || !(whole || response.status() == StatusCode::PARTIAL_CONTENT) {
        script.remove(header::CONTENT_TYPE);
    }
    let mut last = None;
    for (name, value) in script {
        let Some(name) = name.or_else(|| last.clone()) else {
            continue;
        };
        // `Vary` adds up; of all others the script's word counts.
        if last.as_ref() == Some(&name) || name == header::VARY {
            response.headers_mut().append(name.clone(), value);
        } else {
            response.headers_mut().insert(name.clone(), value);
        }
        last = Some(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, HeaderValue::from_static(value));
        }
        map
    }

    #[test]
    fn a_uri_stands_for_a_file_below_its_folder() {
        let internal = [
            ("/protected/deep/".to_owned(), PathBuf::from("/deep")),
            ("/protected/".to_owned(), PathBuf::from("/files")),
        ];
        let file = |path: &str| Wanted::File(PathBuf::from(path));
        let nothing = |uri: &str| Wanted::Nothing(uri.to_owned());
        for (uri, expected) in [
            ("/protected/a.txt", file("/files/a.txt")),
            ("/protected/a%20b.txt?x", file("/files/a b.txt")),
            ("/protected/deep/a", file("/deep/a")),
            ("/protected/x/../a", file("/files/a")),
            ("/protected/../a", nothing("/protected/../a")),
            ("/protected/%2e%2e/a", nothing("/protected/%2e%2e/a")),
            (
                "/protected/%2e%2e/%2e%2e/a",
                nothing("/protected/%2e%2e/%2e%2e/a"),
            ),
            ("/protected", nothing("/protected")),
            ("/other/a", nothing("/other/a")),
            ("/protected/a%00b", nothing("/protected/a%00b")),
        ] {
            let mut given = HeaderMap::new();
            given.insert(REDIRECT, HeaderValue::from_static(uri));
            given.insert("x-accel-buffering", HeaderValue::from_static("no"));
            assert_eq!(
                take(&mut given, (&internal, &Rights::Server), false),
                Some(expected),
                "{uri}"
            );
            assert!(given.is_empty());
        }
        assert_eq!(
            take(
                &mut headers(&[("x-powered-by", "PHP")]),
                (&internal, &Rights::Server),
                false
            ),
            None
        );
        let mut buffering = headers(&[("x-accel-buffering", "no"), ("x-a", "b")]);
        assert_eq!(take(&mut buffering, (&internal, &Rights::Server), false), None);
        assert_eq!(buffering.len(), 1);
        let path = HeaderValue::from_static("/protected/a.txt");
        assert_eq!(by_uri(&path, &[]), None);
    }

    #[test]
    fn a_proxy_gets_what_is_meant_for_it() {
        let said = || headers(&[("x-accel-redirect", "/p/a"), ("x-accel-buffering", "no")]);
        let mut all = said();
        assert_eq!(take(&mut all, (&[], &Rights::Server), true), None);
        assert_eq!(all, said());
        let internal = [("/p/".to_owned(), PathBuf::from("/files"))];
        let mut rest = said();
        assert_eq!(
            take(&mut rest, (&internal, &Rights::Server), true),
            Some(Wanted::File("/files/a".into()))
        );
        assert_eq!(rest, headers(&[("x-accel-buffering", "no")]));
    }

    #[test]
    fn a_path_must_lead_into_a_folder() {
        let dir = std::env::temp_dir().join(format!("hearth-accel-{}", std::process::id()));
        let inside = dir.join("inside");
        std::fs::create_dir_all(&inside).unwrap();
        std::fs::write(inside.join("a"), "").unwrap();
        std::fs::write(dir.join("secret"), "").unwrap();
        std::os::unix::fs::symlink(dir.join("secret"), inside.join("link")).unwrap();
        let internal = [("/x/".to_owned(), inside.clone())];
        let found = |path: &Path| {
            let value = HeaderValue::from_bytes(path.as_os_str().as_bytes()).unwrap();
            by_path(&value, (&internal, &Rights::Server)).is_some()
        };
        assert!(found(&inside.join("a")));
        assert!(found(&inside.join("../inside/a")));
        for outside in ["secret", "inside/../secret", "inside/link", "inside/none"] {
            assert!(!found(&dir.join(outside)), "{outside}");
        }
        assert!(!found(Path::new("inside/a")));
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn what_the_script_has_said_stays() {
        let script = headers(&[
            ("content-type", "text/x-own"),
            ("content-length", "0"),
            ("etag", "\"script\""),
            ("set-cookie", "a=1"),
            ("set-cookie", "b=2"),
            ("cache-control", "private"),
            ("vary", "Cookie"),
        ]);
        let mut response = http::Response::new(());
        *response.headers_mut() = headers(&[
            ("content-type", "text/plain"),
            ("etag", "\"file\""),
            ("vary", "Accept-Encoding"),
        ]);
        merge(script.clone(), &mut response);
        let all = |name: &str| -> Vec<String> {
            let values = response.headers().get_all(name).iter();
            values.map(|value| value.to_str().unwrap().to_owned()).collect()
        };
        assert_eq!(all("content-type"), ["text/x-own"]);
        assert_eq!(all("etag"), ["\"file\""]);
        assert_eq!(all("set-cookie"), ["a=1", "b=2"]);
        assert_eq!(all("vary"), ["Accept-Encoding", "Cookie"]);
        assert!(all("content-length").is_empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        *response.headers_mut() = HeaderMap::new();
        merge(script, &mut response);
        assert!(!response.headers().contains_key("content-type"));
    }
}
