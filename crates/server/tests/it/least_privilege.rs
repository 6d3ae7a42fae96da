//! A server that is not root and has a few capabilities, as the unit and the image of `dist/` run it: PHP gets none of them.

use std::ffi::OsStr;
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};

use crate::harness::{Folder, MODES, Server, is_root};
use crate::tls::Certificates;

/// Number of the server's user, which has no entry and owns nothing.
const SERVER: u32 = 54_322;

const AS_ROOT: &str = "PHP runs as root";
const WITH_KEYS: &str = "PHP has the server's own user";
const WITHOUT_SHIELD: &str = "nothing shields a worker that starts";

const TELL: &str = r"<?php
function tell(): void
{
    if (isset($_GET['hang'])) {
        error_log('hanging');
        for (;;) {
        }
    }
    $lines = preg_grep('/^(Uid|Gid|Groups|Cap(Inh|Prm|Eff|Amb)):/', file('/proc/self/status'));
    echo implode('', array_map(static fn ($line) => trim(preg_replace('/\s+/', ' ', $line)) . PHP_EOL, $lines));
}
";

/// The capabilities that the unit gives to the server, such as `+setuid,+kill`.
fn of_the_unit() -> String {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist/systemd/hearth.service");
    let unit = fs::read_to_string(unit).unwrap();
    let mut lines = unit.lines();
    let names = lines
        .find_map(|line| line.strip_prefix("AmbientCapabilities="))
        .unwrap();
    names.to_lowercase().replace("cap_", "+").replace(' ', ",")
}

/// What `/proc/self/status` says of a process without capabilities.
fn powerless(user: u32, group: u32, groups: &str) -> String {
    let mut expected =
        format!("Uid: {user} {user} {user} {user}\nGid: {group} {group} {group} {group}\n{groups}\n");
    for set in ["Inh", "Prm", "Eff", "Amb"] {
        writeln!(expected, "Cap{set}: 0000000000000000").unwrap();
    }
    expected
}

#[test]
fn a_server_with_the_unit_s_capabilities_runs_php_as_another_user_without_any() {
    if !is_root() {
        return;
    }
    let project = Folder::with_function("tell", TELL);
    let app = project.app().run_as(SERVER, &of_the_unit());
    for mode in MODES {
        let settings = [
            mode,
            &[
                "admin_socket=off",
                "pool.web.user=www-data",
                "pool.web.workers=1",
                "reload.drain_timeout=0 s",
                "reload.keep_previous=0 s",
            ],
        ]
        .concat();
        let server = Server::start(&app, &settings);
        let expected = powerless(33, 33, "Groups: 33");
        assert_eq!(server.get("/").text(), expected, "{mode:?}");
        // Signals of the server reach processes of another user.
        let mut client = server.connect();
        client.send("GET", "/?hang=1", b"").unwrap();
        server.log.wait("php", |event| event["text"] == "hanging");
        server.signal(Signal::HUP);
        server.log.wait("worker killed", |_| true);
        server.log.wait("zygote ended", |_| true);
        assert_eq!(server.get("/").text(), expected, "{mode:?}");
    }
}

#[test]
fn what_runs_php_for_such_a_server_ends_with_it() {
    if !is_root() {
        return;
    }
    let project = Folder::with_function("tell", TELL);
    let app = project.app().run_as(SERVER, "+setuid,+setgid,+kill");
    let mut server = Server::start(
        &app,
        &[
            "admin_socket=off",
            "pool.web.mode=classic",
            "pool.web.user=www-data",
        ],
    );
    let mut pidfds = Vec::new();
    for message in ["zygote started", "worker ready"] {
        let pid = server.log.wait(message, |_| true)["pid"].as_i64().unwrap();
        let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        pidfds.push(pidfd_open(pid, PidfdFlags::empty()).unwrap());
    }
    server.signal(Signal::KILL);
    server.wait_for_end();
    for pidfd in &pidfds {
        let patience = Timespec {
            tv_sec: 20,
            tv_nsec: 0,
        };
        let mut ended = [PollFd::new(pidfd, PollFlags::IN)];
        assert_eq!(poll(&mut ended, Some(&patience)).unwrap(), 1);
    }
}

