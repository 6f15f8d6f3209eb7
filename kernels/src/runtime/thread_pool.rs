//! The pool of compute threads: fork and join for each operation.
//!
//! A forward pass is a sequence of a few hundred operations, some of which take only microseconds, less than waking a
//! thread. Threads therefore poll for the next operation for a while before they sleep. The thread that starts an operation
//! works on its tasks too and never waits for a sleeping thread: it closes the operation when no task is left and waits
//! only for the threads that have joined.

use crate::runtime::claims::{Claims, Division};
use std::any::Any;
use std::cell::RefCell;
use std::hint::spin_loop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Time that a thread polls for the next operation before it sleeps: longer than the gap between two operations of a forward pass.
const POLLING: Duration = Duration::from_micros(200);

/// Polls between two checks of the clock, at which the thread also yields its core.
const POLLS: usize = 64;

/// Bit of [`Shared::state`] that is set while an operation may be joined. Lower bits count the threads that have
/// joined, higher bits are the operation's number.
const OPEN: u64 = 1 << 31;
const MEMBERS: u64 = OPEN - 1;

/// The pool of callers outside of any other pool, with [`ThreadPool::default_threads`] threads.
static DEFAULT: LazyLock<ThreadPool> = LazyLock::new(|| ThreadPool::new(ThreadPool::default_threads()));

thread_local! {
    static ENTERED: RefCell<Option<Arc<Shared>>> = const { RefCell::new(None) };
}

/// Threads that work together with the thread that enters the pool. They end when the pool is dropped.
#[doc(hidden)]
#[derive(Debug)]
pub struct ThreadPool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    /// The number of the current or last operation (32 bits), [`OPEN`], and the number of threads that have joined it.
    state: AtomicU64,
    /// The current operation. Written while no thread has joined and none can.
    operation: Mutex<Operation>,
    /// The tasks of the operation that are left.
    claims: Claims,
    /// True while an operation runs.
    busy: AtomicBool,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    asleep: AtomicUsize,
    /// Held by threads that fall asleep and by threads that wake them.
    door: Mutex<()>,
    woken: Condvar,
    over: AtomicBool,
    /// The number of threads, including the caller.
    threads: usize,
}

/// An operation: a function to be called with each number below `tasks`.
#[derive(Debug, Clone, Copy)]
struct Operation {
    task: *const (dyn Fn(usize) + Sync),
    tasks: usize,
}

// SAFETY: the function is `Sync`, and `Shared::run` keeps it alive while threads use it.
unsafe impl Send for Operation {}

impl ThreadPool {
    /// Default number of threads: one per core, limited by the container's CPU quota, or `RAYON_NUM_THREADS` of the
    /// environment.
    pub fn default_threads() -> usize {
        rayon::current_num_threads()
    }

    /// A pool of `threads`, including the caller; fewer if the system refuses more.
    pub fn new(threads: usize) -> Self {
        let shared = Arc::new(Shared {
            state: AtomicU64::new(0),
            operation: Mutex::new(Operation { task: &|_| (), tasks: 0 }),
            claims: Claims::default(),
            busy: AtomicBool::new(false),
            panic: Mutex::new(None),
            asleep: AtomicUsize::new(0),
            door: Mutex::new(()),
            woken: Condvar::new(),
            over: AtomicBool::new(false),
            threads,
        });
        let spawn = |index| {
            let shared = Arc::clone(&shared);
            thread::Builder::new().name(format!("prefold-compute-{index}")).spawn(move || shared.serve(index)).ok()
        };
        let threads = (1..threads).map_while(spawn).collect();
        Self { shared, threads }
    }

    /// Calls `f`, whose operations run on this pool.
    pub fn enter<R>(&self, f: impl FnOnce() -> R) -> R {
        struct Leave(Option<Arc<Shared>>);
        impl Drop for Leave {
            fn drop(&mut self) {
                ENTERED.set(self.0.take());
            }
        }
        let _leave = Leave(ENTERED.replace(Some(Arc::clone(&self.shared))));
        f()
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.shared.over.store(true, SeqCst);
        drop(lock(&self.shared.door));
        self.shared.woken.notify_all();
        for thread in self.threads.drain(..) {
            // A thread ends only by this signal; its panic could not be handled here.
            drop(thread.join());
        }
    }
}

/// Maximum threads of [`for_each`], including the caller.
pub(crate) fn num_threads() -> usize {
    current(|pool| pool.threads)
}

/// Calls `f` with each number below `tasks`, on all threads of the pool. A panic of `f` is propagated to the caller.
///
/// The caller works alone while the pool is busy with another thread's operation, and when called from within a task.
pub(crate) fn for_each(tasks: usize, f: impl Fn(usize) + Sync) {
    current(|pool| pool.run(tasks, &f));
}

