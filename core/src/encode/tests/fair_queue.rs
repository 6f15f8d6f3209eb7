use super::*;
use crate::encode::request_turns::SHORT;
use proptest::prelude::*;

const LONG: u64 = 300 << 10;
const ONE: Account = Account(1);
const OTHER: Account = Account(2);

/// Runs the item that is next to its end; `next` is the cost of its request's next item.
fn run(queue: &mut FairQueue<char>, next: Option<u64>) -> char {
    let turn = queue.take().unwrap();
    if let Some(cost) = next {
        queue.push_next(&turn, cost);
    }
    queue.done(&turn);
    turn.request
}

#[test]
fn requests_take_turns_by_bytes() {
    let mut queue = FairQueue::new(1);
    queue.push(ONE, 'a', LONG);
    queue.push(ONE, 'b', LONG);
    let order: String = (0..6).map(|_| run(&mut queue, Some(LONG))).collect();
    assert_eq!(order, "ababab");

    let mut queue = FairQueue::new(1);
    queue.push(ONE, 'a', 1000);
    queue.push(ONE, 'b', 100);
    let mut bytes = [0u64; 2];
    for _ in 0..1100 {
        let turn = queue.take().unwrap();
        let cost = if turn.request == 'a' { 1000 } else { 100 };
        bytes[usize::from(turn.request == 'b')] += cost;
        queue.push_next(&turn, cost);
        queue.done(&turn);
    }
    assert!(bytes[0].abs_diff(bytes[1]) <= 2000, "{bytes:?}");
}

#[test]
fn a_new_small_request_is_next_whatever_waits() {
    for cost in [10, 1000, LONG] {
        let mut queue = FairQueue::new(1);
        for request in 'a'..='j' {
            queue.push(ONE, request, cost);
        }
        for _ in 0..37 {
            run(&mut queue, Some(cost));
        }
        queue.push(ONE, 'z', 5);
        let waited = (0..).take_while(|_| run(&mut queue, Some(cost)) != 'z').count();
        assert!(waited <= usize::from(cost < LONG), "{waited} items of {cost} bytes came first");
    }
}

#[test]
fn a_stream_of_small_requests_does_not_keep_a_large_one_waiting() {
    let mut queue = FairQueue::new(1);
    queue.push(ONE, 'z', LONG);
    let before = (0..).take_while(|_| {
        queue.push(ONE, 'a', 1000);
        run(&mut queue, None) != 'z'
    });
    let before = before.count() as u64;
    assert!(before * 1000 <= 3 * LONG, "{before} small ones came first");
}

#[test]
fn a_short_item_does_not_wait_for_long_ones_that_run() {
    let mut queue = FairQueue::new(2);
    for request in ['a', 'b', 'c'] {
        queue.push(ONE, request, LONG);
    }
    let long = [queue.take().unwrap(), queue.take().unwrap()];
    assert_eq!(queue.take(), None, "as many run as there are workers");
    queue.push(ONE, 'd', 5);
    queue.push(ONE, 'e', 5);
    let short = queue.take().unwrap();
    assert_eq!(short.request, 'd');
    assert_eq!(queue.take(), None, "one more than the workers at most");
    queue.done(&short);
    let short = queue.take().unwrap();
    assert_eq!(short.request, 'e');
    queue.done(&short);
    for turn in &long {
        queue.done(turn);
    }
    let turns = [queue.take().unwrap().request];
    assert_eq!((turns, queue.take()), (['c'], None));
}

#[test]
fn a_short_item_of_an_account_that_has_little_is_next_whatever_another_has() {
    let mut queue = FairQueue::new(1);
    for request in 'a'..='z' {
        queue.push(ONE, request, 1000);
    }
    for _ in 0..40 {
        run(&mut queue, Some(1000));
        // Without a pause between its requests.
        queue.push(OTHER, '!', 5);
        assert_eq!(run(&mut queue, None), '!');
    }
}

