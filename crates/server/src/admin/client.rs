//! The command's side of the admin socket: one question, one answer, blocking. Runs in: the command that asks.

use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ipc::account;
use serde_json::Value;

use super::serve::PATIENCE;
use super::{HEALTH, STATUS};

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    /// Nobody listens.
    #[error(
        "no server of {dir} is running (nobody answers on {tried}); start one with `hearth serve`. If it was started with --config, \
         or with --set admin_socket=…, repeat that here, or name its socket with --socket"
    )]
    NotRunning {
        /// The project folder.
        dir: String,
        /// Every path.
        tried: String,
    },
    /// Somebody listens, but does not answer.
    #[error("asking the server on {path}: {error}{hint}")]
    Io {
        /// The socket.
        path: String,
        /// What the system said.
        error: io::Error,
        /// What to do about it.
        hint: String,
    },
    /// The server refuses.
    #[error("the server on {path} answers: {text}")]
    Refused {
        /// The socket.
        path: String,
        /// Why.
        text: String,
    },
}

/// What is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Message<'a> {
    /// `GET` of a route: answered at once.
    Ask(&'a str),
    /// `POST` of a body to a route: answered when it is done.
    Order(&'a str, &'a Value),
}

/// Sends to the first server that listens on one of `paths`; its answer.
pub(crate) fn send(dir: &Path, paths: &[PathBuf], message: Message<'_>) -> Result<Value, AskError> {
    let mut refusal = None;
    for path in paths {
        match UnixStream::connect(path) {
            Ok(stream) => {
                if let Message::Ask(_) = message {
                    return exchange(stream, path, message);
                }
                // An order may take as long as it takes, but not with a server that hangs.
                exchange(stream, path, Message::Ask(HEALTH))?;
                let stream = UnixStream::connect(path).map_err(|error| failed(path, error))?;
                return exchange(stream, path, message);
            }
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {}
                // Another user's folder: ours may come yet.
                _ => refusal = refusal.or_else(|| Some(failed(path, error))),
            },
        }
    }
    if let Some(refusal) = refusal {
        return Err(refusal);
    }
    let tried: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    Err(AskError::NotRunning {
        dir: dir.display().to_string(),
        tried: tried.join(", "),
    })
}

/// Number of the process that serves at `path`, if it says so.
pub(super) fn pid_of_server(path: &Path) -> Option<u64> {
    let stream = UnixStream::connect(path).ok()?;
    let status = exchange(stream, path, Message::Ask(STATUS)).ok()?;
    status.get("pid")?.as_u64()
}

fn exchange(mut stream: UnixStream, path: &Path, message: Message<'_>) -> Result<Value, AskError> {
    let mut response = Vec::new();
    let mut talk = || {
        stream.set_write_timeout(Some(PATIENCE))?;
        // With HTTP/1.0 the response ends with the connection.
        let request = match message {
            Message::Ask(route) => {
                // The server answers within its patience, be it that it cannot.
                stream.set_read_timeout(Some(PATIENCE + Duration::from_secs(2)))?;
                format!("GET {route} HTTP/1.0\r\nhost: hearth\r\n\r\n")
            }
            Message::Order(route, body) => {
                let body = body.to_string();
                let length = body.len();
                format!("POST {route} HTTP/1.0\r\nhost: hearth\r\ncontent-length: {length}\r\n\r\n{body}")
            }
        };
        // In one piece: the server may answer, and close, before it has read a body that it has no use for.
        stream.write_all(request.as_bytes())?;
        stream.read_to_end(&mut response)
    };
    talk().map_err(|error| failed(path, error))?;
    let nonsense = || {
        failed(
            path,
            io::Error::new(io::ErrorKind::InvalidData, "this is no answer"),
        )
    };
    let text = std::str::from_utf8(&response).map_err(|_| nonsense())?;
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(nonsense)?;
    let body: Value = serde_json::from_str(body).map_err(|_| nonsense())?;
    if head.split(' ').nth(1) == Some("200") {
        return Ok(body);
    }
    let text = body.get("error").and_then(Value::as_str).unwrap_or(head);
    Err(AskError::Refused {
        path: path.display().to_string(),
        text: text.to_owned(),
    })
}

/// Whose a socket is, or the folder in which it cannot be seen.
fn owner(path: &Path) -> Option<String> {
    let uid = path.ancestors().find_map(|place| place.metadata().ok())?.uid();
    Some(account::name_of(uid).unwrap_or_else(|| format!("user {uid}")))
}

fn failed(path: &Path, error: io::Error) -> AskError {
    let hint = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            let owner = owner(path).unwrap_or_else(|| "another user".to_owned());
            format!("; it belongs to {owner}, and only the user that started a server, and root, may ask it")
        }
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            "; its process is there, but stopped, or very busy: see its state with ps, and its log".to_owned()
        }
        _ => String::new(),
    };
    let error = match error.kind() {
        io::ErrorKind::WouldBlock => io::Error::new(io::ErrorKind::TimedOut, "no answer in time"),
        _ => error,
    };
    AskError::Io {
        path: path.display().to_string(),
        error,
        hint,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_may_not_be_asked_is_named_with_its_owner() {
        // What cannot be seen is whoever's its folder is.
        let error = failed(
            Path::new("/etc/none/hearth.sock"),
            io::Error::from(io::ErrorKind::PermissionDenied),
        );
        let said = error.to_string();
        assert!(said.contains("; it belongs to root, and only "), "{said}");
    }
}
