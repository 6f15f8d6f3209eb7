//! Fair shares, against a simulation of equal sharing that serves every request a little at each step.

use super::budget::Budget;
use super::simulation::{Request, Simulation};
use crate::{Account, Flow, Priority, Scheduling};
use proptest::prelude::*;

type Ticks = Vec<[Vec<Request>; 2]>;

/// Service that equal sharing needs from the arrival of each request until it is done, and the most requests that are
/// unfinished at once meanwhile. `service` is what each batch gives, `costs` and `arrivals` (in batches) are the requests'.
fn share_equally(service: &[usize], costs: &[f64], weights: &[f64], arrivals: &[usize]) -> Vec<(f64, usize)> {
    let mut left = costs.to_vec();
    let mut spent = vec![0.0; costs.len()];
    let mut most = vec![0; costs.len()];
    for tick in 0.. {
        let unfinished = |left: &[f64]| -> Vec<usize> {
            (0..costs.len()).filter(|&i| arrivals[i] <= tick && left[i] > 1e-9).collect()
        };
        // When the real queue is done the rest goes on alone.
        let mut rest = service.get(tick).map_or(f64::MAX, |&tokens| tokens as f64);
        loop {
            let active = unfinished(&left);
            let total: f64 = active.iter().map(|&i| weights[i]).sum();
            let Some(first) = active.iter().map(|&i| left[i] / weights[i]).reduce(f64::min) else { break };
            active.iter().for_each(|&i| most[i] = most[i].max(active.len()));
            let step = first.min(rest / total);
            for &i in &active {
                left[i] -= step * weights[i];
                spent[i] += step * total;
            }
            rest -= step * total;
            if rest < 1e-9 {
                break;
            }
        }
        if tick >= service.len() {
            break;
        }
    }
    spent.into_iter().zip(most).collect()
}

/// Requests of up to 40 texts with prompts of different lengths, each text with a tail of its own.
fn ticks(shared: bool, priorities: bool) -> impl Strategy<Value = Ticks> {
    let text = (0u32..4, 0usize..12, 1usize..20);
    let texts = prop_oneof![
        3 => prop::collection::vec(text.clone(), 1..3),
        1 => prop::collection::vec(text, 3..40),
    ];
    let priority = if priorities { -2i64..3 } else { 0..1 };
    let requests = move || prop::collection::vec((priority.clone(), texts.clone()), 0..4);
    prop::collection::vec((requests(), requests()), 1..12).prop_map(move |ticks| {
        let mut number = 1000;
        let mut sequence = |(prompt, prefix, own): (u32, usize, usize)| {
            number += 100;
            let prefix = if shared { prefix } else { 0 };
            (0..prefix as u32).map(|i| 20 * prompt + i).chain((0..own as u32).map(|i| number + i)).collect()
        };
        let mut request = |(priority, texts): (i64, Vec<_>)| {
            let flow = Flow { account: Account::default(), priority: Priority::new(priority) };
            Request::new(flow, texts.into_iter().map(&mut sequence).collect())
        };
        let mut requests = |requests: Vec<_>| requests.into_iter().map(&mut request).collect();
        ticks.into_iter().map(|(before, growing)| [requests(before), requests(growing)]).collect()
    })
}

fn budget(max_tokens: usize, max_sequences: usize) -> Budget {
    Budget { max_tokens, max_ragged_tokens: 4 * max_tokens, max_sequences, time: None }
}

