//! Batches that interrupt others, against backends that wait for the test.

use super::submit::Pending;
use super::tests::{budget, config, is_right, stop, submit};
use super::*;
use crate::admission::queue_quota::QueueLimits;
use crate::backend::{BatchLimits, Interrupting, ModelBackend};
use crate::error::Error;
use crate::flow::{Account, Flow};
use crate::outputs::Outputs;
use crate::plan::tokens::Tokens;
use crate::schedule::interrupting::InterruptPolicy;
use crate::schedule::level::Level;
use crate::testing::support::{Control, FakeBackend, Fate, embedder, fake_output, info, wait_until};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::time::Duration;

const LIMITS: InterruptPolicy = InterruptPolicy {
    replicas: 1,
    due: BatchLimits { max_tokens: 400, max_ragged_tokens: 3200 },
    urgent: BatchLimits { max_tokens: 100, max_ragged_tokens: 800 },
};

/// The test's ends of a replica's backends.
struct Controls {
    bulk: Control,
    due: Control,
    urgent: Control,
}

fn prefix(backend: FakeBackend) -> ModelBackend {
    ModelBackend::Prefix(Box::new(backend))
}

fn config_with(interrupting: InterruptPolicy) -> PipelineConfig {
    let limits = QueueLimits { tokens: 1 << 20, inputs: 1 << 15 };
    PipelineConfig { limits, interrupting: Some(interrupting), ..config(budget(10_000, 1000)) }
}

fn start() -> (Arc<Pipeline>, Controls, Vec<JoinHandle<()>>) {
    let controlled = || FakeBackend::controlled(info(embedder(), 10_000));
    let [(backend, bulk), (due, due_control), (urgent, urgent_control)] = [controlled(), controlled(), controlled()];
    let interrupting = Interrupting { due: prefix(due), urgent: prefix(urgent) };
    let replica = Replica { backend: prefix(backend), interrupting: Some(interrupting) };
    let config = config_with(LIMITS);
    let (pipeline, threads, _) = spawn(vec![replica], config, WarmUp::off(config.compaction)).unwrap();
    (pipeline, Controls { bulk, due: due_control, urgent: urgent_control }, threads)
}

/// Ids of a text that nobody shares: of a bulk job, of one that is due (a token takes a millisecond, as long as nothing was measured), and
/// of a query.
fn text(first: u32, len: u32) -> Vec<u32> {
    (0..len).map(|id| (first + id) % 1200).collect()
}

const BULK: u32 = 3000;
const DUE: u32 = 150;
const QUERY: u32 = 5;

/// A bulk job that runs.
fn running(pipeline: &Arc<Pipeline>, control: &Control) -> Pending {
    let bulk = submit(pipeline, &[&text(0, BULK)]);
    assert_eq!(control.started().ragged.total_tokens(), BULK as usize);
    bulk
}

/// A query of an account that has received nothing so far.
fn submit_query(pipeline: &Arc<Pipeline>, first: u32) -> Pending {
    let flow = Flow { account: Account(first), ..Flow::default() };
    pipeline.submit(vec![Tokens::new(text(first, QUERY))], Outputs::EMBEDDING, flow).unwrap()
}

fn wait_for(pipeline: &Pipeline, level: Level) {
    wait_until("a batch is ready", || pipeline.lock().slots.contains_key(&level));
}

#[tokio::test]
async fn a_query_runs_at_the_next_yield_point_of_a_bulk_job() {
    let (pipeline, Controls { bulk: control, urgent, .. }, threads) = start();
    let bulk = running(&pipeline, &control);
    let query = submit_query(&pipeline, 7);
    wait_for(&pipeline, Level::Urgent);
    assert!(urgent.is_idle(), "not before the yield point");
    control.release(Fate::Yield);
    assert_eq!(urgent.started().ragged.input_ids(), text(7, QUERY));
    std::thread::sleep(Duration::from_millis(40));
    urgent.release(Fate::Answer);
    is_right(&query.collect().await.unwrap()[0], &text(7, QUERY));
    control.release(Fate::Answer);
    let answer = bulk.collect().await.unwrap().remove(0);
    is_right(&answer, &text(0, BULK));
    assert!(answer.taken.elapsed() >= answer.batch.inference + Duration::from_millis(40), "only its own time counts");
    stop(&pipeline, threads);
}

