//! Counter of the steps of the queue and its index; tests show that they do not depend on the number of waiting entries.

#[cfg(test)]
thread_local! {
    static WORK: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Counts a visit to a node or an entry, or a change of a sorted set. Does nothing outside tests.
#[inline(always)]
pub(crate) fn count_work() {
    #[cfg(test)]
    WORK.set(WORK.get() + 1);
}

/// Steps of this thread so far.
#[cfg(test)]
pub(crate) fn work() -> usize {
    WORK.get()
}
