//! `hearth check --image`: what requests start from, in words. Runs in: the command.

use std::path::Path;

use ipc::control::{Leak, Method, Report};

use super::check::line;
use super::leaks::noun;
use super::table::{count, plain};
use crate::config::{Isolation, Mode, Pool};
use crate::supervise::Inspection;

/// Appends the description of what was booted.
pub(super) fn describe(pool: &Pool, inspection: &Inspection, text: &mut String) {
    line(
        text,
        "boot",
        &format!("PHP {}, {} ms", inspection.php_version, inspection.boot_ms),
    );
    let report = &inspection.report;
    line(text, "isolation", &isolation(pool, inspection));
    if let Some(image) = report.image {
        let bytes = image.pages * u64::from(image.page_bytes);
        let pages = format!(
            "{} of {} KiB",
            count(image.pages, "page"),
            image.page_bytes / 1024
        );
        line(text, "image", &format!("{}, {pages}", mib(bytes)));
    }
    if let Some(problem) = &report.seal_problem {
        line(
            text,
            "dearer",
            &format!("each request costs more than it need: {problem}"),
        );
    }
    if pool.mode == Mode::Resident {
        contents(report, text);
    }
    let files = report.files.iter().map(|(fd, target)| format!("{fd} → {target}"));
    list(text, "open files", files);
    list(text, "generators", report.generators.iter().cloned());
    if let Some(left) = &report.left_by_warmup {
        let named = left.named.iter().map(|leak| described(leak, &pool.dir));
        let code = (left.code > 0).then(|| format!("and {} of code and services", left.code));
        list(text, "left by warm-up", named.chain(code));
    }
    list(text, "finding", report.findings.iter().cloned());
    if report.left_out > 0 {
        line(
            text,
            "left out",
            &count(report.left_out, "further entry").replace("entrys", "entries"),
        );
    }
    // The findings are above.
    let said = inspection
        .said
        .iter()
        .filter(|said| !report.findings.contains(said));
    list(text, "log", said.cloned());
}

fn isolation(pool: &Pool, inspection: &Inspection) -> String {
    match (pool.mode, pool.isolation, &inspection.undoing) {
        (Mode::Classic, ..) => "each script runs from its top, there is no image".to_owned(),
        (_, Isolation::None, _) | (_, _, None) => "none: requests keep what others leave".to_owned(),
        (_, Isolation::Request, Some(undoing)) => {
            let method = match undoing.method {
                Method::Fork => "fork",
                Method::Rewind | Method::Auto => "rewind",
            };
            format!("request, by {method}: {}", undoing.reason)
        }
    }
}

fn contents(report: &Report, text: &mut String) {
    let internal = report.classes.saturating_sub(report.user_classes);
    line(
        text,
        "classes",
        &format!(
            "{}: {} of the application and its libraries, {internal} of PHP",
            report.classes, report.user_classes
        ),
    );
    line(text, "objects", &report.objects.to_string());
    let of_class = |(class, objects): &(String, u64)| format!("{class} ({})", count(*objects, "object"));
    list(text, "destructors", report.destructors.iter().map(of_class));
}

/// As in `hearth leaks`, the place relative to the project folder.
fn described(leak: &Leak, dir: &Path) -> String {
    let Leak {
        kind,
        name,
        place,
        change,
    } = leak;
    let place = place
        .strip_prefix(&format!("{}/", dir.display()))
        .unwrap_or(place);
    let place = if place.is_empty() {
        String::new()
    } else {
        format!(" ({place})")
    };
    format!("{} {name}{place}: {change}", noun(*kind))
}

/// One line each; "none" if there are none.
fn list(text: &mut String, name: &str, all: impl Iterator<Item = String>) {
    let mut name = name;
    for one in all {
        line(text, name, &plain(&one));
        name = "";
    }
    if !name.is_empty() {
        line(text, name, "none");
    }
}

fn mib(bytes: u64) -> String {
    // One digit behind the point.
    let tenths = bytes * 10 / (1 << 20);
    format!("{}.{} MiB", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_a_digit_behind_the_point() {
        assert_eq!(mib(0), "0.0 MiB");
        assert_eq!(mib(3 << 19), "1.5 MiB");
    }

    #[test]
    fn a_list_names_itself_once() {
        let mut text = String::new();
        list(
            &mut text,
            "open files",
            ["a".to_owned(), "b\n".to_owned()].into_iter(),
        );
        list(&mut text, "finding", std::iter::empty());
        assert_eq!(
            text,
            "     open files: a\n               : b?\n        finding: none\n"
        );
    }
}
