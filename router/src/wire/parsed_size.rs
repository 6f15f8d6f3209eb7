//! Memory that parsing a JSON body takes, estimated before parsing.

use super::inputs::VALUE_BYTES;
use crate::error::ApiError;

/// Strings, lists and objects per body: eight times the number that the default limits allow.
pub(super) const MAX_VALUES: usize = 1 << 20;

/// Bytes of a number in a list, whose memory doubles as it grows.
const NUMBER_BYTES: usize = 2 * size_of::<u32>();

/// Contents of a body for which parsing takes memory.
#[derive(Debug, Default, PartialEq, Eq)]
struct Contents {
    /// Strings, the names of fields included, lists and objects.
    values: usize,
    /// Bytes inside of strings.
    text: usize,
    /// One for each item of a list beyond the first, and more.
    commas: usize,
}

/// Maximum bytes of the values of a parsed body; meaningless if the body is not JSON.
///
/// # Errors
/// [`ApiError::TooManyValues`]
pub(super) fn parsed_size(body: &[u8]) -> Result<usize, ApiError> {
    let Contents { values, text, commas } = Contents::of(body);
    if values > MAX_VALUES {
        return Err(ApiError::TooManyValues { limit: MAX_VALUES });
    }
    Ok(text.saturating_add(values * VALUE_BYTES).saturating_add(commas.saturating_mul(NUMBER_BYTES)))
}

impl Contents {
    fn of(body: &[u8]) -> Self {
        let mut contents = Self::default();
        let mut rest = body;
        while let Some((&byte, after)) = rest.split_first() {
            rest = after;
            match byte {
                b'"' => {
                    let len = text_len(after);
                    contents.values += 1;
                    contents.text += len;
                    rest = after.get(len + 1..).unwrap_or_default();
                }
                b'[' | b'{' => contents.values += 1,
                b',' => contents.commas += 1,
                _ => {}
            }
        }
        contents
    }
}

/// Bytes before the quote that ends a string.
pub(super) fn text_len(rest: &[u8]) -> usize {
    let mut at = 0;
    while let Some(found) = rest.get(at..).and_then(|rest| rest.iter().position(|byte| matches!(byte, b'"' | b'\\'))) {
        at += found;
        if rest[at] == b'"' {
            return at;
        }
        at += 2;
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::body::parse;
    use crate::wire::inputs::{IdLists, Inputs, Sequences, Texts};
    use prefold_core::Input;
    use serde::Deserialize;

    fn contents(body: &str) -> [usize; 3] {
        let Contents { values, text, commas } = Contents::of(body.as_bytes());
        [values, text, commas]
    }

    #[test]
    fn strings_lists_objects_and_items_are_counted() {
        assert_eq!(contents(""), [0, 0, 0]);
        assert_eq!(contents("{\"inputs\":[1,2,3]}"), [3, 6, 2]);
        assert_eq!(contents("[\"a\",{\"b\":[[]]},\"\"]"), [7, 2, 2]);
        assert_eq!(contents("[\"[{,\\\"\",\"\\\\\",\"\\u00e9\"]"), [4, 5 + 2 + 6, 2]);
        for broken in ["\"a", "\"a\\", "\"a\\\"", "\"\\"] {
            assert_eq!(contents(broken), [1, broken.len() - 1, 0], "{broken}");
        }
    }

    #[derive(Deserialize)]
    struct Body<T> {
        inputs: T,
    }

    fn heap_of(input: &Input) -> usize {
        let of_input = match input {
            Input::Text(text) => text.capacity(),
            Input::Pair(first, second) => first.len() + 16 + second.capacity(),
            Input::Ids(ids) => ids.capacity() * size_of::<u32>(),
            Input::Rerank { .. } => 0,
        };
        size_of::<Input>() + of_input
    }

    /// Parses a list of many of an item, and compares what is counted with what is there.
    fn check<T: serde::de::DeserializeOwned>(item: &str, heap: impl Fn(&T) -> usize) {
        for count in [1, 2, 5, 1000, 1025] {
            let body = format!("{{\"inputs\":[{}{item}]}}", format!("{item},").repeat(count - 1));
            let counted = parsed_size(body.as_bytes()).unwrap();
            let Body::<T> { inputs } = parse(body.as_bytes()).unwrap().value;
            assert!(heap(&inputs) <= counted, "{count} of {item}: {} bytes, {counted} counted", heap(&inputs));
        }
    }

    #[test]
    fn no_more_is_there_than_is_counted() {
        let inputs = |Inputs(inputs): &Inputs| inputs.iter().map(heap_of).sum::<usize>();
        for item in ["\"\"", "\"a\"", "[]", "[7]", "[7,7]", "[1,2,3,4,5,6,7,8,9]", "\"some text \\n \\u00e9\""] {
            check::<Inputs>(item, inputs);
        }
        let pairs = |all: &Sequences| all.inputs.iter().map(heap_of).sum::<usize>();
        for item in ["[\"\"]", "[\"a\",\"b\"]"] {
            check::<Sequences>(item, pairs);
        }
        check::<Texts>("\"a\"", |Texts(all)| all.iter().map(|text| text.capacity() + size_of::<String>()).sum());
        check::<IdLists>("[7,7]", |IdLists(all)| {
            all.iter().map(|ids| ids.capacity() * size_of::<u32>() + size_of::<Vec<u32>>()).sum()
        });
        // A flat list.
        check::<IdLists>("7", |IdLists(all)| all.iter().map(|ids| ids.capacity() * size_of::<u32>()).sum());
    }
}
