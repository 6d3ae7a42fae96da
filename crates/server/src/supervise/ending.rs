//! How a process ended, in words for the log. Runs in: server.

use std::fmt;

use ipc::control::exit;
use rustix::process::WaitIdStatus;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It ended on its own; see [`exit`].
    Code(i32),
    /// A signal ended it.
    Signal(i32),
    /// Nobody could say: its zygote died with it.
    Unknown,
}

impl Ending {
    /// From what the zygote reports.
    pub(super) fn reported(code: Option<i32>, signal: Option<i32>) -> Self {
        match (code, signal) {
            (Some(code), _) => Self::Code(code),
            (None, Some(signal)) => Self::Signal(signal),
            (None, None) => Self::Unknown,
        }
    }

    /// From `waitid`.
    pub(super) fn waited(status: &WaitIdStatus) -> Self {
        Self::reported(status.exit_status(), status.terminating_signal())
    }

    /// In words for a zygote, for which an exit status has no other meaning.
    pub(super) fn of_zygote(self) -> String {
        match self {
            Self::Code(code) => format!("exit status {code}"),
            other => other.to_string(),
        }
    }

    /// True for a worker that ended as it should: replaced at once, no cause for concern.
    pub(super) fn is_planned(self) -> bool {
        matches!(self, Self::Code(exit::DRAINED | exit::SCRIPT_ENDED))
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Code(exit::DRAINED) => f.write_str("drained"),
            Self::Code(exit::SCRIPT_ENDED) => f.write_str("script ended"),
            Self::Code(exit::PROTOCOL) => f.write_str("lost touch with the server (exit status 11)"),
            Self::Code(code) => write!(f, "exit status {code}"),
            Self::Signal(signal) => match signal_name(signal) {
                Some(name) => write!(f, "signal {signal} ({name})"),
                None => write!(f, "signal {signal}"),
            },
            Self::Unknown => f.write_str("cause unknown"),
        }
    }
}

/// Names of the signals that end PHP processes in practice.
const fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        25 => "SIGXFSZ",
        27 => "SIGPROF",
        31 => "SIGSYS",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_read_as_words() {
        let table = [
            (Ending::Code(0), "drained", true),
            (Ending::Code(10), "script ended", true),
            (Ending::Code(255), "exit status 255", false),
            (Ending::Signal(11), "signal 11 (SIGSEGV)", false),
            (Ending::Signal(64), "signal 64", false),
            (Ending::Unknown, "cause unknown", false),
        ];
        for (ending, words, planned) in table {
            assert_eq!(
                (ending.to_string().as_str(), ending.is_planned()),
                (words, planned)
            );
        }
    }
}
