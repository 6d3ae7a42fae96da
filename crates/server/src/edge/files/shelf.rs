//! Files as they are sent: what is known of each, and, of small ones, their bytes, kept from one request to the next.
//!
//! A file is asked after each time it is wanted (one `stat`), and what is kept holds as long as it is the same: no age, no
//! notification. One that changed a moment ago is not kept, since its next change might not show. What is compressed of a kept file
//! is compressed once. Called by `files`. Runs in: server; files on a reactor if the kernel has them in memory, else on
//! tokio's blocking threads.

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::HeaderValue;
use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::body;
use super::range::Version;
use crate::config::{Coding, Compression};
use crate::edge::packing::encoder;
use crate::rights::Rights;

/// Bytes that all that is kept may have together, on the whole server.
const MOST: usize = 32 * 1024 * 1024;
/// Files that are kept.
const MANY: usize = 4096;
/// Larger ones are compressed on their way, each time.
const PACKED_MOST: u64 = 4 * 1024 * 1024;
/// A file that was written so lately may be written again without its times showing it.
const SETTLED: Duration = Duration::from_secs(2);
/// Bytes of a large file that are looked at for PHP.
const BEGINNING: u64 = 512;
/// How long it is taken for granted which compressed files lie beside one.
const SIBLINGS_TTL: Duration = Duration::from_secs(1);
/// The codings of files, and how their names end.
const ENDINGS: [(Coding, &str); 3] = [
    (Coding::Zstd, ".zst"),
    (Coding::Brotli, ".br"),
    (Coding::Gzip, ".gz"),
];

/// What [`Kept::open`] fails with where the file is another one by now.
pub(super) const CHANGED: io::ErrorKind = io::ErrorKind::StaleNetworkFileHandle;

