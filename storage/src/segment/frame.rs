//! The frame of a segment file: magic, version, footer; where the sections are and what the segment says of itself.
//!
//! Invariant: sections lie between head and footer without gaps, so every byte of a file is under some check. Opening
//! reads the frame alone; sections are not touched.

use super::coding::Fault;
use super::{Section, SegmentForm, SegmentHeader, SegmentInfo};
use crate::settings::{ID_MAX, check_name, check_settings};
use crate::{CorpusSettings, IngestMode, MetadataSchema, Tokenizer};

/// The first bytes of a segment file, and the last.
pub const MAGIC: [u8; 8] = *b"\x89ZDBSEG\n";

/// The version of segments with a grammar that this build writes.
const VERSION: u32 = 2;

/// The first version, whose files end with the root; it is read as well.
const VERSION_WITHOUT_TOTALS: u32 = 1;

/// The version of segments of packed text: those of earlier builds have none.
const VERSION_OF_TEXT: u32 = 3;

/// The version of segments with a grammar and metadata.
const VERSION_WITH_METADATA: u32 = 4;

/// The version of segments of packed text with metadata.
const VERSION_OF_TEXT_WITH_METADATA: u32 = 5;

/// The latest version.
pub const VERSION_MAX: u32 = VERSION_OF_TEXT_WITH_METADATA;

/// Magic and version.
pub const HEAD_SIZE: usize = MAGIC.len() + 4;

/// Size of the footer, its CRC32, magic.
const TAIL_SIZE: usize = 4 + 4 + MAGIC.len();

/// The last bytes of a file that hold all of its footer and what follows: more than a footer with the longest name.
pub const END_SIZE_MAX: usize = 1024;

/// Sections with bytes of their own, in the order they are stored.
pub const STORED: [Section; 10] = [
    Section::Files,
    Section::Words,
    Section::Gaps,
    Section::Rules,
    Section::Model,
    Section::Bodies,
    Section::Root,
    Section::Totals,
    Section::Text,
    Section::Metadata,
];

/// The version of a segment's file.
fn version_of(form: SegmentForm, extents: &[Extent; STORED.len()]) -> u32 {
    let has_metadata = extents[METADATA].size > 0;
    match (form, has_metadata) {
        (SegmentForm::Grammar, false) => VERSION,
        (SegmentForm::Text, false) => VERSION_OF_TEXT,
        (SegmentForm::Grammar, true) => VERSION_WITH_METADATA,
        (SegmentForm::Text, true) => VERSION_OF_TEXT_WITH_METADATA,
    }
}

/// The place of metadata in [`STORED`].
const METADATA: usize = STORED.len() - 1;

/// The sections that files of a version have, by their places in [`STORED`].
fn sections_of(version: u32) -> &'static [usize] {
    match version {
        VERSION_WITHOUT_TOTALS => &[0, 1, 2, 3, 4, 5, 6],
        VERSION => &[0, 1, 2, 3, 4, 5, 6, 7],
        // Files and text.
        VERSION_OF_TEXT => &[0, 8],
        VERSION_WITH_METADATA => &[0, 1, 2, 3, 4, 5, 6, 7, METADATA],
        _ => &[0, 8, METADATA],
    }
}

/// Where a section is and what its checksum should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First byte in the file.
    pub start: usize,
    /// Bytes.
    pub size: usize,
    /// CRC32 of the bytes.
    pub crc32: u32,
}

/// The content of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The header of the segment.
    pub header: SegmentHeader,
    /// Facts that need no decoding.
    pub info: SegmentInfo,
    /// In the order of [`STORED`].
    pub extents: [Extent; STORED.len()],
}

/// A fault of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameFault {
    /// A version this build does not know.
    Version(u32),
    /// The footer is not what was written.
    Checksum {
        /// Where the footer starts.
        offset: usize,
        /// Recorded.
        expected: u32,
        /// Computed.
        found: u32,
    },
    /// Not a segment file, or not a whole one.
    Corrupt(&'static str),
}

impl From<Fault> for FrameFault {
    fn from(fault: Fault) -> FrameFault {
        FrameFault::Corrupt(fault.0)
    }
}

