//! Under a service manager: what it is told, and sockets that it opens.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::harness::{App, Server, ask_unix};

/// Longest wait for a message.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a manager listens on.
struct Manager {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Manager {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("hearth-manager-{}-{name}", std::process::id()));
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { socket, path }
    }

    fn next(&self) -> String {
        let mut buffer = [0; 4096];
        let length = self.socket.recv(&mut buffer).expect("a message to the manager");
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    }

    /// The next message that begins with `start`.
    fn wait(&self, start: &str) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            let message = self.next();
            assert!(Instant::now() < until, "the manager never heard {start}");
            if message.starts_with(start) {
                return message;
            }
        }
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[test]
fn a_manager_is_told_of_start_reload_replacement_and_stop() {
    let manager = Manager::new("told");
    let app = App::of_tests().with_env("NOTIFY_SOCKET", manager.path.to_str().unwrap());
    let mut server = Server::start(&app, &["pool.web.workers=1"]);
    let ready = manager.next();
    assert_eq!(
        ready,
        format!("READY=1\nSTATUS=serving on http://{}", server.address())
    );
    server.signal(Signal::HUP);
    let reloading = manager.next();
    let clock = reloading
        .lines()
        .find_map(|line| line.strip_prefix("MONOTONIC_USEC="));
    assert!(reloading.starts_with("RELOADING=1\n"), "{reloading}");
    assert!(clock.unwrap().parse::<u64>().unwrap() > 0);
    let reloaded = manager.next();
    assert!(reloaded.starts_with("READY=1\n"), "{reloaded}");
    assert!(reloaded.ends_with(", generation 2"), "{reloaded}");

    server.signal(Signal::USR2);
    let heir = manager.next();
    let pid = heir.strip_prefix("MAINPID=").unwrap().parse().unwrap();
    assert!(manager.next().starts_with("READY=1\n"));
    server.follow(pid);
    server.log.wait_for_count("server stopped", 1);
    server.signal(Signal::TERM);
    assert!(manager.next().starts_with("STOPPING=1\n"));
    assert!(server.wait_for_end().success());
}

#[test]
fn the_main_loop_feeds_the_watchdog_and_php_knows_nothing_of_it() {
    let manager = Manager::new("watchdog");
    let app = App::of_tests()
        .with_env("NOTIFY_SOCKET", manager.path.to_str().unwrap())
        .with_env("WATCHDOG_USEC", "100000");
    let mut server = Server::start(&app, &["pool.web.workers=1"]);
    manager.wait("READY=1");
    for _ in 0..5 {
        assert_eq!(manager.next(), "WATCHDOG=1");
    }
    let worker = server.log.wait("worker ready", |_| true)["pid"].as_i64().unwrap();
    let environment = fs::read_to_string(format!("/proc/{worker}/environ")).unwrap();
    assert!(environment.contains("RUST_LOG="), "{environment}");
    assert!(
        !environment.contains("NOTIFY_SOCKET") && !environment.contains("WATCHDOG"),
        "{environment}"
    );
    // A successor feeds it too, under its own number.
    server.signal(Signal::USR2);
    let pid = manager.wait("MAINPID=")["MAINPID=".len()..].parse().unwrap();
    server.follow(pid);
    server.log.wait_for_count("server stopped", 1);
    manager.wait("WATCHDOG=1");
}

/// Holds one thread of a process for as long as its standard input is open.
const HOLD: &str = r"
    my %ptrace = (x86_64 => 101, aarch64 => 117);
    my $call = $ptrace{(POSIX::uname())[4]} // exit 9;
    my ($seize, $interrupt) = (0x4206, 0x4207);
    syscall($call, $seize, $ARGV[0] + 0, 0, 0) == 0 or exit 9;
    syscall($call, $interrupt, $ARGV[0] + 0, 0, 0) == 0 or exit 9;
    waitpid($ARGV[0], 0x40000000);
    $| = 1;
    print qq(held\n);
    <STDIN>;
";

