//! Gaps between the yield points of a pass: the maximum time that an urgent request waits.

use prefold_core::{Stopped, YieldPoint};
use std::time::{Duration, Instant};

/// Yield points that record the gap before each.
pub(super) struct Gaps {
    start: Instant,
    last: Instant,
    gaps: Vec<Duration>,
}

impl Gaps {
    /// Records the start of the pass.
    pub(super) fn begin() -> Self {
        let start = Instant::now();
        Self { start, last: start, gaps: Vec::new() }
    }

    /// Records the end of the pass, as a last yield point.
    pub(super) fn end(mut self) -> Summary {
        self.note();
        let (points, time) = (self.gaps.len(), self.start.elapsed());
        self.gaps.sort_unstable();
        let longest = self.gaps.last().copied().unwrap_or_default();
        let most = self.gaps[points * 99 / 100];
        Summary { longest, most, points, time }
    }

    fn note(&mut self) {
        let now = Instant::now();
        self.gaps.push(now - self.last);
        self.last = now;
    }
}

impl YieldPoint for Gaps {
    fn reach(&mut self) -> Result<(), Stopped> {
        self.note();
        Ok(())
    }

    fn away(&self) -> Duration {
        Duration::ZERO
    }
}

/// The gaps of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Summary {
    longest: Duration,
    /// 99th percentile of the gaps.
    most: Duration,
    points: usize,
    time: Duration,
}

/// Prints the pass with the shortest maximum gap, because other work shares the machine, and the longest gap of all passes.
pub(super) fn print(way: &str, passes: &[Summary]) {
    let (Some(best), Some(worst)) = (passes.iter().min(), passes.iter().max()) else { return };
    let Summary { longest, most, points, time } = *best;
    let mean = time / points as u32;
    println!(
        "  {way}: {points} yield points in {time:.1?}, a gap every {mean:.1?}; 99% up to {most:.1?}, the longest {longest:.1?} \
         ({:.1?} in the worst of {} passes)",
        worst.longest,
        passes.len()
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_pass_ends_a_gap_too() {
        let mut gaps = Gaps::begin();
        gaps.reach().unwrap();
        std::thread::sleep(Duration::from_millis(20));
        let Summary { longest, points, time, .. } = gaps.end();
        assert_eq!(points, 2);
        assert!(longest >= Duration::from_millis(20) && longest <= time);
    }
}
