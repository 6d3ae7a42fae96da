//! `hearth status`: what a running server says of itself. Runs in: the command.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow};
use serde::Deserialize;
use serde_json::Value;

use super::table::{Side, Table, count, mebibytes, plain, rough};
use super::{Failure, Target, Watching};
use crate::admin::client::{self, AskError, Message};
use crate::admin::{self, place};
use crate::config::{AdminSocket, Config, Sources, variables};
use crate::report::{Generation, Pool, ServerState, Status, Trouble, Worker, WorkerState};

/// Pause between two looks.
const PAUSE: Duration = Duration::from_secs(1);

/// Prints the status of the server that `flags` name, again and again if they say so.
pub(super) fn status(flags: &Watching) -> Result<(), Failure> {
    let mut text = look(&flags.target)?;
    if !flags.watch {
        return print(&text);
    }
    let redraws = !flags.target.json && std::io::stdout().is_terminal();
    loop {
        print(&if redraws { redrawn(&text) } else { text })?;
        std::thread::sleep(PAUSE);
        // A server that is being restarted answers again soon.
        text = look(&flags.target).unwrap_or_else(|failure| format!("{failure}\n"));
    }
}

/// The status, as text.
fn look(target: &Target) -> Result<String, Failure> {
    let answer = send(target, Message::Ask(admin::STATUS))?;
    if target.json {
        return Ok(format!("{answer:#}\n"));
    }
    let status =
        Status::deserialize(answer).context("reading the server's answer; is it of another version?")?;
    Ok(describe(&status))
}

/// In the place of what the terminal shows: each line up to its end, nothing below. Without a blank moment between, it does not flicker.
fn redrawn(text: &str) -> String {
    format!("\x1b[H{}\x1b[J", text.replace('\n', "\x1b[K\n"))
}

/// The answer of the server that `target` names.
pub(super) fn send(target: &Target, message: Message<'_>) -> Result<Value, Failure> {
    let sources = Sources {
        dir: target.dir.clone(),
        file: target.config.clone(),
        set: target.set.clone(),
        environment: variables(),
        ..Sources::default()
    };
    let (names, set) = Config::admin_socket(&sources)?;
    let set = target.socket.clone().map_or(set, AdminSocket::At);
    if set == AdminSocket::Off {
        return Err(Failure::Run(anyhow!(
            "servers of {} cannot be asked: admin_socket is \"off\"",
            target.dir.display()
        )));
    }
    let paths = place::to_ask(&names, &set);
    let name = names.first().map_or(&*target.dir, PathBuf::as_path);
    client::send(name, &paths, message).map_err(|error| {
        let error = match (&error, Config::load(&sources)) {
            (AskError::NotRunning { .. }, Err(wrong)) => {
                anyhow!("{error}\nthe settings are wrong, and admin_socket may be one of them: {wrong}")
            }
            _ => error.into(),
        };
        Failure::Run(error)
    })
}

/// Writes to standard output.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    let written = std::io::stdout().write_all(text.as_bytes());
    Ok(written.context("writing to standard output")?)
}

fn describe(status: &Status) -> String {
    let state = match status.state {
        ServerState::Starting => "starting",
        ServerState::Serving => "serving",
        ServerState::Stopping => "stopping",
    };
    let mut text = format!(
        "hearth {}: {state} http://{} for {}, pid {}\n{}\n",
        status.version,
        status.listen,
        rough(status.uptime_seconds),
        status.pid,
        status.dir
    );
    for pool in &status.pools {
        describe_pool(pool, &mut text);
    }
    text
}

