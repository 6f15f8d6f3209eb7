//! Class of a tokenizer, as AutoTokenizer of transformers 5 chooses it: some settings of `tokenizer_config.json` apply only to some classes.

use super::other_classes::is_other;
use super::tokenizer_json::{self, CONFIG, has_byte_level, mentions_byte_level};
use crate::error::LoadError;
use crate::json::Fields;
use crate::source::ModelFiles;
use prefold_core::shown;
use tokenizers::{ModelWrapper, Tokenizer};

/// Tokenizer classes. All but `Generic` build the tokenizer from the vocabulary and `tokenizer_config.json`, whatever else `tokenizer.json` has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Bert,
    /// BERT's without token types.
    DistilBert,
    Mpnet,
    Roberta,
    XlmRoberta,
    Camembert,
    DebertaV2,
    Qwen2,
    /// Qwen2's with marks in words.
    Qwen35,
    Gpt2,
    Gemma,
    Llama,
    T5,
    /// The tokenizer is `tokenizer.json`.
    Generic,
}

/// Class names in files, without the suffix `Fast`.
const NAMES: [(&str, Class); 24] = [
    ("BertTokenizer", Class::Bert),
    ("DistilBertTokenizer", Class::DistilBert),
    ("ElectraTokenizer", Class::Bert),
    ("MobileBertTokenizer", Class::Bert),
    ("LxmertTokenizer", Class::Bert),
    ("SqueezeBertTokenizer", Class::Bert),
    ("LayoutLMTokenizer", Class::Bert),
    ("MPNetTokenizer", Class::Mpnet),
    ("RobertaTokenizer", Class::Roberta),
    ("BartTokenizer", Class::Roberta),
    ("LEDTokenizer", Class::Roberta),
    ("MvpTokenizer", Class::Roberta),
    ("XLMRobertaTokenizer", Class::XlmRoberta),
    ("CamembertTokenizer", Class::Camembert),
    ("DebertaV2Tokenizer", Class::DebertaV2),
    ("Qwen2Tokenizer", Class::Qwen2),
    ("Qwen3_5Tokenizer", Class::Qwen35),
    ("GPT2Tokenizer", Class::Gpt2),
    ("GemmaTokenizer", Class::Gemma),
    ("LlamaTokenizer", Class::Llama),
    ("T5Tokenizer", Class::T5),
    ("DPRContextEncoderTokenizer", Class::Bert),
    ("DPRQuestionEncoderTokenizer", Class::Bert),
    ("DPRReaderTokenizer", Class::Bert),
];

/// Class of a model type if no file names one (`TOKENIZER_MAPPING_NAMES`).
const OF_MODEL_TYPES: [(&str, Class); 16] = [
    ("bert", Class::Bert),
    ("distilbert", Class::DistilBert),
    ("electra", Class::Bert),
    ("nomic_bert", Class::Bert),
    ("mpnet", Class::Mpnet),
    ("roberta", Class::Roberta),
    ("xlm-roberta", Class::XlmRoberta),
    ("gte", Class::XlmRoberta),
    ("camembert", Class::Camembert),
    ("deberta-v2", Class::DebertaV2),
    ("qwen2", Class::Qwen2),
    ("qwen3", Class::Qwen2),
    ("gemma2", Class::Gemma),
    ("gemma3_text", Class::Gemma),
    ("t5", Class::T5),
    ("mt5", Class::T5),
];

/// Model types whose class is fixed, regardless of the class in a file.
const FIXED: [(&str, Class); 6] = [
    ("qwen2", Class::Qwen2),
    ("modernbert", Class::Generic),
    ("mistral", Class::Generic),
    ("ministral3", Class::Generic),
    ("umt5", Class::Generic),
    ("xlm-roberta-xl", Class::Generic),
];

/// Name of a class.
const FIELD: &str = "tokenizer_class";

