//! TEI's embedding routes: `/embed`, `/embed_all`, `/similarity`.

use super::Result;
use crate::answer::Answer;
use crate::app::App;
use crate::extract::{Direction, EncodeFields, Inputs, Json};
use crate::wire::{write_floats, write_list, write_vectors};
use axum::extract::State;
use prefold_core::{EmbedOptions, Input};
use serde::Deserialize;

/// `POST /embed`
#[derive(Debug, Deserialize)]
pub(crate) struct EmbedBody {
    inputs: Inputs,
    truncate: Option<bool>,
    truncation_direction: Option<Direction>,
    prompt_name: Option<String>,
    /// True when absent.
    normalize: Option<bool>,
    dimensions: Option<usize>,
}

/// `POST /embed`: a list of vectors, also for a single input.
pub(crate) async fn embed(State(app): State<App>, Json(body): Json<EmbedBody>) -> Result {
    let EmbedBody { inputs, truncate, truncation_direction, prompt_name, normalize, dimensions } = body;
    let encode = EncodeFields { truncate, truncation_direction, prompt_name, ..Default::default() };
    let options = EmbedOptions { encode: encode.for_field("inputs"), normalize: normalize.unwrap_or(true), dimensions };
    let answered = app.engine.embed(inputs.0, options).await?;
    Ok(Answer::written(&answered, |out| write_vectors(out, &answered.results)))
}

/// `POST /embed_all`
#[derive(Debug, Deserialize)]
pub(crate) struct EmbedAllBody {
    inputs: Inputs,
    truncate: Option<bool>,
    truncation_direction: Option<Direction>,
    prompt_name: Option<String>,
}

/// `POST /embed_all`: for each input a vector for each token.
pub(crate) async fn embed_all(State(app): State<App>, Json(body): Json<EmbedAllBody>) -> Result {
    let EmbedAllBody { inputs, truncate, truncation_direction, prompt_name } = body;
    let encode = EncodeFields { truncate, truncation_direction, prompt_name, ..Default::default() };
    let answered = app.engine.embed_tokens(inputs.0, encode.for_field("inputs")).await?;
    Ok(Answer::written(&answered, |out| {
        write_list(out, &answered.results, |out, vectors| write_vectors(out, vectors));
    }))
}

/// `POST /similarity`
#[derive(Debug, Deserialize)]
pub(crate) struct SimilarityBody {
    inputs: SimilarityInputs,
    parameters: Option<SimilarityParameters>,
}

#[derive(Debug, Deserialize)]
struct SimilarityInputs {
    source_sentence: String,
    sentences: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
struct SimilarityParameters {
    truncate: Option<bool>,
    truncation_direction: Option<Direction>,
    prompt_name: Option<String>,
}

/// `POST /similarity`: the cosine of the source sentence with each of the others.
pub(crate) async fn similarity(State(app): State<App>, Json(body): Json<SimilarityBody>) -> Result {
    let SimilarityInputs { source_sentence, sentences } = body.inputs;
    let SimilarityParameters { truncate, truncation_direction, prompt_name } = body.parameters.unwrap_or_default();
    if sentences.is_empty() {
        let problem = "is empty, at least one sentence is needed".to_owned();
        return Err(prefold_core::Error::Empty { field: "sentences", problem }.into());
    }
    let encode = EncodeFields { truncate, truncation_direction, prompt_name, ..Default::default() };
    let options = EmbedOptions { encode: encode.for_field("sentences"), normalize: true, dimensions: None };
    let inputs = std::iter::once(source_sentence).chain(sentences).map(Input::Text).collect();
    let answered = app.engine.embed(inputs, options).await?.map(|vectors| match vectors.split_first() {
        Some((source, others)) => others.iter().map(|other| dot(source, other)).collect(),
        None => Vec::new(),
    });
    Ok(Answer::written(&answered, |out| write_floats(out, &answered.results)))
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>() as f32
}