/// The bytes before the sections.
pub fn head(form: SegmentForm, extents: &[Extent; STORED.len()]) -> Vec<u8> {
    let mut head = MAGIC.to_vec();
    head.extend(version_of(form, extents).to_le_bytes());
    head
}

/// The bytes after the sections. `info.size` and `info.sections` are not used.
pub fn tail(
    header: &SegmentHeader,
    info: &SegmentInfo,
    extents: &[Extent; STORED.len()],
) -> Vec<u8> {
    let mut footer = Vec::new();
    footer.extend(header.segment_id.to_le_bytes());
    footer.extend(header.publication.to_le_bytes());
    footer.extend(header.publication_index.to_le_bytes());
    footer.push(u8::from(header.publication_last));
    footer.push(header.settings.tokenizer.to_disk());
    let (major, minor, patch) = header.unicode_version;
    footer.extend([major, minor, patch]);
    footer.extend(header.settings.segment_size.to_le_bytes());
    footer.extend(header.settings.alpha_numerator.to_le_bytes());
    footer.extend(header.settings.alpha_denominator.to_le_bytes());
    footer.push(header.corpus.len() as u8); // at most NAME_SIZE_MAX
    footer.extend(header.corpus.as_bytes());
    footer.extend(info.files.to_le_bytes());
    footer.extend(info.bytes.to_le_bytes());
    footer.extend(info.words.to_le_bytes());
    footer.extend(info.tokens.to_le_bytes());
    footer.extend(info.rules.to_le_bytes());
    footer.extend(info.levels.to_le_bytes());
    footer.extend(info.symbols.to_le_bytes());
    footer.extend(info.root_symbols.to_le_bytes());
    let version = version_of(info.form, extents);
    for extent in sections_of(version)
        .iter()
        .map(|&section| &extents[section])
    {
        footer.extend((extent.size as u64).to_le_bytes());
        footer.extend(extent.crc32.to_le_bytes());
    }
    let mut tail = footer;
    let (size, crc32) = (tail.len() as u32, footer_crc32(version, &tail)); // a few hundred bytes
    tail.extend(size.to_le_bytes());
    tail.extend(crc32.to_le_bytes());
    tail.extend(MAGIC);
    tail
}

/// Version and footer together, so that a footer does not go with another version.
fn footer_crc32(version: u32, footer: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&version.to_le_bytes());
    hasher.update(footer);
    hasher.finalize()
}

/// Reads the frame of a file of `size` bytes, of which `head` are the first [`HEAD_SIZE`] at least and `end` the last
/// [`END_SIZE_MAX`] at least, or all.
pub fn read(head: &[u8], end: &[u8], size: usize) -> Result<Frame, FrameFault> {
    let cut_off = FrameFault::Corrupt("it is cut off or not a segment file");
    let (head, _) = head.split_at_checked(HEAD_SIZE).ok_or(cut_off)?;
    if head[..MAGIC.len()] != MAGIC {
        return Err(FrameFault::Corrupt("it is not a segment file"));
    }
    let version = fixed(&mut &head[MAGIC.len()..]).map(u32::from_le_bytes)?;
    if !(VERSION_WITHOUT_TOTALS..=VERSION_MAX).contains(&version) {
        return Err(FrameFault::Version(version));
    }
    let (end, mut tail) = (end.len().checked_sub(TAIL_SIZE))
        .map(|tail_start| end.split_at(tail_start))
        .ok_or(cut_off)?;
    let footer_size = u32::from_le_bytes(fixed(&mut tail)?) as usize;
    let expected = u32::from_le_bytes(fixed(&mut tail)?);
    if tail != MAGIC {
        return Err(cut_off);
    }
    let offset = (size - TAIL_SIZE)
        .checked_sub(footer_size)
        .filter(|&offset| offset >= HEAD_SIZE);
    let offset = offset.ok_or(FrameFault::Corrupt("its footer is larger than the file"))?;
    let footer = (end.len().checked_sub(footer_size))
        .map(|start| &end[start..])
        .ok_or(FrameFault::Corrupt("its footer is too long"))?;
    let found = footer_crc32(version, footer);
    if found != expected {
        return Err(FrameFault::Checksum {
            offset,
            expected,
            found,
        });
    }
    let mut frame = read_footer(footer, version)?;
    let mut start = HEAD_SIZE;
    for extent in &mut frame.extents {
        extent.start = start;
        start = start
            .checked_add(extent.size)
            .ok_or(FrameFault::Corrupt("a section is larger than the file"))?;
    }
    if start != offset {
        return Err(FrameFault::Corrupt("its sections do not fill it"));
    }
    frame.info.size = size as u64;
    frame.info.sections = account(size, &frame.extents);
    Ok(frame)
}

