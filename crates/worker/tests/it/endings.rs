//! Ends: of scripts, workers, the zygote and the server.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use ipc::control::{FromZygote, Mode, exit};
use ipc::logline::{Kind, Level};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};

use crate::harness::{Pool, wait_for};

fn resident(count: u16) -> Pool {
    Pool::start(Mode::Resident, "resident.php", count)
}

fn classic(count: u16) -> Pool {
    Pool::start(Mode::Classic, "classic.php", count)
}

#[test]
fn exit_ends_the_request_only() {
    for mut pool in [classic(1), resident(1)] {
        for _ in 0..3 {
            let response = pool.get("do=exit");
            assert_eq!(
                (response.status(), response.text().as_str()),
                (200, "before exit")
            );
        }
        // The count may lag behind the last response, not behind the one before.
        assert!(pool.requests(0) >= 2);
    }
}

#[test]
fn an_uncaught_exception_is_a_500_and_one_log_line() {
    for mut pool in [classic(1), resident(1)] {
        assert_eq!(pool.get("do=throw").status(), 500);
        let said = pool.workers[0].said();
        let (request, level, message) = &said[0];
        assert!(request.is_some());
        assert_eq!(*level, Kind::Message(Level::ERROR));
        assert!(message.contains("first line\nsecond line"), "{message}");
    }
}

#[test]
fn a_fatal_error_in_classic_mode_ends_the_request_only() {
    let mut pool = classic(1);
    for _ in 0..3 {
        let response = pool.get("do=fatal");
        assert_eq!(
            (response.status(), response.text().as_str()),
            (200, "before the fatal error")
        );
        assert_eq!(pool.get("do=fatal&silent=1").status(), 500);
    }
    assert_eq!(pool.get("do=hello").text(), "Hello, world!");
}

#[test]
fn a_fatal_error_in_resident_mode_completes_the_response_and_a_fresh_worker_serves() {
    let mut pool = resident(1);
    for incarnation in 1..4 {
        assert_eq!(pool.get("do=count").text(), "1");
        let response = pool.get("do=fatal");
        assert_eq!(
            (response.status(), response.text().as_str()),
            (200, "before the fatal error")
        );
        assert_eq!(pool.exited(), (0, Some(exit::SCRIPT_ENDED), None));
        let said = pool.workers[0].said();
        assert!(said[0].2.contains("Allowed memory size"), "{said:?}");
        assert!(
            said.last()
                .unwrap()
                .2
                .contains("a fatal error ended the worker script"),
            "{said:?}"
        );
        pool.fork(0, incarnation);
    }
}

#[test]
fn a_script_that_leaves_its_loop_has_answered_and_is_replaced() {
    let mut pool = resident(1);
    assert_eq!(pool.get("do=hello&stop=1").text(), "Hello, world!");
    assert_eq!(pool.exited(), (0, Some(exit::SCRIPT_ENDED), None));
    pool.fork(0, 1);
    assert_eq!(pool.get("do=hello").text(), "Hello, world!");
}

#[test]
fn a_drained_worker_lets_its_script_end_and_the_others_serve_on() {
    let mut pool = resident(2);
    pool.get("do=hello");
    pool.drain(0);
    assert_eq!(pool.exited(), (0, Some(exit::DRAINED), None));
    let drained = pool.workers.iter().find(|worker| worker.id.0 == 0).unwrap();
    assert!(drained.said()[0].2.contains("after the loop"));
    for _ in 0..3 {
        assert_eq!(pool.get("do=hello").text(), "Hello, world!");
    }
    pool.fork(0, 1);
    pool.drain(1);
    assert_eq!(pool.exited(), (1, Some(exit::DRAINED), None));
    assert_eq!(pool.get("do=hello").text(), "Hello, world!");
}

#[test]
fn a_killed_worker_is_reported_with_its_signal_and_replaced() {
    for mut pool in [classic(1), resident(1)] {
        pool.workers[0].signal(Signal::KILL);
        assert_eq!(pool.exited(), (0, None, Some(Signal::KILL.as_raw())));
        pool.fork(0, 1);
        assert_eq!(pool.get("do=hello").text(), "Hello, world!");
    }
}

#[test]
fn workers_outlive_their_zygote() {
    let mut pool = resident(2);
    let zygote = pidfd(pool.zygote());
    rustix::process::pidfd_send_signal(&zygote, Signal::KILL).unwrap();
    wait_for(&[std::os::fd::AsFd::as_fd(&zygote)]);
    for _ in 0..10 {
        assert_eq!(pool.get("do=hello").text(), "Hello, world!");
    }
    pool.drain(0);
    pool.drain(1);
    for worker in &pool.workers {
        worker.wait();
    }
}

#[test]
fn an_application_that_does_not_boot_is_reported_with_its_error() {
    for (script, expected) in [
        ("throws.php", "no database"),
        ("forgets.php", "ran to its end"),
        ("missing.php", "missing.php"),
    ] {
        let (pool, answer) = Pool::boot(Mode::Resident, script);
        let FromZygote::BootFailed { reason } = answer else {
            panic!("{script}: {answer:?}");
        };
        assert!(reason.contains(expected), "{script}: {reason}");
        assert!(
            reason.contains("did not reach hearth_handle_request()"),
            "{script}: {reason}"
        );
        drop(pool);
    }
}

#[test]
fn a_zygote_with_a_second_thread_does_not_fork_and_names_the_thread() {
    let (mut pool, answer) = Pool::boot(Mode::Resident, "threads.php");
    assert!(matches!(answer, FromZygote::Ready { .. }), "{answer:?}");
    match *pool.try_fork(0, 0).unwrap_err() {
        FromZygote::ForkFailed { reason, .. } => assert!(reason.contains("(telemetry)"), "{reason}"),
        other => panic!("{other:?}"),
    }
}

/// Not a test of its own: the server's part in the next one, in a process that can be killed.
#[test]
fn a_server_that_waits_to_be_killed() {
    if std::env::var_os("HEARTH_TEST_VICTIM").is_none() {
        return;
    }
    let mut pool = resident(2);
    pool.get("do=hello");
    let mut pids = vec![pool.zygote()];
    pids.extend(pool.workers.iter().map(|worker| worker.pid));
    let mut out = std::io::stdout();
    writeln!(out, "\npids {pids:?}").unwrap();
    out.flush().unwrap();
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
}

#[test]
fn zygote_and_workers_end_with_the_server() {
    let mut server = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "endings::a_server_that_waits_to_be_killed",
            "--nocapture",
        ])
        .env("HEARTH_TEST_VICTIM", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let pids = lines
        .find_map(|line| {
            let line = line.unwrap();
            let list = line.strip_prefix("pids [")?.strip_suffix(']')?.to_owned();
            Some(list)
        })
        .unwrap();
    let pidfds: Vec<_> = pids.split(", ").map(|pid| pidfd(pid.parse().unwrap())).collect();
    assert_eq!(pidfds.len(), 3);
    server.kill().unwrap();
    server.wait().unwrap();
    for fd in &pidfds {
        wait_for(&[std::os::fd::AsFd::as_fd(fd)]);
    }
}

fn pidfd(pid: i32) -> std::os::fd::OwnedFd {
    pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()).unwrap()
}
