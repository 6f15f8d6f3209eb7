//! Plural forms, and quoting for a shell.

use std::fmt::Display;

/// `1 text`, `2 texts`: the number with a noun whose plural ends in `s`, or in `es` after `ch`.
pub fn count(number: usize, noun: &str) -> String {
    let end = match noun {
        _ if number == 1 => "",
        noun if noun.ends_with("ch") => "es",
        _ => "s",
    };
    format!("{number} {noun}{end}")
}

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
    fn one_is_singular() {
        let texts = [0, 1, 2].map(|number| count(number, "text"));
        assert_eq!(texts, ["0 texts", "1 text", "2 texts"]);
        assert_eq!((count(1, "batch"), count(3, "batch")), ("1 batch".to_owned(), "3 batches".to_owned()));
    }

    #[test]
    fn a_shell_reads_the_words_back() {
        let words = ["prefold", "--model-id", "a b's", "", "./m.gguf", "org/m:1", "$x"].map(str::to_owned);
        assert_eq!(shell(&words), r"prefold --model-id 'a b'\''s' '' ./m.gguf org/m:1 '$x'");
    }
}
