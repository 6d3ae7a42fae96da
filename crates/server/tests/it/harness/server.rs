//! A running `hearth serve`, on a port of its own.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::client::{Answer, Client};
use super::log::Log;

/// Longest time a stopped server may take to be gone.
const STOP_TIMEOUT: Duration = Duration::from_secs(40);

/// What is served.
#[derive(Clone, Debug)]
pub(crate) struct App {
    dir: PathBuf,
    /// Variables for the environment of the server, and so of PHP.
    environment: Vec<(String, String)>,
    /// Flags of `serve`.
    flags: Vec<String>,
    /// A program that runs the server, with its arguments.
    pub(super) runner: Vec<OsString>,
    /// Whether the application's folder is the server's own, too.
    in_its_folder: bool,
    /// Where the server is started, and has its admin socket where it is found by its folder.
    started_in: Option<PathBuf>,
}

impl App {
    /// A folder below `apps/`.
    pub(crate) fn bundled(name: &str) -> Self {
        Self::at(
            &Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("../../apps")
                .join(name),
        )
    }

    /// The tests' own application, see `app/respond.php`.
    pub(crate) fn of_tests() -> Self {
        Self::at(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/app"))
    }

    /// Any folder.
    pub(crate) fn at(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            environment: Vec::new(),
            flags: Vec::new(),
            runner: refused_everywhere(),
            in_its_folder: false,
            started_in: None,
        }
    }

    /// The same, with the server started in its folder.
    pub(crate) fn in_its_folder(mut self) -> Self {
        self.in_its_folder = true;
        self
    }

    /// The same, its server started in this folder; its admin socket is where `hearth status` looks for it.
    pub(crate) fn started_in(mut self, folder: &Path) -> Self {
        self.started_in = Some(folder.to_owned());
        self
    }

    /// The same with one more variable in its environment.
    pub(crate) fn with_env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same with one more flag of `serve`.
    pub(crate) fn with_flag(mut self, flag: &str) -> Self {
        self.flags.push(flag.to_owned());
        self
    }

    /// The same, its server run by another program: the first of `runner`, which gets the rest before the server's command.
    pub(crate) fn run_by(mut self, runner: &[&OsStr]) -> Self {
        self.runner = runner.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    /// The command to be run, as far as it is the same for all servers.
    fn command(&self, hearth: &Path) -> Command {
        let mut words = self
            .runner
            .iter()
            .map(OsString::as_os_str)
            .chain([hearth.as_os_str()]);
        let mut command = Command::new(words.next().unwrap());
        command.args(words);
        if self.in_its_folder {
            command.current_dir(&self.dir);
        }
        command
    }
}

/// What runs every server of this run, if the kernel is to refuse calls: `HEARTH_TEST_REFUSED`, see `isolation/deny.php`.
fn refused_everywhere() -> Vec<OsString> {
    let Some(what) = std::env::var_os("HEARTH_TEST_REFUSED") else {
        return Vec::new();
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/isolation/deny.php");
    vec!["php".into(), script.into(), what]
}

/// A running server. Dropping it stops it and asserts a clean end; after a failed test its log is shown and its folder kept.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    /// The process that signals go to: the child, or what took its place.
    main: i32,
    readers: Vec<JoinHandle<()>>,
    address: SocketAddr,
    /// Standard error, as JSON events.
    pub(crate) log: Log,
    /// Standard output: the ready line and the access log.
    pub(crate) out: Log,
    /// For files of the test.
    dir: PathBuf,
    over: bool,
}

/// How a server ended that did not get ready.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) status: ExitStatus,
    pub(crate) log: Log,
}

/// The tests' application, once for each mode.
pub(crate) fn in_each_mode(settings: &[&str], test: impl Fn(&Server)) {
    let modes: [&[&str]; 3] = [
        &["pool.web.mode=classic", "pool.web.script=public/index.php"],
        &[
            "pool.web.mode=resident",
            "pool.web.script=worker.php",
            "pool.web.isolation=request",
        ],
        &[
            "pool.web.mode=resident",
            "pool.web.script=worker.php",
            "pool.web.isolation=none",
        ],
    ];
    for mode in modes {
        let all: Vec<&str> = mode.iter().chain(settings).copied().collect();
        test(&Server::start(&App::of_tests(), &all));
    }
}

impl Server {
    /// Starts a server and waits for its ready line. `settings` are `key=value`, as after `--set`.
    pub(crate) fn start(app: &App, settings: &[&str]) -> Self {
        let mut server = Self::spawn(app, settings);
        let ready = server.out.wait_for_line("hearth: ready on ");
        let address = ready
            .split("http://")
            .nth(1)
            .and_then(|rest| rest.split(' ').next());
        server.address = address
            .and_then(|address| address.parse().ok())
            .expect("an address in the ready line");
        server
    }

    /// Starts a server that is not expected to get ready, and waits for its end.
    pub(crate) fn fail(app: &App, settings: &[&str]) -> Failed {
        let mut server = Self::spawn(app, settings);
        let status = server.wait_for_end();
        Failed {
            status,
            log: server.log.clone(),
        }
    }

    /// Starts a server and waits for nothing.
    pub(crate) fn launch(app: &App, settings: &[&str]) -> Self {
        Self::spawn(app, settings)
    }

    /// Where it listens, if it has said so elsewhere than in its ready line.
    pub(crate) fn set_address(&mut self, address: SocketAddr) {
        self.address = address;
    }

