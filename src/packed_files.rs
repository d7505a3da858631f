//! Files to packed files and back, for GPUs and many threads to unpack.
//!
//! The invariant: under the name of the target there is nothing, or all of it, on disk: it is written beside and renamed. Memory is
//! that of some data blocks a thread, whatever the size of the file. No database is involved.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use rayon::ThreadPool;
use rayon::prelude::*;
use tempfile::NamedTempFile;
use zipfdb_kernels::gompresso::{
    BlockEntry, BlockPacker, BlockUnpacker, ENTRY_SIZE, HEADER_SIZE, PackHeader, PackOptions,
    PackedError, PackedPart, References,
};

use crate::runtime::start_pool;
use crate::{Error, Progress, Result, paths};

/// Data blocks that are in memory at a time, for each thread.
const BLOCKS_PER_THREAD: usize = 4;

/// Sizes of a file and of what it was packed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PackedSizes {
    /// Bytes of the text.
    pub text: u64,
    /// Bytes of the packed file.
    pub packed: u64,
}

/// Packs the file `source` to a new file `target`, on all processors.
///
/// # Errors
/// [`Error::Packed`] if the format has no room for an option, [`Error::Invalid`] if `source` is no regular file or `target` exists or
/// is inside a database, [`Error::Io`] if one of them cannot be read or written.
pub fn pack_file(
    source: impl AsRef<Path>,
    target: impl AsRef<Path>,
    options: &PackOptions,
    progress: &dyn Progress,
) -> Result<PackedSizes> {
    let source = SourceFile::open(source.as_ref())?;
    let mut header = options.header(source.size).map_err(source.packed())?;
    let target = PackTarget::create(target.as_ref())?;
    let pool = start_pool(None)?;
    let mut output = BufWriter::new(target.file());
    let mut table_crc = crc32fast::Hasher::new();
    let (mut table_end, mut end) = (HEADER_SIZE as u64, header.blocks_begin());
    let mut batch = vec![0; batch_size(&header, &pool)];
    progress.begin("pack", source.size);
    let mut left = source.size;
    while left > 0 {
        // At most the batch.
        let text_len = left.min(batch.len() as u64) as usize;
        let text = &mut batch[..text_len];
        source.read(text)?;
        let blocks = text.par_chunks(options.block_size as usize);
        let packed: Vec<(BlockEntry, Vec<u8>)> = pool.install(|| {
            let packed = blocks.map_init(BlockPacker::default, |packer, text| {
                let mut bytes = Vec::new();
                let entry = packer.pack(text, options, &mut bytes);
                (entry, bytes)
            });
            packed.collect()
        });
        let table: Vec<u8> = packed
            .iter()
            .flat_map(|(entry, _)| entry.to_bytes())
            .collect();
        table_crc.update(&table);
        output
            .seek(SeekFrom::Start(end))
            .map_err(target.failed("write"))?;
        for (_, bytes) in &packed {
            output.write_all(bytes).map_err(target.failed("write"))?;
            end += bytes.len() as u64;
        }
        output
            .seek(SeekFrom::Start(table_end))
            .map_err(target.failed("write"))?;
        output.write_all(&table).map_err(target.failed("write"))?;
        table_end += table.len() as u64;
        left -= text.len() as u64;
        progress.advance(text.len() as u64);
    }
    header.table_crc = table_crc.finalize();
    output
        .seek(SeekFrom::Start(0))
        .map_err(target.failed("write"))?;
    output
        .write_all(&header.to_bytes())
        .map_err(target.failed("write"))?;
    output.flush().map_err(target.failed("write"))?;
    drop(output);
    target.finish()?;
    progress.end();
    Ok(PackedSizes {
        text: header.size,
        packed: end,
    })
}

