//! Rights that files of a pool are read with: those of the user that PHP runs as, and no more.
//!
//! A server that may become any user would else read whatever a link of a script leads to. On Linux each thread has credentials of its
//! own. A reactor takes those of the pool whose paths it is about to touch, and keeps them until it touches another pool's: a server
//! with one user pays nothing for it, and what is forgotten reads too little rather than too much. Only the effective ids change, so
//! the thread can change them again. What is the server's own is opened within [`as_server`].
//!
//! Called by `config`, `edge` and `dispatch`. Runs in: server; [`Rights::assume`] on reactors and their blocking threads alone.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use ipc::account::{self, Account};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use rustix::process::{Gid, Uid, getegid, geteuid, getgroups};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

/// Time that a file system has for what the main thread wants to know of files of a pool.
const PATIENCE: Duration = Duration::from_secs(3);

/// Whose rights a pool's files are read with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Rights {
    /// The server's: PHP runs as its user.
    #[default]
    Server,
    /// A user's.
    Of(Arc<Account>),
    /// Nobody's: the system does not know the user or the group, for this reason. Such a pool is not booted.
    Unknown(Arc<str>),
}

/// What a thread reads files with.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Held {
    /// These.
    Rights(Rights),
    /// Nobody can say: parts of several, or those of a pool whose thread started this one.
    Mixed,
}

/// Every account that PHP runs as on this server.
static ACCOUNTS: Mutex<Vec<Arc<Account>>> = Mutex::new(Vec::new());
/// The server's own. Set before the first thread changes.
static SERVER: OnceLock<Account> = OnceLock::new();

thread_local! {
    /// What this thread has; `None`: not known yet.
    static NOW: RefCell<Option<Held>> = const { RefCell::new(None) };
}

/// Whether this process may act as other users: then it must not trust what they can bend.
pub(crate) fn is_privileged() -> bool {
    // Permitted: a thread that acts as another user has none in effect.
    geteuid().is_root() || capabilities(None).is_ok_and(|has| has.permitted.contains(CapabilitySet::SETUID))
}

/// Whether PHP runs as a member of this group.
pub(crate) fn is_group_of_pools(gid: u32) -> bool {
    let accounts = ACCOUNTS.lock().unwrap_or_else(PoisonError::into_inner);
    accounts.iter().any(|account| account.groups.contains(&gid))
}

impl Rights {
    /// Those of the processes of a pool with this `user` and `group`. Called before the first thread changes.
    pub(crate) fn of_pool(user: Option<&str>, group: Option<&str>) -> Self {
        let permitted = capabilities(None).map_or(CapabilitySet::empty(), |has| has.permitted);
        let needed = CapabilitySet::SETUID | CapabilitySet::SETGID;
        if user.is_none() && group.is_none() || !permitted.contains(needed) {
            return Self::Server;
        }
        match account::named(user, group) {
            Ok(Some(account)) if account.uid != 0 => Self::register(account),
            Ok(_) => Self::Server,
            Err(why) => Self::Unknown(why.into()),
        }
    }

    fn register(account: Account) -> Self {
        SERVER.get_or_init(|| Account {
            uid: geteuid().as_raw(),
            gid: getegid().as_raw(),
            groups: getgroups()
                .unwrap_or_default()
                .into_iter()
                .map(Gid::as_raw)
                .collect(),
        });
        let mut accounts = ACCOUNTS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = accounts.iter().find(|known| ***known == account) {
            return Self::Of(Arc::clone(known));
        }
        let account = Arc::new(account);
        accounts.push(Arc::clone(&account));
        Self::Of(account)
    }

    /// Has this thread read files with these rights from now on.
    pub(crate) fn assume(&self) -> io::Result<()> {
        if let Self::Unknown(why) = self {
            return Err(unknown(why));
        }
        NOW.with_borrow_mut(|now| {
            let now = now.get_or_insert_with(Held::of_thread);
            if matches!(now, Held::Rights(rights) if rights == self) {
                return Ok(());
            }
            *now = Held::Mixed;
            self.take()?;
            *now = Held::Rights(self.clone());
            Ok(())
        })
    }

