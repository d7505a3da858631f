//! Damaged segment files give an error or the right answer, never a panic.

use crate::samples::{self, Sample, Shape};

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
