//! Errors that are returned after the rows before them.
//!
//! Invariant: an error is returned once, and no row made before it is lost.

use super::Batch;
use crate::{Error, Result};

/// An error that waits until the rows before it are returned.
#[derive(Debug, Default)]
pub(crate) struct LateError(Option<Error>);

impl LateError {
    /// # Errors
    /// The waiting error.
    pub(crate) fn check(&mut self) -> Result<()> {
        self.0.take().map_or(Ok(()), Err)
    }

    /// The rows made until `ended`, whose error waits if there are some.
    ///
    /// # Errors
    /// The error of `ended`, if there are no rows.
    pub(crate) fn after(
        &mut self,
        made: Option<Batch>,
        ended: Result<()>,
    ) -> Result<Option<Batch>> {
        match (&made, ended) {
            (None, Err(error)) => return Err(error),
            (_, ended) => self.0 = ended.err(),
        }
        Ok(made)
    }
}
