//! Compaction is an optimisation: it never changes an answer.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests; clippy sees tests only in test functions")]

use crate::support::*;
use prefold_backends::LoadOptions;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Sequences that branch off one another at random places: duplicates, strict prefixes and strangers.
fn sharing_tree(rng: &mut StdRng, vocab_size: u32) -> Vec<Vec<u32>> {
    let mut sequences: Vec<Vec<u32>> = Vec::new();
    for _ in 0..rng.random_range(1..24) {
        let mut sequence = match sequences.len() {
            0 => Vec::new(),
            count => {
                let parent = &sequences[rng.random_range(0..count)];
                parent[..rng.random_range(0..=parent.len())].to_vec()
            }
        };
        let tail = rng.random_range(usize::from(sequence.is_empty())..40);
        sequence.extend((0..tail).map(|_| rng.random_range(0..vocab_size)));
        sequences.push(sequence);
    }
    sequences
}

#[test]
fn two_hundred_random_batches_agree_with_compaction_on_and_off() {
    for name in EMBEDDING_FIXTURES {
        let mut rng = StdRng::seed_from_u64(7);
        let mut models = ATTENTION_MODES.map(|attention| load(&LoadOptions { attention, ..options(fixture(name)) }));
        let vocab_size = models[0].backend.info().limits().vocab_size as u32;
        let mut shared = 0;
        for round in 0..200 {
            let sequences = sharing_tree(&mut rng, vocab_size);
            let off = run(&mut models[0].backend, &sequences, Compaction::Off);
            for (model, attention) in models.iter_mut().zip(ATTENTION_MODES) {
                let on = run(&mut model.backend, &sequences, Compaction::On { multiple: 1 + round % 9 });
                for (on, off) in on.iter().zip(&off) {
                    let what = format!("{name}, batch {round}, {attention:?}");
                    assert_close(&what, &normalized(on), &normalized(off), 1e-5);
                }
            }
            let plan = batch(&sequences, Compaction::On { multiple: 1 }, prefold_core::Outputs::EMBEDDING).1.unwrap();
            shared += usize::from(plan.unique_tokens() < plan.total_tokens());
        }
        assert!(shared > 150, "{name}: only {shared} of 200 batches shared anything");
    }
}
