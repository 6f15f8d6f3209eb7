//! Patterns of module names in an adapter's config, which comes from an untrusted file: their number, size and time are limited.

use crate::error::LoadError;
use crate::json::{Fields, shown};
use regex::{Error, Regex, RegexBuilder};

/// Maximum bytes of a regular expression.
const MAX_PATTERN: usize = 4096;
/// Maximum regular expressions of a config, and their bytes together.
const MAX_EXPRESSIONS: usize = 32;
const MAX_BYTES: usize = 64 << 10;
/// Maximum groups of an expression; the memory of a match is their number times the compiled form.
const MAX_GROUPS: usize = 16;
/// Bytes of the compiled form of an expression that counts once, and the maximum. Matching takes time in proportion to them.
const SMALL: usize = 32 << 10;
const MAX_COMPILED: usize = 256 << 10;
/// Comparisons with a plain name in the time of a match with a small expression.
const PLAIN_PER_MATCH: u64 = 1024;

/// Place of a pattern in a module's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The whole name.
    Whole,
    /// The name, or its end after a dot.
    End,
    /// Components of the name.
    Inside,
    /// The component before the number of a layer.
    Layer,
}

impl Place {
    /// The expression for a name, as peft builds it.
    fn expression(self, given: &str) -> String {
        match self {
            Self::Whole => format!(r"\A(?:{given})\z"),
            Self::End => format!(r"\A(?:.*\.)?(?:{given})\z"),
            Self::Inside => format!(r"\A(?:(?:|.*\.){given}(?:\z|\.))"),
            Self::Layer => format!(r"\A(?:(?:|.*?\.){given}\.(?P<idx>\d+)\.)"),
        }
    }

    /// Groups of the given part of an expression: neither the whole match nor the number of a layer.
    fn groups(self, regex: &Regex) -> usize {
        regex.captures_len() - 1 - usize::from(self == Self::Layer)
    }
}

/// A pattern of module names.
#[derive(Debug)]
pub(super) enum Pattern {
    /// Every linear layer.
    All,
    /// A name, or its end after a dot.
    Ends(Vec<String>),
    /// An expression without other special characters than dots, each of which stands for any character.
    Plain(Place, String),
    /// Another expression, and its time as a multiple of a small one's.
    Regex(Regex, u64),
}

impl Pattern {
    /// Time to compare the pattern with one byte of a name, relative to a plain comparison.
    pub(super) fn cost(&self) -> u64 {
        match self {
            Self::All => 0,
            Self::Ends(ends) => ends.len() as u64,
            Self::Plain(Place::Whole | Place::End, _) => 1,
            Self::Plain(Place::Inside | Place::Layer, plain) => plain.len() as u64,
            Self::Regex(_, cost) => cost * PLAIN_PER_MATCH,
        }
    }

    /// `true` if the pattern matches a name.
    pub(super) fn matches(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Ends(ends) => ends.iter().any(|end| ends_with(name, end)),
            Self::Plain(place, plain) => find(name, *place, plain).is_some(),
            Self::Regex(regex, _) => regex.is_match(name),
        }
    }

    /// The number of the layer in a name.
    pub(super) fn number(&self, name: &str) -> Option<usize> {
        match self {
            Self::All | Self::Ends(_) => None,
            Self::Plain(place, plain) => number_at(name.get(find(name, *place, plain)?..)?),
            Self::Regex(regex, _) => regex.captures(name)?.name("idx")?.as_str().parse().ok(),
        }
    }
}

/// `true` if a name is `end`, or ends with it after a dot.
fn ends_with(name: &str, end: &str) -> bool {
    name.strip_suffix(end).is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

/// The end of the first match of a plain pattern; a dot in it is any character.
fn find(name: &str, place: Place, plain: &str) -> Option<usize> {
    let is_like = |start: usize| {
        let part = name.as_bytes().get(start..start + plain.len());
        part.is_some_and(|part| part.iter().zip(plain.bytes()).all(|(byte, wanted)| wanted == b'.' || *byte == wanted))
    };
    let last = name.len().checked_sub(plain.len())?;
    let begins = |start: usize| start == 0 || name.as_bytes()[start - 1] == b'.';
    let ends = |start: usize| match name.get(start + plain.len()..) {
        Some(rest) if place == Place::Layer => number_at(rest).is_some(),
        Some(rest) => rest.is_empty() || rest.starts_with('.'),
        None => false,
    };
    let start = match place {
        Place::Whole => (last == 0 && is_like(0)).then_some(0),
        Place::End => (begins(last) && is_like(last)).then_some(last),
        Place::Inside | Place::Layer => (0..=last).find(|&start| begins(start) && is_like(start) && ends(start)),
    };
    start.map(|start| start + plain.len())
}

/// The number between dots at the beginning.
fn number_at(rest: &str) -> Option<usize> {
    rest.strip_prefix('.')?.split_once('.')?.0.parse().ok()
}

/// Reader of a config's patterns, which counts them.
#[derive(Debug)]
pub(super) struct Expressions<'a> {
    fields: &'a Fields<'a>,
    count: usize,
    bytes: usize,
}

impl<'a> Expressions<'a> {
    pub(super) fn new(fields: &'a Fields<'a>) -> Self {
        Self { fields, count: 0, bytes: 0 }
    }

    /// The pattern of an expression.
    ///
    /// # Errors
    /// It is malformed, has look-around or back references, or the expressions are too many, long or large.
    pub(super) fn pattern(&mut self, field: &str, place: Place, given: &str) -> Result<Pattern, LoadError> {
        let problem = |problem: String| Err(self.fields.problem(field, &problem));
        if given.len() > MAX_PATTERN {
            return problem(format!("has an expression of {} bytes, the limit is {MAX_PATTERN}", given.len()));
        }
        if given.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.')) {
            return Ok(Pattern::Plain(place, given.to_owned()));
        }
        self.count += 1;
        self.bytes += given.len();
        if self.count > MAX_EXPRESSIONS || self.bytes > MAX_BYTES {
            let limits = format!("{MAX_EXPRESSIONS} with {MAX_BYTES} bytes together in a config");
            return problem(format!("has too many regular expressions, the limit is {limits}"));
        }
        match compiled(&place.expression(given)) {
            Ok((regex, _)) if place.groups(&regex) > MAX_GROUPS => problem(format!(
                "has the expression {} with {} groups, the limit is {MAX_GROUPS}",
                shown(&given.into()),
                place.groups(&regex)
            )),
            Ok((regex, cost)) => Ok(Pattern::Regex(regex, cost)),
            Err(error) => {
                // Messages about syntax repeat the expression; the last line says what is wrong.
                let error = error.to_string();
                let reason = error.lines().last().unwrap_or_default().trim_start_matches("error: ");
                problem(format!("has the expression {}, which cannot be compiled: {reason}", shown(&given.into())))
            }
        }
    }
}

/// An expression and its time as a multiple of a small one's.
fn compiled(expression: &str) -> Result<(Regex, u64), Error> {
    let build = |limit| RegexBuilder::new(expression).size_limit(limit).dfa_size_limit(MAX_COMPILED).build();
    match build(SMALL) {
        Err(Error::CompiledTooBig(_)) => Ok((build(MAX_COMPILED)?, (MAX_COMPILED / SMALL) as u64)),
        small => Ok((small?, 1)),
    }
}
