//! The zygote fails: it is killed while it forks, it cannot fork, the line to it breaks. Requests are served meanwhile, and in the
//! end all workers are there and no other process is.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown, send, shutdown};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, Signal, kill_process, pidfd_getfd, pidfd_open};

use crate::harness::{Folder, Server, in_each_mode, is_root, kill, tree};

/// Process id of the latest zygote.
fn zygote(server: &Server) -> i32 {
    let started = server.log.last("zygote started", |_| true).unwrap();
    i32::try_from(started["pid"].as_i64().unwrap()).unwrap()
}

/// Waits until the pool has so many workers and the server no other processes than them and one zygote.
fn wait_for_whole(server: &Server, workers: usize) {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let pool = server.status()["pools"][0].take();
        let there = pool["workers"].as_array().unwrap().len();
        let processes = tree(server.pid());
        if there == workers && processes.len() == workers + 2 {
            return;
        }
        assert!(Instant::now() < until, "{processes:?}, {pool:#}");
    }
}

#[test]
fn a_zygote_killed_before_it_forks_leaves_no_worker_out() {
    in_each_mode(&["pool.web.workers=3"], |server| {
        server.log.wait_for_count("worker ready", 3);
        let held = Held::hold(zygote(server));
        for number in 0..2_u16 {
            kill(server.worker_pid(&number.into()), Signal::KILL);
        }
        // It does not say how they ended; after a while they are settled without, and it is asked for others.
        server.log.wait_for_count("worker died", 2);
        assert_eq!(server.get("/beside").status, 200);
        kill(held.pid, Signal::KILL);
        drop(held);
        server.log.wait("zygote ready", |event| event["generation"] == 2);
        wait_for_whole(server, 3);
        assert_eq!(server.get("/after").status, 200);
    });
}

#[test]
fn a_zygote_killed_while_it_forks_leaves_no_worker_out_and_none_behind() {
    in_each_mode(&["pool.web.workers=4"], |server| {
        server.log.wait_for_count("worker ready", 4);
        for round in 0..6_u32 {
            let victim = zygote(server);
            for number in 0..4_u16 {
                // It may have ended with its last zygote just now.
                let pid = Pid::from_raw(server.worker_pid(&number.into())).unwrap();
                let killed = kill_process(pid, Signal::KILL);
                assert!(matches!(killed, Ok(()) | Err(Errno::SRCH)), "{killed:?}");
            }
            // Each time at another moment: it forks within some milliseconds.
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_micros(700) * round {
                std::thread::yield_now();
            }
            kill(victim, Signal::KILL);
            let booted = usize::try_from(round).unwrap() + 2;
            server.log.wait_for_count("zygote ready", booted);
            assert_eq!(server.get("/after").status, 200);
            wait_for_whole(server, 4);
        }
    });
}

#[test]
fn a_worker_that_is_stopped_before_it_speaks_is_given_up_and_its_zygote_stays() {
    in_each_mode(&["pool.web.workers=2"], |server| {
        server.log.wait_for_count("worker ready", 2);
        let zygote = zygote(server);
        let children = || -> Vec<i32> {
            let all = fs::read_to_string(format!("/proc/{zygote}/task/{zygote}/children")).unwrap();
            all.split_ascii_whitespace()
                .map(|pid| pid.parse().unwrap())
                .collect()
        };
        let given_up = || {
            server
                .log
                .count("worker given up: it was forked and said nothing")
                > 0
        };
        let mut victim = server.worker_pid(&1.into());
        while !given_up() {
            let known = children();
            kill(victim, Signal::KILL);
            victim = loop {
                if let Some(newborn) = children().into_iter().find(|pid| !known.contains(pid)) {
                    break newborn;
                }
            };
            kill(victim, Signal::STOP);
            // It may have spoken already: then once more.
            let has_spoken = || {
                server
                    .log
                    .last("worker ready", |event| event["pid"] == victim)
                    .is_some()
            };
            wait_until("the stopped worker is given up", || has_spoken() || given_up());
        }
        wait_for_whole(server, 2);
        assert_eq!(server.get("/after").status, 200);
        assert_eq!(server.log.count("zygote started"), 1);
    });
}

/// One that says "on".
fn application(name: &str) -> Folder {
    let folder = Folder::new(name);
    folder.write(
        "worker.php",
        "<?php while (hearth_handle_request(fn () => print('on'))) {}",
    );
    folder
}

/// A process that counts for the limits of this user.
fn process_of(user: u32) -> Child {
    let mut command = Command::new("sleep");
    command.arg("60").uid(user).gid(user).spawn().unwrap()
}

