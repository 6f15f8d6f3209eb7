//! Speed-ups as the report writes them, and quoting for a shell.

use std::fmt::Display;

/// Speed-up as the report writes it everywhere.
pub(crate) fn factor(speed_up: f64) -> impl Display {
    format!("{speed_up:.2}")
}

/// The words as a command line for a POSIX shell.
pub(crate) fn shell(words: &[String]) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    let quoted = words.iter().map(|word| {
        if !word.is_empty() && word.chars().all(is_plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_the_words_back() {
        let words = ["prefold", "--model-id", "a b's", "", "./m.gguf", "org/m:1", "$x"].map(str::to_owned);
        assert_eq!(shell(&words), r"prefold --model-id 'a b'\''s' '' ./m.gguf org/m:1 '$x'");
    }
}
