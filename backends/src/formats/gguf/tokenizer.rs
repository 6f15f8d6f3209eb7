//! Tokenizer in a GGUF file's metadata.

use super::file::GgufFile;
use crate::LoadError;
use crate::formats::special_tokens::{Template, set_template};
use candle_core::quantized::gguf_file::Value;
use tokenizers::decoders::byte_level::ByteLevel;
use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::normalizers::unicode::NFC;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{AddedToken, SplitDelimiterBehavior, Tokenizer};

const TOKENS: &str = "tokenizer.ggml.tokens";
const MERGES: &str = "tokenizer.ggml.merges";
const TOKEN_TYPES: &str = "tokenizer.ggml.token_type";

/// Values of `tokenizer.ggml.token_type`.
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;

/// Splitting of a text before the merges, by `tokenizer.ggml.pre`.
struct PreTokenizer {
    names: &'static [&'static str],
    split: SplitBy,
    nfc: bool,
    ignore_merges: bool,
    /// Default of `add_bos_token`.
    adds_bos: bool,
}

enum SplitBy {
    /// GPT-2's pattern, built into the byte-level pre-tokenizer.
    Gpt2,
    /// Single digits, then GPT-2's pattern.
    DigitsThenGpt2,
    /// Another pattern.
    Pattern(&'static str),
}

const QWEN2: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

const PRE_TOKENIZERS: [PreTokenizer; 4] = [
    PreTokenizer {
        names: &["smollm"],
        split: SplitBy::DigitsThenGpt2,
        nfc: false,
        ignore_merges: false,
        adds_bos: false,
    },
    PreTokenizer {
        names: &["qwen2"],
        split: SplitBy::Pattern(QWEN2),
        nfc: true,
        ignore_merges: false,
        adds_bos: false,
    },
    PreTokenizer {
        names: &["llama-bpe", "llama3", "llama-v3"],
        split: SplitBy::Pattern(LLAMA3),
        nfc: false,
        ignore_merges: true,
        adds_bos: true,
    },
    PreTokenizer { names: &["gpt-2"], split: SplitBy::Gpt2, nfc: false, ignore_merges: false, adds_bos: false },
];

/// Builds the tokenizer.
///
/// # Errors
/// The metadata is incomplete or malformed, or the kind of tokenizer is not supported.
pub(crate) fn tokenizer(file: &GgufFile) -> Result<Tokenizer, LoadError> {
    let pre = pre_tokenizer(file)?;
    let tokens = strings(file, TOKENS)?;
    let mut tokenizer = Tokenizer::new(bpe(file, &tokens, pre.ignore_merges)?);
    let failed = |error: tokenizers::Error| LoadError::invalid(file.name(), format!("tokenizer: {error}"));

    tokenizer.with_normalizer(pre.nfc.then_some(NFC)).map_err(failed)?;
    tokenizer.with_pre_tokenizer(Some(pre.split.build().map_err(failed)?));
    tokenizer.with_decoder(Some(ByteLevel::default()));
    for (token, special) in added_tokens(file, &tokens)? {
        let token = AddedToken::from(token, special).normalized(false);
        if special { tokenizer.add_special_tokens([token]) } else { tokenizer.add_tokens([token]) }.map_err(failed)?;
    }
    let template =
        Template { bos: ends_with(file, &tokens, "bos", pre.adds_bos)?, eos: ends_with(file, &tokens, "eos", false)? };
    set_template(&mut tokenizer, &template).map_err(failed)?;
    Ok(tokenizer)
}

fn pre_tokenizer(file: &GgufFile) -> Result<&'static PreTokenizer, LoadError> {
    const BESIDE: &str = "put the model's tokenizer.json beside the file and it will be used";
    let key = "tokenizer.ggml.model";
    let model = file.str(key)?.ok_or_else(|| file.lacks(key))?;
    if model != "gpt2" {
        let kind = if model == "llama" { " (SentencePiece)" } else { "" };
        let supported = format!("gpt2, that is byte-level BPE; {BESIDE}");
        return Err(LoadError::unsupported(file.name(), format!("`{key}` \"{model}\"{kind}"), supported));
    }
    // The name "default", or none, means that the converter did not know the pattern.
    let key = "tokenizer.ggml.pre";
    let name = file.str(key)?.unwrap_or("default");
    PRE_TOKENIZERS.iter().find(|pre| pre.names.contains(&name)).ok_or_else(|| {
        let known: Vec<_> = PRE_TOKENIZERS.iter().flat_map(|pre| pre.names).copied().collect();
        LoadError::unsupported(file.name(), format!("`{key}` \"{name}\""), format!("{}; {BESIDE}", known.join(", ")))
    })
}

