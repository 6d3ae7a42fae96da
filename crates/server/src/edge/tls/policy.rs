//! What browsers are told so that they come back encrypted: a redirection, and `Strict-Transport-Security` (RFC 6797).
//!
//! Called by `exchange`. Runs in: server, on a reactor.

use http::header::{HeaderMap, STRICT_TRANSPORT_SECURITY};
use http::{request, uri};

use super::super::addresses::{Addresses, Scheme};
use super::super::reply_body::Content;
use super::super::{check, reply};
use super::Tls;
use super::challenges::PATH as CHALLENGES;
use crate::config::{Config, Place, Protocol};

/// What is answered before any rule or script is looked for: what an authority asks for, and in the clear the way to the same page,
/// encrypted.
pub(in super::super) fn aside(
    (head, path): (&request::Parts, &[u8]),
    (tls, config): (&Tls, &Config),
    addresses: &Addresses,
) -> Option<http::Response<Content>> {
    if let Some(answer) = tls.challenges.at(path) {
        return Some(reply::challenge(answer, &head.method));
    }
    // Others may have asked the authority, and put what it looks for into a file.
    if !config.tls.redirect || addresses.scheme == Scheme::Https || path.starts_with(CHALLENGES) {
        return None;
    }
    let location = encrypted(head, config, &addresses.server_addr);
    Some(reply::encrypted(&location, &head.method))
}

fn encrypted(head: &request::Parts, config: &Config, here: &str) -> String {
    let named = check::name_of(check::host_of(&head.uri, &head.headers));
    let named = std::str::from_utf8(named).ok().filter(|host| !host.is_empty());
    // HTTP/1.0 knows no names.
    let host = named.map_or_else(|| here.to_owned(), str::to_owned);
    let listens = config.listen.iter().find_map(|listen| match listen.place {
        Place::Tcp(address) if listen.protocol == Protocol::Https => Some(address.port()),
        Place::Tcp(_) | Place::Unix(_) => None,
    });
    let port = config.tls.redirect_port.or(listens);
    // Of a free port the settings do not know the number.
    let port = port.filter(|port| !matches!(port, 0 | 443));
    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
    let target = head.uri.path_and_query().map_or("/", uri::PathAndQuery::as_str);
    format!("https://{host}{port}{target}")
}

/// Tells a client that came by `scheme` to come back encrypted, unless the application has.
pub(in super::super) fn insist(config: &Config, scheme: Scheme, headers: &mut HeaderMap) {
    let Some(hsts) = &config.tls.hsts else { return };
    if scheme == Scheme::Https && !headers.contains_key(STRICT_TRANSPORT_SECURITY) {
        headers.insert(STRICT_TRANSPORT_SECURITY, hsts.clone());
    }
}
