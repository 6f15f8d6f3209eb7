//! Mathematical functions without a CPU instruction.

use super::Vector;

/// 1.5 * 2^23: added to a number below 2^22, it leaves the number rounded to the nearest integer in the lowest bits.
const ROUND: f32 = 1.5 * (1 << 23) as f32;

/// Below this argument the result is 0. Where `scalef` would round to a denormal or to 0, it is a hundred times slower on Intel
/// CPUs, and the scores of masked keys are -infinity.
const UNDERFLOW: f32 = -86.5;

/// `e^x`, to about one unit in the last place; exactly 1 at 0, 0 below -86.5, infinity above 89, NaN for NaN.
///
/// Every lane runs the same arithmetic, masked or not.
#[inline(always)]
pub(crate) fn exp<V: Vector>(x: V) -> V {
    // A macro and not a closure: a closure might not be inlined, and would then lack the instruction set.
    macro_rules! set1 {
        ($x:expr) => {
            // SAFETY: `x` exists, so the CPU has the instructions.
            unsafe { V::set1($x) }
        };
    }
    // The bound is the first operand: min and max return the second if one is NaN.
    let bounded = set1!(UNDERFLOW).max(set1!(89.0).min(x));
    let n = bounded.fmadd(set1!(std::f32::consts::LOG2_E), set1!(ROUND)).sub(set1!(ROUND));
    // x - n ln 2 with ln 2 in two parts; the first has few enough bits for an exact product.
    let r = n.fmadd(set1!(-0.693_359_4), bounded);
    let r = n.fmadd(set1!(2.121_944_4e-4), r);
    let p = set1!(1.987_569_1e-4);
    let p = p.fmadd(r, set1!(1.398_199_9e-3));
    let p = p.fmadd(r, set1!(8.333_452e-3));
    let p = p.fmadd(r, set1!(4.166_579_6e-2));
    let p = p.fmadd(r, set1!(1.666_666_5e-1));
    let p = p.fmadd(r, set1!(5e-1));
    let p = p.fmadd(r.mul(r), r).add(set1!(1.0));
    x.blend_le(set1!(UNDERFLOW), set1!(0.0), p.scalef(n))
}

/// `2^x` for `x <= 0`, to about 1e-4, a twentieth of the rounding error of bf16; exactly 1 at 0, 0 at -125 and below, NaN for NaN.
#[inline(always)]
pub(crate) fn exp2_for_bf16<V: Vector>(x: V) -> V {
    macro_rules! set1 {
        ($x:expr) => {
            // SAFETY: `x` exists, so the CPU has the instructions.
            unsafe { V::set1($x) }
        };
    }
    let n = x.add(set1!(ROUND)).sub(set1!(ROUND));
    let r = x.sub(n);
    // The cubic polynomial with minimal relative error for |r| <= 1/2 among those that are 1 at 0.
    let p = set1!(0.055_009).fmadd(r, set1!(0.242_211));
    let p = p.fmadd(r, set1!(0.693_283)).fmadd(r, set1!(1.0));
    p.scalef_above(n, x, set1!(-125.0))
}

/// The hyperbolic tangent, to about 1.2e-7; 1 and -1 beyond 43, NaN for NaN.
#[inline(always)]
pub(crate) fn tanh<V: Vector>(x: V) -> V {
    macro_rules! set1 {
        ($x:expr) => {
            // SAFETY: `x` exists, so the CPU has the instructions.
            unsafe { V::set1($x) }
        };
    }
    let square = exp(x.add(x));
    set1!(1.0).sub(set1!(2.0).div(square.add(set1!(1.0))))
}

/// The complementary error function for `x >= 0`, to about 2e-7; NaN for NaN. Formula 7.1.26 of Abramowitz and Stegun.
#[inline(always)]
pub(crate) fn erfc_of_positive<V: Vector>(x: V) -> V {
    macro_rules! set1 {
        ($x:expr) => {
            // SAFETY: `x` exists, so the CPU has the instructions.
            unsafe { V::set1($x) }
        };
    }
    let t = set1!(1.0).div(x.fmadd(set1!(0.327_591_1), set1!(1.0)));
    let p = set1!(1.061_405_4);
    let p = p.fmadd(t, set1!(-1.453_152_1));
    let p = p.fmadd(t, set1!(1.421_413_8));
    let p = p.fmadd(t, set1!(-0.284_496_74));
    let p = p.fmadd(t, set1!(0.254_829_6));
    p.mul(t).mul(exp(set1!(0.0).sub(x.mul(x))))
}

/// The normal distribution's `Phi(x)`, so that `x Phi(x)` is exact to about 6e-5, a small part of the rounding of bf16 where it is not near
/// 0. Beyond 4.5 it is within 1e-7 of 0 and 1 with fused multiplication, else within 1e-5. NaN for NaN.
#[inline(always)]
pub(crate) fn normal_cdf_for_bf16<V: Vector>(x: V) -> V {
    /// Where the polynomial is 0 and 1.
    const END: f32 = 4.5;
    macro_rules! set1 {
        ($x:expr) => {
            // SAFETY: `x` exists, so the CPU has the instructions.
            unsafe { V::set1($x) }
        };
    }
    // The bound is the first operand: min and max return the second if one is NaN.
    let x = set1!(-END).max(set1!(END).min(x));
    let square = x.mul(x);
    // The odd polynomial that minimises the largest error of `x Phi(x)` among those that are 1/2 at the end; the last coefficient makes
    // up for the rounding of the others.
    let p = set1!(2.999_841_7e-11);
    let p = p.fmadd(square, set1!(-3.283_768_6e-9));
    let p = p.fmadd(square, set1!(1.580_206_3e-7));
    let p = p.fmadd(square, set1!(-4.431_591e-6));
    let p = p.fmadd(square, set1!(8.120_877_5e-5));
    let p = p.fmadd(square, set1!(-1.036_248_6e-3));
    let p = p.fmadd(square, set1!(9.580_646e-3));
    let p = p.fmadd(square, set1!(-6.597_728e-2));
    let p = p.fmadd(square, set1!(3.987_1e-1));
    p.fmadd(x, set1!(0.5))
}
