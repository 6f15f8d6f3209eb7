//! Invented queries and passages with the lengths of MS MARCO's.

use crate::workload::ms_marco::Lengths;
use crate::workload::sentences::Sentences;
use std::collections::HashSet;
use std::fmt::Write;

/// Queries of the validation split of release 1.1, the load of arXiv 2601.15013.
const QUERIES: usize = 10_047;

/// Greatest number at the end of a sentence. Invented words are common ones, of 1.1 tokens each; with the digits of a number
/// per sentence, a word has as many tokens as in a web page ([`Lengths::tokens`]).
const GREATEST_NUMBER: usize = 1_499;

/// All queries, each with its passages; queries and passages are distinct.
pub(crate) fn queries_with_passages(seed: u64) -> Vec<(String, Vec<String>)> {
    let (mut lengths, mut sentences) = (Lengths::new(seed), Sentences::new(seed));
    let (mut queries, mut passages) = (HashSet::new(), HashSet::new());
    let with_passages = |_| {
        let words = lengths.query_words();
        let query = unseen(&mut queries, || query(&mut sentences, words));
        let texts = (0..lengths.passages()).map(|_| {
            let words = lengths.passage_words();
            unseen(&mut passages, || passage(&mut sentences, words))
        });
        (query, texts.collect())
    };
    (0..QUERIES).map(with_passages).collect()
}

/// The first text that is not in `seen`; adds it. Retries keep its number of words.
fn unseen(seen: &mut HashSet<String>, mut make: impl FnMut() -> String) -> String {
    loop {
        let text = make();
        if seen.insert(text.clone()) {
            return text;
        }
    }
}

/// Lower-case words from the middle of a sentence, as typed by users.
fn query(sentences: &mut Sentences, words: usize) -> String {
    let skipped = sentences.number(6);
    let mut text = String::new();
    let mut written = 0;
    while written < skipped + words {
        let statement = sentences.statement();
        written += word_count(&statement);
        text += &statement;
        text.push(' ');
    }
    let kept = &text[first_words(&text, skipped).len() + 1..];
    first_words(kept, words).to_owned()
}

/// Sentences that end with a number each, cut after `words` words.
fn passage(sentences: &mut Sentences, words: usize) -> String {
    let mut text = String::new();
    let mut written = 0;
    while written < words {
        let (sentence, number) = (sentences.text(1), sentences.number(GREATEST_NUMBER));
        written += word_count(&sentence) + 1;
        let _ = write!(text, "{} ({number}). ", sentence.trim_end_matches('.'));
    }
    let mut text = first_words(&text, words).to_owned();
    if !text.ends_with('.') {
        text.push('.');
    }
    text
}

fn word_count(text: &str) -> usize {
    text.split(' ').count()
}

/// The first `words` words of a text in which a space follows each word.
fn first_words(text: &str, words: usize) -> &str {
    let end = text.match_indices(' ').nth(words.saturating_sub(1)).map_or(text.len(), |(end, _)| end);
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(counts: impl ExactSizeIterator<Item = usize>) -> f64 {
        let number = counts.len() as f64;
        counts.sum::<usize>() as f64 / number
    }

    #[test]
    fn texts_have_the_lengths_and_numbers_of_the_data_set() {
        let all = queries_with_passages(1);
        // 1,287 requests of 64 texts as in the paper, to within one percent.
        let passages: Vec<&String> = all.iter().flat_map(|(_, passages)| passages).collect();
        assert_eq!(all.len(), QUERIES);
        assert!((81_500..83_200).contains(&passages.len()), "{}", passages.len());
        let queries = mean(all.iter().map(|(query, _)| word_count(query)));
        assert!((queries - 6.373).abs() < 0.1, "{queries}");
        let passages = mean(passages.iter().map(|passage| word_count(passage)));
        assert!((passages - 56.577).abs() < 0.5, "{passages}");
    }

    #[test]
    fn lengths_are_drawn_in_the_order_of_the_texts() {
        let mut lengths = Lengths::new(3);
        for (query, passages) in queries_with_passages(3).iter().take(50) {
            assert_eq!(word_count(query), lengths.query_words(), "{query}");
            assert_eq!(passages.len(), lengths.passages());
            for passage in passages {
                assert_eq!(word_count(passage), lengths.passage_words(), "{passage}");
                assert!(passage.ends_with('.') && passage.starts_with(char::is_uppercase), "{passage}");
                assert!(!passage.contains("  "), "{passage}");
            }
            assert!(!query.starts_with(' ') && !query.contains('.'), "{query}");
        }
    }

    #[test]
    fn a_text_that_exists_is_made_again() {
        let mut seen = HashSet::from(["a".to_owned()]);
        let mut made = ["a", "a", "b", "c"].into_iter().map(str::to_owned);
        assert_eq!(unseen(&mut seen, || made.next().unwrap()), "b");
        assert_eq!(made.next().as_deref(), Some("c"));
    }
}
