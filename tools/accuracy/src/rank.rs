//! Agreement of two rankings of the same items.
//!
//! Ties are exact: equal texts have equal vectors, and so equal similarities.

use std::cmp::Ordering;

/// Kendall's tau-b of the orders by two lists of values, from -1 (reversed) to 1 (the same). It is (P - Q) / sqrt(X Y), with P
/// pairs in the same order, Q pairs in opposite order, and X and Y pairs of different values in the two lists.
///
/// `None` if all values of `reference` are equal, so that there is no order; 0 if only the values of `other` are all equal.
/// The lists are finite and equally long. Counted in O(n log n) as by W. R. Knight, *A Computer Method for Calculating
/// Kendall's Tau with Ungrouped Data* (1966): the discordant pairs are the exchanges that sort `other` after the order of `reference`.
pub(crate) fn kendall_tau_b(reference: &[f64], other: &[f64]) -> Option<f64> {
    let mut points: Vec<(f64, f64)> = reference.iter().copied().zip(other.iter().copied()).collect();
    let by_both = |a: &(f64, f64), b: &(f64, f64)| order(a.0, b.0).then(order(a.1, b.1));
    points.sort_by(by_both);
    let all = pairs(points.len());
    let tied_reference = tied(points.iter().map(|point| point.0));
    let tied_both = all_equal_runs(&points, |a, b| by_both(a, b) == Ordering::Equal);
    let mut other: Vec<f64> = points.into_iter().map(|point| point.1).collect();
    let exchanges = sort_counting(&mut other);
    let tied_other = tied(other.into_iter());
    let (ordered_reference, ordered_other) = (all - tied_reference, all - tied_other);
    if ordered_reference == 0 {
        return None;
    }
    if ordered_other == 0 {
        return Some(0.0);
    }
    let concordant = (all + tied_both) as f64 - (tied_reference + tied_other + exchanges) as f64;
    Some((concordant - exchanges as f64) / (ordered_reference as f64 * ordered_other as f64).sqrt())
}

/// Fraction of the `k` largest of `other` that are among the `k` largest of `reference`. Where ties leave a choice of the `k`
/// largest, the choice with the most in common counts.
///
/// `None` unless there are more than `k` values and `k` is at least 1.
pub(crate) fn top_overlap(reference: &[f64], other: &[f64], k: usize) -> Option<f64> {
    if k == 0 || reference.len() <= k {
        return None;
    }
    let mut descending = reference.to_vec();
    descending.sort_by(|a, b| order(*b, *a));
    let least = descending[k - 1];
    let sure = descending.iter().filter(|value| order(**value, least) == Ordering::Greater).count();
    let mut points: Vec<(f64, f64)> = other.iter().copied().zip(reference.iter().copied()).collect();
    points.sort_by(|a, b| order(b.0, a.0).then(order(b.1, a.1)));
    let among = |ordering: Ordering| points[..k].iter().filter(|point| order(point.1, least) == ordering).count();
    Some((among(Ordering::Greater) + among(Ordering::Equal).min(k - sure)) as f64 / k as f64)
}

/// Order of finite values, in which -0 equals 0.
fn order(a: f64, b: f64) -> Ordering {
    (a + 0.0).total_cmp(&(b + 0.0))
}

fn pairs(count: usize) -> u64 {
    let count = count as u64;
    count * count.saturating_sub(1) / 2
}

/// Number of pairs of equal values; equal values are adjacent.
fn tied(values: impl Iterator<Item = f64>) -> u64 {
    all_equal_runs(&values.collect::<Vec<_>>(), |a, b| order(*a, *b) == Ordering::Equal)
}

fn all_equal_runs<T>(values: &[T], equal: impl Fn(&T, &T) -> bool) -> u64 {
    values.chunk_by(equal).map(|run| pairs(run.len())).sum()
}

