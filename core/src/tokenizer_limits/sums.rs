//! Limits on the structures that the library builds for all tokenizers of a model together. Models with a Router have several.

/// Maximum bytes of all added tokens, after normalization where it applies. Real tokenizers have up to a megabyte.
const MAX_ADDED_BYTES: u64 = 4 << 20;

/// Bytes of the automaton that finds added tokens while it is built, for each of their bytes; afterwards it takes twelve.
const AUTOMATON_BYTES: u64 = 80;

/// Bytes that the library's tries of Unigram pieces may take regardless of the number of pieces.
const TRIE_BYTES: u64 = 128 << 20;

/// Additional bytes of the tries for each piece. 250,000 pieces of many languages take some 300 MB.
const TRIE_BYTES_OF_A_PIECE: u64 = 2 << 10;

/// Sums over the tokenizers of a model checked so far.
#[derive(Debug, Default)]
pub struct TokenizerSums {
    added_bytes: u64,
    pieces: u64,
    trie_bytes: u64,
}

impl TokenizerSums {
    /// Bytes of the structures that the library builds for the tokenizers counted so far, beyond their vocabularies.
    pub fn built_bytes(&self) -> u64 {
        self.trie_bytes.saturating_add(AUTOMATON_BYTES * self.added_bytes)
    }

    /// Counts an added token of this length.
    ///
    /// # Errors
    /// All together are too long; the rest of a sentence about the added tokens.
    pub(super) fn add_token(&mut self, bytes: u64) -> Result<(), String> {
        self.added_bytes += bytes;
        if self.added_bytes <= MAX_ADDED_BYTES {
            return Ok(());
        }
        Err(format!(
            "have more than {MAX_ADDED_BYTES} bytes together, once they are normalized, in all tokenizers of the model"
        ))
    }

    /// Subtracts the added tokens of `others`.
    pub(super) fn remove_tokens(&mut self, others: &Self) {
        self.added_bytes = self.added_bytes.saturating_sub(others.added_bytes);
    }

    /// Counts a trie of `pieces` Unigram pieces.
    ///
    /// # Errors
    /// All tries together are too large; the rest of a sentence about the tokenizer.
    pub(super) fn add_trie(&mut self, pieces: usize, bytes: u64) -> Result<(), String> {
        self.pieces += pieces as u64;
        self.trie_bytes = self.trie_bytes.saturating_add(bytes);
        let limit = TRIE_BYTES + TRIE_BYTES_OF_A_PIECE * self.pieces;
        if self.trie_bytes <= limit {
            return Ok(());
        }
        Err(format!(
            "has {pieces} pieces whose trie takes {bytes} bytes; the tries of all tokenizers of the model take {}, the limit is {limit}",
            self.trie_bytes
        ))
    }
}

#[cfg(test)]
#[path = "tests/sums.rs"]
mod tests;
