//! Fair shares: random schedules against the bounds that docs/architecture.md states.

use super::budget::Budget;
use super::simulation::{Request, Simulation};
use crate::config::Scheduling;
use crate::flow::{Account, Flow, Priority};
use proptest::prelude::*;

type Ticks = Vec<[Vec<Request>; 2]>;

/// Requests of up to 40 texts with prompts of different lengths, each text with a tail of its own.
fn ticks() -> impl Strategy<Value = Ticks> {
    let text = (0u32..4, 0usize..12, 1usize..20);
    let texts = prop_oneof![
        3 => prop::collection::vec(text.clone(), 1..3),
        1 => prop::collection::vec(text, 3..40),
    ];
    let requests = move || prop::collection::vec((-2i64..3, texts.clone()), 0..4);
    prop::collection::vec((requests(), requests()), 1..12).prop_map(move |ticks| {
        let mut number = 1000;
        let mut sequence = |(prompt, prefix, own): (u32, usize, usize)| {
            number += 100;
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
    Budget { max_tokens, max_ragged_tokens: 4 * max_tokens, max_sequences }
}

/// Each request of a simulation, the service until it was done, and what its bound follows from: the largest sum of the
/// weights of the requests that were open at once meanwhile, itself included.
fn taken(simulation: &Simulation) -> Vec<(&Request, usize, u64)> {
    let requests = &simulation.requests;
    let weight = |request: &Request| u64::from(request.flow.priority.weight().0);
    let open_at = |tick: usize| {
        requests.iter().filter(|other| other.arrived <= tick && tick < other.done).map(weight).sum::<u64>()
    };
    let open: Vec<u64> = (0..simulation.batches.len()).map(open_at).collect();
    let taken = requests.iter().map(|request| {
        let most = open[request.arrived..request.done].iter().copied().max().unwrap_or(0);
        (request, simulation.service(request.arrived..request.done), most)
    });
    taken.collect()
}

/// Checks that each request is done within four times what as many requests of its size would take, and the rest of a batch.
fn check_shares(simulation: &Simulation, quantum: usize, max_tokens: usize) -> Result<(), TestCaseError> {
    let usual = f64::from(Priority::default().weight().0);
    for (request, taken, open) in taken(simulation) {
        let weight = f64::from(request.flow.priority.weight().0);
        let size = (request.cost() as f64 * usual / weight).max(quantum as f64);
        let bound = 4.0 * open as f64 / usual * size + max_tokens as f64;
        prop_assert!(taken as f64 <= bound, "{taken} > {bound}: {open} open, {request:?}");
    }
    Ok(())
}

/// Clients, the requests of each, and tokens of each request.
fn clients() -> impl Strategy<Value = Vec<Vec<Request>>> {
    let sizes = prop_oneof![
        // The same again and again.
        (1usize..300, 1usize..60).prop_map(|(size, times)| vec![size; times]),
        prop::collection::vec(1usize..300, 1..20),
    ];
    prop::collection::vec((sizes, -1i64..2, 1usize..30), 2..8).prop_map(|clients| {
        let mut number = 0;
        let mut request = |priority: i64, size: usize, len: usize| {
            let flow = Flow { account: Account::default(), priority: Priority::new(priority) };
            let texts = (0..size).step_by(len).map(|begin| {
                number += 100;
                (0..len.min(size - begin) as u32).map(|token| number + token).collect()
            });
            Request::new(flow, texts.collect())
        };
        let mut requests = |(sizes, priority, len): (Vec<usize>, i64, usize)| {
            sizes.into_iter().map(|size| request(priority, size, len)).collect()
        };
        clients.into_iter().map(&mut requests).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// With the batch that runs when it arrives, which is not counted here, that makes two batches.
    #[test]
    fn a_request_is_done_within_its_share_and_the_rest_of_a_batch(
        ticks in ticks(),
        max_tokens in 31usize..150,
        max_sequences in 2usize..40,
        quantum in 2usize..80,
    ) {
        let budget = budget(max_tokens, max_sequences);
        let simulation = Simulation::new(Scheduling::Prefix, budget, quantum).run(ticks);
        simulation.check_budget(budget);
        check_shares(&simulation, quantum, max_tokens)?;
    }

    #[test]
    fn clients_that_never_pause_do_not_keep_others_from_their_share(
        clients in clients(),
        max_tokens in 31usize..150,
        quantum in 2usize..80,
    ) {
        let simulation = Simulation::new(Scheduling::Prefix, budget(max_tokens, 100), quantum).run_clients(clients);
        check_shares(&simulation, quantum, max_tokens)?;
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
    assert_eq!(done, [12, 9, 5]);
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

/// Batches that requests of `flow` wait for at most: a hundred that have the room that others' texts leave, and then one every
/// fifth batch while others have texts that fill all of it.
fn longest_wait(flow: Flow, others: [Flow; 2]) -> usize {
    let mut numbers = 500..;
    let mut jobs = |texts, len| others.map(|other| distinct(other, numbers.next().unwrap_or_default(), texts, len));
    let mut ticks: Vec<[Vec<Request>; 2]> = (0..200).map(|_| [vec![], vec![]]).collect();
    // One is always left, or all that was received would be forgotten.
    [0].into_iter().chain((0..100).step_by(2)).for_each(|tick| ticks[tick][0].extend(jobs(1, 60)));
    ticks[100][0].extend(jobs(800, 10));
    for n in (0..100).chain((100..200).step_by(5)) {
        ticks[n as usize][0].push(distinct(flow, n, 1, 40));
    }
    let simulation = Simulation::new(Scheduling::Prefix, budget(100, 100), 20).run(ticks);
    let waits = simulation.requests.iter().filter(|request| request.cost() == 40);
    waits.map(|request| request.done - request.arrived).max().unwrap_or(0)
}

#[test]
fn room_that_others_had_no_use_for_is_not_paid_for_later() {
    let of = |account| Flow { account: Account(account), ..Flow::default() };
    let waits = [longest_wait(of(0), [of(1), of(2)]), longest_wait(of(0), [of(0), of(0)])];
    assert!(waits.iter().all(|&batches| batches <= 3), "{waits:?}");
}
