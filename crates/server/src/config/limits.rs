//! Limits of the HTTP side. Each has a status of its own when it is exceeded.

use std::time::Duration;

/// Bytes. Written in the config file as `"64 KiB"`, `"1 MiB"`, `"2 GiB"` or a bare number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

impl ByteSize {
    /// `n` KiB.
    pub const fn kib(n: u64) -> Self {
        Self(n * 1024)
    }
    /// `n` MiB.
    pub const fn mib(n: u64) -> Self {
        Self(n * 1024 * 1024)
    }
    /// `n` GiB.
    pub const fn gib(n: u64) -> Self {
        Self(n * 1024 * 1024 * 1024)
    }
}

/// What a client may cost.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of request line and headers. Default 64 KiB. 414 when the target alone is longer, else 431.
    pub header_bytes: ByteSize,
    /// Headers in a request. Default 100. 431.
    pub header_count: usize,
    /// Bytes of a request's body. Default 1 GiB. 413.
    pub body_bytes: ByteSize,
    /// Part of the body kept in memory; more goes to a spool file. Default 256 KiB.
    pub body_memory: ByteSize,
    /// From the first byte of a request (or the connection's start) to the end of its headers. Default 10 s. 408.
    pub header_timeout: Duration,
    /// Longest pause while a body arrives. Default 30 s. 408.
    pub body_timeout: Duration,
    /// Slowest acceptable body, in bytes a second, averaged after the first `body_timeout`. Default 500; 0 accepts any. 408.
    pub body_min_rate: u64,
    /// How long a keep-alive connection may be idle. Default 60 s.
    pub idle_timeout: Duration,
    /// Longest pause while a client takes a response. Default 60 s.
    pub write_timeout: Duration,
    /// Slowest acceptable client that takes a response, in bytes a second, averaged over the time that the server has had to wait for
    /// it, after the first `write_timeout` of that. Default 500; 0 accepts any.
    pub write_min_rate: u64,
    /// Connections of one client at a time; 0 is without limit. Default 0.
    pub connections_per_client: usize,
    /// Requests after which a connection ends; 0 is without limit. Default 0.
    pub requests_per_connection: u64,
    /// Connections at a time. Default 10 000; more wait in the listen queue.
    pub connections: usize,
    /// Part of a response kept in memory for a slow client; more goes to a spool file. Default 1 MiB.
    pub response_memory: ByteSize,
    /// Size of a response's spool file; beyond it the worker waits for the client. Default 2 GiB.
    pub response_spool: ByteSize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            header_bytes: ByteSize::kib(64),
            header_count: 100,
            body_bytes: ByteSize::gib(1),
            body_memory: ByteSize::kib(256),
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            body_min_rate: 500,
            idle_timeout: Duration::from_mins(1),
            write_timeout: Duration::from_mins(1),
            write_min_rate: 500,
            connections_per_client: 0,
            requests_per_connection: 0,
            connections: 10_000,
            response_memory: ByteSize::mib(1),
            response_spool: ByteSize::gib(2),
        }
    }
}
