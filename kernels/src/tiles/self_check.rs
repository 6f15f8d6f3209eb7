//! Comparison of an implementation of the tiles with the software model, bit for bit.

use super::model::Model;
use super::tile::{COLUMNS, ROW_BYTES, ROWS, Tiles};

/// Row stride of the operands in bytes: not a multiple of a tile row, as in packed weights.
const STRIDE: usize = 2 * ROW_BYTES + 4;

/// Rounds of the check, each with different numbers.
const ROUNDS: u32 = 8;

/// True if `T` gives the model's results in both types, for numbers of all magnitudes, including denormals and infinities.
///
/// # Safety
/// As [`Tiles::new`].
pub(crate) unsafe fn check<T: Tiles>() -> bool {
    (0..ROUNDS).all(|round| {
        let factors = Factors::new(round);
        // SAFETY: the caller's duty for `T`; the model needs nothing.
        unsafe { factors.multiply::<T>() == factors.multiply::<Model>() }
    })
}

struct Factors {
    a: Vec<u8>,
    b: Vec<u8>,
    sums: Vec<u8>,
}

impl Factors {
    fn new(round: u32) -> Self {
        let mut state = round.wrapping_mul(0x9E37_79B9) + 1;
        let mut random = || {
            // Xorshift (Marsaglia, 2003).
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state
        };
        // The high byte of a bf16 has its sign and most of its exponent: arbitrary in every other round, near 1 in the others.
        let mut bytes = |len: usize| -> Vec<u8> {
            let byte = |i: usize| {
                let byte = (random() >> 11) as u8;
                if i % 2 == 1 && round.is_multiple_of(2) { byte & 0x80 | 0x3E | byte & 1 } else { byte }
            };
            (0..len).map(byte).collect()
        };
        let [a, b] = std::array::from_fn(|_| bytes(STRIDE * ROWS));
        Self { a, b, sums: bytes(ROWS * ROW_BYTES) }
    }

    /// The sums of both kinds of products, computed one after the other on the same tiles. All NaNs count as equal, since
    /// their bits are not specified.
    unsafe fn multiply<T: Tiles>(&self) -> [[u32; ROWS * COLUMNS]; 3] {
        let mut out = [[0_u32; ROWS * COLUMNS]; 3];
        // SAFETY: the caller's duty; the slices have all rows of a tile.
        unsafe {
            let mut tiles = T::new();
            tiles.tileloadd::<1>(self.a.as_ptr(), STRIDE);
            tiles.tileloadd::<7>(self.b.as_ptr(), STRIDE);
            tiles.tileloadd::<2>(self.sums.as_ptr(), ROW_BYTES);
            tiles.tdpbusd::<2, 1, 7>();
            tiles.tdpbusd::<2, 7, 1>();
            tiles.tilestored::<2>(out[0].as_mut_ptr().cast(), ROW_BYTES);
            tiles.tilezero::<2>();
            tiles.tdpbf16ps::<2, 1, 7>();
            tiles.tilestored::<2>(out[1].as_mut_ptr().cast(), ROW_BYTES);
            tiles.tileloadd::<5>(self.sums.as_ptr(), ROW_BYTES);
            tiles.tdpbf16ps::<5, 7, 1>();
            tiles.tilestored::<5>(out[2].as_mut_ptr().cast(), ROW_BYTES);
        }
        for word in out[1..].as_flattened_mut() {
            if f32::from_bits(*word).is_nan() {
                *word = f32::NAN.to_bits();
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tiles of a faulty CPU: the second row is lost.
    struct Faulty(Model);

    impl Tiles for Faulty {
        unsafe fn new() -> Self {
            // SAFETY: the model needs nothing.
            Self(unsafe { Model::new() })
        }
        fn tilezero<const T: usize>(&mut self) {
            self.0.tilezero::<T>();
        }
        unsafe fn tileloadd<const T: usize>(&mut self, from: *const u8, stride: usize) {
            // SAFETY: the caller's duty.
            unsafe { self.0.tileloadd::<T>(from, stride) }
        }
        unsafe fn tilestored<const T: usize>(&mut self, to: *mut u8, stride: usize) {
            // SAFETY: the caller's duty.
            unsafe {
                self.0.tilestored::<T>(to, stride);
                to.add(stride).write_bytes(0, ROW_BYTES);
            }
        }
        fn tdpbf16ps<const SUMS: usize, const A: usize, const B: usize>(&mut self) {
            self.0.tdpbf16ps::<SUMS, A, B>();
        }
        fn tdpbusd<const SUMS: usize, const A: usize, const B: usize>(&mut self) {
            self.0.tdpbusd::<SUMS, A, B>();
        }
    }

    #[test]
    fn a_fault_is_found() {
        // SAFETY: models need nothing.
        unsafe {
            assert!(check::<Model>());
            assert!(!check::<Faulty>());
        }
    }

    #[test]
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    fn the_instructions_compute_what_the_manual_says() {
        use crate::tiles::Hardware;
        if !Hardware::is_permitted() {
            eprintln!("skipped: this CPU or system has no AMX");
            return;
        }
        // SAFETY: permitted, as just seen.
        assert!(unsafe { check::<Hardware>() });
    }

    /// `sum` plus `x` times 1 in the first element of a pair, plus `y` times 1 in the second.
    fn sum_of_pair(sum: f32, x: f32, y: f32) -> f32 {
        let [mut a, mut b, mut sums] = [[0_u32; ROWS * COLUMNS]; 3];
        a[0] = y.to_bits() & 0xFFFF_0000 | x.to_bits() >> 16;
        b[0] = 0x3F80_3F80;
        sums[0] = sum.to_bits();
        // SAFETY: the model needs nothing; the arrays are whole tiles.
        unsafe {
            let mut tiles = Model::new();
            tiles.tileloadd::<0>(sums.as_ptr().cast(), ROW_BYTES);
            tiles.tileloadd::<1>(a.as_ptr().cast(), ROW_BYTES);
            tiles.tileloadd::<2>(b.as_ptr().cast(), ROW_BYTES);
            tiles.tdpbf16ps::<0, 1, 2>();
            tiles.tilestored::<0>(sums.as_mut_ptr().cast(), ROW_BYTES);
        }
        f32::from_bits(sums[0])
    }

    #[test]
    fn the_model_adds_pairs_first_and_flushes_denormals() {
        let tiny = f32::from_bits(0x0001_0000);
        assert_eq!(sum_of_pair(1.0, 2.0, 4.0), 7.0);
        // Added one by one to the sum, both would be rounded away.
        let half_ulp = 2.0_f32.powi(-24);
        assert_eq!(sum_of_pair(1.0, half_ulp, half_ulp), 1.0 + 2.0 * half_ulp);
        assert_eq!(sum_of_pair(tiny, 0.0, 0.0), 0.0);
        assert_eq!(sum_of_pair(0.0, tiny, tiny), 0.0);
    }
}
