//! Token classification in the format of Baseten's servers (BEI), which run a fork of text-embeddings-inference.

use super::Result;
use crate::state::call::Head;
use crate::wire::answer::Answer;
use crate::wire::body::Json;
use crate::wire::inputs::TokenTexts;
use crate::wire::json_writer::write_float;
use crate::wire::name_list::NameList;
use crate::wire::pieces::{JsonText, write_value};
use crate::wire::request_body::request_body;
use crate::wire::schema::TokenTextsSchema;
use prefold_core::{Aggregation, Capabilities, ClassifyTokens, Entities, Entity, Pauses, Step, TokenLogits};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::Arc;
use utoipa::ToSchema;

/// Labels whose logits are written at each step: some tens of microseconds.
const LABELS_OF_STEP: usize = 512;

/// Units of work to look up a name, in addition to its bytes.
const OF_NAME: usize = 32;

request_body! {
    /// Texts whose tokens to classify, and options.
    pub(crate) struct PredictTokensBody: truncation {
        #[schema(value_type = TokenTextsSchema)]
        inputs: TokenTexts,
        /// Logits instead of probabilities; without aggregation, the logits of all labels.
        raw_scores: Option<bool>,
        /// Grouping of tokens into entities. Default: none.
        aggregation_strategy: Option<Strategy>,
        /// Labels to leave out, without `B-` and `I-` if tokens are grouped. Default: `["O"]`.
        #[schema(value_type = Option<Vec<String>>)]
        ignore_labels: Option<NameList>,
        /// Parameters of Hugging Face's pipelines.
        parameters: Option<TokenParameters>,
    }
}

/// Parameters of a pipeline. Fields of the same names outside it come first.
#[derive(Debug, Default, Deserialize, ToSchema)]
struct TokenParameters {
    /// Grouping of tokens into entities. Default: none.
    aggregation_strategy: Option<Strategy>,
    /// Labels to leave out, without `B-` and `I-` if tokens are grouped. Default: `["O"]`.
    #[schema(value_type = Option<Vec<String>>)]
    ignore_labels: Option<NameList>,
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
pub(crate) struct TokenPrediction<'a> {
    /// The tokenizer's string for a token, the piece of the text for a group.
    token: &'a str,
    /// 0 for a group.
    token_id: u32,
    /// First character in the text.
    start: usize,
    /// One past the last character.
    end: usize,
    /// Scores by label: of the best label only, or with `raw_scores` of all labels of a token.
    #[schema(value_type = BTreeMap<String, f32>)]
    results: BTreeMap<&'a str, f32>,
}

/// A token, or a group of them, in the format of Hugging Face's pipelines.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PipelineEntity<'a> {
    /// Label of a token.
    #[serde(skip_serializing_if = "Option::is_none")]
    entity: Option<&'a str>,
    /// Label of a group.
    #[serde(skip_serializing_if = "Option::is_none")]
    entity_group: Option<&'a str>,
    score: f32,
    /// The tokenizer's string for a token, the piece of the text for a group.
    word: &'a str,
    /// First character in the text.
    start: usize,
    /// One past the last character.
    end: usize,
}