#[test]
fn a_query_of_a_heavy_account_is_not_held_up_by_long_items() {
    let mut queue = FairQueue::new(1);
    queue.push(ONE, 'a', LONG);
    queue.push(OTHER, 'b', LONG);
    let first = queue.take().unwrap();
    assert_eq!(first.request, 'a');
    queue.push_next(&first, LONG);
    queue.push(ONE, 'q', 5);
    let query = queue.take().unwrap();
    assert_eq!(query.request, 'q', "on the worker for short items, out of turn");
    queue.done(&query);
    queue.done(&first);
    assert_eq!(run(&mut queue, None), 'b');
}

#[test]
fn long_items_at_work_have_few_bytes_and_are_not_overtaken() {
    let mut queue = FairQueue::new(8);
    let part = MAX_AT_WORK / 4;
    queue.push(ONE, 'a', 3 * part);
    queue.push(OTHER, 'b', 2 * part);
    queue.push(Account(3), 'c', part);
    let first = queue.take().unwrap();
    assert_eq!((first.request, queue.take()), ('a', None), "b is next and does not fit, c waits behind it");
    queue.push(Account(4), 'q', SHORT);
    let query = queue.take().unwrap();
    assert_eq!(query.request, 'q');
    queue.done(&first);
    let both = [queue.take().unwrap(), queue.take().unwrap()];
    assert_eq!(both.each_ref().map(|turn| turn.request), ['b', 'c']);
    queue.push(ONE, 'x', 100 * MAX_AT_WORK);
    assert_eq!(queue.take(), None);
    both.iter().chain([&query]).for_each(|turn| queue.done(turn));
    assert_eq!(run(&mut queue, None), 'x', "one of any size runs alone");
}

#[test]
fn accounts_without_work_are_forgotten() {
    let mut queue = FairQueue::new(2);
    for account in 1..=100 {
        queue.push(Account(account), 'a', LONG);
    }
    let turn = queue.take().unwrap();
    queue.done(&turn);
    while queue.order.len() > 1 {
        run(&mut queue, None);
    }
    assert!(queue.accounts.len() > 1, "they have had more than the one that waits");
    run(&mut queue, None);
    assert!(queue.accounts.is_empty() && queue.ahead.is_empty(), "{queue:?}");
}

proptest! {
    /// Two accounts that always have work, of any number of requests with items of any size and speed, on any number of workers:
    /// each has half of the bytes, to within what may be at work and short items that others let pass.
    #[test]
    fn accounts_have_equal_shares_of_the_bytes(
        workers in 1usize..5,
        connections in [1usize..30, 1usize..30],
        costs in [prop::collection::vec(1u64..2 << 20, 1..8), prop::collection::vec(1u64..200 << 10, 1..8)],
        items in 1usize..6,
        seed in any::<u64>(),
    ) {
        let accounts = [ONE, OTHER];
        let mut queue = FairQueue::new(workers);
        let (mut random, mut begun) = (seed, 0);
        let mut next = |limit: usize| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as usize % limit
        };
        let mut cost = |which: usize| {
            begun += 1;
            costs[which][begun % costs[which].len()]
        };
        for (which, &account) in accounts.iter().enumerate() {
            for _ in 0..connections[which] {
                queue.push(account, (which, items), cost(which));
            }
        }
        let (mut bytes, mut running) = ([0u64; 2], Vec::new());
        let longest = costs.iter().flatten().copied().max().unwrap();
        let slack = (workers as u64 + 2) * longest + MAX_AHEAD;
        for _ in 0..2000 {
            while let Some(turn) = queue.take() {
                let (which, left) = turn.request;
                prop_assert_eq!(turn.account, accounts[which]);
                bytes[which] += turn.cost;
                // Its client sends the next request as soon as this one is done.
                match left {
                    0 => queue.push(turn.account, (which, items), cost(which)),
                    _ => queue.push_next(&turn.with_request((which, left - 1)), cost(which)),
                }
                running.push(turn);
            }
            prop_assert!(!running.is_empty(), "as long as anything waits, something runs");
            let turn = running.swap_remove(next(running.len()));
            queue.done(&turn);
            prop_assert!(bytes[0].abs_diff(bytes[1]) <= slack, "{:?}", bytes);
        }
    }
}
