//! Settings as written: the TOML file with the environment and the flags laid over it, as one flat list of dotted keys.
//!
//! Knows where each value was written, so that every error can say so. Does not know which keys exist or what they
//! mean: that is `reader`. Called by `resolve`. Runs in: server.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::{Reading, Sources, Text};
use crate::trust::{self, Groups};

/// The table of PHP's own settings, whose names have dots too.
pub(super) const INI: &str = "pool.web.ini";
/// Likewise, of those that scripts may not change.
pub(super) const ADMIN_INI: &str = "pool.web.admin_ini";
/// The table of environment variables.
pub(super) const ENV: &str = "pool.web.env";
/// The table of limits of the process.
pub(super) const RLIMITS: &str = "pool.web.rlimits";
/// The table of error pages, by status.
pub(super) const ERROR_PAGES: &str = "pool.web.error_pages";
/// The table of folders that scripts may have files sent from.
pub(super) const INTERNAL: &str = "pool.web.internal";
/// Tables whose keys are not settings of their own.
const TABLES: [&str; 6] = [INI, ADMIN_INI, ENV, RLIMITS, ERROR_PAGES, INTERNAL];
/// The list of tables with rules for paths. The key of the first one's path is `pool.web.rules.0.path`.
pub(super) const RULES: &str = "pool.web.rules";
/// The pool that every server has.
pub(super) const FIRST_POOL: &str = "web";
/// Tables of the file; what is said of `web` holds for every pool. Any other table is reported as a whole, not key by key.
pub(super) const SECTIONS: [&str; 11] = [
    "compression",
    "fastcgi",
    "limits",
    "log",
    "pool",
    "pool.web",
    "rate",
    "tls",
    "tls.acme",
    "trusted_proxies",
    "reload",
];

/// Where a value was written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// Line of the configuration file, counted from 1; 0 is the file as a whole.
    File(String, usize),
    /// The variable of this name.
    Environment(String),
    /// The flag as typed.
    Flag(String),
    /// The project folder.
    Dir(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path, 0) => f.write_str(path),
            Self::File(path, line) => write!(f, "{path}:{line}"),
            Self::Environment(text) | Self::Flag(text) | Self::Dir(text) => f.write_str(text),
        }
    }
}

/// One thing wrong with the configuration: where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Where the value was written.
    pub origin: Origin,
    /// What was tried, on what, and what to do.
    pub text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.origin, self.text)
    }
}

/// Everything wrong with the configuration, the file's lines first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Errors(pub Vec<Problem>);

impl fmt::Display for Errors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [one] => one.fmt(f),
            many => {
                write!(f, "the configuration has {} errors", many.len())?;
                many.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
            }
        }
    }
}

impl std::error::Error for Errors {}

/// A value as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// A string.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// `true` or `false`.
    Boolean(bool),
    /// A list of strings.
    List(Vec<String>),
    /// What no setting takes, with its name for messages.
    Other(&'static str),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "\"{text}\""),
            Self::Integer(number) => number.fmt(f),
            Self::Boolean(value) => value.fmt(f),
            Self::List(texts) => write!(f, "{texts:?}"),
            Self::Other(name) => f.write_str(name),
        }
    }
}

/// A value and where it was written.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    /// The value.
    pub(super) value: Value,
    /// The characters of a flag's value: `--set pool.web.script=7` may mean a file named `7`.
    pub(super) typed: Option<String>,
    /// Where it was written.
    pub(super) origin: Origin,
}

/// All settings as written, by dotted key; a later layer has replaced an earlier one.
#[derive(Debug, Default)]
pub(super) struct File {
    /// The settings.
    pub(super) settings: BTreeMap<String, Setting>,
    /// The file that was read, by the name that it has in messages.
    pub(super) text: Option<Text>,
    /// What could not be read.
    pub(super) problems: Vec<Problem>,
}

