//! A server that takes the place of another one: what is said and handed over between the two processes.
//!
//! ```text
//! old server                                    new server: the same command, started by the old one
//!   SIGUSR2 ──► starts it ── belongings, sockets ──►  settings, boot, workers
//!   accepts no more ◄──────── ready, or why not ────
//!   drains, ends ──────────── yours ────────────────► accepts; admin socket, service manager
//! ```
//! The channel is the new server's standard input, which nobody reads otherwise. If either ends before `yours`, nothing has
//! changed: the old one serves on, or its end takes the new one along. Used by `successor` (in the old server) and `inherited` (in
//! the new one). Runs in: server, on the main thread.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// Names the process whose standard input the channel is, so that nothing else is taken for it.
pub(super) const PREDECESSOR: &str = "HEARTH_PREDECESSOR";

/// What the old server says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToSuccessor {
    /// First: the sockets that come with it, in this order, as the settings named them.
    Belongings {
        /// The project folder that is served; a deploy may have changed it since the start.
        dir: String,
        /// The listening sockets.
        listen: Vec<Handed>,
        /// The admin socket, by its path.
        admin: Option<String>,
        /// The listening socket of probes.
        admin_listen: Option<SocketAddr>,
        /// The pools that have a script: one that has none any more is not well.
        #[serde(default)]
        scripted: Vec<String>,
    },
    /// Last: everything is its own from now on.
    Yours,
}

/// A listening socket.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Handed {
    /// The URL by which the settings name it; none where a service manager has opened it instead.
    pub(super) named: Option<String>,
    /// What is spoken there, as URLs name it.
    pub(super) scheme: String,
}

/// What the new server says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FromSuccessor {
    /// It can serve.
    Ready {
        /// It has kept the admin socket.
        admin: bool,
    },
    /// It does not, and ends.
    Failed {
        /// As printed.
        reason: String,
    },
}
