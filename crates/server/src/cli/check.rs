//! `hearth check`: the resolved settings with the reasons for them, and whether the worker's binary runs.
//!
//! Serves nothing, and boots the application only to look at it, if it is asked to. Runs in: the command.

use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use super::{Failure, image, serve};
use crate::app;
use crate::config::{Config, Pool, Requests, Sources, format_duration};
use crate::edge::survey::survey;
use crate::edge::tls;

/// Prints the settings and PHP's version; with `look`, also what the application boots to.
pub(super) fn check(sources: &Sources, look: bool) -> Result<(), Failure> {
    let loaded = Config::load(sources)?;
    let certificates = tls::describe(&loaded.config.tls)?;
    let mut text = serve::banner(&loaded.config, &loaded.reasons);
    describe(&loaded.config, &certificates, &mut text);
    let pools = &loaded.config.pools;
    for pool in pools {
        if pools.len() > 1 {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "pool {}", pool.name);
        }
        describe_pool(pool, &mut text);
        let version = worker_version(&pool.worker_binary);
        if let Ok(version) = &version {
            line(&mut text, "worker", version);
        }
        print(&std::mem::take(&mut text))?;
        version?;
        if look {
            let inspection = app::inspect::run(&loaded.config, pool)
                .with_context(|| format!("looking at pool {}", pool.name))?;
            image::describe(pool, &inspection, &mut text);
            print(&std::mem::take(&mut text))?;
        }
    }
    Ok(())
}

fn print(text: &str) -> anyhow::Result<()> {
    std::io::stdout()
        .write_all(text.as_bytes())
        .context("writing to standard output")
}

fn describe(config: &Config, certificates: &[String], text: &mut String) {
    for listen in &config.listen {
        line(text, "listen", &listen.to_string());
    }
    for certificate in certificates {
        line(text, "certificate", certificate);
    }
    line(text, "reactors", &config.reactors.to_string());
    line(text, "body", &format!("at most {}", config.limits.body_bytes));
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
    line(
        text,
        "php.ini",
        &pool
            .php_ini
            .as_deref()
            .map_or("PHP's own choice".to_owned(), path),
    );
}

pub(super) fn line(text: &mut String, name: &str, value: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{name:>15}: {value}");
}

/// The first line of `hearth-worker --version`, which names PHP's version.
fn worker_version(binary: &Path) -> anyhow::Result<String> {
    let tried = || format!("running {} --version", binary.display());
    let hint = "build it with `make build`, or name it with pool.web.worker_binary";
    let output = Command::new(binary)
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{} ({hint})", tried()))?;
    let said = String::from_utf8_lossy(&output.stdout);
    match said.lines().next().map(str::trim) {
        Some(version) if output.status.success() && version.contains("PHP ") => Ok(version.to_owned()),
        _ => {
            let complaint = String::from_utf8_lossy(&output.stderr);
            let complaint = complaint.lines().next().unwrap_or("it names no PHP version");
            bail!("{}: {}: {complaint} ({hint})", tried(), output.status)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_worker_binary_is_named_with_what_to_do() {
        let error = worker_version(Path::new("/nonexistent/hearth-worker")).unwrap_err();
        assert_eq!(
            format!("{error:#}"),
            "running /nonexistent/hearth-worker --version (build it with `make build`, or name it with \
             pool.web.worker_binary): No such file or directory (os error 2)"
        );
    }

    #[test]
    fn a_binary_that_is_no_worker_is_refused() {
        let error = worker_version(Path::new("/bin/true")).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("running /bin/true --version: exit status: 0: it names no PHP version")
        );
    }
}
