//! Added tokens of other files than `tokenizer.json`, as transformers 5 adds them (`TokenizersBackend.__init__`).

use super::class::Class;
use super::described_token::described_token;
use super::named_tokens::{DECODER, Sources, special_tokens_map};
use super::tokenizer_json::{self, CONFIG};
use crate::error::LoadError;
use crate::json::{Fields, first_names};
use crate::source::ModelFiles;
use crate::source::tokenizer_files::{ADDED_TOKENS, SPECIAL_TOKENS};
use prefold_core::{TokenizerSums, check_added_tokens};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashMap, HashSet};
use tokenizers::tokenizer::AddedVocabulary;
use tokenizers::{AddedToken, Model, Tokenizer};

/// The fields of added tokens. Messages number the items in the order of these fields.
const FIELDS: &str =
    "the tokens of `added_tokens_decoder`, `..._token`, `extra_special_tokens` and `additional_special_tokens`";

/// Adds the tokens; returns a warning about tokens without a row in the model's embeddings, of which there are `vocab_size`.
///
/// # Errors
/// A file is malformed, or the tokens exceed a limit.
pub(super) fn apply(
    tokenizer: &mut Tokenizer,
    files: &ModelFiles,
    (class, vocab_size): (Class, usize),
    sums: &mut TokenizerSums,
) -> Result<Option<String>, LoadError> {
    let config = files.json(CONFIG)?.unwrap_or_else(|| Value::Object(Map::new()));
    let config = Fields::new(CONFIG, &config)?;
    let splits_special = config.or("split_special_tokens", false)?;
    tokenizer.set_encode_special_tokens(splits_special);
    // Refused later.
    if tokenizer.get_model().get_vocab_size() == 0 {
        return Ok(None);
    }
    let own: BTreeMap<u32, AddedToken> = tokenizer.get_added_tokens_decoder().into_iter().collect();
    let listed = listed(&config)?;
    // A class that builds the tokenizer adds all tokens once more, from tokenizer.json only if there is no list.
    let rebuilds = class != Class::Generic;
    let map = special_tokens_map(files, &config)?;
    let map = map.as_ref().map(|map| Fields::new(SPECIAL_TOKENS, map)).transpose()?;
    let sources = Sources { files, config: &config, map: map.as_ref() };
    let (named, further) = (sources.named(class)?, sources.further(class)?);
    let mut tokens: Vec<AddedToken> = match listed {
        Some(listed) => listed.into_values().collect(),
        None => legacy(&sources, &own)?,
    };
    let mut known: HashSet<String> = tokens.iter().map(|token| token.content.clone()).collect();
    let is_complete = !rebuilds || own.values().all(|token| known.contains(&token.content));
    known.extend(own.values().filter(|_| !rebuilds).map(|token| token.content.clone()));
    // Of tokens with the same text the library keeps the last, with its flags.
    let mut variants = HashSet::new();
    let is_new = |token: &&AddedToken| !known.contains(&token.content) && variants.insert(variant(token));
    tokens.extend(named.iter().chain(&further).filter(is_new).cloned());
    mark_special(&mut tokens, &named, &further, class);
    let own: HashMap<&str, &AddedToken> = own.values().map(|token| (token.content.as_str(), token)).collect();
    if is_complete && tokens.iter().all(|token| own.get(token.content.as_str()) == Some(&token)) {
        return Ok(None);
    }
    if rebuilds {
        tokenizer.with_added_vocabulary(AddedVocabulary::default());
        tokenizer.set_encode_special_tokens(splits_special);
    }
    let (tokens, unusable) = usable(tokenizer, tokens, vocab_size);
    check_added_tokens(&tokens, tokenizer.get_normalizer(), sums)
        .map_err(|problem| LoadError::invalid(CONFIG, format!("{FIELDS}: {problem}")))?;
    tokenizer.add_tokens(tokens).map_err(tokenizer_json::invalid)?;
    Ok(warning(&unusable))
}

