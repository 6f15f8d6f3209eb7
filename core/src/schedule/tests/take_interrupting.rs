//! Interruptions in virtual time: one backend, whose passes reach a yield point each millisecond.

use super::*;
use crate::backend::SubModelMap;
use crate::config::Scheduling;
use crate::flow::{Flow, Priority};
use crate::outputs::Outputs;
use crate::schedule::budget::{AttentionRows, Policy};
use crate::schedule::entry::Reply;
use crate::schedule::interrupting::InterruptPolicy;
use crate::schedule::sub_model_costs::SubModelCosts;
use crate::schedule::work::Work;
use crate::trace::Trace;
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use tokio::sync::oneshot::Receiver;

const MS: Duration = Duration::from_millis(1);

/// Time of a token.
const TOKEN: Duration = Duration::from_micros(20);

/// Time that a batch takes in addition to its tokens.
const OVERHEAD: Duration = MS;

const QUANTUM: usize = 512;

const LIMITS: InterruptPolicy = InterruptPolicy {
    replicas: 1,
    due: BatchLimits { max_tokens: 4096, max_ragged_tokens: 32_768 },
    urgent: BatchLimits { max_tokens: 1024, max_ragged_tokens: 8192 },
};

/// A request, and the times between which it is in the queue or computed.
#[derive(Debug, Clone)]
struct Request {
    flow: Flow,
    texts: usize,
    len: usize,
    arrival: Duration,
    left: usize,
    done: Duration,
    /// Time until which its client sends the same again once it is done.
    again_until: Duration,
}

impl Request {
    fn new(account: u32, texts: usize, len: usize, arrival: Duration) -> Self {
        let flow = Flow { account: Account(account), priority: Priority::default() };
        Self { flow, texts, len, arrival, left: texts, done: Duration::ZERO, again_until: Duration::ZERO }
    }

    fn again_until(self, time: Duration) -> Self {
        Self { again_until: time, ..self }
    }

    fn tokens(&self) -> usize {
        self.texts * self.len
    }

    fn took(&self) -> Duration {
        self.done - self.arrival
    }
}

/// A batch that ran.
#[derive(Debug)]
struct Ran {
    level: Level,
    begin: Duration,
    end: Duration,
    /// Without what interrupted it.
    time: Duration,
    owners: Vec<usize>,
}

struct Simulation {
    queue: Queue,
    now: Duration,
    requests: Vec<Request>,
    /// Requests that have not arrived, by their time.
    coming: VecDeque<usize>,
    owners: Vec<usize>,
    answers: Vec<Receiver<Reply>>,
    /// Batches that are ready, by level.
    slots: BTreeMap<Level, Vec<Entry>>,
    ran: Vec<Ran>,
    next_token: u32,
    /// Time of a token.
    token: Duration,
}

impl Simulation {
    fn new(max_batch_time: Duration, interrupting: Option<InterruptPolicy>, requests: Vec<Request>) -> Self {
        Self::with_pace(TOKEN, max_batch_time, interrupting, requests)
    }

    /// A simulation in which a token takes so long.
    fn with_pace(
        token: Duration,
        max_batch_time: Duration,
        interrupting: Option<InterruptPolicy>,
        mut requests: Vec<Request>,
    ) -> Self {
        let budget = Budget { max_tokens: 16_384, max_ragged_tokens: 131_072, max_sequences: 10_000 };
        let (scheduling, folding, attention) = (Scheduling::Prefix, Some(Folding::Prefix), AttentionRows::Compact);
        let mut queue = Queue::new(Policy { budget, scheduling, folding, attention, quantum: QUANTUM }, interrupting);
        let mut costs = SubModelCosts::new(SubModelMap::default(), 1);
        costs.observe(0, Work { rows: 1_000_000, pairs: 0 }, token * 1_000_000);
        queue.set_costs(costs.bound(Some(max_batch_time)));
        requests.sort_by_key(|request| request.arrival);
        let coming = (0..requests.len()).collect();
        let (owners, answers, slots, ran) = (vec![], vec![], BTreeMap::new(), vec![]);
        Self { queue, now: Duration::ZERO, requests, coming, owners, answers, slots, ran, next_token: 0, token }
    }

