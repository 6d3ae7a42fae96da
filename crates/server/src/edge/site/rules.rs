//! Applies the rules for paths (`[[pool.web.rules]]`): redirect, rewrite, deny, headers.
//!
//! Every rule that fits holds; where two speak of the same (what becomes of the request, one header), the first does. Pure: what
//! exists in the file system is asked through a closure. Called by `exchange`. Runs in: server, on a reactor.

use std::borrow::Cow;

use http::StatusCode;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use super::{is_host_of, route};
use crate::config::{Action, Fit, Rule};
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
        let Some(fit) = fit(rule, asked) else { continue };
        if ruling.turn.is_none()
            && let Some(action) = &rule.action
        {
            ruling.turn = Some(turn(action, asked, &fit)?);
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

/// What the path has in the places of the pattern that fits.
fn fit<'a>(rule: &Rule, asked: &Asked<'a>) -> Option<Fit<'a>> {
    let first = |path| rule.paths.iter().find_map(|pattern| pattern.fit(path));
    let is_excepted = |path| rule.not.iter().any(|pattern| pattern.fit(path).is_some());
    let mut excepted = is_excepted(asked.path);
    let mut fit = first(asked.path);
    // Whoever denies a script means it with whatever stands behind its name, which the client chooses.
    if fit.is_none()
        && matches!(rule.action, Some(Action::Deny(_)))
        && let Some((script, _)) = route::split_script(asked.path)
    {
        fit = first(script);
        excepted |= is_excepted(script);
    }
    let fit = fit?;
    let host = rule.hosts.is_empty() || rule.hosts.iter().any(|pattern| is_host_of(pattern, asked.host));
    (!excepted && host && !(rule.missing && (asked.exists)())).then_some(fit)
}

fn turn(action: &Action, asked: &Asked<'_>, fit: &Fit<'_>) -> Result<Turn, Refusal> {
    let status = |number: u16| StatusCode::from_u16(number).unwrap_or(StatusCode::FORBIDDEN);
    Ok(match action {
        Action::Deny(number) => Turn::Refused(status(*number)),
        Action::Redirect(to, number) => Turn::Away(location(to, asked, fit), status(*number)),
        Action::Rewrite(to) => {
            let bare = to.strip_suffix('?');
            let (path, own) = bare
                .unwrap_or(to)
                .split_once('?')
                .unwrap_or((bare.unwrap_or(to), ""));
            let path = fill(path, |name| value(name, asked, fit).map(Cow::Borrowed));
            let own = fill_encoded(own, asked, fit);
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
fn location(to: &str, asked: &Asked<'_>, fit: &Fit<'_>) -> String {
    let mut location = fill_encoded(&with_slash(to, asked, fit), asked, fit);
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
fn with_slash<'a>(to: &'a str, asked: &Asked<'_>, fit: &Fit<'_>) -> Cow<'a, str> {
    let authority = to
        .split_once("://")
        .and_then(|(_, behind)| behind.split(['/', '?']).next());
    let last = authority
        .and_then(|authority| authority.strip_suffix('}')?.rsplit_once('{'))
        .filter(|(front, name)| !front.is_empty() && *name != "host");
    let Some((_, name)) = last else {
        return Cow::Borrowed(to);
    };
    let value = value(name, asked, fit).unwrap_or_default();
    if value.is_empty() || value.starts_with(b"/") {
        return Cow::Borrowed(to);
    }
    let placeholder = format!("{{{name}}}");
    Cow::Owned(to.replacen(&placeholder, &format!("/{placeholder}"), 1))
}

/// What `{name}` stands for.
fn value<'a>(name: &str, asked: &Asked<'a>, fit: &Fit<'a>) -> Option<&'a [u8]> {
    match name {
        "rest" => Some(fit.rest),
        "path" => Some(asked.path),
        "host" => Some(asked.host.as_bytes()),
        name => fit.named(name),
    }
}

/// As [`fill`], with what clients have chosen as it may stand in a header.
fn fill_encoded(template: &str, asked: &Asked<'_>, fit: &Fit<'_>) -> String {
    let filled = fill(template, |name| {
        let value = value(name, asked, fit)?;
        Some(match name {
            "host" => Cow::Borrowed(value),
            _ => Cow::Owned(route::encode(value).into_bytes()),
        })
    });
    String::from_utf8_lossy(&filled).into_owned()
}

/// The template with the values of its `{name}`s; what has none stays.
fn fill<'a>(template: &str, value: impl Fn(&str) -> Option<Cow<'a, [u8]>>) -> Vec<u8> {
    let mut out = Vec::with_capacity(2 * template.len());
    let mut left = template;
    while let Some((front, behind)) = left.split_once('{') {
        out.extend_from_slice(front.as_bytes());
        let named = behind.split_once('}');
        if let Some((value, behind)) = named.and_then(|(name, behind)| Some((value(name)?, behind))) {
            out.extend_from_slice(&value);
            left = behind;
        } else {
            out.push(b'{');
            left = behind;
        }
    }
    out.extend_from_slice(left.as_bytes());
    out
}

#[cfg(test)]
mod tests;