#[tokio::test]
async fn a_query_interrupts_a_request_that_interrupts_a_bulk_job() {
    let (pipeline, Controls { bulk: control, due, urgent }, threads) = start();
    let bulk = running(&pipeline, &control);
    // Shorter than a bulk job, longer than an urgent batch.
    let pairs: Vec<Vec<u32>> = (0..4).map(|pair| text(200 * pair, DUE)).collect();
    let pairs: Vec<&[u32]> = pairs.iter().map(Vec::as_slice).collect();
    let request = submit(&pipeline, &pairs);
    wait_for(&pipeline, Level::Due);
    control.release(Fate::Yield);
    assert_eq!(due.started().ragged.num_sequences(), 2, "as many as fit");
    let query = submit_query(&pipeline, 7);
    wait_for(&pipeline, Level::Urgent);
    due.release(Fate::Yield);
    urgent.started();
    urgent.release(Fate::Answer);
    query.collect().await.unwrap();
    due.release(Fate::Answer);
    assert_eq!(due.started().ragged.num_sequences(), 2, "the others follow at the same yield point");
    due.release(Fate::Answer);
    let answers = request.collect().await.unwrap();
    answers.iter().zip(pairs).for_each(|(answer, ids)| is_right(answer, ids));
    control.release(Fate::Answer);
    bulk.collect().await.unwrap();
    stop(&pipeline, threads);
}

#[tokio::test]
async fn faults_of_either_batch_do_not_touch_the_other() {
    let faults: [fn() -> Fate; 4] = [|| Fate::Fail, || Fate::Panic, || Fate::Poison(0, f32::NAN), || Fate::TooFew];
    for fault in faults {
        let (pipeline, Controls { bulk: control, urgent, .. }, threads) = start();
        let bulk = running(&pipeline, &control);
        let query = submit_query(&pipeline, 7);
        wait_for(&pipeline, Level::Urgent);
        control.release(Fate::Yield);
        urgent.started();
        urgent.release(fault());
        assert!(matches!(query.collect().await, Err(Error::Backend(_))));
        control.release(Fate::Answer);
        is_right(&bulk.collect().await.unwrap()[0], &text(0, BULK));
        stop(&pipeline, threads);

        // From the beginning: what was measured decides what interrupts, and nothing was.
        let (pipeline, Controls { bulk: control, urgent, .. }, threads) = start();
        let bulk = running(&pipeline, &control);
        let query = submit_query(&pipeline, 7);
        wait_for(&pipeline, Level::Urgent);
        control.release(Fate::Yield);
        urgent.started();
        urgent.release(Fate::Answer);
        query.collect().await.unwrap();
        control.release(fault());
        assert!(matches!(bulk.collect().await, Err(Error::Backend(_))));
        let query = submit_query(&pipeline, 9);
        control.started();
        control.release(Fate::Answer);
        is_right(&query.collect().await.unwrap()[0], &text(9, QUERY));
        assert_eq!(pipeline.failed_batches(), 0);
        stop(&pipeline, threads);
    }
}

#[tokio::test]
async fn a_batch_that_is_ready_too_late_runs_by_itself() {
    let (pipeline, Controls { bulk: control, due, urgent }, threads) = start();
    let bulk = running(&pipeline, &control);
    let query = submit_query(&pipeline, 7);
    wait_for(&pipeline, Level::Urgent);
    control.release(Fate::Answer);
    bulk.collect().await.unwrap();
    assert_eq!(control.started().ragged.input_ids(), text(7, QUERY));
    control.release(Fate::Yield);
    control.release(Fate::Answer);
    is_right(&query.collect().await.unwrap()[0], &text(7, QUERY));
    assert!(due.is_idle() && urgent.is_idle());
    stop(&pipeline, threads);
}

#[tokio::test]
async fn a_batch_whose_clients_have_left_ends_at_the_next_yield_point() {
    let (pipeline, Controls { bulk: control, .. }, threads) = start();
    let (bulk, other) = (running(&pipeline, &control), submit(&pipeline, &[&text(1, BULK)]));
    control.release(Fate::Yield);
    drop(bulk);
    control.release(Fate::Yield);
    assert_eq!(control.started().ragged.input_ids()[0], 1, "the next one runs");
    assert_eq!(pipeline.failed_batches(), 0, "nobody was failed");
    control.release(Fate::Answer);
    is_right(&other.collect().await.unwrap()[0], &text(1, BULK));
    stop(&pipeline, threads);
}

