//! Forming a batch costs what it takes, however many entries wait.

use super::*;
use crate::backend::{BatchLimits, SubModelMap};
use crate::flow::Priority;
use crate::outputs::Outputs;
use crate::schedule::budget::{AttentionRows, Budget};
use crate::schedule::entry::Reply;
use crate::schedule::sub_model_costs::SubModelCosts;
use crate::schedule::work::Work;
use crate::schedule::work_counter::work;
use crate::trace::Trace;
use std::time::Instant;
use tokio::sync::oneshot::Receiver;

const BUDGET: Budget = Budget { max_tokens: 4096, max_ragged_tokens: 32_768, max_sequences: 1000 };

type Texts = fn(u32) -> Vec<u32>;

/// Names, and the text with a number.
const TRAFFIC: [(&str, Texts); 6] = [
    ("nothing shared", |n| tail(n, 64)),
    ("eight prompts in turn", |n| [vec![n % 8; 50], tail(n, 20)].concat()),
    ("a prompt for ten texts", |n| [vec![1; 30], vec![100 + n / 10; 20], tail(n, 40)].concat()),
    ("all the same", |_| vec![7; 64]),
    // Each text goes on where the one before ended.
    ("a chain", |n| (0..40 + n % 200).collect()),
    ("thousands of branches at each of two nodes", |n| vec![n % 2, 1000 + n, n]),
];

fn tail(n: u32, len: u32) -> Vec<u32> {
    (0..len).map(|i| 10_000 + n.wrapping_mul(7919) % 50_000 + i).collect()
}

/// Cost of a batch, mean over the first ten.
struct Cost {
    work: usize,
    entries: usize,
    tokens: usize,
    micros: f64,
}

/// Requests of this many texts, in turn on this many accounts.
#[derive(Clone, Copy)]
struct Flows {
    texts: u32,
    accounts: u32,
}

const FLOWS: [Flows; 3] =
    [Flows { texts: 1, accounts: 1 }, Flows { texts: 10, accounts: 1 }, Flows { texts: 10, accounts: 100 }];

/// A queue in which this many texts wait.
fn waiting_queue(waiting: u32, text: Texts, Flows { texts, accounts }: Flows) -> (Queue, Vec<Receiver<Reply>>) {
    let (scheduling, folding, attention) = (Scheduling::Prefix, Some(Folding::Prefix), AttentionRows::Compact);
    let mut queue = Queue::new(Policy { budget: BUDGET, scheduling, folding, attention, quantum: 512 }, None);
    let mut answers = Vec::new();
    for request in 0..waiting / texts {
        let entry = |n| Entry::new(text(n), Outputs::EMBEDDING, Trace::default());
        let (entries, receivers): (Vec<_>, Vec<_>) = (request * texts..(request + 1) * texts).map(entry).unzip();
        let flow = Flow { account: Account(request % accounts), ..Flow::default() };
        queue.push(entries, flow, None);
        answers.extend(receivers);
    }
    (queue, answers)
}

fn cost(waiting: u32, text: Texts, flows: Flows) -> Cost {
    let (mut queue, _answers) = waiting_queue(waiting, text, flows);
    let (before, start) = (work(), Instant::now());
    let (mut entries, mut tokens, mut batches) = (0, 0, 0);
    while batches < 10 && !queue.is_empty() {
        let batch = queue.take();
        entries += batch.len();
        tokens += batch.iter().map(|entry| entry.tokens.len()).sum::<usize>();
        queue.complete_batch();
        batches += 1;
    }
    let micros = start.elapsed().as_secs_f64() * 1e6 / batches as f64;
    Cost { work: (work() - before) / batches, entries: entries / batches, tokens: tokens / batches, micros }
}

#[test]
fn forming_a_batch_costs_no_more_than_the_tokens_it_takes() {
    for (name, text) in TRAFFIC {
        for flows in FLOWS {
            let Cost { work, entries, tokens, .. } = cost(10_000, text, flows);
            assert!(work <= tokens + 24 * entries, "{name}: {work} steps for {entries} entries of {tokens} tokens");
        }
    }
}

