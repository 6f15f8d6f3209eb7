use super::*;
use crate::backend::SubModelMap;
use crate::flow::Priority;
use crate::outputs::Outputs;
use crate::schedule::budget::{AttentionRows, Budget};
use crate::schedule::entry::Reply;
use crate::schedule::fit::MAX_PASSED_OVER;
use crate::schedule::simulation::unique_tokens;
use crate::schedule::sub_model_costs::SubModelCosts;
use crate::schedule::work::Work;
use crate::trace::Trace;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::sync::oneshot;

fn queue(scheduling: Scheduling, max_tokens: usize, max_sequences: usize) -> Queue {
    queue_within(budget(max_tokens, 4 * max_tokens, max_sequences), scheduling, Some(Folding::Prefix))
}

fn budget(max_tokens: usize, max_ragged_tokens: usize, max_sequences: usize) -> Budget {
    Budget { max_tokens, max_ragged_tokens, max_sequences }
}

fn queue_within(budget: Budget, scheduling: Scheduling, folding: Option<Folding>) -> Queue {
    Queue::new(Policy { budget, scheduling, folding, attention: AttentionRows::Compact, quantum: 512 }, None)
}

fn push(queue: &mut Queue, ids: &[u32]) -> oneshot::Receiver<Reply> {
    push_request(queue, &[ids]).remove(0)
}

fn push_request(queue: &mut Queue, texts: &[&[u32]]) -> Vec<oneshot::Receiver<Reply>> {
    let (entries, answers): (Vec<_>, Vec<_>) =
        texts.iter().map(|ids| Entry::new(ids.to_vec(), Outputs::EMBEDDING, Trace::default())).unzip();
    queue.push(entries, Flow::default(), None);
    answers
}

fn ids(entries: &[Entry]) -> Vec<Vec<u32>> {
    entries.iter().map(|entry| entry.tokens.input_ids().to_vec()).collect()
}

/// The batches that leave when nothing more comes.
fn batches(queue: &mut Queue) -> Vec<Vec<Vec<u32>>> {
    let mut batches = Vec::new();
    while !queue.is_empty() {
        batches.push(ids(&queue.take()));
        queue.complete_batch();
    }
    batches
}

#[test]
fn fifo_lets_nobody_overtake() {
    let mut queue = queue(Scheduling::Fifo, 10, 10);
    let texts: [&[u32]; 4] = [&[1; 5], &[2; 6], &[3], &[1; 5]];
    let _answers = texts.map(|ids| push(&mut queue, ids));
    assert_eq!(ids(&queue.take()), [[1; 5]], "6 tokens do not fit after 5, and the following entries wait");
    let _late = push(&mut queue, &[1; 5]);
    assert_eq!(queue.take().len(), 0, "not even what costs nothing");
    queue.complete_batch();
    assert_eq!(batches(&mut queue), [vec![vec![2; 6], vec![3]], vec![vec![1; 5], vec![1; 5]]]);
}

#[test]
fn shared_prefixes_count_once_and_up_to_the_second_bound() {
    for scheduling in [Scheduling::Fifo, Scheduling::Prefix] {
        let mut queue = queue(scheduling, 10, 100);
        // 8 + 2 new tokens fill the batch; the repeats add none, until there are 40 tokens in all.
        let _answers: Vec<_> = [[1, 2, 3, 4, 5, 6, 7, 8], [1, 2, 3, 4, 5, 6, 9, 9]]
            .iter()
            .cycle()
            .take(9)
            .map(|ids| push(&mut queue, ids))
            .collect();
        assert_eq!(batches(&mut queue).iter().map(Vec::len).collect::<Vec<_>>(), [5, 4], "{scheduling:?}");
    }
    let budget = budget(10, 40, 100);
    let mut queue = queue_within(budget, Scheduling::Fifo, None);
    let _answers = [[7; 6]; 2].map(|ids| push(&mut queue, &ids));
    assert_eq!(batches(&mut queue).len(), 2, "nothing is shared where nothing is compacted");
}

