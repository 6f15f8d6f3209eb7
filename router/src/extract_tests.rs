//! Bodies as clients send them, good and bad.

use super::*;
use axum::body::{Body, Bytes};
use serde_json::json;

#[derive(Debug, Deserialize)]
struct Dto<T> {
    inputs: T,
    #[allow(dead_code, reason = "read by the parser")]
    flag: Option<bool>,
}

fn inputs<T: DeserializeOwned>(value: serde_json::Value) -> Result<T, ApiError> {
    parse::<Dto<T>>(json!({ "inputs": value, "unknown": { "x": [1] } }).to_string().as_bytes()).map(|dto| dto.inputs)
}

fn text(text: &str) -> Input {
    Input::Text(text.to_owned())
}

#[test]
fn inputs_take_every_shape() {
    for (value, expected) in [
        (json!("a"), vec![text("a")]),
        (json!([]), vec![]),
        (json!(["a", ""]), vec![text("a"), text("")]),
        (json!([1, 2]), vec![Input::Ids(vec![1, 2])]),
        (json!([4_294_967_295u32]), vec![Input::Ids(vec![u32::MAX])]),
        (json!([[1], [2, 3], []]), vec![Input::Ids(vec![1]), Input::Ids(vec![2, 3]), Input::Ids(vec![])]),
        (json!(["a", [7], "b"]), vec![text("a"), Input::Ids(vec![7]), text("b")]),
        (json!([[7], "b"]), vec![Input::Ids(vec![7]), text("b")]),
    ] {
        assert_eq!(inputs::<Inputs>(value.clone()).unwrap().0, expected, "{value}");
    }
}

#[test]
fn wrong_inputs_name_the_field_and_the_problem() {
    for (value, field, words) in [
        (json!(null), "inputs", "expected a string"),
        (json!(5), "inputs", "expected a string"),
        (json!({ "a": 1 }), "inputs", "invalid type: map"),
        (json!([true]), "inputs[0]", "boolean"),
        (json!(["a", 5]), "inputs", "single token id"),
        (json!([1, "a"]), "inputs[1]", "expected u32"),
        (json!([1, -1]), "inputs[1]", "-1"),
        (json!([-1]), "inputs[0]", "a token id"),
        (json!([[1], [2.5]]), "inputs[1][0]", "floating point"),
        (json!([4_294_967_296u64]), "inputs[0]", "a token id"),
        (json!([["a"]]), "inputs", "expected a string"),
        (json!([[[1]]]), "inputs", "expected a string"),
    ] {
        match inputs::<Inputs>(value.clone()) {
            Err(ApiError::Body { field: Some(found), problem }) => {
                assert_eq!(found, field, "{value}: {problem}");
                assert!(problem.contains(words), "{value}: {problem}");
                assert!(problem.contains("at line 1 column"), "{value}: {problem}");
            }
            other => panic!("{value}: {other:?}"),
        }
    }
}

#[test]
fn texts_and_id_lists() {
    assert_eq!(inputs::<Texts>(json!("a")).unwrap().0, ["a"]);
    assert_eq!(inputs::<Texts>(json!(["a", "b"])).unwrap().0, ["a", "b"]);
    assert_eq!(inputs::<IdLists>(json!([1, 2])).unwrap().0, [[1, 2]]);
    assert_eq!(inputs::<IdLists>(json!([[1], []])).unwrap().0, [vec![1], vec![]]);
    for value in [json!([1]), json!(1), json!([["a"]])] {
        assert!(inputs::<Texts>(value.clone()).is_err(), "{value}");
    }
    for value in [json!("a"), json!(["a"]), json!(1), json!([[[1]]])] {
        assert!(inputs::<IdLists>(value.clone()).is_err(), "{value}");
    }
}

#[test]
fn a_flat_list_of_two_is_a_pair() {
    let pair = Input::Pair("a".to_owned(), "b".to_owned());
    for (value, expected, is_batch) in [
        (json!("a"), vec![text("a")], false),
        (json!(["a"]), vec![text("a")], false),
        (json!(["a", "b"]), vec![pair.clone()], false),
        (json!([["a"], ["a", "b"]]), vec![text("a"), pair], true),
        (json!([["a"]]), vec![text("a")], true),
        (json!([]), vec![], true),
    ] {
        assert_eq!(inputs::<Sequences>(value.clone()).unwrap(), Sequences { inputs: expected, is_batch }, "{value}");
    }
    for (value, words) in [
        (json!(["a", "b", "c"]), "found 3"),
        (json!([["a"], ["a", "b", "c", "d"]]), "sequence 1: a flat list"),
        (json!([["a"], []]), "found none"),
        (json!(["a", ["b"]]), "one or two strings"),
        (json!([1, 2]), "one or two strings"),
        (json!([[1]]), "sequence 0"),
    ] {
        let error = inputs::<Sequences>(value.clone()).unwrap_err().to_string();
        assert!(error.contains(words), "{value}: {error}");
    }
}

