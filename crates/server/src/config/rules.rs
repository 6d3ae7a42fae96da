//! Rules for paths, error pages, and the folders that scripts may have files sent from.
//!
//! Only the form is checked; `edge::rules` applies them. Called by `resolve`. Runs in: server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use http::header::{HeaderName, HeaderValue};

use super::file::{ERROR_PAGES, INTERNAL, Origin, Setting, Value};
use super::pattern::{Pattern, RESERVED, is_name};
use super::reader::Reader;

/// Largest error page.
pub(crate) const PAGE_BYTES: u64 = 1024 * 1024;
/// Keys of a rule, for messages.
const KEYS: [&str; 11] = [
    "path",
    "host",
    "missing",
    "redirect",
    "rewrite",
    "deny",
    "status",
    "headers",
    "cache_control",
    "compress",
    "not",
];

/// One rule: what it holds for, and what it says.
#[derive(Clone, Debug, Default)]
pub struct Rule {
    /// Paths, decoded. Never empty.
    pub paths: Vec<Pattern>,
    /// Paths that it does not hold for after all.
    pub not: Vec<Pattern>,
    /// `example.com`, or `*.example.com` for all below it. Empty: any.
    pub hosts: Vec<String>,
    /// Only where the path names neither a file nor a folder.
    pub missing: bool,
    /// What becomes of the request.
    pub action: Option<Action>,
    /// Headers of the answer; an empty value removes one.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// `Cache-Control` of answers that may be kept, where a script has said nothing of it.
    pub cache_control: Option<HeaderValue>,
    /// Whether answers may be compressed on the fly.
    pub compress: Option<bool>,
}

/// What becomes of a request. `{path}` is the path as it came, `{rest}` what the pattern's last `*` stood for, `{host}` the host, and
/// another name what the pattern's name stood for; the query goes along.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The client is sent elsewhere.
    Redirect(String, u16),
    /// It is answered as if another path had been asked for.
    Rewrite(String),
    /// It is refused.
    Deny(u16),
}

/// What is sent for an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorPage {
    /// This file, absolute.
    File(PathBuf),
    /// What the path of a URL names: a file or a script.
    Path(String),
}

/// The rules of the pool at hand.
pub(super) fn rules(reader: &mut Reader) -> Vec<Rule> {
    let tables = reader.rules();
    let mut rules = Vec::new();
    for (name, table) in tables {
        let mut fields = Fields {
            reader: &mut *reader,
            name,
            table,
        };
        let rule = rule(&mut fields, &rules);
        fields.finish();
        rules.push(rule);
    }
    rules
}

/// The error pages of the pool at hand: statuses, `404` or `5xx`, and their page.
pub(super) fn error_pages(reader: &mut Reader, dir: &Path) -> Vec<(String, ErrorPage)> {
    let mut pages = Vec::new();
    for (status, text, origin) in reader.entries(ERROR_PAGES) {
        let key = format!("{ERROR_PAGES}.{status}");
        if !is_status(&status) {
            let form = "expected a status from 400 to 599, or \"4xx\" or \"5xx\", as the name";
            reader.wrong(origin, &key, &Value::Text(text), form);
            continue;
        }
        if text.starts_with('/') {
            pages.push((status, ErrorPage::Path(text)));
            continue;
        }
        let path = dir.join(&text);
        let fits = path
            .metadata()
            .is_ok_and(|meta| meta.is_file() && meta.len() <= PAGE_BYTES);
        if !fits {
            let why = format!(
                "expected a file of at most 1 MiB at {}, or the path of a URL, which begins with a /",
                path.display()
            );
            reader.wrong(origin, &key, &Value::Text(text), &why);
        }
        pages.push((status, ErrorPage::File(path)));
    }
    pages
}

fn is_status(name: &str) -> bool {
    let number = name.parse::<u16>();
    matches!(name, "4xx" | "5xx")
        || name.len() == 3 && number.is_ok_and(|number| (400..600).contains(&number))
}

/// Prefixes of `X-Accel-Redirect`, and the folders that they stand for.
pub(super) fn internal(reader: &mut Reader, dir: &Path) -> Vec<(String, PathBuf)> {
    let mut folders = Vec::new();
    for (prefix, text, origin) in reader.entries(INTERNAL) {
        let key = format!("{INTERNAL}.{prefix}");
        let folder = dir.join(&text);
        if !prefix.starts_with('/') || !prefix.ends_with('/') {
            let form =
                "expected a path that begins and ends with a / as the name, for instance \"/protected/\"";
            reader.wrong(origin, &key, &Value::Text(text), form);
        } else if folder.is_dir() {
            folders.push((prefix, folder.canonicalize().unwrap_or(folder)));
        } else {
            let why = format!(
                "expected a folder, but there is none at {}; paths are relative to DIR",
                folder.display()
            );
            reader.wrong(origin, &key, &Value::Text(text), &why);
        }
    }
    // The longest prefix is the one that counts.
    folders.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
    folders
}

