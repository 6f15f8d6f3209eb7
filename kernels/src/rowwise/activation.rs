//! The activations of the MLP, gated and plain.

use crate::dtype::Dtype;
use crate::element::Element;
use crate::error::{KernelError, check_len, whole_rows};
use crate::isa::Isa;
use crate::rowwise::rows::{PIECE, for_row_blocks};
use crate::simd::{self, Operation, Simd, Vector, erfc_of_positive, exp, for_vectors, normal_cdf_for_bf16};

/// Runs a loop with the function as a constant, so that it is selected once rather than for each vector.
macro_rules! for_each_function {
    ($function:expr, $kind:ident => $body:expr) => {
        match $function {
            Function::Gelu => {
                const $kind: Function = Function::Gelu;
                $body
            }
            Function::GeluForBf16 => {
                const $kind: Function = Function::GeluForBf16;
                $body
            }
            Function::GeluTanh => {
                const $kind: Function = Function::GeluTanh;
                $body
            }
            Function::Relu => {
                const $kind: Function = Function::Relu;
                $body
            }
            Function::Silu => {
                const $kind: Function = Function::Silu;
                $body
            }
        }
    };
}

/// `out = activation(gate) * up`, where a row of `gate_up` is `[gate | up]`.
///
/// `gate_up` is `[rows, 2 * intermediate]`, `out` is `[rows, intermediate]`.
///
/// # Errors
/// If the lengths do not fit together.
pub fn activate_mul<E: Element>(
    activation: Activation,
    gate_up: &[f32],
    intermediate: usize,
    out: &mut [E],
) -> Result<(), KernelError> {
    activate_mul_with(Isa::best(), activation, gate_up, intermediate, out)
}

/// [`activate_mul`] with a chosen instruction set.
#[doc(hidden)]
pub fn activate_mul_with<E: Element>(
    isa: Isa,
    activation: Activation,
    gate_up: &[f32],
    intermediate: usize,
    out: &mut [E],
) -> Result<(), KernelError> {
    let rows = whole_rows("gate_up", intermediate.saturating_mul(2), gate_up.len())?;
    check_len("out", rows * intermediate, out.len())?;
    let function = activation.to_precision_of::<E>();
    for_row_blocks(out, intermediate, |first, out| {
        let gate_up = &gate_up[first * 2 * intermediate..][..2 * out.len()];
        simd::run(isa, ActivateMul { function, gate_up, intermediate, out });
    });
    Ok(())
}

struct ActivateMul<'a, E> {
    function: Function,
    gate_up: &'a [f32],
    intermediate: usize,
    out: &'a mut [E],
}

impl<E: Element> Operation for ActivateMul<'_, E> {
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let width = self.intermediate;
        let rows = self.gate_up.chunks_exact(2 * width).zip(self.out.chunks_exact_mut(width));
        for_each_function!(self.function, KIND => for (row, out) in rows {
            for_vectors::<S::V>(width, |i, count| {
                // SAFETY: the instruction set is the caller's duty; vectors are within halves of `width`.
                unsafe {
                    let gate = S::V::loadu_up_to(row.as_ptr().add(i), count);
                    let up = S::V::loadu_up_to(row.as_ptr().add(width + i), count);
                    KIND.of(gate).mul(up).store_elements(out.as_mut_ptr().add(i), count);
                }
            });
        });
    }
}

/// An element-wise activation function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// Exact GELU: `x Phi(x)` with the normal distribution's `Phi`, by the error function.
    Gelu,
    /// GELU, approximated with the hyperbolic tangent.
    GeluTanh,
    /// `max(x, 0)`
    Relu,
    /// `x / (1 + e^-x)`
    Silu,
}

impl Activation {
    /// Writes the function of each value of `x` to `out`.
    ///
    /// # Errors
    /// If the lengths differ.
    pub fn run<E: Element>(self, x: &[f32], out: &mut [E]) -> Result<(), KernelError> {
        self.run_with(Isa::best(), x, out)
    }

    /// [`run`](Self::run) with a chosen instruction set.
    #[doc(hidden)]
    pub fn run_with<E: Element>(self, isa: Isa, x: &[f32], out: &mut [E]) -> Result<(), KernelError> {
        check_len("out", x.len(), out.len())?;
        let function = self.to_precision_of::<E>();
        for_row_blocks(out, PIECE, |first, out| {
            let x = &x[first * PIECE..][..out.len()];
            let (width, out) = (x.len(), out.as_mut_ptr());
            simd::run(isa, Rows { function, x, stride: width, rows: 1, width, out, out_stride: width });
        });
        Ok(())
    }

