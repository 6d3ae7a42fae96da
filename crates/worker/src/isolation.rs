//! How a resident pool's requests are undone: which way works here, and the state it needs.
//!
//! The ladder: *rewind* puts the worker's memory back ([`crate::rewind`]); where the kernel does not let it, each request runs in a
//! *fork* of the worker, which needs nothing and costs about a millisecond.
//!
//! Runs in: zygote.

use ipc::control::{Boot, Isolation, Method, Mode, Undoing};

use crate::host::Host;
use crate::php::Php;
use crate::rewind::{self, Image};

/// What the zygote hands to its workers.
#[derive(Debug)]
pub(crate) enum Undo {
    /// Nothing is undone.
    Nothing,
    /// The worker's memory is put back to the image.
    Rewind {
        /// What it is put back to.
        image: Image,
        /// Compare everything with it after each request.
        paranoid: bool,
    },
    /// Each request runs in a fork.
    Fork,
}

/// Seals what has been booted. PHP waits for its first request, if it is resident. The error says what the application did that
/// cannot be undone, or what this machine lacks.
pub(crate) fn prepare(php: &mut Php<Host>, boot: &Boot) -> Result<(Undo, Option<Undoing>), String> {
    let Isolation::Request { method, paranoid } = boot.isolation else {
        return Ok((Undo::Nothing, None));
    };
    if boot.mode == Mode::Classic {
        return Ok((Undo::Nothing, None));
    }
    php.seal();
    match method {
        Method::Fork => Ok(by_fork("as configured".to_owned())),
        Method::Rewind => {
            let image = image(php).map_err(|why| {
                format!(
                    "isolation_method = \"rewind\" does not work here: {why}; \"auto\" uses the next best way"
                )
            })?;
            Ok(by_rewind(image, php, paranoid, "as configured"))
        }
        Method::Auto => Ok(match image(php) {
            Ok(image) => by_rewind(image, php, paranoid, "the best way there is"),
            Err(why) => by_fork(format!("no rewind: {why}")),
        }),
    }
}

/// The image, once it has been shown that a worker can be put back to it.
fn image(php: &mut Php<Host>) -> Result<Image, String> {
    rewind::is_possible()?;
    let image = Image::take(php).map_err(|error| format!("taking the image: {error}"))?;
    rewind::self_check(&image, php)?;
    Ok(image)
}

fn by_rewind(image: Image, php: &Php<Host>, paranoid: bool, why: &str) -> (Undo, Option<Undoing>) {
    let size = image.held * rewind::PAGE / (1 << 20);
    let mut reason = format!("{why}; image {size} MiB");
    if let Some(problem) = php.seal_problem() {
        reason = format!("{reason}; dearer than it need be: {problem}");
    }
    let undoing = Undoing {
        method: Method::Rewind,
        reason,
    };
    (Undo::Rewind { image, paranoid }, Some(undoing))
}

fn by_fork(reason: String) -> (Undo, Option<Undoing>) {
    let undoing = Undoing {
        method: Method::Fork,
        reason,
    };
    (Undo::Fork, Some(undoing))
}
