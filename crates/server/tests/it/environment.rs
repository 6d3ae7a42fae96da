//! Settings by variables of the environment: a server obeys them, `hearth check` names them, and other commands find it by them.

use std::process::{Command, Output};

use crate::harness::{App, Folder, Server};

fn hearth(words: &[&str], folder: &Folder, variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hearth"));
    command.args(words).arg(folder.path());
    command.envs(variables.iter().copied()).output().unwrap()
}

#[test]
fn a_server_obeys_its_environment_also_after_a_reload() {
    let folder = Folder::with(
        "environment",
        &[(
            "index.php",
            "<?php echo getenv('GREETING'), getenv('HEARTH_POOL_WEB_ENV_GREETING');",
        )],
    );
    let file = "listen = \"127.0.0.1:1\"\n[pool.web]\nworkers = 1\n";
    folder.write("hearth.toml", file);
    let app = App::at(folder.path())
        .with_env("HEARTH_LISTEN", "127.0.0.1:0")
        .with_env("PORT", "2")
        .with_env("HEARTH_POOL_WEB_WORKERS", "3")
        .with_env("HEARTH_POOL_WEB_ENV_GREETING", "hello");
    let server = Server::start(&app, &[]);
    server.log.wait_for_count("worker ready", 3);
    assert_eq!(server.get("/").text(), "hello");
    folder.write("hearth.toml", &file.replace("workers = 1", "workers = 2"));
    server.ask(&["reload"]);
    // Three of each release.
    server.log.wait_for_count("worker ready", 6);
    assert_eq!(server.get("/").text(), "hello");

    let socket = server.file("admin.sock");
    let variables = [("HEARTH_ADMIN_SOCKET", socket.to_str().unwrap())];
    let asked = hearth(&["status", "--json"], &folder, &variables);
    let said = String::from_utf8_lossy(&asked.stdout);
    assert!(said.contains(&format!("\"pid\": {}", server.pid())), "{said}");
}

#[test]
fn a_check_names_the_variables_that_hold_and_refuses_those_that_do_not() {
    let folder = Folder::with("environment", &[("index.php", "<?php echo 'on';")]);
    let good = [
        ("HEARTH_POOL_WEB_WORKERS", "3"),
        ("HEARTH_LISTEN", "127.0.0.1:0"),
        ("HEARTH_TEST_X", "1"),
    ];
    let checked = hearth(&["check"], &folder, &good);
    let said = String::from_utf8_lossy(&checked.stdout);
    assert!(
        checked.status.success(),
        "{}",
        String::from_utf8_lossy(&checked.stderr)
    );
    for line in [
        "  read HEARTH_LISTEN, HEARTH_POOL_WEB_WORKERS of the environment\n",
        "workers: 3\n",
        "listen: 127.0.0.1:0\n",
    ] {
        assert!(said.contains(line), "{line}{said}");
    }
    let checked = hearth(&["check"], &folder, &[("HEARTH_POOL_WEB_WORKRES", "3")]);
    let said = String::from_utf8_lossy(&checked.stderr);
    assert_eq!(checked.status.code(), Some(2), "{said}");
    let expected =
        "HEARTH_POOL_WEB_WORKRES: no setting has this name; did you mean `HEARTH_POOL_WEB_WORKERS`";
    assert!(said.contains(expected), "{said}");
}
