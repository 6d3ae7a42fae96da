//! Which file or script answers a path? The rules of a usual nginx site in front of php-fpm.
//!
//! Classic: `try_files $uri $uri/ FRONT`, `*.php` with `PATH_INFO`, index files. Resident: an existing file is served, everything else
//! goes to the application. A path that `private` knows names no file, so it is never sent; what `htaccess` closes is refused, or the
//! application's. Symbolic links are followed as far as the user of the pool may follow them, as nginx does with its own
//! user. Depends on the configuration, the path and [`Lookup`] alone. Called by `exchange`. Runs in: server, on a reactor.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::StatusCode;
use tokio::time::Instant;
use tracing::{debug, warn};

use super::htaccess::{Access, Folders};
use super::private;
use crate::config::{Mode, Pool, Rule};
use crate::dispatch::seldom::Seldom;
use crate::edge::reply::Refusal;
use crate::edge::reply::error_pages::Pages;
use crate::rights::Rights;

/// How long a path may be taken to name no file although one was put there meanwhile. Saves a `stat` for each further request to
/// the same path of a resident application.
const MISS_TTL: Duration = Duration::from_secs(1);
/// Said of a file that is there, for others.
const DENIED: &str = "file not sent: the user of its pool may not read it";
/// Paths remembered to name no file.
const MISSES: usize = 1024;

/// What answers a path.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::edge) enum Route<'a> {
    /// A file below the document root.
    File(PathBuf),
    /// PHP.
    Script(Script<'a>),
    /// The path names a folder; a `/` is missing. The encoded path, with it; it starts with exactly one, so that it names no other
    /// host.
    AddSlash(String),
}

/// A script and how the path named it.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::edge) struct Script<'a> {
    /// `SCRIPT_FILENAME`
    pub(in crate::edge) filename: Cow<'a, [u8]>,
    /// `SCRIPT_NAME`
    pub(in crate::edge) name: Cow<'a, [u8]>,
    /// `PATH_INFO`
    pub(in crate::edge) info: Cow<'a, [u8]>,
}

/// Number of the next router.
static ROUTERS: AtomicU64 = AtomicU64::new(1);

/// The configuration, as far as paths are concerned.
#[derive(Debug)]
pub(in crate::edge) struct Router {
    number: u64,
    /// Name of its pool.
    pool: Arc<str>,
    mode: Mode,
    root: PathBuf,
    front: Option<Front>,
    /// The document root is the folder of the project itself.
    is_project: bool,
    /// Folders are closed by `.htaccess`.
    htaccess: bool,
    rules: Vec<Rule>,
    rights: Rights,
    /// See [`Pool::internal`].
    internal: Vec<(String, PathBuf)>,
    pages: Pages,
    /// Whoever asks is told why nothing answers.
    dev: bool,
    no_index_told: AtomicBool,
}

#[derive(Debug)]
struct Front {
    filename: Vec<u8>,
    name: Vec<u8>,
}

impl Router {
    /// `pages` stand for its errors.
    pub(in crate::edge) fn new(pool: &Pool, pages: Pages) -> Self {
        let root = pool.root.clone();
        let below = |script: &Path| {
            let relative = script.strip_prefix(&root).ok()?;
            let name = [b"/", relative.as_os_str().as_bytes()].concat();
            Some(Front {
                filename: script.as_os_str().as_bytes().to_vec(),
                name,
            })
        };
        let front = match (pool.mode, &pool.script) {
            (Mode::Classic, None) => None,
            (Mode::Classic, Some(script)) => below(script),
            // A worker script outside of the document root stands for the index.php that the site would have.
            (Mode::Resident, script) => script.as_deref().and_then(below).or_else(|| {
                let filename = root.join("index.php").into_os_string().into_encoded_bytes();
                Some(Front {
                    filename,
                    name: b"/index.php".to_vec(),
                })
            }),
        };
        Self {
            // Relaxed: a number, no more.
            number: ROUTERS.fetch_add(1, Ordering::Relaxed),
            pool: pool.name.as_str().into(),
            mode: pool.mode,
            is_project: root == pool.dir,
            htaccess: pool.htaccess,
            root,
            front,
            rules: pool.rules.clone(),
            rights: pool.rights.clone(),
            internal: pool.internal.clone(),
            pages,
            dev: pool.dev,
            no_index_told: AtomicBool::new(false),
        }
    }