    fn run(mut self) -> Self {
        loop {
            self.plan();
            match self.slots.pop_last() {
                Some((level, batch)) => self.compute(level, false, batch),
                None => match self.coming.front() {
                    Some(&next) => self.now = self.now.max(self.requests[next].arrival),
                    None => break,
                },
            }
        }
        assert!(self.queue.is_empty() && self.requests.iter().all(|request| request.left == 0));
        self
    }

    /// Runs a batch from a slot; another one that is ready interrupts it at each yield point.
    fn compute(&mut self, level: Level, interrupts: bool, batch: Vec<Entry>) {
        let id = self.queue.close_batch(level, interrupts);
        let tokens: usize = batch.iter().map(|entry| entry.tokens.len()).sum();
        let (begin, time) = (self.now, OVERHEAD + self.token * tokens as u32);
        let mut left = time;
        while !left.is_zero() {
            let step = left.min(MS);
            self.now += step;
            left -= step;
            if !interrupts {
                self.queue.repay(step);
            }
            self.plan();
            while !left.is_zero()
                && let Some(slot) = self.slots.last_entry().filter(|slot| *slot.key() > level)
            {
                let (level, batch) = slot.remove_entry();
                self.compute(level, true, batch);
                self.plan();
            }
        }
        self.queue.finish_batch(id, Some(time));
        let owners: Vec<usize> = batch.iter().map(|entry| self.owners[entry.ticket as usize]).collect();
        for &owner in &owners {
            self.requests[owner].left -= 1;
            self.requests[owner].done = self.now;
            if self.requests[owner].left == 0 && self.now < self.requests[owner].again_until {
                let Request { flow, texts, len, again_until, .. } = self.requests[owner];
                // When the next batch has begun.
                let arrival = self.now + 2 * MS;
                self.coming.push_back(self.requests.len());
                self.requests.push(Request::new(flow.account.0, texts, len, arrival).again_until(again_until));
            }
        }
        self.ran.push(Ran { level, begin, end: self.now, time, owners });
    }

    /// Requests arrive, and batches form.
    fn plan(&mut self) {
        while let Some(next) = self.coming.pop_front_if(|next| self.requests[*next].arrival <= self.now) {
            self.arrive(next);
        }
        for level in Level::INTERRUPTING {
            let entries = self.queue.take_interrupting(level);
            if !entries.is_empty() {
                self.slots.entry(level).or_default().extend(entries);
            }
        }
        let mut entries = self.queue.take();
        let mut batch = self.slots.remove(&Level::Bulk).unwrap_or_default();
        if self.queue.is_outdated() {
            batch.append(&mut entries);
            self.queue.give_back(std::mem::take(&mut batch));
            entries = self.queue.take();
        }
        batch.extend(entries);
        if !batch.is_empty() {
            self.slots.insert(Level::Bulk, batch);
        }
    }

    fn arrive(&mut self, number: usize) {
        let Request { flow, texts, len, .. } = self.requests[number];
        let entries: Vec<Entry> = (0..texts)
            .map(|_| {
                self.next_token += 1;
                let ids: Vec<u32> = std::iter::repeat_n(self.next_token, len).collect();
                let (entry, answer) = Entry::new(ids, Outputs::EMBEDDING, Trace::default());
                self.answers.push(answer);
                self.owners.push(number);
                entry
            })
            .collect();
        self.queue.push(entries, flow, None);
    }

    /// Compute time of batches of some levels in a time.
    fn computed(&self, levels: &[Level], from: Duration, to: Duration) -> Duration {
        // A batch counts whole where it overlaps: it has one time alone.
        let counted = self.ran.iter().filter(|ran| levels.contains(&ran.level) && ran.begin < to && ran.end > from);
        counted.map(|ran| ran.time).sum()
    }
}

