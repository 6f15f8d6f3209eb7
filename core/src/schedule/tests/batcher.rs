use super::*;
use crate::outputs::Outputs;
use crate::plan::ragged::RaggedBatch;
use crate::plan::tokens::{Scope, TaskId, Tokens};
use crate::schedule::entry::Reply;
use crate::trace::Trace;
use proptest::prelude::*;
use tokio::sync::oneshot::Receiver;

fn entries(sequences: &[Vec<u32>]) -> (Vec<Entry>, Vec<Receiver<Reply>>) {
    let wanted = |i| if i % 2 == 0 { Outputs::EMBEDDING } else { Outputs::TOKENS };
    sequences.iter().enumerate().map(|(i, ids)| Entry::new(ids.clone(), wanted(i), Trace::default())).unzip()
}

fn form(sequences: &[Vec<u32>], compaction: Compaction) -> ReadyBatch {
    let (entries, _answers) = entries(sequences);
    let mut forming = FormingBatch::new(compaction, Buffers::default());
    forming.extend(entries);
    forming.finish()
}

/// `shared` tokens in common, then `own` tokens each.
fn two_sequences(shared: u32, own: u32) -> [Vec<u32>; 2] {
    [0, 1].map(|which| (0..shared).chain((0..own).map(|i| 1000 * (which + 1) + i)).collect())
}

