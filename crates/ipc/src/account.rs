//! Users and groups of the system, by name or number.
//!
//! The zygote becomes the user of its pool, and the server reads the pool's files with that user's rights: both must mean the same.
//! Names are looked up as the system says (nsswitch.conf). Runs in: server | zygote.

use std::ffi::{CStr, CString};
use std::io;

/// A user as the kernel knows one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Number of the user.
    pub uid: u32,
    /// Number of the group.
    pub gid: u32,
    /// Every group, `gid` among them.
    pub groups: Vec<u32>,
}

/// Most groups of a user (`NGROUPS_MAX`).
const GROUPS: usize = 65_536;
/// Bytes for the fields of an entry, at first and at most.
const ENTRY: usize = 1024;
const LARGEST_ENTRY: usize = 1 << 20;

/// An entry of the table of users.
struct User {
    uid: u32,
    gid: u32,
    name: CString,
}

/// The account of a pool whose settings name `user` and `group`; `None` where they leave the process as it is. The error begins with
/// the setting.
pub fn named(user: Option<&str>, group: Option<&str>) -> Result<Option<Account>, String> {
    let gid = match group {
        None => None,
        Some(name) => Some(group_named(name).map_err(|why| format!("group = \"{name}\": {why}"))?),
    };
    let Some(name) = user else {
        let uid = rustix::process::geteuid().as_raw();
        return Ok(gid.map(|gid| alone(uid, gid)));
    };
    let account = of_user(name, gid).map_err(|why| format!("user = \"{name}\": {why}"))?;
    Ok(Some(account))
}

/// `gid`: instead of the user's own.
fn of_user(text: &str, gid: Option<u32>) -> Result<Account, String> {
    let name = CString::new(text).map_err(|error| error.to_string())?;
    let by_name = user(|entry, buffer, found| {
        // SAFETY: the name ends with a NUL; the pointers are those of `user`.
        unsafe { libc::getpwnam_r(name.as_ptr(), entry, buffer.as_mut_ptr(), buffer.len(), found) }
    })?;
    if let Some(entry) = by_name {
        return with_groups(&entry, gid);
    }
    let uid: u32 = text
        .parse()
        .map_err(|_| "there is no such user; create it, or name one that `getent passwd` lists")?;
    match (numbered(uid)?, gid) {
        (Some(entry), gid) => with_groups(&entry, gid),
        (None, Some(gid)) => Ok(alone(uid, gid)),
        (None, None) => Err("nobody has this number, so `group` must be set as well".to_owned()),
    }
}

/// The name of a user, if it has one.
pub fn name_of(uid: u32) -> Option<String> {
    let user = numbered(uid).ok()??;
    user.name.into_string().ok()
}

fn numbered(uid: u32) -> Result<Option<User>, String> {
    user(|entry, buffer, found| {
        // SAFETY: the pointers are those of `user`.
        unsafe { libc::getpwuid_r(uid, entry, buffer.as_mut_ptr(), buffer.len(), found) }
    })
}

fn alone(uid: u32, gid: u32) -> Account {
    Account {
        uid,
        gid,
        groups: vec![gid],
    }
}

/// Asks for an entry with more and more room, until it has enough.
fn user(
    mut ask: impl FnMut(*mut libc::passwd, &mut [libc::c_char], *mut *mut libc::passwd) -> libc::c_int,
) -> Result<Option<User>, String> {
    let mut buffer: Vec<libc::c_char> = vec![0; ENTRY];
    loop {
        let mut entry = std::mem::MaybeUninit::<libc::passwd>::zeroed();
        let mut found = std::ptr::null_mut();
        let error = ask(entry.as_mut_ptr(), &mut buffer, &raw mut found);
        if error == libc::ERANGE && buffer.len() < LARGEST_ENTRY {
            buffer.resize(buffer.len() * 4, 0);
            continue;
        }
        // SAFETY: null, or `entry`, which the call has filled then.
        let Some(entry) = (unsafe { found.as_ref() }) else {
            return not_found(error).map(|()| None);
        };
        // SAFETY: the name of an entry ends with a NUL; it lies in `buffer`.
        let name = unsafe { CStr::from_ptr(entry.pw_name) };
        return Ok(Some(User {
            uid: entry.pw_uid,
            gid: entry.pw_gid,
            name: name.to_owned(),
        }));
    }
}

