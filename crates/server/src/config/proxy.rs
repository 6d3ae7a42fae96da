//! `[proxy]`: who may say for whom it speaks, and how. Read by `edge`. Runs in: server.

use std::net::IpAddr;

use super::file::Value;
use super::network::Network;
use super::reader::Reader;

/// What `proxy.trusted` has for clients over unix sockets.
const UNIX: &str = "unix";

/// Proxies in front of the server.
#[derive(Clone, Debug)]
pub struct Proxy {
    /// Addresses of those that are believed. Default: none.
    pub trusted: Vec<Network>,
    /// Whether what connects over a unix socket is believed. Default: no.
    pub unix: bool,
    /// Whether they send a header of the PROXY protocol first. Default: no.
    pub protocol: bool,
    /// Headers by which they say for whom they speak. Default: `X-Forwarded-For` and `X-Forwarded-Proto`.
    pub headers: Vec<ProxyHeader>,
}

/// A header by which a proxy says for whom it speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyHeader {
    /// `Forwarded`, RFC 7239.
    Forwarded,
    /// `X-Forwarded-For`
    For,
    /// `X-Forwarded-Proto`
    Proto,
    /// `X-Forwarded-Host`
    Host,
    /// `X-Forwarded-Port`
    Port,
    /// `X-Real-IP`
    RealIp,
}

impl ProxyHeader {
    const NAMES: [(&str, Self); 6] = [
        ("forwarded", Self::Forwarded),
        ("x-forwarded-for", Self::For),
        ("x-forwarded-proto", Self::Proto),
        ("x-forwarded-host", Self::Host),
        ("x-forwarded-port", Self::Port),
        ("x-real-ip", Self::RealIp),
    ];
}

impl Default for Proxy {
    fn default() -> Self {
        Self {
            trusted: Vec::new(),
            unix: false,
            protocol: false,
            headers: vec![ProxyHeader::For, ProxyHeader::Proto],
        }
    }
}

impl Proxy {
    /// Whether this peer is believed; `None` is one that came over a unix socket.
    pub fn trusts(&self, peer: Option<IpAddr>) -> bool {
        match peer {
            Some(address) => self.trusted.iter().any(|network| network.contains(address)),
            None => self.unix,
        }
    }
}

pub(super) fn proxy(reader: &mut Reader) -> Proxy {
    let mut proxy = Proxy::default();
    if let Some((texts, origin)) = reader.list("proxy.trusted") {
        for text in &texts {
            match text.parse() {
                _ if text == UNIX => proxy.unix = true,
                Ok(network) => proxy.trusted.push(network),
                Err(()) => {
                    let why = format!(
                        "\"{text}\": expected an address or a network, for instance \"10.0.0.7\", \"10.0.0.0/8\" or \"fd00::/8\"; \
                         or \"{UNIX}\" for clients over unix sockets"
                    );
                    reader.wrong(origin.clone(), "proxy.trusted", &Value::List(texts.clone()), &why);
                }
            }
        }
    }
    proxy.protocol = reader.switch("proxy.protocol", false);
    if let Some((texts, origin)) = reader.list("proxy.headers") {
        let mut headers = Vec::new();
        for text in &texts {
            let known = ProxyHeader::NAMES
                .iter()
                .find(|(name, _)| name.eq_ignore_ascii_case(text));
            if let Some((_, header)) = known {
                headers.push(*header);
            } else {
                let names: Vec<&str> = ProxyHeader::NAMES.iter().map(|(name, _)| *name).collect();
                let why = format!("\"{text}\" is none of {}", names.join(", "));
                reader.wrong(origin.clone(), "proxy.headers", &Value::List(texts.clone()), &why);
            }
        }
        proxy.headers = headers;
    }
    proxy
}
