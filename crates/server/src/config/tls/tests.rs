use crate::config::{Config, Sources};

/// What is said of these settings, in an empty folder.
fn errors(set: &[&str]) -> String {
    let sources = Sources {
        dir: std::env::temp_dir(),
        set: set.iter().map(|&text| text.to_owned()).collect(),
        ..Sources::default()
    };
    Config::load(&sources).unwrap_err().to_string()
}

/// For each row, settings and parts of what is said of them.
fn all_are_said(table: &[(&[&str], &[&str])]) {
    for (set, expected) in table {
        let said = errors(set);
        for part in *expected {
            assert!(said.contains(part), "{set:?}: {said}");
        }
    }
}

#[test]
fn what_cannot_be_meant_is_refused_with_what_can_be() {
    let listen = "tls.listen='127.0.0.1:0'";
    let certificate = "tls.certificates='a.pem'";
    let table: [(&[&str], &[&str]); 8] = [
        (
            &[listen],
            &["`tls.listen` needs a certificate: set `tls.certificates`"],
        ),
        (
            &["tls.redirect=true"],
            &["`tls.redirect` leads nowhere without `tls.listen`"],
        ),
        (
            &[listen, certificate, "tls.keys=['a.key', 'b.key']"],
            &["`tls.keys` is [\"a.key\", \"b.key\"]: expected 1, as many as `tls.certificates`"],
        ),
        (
            &["tls.keys='a.key'"],
            &["there are no `tls.certificates` for them"],
        ),
        (
            &["tls.min_version='1.1'"],
            &["`tls.min_version` is \"1.1\": expected \"1.2\" or \"1.3\""],
        ),
        (
            &["tls.client='required'"],
            &["`tls.client`: expected `tls.client_ca` with it"],
        ),
        (
            &["tls.hsts='max-age=x'"],
            &["`tls.hsts` is \"max-age=x\": expected \"max-age=SECONDS\""],
        ),
        (
            &["tls.redirect_port=0"],
            &["`tls.redirect_port` is 0: must be from 1 to 65535"],
        ),
    ];
    all_are_said(&table);
}

#[test]
fn an_authority_is_asked_with_all_that_it_needs_for_names_it_can_know() {
    let table: [(&[&str], &[&str]); 4] = [
        (
            &["tls.acme.domains='a.test'"],
            &[
                "needs `tls.listen`",
                "needs `tls.acme.agree_to_terms = true`",
                "needs `tls.acme.folder`",
            ],
        ),
        (
            &["tls.acme.domains='*.a.test'"],
            &["\"*.a.test\": no authority hands out such a one"],
        ),
        (
            &["tls.acme.domains='a_b'"],
            &["\"a_b\": expected the name of a host"],
        ),
        (
            &["tls.acme.directory='http://a.test/dir'"],
            &["`tls.acme.directory` is \"http://a.test/dir\": expected a URL that begins with https://"],
        ),
    ];
    all_are_said(&table);
}
