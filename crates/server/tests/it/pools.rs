//! Several pools: who gets which request, and that they have nothing in common.

use std::fs;
use std::path::PathBuf;

use serde_json::json;

use crate::harness::{App, Client, Server};

/// A server with a resident pool for everything, one for `/api/*`, and a classic one in another folder for one host.
fn server(name: &str) -> (PathBuf, Server) {
    let dir = std::env::temp_dir().join(format!("hearth-pools-{}-{name}", std::process::id()));
    let (web, blog) = (dir.join("web"), dir.join("blog"));
    for folder in [&web, &blog] {
        fs::create_dir_all(folder).unwrap();
    }
    let worker = |name: &str| {
        format!(
            "<?php $count = 0; while (hearth_handle_request(function () use (&$count) {{ echo '{name} ', ++$count, ' ', \
             $_SERVER['REQUEST_URI']; }})) {{}}"
        )
    };
    fs::write(web.join("worker.php"), worker("web")).unwrap();
    fs::write(web.join("api.php"), worker("api")).unwrap();
    fs::write(blog.join("index.php"), "<?php echo 'blog ', getcwd();").unwrap();
    fs::write(blog.join("style.css"), "/* blog */").unwrap();
    let settings = "[pool.web]\nmode = 'resident'\nscript = 'worker.php'\nworkers = 1\n\
                    [pool.api]\nmode = 'resident'\nscript = 'api.php'\npaths = ['/api/*']\nworkers = 1\nisolation = 'none'\n\
                    [pool.blog]\nhosts = ['blog.test']\ndir = '../blog'\nworkers = 2\n";
    fs::write(web.join("hearth.toml"), settings).unwrap();
    let server = Server::start(&App::at(&web), &[]);
    (dir, server)
}

fn ask(client: &mut Client, host: &str, target: &str) -> String {
    let head = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    client.raw(head.as_bytes()).unwrap();
    client.read().unwrap().text()
}

#[test]
fn each_pool_gets_the_requests_that_it_names() {
    let (dir, server) = server("names");
    let mut client = server.connect();
    let blog = format!("blog {}", dir.canonicalize().unwrap().join("blog").display());
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
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_reload_takes_over_with_all_pools_or_with_none() {
    let (dir, server) = server("reload");
    let mut client = server.connect();
    assert_eq!(ask(&mut client, "localhost", "/api"), "api 1 /api");
    let (worker, api) = (dir.join("web/worker.php"), dir.join("web/api.php"));
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
    fs::remove_dir_all(dir).unwrap();
}
