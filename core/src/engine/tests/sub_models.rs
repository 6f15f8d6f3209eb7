//! A model whose texts go through different models by their task: each sub-model has its tokenizer and its limits.

use super::*;
use crate::backend::TokenLimits;
use crate::capabilities::TaskProfile;
use crate::non_empty::NonEmpty;
use crate::testing::support::Fate;

/// Two sub-models: qwen3-tiny's tokenizer for texts without a task, llama-tiny's and 9 tokens for queries.
fn sub_models() -> (LoadedModel, Control) {
    let mut capabilities = embedder();
    let task = |task: &str, sub_model| TaskProfile { task: task.to_owned(), sub_model, ..TaskProfile::default() };
    capabilities.embed.as_mut().unwrap().tasks = vec![task("document", 0), task("query", 1)];
    let limits = |vocab_size, max_input_length| TokenLimits { vocab_size, token_types: 0, max_input_length };
    let sub_models = NonEmpty::collect([limits(1200, 500), limits(1100, 9)]).unwrap();
    let (backend, control) = FakeBackend::controlled(ModelInfo { sub_models, ..info(capabilities, 500) });
    let tokenizers = NonEmpty::collect([tokenizer(MODEL), tokenizer("llama-tiny")]).unwrap();
    let model = LoadedModel { tokenizers, ..model(backend, tokenizer(MODEL)) };
    (model, control)
}

fn with_task(task: Option<&str>) -> EncodeOptions {
    EncodeOptions { task: task.map(str::to_owned), ..encode("inputs") }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_has_the_tokenizer_of_its_part() {
    let (model, control) = sub_models();
    let engine = Engine::new(model, config(), quotas()).unwrap();
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
async fn a_task_has_the_limits_of_its_sub_model() {
    let (model, _control) = sub_models();
    let engine = Engine::new(model, config(), quotas()).unwrap();
    let refusal = async |input: Input, task: Option<&str>| {
        let options = EmbedOptions { encode: with_task(task), ..raw() };
        engine.embed(vec![input], options).await.unwrap_err().to_string()
    };
    let long = Input::Text("one two three four five six seven eight nine ten".to_owned());
    let problem = refusal(long, Some("query")).await;
    assert!(problem.contains("length is 9"), "{problem}");
    let problem = refusal(list(&[1150]), Some("query")).await;
    assert!(problem.contains("ids must be below 1100"), "{problem}");
    let problem = refusal(list(&[1250]), None).await;
    assert!(problem.contains("ids must be below 1200"), "{problem}");
    let problem = refusal(list(&[1]), Some("other")).await;
    assert!(problem.contains("it has: document, query"), "{problem}");
    assert_eq!(
        engine.info().sub_models.iter().map(|sub_model| sub_model.max_input_length).collect::<Vec<_>>(),
        [500, 9]
    );
}

#[test]
fn limits_hold_for_all_parts_and_parts_need_tokenizers() {
    let limited =
        |limit| Engine::new(sub_models().0, EngineConfig { max_input_length: Some(limit), ..config() }, quotas());
    let lengths = |limit| {
        limited(limit).unwrap().info().sub_models.iter().map(|sub_model| sub_model.max_input_length).collect::<Vec<_>>()
    };
    assert_eq!((lengths(4), lengths(100)), (vec![4, 4], vec![100, 9]));
    assert!(limited(501).err().unwrap().to_string().contains("limit is 500 tokens"));
    let model = LoadedModel { tokenizers: NonEmpty::one(tokenizer(MODEL)), ..sub_models().0 };
    assert!(
        Engine::new(model, config(), quotas()).err().unwrap().to_string().contains("one tokenizer for each sub-model")
    );
}
