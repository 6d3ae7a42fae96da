//! Front controllers that know nothing of Hearth, resident: Hearth boots them up to where they ask `HttpFoundation` for their
//! request. They answer as they do in a classic pool.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use crate::harness::{App, Client, Folder, Server, cookie_line};
use crate::parity;

const WAYS: [&str; 2] = ["pool.web.isolation_method=auto", "pool.web.isolation_method=fork"];
const SCRIPT: [&str; 3] = [
    "root=public",
    "pool.web.script=public/index.php",
    "pool.web.workers=1",
];
const WAITS: &str = "public/index.php boots once, and waits where it asks HttpFoundation for its request";
/// `HttpFoundation`, without an application.
const LOADER: &str = "<?php
spl_autoload_register(function ($class) {
    $file = '/usr/share/php/' . strtr($class, '\\\\', '/') . '.php';
    if (is_file($file)) { require $file; }
});
if (is_file($functions = '/usr/share/php/Symfony/Contracts/Deprecation/function.php')) { require_once $functions; }
use Symfony\\Component\\HttpFoundation\\Request;
";

/// The Symfony demo without Hearth's package, and with the front controller that Symfony's own skeleton had before its Runtime.
fn plain() -> Folder {
    let folder = copied();
    folder.write("public/index.php", include_str!("front/index.php"));
    folder
}

fn copied() -> Folder {
    let folder = Folder::new("front-controller");
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps/symfony");
    let files = [
        "src",
        "config",
        "templates",
        "public",
        "autoload.php",
        "autoload_runtime.php",
        ".env",
        "php.ini",
    ];
    let copied = Command::new("cp")
        .arg("-r")
        .args(files.map(|file| demo.join(file)))
        .arg(folder.path())
        .status();
    assert!(copied.unwrap().success(), "copying the files of the demo");
    folder
}

fn start(app: &App, settings: &[&str]) -> Server {
    let ini = ["pool.web.php_ini=php.ini"];
    Server::start(app, &[&SCRIPT[..], &ini, settings].concat())
}

/// Status, headers that an application chooses, and body; what differs by nature is left out.
fn answers(address: SocketAddr) -> Vec<String> {
    let mut answers = Vec::new();
    for case in parity::symfony_cases() {
        let raw = case.send(address);
        answers.push(format!(
            "{}: {} {}",
            case.name(),
            raw.status,
            without_process(&raw.text())
        ));
    }
    let form = "Content-Type: application/x-www-form-urlencoded\r\n";
    let mut cookie = String::new();
    for (method, target, body) in [
        ("GET", "/api/hello", ""),
        ("GET", "/upload", ""),
        ("GET", "/login", ""),
        ("PUT", "/api/request", "a=b&c[]=d"),
        ("POST", "/login", "login[user]=demo&login[password]=wrong"),
        ("GET", "/account", ""),
        ("POST", "/login", "login[user]=demo&login[password]=hearth"),
        ("GET", "/account", ""),
        ("GET", "/account", ""),
        ("POST", "/logout", ""),
        ("GET", "/throw", ""),
        ("GET", "/exit", ""),
        ("GET", "/fatal", ""),
        ("GET", "/no-such-page", ""),
        ("GET", "/download?size=100001", ""),
    ] {
        let mut client = Client::connect(address).unwrap();
        let length = body.len();
        let head = format!("{method} {target} HTTP/1.1\r\nHost: h\r\n{form}{cookie}Content-Length: {length}");
        client.raw(format!("{head}\r\n\r\n{body}").as_bytes()).unwrap();
        let answer = client.read().unwrap();
        if answer.header("set-cookie").is_some() {
            cookie = cookie_line(&answer.headers);
        }
        let header = |name| answer.header(name).unwrap_or_default().to_owned();
        let (kind, location, cache) = (
            header("content-type"),
            header("location"),
            header("cache-control"),
        );
        let text = without_process(&answer.text());
        answers.push(format!(
            "{method} {target} {} {kind} {location} {cache} {text}",
            answer.status
        ));
    }
    answers
}

/// The demo's pages say which process has answered, how much memory it took, and, with a runner of Symfony's own, in which mode.
fn without_process(page: &str) -> String {
    let named = [
        "<dt>worker</dt>",
        "<dt>mode</dt>",
        "<p>Request 0",
        "id=\"memory\"",
    ];
    let stays = |line: &&str| !named.iter().any(|name| line.contains(name));
    page.lines().filter(stays).collect::<Vec<_>>().join("\n")
}

