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
mod params;
mod range;
mod reply;
mod reply_body;
mod route;
mod static_files;
#[cfg(test)]
mod tests;
mod warmup;
mod wire;

use std::future::Future;
use std::sync::Arc;

use crate::config::Config;
use crate::dispatch::{DispatchError, Pool, Request, Response};

pub(crate) use listen::{Intake, bind, split};
pub(crate) use warmup::warmup_requests;

/// What answers the requests that no file answers: one handle a reactor. Product code has one, a pool of workers; tests of this
/// module have others.
pub(crate) trait Backend: Clone + Send + Sync + 'static {
    /// Runs `request` and returns its response as soon as the head is known.
    fn send(&self, request: Request) -> impl Future<Output = Result<Response, DispatchError>> + Send;

    /// Called at each turn of a connection: a reactor that never rests would not see otherwise that responses have come in.
    fn look(&self) {}
}

impl Backend for Pool {
    fn send(&self, request: Request) -> impl Future<Output = Result<Response, DispatchError>> + Send {
        Self::send(self, request)
    }

    fn look(&self) {
        Self::look(self);
    }
}

/// What is served and how: the same for all reactors.
#[derive(Debug)]
pub(crate) struct Site {
    config: Arc<Config>,
    router: route::Router,
    log: Option<access_log::AccessLog>,
}

impl Site {
    /// `log` is `None` where no access log is wanted.
    pub(crate) fn new(config: Arc<Config>, log: Option<access_log::AccessLog>) -> Self {
        let router = route::Router::new(&config);
        Self { config, router, log }
    }
}
