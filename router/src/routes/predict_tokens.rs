//! Classification of tokens in the form of Baseten's servers (BEI), whose route text-embeddings-inference has in a fork.

use super::Result;
use crate::state::call::Call;
use crate::wire::answer::Answer;
use crate::wire::body::Json;
use crate::wire::encode_fields::{Direction, EncodeFields};
use crate::wire::inputs::TokenTexts;
use crate::wire::pieces::JsonText;
use crate::wire::schema::TokenTextsSchema;
use prefold_core::{Aggregation, ClassifyTokens, Entity, TokenLogits};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use utoipa::ToSchema;

/// Texts whose tokens are classified, and options.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct PredictTokensBody {
    #[schema(value_type = TokenTextsSchema)]
    inputs: TokenTexts,
    /// Truncate inputs that are too long instead of rejecting them. Default: `--auto-truncate`.
    truncate: Option<bool>,
    /// Side to truncate. Default: that of the model's files, nearly always right.
    truncation_direction: Option<Direction>,
    /// Logits instead of probabilities; without aggregation those of all labels.
    raw_scores: Option<bool>,
    /// Grouping of tokens into entities. Default: none.
    aggregation_strategy: Option<Strategy>,
    /// Labels that are left out; without `B-` and `I-` if tokens are grouped. Default: `["O"]`.
    #[schema(value_type = Option<Vec<String>>)]
    ignore_labels: Option<HashSet<String>>,
    /// Priority among the requests of the same API key; lower goes first. The header `x-vllm-priority` comes before it.
    /// Default: 0.
    priority: Option<i64>,
}

/// Grouping of tokens, as in the pipeline of Hugging Face transformers.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Strategy {
    None,
    Simple,
    First,
    Average,
    Max,
}

impl From<Strategy> for Aggregation {
    fn from(strategy: Strategy) -> Self {
        match strategy {
            Strategy::None => Self::None,
            Strategy::Simple => Self::Simple,
            Strategy::First => Self::First,
            Strategy::Average => Self::Average,
            Strategy::Max => Self::Max,
        }
    }
}

/// A token, or a group of them, with its label.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TokenPrediction {
    /// The tokenizer's string for a token, the piece of the text for a group.
    token: String,
    /// 0 for a group.
    token_id: u32,
    /// First character in the text.
    start: usize,
    /// One past the last character.
    end: usize,
    /// Score by label: that of the best one, or with `raw_scores` of all labels of a token.
    results: BTreeMap<String, f32>,
}

/// The list of a single string, or one such list per text.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "described only: predictions are written one by one")]
pub(crate) enum TokenPredictions {
    Single(Vec<TokenPrediction>),
    Batch(Vec<Vec<TokenPrediction>>),
}

/// Labels of the tokens of texts
///
/// A list for each text: of tokens, or with an `aggregation_strategy` of entities. Tokens that the tokenizer puts around a text and
/// those of the labels in `ignore_labels` are left out. `start` and `end` count characters (Unicode scalar values). The list of a single
/// string is not in another list.
#[utoipa::path(
    post, path = "/predict_tokens", tag = "text-embeddings-inference", request_body = PredictTokensBody,
    responses((status = 200, description = "The tokens or entities of each text", body = TokenPredictions))
)]
pub(crate) async fn predict_tokens(app: Call, Json(body): Json<PredictTokensBody>) -> Result {
    let PredictTokensBody { inputs, truncate, truncation_direction, priority, .. } = body;
    let encode = EncodeFields { truncate, truncation_direction, priority, ..Default::default() };
    let answered = app.engine.classify_tokens(inputs.texts, encode.for_field("inputs", &app)?).await?;
    let capabilities = Arc::clone(&app.engine.info().capabilities);
    let aggregation = body.aggregation_strategy.map_or(Aggregation::None, Aggregation::from);
    let ignored = body.ignore_labels.unwrap_or_else(|| HashSet::from(["O".to_owned()]));
    let raw = body.raw_scores.unwrap_or(false);
    let predictions = move |text: TokenLogits| -> Vec<TokenPrediction> {
        let labels = capabilities.classify_tokens.as_ref().map_or(&[][..], |ClassifyTokens { labels }| labels);
        let entities = text.entities(labels, aggregation, &ignored, raw);
        entities.into_iter().map(|entity| prediction(entity, labels, raw)).collect()
    };
    Ok(Answer::json(answered, |all| match inputs.is_batch {
        true => JsonText::default().values(all.into_iter().map(predictions)),
        false => JsonText::default().values(all.into_iter().flat_map(predictions)),
    }))
}

fn prediction(entity: Entity, labels: &[String], raw: bool) -> TokenPrediction {
    let Entity { token, token_id, start, end, label, score, scores } = entity;
    let results = match raw && !scores.is_empty() {
        true => labels.iter().cloned().zip(scores).collect(),
        false => BTreeMap::from([(label, score)]),
    };
    TokenPrediction { token, token_id, start, end, results }
}
