//! Texts to answer, from a file or built in, and their selection where there are too many.

use crate::builtin;
use crate::error::AccuracyError;
use prefold_core::{Capabilities, Input, Rerank, shown};
use prefold_tools::plural::count;
use prefold_tools::records::{Format, InputError, Record, Records, open};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fmt::{Display, Formatter, Result as FmtResult};
use std::io::{BufRead, BufReader};
use std::path::Path;

/// Minimum distinct texts for a ranking by similarity: each needs two others.
const LEAST_TEXTS: usize = 3;
/// Maximum characters of a text in a report.
const SHOWN: usize = 40;

/// Requests of a file, or the built-in ones.
pub(crate) struct Texts {
    pub(crate) source: String,
    /// Requests with their line numbers; `None` for built-in ones.
    records: Vec<(Option<usize>, Record)>,
}

/// Place and beginning of a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    /// Number of the text, or of the query of a rerank request, from 1 in the order of the input.
    pub(crate) index: usize,
    /// Line number in the file, from 1.
    pub(crate) line: Option<usize>,
    /// The beginning of the text.
    pub(crate) text: String,
}

/// Use of a model's answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// Embeds texts.
    Embed,
    /// Scores documents against a query.
    Rerank,
    /// Assigns one label, to texts or to pairs of query and document.
    OneLabel,
    /// Assigns several labels, to texts or to pairs.
    Classify,
}

/// Inputs of a pass, by the form of the answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Work {
    /// Texts to embed.
    Embed(Vec<Item>),
    /// Queries with the documents to score.
    Rerank(Vec<Question>),
    /// Texts and pairs to classify.
    Classify(Vec<Item>),
}

/// An input with one answer: a text, or a pair if there is a second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Item {
    pub(crate) place: Place,
    pub(crate) text: String,
    pub(crate) second: Option<String>,
}

/// A query and its documents, at least one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Question {
    pub(crate) place: Place,
    pub(crate) query: String,
    pub(crate) documents: Vec<String>,
    pub(crate) instruction: Option<String>,
}

/// Numbers of texts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Selection {
    /// Compared texts, or pairs of query and document.
    pub(crate) texts: usize,
    /// Omitted texts or pairs, in excess of `--max-texts`.
    pub(crate) left_out: usize,
    /// Texts equal to an earlier one, which are not embedded again.
    pub(crate) repeated: usize,
}

impl Kind {
    /// # Errors
    /// The model is a token classifier.
    pub(crate) fn of(can: &Capabilities) -> Result<Self, AccuracyError> {
        match (&can.embed, &can.rerank, &can.classify) {
            (Some(_), ..) => Ok(Self::Embed),
            (None, Some(Rerank::Pair), _) => Ok(Self::OneLabel),
            (None, Some(_), _) => Ok(Self::Rerank),
            (None, None, Some(_)) => Ok(Self::Classify),
            (None, None, None) => Err(AccuracyError::TokenClassifier),
        }
    }
}

impl Item {
    pub(crate) fn input(&self) -> Input {
        match &self.second {
            Some(second) => Input::Pair(self.text.as_str().into(), second.clone()),
            None => Input::Text(self.text.clone()),
        }
    }
}

impl Texts {
    /// The built-in texts.
    pub(crate) fn builtin() -> Result<Self, AccuracyError> {
        let records = builtin::questions()?.into_iter().map(|record| (None, record)).collect();
        Ok(Self { source: "built-in".to_owned(), records })
    }

    /// The texts of a file, or of standard input where the path is `-`.
    pub(crate) fn read(path: &Path, format: Format) -> Result<Self, AccuracyError> {
        let records = match open(path)? {
            Some(file) => numbered(Records::new(BufReader::new(file), format))?,
            None => numbered(Records::new(std::io::stdin().lock(), format))?,
        };
        let source = path.display().to_string();
        if records.is_empty() { Err(AccuracyError::Empty(source)) } else { Ok(Self { source, records }) }
    }

    fn is_builtin(&self) -> bool {
        self.records.iter().all(|(line, _)| line.is_none())
    }

    /// Inputs for the model, at most `most` texts or pairs. A classifier with one label scores pairs if the input has
    /// queries, else it classifies texts.
    ///
    /// # Errors
    /// The model cannot answer a line, or there are too few texts.
    pub(crate) fn work(self, kind: Kind, most: usize) -> Result<(Work, Selection), AccuracyError> {
        let has_query = |(_, record): &(_, Record)| matches!(record, Record::Rerank { .. });
        match kind {
            Kind::Embed => self.embed(most),
            Kind::OneLabel if !self.records.iter().any(has_query) => Ok(self.classify(most)),
            Kind::OneLabel | Kind::Rerank => self.rerank(most),
            Kind::Classify => Ok(self.classify(most)),
        }
    }

