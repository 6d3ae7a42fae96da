//! Why a pool could not be started. Runs in: server.

use std::io;

use super::ending::Ending;

/// Why the pool could not be started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    /// The worker's binary could not be run.
    #[error("starting {binary}: {error}; is it installed beside hearth, and does it find libphp?")]
    Spawn {
        /// Path of the binary.
        binary: String,
        /// What the system said.
        error: io::Error,
    },
    /// The application booted, but no worker comes of it.
    #[error("no worker could be forked: {reason}")]
    Fork {
        /// What the system said.
        reason: String,
    },
    /// PHP or the application did not boot.
    #[error("the application did not boot: {reason}")]
    Boot {
        /// PHP's message, or what is known.
        reason: String,
    },
}

impl StartError {
    /// The zygote has ended and has not said why.
    pub(super) fn unexplained(ending: Ending, said: &str) -> Self {
        let ending = ending.of_zygote();
        let reason = if said.is_empty() {
            format!("hearth-worker ended without a word ({ending})")
        } else {
            format!("hearth-worker ended ({ending}) after printing:\n{said}")
        };
        Self::Boot { reason }
    }
}
