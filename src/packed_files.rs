//! Converts files to packed files and back, for GPUs and many threads to unpack.
//!
//! The invariant: under the name of a regular target there is nothing, or all of it, on disk, and only users that can read the
//! source can read it. Sources and targets are read and written in order, as pipes need; memory is that of some data blocks a
//! thread, whatever the size of the text. No database is involved.

use std::fs::{self, File, Permissions};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use rayon::ThreadPool;
use rayon::prelude::*;
use tempfile::SpooledTempFile;
use zipfdb_kernels::gompresso::{
    BlockEntry, BlockPacker, BlockUnpacker, ENTRY_SIZE, HEADER_SIZE, PackHeader, PackOptions,
    PackedError, PackedPart, References,
};

use crate::error::io_error;
use crate::execute::ExportFile;
use crate::ingest::Progress;
use crate::paths::streams;
use crate::runtime::interrupt::{Interrupt, InterruptHandle, check};
use crate::runtime::start_pool;
use crate::{Error, Result};

/// Data blocks in memory at a time, for each thread.
const BLOCKS_PER_THREAD: usize = 4;

/// Bytes of a block table in memory; a longer table goes to a temporary file.
const TABLE_BYTES: usize = 1 << 20;

/// Bytes copied at a time.
const COPY_BYTES: usize = 1 << 16;

/// Sizes of a file and of its packed form.
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
/// The new file can be read by the users that can read `source`, if that is a regular file. Pipes and devices are read to their
/// end and written into, and `-` is standard input or output. The format has sizes in front: packed data from or to a pipe lies
/// in a temporary file without a name until the end, beside `target` or in the system's directory.
///
/// # Errors
/// [`Error::Packed`] if the format has no room for an option, [`Error::Invalid`] if `source` is a directory or `target` exists or is in a
/// database, [`Error::Io`] if one cannot be read or written, [`Error::Interrupted`].
pub fn pack_file(
    source: impl AsRef<Path>,
    target: impl AsRef<Path>,
    options: &PackOptions,
    progress: &dyn Progress,
    interrupt: &InterruptHandle,
) -> Result<PackedSizes> {
    let interrupt = interrupt.begin();
    let mut source = SourceFile::open(source.as_ref(), &interrupt)?;
    let header = options.header(source.size.unwrap_or(0));
    let header = header.map_err(source.packed())?;
    let spool_directory = spool_directory(target.as_ref());
    let target = ExportFile::create(target.as_ref(), source.permissions.take(), &interrupt)?;
    let pool = start_pool(None)?;
    let mut table = SpooledTempFile::new_in(TABLE_BYTES, &spool_directory);
    let spooled = io_error("write a temporary file in", &spool_directory);
    // Data blocks are written in place if the size is known and the target can seek.
    let mut spool = match (target.new_file(), source.size) {
        (Some(mut file), Some(_)) => {
            let begin = SeekFrom::Start(header.blocks_begin());
            file.seek(begin).map_err(|error| target.failed(error))?;
            None
        }
        _ => Some(tempfile::tempfile_in(&spool_directory).map_err(&spooled)?),
    };
    let mut table_crc = crc32fast::Hasher::new();
    let (mut size, mut packed_size) = (0, 0);
    let mut batch = vec![0; batch_size(options.block_size, source.size, &pool)];
    let (mut entries, mut blocks) = (Vec::new(), Vec::new());
    progress.begin("pack", source.size.unwrap_or(0));
    loop {
        let text = source.read(&mut batch)?;
        if text.is_empty() {
            break;
        }
        size += text.len() as u64;
        // The format has room for the blocks so far.
        options.header(size).map_err(source.packed())?;
        let packed: Vec<(BlockEntry, Vec<u8>)> = interrupt.watch(&pool, |stop| {
            let blocks = text.par_chunks(options.block_size as usize);
            let packed = blocks.map_init(BlockPacker::default, |packer, text| {
                check(stop)?;
                let mut bytes = Vec::new();
                let entry = packer.pack(text, options, &mut bytes);
                Ok((entry, bytes))
            });
            packed.collect()
        })?;
        entries.clear();
        blocks.clear();
        for (entry, bytes) in &packed {
            entries.extend_from_slice(&entry.to_bytes());
            blocks.extend_from_slice(bytes);
        }
        table_crc.update(&entries);
        table.write_all(&entries).map_err(&spooled)?;
        packed_size += blocks.len() as u64;
        match &mut spool {
            Some(spool) => spool.write_all(&blocks).map_err(&spooled)?,
            None => write(&target, &blocks)?,
        }
        progress.advance(text.len() as u64);
    }
    let mut header = options.header(size).map_err(source.packed())?;
    header.table_crc = table_crc.finalize();
    if let (Some(mut file), None) = (target.new_file(), &spool) {
        file.rewind().map_err(|error| target.failed(error))?;
    }
    write(&target, &header.to_bytes())?;
    table.rewind().map_err(&spooled)?;
    copy(table, &target, &spooled)?;
    if let Some(mut spool) = spool {
        spool.rewind().map_err(&spooled)?;
        copy(spool, &target, &spooled)?;
    }
    target.finish()?;
    progress.end();
    Ok(PackedSizes {
        text: size,
        packed: header.blocks_begin() + packed_size,
    })
}

