//! What the settings of a pool make of its process before PHP starts: cgroup, limits, priority, umask, environment, user.
//!
//! Workers are forked from it and inherit all of it. What takes privileges comes before they are given up. Errors begin with the
//! setting. Runs in: zygote. Called by `zygote`.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use ipc::account::{self, Account};
use ipc::control::{Process, Resource};
use rustix::fs::Mode;
use rustix::process::{Rlimit, geteuid};

use crate::{privileges, process};

/// Applies them all. The process has one thread.
pub(crate) fn apply(settings: &Process) -> Result<(), String> {
    if let Some(folder) = &settings.cgroup {
        join(Path::new(folder)).map_err(|error| {
            format!(
                "cgroup = \"{folder}\": writing cgroup.procs: {error}; expected the folder of a cgroup of version 2 in which \
                 hearth may write"
            )
        })?;
    }
    for &(resource, limit) in &settings.rlimits {
        let rlimit = Rlimit {
            current: limit,
            maximum: limit,
        };
        rustix::process::setrlimit(kernels(resource), rlimit).map_err(|error| {
            let name = format!("{resource:?}").to_lowercase();
            let limit = limit.map_or_else(|| "unlimited".to_owned(), |limit| limit.to_string());
            format!("rlimits.{name} = {limit}: {error}; only root can raise a limit")
        })?;
    }
    if let Some(nice) = settings.nice {
        rustix::process::setpriority_process(None, nice)
            .map_err(|error| format!("nice = {nice}: {error}; only root can go below what hearth has"))?;
    }
    if let Some(umask) = settings.umask {
        rustix::process::umask(Mode::from_raw_mode(umask));
    }
    let account = account::named(settings.user.as_deref(), settings.group.as_deref())?;
    set_environment(settings, account.is_some());
    if let Some(account) = account {
        let who = match (&settings.user, &settings.group) {
            (Some(user), _) => format!("user = \"{user}\""),
            (None, group) => format!("group = \"{}\"", group.as_deref().unwrap_or_default()),
        };
        change_to(&account).map_err(|why| format!("{who}: {why}"))?;
    }
    privileges::give_up(settings.dumpable)?;
    // PHP and the application are no concern of other processes of the user, nor of what a script starts.
    process::set_dumpable(settings.dumpable).map_err(|error| format!("prctl: {error}"))
}

fn join(cgroup: &Path) -> io::Result<()> {
    if std::fs::canonicalize(cgroup)? != cgroup {
        return Err(io::Error::other("the path leads over a link"));
    }
    let me = rustix::process::getpid().as_raw_nonzero().to_string();
    // One that is not there is not made: that would be a file like any other.
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .open(cgroup.join("cgroup.procs"))?;
    // Anywhere else it would be a file that belongs to somebody. The numbers are those of linux/magic.h: version 2, version 1.
    if !matches!(rustix::fs::fstatfs(&file)?.f_type, 0x6367_7270 | 0x0027_e0eb) {
        return Err(io::Error::other("the folder is no cgroup"));
    }
    io::Write::write_all(&mut file, me.as_bytes())
}

const fn kernels(resource: Resource) -> rustix::process::Resource {
    match resource {
        Resource::As => rustix::process::Resource::As,
        Resource::Core => rustix::process::Resource::Core,
        Resource::Cpu => rustix::process::Resource::Cpu,
        Resource::Data => rustix::process::Resource::Data,
        Resource::Fsize => rustix::process::Resource::Fsize,
        Resource::Memlock => rustix::process::Resource::Memlock,
        Resource::Nofile => rustix::process::Resource::Nofile,
        Resource::Nproc => rustix::process::Resource::Nproc,
        Resource::Stack => rustix::process::Resource::Stack,
    }
}

fn set_environment(settings: &Process, other_user: bool) {
    // First, since a value may be one that is removed.
    let values: Vec<(&str, OsString)> = settings
        .env
        .iter()
        .filter_map(|(name, value)| Some((&**name, value_of(value)?)))
        .collect();
    let removed: Vec<OsString> = if settings.clear_env {
        std::env::vars_os().map(|(name, _)| name).collect()
    } else if other_user {
        // Those of root; PHP's start adds those of the user (`sapi/variables.c`).
        ["USER", "HOME", "LOGNAME"].map(OsString::from).to_vec()
    } else {
        Vec::new()
    };
    for name in removed {
        // SAFETY: one thread, and nobody holds a pointer into the environment.
        unsafe { std::env::remove_var(name) };
    }
    for (name, value) in values {
        // SAFETY: as above.
        unsafe { std::env::set_var(name, value) };
    }
}

/// `$NAME` stands for the value of a variable, if there is one.
fn value_of(value: &str) -> Option<OsString> {
    let is_name = |name: &&str| {
        let is_part = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        !name.is_empty() && name.bytes().all(is_part)
    };
    match value.strip_prefix('$').filter(is_name) {
        Some(name) => std::env::var_os(name),
        None => Some(value.into()),
    }
}

fn change_to(account: &Account) -> Result<(), String> {
    let &Account { uid, gid, ref groups } = account;
    let may_change = privileges::may_change_account().map_err(|error| format!("capget: {error}"))?;
    if !may_change && uid == geteuid().as_raw() && gid == rustix::process::getegid().as_raw() {
        return Ok(());
    }
    if !may_change {
        return Err("running PHP as another user takes CAP_SETUID, CAP_SETGID and CAP_KILL: start hearth as root or with \
                    these three, or leave the setting out"
            .to_owned());
    }
    // The user last: after that nothing of this is permitted.
    // SAFETY: so many numbers are read; with one thread this call and those below change the whole process.
    succeed("setgroups", unsafe {
        libc::setgroups(groups.len(), groups.as_ptr())
    })?;
    // SAFETY: touches no memory.
    succeed("setresgid", unsafe { libc::setresgid(gid, gid, gid) })?;
    privileges::keep_over_change();
    // SAFETY: as above.
    succeed("setresuid", unsafe { libc::setresuid(uid, uid, uid) })?;
    privileges::is_entirely(uid, gid)?;
    // Another user costs a process its end with the server (prctl(2)).
    process::die_with_parent().map_err(|error| format!("prctl: {error}"))
}

fn succeed(call: &str, result: libc::c_int) -> Result<(), String> {
    if result == 0 {
        return Ok(());
    }
    Err(format!("{call}: {}", io::Error::last_os_error()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_is_no_cgroup_is_neither_entered_nor_written() {
        let folder = std::env::temp_dir().join(format!("hearth-cgroup-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let (real, link) = (folder.join("real"), folder.join("link"));
        fs::create_dir(&real).unwrap();
        fs::write(real.join("cgroup.procs"), "").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        for (path, expected) in [(&link, "leads over a link"), (&real, "is no cgroup")] {
            let said = join(path).unwrap_err().to_string();
            assert!(said.contains(expected), "{said}");
        }
        assert_eq!(fs::read_to_string(real.join("cgroup.procs")).unwrap(), "");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_value_may_be_that_of_a_variable() {
        let path = std::env::var_os("PATH");
        assert!(path.is_some());
        for (value, expected) in [
            ("$PATH", path),
            ("$HEARTH_NO_SUCH_VARIABLE", None),
            ("$", Some("$".into())),
            ("$a-b", Some("$a-b".into())),
            ("cost: $5", Some("cost: $5".into())),
        ] {
            assert_eq!(value_of(value), expected, "{value}");
        }
    }
}
