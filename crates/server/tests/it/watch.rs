//! `hearth serve --watch`: what is saved is served, and what does not boot is shown.

use std::fs;
use std::os::unix::fs::symlink;

use rustix::process::Signal;

use crate::harness::{App, Folder, Server};

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
    // Its line may come after the answer.
    server.log.wait("reloaded", |event| event["generation"] == 6);
    // What the application writes itself is no change.
    folder.write("var/cache.php", "<?php");
    folder.write("data.sqlite", "x");
    assert_eq!(server.get("/").text(), "number 5");
    let last = server.log.last("reloaded", |_| true).unwrap();
    assert_eq!(last["generation"], 6);
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
    let mut client = server.connect();
    let asking = b"GET / HTTP/1.1\r\nhost: a\r\naccept: application/json\r\n\r\n";
    client.raw(asking).unwrap();
    let answer = client.read().unwrap();
    let said: serde_json::Value = serde_json::from_str(&answer.text()).unwrap();
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (500, Some("application/json"))
    );
    assert!(
        said["error"].as_str().unwrap().contains("src/answer.php"),
        "{said}"
    );
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
fn a_boot_that_writes_a_watched_file_is_no_change() {
    let folder = project("own", "return 'zero';");
    folder.write(
        "worker.php",
        "<?php require 'src/answer.php'; require 'src/generated.php';
        usleep(50_000); file_put_contents('src/generated.php', '<?php //' . hrtime(true)); usleep(50_000);
        while (hearth_handle_request(function () { echo answer(); })) {}",
    );
    folder.write("src/generated.php", "<?php");
    let server = Server::start(&folder.app(), &["watch=true"]);
    let event = server.log.wait(
        "the application writes watched files whenever it boots: no reason for a reload",
        |_| true,
    );
    assert!(
        event["file"].as_str().unwrap().ends_with("/src/generated.php"),
        "{event}"
    );
    for _ in 0..5 {
        assert_eq!(server.get("/").text(), "zero");
    }
    let reloads = server.log.count("reload begins");
    assert!(reloads <= 11, "{reloads} reloads");
    // What is saved is read, and the file is still known.
    for text in ["one", "two"] {
        let before = server.log.count("reload begins");
        save(&server, &folder, &format!("return '{text}';"));
        assert_eq!(server.get("/").text(), text);
        assert_eq!(server.log.count("reload begins"), before + 1);
    }
}

#[test]
fn a_save_ends_the_boot_under_way() {
    let folder = project("endless", "while (true) {} } answer(); {");
    let mut server = Server::launch(&folder.app(), &["watch=true"]);
    server.log.wait("zygote started", |_| true);
    save(&server, &folder, "return 'at last';");
    let ready = server.out.wait_for_line("hearth: ready on ");
    let address = ready.split("http://").nth(1).unwrap();
    server.set_address(address.split(' ').next().unwrap().parse().unwrap());
    assert_eq!(server.get("/").text(), "at last");
    let zygotes = server.log.count("zygote started");
    save(&server, &folder, "while (true) {} } answer(); {");
    server.log.wait_for_count("zygote started", zygotes + 1);
    save(&server, &folder, "return 'well again';");
    assert_eq!(server.get("/").text(), "well again");
    assert_eq!(server.log.count("zygote did not boot"), 0);
}

#[test]
fn a_linked_folder_is_watched_and_links_in_circles_do_no_harm() {
    let library = Folder::new("watch-library");
    library.write("deep/text.php", "<?php return 'zero';");
    let folder = project("linked", "return require 'src/library/deep/text.php';");
    symlink(library.path(), folder.file("src/library")).unwrap();
    symlink(folder.path(), library.file("back")).unwrap();
    symlink("/", folder.file("everything")).unwrap();
    let server = Server::start(&folder.app(), &["watch=true"]);
    assert_eq!(server.get("/").text(), "zero");
    let before = server.log.count("files changed");
    library.write("deep/text.php", "<?php return 'one';");
    server.log.wait_for_count("files changed", before + 1);
    assert_eq!(server.get("/").text(), "one");
    assert_eq!(
        server
            .log
            .count("linked folders not all watched: they lead to more folders than an application has"),
        0
    );
}

#[test]
fn a_project_that_was_moved_away_and_came_back_is_watched_on() {
    let parent = Folder::new("watch-moved");
    let (here, there) = (parent.file("here"), parent.file("there"));
    let script = "<?php while (hearth_handle_request(function () { echo 'zero'; })) {}";
    parent.write("here/worker.php", script);
    let server = Server::start(&App::at(&here), &["watch=true"]);
    assert_eq!(server.get("/").text(), "zero");
    fs::rename(&here, &there).unwrap();
    parent.write("new/worker.php", &script.replace("zero", "one"));
    fs::rename(parent.file("new"), &here).unwrap();
    server.log.wait("reloaded", |_| true);
    assert_eq!(server.get("/").text(), "one");
    let before = server.log.count("files changed");
    parent.write("here/worker.php", &script.replace("zero", "two"));
    server.log.wait_for_count("files changed", before + 1);
    assert_eq!(server.get("/").text(), "two");
}
