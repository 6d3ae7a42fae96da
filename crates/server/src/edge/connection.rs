//! A connection from its first byte to its end: what it is, and who serves it.
//!
//! Called by `listen` for each accepted connection. Runs in: server, on one reactor.

use std::future::{Future, poll_fn};
use std::io::ErrorKind;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::select;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use super::access_log::AccessLog;
use super::files::sendfile::Outbox;
use super::http2::frames::PREFACE;
use super::http2::upgrade;
use super::peer::proxy_protocol::{self, Proxied};
use super::peer::{Addresses, Scheme};
use super::progress::Progress;
use super::site::route::Lookup;
use super::tls::{self, Agreed, Handshake};
use super::transport::Transport;
use super::{Backend, Sites, http1, http2, linger, reply};
use crate::config::Config;

/// What a handshake may still take when the server stops: a client that has come this far has a request.
const HANDSHAKE_AT_STOP: Duration = Duration::from_secs(1);

/// What the connections of one reactor share.
pub(super) struct Shared<B: Backend> {
    pub(super) sites: Arc<Sites<B::Pools>>,
    pub(super) backend: B,
    pub(super) files: Lookup,
    tasks: TaskTracker,
    leaving: AtomicBool,
    stopping: AtomicBool,
    /// Notified with `leave`.
    pub(super) left: Notify,
    /// Notified with `stop`.
    pub(super) stopped: Notify,
}

impl<B: Backend> Shared<B> {
    pub(super) fn new(sites: Arc<Sites<B::Pools>>, backend: B) -> Self {
        let (files, tasks) = (Lookup::default(), TaskTracker::new());
        Self {
            sites,
            backend,
            files,
            tasks,
            leaving: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            left: Notify::new(),
            stopped: Notify::new(),
        }
    }

    /// Every task of this reactor.
    pub(super) fn tasks(&self) -> &TaskTracker {
        &self.tasks
    }

    /// From now on each connection ends with the request it is at, or with its next one: an idle one is not closed, which its client
    /// might see only behind a request it has sent.
    pub(super) fn leave(&self) {
        // Relaxed: the connections run on this thread.
        self.leaving.store(true, Ordering::Relaxed);
        self.left.notify_waiters();
    }

    /// Whether [`Shared::leave`] was called.
    pub(super) fn is_leaving(&self) -> bool {
        // Relaxed: as above.
        self.leaving.load(Ordering::Relaxed)
    }

    /// Whether [`Shared::stop`] was called; it stays as it is during a poll.
    pub(super) fn is_stopping(&self) -> bool {
        // Relaxed: as above.
        self.stopping.load(Ordering::Relaxed)
    }

    /// From now on each connection ends with the request it is at, an idle one at once.
    pub(super) fn stop(&self) {
        self.leave();
        // Relaxed: as above.
        self.stopping.store(true, Ordering::Relaxed);
        self.stopped.notify_waiters();
    }
}

/// The connection, as its requests see it.
pub(super) struct Client {
    /// That of the connection's first moment: its limits hold to its end.
    pub(super) config: Arc<Config>,
    pub(super) log: Option<Arc<AccessLog>>,
    pub(super) tasks: TaskTracker,
    pub(super) addresses: Addresses,
    /// Whether it may say for whom it speaks.
    pub(super) is_trusted: bool,
    /// Requests so far. Relaxed: all run on this thread.
    requests: AtomicU64,
    pub(super) progress: Arc<Progress>,
    /// What the kernel is to send, past hyper; `None` over TLS, and with HTTP/2, which would put frames around it.
    pub(super) outbox: Option<Arc<Outbox>>,
}

impl Client {
    /// Counts a request. True for the last one that the connection may have.
    pub(super) fn is_last_request(&self) -> bool {
        let count = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        let limit = self.config.limits.requests_per_connection;
        limit > 0 && count >= limit
    }
}

