//! General compressors over a whole corpus, in-process, with the presets of their command line tools.
//!
//! Each is one thread and one stream over the files in order of name: what `cat corpus/* | tool` writes, counted and
//! thrown away. They show how small text gets when it need not be queried.

use std::io::{self, Read, Write};

use crate::Result;
use crate::corpus::Corpus;

/// A compressor at a preset.
#[derive(Clone, Copy)]
pub enum Compressor {
    Gzip6,
    Zstd3,
    Zstd19Long,
    Xz6,
}

impl Compressor {
    /// All of them, in the order of the table.
    pub const ALL: [Compressor; 4] = [
        Compressor::Gzip6,
        Compressor::Zstd3,
        Compressor::Zstd19Long,
        Compressor::Xz6,
    ];

    /// Its name for `--only` and in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Compressor::Gzip6 => "gzip",
            Compressor::Zstd3 => "zstd-3",
            Compressor::Zstd19Long => "zstd-19",
            Compressor::Xz6 => "xz",
        }
    }

    /// The command line it equals, for the table.
    pub fn title(self) -> &'static str {
        match self {
            Compressor::Gzip6 => "gzip -6",
            Compressor::Zstd3 => "zstd -3",
            Compressor::Zstd19Long => "zstd -19 --long",
            Compressor::Xz6 => "xz -6",
        }
    }

    /// Bytes that the concatenated files of `corpus` compress to.
    pub fn size(self, corpus: &Corpus) -> Result<u64> {
        let mut source = corpus.reader();
        let size = match self {
            Compressor::Gzip6 => {
                let mut encoder =
                    flate2::write::GzEncoder::new(Counter(0), flate2::Compression::new(6));
                copy(&mut source, &mut encoder)?;
                encoder.finish()?.0
            }
            Compressor::Zstd3 => {
                let mut encoder = zstd::Encoder::new(Counter(0), 3)?;
                encoder.include_checksum(true)?;
                copy(&mut source, &mut encoder)?;
                encoder.finish()?.0
            }
            Compressor::Zstd19Long => {
                let mut encoder = zstd::Encoder::new(Counter(0), 19)?;
                encoder.include_checksum(true)?;
                encoder.long_distance_matching(true)?;
                encoder.window_log(27)?;
                copy(&mut source, &mut encoder)?;
                encoder.finish()?.0
            }
            Compressor::Xz6 => {
                let mut encoder = liblzma::write::XzEncoder::new(Counter(0), 6);
                copy(&mut source, &mut encoder)?;
                encoder.finish()?.0
            }
        };
        Ok(size)
    }
}

fn copy(source: &mut impl Read, target: &mut impl Write) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 18];
    loop {
        let read = source.read(&mut buffer)?;
        if read == 0 {
            return Ok(());
        }
        target.write_all(&buffer[..read])?;
    }
}

/// Counts what is written to it.
struct Counter(u64);

impl Write for Counter {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.0 += buffer.len() as u64;
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
