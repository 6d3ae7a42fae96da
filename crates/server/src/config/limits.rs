//! `[limits]`: limits of the HTTP side. Each has a status of its own when it is exceeded. Runs in: server.

use std::time::Duration;

use super::reader::Reader;

/// Largest `limits.header_bytes`.
const HEADER_BYTES: ByteSize = ByteSize::mib(1);
/// Largest `limits.body_memory`: a body in memory has its place in a request area, beside the head.
const BODY_MEMORY: ByteSize = ByteSize::mib(8);
// What `dispatch` reserves for a head of twice its size as received, and the body.
const _: () = assert!(
    2 * HEADER_BYTES.0 + 16 * 1024 + BODY_MEMORY.0 <= ipc::layout::MAX_REQUEST_AREA as u64,
    "every setting that is accepted can be served"
);

const MILLI: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

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
    /// Bytes of a request's body. Default: [`Limits::BODY_BYTES`], or the `post_max_size` of the pool's PHP where that is more. 413.
    pub body_bytes: Option<ByteSize>,
    /// Part of the body kept in memory; more goes to a spool file. Default 256 KiB.
    pub body_memory: ByteSize,
    /// From the first byte of a request (or the connection's start) to the end of its headers. Default 10 s. 408.
    pub header_timeout: Duration,
    /// Longest pause while a body arrives. Default 30 s. 408.
    pub body_timeout: Duration,
    /// Slowest acceptable body, in bytes a second, averaged over each `body_timeout`. Default 500; 0 accepts any. 408.
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
    /// Size of all spool files together. Default: a tenth of what is free in the folder for them when the server starts.
    /// A request whose body has no room gets 503; a worker whose response has none waits for the client.
    pub spool_bytes: Option<ByteSize>,
}

impl Limits {
    /// Bytes of a body where nothing says that there may be more.
    pub const BODY_BYTES: ByteSize = ByteSize::mib(64);
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            header_bytes: ByteSize::kib(64),
            header_count: 100,
            body_bytes: None,
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
            spool_bytes: None,
        }
    }
}

/// Reads them.
pub(super) fn limits(reader: &mut Reader) -> Limits {
    let default = Limits::default();
    let kib = ByteSize::kib;
    let gib = ByteSize::gib;
    Limits {
        // hyper refuses a buffer below 8 KiB.
        header_bytes: reader.size("limits.header_bytes", default.header_bytes, kib(8)..=HEADER_BYTES),
        header_count: reader.number("limits.header_count", default.header_count, 1..=10_000),
        body_bytes: reader.size_if_set("limits.body_bytes", ByteSize(0)..=gib(1024)),
        body_memory: reader.size(
            "limits.body_memory",
            default.body_memory,
            ByteSize(0)..=BODY_MEMORY,
        ),
        header_timeout: reader.duration("limits.header_timeout", default.header_timeout, MILLI..=HOUR),
        body_timeout: reader.duration("limits.body_timeout", default.body_timeout, MILLI..=HOUR),
        body_min_rate: reader.number("limits.body_min_rate", default.body_min_rate, 0..=1_000_000_000),
        idle_timeout: reader.duration("limits.idle_timeout", default.idle_timeout, MILLI..=DAY),
        write_timeout: reader.duration("limits.write_timeout", default.write_timeout, MILLI..=HOUR),
        write_min_rate: reader.number("limits.write_min_rate", default.write_min_rate, 0..=1_000_000_000),
        connections_per_client: reader.number(
            "limits.connections_per_client",
            default.connections_per_client,
            0..=1_000_000,
        ),
        requests_per_connection: reader.number(
            "limits.requests_per_connection",
            default.requests_per_connection,
            0..=1_000_000_000,
        ),
        connections: reader.number("limits.connections", default.connections, 1..=1_000_000),
        response_memory: reader.size(
            "limits.response_memory",
            default.response_memory,
            kib(64)..=gib(1),
        ),
        response_spool: reader.size(
            "limits.response_spool",
            default.response_spool,
            ByteSize(0)..=gib(1024),
        ),
        spool_bytes: reader.size_if_set("limits.spool_bytes", ByteSize(0)..=gib(1024 * 1024)),
    }
}
