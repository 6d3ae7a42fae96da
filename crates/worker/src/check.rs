//! Looks whether a pool could serve here: what its process is to be, PHP's settings, the entry script.
//!
//! Goes the way of a boot as far as that can be gone without running the application or leaving anything behind. Runs in: zygote,
//! one that ends then; [`unknown_settings`] in each. Called by `zygote`.

use ipc::control::{Boot, FromZygote, Ini, MAX_REPORTED};

use crate::host;
use crate::php::{self, Php};
use crate::setup;
use crate::warm::Silence;
use crate::zygote::{c_string, start_php};

/// Behind the pool's own settings: nothing of the application runs, and no file is written.
const HARMLESS: &str = "\
opcache.preload=
opcache.file_cache=
opcache.file_cache_only=0
session.auto_start=0
error_log=
";
/// Bytes of a text about a problem: all of them together are one message.
const TEXT_MAX: usize = 2048;
/// Names in ini files that load an extension, and are no settings.
const LOADERS: [&str; 2] = ["extension", "zend_extension"];

/// Everything that would keep the pool from serving, with PHP's version.
pub(crate) fn check(boot: &Boot) -> FromZygote {
    let (mut problems, mut ini) = (Vec::new(), Ini::default());
    if let Err(why) = setup::apply(&boot.process) {
        problems.push(format!("pool.{}.{why}", boot.pool));
    }
    if let Err(error) = std::env::set_current_dir(&boot.dir) {
        problems.push(format!("changing to {}: {error}", boot.dir));
    }
    match start_php(boot, &format!("{}{HARMLESS}", boot.ini)) {
        Ok(mut php) => {
            ini = php.ini();
            problems.extend(unknown_settings(&php, boot));
            problems.extend(syntax_error(&mut php, boot));
        }
        Err(why) => problems.push(why),
    }
    problems.truncate(MAX_REPORTED);
    for text in &mut problems {
        text.truncate(text.floor_char_boundary(TEXT_MAX));
    }
    FromZygote::Checked {
        php_version: php::version().to_owned(),
        ini,
        problems,
    }
}

/// The pool's ini settings that PHP does not have.
pub(crate) fn unknown_settings(php: &Php<Silence>, boot: &Boot) -> Vec<String> {
    let unknown = boot.ini_keys.iter().filter(|key| {
        let (_, name) = key.split_once('.').unwrap_or(("", key));
        !LOADERS.contains(&name) && !c_string(name).is_ok_and(|name| php.has_setting(&name))
    });
    let said = |key: &String| {
        format!(
            "pool.{}.{key}: PHP {} has no such setting; see its spelling, and that the extension which has it is loaded",
            boot.pool,
            php::version()
        )
    };
    unknown.map(said).collect()
}

/// What PHP says against the entry script.
fn syntax_error(php: &mut Php<Silence>, boot: &Boot) -> Option<String> {
    let script = boot.script.as_deref()?;
    // What PHP has said before is not about this script.
    host::take_boot_errors();
    if php.compiles(&c_string(script).ok()?) {
        return None;
    }
    let said = host::take_boot_errors();
    Some(if said.is_empty() {
        format!("PHP cannot compile {script}")
    } else {
        said
    })
}
