//! Byte-level BPE in a GGUF file's metadata.

use super::end_token::end_token;
use super::file::GgufFile;
use super::letter_case::LetterCase;
use super::tokens::{BESIDE, Token, added_tokens, failed, first_token, strings, tokens, vocab};
use crate::error::LoadError;
use crate::formats::special_tokens::{SecondText, Template, set_template};
use crate::formats::wordpiece::add_tokens;
use prefold_core::{TokenizerSums, check_merges};
use tokenizers::decoders::byte_level::ByteLevel;
use tokenizers::models::bpe::BPE;
use tokenizers::normalizers::unicode::NFC;
use tokenizers::normalizers::{Lowercase, Sequence as Normalizers};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{NormalizerWrapper, SplitDelimiterBehavior, Tokenizer};

const MERGES: &str = "tokenizer.ggml.merges";

/// Splitting of a text before the merges, by `tokenizer.ggml.pre`.
struct PreTokenizer {
    names: &'static [&'static str],
    split: SplitBy,
    nfc: bool,
    ignore_merges: bool,
    /// Default of `add_bos_token`.
    adds_bos: bool,
    /// Default of `add_eos_token`.
    adds_eos: bool,
    second: SecondText,
}

enum SplitBy {
    /// GPT-2's pattern, built into the byte-level pre-tokenizer.
    Gpt2,
    /// Single digits, then GPT-2's pattern.
    DigitsThenGpt2,
    /// Another pattern.
    Pattern(&'static str),
}

/// Pattern of Qwen2.
pub(crate) const QWEN2: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// GPT-2's own.
const GPT2: PreTokenizer = PreTokenizer {
    names: &["gpt-2"],
    split: SplitBy::Gpt2,
    nfc: false,
    ignore_merges: false,
    adds_bos: false,
    adds_eos: false,
    second: SecondText::Own,
};

const PRE_TOKENIZERS: [PreTokenizer; 6] = [
    PreTokenizer { names: &["smollm"], split: SplitBy::DigitsThenGpt2, ..GPT2 },
    PreTokenizer { names: &["qwen2", "f2llmv2"], split: SplitBy::Pattern(QWEN2), nfc: true, ..GPT2 },
    PreTokenizer {
        names: &["llama-bpe", "llama3", "llama-v3", "jina-v5-nano"],
        split: SplitBy::Pattern(LLAMA3),
        ignore_merges: true,
        adds_bos: true,
        ..GPT2
    },
    GPT2,
    PreTokenizer {
        names: &["modern-bert"],
        nfc: true,
        adds_bos: true,
        adds_eos: true,
        second: SecondText::Joined,
        ..GPT2
    },
    PreTokenizer {
        names: &["roberta-bpe", "jina-v2-code"],
        adds_bos: true,
        adds_eos: true,
        second: SecondText::Separated,
        ..GPT2
    },
];

/// Builds the tokenizer.
///
/// # Errors
/// The metadata is incomplete or malformed, or the pattern that splits texts is not known.
pub(super) fn tokenizer(file: &GgufFile, sums: &mut TokenizerSums) -> Result<Tokenizer, LoadError> {
    let pre = pre_tokenizer(file)?;
    let tokens = tokens(file)?;
    let mut tokenizer = Tokenizer::new(bpe(file, &tokens, pre.ignore_merges)?);
    let failed = failed(file);

    let lowercase = LetterCase::read(file)?.without_stripping(file)?.lowercase == Some(true);
    let steps = [pre.nfc.then(|| NFC.into()), lowercase.then(|| Lowercase.into())];
    let steps: Vec<NormalizerWrapper> = steps.into_iter().flatten().collect();
    tokenizer.with_normalizer((!steps.is_empty()).then(|| Normalizers::new(steps))).map_err(failed)?;
    tokenizer.with_pre_tokenizer(Some(pre.split.build().map_err(failed)?));
    tokenizer.with_decoder(Some(ByteLevel::default()));
    add_tokens(&mut tokenizer, added_tokens(file, &tokens)?, sums).map_err(failed)?;
    let template = Template {
        bos: first_token(file, &tokens, pre.adds_bos)?,
        eos: end_token(file, pre.adds_eos)?,
        second: pre.second,
    };
    set_template(&mut tokenizer, &template).map_err(failed)?;
    Ok(tokenizer)
}

fn pre_tokenizer(file: &GgufFile) -> Result<&'static PreTokenizer, LoadError> {
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

fn bpe(file: &GgufFile, tokens: &[Token<'_>], ignore_merges: bool) -> Result<BPE, LoadError> {
    let vocab = vocab(file, tokens.iter().map(|token| token.text.clone().into_owned()))?;
    let merges = strings(file, MERGES)?;
    check_merges(merges.len())
        .map_err(|problem| LoadError::invalid(file.name(), format!("metadata `{MERGES}` {problem}")))?;
    let merges = merges.into_iter().map(|merge| match merge.split_once(' ') {
        Some((left, right)) => Ok((left.to_owned(), right.to_owned())),
        None => {
            Err(LoadError::invalid(file.name(), format!("metadata `{MERGES}` has \"{merge}\", which is not a pair")))
        }
    });
    let builder =
        BPE::builder().vocab_and_merges(vocab, merges.collect::<Result<_, _>>()?).ignore_merges(ignore_merges);
    builder.build().map_err(|error| LoadError::invalid(file.name(), format!("tokenizer: {error}")))
}
