//! The embedding of a text is the same, bit for bit, alone and in any batch, in any order, with compaction off,
//! ragged or compact, padded or not, on any number of threads: for every family, type and pooling.
//!
//! The tests of the kernels (`kernels/tests/cpu/same_bits.rs`) show the same for every instruction set; these run whole models.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests; clippy sees tests only in test functions")]

use crate::support::*;
use prefold_backends::{Dtype, LoadOptions};
use prefold_core::{LoadedModel, Pooling};
use prefold_kernels::ThreadPool;
use proptest::prelude::*;
use proptest::sample::Index;
use std::cell::RefCell;

fn models(name: &str, dtype: Dtype, pooling: Pooling) -> [LoadedModel; 2] {
    ATTENTION_MODES.map(|attention| {
        load(&LoadOptions { dtype: Some(dtype), pooling: Some(pooling), attention, ..options(fixture(name)) })
    })
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Sequences that branch off one another at random places.
fn sharing_trees() -> impl Strategy<Value = Vec<Vec<u32>>> {
    // The smallest vocabulary of a fixture has 432 tokens.
    let step = (any::<Index>(), any::<Index>(), prop::collection::vec(0u32..430, 1..90));
    prop::collection::vec(step, 1..12).prop_map(|steps| {
        let mut sequences: Vec<Vec<u32>> = vec![vec![]];
        for (from, keep, tail) in steps {
            let parent = from.get(&sequences);
            sequences.push([&parent[..keep.index(parent.len() + 1)], &tail].concat());
        }
        sequences.remove(0);
        sequences
    })
}

fn check(models: &mut [LoadedModel; 2], sequences: &[Vec<u32>], rotation: usize) -> Result<(), TestCaseError> {
    let alone: Vec<Vec<u32>> = sequences
        .iter()
        .map(|sequence| bits(&run(&mut models[0].backend, std::slice::from_ref(sequence), Compaction::Off)[0]))
        .collect();
    let mut order: Vec<usize> = (0..sequences.len()).collect();
    order.rotate_left(rotation % sequences.len());
    let rotated: Vec<Vec<u32>> = order.iter().map(|&i| sequences[i].clone()).collect();
    for threads in [1, 3] {
        let pool = ThreadPool::new(threads);
        for model in models.iter_mut() {
            for compaction in COMPACTIONS {
                let backend = &mut model.backend;
                let found = pool.enter(|| run(backend, &rotated, compaction));
                for (found, &i) in found.iter().zip(&order) {
                    let attention = model.backend.info().attention;
                    prop_assert_eq!(&bits(found), &alone[i], "{} {:?} {} threads", attention, compaction, threads);
                }
            }
        }
    }
    Ok(())
}

/// All families and poolings in one type.
fn check_all(dtype: Dtype) {
    for name in EMBEDDING_FIXTURES {
        for pooling in [Pooling::LastToken, Pooling::Mean, Pooling::Cls] {
            let models = RefCell::new(models(name, dtype, pooling));
            proptest!(ProptestConfig::with_cases(6), |(sequences in sharing_trees(), rotation in any::<usize>())| {
                check(&mut models.borrow_mut(), &sequences, rotation)?;
            });
        }
    }
}

#[test]
fn float32() {
    check_all(Dtype::Float32);
}

#[test]
fn bfloat16() {
    check_all(Dtype::Bfloat16);
}

#[test]
fn int8() {
    check_all(Dtype::Int8);
}
