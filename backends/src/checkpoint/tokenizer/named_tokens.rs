//! Special tokens that a tokenizer's files name, or its class, as transformers 5 collects them (`PreTrainedTokenizerBase`).

use super::class::Class;
use super::described_token::described_token;
use crate::error::LoadError;
use crate::json::{Fields, names_in_order, shown, top_names_in_order};
use crate::source::ModelFiles;
use crate::source::tokenizer_files::SPECIAL_TOKENS;
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use tokenizers::AddedToken;

/// Fields of the named special tokens, in the order of [`Class::special_tokens`].
const NAMED: [&str; 7] = ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];
/// End of the names of other tokens, such as `image_token`.
const END: &str = "_token";
/// The list of added tokens by id.
pub(super) const DECODER: &str = "added_tokens_decoder";
/// Further special tokens, in the newer and the older spelling.
const EXTRA: &str = "extra_special_tokens";
const OLDER: &str = "additional_special_tokens";
/// Number of T5's tokens for masked spans.
const EXTRA_IDS: &str = "extra_ids";
const MAX_EXTRA_IDS: usize = 1000;

/// The files that name special tokens.
pub(super) struct Sources<'a> {
    pub(super) files: &'a ModelFiles,
    /// `tokenizer_config.json`.
    pub(super) config: &'a Fields<'a>,
    /// `special_tokens_map.json`, which a list of added tokens replaces.
    pub(super) map: Option<&'a Fields<'a>>,
}

/// `special_tokens_map.json`, which a list of added tokens in `config` replaces.
///
/// # Errors
/// It is not JSON.
pub(super) fn special_tokens_map(files: &ModelFiles, config: &Fields<'_>) -> Result<Option<Value>, LoadError> {
    if config.get(DECODER).is_some() { Ok(None) } else { files.json(SPECIAL_TOKENS) }
}

/// The text of a named special token, `usual` if no file names it.
///
/// # Errors
/// A file is malformed.
pub(super) fn special_token(
    files: &ModelFiles,
    config: &Fields<'_>,
    (field, usual): (&str, &str),
) -> Result<String, LoadError> {
    let map = special_tokens_map(files, config)?;
    let map = map.as_ref().map(|map| Fields::new(SPECIAL_TOKENS, map)).transpose()?;
    let naming = Sources { files, config, map: map.as_ref() }.naming(field);
    let named = naming.map(|fields| token(fields, field)).transpose()?.flatten();
    Ok(named.map_or_else(|| usual.to_owned(), |token| token.content))
}

/// `true` if the file that counts has null for a named special token.
///
/// # Errors
/// A file is malformed.
pub(super) fn is_null(files: &ModelFiles, config: &Fields<'_>, field: &str) -> Result<bool, LoadError> {
    let map = special_tokens_map(files, config)?;
    let map = map.as_ref().map(|map| Fields::new(SPECIAL_TOKENS, map)).transpose()?;
    let naming = Sources { files, config, map: map.as_ref() }.naming(field);
    Ok(naming.is_some_and(|fields| fields.get(field).is_none()))
}

/// Tokens by the names of their fields, in the order of the first token of each name.
#[derive(Default)]
struct ByName {
    tokens: Vec<AddedToken>,
    places: HashMap<String, usize>,
}

impl ByName {
    fn set(&mut self, name: &str, token: AddedToken) {
        let token = token.special(true);
        match self.places.get(name) {
            Some(&place) => self.tokens[place] = token,
            None => {
                self.places.insert(name.to_owned(), self.tokens.len());
                self.tokens.push(token);
            }
        }
    }
}

