//! Gathers, scatters and type conversions of rows. Gathers move rows between compact space, ragged space and the pooled rows.

use crate::element::Element;
use crate::error::{KernelError, check_len};
use crate::isa::Isa;
use crate::runtime::thread_pool;
use crate::simd::{self, Operation, Simd, Vector, for_vectors};
use crate::store::Store;

/// Minimum output in bytes to use several threads: smaller copies are done before a second thread has joined.
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

/// `out[i] = table[ids[i]]` as `f32`, or `out[i] += table[ids[i]]`, for rows of `width` elements.
///
/// `table` is `[rows, width]`, `out` is `[ids.len(), width]`.
///
/// # Errors
/// As for [`gather_rows`].
pub fn embed_rows<E: Element>(
    table: &[E],
    width: usize,
    ids: &[u32],
    store: Store,
    out: &mut [f32],
) -> Result<(), KernelError> {
    let rows = crate::error::whole_rows("table", width, table.len())?;
    check_len("out", ids.len() * width, out.len())?;
    if let Some(&bad) = ids.iter().find(|&&id| id as usize >= rows) {
        return Err(KernelError::Index { argument: "id", found: bad as usize, limit: rows });
    }
    for_row_blocks(out, width, |first, out| {
        for (out, &id) in out.chunks_exact_mut(width).zip(&ids[first..]) {
            let row = out.iter_mut().zip(&table[id as usize * width..][..width]);
            match store {
                Store::Overwrite => row.for_each(|(out, x)| *out = x.to_f32()),
                Store::Accumulate => row.for_each(|(out, x)| *out += x.to_f32()),
            }
        }
    });
    Ok(())
}

/// `out[i] = row` for every row of `out`.
///
/// # Errors
/// If `out` is not a whole number of rows.
pub fn fill_rows(row: &[f32], out: &mut [f32]) -> Result<(), KernelError> {
    crate::error::whole_rows("out", row.len(), out.len())?;
    for_row_blocks(out, row.len(), |_, out| out.chunks_exact_mut(row.len()).for_each(|out| out.copy_from_slice(row)));
    Ok(())
}

/// `out += x`
///
/// # Errors
/// If the lengths differ or are not a whole number of rows of `width`.
pub fn add_rows(x: &[f32], width: usize, out: &mut [f32]) -> Result<(), KernelError> {
    crate::error::whole_rows("x", width, x.len())?;
    check_len("out", x.len(), out.len())?;
    for_row_blocks(out, width, |first, out| {
        out.iter_mut().zip(&x[first * width..]).for_each(|(out, x)| *out += x);
    });
    Ok(())
}

/// `out[index[i]] += factors[i] * src[i]` for rows of `width` values, one after another.
///
/// # Errors
/// If the lengths do not fit together, or an index is not a row of `out`.
pub fn scatter_add_rows(
    src: &[f32],
    width: usize,
    index: &[u32],
    factors: &[f32],
    out: &mut [f32],
) -> Result<(), KernelError> {
    let rows = crate::error::whole_rows("out", width, out.len())?;
    check_len("src", index.len() * width, src.len())?;
    check_len("factors", index.len(), factors.len())?;
    if let Some(&bad) = index.iter().find(|&&i| i as usize >= rows) {
        return Err(KernelError::Index { argument: "index", found: bad as usize, limit: rows });
    }
    for ((src, &i), factor) in src.chunks_exact(width).zip(index).zip(factors) {
        let out = &mut out[i as usize * width..][..width];
        out.iter_mut().zip(src).for_each(|(out, x)| *out += factor * x);
    }
    Ok(())
}

/// `out[i][c] = x[i][c % width]` in the `own[i]`-th group of `group` columns, and 0 elsewhere: each row keeps the columns of its own group.
/// `x` holds either the columns of all groups or only the row's own.
///
/// `x` is `[own.len(), width]`, `out` is `[own.len(), out_width]`.
///
/// # Errors
/// If the lengths do not fit together, `out_width` is not a multiple of `group`, or a row's group is out of range.
pub fn own_columns<E: Element>(
    x: &[f32],
    width: usize,
    own: &[u32],
    group: usize,
    out: &mut [E],
    out_width: usize,
) -> Result<(), KernelError> {
    check_len("x", own.len() * width, x.len())?;
    check_len("out", own.len() * out_width, out.len())?;
    let groups = crate::error::whole_rows("a row of out", group, out_width)?;
    if width != out_width {
        check_len("a row of x", group, width)?;
    }
    if let Some(&bad) = own.iter().find(|&&own| own as usize >= groups) {
        return Err(KernelError::Index { argument: "own", found: bad as usize, limit: groups });
    }
    for_row_blocks(out, out_width, |first, out| {
        let rows = x[first * width..].chunks_exact(width).zip(&own[first..]);
        for (out, (x, &own)) in out.chunks_exact_mut(out_width).zip(rows) {
            out.fill(E::from_f32(0.0));
            let start = own as usize * group;
            let x = &x[start % width..][..group];
            out[start..][..group].iter_mut().zip(x).for_each(|(out, &x)| *out = E::from_f32(x));
        }
    });
    Ok(())
}

/// `x *= factor` for rows of `width` values.
///
/// # Errors
/// If `x` is not a whole number of rows.
pub fn scale_rows(x: &mut [f32], width: usize, factor: f32) -> Result<(), KernelError> {
    crate::error::whole_rows("x", width, x.len())?;
    for_row_blocks(x, width, |_, x| x.iter_mut().for_each(|x| *x *= factor));
    Ok(())
}

/// `out = x`, rounded to the nearest, ties to even.
///
/// # Errors
/// If the lengths differ.
pub fn convert<E: Element>(x: &[f32], out: &mut [E]) -> Result<(), KernelError> {
    convert_with(Isa::best(), x, out)
}

/// [`convert`] with a chosen instruction set.
#[doc(hidden)]
pub fn convert_with<E: Element>(isa: Isa, x: &[f32], out: &mut [E]) -> Result<(), KernelError> {
    check_len("out", x.len(), out.len())?;
    for_row_blocks(out, PIECE, |first, out| {
        let x = &x[first * PIECE..][..out.len()];
        simd::run(isa, Convert { x, out });
    });
    Ok(())
}

/// Values of a task where row boundaries do not matter; a multiple of every vector length.
pub(crate) const PIECE: usize = 64;

struct Convert<'a, E> {
    x: &'a [f32],
    out: &'a mut [E],
}

impl<E: Element> Operation for Convert<'_, E> {
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        for_vectors::<S::V>(self.x.len(), |i, count| {
            // SAFETY: the instruction set is the caller's duty; vectors are within both slices.
            unsafe {
                S::V::loadu_up_to(self.x.as_ptr().add(i), count).store_elements(self.out.as_mut_ptr().add(i), count);
            }
        });
    }
}

/// Calls `f` with blocks of rows of `out` and the index of their first row, on all cores if the output is large.
pub(crate) fn for_row_blocks<T: Send>(out: &mut [T], width: usize, f: impl Fn(usize, &mut [T]) + Sync) {
    if size_of_val(out) < PARALLEL_BYTES {
        return f(0, out);
    }
    let rows = (BLOCK_BYTES / (width * size_of::<T>())).max(1);
    thread_pool::for_each_block(out, rows * width, |block, out| f(block * rows, out));
}
