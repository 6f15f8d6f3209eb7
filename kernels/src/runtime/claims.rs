//! Tasks of an operation, divided among threads.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

/// Maximum ranges: more would be looked through in vain at the end of each operation.
const MAX_RANGES: usize = 16;

/// Numbers to be taken once each by some threads.
///
/// A thread takes the numbers of its own range first, in order, then what is left of the others' ranges. Where operations divide the
/// same rows, a thread therefore mostly has the rows in its caches that it wrote in the operation before.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    next: [Next; MAX_RANGES],
}

/// The next number of a range, in a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Next(AtomicUsize);

/// The numbers below `tasks`, in a range for each of `threads`, as far as there are enough ranges.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Division {
    tasks: usize,
    threads: usize,
    ranges: usize,
}

impl Division {
    pub(crate) fn new(tasks: usize, threads: usize) -> Self {
        Self { tasks, threads, ranges: tasks.min(threads).clamp(1, MAX_RANGES) }
    }

    /// One range, whose numbers all threads take in order.
    pub(crate) fn in_order(tasks: usize, threads: usize) -> Self {
        Self { tasks, threads, ranges: 1 }
    }

    /// The first number of a range, and the end of the one before.
    fn start(&self, range: usize) -> usize {
        self.tasks * range / self.ranges
    }
}

impl Claims {
    /// Makes all numbers free, while no thread takes any.
    pub(crate) fn reset(&self, division: Division) {
        for (range, next) in self.next[..division.ranges].iter().enumerate() {
            next.0.store(division.start(range), Relaxed);
        }
    }

    /// Takes all numbers that are left, so that nobody gets another.
    pub(crate) fn exhaust(&self, division: Division) {
        self.next[..division.ranges].iter().for_each(|next| next.0.store(division.tasks, Relaxed));
    }

    /// The numbers that `thread`, below the division's threads, takes, until none is left.
    pub(crate) fn of_thread(&self, division: Division, thread: usize) -> Taken<'_> {
        let own = thread * division.ranges / division.threads.max(1);
        Taken { claims: self, division, own, finished: 0 }
    }
}

/// The numbers that a thread takes.
pub(crate) struct Taken<'a> {
    claims: &'a Claims,
    division: Division,
    /// The thread's own range.
    own: usize,
    /// Ranges in which nothing is left.
    finished: usize,
}

impl Iterator for Taken<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        while self.finished < self.division.ranges {
            let range = (self.own + self.finished) % self.division.ranges;
            let (next, end) = (&self.claims.next[range].0, self.division.start(range + 1));
            // A load alone leaves the line shared by the threads that find nothing.
            if next.load(Relaxed) < end {
                let number = next.fetch_add(1, Relaxed);
                if number < end {
                    return Some(number);
                }
            }
            self.finished += 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_taken_once_and_the_own_range_first() {
        let claims = Claims::default();
        for threads in [1, 2, 3, 16, 17, 100] {
            for tasks in [0, 1, 2, 5, 16, 40, 333] {
                let division = Division::new(tasks, threads);
                claims.reset(division);
                let mut taken = vec![0; tasks];
                for (thread, is_first) in [(threads - 1, true), (0, false)] {
                    let mut first = None;
                    for number in claims.of_thread(division, thread) {
                        first.get_or_insert(number);
                        taken[number] += 1;
                    }
                    let has_own = is_first && tasks > 0;
                    assert_eq!(first, has_own.then(|| division.start(division.ranges - 1)));
                }
                assert!(taken.iter().all(|&count| count == 1), "{tasks} tasks, {threads} threads");
            }
        }
    }

    #[test]
    fn numbers_of_one_range_go_to_all_threads_in_order() {
        let (claims, division) = (Claims::default(), Division::in_order(5, 3));
        claims.reset(division);
        let mut threads = [0, 1, 2].map(|thread| claims.of_thread(division, thread));
        let order = [2, 0, 1, 1, 0].map(|thread| threads[thread].next());
        assert_eq!(order, [0, 1, 2, 3, 4].map(Some));
    }

    #[test]
    fn nothing_is_left_once_exhausted() {
        let (claims, division) = (Claims::default(), Division::new(100, 4));
        claims.reset(division);
        let mut taken = claims.of_thread(division, 1);
        assert_eq!(taken.next(), Some(25));
        claims.exhaust(division);
        assert_eq!(taken.next(), None);
    }
}