#[test]
fn the_server_s_capabilities_do_not_reach_php_of_the_same_user() {
    if !is_root() {
        return;
    }
    let project = Folder::with_function("tell", TELL);
    let app = project
        .app()
        .run_as(SERVER, "+setuid,+setgid,+kill,+net_bind_service");
    let group = format!("pool.web.group={SERVER}");
    for mode in MODES {
        let settings = [mode, &["admin_socket=off", "pool.web.workers=1"]].concat();
        let server = Server::start(&app, &settings);
        assert_eq!(
            server.get("/").text(),
            powerless(SERVER, SERVER, "Groups:"),
            "{mode:?}"
        );
        let settings = [&settings[..], &[&group]].concat();
        let server = Server::start(&app, &settings);
        let groups = format!("Groups: {SERVER}");
        assert_eq!(
            server.get("/").text(),
            powerless(SERVER, SERVER, &groups),
            "{mode:?}"
        );
    }
}

#[test]
fn the_start_warns_of_users_that_a_script_could_do_much_with() {
    if !is_root() {
        return;
    }
    let project = Folder::with_function("tell", TELL);
    let certificates = Certificates::new("privilege");
    certificates.make("demo.test");
    let readable = fs::Permissions::from_mode(0o644);
    fs::set_permissions(certificates.path("demo.test.key"), readable).unwrap();
    let tls = [
        "tls.listen=127.0.0.1:0".to_owned(),
        format!("tls.certificates={:?}", [certificates.path("demo.test.pem")]),
        format!("tls.keys={:?}", [certificates.path("demo.test.key")]),
    ];
    let tls = tls.each_ref().map(String::as_str);
    let common = ["admin_socket=off", "pool.web.mode=classic", "pool.web.workers=1"];
    let other_user = ["pool.web.user=www-data"];
    let dumpable = ["pool.web.dumpable=true"];
    let root = project.app();
    let own = project.app().run_as(SERVER, "+setuid,+setgid,+kill");
    let with_shield = project.app().run_as(SERVER, &of_the_unit());
    for (app, settings, expected) in [
        (&root, &[&common[..]][..], &[AS_ROOT][..]),
        (&root, &[&common[..], &tls], &[AS_ROOT]),
        (&root, &[&common[..], &tls, &other_user], &[]),
        (&own, &[&common[..]], &[]),
        (&own, &[&common[..], &tls], &[WITH_KEYS]),
        (&own, &[&common[..], &tls, &other_user], &[WITHOUT_SHIELD]),
        (&own, &[&common[..], &other_user, &dumpable], &[]),
        (&with_shield, &[&common[..], &tls, &other_user], &[]),
    ] {
        let server = Server::start(app, &settings.concat());
        server.log.wait("server ready", |_| true);
        for message in [AS_ROOT, WITH_KEYS, WITHOUT_SHIELD] {
            let count = usize::from(expected.contains(&message));
            assert_eq!(server.log.count(message), count, "{message}: {settings:?}");
        }
        if let Some(message) = expected.first() {
            assert_eq!(server.log.last(message, |_| true).unwrap()["pool"], "web");
        }
    }
}

#[test]
fn a_server_that_could_not_end_its_workers_does_not_start_them() {
    if !is_root() {
        return;
    }
    let project = Folder::with_function("tell", TELL);
    let app = project.app().run_as(SERVER, "+setuid,+setgid");
    let failed = Server::fail(
        &app,
        &[
            "admin_socket=off",
            "pool.web.mode=classic",
            "pool.web.user=www-data",
        ],
    );
    let said = failed.log.wait_for_line("error: --set pool.web.user=");
    let expected =
        "pool.web.user = \"www-data\": running PHP as another user takes CAP_SETUID, CAP_SETGID and CAP_KILL";
    assert!(said.contains(expected), "{said}");
}

/// A folder that is root's in the place of `fdinfo`: so is that of a process that is not dumpable, before Linux 5.14.
#[test]
fn a_server_that_cannot_tell_its_workers_says_which_kernel_it_needs() {
    const OLD: &str = "mount --bind \"$0\" /proc/$$/fdinfo && exec \"$@\"";
    if !is_root() {
        return;
    }
    let project = Folder::with_function("tell", TELL);
    let closed = Folder::new("fdinfo");
    fs::set_permissions(closed.path(), fs::Permissions::from_mode(0o500)).unwrap();
    let old = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        OLD,
        closed.path().to_str().unwrap(),
    ];
    let may = Command::new(old[0]).args(&old[1..]).arg("true").status();
    if !may.is_ok_and(|status| status.success()) {
        eprintln!("not run: nothing can be mounted here");
        return;
    }
    let old = project.app().run_by(&old.map(OsStr::new));
    for capabilities in ["", &of_the_unit()] {
        let app = old.clone().run_as(SERVER, capabilities);
        let failed = Server::fail(&app, &["admin_socket=off", "pool.web.mode=classic"]);
        let said = failed.log.wait_for_line("error: looking at /proc/self/fdinfo");
        assert!(said.contains("Linux 5.14 or newer"), "{said}");
    }
}