#[test]
fn threshold_is_met_at_or_under() {
    let plan_is_some = |sequences: &[Vec<u32>], threshold| {
        form(sequences, Compaction { folding: Folding::Prefix, threshold, pad_to_multiple: 1, max_tokens: 1000 })
            .plan
            .is_some()
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
    let mut forming = FormingBatch::new(
        Compaction { folding: Folding::Prefix, threshold: 0.0, pad_to_multiple: 1, max_tokens: 1000 },
        Buffers::default(),
    );
    let (entries, _answers) = entries(&two_sequences(5, 5));
    forming.extend(entries);
    assert_eq!((forming.len(), forming.buffers.plan.total_tokens()), (2, 0));
}

#[test]
fn the_plan_is_padded() {
    let batch = form(
        &two_sequences(5, 8),
        Compaction { folding: Folding::Prefix, threshold: 1.0, pad_to_multiple: 16, max_tokens: 1000 },
    );
    let plan = batch.plan.expect("a plan");
    assert_eq!((plan.unique_tokens(), plan.padded_tokens()), (21, 32));
}

#[test]
fn entries_cancelled_before_the_end_are_left_out() {
    let [first, second] = two_sequences(3, 2);
    let (batch_entries, mut answers) = entries(&[first.clone(), second, first.clone()]);
    let compaction = Compaction { folding: Folding::Prefix, threshold: 1.0, pad_to_multiple: 1, max_tokens: 1000 };
    let mut forming = FormingBatch::new(compaction, Buffers::default());
    forming.extend(batch_entries);
    answers.remove(1);
    let ready = forming.finish();
    assert_eq!(ready.entries.len(), 2);
    assert_eq!(ready.batch.wanted, [Outputs::EMBEDDING; 2]);
    assert_eq!(ready.batch.ragged.input_ids(), [first.clone(), first].concat());
    assert_eq!(ready.plan, Some(RadixPlan::new(&ready.batch.ragged, 1)));
}

#[test]
fn an_empty_sequence_fails_alone() {
    let (batch_entries, mut answers) = entries(&[vec![], vec![1]]);
    let mut forming = FormingBatch::new(
        Compaction { folding: Folding::Prefix, threshold: 1.0, pad_to_multiple: 1, max_tokens: 1000 },
        Buffers::default(),
    );
    forming.extend(batch_entries);
    assert_eq!(forming.len(), 1);
    assert!(matches!(answers[0].try_recv(), Ok(Err(BackendError::Contract(_)))));
    assert!(answers[1].try_recv().is_err(), "the other one still waits");
}

#[test]
fn buffers_go_from_a_batch_to_the_next() {
    let compaction = Compaction { folding: Folding::Prefix, threshold: 0.9, pad_to_multiple: 8, max_tokens: 1000 };
    let mut buffers = Buffers::default();
    let capacities = |buffers: &Buffers| {
        (
            buffers.batch.ragged.input_ids().as_ptr(),
            buffers.batch.ragged.cu_seqlens().as_ptr(),
            buffers.batch.wanted.as_ptr(),
        )
    };
    let mut last = None;
    // With a plan, and with one that does not pay and stays in the builder.
    for sequences in [two_sequences(50, 3), two_sequences(0, 50), two_sequences(20, 2), two_sequences(20, 5)] {
        let (batch_entries, _answers) = entries(&sequences);
        let mut forming = FormingBatch::new(compaction, buffers);
        forming.extend(batch_entries);
        let ready = forming.finish();
        assert_eq!(ready.batch.ragged, RaggedBatch::from_sequences(&sequences).unwrap());
        assert_eq!(ready.batch.wanted, [Outputs::EMBEDDING, Outputs::TOKENS]);
        if let Some(plan) = &ready.plan {
            assert_eq!(plan, &RadixPlan::new(&ready.batch.ragged, 8));
        }
        let (entries, rest) = ready.into_parts();
        assert_eq!(entries.len(), 2);
        assert_eq!((rest.batch.ragged.num_sequences(), rest.plan.total_tokens(), rest.batch.wanted.len()), (0, 0, 0));
        assert!(last.replace(capacities(&rest)).is_none_or(|last| last == capacities(&rest)), "the same memory");
        buffers = rest;
    }
}

#[test]
fn attention_is_saved_where_it_runs_over_compact_rows() {
    let compaction = Compaction { folding: Folding::Prefix, threshold: 1.0, pad_to_multiple: 1, max_tokens: 1000 };
    let ready = form_all(&[vec![1, 2, 3], vec![1, 2, 4]], compaction);
    assert_eq!((ready.attention_work_saved(true), ready.attention_work_saved(false)), (12 - 9, 0));
    let off = form_all(&[vec![1, 2, 3], vec![1, 2, 4]], Compaction { threshold: 0.0, ..compaction });
    assert_eq!(off.attention_work_saved(true), 0);
    let whole = form_all(&[vec![1, 2], vec![1, 2], vec![1, 3]], Compaction { folding: Folding::Whole, ..compaction });
    assert_eq!((whole.attention_work_saved(true), whole.attention_work_saved(false)), (4, 4));
    assert_eq!((whole.total_tokens(), whole.unique_tokens()), (6, 4));
    assert_eq!(whole.plan, None);
}

#[test]
fn what_is_computed_alone_is_what_a_batch_of_its_own_computes() {
    let sequences = [vec![1, 2, 3, 4], vec![1, 2, 3, 5], vec![1, 2, 3, 4], vec![9]];
    for folding in [Folding::Prefix, Folding::Whole] {
        for threshold in [0.0, 0.4, 0.5, 0.9] {
            let compaction = Compaction { folding, threshold, pad_to_multiple: 8, max_tokens: 1000 };
            let ready = form_all(&sequences, compaction);
            assert_eq!(
                compaction.computed_alone(&sequences.clone().map(Tokens::new)),
                ready.unique_tokens(),
                "{folding:?} {threshold}"
            );
        }
    }
}

#[test]
fn scopes_and_tasks_share_nothing() {
    let scoped = [1, 2, 1, 0].map(|scope| Tokens::new(vec![1, 2, 3]).in_scope(Scope(scope)));
    let adapted = [1, 2, 1, 0].map(|task| Tokens::new(vec![1, 2, 3]).with_task(TaskId(task)));
    for (sequences, folding) in
        [(&scoped, Folding::Prefix), (&scoped, Folding::Whole), (&adapted, Folding::Prefix), (&adapted, Folding::Whole)]
    {
        let compaction = Compaction { folding, threshold: 1.0, pad_to_multiple: 1, max_tokens: 1000 };
        let ready = form_all(sequences, compaction);
        assert_eq!((ready.total_tokens(), ready.unique_tokens()), (12, 9), "{folding:?}");
    }
}

/// A batch whose entries all want the same.
fn form_all(sequences: &[impl Clone + Into<Tokens>], compaction: Compaction) -> ReadyBatch {
    let mut forming = FormingBatch::new(compaction, Buffers::default());
    let (entries, answers): (Vec<_>, Vec<_>) =
        sequences.iter().map(|ids| Entry::new(ids.clone(), Outputs::EMBEDDING, Trace::default())).unzip();
    forming.extend(entries);
    let ready = forming.finish();
    drop(answers);
    ready
}

proptest! {
    #[test]
    fn growing_a_batch_gives_the_plan_of_the_whole(
        sequences in prop::collection::vec(prop::collection::vec(0u32..3, 1..12), 1..30),
        parts in prop::collection::vec(1usize..8, 30),
    ) {
        let (mut rest, _answers) = entries(&sequences);
        let mut forming = FormingBatch::new(Compaction { folding: Folding::Prefix, threshold: 1.0, pad_to_multiple: 4, max_tokens: 1000 }, Buffers::default());
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
        prop_assert_eq!(ready.plan, shares.then_some(plan));
    }
}
