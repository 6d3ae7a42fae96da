//! Capabilities of the process that PHP will run in, and how it loses them.
//!
//! The kernel takes them from a process only when that changes from root to another user. A server that is not root has them in its
//! ambient set, where a change of user and an exec keep them.
//!
//! The zygote of another user keeps one or a few that are of no use, as a shield: a process may look into another only if it has all
//! capabilities which that one is permitted (Linux `cap_ptrace_access_check`). So a worker can open its `pagemap`, for which it
//! must be dumpable for a moment, and no process of the same user can use the moment. Then it drops them, too.
//!
//! Runs in: zygote | worker. Called by `setup` and `serve`.

use std::io;

use rustix::process::geteuid;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_keep_capabilities};

/// What shields a zygote. A program that a machine gives one of them has hardly all three; and even where PHP's boot could use them,
/// which it cannot as they are not effective, it could bind ports below 1024 and keep the machine awake.
const SHIELD: CapabilitySet = CapabilitySet::NET_BIND_SERVICE
    .union(CapabilitySet::WAKE_ALARM)
    .union(CapabilitySet::BLOCK_SUSPEND);

/// Whether the process may become any user, with that user's groups, and whether the server, which has the same capabilities, can
/// then still end it.
pub(crate) fn may_change_account() -> io::Result<bool> {
    let needed = CapabilitySet::SETUID | CapabilitySet::SETGID | CapabilitySet::KILL;
    Ok(capabilities(None)?.effective.contains(needed))
}

/// Before a change of user: what the process is permitted stays so.
pub(crate) fn keep_over_change() {
    // Where that is forbidden there is no shield.
    let _ = set_keep_capabilities(true);
}

/// Drops every capability except the shield, unless the process is root's; the shield too if others may look into it.
///
/// The bounding set stays: it gives a process nothing, and without it programs with the set-user-ID bit, such as those that send
/// mail, would not work for PHP as they do under php-fpm.
pub(crate) fn give_up(is_dumpable: bool) -> Result<(), String> {
    let has = capabilities(None).map_err(|error| format!("dropping capabilities: capget: {error}"))?;
    // As above.
    let _ = set_keep_capabilities(false);
    let shield = if is_dumpable {
        CapabilitySet::empty()
    } else {
        SHIELD
    };
    keep_only(has.permitted & shield)
}

/// Drops the shield.
pub(crate) fn give_up_shield() -> Result<(), String> {
    keep_only(CapabilitySet::empty())
}

fn keep_only(permitted: CapabilitySet) -> Result<(), String> {
    if geteuid().is_root() {
        return Ok(());
    }
    let few = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted,
        inheritable: CapabilitySet::empty(),
    };
    // The ambient set holds nothing that is not both permitted and inheritable (capabilities(7)).
    set_capabilities(None, few).map_err(|error| format!("dropping capabilities: capset: {error}"))?;
    let left = capabilities(None).map_err(|error| format!("dropping capabilities: capget: {error}"))?;
    if left == few {
        return Ok(());
    }
    Err(format!("dropping capabilities: the kernel left {left:?}"))
}

/// Makes sure that the process has this user and group alone: the real, the effective and the saved ones.
pub(crate) fn is_entirely(uid: u32, gid: u32) -> Result<(), String> {
    let (mut users, mut groups) = ([u32::MAX; 3], [u32::MAX; 3]);
    let [real, effective, saved] = &mut users;
    // SAFETY: three numbers are written.
    let users_known = unsafe { libc::getresuid(real, effective, saved) } == 0;
    let [real, effective, saved] = &mut groups;
    // SAFETY: as above.
    let groups_known = unsafe { libc::getresgid(real, effective, saved) } == 0;
    if users_known && groups_known && users == [uid; 3] && groups == [gid; 3] {
        return Ok(());
    }
    Err(format!(
        "the kernel left the process with users {users:?} and groups {groups:?}, not with {uid} and {gid}"
    ))
}
