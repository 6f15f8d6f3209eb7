//! What products need of tiles.

/// Rows of a tile.
pub(crate) const ROWS: usize = 16;

/// Bytes of a row of a tile.
pub(crate) const ROW_BYTES: usize = 64;

/// The f32 or i32 of a row of a tile of sums.
pub(crate) const COLUMNS: usize = ROW_BYTES / size_of::<u32>();

/// The eight tiles of a thread, numbered 0 to 7, each of 16 rows of 64 bytes.
///
/// A factor's second tile has a line of 16 words for each word of the first one's rows: word `k` of row `m` of the first is
/// multiplied with word `n` of line `k` of the second and added to word `n` of row `m` of the sums.
pub trait Tiles {
    /// Configured tiles. They are released when the value is dropped.
    ///
    /// # Safety
    /// The process may use the instructions. The thread has no other value of the kind.
    unsafe fn new() -> Self;

    /// Zeroes tile `T`.
    fn tilezero<const T: usize>(&mut self);

    /// Reads the rows of tile `T`, `stride` bytes apart.
    ///
    /// # Safety
    /// They may be read.
    unsafe fn tileloadd<const T: usize>(&mut self, from: *const u8, stride: usize);

    /// Writes the rows of tile `T`, `stride` bytes apart.
    ///
    /// # Safety
    /// They may be written.
    unsafe fn tilestored<const T: usize>(&mut self, to: *mut u8, stride: usize);

    /// Adds to the f32 of tile `SUMS` the products of pairs of bf16 of tiles `A` and `B`.
    fn tdpbf16ps<const SUMS: usize, const A: usize, const B: usize>(&mut self);

    /// Adds to the i32 of tile `SUMS` the products of fours of bytes, of `A` unsigned, of `B` signed.
    fn tdpbusd<const SUMS: usize, const A: usize, const B: usize>(&mut self);
}
