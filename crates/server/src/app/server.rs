//! The server once it serves: what it is told, its replacement, its end. Called by `app`. Runs in: server, on the main thread.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use tokio::task::JoinHandle;

use super::Outside;
use super::ending::End;
use super::reactors::Connections;
use super::reload::{Next, Waiting, Wish, World};
use super::replacing::{Upgrade, settled};
use super::signals::{Order, Signals};
use super::successor::Successor;
use super::turnover::{Previous, Served, changed, finished, wanted};
use super::watch::Changes;
use crate::admin::Ask;
use crate::dispatch::Pool;
use crate::edge::{Listener, Sites};

/// Everything that runs.
pub(super) struct Server {
    pub(super) world: Arc<World>,
    pub(super) sites: Arc<Sites<Vec<Vec<Pool>>>>,
    pub(super) connections: Connections,
    pub(super) outside: Outside,
    /// The path of this server's binary.
    pub(super) binary: PathBuf,
    /// For a successor. Nobody listens once they are dropped.
    pub(super) listeners: Vec<Listener>,
    pub(super) serving: Served,
    pub(super) previous: Option<Previous>,
    pub(super) reloading: Option<(Waiting, JoinHandle<anyhow::Result<Next>>)>,
    /// Of files, where they are watched.
    pub(super) changes: Option<Changes>,
    /// When an application had a reload last.
    pub(super) last_wanted: Option<Instant>,
    /// Reloads that were asked for while another was under way.
    pub(super) queue: VecDeque<Waiting>,
    /// This server is to be replaced once no reload is under way.
    pub(super) replacement_is_due: bool,
    /// The server that is to replace this one, as it starts.
    pub(super) replacing: Option<JoinHandle<anyhow::Result<Successor>>>,
    /// Who waits for what comes of it.
    pub(super) upgrades: Vec<Upgrade>,
}

impl Server {
    /// Returns when everything has ended.
    pub(super) async fn run(&mut self, signals: &mut Signals) -> anyhow::Result<()> {
        let end = loop {
            // Cancel-safe: each of the eight is.
            tokio::select! {
                order = signals.next() => match order {
                    Order::Reload => self.wish(Waiting::new(Wish::Anew, None)),
                    Order::Reopen => self.outside.logs.reopen(),
                    Order::Replace => self.replace(None),
                    Order::Stop(cause) => break End::Told(cause),
                },
                error = self.connections.failed() => break End::Failed(error),
                ask = self.outside.answers.next() => if let Some(end) = self.answer(ask) { break end },
                () = wanted(&self.world, self.last_wanted), if self.reloading.is_none() && self.replacing.is_none() => {
                    self.world.kin.forget_wish();
                    self.last_wanted = Some(Instant::now());
                    self.wish(Waiting::new(Wish::Code, None));
                }
                meaning = changed(&mut self.changes), if self.replacing.is_none() => self.read_anew(meaning),
                prepared = finished(&mut self.reloading) => self.finish_reload(prepared).await,
                started = settled(&mut self.replacing) => if self.hand_over(started).await {
                    break End::Replaced;
                },
                () = self.outside.notifier.beat() => {}
            }
        };
        self.end(end, signals).await
    }

    /// Why the server is to end, if that is what it is told.
    fn answer(&mut self, ask: Ask) -> Option<End> {
        match ask {
            Ask::Stop(order, reply) => return Some(self.told_to_stop(&order, reply)),
            Ask::Reload(order, reply) => {
                let wish = order.to.map_or(Wish::Anew, |dir| Wish::At(PathBuf::from(dir)));
                self.wish(Waiting::new(wish, Some(reply)));
            }
            Ask::Upgrade(reply) => self.replace(Some(reply)),
            Ask::Rollback(reply) => self.wish(Waiting::new(Wish::Back, Some(reply))),
            ask => self.outside.answers.answer(ask),
        }
        None
    }
}
