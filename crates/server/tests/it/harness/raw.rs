//! A client that sends bytes as they are and keeps all of what comes back.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Longest pause while a test waits for bytes.
const PATIENCE: Duration = Duration::from_mins(1);

/// One response, as it came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Raw {
    /// Status codes of interim responses.
    pub(crate) interim: Vec<u16>,
    pub(crate) status: u16,
    /// The text behind the status code.
    pub(crate) reason: String,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// The body ended as its framing says.
    pub(crate) whole: bool,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct RawClient {
    stream: BufReader<TcpStream>,
}

impl RawClient {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect_timeout(&address, PATIENCE).expect("connecting");
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Self {
            stream: BufReader::new(stream),
        }
    }

    /// Sends bytes; a server that has answered already may have closed the connection.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// An interim response.
    pub(crate) fn interim(&mut self) -> io::Result<Raw> {
        let mut raw = Raw::default();
        self.status(&mut raw)?;
        raw.headers = self.headers()?;
        Ok(raw)
    }

    fn status(&mut self, raw: &mut Raw) -> io::Result<()> {
        let line = self.line()?;
        let mut parts = line.splitn(3, ' ');
        let status = parts.nth(1).and_then(|status| status.parse().ok());
        raw.status = status.ok_or_else(|| io::Error::other(format!("status line {line:?}")))?;
        raw.reason = parts.next().map(str::to_owned).unwrap_or_default();
        Ok(())
    }

    /// The final head; `body` is what is left of the connection.
    pub(crate) fn head(&mut self) -> io::Result<Raw> {
        let mut raw = Raw::default();
        loop {
            self.status(&mut raw)?;
            raw.headers = self.headers()?;
            if raw.status >= 200 {
                return Ok(raw);
            }
            raw.interim.push(raw.status);
        }
    }

    /// A whole response to a request with `method`.
    pub(crate) fn read(&mut self, method: &str) -> io::Result<Raw> {
        let mut raw = self.head()?;
        if method == "HEAD" || matches!(raw.status, 204 | 304) {
            raw.whole = true;
            return Ok(raw);
        }
        let mut body = Vec::new();
        raw.whole = match self.body(&raw, &mut body) {
            Ok(()) => true,
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => false,
            Err(e) => return Err(e),
        };
        raw.body = body;
        Ok(raw)
    }

    /// Body bytes until there are at least `count`, by chunks or as they come.
    pub(crate) fn part(&mut self, raw: &Raw, count: usize) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        while body.len() < count {
            if raw.is_chunked() {
                self.chunk(&mut body)?;
            } else {
                let mut bytes = vec![0; count - body.len()];
                self.stream.read_exact(&mut bytes)?;
                body.extend(bytes);
            }
        }
        Ok(body)
    }

    /// Reads body bytes and keeps none: to the end of the body, or until there were `enough`.
    pub(crate) fn count(&mut self, raw: &Raw, enough: usize) -> io::Result<usize> {
        let mut got = 0;
        if raw.is_chunked() {
            let mut chunk = Vec::new();
            while got < enough && self.chunk(&mut chunk)? {
                got += chunk.len();
                chunk.clear();
            }
            return Ok(got);
        }
        let all = raw
            .header("content-length")
            .and_then(|length| length.parse().ok());
        let mut buffer = vec![0; 1 << 16];
        while got < enough.min(all.unwrap_or(usize::MAX)) {
            match self.stream.read(&mut buffer)? {
                0 => break,
                count => got += count,
            }
        }
        Ok(got)
    }

    fn body(&mut self, raw: &Raw, body: &mut Vec<u8>) -> io::Result<()> {
        if raw.is_chunked() {
            while self.chunk(body)? {}
            return Ok(());
        }
        match raw.header("content-length") {
            Some(length) => {
                let length: u64 = length.parse().map_err(io::Error::other)?;
                let got = self.stream.by_ref().take(length).read_to_end(body)?;
                if (got as u64) < length {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            None => drop(self.stream.read_to_end(body)?),
        }
        Ok(())
    }

    /// One chunk; false after the last.
    fn chunk(&mut self, body: &mut Vec<u8>) -> io::Result<bool> {
        let line = self.line()?;
        let size = usize::from_str_radix(line.trim(), 16).map_err(io::Error::other)?;
        let start = body.len();
        body.resize(start + size, 0);
        self.stream.read_exact(&mut body[start..])?;
        self.line()?;
        Ok(size > 0)
    }

    fn headers(&mut self) -> io::Result<Vec<(String, String)>> {
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Ok(headers);
            }
            let (name, value) = line
                .split_once(':')
                .ok_or_else(|| io::Error::other(format!("header {line:?}")))?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }

    /// Bytes above 127 become the characters of the same number.
    fn line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        if self.stream.read_until(b'\n', &mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line: String = line.into_iter().map(char::from).collect();
        Ok(line.trim_end_matches(['\r', '\n']).to_owned())
    }
}

impl Raw {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut all = self.headers.iter().filter(|(n, _)| n == name);
        all.next().map(|(_, value)| value.as_str())
    }

    /// The body; bytes that are no UTF-8 are replaced.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    fn is_chunked(&self) -> bool {
        self.header("transfer-encoding") == Some("chunked")
    }
}
