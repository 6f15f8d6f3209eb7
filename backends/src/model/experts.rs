//! Experts in the place of a feed-forward block, computed sparsely: the rows of each expert are gathered, and no expert sees others.
//!
//! A row's result is the sum over its experts in the order of their numbers, so that it does not depend on the other rows.

use super::buffers::{Buffers, Name};
use super::feed_forward::Experts;
use crate::ops::{self, Store};
use candle_core::{DType, Device, Result, Tensor};

/// Rows of an expert, and the weight of its output in each.
#[derive(Debug, Default, Clone, PartialEq)]
struct Routed {
    rows: Vec<u32>,
    weights: Vec<f32>,
}

/// The rows of each expert by the scores of a router, `[rows, experts]`: those to which it is one of the `top` best, the lower number
/// first among equals. Weights are the softmax over all experts.
fn route(logits: &[f32], count: usize, top: usize) -> Vec<Routed> {
    let mut routed = vec![Routed::default(); count];
    let mut order: Vec<usize> = (0..count).collect();
    for (row, logits) in (0..).zip(logits.chunks_exact(count)) {
        let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let total: f32 = logits.iter().map(|logit| (logit - max).exp()).sum();
        order.sort_unstable();
        order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
        for &expert in &order[..top] {
            routed[expert].rows.push(row);
            // A score that is not a number spreads to the row's result.
            routed[expert].weights.push((logits[expert] - max).exp() / total);
        }
    }
    routed
}

impl Experts {
    /// Adds the block's output for the rows `x` to `residual`, which the router scores: the same rows, not rounded.
    pub(super) fn forward(&self, buffers: &mut Buffers, x: &Tensor, residual: &Tensor) -> Result<()> {
        let rows = x.dim(0)?;
        let logits = Tensor::zeros((rows, self.experts.len()), DType::F32, &Device::Cpu)?;
        self.router.forward(residual, &logits, Store::Overwrite)?;
        let routed = ops::on_host(&logits, |logits| route(logits, self.experts.len(), self.top))?;
        // Not the residual stream itself, which may be what the next expert's rows are gathered from.
        let sum = buffers.rows(Name::ExpertSum, rows)?;
        ops::fill_rows(&sum, &self.bias)?;
        for (expert, Routed { rows, weights }) in self.experts.iter().zip(routed) {
            let count = rows.len();
            if count == 0 {
                continue;
            }
            let index = Tensor::from_vec(rows, count, &Device::Cpu)?;
            let input = buffers.rows(Name::ExpertInput, count)?;
            ops::gather_rows(x, &index, &input)?;
            let activated = buffers.rows(Name::Activated, count)?;
            expert.up.forward_activated(self.activation, &input, &activated)?;
            let output = buffers.rows(Name::ExpertOutput, count)?;
            expert.down.forward(&activated, &output, Store::Overwrite)?;
            ops::scatter_add(&output, &index, &weights, &sum)?;
        }
        ops::add(&sum, residual)
    }
}

#[cfg(test)]
mod tests {
    use super::{Routed, route};

    #[test]
    fn rows_go_to_their_best_experts() {
        let routed = route(&[0.0, 2.0, 1.0, 3.0, 3.0, 3.0], 3, 2);
        let rows: Vec<&[u32]> = routed.iter().map(|routed| routed.rows.as_slice()).collect();
        // Equal scores go to the lower numbers.
        assert_eq!(rows, [&[1][..], &[0, 1], &[0]]);
        let total = 1.0 + (-1.0_f32).exp() + (-2.0_f32).exp();
        assert!(
            (routed[1].weights[0] - 1.0 / total).abs() < 1e-6
                && (routed[2].weights[0] - (-1.0_f32).exp() / total).abs() < 1e-6
        );
        assert!((routed[0].weights[0] - 1.0 / 3.0).abs() < 1e-6);
        assert_eq!(route(&[], 2, 1), [Routed::default(), Routed::default()]);
        assert!(route(&[f32::NAN, 0.0], 2, 1).iter().flat_map(|routed| &routed.weights).all(|weight| weight.is_nan()));
    }
}