/// The longest time of a request of this many tokens.
fn slowest(simulation: &Simulation, tokens: usize) -> Duration {
    simulation.requests.iter().filter(|request| request.tokens() == tokens).map(Request::took).max().unwrap()
}

/// Clients that each send `count` requests of `texts` texts with 60 tokens, all at once.
fn bulk(account: u32, clients: usize, texts: usize) -> Vec<Request> {
    (0..clients).map(|_| Request::new(account, texts, 60, Duration::ZERO)).collect()
}

#[test]
fn a_query_waits_for_a_yield_point_and_not_for_batches() {
    for (accounts, clients) in [([0, 0], 2), ([0, 0], 16), ([1, 0], 2), ([1, 0], 16)] {
        let mut requests = bulk(accounts[0], clients, 4000 / clients);
        requests.extend((1..9).map(|n| Request::new(accounts[1], 1, 10, 500 * MS * n + n * MS / 7)));
        let whole = Simulation::new(2000 * MS, None, requests.clone()).run();
        assert!(slowest(&whole, 10) > 100 * MS, "{:?}: what it is for", slowest(&whole, 10));
        let found = Simulation::new(2000 * MS, Some(LIMITS), requests).run();
        // The yield point, and its own time.
        assert!(slowest(&found, 10) <= 3 * MS, "{accounts:?} {clients}: {:?}", slowest(&found, 10));
        assert_eq!(found.ran.iter().filter(|ran| ran.level == Level::Urgent).count(), 8);
    }
}

#[test]
fn a_longer_request_that_is_due_interrupts_and_is_interrupted() {
    let mut requests = bulk(0, 2, 2000);
    // 20 pairs of 150 tokens: 60 ms.
    requests.push(Request::new(0, 20, 150, 1000 * MS));
    requests.push(Request::new(0, 1, 10, 1030 * MS));
    let found = Simulation::new(2000 * MS, Some(LIMITS), requests).run();
    let own = OVERHEAD + TOKEN * 3000;
    assert!(slowest(&found, 3000) <= own + 5 * MS, "{:?}", slowest(&found, 3000));
    assert!(slowest(&found, 10) <= 3 * MS, "{:?}", slowest(&found, 10));
    let levels: Vec<Level> = found.ran.iter().map(|ran| ran.level).filter(|level| *level > Level::Bulk).collect();
    assert_eq!(levels, [Level::Urgent, Level::Due], "the urgent one ends first");
}

#[test]
fn requests_of_the_same_size_do_not_interrupt_others_of_their_account_or_batches_that_are_no_turn() {
    let mut requests = bulk(0, 2, 500);
    requests.extend((1..9).map(|n| Request::new(0, 400, 60, 100 * MS * n)));
    let found = Simulation::new(2000 * MS, Some(LIMITS), requests.clone()).run();
    assert!(found.ran.iter().all(|ran| ran.level == Level::Bulk));
    requests.iter_mut().zip(0..).for_each(|(request, n)| request.flow.account = Account(n % 3));
    let found = Simulation::new(90 * MS, Some(LIMITS), requests).run();
    assert!(found.ran.iter().all(|ran| ran.level == Level::Bulk));
}

#[test]
fn an_account_with_few_requests_in_flight_gets_as_much_as_one_with_many() {
    // Batches take 0.3 s and 3 s, and debts permit eleven requests and one.
    for (token, end) in [(TOKEN, 30_000 * MS), (TOKEN * 10, 120_000 * MS)] {
        let client = |account| Request::new(account, 100, 45, Duration::ZERO).again_until(end);
        let requests: Vec<Request> = std::iter::repeat_n(client(1), 20).chain([client(2), client(2)]).collect();
        let ratio = |policy| {
            let found = Simulation::with_pace(token, 4000 * MS, policy, requests.clone()).run();
            let is_of = |it: &&Request, account| it.flow.account == Account(account) && it.done < end;
            let of = |account| found.requests.iter().filter(|it| is_of(it, account)).count();
            of(1) as f64 / of(2) as f64
        };
        let [whole, found] = [None, Some(LIMITS)].map(ratio);
        // Batches of several accounts are short, so that longer requests take turns there too.
        assert!(whole > if token == TOKEN { 1.5 } else { 0.9 }, "{whole}");
        assert!((0.9..1.1).contains(&found), "{found}, {whole} in whole batches");
    }
}

