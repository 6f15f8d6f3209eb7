//! Reference implementation of every operation in f64, written to be obviously correct: the oracle of the tests.
//!
//! Inputs are not rounded, and neither are intermediate values.

use crate::attention::{Attention, Mask, RowView};
use crate::element::Element;
use crate::gemm::{Gemm, Packing};
use crate::rowwise::{Activation, HeadSpan, LayerNorm, PoolKind, QkNormRope, ShortConvolution};

/// `x W^T`, `x` `[m, k]`, `weight` `[n, k]`; the result is `[m, n]`.
pub fn matmul(x: &[f64], weight: &[f64], k: usize) -> Vec<f64> {
    let dot = |x: &[f64], w: &[f64]| x.iter().zip(w).map(|(x, w)| x * w).sum();
    x.chunks_exact(k).flat_map(|x| weight.chunks_exact(k).map(move |w| dot(x, w))).collect()
}

/// [`Gemm`], from the unpacked `weight` and the output before the call.
pub fn gemm<P: Packing>(gemm: &Gemm<'_, P>, weight: &[P::Input], out: &[f32]) -> Vec<f64> {
    let k = gemm.weight.cols();
    let widen = |values: &[P::Input]| values.iter().map(|x| f64::from(x.to_f32())).collect::<Vec<_>>();
    let weight = &weight[gemm.columns.start * k..gemm.columns.end * k];
    let mut product = matmul(&widen(gemm.x), &widen(weight), k);
    for (i, (sum, &before)) in product.iter_mut().zip(out).enumerate() {
        *sum += gemm.bias.map_or(0.0, |bias| f64::from(bias[i % gemm.columns.len()]));
        if gemm.store == crate::Store::Accumulate {
            *sum += f64::from(before);
        }
    }
    product
}

/// [`crate::rms_norm`]
pub fn rms_norm(x: &[f32], weight: &[f32], eps: f32) -> Vec<f64> {
    x.chunks_exact(weight.len()).flat_map(|x| normalize(&widen(x), weight, eps)).collect()
}

/// [`crate::activate_mul`]
pub fn activate_mul(kind: Activation, gate_up: &[f32], intermediate: usize) -> Vec<f64> {
    let row = |row: &[f32]| {
        let (gate, up) = row.split_at(intermediate);
        gate.iter().zip(up).map(|(&g, &u)| activation(kind, g) * f64::from(u)).collect::<Vec<_>>()
    };
    gate_up.chunks_exact(2 * intermediate).flat_map(row).collect()
}

/// [`LayerNorm`]
pub fn layer_norm(norm: &LayerNorm<'_>, x: &[f32]) -> Vec<f64> {
    let width = norm.weight.len();
    let row = |x: &[f32]| {
        let x = widen(x);
        let mean = x.iter().sum::<f64>() / width as f64;
        let variance = x.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / width as f64;
        let scale = 1.0 / (variance + f64::from(norm.eps)).sqrt();
        let weights = norm.weight.iter().zip(norm.bias);
        let values = x.iter().zip(weights).map(|(x, (&w, &b))| (x - mean) * scale * f64::from(w) + f64::from(b));
        values.collect::<Vec<_>>()
    };
    x.chunks_exact(width).flat_map(row).collect()
}

/// [`Activation`], GELU's distribution function as an integral.
pub fn activation(activation: Activation, x: f32) -> f64 {
    let x = f64::from(x);
    let gelu = |x: f64| {
        // Simpson's rule from 0 to |x|, beyond 12 nothing is left.
        let (steps, end) = (4000, x.abs().min(12.0));
        let density = |t: f64| (-t * t / 2.0).exp() / std::f64::consts::TAU.sqrt();
        let weight = |i: usize| if i == 0 || i == steps { 1.0 } else { 2.0 + 2.0 * (i % 2) as f64 };
        let step = end / steps as f64;
        let half: f64 = (0..=steps).map(|i| weight(i) * density(i as f64 * step)).sum::<f64>() * step / 3.0;
        x * if x < 0.0 { 0.5 - half } else { 0.5 + half }
    };
    match activation {
        Activation::Gelu => gelu(x),
        Activation::GeluTanh => {
            0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3))).tanh())
        }
        Activation::Relu => x.max(0.0),
        Activation::Silu => x / (1.0 + (-x).exp()),
    }
}

/// [`QkNormRope`], with `inv_freq` instead of the RoPE cache.
pub fn qk_norm_rope(op: &QkNormRope<'_>, inv_freq: &[f64], rows: &[f32]) -> Vec<f64> {
    let half = inv_freq.len();
    let mut rows = widen(rows);
    for (row, &position) in rows.chunks_exact_mut(op.row_width).zip(op.position_ids) {
        for &HeadSpan { offset, num_heads, norm } in op.spans {
            for head in row[offset..][..num_heads * 2 * half].chunks_exact_mut(2 * half) {
                if let Some(weight) = norm {
                    head.copy_from_slice(&normalize(head, weight, op.eps));
                }
                for (i, frequency) in inv_freq.iter().enumerate() {
                    let (sin, cos) = (frequency * f64::from(position)).sin_cos();
                    let (a, b) = (head[i], head[half + i]);
                    head[i] = a * cos - b * sin;
                    head[half + i] = b * cos + a * sin;
                }
            }
        }
    }
    rows
}

