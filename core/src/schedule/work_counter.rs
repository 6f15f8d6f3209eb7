//! Counter of the work that the queue and its index do; tests show that it does not depend on how many entries wait.

#[cfg(test)]
thread_local! {
    static WORK: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Counts a look at a node or an entry, or a change of a sorted set. Does nothing outside tests.
#[inline(always)]
pub(crate) fn count_work() {
    #[cfg(test)]
    WORK.set(WORK.get() + 1);
}

/// Work of this thread so far.
#[cfg(test)]
pub(crate) fn work() -> usize {
    WORK.get()
}
