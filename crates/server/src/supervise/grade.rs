//! The level of a line that the application printed, by what it says: PHP's messages, Monolog's, and the like. And of a whole
//! page, what it is about.
//!
//! Called by `output`. Runs in: server.

use std::borrow::Cow;

use tracing::Level;

/// Bytes of a line in which its level stands, if it names one.
const HEAD: usize = 256;

/// The level that `line` names; `INFO` if it names none.
pub(super) fn level(line: &str) -> Level {
    let head = line.lines().next().unwrap_or_default();
    let head = head.get(..head.floor_char_boundary(HEAD)).unwrap_or(head);
    named(without_time(head)).unwrap_or(Level::INFO)
}

/// `text`; of a page that nobody sees, for instance one that shows an exception, its title.
pub(super) fn message(text: &str) -> Cow<'_, str> {
    let page = text.trim_start();
    let begins = |start: &str| {
        page.get(..start.len())
            .is_some_and(|found| found.eq_ignore_ascii_case(start))
    };
    if !["<!doctype html", "<html", "<!--"].into_iter().any(begins) {
        return Cow::Borrowed(text);
    }
    let title = page
        .split_once("<title>")
        .and_then(|(_, rest)| rest.split_once("</title>"));
    let Some((title, _)) = title else {
        return Cow::Borrowed(text);
    };
    let mut title = title.split_whitespace().collect::<Vec<_>>().join(" ");
    for (entity, character) in [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#039;", "'"),
        ("&amp;", "&"),
    ] {
        title = title.replace(entity, character);
    }
    Cow::Owned(format!("{title} (the title of a page of {} bytes)", text.len()))
}

fn named(line: &str) -> Option<Level> {
    if line.starts_with('{') {
        return of_json(line);
    }
    // Symfony's logger: "[critical] Uncaught …".
    if let Some((word, _)) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return of_word(word);
    }
    let (label, _) = line.split_once(':')?;
    // Monolog: "app.CRITICAL: …".
    if let Some((_, word)) = label.rsplit_once('.') {
        return of_word(word).filter(|_| !label.contains(' '));
    }
    // PHP: "PHP Fatal error:  …".
    of_word(label.strip_prefix("PHP ").unwrap_or(label))
}

/// One object a line, with the level under one of the usual names.
fn of_json(line: &str) -> Option<Level> {
    let value = |key: &str| {
        let (_, rest) = line.split_once(key)?;
        let rest = rest.trim_start().strip_prefix(':')?.trim_start();
        rest.strip_prefix('"')?.split('"').next().and_then(of_word)
    };
    ["\"level_name\"", "\"level\"", "\"severity\""]
        .into_iter()
        .find_map(value)
}

/// RFC 5424's severities as PSR-3 names them, PHP's kinds of errors, and what other loggers call them.
fn of_word(word: &str) -> Option<Level> {
    const WORDS: [(Level, &[&str]); 4] = [
        (
            Level::ERROR,
            &[
                "emergency",
                "alert",
                "critical",
                "error",
                "fatal",
                "panic",
                "fatal error",
                "parse error",
                "recoverable fatal error",
            ],
        ),
        (Level::WARN, &["warning", "warn"]),
        (Level::INFO, &["notice", "info", "deprecated", "strict standards"]),
        (Level::DEBUG, &["debug", "trace"]),
    ];
    let is = |name: &&str| name.eq_ignore_ascii_case(word);
    WORDS
        .iter()
        .find(|(_, names)| names.iter().any(is))
        .map(|(level, _)| *level)
}

/// Without the time that loggers put first: "[2026-11-22T15:00:00+00:00] ", "2026-11-22 15:00:00 ".
pub(super) fn without_time(mut line: &str) -> &str {
    loop {
        line = line.trim_start();
        let digit = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
        let rest = match line.strip_prefix('[') {
            Some(inside) if digit(inside) => inside.split_once(']').map(|(_, rest)| rest),
            None if digit(line) => line.split_once(' ').map(|(_, rest)| rest),
            _ => None,
        };
        match rest {
            Some(rest) => line = rest,
            None => return line,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_page_the_title_is_kept() {
        let page = "<!-- x -->\n<!DOCTYPE html><title>  No &quot;a&quot;\n(500)</title><p>";
        let said = format!("No \"a\" (500) (the title of a page of {} bytes)", page.len());
        assert_eq!(message(page), said);
        for text in ["<html> without", "a <title>b</title>", "", "ö"] {
            assert_eq!(message(text), text);
        }
    }

    #[test]
    fn a_line_has_the_level_that_it_names() {
        for (line, expected) in [
            ("", Level::INFO),
            ("a word", Level::INFO),
            (
                "PHP Fatal error:  Uncaught Exception: no in a.php:1",
                Level::ERROR,
            ),
            ("PHP Parse error:  syntax error", Level::ERROR),
            ("PHP Recoverable fatal error:  x", Level::ERROR),
            ("PHP Warning:  Undefined variable $x", Level::WARN),
            ("PHP Notice:  x", Level::INFO),
            ("PHP Deprecated:  x", Level::INFO),
            ("[22-Nov-2026 15:00:00 UTC] PHP Warning:  x", Level::WARN),
            ("[critical] Uncaught PHP Exception", Level::ERROR),
            ("2026-11-22T15:00:00+00:00 [warning] x", Level::WARN),
            ("[debug] Notified event \"kernel.request\"", Level::DEBUG),
            ("[2026-11-22T15:00:00.123456+00:00] app.CRITICAL: x", Level::ERROR),
            ("[2026-11-22 15:00:00] production.ERROR: x", Level::ERROR),
            ("[2026-11-22 15:00:00] local.DEBUG: x", Level::DEBUG),
            (
                r#"{"message":"x","context":{},"level":400,"level_name":"ERROR"}"#,
                Level::ERROR,
            ),
            (r#"{"level": "warn", "msg": "x"}"#, Level::WARN),
            (r#"{"level":200}"#, Level::INFO),
            ("ERROR: no such table", Level::ERROR),
            ("the end.error: none", Level::INFO),
            ("[app] started", Level::INFO),
            ("17", Level::INFO),
            ("[1", Level::INFO),
            ("a note\n[critical] further down", Level::INFO),
        ] {
            assert_eq!(level(line), expected, "{line}");
        }
        assert_eq!(level(&"ö".repeat(HEAD)), Level::INFO);
    }
}