/// Sorts by merging, and counts the pairs that were in descending order.
fn sort_counting(values: &mut [f64]) -> u64 {
    if values.len() < 2 {
        return 0;
    }
    let (left, right) = values.split_at_mut(values.len() / 2);
    let mut exchanges = sort_counting(left) + sort_counting(right);
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let (mut from_left, mut from_right) = (0, 0);
    while from_left < left.len() && from_right < right.len() {
        if order(right[from_right], left[from_left]) == Ordering::Less {
            exchanges += (left.len() - from_left) as u64;
            merged.push(right[from_right]);
            from_right += 1;
        } else {
            merged.push(left[from_left]);
            from_left += 1;
        }
    }
    merged.extend_from_slice(&left[from_left..]);
    merged.extend_from_slice(&right[from_right..]);
    values.copy_from_slice(&merged);
    exchanges
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Tau by its definition, pair by pair.
    fn naive_tau_b(x: &[f64], y: &[f64]) -> Option<f64> {
        let (mut sum, mut ordered_x, mut ordered_y) = (0.0, 0.0, 0.0);
        let sign = |difference: f64| if difference == 0.0 { 0.0 } else { difference.signum() };
        for i in 0..x.len() {
            for j in 0..i {
                let (dx, dy) = (sign(x[i] - x[j]), sign(y[i] - y[j]));
                sum += dx * dy;
                ordered_x += dx * dx;
                ordered_y += dy * dy;
            }
        }
        match (ordered_x, ordered_y) {
            (0.0, _) => None,
            (_, 0.0) => Some(0.0),
            _ => Some(sum / f64::sqrt(ordered_x * ordered_y)),
        }
    }

    /// All possible sets of the k largest, as bits of their indices.
    fn tops(values: &[f64], k: usize) -> Vec<u32> {
        let is_top = |set: &u32| {
            let inside = |i: &usize| set >> i & 1 == 1;
            let (inside, outside): (Vec<usize>, Vec<usize>) = (0..values.len()).partition(inside);
            inside.iter().all(|i| outside.iter().all(|o| values[*i] >= values[*o]))
        };
        (0..1u32 << values.len()).filter(|set| set.count_ones() as usize == k).filter(is_top).collect()
    }

    fn naive_overlap(x: &[f64], y: &[f64], k: usize) -> f64 {
        let both = tops(x, k).into_iter().flat_map(|a| tops(y, k).into_iter().map(move |b| (a & b).count_ones()));
        f64::from(both.max().unwrap()) / k as f64
    }

    /// Lists of equal length, with many ties.
    fn lists(longest: usize) -> impl Strategy<Value = (Vec<f64>, Vec<f64>)> {
        let value = || (-3i8..4).prop_map(|value| if value == -3 { -0.0 } else { f64::from(value) / 4.0 });
        prop::collection::vec((value(), value()), 0..longest).prop_map(|points| points.into_iter().unzip())
    }

    #[test]
    fn orders_by_hand() {
        assert_eq!(kendall_tau_b(&[1.0, 2.0, 3.0], &[0.1, 0.2, 0.9]), Some(1.0));
        assert_eq!(kendall_tau_b(&[1.0, 2.0, 3.0], &[0.9, 0.2, 0.1]), Some(-1.0));
        // Five pairs of six are in order.
        assert!((kendall_tau_b(&[1.0, 2.0, 3.0, 4.0], &[1.0, 2.0, 4.0, 3.0]).unwrap() - 4.0 / 6.0).abs() < 1e-15);
        // scipy.stats.kendalltau([12, 2, 1, 12, 2], [1, 4, 7, 1, 0])
        let tau = kendall_tau_b(&[12.0, 2.0, 1.0, 12.0, 2.0], &[1.0, 4.0, 7.0, 1.0, 0.0]).unwrap();
        assert!((tau + 0.471_404_520_791_031_7).abs() < 1e-12, "{tau}");
        assert_eq!(kendall_tau_b(&[5.0, 5.0], &[1.0, 2.0]), None);
        assert_eq!(kendall_tau_b(&[1.0, 2.0], &[5.0, 5.0]), Some(0.0));
        assert_eq!((kendall_tau_b(&[1.0], &[1.0]), kendall_tau_b(&[], &[])), (None, None));
    }

    #[test]
    fn overlaps_by_hand() {
        assert_eq!(top_overlap(&[3.0, 2.0, 1.0, 0.0], &[3.0, 0.0, 2.0, 1.0], 2), Some(0.5));
        // Either of the tied two may be the second.
        assert_eq!(top_overlap(&[3.0, 1.0, 1.0, 0.0], &[3.0, 0.0, 2.0, 1.0], 2), Some(1.0));
        // Only one of the tied two may be.
        assert_eq!(top_overlap(&[3.0, 1.0, 1.0, 0.0], &[0.0, 5.0, 5.0, 0.0], 2), Some(0.5));
        assert_eq!((top_overlap(&[1.0, 2.0], &[1.0, 2.0], 2), top_overlap(&[1.0], &[1.0], 0)), (None, None));
    }

    proptest! {
        #[test]
        fn tau_b_is_that_of_the_definition((x, y) in lists(40)) {
            match (kendall_tau_b(&x, &y), naive_tau_b(&x, &y)) {
                (Some(fast), Some(naive)) => prop_assert!((fast - naive).abs() < 1e-12, "{fast} {naive}"),
                (fast, naive) => prop_assert_eq!(fast, naive),
            }
        }

        #[test]
        fn overlap_is_the_best_of_all_choices((x, y) in lists(9), k in 1usize..5) {
            prop_assume!(x.len() > k);
            prop_assert_eq!(top_overlap(&x, &y, k), Some(naive_overlap(&x, &y, k)));
        }
    }
}
