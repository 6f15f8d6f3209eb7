//! Keys and tokens.

use std::convert::Infallible;
use std::str::FromStr;

/// A value that must not be shown.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

impl Secret {
    /// Whether it can be sent in a header: one line.
    pub(crate) fn is_one_line(&self) -> bool {
        !self.0.contains(char::is_control)
    }

    /// The value, to be used and not to be shown.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl FromStr for Secret {
    /// Why one is refused is told with what was given, so that only an empty one can be here.
    type Err = Infallible;

    /// White space around it comes from files and shells and is no part of it. It may be empty.
    fn from_str(s: &str) -> Result<Self, Infallible> {
        Ok(Self(s.trim().to_owned()))
    }
}

/// An API key: a [`Secret`] that is not empty, because an empty one would let everybody in.
///
/// # Errors
/// It is empty.
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
