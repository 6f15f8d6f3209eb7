//! Answers of every method, and refusals of requests that the model cannot answer.

use super::*;
use crate::admission::tokenize_quota::MAX_OF_REQUEST;
use crate::capabilities::{TaskProfile, sigmoid};
use crate::postprocess::cosine;
use crate::request::TruncationDirection;
use crate::response::{RerankScore, Timings, Usage};
use crate::testing::support::{DIM, classifier, fake_values, qwen3_template, reranker};

#[tokio::test]
async fn embeddings_in_order_with_usage_and_timings() {
    let engine = engine(embedder(), config());
    let texts = ["grün bread", "grün bread rises", "tide"];
    let inputs = texts.iter().map(|&text| Input::Text(text.to_owned())).collect();
    let response = engine.embed(inputs, raw()).await.unwrap();
    let ids = texts.map(ids_of);
    let expected: Vec<_> = ids.iter().map(|ids| fake_values(ids, DIM)).collect();
    assert_eq!(response.results, expected);
    let tokens: usize = ids.iter().map(Vec::len).sum();
    let Usage { characters, tokens: counted, computed_tokens, truncated_inputs, foreign_inputs } = response.usage;
    assert_eq!((characters, counted, truncated_inputs, foreign_inputs), (30, tokens, 0, 0));
    assert!(computed_tokens < tokens, "two texts share a prefix");
    assert_eq!(response.usage.saved_tokens(), tokens - computed_tokens);
    let Timings { total, tokenization, queue, planning, inference } = response.timings;
    assert!(total >= tokenization + inference && !tokenization.is_zero() && !planning.is_zero());
    assert!(total >= queue);
    engine.shutdown().await;
}

#[tokio::test]
async fn a_model_may_truncate_its_vectors() {
    let mut capabilities = embedder();
    capabilities.embed.as_mut().unwrap().truncate_dim = Some(3);
    let engine = engine(capabilities, config());
    let of = |dimensions| engine.embed(vec![list(&[1, 2])], EmbedOptions { dimensions, ..raw() });
    let whole = fake_values(&[1, 2], DIM);
    assert_eq!(of(None).await.unwrap().results, [&whole[..3]]);
    assert_eq!(of(Some(2)).await.unwrap().results, [&whole[..2]]);
    assert_eq!(of(Some(DIM)).await.unwrap().results, [whole]);
    assert!(of(Some(DIM + 1)).await.is_err());
    let scores = engine.score(rerank_request("tide", &["grün"])).await.unwrap().results;
    let [query, document] = ["tide", "grün"].map(|text| fake_values(&ids_of(text), DIM)[..3].to_vec());
    assert_eq!(scores[0].raw, cosine(&query, &document));
}

#[tokio::test]
async fn usage_is_of_the_request_alone() {
    let inputs = || vec![list(&[1, 2]), list(&[1, 3]), list(&[4, 5, 6])];
    for (config, computed) in [
        (config(), 6),
        (EngineConfig { max_batch_tokens: 4, ..config() }, 6),
        (EngineConfig { radix_mlp_threshold: 0.8, ..config() }, 7),
        (EngineConfig { radix_mlp_threshold: 0.0, ..config() }, 7),
    ] {
        let engine = engine(embedder(), config);
        let (one, other) = tokio::join!(engine.embed(inputs(), raw()), engine.embed(inputs(), raw()));
        for response in [one, other] {
            let usage = response.unwrap().usage;
            assert_eq!((usage.tokens, usage.computed_tokens), (7, computed), "its twin in the batch is not seen");
        }
        engine.shutdown().await;
    }
}

#[tokio::test]
async fn answers_are_the_same_in_every_scope() {
    let engine = engine(embedder(), config());
    let inputs = || vec![list(&[1, 2, 3, 4]), list(&[1, 2, 3, 5])];
    let [one, other] = [1, 2].map(|scope| engine.clone().in_scope(Scope(scope)));
    let answers = tokio::join!(one.embed(inputs(), raw()), other.embed(inputs(), raw()), engine.embed(inputs(), raw()));
    let [a, b, c] = [answers.0, answers.1, answers.2].map(|answer| answer.unwrap().results);
    assert!(a == b && b == c);
    engine.shutdown().await;
}