    /// Name of its pool.
    pub(in crate::edge) fn pool(&self) -> &Arc<str> {
        &self.pool
    }

    /// How its pool runs PHP.
    pub(in crate::edge) fn mode(&self) -> Mode {
        self.mode
    }

    pub(in crate::edge) fn rules(&self) -> &[Rule] {
        &self.rules
    }

    pub(in crate::edge) fn pages(&self) -> &Pages {
        &self.pages
    }

    pub(in crate::edge) fn internal(&self) -> &[(String, PathBuf)] {
        &self.internal
    }

    /// Whose rights its files are read with.
    pub(in crate::edge) fn rights(&self) -> &Rights {
        &self.rights
    }

    /// Whether `path`, decoded, names a file or a folder.
    pub(in crate::edge) fn exists(&self, path: &[u8]) -> bool {
        matches!(self.find(&self.full(path)), Found::File | Found::Folder)
    }

    /// What is at a path, as the user of the pool sees it.
    pub(in crate::edge) fn find(&self, full: &Path) -> Found {
        match self.rights.assume().and_then(|()| std::fs::metadata(full)) {
            Ok(meta) if meta.is_file() => Found::File,
            Ok(meta) if meta.is_dir() => Found::Folder,
            Ok(_) => Found::Other,
            Err(error) => {
                if error.kind() == io::ErrorKind::PermissionDenied {
                    say_denied(full, &error);
                }
                Found::Nothing
            }
        }
    }

    /// `DOCUMENT_ROOT`
    pub(in crate::edge) fn root(&self) -> &[u8] {
        self.root.as_os_str().as_bytes()
    }