#[test]
fn a_fork_that_fails_is_tried_again_and_the_other_workers_serve_on() {
    if !is_root() {
        eprintln!("not run: only root can limit a user of its own");
        return;
    }
    let folder = application("fork");
    // The zygote, a worker and somebody else.
    let settings = [
        "pool.web.mode=resident",
        "pool.web.script=worker.php",
        "pool.web.workers=2",
        "pool.web.user=54322",
        "pool.web.group=54322",
        "pool.web.rlimits.nproc=3",
    ];
    let mut other = process_of(54_322);
    let server = Server::start(&folder.app(), &settings);
    server.log.wait_for_count_of("worker not forked", 2, |event| {
        let reason = event["reason"].as_str().unwrap();
        event["worker"] == 1 && reason.contains("Resource temporarily unavailable")
    });
    assert_eq!(server.get("/").text(), "on");
    let trouble = server.status()["pools"][0]["trouble"]["reason"].take();
    let said = trouble.as_str().unwrap();
    assert!(said.starts_with("worker 1 was not forked: fork: "), "{said}");
    other.kill().unwrap();
    other.wait().unwrap();
    server.log.wait_for_count("worker ready", 2);
    wait_for_whole(&server, 2);
    assert!(server.status()["pools"][0]["trouble"].is_null());
}

#[test]
fn a_zygote_that_cannot_fork_is_replaced_once_no_worker_is_left() {
    if !is_root() {
        eprintln!("not run: only root can limit a user of its own");
        return;
    }
    let folder = application("barren");
    // The zygote and a worker, in whose place somebody else is at last.
    let settings = [
        "pool.web.mode=resident",
        "pool.web.script=worker.php",
        "pool.web.isolation=none",
        "pool.web.workers=1",
        "pool.web.user=54324",
        "pool.web.group=54324",
        "pool.web.rlimits.nproc=2",
    ];
    let server = Server::start(&folder.app(), &settings);
    assert_eq!(server.get("/").text(), "on");
    let mut other = process_of(54_324);
    kill(server.worker_pid(&0.into()), Signal::KILL);
    server.log.wait("zygote killed", |event| {
        let reason = event["reason"].as_str().unwrap();
        let says_why =
            reason.starts_with("no worker is left and it forks none: fork: Resource temporarily unavailable");
        says_why && reason.contains("raise what limits the processes")
    });
    server.log.wait("zygote ready", |event| event["generation"] == 2);
    other.kill().unwrap();
    other.wait().unwrap();
    server.log.wait_for_count("worker ready", 2);
    assert_eq!(server.get("/").text(), "on");
    wait_for_whole(&server, 1);
}

#[test]
fn a_fork_for_a_request_that_fails_costs_that_request_and_the_log_says_why() {
    if !is_root() {
        eprintln!("not run: only root can limit a user of its own");
        return;
    }
    let folder = application("fork-for-a-request");
    // The zygote, a worker and one fork, in whose place somebody else is at first.
    let settings = [
        "pool.web.mode=resident",
        "pool.web.script=worker.php",
        "pool.web.isolation_method=fork",
        "pool.web.workers=1",
        "pool.web.user=54323",
        "pool.web.group=54323",
        "pool.web.rlimits.nproc=3",
    ];
    let server = Server::start(&folder.app(), &settings);
    assert_eq!(server.get("/").text(), "on");
    let mut other = process_of(54_323);
    assert_eq!(server.get("/").status, 500);
    server
        .log
        .wait_for_line_with("forking for a request: Resource temporarily unavailable");
    other.kill().unwrap();
    other.wait().unwrap();
    assert_eq!(server.get("/").text(), "on");
    wait_for_whole(&server, 1);
}

/// The sockets of a process, each with one of its numbers there.
fn sockets_of(pid: i32) -> BTreeMap<PathBuf, i32> {
    let mut sockets = BTreeMap::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten() {
        let target = fs::read_link(entry.path()).unwrap_or_default();
        if target.to_string_lossy().starts_with("socket:") {
            let number = entry.file_name().into_string().unwrap();
            sockets.insert(target, number.parse().unwrap());
        }
    }
    sockets
}

/// The control socket of a zygote or worker, once that has no other; `None` if it may not be had here.
fn socket_of(pid: i32) -> Option<OwnedFd> {
    let until = Instant::now() + Duration::from_secs(20);
    let number = loop {
        let sockets = sockets_of(pid);
        if sockets.len() == 1 {
            break sockets.into_values().next().unwrap();
        }
        assert!(Instant::now() < until, "process {pid} has {sockets:?}");
    };
    let process = pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()).unwrap();
    match pidfd_getfd(process, number, PidfdGetfdFlags::empty()) {
        Ok(socket) => Some(socket),
        Err(error) => {
            eprintln!("not run: descriptors of other processes may not be had here: {error}");
            None
        }
    }
}