#[test]
fn a_main_loop_that_hangs_is_not_reported_as_alive() {
    let manager = Manager::new("hangs");
    let app = App::of_tests()
        .with_env("NOTIFY_SOCKET", manager.path.to_str().unwrap())
        .with_env("WATCHDOG_USEC", "100000");
    let server = Server::start(&app, &["pool.web.workers=1"]);
    manager.wait("WATCHDOG=1");
    let mut client = server.connect();
    assert_eq!(client.request("GET", "/", b"").unwrap().status, 200);
    // Of the main thread, whose number is the process's.
    let mut holder = Command::new("perl")
        .args(["-MPOSIX", "-e", HOLD, &server.pid().to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = [0; 5];
    if holder.stdout.take().unwrap().read_exact(&mut said).is_err() {
        let status = holder.wait().unwrap();
        eprintln!("not run: threads of other processes may not be held here: {status}");
        return;
    }
    // What it had said before is there already.
    manager.socket.set_nonblocking(true).unwrap();
    while manager.socket.recv(&mut [0; 64]).is_ok() {}
    manager.socket.set_nonblocking(false).unwrap();
    let silence = Some(Duration::from_secs(1));
    manager.socket.set_read_timeout(silence).unwrap();
    let heard = manager.socket.recv(&mut [0; 64]);
    assert!(heard.is_err(), "a main loop that is held has reported");
    // The other threads serve; only those who connect now have to wait.
    assert_eq!(client.request("GET", "/a", b"").unwrap().status, 200);
    drop(holder.stdin.take());
    holder.wait().unwrap();
    manager.socket.set_read_timeout(Some(PATIENCE)).unwrap();
    manager.wait("WATCHDOG=1");
}

/// Opens a socket and runs a program that gets it as `sd_listen_fds(3)` says.
const ACTIVATE: &str = r"
    use Socket; use POSIX;
    $^F = 255;
    my $s;
    socket($s, PF_INET, SOCK_STREAM, 0) && bind($s, sockaddr_in(0, INADDR_LOOPBACK)) && listen($s, 16) || die;
    POSIX::dup2(fileno($s), 3) // die;
    @ENV{qw(LISTEN_PID LISTEN_FDS LISTEN_FDNAMES)} = ($$, 1, 'hearth.socket');
    print STDERR (sockaddr_in(getsockname($s)))[0], qq(\n);
    exec @ARGV or die;
";

#[test]
fn a_socket_that_the_manager_opened_is_served_and_handed_on() {
    let app = App::of_tests().run_by(&["perl", "-e", ACTIVATE, "--"].map(OsStr::new));
    let mut server = Server::start(&app, &["pool.web.workers=1"]);
    let port = server.log.wait_for_line("");
    assert_eq!(server.address().port().to_string(), port);
    let resolved = server.log.wait("settings resolved", |_| true);
    let reasons = resolved["reasons"].as_str().unwrap();
    let expected = format!("listening on 127.0.0.1:{port}, a socket of the service manager's");
    assert!(reasons.contains(&expected), "{reasons}");
    assert_eq!(server.get("/a").text(), "hello from /a");
    let worker = server.log.wait("worker ready", |_| true)["pid"].as_i64().unwrap();
    let environment = fs::read_to_string(format!("/proc/{worker}/environ")).unwrap();
    assert!(!environment.contains("LISTEN_"), "{environment}");
    server.signal(Signal::USR2);
    let replaced = "replaced: another server has taken over, this one finishes its requests";
    let pid = server.log.wait(replaced, |_| true)["pid"].as_i64().unwrap();
    server.follow(i32::try_from(pid).unwrap());
    server.log.wait_for_count("server stopped", 1);
    assert_eq!(server.get("/b").text(), "hello from /b");
    server.signal(Signal::TERM);
    assert!(server.wait_for_end().success());
    assert!(std::net::TcpStream::connect(server.address()).is_err());
}

/// As [`ACTIVATE`], with two sockets, the second at the path that it gets first.
const ACTIVATE_TWO: &str = r"
    use Socket; use POSIX;
    $^F = 255;
    my ($s, $u);
    socket($s, PF_INET, SOCK_STREAM, 0) && bind($s, sockaddr_in(0, INADDR_LOOPBACK)) && listen($s, 16) || die;
    socket($u, PF_UNIX, SOCK_STREAM, 0) && bind($u, sockaddr_un($ARGV[0])) && listen($u, 16) || die;
    my ($a, $b) = (POSIX::dup(fileno($s)), POSIX::dup(fileno($u)));
    POSIX::dup2($a, 3) // die;
    POSIX::dup2($b, 4) // die;
    @ENV{qw(LISTEN_PID LISTEN_FDS LISTEN_FDNAMES)} = ($$, 2, 'http:other');
    shift @ARGV;
    exec @ARGV or die;
";

#[test]
fn several_sockets_of_the_manager_are_served_and_their_files_stay() {
    let path = std::env::temp_dir().join(format!("hearth-manager-{}-two", std::process::id()));
    let app =
        App::of_tests().run_by(&["perl", "-e", ACTIVATE_TWO, "--", path.to_str().unwrap()].map(OsStr::new));
    let mut server = Server::start(&app, &["pool.web.workers=1"]);
    assert_eq!(server.get("/a").text(), "hello from /a");
    assert_eq!(ask_unix(&path, "/b"), "hello from /b");
    server.signal(Signal::USR2);
    let replaced = "replaced: another server has taken over, this one finishes its requests";
    let pid = server.log.wait(replaced, |_| true)["pid"].as_i64().unwrap();
    server.follow(i32::try_from(pid).unwrap());
    server.log.wait_for_count("server stopped", 1);
    assert_eq!(ask_unix(&path, "/c"), "hello from /c");
    server.signal(Signal::TERM);
    assert!(server.wait_for_end().success());
    assert!(path.exists(), "the manager's socket was removed");
    fs::remove_file(&path).unwrap();
}
