//! Inputs in every shape, right and wrong.

use super::*;
use crate::error::ApiError;
use crate::wire::body::parse;
use serde::de::DeserializeOwned;
use serde_json::json;

#[derive(Debug, Deserialize)]
struct Dto<T> {
    inputs: T,
}

fn inputs<T: DeserializeOwned>(value: serde_json::Value) -> Result<T, ApiError> {
    parse::<Dto<T>>(json!({ "inputs": value, "unknown": { "x": [1] } }).to_string().as_bytes())
        .map(|parsed| parsed.value.inputs)
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
        assert_eq!(inputs::<Inputs>(value.clone()).unwrap().0.into_vec(), expected, "{value}");
    }
}

#[test]
fn wrong_inputs_name_the_field_and_the_problem() {
    for (value, field, words) in [
        (json!(null), "inputs", "expected a string"),
        (json!(5), "inputs", "expected a string"),
        (json!({ "a": 1 }), "inputs.text", "missing field"),
        (json!([true]), "inputs[0]", "boolean"),
        (json!(["a", 5]), "inputs", "single token id"),
        (json!([1, "a"]), "inputs[1]", "expected a whole number, at least 0"),
        (json!([1, -1]), "inputs[1]", "-1"),
        (json!([-1]), "inputs[0]", "a token id"),
        (json!([[1], [2.5]]), "inputs[1][0]", "number `2.5`"),
        (json!([4_294_967_296u64]), "inputs[0]", "a token id"),
        (json!([["a"]]), "inputs", "expected a string"),
        (json!([[[1]]]), "inputs", "expected a string"),
    ] {
        match inputs::<Inputs>(value.clone()) {
            Err(ApiError::Body { field: Some(found), problem }) => {
                assert_eq!(found, field, "{value}: {problem}");
                assert!(problem.contains(words), "{value}: {problem}");
                assert_eq!(problem.contains("(line 1, column"), words != "missing field", "{value}: {problem}");
            }
            other => panic!("{value}: {other:?}"),
        }
    }
}

#[test]
fn texts_and_id_lists() {
    assert_eq!(inputs::<Texts>(json!("a")).unwrap().0.into_vec(), ["a"]);
    assert_eq!(inputs::<Texts>(json!(["a", "b"])).unwrap().0.into_vec(), ["a", "b"]);
    assert_eq!(inputs::<IdLists>(json!([1, 2])).unwrap().0.into_vec(), [[1, 2]]);
    assert_eq!(inputs::<IdLists>(json!([[1], []])).unwrap().0.into_vec(), [vec![1], vec![]]);
    for value in [json!([1]), json!(1), json!([["a"]])] {
        assert!(inputs::<Texts>(value.clone()).is_err(), "{value}");
    }
    for value in [json!("a"), json!(["a"]), json!(1), json!([[[1]]])] {
        assert!(inputs::<IdLists>(value.clone()).is_err(), "{value}");
    }
}

#[test]
fn a_flat_list_of_two_is_a_pair() {
    let pair = Input::Pair("a".into(), "b".to_owned());
    for (value, expected, is_batch) in [
        (json!("a"), vec![text("a")], false),
        (json!(["a"]), vec![text("a")], false),
        (json!(["a", "b"]), vec![pair.clone()], false),
        (json!([["a"], ["a", "b"]]), vec![text("a"), pair], true),
        (json!([["a"]]), vec![text("a")], true),
        (json!([]), vec![], true),
    ] {
        assert_eq!(
            inputs::<Sequences>(value.clone()).unwrap(),
            Sequences { inputs: expected.into(), is_batch },
            "{value}"
        );
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
fn a_list_has_no_more_ids_than_any_context() {
    let list = format!("[{}7]", "7,".repeat(MAX_IDS));
    for (value, field) in [(list.clone(), "inputs"), (format!("[[7],{list}]"), "inputs[1]")] {
        let error = parse::<Dto<Inputs>>(format!("{{\"inputs\":{value}}}").as_bytes()).unwrap_err();
        let ApiError::Body { field: Some(found), problem } = error else { panic!("{error}") };
        assert_eq!(found, field, "{problem}");
        assert!(problem.starts_with("more than 1048576 token ids in one list"), "{problem}");
    }
}
