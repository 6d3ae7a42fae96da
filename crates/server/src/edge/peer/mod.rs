//! Who asks: the addresses of a connection as text, made once; with the scheme that its URLs have.
//!
//! `proxy_protocol` and `forwarded` hear for whom a trusted proxy speaks, `clients` counts what each client has and asks for. Called by
//! `connection` and `own`, read by `params` and `record`. Runs in: server, on a reactor.

pub(super) mod clients;
pub(super) mod forwarded;
pub(super) mod proxy_protocol;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// What URLs of this connection begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    /// In the clear.
    Http,
    /// Encrypted, so that `HTTPS` is set.
    Https,
}

impl Scheme {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

/// Names and values.
pub(super) type Variables = Arc<[(&'static str, String)]>;

/// Who speaks with whom, in the words of nginx.
#[derive(Clone, Debug)]
pub(super) struct Addresses {
    /// The client's; `None` over a unix socket.
    pub(super) client: Option<IpAddr>,
    pub(super) scheme: Scheme,
    pub(super) remote_addr: String,
    pub(super) remote_port: String,
    pub(super) server_addr: String,
    pub(super) server_port: String,
    /// Of an encrypted connection: what PHP is told of it.
    pub(super) tls: Option<Variables>,
}

impl Addresses {
    /// Of a TCP connection.
    pub(super) fn of_tcp(remote: SocketAddr, server: SocketAddr, scheme: Scheme) -> Self {
        Self {
            client: Some(remote.ip().to_canonical()),
            scheme,
            remote_addr: remote.ip().to_canonical().to_string(),
            remote_port: remote.port().to_string(),
            server_addr: server.ip().to_canonical().to_string(),
            server_port: server.port().to_string(),
            tls: None,
        }
    }

    /// Of a connection over the unix socket at `path`: as nginx gives them to PHP.
    pub(super) fn of_unix(path: &str, scheme: Scheme) -> Self {
        Self {
            client: None,
            scheme,
            remote_addr: "unix:".to_owned(),
            remote_port: String::new(),
            server_addr: format!("unix:{path}"),
            server_port: String::new(),
            tls: None,
        }
    }

    /// Of the client.
    pub(super) fn remote(&self) -> &str {
        &self.remote_addr
    }
}
