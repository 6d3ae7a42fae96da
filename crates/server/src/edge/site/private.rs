//! Names of files that no client gets, whatever else is set: hidden ones, PHP source, descriptions of a project, and editors' copies of
//! all these; and, in the folder of a project itself, the data and settings that lie beside its scripts.
//!
//! Looks at names alone; `files::shelf` finds PHP source under other names. docs/files.md lists them all. Called by `route`. Runs in: server, on
//! a reactor.

/// Files that describe a project, and may tell an attacker versions or passwords. In any folder: plugins bring their own.
const DESCRIPTIONS: [&[u8]; 6] = [
    b"hearth.toml",
    b"composer.json",
    b"composer.lock",
    b"symfony.lock",
    b"auth.json",
    b"php.ini",
];
/// Extensions of PHP source, besides those of [`is_php`]: Drupal's, and what is only included.
const SOURCES: [&[u8]; 6] = [b"inc", b"module", b"install", b"theme", b"engine", b"profile"];
/// Extensions of what lies in a project's folder and is not part of its site: dumps, databases, keys, logs and settings.
const PROJECT: [&[u8]; 15] = [
    b"sql", b"sqlite", b"sqlite3", b"db", b"dump", b"key", b"pem", b"p12", b"log", b"yml", b"yaml", b"neon",
    b"lock", b"ini", b"env",
];
/// Extensions of archives. One is as private as the file that its name begins with; in a project's folder it may hold a copy of it all.
const ARCHIVES: [&[u8]; 7] = [b"zip", b"tar", b"tgz", b"tbz2", b"txz", b"7z", b"rar"];
/// How copies end that editors and people make of a file.
const COPIES: [&[u8]; 9] = [
    b"~", b"#", b".bak", b".old", b".orig", b".save", b".dist", b".swp", b".swo",
];
/// How copies end that are in nobody's way, so that they are private whatever they are copies of.
const LEFTOVERS: [&[u8]; 3] = [b"~", b".swp", b".swo"];
/// How packed files end.
const PACKED: [&[u8]; 5] = [b".gz", b".bz2", b".xz", b".zst", b".br"];

/// Whether `path` names what no client gets. `is_project`: the document root is the folder of the project.
pub(super) fn is_private(path: &[u8], is_project: bool) -> bool {
    let name = path.rsplit(|&b| b == b'/').next().unwrap_or_default();
    is_hidden(path)
        || is_leftover(name)
        || is_source(name)
        || is_description(name)
        || is_project && (is_vendor(path) || is_of_project(name))
}

/// Whether `path` names no script that runs: a hidden one, or one of Composer's packages.
pub(super) fn is_closed_to_scripts(path: &[u8], is_project: bool) -> bool {
    is_hidden(path) || is_project && is_vendor(path)
}

/// A name or folder that starts with a dot, but `/.well-known/` (RFC 8615).
fn is_hidden(path: &[u8]) -> bool {
    let rest = path.strip_prefix(b"/.well-known/").unwrap_or(path);
    rest.starts_with(b".") || rest.windows(2).any(|pair| pair == b"/.")
}

/// `/vendor/` is Composer's, not the site's. A public folder may well have a `vendor` of its own, with style sheets.
fn is_vendor(path: &[u8]) -> bool {
    path == b"/vendor" || path.starts_with(b"/vendor/")
}

fn is_leftover(name: &[u8]) -> bool {
    LEFTOVERS.iter().any(|end| name.ends_with(end)) || name.starts_with(b"#") && name.ends_with(b"#")
}

/// `a.php`, `a.PHP`, `a.phtml`, `a.php.bak`, `a.inc`: what a server without PHP would send as text.
fn is_source(name: &[u8]) -> bool {
    let mut extensions = name.split(|&b| b == b'.').skip(1);
    extensions.any(is_php) || has_extension(plain(name), &SOURCES)
}

/// `php`, `php7`, `phps`, `phtml`, `pht`, `phar`, and these with what marks a copy: `php~`, `php_`, `php-old`.
fn is_php(extension: &[u8]) -> bool {
    let kinds: [&[u8]; 5] = [b"php", b"phps", b"phtml", b"pht", b"phar"];
    kinds.iter().any(|kind| {
        behind(extension, kind).is_some_and(|rest| {
            let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
            ends_word(rest.get(digits..).unwrap_or_default())
        })
    })
}

fn is_description(name: &[u8]) -> bool {
    let name = plain(name);
    DESCRIPTIONS.iter().any(|other| other.eq_ignore_ascii_case(name))
}

fn is_of_project(name: &[u8]) -> bool {
    let unpacked = unpacked(name);
    original(name) != name || has_extension(unpacked, &PROJECT) || has_extension(unpacked, &ARCHIVES)
}

fn has_extension(name: &[u8], extensions: &[&[u8]]) -> bool {
    without_extension(name, extensions).is_some()
}

/// `name` without its last extension, if that is one of these, or one with a mark behind it: `sqlite-wal`.
fn without_extension<'a>(name: &'a [u8], extensions: &[&[u8]]) -> Option<&'a [u8]> {
    let (front, last) = name.split_at_checked(name.iter().rposition(|&b| b == b'.')?)?;
    let last = last.get(1..).unwrap_or_default();
    let is_one = |extension: &&[u8]| behind(last, extension).is_some_and(ends_word);
    extensions.iter().any(is_one).then_some(front)
}

/// What follows `start` in `text`; letters have no case.
fn behind<'a>(text: &'a [u8], start: &[u8]) -> Option<&'a [u8]> {
    let (front, rest) = text.split_at_checked(start.len())?;
    front.eq_ignore_ascii_case(start).then_some(rest)
}

