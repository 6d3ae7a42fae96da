//! What is served and how, the same for all reactors; and which pool gets a request. A reload puts another site in its place.
//!
//! `rules` and `route` say what answers a path, `private` and `htaccess` what is kept from
//! clients, `gate` keeps requests back while files change. Called by the
//! other modules of `edge`, and by `app`, which makes sites. Runs in: server.

mod gate;
pub(crate) mod htaccess;
mod private;
pub(super) mod route;
pub(super) mod rules;

use std::sync::Arc;

use arc_swap::ArcSwap;
use http::request;

use self::gate::Gate;
use self::route::Router;
use super::access_log::AccessLog;
use super::check;
use super::files::shelf::Files;
use super::peer::clients::Clients;
use super::reply::error_pages::Pages;
use super::tls::Tls;
use crate::config::{Acme, Config, Requests};

/// What is served.
#[derive(Debug)]
pub(crate) struct Site<P> {
    pub(super) config: Arc<Config>,
    routers: Vec<(Requests, Router)>,
    pub(super) pools: P,
}

impl<P> Site<P> {
    /// `pools` answer what no file answers, in the order of the configuration.
    pub(crate) fn new(config: Arc<Config>, pools: P) -> Self {
        let routers = config.pools.iter();
        let routers = routers.map(|pool| (pool.requests.clone(), Router::new(pool, Pages::new(pool))));
        Self {
            routers: routers.collect(),
            config,
            pools,
        }
    }

    /// The router of a pool.
    pub(super) fn router(&self, pool: usize) -> Option<&Router> {
        self.routers.get(pool).map(|(_, router)| router)
    }

    /// Whether an `Idempotency-Key` says to this pool that a request may run again (draft-ietf-httpapi-idempotency-key-header).
    pub(super) fn believes_keys(&self, pool: usize) -> bool {
        self.config
            .pools
            .get(pool)
            .is_some_and(|pool| pool.idempotency_key)
    }

    /// Number of the pool that gets a request for `path`, decoded, and its router.
    pub(super) fn pick(&self, head: &request::Parts, path: &[u8]) -> (usize, &Router) {
        self.pick_for(|| host(head), path)
    }

    /// The same for a request to `host`, which has no port and is in small letters.
    #[expect(
        clippy::indexing_slicing,
        reason = "there is always a first pool, which takes what no other wants"
    )]
    pub(super) fn pick_for(&self, host: impl FnOnce() -> String, path: &[u8]) -> (usize, &Router) {
        if self.routers.len() == 1 {
            return (0, &self.routers[0].1);
        }
        let host = host();
        let wants = |(number, (requests, _)): (usize, &(Requests, Router))| {
            Some((specificity(requests, &host, path)?, number))
        };
        let others = self.routers.iter().enumerate().skip(1);
        let best = others
            .filter_map(wants)
            .max_by_key(|(specific, number)| (*specific, usize::MAX - number));
        let number = best.map_or(0, |(_, number)| number);
        (number, &self.routers[number].1)
    }
}

/// The host that a request is for, as patterns name it.
pub(super) fn host(head: &request::Parts) -> String {
    plain_name(check::host_of(&head.uri, &head.headers))
}

/// `host` without its port, in small letters, without the dot that may end it.
pub(super) fn plain_name(host: &[u8]) -> String {
    let name = String::from_utf8_lossy(check::name_of(host));
    name.trim_end_matches('.').to_ascii_lowercase()
}

/// How closely a request is meant: characters of the host's and of the path's pattern. `None`: not at all.
fn specificity(requests: &Requests, host: &str, path: &[u8]) -> Option<(usize, usize)> {
    let of_host = best(&requests.hosts, |pattern| is_host_of(pattern, host))?;
    let of_path = best(&requests.paths, |pattern| is_path_of(pattern, path))?;
    Some((of_host, of_path))
}

/// Whether `path` is what `pattern` names: `/a`, or `/a/*` for all below it and itself.
pub(super) fn is_path_of(pattern: &str, path: &[u8]) -> bool {
    match pattern.strip_suffix("/*") {
        Some(folder) => path
            .strip_prefix(folder.as_bytes())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/")),
        None => pattern.as_bytes() == path,
    }
}

/// Whether `host` is the one that `pattern` names, or one of those below it.
pub(super) fn is_host_of(pattern: &str, host: &str) -> bool {
    match pattern.strip_prefix("*.") {
        Some(domain) => host
            .strip_suffix(domain)
            .is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
        None => pattern == host,
    }
}

