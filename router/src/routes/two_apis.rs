//! Routes that TEI's and vLLM's APIs share: the fields of a body decide the form of its errors.

use super::Result;
use crate::error::{Dialect, ErrorIn};
use crate::wire::answer::Answer;
use crate::wire::body::RawBody;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

/// Body of a route that two APIs share.
pub(crate) trait SharedBody: DeserializeOwned + Send + 'static {
    /// The APIs whose own field the body has.
    fn apis(&self) -> Apis;
}

/// APIs whose own field a body has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Apis {
    pub(crate) tei: bool,
    pub(crate) vllm: bool,
}

impl Apis {
    fn dialect(self) -> Dialect {
        if self.vllm && !self.tei { Dialect::Vllm } else { Dialect::Tei }
    }
}

/// The own fields that a body has, whatever is wrong with them.
#[derive(Deserialize)]
struct OwnFields {
    texts: Option<IgnoredAny>,
    inputs: Option<IgnoredAny>,
    documents: Option<IgnoredAny>,
    prompt: Option<IgnoredAny>,
    messages: Option<IgnoredAny>,
}

impl From<OwnFields> for Apis {
    fn from(OwnFields { texts, inputs, documents, prompt, messages }: OwnFields) -> Self {
        Self {
            tei: texts.is_some() || inputs.is_some(),
            vllm: documents.is_some() || prompt.is_some() || messages.is_some(),
        }
    }
}

/// The answer to a body, with errors in the form of the API whose fields the body has.
///
/// # Errors
/// The errors of reading the body, and of `answer`.
pub(crate) async fn answered<B: SharedBody, F: Future<Output = Result> + Send>(
    mut body: RawBody,
    answer: impl FnOnce(B) -> F + Send,
) -> std::result::Result<Answer, ErrorIn> {
    let (dialect, answer) = match body.parse::<B>().await {
        Ok(body) => (body.apis().dialect(), answer(body).await),
        Err(error) => {
            let fields = body.probe::<OwnFields>().await;
            (fields.map_or(Dialect::Tei, |fields| Apis::from(fields).dialect()), Err(error))
        }
    };
    answer.map_err(|error| ErrorIn { dialect: Some(dialect), error })
}
