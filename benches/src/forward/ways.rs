//! One model, computed in every way: its passes are timed alternately, and their answers compared.

use super::args::Args;
use super::gaps::{self, Gaps};
use crate::report::{Times, rounds};
use anyhow::{Context, Result, bail, ensure};
use prefold_backends::{AttentionMode, DeviceChoice, LoadOptions, ModelSource, load_in_modes, take_profile};
use prefold_core::{
    Batch, Folding, ModelBackend, Output, OutputKind, Outputs, RadixPlan, RaggedBatch, Uninterrupted, YieldPoint,
};
use std::path::Path;
use std::time::Duration;

/// Ways to compute a batch: without compaction, with attention in ragged space (the paper's mode) and in compact space.
pub(super) const WAYS: [&str; 3] = ["off", "ragged", "compact"];

/// A batch with its plan.
pub(super) struct Case {
    pub(super) batch: Batch,
    pub(super) plan: RadixPlan,
}

impl Case {
    pub(super) fn new(ragged: RaggedBatch) -> Self {
        let plan = RadixPlan::new(&ragged, 1);
        Self { batch: Batch { wanted: vec![Outputs::EMBEDDING; ragged.num_sequences()], ragged }, plan }
    }
}

/// Times and answers of one way.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) times: Times,
    /// The vector of each sequence, as the model pools it: not normalised.
    pub(super) answers: Vec<Vec<f32>>,
}

/// A model over one copy of its weights.
pub(super) struct Model {
    /// The model in ragged space. Without a plan both models compute the same, so `compact` computes `off` too.
    ragged: ModelBackend,
    compact: ModelBackend,
    warm: usize,
    runs: usize,
    is_profiled: bool,
    has_gaps: bool,
}

impl Model {
    pub(super) fn load(args: &Args, directory: &Path) -> Result<Self> {
        let options = LoadOptions {
            source: ModelSource::Path(directory.to_owned()),
            device: Some(args.device),
            dtype: Some(args.dtype),
            cpu_kernels: args.cpu_kernels.clone(),
            ..LoadOptions::default()
        };
        let backends = load_in_modes(&options, &[AttentionMode::Ragged, AttentionMode::Compact])
            .with_context(|| directory.display().to_string())?;
        let Ok([ragged, compact]) = <[ModelBackend; 2]>::try_from(backends) else {
            bail!("not a backend for each mode")
        };
        // The first pass allocates buffers; on a GPU it also chooses the library's kernels and raises the clock.
        let warm = args.warm.unwrap_or(if args.device == DeviceChoice::Cpu { 1 } else { 2 });
        ensure!(warm + args.runs > 0, "--warm 0 --runs 0: no pass, no answers");
        Ok(Self { ragged, compact, warm, runs: args.runs, is_profiled: args.profile, has_gaps: args.gaps })
    }

    /// Computes a batch in every way of [`WAYS`] that the model has: an encoder has nothing to compact, so only `off`.
    pub(super) fn measure(&mut self, case: &Case) -> Result<Vec<Measured>> {
        match self.compact.folding() {
            Folding::Prefix => self.measure_ways::<3>(case),
            Folding::Whole => self.measure_ways::<1>(case),
        }
    }

    fn measure_ways<const N: usize>(&mut self, case: &Case) -> Result<Vec<Measured>> {
        let mut outputs = [const { Vec::new() }; N];
        let mut profiles = [const { Vec::new() }; N];
        let Self { warm, runs, is_profiled, .. } = *self;
        let mut pass = |way: usize| {
            if is_profiled {
                take_profile();
            }
            outputs[way] = self.forward(WAYS[way], case, &mut Uninterrupted)?;
            if is_profiled {
                profiles[way] = take_profile();
            }
            Ok(())
        };
        for _ in 0..warm {
            (0..N).try_for_each(&mut pass)?;
        }
        let times = rounds::<N>(runs, &mut pass)?;
        for (way, profile) in WAYS.iter().zip(profiles).filter(|_| is_profiled) {
            print_profile(way, profile);
        }
        if self.has_gaps {
            WAYS[..N].iter().try_for_each(|way| self.print_gaps(way, case))?;
        }
        let measured = times.into_iter().zip(outputs).map(|(times, outputs)| {
            let answers = outputs.into_iter().map(vector).collect::<Result<_>>()?;
            Ok(Measured { times, answers })
        });
        measured.collect()
    }

    fn print_gaps(&mut self, way: &str, case: &Case) -> Result<()> {
        let runs = self.runs.max(1);
        let pass = |_| {
            let mut gaps = Gaps::begin();
            self.forward(way, case, &mut gaps)?;
            Ok(gaps.end())
        };
        let passes = (0..runs).map(pass).collect::<Result<Vec<_>>>()?;
        gaps::print(way, &passes);
        Ok(())
    }

    fn forward(&mut self, way: &str, case: &Case, yields: &mut dyn YieldPoint) -> Result<Vec<Output>> {
        let (backend, plan) = match way {
            "off" => (&mut self.compact, None),
            "ragged" => (&mut self.ragged, Some(&case.plan)),
            _ => (&mut self.compact, Some(&case.plan)),
        };
        Ok(backend.forward_yielding(&case.batch, plan, yields)?)
    }
}

fn vector(mut output: Output) -> Result<Vec<f32>> {
    let Some(values) = output.take(OutputKind::Embedding) else { bail!("the model does not pool") };
    Ok(values.data)
}

/// Prints the share of each operation in a pass.
fn print_profile(way: &str, mut shares: Vec<(&str, Duration)>) {
    let total: f64 = shares.iter().map(|(_, time)| time.as_secs_f64()).sum();
    shares.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
    let share =
        |&(name, time): &(&str, Duration)| format!("{name} {:.1}% ({time:.1?})", 100.0 * time.as_secs_f64() / total);
    println!("  {way}: {}", shares.iter().map(share).collect::<Vec<_>>().join(", "));
}

/// The minimum cosine between the vectors of the same sequence in two ways; NaN if one is NaN.
pub(super) fn smallest_cosine(one: &[Vec<f32>], other: &[Vec<f32>]) -> f64 {
    let cosines = one.iter().zip(other).map(|(one, other)| cosine(one, other));
    cosines.fold(1.0, |least, cosine| if cosine.is_nan() || cosine < least { cosine } else { least })
}

fn cosine(one: &[f32], other: &[f32]) -> f64 {
    let dot = |one: &[f32], other: &[f32]| -> f64 {
        one.iter().zip(other).map(|(&one, &other)| f64::from(one) * f64::from(other)).sum()
    };
    dot(one, other) / (dot(one, one) * dot(other, other)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_cosine_counts_and_nan_stays() {
        let one = [vec![1.0, 0.0], vec![3.0, 4.0], vec![0.0, 2.0]];
        assert!((smallest_cosine(&one, &one) - 1.0).abs() < 1e-12);
        let other = [vec![2.0, 0.0], vec![4.0, 3.0], vec![0.0, 1.0]];
        assert!((smallest_cosine(&one, &other) - 0.96).abs() < 1e-7);
        let broken = [vec![f32::NAN, 0.0], vec![4.0, 3.0], vec![0.0, 1.0]];
        assert!(smallest_cosine(&one, &broken).is_nan());
    }
}
