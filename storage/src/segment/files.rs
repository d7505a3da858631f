//! The file table: names, sizes and checksums of the files of a segment.

use super::FileEntry;
use super::coding::{DecodeError, Fault, check_expansion, pad, reserved, varint};

/// Whether the file ends with this part.
const LAST_PART: u8 = 1;

/// Flag of a part that starts where the file does, whose place is not stored.
const FIRST_PART: u8 = 2;

/// Encodes the table. Names share their beginnings with the one before.
pub fn encode(files: &[FileEntry]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut previous: &[u8] = &[];
    let mut decoded = 0;
    for file in files {
        let name = file.name.as_bytes();
        let shared = name
            .iter()
            .zip(previous)
            .take_while(|(left, right)| left == right)
            .count();
        varint::write(&mut out, shared as u64);
        varint::write(&mut out, (name.len() - shared) as u64);
        out.extend_from_slice(&name[shared..]);
        let first = file.first_byte == 0 && file.first_word == 0;
        out.push((u8::from(file.last_part) * LAST_PART) | (u8::from(first) * FIRST_PART));
        if !first {
            varint::write(&mut out, file.first_byte);
            varint::write(&mut out, file.first_word);
        }
        varint::write(&mut out, file.bytes);
        varint::write(&mut out, file.words);
        out.extend(file.crc32.to_le_bytes());
        previous = name;
        decoded += name.len() as u64;
    }
    pad(&mut out, decoded);
    out
}

/// Decodes a table of `count` files.
pub fn decode(section: &[u8], count: u32) -> Result<Vec<FileEntry>, DecodeError> {
    // An entry has at least nine bytes.
    if u64::from(count) * 9 > section.len() as u64 {
        return Err(Fault("it has fewer files than it claims").into());
    }
    let mut input = section;
    let mut files: Vec<FileEntry> = reserved(count as usize)?;
    let mut decoded = 0;
    for _ in 0..count {
        let previous = files.last().map_or(&[][..], |file| file.name.as_bytes());
        let shared = usize::try_from(varint::read(&mut input)?)
            .ok()
            .and_then(|shared| previous.get(..shared));
        let shared = shared.ok_or(Fault("a name shares more than the one before has"))?;
        let size =
            usize::try_from(varint::read(&mut input)?).map_err(|_| Fault("a name is too long"))?;
        let own = varint::take(&mut input, size)?;
        decoded += (shared.len() + own.len()) as u64;
        check_expansion(section.len(), decoded)?;
        let mut name = reserved(shared.len() + own.len())?;
        name.extend_from_slice(shared);
        name.extend_from_slice(own);
        let name = String::from_utf8(name).map_err(|_| Fault("a name is not UTF-8"))?;
        let flags = varint::take(&mut input, 1)?[0];
        let (first_byte, first_word) = match flags & FIRST_PART {
            0 => (varint::read(&mut input)?, varint::read(&mut input)?),
            _ => (0, 0),
        };
        let bytes = varint::read(&mut input)?;
        let words = varint::read(&mut input)?;
        let crc32 = varint::take(&mut input, 4)?;
        files.push(FileEntry {
            name,
            bytes,
            words,
            crc32: u32::from_le_bytes([crc32[0], crc32[1], crc32[2], crc32[3]]),
            first_byte,
            first_word,
            last_part: flags & LAST_PART != 0,
        });
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn file(name: &str) -> FileEntry {
        FileEntry {
            name: name.to_owned(),
            bytes: 1 << 40,
            words: 7,
            crc32: 0xdead_beef,
            first_byte: 0,
            first_word: 0,
            last_part: true,
        }
    }

    #[test]
    fn files_and_parts_of_files_come_back() {
        let mut files = vec![
            file(""),
            file("a/b.txt"),
            file("a/bc.txt"),
            file("\u{e4}"),
            file(&"long/".repeat(1000)),
        ];
        files.push(FileEntry {
            first_byte: 5,
            first_word: 0,
            last_part: false,
            ..file("z")
        });
        files.push(FileEntry {
            first_byte: u64::MAX,
            first_word: 3,
            bytes: 0,
            words: 0,
            ..file("z")
        });
        let section = encode(&files);
        assert_eq!(decode(&section, 7).unwrap(), files);
        for length in 0..section.len() {
            assert!(decode(&section[..length], 7).is_err());
        }
        assert!(decode(&section, u32::MAX).is_err());
    }

    #[test]
    fn names_that_share_almost_everything_stay_within_bounds() {
        let files: Vec<FileEntry> = (0..500)
            .map(|number| file(&format!("{}{number}", "directory/".repeat(400))))
            .collect();
        let section = encode(&files);
        assert_eq!(decode(&section, 500).unwrap(), files);
        assert!(section.len() < 40_000, "{}", section.len());
    }
}
