use super::*;

#[test]
fn a_pattern_fits_the_paths_it_names() {
    let table: &[(&str, &str, Option<&str>)] = &[
        ("/a", "/a", Some("")),
        ("/a", "/a/b", None),
        ("/a/*", "/a/b/c", Some("b/c")),
        ("/a/*", "/a/", Some("")),
        ("/a/*", "/a", Some("")),
        ("/a/*", "/ab", None),
        ("/a*", "/ab", Some("b")),
        ("*", "/any/thing", Some("/any/thing")),
        ("*.css", "/x/y.css", Some("/x/y")),
        ("*.css", "/x/y.css.map", None),
        ("*.php", "/.php", Some("/")),
        ("/up/*.php", "/up/a/b.php", Some("a/b")),
        ("/up/*.php", "/up/a.php/x", None),
        ("/*/wp-*.php", "/blog/wp-login.php", Some("login")),
        ("/*/wp-*", "/blog/wp-admin/x", Some("admin/x")),
        ("/sites/*/files/*.php", "/sites/a/files/b.php", Some("b")),
        ("/sites/*/files/*.php", "/sites/files/b.php", None),
        ("/a*a", "/a", None),
        ("/**/x", "/q/x", Some("q")),
    ];
    for (pattern, path, rest) in table {
        let found = matches(pattern, path.as_bytes()).map(|rest| std::str::from_utf8(rest).unwrap());
        assert_eq!(found, *rest, "{pattern} {path}");
    }
}

fn rule(path: &str, action: Option<Action>) -> Rule {
    Rule {
        paths: vec![path.to_owned()],
        action,
        ..Rule::default()
    }
}

fn turned(rules: &[Rule], path: &str, query: Option<&str>) -> Option<Turn> {
    let asked = Asked {
        host: "shop.example",
        path: path.as_bytes(),
        query,
        exists: &|| path == "/a.txt",
    };
    apply(rules, &asked).unwrap().turn
}

#[test]
fn a_redirect_keeps_path_and_query_and_never_leads_to_another_host() {
    let table: &[(&str, &str, &str, Option<&str>, &str)] = &[
        ("/old/*", "/new/{rest}", "/old/a b", None, "/new/a%20b"),
        ("/old/*", "/new/{rest}", "/old/a", Some("x=1&y"), "/new/a?x=1&y"),
        ("/old/*", "/new/{rest}?", "/old/a", Some("x=1"), "/new/a"),
        ("/old/*", "/new?page={rest}", "/old/a", Some("x=1"), "/new?page=a"),
        ("/old*", "/{rest}", "/old/evil.example", None, "/evil.example"),
        (
            "/old*",
            "/{rest}",
            "/old/\\evil.example",
            None,
            "/%5Cevil.example",
        ),
        (
            "*",
            "https://{host}{path}",
            "/a",
            Some("b"),
            "https://shop.example/a?b",
        ),
        (
            "/rd/*",
            "https://a.example{rest}",
            "/rd/.evil.example",
            None,
            "https://a.example/.evil.example",
        ),
        (
            "/rd/*",
            "https://a.example{rest}",
            "/rd/@evil.example",
            None,
            "https://a.example/@evil.example",
        ),
        (
            "/rd*",
            "https://a.example{rest}",
            "/rd/x",
            None,
            "https://a.example/x",
        ),
        (
            "/to/*",
            "https://{rest}.a.example/",
            "/to/shop",
            None,
            "https://shop.a.example/",
        ),
        (
            "/x*",
            "/y{rest}",
            "/x\r\nSet-Cookie: a",
            None,
            "/y%0D%0ASet-Cookie:%20a",
        ),
    ];
    for (pattern, to, path, query, expected) in table {
        let rules = [rule(pattern, Some(Action::Redirect((*to).to_owned(), 301)))];
        let found = turned(&rules, path, *query);
        let away = Turn::Away((*expected).to_owned(), StatusCode::MOVED_PERMANENTLY);
        assert_eq!(found, Some(away), "{pattern} {to} {path}");
    }
}

/// Pattern, target, path, query; new path, new query.
type Rewriting<'a> = (&'a str, &'a str, &'a str, Option<&'a str>, &'a str, &'a str);

#[test]
fn a_rewrite_changes_path_and_query() {
    let table: &[Rewriting<'_>] = &[
        ("/a", "/b.php", "/a", Some("x=1"), "/b.php", "x=1"),
        (
            "/a/*",
            "/b.php?id={rest}",
            "/a/7&8",
            Some("x=1"),
            "/b.php",
            "id=7&8&x=1",
        ),
        (
            "/a/*",
            "/b.php?id={rest}?",
            "/a/7 8",
            Some("x=1"),
            "/b.php",
            "id=7%208",
        ),
        (
            "/*/wp-admin/*",
            "/wp-admin/{rest}",
            "/blog/wp-admin/x.php",
            None,
            "/wp-admin/x.php",
            "",
        ),
        ("/a/*", "/../../{rest}", "/a/b", None, "!", ""),
    ];
    for (pattern, to, path, query, new, new_query) in table {
        let rules = [rule(pattern, Some(Action::Rewrite((*to).to_owned())))];
        let asked = Asked {
            host: "h",
            path: path.as_bytes(),
            query: *query,
            exists: &|| false,
        };
        let found = apply(&rules, &asked).map(|ruling| ruling.turn);
        match found {
            Err(_) => assert_eq!(*new, "!", "{to}"),
            Ok(turn) => {
                let expected = Turn::Path(new.as_bytes().to_vec(), (*new_query).to_owned());
                assert_eq!(turn, Some(expected), "{pattern} {to} {path}");
            }
        }
    }
}

