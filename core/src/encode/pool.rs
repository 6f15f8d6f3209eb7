//! Tokenization workers: threads that encode texts and serve no connections.

use super::encoders::Encoders;
use super::fair_queue::FairQueue;
use super::request_turns::Turn;
use crate::config::InvalidSetting;
use crate::error::{Error, panic_message};
use crate::flow::Account;
use crate::request::Place;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Stack of a worker. Memory is only reserved, not used.
const STACK_SIZE: usize = 8 << 20;

/// Words, numbers and punctuation, as requests have them.
const WARM_UP_TEXT: &str = "How do I lock a file? Use flock(2): it waits, 30 s at most, and returns 0 (or -1).";

/// Encodes the inputs of requests in parallel, item by item, and shares the workers fairly between accounts and their
/// requests.
pub(crate) struct TokenizerPool {
    encoders: Arc<Encoders>,
    shared: Arc<Shared>,
}

/// State that the workers share.
struct Shared {
    queue: Mutex<State>,
    /// Signal that an item may run or the pool is gone.
    changed: Condvar,
}

struct State {
    queue: FairQueue<Arc<dyn Request>>,
    closed: bool,
}

/// Properties of a request's items that the pool needs for its order.
pub(crate) struct Turns<C> {
    /// Account of the request.
    pub(crate) account: Account,
    /// True if the first item encodes a text that the others share. It runs alone, because the others would block threads while they wait.
    pub(crate) first_alone: bool,
    /// Bytes of an item that are encoded.
    pub(crate) cost: C,
}

/// Items of a request and the work on them.
trait Request: Send + Sync {
    /// Takes the next item, if one is left.
    fn begin(self: Arc<Self>) -> Option<Begun>;

    /// Cost of the next item, if one is left.
    fn next(&self) -> Option<u64>;
}

/// An item that has been taken.
struct Begun {
    /// Works on it.
    run: Box<dyn FnOnce(&Encoders)>,
    /// True if later items must wait until it is done.
    alone: bool,
}

impl TokenizerPool {
    /// # Errors
    /// The threads cannot be started.
    pub(crate) fn new(encoders: Encoders, workers: usize) -> Result<Self, InvalidSetting> {
        let queue = Mutex::new(State { queue: FairQueue::new(workers), closed: false });
        let pool = Self { encoders: Arc::new(encoders), shared: Arc::new(Shared { queue, changed: Condvar::new() }) };
        // The additional worker is for short items while all others run long ones.
        for index in 0..=workers {
            let (encoders, shared) = (Arc::clone(&pool.encoders), Arc::clone(&pool.shared));
            std::thread::Builder::new()
                .name(format!("prefold-tokenizer-{index}"))
                .stack_size(STACK_SIZE)
                .spawn(move || shared.work(&encoders))
                .map_err(|error| InvalidSetting {
                    setting: "tokenization_workers",
                    problem: format!("is {workers}, and thread {index} cannot be started: {error}"),
                })?;
        }
        Ok(pool)
    }

    pub(crate) fn encoders(&self) -> &Encoders {
        &self.encoders
    }

    /// Encodes a text, so that the first request finds warm caches.
    pub(crate) fn warm_up(&self) {
        // Requests report a failure to encode.
        self.encoders.all().for_each(|encoder| drop(encoder.tokenizer.encode_fast(WARM_UP_TEXT, true)));
    }

    /// Runs `work` on an item, on this thread.
    pub(crate) fn at_once<T, R>(
        &self,
        (place, item): (Place, T),
        work: impl Fn(&Encoders, Place, T) -> Result<R, Error>,
    ) -> Result<R, Error> {
        work_on(&self.encoders, place, item, work)
    }

    /// Runs `work` on every item, on the pool. Returns the first error in the order of the items if there is one; later items are
    /// not begun. If the client leaves, no further items are begun, and they are dropped at once.
    pub(crate) async fn map<T, R, C, F>(
        &self,
        items: Vec<(Place, T)>,
        turns: Turns<C>,
        work: F,
    ) -> Result<Vec<R>, Error>
    where
        T: Send + 'static,
        R: Send + 'static,
        C: Fn(&Encoders, &T) -> usize + Send + Sync + 'static,
        F: Fn(&Encoders, Place, T) -> Result<R, Error> + Send + Sync + 'static,
    {
        let Some(&(Place { field, .. }, _)) = items.first() else { return Ok(Vec::new()) };
        let Turns { account, first_alone, cost } = turns;
        let costs = items.iter().map(|(_, item)| cost(&self.encoders, item) as u64).collect();
        let (reply, answer) = oneshot::channel();
        let job = Arc::new(Job { items: Mutex::new(Items::new(items, costs, first_alone, reply)), work });
        let _cancel = CancelOnDrop(&job.items);
        if let Some(cost) = Request::next(&*job) {
            self.shared.lock().queue.push(account, Arc::clone(&job) as Arc<dyn Request>, cost);
            self.shared.changed.notify_one();
        }
        let gone = || Error::Tokenization { field, problem: "the tokenization workers are gone".to_owned() };
        answer.await.map_err(|_| gone())?
    }
}

