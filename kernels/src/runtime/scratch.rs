//! Scratch buffers that a thread keeps between calls, so that nothing is allocated once they have grown.

use std::cell::Cell;

thread_local! {
    /// Free buffers, last returned first, so that each depth of nested calls reuses its own buffer.
    static UNUSED: Cell<Vec<Vec<Line>>> = const { Cell::new(Vec::new()) };
}

/// Sixteen words, aligned to a cache line.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Line([u32; Line::WORDS]);

impl Line {
    pub(crate) const WORDS: usize = 16;
    pub(crate) const ZERO: Self = Self([0; Self::WORDS]);

    /// The words of a slice of lines.
    #[inline]
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

/// A buffer of this thread, returned on drop; its content is arbitrary. Two live values have different buffers.
pub(crate) struct Scratch {
    /// The buffer; longer than requested where an earlier use needed more.
    lines: Vec<Line>,
    count: usize,
}

impl Scratch {
    /// Takes a buffer of `count` words.
    pub(crate) fn new(count: usize) -> Self {
        let mut unused = UNUSED.take();
        let mut lines = unused.pop().unwrap_or_default();
        UNUSED.set(unused);
        let needed = count.div_ceil(Line::WORDS);
        if lines.len() < needed {
            lines.resize(needed, Line::ZERO);
        }
        Self { lines, count }
    }

    /// The words, aligned to a cache line.
    #[inline]
    pub(crate) fn words(&mut self) -> &mut [u32] {
        &mut Line::words_mut(&mut self.lines)[..self.count]
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let mut unused = UNUSED.take();
        unused.push(std::mem::take(&mut self.lines));
        UNUSED.set(unused);
    }
}

/// Calls `f` with `count` words of a buffer of this thread; their content is arbitrary.
pub(crate) fn with_words<T>(count: usize, f: impl FnOnce(&mut [u32]) -> T) -> T {
    f(Scratch::new(count).words())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_depth_keeps_its_buffer() {
        let addresses = || {
            let (mut outer, mut inner) = (Scratch::new(100), Scratch::new(1000));
            let found = [&mut outer, &mut inner].map(|scratch| scratch.words().as_ptr());
            drop(inner);
            found
        };
        let first = addresses();
        assert_ne!(first[0], first[1]);
        assert_eq!(addresses(), first);
        assert_eq!(Scratch::new(10).words().len(), 10, "whatever the buffer has");
    }
}
