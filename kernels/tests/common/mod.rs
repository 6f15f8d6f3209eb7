//! Random inputs and comparisons.
#![allow(dead_code, reason = "each test binary uses some of it")]

use prefold_kernels::{Attention, Dtype, Element, Isa, Mask, QkvLayout, QuerySpan, RowView};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::HashMap;

pub(crate) fn rng(seed: u64) -> StdRng {
    StdRng::seed_from_u64(seed)
}

/// The instruction sets of this CPU, and the model of AMX, which runs on every CPU.
pub(crate) fn all_isas() -> Vec<Isa> {
    let mut all = Isa::available();
    all.push(Isa::amx_model());
    all
}

/// Values around 0 of size about 1.
pub(crate) fn random<A: Element>(rng: &mut StdRng, len: usize) -> Vec<A> {
    (0..len).map(|_| A::from_f32(rng.random_range(-1.0..1.0) * 1.7)).collect()
}

/// A copy whose slice begins at an offset within its allocation.
pub(crate) struct Unaligned<T>(Vec<T>);

impl<T: Copy + Default> Unaligned<T> {
    pub(crate) fn new(values: &[T]) -> Self {
        Self([&[T::default()], values].concat())
    }

    pub(crate) fn get(&self) -> &[T] {
        &self.0[1..]
    }

    pub(crate) fn get_mut(&mut self) -> &mut [T] {
        &mut self.0[1..]
    }
}

/// Fails if a value differs from the expected one by more than `tolerance(index)`, or if only one of the two is NaN.
pub(crate) fn assert_close<A: Element>(what: &str, found: &[A], expected: &[f64], tolerance: impl Fn(usize) -> f64) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (found, &expected)) in found.iter().zip(expected).enumerate() {
        let found = f64::from(found.to_f32());
        if expected.is_nan() || expected.is_infinite() {
            assert!(found.is_nan() == expected.is_nan() && !found.is_finite(), "{what} [{i}]: {found} for {expected}");
            continue;
        }
        let err = (found - expected).abs();
        assert!(err <= tolerance(i), "{what} [{i}]: {found} for {expected}, off by {err:e} > {:e}", tolerance(i));
    }
}

/// Relative rounding error of a result of this type.
pub(crate) fn rounding<A: Element>() -> f64 {
    match A::DTYPE {
        Dtype::Float32 => 2e-6,
        Dtype::Bfloat16 => 1.0 / 256.0,
        Dtype::Float16 => 1.0 / 2048.0,
        Dtype::Int8 => unreachable!("no element is an int8"),
    }
}

pub(crate) fn bits<A: Element>(values: &[A]) -> Vec<u32> {
    values.iter().map(|x| x.to_f32().to_bits()).collect()
}

/// A batch of sequences that share prefixes, in compact space: a naive trie.
#[derive(Debug)]
pub(crate) struct Tree {
    /// Rows of the nodes along each sequence, one after another.
    pub(crate) scatter: Vec<u32>,
    /// Start of each sequence in `scatter`.
    pub(crate) cu_seqlens: Vec<u32>,
    /// The new nodes of each sequence: a run of rows, and a path through them.
    pub(crate) spans: Vec<QuerySpan>,
    pub(crate) rows: usize,
}

impl Tree {
    pub(crate) fn random(rng: &mut StdRng, sequences: usize, max_len: usize) -> Self {
        let mut nodes = HashMap::new();
        let mut tree = Self { scatter: vec![], cu_seqlens: vec![0], spans: vec![], rows: 0 };
        let mut all: Vec<Vec<u32>> = Vec::new();
        for _ in 0..sequences {
            let len = rng.random_range(1..=max_len);
            let mut tokens = match all.len() {
                0 => Vec::new(),
                count => all[rng.random_range(0..count)].clone(),
            };
            tokens.truncate(rng.random_range(0..=max_len));
            while tokens.len() < len {
                tokens.push(rng.random_range(0..1000));
            }
            tree.push(&mut nodes, &tokens);
            all.push(tokens);
        }
        tree
    }

