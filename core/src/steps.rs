//! Steps of the queue and its index, counted in tests and nowhere else: what they do must not depend on how many wait.

#[cfg(test)]
thread_local! {
    static STEPS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// A node or an entry was looked at, or a sorted set was changed.
#[inline(always)]
pub(crate) fn step() {
    #[cfg(test)]
    STEPS.set(STEPS.get() + 1);
}

/// Steps of this thread so far.
#[cfg(test)]
pub(crate) fn steps() -> usize {
    STEPS.get()
}
