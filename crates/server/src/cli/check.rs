//! `hearth check`: the resolved settings with the reasons for them, and whether a server would come to serve with them.
//!
//! Serves nothing, and boots the application only to look at it, if it is asked to. Runs in: the command.

use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;

use anyhow::Context;

use super::{Failure, image, serve};
use crate::app;
use crate::app::check::Findings;
use crate::config::{Config, Limits, Loaded, Pool, Requests, Sources, format_duration};
use crate::edge::survey::survey;
use crate::edge::tls;

/// Prints the settings and PHP's version; with `look`, also what the application boots to. An error names all that would keep a
/// server from serving.
pub(super) fn check(sources: &Sources, look: bool) -> Result<(), Failure> {
    serve::close_memory()?;
    let loaded = Config::load(sources)?;
    let findings = app::check::run(&loaded)?;
    let mut text = serve::banner(&loaded.config, &loaded.reasons);
    describe(&loaded, &findings, &mut text);
    print(&text)?;
    if !findings.problems.is_empty() {
        return Err(Failure::Unfit(findings.problems));
    }
    for pool in loaded.config.pools.iter().filter(|_| look) {
        let inspection = app::inspect::run(&loaded.config, pool)
            .with_context(|| format!("looking at pool {}", pool.name))?;
        let mut text = String::new();
        image::describe(pool, &inspection, &mut text);
        print(&text)?;
    }
    Ok(())
}

fn print(text: &str) -> anyhow::Result<()> {
    std::io::stdout()
        .write_all(text.as_bytes())
        .context("writing to standard output")
}

fn describe(Loaded { config, .. }: &Loaded, findings: &Findings, text: &mut String) {
    if let Some(running) = &findings.running {
        let what = format!("pid {}, it serves this folder now", running.pid);
        line(text, "running server", &what);
    }
    for listen in &config.listen {
        line(text, "listen", &listen.to_string());
    }
    // Those that cannot be read are among the problems.
    for certificate in tls::describe(&config.tls).unwrap_or_default() {
        line(text, "certificate", &certificate);
    }
    line(text, "reactors", &config.reactors.to_string());
    line(text, "body", &most(&config.limits));
    for (pool, php) in config.pools.iter().zip(&findings.php) {
        if config.pools.len() > 1 {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "pool {}", pool.name);
        }
        describe_pool(pool, text);
        if let Some(php) = php {
            line(text, "ini files", &php.ini.to_string());
            for warning in &php.warnings {
                line(text, "warning", warning);
            }
            let worker = format!("{} (PHP {})", pool.worker_binary.display(), php.version);
            line(text, "worker", &worker);
        }
    }
}

fn describe_pool(pool: &Pool, text: &mut String) {
    let path = |path: &Path| path.display().to_string();
    let Requests { hosts, paths } = &pool.requests;
    if !hosts.is_empty() {
        line(text, "hosts", &hosts.join(" "));
    }
    if !paths.is_empty() {
        line(text, "paths", &paths.join(" "));
    }
    line(text, "document root", &path(&pool.root));
    let closed = survey(pool).closed;
    if !closed.is_empty() {
        line(text, "closed", &format!("{} (by .htaccess)", closed.join(" ")));
    }
    line(text, "mode", &pool.mode.to_string());
    line(
        text,
        "script",
        &pool.script.as_deref().map_or("that of the URL".to_owned(), path),
    );
    let workers = match (pool.min_workers, pool.workers) {
        (least, most) if least == most => most.to_string(),
        (least, most) => format!("{least} to {most}"),
    };
    line(text, "workers", &workers);
    if let Some(user) = &pool.process.user {
        line(text, "user", user);
    }
    line(text, "request timeout", &format_duration(pool.request_timeout));
    line(
        text,
        "queue",
        &format!(
            "{} requests, {}",
            pool.queue_length,
            format_duration(pool.queue_timeout)
        ),
    );
}

pub(super) fn line(text: &mut String, name: &str, value: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{name:>15}: {value}");
}

/// Bytes of a body. PHP says its own when it has booted.
fn most(limits: &Limits) -> String {
    match limits.body_bytes {
        Some(set) => format!("at most {set}"),
        None => format!(
            "at most {}, or post_max_size where that is more",
            Limits::BODY_BYTES
        ),
    }
}