    fn embed(self, most: usize) -> Result<(Work, Selection), AccuracyError> {
        let mut items = self.items(|query, texts| texts.into_iter().chain([query]).map(|text| (text, None)).collect());
        let all = items.len();
        let mut seen = HashSet::new();
        items.retain(|item| seen.insert(item.text.clone()));
        let repeated = all - items.len();
        let (items, left_out) = spread(items, most);
        if items.len() < LEAST_TEXTS {
            return Err(AccuracyError::TooFew { texts: count(items.len(), "text"), least: LEAST_TEXTS });
        }
        let selection = Selection { texts: items.len(), left_out, repeated };
        Ok((Work::Embed(items), selection))
    }

    fn classify(self, most: usize) -> (Work, Selection) {
        let is_builtin = self.is_builtin();
        let items = self.items(|query, texts| {
            if is_builtin {
                texts.into_iter().chain([query]).map(|text| (text, None)).collect()
            } else {
                texts.into_iter().map(|text| (query.clone(), Some(text))).collect()
            }
        });
        let (items, left_out) = spread(items, most);
        let selection = Selection { texts: items.len(), left_out, repeated: 0 };
        (Work::Classify(items), selection)
    }

    /// The inputs of all requests. `of_request` makes the inputs of a query and its texts.
    fn items(self, of_request: impl Fn(String, Vec<String>) -> Vec<Parts>) -> Vec<Item> {
        let inputs = self.records.into_iter().flat_map(|(line, record)| {
            let inputs = match record {
                Record::Texts(texts) => texts.into_iter().map(|text| (text, None)).collect(),
                Record::Rerank { query, texts, .. } => of_request(query, texts),
            };
            inputs.into_iter().map(move |input| (line, input))
        });
        let item = |(index, (line, (text, second))): (usize, (Option<usize>, Parts))| Item {
            place: Place::new(index, line, &text),
            text,
            second,
        };
        inputs.enumerate().map(item).collect()
    }

    fn rerank(self, most: usize) -> Result<(Work, Selection), AccuracyError> {
        let mut questions = Vec::with_capacity(self.records.len());
        for (index, (line, record)) in self.records.into_iter().enumerate() {
            let Record::Rerank { query, texts: documents, instruction } = record else {
                let problem =
                    "has a text without a query, and the model scores pairs: `query` with `texts`, `documents` \
                               or `passages` is expected"
                        .to_owned();
                return Err(AccuracyError::Line { line: line.unwrap_or(index + 1), problem });
            };
            questions.push(Question { place: Place::new(index, line, &query), query, documents, instruction });
        }
        let pairs = |questions: &[Question]| questions.iter().map(|question| question.documents.len()).sum::<usize>();
        let all = pairs(&questions);
        let (mut questions, _) = spread_by(questions, all, most);
        let mut room = most;
        questions.retain_mut(|question| {
            question.documents.truncate(room);
            room -= question.documents.len();
            !question.documents.is_empty()
        });
        let texts = pairs(&questions);
        Ok((Work::Rerank(questions), Selection { texts, left_out: all - texts, repeated: 0 }))
    }
}

impl Place {
    fn new(index: usize, line: Option<usize>, text: &str) -> Self {
        let mut beginning: String = text.chars().take(SHOWN).collect();
        if beginning.len() < text.len() {
            beginning.push('…');
        }
        Self { index: index + 1, line, text: beginning }
    }
}

impl Display for Place {
    fn fmt(&self, f: &mut Formatter<'_>) -> FmtResult {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", shown(&self.text)),
            None => write!(f, "text {}: {}", self.index, shown(&self.text)),
        }
    }
}

/// The records with their line numbers, without empty texts.
fn numbered<R: BufRead>(records: Records<R>) -> Result<Vec<(Option<usize>, Record)>, AccuracyError> {
    let numbered = |record: Result<_, InputError>| {
        let (line, record) = record?;
        let is_empty = match &record {
            Record::Texts(texts) => texts.iter().any(String::is_empty),
            Record::Rerank { query, texts, .. } => query.is_empty() || texts.iter().any(String::is_empty),
        };
        if is_empty {
            return Err(AccuracyError::Line { line, problem: "has an empty text".to_owned() });
        }
        Ok((Some(line), record))
    };
    records.map(numbered).collect()
}

/// A text, and the second one of a pair.
type Parts = (String, Option<String>);

/// Selects at most `most` items, evenly spread, and returns them with the number of omitted items.
fn spread<T>(things: Vec<T>, most: usize) -> (Vec<T>, usize) {
    let all = things.len();
    spread_by(things, all, most)
}

