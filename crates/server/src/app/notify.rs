//! Tells a service manager what the server is at: the datagrams of `sd_notify(3)`, where `NOTIFY_SOCKET` asks for them.
//!
//! Nobody waits for the manager for long: what it does not take is not said. Called by `app`. Runs in: server, on the main thread.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tracing::{debug, warn};

/// Longest time for the manager to take a message, when many wait for it.
const PATIENCE: Duration = Duration::from_secs(1);

/// The manager, if there is one.
#[derive(Debug, Default)]
pub(super) struct Notifier {
    socket: Option<(UnixDatagram, SocketAddr)>,
    watchdog: Option<Watchdog>,
}

/// The manager wants to hear from the main loop, and kills the server otherwise.
#[derive(Debug)]
struct Watchdog {
    /// Never waits: the next beat says the same.
    socket: UnixDatagram,
    pause: Duration,
    next: Instant,
}

impl Notifier {
    /// What the environment names.
    pub(super) fn from_environment() -> Self {
        let Some(name) = env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else {
            return Self::default();
        };
        let opened = address(&name).and_then(|address| {
            let socket = UnixDatagram::unbound()?;
            socket.set_write_timeout(Some(PATIENCE))?;
            Ok((Watchdog::from_environment()?, (socket, address)))
        });
        match opened {
            Ok((watchdog, socket)) => Self {
                socket: Some(socket),
                watchdog,
            },
            Err(error) => {
                warn!(socket = ?name, %error, "service manager not to be told anything");
                Self::default()
            }
        }
    }

    /// Requests are served, or served on after a reload.
    pub(super) fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={}", line(status)));
    }

    /// A reload begins.
    pub(super) fn reloading(&self) {
        let now = Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap_or_default();
        let microseconds = now.as_micros();
        self.send(&format!(
            "RELOADING=1\nMONOTONIC_USEC={microseconds}\nSTATUS=reloading"
        ));
    }

    /// The server ends.
    pub(super) fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=stopping: running requests finish");
    }

    /// Another process is the server from now on.
    pub(super) fn replaced_by(&self, pid: i32) {
        self.send(&format!("MAINPID={pid}"));
    }

    /// Returns when the manager has been told that the loop which calls this is alive; over and over. Cancel-safe.
    pub(super) async fn beat(&mut self) {
        let Some(watchdog) = &mut self.watchdog else {
            return std::future::pending().await;
        };
        tokio::time::sleep_until(watchdog.next.into()).await;
        watchdog.next = Instant::now() + watchdog.pause;
        if let Some((_, address)) = &self.socket {
            // Whoever has not taken the ones before has enough of them.
            let _ = watchdog.socket.send_to_addr(b"WATCHDOG=1", address);
        }
    }

    fn send(&self, state: &str) {
        let Some((socket, address)) = &self.socket else {
            return;
        };
        if let Err(error) = socket.send_to_addr(state.as_bytes(), address) {
            debug!(%error, state, "service manager not told");
        }
    }
}

impl Watchdog {
    /// As of `sd_watchdog_enabled(3)`.
    fn from_environment() -> io::Result<Option<Self>> {
        let number = |name| env::var(name).ok()?.parse::<u64>().ok();
        let meant = env::var_os("WATCHDOG_PID").is_none()
            || number("WATCHDOG_PID") == Some(u64::from(std::process::id()));
        let Some(limit) = number("WATCHDOG_USEC").filter(|&limit| meant && limit > 0) else {
            return Ok(None);
        };
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        Ok(Some(Self {
            socket,
            pause: Duration::from_micros(limit / 2),
            next: Instant::now(),
        }))
    }
}

/// A path, or behind an `@` a name in the abstract namespace.
fn address(name: &OsStr) -> io::Result<SocketAddr> {
    match name.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(name),
    }
}

/// A status is one line.
fn line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}
