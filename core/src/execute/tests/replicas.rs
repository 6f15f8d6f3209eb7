//! Replicas of a backend over one queue, each of which waits for the test.

use super::tests::{budget, config, is_right, stop, submit, waiting};
use super::*;
use crate::backend::ModelBackend;
use crate::error::Error;
use crate::outputs::Outputs;
use crate::plan::tokens::Tokens;
use crate::testing::support::{Control, FakeBackend, Fate, Started, embedder, info, wait_until};
use std::cell::RefCell;
use std::time::Duration;

/// Two replicas; batches of at most three sequences.
fn start() -> (Arc<Pipeline>, [Control; 2], Vec<JoinHandle<()>>) {
    let ((first, first_control), (second, second_control)) = (replica(), replica());
    let config = config(budget(100, 3));
    let (pipeline, threads, _) = spawn(vec![first, second], config, WarmUp::off(config.compaction)).unwrap();
    (pipeline, [first_control, second_control], threads)
}

fn replica() -> (Replica, Control) {
    let (backend, control) = FakeBackend::controlled(info(embedder(), 1000));
    (ModelBackend::Prefix(Box::new(backend)).into(), control)
}

/// The replica that has taken a batch, and the batch.
fn taken(controls: &[Control; 2]) -> (usize, Started) {
    let taken = RefCell::new(None);
    wait_until("a replica has taken a batch", || {
        let batch = |replica: usize| Some((replica, controls[replica].try_started()?));
        *taken.borrow_mut() = batch(0).or_else(|| batch(1));
        taken.borrow().is_some()
    });
    taken.into_inner().unwrap()
}

#[tokio::test]
async fn a_slow_batch_on_one_replica_does_not_hold_up_a_query_on_the_other() {
    let (pipeline, controls, threads) = start();
    let slow = submit(&pipeline, &[&[9], &[8]]);
    let (busy, batch) = taken(&controls);
    assert_eq!(batch.ragged.input_ids(), [9, 8]);
    let mut ids = Vec::new();
    for id in 1..4 {
        let query = submit(&pipeline, &[&[id]]);
        let (free, batch) = taken(&controls);
        assert_eq!((free, batch.ragged.input_ids()), (1 - busy, &[id][..]), "it leaves at once, on the other replica");
        controls[free].release(Fate::Answer);
        let answers = query.collect().await.unwrap();
        is_right(&answers[0], &[id]);
        ids.push(answers[0].batch.id);
    }
    controls[busy].release(Fate::Answer);
    let answers = slow.collect().await.unwrap();
    is_right(&answers[1], &[8]);
    assert_eq!((answers[0].batch.id, ids), (1, vec![2, 3, 4]), "batches of all replicas are numbered together");
    stop(&pipeline, threads);
}

#[tokio::test]
async fn while_all_replicas_are_busy_the_next_batch_grows_for_the_first_that_is_free() {
    let (pipeline, controls, threads) = start();
    let running: Vec<_> = [[8], [9]].map(|ids| (submit(&pipeline, &[&ids]), taken(&controls).0)).into();
    let mut next = Vec::new();
    for (id, expected) in [(1, (Some(1), 0)), (2, (Some(2), 0)), (3, (Some(3), 0)), (4, (Some(3), 1))] {
        next.push(submit(&pipeline, &[&[id]]));
        wait_until("the entry has found its place", || waiting(&pipeline) == expected);
    }
    let last = running[1].1;
    controls[last].release(Fate::Answer);
    let (free, batch) = taken(&controls);
    assert_eq!((free, batch.ragged.input_ids()), (last, &[1, 2, 3][..]));
    wait_until("a batch is planned for the next backend", || waiting(&pipeline) == (Some(1), 0));
    drop(controls);
    for (pending, id) in running.into_iter().map(|(pending, _)| pending).zip(8..) {
        is_right(&pending.collect().await.unwrap()[0], &[id]);
    }
    for (pending, id) in next.into_iter().zip(1..) {
        is_right(&pending.collect().await.unwrap()[0], &[id]);
    }
    stop(&pipeline, threads);
}

