//! The requests that the server makes itself: to warm an application, and to see whether it works. They look as if they came from a
//! client on this machine.
//!
//! They are made of the same parts as real ones, so that the application sees the variables it sees later. Those that warm have
//! another way to PHP: the zygote gets them when it boots. Called by `app`. Runs in: server.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use http::{Request, header};
use tokio::time::Instant;
use tracing::warn;

use super::params::{self, Source};
use super::peer::{Addresses, Scheme};
use super::reply::error_pages::Pages;
use super::site::route::{self, Lookup, Route, Router};
use crate::config::{Listen, Mode, Place, Pool, Protocol, Warmup};
use crate::dispatch::{self, RequestBody, RequestId};

/// `User-Agent` of those that warm, by which logs and applications can tell them.
const WARMUP: &str = concat!("hearth-warmup/", env!("CARGO_PKG_VERSION"));
/// `User-Agent` of those that see whether it works.
const HEALTH: &str = concat!("hearth-health/", env!("CARGO_PKG_VERSION"));

/// Where the server can be reached, of all that it listens at: the port that clients are likely to use, and the scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Front {
    port: u16,
    scheme: Scheme,
}

impl Front {
    fn of(listen: &[Listen]) -> Self {
        let port_of = |protocol| {
            listen.iter().find_map(|listen| match &listen.place {
                Place::Tcp(address) if listen.protocol == protocol => Some(address.port()),
                // Behind a unix socket there is another server.
                Place::Tcp(_) | Place::Unix(_) => None,
            })
        };
        // Who comes in the clear may be sent there.
        let https = port_of(Protocol::Https).map(|port| (port, Scheme::Https));
        let (port, scheme) = https.unwrap_or_else(|| (port_of(Protocol::Http).unwrap_or(80), Scheme::Http));
        Self { port, scheme }
    }

    const fn default_port(self) -> u16 {
        match self.scheme {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }
}

/// What the requests to a pool have in common.
struct Own {
    router: Router,
    agent: &'static str,
    host: String,
    front: Front,
}

/// Their heads, encoded. The server can be reached at `listen`. A path that no script answers is left out and said.
pub(crate) fn warmup_requests(pool: &Pool, listen: &[Listen]) -> Vec<Vec<u8>> {
    if pool.mode == Mode::Classic || pool.warmup == Warmup::None {
        return Vec::new();
    }
    let (own, paths) = (Own::new(pool, WARMUP, listen), pool.warmup_paths.clone());
    let encode_all = move || {
        let encode = |path: &String| {
            let head = own.encode(path);
            if head.is_none() {
                warn!(path, "warm-up request left out: no script answers this path");
            }
            head
        };
        paths.iter().filter_map(encode).collect()
    };
    pool.rights.lend(&pool.root, encode_all).unwrap_or_else(|error| {
        warn!(pool = pool.name, %error, "warm-up requests left out");
        Vec::new()
    })
}

/// The request by which the `health` of `pool` is to be shown. `None`: none is wanted, or no script answers its path.
pub(crate) fn health_request(pool: &Pool, listen: &[Listen]) -> io::Result<Option<dispatch::Request>> {
    let path = pool.health.path.clone();
    if path.is_empty() {
        return Ok(None);
    }
    let own = Own::new(pool, HEALTH, listen);
    let head = pool.rights.lend(&pool.root, move || own.encode(&path))?;
    Ok(head.map(|head| dispatch::Request {
        id: RequestId::next(),
        head,
        body: RequestBody::Empty,
        idempotent: true,
        interim: None,
    }))
}

impl Own {
    fn new(pool: &Pool, agent: &'static str, listen: &[Listen]) -> Self {
        let front = Front::of(listen);
        Self {
            router: Router::new(pool, Pages::default()),
            agent,
            host: host(pool, front),
            front,
        }
    }

    /// On a thread with the rights of the pool.
    fn encode(&self, path: &str) -> Option<Vec<u8>> {
        let request = Request::get(path)
            .header(header::HOST, &*self.host)
            .header(header::USER_AGENT, self.agent)
            .header(header::ACCEPT, "*/*")
            .body(())
            .ok()?;
        let (head, ()) = request.into_parts();
        let decoded = route::decode(head.uri.path()).ok()?;
        let files = Lookup::default();
        let Ok(Route::Script(script)) = self.router.route(&decoded, &files, Instant::now()) else {
            return None;
        };
        let here = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), self.front.port);
        Some(params::encode(&Source {
            id: RequestId::next(),
            head: &head,
            script: &script,
            query: head.uri.query().unwrap_or_default(),
            root: self.router.root(),
            addresses: &Addresses::of_tcp(SocketAddr::new(here.ip(), 0), here, self.front.scheme),
            body: None,
        }))
    }
}

/// One that leads to this pool. A port that is the default of its scheme is not named.
fn host(pool: &Pool, front: Front) -> String {
    let hosts = &pool.requests.hosts;
    let named = hosts.iter().find(|host| !host.starts_with('*'));
    let name = named.map_or("localhost", String::as_str);
    if front.port == front.default_port() {
        name.to_owned()
    } else {
        format!("{name}:{}", front.port)
    }
}

#[cfg(test)]
mod tests {
    use ipc::head::{Known, RequestReader};

    use super::super::tests::config;
    use super::*;

    fn heads(mode: Mode, warmup: Warmup, paths: &[&str]) -> Vec<Vec<u8>> {
        let dir = std::env::temp_dir();
        let mut config = config(&dir, mode);
        config.pools[0].warmup = warmup;
        config.pools[0].warmup_paths = paths.iter().map(|&path| path.to_owned()).collect();
        let listen = Listen {
            place: Place::Tcp("0.0.0.0:8080".parse().unwrap()),
            protocol: Protocol::Http,
        };
        warmup_requests(&config.pools[0], &[listen])
    }

    #[test]
    fn a_warm_up_request_looks_like_one_from_this_machine() {
        let heads = heads(Mode::Resident, Warmup::Clean, &["/a%20b?c=d", "/"]);
        assert_eq!(heads.len(), 2);
        let reader = RequestReader::new(&heads[0]).unwrap();
        assert_eq!(reader.known(Known::Uri).unwrap(), b"/a%20b?c=d");
        assert_eq!(reader.known(Known::Query).unwrap(), b"c=d");
        assert_eq!(reader.known(Known::Method).unwrap(), b"GET");
        let value = |name: &str| {
            let mut params = reader.params();
            let param = params.find(|param| param.name == name.as_bytes()).unwrap();
            String::from_utf8_lossy(param.value).into_owned()
        };
        assert_eq!(value("HTTP_HOST"), "localhost:8080");
        assert_eq!(value("HTTP_USER_AGENT"), WARMUP);
        assert_eq!(value("SERVER_NAME"), "localhost");
        assert_eq!(value("REMOTE_ADDR"), "127.0.0.1");
        assert!(value("SCRIPT_FILENAME").ends_with("/worker.php"));
    }

    #[test]
    fn there_is_none_for_a_pool_that_is_not_warmed() {
        assert!(heads(Mode::Classic, Warmup::Clean, &["/"]).is_empty());
        assert!(heads(Mode::Resident, Warmup::None, &["/"]).is_empty());
    }
}
