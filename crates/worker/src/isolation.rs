//! How a resident pool's requests are undone: which way works here, and the state it needs.
//!
//! The ladder: *rewind* puts the worker's memory back ([`crate::rewind`]); where the kernel does not let it, each request runs in a
//! *fork* of the worker, which needs nothing and costs some milliseconds.
//!
//! Runs in: zygote.

use ipc::control::{Boot, ImageSize, Isolation, MAX_REPORTED, Method, Mode, Report, Undoing};
use ipc::logline::Level;

use crate::contents::{self, Contents};
use crate::host::{self, Host};
use crate::obstacles::{self, Descriptors};
use crate::php::Php;
use crate::rewind::{self, Image};

/// Characters of each text in a report.
const REPORTED_CHARS: usize = 500;

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

/// What is there to fork workers from.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// For the workers.
    pub(crate) undo: Undo,
    /// For the server.
    pub(crate) undoing: Option<Undoing>,
    /// For people who ask.
    pub(crate) report: Report,
}

/// Seals what has been booted. PHP waits for its first request, if it is resident. `own` are the descriptors of the host. The
/// error says what the application did that cannot be undone, or what this machine lacks.
pub(crate) fn prepare(php: &mut Php<Host>, boot: &Boot, own: &Descriptors) -> Result<Prepared, String> {
    let opened = || {
        let mut opened = obstacles::descriptors();
        opened.retain(|fd, _| !own.contains_key(fd));
        opened
    };
    if boot.mode == Mode::Classic {
        return Ok(Prepared {
            undo: Undo::Nothing,
            undoing: None,
            report: report(&Contents::default(), opened(), Vec::new()),
        });
    }
    // Closes what nobody uses.
    let contents = contents::look(php);
    let opened = opened();
    let warnings = match boot.isolation {
        Isolation::None => obstacles::find_unisolated(&contents, &opened),
        Isolation::Request { .. } => {
            let found = obstacles::find(&contents, &opened);
            if let Some(refusal) = found.refusal {
                return Err(refusal);
            }
            found.warnings
        }
    };
    for warning in &warnings {
        host::log(None, Level::WARNING, warning.as_bytes());
    }
    let (undo, undoing) = choose(php, boot.isolation)?;
    let mut report = report(&contents, opened, warnings);
    if let Undo::Rewind { image, .. } = &undo {
        report.image = Some(ImageSize {
            pages: image.held as u64,
            page_bytes: u32::try_from(rewind::PAGE).unwrap_or(u32::MAX),
        });
        report.seal_problem = php.seal_problem().map(str::to_owned);
    }
    Ok(Prepared {
        undo,
        undoing,
        report,
    })
}

fn report(contents: &Contents, opened: Descriptors, findings: Vec<String>) -> Report {
    let mut left_out = 0;
    let mut destructors = contents.destructors.clone();
    destructors.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    Report {
        image: None,
        classes: contents.classes as u64,
        user_classes: contents.user_classes as u64,
        objects: contents.objects as u64,
        destructors: cut(destructors, &mut left_out, |(name, count)| (short(&name), count)),
        files: cut(opened, &mut left_out, |(fd, target)| (fd, short(&target))),
        generators: cut(&contents.generators, &mut left_out, |held| {
            short(&held.to_string())
        }),
        findings: cut(findings, &mut left_out, |finding| short(&finding)),
        left_by_warmup: None,
        seal_problem: None,
        left_out,
    }
}

/// The first ones, such as they fit into a message.
fn cut<T, U>(all: impl IntoIterator<Item = T>, left_out: &mut u64, fit: impl FnMut(T) -> U) -> Vec<U> {
    let mut all = all.into_iter();
    let kept = all.by_ref().take(MAX_REPORTED).map(fit).collect();
    *left_out += all.count() as u64;
    kept
}

fn short(text: &str) -> String {
    text.chars().take(REPORTED_CHARS).collect()
}

/// The way that works here, and what it needs.
fn choose(php: &mut Php<Host>, isolation: Isolation) -> Result<(Undo, Option<Undoing>), String> {
    let Isolation::Request { method, paranoid } = isolation else {
        return Ok((Undo::Nothing, None));
    };
    php.seal();
    match method {
        Method::Fork => Ok(by_fork("as configured".to_owned(), paranoid)),
        Method::Rewind => {
            let image = image(php, paranoid).map_err(|why| {
                format!(
                    "isolation_method = \"rewind\" does not work here: {why}; \"auto\" uses the next best way"
                )
            })?;
            Ok(by_rewind(image, php, paranoid, "as configured"))
        }
        Method::Auto => Ok(match image(php, paranoid) {
            Ok(image) => by_rewind(image, php, paranoid, "the best way there is"),
            Err(why) => by_fork(
                format!(
                    "no rewind: {why}; mode = \"classic\" is cheaper than a fork for each request unless a boot takes many milliseconds"
                ),
                paranoid,
            ),
        }),
    }
}

/// The image, once it has been shown that a worker can be put back to it.
fn image(php: &mut Php<Host>, paranoid: bool) -> Result<Image, String> {
    rewind::is_possible()?;
    let image = Image::take(php, paranoid).map_err(|error| format!("taking the image: {error}"))?;
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

fn by_fork(reason: String, paranoid: bool) -> (Undo, Option<Undoing>) {
    if paranoid {
        let text = "paranoid compares nothing here: requests run in forks, whose memory is not put back";
        host::log(None, Level::WARNING, text.as_bytes());
    }
    let undoing = Undoing {
        method: Method::Fork,
        reason,
    };
    (Undo::Fork, Some(undoing))
}
