use super::super::{Config, Sources};
use super::*;

/// What loading a project says that has this file: the rules of `web`, or the errors, with `DIR` for its folder.
fn load(name: &str, text: &str) -> Result<Vec<Rule>, String> {
    let dir = std::env::temp_dir().join(format!("hearth-rules-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("hearth.toml"), text).unwrap();
    let loaded = Config::load(&Sources {
        dir: dir.clone(),
        ..Sources::default()
    });
    std::fs::remove_dir_all(&dir).unwrap();
    let errors = |errors: super::super::Errors| errors.to_string().replace(dir.to_str().unwrap(), "DIR");
    loaded
        .map(|loaded| loaded.config.pools[0].rules.clone())
        .map_err(errors)
}

#[test]
fn rules_keep_their_order_and_what_they_say() {
    let many: String = (0..12)
        .map(|n| format!("[[pool.web.rules]]\npath = '/{n}'\n"))
        .collect::<Vec<_>>()
        .concat();
    let last = "[[pool.web.rules]]\npath = ['*.css', '*.js']\nnot = '/a.js'\nhost = 'a.b'\nmissing = true\nredirect = '{path}/'\n\
                headers = { X-A = 'b' }\ncache_control = 'no-cache'\ncompress = false\n";
    let rules = load("order", &(many + last)).unwrap();
    let paths: Vec<String> = rules.iter().map(|rule| format!("{:?}", rule.paths[0])).collect();
    let paths: Vec<&str> = paths.iter().map(|path| path.trim_matches('"')).collect();
    assert_eq!(
        paths,
        [
            "/0", "/1", "/2", "/3", "/4", "/5", "/6", "/7", "/8", "/9", "/10", "/11", "*.css"
        ]
    );
    let last = rules.last().unwrap();
    assert_eq!((last.paths.len(), last.not.len(), last.hosts.len()), (2, 1, 1));
    assert_eq!(last.action, Some(Action::Redirect("{path}/".to_owned(), 302)));
    assert_eq!(
        (last.headers.len(), last.compress, last.missing),
        (1, Some(false), true)
    );
    assert_eq!(last.cache_control.as_ref().unwrap(), "no-cache");
}

#[test]
fn what_is_wrong_with_a_rule_is_said_with_its_line() {
    let text = "\
[[pool.web.rules]]
path = 'old'
redirect = '//evil.example/'

[[pool.web.rules]]
path = '/a'
deny = true
status = 301

[[pool.web.rules]]
path = '/b'
rewirte = '/c'
headers = { Content-Length = '3' }

[pool.web.error_pages]
404 = 'none.html'
200 = 'ok.html'

[pool.web.internal]
'/files' = '.'
";
    let expected = "the configuration has 8 errors
  DIR/hearth.toml:2: `pool.web.rules.0.path` is \"old\": expected for instance \"/status\" for one, \"/api/*\" for all below it, \"*.css\", or \"/blog/{year}/{title}\"
  DIR/hearth.toml:3: `pool.web.rules.0.redirect` is \"//evil.example/\": expected a path that begins with a /, or a URL that begins with https:// or http://
  DIR/hearth.toml:8: `pool.web.rules.1.status` is 301: expected one of 401, 403, 404, 410, 451
  DIR/hearth.toml:12: unknown key `pool.web.rules.2.rewirte`; a rule has path, host, missing, redirect, rewrite, deny, status, headers, cache_control, compress, not
  DIR/hearth.toml:13: `pool.web.rules.2.headers.Content-Length` is \"3\": expected a header's name and value; those of a message's form are the server's own
  DIR/hearth.toml:16: `pool.web.error_pages.404` is \"none.html\": expected a file of at most 1 MiB at DIR/none.html, or the path of a URL, which begins with a /
  DIR/hearth.toml:17: `pool.web.error_pages.200` is \"ok.html\": expected a status from 400 to 599, or \"4xx\" or \"5xx\", as the name
  DIR/hearth.toml:20: `pool.web.internal./files` is \".\": expected a path that begins and ends with a / as the name, for instance \"/protected/\"";
    assert_eq!(load("wrong", text).unwrap_err(), expected);
    let name = "[[pool.web.rules]]\npath = ['/{a}/{b}', '/{a}']\nrewrite = '/{a}?b={b}&host={host}'\n";
    assert_eq!(
        load("name", name).unwrap_err(),
        "DIR/hearth.toml:3: `pool.web.rules.0.rewrite` is \"/{a}?b={b}&host={host}\": `path` must have {b}, too; of itself a rule knows \
         {rest}, {path} and {host}"
    );
    let two = load("two", "[[pool.web.rules]]\nredirect = '/a'\ndeny = true\n").unwrap_err();
    assert!(two.contains("`pool.web.rules.0` has no `path`"), "{two}");
    assert!(two.contains("more than one of"), "{two}");
}

#[test]
fn a_redirection_to_itself_is_refused() {
    let rule = |name: &str, rule: &str| load(name, &format!("[[pool.web.rules]]\n{rule}\n"));
    for (name, text) in [
        ("circle-any", "path = '*'\nredirect = '/login?from=x'"),
        ("circle-one", "path = ['/b', '/a']\nredirect = '/a'"),
        ("circle-below", "path = '/old/*'\nredirect = '/old/new'"),
        ("circle-path", "path = '/a'\nredirect = '{path}?again'"),
    ] {
        let said = rule(name, text).unwrap_err();
        assert!(
            said.starts_with("DIR/hearth.toml:3: `pool.web.rules.0.redirect` is ")
                && said.contains("applies again"),
            "{said}"
        );
    }
    for (name, text) in [
        ("line-not", "path = '*'\nnot = '/login'\nredirect = '/login'"),
        (
            "line-missing",
            "path = '/a/*'\nmissing = true\nredirect = '/a/index.html'",
        ),
        (
            "line-host",
            "path = '*'\nhost = 'a.b'\nredirect = 'https://www.a.b{path}'",
        ),
        ("line-slash", "path = '/a'\nredirect = '{path}/'"),
        (
            "line-earlier",
            "path = '/login'\nrewrite = '/login.php'\n[[pool.web.rules]]\npath = '*'\nredirect = '/login'",
        ),
    ] {
        assert!(rule(name, text).is_ok(), "{name}");
    }
}
