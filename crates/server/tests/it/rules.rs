//! Rules for paths and pages for errors, as they are written in `hearth.toml`; and what docs/files.md writes there for sites.

use crate::harness::{Folder, Raw, RawClient, Server};

fn ask(server: &Server, method: &str, target: &str) -> Raw {
    let mut client = RawClient::connect(server.address());
    let request = format!("{method} {target} HTTP/1.1\r\nHost: shop.example\r\n\r\n");
    client.send(request.as_bytes()).unwrap();
    client.read(method).unwrap()
}

fn get(server: &Server, target: &str) -> Raw {
    ask(server, "GET", target)
}

const SCRIPT: &str = "<?php
    if (isset($_GET['status'])) { http_response_code((int) $_GET['status']); header('X-Secret: 1'); }
    echo $_SERVER['SCRIPT_NAME'], ' ', $_SERVER['REQUEST_URI'], ' ', $_SERVER['QUERY_STRING'];";

const RULES: &str = r#"
[pool.web]
mode = "classic"

[[pool.web.rules]]
path = "/old/*"
redirect = "/new/{rest}"
status = 301

[[pool.web.rules]]
path = "*"
host = "*.shop.example"
redirect = "https://shop.example{path}"

[[pool.web.rules]]
path = "/item/*"
rewrite = "/show.php?id={rest}"

[[pool.web.rules]]
path = "/{user}/photos/{id}.html"
rewrite = "/show.php?user={user}&id={id}"

[[pool.web.rules]]
path = "/private/*"
not = "/private/open.txt"
deny = true

[[pool.web.rules]]
path = "*.css"
cache_control = "public, max-age=60"

[[pool.web.rules]]
path = "*"
headers = { X-Frame-Options = "DENY", Server = "" }
"#;

#[test]
fn rules_redirect_rewrite_deny_and_dress() {
    let files = [
        ("hearth.toml", RULES),
        ("index.php", SCRIPT),
        ("show.php", SCRIPT),
        ("a.css", "a{}"),
        ("private/a.txt", "secret"),
        ("private/open.txt", "open"),
    ];
    let folder = Folder::with("rules", &files);
    let server = folder.serve();
    let moved = get(&server, "/old/a%20b?x=1");
    assert_eq!(
        (moved.status, moved.header("location")),
        (301, Some("/new/a%20b?x=1"))
    );
    let mut client = RawClient::connect(server.address());
    client
        .send(b"GET /a?b HTTP/1.1\r\nHost: www.shop.example:8080\r\n\r\n")
        .unwrap();
    let canonical = client.read("GET").unwrap();
    assert_eq!(
        (canonical.status, canonical.header("location")),
        (302, Some("https://shop.example/a?b"))
    );
    let item = get(&server, "/item/7?x=1");
    assert_eq!(
        String::from_utf8_lossy(&item.body),
        "/show.php /item/7?x=1 id=7&x=1"
    );
    let photo = get(&server, "/ann/photos/7.html?x=1");
    assert_eq!(
        String::from_utf8_lossy(&photo.body),
        "/show.php /ann/photos/7.html?x=1 user=ann&id=7&x=1"
    );
    let denied = get(&server, "/private/a.txt");
    assert_eq!(
        (denied.status, denied.header("x-frame-options")),
        (403, Some("DENY"))
    );
    assert!(!String::from_utf8_lossy(&denied.body).contains("secret"));
    assert_eq!(get(&server, "/private/open.txt").body, b"open");
    let css = get(&server, "/a.css");
    assert_eq!(
        (css.header("cache-control"), css.header("server")),
        (Some("public, max-age=60"), None)
    );
    let front = get(&server, "/front");
    assert_eq!(
        (front.header("cache-control"), front.header("x-frame-options")),
        (None, Some("DENY"))
    );
}

const PAGES: &str = r#"
[pool.web]
mode = "classic"
script = "index.php"
intercept_errors = true

[pool.web.error_pages]
403 = "/error.php?status={status}"
404 = "404.html"
5xx = "sorry.html"

[[pool.web.rules]]
path = "/private/*"
deny = true
"#;

