//! What a database knows about a corpus, and its bytes.
//!
//! The same bytes stand in the catalog and, without segments, in the marker file of a corpus. Integers are
//! little-endian; decoding accepts exactly what encoding makes. The code that stores the bytes adds checksums.

use crate::log::LogPosition;
use crate::settings::{ID_MAX, check_name, check_settings};
use crate::{CorpusSettings, IngestMode, MetadataSchema, Tokenizer};

/// The tokenizer has the lower bits of a byte, what imported files become the upper ones: builds that know no such setting refuse
/// corpora that have it.
const INGEST_SHIFT: u32 = 4;

/// The bit of the same byte that says that columns of files follow the name.
const HAS_COLUMNS: u8 = 1 << 7;

/// A corpus as the catalog has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorpusRecord {
    /// A number of its own: two corpora that had one name one after the other differ here.
    pub id: u64,
    /// The name as it was created. See [`CorpusRecord::answers_to`] for looking it up.
    pub name: String,
    /// What it was created with, or has been set to since.
    pub settings: CorpusSettings,
    /// Its records of the log up to here are in the segments.
    pub merged_position: LogPosition,
    /// The live segments, rising, which is the order they were published in.
    pub segments: Vec<u64>,
}

impl CorpusRecord {
    /// Whether `name` means this corpus: ASCII letters match in either case, as in names of SQL.
    ///
    /// A database holds no two corpora that differ only so, hence a name means one corpus or none.
    pub fn answers_to(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    /// Appends what a marker has: all but the segments.
    pub(crate) fn encode_identity(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.id.to_le_bytes());
        let CorpusSettings {
            tokenizer, ingest, ..
        } = self.settings;
        let metadata = &self.settings.metadata;
        let has_columns = !metadata.is_untouched();
        let flag = if has_columns { HAS_COLUMNS } else { 0 };
        bytes.push(tokenizer.to_disk() | ingest.to_disk() << INGEST_SHIFT | flag);
        bytes.extend(self.settings.segment_size.to_le_bytes());
        bytes.extend(self.settings.alpha_numerator.to_le_bytes());
        bytes.extend(self.settings.alpha_denominator.to_le_bytes());
        bytes.extend(self.settings.recompress_threshold.to_le_bytes());
        bytes.extend(self.merged_position.file.to_le_bytes());
        bytes.extend(self.merged_position.offset.to_le_bytes());
        let size =
            u8::try_from(self.name.len()).expect("names were checked to be at most 255 bytes");
        bytes.push(size);
        bytes.extend(self.name.as_bytes());
        if has_columns {
            metadata.encode(bytes);
        }
    }

    /// Appends the record. The segments stand last, so that a new segment only adds bytes.
    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        self.encode_identity(bytes);
        for segment in &self.segments {
            bytes.extend(segment.to_le_bytes());
        }
    }

    /// Reads what [`CorpusRecord::encode`] wrote, or with no segments what [`CorpusRecord::encode_identity`] wrote.
    pub(crate) fn decode(mut bytes: &[u8]) -> Option<CorpusRecord> {
        let id = u64::from_le_bytes(take(&mut bytes)?);
        let [tokenizer_and_ingest] = take(&mut bytes)?;
        let tokenizer = tokenizer_and_ingest & ((1 << INGEST_SHIFT) - 1);
        let has_columns = tokenizer_and_ingest & HAS_COLUMNS != 0;
        let ingest = (tokenizer_and_ingest & !HAS_COLUMNS) >> INGEST_SHIFT;
        let mut settings = CorpusSettings {
            tokenizer: Tokenizer::from_disk(tokenizer)?,
            segment_size: u64::from_le_bytes(take(&mut bytes)?),
            alpha_numerator: u32::from_le_bytes(take(&mut bytes)?),
            alpha_denominator: u32::from_le_bytes(take(&mut bytes)?),
            recompress_threshold: u64::from_le_bytes(take(&mut bytes)?),
            ingest: IngestMode::from_disk(ingest)?,
            metadata: MetadataSchema::default(),
        };
        check_settings(&settings).ok()?;
        let merged_position = LogPosition {
            file: u64::from_le_bytes(take(&mut bytes)?),
            offset: u64::from_le_bytes(take(&mut bytes)?),
        };
        if merged_position.file > ID_MAX {
            return None;
        }
        let [size] = take(&mut bytes)?;
        let (name, mut segments) = bytes.split_at_checked(usize::from(size))?;
        let name = std::str::from_utf8(name).ok()?.to_owned();
        check_name(&name).ok()?;
        if has_columns {
            settings.metadata = MetadataSchema::decode(&mut segments)?;
        }
        let (segments, []) = segments.as_chunks::<8>() else {
            return None;
        };
        let segments: Vec<u64> = segments.iter().map(|id| u64::from_le_bytes(*id)).collect();
        if !segments.is_sorted_by(|a, b| a < b) {
            return None;
        }
        Some(CorpusRecord {
            id,
            name,
            settings,
            merged_position,
            segments,
        })
    }
}

/// The next `N` bytes.
pub(crate) fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*taken)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn record() -> CorpusRecord {
        CorpusRecord {
            id: 7,
            name: "reviews 2024".to_owned(),
            settings: CorpusSettings {
                tokenizer: Tokenizer::Whitespace,
                segment_size: 4096,
                recompress_threshold: 1 << 20,
                ingest: IngestMode::Auto,
                ..CorpusSettings::default()
            },
            merged_position: LogPosition {
                file: 3,
                offset: 99,
            },
            segments: vec![9, 10, 1 << 40],
        }
    }

    #[test]
    fn a_record_comes_back_with_and_without_its_segments() {
        let mut bytes = Vec::new();
        record().encode(&mut bytes);
        assert_eq!(CorpusRecord::decode(&bytes), Some(record()));

        let mut identity = Vec::new();
        record().encode_identity(&mut identity);
        assert!(bytes.starts_with(&identity));
        let without = CorpusRecord {
            segments: Vec::new(),
            ..record()
        };
        assert_eq!(CorpusRecord::decode(&identity), Some(without));
    }

    #[test]
    fn a_cut_record_is_refused_except_between_segments() {
        let mut bytes = Vec::new();
        record().encode(&mut bytes);
        for size in 0..bytes.len() {
            let between = size >= bytes.len() - 24 && (bytes.len() - size) % 8 == 0;
            assert_eq!(
                CorpusRecord::decode(&bytes[..size]).is_some(),
                between,
                "{size}"
            );
        }
    }

    #[test]
    fn names_follow_the_rules() {
        for name in [
            "a",
            "Reviews",
            "with space",
            "\u{e9}t\u{e9}",
            &"x".repeat(255),
        ] {
            check_name(name).unwrap();
        }
        for name in ["", "a\nb", "\u{0}", "\u{85}", &"x".repeat(256)] {
            check_name(name).unwrap_err();
        }
        assert!(record().answers_to("REVIEWS 2024"));
        assert!(!record().answers_to("reviews 2023"));
        let accented = CorpusRecord {
            name: "\u{e9}t\u{e9}".to_owned(),
            ..record()
        };
        assert!(
            !accented.answers_to("\u{c9}T\u{c9}"),
            "only ASCII letters fold"
        );
    }
}
