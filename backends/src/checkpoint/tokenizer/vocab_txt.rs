//! WordPiece tokenizer from `vocab.txt`, as transformers builds it without `tokenizer.json`.

use super::bert_normalizer;
use super::described_token::described_token;
use super::tokenizer_json::CONFIG;
use crate::error::LoadError;
use crate::formats::special_tokens::{SecondText, Template};
use crate::formats::wordpiece::BertTokenizer;
use crate::json::Fields;
use crate::json_memory;
use crate::source::ModelFiles;
use crate::source::tokenizer_files::{ADDED_TOKENS, SPECIAL_TOKENS};
use prefold_core::TokenizerSums;
use serde_json::Value;
use tokenizers::models::bpe::Vocab;
use tokenizers::{AddedToken, Tokenizer};

const FILE: &str = "vocab.txt";

/// Tokenizer classes of transformers with equal settings.
struct Class {
    names: &'static [&'static str],
    /// Model types with this class if no file names one.
    model_types: &'static [&'static str],
    /// Field and default of each special token.
    tokens: [(&'static str, &'static str); 5],
    /// The mask token includes the space before it.
    mask_takes_space: bool,
    second: SecondText,
}

const CLASSES: [Class; 2] = [
    Class {
        names: &["BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer"],
        model_types: &["bert", "distilbert", "electra"],
        tokens: [
            ("unk_token", "[UNK]"),
            ("cls_token", "[CLS]"),
            ("sep_token", "[SEP]"),
            ("pad_token", "[PAD]"),
            ("mask_token", "[MASK]"),
        ],
        mask_takes_space: false,
        second: SecondText::Joined,
    },
    Class {
        names: &["MPNetTokenizer"],
        model_types: &["mpnet"],
        tokens: [
            ("unk_token", "[UNK]"),
            ("cls_token", "<s>"),
            ("sep_token", "</s>"),
            ("pad_token", "<pad>"),
            ("mask_token", "<mask>"),
        ],
        mask_takes_space: true,
        second: SecondText::Separated,
    },
];

/// Builds the tokenizer; `None` without `vocab.txt`, or if models of this type have another kind of tokenizer.
///
/// # Errors
/// A file is malformed, lacks a special token, or asks for another kind of tokenizer.
pub(crate) fn read(
    files: &ModelFiles,
    model_type: &str,
    sums: &mut TokenizerSums,
) -> Result<Option<Tokenizer>, LoadError> {
    let Some(bytes) = files.read(FILE)? else { return Ok(None) };
    let lines = bytes.iter().filter(|&&byte| byte == b'\n').count();
    json_memory::check_left(FILE, json_memory::TOKEN * lines as u64)?;
    let empty = Value::Object(serde_json::Map::new());
    let config = files.json(CONFIG)?.unwrap_or_else(|| empty.clone());
    let config = Fields::new(CONFIG, &config)?;
    let Some(class) = class(&config, model_type)? else { return Ok(None) };
    if files.json(ADDED_TOKENS)?.is_some() {
        return Err(LoadError::unsupported(ADDED_TOKENS, format!("its use with {FILE}"), "tokenizer.json"));
    }
    let tokens = files.json(SPECIAL_TOKENS)?.unwrap_or(empty);
    let tokens = Fields::new(SPECIAL_TOKENS, &tokens)?;
    let vocab = vocabulary(&bytes)?;
    let normalizer = bert_normalizer::described(&config)?;
    let special = class.tokens.map(|(field, usual)| {
        let fields = if config.get(field).is_some() { &config } else { &tokens };
        let takes_space = class.mask_takes_space && field == "mask_token";
        match fields.get(field) {
            Some(Value::Object(_)) => {
                fields.object(field)?.map_or_else(|| Ok(special(usual)), |it| described_token(&it, true))
            }
            _ => Ok(special(&fields.or(field, usual.to_owned())?).lstrip(takes_space)),
        }
    });
    let [unk, cls, sep, pad, mask] = special;
    let (unk, cls, sep) = (unk?, cls?, sep?);
    let id = |token: &AddedToken| match vocab.get(&token.content) {
        Some(&id) => Ok((token.content.clone(), id)),
        None => Err(LoadError::invalid(FILE, format!("has no line \"{}\", a special token", token.content))),
    };
    let (unknown, _) = id(&unk)?;
    let template = Template { bos: Some(id(&cls)?), eos: Some(id(&sep)?), second: class.second };
    // The other special tokens are for training and may lack a row.
    let added = [pad?, unk, cls, sep, mask?].into_iter().chain(listed(&config)?);
    let added = added.filter(|token| vocab.contains_key(&token.content)).collect();
    let tokenizer = BertTokenizer { vocab, unk: unknown, normalizer, added, template }.build(sums);
    tokenizer.map(Some).map_err(|error| LoadError::invalid(FILE, error.to_string()))
}

/// The class in `tokenizer_config.json`, otherwise the class of the model type; `None` if that is not known.
fn class(config: &Fields<'_>, model_type: &str) -> Result<Option<&'static Class>, LoadError> {
    const FIELD: &str = "tokenizer_class";
    if !config.or("do_basic_tokenize", true)? {
        return Err(config.unsupported("do_basic_tokenize", "false", format!("with {FILE}: true")));
    }
    let name: String = config.or(FIELD, String::new())?;
    let name = name.trim_end_matches("Fast");
    // Generic names.
    if matches!(name, "" | "PreTrainedTokenizer" | "TokenizersBackend") {
        return Ok(CLASSES.iter().find(|class| class.model_types.contains(&model_type)));
    }
    match CLASSES.iter().find(|class| class.names.contains(&name)) {
        Some(class) => Ok(Some(class)),
        None => {
            let known: Vec<_> = CLASSES.iter().flat_map(|class| class.names).copied().collect();
            let supported = format!("with {FILE}: {}; or tokenizer.json", known.join(", "));
            Err(config.unsupported(FIELD, &format!("\"{name}\""), supported))
        }
    }
}

/// Vocabulary with one token per line, whose id is the line number from 0. The last of equal lines counts.
fn vocabulary(bytes: &[u8]) -> Result<Vocab, LoadError> {
    let text =
        std::str::from_utf8(bytes).map_err(|error| LoadError::invalid(FILE, format!("is not UTF-8: {error}")))?;
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let lines = text.strip_suffix('\n').unwrap_or(&text).split('\n');
    Ok(lines.zip(0u32..).map(|(line, id)| (line.to_owned(), id)).collect())
}

fn special(name: &str) -> AddedToken {
    AddedToken::from(name, true).normalized(false)
}

/// Added tokens in `added_tokens_decoder`.
fn listed(config: &Fields<'_>) -> Result<Vec<AddedToken>, LoadError> {
    let Some(list) = config.object("added_tokens_decoder")? else { return Ok(vec![]) };
    let ids: Vec<String> = list.entries().map(|(id, _)| id.clone()).collect();
    let tokens = ids.iter().filter_map(|id| list.object(id).transpose());
    tokens.map(|token| described_token(&token?, false)).collect()
}
