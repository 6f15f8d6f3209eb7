//! The threads, against a backend that waits for the test.

use super::submit::Pending;
use super::*;
use crate::admission::queue_quota::QueueLimits;
use crate::backend::{Folding, ModelBackend, SubModelMap};
use crate::config::Scheduling;
use crate::error::{BackendError, Error, Resource};
use crate::flow::{Account, Flow};
use crate::outputs::Outputs;
use crate::plan::tokens::Tokens;
use crate::schedule::batcher::{Buffers, Compaction, FormingBatch};
use crate::schedule::budget::{AttentionRows, Budget};
use crate::schedule::entry::{Answer, Entry};
use crate::schedule::level::Level;
use crate::testing::support::{Control, FakeBackend, Fate, embedder, fake_output, info, wait_until};
use crate::trace::Trace;
use std::time::Duration;

const LIMITS: QueueLimits = QueueLimits { tokens: 6, inputs: 4 };

fn start_with(budget: Budget) -> (Arc<Pipeline>, Control, Vec<JoinHandle<()>>) {
    start_within(budget, LIMITS)
}

fn start_within(budget: Budget, limits: QueueLimits) -> (Arc<Pipeline>, Control, Vec<JoinHandle<()>>) {
    start_as(PipelineConfig { limits, ..config(budget) })
}

pub(super) fn config(budget: Budget) -> PipelineConfig {
    let max_tokens = budget.max_tokens;
    PipelineConfig {
        budget,
        limits: LIMITS,
        scheduling: Scheduling::Prefix,
        compaction: Compaction { folding: Folding::Prefix, threshold: 0.95, pad_to_multiple: 1, max_tokens },
        attention: AttentionRows::Compact,
        max_batch_time: None,
        interrupting: None,
    }
}

fn start_as(config: PipelineConfig) -> (Arc<Pipeline>, Control, Vec<JoinHandle<()>>) {
    let (backend, control) = FakeBackend::controlled(info(embedder(), 1000));
    let backend = ModelBackend::Prefix(Box::new(backend));
    let (pipeline, threads, _) = spawn(vec![backend.into()], config, WarmUp::off(config.compaction)).unwrap();
    (pipeline, control, threads)
}

fn start() -> (Arc<Pipeline>, Control, Vec<JoinHandle<()>>) {
    start_with(budget(100, 10))
}

pub(super) fn budget(max_tokens: usize, max_sequences: usize) -> Budget {
    Budget { max_tokens, max_ragged_tokens: 8 * max_tokens, max_sequences }
}

/// Sequences in the slot, and entries behind it.
pub(super) fn waiting(pipeline: &Pipeline) -> (Option<usize>, usize) {
    let state = pipeline.lock();
    (state.slots.get(&Level::Bulk).map(FormingBatch::len), state.queue.len())
}

pub(super) fn submit(pipeline: &Arc<Pipeline>, sequences: &[&[u32]]) -> Pending {
    pipeline
        .submit(sequences.iter().map(|ids| Tokens::new(ids.to_vec())).collect(), Outputs::EMBEDDING, Flow::default())
        .unwrap()
}

