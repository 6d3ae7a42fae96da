//! `hearth stop`: end a running server, and return when it is gone. Runs in: the command.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::Deserialize;
use serde_json::json;

use super::status::{print, send};
use super::{Ending, Failure};
use crate::admin::client::Message;
use crate::admin::{HEALTH, STOP};
use crate::report::{Health, StopOrder, Stopping, pid_namespace};

/// What a server may take beyond what it gives its requests: its processes end.
const MARGIN: Duration = Duration::from_secs(30);

/// Has the server of `flags` stop; returns when its process has ended.
pub(super) fn stop(flags: &Ending) -> Result<(), Failure> {
    let since = Instant::now();
    // Before it ends: by then its number may be another's.
    let health = Health::deserialize(send(&flags.target, Message::Ask(HEALTH))?).context(STRANGE)?;
    let process = open(health.pid);
    let order = json!(StopOrder { now: flags.now });
    let answer = send(&flags.target, Message::Order(STOP, &order))?;
    let told = Stopping::deserialize(answer).context(STRANGE)?;
    let pid = told.pid;
    let most = Duration::try_from_secs_f64(told.seconds).unwrap_or_default() + MARGIN;
    // Elsewhere the id is that of somebody else.
    let is_seen = health.pid == pid && told.pid_namespace == pid_namespace();
    let Some(process) = process.filter(|_| is_seen) else {
        return tell(flags, pid, None);
    };
    if !has_ended(&process, most)? {
        return Err(Failure::Run(anyhow!(
            "pid {pid} was told to stop and has not ended after {} s: its log says what it waits for; `hearth stop --now` ends what runs",
            since.elapsed().as_secs()
        )));
    }
    tell(flags, pid, Some(since.elapsed()))
}

/// `took` is until its end, if that was seen.
fn tell(flags: &Ending, pid: u32, took: Option<Duration>) -> Result<(), Failure> {
    let seconds = took.map(|took| took.as_secs_f64());
    if flags.target.json {
        return print(&format!("{:#}\n", json!({ "pid": pid, "seconds": seconds })));
    }
    print(&match seconds {
        Some(seconds) => format!("stopped: pid {pid} has ended, after {seconds:.1} s\n"),
        None => format!("told to stop: pid {pid}, whose end cannot be seen from here\n"),
    })
}

const STRANGE: &str = "reading the server's answer; is it of another version?";

/// `None`: it cannot be seen from here, as from outside its container.
fn open(pid: u32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// Waits for the end of a process; false: it has not come within `most`.
fn has_ended(process: &OwnedFd, most: Duration) -> anyhow::Result<bool> {
    let until = Instant::now() + most;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).context("waiting for the server's end")?;
        match poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&left)) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error).context("waiting for the server's end"),
        }
    }
}
