//! One `.htaccess`, as far as it speaks of access: `Require` of Apache 2.4, `Order`, `Allow` and `Deny` of 2.2, `Satisfy`, in sections too,
//! and `php_flag engine`.
//!
//! Read as an Apache 2.4 with all its modules reads it (httpd docs, `mod_authz_core`, `mod_access_compat`, "Configuration Sections").
//! What depends on the client (a login, an address) lets nobody in here. Pure. Called by `htaccess`. Runs in: server.

use std::collections::BTreeSet;

use regex::bytes::{Regex, RegexBuilder};

/// Patterns of `<Files>` in one file; the others count as not understood.
const PATTERNS: usize = 100;
/// Memory that one pattern may take.
const PATTERN_BYTES: usize = 128 * 1024;

/// What one file says.
#[derive(Debug, Default)]
pub(super) struct Htaccess {
    /// Of its folder and all below it.
    folder: Said,
    /// Of files by their names, in its folder and in all below it.
    files: Vec<(Regex, Said)>,
    /// What else it says of access, which is not done.
    pub(super) ignored: BTreeSet<&'static str>,
}

/// What is said of access; `None` where nothing is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    /// Whether `Require` lets everybody in.
    require: Option<bool>,
    /// Whether `Order`, `Allow` and `Deny` do.
    order: Option<bool>,
    /// Whether it is enough if one of the two does.
    either: Option<bool>,
    /// Whether PHP runs.
    engine: Option<bool>,
}

impl Said {
    /// What holds where `self` is said further up.
    pub(super) fn and_then(self, below: Self) -> Self {
        Self {
            require: below.require.or(self.require),
            order: below.order.or(self.order),
            either: below.either.or(self.either),
            engine: below.engine.or(self.engine),
        }
    }

    /// Whether everybody is let in.
    pub(super) fn is_open(self) -> bool {
        match (self.require, self.order) {
            (Some(require), Some(order)) if self.either == Some(true) => require || order,
            (require, order) => require != Some(false) && order != Some(false),
        }
    }

    /// Whether scripts run.
    pub(super) fn runs_scripts(self) -> bool {
        self.engine != Some(false)
    }
}

impl Htaccess {
    /// One that lets nobody in: what cannot be read may say so.
    pub(super) fn closed() -> Self {
        let folder = Said {
            require: Some(false),
            order: Some(false),
            ..Said::default()
        };
        Self {
            folder,
            ..Self::default()
        }
    }

    /// Reads a file. Never fails: what it does not know is not there.
    pub(super) fn read(text: &[u8]) -> Self {
        let mut reader = Reader::default();
        let mut line = Vec::new();
        for part in text.split(|&b| b == b'\n') {
            line.extend_from_slice(part.trim_ascii());
            if line.ends_with(b"\\") {
                line.pop();
                continue;
            }
            reader.line(&String::from_utf8_lossy(&line));
            line.clear();
        }
        reader.finish()
    }

    /// Of its folder.
    pub(super) fn of_folder(&self) -> Said {
        self.folder
    }

    /// Of a file of this name.
    pub(super) fn of_file<'a>(&'a self, name: &'a [u8]) -> impl Iterator<Item = Said> + 'a {
        let fitting = self
            .files
            .iter()
            .filter(move |(pattern, _)| pattern.is_match(name));
        fitting.map(|(_, said)| *said)
    }
}

/// A section that has begun.
#[derive(Debug)]
enum Section {
    /// What is in it holds.
    Held,
    /// What is in it does not.
    Skipped,
    /// Requirements of which all, or one, must be met.
    Requirements(Requirements),
    /// Holds for files by their names; `None`: for none that could be found out.
    Files(Option<Regex>, Draft),
}

/// Requirements beside each other.
#[derive(Debug, Default)]
struct Requirements {
    group: Group,
    open: Option<bool>,
}

#[derive(Clone, Copy, Debug, Default)]
enum Group {
    #[default]
    Any,
    All,
    /// They keep out who meets one, which is not done here.
    None,
}

