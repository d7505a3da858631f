//! Texts that an import has unpacked: ranges of a temporary file.
//!
//! Invariant: the bytes of a text were written before it is made, and never change.

use std::fs::File;
use std::io;
use std::sync::Arc;

/// The place of a text.
#[derive(Clone, Debug)]
pub(crate) struct UnpackedText {
    file: Arc<File>,
    start: u64,
}

impl PartialEq for UnpackedText {
    fn eq(&self, other: &UnpackedText) -> bool {
        Arc::ptr_eq(&self.file, &other.file) && self.start == other.start
    }
}

impl Eq for UnpackedText {}

impl UnpackedText {
    #[cfg_attr(not(feature = "formats"), allow(dead_code))]
    pub(crate) fn new(file: &Arc<File>, start: u64) -> UnpackedText {
        UnpackedText {
            file: Arc::clone(file),
            start,
        }
    }

    /// Fills `buffer` with the bytes of the text from `offset` on.
    pub(crate) fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let offset = self.start + offset;
        #[cfg(unix)]
        {
            std::os::unix::fs::FileExt::read_exact_at(&*self.file, buffer, offset)
        }
        #[cfg(windows)]
        {
            use std::os::windows::fs::FileExt;
            let mut filled = 0;
            while filled < buffer.len() {
                match self
                    .file
                    .seek_read(&mut buffer[filled..], offset + filled as u64)?
                {
                    0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    count => filled += count,
                }
            }
            Ok(())
        }
    }
}
