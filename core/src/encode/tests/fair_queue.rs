use super::*;

const LONG: u64 = 300 << 10;

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
    queue.push('a', LONG);
    queue.push('b', LONG);
    let order: String = (0..6).map(|_| run(&mut queue, Some(LONG))).collect();
    assert_eq!(order, "ababab");

    let mut queue = FairQueue::new(1);
    queue.push('a', 1000);
    queue.push('b', 100);
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
            queue.push(request, cost);
        }
        for _ in 0..37 {
            run(&mut queue, Some(cost));
        }
        queue.push('z', 5);
        let waited = (0..).take_while(|_| run(&mut queue, Some(cost)) != 'z').count();
        assert!(waited <= usize::from(cost < LONG), "{waited} items of {cost} bytes came first");
    }
}

#[test]
fn a_stream_of_small_requests_does_not_keep_a_large_one_waiting() {
    let mut queue = FairQueue::new(1);
    queue.push('z', LONG);
    let before = (0..).take_while(|_| {
        queue.push('a', 1000);
        run(&mut queue, None) != 'z'
    });
    let before = before.count() as u64;
    assert!(before * 1000 <= 3 * LONG, "{before} small ones came first");
}

#[test]
fn a_short_item_does_not_wait_for_long_ones_that_run() {
    let mut queue = FairQueue::new(2);
    for request in ['a', 'b', 'c'] {
        queue.push(request, LONG);
    }
    let long = [queue.take().unwrap(), queue.take().unwrap()];
    assert_eq!(queue.take(), None, "as many run as there are workers");
    queue.push('d', 5);
    queue.push('e', 5);
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
