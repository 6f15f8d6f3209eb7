//! The queue in virtual time: one batch leaves per tick, whatever happens outside.

use super::budget::{Budget, Policy};
use super::entry::{Entry, Reply};
use super::queue::Queue;
use crate::trace::Trace;
use crate::{Folding, PlanBuilder, Scheduling, Wanted};
use proptest::prelude::*;
use std::collections::HashMap;
use tokio::sync::oneshot::Receiver;

type Sequence = Vec<u32>;

/// Texts of one request.
type Request = Vec<Sequence>;

/// Arrivals of a tick: before the batch forms, and while it can still grow.
type Arrivals = [Vec<Request>; 2];

struct Simulation {
    queue: Queue,
    answers: Vec<Receiver<Reply>>,
    /// By the number that stands at the end of each sequence.
    ticks: HashMap<u32, usize>,
    batches: Vec<Vec<Sequence>>,
}

impl Simulation {
    fn new(scheduling: Scheduling, budget: Budget) -> Self {
        let queue = Queue::new(Policy { budget, scheduling, folding: Some(Folding::Prefix) });
        Self { queue, answers: Vec::new(), ticks: HashMap::new(), batches: Vec::new() }
    }

    fn arrive(&mut self, requests: &[Request]) {
        for request in requests {
            let (entries, answers): (Vec<_>, Vec<_>) =
                request.iter().map(|ids| Entry::new(ids.clone(), Wanted::Embedding, Trace::default())).unzip();
            self.queue.push(entries);
            self.answers.extend(answers);
        }
    }

    /// Runs until nothing waits.
    fn run(mut self, schedule: &[Arrivals]) -> Self {
        let mut schedule = schedule.iter();
        let mut tick = 0;
        loop {
            let arrivals = schedule.next();
            if arrivals.is_none() && self.queue.is_empty() {
                return self;
            }
            let mut batch = Vec::new();
            for requests in arrivals.unwrap_or(&[vec![], vec![]]) {
                self.arrive(requests);
                batch.extend(self.queue.take().into_iter().map(|entry| entry.tokens.input_ids().to_vec()));
            }
            self.queue.close_batch();
            for ids in &batch {
                self.ticks.insert(ids[ids.len() - 1], tick);
            }
            self.batches.push(batch);
            tick += 1;
        }
    }

    fn unique_tokens(&self) -> usize {
        self.batches.iter().map(|batch| unique_tokens(batch)).sum()
    }
}

fn unique_tokens(batch: &[Sequence]) -> usize {
    let mut plan = PlanBuilder::default();
    batch.iter().map(|ids| plan.push(ids)).sum()
}

fn check_budget(batches: &[Vec<Sequence>], budget: Budget) {
    for batch in batches.iter().filter(|batch| batch.len() > 1) {
        let tokens: usize = batch.iter().map(Vec::len).sum();
        assert!(unique_tokens(batch) <= budget.max_tokens && tokens <= budget.max_ragged_tokens);
        assert!(batch.len() <= budget.max_sequences);
    }
}

