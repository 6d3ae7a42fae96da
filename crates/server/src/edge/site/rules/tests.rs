use super::*;
use crate::config::Pattern;

fn rule(path: &str, action: Option<Action>) -> Rule {
    Rule {
        paths: vec![Pattern::new(path).unwrap()],
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
            "/rd/{page}",
            "https://a.example{page}",
            "/rd/.evil.example",
            None,
            "https://a.example/.evil.example",
        ),
        (
            "/blog/{year}/{title}",
            "/{title}-{year}?from={year}",
            "/blog/2026/a b",
            Some("x=1"),
            "/a%20b-2026?from=2026",
        ),
        (
            "/to/{tenant}/*",
            "https://{tenant}.a.example/{rest}",
            "/to/x?y/z",
            None,
            "https://x%3Fy.a.example/z",
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
        (
            "/{user}/photos/{id}",
            "/photo.php?user={user}&id={id}",
            "/ann b/photos/7",
            None,
            "/photo.php",
            "user=ann%20b&id=7",
        ),
        ("/x/{file}", "/y/{file}/{none}", "/x/a", None, "/y/a/{none}", ""),
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
            not: vec![Pattern::new("/a/free/*").unwrap()],
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
        not: ["/up/ok.php", "*/info"]
            .map(|text| Pattern::new(text).unwrap())
            .into(),
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