/// A token's text and flags.
fn variant(token: &AddedToken) -> (String, [bool; 5]) {
    let flags = [token.single_word, token.lstrip, token.rstrip, token.normalized, token.special];
    (token.content.clone(), flags)
}

/// Makes named tokens special. Qwen2's class adds all special tokens once more, as plain ones.
fn mark_special(tokens: &mut [AddedToken], named: &[AddedToken], further: &[AddedToken], class: Class) {
    let contents = |list: &[AddedToken]| -> HashSet<String> { list.iter().map(|it| it.content.clone()).collect() };
    let (named, further) = (contents(named), contents(further));
    for token in tokens {
        let is_named = named.contains(&token.content);
        token.special |= is_named;
        if class == Class::Qwen2 && (is_named || further.contains(&token.content)) {
            *token = AddedToken::from(token.content.as_str(), true);
        }
    }
}

/// The tokens of `added_tokens_decoder` by id; `None` if there is no list.
fn listed(config: &Fields<'_>) -> Result<Option<BTreeMap<u32, AddedToken>>, LoadError> {
    let Some(list) = config.object(DECODER)? else { return Ok(None) };
    let mut tokens = BTreeMap::new();
    for (id, _) in list.entries() {
        let number: u32 = id.parse().map_err(|_| list.problem(id, "must have a token id as its name"))?;
        let token = list.object(id)?.ok_or_else(|| list.problem(id, "must be an object"))?;
        tokens.insert(number, described_token(&token, false)?);
    }
    Ok(Some(tokens))
}

/// The tokens of `added_tokens.json`, which `own` tokens of `tokenizer.json` override, by the ids in the files. The last token of an id
/// counts.
fn legacy(sources: &Sources<'_>, own: &BTreeMap<u32, AddedToken>) -> Result<Vec<AddedToken>, LoadError> {
    let Some(added) = sources.files.json(ADDED_TOKENS)? else { return Ok(own.values().cloned().collect()) };
    let fields = Fields::new(ADDED_TOKENS, &added)?;
    let special = sources.special_texts();
    let mut tokens = BTreeMap::new();
    for (content, _) in sources.in_order(&fields, None, fields.entries().collect())? {
        let token = AddedToken::from(content.clone(), special.contains(content.as_str()));
        tokens.insert(fields.required::<u32>(content)?, token);
    }
    // Behind a gap the library has given the tokens other ids.
    let ids = tokenizer_json::added_ids(sources.files)?;
    let id = |(id, token): (&u32, &AddedToken)| (ids.get(&token.content).copied().unwrap_or(*id), token.clone());
    tokens.extend(own.iter().map(id));
    Ok(tokens.into_values().collect())
}

/// Splits off the tokens whose id, given or the next free one as the library counts, has no row.
fn usable(tokenizer: &Tokenizer, tokens: Vec<AddedToken>, vocab_size: usize) -> (Vec<AddedToken>, Vec<String>) {
    let size = tokenizer.get_model().get_vocab_size();
    let largest = tokenizer.get_added_tokens_decoder().keys().max().map_or(0, |&id| id as usize + 1);
    let mut next = size.max(largest);
    let (mut kept, mut unusable, mut new) = (Vec::new(), Vec::new(), HashSet::new());
    for token in tokens.into_iter().filter(|token| !token.content.is_empty()) {
        if tokenizer.token_to_id(&token.content).is_none() && !new.contains(&token.content) {
            if next >= vocab_size {
                unusable.push(token.content);
                continue;
            }
            next += 1;
            new.insert(token.content.clone());
        }
        kept.push(token);
    }
    (kept, unusable)
}

fn warning(unusable: &[String]) -> Option<String> {
    let named = first_names(unusable)?;
    Some(format!("{CONFIG}: the added tokens {named} are ignored: the model's vocabulary has no rows for them"))
}
