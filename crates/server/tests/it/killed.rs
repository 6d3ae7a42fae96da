//! The server itself is killed: nothing is left of it, and another takes its place.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};

use crate::harness::{App, Client, Folder, RawClient, Server, ask_unix, tree};

const MODES: [[&str; 3]; 4] = [
    CLASSIC,
    [RESIDENT, SCRIPT, "pool.web.isolation=none"],
    [RESIDENT, SCRIPT, "pool.web.isolation_method=auto"],
    [RESIDENT, SCRIPT, "pool.web.isolation_method=fork"],
];
const CLASSIC: [&str; 3] = [
    "pool.web.mode=classic",
    "pool.web.script=public/index.php",
    "pool.web.ini.opcache.enable=1",
];
const RESIDENT: &str = "pool.web.mode=resident";
const SCRIPT: &str = "pool.web.script=worker.php";

/// Every file below `folder`.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// How many files in `folder` a process holds open, with a name or without.
fn open_files(pid: i32, folder: &Path) -> usize {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    open.filter(|entry| fs::read_link(entry.path()).is_ok_and(|file| file.starts_with(folder)))
        .count()
}

fn wait_for_open_files(pid: i32, folder: &Path, count: usize) {
    let until = Instant::now() + Duration::from_secs(20);
    while open_files(pid, folder) < count {
        assert!(
            Instant::now() < until,
            "never had {count} files in the spool folder"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A request whose body is being spooled, one whose response is, and one that runs.
fn keep_busy(server: &Server, spool: &Path) -> (Client, RawClient, Client) {
    let mut upload = server.connect();
    upload
        .raw(b"POST /length HTTP/1.1\r\nHost: test\r\nContent-Length: 1048576\r\n\r\n")
        .unwrap();
    upload.raw(&vec![b'x'; 512 * 1024]).unwrap();
    wait_for_open_files(server.pid(), spool, 1);
    let mut download = RawClient::connect(server.address());
    download
        .send(b"GET /big?mib=64 HTTP/1.1\r\nHost: test\r\n\r\n")
        .unwrap();
    assert_eq!(download.head().unwrap().status, 200);
    wait_for_open_files(server.pid(), spool, 2);
    let (running, _) = server.at_the_gate(&server.file("never"));
    (upload, download, running)
}

fn assert_end(processes: &[(i32, OwnedFd)]) {
    let patience = Timespec {
        tv_sec: 20,
        tv_nsec: 0,
    };
    for (pid, process) in processes {
        let mut fds = [PollFd::new(process, PollFlags::IN)];
        let ended = poll(&mut fds, Some(&patience)).unwrap();
        assert_eq!(ended, 1, "process {pid} outlived the server");
    }
}

/// The processes of a server, the server among them.
fn processes(server: &Server) -> Vec<(i32, OwnedFd)> {
    let open = |pid| pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()).unwrap();
    tree(server.pid())
        .into_iter()
        .map(|pid| (pid, open(pid)))
        .collect()
}

/// Where a server may leave something: its spool, its temporary and its sockets' folder.
struct Place(Folder);

impl Place {
    fn new() -> Self {
        let folder = Folder::new("killed");
        for name in ["spool", "tmp", "run"] {
            fs::create_dir(folder.file(name)).unwrap();
        }
        Self(folder)
    }

    /// A server here that answers requests and probes at these addresses.
    fn serve(&self, mode: [&str; 3], web: &str, probes: &str) -> Server {
        let run = self.0.file("run");
        let run = run.display();
        let settings = [
            format!("listen=['{web}', 'unix:{run}/web.sock']"),
            format!("fastcgi.listen='unix:{run}/fastcgi.sock'"),
            format!("admin_socket='{run}/admin.sock'"),
            format!("admin_listen='{probes}'"),
            format!("spool_dir='{}'", self.0.file("spool").display()),
            "limits.body_memory='1 KiB'".to_owned(),
            "limits.response_memory='64 KiB'".to_owned(),
            "pool.web.workers=3".to_owned(),
        ];
        let all: Vec<&str> = settings.iter().map(String::as_str).chain(mode).collect();
        let app = App::of_tests().with_env("TMPDIR", self.0.file("tmp").to_str().unwrap());
        Server::start(&app, &all)
    }

    /// Only the sockets' names are there, which nobody can have removed.
    fn assert_nothing_but_sockets(&self) {
        let left = files(self.0.path());
        let names = ["admin", "fastcgi", "web"].map(|name| self.0.file(&format!("run/{name}.sock")));
        assert_eq!(left, names);
        for path in left {
            assert!(fs::metadata(path).unwrap().file_type().is_socket());
        }
    }
}

#[test]
fn a_server_that_is_killed_leaves_no_process_no_file_and_no_port() {
    for mode in MODES {
        let place = Place::new();
        let mut server = place.serve(mode, "127.0.0.1:0", "127.0.0.1:0");
        let probes = server.log.wait("probes answered", |_| true)["address"].clone();
        let probes: SocketAddr = probes.as_str().unwrap().parse().unwrap();
        server.log.wait_for_count("worker ready", 3);
        let (mut upload, _download, mut running) = keep_busy(&server, &place.0.file("spool"));

        let processes = processes(&server);
        assert!(processes.len() >= 5, "server, zygote and workers: {processes:?}");
        server.signal(Signal::KILL);
        assert!(!server.wait_for_end().success());
        assert_end(&processes);
        assert!(upload.read().is_err());
        assert!(running.read().is_err());
        for address in [server.address(), probes] {
            assert!(TcpStream::connect(address).is_err(), "{address} is still open");
        }
        place.assert_nothing_but_sockets();

        let next = place.serve(mode, &server.address().to_string(), &probes.to_string());
        assert_eq!(next.address(), server.address());
        assert_eq!(next.get("/tcp").text(), "hello from /tcp");
        assert_eq!(
            ask_unix(&place.0.file("run/web.sock"), "/unix"),
            "hello from /unix"
        );
        drop(next);
        assert_eq!(files(place.0.path()), Vec::<PathBuf>::new());
    }
}