/// `earlier`: those above it, of which the first with an action decides.
fn rule(fields: &mut Fields<'_>, earlier: &[Rule]) -> Rule {
    let paths = patterns(fields, "path");
    if paths.is_empty() && !fields.failed("path") {
        let name = fields.name.clone();
        fields.problem(format!("`{name}` has no `path`; \"*\" is any"));
    }
    let not = patterns(fields, "not");
    let missing = fields.switch("missing").unwrap_or(false);
    let matches = |path: &str| {
        let fits = |pattern: &Pattern| pattern.fit(path.as_bytes()).is_some();
        // Some request at least is answered by such a rule, so that it does not come here.
        let is_answered =
            |rule: &Rule| rule.action.is_some() && rule.paths.iter().any(fits) && !rule.not.iter().any(fits);
        !missing && paths.iter().any(fits) && !not.iter().any(fits) && !earlier.iter().any(is_answered)
    };
    let action = action(fields, &paths, &matches);
    Rule {
        paths,
        not,
        hosts: fields.list(
            "host",
            super::resolve::is_host,
            "expected for instance \"example.com\" or \"*.example.com\", in small letters and without a port",
        ),
        missing,
        action,
        headers: headers(fields),
        cache_control: fields.text("cache_control").and_then(|(text, setting)| {
            let value = HeaderValue::try_from(text).ok();
            if value.is_none() {
                fields.wrong("cache_control", &setting, "expected the value of a header");
            }
            value
        }),
        compress: fields.switch("compress"),
    }
}

fn patterns(fields: &mut Fields<'_>, key: &str) -> Vec<Pattern> {
    let is_one = |text: &str| Pattern::new(text).is_some();
    let form = "expected for instance \"/status\" for one, \"/api/*\" for all below it, \"*.css\", or \"/blog/{year}/{title}\"";
    let texts = fields.list(key, is_one, form);
    texts.iter().filter_map(|text| Pattern::new(text)).collect()
}

/// The first `{name}` in `text` that stands for nothing in one of `paths`.
fn unknown_name<'a>(text: &'a str, paths: &[Pattern]) -> Option<&'a str> {
    let names = text.split('{').skip(1).filter_map(|part| part.split_once('}'));
    names.map(|(name, _)| name).find(|name| {
        is_name(name) && !RESERVED.contains(name) && !paths.iter().all(|pattern| pattern.has(name))
    })
}

/// Whether a redirection leads to where the rule applies again, so that the client would go round in circles. `matches` says where
/// it does for sure.
fn goes_in_circles(to: &str, matches: &impl Fn(&str) -> bool) -> bool {
    let path = to.split(['?', '#']).next().unwrap_or(to);
    path == "{path}" || path.starts_with('/') && !path.contains('{') && matches(path)
}

fn action(fields: &mut Fields<'_>, paths: &[Pattern], matches: &impl Fn(&str) -> bool) -> Option<Action> {
    let redirect = fields.text("redirect");
    let rewrite = fields.text("rewrite");
    let deny = fields.switch("deny").unwrap_or(false);
    let status = fields.status();
    let said = usize::from(redirect.is_some()) + usize::from(rewrite.is_some()) + usize::from(deny);
    if said > 1 {
        let name = fields.name.clone();
        fields.problem(format!(
            "`{name}` says more than one of `redirect`, `rewrite` and `deny`; write a rule for each"
        ));
    }
    for (key, said) in [("redirect", &redirect), ("rewrite", &rewrite)] {
        if let Some((to, setting)) = said
            && let Some(name) = unknown_name(to, paths)
        {
            let form = format!(
                "`path` must have {{{name}}}, too; of itself a rule knows {{rest}}, {{path}} and {{host}}"
            );
            fields.wrong(key, setting, &form);
        }
    }
    if let Some((to, setting)) = redirect {
        let is_one = to.starts_with("{path}")
            || to.starts_with('/') && !to.starts_with("//")
            || to.starts_with("https://")
            || to.starts_with("http://");
        if !is_one || HeaderValue::try_from(&to).is_err() {
            let form = "expected a path that begins with a /, or a URL that begins with https:// or http://";
            fields.wrong("redirect", &setting, form);
        } else if goes_in_circles(&to, matches) {
            let form = "that is a path to which the rule applies again, without end; except it with `not`";
            fields.wrong("redirect", &setting, form);
        }
        let status = fields.in_list(status, &[301, 302, 303, 307, 308]).unwrap_or(302);
        return Some(Action::Redirect(to, status));
    }
    if let Some((to, setting)) = rewrite {
        if !to.starts_with('/') && !to.starts_with("{path}") {
            fields.wrong("rewrite", &setting, "expected a path that begins with a /");
        }
        fields.in_list(status, &[]);
        return Some(Action::Rewrite(to));
    }
    let status = fields.in_list(status, &[401, 403, 404, 410, 451]);
    deny.then(|| Action::Deny(status.unwrap_or(403)))
}

