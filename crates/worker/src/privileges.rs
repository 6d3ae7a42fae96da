//! Capabilities of the process that PHP will run in, and how it loses them.
//!
//! The kernel takes them from a process only when that changes from root to another user. A server that is not root has them in its
//! ambient set, where a change of user and an exec keep them. Runs in: zygote. Called by `setup`.

use std::io;

use rustix::process::geteuid;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

/// Whether the process may become any user, with that user's groups, and whether the server, which has the same capabilities, can
/// then still end it.
pub(crate) fn may_change_account() -> io::Result<bool> {
    let needed = CapabilitySet::SETUID | CapabilitySet::SETGID | CapabilitySet::KILL;
    Ok(capabilities(None)?.effective.contains(needed))
}

/// Drops every capability, unless the process is root's. The bounding set stays: it gives a process nothing, and without it programs
/// with the set-user-ID bit, such as those that send mail, would not work for PHP as they do under php-fpm.
pub(crate) fn give_up() -> Result<(), String> {
    if geteuid().is_root() {
        return Ok(());
    }
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    // The ambient set holds nothing that is not both permitted and inheritable (capabilities(7)).
    set_capabilities(None, none).map_err(|error| format!("dropping capabilities: capset: {error}"))?;
    let left = capabilities(None).map_err(|error| format!("dropping capabilities: capget: {error}"))?;
    if left == none {
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
