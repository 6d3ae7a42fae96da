//! What is found of what requests leave behind, and what is said about it.

use std::path::Path;

use serde_json::{Value, json};

use crate::harness::{App, Server};

const LEAKY: [&str; 4] = [
    "pool.web.mode=\"resident\"",
    "pool.web.script=\"worker.php\"",
    "pool.web.isolation=\"none\"",
    "pool.web.workers=1",
];

fn leaky(more: &[&str]) -> Server {
    let app = App::at(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/leaky"));
    Server::start(&app, &[&LEAKY, more].concat())
}

/// What was found, once so many requests have been looked at: a worker tells after its response.
fn after(server: &Server, sampled: u64) -> Value {
    loop {
        let answer: Value = serde_json::from_slice(&server.command(&["leaks", "--json"]).stdout).unwrap();
        let pool = answer["pools"][0].clone();
        if pool["sampled"].as_u64().unwrap() >= sampled {
            return pool;
        }
    }
}

fn found<'a>(pool: &'a Value, kind: &str, name: &str) -> Option<&'a Value> {
    let all = pool["found"].as_array().unwrap();
    all.iter().find(|one| one["kind"] == kind && one["name"] == name)
}

#[test]
fn each_kind_of_leak_is_found_by_name_and_place() {
    let server = leaky(&["pool.web.leak_check=1"]);
    let cases = [
        ("/global", "global", "$seen", None),
        ("/static", "static_property", "Shop::$user", Some("worker.php:9")),
        (
            "/function",
            "function_static",
            "visits()::$visits",
            Some("worker.php:26"),
        ),
        ("/property", "object_property", "Shop->cart", Some("worker.php:9")),
        ("/object", "objects", "Visit", Some("worker.php:22")),
        ("/setting", "setting", "precision", None),
        ("/handler", "handler", "error handler", None),
        ("/autoloader", "autoloader", "autoloaders", None),
        ("/constant", "constant", "LEFT_9", None),
        ("/declared", "function", "left_9", None),
        ("/resource", "resource", "STDIO", None),
        ("/wrapper", "stream_wrapper", "left9", None),
        ("/environment", "environment", "LEFT", None),
        ("/locale", "locale", "locale", None),
        ("/timezone", "timezone", "time zone", None),
        ("/encoding", "encoding", "mb_internal_encoding", None),
        ("/directory", "directory", "working directory", None),
    ];
    let mut sampled = 1;
    server.get("/clean");
    for (path, kind, name, place) in cases {
        for number in [8, 9] {
            server.get(&format!("{path}?number={number}"));
            sampled += 1;
        }
        let pool = after(&server, sampled);
        let all = pool["found"].as_array().unwrap();
        let one = all
            .iter()
            .find(|one| one["kind"] == kind && one["name"].as_str().unwrap().starts_with(name))
            .unwrap_or_else(|| panic!("{path}: {kind} {name} is not in {pool:#}"));
        assert_eq!(one["routes"], json!([format!("GET {path}")]), "{path}");
        if let Some(place) = place {
            assert_eq!(one["place"], place, "{path}");
        }
        assert!(!one["hint"].as_str().unwrap().is_empty());
    }
}

#[test]
fn a_request_that_leaves_nothing_gives_no_alarm() {
    let server = leaky(&["pool.web.leak_check=1"]);
    for number in 1..=30 {
        server.get(&format!("/clean?number={number}"));
    }
    let pool = after(&server, 30);
    assert_eq!(pool["found"], json!([]), "{pool:#}");
    assert_eq!(pool["routes"][0]["route"], "GET /clean");
    // A table or two that grow once.
    assert!(
        pool["routes"][0]["kept_bytes"].as_i64().unwrap() < 1024,
        "{pool:#}"
    );
    assert_eq!(server.log.count("requests of a route keep memory"), 0);
}

#[test]
fn a_leak_is_logged_once_and_again_when_it_goes_on() {
    let server = leaky(&["pool.web.leak_check=1"]);
    server.get("/clean");
    for number in 0..6 {
        server.get(&format!("/property?number={number}"));
    }
    let pool = after(&server, 7);
    let cart = found(&pool, "object_property", "Shop->cart").unwrap();
    assert_eq!((&cart["times"], &cart["repeated"]), (&json!(6), &json!(true)));
    assert_eq!(cart["change"], "array(5) → array(6)");
    let is_cart = |event: &Value| event["name"] == "Shop->cart";
    let first = server.log.wait("a request left something behind", is_cart);
    assert_eq!(first["request"], cart["first_request"]);
    assert_eq!(
        (&first["pool"], &first["kind"]),
        (&json!("web"), &json!("object_property"))
    );
    server.log.wait("requests keep leaving something behind", is_cart);
    for message in [
        "a request left something behind",
        "requests keep leaving something behind",
    ] {
        assert_eq!(server.log.count(message), 1, "{message}");
    }
    let table = server.ask(&["leaks"]);
    assert!(table.contains("property Shop->cart"), "{table}");
    assert!(table.contains("isolation = \"request\""), "{table}");
}

#[test]
fn memory_that_a_route_keeps_is_put_down_to_it() {
    let server = leaky(&["pool.web.leak_check=1"]);
    server.get("/clean");
    for number in 0..12 {
        server.get(&format!("/object?number={number}"));
        server.get("/clean");
    }
    let pool = after(&server, 25);
    let routes = pool["routes"].as_array().unwrap();
    let kept = |route| routes.iter().find(|one| one["route"] == route).unwrap()["kept_bytes"].as_i64();
    assert!(kept("GET /object").unwrap() >= 12 * 40, "{pool:#}");
    assert!(kept("GET /clean").unwrap() < 512, "{pool:#}");
    server.log.wait("requests of a route keep memory", |event| {
        event["route"] == "GET /object"
    });
}

#[test]
fn the_symfony_demo_keeps_only_what_symfony_keeps() {
    let settings = [
        "pool.web.isolation=\"none\"",
        "pool.web.workers=1",
        "pool.web.leak_check=1",
    ];
    let server = Server::start(&App::bundled("symfony"), &settings);
    for _ in 0..8 {
        for target in ["/", "/api/hello"] {
            assert_eq!(server.get(target).status, 200);
        }
    }
    let pool = after(&server, 16);
    let repeated = pool["found"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| one["repeated"] == true);
    let alarms: Vec<&Value> = repeated
        .filter(|one| {
            // Services that remember their last request, and the closures that the error handler makes for each.
            let name = one["name"].as_str().unwrap();
            let service = ["Symfony\\", "Twig\\", "App\\"]
                .iter()
                .any(|space| name.starts_with(space));
            let known = (one["kind"] == "object_property" && service)
                || (one["kind"] == "objects" && name == "Closure");
            !known
        })
        .collect();
    assert!(alarms.is_empty(), "{alarms:#?}");
}

#[test]
fn nothing_is_looked_for_where_it_is_off_or_nothing_can_be_left() {
    let off = leaky(&["pool.web.leak_check=0"]);
    let classic = Server::start(&App::of_tests(), &["pool.web.mode=\"classic\""]);
    for server in [&off, &classic] {
        for _ in 0..3 {
            server.get("/static?number=1");
        }
        let pool = after(server, 0);
        assert_eq!((&pool["leak_check"], &pool["sampled"]), (&json!(0), &json!(0)));
        let output = server.command(&["leaks"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(
            said.starts_with("error: no request is looked at: no pool"),
            "{said}"
        );
    }
}
