//! Memory in huge pages where the system has them, so that a pass over weights or activations does not wait for address translation.

use crate::error::KernelError;
use crate::runtime::shared_pointer::SharedPointer;
use memmap2::{MmapMut, MmapRaw};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Requests huge pages for memory that nothing was written to since it was allocated. Without effect where the system has none.
pub fn advise_huge_pages<T>(memory: &mut [T]) {
    #[cfg(target_os = "linux")]
    {
        /// Alignment that the system requires: its smallest page.
        const PAGE: usize = 4096;
        let bytes = std::mem::size_of_val(memory);
        let skipped = memory.as_mut_ptr().cast::<u8>().align_offset(PAGE);
        let Some(len) = bytes.checked_sub(skipped).filter(|&len| len > 0) else { return };
        // SAFETY: the range is within the slice, whose last page the system completes; the advice changes no value. Failure is ignored: it affects only the speed.
        unsafe { libc::madvise(memory.as_mut_ptr().cast::<u8>().add(skipped).cast(), len, libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = memory;
}

/// Bytes of a huge page of x86-64, and of most systems on AArch64.
const HUGE_PAGE: usize = 2 << 20;

/// Bytes of a mapping that smaller matrices share: a matrix of less than a huge page could not use one alone.
const SHARED: usize = 8 * HUGE_PAGE;

/// Alignment of words, a small page.
const ALIGNMENT: usize = 4096;

/// The mapping that small matrices are placed in, as long as one of them exists, and its used bytes.
static CURRENT: Mutex<(Weak<MmapRaw>, usize)> = Mutex::new((Weak::new(), 0));

/// Zeroed words, aligned to a page. Small matrices share a mapping, which is freed with the last of them.
#[derive(Debug)]
pub(crate) struct HugePages {
    /// The first word, in the mapping.
    start: SharedPointer<u32>,
    words: usize,
    /// Unmapped with its last user.
    map: Arc<MmapRaw>,
}

impl Drop for HugePages {
    /// Returns the memory to the shared mapping if it is the last that was taken, so that temporary matrices leave no gap.
    fn drop(&mut self) {
        let bytes = bytes_of(self.words).unwrap_or(0);
        let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
        let (mapping, used) = &mut *current;
        let start = self.start.at(0) as usize - self.map.as_ptr() as usize;
        if mapping.as_ptr() == Arc::as_ptr(&self.map) && start + bytes == *used {
            self.words_mut().fill(0);
            *used = start;
        }
    }
}

/// Bytes of whole small pages that hold `words`.
fn bytes_of(words: usize) -> Option<usize> {
    words.checked_mul(size_of::<u32>())?.checked_next_multiple_of(ALIGNMENT)
}

impl HugePages {
    /// # Errors
    /// The system is out of memory.
    pub(crate) fn new(words: usize) -> Result<Self, KernelError> {
        let found = bytes_of(words).and_then(|bytes| if bytes < SHARED { part_of_shared(bytes) } else { map(bytes) });
        let Some((map, start)) = found else { return Err(KernelError::Memory { words }) };
        Ok(Self { start, words, map })
    }

    pub(crate) fn words(&self) -> &[u32] {
        // SAFETY: the map has `words` words from `start` on, which no other value uses, and any bits are a word.
        unsafe { std::slice::from_raw_parts(self.start.at(0), self.words) }
    }

    /// The bytes of the words.
    pub(crate) fn bytes(&self) -> &[i8] {
        let words = self.words();
        // SAFETY: the words have no padding, and any bits are a byte.
        unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [i8] {
        let words = self.words_mut();
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), size_of_val(words)) }
    }

    pub(crate) fn words_mut(&mut self) -> &mut [u32] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.start.at(0), self.words) }
    }
}

/// Unused bytes of the current shared mapping, or of a new one.
fn part_of_shared(bytes: usize) -> Option<(Arc<MmapRaw>, SharedPointer<u32>)> {
    // Nothing panics under the lock.
    let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
    let (mapping, used) = &mut *current;
    let is_full = |map: &MmapRaw| map.len() < *used + bytes;
    let map = match mapping.upgrade().filter(|map| !is_full(map)) {
        Some(map) => map,
        None => {
            let (map, start) = map(SHARED)?;
            *used = start.at(0) as usize - map.as_ptr() as usize;
            *mapping = Arc::downgrade(&map);
            map
        }
    };
    let start = map.as_mut_ptr().wrapping_add(*used).cast();
    *used += bytes;
    Some((map, SharedPointer::from_raw(start)))
}

/// A mapping of at least `bytes` bytes, and the address of its first huge page.
fn map(bytes: usize) -> Option<(Arc<MmapRaw>, SharedPointer<u32>)> {
    let map = MmapMut::map_anon(bytes.checked_add(HUGE_PAGE)?).ok()?;
    // Failure is ignored: it affects only the speed.
    #[cfg(target_os = "linux")]
    let _ = map.advise(memmap2::Advice::HugePage);
    let map = MmapRaw::from(map);
    let start = map.as_mut_ptr();
    let aligned = start.wrapping_add(start.align_offset(HUGE_PAGE)).cast();
    Some((Arc::new(map), SharedPointer::from_raw(aligned)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_zero_aligned_and_keep_what_is_written() {
        for words in [0, 1, 1000, 3 << 20] {
            let mut pages = HugePages::new(words).unwrap();
            assert!(pages.words().len() == words && pages.words().iter().all(|&word| word == 0));
            assert_eq!(pages.words().as_ptr() as usize % 64, 0);
            pages.words_mut().fill(7);
            assert!(pages.words().iter().all(|&word| word == 7));
        }
    }

    #[test]
    fn small_matrices_have_words_of_their_own() {
        let sizes = [1, 1000, 300_000, 1 << 20, 3 << 20, 5 << 20, 0, 7];
        let mut all: Vec<HugePages> = sizes.iter().map(|&words| HugePages::new(words).unwrap()).collect();
        for (pages, value) in all.iter_mut().zip(1..) {
            assert!(pages.words().iter().all(|&word| word == 0));
            pages.words_mut().fill(value);
        }
        // Freed memory may be used again.
        drop(all.split_off(3));
        for _ in 0..2 {
            let mut late = HugePages::new(2 << 20).unwrap();
            assert!(late.words().iter().all(|&word| word == 0));
            late.words_mut().fill(9);
        }
        for (pages, value) in all.iter().zip(1..) {
            assert!(pages.words().iter().all(|&word| word == value));
        }
    }

    #[test]
    fn advice_leaves_values_as_they_are() {
        for len in [0, 1, 5000, 3 << 20] {
            let mut memory = vec![7_u16; len];
            advise_huge_pages(&mut memory);
            advise_huge_pages(&mut memory[len.min(1)..]);
            assert!(memory.iter().all(|&value| value == 7));
        }
    }

    #[test]
    fn more_memory_than_the_system_has_is_an_error() {
        for words in [usize::MAX, usize::MAX / 8] {
            assert_eq!(HugePages::new(words).unwrap_err(), KernelError::Memory { words });
        }
    }
}
