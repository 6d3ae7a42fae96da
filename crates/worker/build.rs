//! Builds the C side (`sapi/`) against the PHP that `php-config` names, and links that PHP's library.
//!
//! `PHP_CONFIG` chooses the `php-config`; without it `php-config8.2` is tried, then `php-config`. `HEARTH_SANITIZE=address` (or
//! `address,undefined`) has the C watched by the compiler's sanitizers, see bench/README.md.

use std::env;
use std::path::Path;
use std::process::Command;

const SOURCES: &[&str] = &[
    "sapi.c",
    "headers.c",
    "request.c",
    "session.c",
    "classic.c",
    "once.c",
    "front.c",
    "reads.c",
    "child.c",
    "isolated.c",
    "image.c",
    "ask.c",
    "stack.c",
    "opcache.c",
    "thrown.c",
    "suspects.c",
    "variables.c",
    "superglobals.c",
    "input.c",
    "filter.c",
    "leaks.c",
    "leaks_process.c",
    "leaks_values.c",
    "user_ini.c",
    "functions.c",
    "warm.c",
    "carry.c",
    "switch.S",
];
/// Stand in front of the C library, so they are there before anything else is.
const INTERPOSERS: &[&str] = &["interpose.c", "semaphores.c", "waits.c", "signals.c"];
const HEADERS: &[&str] = &[
    "sapi.h",
    "context.h",
    "compat.h",
    "leaks.h",
    "functions_arginfo.h",
];

fn main() -> Result<(), String> {
    println!("cargo::rerun-if-env-changed=PHP_CONFIG");
    let php = PhpConfig::find()?;
    let version = php.ask("--version")?;
    let includes = php.ask("--includes")?;

    let mut build = cc::Build::new();
    build
        .std("gnu11")
        .pic(true)
        .warnings(true)
        .extra_warnings(true)
        .warnings_into_errors(true);
    build.define("_GNU_SOURCE", None).flag("-Wno-unused-parameter");
    for include in includes.split_whitespace() {
        build.flag(include);
    }
    if mentions(&includes, "zend_globals.h", "delayed_oom") {
        build.define("HEARTH_HAVE_DELAYED_OOM", None);
    }
    if mentions(&includes, "zend_alloc.h", "refresh_memory_manager") {
        build.define("HEARTH_HAVE_HEAP_KEY", None);
    }
    if mentions(&includes, "php_main.h", "php_child_init") {
        build.define("HEARTH_HAVE_CHILD_INIT", None);
    }
    // Unwatched: the sanitizer's own calls come through them, some before it is ready.
    build
        .clone()
        .files(INTERPOSERS.iter().map(|source| Path::new("sapi").join(source)))
        .try_compile("hearth_interpose")
        .map_err(|error| error.to_string())?;
    sanitize(&mut build)?;
    for source in SOURCES {
        build.file(Path::new("sapi").join(source));
    }
    for file in SOURCES.iter().chain(HEADERS).chain(INTERPOSERS) {
        println!("cargo::rerun-if-changed=sapi/{file}");
    }
    build
        .try_compile("hearth_sapi")
        .map_err(|error| error.to_string())?;

    println!("cargo::rustc-link-arg-bins=-l:{}", library(&version)?);
    // Nothing may be bound lazily once a worker's memory is an image of the zygote's.
    println!("cargo::rustc-link-arg-bins=-Wl,-z,now");
    Ok(())
}

/// Has the compiler watch the C, if that is asked for.
fn sanitize(build: &mut cc::Build) -> Result<(), String> {
    println!("cargo::rerun-if-env-changed=HEARTH_SANITIZE");
    println!("cargo::rustc-check-cfg=cfg(sanitized)");
    let wanted = env::var("HEARTH_SANITIZE").unwrap_or_default();
    for sanitizer in wanted.split(',').filter(|name| !name.is_empty()) {
        build.flag(format!("-fsanitize={sanitizer}"));
        match sanitizer {
            // Not an argument: this comes before the C library. Shared, so that its memory is put back like all other.
            "address" => println!("cargo::rustc-link-lib=dylib=asan"),
            // Its runtime would report elsewhere; a trap is reported by the other one, if that is there.
            "undefined" => {
                build.flag("-fsanitize-undefined-trap-on-error");
            }
            _ => {
                return Err(format!(
                    "HEARTH_SANITIZE={wanted}: it takes address and undefined"
                ));
            }
        }
    }
    if !wanted.is_empty() {
        println!("cargo::rustc-cfg=sanitized");
        build.flag("-fno-omit-frame-pointer").flag("-g");
    }
    Ok(())
}

/// `8.2.36` => `libphp8.2.so`, as Debian names the embeddable library.
fn library(version: &str) -> Result<String, String> {
    let mut numbers = version.split('.');
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) => Ok(format!("libphp{major}.{minor}.so")),
        _ => Err(format!(
            "php-config answers {version:?} to --version; a number such as 8.2.36 is needed"
        )),
    }
}

/// Some fields and functions came inside a minor version, so the headers are asked rather than the version.
fn mentions(includes: &str, header: &str, word: &str) -> bool {
    includes
        .split_whitespace()
        .filter_map(|flag| flag.strip_prefix("-I"))
        .any(|folder| {
            std::fs::read_to_string(Path::new(folder).join(header)).is_ok_and(|text| text.contains(word))
        })
}

struct PhpConfig(String);

impl PhpConfig {
    fn find() -> Result<Self, String> {
        let candidates = match env::var("PHP_CONFIG") {
            Ok(chosen) => vec![chosen],
            Err(_) => vec!["php-config8.2".to_owned(), "php-config".to_owned()],
        };
        match candidates
            .iter()
            .find(|program| run(program, "--version").is_some())
        {
            Some(program) => Ok(Self(program.clone())),
            None => Err(format!(
                "none of {candidates:?} can be run: install PHP's development files (Debian: php8.2-dev) or set PHP_CONFIG"
            )),
        }
    }

    fn ask(&self, option: &str) -> Result<String, String> {
        run(&self.0, option).ok_or_else(|| format!("{} {option} failed", self.0))
    }
}

fn run(program: &str, option: &str) -> Option<String> {
    let output = Command::new(program)
        .arg(option)
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    String::from_utf8(output.stdout)
        .ok()
        .map(|text| text.trim().to_owned())
}
