//! Why a pool could not be started. Runs in: server.

use std::io;

use rustix::io::Errno;

use super::ending::Ending;

/// Why the pool could not be started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    /// The worker's binary could not be run.
    #[error("starting {binary}: {error}; {hint}")]
    Spawn {
        /// Path of the binary.
        binary: String,
        /// What the system said.
        error: io::Error,
        /// What to do about it.
        hint: &'static str,
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
    /// `binary` could not be started.
    pub(super) fn spawn(binary: String, error: io::Error) -> Self {
        let hint = match Errno::from_io_error(&error) {
            Some(Errno::MFILE | Errno::NFILE) => {
                "no file descriptor is left: raise the limit of open files (`ulimit -n`, LimitNOFILE= of a unit)"
            }
            Some(Errno::NOENT) => "install it beside hearth, or name it with pool.web.worker_binary",
            Some(Errno::ACCESS) => {
                "this user must be permitted to execute it, on a file system without noexec"
            }
            Some(Errno::NOMEM | Errno::AGAIN) => {
                "memory or processes are used up: see `free`, `ulimit -u`, and the limits of the unit or container"
            }
            _ => "is it the hearth-worker that belongs to this hearth?",
        };
        Self::Spawn { binary, error, hint }
    }

    /// The zygote has ended and has not said why.
    pub(super) fn unexplained(ending: Ending, said: &str) -> Self {
        if let Some(library) = missing_library(said) {
            return Self::Boot {
                reason: format!(
                    "hearth-worker needs {library}, which is not installed{}",
                    remedy(library)
                ),
            };
        }
        if said.contains("Unable to create lock file: ") {
            return Self::Boot {
                reason: format!(
                    "OPcache cannot make its lock file: the folder `opcache.lockfile_path`, /tmp unless set in [pool.web.ini], must be \
                     one that the user of PHP may write to, on a disk that is not read-only; it said:\n{said}"
                ),
            };
        }
        let ending = ending.of_zygote();
        let reason = if said.is_empty() {
            format!("hearth-worker ended without a word ({ending})")
        } else {
            format!("hearth-worker ended ({ending}) after printing:\n{said}")
        };
        Self::Boot { reason }
    }
}

/// The library that ld.so(8) has not found.
fn missing_library(said: &str) -> Option<&str> {
    let (_, after) = said.split_once("error while loading shared libraries: ")?;
    let (library, why) = after.split_once(": ")?;
    why.starts_with("cannot open shared object file")
        .then_some(library)
}

/// Debian's package of an embedded PHP is named by its version, as the library is.
fn remedy(library: &str) -> String {
    let version = library
        .strip_prefix("libphp")
        .and_then(|rest| rest.split_once(".so"));
    match version {
        Some((version, _)) if !version.is_empty() => format!(
            ": on Debian and Ubuntu `apt install libphp{version}-embed`; elsewhere PHP {version} built with --enable-embed"
        ),
        Some(_) => ": it is PHP built with --enable-embed; ld.so.conf(5) says where libraries are looked for"
            .to_owned(),
        None => ": install the package that has it".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_missing_is_named_with_its_package() {
        let said = "/usr/bin/hearth-worker: error while loading shared libraries: libphp8.2.so: cannot open shared \
                    object file: No such file or directory";
        assert_eq!(
            StartError::unexplained(Ending::Code(127), said).to_string(),
            "the application did not boot: hearth-worker needs libphp8.2.so, which is not installed: on Debian and \
             Ubuntu `apt install libphp8.2-embed`; elsewhere PHP 8.2 built with --enable-embed"
        );
        assert_eq!(missing_library("PHP has crashed"), None);
    }

    #[test]
    fn a_disk_on_which_opcache_cannot_lock_is_named_with_the_setting() {
        let said = "(26015): Fatal Error Unable to create lock file: Read-only file system (30)";
        let error = StartError::unexplained(Ending::Code(254), said).to_string();
        assert!(
            error.contains("`opcache.lockfile_path`, /tmp unless set") && error.ends_with(said),
            "{error}"
        );
    }

    #[test]
    fn a_lack_of_descriptors_is_not_taken_for_a_lack_of_the_binary() {
        let error = io::Error::from(Errno::MFILE);
        let said = StartError::spawn("/usr/bin/hearth-worker".to_owned(), error).to_string();
        assert!(
            said.contains("LimitNOFILE=") && !said.contains("install"),
            "{said}"
        );
    }
}