#[test]
fn errors_have_the_sites_own_pages() {
    let files = [
        ("hearth.toml", PAGES),
        ("404.html", "<h1>{status} {reason}</h1><p>{id}</p>"),
        ("sorry.html", "sorry"),
        ("index.php", SCRIPT),
        (
            "error.php",
            "<?php http_response_code(500); echo 'error ', $_GET['status'], ' ', $_SERVER['REQUEST_METHOD'];",
        ),
    ];
    let folder = Folder::with("pages", &files);
    let server = folder.serve();
    let text = |answer: &Raw| String::from_utf8_lossy(&answer.body).into_owned();
    let missing = get(&server, "/none.php");
    assert_eq!(missing.status, 404);
    assert!(
        text(&missing).starts_with("<h1>404 Not Found</h1><p>"),
        "{}",
        text(&missing)
    );
    assert_eq!(missing.header("content-type"), Some("text/html; charset=utf-8"));
    let head = ask(&server, "HEAD", "/none.php");
    assert_eq!(
        (head.status, head.header("content-length")),
        (404, missing.header("content-length"))
    );
    let denied = ask(&server, "DELETE", "/private/a");
    assert_eq!((denied.status, text(&denied).as_str()), (403, "error 403 GET"));
    let own = get(&server, "/index.php?status=404");
    assert_eq!((own.status, own.header("x-secret")), (404, None));
    assert!(text(&own).starts_with("<h1>404"));
    assert_eq!(text(&get(&server, "/index.php?status=503")), "sorry");
    let login = get(&server, "/index.php?status=401");
    assert_eq!((login.status, login.header("x-secret")), (401, Some("1")));
    let plain = get(&server, "/index.php?status=418");
    assert!(text(&plain).starts_with("/index.php"));
}

/// The blocks of TOML below a heading of docs/files.md.
fn documented(heading: &str) -> String {
    let page = include_str!("../../../../docs/files.md");
    let section = page.split("\n## ").find(|section| section.starts_with(heading));
    let mut blocks = section.unwrap().split("```toml\n").skip(1);
    let first = blocks.next().unwrap().split("```").next().unwrap().to_owned();
    blocks.fold(first, |all, block| all + block.split("```").next().unwrap())
}

/// What a site answers: a target, its status, and its body.
type Row = (&'static str, u16, &'static str);

fn assert_site(heading: &str, files: &[&str], rows: &[Row]) {
    let rules = format!("[pool.web]\nmode = 'classic'\n{}", documented(heading));
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|file| (*file, if file.contains(".php") { SCRIPT } else { *file }))
        .chain([("hearth.toml", rules.as_str())])
        .collect();
    let folder = Folder::with(heading, &files);
    let server = folder.serve();
    for (target, status, body) in rows {
        let answer = get(&server, target);
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        assert_eq!(answer.status, *status, "{heading} {target}: {text}");
        if !body.is_empty() {
            assert!(text.starts_with(body), "{heading} {target}: {text}");
        }
    }
}

#[test]
fn the_documented_rules_hold_for_wordpress() {
    let files = [
        "index.php",
        "wp-login.php",
        "wp-admin/index.php",
        "wp-admin/css/a.css",
        "wp-includes/version.php",
        "wp-content/uploads/evil.php",
        "wp-content/uploads/photo.png",
        "wp-content/themes/a/style.css",
    ];
    let rows: [Row; 12] = [
        ("/hello-world/?p=1", 200, "/index.php /hello-world/?p=1 p=1"),
        ("/wp-admin", 301, ""),
        ("/wp-admin/", 200, "/wp-admin/index.php"),
        ("/wp-login.php", 200, "/wp-login.php"),
        ("/wp-content/uploads/evil.php", 403, ""),
        ("/wp-content/uploads/evil.php/x", 403, ""),
        ("/wp-content/uploads/photo.png", 200, "wp-content"),
        ("/blog/wp-admin", 302, ""),
        ("/blog/wp-admin/css/a.css", 200, "wp-admin/css/a.css"),
        ("/blog/wp-login.php", 200, "/wp-login.php"),
        ("/blog/wp-content/themes/a/style.css", 200, "wp-content/themes"),
        ("/blog/wp-content/uploads/evil.php/a.png", 403, ""),
    ];
    assert_site("WordPress", &files, &rows);
}

#[test]
fn the_documented_rules_hold_for_symfony() {
    let files = ["public/index.php", "public/other.php", "public/app.css"];
    let rows: [Row; 5] = [
        ("/a/b?c", 200, "/index.php /a/b?c c"),
        ("/app.css", 200, "public/app.css"),
        ("/other.php", 404, ""),
        ("/index.php", 404, ""),
        ("/index.php/a", 404, ""),
    ];
    assert_site("Symfony", &files, &rows);
}