pub(super) fn stop(pipeline: &Pipeline, threads: Vec<JoinHandle<()>>) {
    pipeline.close();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

pub(super) fn is_right(answer: &Answer, ids: &[u32]) {
    assert_eq!(answer.output, fake_output(&embedder(), ids, Outputs::EMBEDDING));
}

#[tokio::test]
async fn a_lone_entry_leaves_at_once_and_the_next_batch_is_planned_meanwhile() {
    let (pipeline, control, threads) = start();
    let first = submit(&pipeline, &[&[1, 2, 3]]);
    assert_eq!(control.started().ragged.num_sequences(), 1);

    let second = submit(&pipeline, &[&[1, 2, 4], &[1, 2, 5]]);
    wait_until("the next batch is planned", || waiting(&pipeline) == (Some(2), 0));
    assert!(control.is_idle(), "planned while the first batch still runs");

    control.release(Fate::Answer);
    let batch = control.started();
    assert_eq!(batch.plan.expect("it shares a prefix").unique_tokens(), 4);
    control.release(Fate::Answer);
    is_right(&first.collect().await.unwrap()[0], &[1, 2, 3]);
    let answers = second.collect().await.unwrap();
    is_right(&answers[0], &[1, 2, 4]);
    is_right(&answers[1], &[1, 2, 5]);
    assert_eq!(answers[0].batch, answers[1].batch);
    assert_eq!((answers[0].batch.total_tokens, answers[0].batch.unique_tokens), (6, 4));
    stop(&pipeline, threads);
}

#[tokio::test]
async fn arrivals_join_the_batch_in_the_slot_until_it_is_full() {
    let (pipeline, control, threads) = start_with(budget(100, 3));
    let running = submit(&pipeline, &[&[9]]);
    control.started();
    let mut pending = Vec::new();
    for (id, expected) in [(1, (Some(1), 0)), (2, (Some(2), 0)), (3, (Some(3), 0)), (4, (Some(3), 1))] {
        pending.push(submit(&pipeline, &[&[id]]));
        wait_until("the entry has found its place", || waiting(&pipeline) == expected);
    }
    control.release(Fate::Answer);
    assert_eq!(control.started().ragged.input_ids(), [1, 2, 3], "one batch of three arrivals");
    control.release(Fate::Answer);
    assert_eq!(control.started().ragged.input_ids(), [4]);
    control.release(Fate::Answer);
    running.collect().await.unwrap();
    for (pending, id) in pending.into_iter().zip(1..) {
        is_right(&pending.collect().await.unwrap()[0], &[id]);
    }
    stop(&pipeline, threads);
}

#[tokio::test]
async fn the_token_budget_splits_batches() {
    let (pipeline, control, threads) = start_with(budget(4, 10));
    let pending = submit(&pipeline, &[&[1, 2], &[3, 4], &[5, 6, 7]]);
    assert_eq!(control.started().ragged.input_ids(), [1, 2, 3, 4]);
    control.release(Fate::Answer);
    assert_eq!(control.started().ragged.input_ids(), [5, 6, 7]);
    control.release(Fate::Answer);
    let answers = pending.collect().await.unwrap();
    assert_ne!(answers[0].batch.id, answers[2].batch.id);
    stop(&pipeline, threads);
}

#[tokio::test]
async fn batches_are_bounded_by_what_those_before_took() {
    let config = PipelineConfig {
        limits: QueueLimits { tokens: 10_000, inputs: 1000 },
        max_batch_time: Some(Duration::from_millis(100)),
        ..config(budget(1000, 1000))
    };
    let (pipeline, control, threads) = start_as(config);
    let job: Vec<Vec<u32>> = (0..100).map(|id| vec![id]).collect();
    let job = submit(&pipeline, &job.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let first = control.started().ragged.total_tokens();
    assert_eq!(first, 100, "a millisecond for each, until it is known");
    let next: Vec<Vec<u32>> = (100..200).map(|id| vec![id]).collect();
    let next = submit(&pipeline, &next.iter().map(Vec::as_slice).collect::<Vec<_>>());
    wait_until("a batch is in the slot", || waiting(&pipeline) == (Some(100), 0));
    std::thread::sleep(Duration::from_millis(500));
    control.release(Fate::Answer);
    assert_eq!(control.started().ragged.total_tokens(), 100, "it was formed before");
    let last: Vec<Vec<u32>> = (200..300).map(|id| vec![id]).collect();
    let last = submit(&pipeline, &last.iter().map(Vec::as_slice).collect::<Vec<_>>());
    wait_until("a batch is in the slot", || waiting(&pipeline).0.is_some());
    control.release(Fate::Answer);
    let bounded = control.started().ragged.total_tokens();
    assert!(bounded <= 20, "{bounded} at 5 ms or more");
    drop(control);
    for pending in [job, next, last] {
        pending.collect().await.unwrap();
    }
    stop(&pipeline, threads);
}

#[tokio::test]
async fn a_backend_plans_itself_unless_the_planner_does() {
    // Without threads.
    let pipeline = Arc::new(Pipeline::new(config(budget(100, 1)), 1, SubModelMap::default()));
    let pending = submit(&pipeline, &[&[1], &[2]]);
    for (id, is_left_to_planner) in [(1, true), (2, false)] {
        assert!(pipeline.lock().is_left_to_backend(), "it is between two batches");
        assert!(pipeline.await_batch(0).is_some_and(|taken| (taken.id, taken.batch.len()) == (id, 1)));
        let mut state = pipeline.lock();
        assert!(!state.is_left_to_backend(), "it runs");
        assert_eq!(state.is_left_to_planner(), is_left_to_planner);
        state.running = vec![super::pipeline::Running::default()];
    }
    let mut state = pipeline.lock();
    state.is_forming = true;
    assert!(!state.is_left_to_backend());
    state.drained = true;
    let (entry, _answer) = Entry::new(vec![3], Outputs::EMBEDDING, Trace::default());
    state.queue.push(vec![entry], Flow::default(), None);
    drop(state);
    assert!(pipeline.await_batch(0).is_none(), "the planner's batch would be mixed with another");
    drop(pending);
}

#[tokio::test]
async fn a_batch_is_left_to_a_backend_that_waits() {
    let mut config = config(budget(100, 10));
    config.compaction.threshold = 0.0;
    let pipeline = Pipeline::new(config, 1, SubModelMap::default());
    let mut state = pipeline.lock();
    state.idle_backends = 1;
    state.slots.insert(Level::Bulk, FormingBatch::new(config.compaction, Buffers::default()));
    let (entry, _answer) = Entry::new(vec![1], Outputs::EMBEDDING, Trace::default());
    state.queue.push(vec![entry], Flow::default(), None);
    assert!(state.take_entries(config.compaction).is_none());
    state.idle_backends = 0;
    assert!(state.take_entries(config.compaction).is_some_and(|(_, entries)| entries.len() == 1));
    assert!(state.slots.is_empty(), "taken back out");
}

#[tokio::test]
async fn entries_of_clients_that_left_are_not_computed() {
    let (pipeline, control, threads) = start_with(budget(100, 2));
    let running = submit(&pipeline, &[&[9]]);
    control.started();
    let in_slot = submit(&pipeline, &[&[1]]);
    let stays = submit(&pipeline, &[&[2]]);
    wait_until("the slot is full", || waiting(&pipeline) == (Some(2), 0));
    let stays_too = submit(&pipeline, &[&[5]]);
    let in_queue = submit(&pipeline, &[&[3], &[4]]);
    assert_eq!(waiting(&pipeline).1, 3);
    drop(in_queue);
    assert_eq!(waiting(&pipeline).1, 1, "a client that leaves frees its places at once");
    drop(in_slot);
    wait_until("another has its place in the slot", || waiting(&pipeline) == (Some(2), 0));
    control.release(Fate::Answer);
    assert_eq!(control.started().ragged.input_ids(), [2, 5]);
    control.release(Fate::Answer);
    stays.collect().await.unwrap();
    stays_too.collect().await.unwrap();
    running.collect().await.unwrap();
    stop(&pipeline, threads);
    assert!(control.is_idle());
}

#[tokio::test]
async fn a_small_request_takes_the_place_of_a_large_ones_later_entries() {
    let (pipeline, control, threads) = start_within(budget(700, 100), QueueLimits { tokens: 10_000, inputs: 100 });
    let running = submit(&pipeline, &[&[9]]);
    control.started();
    let job: Vec<Vec<u32>> = (1..5).map(|id| vec![id; 300]).collect();
    let job = submit(&pipeline, &job.iter().map(Vec::as_slice).collect::<Vec<_>>());
    wait_until("the slot is full", || waiting(&pipeline) == (Some(2), 2));
    let held = || pipeline.lock().shares[&Account::default()].held();
    assert_eq!(held(), [1200, 4], "the slot's too, because they may have to wait again");
    let query = submit(&pipeline, &[&[7; 200]]);
    wait_until("its place is given up", || pipeline.lock().queue.tokens() == 900);
    wait_until("the slot is full again", || waiting(&pipeline) == (Some(2), 3));
    assert_eq!(held(), [1400, 5]);
    control.release(Fate::Answer);
    assert_eq!(control.started().ragged.input_ids(), [vec![7; 200], vec![1; 300]].concat());
    control.release(Fate::Answer);
    assert_eq!(control.started().ragged.input_ids(), [vec![2; 300], vec![3; 300]].concat());
    control.release(Fate::Answer);
    assert_eq!(control.started().ragged.input_ids(), vec![4; 300]);
    control.release(Fate::Answer);
    is_right(&query.collect().await.unwrap()[0], &[7; 200]);
    for (answer, id) in job.collect().await.unwrap().iter().zip(1..) {
        is_right(answer, &[id; 300]);
    }
    running.collect().await.unwrap();
    stop(&pipeline, threads);
}

#[tokio::test]
async fn a_batch_of_gone_clients_does_not_run() {
    let (pipeline, control, threads) = start();
    let running = submit(&pipeline, &[&[9]]);
    control.started();
    let gone = submit(&pipeline, &[&[1]]);
    wait_until("it is in the slot", || waiting(&pipeline) == (Some(1), 0));
    drop(gone);
    control.release(Fate::Answer);
    running.collect().await.unwrap();
    let next = submit(&pipeline, &[&[2]]);
    assert_eq!(control.started().ragged.input_ids(), [2]);
    control.release(Fate::Answer);
    next.collect().await.unwrap();
    stop(&pipeline, threads);
}

#[tokio::test]
async fn a_failed_batch_fails_alone_and_counts() {
    let (pipeline, control, threads) = start();
    type Expected = fn(&BackendError) -> bool;
    let fates: [(Fate, Expected); 4] = [
        (Fate::Fail, |error| matches!(error, BackendError::Compute(_))),
        (Fate::Panic, |error| matches!(error, BackendError::Panic(text) if text.contains("told to panic"))),
        (Fate::TooFew, |error| matches!(error, BackendError::Contract(_))),
        (Fate::WrongForm, |error| matches!(error, BackendError::Contract(_))),
    ];
    for (failed_before, (fate, is_expected)) in fates.into_iter().enumerate() {
        assert_eq!(pipeline.failed_batches(), failed_before);
        let fails = submit(&pipeline, &[&[1], &[2]]);
        control.started();
        control.release(fate);
        match fails.collect().await {
            Err(Error::Backend(error)) => assert!(is_expected(&error), "{error}"),
            other => panic!("{other:?}"),
        }
    }
    let next = submit(&pipeline, &[&[3]]);
    control.started();
    control.release(Fate::Answer);
    is_right(&next.collect().await.unwrap()[0], &[3]);
    assert_eq!(pipeline.failed_batches(), 0);
    stop(&pipeline, threads);
}

#[tokio::test]
async fn a_lost_device_fails_whatever_waits_and_comes() {
    let (pipeline, control, threads) = start_with(budget(100, 1));
    let pending: Vec<_> = [1, 2, 3, 4].map(|id| submit(&pipeline, &[&[id]])).into();
    control.started();
    control.release(Fate::Lose);
    let is_lost = |result: &Result<_, Error>| matches!(result, Err(Error::Backend(BackendError::DeviceLost(_))));
    for pending in pending {
        assert!(is_lost(&pending.collect().await.map(drop)));
    }
    assert!(control.is_idle(), "nothing is computed any more");
    let later = pipeline.submit(vec![Tokens::new(vec![5])], Outputs::EMBEDDING, Flow::default());
    assert!(is_lost(&later.map(drop)));
    assert!(matches!(pipeline.until_device_lost().await, BackendError::DeviceLost(_)));
    stop(&pipeline, threads);
}

#[tokio::test]
async fn a_batch_that_is_lost_outside_the_forward_pass_counts() {
    let (backend, control) = FakeBackend::controlled(info(embedder(), 1000));
    // No vector has this many rows: a plan that is used makes the backend's thread panic before the forward pass.
    let compaction =
        Compaction { folding: Folding::Prefix, threshold: 0.95, pad_to_multiple: usize::MAX, max_tokens: 100 };
    let config = PipelineConfig {
        budget: budget(100, 10),
        limits: LIMITS,
        scheduling: Scheduling::Prefix,
        compaction,
        attention: AttentionRows::Compact,
        max_batch_time: None,
        interrupting: None,
    };
    let (pipeline, threads, _) =
        spawn(vec![ModelBackend::Prefix(Box::new(backend)).into()], config, WarmUp::off(config.compaction)).unwrap();
    let lost = submit(&pipeline, &[&[1, 2], &[1, 2]]).collect().await;
    assert!(matches!(lost, Err(Error::Backend(BackendError::Panic(_)))), "{lost:?}");
    wait_until("the batch is counted", || pipeline.failed_batches() == 1);
    control.release(Fate::Answer);
    is_right(&submit(&pipeline, &[&[3]]).collect().await.unwrap()[0], &[3]);
    assert_eq!(pipeline.failed_batches(), 0, "the next one shows that the backend works");
    stop(&pipeline, threads);
}

#[tokio::test]
async fn a_row_that_is_not_finite_fails_alone() {
    let (pipeline, control, threads) = start();
    let running = submit(&pipeline, &[&[9]]);
    control.started();
    let pending: Vec<_> = [1, 2, 3].map(|id| submit(&pipeline, &[&[id]])).into();
    wait_until("all are in one batch", || waiting(&pipeline) == (Some(3), 0));
    control.release(Fate::Poison(0, f32::INFINITY));
    control.started();
    control.release(Fate::Poison(1, f32::NAN));
    let is_not_finite =
        |result: &Result<_, _>| matches!(result, Err(Error::Backend(BackendError::NotFinite { dtype: "float32", .. })));
    assert!(is_not_finite(&running.collect().await));
    for (pending, id) in pending.into_iter().zip(1..) {
        let result = pending.collect().await;
        match id {
            2 => assert!(is_not_finite(&result)),
            _ => is_right(&result.unwrap()[0], &[id]),
        }
    }
    assert_eq!(pipeline.failed_batches(), 0, "the neighbours' answers show that the backend works");
    stop(&pipeline, threads);
}

#[tokio::test]
async fn closing_computes_what_was_accepted_and_refuses_the_rest() {
    let (pipeline, control, threads) = start_with(budget(100, 1));
    let pending: Vec<_> = [1, 2, 3].map(|id| submit(&pipeline, &[&[id]])).into();
    control.started();
    pipeline.close();
    assert!(matches!(
        pipeline.submit(vec![Tokens::new(vec![4])], Outputs::EMBEDDING, Flow::default()),
        Err(Error::ShuttingDown)
    ));
    drop(control);
    for (pending, id) in pending.into_iter().zip(1..) {
        is_right(&pending.collect().await.unwrap()[0], &[id]);
    }
    stop(&pipeline, threads);
}

#[tokio::test]
async fn a_lost_reply_is_an_answer() {
    let (pipeline, control, threads) = start();
    let (entry, answer) = Entry::new(vec![1], Outputs::EMBEDDING, Trace::default());
    drop(entry);
    let pending = Pending { pipeline: Arc::clone(&pipeline), tickets: 0..1, answers: vec![answer] };
    assert!(matches!(pending.collect().await, Err(Error::Backend(BackendError::Panic(_)))));
    drop(control);
    stop(&pipeline, threads);
}

fn refusal(pipeline: &Arc<Pipeline>) -> (Resource, usize) {
    match pipeline.submit(vec![Tokens::new(vec![1])], Outputs::EMBEDDING, Flow::default()) {
        Err(Error::Overloaded { resource, limit, .. }) => (resource, limit),
        other => panic!("{other:?}"),
    }
}

/// A batch that runs, one in the slot that cannot grow, and this behind them.
fn queued(pipeline: &Arc<Pipeline>, control: &Control, sequences: &[&[u32]]) -> Vec<Pending> {
    let running = submit(pipeline, &[&[9]]);
    control.started();
    let in_slot = submit(pipeline, &[&[8]]);
    wait_until("the slot is filled", || waiting(pipeline) == (Some(1), 0));
    vec![running, in_slot, submit(pipeline, sequences)]
}

#[tokio::test]
async fn a_full_queue_refuses_whatever_the_size_and_says_which_limit() {
    for (sequences, limit) in [
        (&[&[1, 2, 3, 4][..], &[1, 2][..]][..], (Resource::QueuedTokens, 6)),
        (&[&[1][..], &[2], &[3], &[4]], (Resource::QueuedInputs, 4)),
    ] {
        let (pipeline, control, threads) = start_with(budget(100, 1));
        let mut pending = queued(&pipeline, &control, sequences);
        assert_eq!(refusal(&pipeline), limit);
        let probe = pipeline.submit_probe(Outputs::EMBEDDING).unwrap();
        // With two of them gone there is room, even for more than the limit.
        for left in [sequences.len(), sequences.len() - 1, sequences.len() - 2] {
            control.release(Fate::Answer);
            control.started();
            wait_until("the queue has moved on", || waiting(&pipeline) == (Some(1), left));
        }
        wait_until("there is room", || pipeline.quota.share_of(Account::default()).grow(0, 0).is_ok());
        pending.push(submit(&pipeline, &[&[5; 50]]));
        pending.push(probe);
        pipeline.close();
        for _ in 0..sequences.len() + 1 {
            control.release(Fate::Answer);
        }
        for pending in pending {
            pending.collect().await.unwrap();
        }
        stop(&pipeline, threads);
    }
}

#[tokio::test]
async fn a_later_chunk_waits_for_room_and_goes_before_who_is_new() {
    let (pipeline, control, threads) = start_with(budget(100, 1));
    let mut pending = queued(&pipeline, &control, &[&[1, 2, 3], &[4, 5, 6]]);
    let chunk = tokio::spawn({
        let pipeline = Arc::clone(&pipeline);
        async move { pipeline.submit_in_turn(vec![Tokens::new(vec![7; 20])], Outputs::EMBEDDING, Flow::default(), 0).await }
    });
    tokio::task::yield_now().await;
    assert!(!chunk.is_finished());
    let other = Flow { account: Account(1), ..Flow::default() };
    // Another account has room of its own.
    pending.insert(0, pipeline.submit(vec![Tokens::new(vec![1])], Outputs::EMBEDDING, other).unwrap());
    // Room, but somebody has been waiting for it.
    drop(pending.pop());
    assert_eq!(refusal(&pipeline), (Resource::QueuedTokens, 6));
    let chunk = chunk.await.unwrap().unwrap();
    assert_eq!(refusal(&pipeline), (Resource::QueuedTokens, 6));
    pending.push(chunk);
    for _ in 0..4 {
        control.release(Fate::Answer);
    }
    for pending in pending {
        pending.collect().await.unwrap();
    }
    stop(&pipeline, threads);
}

#[tokio::test]
async fn a_chunk_that_is_given_up_lets_others_in() {
    let (pipeline, control, threads) = start_with(budget(100, 1));
    let mut pending = queued(&pipeline, &control, &[&[1, 2, 3], &[4, 5, 6]]);
    {
        let chunk = pipeline.submit_in_turn(vec![Tokens::new(vec![7])], Outputs::EMBEDDING, Flow::default(), 0);
        assert!(tokio::time::timeout(Duration::from_millis(1), chunk).await.is_err());
    }
    drop(pending.pop());
    pending.push(submit(&pipeline, &[&[1]]));
    for _ in 0..3 {
        control.release(Fate::Answer);
    }
    for pending in pending {
        pending.collect().await.unwrap();
    }
    stop(&pipeline, threads);
}
