//! Which runtime the front controller of a Symfony application runs, and whether that stays resident. Called by `detect`. Runs in:
//! server.

use std::path::Path;

use super::detect::{STAYS, composer, installed, read, shown};

/// First `symfony/runtime` that runs as a resident worker of its own accord when `FRANKENPHP_WORKER` is set.
const RESIDENT_RUNTIME: (u32, u32) = (7, 4);

/// Runtime with which any `symfony/runtime` stays resident.
const HEARTH_RUNTIME: &str = r"Hearth\Bridge\Symfony\Runtime";
/// The one of `symfony/runtime` itself.
const SYMFONY_RUNTIME: &str = r"Symfony\Component\Runtime\SymfonyRuntime";

/// Where the front controller may find the script that chooses the runtime.
const LOADERS: [&str; 2] = ["vendor/autoload_runtime.php", "autoload_runtime.php"];

/// Whether the front controller runs as a resident worker, and why. As in that script of `symfony/runtime`, the variable
/// `APP_RUNTIME` goes before the class that Composer has written into it, from `extra.runtime.class` in composer.json.
pub(super) fn stays_resident(dir: &Path, front: &Path, from_environment: Option<&str>) -> (bool, String) {
    let name = shown(front, dir);
    if !read(front).is_some_and(|text| text.contains("autoload_runtime.php")) {
        let why = format!("{name} does not use autoload_runtime.php; {STAYS}");
        return (false, why);
    }
    if let Some(class) = from_environment {
        return by_class(dir, (class, "APP_RUNTIME"), &name);
    }
    // Composer writes the class as a string; other loaders may import it.
    let names = |loader: &&str, class: &str| {
        read(&dir.join(loader)).is_some_and(|text| text.replace(r"\\", r"\").contains(class))
    };
    if let Some(loader) = LOADERS.into_iter().find(|loader| names(loader, HEARTH_RUNTIME)) {
        return by_class(dir, (HEARTH_RUNTIME, loader), &name);
    }
    let json = composer(dir);
    let class = json
        .as_ref()
        .and_then(|json| json.pointer("/extra/runtime/class")?.as_str());
    match class.map(|class| class.trim_start_matches('\\')) {
        Some(HEARTH_RUNTIME) => {
            let why = format!(
                "composer.json names {HEARTH_RUNTIME}, but {} does not: run `composer dump-autoload`",
                LOADERS[0]
            );
            (false, why)
        }
        Some(class) => by_class(dir, (class, "composer.json"), &name),
        None => by_version(dir, &name),
    }
}

fn by_class(dir: &Path, (class, from): (&str, &str), front: &str) -> (bool, String) {
    match class.trim_start_matches('\\') {
        HEARTH_RUNTIME => (true, format!("{from} names {HEARTH_RUNTIME}")),
        SYMFONY_RUNTIME => by_version(dir, front),
        other => {
            let why = format!(
                "{from} names {other}, of which Hearth does not know that it stays resident; if it does, set `mode` to \"resident\" \
                 and `script` to {front}"
            );
            (false, why)
        }
    }
}

/// Symfony's own runtime.
fn by_version(dir: &Path, front: &str) -> (bool, String) {
    let Some(version) = installed(dir, "symfony/runtime") else {
        let why = format!("symfony/runtime is not installed, so {front} cannot stay resident");
        return (false, why);
    };
    if numbers(&version).is_some_and(|version| version >= RESIDENT_RUNTIME) {
        return (true, format!("symfony/runtime {version} can stay resident"));
    }
    let install = match installed(dir, "hearth/hearth") {
        Some(_) => "",
        None => "install hearth/hearth (php/README.md of Hearth) and ",
    };
    let why = format!(
        "symfony/runtime {version} does not stay resident by itself; {STAYS}, or {install}set APP_RUNTIME = '{HEARTH_RUNTIME}' in [pool.web.env]"
    );
    (false, why)
}

/// Major and minor number of `v7.4.1` or `7.4.x-dev`.
fn numbers(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.trim_start_matches('v').split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}
