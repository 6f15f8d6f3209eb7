//! Built-in texts: the demo's passages of the Perl and Python documentation and ten questions about them, each with ten candidate
//! passages. Their licences are in `examples/demo/data/LICENSES.txt`.

use prefold_analyze::input::Record;
use serde::Deserialize;
use std::collections::BTreeMap;

const PASSAGES: &str = include_str!("../../../examples/demo/data/passages.jsonl");
const QUESTIONS: &str = include_str!("../../../examples/demo/data/questions.jsonl");

#[derive(Deserialize)]
struct Passage {
    id: String,
    text: String,
}

#[derive(Deserialize)]
struct Question {
    query: String,
    candidates: Vec<String>,
}

/// The questions with their passages, as rerank requests. The files are embedded in the program and checked by a test.
pub(crate) fn questions() -> Result<Vec<Record>, serde_json::Error> {
    let passages: Vec<Passage> = lines(PASSAGES)?;
    let questions: Vec<Question> = lines(QUESTIONS)?;
    let by_id: BTreeMap<String, String> = passages.into_iter().map(|passage| (passage.id, passage.text)).collect();
    let request = |Question { query, candidates }: Question| {
        let texts = candidates.iter().filter_map(|id| by_id.get(id).cloned()).collect();
        Record::Rerank { query, texts, instruction: None }
    };
    Ok(questions.into_iter().map(request).collect())
}

fn lines<'a, T: Deserialize<'a>>(text: &'a str) -> Result<Vec<T>, serde_json::Error> {
    text.lines().map(serde_json::from_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn ten_questions_have_ten_passages_each_and_all_are_different() {
        assert!(PASSAGES.len() + QUESTIONS.len() < 100_000);
        let questions = questions().unwrap();
        assert_eq!(questions.len(), 10);
        let mut texts = HashSet::new();
        for question in questions {
            let Record::Rerank { query, texts: passages, .. } = question else { panic!("{question:?}") };
            assert_eq!(passages.len(), 10);
            assert!(passages.into_iter().chain([query]).all(|text| texts.insert(text)));
        }
    }
}
