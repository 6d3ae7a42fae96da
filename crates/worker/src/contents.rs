//! What a worker script has booted: how much of it there is, and what holds connections or generators of random numbers.
//!
//! The engine is searched by C (`sapi/suspects.c`); what the findings mean is up to [`crate::obstacles`].
//!
//! Runs in: zygote. Called by `isolation`.

use std::ffi::{c_int, c_void};

use crate::host::Host;
use crate::php::{Php, Str};

/// Bytes of a name.
const NAME_MAX: usize = 512;

/// Something that was found, and what holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    /// Its class, or `a stream`.
    pub(crate) what: String,
    /// `App\Shop::$cart`, `$cart`, or empty.
    pub(crate) holder: String,
    /// `file:line` of the holder, its file, or empty.
    pub(crate) place: String,
    /// Its descriptor, if that is known.
    pub(crate) fd: Option<i32>,
}

impl std::fmt::Display for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.what)?;
        if !self.holder.is_empty() {
            write!(f, " in {}", self.holder)?;
        }
        if !self.place.is_empty() {
            write!(f, " ({})", self.place)?;
        }
        Ok(())
    }
}

/// What there is.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    /// All classes.
    pub(crate) classes: usize,
    /// Those of the application and its libraries.
    pub(crate) user_classes: usize,
    /// Objects that are alive.
    pub(crate) objects: usize,
    /// Classes with a destructor, and how many objects of each are alive.
    pub(crate) destructors: Vec<(String, u64)>,
    /// What may hold a connection.
    pub(crate) connections: Vec<Held>,
    /// Generators of random numbers with their state in memory.
    pub(crate) generators: Vec<Held>,
}

/// `sapi_find_kind`, in its order.
const CONNECTION: c_int = 0;
const GENERATOR: c_int = 1;

/// `sapi_find`: see `sapi.h` for each field.
#[repr(C)]
struct Find<'a> {
    kind: c_int,
    what: Str<'a>,
    holder: Str<'a>,
    place: Str<'a>,
    fd: c_int,
    count: usize,
}

/// `sapi_contents`.
#[repr(C)]
struct Figures {
    classes: usize,
    user_classes: usize,
    objects: usize,
}

unsafe extern "C" {
    fn sapi_look_through(
        contents: *mut c_void,
        found: unsafe extern "C" fn(*mut c_void, *const Find<'_>),
    ) -> Figures;
}

/// Looks through what the script has booted that waits for its first request. Not after it was sealed.
pub(crate) fn look(_php: &mut Php<Host>) -> Contents {
    let mut contents = Contents::default();
    // SAFETY: PHP is booted and waits, and nobody else uses it; `contents` is exclusive and lives until the call returns.
    let figures = unsafe { sapi_look_through((&raw mut contents).cast(), found) };
    Contents {
        classes: figures.classes,
        user_classes: figures.user_classes,
        objects: figures.objects,
        ..contents
    }
}

unsafe extern "C" fn found(contents: *mut c_void, find: *const Find<'_>) {
    // SAFETY: what `look` handed down, which nobody uses meanwhile.
    let contents = unsafe { contents.cast::<Contents>().as_mut() };
    // SAFETY: C hands over a description for the length of the call.
    if let (Some(contents), Some(find)) = (contents, unsafe { find.as_ref() }) {
        contents.add(find);
    }
}

impl Contents {
    fn add(&mut self, find: &Find<'_>) {
        let held = || Held {
            what: text(&find.what),
            holder: text(&find.holder),
            place: text(&find.place),
            fd: Some(find.fd).filter(|fd| *fd >= 0),
        };
        match find.kind {
            CONNECTION => self.connections.push(held()),
            GENERATOR => self.generators.push(held()),
            _ => self.destructors.push((text(&find.what), find.count as u64)),
        }
    }
}

fn text(bytes: &Str<'_>) -> String {
    let bytes = bytes.as_bytes();
    let text = String::from_utf8_lossy(bytes.get(..NAME_MAX).unwrap_or(bytes));
    // The name of an anonymous class goes on with a NUL, its file and a number.
    text.split('\0').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_named_with_its_place() {
        let mut held = Held {
            what: "PDO".into(),
            holder: "App\\Db::$pdo".into(),
            place: "src/Db.php:12".into(),
            fd: None,
        };
        assert_eq!(held.to_string(), "PDO in App\\Db::$pdo (src/Db.php:12)");
        held.holder.clear();
        held.place.clear();
        assert_eq!(held.to_string(), "PDO");
    }
}
