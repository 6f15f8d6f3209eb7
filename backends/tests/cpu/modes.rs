//! One load for both attention modes: the answers of a model that is loaded for each.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests; clippy sees tests only in test functions")]

use crate::support::*;
use prefold_backends::{Dtype, LoadOptions, load_in_modes};

/// Sequences that share prefixes of different lengths.
fn sequences() -> Vec<Vec<u32>> {
    (0..12).map(|b| (0..12 + b * 3).map(|i| if i < 6 + b % 3 { i } else { (b * 31 + i * 7) % 150 }).collect()).collect()
}

fn bits(rows: Vec<Vec<f32>>) -> Vec<Vec<u32>> {
    rows.iter().map(|row| row.iter().map(|value| value.to_bits()).collect()).collect()
}

#[test]
fn backends_of_one_load_give_the_bits_of_separate_loads() {
    for name in ["qwen3-tiny", "gemma3-causal-tiny", "bert-mean-tiny", "router-encoders-tiny"] {
        for dtype in [Dtype::Float32, Dtype::Bfloat16, Dtype::Int8] {
            let options = LoadOptions { dtype: Some(dtype), ..options(fixture(name)) };
            let backends = load_in_modes(&options, &ATTENTION_MODES).unwrap();
            assert_eq!(backends.len(), 2);
            for (mut backend, attention) in backends.into_iter().zip(ATTENTION_MODES) {
                let mut alone = load(&LoadOptions { attention, ..options.clone() }).backend;
                assert_eq!(backend.info().attention, alone.info().attention, "{name} {attention}");
                assert_eq!(backend.folding(), alone.folding(), "{name} {attention}");
                for compaction in COMPACTIONS {
                    let [ours, expected] = [&mut backend, &mut alone].map(|it| bits(run(it, &sequences(), compaction)));
                    assert_eq!(ours, expected, "{name} {dtype:?} {attention} {compaction:?}");
                }
            }
        }
    }
}

#[test]
fn each_mode_is_named_and_other_options_count_as_in_a_load() {
    let options = options(fixture("qwen3-tiny"));
    let backends = load_in_modes(&LoadOptions { cpu_replicas: 1000, ..options.clone() }, &ATTENTION_MODES).unwrap();
    let names: Vec<_> = backends.iter().map(|backend| backend.info().attention).collect();
    assert_eq!(names, ["ragged", "compact"]);
    assert!(load_in_modes(&options, &[]).unwrap().is_empty());
    let missing = LoadOptions { source: prefold_backends::ModelSource::Path("no/such/model".into()), ..options };
    assert!(load_in_modes(&missing, &ATTENTION_MODES).is_err());
}
