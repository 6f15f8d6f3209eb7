//! Agreement of two runs of a reranker or classifier over the same inputs.

use crate::answers::Scored;
use crate::measure::{Measure, quantiles};
use crate::rank::{kendall_tau_b, top_overlap};
use crate::texts::Place;
use serde::Serialize;

/// Agreement of a reranker's scores.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Rerank {
    pub(crate) errors: Errors,
    /// Rank agreement of each query's documents; absent if no query has two documents with different scores.
    pub(crate) kendall_tau_b: Option<Measure>,
    /// Fraction of the queries with several documents whose best document stays the same.
    pub(crate) top_1_agreement: Option<Measure>,
    pub(crate) queries: Vec<QueryAgreement>,
}

/// Agreement of the documents of a query.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct QueryAgreement {
    #[serde(flatten)]
    pub(crate) place: Place,
    pub(crate) documents: usize,
    pub(crate) worst_score_error: f64,
    pub(crate) worst_logit_error: f64,
    pub(crate) kendall_tau_b: Option<f64>,
    pub(crate) top_1_agreement: Option<f64>,
}

/// Agreement of a classifier's scores.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Classification {
    pub(crate) labels: usize,
    pub(crate) errors: Errors,
    /// Fraction of the inputs whose best label stays the same; absent with one label.
    pub(crate) label_agreement: Option<Measure>,
    pub(crate) inputs: Vec<InputAgreement>,
}

/// Agreement of the labels of an input.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct InputAgreement {
    #[serde(flatten)]
    pub(crate) place: Place,
    pub(crate) worst_score_error: f64,
    pub(crate) worst_logit_error: f64,
    pub(crate) label_agreement: Option<f64>,
}

/// Absolute errors, over all documents, or over all labels of all inputs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Errors {
    pub(crate) score: Option<Measure>,
    pub(crate) logit: Option<Measure>,
    /// Percentiles from the lowest to the highest.
    pub(crate) score_percentiles: Vec<f64>,
    pub(crate) logit_percentiles: Vec<f64>,
}

/// Scores and logits of a text or query, in the reference and in the other run, in the same order.
struct Values {
    scores: [Vec<f64>; 2],
    logits: [Vec<f64>; 2],
}

impl Values {
    fn of(reference: &Scored, other: &Scored) -> Self {
        let wide = |values: &Vec<f32>| values.iter().copied().map(f64::from).collect();
        Self {
            scores: [&reference.scores, &other.scores].map(wide),
            logits: [&reference.logits, &other.logits].map(wide),
        }
    }

    /// The values of each text or query.
    fn of_all<'a>(places: &[&'a Place], reference: &[Scored], other: &[Scored]) -> Vec<(&'a Place, Self)> {
        let values = reference.iter().zip(other).map(|(reference, other)| Self::of(reference, other));
        places.iter().copied().zip(values).collect()
    }

    fn score_errors(&self) -> Vec<f64> {
        differences(&self.scores)
    }

    fn logit_errors(&self) -> Vec<f64> {
        differences(&self.logits)
    }

    /// Ranked by logits: probabilities near 1 round to the same number.
    fn kendall_tau_b(&self) -> Option<f64> {
        kendall_tau_b(&self.logits[0], &self.logits[1])
    }

    /// 1 if the best one is the same, else 0.
    fn same_best(&self) -> Option<f64> {
        top_overlap(&self.logits[0], &self.logits[1], 1)
    }
}

impl Errors {
    fn of(values: &[(&Place, Values)]) -> Self {
        let measure = |errors: fn(&Values) -> Vec<f64>| {
            let measure = Measure::of_errors(values.iter().map(|(place, values)| (*place, errors(values))));
            (measure, quantiles(values.iter().flat_map(|(_, values)| errors(values)).collect()))
        };
        let (score, score_percentiles) = measure(Values::score_errors);
        let (logit, logit_percentiles) = measure(Values::logit_errors);
        Self { score, logit, score_percentiles, logit_percentiles }
    }
}

