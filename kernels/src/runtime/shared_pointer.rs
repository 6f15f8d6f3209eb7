//! A pointer for threads that write to different places of one slice.

/// A pointer that several threads write through, each to different places.
#[derive(Debug)]
pub(crate) struct SharedPointer<T>(*mut T);

impl<T> Clone for SharedPointer<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for SharedPointer<T> {}

// SAFETY: no two threads may use the same place; code that reads or writes through the pointer ensures it.
unsafe impl<T: Send> Send for SharedPointer<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for SharedPointer<T> {}

impl<T> SharedPointer<T> {
    pub(crate) fn new(slice: &mut [T]) -> Self {
        Self(slice.as_mut_ptr())
    }

    pub(crate) fn from_raw(start: *mut T) -> Self {
        Self(start)
    }

    /// The pointer advanced by `count` elements.
    pub(crate) fn at(self, count: usize) -> *mut T {
        self.0.wrapping_add(count)
    }
}
