//! Workload: lines of a file, built-in or random ones, rendered by templates and assigned to clients.

pub(crate) mod builtin;
pub mod ms_marco;
mod ms_marco_texts;
pub(crate) mod presets;
mod random;
mod sentences;

use crate::http::api::{Api, Payload};
use crate::http::client::Prepared;
use crate::workload::builtin::{Builtin, Group};
use crate::workload::random::RandomTexts;
use anyhow::{Context, Result, bail, ensure};
use prefold_tools::template::Template;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// Fields that may hold a line's list of candidates, in order of precedence.
const PASSAGES: [&str; 3] = ["passages", "documents", "texts"];

/// Passages of a random line for rankings, unless the number of texts per request is given.
const RANDOM_PASSAGES: usize = 10;
/// Words of a random text by default.
pub(crate) const RANDOM_WORDS: usize = 32;
/// Maximum words of all random texts of a workload: about two gigabytes.
const MAX_RANDOM_WORDS: usize = 1 << 28;
/// Words of a random query of a ranking.
const RANDOM_QUERY_WORDS: usize = 8;

type Fields = BTreeMap<String, String>;

/// Source of a workload's lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    File(PathBuf),
    Builtin {
        workload: Builtin,
        seed: u64,
    },
    /// Random lines. A line has one text, or for rankings a query and its passages.
    Random {
        lines: usize,
        /// Words per text.
        words: usize,
        seed: u64,
    },
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Builtin { workload, .. } => write!(f, "the built-in workload `{workload}`"),
            Self::Random { words, .. } => write!(f, "random texts of {}", prefold_tools::plural::count(*words, "word")),
        }
    }
}

/// Line of the file, or a built-in or random one.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    /// Line number, from 1.
    number: usize,
    fields: Fields,
    /// Absent if the line has no list and is itself one text.
    passages: Option<Vec<Fields>>,
}

/// Rules that turn lines into requests.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) api: Api,
    /// Templates, at least one. Client c has template c modulo their number.
    pub(crate) templates: Vec<Template>,
    /// Number of clients C, at least 1. Client c has lines `c * L / C .. (c + 1) * L / C`.
    pub(crate) clients: usize,
    /// Maximum texts per request. Default: one; for rankings all passages of the line.
    pub(crate) texts_per_request: Option<usize>,
    /// Model name, for APIs that have one.
    pub(crate) model: Option<String>,
    /// Request base64 vectors, if the API supports them.
    pub(crate) base64: bool,
    /// Priority named by each request.
    pub(crate) priority: Option<i64>,
}

/// Requests of each client.
#[derive(Debug)]
pub(crate) struct Workload {
    clients: Vec<Vec<Prepared>>,
}

impl Workload {
    /// Builds the requests from a source.
    pub(crate) fn from_source(source: &Source, plan: &Plan) -> Result<Self> {
        match source {
            Source::File(path) => Self::read(path, plan),
            Source::Builtin { workload, seed } => Self::from_lines(&builtin_lines(workload.groups(*seed)), plan),
            &Source::Random { lines, words, seed } => {
                plan.check_random(lines, words)?;
                Self::from_lines(&plan.random_lines(lines, words, seed), plan)
            }
        }
    }

    /// Reads a file: JSON objects or strings if its name ends in `.jsonl`, `.ndjson` or `.json`, otherwise one text per
    /// line. Empty lines are skipped.
    fn read(path: &Path, plan: &Plan) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let json = path.extension().is_some_and(|end| end == "jsonl" || end == "ndjson" || end == "json");
        Self::new(&text, json, plan).with_context(|| path.display().to_string())
    }

    fn new(text: &str, json: bool, plan: &Plan) -> Result<Self> {
        Self::from_lines(&parse_lines(text, json)?, plan)
    }

    fn from_lines(lines: &[Line], plan: &Plan) -> Result<Self> {
        let (count, clients) = (lines.len(), plan.clients);
        ensure!(count >= clients, "{count} lines are too few for --clients {clients}");
        let slice = |client: usize| &lines[client * count / clients..(client + 1) * count / clients];
        let clients: Vec<_> = (0..clients).map(|client| plan.requests(client, slice(client))).collect::<Result<_>>()?;
        if let Some(client) = clients.iter().position(Vec::is_empty) {
            bail!("client {} has no text to send", client + 1);
        }
        Ok(Self { clients })
    }

    /// Request at a position of the sending order: clients take turns, and each starts again after its last request.
    pub(crate) fn request(&self, index: u64) -> &Prepared {
        let index = index as usize;
        let own = &self.clients[index % self.clients.len()];
        &own[index / self.clients.len() % own.len()]
    }

    /// Number of distinct requests.
    pub(crate) fn len(&self) -> usize {
        self.clients.iter().map(Vec::len).sum()
    }
}

impl Plan {
    /// Texts of a random line.
    fn random_texts(&self) -> usize {
        if self.api.ranks() { self.texts_per_request.unwrap_or(RANDOM_PASSAGES) } else { 1 }
    }