/// Unpacks the file `source` to a new file `target`, on all processors.
///
/// The new file can be read by the users that can read `source`, if that is a regular file. Pipes and devices are read to their
/// end and written into, and `-` is standard input or output: damage in a block is found before the block is written, and after
/// the blocks before it were.
///
/// # Errors
/// [`Error::Packed`] if `source` is no packed file or damaged, [`Error::Invalid`] if it is a directory or `target` exists or is in a
/// database, [`Error::Io`] if one cannot be read or written, [`Error::Interrupted`].
pub fn unpack_file(
    source: impl AsRef<Path>,
    target: impl AsRef<Path>,
    progress: &dyn Progress,
    interrupt: &InterruptHandle,
) -> Result<PackedSizes> {
    let interrupt = interrupt.begin();
    let mut source = SourceFile::open(source.as_ref(), &interrupt)?;
    let spool_directory = spool_directory(target.as_ref());
    let (header, end, table) = read_front(&mut source, &spool_directory)?;
    let mut table = BufReader::new(table);
    let spooled = io_error("read a temporary file in", &spool_directory);
    let target = ExportFile::create(target.as_ref(), source.permissions.take(), &interrupt)?;
    let pool = start_pool(None)?;
    let mut batch = vec![0; batch_size(header.block_size, Some(header.size), &pool)];
    let mut bytes = Vec::new();
    progress.begin("unpack", header.size);
    let (mut left, mut first) = (header.size, 0);
    while left > 0 {
        // The size of the batch at most.
        let text_len = left.min(batch.len() as u64) as usize;
        let text = &mut batch[..text_len];
        let count = text.len().div_ceil(header.block_size as usize);
        let mut entries = Vec::with_capacity(count);
        for block in first..first + count as u64 {
            let mut entry = [0; ENTRY_SIZE];
            table.read_exact(&mut entry).map_err(&spooled)?;
            let entry = BlockEntry::read(&entry);
            // Every block is at most as large as its text.
            entry.check(&header, block).map_err(source.packed())?;
            entries.push(entry);
        }
        let sizes = entries.iter().map(|entry| entry.bytes as usize);
        bytes.resize(sizes.clone().sum(), 0);
        if source.read(&mut bytes)?.len() < bytes.len() {
            return Err(source.wrong_size(end));
        }
        let mut rest = &bytes[..];
        let stored: Vec<&[u8]> = sizes
            .map(|size| rest.split_off(..size).unwrap_or_default())
            .collect();
        // The first error in order of blocks, whichever thread met it first.
        let unpacked: Vec<Option<PackedError>> = interrupt.watch(&pool, |stop| {
            let texts = text.par_chunks_mut(header.block_size as usize);
            let blocks = texts.zip(&entries).zip(&stored).enumerate();
            let unpacked = blocks.map_init(BlockUnpacker::default, |unpacker, (index, block)| {
                check(stop)?;
                let ((text, entry), bytes) = block;
                let block = first + index as u64;
                let order = References::Sequential;
                let unpacked = unpacker.unpack(&header, block, entry, bytes, text, order);
                Ok(unpacked.err())
            });
            unpacked.collect()
        })?;
        if let Some(error) = unpacked.into_iter().flatten().next() {
            return Err(source.packed()(error));
        }
        write(&target, text)?;
        left -= text.len() as u64;
        first += count as u64;
        progress.advance(text.len() as u64);
    }
    if !source.read(&mut [0])?.is_empty() {
        return Err(source.wrong_size(end));
    }
    target.finish()?;
    progress.end();
    Ok(PackedSizes {
        text: header.size,
        packed: end,
    })
}

/// Bytes of text in memory at a time; at most `size`, if known.
fn batch_size(block_size: u32, size: Option<u64>, pool: &ThreadPool) -> usize {
    let blocks = (pool.current_num_threads() * BLOCKS_PER_THREAD) as u64;
    let all = size.map_or(u64::MAX, |size| size.div_ceil(block_size.into()));
    block_size as usize * blocks.min(all).max(1) as usize
}

