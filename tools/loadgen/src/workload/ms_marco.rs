//! Lengths of MS MARCO's queries and passages, for workloads of its shape without its text.
//!
//! Queries: the histogram of all 1,010,916 queries that the data set's authors publish (`Stats/Question+Answer+
//! PassageLengthinformation/AllQueries.txt` in github.com/microsoft/MSMARCO-Question-Answering). Passages: their plot of the
//! same folder (`allpassages.png`), read off bar by bar; 99.6 % of the passages are in it. The length of the others (149 to
//! 362 words) is set so that the mean is the published one, 56.58 words of 8,841,823 passages (`Ranking/stats.txt` in
//! github.com/spacemanidol/MSMARCO). BEIR (arXiv 2104.08663, table 1) counts 5.96 words per query of the small development
//! set and 55.98 per passage.
//!
//! | words | mean | 10 % have at most | median | 90 % have at most | longest |
//! |---|---|---|---|---|---|
//! | query | 6.37 | 3 | 6 | 10 | 75 (here 40) |
//! | passage | 56.58 | 34 | 50 | 90 | 362 |

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Cumulative distribution: for ascending numbers of words, how many of [`ALL`] texts have at most that many. Lengths
/// between two entries are equally likely.
type Distribution = [(usize, usize)];

/// Last entry of each [`Distribution`].
const ALL: usize = 10_000;

const QUERY_WORDS: [(usize, usize); 19] = [
    (1, 0),
    (2, 219),
    (3, 1_004),
    (4, 2_457),
    (5, 4_245),
    (6, 5_907),
    (7, 7_245),
    (8, 8_235),
    (9, 8_894),
    (10, 9_310),
    (11, 9_566),
    (12, 9_727),
    (13, 9_826),
    (14, 9_885),
    (15, 9_923),
    (17, 9_964),
    (20, 9_986),
    (25, 9_997),
    (40, ALL),
];

const PASSAGE_WORDS: [(usize, usize); 23] = [
    (4, 0),
    (9, 3),
    (14, 34),
    (19, 110),
    (24, 248),
    (29, 519),
    (34, 1_038),
    (39, 1_938),
    (44, 3_230),
    (49, 4_750),
    (54, 6_124),
    (59, 6_996),
    (64, 7_466),
    (69, 7_793),
    (79, 8_370),
    (89, 8_927),
    (99, 9_385),
    (109, 9_679),
    (119, 9_831),
    (129, 9_904),
    (148, 9_958),
    (200, 9_991),
    (362, ALL),
];

/// Passages of a query, each number equally likely: 8.2 on average, as in the validation split of release 1.1, whose 10,047
/// queries fill 1,287 requests of 64 texts in arXiv 2601.15013. The distribution is not published; the maximum is 10.
const PASSAGES: [usize; 5] = [6, 8, 8, 9, 10];

/// Tokens of 8 words. Qwen's tokenizer gives 1.37 tokens per word (between white space) for the 4,299 distinct passages
/// that a dense retriever returns for the queries of TREC 2019, and 1.22 tokens per word of the queries.
const TOKENS_PER_8_WORDS: usize = 11;

/// Tokens of the reranker's prompt with Qwen's tokenizer (the preset `qwen3-reranker`): before the query, between query and
/// passage, after the passage.
pub const PROMPT_TOKENS: [usize; 3] = [60, 3, 9];

/// Endless lengths with the distributions of MS MARCO, determined by a seed.
#[derive(Debug, Clone)]
pub struct Lengths {
    random: StdRng,
}

impl Lengths {
    /// Lengths determined by `seed`.
    pub fn new(seed: u64) -> Self {
        Self { random: StdRng::seed_from_u64(seed) }
    }

    /// Words of the next query, 2 to 40.
    pub fn query_words(&mut self) -> usize {
        self.draw(&QUERY_WORDS)
    }

    /// Words of the next passage, 5 to 362.
    pub fn passage_words(&mut self) -> usize {
        self.draw(&PASSAGE_WORDS)
    }

    /// Passages of the next query, 6 to 10.
    pub fn passages(&mut self) -> usize {
        PASSAGES[self.random.random_range(0..PASSAGES.len())]
    }

    /// Tokens of `words` words, 1.375 per word, rounded.
    pub fn tokens(words: usize) -> usize {
        (words * TOKENS_PER_8_WORDS + 4) / 8
    }

    fn draw(&mut self, distribution: &Distribution) -> usize {
        let rank = self.random.random_range(0..ALL);
        let index = distribution.partition_point(|&(_, texts)| texts <= rank);
        self.random.random_range(distribution[index - 1].0 + 1..=distribution[index].0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: usize = 200_000;

    /// Lengths in ascending order.
    fn sorted(mut draw: impl FnMut(&mut Lengths) -> usize) -> Vec<usize> {
        let mut lengths = Lengths::new(1);
        let mut drawn: Vec<_> = (0..DRAWS).map(|_| draw(&mut lengths)).collect();
        drawn.sort_unstable();
        drawn
    }

    fn mean(lengths: &[usize]) -> f64 {
        lengths.iter().sum::<usize>() as f64 / lengths.len() as f64
    }

    /// The given percentile of ascending lengths.
    fn percentile(sorted: &[usize], percent: usize) -> usize {
        sorted[sorted.len() * percent / 100 - 1]
    }

    #[test]
    fn queries_have_the_published_lengths() {
        let queries = sorted(Lengths::query_words);
        assert!((mean(&queries) - 6.373).abs() < 0.03, "{}", mean(&queries));
        assert_eq!([1, 10, 25, 50, 75, 90, 99].map(|percent| percentile(&queries, percent)), [2, 3, 5, 6, 8, 10, 15]);
        assert!((2..=40).contains(&queries[0]) && queries[DRAWS - 1] <= 40);
    }

    #[test]
    fn passages_have_the_published_lengths() {
        let passages = sorted(Lengths::passage_words);
        assert!((mean(&passages) - 56.577).abs() < 0.3, "{}", mean(&passages));
        for (percent, published) in
            [(1, 19), (5, 29), (10, 34), (25, 42), (50, 50), (75, 65), (90, 90), (95, 102), (99, 126)]
        {
            let drawn = percentile(&passages, percent);
            assert!(drawn.abs_diff(published) <= 3, "{percent} %: {drawn} words, published {published}");
        }
        assert!((5..=9).contains(&passages[0]) && (201..=362).contains(&passages[DRAWS - 1]));
    }

    #[test]
    fn a_query_has_8_passages_and_a_fifth() {
        let passages = sorted(Lengths::passages);
        assert!((mean(&passages) - 8.2).abs() < 0.03, "{}", mean(&passages));
        assert_eq!((passages[0], passages[DRAWS - 1]), (6, 10));
    }

    #[test]
    fn a_seed_determines_the_lengths() {
        let draw = |seed| {
            let mut lengths = Lengths::new(seed);
            (0..50).map(|_| (lengths.query_words(), lengths.passage_words(), lengths.passages())).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn eight_words_have_eleven_tokens() {
        assert_eq!([0, 1, 8, 50].map(Lengths::tokens), [0, 1, 11, 69]);
    }

    #[test]
    fn distributions_ascend_to_all() {
        for distribution in [&QUERY_WORDS[..], &PASSAGE_WORDS] {
            assert!(distribution.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1));
            assert_eq!((distribution[0].1, distribution[distribution.len() - 1].1), (0, ALL));
        }
    }
}
