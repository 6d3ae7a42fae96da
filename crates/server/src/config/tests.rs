//! Loading as a whole: precedence, messages word by word, detection, and docs/config.toml.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::*;

mod detect;
mod documented;
mod environment;
mod listen;
mod process;

/// A project folder that is removed at the end of its test.
struct Project(PathBuf);

impl Project {
    fn new(files: &[(&str, &str)]) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // Relaxed: only the uniqueness of the number matters.
        let name = format!(
            "hearth-config-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let dir = std::env::temp_dir().canonicalize().unwrap().join(name);
        std::fs::create_dir(&dir).unwrap();
        let project = Self(dir);
        for (name, text) in files {
            let path = project.0.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        project
    }

    fn sources(&self, set: &[&str]) -> Sources {
        let set = set.iter().map(|&text| text.to_owned()).collect();
        Sources {
            reading: Reading::Disk,
            dir: self.0.clone(),
            set,
            ..Sources::default()
        }
    }

    fn load(&self, set: &[&str]) -> Loaded {
        Config::load(&self.sources(set)).unwrap()
    }

    /// The message, with `DIR` for the project folder.
    fn errors(&self, set: &[&str]) -> String {
        let errors = Config::load(&self.sources(set)).unwrap_err();
        errors.to_string().replace(self.0.to_str().unwrap(), "DIR")
    }

    /// Mode, document root and script, relative to the project folder; and the reasons.
    fn entry(&self, set: &[&str]) -> (Mode, String, Option<String>, Vec<String>) {
        let Loaded { config, reasons, .. } = self.load(set);
        let shown = |path: &Path| path.strip_prefix(&self.0).unwrap().display().to_string();
        (
            config.pools[0].mode,
            shown(&config.pools[0].root),
            config.pools[0].script.as_deref().map(shown),
            reasons,
        )
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn shown(config: &Config) -> String {
    let all: Vec<String> = config.listen.iter().map(Listen::to_string).collect();
    all.join(" ")
}

#[test]
fn an_empty_folder_has_the_defaults() {
    let project = Project::new(&[]);
    let config = project.load(&[]).config;
    let cores = std::thread::available_parallelism().unwrap().get();
    assert_eq!(shown(&config), "127.0.0.1:8080");
    assert_eq!(config.reactors, cores);
    assert_eq!(usize::from(config.pools[0].workers), (2 * cores).clamp(2, 256));
    assert_eq!(config.pools[0].request_timeout, Duration::from_mins(1));
    assert_eq!(config.limits.body_bytes, None);
    assert_eq!(config.dir, project.0);
    assert_eq!(
        config.pools[0].worker_binary.file_name().unwrap(),
        "hearth-worker"
    );
}

#[test]
fn a_flag_overrides_the_file_and_listen_overrides_set() {
    let file = "listen = '127.0.0.1:1'\n[pool.web]\nworkers = 3\nqueue_timeout = '2 min'\n";
    let project = Project::new(&[("hearth.toml", file)]);
    let config = project.load(&[]).config;
    assert_eq!((&*shown(&config), config.pools[0].workers), ("127.0.0.1:1", 3));
    assert_eq!(config.pools[0].queue_timeout, Duration::from_mins(2));

    let mut sources = project.sources(&["pool.web.workers=4", "listen=localhost:2", "pool.web.workers = 5"]);
    let config = Config::load(&sources).unwrap().config;
    assert_eq!((&*shown(&config), config.pools[0].workers), ("127.0.0.1:2", 5));
    sources.listen = Some("[::1]:3".to_owned());
    let loaded = Config::load(&sources).unwrap();
    assert_eq!(shown(&loaded.config), "[::1]:3");
    assert_eq!(
        loaded.reasons[0],
        format!("read {}/hearth.toml", project.0.display())
    );
}

#[test]
fn another_file_can_be_named() {
    let project = Project::new(&[
        ("hearth.toml", "broken ="),
        ("etc/other.toml", "[log]\nformat = 'json'\naccess = false"),
    ]);
    let mut sources = project.sources(&[]);
    sources.file = Some(project.0.join("etc/other.toml"));
    let config = Config::load(&sources).unwrap().config;
    assert_eq!((config.log.format, config.log.access), (LogFormat::Json, false));
}

#[test]
fn a_flag_takes_toml_or_plain_text() {
    let project = Project::new(&[("7/index.php", ""), ("a b.ini", "")]);
    let set = [
        "root=7",
        "limits.body_timeout=5 s",
        "limits.body_bytes=\"1 MiB\"",
        "log.access=false",
        "pool.web.php_ini=a b.ini",
    ];
    let config = project.load(&set).config;
    assert_eq!(config.pools[0].root, project.0.join("7"));
    assert_eq!(config.limits.body_timeout, Duration::from_secs(5));
    assert_eq!(config.limits.body_bytes, Some(ByteSize::mib(1)));
    assert!(!config.log.access);
    assert_eq!(config.pools[0].php_ini, Some(project.0.join("a b.ini")));
    let warmed = project.load(&["pool.web.warmup=requests", "pool.web.warmup_paths=['/a?b=%20c']"]);
    assert_eq!(warmed.config.pools[0].warmup, Warmup::Requests);
    assert_eq!(warmed.config.pools[0].warmup_paths, ["/a?b=%20c"]);
    assert_eq!(project.load(&["pool.web={workers=9}"]).config.pools[0].workers, 9);
}

#[test]
fn all_errors_are_listed_at_once_with_their_lines() {
    let file = "\
listen = \"8080\"
worker = 4

[limits]
header_bytes = \"1 KiB\"
body_timeout = 30
connections = \"many\"
header_cuont = 3

[pool.web]
mode = \"worker\"
isolation = \"process\"
workers = 0
script = \"gone.php\"

[pool.api]
workers = 1

[logs]
level = 3
";
    let project = Project::new(&[("hearth.toml", file)]);
    let expected = "the configuration has 13 errors
  DIR/hearth.toml:1: `listen` is \"8080\": a port alone does not say who may connect: write \"127.0.0.1:8080\" in quotes for this machine, \":8080\" for all
  DIR/hearth.toml:2: unknown key `worker`; did you mean `pool.web.workers`?
  DIR/hearth.toml:5: `limits.header_bytes` is \"1 KiB\": must be from \"8 KiB\" to \"1 MiB\"
  DIR/hearth.toml:6: `limits.body_timeout` is 30: it has no unit; expected a duration such as \"500 ms\", \"30 s\", \"2 min\", \"1 h\" or \"1 d\"
  DIR/hearth.toml:7: `limits.connections` is \"many\": expected a whole number from 1 to 1000000
  DIR/hearth.toml:8: unknown key `limits.header_cuont`; did you mean `limits.header_count`?
  DIR/hearth.toml:11: `pool.web.mode` is \"worker\": expected \"classic\" or \"resident\"
  DIR/hearth.toml:12: `pool.web.isolation` is \"process\": expected \"request\" or \"none\"
  DIR/hearth.toml:13: `pool.web.workers` is 0: must be from 1 to 256
  DIR/hearth.toml:14: `pool.web.script` is \"gone.php\": expected the worker script or front controller, but there is none at DIR/gone.php; paths are relative to DIR
  DIR/hearth.toml:17: pool `api` gets no requests: set `pool.api.hosts` or `pool.api.paths`; what no pool is named for goes to `web`
  DIR/hearth.toml:19: unknown table `[logs]`; did you mean `[log]`?
  --set log.access=perhaps: `log.access` is \"perhaps\": expected true or false";
    assert_eq!(project.errors(&["log.access=perhaps"]), expected);
}

#[test]
fn keys_of_other_pools_are_not_advised_for_the_first_one() {
    let file = "\
[pool.web]
root = \"a\"
dir = \"b\"

[pool.api]
paths = [\"/api/*\"]
";
    let project = Project::new(&[("hearth.toml", file)]);
    let expected = "the configuration has 2 errors
  DIR/hearth.toml:2: unknown key `pool.web.root`; did you mean `root`?
  DIR/hearth.toml:3: `pool.web.dir` is \"b\": `web` runs the project that `hearth serve` is started for, so it has no `dir`; set `root` for another document root";
    assert_eq!(project.errors(&[]), expected);
}

#[test]
fn a_single_error_stands_alone() {
    let project = Project::new(&[]);
    for (set, expected) in [
        (
            "workers=4",
            "--set workers=4: unknown key `workers`; did you mean `pool.web.workers`?",
        ),
        (
            "pool.api.workers=4",
            "--set pool.api.workers=4: pool `api` gets no requests: set `pool.api.hosts` or `pool.api.paths`; what no pool is named for goes to `web`",
        ),
        (
            "tls.certificate=x",
            "--set tls.certificate=x: unknown key `tls.certificate`; did you mean `tls.certificates`?",
        ),
        (
            "limits=5",
            "--set limits=5: `limits` is 5: it is a table; set a key of it, for instance `limits.body_bytes`",
        ),
        (
            "workers",
            "--set workers: expected KEY=VALUE, for instance pool.web.workers=4",
        ),
        (
            "=4",
            "--set =4: expected KEY=VALUE, for instance pool.web.workers=4",
        ),
        (
            "spool_dir=gone",
            "--set spool_dir=gone: `spool_dir` is \"gone\": expected a folder, but there is none at DIR/gone; paths are relative to DIR",
        ),
        (
            "reactors=1.5",
            "--set reactors=1.5: `reactors` is a number with a fraction: expected a whole number from 1 to 32",
        ),
        (
            "stop_timeout=2 h",
            "--set stop_timeout=2 h: `stop_timeout` is \"2 h\": must be from \"0 s\" to \"1 h\"",
        ),
        (
            "pool.web.mode=resident",
            "--set pool.web.mode=resident: `pool.web.mode` is \"resident\", but no worker script was found; set \
             `pool.web.script` to a script that calls hearth_handle_request()",
        ),
    ] {
        assert_eq!(project.errors(&[set]), expected);
    }
}

#[test]
fn paths_that_no_request_can_have_warm_nothing() {
    let project = Project::new(&[]);
    for (set, expected) in [
        (
            "pool.web.warmup=always",
            "--set pool.web.warmup=always: `pool.web.warmup` is \"always\": expected \"clean\" or \"requests\" or \"none\"",
        ),
        (
            "pool.web.warmup_paths=['/', 'login']",
            "--set pool.web.warmup_paths=['/', 'login']: `pool.web.warmup_paths` is [\"/\", \"login\"]: \"login\" is no path \
             of a URL: expected for instance \"/\" or \"/search?q=a\", percent-encoded, at most 512 bytes",
        ),
        (
            "pool.web.warmup_paths=[]",
            "--set pool.web.warmup_paths=[]: `pool.web.warmup_paths` is []: expected 1 to 16 paths; to warm nothing set \
             `pool.web.warmup` to \"none\"",
        ),
        (
            "pool.web.warmup_paths=[1]",
            "--set pool.web.warmup_paths=[1]: `pool.web.warmup_paths` is a list: expected a list of strings",
        ),
    ] {
        assert_eq!(project.errors(&[set]), expected);
    }
}

#[test]
fn broken_toml_is_reported_with_the_other_errors() {
    let project = Project::new(&[(
        "hearth.toml",
        "reactors = 0\nlisten = \nroot = 'a\n[pool.web]\nworkers = 0\nworkers = 1\n",
    )]);
    let errors = project.errors(&[]);
    for part in [
        "hearth.toml:1: `reactors` is 0: must be",
        "hearth.toml:2: reading TOML: ",
        "hearth.toml:3: reading TOML: ",
        "hearth.toml:6: reading TOML: duplicate key",
    ] {
        assert!(errors.contains(part), "{part} in {errors}");
    }
    assert!(
        !errors.contains("`listen` is"),
        "no second error about a broken line: {errors}"
    );
}

#[test]
fn an_unclosed_table_is_one_error() {
    let errors_of = |header: &str| {
        let text = format!("{header}\npath = '*'\nworkers = 2\n[log]\nlevel = 'x'\n");
        Project::new(&[("hearth.toml", &text)]).errors(&[])
    };
    for header in ["[pool.web", "[pool.api"] {
        let errors = errors_of(header);
        assert!(
            errors.starts_with("the configuration has 2 errors") && errors.contains("toml:5: `log.level`"),
            "{errors}"
        );
    }
    let errors = errors_of("[[pool.web.rules]");
    assert!(
        errors.contains("toml:1: reading TOML: unclosed") && !errors.contains('\n'),
        "{errors}"
    );
}

#[test]
fn a_port_without_an_address_is_told_how_to_write_both() {
    let text = "listen = 8081\nadmin_listen = 8082\n[fastcgi]\nlisten = 8083\n[tls]\nlisten = 8084\n";
    let errors = Project::new(&[("hearth.toml", text)]).errors(&[]);
    for port in 8081..8085 {
        assert!(
            errors.contains(&format!("write \"127.0.0.1:{port}\" in quotes")),
            "{errors}"
        );
    }
}

#[test]
fn a_missing_folder_and_a_missing_file_say_what_to_do() {
    let sources = Sources {
        dir: "/nonexistent/app".into(),
        ..Sources::default()
    };
    assert_eq!(
        Config::load(&sources).unwrap_err().to_string(),
        "/nonexistent/app: opening the project folder: No such file or directory (os error 2); name the folder of a PHP application"
    );
    let project = Project::new(&[]);
    let mut sources = project.sources(&[]);
    sources.file = Some("/nonexistent/h.toml".into());
    assert_eq!(
        Config::load(&sources).unwrap_err().to_string(),
        "/nonexistent/h.toml: reading the configuration file: No such file or directory (os error 2); name a readable TOML file with --config"
    );
}

#[test]
fn the_ready_line_names_address_workers_mode_and_php() {
    let project = Project::new(&[]);
    let address = &[Listen {
        place: Place::Tcp("127.0.0.1:4711".parse().unwrap()),
        protocol: Protocol::Http,
    }];
    let line = project
        .load(&["pool.web.workers=4"])
        .config
        .ready_line(address, "8.2.31");
    assert_eq!(
        line,
        "hearth: ready on http://127.0.0.1:4711 (4 workers, classic, PHP 8.2.31)"
    );
    let line = project
        .load(&["pool.web.workers=1"])
        .config
        .ready_line(address, "8.2.31");
    assert_eq!(
        line,
        "hearth: ready on http://127.0.0.1:4711 (1 worker, classic, PHP 8.2.31)"
    );
}

#[test]
fn a_setting_that_has_another_name_by_now_is_told_it() {
    let file = "[proxy]\ntrusted = ['127.0.0.1']\nheaders = []\n";
    let expected = "DIR/hearth.toml:1: the table `[proxy]` is `[trusted_proxies]` by now, and its key `trusted` is `addresses`";
    assert_eq!(Project::new(&[("hearth.toml", file)]).errors(&[]), expected);
    let project = Project::new(&[]);
    for (set, now) in [
        (
            "proxy.trusted=unix",
            "`proxy.trusted` is `trusted_proxies.addresses` by now",
        ),
        (
            "proxy.protocol=true",
            "`proxy.protocol` is `trusted_proxies.protocol` by now",
        ),
    ] {
        assert_eq!(project.errors(&[set]), format!("--set {set}: {now}"));
    }
}

#[test]
fn proxies_and_rates_are_read() {
    let project = Project::new(&[]);
    let set = [
        "trusted_proxies.addresses=['private', '192.0.2.7', 'unix']",
        "trusted_proxies.headers=['Forwarded']",
    ];
    let proxy = project.load(&set).config.trusted_proxies;
    assert!(proxy.trusts(None) && proxy.trusts(Some([10, 1, 2, 3].into())));
    assert!(proxy.trusts(Some([192, 0, 2, 7].into())));
    assert!(!proxy.trusts(Some([11, 0, 0, 0].into())));
    assert_eq!(proxy.headers, [ProxyHeader::Forwarded]);
    assert!(project.load(&[]).config.rate.is_none());
    let rate = project
        .load(&["rate.requests=5", "rate.key=header:X-Api-Key"])
        .config
        .rate;
    let rate = rate.unwrap();
    assert_eq!((rate.burst, rate.period), (5, Duration::from_secs(1)));
    assert_eq!(rate.key, RateKey::Header("x-api-key".parse().unwrap()));
    for (set, expected) in [
        (
            "trusted_proxies.addresses=localhost",
            "--set trusted_proxies.addresses=localhost: `trusted_proxies.addresses` is [\"localhost\"]: \"localhost\": expected an \
             address or a network, for instance \"10.0.0.7\", \"10.0.0.0/8\" or \"fd00::/8\"; \"private\" for all private networks; or \"unix\" for clients over unix sockets",
        ),
        (
            "trusted_proxies.headers=['via']",
            "--set trusted_proxies.headers=['via']: `trusted_proxies.headers` is [\"via\"]: \"via\" is none of forwarded, x-forwarded-for, \
             x-forwarded-proto, x-forwarded-host, x-forwarded-port, x-real-ip",
        ),
        (
            "rate.key=cookie",
            "--set rate.key=cookie: `rate.key` is \"cookie\": expected \"address\", or \"header:NAME\", for instance \
             \"header:X-Api-Key\"",
        ),
    ] {
        assert_eq!(project.errors(&[set]), expected);
    }
}