/// Prompts of different lengths and a tail of its own for each sequence, which ends in its number.
fn schedules() -> impl Strategy<Value = Vec<Arrivals>> {
    let text = (0u32..4, 0usize..12, 0usize..4);
    let requests = || prop::collection::vec(prop::collection::vec(text.clone(), 1..4), 0..6);
    prop::collection::vec((requests(), requests()), 1..12).prop_map(|ticks| {
        let mut number = 1000;
        let mut sequence = |(prompt, shared, own): (u32, usize, usize)| {
            number += 1;
            // Prompts 0 and 1 begin alike.
            let mut ids: Sequence =
                (0..shared as u32).map(|i| if i < 4 && prompt == 1 { i } else { 10 * prompt + i }).collect();
            ids.extend(vec![500; own]);
            ids.push(number);
            ids
        };
        let mut requests = |requests: Vec<Vec<_>>| {
            requests.into_iter().map(|texts| texts.into_iter().map(&mut sequence).collect()).collect()
        };
        ticks.into_iter().map(|(before, growing)| [requests(before), requests(growing)]).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn nobody_waits_more_than_one_batch_longer_than_under_fifo(
        schedule in schedules(),
        max_tokens in 17usize..80,
        factor in 1usize..4,
        max_sequences in 2usize..12,
    ) {
        let budget = Budget { max_tokens, max_ragged_tokens: factor * max_tokens, max_sequences };
        let fifo = Simulation::new(Scheduling::Fifo, budget).run(&schedule);
        let prefix = Simulation::new(Scheduling::Prefix, budget).run(&schedule);
        check_budget(&fifo.batches, budget);
        check_budget(&prefix.batches, budget);
        prop_assert_eq!(fifo.ticks.len(), prefix.ticks.len(), "each is served once");
        for (number, tick) in &prefix.ticks {
            prop_assert!(*tick <= fifo.ticks[number] + 1, "{number}: {tick}, fifo {}", fifo.ticks[number]);
        }
    }
}

#[test]
fn a_flood_does_not_hold_up_a_lone_request() {
    let budget = Budget { max_tokens: 60, max_ragged_tokens: 1000, max_sequences: 100 };
    let mut number = 1000;
    let mut text = |prompt: u32| -> Request {
        number += 1;
        vec![[vec![prompt; 20], vec![number]].concat()]
    };
    // Ten different requests wait when the flood begins; each has friends in it.
    let older: Vec<Request> = (0..10).map(&mut text).collect();
    let lone = text(99);
    let first = [[older, vec![lone.clone()]].concat(), vec![]];
    let flood = (0..30).map(|_| [(0..40).map(|i| text(i % 10)).collect(), vec![]]);
    let schedule: Vec<Arrivals> = std::iter::once(first).chain(flood).collect();
    let tick = |scheduling| Simulation::new(scheduling, budget).run(&schedule).ticks[&lone[0][20]];
    assert_eq!(tick(Scheduling::Fifo), 5, "two of them fit a batch");
    assert!(tick(Scheduling::Prefix) <= 6);
}

/// Fewest compact tokens of all ways to split `sequences` into batches within the budget, by dynamic programming over
/// subsets: the batch of the first sequence that is left may be any set of the others.
fn best_unique_tokens(sequences: &[Sequence], budget: Budget) -> usize {
    let all = (1usize << sequences.len()) - 1;
    let members = |set: usize| -> Vec<Sequence> {
        (0..sequences.len()).filter(|i| set >> i & 1 == 1).map(|i| sequences[i].clone()).collect()
    };
    let costs: Vec<usize> = (0..=all).map(|set| unique_tokens(&members(set))).collect();
    let lens: Vec<usize> = (0..=all).map(|set| members(set).iter().map(Vec::len).sum()).collect();
    let fits = |set: usize| {
        costs[set] <= budget.max_tokens
            && lens[set] <= budget.max_ragged_tokens
            && set.count_ones() as usize <= budget.max_sequences
    };
    let mut best = vec![usize::MAX; all + 1];
    best[0] = 0;
    for set in 1..=all {
        let first = set & set.wrapping_neg();
        let others = set ^ first;
        let mut part = others;
        loop {
            let batch = part | first;
            if fits(batch) {
                best[set] = best[set].min(best[set ^ batch] + costs[batch]);
            }
            if part == 0 {
                break;
            }
            part = (part - 1) & others;
        }
    }
    best[all]
}

/// Up to eight clients, each with its prompt, whose texts arrive in turn: the tokens that the queue's batches compute,
/// as multiples of the fewest possible.
fn against_the_best(scheduling: Scheduling, clients: u32, texts: u32, lens: (usize, u32), max_tokens: usize) -> f64 {
    let (prompt_len, own_len) = lens;
    let budget = Budget { max_tokens, max_ragged_tokens: 8 * max_tokens, max_sequences: 100 };
    let own = |text: u32| (0..own_len).map(move |i| 1000 + 100 * text + i);
    let sequences: Vec<Sequence> =
        (0..texts).map(|text| std::iter::repeat_n(text % clients, prompt_len).chain(own(text)).collect()).collect();
    let schedule = [[sequences.iter().map(|ids| vec![ids.clone()]).collect(), vec![]]];
    let simulation = Simulation::new(scheduling, budget).run(&schedule);
    check_budget(&simulation.batches, budget);
    simulation.unique_tokens() as f64 / best_unique_tokens(&sequences, budget) as f64
}

#[test]
fn interleaved_clients_are_batched_nearly_as_well_as_can_be() {
    let mut cases = Vec::new();
    for clients in [2, 3, 4, 6, 8] {
        for texts in 9..=11 {
            for (lens, max_tokens) in
                [((50, 10), 150), ((50, 10), 200), ((50, 10), 300), ((100, 20), 400), ((30, 30), 200)]
            {
                let ratio = |scheduling| against_the_best(scheduling, clients, texts, lens, max_tokens);
                let (prefix, fifo) = (ratio(Scheduling::Prefix), ratio(Scheduling::Fifo));
                // A batch that holds two clients' texts, or all there are.
                let group = lens.0 + lens.1 as usize * texts.div_ceil(clients) as usize;
                let is_large = max_tokens >= 2 * group;
                assert!(
                    !is_large || prefix <= 1.05,
                    "{clients} clients, {texts} texts of {lens:?}: {prefix}, fifo {fifo}"
                );
                assert!(prefix <= fifo);
                cases.push((prefix, fifo));
            }
        }
    }
    let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
    let (prefix, fifo): (Vec<f64>, Vec<f64>) = cases.into_iter().unzip();
    let worst = prefix.iter().copied().fold(0.0, f64::max);
    let (prefix, fifo) = (mean(prefix), mean(fifo));
    println!("times the fewest tokens: prefix {prefix:.3}, at worst {worst:.3}; fifo {fifo:.3}");
    assert!(prefix < 1.05 && worst < 1.2 && fifo > 1.3);
}
