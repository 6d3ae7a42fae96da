//! Servers of other users, and the ways in which a pool runs PHP.

use std::ffi::OsString;

use super::{App, Folder};

/// The ways to run `index.php`, or `worker.php`, of a folder's top.
pub(crate) const MODES: [&[&str]; 4] = [
    &["pool.web.mode=classic", "pool.web.script=index.php"],
    &["pool.web.mode=resident", "pool.web.script=worker.php"],
    &[
        "pool.web.mode=resident",
        "pool.web.script=worker.php",
        "pool.web.isolation_method=fork",
    ],
    &[
        "pool.web.mode=resident",
        "pool.web.script=worker.php",
        "pool.web.isolation=none",
    ],
];

/// Whether the tests may become other users.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

impl App {
    /// The same, its server run by this user and the group of that number, with capabilities such as `+setuid,+kill` and no others.
    /// Takes root. What the server is run by as well comes first.
    pub(crate) fn run_as(mut self, user: u32, capabilities: &str) -> Self {
        let words = [
            "setpriv".to_owned(),
            format!("--reuid={user}"),
            format!("--regid={user}"),
            "--clear-groups".to_owned(),
            format!("--inh-caps=-all,{capabilities}"),
            format!("--ambient-caps=-all,{capabilities}"),
        ];
        self.runner
            .extend(words.map(|word| OsString::from(word.trim_end_matches(','))));
        self
    }
}

impl Folder {
    /// With `function.php`, which defines this function; in each of [`MODES`] it answers every request.
    pub(crate) fn with_function(function: &str, source: &str) -> Self {
        let require = format!("<?php require_once __DIR__ . '/{function}.php';");
        let handle = format!("while (hearth_handle_request({function}(...))) {{}}");
        Self::with(
            function,
            &[
                (&format!("{function}.php"), source),
                ("index.php", &format!("{require} {function}();")),
                ("worker.php", &format!("{require} {handle}")),
            ],
        )
    }
}
