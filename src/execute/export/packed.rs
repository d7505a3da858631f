//! Outputs that are compressed while they are written.
//!
//! Invariant: the file is complete after `finish` only. Without the feature `formats`, compressed outputs are refused.

use std::io::{self, Write};

use zipfdb_sql::plan::Compression;

use crate::Result;

/// An output, perhaps compressed.
pub(crate) enum PackedOutput<W: Write> {
    Plain(W),
    #[cfg(feature = "formats")]
    Compressed(Box<zipfdb_formats::Compressor<W>>),
}

impl<W: Write> PackedOutput<W> {
    /// # Errors
    /// If the output cannot be compressed; `failed` makes the error of a failure.
    pub(crate) fn new(
        compression: Option<Compression>,
        target: W,
        failed: impl Fn(io::Error) -> crate::Error,
    ) -> Result<PackedOutput<W>> {
        let Some(compression) = compression else {
            return Ok(PackedOutput::Plain(target));
        };
        #[cfg(feature = "formats")]
        {
            let compression = match compression {
                Compression::Gzip => zipfdb_formats::Compression::Gzip,
                Compression::Zstd => zipfdb_formats::Compression::Zstd,
            };
            let compressor = zipfdb_formats::Compressor::new(compression, target);
            let compressor = compressor.map_err(&failed)?;
            let compressor = compressor.ok_or_else(|| failed(io::ErrorKind::Unsupported.into()))?;
            Ok(PackedOutput::Compressed(Box::new(compressor)))
        }
        #[cfg(not(feature = "formats"))]
        {
            let _ = (compression, failed);
            Err(crate::error::needs_formats("compressed output"))
        }
    }

    /// Writes the end, and returns the output.
    pub(crate) fn finish(self) -> io::Result<W> {
        match self {
            PackedOutput::Plain(target) => Ok(target),
            #[cfg(feature = "formats")]
            PackedOutput::Compressed(compressor) => compressor.finish(),
        }
    }
}

impl<W: Write> Write for PackedOutput<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            PackedOutput::Plain(target) => target.write(bytes),
            #[cfg(feature = "formats")]
            PackedOutput::Compressed(compressor) => compressor.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            PackedOutput::Plain(target) => target.flush(),
            #[cfg(feature = "formats")]
            PackedOutput::Compressed(compressor) => compressor.flush(),
        }
    }
}
