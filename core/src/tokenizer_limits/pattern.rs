//! Regular expressions of a tokenizer file, which are accepted only if matching takes time proportional to the text.
//!
//! The engine backtracks and cannot be interrupted. If an item must follow an unlimited repetition, a run of characters without a
//! match is scanned again from each of its characters: `a*b` takes quadratic time on a run of `a`. So only optional items may
//! follow the first unlimited repetition of an alternative, with two exceptions, in which the run is matched anyway:
//! `\s+(?!\S)`, and `x*y` directly before an alternative `x+`. The patterns of GPT-2, Llama 3, Qwen, Mistral, DeepSeek and
//! GPT-4o are of this form.

/// Maximum bounded repetitions of an item.
const MAX_TIMES: usize = 64;

/// Maximum steps, without runs, to find that nothing matches at a place.
const MAX_STEPS: usize = 2048;

/// Maximum depth of nested groups.
const MAX_DEPTH: usize = 8;

/// Part of a pattern, with its repetition.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Item {
    /// As the pattern spells it, without its repetition.
    atom: String,
    /// It matches one character.
    single: bool,
    /// It matches no character, and may refuse.
    assertion: bool,
    /// Maximum ways in which it matches, and its characters.
    ways: usize,
    size: usize,
    least: usize,
    /// `None` without a limit.
    most: Option<usize>,
    /// True if it takes as much as possible and gives back on failure.
    greedy: bool,
}

/// Checks a pattern.
///
/// # Errors
/// Its time may grow faster than the text, or it has something that is not known; the rest of a sentence.
pub(crate) fn check(pattern: &str) -> Result<(), String> {
    let mut parser = Parser { rest: pattern, depth: 0 };
    let alternatives = parser.alternatives()?;
    if !parser.rest.is_empty() {
        return Err("has a `)` without a `(`".to_owned());
    }
    let mut steps = 0usize;
    for (index, items) in alternatives.iter().enumerate() {
        check_alternative(items, alternatives.get(index + 1).map(Vec::as_slice))?;
        let (ways, size) = extent(items);
        steps = steps.saturating_add(ways.saturating_mul(size));
    }
    if steps <= MAX_STEPS {
        return Ok(());
    }
    Err(format!("may take {steps} steps at a place where it does not match, the limit is {MAX_STEPS}"))
}

fn check_alternative(items: &[Item], next: Option<&[Item]>) -> Result<(), String> {
    let Some(first) = items.iter().position(|item| item.most.is_none()) else { return Ok(()) };
    let (repeated, behind) = (&items[first], &items[first + 1..]);
    if is_optional(behind) || is_space_before_space(repeated, behind) {
        return Ok(());
    }
    // The next alternative matches the run that this one scanned without a match, or hands it on: what follows its run is checked with it.
    let same_run = |next: &[Item]| {
        next.get(first).is_some_and(|run| {
            next[..first] == items[..first]
                && run.atom == repeated.atom
                && (run.least, run.most, run.greedy) == (1, None, true)
        })
    };
    match behind {
        [must, rest @ ..] if repeated.greedy && must.single && is_optional(rest) && next.is_some_and(same_run) => {
            Ok(())
        }
        _ => Err(format!(
            "has `{}` repeated without a limit before something that must follow, which may take time proportional to \
             the square of a text's length",
            repeated.atom
        )),
    }
}

fn is_optional(items: &[Item]) -> bool {
    items.iter().all(|item| item.least == 0)
}

fn is_space_before_space(repeated: &Item, behind: &[Item]) -> bool {
    repeated.atom == r"\s" && repeated.greedy && matches!(behind, [next] if next.atom == r"(?!\S)")
}

/// Ways in which items can match, runs left out, and the characters of all of them.
fn extent(items: &[Item]) -> (usize, usize) {
    items.iter().fold((1usize, 0usize), |(ways, size), item| {
        let most = item.most.unwrap_or(item.least.max(1));
        let times = item.most.map_or(1, |most| most - item.least + 1);
        let repeated = item.ways.saturating_pow(u32::try_from(most).unwrap_or(u32::MAX));
        (ways.saturating_mul(repeated).saturating_mul(times), size.saturating_add(item.size.saturating_mul(most)))
    })
}

struct Parser<'p> {
    rest: &'p str,
    depth: usize,
}

impl<'p> Parser<'p> {
    /// Alternatives up to the end or to the `)` of a group.
    fn alternatives(&mut self) -> Result<Vec<Vec<Item>>, String> {
        let mut alternatives = vec![Vec::new()];
        while let Some(character) = self.rest.chars().next() {
            match character {
                ')' => break,
                '|' => {
                    self.rest = &self.rest[1..];
                    alternatives.push(Vec::new());
                }
                _ => {
                    let item = self.item()?;
                    if let Some(last) = alternatives.last_mut() {
                        last.push(item);
                    }
                }
            }
        }
        Ok(alternatives)
    }

    fn item(&mut self) -> Result<Item, String> {
        let begin = self.rest;
        let mut item = Item {
            atom: String::new(),
            single: true,
            assertion: false,
            ways: 1,
            size: 1,
            least: 1,
            most: Some(1),
            greedy: true,
        };
        match self.take_char() {
            Some('\\') => item.assertion = self.escape()?,
            Some('[') => self.class()?,
            Some('(') => (item.assertion, item.ways, item.size) = self.group()?,
            Some('^' | '$') => item.assertion = true,
            Some(character @ ('*' | '+' | '?' | '{')) => {
                return Err(format!("has `{character}` where nothing can be repeated"));
            }
            _ => {}
        }
        item.atom = begin[..begin.len() - self.rest.len()].to_owned();
        item.single = !item.assertion && !item.atom.starts_with('(');
        self.repetition(&mut item)?;
        Ok(item)
    }

