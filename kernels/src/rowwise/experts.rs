//! Routing of rows to experts by the router's scores.

use crate::error::{KernelError, check_len, whole_rows};

/// Lists the rows of each expert from the router's scores, `[rows, experts]`: a row goes to its `top` best experts, the lower number first
/// among equals, and each list is in ascending order. The weight of an expert's output in a row is the softmax over the scores of all
/// experts.
///
/// `table` is `[3, experts, rows]`: the lists, each with room for all rows; the weights in the same layout, as bits of `f32`; and the
/// lengths of the lists in the first `experts` words of the third part. Other words are left unchanged.
///
/// # Errors
/// If the lengths do not fit together, or there are fewer experts than `top`.
pub fn route_rows(scores: &[f32], experts: usize, top: usize, table: &mut [u32]) -> Result<(), KernelError> {
    let rows = check_route(scores.len(), experts, top, table.len())?;
    let (listed, rest) = table.split_at_mut(experts * rows);
    let (weights, rest) = rest.split_at_mut(experts * rows);
    let counts = &mut rest[..if rows == 0 { 0 } else { experts }];
    counts.fill(0);
    let mut order: Vec<usize> = (0..experts).collect();
    for (row, scores) in (0..).zip(scores.chunks_exact(experts)) {
        let max = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let total: f32 = scores.iter().map(|score| (score - max).exp()).sum();
        order.sort_unstable();
        order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
        for &expert in &order[..top] {
            let place = expert * rows + counts[expert] as usize;
            listed[place] = row;
            // A NaN score makes the row's result NaN.
            weights[place] = ((scores[expert] - max).exp() / total).to_bits();
            counts[expert] += 1;
        }
    }
    Ok(())
}

/// The number of rows, if the lengths of [`route_rows`]'s arguments fit together.
pub(crate) fn check_route(scores: usize, experts: usize, top: usize, table: usize) -> Result<usize, KernelError> {
    let rows = whole_rows("scores", experts, scores)?;
    check_len("table", 3 * experts * rows, table)?;
    if top == 0 || top > experts {
        return Err(KernelError::Value { argument: "experts of a row", found: top, expected: "1 to all experts" });
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows and weights of each expert.
    fn route(scores: &[f32], experts: usize, top: usize) -> Vec<Vec<(u32, f32)>> {
        let rows = scores.len() / experts;
        let mut table = vec![u32::MAX; 3 * experts * rows];
        route_rows(scores, experts, top, &mut table).unwrap();
        let expert = |expert: usize| {
            let places = (expert * rows..).take(table[2 * experts * rows + expert] as usize);
            places.map(|place| (table[place], f32::from_bits(table[experts * rows + place]))).collect()
        };
        (0..experts).map(expert).collect()
    }

    #[test]
    fn rows_go_to_their_best_experts() {
        let routed = route(&[0.0, 2.0, 1.0, 3.0, 3.0, 3.0], 3, 2);
        let rows: Vec<Vec<u32>> = routed.iter().map(|list| list.iter().map(|(row, _)| *row).collect()).collect();
        // Among equal scores the lower number comes first.
        assert_eq!(rows, [vec![1], vec![0, 1], vec![0]]);
        let total = 1.0 + (-1.0_f32).exp() + (-2.0_f32).exp();
        assert!((routed[1][0].1 - 1.0 / total).abs() < 1e-6);
        assert!((routed[2][0].1 - (-1.0_f32).exp() / total).abs() < 1e-6);
        assert!((routed[0][0].1 - 1.0 / 3.0).abs() < 1e-6);
        assert!(route(&[f32::NAN, 0.0], 2, 1).iter().flatten().all(|(_, weight)| weight.is_nan()));
    }

    #[test]
    fn sizes_that_do_not_fit_are_refused() {
        route_rows(&[], 2, 1, &mut []).unwrap();
        let mut table = [0; 12];
        assert!(matches!(route_rows(&[0.0; 4], 2, 3, &mut table), Err(KernelError::Value { .. })));
        assert!(matches!(route_rows(&[0.0; 3], 2, 1, &mut table), Err(KernelError::Rows { .. })));
        assert!(matches!(route_rows(&[0.0; 6], 2, 1, &mut table), Err(KernelError::Length { .. })));
    }
}
