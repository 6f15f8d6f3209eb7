//! Texts of the demo and of `prefold accuracy`: passages of the Perl and Python documentation and questions about them.
//! `data/README.md` describes their source, `data/LICENSES.txt` has their licences.

use serde::Deserialize;

/// A hundred passages, and ten questions about them.
pub struct DemoTexts {
    /// The passages.
    pub passages: Vec<Passage>,
    /// The questions.
    pub questions: Vec<Question>,
}

/// Passage of documentation, 30 to 110 words.
#[derive(Deserialize)]
pub struct Passage {
    /// Name of the passage.
    pub id: String,
    /// The text.
    pub text: String,
}

/// Question from an FAQ.
#[derive(Deserialize)]
pub struct Question {
    /// The text.
    pub query: String,
    /// Ids of the ten passages to rerank.
    pub candidates: Vec<String>,
    /// Ids of the passages that answer it in the FAQ.
    pub relevant: Vec<String>,
}

impl DemoTexts {
    /// The texts, which are embedded in the program.
    ///
    /// # Errors
    /// None for the embedded files, as a test checks.
    pub fn load() -> Result<Self, serde_json::Error> {
        Ok(Self {
            passages: parse_lines(include_str!("../data/passages.jsonl"))?,
            questions: parse_lines(include_str!("../data/questions.jsonl"))?,
        })
    }

    /// Candidate passages of a question, in its order.
    pub fn candidates(&self, question: &Question) -> Vec<&Passage> {
        let by_id = |id: &String| self.passages.iter().find(|passage| &passage.id == id);
        question.candidates.iter().filter_map(by_id).collect()
    }
}

impl Question {
    /// True if the passage answers the question in the FAQ.
    pub fn is_answered_by(&self, passage: &Passage) -> bool {
        self.relevant.contains(&passage.id)
    }
}

fn parse_lines<'a, T: Deserialize<'a>>(lines: &'a str) -> Result<Vec<T>, serde_json::Error> {
    lines.lines().map(serde_json::from_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn ten_questions_have_ten_passages_each_and_all_are_different() {
        let texts = DemoTexts::load().unwrap();
        assert_eq!((texts.passages.len(), texts.questions.len()), (100, 10));
        let mut seen = HashSet::new();
        for question in &texts.questions {
            let candidates = texts.candidates(question);
            assert_eq!(candidates.len(), 10);
            assert!(candidates.iter().any(|passage| question.is_answered_by(passage)));
            assert!(candidates.iter().all(|passage| seen.insert(&passage.text)));
            assert!(seen.insert(&question.query));
        }
        assert!(seen.iter().map(|text| text.len()).sum::<usize>() < 100_000);
    }
}
