//! The zygote and its workers with real PHP, driven through shared memory as the server does it.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

mod endings;
mod harness;
mod libraries;
mod requests;
mod warmup;
