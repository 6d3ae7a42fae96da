//! SIGUSR2: another binary takes the place of the server, or does not, and no request notices.

use std::ffi::OsStr;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::process::Signal;

use crate::harness::{App, Client, Folder, Server};

const RESIDENT: [&str; 3] = [
    "pool.web.mode=\"resident\"",
    "pool.web.script=\"worker.php\"",
    "pool.web.workers=2",
];

/// Gets a page until `over`, on one connection as long as the server keeps it if `is_patient`; counts the answers.
fn get_until(address: SocketAddr, over: &AtomicBool, (is_patient, count): (bool, &AtomicU64)) {
    let mut client: Option<Client> = None;
    // Relaxed: a flag and a number, on their own.
    while !over.load(Ordering::Relaxed) {
        let mut connection = client
            .take()
            .unwrap_or_else(|| Client::connect(address).expect("a connection"));
        let answer = connection.request("GET", "/hello", b"").expect("an answer");
        assert_eq!(answer.status, 200);
        assert_eq!(answer.text(), "hello from /hello");
        let closes = answer.header("connection") == Some("close");
        client = (is_patient && !closes).then_some(connection);
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// A runner that calls the server's binary by `link`.
fn by_link(link: &Path) -> String {
    format!("shift; exec {} \"$@\"", link.display())
}

#[test]
fn no_request_fails_while_the_binary_is_replaced_five_times() {
    let mut server = Server::start(&App::of_tests(), &RESIDENT);
    let (over, count) = (AtomicBool::new(false), AtomicU64::new(0));
    let address = server.address();
    std::thread::scope(|scope| {
        for number in 0..8 {
            let (over, count) = (&over, &count);
            scope.spawn(move || get_until(address, over, (number % 4 != 0, count)));
        }
        for times in 1..=5 {
            // Relaxed: as above. Some requests go to each server.
            let before = count.load(Ordering::Relaxed);
            server.replace(times);
            while count.load(Ordering::Relaxed) < before + 50 {
                std::thread::yield_now();
            }
        }
        // Relaxed: as above.
        over.store(true, Ordering::Relaxed);
    });
    server.log.wait_for_count("server stopped", 5);
    assert_eq!(server.log.count("worker died"), 0);
    assert_eq!(server.status()["pid"], server.pid());
    server.signal(Signal::TERM);
    assert!(server.wait_for_end().success());
    assert!(
        !server.file("admin.sock").exists(),
        "the admin socket outlives the servers"
    );
    server.log.assert_clean_end();
}

#[test]
fn hearth_upgrade_says_which_process_serves_and_why_none_does() {
    let folder = Folder::new("upgrade");
    let script = "<?php while (hearth_handle_request(fn () => print('on'))) {}";
    folder.write("worker.php", script);
    let mut server = Server::start(&folder.app(), &RESIDENT);
    let former = server.pid();
    let said = server.ask(&["upgrade"]);
    let pid = said.split(' ').nth(1).unwrap().parse().unwrap();
    let expected = format!("; pid {former} finishes its requests\n");
    assert!(pid != former && said.ends_with(&expected), "{said}");
    server.follow(pid);
    server.log.wait_for_count("server ready", 2);
    assert_eq!(server.status()["pid"], pid);

    folder.write("worker.php", "<?php throw new Exception('on holiday');");
    let output = server.command(&["upgrade"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("not replaced, this server serves on: ") && said.contains("on holiday"),
        "{said}"
    );
    assert_eq!(server.get("/").text(), "on");
    server.log.wait_for_count("server stopped", 1);
    server.ask(&["stop"]);
    let output = server.command(&["upgrade"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("no server of "), "{said}");
    assert!(server.wait_for_end().success());
}

#[test]
fn a_running_request_ends_in_the_old_server_and_an_idle_connection_moves() {
    let mut server = Server::start(&App::of_tests(), &RESIDENT);
    let mut idle = server.connect();
    idle.request("GET", "/", b"").unwrap();
    let open = server.file("open");
    let (mut client, _) = server.at_the_gate(&open);
    server.replace(1);
    // Answered, and told to come again.
    let last = idle.request("GET", "/", b"").unwrap();
    assert_eq!((last.status, last.header("connection")), (200, Some("close")));
    fs::write(open, "").unwrap();
    assert_eq!(client.read().unwrap().text(), "through the gate");
    server.log.wait_for_count("server stopped", 1);
    assert_eq!(server.get("/x").text(), "hello from /x");
}

#[test]
fn the_binary_that_is_there_by_now_is_started_by_the_name_it_was_called_by() {
    let folder = Folder::new("binary");
    let link = folder.file("hearth");
    symlink(env!("CARGO_BIN_EXE_hearth"), &link).unwrap();
    let app = App::of_tests().run_by(&["sh", "-c", &by_link(&link), "sh"].map(OsStr::new));
    let mut server = Server::start(&app, &RESIDENT);
    let mark = folder.file("mark");
    fs::remove_file(&link).unwrap();
    let script = format!(
        "#!/bin/sh\necho new > {}\nexec {} \"$@\"\n",
        mark.display(),
        env!("CARGO_BIN_EXE_hearth")
    );
    folder.write("hearth", &script);
    fs::set_permissions(&link, fs::Permissions::from_mode(0o755)).unwrap();
    server.replace(1);
    assert_eq!(fs::read_to_string(&mark).unwrap(), "new\n");
    server.log.wait_for_count("server stopped", 1);
}

#[test]
fn a_binary_that_does_not_start_replaces_nothing() {
    let folder = Folder::new("broken");
    folder.write(
        "worker.php",
        "<?php while (hearth_handle_request(fn () => print('on'))) {}",
    );
    folder.write("hearth.toml", "");
    let server = Server::start(&folder.app(), &RESIDENT);
    let refused = |number, reason: &str| {
        server.signal(Signal::USR2);
        server
            .log
            .wait_for_count("binary not replaced: this server serves on", number);
        let event = server
            .log
            .last("binary not replaced: this server serves on", |_| true)
            .unwrap();
        let error = event["error"].as_str().unwrap().to_owned();
        assert!(error.contains(reason), "{error}");
        assert_eq!(server.get("/").text(), "on");
        assert_eq!(server.status()["pid"], server.pid());
    };
    folder.write("hearth.toml", "lisren = 1");
    refused(1, "did you mean `listen`?");
    folder.write("hearth.toml", "");
    folder.write("worker.php", "<?php throw new Exception('on holiday');");
    refused(2, "the application did not boot");
    refused(3, "on holiday");
}

#[test]
fn a_binary_whose_application_is_not_well_replaces_nothing() {
    let folder = Folder::new("unwell");
    let script = "<?php while (hearth_handle_request(fn () => print('on'))) {}";
    folder.write("worker.php", script);
    let settings = [&RESIDENT[..], &["pool.web.warmup=\"none\""]].concat();
    let mut server = Server::start(&folder.app(), &settings);
    folder.write(
        "worker.php",
        "<?php while (hearth_handle_request(fn () => http_response_code(503))) {}",
    );
    server.signal(Signal::USR2);
    let event = server
        .log
        .wait("binary not replaced: this server serves on", |_| true);
    let error = event["error"].as_str().unwrap();
    assert!(
        error.contains("health check failed: GET / was answered with 503"),
        "{error}"
    );
    assert_eq!(server.get("/").text(), "on");
    // All its workers are there before it takes over.
    folder.write("worker.php", script);
    server.replace(1);
    let ready = server.log.count("worker ready");
    assert!(ready >= 6, "{ready} workers of three times two");
}

#[test]
fn a_binary_without_the_application_replaces_nothing() {
    let folder = Folder::new("lost");
    folder.write("public/index.php", "<?php echo 'on';");
    folder.write("public/style.css", "");
    let server = Server::start(&folder.app(), &[]);
    fs::remove_file(folder.file("public/index.php")).unwrap();
    server.signal(Signal::USR2);
    let event = server
        .log
        .wait("binary not replaced: this server serves on", |_| true);
    let error = event["error"].as_str().unwrap();
    assert!(error.contains("no script answers GET /"), "{error}");
}

#[test]
fn a_server_that_is_stopped_takes_its_successor_along() {
    let folder = Folder::new("stopped");
    let script = "<?php while (hearth_handle_request(fn () => print('on'))) {}";
    folder.write("worker.php", script);
    let mut server = Server::start(&folder.app(), &RESIDENT);
    let slow = format!("<?php error_log('boots'); sleep(60); ?>{script}");
    folder.write("worker.php", &slow);
    server.signal(Signal::USR2);
    server.log.wait("php", |event| event["text"] == "boots");
    // Neither a reload nor another successor can come between.
    let reload = server.command(&["reload"]);
    let said = String::from_utf8(reload.stderr).unwrap();
    assert!(said.contains("the server is being replaced"), "{said}");
    server.signal(Signal::USR2);
    let busy = "binary not replaced: a replacement is under way already";
    server.log.wait(busy, |_| true);
    server.signal(Signal::TERM);
    // Its output would stay open otherwise.
    assert!(server.wait_for_end().success());
}

#[test]
fn a_replacement_that_is_asked_for_during_a_reload_follows_it() {
    let folder = Folder::new("both");
    let script = "<?php while (hearth_handle_request(fn () => print('on'))) {}";
    folder.write("worker.php", script);
    let mut server = Server::start(&folder.app(), &RESIDENT);
    let open = folder.file("open");
    let slow = format!(
        "<?php while (!file_exists('{}')) {{ usleep(1000); clearstatcache(); }} ?>{script}",
        open.display()
    );
    folder.write("worker.php", &slow);
    server.signal(Signal::HUP);
    server.log.wait("reload begins", |_| true);
    server.signal(Signal::USR2);
    server
        .log
        .wait("replacement waits for the reload under way", |_| true);
    fs::write(&open, "").unwrap();
    let replaced = "replaced: another server has taken over, this one finishes its requests";
    let pid = server.log.wait(replaced, |_| true)["pid"].as_i64().unwrap();
    server.follow(i32::try_from(pid).unwrap());
    assert_eq!(server.log.count("reloaded"), 1);
    server.log.wait_for_count("server stopped", 1);
    assert_eq!(server.get("/").text(), "on");
}
