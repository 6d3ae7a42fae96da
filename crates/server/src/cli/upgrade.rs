//! `hearth upgrade`: have the binary that is on disk by now take the place of a running server. Runs in: the command.

use anyhow::Context;
use serde::Deserialize;
use serde_json::Value;

use super::status::{print, send};
use super::{Failure, Target};
use crate::admin::UPGRADE;
use crate::admin::client::Message;
use crate::report::Upgraded;

/// Returns when another server has taken over from that of `target`.
pub(super) fn upgrade(target: &Target) -> Result<(), Failure> {
    let answer = send(target, Message::Order(UPGRADE, &Value::Null))?;
    if target.json {
        return print(&format!("{answer:#}\n"));
    }
    let done =
        Upgraded::deserialize(answer).context("reading the server's answer; is it of another version?")?;
    print(&format!(
        "pid {} serves, after {:.1} s; pid {} finishes its requests\n",
        done.pid, done.seconds, done.former_pid
    ))
}
