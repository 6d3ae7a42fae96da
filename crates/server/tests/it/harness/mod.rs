//! What the tests need: a server ([`Server`]), clients ([`Client`], [`RawClient`]), the server's log, and nginx with php-fpm ([`Fpm`])
//! to compare with.

mod account;
mod browser;
mod client;
mod database;
mod folder;
mod fpm;
mod front;
mod log;
mod process;
mod raw;
mod server;

pub(crate) use account::{MODES, is_root};
pub(crate) use browser::Browser;
pub(crate) use client::{Answer, Client, ask_unix, cookie_line};
pub(crate) use database::Database;
pub(crate) use folder::Folder;
pub(crate) use fpm::Fpm;
pub(crate) use front::{Front, WebServer};
pub(crate) use log::Log;
pub(crate) use process::{assert_constant_memory, pss_kib, tree};
pub(crate) use raw::{Raw, RawClient};
pub(crate) use server::{App, Server, in_each_mode, kill};
