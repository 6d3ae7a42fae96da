//! Which script do the variables of a request name, and which of them have to be put right for it?
//!
//! As php-fpm does with its default settings (`cgi.fix_pathinfo = 1`; php-src `init_request_info()` in `sapi/fpm/fpm/fpm_main.c`): Apache's
//! `SCRIPT_FILENAME` has the address of the application in front, and where a script's name is followed by more, the rest is
//! `PATH_INFO`. What was changed is kept in a variable whose name begins with `ORIG_`. Asks for files by a function, so that it can
//! be tested without any. Called by `request`. Runs in: server, on a reactor.

use super::variables::Variables;

/// What a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    File,
    /// A folder, or anything else that is there.
    Other,
    Nothing,
}

/// What the variables name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Script {
    /// Something that is there, by this path: `SCRIPT_FILENAME` by now.
    At(Vec<u8>),
    /// Nothing: no path, one with `..` in it, or no file.
    Unknown,
}

/// Apache's names for what answers, in front of the path.
const PREFIXES: [&[u8]; 2] = [b"proxy:fcgi://", b"proxy:balancer://"];

/// Puts the variables right.
pub(super) fn settle(variables: &mut Variables<'_>, look: impl Fn(&[u8]) -> Named) -> Script {
    let is_proxied = strip_proxy(variables);
    let translated = variables.get(b"PATH_TRANSLATED").map(<[u8]>::to_vec);
    let filename = variables.get(b"SCRIPT_FILENAME").map(<[u8]>::to_vec);
    let Some(mut path) = filename.clone().or_else(|| translated.clone()) else {
        return Script::Unknown;
    };
    // Apache with an `Action`: the script is what answers it, and the file asked for is in PATH_TRANSLATED.
    let redirect = variables.get(b"REDIRECT_URL").map(<[u8]>::to_vec);
    if let (false, Some(file), Some(url)) = (is_proxied, &translated, &redirect)
        && *file != path
    {
        path.clone_from(file);
        put(variables, (b"ORIG_SCRIPT_NAME", b"SCRIPT_NAME"), url.clone());
    }
    let is_there = !path.ends_with(b"/") && look(&path) != Named::Nothing;
    if is_there {
        if filename.as_ref() != Some(&path) {
            put(
                variables,
                (b"ORIG_SCRIPT_FILENAME", b"SCRIPT_FILENAME"),
                path.clone(),
            );
        }
        if !is_proxied && redirect.is_some() {
            for (copy, name) in [
                (&b"ORIG_PATH_INFO"[..], &b"PATH_INFO"[..]),
                (b"ORIG_PATH_TRANSLATED", b"PATH_TRANSLATED"),
            ] {
                variables.keep(copy, name);
                variables.remove(name);
            }
        }
    } else {
        let Some(len) = script_in(&path, look) else {
            return Script::Unknown;
        };
        let rest = path.split_off(len);
        put_path_info(variables, &rest, is_proxied);
        if filename.as_ref() != Some(&path) {
            put(
                variables,
                (b"ORIG_SCRIPT_FILENAME", b"SCRIPT_FILENAME"),
                path.clone(),
            );
        }
        put_translated(variables);
    }
    if climbs(&path) {
        return Script::Unknown;
    }
    Script::At(path)
}

/// Whether php-fpm runs a file of this name (`security.limit_extensions`). `[]`: any.
pub(super) fn is_permitted(path: &[u8], extensions: &[String]) -> bool {
    extensions.is_empty() || extensions.iter().any(|end| path.ends_with(end.as_bytes()))
}

/// True if Apache's prefix was there and followed by a path.
fn strip_proxy(variables: &mut Variables<'_>) -> bool {
    let Some(filename) = variables.get(b"SCRIPT_FILENAME") else {
        return false;
    };
    let Some(target) = PREFIXES.iter().find_map(|prefix| {
        let (start, rest) = filename.split_at_checked(prefix.len())?;
        start.eq_ignore_ascii_case(prefix).then_some(rest)
    }) else {
        return false;
    };
    let Some(slash) = target.iter().position(|&b| b == b'/') else {
        return false;
    };
    let path = target.get(slash..).unwrap_or_default();
    let end = path.iter().position(|&b| b == b'?').unwrap_or(path.len());
    let path = path.get(..end).unwrap_or(path).to_vec();
    variables.set(b"SCRIPT_FILENAME", path);
    true
}

