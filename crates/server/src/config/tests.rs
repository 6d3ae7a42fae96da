//! Loading as a whole: precedence, messages word by word, detection, and docs/config.toml.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::*;

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
        let Loaded { config, reasons } = self.load(set);
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

#[test]
fn an_empty_folder_has_the_defaults() {
    let project = Project::new(&[]);
    let config = project.load(&[]).config;
    let cores = std::thread::available_parallelism().unwrap().get();
    assert_eq!(shown(&config), "127.0.0.1:8080");
    assert_eq!(config.reactors, cores);
    assert_eq!(usize::from(config.pools[0].workers), (2 * cores).clamp(2, 256));
    assert_eq!(config.pools[0].request_timeout, Duration::from_mins(1));
    assert_eq!(config.limits.body_bytes, ByteSize::gib(1));
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

/// Everything that is listened at.
fn shown(config: &Config) -> String {
    let all: Vec<String> = config.listen.iter().map(Listen::to_string).collect();
    all.join(" ")
}

#[test]
fn there_may_be_several_listeners_and_unix_sockets() {
    let file = "listen = ['127.0.0.1:0', '127.0.0.1:0', 'unix:var/a.sock', 'unix:/run/b.sock']";
    let project = Project::new(&[("hearth.toml", file)]);
    let config = project.load(&[]).config;
    let expected = format!(
        "127.0.0.1:0 127.0.0.1:0 unix:{}/var/a.sock unix:/run/b.sock",
        project.0.display()
    );
    assert_eq!(shown(&config), expected);
    assert_eq!(
        config.ready_line(&config.listen[2..], "8.2.0"),
        format!(
            "hearth: ready on http://unix:{}/var/a.sock and http://unix:/run/b.sock ({} workers, classic, PHP 8.2.0)",
            project.0.display(),
            config.pools[0].workers
        )
    );
    for (setting, why) in [
        ("listen=[]", "at least one"),
        ("listen=['127.0.0.1:1', '127.0.0.1:1']", "twice"),
        ("listen='unix:'", "the path of a socket"),
        ("listen=['127.0.0.1:1', 'x']", "\"x\": expected ADDRESS:PORT"),
    ] {
        let errors = project.errors(&[setting]);
        assert!(errors.contains(why), "{setting}: {errors}");
    }
}

#[test]
fn fastcgi_is_listened_for_beside_http_or_in_its_place() {
    let project = Project::new(&[]);
    let config = project.load(&["fastcgi.listen=127.0.0.1:9000"]).config;
    assert_eq!(shown(&config), "fastcgi://127.0.0.1:9000");
    let config = project
        .load(&[
            "fastcgi.listen=['unix:/run/a', '127.0.0.1:0']",
            "listen=127.0.0.1:1",
        ])
        .config;
    assert_eq!(
        shown(&config),
        "127.0.0.1:1 fastcgi://unix:/run/a fastcgi://127.0.0.1:0"
    );
    let root = project.load(&["fastcgi.socket_group=root"]).config.fastcgi;
    assert_eq!(root.socket_group, Some(0));
    assert_eq!(
        root.allowed[0].contains("127.9.9.9".parse().unwrap()),
        !root.allowed[0].contains("128.0.0.1".parse().unwrap())
    );
    let other = project
        .load(&[
            "fastcgi.socket_group=33",
            "fastcgi.allowed=['10.0.0.0/8']",
            "fastcgi.limit_extensions=[]",
        ])
        .config
        .fastcgi;
    assert_eq!(
        (
            other.socket_group,
            other.allowed.len(),
            other.limit_extensions.len()
        ),
        (Some(33), 1, 0)
    );
    for (setting, why) in [
        (
            "fastcgi.allowed=['10.0.0.1/8']",
            "expected an address or a network",
        ),
        (
            "fastcgi.socket_group=no-such-group",
            "a name that is in /etc/group",
        ),
        ("fastcgi.listen=9000", "expected"),
    ] {
        let errors = project.errors(&[setting]);
        assert!(errors.contains(why), "{setting}: {errors}");
    }
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
    assert_eq!(config.limits.body_bytes, ByteSize::mib(1));
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
  DIR/hearth.toml:1: `listen` is \"8080\": expected ADDRESS:PORT, for instance \"127.0.0.1:8080\", \"0.0.0.0:80\" or \"[::]:8080\"; or \"unix:PATH\"
  DIR/hearth.toml:2: unknown key `worker`; did you mean `pool.web.workers`?
  DIR/hearth.toml:5: `limits.header_bytes` is \"1 KiB\": must be from \"8 KiB\" to \"1 MiB\"
  DIR/hearth.toml:6: `limits.body_timeout` is 30: expected a duration such as \"500 ms\", \"30 s\", \"2 min\" or \"1 h\"
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

const RUNTIME_INDEX: &str = "<?php require_once dirname(__DIR__).'/vendor/autoload_runtime.php';";

fn symfony(installed: &str) -> Project {
    Project::new(&[
        ("config/bundles.php", ""),
        ("public/index.php", RUNTIME_INDEX),
        ("vendor/composer/installed.json", installed),
    ])
}

#[test]
fn symfony_with_a_runtime_of_7_4_is_resident() {
    let project = symfony(r#"{"packages": [{"name": "symfony/runtime", "version": "v7.4.1"}]}"#);
    let (mode, root, script, reasons) = project.entry(&[]);
    assert_eq!(
        (mode, root.as_str(), script.as_deref()),
        (Mode::Resident, "public", Some("public/index.php"))
    );
    assert_eq!(
        reasons,
        [
            "found config/bundles.php: a Symfony application",
            "symfony/runtime v7.4.1 can stay resident: resident mode with public/index.php"
        ]
    );
}

#[test]
fn symfony_with_an_older_runtime_is_classic_and_told_how_to_become_resident() {
    let runtime = r#"{"name": "symfony/runtime", "version": "v6.4.3"}"#;
    let project = symfony(&format!("[{runtime}]"));
    let (mode, root, script, reasons) = project.entry(&[]);
    assert_eq!(
        (mode, root.as_str(), script.as_deref()),
        (Mode::Classic, "public", Some("public/index.php"))
    );
    assert_eq!(
        reasons[1],
        "symfony/runtime v6.4.3 cannot stay resident by itself; install hearth/hearth and set extra.runtime.class in \
         composer.json to Hearth\\Bridge\\Symfony\\Runtime"
    );
    assert_eq!(
        reasons[2],
        "classic mode; URLs that name no file go to public/index.php"
    );

    let project = symfony(&format!(
        r#"[{runtime}, {{"name": "hearth/hearth", "version": "0.1.0"}}]"#
    ));
    let (mode, _, _, reasons) = project.entry(&[]);
    assert_eq!(mode, Mode::Classic);
    assert!(
        reasons[1].contains("by itself; set extra.runtime.class"),
        "{reasons:?}"
    );
}

#[test]
fn symfony_whose_loader_names_our_runtime_is_resident() {
    for (loader, text) in [
        (
            "vendor/autoload_runtime.php",
            r"<?php $class = $_ENV['APP_RUNTIME'] ?? 'Hearth\\Bridge\\Symfony\\Runtime';",
        ),
        (
            "autoload_runtime.php",
            r"<?php use Hearth\Bridge\Symfony\Runtime;",
        ),
    ] {
        let project = Project::new(&[
            ("config/bundles.php", ""),
            ("public/index.php", RUNTIME_INDEX),
            (loader, text),
        ]);
        let (mode, _, script, reasons) = project.entry(&[]);
        assert_eq!(
            (mode, script.as_deref()),
            (Mode::Resident, Some("public/index.php"))
        );
        assert_eq!(
            reasons[1],
            format!("{loader} names Hearth\\Bridge\\Symfony\\Runtime: resident mode with public/index.php")
        );
    }
}

#[test]
fn symfony_is_known_by_composer_and_its_version_by_installed_php() {
    let project = Project::new(&[
        (
            "composer.json",
            r#"{"require": {"symfony/framework-bundle": "7.*"}}"#,
        ),
        ("public/index.php", RUNTIME_INDEX),
        (
            "vendor/composer/installed.php",
            "<?php return array('versions' => array('symfony/runtime' => array(\n 'pretty_version' => 'v8.0.2',",
        ),
    ]);
    let (mode, _, _, reasons) = project.entry(&[]);
    assert_eq!(mode, Mode::Resident);
    assert_eq!(
        reasons[0],
        "found composer.json with symfony/framework-bundle: a Symfony application"
    );
}

#[test]
fn laravel_is_resident_with_the_worker_of_octane() {
    let project = Project::new(&[
        ("artisan", ""),
        ("public/index.php", ""),
        ("public/frankenphp-worker.php", ""),
    ]);
    let (mode, root, script, reasons) = project.entry(&[]);
    assert_eq!(
        (mode, root.as_str(), script.as_deref()),
        (Mode::Resident, "public", Some("public/frankenphp-worker.php"))
    );
    assert_eq!(
        reasons,
        [
            "found artisan: a Laravel application",
            "found public/frankenphp-worker.php of Octane: resident mode with it"
        ]
    );

    let project = Project::new(&[("artisan", ""), ("public/index.php", "")]);
    let (mode, _, script, _) = project.entry(&[]);
    assert_eq!(
        (mode, script.as_deref()),
        (Mode::Classic, Some("public/index.php"))
    );
}

#[test]
fn wordpress_is_classic_with_its_index() {
    let project = Project::new(&[("wp-includes/version.php", ""), ("index.php", "")]);
    let (mode, root, script, reasons) = project.entry(&[]);
    assert_eq!(
        (mode, root.as_str(), script.as_deref()),
        (Mode::Classic, "", Some("index.php"))
    );
    assert_eq!(
        reasons,
        [
            "found wp-includes/version.php: WordPress",
            "classic mode; URLs that name no file go to index.php"
        ]
    );
}

#[test]
fn a_worker_script_is_resident_whatever_stands_beside_it() {
    let worker = "<?php while (hearth_handle_request($f)) {}";
    let project = Project::new(&[("worker.php", worker), ("public/index.php", "")]);
    let (mode, root, script, reasons) = project.entry(&[]);
    assert_eq!(
        (mode, root.as_str(), script.as_deref()),
        (Mode::Resident, "public", Some("worker.php"))
    );
    assert_eq!(
        reasons[1],
        "found worker.php, which calls hearth_handle_request(): resident mode with worker.php"
    );

    let project = Project::new(&[("worker.php", "<?php echo 1;"), ("public/index.php", "")]);
    assert_eq!(project.entry(&[]).0, Mode::Classic);
}

#[test]
fn plain_files_are_classic() {
    for (files, root, script) in [
        (
            &["public/index.php", "index.php"][..],
            "public",
            Some("public/index.php"),
        ),
        (&["index.php", "public/style.css"][..], "", Some("index.php")),
        (&["public/info.php"][..], "public", None),
        (&["info.php"][..], "", None),
    ] {
        let files: Vec<(&str, &str)> = files.iter().map(|&name| (name, "")).collect();
        let (mode, found_root, found_script, _) = Project::new(&files).entry(&[]);
        assert_eq!(
            (mode, found_root.as_str(), found_script.as_deref()),
            (Mode::Classic, root, script)
        );
    }
}

#[test]
fn what_is_set_wins_over_what_is_found() {
    let worker = "<?php while (frankenphp_handle_request($f)) {}";
    let project = Project::new(&[("worker.php", worker), ("index.php", ""), ("web/index.php", "")]);
    assert_eq!(
        project.entry(&["pool.web.mode=classic"]).2.as_deref(),
        Some("index.php")
    );
    let (mode, root, script, reasons) = project.entry(&["pool.web.script=./index.php", "root=web"]);
    assert_eq!(
        (mode, root.as_str(), script.as_deref()),
        (Mode::Classic, "web", Some("index.php"))
    );
    assert_eq!(
        reasons,
        [
            "as set: script index.php; it is no worker script: classic mode",
            "as set: document root web"
        ]
    );
    let (mode, _, script, _) = project.entry(&["pool.web.mode=resident"]);
    assert_eq!((mode, script.as_deref()), (Mode::Resident, Some("worker.php")));
    let (mode, _, script, _) = project.entry(&["pool.web.mode=classic", "root=web"]);
    assert_eq!((mode, script.as_deref()), (Mode::Classic, Some("web/index.php")));
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
fn phps_own_settings_may_have_any_name() {
    let text = "[pool.web.ini]\nmemory_limit = \"256M\"\nopcache.jit = \"tracing\"\n\"opcache.jit_buffer_size\" = 1048576\n";
    let project = Project::new(&[("index.php", ""), ("hearth.toml", text)]);
    let mut ini = project.load(&["pool.web.ini.display_errors=0"]).config.pools[0]
        .ini
        .clone();
    ini.sort();
    let ini: Vec<(&str, &str)> = ini
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let expected = [
        ("display_errors", "0"),
        ("memory_limit", "256M"),
        ("opcache.jit", "tracing"),
        ("opcache.jit_buffer_size", "1048576"),
    ];
    assert_eq!(ini, expected);
}

#[test]
fn a_pool_has_processes_of_its_own() {
    let text = "[pool.web]\nuser = 'www-data'\numask = '027'\nnice = 5\nclear_env = true\nmin_workers = 1\n\
                [pool.web.rlimits]\nnofile = 1024\ncore = 'unlimited'\nas = '2 GiB'\ncpu = '1 min'\n\
                [pool.web.env]\nAPP_ENV = 'prod'\nDEBUG = false\n\
                [pool.web.admin_ini]\nmemory_limit = '1G'\n";
    let project = Project::new(&[("index.php", ""), ("hearth.toml", text)]);
    let pool = project.load(&[]).config.pools.remove(0);
    let process = &pool.process;
    assert_eq!(process.user.as_deref(), Some("www-data"));
    assert_eq!(
        (process.umask, process.nice, process.clear_env),
        (Some(0o27), 5, true)
    );
    let limits = format!("{:?}", process.rlimits);
    let expected = "[(As, Some(2147483648)), (Core, None), (Cpu, Some(60)), (Nofile, Some(1024))]";
    assert_eq!(limits, expected);
    let text = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(process.env, [text("APP_ENV", "prod"), text("DEBUG", "0")]);
    assert_eq!(pool.admin_ini, [text("memory_limit", "1G")]);
}

#[test]
fn what_no_process_can_have_is_refused() {
    let project = Project::new(&[]);
    // Of any pool.
    let errors = project.errors(&[
        "pool.api.paths=/api/*",
        "pool.api.env.A=1",
        "pool.api.rlimits.cpu=x",
    ]);
    assert!(
        errors.starts_with("--set pool.api.rlimits.cpu=x: `pool.api.rlimits.cpu` is \"x\": "),
        "{errors}"
    );
    for (set, expected) in [
        (
            "umask=99",
            "`pool.web.umask` is \"99\": expected octal digits from",
        ),
        ("user=", "`pool.web.user` is \"\": expected a name or a number"),
        (
            "chdir=gone",
            "`pool.web.chdir` is \"gone\": expected a folder, but there is none at DIR/gone",
        ),
        ("nice=20", "`pool.web.nice` is 20: must be from -20 to 19"),
        (
            "cgroup=web",
            "`pool.web.cgroup` is \"web\": expected the absolute path of a folder",
        ),
        (
            "rlimits.files=9",
            "`pool.web.rlimits.files` is \"9\": no such limit; there are as, core",
        ),
        (
            "rlimits.nofile=9",
            "`pool.web.rlimits.nofile` is \"9\": expected a number from 64",
        ),
        (
            "rlimits.as=much",
            "`pool.web.rlimits.as` is \"much\": expected a size such as",
        ),
        (
            "rlimits.cpu=500 ms",
            "`pool.web.rlimits.cpu` is \"500 ms\": expected a duration of whole",
        ),
        ("max_age=5", "`pool.web.max_age` is 5: expected a duration"),
        ("environment.A=5", "unknown key `pool.web.environment.A`"),
    ] {
        let errors = project.errors(&[&format!("pool.web.{set}")]);
        assert!(errors.contains(expected), "{errors}");
    }
    let errors = project.errors(&["pool.web.workers=2", "pool.web.min_workers=3"]);
    assert!(
        errors.contains("`pool.web.min_workers` is 3: must be from 1 to 2"),
        "{errors}"
    );
}

const DOCUMENTED: &str = include_str!("../../../../docs/config.toml");

#[test]
fn the_documented_settings_are_the_defaults() {
    let documented = Project::new(&[("hearth.toml", DOCUMENTED)]);
    let mut with_file = documented.load(&[]).config;
    std::fs::remove_file(documented.0.join("hearth.toml")).unwrap();
    let without = documented.load(&[]).config;
    with_file.dir.clone_from(&without.dir);
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

#[test]
fn proxies_and_rates_are_read() {
    let project = Project::new(&[]);
    let set = [
        "proxy.trusted=['10.0.0.0/8', 'unix']",
        "proxy.headers=['Forwarded']",
    ];
    let proxy = project.load(&set).config.proxy;
    assert!(proxy.trusts(None) && proxy.trusts(Some([10, 1, 2, 3].into())));
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
            "proxy.trusted=localhost",
            "--set proxy.trusted=localhost: `proxy.trusted` is [\"localhost\"]: \"localhost\": expected an address or a network, for \
             instance \"10.0.0.7\", \"10.0.0.0/8\" or \"fd00::/8\"; or \"unix\" for clients over unix sockets",
        ),
        (
            "proxy.headers=['via']",
            "--set proxy.headers=['via']: `proxy.headers` is [\"via\"]: \"via\" is none of forwarded, x-forwarded-for, \
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
