//! What is sent: lines of a file, made into texts by templates and dealt out to clients.

use crate::api::{Api, Payload};
use crate::template::Template;
use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Where a line's list of candidates may stand, in this order.
const PASSAGES: [&str; 3] = ["passages", "documents", "texts"];

type Fields = BTreeMap<String, String>;

/// A line of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    /// Where it stands, from 1.
    number: usize,
    fields: Fields,
    /// Absent when the line has no list; then the line itself is one text.
    passages: Option<Vec<Fields>>,
}

/// How lines become requests.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) api: Api,
    /// The template of client c is number c modulo their count; at least one.
    pub(crate) templates: Vec<Template>,
    /// At least 1. Client c of C has lines `c * L / C .. (c + 1) * L / C`.
    pub(crate) clients: usize,
    /// Texts in a request at most. When absent one, or for a ranking all passages of the line.
    pub(crate) texts_per_request: Option<usize>,
    /// The model's name for APIs that take one.
    pub(crate) model: Option<String>,
    /// Vectors as base64 in place of numbers, where the API knows it.
    pub(crate) base64: bool,
}

/// A request that is ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Prepared {
    pub(crate) body: Bytes,
    /// What the answer must have one result for.
    pub(crate) texts: usize,
}

/// The requests of each client.
#[derive(Debug)]
pub(crate) struct Workload {
    clients: Vec<Vec<Prepared>>,
}

impl Workload {
    /// Reads a file: JSON objects or strings where its name ends in `.jsonl`, `.ndjson` or `.json`, otherwise a text
    /// a line. Empty lines are left out.
    pub(crate) fn read(path: &Path, plan: &Plan) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let json = path.extension().is_some_and(|end| end == "jsonl" || end == "ndjson" || end == "json");
        Self::new(&text, json, plan).with_context(|| path.display().to_string())
    }

    fn new(text: &str, json: bool, plan: &Plan) -> Result<Self> {
        let lines = parse_lines(text, json)?;
        let (count, clients) = (lines.len(), plan.clients);
        ensure!(count >= clients, "{count} lines are too few for --clients {clients}");
        let slice = |client: usize| &lines[client * count / clients..(client + 1) * count / clients];
        let clients: Vec<_> = (0..clients).map(|client| plan.requests(client, slice(client))).collect::<Result<_>>()?;
        if let Some(client) = clients.iter().position(Vec::is_empty) {
            bail!("client {} has no text to send", client + 1);
        }
        Ok(Self { clients })
    }

    /// The request at a place in the order in which all are sent: the clients take turns, and each begins again when
    /// it is through.
    pub(crate) fn request(&self, index: u64) -> &Prepared {
        let index = index as usize;
        let own = &self.clients[index % self.clients.len()];
        &own[index / self.clients.len() % own.len()]
    }

    /// Different requests.
    pub(crate) fn len(&self) -> usize {
        self.clients.iter().map(Vec::len).sum()
    }
}

impl Plan {
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
        let payload = Payload { query, texts, model: self.model.as_deref(), base64: self.base64 };
        Prepared { body: self.api.body(&payload).into(), texts: texts.len() }
    }
}

impl Line {
    /// A text for each passage, or one for the line.
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

fn parse_lines(text: &str, json: bool) -> Result<Vec<Line>> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(index, line)| match json {
            true => parse_json(index + 1, line).with_context(|| format!("line {}", index + 1)),
            false => Ok(Line { number: index + 1, fields: only_text(line.to_owned()), passages: None }),
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

/// Strings, numbers and booleans as text. What else there is has no place in a prompt.
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
