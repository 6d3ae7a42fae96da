//! What stands in the way of starting every request from the booted application, and what to do about it.
//!
//! | found | said |
//! |---|---|
//! | threads, connected sockets | the pool does not start |
//! | descriptors that queue events, sockets without a peer, temporary files, locks on files, generators of random numbers | a warning |
//!
//! A thread is not in a forked worker. A connection has a second half in another process, which cannot be put back.
//!
//! Runs in: zygote. Called by `isolation`, `warm`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, RawFd};
use std::time::{Duration, Instant};

use rustix::net::{SocketAddrAny, SocketAddrUnix, SocketType, getpeername, sockopt};

use crate::contents::{Contents, Held};
use crate::process;

/// Threads of libraries that resolve a name may end after the boot.
const THREADS_END_WITHIN: Duration = Duration::from_millis(500);
/// Parts of the names of libraries that are known to start threads.
const STARTS_THREADS: [&str; 18] = [
    "grpc",
    "rdkafka",
    "swoole",
    "parallel",
    "couchbase",
    "MagickCore",
    "vips",
    "gomp",
    "ddtrace",
    "datadog",
    "newrelic",
    "excimer",
    "blackfire",
    "tideways",
    "opentelemetry",
    "pulsar",
    "mongoc",
    "tbb",
];

/// The open descriptors, and what they are.
pub(crate) type Descriptors = BTreeMap<RawFd, String>;

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Obstacles {
    /// The image would be wrong: why, and the ways out.
    pub(crate) refusal: Option<String>,
    /// Degraded, a sentence each.
    pub(crate) warnings: Vec<String>,
}

/// The descriptors that are open now.
pub(crate) fn descriptors() -> Descriptors {
    let numbers = process::open_descriptors().unwrap_or_default();
    let open = numbers.into_iter().filter_map(|number| {
        let target = std::fs::read_link(format!("/proc/self/fd/{number}")).ok()?;
        Some((number, target.to_string_lossy().into_owned()))
    });
    open.collect()
}

/// Looks for them. `opened` are the descriptors that PHP and the application have opened.
pub(crate) fn find(contents: &Contents, opened: &Descriptors) -> Obstacles {
    let refusals: Vec<String> = [threads(), connections(contents, opened)]
        .into_iter()
        .flatten()
        .collect();
    let mut warnings: Vec<String> = contents.generators.iter().map(repeats).collect();
    warnings.extend(opened.iter().filter_map(|(fd, target)| shared(*fd, target)));
    Obstacles {
        refusal: (!refusals.is_empty()).then(|| refusals.join("\n")),
        warnings,
    }
}

/// Without isolation requests start where the last one ended, and the application may reconnect in each worker.
pub(crate) fn find_unisolated(contents: &Contents, opened: &Descriptors) -> Vec<String> {
    let mut warnings: Vec<String> = contents.generators.iter().map(repeats).collect();
    warnings.extend(connections(contents, opened).map(|found| format!("all workers share it: {found}")));
    warnings
}

fn threads() -> Option<String> {
    let until = Instant::now() + THREADS_END_WITHIN;
    let names = loop {
        match process::other_threads() {
            Ok(names) if names.is_empty() => return None,
            Ok(names) if Instant::now() > until => break names,
            Ok(_) => std::thread::sleep(Duration::from_millis(10)),
            Err(error) => return Some(format!("counting the threads: {error}")),
        }
    };
    let libraries = libraries();
    let suspects = if libraries.is_empty() {
        String::new()
    } else {
        format!("; loaded, and known to start threads: {}", libraries.join(", "))
    };
    Some(format!(
        "threads were started while the application booted ({}): they are in no worker, and what they have locked stays \
         locked there{suspects}. Ways out: start them in the request, or do without the extension that starts them \
         (isolation = \"none\" does not help: its workers are forked, too)",
        names.join(", ")
    ))
}

