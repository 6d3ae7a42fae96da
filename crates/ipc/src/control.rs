//! Messages over sockets, with descriptors: what is too rare or too big for shared memory.
//!
//! One `SOCK_SEQPACKET` pair between server and zygote, one between server and each worker. A message is one packet: a JSON
//! value, and descriptors in the order its variant names. The functions make one system call (again after a signal); on a
//! non-blocking socket they return [`io::ErrorKind::WouldBlock`].

mod packet;

use serde::{Deserialize, Serialize};

use crate::layout::Layout;
use crate::slot::{Incarnation, WorkerId};

pub use packet::{Packet, Sender, ask_for_sender, pair, receive, receive_packet, send};

/// Descriptor number on which the zygote finds its socket to the server: its standard input, because a program can be started
/// with another standard input without unsafe code. The zygote moves the socket elsewhere (close-on-exec) and opens `/dev/null`
/// as 0 before PHP starts.
pub const ZYGOTE_SOCKET: i32 = 0;
/// How a pool's PHP runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The script of each request.
    Classic,
    /// The worker script's handler.
    Resident,
}

/// How a resident application is warmed before workers are forked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Warmup {
    /// By a complete PHP request of its own, of which only the engine's caches are kept.
    Clean,
    /// By requests to the very instance that serves.
    Requests,
    /// Not at all.
    None,
}

/// Bytes of any value in a message: hexadecimal digits there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl Serialize for Bytes {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let digit = |value: u8| char::from_digit(value.into(), 16).unwrap_or('0');
        let digits = |&byte: &u8| [digit(byte >> 4), digit(byte & 15)];
        serializer.collect_str(&self.0.iter().flat_map(digits).collect::<String>())
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let byte = |pair: &[u8]| match *pair {
            [high, low] => u8::try_from(digit(high)? << 4 | digit(low)?).ok(),
            _ => None,
        };
        let bytes: Option<Vec<u8>> = text.as_bytes().chunks(2).map(byte).collect();
        bytes
            .map(Self)
            .ok_or_else(|| serde::de::Error::custom("bytes must be pairs of hexadecimal digits"))
    }
}

/// What is undone after a request of a resident pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// Only what the engine resets for each request.
    None,
    /// Everything: each request starts from the booted application.
    Request {
        /// How that is to be done.
        method: Method,
        /// Compare all memory with the image after each request.
        paranoid: bool,
    },
}

/// How a request is undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// The best that works here.
    Auto,
    /// The worker's memory is put back.
    Rewind,
    /// Each request runs in a fork of the worker.
    Fork,
}

/// How requests are undone in a generation, and why so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undoing {
    /// Never [`Method::Auto`].
    pub method: Method,
    /// For people.
    pub reason: String,
}

/// The ini files that PHP has read, and what they say of errors, before the application changes that, and of bodies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ini {
    /// The php.ini, as `php_ini_loaded_file()` names it.
    pub loaded: Option<String>,
    /// The files of folders, as `php_ini_scanned_files()` names them.
    pub scanned: Vec<String>,
    /// Errors are part of responses.
    pub display_errors: bool,
    /// Errors are logged.
    pub log_errors: bool,
    /// Where they are logged, if not to the server.
    pub error_log: Option<String>,
    /// Bytes of a body that PHP takes (`post_max_size`); 0: any number.
    pub post_max_size: u64,
}

/// Server → zygote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(
    clippy::large_enum_variant,
    reason = "the large one is sent once in the life of a zygote"
)]
pub enum ToZygote {
    /// First message. Descriptors: CTL, EST, REQ, then an eventfd a reactor.
    Boot(Boot),
    /// Say what has been booted: [`FromZygote::Report`].
    Report,
    /// Fork a worker. Descriptors: RESP, ACK, the worker's control socket, its lifeline, its output pipe.
    Fork(Fork),
    /// End. Workers are not touched.
    Stop,
}

/// What a zygote is started for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Purpose {
    /// The application boots, and workers are forked.
    Serve,
    /// The application boots, and is described.
    Inspect,
    /// PHP boots, and nothing of the application runs: [`FromZygote::Checked`].
    Check,
}