/// Reads the header and the block table and checks them. Returns the header, the expected end of the file, and the table.
fn read_front(
    source: &mut SourceFile,
    spool_directory: &Path,
) -> Result<(PackHeader, u64, SpooledTempFile)> {
    let mut bytes = [0; HEADER_SIZE];
    // A shorter file is an error of `PackHeader::read`.
    let header = PackHeader::read(source.read(&mut bytes)?).map_err(source.packed())?;
    let mut end = header.blocks_begin();
    if source.size.is_some_and(|size| size < end) {
        return Err(source.wrong_size(end));
    }
    let spooled = io_error("write a temporary file in", spool_directory);
    let mut table = SpooledTempFile::new_in(TABLE_BYTES, spool_directory);
    let mut crc = crc32fast::Hasher::new();
    let mut buffer = vec![0; COPY_BYTES / ENTRY_SIZE * ENTRY_SIZE];
    let mut left = header.block_count() * ENTRY_SIZE as u64;
    while left > 0 {
        // The size of the buffer at most.
        let part_size = left.min(buffer.len() as u64) as usize;
        let part = source.read(&mut buffer[..part_size])?;
        if part.len() < part_size {
            return Err(source.wrong_size(end));
        }
        crc.update(part);
        table.write_all(part).map_err(&spooled)?;
        let (entries, _) = part.as_chunks::<ENTRY_SIZE>();
        end += entries
            .iter()
            .map(|entry| u64::from(BlockEntry::read(entry).bytes))
            .sum::<u64>();
        left -= part.len() as u64;
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
    if source.size.is_some_and(|size| size != end) {
        return Err(source.wrong_size(end));
    }
    table.rewind().map_err(&spooled)?;
    Ok((header, end, table))
}

/// The directory of temporary files: that of a new file, which has room for its content, else the system's.
fn spool_directory(target: &Path) -> PathBuf {
    let is_new = fs::metadata(target).is_err() && !streams::is_standard(target);
    match target.parent() {
        Some(parent) if is_new && parent.as_os_str().is_empty() => PathBuf::from("."),
        Some(parent) if is_new => parent.to_path_buf(),
        _ => std::env::temp_dir(),
    }
}

fn write(mut target: &ExportFile, bytes: &[u8]) -> Result<()> {
    let written = target.write_all(bytes);
    written.map_err(|error| target.failed(error))
}

/// Writes the content of a temporary file to `target`.
fn copy(
    mut spool: impl Read,
    target: &ExportFile,
    failed: impl Fn(io::Error) -> Error,
) -> Result<()> {
    let mut buffer = vec![0; COPY_BYTES];
    loop {
        match spool.read(&mut buffer).map_err(&failed)? {
            0 => return Ok(()),
            read => write(target, &buffer[..read])?,
        }
    }
}

/// A file, pipe or device that is read once.
struct SourceFile {
    path: PathBuf,
    file: File,
    /// The size of a regular file when it was opened: exactly that many bytes are read.
    size: Option<u64>,
    /// The permissions of a file with the same text, if it is a regular file.
    permissions: Option<Permissions>,
    /// The number of bytes read.
    position: u64,
    interrupt: Interrupt,
}

impl SourceFile {
    fn open(path: &Path, interrupt: &Interrupt) -> Result<SourceFile> {
        let failed = io_error("open", path);
        let is_standard = streams::is_standard(path);
        let file = if is_standard {
            streams::standard_input().map_err(&failed)?
        } else if fs::metadata(path).map_err(&failed)?.is_file() {
            File::open(path).map_err(&failed)?
        } else {
            streams::open_to_read(path).map_err(&failed)?
        };
        let found = file.metadata().map_err(&failed)?;
        if found.is_dir() {
            return Err(failed(io::ErrorKind::IsADirectory.into()));
        }
        // A file of /proc reports size 0 and has content; standard input may have been read from.
        let has_size = found.is_file() && found.len() > 0 && !is_standard;
        Ok(SourceFile {
            path: path.to_path_buf(),
            file,
            size: has_size.then_some(found.len()),
            permissions: found.is_file().then(|| access(&found)),
            position: 0,
            interrupt: interrupt.clone(),
        })
    }

    /// The next bytes, fewer only at the end. An error if a regular file has become shorter.
    fn read<'a>(&mut self, bytes: &'a mut [u8]) -> Result<&'a [u8]> {
        let left = self.size.map_or(u64::MAX, |size| size - self.position);
        // The length of `bytes` at most.
        let wanted = left.min(bytes.len() as u64) as usize;
        let mut filled = 0;
        while filled < wanted {
            self.interrupt.check()?;
            let rest = &mut bytes[filled..wanted];
            match streams::wait_to_read(&self.file).and_then(|()| self.file.read(rest)) {
                Ok(0) if self.size.is_some() => {
                    return Err(self.failed("read")(io::ErrorKind::UnexpectedEof.into()));
                }
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => {}
                    _ => return Err(self.failed("read")(error)),
                },
            }
        }
        self.position += filled as u64;
        Ok(&bytes[..filled])
    }

    fn failed(&self, action: &'static str) -> impl Fn(io::Error) -> Error + use<> {
        io_error(action, &self.path)
    }

    fn packed(&self) -> impl Fn(PackedError) -> Error + use<> {
        let path = self.path.clone();
        move |source| Error::Packed {
            path: path.clone(),
            source,
        }
    }

    /// The error for a file that does not end where it should.
    fn wrong_size(&self, expected: u64) -> Error {
        self.packed()(PackedError::Size {
            expected,
            found: self.size.unwrap_or(self.position),
        })
    }
}