#[tokio::test]
async fn a_failed_batch_of_one_replica_leaves_both_working() {
    for fate in [Fate::Panic, Fate::Fail] {
        let (pipeline, controls, threads) = start();
        let (stays, sound) = (submit(&pipeline, &[&[1]]), taken(&controls).0);
        let (failing, failed) = (submit(&pipeline, &[&[2]]), taken(&controls).0);
        assert_ne!(sound, failed);
        controls[failed].release(fate);
        assert!(matches!(failing.collect().await, Err(Error::Backend(_))));
        assert_eq!(pipeline.failed_batches(), 1);
        controls[sound].release(Fate::Answer);
        is_right(&stays.collect().await.unwrap()[0], &[1]);
        assert_eq!(pipeline.failed_batches(), 0, "a good answer of any replica shows that the model works");
        // Both take batches again.
        let again: Vec<_> = [[3], [4]].map(|ids| (submit(&pipeline, &[&ids]), taken(&controls).0)).into();
        assert_ne!(again[0].1, again[1].1);
        drop(controls);
        for ((pending, _), id) in again.into_iter().zip(3..) {
            is_right(&pending.collect().await.unwrap()[0], &[id]);
        }
        stop(&pipeline, threads);
    }
}

#[tokio::test]
async fn the_longest_pass_of_all_replicas_tells_of_a_stall() {
    let (pipeline, controls, threads) = start();
    assert_eq!(pipeline.silent_for(), None);
    let (stalled, stuck) = (submit(&pipeline, &[&[1]]), taken(&controls).0);
    let age = Duration::from_millis(20);
    wait_until("it has run for a while", || pipeline.silent_for().is_some_and(|busy| busy >= age));
    for id in 2..5 {
        let query = submit(&pipeline, &[&[id]]);
        let (free, _) = taken(&controls);
        assert!(pipeline.silent_for().unwrap() >= age, "not the youngest's");
        controls[free].release(Fate::Answer);
        query.collect().await.unwrap();
        assert!(pipeline.silent_for().unwrap() >= age, "the other replica's answer does not hide it");
    }
    controls[stuck].release(Fate::Answer);
    stalled.collect().await.unwrap();
    assert_eq!(pipeline.silent_for(), None);
    stop(&pipeline, threads);
}

#[tokio::test]
async fn closing_drains_all_replicas() {
    let (pipeline, controls, threads) = start();
    let mut pending: Vec<_> = [1, 2].map(|id| (submit(&pipeline, &[&[id]]), taken(&controls).0).0).into();
    pending.extend((3..6).map(|id| submit(&pipeline, &[&[id]])));
    pipeline.close();
    let refused = pipeline.submit(vec![Tokens::new(vec![9])], Outputs::EMBEDDING, crate::flow::Flow::default());
    assert!(matches!(refused, Err(Error::ShuttingDown)));
    drop(controls);
    for (pending, id) in pending.into_iter().zip(1..) {
        is_right(&pending.collect().await.unwrap()[0], &[id]);
    }
    stop(&pipeline, threads);
}

#[tokio::test]
async fn idle_replicas_end_too() {
    let (pipeline, controls, threads) = start();
    wait_until("both wait", || pipeline.lock().idle_backends == 2);
    stop(&pipeline, threads);
    assert!(controls.iter().all(Control::is_idle));
}

#[test]
fn a_replica_that_cannot_be_warmed_up_is_an_error() {
    let config = config(budget(100, 3));
    let limits = crate::BatchLimits { max_tokens: 100, max_ragged_tokens: 100 };
    let warm_up = WarmUp { tokens: 8, limits, interrupting: None, compaction: config.compaction };
    let ((first, first_control), (second, second_control)) = (replica(), replica());
    // Left alone, the first one answers; the other fails its first pass.
    drop(first_control);
    second_control.release(Fate::Fail);
    assert!(matches!(spawn(vec![first, second], config, warm_up), Err(BackendError::Compute(_))));
}
