//! Where the server listens.

use super::*;

/// Everything that is listened at.
#[test]
fn there_may_be_several_listeners_and_unix_sockets() {
    let file = "listen = ['127.0.0.1:0', '127.0.0.1:0', 'unix:var/a.sock', 'unix:/run/b.sock']";
    let project = Project::new(&[("hearth.toml", file)]);
    let config = project.load(&[]).config;
    let expected = format!(
        "127.0.0.1:0 127.0.0.1:0 unix:{}/var/a.sock unix:/run/b.sock",
        project.0.display()
    );
    assert_eq!(shown(&config), expected);
    assert_eq!(
        config.ready_line(&config.listen[2..], "8.2.0"),
        format!(
            "hearth: ready on http://unix:{}/var/a.sock and http://unix:/run/b.sock ({} workers, classic, PHP 8.2.0)",
            project.0.display(),
            config.pools[0].workers
        )
    );
    for (setting, why) in [
        ("listen=[]", "at least one"),
        ("listen=['127.0.0.1:1', '127.0.0.1:1']", "twice"),
        ("listen='unix:'", "the path of a socket"),
        ("listen=['127.0.0.1:1', 'x']", "\"x\": expected ADDRESS:PORT"),
    ] {
        let errors = project.errors(&[setting]);
        assert!(errors.contains(why), "{setting}: {errors}");
    }
}

#[test]
fn a_port_behind_a_colon_is_that_of_all_addresses() {
    let project = Project::new(&[]);
    let set = [
        "listen=:8080",
        "admin_listen=:9180",
        "fastcgi.listen=[':9000', '0.0.0.0:9000']",
    ];
    let config = project.load(&set).config;
    assert_eq!(shown(&config), "[::]:8080 fastcgi://[::]:9000");
    assert_eq!(config.admin_listen, Some("[::]:9180".parse().unwrap()));
    let both = project.load(&["listen=['0.0.0.0:80', '[::]:80', '0.0.0.0:81']"]);
    assert_eq!(shown(&both.config), "[::]:80 0.0.0.0:81");
    for set in ["listen=:", "listen=:http", "listen=:70000", "admin_listen=:"] {
        let errors = project.errors(&[set]);
        assert!(errors.contains("\":8080\" for all addresses"), "{set}: {errors}");
    }
}

#[test]
fn fastcgi_is_listened_for_beside_http_or_in_its_place() {
    let project = Project::new(&[]);
    let config = project.load(&["fastcgi.listen=127.0.0.1:9000"]).config;
    assert_eq!(shown(&config), "fastcgi://127.0.0.1:9000");
    let config = project
        .load(&[
            "fastcgi.listen=['unix:/run/a', '127.0.0.1:0']",
            "listen=127.0.0.1:1",
        ])
        .config;
    assert_eq!(
        shown(&config),
        "127.0.0.1:1 fastcgi://unix:/run/a fastcgi://127.0.0.1:0"
    );
    let root = project.load(&["fastcgi.socket_group=root"]).config.fastcgi;
    assert_eq!(root.socket_group, Some(0));
    assert_eq!(
        root.allowed[0].contains("127.9.9.9".parse().unwrap()),
        !root.allowed[0].contains("128.0.0.1".parse().unwrap())
    );
    let other = project
        .load(&[
            "fastcgi.socket_group=33",
            "fastcgi.allowed=['10.0.0.0/8']",
            "fastcgi.limit_extensions=[]",
        ])
        .config
        .fastcgi;
    assert_eq!(
        (
            other.socket_group,
            other.allowed.len(),
            other.limit_extensions.len()
        ),
        (Some(33), 1, 0)
    );
    for (setting, why) in [
        (
            "fastcgi.allowed=['10.0.0.1/8']",
            "expected an address or a network",
        ),
        (
            "fastcgi.socket_group=no-such-group",
            "a name that is in /etc/group",
        ),
        ("fastcgi.listen=9000", "write \"127.0.0.1:9000\""),
    ] {
        let errors = project.errors(&[setting]);
        assert!(errors.contains(why), "{setting}: {errors}");
    }
}
