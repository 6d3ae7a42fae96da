//! One zygote: starting it, what it is told, what it says. Runs in: server.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use ipc::control::{
    self, Boot, Bytes, Fork, FromZygote, Isolation, Method, Mode, Purpose, Sender, ToZygote, Undoing, Warmup,
};
use ipc::server_side::PoolMemory;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;
use tracing::{error, info};

use super::limits::Limits;
use super::output::{self, Speaker, Tail};
use super::process::{Family, Process};
use super::socket::{Received, Socket};
use super::worker::ForkFds;
use super::{Booted, Event, Supervisor, ini};
use crate::config::{self, IsolationMethod, Pool};
use crate::report;

/// Orders that may wait for a zygote: every worker, and the stop.
const ORDERS: usize = ipc::layout::MAX_WORKERS + 1;
/// Why a zygote is killed that says what it should not.
pub(super) const NONSENSE: &str = "it sent what is not understood";
/// Time between the end of a zygote's socket and its death.
const DEATH_GRACE: Duration = Duration::from_secs(1);
/// Bytes of a process's title, at least.
const TITLE: usize = 120;
/// Variables that a service manager, or a server that is replaced, has set for the server alone.
const BETWEEN_SERVER_AND_MANAGER: [&str; 7] = [
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
    "WATCHDOG_PID",
    "LISTEN_PID",
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
    "HEARTH_PREDECESSOR",
];

/// How zygotes of a pool are started.
#[derive(Debug)]
pub(super) struct Recipe {
    binary: PathBuf,
    boot: Boot,
    eventfds: Vec<OwnedFd>,
}

/// One zygote.
#[derive(Debug)]
pub(super) struct Zygote {
    /// 1 for the first.
    pub(super) generation: u32,
    pub(super) process: Arc<Process>,
    /// Its last words, for the report when it does not boot.
    pub(super) tail: Tail,
    /// Why it cannot boot, from its own mouth.
    pub(super) boot_failure: Option<String>,
    /// Who it is; known once it has booted.
    pub(super) identity: Option<Sender>,
    /// Its limits when it had booted.
    pub(super) limits: Option<Limits>,
    /// It was killed, and nothing that it says counts.
    pub(super) is_condemned: bool,
    /// Forks that it was asked for, of which it has told nothing.
    asked: usize,
    /// Workers that it has forked, of whose end it has not told.
    forked: usize,
    orders: mpsc::Sender<Order>,
}

/// What a zygote is told after [`Boot`].
#[derive(Debug)]
enum Order {
    Fork(Fork, ForkFds),
    Report,
    Stop,
}

impl Recipe {
    pub(super) fn new(
        pool: &Pool,
        memory: &PoolMemory,
        eventfds: Vec<OwnedFd>,
        warmup_requests: Vec<Vec<u8>>,
    ) -> Self {
        // Nothing is lost: `config` refuses paths that are not UTF-8.
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let (mode, script) = match pool.mode {
            config::Mode::Classic => (Mode::Classic, None),
            config::Mode::Resident => (Mode::Resident, pool.script.as_deref().map(text)),
        };
        let boot = Boot {
            purpose: Purpose::Serve,
            pool: pool.name.clone(),
            generation: 0,
            layout: memory.layout(),
            mode,
            isolation: isolation(pool),
            script,
            dir: text(pool.process.chdir.as_deref().unwrap_or(&pool.dir)),
            stay_in_dir: pool.process.chdir.is_some(),
            process: process(&pool.process),
            root: text(&pool.root),
            php_ini: pool.php_ini.as_deref().map(text),
            dev: pool.dev,
            // The later line of a name holds.
            ini: ini_lines(&pool.ini) + &ini_lines(&pool.admin_ini),
            ini_keys: ini_keys("ini", &pool.ini)
                .chain(ini_keys("admin_ini", &pool.admin_ini))
                .collect(),
            locked_ini: pool.admin_ini.iter().map(|(name, _)| name.clone()).collect(),
            warmup: match pool.warmup {
                config::Warmup::Clean => Warmup::Clean,
                config::Warmup::Requests => Warmup::Requests,
                config::Warmup::None => Warmup::None,
            },
            leak_check: pool.leaks_looked_for(),
            warmup_requests: warmup_requests.into_iter().map(Bytes).collect(),
        };
        Self {
            binary: pool.worker_binary.clone(),
            boot,
            eventfds,
        }
    }

