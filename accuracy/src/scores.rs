//! Agreement of two runs of a reranker or classifier over the same inputs.

use crate::measure::{Measure, quantiles};
use crate::pass::Labels;
use crate::rank::{kendall_tau_b, top_overlap};
use crate::texts::{Item, Place, Question};
use prefold_core::RerankScore;
use serde::Serialize;

/// Agreement of a reranker's scores.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Rerank {
    pub(crate) errors: Errors,
    /// Agreement of the order of each query's documents; absent where no query has two with different scores.
    pub(crate) kendall_tau_b: Option<Measure>,
    /// Queries whose best document stays, as a part of those with several documents.
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
    /// Inputs whose best label stays, as a part of all; absent with one label.
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
    fn of<T>(reference: &[T], other: &[T], score: impl Fn(&T) -> f32, logit: impl Fn(&T) -> f32) -> Self {
        let values =
            |of: &dyn Fn(&T) -> f32| [reference, other].map(|all| all.iter().map(|one| f64::from(of(one))).collect());
        Self { scores: values(&score), logits: values(&logit) }
    }

    fn of_documents(reference: &[RerankScore], other: &[RerankScore]) -> Self {
        Self::of(reference, other, |one| one.score, |one| one.raw)
    }

    fn of_labels(reference: &Labels, other: &Labels) -> Self {
        let [reference, other] = [reference, other].map(|labels| {
            labels.scores.iter().copied().zip(labels.logits.iter().copied()).collect::<Vec<(f32, f32)>>()
        });
        Self::of(&reference, &other, |one| one.0, |one| one.1)
    }

    fn score_errors(&self) -> Vec<f64> {
        differences(&self.scores)
    }

    fn logit_errors(&self) -> Vec<f64> {
        differences(&self.logits)
    }

    /// By logits: probabilities near 1 are rounded to the same number.
    fn kendall_tau_b(&self) -> Option<f64> {
        kendall_tau_b(&self.logits[0], &self.logits[1])
    }

    /// 1 if the best one is the same, 0 if not.
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
    pub(crate) fn compare(questions: &[Question], reference: &[Vec<RerankScore>], other: &[Vec<RerankScore>]) -> Self {
        let values = reference.iter().zip(other).map(|(reference, other)| Values::of_documents(reference, other));
        let values: Vec<(&Place, Values)> = questions.iter().map(|question| &question.place).zip(values).collect();
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
    pub(crate) fn compare(items: &[Item], reference: &[Labels], other: &[Labels]) -> Self {
        let values = reference.iter().zip(other).map(|(reference, other)| Values::of_labels(reference, other));
        let values: Vec<(&Place, Values)> = items.iter().map(|item| &item.place).zip(values).collect();
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
    use prefold_core::Input;

    fn place(index: usize) -> Place {
        Place { index, line: None, text: String::new() }
    }

    fn scores(raw: &[f32]) -> Vec<RerankScore> {
        raw.iter().map(|&raw| RerankScore { raw, score: raw / 8.0 }).collect()
    }

    #[test]
    fn rerank_by_hand() {
        let question = |(index, documents): (usize, usize)| Question {
            place: place(index),
            query: String::new(),
            documents: vec![String::new(); documents],
            instruction: None,
        };
        let questions: Vec<Question> = [(1, 3), (2, 2), (3, 1)].map(question).into();
        let reference = [scores(&[1.0, 2.0, 3.0]), scores(&[2.0, 1.0]), scores(&[5.0])];
        let other = [scores(&[1.0, 2.5, 3.0]), scores(&[1.0, 2.0]), scores(&[5.25])];
        let found = Rerank::compare(&questions, &reference, &other);
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
        let item = |index| Item { place: place(index), input: Input::Text(String::new()) };
        let labels =
            |logits: &[f32]| Labels { logits: logits.to_vec(), scores: logits.iter().map(|l| l / 4.0).collect() };
        let items = [item(1), item(2)];
        let found = Classification::compare(
            &items,
            &[labels(&[1.0, 2.0]), labels(&[3.0, 0.0])],
            &[labels(&[2.5, 2.0]), labels(&[3.0, 0.5])],
        );
        assert_eq!((found.labels, found.errors.logit.unwrap().mean), (2, 0.5));
        let agreement = found.label_agreement.unwrap();
        assert_eq!((agreement.mean, agreement.worst_text.index), (0.5, 1));
        let one = Classification::compare(&items[..1], &[labels(&[1.0])], &[labels(&[2.0])]);
        assert_eq!((one.label_agreement, one.errors.score.unwrap().worst), (None, 0.25));
    }
}
