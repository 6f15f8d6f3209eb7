use super::*;
use std::collections::HashSet;

fn counts(tasks: usize) -> Vec<AtomicUsize> {
    (0..tasks).map(|_| AtomicUsize::new(0)).collect()
}

#[test]
fn every_task_is_done_once_however_many_threads_there_are() {
    for threads in [1, 2, 3, 8] {
        let pool = ThreadPool::new(threads);
        pool.enter(|| {
            assert_eq!(num_threads(), threads);
            for round in 0..2000 {
                let counts = counts(round % 40);
                for_each(counts.len(), |task| {
                    counts[task].fetch_add(1, Relaxed);
                });
                assert!(counts.iter().all(|count| count.load(Relaxed) == 1), "{threads} threads, round {round}");
                if round % 500 == 0 {
                    // Long enough for the threads to fall asleep.
                    thread::sleep(10 * POLLING);
                }
            }
        });
    }
}

#[test]
fn tasks_are_shared_out() {
    let pool = ThreadPool::new(3);
    let seen = Mutex::new(HashSet::new());
    let met = AtomicUsize::new(0);
    pool.enter(|| {
        for_each(3, |_| {
            lock(&seen).insert(thread::current().id());
            met.fetch_add(1, SeqCst);
            // No thread takes a second task before all three threads have one.
            while met.load(SeqCst) < 3 {
                thread::yield_now();
            }
        });
    });
    assert_eq!(lock(&seen).len(), 3);
}

#[test]
fn what_tasks_wrote_is_there_afterwards() {
    let pool = ThreadPool::new(4);
    let mut values = vec![0_usize; 10_000];
    for round in 1..50 {
        pool.enter(|| {
            for_each_block(&mut values, 7, |block, values| {
                for (i, value) in values.iter_mut().enumerate() {
                    *value += (block * 7 + i) * round;
                }
            });
        });
    }
    let rounds = (1..50).sum::<usize>();
    assert!(values.iter().enumerate().all(|(i, &value)| value == i * rounds));
}

#[test]
fn a_panic_is_the_callers_and_the_pool_goes_on() {
    let pool = ThreadPool::new(3);
    for _ in 0..20 {
        let fail = || pool.enter(|| for_each(100, |task| assert!(task != 50, "task {task}")));
        let panic = catch_unwind(AssertUnwindSafe(fail));
        assert_eq!(panic.unwrap_err().downcast_ref::<String>().map(String::as_str), Some("task 50"));
        let done = AtomicUsize::new(0);
        pool.enter(|| for_each(100, |_| _ = done.fetch_add(1, Relaxed)));
        assert_eq!(done.load(Relaxed), 100);
    }
}

#[test]
fn whoever_finds_the_pool_busy_does_it_alone() {
    let pool = ThreadPool::new(2);
    let done = AtomicUsize::new(0);
    let nested = || pool.enter(|| for_each(10, |_| _ = done.fetch_add(1, Relaxed)));
    pool.enter(|| for_each(10, |_| nested()));
    assert_eq!(done.load(Relaxed), 100);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..100).for_each(|_| nested()));
        }
    });
    assert_eq!(done.load(Relaxed), 4100);
}