fn describe_pool(pool: &Pool, text: &mut String) {
    let script = pool.script.as_deref().unwrap_or("the script of the URL");
    // Writing to a String cannot fail.
    let _ = writeln!(text, "\npool {}: {}, {script}", pool.name, pool.mode);
    for generation in &pool.generations {
        let _ = writeln!(text, "  {}", describe_generation(generation));
    }
    if let Some(trouble) = &pool.trouble {
        let _ = writeln!(text, "  {}", describe_trouble(trouble));
    }
    let ini = pool
        .generations
        .iter()
        .rev()
        .find_map(|generation| generation.ini.as_ref());
    if let Some(ini) = ini {
        let _ = writeln!(text, "  ini files: {}", plain(&ini.to_string()));
    }
    let method = pool
        .generations
        .iter()
        .rev()
        .find_map(|generation| generation.isolation.as_ref());
    let method = method.map(|isolation| format!(" by {}: {}", isolation.method, isolation.reason));
    if let (Some(isolation), Some(warmup)) = (&pool.isolation, &pool.warmup) {
        let _ = writeln!(
            text,
            "  isolation {isolation}{}; warm-up {warmup}",
            method.unwrap_or_default()
        );
    }
    let running = pool
        .workers
        .iter()
        .filter(|worker| worker.state == WorkerState::Running)
        .count();
    let _ = writeln!(
        text,
        "  {}, {running} running; queue {} of {}; {} served; {} died\n",
        count(pool.workers.len() as u64, "worker"),
        pool.queue.waiting,
        pool.queue.length,
        count(pool.totals.requests, "request"),
        count(pool.totals.died, "worker")
    );
    text.push_str(&workers(pool).render("  "));
}

fn describe_trouble(trouble: &Trouble) -> String {
    let mut text = format!("trouble: {}", plain(&trouble.reason));
    if trouble.failed_boots > 0 {
        text.push_str("; ");
        text.push_str(&count(u64::from(trouble.failed_boots), "boot"));
        text.push_str(" failed in a row");
    }
    if let Some(seconds) = trouble.retry_seconds {
        text.push_str(", the next attempt in ");
        text.push_str(&rough(seconds));
    }
    text
}

fn describe_generation(generation: &Generation) -> String {
    use crate::report::GenerationState::{Booting, Draining, Gone, Kept, Ready};
    let booted = match (&generation.php_version, generation.boot_ms) {
        (Some(php), Some(boot)) => format!("PHP {php}, booted in {boot} ms"),
        _ => "booting".to_owned(),
    };
    let zygote = match (generation.state, generation.pid) {
        (Gone, _) => "zygote gone".to_owned(),
        (_, Some(pid)) => format!("zygote {pid}"),
        (_, None) => "zygote".to_owned(),
    };
    let role = match generation.state {
        Draining => ", finishes its requests",
        Kept => ", kept for a rollback",
        Booting | Ready | Gone => "",
    };
    format!("generation {}: {zygote}, {booted}{role}", generation.number)
}

fn workers(pool: &Pool) -> Table {
    let mut table = Table::new(&[
        ("worker", Side::Right),
        ("pid", Side::Right),
        ("gen", Side::Right),
        ("state", Side::Left),
        ("age", Side::Right),
        ("requests", Side::Right),
        ("private", Side::Right),
        ("shared", Side::Right),
        ("request", Side::Left),
    ]);
    for worker in &pool.workers {
        let memory = |bytes: fn(crate::report::Memory) -> u64| {
            worker
                .memory
                .map_or("?".to_owned(), |memory| mebibytes(bytes(memory)))
        };
        table.row(vec![
            worker.number.to_string(),
            worker.pid.to_string(),
            worker.generation.to_string(),
            state(worker.state).to_owned(),
            rough(worker.age_seconds),
            worker.requests.to_string(),
            memory(|memory| memory.private_bytes),
            memory(|memory| memory.shared_bytes),
            request(worker),
        ]);
    }
    table
}

fn request(worker: &Worker) -> String {
    let Some(request) = &worker.request else {
        return String::new();
    };
    let line = match (&request.method, &request.uri) {
        (Some(method), Some(uri)) => format!("{method} {uri}"),
        _ => "(response complete)".to_owned(),
    };
    format!("{line} for {:.1} s, id {}", request.seconds, plain(&request.id))
}

const fn state(state: WorkerState) -> &'static str {
    match state {
        WorkerState::Starting => "starting",
        WorkerState::Idle => "idle",
        WorkerState::Running => "running",
        WorkerState::Ending => "ending",
        WorkerState::Killed => "killed",
    }
}
