//! A GPU's kernels, each alone in the shapes of published models: row kernels compared with a copy in the same memory,
//! products and attention in operations per second.

use crate::report::{Output, Table, Times, chart, rounds};
use crate::shapes::{Shape, Sizes};
use anyhow::Result;
use half::bf16;
use prefold_kernels::cuda::cudarc::cublas::CudaBlas;
use prefold_kernels::cuda::cudarc::driver::{CudaContext, CudaSlice, DeviceRepr};
use prefold_kernels::cuda::{
    AddRmsNorm, Attention, AttentionPlan, Blas, Columns, Gemm, Kernels, Properties, QkNormRope, RopeSpan,
    exclusive_streams,
};
use prefold_kernels::{Activation, Mask, QkvLayout, QuerySpan, Store};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::json;
use std::sync::Arc;

/// Flags of `prefold-bench gpu`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Rows of the batch.
    #[arg(long, default_value_t = 16_384)]
    rows: usize,
    /// Lengths of the sequences of the attention cases.
    #[arg(long, value_delimiter = ',', default_value = "128,512,2048")]
    lengths: Vec<usize>,
    /// Timed rounds, after one untimed round; medians and ranges are reported.
    #[arg(long, default_value_t = 5)]
    runs: usize,
    #[command(flatten)]
    output: Output,
}

/// Operations queued between two readings of the clock.
const REPEATS: usize = 20;

pub(crate) fn run(args: &Args) -> Result<()> {
    prefold_kernels::cuda::device_count()?;
    let context = CudaContext::new(0)?;
    exclusive_streams(&context);
    let stream = context.new_stream()?;
    let kernels = Kernels::new(stream.clone())?;
    let blas = Blas::new(Arc::new(CudaBlas::new(stream)?), &kernels)?;
    println!("{}, {} rows in bfloat16\n", Properties::of(&context)?.name, args.rows);
    let gpu = Gpu { kernels, blas, rows: args.rows, runs: args.runs };
    let shapes = [("0.6b", Shape::Qwen3_0_6b), ("4b", Shape::Qwen3_4b), ("8b", Shape::Qwen3_8b)];
    let (mut moved, mut computed) = (Table::default(), Table::default());
    for (name, shape) in shapes {
        gpu.moving(&mut moved, name, shape.sizes())?;
    }
    println!();
    for (name, shape) in shapes {
        gpu.products(&mut computed, name, shape.sizes())?;
        for &len in &args.lengths {
            gpu.attention(&mut computed, name, shape.sizes(), len)?;
        }
    }
    let titles = ["Kernels that move rows: share of a copy's bandwidth", "hidden size", "of copy"];
    let shares = |name| moved.column("of copy", |row| row["kernel"] == name);
    let lines = ["gather_rows", "qk_norm_rope", "rms_norm", "silu_mul"].map(|name| (name, shares(name)));
    let picture = chart(titles, &shapes.map(|(_, shape)| shape.sizes().hidden), lines);
    args.output.write(&[&moved, &computed], &[picture])
}

fn layout(sizes: Sizes) -> QkvLayout {
    QkvLayout { num_heads: sizes.heads, num_kv_heads: sizes.kv_heads, head_dim: sizes.head_dim }
}

struct Gpu {
    kernels: Kernels,
    blas: Blas,
    rows: usize,
    runs: usize,
}

impl Gpu {
    /// Not zeros, on which a GPU's clock is higher.
    fn random(&self, len: usize) -> Result<CudaSlice<bf16>> {
        let mut rng = SmallRng::seed_from_u64(len as u64);
        let some: Vec<bf16> = (0..len.min(1 << 20)).map(|_| bf16::from_f32(rng.random::<f32>() - 0.5)).collect();
        let (some, mut all) = (self.up(&some)?, self.kernels.stream().alloc_zeros(len)?);
        for start in (0..len).step_by(some.len()) {
            let count = some.len().min(len - start);
            self.kernels.stream().memcpy_dtod(&some.slice(..count), &mut all.slice_mut(start..start + count))?;
        }
        Ok(all)
    }

