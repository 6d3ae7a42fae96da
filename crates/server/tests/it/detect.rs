//! `hearth serve DIR` without a configuration: what is found in DIR, what is said about it, and that it works.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use std::process::Command;

use crate::harness::{Folder, Server};

/// Asserts that the server says `found` of its folder.
fn assert_said(server: &Server, found: &str) {
    let said = server.log.wait("settings resolved", |_| true);
    assert!(said["reasons"].as_str().unwrap().contains(found), "{said}");
}

#[test]
fn a_symfony_application_is_served_resident() {
    let folder = Folder::with("symfony", &[("empty", "")]);
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps/symfony");
    for entry in fs::read_dir(demo.canonicalize().unwrap()).unwrap().flatten() {
        if entry.file_name() != "hearth.toml" {
            symlink(entry.path(), folder.path().join(entry.file_name())).unwrap();
        }
    }
    let server = folder.serve();
    assert_said(&server, "found config/bundles.php: a Symfony application");
    assert_said(&server, "resident mode with public/index.php");
    assert_eq!(server.get("/api/hello").text(), "{\"message\":\"Hello, world!\"}");
    assert_eq!(
        server.get("/style.css").header("content-type"),
        Some("text/css; charset=utf-8")
    );
}

#[test]
fn a_folder_of_scripts_is_served_by_their_names() {
    let files = [
        ("one.php", "<?php echo 'one', $_SERVER['PATH_INFO'] ?? '';"),
        ("sub/index.php", "<?php echo 'index of sub';"),
        ("hearth.toml.txt", "text"),
        ("vendor/lib/test.php", "<?php echo 'never';"),
        ("composer.lock", "{}"),
    ];
    let folder = Folder::with("plain", &files);
    let server = folder.serve();
    assert_said(&server, "found no known framework and no index.php");
    assert_said(&server, "classic mode; the URL names the script");
    for (target, status, text) in [
        ("/one.php", 200, "one"),
        ("/one.php/info", 200, "one/info"),
        ("/sub/", 200, "index of sub"),
        ("/hearth.toml.txt", 200, "text"),
    ] {
        let answer = server.get(target);
        assert_eq!(
            (answer.status, answer.text().as_str()),
            (status, text),
            "{target}"
        );
    }
    assert_eq!(server.get("/sub").header("location"), Some("/sub/"));
    for target in [
        "/",
        "/two.php",
        "/vendor/lib/test.php",
        "/composer.lock",
        "/vendor/",
    ] {
        assert_eq!(server.get(target).status, 404, "{target}");
    }
}

#[test]
fn a_wordpress_site_is_served_by_its_front_controller() {
    let files = [
        ("index.php", "<?php echo 'front for ', $_SERVER['REQUEST_URI'];"),
        ("wp-config.php", "<?php echo 'run';"),
        ("wp-login.php", "<?php echo 'login';"),
        ("wp-includes/version.php", "<?php"),
        (
            "wp-admin/index.php",
            "<?php echo 'admin ', $_SERVER['SCRIPT_NAME'];",
        ),
        ("wp-content/themes/a/style.css", "css"),
        ("wp-content/plugins/p/composer.json", "{}"),
        (".htaccess", "secret"),
        ("wp-config.php.bak", "secret"),
    ];
    let folder = Folder::with("wordpress", &files);
    let server = folder.serve();
    assert_said(&server, "found wp-includes/version.php: WordPress");
    for (target, text) in [
        ("/", "front for /"),
        ("/2026/11/hello-world/?p=1", "front for /2026/11/hello-world/?p=1"),
        ("/wp-login.php", "login"),
        ("/wp-admin/", "admin /wp-admin/index.php"),
        ("/wp-content/themes/a/style.css", "css"),
        ("/wp-config.php", "run"),
        ("/.htaccess", "front for /.htaccess"),
        ("/wp-config.php.bak", "front for /wp-config.php.bak"),
        (
            "/wp-content/plugins/p/composer.json",
            "front for /wp-content/plugins/p/composer.json",
        ),
    ] {
        let answer = server.get(target);
        assert_eq!((answer.status, answer.text().as_str()), (200, text), "{target}");
    }
}

#[test]
fn a_drupal_project_is_published_from_the_folder_that_composer_json_names() {
    let files = [
        (
            "composer.json",
            r#"{"extra": {"drupal-scaffold": {"locations": {"web-root": "web/"}}}}"#,
        ),
        ("config/sync/system.site.yml", "secret"),
        ("backup.sql", "secret"),
        ("web/index.php", "<?php echo 'front';"),
        ("web/core/misc/drupal.js", "js"),
    ];
    let folder = Folder::with("drupal", &files);
    let server = folder.serve();
    assert_said(&server, "found web/index.php");
    for (target, text) in [
        ("/", "front"),
        ("/core/misc/drupal.js", "js"),
        ("/config/sync/system.site.yml", "front"),
        ("/backup.sql", "front"),
        ("/web/index.php", "404"),
    ] {
        let answer = server.get(target).text();
        assert!(
            answer.contains(text) && !answer.contains("secret"),
            "{target}: {answer}"
        );
    }
}

#[test]
fn a_composer_project_without_an_entry_script_is_neither_served_nor_passed() {
    let files = [
        ("composer.json", "{}"),
        ("config/a.yml", "secret"),
        ("bin/console", ""),
    ];
    let folder = Folder::with("no-entry", &files);
    let refusal = "set `root` to the folder that clients may see";
    for verb in ["check", "serve"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hearth"));
        let output = command.arg(verb).arg(folder.path()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && text.contains(refusal),
            "{verb}: {text}"
        );
    }
    let server = Server::start(&folder.app(), &["root=."]);
    assert_eq!(server.get("/bin/console").status, 200);
    assert_eq!(server.get("/config/a.yml").status, 404);
}
