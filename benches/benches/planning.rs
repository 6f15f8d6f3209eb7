//! The radix plan of 16,384 tokens at several sharing ratios, and of a million tokens, compared with the crate
//! `radix_mlp` on the same input in the same run. Both must agree, index for index. Plans reuse the memory of finished
//! plans, as in the planner; `radix_mlp` always returns fresh vectors.
//!
//! `cargo bench -p prefold-benches --bench planning`
#![allow(missing_docs, clippy::unwrap_used)]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use prefold_core::{PlanBuilder, RadixPlan, RaggedBatch};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::hint::black_box;

const TOKENS: usize = 16_384;

/// `sequences` sequences of equal length that share their first `prefix` tokens.
fn shared_prefix(tokens: usize, sequences: usize, prefix: usize) -> RaggedBatch {
    let mut rng = StdRng::seed_from_u64(1);
    let len = tokens / sequences;
    let shared: Vec<u32> = (0..prefix).map(|_| rng.random_range(0..150_000)).collect();
    let one = |_| {
        let tail = (prefix..len).map(|_| rng.random_range(0..150_000));
        shared.iter().copied().chain(tail).collect::<Vec<u32>>()
    };
    RaggedBatch::from_sequences(&(0..sequences).map(one).collect::<Vec<_>>()).unwrap()
}

/// Queries with ten documents each below one instruction: three levels of branches.
fn rerank(tokens: usize) -> RaggedBatch {
    let mut rng = StdRng::seed_from_u64(2);
    let mut random = |len: usize| -> Vec<u32> { (0..len).map(|_| rng.random_range(0..150_000)).collect() };
    let instruction = random(50);
    let mut sequences = Vec::new();
    while sequences.len() * 160 < tokens {
        let query = random(30);
        sequences.extend((0..10).map(|_| [&instruction[..], &query, &random(80)].concat()));
    }
    sequences.truncate(tokens / 160);
    RaggedBatch::from_sequences(&sequences).unwrap()
}

/// As in the planner, the sequences begin at position 0.
fn plan(builder: &mut PlanBuilder, batch: &RaggedBatch) -> RadixPlan {
    for b in 0..batch.num_sequences() {
        builder.push(&batch.input_ids()[batch.rows(b)]);
    }
    builder.finish(1)
}

fn bench(criterion: &mut Criterion) {
    let cases = [
        ("nothing shared, 32 x 512", shared_prefix(TOKENS, 32, 0)),
        ("half shared, 32 x 512", shared_prefix(TOKENS, 32, 256)),
        ("nearly all shared, 32 x 512", shared_prefix(TOKENS, 32, 500)),
        ("512 branches at one node, 512 x 32", shared_prefix(TOKENS, 512, 16)),
        ("nothing shared, 512 x 32", shared_prefix(TOKENS, 512, 0)),
        ("8192 branches at one node, 8192 x 2", shared_prefix(TOKENS, 8192, 1)),
        ("rerank, 102 x 160", rerank(TOKENS)),
        ("1M tokens, half shared, 2048 x 512", shared_prefix(1 << 20, 2048, 256)),
    ];
    let mut group = criterion.benchmark_group("planning");
    for (name, batch) in &cases {
        let mut builder = PlanBuilder::default();
        let ours = plan(&mut builder, batch);
        let (ids, positions, cu_seqlens) = (batch.input_ids(), batch.position_ids(), batch.cu_seqlens());
        let (compact_ids, compact_positions, scatter, gather) =
            radix_mlp::compute_fold_and_scatter(ids, positions, cu_seqlens, None);
        assert_eq!((ours.input_ids(), ours.position_ids()), (&compact_ids[..], &compact_positions[..]), "{name}");
        assert_eq!((ours.scatter(), ours.gather()), (&scatter[..], &gather[..]), "{name}");

        group.throughput(Throughput::Elements(batch.total_tokens() as u64));
        group.bench_with_input(BenchmarkId::new("prefold", name), batch, |bencher, batch| {
            bencher.iter(|| {
                let done = black_box(plan(&mut builder, black_box(batch)));
                builder.recycle(done);
            });
        });
        group.bench_with_input(BenchmarkId::new("radix_mlp", name), batch, |bencher, batch| {
            bencher.iter(|| {
                let (ids, positions) = (black_box(batch.input_ids()), black_box(batch.position_ids()));
                radix_mlp::compute_fold_and_scatter(ids, positions, batch.cu_seqlens(), None)
            });
        });
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