impl SplitBy {
    fn build(&self) -> Result<PreTokenizerWrapper, tokenizers::Error> {
        let gpt2 = ByteLevel::new(false, false, true);
        Ok(match self {
            Self::Gpt2 => gpt2.into(),
            Self::DigitsThenGpt2 => Sequence::new(vec![Digits::new(true).into(), gpt2.into()]).into(),
            Self::Pattern(pattern) => {
                let pattern = SplitPattern::Regex((*pattern).to_owned());
                let split = Split::new(pattern, SplitDelimiterBehavior::Isolated, false)?;
                Sequence::new(vec![split.into(), ByteLevel::new(false, false, false).into()]).into()
            }
        })
    }
}

fn bpe(file: &GgufFile, tokens: &[&str], ignore_merges: bool) -> Result<BPE, LoadError> {
    let vocab: Vocab = tokens.iter().zip(0u32..).map(|(token, id)| ((*token).to_owned(), id)).collect();
    if vocab.len() != tokens.len() {
        let problem = format!("metadata `{TOKENS}` has {} tokens, only {} different ones", tokens.len(), vocab.len());
        return Err(LoadError::invalid(file.name(), problem));
    }
    let merges = strings(file, MERGES)?.into_iter().map(|merge| match merge.split_once(' ') {
        Some((left, right)) => Ok((left.to_owned(), right.to_owned())),
        None => Err(LoadError::invalid(file.name(), format!("metadata `{MERGES}` has \"{merge}\", which is no pair"))),
    });
    let builder =
        BPE::builder().vocab_and_merges(vocab, merges.collect::<Result<_, _>>()?).ignore_merges(ignore_merges);
    builder.build().map_err(|error| LoadError::invalid(file.name(), format!("tokenizer: {error}")))
}

/// Tokens that are matched as a whole; `true` for special ones.
fn added_tokens(file: &GgufFile, tokens: &[&str]) -> Result<Vec<(String, bool)>, LoadError> {
    let Some(types) = file.get(TOKEN_TYPES) else { return Err(file.lacks(TOKEN_TYPES)) };
    let Value::Array(types) = types else { return Err(file.wrong(TOKEN_TYPES, "a list of whole numbers")) };
    if types.len() != tokens.len() {
        let problem = format!("metadata `{TOKEN_TYPES}` has {} entries for {} tokens", types.len(), tokens.len());
        return Err(LoadError::invalid(file.name(), problem));
    }
    let mut added = Vec::new();
    for (token, kind) in tokens.iter().zip(types) {
        let kind = match *kind {
            Value::I32(kind) => kind,
            Value::U32(kind) => i32::try_from(kind).unwrap_or(0),
            _ => return Err(file.wrong(TOKEN_TYPES, "a list of whole numbers")),
        };
        if kind == CONTROL || kind == USER_DEFINED {
            added.push(((*token).to_owned(), kind == CONTROL));
        }
    }
    Ok(added)
}

/// The token before (`bos`) or after (`eos`) every text, if any.
fn ends_with(file: &GgufFile, tokens: &[&str], which: &str, default: bool) -> Result<Option<(String, u32)>, LoadError> {
    if !file.bool(&format!("tokenizer.ggml.add_{which}_token"))?.unwrap_or(default) {
        return Ok(None);
    }
    let key = format!("tokenizer.ggml.{which}_token_id");
    let id = file.usize(&key)?.ok_or_else(|| file.lacks(&key))?;
    match (tokens.get(id), u32::try_from(id)) {
        (Some(token), Ok(id)) => Ok(Some(((*token).to_owned(), id))),
        _ => Err(file.wrong(&key, &format!("below the number of tokens ({}), it is {id}", tokens.len()))),
    }
}

fn strings<'a>(file: &'a GgufFile, key: &str) -> Result<Vec<&'a str>, LoadError> {
    let wrong = || file.wrong(key, "a list of strings");
    match file.get(key) {
        None => Err(file.lacks(key)),
        Some(Value::Array(values)) => values
            .iter()
            .map(|value| if let Value::String(s) = value { Ok(s.as_str()) } else { Err(wrong()) })
            .collect(),
        Some(_) => Err(wrong()),
    }
}
