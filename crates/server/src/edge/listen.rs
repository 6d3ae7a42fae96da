//! Accepts connections and hands each to the reactor with the fewest; the one place that knows which protocol is served by what.
//!
//! One acceptor for all: with a listening socket a reactor, or with all reactors on one socket, a burst of keep-alive connections
//! ends up on whichever was quick, and stays there. The acceptor waits when `limits.connections` are open (more wait in the
//! kernel's queue) and rests when descriptors run out. At a stop it first takes what the kernel has accepted, so that no connection
//! is lost. Called by `app`. Runs in: server; [`Acceptor::run`] on any runtime, [`Intake::serve`] on its reactor.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::connection::{self, Shared};
use super::fastcgi;
use super::listener::{Listener, Listening};
use super::transport::Accepted;
use super::{Backend, Sites};
use crate::config::Protocol;

/// Connections on their way to a reactor.
const HANDOVER: usize = 256;
/// Rest after an error such as too many open files.
const REST: Duration = Duration::from_millis(100);

/// One acceptor and an intake for each of `reactors`; at most `limit` connections at a time.
pub(crate) fn split(reactors: usize, limit: usize) -> (Acceptor, Vec<Intake>) {
    let open = Arc::new(Open {
        total: AtomicUsize::new(0),
        closed: Notify::new(),
    });
    let (seats, intakes) = (0..reactors.max(1))
        .map(|_| {
            let (sender, receiver) = mpsc::channel(HANDOVER);
            let load = Arc::new(AtomicUsize::new(0));
            (
                Seat {
                    sender,
                    load: Arc::clone(&load),
                },
                Intake { receiver },
            )
        })
        .unzip();
    (
        Acceptor {
            seats,
            open,
            limit: limit.max(1),
        },
        intakes,
    )
}

/// Connections that are open. Every access to the counts is relaxed: they guide, they guard no memory.
#[derive(Debug)]
struct Open {
    total: AtomicUsize,
    closed: Notify,
}

/// Accepts.
#[derive(Debug)]
pub(crate) struct Acceptor {
    seats: Vec<Seat>,
    open: Arc<Open>,
    limit: usize,
}

#[derive(Debug)]
struct Seat {
    sender: mpsc::Sender<Guest>,
    load: Arc<AtomicUsize>,
}

/// A connection with its place in the counts.
#[derive(Debug)]
struct Guest {
    socket: Accepted,
    protocol: Protocol,
    _counted: Counted,
}

#[derive(Debug)]
struct Counted {
    load: Arc<AtomicUsize>,
    open: Arc<Open>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        // Relaxed: see `Open`.
        self.load.fetch_sub(1, Ordering::Relaxed);
        self.open.total.fetch_sub(1, Ordering::Relaxed);
        self.open.closed.notify_one();
    }
}

/// A listening socket on the acceptor's runtime.
#[derive(Debug)]
struct Entrance {
    socket: Socket,
    protocol: Protocol,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Acceptor {
    /// Accepts until `leave` and closes the listening sockets. At a `stop` it first takes what the kernel has accepted; else that is
    /// for whoever else listens there.
    pub(crate) async fn run(
        self,
        listeners: Vec<Listener>,
        (leave, stop): (CancellationToken, CancellationToken),
    ) -> io::Result<()> {
        let entrances: Vec<Entrance> = listeners.iter().map(Entrance::new).collect::<io::Result<_>>()?;
        let mut first = 0;
        // Cancel-safe: what `step` has accepted it hands over without waiting.
        while let Some(result) = leave.run_until_cancelled(self.step(&entrances, first)).await {
            first = match result {
                // The one behind it has its turn.
                Ok(number) => number + 1,
                Err(error) => {
                    warn!(%error, "accepting a connection failed");
                    // None: told to leave meanwhile.
                    let _ = leave.run_until_cancelled(tokio::time::sleep(REST)).await;
                    first + 1
                }
            };
        }
        for listener in &listeners {
            while stop.is_cancelled() && self.open.total.load(Ordering::Relaxed) < self.limit {
                let Ok(socket) = listener.socket.accept_now() else {
                    break;
                };
                self.hand_over(socket, listener.listen.protocol).await;
            }
        }
        Ok(())
    }