/// Each request of a simulation, the service until it was done, and what sharing would have needed with the most
/// requests unfinished at once.
fn against_sharing(simulation: &Simulation) -> Vec<(&Request, f64, (f64, usize))> {
    let service: Vec<usize> = simulation.batches.iter().map(|batch| batch.tokens).collect();
    let requests = &simulation.requests;
    let costs: Vec<f64> = requests.iter().map(|request| request.cost() as f64).collect();
    let weights: Vec<f64> = requests.iter().map(|request| f64::from(request.flow.priority.weight().0)).collect();
    let arrivals: Vec<usize> = requests.iter().map(|request| request.arrived).collect();
    let shared = share_equally(&service, &costs, &weights, &arrivals);
    let taken = requests.iter().map(|request| simulation.service(request.arrived..request.done) as f64);
    requests.iter().zip(taken).zip(shared).map(|((request, taken), shared)| (request, taken, shared)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// With the batch that runs when it arrives, which is not counted here, that makes two batches.
    #[test]
    fn a_request_is_done_within_its_share_and_the_rest_of_a_batch(
        ticks in ticks(true, false),
        max_tokens in 31usize..150,
        max_sequences in 2usize..40,
        quantum in 2usize..80,
    ) {
        let budget = budget(max_tokens, max_sequences);
        let simulation = Simulation::new(Scheduling::Prefix, budget, quantum).run(ticks);
        simulation.check_budget(budget);
        for (request, taken, (_, active)) in against_sharing(&simulation) {
            let bound = active * request.cost().max(quantum) + max_tokens;
            prop_assert!(taken <= bound as f64, "{taken} > {bound}: {active} active, {request:?}");
        }
    }

    #[test]
    fn with_any_priorities_a_request_is_done_no_later_than_if_all_shared(
        ticks in ticks(false, true),
        max_tokens in 31usize..150,
    ) {
        let simulation = Simulation::new(Scheduling::Prefix, budget(max_tokens, 100), 2).run(ticks);
        for (request, taken, (shared, _)) in against_sharing(&simulation) {
            // The quantum is two tokens of a weight.
            let bound = shared + max_tokens as f64 + 1.0;
            prop_assert!(taken <= bound + 1e-6, "{taken} > {bound}: {request:?}");
        }
    }
}

/// A request of `texts` texts with `len` tokens each, which share nothing with others.
fn distinct(flow: Flow, number: u32, texts: u32, len: u32) -> Request {
    let text = |i: u32| (0..len).map(|token| 500_000 * number + 100 * i + token).collect();
    Request::new(flow, (0..texts).map(text).collect())
}

#[test]
fn a_query_goes_before_the_jobs_that_wait_and_takes_their_place_in_the_slot() {
    let flow = Flow::default();
    let jobs = (0..16).map(|n| distinct(flow, n, 400, 60)).collect();
    let ticks = vec![[jobs, vec![]], [vec![], vec![distinct(flow, 100, 1, 10)]]];
    let simulation = Simulation::new(Scheduling::Prefix, budget(1000, 1000), 512).run(ticks);
    assert_eq!(simulation.requests[16].done, 2, "the batch that was formed when it came");
    let of_job = |n: usize| simulation.batches.iter().filter(|batch| batch.owners.contains(&n)).count();
    assert_eq!((of_job(0), of_job(15)), (25, 25), "one job after another: {} would do", 400usize.div_ceil(16));
}

#[test]
fn queries_that_never_cease_do_not_starve_a_job() {
    let flow = Flow::default();
    let query = |n: u32| distinct(flow, n, 1, 20);
    let mut ticks = vec![[vec![distinct(flow, 8000, 100, 20)], vec![]]];
    // Four fifths of what a batch takes.
    ticks.extend((0..400).map(|tick| [(0..4).map(|i| query(4 * tick + i)).collect(), vec![]]));
    let simulation = Simulation::new(Scheduling::Prefix, budget(100, 100), 64).run(ticks);
    let job = &simulation.requests[0];
    assert!(job.done <= 101, "it gets the last fifth: {}", job.done);
    let slowest = simulation.requests[1..].iter().map(|query| query.done - query.arrived).max();
    assert!(slowest <= Some(2), "{slowest:?}");
}

#[test]
fn lower_priorities_go_first_and_the_last_still_advances() {
    let flow = |priority| Flow { account: Account::default(), priority: Priority::new(priority) };
    let jobs = [3, 0, -3].map(|priority| distinct(flow(priority), (priority + 10) as u32, 20, 10));
    let simulation = Simulation::new(Scheduling::Prefix, budget(50, 100), 2).run(vec![[jobs.into(), vec![]]]);
    let done: Vec<usize> = simulation.requests.iter().map(|request| request.done).collect();
    assert_eq!(done, [12, 8, 4]);
    let mut ticks = vec![[vec![distinct(flow(i64::MAX), 1, 10, 10)], vec![]]];
    ticks.extend((2..600).map(|n| [vec![distinct(flow(i64::MIN), n, 5, 10)], vec![]]));
    let simulation = Simulation::new(Scheduling::Prefix, budget(50, 100), 2).run(ticks);
    let last = &simulation.requests[0];
    assert!(last.done < 600, "it has 1/257 of the service at least: {}", last.done);
}

#[test]
fn accounts_that_wait_get_the_same() {
    let flow = |account| Flow { account: Account(account), priority: Priority::default() };
    // One sends ten times as much as the other, with the best priority.
    let best = Flow { priority: Priority::new(-4), ..flow(1) };
    let mut requests: Vec<Request> = (0..100).map(|n| distinct(best, n, 10, 10)).collect();
    requests.extend((100..110).map(|n| distinct(flow(2), n, 10, 10)));
    let simulation = Simulation::new(Scheduling::Prefix, budget(95, 100), 64).run(vec![[requests, vec![]]]);
    let second_is_done = simulation.requests[100..].iter().map(|request| request.done).max().unwrap();
    let owners = simulation.batches[..second_is_done].iter().flat_map(|batch| &batch.owners);
    let (of_second, of_first): (Vec<usize>, Vec<usize>) = owners.partition(|&&owner| owner >= 100);
    assert_eq!(of_second.len(), 100);
    assert!(of_first.len().abs_diff(100) <= 9, "{}: within a batch", of_first.len());
}
