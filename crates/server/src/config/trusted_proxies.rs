//! `[trusted_proxies]`: who may say for whom it speaks, and how. Read by `edge`. Runs in: server.

use std::net::IpAddr;

use super::file::Value;
use super::network::Network;
use super::reader::Reader;

/// What `trusted_proxies.addresses` has for clients over unix sockets.
const UNIX: &str = "unix";
/// What it has for the addresses of networks that nobody reaches from outside.
const PRIVATE: &str = "private";

/// Proxies in front of the server that are believed.
#[derive(Clone, Debug)]
pub struct TrustedProxies {
    /// Addresses of those that are believed. Default: none.
    pub addresses: Vec<Network>,
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

impl Default for TrustedProxies {
    fn default() -> Self {
        Self {
            addresses: Vec::new(),
            unix: false,
            protocol: false,
            headers: vec![ProxyHeader::For, ProxyHeader::Proto],
        }
    }
}

impl TrustedProxies {
    /// Whether this peer is believed; `None` is one that came over a unix socket.
    pub fn trusts(&self, peer: Option<IpAddr>) -> bool {
        match peer {
            Some(address) => self.addresses.iter().any(|network| network.contains(address)),
            None => self.unix,
        }
    }
}

pub(super) fn trusted_proxies(reader: &mut Reader) -> TrustedProxies {
    const ADDRESSES: &str = "trusted_proxies.addresses";
    const HEADERS: &str = "trusted_proxies.headers";
    let mut proxies = TrustedProxies::default();
    if let Some((texts, origin)) = reader.list(ADDRESSES) {
        for text in &texts {
            match text.parse() {
                _ if text == UNIX => proxies.unix = true,
                _ if text == PRIVATE => proxies.addresses.extend(Network::PRIVATE),
                Ok(network) => proxies.addresses.push(network),
                Err(()) => {
                    let why = format!(
                        "\"{text}\": expected an address or a network, for instance \"10.0.0.7\", \"10.0.0.0/8\" or \"fd00::/8\"; \
                         \"{PRIVATE}\" for all private networks; or \"{UNIX}\" for clients over unix sockets"
                    );
                    reader.wrong(origin.clone(), ADDRESSES, &Value::List(texts.clone()), &why);
                }
            }
        }
    }
    proxies.protocol = reader.switch("trusted_proxies.protocol", false);
    if let Some((texts, origin)) = reader.list(HEADERS) {
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
                reader.wrong(origin.clone(), HEADERS, &Value::List(texts.clone()), &why);
            }
        }
        proxies.headers = headers;
    }
    proxies
}