/// What the zygote needs to know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Boot {
    /// What it is for.
    pub purpose: Purpose,
    /// Name of the pool, for the process title and the log.
    pub pool: String,
    /// Number of this zygote.
    pub generation: u32,
    /// Sizes of the shared memory.
    pub layout: Layout,
    /// How PHP runs.
    pub mode: Mode,
    /// What is undone after a request.
    pub isolation: Isolation,
    /// Resident: the worker script, absolute. For [`Purpose::Check`] also the front controller of a classic pool.
    pub script: Option<String>,
    /// Working directory while the application boots, absolute.
    pub dir: String,
    /// Whether the worker script runs there; else in its own folder.
    pub stay_in_dir: bool,
    /// What becomes of the process before PHP starts.
    pub process: Process,
    /// Document root, absolute.
    pub root: String,
    /// A php.ini or a folder with one; PHP's default otherwise.
    pub php_ini: Option<String>,
    /// Whether fatal errors have status 500 where PHP shows them, too.
    pub dev: bool,
    /// Lines `name=value` that override the ini files.
    pub ini: String,
    /// Their names, as `ini.NAME` or `admin_ini.NAME`.
    pub ini_keys: Vec<String>,
    /// Names of settings that scripts may not change.
    pub locked_ini: Vec<String>,
    /// How the application is warmed; resident pools only.
    pub warmup: Warmup,
    /// Heads of the requests that warm, by [`crate::head::RequestWriter`].
    pub warmup_requests: Vec<Bytes>,
    /// One request in so many is looked at for what it leaves behind, and the first ones of each worker; 0: none.
    pub leak_check: u32,
}

/// What a zygote makes of its process before PHP starts. Its workers inherit it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Name or number of the user to become; needs root.
    pub user: Option<String>,
    /// Name or number of the group to become; else that of `user`. Needs root.
    pub group: Option<String>,
    /// Permissions that new files do not get.
    pub umask: Option<u32>,
    /// Limits, soft and hard; no number: unlimited.
    pub rlimits: Vec<(Resource, Option<u64>)>,
    /// Priority, see nice(2).
    pub nice: Option<i32>,
    /// Folder of a cgroup (version 2) to join.
    pub cgroup: Option<String>,
    /// Variables to set. A value `$NAME` is that of the server's variable.
    pub env: Vec<(String, String)>,
    /// Whether all other variables are removed.
    pub clear_env: bool,
    /// Whether processes of the same user may look into its memory, and a core file may be written.
    pub dumpable: bool,
}

/// What is limited, as in setrlimit(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Resource {
    /// Bytes of address space.
    As,
    /// Bytes of a core file.
    Core,
    /// Seconds of processor time.
    Cpu,
    /// Bytes of heap and data.
    Data,
    /// Bytes of a file that is written.
    Fsize,
    /// Bytes locked in memory.
    Memlock,
    /// Open descriptors.
    Nofile,
    /// Processes of the user.
    Nproc,
    /// Bytes of the main stack.
    Stack,
}

/// One worker to fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fork {
    /// Its number.
    pub worker: u16,
    /// How often that number has been forked.
    pub incarnation: u16,
}

impl Fork {
    /// Typed.
    pub const fn who(self) -> (WorkerId, Incarnation) {
        (WorkerId(self.worker), Incarnation(self.incarnation))
    }
}

/// Zygote → server. No message of it names a process, and none carries a descriptor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromZygote {
    /// PHP and the application are booted; forks are possible.
    Ready {
        /// `8.2.36`.
        php_version: String,
        /// How long it took.
        boot_ms: u64,
        /// How requests are undone; `None` if they are not.
        undoing: Option<Undoing>,
        /// What PHP has read.
        ini: Ini,
    },
    /// Answer to a [`Boot`] with [`Purpose::Check`]; the zygote ends.
    Checked {
        /// `8.2.36`.
        php_version: String,
        /// What PHP has read.
        ini: Ini,
        /// Why this pool could not serve, at most [`MAX_REPORTED`] texts. One about a setting begins with its key.
        problems: Vec<String>,
    },
    /// Answer to [`ToZygote::Report`].
    Report(Box<Report>),
    /// The application did not boot; the zygote ends.
    BootFailed {
        /// What happened, for the log.
        reason: String,
    },
    /// A worker was forked; [`FromWorker::Ready`], which it says itself, may have come before.
    Forked(Fork),
    /// A worker could not be forked.
    ForkFailed {
        /// Which.
        worker: u16,
        /// Its incarnation.
        incarnation: u16,
        /// What happened: more than one thread (named), no memory, …
        reason: String,
    },
    /// A worker has ended and was reaped.
    Exited {
        /// Which.
        worker: u16,
        /// Its incarnation.
        incarnation: u16,
        /// Exit code, see [`exit`]; `None` after a signal.
        code: Option<i32>,
        /// The signal that ended it.
        signal: Option<i32>,
    },
}

