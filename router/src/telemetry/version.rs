//! The version of the program, and the commit that it is built from.

/// The version.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit, if the build knew it.
pub(crate) const COMMIT: Option<&str> = option_env!("PREFOLD_COMMIT");

/// Version and commit, for people.
pub(crate) fn version_and_commit() -> String {
    match COMMIT {
        Some(commit) => format!("{VERSION} ({})", commit.get(..12).unwrap_or(commit)),
        None => VERSION.to_owned(),
    }
}
