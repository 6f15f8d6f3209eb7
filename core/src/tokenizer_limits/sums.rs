//! Limits on what the library builds of all tokenizers of a model together: behind a Router it has several.

/// Bytes at most of all added tokens, of those that are normalized after it. The automaton that finds them takes some eighty times as much
/// while it is built, and twelve times as much afterwards. Real tokenizers have up to a megabyte.
const MAX_ADDED_BYTES: u64 = 4 << 20;

/// Bytes at most that the library's tries of Unigram pieces take, whatever their number.
const TRIE_BYTES: u64 = 128 << 20;

/// Additional bytes of the tries for each piece. 250,000 pieces of many languages take some 300 MB.
const TRIE_BYTES_OF_A_PIECE: u64 = 2 << 10;

/// Sums over the tokenizers of a model that were checked so far.
#[derive(Debug, Default)]
pub struct TokenizerSums {
    added_bytes: u64,
    pieces: u64,
    trie_bytes: u64,
}

impl TokenizerSums {
    /// Counts an added token of this length.
    ///
    /// # Errors
    /// All are too long; the rest of a sentence about the added tokens.
    pub(super) fn add_token(&mut self, bytes: u64) -> Result<(), String> {
        self.added_bytes += bytes;
        match self.added_bytes <= MAX_ADDED_BYTES {
            true => Ok(()),
            false => Err(format!(
                "have more than {MAX_ADDED_BYTES} bytes together, once they are normalized, in all tokenizers of the model"
            )),
        }
    }

    /// Takes away what `others` has of added tokens.
    pub(super) fn remove_tokens(&mut self, others: &Self) {
        self.added_bytes = self.added_bytes.saturating_sub(others.added_bytes);
    }

    /// Counts the trie of so many Unigram pieces.
    ///
    /// # Errors
    /// All tries are too large; the rest of a sentence about the tokenizer.
    pub(super) fn add_trie(&mut self, pieces: usize, bytes: u64) -> Result<(), String> {
        self.pieces += pieces as u64;
        self.trie_bytes = self.trie_bytes.saturating_add(bytes);
        let limit = TRIE_BYTES + TRIE_BYTES_OF_A_PIECE * self.pieces;
        match self.trie_bytes <= limit {
            true => Ok(()),
            false => Err(format!(
                "has {pieces} pieces whose trie takes {bytes} bytes, those of all tokenizers of the model {}, the limit is {limit}",
                self.trie_bytes
            )),
        }
    }
}

#[cfg(test)]
#[path = "tests/sums.rs"]
mod tests;