impl Rerank {
    /// Compares the scores of each query's documents with their references.
    pub(crate) fn compare(places: &[&Place], reference: &[Scored], other: &[Scored]) -> Self {
        let values = Values::of_all(places, reference, other);
        let agreement = |(place, values): &(&Place, Values)| QueryAgreement {
            place: (*place).clone(),
            documents: values.scores[0].len(),
            worst_score_error: largest(&values.score_errors()),
            worst_logit_error: largest(&values.logit_errors()),
            kendall_tau_b: values.kendall_tau_b(),
            top_1_agreement: values.same_best(),
        };
        let queries: Vec<QueryAgreement> = values.iter().map(agreement).collect();
        let measure = |value: fn(&QueryAgreement) -> Option<f64>| {
            Measure::of_agreement(queries.iter().map(|query| (&query.place, value(query))))
        };
        Self {
            errors: Errors::of(&values),
            kendall_tau_b: measure(|query| query.kendall_tau_b),
            top_1_agreement: measure(|query| query.top_1_agreement),
            queries,
        }
    }
}

impl Classification {
    /// Compares the labels of each input with their references.
    pub(crate) fn compare(places: &[&Place], reference: &[Scored], other: &[Scored]) -> Self {
        let values = Values::of_all(places, reference, other);
        let agreement = |(place, values): &(&Place, Values)| InputAgreement {
            place: (*place).clone(),
            worst_score_error: largest(&values.score_errors()),
            worst_logit_error: largest(&values.logit_errors()),
            label_agreement: values.same_best(),
        };
        let inputs: Vec<InputAgreement> = values.iter().map(agreement).collect();
        Self {
            labels: reference.first().map_or(0, |labels| labels.logits.len()),
            errors: Errors::of(&values),
            label_agreement: Measure::of_agreement(inputs.iter().map(|input| (&input.place, input.label_agreement))),
            inputs,
        }
    }
}

fn differences([reference, other]: &[Vec<f64>; 2]) -> Vec<f64> {
    reference.iter().zip(other).map(|(reference, other)| (reference - other).abs()).collect()
}

fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(count: usize) -> Vec<Place> {
        (1..=count).map(|index| Place { index, line: None, text: String::new() }).collect()
    }

    fn scored(logits: &[f32]) -> Scored {
        Scored { logits: logits.to_vec(), scores: logits.iter().map(|logit| logit / 8.0).collect() }
    }

    #[test]
    fn rerank_by_hand() {
        let reference = [scored(&[1.0, 2.0, 3.0]), scored(&[2.0, 1.0]), scored(&[5.0])];
        let other = [scored(&[1.0, 2.5, 3.0]), scored(&[1.0, 2.0]), scored(&[5.25])];
        let found = Rerank::compare(&places(3).iter().collect::<Vec<_>>(), &reference, &other);
        let logit = found.errors.logit.unwrap();
        assert_eq!((logit.mean, logit.worst, logit.worst_text.index), ((0.5 + 2.0 + 0.25) / 6.0, 1.0, 2));
        let score = found.errors.score.unwrap();
        assert_eq!((score.worst, found.errors.score_percentiles.len()), (0.125, 6));
        let tau = found.kendall_tau_b.unwrap();
        assert_eq!((tau.mean, tau.worst, tau.worst_text.index), (0.0, -1.0, 2), "the third query has no order");
        assert_eq!(found.top_1_agreement.unwrap().mean, 0.5);
        let queries: Vec<_> = found.queries.iter().map(|query| (query.documents, query.worst_logit_error)).collect();
        assert_eq!(queries, [(3, 0.5), (2, 1.0), (1, 0.25)]);
    }

    #[test]
    fn classification_by_hand() {
        let places = places(2);
        let places: Vec<&Place> = places.iter().collect();
        let found = Classification::compare(
            &places,
            &[scored(&[1.0, 2.0]), scored(&[3.0, 0.0])],
            &[scored(&[2.5, 2.0]), scored(&[3.0, 0.5])],
        );
        assert_eq!((found.labels, found.errors.logit.unwrap().mean), (2, 0.5));
        let agreement = found.label_agreement.unwrap();
        assert_eq!((agreement.mean, agreement.worst_text.index), (0.5, 1));
        let one = Classification::compare(&places[..1], &[scored(&[1.0])], &[scored(&[2.0])]);
        assert_eq!((one.label_agreement, one.errors.score.unwrap().worst), (None, 0.125));
    }
}
