//! Encoding of rerank prompts: the request's common head once, and each document behind it.

use super::encoder::{Encoder, Fitted};
use super::options::ResolvedOptions;
use super::rerank_prompt::EncodedTemplate;
use super::truncation_bound::TruncationBound;
use crate::capabilities::RerankTemplate;
use crate::error::Error;
use crate::request::{Place, SharedText, TruncationDirection};
use std::sync::Arc;

impl Encoder {
    /// The template with the token ids of its fixed parts.
    ///
    /// # Errors
    /// The template is malformed, or the tokenizer or the vocabulary does not fit it.
    pub(super) fn encode_template(&self, template: RerankTemplate) -> Result<EncodedTemplate, Error> {
        let place = Place { field: "template", index: None };
        template.check().map_err(|problem| place.invalid(problem))?;
        let template = EncodedTemplate::new(&self.tokenizer, template).map_err(|error| place.untokenizable(error))?;
        let head = template.head(&self.tokenizer, None, "".into()).map_err(|error| place.untokenizable(error))?;
        self.check_ids(&head.input_ids, place)?;
        self.check_ids(&template.after, place)?;
        let fixed = head.input_ids.len() + template.after.len();
        if fixed >= self.limits.max_input_length {
            let limit = self.limits.max_input_length;
            let problem = format!("leaves no room for a document: it takes {fixed} tokens, the limit is {limit}");
            return Err(place.invalid(problem));
        }
        Ok(template)
    }

    /// Ids of a rerank prompt. The document's first word is encoded together with what is before it, with which it may
    /// share a token.
    pub(super) fn encode_rerank(
        &self,
        instruction: Option<Arc<str>>,
        query: SharedText,
        document: &str,
        place: Place,
        options: &ResolvedOptions,
    ) -> Result<Fitted, Error> {
        let Some(template) = &self.template else {
            return Err(place.invalid("needs a rerank prompt, and the served model has none"));
        };
        let query_place = query.place().unwrap_or(place);
        let instruction_place = Place { field: "instruction", index: None };
        // The limit itself is at fault if it leaves no room for the shortest query.
        let or_limit = |error| {
            let shortest = template.head(&self.tokenizer, instruction.clone(), "".into());
            let fixed = shortest.map_or(0, |head| head.input_ids.len() + template.after.len());
            options.check_fixed(fixed).err().unwrap_or(error)
        };
        for (place, text) in [(query_place, Some(&*query)), (instruction_place, instruction.as_deref())] {
            if text.is_some_and(|text| self.bound.exceeds(text, options.max_tokens)) {
                return Err(or_limit(options.too_long(place, "has more tokens than fit")));
            }
        }
        let limit = options.document_limit(place);
        let least = self.bound.least_tokens(document).min(limit.unwrap_or(usize::MAX));
        if least > options.max_tokens {
            options.check_truncation(least, true, place)?;
        }
        let encode = || {
            for (place, text) in [(query_place, Some(&*query)), (instruction_place, instruction.as_deref())] {
                let grows = text.map_or(Ok(()), |text| self.growth.check_text(&self.tokenizer, text));
                grows.map_err(|problem| place.invalid(problem))?;
            }
            let head = template.head(&self.tokenizer, instruction.clone(), query.clone());
            head.map_err(|error| query_place.untokenizable(error))
        };
        let own;
        let head = match options.head.get_or_init(|| encode().ok()) {
            Some(head) if head.is_for(instruction.as_ref(), &query) => head,
            _ => {
                own = encode()?;
                &own
            }
        };
        let part = self.bound.part(document, options.max_tokens, options.direction);
        let part = part.map_err(|problem| place.invalid(problem))?;
        let rest = match options.direction {
            TruncationDirection::Left if part.len() < document.len() => {
                [&head.rest, TruncationBound::beginning(document, part), part].concat()
            }
            TruncationDirection::Left | TruncationDirection::Right => [&head.rest, part].concat(),
        };
        self.growth.check_text(&self.tokenizer, &rest).map_err(|problem| place.invalid(problem))?;
        let rest = self.tokenizer.encode(rest, false).map_err(|error| place.untokenizable(error))?;
        let mut ids = [&head.input_ids, rest.get_ids()].concat();
        let (is_part, after) = (part.len() < document.len(), template.after.len());
        let mut is_truncated = is_part;
        if limit.is_some() || ids.len() + after > options.max_tokens {
            let is_document = |&(_, end): &(usize, usize)| end > head.rest.len();
            let fixed = rest.get_offsets().iter().position(is_document).unwrap_or(rest.len());
            let kept = head.input_ids.len() + fixed;
            let room = options.room(ids.len(), kept, after, is_part, (query_place, place)).map_err(or_limit)?;
            is_truncated |= room < ids.len();
            options.cut(&mut ids, kept, room);
        }
        ids.extend_from_slice(&template.after);
        Ok(Fitted { ids, token_type_ids: Vec::new(), is_truncated, is_foreign: false })
    }
}

impl ResolvedOptions {
    /// Ids to keep of a prompt that has `len` up to the end of its document, `kept` of them before the document, and `after` more behind.
    ///
    /// # Errors
    /// [`Error::TooLong`] if there is no room for a document, or the prompt is not to be truncated.
    fn room(
        &self,
        len: usize,
        kept: usize,
        after: usize,
        is_part: bool,
        (query_place, place): (Place, Place),
    ) -> Result<usize, Error> {
        let wanted = len.min(kept.saturating_add(self.document_limit(place).unwrap_or(usize::MAX)));
        if wanted + after <= self.max_tokens {
            return Ok(wanted);
        }
        if kept + after >= self.max_tokens {
            let problem = format!(
                "and its instruction have {} tokens together with the prompt, which leaves no room for a document",
                kept + after
            );
            return Err(self.too_long(query_place, problem));
        }
        self.check_truncation(wanted + after, is_part, place)?;
        Ok(self.max_tokens - after)
    }
}
