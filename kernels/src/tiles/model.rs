//! Software model of the tiles in plain Rust, as specified by Intel's manual.

use super::tile::{COLUMNS, ROW_BYTES, ROWS, Tiles};

/// The tiles of a thread, computed without AMX.
pub(crate) struct Model([[u32; ROWS * COLUMNS]; 8]);

/// The f32 with the bits of a bf16; a denormal counts as 0 (DAZ).
fn widen(bits: u16) -> f32 {
    flush(f32::from_bits(u32::from(bits) << 16))
}

/// Denormals become 0 of the same sign (DAZ, FTZ).
fn flush(x: f32) -> f32 {
    if x.is_subnormal() { 0.0_f32.copysign(x) } else { x }
}

impl Model {
    /// Combines the words of a row of `A` with the words of a column of `B`, for each row and column of the sums.
    fn for_products<const SUMS: usize, const A: usize, const B: usize>(
        &mut self,
        f: impl Fn(u32, &[(u32, u32)]) -> u32,
    ) {
        for m in 0..ROWS {
            for n in 0..COLUMNS {
                let words: [(u32, u32); COLUMNS] =
                    std::array::from_fn(|k| (self.0[A][m * COLUMNS + k], self.0[B][k * COLUMNS + n]));
                let sum = &mut self.0[SUMS][m * COLUMNS + n];
                *sum = f(*sum, &words);
            }
        }
    }
}

impl Tiles for Model {
    unsafe fn new() -> Self {
        Self([[0; ROWS * COLUMNS]; 8])
    }

    fn tilezero<const T: usize>(&mut self) {
        self.0[T] = [0; ROWS * COLUMNS];
    }

    unsafe fn tileloadd<const T: usize>(&mut self, from: *const u8, stride: usize) {
        for (row, words) in self.0[T].chunks_exact_mut(COLUMNS).enumerate() {
            // SAFETY: the caller's duty; `words` has the bytes of a row.
            unsafe { std::ptr::copy_nonoverlapping(from.add(row * stride), words.as_mut_ptr().cast(), ROW_BYTES) };
        }
    }

    unsafe fn tilestored<const T: usize>(&mut self, to: *mut u8, stride: usize) {
        for (row, words) in self.0[T].chunks_exact(COLUMNS).enumerate() {
            // SAFETY: the caller's duty; `words` has the bytes of a row.
            unsafe { std::ptr::copy_nonoverlapping(words.as_ptr().cast(), to.add(row * stride), ROW_BYTES) };
        }
    }

    /// The products of the first elements of all pairs are summed in one chain of fused multiply-adds, the products of the
    /// second elements in another; the sum of both is added to the sum so far. Denormals are 0 throughout.
    fn tdpbf16ps<const SUMS: usize, const A: usize, const B: usize>(&mut self) {
        self.for_products::<SUMS, A, B>(|sum, words| {
            let chain = |shift: u32| {
                words.iter().fold(0.0_f32, |chain, (a, b)| {
                    flush(widen((a >> shift) as u16).mul_add(widen((b >> shift) as u16), chain))
                })
            };
            let products = flush(chain(0) + chain(16));
            flush(flush(f32::from_bits(sum)) + products).to_bits()
        });
    }

    /// The sums wrap around.
    fn tdpbusd<const SUMS: usize, const A: usize, const B: usize>(&mut self) {
        self.for_products::<SUMS, A, B>(|sum, words| {
            words.iter().fold(sum, |sum, (a, b)| {
                let products = a.to_le_bytes().into_iter().zip(b.to_le_bytes());
                products.fold(sum, |sum, (a, b)| sum.wrapping_add_signed(i32::from(a) * i32::from(b as i8)))
            })
        });
    }
}
