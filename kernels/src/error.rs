//! The error of operations with invalid arguments.

/// A call with invalid arguments. Nothing was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KernelError {
    /// A slice has the wrong length.
    #[error("{argument} has {found} elements where {expected} are needed")]
    Length {
        /// The argument.
        argument: &'static str,
        /// Elements needed.
        expected: usize,
        /// Elements given.
        found: usize,
    },
    /// A length is not a multiple of the row width, or a width is zero.
    #[error("{argument} has {found} elements, which is not a whole number of rows of {width}")]
    Rows {
        /// The argument.
        argument: &'static str,
        /// Elements of a row.
        width: usize,
        /// Elements given.
        found: usize,
    },
    /// An index is out of range.
    #[error("{argument} is {found}, but must be less than {limit}")]
    Index {
        /// The argument.
        argument: &'static str,
        /// The index.
        found: usize,
        /// One more than the largest valid index.
        limit: usize,
    },
    /// The system is out of memory.
    #[error("there is no memory for {words} words of weights")]
    Memory {
        /// Words of four bytes.
        words: usize,
    },
    /// A value that the operation does not accept.
    #[error("{argument} is {found}, but must be {expected}")]
    Value {
        /// The argument.
        argument: &'static str,
        /// The value.
        found: usize,
        /// Allowed values.
        expected: &'static str,
    },
}

/// `Ok` if a slice has exactly `expected` elements.
pub(crate) fn check_len(argument: &'static str, expected: usize, found: usize) -> Result<(), KernelError> {
    if expected == found { Ok(()) } else { Err(KernelError::Length { argument, expected, found }) }
}

/// The number of rows of `width` elements in a slice of `found`.
pub(crate) fn whole_rows(argument: &'static str, width: usize, found: usize) -> Result<usize, KernelError> {
    if width == 0 || !found.is_multiple_of(width) {
        return Err(KernelError::Rows { argument, width, found });
    }
    Ok(found / width)
}