    fn push(&mut self, nodes: &mut HashMap<(u32, u32), u32>, tokens: &[u32]) {
        let path = self.scatter.len() as u32;
        let first_new = self.rows as u32;
        let mut parent = u32::MAX;
        for &token in tokens {
            let next = self.rows as u32;
            parent = *nodes.entry((parent, token)).or_insert(next);
            self.rows += usize::from(parent == next);
            self.scatter.push(parent);
        }
        let len = self.rows as u32 - first_new;
        if len > 0 {
            self.spans.push(QuerySpan { row: first_new, len, depth: tokens.len() as u32 - len, path });
        }
        self.cu_seqlens.push(self.scatter.len() as u32);
    }

    /// One span for each sequence in ragged space.
    pub(crate) fn ragged_spans(&self) -> Vec<QuerySpan> {
        let ends = self.cu_seqlens.windows(2);
        ends.map(|ends| QuerySpan { row: ends[0], len: ends[1] - ends[0], depth: 0, path: ends[0] }).collect()
    }
}

/// Whole sequences over a shuffled page table.
#[derive(Debug)]
pub(crate) struct Sequences {
    /// The row of each position.
    pub(crate) pages: Vec<u32>,
    starts: Vec<u32>,
}

impl Sequences {
    pub(crate) fn random(rng: &mut StdRng, lens: &[u32]) -> Self {
        let mut starts = vec![0];
        lens.iter().for_each(|len| starts.push(starts[starts.len() - 1] + len));
        let mut pages: Vec<u32> = (0..starts[lens.len()]).collect();
        (1..pages.len()).for_each(|i| pages.swap(i, rng.random_range(0..=i)));
        Self { pages, starts }
    }

    pub(crate) fn rows(&self) -> usize {
        self.pages.len()
    }

    /// One span per sequence, with its length.
    pub(crate) fn whole(&self) -> (Vec<QuerySpan>, Vec<u32>) {
        let spans = self.starts.windows(2).map(|ends| {
            let len = ends[1] - ends[0];
            (QuerySpan { row: ends[0], len, depth: 0, path: ends[0] }, len)
        });
        spans.unzip()
    }

    /// The same spans, cut into pieces.
    pub(crate) fn pieces(&self, rng: &mut StdRng) -> (Vec<QuerySpan>, Vec<u32>) {
        let (spans, lens) = self.whole();
        let pieces = cut(rng, &spans, 70);
        let len_of =
            |piece: &QuerySpan| spans.iter().zip(&lens).find(|(span, _)| span.path == piece.path).map(|it| *it.1);
        let path_lens = pieces.iter().filter_map(len_of).collect();
        (pieces, path_lens)
    }
}

/// Cuts spans into pieces of random length up to `max`.
pub(crate) fn cut(rng: &mut StdRng, spans: &[QuerySpan], max: u32) -> Vec<QuerySpan> {
    let mut pieces = Vec::new();
    for &span in spans {
        let mut done = 0;
        while done < span.len {
            let len = rng.random_range(1..=max).min(span.len - done);
            pieces.push(QuerySpan { row: span.row + done, len, depth: span.depth + done, path: span.path });
            done += len;
        }
    }
    pieces
}

/// Attention over fused `[q | k | v]` rows.
pub(crate) fn fused<'a>(qkv: &'a [f32], layout: QkvLayout, pages: &'a [u32], spans: &'a [QuerySpan]) -> Attention<'a> {
    let view = |offset| RowView { data: qkv, row_stride: layout.qkv_width(), offset };
    Attention {
        q: view(0),
        k: view(layout.q_width()),
        v: view(layout.q_width() + layout.kv_width()),
        pages,
        spans,
        layout,
        scale: 1.0 / (layout.head_dim as f32).sqrt(),
        mask: Mask::Causal,
        window: None,
        softcap: None,
        bias: None,
        positions: None,
    }
}
