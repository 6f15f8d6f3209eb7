//! Measurement of a load: a warm-up, then phases in which one stream of requests or several at the same time load the server.

use crate::http::client::Target;
use crate::load::run::{self, Finished, Length, Load, Stop, Stream};
use crate::load::server_side::{Counters, ServerSide};
use crate::results::report::{LoadPart, RunReport};
use anyhow::{Result, bail};

/// Streams that load the server at the same time, each labelled with its part of a mixed load.
type Phase = Vec<(Option<LoadPart>, Stream)>;

/// Phases and their length.
pub(crate) struct Measurement {
    /// Load named in the reports; in a mixed load the bulk's.
    load: Load,
    /// Phases; the last one is also the warm-up.
    phases: Vec<Phase>,
    rounds: u32,
    length: Length,
    warmup: Option<Length>,
}

/// Results of a phase.
#[derive(Default)]
struct Tally {
    /// One result per stream and round.
    rounds: Vec<Vec<Finished>>,
    /// Growth of the server's metrics in all rounds, if it exports any.
    growth: Option<Counters>,
}

impl Measurement {
    /// A measurement of one stream.
    pub(crate) fn single(stream: Stream, length: Length, warmup: Option<Length>) -> Self {
        Self { load: stream.load, phases: vec![vec![(None, stream)]], rounds: 1, length, warmup }
    }

    /// Queries alone, bulk alone, and both at the same time, in rounds.
    ///
    /// Rounds spread the phases over the time of the measurement, and every second one has them in reverse order: a
    /// machine that becomes faster or slower at a constant pace favours no phase. Each phase ends when all its requests
    /// are answered, so phases never overlap.
    pub(crate) fn mixed(queries: &Stream, bulk: &Stream, rounds: u32, length: Length, warmup: Option<Length>) -> Self {
        let part = |part, stream: &Stream| (Some(part), stream.clone());
        let phases = vec![
            vec![part(LoadPart::QueriesAlone, queries)],
            vec![part(LoadPart::BulkAlone, bulk)],
            vec![part(LoadPart::QueriesBesideBulk, queries), part(LoadPart::BulkBesideQueries, bulk)],
        ];
        Self { load: bulk.load, phases, rounds, length, warmup }
    }

    /// Runs the warm-up and all rounds, or the rounds until `stop`. Returns a report per phase and stream; `None` if the
    /// warm-up was interrupted.
    pub(crate) async fn run(&self, mut stop: Stop<'_>) -> Result<Option<Vec<RunReport>>> {
        if !self.warm_up(stop.as_mut()).await? {
            return Ok(None);
        }
        let mut tallies: Vec<Tally> = self.phases.iter().map(|_| Tally::default()).collect();
        'rounds: for round in 0..self.rounds {
            for index in 0..self.phases.len() {
                let index = if round % 2 == 0 { index } else { self.phases.len() - 1 - index };
                let (finished, growth) = self.run_phase(&self.phases[index], round, stop.as_mut()).await;
                let interrupted = finished.iter().any(|finished| finished.interrupted);
                tallies[index].add(finished, growth);
                if interrupted {
                    break 'rounds;
                }
            }
        }
        let reports = self.phases.iter().zip(&tallies).flat_map(|(phase, tally)| tally.reports(self.load, phase));
        Ok(Some(reports.collect()))
    }

    /// Returns false if it was interrupted.
    async fn warm_up(&self, stop: Stop<'_>) -> Result<bool> {
        let (Some(length), Some(phase)) = (self.warmup, self.phases.last()) else { return Ok(true) };
        let finished = run::run(&streams(phase, 0), length, "warm-up", stop).await;
        if finished.iter().any(|finished| finished.interrupted) {
            return Ok(false);
        }
        for Finished { record, .. } in &finished {
            if let (0, Some((kind, errors))) = (record.answered, record.errors.first_key_value()) {
                bail!("no warm-up request succeeded; the first failed with {kind}: {}", errors.example);
            }
        }
        Ok(true)
    }

    async fn run_phase(&self, phase: &Phase, round: u32, stop: Stop<'_>) -> (Vec<Finished>, Option<Counters>) {
        let streams = streams(phase, round);
        let Some(target) = streams.first().map(|stream| stream.driver.target()) else { return Default::default() };
        let names = streams.iter().map(|stream| format!("{} {}", stream.load.mode(), stream.load.value()));
        let title = names.collect::<Vec<_>>().join(" + ");
        let before = counters(target).await;
        let finished = run::run(&streams, self.length, &title, stop).await;
        let growth = before.zip(counters(target).await).map(|(before, after)| after.since(&before));
        (finished, growth)
    }
}

fn streams(phase: &Phase, round: u32) -> Vec<Stream> {
    phase
        .iter()
        .map(|(_, Stream { driver, load })| Stream { driver: driver.clone(), load: load.in_round(round) })
        .collect()
}

async fn counters(target: &Target) -> Option<Counters> {
    target.metrics().await.as_deref().map(Counters::parse)
}

impl Tally {
    fn add(&mut self, round: Vec<Finished>, growth: Option<Counters>) {
        self.growth = if self.rounds.is_empty() {
            growth
        } else {
            self.growth.take().zip(growth).map(|(sum, growth)| sum.plus(&growth))
        };
        self.rounds.push(round);
    }

    /// One report per stream, or none without a round. Reports of one phase share the server's view.
    fn reports(&self, load: Load, phase: &Phase) -> Vec<RunReport> {
        let Some((first, others)) = self.rounds.split_first() else { return Vec::new() };
        let mut sums = first.clone();
        for round in others {
            sums.iter_mut().zip(round).for_each(|(sum, finished)| sum.merge(finished));
        }
        let Some(mut record) = sums.first().map(|sum| sum.record.clone()) else { return Vec::new() };
        sums[1..].iter().for_each(|sum| record.merge(&sum.record));
        let server = ServerSide::new(self.growth.clone(), &record);
        let report = |(index, (part, _)): (usize, &(Option<LoadPart>, Stream))| RunReport {
            part: *part,
            rounds_texts_per_s: self
                .rounds
                .iter()
                .map(|round| round[index].per_second(round[index].record.texts))
                .collect(),
            ..RunReport::new(load, &sums[index], server.clone())
        };
        phase.iter().enumerate().map(report).collect()
    }
}

#[cfg(test)]
#[path = "measure_tests.rs"]
mod tests;
