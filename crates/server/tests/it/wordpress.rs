//! `WordPress` as Debian packages it, with `MariaDB`, used in a browser: installed, pretty permalinks, a post, an upload, the admin.
//!
//! `make wordpress` installs what it needs, and runs it; elsewhere it is skipped.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::harness::{Browser, Database, Folder, Server};

const PASSWORD: &str = "correct horse battery staple";

const CONFIG: &str = "<?php
define('DB_NAME', 'test');
define('DB_USER', 'app');
define('DB_PASSWORD', '');
define('DB_HOST', 'localhost:SOCKET');
define('DB_CHARSET', 'utf8mb4');
define('DB_COLLATE', '');
foreach (['AUTH', 'SECURE_AUTH', 'LOGGED_IN', 'NONCE'] as $name) {
    define($name . '_KEY', hash('sha256', $name . 'key'));
    define($name . '_SALT', hash('sha256', $name . 'salt'));
}
// What it would fetch from elsewhere.
define('WP_HTTP_BLOCK_EXTERNAL', true);
define('AUTOMATIC_UPDATER_DISABLED', true);
define('DISABLE_WP_CRON', true);
$table_prefix = 'wp_';
require ABSPATH . 'wp-settings.php';
";

/// A copy of the package's files, with a configuration.
fn wordpress(socket: &Path) -> Folder {
    let folder = Folder::new("wordpress-site");
    let copied = Command::new("cp")
        .args(["-rL", "--reflink=auto", "/usr/share/wordpress/."])
        .arg(folder.path())
        .status();
    assert!(
        copied.unwrap().success(),
        "copying the files of the package wordpress"
    );
    let config = CONFIG.replace("SOCKET", socket.to_str().unwrap());
    folder.write("wp-config.php", &config);
    // Nothing is sent by tests.
    folder.write(
        "wp-content/mu-plugins/quiet.php",
        "<?php function wp_mail() { return true; }",
    );
    folder.write("wp-content/uploads/.keep", "");
    folder
}

/// A picture that the editor makes smaller ones of.
fn picture(path: &Path) {
    let script = "$i = imagecreatetruecolor(800, 600); imagefilledellipse($i, 400, 300, 300, 200, 0xff8800); imagejpeg($i, $argv[1]);";
    let php = format!("php{}", std::env::var("PHP_VERSION").unwrap_or("8.2".to_owned()));
    let made = Command::new(php).args(["-r", script]).arg(path).status();
    assert!(made.unwrap().success(), "making a picture with GD");
}

#[test]
fn wordpress_is_installed_and_used_in_a_browser() {
    if std::env::var("HEARTH_TEST_WORDPRESS").is_err() {
        eprintln!("skipped: HEARTH_TEST_WORDPRESS is not set; `make wordpress` does it all");
        return;
    }
    let database = Database::mariadb();
    let site = wordpress(&database.address());
    let server = Server::start(&site.app(), &["pool.web.workers=4"]);
    let profile = Folder::new("wordpress-browser");
    let browser = Browser::start(profile.path());
    let home = format!("http://{}", server.address());
    install(&browser, &home);
    log_in(&browser, &home);
    take_pretty_permalinks(&browser, &home);
    let post = publish(&browser, &home);
    assert_eq!(post, format!("{home}/hearth-serves-this/"));
    browser.open(&post);
    browser.wait("document.body.classList.contains('single-post')");
    browser.wait("document.body.innerText.includes('Written in a browser.')");
    let image = upload(&browser, &home, &profile.file("sun.jpg"));
    browser.open(&image);
    assert_eq!(browser.run("return document.images[0].naturalWidth;"), 800);
    browser.open(&format!("{home}/wp-admin/"));
    browser.wait("document.title.startsWith('Dashboard') && document.querySelector('#dashboard_right_now')");
    browser.open(&format!("{home}/no-such-page/"));
    browser.wait("document.body.classList.contains('error404')");
}

fn install(browser: &Browser, home: &str) {
    browser.open(home);
    browser.wait("location.pathname === '/wp-admin/install.php'");
    // It proposes a password first, and then says how strong that is which was typed; the form moves with that.
    browser.wait("document.querySelector('#pass1').value !== ''");
    browser.fill("#weblog_title", "Hearth");
    browser.fill("#user_login", "admin");
    browser.fill("#pass1", PASSWORD);
    browser.fill("#admin_email", "admin@example.com");
    browser.wait("document.querySelector('#pass-strength-result').classList.contains('strong')");
    browser.click("#submit");
    browser.wait("document.body.innerText.includes('WordPress has been installed')");
}

fn log_in(browser: &Browser, home: &str) {
    browser.open(&format!("{home}/wp-login.php"));
    // The page takes the focus for its first field once it is loaded, whatever is being typed.
    browser.wait("document.activeElement === document.querySelector('#user_login')");
    browser.fill("#user_login", "admin");
    browser.fill("#user_pass", PASSWORD);
    browser.click("#wp-submit");
    browser.wait("location.pathname === '/wp-admin/' && document.querySelector('#wpadminbar')");
}

fn take_pretty_permalinks(browser: &Browser, home: &str) {
    browser.open(&format!("{home}/wp-admin/options-permalink.php"));
    browser.click("input[name=selection][value='/%postname%/']");
    browser.click("#submit");
    browser.wait("document.querySelector('#setting-error-settings_updated')");
}

/// Writes a post in the block editor, and publishes it. Its address.
fn publish(browser: &Browser, home: &str) -> String {
    browser.open(&format!("{home}/wp-admin/post-new.php"));
    browser.wait("window.wp && wp.data && wp.data.select('core/editor') && wp.data.select('core/editor').getCurrentPostId()");
    let post = json!({
        "title": "Hearth serves this",
        "content": "<!-- wp:paragraph --><p>Written in a browser.</p><!-- /wp:paragraph -->",
        "status": "publish",
    });
    let address = browser.run(&format!(
        "const editor = wp.data.dispatch('core/editor');
        await editor.editPost({post});
        await editor.savePost();
        return wp.data.select('core/editor').getPermalink();"
    ));
    address.as_str().unwrap().to_owned()
}

/// Uploads a picture by the plain form of the media library. Its address.
fn upload(browser: &Browser, home: &str, file: &Path) -> String {
    picture(file);
    browser.open(&format!("{home}/wp-admin/media-new.php?browser-uploader"));
    browser.type_into("#async-upload", file.to_str().unwrap());
    browser.click("#html-upload");
    browser.wait("location.pathname === '/wp-admin/upload.php'");
    browser.open(&format!("{home}/wp-json/wp/v2/media"));
    let media = browser.run("return JSON.parse(document.body.innerText)[0];");
    assert!(
        media["media_details"]["sizes"]["thumbnail"].is_object(),
        "{media}"
    );
    media["source_url"].as_str().unwrap().to_owned()
}