/// The list of a single string, or one such list per text.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "described only: predictions are written one by one")]
pub(crate) enum TokenPredictions<'a> {
    Single(Vec<TokenPrediction<'a>>),
    Batch(Vec<Vec<TokenPrediction<'a>>>),
    Pipeline(Vec<PipelineEntity<'a>>),
    PipelineBatch(Vec<Vec<PipelineEntity<'a>>>),
}

/// Labels of the tokens of texts
///
/// A list for each text: of its tokens, or of entities with an `aggregation_strategy`. Special tokens around a text and
/// tokens with a label in `ignore_labels` are left out. `start` and `end` count characters (Unicode scalar values). For
/// a single string, the response is its list. With `parameters`, which Hugging Face's `InferenceClient` always sends, the
/// items have the format of Hugging Face's pipelines.
#[utoipa::path(
    post, path = "/predict_tokens", tag = "text-embeddings-inference",
    request_body(content = PredictTokensBody, example = json!({ "inputs": ["Honey bees dance in Bremen."], "aggregation_strategy": "simple" })),
    responses((status = 200, description = "The tokens or entities of each text", body = TokenPredictions))
)]
pub(crate) async fn predict_tokens(head: Head, Json(mut body): Json<PredictTokensBody>) -> Result {
    let call = head.for_default();
    let encode = body.encode_fields().for_field("inputs", &call)?;
    let answered = call.engine.classify_tokens(body.inputs.texts.into_vec(), encode).await?;
    let is_pipeline = body.parameters.is_some();
    let parameters = body.parameters.unwrap_or_default();
    let strategy = body.aggregation_strategy.or(parameters.aggregation_strategy);
    let aggregation = strategy.map_or(Aggregation::None, Aggregation::from);
    let ignored = body.ignore_labels.or(parameters.ignore_labels);
    let ignored = ignored.unwrap_or_else(|| NameList::from_iter(["O"]));
    let writer = Writer { is_pipeline, ..Writer::new(&call.engine.info().capabilities, aggregation, &ignored).await };
    let raw = body.raw_scores.unwrap_or(false);
    let predictions = move |text: TokenLogits| writer.clone().list(text.entities(aggregation, raw), raw);
    Ok(Answer::json(answered, |all| {
        if body.inputs.is_batch {
            JsonText::default().list_of(all, predictions)
        } else {
            all.into_iter().map(predictions).fold(JsonText::default(), JsonText::steps)
        }
    }))
}

/// Writer of predictions by the names of the labels.
#[derive(Clone)]
struct Writer {
    capabilities: Arc<Capabilities>,
    aggregation: Aggregation,
    /// For each label, whether its entities are left out.
    is_ignored: Arc<[bool]>,
    /// Entities have the format of Hugging Face's pipelines.
    is_pipeline: bool,
}

impl Writer {
    /// Looks up once for each label whether it is ignored, with pauses.
    async fn new(capabilities: &Arc<Capabilities>, aggregation: Aggregation, ignored: &NameList) -> Self {
        let mut pauses = Pauses::default();
        let mut names = HashSet::with_capacity(ignored.len());
        for name in ignored.iter() {
            pauses.after(OF_NAME + name.len()).await;
            names.insert(name);
        }
        let mut is_ignored = Vec::new();
        for label in labels(capabilities) {
            let name = aggregation.name_of(label);
            pauses.after(OF_NAME + name.len()).await;
            is_ignored.push(names.contains(name));
        }
        let capabilities = Arc::clone(capabilities);
        Self { capabilities, aggregation, is_ignored: is_ignored.into(), is_pipeline: false }
    }

    /// Writes the list of entities. A step writes an entity, or [`LABELS_OF_STEP`] labels of one.
    fn list(self, mut search: Entities, raw: bool) -> impl FnMut(&mut String) -> bool + Send {
        let mut before = "[";
        let mut open: Option<(Entity, usize)> = None;
        move |out| {
            if let Some((entity, label)) = open {
                let next = label + LABELS_OF_STEP;
                open = self.scores(out, &search, &entity, label..next).then_some((entity, next));
                return true;
            }
            match search.step(labels(&self.capabilities)) {
                Step::Working => {}
                Step::Found(entity) if self.is_ignored.get(entity.label).is_some_and(|&ignored| ignored) => {}
                Step::Found(entity) => {
                    out.push_str(before);
                    before = ",";
                    if self.is_pipeline {
                        self.pipeline_entity(out, &mut search, &entity);
                        return true;
                    }
                    head(out, &mut search, &entity);
                    if raw && search.logits(&entity).is_some() {
                        open = Some((entity, 0));
                    } else {
                        let label = labels(&self.capabilities).get(entity.label).map_or("", String::as_str);
                        score(out, self.aggregation.name_of(label), entity.score);
                        out.push_str("}}");
                    }
                }
                Step::Done => {
                    out.push_str(if before == "[" { "[]" } else { "]" });
                    return false;
                }
            }
            true
        }
    }

    /// Writes an entity in the format of a pipeline.
    fn pipeline_entity(&self, out: &mut String, search: &mut Entities, entity: &Entity) {
        let (start, end) = search.range(entity);
        let label = self.aggregation.name_of(labels(&self.capabilities).get(entity.label).map_or("", String::as_str));
        let is_group = !matches!(self.aggregation, Aggregation::None);
        let (group, token) = if is_group { (Some(label), None) } else { (None, Some(label)) };
        let (score, word) = (entity.score, search.token(entity));
        write_value(out, &PipelineEntity { entity: token, entity_group: group, score, word, start, end });
    }

    /// Writes some of the logits of a token, in the order of the labels' names; false with the last.
    fn scores(&self, out: &mut String, search: &Entities, token: &Entity, places: Range<usize>) -> bool {
        let Some(ClassifyTokens { labels, by_name }) = &self.capabilities.classify_tokens else { return false };
        let logits = search.logits(token).unwrap_or(&[]);
        for place in places {
            let named = by_name.get(place).map(|&index| index as usize);
            let Some((label, &logit)) = named.and_then(|index| labels.get(index).zip(logits.get(index))) else {
                out.push_str("}}");
                return false;
            };
            if place > 0 {
                out.push(',');
            }
            score(out, label, logit);
        }
        true
    }
}

/// Writes an entity up to its scores, as serde writes the fields of a [`TokenPrediction`].
fn head(out: &mut String, search: &mut Entities, entity: &Entity) {
    let (token_id, (start, end)) = (search.token_id(entity), search.range(entity));
    let frame = TokenPrediction { token: search.token(entity), token_id, start, end, results: BTreeMap::new() };
    let whole = out.len();
    write_value(out, &frame);
    // Without the end of the results and of the object.
    out.truncate(out.len().saturating_sub("}}".len()).max(whole));
}

fn score(out: &mut String, label: &str, score: f32) {
    write_value(out, &label);
    out.push(':');
    write_float(out, score);
}

/// Names of the labels of tokens; none unless the model classifies tokens.
fn labels(capabilities: &Capabilities) -> &[String] {
    capabilities.classify_tokens.as_ref().map_or(&[], |ClassifyTokens { labels, .. }| labels)
}
