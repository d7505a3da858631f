//! How a source is read: how it is cut into records, and the names of their fields.
//!
//! Invariant: a pattern of fields has a named group, and an automaton of bounded size.

use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;

use regex_automata::meta::Regex;

use crate::error::{Error, Result};
use crate::format::Format;
use crate::limits::Limits;
use crate::record::FieldValue;

/// How members of a source are cut into records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cutting {
    /// The source by its name; members of archives are files as they are.
    #[default]
    Named,
    /// The source and all members by their names, with archives in archives.
    All,
    /// Each member in this format, with archives in archives.
    In(Format),
}

/// An encoding of members.
pub trait Decode: Sync {
    /// The text of a member, in UTF-8, or as its bytes are.
    ///
    /// # Errors
    /// If the first bytes show another encoding, or cannot be read.
    fn decode<'r>(&self, source: Box<dyn Read + 'r>) -> io::Result<Box<dyn Read + 'r>>;
}

/// How a source is read.
#[derive(Default)]
pub struct ReadOptions<'a> {
    /// How it is cut into records.
    pub cutting: Cutting,
    /// The field with the text; none for the usual ones of each format.
    pub text: Option<String>,
    /// The field with the name; none for `file`, and numbers where there is none.
    pub name: Option<String>,
    /// The fields of lines and paragraphs.
    pub fields: Option<FieldPattern>,
    /// Whether tags of HTML and XML become spaces, byte for byte.
    pub strips_tags: bool,
    /// The limits.
    pub limits: Limits,
    /// The directory for temporary files: an archive of zip that is no file itself is written to one. None for that of the system.
    pub directory: Option<PathBuf>,
    /// The decoding of members; none if they are UTF-8 or stay as they are.
    pub decode: Option<&'a dyn Decode>,
}

impl std::fmt::Debug for ReadOptions<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("ReadOptions");
        shown.field("cutting", &self.cutting);
        shown.field("text", &self.text).field("name", &self.name);
        shown.finish_non_exhaustive()
    }
}

/// A regular expression whose named groups are the fields of a line or paragraph.
#[derive(Clone, Debug)]
pub struct FieldPattern {
    regex: Regex,
    /// The named groups with their numbers.
    groups: Vec<(usize, Arc<str>)>,
}

impl FieldPattern {
    /// The fields of this expression: `(?<host>\S+) (?<day>\S+)`.
    ///
    /// # Errors
    /// If it is no regular expression, or has no named group.
    pub fn new(pattern: &str) -> Result<FieldPattern> {
        let wrong = |reason: String| Error::Option {
            option: "fields",
            reason,
        };
        let regex = Regex::builder()
            .configure(Regex::config().nfa_size_limit(Some(10 << 20)))
            .build(pattern)
            .map_err(|error| {
                let source = std::error::Error::source(&error);
                wrong(source.map_or(error.to_string(), ToString::to_string))
            })?;
        let names = regex
            .group_info()
            .pattern_names(regex_automata::PatternID::ZERO);
        let named = names.enumerate();
        let groups: Vec<(usize, Arc<str>)> = named
            .filter_map(|(number, name)| Some((number, name?.into())))
            .collect();
        if groups.is_empty() {
            let reason = "the regular expression has no named group; hint: `(?<name>...)` is one";
            return Err(wrong(reason.to_owned()));
        }
        Ok(FieldPattern { regex, groups })
    }

    /// The fields of a text; none if it does not match.
    pub(crate) fn fields(&self, text: &[u8]) -> Option<Vec<(Arc<str>, FieldValue)>> {
        let mut captures = self.regex.create_captures();
        self.regex.captures(text, &mut captures);
        if !captures.is_match() {
            return None;
        }
        let fields = self.groups.iter().map(|(number, name)| {
            let value = match captures.get_group(*number) {
                None => FieldValue::Null,
                Some(span) => match std::str::from_utf8(&text[span.range()]) {
                    Ok(text) => FieldValue::Untyped(text.to_owned()),
                    Err(_) => FieldValue::Bytes(text[span.range()].to_vec()),
                },
            };
            (Arc::clone(name), value)
        });
        Some(fields.collect())
    }
}
