//! Resident mode: the worker script, booted in the zygote, waits in `hearth_handle_request()`; its handler gets each request.
//!
//! Runs in: worker.

use super::Step;
use crate::host::Host;
use crate::php::{Php, Request, State};

/// Has the handler serve one request.
pub(super) fn serve(php: &mut Php<Host>, host: &mut Host, request: &Request<'_>) -> Step {
    match php.serve(host, request) {
        State::Waiting => Step::Next,
        State::Ended => Step::Ended(php.ended()),
    }
}

/// Has the pending `hearth_handle_request()` return false, so that the script runs what it has behind its loop. A script that
/// asks again gets false again, and is left there.
pub(super) fn drain(php: &mut Php<Host>) {
    const PATIENCE: usize = 16;
    for _ in 0..PATIENCE {
        if php.drain() == State::Ended {
            return;
        }
    }
}
