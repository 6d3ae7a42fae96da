//! `hearth check` is a gate: what would keep a server from serving is an error there, in the same words.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use crate::harness::{App, Folder, Server, is_root};

/// Runs the command on a folder.
fn hearth(words: &[&str], dir: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hearth"));
    command.args(words).arg(dir).output().unwrap()
}

/// What the command says is wrong, and its exit status.
fn complaint(words: &[&str], dir: &Path) -> (Option<i32>, String) {
    let output = hearth(words, dir);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let before = said.rfind("\nerror: ").map_or(0, |at| at + 1);
    (
        output.status.code(),
        said[before..].trim_start_matches("error: ").to_owned(),
    )
}

/// Both commands say the same, which is returned, and end with 1.
fn refused_by_both(settings: &str, folder: &Folder) -> String {
    folder.write(
        "hearth.toml",
        &format!("listen = \"127.0.0.1:0\"\nadmin_socket = \"off\"\n{settings}"),
    );
    let checked = complaint(&["check"], folder.path());
    assert_eq!(checked, complaint(&["serve"], folder.path()), "{settings}");
    assert_eq!(checked.0, Some(1), "{settings}: {}", checked.1);
    checked.1
}

fn page() -> Folder {
    Folder::with("gate", &[("index.php", "<?php echo 'on';")])
}

#[test]
fn what_keeps_a_server_from_serving_is_named_with_its_line() {
    let folder = page();
    let dir = folder.path().display();
    for (settings, expected) in [
        (
            "[log]\nfile = \"no/such/log\"",
            format!("{dir}/hearth.toml:4: opening {dir}/no/such/log (log.file): No such file"),
        ),
        (
            "[pool.web.ini]\nmemroy_limit = \"1G\"",
            format!("{dir}/hearth.toml:4: pool.web.ini.memroy_limit: PHP 8."),
        ),
        (
            "[pool.web.admin_ini]\nnonsense = 1",
            format!("{dir}/hearth.toml:4: pool.web.admin_ini.nonsense: PHP 8."),
        ),
        (
            "[pool.web]\nworker_binary = \"/bin/true\"",
            format!("{dir}/hearth.toml:4: "),
        ),
    ] {
        let said = refused_by_both(settings, &folder);
        assert!(said.starts_with(&expected), "{said}\n{expected}");
    }
    if is_root() {
        for (settings, expected) in [
            (
                "user = \"nobody-here\"",
                "pool.web.user = \"nobody-here\": there is no such user",
            ),
            (
                "group = \"none-here\"",
                "pool.web.group = \"none-here\": there is no such group",
            ),
        ] {
            let said = refused_by_both(&format!("[pool.web]\n{settings}"), &folder);
            assert!(
                said.starts_with(&format!("{dir}/hearth.toml:4: {expected}")),
                "{said}"
            );
        }
        let said = refused_by_both(
            "[pool.web]\nuser = \"nobody-here\"\nworker_binary = \"/bin/true\"",
            &folder,
        );
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(
            (lines[0], lines.len()),
            ("2 things keep hearth from serving", 3),
            "{said}"
        );
        let user = format!(
            "  {dir}/hearth.toml:4: pool.web.user = \"nobody-here\": there is no such user; create it"
        );
        assert!(lines[1].starts_with(&user), "{said}");
    }
}

#[test]
fn everything_that_is_wrong_is_named_at_once() {
    let folder = page();
    let settings = "[log]\nfile = \"no/log\"\naccess_file = \"/proc/none/log\"\n[pool.web.ini]\na.b = 1\n[pool.web.admin_ini]\nc = 2\n";
    let said = refused_by_both(settings, &folder);
    assert!(said.starts_with("4 things keep hearth from serving\n"), "{said}");
    for line in [4, 5, 7, 9] {
        assert!(said.contains(&format!("/hearth.toml:{line}: ")), "{said}");
    }
}

#[test]
fn a_port_in_use_is_an_error_unless_the_server_of_this_folder_has_it() {
    let folder = page();
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = other.local_addr().unwrap();
    let said = complaint(&["check", "--listen", &taken.to_string()], folder.path());
    assert_eq!(said.0, Some(1));
    let expected = format!("--listen {taken}: binding {taken} (is another server running?");
    assert!(said.1.starts_with(&expected), "{}", said.1);
    // Nobody has connected.
    other.set_nonblocking(true).unwrap();
    assert!(other.accept().is_err());

    let server = folder.serve();
    let address = server.address().to_string();
    let socket = format!("admin_socket={}", server.file("admin.sock").display());
    let checked = hearth(&["check", "--listen", &address, "--set", &socket], folder.path());
    let shown = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(
        checked.status.success(),
        "{}",
        String::from_utf8_lossy(&checked.stderr)
    );
    let running = format!("running server: pid {}, it serves this folder now", server.pid());
    assert!(shown.contains(&running), "{shown}");
}

