//! For whom does a trusted proxy speak? `Forwarded` (RFC 7239) and the `X-Forwarded-` headers, read from the right: a proxy appends what it
//! has seen, so an entry is as good as the one behind it is trusted, and what a client has written itself stands on the left.
//!
//! Changes what a request says of its client, host and scheme, and nothing of its headers but `Host`. From a peer that is not trusted the
//! headers change nothing. Called by `record`. Runs in: server, on a reactor.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

use http::header::{FORWARDED, HOST, HeaderMap, HeaderValue};
use http::{Uri, request};

use super::{Addresses, Scheme};
use crate::config::{ProxyHeader, TrustedProxies};
use crate::edge::check;

/// A hop by its address, with its port where that is known.
type Node = (IpAddr, Option<u16>);

/// What a proxy says, and is believed.
#[derive(Debug, Default, PartialEq, Eq)]
struct Said {
    client: Option<Node>,
    scheme: Option<Scheme>,
    host: Option<String>,
    port: Option<u16>,
}

/// The addresses of a request from a trusted peer with these of its connection; its head's host is the one that the client asked for then.
/// `None`: the connection's are its own.
pub(in crate::edge) fn apply(
    head: &mut request::Parts,
    addresses: &Addresses,
    proxy: &TrustedProxies,
) -> Option<Box<Addresses>> {
    let said = read(&head.headers, proxy);
    // What is refused is refused as it came.
    if said == Said::default() || check::head(head).is_err() {
        return None;
    }
    let mut own = Box::new(addresses.clone());
    if let Some((ip, port)) = said.client {
        own.client = Some(ip);
        own.remote_addr = ip.to_string();
        own.remote_port = port.map(|port| port.to_string()).unwrap_or_default();
    }
    if let Some(scheme) = said.scheme {
        own.scheme = scheme;
    }
    if let Some(host) = &said.host {
        set_host(head, host);
    }
    if said.scheme.is_some() || said.port.is_some() || said.host.is_some() {
        let port = said.port.or_else(|| port_of(head));
        let usual = match own.scheme {
            Scheme::Http => 80,
            Scheme::Https => 443,
        };
        own.server_port = port.unwrap_or(usual).to_string();
    }
    Some(own)
}

/// Has the request ask for `host`.
fn set_host(head: &mut request::Parts, host: &str) {
    let Ok(value) = HeaderValue::try_from(host) else {
        return;
    };
    head.headers.insert(HOST, value);
    if head.uri.authority().is_some() {
        let target = head.uri.path_and_query().cloned();
        head.uri = target.map_or_else(|| Uri::from_static("/"), Uri::from);
    }
}

fn port_of(head: &request::Parts) -> Option<u16> {
    let host = check::host_of(&head.uri, &head.headers);
    let port = host.get(check::name_of(host).len()..)?;
    number(std::str::from_utf8(port).ok()?.strip_prefix(':')?)
}

fn read(headers: &HeaderMap, proxy: &TrustedProxies) -> Said {
    let wants = |header| proxy.headers.contains(&header);
    if wants(ProxyHeader::Forwarded) && headers.contains_key(FORWARDED) {
        return forwarded(headers, proxy);
    }
    let mut said = Said::default();
    let mut hops = 1;
    if wants(ProxyHeader::For) {
        let lines = texts(headers, "x-forwarded-for");
        let list = list(&lines);
        (said.client, hops) = walk(list.iter().map(|one| node(one)), proxy);
    }
    if said.client.is_none() && wants(ProxyHeader::RealIp) {
        let lines = texts(headers, "x-real-ip");
        said.client = list(&lines).last().and_then(|one| node(one));
    }
    // A proxy that appends to one list appends to all, but many only set them: then they are shorter.
    let at = |name| {
        let lines = texts(headers, name);
        let list = list(&lines);
        let from_right = usize::min(hops, list.len());
        let at = list.len().checked_sub(from_right)?;
        list.get(at).map(|&one| one.to_owned())
    };
    if wants(ProxyHeader::Proto) {
        said.scheme = at("x-forwarded-proto").and_then(|one| scheme(&one));
    }
    if wants(ProxyHeader::Host) {
        said.host = at("x-forwarded-host").and_then(|one| host(&one));
    }
    if wants(ProxyHeader::Port) {
        said.port = at("x-forwarded-port").and_then(|one| number(&one));
    }
    said
}

