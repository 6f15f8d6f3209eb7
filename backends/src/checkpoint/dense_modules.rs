//! Dense modules of a checkpoint, as far as its purpose needs them.

use super::capabilities::{Evidence, Purpose};
use super::st_modules::{self, DenseModule};
use crate::error::LoadError;

impl Evidence<'_> {
    /// A dense module with an input of `in_features` values; without weights in a summary, or if they are not on disk.
    ///
    /// # Errors
    /// As for [`st_modules::dense`].
    pub(super) fn dense(&self, folder: &str, in_features: usize) -> Result<DenseModule, LoadError> {
        let with_weights = match self.purpose {
            Purpose::Run => true,
            Purpose::Check => self.files.has_tensors()?,
            Purpose::Summary => false,
        };
        st_modules::dense(self.files, folder, in_features, with_weights)
    }
}
