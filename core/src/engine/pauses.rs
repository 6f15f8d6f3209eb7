//! Pauses in long work on connection threads, and work that is moved to other threads.

use tokio::runtime::Handle;

/// Units of work between two pauses: values converted, compared or summed in a few nanoseconds each, so one or two milliseconds in all.
const WORK: usize = 1 << 18;

/// Pauses after every [`WORK`] units, in which other tasks of the thread run.
#[derive(Debug)]
pub struct Pauses {
    left: usize,
    period: usize,
}

impl Default for Pauses {
    fn default() -> Self {
        Self::every(WORK)
    }
}

impl Pauses {
    /// Pauses after every `period` units; tests use their own number.
    pub(crate) fn every(period: usize) -> Self {
        Self { left: period, period }
    }

    /// Counts `work` units that are done, and pauses when a period is complete.
    pub async fn after(&mut self, work: usize) {
        match self.left.checked_sub(work) {
            Some(left @ 1..) => self.left = left,
            Some(0) | None => {
                self.left = self.period;
                tokio::task::yield_now().await;
            }
        }
    }
}

/// Drops a large value on a thread that serves no connections.
pub fn drop_aside<T: Send + 'static>(value: T) {
    match Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(move || drop(value))),
        Err(_) => drop(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Waker};

    #[test]
    fn pauses_follow_the_work() {
        let pauses = |period, works: &[usize]| {
            let mut context = Context::from_waker(Waker::noop());
            let work = async {
                let mut pauses = Pauses::every(period);
                for &work in works {
                    pauses.after(work).await;
                }
            };
            let mut work = pin!(work);
            let mut count = 0;
            while work.as_mut().poll(&mut context).is_pending() {
                count += 1;
            }
            count
        };
        assert_eq!(pauses(10, &[1; 9]), 0);
        assert_eq!(pauses(10, &[1; 10]), 1);
        assert_eq!(pauses(10, &[3; 10]), 2);
        assert_eq!(pauses(10, &[1000, 1000]), 2, "work that is not divided");
    }

    #[tokio::test]
    async fn a_value_is_dropped_elsewhere() {
        struct Tell(std::sync::mpsc::Sender<std::thread::ThreadId>);
        impl Drop for Tell {
            fn drop(&mut self) {
                self.0.send(std::thread::current().id()).ok();
            }
        }
        let (sender, receiver) = std::sync::mpsc::channel();
        drop_aside(Tell(sender));
        assert_ne!(receiver.recv().unwrap(), std::thread::current().id());
    }
}