/// Unpacks the file `source` to a new file `target`, on all processors.
///
/// # Errors
/// [`Error::Packed`] if `source` is no packed file or damaged, [`Error::Invalid`] if it is no regular file or `target` exists or is
/// inside a database, [`Error::Io`] if one of them cannot be read or written.
pub fn unpack_file(
    source: impl AsRef<Path>,
    target: impl AsRef<Path>,
    progress: &dyn Progress,
) -> Result<PackedSizes> {
    let source = SourceFile::open(source.as_ref())?;
    let header = read_header(&source)?;
    // The table through a handle of its own, as it is read beside the blocks.
    let mut table = BufReader::new(source.again()?);
    table
        .seek(SeekFrom::Start(HEADER_SIZE as u64))
        .map_err(source.failed("read"))?;
    let mut blocks = source.again()?;
    blocks
        .seek(SeekFrom::Start(header.blocks_begin()))
        .map_err(source.failed("read"))?;
    let target = PackTarget::create(target.as_ref())?;
    let pool = start_pool(None)?;
    let mut batch = vec![0; batch_size(&header, &pool)];
    let mut bytes = Vec::new();
    progress.begin("unpack", header.size);
    let (mut left, mut first) = (header.size, 0);
    while left > 0 {
        // At most the batch.
        let text_len = left.min(batch.len() as u64) as usize;
        let text = &mut batch[..text_len];
        let count = text.len().div_ceil(header.block_size as usize);
        let mut entries = Vec::with_capacity(count);
        for _ in 0..count {
            entries.push(read_entry(&mut table).map_err(source.failed("read"))?);
        }
        // Every block is at most as large as its text: the table was checked, or is now.
        for (block, entry) in (first..).zip(&entries) {
            entry.check(&header, block).map_err(source.packed())?;
        }
        let sizes = entries.iter().map(|entry| entry.bytes as usize);
        bytes.resize(sizes.clone().sum(), 0);
        blocks
            .read_exact(&mut bytes)
            .map_err(source.failed("read"))?;
        let mut rest = &bytes[..];
        let stored: Vec<&[u8]> = sizes
            .map(|size| rest.split_off(..size).unwrap_or_default())
            .collect();
        let texts = text.par_chunks_mut(header.block_size as usize);
        // The first error in order of blocks, whatever the threads did.
        let unpacked: Vec<Option<PackedError>> = pool.install(|| {
            let blocks = texts.zip(&entries).zip(&stored).enumerate();
            let unpacked = blocks.map_init(BlockUnpacker::default, |unpacker, (index, block)| {
                let ((text, entry), bytes) = block;
                let block = first + index as u64;
                let order = References::Sequential;
                let unpacked = unpacker.unpack(&header, block, entry, bytes, text, order);
                unpacked.err()
            });
            unpacked.collect()
        });
        if let Some(error) = unpacked.into_iter().flatten().next() {
            return Err(source.packed()(error));
        }
        target
            .file()
            .write_all(text)
            .map_err(target.failed("write"))?;
        left -= text.len() as u64;
        first += count as u64;
        progress.advance(text.len() as u64);
    }
    target.finish()?;
    progress.end();
    Ok(PackedSizes {
        text: header.size,
        packed: source.size,
    })
}

/// Bytes of text that are in memory at a time.
fn batch_size(header: &PackHeader, pool: &ThreadPool) -> usize {
    let blocks = (pool.current_num_threads() * BLOCKS_PER_THREAD) as u64;
    header.block_size as usize * blocks.min(header.block_count()) as usize
}

/// Reads the header, and the block table once to check it.
fn read_header(source: &SourceFile) -> Result<PackHeader> {
    // A file that ends before is told by its header.
    let mut bytes = vec![0; source.size.min(HEADER_SIZE as u64) as usize];
    source.read(&mut bytes)?;
    let header = PackHeader::read(&bytes).map_err(source.packed())?;
    let wrong_size = |expected| PackedError::Size {
        expected,
        found: source.size,
    };
    let mut end = header.blocks_begin();
    if end > source.size {
        return Err(source.packed()(wrong_size(end)));
    }
    let mut table = BufReader::new(source.again()?);
    table
        .seek(SeekFrom::Start(HEADER_SIZE as u64))
        .map_err(source.failed("read"))?;
    let mut crc = crc32fast::Hasher::new();
    for _ in 0..header.block_count() {
        let entry = read_entry(&mut table).map_err(source.failed("read"))?;
        crc.update(&entry.to_bytes());
        end += u64::from(entry.bytes);
    }
    let (expected, found) = (header.table_crc, crc.finalize());
    if expected != found {
        let part = PackedPart::Table;
        return Err(source.packed()(PackedError::Checksum {
            part,
            expected,
            found,
        }));
    }
    match end == source.size {
        true => Ok(header),
        false => Err(source.packed()(wrong_size(end))),
    }
}

fn read_entry(table: &mut impl Read) -> io::Result<BlockEntry> {
    let mut bytes = [0; ENTRY_SIZE];
    table.read_exact(&mut bytes)?;
    Ok(BlockEntry::read(&bytes))
}

/// A regular file that is read.
struct SourceFile {
    path: PathBuf,
    file: File,
    size: u64,
}

impl SourceFile {
    fn open(path: &Path) -> Result<SourceFile> {
        let failed = |source| Error::Io {
            action: "open",
            path: path.to_path_buf(),
            source,
        };
        let found = fs::metadata(path).map_err(failed)?;
        if !found.is_file() {
            return Err(Error::Invalid {
                subject: path.display().to_string(),
                reason: "it is no regular file; hint: write it to one first".into(),
            });
        }
        let file = File::open(path).map_err(failed)?;
        Ok(SourceFile {
            path: path.to_path_buf(),
            size: found.len(),
            file,
        })
    }

    /// The file once more, with a position of its own.
    fn again(&self) -> Result<File> {
        File::open(&self.path).map_err(self.failed("open"))
    }

    /// The next bytes. An error, too, if it has become shorter.
    fn read(&self, bytes: &mut [u8]) -> Result<()> {
        (&self.file).read_exact(bytes).map_err(self.failed("read"))
    }