    /// What answers `path`, decoded by [`decode`].
    pub(in crate::edge) fn route<'a>(
        &'a self,
        path: &'a [u8],
        files: &Lookup,
        now: Instant,
    ) -> Result<Route<'a>, Refusal> {
        match self.mode {
            Mode::Classic => self.classic(path, files, now),
            Mode::Resident => Ok(self.resident(path, files, now)),
        }
    }

    fn resident<'a>(&'a self, path: &'a [u8], files: &Lookup, now: Instant) -> Route<'a> {
        let nameable = !path.ends_with(b"/") && !private::is_private(path, self.is_project);
        let find = || self.find(&self.full(path));
        if nameable && files.find_remembering(self.number, (path, now), find) == Found::File {
            let full = self.full(path);
            if self.access(&full, files, now) != Access::Closed {
                return Route::File(full);
            }
        }
        // Never absent in this mode; see `new`.
        let (filename, name) = self
            .front
            .as_ref()
            .map_or((&b""[..], &b""[..]), |f| (&f.filename, &f.name));
        let info = path
            .strip_prefix(name)
            .filter(|rest| rest.starts_with(b"/"))
            .unwrap_or_default();
        Route::Script(Script {
            filename: Cow::Borrowed(filename),
            name: Cow::Borrowed(name),
            info: Cow::Borrowed(info),
        })
    }

    fn classic<'a>(&'a self, path: &'a [u8], files: &Lookup, now: Instant) -> Result<Route<'a>, Refusal> {
        let named = split_script(path);
        let full = self.full(named.map_or(path, |(name, _)| name));
        let access = self.access(&full, files, now);
        if access == Access::Closed {
            return Err(Refusal::Denied(StatusCode::FORBIDDEN));
        }
        if let Some((name, info)) = named {
            if private::is_closed_to_scripts(name, self.is_project) || self.find(&full) != Found::File {
                return Err(Refusal::NotFound);
            }
            return script(access, (full, Cow::Borrowed(name)), info);
        }
        if private::is_private(path, self.is_project) {
            return self.front(Refusal::NotFound);
        }
        match self.find(&full) {
            Found::File => Ok(Route::File(full)),
            Found::Folder => self.folder(path, &full, (files, now)),
            Found::Other | Found::Nothing => self.front(Refusal::NotFound),
        }
    }

    fn folder<'a>(
        &'a self,
        path: &'a [u8],
        folder: &Path,
        (files, now): (&Lookup, Instant),
    ) -> Result<Route<'a>, Refusal> {
        let php = folder.join("index.php");
        let access = self.access(&php, files, now);
        if access == Access::Closed {
            return Err(Refusal::Denied(StatusCode::FORBIDDEN));
        }
        if !path.ends_with(b"/") {
            return Ok(Route::AddSlash(encode(path) + "/"));
        }
        if self.find(&php) == Found::File {
            let name = [path, b"index.php"].concat();
            return script(access, (php, Cow::Owned(name)), b"");
        }
        let html = folder.join("index.html");
        if self.find(&html) == Found::File && self.access(&html, files, now) != Access::Closed {
            return Ok(Route::File(html));
        }
        if path == b"/" && self.front.is_none() {
            return Err(self.no_index());
        }
        self.front(Refusal::NotFound)
    }

    /// Nothing answers `/`, which is logged once.
    fn no_index(&self) -> Refusal {
        let why = format!(
            "there is no index.php or index.html in {}, and `script` names no front controller",
            self.root.display()
        );
        // Relaxed: a flag of its own.
        if !self.no_index_told.swap(true, Ordering::Relaxed) {
            warn!(pool = &*self.pool, why, "nothing answers /");
        }
        Refusal::NoIndex(self.dev.then_some(why))
    }

    /// What `.htaccess` files say of what is at `full`.
    fn access(&self, full: &Path, files: &Lookup, now: Instant) -> Access {
        if !self.htaccess {
            Access::Open
        } else if self.rights.assume().is_err() {
            Access::Closed
        } else {
            let full = full.as_os_str().as_bytes();
            files.folders.access(full, self.root().len(), &self.rights, now)
        }
    }

    fn front(&self, otherwise: Refusal) -> Result<Route<'_>, Refusal> {
        let front = self.front.as_ref().ok_or(otherwise)?;
        Ok(Route::Script(Script {
            filename: Cow::Borrowed(&front.filename),
            name: Cow::Borrowed(&front.name),
            info: Cow::Borrowed(b""),
        }))
    }

    fn full(&self, path: &[u8]) -> PathBuf {
        let mut full = Vec::with_capacity(self.root().len() + path.len());
        full.extend_from_slice(self.root());
        full.extend_from_slice(path);
        PathBuf::from(OsString::from_vec(full))
    }
}

/// The script at a path that is named so, if it may run.
fn script<'a>(
    access: Access,
    (full, name): (PathBuf, Cow<'a, [u8]>),
    info: &'a [u8],
) -> Result<Route<'a>, Refusal> {
    if access == Access::NoScripts {
        return Err(Refusal::Denied(StatusCode::FORBIDDEN));
    }
    Ok(Route::Script(Script {
        filename: Cow::Owned(full.into_os_string().into_encoded_bytes()),
        name,
        info: Cow::Borrowed(info),
    }))
}

/// Says that a file may not be read, once in a while: clients may ask for it as often as they like.
pub(in crate::edge) fn say_denied(path: &Path, error: &io::Error) {
    static DENIALS: Seldom = Seldom::new();
    let path = path.display();
    if let Some(times) = DENIALS.add(std::time::Instant::now()) {
        warn!(%path, %error, times, "{DENIED}");
    } else {
        debug!(%path, %error, "{DENIED}");
    }
}

/// What a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::edge) enum Found {
    File,
    Folder,
    /// A pipe, a socket, a device.
    Other,
    Nothing,
}

/// Asks the file system, and remembers for a moment what is not there. One a reactor.
#[derive(Debug, Default)]
pub(in crate::edge) struct Lookup {
    misses: Mutex<Misses>,
    folders: Folders,
}

