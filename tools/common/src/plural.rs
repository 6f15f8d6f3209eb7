//! Plural forms.

use std::fmt::Display;

/// `1 text`, `2 texts`: the number with a noun whose plural ends in `s`, or in `es` after `ch`.
pub fn count<N: Display + PartialEq + From<u8>>(number: N, noun: &str) -> String {
    let end = match noun {
        _ if number == 1.into() => "",
        noun if noun.ends_with("ch") => "es",
        _ => "s",
    };
    format!("{number} {noun}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular() {
        assert_eq!([0, 1, 2].map(|number: u64| count(number, "client")), ["0 clients", "1 client", "2 clients"]);
        assert_eq!([1, 2].map(|number: usize| count(number, "batch")), ["1 batch", "2 batches"]);
    }
}
