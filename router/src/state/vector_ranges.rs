//! Ranges of a model's vectors, for quantization to eight bits.
//!
//! With a range from the vectors of a request, a vector would depend on its neighbours, and vectors of two requests
//! could not be compared. So the ranges are measured once, on built-in texts, when a request first needs one.

use prefold_core::{EmbedOptions, EncodeOptions, Engine, Error, Input};
use tokio::sync::OnceCell;

/// Texts of several kinds and languages, one in each line.
const TEXTS: &str = include_str!("../../assets/range-texts.txt");

/// Field of the built-in texts, for messages.
const FIELD: &str = "built-in texts";

/// Largest absolute value in the unit vectors of the built-in texts, for each number of values to which vectors may be truncated.
#[derive(Debug, Default)]
pub(crate) struct VectorRanges(OnceCell<Vec<f32>>);

impl VectorRanges {
    /// Range of unit vectors of `dimensions` values, rounded up to two digits; 1 for a number of values that no vector has. The first
    /// caller's `engine` embeds the texts, and other callers wait for it.
    ///
    /// # Errors
    /// The errors of [`Engine::embed`]; the next caller tries again.
    pub(crate) async fn of(&self, dimensions: usize, engine: &Engine) -> Result<f32, Error> {
        let ranges = self.0.get_or_try_init(|| measure(engine)).await?;
        Ok(at(ranges, dimensions).unwrap_or(1.0))
    }

    /// True once the ranges have been measured.
    pub(crate) fn are_known(&self) -> bool {
        self.0.initialized()
    }

    /// The range once it has been measured.
    pub(crate) fn known(&self, dimensions: usize) -> Option<f32> {
        self.0.get().and_then(|ranges| at(ranges, dimensions))
    }
}

fn at(ranges: &[f32], dimensions: usize) -> Option<f32> {
    ranges.get(dimensions.checked_sub(1)?).copied()
}

async fn measure(engine: &Engine) -> Result<Vec<f32>, Error> {
    let encode = EncodeOptions { truncate: Some(true), ..EncodeOptions::new(FIELD) };
    let dimensions = engine.info().capabilities.embed.as_ref().map(|embed| embed.dim);
    let options = EmbedOptions { encode, normalize: Some(true), dimensions };
    let inputs = TEXTS.lines().map(|text| Input::Text(text.to_owned())).collect();
    Ok(ranges(&engine.embed(inputs, options).await?.results))
}

/// Range for each number of leading values, which are scaled to unit length.
fn ranges(vectors: &[Vec<f32>]) -> Vec<f32> {
    let mut ranges = vec![0.0f64; vectors.first().map_or(0, Vec::len)];
    for vector in vectors {
        let (mut largest, mut squares) = (0.0f64, 0.0f64);
        for (range, &value) in ranges.iter_mut().zip(vector) {
            let value = f64::from(value);
            largest = largest.max(value.abs());
            squares += value * value;
            if squares > 0.0 {
                *range = range.max(largest / squares.sqrt());
            }
        }
    }
    ranges.into_iter().map(rounded_up).collect()
}

/// The range with two digits, so that CPUs whose kernels round differently agree on it; 1 if all vectors are zero.
fn rounded_up(range: f64) -> f32 {
    if range <= 0.0 {
        return 1.0;
    }
    let step = 10.0f64.powf(range.log10().floor() - 1.0);
    // Without what the last bits add to a range of two digits.
    ((range / step - 1e-6).ceil() * step).min(1.0) as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{DIM, Setup, embedding};

    #[test]
    fn a_range_is_that_of_the_truncated_vectors() {
        let vectors = [vec![0.6, 0.0, -0.8], vec![0.0, 0.0, 0.0], vec![-0.28, 0.96, 0.0]];
        // Of the first two values: 1 and 0, and -0.28 and 0.96.
        assert_eq!(ranges(&vectors), [1.0, 1.0, 0.96]);
        assert_eq!(ranges(&[vec![0.5, 0.5, 0.5, 0.5]]), [1.0, 0.71, 0.58, 0.5]);
        assert_eq!(ranges(&[vec![0.0; 2]]), [1.0, 1.0]);
        assert_eq!([0.123, 0.12, 0.0999, 0.00101].map(rounded_up), [0.13, 0.12, 0.1, 0.0011]);
    }

    #[tokio::test]
    async fn ranges_are_measured_once() {
        let app = Setup::new(embedding()).build();
        let model = app.models.default();
        assert_eq!(model.ranges.known(DIM), None);
        let range = model.ranges.of(DIM, &model.engine).await.unwrap();
        assert!(range > 0.0 && range <= 1.0, "{range}");
        assert_eq!(model.ranges.known(DIM), Some(range));
        model.engine.shutdown().await;
        assert_eq!(model.ranges.of(DIM, &model.engine).await.unwrap(), range);
        assert_eq!([0, DIM + 1].map(|dimensions| model.ranges.known(dimensions)), [None, None]);
    }

    #[test]
    fn the_texts_are_distinct_and_short() {
        let mut texts: Vec<&str> = TEXTS.lines().collect();
        assert!(texts.len() == 32 && texts.iter().all(|text| (1..=100).contains(&text.len())));
        texts.sort_unstable();
        assert!(texts.is_sorted_by(|a, b| a < b));
    }
}
