//! Memory for weights, in huge pages where the system has them, so that a pass over all weights does not wait for
//! address translation.

use crate::error::KernelError;
use memmap2::MmapMut;

/// Zeroed words, aligned to a page.
#[derive(Debug)]
pub(crate) struct HugePages {
    map: MmapMut,
    words: usize,
}

impl HugePages {
    /// # Errors
    /// The system is out of memory.
    pub(crate) fn new(words: usize) -> Result<Self, KernelError> {
        let bytes = words.checked_mul(size_of::<u32>());
        // A mapping must not be empty.
        let map = bytes.and_then(|bytes| MmapMut::map_anon(bytes.max(1)).ok());
        let map = map.ok_or(KernelError::Memory { words })?;
        // Failure is ignored: it affects only the speed.
        #[cfg(target_os = "linux")]
        let _ = map.advise(memmap2::Advice::HugePage);
        Ok(Self { map, words })
    }

    pub(crate) fn words(&self) -> &[u32] {
        // SAFETY: the map has `words` words, is aligned to a page, and any bits are a word.
        unsafe { std::slice::from_raw_parts(self.map.as_ptr().cast(), self.words) }
    }

    pub(crate) fn words_mut(&mut self) -> &mut [u32] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.map.as_mut_ptr().cast(), self.words) }
    }
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
    fn more_memory_than_the_system_has_is_an_error() {
        for words in [usize::MAX, usize::MAX / 8] {
            assert_eq!(HugePages::new(words).unwrap_err(), KernelError::Memory { words });
        }
    }
}
