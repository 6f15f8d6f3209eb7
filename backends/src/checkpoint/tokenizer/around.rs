//! Special tokens around a text, which some classes of transformers 5 choose themselves.

use super::class::Class;
use super::named_tokens::{is_null, special_token};
use super::tokenizer_json;
use crate::error::LoadError;
use crate::formats::special_tokens::{SecondText, Template, set_template};
use crate::json::Fields;
use crate::source::ModelFiles;
use tokenizers::Tokenizer;
use tokenizers::processors::roberta::RobertaProcessing;

/// Replaces the tokens around a text by the tokens of the class. Nothing changes if the tokenizer lacks one of them.
///
/// # Errors
/// A field is malformed.
pub(super) fn apply(
    tokenizer: &mut Tokenizer,
    files: &ModelFiles,
    config: &Fields<'_>,
    class: Class,
) -> Result<(), LoadError> {
    let [bos, eos, _, sep, _, cls, _] = class.special_tokens();
    let token = |field: (&str, &str)| -> Result<Option<(String, u32)>, LoadError> {
        // In BERT's classes Python's null becomes a token "None" of this id.
        let of_null = match (class, field.0) {
            (Class::Bert | Class::DistilBert, "cls_token") => Some(2),
            (Class::Bert | Class::DistilBert, "sep_token") => Some(3),
            _ => None,
        };
        if of_null.is_some() && is_null(files, config, field.0)? {
            return Ok(of_null.map(|id| ("None".to_owned(), id)));
        }
        let name = special_token(files, config, field)?;
        Ok(tokenizer.token_to_id(&name).map(|id| (name, id)))
    };
    let (first, last) = match class {
        Class::Bert | Class::DistilBert | Class::Mpnet | Class::Roberta | Class::DebertaV2 => {
            (("cls_token", cls), ("sep_token", sep))
        }
        Class::XlmRoberta | Class::Camembert => (("bos_token", bos), ("eos_token", eos)),
        Class::T5 => {
            let Some(eos) = token(("eos_token", eos))? else { return Ok(()) };
            let template = Template { bos: None, eos: Some(eos), second: SecondText::Joined };
            return set_template(tokenizer, &template).map_err(tokenizer_json::invalid);
        }
        Class::Qwen2 | Class::Qwen35 | Class::Gpt2 | Class::Gemma | Class::Llama | Class::Generic => return Ok(()),
    };
    let (Some(first), Some(last)) = (token(first)?, token(last)?) else { return Ok(()) };
    let second = match class {
        Class::Bert | Class::DistilBert | Class::DebertaV2 => SecondText::Joined,
        Class::XlmRoberta | Class::Camembert => SecondText::Separated,
        // These remove the space before a word from its offsets, too.
        _ => {
            let is_roberta = class == Class::Roberta;
            let adds_space = is_roberta && config.optional("add_prefix_space")?.unwrap_or(false);
            let trims = !is_roberta || config.or("trim_offsets", true)?;
            let processor = RobertaProcessing::new(last, first).trim_offsets(trims).add_prefix_space(adds_space);
            tokenizer.with_post_processor(Some(processor));
            return Ok(());
        }
    };
    let template = Template { bos: Some(first), eos: Some(last), second };
    set_template(tokenizer, &template).map_err(tokenizer_json::invalid)
}
