//! The differences between Hearth and nginx + php-fpm that are permitted: all of them, with their reasons, are in
//! `docs/parity.md`.

use std::fmt::Write;

use super::Case;
use crate::harness::Raw;

/// Headers of a response that belong to the server or to the connection.
const HEADERS: [&str; 5] = ["server", "date", "connection", "keep-alive", "transfer-encoding"];

/// Values of `$_SERVER` that name the server, its ports or the moment.
const VARIABLES: [&str; 9] = [
    "server.SERVER_SOFTWARE",
    "server.SERVER_PORT",
    "server.REMOTE_PORT",
    "server.REQUEST_TIME",
    "server.REQUEST_TIME_FLOAT",
    "server.HEARTH_REQUEST_ID",
    "server.HEARTH_WORKER",
    "server.FRANKENPHP_WORKER",
    "server.RUST_LOG",
];

/// A response as text, without what may differ.
pub(super) fn normalise(mut raw: Raw, case: &Case) -> String {
    if is_own_page(&raw) {
        return format!("a page of the server, status {}\n", raw.status);
    }
    headers(&mut raw, case);
    let mut out = format!("status {} {}\n", raw.status, reason(&raw));
    let _ = writeln!(out, "whole {}", raw.whole);
    for (name, value) in &raw.headers {
        let _ = writeln!(out, "{name}: {value}");
    }
    out.push('\n');
    out.push_str(&body(&raw, case));
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
fn headers(raw: &mut Raw, case: &Case) {
    let length = raw.body.len().to_string();
    raw.headers.retain(|(name, value)| {
        let own = HEADERS.contains(&name.as_str()) || case.permit.contains(&name.as_str());
        // The length of a body that a script gave none for.
        let counted = name == "content-length" && *value == length;
        !(own || counted)
    });
    raw.headers.sort_by(|a, b| a.0.cmp(&b.0));
}

fn body(raw: &Raw, case: &Case) -> String {
    let text: String = match std::str::from_utf8(&raw.body) {
        Ok(text) => text.to_owned(),
        Err(_) => raw.body.iter().copied().map(char::from).collect(),
    };
    let environment: Vec<String> = std::env::vars()
        .map(|(name, _)| format!("server.{name} "))
        .collect();
    let mut in_trace = false;
    let lines = text.lines().filter(|line| {
        let name = line.split(' ').next().unwrap_or_default();
        // A resident handler has frames of its worker script below it.
        in_trace = line.starts_with("#0 ") || in_trace && line.starts_with('#');
        !(in_trace
            || VARIABLES.contains(&name)
            || case.permit.contains(&name)
            || line.starts_with("server [")
            || line.starts_with("server.USER ")
            || line.starts_with("server.HOME ")
            || environment.iter().any(|variable| line.starts_with(variable)))
    });
    lines.collect::<Vec<_>>().join("\n")
}
