//! Settings of a server that the tests change to their needs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::config::{
    AdminSocket, Compression, Config, FastCgi, Health, Isolation, IsolationMethod, Limits, Listen, Log,
    LogFormat, Mode, Place, Pool, Process, Protocol, Recycling, Reload, Requests, Tls, TrustedProxies,
    Warmup,
};

pub(in crate::edge) fn config(dir: &Path, mode: Mode) -> Config {
    Config {
        dir: dir.to_path_buf(),
        names: vec![dir.to_path_buf()],
        file: None,
        listen: vec![Listen {
            place: Place::Tcp("127.0.0.1:0".parse().unwrap()),
            protocol: Protocol::Http,
        }],
        reactors: 1,
        limits: Limits::default(),
        fastcgi: FastCgi::default(),
        trusted_proxies: TrustedProxies::default(),
        rate: None,
        tls: Tls::default(),
        compression: Compression::default(),
        log: Log {
            format: LogFormat::Text,
            level: tracing::Level::INFO,
            access: true,
            file: None,
            access_file: None,
            php_level: tracing::Level::INFO,
        },
        pools: vec![pool(dir, mode)],
        stop_delay: Duration::ZERO,
        stop_timeout: Duration::from_secs(1),
        reload: Reload::default(),
        watch: false,
        admin_listen: None,
        admin_hosts: Vec::new(),
        h2c_upgrade: false,
        admin_socket: AdminSocket::Off,
        spool_dir: std::env::temp_dir(),
    }
}

fn pool(dir: &Path, mode: Mode) -> Pool {
    Pool {
        name: "web".into(),
        requests: Requests::default(),
        dir: dir.to_path_buf(),
        root: dir.to_path_buf(),
        rules: Vec::new(),
        error_pages: Vec::new(),
        intercept_errors: false,
        internal: Vec::new(),
        htaccess: true,
        mode,
        script: (mode == Mode::Resident).then(|| dir.join("worker.php")),
        isolation: Isolation::None,
        warmup: Warmup::None,
        warmup_paths: Vec::new(),
        leak_check: 0,
        isolation_method: IsolationMethod::Auto,
        paranoid: false,
        workers: 1,
        min_workers: 1,
        worker_idle_timeout: Duration::from_mins(1),
        recycling: Recycling::default(),
        process: Process::default(),
        rights: crate::rights::Rights::default(),
        php_ini: None,
        ini: Vec::new(),
        admin_ini: Vec::new(),
        idempotency_key: false,
        queue_length: 1,
        queue_timeout: Duration::from_secs(1),
        request_timeout: Duration::from_secs(1),
        request_grace: Duration::from_secs(1),
        slow_log: Duration::ZERO,
        health: Health {
            path: String::new(),
            status: None,
        },
        max_unavailable: 0,
        boot_timeout: Duration::from_secs(1),
        worker_binary: PathBuf::new(),
        dev: false,
    }
}