fn ends_word(rest: &[u8]) -> bool {
    !rest.first().is_some_and(u8::is_ascii_alphanumeric)
}

/// The name of the file that `name` is a copy of: `hearth.toml` of `#hearth.toml#`, `hearth.toml~` and `hearth.toml.bak`.
fn original(name: &[u8]) -> &[u8] {
    let mut left = name.strip_prefix(b"#").unwrap_or(name);
    while let Some(shorter) = COPIES.iter().find_map(|end| without_end(left, end)) {
        left = shorter;
    }
    left
}

/// The name behind copies, packed files and archives of it, in any order: `a.inc` of `a.inc.old.gz`, `a.inc.gz~` and `a.inc.zip`.
fn plain(name: &[u8]) -> &[u8] {
    let mut left = name;
    loop {
        let shorter = original(unpacked(left));
        let shorter = without_extension(shorter, &ARCHIVES).unwrap_or(shorter);
        if shorter.len() == left.len() {
            return left;
        }
        left = shorter;
    }
}

/// `name` without what a packed or rotated file has behind its own: `a.log` of `a.log.2.gz`.
fn unpacked(name: &[u8]) -> &[u8] {
    let mut left = name;
    loop {
        let digits = left.iter().rev().take_while(|b| b.is_ascii_digit()).count();
        let (front, _) = left.split_at(left.len() - digits);
        let numbered = front.strip_suffix(b".").filter(|_| digits > 0);
        let packed = PACKED.iter().find_map(|end| without_end(left, end));
        match numbered.or(packed) {
            Some(shorter) => left = shorter,
            None => return left,
        }
    }
}

/// `name` without `end`; letters have no case. Never empty.
fn without_end<'a>(name: &'a [u8], end: &[u8]) -> Option<&'a [u8]> {
    let (front, back) = name.split_at_checked(name.len().checked_sub(end.len())?)?;
    (!front.is_empty() && back.eq_ignore_ascii_case(end)).then_some(front)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_and_hidden_names_are_known() {
        let private = [
            "/a.php",
            "/a.PHP",
            "/a.phtml",
            "/a.phar",
            "/a.php~",
            "/a.php.bak",
            "/x/a.php7",
            "/a.phps",
            "/a.php_",
            "/a.php-old",
            "/a.php.txt",
            "/db.inc",
            "/db.INC.old",
            "/a.module",
            "/a.inc.gz",
            "/a.inc.old.GZ",
            "/a.inc.xz.bak",
            "/a.theme.1",
            "/c.inc.zip",
            "/c.inc.tar.gz",
            "/c.inc.bak.7z~",
            "/.env",
            "/a/.git/config",
            "/.well-known/.x",
            "/.well-known",
        ];
        for path in private {
            assert!(is_private(path.as_bytes(), false), "{path}");
        }
        let public = [
            "/a.txt",
            "/php",
            "/inc",
            "/a.phpx",
            "/a.photo.jpg",
            "/a.php/x.css",
            "/a.include",
            "/a.include.gz",
            "/a.modules.js",
            "/module.zip",
            "/release.zip",
            "/.well-known/acme",
            "/a.b/c",
        ];
        for path in public {
            assert!(!is_private(path.as_bytes(), false), "{path}");
        }
    }

    #[test]
    fn what_describes_a_project_is_known_and_so_are_copies_of_it() {
        let private = [
            "/hearth.toml",
            "/composer.json",
            "/a/composer.lock",
            "/auth.json",
            "/hearth.toml.bak",
            "/#hearth.toml#",
            "/auth.json.ORIG~",
            "/php.ini.save",
            "/composer.json.gz",
            "/auth.json.bak.zst",
            "/composer.json.zip",
            "/any~",
            "/#any#",
            "/any.swp",
        ];
        for path in private {
            assert!(is_private(path.as_bytes(), false), "{path}");
        }
        let public = [
            "/package.json",
            "/package.json.gz",
            "/composer.json/x",
            "/my-composer.json",
            "/composer",
            "/any.bak",
            "/#any",
            "/",
        ];
        for path in public {
            assert!(!is_private(path.as_bytes(), false), "{path}");
        }
    }

    #[test]
    fn more_is_private_in_the_folder_of_a_project() {
        let private = [
            "/vendor",
            "/vendor/",
            "/vendor/a/b.css",
            "/dump.sql",
            "/dump.SQL.gz",
            "/a/debug.log.2.gz",
            "/data.sqlite-wal",
            "/data.sqlite3",
            "/tls.key",
            "/backup.zip",
            "/dump.sql.zip",
            "/site.tar",
            "/site.tar.gz",
            "/site.tar.zst",
            "/dump.TGZ",
            "/a/old.7z",
            "/old.rar",
            "/config.yml",
            "/index.html.old",
            "/phpunit.xml.dist",
        ];
        for path in private {
            assert!(is_private(path.as_bytes(), true), "{path}");
            assert!(!is_private(path.as_bytes(), false), "{path}");
        }
        for path in [
            "/vendors/a",
            "/a/vendor/b",
            "/a.key.png",
            "/app.js.gz",
            "/zip",
            "/v1.2.3",
            "/changelog",
            "/sql",
        ] {
            assert!(!is_private(path.as_bytes(), true), "{path}");
        }
        assert!(is_closed_to_scripts(b"/vendor/a/b.php", true));
        assert!(!is_closed_to_scripts(b"/vendor/a/b.php", false));
        assert!(is_closed_to_scripts(b"/.git/a.php", false));
    }
}
