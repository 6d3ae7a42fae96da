//! Reload, deploy and rollback: other code takes over, or does not, and no request notices.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{App, Client, Folder, Server, is_root};

/// A project whose code is a version, in a folder of its own.
struct Project(Folder);

impl Project {
    fn new(version: &str) -> Self {
        let project = Self(Folder::new("reload"));
        project.release("", version);
        project
    }

    /// Puts `version` into the folder `name` of the project.
    fn release(&self, name: &str, version: &str) -> PathBuf {
        let dir = self.0.file(name);
        fs::create_dir_all(&dir).unwrap();
        write(&dir, version);
        dir
    }

    fn start(&self, settings: &[&str]) -> Server {
        Self::start_at(self.0.path(), settings)
    }

    fn start_at(dir: &Path, settings: &[&str]) -> Server {
        let mut all = vec![
            "pool.web.mode=\"resident\"",
            "pool.web.script=\"worker.php\"",
            "pool.web.workers=2",
        ];
        all.extend(settings);
        Server::start(&App::at(dir), &all)
    }
}

/// A worker script that answers with its version, at once or when a file is there.
fn write(dir: &Path, version: &str) {
    let script = r"<?php
$version = 'VERSION';
while (hearth_handle_request(static function () use ($version): void {
    if (isset($_GET['open'])) {
        error_log('at the gate');
        while (!file_exists($_GET['open'])) {
            usleep(1000);
            clearstatcache();
        }
    }
    echo $version, ' ', strlen(file_get_contents('php://input'));
})) {
}
";
    fs::write(dir.join("worker.php"), script.replace("VERSION", version)).unwrap();
}

/// A POST of five bytes that runs until the file `open` is there.
fn at_the_gate(server: &Server, open: &Path) -> Client {
    let mut client = server.connect();
    let target = format!("/slow?open={}", open.display());
    client.send("POST", &target, b"12345").unwrap();
    server.log.wait("php", |event| event["text"] == "at the gate");
    client
}

fn version(server: &Server) -> String {
    server.get("/").text()
}

/// `hearth reload`, which must succeed; what it says.
fn reload(server: &Server, flags: &[&str]) -> Value {
    let arguments: Vec<&str> = ["reload", "--json"].iter().chain(flags).copied().collect();
    serde_json::from_str(&server.ask(&arguments)).unwrap()
}

