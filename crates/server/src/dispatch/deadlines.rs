//! When a running request has run too long, and what is to be done about it: pure.

use std::time::Duration;

/// Limits of a running request; zero: none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadlines {
    /// Then it is logged.
    pub(super) slow_log: Duration,
    /// Then its client is answered, and it is to end.
    pub(super) request_timeout: Duration,
    /// So long after that its worker is killed.
    pub(super) request_grace: Duration,
}

/// What the worker was asked about a request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Asked {
    /// Where it stands.
    pub(super) look: bool,
    /// To end it.
    pub(super) end: bool,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Nothing now.
    Nothing,
    /// The log is to say where it stands.
    Look,
    /// The same, and the script is to end.
    End,
    /// Its worker is to be killed.
    Kill,
}

impl Deadlines {
    /// What is due about a request that has run for `ran`.
    pub(super) fn due(&self, ran: Duration, asked: Asked) -> Due {
        if self.timed_out(ran) {
            if ran >= self.request_timeout + self.request_grace {
                return Due::Kill;
            }
            return if asked.end { Due::Nothing } else { Due::End };
        }
        let slow = !self.slow_log.is_zero() && ran >= self.slow_log;
        if slow && !asked.look {
            Due::Look
        } else {
            Due::Nothing
        }
    }

    /// Whether its client is not to wait any longer.
    pub(super) fn timed_out(&self, ran: Duration) -> bool {
        !self.request_timeout.is_zero() && ran >= self.request_timeout
    }

    /// How long until a limit is passed; `None`: all have been.
    pub(super) fn next(&self, ran: Duration) -> Option<Duration> {
        let end = self.request_timeout;
        let kill = if end.is_zero() {
            end
        } else {
            end + self.request_grace
        };
        let all = [self.slow_log, end, kill];
        all.into_iter()
            .filter(|limit| *limit > ran)
            .min()
            .map(|limit| limit.saturating_sub(ran))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    const fn deadlines(slow: u64, timeout: u64, grace: u64) -> Deadlines {
        Deadlines {
            slow_log: ms(slow),
            request_timeout: ms(timeout),
            request_grace: ms(grace),
        }
    }

    #[test]
    fn each_limit_asks_once_and_the_last_kills() {
        let fresh = Asked::default();
        let looked = Asked {
            look: true,
            end: false,
        };
        let ended = Asked {
            look: true,
            end: true,
        };
        let all = deadlines(100, 1000, 50);
        let table = [
            (all, 99, fresh, Due::Nothing, Some(1)),
            (all, 100, fresh, Due::Look, Some(900)),
            (all, 999, looked, Due::Nothing, Some(1)),
            (all, 1000, looked, Due::End, Some(50)),
            (all, 1049, ended, Due::Nothing, Some(1)),
            (all, 1050, ended, Due::Kill, None),
            // The channel was full the whole time.
            (all, 2000, fresh, Due::Kill, None),
            (deadlines(0, 1000, 0), 999, fresh, Due::Nothing, Some(1)),
            (deadlines(0, 1000, 0), 1000, fresh, Due::Kill, None),
            (deadlines(0, 0, 5), 1_000_000, fresh, Due::Nothing, None),
            (deadlines(10, 0, 5), 1_000_000, fresh, Due::Look, None),
            (deadlines(2000, 1000, 500), 1500, fresh, Due::Kill, Some(500)),
        ];
        for (deadlines, ran, asked, due, next) in table {
            let found = (deadlines.due(ms(ran), asked), deadlines.next(ms(ran)));
            assert_eq!(
                found,
                (due, next.map(ms)),
                "{deadlines:?} after {ran} ms, {asked:?}"
            );
        }
    }
}
