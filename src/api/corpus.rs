//! The methods of `Corpus` that run as statements do: imports, exports, checks and recompression.
//!
//! Invariant: thin. Each method runs the code of its statement.

use std::path::Path;

use crate::Result;
use crate::execute::{check, copy_from, copy_to, recompress};
use crate::handles::corpus::Corpus;
use crate::ingest::{CopyOptions, Progress, Report};
use crate::storage::{Recompression, SegmentCheck};

impl Corpus {
    /// Imports a file, a directory with all below it, or the files of a glob.
    ///
    /// Names are paths relative to the directory (to the fixed front of the
    /// glob), with `/`. All files are added in one step or none is. Memory is
    /// bounded by the corpus' segment size, not by the text.
    ///
    /// # Errors
    /// If a path cannot be read (unless skipped), a name is already there (unless skipped or replaced), the
    /// disk is full, or the database is read-only. Nothing is added then.
    pub fn copy_from(&self, path: impl AsRef<Path>, options: &CopyOptions<'_>) -> Result<Report> {
        let interrupt = self.shared().runtime.interrupt();
        copy_from(self, path.as_ref(), options, &interrupt)
    }

    /// Writes every file, byte for byte, below `directory`, which is created if it is missing. Returns the number of files.
    ///
    /// An existing file with the same bytes is left as it is, so the next call completes the work of a killed process.
    ///
    /// # Errors
    /// If a file of that name exists already with other bytes, or cannot be written. What was
    /// written before is removed again.
    pub fn copy_to(&self, directory: impl AsRef<Path>, progress: &dyn Progress) -> Result<u64> {
        copy_to(
            self,
            directory.as_ref(),
            progress,
            &self.shared().runtime.interrupt(),
        )
    }

    /// Verifies every checksum and every invariant of the corpus, down to the content of each file.
    ///
    /// # Errors
    /// If the corpus has been dropped. Damage is not an error here, it is what is reported.
    pub fn check(&self, progress: &dyn Progress) -> Result<Vec<SegmentCheck>> {
        check(self, progress, &self.shared().runtime.interrupt())
    }

    /// Merges all edits and segments into new segments: those that one import of the current files would make. None if they
    /// are so already.
    ///
    /// Readers and writers go on meanwhile.
    ///
    /// # Errors
    /// If the corpus has been dropped, a segment is damaged, the disk is full or the database cannot be written. Nothing has
    /// changed then.
    pub fn recompress(&self, progress: &dyn Progress) -> Result<Option<Recompression>> {
        recompress(self, progress, &self.shared().runtime.interrupt())
    }
}
