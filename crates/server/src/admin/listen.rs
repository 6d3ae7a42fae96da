//! The server's side of the admin socket: the file, its connections, its routes. Runs in: server, on the main thread.

use std::convert::Infallible;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::fs::{FlockOperation, Mode, fchmod, flock};
use serde::Serialize;
use serde::de::DeserializeOwned;
use socket2::{Domain, SockAddr, Socket, Type};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::{debug, warn};

use super::{Ask, LEAKS, Outcome, RELOAD, ROLLBACK, STATUS, place};
use crate::config::{AdminSocket, Config};

/// Longest time from a question to its answer, and of a client to ask.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// Connections at a time; others wait in the listen queue.
const CONNECTIONS: usize = 16;
/// Listen queue.
const BACKLOG: i32 = 64;
/// Longest order.
const ORDER_BYTES: usize = 64 * 1024;
/// Pause after an accept that failed, for lack of descriptors for instance.
const REST: Duration = Duration::from_millis(200);

/// Why there is no admin socket.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BindError {
    /// It belongs to a server that runs.
    #[error(
        "another server of {dir} is running and answers on {path}: stop it first, or give this one an admin_socket of its own"
    )]
    InUse {
        /// The project folder.
        dir: String,
        /// The socket.
        path: String,
    },
    /// The system does not let us.
    #[error("binding the admin socket {path}: {error}; choose another path with admin_socket, or \"off\"")]
    Io {
        /// The socket.
        path: String,
        /// What the system said.
        error: io::Error,
    },
}

/// A bound admin socket. Its file goes with it.
#[derive(Debug)]
pub(crate) struct AdminListener {
    listener: UnixListener,
    file: SocketFile,
}

/// Removed when dropped, unless the path leads to another file by then.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    identity: Option<Identity>,
}

impl AdminListener {
    /// Binds where the configuration says. `None`: nowhere, as set, or since no default place can be used, which is logged.
    pub(crate) fn bind(config: &Config) -> Result<Option<Self>, BindError> {
        let set = &config.admin_socket;
        for path in place::candidates(&[&config.name], set) {
            let bound = if *set == AdminSocket::Default {
                path.parent()
                    .map_or(Ok(()), place::prepare)
                    .and_then(|()| bind(&path))
            } else {
                bind(&path)
            };
            let shown = path.display().to_string();
            match bound {
                Ok(listener) => {
                    let file = SocketFile::new(path);
                    return Ok(Some(Self { listener, file }));
                }
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                    let dir = config.dir.display().to_string();
                    return Err(BindError::InUse { dir, path: shown });
                }
                Err(error) if *set == AdminSocket::Default => {
                    debug!(path = shown, %error, "admin socket not bound");
                }
                Err(error) => return Err(BindError::Io { path: shown, error }),
            }
        }
        if *set == AdminSocket::Default {
            warn!(
                "no admin socket: hearth status will not find this server; set admin_socket to a path that can be bound"
            );
        }
        Ok(None)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.file.path
    }

    /// Answers until it is dropped. What is asked goes to `asks`.
    pub(crate) async fn serve(self, asks: mpsc::Sender<Ask>) -> io::Result<()> {
        self.listener.set_nonblocking(true)?;
        let listener = tokio::net::UnixListener::from_std(self.listener)?;
        let seats = Arc::new(Semaphore::new(CONNECTIONS));
        let mut connections = JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            let Ok(seat) = Arc::clone(&seats).acquire_owned().await else {
                return Ok(());
            };
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    warn!(%error, "accepting an admin connection failed");
                    tokio::time::sleep(REST).await;
                    continue;
                }
            };
            let asks = asks.clone();
            connections.spawn(async move {
                let service = service_fn(|request| answer(request, &asks));
                let mut builder = http1::Builder::new();
                builder.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
                if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
                    debug!(%error, "admin connection ended");
                }
                drop(seat);
            });
        }
    }
}

impl SocketFile {
    fn new(path: PathBuf) -> Self {
        let identity = identity(&path);
        Self { path, identity }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.identity.is_some()
            && identity(&self.path) == self.identity
            && let Err(error) = fs::remove_file(&self.path)
        {
            warn!(path = %self.path.display(), %error, "admin socket not removed");
        }
    }
}

/// Device, inode, and when it was made: inodes are used anew.
type Identity = (u64, u64, SystemTime);

fn identity(path: &Path) -> Option<Identity> {
    let about = fs::symlink_metadata(path).ok()?;
    Some((about.dev(), about.ino(), about.modified().ok()?))
}

