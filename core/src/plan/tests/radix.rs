//! The plan against a naive per-token trie, and the published examples.

use super::*;
use proptest::prelude::*;

#[path = "radix_check.rs"]
mod radix_check;
use radix_check::check;

fn at<'a>(ids: &'a [u32], positions: &'a [u32]) -> TokenSlice<'a> {
    TokenSlice::new(ids).with_positions(positions).unwrap()
}

fn batch_of(sequences: &[Vec<u32>]) -> RaggedBatch {
    RaggedBatch::from_sequences(sequences).unwrap()
}

#[test]
fn two_sequences_as_published() {
    let plan = RadixPlan::new(&batch_of(&[vec![1, 2, 3], vec![1, 2, 4]]), 1);
    assert_eq!(plan.gather(), [0, 1, 2, 5]);
    assert_eq!(plan.scatter(), [0, 1, 2, 0, 1, 3]);
    assert_eq!(plan.input_ids(), [1, 2, 3, 4]);
    let segment = |start, len, depth, sequence| Segment { start, len, depth, sequence };
    assert_eq!(plan.segments(), [segment(0, 2, 0, 0), segment(2, 1, 2, 0), segment(3, 1, 2, 1)]);
}

#[test]
fn shifted_positions_share_nothing_as_published() {
    let (a, b, c, d, e, f, g, h, i) = (1, 2, 3, 4, 5, 6, 7, 8, 9);
    let mut batch = batch_of(&[vec![a, b, c, d, e, f, g], vec![a, b, c]]);
    batch.push(at(&[e, f, g, h, i], &[3, 4, 5, 6, 7])).unwrap();
    let plan = RadixPlan::new(&batch, 1);
    assert_eq!((plan.unique_tokens(), plan.total_tokens()), (12, 15));
    check(&batch, 1);
}

#[test]
fn named_cases() {
    let cases: [&[Vec<u32>]; 7] = [
        &[],
        &[vec![7, 7, 7]],
        &[vec![1, 2, 3], vec![1, 2, 3], vec![1, 2, 3]],
        &[vec![1, 2], vec![1, 2, 3, 4]],
        &[vec![1, 2, 3, 4], vec![1, 2]],
        &[vec![1, 2], vec![9], vec![1, 2, 3], vec![1, 2, 3, 4]],
        &[vec![1, 2], vec![3, 4], vec![5, 6]],
    ];
    for sequences in cases {
        check(&batch_of(sequences), 1);
        check(&batch_of(sequences), 8);
    }
}

#[test]
fn equal_tokens_at_different_positions_differ() {
    let mut batch = batch_of(&[vec![1, 2, 3]]);
    batch.push(at(&[1, 2, 3], &[0, 1, 7])).unwrap();
    batch.push(at(&[1, 2, 3], &[1, 2, 3])).unwrap();
    assert_eq!(RadixPlan::new(&batch, 1).unique_tokens(), 7);
    check(&batch, 1);
}

#[test]
fn ten_thousand_sequences_of_one_token() {
    let sequences: Vec<Vec<u32>> = (0..10_000).map(|i| vec![(i * 7919) % 3001]).collect();
    check(&batch_of(&sequences), 64);
}

#[test]
fn thousands_of_branches_below_one_path_that_splits_again() {
    // The node with thousands of children is the end of an edge that later sequences cut in two.
    let mut sequences: Vec<Vec<u32>> = (0..5_000).map(|i| vec![1, 2, 3, 4, i % 2_500, i]).collect();
    sequences.extend((0..100).map(|i| vec![1, 2, i, 4, i]));
    sequences.extend((0..100).map(|i| vec![1, 2, 3, 4, i, i, i]));
    check(&batch_of(&sequences), 1);
}

#[test]
fn one_long_sequence() {
    check(&batch_of(&[(0..32_768).map(|i| i % 50_000).collect()]), 1);
}

#[test]
fn identity_plan_is_the_batch() {
    let batch = batch_of(&[vec![1, 2, 3], vec![1, 2]]);
    let plan = RadixPlan::identity(&batch);
    assert_eq!((plan.gather(), plan.scatter()), (&[0, 1, 2, 3, 4][..], &[0, 1, 2, 3, 4][..]));
    assert_eq!(plan.segments().len(), 2);
    assert_eq!(plan.input_ids(), batch.input_ids());
}

