use super::*;
use crate::testing::support::tokenizer;

#[test]
fn added_tokens_stay() {
    for remembers in [true, false] {
        let mut limited = tokenizer("qwen3-tiny");
        limit(&mut limited, remembers).unwrap();
        let plain = tokenizer("qwen3-tiny");
        let added = plain.get_added_tokens_decoder();
        assert!(!added.is_empty() && limited.get_added_tokens_decoder() == added);
        for token in added.values() {
            let text = format!("a{} b {}", token.content, token.content);
            let ids = |tokenizer: &Tokenizer| tokenizer.encode(text.as_str(), true).unwrap().get_ids().to_vec();
            assert_eq!(ids(&limited), ids(&plain), "{text}");
        }
    }
}