/// Length of the longest pattern that fits; 0 where there is none to fit.
fn best(patterns: &[String], fits: impl Fn(&str) -> bool) -> Option<usize> {
    if patterns.is_empty() {
        return Some(0);
    }
    let fitting = patterns.iter().filter(|pattern| fits(pattern));
    fitting.map(String::len).max()
}

/// The site of now, and the log of all.
#[derive(Debug)]
pub(crate) struct Sites<P> {
    current: ArcSwap<Site<P>>,
    gate: Gate,
    pub(super) files: Files,
    pub(super) log: Option<Arc<AccessLog>>,
    pub(super) clients: Arc<Clients>,
    /// Certificates; `app` loads them.
    pub(crate) tls: Tls,
}

impl<P> Sites<P> {
    /// The last line of the access log has been written: nothing is served any more.
    pub(crate) fn close_log(&self) {
        if let Some(log) = &self.log {
            log.close();
        }
    }

    /// `log` is `None` where no access log is wanted.
    pub(crate) fn new(first: Site<P>, log: Option<AccessLog>) -> Self {
        Self {
            current: ArcSwap::from_pointee(first),
            gate: Gate::new(),
            files: Files::default(),
            log: log.map(Arc::new),
            clients: Arc::new(Clients::new()),
            tls: Tls::new(),
        }
    }

    /// Requests that come from now on are `site`'s; so are those whose body is still being received.
    pub(crate) fn switch_to(&self, site: Site<P>) {
        self.current.store(Arc::new(site));
    }

    /// A file has changed: requests wait until [`Sites::settle`].
    pub(crate) fn hold(&self) {
        self.gate.close();
    }

    /// How often files have changed.
    pub(crate) fn changes(&self) -> u64 {
        self.gate.changes()
    }

    /// Requests go on: to the site of now, or to a page that says what is `broken`. Unless files have changed since there were so many
    /// `changes`.
    pub(crate) fn settle(&self, changes: u64, broken: Option<&str>) {
        self.gate.settle(changes, broken);
    }

    /// The site for a request that comes now; it waits while files change. The error says why there is nothing to run. Cancel-safe.
    pub(super) async fn open(&self) -> Result<Arc<Site<P>>, Arc<str>> {
        self.gate.pass().await?;
        Ok(self.now())
    }

    /// Where certificates come from by now, if nobody keeps them in files.
    pub(crate) fn acme(&self) -> Option<Acme> {
        self.now().config.tls.acme.clone()
    }

    pub(super) fn now(&self) -> Arc<Site<P>> {
        self.current.load_full()
    }
}

#[cfg(test)]
mod tests {
    use http::header::HOST;

    use super::*;

    fn requests(hosts: &[&str], paths: &[&str]) -> Requests {
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        Requests {
            hosts: owned(hosts),
            paths: owned(paths),
        }
    }

    /// Hosts and paths of a pool, host and path of a request, and how closely it is meant.
    type Row<'a> = (
        &'a [&'a str],
        &'a [&'a str],
        &'a str,
        &'a str,
        Option<(usize, usize)>,
    );

    #[test]
    fn patterns_fit_what_they_name() {
        let table: [Row<'_>; 12] = [
            (&["a.b"], &[], "a.b", "/", Some((3, 0))),
            (&["a.b"], &[], "c.a.b", "/", None),
            (&["*.a.b"], &[], "c.a.b", "/", Some((5, 0))),
            (&["*.a.b"], &[], "a.b", "/", None),
            (&["*.a.b"], &[], "xa.b", "/", None),
            (&["*.a.b", "c.a.b"], &[], "c.a.b", "/x", Some((5, 0))),
            (&[], &["/x"], "any", "/x", Some((0, 2))),
            (&[], &["/x"], "any", "/x/y", None),
            (&[], &["/x/*"], "any", "/x", Some((0, 4))),
            (&[], &["/x/*"], "any", "/x/y", Some((0, 4))),
            (&[], &["/x/*"], "any", "/xy", None),
            (&["a.b"], &["/x"], "a.b", "/y", None),
        ];
        for (hosts, paths, host, path, expected) in table {
            let found = specificity(&requests(hosts, paths), host, path.as_bytes());
            assert_eq!(found, expected, "{hosts:?} {paths:?} {host} {path}");
        }
    }

    #[test]
    fn the_host_is_that_of_the_target_or_the_header() {
        let table = [
            ("http://Shop.Example:81/x", "other", "shop.example"),
            ("/x", "Shop.Example.:81", "shop.example"),
            ("/x", "[::1]:81", "[::1]"),
            ("/x", "[::1]", "[::1]"),
        ];
        for (target, header, expected) in table {
            let request = http::Request::get(target).header(HOST, header).body(()).unwrap();
            assert_eq!(host(&request.into_parts().0), expected, "{target} {header}");
        }
    }
}