/// A command that must fail; what it complains about.
fn refused(server: &Server, arguments: &[&str]) -> String {
    let output = server.command(arguments);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_reload_serves_new_code_and_a_rollback_the_old() {
    let project = Project::new("one");
    let server = project.start(&[]);
    assert_eq!(version(&server), "one 0");
    write(project.0.path(), "two");
    let told = reload(&server, &[]);
    assert_eq!(told["generation"], 2);
    assert_eq!(told["dir"], project.0.path().to_str().unwrap());
    assert_eq!(version(&server), "two 0");
    let back = server.ask(&["rollback"]);
    assert!(back.starts_with("generation 1 serves "), "{back}");
    assert_eq!(version(&server), "one 0");
    server.ask(&["rollback"]);
    assert_eq!(version(&server), "two 0");
}

#[test]
fn a_health_request_that_hangs_does_not_keep_later_reloads_waiting() {
    let project = Project::new("one");
    let settings = project.0.file("hearth.toml");
    let path = format!("/?open={}", project.0.file("open").display());
    let text =
        format!("[pool.web]\nboot_timeout = \"2 s\"\nrequest_timeout = \"0 s\"\nhealth_path = \"{path}\"\n");
    fs::write(&settings, text).unwrap();
    let server = project.start(&[]);
    let complaint = refused(&server, &["reload"]);
    assert!(
        complaint.contains("was not answered within pool.web.boot_timeout"),
        "{complaint}"
    );
    fs::write(&settings, "").unwrap();
    write(project.0.path(), "two");
    reload(&server, &[]);
    assert_eq!(version(&server), "two 0");
}

#[test]
fn a_release_whose_workers_cannot_be_forked_never_takes_over() {
    if !is_root() {
        eprintln!("not run: only root can limit a user of its own");
        return;
    }
    let project = Project::new("one");
    let server = project.start(&[]);
    let settings = project.0.file("hearth.toml");
    // Root may have as many processes as it likes; nobody else has this number, and one is the zygote itself.
    let limits = "[pool.web]\nuser = \"4007\"\ngroup = \"4007\"\n[pool.web.rlimits]\nnproc = 1\n";
    fs::write(&settings, limits).unwrap();
    let complaint = refused(&server, &["reload"]);
    assert!(
        complaint.contains("no worker could be forked: fork: "),
        "{complaint}"
    );
    fs::write(&settings, "").unwrap();
    write(project.0.path(), "two");
    reload(&server, &[]);
    assert_eq!(version(&server), "two 0");
}

#[test]
fn a_classic_pool_reloads_its_settings() {
    let project = Project::new("unused");
    fs::write(project.0.file("index.php"), "<?php echo ini_get('user_agent');").unwrap();
    let settings = project.0.file("hearth.toml");
    let write = |agent: &str, more: &str| {
        let text = format!("{more}\n[pool.web.ini]\nuser_agent = \"{agent}\"\n");
        fs::write(&settings, text).unwrap();
    };
    write("first", "");
    let server = Server::start(
        &project.0.app(),
        &["pool.web.mode=\"classic\"", "pool.web.script=\"index.php\""],
    );
    assert_eq!(version(&server), "first");
    write("second", "[limits]\nconnections = 77");
    let told = reload(&server, &[]);
    assert_eq!(version(&server), "second");
    let warning = told["warnings"][0].as_str().unwrap();
    assert!(warning.starts_with("limits.connections has changed"), "{warning}");
    write("third", "nonsense = 1");
    let complaint = refused(&server, &["reload"]);
    assert!(complaint.contains("nonsense"), "{complaint}");
    assert_eq!(version(&server), "second");
}

#[test]
fn code_that_does_not_boot_never_takes_over() {
    let project = Project::new("one");
    let server = project.start(&[]);
    fs::write(
        project.0.file("worker.php"),
        "<?php throw new LogicException('not today');",
    )
    .unwrap();
    let complaint = refused(&server, &["reload"]);
    assert!(
        complaint.contains("not today") && complaint.contains("served on"),
        "{complaint}"
    );
    assert_eq!(version(&server), "one 0");
    write(project.0.path(), "two");
    reload(&server, &[]);
    assert_eq!(version(&server), "two 0");
}

#[test]
fn code_that_answers_the_health_request_wrongly_never_takes_over() {
    let project = Project::new("one");
    let server = project.start(&[
        "pool.web.health_path=\"/health?deep=1\"",
        "pool.web.warmup=\"none\"",
    ]);
    let script =
        "<?php while (hearth_handle_request(function () { http_response_code(503); echo 'ill'; })) {}";
    fs::write(project.0.file("worker.php"), script).unwrap();
    let complaint = refused(&server, &["reload"]);
    assert!(
        complaint.contains("GET /health?deep=1 was answered with 503"),
        "{complaint}"
    );
    assert_eq!(version(&server), "one 0");
}

#[test]
fn without_a_previous_release_there_is_no_rollback() {
    let project = Project::new("one");
    let server = project.start(&["reload.keep_previous=\"0 s\""]);
    let complaint = refused(&server, &["rollback"]);
    assert!(complaint.contains("nothing to return to"), "{complaint}");
    reload(&server, &[]);
    server.log.wait_for_count("workers stopped", 1);
    assert!(server.log.count("zygote ended") >= 1);
    let complaint = refused(&server, &["rollback"]);
    assert!(complaint.contains("nothing to return to"), "{complaint}");
}

#[test]
fn a_deploy_serves_another_folder_and_a_link_is_followed_anew() {
    let project = Project::new("one");
    let (first, second) = (project.release("r1", "r1"), project.release("r2", "r2"));
    let current = project.0.file("current");
    symlink(&first, &current).unwrap();
    let server = Project::start_at(&current, &[]);
    assert_eq!(version(&server), "r1 0");
    fs::remove_file(&current).unwrap();
    symlink(&second, &current).unwrap();
    let told = reload(&server, &[]);
    assert_eq!(told["dir"], second.canonicalize().unwrap().to_str().unwrap());
    assert_eq!(version(&server), "r2 0");
    let told = reload(&server, &["--to", project.0.path().to_str().unwrap()]);
    assert_eq!(
        told["dir"],
        project.0.path().canonicalize().unwrap().to_str().unwrap()
    );
    assert_eq!(version(&server), "one 0");
    let complaint = refused(&server, &["reload", "--to", "/nowhere/at/all"]);
    assert!(
        complaint.contains("/nowhere/at/all") || complaint.contains("project folder"),
        "{complaint}"
    );
    assert_eq!(version(&server), "one 0");
}

#[test]
fn a_folder_without_the_application_never_takes_over() {
    let project = Project::new("unused");
    let empty = project.release("empty", "");
    fs::remove_file(empty.join("worker.php")).unwrap();
    let app = project.release("app", "");
    fs::write(app.join("index.php"), "<?php echo 'here';").unwrap();
    fs::remove_file(app.join("worker.php")).unwrap();
    let server = Server::start(&App::at(&app), &[]);
    assert_eq!(version(&server), "here");
    let complaint = refused(&server, &["reload", "--to", empty.to_str().unwrap()]);
    assert!(complaint.contains("no script answers GET / in "), "{complaint}");
    assert_eq!(version(&server), "here");
    // A site of files alone has nothing to lose.
    fs::write(empty.join("page.html"), "").unwrap();
    let server = Server::start(&App::at(&empty), &[]);
    reload(&server, &[]);
    server
        .log
        .wait("health check left out: no script answers this path", |_| true);
}

#[test]
fn a_running_request_ends_where_it_began() {
    let project = Project::new("one");
    let server = project.start(&[]);
    let open = server.file("open");
    let mut client = at_the_gate(&server, &open);
    write(project.0.path(), "two");
    reload(&server, &[]);
    assert_eq!(version(&server), "two 0");
    let states = |state: &str| {
        let status = server.status();
        let generations = status["pools"][0]["generations"].as_array().unwrap().clone();
        generations.iter().any(|generation| generation["state"] == state)
    };
    assert!(states("draining"));
    fs::write(open, "").unwrap();
    assert_eq!(client.read().unwrap().text(), "one 5");
    server.log.wait("worker ended", |_| true);
    while !states("kept") {}
}

#[test]
fn a_running_request_ends_where_it_began_however_many_releases_follow() {
    let project = Project::new("one");
    let server = project.start(&[]);
    let open = server.file("open");
    let mut client = at_the_gate(&server, &open);
    for next in ["two", "three"] {
        write(project.0.path(), next);
        reload(&server, &[]);
        assert_eq!(version(&server), format!("{next} 0"));
    }
    fs::write(open, "").unwrap();
    assert_eq!(client.read().unwrap().text(), "one 5");
    // Only what was served before the last reload is kept.
    server.log.wait("workers stopped", |event| event["killed"] == 0);
    server.ask(&["rollback"]);
    assert_eq!(version(&server), "two 0");
}

#[test]
fn a_request_that_does_not_end_is_killed_and_named() {
    let project = Project::new("one");
    let server = project.start(&["reload.drain_timeout=\"100 ms\""]);
    let mut client = at_the_gate(&server, &server.file("never"));
    write(project.0.path(), "two");
    reload(&server, &[]);
    // On a busy machine an idle worker may be killed, too.
    let killed = server
        .log
        .wait("worker killed", |event| event["method"] == "POST");
    assert!(killed["uri"].as_str().unwrap().starts_with("/slow?"), "{killed}");
    assert_eq!(client.read().unwrap().status, 502);
    assert_eq!(version(&server), "two 0");
}

#[test]
fn an_upload_that_began_before_a_reload_goes_to_the_new_code() {
    let project = Project::new("one");
    let server = project.start(&["reload.keep_previous=\"0 s\""]);
    let mut client = server.connect();
    client
        .raw(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n12345")
        .unwrap();
    // The server has its first bytes: it answers others on the way.
    assert_eq!(version(&server), "one 0");
    write(project.0.path(), "two");
    reload(&server, &[]);
    server.log.wait("workers stopped", |_| true);
    client.raw(b"67890").unwrap();
    assert_eq!(client.read().unwrap().text(), "two 10");
}

#[test]
fn hangup_reloads_and_many_at_once_do_no_harm() {
    let project = Project::new("one");
    let server = project.start(&[]);
    write(project.0.path(), "two");
    for _ in 0..5 {
        server.signal(Signal::HUP);
    }
    server.log.wait("reloaded", |_| true);
    assert_eq!(version(&server), "two 0");
    write(project.0.path(), "three");
    reload(&server, &[]);
    assert_eq!(version(&server), "three 0");
}

#[test]
fn orders_that_wait_for_a_reload_are_all_obeyed() {
    let project = Project::new("one");
    let server = project.start(&[]);
    let open = server.file("boot");
    let script = r"<?php
while (!file_exists('OPEN')) {
    usleep(1000);
    clearstatcache();
}
throw new LogicException('not today');";
    let script = script.replace("OPEN", open.to_str().unwrap());
    fs::write(project.0.file("worker.php"), script).unwrap();
    std::thread::scope(|scope| {
        server.signal(Signal::HUP);
        server.log.wait("reload begins", |_| true);
        let rollback = scope.spawn(|| refused(&server, &["rollback"]));
        server.log.wait_for_count("reload waits for the one under way", 1);
        let reload = scope.spawn(|| refused(&server, &["reload"]));
        server.log.wait_for_count("reload waits for the one under way", 2);
        fs::write(&open, "").unwrap();
        assert!(rollback.join().unwrap().contains("nothing to return to"));
        assert!(reload.join().unwrap().contains("not today"));
    });
    assert_eq!(version(&server), "one 0");
}

#[test]
fn no_client_sees_a_failure_or_old_code_after_new_while_releases_follow_each_other() {
    let project = Project::new("1");
    let server = project.start(&["reload.keep_previous=\"0 s\"", "log.access=false"]);
    let over = AtomicBool::new(false);
    let last = AtomicU32::new(1);
    std::thread::scope(|scope| {
        for number in 0..8 {
            let (server, over, last) = (&server, &over, &last);
            scope.spawn(move || {
                let mut client = server.connect();
                let mut seen = 0;
                // Relaxed: a flag and a number, on their own.
                while !over.load(Ordering::Relaxed) {
                    let at_least = last.load(Ordering::SeqCst);
                    let body = vec![b'x'; number * 100];
                    let method = if number % 2 == 0 { "GET" } else { "POST" };
                    let answer = client.request(method, "/", &body).unwrap();
                    assert_eq!(answer.status, 200);
                    let text = answer.text();
                    let (version, length) = text.split_once(' ').unwrap();
                    assert_eq!(length, body.len().to_string());
                    let version: u32 = version.parse().unwrap();
                    assert!(
                        version >= seen.max(at_least),
                        "{version} after {seen} and {at_least}"
                    );
                    seen = version;
                }
            });
        }
        for number in 2..12 {
            write(project.0.path(), &number.to_string());
            reload(&server, &[]);
            last.store(number, Ordering::SeqCst);
        }
        over.store(true, Ordering::Relaxed);
    });
    assert_eq!(server.log.count("worker died"), 0);
}
