//! The bytes of a log file: its header, and the frame around each record.
//!
//! Invariant: a frame is taken only where it was written. Its checksum covers the number of the file and its place in
//! it, so what an older file left on the disk, or a record in another place, is no record.

use crate::log::position::LogPosition;
use crate::segment::Fault;

/// Starts a log file.
const MAGIC: &[u8; 8] = b"\x89ZDBLOG\n";

/// The version of log files.
pub(crate) const VERSION: u32 = 1;

/// Bytes of the header of a file: magic, version, number, position of the end of the log before, CRC32.
pub(crate) const HEADER_SIZE: usize = 8 + 4 + 8 + 16 + 4;

/// Bytes before the payload of a record: size of the payload, CRC32, kind, corpus.
pub(crate) const HEAD_SIZE: usize = 4 + 4 + 1 + 8;

/// Kind of the record that ends a commit. Below it are those of edits.
pub(crate) const COMMIT: u8 = 4;

/// Kind of the record that publishes a recompression.
pub(crate) const MERGED: u8 = 5;

const COMMIT_PAYLOAD_SIZE: usize = 4 + 8;

/// Why the header of a file is not taken.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HeaderFault {
    /// Another version under a right checksum.
    Version(u32),
    Fault(Fault),
}

/// The header of file `number`, created when the log ended at `previous`.
pub(crate) fn header(number: u64, previous: LogPosition) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend(number.to_le_bytes());
    bytes.extend(previous.file.to_le_bytes());
    bytes.extend(previous.offset.to_le_bytes());
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    bytes
}

/// The end of the log when file `number` was created, from the header of that file.
pub(crate) fn read_header(file: &[u8], number: u64) -> Result<LogPosition, HeaderFault> {
    let fault = |fault| Err(HeaderFault::Fault(Fault(fault)));
    let Some(mut header) = file.get(..HEADER_SIZE) else {
        return fault("the header is cut off");
    };
    let input = &mut header;
    if take(input) != *MAGIC {
        return fault("it does not begin like a log file");
    }
    let version = u32::from_le_bytes(take(input));
    let found = u64::from_le_bytes(take(input));
    let previous = LogPosition {
        file: u64::from_le_bytes(take(input)),
        offset: u64::from_le_bytes(take(input)),
    };
    if crc32fast::hash(&file[..HEADER_SIZE - 4]) != u32::from_le_bytes(take(input)) {
        return fault("the checksum of the header is wrong");
    }
    if version != VERSION {
        return Err(HeaderFault::Version(version));
    }
    if found != number || previous.file >= number {
        return fault("it is the header of another file");
    }
    Ok(previous)
}

/// A record in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogFrame<'a> {
    pub(crate) kind: u8,
    pub(crate) corpus: u64,
    pub(crate) payload: &'a [u8],
    /// The byte it starts at.
    pub(crate) offset: u64,
}

impl LogFrame<'_> {
    /// The byte after it.
    pub(crate) fn end(&self) -> u64 {
        self.offset + (HEAD_SIZE + self.payload.len()) as u64
    }
}

/// The checksum of a record as far as it goes without its place: computed before the place is known.
#[derive(Clone, Debug)]
pub(crate) struct Sum(crc32fast::Hasher);

impl Sum {
    pub(crate) fn new(kind: u8, corpus: u64, payload: &[u8]) -> Sum {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&[kind]);
        hasher.update(&corpus.to_le_bytes());
        hasher.update(payload);
        Sum(hasher)
    }

    fn at(mut self, place: LogPosition) -> u32 {
        self.0.update(&place.file.to_le_bytes());
        self.0.update(&place.offset.to_le_bytes());
        self.0.finalize()
    }
}

/// Appends a record that will stand at `place`, and moves `place` behind it.
pub(crate) fn write(
    out: &mut Vec<u8>,
    place: &mut LogPosition,
    (kind, corpus, payload): (u8, u64, &[u8]),
    sum: Sum,
) {
    let size = u32::try_from(payload.len()).expect("records were checked to be at most 1 GiB");
    out.extend(size.to_le_bytes());
    out.extend(sum.at(*place).to_le_bytes());
    out.push(kind);
    out.extend(corpus.to_le_bytes());
    out.extend_from_slice(payload);
    place.offset += (HEAD_SIZE + payload.len()) as u64;
}

