//! The admin socket: how a running server is asked about itself, and told what to do.
//!
//! A unix socket that only the server's own user and root may use. It speaks HTTP, with JSON as bodies, so `curl --unix-socket`
//! is a client as good as `hearth status`. What is asked becomes an [`Ask`], which `app` answers: this module knows how to ask,
//! not what the answer is. Called by `app` (server side) and `cli` (client side). Runs in: server, on the main thread; [`client`]
//! in the command that asks.
//!
//! | module | what |
//! |---|---|
//! | [`place`] | where the socket of a project is |
//! | [`listen`] | the server's side: the socket file |
//! | [`serve`] | the server's side: connections, routes |
//! | [`probes`] | the server's side over TCP, where little may be asked |
//! | [`client`] | the command's side |

pub(crate) mod client;
pub(crate) mod listen;
pub(crate) mod place;
pub(crate) mod probes;
pub(crate) mod serve;

use tokio::sync::oneshot;

use crate::report::{Health, Leaks, Readiness, ReloadOrder, Reloaded, Status, StopOrder, Stopping, Upgraded};

/// Path of [`Ask::Status`].
pub(crate) const STATUS: &str = "/status";
/// Path of [`Ask::Health`].
pub(crate) const HEALTH: &str = "/health";
/// Path of [`Ask::Ready`].
pub(crate) const READY: &str = "/ready";
/// Path of [`Ask::Leaks`].
pub(crate) const LEAKS: &str = "/leaks";

/// Path of [`Ask::Reload`].
pub(crate) const RELOAD: &str = "/reload";
/// Path of [`Ask::Rollback`].
pub(crate) const ROLLBACK: &str = "/rollback";

/// Path of [`Ask::Upgrade`].
pub(crate) const UPGRADE: &str = "/upgrade";
/// Path of [`Ask::Stop`].
pub(crate) const STOP: &str = "/stop";

/// What came of an order: done, or why not.
pub(crate) type Outcome<T = Reloaded> = Result<T, String>;

/// Something that the server is asked, or told to do. An answer that never comes makes the client wait no longer than [`serve::PATIENCE`].
#[derive(Debug)]
pub(crate) enum Ask {
    /// `GET /status`.
    Status(oneshot::Sender<Status>),
    /// `GET /health`.
    Health(oneshot::Sender<Health>),
    /// `GET /ready`: status 200 if it is so, else 503.
    Ready(oneshot::Sender<Readiness>),
    /// `GET /leaks`.
    Leaks(oneshot::Sender<Leaks>),
    /// `POST /reload`. The answer comes when it is done, however long that takes.
    Reload(ReloadOrder, oneshot::Sender<Outcome>),
    /// `POST /rollback`. Likewise.
    Rollback(oneshot::Sender<Outcome>),
    /// `POST /upgrade`. The answer comes when another server has taken over, or has not.
    Upgrade(oneshot::Sender<Outcome<Upgraded>>),
    /// `POST /stop`. The answer comes at once.
    Stop(StopOrder, oneshot::Sender<Outcome<Stopping>>),
}