    /// Opens a file of a pool to be read. A pipe that has taken its place is not waited for.
    ///
    /// A link of `/proc/self/fd` leads nowhere: the kernel lets a process through it to all that the process has open, shared memory
    /// among it, whatever the rights of the thread (proc(5), openat2(2)).
    pub(crate) fn open(&self, path: &Path) -> io::Result<File> {
        self.assume()?;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let opened = match openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS) {
            Err(Errno::LOOP) => return Err(io::ErrorKind::NotFound.into()),
            // Linux before 5.6, or a sandbox that does not know the call.
            Err(Errno::NOSYS | Errno::PERM) => rustix::fs::open(path, flags, Mode::empty()),
            opened => opened,
        };
        Ok(opened?.into())
    }

    /// Calls `act`, which reads below `place`, on a thread with these rights: for the main thread, which keeps its own, and waits
    /// for no file system that does not answer.
    pub(crate) fn lend<T: Send + 'static>(
        &self,
        place: &Path,
        act: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        self.lend_within(PATIENCE, place, act)
    }

    fn lend_within<T: Send + 'static>(
        &self,
        patience: Duration,
        place: &Path,
        act: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let (rights, (reply, answer)) = (self.clone(), mpsc::channel());
        let with_rights = move || {
            // Nobody may be left who waits.
            let _ = reply.send(rights.assume().map(|()| act()));
        };
        // The kernel ends a thread that still hangs with the process.
        std::thread::Builder::new()
            .name("files".to_owned())
            .spawn(with_rights)?;
        answer.recv_timeout(patience).unwrap_or_else(|error| {
            Err(match error {
                RecvTimeoutError::Timeout => no_answer(place, patience),
                RecvTimeoutError::Disconnected => {
                    io::Error::other("the thread that was to read it has panicked")
                }
            })
        })
    }

    /// Those of the first account that PHP runs as.
    fn first() -> Self {
        let accounts = ACCOUNTS.lock().unwrap_or_else(PoisonError::into_inner);
        accounts
            .first()
            .map_or(Self::Server, |account| Self::Of(Arc::clone(account)))
    }

    fn take(&self) -> io::Result<()> {
        let (Some(server), same) = (SERVER.get(), None::<Uid>) else {
            return Ok(());
        };
        let account = match self {
            Self::Server => server,
            Self::Of(account) => account,
            Self::Unknown(why) => return Err(unknown(why)),
        };
        // The server's user first: with it come the capabilities that the rest takes.
        set_thread_res_uid(same, Uid::from_raw(server.uid), same)?;
        put_in_effect(server, CapabilitySet::all())?;
        let groups: Vec<Gid> = account.groups.iter().copied().map(Gid::from_raw).collect();
        set_thread_groups(&groups)?;
        set_thread_res_gid(None::<Gid>, Gid::from_raw(account.gid), None::<Gid>)?;
        if *self != Self::Server {
            set_thread_res_uid(same, Uid::from_raw(account.uid), same)?;
            put_in_effect(server, CapabilitySet::SETUID | CapabilitySet::SETGID)?;
        }
        Ok(())
    }
}

impl Held {
    /// What a thread begins with: what the thread has that started it.
    fn of_thread() -> Self {
        Self::of(geteuid(), getegid(), SERVER.get())
    }

    fn of(user: Uid, group: Gid, server: Option<&Account>) -> Self {
        match server {
            Some(server) if (user.as_raw(), group.as_raw()) != (server.uid, server.gid) => Self::Mixed,
            _ => Self::Rights(Rights::Server),
        }
    }
}

fn no_answer(place: &Path, patience: Duration) -> io::Error {
    let why = format!(
        "nothing was read at or below {} within {patience:?}: a file system there does not answer; find it with `findmnt`, \
         repair or unmount that, then reload",
        place.display()
    );
    io::Error::new(io::ErrorKind::TimedOut, why)
}

fn unknown(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

/// Has no other capabilities than `wanted` count, of those that the server has. For root the kernel does it as the user changes.
fn put_in_effect(server: &Account, wanted: CapabilitySet) -> io::Result<()> {
    if server.uid == 0 {
        return Ok(());
    }
    let has = capabilities(None)?;
    let effective = has.permitted & wanted;
    Ok(set_capabilities(None, CapabilitySets { effective, ..has })?)
}

/// Calls `act` with the server's own rights: for what is the server's, on a thread that may have a pool's.
pub(crate) fn as_server<T>(act: impl FnOnce() -> T) -> io::Result<T> {
    let before = NOW.with_borrow_mut(|now| now.get_or_insert_with(Held::of_thread).clone());
    let before = match before {
        Held::Rights(Rights::Server) => return Ok(act()),
        Held::Rights(rights) => rights,
        // A reactor's new thread has those of some pool, which one matters to nobody.
        Held::Mixed => Rights::first(),
    };
    Rights::Server.assume()?;
    let done = act();
    before.assume()?;
    Ok(done)
}

/// Has a reactor's thread begin with a pool's rights rather than the server's.
pub(crate) fn begin_reactor() -> io::Result<()> {
    Rights::first().assume()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_begins_as_the_server_only_with_its_user_and_its_group() {
        let server = Account {
            uid: 1,
            gid: 2,
            groups: vec![3],
        };
        let begins = |user, group, server| Held::of(Uid::from_raw(user), Gid::from_raw(group), server);
        let as_server = Held::Rights(Rights::Server);
        assert_eq!(begins(1, 2, Some(&server)), as_server);
        assert_eq!(begins(4, 2, Some(&server)), Held::Mixed);
        assert_eq!(begins(1, 4, Some(&server)), Held::Mixed);
        // Nobody else's rights were ever taken.
        assert_eq!(begins(4, 4, None), as_server);
    }

    #[test]
    fn the_rights_of_an_unknown_user_are_refused_each_time() {
        let unknown = Rights::Unknown("there is no such user".into());
        for _ in 0..2 {
            let refused = unknown.assume().map_err(|error| error.kind());
            assert_eq!(refused, Err(io::ErrorKind::PermissionDenied));
        }
        assert!(unknown.lend(Path::new("/"), || ()).is_err());
        // The thread keeps what it had.
        assert!(Rights::Server.assume().is_ok());
    }

    #[test]
    fn a_file_system_that_does_not_answer_is_not_waited_for() {
        let (_keep, never) = mpsc::channel::<()>();
        let patience = Duration::from_millis(10);
        let lent = Rights::Server.lend_within(patience, Path::new("/srv/shop"), move || never.recv().is_ok());
        let error = lent.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(
            error.to_string().contains("below /srv/shop within 10ms"),
            "{error}"
        );
        assert_eq!(Rights::Server.lend(Path::new("/"), || 1).unwrap(), 1);
    }
}
