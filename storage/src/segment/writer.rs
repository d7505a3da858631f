//! Writing a segment file.

use super::frame::{self, Extent, STORED};
use super::symbols::EncodedGrammar;
use super::{
    Dictionary, FileEntry, SegmentColumn, SegmentForm, SegmentHeader, SegmentInfo, files, metadata,
    tokens, totals,
};
use crate::backend::Backend;
use crate::error::io_error;
use crate::settings::{check_name, check_settings};
use crate::{Error, Grammar, Result};
use rayon::join;
use std::io::Write as _;
use std::path::Path;

/// Totals of words are stored if they take at most 1/TOTALS_SHARE of everything else, or at most TOTALS_BYTES: where
/// they take more, there is little to decode without them.
const TOTALS_SHARE: usize = 32;
const TOTALS_BYTES: usize = 1 << 10;

/// Writes segment files.
#[derive(Clone, Copy, Debug, Default)]
pub struct SegmentWriter;

/// What a segment file is written from.
#[derive(Clone, Copy, Debug)]
pub struct SegmentParts<'a> {
    /// The header of the segment.
    pub header: &'a SegmentHeader,
    /// Its files, or parts of files, by name.
    pub files: &'a [FileEntry],
    /// Their tokens.
    pub dictionary: &'a Dictionary,
    /// Their grammar.
    pub grammar: &'a Grammar,
    /// Their metadata.
    pub metadata: &'a [SegmentColumn],
}

impl SegmentWriter {
    /// Writes a new file with everything a segment holds and syncs it (not its directory).
    ///
    /// Uses the current rayon pool; the bytes do not depend on its threads. Costs one or two hundred nanoseconds a
    /// symbol and about 30 bytes of memory a symbol.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the parts do not fit together, [`Error::Io`] if the file exists or cannot be written.
    pub fn write(
        backend: &dyn Backend,
        path: &Path,
        header: &SegmentHeader,
        files: &[FileEntry],
        dictionary: &Dictionary,
        grammar: &Grammar,
    ) -> Result<SegmentInfo> {
        let parts = SegmentParts {
            header,
            files,
            dictionary,
            grammar,
            metadata: &[],
        };
        SegmentWriter::write_with(backend, path, parts, |_, _| Ok::<_, Error>(None))
    }

    /// As [`SegmentWriter::write`], with the grammar as `encode_grammar` encodes it, if it does. It is called beside other work
    /// on the current pool, when the parts are known to fit together.
    ///
    /// # Errors
    /// As [`SegmentWriter::write`], and those of `encode_grammar`.
    pub fn write_with<E: From<Error> + Send>(
        backend: &dyn Backend,
        path: &Path,
        parts: SegmentParts<'_>,
        encode_grammar: impl FnOnce(&Grammar, &Dictionary) -> Result<Option<EncodedGrammar>, E> + Send,
    ) -> Result<SegmentInfo, E> {
        let (sections, mut info) = encode(&parts, encode_grammar)?;
        let sections: Vec<[&[u8]; 1]> = sections.iter().map(|section| [&section[..]]).collect();
        let sections: Vec<&[&[u8]]> = sections.iter().map(|section| &section[..]).collect();
        write_sections(backend, path, parts.header, &mut info, &sections)?;
        Ok(info)
    }

    /// Writes a new file with packed text and syncs it (not its directory).
    ///
    /// # Errors
    /// [`Error::Invalid`] if the parts do not fit together, [`Error::Io`] if the file exists or cannot be written.
    pub fn write_text(
        backend: &dyn Backend,
        path: &Path,
        parts: TextParts<'_>,
    ) -> Result<SegmentInfo> {
        let TextParts {
            header,
            files,
            tokens,
            text,
            metadata,
        } = parts;
        check_header(header, files)?;
        check_metadata(files, metadata)?;
        let (file_section, columns) = (files::encode(files), metadata::encode(metadata));
        let mut sections: Vec<&[&[u8]]> = vec![&[]; STORED.len()];
        let (first, last, behind) = ([&file_section[..]], STORED.len() - 1, [&columns[..]]);
        sections[0] = &first;
        sections[last - 1] = text;
        sections[last] = &behind;
        let mut info = SegmentInfo {
            tokens: 0,
            rules: 0,
            levels: 0,
            symbols: 0,
            root_symbols: tokens,
            form: SegmentForm::Text,
            ..info_of(header, files)
        };
        write_sections(backend, path, header, &mut info, &sections)?;
        Ok(info)
    }
}

/// What a segment file of packed text is written from.
#[derive(Clone, Copy, Debug)]
pub struct TextParts<'a> {
    /// The header of the segment.
    pub header: &'a SegmentHeader,
    /// Its files, or parts of files, by name.
    pub files: &'a [FileEntry],
    /// About how many tokens they have.
    pub tokens: u64,
    /// Their text, one file after the other, packed; in pieces that follow each other.
    pub text: &'a [&'a [u8]],
    /// Their metadata.
    pub metadata: &'a [SegmentColumn],
}

/// What a segment says of files alone.
fn info_of(header: &SegmentHeader, files: &[FileEntry]) -> SegmentInfo {
    SegmentInfo {
        segment_id: header.segment_id,
        size: 0,
        files: files.len() as u32, // checked
        bytes: files.iter().map(|file| file.bytes).sum(),
        words: files.iter().map(|file| file.words).sum(),
        tokens: 0,
        rules: 0,
        levels: 0,
        symbols: 0,
        root_symbols: 0,
        form: SegmentForm::Grammar,
        sections: Vec::new(),
    }
}

