//! Sentences and questions for the built-in workloads.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const WHO: [&str; 24] = [
    "the harbour master",
    "a retired baker",
    "our night nurse",
    "the museum's curator",
    "every apprentice",
    "two engineers",
    "the village council",
    "her younger brother",
    "my landlord",
    "an inspector",
    "the orchestra",
    "nobody at the mill",
    "some volunteers",
    "their captain",
    "the librarian",
    "a visiting botanist",
    "each shift leader",
    "one of the gardeners",
    "the insurance company",
    "another tenant",
    "the ferry's crew",
    "a student of law",
    "the state archive",
    "his former teacher",
];

/// Verbs whose past tense ends in `ed`.
const DOES: [&str; 16] = [
    "inspect", "repair", "paint", "record", "collect", "deliver", "order", "sort", "weigh", "label", "clean", "return",
    "open", "check", "count", "mend",
];

const WHAT: [&str; 24] = [
    "the lamp of the old lighthouse",
    "forty sacks of flour",
    "the patients' charts",
    "a bronze figure from the river",
    "all the spare keys",
    "the pumps below the dam",
    "last year's accounts",
    "a bicycle with three gears",
    "the boiler in the cellar",
    "every fire door",
    "the scores of two symphonies",
    "the millstone",
    "blankets and tinned soup",
    "the ship's only compass",
    "books about the desert",
    "seeds of a rare orchid",
    "the gauges on the second line",
    "the roof of the greenhouse",
    "a claim for water damage",
    "the letter box",
    "both anchors",
    "the minutes of the trial",
    "maps of the northern border",
    "a box of chalk",
];

const WHEN: [&str; 24] = [
    "before the storm",
    "on the first of March",
    "without telling anyone",
    "during the night shift",
    "in less than an hour",
    "for the third time",
    "after a long discussion",
    "at the request of the mayor",
    "when the tide was low",
    "with borrowed tools",
    "in the summer of 1962",
    "while the shop was closed",
    "because the law demands it",
    "as soon as the snow had melted",
    "between two meetings",
    "against the advice of a friend",
    "under the new contract",
    "next to the railway station",
    "out of habit",
    "for a small fee",
    "until the light failed",
    "in front of the cameras",
    "by mistake",
    "to everybody's surprise",
];

const ASKS: [&str; 6] = ["why did", "how did", "is it true that", "who says that", "where did", "how often did"];

/// Endless texts of invented sentences, determined by a seed.
#[derive(Debug, Clone)]
pub(crate) struct Sentences {
    random: StdRng,
}

impl Sentences {
    pub(crate) fn new(seed: u64) -> Self {
        Self { random: StdRng::seed_from_u64(seed) }
    }

    /// A text of `sentences` sentences, about 13 words each.
    pub(crate) fn text(&mut self, sentences: usize) -> String {
        let sentences: Vec<_> = (0..sentences).map(|_| capitalized(&format!("{}.", self.statement()))).collect();
        sentences.join(" ")
    }

    /// A question of about 14 words.
    pub(crate) fn question(&mut self) -> String {
        let asks = self.pick(&ASKS);
        let question = match asks.strip_suffix(" did") {
            Some(_) => {
                let (who, does, what, when) = (self.pick(&WHO), self.pick(&DOES), self.pick(&WHAT), self.pick(&WHEN));
                format!("{asks} {who} {does} {what} {when}?")
            }
            None => format!("{asks} {}?", self.statement()),
        };
        capitalized(&question)
    }

    /// A number from 1 to `most`.
    pub(crate) fn number(&mut self, most: usize) -> usize {
        self.random.random_range(1..=most)
    }

    pub(crate) fn pick(&mut self, from: &[&'static str]) -> &'static str {
        from[self.random.random_range(0..from.len())]
    }

    pub(crate) fn statement(&mut self) -> String {
        let (who, does, what, when) = (self.pick(&WHO), self.pick(&DOES), self.pick(&WHAT), self.pick(&WHEN));
        format!("{who} {does}ed {what} {when}")
    }
}

fn capitalized(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or(String::new(), |first| first.to_uppercase().chain(characters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_determines_the_texts() {
        let texts = |seed| {
            let mut sentences = Sentences::new(seed);
            (0..20).map(|_| sentences.text(3) + &sentences.question()).collect::<Vec<_>>()
        };
        assert_eq!(texts(1), texts(1));
        assert_ne!(texts(1), texts(2));
    }

    #[test]
    fn texts_look_like_sentences() {
        let mut sentences = Sentences::new(1);
        for _ in 0..200 {
            let (text, question) = (sentences.text(2), sentences.question());
            assert!(text.matches(". ").count() == 1 && text.ends_with('.'), "{text}");
            assert!((12..=40).contains(&text.split(' ').count()), "{text}");
            assert!(question.ends_with('?') && question.starts_with(char::is_uppercase), "{question}");
        }
    }
}
