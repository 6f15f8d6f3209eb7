//! Special tokens around a text.

use tokenizers::Tokenizer;
use tokenizers::processors::PostProcessorWrapper;
use tokenizers::processors::template::TemplateProcessing;

/// Special tokens that a tokenizer adds to every text, by name and id.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Template {
    /// First token.
    pub(crate) bos: Option<(String, u32)>,
    /// Last token.
    pub(crate) eos: Option<(String, u32)>,
}

/// Replaces the tokenizer's post-processor by one that adds a template's tokens to every text and pair.
///
/// # Errors
/// The tokenizer rejects them.
pub(crate) fn set_template(tokenizer: &mut Tokenizer, template: &Template) -> Result<(), tokenizers::Error> {
    let around = |text: &str, segment: usize| -> Vec<String> {
        let token = |token: &Option<(String, u32)>| token.as_ref().map(|(name, _)| format!("{name}:{segment}"));
        [token(&template.bos), Some(format!("{text}:{segment}")), token(&template.eos)].into_iter().flatten().collect()
    };
    let mut tokens: Vec<(String, u32)> = template.bos.iter().chain(&template.eos).cloned().collect();
    tokens.dedup();
    if tokens.is_empty() {
        tokenizer.with_post_processor(None::<PostProcessorWrapper>);
        return Ok(());
    }
    let template = TemplateProcessing::builder()
        .try_single(around("$A", 0))?
        .try_pair([around("$A", 0), around("$B", 1)].concat())?
        .special_tokens(tokens)
        .build()?;
    tokenizer.with_post_processor(Some(template));
    Ok(())
}
