//! A plain HTTP/1.1 client: it shows what came over the wire, and hides nothing behind retries.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Longest pause while a test waits for bytes.
const PATIENCE: Duration = Duration::from_secs(20);

/// One connection.
#[derive(Debug)]
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
}

/// One response.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, value)| value.as_str())
    }
}

/// The line of a request that brings back the cookies which these headers of a response set.
pub(crate) fn cookie_line(headers: &[(String, String)]) -> String {
    let cookies: Vec<&str> = headers
        .iter()
        .filter(|(name, _)| name == "set-cookie")
        .filter_map(|(_, value)| value.split(';').next())
        .collect();
    assert!(!cookies.is_empty(), "no cookie is set: {headers:?}");
    format!("Cookie: {}\r\n", cookies.join("; "))
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self {
            stream: BufReader::new(stream),
        })
    }

    /// Sends a request and reads its response; the connection is kept.
    pub(crate) fn request(&mut self, method: &str, target: &str, body: &[u8]) -> io::Result<Answer> {
        self.send(method, target, body)?;
        self.read()
    }

    /// Gets `target` with the cookies that an earlier answer has set.
    pub(crate) fn get_again(&mut self, target: &str, earlier: &Answer) -> io::Result<Answer> {
        let line = cookie_line(&earlier.headers);
        self.send_with("GET", target, &line, b"")?;
        self.read()
    }

    /// Sends bytes as they are.
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// Sends a request.
    pub(crate) fn send(&mut self, method: &str, target: &str, body: &[u8]) -> io::Result<()> {
        self.send_with(method, target, "", body)
    }

    /// Sends a request with more header lines.
    fn send_with(&mut self, method: &str, target: &str, lines: &str, body: &[u8]) -> io::Result<()> {
        let mut bytes = format!("{method} {target} HTTP/1.1\r\nHost: test\r\n{lines}").into_bytes();
        if method == "POST" || !body.is_empty() {
            bytes.extend(format!("Content-Length: {}\r\n", body.len()).bytes());
        }
        bytes.extend(b"\r\n");
        bytes.extend(body);
        self.stream.get_mut().write_all(&bytes)
    }

    /// Reads a response (to anything but HEAD); passes over interim ones.
    pub(crate) fn read(&mut self) -> io::Result<Answer> {
        loop {
            let mut answer = self.head()?;
            if answer.status >= 200 || answer.status == 101 {
                answer.body = self.body(&answer)?;
                return Ok(answer);
            }
        }
    }

    fn head(&mut self) -> io::Result<Answer> {
        let line = self.line()?;
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| bad(format!("status line {line:?}")))?;
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line
                .split_once(':')
                .ok_or_else(|| bad(format!("header {line:?}")))?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        Ok(Answer {
            status,
            headers,
            body: Vec::new(),
        })
    }

    fn body(&mut self, answer: &Answer) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        if answer.header("transfer-encoding") == Some("chunked") {
            loop {
                let line = self.line()?;
                let size =
                    usize::from_str_radix(line.trim(), 16).map_err(|_| bad(format!("chunk {line:?}")))?;
                let start = body.len();
                body.resize(start + size, 0);
                self.stream.read_exact(&mut body[start..])?;
                self.line()?;
                if size == 0 {
                    return Ok(body);
                }
            }
        }
        match answer.header("content-length").map(str::parse) {
            Some(Ok(length)) => {
                body.resize(length, 0);
                self.stream.read_exact(&mut body)?;
            }
            Some(Err(_)) => return Err(bad("content-length".to_owned())),
            None if matches!(answer.status, 204 | 304) => {}
            None => drop(self.stream.read_to_end(&mut body)?),
        }
        Ok(body)
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end_matches(['\r', '\n']).to_owned())
    }
}

/// The body of the answer to one request over the unix socket at `path`.
pub(crate) fn ask_unix(path: &Path, target: &str) -> String {
    let mut stream = UnixStream::connect(path).expect("connecting to a unix socket");
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!("GET {target} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("a response");
    assert!(head.starts_with("HTTP/1.1 200 "), "{answer}");
    body.to_owned()
}

fn bad(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