/// Serves `socket` until either side ends it.
pub(super) async fn serve<B: Backend>(mut socket: Transport, shared: Arc<Shared<B>>, encrypted: bool) {
    let mut begun = Instant::now();
    let config = Arc::clone(&shared.sites.now().config);
    let Some(mut addresses) = introduce(&mut socket, &config, &shared).await else {
        return;
    };
    let is_trusted = config.trusted_proxies.trusts(addresses.client);
    let place = match addresses.client {
        // A proxy's connections are those of many clients.
        Some(client) if !is_trusted => {
            let place = shared
                .sites
                .clients
                .enter(client, config.limits.connections_per_client);
            if place.is_none() {
                debug!(
                    client = addresses.remote(),
                    "connection refused: its client has too many"
                );
                return;
            }
            place
        }
        _ => None,
    };
    let mut agreed_on = None;
    if encrypted {
        let Some((secure, agreed)) = encrypt(socket, (&config, &shared), &addresses).await else {
            return;
        };
        (socket, begun) = (secure, Instant::now());
        agreed_on = Some(if agreed.http2 {
            Version::Http2
        } else {
            Version::Http1
        });
        addresses.scheme = Scheme::Https;
        addresses.tls = Some(agreed.variables.into());
    }
    let version = spoken(&mut socket, &shared, &config, (agreed_on, is_trusted)).await;
    let Some(version) = version else {
        return linger::part(socket).await;
    };
    let progress = Arc::new(Progress::new(begun));
    let client = Arc::new(Client {
        config,
        log: shared.sites.log.clone(),
        tasks: shared.tasks.clone(),
        addresses,
        is_trusted,
        requests: AtomicU64::new(0),
        progress,
        outbox: (version == Version::Http1 && !encrypted).then(Arc::default),
    });
    match version {
        Version::Http1 => http1::serve(socket, &shared, &client).await,
        Version::Http2 => http2::serve(socket, &shared, &client).await,
    }
    drop(place);
}

/// Makes a connection an encrypted one. `None`: it is over.
async fn encrypt<B: Backend>(
    socket: Transport,
    (config, shared): (&Config, &Shared<B>),
    addresses: &Addresses,
) -> Option<(Transport, Agreed)> {
    let asks_clients = config.tls.clients.is_some();
    let client = addresses.remote();
    let shaken = select! {
        shaken = tls::shake(socket, &shared.sites.tls, asks_clients) => shaken,
        () = impatience(config, shared) => {
            debug!(client, "connection closed: no TLS handshake in time");
            return None;
        }
    };
    match shaken {
        Handshake::Done(socket, agreed) => return Some((socket, agreed)),
        Handshake::Plain(socket) => {
            debug!(client, "connection closed: HTTP in the clear where TLS is spoken");
            linger::close(socket, &reply::not_encrypted()).await;
        }
        Handshake::Over(why) => debug!(client, why, "connection closed: no TLS handshake"),
    }
    None
}

/// What is spoken, if nothing else was agreed on. `None`: the connection is over.
async fn spoken<B: Backend>(
    socket: &mut Transport,
    shared: &Shared<B>,
    config: &Config,
    (agreed_on, is_trusted): (Option<Version>, bool),
) -> Option<Version> {
    match (agreed_on, version(socket, shared, config).await) {
        (None, Some(Version::Http1)) if config.h2c_upgrade && !is_trusted => {
            upgraded(socket, shared, config).await
        }
        // What was agreed on holds (RFC 9113 §3.3, §3.4).
        (Some(Version::Http2), Some(Version::Http1)) => None,
        (Some(Version::Http1), Some(_)) => Some(Version::Http1),
        (_, seen) => seen,
    }
}

/// What is spoken on a connection that has begun with HTTP/1 in the clear. `None`: it is over.
async fn upgraded<B: Backend>(
    socket: &mut Transport,
    shared: &Shared<B>,
    config: &Config,
) -> Option<Version> {
    let offer = upgrade::offered(socket.before()).filter(|_| !shared.is_leaving());
    let Some(offer) = offer else {
        return Some(Version::Http1);
    };
    select! {
        accepted = upgrade::accept(socket, offer) => match accepted {
            Ok(()) => return Some(Version::Http2),
            Err(error) => debug!(%error, "connection closed: an upgrade to HTTP/2 failed"),
        },
        () = impatience(config, shared) => debug!("connection closed: no HTTP/2 after an upgrade in time"),
    }
    None
}

