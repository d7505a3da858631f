//! Notices of COPY ... FROM on files that were copied, or left, in an unexpected way.
//!
//! Invariant: all files are counted, the first few are named.

use std::collections::BTreeMap;
use std::sync::Arc;

use zipfdb_sql::shorten;
use zipfdb_storage::PathText;

use crate::notice::Notice;
use crate::paths::encodings::ForeignText;
use crate::paths::formats;
use crate::paths::sources::Source;

/// Files that a notice names.
const NAMED_MAX: usize = 3;

/// Notices on files that are not UTF-8 and were taken as they are, one for each kind.
pub(super) fn of_foreign(foreign: &[(Source, ForeignText)]) -> Vec<Notice> {
    let kinds = [
        (
            ForeignText::Utf32Mark,
            "begin with a byte order mark of UTF-32",
            "COPY ... WITH (encoding = 'auto') decodes them",
        ),
        (
            ForeignText::LikeUtf32,
            "look like UTF-32",
            "COPY ... WITH (encoding = 'utf-32le') or 'utf-32be' decodes them",
        ),
        (
            ForeignText::Utf16Mark,
            "begin with a byte order mark of UTF-16",
            "COPY ... WITH (encoding = 'auto') decodes them",
        ),
        (
            ForeignText::LikeUtf16,
            "look like UTF-16",
            "COPY ... WITH (encoding = 'utf-16le') or 'utf-16be' decodes them",
        ),
        (
            ForeignText::NotUtf8,
            "are not UTF-8",
            "COPY ... WITH (encoding = 'latin-1'), or another encoding that they have, decodes them",
        ),
    ];
    let encodings = kinds.into_iter().filter_map(|(kind, what, hint)| {
        let is_of_kind = |of: ForeignText| of == kind;
        of_kind(foreign, is_of_kind, what, Some(hint))
    });
    // Formats with several signatures are adjacent.
    let formats = formats::ALL.chunk_by(|one, next| one.name == next.name);
    let formats = formats.filter_map(|same| {
        let (name, remedy) = (same[0].name, same[0].remedy);
        let is_of_format =
            |of: ForeignText| matches!(of, ForeignText::Format(format) if format.name == name);
        of_kind(foreign, is_of_format, &format!("look like {name}"), remedy)
    });
    formats.chain(encodings).collect()
}

fn of_kind(
    foreign: &[(Source, ForeignText)],
    is_of_kind: impl Fn(ForeignText) -> bool,
    what: &str,
    hint: Option<&str>,
) -> Option<Notice> {
    let files = foreign.iter().filter(|(_, of)| is_of_kind(*of));
    let text = of_files(
        files.map(|(source, _)| source),
        &format!("{what} and were copied byte for byte"),
    )?;
    Some(Notice::new(text, hint.map(str::to_owned)))
}

/// A notice on files that have grown while they were read.
pub(super) fn of_grown(grown: &[Source]) -> Option<Notice> {
    let what = "grew while they were read and were copied up to where they ended at first";
    of_files(grown.iter(), what).map(|text| Notice::new(text, None))
}

/// A notice on files that were left as they are in the corpus.
pub(super) fn of_conflicts(names: &[String]) -> Option<Notice> {
    let text = format!(
        "{} of the files were in the corpus already and stay as they are: {}",
        names.len(),
        listed(names)
    );
    (!names.is_empty()).then(|| Notice::new(text, None))
}

/// A notice on fields of records that the corpus has no column for.
pub(super) fn of_fields(left: &BTreeMap<Arc<str>, u64>) -> Option<Notice> {
    let records = left.values().max()?;
    let names: Vec<String> = left.keys().map(|name| name.to_string()).collect();
    let text = format!(
        "fields of {records} records were left out, as the corpus has no columns for them: {}",
        listed(&names)
    );
    let hint = "create_columns = true makes columns for fields of records";
    Some(Notice::new(text, Some(hint.to_owned())))
}

/// The statement `what` on files, if there are any.
fn of_files<'a>(files: impl Iterator<Item = &'a Source>, what: &str) -> Option<String> {
    let paths: Vec<String> = files
        .map(|source| PathText(&source.path).to_string())
        .collect();
    (!paths.is_empty()).then(|| format!("{} of the files {what}: {}", paths.len(), listed(&paths)))
}

fn listed(names: &[String]) -> String {
    let listed: Vec<String> = names.iter().take(NAMED_MAX).map(shorten).collect();
    let rest = if listed.len() < names.len() {
        ", ..."
    } else {
        ""
    };
    format!("{}{rest}", listed.join(", "))
}
