//! What nginx + php-fpm answered, once: `recorded/GROUP.txt`, and what another PHP answers differently in
//! `recorded/VERSION/GROUP.txt`. `make parity-record` writes them anew.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

/// The PHP whose answers are the ground that those of others are told apart from.
const BASE: &str = "8.2";

/// Answers by the name of the case.
pub(super) type Answers = BTreeMap<String, String>;

/// Answers are asked from nginx + php-fpm and written, before Hearth's are compared with them.
pub(super) fn is_recording() -> bool {
    std::env::var_os("HEARTH_PARITY_RECORD").is_some()
}

/// The PHP that is tested.
fn version() -> String {
    std::env::var("PHP_VERSION").unwrap_or_else(|_| BASE.to_owned())
}

fn file(version: &str, group: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/parity/recorded");
    if version == BASE {
        folder.join(format!("{group}.txt"))
    } else {
        folder.join(version).join(format!("{group}.txt"))
    }
}

pub(super) fn read(group: &str) -> Answers {
    let mut answers = parse(&file(BASE, group));
    if version() != BASE {
        answers.extend(parse(&file(&version(), group)));
    }
    answers
}

fn parse(path: &PathBuf) -> Answers {
    let text = fs::read_to_string(path).unwrap_or_default();
    let mut answers = Answers::new();
    let mut name = None;
    for line in text.lines() {
        if let Some(next) = line.strip_prefix("=== ") {
            name = Some(next.to_owned());
        } else if let Some(name) = &name {
            let answer = answers.entry(name.clone()).or_default();
            let _ = writeln!(answer, "{line}");
        }
    }
    answers
}

/// In the order of the cases, so that a change shows where it belongs.
pub(super) fn write(group: &str, answers: &[(String, String)]) {
    let version = version();
    let base = if version == BASE {
        Answers::new()
    } else {
        parse(&file(BASE, group))
    };
    let mut text = String::new();
    for (name, answer) in answers
        .iter()
        .filter(|(name, answer)| base.get(name) != Some(answer))
    {
        let _ = write!(text, "=== {name}\n{answer}");
    }
    let path = file(&version, group);
    if text.is_empty() {
        let _ = fs::remove_file(path);
        return;
    }
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn the_suite_is_as_large_as_the_documentation_says() {
    let folder = file(BASE, "");
    let files = fs::read_dir(folder.parent().unwrap()).unwrap().flatten();
    let count: usize = files.map(|entry| parse(&entry.path()).len()).sum();
    assert!(count > 650, "{count} cases");
}