impl<'a> Sources<'a> {
    /// The named special tokens of the files, and the tokens of the class that no file names.
    ///
    /// # Errors
    /// A file is malformed.
    pub(super) fn named(&self, class: Class) -> Result<Vec<AddedToken>, LoadError> {
        let mut found = ByName::default();
        for (field, usual) in NAMED.into_iter().zip(class.special_tokens()) {
            let token = match self.naming(field) {
                Some(fields) => token(fields, field)?,
                None => Some(usual).filter(|usual| !usual.is_empty()).map(|usual| AddedToken::from(usual, true)),
            };
            token.into_iter().for_each(|token| found.set(field, token));
        }
        // Names of this model alone: tokens that tokenizer_config.json has as texts come after the others.
        let of_config = self.others(self.config)?;
        let (texts, objects): (Vec<_>, Vec<_>) = of_config.into_iter().partition(|(_, value)| value.is_string());
        let is_token = |value: &Value| value.get("__type").is_some_and(|kind| kind == "AddedToken");
        for (name, _) in objects.into_iter().filter(|(_, value)| is_token(value)) {
            token(self.config, name)?.into_iter().for_each(|token| found.set(name, token));
        }
        if let Some(map) = self.map {
            for (name, _) in self.others(map)? {
                token(map, name)?.into_iter().for_each(|token| found.set(name, token));
            }
        }
        for (name, _) in texts {
            token(self.config, name)?.into_iter().for_each(|token| found.set(name, token));
        }
        for (fields, field) in
            [(self.config, extra_field(self.config))].into_iter().chain(self.map.map(|map| (map, EXTRA)))
        {
            if !matches!(fields.get(field), Some(Value::Object(_))) {
                continue;
            }
            let Some(object) = fields.object(field)? else { continue };
            for (name, _) in self.in_order(&object, Some(field), object.entries().collect())? {
                token(&object, name)?.into_iter().for_each(|token| found.set(name, token));
            }
        }
        Ok(found.tokens)
    }

    /// The special tokens that the files list without names, otherwise the class's.
    ///
    /// # Errors
    /// A file is malformed, or its tokens are not those of `extra_ids`.
    pub(super) fn further(&self, class: Class) -> Result<Vec<AddedToken>, LoadError> {
        let of_config = list(self.config, extra_field(self.config))?;
        let listed = match self.map.filter(|map| map.mentions(EXTRA)) {
            None => of_config,
            // A null replaces the other file's list.
            Some(map) if map.get(EXTRA).is_none() => Some(vec![]),
            Some(map) => list(map, EXTRA)?.map(|own| of_config.into_iter().flatten().chain(own).collect()),
        };
        if let Some(listed) = listed {
            return Ok(listed);
        }
        // In special_tokens_map.json, and where the newer spelling is an object of names, the older one is an argument of the class, which
        // replaces its default.
        let older = match self.map.filter(|map| map.mentions(OLDER)) {
            Some(map) => list(map, OLDER)?,
            None if extra_field(self.config) == EXTRA => list(self.config, OLDER)?,
            None => None,
        };
        match class {
            Class::T5 => self.of_t5(older.unwrap_or_default()),
            Class::Camembert => Ok(older.unwrap_or_else(|| special(["<s>NOTUSED", "</s>NOTUSED", "<unk>NOTUSED"]))),
            _ => Ok(older.unwrap_or_default()),
        }
    }

