//! HTTP: from the listening socket to a `dispatch::Request`, and back.
//!
//! One request passes `listen` (accept, choice of a reactor) → `http` (hyper, deadlines of the connection) → `check` (is it well
//! formed?) → `route` (static file, script or refusal?) → `body` (received in full) → `params` (CGI variables) → the [`Backend`]
//! → `reply` (status, headers, error pages) → `access_log`. This module does not know workers; it is not the place for limits on
//! PHP either. Called by `app`. Runs in: server, on the reactors.

pub(crate) mod access_log;

mod body;
mod check;
mod file_body;
mod http;
mod linger;
mod listen;
mod own;
mod params;
mod range;
mod reply;
mod reply_body;
mod route;
mod static_files;
#[cfg(test)]
mod tests;
mod wire;

use std::future::Future;
use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::config::Config;
use crate::dispatch::{DispatchError, Pool, Reactor, Request, Response};

pub(crate) use listen::{bind, split};
pub(crate) use own::{health_request, warmup_requests};

/// What answers the requests that no file answers: one a reactor. Product code has one, pools of workers; tests of this module
/// have others.
pub(crate) trait Backend: Send + Sync + 'static {
    /// What of it belongs to a site, and goes with it.
    type Pools: Send + Sync + 'static;

    /// Runs `request` and returns its response as soon as the head is known.
    fn send(
        &self,
        pools: &Self::Pools,
        request: Request,
    ) -> impl Future<Output = Result<Response, DispatchError>> + Send;

    /// Called at each turn of a connection: a reactor that never rests would not see otherwise that responses have come in.
    fn look(&self) {}
}

/// Dispatch, as one reactor's connections see it.
#[derive(Debug)]
pub(crate) struct Dispatch {
    /// The reactor.
    pub(crate) reactor: Arc<Reactor>,
    /// Its number.
    pub(crate) number: usize,
}

impl Backend for Dispatch {
    /// One door a reactor.
    type Pools = Vec<Pool>;

    async fn send(&self, doors: &Vec<Pool>, request: Request) -> Result<Response, DispatchError> {
        match doors.get(self.number) {
            Some(door) => door.send(request).await,
            // Never: each pool has a door on each reactor.
            None => Err(DispatchError::Stopping),
        }
    }

    fn look(&self) {
        self.reactor.look();
    }
}

/// What is served and how: the same for all reactors. A reload puts another in its place.
#[derive(Debug)]
pub(crate) struct Site<P> {
    config: Arc<Config>,
    router: route::Router,
    pools: P,
}

impl<P> Site<P> {
    /// `pools` answer what no file answers.
    pub(crate) fn new(config: Arc<Config>, pools: P) -> Self {
        let router = route::Router::new(&config);
        Self {
            config,
            router,
            pools,
        }
    }
}

/// The site of now, and the log of all.
#[derive(Debug)]
pub(crate) struct Sites<P> {
    current: ArcSwap<Site<P>>,
    log: Option<Arc<access_log::AccessLog>>,
}

impl<P> Sites<P> {
    /// `log` is `None` where no access log is wanted.
    pub(crate) fn new(first: Site<P>, log: Option<access_log::AccessLog>) -> Self {
        Self {
            current: ArcSwap::from_pointee(first),
            log: log.map(Arc::new),
        }
    }

    /// Requests that come from now on are `site`'s; so are those whose body is still being received.
    pub(crate) fn switch_to(&self, site: Site<P>) {
        self.current.store(Arc::new(site));
    }

    fn now(&self) -> Arc<Site<P>> {
        self.current.load_full()
    }
}
