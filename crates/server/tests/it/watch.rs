//! `hearth serve --watch`: what is saved is served, and what does not boot is shown.

use std::fs;
use std::path::{Path, PathBuf};

use crate::harness::{App, Server};

fn project(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("hearth-watch-{}-{name}", std::process::id()));
    fs::create_dir_all(dir.join("src")).unwrap();
    fs::create_dir_all(dir.join("var")).unwrap();
    fs::write(
        dir.join("worker.php"),
        "<?php require 'src/answer.php'; while (hearth_handle_request(function () { echo answer(); })) {}",
    )
    .unwrap();
    dir
}

fn write(dir: &Path, text: &str) {
    fs::write(
        dir.join("src/answer.php"),
        format!("<?php\nfunction answer(): string {{ {text} }}"),
    )
    .unwrap();
}

/// Saves other code, and returns when the server knows: its thread for that may have to wait for its turn.
fn save(server: &Server, dir: &Path, text: &str) {
    let before = server.log.count("files changed");
    write(dir, text);
    server.log.wait_for_count("files changed", before + 1);
}

#[test]
fn a_request_after_a_change_is_answered_by_the_new_code() {
    let dir = project("change");
    write(&dir, "return 'zero';");
    let server = Server::start(&App::at(&dir), &["watch=true"]);
    assert_eq!(server.get("/").text(), "zero");
    for number in 1..=5 {
        save(&server, &dir, &format!("return 'number {number}';"));
        assert_eq!(server.get("/").text(), format!("number {number}"));
    }
    let generation = server.log.last("reloaded", |_| true).unwrap()["generation"].clone();
    // What the application writes itself is no change.
    fs::write(dir.join("var/cache.php"), "<?php").unwrap();
    fs::write(dir.join("data.sqlite"), "x").unwrap();
    assert_eq!(server.get("/").text(), "number 5");
    let last = server.log.last("reloaded", |_| true).unwrap();
    assert_eq!(last["generation"], generation);
    drop(server);
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_file_in_a_new_folder_is_noticed() {
    let dir = project("folder");
    write(
        &dir,
        "return is_file('src/more/x.php') ? require 'src/more/x.php' : 'no';",
    );
    let server = Server::start(&App::at(&dir), &["watch=true"]);
    assert_eq!(server.get("/").text(), "no");
    fs::create_dir(dir.join("src/more")).unwrap();
    server.log.wait("reloaded", |event| event["generation"] == 2);
    let before = server.log.count("files changed");
    fs::write(dir.join("src/more/x.php"), "<?php return 'yes';").unwrap();
    server.log.wait_for_count("files changed", before + 1);
    assert_eq!(server.get("/").text(), "yes");
    drop(server);
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn code_that_does_not_boot_is_shown_until_it_does() {
    let dir = project("broken");
    write(&dir, "return 'good';");
    let server = Server::start(&App::at(&dir), &["watch=true"]);
    assert_eq!(server.get("/").text(), "good");
    save(&server, &dir, "return <b> 'bad';");
    let page = server.get("/");
    assert_eq!(page.status, 500);
    let text = page.text();
    assert!(
        text.contains("src/answer.php") && text.contains("line 2"),
        "{text}"
    );
    assert!(text.contains("&lt;") && !text.contains("token \"<\""), "{text}");
    save(&server, &dir, "return 'good again';");
    assert_eq!(server.get("/").text(), "good again");
    drop(server);
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_server_whose_first_code_does_not_boot_waits_for_better() {
    let dir = project("first");
    write(&dir, "return 1 +;");
    let mut server = Server::launch(&App::at(&dir), &["watch=true"]);
    let shown = server.log.wait("the reason is shown to browsers", |_| true);
    server.set_address(shown["address"].as_str().unwrap().parse().unwrap());
    let page = server.get("/");
    assert_eq!(page.status, 500);
    assert!(page.text().contains("src/answer.php"), "{}", page.text());
    save(&server, &dir, "return 'at last';");
    assert_eq!(server.get("/").text(), "at last");
    drop(server);
    fs::remove_dir_all(dir).unwrap();
}
