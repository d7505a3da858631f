//! Damaged segment files give an error or the right answer, never a panic.

use std::sync::atomic::AtomicBool;

use zipfdb_storage::{Section, SegmentReader};
use zipfdb_test_support::samples::{self, Sample, Shape};

fn small() -> Sample {
    samples::random(Shape {
        seed: 3,
        tokens: 40,
        levels: 3,
        rules_per_level: 12,
        files: 3,
        root_symbols: 120,
        body_max: 6,
    })
}

#[test]
fn a_flipped_byte_is_an_error_or_changes_nothing() {
    let sample = small();
    let bytes = samples::write(&sample);
    for at in 0..bytes.len() {
        for flip in [1, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] ^= flip;
            if let Ok(found) = samples::read(damaged) {
                assert_eq!(found, sample, "byte {at} flipped by {flip:#x}");
            }
        }
    }
}

/// Size of a section's entry in the footer, and of what follows the footer.
const ENTRY_SIZE: usize = 12;
const TAIL_SIZE: usize = 16;

/// Writes the checksums of the last section and of the footer anew.
fn seal(file: &mut [u8]) {
    let number = |file: &[u8], at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let tail = file.len() - TAIL_SIZE;
    let footer = tail - number(file, tail) as usize;
    let entry = tail - ENTRY_SIZE;
    let section = footer - number(file, entry) as usize..footer;
    let crc32 = crc32fast::hash(&file[section]);
    file[entry + 8..tail].copy_from_slice(&crc32.to_le_bytes());
    let sealed = [&file[8..12], &file[footer..tail]].concat();
    file[tail + 4..tail + 8].copy_from_slice(&crc32fast::hash(&sealed).to_le_bytes());
}

#[test]
fn totals_that_are_not_those_of_the_text_fail_the_check() {
    let bytes = samples::write(&small());
    let reader = samples::open(bytes.clone()).unwrap();
    let totals = reader.totals().unwrap().unwrap().to_vec();
    let mut sections = reader.info().sections.iter();
    // Nothing lies behind them: there is no packed text.
    let size = sections
        .find(|(section, _)| *section == Section::Totals)
        .unwrap()
        .1 as usize;
    let tail = bytes.len() - TAIL_SIZE;
    let footer_size = u32::from_le_bytes(bytes[tail..tail + 4].try_into().unwrap());
    let section = tail - footer_size as usize - size..tail - footer_size as usize;
    let mut differing = 0;
    for at in section {
        for flip in 1..=255 {
            let mut damaged = bytes.clone();
            damaged[at] ^= flip;
            assert!(samples::open(damaged.clone()).unwrap().totals().is_err());
            seal(&mut damaged);
            let reader = samples::open(damaged).unwrap();
            let Ok(found) = reader.totals() else {
                continue;
            };
            let is_right = found.as_deref() == Some(&totals[..]) && counts_alone(&reader, &totals);
            differing += usize::from(!is_right);
            assert_eq!(reader.verify().is_ok(), is_right, "byte {at} by {flip:#x}");
        }
    }
    assert!(differing > 0);
}

/// Whether words that are looked up alone have these totals, or cannot be.
fn counts_alone(reader: &SegmentReader, totals: &[u32]) -> bool {
    let words = reader.dictionary().unwrap().word_offsets();
    match reader.word_blocks() {
        Ok(None) => true,
        Err(_) => false,
        Ok(Some(blocks)) => (words.iter().zip(totals))
            .all(|(&token, &total)| reader.word_total(&blocks, token).ok() == Some(total)),
    }
}

#[test]
fn a_file_cut_short_does_not_open() {
    let bytes = samples::write(&small());
    for length in 0..bytes.len() {
        assert!(
            samples::open(bytes[..length].to_vec()).is_err(),
            "{length} bytes"
        );
    }
}

#[test]
fn a_check_that_is_stopped_ends_without_an_answer() {
    let mut damaged = samples::write(&small());
    // In the first section, behind magic and version.
    damaged[12] ^= 1;
    let reader = samples::open(damaged).unwrap();
    assert!(reader.verify().is_err());
    assert!(reader.verify_until(&AtomicBool::new(true)).is_ok());
    assert!(reader.verify_until(&AtomicBool::new(false)).is_err());
}
