//! Accepts connections and hands each to the reactor with the fewest.
//!
//! One acceptor for all: with a listening socket a reactor, or with all reactors on one socket, a burst of keep-alive connections
//! ends up on whichever was quick, and stays there. The acceptor waits when `limits.connections` are open (more wait in the
//! kernel's queue) and rests when descriptors run out. At a stop it first takes what the kernel has accepted, so that no connection
//! is lost. Called by `app`. Runs in: server; [`Acceptor::run`] on any runtime, [`Intake::serve`] on its reactor.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::connection::{self, Shared};
use super::{Backend, Sites};

/// Connections the kernel holds until they are accepted (at most `net.core.somaxconn`).
const BACKLOG: i32 = 4096;
/// Connections on their way to a reactor.
const HANDOVER: usize = 256;
/// Rest after an error such as too many open files.
const REST: Duration = Duration::from_millis(100);

/// Listens at `address`.
pub(crate) fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

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
    socket: TcpStream,
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

impl Acceptor {
    /// Accepts until `leave` and closes the listening socket. At a `stop` it first takes what the kernel has accepted; else that is
    /// for whoever else listens there. The socket must not block.
    pub(crate) async fn run(
        self,
        listener: TcpListener,
        (leave, stop): (CancellationToken, CancellationToken),
    ) -> io::Result<()> {
        let last = listener.try_clone()?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        // Cancel-safe: what `step` has accepted it hands over without waiting.
        while let Some(result) = leave.run_until_cancelled(self.step(&listener)).await {
            if let Err(error) = result {
                warn!(%error, "accepting a connection failed");
                // None: told to leave meanwhile.
                let _ = leave.run_until_cancelled(tokio::time::sleep(REST)).await;
            }
        }
        while stop.is_cancelled() && self.open.total.load(Ordering::Relaxed) < self.limit {
            let Ok((socket, _)) = last.accept() else { break };
            self.hand_over(socket).await;
        }
        Ok(())
    }

    /// Accepts one connection.
    async fn step(&self, listener: &tokio::net::TcpListener) -> io::Result<()> {
        while self.open.total.load(Ordering::Relaxed) >= self.limit {
            self.open.closed.notified().await;
        }
        let seat = self.quietest();
        let Ok(place) = seat.sender.reserve().await else {
            return Err(io::Error::other("a reactor has ended"));
        };
        match listener.accept().await.and_then(|(socket, _)| socket.into_std()) {
            Ok(socket) => {
                place.send(self.count(socket, seat));
                Ok(())
            }
            Err(error) if is_of_one_connection(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn hand_over(&self, socket: TcpStream) {
        let seat = self.quietest();
        // Fails only when the reactor has ended.
        let _ = seat.sender.send(self.count(socket, seat)).await;
    }

    fn count(&self, socket: TcpStream, seat: &Seat) -> Guest {
        seat.load.fetch_add(1, Ordering::Relaxed);
        self.open.total.fetch_add(1, Ordering::Relaxed);
        let counted = Counted {
            load: Arc::clone(&seat.load),
            open: Arc::clone(&self.open),
        };
        Guest {
            socket,
            _counted: counted,
        }
    }

    #[expect(clippy::indexing_slicing, reason = "`split` makes at least one seat")]
    fn quietest(&self) -> &Seat {
        let load = |seat: &&Seat| seat.load.load(Ordering::Relaxed);
        self.seats.iter().min_by_key(load).unwrap_or(&self.seats[0])
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
        _counted: counted,
    } = guest;
    let socket = match socket
        .set_nonblocking(true)
        .and_then(|()| tokio::net::TcpStream::from_std(socket))
    {
        Ok(socket) => socket,
        Err(error) => {
            warn!(%error, "taking over a connection failed");
            return;
        }
    };
    let for_task = Arc::clone(shared);
    shared.tasks().spawn(async move {
        connection::serve(socket, for_task).await;
        drop(counted);
    });
}
