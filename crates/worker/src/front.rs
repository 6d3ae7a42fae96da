//! Front controllers that know nothing of Hearth: which scripts are run as ones, and the PHP by which they wait for their request
//! (`sapi/front.c`).
//!
//! Runs in: zygote. Called by `zygote`.

use std::ffi::CString;
use std::fs;
use std::path::Path;

use crate::php::Source;

/// By this name a script, or the text of one, shows that it waits for its requests in a loop.
const LOOP: &str = "_handle_request(";

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

/// What `script` needs to wait for its request as it is; nothing, if it is a worker script.
pub(crate) fn sources(script: &Path) -> &'static [Source] {
    let text = fs::read(script).unwrap_or_default();
    if String::from_utf8_lossy(&text).contains(LOOP) {
        return &[];
    }
    let sources: Option<Vec<Source>> = SOURCES.iter().map(|(class, code)| source(class, code)).collect();
    sources.unwrap_or_default().leak()
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