#[tokio::test]
async fn vectors_are_cut_and_then_normalized() {
    let engine = engine(embedder(), config());
    let embed =
        |normalize, dimensions| engine.embed(vec![list(&[7, 8, 9])], EmbedOptions { normalize, dimensions, ..raw() });
    let whole = fake_values(&[7, 8, 9], DIM);
    assert_eq!(embed(Some(false), Some(2)).await.unwrap().results, [&whole[..2]]);
    let norm = whole[0].hypot(whole[1]);
    let unit = &embed(Some(true), Some(2)).await.unwrap().results[0];
    assert!((unit[0] - whole[0] / norm).abs() < 1e-6 && (unit[1] - whole[1] / norm).abs() < 1e-6);
    for dimensions in [0, DIM + 1] {
        let error = embed(Some(true), Some(dimensions)).await.unwrap_err();
        assert!(matches!(error, Error::Validation { field: "dimensions", .. }));
        assert_eq!(
            error.to_string(),
            format!("`dimensions` is {dimensions}; it must be from 1 to {DIM}, the size of the served model's vectors")
        );
    }
}

#[tokio::test]
async fn the_models_own_modules_normalize_and_then_vectors_are_cut() {
    let mut capabilities = embedder();
    let task = |task: &str, normalizes| TaskProfile { task: task.to_owned(), normalizes, ..TaskProfile::default() };
    if let Some(embed) = &mut capabilities.embed {
        embed.tasks = vec![task("query", false), task("document", true)];
        embed.normalizes = true;
    }
    let engine = engine(capabilities, config());
    for (task, number, normalizes) in [(None, 0.0, true), (Some("document"), 2.0, true), (Some("query"), 1.0, false)] {
        let mut whole = fake_values(&[7, 8, 9], DIM);
        whole[0] += number;
        let norm = if normalizes { whole.iter().map(|value| value * value).sum::<f32>().sqrt() } else { 1.0 };
        let encode = EncodeOptions { task: task.map(str::to_owned), ..encode("inputs") };
        let options = EmbedOptions { encode, normalize: None, dimensions: Some(2) };
        let found = engine.embed(vec![list(&[7, 8, 9])], options).await.unwrap().results;
        let errors = found[0].iter().zip(&whole).map(|(found, whole)| (found - whole / norm).abs());
        assert!(errors.fold(0.0, f32::max) < 1e-6 && found[0].len() == 2, "{task:?}: {found:?}");
    }
}

#[tokio::test]
async fn one_row_for_each_token() {
    let engine = engine(embedder(), config());
    let response = engine.embed_tokens(vec![list(&[7, 8]), list(&[9])], encode("inputs")).await.unwrap();
    let expected = [vec![fake_values(&[7], DIM), fake_values(&[7, 8], DIM)], vec![fake_values(&[9], DIM)]];
    let rows: Vec<Vec<_>> = response.results.into_iter().map(|vectors| vectors.into_rows().collect()).collect();
    assert_eq!(rows, expected);
}

#[tokio::test]
async fn reranking_with_a_reranker() {
    let engine = engine(reranker(), config());
    let response = engine.score(rerank_request("bread", &["yeast", "tide"])).await.unwrap();
    let template = qwen3_template();
    let bare = |text: &str| tokenizer(MODEL).encode(text, false).unwrap().get_ids().to_vec();
    for (score, document) in response.results.iter().zip(["yeast", "tide"]) {
        let body = template.head(None, "bread") + document;
        let logits = fake_values(&[bare(&template.before[0]), bare(&body), bare(&template.after[0])].concat(), 2);
        assert_eq!(score.raw, logits[1] - logits[0]);
        assert_eq!(score.score, sigmoid(score.raw));
    }
    assert_eq!(response.results.len(), 2);
    assert!(response.usage.compaction_ratio() < 0.6, "the prompt is shared up to the document");

    let asked =
        ScoreRequest { instruction: Some("Be strict".to_owned()), ..rerank_request("bread", &["yeast", "tide"]) };
    assert_ne!(engine.score(asked).await.unwrap().results, response.results);
}