    /// The same for a zygote that only describes what it boots.
    pub(super) fn for_a_look(mut self) -> Self {
        self.boot.purpose = Purpose::Inspect;
        self
    }

    /// The same for a zygote that only looks whether `pool` could serve.
    pub(super) fn for_a_check(mut self, pool: &Pool) -> Self {
        self.boot.purpose = Purpose::Check;
        // Nothing is lost: see above.
        self.boot.script = pool
            .script
            .as_ref()
            .map(|path| path.to_string_lossy().into_owned());
        self
    }

    /// Starts a zygote by exec and tells it to boot. What it says comes as events. Must be called on a thread that lives as long
    /// as the server: the zygote dies with the thread that started it.
    pub(super) fn start(
        &self,
        generation: u32,
        memory: &PoolMemory,
        events: mpsc::Sender<Event>,
        (tasks, family): (&TaskTracker, &Family),
    ) -> io::Result<Zygote> {
        let (ours, theirs) = control::pair()?;
        control::ask_for_sender(ours.as_fd())?;
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let mut command = Command::new(&self.binary);
        command
            .arg0(roomy(&self.binary))
            .arg("zygote")
            // Ctrl-C goes to a terminal's whole foreground group; only the server is to get it.
            .process_group(0)
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::from(writer.try_clone()?))
            .stderr(Stdio::from(writer));
        for name in BETWEEN_SERVER_AND_MANAGER {
            command.env_remove(name);
        }
        for name in config::names_of_pools() {
            command.env_remove(name);
        }
        let child = command.spawn()?;
        // It holds the other ends of our pipe and socket, whose end would never be seen.
        drop(command);
        let process = Arc::new(Process::of_child(&child, family)?);
        let socket = Arc::new(Socket::new(ours)?);
        let tail = Tail::default();
        let output = pipe::Receiver::from_owned_fd(reader)?;
        let (orders, inbox) = mpsc::channel(ORDERS);
        let boot = Boot {
            generation,
            ..self.boot.clone()
        };
        let fds = self.boot_fds(memory)?;
        tasks.spawn(output::pump(
            output,
            Speaker::Zygote(self.boot.pool.clone(), tail.clone()),
        ));
        tasks.spawn(write(Arc::clone(&socket), (boot, fds), inbox));
        tasks.spawn(watch(
            (self.boot.pool.clone(), generation),
            socket,
            Arc::clone(&process),
            events,
        ));
        Ok(Zygote {
            generation,
            process,
            tail,
            boot_failure: None,
            identity: None,
            limits: None,
            is_condemned: false,
            asked: 0,
            forked: 0,
            orders,
        })
    }

    /// Path of the binary, for the log.
    pub(super) fn binary(&self) -> String {
        self.binary.display().to_string()
    }

    fn boot_fds(&self, memory: &PoolMemory) -> io::Result<Vec<OwnedFd>> {
        let fds = memory.fds();
        [&fds.ctl, &fds.est, &fds.req]
            .into_iter()
            .chain(&self.eventfds)
            .map(OwnedFd::try_clone)
            .collect()
    }
}

fn process(settings: &config::Process) -> control::Process {
    control::Process {
        user: settings.user.clone(),
        group: settings.group.clone(),
        umask: settings.umask,
        rlimits: settings.rlimits.clone(),
        nice: (settings.nice != 0).then_some(settings.nice),
        cgroup: settings
            .cgroup
            .as_ref()
            .map(|path| path.to_string_lossy().into_owned()),
        env: settings.env.clone(),
        clear_env: settings.clear_env,
        dumpable: settings.dumpable,
    }
}