#[test]
fn accounts_share_alike_where_all_that_waits_fits_a_batch() {
    // A batch with all of it takes half a second.
    let end = 30_000 * MS;
    let client = |account| Request::new(account, 10, 27, Duration::ZERO).again_until(end);
    let requests: Vec<Request> = std::iter::repeat_n(client(1), 16).chain([client(2), client(2)]).collect();
    let found = Simulation::with_pace(TOKEN * 5, 10_000 * MS, Some(LIMITS), requests).run();
    let is_of = |it: &&Request, account| it.flow.account == Account(account) && it.done < end;
    let of = |account| found.requests.iter().filter(|it| is_of(it, account)).count();
    let ratio = of(1) as f64 / of(2) as f64;
    assert!((0.8..1.25).contains(&ratio), "{ratio}: {} and {}", of(1), of(2));
}

#[test]
fn an_account_that_never_ceases_leaves_half_of_the_time() {
    // As much as the backend can do, and more.
    let mut requests = bulk(1, 1, 5000);
    requests.extend((0..4000).map(|n| Request::new(2, 1, 50, MS * n)));
    let found = Simulation::new(2000 * MS, Some(LIMITS), requests).run();
    let end =
        found.requests.iter().filter(|request| request.flow.account == Account(1)).map(|it| it.done).max().unwrap();
    let own = TOKEN * 60 * 5000;
    assert!(end <= 2 * own + Duration::from_secs(1) + 200 * MS, "{end:?} for {own:?}");
}

#[test]
fn a_blocked_request_is_told_when_to_look_again() {
    let mut requests = bulk(1, 1, 5000);
    requests.extend((1..300).map(|n| Request::new(2, 1, 50, MS * n)));
    let mut simulation = Simulation::new(2000 * MS, Some(LIMITS), requests);
    simulation.plan();
    let bulk = simulation.slots.remove(&Level::Bulk).unwrap();
    let id = simulation.queue.close_batch(Level::Bulk, false);
    simulation.queue.interrupting.as_mut().unwrap().debts.borrow(Account(2), Duration::from_secs(2));
    simulation.now = MS;
    simulation.plan();
    assert!(simulation.slots.keys().all(|level| *level == Level::Bulk), "neither urgent nor behind the bulk batch");
    let wait = simulation.queue.blocked_for().unwrap();
    assert!(wait > 900 * MS, "{wait:?}");
    let other = simulation.requests.len();
    simulation.requests.push(Request::new(3, 1, 10, 2 * MS));
    simulation.arrive(other);
    assert_eq!(simulation.queue.take_interrupting(Level::Urgent).len(), 1, "another account does not wait for it");
    simulation.queue.repay(wait);
    assert_eq!(simulation.queue.blocked_for(), None);
    simulation.plan();
    assert!(simulation.slots.contains_key(&Level::Urgent));
    drop((bulk, id));
}

#[test]
fn a_cancelled_request_does_not_interrupt() {
    let mut requests = bulk(0, 1, 2000);
    requests.push(Request::new(0, 1, 10, MS));
    let mut simulation = Simulation::new(2000 * MS, Some(LIMITS), requests);
    simulation.plan();
    simulation.slots.clear();
    simulation.queue.close_batch(Level::Bulk, false);
    simulation.arrive(1);
    simulation.coming.clear();
    simulation.answers.pop();
    assert!(simulation.queue.take_interrupting(Level::Urgent).is_empty());
    assert_eq!(simulation.queue.blocked_for(), None);
}

