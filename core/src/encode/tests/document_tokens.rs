//! Documents of a maximum number of tokens.

use super::*;
use crate::encode::encoder::Encoder;
use crate::testing::support::{limits, qwen3_template, tokenizer};

const DOCUMENTS: Place = Place { field: "documents", index: Some(1) };
const QUERY: Place = Place { field: "query", index: None };

/// Ids of an input whose documents have at most `limit` tokens, and whether it is truncated.
fn encode(encoder: &Encoder, input: Input, place: Place, options: EncodeOptions) -> Result<(Vec<u32>, bool), Error> {
    let options = encoder.resolve(&options, Choices::default())?;
    encoder.encode(input, place, &options).map(|encoded| (encoded.tokens.input_ids().to_vec(), encoded.is_truncated))
}

fn limited(limit: Option<usize>) -> EncodeOptions {
    EncodeOptions { max_document_tokens: limit, truncate: Some(false), ..EncodeOptions::new("documents") }
}

#[test]
fn a_text_of_another_field_is_no_document() {
    let encoder = Encoder::new(tokenizer("bert-mean-tiny"), None, limits(100, false)).unwrap();
    let ids =
        |place, options| encode(&encoder, Input::Text("the red cat and the dog".to_owned()), place, options).unwrap();
    let (whole, is_truncated) = ids(DOCUMENTS, limited(None));
    assert!(whole.len() > 5 && !is_truncated);
    let short = [&whole[..4], &whole[whole.len() - 1..]].concat();
    assert_eq!(ids(DOCUMENTS, limited(Some(3))), (short, true), "special tokens are not counted");
    let end = EncodeOptions { direction: Some(TruncationDirection::Left), ..limited(Some(3)) };
    assert_eq!(ids(DOCUMENTS, end).0, [&whole[..1], &whole[whole.len() - 4..]].concat());
    for (place, limit) in [(QUERY, 3), (DOCUMENTS, whole.len() - 2)] {
        assert_eq!(ids(place, limited(Some(limit))), (whole.clone(), false));
    }
}

#[test]
fn the_document_of_a_pair_is_cut_before_the_pair() {
    let encoder = Encoder::new(tokenizer("bert-reranker-tiny"), None, limits(24, false)).unwrap();
    let pair = |words: usize, options| {
        let input = Input::Pair("the red cat".into(), "the dog ".repeat(words).trim_end().to_owned());
        encode(&encoder, input, DOCUMENTS, options)
    };
    let (whole, _) = pair(2, limited(None)).unwrap();
    let (two, is_truncated) = pair(2, limited(Some(2))).unwrap();
    let (cut, _) = pair(2, limited(Some(3))).unwrap();
    assert_eq!((cut.len(), is_truncated), (two.len() + 1, true));
    assert_eq!(cut[..cut.len() - 1], whole[..cut.len() - 1]);
    // Longer than the model takes, but not after the cut.
    assert!(matches!(pair(500, limited(None)), Err(Error::TooLong { .. })));
    assert_eq!(pair(500, limited(Some(3))).unwrap().0, cut);
    assert!(matches!(pair(500, limited(Some(50))), Err(Error::TooLong { .. })));
    let both = EncodeOptions { max_tokens: Some(12), truncate: None, ..limited(Some(50)) };
    assert_eq!(pair(500, both).unwrap().0.len(), 12);
}

#[test]
fn the_document_of_a_prompt_is_cut_and_the_rest_is_not() {
    let encoder = Encoder::new(tokenizer("qwen3-reranker-tiny"), Some(qwen3_template()), limits(300, false)).unwrap();
    let prompt = |document: &str, options| {
        let query = SharedText::from("where are the flowers").at(QUERY);
        let input = Input::Rerank { instruction: None, query, document: document.to_owned() };
        encode(&encoder, input, DOCUMENTS, options)
    };
    let long = "Bees dance in the hive. ".repeat(200);
    let (short, _) = prompt("Bees dance", limited(None)).unwrap();
    let (one, is_truncated) = prompt(&long, limited(Some(1))).unwrap();
    let (two, _) = prompt(&long, limited(Some(2))).unwrap();
    assert!(is_truncated && two.len() == one.len() + 1);
    let last = |ids: &[u32]| ids[ids.len() - 5..].to_vec();
    assert_eq!((last(&one), last(&two)), (last(&short), last(&short)), "the template's end");
    assert!(matches!(prompt(&long, limited(None)), Err(Error::TooLong { .. })));
    assert!(matches!(prompt(&long, limited(Some(1000))), Err(Error::TooLong { .. })));
    let both = EncodeOptions { truncate: Some(true), ..limited(Some(1000)) };
    assert_eq!(prompt(&long, both).unwrap().0.len(), 300);
}