impl Requirements {
    fn add(&mut self, open: bool) {
        self.open = match self.group {
            Group::Any => Some(self.open.unwrap_or(false) || open),
            Group::All => Some(self.open.unwrap_or(true) && open),
            Group::None => None,
        };
    }
}

/// What is said of access, while it is being read.
#[derive(Debug, Default)]
struct Draft {
    requirements: Requirements,
    order: Option<Order>,
    either: Option<bool>,
    engine: Option<bool>,
}

/// `Order`, `Allow` and `Deny`.
#[derive(Clone, Copy, Debug, Default)]
struct Order {
    /// `Allow,Deny`: who is not named is kept out.
    allow_first: bool,
    allows_all: bool,
    denies_all: bool,
}

impl Order {
    fn is_open(self) -> bool {
        if self.allow_first {
            self.allows_all && !self.denies_all
        } else {
            self.allows_all || !self.denies_all
        }
    }
}

impl Draft {
    fn order(&mut self) -> &mut Order {
        self.order.get_or_insert_default()
    }

    fn said(&self) -> Said {
        Said {
            require: self.requirements.open,
            order: self.order.map(Order::is_open),
            either: self.either,
            engine: self.engine,
        }
    }
}

/// Reads line by line.
#[derive(Debug, Default)]
struct Reader {
    folder: Draft,
    sections: Vec<Section>,
    found: Htaccess,
}

impl Reader {
    fn line(&mut self, line: &str) {
        // Apache insists on the right name; without it, it would serve nothing there.
        if line.starts_with("</") {
            self.close();
        } else if let Some(section) = line.strip_prefix('<') {
            let words = words(section.strip_suffix('>').unwrap_or(section));
            let section = self.open(&words);
            self.sections.push(section);
        } else if !line.starts_with('#') && !self.is_skipping() {
            self.directive(&words(line));
        }
    }

    fn is_skipping(&self) -> bool {
        self.sections
            .iter()
            .any(|section| matches!(section, Section::Skipped))
    }

    fn open(&mut self, words: &[String]) -> Section {
        let Some((name, rest)) = words.split_first() else {
            return Section::Skipped;
        };
        if self.is_skipping() {
            return Section::Skipped;
        }
        let first = rest.first().map_or("", String::as_str);
        let names_get = || rest.iter().any(|method| method.eq_ignore_ascii_case("get"));
        let held = match name.to_ascii_lowercase().as_str() {
            "files" | "filesmatch" => return self.files(name, rest),
            "requireall" => return requirements(Group::All),
            "requireany" => return requirements(Group::Any),
            "requirenone" => {
                self.found.ignored.insert("RequireNone");
                return requirements(Group::None);
            }
            "ifmodule" => !first.starts_with('!'),
            // Apache 2.4 is newer.
            "ifversion" => !first.starts_with(['<', '!']),
            // Nothing is defined.
            "ifdefine" => first.starts_with('!'),
            "limit" => names_get(),
            "limitexcept" => !names_get(),
            "if" => {
                self.found.ignored.insert("If");
                false
            }
            _ => false,
        };
        if held { Section::Held } else { Section::Skipped }
    }

    fn files(&mut self, name: &str, words: &[String]) -> Section {
        let is_match = name.eq_ignore_ascii_case("filesmatch");
        let pattern = match words {
            [tilde, pattern, ..] if tilde == "~" => Some((pattern.clone(), "a pattern of Files")),
            [pattern, ..] if is_match => Some((pattern.clone(), "a pattern of FilesMatch")),
            [pattern, ..] => Some((of_wildcards(pattern), "a pattern of Files")),
            [] => None,
        };
        let Some((pattern, what)) = pattern else {
            return Section::Skipped;
        };
        let compiled = RegexBuilder::new(&pattern)
            .unicode(false)
            .size_limit(PATTERN_BYTES)
            .build();
        let known = compiled.ok().filter(|_| self.found.files.len() < PATTERNS);
        if known.is_none() {
            self.found.ignored.insert(what);
        }
        Section::Files(known, Draft::default())
    }