/// Writes sections, each in pieces, in the order of [`STORED`], with head and tail around them; completes the facts.
fn write_sections(
    backend: &dyn Backend,
    path: &Path,
    header: &SegmentHeader,
    info: &mut SegmentInfo,
    sections: &[&[&[u8]]],
) -> Result<()> {
    let mut extents = [Extent {
        start: 0,
        size: 0,
        crc32: 0,
    }; STORED.len()];
    for (extent, section) in extents.iter_mut().zip(sections) {
        let mut hasher = crc32fast::Hasher::new();
        section.iter().for_each(|piece| hasher.update(piece));
        *extent = Extent {
            start: 0,
            size: section.iter().map(|piece| piece.len()).sum(),
            crc32: hasher.finalize(),
        };
    }
    let (head, tail) = (
        frame::head(info.form, &extents),
        frame::tail(header, info, &extents),
    );
    let failed = |action| io_error(path, action);
    let mut file = backend.create(path).map_err(failed("create"))?;
    let pieces = sections.iter().copied().flatten().copied();
    for piece in [&head[..]].into_iter().chain(pieces).chain([&tail[..]]) {
        file.write_all(piece).map_err(failed("write"))?;
    }
    file.sync().map_err(failed("sync"))?;
    let stored: usize = extents.iter().map(|extent| extent.size).sum();
    let size = head.len() + stored + tail.len();
    info.size = size as u64;
    info.sections = frame::account(size, &extents);
    Ok(())
}

/// The sections of a segment file, and what it says of them.
fn encode<E: From<Error> + Send>(
    parts: &SegmentParts<'_>,
    encode_grammar: impl FnOnce(&Grammar, &Dictionary) -> Result<Option<EncodedGrammar>, E> + Send,
) -> Result<(Vec<Vec<u8>>, SegmentInfo), E> {
    let SegmentParts {
        header,
        files,
        dictionary,
        grammar,
        metadata,
    } = *parts;
    check(header, files, dictionary, grammar)?;
    check_metadata(files, metadata)?;
    let words = dictionary.word_tokens();
    let (encoded, ((word_section, gap_section), (total_section, totals_size))) = join(
        || {
            let encoded = encode_grammar(grammar, dictionary)?;
            Ok::<_, E>(encoded.unwrap_or_else(|| EncodedGrammar::new(grammar, dictionary)))
        },
        || {
            // Token ids fit u32.
            let gaps = (dictionary.len() - words) as usize;
            let tokens = || {
                join(
                    || {
                        let mut section = tokens::encode_ids(dictionary.own_spaces());
                        section.extend(tokens::encode(words as usize, true, |id| {
                            dictionary.token(id as u32)
                        }));
                        section
                    },
                    || tokens::encode(gaps, false, |id| dictionary.token(words + id as u32)),
                )
            };
            join(tokens, || totals::encode(dictionary, grammar))
        },
    );
    let EncodedGrammar {
        rules,
        model,
        bodies,
        root,
    } = encoded?;
    let sections = [
        files::encode(files),
        word_section,
        gap_section,
        rules,
        model,
        bodies,
        root,
    ];
    let size: usize = sections.iter().map(Vec::len).sum();
    let total_section = if totals_size <= (size / TOTALS_SHARE).max(TOTALS_BYTES) {
        total_section
    } else {
        Vec::new()
    };
    let behind = [total_section, Vec::new(), metadata::encode(metadata)];
    let sections = sections.into_iter().chain(behind).collect();
    let info = SegmentInfo {
        tokens: dictionary.len(),
        rules: grammar.rule_count(),
        levels: grammar.level_count(),
        symbols: grammar.symbols.len() as u64,
        root_symbols: grammar.root.len() as u64,
        ..info_of(header, files)
    };
    Ok((sections, info))
}

fn check(
    header: &SegmentHeader,
    files: &[FileEntry],
    dictionary: &Dictionary,
    grammar: &Grammar,
) -> Result<()> {
    let invalid = |what, fault| Err(Error::Invalid { what, fault });
    check_header(header, files)?;
    if let Some(fault) = grammar.fault() {
        return invalid("grammar", fault);
    }
    if grammar.terminal_count != dictionary.len() {
        return invalid(
            "grammar",
            "it has not as many terminals as the dictionary has tokens",
        );
    }
    if grammar.root_offsets.len() - 1 != files.len() {
        return invalid("grammar", "it has not as many roots as there are files");
    }
    if u64::from(grammar.terminal_count) + u64::from(grammar.rule_count()) >= 1 << 31 {
        return invalid("grammar", "terminals and rules do not fit 31 bits");
    }
    Ok(())
}

/// Refuses columns that have not a value for each file.
fn check_metadata(files: &[FileEntry], metadata: &[SegmentColumn]) -> Result<()> {
    if (metadata.iter()).all(|column| column.files() == files.len()) {
        return Ok(());
    }
    Err(Error::Invalid {
        what: "metadata",
        fault: "a column has not as many values as there are files",
    })
}

/// Refuses what no segment may say of itself.
fn check_header(header: &SegmentHeader, files: &[FileEntry]) -> Result<()> {
    check_name(&header.corpus)?;
    check_settings(&header.settings)?;
    frame::check_numbers(header).map_err(|fault| Error::Invalid {
        what: "segment header",
        fault: fault.0,
    })?;
    let sum = |of: fn(&FileEntry) -> u64| {
        files
            .iter()
            .try_fold(0u64, |sum, file| sum.checked_add(of(file)))
    };
    if sum(|file| file.bytes).is_none() || sum(|file| file.words).is_none() {
        return Err(Error::Invalid {
            what: "file table",
            fault: "sizes add up to more than 64 bits",
        });
    }
    Ok(())
}
