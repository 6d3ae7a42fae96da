//! Patterns for paths in rules: `/old/*`, `*.css`, `/blog/{year}/{slug}`.
//!
//! `*` stands for any characters, `/` too; `{name}` for at least one, and no `/`. Matching takes time in proportion to the path, whatever a
//! client makes up. Called by `rules`, and by `edge::site::rules`. Runs in: server.

use std::fmt;

use regex::bytes::{Captures, Regex, RegexBuilder};

/// What stands for something else in what a rule says, besides names of its own.
pub(crate) const RESERVED: [&str; 3] = ["rest", "path", "host"];
/// Longest name.
const NAME: usize = 32;

/// A pattern.
#[derive(Clone)]
pub struct Pattern {
    text: String,
    /// Where it has names.
    expression: Option<Regex>,
}

/// What a path has where a pattern that fits has `*` and names.
#[derive(Debug)]
pub struct Fit<'a> {
    /// Where it has its last `*`.
    pub rest: &'a [u8],
    names: Option<Captures<'a>>,
}

impl<'a> Fit<'a> {
    fn of(rest: &'a [u8]) -> Self {
        Self { rest, names: None }
    }

    /// Where it has this name.
    pub fn named(&self, name: &str) -> Option<&'a [u8]> {
        Some(self.names.as_ref()?.name(name)?.as_bytes())
    }
}

impl Pattern {
    /// `None` if `text` is no pattern.
    pub fn new(text: &str) -> Option<Self> {
        if !text.starts_with(['/', '*', '{']) {
            return None;
        }
        let names = names(text)?;
        let expression = if names.is_empty() {
            None
        } else {
            let built = RegexBuilder::new(&expression(text)?)
                .unicode(false)
                .dot_matches_new_line(true)
                .build();
            Some(built.ok()?)
        };
        Some(Self {
            text: text.to_owned(),
            expression,
        })
    }

    /// Whether it has this name.
    pub(super) fn has(&self, name: &str) -> bool {
        names(&self.text).is_some_and(|names| names.contains(&name))
    }

    /// What `path` has in its places, if it fits. What ends in `/*` fits the folder itself as well.
    pub fn fit<'a>(&self, path: &'a [u8]) -> Option<Fit<'a>> {
        let Some(expression) = &self.expression else {
            return fit(&self.text, path).map(Fit::of);
        };
        let names = expression.captures(path)?;
        let rest = names.name("rest").map_or(&b""[..], |rest| rest.as_bytes());
        Some(Fit {
            rest,
            names: Some(names),
        })
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

/// The names in a pattern, or in what a rule says. `None`: a brace that belongs to no name, or, a name twice.
fn names(text: &str) -> Option<Vec<&str>> {
    let mut names = Vec::new();
    let mut parts = text.split('{');
    let mut outside = !parts.next()?.contains('}');
    for part in parts {
        let (name, behind) = part.split_once('}')?;
        outside &= !behind.contains('}');
        if !is_name(name) || names.contains(&name) {
            return None;
        }
        names.push(name);
    }
    (outside && !names.iter().any(|name| RESERVED.contains(name))).then_some(names)
}

/// Small letters, digits and `_`, of which a digit is not the first.
pub(super) fn is_name(name: &str) -> bool {
    let is_part = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    name.len() <= NAME
        && name.bytes().all(is_part)
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty()
}

/// The regular expression for a pattern with names. The last `*` is named `rest`.
fn expression(text: &str) -> Option<String> {
    let last = text.rfind('*');
    let mut expression = "^".to_owned();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let at = text.len() - rest.len();
        let mut len = first.len_utf8();
        if rest == "/*" {
            expression.push_str("(?:/(?P<rest>.*))?");
            len = 2;
        } else if first == '*' && Some(at) == last {
            expression.push_str("(?P<rest>.*?)");
        } else if first == '*' {
            expression.push_str(".*?");
        } else if first == '{' {
            let name = rest.get(1..)?.split_once('}')?.0;
            expression.extend(["(?P<", name, ">[^/]+?)"]);
            len = name.len() + 2;
        } else {
            expression.push_str(&regex::escape(rest.get(..len)?));
        }
        rest = rest.get(len..)?;
    }
    Some(expression + "$")
}