#[test]
fn it_does_not_matter_how_many_wait() {
    for (name, text) in TRAFFIC {
        // Enough for ten batches at least.
        let [few, many] = [10_000, 100_000].map(|waiting| cost(waiting, text, FLOWS[1]));
        let for_a_token = |cost: &Cost| cost.work as f64 / cost.tokens as f64;
        assert!(for_a_token(&many) <= 1.5 * for_a_token(&few), "{name}: {} steps, {} steps", few.work, many.work);
    }
}

#[test]
fn a_batch_that_gives_way_costs_what_two_batches_do() {
    for (name, text) in TRAFFIC {
        let (mut queue, _answers) = waiting_queue(10_000, text, FLOWS[1]);
        let mut batch = queue.take();
        let tokens: usize = batch.iter().map(|entry| entry.tokens.len()).sum();
        let (query, _answer) = Entry::new(vec![1_000_000; 40], Outputs::EMBEDDING, Trace::default());
        let (before, entries) = (work(), batch.len());
        queue.push(vec![query], Flow { priority: Priority::new(-4), ..Flow::default() }, None);
        batch.extend(queue.take());
        if queue.is_outdated() {
            queue.give_back(batch);
            assert_eq!(queue.take()[0].tokens.len(), 40, "{name}");
        }
        let work = work() - before;
        assert!(work <= 2 * tokens + 64 * entries, "{name}: {work} steps for {entries} entries of {tokens} tokens");
    }
}

/// Work until a query interrupts a batch while this many texts wait.
fn interrupting_work(waiting: u32, text: Texts, flows: Flows) -> usize {
    let (mut queue, _answers) = waiting_queue(waiting, text, flows);
    let limits = BatchLimits { max_tokens: 1024, max_ragged_tokens: 8192 };
    queue.interrupting = Some(Interrupting::new(InterruptPolicy { replicas: 1, due: limits, urgent: limits }));
    let mut costs = SubModelCosts::new(SubModelMap::default(), 1);
    costs.observe(0, Work { rows: 1_000_000, pairs: 0 }, Duration::from_secs(1000));
    queue.set_costs(costs.bound(None));
    let _batch = queue.take();
    queue.close_batch(Level::Bulk, false);
    let before = work();
    let (query, _answer) = Entry::new(vec![1_000_000; 5], Outputs::EMBEDDING, Trace::default());
    queue.push(vec![query], Flow { account: Account(1000), ..Flow::default() }, None);
    assert_eq!(queue.take_interrupting(Level::Urgent).len(), 1);
    let id = queue.close_batch(Level::Urgent, true);
    queue.finish_batch(id, Some(Duration::from_millis(2)));
    work() - before
}

#[test]
fn an_interrupting_batch_costs_a_look_at_each_account() {
    for (name, text) in &TRAFFIC[..3] {
        for flows in &FLOWS[1..] {
            let [few, many] = [10_000, 100_000].map(|waiting| interrupting_work(waiting, *text, *flows));
            assert!(few <= 40 + 4 * flows.accounts as usize, "{name}: {few} steps with {} accounts", flows.accounts);
            assert!(many <= few + 10, "{name}: {few} steps, {many} steps");
        }
    }
}

/// `cargo test --release -p prefold-core forming_batches -- --ignored --nocapture`
#[test]
#[ignore = "a measurement"]
fn forming_batches_with_many_waiting() {
    for (name, text) in TRAFFIC {
        for waiting in [1000, 10_000, 100_000] {
            let Cost { work, entries, tokens, micros } = cost(waiting, text, FLOWS[0]);
            println!("{name}, {waiting} waiting: {entries} entries, {tokens} tokens, {work} steps, {micros:.0} us");
        }
    }
}