/// Whether `error` says that there is no such entry, for which there are several numbers (getpwnam(3)).
fn not_found(error: libc::c_int) -> Result<(), String> {
    match error {
        0 | libc::ENOENT | libc::ESRCH | libc::EBADF | libc::EPERM => Ok(()),
        error => Err(format!(
            "the system cannot look it up: {}; see with `getent passwd` and `getent group` which source of /etc/nsswitch.conf fails",
            io::Error::from_raw_os_error(error)
        )),
    }
}

/// What initgroups(3) would make the groups of a process.
fn with_groups(user: &User, gid: Option<u32>) -> Result<Account, String> {
    let gid = gid.unwrap_or(user.gid);
    let mut groups = vec![0; 64];
    loop {
        let mut count = libc::c_int::try_from(groups.len()).unwrap_or(libc::c_int::MAX);
        // SAFETY: the name ends with a NUL; at most `count` numbers are written, for which there is room.
        let fits =
            unsafe { libc::getgrouplist(user.name.as_ptr(), gid, groups.as_mut_ptr(), &raw mut count) } >= 0;
        if fits {
            groups.truncate(usize::try_from(count).unwrap_or(0));
            return Ok(Account {
                uid: user.uid,
                gid,
                groups,
            });
        }
        if groups.len() >= GROUPS {
            return Err("it has too many groups".to_owned());
        }
        groups.resize(groups.len() * 4, 0);
    }
}

/// The number of a group.
pub fn group_named(text: &str) -> Result<u32, String> {
    let name = CString::new(text).map_err(|error| error.to_string())?;
    let mut buffer: Vec<libc::c_char> = vec![0; ENTRY];
    let (found, error) = loop {
        let mut entry = std::mem::MaybeUninit::<libc::group>::zeroed();
        let mut found = std::ptr::null_mut();
        // SAFETY: the name ends with a NUL, `buffer` has the length that is named, and the rest is written to.
        let error = unsafe {
            libc::getgrnam_r(
                name.as_ptr(),
                entry.as_mut_ptr(),
                buffer.as_mut_ptr(),
                buffer.len(),
                &raw mut found,
            )
        };
        if error != libc::ERANGE || buffer.len() >= LARGEST_ENTRY {
            // SAFETY: null, or `entry`, which the call has filled then.
            break (unsafe { found.as_ref() }.map(|entry| entry.gr_gid), error);
        }
        buffer.resize(buffer.len() * 4, 0);
    };
    if let Some(gid) = found.or_else(|| text.parse().ok()) {
        return Ok(gid);
    }
    not_found(error)?;
    Err("there is no such group; create it, or name one that `getent group` lists".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_groups_have_names_or_numbers() {
        for text in ["root", "0"] {
            let account = named(Some(text), None).unwrap().unwrap();
            assert_eq!((account.uid, account.gid), (0, 0));
            assert!(account.groups.contains(&0));
            assert_eq!(group_named(text), Ok(0));
        }
        assert_eq!(
            named(Some("123456789"), Some("7")).unwrap(),
            Some(alone(123_456_789, 7))
        );
        assert_eq!(named(None, None), Ok(None));
        assert_eq!(
            (name_of(0).as_deref(), name_of(123_456_789)),
            (Some("root"), None)
        );
        assert!(
            named(Some("no such user"), None)
                .unwrap_err()
                .starts_with("user = \"no such user\": ")
        );
        assert!(
            named(Some("root"), Some("no such group"))
                .unwrap_err()
                .starts_with("group = ")
        );
        assert!(
            named(Some("123456789"), None)
                .unwrap_err()
                .contains("`group` must be set")
        );
    }
}
