//! Sockets that are handed down: by a service manager, and to another binary.

use std::ffi::OsStr;

use rustix::process::Signal;

use super::{Certificates, ca, curl, secure};
use crate::harness::{App, Server};

/// Listens at two ports and becomes the program that its arguments name; the second socket is one of TLS.
const ACTIVATE: &str = r"
    use Socket; use POSIX;
    $^F = 255;
    my @fds = map {
        my $s;
        socket($s, PF_INET, SOCK_STREAM, 0) && bind($s, sockaddr_in(0, INADDR_LOOPBACK)) && listen($s, 16) || die;
        POSIX::dup(fileno($s));
    } (1, 2);
    POSIX::dup2($fds[0], 3) // die;
    POSIX::dup2($fds[1], 4) // die;
    @ENV{qw(LISTEN_PID LISTEN_FDS LISTEN_FDNAMES)} = ($$, 2, 'http:tls');
    exec @ARGV or die;
";

#[test]
fn a_socket_of_the_manager_may_be_one_of_tls_and_goes_to_another_binary() {
    let certificates = Certificates::new("tls-handed");
    certificates.make("shop.test");
    let settings = certificates.settings(&["shop.test"]);
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let app = App::of_tests().run_by(&["perl", "-e", ACTIVATE, "--"].map(OsStr::new));
    let mut server = Server::start(&app, &settings);
    let address = secure(&server);
    let pem = ca(&certificates.path("shop.test.pem"));
    assert_eq!(
        curl(address, "shop.test", &["--cacert", &pem], "/a"),
        "hello from /a"
    );
    assert_eq!(server.get("/b").text(), "hello from /b");
    server.signal(Signal::USR2);
    let replaced = "replaced: another server has taken over, this one finishes its requests";
    let pid = server.log.wait(replaced, |_| true)["pid"].as_i64().unwrap();
    server.follow(i32::try_from(pid).unwrap());
    server.log.wait_for_count("server stopped", 1);
    assert_eq!(
        curl(address, "shop.test", &["--cacert", &pem], "/c"),
        "hello from /c"
    );
}

#[test]
fn a_socket_of_tls_needs_a_certificate() {
    let app = App::of_tests().run_by(&["perl", "-e", ACTIVATE, "--"].map(OsStr::new));
    let failed = Server::fail(&app, &["pool.web.workers=1"]);
    let text = failed.log.text();
    assert!(text.contains("no certificate for https://127.0.0.1:"), "{text}");
}
