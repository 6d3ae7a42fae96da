//! An application that was never written for it (`apps/legacy`: constants, functions and statics of the request, globals, `exit()`
//! everywhere) answers as in classic mode. `bench/legacy.py` asks it more often, by more users.

use std::collections::BTreeMap;

use crate::harness::{App, Raw, RawClient, Server};

const SITES: [&str; 3] = ["one.test", "two.test", "three.test"];
const USERS: [&str; 4] = ["", "bob", "admin", "banned"];
const PAGES: [&str; 12] = [
    "/",
    "/?lang=de",
    "/article?id=3",
    "/article?id=7&loud=1&lang=fr",
    "/article?id=99",
    "/admin",
    "/login",
    "/time",
    "/nowhere",
    "/broken",
    "/broken?how=type&lang=de",
    "/broken?how=memory",
];

/// Status, the application's own headers, and body of each page for each user of each site, asked by `order` of their numbers.
fn answers(server: &Server, order: impl Fn(usize) -> usize) -> BTreeMap<String, (u16, Vec<String>, String)> {
    let mut asks = Vec::new();
    for page in PAGES {
        for site in SITES {
            asks.extend(USERS.map(|user| (page, site, user)));
        }
    }
    let mut answers = BTreeMap::new();
    for n in 0..asks.len() {
        let (page, site, user) = asks[order(n) % asks.len()];
        let mut client = RawClient::connect(server.address());
        let text = format!("GET {page} HTTP/1.1\r\nHost: {site}\r\nCookie: user={user}\r\n\r\n");
        client.send(text.as_bytes()).unwrap();
        let answer = client.read("GET").unwrap();
        answers.insert(
            format!("{page} on {site} by {user:?}"),
            (answer.status, headers(&answer), answer.text()),
        );
    }
    answers
}

fn headers(answer: &Raw) -> Vec<String> {
    let own = answer
        .headers
        .iter()
        .filter(|(name, _)| matches!(name.as_str(), "location" | "x-theme" | "content-type"));
    own.map(|(name, value)| format!("{name}: {value}")).collect()
}

fn classic() -> Server {
    Server::start(
        &App::bundled("legacy"),
        &[
            "pool.web.mode=\"classic\"",
            "pool.web.script=\"public/index.php\"",
        ],
    )
}

/// The answers of a resident pool, whoever was served before, are those of classic mode.
fn assert_as_in_classic_mode(method: &str) {
    let expected = answers(&classic(), |n| n);
    let method = format!("pool.web.isolation_method={method:?}");
    let server = Server::start(
        &App::bundled("legacy"),
        &["pool.web.isolation=\"request\"", &method],
    );
    for round in 0..5 {
        // 143 and 25 have no factor in common with the number of requests.
        let order = |n: usize| {
            if round % 2 == 0 {
                n * 143 + round
            } else {
                n * 25 + round
            }
        };
        assert_eq!(answers(&server, order), expected, "round {round}");
    }
    assert_eq!(server.log.count("worker died"), 0);
}

#[test]
fn an_old_application_gets_each_user_his_own_page_when_it_is_rewound() {
    assert_as_in_classic_mode("auto");
}

#[test]
fn an_old_application_gets_each_user_his_own_page_in_forks() {
    assert_as_in_classic_mode("fork");
}

#[test]
fn an_old_application_gets_each_user_his_own_page_in_classic_mode() {
    let server = classic();
    let first = answers(&server, |n| n);
    // 143 has no factor in common with the number of requests.
    assert_eq!(answers(&server, |n| n * 143 + 5), first);
    assert_eq!(first["/admin on one.test by \"banned\""].0, 302);
    assert_eq!(first["/admin on one.test by \"admin\""].0, 200);
    assert!(
        first["/?lang=de on two.test by \"bob\""]
            .2
            .contains("Hallo, bob!")
    );
}