/// The client by a list of hops, and how many of them were walked: to the first that is not trusted. One that is not understood ends it, since
/// nobody knows then who has written what is before it.
fn walk(
    hops: impl DoubleEndedIterator<Item = Option<Node>>,
    proxy: &TrustedProxies,
) -> (Option<Node>, usize) {
    let (mut client, mut count) = (None, 0);
    for hop in hops.rev() {
        count += 1;
        let Some(node) = hop else { break };
        client = Some(node);
        if !proxy.trusts(Some(node.0)) {
            break;
        }
    }
    (client, count.max(1))
}

/// RFC 7239 §4: an element a hop, with parameters each.
fn forwarded(headers: &HeaderMap, proxy: &TrustedProxies) -> Said {
    let lines = texts(headers, FORWARDED.as_str());
    let elements: Vec<&str> = lines.iter().flat_map(|line| elements(line)).collect();
    let parameter = |element: &str, wanted: &str| {
        split(element, b';').find_map(|pair| {
            let (name, value) = pair.split_once('=')?;
            name.trim()
                .eq_ignore_ascii_case(wanted)
                .then(|| unquoted(value.trim()))
        })
    };
    let nodes = elements
        .iter()
        .map(|element| parameter(element, "for").and_then(|value| node(&value)));
    let nodes: Vec<_> = nodes.collect();
    let (client, hops) = walk(nodes.into_iter(), proxy);
    let element = elements.len().checked_sub(hops).and_then(|at| elements.get(at));
    let said = |name| element.and_then(|element| parameter(element, name));
    Said {
        client,
        scheme: said("proto").and_then(|value| scheme(&value)),
        host: said("host").and_then(|value| host(&value)),
        port: None,
    }
}

/// What the hops have written into a line. Found from its right end: a client may have left a quote open, and what a proxy has put behind
/// it must stay what it is.
fn elements(line: &str) -> Vec<&str> {
    let (mut found, mut end, mut quoted) = (Vec::new(), line.len(), false);
    for (at, c) in line.char_indices().rev() {
        let before = line.get(..at).unwrap_or_default();
        let escaped = quoted && (before.len() - before.trim_end_matches('\\').len()) % 2 == 1;
        match c {
            '"' if !escaped => quoted = !quoted,
            ',' if !quoted => {
                found.push(line.get(at + 1..end).unwrap_or_default().trim());
                end = at;
            }
            _ => {}
        }
    }
    found.push(line.get(..end).unwrap_or_default().trim());
    found.reverse();
    found
}

/// Parts between separators that stand in no quoted string, without the space around them.
fn split(text: &str, separator: u8) -> impl Iterator<Item = &str> {
    let (mut quoted, mut escaped) = (false, false);
    text.split(move |c: char| {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            c => return !quoted && c == char::from(separator),
        }
        false
    })
    .map(str::trim)
}

/// RFC 9110 §5.6.4.
fn unquoted(value: &str) -> String {
    let Some(inner) = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
        return value.to_owned();
    };
    let mut escaped = false;
    let keep = |c: &char| {
        escaped = *c == '\\' && !escaped;
        !escaped
    };
    inner.chars().filter(keep).collect()
}

/// All lines of this name. A client may write bytes that are no text; what a proxy has put behind them is read all the same.
fn texts<'a>(headers: &'a HeaderMap, name: &str) -> Vec<Cow<'a, str>> {
    let values = headers.get_all(name).iter();
    values
        .map(|value| String::from_utf8_lossy(value.as_bytes()))
        .collect()
}

