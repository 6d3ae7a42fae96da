//! An application that does not boot is reported, not served.

use std::path::Path;

use crate::harness::{App, Folder, Server};

#[test]
fn an_exception_while_booting_is_shown_and_the_exit_status_is_1() {
    let app = App::at(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/broken"));
    let settings = ["pool.web.mode=\"resident\"", "pool.web.script=\"worker.php\""];
    let failed = Server::fail(&app, &settings);
    assert_eq!(failed.status.code(), Some(1));
    let said = failed.log.wait_for_line("error: the application did not boot: ");
    assert!(said.contains("worker.php"), "{said}");
    assert!(
        failed.log.text().contains("the database is on holiday"),
        "{}",
        failed.log.text()
    );
}

#[test]
fn an_exception_that_the_application_handles_while_it_boots_is_named() {
    let app = Folder::with(
        "handled",
        &[
            (
                "worker.php",
                "<?php set_exception_handler(fn () => print('a page that nobody sees')); require 'kernel.php';",
            ),
            ("kernel.php", "<?php\nsyntax error"),
        ],
    );
    let settings = ["pool.web.mode=resident", "pool.web.script=worker.php"];
    let failed = Server::fail(&app.app(), &settings);
    assert_eq!(failed.status.code(), Some(1));
    let said = failed.log.wait_for_line("last exception thrown: ");
    let place = format!(
        " in {}:2",
        app.file("kernel.php").canonicalize().unwrap().display()
    );
    assert!(
        said.contains("ParseError: syntax error, unexpected ") && said.ends_with(&place),
        "{said}"
    );
}

#[test]
fn an_exception_that_nobody_catches_is_named_before_one_that_is_caught() {
    let worker = r"<?php
        final class Slip extends RuntimeException {}
        function slip(): void { try { throw new Slip('daily business'); } catch (LogicException | Slip) {} }
        set_exception_handler(function () { slip(); });
        slip();
        try { throw new DomainException('no disk'); } catch (Slip) {} finally { slip(); }
    ";
    let settings = ["pool.web.mode=resident", "pool.web.script=worker.php"];
    let app = Folder::with("uncaught", &[("worker.php", worker)]);
    let failed = Server::fail(&app.app(), &settings);
    let said = failed.log.wait_for_line("last exception thrown");
    assert!(
        said.starts_with("last exception thrown: DomainException: no disk in "),
        "{said}"
    );
    app.write("worker.php", &worker.replace("(Slip)", "(DomainException)"));
    let failed = Server::fail(&app.app(), &settings);
    let said = failed.log.wait_for_line("last exception thrown");
    assert!(
        said.starts_with("last exception thrown (the application caught it): Slip: "),
        "{said}"
    );
}

#[test]
fn an_index_that_runs_the_runtime_of_symfony_itself_is_told_of_ours() {
    let worker = r"<?php
        namespace Symfony\Component\Runtime { class SymfonyRuntime {} }
        namespace { try { throw new LogicException('Stopwatch'); } catch (LogicException) {} exit(0); }
    ";
    let app = Folder::with("symfony-runtime", &[("worker.php", worker)]);
    let failed = Server::fail(
        &app.app(),
        &["pool.web.mode=resident", "pool.web.script=worker.php"],
    );
    let said = failed.log.wait_for_line("the script runs Symfony's own Runtime");
    assert!(
        said.contains(r"APP_RUNTIME = 'Hearth\Bridge\Symfony\Runtime'"),
        "{said}"
    );
    assert!(!failed.log.text().contains("Stopwatch"), "{}", failed.log.text());
}

#[test]
fn a_worker_binary_that_is_no_zygote_is_reported() {
    let failed = Server::fail(&App::bundled("hello"), &["pool.web.worker_binary=\"/bin/true\""]);
    assert_eq!(failed.status.code(), Some(1));
    let said = failed.log.wait_for_line("error: --set pool.web.worker_binary");
    assert!(said.contains("(exit status 0)"), "{said}");
}

#[test]
fn a_limit_that_leaves_php_no_memory_is_named() {
    let limits = ["pool.web.rlimits.data=12 MiB"];
    let failed = Server::fail(&App::bundled("hello"), &limits);
    assert_eq!(failed.status.code(), Some(1));
    assert!(
        failed.log.text().contains("rlimits.data = 12582912"),
        "{}",
        failed.log.text()
    );
}

#[test]
fn a_server_whose_output_nobody_reads_serves() {
    use std::io::BufRead;
    use std::process::{Command, Stdio};

    let app = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps/hello");
    let mut command = Command::new(env!("CARGO_BIN_EXE_hearth"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--set", "admin_socket=off"]);
    command.arg(app);
    let mut child = command
        .env("RUST_LOG", "hearth=debug")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stderr.take());
    let mut ready = String::new();
    std::io::BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut ready)
        .unwrap();
    crate::harness::kill(i32::try_from(child.id()).unwrap(), rustix::process::Signal::TERM);
    assert!(ready.starts_with("hearth: ready on "), "{ready:?}");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// As under php-fpm: else whoever may write to the application's folder decides about PHP's settings.
#[test]
fn a_php_ini_in_the_current_folder_is_not_read() {
    let app = Folder::with(
        "planted",
        &[
            ("php.ini", "precision = 7\n"),
            ("php-hearth.ini", "precision = 7\n"),
            (
                "public/index.php",
                "<?php echo ini_get('precision'), ' ', getcwd();",
            ),
            (
                "worker.php",
                "<?php while (hearth_handle_request(function () { echo ini_get('precision'), ' ', getcwd(); })) {}",
            ),
            ("public/php.ini", "precision = 7\n"),
        ],
    );
    let modes: [&[&str]; 3] = [
        &["pool.web.mode=classic"],
        &["pool.web.mode=resident", "pool.web.script=worker.php"],
        &[
            "pool.web.mode=resident",
            "pool.web.script=worker.php",
            "pool.web.chdir=public",
        ],
    ];
    for mode in modes {
        let server = Server::start(
            &app.app().in_its_folder(),
            &[mode, &["pool.web.workers=1"]].concat(),
        );
        let text = server.get("/").text();
        assert!(text.starts_with("14 "), "{mode:?}: {text}");
    }
    let run =
        std::process::Command::new(Path::new(env!("CARGO_BIN_EXE_hearth")).with_file_name("hearth-worker"))
            .args(["run", "public/index.php"])
            .current_dir(app.path())
            .output()
            .unwrap();
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(
        text.contains("14 "),
        "{text}{}",
        String::from_utf8_lossy(&run.stderr)
    );
}
