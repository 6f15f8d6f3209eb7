//! Names of a body's fields. A field may have other names in requests than in the code; errors and headers have the client's.

use std::sync::{Arc, Mutex, PoisonError};

/// Body, one of its fields, and other names of the field.
type Row = (&'static str, &'static str, &'static [&'static str]);

/// Fields and their other names in requests.
pub(crate) const ALIASES: [Row; 18] = [
    ("EmbeddingsBody", "dimensions", &["output_dimension"]),
    ("EmbeddingsBody", "embedding_type", &["encoding_type"]),
    ("EmbeddingsBody", "truncate", &["truncation"]),
    ("EmbeddingsBody", "normalized", &["normalize", "use_activation", "activation"]),
    ("RerankBody", "instruction", &["instruct"]),
    ("RerankBody", "top_n", &["top_k"]),
    ("RerankBody", "truncate", &["truncation"]),
    ("RerankBody", "truncation_direction", &["truncation_side"]),
    ("RerankBody", "use_activation", &["activation"]),
    ("ScoreBody", "documents", &["items", "text_2", "data_2"]),
    ("ScoreBody", "instruction", &["instruct"]),
    ("ScoreBody", "queries", &["query", "text_1", "data_1"]),
    ("ScoreBody", "truncate", &["truncation"]),
    ("ScoreBody", "use_activation", &["activation"]),
    ("PoolingBody", "truncate", &["truncation"]),
    ("PoolingBody", "use_activation", &["activation"]),
    ("ClassifyBody", "truncate", &["truncation"]),
    ("ClassifyBody", "use_activation", &["activation"]),
];

/// The engine's names of fields that have another name in every request.
const OF_ENGINE: [Row; 4] = [
    ("CohereDetokenizeBody", "ids", &["tokens"]),
    ("CohereEmbedBody", "dimensions", &["output_dimension"]),
    ("CohereEmbedBody", "truncate_prompt_tokens", &["max_tokens"]),
    ("DetokenizeBody", "ids", &["tokens"]),
];

/// A name in the code, and the client's name of the same field.
pub(crate) type SentName = (&'static str, &'static str);

/// Fields with other names that one body has.
#[derive(Debug, Default)]
pub(crate) struct BodyNames {
    /// The type of the body.
    body: &'static str,
    seen: Vec<SentName>,
}

impl BodyNames {
    pub(crate) fn of(body: &'static str) -> Self {
        Self { body, seen: Vec::new() }
    }

    /// Notes a field of the body.
    ///
    /// # Errors
    /// The body has the field already.
    pub(crate) fn note(&mut self, key: &str) -> Result<(), String> {
        let Some((field, sent)) = self.sent_name(key) else { return Ok(()) };
        match self.seen.iter().find(|(seen, _)| *seen == field) {
            None => {
                self.seen.push((field, sent));
                Ok(())
            }
            Some((_, first)) if *first == sent => Err(format!("duplicate field `{sent}`")),
            Some((_, first)) => Err(format!("`{first}` and `{sent}`, names of the same field, are both sent")),
        }
    }

    /// The other names of a field, for the error that it is missing; nothing if it has none.
    pub(crate) fn other_names(&self, field: &str) -> String {
        let row = ALIASES.iter().find(|(body, known, _)| *body == self.body && *known == field);
        let names: Vec<String> = row.iter().flat_map(|(.., names)| *names).map(|name| format!("`{name}`")).collect();
        if names.is_empty() { String::new() } else { format!("; its other names are {}", names.join(", ")) }
    }

    fn sent_name(&self, key: &str) -> Option<SentName> {
        let own = ALIASES.iter().filter(|(body, field, _)| *body == self.body && *field == key);
        let own = own.map(|(_, field, _)| (*field, *field)).next();
        let rows = || ALIASES.iter().chain(&OF_ENGINE).filter(|(body, ..)| *body == self.body);
        let other = || rows().find_map(|(_, field, names)| Some((*field, *names.iter().find(|name| **name == key)?)));
        own.or_else(other)
    }
}

/// The client's names of fields in one request. Clones are handles to the same list.
#[derive(Debug, Clone, Default)]
pub(crate) struct SentNames(Arc<Mutex<Vec<SentName>>>);

impl SentNames {
    /// Takes over the names of the body.
    pub(crate) fn set(&self, names: BodyNames) {
        let renamed = names.seen.into_iter().filter(|(field, sent)| field != sent);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(renamed);
    }

    /// Calls a field otherwise from now on.
    pub(crate) fn rename(&self, field: &'static str, sent: &'static str) {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        names.retain(|(known, _)| *known != field);
        names.push((field, sent));
    }

    /// The names that differ.
    pub(crate) fn all(&self) -> Vec<SentName> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
