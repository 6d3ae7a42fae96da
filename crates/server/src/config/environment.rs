//! Settings by variables of the environment: `HEARTH_POOL_WEB_WORKERS` for `pool.web.workers`, and `PORT`, by which platforms say where
//! to listen. They are stronger than the file and weaker than flags, but `PORT` is no more than another default.
//!
//! Finds the key that a variable names; whether there is such a key, and which one is near, knows `reader`. Called by `file`, and by
//! `cli` for what there is. Runs in: server.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};

use super::file::{ADMIN_INI, ENV, FIRST_POOL, File, INI, Origin, Problem, SECTIONS, Setting, Value};

const PREFIX: &str = "HEARTH_";
/// Another default of `listen`.
const PORT: &str = "PORT";

/// What the project itself calls so: for the thin client, for scripts (`HEARTH_WORKER`), for a successor, for its build and its tests.
const FREE: [&str; 9] = [
    "HEARTH_ADDRESS",
    "HEARTH_CONNECT_TIMEOUT",
    "HEARTH_FALLBACK",
    "HEARTH_KEEP_FORWARDED",
    "HEARTH_PREDECESSOR",
    "HEARTH_READ_TIMEOUT",
    "HEARTH_REQUEST_ID",
    "HEARTH_SANITIZE",
    "HEARTH_WORKER",
];
const FREE_PREFIXES: [&str; 2] = ["HEARTH_TEST_", "HEARTH_PARITY_"];

/// A variable.
#[derive(Clone, Debug)]
pub struct Variable {
    name: String,
    /// `None`: it is not UTF-8.
    value: Option<String>,
}

/// Those of this process that may be settings.
pub(crate) fn variables() -> Vec<Variable> {
    let mut all: Vec<Variable> = std::env::vars_os()
        .filter_map(|(name, value)| Variable::of(&name, value))
        .collect();
    all.sort_by(|one, other| one.name.cmp(&other.name));
    all
}

/// Those with settings of pools. Scripts of one pool have no business with what another one is told.
pub(crate) fn names_of_pools() -> impl Iterator<Item = OsString> {
    let names = std::env::vars_os().map(|(name, _)| name);
    names.filter(|name| name.as_encoded_bytes().starts_with(b"HEARTH_POOL_"))
}

impl Variable {
    #[cfg(test)]
    pub(super) fn new(name: &str, value: &str) -> Self {
        Self {
            name: name.to_owned(),
            value: Some(value.to_owned()),
        }
    }

    /// `None`: it is none of ours.
    fn of(name: &OsStr, value: OsString) -> Option<Self> {
        let name = name.to_str()?;
        let is_free = FREE.contains(&name) || FREE_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        (name == PORT || name.starts_with(PREFIX) && !is_free).then(|| Self {
            name: name.to_owned(),
            value: value.into_string().ok(),
        })
    }
}

/// What a variable of another program is that has this prefix by chance: Kubernetes names each service of the namespace so
/// (`HEARTH_SERVICE_HOST`, `HEARTH_PORT_8080_TCP_ADDR`). Only asked of names that are no settings.
pub(super) fn is_of_kubernetes(name: &str, value: &Value) -> bool {
    let is_url = matches!(value, Value::Text(text) if text.contains("://"));
    ["_SERVICE_HOST", "_SERVICE_PORT"]
        .iter()
        .any(|end| name.ends_with(end))
        || name.contains("_SERVICE_PORT_")
        || name.ends_with("_PORT") && is_url
        || name.contains("_PORT_") && ["_TCP", "_UDP", "_SCTP"].iter().any(|part| name.contains(part))
}

/// The variable that sets `key`.
pub(super) fn name_of(key: &str) -> String {
    format!("{PREFIX}{}", as_words(key).to_ascii_uppercase())
}

/// Whether the variable begins as those of a table's keys do.
pub(super) fn is_in_section(name: &str) -> bool {
    SECTIONS
        .iter()
        .any(|section| name.starts_with(&format!("{}_", name_of(section))))
}