#[test]
fn the_documented_rules_hold_for_drupal() {
    let files = [
        "index.php",
        "update.php",
        "robots.txt",
        "core/CHANGELOG.txt",
        "core/includes/a.inc",
        "core/modules/a/a.module",
        "core/modules/a/a.css",
        "sites/default/settings.php",
        "sites/default/files/evil.php",
        "sites/default/files/a.png",
        "sites/default/private/a.pdf",
        "core/modules/a/a.info.yml",
        "vendor/a/b.php",
        "web.config",
    ];
    let rows: [Row; 15] = [
        ("/node/1?page=2", 200, "/index.php /node/1?page=2 page=2"),
        ("/update.php/start", 200, "/update.php"),
        ("/robots.txt", 200, "robots"),
        ("/core/CHANGELOG.txt", 403, ""),
        ("/core/includes/a.inc", 404, ""),
        ("/core/modules/a/a.module", 404, ""),
        ("/core/modules/a/a.info.yml", 404, ""),
        ("/core/modules/a/a.css", 200, "core/modules"),
        ("/sites/default/files/evil.php", 403, ""),
        ("/sites/default/files/evil.php/x.png", 403, ""),
        ("/sites/default/files/a.png", 200, "sites"),
        ("/sites/default/private/a.pdf", 403, ""),
        ("/vendor/a/b.php", 403, ""),
        ("/web.config", 404, ""),
        ("/sites/default/files/styles/x.png", 200, "/index.php"),
    ];
    assert_site("Drupal", &files, &rows);
}

#[test]
fn the_documented_rules_hold_for_dokuwiki() {
    let files = [
        "index.php",
        "doku.php",
        "install.php",
        "data/pages/start.txt",
        "conf/users.auth.php",
        "inc/init.php",
        "lib/exe/fetch.php",
        "lib/exe/css.php",
        "lib/tpl/dokuwiki/logo.png",
    ];
    let rows: [Row; 11] = [
        ("/", 200, "/doku.php / "),
        (
            "/wiki:syntax?do=edit",
            200,
            "/doku.php /wiki:syntax?do=edit id=wiki:syntax&do=edit",
        ),
        (
            "/_media/a/b.png",
            200,
            "/lib/exe/fetch.php /_media/a/b.png media=a/b.png",
        ),
        (
            "/_export/xhtml/a/b",
            200,
            "/doku.php /_export/xhtml/a/b do=export_xhtml&id=a/b",
        ),
        ("/lib/exe/css.php", 200, "/lib/exe/css.php"),
        ("/lib/tpl/dokuwiki/logo.png", 200, "lib/tpl"),
        ("/data/pages/start.txt", 403, ""),
        ("/conf/users.auth.php", 403, ""),
        ("/inc/init.php", 403, ""),
        ("/data", 403, ""),
        ("/install.php", 403, ""),
    ];
    assert_site("DokuWiki", &files, &rows);
}

#[test]
fn the_documented_rules_hold_for_mediawiki() {
    let files = [
        "index.php",
        "rest.php",
        "load.php",
        "images/a.png",
        "images/evil.php",
        "images/deleted/a.png",
        "mw-config/index.php",
        "resources/a.css",
    ];
    let rows: [Row; 8] = [
        ("/", 302, ""),
        ("/wiki/Main_Page?a", 200, "/index.php /wiki/Main_Page?a a"),
        ("/rest.php/v1/page", 200, "/rest.php"),
        ("/images/a.png", 200, "images/a.png"),
        ("/images/evil.php", 403, ""),
        ("/images/deleted/a.png", 403, ""),
        ("/mw-config/", 403, ""),
        ("/resources/a.css", 200, "resources"),
    ];
    assert_site("MediaWiki", &files, &rows);
}

#[test]
fn the_documented_rules_hold_for_phpmyadmin() {
    let files = [
        "index.php",
        "url.php",
        "templates/home/index.twig",
        "libraries/classes/Core.php",
        "setup/index.php",
        "themes/pmahomme/css/theme.css",
    ];
    let rows: [Row; 6] = [
        ("/", 200, "/index.php"),
        ("/url.php", 200, "/url.php"),
        ("/themes/pmahomme/css/theme.css", 200, "themes"),
        ("/templates/home/index.twig", 403, ""),
        ("/libraries/classes/Core.php", 403, ""),
        ("/setup/", 403, ""),
    ];
    assert_site("phpMyAdmin", &files, &rows);
}