    fn spawn(app: &App, settings: &[&str]) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        // Relaxed: only uniqueness matters.
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("hearth-it-{}-{number}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        let hearth = Path::new(env!("CARGO_BIN_EXE_hearth"));
        let worker = hearth.with_file_name("hearth-worker");
        assert!(
            worker.exists(),
            "build it first: cargo build --bin hearth-worker (`make it` does)"
        );
        let mut command = app.command(hearth);
        command.args(["serve", "--set", "log.format=\"json\""]);
        let is_told = |(name, _): &(String, String)| name == "HEARTH_LISTEN";
        if !settings.iter().any(|setting| setting.starts_with("listen="))
            && !app.environment.iter().any(is_told)
        {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        command.args(&app.flags);
        if let Some(folder) = &app.started_in {
            command.current_dir(folder).env("PWD", folder);
        } else {
            // Many servers of one folder run at a time here.
            let socket = format!("admin_socket={}", dir.join("admin.sock").display());
            command.args(["--set", &socket]);
        }
        command
            .args(settings.iter().flat_map(|setting| ["--set", setting]))
            .arg(&app.dir);
        command.env("RUST_LOG", "hearth=debug").stdin(Stdio::null());
        let environment = &app.environment;
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (log, out) = (Log::default(), Log::default());
        let readers = vec![
            log.follow(child.stderr.take().unwrap()),
            out.follow(child.stdout.take().unwrap()),
        ];
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        Self {
            main: i32::try_from(child.id()).unwrap(),
            child,
            readers,
            address,
            log,
            out,
            dir,
            over: false,
        }
    }

    /// What a command prints that asks the server: `status`, `--json`, …
    pub(crate) fn ask(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "hearth {arguments:?}: {complaint}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// What comes of a command that asks or tells the server.
    pub(crate) fn command(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hearth"));
        command
            .args(arguments)
            .arg("--socket")
            .arg(self.file("admin.sock"));
        command.arg(&self.dir).output().unwrap()
    }

    /// `hearth status --json`.
    pub(crate) fn status(&self) -> Value {
        serde_json::from_str(&self.ask(&["status", "--json"])).unwrap()
    }

    /// Fails unless all workers of the first pool are those that were forked at the start.
    pub(crate) fn assert_same_workers(&self, workers: u64) {
        let totals = self.status()["pools"][0]["totals"].take();
        assert_eq!(
            (&totals["forked"], &totals["died"]),
            (&Value::from(workers), &Value::from(0)),
            "{totals}"
        );
    }

    /// A new connection.
    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.address).expect("connecting to the server")
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// A client whose POST is in a worker that waits for the file `open`, and what that worker logged. For the tests' own application.
    pub(crate) fn at_the_gate(&self, open: &Path) -> (Client, Value) {
        let mut client = self.connect();
        let target = format!("/gate?open={}", open.display());
        client.send("POST", &target, b"").unwrap();
        let waiting = self.log.wait("php", |event| event["text"] == "at the gate");
        (client, waiting)
    }

    /// One request on a connection of its own.
    pub(crate) fn get(&self, target: &str) -> Answer {
        self.connect().request("GET", target, b"").expect("a response")
    }

    /// As [`Server::get`].
    pub(crate) fn post(&self, target: &str, body: &[u8]) -> Answer {
        self.connect().request("POST", target, body).expect("a response")
    }

    /// A file of this test that does not exist yet.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Process id of the incarnation of a worker that is alive now.
    pub(crate) fn worker_pid(&self, worker: &Value) -> i32 {
        let ready = self
            .log
            .last("worker ready", |event| event["worker"] == *worker)
            .unwrap();
        i32::try_from(ready["pid"].as_i64().unwrap()).unwrap()
    }

    /// Process id of the server.
    pub(crate) fn pid(&self) -> i32 {
        self.main
    }

    /// The server is another process from now on: what its binary was replaced by, or what its runner has started.
    pub(crate) fn follow(&mut self, pid: i32) {
        self.main = pid;
    }

    /// Has its binary replaced for the `times`th time, and returns when the new server is alone in being asked. It is this one from
    /// then on.
    pub(crate) fn replace(&mut self, times: usize) {
        let replaced = "replaced: another server has taken over, this one finishes its requests";
        self.signal(Signal::USR2);
        self.log.wait_for_count(replaced, times);
        let event = self.log.last(replaced, |_| true).unwrap();
        self.follow(i32::try_from(event["pid"].as_i64().unwrap()).unwrap());
        self.log.wait_for_count("server ready", times + 1);
    }

    /// Sends the server a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.pid(), signal);
    }

    /// Waits until the server has ended by itself or by a signal sent before.
    pub(crate) fn wait_for_end(&mut self) -> ExitStatus {
        let until = Instant::now() + STOP_TIMEOUT;
        // The readers end when the last writer has closed its end: then the process is gone or all but gone.
        for reader in self.readers.drain(..) {
            reader.join().unwrap();
        }
        assert!(Instant::now() < until, "the server took too long to end");
        self.over = true;
        self.child.wait().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            if !self.over {
                let _ = kill_process(Pid::from_raw(self.main).unwrap(), Signal::KILL);
                let _ = self.child.kill();
                let _ = self.child.wait();
            }
            eprintln!("--- standard output\n{}", self.out.text());
            eprintln!("--- log\n{}\n--- files: {}", self.log.text(), self.dir.display());
            return;
        }
        if !self.over {
            self.signal(Signal::TERM);
            let status = self.wait_for_end();
            assert!(
                status.success(),
                "the server ended with {status}\n{}",
                self.log.text()
            );
            self.log.assert_clean_end();
        }
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Sends a signal to a process that the test knows to be the server's or one of its workers.
pub(crate) fn kill(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}