/// The key that a variable stands for. `pools` are the names that the file knows.
fn key_of(name: &str, pools: &[String]) -> Option<String> {
    let words = name.strip_prefix(PREFIX)?;
    let lower = words.to_ascii_lowercase();
    if let Some(rest) = lower.strip_prefix("pool_") {
        let named = pools.iter().filter(|pool| {
            let below = rest.strip_prefix(&as_words(pool));
            below.is_some_and(|below| below.starts_with('_'))
        });
        let first = rest.split('_').next().unwrap_or(rest);
        let pool = named.max_by_key(|pool| pool.len()).map_or(first, String::as_str);
        let at = words.len() - rest.len() + pool.len() + 1;
        return Some(match words.get(at..) {
            Some(below) => format!("pool.{pool}.{}", key_of_pool(below)),
            None => format!("pool.{pool}"),
        });
    }
    let of_section = |section: &&&str| {
        let below = lower.strip_prefix(&as_words(section));
        below.is_some_and(|below| below.starts_with('_'))
    };
    let sections = SECTIONS.iter().filter(of_section);
    Some(match sections.max_by_key(|section| section.len()) {
        Some(section) => format!("{section}.{}", lower.get(section.len() + 1..)?),
        None => lower,
    })
}

/// A pool's key. Names of PHP's settings have dots, which are two underscores; names of variables are as they are.
fn key_of_pool(words: &str) -> String {
    let below = |table: &str| {
        let table = table.strip_prefix("pool.web.").unwrap_or(table);
        let (start, rest) = words.split_at_checked(table.len())?;
        let rest = rest.strip_prefix('_')?;
        start
            .eq_ignore_ascii_case(table)
            .then(|| (table.to_owned(), rest))
    };
    if let Some((table, name)) = below(ENV) {
        return format!("{table}.{name}");
    }
    if let Some((table, name)) = below(INI).or_else(|| below(ADMIN_INI)) {
        return format!("{table}.{}", name.to_ascii_lowercase().replace("__", "."));
    }
    match below("rlimits").or_else(|| below("error_pages")) {
        Some((table, name)) => format!("{table}.{}", name.to_ascii_lowercase()),
        None => words.to_ascii_lowercase(),
    }
}

fn as_words(name: &str) -> String {
    name.to_ascii_lowercase().replace(['.', '-'], "_")
}

impl File {
    /// Lays what `variables` say over the file.
    pub(super) fn add_environment(&mut self, variables: &[Variable]) {
        let pools = self.pools();
        for variable in variables.iter().filter(|variable| variable.name != PORT) {
            let origin = Origin::Environment(variable.name.clone());
            let Some(value) = &variable.value else {
                let text = "the value is not UTF-8: write it so, or unset it".to_owned();
                self.problems.push(Problem { origin, text });
                continue;
            };
            let Some(key) = key_of(&variable.name, &pools) else {
                continue;
            };
            // A service called `hearth-pool-api` makes no pool.
            let pool = key.strip_prefix("pool.").and_then(|rest| rest.split('.').next());
            let is_new = pool.is_some_and(|pool| !pools.iter().any(|known| known == pool));
            if !(is_new && is_of_kubernetes(&variable.name, &Value::Text(value.clone()))) {
                self.add_typed(&key, value, &origin);
            }
        }
    }

    /// After all else, since whoever says where to listen goes before `PORT`: a server that is meant for one address, or for FastCGI
    /// alone, must not open another one because its environment has such a variable. All addresses: that is what those mean who
    /// start a server with it.
    pub(super) fn add_port(&mut self, variables: &[Variable]) {
        let port = variables.iter().find(|variable| variable.name == PORT);
        let value = port.and_then(|port| port.value.as_deref()).unwrap_or("").trim();
        let is_said = ["listen", "fastcgi.listen"]
            .iter()
            .any(|key| self.settings.contains_key(*key));
        if value.is_empty() || is_said {
            return;
        }
        // What is no number is an error that names the variable.
        let value = value
            .parse::<u16>()
            .map_or_else(|_| value.to_owned(), |port| format!(":{port}"));
        let setting = Setting {
            value: Value::Text(value),
            typed: None,
            origin: Origin::Environment(PORT.to_owned()),
        };
        self.settings.insert("listen".to_owned(), setting);
    }