#[test]
fn where_equal_sequences_are_folded_a_common_prefix_counts_for_each() {
    let texts: [&[u32]; 5] = [&[1, 2, 3, 4], &[1, 2, 3, 5], &[9, 9, 9], &[1, 2, 3, 4], &[1, 2, 3]];
    for (scheduling, expected) in [(Scheduling::Fifo, vec![2, 2, 1]), (Scheduling::Prefix, vec![3, 2])] {
        let budget = budget(8, 100, 100);
        let mut queue = queue_within(budget, scheduling, Some(Folding::Whole));
        let _answers = texts.map(|ids| push(&mut queue, ids));
        let found = batches(&mut queue);
        assert_eq!(found.iter().map(Vec::len).collect::<Vec<_>>(), expected, "{scheduling:?}: {found:?}");
    }
    // Another answer is another sequence: only what is asked for is answered.
    let budget = budget(8, 100, 100);
    let mut queue = queue_within(budget, Scheduling::Prefix, Some(Folding::Whole));
    let wanted = [Outputs::EMBEDDING, Outputs::TOKENS, Outputs::EMBEDDING, Outputs::TOKENS, Outputs::EMBEDDING];
    let (entries, _answers): (Vec<_>, Vec<_>) =
        wanted.map(|wanted| Entry::new(vec![1, 2, 3, 4, 5], wanted, Trace::default())).into_iter().unzip();
    queue.push(entries, Flow::default(), None);
    let wanted: Vec<Vec<Outputs>> = std::iter::from_fn(|| {
        let batch = queue.take();
        queue.complete_batch();
        (!batch.is_empty()).then(|| batch.iter().map(|entry| entry.wanted).collect())
    })
    .collect();
    assert_eq!(wanted, [vec![Outputs::EMBEDDING; 3], vec![Outputs::TOKENS; 2]]);
}

#[test]
fn the_oldest_leads_and_those_that_share_with_it_follow() {
    let mut queue = queue(Scheduling::Prefix, 8, 100);
    let texts: [&[u32]; 6] =
        [&[1, 1, 1, 1, 1], &[2, 2, 2, 2, 2], &[1, 1, 1, 1, 3], &[2, 2, 2, 2, 3], &[1, 1, 4], &[1, 1, 1, 5]];
    let _answers = texts.map(|ids| push(&mut queue, ids));
    let expected = [[0, 2, 5, 4].map(|i| texts[i].to_vec()).to_vec(), [1, 3].map(|i| texts[i].to_vec()).to_vec()];
    assert_eq!(batches(&mut queue), expected);
}

#[test]
fn arrivals_join_those_that_they_share_with() {
    let mut queue = queue(Scheduling::Prefix, 6, 100);
    let _first = [push(&mut queue, &[1, 1, 1, 1]), push(&mut queue, &[2, 2, 2, 2])];
    assert_eq!(ids(&queue.take()), [[1, 1, 1, 1]]);
    let _second = [push(&mut queue, &[3, 3, 3]), push(&mut queue, &[1, 1, 1, 2]), push(&mut queue, &[1, 1, 1, 3])];
    assert_eq!(ids(&queue.take()), [[1, 1, 1, 2], [1, 1, 1, 3]], "one new token each");
    let _third = push(&mut queue, &[1, 1]);
    assert_eq!(ids(&queue.take()), [[1, 1]], "it adds nothing");
    queue.complete_batch();
    assert_eq!(batches(&mut queue), [[vec![2; 4]], [vec![3; 3]]]);
}

#[test]
fn the_texts_of_one_request_stay_together() {
    let mut queue = queue(Scheduling::Prefix, 8, 100);
    let _first = push_request(&mut queue, &[&[1, 1, 1], &[2, 2]]);
    let _second = push_request(&mut queue, &[&[1, 1, 2], &[1, 1, 3], &[1, 1, 4], &[1, 1, 5]]);
    let [first, second] = batches(&mut queue).try_into().unwrap();
    assert_eq!(first, [vec![1, 1, 1], vec![2, 2], vec![1, 1, 2], vec![1, 1, 3], vec![1, 1, 4]]);
    assert_eq!(second, [[1, 1, 5]]);
}