#[tokio::test]
async fn stopping_ends_a_pass_at_its_next_yield_point() {
    let (pipeline, Controls { bulk: control, due, urgent }, threads) = start();
    let (bulk, waiting) = (running(&pipeline, &control), submit(&pipeline, &[&text(1, BULK)]));
    let request = submit(&pipeline, &[&text(2, 2 * DUE), &text(9, 2 * DUE)]);
    wait_for(&pipeline, Level::Due);
    control.release(Fate::Yield);
    due.started();
    let query = submit_query(&pipeline, 3);
    wait_for(&pipeline, Level::Urgent);
    pipeline.stop();
    due.release(Fate::Yield);
    drop((due, urgent, control));
    for pending in [bulk, waiting, request, query] {
        assert!(matches!(pending.collect().await, Err(Error::ShuttingDown)));
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[tokio::test]
async fn a_yield_point_is_a_sign_of_life() {
    let (pipeline, Controls { bulk: control, .. }, threads) = start();
    let bulk = running(&pipeline, &control);
    let age = Duration::from_millis(30);
    wait_until("it is silent for a while", || pipeline.silent_for().is_some_and(|silent| silent >= age));
    control.release(Fate::Yield);
    wait_until("it is alive", || pipeline.silent_for().is_some_and(|silent| silent < age));
    control.release(Fate::Answer);
    bulk.collect().await.unwrap();
    assert_eq!(pipeline.silent_for(), None);
    stop(&pipeline, threads);
}

/// Requests of all sizes, some of which are given up, against replicas that reach yield points all the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_request_gets_its_own_answer_whatever_interrupts_it() {
    let replica = || {
        let yielding = |points| prefix(FakeBackend::yielding(info(embedder(), 10_000), points));
        Replica { backend: yielding(20), interrupting: Some(Interrupting { due: yielding(5), urgent: yielding(2) }) }
    };
    for replicas in [1, 2] {
        let config = config_with(InterruptPolicy { replicas, ..LIMITS });
        let all = (0..replicas).map(|_| replica()).collect();
        let (pipeline, threads, _) = spawn(all, config, WarmUp::off(config.compaction)).unwrap();
        let clients = (0..8).map(|seed| {
            let pipeline = Arc::clone(&pipeline);
            tokio::spawn(async move {
                let mut random = SmallRng::seed_from_u64(seed);
                for _ in 0..150 {
                    let (len, texts) = [(BULK, 2), (DUE, 3), (QUERY, 1)][random.random_range(0..3)];
                    let texts: Vec<Tokens> =
                        (0..texts).map(|_| Tokens::new(text(random.random_range(0..1000), len))).collect();
                    let pending = pipeline.submit(texts.clone(), Outputs::EMBEDDING, Flow::default()).unwrap();
                    if random.random_bool(0.1) {
                        tokio::task::yield_now().await;
                        continue;
                    }
                    for (answer, tokens) in pending.collect().await.unwrap().iter().zip(texts) {
                        let expected = fake_output(&embedder(), tokens.input_ids(), Outputs::EMBEDDING);
                        assert_eq!(answer.output, expected);
                    }
                }
            })
        });
        for client in clients.collect::<Vec<_>>() {
            client.await.unwrap();
        }
        assert_eq!(pipeline.failed_batches(), 0);
        stop(&pipeline, threads);
    }
}

/// `cargo test --release -p prefold-core yield_point_costs -- --ignored --nocapture`
#[tokio::test]
#[ignore = "a measurement"]
async fn a_yield_point_costs_little_when_nothing_is_urgent() {
    const POINTS: usize = 10_000_000;
    let yielding = |points| prefix(FakeBackend::yielding(info(embedder(), 10_000), points));
    let interrupting = Interrupting { due: yielding(0), urgent: yielding(0) };
    let replica = Replica { backend: yielding(POINTS), interrupting: Some(interrupting) };
    let config = config_with(LIMITS);
    let (pipeline, threads, _) = spawn(vec![replica], config, WarmUp::off(config.compaction)).unwrap();
    let texts = vec![Tokens::new(text(0, BULK))];
    let answers = pipeline.submit(texts, Outputs::EMBEDDING, Flow::default()).unwrap().collect().await.unwrap();
    println!("{} ns for a yield point", answers[0].batch.inference.as_nanos() as f64 / POINTS as f64);
    stop(&pipeline, threads);
}
