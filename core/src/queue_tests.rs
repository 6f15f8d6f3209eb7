use super::*;
use proptest::prelude::*;

fn push(queue: &mut Queue, len: usize, first: u32) -> oneshot::Receiver<Reply> {
    let (entry, answer) = Entry::new((first..).take(len).collect(), Wanted::Pooled);
    queue.push(entry);
    answer
}

#[test]
fn oldest_leads_and_nobody_overtakes() {
    let mut queue = Queue::default();
    let _answers: Vec<_> = [5, 6, 1].map(|len| push(&mut queue, len, 0)).into();
    let budget = Budget { max_tokens: 10, max_sequences: 10 };
    let lens = |taken: Vec<Entry>| taken.iter().map(|entry| entry.input_ids.len()).collect::<Vec<_>>();
    assert_eq!(lens(queue.take(budget.room(0, 0))), [5], "6 does not fit beside 5, and 1 waits behind it");
    assert_eq!(lens(queue.take(budget.room(5, 1))), [0; 0], "6 does not fit a batch with 5 tokens in it");
    assert_eq!(lens(queue.take(budget.room(4, 1))), [6], "it fits beside 4; then the batch is full");
    assert_eq!(lens(queue.take(budget.room(9, 1))), [1]);
}

#[test]
fn a_sequence_longer_than_the_budget_goes_alone() {
    let mut queue = Queue::default();
    let _answers: Vec<_> = [50, 1].map(|len| push(&mut queue, len, 0)).into();
    let budget = Budget { max_tokens: 10, max_sequences: 10 };
    assert_eq!(queue.take(budget.room(0, 0)).len(), 1);
    assert_eq!(queue.take(budget.room(0, 0)).len(), 1);
}

#[test]
fn sweep_drops_cancelled_entries_anywhere() {
    let mut queue = Queue::default();
    let mut answers: Vec<_> = [3, 4, 5].map(|len| push(&mut queue, len, 0)).into();
    answers.remove(1);
    assert_eq!((queue.len(), queue.tokens()), (3, 12));
    queue.sweep();
    assert_eq!((queue.len(), queue.tokens()), (2, 8));
}

proptest! {
    #[test]
    fn batches_keep_the_budget_and_the_order(
        lens in prop::collection::vec((1usize..20, prop::bool::weighted(0.2)), 0..60),
        max_tokens in 20usize..60,
        max_sequences in 1usize..8,
    ) {
        let mut queue = Queue::default();
        let budget = Budget { max_tokens, max_sequences };
        let mut answers = Vec::new();
        let mut live = VecDeque::new();
        for (index, (len, cancelled)) in lens.into_iter().enumerate() {
            let answer = push(&mut queue, len, index as u32 * 100);
            if !cancelled {
                answers.push(answer);
                live.push_back((index as u32 * 100, len));
            }
        }
        while !live.is_empty() {
            let batch = queue.take(budget.room(0, 0));
            prop_assert!(!batch.is_empty(), "whatever waits is taken");
            let tokens: usize = batch.iter().map(|entry| entry.input_ids.len()).sum();
            prop_assert!(tokens <= max_tokens && batch.len() <= max_sequences);
            let taken: Vec<_> = batch.iter().map(|entry| (entry.input_ids[0], entry.input_ids.len())).collect();
            let in_order: Vec<_> = live.drain(..batch.len()).collect();
            prop_assert_eq!(taken, in_order);
            if let Some((_, next)) = live.front() {
                prop_assert!(tokens + next > max_tokens || batch.len() == max_sequences, "the batch is full");
            }
        }
        prop_assert!(queue.take(budget.room(0, 0)).is_empty());
        prop_assert_eq!((queue.len(), queue.tokens()), (0, 0));
    }
}