    fn floats(&self, len: usize) -> Result<CudaSlice<f32>> {
        self.up(&vec![0.5_f32; len])
    }

    fn up<T: DeviceRepr>(&self, values: &[T]) -> Result<CudaSlice<T>> {
        Ok(self.kernels.stream().clone_htod(values)?)
    }

    /// Times of contestants: [`REPEATS`] calls each, queued at once, after as many warm-up calls.
    fn times<const N: usize>(&self, mut queue: [&mut dyn FnMut() -> Result<()>; N]) -> Result<[Times; N]> {
        let mut many = |contestant: usize| {
            (0..REPEATS).try_for_each(|_| queue[contestant]())?;
            Ok(self.kernels.stream().synchronize()?)
        };
        (0..N).try_for_each(&mut many)?;
        rounds(self.runs, many)
    }

    /// Times a kernel that reads and writes `bytes` bytes, alternating with a copy of the same size.
    fn move_bytes(
        &self,
        table: &mut Table,
        [name, shape]: [&str; 2],
        bytes: usize,
        mut queue: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        let (from, mut to) = (self.random(bytes / 4)?, self.random(bytes / 4)?);
        let mut copy = || Ok(self.kernels.stream().memcpy_dtod(&from, &mut to)?);
        let [times, copy] = self.times([&mut queue, &mut copy])?;
        let (seconds, copy) = (times.median() / REPEATS as f64, copy.median() / REPEATS as f64);
        table.row([
            ("kernel", json!(name)),
            ("shape", json!(shape)),
            ("us", json!(seconds * 1e6)),
            ("us range", times.range(1e6 / REPEATS as f64)),
            ("GB/s", json!(bytes as f64 / seconds / 1e9)),
            ("copy GB/s", json!(bytes as f64 / copy / 1e9)),
            ("of copy", json!(copy / seconds)),
        ]);
        Ok(())
    }

    fn compute(
        &self,
        table: &mut Table,
        [name, shape]: [&str; 2],
        flops: f64,
        mut queue: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        let [times] = self.times([&mut queue])?;
        let seconds = times.median() / REPEATS as f64;
        table.row([
            ("kernel", json!(name)),
            ("shape", json!(shape)),
            ("us", json!(seconds * 1e6)),
            ("us range", times.range(1e6 / REPEATS as f64)),
            ("TFLOP/s", json!(flops / seconds / 1e12)),
        ]);
        Ok(())
    }

    fn moving(&self, table: &mut Table, shape: &str, sizes: Sizes) -> Result<()> {
        let (rows, kernels, layout) = (self.rows, &self.kernels, layout(sizes));
        let Sizes { hidden, intermediate, head_dim, .. } = sizes;
        let width = layout.qkv_width();

        let (mut qkv, mut gathered) = (self.random(rows * width)?, self.random(rows * width)?);
        // Rows from all over the matrix.
        let index = self.up(&(0..rows).map(|i| (i * 7919 % rows) as u32).collect::<Vec<_>>())?;
        self.move_bytes(table, ["gather_rows", shape], 4 * rows * width, || {
            Ok(kernels.gather_rows(&qkv.as_view(), width, &index.as_view(), &mut gathered.as_view_mut())?)
        })?;

        let (angles, norm) = (self.floats(rows * head_dim)?, self.floats(head_dim)?);
        let position_ids = self.up(&(0..rows as u32).collect::<Vec<_>>())?;
        let span = |offset, num_heads| RopeSpan { offset, num_heads, norm: Some(norm.as_view()) };
        let spans = [span(0, layout.num_heads), span(layout.q_width(), layout.num_kv_heads)];
        let rope = QkNormRope {
            table: angles.as_view(),
            head_dim,
            position_ids: position_ids.as_view(),
            row_width: width,
            spans: &spans,
            eps: 1e-6,
        };
        let touched = layout.q_width() + layout.kv_width();
        self.move_bytes(table, ["qk_norm_rope", shape], 4 * rows * touched, || {
            Ok(rope.run(kernels, &mut qkv.as_view_mut())?)
        })?;

        let (residual, weight) = (self.floats(rows * hidden)?, self.floats(hidden)?);
        let norm = AddRmsNorm::<bf16> { delta: None, weight: weight.as_view(), eps: 1e-6 };
        let mut normed = self.random(rows * hidden)?;
        self.move_bytes(table, ["rms_norm", shape], 6 * rows * hidden, || {
            Ok(norm.run_shared(kernels, &residual.as_view(), &mut normed.as_view_mut())?)
        })?;

        let (gate_up, mut activated) = (self.random(rows * 2 * intermediate)?, self.random(rows * intermediate)?);
        self.move_bytes(table, ["silu_mul", shape], 6 * rows * intermediate, || {
            let out = &mut activated.as_view_mut();
            Ok(kernels.activate_mul(Activation::Silu, &gate_up.as_view(), intermediate, out)?)
        })
    }

