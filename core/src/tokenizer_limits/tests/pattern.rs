use super::*;

const LETTERS: &str = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]";
const SMALL: &str = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]";

#[test]
fn patterns_of_known_models_are_accepted() {
    let tail = r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
    let begin = r"[^\r\n\p{L}\p{N}]?";
    let contraction = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?";
    let tekken = format!("{begin}{LETTERS}*{SMALL}+|{begin}{LETTERS}+{SMALL}*{tail}");
    let gpt4o = format!("{begin}{LETTERS}*{SMALL}+{contraction}|{begin}{LETTERS}+{SMALL}*{contraction}{tail}");
    for pattern in [
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
        r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##,
        r" ?[^(\s|[.,!?…。，、।۔،])]+",
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+",
        r"[一-龥぀-ゟ゠-ヿ]+",
        "[0-9][0-9][0-9]",
        " {2,}",
        r"\s+",
        r"(?<!\n)^ ",
        r"\x{200b}|\u200c",
        tekken.as_str(),
        gpt4o.as_str(),
    ] {
        let verdict = check(pattern);
        // The one with a possessive limit is a nested repetition to this engine.
        assert_eq!(verdict.is_ok(), !pattern.ends_with("{1,3}+"), "{pattern}: {verdict:?}");
    }
}

#[test]
fn patterns_whose_time_may_grow_faster_than_the_text_are_refused() {
    for pattern in [
        "a*b",
        "a+b|a",
        "a*b|a|a+",
        "a*?b",
        "(a+)+b",
        "(?:a|aa)+",
        "(?:a|b*)c",
        r"\w+(?!\w|x)",
        r"\d{1,3}(?=(?:\d{3})*\b)",
        r"\s*[\r\n]+",
        r"\s*[\r\n]+|x|\s+",
        r"x?\s*[\r\n]+|\s+",
        r"\s+$",
        // The next alternative does not take the same run.
        "a*b|c+",
        "a*b|a*",
        "a*b|a+?",
        r"x\s*\n|y\s+",
        // More than one character must follow, or the run is lazy.
        "a*bc|a+",
        "a*(?:b|c)|a+",
        "a*?b|a+",
        r"a+(?!\S)",
        r"\s+?(?!\S)",
        r"(a)\1",
        r"(?<n>a)\k<n>",
        r"a\g<0>?",
        "(?i)a",
        "(?~ab)",
        "(?>a*)b",
        "a{1000}",
        "a{65,}",
        "a{1,65}",
        "a{60,70}",
        "(?=a){3}",
        "(?:(?:a{60}){60}){60}",
        "a?a?a?a?a?a?a?a?a?a?a?a?b",
        "(?:a|b){12}",
        "a**",
        "a{2}{3}",
        "a{3,1}",
        "[a",
        "(a",
        "a)",
        "+a",
        r"\X",
        "((((((((((a))))))))))",
    ] {
        assert!(check(pattern).is_err(), "{pattern}");
    }
}

#[test]
fn accepted_patterns_take_a_few_steps_for_each_character() {
    use tokenizers::tokenizer::pattern::Pattern;
    use tokenizers::utils::SysRegex;
    // The number of matches in a long run, by each kind of scan that is accepted. A quadratic one would take hours.
    for (pattern, run) in
        [(r"\s*[\r\n]+|\s+(?!\S)|\s+", " "), ("a*b|a+", "a"), ("a*b|a+c|a+", "a"), ("x?a+(?:b|c)?d*", "a")]
    {
        check(pattern).unwrap();
        let text = [&run.repeat(2_000_000), "z"].concat();
        let matches = (&SysRegex::new(pattern).unwrap()).find_matches(&text).unwrap();
        assert!(matches.len() <= 4, "{pattern}: {}", matches.len());
    }
}
