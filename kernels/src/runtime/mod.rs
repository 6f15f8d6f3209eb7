//! Threads and memory for the operations.

pub(crate) mod claims;
pub(crate) mod huge_pages;
pub(crate) mod scratch;
pub(crate) mod shared_pointer;
pub(crate) mod thread_pool;

pub use huge_pages::advise_huge_pages;
pub use thread_pool::{ThreadPool, touch};
