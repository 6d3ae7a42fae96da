//! What belongs to the server and lies where users of pools can get at it: logs, sockets, locks, settings.
//!
//! As root only, unless a test says otherwise: the folders of another server's user are its own affair.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::{Command, Output};

use rustix::process::Signal;

use crate::harness::{Folder, Server, is_root};

const USER: &str = "pool.web.user=www-data";
/// Number of www-data.
const WEB: u32 = 33;
const WRITTEN: &str = "<?php file_put_contents(__DIR__ . '/../var/marker', '1'); echo 'written';";

fn give_to_web(path: &Path) {
    chown(path, Some(WEB), Some(WEB)).unwrap();
}

fn project() -> Folder {
    Folder::with("files", &[("public/index.php", WRITTEN), ("var/keep", "")])
}

/// What a server says that does not start.
fn refused(folder: &Folder, settings: &[&str], status: i32) -> String {
    let all = [&[USER, "pool.web.workers=1"], settings].concat();
    let failed = Server::fail(&folder.app(), &all);
    assert_eq!(failed.status.code(), Some(status), "{}", failed.log.text());
    failed.log.text()
}

#[test]
fn a_log_in_a_folder_of_another_user_is_refused_with_the_remedy() {
    if !is_root() {
        return;
    }
    let folder = project();
    give_to_web(&folder.file("var"));
    let precious = folder.write("precious/file", "precious");
    symlink(&precious, folder.file("var/access.log")).unwrap();
    for setting in ["log.file", "log.access_file"] {
        let path = folder.file("var/access.log");
        let said = refused(&folder, &[&format!("{setting}={}", path.display())], 1);
        assert!(
            said.contains(&format!("opening {} ({setting}): ", path.display())),
            "{said}"
        );
        assert!(
            said.contains("belongs to user 33") && said.contains("/var/log/hearth"),
            "{said}"
        );
    }
    assert_eq!(fs::read_to_string(precious).unwrap(), "precious");
}

#[test]
fn a_log_that_has_become_a_link_is_not_opened_anew() {
    if !is_root() {
        return;
    }
    let folder = project();
    let (log, precious) = (folder.file("var/access.log"), folder.file("precious"));
    let setting = format!("log.access_file={}", log.display());
    let server = Server::start(&folder.app(), &[USER, "pool.web.workers=1", &setting]);
    let reopen = |times| {
        server.signal(Signal::USR1);
        server.log.wait_for_count("log files reopened", times);
        assert_eq!(server.get("/?first").status, 200);
        assert!(!precious.exists());
        let said = server
            .log
            .last("log file not reopened, the old one is written to", |_| true);
        said.unwrap()["error"].as_str().unwrap().to_owned()
    };
    fs::rename(&log, folder.file("var/access.log.1")).unwrap();
    symlink(&precious, &log).unwrap();
    let said = reopen(1);
    assert!(said.contains("it is a link"), "{said}");
    // A folder that has got into other hands since.
    fs::remove_file(&log).unwrap();
    give_to_web(&folder.file("var"));
    let said = reopen(2);
    assert!(said.contains("belongs to user 33"), "{said}");
    assert!(!log.exists());
}

#[test]
fn a_file_in_a_folder_of_all_is_no_log_unless_it_is_the_servers() {
    if !is_root() {
        return;
    }
    let folder = project();
    fs::set_permissions(folder.file("var"), fs::Permissions::from_mode(0o1777)).unwrap();
    give_to_web(&folder.write("var/web.log", ""));
    let setting = format!("log.access_file={}", folder.file("var/web.log").display());
    let said = refused(&folder, &[&setting], 1);
    assert!(said.contains("belongs to user 33"), "{said}");
    let setting = format!("log.access_file={}", folder.file("var/own.log").display());
    let server = Server::start(&folder.app(), &[USER, "pool.web.workers=1", &setting]);
    assert_eq!(server.get("/").status, 200);
}

#[test]
fn sockets_in_a_folder_of_another_user_are_refused_with_the_remedy() {
    if !is_root() {
        return;
    }
    let folder = project();
    give_to_web(&folder.file("var"));
    let path = folder.file("var/hearth.sock");
    let admin = refused(&folder, &[&format!("admin_socket={}", path.display())], 1);
    assert!(admin.contains("binding the admin socket"), "{admin}");
    let listen = refused(
        &folder,
        &[&format!("fastcgi.listen=[\"unix:{}\"]", path.display())],
        1,
    );
    for said in [admin, listen] {
        assert!(
            said.contains("belongs to user 33") && said.contains("/run/hearth"),
            "{said}"
        );
    }
    assert!(!path.exists());
}

