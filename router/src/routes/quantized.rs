//! Quantizers of a request's vectors.

use crate::state::call::Call;
use crate::wire::element::Element;
use crate::wire::quantize::{QuantizedType, Quantizer};
use prefold_core::{Embed, Error};

/// Integers of the type that `field` asks for, for vectors of `dimensions` values. The first request for eight bits measures the
/// ranges of the model's vectors.
///
/// # Errors
/// [`Error::Validation`] if bits of the vectors do not fill whole bytes; the errors of measuring.
pub(super) async fn quantized(
    kind: QuantizedType,
    dimensions: Option<usize>,
    field: &'static str,
    call: &Call,
) -> Result<Element, Error> {
    let embed = call.engine.info().capabilities.embed.as_ref();
    let values = dimensions.or(embed.map(Embed::default_dim));
    // The engine refuses other numbers.
    let values = values.filter(|&values| embed.is_some_and(|embed| (1..=embed.dim).contains(&values)));
    let whole = kind.values_of_integer();
    if let Some(values) = values.filter(|values| !values.is_multiple_of(whole)) {
        let problem = format!(
            "asks for {}, which packs {whole} values into an integer: the number of dimensions must be a multiple of {whole}, not {values}",
            kind.as_str()
        );
        return Err(Error::invalid(field, problem));
    }
    let range = match values {
        Some(values) if !kind.is_packed() => call.model.ranges.of(values, &call.engine).await?,
        Some(_) | None => 1.0,
    };
    Ok(Element::Quantized(Quantizer { kind, range }))
}