    fn products(&self, table: &mut Table, shape: &str, sizes: Sizes) -> Result<()> {
        let (rows, layout) = (self.rows, layout(sizes));
        let Sizes { hidden, intermediate, .. } = sizes;
        for (layer, n, k, store) in [
            ("qkv", layout.qkv_width(), hidden, Store::Overwrite),
            ("o", hidden, layout.q_width(), Store::Accumulate),
            ("gate-up", 2 * intermediate, hidden, Store::Overwrite),
            ("down", hidden, intermediate, Store::Accumulate),
        ] {
            let (x, weight, mut out) = (self.random(rows * k)?, self.random(n * k)?, self.random(rows * n)?);
            let mut residual = self.floats(rows * n)?;
            self.compute(table, [layer, shape], 2.0 * (rows * n * k) as f64, || {
                let gemm = Gemm { x: x.as_view(), weight: weight.as_view(), in_features: k, columns: 0..n, store };
                match store {
                    Store::Overwrite => gemm.run(&self.kernels, &self.blas, &mut out.as_view_mut())?,
                    Store::Accumulate => gemm.run(&self.kernels, &self.blas, &mut residual.as_view_mut())?,
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Whole sequences of `len` tokens.
    fn attention(&self, table: &mut Table, shape: &str, sizes: Sizes, len: usize) -> Result<()> {
        let (layout, sequences) = (layout(sizes), (self.rows / len).max(1));
        let rows = sequences * len;
        let span = |start| QuerySpan { row: start, len: len as u32, depth: 0, path: start };
        let spans: Vec<QuerySpan> = (0..rows as u32).step_by(len).map(span).collect();
        let plan = AttentionPlan::new(layout, true, &(0..rows as u32).collect::<Vec<_>>(), &spans, Mask::Causal)?;
        let words = self.up(plan.words())?;
        let (qkv, mut out) = (self.random(rows * layout.qkv_width())?, self.random(rows * layout.q_width())?);
        let columns = |from: usize| Columns { data: qkv.slice(from..), row_stride: layout.qkv_width() };
        // Each query sees keys up to its own position; a key costs one product with q and one with a weight.
        let pairs = (sequences * len * (len + 1) / 2) as f64;
        let flops = 4.0 * (layout.num_heads * layout.head_dim) as f64 * pairs;
        self.compute(table, [&format!("attention {len}"), shape], flops, || {
            let attention = Attention {
                q: columns(0),
                kv: columns(layout.q_width()),
                plan: plan.on_device(words.as_view())?,
                layout,
                scale: 1.0 / (layout.head_dim as f32).sqrt(),
                window: None,
                bias: None,
                positions: None,
            };
            Ok(attention.run(&self.kernels, &mut out.as_view_mut())?)
        })
    }
}
