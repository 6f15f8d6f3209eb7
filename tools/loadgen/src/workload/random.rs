//! Random texts for workloads without a file.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::fmt::Write;

const CONSONANTS: &[u8; 16] = b"bdfghjklmnprstvz";
const VOWELS: &[u8; 5] = b"aeiou";
/// Number of syllables: a consonant and a vowel each.
const SYLLABLES: u64 = (CONSONANTS.len() * VOWELS.len()) as u64;

/// Endless distinct texts of random words, such as `tuva bo kerigo`, determined by a seed.
///
/// Words of random syllables have few common prefixes, so a server that computes common prefixes once saves almost
/// nothing. The last word is the text's number in syllables, which makes every text distinct.
#[derive(Debug, Clone)]
pub(crate) struct RandomTexts {
    random: StdRng,
    number: u64,
}

impl RandomTexts {
    pub(crate) fn new(seed: u64) -> Self {
        Self { random: StdRng::seed_from_u64(seed), number: 0 }
    }

    /// Next text, of `words` words (at least one).
    pub(crate) fn text(&mut self, words: usize) -> String {
        let mut text = String::new();
        for _ in 1..words {
            for _ in 0..self.random.random_range(1..=3) {
                syllable(&mut text, self.random.random_range(0..SYLLABLES));
            }
            text.push(' ');
        }
        let mut rest = self.number;
        self.number += 1;
        loop {
            syllable(&mut text, rest % SYLLABLES);
            rest /= SYLLABLES;
            if rest == 0 {
                return text;
            }
        }
    }
}

fn syllable(text: &mut String, number: u64) {
    let number = number as usize;
    let consonant = CONSONANTS[number / VOWELS.len() % CONSONANTS.len()];
    let _ = write!(text, "{}{}", char::from(consonant), char::from(VOWELS[number % VOWELS.len()]));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn texts(seed: u64, words: usize, count: usize) -> Vec<String> {
        let mut texts = RandomTexts::new(seed);
        (0..count).map(|_| texts.text(words)).collect()
    }

    #[test]
    fn texts_are_distinct_and_have_their_words() {
        for words in [1, 2, 32] {
            let texts = texts(1, words, 10_000);
            assert!(texts.iter().all(|text| text.split(' ').count() == words));
            assert_eq!(texts.iter().collect::<HashSet<_>>().len(), texts.len(), "{words} words");
        }
    }

    #[test]
    fn a_seed_determines_its_texts() {
        assert_eq!(texts(7, 8, 100), texts(7, 8, 100));
        let (one, other) = (texts(7, 8, 100), texts(!7, 8, 100));
        assert!(one.iter().all(|text| !other.contains(text)));
    }

    #[test]
    fn beginnings_are_seldom_shared() {
        let texts = texts(1, 32, 400);
        let beginnings: HashSet<_> = texts.iter().map(|text| &text[..8]).collect();
        assert!(beginnings.len() > 390, "{}", beginnings.len());
    }
}
