//! Who a worker is: the kernel's word, not the worker's or the zygote's.
//!
//! A worker's first message comes with the credentials of the process that sent it (`SO_PASSCRED`) and with a pidfd. The worker is
//! taken if both are about the same process, and that process has the user and group of the zygote. So whoever sends messages can at
//! most offer a process that sends them itself and that the pool's user may signal anyway: no message makes the server signal
//! another one. Called by `events`. Runs in: server.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use ipc::control::{FromWorker, Sender};

use super::socket::{Received, close_elsewhere};

/// A worker that may be taken.
#[derive(Debug)]
pub(super) struct Attested {
    pub(super) pid: i32,
    pub(super) pidfd: OwnedFd,
    /// Its `smaps_rollup`, which the server could not open itself unless it had `CAP_SYS_PTRACE`.
    pub(super) rollup: Option<File>,
}

/// Why a worker is not taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// What it, or the zygote, said is not so.
    Untrue(String),
    /// The server could not look: nobody has lied.
    Unseen(String),
}

/// Looks at a worker's first message. `zygote` is who has forked it.
pub(super) fn attest(
    heard: io::Result<Received<FromWorker>>,
    zygote: Option<Sender>,
) -> Result<Attested, Refusal> {
    let received = heard.map_err(|error| match error.kind() {
        io::ErrorKind::QuotaExceeded => Refusal::Unseen(error.to_string()),
        _ => Refusal::Untrue(error.to_string()),
    })?;
    let verdict = check(&received, zygote);
    let mut fds = received.fds.into_iter();
    let (pidfd, rollup) = (fds.next(), fds.next());
    close_elsewhere(fds.collect());
    match (verdict, pidfd) {
        (Ok(pid), Some(pidfd)) => Ok(Attested {
            pid,
            pidfd,
            rollup: rollup.and_then(|file| rollup_of(pid, file)),
        }),
        (Err(why), pidfd) => {
            close_elsewhere(pidfd.into_iter().chain(rollup).collect());
            Err(why)
        }
        (Ok(_), None) => Err(Refusal::Untrue("a worker without a pidfd".to_owned())),
    }
}

/// The process id.
fn check(received: &Received<FromWorker>, zygote: Option<Sender>) -> Result<i32, Refusal> {
    let untrue = |what: String| Err(Refusal::Untrue(what));
    let (Some(sender), Some(zygote)) = (received.sender, zygote) else {
        return untrue("nobody knows who sent its first message".to_owned());
    };
    let Sender { pid, uid, gid } = sender;
    if received.message != FromWorker::Ready {
        return untrue(format!("process {pid} began with another message"));
    }
    if (uid, gid) != (zygote.uid, zygote.gid) {
        return untrue(format!(
            "process {pid}, of user {uid} and group {gid}, said that it is the worker; the pool has user {} and group {}",
            zygote.uid, zygote.gid
        ));
    }
    let Some(pidfd) = received.fds.first() else {
        return untrue(format!("process {pid} sent no pidfd"));
    };
    let about = about(pidfd).map_err(|error| Refusal::Unseen(format!("looking at its pidfd: {error}")))?;
    match process_of(&about) {
        Some(named) if named == pid && pid == zygote.pid => {
            untrue("the zygote said that it is the worker".to_owned())
        }
        // -1: it has ended since, and no signal reaches anybody by this descriptor.
        Some(named) if named == pid || named == -1 => Ok(pid),
        Some(named) => untrue(format!("process {pid} said that process {named} is the worker")),
        None => untrue(format!(
            "process {pid} sent something else than its pidfd: it names no process"
        )),
    }
}

/// What the kernel says of a descriptor (proc(5), `fdinfo`).
fn about(fd: impl AsFd) -> io::Result<String> {
    std::fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.as_fd().as_raw_fd()))
}

/// The process that a pidfd names: only pidfds have this line. -1: it has ended and was waited for.
fn process_of(about: &str) -> Option<i32> {
    let line = about.lines().find_map(|line| line.strip_prefix("Pid:"));
    line.and_then(|pid| pid.trim().parse().ok())
}

/// The number of the mount on which a file is.
fn mount_of(about: &str) -> Option<&str> {
    about.lines().find_map(|line| line.strip_prefix("mnt_id:"))
}