#[test]
fn syntax_and_types_are_told_apart() {
    for body in ["", "{", "{\"inputs\": \"a\"", "{'inputs': 1}", "{\"inputs\":\"a\"} x", "\u{feff}{}"] {
        assert!(matches!(parse::<Dto<Inputs>>(body.as_bytes()), Err(ApiError::Syntax(_))), "{body}");
    }
    assert!(matches!(parse::<Dto<Inputs>>(b"{\"inputs\":\"\xff\"}"), Err(ApiError::Syntax(_))));
    let missing = parse::<Dto<Inputs>>(b"{}").unwrap_err().to_string();
    assert!(missing.starts_with("missing field `inputs`"), "{missing}");
    let wrong = parse::<Dto<Inputs>>(b"{\"inputs\":\"a\",\n\"flag\":\"yes\"}").unwrap_err().to_string();
    assert!(wrong.starts_with("`flag`: invalid type: string \"yes\", expected a boolean at line 2"), "{wrong}");
}

fn request(body: Body, headers: &[(header::HeaderName, &str)]) -> Request {
    let mut request = Request::new(body);
    for (name, value) in headers {
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    request
}

fn chunked(sizes: &[usize]) -> Body {
    let chunks: Vec<_> = sizes.iter().map(|&n| Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; n]))).collect();
    Body::from_stream(futures::stream::iter(chunks))
}

#[tokio::test]
async fn the_limit_holds_with_and_without_a_length() {
    assert_eq!(read_body(request(chunked(&[4, 6]), &[]), 10).await.unwrap().len(), 10);
    for sizes in [&[11][..], &[10, 1], &[4, 4, 4, 4]] {
        let declared = sizes.iter().sum::<usize>().to_string();
        for headers in [&[][..], &[(header::CONTENT_LENGTH, declared.as_str())]] {
            let result = read_body(request(chunked(sizes), headers), 10).await;
            assert!(matches!(result, Err(ApiError::PayloadTooLarge { limit: 10 })), "{sizes:?} {headers:?}");
        }
    }
}

#[tokio::test]
async fn a_body_that_was_not_sent_is_not_waited_for() {
    let never = || Body::from_stream(futures::stream::pending::<Result<Bytes, std::io::Error>>());
    let waiting = [(header::CONTENT_LENGTH, "11"), (header::EXPECT, "100-continue")];
    let huge = (MAX_DISCARDED + 11).to_string();
    for headers in [&waiting[..], &[(header::CONTENT_LENGTH, huge.as_str())]] {
        let result = read_body(request(never(), headers), 10).await;
        assert!(matches!(result, Err(ApiError::PayloadTooLarge { .. })), "{headers:?}");
    }
}

#[test]
fn a_body_is_an_object() {
    for (body, kind) in [
        ("[\"a\",null]", "an array"),
        (" \"a\"", "a string"),
        ("-1", "a number"),
        ("true", "a boolean"),
        ("null", "null"),
    ] {
        let error = parse::<Dto<Inputs>>(body.as_bytes()).unwrap_err().to_string();
        assert_eq!(error, format!("the request body is {kind}, it must be a JSON object"));
    }
    assert!(matches!(parse::<Dto<Inputs>>(b"[1,"), Err(ApiError::Syntax(_))));
}

#[tokio::test]
async fn a_compressed_body_is_named_so() {
    let coded = |coding| request(chunked(&[4]), &[(header::CONTENT_ENCODING, coding)]);
    let error = read_body(coded("gzip"), 10).await.unwrap_err();
    assert!(matches!(&error, ApiError::Encoded(coding) if coding == "gzip"), "{error}");
    assert_eq!(read_body(coded("identity"), 10).await.unwrap().len(), 4);
}

#[tokio::test]
async fn a_broken_body_is_the_clients_fault() {
    let chunks = [Ok(Bytes::from_static(b"{")), Err(std::io::Error::other("gone"))];
    let result = read_body(request(Body::from_stream(futures::stream::iter(chunks)), &[]), 10).await;
    assert!(matches!(result, Err(ApiError::Incomplete(problem)) if problem.contains("gone")));
}

#[test]
fn a_body_has_no_more_values_than_any_request_needs() {
    let nested = |item: &str, count: usize| format!("{{\"inputs\":[{}{item}]}}", format!("{item},").repeat(count - 1));
    for item in ["[]", "\"\"", "{}", "\"[{\\\"\""] {
        let error = parse::<Dto<Inputs>>(nested(item, MAX_VALUES + 1).as_bytes()).unwrap_err();
        assert!(matches!(error, ApiError::TooManyValues { limit: MAX_VALUES }), "{item}: {error}");
    }
    // What is inside a text is no value, and numbers are as small as what says them.
    let text = format!("{{\"inputs\":\"{}\"}}", "[{\\\"".repeat(MAX_VALUES));
    assert_eq!(parse::<Dto<Inputs>>(text.as_bytes()).unwrap().inputs.0.len(), 1);
    let list = format!("[{}7]", "7,".repeat(MAX_IDS - 1));
    let ids = parse::<Dto<Inputs>>(nested(&list, 2).as_bytes()).unwrap().inputs.0;
    assert_eq!(ids, [Input::Ids(vec![7; MAX_IDS]), Input::Ids(vec![7; MAX_IDS])]);
}

#[test]
fn a_list_has_no_more_ids_than_any_context() {
    let list = format!("[{}7]", "7,".repeat(MAX_IDS));
    for (value, field) in [(list.clone(), "inputs"), (format!("[[7],{list}]"), "inputs[1]")] {
        let error = parse::<Dto<Inputs>>(format!("{{\"inputs\":{value}}}").as_bytes()).unwrap_err();
        let ApiError::Body { field: Some(found), problem } = error else { panic!("{error}") };
        assert_eq!(found, field, "{problem}");
        assert!(problem.starts_with("more than 1048576 token ids in one list"), "{problem}");
    }
}