    fn close(&mut self) {
        match self.sections.pop() {
            Some(Section::Files(Some(pattern), draft)) => {
                let said = draft.said();
                if said != Said::default() {
                    self.found.files.push((pattern, said));
                }
            }
            Some(Section::Requirements(Requirements { open: Some(open), .. })) => self.require(open),
            _ => {}
        }
    }

    /// What is being spoken of: files, or the folder.
    fn draft(&mut self) -> &mut Draft {
        let files = self.sections.iter_mut().rev().find_map(|section| match section {
            Section::Files(_, draft) => Some(draft),
            _ => None,
        });
        files.unwrap_or(&mut self.folder)
    }

    /// A requirement that everybody meets, or not.
    fn require(&mut self, open: bool) {
        let sections = self.sections.iter_mut().rev();
        let inner = sections
            .take_while(|section| !matches!(section, Section::Files(..)))
            .find_map(|section| match section {
                Section::Requirements(requirements) => Some(requirements),
                _ => None,
            });
        match inner {
            Some(requirements) => requirements.add(open),
            None => self.draft().requirements.add(open),
        }
    }

    fn directive(&mut self, words: &[String]) {
        let words: Vec<String> = words.iter().map(|word| word.to_ascii_lowercase()).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let ignored = match words.as_slice() {
            ["require", "not", ..] => Some("Require not"),
            ["require", "all", "granted"] | ["require", "method", ..] => {
                self.require(true);
                None
            }
            ["require", _, ..] => {
                self.require(false);
                None
            }
            ["order", order @ ..] => {
                self.draft().order().allow_first = !order.concat().starts_with("deny");
                None
            }
            ["allow", "from", from @ ..] => {
                self.draft().order().allows_all |= from.contains(&"all");
                None
            }
            ["deny", "from", from @ ..] => {
                let all = from.contains(&"all");
                self.draft().order().denies_all |= all;
                (!all).then_some("Deny from some")
            }
            ["satisfy", which] => {
                self.draft().either = Some(*which == "any");
                None
            }
            ["php_flag" | "php_value", "engine", to] => {
                self.draft().engine = Some(!matches!(*to, "off" | "0" | "false" | "no"));
                None
            }
            ["redirect" | "redirectmatch", "403" | "404" | "410" | "gone", ..] => {
                Some("Redirect with 403, 404 or 410")
            }
            ["rewriterule", _, _, flags, ..] if is_refusal(flags) => Some("RewriteRule with [F]"),
            _ => None,
        };
        self.found.ignored.extend(ignored);
    }

    fn finish(mut self) -> Htaccess {
        while !self.sections.is_empty() {
            self.close();
        }
        self.found.folder = self.folder.said();
        self.found
    }
}

fn requirements(group: Group) -> Section {
    Section::Requirements(Requirements { group, open: None })
}

/// Whether flags of a `RewriteRule` refuse.
fn is_refusal(flags: &str) -> bool {
    let mut flags = flags.trim_matches(['[', ']']).split(',').map(str::trim);
    flags.any(|flag| {
        matches!(
            flag,
            "f" | "forbidden" | "g" | "gone" | "r=403" | "r=404" | "r=410"
        )
    })
}

/// The words of a line; quotes hold some together.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while let Some(first) = rest.chars().next() {
        let quote = Some(first).filter(|c| matches!(c, '"' | '\''));
        let (word, behind) = match quote {
            Some(quote) => {
                let inner = rest.get(1..).unwrap_or_default();
                inner.split_once(quote).unwrap_or((inner, ""))
            }
            None => rest
                .split_once(|c: char| c.is_ascii_whitespace())
                .unwrap_or((rest, "")),
        };
        words.push(word.to_owned());
        rest = behind.trim_start();
    }
    words
}

/// The pattern for a name with `*` and `?`.
fn of_wildcards(name: &str) -> String {
    let mut pattern = "^".to_owned();
    for c in name.chars() {
        match c {
            '*' => pattern.push_str(".*"),
            '?' => pattern.push('.'),
            c => pattern.push_str(&regex::escape(c.encode_utf8(&mut [0; 4]))),
        }
    }
    pattern + "$"
}

#[cfg(test)]
mod tests;
