//! A backend whose device goes on by itself: the next batch is submitted while one runs.

use super::tests::{budget, config, is_right, stop, submit, waiting};
use super::*;
use crate::backend::ModelBackend;
use crate::error::Error;
use crate::testing::support::{Control, FakeBackend, Fate, embedder, info, wait_until};
use std::time::{Duration, Instant};

fn start() -> (Arc<Pipeline>, Control, Vec<JoinHandle<()>>) {
    let (backend, control) = FakeBackend::on_device(info(embedder(), 1000));
    let backend = ModelBackend::Prefix(Box::new(backend));
    let config = config(budget(100, 3));
    let (pipeline, threads, _) = spawn(vec![backend.into()], config, WarmUp::off(config.compaction)).unwrap();
    (pipeline, control, threads)
}

#[tokio::test]
async fn a_device_has_the_next_batch_while_one_runs_and_the_one_after_it_grows() {
    let (pipeline, control, threads) = start();
    let first = submit(&pipeline, &[&[1]]);
    assert_eq!(control.started().ragged.input_ids(), [1]);
    let second = submit(&pipeline, &[&[2]]);
    assert_eq!(control.started().ragged.input_ids(), [2], "it is submitted before the first is done");
    let mut rest = Vec::new();
    for (id, expected) in [(3, (Some(1), 0)), (4, (Some(2), 0))] {
        rest.push(submit(&pipeline, &[&[id]]));
        wait_until("the entry has found its place", || waiting(&pipeline) == expected);
    }
    assert!(control.is_idle(), "a third batch waits in the slot");
    control.release(Fate::Answer);
    is_right(&first.collect().await.unwrap()[0], &[1]);
    assert_eq!(control.started().ragged.input_ids(), [3, 4]);
    drop(control);
    is_right(&second.collect().await.unwrap()[0], &[2]);
    for (pending, id) in rest.into_iter().zip(3..) {
        is_right(&pending.collect().await.unwrap()[0], &[id]);
    }
    stop(&pipeline, threads);
}

#[tokio::test]
async fn a_pass_that_fails_on_the_device_fails_its_own_batch() {
    for fate in [Fate::Fail, Fate::Panic, Fate::TooFew] {
        let (pipeline, control, threads) = start();
        let failing = submit(&pipeline, &[&[1]]);
        control.started();
        let sound = submit(&pipeline, &[&[2]]);
        control.started();
        control.release(fate);
        assert!(matches!(failing.collect().await, Err(Error::Backend(_))), "{fate:?}");
        control.release(Fate::Answer);
        is_right(&sound.collect().await.unwrap()[0], &[2]);
        let next = submit(&pipeline, &[&[3]]);
        control.started();
        control.release(Fate::Answer);
        is_right(&next.collect().await.unwrap()[0], &[3]);
        stop(&pipeline, threads);
    }
}

#[tokio::test]
async fn a_lost_device_fails_what_waits_for_it_and_what_comes() {
    let (pipeline, control, threads) = start();
    let first = submit(&pipeline, &[&[1]]);
    control.started();
    let second = submit(&pipeline, &[&[2]]);
    control.started();
    let third = submit(&pipeline, &[&[3]]);
    control.release(Fate::Lose);
    control.release(Fate::Lose);
    for pending in [first, second, third] {
        let lost = pending.collect().await;
        assert!(matches!(&lost, Err(Error::Backend(BackendError::DeviceLost(_)))), "{lost:?}");
    }
    assert!(pipeline.lost_device().is_some());
    stop(&pipeline, threads);
}

#[tokio::test]
async fn a_device_that_does_not_answer_is_noticed_although_its_thread_is_free() {
    let (pipeline, control, threads) = start();
    let pending = submit(&pipeline, &[&[1]]);
    control.started();
    let age = Duration::from_millis(20);
    wait_until("it is silent", || pipeline.silent_for().is_some_and(|silent| silent >= age));
    control.release(Fate::Answer);
    pending.collect().await.unwrap();
    assert_eq!(pipeline.silent_for(), None);
    stop(&pipeline, threads);
}

#[tokio::test]
async fn the_time_of_a_batch_begins_with_the_end_of_the_one_before() {
    let (pipeline, control, threads) = start();
    let began = Instant::now();
    let first = submit(&pipeline, &[&[1]]);
    control.started();
    let second = submit(&pipeline, &[&[2]]);
    control.started();
    wait_until("the first has run for a while", || {
        pipeline.silent_for().is_some_and(|silent| silent >= Duration::from_millis(20))
    });
    control.release(Fate::Answer);
    control.release(Fate::Answer);
    let times = [first.collect().await.unwrap()[0].batch.inference, second.collect().await.unwrap()[0].batch.inference];
    assert!(times[0] + times[1] <= began.elapsed(), "{times:?}");
    assert!(times[0] >= Duration::from_millis(20));
    stop(&pipeline, threads);
}

#[tokio::test]
async fn closing_awaits_what_the_device_runs() {
    let (pipeline, control, threads) = start();
    let pending: Vec<_> = (1..5).map(|id| submit(&pipeline, &[&[id]])).collect();
    control.started();
    pipeline.close();
    drop(control);
    for (pending, id) in pending.into_iter().zip(1..) {
        is_right(&pending.collect().await.unwrap()[0], &[id]);
    }
    stop(&pipeline, threads);
}
