//! Workloads of the comparison, and measurement of a request's cost.

use crate::client::{Answer, Client};
use anyhow::{Result, anyhow, bail};
use prefold_tools::demo_texts::DemoTexts;
use std::time::Duration;

/// Texts embedded in one request.
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    pub(crate) inputs: Vec<String>,
}

/// Cost of a workload on one server.
pub(crate) struct Measurement {
    pub(crate) tokens: u64,
    pub(crate) unique_tokens: u64,
    pub(crate) compaction_ratio: f64,
    /// Latency in each of at least one round.
    pub(crate) latencies: Vec<Duration>,
    pub(crate) vectors: Vec<Vec<f32>>,
}

const INSTRUCTION: &str = "Instruct: Find the passage of the documentation that answers the question.\nText: ";

/// Text with an instruction, for instruction-tuned retrievers.
pub(crate) fn instructed(text: &str) -> String {
    format!("{INSTRUCTION}{text}")
}

/// Workload: every passage after the same instruction.
pub(crate) fn passages(demo: &DemoTexts) -> Workload {
    Workload {
        name: "100 passages, each after the same instruction",
        inputs: demo.passages.iter().map(|passage| instructed(&passage.text)).collect(),
    }
}

/// Workload: every candidate after its question in a chat template. The ten pairs of a question share the system
/// prompt and the question; all hundred share the system prompt.
pub(crate) fn pairs(demo: &DemoTexts) -> Workload {
    let mut inputs = Vec::new();
    for question in &demo.questions {
        for candidate in demo.candidates(question) {
            inputs.push(format!(
                "<|im_start|>system\nYou are a helpful assistant specialized in embedding text for retrieval tasks.\
                 <|im_end|>\n<|im_start|>user\n{}\nDoes this passage answer the question? {}<|im_end|>\n\
                 <|im_start|>assistant\n",
                question.query, candidate.text
            ));
        }
    }
    Workload { name: "10 questions x 10 passages, each pair in a chat template", inputs }
}

impl Workload {
    /// Sends the request to each server once to warm up, then once per round. The servers alternate, so that other work on the
    /// machine slows all of them.
    pub(crate) fn measure<const N: usize>(&self, servers: [&Client; N], rounds: u16) -> Result<[Measurement; N]> {
        let mut measurements = Vec::new();
        for client in servers {
            measurements.push(Measurement::of(client.embed(&self.inputs)?));
        }
        for _ in 0..rounds {
            for (client, measurement) in servers.iter().zip(&mut measurements) {
                measurement.latencies.push(client.embed(&self.inputs)?.wall);
            }
        }
        measurements.try_into().map_err(|_| anyhow!("a server was not measured"))
    }
}

impl Measurement {
    /// Everything but the latencies.
    fn of(answer: Answer<Vec<Vec<f32>>>) -> Self {
        Self {
            tokens: answer.tokens,
            unique_tokens: answer.unique_tokens,
            compaction_ratio: answer.compaction_ratio,
            latencies: vec![],
            vectors: answer.body,
        }
    }
}

/// Median and range of at least one value.
#[derive(Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Spread {
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
        let last = values.len().saturating_sub(1);
        Self { median: (at(last / 2) + at(last.div_ceil(2))) / 2.0, least: at(0), most: at(last) }
    }
}

/// Indices of `documents` with their similarity to `query`, most similar first. All vectors have unit length.
pub(crate) fn rank(query: &[f32], documents: &[Vec<f32>]) -> Vec<(usize, f32)> {
    let dot = |document: &Vec<f32>| query.iter().zip(document).map(|(q, d)| q * d).sum();
    let mut ranking: Vec<(usize, f32)> = documents.iter().map(dot).enumerate().collect();
    ranking.sort_by(|a, b| b.1.total_cmp(&a.1));
    ranking
}

/// Largest difference between corresponding values.
pub(crate) fn largest_difference(a: &[Vec<f32>], b: &[Vec<f32>]) -> Result<f32> {
    let width = |rows: &[Vec<f32>]| rows.iter().map(Vec::len).collect::<Vec<_>>();
    if width(a) != width(b) {
        bail!("the two servers returned vectors of different shapes");
    }
    let differences = a.iter().flatten().zip(b.iter().flatten()).map(|(a, b)| (a - b).abs());
    Ok(differences.fold(0.0, f32::max))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_similar_document_comes_first() {
        let documents = [vec![0.0, 1.0], vec![1.0, 0.0], vec![0.6, 0.8]];
        let ranking = rank(&[1.0, 0.0], &documents);
        assert_eq!(ranking.iter().map(|r| r.0).collect::<Vec<_>>(), [1, 2, 0]);
    }

    #[test]
    fn differences_are_found_and_shapes_compared() {
        let a = [vec![0.0, 1.0], vec![0.5, 0.5]];
        let b = [vec![0.0, 1.0], vec![0.5, 0.25]];
        assert_eq!(largest_difference(&a, &b).unwrap(), 0.25);
        assert!(largest_difference(&a, &b[..1]).is_err());
    }

    #[test]
    fn the_median_of_an_even_number_is_between_the_middle_two() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]), Spread { median: 2.0, least: 1.0, most: 3.0 });
        assert_eq!(Spread::of([4.0, 1.0, 2.0, 3.0]), Spread { median: 2.5, least: 1.0, most: 4.0 });
    }

    #[test]
    fn each_question_has_ten_pairs() {
        assert_eq!(pairs(&DemoTexts::load().unwrap()).inputs.len(), 100);
    }
}
