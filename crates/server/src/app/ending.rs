//! The end of a server: told to, replaced, or failed. It may serve on for a while first, so that whoever sends it requests can hear of it.
//!
//! Called by `server`. Runs in: server, on the main thread.

use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tracing::{error, info, warn};

use super::server::Server;
use super::signals::{Cause, Signals};
use crate::admin::{Ask, Outcome};
use crate::report::{self, ServerState, StopOrder, Stopping};
use crate::supervise::status::seconds;

/// How long connections that are idle while another server takes over may still send a request here, where it is answered and told
/// to close. A client that thinks for longer finds its connection closed, as after `limits.idle_timeout`.
const LEAVE: Duration = Duration::from_secs(2);

/// Why a server ends.
pub(super) enum End {
    Told(Cause),
    /// Running requests are not to finish.
    AtOnce,
    Replaced,
    Failed(anyhow::Error),
}

/// Whether running requests may finish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    Orderly,
    AtOnce,
}

impl Server {
    /// Returns when everything has ended.
    pub(super) async fn end(&mut self, end: End, signals: &mut Signals) -> anyhow::Result<()> {
        self.outside.answers.state = ServerState::Stopping;
        self.listeners.clear();
        if let Some((_, job)) = self.reloading.take() {
            job.abort();
        }
        self.queue.clear();
        self.upgrades.clear();
        if let Some(job) = self.replacing.take() {
            job.abort();
        }
        let outcome = self.end_by(end, signals).await;
        self.outside.answers.farewell().await;
        outcome
    }

    async fn end_by(&mut self, end: End, signals: &mut Signals) -> anyhow::Result<()> {
        match end {
            End::Told(cause) => {
                self.outside.notifier.stopping();
                self.wind_down_or_hurry(Some(cause), signals).await;
                Ok(())
            }
            End::AtOnce => {
                self.outside.notifier.stopping();
                self.stop_at_once().await;
                Ok(())
            }
            End::Replaced => {
                self.leave(signals).await;
                self.wind_down_or_hurry(None, signals).await;
                Ok(())
            }
            End::Failed(error) => {
                self.stop_at_once().await;
                Err(error)
            }
        }
    }

    async fn wind_down_or_hurry(&mut self, cause: Option<Cause>, signals: &mut Signals) {
        let logs = self.outside.logs.clone();
        // Cancel-safe: `wind_down` may end anywhere; `stop_at_once` ends what is left.
        let pace = tokio::select! {
            pace = self.wind_down(cause) => pace,
            () = signals.stop(&logs) => Pace::AtOnce,
        };
        if pace == Pace::AtOnce {
            self.stop_at_once().await;
        }
    }

    /// Without a `cause` another server has taken over.
    async fn wind_down(&mut self, cause: Option<Cause>) -> Pace {
        let config = &self.serving.release.config;
        let (delay, stop_timeout) = (config.stop_delay, config.stop_timeout);
        // Where files are watched requests may wait for code that will not come any more.
        let waits = !config.watch && !delay.is_zero();
        if let Some(cause) = cause {
            let signal = cause.name();
            if waits && cause.may_wait() {
                info!(signal, stop_delay = ?delay, "server serves on, and is not ready any more");
                if self.serve_on(Instant::now() + delay).await == Pace::AtOnce {
                    return Pace::AtOnce;
                }
            }
            info!(signal, ?stop_timeout, "server stopping");
        }
        self.stop(Instant::now() + stop_timeout).await
    }

    /// Requests are served as ever, but for the probes' word.
    async fn serve_on(&mut self, until: Instant) -> Pace {
        loop {
            // Cancel-safe: each of the four is.
            tokio::select! {
                () = tokio::time::sleep_until(until.into()) => return Pace::Orderly,
                error = self.connections.failed() => {
                    error!(error = format!("{error:#}"), "reactor failed while the server stopped");
                    return Pace::Orderly;
                }
                ask = self.outside.answers.next() => if self.answer_last(ask) == Pace::AtOnce { return Pace::AtOnce },
                () = self.outside.notifier.beat() => {}
            }
        }
    }

    /// Connections end as their clients send a request.
    async fn leave(&mut self, signals: &mut Signals) {
        let until = Instant::now() + LEAVE;
        let logs = self.outside.logs.clone();
        loop {
            // Cancel-safe: each of the three is.
            tokio::select! {
                _ = tokio::time::timeout_at(until.into(), self.connections.ended()) => return,
                ask = self.outside.answers.next() => self.outside.answers.answer(ask),
                () = signals.stop(&logs) => return,
            }
        }
    }

    /// Connections finish their requests, then workers and the zygotes end.
    async fn stop(&mut self, until: Instant) -> Pace {
        self.world.reactors.stop();
        let in_time = loop {
            // Cancel-safe: each of the three is.
            tokio::select! {
                ended = tokio::time::timeout_at(until.into(), self.connections.ended()) => break ended,
                ask = self.outside.answers.next() => if self.answer_last(ask) == Pace::AtOnce { return Pace::AtOnce },
                () = self.outside.notifier.beat() => {}
            }
        };
        match in_time {
            Ok(Ok(())) => {}
            Ok(Err(error)) => error!(%error, "reactor failed while the server stopped"),
            Err(_elapsed) => warn!("connections cut: their requests did not end within stop_timeout"),
        }
        let releases = self.world.releases();
        for release in &releases {
            release.refuse();
        }
        self.world.reactors.cut();
        let mut ends = JoinSet::new();
        for release in releases {
            ends.spawn(async move { release.end(until).await });
        }
        loop {
            // Cancel-safe: each of the three is.
            tokio::select! {
                end = ends.join_next() => match end {
                    Some(Ok(())) => {}
                    Some(Err(error)) => error!(%error, "processes not ended in order"),
                    None => return Pace::Orderly,
                },
                ask = self.outside.answers.next() => if self.answer_last(ask) == Pace::AtOnce { return Pace::AtOnce },
                () = self.outside.notifier.beat() => {}
            }
        }
    }

    /// Told by `hearth stop`.
    pub(super) fn told_to_stop(&self, order: &StopOrder, reply: oneshot::Sender<Outcome<Stopping>>) -> End {
        let config = &self.serving.release.config;
        let most = if order.now {
            Duration::ZERO
        } else {
            config.stop_delay + config.stop_timeout
        };
        // Who asked may have gone.
        let _ = reply.send(Ok(Stopping {
            pid: std::process::id(),
            seconds: seconds(most),
            pid_namespace: report::pid_namespace(),
        }));
        if order.now {
            End::AtOnce
        } else {
            End::Told(Cause::Command)
        }
    }

    /// While it stops: whether it is to do so at once from now on.
    fn answer_last(&mut self, ask: Ask) -> Pace {
        match ask {
            Ask::Stop(order, reply) => {
                if let End::AtOnce = self.told_to_stop(&order, reply) {
                    return Pace::AtOnce;
                }
            }
            ask => self.outside.answers.answer(ask),
        }
        Pace::Orderly
    }

    async fn stop_at_once(&mut self) {
        warn!("server stopping at once");
        self.world.reactors.cut();
        for release in self.world.releases() {
            release.cut().await;
        }
    }
}