/// The record at byte `offset` of file `number`, whose bytes `file` are.
pub(crate) fn read(file: &[u8], number: u64, offset: usize) -> Result<LogFrame<'_>, Fault> {
    let rest = file.get(offset..).unwrap_or_default();
    let Some((mut head, rest)) = rest.split_at_checked(HEAD_SIZE) else {
        return Err(Fault("a record is cut off"));
    };
    let head = &mut head;
    let size = u32::from_le_bytes(take(head)) as usize;
    let crc32 = u32::from_le_bytes(take(head));
    let [kind] = take(head);
    let corpus = u64::from_le_bytes(take(head));
    let payload = rest.get(..size).ok_or(Fault("a record is cut off"))?;
    let place = LogPosition {
        file: number,
        offset: offset as u64,
    };
    if Sum::new(kind, corpus, payload).at(place) != crc32 {
        return Err(Fault("the checksum of a record is wrong"));
    }
    Ok(LogFrame {
        kind,
        corpus,
        payload,
        offset: place.offset,
    })
}

/// What the record says that ends a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Commit {
    /// How many records it covers: all since the commit before.
    pub(crate) records: u32,
    /// How much of the file was durable when the commit was written. Damage before that is not the end of a log that
    /// was cut short.
    pub(crate) durable: u64,
}

impl Commit {
    pub(crate) fn encode(self) -> [u8; COMMIT_PAYLOAD_SIZE] {
        let mut payload = [0; COMMIT_PAYLOAD_SIZE];
        payload[..4].copy_from_slice(&self.records.to_le_bytes());
        payload[4..].copy_from_slice(&self.durable.to_le_bytes());
        payload
    }

    pub(crate) fn decode(payload: &[u8]) -> Result<Commit, Fault> {
        let mut payload: &[u8] = <&[u8; COMMIT_PAYLOAD_SIZE]>::try_from(payload)
            .map_err(|_| Fault("a commit has a wrong size"))?;
        Ok(Commit {
            records: u32::from_le_bytes(take(&mut payload)),
            durable: u64::from_le_bytes(take(&mut payload)),
        })
    }

    /// Whether any commit in `file`, of which everything up to `end` can be read, was written when more than that was
    /// durable. Looks at every byte, since where records start is not known after one that cannot be read.
    pub(crate) fn proves_loss(file: &[u8], number: u64, end: usize) -> bool {
        Commit::search(file, number, end).any(|(commit, _)| commit.durable > end as u64)
    }

    /// The records after `start` that end commits, found by looking at every byte, and the bytes after them.
    pub(crate) fn search(
        file: &[u8],
        number: u64,
        start: usize,
    ) -> impl Iterator<Item = (Commit, u64)> {
        let size = HEAD_SIZE + COMMIT_PAYLOAD_SIZE;
        let rest = file.get(start..).unwrap_or_default();
        rest.windows(size)
            .enumerate()
            .filter_map(move |(at, bytes)| {
                if bytes[..4] != (COMMIT_PAYLOAD_SIZE as u32).to_le_bytes() || bytes[8] != COMMIT {
                    return None;
                }
                let frame = read(file, number, start + at).ok()?;
                Some((Commit::decode(frame.payload).ok()?, frame.end()))
            })
    }
}

/// What a recompression did: it is published by the commit that holds this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Merge {
    pub(crate) corpus: u64,
    pub(crate) publication: u64,
    /// The corpus' records up to here are in the segments.
    pub(crate) position: LogPosition,
    /// New segments.
    pub(crate) added: Vec<u64>,
    /// Segments that are not live any more.
    pub(crate) replaced: Vec<u64>,
}