/// Bytes of the file's name at the start of `path`, up to a slash.
fn script_in(path: &[u8], look: impl Fn(&[u8]) -> Named) -> Option<usize> {
    let mut end = path.len();
    loop {
        end = path.get(..end)?.iter().rposition(|&b| b == b'/')?;
        if end > 0 && look(path.get(..end)?) == Named::File {
            return Some(end);
        }
    }
}

/// `rest` is what followed the file's name.
fn put_path_info(variables: &mut Variables<'_>, rest: &[u8], is_proxied: bool) {
    let info = variables.get(b"PATH_INFO").map(<[u8]>::to_vec);
    let name = variables.get(b"SCRIPT_NAME").map(<[u8]>::to_vec);
    let (new, front) = match &info {
        // Apache's `ProxyPass` leaves it in SCRIPT_NAME.
        None if is_proxied => {
            let decoded = decode(rest);
            let cut = |end: &[u8]| Some(name.as_ref()?.strip_suffix(end)?.to_vec());
            let front = cut(rest)
                .or_else(|| cut(&decoded))
                .filter(|front| !front.is_empty());
            if let Some(front) = front {
                put(variables, (b"ORIG_SCRIPT_NAME", b"SCRIPT_NAME"), front);
            }
            variables.set(b"PATH_INFO", decoded);
            return;
        }
        Some(info) if is_proxied && info != rest => (rest.to_vec(), info.clone()),
        // Some send the script's URL and the rest in one.
        Some(info) if !is_proxied && info.len() > rest.len() => {
            let (front, back) = info.split_at(info.len() - rest.len());
            (back.to_vec(), front.to_vec())
        }
        _ => return,
    };
    variables.keep(b"ORIG_PATH_INFO", b"PATH_INFO");
    if name.as_ref() != Some(&front) {
        put(variables, (b"ORIG_SCRIPT_NAME", b"SCRIPT_NAME"), front);
    }
    variables.set(b"PATH_INFO", new);
}

/// `PATH_TRANSLATED`: where `PATH_INFO` would be as a file.
fn put_translated(variables: &mut Variables<'_>) {
    let info = variables.get(b"PATH_INFO").unwrap_or_default();
    let Some(root) = variables.get(b"DOCUMENT_ROOT") else {
        return;
    };
    let translated = [root.strip_suffix(b"/").unwrap_or(root), info].concat();
    put(
        variables,
        (b"ORIG_PATH_TRANSLATED", b"PATH_TRANSLATED"),
        translated,
    );
}

/// Gives a variable another value, and the old one to its copy.
fn put<'a>(variables: &mut Variables<'a>, (copy, name): (&'a [u8], &'a [u8]), value: Vec<u8>) {
    variables.keep(copy, name);
    variables.set(name, value);
}

/// Whether a part of the path is `..`.
fn climbs(path: &[u8]) -> bool {
    path.split(|&b| b == b'/').any(|part| part == b"..")
}

/// Percent-encoding decoded; what is none stays.
fn decode(bytes: &[u8]) -> Vec<u8> {
    let hex = |b: Option<&u8>| {
        char::from(*b?)
            .to_digit(16)
            .and_then(|digit| u8::try_from(digit).ok())
    };
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((&first, behind)) = rest.split_first() {
        rest = behind;
        if first == b'%'
            && let (Some(high), Some(low)) = (hex(behind.first()), hex(behind.get(1)))
        {
            out.push(high * 16 + low);
            rest = behind.get(2..).unwrap_or_default();
        } else {
            out.push(first);
        }
    }
    out
}

#[cfg(test)]
mod tests;