#[test]
fn a_broken_control_socket_costs_a_zygote_and_no_worker() {
    in_each_mode(&["pool.web.workers=2"], |server| {
        server.log.wait_for_count("worker ready", 2);
        let Some(socket) = socket_of(zygote(server)) else {
            return;
        };
        shutdown(&socket, Shutdown::Both).unwrap();
        drop(socket);
        server.log.wait("zygote died", |_| true);
        assert_eq!(server.get("/beside").status, 200);
        server.log.wait("zygote ready", |event| event["generation"] == 2);
        // One that says what nobody understands is the same.
        let socket = socket_of(zygote(server)).unwrap();
        send(&socket, b"nonsense", SendFlags::empty()).unwrap();
        drop(socket);
        server.log.wait("zygote killed", |event| {
            event["reason"]
                .as_str()
                .unwrap()
                .starts_with("it sent what is not understood: ")
        });
        assert_eq!(server.get("/beside").status, 200);
        server.log.wait("zygote ready", |event| event["generation"] == 3);
        wait_for_whole(server, 2);
        assert_eq!(server.log.count("worker ready"), 2);
        assert_eq!(server.log.count("worker died"), 0);
    });
}

#[test]
fn a_worker_whose_control_socket_breaks_is_replaced_when_it_needs_it() {
    let settings = ["pool.web.workers=1", "limits.body_memory=\"1 KiB\""];
    in_each_mode(&settings, |server| {
        assert_eq!(server.get("/before").status, 200);
        let Some(socket) = socket_of(server.worker_pid(&0.into())) else {
            return;
        };
        shutdown(&socket, Shutdown::Both).unwrap();
        drop(socket);
        let mut client = server.connect();
        let answer = client.request("PUT", "/length", &vec![b'x'; 512 * 1024]).unwrap();
        assert_eq!((answer.status, answer.text().as_str()), (200, "524288"));
        let died = server.log.wait("worker died", |_| true);
        assert_eq!(died["why"], "lost touch with the server (exit status 11)");
        wait_for_whole(server, 1);
    });
}

/// A process that stands still without having been stopped by a signal, which the server would see: traced, as by a debugger.
struct Held {
    pid: i32,
    tracer: Child,
}

impl Held {
    fn hold(pid: i32) -> Self {
        // PTRACE_SEIZE and PTRACE_INTERRUPT; the end of the tracer lets it go.
        let script = "import ctypes, os, sys
libc, pid = ctypes.CDLL(None), int(sys.argv[1])
for request in (0x4206, 0x4207):
    assert libc.ptrace(ctypes.c_long(request), pid, None, None) == 0
os.waitpid(pid, 0x40000000)
print('held', flush=True)
sys.stdin.read()";
        let mut command = Command::new("/usr/bin/python3");
        command.args(["-c", script, &pid.to_string()]);
        let mut tracer = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(tracer.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert_eq!(line, "held\n");
        Self { pid, tracer }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.tracer.stdin.take());
        let _ = self.tracer.wait();
    }
}

/// Waits until something is so of which no log tells.
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < until, "never: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_request_of_a_worker_whose_zygote_dies_meanwhile_is_answered() {
    in_each_mode(&["pool.web.workers=1"], |server| {
        server.log.wait_for_count("worker ready", 1);
        let held = Held::hold(zygote(server));
        let parent = held.pid;
        kill(server.worker_pid(&0.into()), Signal::KILL);
        server.log.wait("worker died", |_| true);
        let mark = server.file("mark");
        let mut client = server.connect();
        client
            .send("GET", &format!("/once?mark={}", mark.display()), b"")
            .unwrap();
        wait_until("the request is queued", || {
            server.status()["pools"][0]["queue"]["waiting"] == 1
        });
        // While the server looks away, the zygote forks and dies; its worker takes the request.
        kill(server.pid(), Signal::STOP);
        drop(held);
        wait_until("the request runs", || mark.exists());
        kill(parent, Signal::KILL);
        kill(server.pid(), Signal::CONT);
        // Whichever the server hears of first: the worker goes on, or the request runs again.
        server.log.wait("zygote died", |_| true);
        fs::write(server.file("mark.never"), "").unwrap();
        let answer = client.read().unwrap();
        assert_eq!(answer.status, 200);
        assert!(answer.text().ends_with("second try"), "{}", answer.text());
        wait_for_whole(server, 1);
    });
}
