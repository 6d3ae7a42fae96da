//! That docs/config.toml tells all settings and their defaults.

use super::*;

const DOCUMENTED: &str = include_str!("../../../../../docs/config.toml");

#[test]
fn the_documented_settings_are_the_defaults() {
    let documented = Project::new(&[("hearth.toml", DOCUMENTED)]);
    let mut with_file = documented.load(&[]).config;
    std::fs::remove_file(documented.0.join("hearth.toml")).unwrap();
    let without = documented.load(&[]).config;
    with_file.dir.clone_from(&without.dir);
    with_file.file = None;
    assert_eq!(format!("{with_file:#?}"), format!("{without:#?}"));
}

/// A setting whose default depends on the machine or the application is written as `#key = value`; prose has a space
/// behind its `#`.
#[test]
fn every_setting_is_documented_and_every_documented_setting_exists() {
    let mut table = String::new();
    let mut documented = BTreeSet::new();
    for line in DOCUMENTED.lines() {
        if let Some(name) = line.strip_prefix('[') {
            table = format!("{}.", name.trim_end_matches(']'));
        } else if let Some((key, _)) = line
            .trim_start_matches('#')
            .split_once(" = ")
            .filter(|_| !line.starts_with("# "))
        {
            documented.insert(format!("{table}{key}"));
        }
    }
    let (_, keys) = resolve::load_with_keys(&Project::new(&[]).sources(&[])).unwrap();
    assert_eq!(documented, keys.into_iter().map(str::to_owned).collect());
}

#[test]
fn the_examples_of_settings_without_a_fixed_default_are_valid() {
    let examples: Vec<String> = DOCUMENTED
        .lines()
        .map(|line| {
            if line.starts_with("# ") {
                line
            } else {
                line.trim_start_matches('#')
            }
            .to_owned()
        })
        .collect();
    let files = [
        ("hearth.toml", examples.join("\n")),
        ("public/index.php", String::new()),
        ("worker.php", String::new()),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let project = Project::new(
        &[
            &files[..],
            &[
                ("etc/php.ini", ""),
                ("bin/hearth-worker", ""),
                ("var/spool/.keep", ""),
            ],
        ]
        .concat(),
    );
    let (mode, root, script, _) = project.entry(&[]);
    assert_eq!(
        (mode, root.as_str(), script.as_deref()),
        (Mode::Resident, "public", Some("worker.php"))
    );
}
