//! The tile operations that products need.

/// Rows of a tile.
pub(crate) const ROWS: usize = 16;

/// Bytes of a row of a tile.
pub(crate) const ROW_BYTES: usize = 64;

/// Number of f32 or i32 in a row of a tile of sums.
pub(crate) const COLUMNS: usize = ROW_BYTES / size_of::<u32>();

/// The eight tiles of a thread, numbered 0 to 7, each of 16 rows of 64 bytes.
///
/// The second operand of a product has a line of 16 words for each word of a row of the first: word `k` of row `m` of the
/// first is multiplied with word `n` of line `k` of the second, and the product is added to word `n` of row `m` of the sums.
pub trait Tiles {
    /// Configures the tiles. They are released when the value is dropped.
    ///
    /// # Safety
    /// The process may use the instructions, and the thread has no other value of this type.
    unsafe fn new() -> Self;

    /// Zeroes tile `T`.
    fn tilezero<const T: usize>(&mut self);

    /// Reads the rows of tile `T`, `stride` bytes apart.
    ///
    /// # Safety
    /// They may be read.
    unsafe fn tileloadd<const T: usize>(&mut self, from: *const u8, stride: usize);

    /// [`tileloadd`](Self::tileloadd) with the hint to leave the lines in L2, so that they do not displace others from L1.
    ///
    /// # Safety
    /// As [`tileloadd`](Self::tileloadd).
    unsafe fn tileloaddt1<const T: usize>(&mut self, from: *const u8, stride: usize) {
        // SAFETY: the caller's duty.
        unsafe { self.tileloadd::<T>(from, stride) }
    }

    /// Writes the rows of tile `T`, `stride` bytes apart.
    ///
    /// # Safety
    /// They may be written.
    unsafe fn tilestored<const T: usize>(&mut self, to: *mut u8, stride: usize);

    /// Adds the products of bf16 pairs of tiles `A` and `B` to the f32 of tile `SUMS`.
    fn tdpbf16ps<const SUMS: usize, const A: usize, const B: usize>(&mut self);

    /// Adds the products of groups of four bytes, unsigned in tile `A` and signed in tile `B`, to the i32 of tile `SUMS`.
    fn tdpbusd<const SUMS: usize, const A: usize, const B: usize>(&mut self);
}