#[test]
fn a_short_request_is_not_seated_beside_a_long_one() {
    // All at once, so that one batch could take them.
    let mut requests = bulk(0, 1, 3000);
    requests.push(Request::new(0, 1, 10, Duration::ZERO));
    let found = Simulation::new(2000 * MS, Some(LIMITS), requests).run();
    assert!(slowest(&found, 10) <= Duration::from_millis(60), "{:?}", slowest(&found, 10));
}

/// Accounts, texts, their length and the pause before each request.
fn histories() -> impl Strategy<Value = Vec<Request>> {
    let size = prop_oneof![
        4 => (1usize..3, 5usize..60),
        2 => (5usize..40, 20usize..200),
        1 => (100usize..500, 20usize..100),
        1 => (1usize..3, 2000usize..8000),
    ];
    prop::collection::vec((0u32..3, size, 0u64..300), 1..60).prop_map(|requests| {
        let mut now = Duration::ZERO;
        let mut request = |(account, (texts, len), pause): (u32, (usize, usize), u64)| {
            now += MS * pause as u32;
            Request::new(account, texts, len, now)
        };
        requests.into_iter().map(&mut request).collect()
    })
}

/// Maximum requests that are open at once while one waits.
fn most_open(simulation: &Simulation, request: &Request) -> usize {
    let open_at =
        |time: Duration| simulation.requests.iter().filter(|other| other.arrival <= time && time < other.done).count();
    let times = simulation.requests.iter().map(|other| other.arrival).filter(|time| *time <= request.done);
    times.filter(|time| *time >= request.arrival).map(open_at).max().unwrap_or(1)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// The bound of docs/architecture.md: what whole batches allow, and the urgent work that debts permit.
    #[test]
    fn a_request_is_done_within_its_share_and_the_urgent_work(requests in histories()) {
        let max_batch = 1000 * MS;
        let simulation = Simulation::new(max_batch, Some(LIMITS), requests).run();
        let interrupting = [Level::Due, Level::Urgent];
        for request in &simulation.requests {
            let (from, to) = (request.arrival, request.done);
            let urgent = simulation.computed(&interrupting, from, to);
            let bulk = simulation.computed(&[Level::Bulk], from, to);
            // Each account may have borrowed a second, and the rest of a batch.
            prop_assert!(urgent <= 3 * (bulk + Duration::from_secs(1) + 2 * max_batch), "{urgent:?} {bulk:?}");
            let open = most_open(&simulation, request) as u32;
            let size = TOKEN * request.tokens().max(QUANTUM) as u32;
            let bound = 4 * open * (size + OVERHEAD) + 2 * (max_batch + OVERHEAD) + urgent;
            prop_assert!(request.took() <= bound, "{:?} > {bound:?}: {open} open, {request:?}", request.took());
        }
    }

    /// No account has more urgent time than interrupted batches have computed, plus its second and its last batch.
    #[test]
    fn interrupted_batches_keep_their_half(requests in histories()) {
        let simulation = Simulation::new(1000 * MS, Some(LIMITS), requests).run();
        let of = |ran: &Ran, account: u32| {
            ran.owners.iter().any(|owner| simulation.requests[*owner].flow.account == Account(account))
        };
        let (bulk, urgent): (Vec<&Ran>, Vec<&Ran>) = simulation.ran.iter().partition(|ran| ran.level == Level::Bulk);
        let bulk: Duration = bulk.iter().map(|ran| ran.time).sum();
        let longest = urgent.iter().map(|ran| ran.time).max().unwrap_or_default();
        for account in 0..3 {
            // Batches of one account alone: others are shared.
            let own: Duration = urgent
                .iter()
                .filter(|ran| of(ran, account) && (0..3).all(|other| other == account || !of(ran, other)))
                .map(|ran| ran.time)
                .sum();
            prop_assert!(own <= bulk + Duration::from_secs(1) + 2 * longest, "{own:?} {bulk:?}");
        }
    }
}