/// Elements of all lines of this name.
fn list<'a>(lines: &'a [Cow<'_, str>]) -> Vec<&'a str> {
    let elements = lines.iter().flat_map(|text| text.split(','));
    elements.map(str::trim).filter(|one| !one.is_empty()).collect()
}

/// `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]` or `[2001:db8::1]:80`.
fn node(text: &str) -> Option<Node> {
    let with_port = text.parse::<SocketAddr>().ok();
    let bare = || {
        let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        inner.unwrap_or(text).parse::<IpAddr>().ok()
    };
    match with_port {
        Some(address) => Some((address.ip().to_canonical(), Some(address.port()))),
        None => Some((bare()?.to_canonical(), None)),
    }
}

fn scheme(text: &str) -> Option<Scheme> {
    [Scheme::Http, Scheme::Https]
        .into_iter()
        .find(|scheme| scheme.as_str().eq_ignore_ascii_case(text))
}

fn host(text: &str) -> Option<String> {
    check::is_host(text.as_bytes()).then(|| text.to_owned())
}

fn number(text: &str) -> Option<u16> {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|port| digits && *port > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(headers: &[ProxyHeader]) -> TrustedProxies {
        TrustedProxies {
            addresses: vec!["10.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()],
            headers: headers.to_vec(),
            ..TrustedProxies::default()
        }
    }

    fn all() -> TrustedProxies {
        proxy(&[
            ProxyHeader::Forwarded,
            ProxyHeader::For,
            ProxyHeader::Proto,
            ProxyHeader::Host,
            ProxyHeader::Port,
            ProxyHeader::RealIp,
        ])
    }

    /// Client, port, scheme, host and port of the server as `lines` say them.
    fn said(lines: &[(&'static str, &str)], proxy: &TrustedProxies) -> String {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        let said = read(&headers, proxy);
        let client = said.client.map_or("-".to_owned(), |(ip, port)| match port {
            Some(port) => SocketAddr::new(ip, port).to_string(),
            None => ip.to_string(),
        });
        let scheme = said.scheme.map_or("-", Scheme::as_str);
        let port = said.port.map_or("-".to_owned(), |port| port.to_string());
        format!("{client} {scheme} {} {port}", said.host.as_deref().unwrap_or("-"))
    }

    #[test]
    fn x_forwarded_headers_are_read_from_the_right() {
        const FOR: &str = "x-forwarded-for";
        let rows: &[(&[(&str, &str)], &str)] = &[
            (&[], "- - - -"),
            (&[(FOR, "192.0.2.1")], "192.0.2.1 - - -"),
            (&[(FOR, "6.6.6.6, 192.0.2.1")], "192.0.2.1 - - -"),
            (&[(FOR, "6.6.6.6, 192.0.2.1, 10.0.0.1")], "192.0.2.1 - - -"),
            (
                &[(FOR, "6.6.6.6"), (FOR, "192.0.2.1,10.0.0.1,10.0.0.2")],
                "192.0.2.1 - - -",
            ),
            (&[(FOR, "10.0.0.3, 10.0.0.1")], "10.0.0.3 - - -"),
            (&[(FOR, "192.0.2.1, unknown, 10.0.0.1")], "10.0.0.1 - - -"),
            (&[(FOR, "192.0.2.1:4711")], "192.0.2.1:4711 - - -"),
            (
                &[(FOR, "[2001:db8::1]:4711, fd00::1")],
                "[2001:db8::1]:4711 - - -",
            ),
            (&[(FOR, "::ffff:192.0.2.1, ::ffff:10.0.0.1")], "192.0.2.1 - - -"),
            (&[(FOR, ", 192.0.2.1 ,")], "192.0.2.1 - - -"),
            (&[(FOR, "192.0.2.256")], "- - - -"),
            (&[("x-forwarded-proto", "https")], "- https - -"),
            (&[("x-forwarded-proto", "HTTPS, http")], "- http - -"),
            (
                &[(FOR, "192.0.2.1, 10.0.0.1"), ("x-forwarded-proto", "https, http")],
                "192.0.2.1 https - -",
            ),
            (
                &[
                    (FOR, "6.6.6.6, 192.0.2.1, 10.0.0.1"),
                    ("x-forwarded-proto", "https"),
                ],
                "192.0.2.1 https - -",
            ),
            (&[("x-forwarded-proto", "ftp")], "- - - -"),
            (
                &[
                    ("x-forwarded-host", "shop.example:8443"),
                    ("x-forwarded-port", "8443"),
                ],
                "- - shop.example:8443 8443",
            ),
            (
                &[("x-forwarded-host", "a b"), ("x-forwarded-port", "0")],
                "- - - -",
            ),
            (
                &[("x-forwarded-host", "evil/x"), ("x-forwarded-port", "+80")],
                "- - - -",
            ),
            (&[("x-forwarded-port", "70000")], "- - - -"),
            (&[("x-real-ip", "192.0.2.9")], "192.0.2.9 - - -"),
            (
                &[("x-real-ip", "192.0.2.9"), (FOR, "192.0.2.1")],
                "192.0.2.1 - - -",
            ),
        ];
        for (lines, expected) in rows {
            assert_eq!(said(lines, &all()), *expected, "{lines:?}");
        }
    }

    #[test]
    fn forwarded_is_read_from_the_right() {
        for (value, expected) in [
            ("for=192.0.2.1", "192.0.2.1 - - -"),
            (
                "For=192.0.2.1;Proto=https;host=shop.example;by=10.0.0.1",
                "192.0.2.1 https shop.example -",
            ),
            (
                "for=6.6.6.6;proto=http, for=192.0.2.1;proto=https, for=10.0.0.1;proto=http",
                "192.0.2.1 https - -",
            ),
            ("for=\"[2001:db8::1]:4711\"", "[2001:db8::1]:4711 - - -"),
            ("for=\"192.0.2.1:80\" ; proto=\"https\"", "192.0.2.1:80 https - -"),
            ("for=\"6.6.6.6, for=1.1.1.1\", for=192.0.2.1", "192.0.2.1 - - -"),
            ("for=192.0.2.1, for=_hidden, for=10.0.0.1", "10.0.0.1 - - -"),
            ("for=unknown;proto=https", "- https - -"),
            ("proto=https", "- https - -"),
            ("for=\"un\\known\"", "- - - -"),
            ("for=\"192.0.2.\\1\"", "192.0.2.1 - - -"),
            ("host=\"a b\"", "- - - -"),
            ("nonsense", "- - - -"),
            ("", "- - - -"),
        ] {
            assert_eq!(said(&[("forwarded", value)], &all()), expected, "{value}");
        }
        let both = [("forwarded", "for=192.0.2.1"), ("x-forwarded-for", "192.0.2.2")];
        assert_eq!(said(&both, &all()), "192.0.2.1 - - -");
        assert_eq!(said(&both, &proxy(&[ProxyHeader::For])), "192.0.2.2 - - -");
    }

    #[test]
    fn a_client_hides_nothing_that_a_proxy_puts_behind_its_own() {
        for (name, value, expected) in [
            ("x-forwarded-for", "\u{fe}, 192.0.2.1", "192.0.2.1 - - -"),
            ("x-forwarded-for", "192.0.2.1, \u{fe}", "- - - -"),
            (
                "forwarded",
                "for=6.6.6.6;x=\u{fe}, for=192.0.2.1",
                "192.0.2.1 - - -",
            ),
            ("forwarded", "for=\", for=192.0.2.1", "192.0.2.1 - - -"),
            (
                "forwarded",
                "for=6.6.6.6;x=\", for=\"192.0.2.1:80\"",
                "192.0.2.1:80 - - -",
            ),
            (
                "forwarded",
                "for=6.6.6.6;x=\"\\, for=192.0.2.1",
                "192.0.2.1 - - -",
            ),
            (
                "forwarded",
                "for=192.0.2.1;x=\"a\\\", for=6.6.6.6\", for=10.0.0.1",
                "192.0.2.1 - - -",
            ),
        ] {
            assert_eq!(said(&[(name, value)], &all()), expected, "{value}");
        }
    }

    #[test]
    fn the_host_of_the_proxy_takes_the_place_of_the_request_s() {
        let addresses = Addresses::of_tcp(
            "10.0.0.1:1000".parse().unwrap(),
            "10.0.0.2:8080".parse().unwrap(),
            Scheme::Http,
        );
        for target in ["/a?b", "http://inner:8080/a?b"] {
            let request = http::Request::get(target)
                .header(HOST, "inner:8080")
                .header("x-forwarded-host", "shop.example")
                .header("x-forwarded-proto", "https")
                .header("x-forwarded-for", "192.0.2.1");
            let (mut head, ()) = request.body(()).unwrap().into_parts();
            let own = apply(&mut head, &addresses, &all()).unwrap();
            assert_eq!(check::host_of(&head.uri, &head.headers), b"shop.example");
            assert_eq!(head.uri.path_and_query().unwrap(), "/a?b");
            assert_eq!(
                (own.remote_addr.as_str(), own.remote_port.as_str()),
                ("192.0.2.1", "")
            );
            assert_eq!((own.scheme, own.server_port.as_str()), (Scheme::Https, "443"));
            assert_eq!(own.server_addr, "10.0.0.2");
        }
    }
}