#[test]
fn a_group_that_no_batch_can_take_whole_does_not_wait_for_one() {
    let own = |n: u32| (0..30).map(move |i| 1000 * n + i);
    let first: Vec<Vec<u32>> = [1, 2].map(|n| own(n).collect()).into();
    let second: Vec<Vec<u32>> = (3..9).map(|n| [7; 200].into_iter().chain(own(n)).collect()).collect();
    let batches_within = |max_ragged_tokens, max_sequences| {
        let budget = budget(400, max_ragged_tokens, max_sequences);
        let mut queue = queue_within(budget, Scheduling::Prefix, Some(Folding::Prefix));
        let requests = [&first, &second].map(|texts| texts.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let _answers = requests.map(|texts| push_request(&mut queue, &texts));
        batches(&mut queue).iter().map(Vec::len).collect::<Vec<_>>()
    };
    assert_eq!(batches_within(1600, 100), [2, 6], "it does where one can");
    assert_eq!(batches_within(1600, 4), [4, 4], "six texts are more than a batch has");
    assert_eq!(batches_within(1000, 100), [6, 2], "six times 230 tokens are more than a batch has");
}

#[test]
fn what_does_not_fit_is_passed_over_and_leads_in_its_turn() {
    let mut queue = queue(Scheduling::Prefix, 8, 100);
    let long = [1, 1, 1, 1, 7, 7, 7, 7, 7];
    let _answers = [push(&mut queue, &[1, 1, 1, 1]), push(&mut queue, &long), push(&mut queue, &[1, 1, 1, 2])];
    assert_eq!(batches(&mut queue), [vec![vec![1, 1, 1, 1], vec![1, 1, 1, 2]], vec![long.to_vec()]]);

    let _lead = push(&mut queue, &[1, 1, 1, 1]);
    let _long: Vec<_> = (0..=MAX_PASSED_OVER as u32).map(|i| push(&mut queue, &[1, 1, 1, 1, i, i, i, i, i])).collect();
    let _short = push(&mut queue, &[3]);
    assert_eq!(queue.take().len(), 1, "the search for what fits has an end");
    queue.complete_batch();
    assert_eq!(queue.take().len(), 1, "and none of them is lost");
}

#[test]
fn a_query_does_not_wait_for_the_job_that_it_shares_a_prompt_with() {
    let mut queue = queue(Scheduling::Prefix, 1000, 1000);
    let text = |own: u32, len: usize| [vec![7; 200], vec![own; len]].concat();
    let job: Vec<Vec<u32>> = (100..115).map(|own| text(own, 50)).collect();
    let _job = push_request(&mut queue, &job.iter().map(Vec::as_slice).collect::<Vec<_>>());
    // Due together, before the job; the prompt's texts together would fill a batch of their own.
    let queries = [vec![1; 100], text(50, 10)];
    let _answers = queries.clone().map(|ids| push(&mut queue, &ids));
    assert_eq!(ids(&queue.take())[..2], queries);
}

#[test]
fn a_large_job_is_cut_between_its_prompts() {
    // Four prompts in turn, with five texts each: 150 tokens for a prompt and its texts.
    let text = |i: u32| [vec![i % 4; 100], vec![100 + i; 10]].concat();
    let job: Vec<Vec<u32>> = (0..20).map(text).collect();
    let sizes = |max_tokens: usize, time: Option<u64>| {
        let mut queue = queue(Scheduling::Prefix, max_tokens, 1000);
        let mut costs = SubModelCosts::new(SubModelMap::default(), 1);
        costs.observe(0, Work { rows: 1_000_000, pairs: 0 }, Duration::from_secs(1));
        time.iter().for_each(|micros| queue.set_costs(costs.bound(Some(Duration::from_micros(*micros)))));
        let _answers = push_request(&mut queue, &job.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let tokens = |texts: &Vec<Vec<u32>>| unique_tokens(texts);
        batches(&mut queue).iter().map(tokens).collect::<Vec<usize>>()
    };
    assert_eq!(sizes(310, None), [300, 300]);
    assert_eq!(sizes(290, None), [150; 4], "no prompt twice");
    assert_eq!(sizes(1000, Some(290)), [150; 4], "a microsecond for each");
}

#[test]
fn a_batch_is_bounded_in_time() {
    let mut queue = queue(Scheduling::Prefix, 1000, 1000);
    let mut costs = SubModelCosts::new(SubModelMap::default(), 1);
    // A microsecond for each row, a tenth for each pair.
    for (rows, pairs) in [(1000, 0), (1000, 10_000)] {
        costs.observe(0, Work { rows, pairs }, Duration::from_nanos(rows as u64 * 1000 + pairs * 100));
    }
    queue.set_costs(costs.bound(Some(Duration::from_micros(51))));
    let _short: Vec<_> = (0..20).map(|i| push(&mut queue, &[i; 4])).collect();
    let _long = [push(&mut queue, &[30; 20]), push(&mut queue, &[31; 20])];
    let found: Vec<usize> = batches(&mut queue).iter().map(Vec::len).collect();
    assert_eq!(found, [10, 10, 1, 1], "4 rows and 10 pairs take 5 us, 20 rows and 210 pairs 41 us");
}

#[test]
fn a_prompt_that_takes_longer_than_the_bound_is_still_shared() {
    let mut costs = SubModelCosts::new(SubModelMap::default(), 1);
    costs.observe(0, Work { rows: 1_000_000, pairs: 0 }, Duration::from_secs(1));
    let sizes = |bound| {
        let mut queue = queue(Scheduling::Prefix, 1000, 1000);
        queue.set_costs(costs.bound(Some(Duration::from_micros(bound))));
        let texts: Vec<Vec<u32>> = (0..16).map(|i| [vec![1; 100], vec![100 + i; 10]].concat()).collect();
        let _answers = push_request(&mut queue, &texts.iter().map(Vec::as_slice).collect::<Vec<_>>());
        batches(&mut queue).iter().map(|texts| unique_tokens(texts)).collect::<Vec<usize>>()
    };
    assert_eq!(sizes(1000), [260]);
    assert_eq!(sizes(50), [200, 160], "a microsecond for each; twice the prompt's time");
    assert_eq!(sizes(155), [250, 110], "the bound and the prompt's time");
}

#[test]
fn those_that_add_nothing_or_no_more_than_was_saved_ride_along() {
    let mut queue = queue(Scheduling::Prefix, 4000, 1000);
    let own = |prompt: u32, text: u32, len: usize| [vec![prompt; 100], vec![1000 * prompt + text; len]].concat();
    let request = |queue: &mut Queue, prompt: u32, texts: std::ops::Range<u32>, len: usize| {
        let texts: Vec<Vec<u32>> = texts.map(|text| own(prompt, text, len)).collect();
        push_request(queue, &texts.iter().map(Vec::as_slice).collect::<Vec<_>>())
    };
    // 460 tokens, 1,700 saved; 3,800 tokens that share nothing and do not fit; then some that share with the first.
    let _first = request(&mut queue, 1, 0..18, 20);
    let _second = request(&mut queue, 2, 0..1, 3700);
    let _behind = (0..8).map(|i| request(&mut queue, 1, 12 + 30 * i..42 + 30 * i, 20)).collect::<Vec<_>>();
    let first = ids(&queue.take());
    assert_eq!(&first[18..24], &[12, 13, 14, 15, 16, 17].map(|text| own(1, text, 20)), "equal to some that are chosen");
    assert_eq!(first.len(), 24 + 85, "then 20 new tokens each");
    let payers = queue.forming.seats[24..].iter().map(|seat| seat.payer);
    assert!(payers.eq([0; 85]), "from what the first has saved");
    queue.complete_batch();
    assert_eq!(ids(&queue.take())[0], own(2, 0, 3700));
}

#[test]
fn a_sequence_longer_than_the_budget_goes_alone() {
    for scheduling in [Scheduling::Fifo, Scheduling::Prefix] {
        let mut queue = queue(scheduling, 10, 10);
        let _answers = [push(&mut queue, &[1; 50]), push(&mut queue, &[2])];
        assert_eq!(batches(&mut queue), [vec![vec![1; 50]], vec![vec![2]]]);
    }
}

#[test]
fn cancelled_entries_are_dropped_where_they_are_met_or_withdrawn() {
    let mut queue = queue(Scheduling::Prefix, 100, 100);
    let mut answers: Vec<_> = [3, 4, 5, 6].map(|len| push(&mut queue, &vec![len as u32; len])).into();
    drop(answers.drain(1..3));
    assert_eq!((queue.len(), queue.tokens()), (4, 18));
    queue.withdraw(1..2);
    assert_eq!((queue.len(), queue.tokens()), (3, 14));
    queue.withdraw(1..2);
    assert_eq!(ids(&queue.take()), [vec![3; 3], vec![6; 6]]);
    assert_eq!((queue.len(), queue.tokens()), (0, 0));
}

#[test]
fn a_cancelled_entry_is_dropped_beside_one_that_was_passed_over() {
    let mut queue = queue(Scheduling::Prefix, 8, 100);
    let long = [1, 1, 7, 7, 7, 7, 7, 7, 7];
    let _first = push(&mut queue, &[1, 1, 1]);
    let _long = push(&mut queue, &long);
    drop(push(&mut queue, &long));
    assert_eq!(batches(&mut queue), [vec![vec![1; 3]], vec![long.to_vec()]]);
}

#[derive(Debug, Clone)]
enum Step {
    /// Account, priority, whether it follows the request before, and texts.
    Push(u32, i64, bool, Vec<Vec<u32>>),
    Take,
    /// The clients of this many of the oldest requests leave, with or without a notice to the queue.
    Leave(usize, bool),
    Close,
}

fn step() -> impl Strategy<Value = Step> {
    let texts = prop::collection::vec(prop::collection::vec(0u32..3, 1..30), 1..12);
    prop_oneof![
        4 => (0u32..3, -5i64..5, any::<bool>(), texts).prop_map(|(account, priority, follows, texts)| {
            Step::Push(account, priority, follows, texts)
        }),
        5 => Just(Step::Take),
        1 => (1usize..3, any::<bool>()).prop_map(|(count, told)| Step::Leave(count, told)),
        3 => Just(Step::Close),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn nothing_is_lost_or_left_behind(
        steps in prop::collection::vec(step(), 1..60),
        max_tokens in 10usize..100,
        scheduling in prop::sample::select(vec![Scheduling::Prefix, Scheduling::Fifo]),
        folding in prop::sample::select(vec![None, Some(Folding::Prefix), Some(Folding::Whole)]),
    ) {
        let mut queue = queue_within(budget(max_tokens, 3 * max_tokens, 20), scheduling, folding);
        let (mut forming, mut served, mut requests) = (Vec::<Entry>::new(), Vec::new(), VecDeque::new());
        let mut gone = Vec::new();
        let drain = (0..400).flat_map(|_| [Step::Take, Step::Close]);
        for step in steps.into_iter().chain(drain) {
            match step {
                Step::Push(account, priority, follows, texts) => {
                    let (entries, answers): (Vec<_>, Vec<_>) =
                        texts.into_iter().map(|ids| Entry::new(ids, Outputs::EMBEDDING, Trace::default())).unzip();
                    let flow = Flow { account: Account(account), priority: Priority::new(priority) };
                    let before = requests.back().map(|(tickets, _): &(Range<Ticket>, Vec<_>)| tickets.start);
                    let tickets = queue.push(entries, flow, before.filter(|_| follows));
                    requests.push_back((tickets, answers));
                }
                Step::Take => {
                    forming.extend(queue.take());
                    if queue.is_outdated() {
                        queue.give_back(std::mem::take(&mut forming));
                        forming = queue.take();
                    }
                    prop_assert!(queue.is_empty() || !forming.is_empty() || gone.len() > served.len());
                }
                Step::Leave(count, told) => {
                    for (tickets, answers) in requests.drain(..count.min(requests.len())) {
                        drop(answers);
                        gone.extend(tickets.clone());
                        if told {
                            queue.withdraw(tickets);
                        }
                    }
                }
                Step::Close => {
                    served.extend(forming.drain(..).map(|entry| entry.ticket));
                    queue.complete_batch();
                }
            }
            let held = (0..3).map(|account| queue.held_of(Account(account)));
            let sum = held.fold([0, 0], |sum, held| [sum[0] + held[0], sum[1] + held[1]]);
            prop_assert_eq!(sum, queue.held(), "what accounts hold is all that is held");
        }
        prop_assert_eq!((queue.len(), queue.tokens()), (0, 0));
        let mut expected: Vec<Ticket> = requests.into_iter().flat_map(|(tickets, _)| tickets).collect();
        served.retain(|ticket| !gone.contains(ticket));
        served.sort_unstable();
        expected.sort_unstable();
        prop_assert_eq!(served, expected, "each is served once");
        prop_assert!(queue.shares.classes().next().is_none());
        prop_assert_eq!(format!("{:?}", queue.shares), format!("{:?}", FairShares::new(512)), "no job is left");
    }
}

proptest! {
    #[test]
    fn fifo_batches_keep_the_budget_and_the_order(
        lens in prop::collection::vec((1usize..20, prop::bool::weighted(0.2)), 0..60),
        max_tokens in 20usize..60,
        max_sequences in 1usize..8,
    ) {
        let mut queue = queue(Scheduling::Fifo, max_tokens, max_sequences);
        let mut answers = Vec::new();
        let mut live = VecDeque::new();
        for (index, (len, cancelled)) in lens.into_iter().enumerate() {
            let ids: Vec<u32> = (index as u32 * 100..).take(len).collect();
            let answer = push(&mut queue, &ids);
            if !cancelled {
                answers.push(answer);
                live.push_back(ids);
            }
        }
        while !live.is_empty() {
            let batch = ids(&queue.take());
            queue.complete_batch();
            prop_assert!(!batch.is_empty(), "whatever waits is taken");
            let tokens: usize = batch.iter().map(Vec::len).sum();
            prop_assert!(tokens <= max_tokens && batch.len() <= max_sequences);
            let in_order: Vec<_> = live.drain(..batch.len()).collect();
            prop_assert_eq!(&batch, &in_order);
            if let Some(next) = live.front() {
                prop_assert!(tokens + next.len() > max_tokens || batch.len() == max_sequences, "the batch is full");
            }
        }
        prop_assert!(queue.take().is_empty());
        prop_assert_eq!((queue.len(), queue.tokens()), (0, 0));
    }
}