/// Ends when a handshake has lasted long enough.
async fn impatience<B: Backend>(config: &Config, shared: &Shared<B>) {
    let mut stopped = pin!(shared.stopped.notified());
    stopped.as_mut().enable();
    let sleep = tokio::time::sleep(config.limits.header_timeout);
    select! {
        () = sleep => {}
        () = stopped, if !shared.is_stopping() => tokio::time::sleep(HANDSHAKE_AT_STOP).await,
        () = tokio::time::sleep(HANDSHAKE_AT_STOP), if shared.is_stopping() => {}
    }
}

/// What is spoken on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    Http1,
    Http2,
}

/// By its first bytes. `None`: it failed or ended, said nothing in time, or has said nothing when the server stops.
async fn version<B: Backend>(socket: &mut Transport, shared: &Shared<B>, config: &Config) -> Option<Version> {
    let mut stopped = pin!(shared.stopped.notified());
    let mut patience = pin!(None);
    poll_fn(|cx| {
        if let Poll::Ready(version) = poll_version(socket, cx) {
            return Poll::Ready(version);
        }
        let stopping = shared.is_stopping() || stopped.as_mut().poll(cx).is_ready();
        if stopping && !socket.has_unread() {
            return Poll::Ready(None);
        }
        // Most connections have said something by now and need no timer.
        if patience.is_none() {
            patience.set(Some(tokio::time::sleep(config.limits.header_timeout)));
        }
        let patience = patience.as_mut().as_pin_mut();
        if patience.is_some_and(|sleep| sleep.poll(cx).is_ready()) {
            // Who stopped within the preface is told so.
            return Poll::Ready((!socket.before().is_empty()).then_some(Version::Http1));
        }
        Poll::Pending
    })
    .await
}

/// HTTP/2 begins with a preface that HTTP/1 refuses (RFC 9113 §3.3).
fn poll_version(socket: &mut Transport, cx: &mut Context<'_>) -> Poll<Option<Version>> {
    loop {
        let seen = socket.before();
        let known = seen.len().min(PREFACE.len());
        if !seen.starts_with(PREFACE.get(..known).unwrap_or_default()) {
            return Poll::Ready(Some(Version::Http1));
        }
        if known == PREFACE.len() {
            return Poll::Ready(Some(Version::Http2));
        }
        match ready!(socket.poll_ahead(cx)) {
            Ok(0) => return Poll::Ready((!socket.before().is_empty()).then_some(Version::Http1)),
            Ok(_) => {}
            Err(_) => return Poll::Ready(None),
        }
    }
}

/// Who speaks with whom, by the PROXY protocol where it is asked for. `None`: the connection is over.
async fn introduce<B: Backend>(
    socket: &mut Transport,
    config: &Config,
    shared: &Shared<B>,
) -> Option<Addresses> {
    let addresses = socket.addresses().ok()?;
    if !config.trusted_proxies.protocol || !config.trusted_proxies.trusts(addresses.client) {
        return Some(addresses);
    }
    let mut stopped = pin!(shared.stopped.notified());
    stopped.as_mut().enable();
    let said = select! {
        said = timeout(config.limits.header_timeout, proxy_protocol::receive(socket)) => said,
        () = stopped, if !shared.is_stopping() => return None,
    };
    match said {
        Ok(Ok(None)) => Some(addresses),
        Ok(Ok(Some(Proxied { source, destination }))) => {
            Some(Addresses::of_tcp(source, destination, addresses.scheme))
        }
        // A proxy that looks whether anyone listens.
        Ok(Err(error)) if error.kind() == ErrorKind::UnexpectedEof => None,
        Ok(Err(error)) => {
            warn!(proxy = addresses.remote(), %error, "connection closed: no PROXY header from a trusted proxy");
            None
        }
        Err(_) => {
            warn!(
                proxy = addresses.remote(),
                "connection closed: no PROXY header in time"
            );
            None
        }
    }
}
