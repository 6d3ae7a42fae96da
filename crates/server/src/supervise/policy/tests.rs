//! The tables of `policy`: what happened, and what is to be done.

use ipc::control::exit;

use super::*;

const BOOT: Duration = Duration::from_secs(30);
const NOTHING: Record = Record {
    claimed: false,
    finished: false,
};
const TOOK_ONE: Record = Record {
    claimed: true,
    finished: false,
};
const FINISHED_SOME: Record = Record {
    claimed: true,
    finished: true,
};

fn ready(workers: u16, now: Instant) -> State {
    let mut state = State::new(workers, BOOT);
    assert_eq!(state.plan(now).actions, [Action::StartZygote]);
    state.zygote_ready();
    state
}

#[test]
fn a_zygote_is_started_then_all_workers_are_forked_once() {
    let now = Instant::now();
    let mut state = ready(3, now);
    assert_eq!(
        state.plan(now).actions,
        [Action::Fork(0), Action::Fork(1), Action::Fork(2)]
    );
    assert_eq!(state.plan(now).actions, []);
}

#[test]
fn a_zygote_that_does_not_fork_is_killed_and_replaced_at_once() {
    let now = Instant::now();
    let mut state = ready(2, now);
    assert_eq!(state.plan(now).actions.len(), 2);
    state.worker_started(0);
    assert_eq!(state.plan(now).wake_at, Some(now + FORK_TIMEOUT));
    let killed = state.plan(now + FORK_TIMEOUT).actions;
    assert!(matches!(killed[..], [Action::KillZygote(_)]), "{killed:?}");
    assert_eq!(state.plan(now + FORK_TIMEOUT), Plan::default());
    state.zygote_gone(now + FORK_TIMEOUT);
    assert_eq!(state.plan(now + FORK_TIMEOUT).actions, [Action::StartZygote]);
    state.zygote_ready();
    assert_eq!(state.plan(now + FORK_TIMEOUT).actions, [Action::Fork(1)]);
}

#[test]
fn a_worker_that_was_forked_and_says_nothing_is_given_up_and_the_zygote_stays() {
    let now = Instant::now();
    let mut state = ready(2, now);
    assert_eq!(state.plan(now).actions.len(), 2);
    state.worker_started(0);
    state.worker_forked(0, now);
    let forked = now + Duration::from_secs(9);
    state.worker_forked(1, forked);
    let mute = forked + GREETING_TIMEOUT;
    assert_eq!(state.plan(now + FORK_TIMEOUT).wake_at, Some(mute));
    state.hold(true);
    assert_eq!(state.plan(mute).actions, [Action::GiveUp(1)]);
    state.hold(false);
    assert_eq!(state.plan(mute).actions, []);
    let mut clinging = state;
    let killed = clinging.plan(mute + FORK_TIMEOUT).actions;
    assert!(matches!(killed[..], [Action::KillZygote(_)]), "{killed:?}");
    let mut state = ready(1, now);
    state.plan(now);
    state.worker_forked(0, now);
    state.plan(now + GREETING_TIMEOUT);
    state.fork_failed(0, now + GREETING_TIMEOUT);
    let again = now + GREETING_TIMEOUT + FIRST_DELAY;
    assert_eq!(state.plan(again).actions, [Action::Fork(0)]);
}

#[test]
fn a_zygote_that_does_not_boot_in_time_is_killed_and_retried_later() {
    let now = Instant::now();
    let mut state = State::new(1, BOOT);
    assert_eq!(state.plan(now).wake_at, Some(now + BOOT));
    let killed = state.plan(now + BOOT).actions;
    assert!(matches!(killed[..], [Action::KillZygote(_)]), "{killed:?}");
    assert_eq!(state.plan(now + BOOT), Plan::default());
    state.zygote_gone(now + BOOT);
    let again = state.plan(now + BOOT);
    assert_eq!(
        (again.actions, again.wake_at),
        (vec![], Some(now + BOOT + FIRST_BOOT_DELAY))
    );
    let later = state.plan(now + BOOT + FIRST_BOOT_DELAY);
    assert_eq!(later.actions, [Action::StartZygote]);
}

#[test]
fn a_dead_zygote_is_replaced_at_once_and_open_forks_are_asked_for_again() {
    let now = Instant::now();
    let mut state = ready(2, now);
    assert_eq!(state.plan(now).actions.len(), 2);
    state.worker_started(0);
    state.zygote_gone(now);
    assert_eq!(state.plan(now).actions, [Action::StartZygote]);
    state.zygote_ready();
    assert_eq!(state.plan(now).actions, [Action::Fork(1)]);
}

#[test]
fn a_lost_worker_is_forked_again_only_once_it_is_gone() {
    let now = Instant::now();
    let mut state = ready(2, now);
    assert_eq!(state.plan(now).actions.len(), 2);
    state.worker_lost(1);
    state.zygote_gone(now);
    assert_eq!(state.plan(now).actions, [Action::StartZygote]);
    state.zygote_ready();
    assert_eq!(state.plan(now).actions, [Action::Fork(0)]);
    state.worker_started(0);
    assert_eq!(state.plan(now + FORK_TIMEOUT), Plan::default());
    state.lost_is_gone(1);
    assert_eq!(state.plan(now).actions, [Action::Fork(1)]);
}

