use super::*;

fn read(text: &str) -> Htaccess {
    Htaccess::read(text.as_bytes())
}

fn said_of(file: &Htaccess, name: &str) -> Said {
    let files = file.of_file(name.as_bytes());
    files.fold(file.of_folder(), Said::and_then)
}

#[test]
fn a_folder_is_closed_where_apache_does_not_let_everybody_in() {
    let table: &[(&str, bool)] = &[
        ("", true),
        ("Require all denied", false),
        ("  REQUIRE  ALL  DENIED\r\n", false),
        ("# Require all denied\nOptions -Indexes", true),
        ("Require all granted", true),
        ("Require all \\\n denied", false),
        ("Require ip 10.0.0.0/8", false),
        ("Require local\nRequire all granted", true),
        ("AuthType Basic\nRequire valid-user", false),
        (
            "<RequireAll>\nRequire all granted\nRequire not ip 10.1.2.3\n</RequireAll>",
            true,
        ),
        (
            "<RequireAll>\nRequire all granted\nRequire ip 10.1.2.3\n</RequireAll>",
            false,
        ),
        (
            "<RequireAny>\nRequire all granted\nRequire ip 10.1.2.3\n</RequireAny>",
            true,
        ),
        ("<RequireNone>\nRequire ip 10.1.2.3\n</RequireNone>", true),
        ("Deny from all", false),
        ("deny FROM All", false),
        ("Order deny,allow\nDeny from all\nAllow from 127.0.0.1", false),
        ("Order allow,deny", false),
        ("Order allow,deny\nAllow from all", true),
        ("Order allow,deny\nAllow from all\nDeny from 10.1.2.3", true),
        ("Order deny,allow\nDeny from all\nAllow from all", true),
        ("Order allow,deny\nDeny from all\nAllow from all", false),
        ("Allow from 10.0.0.0/8", true),
        (
            "Satisfy Any\nRequire valid-user\nOrder allow,deny\nAllow from all",
            true,
        ),
        ("Require valid-user\nOrder allow,deny\nAllow from all", false),
        (
            "<IfModule mod_authz_core.c>\nRequire all denied\n</IfModule>",
            false,
        ),
        ("<IfModule !mod_authz_core.c>\nDeny from all\n</IfModule>", true),
        (
            "<IfModule a>\n<IfModule !b>\nDeny from all\n</IfModule>\n</IfModule>",
            true,
        ),
        ("<IfVersion < 2.4>\nDeny from all\n</IfVersion>", true),
        ("<IfVersion >= 2.4>\nRequire all denied\n</IfVersion>", false),
        ("<IfDefine X>\nRequire all denied\n</IfDefine>", true),
        ("<Limit GET POST>\nDeny from all\n</Limit>", false),
        ("<Limit PUT DELETE>\nDeny from all\n</Limit>", true),
        ("<LimitExcept GET POST>\nDeny from all\n</LimitExcept>", true),
        ("<Files secret.txt>\nRequire all denied\n</Files>", true),
        ("<IfModule a>\nRequire all denied", false),
        ("</IfModule>\nRequire all denied", false),
    ];
    for (text, is_open) in table {
        assert_eq!(read(text).of_folder().is_open(), *is_open, "{text}");
    }
    assert!(!Htaccess::closed().of_folder().is_open());
}

#[test]
fn what_is_said_further_down_replaces_the_same_said_further_up() {
    let table: &[(&str, &str, bool)] = &[
        ("Require all denied", "Require all granted", true),
        ("Deny from all", "Allow from all", true),
        ("Require all granted", "Require all denied", false),
        // Apache 2.4 asks both of its modules.
        ("Require all denied", "Allow from all", false),
        ("Require all denied", "Options -Indexes", false),
        ("Require valid-user", "Satisfy any\nAllow from all", true),
    ];
    for (above, below, is_open) in table {
        let said = read(above).of_folder().and_then(read(below).of_folder());
        assert_eq!(said.is_open(), *is_open, "{above} / {below}");
    }
}

#[test]
fn files_are_closed_and_opened_by_their_names() {
    let file = read(
        "Require all denied
<FilesMatch '\\.(?i:css|js)$'>
  <IfModule mod_authz_core.c>
    Require all granted
  </IfModule>
</FilesMatch>
<Files \"logo-?.*\">
  Require all granted
</Files>
<Files ~ \"^read(me)?\\.js$\">
  <RequireAll>
    Require all denied
  </RequireAll>
</Files>",
    );
    for (name, is_open) in [
        ("a.css", true),
        ("a.JS", true),
        ("a.css.txt", false),
        ("logo-a.png", true),
        ("logo-ab.png", false),
        ("readme.js", false),
        ("a.txt", false),
    ] {
        assert_eq!(said_of(&file, name).is_open(), is_open, "{name}");
    }
    assert!(file.ignored.is_empty(), "{:?}", file.ignored);
}

#[test]
fn scripts_run_unless_the_engine_is_off() {
    for text in [
        "php_flag engine off",
        "<IfModule mod_php7.c>\nphp_flag engine Off\n</IfModule>",
    ] {
        assert!(!read(text).of_folder().runs_scripts(), "{text}");
    }
    let file = read("<Files ~ '^a'>\nphp_flag engine 0\n</Files>");
    assert!(!said_of(&file, "a.php").runs_scripts());
    assert!(said_of(&file, "b.php").runs_scripts());
    let others = read("php_flag engine on\nphp_flag display_errors off");
    assert!(others.of_folder().runs_scripts());
}

#[test]
fn what_is_not_done_is_known() {
    let table: &[(&str, &[&str])] = &[
        ("RewriteRule ^ index.php [L]\nRewriteRule ^a - [R=301,L]", &[]),
        ("RewriteRule (^|/)\\. - [NC,F]", &["RewriteRule with [F]"]),
        (
            "RedirectMatch 404 \"/\\.git\"\nRedirect 301 /a /b",
            &["Redirect with 403, 404 or 410"],
        ),
        ("<If \"%{HTTP_HOST} == 'a'\">\nRequire all denied\n</If>", &["If"]),
        (
            "Require not ip 10.1.2.3\nAllow from all\nDeny from 10.1.2.3",
            &["Deny from some", "Require not"],
        ),
        (
            "<FilesMatch \"^(?!index)\">\nDeny from all\n</FilesMatch>",
            &["a pattern of FilesMatch"],
        ),
    ];
    for (text, ignored) in table {
        let found: Vec<&str> = read(text).ignored.into_iter().collect();
        assert_eq!(found, *ignored, "{text}");
    }
}

#[test]
fn any_bytes_are_read() {
    for text in [
        "<",
        "</",
        "<>",
        "<Files>",
        "<Files ~>",
        "\\",
        "\"",
        "'\u{e9}",
        "Order",
        "Require",
        "<FilesMatch \"(\">\nDeny from all",
    ] {
        read(text);
    }
    Htaccess::read(b"\xff\xfe\n<\xff>");
}
