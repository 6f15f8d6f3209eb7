//! Built-in workloads, for measurements without a file.

use crate::http::api::Api;
use crate::workload::ms_marco_texts;
use crate::workload::sentences::Sentences;
use clap::ValueEnum;
use std::collections::HashSet;
use std::fmt;

/// Requests of a workload with [`TEXTS`] texts each.
const REQUESTS: usize = 2000;
/// Texts per request by default, and documents of a question.
const TEXTS: usize = 10;
/// Texts per request of [`Builtin::MsMarco`] by default.
const MS_MARCO_TEXTS: usize = 64;

/// Instructions of half the texts of [`Builtin::Mixed`].
const INSTRUCTIONS: [&str; 3] = [
    "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery: ",
    "Represent this sentence for clustering. Sentences about the same subject should lie close together: ",
    "You read reports from a small town by the sea. Summarise the report below in one vector, so that readers who ask \
     about its subject find it, whatever words they use.\n\nReport: ",
];
/// Sentences of the longest text without an instruction, and of the longest with one.
const MOST_SENTENCES: [usize; 2] = [16, 3];
/// Sentences of the longest document of a question.
const MOST_DOCUMENT_SENTENCES: usize = 6;

/// Workload made of invented sentences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Builtin {
    /// Short questions, each after the same instruction
    Instruction,
    /// Questions with 10 documents each, in a chat template; default for rankings
    Rerank,
    /// Texts of 1 to 16 sentences that share nothing, and as many shorter ones after one of three instructions
    Mixed,
    /// Passages of 1 to 6 sentences that share nothing; default for embeddings of an encoder
    Passages,
    /// Queries with 6 to 10 passages each, of MS MARCO's lengths, in the reranker's template, 64 texts per request; also
    /// for rankings
    MsMarco,
}

/// Content of a workload line: texts, for rankings with a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) query: Option<String>,
    pub(crate) texts: Vec<String>,
}

impl fmt::Display for Builtin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Instruction => "instruction",
            Self::Rerank => "rerank",
            Self::Mixed => "mixed",
            Self::Passages => "passages",
            Self::MsMarco => "ms-marco",
        })
    }
}

impl Builtin {
    /// The default workload of an API, for a model that shares prefixes or not. Without this fact it is a decoder's.
    pub(crate) fn of(api: Api, shares_prefixes: Option<bool>) -> Self {
        match shares_prefixes {
            _ if api.ranks() => Self::Rerank,
            Some(false) => Self::Passages,
            Some(true) | None => Self::Instruction,
        }
    }

    /// Preset of the template of each text.
    pub(crate) fn preset(self, api: Api) -> &'static str {
        match self {
            _ if api.ranks() => "text",
            Self::Instruction => "qwen3-embedding",
            Self::Rerank => "chat-embedding",
            Self::Mixed | Self::Passages => "text",
            Self::MsMarco => "qwen3-reranker",
        }
    }

    /// True if its texts belong to queries, so that rankings can use it.
    pub(crate) fn has_queries(self) -> bool {
        matches!(self, Self::Rerank | Self::MsMarco)
    }

    /// Default texts per request; for rankings all texts of a query.
    pub(crate) fn texts_per_request(self, api: Api) -> Option<usize> {
        match self {
            _ if api.ranks() => None,
            Self::MsMarco => Some(MS_MARCO_TEXTS),
            Self::Instruction | Self::Rerank | Self::Mixed | Self::Passages => Some(TEXTS),
        }
    }

    /// The workload's texts, all distinct, determined by `seed`.
    pub(crate) fn groups(self, seed: u64) -> Vec<Group> {
        let mut sentences = Sentences::new(seed);
        match self {
            Self::Instruction => single(distinct(REQUESTS * TEXTS, || sentences.question())),
            Self::Mixed => single(distinct(REQUESTS * TEXTS, || mixed(&mut sentences))),
            Self::Passages => single(distinct(REQUESTS * TEXTS, || document(&mut sentences))),
            Self::Rerank => {
                let queries = distinct(REQUESTS, || sentences.question());
                let documents = distinct(REQUESTS * TEXTS, || document(&mut sentences));
                let documents = documents.chunks(TEXTS).map(<[String]>::to_vec);
                with_queries(queries.into_iter().zip(documents))
            }
            Self::MsMarco => with_queries(ms_marco_texts::queries_with_passages(seed)),
        }
    }
}

fn single(texts: Vec<String>) -> Vec<Group> {
    texts.into_iter().map(|text| Group { query: None, texts: vec![text] }).collect()
}

