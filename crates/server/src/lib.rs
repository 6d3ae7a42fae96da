//! The Hearth server: everything but PHP. See ARCHITECTURE.md for the tour of one request. Runs in: server.
//!
//! A module names only modules above it in this list (`tests/layers.rs` holds it):
//! rights, trust, config, report, sockets, logs, dispatch, then edge, supervise and admin side by side, then app, then cli. `main` needs `app` and `cli`.
#![forbid(unsafe_code)]

mod admin;
pub mod app;
pub mod cli;
mod config;
pub mod dispatch;
mod edge;
mod logs;
mod report;
mod rights;
mod sockets;
mod supervise;
mod trust;
