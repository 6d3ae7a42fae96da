//! HTTP: from the listening socket to a `dispatch::Request`, and back.
//!
//! One request passes `listen` (accept, choice of a reactor and of the protocol) → `connection` (`peer`: who is it? `tls`) → `http1` or
//! `http2` (deadlines) → `exchange`: `check` (is it well formed?) → `site` (which pool? file, script or refusal?) → `body` (received in
//! full) → `params` (CGI variables) → the [`Backend`] → `reply` (status, headers, error pages), compressed by `packing` → `record`,
//! `access_log`. `files` answers without PHP; web servers come by `fastcgi`. This module does not know workers; it is not the place for
//! limits on PHP either. Called by `app`. Runs in: server, on the reactors.

pub(crate) mod access_log;
mod body;
mod check;
mod connection;
mod exchange;
mod fastcgi;
mod files;
mod http1;
mod http2;
mod linger;
mod listen;
mod listener;
mod own;
mod packing;
mod params;
mod peer;
mod progress;
mod record;
mod reply;
mod site;
#[cfg(test)]
mod tests;
mod timer;
pub(crate) mod tls;
mod transport;

use std::future::Future;
use std::sync::Arc;

use crate::config::ByteSize;
use crate::dispatch::{DispatchError, Pool, Reactor, Request, Response};

pub(crate) use listen::split;
pub(crate) use listener::Listener;
pub(crate) use own::{health_request, warmup_requests};
pub(crate) use site::htaccess::survey;
pub(crate) use site::{Site, Sites};

/// What answers the requests that no file answers: one a reactor. Product code has one, pools of workers; tests of this module
/// have others.
pub(crate) trait Backend: Send + Sync + 'static {
    /// What of it belongs to a site, and goes with it.
    type Pools: Send + Sync + 'static;

    /// Has pool `number` of `pools` run `request`; returns its response as soon as the head is known.
    fn send(
        &self,
        pools: (&Self::Pools, usize),
        request: Request,
    ) -> impl Future<Output = Result<Response, DispatchError>> + Send;

    /// Bytes of a body that PHP takes in pool `number` of `pools`.
    fn post_max_size(&self, pools: (&Self::Pools, usize)) -> ByteSize;

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
    /// For each pool, one door a reactor.
    type Pools = Vec<Vec<Pool>>;

    async fn send(
        &self,
        (pools, number): (&Self::Pools, usize),
        request: Request,
    ) -> Result<Response, DispatchError> {
        match pools.get(number).and_then(|doors| doors.get(self.number)) {
            Some(door) => door.send(request).await,
            // Never: each pool has a door on each reactor.
            None => Err(DispatchError::Stopping),
        }
    }

    fn post_max_size(&self, (pools, number): (&Self::Pools, usize)) -> ByteSize {
        let door = pools.get(number).and_then(|doors| doors.get(self.number));
        ByteSize(door.map_or(0, Pool::post_max_size))
    }

    fn look(&self) {
        self.reactor.look();
    }
}
