//! `hearth`: the command line of the server.
#![forbid(unsafe_code)]

fn main() {}