/// The descriptor if it is what it should be: others could take for ever to be read. The file itself is asked nothing, since that
/// could take as long (fstatfs(2) of a file system in user space).
fn rollup_of(pid: i32, file: OwnedFd) -> Option<File> {
    let ours = File::open("/proc/self/fdinfo").and_then(about);
    let is_proc = ours.is_ok_and(|ours| {
        let theirs = about(&file).unwrap_or_default();
        mount_of(&ours).is_some() && mount_of(&ours) == mount_of(&theirs)
    });
    let name = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
    if is_proc && name.is_ok_and(|name| name.ends_with(format!("{pid}/smaps_rollup"))) {
        return Some(file.into());
    }
    close_elsewhere(vec![file]);
    None
}

#[cfg(test)]
mod tests {
    use rustix::process::{Pid, PidfdFlags, getgid, getpid, getuid, pidfd_open};

    use super::*;

    fn me() -> Sender {
        Sender {
            pid: getpid().as_raw_nonzero().get(),
            uid: getuid().as_raw(),
            gid: getgid().as_raw(),
        }
    }

    fn pidfd(pid: i32) -> OwnedFd {
        pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()).unwrap()
    }

    fn said(sender: Option<Sender>, fds: Vec<OwnedFd>) -> Result<Attested, Refusal> {
        let zygote = Sender { pid: 1, ..me() };
        let message = FromWorker::Ready;
        attest(Ok(Received { message, sender, fds }), Some(zygote))
    }

    #[test]
    fn a_worker_is_the_process_that_says_so() {
        let rollup = File::open("/proc/self/smaps_rollup").unwrap();
        let worker = said(Some(me()), vec![pidfd(me().pid), rollup.into()]).unwrap();
        assert_eq!((worker.pid, worker.rollup.is_some()), (me().pid, true));
    }

    #[test]
    fn what_is_no_account_of_its_memory_is_left() {
        let (reader, _writer) = rustix::pipe::pipe().unwrap();
        let elsewhere = std::env::temp_dir().join(format!("hearth-rollup-{}", me().pid));
        let like_it = elsewhere.join(me().pid.to_string()).join("smaps_rollup");
        std::fs::create_dir_all(like_it.parent().unwrap()).unwrap();
        std::fs::write(&like_it, "").unwrap();
        let like_it = File::open(like_it).unwrap();
        for file in [
            reader,
            File::open("/proc/self/statm").unwrap().into(),
            like_it.into(),
        ] {
            let worker = said(Some(me()), vec![pidfd(me().pid), file]).unwrap();
            assert!(worker.rollup.is_none());
        }
        std::fs::remove_dir_all(elsewhere).unwrap();
    }

    #[test]
    fn a_worker_that_has_ended_is_no_lie() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pidfd = pidfd(child.id().try_into().unwrap());
        child.wait().unwrap();
        assert!(said(Some(me()), vec![pidfd]).is_ok());
    }

    #[test]
    fn another_process_another_user_and_no_process_are_refused() {
        let file = || OwnedFd::from(File::open("/dev/null").unwrap());
        let stranger = Sender {
            uid: me().uid + 1,
            ..me()
        };
        let other_group = Sender {
            gid: me().gid + 1,
            ..me()
        };
        let table = [
            (Some(me()), vec![pidfd(1)], "process 1 is the worker"),
            (Some(stranger), vec![pidfd(me().pid)], "the pool has user"),
            (Some(other_group), vec![pidfd(me().pid)], "the pool has user"),
            (Some(Sender { pid: 1, ..me() }), vec![pidfd(1)], "the zygote said"),
            (Some(me()), vec![file()], "it names no process"),
            (Some(me()), vec![], "no pidfd"),
            (None, vec![pidfd(me().pid)], "nobody knows"),
        ];
        for (sender, fds, expected) in table {
            match said(sender, fds) {
                Err(Refusal::Untrue(why)) => assert!(why.contains(expected), "{why}"),
                other => panic!("{expected}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_server_that_cannot_look_blames_nobody() {
        let shortage = io::Error::new(io::ErrorKind::QuotaExceeded, "no file descriptor was left");
        let refusal = attest(Err(shortage), Some(me())).unwrap_err();
        assert_eq!(refusal, Refusal::Unseen("no file descriptor was left".to_owned()));
    }
}
