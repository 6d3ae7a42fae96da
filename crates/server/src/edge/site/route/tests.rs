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