#[tokio::test]
async fn reranking_with_a_classifier_of_one_label() {
    let engine = engine(classifier(1), config());
    let response = engine.score(rerank_request("bread", &["yeast"])).await.unwrap();
    let pair = tokenizer(MODEL).encode(("bread", "yeast"), true).unwrap().get_ids().to_vec();
    let logit = fake_values(&pair, 1)[0];
    assert_eq!(response.results, [RerankScore { raw: logit, score: sigmoid(logit) }]);
}

#[tokio::test]
async fn reranking_with_an_embedding_model_is_the_cosine() {
    let engine = engine(embedder(), EngineConfig { max_client_batch_size: 2, ..config() });
    let response = engine.score(rerank_request("bread", &["yeast", "bread"])).await.unwrap();
    let [query, document] = ["bread", "yeast"].map(|text| fake_values(&ids_of(text), DIM));
    let expected = cosine(&query, &document);
    assert_eq!(response.results[0], RerankScore { raw: expected, score: expected });
    assert!((response.results[1].score - 1.0).abs() < 1e-6 && expected < 0.999);
    assert_eq!(response.usage.characters, 15);
    let none = engine.score(rerank_request("bread", &[])).await.unwrap_err();
    assert!(matches!(none, Error::Empty { field: "texts", .. }));
}

#[tokio::test]
async fn a_query_that_is_too_long_is_named() {
    let engine = engine(reranker(), config());
    let score = |queries: &[&str]| {
        let queries = queries.iter().map(|&query| query.to_owned()).collect();
        engine.score(ScoreRequest { queries, query_field: "text_1", ..rerank_request("", &["yeast", "moon"]) })
    };
    let long = "tide ".repeat(600);
    for (queries, named) in
        [(&[long.as_str()][..], "`text_1` and its "), (&["bread", &long], "`text_1` item 1 and its ")]
    {
        let error = score(queries).await.unwrap_err().to_string();
        assert!(error.starts_with(named), "{error}");
    }
}

#[tokio::test]
async fn each_document_may_have_a_query_of_its_own() {
    let queries = || vec!["bread".to_owned(), "tide".to_owned()];
    for kind in [embedder(), reranker(), classifier(1)] {
        let engine = engine(kind, config());
        let mut alone = Vec::new();
        for (query, document) in [("bread", "yeast"), ("tide", "moon")] {
            alone.extend(engine.score(rerank_request(query, &[document])).await.unwrap().results);
        }
        let paired = ScoreRequest { queries: queries(), ..rerank_request("", &["yeast", "moon"]) };
        assert_eq!(engine.score(paired).await.unwrap().results, alone);
        let crossed = ScoreRequest { queries: queries(), ..rerank_request("", &["moon", "yeast"]) };
        assert_ne!(engine.score(crossed).await.unwrap().results, alone);
        let odd = ScoreRequest { queries: queries(), ..rerank_request("", &["a", "b", "c"]) };
        let error = engine.score(odd).await.unwrap_err().to_string();
        assert_eq!(error, "`query` has 2 items and `texts` 3; give one, or one for each");
        let none = ScoreRequest { queries: vec![], ..rerank_request("", &["a"]) };
        assert!(matches!(engine.score(none).await, Err(Error::Empty { field: "query", .. })));
    }
}

