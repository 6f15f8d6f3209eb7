//! The threads that compute: fork and join for each operation.
//!
//! A forward pass is a sequence of some hundred operations, the shortest of a few microseconds, and waking a thread takes
//! longer than that. So threads look for the next operation for a while before they sleep, and whoever starts an operation
//! does its tasks itself and never waits for one that still sleeps: it closes the operation when no task is left, and waits
//! for those only who have joined.

use std::any::Any;
use std::cell::RefCell;
use std::hint::spin_loop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long a thread looks for the next operation: longer than what lies between two operations of a forward pass.
const LOOKING: Duration = Duration::from_micros(200);

/// Looks between two looks at the clock, when others get the core too.
const LOOKS: usize = 64;

/// Set in [`Shared::state`] while an operation may be joined. Below it are those who have, above it the operation's number.
const OPEN: u64 = 1 << 31;
const MEMBERS: u64 = OPEN - 1;

/// As many threads as the machine has cores, or as the environment's `RAYON_NUM_THREADS` says.
static DEFAULT: LazyLock<Team> = LazyLock::new(|| Team::new(rayon::current_num_threads()));

thread_local! {
    static ENTERED: RefCell<Option<Arc<Shared>>> = const { RefCell::new(None) };
}

/// Some threads, and the one that gives them work. They end when this is dropped.
#[doc(hidden)]
#[derive(Debug)]
pub struct Team {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    /// The number of the current or last operation (32 bits), [`OPEN`], and how many have joined it.
    state: AtomicU64,
    /// The current operation. Written while nobody has joined and nobody can.
    operation: Mutex<Operation>,
    /// Its next task.
    next: AtomicUsize,
    /// Somebody's operation is under way.
    busy: AtomicBool,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    asleep: AtomicUsize,
    /// Held by those who fall asleep, and by those who wake them.
    door: Mutex<()>,
    woken: Condvar,
    over: AtomicBool,
    /// With the one that gives the work.
    threads: usize,
}

/// A function to be called with each number below `tasks`.
#[derive(Debug, Clone, Copy)]
struct Operation {
    task: *const (dyn Fn(usize) + Sync),
    tasks: usize,
}

// SAFETY: what it points to may be used from any thread; `Shared::run` sees to it that it is alive when it is.
unsafe impl Send for Operation {}

impl Team {
    /// A team of `threads`, of which the caller is one. Fewer if the system has no more.
    pub fn new(threads: usize) -> Self {
        let shared = Arc::new(Shared {
            state: AtomicU64::new(0),
            operation: Mutex::new(Operation { task: &|_| (), tasks: 0 }),
            next: AtomicUsize::new(0),
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
            thread::Builder::new().name(format!("prefold-compute-{index}")).spawn(move || shared.serve()).ok()
        };
        let threads = (1..threads).map_while(spawn).collect();
        Self { shared, threads }
    }

    /// Calls `f`, in which this team does what operations have to do.
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

impl Drop for Team {
    fn drop(&mut self) {
        self.shared.over.store(true, SeqCst);
        drop(lock(&self.shared.door));
        self.shared.woken.notify_all();
        for thread in self.threads.drain(..) {
            // A thread ends in no other way than this; were it otherwise, there would be nothing to do about it.
            drop(thread.join());
        }
    }
}

/// Threads that [`for_each`] has at most, the caller included.
pub(crate) fn num_threads() -> usize {
    current(|team| team.threads)
}

/// Calls `f` with each number below `tasks`, on all threads of the team. A panic of one is the caller's.
///
/// While the team is at work for another thread, or is called from a task, the caller does it all.
pub(crate) fn for_each(tasks: usize, f: impl Fn(usize) + Sync) {
    current(|team| team.run(tasks, &f));
}

/// Calls `f` with blocks of `len` elements of `slice` (the last may be shorter) and their numbers.
pub(crate) fn for_each_block<T: Send>(slice: &mut [T], len: usize, f: impl Fn(usize, &mut [T]) + Sync) {
    let (all, start) = (slice.len(), crate::scratch::Shared::new(slice));
    for_each(all.div_ceil(len), |block| {
        let begin = block * len;
        // SAFETY: the elements are within the slice, which is borrowed for this call, and blocks do not overlap.
        f(block, unsafe { std::slice::from_raw_parts_mut(start.at(begin), len.min(all - begin)) });
    });
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
        // SAFETY: the lifetime is all that changes. Only who has joined the operation uses the reference, and this
        // function returns when it is closed and all of them have left.
        let task: &'static (dyn Fn(usize) + Sync) = unsafe { std::mem::transmute(task) };
        *lock(&self.operation) = Operation { task, tasks };
        self.next.store(0, Relaxed);
        let number = number(self.state.load(Relaxed)).wrapping_add(1);
        // Either a thread that falls asleep sees the new number, or this sees that it sleeps.
        self.state.store(u64::from(number) << 32 | OPEN, SeqCst);
        if self.asleep.load(SeqCst) > 0 {
            drop(lock(&self.door));
            self.woken.notify_all();
        }
        self.work(task, tasks);
        self.state.fetch_and(!OPEN, AcqRel);
        let mut looks = 0;
        while self.state.load(Acquire) & MEMBERS > 0 {
            looks += 1;
            if looks % LOOKS == 0 { thread::yield_now() } else { spin_loop() }
        }
        let panic = lock(&self.panic).take();
        self.busy.store(false, Release);
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    /// Does tasks until none is left.
    fn work(&self, task: &(dyn Fn(usize) + Sync), tasks: usize) {
        let done = catch_unwind(AssertUnwindSafe(|| {
            loop {
                let index = self.next.fetch_add(1, Relaxed);
                if index >= tasks {
                    break;
                }
                task(index);
            }
        }));
        if let Err(panic) = done {
            self.next.store(tasks, Relaxed);
            lock(&self.panic).get_or_insert(panic);
        }
    }

    /// A thread's life.
    fn serve(&self) {
        let mut seen = 0;
        while let Some(mut state) = self.next_operation(seen) {
            seen = number(state);
            while state & OPEN > 0 && number(state) == seen {
                match self.state.compare_exchange_weak(state, state + 1, Acquire, Acquire) {
                    Err(changed) => state = changed,
                    Ok(_) => {
                        let Operation { task, tasks } = *lock(&self.operation);
                        // SAFETY: whoever started the operation does not return before this has left it.
                        self.work(unsafe { &*task }, tasks);
                        self.state.fetch_sub(1, Release);
                        break;
                    }
                }
            }
        }
    }

    /// The state once it has another number than `seen`; `None` when the team is dissolved.
    fn next_operation(&self, seen: u32) -> Option<u64> {
        let is_new = |state: &u64| number(*state) != seen;
        let begun = Instant::now();
        while begun.elapsed() < LOOKING {
            for _ in 0..LOOKS {
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
#[path = "team_tests.rs"]
mod tests;