/// The binary's name with room behind it: the memory of the arguments is where a process writes its title.
fn roomy(binary: &Path) -> OsString {
    let mut name = binary.as_os_str().to_owned();
    name.push(" ".repeat(TITLE));
    name
}

/// What is undone: nothing has to be in a classic pool, where the engine ends each request whole.
fn isolation(pool: &Pool) -> Isolation {
    match (pool.mode, pool.isolation) {
        (config::Mode::Classic, _) | (_, config::Isolation::None) => Isolation::None,
        (config::Mode::Resident, config::Isolation::Request) => Isolation::Request {
            method: match pool.isolation_method {
                IsolationMethod::Auto => Method::Auto,
                IsolationMethod::Rewind => Method::Rewind,
                IsolationMethod::Fork => Method::Fork,
            },
            paranoid: pool.paranoid,
        },
    }
}

/// One line for a generation that can serve.
pub(super) fn log_ready(settings: &Pool, booted: &Booted) {
    let Booted {
        generation,
        php_version: php,
        boot_ms,
        undoing,
        ini,
    } = booted;
    let pool = &*settings.name;
    if !settings.dev {
        ini::warn(pool, ini);
    }
    let ini = ini::report(ini).to_string();
    match undoing.as_ref().map(explain) {
        None => info!(pool, generation, php, boot_ms, ini, "zygote ready"),
        Some(isolation) => info!(
            pool,
            generation,
            php,
            boot_ms,
            ini,
            isolation = isolation.method,
            reason = isolation.reason,
            "zygote ready"
        ),
    }
}

/// How a generation undoes requests, and why so.
pub(super) fn explain(undoing: &Undoing) -> report::Isolation {
    report::Isolation {
        method: match undoing.method {
            Method::Fork => "fork".to_owned(),
            Method::Rewind | Method::Auto => "rewind".to_owned(),
        },
        reason: undoing.reason.clone(),
    }
}

impl Zygote {
    /// Asks for a worker. False: the zygote does not take orders any more.
    pub(super) fn fork(&mut self, fork: Fork, fds: ForkFds) -> bool {
        let asked = self.orders.try_send(Order::Fork(fork, fds)).is_ok();
        self.asked += usize::from(asked);
        asked
    }

    /// Whether it may say this now; the error says what is wrong with it. So there are never more messages than orders.
    pub(super) fn expect(&mut self, message: &FromZygote) -> Result<(), &'static str> {
        let has_booted = self.identity.is_some() || self.boot_failure.is_some();
        match message {
            FromZygote::Ready { .. } | FromZygote::BootFailed { .. } if !has_booted => Ok(()),
            FromZygote::Ready { .. } | FromZygote::BootFailed { .. } => Err("it has booted before"),
            FromZygote::Report(_) | FromZygote::Checked { .. } => Err("a report that nobody asked for"),
            FromZygote::Forked(_) | FromZygote::ForkFailed { .. } => {
                let fewer = self.asked.checked_sub(1);
                self.asked = fewer.ok_or("a fork that nobody asked for")?;
                self.forked += usize::from(matches!(message, FromZygote::Forked(_)));
                Ok(())
            }
            FromZygote::Exited { .. } => {
                let fewer = self.forked.checked_sub(1);
                self.forked = fewer.ok_or("the end of a worker that it has not forked")?;
                Ok(())
            }
        }
    }

    /// Asks what it has booted.
    pub(super) fn report(&self) {
        // Whoever waits for the answer hears of its end, too.
        let _ = self.orders.try_send(Order::Report);
    }

    /// Asks it to end.
    pub(super) fn stop(&self) {
        // If it takes no orders it is dying; the supervisor kills what does not end.
        let _ = self.orders.try_send(Order::Stop);
    }
}

