use bytes::BytesMut;

use super::super::records;
use super::*;

/// The variables given, those that result and, of the script, whether it is known. Expected values were told by php-fpm 8.2 for the same
/// variables; the files are those of [`files`].
struct Row {
    given: &'static [(&'static str, &'static str)],
    expected: &'static [(&'static str, &'static str)],
    script: Option<&'static str>,
}

fn files(path: &[u8]) -> Named {
    match path {
        b"/w/a.php" => Named::File,
        b"/w" | b"/w/d" | b"/" => Named::Other,
        _ => Named::Nothing,
    }
}

const TABLE: [Row; 13] = [
    Row {
        given: &[("SCRIPT_FILENAME", "/w/a.php"), ("SCRIPT_NAME", "/a.php")],
        expected: &[("SCRIPT_FILENAME", "/w/a.php"), ("SCRIPT_NAME", "/a.php")],
        script: Some("/w/a.php"),
    },
    Row {
        given: &[],
        expected: &[],
        script: None,
    },
    Row {
        given: &[("SCRIPT_FILENAME", "/w/no.php")],
        expected: &[("SCRIPT_FILENAME", "/w/no.php")],
        script: None,
    },
    Row {
        given: &[("SCRIPT_FILENAME", "/w/d")],
        expected: &[("SCRIPT_FILENAME", "/w/d")],
        script: Some("/w/d"),
    },
    Row {
        given: &[
            ("SCRIPT_FILENAME", "/w/a.php/x/y"),
            ("PATH_INFO", "/x/y"),
            ("DOCUMENT_ROOT", "/w/"),
        ],
        expected: &[
            ("SCRIPT_FILENAME", "/w/a.php"),
            ("PATH_INFO", "/x/y"),
            ("DOCUMENT_ROOT", "/w/"),
            ("ORIG_SCRIPT_FILENAME", "/w/a.php/x/y"),
            ("PATH_TRANSLATED", "/w/x/y"),
        ],
        script: Some("/w/a.php"),
    },
    // The script's URL and what follows, in one.
    Row {
        given: &[
            ("SCRIPT_FILENAME", "/w/a.php/x"),
            ("SCRIPT_NAME", "/"),
            ("PATH_INFO", "/a.php/x"),
        ],
        expected: &[
            ("SCRIPT_FILENAME", "/w/a.php"),
            ("SCRIPT_NAME", "/a.php"),
            ("PATH_INFO", "/x"),
            ("ORIG_PATH_INFO", "/a.php/x"),
            ("ORIG_SCRIPT_NAME", "/"),
            ("ORIG_SCRIPT_FILENAME", "/w/a.php/x"),
        ],
        script: Some("/w/a.php"),
    },
    // Apache, `SetHandler`.
    Row {
        given: &[
            ("SCRIPT_FILENAME", "proxy:fcgi://localhost/w/a.php"),
            ("SCRIPT_NAME", "/a.php"),
        ],
        expected: &[("SCRIPT_FILENAME", "/w/a.php"), ("SCRIPT_NAME", "/a.php")],
        script: Some("/w/a.php"),
    },
    // Apache, `ProxyPassMatch`: the rest is everywhere but in PATH_INFO.
    Row {
        given: &[
            ("SCRIPT_FILENAME", "proxy:fcgi://127.0.0.1:9000/w/a.php/x?q"),
            ("SCRIPT_NAME", "/a.php/x"),
            ("DOCUMENT_ROOT", "/w"),
        ],
        expected: &[
            ("SCRIPT_FILENAME", "/w/a.php"),
            ("SCRIPT_NAME", "/a.php"),
            ("DOCUMENT_ROOT", "/w"),
            ("ORIG_SCRIPT_NAME", "/a.php/x"),
            ("PATH_INFO", "/x"),
            ("ORIG_SCRIPT_FILENAME", "/w/a.php/x"),
            ("PATH_TRANSLATED", "/w/x"),
        ],
        script: Some("/w/a.php"),
    },
    Row {
        given: &[("SCRIPT_FILENAME", "proxy:balancer://any/w/a.php")],
        expected: &[("SCRIPT_FILENAME", "/w/a.php")],
        script: Some("/w/a.php"),
    },
    // No path behind the address.
    Row {
        given: &[("SCRIPT_FILENAME", "proxy:fcgi://localhost")],
        expected: &[("SCRIPT_FILENAME", "proxy:fcgi://localhost")],
        script: None,
    },
    Row {
        given: &[("PATH_TRANSLATED", "/w/a.php")],
        expected: &[("PATH_TRANSLATED", "/w/a.php"), ("SCRIPT_FILENAME", "/w/a.php")],
        script: Some("/w/a.php"),
    },
    // Apache, `Action`.
    Row {
        given: &[
            ("SCRIPT_FILENAME", "/bin/handler"),
            ("SCRIPT_NAME", "/handler"),
            ("PATH_TRANSLATED", "/w/a.php"),
            ("PATH_INFO", "/a.php"),
            ("REDIRECT_URL", "/a.php"),
        ],
        expected: &[
            ("SCRIPT_FILENAME", "/w/a.php"),
            ("SCRIPT_NAME", "/a.php"),
            ("REDIRECT_URL", "/a.php"),
            ("ORIG_SCRIPT_NAME", "/handler"),
            ("ORIG_SCRIPT_FILENAME", "/bin/handler"),
            ("ORIG_PATH_INFO", "/a.php"),
            ("ORIG_PATH_TRANSLATED", "/w/a.php"),
        ],
        script: Some("/w/a.php"),
    },
    Row {
        given: &[("SCRIPT_FILENAME", "/w/a.php/../../w/a.php")],
        expected: &[
            ("SCRIPT_FILENAME", "/w/a.php"),
            ("ORIG_SCRIPT_FILENAME", "/w/a.php/../../w/a.php"),
        ],
        script: Some("/w/a.php"),
    },
];

fn stream(pairs: &[(&str, &str)]) -> BytesMut {
    let mut bytes = BytesMut::new();
    for (name, value) in pairs {
        records::put_pair(&mut bytes, name.as_bytes(), value.as_bytes());
    }
    bytes
}

#[test]
fn variables_are_put_right_as_php_fpm_does() {
    for row in &TABLE {
        let (given, expected) = (stream(row.given), stream(row.expected));
        let mut variables = Variables::read(&given, 99).unwrap();
        let script = settle(&mut variables, files);
        assert_eq!(
            variables,
            Variables::read(&expected, 99).unwrap(),
            "{:?}",
            row.given
        );
        let known = match &script {
            Script::At(path) => Some(std::str::from_utf8(path).unwrap()),
            Script::Unknown => None,
        };
        assert_eq!(known, row.script, "{:?}", row.given);
    }
}

#[test]
fn a_path_that_climbs_names_nothing() {
    for path in ["/w/../w/a.php", "../a.php", "/w/.."] {
        let given = stream(&[("SCRIPT_FILENAME", path)]);
        let mut variables = Variables::read(&given, 99).unwrap();
        assert_eq!(settle(&mut variables, |_| Named::File), Script::Unknown, "{path}");
    }
}

#[test]
fn only_some_names_are_scripts() {
    let usual = [".php".to_owned(), ".phar".to_owned()];
    for (path, expected) in [
        ("/a.php", true),
        ("/a.phar", true),
        ("/a.txt", false),
        ("/a.PHP", false),
        ("/a.php.txt", false),
        ("", false),
    ] {
        assert_eq!(is_permitted(path.as_bytes(), &usual), expected, "{path}");
        assert!(is_permitted(path.as_bytes(), &[]), "{path}");
    }
}
