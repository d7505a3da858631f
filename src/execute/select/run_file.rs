//! The format of runs: sorted records, in blocks.
//!
//! A block has its length, a checksum and records; a record has the number of bytes of its key that it shares with the one before
//! in the block (front coding), the length of the others, the length of its payload, these bytes, and the payload. A payload of
//! more than a part of a block stands behind the block that its record ends, with a checksum of its own. Invariants: a reader
//! keeps a block, a key and one payload; no unchecked byte is returned; no more is allocated than the file holds.

use std::cmp::Ordering;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::codec::damaged;
use crate::merge::MergeSource;
use crate::runtime::spill_directory::spill_error;
use crate::{Error, Result};

/// A payload of more than 1/`INSIDE_SHARE` of a block stands behind it.
const INSIDE_SHARE: usize = 4;
/// Length and checksum of a block or payload.
const HEADER_BYTES: usize = 12;
/// The most bytes of a number.
const NUMBER_BYTES_MAX: usize = 10;

/// A temporary file, which exists as long as any run lies in it.
#[derive(Debug, Clone)]
pub(super) struct SpillFile {
    pub(super) file: Arc<File>,
    directory: Arc<Path>,
}

impl SpillFile {
    pub(super) fn new(file: File, directory: &Path) -> SpillFile {
        SpillFile {
            file: Arc::new(file),
            directory: directory.into(),
        }
    }

    fn failed(&self) -> impl Fn(io::Error) -> Error + '_ {
        spill_error(&self.directory)
    }
}

/// A written run.
#[derive(Debug)]
pub(super) struct SpilledRun {
    pub(super) file: SpillFile,
    /// Its start and end in the file.
    start: u64,
    pub(super) end: u64,
    pub(super) longest_key: usize,
}

/// Appends a number, seven bits a byte, the lowest first.
fn push_number(target: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        // The low bits.
        target.push(number as u8 | 0x80);
        number >>= 7;
    }
    target.push(number as u8);
}

/// Takes a number; none if the bytes are not one.
fn take_number(source: &[u8], at: &mut usize) -> Option<u64> {
    let mut number = 0;
    for index in 0..NUMBER_BYTES_MAX as u32 {
        let byte = *source.get(*at)?;
        *at += 1;
        number |= u64::from(byte & 0x7f).checked_shl(7 * index)?;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// Writes a run behind the others of its file.
pub(super) struct RunWriter {
    target: Section,
    run: SpilledRun,
    block_bytes: usize,
    /// The header and the records of the block that is being filled.
    block: Vec<u8>,
    /// The key of the last record, and the one that is pushed.
    last: Vec<u8>,
    key: Vec<u8>,
}

impl RunWriter {
    /// Blocks have about `block_bytes` bytes, more only for one large record.
    pub(super) fn new(file: SpillFile, start: u64, block_bytes: usize) -> RunWriter {
        RunWriter {
            target: Section {
                file: file.clone(),
                position: start,
                end: u64::MAX,
            },
            run: SpilledRun {
                file,
                start,
                end: start,
                longest_key: 0,
            },
            block_bytes,
            block: Vec::new(),
            last: Vec::new(),
            key: Vec::new(),
        }
    }

    /// Appends a record, whose key is not below the one before. The key comes in parts.
    pub(super) fn push(&mut self, key: &[&[u8]], payload: &[u8]) -> Result<()> {
        self.key.clear();
        key.iter().for_each(|part| self.key.extend_from_slice(part));
        self.run.longest_key = self.run.longest_key.max(self.key.len());
        let is_inside = payload.len() <= self.block_bytes / INSIDE_SHARE;
        let inside = if is_inside { payload } else { &[] };
        if !self.block.is_empty()
            && self.block.len() + self.key.len() + inside.len() > self.block_bytes
        {
            self.write_block()?;
        }
        let mut shared = 0;
        if self.block.is_empty() {
            self.block.resize(HEADER_BYTES, 0);
        } else {
            let both = self.last.iter().zip(&self.key);
            shared = both.take_while(|(last, key)| last == key).count();
        }
        for length in [shared, self.key.len() - shared, payload.len()] {
            push_number(&mut self.block, length as u64);
        }
        self.block.push(u8::from(!is_inside));
        self.block.extend_from_slice(&self.key[shared..]);
        self.block.extend_from_slice(inside);
        std::mem::swap(&mut self.last, &mut self.key);
        if !is_inside {
            self.write_block()?;
            let header = header_of(payload);
            self.write(&header)?;
            self.write(payload)?;
        }
        Ok(())
    }

    fn write_block(&mut self) -> Result<()> {
        let mut block = std::mem::take(&mut self.block);
        let header = header_of(&block[HEADER_BYTES..]);
        block[..HEADER_BYTES].copy_from_slice(&header);
        self.write(&block)?;
        block.clear();
        self.block = block;
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.target.write_all(bytes);
        written.map_err(self.run.file.failed())?;
        self.run.end += bytes.len() as u64;
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<SpilledRun> {
        if !self.block.is_empty() {
            self.write_block()?;
        }
        Ok(self.run)
    }
}

/// The length and checksum of some bytes.
fn header_of(bytes: &[u8]) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    let (length, checksum) = header.split_at_mut(size_of::<u64>());
    length.copy_from_slice(&(bytes.len() as u64).to_le_bytes());
    checksum.copy_from_slice(&crc32fast::hash(bytes).to_le_bytes());
    header
}

/// A part of a file that is read or written from its start. Other sections may move the file's position in between.
struct Section {
    file: SpillFile,
    position: u64,
    end: u64,
}

impl Section {
    /// The file at the section's position.
    fn here(&self) -> io::Result<&File> {
        let mut file = &*self.file.file;
        file.seek(SeekFrom::Start(self.position))?;
        Ok(file)
    }

    /// Reads the next bytes with their header into `target`.
    fn take_checked(&mut self, target: &mut Vec<u8>) -> io::Result<()> {
        let (length, checksum) = self.header()?;
        target.clear();
        target
            .try_reserve_exact(length)
            .map_err(|_| io::ErrorKind::OutOfMemory)?;
        target.resize(length, 0);
        self.read_exact(target)?;
        if crc32fast::hash(target) == checksum {
            Ok(())
        } else {
            Err(damaged())
        }
    }

    fn header(&mut self) -> io::Result<(usize, u32)> {
        let mut header = [0; HEADER_BYTES];
        self.read_exact(&mut header)?;
        let (length, checksum) = header.split_at(size_of::<u64>());
        let length = u64::from_le_bytes(length.first_chunk().copied().unwrap_or_default());
        let checksum = u32::from_le_bytes(checksum.first_chunk().copied().unwrap_or_default());
        if length <= self.end - self.position {
            Ok((usize::try_from(length).map_err(|_| damaged())?, checksum))
        } else {
            Err(damaged())
        }
    }
}

impl Read for Section {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end - self.position).unwrap_or(usize::MAX);
        let wanted = buffer.len().min(left);
        let read = self.here()?.read(&mut buffer[..wanted])?;
        self.position += read as u64;
        Ok(read)
    }
}

