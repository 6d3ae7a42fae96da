//! Several listening sockets, and unix sockets with their files.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{App, Server, ask_unix};

/// A path for a socket of a test.
fn socket(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("hearth-listeners-{}-{name}.sock", std::process::id()))
}

fn listen(path: &Path) -> String {
    format!("listen=['127.0.0.1:0', 'unix:{}', '127.0.0.1:0']", path.display())
}

#[test]
fn each_listener_is_served_and_php_sees_by_which_a_request_came() {
    let path = socket("each");
    let server = Server::start(&App::of_tests(), &[&listen(&path), "pool.web.workers=1"]);
    let line = server.out.wait_for_line("hearth: ready on ");
    let urls: Vec<&str> = line
        .trim_start_matches("hearth: ready on ")
        .split(" (")
        .next()
        .unwrap()
        .split(" and ")
        .collect();
    assert_eq!(urls[1], format!("http://unix:{}", path.display()));
    assert_eq!(server.get("/a").text(), "hello from /a");
    let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o666);
    let seen: Value = serde_json::from_str(&ask_unix(&path, "/server")).unwrap();
    for (name, value) in [
        ("REMOTE_ADDR", "unix:"),
        ("REMOTE_PORT", ""),
        ("SERVER_ADDR", &format!("unix:{}", path.display())),
        ("SERVER_PORT", ""),
        ("REQUEST_SCHEME", "http"),
    ] {
        assert_eq!(seen[name], value, "{name}");
    }
    assert_eq!(seen.get("HTTPS"), None);
    let third = urls[2].strip_prefix("http://").unwrap().parse().unwrap();
    assert_ne!(third, server.address());
    let mut client = crate::harness::Client::connect(third).unwrap();
    assert_eq!(client.request("GET", "/b", b"").unwrap().text(), "hello from /b");
    drop(server);
    assert!(!path.exists(), "the socket outlives the server");
}

#[test]
fn every_listener_goes_to_the_successor() {
    let path = socket("successor");
    let mut server = Server::start(&App::of_tests(), &[&listen(&path), "pool.web.workers=1"]);
    server.signal(Signal::USR2);
    let replaced = "replaced: another server has taken over, this one finishes its requests";
    let pid = server.log.wait(replaced, |_| true)["pid"].as_i64().unwrap();
    server.follow(i32::try_from(pid).unwrap());
    server.log.wait_for_count("server stopped", 1);
    let mut ready = Vec::new();
    for line in server.out.text().lines() {
        ready.extend(line.strip_prefix("hearth: ready on ").map(str::to_owned));
    }
    assert_eq!(ready.len(), 2);
    assert_eq!(ready[0], ready[1], "the same ports and paths");
    assert_eq!(ask_unix(&path, "/c"), "hello from /c");
    assert_eq!(server.get("/d").text(), "hello from /d");
    server.signal(Signal::TERM);
    assert!(server.wait_for_end().success());
    assert!(!path.exists(), "the socket outlives the servers");
}

#[test]
fn a_stale_socket_is_replaced_and_a_live_one_is_an_error() {
    let path = socket("stale");
    drop(UnixListener::bind(&path).unwrap());
    let setting = format!("listen='unix:{}'", path.display());
    let server = Server::launch(&App::of_tests(), &[&setting, "pool.web.workers=1"]);
    server.log.wait("server ready", |_| true);
    assert_eq!(ask_unix(&path, "/e"), "hello from /e");
    let failed = Server::fail(&App::of_tests(), &[&setting, "pool.web.workers=1"]);
    assert!(!failed.status.success());
    let expected = format!(
        "binding unix:{} (is another server running? choose another address with --listen)",
        path.display()
    );
    assert!(failed.log.text().contains(&expected), "{}", failed.log.text());
    assert_eq!(ask_unix(&path, "/f"), "hello from /f");
}
