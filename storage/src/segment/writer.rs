//! Writing a segment file.

use super::frame::{self, Extent, STORED};
use super::symbols::EncodedGrammar;
use super::{Dictionary, FileEntry, SegmentHeader, SegmentInfo, files, tokens, totals};
use crate::backend::Backend;
use crate::settings::{check_name, check_settings};
use crate::{Error, Grammar, Result};
use rayon::join;
use std::io::Write as _;
use std::path::Path;

/// Totals of words are stored if they take at most this part of everything else, or so few bytes: where they take more,
/// there is little to decode without them.
const TOTALS_SHARE: usize = 64;
const TOTALS_BYTES: usize = 1 << 10;

/// Writes segment files.
#[derive(Clone, Copy, Debug, Default)]
pub struct SegmentWriter;

/// What a segment file is written from.
#[derive(Clone, Copy, Debug)]
pub struct SegmentParts<'a> {
    /// What the segment says about itself.
    pub header: &'a SegmentHeader,
    /// Its files, or parts of files, by name.
    pub files: &'a [FileEntry],
    /// Their tokens.
    pub dictionary: &'a Dictionary,
    /// Their grammar.
    pub grammar: &'a Grammar,
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
        let (bytes, info) = encode(parts, encode_grammar)?;
        let failed = |action| {
            move |source| Error::Io {
                path: path.to_owned(),
                action,
                source,
            }
        };
        let mut file = backend.create(path).map_err(failed("create"))?;
        for part in bytes {
            file.write_all(&part).map_err(failed("write"))?;
        }
        file.sync().map_err(failed("sync"))?;
        Ok(info)
    }
}

/// The bytes of a segment file, in parts, and its facts.
fn encode<E: From<Error> + Send>(
    parts: SegmentParts<'_>,
    encode_grammar: impl FnOnce(&Grammar, &Dictionary) -> Result<Option<EncodedGrammar>, E> + Send,
) -> Result<(Vec<Vec<u8>>, SegmentInfo), E> {
    let SegmentParts {
        header,
        files,
        dictionary,
        grammar,
    } = parts;
    check(header, files, dictionary, grammar)?;
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
    let total_section = match totals_size <= (size / TOTALS_SHARE).max(TOTALS_BYTES) {
        true => total_section,
        false => Vec::new(),
    };
    let sections: Vec<Vec<u8>> = sections.into_iter().chain([total_section]).collect();
    let mut extents = [Extent {
        start: 0,
        size: 0,
        crc32: 0,
    }; STORED.len()];
    for (extent, section) in extents.iter_mut().zip(&sections) {
        *extent = Extent {
            start: 0,
            size: section.len(),
            crc32: crc32fast::hash(section),
        };
    }
    let mut info = SegmentInfo {
        segment_id: header.segment_id,
        size: 0,
        files: files.len() as u32, // checked
        bytes: files.iter().map(|file| file.bytes).sum(),
        words: files.iter().map(|file| file.words).sum(),
        tokens: dictionary.len(),
        rules: grammar.rule_count(),
        levels: grammar.level_count(),
        symbols: grammar.symbols.len() as u64,
        root_symbols: grammar.root.len() as u64,
        sections: Vec::new(),
    };
    let mut parts = vec![frame::head()];
    parts.extend(sections);
    parts.push(frame::tail(header, &info, &extents));
    let size = parts.iter().map(Vec::len).sum();
    info.size = size as u64;
    info.sections = frame::account(size, &extents);
    Ok((parts, info))
}

fn check(
    header: &SegmentHeader,
    files: &[FileEntry],
    dictionary: &Dictionary,
    grammar: &Grammar,
) -> Result<()> {
    let invalid = |what, fault| Err(Error::Invalid { what, fault });
    check_name(&header.corpus)?;
    check_settings(&header.settings)?;
    frame::check_numbers(header).map_err(|fault| Error::Invalid {
        what: "segment header",
        fault: fault.0,
    })?;
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
    let sum = |of: fn(&FileEntry) -> u64| {
        files
            .iter()
            .try_fold(0u64, |sum, file| sum.checked_add(of(file)))
    };
    if sum(|file| file.bytes).is_none() || sum(|file| file.words).is_none() {
        return invalid("file table", "sizes add up to more than 64 bits");
    }
    Ok(())
}
