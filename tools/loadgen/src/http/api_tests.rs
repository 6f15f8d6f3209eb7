use super::*;
use serde_json::Value;

fn body(api: Api, base64: bool) -> Value {
    body_with_priority(api, base64, None)
}

fn body_with_priority(api: Api, base64: bool, priority: Option<i64>) -> Value {
    let texts = ["a".to_owned(), "b".to_owned()];
    let payload = Payload { query: "q", texts: &texts, model: Some("m"), base64, priority };
    serde_json::from_slice(&api.body(&payload)).unwrap()
}

#[test]
fn bodies_are_those_of_each_api() {
    let base64 = json!({ "model": "m", "input": ["a", "b"], "encoding_format": "base64" });
    assert_eq!(body(Api::Openai, true), base64);
    assert_eq!(body(Api::Openai, false)["encoding_format"], "float");
    assert_eq!(body(Api::Embed, true), json!({ "inputs": ["a", "b"] }));
    assert_eq!(body(Api::Rerank, true), json!({ "query": "q", "texts": ["a", "b"] }));
    assert_eq!(body(Api::CohereRerank, true), json!({ "model": "m", "query": "q", "documents": ["a", "b"] }));
    assert_eq!(body(Api::Score, true), json!({ "model": "m", "text_1": "q", "text_2": ["a", "b"] }));
}

#[test]
fn a_priority_is_a_number_in_the_body_of_every_api() {
    for api in [Api::Openai, Api::Embed, Api::Rerank, Api::CohereRerank, Api::Score] {
        let mut expected = body(api, true);
        expected["priority"] = json!(-3);
        assert_eq!(body_with_priority(api, true, Some(-3)), expected);
    }
}

/// A valid response of each API to two texts, with its token count.
fn good() -> [(Api, &'static str, Option<u64>); 9] {
    [
        (
            Api::Openai,
            r#"{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.5,-1]},
               {"index":1,"embedding":[1e-3,2]}],"model":"m","usage":{"prompt_tokens":7,"total_tokens":9}}"#,
            Some(9),
        ),
        // Two float32 each: 1.0 and 2.0.
        (
            Api::Openai,
            r#"{"data":[{"index":1,"embedding":"AACAPwAAAEA="},{"index":0,"embedding":"AACAPwAAAEA="}]}"#,
            None,
        ),
        (Api::Embed, "[[0.5,-1],[1,2]]", None),
        (Api::Rerank, r#"[{"index":1,"score":0.9},{"index":0,"score":-3,"text":"a"}]"#, None),
        (
            Api::CohereRerank,
            r#"{"id":"r","results":[{"index":1,"relevance_score":0.9,"document":{"text":"b"}},
               {"index":0,"relevance_score":0.1}],"usage":{"total_tokens":5}}"#,
            Some(5),
        ),
        (
            Api::CohereRerank,
            r#"{"results":[{"index":0,"relevance_score":1},{"index":1,"relevance_score":0}],
               "meta":{"billed_units":{"search_units":1}}}"#,
            None,
        ),
        (
            Api::Score,
            r#"{"object":"list","data":[{"index":0,"object":"score","score":1},{"index":1,"score":0.5}],
               "usage":{"prompt_tokens":4}}"#,
            Some(4),
        ),
        (Api::Score, r#"{"data":[{"index":0,"score":1},{"index":1,"score":0.5}],"usage":{}}"#, None),
        (Api::Score, r#"{"data":[{"index":0,"score":1},{"index":1,"score":0.5}],"usage":null}"#, None),
    ]
}

#[test]
fn good_answers_are_good_and_tell_their_tokens() {
    for (api, answer, tokens) in good() {
        assert_eq!(api.check(answer.as_bytes(), 2), Ok(tokens), "{api:?} {answer}");
    }
}

#[test]
fn an_answer_for_other_texts_than_those_sent_is_bad() {
    for (api, answer, _) in good() {
        for (texts, words) in [(1, "2 results for 1 text"), (3, "2 results for 3 texts")] {
            assert_eq!(api.check(answer.as_bytes(), texts).unwrap_err(), words, "{api:?} {answer}");
        }
    }
}

#[test]
fn nonsense_is_bad() {
    for (api, answer, words) in [
        (Api::Openai, "", "EOF"),
        (Api::Openai, "[]", "invalid length 0"),
        (Api::Openai, r#"{"error":{"message":"no"}}"#, "missing field `data`"),
        (Api::Openai, r#"{"data":[{"index":0,"embedding":[null]}]}"#, "null"),
        (Api::Openai, r#"{"data":[{"index":0,"embedding":["NaN"]}]}"#, "string \"NaN\""),
        (Api::Openai, r#"{"data":[{"index":0,"embedding":[1e999]}]}"#, "number out of range"),
        (Api::Openai, r#"{"data":[{"index":0,"embedding":"AADAfw=="}]}"#, "a vector has the value NaN"),
        (Api::Openai, r#"{"data":[{"index":0,"embedding":"AACAfw=="}]}"#, "a vector has the value inf"),
        (Api::Openai, r#"{"data":[{"index":0,"embedding":"AAAA"}]}"#, "3 bytes of base64"),
        (Api::Openai, r#"{"data":[{"index":0,"embedding":"?"}]}"#, "not base64"),
        (Api::Openai, r#"{"data":[{"index":0,"embedding":[]}]}"#, "a vector is empty"),
        (Api::Openai, r#"{"data":[{"index":0,"embedding":{}}]}"#, "a vector, as a list of numbers"),
        (Api::Openai, r#"{"data":[{"index":1,"embedding":[1]},{"index":1,"embedding":[1]}]}"#, "has the index 0"),
        (Api::Openai, r#"{"data":[{"index":0,"embedding":[1,2]},{"index":1,"embedding":[1]}]}"#, "of 2 and of 1"),
        (Api::Embed, "[[1],[1],]", "trailing comma"),
        (Api::Embed, "[[1],[1]] and more", "trailing characters"),
        (Api::Embed, "[1,2]", "a vector, as a list of numbers"),
        (Api::Rerank, r#"[{"index":0,"score":null},{"index":1,"score":1}]"#, "null"),
        (Api::Rerank, r#"[{"index":0,"score":1},{"index":0,"score":1}]"#, "none of 2 results has the index 1"),
        (Api::Rerank, r#"{"results":[]}"#, "a list of results"),
        (Api::CohereRerank, r#"{"results":[{"index":-1,"relevance_score":1}]}"#, "-1"),
        (Api::CohereRerank, r#"{"results":[{"index":0}]}"#, "missing field `score`"),
        (Api::Score, r#"{"data":[{"score":1},{"score":1}]}"#, "missing field `index`"),
    ] {
        let problem = api.check(answer.as_bytes(), 2).unwrap_err();
        assert!(problem.contains(words), "{api:?} {answer}: {problem}");
    }
}
