//! TEI's classification route: `/predict`.

use super::Result;
use crate::answer::Answer;
use crate::app::App;
use crate::extract::{Direction, EncodeFields, Json, Sequences};
use axum::extract::State;
use prefold_core::{ModelKind, sigmoid, softmax};
use serde::{Deserialize, Serialize};

/// `POST /predict`
#[derive(Debug, Deserialize)]
pub(crate) struct PredictBody {
    inputs: Sequences,
    truncate: Option<bool>,
    truncation_direction: Option<Direction>,
    prompt_name: Option<String>,
    /// Logits in place of probabilities.
    raw_scores: Option<bool>,
}

/// A label and how likely it is.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Prediction {
    score: f32,
    label: String,
}

/// `POST /predict`: the labels of a text or pair, the likeliest first; a list of such lists for a batch.
pub(crate) async fn predict(State(app): State<App>, Json(body): Json<PredictBody>) -> Result {
    let PredictBody { inputs, truncate, truncation_direction, prompt_name, raw_scores } = body;
    let encode = EncodeFields { truncate, truncation_direction, prompt_name, ..Default::default() };
    let answered = app.engine.classify(inputs.inputs, encode.for_field("inputs")).await?;
    let labels = match &app.engine.info().kind {
        ModelKind::Classifier { labels } => labels.as_slice(),
        ModelKind::Embedding { .. } | ModelKind::Reranker => &[],
    };
    let predict = |logits: &Vec<f32>| predictions(logits, labels, raw_scores.unwrap_or(false));
    let predictions: Vec<_> = answered.results.iter().map(predict).collect();
    Ok(match (inputs.is_batch, predictions.first()) {
        (false, Some(single)) => Answer::json(&answered, single),
        _ => Answer::json(&answered, &predictions),
    })
}

fn predictions(logits: &[f32], labels: &[String], raw: bool) -> Vec<Prediction> {
    let scores = match logits {
        _ if raw => logits.to_vec(),
        [logit] => vec![sigmoid(*logit)],
        _ => softmax(logits),
    };
    let label = |index| labels.get(index).cloned().unwrap_or_else(|| format!("LABEL_{index}"));
    let mut predictions: Vec<_> =
        scores.into_iter().enumerate().map(|(index, score)| Prediction { score, label: label(index) }).collect();
    predictions.sort_by(|a, b| b.score.total_cmp(&a.score));
    predictions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_probabilities_unless_raw() {
        let labels = ["no".to_owned(), "yes".to_owned()];
        let raw = predictions(&[-1.0, 2.0], &labels, true);
        assert_eq!(raw[0], Prediction { score: 2.0, label: "yes".to_owned() });
        let soft = predictions(&[-1.0, 2.0], &labels, false);
        assert!((soft[0].score + soft[1].score - 1.0).abs() < 1e-6 && soft[0].label == "yes");
        assert_eq!(predictions(&[0.0], &labels, false), [Prediction { score: 0.5, label: "no".to_owned() }]);
        assert_eq!(predictions(&[0.0, 1.0, 2.0], &labels, false)[0].label, "LABEL_2");
    }
}