    fn take_char(&mut self) -> Option<char> {
        let character = self.rest.chars().next()?;
        self.rest = &self.rest[character.len_utf8()..];
        Some(character)
    }

    fn take(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// After a backslash; true for an assertion.
    fn escape(&mut self) -> Result<bool, String> {
        match self.take_char() {
            Some('p' | 'P' | 'x') if self.rest.starts_with('{') => match self.rest.split_once('}') {
                Some((_, rest)) => {
                    self.rest = rest;
                    Ok(false)
                }
                None => Err("has a `{` without its end".to_owned()),
            },
            Some('x') => self.digits(2),
            Some('u') => self.digits(4),
            Some('b' | 'B' | 'A' | 'z' | 'Z') => Ok(true),
            Some('d' | 'D' | 'w' | 'W' | 's' | 'S' | 'h' | 'H' | 'n' | 'r' | 't' | 'f' | 'v' | 'e' | 'a') => Ok(false),
            Some(other) if !other.is_ascii_alphanumeric() => Ok(false),
            other => Err(format!("has `\\{}`, which is not supported", other.map(String::from).unwrap_or_default())),
        }
    }

    fn digits(&mut self, count: usize) -> Result<bool, String> {
        match self.rest.get(..count) {
            Some(digits) if digits.bytes().all(|digit| digit.is_ascii_hexdigit()) => {
                self.rest = &self.rest[count..];
                Ok(false)
            }
            _ => Err(format!("has a code that is not {count} hexadecimal digits")),
        }
    }

    /// After the `[` of a character class.
    fn class(&mut self) -> Result<(), String> {
        let mut depth = 1;
        self.take("^");
        if self.rest.starts_with(']') {
            return Err("has a class that begins with `]`".to_owned());
        }
        while depth > 0 {
            match self.take_char() {
                Some('\\') => drop(self.escape()?),
                Some('[') => depth += 1,
                Some(']') => depth -= 1,
                Some(_) => {}
                None => return Err("has a `[` without its end".to_owned()),
            }
        }
        Ok(())
    }

    /// After the `(` of a group: whether it is an assertion, the ways in which it can match, and its characters.
    fn group(&mut self) -> Result<(bool, usize, usize), String> {
        let assertion = ["?=", "?!", "?<=", "?<!"].into_iter().any(|kind| self.take(kind));
        if !assertion && self.rest.starts_with('?') && !["?:", "?i:", "?>"].into_iter().any(|kind| self.take(kind)) {
            return Err(format!("has `({}`, which is not supported", self.rest.chars().take(3).collect::<String>()));
        }
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(format!("has groups nested more than {MAX_DEPTH} deep, which is the limit"));
        }
        let alternatives = self.alternatives()?;
        self.depth -= 1;
        if !self.take(")") {
            return Err("has a `(` without its end".to_owned());
        }
        let mut all = (0usize, 1usize);
        for items in &alternatives {
            if let Some(item) = items.iter().find(|item| item.most.is_none()) {
                return Err(format!("has `{}` repeated without a limit inside a group", item.atom));
            }
            let (ways, size) = extent(items);
            all = (all.0.saturating_add(ways), all.1.saturating_add(size));
        }
        Ok((assertion, all.0, all.1))
    }

    fn repetition(&mut self, item: &mut Item) -> Result<(), String> {
        let begin = self.rest;
        (item.least, item.most) = match self.rest.chars().next() {
            Some('?') => (0, Some(1)),
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('{') => {
                let (times, rest) = self.rest[1..].split_once('}').ok_or("has a `{` without its end")?;
                self.rest = rest;
                times_of(times)?
            }
            _ => return Ok(()),
        };
        let braces = begin.starts_with('{');
        if !braces {
            self.rest = &self.rest[1..];
            // Lazy, or without giving anything back.
            item.greedy = !(self.take("?") || self.take("+"));
        }
        if item.assertion {
            return Err(format!("has a repetition of `{}` that is not supported", item.atom));
        }
        match (item.most, item.single) {
            (None, false) => Err(format!("has the group `{}` repeated without a limit", item.atom)),
            (Some(most), _) if most > MAX_TIMES => {
                Err(format!("repeats `{}` {most} times, the limit is {MAX_TIMES}", item.atom))
            }
            _ => Ok(()),
        }
    }
}

/// Minimum and maximum of `{least,most}`.
fn times_of(times: &str) -> Result<(usize, Option<usize>), String> {
    let number =
        |text: &str| text.parse::<usize>().map_err(|_| format!("has `{{{times}}}`, which is not a repetition"));
    let (least, most) = match times.split_once(',') {
        None => (number(times)?, Some(number(times)?)),
        Some((least, "")) => (number(least)?, None),
        Some(("", most)) => (0, Some(number(most)?)),
        Some((least, most)) => (number(least)?, Some(number(most)?)),
    };
    if most.is_some_and(|most| most < least) || least > MAX_TIMES {
        return Err(format!("has `{{{times}}}`, which is not a repetition of at most {MAX_TIMES} times"));
    }
    Ok((least, most))
}

#[cfg(test)]
#[path = "tests/pattern.rs"]
mod tests;