fn assert_same(ours: &[String], expected: &[String], what: &str) {
    assert_eq!(ours.len(), expected.len());
    for (ours, expected) in ours.iter().zip(expected) {
        assert_eq!(ours, expected, "{what}");
    }
}

#[test]
fn a_plain_front_controller_of_symfony_answers_resident_as_it_does_classic() {
    let folder = plain();
    let expected = answers(start(&folder.app(), &["pool.web.mode=classic"]).address());
    assert!(expected.len() > 90, "only {} requests", expected.len());
    for way in WAYS {
        let server = start(&folder.app(), &["pool.web.mode=resident", way]);
        server.log.wait_for_line_with(WAITS);
        for _ in 0..2 {
            assert_same(&answers(server.address()), &expected, way);
        }
        server.assert_same_workers(1);
        assert_eq!(
            server.log.count("there is no request yet"),
            0,
            "{}",
            server.log.text()
        );
    }
}

#[test]
fn a_front_controller_with_the_runtime_of_symfony_answers_resident_as_it_does_classic() {
    let folder = copied();
    let app = folder
        .app()
        .with_env("APP_RUNTIME", r"Symfony\Component\Runtime\SymfonyRuntime");
    let expected = answers(start(&app, &["pool.web.mode=classic"]).address());
    for way in WAYS {
        let server = start(&app, &["pool.web.mode=resident", way]);
        for _ in 0..2 {
            assert_same(&answers(server.address()), &expected, way);
        }
        server.assert_same_workers(1);
    }
}

#[test]
fn no_request_finds_what_another_has_left_in_the_application() {
    let folder = plain();
    folder.write(
        "src/Controller/CountController.php",
        "<?php
namespace App\\Controller;
use Symfony\\Component\\HttpFoundation\\{Request, Response};
use Symfony\\Component\\HttpKernel\\Attribute\\AsController;
use Symfony\\Component\\Routing\\Attribute\\Route;
#[AsController]
final class CountController
{
    private int $mine = 0;
    private static int $all = 0;
    #[Route('/count', name: 'count')]
    public function __invoke(Request $request): Response
    {
        $_SERVER['LEFT'] = ($_SERVER['LEFT'] ?? 0) + 1;
        $GLOBALS['left'] = ($GLOBALS['left'] ?? 0) + 1;
        $other = Request::createFromGlobals();
        $counts = [++$this->mine, ++self::$all, $_SERVER['LEFT'], $GLOBALS['left'], $other->query->get('n')];
        return new Response(implode(' ', $counts));
    }
}
",
    );
    for way in WAYS {
        for warmup in ["none", "clean", "requests"] {
            let warmup = format!("pool.web.warmup={warmup}");
            let paths = "pool.web.warmup_paths=[\"/count\"]";
            let paranoid = "pool.web.paranoid=true";
            let server = start(
                &folder.app(),
                &["pool.web.mode=resident", way, &warmup, paths, paranoid],
            );
            for n in 0..20 {
                assert_eq!(
                    server.get(&format!("/count?n={n}")).text(),
                    format!("1 1 1 1 {n}"),
                    "{way} {warmup}"
                );
            }
            server.assert_same_workers(1);
        }
    }
}

#[test]
fn a_front_controller_needs_isolation() {
    let folder = Folder::with(
        "front-controller",
        &[(
            "public/index.php",
            &format!("{LOADER} echo Request::createFromGlobals()->getMethod();"),
        )],
    );
    let settings = ["pool.web.mode=resident", "pool.web.isolation=none"];
    let failed = Server::fail(&folder.app(), &[&SCRIPT[..], &settings].concat());
    let said = failed.log.wait_for_line("error: the application did not boot: ");
    assert!(
        said.contains("index.php is a front controller, which Hearth boots once")
            && said.contains("it needs isolation = \"request\", and pool.web has \"none\""),
        "{said}"
    );
}

#[test]
fn a_script_that_never_asks_is_told_how_to() {
    let folder = Folder::with(
        "front-controller",
        &[(
            "public/index.php",
            &format!("{LOADER} echo (new Request($_GET))->getMethod();"),
        )],
    );
    let failed = Server::fail(
        &folder.app(),
        &[&SCRIPT[..], &["pool.web.mode=resident"]].concat(),
    );
    let said = failed.log.wait_for_line("error: the application did not boot: ");
    assert!(
        said.contains("index.php did not reach hearth_handle_request() or hearth_request()")
            && said.contains(
                "put hearth_request() where the request begins, or set pool.web.mode = \"classic\""
            ),
        "{said}"
    );
}

