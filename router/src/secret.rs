//! Keys and tokens.

use std::str::FromStr;

/// A value that must not be shown.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

impl Secret {
    /// The value, to be used and not to be shown.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl FromStr for Secret {
    type Err = String;

    /// White space around it comes from files and shells and is no part of it. It may be empty.
    fn from_str(s: &str) -> Result<Self, String> {
        let value = s.trim();
        if value.contains(char::is_control) { Err("must be one line".to_owned()) } else { Ok(Self(value.to_owned())) }
    }
}

/// An API key: a [`Secret`] that is not empty, because an empty one would let everybody in.
///
/// # Errors
/// It is empty, or has several lines.
pub(crate) fn api_key(s: &str) -> Result<Secret, String> {
    let secret: Secret = s.parse()?;
    if secret.0.is_empty() { Err("must not be empty".to_owned()) } else { Ok(secret) }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[redacted]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_around_a_key_is_no_part_of_it() {
        for given in ["k1", " k1", "k1\n", "\tk1\r\n"] {
            assert_eq!(api_key(given).unwrap().expose(), "k1", "{given:?}");
        }
        for given in ["", " ", "\n"] {
            assert!(api_key(given).is_err(), "{given:?}");
            assert_eq!(given.parse::<Secret>().unwrap().expose(), "");
        }
        assert!(api_key("k1\nk2").unwrap_err().contains("one line"));
    }
}
