//! Every operation in f64, written to be obviously right: the oracle of the tests.
//!
//! Inputs are taken as they are; nothing is rounded on the way.

use crate::{Attention, Element, Gemm, HeadSpan, Packing, QkNormRope, RowView};

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

/// [`crate::silu_mul`]
pub fn silu_mul(gate_up: &[f32], intermediate: usize) -> Vec<f64> {
    let row = |row: &[f32]| {
        let (gate, up) = row.split_at(intermediate);
        let silu = |x: f64| x / (1.0 + (-x).exp());
        gate.iter().zip(up).map(|(&g, &u)| silu(g.into()) * f64::from(u)).collect::<Vec<_>>()
    };
    gate_up.chunks_exact(2 * intermediate).flat_map(row).collect()
}

/// [`QkNormRope`], with `inv_freq` instead of its table.
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

/// [`Attention`] for each query of its spans: rows in the order of the spans, `[queries, q_width]`.
pub fn attention(op: &Attention<'_>) -> Vec<f64> {
    let dim = op.layout.head_dim;
    let group = op.layout.num_heads / op.layout.num_kv_heads;
    let mut out = Vec::new();
    for span in op.spans {
        for i in 0..span.len as usize {
            let position = span.depth as usize + i;
            let first = op.window.map_or(0, |window| (position + 1).saturating_sub(window));
            let pages = &op.pages[span.path as usize..][first..=position];
            for head in 0..op.layout.num_heads {
                let q = view(op.q, span.row as usize + i, head * dim, dim);
                let scores: Vec<f64> = pages
                    .iter()
                    .map(|&page| matmul(&q, &view(op.k, page as usize, head / group * dim, dim), dim)[0])
                    .map(|score| score * f64::from(op.scale))
                    .collect();
                let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let weights: Vec<f64> = scores.iter().map(|score| (score - max).exp()).collect();
                let total: f64 = weights.iter().sum();
                let mut mean = vec![0.0; dim];
                for (weight, &page) in weights.iter().zip(pages) {
                    let v = view(op.v, page as usize, head / group * dim, dim);
                    mean.iter_mut().zip(v).for_each(|(mean, v)| *mean += weight / total * v);
                }
                out.extend(mean);
            }
        }
    }
    out
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