fn with_queries(queries: impl IntoIterator<Item = (String, Vec<String>)>) -> Vec<Group> {
    queries.into_iter().map(|(query, texts)| Group { query: Some(query), texts }).collect()
}

fn distinct(count: usize, make: impl FnMut() -> String) -> Vec<String> {
    let mut seen = HashSet::new();
    std::iter::repeat_with(make).filter(|text| seen.insert(text.clone())).take(count).collect()
}

fn document(sentences: &mut Sentences) -> String {
    let length = sentences.number(MOST_DOCUMENT_SENTENCES);
    sentences.text(length)
}

fn mixed(sentences: &mut Sentences) -> String {
    let [longest, longest_instructed] = MOST_SENTENCES;
    if sentences.number(2) == 1 {
        let length = sentences.number(longest);
        return sentences.text(length);
    }
    let (instruction, length) = (sentences.pick(&INSTRUCTIONS), sentences.number(longest_instructed));
    format!("{instruction}{}", sentences.text(length))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Builtin; 5] =
        [Builtin::Instruction, Builtin::Rerank, Builtin::Mixed, Builtin::Passages, Builtin::MsMarco];

    #[test]
    fn texts_are_distinct_and_determined_by_the_seed() {
        for workload in ALL {
            let groups = workload.groups(1);
            assert_eq!(groups, workload.groups(1));
            assert_ne!(groups, workload.groups(2));
            let texts: Vec<_> = groups.iter().flat_map(|group| &group.texts).collect();
            if workload != Builtin::MsMarco {
                assert_eq!(texts.len(), REQUESTS * TEXTS, "{workload}");
            }
            assert_eq!(texts.iter().collect::<HashSet<_>>().len(), texts.len(), "{workload}");
        }
    }

    #[test]
    fn texts_have_queries_as_announced() {
        for workload in ALL {
            let has_query = workload.has_queries();
            assert!(workload.groups(1).iter().all(|group| group.query.is_some() == has_query), "{workload}");
        }
    }

    #[test]
    fn half_of_the_mixed_texts_share_an_instruction_and_lengths_vary() {
        let groups = Builtin::Mixed.groups(1);
        let texts: Vec<&str> = groups.iter().map(|group| group.texts[0].as_str()).collect();
        let (shared, own): (Vec<&str>, Vec<&str>) =
            texts.iter().partition(|text| INSTRUCTIONS.iter().any(|instruction| text.starts_with(instruction)));
        assert!(shared.len().abs_diff(own.len()) < texts.len() / 20, "{} and {}", shared.len(), own.len());
        let words = |texts: &[&str], most: bool| {
            let counts = texts.iter().map(|text| text.split_whitespace().count());
            if most { counts.max().unwrap() } else { counts.min().unwrap() }
        };
        assert!(words(&own, false) < 15 && words(&own, true) > 180);
        for instruction in INSTRUCTIONS {
            assert!(shared.iter().filter(|text| text.starts_with(instruction)).count() > shared.len() / 4);
        }
    }

    #[test]
    fn an_encoder_gets_passages_without_an_instruction() {
        for (api, shares_prefixes, expected) in [
            (Api::Openai, Some(true), Builtin::Instruction),
            (Api::Openai, None, Builtin::Instruction),
            (Api::Embed, Some(false), Builtin::Passages),
            (Api::Rerank, Some(false), Builtin::Rerank),
        ] {
            assert_eq!(Builtin::of(api, shares_prefixes), expected);
        }
        let groups = Builtin::Passages.groups(1);
        let begins: HashSet<&str> = groups.iter().filter_map(|group| group.texts[0].get(..24)).collect();
        assert!(begins.len() > 100, "{} beginnings", begins.len());
        assert_eq!(Builtin::Passages.preset(Api::Openai), "text");
    }

    #[test]
    fn names_are_those_of_the_command_line() {
        for workload in ALL {
            let value = workload.to_possible_value();
            assert_eq!(value.as_ref().map(clap::builder::PossibleValue::get_name), Some(workload.to_string().as_str()));
        }
        assert_eq!(Builtin::value_variants(), ALL);
    }

    #[test]
    fn presets_exist() {
        for (workload, api) in ALL.iter().flat_map(|&workload| [(workload, Api::Openai), (workload, Api::Rerank)]) {
            assert!(crate::workload::presets::preset(workload.preset(api)).is_ok(), "{workload}");
        }
    }
}
