//! Shared memory between the server and its workers: the protocol, and nothing else.
//!
//! Two binaries must agree on every byte here, and loom, proptest and the sanitizers test it without tokio or PHP; so it is a
//! crate of its own. It knows neither. Runs in: server | zygote | worker; a module of one side says so.
//!
//! | module | what |
//! |---|---|
//! | [`layout`] | what lies where: the structs in shared memory |
//! | [`region`] | memfds, seals, mappings |
//! | [`slot`] | the word that says whose turn an exchange is |
//! | [`queue`] | the ring of tickets that workers pull from |
//! | [`wake`] | who sleeps, and how a sleeper is woken |
//! | [`head`] | request and response heads as bytes: writers and readers |
//! | [`body`] | a response's way through a lane |
//! | [`scoreboard`] | figures about each worker |
//! | [`ask`] | signals to a worker in the midst of a request |
//! | [`control`] | messages over sockets: fork, forked, exited, … with descriptors |
//! | [`account`] | users and groups, by name or number |
//! | [`logline`] | what a worker says on its output pipe: writer and reader |
//! | [`inherited`] | descriptors that a service manager hands to the server |
//! | [`fault`] | death at a chosen point, for tests |
//! | [`server_side`], [`worker_side`] | the protocol put together, as each side uses it |
//!
//! Loom's atomics are larger than words, so what maps memory does not exist under `--cfg loom`; the models drive the functions
//! of `slot`, `queue` and `wake`.

pub mod account;
pub mod ask;
pub mod body;
pub mod control;
#[cfg(not(loom))]
pub mod fault;
pub mod head;
pub mod inherited;
pub mod layout;
pub mod logline;
pub mod queue;
#[cfg(not(loom))]
pub mod region;
pub mod scoreboard;
#[cfg(not(loom))]
pub mod server_side;
pub mod slot;
pub mod sync;
pub mod wake;
#[cfg(not(loom))]
pub mod worker_side;
