//! Faults and their probabilities.

use std::str::FromStr;
use std::time::Duration;

/// Fault injected into a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The backend panics.
    Panic,
    /// A device operation fails.
    Error,
    /// The device is out of memory.
    OutOfMemory,
    /// One value of one output is not finite.
    NotFinite,
    /// One output is missing.
    TooFew,
    /// The batch is delayed.
    Delay,
    /// The batch waits until this fault is disabled.
    Stall,
    /// All threads that serve connections hang forever; the batch is computed.
    Freeze,
}

/// Probability of each fault per batch, such as `panic=0.02,oom=0.01`. A batch has at most one fault; unnamed faults
/// never occur.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Faults {
    /// Seed of the random numbers (`seed`).
    pub(crate) seed: u64,
    /// Duration of [`Fault::Delay`] (`delay-ms`).
    pub(crate) delay: Duration,
    /// Probabilities in the order of [`NAMES`].
    probabilities: [f64; NAMES.len()],
}

const NAMES: [(&str, Fault); 8] = [
    ("panic", Fault::Panic),
    ("error", Fault::Error),
    ("oom", Fault::OutOfMemory),
    ("nan", Fault::NotFinite),
    ("short", Fault::TooFew),
    ("delay", Fault::Delay),
    ("stall", Fault::Stall),
    ("freeze", Fault::Freeze),
];

impl Default for Faults {
    fn default() -> Self {
        Self { seed: 0, delay: Duration::from_millis(20), probabilities: [0.0; NAMES.len()] }
    }
}

impl FromStr for Faults {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut faults = Self::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').ok_or_else(|| format!("`{part}` is not NAME=VALUE"))?;
            let whole = || value.parse::<u64>().map_err(|_| format!("`{name}` must be a whole number, not `{value}`"));
            match (name, NAMES.iter().position(|(known, _)| *known == name)) {
                ("seed", _) => faults.seed = whole()?,
                ("delay-ms", _) => faults.delay = Duration::from_millis(whole()?),
                (_, Some(index)) => faults.probabilities[index] = probability(name, value)?,
                (_, None) => {
                    let known: Vec<_> = NAMES.iter().map(|(name, _)| *name).collect();
                    return Err(format!("`{name}` is not known (seed, delay-ms, {})", known.join(", ")));
                }
            }
        }
        let sum: f64 = faults.probabilities.iter().sum();
        if sum > 1.0 + 1e-9 {
            return Err(format!("the probabilities must not exceed 1 together, they are {sum}"));
        }
        Ok(faults)
    }
}

fn probability(name: &str, value: &str) -> Result<f64, String> {
    match value.parse() {
        Ok(probability @ 0.0..=1.0) => Ok(probability),
        _ => Err(format!("`{name}` must be from 0 to 1, not `{value}`")),
    }
}

impl Faults {
    /// Fault selected by a random number between 0 and 1.
    pub(crate) fn choose(&self, random: f64) -> Option<Fault> {
        let mut below = 0.0;
        let reached = |probability: &f64| {
            below += probability;
            random < below
        };
        self.probabilities.iter().position(reached).map(|index| NAMES[index].1)
    }

    /// True while stalling is enabled, so a stalled batch must keep waiting.
    pub(crate) fn stalls(&self) -> bool {
        NAMES
            .iter()
            .zip(self.probabilities)
            .any(|((_, fault), probability)| *fault == Fault::Stall && probability > 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_has_its_share() {
        let faults: Faults = "seed=7, panic=0.25,oom=0.25,stall=0.25,delay-ms=3".parse().unwrap();
        assert_eq!((faults.seed, faults.delay), (7, Duration::from_millis(3)));
        for (random, fault) in [
            (0.0, Some(Fault::Panic)),
            (0.24, Some(Fault::Panic)),
            (0.25, Some(Fault::OutOfMemory)),
            (0.74, Some(Fault::Stall)),
            (0.75, None),
            (1.0, None),
        ] {
            assert_eq!(faults.choose(random), fault, "{random}");
        }
        for (name, fault) in NAMES {
            let faults: Faults = format!("{name}=1").parse().unwrap();
            assert_eq!(faults.choose(0.999), Some(fault));
            assert_eq!(faults.stalls(), fault == Fault::Stall);
        }
        assert_eq!("".parse::<Faults>().unwrap().choose(0.0), None);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (text, words) in [
            ("panic", "NAME=VALUE"),
            ("panik=1", "`panik` is not known (seed, delay-ms, panic, error"),
            ("nan=1.5", "from 0 to 1"),
            ("nan=-0.1", "from 0 to 1"),
            ("nan=NaN", "from 0 to 1"),
            ("seed=x", "whole number"),
            ("panic=0.6,error=0.6", "together"),
        ] {
            let problem = text.parse::<Faults>().unwrap_err();
            assert!(problem.contains(words), "{text}: {problem}");
        }
    }
}