#[test]
fn a_worker_script_that_uses_httpfoundation_waits_in_its_own_way() {
    // Another file calls the function in the first case, so the script does not show what it is.
    let answer =
        "echo get_class(Request::createFromGlobals()), ' ', Request::createFromGlobals()->query->get('n');";
    let own = "class Own extends Request {} Request::setFactory(fn (...$from) => new Own(...$from));";
    let request = r"Symfony\Component\HttpFoundation\Request";
    for (boot, class) in [("class_exists(Request::class);", request), (own, "Own")] {
        let indirect = format!(
            "{LOADER} {boot} $ask = 'hearth_handle' . '_request'; while ($ask(function () {{ {answer} }}));"
        );
        let direct = format!("{LOADER} {boot} while (hearth_handle_request(function () {{ {answer} }}));");
        for script in [indirect, direct] {
            let folder = Folder::with("front-controller", &[("public/index.php", &script)]);
            for isolation in ["request", "none"] {
                let isolation = format!("pool.web.isolation={isolation}");
                let server = Server::start(
                    &folder.app(),
                    &[&SCRIPT[..], &["pool.web.mode=resident", &isolation]].concat(),
                );
                for n in 0..5 {
                    assert_eq!(
                        server.get(&format!("/?n={n}")).text(),
                        format!("{class} {n}"),
                        "{script}"
                    );
                }
                assert_eq!(server.log.count("waits where it asks"), 0);
                server.assert_same_workers(1);
            }
        }
    }
}

#[test]
fn a_worker_script_in_a_required_file_may_make_a_request_while_it_boots() {
    // As Laravel Octane's, whose public/frankenphp-worker.php requires one line of its package.
    let required = format!(
        "{LOADER} $boot = Request::create('/boot'); Request::createFromGlobals();
        while (frankenphp_handle_request(function () use ($boot) {{
            echo $boot->getPathInfo(), ' ', Request::createFromGlobals()->query->get('n');
        }}));"
    );
    let folder = Folder::with(
        "front-controller",
        &[
            ("public/index.php", "<?php require __DIR__ . '/../octane.php';"),
            ("octane.php", &required),
        ],
    );
    for isolation in ["request", "none"] {
        let isolation = format!("pool.web.isolation={isolation}");
        let server = Server::start(
            &folder.app(),
            &[&SCRIPT[..], &["pool.web.mode=resident", &isolation]].concat(),
        );
        for n in 0..5 {
            assert_eq!(server.get(&format!("/?n={n}")).text(), format!("/boot {n}"));
        }
        assert_eq!(server.log.count("waits where it asks"), 0);
        server.assert_same_workers(1);
    }
}

#[test]
fn a_front_controller_that_waits_in_a_required_file_asks_there_only() {
    // The class is loaded above the call, so the request below it is asked for with Hearth's factory already there.
    let script = format!(
        "{LOADER} class_exists(Request::class); require __DIR__ . '/../wait.php';
        echo Request::createFromGlobals()->query->get('n');"
    );
    let folder = Folder::with(
        "front-controller",
        &[
            ("public/index.php", &script),
            ("wait.php", "<?php hearth_request();"),
        ],
    );
    for way in WAYS {
        let server = Server::start(
            &folder.app(),
            &[&SCRIPT[..], &["pool.web.mode=resident", way]].concat(),
        );
        for n in 0..5 {
            let answer = server.get(&format!("/?n={n}"));
            assert_eq!((answer.status, answer.text()), (200, n.to_string()), "{way}");
        }
        assert_eq!(server.log.count("waits where it asks"), 0);
        server.assert_same_workers(1);
    }
}

#[test]
fn a_front_controller_may_make_requests_while_it_boots() {
    let script = format!(
        "{LOADER} class Own extends Request {{}}
        $made = [Own::create('/own'), Request::create('/plain')];
        $asked = Request::createFromGlobals();
        foreach ([...$made, Own::create('/below'), $asked] as $request) {{
            echo $request::class, ' ', $request->getPathInfo(), PHP_EOL;
        }}"
    );
    let folder = Folder::with("front-controller", &[("public/index.php", &script)]);
    let request = r"Symfony\Component\HttpFoundation\Request";
    for way in WAYS {
        let settings = ["pool.web.mode=resident", "pool.web.paranoid=true", way];
        let server = Server::start(&folder.app(), &[&SCRIPT[..], &settings].concat());
        server.log.wait_for_line_with(WAITS);
        for n in 0..5 {
            assert_eq!(
                server.get(&format!("/{n}")).text(),
                format!("Own /own\n{request} /plain\nOwn /below\n{request} /{n}\n"),
                "{way}"
            );
        }
        server.assert_same_workers(1);
    }
}
