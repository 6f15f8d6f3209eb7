//! Input of texts and rerank requests: lines of text or JSON.

use serde::Deserialize;
use serde::de::IgnoredAny;
use std::fs::File;
use std::io::BufRead;
use std::path::Path;
use std::str::FromStr;
use thiserror::Error;

/// Reason why an input cannot be read.
#[derive(Debug, Error)]
pub enum InputError {
    /// The file cannot be opened.
    #[error("cannot read {path}: {source}")]
    Open {
        /// Path of the file.
        path: String,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// The file is a directory.
    #[error("{path} is a directory; give a file with one text or request per line")]
    Directory {
        /// Path of the directory.
        path: String,
    },
    /// Reading ended early, or the text is not UTF-8.
    #[error("line {line}: cannot be read: {source}")]
    Read {
        /// Line number, from 1.
        line: usize,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// A line has the wrong format.
    #[error("line {line}: {problem}")]
    Line {
        /// Line number, from 1.
        line: usize,
        /// Description of the problem.
        problem: String,
    },
}

/// The file, or `None` for standard input, which is the path `-`.
///
/// # Errors
/// [`InputError::Open`], or [`InputError::Directory`], whose opening would succeed.
pub fn open(path: &Path) -> Result<Option<File>, InputError> {
    if path == Path::new("-") {
        return Ok(None);
    }
    let name = || path.display().to_string();
    if path.is_dir() {
        return Err(InputError::Directory { path: name() });
    }
    File::open(path).map(Some).map_err(|source| InputError::Open { path: name(), source })
}

/// Format of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Detected from the first line.
    Auto,
    /// Each line is a text.
    Lines,
    /// Each line is JSON.
    Jsonl,
}

impl FromStr for Format {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "auto" => Ok(Self::Auto),
            "lines" => Ok(Self::Lines),
            "jsonl" => Ok(Self::Jsonl),
            other => Err(format!("unknown format `{other}` (auto, lines, jsonl)")),
        }
    }
}

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// Texts without a query.
    Texts(Vec<String>),
    /// Texts with a query.
    Rerank {
        /// The query.
        query: String,
        /// The documents to score against it, at least one.
        texts: Vec<String>,
        /// Instruction for rerankers that take one.
        instruction: Option<String>,
    },
}

/// Field names of request bodies and workload files.
#[derive(Deserialize)]
struct Object {
    query: Option<String>,
    #[serde(alias = "instruct")]
    instruction: Option<String>,
    #[serde(alias = "documents", alias = "passages")]
    texts: Option<Vec<Item>>,
    text: Option<String>,
    #[serde(alias = "inputs")]
    input: Option<OneOrMore>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a text, or an object with `text`, was expected")]
enum Item {
    Text(String),
    Object { text: String },
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a text or a list of texts was expected")]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "a text, a list of texts or an object was expected")]
enum Line {
    Texts(OneOrMore),
    Object(serde_json::Map<String, serde_json::Value>),
}

/// Requests of a file with their line numbers, from 1. Empty lines are skipped.
pub struct Records<R> {
    from: R,
    format: Format,
    line: usize,
}

impl<R: BufRead> Records<R> {
    /// Requests of `from`.
    pub fn new(from: R, format: Format) -> Self {
        Self { from, format, line: 0 }
    }

