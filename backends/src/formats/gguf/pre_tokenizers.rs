//! Splitting of texts before the merges of byte-level BPE, by its name in the metadata, as in llama.cpp (`llama-vocab.cpp`).

use super::file::GgufFile;
use super::tokens::BESIDE;
use crate::error::LoadError;
use crate::formats::special_tokens::SecondText;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{Error, SplitDelimiterBehavior};

const KEY: &str = "tokenizer.ggml.pre";

/// Splitting of a text before the merges, and what goes with it.
pub(super) struct PreTokenizer {
    names: &'static [&'static str],
    pub(super) split: SplitBy,
    /// The original tokenizers normalize to NFC, which llama.cpp leaves out.
    pub(super) nfc: bool,
    pub(super) ignore_merges: bool,
    /// Default of `add_bos_token`.
    pub(super) adds_bos: bool,
    /// Default of `add_eos_token`.
    pub(super) adds_eos: bool,
    pub(super) second: SecondText,
}

pub(super) enum SplitBy {
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

/// GPT-2's own, and others without any difference.
const GPT2: PreTokenizer = PreTokenizer {
    names: &[
        "gpt-2",
        "phi-2",
        "gigachat",
        "a.x-4.0",
        "mellum",
        "exaone4",
        "mpt",
        "olmo",
        "jais",
        "trillion",
        "granite-docling",
    ],
    split: SplitBy::Gpt2,
    nfc: false,
    ignore_merges: false,
    adds_bos: false,
    adds_eos: false,
    second: SecondText::Own,
};

const PRE_TOKENIZERS: [PreTokenizer; 9] = [
    PreTokenizer {
        names: &["smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"],
        split: SplitBy::DigitsThenGpt2,
        ..GPT2
    },
    PreTokenizer {
        names: &["qwen2", "deepseek-r1-qwen", "f2llmv2"],
        split: SplitBy::Pattern(QWEN2),
        nfc: true,
        ..GPT2
    },
    PreTokenizer {
        names: &["kormo", "megrez", "stablelm2", "hunyuan", "solar-open", "grok-2"],
        split: SplitBy::Pattern(QWEN2),
        ..GPT2
    },
    PreTokenizer {
        names: &[
            "llama-bpe",
            "llama3",
            "llama-v3",
            "falcon3",
            "falcon-h1",
            "pixtral",
            "midm-2.0",
            "lfm2",
            "jina-v5-nano",
        ],
        split: SplitBy::Pattern(LLAMA3),
        ignore_merges: true,
        adds_bos: true,
        ..GPT2
    },
    PreTokenizer { names: &["glm4", "glm5"], split: SplitBy::Pattern(LLAMA3), ignore_merges: true, ..GPT2 },
    PreTokenizer { names: &["dbrx", "smaug-bpe", "chatglm-bpe"], split: SplitBy::Pattern(LLAMA3), ..GPT2 },
    GPT2,
    PreTokenizer {
        names: &["modern-bert"],
        nfc: true,
        adds_bos: true,
        adds_eos: true,
        second: SecondText::Joined,
        ..GPT2
    },
    // Classes of RoBERTa.
    PreTokenizer {
        names: &["roberta-bpe", "jina-v1-en", "jina-v2-code", "jina-v2-de", "jina-v2-es", "jina-de", "jina-es"],
        adds_bos: true,
        adds_eos: true,
        second: SecondText::Separated,
        ..GPT2
    },
];

/// The splitting that a file names.
///
/// # Errors
/// The name is not known.
pub(super) fn pre_tokenizer(file: &GgufFile) -> Result<&'static PreTokenizer, LoadError> {
    // The name "default", or none, means that the converter did not know the pattern.
    let name = file.str(KEY)?.unwrap_or("default");
    PRE_TOKENIZERS.iter().find(|pre| pre.names.contains(&name)).ok_or_else(|| {
        let known: Vec<_> = PRE_TOKENIZERS.iter().flat_map(|pre| pre.names).copied().collect();
        LoadError::unsupported(file.name(), format!("`{KEY}` \"{name}\""), format!("{}; {BESIDE}", known.join(", ")))
    })
}

impl SplitBy {
    /// # Errors
    /// The library refuses the pattern.
    pub(super) fn build(&self) -> Result<PreTokenizerWrapper, Error> {
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
