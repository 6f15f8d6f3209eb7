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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_flag_is_the_objects_or_its_default() {
        let flags = ["lstrip", "rstrip", "single_word", "normalized", "special"];
        let read = |json: &serde_json::Value| {
            let token = described_token(&Fields::new("x.json", json).unwrap(), true).unwrap();
            assert_eq!(token.content, "tide");
            [token.lstrip, token.rstrip, token.single_word, token.normalized, token.special]
        };
        for (index, flag) in flags.into_iter().enumerate() {
            for value in [Some(true), Some(false), None] {
                let mut json = json!({"content": "tide"});
                let mut expected = [false, false, false, false, true];
                if let Some(value) = value {
                    json[flag] = value.into();
                    expected[index] = value;
                }
                if value == Some(false) && flag == "special" {
                    // Tokens that are not special are normalized by default.
                    expected[3] = true;
                }
                assert_eq!(read(&json), expected, "{flag} {value:?}");
            }
        }
    }
}
