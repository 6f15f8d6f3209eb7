//! Libraries that panic over a malformed file where they could say no.

use crate::LoadError;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    /// Whether a panic of this thread is to be a refusal, and nothing that anybody should see.
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Runs what a library does with a file. A panic of it is a refusal of the file like any other, and not logged as a fault
/// of the program. Only for work that stays on this thread and that nothing is left of.
///
/// # Errors
/// Those of `work`, and one that names `file` when it panics.
pub(crate) fn refuse_panics<T>(file: &str, work: impl FnOnce() -> Result<T, LoadError>) -> Result<T, LoadError> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let hook = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !GUARDED.get() {
                hook(panic);
            }
        }));
    });
    GUARDED.set(true);
    let outcome = panic::catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(false);
    outcome.unwrap_or_else(|panic| {
        let words = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        Err(LoadError::invalid(file, format!("cannot be read: {}", words.unwrap_or("no cause is given"))))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_refusal_and_other_outcomes_stay() {
        let refused = refuse_panics::<()>("a.json", || panic!("at {}", 7)).unwrap_err().to_string();
        assert_eq!(refused, "a.json: cannot be read: at 7");
        let refused = refuse_panics::<()>("a.json", || Err(LoadError::invalid("b.json", "is wrong"))).unwrap_err();
        assert_eq!(refused.to_string(), "b.json: is wrong");
        assert_eq!(refuse_panics("a.json", || Ok(7)).unwrap(), 7);
        assert!(!GUARDED.get(), "other panics are seen again");
    }
}
