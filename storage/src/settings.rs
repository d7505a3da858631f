//! Settings of a corpus, with their names and numbers on disk.
//!
//! Those that shape segments are recorded in every segment header, so a corpus can be rebuilt from its segments alone.
//! What a tokenizer does with text is not decided here.

use crate::{Error, MetadataSchema, Result};
use std::fmt;
use std::str::FromStr;

/// Which byte ranges of a text are words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Tokenizer {
    /// UAX #29 word boundaries; segments that hold an alphanumeric character are words.
    #[default]
    Unicode = 0,
    /// Maximal runs of alphanumeric characters.
    Alnum = 1,
    /// Maximal runs of anything but white space.
    Whitespace = 2,
}

impl Tokenizer {
    /// All tokenizers, in the order of their numbers on disk.
    pub const ALL: [Tokenizer; 3] = [Tokenizer::Unicode, Tokenizer::Alnum, Tokenizer::Whitespace];

    /// The name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Tokenizer::Unicode => "unicode",
            Tokenizer::Alnum => "alnum",
            Tokenizer::Whitespace => "whitespace",
        }
    }

    /// The number on disk.
    pub fn to_disk(self) -> u8 {
        self as u8
    }

    /// The tokenizer with this number on disk, if there is one.
    pub fn from_disk(number: u8) -> Option<Tokenizer> {
        Tokenizer::ALL.get(usize::from(number)).copied()
    }
}

impl fmt::Display for Tokenizer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Tokenizer {
    type Err = Error;

    /// Parses the name in SQL, in any case.
    fn from_str(name: &str) -> Result<Tokenizer> {
        Tokenizer::ALL
            .into_iter()
            .find(|tokenizer| tokenizer.name().eq_ignore_ascii_case(name))
            .ok_or_else(|| Error::UnknownTokenizer {
                name: name.to_owned(),
            })
    }
}

/// The form of imported files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum IngestMode {
    /// Segments with a grammar.
    #[default]
    Grammar = 0,
    /// Segments of packed text, which are made grammars in the background.
    Fast = 1,
    /// `Fast` where there is so much text that a grammar takes long, else `Grammar`.
    Auto = 2,
}

impl IngestMode {
    /// All modes, in the order of their numbers on disk.
    pub const ALL: [IngestMode; 3] = [IngestMode::Grammar, IngestMode::Fast, IngestMode::Auto];

    /// The name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            IngestMode::Grammar => "grammar",
            IngestMode::Fast => "fast",
            IngestMode::Auto => "auto",
        }
    }

    /// The number on disk.
    pub fn to_disk(self) -> u8 {
        self as u8
    }

    /// The mode with this number on disk, if there is one.
    pub fn from_disk(number: u8) -> Option<IngestMode> {
        IngestMode::ALL.get(usize::from(number)).copied()
    }

    /// The mode of this name in SQL, in any case, if there is one.
    pub fn from_name(name: &str) -> Option<IngestMode> {
        let mut all = IngestMode::ALL.into_iter();
        all.find(|mode| mode.name().eq_ignore_ascii_case(name))
    }
}

/// What `CREATE CORPUS ... WITH (...)` says of a corpus.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CorpusSettings {
    /// Which byte ranges are words.
    pub tokenizer: Tokenizer,
    /// Most bytes of text that one segment holds.
    pub segment_size: u64,
    /// Numerator of alpha: a round of grammar construction takes pairs at least alpha times as frequent as the most
    /// frequent one.
    pub alpha_numerator: u32,
    /// Denominator of alpha.
    pub alpha_denominator: u32,
    /// Bytes of records from which on they are merged into segments. Says nothing about a segment, so headers of
    /// segments do not have it: there it is always the default.
    pub recompress_threshold: u64,
    /// What imported files become. Headers of segments do not have it: there it is always the default.
    pub ingest: IngestMode,
    /// The columns of files. Headers of segments do not have them: a segment says which columns it has.
    pub metadata: MetadataSchema,
}

impl CorpusSettings {
    /// The threshold of a corpus that sets none, and of one that is known from its segments only.
    pub const RECOMPRESS_THRESHOLD_DEFAULT: u64 = 64 << 20;

    /// As the headers of segments have them.
    pub(crate) fn of_segments(&self) -> CorpusSettings {
        CorpusSettings {
            recompress_threshold: Self::RECOMPRESS_THRESHOLD_DEFAULT,
            ingest: IngestMode::Grammar,
            metadata: MetadataSchema::default(),
            ..self.clone()
        }
    }
}

impl Default for CorpusSettings {
    fn default() -> CorpusSettings {
        CorpusSettings {
            tokenizer: Tokenizer::Unicode,
            segment_size: 1 << 30,
            alpha_numerator: 1,
            alpha_denominator: 10,
            recompress_threshold: CorpusSettings::RECOMPRESS_THRESHOLD_DEFAULT,
            ingest: IngestMode::Grammar,
            metadata: MetadataSchema::default(),
        }
    }
}

/// Bytes of a corpus' name at most.
pub(crate) const NAME_SIZE_MAX: usize = 255;

/// Largest number of a corpus, publication or segment: SQL shows them as integers.
pub(crate) const ID_MAX: u64 = i64::MAX as u64 - 1;

/// Refuses names that a corpus cannot have: 1 to 255 bytes, no control characters.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let invalid = |fault| {
        Err(Error::Invalid {
            what: "corpus name",
            fault,
        })
    };
    if name.is_empty() {
        return invalid("it is empty");
    }
    if name.len() > NAME_SIZE_MAX {
        return invalid("it is longer than 255 bytes");
    }
    if name.chars().any(char::is_control) {
        return invalid("it contains a control character");
    }
    Ok(())
}

/// Refuses settings that nothing could be stored with.
pub(crate) fn check_settings(settings: &CorpusSettings) -> Result<()> {
    let invalid = |fault| {
        Err(Error::Invalid {
            what: "corpus settings",
            fault,
        })
    };
    if settings.segment_size == 0 {
        return invalid("segment size is 0");
    }
    if settings.recompress_threshold == 0 {
        return invalid("recompress threshold is 0");
    }
    if settings.alpha_numerator == 0 || settings.alpha_numerator > settings.alpha_denominator {
        return invalid("alpha is not above 0 and at most 1");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_tokenizer_is_found_again_by_its_name_and_its_number() {
        for tokenizer in Tokenizer::ALL {
            assert_eq!(
                tokenizer.to_string().parse::<Tokenizer>().unwrap(),
                tokenizer
            );
            assert_eq!(Tokenizer::from_disk(tokenizer.to_disk()), Some(tokenizer));
        }
        assert_eq!("UNICODE".parse::<Tokenizer>().unwrap(), Tokenizer::Unicode);
        assert_eq!(Tokenizer::from_disk(3), None);
    }

    #[test]
    fn an_unknown_tokenizer_is_refused_with_the_names_that_exist() {
        let error = "icu".parse::<Tokenizer>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "no such tokenizer `icu`; hint: one of `unicode`, `alnum`, `whitespace`"
        );
    }
}
