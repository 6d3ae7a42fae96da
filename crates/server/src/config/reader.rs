//! Typed reading of settings: each getter takes a key off the list, checks type and range, and notes what is wrong.
//!
//! The keys that were asked for are the keys that exist: whatever is left over at the end is unknown, and the nearest
//! existing key is named. So there is no second list of keys to keep. Called by `resolve`. Runs in: server.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::Text;
use super::environment;
use super::file::{
    Errors, FIRST_POOL, File, Origin, Problem, RULES, SECTIONS, Setting, Value, as_first_pool,
};
use super::limits::ByteSize;
use super::value::{format_duration, parse_duration};

/// Keys that every pool has except `web`.
const OF_OTHER_POOLS: [&str; 4] = [
    "pool.web.dir",
    "pool.web.root",
    "pool.web.hosts",
    "pool.web.paths",
];

/// Hands out settings and collects problems.
///
/// Every pool has the same keys: the code names those of `web`, and they stand for those of the pool at hand, see [`Reader::at`].
pub(super) struct Reader {
    file: File,
    known: BTreeSet<&'static str>,
    pool: String,
}

/// What is known when all has been read.
pub(super) struct Finished {
    /// The keys that exist.
    pub(super) keys: BTreeSet<&'static str>,
    /// Variables of the environment that only look like settings.
    pub(super) strangers: BTreeSet<String>,
}

impl Reader {
    /// Reads from `file`, whose own problems are kept.
    pub(super) fn new(file: File) -> Self {
        Self {
            file,
            known: BTreeSet::new(),
            pool: FIRST_POOL.to_owned(),
        }
    }

    /// Names of the pools that have a setting, but for `web`, and where the first one is.
    pub(super) fn pools(&self) -> BTreeMap<String, Origin> {
        let mut pools = BTreeMap::new();
        for (key, setting) in &self.file.settings {
            let name = key.strip_prefix("pool.").and_then(|rest| rest.split_once('.'));
            if let Some((name, _)) = name.filter(|(name, _)| *name != FIRST_POOL) {
                let first = pools
                    .entry(name.to_owned())
                    .or_insert_with(|| setting.origin.clone());
                if setting.origin < *first {
                    first.clone_from(&setting.origin);
                }
            }
        }
        pools
    }

    /// From now on keys below `pool.web` are those of the pool `name`.
    pub(super) fn at(&mut self, name: &str) {
        name.clone_into(&mut self.pool);
    }

    /// Whether the pool at hand is `web`.
    pub(super) fn is_at_first(&self) -> bool {
        self.pool == FIRST_POOL
    }

    /// The key as it is written for the pool at hand.
    pub(super) fn key(&self, key: &str) -> String {
        match key.strip_prefix("pool.web.") {
            Some(rest) => format!("pool.{}.{rest}", self.pool),
            None => key.to_owned(),
        }
    }

    /// The file that was read, as it is named in messages.
    pub(super) fn path(&self) -> Option<&str> {
        self.file.text.as_ref().map(|file| file.path.as_str())
    }

    /// The file that was read.
    pub(super) fn text_of_file(&self) -> Option<&Text> {
        self.file.text.as_ref()
    }

    /// A value that somebody else will read.
    pub(super) fn peek(&self, key: &str) -> Option<&Value> {
        self.file
            .settings
            .get(&self.key(key))
            .map(|setting| &setting.value)
    }

    /// A text and where it was written.
    pub(super) fn text(&mut self, key: &'static str) -> Option<(String, Origin)> {
        let setting = self.take(key)?;
        match (setting.value, setting.typed) {
            (Value::Text(text), _) | (_, Some(text)) => Some((text, setting.origin)),
            (value, None) => {
                self.wrong(setting.origin, key, &value, "expected a string");
                None
            }
        }
    }

    /// Every setting below `table`, whatever its name: the rest of its key, and its value as text.
    pub(super) fn table(&mut self, table: &'static str) -> Vec<(String, String)> {
        let entries = self.entries(table).into_iter();
        entries.map(|(name, text, _)| (name, text)).collect()
    }

