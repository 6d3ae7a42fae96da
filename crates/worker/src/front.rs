//! Front controllers that know nothing of Hearth: which scripts are run as ones, and the PHP by which they wait for their request
//! (`sapi/front.c`).
//!
//! Runs in: zygote. Called by `zygote`.

use std::ffi::CString;
use std::fs;
use std::path::Path;

use crate::php::Source;

/// A script whose text has one of them asks `HttpFoundation` for its request itself, or lets Symfony's Runtime do so. In one that only
/// loads such code, a request may be made as a part of the boot, and the script may wait in another file.
const ASKS: [&str; 3] = ["createFromGlobals(", "::capture(", "autoload_runtime.php"];

/// A script whose text has one of them waits for its requests there.
const WAITS: [&str; 2] = ["_handle_request(", "hearth_request("];

/// In the order in which PHP can compile them.
const SOURCES: [(&str, &str); 3] = [
    (
        "Preparation",
        include_str!("../../../php/src/Bridge/Symfony/Preparation.php"),
    ),
    (
        "CompiledClasses",
        include_str!("../../../php/src/Bridge/Symfony/CompiledClasses.php"),
    ),
    (
        "FrontController",
        include_str!("../../../php/src/Bridge/Symfony/FrontController.php"),
    ),
];

/// What `script` needs to wait for its request as it is; nothing, unless it is a front controller.
pub(crate) fn sources(script: &Path) -> &'static [Source] {
    let text = fs::read(script).unwrap_or_default();
    if !is_front_controller(&String::from_utf8_lossy(&text)) {
        return &[];
    }
    let sources: Option<Vec<Source>> = SOURCES.iter().map(|(class, code)| source(class, code)).collect();
    sources.unwrap_or_default().leak()
}

fn is_front_controller(text: &str) -> bool {
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    has(&ASKS) && !has(&WAITS)
}

fn source(class: &str, code: &str) -> Option<Source> {
    // PHP compiles what stands behind the tag.
    let code = code.strip_prefix("<?php").unwrap_or(code);
    let forever = |text: String| Some(&*Box::leak(CString::new(text).ok()?.into_boxed_c_str()));
    Some(Source {
        class_name: forever(format!("hearth\\bridge\\symfony\\{}", class.to_lowercase()))?.as_ptr(),
        name: forever(format!("Hearth's {class}.php"))?.as_ptr(),
        code: forever(code.to_owned())?.as_ptr(),
    })
}

#[cfg(test)]
mod tests {
    use super::is_front_controller;

    #[test]
    fn the_text_of_a_script_tells_whether_it_is_a_front_controller() {
        for text in [
            "$kernel->handle(Request::createFromGlobals())->send();",
            "$app->handleRequest(Request::capture());",
            "require_once dirname(__DIR__).'/vendor/autoload_runtime.php';",
        ] {
            assert!(is_front_controller(text), "{text}");
        }
        for text in [
            "",
            "require __DIR__.'/../vendor/laravel/octane/bin/frankenphp-worker.php';",
            "$app->handle(new Request($_GET));",
            "hearth_request(); Request::createFromGlobals();",
            "while (hearth_handle_request(fn () => Request::createFromGlobals()));",
            "while (frankenphp_handle_request(fn () => Request::capture()));",
        ] {
            assert!(!is_front_controller(text), "{text}");
        }
    }
}
