//! Texts that an import has unpacked: ranges of a temporary file. The values of a record follow its text.
//!
//! Invariant: the bytes of a text were written before it is made, and never change. What values are is not known here.

use std::fs::File;
use std::io;
use std::sync::Arc;

/// The place of a text.
#[derive(Clone, Debug)]
pub(crate) struct UnpackedText {
    file: Arc<File>,
    start: u64,
    /// Bytes of the values behind the text.
    values_bytes: u32,
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
            values_bytes: 0,
        }
    }

    /// The same text, which `values_bytes` bytes of values follow.
    #[cfg_attr(not(feature = "formats"), allow(dead_code))]
    pub(crate) fn with_values(self, values_bytes: u32) -> UnpackedText {
        UnpackedText {
            values_bytes,
            ..self
        }
    }

    pub(crate) fn has_values(&self) -> bool {
        self.values_bytes > 0
    }

    /// The bytes of the values behind a text of `text_bytes` bytes.
    pub(crate) fn read_values(&self, text_bytes: u64) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; self.values_bytes as usize];
        self.read_at(&mut bytes, text_bytes)?;
        Ok(bytes)
    }

    /// Fills `buffer` with the bytes from `offset` of the text on.
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
