//! JSON bodies written piece by piece: no large response is in memory as text, and no thread works longer on one than on a piece at a
//! time.

use serde::Serialize;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Bytes of a piece; exceeded by its last item.
pub(crate) const PIECE: usize = 1 << 16;

/// Time after which a piece ends with the item that is being written, however short it is: an item may take long and be short.
const LONGEST: Duration = Duration::from_millis(10);

/// Part of a JSON text: appends its next item at each call, and returns false when none is left.
type Part = Box<dyn FnMut(&mut String) -> bool + Send>;

/// A JSON text of parts that are still to be written; the items of the iterator are its pieces, of which some may be empty.
pub(crate) struct JsonText {
    parts: VecDeque<Part>,
    /// Time for a piece.
    longest: Duration,
}

impl Default for JsonText {
    fn default() -> Self {
        Self { parts: VecDeque::new(), longest: LONGEST }
    }
}

impl JsonText {
    /// Adds a text.
    pub(crate) fn text(mut self, text: impl Into<String>) -> Self {
        let mut text = Some(text.into());
        self.parts.push_back(Box::new(move |out| match text.take() {
            Some(text) => {
                out.push_str(&text);
                true
            }
            None => false,
        }));
        self
    }

    /// Adds `[item,item]`.
    pub(crate) fn list<I: IntoIterator<IntoIter: Send + 'static>>(
        self,
        items: I,
        mut write: impl FnMut(&mut String, I::Item) + Send + 'static,
    ) -> Self {
        let mut items = items.into_iter();
        let mut separator = "";
        let mut list = self.text("[");
        list.parts.push_back(Box::new(move |out| match items.next() {
            Some(item) => {
                out.push_str(separator);
                separator = ",";
                write(out, item);
                true
            }
            None => false,
        }));
        list.text("]")
    }

    /// Adds `[[item,item],[item]]`.
    pub(crate) fn nested<I>(
        self,
        lists: I,
        mut write: impl FnMut(&mut String, <I::Item as IntoIterator>::Item) + Send + 'static,
    ) -> Self
    where
        I: IntoIterator<Item: IntoIterator<IntoIter: Send + 'static>, IntoIter: Send + 'static>,
    {
        let mut lists = lists.into_iter();
        let mut before_list = "[";
        let mut open: Option<(<I::Item as IntoIterator>::IntoIter, &str)> = None;
        let mut whole = self.text("[");
        whole.parts.push_back(Box::new(move |out| {
            match &mut open {
                Some((items, separator)) => match items.next() {
                    Some(item) => {
                        out.push_str(separator);
                        *separator = ",";
                        write(out, item);
                    }
                    None => {
                        out.push(']');
                        open = None;
                    }
                },
                None => {
                    let Some(list) = lists.next() else { return false };
                    out.push_str(before_list);
                    before_list = ",[";
                    open = Some((list.into_iter(), ""));
                }
            }
            true
        }));
        whole.text("]")
    }

    /// Adds a list of values as serde writes them.
    pub(crate) fn values<I: IntoIterator<Item: Serialize, IntoIter: Send + 'static>>(self, items: I) -> Self {
        self.list(items, |out, item| write_value(out, &item))
    }

    /// `value` as serde writes it, with lists in place of the empty ones of its fields, which are given in their order.
    pub(crate) fn around<const N: usize>(value: &impl Serialize, lists: [(&str, Self); N]) -> Self {
        let mut rest = String::new();
        write_value(&mut rest, value);
        let mut whole = Self::default();
        for (field, list) in lists {
            // No string contains this: quotes in strings are escaped.
            let key = format!("\"{field}\":[]");
            let Some(start) = rest.find(&key) else { continue };
            let after = rest.split_off(start + key.len());
            rest.truncate(rest.len() - "[]".len());
            whole = whole.text(rest);
            whole.parts.extend(list.parts);
            rest = after;
        }
        whole.text(rest)
    }
}

impl Iterator for JsonText {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let (mut piece, begin) = (String::new(), Instant::now());
        while let Some(part) = self.parts.front_mut() {
            if !part(&mut piece) {
                self.parts.pop_front();
            }
            if piece.len() >= PIECE || begin.elapsed() >= self.longest {
                return Some(piece.into_bytes());
            }
        }
        (!piece.is_empty()).then(|| piece.into_bytes())
    }
}

/// Appends a value as serde writes it.
pub(crate) fn write_value(out: &mut String, value: &impl Serialize) {
    // Serialization of our own structs into memory cannot fail.
    out.push_str(&serde_json::to_string(value).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A text whose pieces end by their bytes alone, however slow the machine is.
    fn unhurried() -> JsonText {
        JsonText { longest: Duration::MAX, ..JsonText::default() }
    }

    fn read(text: JsonText) -> (String, usize) {
        let pieces: Vec<Vec<u8>> = text.collect();
        (String::from_utf8(pieces.concat()).unwrap(), pieces.len())
    }

    #[test]
    fn pieces_are_the_text() {
        for len in [0, 1, 2, 100_000] {
            let (text, pieces) = read(unhurried().values(0..len));
            assert_eq!(text, serde_json::to_string(&(0..len).collect::<Vec<_>>()).unwrap());
            assert_eq!(pieces, text.len().div_ceil(PIECE), "{len}");
        }
    }

    #[test]
    fn nested_lists_are_written_item_by_item() {
        for lists in [vec![], vec![vec![]], vec![vec![1], vec![], vec![2, 3]], vec![(0..50_000).collect(), vec![4]]] {
            let (text, pieces) = read(unhurried().nested(lists.clone(), |out, item| write_value(out, &item)));
            assert_eq!(text, serde_json::to_string(&lists).unwrap());
            assert_eq!(pieces, text.len().div_ceil(PIECE));
        }
    }

    #[test]
    fn a_piece_ends_with_the_item_that_fills_it() {
        let long = "x".repeat(PIECE);
        let sizes: Vec<usize> = unhurried().values([&long, &long].map(Clone::clone)).map(|piece| piece.len()).collect();
        assert_eq!(sizes, [PIECE + 3, PIECE + 3, 1]);
    }

    #[test]
    fn a_piece_ends_with_the_item_that_takes_its_time() {
        let hurried = JsonText { longest: Duration::ZERO, ..JsonText::default() };
        let sizes: Vec<usize> = hurried.list(0..3, |_, _| ()).map(|piece| piece.len()).collect();
        // The brackets, the separators, and what follows the end of each part.
        assert_eq!(sizes, [1, 0, 0, 1, 1, 0, 1, 0]);
        let (text, pieces) = read(JsonText { longest: Duration::ZERO, ..JsonText::default() }.values(0..100));
        assert_eq!(text, serde_json::to_string(&(0..100).collect::<Vec<_>>()).unwrap());
        assert!(pieces > 100);
    }

    #[test]
    fn lists_stand_in_their_fields_whatever_the_others_contain() {
        let name = "\"data\":[] [] \n";
        let frame = json!({"a": name, "data": [], "more": [], "z": name});
        let lists = [("data", JsonText::default().values([1, 2])), ("more", JsonText::default().values(["x"]))];
        let whole = json!({"a": name, "data": [1, 2], "more": ["x"], "z": name});
        assert_eq!(read(JsonText::around(&frame, lists)).0, whole.to_string());
    }
}
