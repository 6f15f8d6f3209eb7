//! Replicas of a model: the same bits as one backend, while all run at once.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests; clippy sees tests only in test functions")]

use crate::support::*;
use prefold_backends::{Dtype, LoadOptions};
use prefold_core::{Interrupting, ModelBackend, Replica};

/// A decoder and an encoder.
const FIXTURES: [&str; 2] = ["qwen3-tiny", "bert-mean-tiny"];

/// As many replicas as there are cores, four at most, and at least the one.
fn replicas() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(4)
}

/// Batches of different sizes whose sequences share prefixes.
fn batches() -> Vec<Vec<Vec<u32>>> {
    let sequence = |len: u32, from: u32| (0..len).map(|i| if i < 9 { i } else { (from + i * 7) % 400 }).collect();
    (1..30).map(|size| (0..size).map(|b| sequence(3 + (b * 11 + size) % 90, b)).collect()).collect()
}

fn bits(backend: &mut ModelBackend, batch: &[Vec<u32>]) -> Vec<Vec<u32>> {
    let shares = matches!(backend, ModelBackend::Prefix(_));
    let compaction =
        if shares && batch.len().is_multiple_of(2) { Compaction::On { multiple: 1 } } else { Compaction::Off };
    run(backend, batch, compaction).iter().map(|row| row.iter().map(|value| value.to_bits()).collect()).collect()
}

#[test]
fn replicas_that_run_at_once_give_the_bits_of_one_backend() {
    for name in FIXTURES {
        for dtype in [Dtype::Float32, Dtype::Bfloat16, Dtype::Int8] {
            let options = LoadOptions { dtype: Some(dtype), ..options(fixture(name)) };
            let mut one = load(&options);
            assert!(one.replicas.is_empty());
            let expected: Vec<_> = batches().iter().map(|batch| bits(&mut one.backend, batch)).collect();
            let many = load(&LoadOptions { cpu_replicas: replicas(), ..options });
            assert_eq!(many.replicas.len() + 1, replicas());
            let first = Replica { backend: many.backend, interrupting: many.interrupting };
            std::thread::scope(|scope| {
                // Each with those that interrupt it, which have its threads: one of the three at a time.
                for (index, replica) in std::iter::once(first).chain(many.replicas).enumerate() {
                    let Interrupting { due, urgent } = replica.interrupting.unwrap();
                    let [mut backend, ..] = match index % 3 {
                        0 => [replica.backend, due, urgent],
                        1 => [due, urgent, replica.backend],
                        _ => [urgent, due, replica.backend],
                    };
                    let expected = &expected;
                    scope.spawn(move || {
                        for (batch, expected) in batches().iter().zip(expected) {
                            assert_eq!(&bits(&mut backend, batch), expected, "{name} {dtype:?}");
                        }
                    });
                }
            });
        }
    }
}
