//! Formats of records, and how names show them.
//!
//! Invariant: every format has one name, which SQL uses, and extensions that no other format has.

/// A way to cut a file into records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// The whole file is one record.
    Text,
    /// A JSON object in each line.
    JsonLines,
    /// An array of JSON objects, or one object after the other.
    Json,
    /// Values between commas, with a line of names first.
    Csv,
    /// Values between tabs, with a line of names first.
    Tsv,
    /// A mailbox: each message is a record.
    Mbox,
    /// A web archive: each resource is a record.
    Warc,
    /// HTML: the whole file is one record.
    Html,
    /// XML: the whole file is one record.
    Xml,
    /// Each line is a record.
    Lines,
    /// Each run of lines that are not blank is a record.
    Paragraphs,
    /// Apache Parquet.
    Parquet,
    /// Apache Arrow IPC.
    Arrow,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 13] = [
        Format::Text,
        Format::JsonLines,
        Format::Json,
        Format::Csv,
        Format::Tsv,
        Format::Mbox,
        Format::Warc,
        Format::Html,
        Format::Xml,
        Format::Lines,
        Format::Paragraphs,
        Format::Parquet,
        Format::Arrow,
    ];

    /// The name of the format.
    pub fn name(self) -> &'static str {
        match self {
            Format::Text => "text",
            Format::JsonLines => "jsonl",
            Format::Json => "json",
            Format::Csv => "csv",
            Format::Tsv => "tsv",
            Format::Mbox => "mbox",
            Format::Warc => "warc",
            Format::Html => "html",
            Format::Xml => "xml",
            Format::Lines => "line",
            Format::Paragraphs => "paragraph",
            Format::Parquet => "parquet",
            Format::Arrow => "arrow",
        }
    }

    /// The format of a name, in capital or small letters.
    pub fn named(name: &str) -> Option<Format> {
        let mut all = Format::ALL.into_iter();
        all.find(|format| format.name().eq_ignore_ascii_case(name))
    }

    /// The extensions of its files.
    fn extensions(self) -> &'static [&'static str] {
        match self {
            Format::Text | Format::Lines | Format::Paragraphs => &[],
            Format::JsonLines => &["jsonl", "ndjson"],
            Format::Json => &["json"],
            Format::Csv => &["csv"],
            Format::Tsv => &["tsv"],
            Format::Mbox => &["mbox"],
            Format::Warc => &["warc", "wet"],
            Format::Html => &["html", "htm", "xhtml"],
            Format::Xml => &["xml"],
            Format::Parquet => &["parquet"],
            Format::Arrow => &["arrow", "arrows", "feather"],
        }
    }

    /// The format that the extension of a name shows.
    pub fn of_name(name: &[u8]) -> Option<Format> {
        let extension = extension(name)?;
        Format::ALL.into_iter().find(|format| {
            let mut extensions = format.extensions().iter();
            extensions.any(|own| extension.eq_ignore_ascii_case(own.as_bytes()))
        })
    }
}

/// The part of a name behind its last dot, if there is something before the dot.
pub(crate) fn extension(name: &[u8]) -> Option<&[u8]> {
    let start = name
        .iter()
        .rposition(|&byte| byte == b'/')
        .map_or(0, |at| at + 1);
    let last = &name[start..];
    let dot = last.iter().rposition(|&byte| byte == b'.')?;
    (dot > 0).then(|| &last[dot + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_show_formats() {
        for (name, format) in [
            ("a.jsonl", Some(Format::JsonLines)),
            ("a/b.CSV", Some(Format::Csv)),
            ("*.json", Some(Format::Json)),
            (".json", None),
            ("a.json/b", None),
            ("a.", None),
            ("json", None),
            ("", None),
        ] {
            assert_eq!(Format::of_name(name.as_bytes()), format, "{name}");
        }
    }

    #[test]
    fn no_two_formats_share_a_name_or_an_extension() {
        let mut names: Vec<&str> = Format::ALL.map(Format::name).to_vec();
        let mut extensions: Vec<&str> = Format::ALL
            .iter()
            .flat_map(|format| format.extensions().to_vec())
            .collect();
        for list in [&mut names, &mut extensions] {
            let count = list.len();
            list.sort_unstable();
            list.dedup();
            assert_eq!(list.len(), count);
        }
        for format in Format::ALL {
            assert_eq!(Format::named(&format.name().to_uppercase()), Some(format));
        }
    }
}
