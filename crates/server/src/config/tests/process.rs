//! Settings of PHP and of the processes of a pool.

use super::*;

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
            "`pool.web.cgroup` is \"web\": expected a folder below /sys/fs/cgroup, without",
        ),
        (
            "cgroup=/sys/fs/cgroup",
            "`pool.web.cgroup` is \"/sys/fs/cgroup\": expected a folder below",
        ),
        (
            "cgroup=/sys/fs/cgroup/../../../srv",
            "`pool.web.cgroup` is \"/sys/fs/cgroup/../../../srv\": expected a folder below",
        ),
        (
            "cgroup=/sys/fs/cgroups/web",
            "`pool.web.cgroup` is \"/sys/fs/cgroups/web\": expected a folder below",
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
        (
            "max_age=5",
            "`pool.web.max_age` is 5: it has no unit; expected a duration",
        ),
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
