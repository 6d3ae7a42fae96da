//! `hearth reload` and `hearth rollback`: have a running server serve other code, and say what came of it. Runs in: the command.

use std::path::Path;

use anyhow::{Context, anyhow};
use serde::Deserialize;
use serde_json::{Value, json};

use super::status::{print, send};
use super::{Failure, Reloading, Target};
use crate::admin::client::Message;
use crate::admin::{RELOAD, ROLLBACK};
use crate::report::{ReloadOrder, Reloaded};

/// Has the server of `flags` read settings and code anew; returns when requests go to them.
pub(super) fn reload(flags: &Reloading) -> Result<(), Failure> {
    let to = flags.to.as_deref().map(absolute).transpose()?;
    let order = json!(ReloadOrder { to });
    let answer = send(&flags.target, Message::Order(RELOAD, &order))?;
    tell(&flags.target, answer)
}

/// Has the server of `target` return to what it served before.
pub(super) fn rollback(target: &Target) -> Result<(), Failure> {
    let answer = send(target, Message::Order(ROLLBACK, &Value::Null))?;
    tell(target, answer)
}

/// The server has a current folder of its own.
fn absolute(dir: &Path) -> anyhow::Result<String> {
    let path = std::path::absolute(dir).with_context(|| format!("finding {}", dir.display()))?;
    let text = path.into_os_string().into_string();
    text.map_err(|path| anyhow!("{} is not UTF-8; rename the folder", path.display()))
}

fn tell(target: &Target, answer: Value) -> Result<(), Failure> {
    if target.json {
        return print(&format!("{answer:#}\n"));
    }
    let done =
        Reloaded::deserialize(answer).context("reading the server's answer; is it of another version?")?;
    let mut text = format!(
        "generation {} serves {} (PHP {}, booted in {} ms, took over after {:.1} s)\n",
        done.generation, done.dir, done.php_version, done.boot_ms, done.seconds
    );
    for warning in &done.warnings {
        text.push_str("warning: ");
        text.push_str(warning);
        text.push('\n');
    }
    print(&text)
}