    fn record(&mut self, text: &str) -> Result<Record, InputError> {
        if self.format == Format::Auto {
            self.format = detect(text).map_err(|problem| InputError::Line { line: self.line, problem })?;
        }
        if self.format == Format::Lines {
            return Ok(Record::Texts(vec![text.to_owned()]));
        }
        parse(text).map_err(|problem| InputError::Line { line: self.line, problem })
    }
}

impl<R: BufRead> Iterator for Records<R> {
    type Item = Result<(usize, Record), InputError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut text = String::new();
        loop {
            text.clear();
            self.line += 1;
            match self.from.read_line(&mut text) {
                Ok(0) => return None,
                Ok(_) if text.trim().is_empty() => {}
                Ok(_) => break,
                Err(source) => return Some(Err(InputError::Read { line: self.line, source })),
            }
        }
        let text = text.strip_suffix('\n').unwrap_or(&text);
        let text = text.strip_suffix('\r').unwrap_or(text);
        Some(self.record(text).map(|record| (self.line, record)))
    }
}

/// The format of a file whose first line is `text`.
///
/// # Errors
/// The line is JSON that is no request, or the beginning of JSON over several lines.
fn detect(text: &str) -> Result<Format, String> {
    if text.starts_with(['{', '[', '"']) && serde_json::from_str::<Line>(text).is_ok() {
        return Ok(Format::Jsonl);
    }
    let is_json = || serde_json::from_str::<IgnoredAny>(text).is_ok();
    match text.trim() {
        "[" | "{" => {}
        text if text.starts_with(['{', '[']) && is_json() => {}
        _ => return Ok(Format::Lines),
    }
    Err("is JSON, but not one request per line; `jq -c '.[]' FILE` makes lines of a list, and --format lines reads each line as \
         a text"
        .to_owned())
}

fn parse(text: &str) -> Result<Record, String> {
    let object = match serde_json::from_str(text).map_err(|error| format!("is not a JSON request: {error}"))? {
        Line::Texts(OneOrMore::One(text)) => return Ok(Record::Texts(vec![text])),
        Line::Texts(OneOrMore::More(texts)) => return not_empty(texts).map(Record::Texts),
        Line::Object(object) => object,
    };
    let object: Object = serde_path_to_error::deserialize(serde_json::Value::from(object))
        .map_err(|error| format!("`{}`: {}", error.path(), error.inner()))?;
    let texts = object
        .texts
        .map(|items| items.into_iter().map(|(Item::Text(text) | Item::Object { text })| text).collect::<Vec<_>>());
    match (object.query, texts, object.text, object.input) {
        (Some(query), Some(texts), ..) => {
            Ok(Record::Rerank { query, texts: not_empty(texts)?, instruction: object.instruction })
        }
        (_, _, Some(text), _) | (_, _, _, Some(OneOrMore::One(text))) => Ok(Record::Texts(vec![text])),
        (_, Some(texts), ..) | (_, _, _, Some(OneOrMore::More(texts))) => not_empty(texts).map(Record::Texts),
        _ => {
            Err("has no text: `text`, `input`, `inputs`, or `query` with `texts`, `documents` or `passages`".to_owned())
        }
    }
}

fn not_empty(texts: Vec<String>) -> Result<Vec<String>, String> {
    if texts.is_empty() { Err("has an empty list of texts".to_owned()) } else { Ok(texts) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, format: Format) -> Result<Vec<(usize, Record)>, String> {
        Records::new(text.as_bytes(), format).collect::<Result<_, _>>().map_err(|error| error.to_string())
    }

    fn texts(texts: &[&str]) -> Record {
        Record::Texts(texts.iter().map(|&text| text.to_owned()).collect())
    }

    #[test]
    fn plain_lines_are_texts_as_they_stand() {
        let expected = [(1, texts(&[" a "])), (3, texts(&["{not json"])), (4, texts(&["\"b\""]))];
        assert_eq!(read(" a \r\n\n{not json\n\"b\"", Format::Auto).unwrap(), expected);
        assert_eq!(read("{\"text\": 1}", Format::Lines).unwrap(), [(1, texts(&["{\"text\": 1}"]))]);
    }

    #[test]
    fn json_lines_are_requests_in_any_of_the_endpoints_forms() {
        let text = r#"{"text": "a"}
"b"
["c", "d"]
{"inputs": "e", "truncate": true}
{"input": ["f", "g"], "model": "m"}
{"query": "q", "texts": ["h"], "instruct": "i"}
{"query_id": "q1", "query": "q", "passages": [{"id": "p", "text": "j"}, "k"]}
{"documents": ["l"]}"#;
        let rerank = |texts: &[&str], instruction: Option<&str>| Record::Rerank {
            query: "q".to_owned(),
            texts: texts.iter().map(|&text| text.to_owned()).collect(),
            instruction: instruction.map(str::to_owned),
        };
        let records: Vec<Record> = read(text, Format::Auto).unwrap().into_iter().map(|(_, record)| record).collect();
        let expected = [
            texts(&["a"]),
            texts(&["b"]),
            texts(&["c", "d"]),
            texts(&["e"]),
            texts(&["f", "g"]),
            rerank(&["h"], Some("i")),
            rerank(&["j", "k"], None),
            texts(&["l"]),
        ];
        assert_eq!(records, expected);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (line, words) in [
            ("{\"query\": \"q\"}", "line 2: has no text"),
            ("{\"texts\": []}", "line 2: has an empty list"),
            ("{\"texts\": [1]}", "line 2: `texts[0]`: a text, or an object with `text`, was expected"),
            ("{\"text\": 5}", "line 2: `text`: invalid type: integer `5`, expected a string"),
            ("nonsense", "line 2: is not a JSON request"),
            ("7", "line 2: is not a JSON request"),
        ] {
            let message = read(&format!("\"ok\"\n{line}"), Format::Auto).unwrap_err();
            assert!(message.contains(words), "{line}: {message}");
        }
        for list in ["[{\"text\": \"a\"}, {\"text\": \"b\"}]", "[\n\"a\",\n\"b\"\n]", "{\n\"text\": \"a\"}", "[1, 2]"] {
            let message = read(list, Format::Auto).unwrap_err();
            assert!(message.contains("line 1: is JSON, but not one request per line"), "{list}: {message}");
            assert!(read(list, Format::Lines).is_ok(), "{list}");
        }
        let bytes: &[u8] = b"ok\n\xff\n";
        let message = Records::new(bytes, Format::Auto).nth(1).unwrap().unwrap_err().to_string();
        assert!(message.starts_with("line 2: cannot be read") && message.contains("UTF-8"), "{message}");
        assert!("csv".parse::<Format>().unwrap_err().contains("auto, lines, jsonl"));
    }
}
