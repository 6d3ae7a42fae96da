//! Resident mode: the worker script, booted in the zygote, waits in `hearth_handle_request()`; its handler gets each request.
//!
//! Runs in: worker.

use ipc::logline::Level;

use super::{Step, describe};
use crate::host::Host;
use crate::php::{End, Find, Php, Request, State};

/// Has the handler serve one request, and tells the server what it leaves behind, if that is to be found out.
pub(super) fn serve(php: &mut Php<Host>, host: &mut Host, (request, find): (&Request<'_>, Find)) -> Step {
    if find != Find::Nothing {
        php.find_leaks(find);
    }
    match php.serve(host, request) {
        State::Waiting => {
            if find != Find::Nothing {
                host.tell_leaks(request.method.as_bytes(), request.uri.as_bytes());
            }
            Step::Next
        }
        State::Ended => ended(php),
    }
}

/// Why the worker script is over. One that ended for no fault may do so.
fn ended(php: &Php<Host>) -> Step {
    let (end, status) = (php.ended(), php.exit_status());
    match end {
        End::Exit if status != 0 => Step::Ended(
            Level::WARNING,
            format!("{} with status {status}", describe(end)).into(),
        ),
        End::None | End::Returned | End::Exit => Step::Ended(Level::INFO, describe(end).into()),
        End::Exception | End::Fatal => Step::Ended(Level::WARNING, describe(end).into()),
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
