//! JSON bodies written piece by piece, so that no large response is in memory as text and no thread works on one for
//! longer than a piece takes.

use serde::Serialize;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Bytes of a piece; exceeded by its last item.
pub(crate) const PIECE: usize = 1 << 16;

/// Time after which a piece ends with the current item, however short the piece is: a short item may take long.
const LONGEST: Duration = Duration::from_millis(10);

/// Part of a JSON text.
enum Piece {
    Text(String),
    /// Appends the next part at each call, in bounded work, and returns false when nothing is left.
    Steps(Box<dyn FnMut(&mut String) -> bool + Send>),
}

/// A JSON text whose parts are still to be written. The iterator returns its pieces; some may be empty.
pub(crate) struct JsonText {
    parts: VecDeque<Piece>,
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
        self.parts.push_back(Piece::Text(text.into()));
        self
    }

    /// Adds a value that is written in steps.
    pub(crate) fn steps(mut self, step: impl FnMut(&mut String) -> bool + Send + 'static) -> Self {
        self.parts.push_back(Piece::Steps(Box::new(step)));
        self
    }

    /// Adds `[item,item]`.
    pub(crate) fn list<I: IntoIterator<Item: 'static, IntoIter: Send + 'static>>(
        self,
        items: I,
        write: impl FnMut(&mut String, I::Item) + Send + 'static,
    ) -> Self {
        self.steps(list_steps(items.into_iter(), write))
    }

    /// Adds a list of items that are written in steps; `begin` makes the writer of an item.
    pub(crate) fn list_of<I, W>(self, items: I, begin: impl FnMut(I::Item) -> W + Send + 'static) -> Self
    where
        I: IntoIterator<Item: 'static, IntoIter: Send + 'static>,
        W: FnMut(&mut String) -> bool + Send + 'static,
    {
        self.steps(steps_of_list(items.into_iter(), begin))
    }

    /// Adds a list of values as serde writes them.
    pub(crate) fn values<I: IntoIterator<Item: Serialize + 'static, IntoIter: Send + 'static>>(self, items: I) -> Self {
        self.list(items, |out, item| write_value(out, &item))
    }

    /// `value` as serde writes it, with `lists` instead of the empty lists of its fields, in field order.
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

impl JsonText {
    /// Appends the next part or step; false when nothing is left.
    pub(crate) fn step(&mut self, out: &mut String) -> bool {
        let Some(part) = self.parts.front_mut() else { return false };
        let goes_on = match part {
            Piece::Text(text) => {
                out.push_str(text);
                false
            }
            Piece::Steps(step) => step(out),
        };
        if !goes_on {
            self.parts.pop_front();
        }
        !self.parts.is_empty()
    }
}

impl Iterator for JsonText {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let (mut piece, begin) = (String::new(), Instant::now());
        while self.step(&mut piece) {
            if piece.len() >= PIECE || begin.elapsed() >= self.longest {
                return Some(piece.into_bytes());
            }
        }
        (!piece.is_empty()).then(|| piece.into_bytes())
    }

    /// No further piece is known as soon as the last one is written.
    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, self.parts.is_empty().then_some(0))
    }
}

/// Writes `[item,item]`, an item at each step.
pub(crate) fn list_steps<T>(
    mut items: impl Iterator<Item = T>,
    mut write: impl FnMut(&mut String, T),
) -> impl FnMut(&mut String) -> bool {
    let mut before = Some("[");
    move |out| {
        let Some(separator) = before else { return false };
        before = match items.next() {
            Some(item) => {
                out.push_str(separator);
                write(out, item);
                Some(",")
            }
            None => end_of_list(out, separator),
        };
        before.is_some()
    }
}

/// Writes `[item,item]`; each step is a step of an item or the beginning of the next one.
pub(crate) fn steps_of_list<T, W: FnMut(&mut String) -> bool>(
    mut items: impl Iterator<Item = T>,
    mut begin: impl FnMut(T) -> W,
) -> impl FnMut(&mut String) -> bool {
    let mut before = Some("[");
    let mut open: Option<W> = None;
    move |out| {
        if let Some(step) = &mut open {
            if !step(out) {
                open = None;
            }
            return true;
        }
        let Some(separator) = before else { return false };
        before = match items.next() {
            Some(item) => {
                out.push_str(separator);
                open = Some(begin(item));
                Some(",")
            }
            None => end_of_list(out, separator),
        };
        before.is_some()
    }
}

/// Writes a value in steps, between `before` and `after`.
pub(crate) fn framed(
    before: String,
    mut step: impl FnMut(&mut String) -> bool,
    after: String,
) -> impl FnMut(&mut String) -> bool {
    let mut before = Some(before);
    move |out| {
        out.push_str(&before.take().unwrap_or_default());
        let goes_on = step(out);
        if !goes_on {
            out.push_str(&after);
        }
        goes_on
    }
}

/// Ends a list; the separator `[` means that no item was written.
fn end_of_list(out: &mut String, separator: &str) -> Option<&'static str> {
    out.push_str(if separator == "[" { "[]" } else { "]" });
    None
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
            let write = |list: Vec<i32>| list_steps(list.into_iter(), |out, item| write_value(out, &item));
            let (text, pieces) = read(unhurried().list_of(lists.clone(), write));
            assert_eq!(text, serde_json::to_string(&lists).unwrap());
            assert_eq!(pieces, text.len().div_ceil(PIECE));
        }
    }

    #[test]
    fn the_last_piece_is_known_as_such() {
        let mut text = unhurried().values([1, 2]);
        assert_eq!(text.size_hint().1, None);
        assert_eq!(text.next().unwrap(), b"[1,2]");
        assert_eq!(text.size_hint().1, Some(0));
        let mut hurried = JsonText { longest: Duration::ZERO, ..JsonText::default() }.values([1]);
        let pieces: Vec<_> = std::iter::from_fn(|| Some((hurried.next()?, hurried.size_hint().1))).collect();
        assert_eq!(pieces, [(b"[1".to_vec(), None), (b"]".to_vec(), Some(0))]);
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
        // The items with what stands before them, and the end.
        assert_eq!(sizes, [1, 1, 1, 1]);
        let (text, pieces) = read(JsonText { longest: Duration::ZERO, ..JsonText::default() }.values(0..100));
        assert_eq!(text, serde_json::to_string(&(0..100).collect::<Vec<_>>()).unwrap());
        assert_eq!(pieces, 101);
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
