//! Responses as text that a person can review: what nginx + php-fpm answered is kept in this form, and Hearth's answers are
//! compared in it. What never can be equal is left out here; `docs/parity.md` gives the reasons.

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::Path;

use super::Case;
use crate::bodies::sha256;
use crate::harness::Raw;

/// Headers of a response that belong to the server or to the connection.
const HEADERS: [&str; 5] = ["server", "date", "connection", "keep-alive", "transfer-encoding"];

/// Values of `$_SERVER` that name the server, its ports or the moment.
const VARIABLES: [&str; 10] = [
    "server.SERVER_SOFTWARE",
    "server.SERVER_PORT",
    "server.REMOTE_PORT",
    "server.REQUEST_TIME",
    "server.REQUEST_TIME_FLOAT",
    "server.HEARTH_REQUEST_ID",
    "server.HEARTH_WORKER",
    "server.RUST_LOG",
    "server.USER",
    "server.HOME",
];

/// Longer lines, and longer bodies, are shown by their length and digest.
const LONGEST_LINE: usize = 300;
const LONGEST_BODY: usize = 64 << 10;

/// What a server answers to a case: each request behind `>`, its response below it.
pub(super) fn ask(case: &Case, address: SocketAddr, folders: &[(&Path, &str)]) -> String {
    let mut text = String::new();
    for request in std::iter::once(case).chain(&case.then) {
        let answer = normalise(request.send(address), folders);
        if !case.then.is_empty() {
            let _ = writeln!(text, "> {} {}", request.method, request.target);
        }
        text.push_str(&answer);
    }
    text
}

/// A response as text, without what may differ: `<` and the status, the headers, and behind `|` each line of the body.
fn normalise(mut raw: Raw, folders: &[(&Path, &str)]) -> String {
    if is_own_page(&raw) {
        return format!("< {}, a page of the server\n", raw.status);
    }
    let body = body(&raw, folders);
    headers(&mut raw);
    let mut out = format!("< {} {}", raw.status, reason(&raw)).trim_end().to_owned();
    out.push_str(if raw.whole { "\n" } else { ", cut off\n" });
    for (name, value) in &raw.headers {
        let _ = writeln!(out, "{name}: {}", shortened(value));
    }
    out.push_str(&body);
    out
}

/// Nothing in it comes from PHP, which names itself in every response (`expose_php`).
fn is_own_page(raw: &Raw) -> bool {
    raw.status >= 300
        && raw.header("x-powered-by").is_none()
        && (raw.body.is_empty() || raw.text().contains("<h1>"))
}

/// php-fpm knows no text for younger status codes, and nginx has one of its own for a redirection that it makes. Only a text of the
/// script's counts, which neither changes.
fn reason(raw: &Raw) -> &str {
    let usual = http::StatusCode::from_u16(raw.status).ok();
    match raw.reason.as_str() {
        "Moved Temporarily" => "",
        text if usual.and_then(|status| status.canonical_reason()) == Some(text) => "",
        text => text,
    }
}

/// Order counts among headers of one name only (RFC 9110 §5.3).
fn headers(raw: &mut Raw) {
    let length = raw.body.len().to_string();
    raw.headers.retain_mut(|(name, value)| {
        if name == "x-powered-by" && value.starts_with("PHP/") {
            "PHP".clone_into(value);
        }
        // Not a time that a script gave: those of the scripts are of another century.
        if matches!(name.as_str(), "expires" | "last-modified") && value.contains(" 20") {
            "a moment".clone_into(value);
        }
        // The length of a body that a script gave none for.
        let counted = name == "content-length" && *value == length;
        !(HEADERS.contains(&name.as_str()) || counted)
    });
    raw.headers.sort_by(|a, b| a.0.cmp(&b.0));
}

fn body(raw: &Raw, folders: &[(&Path, &str)]) -> String {
    if raw.body.is_empty() {
        return String::new();
    }
    let digest = || format!("| ({} bytes, SHA-256 {})\n", raw.body.len(), sha256(&raw.body, 1));
    let Ok(text) = std::str::from_utf8(&raw.body) else {
        return digest();
    };
    let version = raw.header("x-powered-by").unwrap_or("PHP");
    let text = folders
        .iter()
        .fold(text.replace(version, "PHP"), |text, (folder, name)| {
            text.replace(&folder.display().to_string(), name)
        });
    let environment: Vec<String> = std::env::vars()
        .map(|(name, _)| format!("server.{name}"))
        .collect();
    let lines = text.split('\n').filter(|line| {
        let name = line.split(' ').next().unwrap_or_default();
        !(VARIABLES.contains(&name)
            || environment.iter().any(|own| own == name)
            || line.starts_with("server ["))
    });
    let mut out = String::new();
    for line in lines {
        let _ = match line {
            "" => writeln!(out, "|"),
            line => writeln!(out, "| {}", shortened(line)),
        };
    }
    if out.len() > LONGEST_BODY { digest() } else { out }
}

/// Control characters become visible.
fn shortened(line: &str) -> String {
    if line.len() > LONGEST_LINE {
        let start: String = line.chars().take(60).collect();
        return format!(
            "{}… ({} bytes, SHA-256 {})",
            shortened(&start),
            line.len(),
            sha256(line.as_bytes(), 1)
        );
    }
    line.chars()
        .map(|c| match c {
            '\t' => c.to_string(),
            _ if c.is_control() => c.escape_default().to_string(),
            _ => c.to_string(),
        })
        .collect()
}
