//! Passes that are submitted before earlier ones are awaited.

use super::{no_gpu, on_gpu, runnable};
use crate::support::*;
use prefold_backends::Dtype;
use prefold_core::{Outputs, Uninterrupted};

/// Indices, buffers and results of passes in flight are not mixed, whatever the order in which they are awaited.
#[test]
fn passes_in_flight_have_the_outputs_that_each_has_alone() {
    if no_gpu() {
        return;
    }
    for (name, wanted) in [
        ("qwen3-tiny", Outputs::EMBEDDING),
        ("qwen3-tiny", Outputs::EMBEDDING.and(Outputs::TOKENS)),
        ("bert-mean-tiny", Outputs::EMBEDDING),
        ("llama-seqcls-tiny", Outputs::LOGITS),
    ] {
        let directory = fixture(name);
        let expected = expected(&directory);
        let sequences: Vec<Vec<u32>> = runnable(cases(&expected, "cases")).iter().map(ids).collect();
        let mut model = load(&on_gpu(directory, Dtype::Bfloat16));
        let is_causal = model.backend.folding() == prefold_core::Folding::Prefix;
        let batches: Vec<_> = (0..6)
            .map(|number| {
                let repeated: Vec<_> =
                    sequences.iter().cycle().skip(number).take(1 + 3 * number % 7).cloned().collect();
                let compaction =
                    if is_causal && number % 2 == 1 { Compaction::On { multiple: 1 } } else { Compaction::Off };
                batch(&repeated, compaction, wanted)
            })
            .collect();
        let alone: Vec<_> =
            batches.iter().map(|(batch, plan)| model.backend.forward(batch, plan.as_ref()).unwrap()).collect();
        let submit =
            |(batch, plan): &(_, Option<_>)| model.backend.submit(batch, plan.as_ref(), &mut Uninterrupted).unwrap();
        let mut in_flight: Vec<_> = batches.iter().map(submit).enumerate().collect();
        // The last first, and one never.
        drop(in_flight.remove(2));
        while let Some((number, submitted)) = in_flight.pop() {
            assert_eq!(submitted.outputs().unwrap(), alone[number], "{name}, batch {number}");
        }
        let (batch, plan) = &batches[2];
        assert_eq!(model.backend.forward(batch, plan.as_ref()).unwrap(), alone[2], "{name}, after all");
    }
}
