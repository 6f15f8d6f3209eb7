//! Built-in texts: the demo's questions, each with ten candidate passages.

use prefold_tools::demo_texts::{DemoTexts, Question};
use prefold_tools::records::Record;

/// The questions with their passages, as rerank requests.
pub(crate) fn questions() -> Result<Vec<Record>, serde_json::Error> {
    let demo = DemoTexts::load()?;
    let request = |question: &Question| Record::Rerank {
        query: question.query.clone(),
        texts: demo.candidates(question).into_iter().map(|passage| passage.text.clone()).collect(),
        instruction: None,
    };
    Ok(demo.questions.iter().map(request).collect())
}
