//! Compressed files: recognized by their first bytes, decompressed while they are read, and written.
//!
//! Invariant: decompression needs memory for a window, never for the content. Damaged or cut input is an error, and several
//! compressed files behind each other are one, as the tools of all these formats read them.

use std::io::{self, BufRead, BufReader, Read, Write};

use lz4_flex::frame::FrameDecoder;

use crate::format::extension;

/// A format of compressed files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Compression {
    /// gzip, `.gz`.
    Gzip,
    /// Zstandard, `.zst`.
    Zstd,
    /// xz, `.xz`.
    Xz,
    /// bzip2, `.bz2`.
    Bzip2,
    /// LZ4 frames, `.lz4`.
    Lz4,
}

/// Base 2 logarithm of the largest window of Zstandard: what its own tool accepts without an option.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;
/// KiB of memory that decompression of xz may take: its largest preset needs 65 MiB.
const XZ_MEMORY_KIB_MAX: u32 = 256 << 10;
/// The level of written Zstandard.
const ZSTD_LEVEL: i32 = 3;

impl Compression {
    /// All compressions.
    pub const ALL: [Compression; 5] = [
        Compression::Gzip,
        Compression::Zstd,
        Compression::Xz,
        Compression::Bzip2,
        Compression::Lz4,
    ];

    /// The extensions of its files, each with the one that is left once they are decompressed.
    fn extensions(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Compression::Gzip => &[("gz", ""), ("tgz", ".tar"), ("taz", ".tar")],
            Compression::Zstd => &[("zst", ""), ("zstd", ""), ("tzst", ".tar")],
            Compression::Xz => &[("xz", ""), ("txz", ".tar")],
            Compression::Bzip2 => &[("bz2", ""), ("tbz2", ".tar"), ("tbz", ".tar")],
            Compression::Lz4 => &[("lz4", "")],
        }
    }

    /// The compression that the extension of a name shows.
    pub fn of_name(name: &[u8]) -> Option<Compression> {
        let extension = extension(name)?;
        Compression::ALL.into_iter().find(|compression| {
            let mut own = compression.extensions().iter();
            own.any(|(own, _)| extension.eq_ignore_ascii_case(own.as_bytes()))
        })
    }

    /// The compression of a file that begins with these bytes, ten of them or all.
    pub fn of_beginning(beginning: &[u8]) -> Option<Compression> {
        let is_bzip2 = beginning.starts_with(b"BZh")
            && beginning.get(4..).is_some_and(|block| {
                block.starts_with(b"1AY&SY") || block.starts_with(b"\x17rE8P\x90")
            });
        match beginning {
            [0x1F, 0x8B, 0x08, ..] => Some(Compression::Gzip),
            // A frame, or one to be skipped, as `pzstd` and `zstd --adapt` write.
            [0x28, 0xB5, 0x2F, 0xFD, ..] => Some(Compression::Zstd),
            [0xFD, b'7', b'z', b'X', b'Z', 0, ..] => Some(Compression::Xz),
            [0x04, 0x22, 0x4D, 0x18, ..] => Some(Compression::Lz4),
            _ if is_bzip2 => Some(Compression::Bzip2),
            _ => None,
        }
    }

    /// The name of the content of a file with this name.
    pub(crate) fn content_name(self, name: &[u8]) -> Vec<u8> {
        let Some(found) = extension(name) else {
            return name.to_vec();
        };
        let mut own = self.extensions().iter();
        match own.find(|(own, _)| found.eq_ignore_ascii_case(own.as_bytes())) {
            Some((_, rest)) => {
                let stem = &name[..name.len() - found.len() - 1];
                [stem, rest.as_bytes()].concat()
            }
            None => name.to_vec(),
        }
    }

    /// The content of a compressed stream.
    pub(crate) fn decompressed<'a>(
        self,
        source: Box<dyn Read + 'a>,
    ) -> io::Result<Box<dyn Read + 'a>> {
        let source = BufReader::with_capacity(64 << 10, source);
        Ok(match self {
            Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(source)),
            Compression::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(source)?;
                decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
                Box::new(decoder)
            }
            Compression::Xz => {
                let reader = lzma_rust2::XzReader::new_mem_limit(source, true, XZ_MEMORY_KIB_MAX);
                Box::new(reader)
            }
            Compression::Bzip2 => Box::new(bzip2::bufread::MultiBzDecoder::new(source)),
            Compression::Lz4 => Box::new(Lz4Frames {
                is_done: false,
                decoder: Some(FrameDecoder::new(EndWatch {
                    source,
                    is_exceeded: false,
                })),
            }),
        })
    }
}

/// Frames of LZ4 behind each other, each read by a decoder of its own.
struct Lz4Frames<R: Read> {
    /// Whether the last frame has ended.
    is_done: bool,
    /// None after a failure.
    decoder: Option<FrameDecoder<EndWatch<R>>>,
}

/// A source that records whether more was read than it has: the decoder takes that for the end of a frame.
struct EndWatch<R> {
    source: R,
    is_exceeded: bool,
}

impl<R: Read> Read for EndWatch<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.is_exceeded |= count == 0 && !buffer.is_empty();
        Ok(count)
    }
}

impl<R: BufRead> Read for Lz4Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() || self.is_done {
            return Ok(0);
        }
        loop {
            let Some(decoder) = &mut self.decoder else {
                return Err(io::ErrorKind::UnexpectedEof.into());
            };
            let count = decoder.read(buffer)?;
            if count > 0 {
                return Ok(count);
            }
            if decoder.get_ref().is_exceeded {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if decoder.get_mut().source.fill_buf()?.is_empty() {
                self.is_done = true;
                return Ok(0);
            }
            let source = self.decoder.take().map(FrameDecoder::into_inner);
            self.decoder = source.map(FrameDecoder::new);
        }
    }
}

/// A compressed file that is written.
pub struct Compressor<W: Write>(CompressorKind<W>);

enum CompressorKind<W: Write> {
    Gzip(flate2::write::GzEncoder<W>),
    Zstd(zstd::stream::write::Encoder<'static, W>),
}

impl<W: Write> std::fmt::Debug for Compressor<W> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Compressor").finish_non_exhaustive()
    }
}

impl<W: Write> Compressor<W> {
    /// A file of this compression; `None` if such files are read only.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn new(compression: Compression, target: W) -> io::Result<Option<Compressor<W>>> {
        Ok(Some(Compressor(match compression {
            Compression::Gzip => {
                let level = flate2::Compression::default();
                CompressorKind::Gzip(flate2::write::GzEncoder::new(target, level))
            }
            Compression::Zstd => {
                let mut encoder = zstd::stream::write::Encoder::new(target, ZSTD_LEVEL)?;
                encoder.include_checksum(true)?;
                CompressorKind::Zstd(encoder)
            }
            Compression::Xz | Compression::Bzip2 | Compression::Lz4 => return Ok(None),
        })))
    }

    /// Writes the end of the file. Without it readers report a file that is cut.
    ///
    /// # Errors
    /// Those of the target.
    pub fn finish(self) -> io::Result<W> {
        match self.0 {
            CompressorKind::Gzip(encoder) => encoder.finish(),
            CompressorKind::Zstd(encoder) => encoder.finish(),
        }
    }
}

impl<W: Write> Write for Compressor<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            CompressorKind::Gzip(encoder) => encoder.write(bytes),
            CompressorKind::Zstd(encoder) => encoder.write(bytes),
        }
    }

    /// Passes nothing on: a flush of compressed data costs size.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
