//! Output of the demo.

use crate::client::{Answer, Info, Ranked};
use crate::workload::{Measurement, Spread, Workload, largest_difference};
use anyhow::{Context, Result, bail};
use prefold_tools::demo_texts::{DemoTexts, Passage, Question};
use std::time::Duration;

/// Questions shown with their best passages; the statistics cover all.
const SHOWN_QUESTIONS: usize = 4;
const SHOWN_PASSAGES: usize = 2;
/// Characters of a passage per line.
const EXCERPT: usize = 72;
/// Maximum difference between values with and without compaction (float rounding).
const SAME_ANSWER: f32 = 1e-5;
/// Ratio of the longest to the shortest latency above which the times are called unsteady.
const UNSTEADY: f64 = 1.5;

pub(crate) fn heading(text: &str) {
    println!("\n{text}\n");
}

pub(crate) fn line(text: &str) {
    println!("\n{text}");
}

pub(crate) fn started(flags: &[&str], address: &str, after: Duration, info: &Info) {
    println!("$ prefold {}", flags.join(" "));
    println!("  prefold {} serves {} on {address}, ready after {}", info.version, info.model_id, seconds(after));
}

pub(crate) fn embedded(answer: &Answer<Vec<Vec<f32>>>) {
    let dimensions = answer.body.first().map_or(0, Vec::len);
    println!("  {} vectors of {dimensions} dimensions in {}", answer.body.len(), seconds(answer.wall));
    println!(
        "  {} tokens, {} of them computed: compaction ratio {:.3}",
        answer.tokens, answer.unique_tokens, answer.compaction_ratio
    );
}

/// Prints the search results; `rankings[i]` orders all passages for question `i`.
pub(crate) fn answers(demo: &DemoTexts, rankings: &[Vec<(usize, f32)>], wall: Duration) {
    let ranked = |i: usize| &demo.passages[i];
    let first_answer = |(question, ranking): (&Question, &Vec<(usize, f32)>)| {
        ranking.iter().position(|&(i, _)| question.is_answered_by(ranked(i))).unwrap_or(usize::MAX)
    };
    for (question, ranking) in demo.questions.iter().zip(rankings).take(SHOWN_QUESTIONS) {
        println!("  {}", question.query);
        for &(i, score) in ranking.iter().take(SHOWN_PASSAGES) {
            passage(score, question, ranked(i));
        }
    }
    let places: Vec<usize> = demo.questions.iter().zip(rankings).map(first_answer).collect();
    let within = |k: usize| places.iter().filter(|&&place| place < k).count();
    println!(
        "  ...\n  The FAQ's own answer (marked *) is first for {} of {} questions, among the first three for {}, \
         the first ten for {}.\n  All questions were embedded in {}.",
        within(1),
        places.len(),
        within(3),
        within(10),
        seconds(wall)
    );
}

pub(crate) fn reranked(question: &Question, candidates: &[&Passage], ranked: &Answer<Vec<Ranked>>) -> Result<()> {
    println!("  {}", question.query);
    for item in &ranked.body {
        let candidate = candidates.get(item.index).context("the server ranked a text that it was not sent")?;
        passage(item.score, question, candidate);
    }
    println!("  {} candidates in {}", ranked.body.len(), seconds(ranked.wall));
    Ok(())
}

/// Prints the comparison of two servers and checks that their vectors agree.
pub(crate) fn comparison(workload: &Workload, off: (&str, &Measurement), on: (&str, &Measurement)) -> Result<()> {
    heading(workload.name);
    println!("  --radix-mlp-threshold    tokens  computed   ratio    latency           range    texts/s");
    let mut is_unsteady = false;
    for (threshold, m) in [off, on] {
        let latency = Spread::of(m.latencies.iter().map(Duration::as_secs_f64));
        is_unsteady |= latency.most > UNSTEADY * latency.least;
        println!(
            "  {threshold:<21} {:>9} {:>9}   {:.3} {:>10} {:>15} {:>10.1}",
            m.tokens,
            m.unique_tokens,
            m.compaction_ratio,
            seconds(Duration::from_secs_f64(latency.median)),
            range(&latency),
            m.vectors.len() as f64 / latency.median
        );
    }
    let difference = largest_difference(&off.1.vectors, &on.1.vectors)?;
    if difference > SAME_ANSWER {
        bail!("compaction changed an embedding: two values differ by {difference:e}");
    }
    let same = if difference == 0.0 {
        "the vectors are the same bit for bit".to_owned()
    } else {
        format!("no value of a vector differs by more than {difference:.0e}")
    };
    let rounds = off.1.latencies.iter().zip(&on.1.latencies);
    let ratio = Spread::of(rounds.map(|(off, on)| off.as_secs_f64() / on.as_secs_f64()));
    println!(
        "  off takes {:.2} times as long as on ({:.2} to {:.2} in {} rounds); {same}",
        ratio.median,
        ratio.least,
        ratio.most,
        off.1.latencies.len()
    );
    if is_unsteady {
        println!(
            "  The times of equal requests vary by half and more, as on a machine that does other work: only the token counts are exact."
        );
    }
    Ok(())
}

fn passage(score: f32, question: &Question, passage: &Passage) {
    let mark = if question.is_answered_by(passage) { '*' } else { ' ' };
    println!("  {score:>8.3} {mark} {}", excerpt(&passage.text));
}

/// Shortest and longest latency, in the unit of [`seconds`] for the longest.
fn range(latency: &Spread) -> String {
    let Spread { least, most, .. } = latency;
    if *most < 1.0 {
        format!("{:.0} to {:.0} ms", least * 1e3, most * 1e3)
    } else {
        format!("{least:.2} to {most:.2} s")
    }
}

fn seconds(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds < 1.0 { format!("{:.0} ms", seconds * 1e3) } else { format!("{seconds:.2} s") }
}

fn excerpt(text: &str) -> String {
    if text.chars().count() <= EXCERPT {
        return text.to_owned();
    }
    let start: String = text.chars().take(EXCERPT).collect();
    format!("{}...", start.trim_end())
}
