//! What browsers are told so that they come back encrypted: a redirection, and `Strict-Transport-Security` (RFC 6797).
//!
//! Called by `exchange`. Runs in: server, on a reactor.

use std::net::IpAddr;

use http::header::{HeaderMap, STRICT_TRANSPORT_SECURITY};
use http::{request, uri};

use super::super::{check, reply};
use super::Tls;
use super::challenges::PATH as CHALLENGES;
use crate::config::{Config, Place, Protocol};
use crate::edge::peer::{Addresses, Scheme};
use crate::edge::reply::body::Content;

/// What is answered before any rule or script is looked for: what an authority asks for, and in the clear the way to the same page,
/// encrypted.
pub(in crate::edge) fn aside(
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
    let location = encrypted(head, config, &addresses.server_addr)?;
    Some(reply::encrypted(&location, &head.method))
}

/// The same URL, encrypted. `None`: nothing that this server could be called is known.
fn encrypted(head: &request::Parts, config: &Config, here: &str) -> Option<String> {
    let named = check::name_of(check::host_of(&head.uri, &head.headers));
    let named = std::str::from_utf8(named).ok().filter(|host| !host.is_empty());
    // HTTP/1.0 knows no names, and a unix socket has no address.
    let address = || {
        Some(match here.parse().ok()? {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => format!("[{address}]"),
        })
    };
    let host = named.map(str::to_owned).or_else(address)?;
    let listens = config.listen.iter().find_map(|listen| match listen.place {
        Place::Tcp(address) if listen.protocol == Protocol::Https => Some(address.port()),
        Place::Tcp(_) | Place::Unix(_) => None,
    });
    let port = config.tls.redirect_port.or(listens);
    // Of a free port the settings do not know the number.
    let port = port.filter(|port| !matches!(port, 0 | 443));
    let port = port.map(|port| format!(":{port}")).unwrap_or_default();
    let target = head.uri.path_and_query().map_or("/", uri::PathAndQuery::as_str);
    Some(format!("https://{host}{port}{target}"))
}

/// Tells a client that came by `scheme` to come back encrypted, unless the application has.
pub(in crate::edge) fn insist(config: &Config, scheme: Scheme, headers: &mut HeaderMap) {
    let Some(hsts) = &config.tls.hsts else { return };
    if scheme == Scheme::Https && !headers.contains_key(STRICT_TRANSPORT_SECURITY) {
        headers.insert(STRICT_TRANSPORT_SECURITY, hsts.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Mode;
    use crate::edge::tests::config;

    #[test]
    fn a_server_is_called_by_the_name_that_was_asked_for_or_by_its_address() {
        let config = config(&std::env::temp_dir(), Mode::Classic);
        for (host, here, expected) in [
            ("shop.test:8080", "192.0.2.1", Some("https://shop.test/a?b")),
            ("", "192.0.2.1", Some("https://192.0.2.1/a?b")),
            ("", "2001:db8::1", Some("https://[2001:db8::1]/a?b")),
            ("", "unix:/run/shop.sock", None),
        ] {
            let request = http::Request::get("/a?b").header("host", host).body(()).unwrap();
            let location = encrypted(&request.into_parts().0, &config, here);
            assert_eq!(location.as_deref(), expected, "{host} {here}");
        }
    }
}
