//! API keys and tokens.

use std::convert::Infallible;
use std::str::FromStr;

/// A value that logs and messages never show.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

impl Secret {
    /// True if a header can carry it: it has no control characters.
    pub(crate) fn is_one_line(&self) -> bool {
        !self.0.contains(char::is_control)
    }

    /// The value, for use but not for display.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl FromStr for Secret {
    /// Infallible, because clap quotes the rejected value in its message.
    type Err = Infallible;

    /// Trims white space, which files and shells add. The result may be empty.
    fn from_str(s: &str) -> Result<Self, Infallible> {
        Ok(Self(s.trim().to_owned()))
    }
}

/// Parses an API key: a [`Secret`] that is not empty, because an empty key would admit everybody.
///
/// # Errors
/// The key is empty.
pub(crate) fn api_key(s: &str) -> Result<Secret, &'static str> {
    let Ok(secret) = s.parse::<Secret>();
    if secret.0.is_empty() { Err("must not be empty") } else { Ok(secret) }
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
    }
}
