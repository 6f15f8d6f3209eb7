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
    pub(crate) second: SecondText,
}

/// Tokens around the second text of a pair, and its token type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SecondText {
    /// First and last token of its own, all of type 1.
    Own,
    /// The last token after it, both of type 1, as BERT does.
    Joined,
    /// The last token before and after it, all of type 0, as RoBERTa does.
    Separated,
}

/// Replaces the tokenizer's post-processor by one that adds a template's tokens to every text and pair.
///
/// # Errors
/// The tokenizer rejects them.
pub(crate) fn set_template(tokenizer: &mut Tokenizer, template: &Template) -> Result<(), tokenizers::Error> {
    let token = |token: &Option<(String, u32)>, segment: usize| -> Option<String> {
        token.as_ref().map(|(name, _)| format!("{name}:{segment}"))
    };
    let (bos, eos) = (|segment| token(&template.bos, segment), |segment| token(&template.eos, segment));
    let text = |name: &str, segment: usize| Some(format!("{name}:{segment}"));
    let first = [bos(0), text("$A", 0), eos(0)];
    let second = match template.second {
        SecondText::Own => [bos(1), text("$B", 1), eos(1)],
        SecondText::Joined => [None, text("$B", 1), eos(1)],
        SecondText::Separated => [eos(0), text("$B", 0), eos(0)],
    };
    let mut tokens: Vec<(String, u32)> = template.bos.iter().chain(&template.eos).cloned().collect();
    tokens.dedup();
    if tokens.is_empty() {
        tokenizer.with_post_processor(None::<PostProcessorWrapper>);
        return Ok(());
    }
    let single: Vec<String> = first.iter().flatten().cloned().collect();
    let template = TemplateProcessing::builder()
        .try_single(single)?
        .try_pair(first.into_iter().chain(second).flatten().collect::<Vec<String>>())?
        .special_tokens(tokens)
        .build()?;
    tokenizer.with_post_processor(Some(template));
    Ok(())
}