    /// Accepts one connection; `first` is the entrance that is looked at first. Returns by which it came.
    async fn step(&self, entrances: &[Entrance], first: usize) -> io::Result<usize> {
        while self.open.total.load(Ordering::Relaxed) >= self.limit {
            self.open.closed.notified().await;
        }
        let seat = self.quietest();
        let Ok(place) = seat.sender.reserve().await else {
            return Err(io::Error::other("a reactor has ended"));
        };
        let count = entrances.len().max(1);
        let accepted = poll_fn(|cx| {
            let mut turns = (0..entrances.len()).map(|turn| (first + turn) % count);
            turns
                .find_map(|number| {
                    let entrance = entrances.get(number)?;
                    match entrance.poll_accept(cx) {
                        Poll::Ready(socket) => Some(Poll::Ready((number, entrance.protocol, socket))),
                        Poll::Pending => None,
                    }
                })
                .unwrap_or(Poll::Pending)
        });
        match accepted.await {
            (number, protocol, Ok(socket)) => {
                place.send(self.count(socket, protocol, seat));
                Ok(number)
            }
            (number, _, Err(error)) if is_of_one_connection(&error) => Ok(number),
            (_, _, Err(error)) => Err(error),
        }
    }

    async fn hand_over(&self, socket: Accepted, protocol: Protocol) {
        let seat = self.quietest();
        // Fails only when the reactor has ended.
        let _ = seat.sender.send(self.count(socket, protocol, seat)).await;
    }

    fn count(&self, socket: Accepted, protocol: Protocol, seat: &Seat) -> Guest {
        seat.load.fetch_add(1, Ordering::Relaxed);
        self.open.total.fetch_add(1, Ordering::Relaxed);
        let counted = Counted {
            load: Arc::clone(&seat.load),
            open: Arc::clone(&self.open),
        };
        Guest {
            socket,
            protocol,
            _counted: counted,
        }
    }

    #[expect(clippy::indexing_slicing, reason = "`split` makes at least one seat")]
    fn quietest(&self) -> &Seat {
        let load = |seat: &&Seat| seat.load.load(Ordering::Relaxed);
        self.seats.iter().min_by_key(load).unwrap_or(&self.seats[0])
    }
}

impl Entrance {
    fn new(listener: &Listener) -> io::Result<Self> {
        let socket = match &listener.socket {
            Listening::Tcp(socket) => Socket::Tcp(TcpListener::from_std(socket.try_clone()?)?),
            Listening::Unix(socket) => Socket::Unix(UnixListener::from_std(socket.try_clone()?)?),
        };
        Ok(Self {
            socket,
            protocol: listener.listen.protocol,
        })
    }

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<Accepted>> {
        match &self.socket {
            Socket::Tcp(listener) => listener
                .poll_accept(cx)
                .map(|accepted| Ok(Accepted::Tcp(accepted?.0.into_std()?))),
            Socket::Unix(listener) => listener
                .poll_accept(cx)
                .map(|accepted| Ok(Accepted::Unix(accepted?.0.into_std()?))),
        }
    }
}

/// Errors of `accept(2)` that say nothing about the next connection.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, PermissionDenied};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionReset | Interrupted | PermissionDenied
    )
}

/// Where a reactor gets its connections.
#[derive(Debug)]
pub(crate) struct Intake {
    receiver: mpsc::Receiver<Guest>,
}

impl Intake {
    /// Serves connections until the acceptor has ended and the last connection is closed. After `leave`, each ends with the request
    /// that it is at, or with its next one; after `stop`, idle ones are closed at once. How long that may take is the caller's
    /// affair (dropping the runtime cuts them).
    pub(crate) async fn serve<B: Backend>(
        mut self,
        sites: Arc<Sites<B::Pools>>,
        backend: B,
        (leave, stop): (CancellationToken, CancellationToken),
    ) {
        let shared = Arc::new(Shared::new(sites, backend));
        // Ends when the acceptor has: so a client that sees its idle connection close finds that nobody listens.
        while let Some(guest) = self.receiver.recv().await {
            admit(guest, &shared);
        }
        // An acceptor that ended by itself leaves connections that live on.
        leave.cancelled().await;
        shared.leave();
        shared.tasks().close();
        // None: stopped. Else there is nobody left to be told.
        let _ = stop.run_until_cancelled(shared.tasks().wait()).await;
        shared.stop();
        shared.tasks().wait().await;
    }
}

fn admit<B: Backend>(guest: Guest, shared: &Arc<Shared<B>>) {
    let Guest {
        socket,
        protocol,
        _counted: counted,
    } = guest;
    let socket = match socket.register() {
        Ok(socket) => socket,
        Err(error) => {
            warn!(%error, "taking over a connection failed");
            return;
        }
    };
    let for_task = Arc::clone(shared);
    match protocol {
        Protocol::Http | Protocol::Https => shared.tasks().spawn(async move {
            connection::serve(socket, for_task, protocol == Protocol::Https).await;
            drop(counted);
        }),
        Protocol::FastCgi => shared.tasks().spawn(async move {
            fastcgi::serve(socket, &for_task).await;
            drop(counted);
        }),
    };
}
