//! A real browser without a screen: Chromium, driven over the `WebDriver` protocol of the W3C by chromedriver.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::client::Client;
use super::log::Log;
use super::server::kill;

/// Longest time until a page shows what a test waits for.
const PATIENCE: Duration = Duration::from_secs(20);
/// Time between two looks at a page: the protocol cannot wait.
const LOOK: Duration = Duration::from_millis(50);
/// The name under which the protocol hands out elements.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A browser with one window. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Browser {
    driver: Child,
    address: SocketAddr,
    session: String,
}

impl Browser {
    /// `profile` is a folder for what it writes.
    pub(crate) fn start(profile: &Path) -> Self {
        let log = Log::default();
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .env("HOME", profile)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver, of the package chromium-driver");
        drop(log.follow(driver.stdout.take().unwrap()));
        let line = log.wait_for_line_with("was started successfully on port ");
        let port = line.rsplit(' ').next().unwrap().trim_end_matches('.');
        let mut browser = Self {
            driver,
            address: SocketAddr::from(([127, 0, 0, 1], port.parse().unwrap())),
            session: String::new(),
        };
        // Tests run as root, which its sandbox refuses, in containers with little shared memory.
        let data = format!("--user-data-dir={}", profile.display());
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-dev-shm-usage",
            "--disable-gpu",
            "--disable-background-networking",
            "--no-first-run",
            "--window-size=1280,1000",
            &data,
        ];
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "unhandledPromptBehavior": "accept",
            "timeouts": {"script": 30_000, "pageLoad": 30_000},
            "goog:chromeOptions": {"args": arguments},
        }}});
        let session = browser.call("POST", "/session", &wanted);
        session["sessionId"]
            .as_str()
            .unwrap()
            .clone_into(&mut browser.session);
        browser
    }

    /// Opens a page, and waits until it is loaded.
    pub(crate) fn open(&self, url: &str) {
        self.ask("POST", "/url", &json!({ "url": url }));
    }

    /// The address of the page.
    pub(crate) fn url(&self) -> String {
        self.ask("GET", "/url", &Value::Null).as_str().unwrap().to_owned()
    }

    /// Types into what a CSS selector names, in place of what is there.
    pub(crate) fn fill(&self, selector: &str, text: &str) {
        let element = self.element(selector);
        self.ask("POST", &format!("/element/{element}/clear"), &json!({}));
        self.type_into(selector, text);
    }

    /// Types, or names the file for an upload.
    pub(crate) fn type_into(&self, selector: &str, text: &str) {
        let element = self.element(selector);
        self.ask(
            "POST",
            &format!("/element/{element}/value"),
            &json!({ "text": text }),
        );
    }

    /// Clicks.
    pub(crate) fn click(&self, selector: &str) {
        let element = self.element(selector);
        self.ask("POST", &format!("/element/{element}/click"), &json!({}));
    }

    /// What a script gives, or the promise that it gives.
    pub(crate) fn run(&self, script: &str) -> Value {
        self.ask("POST", "/execute/sync", &json!({"script": script, "args": []}))
    }

    /// Waits until a script gives what is true.
    pub(crate) fn wait(&self, script: &str) {
        let until = Instant::now() + PATIENCE;
        while self.run(&format!("return Boolean({script});")) != Value::Bool(true) {
            assert!(
                Instant::now() < until,
                "{} never had: {script}\n{}",
                self.url(),
                self.run("return document.body.innerText;")
            );
            std::thread::sleep(LOOK);
        }
    }

    fn element(&self, selector: &str) -> String {
        self.wait(&format!("document.querySelector({})", json!(selector)));
        let wanted = json!({"using": "css selector", "value": selector});
        let found = self.ask("POST", "/element", &wanted);
        found[ELEMENT].as_str().unwrap().to_owned()
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        self.call(method, &format!("/session/{}{path}", self.session), body)
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let mut client = Client::connect(self.address).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        client.raw((head + &body).as_bytes()).unwrap();
        let answer = client.read().unwrap();
        let said: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(answer.status, 200, "{method} {path} {body}: {said}");
        said["value"].clone()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() && !std::thread::panicking() {
            self.ask("DELETE", "", &Value::Null);
        }
        kill(i32::try_from(self.driver.id()).unwrap(), Signal::TERM);
        let _ = self.driver.wait();
    }
}
