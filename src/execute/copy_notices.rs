//! What COPY ... FROM says of files that it copied, or left, in a way that their owner may not expect.
//!
//! Invariant: all files are counted, the first few are named.

use crate::notice::Notice;
use crate::paths::encodings::ForeignText;
use crate::paths::sources::Source;

/// Files that a notice names.
const NAMED_MAX: usize = 3;

/// Of files that are not UTF-8 and were taken as they are: a notice for each kind.
pub(super) fn of_foreign(foreign: &[(Source, ForeignText)]) -> Vec<Notice> {
    let kinds = [
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
    let notices = kinds.into_iter().filter_map(|(kind, what, hint)| {
        let files = foreign.iter().filter(|(_, of)| *of == kind);
        let paths: Vec<String> = files
            .map(|(source, _)| source.path.display().to_string())
            .collect();
        (!paths.is_empty()).then(|| {
            let text = format!(
                "{} of the files {what} and were copied byte for byte: {}",
                paths.len(),
                listed(&paths)
            );
            Notice::new(text, Some(hint.to_owned()))
        })
    });
    notices.collect()
}

/// Of files that were left as they are in the corpus.
pub(super) fn of_conflicts(names: &[String]) -> Option<Notice> {
    let text = format!(
        "{} of the files were in the corpus already and stay as they are: {}",
        names.len(),
        listed(names)
    );
    (!names.is_empty()).then(|| Notice::new(text, None))
}

fn listed(names: &[String]) -> String {
    let shown = &names[..names.len().min(NAMED_MAX)];
    let rest = if shown.len() < names.len() {
        ", ..."
    } else {
        ""
    };
    format!("{}{rest}", shown.join(", "))
}