impl Supervisor {
    /// Kills a zygote that is of no use any more, so that another one is booted. From now on nothing that it says counts.
    pub(super) fn replace_zygote(&mut self, reason: &str) {
        let Some(zygote) = self.zygote.as_mut().filter(|zygote| !zygote.is_condemned) else {
            return;
        };
        error!(
            pool = self.settings.name,
            generation = zygote.generation,
            reason,
            "zygote killed"
        );
        zygote.is_condemned = true;
        zygote.boot_failure.get_or_insert_with(|| reason.to_owned());
        zygote.process.kill();
    }
}

/// Sends orders one after the other; ends with the zygote.
async fn write(socket: Arc<Socket>, boot: (Boot, Vec<OwnedFd>), mut inbox: mpsc::Receiver<Order>) {
    let (boot, fds) = boot;
    let borrowed: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
    let mut sent = socket.send(&ToZygote::Boot(boot), &borrowed).await;
    while sent.is_ok()
        && let Some(order) = inbox.recv().await
    {
        sent = match order {
            Order::Fork(fork, fds) => socket.send(&ToZygote::Fork(fork), &fds.borrow()).await,
            Order::Report => socket.send(&ToZygote::Report, &[]).await,
            Order::Stop => socket.send(&ToZygote::Stop, &[]).await,
        };
    }
    // A broken pipe is the zygote's death, which `watch` reports.
}

/// Hands on what the zygote says, then that it is gone.
async fn watch(
    (pool, generation): (String, u32),
    socket: Arc<Socket>,
    process: Arc<Process>,
    events: mpsc::Sender<Event>,
) {
    loop {
        // Cancel-safe: a message is received in one system call.
        let received = tokio::select! {
            received = socket.receive() => received,
            () = process.ended() => break,
        };
        match received.and_then(|received| read(received, generation, process.pid())) {
            Ok(Some(said)) => tell(&events, said).await,
            Ok(None) => break,
            Err(error) => {
                let reason = format!("{NONSENSE}: {error}");
                error!(pool, generation, reason, "zygote killed");
                process.kill();
                break;
            }
        }
    }
    if tokio::time::timeout(DEATH_GRACE, process.ended()).await.is_err() {
        process.kill();
        process.ended().await;
    }
    let last_words = || read(socket.receive_now()?, generation, process.pid());
    while let Ok(Some(said)) = last_words() {
        tell(&events, said).await;
    }
    tell(&events, Event::ZygoteGone { generation }).await;
}

/// Only what the zygote itself has sent is its message: others may have got hold of the socket.
fn read(received: Option<Received<FromZygote>>, generation: u32, zygote: i32) -> io::Result<Option<Event>> {
    let Some(received) = received else {
        return Ok(None);
    };
    let sender = received.sender;
    let message = received.bare()?;
    match sender {
        Some(sender) if sender.pid == zygote => Ok(Some(Event::Zygote {
            generation,
            message,
            sender,
        })),
        Some(Sender { pid, .. }) => Err(io::Error::other(format!("process {pid} has sent it"))),
        None => Err(io::Error::other("nobody knows who has sent it")),
    }
}

async fn tell(events: &mpsc::Sender<Event>, event: Event) {
    // The supervisor is gone only when the server has stopped.
    let _ = events.send(event).await;
}

/// The keys of PHP's settings below the pool.
fn ini_keys<'a>(table: &'a str, settings: &'a [(String, String)]) -> impl Iterator<Item = String> + 'a {
    settings.iter().map(move |(name, _)| format!("{table}.{name}"))
}

/// PHP's settings as the lines of an ini file. A quoted value keeps its `;` and `=`; PHP knows `\"` in it.
fn ini_lines(settings: &[(String, String)]) -> String {
    let line = |(name, value): &(String, String)| {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"");
        format!("{name}=\"{value}\"\n")
    };
    settings.iter().map(line).collect()
}
