//! Clients that people use, against the real server: each does what it is used for, over each version of HTTP that it speaks, in the
//! clear and over TLS. Browsers are in `wordpress`.

mod curl;
mod load;
mod python;
mod swaps;

use std::net::SocketAddr;
use std::path::Path;

use crate::harness::{App, Folder, Server};
use crate::tls::{Certificates, ca, secure};

/// A server of `clients/respond.php` in the clear and over TLS, with a certificate for 127.0.0.1 that an authority has signed.
struct Site {
    server: Server,
    secure: SocketAddr,
    certificates: Certificates,
    /// For what PHP and the clients write.
    folder: Folder,
}

impl Site {
    fn in_each_mode(test: impl Fn(&Self)) {
        for mode in [
            ["pool.web.mode=classic", "pool.web.script=public/index.php"],
            ["pool.web.mode=resident", "pool.web.script=worker.php"],
        ] {
            test(&Self::start(&mode));
        }
    }

    fn start(settings: &[&str]) -> Self {
        let app = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/clients");
        Self::of(&App::at(&app), settings)
    }

    fn of(app: &App, settings: &[&str]) -> Self {
        let folder = Folder::new("clients");
        let app = app
            .clone()
            .with_env("CLIENTS_SESSIONS", folder.path().to_str().unwrap());
        let certificates = Certificates::new("clients-tls");
        certificates.make_authority("/O=Tests/CN=Authority");
        certificates.issue_for_host("shop.test", "1");
        let of_tls = certificates.settings(&["shop.test"]);
        let all: Vec<&str> = of_tls
            .iter()
            .map(String::as_str)
            .chain(settings.iter().copied())
            .collect();
        let server = Server::start(&app, &all);
        Self {
            secure: secure(&server),
            server,
            certificates,
            folder,
        }
    }

    /// Where it is in the clear.
    fn clear(&self) -> String {
        format!("http://{}", self.server.address())
    }

    /// Where it is over TLS.
    fn encrypted(&self) -> String {
        format!("https://{}", self.secure)
    }

    /// The certificate of the authority.
    fn authority(&self) -> String {
        ca(&self.certificates.path("ca.pem"))
    }
}
