//! The messages of a file or stream of Arrow IPC, checked before their decoder allocates what they claim.
//!
//! Invariant: each message is within the file, and its compressed buffers claim no more than the limit. A file of Arrow IPC is a stream
//! between a mark and a footer; the footer is not read, as the messages say the same.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Take};

use crate::limits::unpacked_max;

/// The mark at both ends of a file.
const MARK: &[u8; 6] = b"ARROW1";

/// Bytes before the first message of a file, but for zeros that align it.
const START: u64 = 8;

/// The largest alignment of the first message.
const ALIGNMENT_MAX: u64 = 64;

/// Bytes at the end of a file: the length of the footer, in four, and the magic number.
const END: u64 = 10;

/// What a message begins with, except in files of old versions.
const CONTINUATION: [u8; 4] = [0xFF; 4];

/// The messages of a file, checked; `limit` is as [`crate::Limits::unpacked_bytes`].
pub(super) fn of_file(file: &mut File, limit: Option<u64>) -> io::Result<Take<File>> {
    let size = file.metadata()?.len();
    let mut mark = Vec::new();
    file.rewind()?;
    (&mut *file)
        .take(MARK.len() as u64)
        .read_to_end(&mut mark)?;
    let (start, end) = if mark == MARK {
        let end = size.checked_sub(END).filter(|end| *end >= START);
        let end = end.ok_or(io::ErrorKind::UnexpectedEof)?;
        file.seek(SeekFrom::Start(end))?;
        let mut footer = [0; 4];
        file.read_exact(&mut footer)?;
        let mut last = [0; MARK.len()];
        file.read_exact(&mut last)?;
        let end = end.checked_sub(u32::from_le_bytes(footer).into());
        let end = end.filter(|end| *end >= START && last == *MARK);
        let end = end.ok_or(io::ErrorKind::UnexpectedEof)?;
        (first_message(file, end)?, end)
    } else {
        (0, size)
    };
    check(file, start, end, unpacked_max(size, limit))?;
    file.seek(SeekFrom::Start(start))?;
    Ok(file.try_clone()?.take(end - start))
}

/// Where the first message of a file begins, which ends at `end` at most: a message does not begin with zeros.
fn first_message(file: &mut File, end: u64) -> io::Result<u64> {
    let mut start = START;
    file.seek(SeekFrom::Start(start))?;
    while start < ALIGNMENT_MAX.min(end) {
        let mut bytes = [0; 8];
        file.read_exact(&mut bytes)?;
        if bytes != [0; 8] {
            break;
        }
        start += bytes.len() as u64;
    }
    Ok(start.min(end))
}

/// Checks the messages from byte `start` to `end`.
fn check(file: &mut File, start: u64, end: u64, unpacked_max: u64) -> io::Result<()> {
    let wrong = |reason: &str| io::Error::new(io::ErrorKind::InvalidData, reason.to_owned());
    let mut at = start;
    while at < end {
        file.seek(SeekFrom::Start(at))?;
        let mut size = [0; 4];
        file.read_exact(&mut size)?;
        at += 4;
        if size == CONTINUATION {
            file.read_exact(&mut size)?;
            at += 4;
        }
        let size = u64::from(u32::from_le_bytes(size));
        if size == 0 {
            break;
        }
        if size > end.saturating_sub(at) {
            return Err(wrong("a message is cut off"));
        }
        let mut bytes = Vec::new();
        (&mut *file).take(size).read_to_end(&mut bytes)?;
        at += size;
        let message = arrow_ipc::root_as_message(&bytes);
        let message = message.map_err(|error| wrong(&error.to_string()))?;
        let body = u64::try_from(message.bodyLength()).ok();
        let body = body.filter(|body| *body <= end.saturating_sub(at));
        let body = body.ok_or_else(|| wrong("the body of a message is cut off"))?;
        let dictionary = message.header_as_dictionary_batch();
        let batch = match dictionary {
            Some(dictionary) => dictionary.data(),
            None => message.header_as_record_batch(),
        };
        if let Some(batch) = batch.filter(|batch| batch.compression().is_some()) {
            let mut unpacked = 0_u64;
            for buffer in batch.buffers().into_iter().flatten() {
                let offset = u64::try_from(buffer.offset()).ok();
                let offset = offset.filter(|offset| offset.saturating_add(8) <= body);
                let Some(offset) = offset.filter(|_| buffer.length() >= 8) else {
                    continue;
                };
                file.seek(SeekFrom::Start(at + offset))?;
                let mut claimed = [0; 8];
                file.read_exact(&mut claimed)?;
                // -1 is a buffer that is not compressed.
                let claimed = u64::try_from(i64::from_le_bytes(claimed)).unwrap_or(0);
                unpacked = unpacked.saturating_add(claimed);
            }
            if unpacked > unpacked_max {
                return Err(wrong("a message unpacks to more than the limit"));
            }
        }
        at += body;
    }
    Ok(())
}
