//! As process 1, the way a container runs the server.

use std::ffi::OsStr;
use std::process::Command;

use rustix::process::Signal;

use crate::harness::{App, Server, tree};

/// Runs what follows as process 1 of a namespace of its own.
const UNSHARE: [&str; 5] = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"];

fn may_unshare() -> bool {
    let may = Command::new(UNSHARE[0]).args(&UNSHARE[1..]).arg("true").status();
    let may = may.is_ok_and(|status| status.success());
    if !may {
        eprintln!("not run: no namespace can be made here (as root it can)");
    }
    may
}

#[test]
fn as_process_1_orphans_are_reaped_the_binary_stays_and_sigterm_ends_it() {
    if !may_unshare() {
        return;
    }
    let app = App::of_tests().run_by(&UNSHARE.map(OsStr::new));
    let mut server = Server::start(&app, &["pool.web.workers=1"]);
    assert_eq!(server.status()["pid"], 1);
    // `unshare` waits for it.
    let children = tree(server.pid());
    server.follow(children[1]);
    let orphan: i64 = server.get("/orphan").text().trim().parse().unwrap();
    server
        .log
        .wait("orphaned process reaped", |event| event["pid"] == orphan);

    server.signal(Signal::USR2);
    server
        .log
        .wait_for_line_with("binary not replaced: this server is process 1");
    assert_eq!(server.get("/").status, 200);
    let output = server.command(&["upgrade"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("a new hearth needs a new container"), "{said}");
    server.signal(Signal::TERM);
    assert!(server.wait_for_end().success());
    server.log.assert_clean_end();
}

#[test]
fn from_outside_it_is_told_to_stop_and_process_1_of_here_is_not_waited_for() {
    if !may_unshare() {
        return;
    }
    let app = App::of_tests().run_by(&UNSHARE.map(OsStr::new));
    let mut server = Server::start(&app, &["pool.web.workers=1"]);
    let said = server.ask(&["stop"]);
    assert_eq!(said, "told to stop: pid 1, whose end cannot be seen from here\n");
    assert!(server.wait_for_end().success());
    server.log.assert_clean_end();
}
