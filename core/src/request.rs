//! Requests to the engine: after the wire format, before tokens.

use crate::capabilities::Rerank;
use crate::flow::Priority;
use std::ops::Deref;
use std::sync::Arc;

/// One thing to run through the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A text, encoded with the tokenizer's special tokens.
    Text(String),
    /// A pair, joined by the tokenizer's post-processor. Other pairs may have the same first text.
    Pair(SharedText, String),
    /// Token ids as they are; nothing is added.
    Ids(Vec<u32>),
    /// A prompt of the model's [`RerankTemplate`](crate::RerankTemplate).
    Rerank {
        /// The instruction; the template's default when absent.
        instruction: Option<Arc<str>>,
        /// The query, which other documents may share.
        query: SharedText,
        /// The document; truncation shortens nothing else.
        document: String,
    },
}

impl Input {
    /// Bytes of its texts and ids.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Pair(first, second) => first.len() + second.len(),
            Self::Ids(ids) => size_of_val(ids.as_slice()),
            Self::Rerank { instruction, query, document, .. } => {
                instruction.as_ref().map_or(0, |it| it.len()) + query.len() + document.len()
            }
        }
    }

    /// True if other inputs may share a part of it, which is tokenized once.
    pub(crate) fn is_shared(&self) -> bool {
        match self {
            Self::Pair(..) | Self::Rerank { .. } => true,
            Self::Text(_) | Self::Ids(_) => false,
        }
    }
}

/// A text that several inputs of a request share: held once, and its characters are counted once. Two are equal if their
/// texts are.
#[derive(Debug, Clone, Eq)]
pub struct SharedText {
    text: Arc<str>,
    characters: usize,
    /// For messages, if it is not the place of its input.
    place: Option<Place>,
}

impl SharedText {
    /// The same text with a place of its own in the request, for messages.
    pub fn at(self, place: Place) -> Self {
        Self { place: Some(place), ..self }
    }

    /// Its own place in the request, if it has one.
    pub(crate) fn place(&self) -> Option<Place> {
        self.place
    }

    /// Number of its characters.
    pub(crate) fn characters(&self) -> usize {
        self.characters
    }
}

impl<T: Into<Arc<str>>> From<T> for SharedText {
    fn from(text: T) -> Self {
        let text = text.into();
        Self { characters: text.chars().count(), text, place: None }
    }
}

impl PartialEq for SharedText {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Deref for SharedText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

/// Place of an item in its request, for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The request's field.
    pub field: &'static str,
    /// Present when the field holds several items; counted from 0.
    pub index: Option<usize>,
}

impl Place {
    /// Items of one field, each with its place.
    pub(crate) fn each<T>(items: Vec<T>, field: &'static str) -> Vec<(Self, T)> {
        let several = items.len() > 1;
        let place = |index| Self { field, index: several.then_some(index) };
        items.into_iter().enumerate().map(|(index, item)| (place(index), item)).collect()
    }
}

/// End at which a text that is too long is truncated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TruncationDirection {
    /// The end.
    #[default]
    Right,
    /// The beginning.
    Left,
}

/// Prompt that a request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prompt {
    /// A name from the model's [`Prompts`](crate::Prompts).
    Named(String),
    /// The text itself, at most [`MAX_BYTES`](Self::MAX_BYTES) long.
    Text(String),
}

impl Prompt {
    /// Maximum bytes of a prompt's text, which is put before each input.
    pub const MAX_BYTES: usize = 16 << 10;

    /// The request's field, for messages.
    pub(crate) fn field(&self) -> &'static str {
        match self {
            Self::Named(_) => "prompt_name",
            Self::Text(_) => "prompt",
        }
    }
}

/// Choices of a request for turning inputs into tokens.
#[derive(Debug, Clone)]
pub struct EncodeOptions {
    /// Truncate inputs that are too long instead of refusing them. When absent: true with `max_tokens`, else
    /// [`EncodeLimits::auto_truncate`].
    pub truncate: Option<bool>,
    /// Maximum tokens of an input, which is truncated unless `truncate` is false, and of a pair only the second text; the model's
    /// limit when absent.
    pub max_tokens: Option<usize>,
    /// Truncate each document to this many tokens regardless of `truncate`: each text of `field`, with its prompt, but without the
    /// special tokens, the query or the template around it. Not limited when absent.
    pub max_document_tokens: Option<usize>,
    /// End to truncate; the model's default when absent.
    pub direction: Option<TruncationDirection>,
    /// Prompt for each text; the model's default prompt when absent.
    pub prompt: Option<Prompt>,
    /// Task of the texts, which selects their adapter or sub-model and, unless `prompt` is given, their prompt.
    pub task: Option<String>,
    /// Add the tokenizer's special tokens to texts.
    pub add_special_tokens: bool,
    /// Priority of the request within its account, unless the engine has one; the default priority when absent.
    pub priority: Option<Priority>,
    /// The request's field with the inputs, for messages.
    pub field: &'static str,
}