/// Libraries in memory that are known to start threads.
fn libraries() -> Vec<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mut found: Vec<String> = maps
        .lines()
        .filter_map(|line| line.split_once('/')?.1.rsplit('/').next())
        .filter(|file| file.contains(".so") && STARTS_THREADS.iter().any(|part| file.contains(part)))
        .map(str::to_owned)
        .collect();
    found.dedup();
    found
}

fn connections(contents: &Contents, opened: &Descriptors) -> Option<String> {
    let connected: Vec<(RawFd, String)> = opened
        .iter()
        .filter(|(_, target)| target.starts_with("socket:"))
        .filter_map(|(fd, _)| Some((*fd, peer(*fd)?)))
        .collect();
    if connected.is_empty() {
        return None;
    }
    let mut text = "connections were opened while the application booted, and every request of every worker would go on \
                    with the same ones:"
        .to_owned();
    let mut known = true;
    for (fd, peer) in &connected {
        // A stream that nobody holds belongs to an extension's object.
        let mut held = contents.connections.iter().filter(|held| !held.holder.is_empty());
        let holder = held.find(|held| held.fd == Some(*fd));
        // Writing to a String cannot fail.
        let _ = write!(text, "\n  {peer}, descriptor {fd}");
        if let Some(held) = holder {
            let _ = write!(text, ": {held}");
        } else {
            known = false;
        }
    }
    let possible: Vec<&Held> = contents
        .connections
        .iter()
        .filter(|held| held.fd.is_none())
        .collect();
    if !known && !possible.is_empty() {
        text.push_str("\nwhat may hold them:");
        for held in possible {
            let _ = write!(text, "\n  {held}");
        }
    }
    text.push_str(
        "\nWays out: connect in the request (most libraries can connect with their first use), close the connection before \
         hearth_handle_request(), or set isolation = \"none\" and connect anew in each worker",
    );
    Some(text)
}

/// Whom the socket talks to, if it is a connection that has another end outside of this process.
fn peer(fd: RawFd) -> Option<String> {
    // SAFETY: it was listed as open, and only this thread opens and closes.
    let socket = unsafe { BorrowedFd::borrow_raw(fd) };
    // Datagrams stand for themselves: the log, statistics.
    if sockopt::socket_type(socket).ok()? == SocketType::DGRAM {
        return None;
    }
    let address = getpeername(socket).ok()?;
    let inet = |address: SocketAddrAny| SocketAddr::try_from(address).ok();
    if let Some(peer) = address.clone().and_then(inet) {
        return Some(peer.to_string());
    }
    let process = sockopt::socket_peercred(socket).ok().map(|peer| peer.pid);
    if process == Some(rustix::process::getpid()) {
        return None;
    }
    let unix = address.and_then(|address| SocketAddrUnix::try_from(address).ok());
    let path = unix.as_ref().and_then(SocketAddrUnix::path_bytes);
    Some(match (path, process) {
        (Some(path), _) => String::from_utf8_lossy(path).into_owned(),
        (None, Some(process)) => format!("process {}", process.as_raw_nonzero()),
        (None, None) => "another process".to_owned(),
    })
}

fn repeats(generator: &Held) -> String {
    format!(
        "{generator} was made while the application booted: every request draws the same numbers from it; make it in the \
         request, or use random_int() and random_bytes()"
    )
}

/// What a descriptor means that has a state in the kernel which all workers share, or which stays with the zygote: workers open
/// files anew.
fn shared(fd: RawFd, target: &str) -> Option<String> {
    const QUEUES: [&str; 6] = ["eventpoll", "timerfd", "inotify", "eventfd", "pidfd", "signalfd"];
    let kind = target.strip_prefix("anon_inode:");
    if let Some(kind) = kind.map(|kind| kind.trim_matches(['[', ']']))
        && QUEUES.contains(&kind)
    {
        return Some(format!(
            "descriptor {fd} ({kind}) was opened while the application booted: all workers share what it has registered and \
             what it counts"
        ));
    }
    if target.starts_with("socket:") && is_unconnected(fd) {
        return Some(format!(
            "descriptor {fd} is a socket that was made while the application booted and has no peer yet: whoever connects it \
             does so for all workers and requests; make it in the request"
        ));
    }
    if is_temporary(target) {
        return Some(format!(
            "{target} is a temporary file that was made while the application booted (descriptor {fd}; php://temp makes one \
             beyond 2 MB): what a request writes there, all workers read; make it in the request, or use php://memory"
        ));
    }
    // Locks by fcntl() belong to a process; OPcache has one.
    let about = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).ok()?;
    let mut locks = about.lines().filter(|line| line.starts_with("lock:"));
    locks.any(|lock| lock.contains("FLOCK")).then(|| {
        format!(
            "{target} was locked by flock() while the application booted (descriptor {fd}): the zygote keeps the lock, and a \
             request that wants it waits for ever; lock it in the request"
        )
    })
}

