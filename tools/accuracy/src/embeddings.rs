//! Agreement of two runs of an embedding model over the same texts.

use crate::measure::{Measure, quantiles};
use crate::rank::{kendall_tau_b, top_overlap};
use crate::texts::Place;
use rayon::prelude::*;
use serde::Serialize;

/// Number of nearest texts that are compared.
pub(crate) const TOP: usize = 10;

/// Agreement of the vectors.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Embeddings {
    /// Cosine of each text's vector with its reference.
    pub(crate) cosine: Option<Measure>,
    /// Change of the similarity of two texts.
    pub(crate) similarity_error: SimilarityError,
    /// Rank agreement of the other texts, ordered by similarity to each text.
    pub(crate) kendall_tau_b: Option<Measure>,
    /// Fraction of the ten nearest texts of each text that stay among its ten nearest; absent with fewer than twelve texts.
    pub(crate) top_10_overlap: Option<Measure>,
    pub(crate) texts: Vec<TextAgreement>,
}

/// Agreement of one text.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct TextAgreement {
    #[serde(flatten)]
    pub(crate) place: Place,
    pub(crate) cosine: f64,
    pub(crate) kendall_tau_b: Option<f64>,
    pub(crate) top_10_overlap: Option<f64>,
}

/// Absolute difference of the cosines of pairs of texts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct SimilarityError {
    pub(crate) pairs: usize,
    pub(crate) mean: f64,
    pub(crate) worst: f64,
    /// The two texts of the worst pair.
    pub(crate) worst_texts: Option<[Place; 2]>,
    /// Percentiles from the lowest to the highest.
    pub(crate) percentiles: Vec<f64>,
}

impl Embeddings {
    /// Compares `[texts, dim]` vectors with their references.
    pub(crate) fn compare(places: &[&Place], reference: &[Vec<f32>], other: &[Vec<f32>]) -> Self {
        let (reference, other) = (unit(reference), unit(other));
        let (reference_rows, other_rows) = (similarities(&reference), similarities(&other));
        let agreement = |(index, place): (usize, &&Place)| {
            let without_itself = |row: &[f64]| [&row[..index], &row[index + 1..]].concat();
            let rows = [&reference_rows, &other_rows].map(|rows| without_itself(&rows[index]));
            TextAgreement {
                place: (*place).clone(),
                // Rounding may give more than 1.
                cosine: dot(&reference[index], &other[index]).min(1.0),
                kendall_tau_b: kendall_tau_b(&rows[0], &rows[1]),
                top_10_overlap: top_overlap(&rows[0], &rows[1], TOP),
            }
        };
        let texts: Vec<TextAgreement> = places.par_iter().enumerate().map(agreement).collect();
        let measure = |value: fn(&TextAgreement) -> Option<f64>| {
            Measure::of_agreement(texts.iter().map(|text| (&text.place, value(text))))
        };
        Self {
            cosine: measure(|text| Some(text.cosine)),
            similarity_error: SimilarityError::of(places, &reference_rows, &other_rows),
            kendall_tau_b: measure(|text| text.kendall_tau_b),
            top_10_overlap: measure(|text| text.top_10_overlap),
            texts,
        }
    }
}

impl SimilarityError {
    fn of(places: &[&Place], reference: &[Vec<f64>], other: &[Vec<f64>]) -> Self {
        let mut errors = Vec::with_capacity(places.len() * places.len().saturating_sub(1) / 2);
        let mut worst = (0.0, None);
        for (first, rows) in reference.iter().zip(other).enumerate() {
            for second in first + 1..places.len() {
                let error = (rows.0[second] - rows.1[second]).abs();
                if error > worst.0 || worst.1.is_none() {
                    worst = (error, Some([first, second]));
                }
                errors.push(error);
            }
        }
        Self {
            pairs: errors.len(),
            mean: errors.iter().sum::<f64>() / errors.len() as f64,
            worst: worst.0,
            worst_texts: worst.1.map(|pair| pair.map(|index| places[index].clone())),
            percentiles: quantiles(errors),
        }
    }
}

