//! Cache of words in the tokenizers library, which remembers the tokens of the words that texts have had.
//!
//! It takes a number of words of up to 255 bytes each and keeps them for ever. The time that a text takes reveals whether its words have
//! occurred before, in the text of any client.

use tokenizers::{AddedToken, AddedVocabulary, ModelWrapper, Tokenizer, Trainer};

/// Maximum words that BPE caches in each encoding thread: 17 MB, at 33 bytes of memory for a byte of a word. The
/// library's own limit of 10,000 words saves a fifth of the time that English text takes, a limit of 1,024 a tenth.
const BPE_WORDS: usize = 2048;

/// The same of Unigram, which has one cache for all threads: 57 bytes of memory for a byte of a word are 60 MB.
const UNIGRAM_WORDS: usize = 4096;

/// Limits the tokenizer's cache, or turns it off.
///
/// # Errors
/// The tokenizer's.
pub(crate) fn limit(tokenizer: &mut Tokenizer, remembers: bool) -> Result<(), tokenizers::Error> {
    let words = match tokenizer.get_model() {
        _ if !remembers => 0,
        ModelWrapper::BPE(_) => BPE_WORDS,
        ModelWrapper::Unigram(_) => UNIGRAM_WORDS,
        // These models have no cache.
        ModelWrapper::WordPiece(_) | ModelWrapper::WordLevel(_) => return Ok(()),
    };
    // Without its added tokens: the library would rebuild their automaton, which takes time and memory for thousands of tokens.
    let added = tokenizer.get_added_vocabulary().clone();
    tokenizer.with_added_vocabulary(AddedVocabulary::new());
    let changed = tokenizer.train(&mut Words(words), std::iter::empty::<&str>()).map(|_| ());
    tokenizer.with_added_vocabulary(added);
    changed
}

/// Trainer that sets the number of words: only a trainer can change a model in place, and a copy would double the vocabulary's memory.
struct Words(usize);

impl Trainer for Words {
    type Model = ModelWrapper;

    fn should_show_progress(&self) -> bool {
        false
    }

    fn train(&self, model: &mut ModelWrapper) -> Result<Vec<AddedToken>, tokenizers::Error> {
        model.resize_cache(self.0);
        Ok(Vec::new())
    }

    fn feed<I, S, F>(&mut self, _: I, _: F) -> Result<(), tokenizers::Error>
    where
        I: Iterator<Item = S> + Send,
        S: AsRef<str> + Send,
        F: Fn(&str) -> Result<Vec<String>, tokenizers::Error> + Sync,
    {
        Ok(())
    }
}

#[cfg(test)]
#[path = "tests/word_cache.rs"]
mod tests;