/// Calls `f` with blocks of `len` elements of `slice` (the last may be shorter) and their numbers.
pub(crate) fn for_each_block<T: Send>(slice: &mut [T], len: usize, f: impl Fn(usize, &mut [T]) + Sync) {
    let (all, start) = (slice.len(), crate::runtime::shared_pointer::SharedPointer::new(slice));
    for_each(all.div_ceil(len), |block| {
        let begin = block * len;
        // SAFETY: the elements are within the slice, which is borrowed for this call, and blocks do not overlap.
        f(block, unsafe { std::slice::from_raw_parts_mut(start.at(begin), len.min(all - begin)) });
    });
}

/// Writes zeros to memory on all threads, so that the page faults of the first writes run in parallel.
pub fn touch<T: Send + Copy + Default>(memory: &mut [T]) {
    const BLOCK: usize = 1 << 18;
    for_each_block(memory, BLOCK, |_, block| block.fill(T::default()));
}

fn current<R>(f: impl FnOnce(&Shared) -> R) -> R {
    let entered = ENTERED.with_borrow(Option::clone);
    f(entered.as_ref().unwrap_or_else(|| &DEFAULT.shared))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code that may panic runs under a lock of this file.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn number(state: u64) -> u32 {
    (state >> 32) as u32
}

impl Shared {
    fn run(&self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        if tasks <= 1 || self.threads == 1 || self.busy.swap(true, Acquire) {
            return (0..tasks).for_each(task);
        }
        // SAFETY: only the lifetime changes. Only threads that have joined the operation use the reference, and this
        // function returns after the operation is closed and all of them have left.
        let task: &'static (dyn Fn(usize) + Sync) = unsafe { std::mem::transmute(task) };
        *lock(&self.operation) = Operation { task, tasks };
        self.claims.reset(self.division(tasks));
        let number = number(self.state.load(Relaxed)).wrapping_add(1);
        // Either a thread that is falling asleep sees the new number, or this code sees that it sleeps.
        self.state.store(u64::from(number) << 32 | OPEN, SeqCst);
        if self.asleep.load(SeqCst) > 0 {
            drop(lock(&self.door));
            self.woken.notify_all();
        }
        self.work(task, tasks, 0);
        self.state.fetch_and(!OPEN, AcqRel);
        let mut polls = 0;
        while self.state.load(Acquire) & MEMBERS > 0 {
            polls += 1;
            if polls % POLLS == 0 { thread::yield_now() } else { spin_loop() }
        }
        let panic = lock(&self.panic).take();
        self.busy.store(false, Release);
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    fn division(&self, tasks: usize) -> Division {
        Division::new(tasks, self.threads)
    }

    /// Runs tasks until none is left.
    fn work(&self, task: &(dyn Fn(usize) + Sync), tasks: usize, thread: usize) {
        let division = self.division(tasks);
        let done = catch_unwind(AssertUnwindSafe(|| self.claims.of_thread(division, thread).for_each(task)));
        if let Err(panic) = done {
            self.claims.exhaust(division);
            lock(&self.panic).get_or_insert(panic);
        }
    }

    /// The loop of the thread with a number, from 1 on; the caller of an operation is thread 0.
    fn serve(&self, thread: usize) {
        let mut seen = 0;
        while let Some(mut state) = self.next_operation(seen) {
            seen = number(state);
            while state & OPEN > 0 && number(state) == seen {
                match self.state.compare_exchange_weak(state, state + 1, Acquire, Acquire) {
                    Err(changed) => state = changed,
                    Ok(_) => {
                        let Operation { task, tasks } = *lock(&self.operation);
                        // SAFETY: the thread that started the operation does not return before this one has left it.
                        self.work(unsafe { &*task }, tasks, thread);
                        self.state.fetch_sub(1, Release);
                        break;
                    }
                }
            }
        }
    }

    /// Waits until the state has another number than `seen` and returns it; `None` when the pool is dropped.
    fn next_operation(&self, seen: u32) -> Option<u64> {
        let is_new = |state: &u64| number(*state) != seen;
        let begun = Instant::now();
        while begun.elapsed() < POLLING {
            for _ in 0..POLLS {
                if let Some(state) = Some(self.state.load(Acquire)).filter(is_new) {
                    return Some(state);
                }
                spin_loop();
            }
            thread::yield_now();
        }
        let mut door = lock(&self.door);
        self.asleep.fetch_add(1, SeqCst);
        let state = loop {
            if self.over.load(SeqCst) {
                break None;
            }
            if let Some(state) = Some(self.state.load(SeqCst)).filter(is_new) {
                break Some(state);
            }
            door = self.woken.wait(door).unwrap_or_else(PoisonError::into_inner);
        };
        self.asleep.fetch_sub(1, SeqCst);
        state
    }
}

#[cfg(test)]
mod tests;