    /// As [`Self::table`], with where each was written.
    pub(super) fn entries(&mut self, table: &'static str) -> Vec<(String, String, Origin)> {
        let table = self.key(table);
        let below = |key: &str| Some(key.strip_prefix(&table)?.strip_prefix('.')?.to_owned());
        let keys: Vec<(String, String)> = self
            .file
            .settings
            .keys()
            .filter_map(|key| Some((key.clone(), below(key)?)))
            .collect();
        let mut all = Vec::new();
        for (key, name) in keys {
            let Some(setting) = self.file.settings.remove(&key) else {
                continue;
            };
            match (setting.value, setting.typed) {
                (Value::Text(text), _) | (_, Some(text)) => all.push((name, text, setting.origin)),
                (Value::Integer(number), None) => all.push((name, number.to_string(), setting.origin)),
                (Value::Boolean(on), None) => all.push((name, u8::from(on).to_string(), setting.origin)),
                (value @ (Value::List(_) | Value::Other(_)), None) => {
                    self.wrong(
                        setting.origin,
                        &key,
                        &value,
                        "expected a string, a number, true or false",
                    );
                }
            }
        }
        all
    }

    /// The rules of the pool at hand, in the order in which they are written: the name of each, and what it says by key.
    pub(super) fn rules(&mut self) -> Vec<(String, BTreeMap<String, Setting>)> {
        let list = self.key(RULES);
        let settings = std::mem::take(&mut self.file.settings);
        let mut rules: BTreeMap<usize, BTreeMap<String, Setting>> = BTreeMap::new();
        for (key, setting) in settings {
            let below = key.strip_prefix(&list).and_then(|rest| rest.strip_prefix('.'));
            let numbered = below.and_then(|rest| rest.split_once('.'));
            let number = numbered.and_then(|(number, name)| Some((number.parse().ok()?, name.to_owned())));
            match number {
                Some((number, name)) => {
                    rules.entry(number).or_default().insert(name, setting);
                }
                None => {
                    self.file.settings.insert(key, setting);
                }
            }
        }
        let named = |(number, rule)| (format!("{list}.{number}"), rule);
        rules.into_iter().map(named).collect()
    }