fn headers(pairs: &[(&'static str, &'static str)]) -> Vec<(HeaderName, HeaderValue)> {
    let pairs = pairs.iter();
    pairs
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
        .collect()
}

#[test]
fn the_first_rule_that_speaks_of_something_decides_it() {
    let rules = [
        Rule {
            headers: headers(&[("x-a", "1")]),
            ..rule("/a/*", None)
        },
        Rule {
            not: vec!["/a/free/*".to_owned()],
            ..rule("/a/*", Some(Action::Deny(403)))
        },
        rule("/a/*", Some(Action::Deny(404))),
        Rule {
            headers: headers(&[("x-a", "2"), ("x-b", "3"), ("server", "")]),
            cache_control: Some(HeaderValue::from_static("no-cache")),
            compress: Some(false),
            ..rule("*", None)
        },
        Rule {
            cache_control: Some(HeaderValue::from_static("public")),
            compress: Some(true),
            ..rule("*", None)
        },
    ];
    let status = |path| match turned(&rules, path, None) {
        Some(Turn::Refused(status)) => status.as_u16(),
        None => 0,
        other => panic!("{other:?}"),
    };
    assert_eq!((status("/a/b"), status("/a/free/b"), status("/b")), (403, 404, 0));
    let asked = Asked {
        host: "h",
        path: b"/a/b",
        query: None,
        exists: &|| false,
    };
    let ruling = apply(&rules, &asked).unwrap();
    assert!(ruling.unpacked);
    let mut given = HeaderMap::new();
    given.insert(header::SERVER, HeaderValue::from_static("hearth"));
    ruling.dress.put_on(StatusCode::OK, &mut given);
    let mut shown: Vec<String> = given
        .iter()
        .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
        .collect();
    shown.sort();
    assert_eq!(shown, ["cache-control: no-cache", "x-a: 1", "x-b: 3"]);
}

#[test]
fn a_script_that_is_denied_is_denied_with_any_path_behind_it() {
    let uploads = Rule {
        not: vec!["/up/ok.php".to_owned(), "*/info".to_owned()],
        ..rule("/up/*.php", Some(Action::Deny(403)))
    };
    let elsewhere = rule("*.php", Some(Action::Rewrite("/{path}".to_owned())));
    let rules = [uploads, elsewhere];
    let denied = |path| matches!(turned(&rules, path, None), Some(Turn::Refused(_)));
    for path in [
        "/up/a.php",
        "/up/a.php/",
        "/up/a.php/x/y.jpg",
        "/up/b/a.php/x.php",
    ] {
        assert!(denied(path), "{path}");
    }
    for path in [
        "/up/a.php.txt",
        "/up/ok.php",
        "/up/ok.php/x",
        "/up/a.php/info",
        "/a.php/up/x",
    ] {
        assert!(!denied(path), "{path}");
    }
    assert_eq!(turned(&rules, "/a.php/x", None), None);
}

#[test]
fn a_cache_control_is_for_what_may_be_kept_and_says_nothing() {
    let dress = || Dress {
        headers: Vec::new(),
        cache_control: Some(HeaderValue::from_static("public")),
    };
    let cached = |status: u16, name: &'static str| {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_static("x"));
        dress().put_on(StatusCode::from_u16(status).unwrap(), &mut headers);
        headers
            .get(header::CACHE_CONTROL)
            .is_some_and(|value| value == "public")
    };
    assert!(cached(200, "x") && cached(304, "x"));
    assert!(!cached(404, "x") && !cached(500, "x") && !cached(302, "x"));
    assert!(!cached(200, "cache-control") && !cached(200, "set-cookie"));
}

#[test]
fn host_and_missing_narrow_a_rule() {
    let on = |hosts: &[&str], missing| Rule {
        hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
        missing,
        ..rule("*", Some(Action::Deny(410)))
    };
    assert!(turned(&[on(&["shop.example"], false)], "/", None).is_some());
    assert!(turned(&[on(&["*.example"], false)], "/", None).is_some());
    assert!(turned(&[on(&["other.example"], false)], "/", None).is_none());
    assert!(turned(&[on(&[], true)], "/a.txt", None).is_none());
    assert!(turned(&[on(&[], true)], "/a", None).is_some());
}