impl Drop for TokenizerPool {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that can panic runs under the lock.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A worker: runs items until the pool is gone.
    fn work(&self, encoders: &Encoders) {
        let mut state = self.lock();
        while !state.closed {
            let Some(turn) = state.queue.take() else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let begun = Arc::clone(&turn.request).begin();
            let alone = begun.as_ref().is_some_and(|begun| begun.alone);
            if !alone {
                state.wait_for_next(&turn);
            }
            drop(state);
            // Another item may be able to run on another worker.
            self.changed.notify_one();
            if let Some(begun) = begun {
                (begun.run)(encoders);
            }
            state = self.lock();
            if alone {
                state.wait_for_next(&turn);
            }
            state.queue.done(&turn);
        }
    }
}

impl State {
    /// Queues the next item of a request, if one is left.
    fn wait_for_next(&mut self, turn: &Turn<Arc<dyn Request>>) {
        if let Some(cost) = turn.request.next() {
            self.queue.push_next(turn, cost);
        }
    }
}

/// Items of one request.
struct Items<T, R> {
    waiting: VecDeque<Item<T>>,
    /// True if the next item runs alone.
    alone: bool,
    results: Vec<Option<Result<R, Error>>>,
    running: usize,
    reply: Option<oneshot::Sender<Result<Vec<R>, Error>>>,
}

struct Item<T> {
    index: usize,
    place: Place,
    item: T,
    cost: u64,
}

struct Job<T, R, F> {
    items: Mutex<Items<T, R>>,
    work: F,
}

impl<T, R> Items<T, R> {
    fn new(
        items: Vec<(Place, T)>,
        costs: Vec<u64>,
        alone: bool,
        reply: oneshot::Sender<Result<Vec<R>, Error>>,
    ) -> Self {
        let results = items.iter().map(|_| None).collect();
        let items = items.into_iter().zip(costs).enumerate();
        let waiting = items.map(|(index, ((place, item), cost))| Item { index, place, item, cost }).collect();
        Self { waiting, alone, results, running: 0, reply: Some(reply) }
    }

    fn finish(&mut self, index: usize, result: Result<R, Error>) {
        self.running -= 1;
        if result.is_err() {
            self.waiting.clear();
        }
        if let Some(slot) = self.results.get_mut(index) {
            *slot = Some(result);
        }
        if self.running == 0
            && self.waiting.is_empty()
            && let Some(reply) = self.reply.take()
        {
            // Items are begun in their order, so items without a result come after an error.
            drop(reply.send(std::mem::take(&mut self.results).into_iter().flatten().collect()));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T, R, F> Request for Job<T, R, F>
where
    T: Send + 'static,
    R: Send + 'static,
    F: Fn(&Encoders, Place, T) -> Result<R, Error> + Send + Sync + 'static,
{
    fn begin(self: Arc<Self>) -> Option<Begun> {
        let mut items = lock(&self.items);
        let Item { index, place, item, .. } = items.waiting.pop_front()?;
        items.running += 1;
        let alone = std::mem::take(&mut items.alone);
        drop(items);
        let run = Box::new(move |encoders: &Encoders| {
            let result = work_on(encoders, place, item, &self.work);
            lock(&self.items).finish(index, result);
        });
        Some(Begun { run, alone })
    }

    fn next(&self) -> Option<u64> {
        lock(&self.items).waiting.front().map(|item| item.cost)
    }
}

/// Result of the work. A panic becomes an error of the item.
fn work_on<T, R>(
    encoders: &Encoders,
    place: Place,
    item: T,
    work: impl Fn(&Encoders, Place, T) -> Result<R, Error>,
) -> Result<R, Error> {
    let result = catch_unwind(AssertUnwindSafe(|| work(encoders, place, item)));
    result
        .unwrap_or_else(|panic| Err(place.untokenizable(format!("the tokenizer panicked: {}", panic_message(&*panic)))))
}

/// Drops a request's items when the request is dropped, wherever it stands.
struct CancelOnDrop<'a, T, R>(&'a Mutex<Items<T, R>>);

impl<T, R> Drop for CancelOnDrop<'_, T, R> {
    fn drop(&mut self) {
        lock(self.0).waiting.clear();
    }
}

#[cfg(test)]
#[path = "tests/pool.rs"]
mod tests;
