//! Segment files with metadata: what is written is read, damage is an error.

use std::path::Path;

use zipfdb_storage::{
    Backend, Bytes, Error, MemoryBackend, MetadataColumn, MetadataKind, MetadataValue, Section,
    SegmentColumn, SegmentParts, SegmentReader, SegmentWriter, TextParts,
};
use zipfdb_test_support::samples::{self, Sample, Shape};

fn sample() -> Sample {
    samples::random(Shape {
        seed: 5,
        tokens: 20,
        levels: 2,
        rules_per_level: 4,
        files: 3,
        root_symbols: 40,
        body_max: 4,
    })
}

fn columns() -> Vec<SegmentColumn> {
    let column = |id, name: &str, kind, values: [MetadataValue; 3]| {
        let name = name.to_owned();
        SegmentColumn::new(MetadataColumn { id, name, kind }, &values).unwrap()
    };
    let text = |text: &str| MetadataValue::Text(text.into());
    vec![
        column(
            0,
            "author",
            MetadataKind::Text,
            [text("a"), MetadataValue::Null, text("b")],
        ),
        column(
            3,
            "day",
            MetadataKind::Date,
            [1, -400, 20_000].map(MetadataValue::Integer),
        ),
        column(
            4,
            "score",
            MetadataKind::Real,
            [0.5, -1.0, 0.0].map(MetadataValue::Real),
        ),
    ]
}

/// The bytes of a segment file with a grammar, and of one with packed text.
fn files(metadata: &[SegmentColumn]) -> [Vec<u8>; 2] {
    let (backend, sample) = (MemoryBackend::new(), sample());
    let paths = ["1.seg", "2.seg"].map(Path::new);
    let parts = SegmentParts {
        header: &sample.header,
        files: &sample.files,
        dictionary: &sample.dictionary,
        grammar: &sample.grammar,
        metadata,
    };
    SegmentWriter::write_with(&backend, paths[0], parts, |_, _| Ok::<_, Error>(None)).unwrap();
    let parts = TextParts {
        header: &sample.header,
        files: &sample.files,
        tokens: 9,
        text: &[b"packed", b" text"],
        metadata,
    };
    SegmentWriter::write_text(&backend, paths[1], parts).unwrap();
    paths.map(|path| backend.read(path).unwrap().to_vec())
}

fn open(bytes: Vec<u8>) -> zipfdb_storage::Result<SegmentReader> {
    SegmentReader::from_bytes(Path::new("1.seg"), Bytes::from(bytes))
}

#[test]
fn columns_are_read_from_both_forms_of_segments() {
    for bytes in files(&columns()) {
        let reader = open(bytes).unwrap();
        assert_eq!(reader.metadata().unwrap(), columns());
        assert_eq!(reader.files().unwrap(), sample().files);
        assert!(
            (reader.info().sections.iter())
                .any(|&(section, size)| section == Section::Metadata && size > 0)
        );
    }
    for (bytes, version) in files(&[]).into_iter().zip([2, 3]) {
        assert_eq!(bytes[8], version, "files without columns stay as they were");
        assert!(open(bytes).unwrap().metadata().unwrap().is_empty());
    }
}

#[test]
fn damaged_metadata_is_an_error_or_changes_nothing() {
    for bytes in files(&columns()) {
        for at in 0..bytes.len() {
            for flip in [1, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] ^= flip;
                let found = open(damaged).and_then(|reader| reader.metadata());
                if let Ok(found) = found {
                    assert_eq!(found, columns(), "byte {at} flipped by {flip:#x}");
                }
            }
        }
    }
}

#[test]
fn values_of_another_type_or_number_are_refused() {
    let column = columns().remove(1).column;
    let text = MetadataValue::Text("a".into());
    assert!(SegmentColumn::new(column.clone(), &[text]).is_err());
    let short = [SegmentColumn::new(column, &[MetadataValue::Null]).unwrap()];
    let sample = sample();
    let parts = TextParts {
        header: &sample.header,
        files: &sample.files,
        tokens: 9,
        text: &[],
        metadata: &short,
    };
    let error = SegmentWriter::write_text(&MemoryBackend::new(), Path::new("1.seg"), parts);
    assert!(matches!(error, Err(Error::Invalid { .. })));
}
