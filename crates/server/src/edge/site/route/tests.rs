use super::*;

#[test]
fn paths_are_read_as_nginx_reads_them() {
    let cases: &[(&str, &str)] = &[
        ("/", "/"),
        ("", "/"),
        ("/a/b", "/a/b"),
        ("/a//b", "/a/b"),
        ("//a", "/a"),
        ("/a/./b", "/a/b"),
        ("/a/../b", "/b"),
        ("/a/b/..", "/a/"),
        ("/a/.", "/a/"),
        ("/a%2Fb%2f..", "/a/"),
        ("/a%20b", "/a b"),
        ("/a%252e", "/a%2e"),
        ("/...", "/..."),
        ("/a.b/", "/a.b/"),
    ];
    for (raw, path) in cases {
        assert_eq!(decode(raw).unwrap().as_ref(), path.as_bytes(), "{raw}");
    }
    for bad in [
        "/..",
        "/a/../..",
        "/%2e%2e/x",
        "/%",
        "/%2",
        "/%g0",
        "/a%00",
        "/a/..%2f..%2f",
    ] {
        assert!(decode(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_location_names_no_other_host() {
    assert_eq!(encode(b"/a b\"<\xc3\xa9"), "/a%20b%22%3C%C3%A9");
    assert_eq!(encode(&decode("//evil.example").unwrap()), "/evil.example");
}

#[test]
fn scripts_end_at_the_first_php() {
    assert_eq!(split_script(b"/a.php"), Some((&b"/a.php"[..], &b""[..])));
    assert_eq!(
        split_script(b"/a.php/b.php/c"),
        Some((&b"/a.php"[..], &b"/b.php/c"[..]))
    );
    assert_eq!(
        split_script(b"/a.phpx/b.php"),
        Some((&b"/a.phpx/b.php"[..], &b""[..]))
    );
    assert_eq!(split_script(b"/a.php5"), None);
    assert_eq!(split_script(b"/a"), None);
}

#[test]
fn sources_and_hidden_names_are_known() {
    for name in [
        "/a.php",
        "/a.PHP",
        "/a.phtml",
        "/a.phar",
        "/a.php~",
        "/a.php.bak",
        "/x/a.php7",
        "/a.phps",
    ] {
        assert!(is_source(name.as_bytes()), "{name}");
    }
    for name in ["/a.txt", "/php", "/a.phpx", "/a.photo.jpg", "/a.php/x.css"] {
        assert!(!is_source(name.as_bytes()), "{name}");
    }
    for name in ["/.env", "/a/.git/config", "/.well-known/.x", "/.well-known"] {
        assert!(is_hidden(name.as_bytes()), "{name}");
    }
    for name in ["/.well-known/acme", "/a.b/c"] {
        assert!(!is_hidden(name.as_bytes()), "{name}");
    }
}

#[test]
fn what_describes_a_project_is_known() {
    for name in ["/hearth.toml", "/composer.json", "/a/composer.lock", "/auth.json"] {
        assert!(is_secret(name.as_bytes()), "{name}");
    }
    for name in [
        "/package.json",
        "/composer.json/x",
        "/my-composer.json",
        "/composer",
    ] {
        assert!(!is_secret(name.as_bytes()), "{name}");
    }
}

#[test]
fn the_vendor_folder_of_a_project_is_no_part_of_its_site() {
    let router = |hides_vendor| Router {
        number: 1,
        pool: "web".into(),
        mode: Mode::Classic,
        root: PathBuf::from("/srv"),
        front: None,
        hides_vendor,
        rules: Vec::new(),
        internal: Vec::new(),
        pages: Pages::default(),
    };
    for path in ["/vendor", "/vendor/", "/vendor/a/b.php"] {
        assert!(router(true).is_vendor(path.as_bytes()), "{path}");
        assert!(!router(false).is_vendor(path.as_bytes()), "{path}");
    }
    assert!(!router(true).is_vendor(b"/vendors/a"));
    assert!(!router(true).is_vendor(b"/a/vendor/b"));
}