impl Class {
    /// The class named in `tokenizer_config.json`, otherwise in `config.json`, otherwise the class of the model type, which is `default` if
    /// `config.json` has none.
    ///
    /// # Errors
    /// A field is malformed, or a file cannot be read.
    pub(super) fn read(
        config: &Fields<'_>,
        model: &Fields<'_>,
        default: &str,
        (files, tokenizer): (&ModelFiles, &Tokenizer),
    ) -> Result<Self, LoadError> {
        let model_type: String = model.or("model_type", default.to_owned())?;
        let named = config.optional::<String>(FIELD)?;
        let named = if named.is_none() { model.optional(FIELD)? } else { named };
        let find = |list: &[(&str, Self)], name: &str| list.iter().find(|(it, _)| *it == name).map(|(_, class)| *class);
        let class = match (find(&FIXED, &model_type), named) {
            (Some(fixed), Some(_)) => Some(fixed),
            (_, Some(name)) if is_other(&name) => None,
            (_, Some(name)) => find(&NAMES, name.trim_end_matches("Fast")),
            (_, None) => find(&OF_MODEL_TYPES, &model_type),
        };
        Ok(match class {
            // Files of Llama 3 name the class of Llama 2.
            Some(Self::Llama) if has_byte_level(tokenizer) || mentions_byte_level(files)? => Self::Generic,
            class => class.unwrap_or(Self::Generic),
        })
    }

    /// `true` for a class that builds the tokenizer from a vocabulary of this kind.
    pub(super) fn fits(self, model: &ModelWrapper) -> bool {
        match model {
            ModelWrapper::WordPiece(_) => matches!(self, Self::Bert | Self::DistilBert | Self::Mpnet),
            ModelWrapper::BPE(_) => {
                matches!(self, Self::Roberta | Self::Qwen2 | Self::Qwen35 | Self::Gpt2 | Self::Gemma | Self::Llama)
            }
            ModelWrapper::Unigram(_) => matches!(self, Self::XlmRoberta | Self::Camembert | Self::DebertaV2 | Self::T5),
            ModelWrapper::WordLevel(_) => false,
        }
    }

    /// A warning about a class that is not followed, or is for another kind of vocabulary: transformers would misread
    /// this one.
    ///
    /// # Errors
    /// A field is malformed.
    pub(super) fn ignored(self, config: &Fields<'_>, model: &Fields<'_>) -> Result<Option<String>, LoadError> {
        let named = config.optional::<String>(FIELD)?;
        let named = if named.is_none() { model.optional(FIELD)? } else { named };
        if self == Self::Generic {
            let other = named.filter(|name| is_other(name));
            return Ok(other.map(|name| {
                let file = tokenizer_json::FILE;
                format!(
                    "{CONFIG}: `{FIELD}` {} is not followed: tokens are those of {file}, which the class may change",
                    shown(&name)
                )
            }));
        }
        let name = named.map_or_else(|| "of the model type".to_owned(), |name| shown(&name));
        let problem = format!("is ignored: the vocabulary of {} is of another kind", tokenizer_json::FILE);
        Ok(Some(format!("{CONFIG}: `{FIELD}` {name} {problem}")))
    }

    /// `true` if a model is given token types where `model_input_names` does not say so. In transformers 4 generic classes gave them too.
    pub(super) fn gives_token_types(self) -> bool {
        matches!(self, Self::Bert | Self::DebertaV2)
    }

    /// Default names of the special tokens: `bos`, `eos`, `unk`, `sep`, `pad`, `cls` and `mask`; empty for none.
    pub(super) fn special_tokens(self) -> [&'static str; 7] {
        match self {
            Self::Bert | Self::DistilBert => ["", "", "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"],
            Self::Mpnet => ["<s>", "</s>", "[UNK]", "</s>", "<pad>", "<s>", "<mask>"],
            Self::Roberta | Self::XlmRoberta | Self::Camembert => {
                ["<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"]
            }
            Self::DebertaV2 => ["[CLS]", "[SEP]", "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"],
            Self::Qwen2 | Self::Qwen35 => ["", "<|endoftext|>", "<|endoftext|>", "", "<|endoftext|>", "", ""],
            Self::Gpt2 => ["<|endoftext|>", "<|endoftext|>", "<|endoftext|>", "", "", "", ""],
            Self::Gemma => ["<bos>", "<eos>", "<unk>", "", "<pad>", "", "<mask>"],
            Self::Llama => ["<s>", "</s>", "<unk>", "", "", "", ""],
            Self::T5 => ["", "</s>", "<unk>", "", "<pad>", "", ""],
            Self::Generic => [""; 7],
        }
    }
}