/// Binds `path`, in place of a socket on which nobody listens any more.
fn bind(path: &Path) -> io::Result<UnixListener> {
    // Of servers that start at the same moment, one at a time looks and binds. The lock ends with the file.
    let folder = File::open(path.parent().unwrap_or(Path::new("/")))?;
    flock(&folder, FlockOperation::LockExclusive)?;
    let address = SockAddr::unix(path)?;
    if let Ok(about) = fs::symlink_metadata(path) {
        if !about.file_type().is_socket() {
            return Err(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "there is a file that is no socket",
            ));
        }
        if is_served(&address)? {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        fs::remove_file(path)?;
    }
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // The mode of the socket becomes that of the file (unix(7)), which so is never open to others.
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    socket.bind(&address)?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Whether somebody listens.
fn is_served(address: &SockAddr) -> io::Result<bool> {
    let probe = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    probe.set_nonblocking(true)?;
    match probe.connect(address) {
        Ok(()) => Ok(true),
        Err(error) => match error.kind() {
            io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => Ok(false),
            // Its listen queue is full.
            io::ErrorKind::WouldBlock => Ok(true),
            _ => Err(error),
        },
    }
}

type Answer = Response<Full<Bytes>>;

async fn answer(request: Request<Incoming>, asks: &mpsc::Sender<Ask>) -> Result<Answer, Infallible> {
    Ok(match (request.method(), request.uri().path()) {
        (&Method::GET, STATUS) => ask(asks, Ask::Status).await,
        (&Method::GET, LEAKS) => ask(asks, Ask::Leaks).await,
        (&Method::POST, RELOAD) => match body(request).await {
            Ok(order) => tell(asks, |reply| Ask::Reload(order, reply)).await,
            Err(why) => error(StatusCode::BAD_REQUEST, &why),
        },
        (&Method::POST, ROLLBACK) => tell(asks, Ask::Rollback).await,
        (_, STATUS | LEAKS) => only("GET"),
        (_, RELOAD | ROLLBACK) => only("POST"),
        (_, path) => error(StatusCode::NOT_FOUND, &format!("there is no {path} here")),
    })
}

async fn ask<T: Serialize>(
    asks: &mpsc::Sender<Ask>,
    question: impl FnOnce(oneshot::Sender<T>) -> Ask,
) -> Answer {
    let (reply, answer) = oneshot::channel();
    let asked = async {
        asks.send(question(reply)).await.ok()?;
        answer.await.ok()
    };
    match timeout(PATIENCE, asked).await {
        Ok(Some(answer)) => json(StatusCode::OK, &answer),
        Ok(None) | Err(_) => error(
            StatusCode::SERVICE_UNAVAILABLE,
            "the server is stopping or does not answer",
        ),
    }
}

/// Waits until it is done.
async fn tell(asks: &mpsc::Sender<Ask>, order: impl FnOnce(oneshot::Sender<Outcome>) -> Ask) -> Answer {
    let (reply, answer) = oneshot::channel();
    let asked = asks.send(order(reply)).await.ok();
    let answer = if asked.is_some() { answer.await.ok() } else { None };
    match answer {
        Some(Ok(done)) => json(StatusCode::OK, &done),
        Some(Err(why)) => error(StatusCode::CONFLICT, &why),
        None => error(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping"),
    }
}

/// What an order says beyond its name; an empty body says nothing.
async fn body<T: DeserializeOwned + Default>(request: Request<Incoming>) -> Result<T, String> {
    let bytes = Limited::new(request.into_body(), ORDER_BYTES).collect().await;
    let bytes = bytes
        .map_err(|error| format!("reading the order: {error}"))?
        .to_bytes();
    if bytes.is_empty() {
        return Ok(T::default());
    }
    serde_json::from_slice(&bytes).map_err(|error| format!("reading the order: {error}"))
}

fn only(method: &'static str) -> Answer {
    let mut refusal = error(
        StatusCode::METHOD_NOT_ALLOWED,
        &format!("only {method} is possible here"),
    );
    let allow = header::HeaderValue::from_static(method);
    refusal.headers_mut().insert(header::ALLOW, allow);
    refusal
}

fn error(status: StatusCode, text: &str) -> Answer {
    json(status, &serde_json::json!({ "error": text }))
}

fn json(status: StatusCode, value: &impl Serialize) -> Answer {
    let mut body = serde_json::to_vec(value).unwrap_or_default();
    body.push(b'\n');
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let kind = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A path for a socket in a folder of its own, removed with it.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let dir = std::env::temp_dir().join(format!("hearth-admin-{}-{name}", std::process::id()));
            fs::create_dir(&dir).unwrap();
            Self(dir)
        }

        fn socket(&self) -> PathBuf {
            self.0.join("admin.sock")
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn only_its_owner_may_connect() {
        let folder = Folder::new("mode");
        let _listener = bind(&folder.socket()).unwrap();
        let mode = fs::metadata(folder.socket()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
        let folder = Folder::new("stale");
        let live = bind(&folder.socket()).unwrap();
        assert_eq!(
            bind(&folder.socket()).unwrap_err().kind(),
            io::ErrorKind::AddrInUse
        );
        drop(live);
        bind(&folder.socket()).unwrap();
    }

    #[test]
    fn a_file_that_is_no_socket_stays() {
        let folder = Folder::new("file");
        fs::write(folder.socket(), "precious").unwrap();
        assert_eq!(
            bind(&folder.socket()).unwrap_err().kind(),
            io::ErrorKind::AlreadyExists
        );
        assert_eq!(fs::read_to_string(folder.socket()).unwrap(), "precious");
    }

    #[test]
    fn the_file_goes_with_the_listener_unless_it_is_anothers_by_then() {
        let folder = Folder::new("gone");
        let listener = bind(&folder.socket()).unwrap();
        let file = SocketFile::new(folder.socket());
        drop(listener);
        let successor = bind(&folder.socket()).unwrap();
        drop(file);
        assert!(folder.socket().exists());
        drop(SocketFile::new(folder.socket()));
        assert!(!folder.socket().exists());
        drop(successor);
    }
}