    /// The tokens that are special in `added_tokens.json`: the files name or list them as texts, `special_tokens_map.json` also as objects.
    pub(super) fn special_texts(&self) -> HashSet<&'a str> {
        let text = |(fields, value): (&Fields<'_>, &'a Value)| match value {
            Value::String(text) => Some(text.as_str()),
            value if fields.file() == SPECIAL_TOKENS => value.get("content")?.as_str(),
            _ => None,
        };
        let named = NAMED.into_iter().filter_map(|field| {
            let fields = self.naming(field)?;
            text((fields, fields.get(field)?))
        });
        let of_map = self.map.map(|map| (map, EXTRA));
        // An object of names or a null replaces the other file's list.
        let is_replaced =
            self.map.is_some_and(|map| map.mentions(EXTRA) && !map.get(EXTRA).is_some_and(Value::is_array));
        let of_config = Some((self.config, extra_field(self.config))).filter(|_| !is_replaced);
        let listed = of_config.into_iter().chain(of_map).flat_map(|(fields, field)| {
            let items = fields.get(field).and_then(Value::as_array).into_iter().flatten();
            items.filter_map(move |item| text((fields, item)))
        });
        named.chain(listed).collect()
    }

    /// T5's tokens: those of masked spans, `extra_ids` of them, come after others.
    fn of_t5(&self, mut tokens: Vec<AddedToken>) -> Result<Vec<AddedToken>, LoadError> {
        const SPAN: &str = "<extra_id_";
        let count = self.config.or(EXTRA_IDS, 100)?;
        if count > MAX_EXTRA_IDS {
            return Err(self.config.problem(EXTRA_IDS, &format!("is {count}, the limit is {MAX_EXTRA_IDS}")));
        }
        match tokens.iter().filter(|token| token.content.contains(SPAN)).count() {
            0 => tokens.extend(special((0..count).map(|id| format!("{SPAN}{id}>")))),
            listed if count > 0 && listed != count => {
                let problem = format!("is {count}, but {SPECIAL_TOKENS} lists {listed} tokens `{SPAN}N>`");
                return Err(self.config.problem(EXTRA_IDS, &problem));
            }
            _ => {}
        }
        Ok(tokens)
    }

    /// The file that has a field, `special_tokens_map.json` first.
    fn naming(&self, field: &str) -> Option<&'a Fields<'a>> {
        self.map.into_iter().chain([self.config]).find(|fields| fields.mentions(field))
    }

    /// Fields of tokens with other names than the usual ones, in file order.
    fn others<'f>(&self, fields: &Fields<'f>) -> Result<Vec<(&'f String, &'f Value)>, LoadError> {
        let others = fields.entries().filter(|(name, value)| {
            name.ends_with(END) && !NAMED.contains(&name.as_str()) && (value.is_string() || value.is_object())
        });
        self.in_order(fields, None, others.collect())
    }

    /// Fields of a file, or of an object in it, in file order.
    pub(super) fn in_order<'f>(
        &self,
        fields: &Fields<'_>,
        object: Option<&str>,
        mut entries: Vec<(&'f String, &'f Value)>,
    ) -> Result<Vec<(&'f String, &'f Value)>, LoadError> {
        if entries.len() > 1 {
            let bytes = self.files.read(fields.file())?.unwrap_or_default();
            let names = match object {
                Some(object) => names_in_order(fields.file(), &bytes, object)?,
                None => top_names_in_order(fields.file(), &bytes)?,
            };
            let places: HashMap<&String, usize> = names.iter().zip(0..).collect();
            entries.sort_by_key(|(name, _)| places.get(name).copied());
        }
        Ok(entries)
    }
}

/// The field of further tokens in `tokenizer_config.json`: the older spelling counts where the newer one is missing or empty.
fn extra_field(config: &Fields<'_>) -> &'static str {
    let is_empty = match config.get(EXTRA) {
        None => true,
        Some(Value::Array(items)) => items.is_empty(),
        Some(Value::Object(items)) => items.is_empty(),
        Some(_) => false,
    };
    if is_empty && config.mentions(OLDER) { OLDER } else { EXTRA }
}

/// A list of tokens without names; `None` if the field is absent or an object of names.
fn list(fields: &Fields<'_>, field: &str) -> Result<Option<Vec<AddedToken>>, LoadError> {
    let item = |item: &Value| match item {
        Value::String(content) => Ok(AddedToken::from(content.as_str(), true)),
        item => Ok(described_token(&Fields::new(fields.file(), item)?, true)?.special(true)),
    };
    match fields.get(field) {
        Some(Value::Array(items)) => items.iter().map(item).collect::<Result<_, _>>().map(Some),
        Some(Value::Object(_)) => Ok(None),
        None => Ok(fields.mentions(field).then(Vec::new)),
        Some(other) => Err(fields.problem(field, &format!("must be a list, it is {}", shown(other)))),
    }
}

fn special<T: Into<String>>(tokens: impl IntoIterator<Item = T>) -> Vec<AddedToken> {
    tokens.into_iter().map(|token| AddedToken::from(token, true)).collect()
}

/// A named token, given as its text or as an object.
fn token(fields: &Fields<'_>, field: &str) -> Result<Option<AddedToken>, LoadError> {
    match fields.get(field) {
        None => Ok(None),
        Some(Value::Object(_)) => fields.object(field)?.map(|token| described_token(&token, true)).transpose(),
        Some(_) => Ok(fields.optional::<String>(field)?.map(|content| AddedToken::from(content, true))),
    }
}
