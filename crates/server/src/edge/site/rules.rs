//! Applies the rules for paths (`[[pool.web.rules]]`): redirect, rewrite, deny, headers.
//!
//! Every rule that fits holds; where two speak of the same (what becomes of the request, one header), the first does. Pure: what
//! exists in the file system is asked through a closure. Called by `exchange`. Runs in: server, on a reactor.

use std::borrow::Cow;

use http::StatusCode;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use super::{is_host_of, route};
use crate::config::{Action, Rule};
use crate::edge::reply::Refusal;

/// A request, as far as rules look at it.
pub(in crate::edge) struct Asked<'a> {
    /// In small letters, without a port.
    pub(in crate::edge) host: &'a str,
    /// Decoded.
    pub(in crate::edge) path: &'a [u8],
    pub(in crate::edge) query: Option<&'a str>,
    /// Whether the path names a file or a folder.
    pub(in crate::edge) exists: &'a dyn Fn() -> bool,
}

/// What the rules say of a request.
#[derive(Debug, Default)]
pub(in crate::edge) struct Ruling {
    /// What becomes of it, if not what becomes of every request.
    pub(in crate::edge) turn: Option<Turn>,
    /// What its answer is given.
    pub(in crate::edge) dress: Dress,
    /// Its answer is not compressed on the fly.
    pub(in crate::edge) unpacked: bool,
}

/// What becomes of a request.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::edge) enum Turn {
    /// The client is sent there.
    Away(String, StatusCode),
    /// It is answered as if this path (decoded) and this query had been asked for.
    Path(Vec<u8>, String),
    /// It is refused.
    Refused(StatusCode),
}

/// Headers that an answer is given.
#[derive(Debug, Default)]
pub(in crate::edge) struct Dress {
    headers: Vec<(HeaderName, HeaderValue)>,
    cache_control: Option<HeaderValue>,
}

/// What `rules` say.
pub(in crate::edge) fn apply(rules: &[Rule], asked: &Asked<'_>) -> Result<Ruling, Refusal> {
    let mut ruling = Ruling::default();
    let mut compress = None;
    for rule in rules {
        let Some(rest) = fit(rule, asked) else { continue };
        if ruling.turn.is_none()
            && let Some(action) = &rule.action
        {
            ruling.turn = Some(turn(action, asked, rest)?);
        }
        let dress = &mut ruling.dress;
        for (name, value) in &rule.headers {
            if !dress.headers.iter().any(|(other, _)| other == name) {
                dress.headers.push((name.clone(), value.clone()));
            }
        }
        if dress.cache_control.is_none() {
            dress.cache_control.clone_from(&rule.cache_control);
        }
        compress = compress.or(rule.compress);
    }
    ruling.unpacked = compress == Some(false);
    Ok(ruling)
}

impl Dress {
    /// Puts it on.
    pub(in crate::edge) fn put_on(self, status: StatusCode, headers: &mut HeaderMap) {
        for (name, value) in self.headers {
            if value.is_empty() {
                headers.remove(name);
            } else {
                headers.insert(name, value);
            }
        }
        let keepable = matches!(status.as_u16(), 200 | 203 | 206 | 301 | 304 | 308);
        // What sets a cookie is meant for one client, whatever its path.
        let spoken = headers.contains_key(header::CACHE_CONTROL) || headers.contains_key(header::SET_COOKIE);
        if let Some(value) = self.cache_control.filter(|_| keepable && !spoken) {
            headers.insert(header::CACHE_CONTROL, value);
        }
    }
}

/// What the last `*` of the pattern that fits stands for.
fn fit<'a>(rule: &Rule, asked: &Asked<'a>) -> Option<&'a [u8]> {
    let first = |path| rule.paths.iter().find_map(|pattern| matches(pattern, path));
    let is_excepted = |path| rule.not.iter().any(|pattern| matches(pattern, path).is_some());
    let mut excepted = is_excepted(asked.path);
    let mut rest = first(asked.path);
    // Whoever denies a script means it with whatever stands behind its name, which the client chooses.
    if rest.is_none()
        && matches!(rule.action, Some(Action::Deny(_)))
        && let Some((script, _)) = route::split_script(asked.path)
    {
        rest = first(script);
        excepted |= is_excepted(script);
    }
    let rest = rest?;
    let host = rule.hosts.is_empty() || rule.hosts.iter().any(|pattern| is_host_of(pattern, asked.host));
    (!excepted && host && !(rule.missing && (asked.exists)())).then_some(rest)
}

