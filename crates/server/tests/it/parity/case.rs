//! A case of the suite: the bytes of a request, and of those that follow it.

use std::fmt::Write;
use std::net::SocketAddr;

use crate::harness::{Raw, RawClient};

/// One exchange: bytes that are sent to each server. Others may follow, which the same worker answers.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    name: String,
    pub(super) method: &'static str,
    pub(super) target: String,
    version: &'static str,
    /// The lines behind the request line.
    lines: Vec<String>,
    body: Vec<u8>,
    /// In resident mode the URL names no script.
    pub(super) only_classic: bool,
    pub(super) then: Vec<Self>,
}

impl Case {
    pub(super) fn new(run: &str, method: &'static str, target: &str) -> Self {
        Self {
            name: format!("{run} {method} {target}"),
            method,
            target: target.to_owned(),
            version: "HTTP/1.1",
            lines: vec!["Host: parity.test".to_owned(), format!("X-Run: {run}")],
            body: Vec::new(),
            only_classic: false,
            then: Vec::new(),
        }
    }

    pub(super) fn get(run: &str, target: &str) -> Self {
        Self::new(run, "GET", target)
    }

    pub(super) fn post(run: &str, media_type: &str, body: impl Into<Vec<u8>>) -> Self {
        let mut case = Self::new(run, "POST", "/");
        case.name = format!("{run} POST {media_type}");
        if !media_type.is_empty() {
            case.lines.push(format!("Content-Type: {media_type}"));
        }
        case.with_body(body)
    }

    pub(super) fn named(mut self, name: &str) -> Self {
        self.name = format!("{} ({name})", self.name);
        self
    }

    pub(super) fn line(mut self, line: &str) -> Self {
        self.lines.push(line.to_owned());
        self
    }

    /// Without `Host`, or with another.
    pub(super) fn host(mut self, host: Option<&str>) -> Self {
        match host {
            Some(host) => self.lines[0] = format!("Host: {host}"),
            None => drop(self.lines.remove(0)),
        }
        self
    }

    pub(super) fn version(mut self, version: &'static str) -> Self {
        self.version = version;
        self.named(version)
    }

    pub(super) fn with_body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self.lines.push(format!("Content-Length: {}", self.body.len()));
        self
    }

    pub(super) fn chunked(mut self, chunks: &[&str]) -> Self {
        self.lines.push("Transfer-Encoding: chunked".to_owned());
        for chunk in chunks {
            self.body
                .extend(format!("{:x}\r\n{chunk}\r\n", chunk.len()).bytes());
        }
        self.body.extend(b"0\r\n\r\n");
        self.named("chunked")
    }

    /// With the errors that PHP would show.
    pub(super) fn shown(self) -> Self {
        self.line("X-Display: 1").named("shown")
    }

    pub(super) fn only_classic(mut self) -> Self {
        self.only_classic = true;
        self
    }

    /// Followed by another request.
    pub(super) fn then(self, next: Self) -> Self {
        self.then_times(1, next)
    }

    pub(super) fn then_times(mut self, count: usize, next: Self) -> Self {
        self.then.extend(vec![next; count]);
        self
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let head = format!("{} {} {}\r\n", self.method, self.target, self.version);
        // One byte a character, so that a case can hold bytes that are no UTF-8.
        let head = format!("{head}{}\r\n\r\n", self.lines.join("\r\n"));
        let mut bytes: Vec<u8> = head
            .chars()
            .map(|c| u8::try_from(u32::from(c)).unwrap())
            .collect();
        bytes.extend(&self.body);
        bytes
    }

    /// On one line; no two cases of a group have the same.
    pub(crate) fn name(&self) -> String {
        let name: String = self.name.chars().take(120).collect();
        let mut all = name.escape_debug().to_string();
        let groups = self.then.chunk_by(|a, b| a.name == b.name).count();
        if groups > 2 {
            let _ = write!(all, ", then {} more", self.then.len());
            return all;
        }
        for next in self.then.chunk_by(|a, b| a.name == b.name) {
            let times = if next.len() > 1 {
                format!("{} times ", next.len())
            } else {
                String::new()
            };
            let _ = write!(all, ", then {times}{}", next[0].name());
        }
        all
    }

    /// The response to the first request.
    pub(crate) fn send(&self, address: SocketAddr) -> Raw {
        let mut client = RawClient::connect(address);
        // A server may refuse before it has read everything.
        let _ = client.send(&self.bytes());
        client
            .read(self.method)
            .unwrap_or_else(|e| panic!("{}: {e}", self.name))
    }
}