/// Selects a fraction `most / weight` of the items, evenly spread and at least one, where `weight` is the total weight; returns them with
/// the number of omitted items.
fn spread_by<T>(things: Vec<T>, weight: usize, most: usize) -> (Vec<T>, usize) {
    let all = things.len();
    if weight <= most {
        return (things, 0);
    }
    let kept = (all * most / weight).max(1);
    let things = things.into_iter().enumerate().filter(|(index, _)| index * kept % all < kept);
    let things: Vec<T> = things.map(|(_, thing)| thing).collect();
    let left_out = all - things.len();
    (things, left_out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn read(lines: &str) -> Result<Texts, String> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(lines.as_bytes()).unwrap();
        Texts::read(file.path(), Format::Auto).map_err(|error| error.to_string())
    }

    fn inputs(work: Work) -> Vec<(usize, Input)> {
        let (Work::Embed(items) | Work::Classify(items)) = work else { panic!("{work:?}") };
        items.into_iter().map(|item| (item.place.index, item.input())).collect()
    }

    fn text(text: &str) -> Input {
        Input::Text(text.to_owned())
    }

    #[test]
    fn texts_to_embed_are_different_and_spread_over_the_file() {
        let lines = "\"a\"\n[\"b\", \"a\"]\n{\"query\": \"q\", \"texts\": [\"c\", \"b\"]}\n";
        let (work, selection) = read(lines).unwrap().work(Kind::Embed, 10).unwrap();
        assert_eq!(selection, Selection { texts: 4, left_out: 0, repeated: 2 });
        assert_eq!(inputs(work), [(1, text("a")), (2, text("b")), (4, text("c")), (6, text("q"))]);
        let many: String = (0..100).map(|line| format!("{line}\n")).collect();
        let (work, selection) = read(&many).unwrap().work(Kind::Embed, 7).unwrap();
        assert_eq!(selection, Selection { texts: 7, left_out: 93, repeated: 0 });
        let kept: Vec<usize> = inputs(work).into_iter().map(|(index, _)| index).collect();
        assert_eq!(kept, [1, 16, 30, 44, 59, 73, 87]);
        for (lines, most) in [("one\n", 10), ("a\na\nb\n", 10), ("a\nb\nc\n", 2)] {
            let error = read(lines).unwrap().work(Kind::Embed, most).unwrap_err().to_string();
            assert!(error.contains("at least 3 different texts"), "{error}");
        }
    }

    #[test]
    fn a_query_keeps_its_documents_unless_it_has_too_many() {
        let lines: String = (0..10).map(|q| format!("{{\"query\": \"q{q}\", \"texts\": [\"a\", \"b\"]}}\n")).collect();
        let questions = |most: usize| {
            let (work, selection) = read(&lines).unwrap().work(Kind::OneLabel, most).unwrap();
            let Work::Rerank(questions) = work else { panic!("{work:?}") };
            let kept = questions.iter().map(|question| (question.place.line.unwrap(), question.documents.len()));
            (kept.collect::<Vec<_>>(), selection.texts, selection.left_out)
        };
        assert_eq!(questions(7), (vec![(1, 2), (5, 2), (8, 2)], 6, 14));
        assert_eq!(questions(1), (vec![(1, 1)], 1, 19));
        assert_eq!(questions(20).1, 20);
    }

    #[test]
    fn the_model_and_the_lines_decide_what_is_answered() {
        let pair = |first: &str, second: &str| Input::Pair(first.into(), second.to_owned());
        let (alone, query) = ("a\n", "{\"query\": \"q\", \"texts\": [\"a\"]}\n");
        let work = |lines: &str, kind: Kind| read(lines).unwrap().work(kind, 10).map(|(work, _)| work);
        assert_eq!(inputs(work(alone, Kind::OneLabel).unwrap()), [(1, text("a"))]);
        assert!(matches!(work(query, Kind::OneLabel), Ok(Work::Rerank(_))));
        assert_eq!(inputs(work(query, Kind::Classify).unwrap()), [(1, pair("q", "a"))]);
        let mixed = work(&format!("{query}\"a\"\n"), Kind::OneLabel).unwrap_err().to_string();
        assert!(mixed.starts_with("line 2: has a text without a query"), "{mixed}");
        let builtin = |kind: Kind| Texts::builtin().unwrap().work(kind, 500).unwrap();
        assert_eq!((builtin(Kind::Embed).1.texts, builtin(Kind::Classify).1.texts), (110, 110));
        assert!(matches!(builtin(Kind::OneLabel), (Work::Rerank(_), Selection { texts: 100, left_out: 0, .. })));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (lines, words) in
            [("", "has no text"), ("\n\n", "has no text"), ("\"a\"\n\"\"", "line 2: has an empty text")]
        {
            let error = read(lines).err().unwrap();
            assert!(error.contains(words), "{error}");
        }
        let place = Place::new(6, Some(3), &format!("a\nb{}", "é".repeat(50)));
        assert_eq!(place.to_string(), format!("line 3: a\\nb{}…", "é".repeat(37)));
        assert_eq!(Place::new(6, None, "a").to_string(), "text 7: a");
    }
}