    /// One of a few words.
    pub(super) fn word<T: Copy>(&mut self, key: &'static str, words: &[(&str, T)]) -> Option<(T, Origin)> {
        let (text, origin) = self.text(key)?;
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
            return Some((*value, origin));
        }
        let words: Vec<String> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        self.wrong(
            origin,
            key,
            &Value::Text(text),
            &format!("expected {}", words.join(" or ")),
        );
        None
    }

    /// One of a few words; `default` where there is none.
    pub(super) fn word_or<T: Copy>(&mut self, key: &'static str, words: &[(&str, T)], default: T) -> T {
        self.word(key, words).map_or(default, |(value, _)| value)
    }

    /// A list of strings; a single string is a list too. With where it was written.
    pub(super) fn list(&mut self, key: &'static str) -> Option<(Vec<String>, Origin)> {
        let setting = self.take(key)?;
        match setting.value {
            Value::List(texts) => Some((texts, setting.origin)),
            Value::Text(text) => Some((vec![text], setting.origin)),
            value => {
                self.wrong(setting.origin, key, &value, "expected a list of strings");
                None
            }
        }
    }

    /// As [`Self::list`]; a number may be a port.
    pub(super) fn addresses(&mut self, key: &'static str) -> Option<(Vec<String>, Origin)> {
        self.as_text(key);
        self.list(key)
    }

    /// A number is read as if it were in quotes, for whoever can say more of it than that it is none.
    pub(super) fn as_text(&mut self, key: &'static str) {
        let key = self.key(key);
        if let Some(setting) = self.file.settings.get_mut(&key)
            && let Value::Integer(number) = setting.value
        {
            setting.value = Value::Text(number.to_string());
        }
    }

    /// `true` or `false`.
    pub(super) fn switch(&mut self, key: &'static str, default: bool) -> bool {
        match self.take(key) {
            None => default,
            Some(Setting {
                value: Value::Boolean(value),
                ..
            }) => value,
            Some(Setting { value, origin, .. }) => {
                self.wrong(origin, key, &value, "expected true or false");
                default
            }
        }
    }

    /// A whole number within `range`.
    pub(super) fn number<T>(&mut self, key: &'static str, default: T, range: RangeInclusive<T>) -> T
    where
        T: TryFrom<i64> + PartialOrd + fmt::Display,
    {
        let Some(Setting { value, origin, .. }) = self.take(key) else {
            return default;
        };
        let Value::Integer(number) = value else {
            self.wrong(
                origin,
                key,
                &value,
                &format!(
                    "expected a whole number from {} to {}",
                    range.start(),
                    range.end()
                ),
            );
            return default;
        };
        match T::try_from(number) {
            Ok(number) if range.contains(&number) => number,
            _ => {
                self.wrong(
                    origin,
                    key,
                    &value,
                    &format!("must be from {} to {}", range.start(), range.end()),
                );
                default
            }
        }
    }

    /// A duration within `range`.
    pub(super) fn duration(
        &mut self,
        key: &'static str,
        default: Duration,
        range: RangeInclusive<Duration>,
    ) -> Duration {
        let Some(Setting { value, origin, .. }) = self.take(key) else {
            return default;
        };
        // "expected a duration such as…" holds for a number without a unit as well.
        let read = match &value {
            Value::Text(text) => parse_duration(text),
            other => parse_duration(&other.to_string()),
        };
        match read {
            Ok(duration) if range.contains(&duration) => return duration,
            Ok(_) => {
                let (from, to) = (format_duration(*range.start()), format_duration(*range.end()));
                self.wrong(
                    origin,
                    key,
                    &value,
                    &format!("must be from \"{from}\" to \"{to}\""),
                );
            }
            Err(error) => self.wrong(origin, key, &value, &error.to_string()),
        }
        default
    }

    /// A size within `range`.
    pub(super) fn size(
        &mut self,
        key: &'static str,
        default: ByteSize,
        range: RangeInclusive<ByteSize>,
    ) -> ByteSize {
        self.size_if_set(key, range).unwrap_or(default)
    }

    /// The same without a default.
    pub(super) fn size_if_set(
        &mut self,
        key: &'static str,
        range: RangeInclusive<ByteSize>,
    ) -> Option<ByteSize> {
        let Setting { value, origin, .. } = self.take(key)?;
        let read = match &value {
            Value::Text(text) => text.parse::<ByteSize>(),
            other => other.to_string().parse(),
        };
        match read {
            Ok(size) if range.contains(&size) => return Some(size),
            Ok(_) => {
                self.wrong(
                    origin,
                    key,
                    &value,
                    &format!("must be from \"{}\" to \"{}\"", range.start(), range.end()),
                );
            }
            Err(error) => self.wrong(origin, key, &value, &error.to_string()),
        }
        None
    }

    /// Notes that the value of `key`, written at `origin`, cannot be used.
    pub(super) fn wrong(&mut self, origin: Origin, key: &str, value: &Value, why: &str) {
        let key = self.key(key);
        self.problem(origin, format!("`{key}` is {value}: {why}"));
    }

    /// Notes a problem.
    pub(super) fn problem(&mut self, origin: Origin, text: String) {
        self.file.problems.push(Problem { origin, text });
    }

    /// Ends the reading: keys that nobody asked for are problems.
    pub(super) fn finish(mut self) -> Result<Finished, Errors> {
        let mut strangers = BTreeSet::new();
        for (key, setting) in std::mem::take(&mut self.file.settings) {
            let text = match &setting.origin {
                Origin::Environment(name) => {
                    let text = self.unknown_variable(name, &key, &setting.value);
                    if text.is_none() {
                        strangers.insert(name.clone());
                    }
                    text
                }
                _ => Some(self.unknown(&key, &setting.value)),
            };
            if let Some(text) = text {
                self.problem(setting.origin, text);
            }
        }
        let mut problems = self.file.problems;
        if problems.is_empty() {
            return Ok(Finished {
                keys: self.known,
                strangers,
            });
        }
        problems.sort();
        problems.dedup();
        Err(Errors(problems))
    }

    fn take(&mut self, key: &'static str) -> Option<Setting> {
        self.known.insert(key);
        let key = self.key(key);
        self.file.settings.remove(&key)
    }

    /// `None`: it may well be a variable of somebody else's.
    fn unknown_variable(&self, name: &str, key: &str, value: &Value) -> Option<String> {
        if environment::is_of_kubernetes(name, value) {
            return None;
        }
        if key == "port" {
            let text = format!("no setting has this name; write HEARTH_LISTEN=:{value}, or PORT={value}");
            return Some(text);
        }
        let table = format!("{key}.");
        let is_table = self.known.iter().any(|known| known.starts_with(&table));
        if is_table {
            return Some(self.unknown(key, value));
        }
        let is_ours = environment::is_in_section(name);
        // Else it may be anything that begins with our name: it has to be very much like a setting.
        let most = if is_ours {
            likely(key)
        } else {
            (name_of(key).chars().count() / 3).max(1)
        };
        match self.nearest_of_pool(key, most) {
            Some(near) => Some(format!(
                "no setting has this name; did you mean `{}` (`{near}`)?",
                environment::name_of(&near)
            )),
            None if is_ours => Some(format!(
                "no setting has this name (`{key}`); docs/config.toml lists the keys that exist"
            )),
            None => None,
        }
    }

    fn unknown(&self, key: &str, value: &Value) -> String {
        if let Some(now) = renamed(key) {
            return now;
        }
        if let Some(known) = self
            .known
            .iter()
            .find(|known| known.starts_with(&format!("{key}.")))
        {
            return format!("`{key}` is {value}: it is a table; set a key of it, for instance `{known}`");
        }
        if *value == Value::Other("a table") {
            let near = SECTIONS
                .iter()
                .min_by_key(|section| distance(section, key))
                .unwrap_or(&"pool.web");
            return format!("unknown table `[{key}]`; did you mean `[{near}]`?");
        }
        if key == "pool.web.dir" {
            return format!(
                "`{key}` is {value}: `web` runs the project that `hearth serve` is started for, so it has no `dir`; set `root` for another document root"
            );
        }
        if matches!(key, "pool.web.hosts" | "pool.web.paths") {
            return format!(
                "`{key}` is {value}: `web` gets what no other pool gets, so it has none; name them for the others"
            );
        }
        match self.nearest_of_pool(key, likely(key)) {
            Some(near) => format!("unknown key `{key}`; did you mean `{near}`?"),
            None => format!("unknown key `{key}`; docs/config.toml lists the keys that exist"),
        }
    }

    /// As [`Self::nearest`], of the pool that `key` is about.
    fn nearest_of_pool(&self, key: &str, most: usize) -> Option<String> {
        let pool = key
            .strip_prefix("pool.")
            .and_then(|rest| rest.split_once('.'))
            .map_or(FIRST_POOL, |(pool, _)| pool);
        let near = if pool == FIRST_POOL {
            self.nearest(key, &OF_OTHER_POOLS, most)
        } else {
            self.nearest(&as_first_pool(key), &[], most)
        };
        near.map(|near| near.replacen("pool.web.", &format!("pool.{pool}."), 1))
    }

    /// The key with the fewest changed characters, `most` of them; standing in another table counts as one.
    fn nearest(&self, key: &str, except: &[&str], most: usize) -> Option<&'static str> {
        let wanted = name_of(key);
        let known = self.known.iter().filter(|known| !except.contains(known));
        let distances = known.map(|known| {
            (
                distance(known, key).min(1 + distance(name_of(known), wanted)),
                *known,
            )
        });
        distances
            .min()
            .filter(|(changes, _)| *changes <= most)
            .map(|(_, known)| known)
    }
}

