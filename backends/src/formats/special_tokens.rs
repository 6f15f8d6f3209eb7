//! Special tokens around a text.

use tokenizers::processors::PostProcessorWrapper;
use tokenizers::processors::template::TemplateProcessing;
use tokenizers::{Encoding, Error, Token, Tokenizer};

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
pub(crate) fn set_template(tokenizer: &mut Tokenizer, template: &Template) -> Result<(), Error> {
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

/// Removes the special tokens around texts. The texts of a pair keep their order and token types, as they do in the library for a call
/// without special tokens.
///
/// # Errors
/// The tokenizer rejects texts.
pub(crate) fn remove_special_tokens(tokenizer: &mut Tokenizer) -> Result<(), Error> {
    // One token each, whose id is the number of the text.
    let text = |number: u32| Encoding::from_tokens(vec![Token::new(number, String::new(), (0, 0))], number);
    let pieces = |encoding: &Encoding| -> Vec<String> {
        let tokens = encoding.get_ids().iter().zip(encoding.get_type_ids());
        tokens.map(|(number, kind)| format!("{}:{kind}", if *number == 0 { "$A" } else { "$B" })).collect()
    };
    let single = pieces(&tokenizer.post_process(text(0), None, false)?);
    let pair = pieces(&tokenizer.post_process(text(0), Some(text(1)), false)?);
    let mut template = TemplateProcessing::builder();
    template.try_single(single)?;
    // Some tokenizers have no template for pairs.
    if pair.len() == 2 {
        template.try_pair(pair)?;
    }
    tokenizer.with_post_processor(Some(template.build()?));
    Ok(())
}
