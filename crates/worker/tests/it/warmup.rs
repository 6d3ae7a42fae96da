//! The warm-up of a resident application: what comes over to the workers, and what does not.

use ipc::control::{FromZygote, Mode, Warmup};

use crate::harness::Pool;

/// Everybody who asks: the first is who warms.
const CLIENTS: [&str; 5] = [
    "host=a&user=alice&locale=C.UTF-8",
    "host=b&user=bob&locale=C",
    "host=c&user=carol&locale=C",
    "host=a&user=dave&locale=C",
    "host=d&user=alice&locale=C.UTF-8",
];

fn warmed(warmup: Warmup, queries: &[&str], ini: &str) -> Pool {
    let (pool, answer) = Pool::boot_warmed(Mode::Resident, "memo.php", (warmup, queries), ini);
    assert!(
        matches!(answer, FromZygote::Ready { .. }),
        "{answer:?}\n{}",
        pool.said()
    );
    pool
}

fn failed(warmup: Warmup, query: &str) -> String {
    match Pool::boot_warmed(Mode::Resident, "memo.php", (warmup, &[query]), "").1 {
        FromZygote::BootFailed { reason } => reason,
        other => panic!("{other:?}"),
    }
}

/// The first answer of a new worker to each client.
fn first_answers(pool: &mut Pool) -> Vec<String> {
    let ask = |(number, client): (usize, &&str)| {
        let number = u16::try_from(number).unwrap();
        pool.fork(number, 0);
        let response = pool.get(client);
        pool.drain(number);
        pool.exited();
        assert_eq!(response.status(), 200, "{}", response.text());
        format!(
            "{}\n{}",
            response.header("x-user").unwrap_or_default(),
            response.text()
        )
    };
    CLIENTS.iter().enumerate().map(ask).collect()
}

fn classic_answers() -> Vec<String> {
    let (mut pool, _) = Pool::boot(Mode::Classic, "memo.php");
    first_answers(&mut pool)
}

#[test]
fn after_a_clean_warm_up_each_client_gets_what_a_fresh_process_gives() {
    let expected = classic_answers();
    assert!(
        expected[1].contains("tenant b") && expected[1].contains("theme of b"),
        "{}",
        expected[1]
    );
    for ini in [
        "",
        "opcache.jit=off\n",
        "opcache.jit_hot_func=3\nopcache.jit_hot_loop=3\n",
    ] {
        let mut pool = warmed(Warmup::Clean, &CLIENTS[..1], ini);
        let said = pool.said();
        assert!(said.contains("carried over: "), "{ini}: {said}");
        for (client, (answer, expected)) in CLIENTS.iter().zip(first_answers(&mut pool).iter().zip(&expected))
        {
            assert_eq!(answer, expected, "{ini} {client}");
        }
    }
}

#[test]
fn a_clean_warm_up_by_two_clients_leaves_nothing_of_either() {
    let expected = classic_answers();
    let mut pool = warmed(Warmup::Clean, &[CLIENTS[3], CLIENTS[0]], "");
    assert_eq!(first_answers(&mut pool), expected);
}

#[test]
fn after_a_clean_warm_up_classes_are_loaded_and_state_is_not() {
    let mut pool = warmed(Warmup::Clean, &CLIENTS[..1], "");
    pool.fork(0, 0);
    assert_eq!(pool.get("do=loaded").text(), "[true,[]]");
    let mut pool = warmed(Warmup::None, &CLIENTS[..1], "");
    pool.fork(0, 0);
    assert_eq!(pool.get("do=loaded").text(), "[false,[]]");
}

#[test]
fn a_warm_up_by_requests_leaves_what_the_application_memoised() {
    let mut pool = warmed(Warmup::Requests, &CLIENTS[..1], "");
    let said = pool.said();
    assert!(said.contains("what they left in the application stays"), "{said}");
    pool.fork(0, 0);
    assert_eq!(
        pool.get("do=loaded").text(),
        r#"[true,["map","cache","closure"]]"#
    );
    let answer = pool.get(CLIENTS[3]).text();
    assert!(answer.contains(r#""function static": "alice""#), "{answer}");
}

#[test]
fn without_opcache_nothing_is_carried_over_and_that_is_said() {
    let mut pool = warmed(Warmup::Clean, &CLIENTS[..1], "opcache.enable=0\n");
    let said = pool.said();
    assert!(said.contains("nothing is carried over: OPcache is off"), "{said}");
    assert_eq!(first_answers(&mut pool), classic_answers());
}

#[test]
fn exit_in_a_warm_up_request_ends_that_request_only() {
    let mut pool = warmed(Warmup::Clean, &["do=exit&host=a&user=alice", CLIENTS[0]], "");
    assert_eq!(first_answers(&mut pool), classic_answers());
}

#[test]
fn a_warm_up_request_that_is_refused_is_said_and_no_error() {
    let pool = warmed(Warmup::Clean, &["do=missing"], "");
    let said = pool.said();
    let line = "warm-up request GET /index.php?do=missing answered with status 404";
    assert_eq!(said.matches(line).count(), 1, "{said}");
}

#[test]
fn a_warm_up_request_that_fails_keeps_the_application_from_booting() {
    for warmup in [Warmup::Clean, Warmup::Requests] {
        for (query, error) in [
            ("do=throw&user=alice", "no database for alice"),
            ("do=fatal", "Allowed memory size"),
            ("do=failing&user=alice", "closed for alice"),
        ] {
            let reason = failed(warmup, query);
            let named = format!("the warm-up request GET /index.php?{query} failed");
            assert!(
                reason.contains(&named) && reason.contains(error),
                "{warmup:?}: {reason}"
            );
        }
    }
}

#[test]
fn an_uncaught_exception_of_a_warm_up_request_is_shown_with_its_stack() {
    let reason = failed(Warmup::Clean, "do=throw&user=alice");
    assert!(
        reason.contains("RuntimeException") && reason.contains("memo.php"),
        "{reason}"
    );
    assert!(
        reason.contains("Stack trace:") && reason.contains("#0 "),
        "{reason}"
    );
}

#[test]
fn persistent_connections_of_a_clean_warm_up_are_closed() {
    let count = |pool: &mut Pool| {
        pool.fork(0, 0);
        pool.get("do=descriptors").text().matches("socket:").count()
    };
    let cold = count(&mut warmed(Warmup::None, &[], ""));
    let mut pool = warmed(Warmup::Clean, &["do=sockets"], "");
    assert!(!pool.said().contains("left descriptor"), "{}", pool.said());
    assert_eq!(count(&mut pool), cold);
}
