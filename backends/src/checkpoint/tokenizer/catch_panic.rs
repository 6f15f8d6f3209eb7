//! Conversion of panics into errors, for libraries that panic on malformed files.

use crate::error::LoadError;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    /// `true` while panics of this thread are converted and not reported.
    static CATCHING: Cell<bool> = const { Cell::new(false) };
}

/// Runs a library's work on a file and converts a panic into an error, without reporting it as a fault of the program. The work
/// must stay on this thread and leave no state behind if it panics.
///
/// # Errors
/// The error of `work`, or one that names `file` if it panics.
pub(crate) fn catch_panic<T>(file: &str, work: impl FnOnce() -> Result<T, LoadError>) -> Result<T, LoadError> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let hook = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !CATCHING.get() {
                hook(panic);
            }
        }));
    });
    CATCHING.set(true);
    let outcome = panic::catch_unwind(AssertUnwindSafe(work));
    CATCHING.set(false);
    outcome.unwrap_or_else(|panic| {
        let words = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        Err(LoadError::invalid(file, format!("cannot be read: {}", words.unwrap_or("no cause is given"))))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error_and_other_outcomes_stay() {
        let refused = catch_panic::<()>("a.json", || panic!("at {}", 7)).unwrap_err().to_string();
        assert_eq!(refused, "a.json: cannot be read: at 7");
        let refused = catch_panic::<()>("a.json", || Err(LoadError::invalid("b.json", "is wrong"))).unwrap_err();
        assert_eq!(refused.to_string(), "b.json: is wrong");
        assert_eq!(catch_panic("a.json", || Ok(7)).unwrap(), 7);
        assert!(!CATCHING.get(), "later panics are reported again");
    }
}