impl Merge {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut payload = Vec::new();
        payload.extend(self.publication.to_le_bytes());
        payload.extend(self.position.file.to_le_bytes());
        payload.extend(self.position.offset.to_le_bytes());
        for ids in [&self.added, &self.replaced] {
            payload.extend((ids.len() as u64).to_le_bytes());
            payload.extend(ids.iter().flat_map(|id| id.to_le_bytes()));
        }
        payload
    }

    pub(crate) fn decode(corpus: u64, payload: &[u8]) -> Result<Merge, Fault> {
        let fault = Fault("a merged record has a wrong size");
        let (numbers, []) = payload.as_chunks::<8>() else {
            return Err(fault);
        };
        let mut numbers = numbers.iter().map(|number| u64::from_le_bytes(*number));
        let mut next = || numbers.next().ok_or(fault);
        let (publication, file, offset) = (next()?, next()?, next()?);
        let mut ids = || {
            let count = next()?;
            // Read one by one: memory is not reserved for a count that is not
            // verified.
            (0..count).map(|_| next()).collect::<Result<Vec<u64>, _>>()
        };
        let (added, replaced) = (ids()?, ids()?);
        if numbers.next().is_some() {
            return Err(fault);
        }
        Ok(Merge {
            corpus,
            publication,
            position: LogPosition { file, offset },
            added,
            replaced,
        })
    }
}

/// Takes the next bytes of a part whose size was checked.
fn take<const N: usize>(input: &mut &[u8]) -> [u8; N] {
    let (taken, rest) = input
        .split_first_chunk::<N>()
        .expect("the size was checked");
    *input = rest;
    *taken
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const PLACE: LogPosition = LogPosition {
        file: 7,
        offset: 40,
    };

    #[test]
    fn a_header_comes_back_and_no_flipped_cut_or_other_one_does() {
        let header = header(8, PLACE);
        assert_eq!(header.len(), HEADER_SIZE);
        assert_eq!(read_header(&header, 8), Ok(PLACE));
        assert!(read_header(&header, 9).is_err());
        for at in 0..header.len() {
            assert!(read_header(&header[..at], 8).is_err());
            let mut flipped = header.clone();
            flipped[at] ^= 4;
            assert!(matches!(
                read_header(&flipped, 8),
                Err(HeaderFault::Fault(_))
            ));
        }
        let mut later = header;
        later[8] = 2;
        let crc = crc32fast::hash(&later[..HEADER_SIZE - 4]);
        later[HEADER_SIZE - 4..].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(read_header(&later, 8), Err(HeaderFault::Version(2)));
    }

    #[test]
    fn a_record_is_read_in_its_place_only() {
        let mut file = vec![0; 40];
        let mut place = PLACE;
        write(
            &mut file,
            &mut place,
            (2, 5, b"payload"),
            Sum::new(2, 5, b"payload"),
        );
        assert_eq!(place.offset, file.len() as u64);
        let frame = read(&file, 7, 40).unwrap();
        assert_eq!(
            (frame.kind, frame.corpus, frame.payload),
            (2, 5, &b"payload"[..])
        );
        assert_eq!(frame.end(), file.len() as u64);
        assert!(read(&file, 8, 40).is_err(), "another file");
        file.insert(0, 0);
        assert!(read(&file, 7, 41).is_err(), "another place");
        file.remove(0);
        for at in 40..file.len() {
            assert!(read(&file[..at], 7, 40).is_err());
            file[at] ^= 16;
            assert!(read(&file, 7, 40).is_err());
            file[at] ^= 16;
        }
        assert!(read(&file, 7, 1000).is_err());
    }

    #[test]
    fn a_merge_comes_back_and_its_counts_are_not_believed() {
        let merge = Merge {
            corpus: 3,
            publication: 9,
            position: PLACE,
            added: vec![10, 11],
            replaced: vec![4],
        };
        let mut payload = merge.encode();
        assert_eq!(Merge::decode(3, &payload), Ok(merge));
        for size in 0..payload.len() {
            assert!(Merge::decode(3, &payload[..size]).is_err());
        }
        payload[24..32].fill(0xff);
        assert!(Merge::decode(3, &payload).is_err());
    }
}