/// What is to be said of a key, or a table, that had another name before.
fn renamed(key: &str) -> Option<String> {
    if key == "proxy" {
        let text = "the table `[proxy]` is `[trusted_proxies]` by now, and its key `trusted` is `addresses`";
        return Some(text.to_owned());
    }
    let name = key.strip_prefix("proxy.")?;
    let now = if name == "trusted" { "addresses" } else { name };
    Some(format!("`{key}` is `trusted_proxies.{now}` by now"))
}

/// How many changed characters of a key may be a slip.
fn likely(key: &str) -> usize {
    name_of(key).chars().count().div_ceil(3).max(2)
}

/// A dotted key without its table.
fn name_of(key: &str) -> &str {
    key.rsplit_once('.').map_or(key, |(_, name)| name)
}

/// Characters to insert, remove or replace to turn `from` into `to` (Levenshtein), one row of the table at a time.
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.chars().count()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, b) in row.iter_mut().skip(1).zip(to.chars()) {
            let up = *cell;
            *cell = (diagonal + usize::from(a != b)).min(left + 1).min(up + 1);
            (diagonal, left) = (up, *cell);
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_counts_changed_characters() {
        for (from, to, changes) in [
            ("", "", 0),
            ("", "abc", 3),
            ("kitten", "sitting", 3),
            ("workers", "worker", 1),
        ] {
            assert_eq!(distance(from, to), changes, "{from} {to}");
            assert_eq!(distance(to, from), changes, "{to} {from}");
        }
    }
}
