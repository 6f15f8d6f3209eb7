//! Linear layers that are too inaccurate in int8, found when a model is loaded.
//!
//! Sixteen sentences go through the model in int8. In each linear layer, the error from quantizing weights and inputs is measured on
//! samples of rows and columns. Layers with a large error stay in bfloat16. The measurement is deterministic and takes a fraction of the
//! time of loading.

use super::transformer::Transformer;
use crate::ops::Linear;
use prefold_core::{Batch, Int8Report, Outputs, RaggedBatch, TokenSlice};
use tokenizers::Tokenizer;

/// Maximum relative error of a product for a layer to stay in int8. Layers of prefold-mini have up to 0.04, of SmolLM2-135M up to 0.08,
/// of all-MiniLM-L6-v2 up to 0.12, and the cosines of their embeddings are above 0.997.
const MAX_ERROR: f64 = 0.2;

/// Maximum tokens of a sentence.
const MAX_TOKENS: usize = 32;

/// Sentences of several domains and languages.
const SENTENCES: [&str; 16] = [
    "How do I lock a file so that two processes do not write to it at once?",
    "The committee postponed its decision until the audit has been completed.",
    "def mean(values): return sum(values) / len(values)",
    "Photosynthesis converts light into chemical energy in the leaves of plants.",
    "Shares of the company fell by 4.2% on Tuesday, the largest loss since March.",
    "Where can I find a vegetarian restaurant near the main station?",
    "Die Bibliothek ist am Sonntag geschlossen.",
    "Le train de nuit pour Vienne part \u{e0} 22 heures.",
    "\u{6771}\u{4eac}\u{306e}\u{5929}\u{6c17}\u{306f}\u{3069}\u{3046}\u{3067}\u{3059}\u{304b}\u{3002}",
    "SELECT name, price FROM products WHERE stock > 0 ORDER BY price DESC LIMIT 10;",
    "She closed the door, sat down and began to read the letter again.",
    "Patients received 20 mg of the drug daily for twelve weeks.",
    "error[E0502]: cannot borrow `x` as mutable because it is also borrowed as immutable",
    "The tenant shall give written notice no later than thirty days before the end of the term.",
    "lol that was sooo funny, thx for sharing!!",
    "x^2 + y^2 = r^2 describes a circle around the origin.",
];

/// The sentences as a batch that asks for the states of all tokens, so that all layers see all rows. Sentences that the model cannot take
/// are left out.
pub(super) fn calibration_batch(tokenizer: &Tokenizer, vocab_size: usize, max_tokens: usize) -> Batch {
    let mut batch = Batch { ragged: RaggedBatch::with_capacity(0, 0), wanted: Vec::new() };
    for sentence in SENTENCES {
        let Ok(encoding) = tokenizer.encode(sentence, true) else { continue };
        let mut ids = encoding.get_ids().to_vec();
        ids.truncate(MAX_TOKENS.min(max_tokens));
        if ids.is_empty() || ids.iter().any(|&id| id as usize >= vocab_size) {
            continue;
        }
        if batch.ragged.push(TokenSlice::from(ids.as_slice())).is_ok() {
            batch.wanted.push(Outputs::TOKENS);
        }
    }
    batch
}

/// Logs the layers that stay in bfloat16; layers whose error is not finite have their own message.
pub(super) fn log(report: &Int8Report) {
    let is_not_finite = |name: &&str| report.errors.iter().any(|(other, error)| other == name && !error.is_finite());
    let kept = report.kept_in_bfloat16.iter().map(String::as_str);
    let (not_finite, others): (Vec<&str>, Vec<&str>) = kept.partition(is_not_finite);
    if !others.is_empty() {
        tracing::info!(layers = others.join(", "), "kept in bfloat16 (--int8-skip, or too inaccurate in int8)");
    }
    if !not_finite.is_empty() {
        tracing::warn!(
            layers = not_finite.join(", "),
            "kept in bfloat16: the int8 error is not finite (NaN or infinity), because weights or inputs of these layers are not"
        );
    }
}

/// The error of each measured layer, and the layers that are to stay in bfloat16.
pub(super) fn report(transformer: &Transformer) -> Int8Report {
    let mut errors: Vec<(String, f64)> = transformer
        .linears()
        .filter_map(Linear::quantization_error)
        .map(|(name, error)| (name.to_owned(), error))
        .collect();
    errors.sort_by(|a, b| b.1.total_cmp(&a.1));
    // An error that is NaN is not known to be small.
    let kept =
        errors.iter().filter(|(_, error)| *error > MAX_ERROR || error.is_nan()).map(|(name, _)| name.clone()).collect();
    Int8Report { kept_in_bfloat16: kept, max_error: MAX_ERROR, errors }
}