#[tokio::test]
async fn a_request_may_ask_for_fewer_tokens() {
    let engine = engine(embedder(), config());
    let embed = |max_tokens, direction| {
        let encode = EncodeOptions { max_tokens, direction: Some(direction), ..encode("inputs") };
        engine.embed(vec![list(&[1, 2, 3])], EmbedOptions { encode, ..raw() })
    };
    let right = TruncationDirection::Right;
    assert_eq!(embed(Some(2), right).await.unwrap().results, [fake_values(&[1, 2], DIM)]);
    assert_eq!(embed(Some(2), TruncationDirection::Left).await.unwrap().results, [fake_values(&[2, 3], DIM)]);
    assert_eq!(embed(Some(500), right).await.unwrap().results, [fake_values(&[1, 2, 3], DIM)]);
    for max_tokens in [0, 501] {
        let error = embed(Some(max_tokens), right).await.unwrap_err().to_string();
        let expected = format!("`truncate_prompt_tokens` is {max_tokens}; the served model takes 1 to 500 tokens");
        assert_eq!(error, expected);
    }
    let refusing = EncodeOptions { max_tokens: Some(2), truncate: Some(false), ..encode("inputs") };
    let error = engine.embed(vec![list(&[1, 2, 3])], EmbedOptions { encode: refusing, ..raw() }).await.unwrap_err();
    let expected = "`inputs` has 3 tokens, and truncation is off (`truncate`); the limit is 2, as the request asks. Please reduce the length of the input";
    assert_eq!(error.to_string(), expected);
}

#[tokio::test]
async fn classification_gives_logits() {
    let engine = engine(classifier(3), config());
    let response = engine.classify(vec![list(&[1, 2])], encode("inputs")).await.unwrap();
    assert_eq!(response.results, [fake_values(&[1, 2], 3)]);
}

/// An embedding model with a classifier's head.
fn embedding_classifier() -> Capabilities {
    let mut capabilities = Capabilities { classify: classifier(3).classify, ..embedder() };
    capabilities.embed.as_mut().unwrap().prompts.default = Some("Find: ".to_owned());
    capabilities
}

#[tokio::test]
async fn a_model_gives_all_the_answers_it_can_and_refuses_others() {
    let text = || vec![Input::Text("bread".to_owned())];
    for (capabilities, served) in [
        (embedder(), "makes embeddings"),
        (reranker(), "is a reranker"),
        (classifier(1), "is a classifier with one label"),
        (classifier(3), "is a classifier with 3 labels"),
        (embedding_classifier(), "makes embeddings and is a classifier with 3 labels"),
    ] {
        let engine = engine(capabilities.clone(), config());
        let answers = [
            (Task::Embed, engine.embed(text(), raw()).await.err()),
            (Task::Embed, engine.embed_tokens(text(), encode("inputs")).await.err()),
            (Task::Rerank, engine.score(rerank_request("q", &["d"])).await.err()),
            (Task::Classify, engine.classify(text(), encode("inputs")).await.err()),
        ];
        for (task, error) in answers {
            let expected = format!("{} is not possible: the model (fake) {served}", task.noun());
            let refusal = (!capabilities.tasks().any(|able| able == task)).then_some(expected);
            assert_eq!(error.map(|error| error.to_string()), refusal, "{task} of a model that {served}");
        }
    }
}

#[tokio::test]
async fn prompts_of_an_answer_stand_before_its_texts_only() {
    let engine = engine(embedding_classifier(), config());
    let text = || vec![Input::Text("bread".to_owned())];
    assert_eq!(engine.embed(text(), raw()).await.unwrap().results, [fake_values(&ids_of("Find: bread"), DIM)]);
    assert_eq!(engine.classify(text(), encode("inputs")).await.unwrap().results, [fake_values(&ids_of("bread"), 3)]);
    let score = engine.score(rerank_request("bread", &["yeast"])).await.unwrap().results[0];
    let [query, document] = ["Find: bread", "Find: yeast"].map(|text| fake_values(&ids_of(text), DIM));
    assert_eq!(score.raw, cosine(&query, &document));
}

