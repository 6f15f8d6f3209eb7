//! Summaries of many values, with the text that has the worst.

use crate::texts::Place;
use serde::Serialize;

/// Mean and worst value, and the text that has the worst.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Measure {
    pub(crate) mean: f64,
    pub(crate) worst: f64,
    /// The first text with the worst value.
    pub(crate) worst_text: Place,
}

impl Measure {
    /// Summary of agreements; the lowest is the worst. Absent values are ignored; `None` if all are absent.
    pub(crate) fn of_agreement<'a>(values: impl Iterator<Item = (&'a Place, Option<f64>)>) -> Option<Self> {
        let values = values.filter_map(|(place, value)| Some((place, vec![value?])));
        Self::of(values, |value, worst| value < worst)
    }

    /// Summary of errors; the highest is the worst, and a text may have several. `None` without errors.
    pub(crate) fn of_errors<'a>(values: impl Iterator<Item = (&'a Place, Vec<f64>)>) -> Option<Self> {
        Self::of(values, |value, worst| value > worst)
    }

    fn of<'a>(values: impl Iterator<Item = (&'a Place, Vec<f64>)>, is_worse: fn(f64, f64) -> bool) -> Option<Self> {
        let (mut count, mut sum, mut worst) = (0_usize, 0.0, None::<(f64, &Place)>);
        for (place, values) in values {
            for value in values {
                (count, sum) = (count + 1, sum + value);
                worst = worst.filter(|(worst, _)| !is_worse(value, *worst)).or(Some((value, place)));
            }
        }
        let (worst, place) = worst?;
        Some(Self { mean: sum / count as f64, worst, worst_text: place.clone() })
    }
}

/// Up to 101 values of a distribution, from the lowest to the highest, in equal steps of rank.
pub(crate) fn quantiles(mut values: Vec<f64>) -> Vec<f64> {
    const STEPS: usize = 100;
    values.sort_by(f64::total_cmp);
    match values.len() {
        0..=STEPS => values,
        count => (0..=STEPS).map(|step| values[step * (count - 1) / STEPS]).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(index: usize) -> Place {
        Place { index, line: None, text: String::new() }
    }

    #[test]
    fn mean_and_worst_by_hand() {
        let places: Vec<Place> = (1..=4).map(place).collect();
        let agreement = |values: [Option<f64>; 4]| Measure::of_agreement(places.iter().zip(values));
        let found = agreement([Some(0.5), None, Some(0.25), Some(0.25)]).unwrap();
        assert_eq!((found.mean, found.worst, found.worst_text.index), (1.0 / 3.0, 0.25, 3));
        assert_eq!(agreement([None; 4]), None);
        let errors = places.iter().zip([vec![1.0, 2.0], vec![6.0], vec![], vec![-1.0]]);
        let found = Measure::of_errors(errors).unwrap();
        assert_eq!((found.mean, found.worst, found.worst_text.index), (2.0, 6.0, 2));
    }

    #[test]
    fn quantiles_have_both_ends() {
        assert_eq!(quantiles(vec![3.0, 1.0, 2.0]), [1.0, 2.0, 3.0]);
        let many = quantiles((0..1001).rev().map(f64::from).collect());
        assert_eq!((many.len(), many[0], many[1], many[100]), (101, 0.0, 10.0, 1000.0));
    }
}
