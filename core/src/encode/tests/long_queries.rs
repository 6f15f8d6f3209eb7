//! Queries that leave no room for a document: the error names them, whatever the document.

use super::encoder::Encoder;
use crate::request::SharedText;
use crate::testing::support::{limits, tokenizer};
use crate::{EncodeOptions, Error, Input, Place};

const PAIR: Place = Place { field: "documents", index: Some(3) };
const QUERY: Place = Place { field: "queries", index: Some(5) };

/// The error about a pair in a model of 20 tokens, with truncation off or to `max_tokens`.
fn problem(query: &str, document: &str, max_tokens: Option<usize>) -> String {
    let encoder = Encoder::new(tokenizer("llama-seqcls-tiny"), None, limits(20, false)).unwrap();
    let options = EncodeOptions { max_tokens, ..EncodeOptions::new("documents") };
    let options = encoder.resolve(&options, None).unwrap();
    let pair = Input::Pair(SharedText::from(query).at(QUERY), document.to_owned());
    match encoder.encode(pair, PAIR, &options) {
        Err(error @ Error::TooLong { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_query_that_is_too_long_is_named_itself() {
    let long = "The tide comes in twice a day. ".repeat(20);
    for query in [long.clone(), long.repeat(200)] {
        for document in ["tide", &long, &long.repeat(200)] {
            let message = problem(&query, document, None);
            assert!(message.starts_with("`queries` item 5 has "), "{message}");
        }
    }
    let message = problem("tide", &long, None);
    assert!(message.starts_with("`documents` item 3 has "), "{message}");
}

/// Truncation to a number of tokens shortens the document only.
#[test]
fn a_query_that_fills_a_number_of_tokens_is_named_itself() {
    let message = problem("The tide comes in twice a day.", "tide", Some(4));
    assert!(message.starts_with("`queries` item 5 has ") && message.contains("which leaves no room"), "{message}");
}
