//! A request's way through the model: encoding, queue, forward pass, chunk by chunk.

use super::validate::check_not_empty;
use super::{Engine, Inner};
use crate::admission::ahead::Ahead;
use crate::admission::chunk::chunks;
use crate::encode::encoder::Encoded;
use crate::encode::encoders::Encoders;
use crate::encode::options::{Choices, ResolvedOptions};
use crate::encode::pool::Turns;
use crate::error::Error;
use crate::execute::submit::Pending;
use crate::flow::Flow;
use crate::metrics;
use crate::outputs::{Output, Outputs, Rows};
use crate::plan::tokens::Tokens;
use crate::request::{EncodeOptions, Input, Place};
use crate::response::{Response, Timings, Usage};
use crate::schedule::entry::Answer;
use crate::trace;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracing::Instrument;

/// Maximum bytes of a query, with its prompt.
const QUERY_BYTES: usize = 512;

impl Engine {
    /// Runs inputs, whose number the caller has checked, through the model. A large request is processed in chunks: each is
    /// encoded while the previous one is computed, and together they never fill the queue. If the future is dropped, its
    /// entries leave the queue.
    pub(super) async fn run(
        &self,
        inputs: Vec<(Place, Input)>,
        options: &EncodeOptions,
        wanted: Outputs,
    ) -> Result<Response<Output>, Error> {
        let Inner { tokenizers, pipeline, config, response_limits, .. } = &*self.inner;
        let arrival = Instant::now();
        let can = &self.info().capabilities;
        let choices = if wanted.embed() {
            Choices::of_embedder(can.embed.as_ref())
        } else {
            Choices::from(can.classify.as_ref().map(|classify| &classify.prompts))
        };
        let resolved = Arc::new(tokenizers.encoders().resolve(options, choices)?);
        if !config.allow_empty_inputs {
            check_not_empty(&inputs)?;
        }
        let wanted = resolved.pooled(wanted, inputs.iter().map(|(_, input)| input), options.field)?;
        let _request = self.admit()?;
        let share = self.share();
        let mut cost = response_limits.cost(wanted, Arc::clone(&share));
        cost.grow(Rows::Sequence, inputs.len(), options.field)?;
        let flow = Flow { account: self.account, priority: self.priority.or(options.priority).unwrap_or_default() };
        let mut usage = Usage::default();
        let mut tokenization = Duration::ZERO;
        let mut answers = Vec::with_capacity(inputs.len());
        let mut before: Option<Pending> = None;
        let encoder = tokenizers.encoders().of(&resolved);
        let most = |(_, input): &(Place, Input)| encoder.most_tokens_of(input, &resolved);
        let mut ahead = Ahead::admit(share, pipeline.limits(), inputs.iter().map(most).sum())?;
        let mut inputs = inputs.into_iter();
        while inputs.len() > 0 {
            let begun = Instant::now();
            let (mut sequences, mut tokens) = (Vec::new(), 0);
            loop {
                let next = inputs.as_slice().iter().take(config.max_client_batch_size - sequences.len());
                let count = ahead.next_inputs(tokens, next.map(most)).min(inputs.len());
                if count == 0 {
                    break;
                }
                let encoded = self.encode(inputs.by_ref().take(count).collect(), &resolved, &mut usage).await?;
                let new = encoded.iter().map(Tokens::len).sum();
                cost.grow(Rows::Token, new, options.field)?;
                tokens += new;
                ahead.count(tokens);
                sequences.extend(encoded);
            }
            tokenization += begun.elapsed();
            for chunk in chunks(sequences, pipeline.limits()) {
                usage.computed_tokens += self.inner.compaction.computed_alone(&chunk);
                let pending = match &before {
                    None => pipeline.submit(chunk, wanted, flow)?,
                    Some(before) => pipeline.submit_in_turn(chunk, wanted, flow, before.tickets.start).await?,
                };
                if let Some(before) = before.replace(pending) {
                    answers.extend(before.collect().await?);
                }
            }
        }
        drop(ahead);
        if let Some(last) = before {
            answers.extend(last.collect().await?);
        }
        let timings = mean_timings(&answers);
        let first = answers.iter().map(|answer| answer.taken).min();
        let delay = first.map_or(Duration::ZERO, |first| first.saturating_duration_since(arrival));
        metrics::queue_time(usage.tokens, timings.queue, delay);
        metrics::truncated_inputs(usage.truncated_inputs);
        Ok(Response {
            results: answers.into_iter().map(|answer| answer.output).collect(),
            usage,
            timings: Timings { total: arrival.elapsed(), tokenization, ..timings },
            share: Some(cost.into_share()),
        })
    }

    /// Encodes some inputs of a request and counts them in its usage.
    async fn encode(
        &self,
        inputs: Vec<(Place, Input)>,
        options: &Arc<ResolvedOptions>,
        usage: &mut Usage,
    ) -> Result<Vec<Tokens>, Error> {
        let span = tracing::debug_span!(target: trace::TARGET, "tokenize", inputs = inputs.len() as i64);
        let tokenizers = &self.inner.tokenizers;
        let is_query = matches!(&inputs[..], [(_, input)] if is_query(input, options));
        let first_alone = matches!(&inputs[..], [(_, input), _, ..] if input.is_shared() && !options.has_shared());
        let [options, of_cost] = [options; 2].map(Arc::clone);
        let cost = move |encoders: &Encoders, input: &Input| encoders.of(&of_cost).cost(input, &of_cost);
        let encode = move |encoders: &Encoders, place, input| encoders.of(&options).encode(input, place, &options);
        let encoded = if is_query {
            let _entered = span.entered();
            inputs.into_iter().map(|input| tokenizers.at_once(input, &encode)).collect::<Result<_, _>>()?
        } else {
            let turns = Turns { first_alone, ..self.turns(cost) };
            tokenizers.map(inputs, turns, encode).instrument(span).await?
        };
        let scope = self.scope;
        let sequences = encoded.into_iter().map(|Encoded { tokens, characters, is_truncated, is_foreign }| {
            usage.characters += characters;
            usage.truncated_inputs += usize::from(is_truncated);
            usage.foreign_inputs += usize::from(is_foreign);
            usage.tokens += tokens.len();
            metrics::input_length(tokens.len());
            tokens.in_scope(scope)
        });
        Ok(sequences.collect())
    }
}

/// True if an input is so short that tokenizing it takes less time than waking up a worker and then this thread.
fn is_query(input: &Input, options: &ResolvedOptions) -> bool {
    // A rerank prompt has a query of any length.
    !matches!(input, Input::Rerank { .. }) && options.prompt_len() + input.bytes() <= QUERY_BYTES
}

fn mean_timings(answers: &[Answer]) -> Timings {
    let count = u32::try_from(answers.len()).unwrap_or(u32::MAX).max(1);
    let mean = |part: fn(&Answer) -> Duration| answers.iter().map(part).sum::<Duration>() / count;
    Timings {
        queue: mean(|answer| answer.queue),
        planning: mean(|answer| answer.batch.planning),
        inference: mean(|answer| answer.batch.inference),
        ..Timings::default()
    }
}
