//! The machine's peaks: products whose operands stay in registers or AMX tiles, and memory bandwidth.

use crate::gemm::PackedMatrix;
use crate::isa::Isa;
use crate::runtime::thread_pool;
use crate::simd::{self, Dot, Format, L1, MAX_LANES, Operation, Simd, TileOperation, Vector, prefetch};
use crate::tiles::{COLUMNS, ROWS, Tiles};
use std::hint::black_box;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Independent sums: enough to hide the latency of two units.
const CHAINS: usize = 12;

/// Tiles of sums, as in a product.
const TILES: usize = 4;

/// Distance in words of the prefetch: a page.
const AHEAD: usize = 1024;

struct Peak<'a, P> {
    iterations: usize,
    /// Counts the multiplications and additions of words.
    words: &'a AtomicUsize,
    packing: PhantomData<P>,
}

impl<P: Format> Operation for Peak<'_, P> {
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        // SAFETY: the caller's duty.
        unsafe { chains::<P::Dot<S>>(self.iterations) }
        // A word of a widened dot product has half the elements of a packed one.
        let halves = if <P::Dot<S> as Dot>::IS_WIDENED { 1 } else { 2 };
        self.words.fetch_add(self.iterations * CHAINS * S::V::LANES * halves, Relaxed);
    }
}

impl<P: Format> TileOperation for Peak<'_, P> {
    #[inline(always)]
    unsafe fn run<S: Simd, T: Tiles>(self) {
        // SAFETY: the caller's duty.
        let mut tiles = unsafe { T::new() };
        for _ in 0..self.iterations {
            if P::IS_QUANTIZED {
                tiles.tdpbusd::<0, 4, 6>();
                tiles.tdpbusd::<1, 4, 7>();
                tiles.tdpbusd::<2, 5, 6>();
                tiles.tdpbusd::<3, 5, 7>();
            } else {
                tiles.tdpbf16ps::<0, 4, 6>();
                tiles.tdpbf16ps::<1, 4, 7>();
                tiles.tdpbf16ps::<2, 5, 6>();
                tiles.tdpbf16ps::<3, 5, 7>();
            }
        }
        self.words.fetch_add(2 * self.iterations * TILES * ROWS * COLUMNS * COLUMNS, Relaxed);
    }
}

/// Words of operands, each vector within one cache line.
#[repr(align(64))]
struct Factors([u32; CHAINS * MAX_LANES]);

/// # Safety
/// The CPU has the instructions of `D`.
#[inline(always)]
unsafe fn chains<D: Dot>(iterations: usize) {
    // Bytes are multiplied by one instruction and added by another. With equal operands the compiler would share one
    // multiplication between all sums, so each sum has its own operands.
    let has_own_factors = D::WIDENS_BYTES;
    let factors = black_box(Factors([0; CHAINS * MAX_LANES]));
    let words = factors.0.as_ptr();
    // SAFETY: `words` is long enough; the instructions are the caller's duty.
    unsafe {
        let (a, b) = (D::V::loadu(words.cast()), D::V::set1(f32::from_bits(*words)));
        // Sums are numbers, and numbers of zero bits are zero.
        let mut sums: [D::Sums; CHAINS] = std::mem::zeroed();
        for _ in 0..iterations {
            let words = if has_own_factors { black_box(words) } else { words };
            for (i, sum) in sums.iter_mut().enumerate() {
                let a = if has_own_factors { D::V::loadu(words.add(i * MAX_LANES).cast()) } else { a };
                *sum = D::fmadd(*sum, a, b);
            }
        }
        for sum in sums {
            black_box(D::to_vector(sum).to_array());
        }
    }
}

/// Multiplies on every thread and returns the total number of element multiplications and additions; the caller measures the time.
#[doc(hidden)]
pub fn run_peak<P: Format>(isa: Isa, iterations: usize) -> usize {
    let words = AtomicUsize::new(0);
    thread_pool::for_each(thread_pool::num_threads(), |_| {
        let peak = Peak::<P> { iterations, words: &words, packing: PhantomData };
        P::run(isa, peak);
    });
    words.into_inner() * P::ELEMENTS
}

struct Read<'a> {
    words: &'a [u32],
}

impl Operation for Read<'_> {
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        // SAFETY: the instructions are the caller's duty; vectors are within their chunk.
        unsafe {
            let mut largest = [S::V::set1(0.0); 8];
            for chunk in self.words.chunks_exact(8 * S::V::LANES) {
                for (i, largest) in largest.iter_mut().enumerate() {
                    let at = chunk.as_ptr().add(i * S::V::LANES);
                    prefetch::<L1>(at.wrapping_add(AHEAD));
                    // No floating-point sum: the bits of bytes may be denormal numbers, which are slow to add.
                    *largest = S::V::loadu(at.cast()).max(*largest);
                }
            }
            for largest in largest {
                black_box(largest.to_array());
            }
        }
    }
}

/// Reads the words of packed weights, split over all threads, and returns their bytes; the caller measures the time.
#[doc(hidden)]
pub fn run_read<P: Format>(isa: Isa, weight: &PackedMatrix<P>) -> usize {
    let words = weight.words();
    let threads = thread_pool::num_threads();
    thread_pool::for_each(threads, |thread| {
        let part = words.len() * thread / threads..words.len() * (thread + 1) / threads;
        simd::run(isa, Read { words: &words[part] });
    });
    size_of_val(words)
}
