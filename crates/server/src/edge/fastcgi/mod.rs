//! FastCGI: Hearth in the place of php-fpm, behind nginx, Apache or any web server that speaks it.
//!
//! One request passes `wire`, `records` (bytes to records) → `exchange` (what it is, from its first record to its last) → `variables`,
//! `script` (as php-fpm reads them) → `stdin`, `edge::body` (received in full) → `request` (which pool?) → the [`Backend`] → `answer`
//! (CGI text in records) → `entry` (access log). What a site serves by itself (files, redirects) is the web server's affair here.
//! Called by `listen`. Runs in: server, on a reactor.

mod answer;
mod entry;
mod exchange;
mod records;
mod request;
mod script;
mod stdin;
mod variables;
mod wire;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;

use tracing::{debug, warn};

use self::exchange::Connection;
use self::wire::{Lost, Wire};
use super::connection::Shared;
use super::transport::Transport;
use super::{Backend, linger};

/// Serves the connection of a web server until either side ends it.
pub(super) async fn serve<B: Backend>(socket: Transport, shared: &Shared<B>) {
    let config = Arc::clone(&shared.sites.now().config);
    let Ok(addresses) = socket.addresses() else { return };
    let peer = addresses.remote();
    // A unix socket's file says itself who may.
    let is_allowed = |address| {
        config
            .fastcgi
            .allowed
            .iter()
            .any(|network| network.contains(address))
    };
    if !addresses.client.is_none_or(is_allowed) {
        warn!(
            peer,
            "FastCGI connection refused: its address is not one of fastcgi.allowed"
        );
        return;
    }
    let mut connection = Connection {
        wire: Wire::new(socket, &config.limits),
        shared,
        config,
        is_unread: false,
    };
    let end = {
        let mut running = pin!(connection.run());
        poll_fn(|cx| {
            shared.backend.look();
            running.as_mut().poll(cx)
        })
        .await
    };
    match end {
        Ok(()) if connection.is_unread || connection.wire.has_input() => {
            linger::close(connection.wire.into_socket(), b"").await;
        }
        Ok(()) => {}
        Err(lost @ (Lost::Gone | Lost::Cut)) => debug!(peer, reason = %lost, "FastCGI connection ended"),
        Err(lost) => warn!(peer, reason = %lost, "FastCGI connection closed"),
    }
}