    /// The function to the precision of `E`.
    pub(crate) fn to_precision_of<E: Element>(self) -> Function {
        match self {
            Self::Gelu if E::DTYPE == Dtype::Bfloat16 => Function::GeluForBf16,
            Self::Gelu => Function::Gelu,
            Self::GeluTanh => Function::GeluTanh,
            Self::Relu => Function::Relu,
            Self::Silu => Function::Silu,
        }
    }
}

/// An activation function to some precision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Function {
    /// GELU to the precision of f32.
    Gelu,
    /// GELU to the precision of bf16, in a third of the time.
    GeluForBf16,
    GeluTanh,
    Relu,
    Silu,
}

impl Function {
    #[inline(always)]
    fn of<V: Vector>(self, x: V) -> V {
        // SAFETY: `x` exists, so the CPU has the instructions.
        let (zero, half, one) = unsafe { (V::set1(0.0), V::set1(0.5), V::set1(1.0)) };
        match self {
            Self::GeluForBf16 => x.mul(normal_cdf_for_bf16(x)),
            Self::Gelu => {
                // SAFETY: as above.
                let root = unsafe { V::set1(std::f32::consts::FRAC_1_SQRT_2) };
                let size = zero.sub(x).max(x);
                let tail = erfc_of_positive(size.mul(root)).mul(half);
                x.mul(x.blend_le(zero, tail, one.sub(tail)))
            }
            Self::GeluTanh => {
                // SAFETY: as above.
                let (cubic, scale) = unsafe { (V::set1(0.044_715), V::set1(-1.595_769)) };
                let inner = x.mul(x).mul(x).fmadd(cubic, x);
                x.div(one.add(exp(inner.mul(scale))))
            }
            Self::Relu => zero.max(x),
            Self::Silu => x.div(one.add(exp(zero.sub(x)))),
        }
    }
}

/// Some rows.
pub(crate) struct Rows<'a, E> {
    pub(crate) function: Function,
    /// Rows of `width` values, `stride` apart.
    pub(crate) x: &'a [f32],
    pub(crate) stride: usize,
    pub(crate) rows: usize,
    pub(crate) width: usize,
    /// The address of the first row; rows are `out_stride` apart, and only the caller writes them.
    pub(crate) out: *mut E,
    pub(crate) out_stride: usize,
}

impl<E: Element> Operation for Rows<'_, E> {
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let Self { function, x, stride, rows, width, out, out_stride } = self;
        for_each_function!(function, KIND => for row in 0..rows {
            let x = &x[row * stride..][..width];
            for_vectors::<S::V>(width, |i, count| {
                // SAFETY: the instruction set and the rows of `out` are the caller's duty; vectors are within rows of `width`.
                unsafe {
                    let activated = KIND.of(S::V::loadu_up_to(x.as_ptr().add(i), count));
                    activated.store_elements(out.add(row * out_stride + i), count);
                }
            });
        });
    }
}

/// Gates and ups that lie next to each other by [`GROUP`].
pub(crate) const GROUP: usize = 16;

/// Some rows of a gated activation: `[gates 0..16 | ups 0..16 | gates 16..32 | ups 16..32 ...]` becomes `activation(gate) * up`.
pub(crate) struct GatedRows<'a, E> {
    pub(crate) function: Function,
    /// Rows of whole pairs of groups, `stride` apart.
    pub(crate) x: &'a [f32],
    pub(crate) stride: usize,
    pub(crate) rows: usize,
    /// Columns of the output.
    pub(crate) width: usize,
    /// The address of the first row; rows are `out_stride` apart, and only the caller writes them.
    pub(crate) out: *mut E,
    pub(crate) out_stride: usize,
}

impl<E: Element> Operation for GatedRows<'_, E> {
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        const { assert!(GROUP.is_multiple_of(<S::V as Vector>::LANES), "vectors are within groups") };
        let Self { function, x, stride, rows, width, out, out_stride } = self;
        for_each_function!(function, KIND => for row in 0..rows {
            let x = &x[row * stride..][..2 * width.next_multiple_of(GROUP)];
            for_vectors::<S::V>(width, |i, count| {
                // SAFETY: the instruction set and the rows of `out` are the caller's duty; a vector is within a group, whose gates and
                // ups are in `x`.
                unsafe {
                    let gate = x.as_ptr().add(i / GROUP * 2 * GROUP + i % GROUP);
                    let (gate, up) = (S::V::loadu_up_to(gate, count), S::V::loadu_up_to(gate.add(GROUP), count));
                    KIND.of(gate).mul(up).store_elements(out.add(row * out_stride + i), count);
                }
            });
        });
    }
}