fn headers(fields: &mut Fields<'_>) -> Vec<(HeaderName, HeaderValue)> {
    let name_in = |key: &String| key.strip_prefix("headers.").map(str::to_owned);
    let names: Vec<String> = fields.table.keys().filter_map(name_in).collect();
    let mut headers = Vec::new();
    for name in names {
        let key = format!("headers.{name}");
        let Some((text, setting)) = fields.text(&key) else {
            continue;
        };
        let connections = ["connection", "content-length", "transfer-encoding"];
        let header = HeaderName::from_bytes(name.as_bytes()).ok();
        let header = header.filter(|header| !connections.contains(&header.as_str()));
        match (header, HeaderValue::try_from(text)) {
            (Some(header), Ok(value)) => headers.push((header, value)),
            _ => fields.wrong(
                &key,
                &setting,
                "expected a header's name and value; those of a message's form are the server's own",
            ),
        }
    }
    headers
}

/// The keys of one rule that have not been read yet.
struct Fields<'a> {
    reader: &'a mut Reader,
    /// `pool.web.rules.0`
    name: String,
    table: BTreeMap<String, Setting>,
}

impl Fields<'_> {
    fn text(&mut self, key: &str) -> Option<(String, Setting)> {
        let setting = self.table.remove(key)?;
        if let Value::Text(text) = &setting.value {
            return Some((text.clone(), setting));
        }
        self.wrong(key, &setting, "expected a string");
        None
    }

    fn list(&mut self, key: &str, is_one: fn(&str) -> bool, form: &str) -> Vec<String> {
        let Some(setting) = self.table.get(key).cloned() else {
            return Vec::new();
        };
        let texts = match &setting.value {
            Value::Text(text) => vec![text.clone()],
            Value::List(texts) => texts.clone(),
            _ => Vec::new(),
        };
        if texts.is_empty() || !texts.iter().all(|text| is_one(text)) {
            self.wrong(key, &setting, form);
            return Vec::new();
        }
        self.table.remove(key);
        texts
    }

    /// Whether `key` was there, and wrong.
    fn failed(&mut self, key: &str) -> bool {
        self.table.remove(key).is_some()
    }

    fn switch(&mut self, key: &str) -> Option<bool> {
        let setting = self.table.remove(key)?;
        if let Value::Boolean(on) = setting.value {
            return Some(on);
        }
        self.wrong(key, &setting, "expected true or false");
        None
    }

    fn status(&mut self) -> Option<(u16, Setting)> {
        let setting = self.table.remove("status")?;
        if let Value::Integer(number) = setting.value {
            return Some((u16::try_from(number).unwrap_or(0), setting));
        }
        self.wrong("status", &setting, "expected the number of a status");
        None
    }

    fn in_list(&mut self, status: Option<(u16, Setting)>, allowed: &[u16]) -> Option<u16> {
        let (status, setting) = status?;
        if allowed.contains(&status) {
            return Some(status);
        }
        let form = match allowed {
            [] => "only a rule with `redirect` or `deny` has a status".to_owned(),
            some => format!(
                "expected one of {}",
                some.iter().map(u16::to_string).collect::<Vec<_>>().join(", ")
            ),
        };
        self.wrong("status", &setting, &form);
        None
    }

    fn wrong(&mut self, key: &str, setting: &Setting, why: &str) {
        let key = format!("{}.{key}", self.name);
        self.reader.problem(
            setting.origin.clone(),
            format!("`{key}` is {}: {why}", setting.value),
        );
    }

    /// Something is wrong with the rule as a whole; it is where its first key is, as far as that is left.
    fn problem(&mut self, text: String) {
        let origin = self.table.values().map(|setting| setting.origin.clone()).min();
        let origin = origin.unwrap_or_else(|| Origin::Flag(self.reader.path().unwrap_or("--set").to_owned()));
        self.reader.problem(origin, text);
    }

    fn finish(mut self) {
        for (key, setting) in std::mem::take(&mut self.table) {
            if KEYS.contains(&key.as_str()) {
                continue;
            }
            let text = format!(
                "unknown key `{}.{key}`; a rule has {}",
                self.name,
                KEYS.join(", ")
            );
            self.reader.problem(setting.origin, text);
        }
    }
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
