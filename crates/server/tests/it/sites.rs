//! Applications as Debian packages them for Apache, unpacked: what their `.htaccess` files close, and their front pages.
//!
//! `make sites` unpacks them, and runs it; elsewhere it is skipped.

use std::path::PathBuf;

use crate::harness::{App, Server};

/// Where packages are unpacked; see dev/unpack.
fn unpacked() -> Option<PathBuf> {
    let root = std::env::var_os("HEARTH_TEST_SITES");
    if root.is_none() {
        eprintln!("skipped: HEARTH_TEST_SITES is not set; `make sites` does it all");
    }
    root.map(PathBuf::from)
}

/// Serves what lies at `path`, asserts which folders are closed, and what each target is answered with.
fn assert_site(path: &str, closed: &str, rows: &[(&str, u16)]) {
    let Some(root) = unpacked() else { return };
    let libraries = format!(
        "pool.web.ini.include_path=\".:{}:/usr/share/php\"",
        root.join("usr/share/php").display()
    );
    let app = App::at(&root.join(path));
    let server = Server::start(&app, &["pool.web.workers=1", &libraries]);
    if !closed.is_empty() {
        let message = "folders closed by .htaccess: nothing in them is sent or run";
        let event = server.log.wait(message, |_| true);
        assert_eq!(event["folders"], closed);
    }
    for (target, status) in rows {
        let answer = server.get(target);
        assert_eq!(answer.status, *status, "{target}: {}", answer.text());
    }
}

#[test]
fn dokuwiki_keeps_its_pages_and_passwords_to_itself() {
    let rows = [
        ("/", 200),
        ("/doku.php", 200),
        ("/lib/exe/css.php", 200),
        ("/lib/tpl/dokuwiki/images/logo.png", 200),
        ("/inc/init.php", 403),
        ("/inc/lang/en/lang.php", 403),
        ("/bin/dwpage.php", 403),
        ("/vendor/autoload.php", 403),
    ];
    assert_site("usr/share/dokuwiki", "/bin /inc", &rows);
    let rows = [("/pages/wiki/syntax.txt", 403), ("/", 403)];
    assert_site("var/lib/dokuwiki/data", "/", &rows);
}

#[test]
fn mediawiki_keeps_its_tools_to_itself() {
    let rows = [
        ("/", 200),
        ("/mw-config/", 200),
        ("/resources/assets/poweredby_mediawiki_88x31.png", 200),
        ("/maintenance/update.php", 403),
        ("/includes/Setup.php", 403),
        ("/languages/messages/MessagesEn.php", 403),
        ("/cache/", 403),
        ("/vendor/autoload.php", 403),
        ("/images/evil.php", 404),
    ];
    let closed = "/cache /includes /languages /maintenance /skins/MinervaNeue/dev-scripts";
    assert_site("var/lib/mediawiki", closed, &rows);
}

/// Its packages for PHP are many, so that none of its scripts runs here; the folders are closed by the rules of docs/files.md.
#[test]
fn phpmyadmin_is_closed_by_the_documented_rules() {
    let Some(root) = unpacked() else { return };
    let page = include_str!("../../../../docs/files.md");
    let (_, section) = page.split_once("\n## phpMyAdmin").unwrap();
    let rules = section
        .split("```toml\n")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    let settings = crate::harness::Folder::with("phpmyadmin", &[("hearth.toml", rules)]);
    let file = settings.file("hearth.toml");
    let app = App::at(&root.join("usr/share/phpmyadmin"))
        .with_flag("--config")
        .with_flag(file.to_str().unwrap());
    let server = Server::start(&app, &["pool.web.workers=1"]);
    for (target, status) in [
        ("/templates/home/index.twig", 403),
        ("/libraries/classes/Core.php", 403),
        ("/sql/create_tables.sql", 403),
        ("/favicon.ico", 200),
        ("/themes/pmahomme/css/theme.css", 200),
    ] {
        assert_eq!(server.get(target).status, status, "{target}");
    }
}
