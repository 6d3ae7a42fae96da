//! Health, readiness and status over TCP, for probes. Nothing can be told here, and whoever reaches the address may ask.
//!
//! So a connection is for one question, which must come at once, and when all seats are taken the connection that has been silent
//! for longest makes room: a probe is answered whatever other connections do. Called by `app`. Runs in: server, on the main thread.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv6Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::HOST;
use hyper::http::uri::Authority;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::serve::{self, Answer, PATIENCE, REST};
use super::{Ask, HEALTH, READY, STATUS};
use crate::config::Config;
use crate::sockets::tcp;

/// Connections at a time.
const SEATS: usize = 64;
/// Longest time from the start of a connection to the end of its question.
const HEAD: Duration = Duration::from_secs(1);
/// What may be asked.
const ROUTES: [&str; 3] = [HEALTH, READY, STATUS];

/// A TCP address for probes.
#[derive(Debug)]
pub(crate) struct ProbeListener {
    listener: TcpListener,
    hosts: Arc<[String]>,
}

/// A connection.
struct Seat {
    task: AbortHandle,
    /// Its question has come.
    has_asked: Arc<AtomicBool>,
}

impl ProbeListener {
    /// Listens at `address`.
    pub(crate) fn bind(address: SocketAddr, config: &Config) -> io::Result<Self> {
        let socket = tcp::bind(address)?;
        socket.listen(tcp::BACKLOG)?;
        Ok(Self::adopt(socket.into(), config))
    }

    /// One that listens already.
    pub(crate) fn adopt(listener: TcpListener, config: &Config) -> Self {
        let hosts = config.admin_hosts.as_slice().into();
        Self { listener, hosts }
    }

    /// Another handle of it, for a successor.
    pub(crate) fn share(&self) -> io::Result<TcpListener> {
        self.listener.try_clone()
    }

    /// The address that is bound.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until then. What is asked goes to `asks`.
    pub(crate) async fn serve(self, asks: mpsc::Sender<Ask>, until: CancellationToken) -> io::Result<()> {
        self.listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(self.listener)?;
        let (mut tasks, mut seats) = (JoinSet::new(), Vec::with_capacity(SEATS));
        loop {
            while tasks.try_join_next().is_some() {}
            let stream = match until.run_until_cancelled(listener.accept()).await {
                None => break,
                Some(Ok((stream, _))) => stream,
                Some(Err(error)) => {
                    warn!(%error, "accepting a connection for probes failed");
                    tokio::time::sleep(REST).await;
                    continue;
                }
            };
            make_room(&mut seats);
            let has_asked = Arc::new(AtomicBool::new(false));
            let (asks, hosts) = (asks.clone(), Arc::clone(&self.hosts));
            let task = tasks.spawn(converse(stream, asks, (hosts, Arc::clone(&has_asked))));
            seats.push(Seat { task, has_asked });
            // Else many could come in before this one has been read, and take its seat.
            tokio::task::yield_now().await;
        }
        while tasks.join_next().await.is_some() {}
        Ok(())
    }
}

/// Leaves a free seat: the oldest connection that has not asked goes, or else the oldest.
fn make_room(seats: &mut Vec<Seat>) {
    if seats.len() < SEATS {
        return;
    }
    seats.retain(|seat| !seat.task.is_finished());
    if seats.len() < SEATS {
        return;
    }
    // Relaxed: nothing else is shared, and all of this runs on one thread.
    let is_silent = |seat: &Seat| !seat.has_asked.load(Ordering::Relaxed);
    let oldest = seats.iter().position(is_silent).unwrap_or(0);
    seats.remove(oldest).task.abort();
}

async fn converse(
    stream: TcpStream,
    asks: mpsc::Sender<Ask>,
    (hosts, has_asked): (Arc<[String]>, Arc<AtomicBool>),
) {
    let service = service_fn(async |request| {
        has_asked.store(true, Ordering::Relaxed);
        Ok::<_, Infallible>(answer(request, &asks, &hosts).await)
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .keep_alive(false);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    // As long for the answer to be taken as for the server to give it.
    match tokio::time::timeout(HEAD + 2 * PATIENCE, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => debug!(%error, "connection for probes ended"),
        Err(_) => debug!("connection for probes ended: its answer was not taken"),
    }
}

async fn answer(request: Request<Incoming>, asks: &mpsc::Sender<Ask>, hosts: &[String]) -> Answer {
    if !is_known(&request, hosts) {
        let why =
            "no host of this name answers probes: ask by an IP address or localhost, or set admin_hosts";
        return serve::error(StatusCode::MISDIRECTED_REQUEST, why);
    }
    let path = request.uri().path();
    if ROUTES.contains(&path) {
        serve::answer(request, asks).await
    } else {
        serve::nothing_at(path)
    }
}

/// Whether it was asked for by an address, as `localhost` or by one of `hosts`. Else a page in a browser on this machine could read
/// the answer once the name that the page came from leads here. Browsers always send a name.
fn is_known(request: &Request<Incoming>, hosts: &[String]) -> bool {
    let named = match (request.uri().authority(), request.headers().get(HOST)) {
        (Some(authority), _) => Some(authority.clone()),
        (None, Some(host)) => match Authority::try_from(host.as_bytes()) {
            Ok(authority) => Some(authority),
            Err(_) => return false,
        },
        (None, None) => None,
    };
    named.is_none_or(|authority| is_host(authority.host(), hosts))
}

fn is_host(name: &str, hosts: &[String]) -> bool {
    let v6 = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    v6.is_some_and(|address| address.parse::<Ipv6Addr>().is_ok())
        || name.parse::<std::net::Ipv4Addr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || hosts.iter().any(|host| name.eq_ignore_ascii_case(host))
}
