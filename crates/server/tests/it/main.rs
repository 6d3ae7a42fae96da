//! Integration tests: the real `hearth` and `hearth-worker`, real PHP, real sockets. A file a behaviour; `harness` starts
//! servers. `make it` builds both binaries first.
//!
//! Nothing here sleeps for luck: a test waits for a line of the log, for a byte or for the end of a process.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

mod harness;

mod basics;
mod bodies;
mod boot;
mod children;
mod clients;
mod container;
mod crash;
mod detect;
mod early_hints;
mod endings;
mod environment;
mod extensions;
mod fastcgi;
mod files;
mod frameworks;
mod front;
mod gate;
mod h2;
mod health;
mod htaccess;
mod isolation;
mod killed;
mod leaks;
mod leaky;
mod least_privilege;
mod leaving;
mod legacy;
mod limits;
mod links;
mod listeners;
mod log_files;
mod manager;
mod nasty;
mod once;
mod one_folder;
mod own_files;
mod own_process;
mod parity;
mod php_lines;
mod pools;
mod proxies;
mod published;
mod randomness;
mod readme;
mod recycling;
mod refusal;
mod reload;
mod replace;
mod rules;
mod scaling;
mod sites;
mod spooling;
mod status;
mod stop;
mod strangers;
mod strict;
mod symfony;
mod thin_client;
mod timeouts;
mod tls;
mod watch;
mod wild;
mod wordpress;
mod zygote;