    fn failed(&self, action: &'static str) -> impl Fn(io::Error) -> Error {
        move |source| Error::Io {
            action,
            path: self.path.clone(),
            source,
        }
    }

    fn packed(&self) -> impl Fn(PackedError) -> Error {
        |source| Error::Packed {
            path: self.path.clone(),
            source,
        }
    }
}

/// A file that gets its name when all of it is on disk. Nothing is left of one that is dropped before.
struct PackTarget {
    path: PathBuf,
    file: NamedTempFile<File>,
}

impl PackTarget {
    fn create(path: &Path) -> Result<PackTarget> {
        let failed = |source| Error::Io {
            action: "create",
            path: path.to_path_buf(),
            source,
        };
        paths::refuse_database(path, None)?;
        if path.symlink_metadata().is_ok() {
            return Err(Error::Invalid {
                subject: path.display().to_string(),
                reason: "it exists; hint: name a file that does not, or remove it".into(),
            });
        }
        let path = paths::resolve(path).map_err(failed)?;
        // As readable as others of the user.
        let file = tempfile::Builder::new()
            .prefix(".pack-")
            .make_in(path.parent().unwrap_or(&path), |path| {
                OpenOptions::new().write(true).create_new(true).open(path)
            })
            .map_err(failed)?;
        Ok(PackTarget { path, file })
    }

    fn file(&self) -> &File {
        self.file.as_file()
    }

    fn failed(&self, action: &'static str) -> impl Fn(io::Error) -> Error {
        move |source| Error::Io {
            action,
            path: self.path.clone(),
            source,
        }
    }

    /// Gives it its name.
    fn finish(self) -> Result<()> {
        self.file().sync_all().map_err(self.failed("sync"))?;
        let PackTarget { path, file } = self;
        let persisted = file.persist_noclobber(&path);
        persisted.map(drop).map_err(|error| Error::Io {
            action: "write",
            path,
            source: error.error,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::NoProgress;
    use zipfdb_kernels::gompresso::{PackCodec, pack};

    fn options(codec: PackCodec) -> PackOptions {
        PackOptions {
            block_size: 1 << 10,
            ..PackOptions::new(codec)
        }
    }

    #[test]
    fn files_are_packed_as_slices_are_and_unpacked() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        for (number, len) in [0, 1, 1024, 100_000].into_iter().enumerate() {
            let text: Vec<u8> = b"to be or not to be, that is "
                .iter()
                .copied()
                .cycle()
                .take(len)
                .collect();
            for codec in [PackCodec::Byte, PackCodec::Bit] {
                let name = |kind: &str| path(&format!("{kind}-{number}-{codec:?}"));
                fs::write(name("text"), &text).unwrap();
                let options = options(codec);
                let sizes = pack_file(name("text"), name("packed"), &options, &NoProgress).unwrap();
                let packed = fs::read(name("packed")).unwrap();
                assert_eq!(packed, pack(&text, &options, &Default::default()).unwrap());
                assert_eq!(
                    (sizes.text, sizes.packed),
                    (len as u64, packed.len() as u64)
                );
                assert_eq!(
                    unpack_file(name("packed"), name("back"), &NoProgress).unwrap(),
                    sizes
                );
                assert_eq!(fs::read(name("back")).unwrap(), text);
            }
        }
    }

    #[test]
    fn nothing_is_left_of_what_failed() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("text"), "some text ".repeat(1000)).unwrap();
        let options = options(PackCodec::Byte);
        pack_file(path("text"), path("packed"), &options, &NoProgress).unwrap();
        let whole = fs::read(path("packed")).unwrap();
        for at in (0..whole.len()).step_by(7) {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x55;
            fs::write(path("damaged"), damaged).unwrap();
            match unpack_file(path("damaged"), path("back"), &NoProgress) {
                Err(error) => assert!(matches!(error, Error::Packed { .. }), "{error}"),
                // A byte that fills up a word.
                Ok(_) => {
                    assert_eq!(
                        fs::read(path("back")).unwrap(),
                        fs::read(path("text")).unwrap()
                    );
                    fs::remove_file(path("back")).unwrap();
                }
            }
            fs::write(path("damaged"), &whole[..at]).unwrap();
            let error = unpack_file(path("damaged"), path("back"), &NoProgress).unwrap_err();
            assert!(matches!(error, Error::Packed { .. }), "{error}");
        }
        let refused = |result: Result<PackedSizes>| {
            assert!(matches!(result, Err(Error::Invalid { .. })), "{result:?}");
        };
        refused(pack_file(
            path("text"),
            path("packed"),
            &options,
            &NoProgress,
        ));
        refused(unpack_file(path("packed"), path("text"), &NoProgress));
        refused(pack_file(
            directory.path(),
            path("back"),
            &options,
            &NoProgress,
        ));
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 3);
    }
}
