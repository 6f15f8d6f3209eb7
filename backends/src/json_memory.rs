//! Memory that JSON takes once it is parsed, estimated before: an empty list of two bytes takes more than a hundred.

use crate::error::LoadError;
use crate::memory_budget;

/// Maximum bytes of a parsed tokenizer file. The largest known one counts 370 MB.
const MAX_TOKENIZER: u64 = 512 << 20;

/// Maximum bytes of another parsed file. The tensor index of a large model counts 20 MB.
const MAX_OTHER: u64 = 64 << 20;

/// Bytes of the first entries of an object, which share a node, and of the first items of a list.
const OBJECT: u64 = 640;
const LIST: u64 = 160;

/// Bytes of a further item with a short text, including the spare capacity of its list.
const ITEM: u64 = 96;

/// Bytes of a name in an object, without its value.
const NAME: u64 = 48;

/// Bytes of a token in a vocabulary, without the value in the file: two hash tables, made from the parsed object.
pub(crate) const TOKEN: u64 = 304;

/// Estimates the memory of a JSON file, which may be malformed, and checks that it is not much more than model files take.
///
/// # Errors
/// The file would take more than the limit, or more than the process may have.
pub(crate) fn check(file: &str, json: &[u8]) -> Result<u64, LoadError> {
    let (limit, name) = if file.ends_with("tokenizer.json") { (MAX_TOKENIZER, TOKEN) } else { (MAX_OTHER, NAME) };
    match parsed_bytes(json, name) {
        bytes if bytes <= limit => check_left(file, bytes).map(|()| bytes),
        bytes => {
            let problem = format!(
                "has too many lists, objects and values: they would take about {bytes} bytes of memory, the limit is {limit}"
            );
            Err(LoadError::invalid(file, problem))
        }
    }
}

/// Checks that the process may have the memory for what is made from a file.
///
/// # Errors
/// It may not.
pub(crate) fn check_left(file: &str, bytes: u64) -> Result<(), LoadError> {
    memory_budget::check(bytes).map_err(|problem| LoadError::invalid(file, problem))
}

/// Bytes of the values of a JSON text, with `name` for each name. Long strings are not counted; they take as many bytes as in the file.
fn parsed_bytes(json: &[u8], name: u64) -> u64 {
    let mut bytes = 0;
    let mut rest = json.iter();
    while let Some(byte) = rest.next() {
        bytes += match byte {
            b'{' => OBJECT,
            b'[' => LIST,
            b',' => ITEM,
            b':' => name,
            b'"' => {
                while let Some(byte) = rest.next() {
                    match byte {
                        b'"' => break,
                        b'\\' => drop(rest.next()),
                        _ => {}
                    }
                }
                0
            }
            _ => 0,
        };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_and_texts_are_not() {
        let parsed_bytes = |json: &str| parsed_bytes(json.as_bytes(), NAME);
        assert_eq!(parsed_bytes(r#"[1, "a,[{:\"", {"b": 2, "c": []}]"#), LIST + 3 * ITEM + OBJECT + 2 * NAME + LIST);
        assert_eq!(parsed_bytes(r#""\\" , "#), ITEM);
        assert_eq!(parsed_bytes(r#"["without an end, "#), LIST);
    }

    #[test]
    fn a_file_is_refused_for_which_there_is_no_memory() {
        let json = format!("[{}]", vec!["{}"; 30_000].join(","));
        memory_budget::LEFT.set(Some(20_000_000));
        for file in ["config.json", "tokenizer.json"] {
            let refused = check(file, json.as_bytes()).unwrap_err().to_string();
            assert!(refused.starts_with(file) && refused.contains("this process may have 20000000"), "{refused}");
        }
        // The vocabulary of a tokenizer takes more than as many names elsewhere.
        let names: Vec<String> = (0..100_000).map(|id| format!(r#""{id}":{id}"#)).collect();
        let vocabulary = format!("{{{}}}", names.join(","));
        check("config.json", vocabulary.as_bytes()).unwrap();
        let refused = check("0_Static/tokenizer.json", vocabulary.as_bytes()).unwrap_err().to_string();
        assert!(refused.contains("would take 40000544 bytes of memory"), "{refused}");
        memory_budget::LEFT.set(None);
        check("config.json", json.as_bytes()).unwrap();
    }

    #[test]
    fn a_file_of_tiny_values_is_refused() {
        for (item, count) in [("{}", 100_000), ("[]", 300_000), ("0", 800_000), (r#"{"a":{}}"#, 50_000)] {
            let json = format!("[{}]", vec![item; count].join(","));
            let refused = check("modules.json", json.as_bytes()).unwrap_err().to_string();
            assert!(refused.contains("modules.json") && refused.contains("the limit is 67108864"), "{refused}");
            check("0_Static/tokenizer.json", json.as_bytes()).unwrap();
        }
        // 60,000 labels and their ids.
        let label = |id: u32| format!(r#""LABEL_{id}":{id}"#);
        let labels = format!("{{{}}}", (0..60_000).map(label).collect::<Vec<_>>().join(","));
        check("config.json", labels.as_bytes()).unwrap();
    }
}