    /// Checks what random lines take in memory before they are made.
    fn check_random(&self, lines: usize, words: usize) -> Result<()> {
        let texts = lines.saturating_mul(self.random_texts());
        ensure!(
            texts.saturating_mul(words) <= MAX_RANDOM_WORDS,
            "{texts} random texts of {words} words are too many: the limit is {MAX_RANDOM_WORDS} words in all (--random, --words, \
             --texts)"
        );
        Ok(())
    }

    fn random_lines(&self, lines: usize, words: usize, seed: u64) -> Vec<Line> {
        let mut random = RandomTexts::new(seed);
        let passages = self.random_texts();
        let mut line = |index| {
            if !self.api.ranks() {
                return Line { number: index + 1, fields: only_text(random.text(words)), passages: None };
            }
            Line {
                number: index + 1,
                fields: [("query".to_owned(), random.text(RANDOM_QUERY_WORDS))].into(),
                passages: Some((0..passages).map(|_| only_text(random.text(words))).collect()),
            }
        };
        (0..lines).map(&mut line).collect()
    }

    fn requests(&self, client: usize, lines: &[Line]) -> Result<Vec<Prepared>> {
        let template = &self.templates[client % self.templates.len()];
        let client = (client + 1).to_string();
        let mut requests = Vec::new();
        let mut texts = Vec::new();
        for line in lines {
            let rendered = line.render(template, &client).with_context(|| format!("line {}", line.number))?;
            if !self.api.ranks() {
                texts.extend(rendered);
                continue;
            }
            let query = line.fields.get("query");
            let query = query.with_context(|| format!("line {} has no field `query`", line.number))?;
            let size = self.texts_per_request.unwrap_or(rendered.len()).max(1);
            requests.extend(rendered.chunks(size).map(|texts| self.prepare(Some(query), texts)));
        }
        let size = self.texts_per_request.unwrap_or(1).max(1);
        requests.extend(texts.chunks(size).map(|texts| self.prepare(None, texts)));
        Ok(requests)
    }

    fn prepare(&self, query: Option<&str>, texts: &[String]) -> Prepared {
        let query = query.unwrap_or_default();
        let (model, base64, priority) = (self.model.as_deref(), self.base64, self.priority);
        let payload = Payload { query, texts, model, base64, priority };
        Prepared { body: self.api.body(&payload).into(), texts: texts.len() }
    }
}

impl Line {
    /// One text per passage, or one for the line.
    fn render(&self, template: &Template, client: &str) -> Result<Vec<String>> {
        let none = Fields::new();
        let own = std::slice::from_ref(&none);
        let texts = self.passages.as_deref().unwrap_or(own).iter().map(|passage| {
            template.render(|name| {
                match name {
                    "passage" if self.passages.is_some() => passage.get("text").map(String::as_str),
                    _ => passage.get(name).or_else(|| self.fields.get(name)).map(String::as_str),
                }
                .or_else(|| (name == "client").then_some(client))
            })
        });
        Ok(texts.collect::<Result<_, _>>()?)
    }
}

/// One line per group.
fn builtin_lines(groups: Vec<Group>) -> Vec<Line> {
    let line = |(index, Group { query, texts }): (usize, Group)| Line {
        number: index + 1,
        fields: query.map(|query| ("query".to_owned(), query)).into_iter().collect(),
        passages: Some(texts.into_iter().map(only_text).collect()),
    };
    groups.into_iter().enumerate().map(line).collect()
}

fn parse_lines(text: &str, json: bool) -> Result<Vec<Line>> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(index, line)| {
            if json {
                parse_json(index + 1, line).with_context(|| format!("line {}", index + 1))
            } else {
                Ok(Line { number: index + 1, fields: only_text(line.to_owned()), passages: None })
            }
        })
        .collect()
}

fn parse_json(number: usize, line: &str) -> Result<Line> {
    match serde_json::from_str(line)? {
        Value::String(text) => Ok(Line { number, fields: only_text(text), passages: None }),
        Value::Object(mut object) => {
            let list = PASSAGES.into_iter().find_map(|name| match object.get_mut(name) {
                Some(Value::Array(list)) => Some((name, std::mem::take(list))),
                _ => None,
            });
            let parse = |(name, list): (&str, Vec<Value>)| {
                list.into_iter().map(parse_passage).collect::<Result<_>>().with_context(|| format!("`{name}`"))
            };
            Ok(Line { number, fields: scalars(object), passages: list.map(parse).transpose()? })
        }
        _ => bail!("neither a JSON object nor a string"),
    }
}

fn parse_passage(passage: Value) -> Result<Fields> {
    match passage {
        Value::String(text) => Ok(only_text(text)),
        Value::Object(object) => Ok(scalars(object)),
        _ => bail!("an item is neither a string nor an object"),
    }
}

fn only_text(text: String) -> Fields {
    [("text".to_owned(), text)].into()
}

/// Strings, numbers and booleans as text; other values are not allowed in a prompt.
fn scalars(object: serde_json::Map<String, Value>) -> Fields {
    let text = |value| match value {
        Value::String(text) => Some(text),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(value) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    };
    object.into_iter().filter_map(|(name, value)| Some((name, text(value)?))).collect()
}

#[cfg(test)]
#[path = "workload_tests.rs"]
mod tests;
