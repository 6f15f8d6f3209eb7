//! A model whose texts go through different models by their task: each part has its tokenizer and its limits.

use super::*;
use crate::backend::TokenLimits;
use crate::capabilities::TaskProfile;
use crate::test_support::Fate;

/// Two parts: qwen3-tiny's tokenizer for texts without a task, llama-tiny's and 9 tokens for queries.
fn parts() -> (LoadedModel, Control) {
    let mut capabilities = embedder();
    let task = |task: &str, part| TaskProfile { task: task.to_owned(), part, ..TaskProfile::default() };
    capabilities.embed.as_mut().unwrap().tasks = vec![task("document", 0), task("query", 1)];
    let further_parts = vec![TokenLimits { vocab_size: 1100, token_types: 0, max_input_length: 9 }];
    let (backend, control) = FakeBackend::controlled(ModelInfo { further_parts, ..info(capabilities, 500) });
    let model = LoadedModel { further_tokenizers: vec![tokenizer("llama-tiny")], ..model(backend, tokenizer(MODEL)) };
    (model, control)
}

fn with_task(task: Option<&str>) -> EncodeOptions {
    EncodeOptions { task: task.map(str::to_owned), ..encode("inputs") }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_has_the_tokenizer_of_its_part() {
    let (model, control) = parts();
    let engine = Engine::new(model, config()).unwrap();
    let text = "red fox";
    let of = |model: &str| tokenizer(model).encode(text, true).unwrap().get_ids().to_vec();
    for (task, expected) in [(None, of(MODEL)), (Some("document"), of(MODEL)), (Some("query"), of("llama-tiny"))] {
        let options = EmbedOptions { encode: with_task(task), ..raw() };
        let (other, inputs) = (engine.clone(), vec![Input::Text(text.to_owned())]);
        let answer = tokio::spawn(async move { other.embed(inputs, options).await });
        let ran = tokio::task::block_in_place(|| control.started()).ragged;
        control.release(Fate::Answer);
        assert_eq!(ran.input_ids(), expected, "{task:?}");
        assert_eq!(answer.await.unwrap().unwrap().usage.tokens, expected.len(), "{task:?}");
        let tokens = engine.tokenize(vec![text.to_owned()], with_task(None)).await.unwrap();
        assert_eq!(tokens[0].iter().map(|token| token.id).collect::<Vec<_>>(), of(MODEL));
    }
}

#[tokio::test]
async fn a_task_has_the_limits_of_its_part() {
    let (model, _control) = parts();
    let engine = Engine::new(model, config()).unwrap();
    let refusal = async |input: Input, task: Option<&str>| {
        let options = EmbedOptions { encode: with_task(task), ..raw() };
        engine.embed(vec![input], options).await.unwrap_err().to_string()
    };
    let long = Input::Text("one two three four five six seven eight nine ten".to_owned());
    let problem = refusal(long, Some("query")).await;
    assert!(problem.contains("the limit is 9"), "{problem}");
    let problem = refusal(list(&[1150]), Some("query")).await;
    assert!(problem.contains("ids must be below 1100"), "{problem}");
    let problem = refusal(list(&[1250]), None).await;
    assert!(problem.contains("ids must be below 1200"), "{problem}");
    let problem = refusal(list(&[1]), Some("other")).await;
    assert!(problem.contains("it has: document, query"), "{problem}");
    assert_eq!(engine.info().parts().map(|part| part.max_input_length).collect::<Vec<_>>(), [500, 9]);
}

#[test]
fn limits_hold_for_all_parts_and_parts_need_tokenizers() {
    let limited = |limit| Engine::new(parts().0, EngineConfig { max_input_length: Some(limit), ..config() });
    let lengths = |limit| limited(limit).unwrap().info().parts().map(|part| part.max_input_length).collect::<Vec<_>>();
    assert_eq!((lengths(4), lengths(100)), (vec![4, 4], vec![100, 9]));
    assert!(limited(501).err().unwrap().to_string().contains("limit is 500 tokens"));
    let model = LoadedModel { further_tokenizers: vec![], ..parts().0 };
    assert!(Engine::new(model, config()).err().unwrap().to_string().contains("one tokenizer for each sub-model"));
}