/// A stream socket that can still get a peer, or wait for some.
fn is_unconnected(fd: RawFd) -> bool {
    // SAFETY: it was listed as open, and only this thread opens and closes.
    let socket = unsafe { BorrowedFd::borrow_raw(fd) };
    sockopt::socket_type(socket) == Ok(SocketType::STREAM)
        && getpeername(socket) == Err(rustix::io::Errno::NOTCONN)
}

/// Whether it has a name as PHP gives its temporary files: `php` and six characters.
fn is_temporary(target: &str) -> bool {
    let name = target.rsplit_once('/').map_or("", |(_, name)| name);
    let given = name.strip_prefix("php").unwrap_or("");
    given.len() == 6 && given.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_connection_is_named_by_its_peer_and_its_holder() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stream = TcpStream::connect(address).unwrap();
        let fd = stream.as_raw_fd();
        let opened = Descriptors::from([
            (fd, "socket:[1]".to_owned()),
            (listener.as_raw_fd(), "socket:[2]".to_owned()),
        ]);
        let mut contents = Contents::default();
        let held = |fd| Held {
            what: "Redis".into(),
            holder: "App\\Cache::$redis".into(),
            place: "Cache.php:3".into(),
            fd,
        };
        contents.connections.push(held(None));
        let said = connections(&contents, &opened).unwrap();
        assert!(
            said.contains(&format!("\n  {address}, descriptor {fd}\n")),
            "{said}"
        );
        assert!(
            said.contains("may hold them:\n  Redis in App\\Cache::$redis (Cache.php:3)\n"),
            "{said}"
        );
        contents.connections = vec![held(Some(fd))];
        let said = connections(&contents, &opened).unwrap();
        assert!(said.contains(&format!("descriptor {fd}: Redis in")), "{said}");
    }

    #[test]
    fn what_stays_in_the_process_or_says_no_more_than_itself_is_no_connection() {
        let (one, _other) = UnixStream::pair().unwrap();
        assert_eq!(peer(one.as_raw_fd()), None);
        let datagrams = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        datagrams.connect(datagrams.local_addr().unwrap()).unwrap();
        assert_eq!(peer(datagrams.as_raw_fd()), None);
    }

    #[test]
    fn what_queues_events_is_told() {
        assert!(shared(7, "anon_inode:[timerfd]").unwrap().contains("timerfd"));
        assert!(shared(7, "anon_inode:inotify").unwrap().contains("inotify"));
        assert_eq!(shared(-1, "/dev/null"), None);
    }

    #[test]
    fn what_requests_would_write_to_for_all_is_told() {
        let socket = rustix::net::socket(rustix::net::AddressFamily::INET, SocketType::STREAM, None).unwrap();
        assert!(
            shared(socket.as_raw_fd(), "socket:[1]")
                .unwrap()
                .contains("no peer yet")
        );
        let (one, _other) = UnixStream::pair().unwrap();
        assert_eq!(shared(one.as_raw_fd(), "socket:[1]"), None);
        assert!(shared(-1, "/tmp/phpA1b2C3").unwrap().contains("temporary file"));
        for other in ["/tmp/php.ini", "/srv/phpunit", "/srv/php", "php123456"] {
            assert_eq!(shared(-1, other), None, "{other}");
        }
    }
}