#[test]
fn a_finished_builder_starts_anew() {
    let mut builder = PlanBuilder::default();
    let ids: Vec<u32> = (0..40).collect();
    for last in 0..20 {
        builder.push(at(&[&ids[..], &[last]].concat(), &[&ids[..], &[40 + last % 2]].concat()));
    }
    let old = builder.finish(1);
    builder.recycle(old.clone());
    assert_eq!(builder.push(&[1, 2]), 2);
    builder.recycle(old);
    assert_eq!(builder.push(at(&[1, 3], &[0, 1])), 1);
    assert_eq!(builder.push(at(&[1, 3], &[0, 2])), 1);
    builder.clear();
    assert_eq!((builder.push(&[1, 2]), builder.push(&[1, 3])), (2, 1));
    assert_eq!(builder.finish(1), RadixPlan::new(&batch_of(&[vec![1, 2], vec![1, 3]]), 1));
}

#[test]
fn positions_that_are_listed_meet_positions_that_are_counted() {
    let mut batch = RaggedBatch::default();
    let mut builder = PlanBuilder::default();
    let ids: Vec<u32> = (0..40).collect();
    let shifted =
        |from: usize| -> Vec<u32> { (0..40).map(|i| if i < from { i as u32 } else { i as u32 + 1 }).collect() };
    // Counted before the first list, after it, and a list that counts.
    for positions in [None, Some(shifted(20)), None, Some(shifted(30)), Some(shifted(40)), Some(shifted(0))] {
        match positions {
            None => {
                batch.push(&ids).unwrap();
                builder.push(&ids);
            }
            Some(positions) => {
                batch.push(at(&ids, &positions)).unwrap();
                builder.push(at(&ids, &positions));
            }
        }
    }
    let plan = builder.finish(1);
    assert_eq!(plan.unique_tokens(), 40 + 20 + 10 + 40);
    assert_eq!(plan, RadixPlan::new(&batch, 1));
    check(&batch, 1);
}

#[test]
fn attention_work_is_a_node_for_each_node_on_its_path() {
    let batch = batch_of(&[vec![1, 2, 3], vec![1, 2, 4, 5], vec![9]]);
    assert_eq!(batch.attention_work(), 6 + 10 + 1);
    assert_eq!(RadixPlan::new(&batch, 8).attention_work(), 6 + 3 + 4 + 1);
    assert_eq!(RadixPlan::identity(&batch).attention_work(), batch.attention_work());
}

/// Sequences that branch off one another at random places, over a small alphabet.
fn sharing_trees() -> impl Strategy<Value = RaggedBatch> {
    let step = (any::<prop::sample::Index>(), any::<prop::sample::Index>(), prop::collection::vec(0u32..4, 0..40));
    (prop::collection::vec(step, 0..40), any::<bool>(), 0usize..4).prop_map(|(steps, shift, typed)| {
        let mut batch = RaggedBatch::default();
        let mut sequences: Vec<Vec<u32>> = vec![vec![]];
        for (from, keep, tail) in steps {
            let parent = from.get(&sequences);
            let mut sequence = parent[..keep.index(parent.len() + 1)].to_vec();
            sequence.extend(tail);
            if sequence.is_empty() {
                continue;
            }
            let start = if shift { sequence.len() as u32 % 2 } else { 0 };
            let positions: Vec<u32> = (start..).take(sequence.len()).collect();
            // Types depend on the end of the sequence, so that equal beginnings differ in them.
            let last = sequence[sequence.len() - 1] as usize;
            let types: Vec<u32> =
                (0..sequence.len()).map(|i| u32::from(typed > 1 && i % 7 == 3 && last == 1)).collect();
            batch.push(at(&sequence, &positions).with_token_types(&types).unwrap()).unwrap();
            sequences.push(sequence);
        }
        batch
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn equals_the_naive_trie(batch in sharing_trees(), multiple in 1usize..20) {
        check(&batch, multiple);
    }
}