/// The products of a query and a key with the relative position embeddings of their distance.
fn positional(op: &Attention<'_>, head: usize, q: &[f64], key: usize, distance: isize, path: u32) -> f64 {
    let (Some(positions), dim) = (&op.positions, op.layout.head_dim) else { return 0.0 };
    let row = positions.rows.row(distance);
    let by_query = positions.keys.map_or(0.0, |keys| matmul(q, &view(keys, row, head * dim, dim), dim)[0]);
    let by_key = positions.queries.map_or(0.0, |queries| {
        let k = view(op.k, op.pages[path as usize + key] as usize, head * dim, dim);
        matmul(&k, &view(queries, row, head * dim, dim), dim)[0]
    });
    by_query + by_key
}

/// [`Attention`] for each query of its spans: rows in the order of the spans, `[queries, q_width]`.
pub fn attention(op: &Attention<'_>) -> Vec<f64> {
    let dim = op.layout.head_dim;
    let group = op.layout.num_heads / op.layout.num_kv_heads;
    let mut out = Vec::new();
    for (index, span) in op.spans.iter().enumerate() {
        for i in 0..span.len as usize {
            let position = span.depth as usize + i;
            let end = match op.mask {
                Mask::Causal => position + 1,
                Mask::Full { path_lens } => path_lens[index] as usize,
            };
            let is_seen = |&key: &usize| op.window.is_none_or(|window| key.abs_diff(position) < window);
            let seen: Vec<usize> = (0..end).filter(is_seen).collect();
            let pages: Vec<u32> = seen.iter().map(|key| op.pages[span.path as usize + key]).collect();
            for head in 0..op.layout.num_heads {
                let q = view(op.q, span.row as usize + i, head * dim, dim);
                let scores: Vec<f64> = pages
                    .iter()
                    .map(|&page| matmul(&q, &view(op.k, page as usize, head / group * dim, dim), dim)[0])
                    .zip(&seen)
                    .map(|(score, &key)| {
                        let distance = position as isize - key as isize;
                        let bias = op.bias.map_or(0.0, |bias| bias.value(head, distance));
                        let score = (score + positional(op, head, &q, key, distance, span.path)) * f64::from(op.scale);
                        let bound = |cap: f32| f64::from(cap) * (score / f64::from(cap)).tanh();
                        op.softcap.map_or(score, bound) + f64::from(bias)
                    })
                    .collect();
                let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let weights: Vec<f64> = scores.iter().map(|score| (score - max).exp()).collect();
                let total: f64 = weights.iter().sum();
                let mut mean = vec![0.0; dim];
                for (weight, &page) in weights.iter().zip(&pages) {
                    let v = view(op.v, page as usize, head / group * dim, dim);
                    mean.iter_mut().zip(v).for_each(|(mean, v)| *mean += weight / total * v);
                }
                out.extend(mean);
            }
        }
    }
    out
}

/// [`ShortConvolution`]
pub fn short_convolution(op: &ShortConvolution<'_>, gated: &[f32], taps: &[u32]) -> Vec<f64> {
    let width = op.width;
    let value = |row: u32, part: usize, channel: usize| f64::from(gated[(row as usize * 3 + part) * width + channel]);
    let channel = |taps: &[u32], channel: usize| {
        let is_there = |(_, row): &(usize, u32)| *row != ShortConvolution::NONE;
        let terms = taps.iter().copied().enumerate().filter(is_there).map(|(tap, row)| {
            f64::from(op.weight[tap * width + channel]) * value(row, 0, channel) * value(row, 2, channel)
        });
        let sum = op.bias.map_or(0.0, |bias| f64::from(bias[channel])) + terms.sum::<f64>();
        let own = taps[op.own];
        if own == ShortConvolution::NONE { 0.0 } else { value(own, 1, channel) * sum }
    };
    let taps = taps.chunks_exact(op.weight.len() / width);
    taps.flat_map(|taps| (0..width).map(move |it| channel(taps, it)).collect::<Vec<_>>()).collect()
}

/// One pooled row of `width` values from rows `rows` of `x`; a column is NaN where one of its values is, and 0 without rows.
pub fn pool(kind: PoolKind, x: &[f32], width: usize, rows: &[u32]) -> Vec<f64> {
    if rows.is_empty() {
        return vec![0.0; width];
    }
    let count = rows.len() as f64;
    let column = |column: usize| {
        let values = rows.iter().map(|&row| f64::from(x[row as usize * width + column]));
        match kind {
            PoolKind::Mean => values.sum::<f64>() / count,
            PoolKind::MeanSqrtLen => values.sum::<f64>() / count.sqrt(),
            PoolKind::WeightedMean => {
                let weighted = values.zip(1..).map(|(value, weight)| value * f64::from(weight));
                weighted.sum::<f64>() / (count * (count + 1.0) / 2.0)
            }
            PoolKind::Max => values.fold(f64::NEG_INFINITY, |max, x| if max.is_nan() || x <= max { max } else { x }),
        }
    };
    (0..width).map(column).collect()
}

fn widen(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&x| x.into()).collect()
}

fn view(view: RowView<'_>, row: usize, column: usize, len: usize) -> Vec<f64> {
    widen(&view.data[row * view.row_stride + view.offset + column..][..len])
}

fn normalize(x: &[f64], weight: &[f32], eps: f32) -> Vec<f64> {
    let mean_square = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
    let scale = 1.0 / (mean_square + f64::from(eps)).sqrt();
    x.iter().zip(weight).map(|(x, &w)| x * scale * f64::from(w)).collect()
}
