//! Rights that files of a pool are read with: those of the user that PHP runs as, and no more.
//!
//! A server that may become any user would else read whatever a link of a script leads to. On Linux each thread has credentials of its
//! own. A reactor takes those of the pool whose paths it is about to touch, and keeps them until it touches another pool's: a server
//! with one user pays nothing for it, and what is forgotten reads too little rather than too much. Only the effective ids change, so
//! the thread can change them again. What is the server's own is opened within [`as_server`].
//!
//! Called by `config`, `edge` and `dispatch`. Runs in: server; [`Rights::assume`] on reactors and their blocking threads alone.

use std::cell::RefCell;
use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use ipc::account::{self, Account};
use rustix::process::{Gid, Uid, getegid, geteuid, getgroups};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

/// Whose rights a pool's files are read with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Rights {
    /// The server's: PHP runs as its user.
    #[default]
    Server,
    /// A user's.
    Of(Arc<Account>),
    /// Nobody's: there is no such user, which the zygote says as well.
    Unknown,
}

/// Every account that PHP runs as on this server.
static ACCOUNTS: Mutex<Vec<Arc<Account>>> = Mutex::new(Vec::new());
/// The server's own. Set before the first thread changes.
static SERVER: OnceLock<Account> = OnceLock::new();

thread_local! {
    /// What this thread has; `None`: not known yet.
    static NOW: RefCell<Option<Rights>> = const { RefCell::new(None) };
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
            Err(_) => Self::Unknown,
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
        NOW.with_borrow_mut(|now| {
            let now = now.get_or_insert_with(Self::of_thread);
            if now == self {
                return Ok(());
            }
            // Between the calls below a thread has neither.
            *now = Self::Unknown;
            self.take()?;
            now.clone_from(self);
            Ok(())
        })
    }

    /// Calls `act` on a thread with these rights: for the main thread, which keeps its own.
    pub(crate) fn lend<T: Send>(&self, act: impl FnOnce() -> T + Send) -> io::Result<T> {
        if *self == Self::Server {
            return Ok(act());
        }
        let with_rights = || self.assume().map(|()| act());
        std::thread::scope(|scope| scope.spawn(with_rights).join())
            .unwrap_or_else(|_| Err(io::Error::other("the thread that was to read it has panicked")))
    }

    /// Those that a thread begins with, which are those of the thread that it was started by.
    fn of_thread() -> Self {
        match SERVER.get() {
            Some(server) if geteuid().as_raw() != server.uid => Self::Unknown,
            _ => Self::Server,
        }
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
            Self::Unknown => return Err(io::Error::new(io::ErrorKind::PermissionDenied, "no such user")),
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
    let before = NOW.with_borrow_mut(|now| now.get_or_insert_with(Rights::of_thread).clone());
    if before == Rights::Server {
        return Ok(act());
    }
    Rights::Server.assume()?;
    let done = act();
    // A reactor's new thread has those of some pool, which one matters to nobody.
    let before = if before == Rights::Unknown {
        Rights::first()
    } else {
        before
    };
    before.assume()?;
    Ok(done)
}

/// Has a reactor's thread begin with a pool's rights rather than the server's.
pub(crate) fn begin_reactor() -> io::Result<()> {
    Rights::first().assume()
}
