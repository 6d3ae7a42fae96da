//! Files that lie in the document root and are not meant for clients: PHP source under any name, editors' copies, and what a project's own
//! folder holds beside its scripts.

use crate::harness::{Folder, RawClient, Server};

const SOURCE: &str = "<?php $password = 'secret';";

fn status(server: &Server, target: &str) -> u16 {
    server.get(target).status
}

/// Asserts that these are not found, and that no answer shows what they hold.
fn assert_withheld(server: &Server, targets: &[&str]) {
    for target in targets {
        let answer = server.get(target);
        assert_eq!(answer.status, 404, "{target}");
        assert!(!answer.text().contains("secret"), "{target}");
    }
}

#[test]
fn php_source_is_not_sent_whatever_its_name() {
    let bom = format!("\u{feff}{SOURCE}");
    let command = format!("#!/usr/bin/env php\r\n{SOURCE}");
    let long = format!("{SOURCE}{}", "\n// secret".repeat(40_000));
    let files = [
        ("public/db.inc", "secret"),
        ("public/a.module", "secret"),
        ("public/a.install", "secret"),
        ("public/a.theme", "secret"),
        ("public/a.engine", "secret"),
        ("public/a.profile", "secret"),
        ("public/a.inc.bak", "secret"),
        ("public/a.php_", "secret"),
        ("public/a.php-old", "secret"),
        ("public/a.php.txt", "secret"),
        ("public/artisan", command.as_str()),
        ("public/readme.txt", SOURCE),
        ("public/marked.txt", bom.as_str()),
        ("public/spaced.txt", "\n\n <?PHP /* secret */"),
        ("public/echo.tpl", "<?= $secret ?>"),
        ("public/big.bin", long.as_str()),
        ("public/image.svg", "<?xml version=\"1.0\"?><svg/>"),
        ("public/lesson.txt", "PHP begins with <?php"),
    ];
    let folder = Folder::with("source", &files);
    let server = folder.serve();
    let withheld = files.map(|(name, _)| name.trim_start_matches("public"));
    assert_withheld(&server, &withheld[..16]);
    assert_eq!(status(&server, "/image.svg"), 200);
    assert_eq!(status(&server, "/lesson.txt"), 200);
    // Neither a part, nor the fact that it is the same as before.
    for line in [
        "Range: bytes=6-20",
        "If-Modified-Since: Fri, 01 Jan 2038 00:00:00 GMT",
    ] {
        let mut client = RawClient::connect(server.address());
        let request = format!("GET /big.bin HTTP/1.1\r\nHost: test\r\n{line}\r\n\r\n");
        client.send(request.as_bytes()).unwrap();
        assert_eq!(client.read("GET").unwrap().status, 404, "{line}");
    }
}

#[test]
fn a_script_may_have_php_source_sent() {
    let files = [
        ("hearth.toml", "[pool.web.internal]\n'/files/' = 'files'\n"),
        (
            "public/index.php",
            "<?php header('X-Accel-Redirect: /files/lesson.txt');",
        ),
        ("files/lesson.txt", "<?php echo 'to be read';"),
    ];
    let folder = Folder::with("source-by-script", &files);
    let answer = folder.serve().get("/");
    assert_eq!(
        (answer.status, answer.text().as_str()),
        (200, "<?php echo 'to be read';")
    );
}

#[test]
fn copies_that_editors_leave_of_private_files_are_not_sent() {
    let names = [
        "hearth.toml.bak",
        "hearth.toml~",
        "#hearth.toml#",
        "hearth.toml.swp",
        "composer.json.orig",
        "composer.json.save",
        "auth.json.dist",
        "php.ini.old",
        "a.txt~",
        "%23a.txt%23",
        ".env~",
        ".env.bak",
    ];
    let folder = Folder::with(
        "copies",
        &[("public/a.txt.orig", "public"), ("public/index.html", "")],
    );
    for name in names {
        folder.write(&format!("public/{}", name.replace("%23", "#")), "secret");
    }
    let server = folder.serve();
    let targets = names.map(|name| format!("/{}", name.replace('#', "%23")));
    assert_withheld(&server, &targets.each_ref().map(String::as_str));
    assert_eq!(status(&server, "/a.txt.orig"), 200);
}

#[test]
fn what_a_project_holds_beside_its_scripts_is_not_sent_where_its_folder_is_the_root() {
    let names = [
        "backup.sql",
        "backup.sql.gz",
        "sub/data.sqlite",
        "data.sqlite3-wal",
        "data.db",
        "site.dump.zst",
        "server.key",
        "server.pem",
        "debug.log",
        "debug.log.1",
        "index.html.bak",
        "config/services.yml",
        "config/services.yaml",
        "phpstan.neon",
        "yarn.lock",
        "settings.ini",
        "prod.env",
    ];
    let files = [("index.php", "<?php echo 'front';"), ("style.css", "a{}")];
    let project = Folder::with("project", &files);
    let public = Folder::with("project-public", &[("public/style.css", "a{}")]);
    for name in names {
        project.write(name, "secret");
        public.write(&format!("public/{name}"), "public");
    }
    let server = project.serve();
    for name in names {
        let answer = server.get(&format!("/{name}"));
        assert_eq!((answer.status, answer.text().as_str()), (200, "front"), "{name}");
    }
    assert_eq!(server.get("/style.css").text(), "a{}");
    // A public folder holds what is meant to be sent.
    let server = public.serve();
    for name in names {
        assert_eq!(status(&server, &format!("/{name}")), 200, "{name}");
    }
}
