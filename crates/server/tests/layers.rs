//! Holds the layering: reads the sources and fails on a name that a file may not know. ARCHITECTURE.md shows the table. And holds
//! docs/logs.md to the messages that there are.
//!
//! Line comments are not looked at: prose may name anything.
#![expect(clippy::unwrap_used, reason = "a test that cannot read the sources fails")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Instead of names: all modules further up.
const EVERY: &[&str] = &["*"];

/// Modules of the server, and the modules that each may name besides itself.
const LAYERS: [(&str, &[&str]); 12] = [
    ("rights", &[]),
    ("trust", &["rights"]),
    ("config", &["rights", "trust"]),
    ("report", &[]),
    ("sockets", &["trust"]),
    ("logs", &["rights", "trust", "config"]),
    ("dispatch", &["rights", "config"]),
    ("edge", &["rights", "trust", "config", "sockets", "dispatch"]),
    ("supervise", &["config", "report", "dispatch"]),
    ("admin", &["config", "report", "sockets"]),
    ("app", EVERY),
    ("cli", EVERY),
];

/// Lines that a source file may have, without its tests.
const MAX_LINES: usize = 600;

#[test]
fn a_module_of_the_server_names_only_modules_below_it() {
    let mut wrong = Vec::new();
    for (path, code) in sources("crates/server/src", &["rs"]) {
        let name = path
            .trim_start_matches("crates/server/src/")
            .trim_end_matches(".rs");
        let module = name.split_once('/').map_or(name, |(folder, _)| folder);
        if module == "lib" || module == "main" {
            continue;
        }
        let Some(place) = LAYERS.iter().position(|(name, _)| *name == module) else {
            wrong.push(format!("{path}: module {module} is not in the table of layers"));
            continue;
        };
        let may_name = |other: &str| {
            let (above, below) = (&LAYERS[..place], LAYERS[place].1);
            other == module
                || below.contains(&other)
                || below == EVERY && above.iter().any(|(name, _)| *name == other)
        };
        wrong.extend(
            modules_named(&code)
                .iter()
                .filter(|name| !may_name(name))
                .map(|name| format!("{path}: names crate::{name}")),
        );
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn the_root_of_the_server_only_lists_its_modules() {
    assert_eq!(
        holding("crates/server/src/lib.rs", &["rs"], |code| words(code)
            .any(|word| word == "use")),
        NONE
    );
}

#[test]
fn the_server_forbids_unsafe_code() {
    for root in ["crates/server/src/lib.rs", "crates/server/src/main.rs"] {
        assert!(
            !holding(root, &["rs"], |code| code.contains("#![forbid(unsafe_code)]")).is_empty(),
            "{root} does not forbid unsafe code"
        );
    }
}

#[test]
fn ipc_knows_neither_tokio_nor_php() {
    let foreign = |word: &str| ["tokio", "tokio_util", "hyper", "php", "libphp", "zend"].contains(&word);
    assert_eq!(
        holding("crates/ipc", &["rs", "toml"], |code| words(code).any(foreign)),
        NONE
    );
}

#[test]
fn only_the_borders_of_the_worker_speak_c() {
    let mut found = holding("crates", &["rs"], |code| code.contains("extern \"C"));
    let borders = ["php.rs", "host.rs", "contents.rs", "rewind/clib.rs"]
        .map(|path| format!("crates/worker/src/{path}"));
    found.retain(|path| !borders.contains(path));
    found.retain(|path| path != "crates/server/tests/layers.rs");
    assert_eq!(found, NONE);
}

#[test]
fn only_compat_h_asks_for_the_version_of_php() {
    let mut found = holding("crates/worker", &["c", "h", "rs"], |code| {
        words(code).any(|word| word == "PHP_VERSION_ID")
    });
    // gen_stub.php writes the arginfo headers, with tests of its own.
    found.retain(|path| path != "crates/worker/sapi/compat.h" && !path.ends_with("_arginfo.h"));
    assert_eq!(found, NONE);
}

#[test]
fn no_source_file_is_too_long() {
    let mut long = Vec::new();
    for path in files("crates", &["rs", "c"]) {
        let text = fs::read_to_string(workspace().join(&path)).unwrap();
        let lines = text
            .split("#[cfg(test)]\nmod tests {")
            .next()
            .unwrap_or_default()
            .lines()
            .count();
        if lines > MAX_LINES && !path.contains("/tests/") && !path.ends_with("/tests.rs") {
            long.push(format!("{path}: {lines} lines"));
        }
    }
    assert_eq!(long, NONE);
}

#[test]
fn documented_messages_are_logged() {
    let page = fs::read_to_string(workspace().join("docs/logs.md")).unwrap();
    let (_, tables) = page.split_once("## Server").unwrap();
    let (tables, _) = tables.split_once("## Access log").unwrap();
    let sources = sources("crates/server/src", &["rs"]);
    let cells = tables
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let messages: Vec<&str> = cells
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .collect();
    assert!(messages.len() > 30, "{messages:?}");
    let is_logged = |message: &&str| {
        let literal = format!("\"{message}\"");
        sources.iter().any(|(_, code)| code.contains(&literal))
    };
    let unknown: Vec<&str> = messages
        .into_iter()
        .filter(|message| !is_logged(message))
        .collect();
    assert_eq!(unknown, NONE);
}

const NONE: [&str; 0] = [];

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Files below `place` (or itself) with one of the extensions, relative to the workspace, sorted.
fn files(place: &str, extensions: &[&str]) -> Vec<String> {
    let path = workspace().join(place);
    if path.is_file() {
        let matches = path
            .extension()
            .is_some_and(|found| extensions.iter().any(|extension| found == *extension));
        return if matches {
            vec![place.to_owned()]
        } else {
            Vec::new()
        };
    }
    let names = fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let names: BTreeSet<String> = names
        .filter(|name| name != "target" && !name.starts_with('.'))
        .collect();
    names
        .iter()
        .flat_map(|name| files(&format!("{place}/{name}"), extensions))
        .collect()
}

/// The files with their text, line comments left out.
fn sources(place: &str, extensions: &[&str]) -> Vec<(String, String)> {
    let found = files(place, extensions);
    assert!(!found.is_empty(), "nothing to look at in {place}");
    let code = |path: &str| {
        let text = fs::read_to_string(workspace().join(path)).unwrap();
        let lines: Vec<&str> = text
            .lines()
            .map(|line| line.split("//").next().unwrap_or_default())
            .collect();
        lines.join("\n")
    };
    found
        .into_iter()
        .map(|path| (path.clone(), code(&path)))
        .collect()
}

/// The files whose code has a property.
fn holding(place: &str, extensions: &[&str], property: impl Fn(&str) -> bool) -> Vec<String> {
    sources(place, extensions)
        .into_iter()
        .filter(|(_, code)| property(code))
        .map(|(path, _)| path)
        .collect()
}

fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
}

/// `x` of every `crate::x`. A group `crate::{x, y}` counts as the module `{`, which no table allows: it is written out.
fn modules_named(code: &str) -> BTreeSet<&str> {
    code.split("crate::")
        .skip(1)
        .filter_map(|rest| {
            if rest.starts_with('{') {
                Some("{")
            } else {
                words(rest).next()
            }
        })
        .collect()
}
