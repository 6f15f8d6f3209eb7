//! Wrong headers of safetensors files. Each is refused with the tensor's name.

use super::{copy_of, open};
use serde_json::{Value, json};
use std::fs;

const NAME: &str = "model.layers.1.mlp.up_proj.weight";

/// A file with this header and this number of bytes for tensors.
fn file(header: &str, data: usize) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &vec![0; data]].concat()
}

fn refusal(bytes: &[u8]) -> String {
    let dir = copy_of("llama-tiny");
    fs::write(dir.path().join("model.safetensors"), bytes).unwrap();
    let message = open(dir.path()).unwrap_err().to_string();
    assert!(message.starts_with("model.safetensors: not a whole safetensors file: "), "{message}");
    message
}

/// A header with one tensor of four floats and another, which is `tensor`.
fn header_with(tensor: &Value) -> String {
    let first = json!({"dtype": "F32", "shape": [4], "data_offsets": [0, 16]});
    json!({"a": first, NAME: tensor}).to_string()
}

#[test]
fn lengths_that_no_header_has() {
    let whole = file(&header_with(&json!({"dtype": "F32", "shape": [1], "data_offsets": [16, 20]})), 20);
    for (length, words) in [
        (u64::MAX, "at most 8388608"),
        (1 << 62, "at most 8388608"),
        (99_999_999, "at most 8388608"),
        (8 << 20, "ends within the header"),
        (whole.len() as u64, "ends within the header"),
        (0, "the header"),
        (10, "the header"),
    ] {
        let bytes = [&length.to_le_bytes()[..], &whole[8..]].concat();
        let message = refusal(&bytes);
        assert!(message.contains(words), "{length}: {message}");
    }
    for (bytes, words) in [(&whole[..5], "5 bytes"), (&whole[..whole.len() - 1], "20 bytes, 19 are there")] {
        let message = refusal(bytes);
        assert!(message.contains(words), "{message}");
    }
    let message = refusal(&[&whole[..], b"x"].concat());
    assert!(message.contains("20 bytes, 21 are there"), "{message}");
}

#[test]
fn headers_that_are_something_else() {
    let nested = format!("{{\"a\": {}", "[".repeat(1 << 20));
    for header in ["", "null", "[]", "{", "{\"a\": 1}", "{\"a\": {}}", "{} {}", "\u{feff}{}", &nested] {
        refusal(&file(header, 16));
    }
    let bytes = [&8u64.to_le_bytes()[..], b"\xff\xfe\0\0\0\0\0\0"].concat();
    refusal(&bytes);
}

#[test]
fn tensors_in_impossible_places_and_of_impossible_types() {
    let offsets = |start: Value, end: Value| json!({"dtype": "F32", "shape": [1], "data_offsets": [start, end]});
    let shape = |shape: Value| json!({"dtype": "F32", "shape": shape, "data_offsets": [16, 20]});
    for (tensor, data, words) in [
        // Overlapping, with a gap, descending, outside, overflowing.
        (offsets(json!(12), json!(16)), 20, ""),
        (offsets(json!(17), json!(21)), 21, "invalid offset"),
        (offsets(json!(20), json!(16)), 20, "20 to 16"),
        (offsets(json!(16), json!(1000)), 20, "16 to 1000"),
        (offsets(json!(16), json!(u64::MAX)), 20, "16 to 18446744073709551615"),
        (offsets(json!(u64::MAX), json!(u64::MAX)), 20, "18446744073709551615"),
        (offsets(json!(-1), json!(3)), 20, "-1"),
        (offsets(json!(16.0), json!(20)), 20, "16.0"),
        (offsets(json!(16), json!("20")), 20, "string"),
        // Shapes that differ from the bytes or are impossible.
        (shape(json!([2])), 20, "[2]"),
        (shape(json!([0])), 20, "[0]"),
        (shape(json!(vec![1; 65])), 20, "65 dimensions, the limit is 64"),
        (shape(json!([1u64 << 32, 1u64 << 32])), 20, "4294967296"),
        (shape(json!([u64::MAX])), 20, "18446744073709551615"),
        (shape(json!([-1])), 20, "-1"),
        (shape(json!("1")), 20, "string"),
        // Types.
        (json!({"dtype": "F33", "shape": [1], "data_offsets": [16, 20]}), 20, "F33"),
        (json!({"dtype": 7, "shape": [1], "data_offsets": [16, 20]}), 20, ""),
        (json!({"dtype": "F4", "shape": [1], "data_offsets": [16, 17]}), 17, "F4"),
        (json!({"shape": [1], "data_offsets": [16, 20]}), 20, "dtype"),
        (json!({"dtype": "F32", "data_offsets": [16, 20]}), 20, "shape"),
        (json!({"dtype": "F32", "shape": [1]}), 20, "data_offsets"),
        (json!({"dtype": "F32", "shape": [1], "data_offsets": [16, 20, 24]}), 20, ""),
        (json!(null), 20, ""),
    ] {
        let message = refusal(&file(&header_with(&tensor), data));
        // Either of two overlapping tensors may be named.
        let named = message.contains(NAME) || message.contains("\"a\"") || message.contains("`a`");
        assert!(named && message.contains(words), "{tensor}: {message}");
    }
}

#[test]
fn a_name_must_not_come_twice() {
    let tensor = |shape: &str| format!(r#"{{"dtype": "F32", "shape": {shape}, "data_offsets": [0, 24]}}"#);
    // The same key twice, with two and with three rows: readers of the first and of the last entry would differ.
    let header = format!(r#"{{"{NAME}": {}, "{NAME}": {}}}"#, tensor("[2, 3]"), tensor("[3, 2]"));
    let message = refusal(&file(&header, 24));
    assert!(message.contains(&format!("`{NAME}` occurs twice")), "{message}");
}

#[test]
fn a_header_may_have_metadata_and_spaces() {
    let dir = copy_of("llama-tiny");
    let path = dir.path().join("model.safetensors");
    let whole = fs::read(&path).unwrap();
    let length = u64::from_le_bytes(whole[..8].try_into().unwrap()) as usize;
    let header = str::from_utf8(&whole[8..8 + length]).unwrap().trim_end();
    assert!(header.contains("__metadata__"));
    let header = format!(" {header}   ");
    fs::write(&path, [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &whole[8 + length..]].concat())
        .unwrap();
    assert!(open(dir.path()).is_ok());
}
