//! One folder has one server, by whatever path it is named.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::harness::{App, Folder, Server};

/// A command that is given in a folder, as a shell gives it.
fn hearth_in(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hearth"));
    command.args(words).current_dir(folder).env("PWD", folder);
    command.output().unwrap()
}

fn pid_in_status(folder: &Path, dir: &[&str]) -> Value {
    let output = hearth_in(folder, &[&["status", "--json"], dir].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let status: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{dir:?}: {said}"));
    status["pid"].clone()
}

/// `site`, the link `current` to it, `next`, and the empty folder `work`.
fn site() -> Folder {
    let page = "<?php echo 'on';";
    let folder = Folder::with(
        "one-folder",
        &[("site/index.php", page), ("next/index.php", page)],
    );
    fs::create_dir(folder.file("work")).unwrap();
    symlink("site", folder.file("current")).unwrap();
    folder
}

#[test]
fn a_server_is_found_and_a_second_one_refused_by_every_path_of_the_folder() {
    let folder = site();
    let work = folder.file("work");
    let absolute = folder.file("site").display().to_string();
    let link = folder.file("current").display().to_string();
    let with_slash = format!("{absolute}/");
    for started_as in ["../site", &link] {
        let app = App::at(Path::new(started_as)).started_in(&work);
        let server = Server::start(&app, &["pool.web.workers=1"]);
        let pid = server.pid();
        for path in [
            &*absolute,
            &with_slash,
            &link,
            "../site",
            "../current/",
            "../current/../site",
        ] {
            assert_eq!(pid_in_status(&work, &[path]), pid, "{started_as}, then {path}");
            let second = hearth_in(&work, &["serve", "--listen", "127.0.0.1:0", path]);
            let said = String::from_utf8_lossy(&second.stderr);
            assert_eq!(second.status.code(), Some(1), "{started_as}, then {path}: {said}");
            assert!(
                said.contains(&format!("another server of {absolute} is running (pid {pid})"))
                    && said.contains(&format!("`hearth reload {absolute}`")),
                "{said}"
            );
        }
        for inside in ["site", "current"] {
            assert_eq!(
                pid_in_status(&folder.file(inside), &[]),
                pid,
                "{started_as}, then in {inside}"
            );
        }
        assert!(hearth_in(&work, &["reload", &link]).status.success());
    }
}

#[test]
fn a_server_of_a_link_is_found_by_the_folder_that_it_leads_to_now() {
    let folder = site();
    let app = App::at(&folder.file("current")).started_in(&folder.file("work"));
    let mut server = Server::start(&app, &["pool.web.workers=1"]);
    fs::remove_file(folder.file("current")).unwrap();
    symlink("next", folder.file("current")).unwrap();
    assert!(hearth_in(folder.path(), &["reload", "current"]).status.success());
    for path in ["current", "next"] {
        assert_eq!(pid_in_status(folder.path(), &[path]), server.pid(), "{path}");
    }
    server.replace(1);
    server.log.wait_for_count("server stopped", 1);
    for path in ["current", "next"] {
        assert_eq!(pid_in_status(folder.path(), &[path]), server.pid(), "{path}");
    }
    // The folder of before is nobody's.
    let app = App::at(&folder.file("site")).started_in(&folder.file("work"));
    let other = Server::start(&app, &["pool.web.workers=1"]);
    assert_eq!(pid_in_status(folder.path(), &["site"]), other.pid());
}