/// The read, write and execute bits of a file; other bits of its mode are not copied.
#[cfg(unix)]
fn access(found: &fs::Metadata) -> Permissions {
    use std::os::unix::fs::PermissionsExt;
    Permissions::from_mode(found.permissions().mode() & 0o777)
}

#[cfg(not(unix))]
fn access(found: &fs::Metadata) -> Permissions {
    found.permissions()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::ingest::NoProgress;
    use zipfdb_kernels::gompresso::{PackCodec, pack};

    fn options(codec: PackCodec) -> PackOptions {
        PackOptions {
            block_size: 1 << 10,
            ..PackOptions::new(codec)
        }
    }

    fn pack_to(source: &Path, target: &Path, options: &PackOptions) -> Result<PackedSizes> {
        pack_file(
            source,
            target,
            options,
            &NoProgress,
            &InterruptHandle::new(),
        )
    }

    fn unpack_to(source: &Path, target: &Path) -> Result<PackedSizes> {
        unpack_file(source, target, &NoProgress, &InterruptHandle::new())
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
                let sizes = pack_to(&name("text"), &name("packed"), &options).unwrap();
                let packed = fs::read(name("packed")).unwrap();
                assert_eq!(packed, pack(&text, &options, &Default::default()).unwrap());
                assert_eq!(
                    (sizes.text, sizes.packed),
                    (len as u64, packed.len() as u64)
                );
                assert_eq!(unpack_to(&name("packed"), &name("back")).unwrap(), sizes);
                assert_eq!(fs::read(name("back")).unwrap(), text);
            }
        }
    }

    #[test]
    fn a_block_table_that_memory_is_not_kept_for_is_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let options = PackOptions {
            block_size: 1 << 8,
            level: 1,
            ..options(PackCodec::Byte)
        };
        let blocks = TABLE_BYTES / ENTRY_SIZE + 100;
        let text = vec![b'a'; blocks << 8];
        fs::write(path("text"), &text).unwrap();
        pack_to(&path("text"), &path("packed"), &options).unwrap();
        let packed = fs::read(path("packed")).unwrap();
        assert!(packed == pack(&text, &options, &Default::default()).unwrap());
        unpack_to(&path("packed"), &path("back")).unwrap();
        assert!(fs::read(path("back")).unwrap() == text);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 3);
    }

    #[test]
    fn nothing_is_left_of_what_failed() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("text"), "some text ".repeat(1000)).unwrap();
        let options = options(PackCodec::Byte);
        pack_to(&path("text"), &path("packed"), &options).unwrap();
        let whole = fs::read(path("packed")).unwrap();
        for at in (0..whole.len()).step_by(7) {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x55;
            fs::write(path("damaged"), damaged).unwrap();
            match unpack_to(&path("damaged"), &path("back")) {
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
            let error = unpack_to(&path("damaged"), &path("back")).unwrap_err();
            assert!(matches!(error, Error::Packed { .. }), "{error}");
        }
        let interrupted = InterruptHandle::new();
        interrupted.interrupt();
        for result in [
            pack_file(
                path("text"),
                path("back"),
                &options,
                &NoProgress,
                &interrupted,
            ),
            unpack_file(path("packed"), path("back"), &NoProgress, &interrupted),
        ] {
            assert!(matches!(result, Err(Error::Interrupted)), "{result:?}");
        }
        for result in [
            pack_to(&path("text"), &path("packed"), &options),
            unpack_to(&path("packed"), &path("text")),
        ] {
            assert!(matches!(result, Err(Error::Invalid { .. })), "{result:?}");
        }
        let result = pack_to(directory.path(), &path("back"), &options);
        assert!(matches!(result, Err(Error::Io { .. })), "{result:?}");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 3);
    }
}