#[test]
fn a_script_that_locks_the_folder_of_the_socket_stops_nothing() {
    let lock =
        "<?php $folder = fopen(__DIR__ . '/../var', 'r'); flock($folder, LOCK_EX); error_log('locked');
        if (!file_exists(__DIR__ . '/../var/go')) { sleep(60); } else { echo 'went'; }";
    let folder = Folder::with(
        "lock",
        &[
            ("public/index.php", "<?php echo 'ok';"),
            ("public/lock.php", lock),
            ("var/keep", ""),
        ],
    );
    let path = folder.file("var/hearth.sock");
    let setting = format!("admin_socket={}", path.display());
    let user: &[&str] = if is_root() { &[USER] } else { &[] };
    let settings = [user, &["pool.web.workers=2", &setting, "stop_timeout=\"1 s\""]].concat();
    let mut server = Server::start(&folder.app(), &settings);
    let mut client = server.connect();
    client.send("GET", "/lock.php", b"").unwrap();
    server.log.wait("php", |event| {
        event["text"].as_str().is_some_and(|text| text.contains("locked"))
    });
    // Somebody cleans up.
    fs::remove_file(&path).unwrap();
    server
        .log
        .wait("admin socket was removed, and is bound anew", |_| true);
    assert!(path.exists());
    assert_eq!(server.get("/").text(), "ok");
    server.signal(Signal::TERM);
    assert!(server.wait_for_end().success());
    assert!(!path.exists());
    let left: Vec<_> = fs::read_dir(folder.file("var"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, ["keep"]);
}

fn check(folder: &Folder, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hearth"));
    command
        .arg("check")
        .args(arguments)
        .arg(folder.path())
        .output()
        .unwrap()
}

#[test]
fn settings_that_another_user_may_write_are_refused_by_a_root_server() {
    if !is_root() {
        return;
    }
    let folder = project();
    let file = folder.write("hearth.toml", "[pool.web]\nworkers = 1\n");
    assert!(check(&folder, &[]).status.success());
    let assert_refused = |why: &str| {
        let said = refused(&folder, &[], 2);
        let checked = check(&folder, &[]);
        assert_eq!(checked.status.code(), Some(2));
        for said in [said, String::from_utf8(checked.stderr).unwrap()] {
            assert!(said.contains(why) && said.contains("--config"), "{said}");
        }
    };
    give_to_web(&file);
    assert_refused("hearth.toml belongs to user 33");
    chown(&file, Some(0), Some(0)).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    assert_refused("hearth.toml may be written by everybody");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    // Whoever owns the folder can put another file in its place.
    give_to_web(folder.path());
    assert_refused("belongs to user 33");
    // Settings elsewhere serve a folder of anybody's.
    let etc = Folder::with("etc", &[("hearth.toml", "[pool.web]\nworkers = 1\n")]);
    let config = etc.file("hearth.toml");
    let app = folder
        .app()
        .with_flag("--config")
        .with_flag(config.to_str().unwrap());
    assert_eq!(Server::start(&app, &[USER]).get("/").status, 200);
}

#[test]
fn a_reload_refuses_settings_that_have_got_into_other_hands_and_serves_on() {
    if !is_root() {
        return;
    }
    let folder = project();
    let file = folder.write("hearth.toml", "[pool.web]\nworkers = 1\n");
    let server = Server::start(&folder.app(), &[USER]);
    give_to_web(&file);
    let output = server.command(&["reload"]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("hearth.toml belongs to user 33"), "{said}");
    assert_eq!(server.get("/").status, 200);
    server
        .log
        .wait("not reloaded: what was served is served on", |_| true);
}

#[test]
fn a_script_that_resets_the_cache_has_code_read_anew_but_no_settings() {
    let code = |version: u32| {
        format!(
            "<?php while (hearth_handle_request(function () {{ if (isset($_GET['reset'])) opcache_reset(); echo '{version} ', getenv('SET'); }})) {{}}"
        )
    };
    let toml = |value: &str| {
        format!("[pool.web]\nmode = 'resident'\nscript = 'worker.php'\nworkers = 1\nenv.SET = '{value}'\n")
    };
    let folder = Folder::with(
        "reset",
        &[
            ("worker.php", &code(1)),
            ("hearth.toml", &toml("first")),
            ("public/keep", ""),
        ],
    );
    let server = Server::start(&folder.app(), &["pool.web.admin_ini.opcache.enable=1"]);
    assert_eq!(server.get("/").text(), "1 first");
    folder.write("worker.php", &code(2));
    folder.write("hearth.toml", &toml("second"));
    assert_eq!(server.get("/?reset").text(), "1 first");
    server.log.wait("reloaded", |event| event["generation"] == 2);
    assert_eq!(server.get("/").text(), "2 first");
    server.signal(Signal::HUP);
    server.log.wait("reloaded", |event| event["generation"] == 3);
    assert_eq!(server.get("/").text(), "2 second");
}

#[test]
fn a_server_without_privileges_keeps_its_files_where_it_likes() {
    if !is_root() {
        return;
    }
    let folder = project();
    folder.write("hearth.toml", "[pool.web]\nworkers = 1\n");
    for name in ["", "var", "hearth.toml"] {
        give_to_web(&folder.file(name));
    }
    let app = folder.app().run_as(WEB, "");
    let socket = format!("admin_socket={}", folder.file("var/hearth.sock").display());
    let log = format!("log.access_file={}", folder.file("var/access.log").display());
    let server = Server::start(&app, &[&socket, &log]);
    assert_eq!(server.get("/").text(), "written");
    assert!(folder.file("var/hearth.sock").exists());
}
