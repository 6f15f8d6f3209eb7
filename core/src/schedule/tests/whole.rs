use super::*;
use crate::outputs::OutputKind;
use crate::plan::tokens::{TaskId, Tokens};
use proptest::prelude::*;
use std::hash::{BuildHasherDefault, Hasher};

/// The same hash for everything.
#[derive(Default)]
struct Constant;

impl Hasher for Constant {
    fn finish(&self) -> u64 {
        u64::MAX
    }

    fn write(&mut self, _: &[u8]) {}
}

fn check<H: BuildHasher + Default>(entries: &[(Tokens, Outputs)]) {
    let mut folding = WholeFolding::<H>::default();
    let mut batch = Batch::default();
    for _ in 0..2 {
        for (tokens, wanted) in entries {
            folding.push(&mut batch, tokens.as_slice(), *wanted).unwrap();
        }
        let mut distinct: Vec<&(Tokens, Outputs)> = Vec::new();
        let is_first: Vec<bool> = folding.is_first().collect();
        for (entry, is_first) in entries.iter().zip(is_first) {
            assert_eq!(is_first, !distinct.contains(&entry));
            if is_first {
                distinct.push(entry);
            }
        }
        assert_eq!(batch.ragged.num_sequences(), distinct.len());
        // Each output names its sequence.
        let output = |sequence| Output::of(OutputKind::Embedding, vec![sequence as f32], 1);
        let outputs = folding.unfold((0..distinct.len()).map(output).collect());
        assert_eq!(outputs.len(), entries.len());
        for ((tokens, wanted), found) in entries.iter().zip(outputs) {
            let sequence = distinct.iter().position(|(other, asked)| other == tokens && asked == wanted).unwrap();
            assert_eq!(found, output(sequence));
            assert_eq!(batch.ragged.sequence(sequence), tokens.as_slice().in_scope(Scope::default()));
        }
        folding.clear();
        batch.clear();
    }
}

fn entry() -> impl Strategy<Value = (Tokens, Outputs)> {
    let token = (0u32..2, 0u32..2);
    let group = (0u32..2, 0u8..3);
    (prop::collection::vec(token, 1..4), 0u32..2, group, any::<bool>()).prop_map(
        |(tokens, first, (scope, task), pooled)| {
            let (ids, types): (Vec<u32>, Vec<u32>) = tokens.into_iter().unzip();
            let positions = (first..).take(ids.len()).collect();
            let tokens = Tokens::new(ids).with_token_types(types).unwrap().with_positions(positions).unwrap();
            (
                tokens.in_scope(Scope(scope)).with_task(TaskId(task)),
                if pooled { Outputs::EMBEDDING } else { Outputs::TOKENS },
            )
        },
    )
}

proptest! {
    #[test]
    fn each_distinct_entry_runs_once_and_answers_all_that_are_equal(entries in prop::collection::vec(entry(), 0..40)) {
        check::<RandomState>(&entries);
        check::<BuildHasherDefault<Constant>>(&entries);
    }
}

#[test]
fn what_cannot_join_a_batch_leaves_nothing_behind() {
    let (mut folding, mut batch) = (WholeFolding::<RandomState>::default(), Batch::default());
    for _ in 0..2 {
        assert!(folding.push(&mut batch, TokenSlice::new(&[]), Outputs::EMBEDDING).is_err());
    }
    assert_eq!((folding.is_first().count(), batch.wanted.len()), (0, 0));
}
