//! Several pools: who gets which request, and that they have nothing in common.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::harness::{App, Client, Folder, Server};

/// A server with a resident pool for everything, one for `/api/*`, and a classic one in another folder for one host.
fn server(name: &str) -> (Folder, Server) {
    let folder = Folder::new(&format!("pools-{name}"));
    let worker = |name: &str| {
        format!(
            "<?php $count = 0; while (hearth_handle_request(function () use (&$count) {{ echo '{name} ', ++$count, ' ', \
             $_SERVER['REQUEST_URI']; }})) {{}}"
        )
    };
    folder.write("web/worker.php", &worker("web"));
    folder.write("web/api.php", &worker("api"));
    folder.write("blog/index.php", "<?php echo 'blog ', getcwd();");
    folder.write("blog/style.css", "/* blog */");
    let settings = "[pool.web]\nmode = 'resident'\nscript = 'worker.php'\nworkers = 1\n\
                    [pool.api]\nmode = 'resident'\nscript = 'api.php'\npaths = ['/api/*']\nworkers = 1\nisolation = 'none'\n\
                    [pool.blog]\nhosts = ['blog.test']\ndir = '../blog'\nworkers = 2\n";
    folder.write("web/hearth.toml", settings);
    let server = Server::start(&App::at(&folder.file("web")), &[]);
    (folder, server)
}

fn ask(client: &mut Client, host: &str, target: &str) -> String {
    let head = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    client.raw(head.as_bytes()).unwrap();
    client.read().unwrap().text()
}

#[test]
fn each_pool_gets_the_requests_that_it_names() {
    let (folder, server) = server("names");
    let mut client = server.connect();
    let blog = format!("blog {}", folder.file("blog").canonicalize().unwrap().display());
    let table = [
        ("localhost", "/", "web 1 /"),
        ("localhost", "/api", "api 1 /api"),
        ("localhost", "/api/users?x=1", "api 2 /api/users?x=1"),
        ("localhost", "/%61pi/x", "api 3 /%61pi/x"),
        ("localhost", "/apis", "web 1 /apis"),
        ("blog.test", "/", &*blog),
        ("BLOG.test:81", "/", &*blog),
        // The host goes before the path.
        ("blog.test", "/api/", &*blog),
        ("blog.test", "/style.css", "/* blog */"),
        ("other.test", "/api/x", "api 4 /api/x"),
    ];
    for (host, target, expected) in table {
        assert_eq!(ask(&mut client, host, target), expected, "{host} {target}");
    }
    let pools = server.status()["pools"].take();
    let names: Vec<_> = pools
        .as_array()
        .unwrap()
        .iter()
        .map(|pool| &pool["name"])
        .collect();
    assert_eq!(names, [&json!("web"), &json!("api"), &json!("blog")]);
    assert_eq!(pools[2]["mode"], "classic");
    for name in ["web", "api", "blog"] {
        for message in ["zygote ready", "worker ready"] {
            server.log.wait(message, |event| event["pool"] == name);
        }
        server
            .out
            .wait_for_line_with(&format!("\"pool\":\"{name}\",\"worker\":"));
    }
}

#[test]
fn a_reload_takes_over_with_all_pools_or_with_none() {
    let (folder, server) = server("reload");
    let mut client = server.connect();
    assert_eq!(ask(&mut client, "localhost", "/api"), "api 1 /api");
    let (worker, api) = (folder.file("web/worker.php"), folder.file("web/api.php"));
    let text = fs::read_to_string(&worker).unwrap();
    fs::write(&worker, text.replace("web ", "new ")).unwrap();
    let good = fs::read_to_string(&api).unwrap();
    fs::write(&api, "<?php throw new LogicException('no api');").unwrap();
    let output = server.command(&["reload"]);
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        complaint.contains("pool api") && complaint.contains("no api"),
        "{complaint}"
    );
    assert_eq!(ask(&mut client, "localhost", "/"), "web 1 /");
    fs::write(&api, good).unwrap();
    server.ask(&["reload"]);
    assert_eq!(ask(&mut client, "localhost", "/"), "new 1 /");
    // The first one was the health request.
    assert_eq!(ask(&mut client, "localhost", "/api"), "api 2 /api");
}

#[test]
fn a_pool_that_is_no_more_finishes_and_is_kept_for_a_rollback() {
    let (folder, server) = server("gone");
    let settings = folder.file("web/hearth.toml");
    let text = fs::read_to_string(&settings).unwrap();
    let (before, blog) = (
        text.find("[pool.api]").unwrap(),
        text.find("[pool.blog]").unwrap(),
    );
    fs::write(&settings, format!("{}{}", &text[..before], &text[blog..])).unwrap();
    server.ask(&["reload"]);
    let mut client = server.connect();
    assert_eq!(ask(&mut client, "localhost", "/api"), "web 1 /api");
    let api = || {
        let pools = server.status()["pools"].take();
        let mut pools = pools.as_array().unwrap().clone().into_iter();
        pools.find(|pool| pool["name"] == "api").unwrap()["generations"].take()
    };
    let mut generations = api();
    while generations[0]["state"] == "draining" {
        generations = api();
    }
    assert_eq!(
        (generations.as_array().unwrap().len(), &generations[0]["state"]),
        (1, &json!("kept"))
    );
    server.ask(&["rollback"]);
    assert_eq!(ask(&mut client, "localhost", "/api"), "api 1 /api");
    assert_eq!(api()[0]["state"], "ready");
}

/// As one that was built for another version of PHP.
#[test]
fn a_pool_has_a_worker_binary_of_its_own() {
    let (folder, server) = server("binary");
    let (settings, binary) = (folder.file("web/hearth.toml"), folder.file("other-worker"));
    let common = Path::new(env!("CARGO_BIN_EXE_hearth")).with_file_name("hearth-worker");
    fs::copy(&common, &binary).unwrap();
    let text = fs::read_to_string(&settings).unwrap();
    let set = format!("{text}worker_binary = '{}'\n", binary.display());
    fs::write(&settings, set).unwrap();
    server.ask(&["reload"]);
    let pools = server.status()["pools"].take();
    // Those of the new release come first.
    for (number, expected) in [(0, &common), (1, &common), (2, &binary)] {
        let pid = &pools[number]["workers"][0]["pid"];
        let path = fs::read_link(format!("/proc/{pid}/exe")).unwrap();
        assert_eq!(
            path,
            expected.canonicalize().unwrap(),
            "{}",
            pools[number]["name"]
        );
    }
    let mut client = server.connect();
    assert!(ask(&mut client, "blog.test", "/").starts_with("blog "));
}
