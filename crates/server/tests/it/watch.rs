//! `hearth serve --watch`: what is saved is served, and what does not boot is shown.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::harness::{Folder, Server};

/// An application whose answer is in `src/answer.php`.
fn project(name: &str, answer: &str) -> Folder {
    let folder = Folder::new(&format!("watch-{name}"));
    folder.write(
        "worker.php",
        "<?php require 'src/answer.php'; while (hearth_handle_request(function () { echo answer(); })) {}",
    );
    write(&folder, answer);
    folder
}

fn write(folder: &Folder, text: &str) {
    let text = format!("<?php\nfunction answer(): string {{ {text} }}");
    folder.write("src/answer.php", &text);
}

/// Saves other code, and returns when the server knows: its thread for that may have to wait for its turn.
fn save(server: &Server, folder: &Folder, text: &str) {
    let before = server.log.count("files changed");
    write(folder, text);
    server.log.wait_for_count("files changed", before + 1);
}

#[test]
fn a_request_after_a_change_is_answered_by_the_new_code() {
    let folder = project("change", "return 'zero';");
    let server = Server::start(&folder.app(), &["watch=true"]);
    assert_eq!(server.get("/").text(), "zero");
    for number in 1..=5 {
        save(&server, &folder, &format!("return 'number {number}';"));
        assert_eq!(server.get("/").text(), format!("number {number}"));
    }
    let generation = server.log.last("reloaded", |_| true).unwrap()["generation"].clone();
    // What the application writes itself is no change.
    folder.write("var/cache.php", "<?php");
    folder.write("data.sqlite", "x");
    assert_eq!(server.get("/").text(), "number 5");
    let last = server.log.last("reloaded", |_| true).unwrap();
    assert_eq!(last["generation"], generation);
}

#[test]
fn a_file_in_a_new_folder_is_noticed() {
    let folder = project(
        "folder",
        "return is_file('src/more/x.php') ? require 'src/more/x.php' : 'no';",
    );
    let server = Server::start(&folder.app(), &["watch=true"]);
    assert_eq!(server.get("/").text(), "no");
    fs::create_dir(folder.file("src/more")).unwrap();
    server.log.wait("reloaded", |event| event["generation"] == 2);
    let before = server.log.count("files changed");
    folder.write("src/more/x.php", "<?php return 'yes';");
    server.log.wait_for_count("files changed", before + 1);
    assert_eq!(server.get("/").text(), "yes");
}

#[test]
fn code_that_does_not_boot_is_shown_until_it_does() {
    let folder = project("broken", "return 'good';");
    let server = Server::start(&folder.app(), &["watch=true"]);
    assert_eq!(server.get("/").text(), "good");
    save(&server, &folder, "return <b> 'bad';");
    let page = server.get("/");
    assert_eq!(page.status, 500);
    let text = page.text();
    assert!(
        text.contains("src/answer.php") && text.contains("line 2"),
        "{text}"
    );
    assert!(text.contains("&lt;") && !text.contains("token \"<\""), "{text}");
    save(&server, &folder, "return 'good again';");
    assert_eq!(server.get("/").text(), "good again");
}

#[test]
fn a_server_whose_first_code_does_not_boot_waits_for_better() {
    let folder = project("first", "return 1 +;");
    let mut server = Server::launch(&folder.app(), &["watch=true"]);
    let shown = server.log.wait("the reason is shown to browsers", |_| true);
    server.set_address(shown["address"].as_str().unwrap().parse().unwrap());
    let page = server.get("/");
    assert_eq!(page.status, 500);
    assert!(page.text().contains("src/answer.php"), "{}", page.text());
    save(&server, &folder, "return 'at last';");
    assert_eq!(server.get("/").text(), "at last");
}

#[test]
fn a_server_that_has_replaced_another_watches_on() {
    let folder = project("replaced", "return 'zero';");
    let mut server = Server::start(&folder.app(), &["watch=true"]);
    assert_eq!(server.get("/").text(), "zero");
    save(&server, &folder, "return 'one';");
    assert_eq!(server.get("/").text(), "one");
    server.replace(1);
    server.log.wait_for_count("server stopped", 1);
    assert_eq!(server.get("/").text(), "one");
    save(&server, &folder, "return 'two';");
    assert_eq!(server.get("/").text(), "two");
    // Nor does it begin with what does not boot.
    save(&server, &folder, "return <b> 'bad';");
    assert_eq!(server.get("/").status, 500);
    server.signal(Signal::USR2);
    server
        .log
        .wait("binary not replaced: this server serves on", |_| true);
    save(&server, &folder, "return 'three';");
    assert_eq!(server.get("/").text(), "three");
}

#[test]
fn an_application_that_writes_code_whenever_it_boots_is_served_and_named() {
    let folder = Folder::new("watch-writes");
    folder.write(
        "worker.php",
        "<?php usleep(50_000); file_put_contents('generated.php', '<?php //' . hrtime(true)); usleep(50_000);\
         while (hearth_handle_request(fn () => print('served'))) {}",
    );
    let server = Server::start(&folder.app(), &["watch=true"]);
    let warned = |event: &serde_json::Value| {
        event["path"]
            .as_str()
            .is_some_and(|path| path.ends_with("generated.php"))
    };
    let message = "this file changes whenever the application boots, so that it boots again and again: have it written below var or cache";
    for _ in 0..5 {
        assert_eq!(server.get("/").text(), "served");
    }
    server.log.wait(message, warned);
    assert_eq!(server.get("/").text(), "served");
}

#[test]
fn a_boot_that_hangs_is_given_up_for_what_is_saved_next() {
    let folder = project("hangs", "return 'zero';");
    let server = Server::start(&folder.app(), &["watch=true"]);
    assert_eq!(server.get("/").text(), "zero");
    folder.write("src/answer.php", "<?php error_log('hangs'); while (true) {}");
    server.log.wait("php", |event| event["text"] == "hangs");
    let mut client = server.connect();
    client.send("GET", "/", b"").unwrap();
    // Well before boot_timeout, 30 s.
    let until = Instant::now() + Duration::from_secs(15);
    while server.log.count("not reloaded: what was served is served on") == 0 {
        assert!(Instant::now() < until, "the boot was not given up");
        save(&server, &folder, "return 'one';");
    }
    assert_eq!(client.read().unwrap().text(), "one");
}
