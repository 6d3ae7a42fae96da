//! Trusted proxies: what PHP sees of the client, over TCP and over unix sockets, and what it sees when nobody is trusted.

use crate::harness::{Raw, RawClient, in_each_mode};

const LINES: &str = "X-Forwarded-For: 6.6.6.6, 192.0.2.1:4711, 10.0.0.1\r\nX-Forwarded-Proto: https\r\n\
                     X-Forwarded-Host: shop.example\r\nX_Forwarded_For: 7.7.7.7\r\nX.Forwarded.For: 7.7.7.7\r\n";

fn ask(client: &mut RawClient, lines: &str) -> Raw {
    let request = format!("GET /peer HTTP/1.1\r\nHost: inner:8080\r\n{lines}\r\n");
    client.send(request.as_bytes()).unwrap();
    client.read("GET").unwrap()
}

#[test]
fn php_sees_the_client_that_a_trusted_proxy_names() {
    // This machine and 10.0.0.1 among others.
    let settings = ["trusted_proxies.addresses=[\"private\"]"];
    in_each_mode(&settings, |server| {
        let mut client = RawClient::connect(server.address());
        // A proxy that sets these two passes on what a client has said of host and port.
        let lines = format!("{LINES}X-Forwarded-Port: 4444\r\n");
        assert_eq!(
            ask(&mut client, &lines).text(),
            "192.0.2.1 4711 https on 8080 inner inner:8080 6.6.6.6, 192.0.2.1:4711, 10.0.0.1"
        );
        // The next request of the same connection is another client's.
        let port = server.address().port();
        let next = ask(&mut client, "X-Forwarded-For: 192.0.2.2\r\n").text();
        assert_eq!(
            next,
            format!("192.0.2.2 - http - {port} inner inner:8080 192.0.2.2")
        );
    });
}

#[test]
fn php_sees_the_host_and_port_that_a_proxy_names_where_they_are_asked_for() {
    let headers = "trusted_proxies.headers=[\"x-forwarded-for\", \"x-forwarded-proto\", \"x-forwarded-host\", \"x-forwarded-port\"]";
    in_each_mode(
        &[
            "trusted_proxies.addresses=[\"127.0.0.1\", \"10.0.0.0/8\"]",
            headers,
        ],
        |server| {
            let mut client = RawClient::connect(server.address());
            for (more, port) in [("", 443), ("X-Forwarded-Port: 4444\r\n", 4444)] {
                let text = ask(&mut client, &format!("{LINES}{more}")).text();
                let expected = format!(
                    "192.0.2.1 4711 https on {port} shop.example shop.example 6.6.6.6, 192.0.2.1:4711, 10.0.0.1"
                );
                assert_eq!(text, expected);
            }
        },
    );
}

#[test]
fn php_sees_the_peer_where_nobody_is_trusted() {
    in_each_mode(&["trusted_proxies.addresses=[\"10.0.0.0/8\"]"], |server| {
        let mut client = RawClient::connect(server.address());
        let text = ask(&mut client, LINES).text();
        let words: Vec<&str> = text.splitn(8, ' ').collect();
        assert_eq!(
            (words[0], words[2], words[3]),
            ("127.0.0.1", "http", "-"),
            "{text}"
        );
        assert_eq!(words[5..7], ["inner", "inner:8080"], "{text}");
        assert_eq!(words[7], "6.6.6.6, 192.0.2.1:4711, 10.0.0.1", "{text}");
    });
}

#[test]
fn php_sees_the_client_of_the_proxy_protocol() {
    let settings = [
        "trusted_proxies.addresses=[\"127.0.0.1\"]",
        "trusted_proxies.protocol=true",
    ];
    in_each_mode(&settings, |server| {
        let mut client = RawClient::connect(server.address());
        client
            .send(b"PROXY TCP6 2001:db8::1 2001:db8::2 4711 443\r\n")
            .unwrap();
        for _ in 0..2 {
            let text = ask(&mut client, "").text();
            assert_eq!(text, "2001:db8::1 4711 http - 443 inner inner:8080 -");
        }
        let mut without = RawClient::connect(server.address());
        without.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        assert!(without.read("GET").is_err());
        server
            .log
            .wait_for_line_with("no PROXY header from a trusted proxy");
    });
}
