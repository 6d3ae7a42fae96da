//! Settings by variables of the environment.

use super::*;

impl Project {
    /// What comes of these variables and flags.
    fn with(&self, variables: &[(&str, &str)], set: &[&str]) -> Result<Loaded, String> {
        let mut sources = self.sources(set);
        let all = variables.iter();
        sources.environment = all.map(|(name, value)| Variable::new(name, value)).collect();
        let said = |errors: Errors| errors.to_string().replace(self.0.to_str().unwrap(), "DIR");
        Config::load(&sources).map_err(said)
    }
}

#[test]
fn a_variable_is_stronger_than_the_file_and_weaker_than_a_flag() {
    let file = "listen = '127.0.0.1:1'\n[log]\naccess = false\n[pool.web]\nworkers = 3\n[pool.my-app]\npaths = ['/a']\nworkers = 1\n";
    let project = Project::new(&[("hearth.toml", file)]);
    let variables = [
        ("HEARTH_LISTEN", "[\"127.0.0.1:2\", \"127.0.0.1:3\"]"),
        ("HEARTH_LOG_ACCESS", "true"),
        ("HEARTH_POOL_MY_APP_WORKERS", "5"),
        ("HEARTH_POOL_WEB_ENV_App_SECRET", "hidden"),
        ("HEARTH_POOL_WEB_WORKERS", " 4 "),
    ];
    let Loaded { config, reasons, .. } = project.with(&variables, &["pool.web.workers=6"]).unwrap();
    assert_eq!(shown(&config), "127.0.0.1:2 127.0.0.1:3");
    assert!(config.log.access);
    let workers: Vec<u16> = config.pools.iter().map(|pool| pool.workers).collect();
    assert_eq!(workers, [6, 5]);
    assert_eq!(
        reasons[1],
        "read HEARTH_LISTEN, HEARTH_LOG_ACCESS, HEARTH_POOL_MY_APP_WORKERS, HEARTH_POOL_WEB_ENV_App_SECRET of the environment",
        "without those that flags go before, and without values"
    );
}

#[test]
fn port_is_that_of_all_addresses_unless_somebody_says_where_to_listen() {
    let port = ("PORT", "8081");
    let project = Project::new(&[("hearth.toml", "listen = '127.0.0.1:1'\n")]);
    assert_eq!(shown(&project.with(&[port], &[]).unwrap().config), "127.0.0.1:1");
    let project = Project::new(&[("hearth.toml", "[fastcgi]\nlisten = '127.0.0.1:1'\n")]);
    let Loaded { reasons, .. } = project.with(&[port], &[]).unwrap();
    assert!(!reasons.concat().contains("PORT"), "{reasons:?}");
    let project = Project::new(&[]);
    let Loaded { config, reasons, .. } = project.with(&[port], &[]).unwrap();
    assert_eq!(shown(&config), "[::]:8081");
    assert!(
        reasons.contains(&"read PORT of the environment".to_owned()),
        "{reasons:?}"
    );
    let listen = ("HEARTH_LISTEN", "127.0.0.1:2");
    for variables in [[port, listen], [listen, port], [("PORT", "none"), listen]] {
        let config = project.with(&variables, &[]).unwrap().config;
        assert_eq!(shown(&config), "127.0.0.1:2");
    }
    let config = project.with(&[port], &["listen=127.0.0.1:3"]).unwrap().config;
    assert_eq!(shown(&config), "127.0.0.1:3");
    assert_eq!(
        shown(&project.with(&[("PORT", "")], &[]).unwrap().config),
        "127.0.0.1:8080"
    );
    let errors = project.with(&[("PORT", "http")], &[]).unwrap_err();
    assert!(
        errors.starts_with("PORT: `listen` is \"http\": expected ADDRESS:PORT"),
        "{errors}"
    );
}

#[test]
fn a_variable_that_is_no_setting_names_the_nearest() {
    let project = Project::new(&[]);
    for (name, value, expected) in [
        (
            "HEARTH_POOL_WEB_WORKRES",
            "4",
            "HEARTH_POOL_WEB_WORKRES: no setting has this name; did you mean `HEARTH_POOL_WEB_WORKERS` (`pool.web.workers`)?",
        ),
        (
            "HEARTH_WORKERS",
            "4",
            "HEARTH_WORKERS: no setting has this name; did you mean `HEARTH_POOL_WEB_WORKERS` (`pool.web.workers`)?",
        ),
        (
            "HEARTH_LIMITS_THINGS_OF_ALL_SORTS",
            "4",
            "HEARTH_LIMITS_THINGS_OF_ALL_SORTS: no setting has this name (`limits.things_of_all_sorts`); docs/config.toml lists the keys \
             that exist",
        ),
        (
            "HEARTH_LISTNE",
            ":80",
            "HEARTH_LISTNE: no setting has this name; did you mean `HEARTH_LISTEN` (`listen`)?",
        ),
        (
            "HEARTH_PORT",
            "80",
            "HEARTH_PORT: no setting has this name; write HEARTH_LISTEN=:80, or PORT=80",
        ),
        (
            "HEARTH_LIMITS",
            "4",
            "HEARTH_LIMITS: `limits` is 4: it is a table; set a key of it, for instance `limits.body_bytes`",
        ),
        (
            "HEARTH_POOL_WEB_WORKERS",
            "many",
            "HEARTH_POOL_WEB_WORKERS: `pool.web.workers` is \"many\": expected a whole number from 1 to 256",
        ),
    ] {
        let errors = project.with(&[(name, value)], &[]).unwrap_err();
        assert_eq!(errors, expected);
    }
    for (name, value) in [
        ("HEARTH_DEPLOYED_BY_WHOM", "me"),
        ("HEARTH_HOME", "/opt/hearth"),
        ("HEARTH_VERSION", "1.2"),
        ("HEARTH_ENV", "prod"),
        ("HEARTH_PORT", "tcp://10.0.0.1:80"),
        ("HEARTH_LOG_SERVICE_HOST", "10.0.0.1"),
        ("HEARTH_POOL_API_SERVICE_HOST", "10.0.0.1"),
        ("HEARTH_POOL_PORT", "tcp://10.0.0.1:80"),
    ] {
        let reasons = project.with(&[(name, value)], &[]).unwrap().reasons;
        assert!(!reasons.concat().contains(name), "{name}: {reasons:?}");
    }
}