impl File {
    /// As [`Self::read`], for a server that is to do what the file says: one that may act as other users takes no settings that one
    /// of them can change.
    pub(super) fn read_trusted(sources: &Sources) -> Self {
        if let Reading::Earlier(_) = sources.reading {
            return Self::read(sources);
        }
        let checked = Self::path_of(sources).map(|path| (trust::file(&path, Groups::Root), path));
        let mut file = Self::read(sources);
        if let Some((Err(error), path)) = checked
            && trust::is_refusal(&error)
        {
            let text = format!(
                "reading the configuration file: {error}; have root own the file and its folders, run hearth as the user that does, or put \
                 the settings elsewhere, such as /etc/hearth, and name them with --config"
            );
            let origin = Origin::File(path.display().to_string(), 0);
            // What else there may be to say of it would be said of an attacker's text.
            file.problems = vec![Problem { origin, text }];
            file.settings.clear();
        }
        file
    }

    fn path_of(sources: &Sources) -> Option<PathBuf> {
        if let Some(path) = &sources.file {
            return Some(path.clone());
        }
        let path = sources.dir.join("hearth.toml");
        path.exists()
            .then(|| path.strip_prefix(".").unwrap_or(&path).to_owned())
    }

    /// Reads the file that `sources` names, else `hearth.toml` in `DIR` if there is one, then the environment, then the flags.
    pub(super) fn read(sources: &Sources) -> Self {
        let mut file = Self::default();
        match &sources.reading {
            Reading::Earlier(text) => file.add_read(text.as_ref()),
            Reading::Disk => Self::path_of(sources).iter().for_each(|path| file.add_file(path)),
        }
        file.add_environment(&sources.environment);
        for text in &sources.set {
            file.add_set(text);
        }
        if let Some(address) = &sources.listen {
            let origin = Origin::Flag(format!("--listen {address}"));
            let value = Value::Text(address.clone());
            file.settings.insert(
                "listen".to_owned(),
                Setting {
                    value,
                    typed: Some(address.clone()),
                    origin,
                },
            );
        }
        file.add_port(&sources.environment);
        file
    }

    /// Where each setting was written.
    pub(super) fn origins(&self) -> BTreeMap<String, Origin> {
        let settings = self.settings.iter();
        settings
            .map(|(key, setting)| (key.clone(), setting.origin.clone()))
            .collect()
    }

    fn add_file(&mut self, path: &Path) {
        let name = path.display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => self.add_read(Some(&Text {
                path: name,
                text: text.into(),
            })),
            Err(error) => {
                let text = format!(
                    "reading the configuration file: {error}; name a readable TOML file with --config"
                );
                let origin = Origin::File(name, 0);
                self.problems.push(Problem { origin, text });
            }
        }
    }

    fn add_read(&mut self, file: Option<&Text>) {
        self.text = file.cloned();
        if let Some(file) = file {
            self.add_text(&file.path, &file.text);
        }
    }

    fn add_text(&mut self, name: &str, text: &str) {
        let (table, errors) = DeTable::parse_recoverable(text);
        let mut broken = Vec::new();
        for error in errors {
            let line = error.span().map_or(0, |span| line_of(text, span.start));
            broken.push(line..line + 1 + lines_without_table(text, line));
            let text = format!("reading TOML: {}", error.message().replace('\n', ", "));
            self.problems.push(Problem {
                origin: Origin::File(name.to_owned(), line),
                text,
            });
        }
        // What stands there was guessed by the parser; a second error about it would mislead.
        self.flatten("", table.into_inner(), &|span: usize| {
            let line = line_of(text, span);
            let is_broken = broken.iter().any(|lines| lines.contains(&line));
            (!is_broken).then(|| Origin::File(name.to_owned(), line))
        });
    }

    fn add_set(&mut self, text: &str) {
        let origin = Origin::Flag(format!("--set {text}"));
        let Some((key, typed)) = text.split_once('=').filter(|(key, _)| !key.trim().is_empty()) else {
            let text = "expected KEY=VALUE, for instance pool.web.workers=4".to_owned();
            self.problems.push(Problem { origin, text });
            return;
        };
        self.add_typed(key.trim(), typed, &origin);
    }

    /// A value that was not written in a file: read as TOML, else taken as a string.
    pub(super) fn add_typed(&mut self, key: &str, typed: &str, origin: &Origin) {
        let typed = typed.trim();
        let value = DeValue::parse(typed).map_or_else(|_| DeValue::String(typed.into()), Spanned::into_inner);
        match value {
            DeValue::Table(table) => {
                self.flatten(key, table, &|_| Some(origin.clone()));
            }
            DeValue::Array(items) if is_rules(key, &items) => {
                self.flatten_rules(key, items, &|_| Some(origin.clone()));
            }
            value => {
                let setting = Setting {
                    value: plain(value),
                    typed: Some(typed.to_owned()),
                    origin: origin.clone(),
                };
                self.settings.insert(key.to_owned(), setting);
            }
        }
    }

    fn flatten_rules(&mut self, key: &str, items: DeArray<'_>, origin: &impl Fn(usize) -> Option<Origin>) {
        for (number, item) in items.into_iter().enumerate() {
            if let DeValue::Table(table) = item.into_inner() {
                self.flatten(&format!("{key}.{number}"), table, origin);
            }
        }
    }

    fn flatten(&mut self, section: &str, table: DeTable<'_>, origin: &impl Fn(usize) -> Option<Origin>) {
        for (name, value) in table {
            let Some(origin_of_key) = origin(name.span().start) else {
                continue;
            };
            let key = if section.is_empty() {
                name.into_inner().into_owned()
            } else {
                format!("{section}.{name}", name = name.get_ref())
            };
            match value.into_inner() {
                DeValue::Table(inner) if is_section(&key) => {
                    self.flatten(&key, inner, origin);
                }
                DeValue::Array(items) if is_rules(&key, &items) => self.flatten_rules(&key, items, origin),
                value => {
                    self.settings.insert(
                        key,
                        Setting {
                            value: plain(value),
                            typed: None,
                            origin: origin_of_key,
                        },
                    );
                }
            }
        }
    }
}