/// What the last `*` of a pattern without names stands for.
fn fit<'a>(pattern: &str, path: &'a [u8]) -> Option<&'a [u8]> {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = path.strip_prefix(first.as_bytes()) else {
        let folder = pattern
            .strip_suffix("/*")
            .is_some_and(|folder| folder.as_bytes() == path);
        return folder.then_some(b"");
    };
    let Some(last) = parts.next_back() else {
        return rest.is_empty().then_some(b"");
    };
    for part in parts {
        let part = part.as_bytes();
        let at = match part {
            [] => 0,
            part => rest.windows(part.len()).position(|window| window == part)?,
        };
        rest = rest.get(at + part.len()..)?;
    }
    rest.strip_suffix(last.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8]) -> &str {
        std::str::from_utf8(bytes).unwrap()
    }

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
            let known = Pattern::new(pattern).unwrap();
            let found = known.fit(path.as_bytes()).map(|fit| text(fit.rest));
            assert_eq!(found, *rest, "{pattern} {path}");
            // The same pattern as one with names is read.
            let expression = RegexBuilder::new(&expression(pattern).unwrap())
                .unicode(false)
                .build()
                .unwrap();
            let captures = expression.captures(path.as_bytes());
            let found = captures.map(|all| all.name("rest").map_or("", |rest| text(rest.as_bytes())));
            assert_eq!(found, *rest, "{pattern} {path}");
        }
    }

    /// Pattern, path, and what it has for `a`, `b` and the last `*`.
    type Row<'a> = (&'a str, &'a str, Option<(&'a str, &'a str, &'a str)>);

    #[test]
    fn a_name_stands_for_part_of_a_path_without_a_slash() {
        let table: &[Row<'_>] = &[
            ("/{a}/{b}", "/x/y z", Some(("x", "y z", ""))),
            ("/{a}/{b}", "/x/", None),
            ("/{a}/{b}", "/x/y/z", None),
            ("/{a}-{b}.html", "/x-y-z.html", Some(("x", "y-z", ""))),
            ("/{a}.{b}", "/x.html.html", Some(("x", "html.html", ""))),
            ("*/{a}.{b}", "/x/y/z.css", Some(("z", "css", "/x/y"))),
            ("/{a}/*/{b}", "/x/q/r/y", Some(("x", "y", "q/r"))),
            ("/{a}/{b}/*", "/x/y", Some(("x", "y", ""))),
            ("/{a}/{b}/*", "/x/y/z/q", Some(("x", "y", "z/q"))),
            ("/.({a}|{b})+", "/.(x|y)+", Some(("x", "y", ""))),
        ];
        for (pattern, path, expected) in table {
            let pattern = Pattern::new(pattern).unwrap();
            let found = pattern.fit(path.as_bytes()).map(|fit| {
                let named = |name| text(fit.named(name).unwrap());
                (named("a"), named("b"), text(fit.rest))
            });
            assert_eq!(found, *expected, "{pattern:?} {path}");
        }
        let bytes = Pattern::new("/{a}").unwrap();
        assert_eq!(bytes.fit(b"/\xff\n").unwrap().named("a"), Some(&b"\xff\n"[..]));
    }

    #[test]
    fn what_is_no_pattern_is_known() {
        for text in [
            "", "a", "/{", "/}", "/{}", "/{A}", "/{1a}", "/{a}/{a}", "/{rest}", "/{a}}", "/{a{b}}",
        ] {
            assert!(Pattern::new(text).is_none(), "{text}");
        }
        for text in ["/", "*", "{a}", "/{a_1}"] {
            assert!(Pattern::new(text).is_some(), "{text}");
        }
    }

    #[test]
    fn no_path_takes_long() {
        let pattern = Pattern::new("/{a}-{b}-{c}-{d}-{e}-{f}x").unwrap();
        let path = [b"/".to_vec(), vec![b'-'; 60_000]].concat();
        assert!(pattern.fit(&path).is_none());
    }
}