/// What a worker ends with, what it did, and the delays in milliseconds of ten such endings in a row.
#[test]
fn delays_grow_only_for_workers_that_do_nothing_useful() {
    let table = [
        (Ending::Signal(9), FINISHED_SOME, [0; 10]),
        (
            Ending::Signal(11),
            NOTHING,
            [0, 0, 0, 100, 200, 400, 800, 1600, 3200, 6400],
        ),
        (
            Ending::Signal(11),
            TOOK_ONE,
            [0, 0, 0, 100, 200, 200, 200, 200, 200, 200],
        ),
        (Ending::Code(exit::SCRIPT_ENDED), TOOK_ONE, [0; 10]),
        (
            Ending::Code(exit::SCRIPT_ENDED),
            NOTHING,
            [0, 0, 0, 100, 200, 400, 800, 1600, 3200, 6400],
        ),
        (Ending::Code(255), FINISHED_SOME, [0; 10]),
        (
            Ending::Unknown,
            NOTHING,
            [0, 0, 0, 100, 200, 400, 800, 1600, 3200, 6400],
        ),
    ];
    for (ending, did, expected) in table {
        let now = Instant::now();
        let mut state = ready(1, now);
        let delays = expected.map(|_| {
            state.worker_started(0);
            state.worker_ended(0, ending, did, now).as_millis()
        });
        assert_eq!(delays, expected, "{ending:?} {did:?}");
    }
}

#[test]
fn a_delayed_worker_is_forked_when_its_time_has_come() {
    let now = Instant::now();
    let mut state = ready(1, now);
    state.fork_failed(0, now);
    let waiting = state.plan(now);
    assert_eq!(
        (waiting.actions, waiting.wake_at),
        (vec![], Some(now + FIRST_DELAY))
    );
    assert_eq!(state.plan(now + FIRST_DELAY).actions, [Action::Fork(0)]);
}

#[test]
fn zygotes_that_fork_no_worker_are_replaced_ever_later_once_none_is_left() {
    let begun = Instant::now();
    let mut state = ready(2, begun);
    state.plan(begun);
    state.worker_started(0);
    let fail = |state: &mut State, number, mut now| {
        while !state.fork_failed(number, now) {
            now = state.plan(now).wake_at.unwrap();
            assert!(!state.plan(now).actions.is_empty());
        }
        now
    };
    let mut now = fail(&mut state, 1, begun);
    assert_eq!(now - begun, Duration::from_millis(1500));
    assert!(!state.give_up_zygote(), "worker 0 serves");
    state.worker_ended(0, Ending::Signal(9), FINISHED_SOME, now);
    let delays = [0, 0, 500, 1000, 2000].map(|expected| {
        now = fail(&mut state, 0, now);
        assert!(state.give_up_zygote());
        assert_eq!(state.plan(now), Plan::default());
        state.zygote_gone(now);
        let since = state.next_attempt().unwrap_or(now);
        assert_eq!(state.plan(since).actions, [Action::StartZygote]);
        let delay = (since - now).as_millis();
        now = since;
        state.zygote_ready();
        assert_eq!(state.plan(now).actions, [Action::Fork(0), Action::Fork(1)]);
        assert_eq!(delay, expected);
        delay
    });
    assert_eq!(delays.len(), 5);
    state.worker_started(0);
    state.zygote_gone(now);
    assert_eq!(state.next_attempt(), None);
}

#[test]
fn the_longest_delay_is_bounded() {
    assert_eq!(delay_after(u32::MAX), LONGEST_DELAY);
    assert_eq!(
        doubled(FIRST_BOOT_DELAY, u32::MAX, LONGEST_BOOT_DELAY),
        LONGEST_BOOT_DELAY
    );
}

#[test]
fn only_wanted_workers_are_forked_and_no_zygote_is_started_for_none() {
    let now = Instant::now();
    let mut state = ready(3, now);
    state.want(1);
    assert_eq!(state.plan(now).actions, [Action::Fork(0)]);
    state.worker_started(0);
    state.want(0);
    state.worker_ended(0, Ending::Code(exit::DRAINED), NOTHING, now);
    state.zygote_gone(now);
    assert_eq!(state.plan(now), Plan::default());
    state.want(2);
    assert_eq!(state.plan(now).actions, [Action::StartZygote]);
    state.zygote_ready();
    assert_eq!(state.plan(now).actions, [Action::Fork(0), Action::Fork(1)]);
}

#[test]
fn a_worker_is_expected_from_its_fork_on_but_not_while_it_is_held_back() {
    let now = Instant::now();
    let mut state = ready(2, now);
    state.want(1);
    assert!(state.expects_workers(now));
    assert_eq!(state.plan(now).actions, [Action::Fork(0)]);
    assert!(state.expects_workers(now));
    state.worker_started(0);
    assert!(!state.expects_workers(now));
    state.want(2);
    assert_eq!((state.expects_workers(now), state.wanted()), (true, 2));
    state.fork_failed(1, now);
    assert!(!state.expects_workers(now));
    assert!(state.expects_workers(now + FIRST_DELAY));
}

#[test]
fn nothing_is_started_while_stopping() {
    let now = Instant::now();
    let mut state = ready(2, now);
    state.stop();
    assert_eq!(state.plan(now), Plan::default());
}
