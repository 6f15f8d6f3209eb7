use super::*;
use crate::request::{EncodeOptions, Input};
use crate::testing::support::limits;
use crate::testing::tokenizer;

const PLACE: Place = Place { field: "inputs", index: None };

fn encoder(name: &str, token_ids: ForeignIds) -> Encoder {
    Encoder::new(tokenizer(name), None, crate::request::EncodeLimits { token_ids, ..limits(512, true) }).unwrap()
}

fn ids_of(encoder: &Encoder, text: &str) -> Vec<u32> {
    let options = encoder.resolve(&EncodeOptions::new("inputs"), None).unwrap();
    encoder.encode(Input::Text(text.to_owned()), PLACE, &options).unwrap().tokens.input_ids().to_vec()
}

#[test]
fn own_ids_are_not_foreign() {
    for name in
        ["qwen3-tiny", "bert-mean-tiny", "xlm-roberta-tiny", "mpnet-tiny", "modernbert-tiny", "embeddinggemma-tiny"]
    {
        let encoder = encoder(name, ForeignIds::Refuse);
        let long = "the red fox, and a blue whale's song; 42 of them! ".repeat(20);
        for text in ["red fox", "H\u{e9}llo  W\u{f6}rld", "don't (stop)", "\u{4f60}\u{597d}", &long] {
            let ids = ids_of(&encoder, text);
            assert_eq!(encoder.check_origin(&ids, PLACE).ok(), Some(false), "{name}: {text}");
            // A text that was cut keeps the special token at one of its ends.
            if ids.len() > 100 {
                assert_eq!(encoder.check_origin(&ids[ids.len() - 90..], PLACE).ok(), Some(false), "{name}: {text}");
            }
        }
    }
}

#[test]
fn ids_of_another_tokenizer_are_refused_counted_or_accepted() {
    let by = |foreign_ids| encoder("qwen3-tiny", foreign_ids);
    let own = ids_of(&by(ForeignIds::Count), "the red fox and the blue whale");
    let end = *own.last().unwrap();
    let bare = &own[..own.len() - 1];
    let scrambled: Vec<u32> = (0..24).map(|i| 40 + i * 7).chain([end]).collect();
    for (ids, problem) in [(bare, "without the special tokens"), (&scrambled, "does not give for the text")] {
        let refused = by(ForeignIds::Refuse).check_origin(ids, PLACE).unwrap_err();
        assert!(matches!(refused, Error::ForeignIds { field: "inputs", .. }), "{refused:?}");
        assert!(refused.to_string().contains(problem), "{refused}");
        assert_eq!(by(ForeignIds::Count).check_origin(ids, PLACE).ok(), Some(true));
        assert_eq!(by(ForeignIds::Accept).check_origin(ids, PLACE).ok(), Some(false));
    }
}

#[test]
fn few_tokens_may_differ_at_an_end() {
    for (a, b, count) in [
        (&[1, 2, 3][..], &[1, 2, 3][..], 0),
        (&[1, 2, 3], &[1, 2], 1),
        (&[1, 2, 3], &[1, 9, 3], 1),
        (&[1, 2, 3, 4], &[2, 3, 4, 5], 4),
        (&[1, 1, 1], &[1, 1], 1),
        (&[], &[], 0),
    ] {
        assert_eq!(differing(a, b), count, "{a:?} {b:?}");
    }
}