fn read_footer(mut input: &[u8], version: u32) -> Result<Frame, FrameFault> {
    let input = &mut input;
    let segment_id = u64::from_le_bytes(fixed(input)?);
    let publication = u64::from_le_bytes(fixed(input)?);
    let publication_index = u32::from_le_bytes(fixed(input)?);
    let [last, tokenizer, major, minor, patch] = fixed(input)?;
    let settings = CorpusSettings {
        tokenizer: Tokenizer::from_disk(tokenizer)
            .ok_or(FrameFault::Corrupt("its tokenizer does not exist"))?,
        segment_size: u64::from_le_bytes(fixed(input)?),
        alpha_numerator: u32::from_le_bytes(fixed(input)?),
        alpha_denominator: u32::from_le_bytes(fixed(input)?),
        recompress_threshold: CorpusSettings::RECOMPRESS_THRESHOLD_DEFAULT,
        ingest: IngestMode::Grammar,
        metadata: MetadataSchema::default(),
    };
    let [name_size] = fixed(input)?;
    let (name, rest) = input
        .split_at_checked(usize::from(name_size))
        .ok_or(FOOTER_SHORT)?;
    *input = rest;
    let name = std::str::from_utf8(name)
        .map_err(|_| FrameFault::Corrupt("its corpus name is not UTF-8"))?;
    check_name(name).map_err(|_| FrameFault::Corrupt("its corpus cannot have such a name"))?;
    check_settings(&settings)
        .map_err(|_| FrameFault::Corrupt("its corpus cannot have such settings"))?;
    let header = SegmentHeader {
        corpus: name.to_owned(),
        settings,
        segment_id,
        unicode_version: (major, minor, patch),
        publication,
        publication_index,
        publication_last: last != 0,
    };
    check_numbers(&header).map_err(|fault| FrameFault::Corrupt(fault.0))?;
    let info = SegmentInfo {
        segment_id,
        size: 0,
        files: u32::from_le_bytes(fixed(input)?),
        bytes: u64::from_le_bytes(fixed(input)?),
        words: u64::from_le_bytes(fixed(input)?),
        tokens: u32::from_le_bytes(fixed(input)?),
        rules: u32::from_le_bytes(fixed(input)?),
        levels: u32::from_le_bytes(fixed(input)?),
        symbols: u64::from_le_bytes(fixed(input)?),
        root_symbols: u64::from_le_bytes(fixed(input)?),
        form: match version {
            VERSION_OF_TEXT | VERSION_OF_TEXT_WITH_METADATA => SegmentForm::Text,
            _ => SegmentForm::Grammar,
        },
        sections: Vec::new(),
    };
    // Tokens are numbered by u32, and no grammar has more symbols than its text has tokens.
    if info.symbols.max(info.root_symbols) > u64::from(u32::MAX) {
        return Err(FrameFault::Corrupt("it has more symbols than there can be"));
    }
    let mut extents = [Extent {
        start: 0,
        size: 0,
        crc32: 0,
    }; STORED.len()];
    for &section in sections_of(version) {
        let extent = &mut extents[section];
        let size = u64::from_le_bytes(fixed(input)?);
        extent.size = usize::try_from(size)
            .map_err(|_| FrameFault::Corrupt("a section is larger than the file"))?;
        extent.crc32 = u32::from_le_bytes(fixed(input)?);
    }
    if !input.is_empty() {
        return Err(FrameFault::Corrupt("its footer is too long"));
    }
    // A version says what the file has, so that equal content has equal bytes.
    if version > VERSION_OF_TEXT && extents[METADATA].size == 0 {
        return Err(FrameFault::Corrupt("it has no metadata"));
    }
    Ok(Frame {
        header,
        info,
        extents,
    })
}

