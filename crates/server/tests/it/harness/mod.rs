//! What the tests need: a server ([`Server`]), a client ([`Client`]), the server's log ([`Log`]).

mod client;
mod log;
mod server;

pub(crate) use client::{Answer, Client};
pub(crate) use server::{App, Server, in_each_mode, kill};