/// `*` stands for any characters, `/` too; a pattern that ends in `/*` fits the folder itself as well.
fn matches<'a>(pattern: &str, path: &'a [u8]) -> Option<&'a [u8]> {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = path.strip_prefix(first.as_bytes()) else {
        let folder = pattern
            .strip_suffix("/*")
            .is_some_and(|folder| folder.as_bytes() == path);
        return folder.then_some(b"");
    };
    let Some(last) = parts.next_back() else {
        return rest.is_empty().then_some(b"");
    };
    for part in parts {
        let part = part.as_bytes();
        let at = match part {
            [] => 0,
            part => rest.windows(part.len()).position(|window| window == part)?,
        };
        rest = rest.get(at + part.len()..)?;
    }
    rest.strip_suffix(last.as_bytes())
}

fn turn(action: &Action, asked: &Asked<'_>, rest: &[u8]) -> Result<Turn, Refusal> {
    let status = |number: u16| StatusCode::from_u16(number).unwrap_or(StatusCode::FORBIDDEN);
    Ok(match action {
        Action::Deny(number) => Turn::Refused(status(*number)),
        Action::Redirect(to, number) => Turn::Away(location(to, asked, rest), status(*number)),
        Action::Rewrite(to) => {
            let bare = to.strip_suffix('?');
            let (path, own) = bare
                .unwrap_or(to)
                .split_once('?')
                .unwrap_or((bare.unwrap_or(to), ""));
            let path = fill(path.as_bytes(), asked, rest);
            let own = fill(
                own.as_bytes(),
                &encoded(asked).asked(asked),
                route::encode(rest).as_bytes(),
            );
            let own = String::from_utf8_lossy(&own).into_owned();
            // As nginx does: what the rule says goes before what the client says.
            let query = match asked.query.filter(|_| bare.is_none()) {
                Some(theirs) if own.is_empty() => theirs.to_owned(),
                Some(theirs) => format!("{own}&{theirs}"),
                None => own,
            };
            Turn::Path(route::resolve(&path)?, query)
        }
    })
}

/// Where the client is sent. Never to another host because of what the client has put into its path.
fn location(to: &str, asked: &Asked<'_>, rest: &[u8]) -> String {
    let filled = fill(
        with_slash(to, rest).as_bytes(),
        &encoded(asked).asked(asked),
        route::encode(rest).as_bytes(),
    );
    let mut location = String::from_utf8_lossy(&filled).into_owned();
    if to.starts_with('/') {
        location = format!("/{}", location.trim_start_matches('/'));
    }
    if let Some(bare) = location.strip_suffix('?') {
        return bare.to_owned();
    }
    match asked.query {
        Some(query) if !to.contains('?') => format!("{location}?{query}"),
        _ => location,
    }
}

/// `https://a.example{rest}` with the slash that keeps the client's `.evil.example` out of the name.
fn with_slash<'a>(to: &'a str, rest: &[u8]) -> Cow<'a, str> {
    let authority = to
        .split_once("://")
        .and_then(|(_, behind)| behind.split(['/', '?']).next());
    let name = authority.and_then(|authority| authority.strip_suffix("{rest}"));
    if name.is_none_or(str::is_empty) || rest.is_empty() || rest.starts_with(b"/") {
        return Cow::Borrowed(to);
    }
    Cow::Owned(to.replacen("{rest}", "/{rest}", 1))
}

/// The path as it may stand in a header.
struct Encoded(String);

fn encoded(asked: &Asked<'_>) -> Encoded {
    Encoded(route::encode(asked.path))
}

impl Encoded {
    fn asked<'a>(&'a self, asked: &Asked<'a>) -> Asked<'a> {
        Asked {
            path: self.0.as_bytes(),
            ..*asked
        }
    }
}

/// The template with what its `{…}` stand for.
fn fill(template: &[u8], asked: &Asked<'_>, rest: &[u8]) -> Vec<u8> {
    let names: [(&[u8], &[u8]); 3] = [
        (b"{rest}", rest),
        (b"{path}", asked.path),
        (b"{host}", asked.host.as_bytes()),
    ];
    let mut out = Vec::with_capacity(template.len() + rest.len() + asked.path.len());
    let mut left = template;
    while let Some((&byte, tail)) = left.split_first() {
        if let Some((name, value)) = names.iter().find(|(name, _)| left.starts_with(name)) {
            out.extend_from_slice(value);
            left = left.get(name.len()..).unwrap_or_default();
        } else {
            out.push(byte);
            left = tail;
        }
    }
    out
}

#[cfg(test)]
mod tests;