/// Refuses numbers that no publication gives: recovery would make a corpus of them whose files it does not know again.
pub fn check_numbers(header: &SegmentHeader) -> Result<(), Fault> {
    if (1..header.segment_id).contains(&header.publication) && header.segment_id <= ID_MAX {
        return Ok(());
    }
    Err(Fault("its numbers are out of range"))
}

/// The sizes of all sections; what is in none belongs to the frame.
pub fn account(file_size: usize, extents: &[Extent; STORED.len()]) -> Vec<(Section, u64)> {
    let stored: usize = extents.iter().map(|extent| extent.size).sum();
    let frame = (Section::Frame, (file_size - stored) as u64);
    let stored = STORED
        .into_iter()
        .zip(extents)
        .map(|(section, extent)| (section, extent.size as u64));
    std::iter::once(frame).chain(stored).collect()
}

const FOOTER_SHORT: FrameFault = FrameFault::Corrupt("its footer is too short");

/// Takes a number of fixed size off the front of `input`.
fn fixed<const SIZE: usize>(input: &mut &[u8]) -> Result<[u8; SIZE], FrameFault> {
    let (bytes, rest) = input.split_first_chunk().ok_or(FOOTER_SHORT)?;
    *input = rest;
    Ok(*bytes)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn header() -> SegmentHeader {
        SegmentHeader {
            corpus: "c".to_owned(),
            settings: CorpusSettings::default(),
            segment_id: 3,
            unicode_version: (16, 0, 0),
            publication: 2,
            publication_index: 0,
            publication_last: true,
        }
    }

    fn info() -> SegmentInfo {
        SegmentInfo {
            segment_id: 3,
            size: 0,
            files: 0,
            bytes: 0,
            words: 0,
            tokens: 0,
            rules: 0,
            levels: 0,
            symbols: 0,
            root_symbols: 0,
            form: SegmentForm::Grammar,
            sections: Vec::new(),
        }
    }

    fn reread(header: &SegmentHeader) -> Result<SegmentHeader, FrameFault> {
        let found = [SegmentForm::Grammar, SegmentForm::Text].map(|form| reread_as(header, form));
        let [grammar, text] = found;
        assert_eq!(format!("{grammar:?}"), format!("{text:?}"));
        grammar
    }

    fn reread_as(header: &SegmentHeader, form: SegmentForm) -> Result<SegmentHeader, FrameFault> {
        let nothing = Extent {
            start: 0,
            size: 0,
            crc32: 0,
        };
        let extents = [nothing; STORED.len()];
        let mut file = head(form, &extents);
        let info = SegmentInfo { form, ..info() };
        file.extend(tail(header, &info, &extents));
        let end = &file[file.len().saturating_sub(END_SIZE_MAX)..];
        let frame = read(&file[..HEAD_SIZE], end, file.len())?;
        assert_eq!(frame.info.form, form);
        Ok(frame.header)
    }

    #[test]
    fn the_footer_of_a_corpus_with_the_longest_name_is_found_at_the_end() {
        let corpus = "n".repeat(crate::settings::NAME_SIZE_MAX);
        let header = SegmentHeader { corpus, ..header() };
        assert_eq!(reread(&header).unwrap(), header);
    }

    #[test]
    fn a_footer_that_no_catalog_could_take_is_refused() {
        assert_eq!(reread(&header()).unwrap(), header());
        let changes: [fn(&mut SegmentHeader); 8] = [
            |header| header.corpus = String::new(),
            |header| header.corpus = "a\nb".to_owned(),
            |header| header.settings.segment_size = 0,
            |header| header.settings.alpha_denominator = 0,
            |header| header.publication = 0,
            |header| header.publication = 3,
            |header| header.publication = u64::MAX,
            |header| header.segment_id = u64::MAX,
        ];
        for (number, change) in changes.iter().enumerate() {
            let mut header = header();
            change(&mut header);
            let found = reread(&header);
            assert!(
                matches!(found, Err(FrameFault::Corrupt(_))),
                "{number}: {found:?}"
            );
        }
    }
}
