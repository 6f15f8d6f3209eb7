//! Added tokens that files store as objects.

use crate::error::LoadError;
use crate::json::Fields;
use tokenizers::AddedToken;

/// Reads a token that is stored as an object.
pub(super) fn described_token(token: &Fields<'_>, is_special: bool) -> Result<AddedToken, LoadError> {
    let is_special = token.or("special", is_special)?;
    let content: String = token.required("content")?;
    Ok(AddedToken::from(content, is_special)
        .normalized(token.or("normalized", !is_special)?)
        .lstrip(token.or("lstrip", false)?)
        .rstrip(token.or("rstrip", false)?)
        .single_word(token.or("single_word", false)?))
}
