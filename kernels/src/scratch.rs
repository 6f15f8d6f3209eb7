//! Buffers that a thread keeps between calls, so that nothing is allocated once they have grown.

use std::cell::Cell;

thread_local! {
    static LINES: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
}

/// Sixteen words, aligned to a cache line.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Line([u32; Line::WORDS]);

impl Line {
    pub(crate) const WORDS: usize = 16;
    pub(crate) const ZERO: Self = Self([0; Self::WORDS]);

    /// The words of some lines.
    pub(crate) fn words_mut(lines: &mut [Self]) -> &mut [u32] {
        // SAFETY: a line is sixteen words and nothing else.
        unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), lines.len() * Self::WORDS) }
    }
}

/// The same bits as `f32`.
pub(crate) fn as_f32(words: &mut [u32]) -> &mut [f32] {
    // SAFETY: same size, same alignment, and all bits are valid for both.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), words.len()) }
}

/// Words of this thread's buffer, which are given back when this is dropped; their content is arbitrary. A second one that exists
/// at the same time is another buffer.
pub(crate) struct Scratch(Vec<Line>);

impl Scratch {
    /// At least `count` words.
    pub(crate) fn new(count: usize) -> Self {
        let mut lines = LINES.take();
        let needed = count.div_ceil(Line::WORDS);
        if lines.len() < needed {
            lines.resize(needed, Line::ZERO);
        }
        Self(lines)
    }

    /// The words, aligned to a cache line.
    pub(crate) fn words(&mut self) -> &mut [u32] {
        Line::words_mut(&mut self.0)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let lines = std::mem::take(&mut self.0);
        LINES.set(lines);
    }
}

/// Calls `f` with at least `count` words of this thread's buffer; their content is arbitrary.
pub(crate) fn with_words<T>(count: usize, f: impl FnOnce(&mut [u32]) -> T) -> T {
    f(Scratch::new(count).words())
}
