//! Memory for what stays: large pages where the system has them, so that reading it through does not wait for translations
//! of addresses.

use crate::KernelError;
use memmap2::MmapMut;

/// Zeroed words, aligned to a page.
#[derive(Debug)]
pub(crate) struct Pages {
    map: MmapMut,
    words: usize,
}

impl Pages {
    /// # Errors
    /// The system has not so much memory.
    pub(crate) fn new(words: usize) -> Result<Self, KernelError> {
        let bytes = words.checked_mul(size_of::<u32>());
        // A map is never empty.
        let map = bytes.and_then(|bytes| MmapMut::map_anon(bytes.max(1)).ok());
        let map = map.ok_or(KernelError::Memory { words })?;
        // It is as good without, only slower to read.
        #[cfg(target_os = "linux")]
        let _ = map.advise(memmap2::Advice::HugePage);
        Ok(Self { map, words })
    }

    pub(crate) fn words(&self) -> &[u32] {
        // SAFETY: the map has so many words, is aligned to a page, and any bits are a word.
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
            let mut pages = Pages::new(words).unwrap();
            assert!(pages.words().len() == words && pages.words().iter().all(|&word| word == 0));
            assert_eq!(pages.words().as_ptr() as usize % 64, 0);
            pages.words_mut().fill(7);
            assert!(pages.words().iter().all(|&word| word == 7));
        }
    }

    #[test]
    fn more_than_there_is_is_an_error() {
        for words in [usize::MAX, usize::MAX / 8] {
            assert_eq!(Pages::new(words).unwrap_err(), KernelError::Memory { words });
        }
    }
}