/// What a zygote has booted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The image that requests start from; `None`: there is none.
    pub image: Option<ImageSize>,
    /// All classes.
    pub classes: u64,
    /// Those of the application and its libraries.
    pub user_classes: u64,
    /// Objects that are alive.
    pub objects: u64,
    /// Classes with a destructor, and how many objects of each are alive.
    pub destructors: Vec<(String, u64)>,
    /// Descriptors that the boot has opened, and what they are.
    pub files: Vec<(i32, String)>,
    /// Generators of random numbers with a state of their own, and who holds them.
    pub generators: Vec<String>,
    /// What should not be so, a sentence each.
    pub findings: Vec<String>,
    /// What requests of the warm-up have left in it; `None`: it has served none.
    pub left_by_warmup: Option<Left>,
    /// What makes requests dearer than they need be.
    pub seal_problem: Option<String>,
    /// How many entries of the lists were left out: each has at most [`MAX_REPORTED`], or [`MAX_LEFT`].
    pub left_out: u64,
}

/// How large an image is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageSize {
    /// Pages that it holds.
    pub pages: u64,
    /// Bytes of a page.
    pub page_bytes: u32,
}

/// Entries of each list of a [`Report`].
pub const MAX_REPORTED: usize = 32;
/// Entries of [`Left::named`]: with texts as long as they may be, the whole report is one message.
pub const MAX_LEFT: usize = 64;

/// What a warm-up has left in the application that serves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// All but the following, at most [`MAX_LEFT`].
    pub named: Vec<Leak>,
    /// Classes that have more objects; functions and classes that were loaded: what a warm-up is for.
    pub code: u32,
}

/// Worker → server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromWorker {
    /// First message, sent before PHP does anything in the worker: it runs. Descriptors: its pidfd, and its
    /// `/proc/self/smaps_rollup` if that can be opened. Who the worker is, the server takes from the [`Sender`].
    Ready,
    /// A request was looked at for what it leaves behind.
    Leaks(Leaks),
    /// The application wants its code to be read anew (`opcache_reset()`).
    ReloadWanted,
    /// Wants the spooled body of the exchange that it runs.
    BodyFd {
        /// The slot.
        slot: u16,
        /// Its generation.
        generation: u32,
    },
}

/// Server → worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToWorker {
    /// Answer to [`FromWorker::BodyFd`]. Descriptor: the file, unless the exchange is no longer the worker's.
    Body {
        /// The slot.
        slot: u16,
        /// Its generation.
        generation: u32,
    },
}

/// What a request left behind in its worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leaks {
    /// Its id.
    pub request: u64,
    /// `GET`.
    pub method: String,
    /// Its URI without the query.
    pub path: String,
    /// Bytes that PHP's heap has more in use than before.
    pub kept_bytes: i64,
    /// What was found, at most [`MAX_LEAKS`].
    pub found: Vec<Leak>,
    /// How many more there were.
    pub more: u32,
}

/// Findings in one message.
pub const MAX_LEAKS: usize = 48;
/// Bytes of each text of a finding.
pub const MAX_LEAK_TEXT: usize = 256;

/// One thing that was left behind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leak {
    /// What it is.
    pub kind: LeakKind,
    /// `$cart`, `App\Shop::$user`, `memory_limit`, …
    pub name: String,
    /// `file:line` of what has that name, or empty.
    pub place: String,
    /// Types and sizes before and after; no values.
    pub change: String,
}

/// Kinds of things that a request leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeakKind {
    /// A global variable.
    Global,
    /// A static property.
    StaticProperty,
    /// A static variable of a function, or one that a closure uses.
    FunctionStatic,
    /// A property of an object that was there before the request.
    ObjectProperty,
    /// Objects of a class.
    Objects,
    /// A setting of PHP's.
    Setting,
    /// An error or exception handler.
    Handler,
    /// Shutdown functions registered outside of a request.
    ShutdownFunction,
    /// Functions of `spl_autoload_register()`.
    Autoloader,
    /// A constant.
    Constant,
    /// A function.
    Function,
    /// Classes, by number.
    Classes,
    /// A resource.
    Resource,
    /// A stream wrapper.
    StreamWrapper,
    /// Output buffers.
    OutputBuffer,
    /// An environment variable.
    Environment,
    /// The locale of the C library.
    Locale,
    /// The default time zone.
    Timezone,
    /// The encoding of mbstring.
    Encoding,
    /// The working directory.
    Directory,
    /// The umask.
    Umask,
    /// Open descriptors.
    Descriptor,
}

/// Exit codes of a worker: why it ended on its own.
pub mod exit {
    /// The server asked for it ([`crate::scoreboard::Command::Drain`]).
    pub const DRAINED: i32 = 0;
    /// A fatal error, or the script ended: the next request needs a fresh worker. No fault of the worker, so no back-off.
    pub const SCRIPT_ENDED: i32 = 10;
    /// The server's control socket broke, or a message made no sense.
    pub const PROTOCOL: i32 = 11;
}