#[test]
fn a_syntax_error_of_the_entry_script_is_found_without_running_it() {
    let trap = "<?php file_put_contents(__DIR__ . '/ran', ''); echo 1 +;";
    let folder = Folder::with("gate", &[("index.php", trap), ("worker.php", trap)]);
    let resident = [
        "--set",
        "pool.web.mode=resident",
        "--set",
        "pool.web.script=worker.php",
    ];
    for (flags, script) in [(&[][..], "index.php"), (&resident, "worker.php")] {
        let (code, said) = complaint(&[&["check"], flags].concat(), folder.path());
        assert_eq!(code, Some(1), "{said}");
        let place = format!(" in {} on line 1", folder.file(script).display());
        assert!(
            said.contains("PHP Parse error:  syntax error, unexpected ") && said.contains(&place),
            "{said}"
        );
    }
    let words = [
        &["serve", "--listen", "127.0.0.1:0", "--set", "admin_socket=off"][..],
        &resident,
    ]
    .concat();
    let (code, said) = complaint(&words, folder.path());
    assert_eq!(
        (code, said),
        complaint(&[&["check"][..], &resident].concat(), folder.path())
    );
    assert!(!folder.file("ran").exists());
    // As under php-fpm, a classic script is read when it is asked for.
    assert_eq!(folder.serve().get("/").status, 500);
}

#[test]
fn a_folder_without_a_file_is_no_application() {
    let folder = Folder::with("gate", &[("public/.keep", "")]);
    let said = refused_by_both("", &folder);
    let root = folder.file("public");
    assert!(
        said.contains(&format!(
            "nothing to serve: there is no file in the document root {}",
            root.display()
        )),
        "{said}"
    );
    folder.write("public/index.html", "on");
    assert!(hearth(&["check"], folder.path()).status.success());
}

#[test]
fn a_check_leaves_nothing_behind() {
    let folder = page();
    let settings = "[log]\nfile = \"log\"\n[pool.web]\n[pool.web.ini]\n\"session.auto_start\" = 1\n\
                    \"session.save_path\" = \"sessions\"\n\"opcache.preload\" = \"preload.php\"\nerror_log = \"errors\"\n";
    folder.write("sessions/.keep", "");
    folder.write("preload.php", "<?php touch(__DIR__ . '/preloaded');");
    folder.write(
        "hearth.toml",
        &format!("listen = \"unix:web.sock\"\nadmin_socket = \"admin.sock\"\n{settings}"),
    );
    folder.write("index.php", "<?php syntax error");
    let list = |folder: &Path| -> Vec<_> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = (list(folder.path()), list(&folder.file("sessions")));
    let (code, said) = complaint(&["check"], folder.path());
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("Parse error"), "{said}");
    assert_eq!(before, (list(folder.path()), list(&folder.file("sessions"))));
}

#[test]
fn an_extension_that_is_loaded_may_be_set() {
    let folder = page();
    folder.write(
        "hearth.toml",
        "listen = \"127.0.0.1:0\"\n[pool.web.ini]\n\"opcache.enable\" = 1\nmemory_limit = \"64M\"\n",
    );
    let output = hearth(&["check"], folder.path());
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn a_worker_that_cannot_be_executed_is_named_as_such() {
    let folder = page();
    let binary = folder.write("worker", "no program");
    fs::set_permissions(&binary, fs::Permissions::from_mode(0o644)).unwrap();
    let said = refused_by_both("[pool.web]\nworker_binary = \"worker\"", &folder);
    assert!(
        said.contains("this user must be permitted to execute it"),
        "{said}"
    );
}

#[test]
fn a_reload_with_a_setting_that_php_does_not_know_changes_nothing() {
    let folder = page();
    folder.write("hearth.toml", "");
    let server = Server::start(&App::at(folder.path()), &["pool.web.workers=1"]);
    folder.write("hearth.toml", "[pool.web.ini]\nmemroy_limit = \"1G\"\n");
    let output = server.command(&["reload"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("pool.web.ini.memroy_limit: PHP 8."), "{said}");
    assert_eq!(server.get("/").text(), "on");
}

#[test]
fn too_few_descriptors_are_named_with_the_limit() {
    let folder = page();
    for verb in ["check", "serve"] {
        let mut command = Command::new("sh");
        command.args([
            "-c",
            "ulimit -n 64 && exec \"$@\"",
            "sh",
            env!("CARGO_BIN_EXE_hearth"),
            verb,
        ]);
        command.args([
            "--listen",
            "127.0.0.1:0",
            "--set",
            "admin_socket=off",
            "--set",
            "pool.web.workers=4",
        ]);
        let output = command.arg(folder.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        let expected = "the limit of open files is 64, too low for 4 workers and one connection: raise it to 129 or more";
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn a_php_that_is_not_installed_is_named_with_its_package() {
    let folder = page();
    // As ld.so(8) says it.
    let loader = "#!/bin/sh\necho \"$0: error while loading shared libraries: libphp8.2.so: cannot open shared object file: \
                  No such file or directory\" >&2\nexit 127\n";
    let binary = folder.write("worker", loader);
    fs::set_permissions(&binary, fs::Permissions::from_mode(0o755)).unwrap();
    let said = refused_by_both("[pool.web]\nworker_binary = \"worker\"", &folder);
    assert!(said.contains("`apt install libphp8.2-embed`"), "{said}");
}
