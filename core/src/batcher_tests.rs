use super::*;
use crate::queue::Reply;
use crate::{RadixPlan, Wanted};
use proptest::prelude::*;
use tokio::sync::oneshot::Receiver;

fn entries(sequences: &[Vec<u32>]) -> (Vec<Entry>, Vec<Receiver<Reply>>) {
    let wanted = |i| if i % 2 == 0 { Wanted::Pooled } else { Wanted::Tokens };
    sequences.iter().enumerate().map(|(i, ids)| Entry::new(ids.clone(), wanted(i))).unzip()
}

fn form(sequences: &[Vec<u32>], compaction: Compaction) -> Batch {
    let (entries, _answers) = entries(sequences);
    let mut forming = FormingBatch::new(compaction, Buffers::default());
    forming.extend(entries);
    forming.finish().batch
}

/// `shared` tokens in common, then `own` tokens each.
fn two_sequences(shared: u32, own: u32) -> [Vec<u32>; 2] {
    [0, 1].map(|which| (0..shared).chain((0..own).map(|i| 1000 * (which + 1) + i)).collect())
}

#[test]
fn threshold_is_met_at_or_under() {
    let plan_is_some = |sequences: &[Vec<u32>], threshold| {
        form(sequences, Compaction { threshold, pad_to_multiple: 1, max_tokens: 1000 }).plan.is_some()
    };
    let shares_5_of_100 = two_sequences(5, 45);
    let shares_4_of_100 = two_sequences(4, 46);
    let shares_all = two_sequences(50, 0);
    assert!(plan_is_some(&shares_5_of_100, 0.95), "N'/N is exactly the threshold");
    assert!(!plan_is_some(&shares_4_of_100, 0.95));
    assert!(plan_is_some(&shares_4_of_100, 0.96));
    assert!(!plan_is_some(&shares_all, 0.0), "0 is never");
    assert!(plan_is_some(&two_sequences(1, 50), 1.0), "1 is whenever anything is shared");
    assert!(!plan_is_some(&two_sequences(0, 50), 1.0));
}

#[test]
fn a_plan_that_is_never_used_is_not_built() {
    let mut forming =
        FormingBatch::new(Compaction { threshold: 0.0, pad_to_multiple: 1, max_tokens: 1000 }, Buffers::default());
    let (entries, _answers) = entries(&two_sequences(5, 5));
    forming.extend(entries);
    assert_eq!((forming.len(), forming.buffers.plan.total_tokens()), (2, 0));
}

#[test]
fn the_plan_is_padded() {
    let batch = form(&two_sequences(5, 8), Compaction { threshold: 1.0, pad_to_multiple: 16, max_tokens: 1000 });
    let plan = batch.plan.expect("a plan");
    assert_eq!((plan.unique_tokens(), plan.padded_tokens()), (21, 32));
}

#[test]
fn entries_cancelled_before_the_end_are_left_out() {
    let [first, second] = two_sequences(3, 2);
    let (batch_entries, mut answers) = entries(&[first.clone(), second, first.clone()]);
    let compaction = Compaction { threshold: 1.0, pad_to_multiple: 1, max_tokens: 1000 };
    let mut forming = FormingBatch::new(compaction, Buffers::default());
    forming.extend(batch_entries);
    answers.remove(1);
    let ready = forming.finish();
    assert_eq!(ready.entries.len(), 2);
    assert_eq!(ready.batch.wanted, [Wanted::Pooled; 2]);
    assert_eq!(ready.batch.ragged.input_ids(), [first.clone(), first].concat());
    assert_eq!(ready.batch.plan, Some(RadixPlan::new(&ready.batch.ragged, 1)));
}

#[test]
fn an_empty_sequence_fails_alone() {
    let (batch_entries, mut answers) = entries(&[vec![], vec![1]]);
    let mut forming =
        FormingBatch::new(Compaction { threshold: 1.0, pad_to_multiple: 1, max_tokens: 1000 }, Buffers::default());
    forming.extend(batch_entries);
    assert_eq!(forming.len(), 1);
    assert!(matches!(answers[0].try_recv(), Ok(Err(BackendError::Contract(_)))));
    assert!(answers[1].try_recv().is_err(), "the other one still waits");
}

#[test]
fn buffers_go_from_a_batch_to_the_next() {
    let compaction = Compaction { threshold: 0.9, pad_to_multiple: 8, max_tokens: 1000 };
    let mut buffers = Buffers::default();
    let capacities = |buffers: &Buffers| {
        (buffers.ragged.input_ids().as_ptr(), buffers.ragged.cu_seqlens().as_ptr(), buffers.wanted.as_ptr())
    };
    let mut last = None;
    // With a plan, and with one that does not pay and stays in the builder.
    for sequences in [two_sequences(50, 3), two_sequences(0, 50), two_sequences(20, 2), two_sequences(20, 5)] {
        let (batch_entries, _answers) = entries(&sequences);
        let mut forming = FormingBatch::new(compaction, buffers);
        forming.extend(batch_entries);
        let ready = forming.finish();
        assert_eq!(ready.batch.ragged, RaggedBatch::from_sequences(&sequences).unwrap());
        assert_eq!(ready.batch.wanted, [Wanted::Pooled, Wanted::Tokens]);
        if let Some(plan) = &ready.batch.plan {
            assert_eq!(plan, &RadixPlan::new(&ready.batch.ragged, 8));
        }
        let (entries, rest) = ready.take_apart();
        assert_eq!(entries.len(), 2);
        assert_eq!((rest.ragged.num_sequences(), rest.plan.total_tokens(), rest.wanted.len()), (0, 0, 0));
        assert!(last.replace(capacities(&rest)).is_none_or(|last| last == capacities(&rest)), "the same memory");
        buffers = rest;
    }
}

proptest! {
    #[test]
    fn growing_a_batch_gives_the_plan_of_the_whole(
        sequences in prop::collection::vec(prop::collection::vec(0u32..3, 1..12), 1..30),
        parts in prop::collection::vec(1usize..8, 30),
    ) {
        let (mut rest, _answers) = entries(&sequences);
        let mut forming = FormingBatch::new(Compaction { threshold: 1.0, pad_to_multiple: 4, max_tokens: 1000 }, Buffers::default());
        for part in parts {
            let later = rest.split_off(part.min(rest.len()));
            forming.extend(std::mem::replace(&mut rest, later));
        }
        forming.extend(rest);
        let ready = forming.finish();
        prop_assert_eq!(ready.batch.ragged.input_ids(), sequences.concat());
        prop_assert_eq!(ready.batch.wanted.len(), sequences.len());
        let plan = RadixPlan::new(&ready.batch.ragged, 4);
        let shares = plan.unique_tokens() < plan.total_tokens();
        prop_assert_eq!(ready.batch.plan, shares.then_some(plan));
    }
}