#[derive(Debug, Default)]
struct Misses {
    /// Number of the router that did not find them: another one has another root, or newer files.
    router: u64,
    until: HashMap<Box<[u8]>, Instant>,
}

impl Misses {
    fn of(&mut self, router: u64) -> &mut HashMap<Box<[u8]>, Instant> {
        if self.router != router {
            self.router = router;
            self.until.clear();
        }
        &mut self.until
    }
}

impl Lookup {
    fn find_remembering(
        &self,
        router: u64,
        (path, now): (&[u8], Instant),
        find: impl FnOnce() -> Found,
    ) -> Found {
        let mut misses = self.misses.lock().unwrap_or_else(PoisonError::into_inner);
        let misses = misses.of(router);
        if misses.get(path).is_some_and(|until| now < *until) {
            return Found::Nothing;
        }
        let found = find();
        if found == Found::File {
            misses.remove(path);
        } else {
            if misses.len() >= MISSES {
                misses.clear();
            }
            misses.insert(path.into(), now + MISS_TTL);
        }
        found
    }
}

/// The path that a target means, as nginx reads it: decoded once, slashes merged, `.` and `..` resolved. 400 for what is no
/// encoding, for NUL, and for a path above the root.
pub(in crate::edge) fn decode(raw: &str) -> Result<Cow<'_, [u8]>, Refusal> {
    let bytes = raw.as_bytes();
    if bytes.is_empty() {
        return Ok(Cow::Borrowed(b"/"));
    }
    let plain = !bytes.contains(&b'%') && !bytes.windows(2).any(|pair| matches!(pair, [b'/', b'/' | b'.']));
    if plain {
        return Ok(Cow::Borrowed(bytes));
    }
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        if first != b'%' {
            decoded.push(first);
            continue;
        }
        let (Some(high), Some(low)) = (
            tail.first().copied().and_then(hex),
            tail.get(1).copied().and_then(hex),
        ) else {
            return Err(Refusal::BadRequest("encoding of the path"));
        };
        decoded.push(high * 16 + low);
        rest = tail.get(2..).unwrap_or_default();
    }
    if decoded.contains(&0) {
        return Err(Refusal::BadRequest("NUL in the path"));
    }
    resolve(&decoded).map(Cow::Owned)
}

/// `.` and `..` resolved, slashes merged.
pub(super) fn resolve(path: &[u8]) -> Result<Vec<u8>, Refusal> {
    let mut out: Vec<u8> = Vec::with_capacity(path.len());
    let mut segments = path.split(|&b| b == b'/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            b"" | b"." => {}
            b".." => {
                let parent = out.iter().rposition(|&b| b == b'/');
                out.truncate(parent.ok_or(Refusal::BadRequest("path above the root"))?);
            }
            name => {
                out.push(b'/');
                out.extend_from_slice(name);
                continue;
            }
        }
        if last {
            out.push(b'/');
        }
    }
    if out.is_empty() {
        out.push(b'/');
    }
    Ok(out)
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|d| u8::try_from(d).ok())
}

/// `path`, encoded for a `Location`.
pub(super) fn encode(path: &[u8]) -> String {
    let mut out = String::with_capacity(path.len() + 1);
    for &b in path {
        if b.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@".contains(&b) {
            out.push(char::from(b));
        } else {
            out.push('%');
            for nibble in [b >> 4, b & 15] {
                out.push(
                    char::from_digit(u32::from(nibble), 16)
                        .unwrap_or('0')
                        .to_ascii_uppercase(),
                );
            }
        }
    }
    out
}

/// `^(.+?\.php)(/.*)?$`
pub(super) fn split_script(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut from = 0;
    loop {
        let at = path.get(from..)?.windows(4).position(|w| w == b".php")? + from;
        let end = at + 4;
        if at > 0 && matches!(path.get(end), None | Some(b'/')) {
            return path.split_at_checked(end);
        }
        from = end;
    }
}

#[cfg(test)]
mod tests;