impl Write for Section {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.here()?.write(bytes)?;
        self.position += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The place of the payload of a record.
enum Payload {
    InBlock(Range<usize>),
    /// Next in the file; its number of bytes.
    Behind(u64),
}

/// Reads a run: a key, then its payload, then the next key.
pub(super) struct RunReader {
    source: Section,
    block: Vec<u8>,
    /// The next record in the block.
    next: usize,
    key: Vec<u8>,
    payload: Payload,
}

impl RunReader {
    pub(super) fn new(run: SpilledRun) -> RunReader {
        RunReader {
            source: Section {
                position: run.start,
                end: run.end,
                file: run.file,
            },
            block: Vec::new(),
            next: 0,
            key: Vec::new(),
            payload: Payload::InBlock(0..0),
        }
    }

    fn try_advance(&mut self) -> io::Result<bool> {
        if self.next == self.block.len() {
            if self.source.position == self.source.end {
                return Ok(false);
            }
            self.source.take_checked(&mut self.block)?;
            self.next = 0;
            self.key.clear();
        }
        self.take_record().ok_or_else(damaged)?;
        Ok(true)
    }

    /// None if the block has no valid records.
    fn take_record(&mut self) -> Option<()> {
        let mut at = self.next;
        let mut number = || take_number(&self.block, &mut at);
        let (shared, own, length) = (number()?, number()?, number()?);
        let (shared, own) = (usize::try_from(shared).ok()?, usize::try_from(own).ok()?);
        let is_behind = *self.block.get(at)? == 1;
        let start = at + 1;
        let end = start.checked_add(own)?;
        let own = self.block.get(start..end)?;
        if shared > self.key.len() {
            return None;
        }
        self.key.truncate(shared);
        self.key.extend_from_slice(own);
        self.next = end;
        self.payload = if is_behind {
            Payload::Behind(length)
        } else {
            self.next = end.checked_add(usize::try_from(length).ok()?)?;
            self.block.get(end..self.next)?;
            Payload::InBlock(end..self.next)
        };
        Some(())
    }

    /// The key of the record.
    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    /// Moves the payload of the record into `target`, once, before the next record is read.
    pub(super) fn take_payload(&mut self, target: &mut Vec<u8>) -> Result<()> {
        match std::mem::replace(&mut self.payload, Payload::InBlock(0..0)) {
            Payload::InBlock(range) => {
                target.clear();
                target.extend_from_slice(&self.block[range]);
                Ok(())
            }
            Payload::Behind(length) => {
                let taken = self.source.take_checked(target);
                let taken = taken.and_then(|()| {
                    if target.len() as u64 == length {
                        Ok(())
                    } else {
                        Err(damaged())
                    }
                });
                taken.map_err(self.source.file.failed())
            }
        }
    }
}

impl MergeSource for RunReader {
    fn advance(&mut self) -> Result<bool> {
        let advanced = self.try_advance();
        advanced.map_err(self.source.file.failed())
    }

    fn compare(&self, other: &RunReader) -> Ordering {
        self.key.cmp(&other.key)
    }
}