/// A list of tables is a table whose keys are numbers.
fn is_rules(key: &str, items: &DeArray<'_>) -> bool {
    as_first_pool(key) == RULES
        && items
            .iter()
            .all(|item| matches!(item.get_ref(), DeValue::Table(_)))
}

fn is_section(key: &str) -> bool {
    let key = as_first_pool(key);
    SECTIONS.contains(&&*key) || is_in_table(&key) || is_headers(&key)
}

/// The key of `web` that says the same of it as `key` of its pool.
pub(super) fn as_first_pool(key: &str) -> Cow<'_, str> {
    let Some(rest) = key.strip_prefix("pool.") else {
        return Cow::Borrowed(key);
    };
    let (_, below) = rest.split_at(rest.find('.').unwrap_or(rest.len()));
    Cow::Owned(format!("pool.{FIRST_POOL}{below}"))
}

/// `pool.web.rules.0.headers`, whose keys are names of headers.
fn is_headers(key: &str) -> bool {
    key.strip_prefix(RULES)
        .is_some_and(|rest| rest.ends_with(".headers"))
}

/// Whether `key` is one of the [`TABLES`], or below one.
fn is_in_table(key: &str) -> bool {
    let below = |table: &str| {
        key.strip_prefix(table)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    TABLES.iter().any(|table| below(table))
}

fn plain(value: DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => Value::Text(text.into_owned()),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Value::Integer(number),
            Err(_) => Value::Other("a number beyond 64 bits"),
        },
        DeValue::Boolean(value) => Value::Boolean(value),
        DeValue::Float(_) => Value::Other("a number with a fraction"),
        DeValue::Datetime(_) => Value::Other("a date"),
        DeValue::Array(items) => {
            let text = |item: Spanned<DeValue<'_>>| match item.into_inner() {
                DeValue::String(text) => Some(text.into_owned()),
                _ => None,
            };
            let texts: Option<Vec<String>> = items.into_iter().map(text).collect();
            texts.map_or(Value::Other("a list"), Value::List)
        }
        DeValue::Table(_) => Value::Other("a table"),
    }
}

/// How many lines behind `line` have lost the table that they belong to, as the error is in its name.
fn lines_without_table(text: &str, line: usize) -> usize {
    let is_header = |line: &&str| line.trim_start().starts_with('[');
    let mut lines = text.lines().skip(line.saturating_sub(1));
    match lines.next().filter(is_header) {
        // The parser takes the next tables for lists, too.
        Some(header) if header.trim_start().starts_with("[[") => lines.count(),
        Some(_) => lines.take_while(|line| !is_header(line)).count(),
        None => 0,
    }
}

/// The line, counted from 1, of the byte at `offset`.
fn line_of(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|byte| *byte == b'\n').count()
}