    /// Names of the pools that there are settings of.
    fn pools(&self) -> Vec<String> {
        let keys = self.settings.keys().filter_map(|key| key.strip_prefix("pool."));
        let named = keys
            .filter_map(|rest| rest.split_once('.'))
            .map(|(pool, _)| pool.to_owned());
        let mut pools: Vec<String> = named.chain([FIRST_POOL.to_owned()]).collect();
        pools.sort();
        pools.dedup();
        pools
    }
}

/// Which variables hold, for people; their values may be secrets. `strangers` only look like settings.
pub(super) fn reason(origins: &BTreeMap<String, Origin>, strangers: &BTreeSet<String>) -> Option<String> {
    let names: BTreeSet<&str> = origins
        .values()
        .filter_map(|origin| match origin {
            Origin::Environment(name) if !strangers.contains(name) => Some(name.as_str()),
            _ => None,
        })
        .collect();
    let list = names.into_iter().collect::<Vec<_>>().join(", ");
    (!list.is_empty()).then(|| format!("read {list} of the environment"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_names_the_key_that_is_written_like_it() {
        let pools = ["web".to_owned(), "my".to_owned(), "my-app".to_owned()];
        for (name, key) in [
            ("HEARTH_LISTEN", "listen"),
            ("HEARTH_STOP_TIMEOUT", "stop_timeout"),
            ("HEARTH_POOL_WEB_WORKERS", "pool.web.workers"),
            ("HEARTH_POOL_MY_APP_WORKERS", "pool.my-app.workers"),
            ("HEARTH_POOL_MY_WORKERS", "pool.my.workers"),
            ("HEARTH_POOL_API_MIN_WORKERS", "pool.api.min_workers"),
            ("HEARTH_TLS_LISTEN", "tls.listen"),
            ("HEARTH_TLS_ACME_AGREE_TO_TERMS", "tls.acme.agree_to_terms"),
            ("HEARTH_TRUSTED_PROXIES_ADDRESSES", "trusted_proxies.addresses"),
            ("HEARTH_LOG_ACCESS_FILE", "log.access_file"),
            ("HEARTH_POOL_WEB_ENV_App_ENV", "pool.web.env.App_ENV"),
            ("HEARTH_POOL_WEB_INI_MEMORY_LIMIT", "pool.web.ini.memory_limit"),
            (
                "HEARTH_POOL_WEB_ADMIN_INI_OPCACHE__JIT",
                "pool.web.admin_ini.opcache.jit",
            ),
            ("HEARTH_POOL_WEB_RLIMITS_NOFILE", "pool.web.rlimits.nofile"),
            ("HEARTH_POOL_WEB_ERROR_PAGES_404", "pool.web.error_pages.404"),
            ("HEARTH_POOL_WEB", "pool.web"),
        ] {
            assert_eq!(key_of(name, &pools).unwrap_or_default(), key, "{name}");
        }
    }

    #[test]
    fn names_of_others_are_left_alone() {
        let is_ours = |name: &str| Variable::of(OsStr::new(name), OsString::new()).is_some();
        assert!(is_ours("PORT") && is_ours("HEARTH_LISTEN"));
        for name in [
            "HEARTH",
            "hearth_listen",
            "HEARTH_TEST_LISTEN",
            "HEARTH_WORKER",
            "PORTS",
        ] {
            assert!(!is_ours(name), "{name}");
        }
        for name in [
            "HEARTH_SERVICE_HOST",
            "HEARTH_PORT",
            "HEARTH_PORT_8080_TCP_ADDR",
            "HEARTH_LOG_SERVICE_PORT_HTTP",
        ] {
            let value = Value::Text("tcp://10.0.0.1:80".to_owned());
            assert!(is_of_kubernetes(name, &value), "{name}");
        }
        for name in ["HEARTH_POOL_WEB_WORKRES", "HEARTH_PORT"] {
            assert!(!is_of_kubernetes(name, &Value::Integer(80)), "{name}");
        }
    }
}
