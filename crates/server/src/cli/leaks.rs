//! `hearth leaks`: what requests leave behind in workers that are not isolated. Runs in: the command.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, anyhow};
use ipc::control::LeakKind;
use serde::Deserialize;

use super::status::{print, send};
use super::table::{Side, Table, count};
use super::{Failure, Target};
use crate::admin;
use crate::admin::client::Message;
use crate::report::{Found, Leaks, PoolLeaks};

/// Prints what the server that `target` names has found. An error if it looks at no pool.
pub(super) fn leaks(target: &Target) -> Result<(), Failure> {
    let answer = send(target, Message::Ask(admin::LEAKS))?;
    let leaks =
        Leaks::deserialize(&answer).context("reading the server's answer; is it of another version?")?;
    print(&if target.json {
        format!("{answer:#}\n")
    } else {
        leaks.pools.iter().map(describe).collect()
    })?;
    if leaks.pools.iter().any(|pool| pool.leak_check > 0) {
        return Ok(());
    }
    Err(Failure::Run(anyhow!(
        "no request is looked at: no pool of this server is resident with isolation = \"none\" and a leak_check above 0; \
         classic and isolated pools keep nothing of a request"
    )))
}

fn describe(pool: &PoolLeaks) -> String {
    let mut text = format!("pool {}: ", pool.name);
    if pool.leak_check == 0 {
        text.push_str("no request is looked at: it is isolated, or classic, or leak_check is 0\n");
        return text;
    }
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "{} looked at: the first 20 of each worker, then one in {}",
        count(pool.sampled, "request"),
        pool.leak_check
    );
    let (repeated, once): (Vec<&Found>, Vec<&Found>) = pool.found.iter().partition(|one| one.repeated);
    // Classes, functions and services come as routes are visited first.
    let (warm, once): (Vec<&Found>, Vec<&Found>) = once.into_iter().partition(|one| {
        matches!(
            one.kind,
            LeakKind::Objects | LeakKind::Classes | LeakKind::Function
        )
    });
    section(&mut text, "Left behind again and again:", &repeated);
    section(&mut text, "Left behind, perhaps once and for all:", &once);
    if !warm.is_empty() {
        let _ = writeln!(
            text,
            "\nand {} of code and services that came once (--json lists them)",
            warm.len()
        );
    }
    if pool.unlisted > 0 {
        let _ = writeln!(text, "\nand {} for which there was no room", pool.unlisted);
    }
    memory(&mut text, pool);
    if !pool.found.is_empty() {
        hints(&mut text, &pool.found);
    }
    text
}

fn section(text: &mut String, heading: &str, found: &[&Found]) {
    if found.is_empty() {
        return;
    }
    let mut table = Table::new(&[
        ("times", Side::Right),
        ("what", Side::Left),
        ("change", Side::Left),
        ("where", Side::Left),
        ("first seen", Side::Left),
    ]);
    for one in found {
        let route = one.routes.first().map_or("", String::as_str);
        table.row(vec![
            one.times.to_string(),
            format!("{} {}", noun(one.kind), one.name),
            one.change.clone(),
            one.place.clone().unwrap_or_default(),
            format!("{} {route}", one.first_request),
        ]);
    }
    let _ = write!(text, "\n{heading}\n{}", table.render("  "));
}

fn memory(text: &mut String, pool: &PoolLeaks) {
    let mut table = Table::new(&[
        ("kept per request", Side::Right),
        ("looked at", Side::Right),
        ("grew", Side::Right),
        ("route", Side::Left),
    ]);
    let growing: Vec<_> = pool.routes.iter().filter(|route| route.kept_bytes > 0).collect();
    for route in &growing {
        let mean = route.kept_bytes / i64::try_from(route.sampled.max(1)).unwrap_or(i64::MAX);
        table.row(vec![
            format!("{mean} B"),
            route.sampled.to_string(),
            route.grew.to_string(),
            route.route.clone(),
        ]);
    }
    if !growing.is_empty() {
        let _ = write!(text, "\nMemory kept, by route:\n{}", table.render("  "));
    }
}

/// One a kind of thing, and the way out that helps against all.
fn hints(text: &mut String, found: &[Found]) {
    let hints: BTreeMap<LeakKind, &str> = found.iter().map(|one| (one.kind, one.hint.as_str())).collect();
    text.push_str(
        "
What to do:
",
    );
    for (kind, hint) in hints {
        let name = serde_json::to_value(kind).unwrap_or_default();
        let name = name.as_str().unwrap_or_default().replace('_', " ");
        let _ = writeln!(text, "  {name}: {hint}");
    }
    text.push_str(
        "  all of it: isolation = \"request\" puts each request back to the booted application
",
    );
}

/// What stands before the name of one.
pub(super) const fn noun(kind: LeakKind) -> &'static str {
    match kind {
        LeakKind::Global => "global",
        LeakKind::StaticProperty => "static property",
        LeakKind::FunctionStatic => "static variable",
        LeakKind::ObjectProperty => "property",
        LeakKind::Objects => "objects of",
        LeakKind::Setting => "setting",
        LeakKind::Handler => "handler:",
        LeakKind::ShutdownFunction | LeakKind::Autoloader | LeakKind::OutputBuffer | LeakKind::Descriptor => {
            "number of"
        }
        LeakKind::Constant => "constant",
        LeakKind::Function => "function",
        LeakKind::Classes => "number of loaded",
        LeakKind::Resource => "resource",
        LeakKind::StreamWrapper => "stream wrapper",
        LeakKind::Environment => "environment variable",
        LeakKind::Locale | LeakKind::Timezone | LeakKind::Directory | LeakKind::Umask => "process:",
        LeakKind::Encoding => "encoding",
    }
}
