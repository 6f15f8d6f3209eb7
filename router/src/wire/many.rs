//! Items of a request: a body may have a million of them before their number is checked.

use prefold_core::drop_aside;
use serde::{Deserialize, Deserializer};
use std::ops::Deref;

/// Items that are dropped on the current thread: some hundred microseconds.
const DROPPED_AT_ONCE: usize = 1 << 12;

/// A list of items whose drop does not hold up connections.
#[derive(Debug, PartialEq)]
pub(crate) struct Many<T: Send + 'static>(Vec<T>);

impl<T: Send + 'static> Many<T> {
    /// The items, for a caller that checks their number.
    pub(crate) fn into_vec(mut self) -> Vec<T> {
        std::mem::take(&mut self.0)
    }
}

impl<T: Send + 'static> Deref for Many<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T: Send + 'static> From<Vec<T>> for Many<T> {
    fn from(items: Vec<T>) -> Self {
        Self(items)
    }
}

impl<'de, T: Deserialize<'de> + Send + 'static> Deserialize<'de> for Many<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(Self)
    }
}

impl<T: Send + 'static> Drop for Many<T> {
    fn drop(&mut self) {
        if self.0.len() > DROPPED_AT_ONCE {
            drop_aside(std::mem::take(&mut self.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::thread::{self, ThreadId};

    /// Sends the thread that drops it.
    struct Told(mpsc::Sender<ThreadId>);

    impl Drop for Told {
        fn drop(&mut self) {
            self.0.send(thread::current().id()).ok();
        }
    }

    #[tokio::test]
    async fn many_items_are_dropped_elsewhere() {
        for (count, elsewhere) in [(1, false), (DROPPED_AT_ONCE + 1, true)] {
            let (sender, receiver) = mpsc::channel();
            drop(Many::from((0..count).map(|_| Told(sender.clone())).collect::<Vec<_>>()));
            assert_eq!(receiver.recv().unwrap() != thread::current().id(), elsewhere);
        }
        assert_eq!(Many::from(vec![1, 2]).into_vec(), [1, 2]);
    }
}
