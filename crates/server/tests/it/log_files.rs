//! Log files, and opening them anew.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::harness::{App, Folder, Server};

/// Waits until the file holds `count` lines with `text`; all of it.
fn wait_for(path: &Path, text: &str, count: usize) -> String {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let all = fs::read_to_string(path).unwrap_or_default();
        if all.lines().filter(|line| line.contains(text)).count() >= count {
            return all;
        }
        assert!(
            Instant::now() < until,
            "{} never had {text:?}:\n{all}",
            path.display()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn start(folder: &Folder) -> Server {
    let settings = [
        format!("log.file={}", folder.file("log").display()),
        format!("log.access_file={}", folder.file("access").display()),
        "pool.web.workers=2".to_owned(),
    ];
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    Server::start(&App::of_tests(), &settings)
}

fn stop(mut server: Server) {
    server.signal(Signal::TERM);
    assert!(server.wait_for_end().success());
}

#[test]
fn no_line_is_lost_while_files_are_rotated_under_load() {
    let folder = Folder::new("rotated");
    let server = start(&folder);
    wait_for(&folder.file("log"), "server ready", 1);
    let (log, access) = (folder.file("log"), folder.file("access"));
    let mut client = server.connect();
    for round in 0..5 {
        for number in 0..100 {
            let target = format!("/?round={round}&number={number}");
            assert_eq!(client.request("GET", &target, b"").unwrap().status, 200);
        }
        fs::rename(&log, folder.file(&format!("log.{round}"))).unwrap();
        fs::rename(&access, folder.file(&format!("access.{round}"))).unwrap();
        server.signal(Signal::USR1);
        wait_for(&log, "log files reopened", 1);
        assert!(access.exists());
    }
    let last = client.request("GET", "/the-last", b"").unwrap();
    assert_eq!(last.status, 200);
    stop(server);
    let mut lines = Vec::new();
    let mut events = String::new();
    for entry in fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        if path.file_name().unwrap().to_str().unwrap().starts_with("access") {
            lines.extend(text.lines().map(str::to_owned));
        } else {
            events.push_str(&text);
        }
    }
    assert_eq!(lines.len(), 501);
    for line in lines.iter().map(String::as_str).chain(events.lines()) {
        serde_json::from_str::<serde_json::Value>(line).expect(line);
    }
    for round in 0..5 {
        for number in 0..100 {
            let target = format!("\"target\":\"/?round={round}&number={number}\"");
            let found = lines.iter().filter(|line| line.contains(&target)).count();
            assert_eq!(found, 1, "{target}");
        }
    }
    assert!(events.contains("server stopped"), "{events}");
}

#[test]
fn a_file_that_cannot_be_opened_is_an_error_at_the_start_and_a_warning_later() {
    let folder = Folder::new("missing");
    let missing = folder.file("no/such/folder");
    let setting = format!("log.access_file={}", missing.display());
    let failed = Server::fail(&App::of_tests(), &[&setting]);
    assert_eq!(failed.status.code(), Some(1));
    failed.log.wait_for_line(&format!(
        "error: --set {setting}: opening {} (log.access_file): No such file or directory",
        missing.display()
    ));

    let server = start(&folder);
    let (log, rotated) = (folder.file("log"), folder.file("log.1"));
    wait_for(&log, "server ready", 1);
    fs::rename(&log, &rotated).unwrap();
    fs::create_dir(&log).unwrap();
    server.signal(Signal::USR1);
    let text = wait_for(&rotated, "log file not reopened, the old one is written to", 1);
    assert!(text.contains("Is a directory"), "{text}");
    // The renamed file may have been removed.
    let said = format!(
        "hearth: log file not reopened, the old one is written to: {}: Is a directory",
        log.display()
    );
    server.log.wait_for_line(&said);
    assert_eq!(server.get("/").status, 200);
    stop(server);
    wait_for(&rotated, "server stopped", 1);
}
