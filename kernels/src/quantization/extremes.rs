//! Smallest and largest value of a row.

use crate::simd::{MAX_LANES, Vector};

/// Running extremes and a NaN marker, lane by lane.
#[derive(Clone, Copy)]
struct Extremes<V> {
    min: V,
    max: V,
    /// NaN where a value is not finite, else 0.
    not_finite: V,
}

impl<V: Vector> Extremes<V> {
    /// Includes `x`. Minima and maxima do not depend on the order of values.
    #[inline(always)]
    fn with(self, x: V, zero: V) -> Self {
        Self { min: x.min(self.min), max: x.max(self.max), not_finite: x.fmadd(zero, self.not_finite) }
    }

    /// The extremes of all lanes and zero; `None` if a value is not finite.
    #[inline(always)]
    fn reduce(self) -> Option<(f32, f32)> {
        // Missing lanes are 0, and so is the initial value of all lanes.
        let (mut min, mut max) = (self.min.to_array(), self.max.to_array());
        let mut width = MAX_LANES / 2;
        while width > 0 {
            for i in 0..width {
                min[i] = if min[i] < min[i + width] { min[i] } else { min[i + width] };
                max[i] = if max[i] > max[i + width] { max[i] } else { max[i + width] };
            }
            width /= 2;
        }
        (self.not_finite.reduce_add() == 0.0).then(|| (min[0].min(0.0), max[0].max(0.0)))
    }
}

/// The smallest and the largest value of a row and zero; `None` if a value is not finite.
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
pub(super) unsafe fn extremes<V: Vector>(x: &[f32]) -> Option<(f32, f32)> {
    // SAFETY: the instructions are the caller's duty; vectors are within `x`.
    unsafe {
        let zero = V::set1(0.0);
        let mut chains = [Extremes { min: zero, max: zero, not_finite: zero }; 2];
        let mut i = 0;
        // Two chains, since each step of a chain waits for the previous one.
        while i + 2 * V::LANES <= x.len() {
            chains[0] = chains[0].with(V::loadu(x.as_ptr().add(i)), zero);
            chains[1] = chains[1].with(V::loadu(x.as_ptr().add(i + V::LANES)), zero);
            i += 2 * V::LANES;
        }
        while i < x.len() {
            let count = V::LANES.min(x.len() - i);
            chains[0] = chains[0].with(V::loadu_up_to(x.as_ptr().add(i), count), zero);
            i += V::LANES;
        }
        let [a, b] = chains;
        let not_finite = a.not_finite.add(b.not_finite);
        Extremes { min: a.min.min(b.min), max: a.max.max(b.max), not_finite }.reduce()
    }
}
