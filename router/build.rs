//! The commit that the program is built from, as the environment variable `PREFOLD_COMMIT` of the compiler: the variable of the build's own
//! environment (a container has no `.git`), else what git says, else nothing.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=PREFOLD_COMMIT");
    // The branch's own file changes with each commit, HEAD with each branch.
    for name in ["HEAD", "refs", "packed-refs"] {
        if let Some(path) = git(&["rev-parse", "--git-path", name]) {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    let given = env::var("PREFOLD_COMMIT").ok().filter(|commit| !commit.is_empty());
    if let Some(commit) = given.or_else(|| git(&["rev-parse", "HEAD"])) {
        println!("cargo:rustc-env=PREFOLD_COMMIT={commit}");
    }
}

/// The output of git, if it is there and this is a repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
