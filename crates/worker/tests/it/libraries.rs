//! Libraries that are in the process before the worker is.

use std::path::Path;
use std::process::Command;

/// What a library may do when it is loaded: calls that the worker stands in front of.
const LIBRARY: &str = r"
#include <dlfcn.h>
#include <signal.h>
#include <sys/resource.h>

__attribute__((constructor)) static void start(void)
{
	struct rlimit limit;
	struct sigaction action;

	getrlimit(RLIMIT_CORE, &limit);
	setrlimit(RLIMIT_CORE, &limit);
	sigaction(SIGUSR2, 0, &action);
	signal(SIGUSR2, SIG_DFL);
	dlopen(0, RTLD_NOW);
}
";

#[test]
fn a_library_that_starts_before_the_worker_may_call_what_is_watched() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, library) = (folder.join("early.c"), folder.join("early.so"));
    std::fs::write(&source, LIBRARY).unwrap();
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(&source)
        .status()
        .unwrap();
    assert!(compiled.success());
    let output = Command::new(env!("CARGO_BIN_EXE_hearth-worker"))
        .arg("--version")
        .env("LD_PRELOAD", &library)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}