/// What tells one version of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    place: (u64, u64),
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Identity {
    fn of(meta: &Metadata) -> Self {
        Self {
            place: (meta.dev(), meta.ino()),
            size: meta.len(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        }
    }
}

/// One version of a file.
#[derive(Debug)]
pub(super) struct Kept {
    identity: Identity,
    /// Of whoever has read it. Another one has to show that he may, too.
    rights: Rights,
    pub(super) version: Version,
    pub(super) etag: HeaderValue,
    pub(super) last_modified: HeaderValue,
    /// `Content-Type`
    pub(super) kind: HeaderValue,
    /// It is PHP source, whatever its name.
    pub(super) is_source: bool,
    /// All of it, if it is small.
    pub(super) small: Option<Bytes>,
    siblings: Mutex<Option<(Instant, Siblings)>>,
    packed: [OnceCell<Option<Bytes>>; 3],
}

/// The compressed files beside a file.
pub(super) type Siblings = Arc<[(Coding, Arc<Kept>, PathBuf)]>;

/// What is kept, on the whole server.
#[derive(Debug, Default)]
pub(in crate::edge) struct Files {
    shelf: RwLock<Shelf>,
}

#[derive(Debug, Default)]
struct Shelf {
    files: HashMap<PathBuf, Arc<Kept>>,
    bytes: usize,
}

impl Shelf {
    /// Makes room by forgetting everything: what is wanted is back with its next request.
    fn make_room(&mut self, bytes: usize) {
        if self.bytes + bytes > MOST || self.files.len() >= MANY {
            self.files.clear();
            self.bytes = 0;
        }
        self.bytes += bytes;
    }
}

impl Files {
    /// The file at `path` as it is now, read with these rights.
    pub(super) async fn get(&self, path: &Path, rights: &Rights) -> io::Result<Arc<Kept>> {
        let identity = Identity::of(&metadata(path, rights)?);
        let found = self.read().files.get(path).cloned();
        if let Some(kept) = found.filter(|kept| kept.identity == identity && kept.rights == *rights) {
            return Ok(kept);
        }
        let kept = Arc::new(Kept::read(path, rights).await?);
        if is_settled(&kept.identity) {
            let mut all = self.write();
            all.make_room(kept.small.as_ref().map_or(0, Bytes::len) + 512);
            all.files.insert(path.to_owned(), Arc::clone(&kept));
        }
        Ok(kept)
    }

    /// All of a file, compressed; `None` where that is too large, or gains nothing. Cancel-safe.
    pub(super) async fn packed(
        &self,
        (path, kept): (&Path, &Kept),
        coding: Coding,
        settings: &Compression,
    ) -> Option<Bytes> {
        if kept.version.size > PACKED_MOST {
            return None;
        }
        let cell = match coding {
            Coding::Zstd => kept.packed.first(),
            Coding::Brotli => kept.packed.get(1),
            Coding::Gzip => kept.packed.get(2),
        }?;
        let pack = async || {
            let (path, small, settings) = (path.to_owned(), kept.small.clone(), settings.clone());
            let (identity, rights) = (kept.identity, kept.rights.clone());
            let work = move || {
                let bytes = if let Some(bytes) = small {
                    bytes
                } else {
                    let (file, now) = open(&path, &rights)?;
                    if now != identity {
                        return Err(io::ErrorKind::NotFound.into());
                    }
                    body::read(&file, 0, identity.size)?
                };
                let packed = encoder::pack(coding, &settings, &bytes)?;
                io::Result::Ok((packed.len() < bytes.len()).then_some(packed))
            };
            let packed = tokio::task::spawn_blocking(work).await;
            let packed = packed.ok().and_then(Result::ok).flatten();
            self.write().make_room(packed.as_ref().map_or(0, Bytes::len));
            packed
        };
        cell.get_or_init(pack).await.clone()
    }

    /// The compressed files beside the one at `path`, unless they are older.
    pub(super) async fn siblings(&self, path: &Path, kept: &Kept) -> Siblings {
        let now = Instant::now();
        let known = kept.lock().clone();
        if let Some((until, siblings)) = known
            && now < until
        {
            return siblings;
        }
        let mut found = Vec::new();
        for (coding, ending) in ENDINGS {
            let mut name = path.to_owned().into_os_string();
            name.push(ending);
            let beside = PathBuf::from(name);
            if metadata(&beside, &kept.rights).is_err() {
                continue;
            }
            if let Ok(sibling) = self.get(&beside, &kept.rights).await
                && sibling.version.modified >= kept.version.modified
            {
                found.push((coding, sibling, beside));
            }
        }
        let siblings = Siblings::from(found);
        *kept.lock() = Some((now + SIBLINGS_TTL, Arc::clone(&siblings)));
        siblings
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Shelf> {
        self.shelf.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Shelf> {
        self.shelf.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    async fn read(path: &Path, rights: &Rights) -> io::Result<Self> {
        let (file, identity) = open(path, rights)?;
        let is_small = identity.size <= body::CHUNK;
        let end = if is_small { identity.size } else { BEGINNING };
        let bytes = if let Some(bytes) = body::read_now(&file, 0, end) {
            bytes?
        } else {
            let read = tokio::task::spawn_blocking(move || body::read(&file, 0, end)).await;
            read.map_err(io::Error::other)??
        };
        Ok(Self::new(path, (identity, rights), (bytes, is_small)))
    }

    /// `beginning`: its first bytes, and whether they are all.
    fn new(path: &Path, (identity, rights): (Identity, &Rights), (beginning, is_all): (Bytes, bool)) -> Self {
        let seconds = u64::try_from(identity.modified.0).unwrap_or(0);
        let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        // A compressed file must never be taken for what it was made of.
        let name = path.as_os_str().as_encoded_bytes();
        let ending = ENDINGS
            .iter()
            .find(|(_, ending)| name.ends_with(ending.as_bytes()));
        let mark = ending.map_or(String::new(), |(coding, _)| format!("-{coding}"));
        let etag = format!("\"{seconds:x}-{:x}{mark}\"", identity.size);
        let value = |text: &str| HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("-"));
        Self {
            identity,
            rights: rights.clone(),
            etag: value(&etag),
            last_modified: value(&httpdate::fmt_http_date(modified)),
            kind: media_type(path),
            version: Version {
                etag,
                modified,
                size: identity.size,
            },
            is_source: is_source(&beginning),
            small: is_all.then_some(beginning),
            siblings: Mutex::default(),
            packed: Default::default(),
        }
    }

    /// Opens it to be read, if it is still the same.
    pub(super) fn open(&self, path: &Path) -> io::Result<File> {
        let (file, identity) = open(path, &self.rights)?;
        if identity == self.identity {
            return Ok(file);
        }
        Err(io::Error::new(CHANGED, "the file changes all the time"))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<(Instant, Siblings)>> {
        self.siblings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The text of a file of at most so many bytes.
pub(in crate::edge) fn read_text(path: &Path, most: u64, rights: &Rights) -> io::Result<String> {
    let (file, identity) = open(path, rights)?;
    if identity.size > most {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let bytes = body::read(&file, 0, identity.size)?;
    String::from_utf8(bytes.into()).map_err(io::Error::other)
}

fn metadata(path: &Path, rights: &Rights) -> io::Result<Metadata> {
    rights.assume()?;
    let meta = std::fs::metadata(path)?;
    if meta.is_file() {
        Ok(meta)
    } else {
        Err(io::ErrorKind::NotFound.into())
    }
}

fn open(path: &Path, rights: &Rights) -> io::Result<(File, Identity)> {
    let file = rights.open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::ErrorKind::NotFound.into());
    }
    // It was replaced just now.
    if meta.nlink() == 0 {
        return Err(io::Error::new(
            CHANGED,
            "the file was removed while it was opened",
        ));
    }
    Ok((file, Identity::of(&meta)))
}

/// Whether a file that begins so is PHP source: `<?php` or `<?=` behind a byte order mark, the line that names its interpreter, and blanks.
fn is_source(beginning: &[u8]) -> bool {
    let text = beginning.strip_prefix(b"\xef\xbb\xbf").unwrap_or(beginning);
    let is_command = text.starts_with(b"#!");
    let line = text.iter().position(|&b| b == b'\n').filter(|_| is_command);
    let text = text.get(line.unwrap_or(0)..).unwrap_or_default();
    let text = text.trim_ascii_start();
    let tag = text
        .get(..5)
        .is_some_and(|tag| tag.eq_ignore_ascii_case(b"<?php"));
    tag || text.starts_with(b"<?=")
}

/// Whether its last change is so old that another one has another time.
fn is_settled(identity: &Identity) -> bool {
    let changed = identity.changed.max(identity.modified);
    let changed = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(changed.0).unwrap_or(0));
    changed.elapsed().is_ok_and(|age| age > SETTLED)
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
