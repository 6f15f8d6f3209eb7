//! Row gather, which moves rows between compact space, ragged space and the pooled rows.

use crate::KernelError;
use crate::error::check_len;
use crate::thread_pool;

/// Smallest output in bytes that is shared out: smaller copies are done before a second thread has joined.
const PARALLEL_BYTES: usize = 1 << 15;

/// Bytes of the output that a task writes.
const BLOCK_BYTES: usize = 1 << 14;

/// `out[i] = src[index[i]]` for rows of `width` elements.
///
/// `src` is `[rows, width]`, `out` is `[index.len(), width]`.
///
/// # Errors
/// If `src` is not a whole number of rows, `out` has another length, or an index is not a row of `src`.
pub fn gather_rows<T: Copy + Send + Sync>(
    src: &[T],
    width: usize,
    index: &[u32],
    out: &mut [T],
) -> Result<(), KernelError> {
    let rows = crate::error::whole_rows("src", width, src.len())?;
    check_len("out", index.len() * width, out.len())?;
    if let Some(&bad) = index.iter().find(|&&i| i as usize >= rows) {
        return Err(KernelError::Index { argument: "index", found: bad as usize, limit: rows });
    }
    for_row_blocks(out, width, |first, out| {
        for (out, &i) in out.chunks_exact_mut(width).zip(&index[first..]) {
            out.copy_from_slice(&src[i as usize * width..][..width]);
        }
    });
    Ok(())
}

/// Calls `f` with blocks of rows of `out` and the index of their first row, on all cores if the output is large.
pub(crate) fn for_row_blocks<T: Send>(out: &mut [T], width: usize, f: impl Fn(usize, &mut [T]) + Sync) {
    if size_of_val(out) < PARALLEL_BYTES {
        return f(0, out);
    }
    let rows = (BLOCK_BYTES / (width * size_of::<T>())).max(1);
    thread_pool::for_each_block(out, rows * width, |block, out| f(block * rows, out));
}