impl EncodeOptions {
    /// The defaults for inputs from `field`.
    pub fn new(field: &'static str) -> Self {
        Self {
            truncate: None,
            max_tokens: None,
            max_document_tokens: None,
            direction: None,
            prompt: None,
            task: None,
            add_special_tokens: true,
            priority: None,
            field,
        }
    }
}

/// Limits and defaults of an encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncodeLimits {
    /// Token ids must be below this.
    pub vocab_size: usize,
    /// Number of token types; with fewer than two all tokens have type 0.
    pub token_types: usize,
    /// The longest sequence in tokens.
    pub max_input_length: usize,
    /// Value of [`EncodeOptions::truncate`] when absent.
    pub auto_truncate: bool,
    /// Treatment of token ids that look like another tokenizer's.
    pub token_ids: ForeignIds,
}

/// Treatment of inputs whose token ids look like another tokenizer's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ForeignIds {
    /// The request is refused.
    Refuse,
    /// They are computed and counted in [`Usage::foreign_inputs`](crate::Usage::foreign_inputs).
    #[default]
    Count,
    /// They are computed; the only check is that the ids are in the vocabulary.
    Accept,
}

/// Choices of a request for embeddings.
#[derive(Debug, Clone)]
pub struct EmbedOptions {
    /// Choices for turning inputs into tokens.
    pub encode: EncodeOptions,
    /// Scale vectors to unit length after applying `dimensions`; when absent, as the model's own modules do, before `dimensions`.
    pub normalize: Option<bool>,
    /// Number of leading values of each vector to keep; [`Embed::default_dim`](crate::Embed::default_dim) when absent.
    pub dimensions: Option<usize>,
}

/// Queries and documents to score against each other.
#[derive(Debug, Clone)]
pub struct ScoreRequest {
    /// One query for all documents, or one for each.
    pub queries: Vec<String>,
    /// The request's field with the queries, for messages.
    pub query_field: &'static str,
    /// The documents.
    pub documents: Vec<String>,
    /// Instruction for models with a template; the template's default when absent.
    pub instruction: Option<String>,
    /// Choices for turning inputs into tokens; `field` names the documents' field.
    pub encode: EncodeOptions,
}

impl ScoreRequest {
    /// Inputs of the model, with their encoding options: a pair for each document, or the documents and then the queries if
    /// both are embedded.
    pub fn into_inputs(self, rerank: &Rerank) -> (Vec<(Place, Input)>, EncodeOptions) {
        let Self { queries, query_field, documents, instruction, encode } = self;
        if *rerank == Rerank::Cosine {
            let texts = |texts: Vec<String>, field| Place::each(texts.into_iter().map(Input::Text).collect(), field);
            let mut inputs = texts(documents, encode.field);
            inputs.extend(texts(queries, query_field));
            return (inputs, encode);
        }
        let instruction: Option<Arc<str>> = instruction.map(Arc::from);
        let queries = Place::each(queries.into_iter().map(SharedText::from).collect(), query_field);
        let queries: Vec<_> = queries.into_iter().map(|(place, query)| query.at(place)).collect();
        let input = |(query, document): (SharedText, String)| match rerank {
            Rerank::Prompt(_) => Input::Rerank { instruction: instruction.clone(), query, document },
            Rerank::Pair | Rerank::Cosine => Input::Pair(query, document),
        };
        // One query is repeated for all documents; otherwise there are as many.
        let pairs = queries.iter().cycle().cloned().zip(documents);
        (Place::each(pairs.map(input).collect(), encode.field), encode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_query_of_many_documents_is_held_once() {
        let request = ScoreRequest {
            queries: vec!["\u{fc}ber".to_owned()],
            query_field: "query",
            documents: ["a", "b", "c"].map(str::to_owned).to_vec(),
            instruction: None,
            encode: EncodeOptions::new("documents"),
        };
        let (inputs, _) = request.into_inputs(&Rerank::Pair);
        let queries: Vec<&SharedText> = inputs
            .iter()
            .map(|(_, input)| match input {
                Input::Pair(query, _) => query,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!((queries.len(), &**queries[0], queries[0].characters()), (3, "\u{fc}ber", 4));
        assert!(queries.iter().all(|query| std::ptr::eq(query.as_ptr(), queries[0].as_ptr())));
    }
}