/// The vectors in double precision, scaled to length 1; a zero vector stays zero.
fn unit(vectors: &[Vec<f32>]) -> Vec<Vec<f64>> {
    let unit = |vector: &Vec<f32>| {
        let vector: Vec<f64> = vector.iter().map(|&value| f64::from(value)).collect();
        let length = dot(&vector, &vector).sqrt();
        vector.into_iter().map(|value| if length > 0.0 { value / length } else { 0.0 }).collect()
    };
    vectors.iter().map(unit).collect()
}

/// Cosines of all pairs of vectors: `[texts, texts]`.
fn similarities(vectors: &[Vec<f64>]) -> Vec<Vec<f64>> {
    vectors.par_iter().map(|query| vectors.iter().map(|vector| dot(query, vector)).collect()).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(count: usize) -> Vec<Place> {
        (1..=count).map(|index| Place { index, line: None, text: String::new() }).collect()
    }

    fn compare(reference: &[Vec<f32>], other: &[Vec<f32>]) -> Embeddings {
        Embeddings::compare(&places(reference.len()).iter().collect::<Vec<_>>(), reference, other)
    }

    /// Vectors in a plane, by their angles in degrees.
    fn plane(angles: &[f32]) -> Vec<Vec<f32>> {
        angles.iter().map(|angle| vec![3.0 * angle.to_radians().cos(), 3.0 * angle.to_radians().sin()]).collect()
    }

    #[test]
    fn angles_in_a_plane() {
        // The third moves by 60 degrees; in the rankings of the first two it changes places with the fourth.
        let (reference, other) = (plane(&[0.0, 10.0, 30.0, 65.0]), plane(&[0.0, 10.0, 90.0, 65.0]));
        let found = compare(&reference, &other);
        let cosine = found.cosine.unwrap();
        assert!((cosine.worst - 0.5).abs() < 1e-6 && (cosine.mean - 0.875).abs() < 1e-6);
        assert_eq!(cosine.worst_text.index, 3);
        let tau: Vec<f64> = found.texts.iter().map(|text| text.kendall_tau_b.unwrap()).collect();
        // Of the three pairs of other texts, one changes order in the rankings of the first and the second, two in the third's, none in
        // the fourth's.
        let third = 1.0 / 3.0;
        assert!(
            tau.iter().zip([third, third, -third, 1.0]).all(|(tau, by_hand)| (tau - by_hand).abs() < 1e-12),
            "{tau:?}"
        );
        let error = found.similarity_error;
        let cos = |degrees: f64| degrees.to_radians().cos();
        assert_eq!((error.pairs, error.percentiles.len()), (6, 6));
        assert!((error.worst - (cos(30.0) - cos(90.0))).abs() < 1e-6, "{error:?}");
        assert_eq!(error.worst_texts.unwrap().map(|place| place.index), [1, 3]);
        assert_eq!(found.top_10_overlap, None);
    }

    #[test]
    fn the_same_vectors_agree_and_opposite_ones_do_not() {
        let vectors = plane(&(0..12).map(|angle| 7.0 * angle as f32).collect::<Vec<_>>());
        let same = compare(&vectors, &vectors);
        let worst = |measure: &Option<Measure>| measure.as_ref().unwrap().worst;
        assert!((worst(&same.cosine) - 1.0).abs() < 1e-15);
        assert_eq!(
            (worst(&same.kendall_tau_b), worst(&same.top_10_overlap), same.similarity_error.worst),
            (1.0, 1.0, 0.0)
        );
        let collapsed = vec![vec![1.0, 0.0]; 12];
        let none = compare(&vectors, &collapsed);
        assert_eq!(worst(&none.kendall_tau_b), 0.0);
    }
}
