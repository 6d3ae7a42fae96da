//! The ini files that PHP has read, and what to warn of where they hide errors from you or show them to clients.
//!
//! Called when a zygote has booted, and by `app` for `hearth check`. Runs in: server, and the command.

use ipc::control::Ini;
use tracing::warn;

use super::Booted;
use crate::report;

/// For `hearth status`, `hearth check` and the log.
pub(crate) fn report(ini: &Ini) -> report::Ini {
    report::Ini {
        loaded: ini.loaded.clone(),
        scanned: ini.scanned.clone(),
    }
}

/// Settings that only development wants, and what to do about them.
pub(crate) fn complaints(pool: &str, ini: &Ini) -> Vec<(&'static str, String)> {
    let hint = |name: &str, value: &str, word: &str| {
        let file = ini.loaded.as_deref().unwrap_or("a php.ini");
        format!("set {name} = \"{value}\" in [pool.{pool}.ini], or {name} = {word} in {file}")
    };
    let mut complaints = Vec::new();
    if ini.display_errors {
        let hint = hint("display_errors", "0", "Off");
        complaints.push(("PHP shows errors to clients", hint));
    }
    if !ini.log_errors {
        let hint = hint("log_errors", "1", "On");
        complaints.push(("PHP does not log errors", hint));
    }
    complaints
}

/// Why nothing may be in the log of what PHP found wrong.
pub(super) fn hint(booted: &Booted) -> Option<String> {
    match &booted.ini {
        Ini {
            log_errors: false, ..
        } => Some("log_errors is off".to_owned()),
        Ini {
            error_log: Some(file),
            ..
        } => Some(format!("PHP logs to {file} (error_log)")),
        _ => None,
    }
}

/// Logs them.
pub(super) fn warn(pool: &str, ini: &Ini) {
    for (message, hint) in complaints(pool, ini) {
        warn!(pool, hint, "{message}");
    }
}