#[tokio::test]
async fn tokenize_and_decode() {
    let engine = engine(embedder(), config());
    let tokens = engine.tokenize(vec!["bread".to_owned(), "tide".to_owned()], encode("inputs")).await.unwrap();
    let ids: Vec<Vec<u32>> = tokens.iter().map(|text| text.iter().map(|token| token.id).collect()).collect();
    assert_eq!(ids, [ids_of("bread"), ids_of("tide")]);
    assert_eq!(engine.decode(ids, true).await.unwrap(), ["bread", "tide"]);
    let error = engine.decode(vec![vec![1], vec![9999]], true).await.unwrap_err();
    assert_eq!(error.to_string(), "`ids` item 1 has token id 9999 at position 0, ids must be below 1200");
    let limit = MAX_OF_REQUEST;
    let error = engine.tokenize(vec!["a".repeat(limit), "a".to_owned()], encode("inputs")).await.unwrap_err();
    let counted = "bytes of text with its prompts and one for each text";
    let problem = format!("`inputs` has {} {counted}, the limit is {limit} ", limit + 3);
    assert!(error.to_string().starts_with(&problem), "{error}");
    let error = engine.decode(vec![vec![1; limit], vec![1]], true).await.unwrap_err();
    assert!(
        error.to_string().starts_with(&format!("`ids` has {} ids in all, the limit is {limit} ", limit + 1)),
        "{error}"
    );
}

#[tokio::test]
async fn truncated_inputs_are_counted() {
    let config = || EngineConfig { auto_truncate: true, ..config() };
    let long = "tide ".repeat(600);
    let texts = vec![Input::Text(long.clone()), Input::Text("tide".to_owned()), list(&[7; 501]), list(&[7; 500])];
    let embedded = engine(embedder(), config()).embed(texts, raw()).await.unwrap();
    assert_eq!(embedded.usage.truncated_inputs, 2);
    for kind in [embedder(), reranker(), classifier(1)] {
        let scored = engine(kind, config()).score(rerank_request("bread", &["yeast", &long])).await.unwrap();
        assert_eq!(scored.usage.truncated_inputs, 1);
    }
}

#[tokio::test]
async fn empty_texts_are_refused_by_their_place_unless_they_are_allowed() {
    let text = |text: &str| Input::Text(text.to_owned());
    let embed = |engine: Engine, inputs| async move { engine.embed(inputs, raw()).await };
    let refused = |result: Result<_, Error>| match result {
        Err(error @ Error::Empty { .. }) => error.to_string(),
        _ => "accepted".to_owned(),
    };
    let engine_of = |kind| engine(kind, config());
    let of_embed = |error: Result<crate::Response<Vec<f32>>, Error>| refused(error.map(|_| ()));
    assert_eq!(of_embed(embed(engine_of(embedder()), vec![text("")]).await), "`inputs` is an empty text");
    let several = vec![text("tide"), text("")];
    assert_eq!(of_embed(embed(engine_of(embedder()), several.clone()).await), "`inputs` item 1 is an empty text");
    for kind in [embedder(), reranker(), classifier(1)] {
        let engine = engine_of(kind);
        let score = |query: &'static str, documents: &'static [&'static str]| {
            let engine = engine.clone();
            async move { engine.score(rerank_request(query, documents)).await.map(|_| ()) }
        };
        assert_eq!(refused(score("", &["yeast"]).await), "`query` is an empty text");
        assert_eq!(refused(score("bread", &["yeast", ""]).await), "`texts` item 1 is an empty text");
        assert_eq!(refused(score("bread", &[" "]).await), "accepted");
    }
    let pair = Input::Pair("tide".into(), String::new());
    let classified = engine_of(classifier(2)).classify(vec![pair], encode("inputs")).await.map(|_| ());
    assert_eq!(refused(classified), "`inputs` is an empty text");
    let lenient = engine(embedder(), EngineConfig { allow_empty_inputs: true, ..config() });
    assert_eq!(embed(lenient, several).await.unwrap().results.len(), 2);
}
