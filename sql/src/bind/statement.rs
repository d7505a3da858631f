//! CREATE, ALTER and DROP CORPUS, CREATE INDEX, COPY: names, options and their values.
//!
//! Invariant: an option that is accepted has a value within its bounds. CHECK has nothing to bind but its corpus.

use std::ops::RangeInclusive;
use std::path::Path;

use super::{Binder, is_corpus_name};
use crate::error::{Error, Hint, NameKind, Result, quote, shorten};
use crate::parse::parse;
use crate::plan::{
    Compression, Encoding, FILE_FORMATS, IndexKind, Ingest, ListOptions, OnConflict, OnError,
    POSTINGS_CODECS, Plan, RecordOptions, RowFormat, TableFormat, Tokenizer,
};
use crate::query::Query;
use crate::suggest::did_you_mean;
use crate::syntax::{DeclaredColumn, Name, Operand, OptionSetting, Select, StatementKind};
use crate::value::{Value, ValueKind};

/// The least `segment_size` in bytes.
pub const SEGMENT_SIZE_MIN: u64 = 64 << 10;
/// The greatest `segment_size` in bytes.
pub const SEGMENT_SIZE_MAX: u64 = 1 << 30;

/// The least `recompress_threshold` in bytes.
const RECOMPRESS_THRESHOLD_MIN: u64 = 64 << 10;
/// The greatest `recompress_threshold` in bytes.
const RECOMPRESS_THRESHOLD_MAX: u64 = 1 << 40;

/// Words of a block that lists of an index may be of.
const BLOCK_WORDS: RangeInclusive<u32> = 64..=1 << 20;

/// Options of COPY ... FROM.
const COPY_OPTIONS: [&str; 13] = [
    "on_error",
    "on_conflict",
    "encoding",
    "compression",
    "format",
    "records",
    "text",
    "name",
    "fields",
    "create_columns",
    "strip",
    "unpack_limit",
    "follow",
];

/// Bytes that a file may unpack to.
const UNPACK_LIMITS: RangeInclusive<u64> = 1..=1 << 50;

/// Bytes of an index' name at most: it is part of a file name.
const INDEX_NAME_MAX: usize = 64;

/// Options of a corpus, as CREATE and ALTER CORPUS take them.
#[derive(Debug, Default)]
struct CorpusOptions {
    tokenizer: Option<Tokenizer>,
    segment_size: Option<u64>,
    recompress_threshold: Option<u64>,
    ingest: Option<Ingest>,
}

/// What a corpus can say of imported files.
const INGESTS: [(&str, Ingest); 3] = [
    ("grammar", Ingest::Grammar),
    ("fast", Ingest::Fast),
    ("auto", Ingest::Auto),
];

impl Binder<'_> {
    fn corpus_options(&self, options: &[OptionSetting]) -> Result<CorpusOptions> {
        let mut found = CorpusOptions::default();
        for OptionSetting { key, value } in options {
            match key.text.to_ascii_lowercase().as_str() {
                "tokenizer" => found.tokenizer = Some(self.tokenizer(value)?),
                "segment_size" => found.segment_size = Some(self.segment_size(value)?),
                "recompress_threshold" => {
                    found.recompress_threshold = Some(self.recompress_threshold(value)?);
                }
                "ingest" => {
                    let bounds = "'grammar', 'fast' or 'auto'";
                    found.ingest = Some(self.choice(value, "ingest", bounds, &INGESTS)?);
                }
                _ => {
                    let options = [
                        "tokenizer",
                        "segment_size",
                        "recompress_threshold",
                        "ingest",
                    ];
                    return Err(self.no_such_option(key, &options));
                }
            }
        }
        Ok(found)
    }

    pub(super) fn create_corpus(
        &self,
        name: &Name,
        if_not_exists: bool,
        columns: &[DeclaredColumn],
        options: &[OptionSetting],
    ) -> Result<Plan> {
        if !is_corpus_name(&name.text) {
            return Err(Error::OutOfRange {
                at: self.source.at(name.at),
                what: "a corpus' name".to_owned(),
                bounds: "1 to 255 bytes without control characters and without spaces around it"
                    .to_owned(),
                found: quote(&name.text),
                hint: Hint::NONE,
            });
        }
        let CorpusOptions {
            tokenizer,
            segment_size,
            recompress_threshold,
            ingest,
        } = self.corpus_options(options)?;
        if let Some(existing) = self.find_corpus(&name.text)
            && !if_not_exists
        {
            return Err(Error::CorpusExists {
                at: self.source.at(name.at),
                name: quote(&existing),
                hint: Hint::new("`CREATE CORPUS IF NOT EXISTS` leaves it as it is"),
            });
        }
        Ok(Plan::CreateCorpus {
            name: name.text.clone(),
            if_not_exists,
            tokenizer,
            segment_size,
            recompress_threshold,
            ingest,
            columns: self.declared(columns)?,
        })
    }

    pub(super) fn create_index(
        &self,
        name: &Name,
        if_not_exists: bool,
        corpus: &Name,
        kind: &Name,
        options: &[OptionSetting],
    ) -> Result<Plan> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if !(1..=INDEX_NAME_MAX).contains(&name.text.len()) || !name.text.bytes().all(is_plain) {
            return Err(Error::OutOfRange {
                at: self.source.at(name.at),
                what: "an index' name".to_owned(),
                bounds: format!("1 to {INDEX_NAME_MAX} ASCII letters, digits and `_`"),
                found: quote(&name.text),
                hint: Hint::NONE,
            });
        }
        let mut kinds = IndexKind::ALL.into_iter();
        let found = kinds.find(|known| known.name().eq_ignore_ascii_case(&kind.text));
        let kind = found.ok_or_else(|| {
            let hint = did_you_mean(
                &kind.text,
                &IndexKind::ALL.map(IndexKind::name),
                "kinds are",
            );
            self.no_such(kind.at, NameKind::IndexKind, &kind.text, hint)
        })?;
        Ok(Plan::CreateIndex {
            name: name.text.clone(),
            if_not_exists,
            corpus: self.corpus(&corpus.text, corpus.at)?,
            kind,
            options: self.list_options(kind, options)?,
        })
    }

    fn list_options(&self, kind: IndexKind, settings: &[OptionSetting]) -> Result<ListOptions> {
        let mut options = ListOptions::default();
        for OptionSetting { key, value } in settings {
            if kind != IndexKind::Postings {
                let message = format!("an index of {} has no options", kind.name());
                return Err(self.conflict(key.at, message, Hint::NONE));
            }
            let choices =
                |what, choices: &[(&str, bool)]| self.choice(value, what, "'on' or 'off'", choices);
            match key.text.to_ascii_lowercase().as_str() {
                "codec" => {
                    let name = self.text(value, "the codec")?.to_ascii_lowercase();
                    if !POSTINGS_CODECS.contains(&name.as_str()) {
                        let hint = did_you_mean(&name, &POSTINGS_CODECS, "codecs are");
                        return Err(self.no_such(value.at, NameKind::Codec, &name, hint));
                    }
                    options.codec = Some(name).filter(|name| name != "auto");
                }
                "unit" => options.unit = self.unit(value)?,
                "reorder" => {
                    let switch = [("on", true), ("off", false)];
                    options.is_reordered = choices("the option reorder", &switch)?;
                }
                "positions" => {
                    let switch = [("on", true), ("off", false)];
                    if choices("the option positions", &switch)? {
                        let message = "an index of postings has no positions";
                        let hint = Hint::new("CREATE INDEX ... USING occurrences has them");
                        return Err(self.conflict(value.at, message, hint));
                    }
                }
                _ => {
                    let known = ["codec", "positions", "reorder", "unit"];
                    return Err(self.no_such_option(key, &known));
                }
            }
        }
        let reorder = |setting: &&OptionSetting| setting.key.text.eq_ignore_ascii_case("reorder");
        match settings.iter().find(reorder) {
            Some(setting) if options.is_reordered && options.unit.is_some() => {
                let message = "blocks of words keep their order";
                let hint = Hint::new("reorder = 'on' needs unit = 'file'");
                Err(self.conflict(setting.key.at, message, hint))
            }
            _ => Ok(options),
        }
    }

    /// The words of a block that lists are of; none for `'file'`.
    fn unit(&self, operand: &Operand) -> Result<Option<u32>> {
        let text = self.text(operand, "the unit")?.to_ascii_lowercase();
        if text == "file" {
            return Ok(None);
        }
        let words = text.strip_prefix("block:");
        let words = words.and_then(|words| words.parse().ok());
        match words.filter(|words| BLOCK_WORDS.contains(words)) {
            Some(words) => Ok(Some(words)),
            None => Err(Error::OutOfRange {
                at: self.source.at(operand.at),
                what: "the unit".to_owned(),
                bounds: format!(
                    "'file' or 'block:N', N from {} to {} words",
                    BLOCK_WORDS.start(),
                    BLOCK_WORDS.end()
                ),
                found: format!("'{}'", shorten(&text)),
                hint: Hint::NONE,
            }),
        }
    }

    pub(super) fn alter_corpus(&self, corpus: &Name, options: &[OptionSetting]) -> Result<Plan> {
        let corpus = self.corpus(&corpus.text, corpus.at)?;
        let is_tokenizer =
            |option: &&OptionSetting| option.key.text.eq_ignore_ascii_case("tokenizer");
        if let Some(option) = options.iter().find(is_tokenizer) {
            let message = "the tokenizer of a corpus cannot be changed: its words and their numbers are stored";
            let hint = Hint::new("create another corpus and copy the files into it");
            return Err(self.conflict(option.key.at, message, hint));
        }
        let CorpusOptions {
            tokenizer: _,
            segment_size,
            recompress_threshold,
            ingest,
        } = self.corpus_options(options)?;
        Ok(Plan::AlterCorpus {
            corpus,
            segment_size,
            recompress_threshold,
            ingest,
        })
    }

    fn no_such_option(&self, key: &Name, options: &[&str]) -> Error {
        let listed = if options.len() == 1 {
            "the only option is"
        } else {
            "options are"
        };
        self.no_such(
            key.at,
            NameKind::Option,
            &key.text,
            did_you_mean(&key.text, options, listed),
        )
    }

    fn tokenizer(&self, operand: &Operand) -> Result<Tokenizer> {
        let name = self.text(operand, "the tokenizer")?;
        let found = Tokenizer::ALL
            .into_iter()
            .find(|tokenizer| tokenizer.name().eq_ignore_ascii_case(&name));
        found.ok_or_else(|| {
            let hint = did_you_mean(
                &name,
                &Tokenizer::ALL.map(Tokenizer::name),
                "tokenizers are",
            );
            self.no_such(operand.at, NameKind::Tokenizer, &name, hint)
        })
    }

    fn segment_size(&self, operand: &Operand) -> Result<u64> {
        let bounds = SEGMENT_SIZE_MIN..=SEGMENT_SIZE_MAX;
        self.size(operand, "segment_size", bounds, "'64KiB'..='1GiB'")
    }

    fn recompress_threshold(&self, operand: &Operand) -> Result<u64> {
        let bounds = RECOMPRESS_THRESHOLD_MIN..=RECOMPRESS_THRESHOLD_MAX;
        let written = "'64KiB'..='1024GiB'";
        self.size(operand, "recompress_threshold", bounds, written)
    }

    /// A number of bytes, or text with a unit.
    pub(super) fn size(
        &self,
        operand: &Operand,
        what: &str,
        bounds: RangeInclusive<u64>,
        written: &str,
    ) -> Result<u64> {
        let value = self.value(&operand.kind);
        let size = match value {
            Value::Integer(size) => u64::try_from(*size).ok(),
            Value::Text(text) => parse_size(text),
            _ => return Err(self.wrong_type(operand, what, "INTEGER or TEXT", Hint::NONE)),
        };
        size.filter(|size| bounds.contains(size))
            .ok_or_else(|| Error::OutOfRange {
                at: self.source.at(operand.at),
                what: what.to_owned(),
                bounds: format!("a size in {written}"),
                found: shorten(&value.to_string()),
                hint: Hint::new("sizes are bytes, or text with a unit: B, KiB, MiB, GiB"),
            })
    }

    pub(super) fn drop_corpus(&self, name: &Name, if_exists: bool) -> Result<Plan> {
        let found = match self.find_corpus(&name.text) {
            Some(found) => found,
            None if if_exists => name.text.clone(),
            None => self.corpus(&name.text, name.at)?,
        };
        Ok(Plan::DropCorpus {
            name: found,
            if_exists,
        })
    }

    pub(super) fn copy_from(
        &self,
        corpus: &Name,
        path: &Operand,
        options: &[OptionSetting],
    ) -> Result<Plan> {
        let corpus = self.corpus(&corpus.text, corpus.at)?;
        let (mut on_error, mut on_conflict) = (OnError::default(), OnConflict::default());
        let (mut encoding, mut ingest) = (Encoding::default(), None);
        let (mut records, mut follow) = (RecordOptions::default(), false);
        for OptionSetting { key, value } in options {
            match key.text.to_ascii_lowercase().as_str() {
                "on_error" => {
                    let choices = [("stop", OnError::Stop), ("skip", OnError::Skip)];
                    on_error = self.choice(value, "on_error", "'stop' or 'skip'", &choices)?;
                }
                "on_conflict" => {
                    let choices = [
                        ("error", OnConflict::Error),
                        ("skip", OnConflict::Skip),
                        ("replace", OnConflict::Replace),
                    ];
                    let bounds = "'error', 'skip' or 'replace'";
                    on_conflict = self.choice(value, "on_conflict", bounds, &choices)?;
                }
                "encoding" => encoding = self.encoding(value)?,
                "compression" => {
                    let bounds = "'grammar' or 'fast'";
                    ingest = Some(self.choice(value, "compression", bounds, &INGESTS[..2])?);
                }
                "format" => self.set_format(key, &mut records, self.file_format(value)?)?,
                "records" => {
                    let choices = [("line", "line"), ("paragraph", "paragraph")];
                    let bounds = "'line' or 'paragraph'";
                    let format = self.choice(value, "records", bounds, &choices)?;
                    self.set_format(key, &mut records, format.to_owned())?;
                }
                "text" => records.text = Some(self.text(value, "the field of the text")?),
                "name" => records.name = Some(self.text(value, "the field of the name")?),
                "fields" => records.fields = Some(self.text(value, "the fields")?),
                "create_columns" => {
                    records.creates_columns = self.truth(value, "create_columns")?;
                }
                "follow" => follow = self.truth(value, "follow")?,
                "strip" => {
                    let choices = [("tags", true), ("nothing", false)];
                    let bounds = "'tags' or 'nothing'";
                    records.strips_tags = self.choice(value, "strip", bounds, &choices)?;
                }
                "unpack_limit" => {
                    let written = "'1B'..='1048576GiB'";
                    let limit = self.size(value, "unpack_limit", UNPACK_LIMITS, written)?;
                    records.unpack_limit = Some(limit);
                }
                _ => return Err(self.no_such_option(key, &COPY_OPTIONS)),
            }
        }
        Ok(Plan::CopyFrom {
            corpus,
            path: self.path(path, "the path")?,
            on_error,
            on_conflict,
            encoding,
            ingest,
            records,
            follow,
        })
    }

    /// Sets the format of files, which `format` and `records` are both about.
    fn set_format(&self, key: &Name, records: &mut RecordOptions, format: String) -> Result<()> {
        if records.format.replace(format).is_some() {
            let message = "the options format and records both say how files are cut";
            return Err(self.conflict(key.at, message, Hint::new("leave out one of them")));
        }
        Ok(())
    }

    fn file_format(&self, operand: &Operand) -> Result<String> {
        let name = self.text(operand, "the format")?.to_ascii_lowercase();
        if FILE_FORMATS.contains(&name.as_str()) {
            return Ok(name);
        }
        let hint = did_you_mean(&name, &FILE_FORMATS, "formats are");
        Err(self.no_such(operand.at, NameKind::Format, &name, hint))
    }

    /// The extension of the path decides: an archive, rows of names and contents, or a directory.
    pub(super) fn copy_to(&self, corpus: &Name, path: &Operand) -> Result<Plan> {
        let corpus = self.corpus(&corpus.text, corpus.at)?;
        let path_at = path.at;
        let path = self.path(path, "the directory")?;
        let is_tgz = extension(&path).eq_ignore_ascii_case("tgz");
        let (compression, content) = if is_tgz {
            (Some(Compression::Gzip), &*path)
        } else {
            Compression::of_path(&path)
        };
        if is_tgz || extension(content).eq_ignore_ascii_case("tar") {
            return Ok(Plan::CopyToArchive {
                corpus,
                path,
                compression,
            });
        }
        if let Some(format) = TableFormat::named(extension(content)) {
            self.refuse_compression(compression, path_at)?;
            let declared = self.schema.metadata(&corpus);
            let declared = declared.iter().map(|column| Some(column.kind));
            let kinds = [Some(ValueKind::Text), Some(ValueKind::Blob)].into_iter();
            return Ok(Plan::CopyTable {
                query: self.files_of(&corpus, path_at)?,
                path,
                format,
                kinds: kinds.chain(declared).collect(),
            });
        }
        match RowFormat::named(extension(content)) {
            Some(format) => Ok(Plan::CopyQuery {
                query: self.files_of(&corpus, path_at)?,
                path,
                format,
                compression,
            }),
            None => Ok(Plan::CopyTo {
                corpus,
                directory: path,
            }),
        }
    }

    /// Tables are compressed inside.
    fn refuse_compression(&self, compression: Option<Compression>, at: usize) -> Result<()> {
        if compression.is_none() {
            return Ok(());
        }
        let message = "a table cannot be compressed once more";
        let hint = Hint::new("Parquet is compressed inside; leave out the last extension");
        Err(self.conflict(at, message, hint))
    }

    /// The query for names, contents and metadata of the files of a corpus, in order of name.
    pub(super) fn files_of(&self, corpus: &str, at: usize) -> Result<Query> {
        let text = corpus.replace('\'', "''");
        let declared = self.schema.metadata(corpus);
        let declared = declared
            .iter()
            .map(|column| format!(", \"{}\"", column.name.replace('"', "\"\"")));
        let declared: String = declared.collect();
        let sql = format!("SELECT file, content{declared} FROM files('{text}')");
        let statements = parse(&sql)?;
        let statement = statements
            .first()
            .map(|statement| (statement, &statement.kind));
        let Some((statement, StatementKind::Select(selects))) = statement else {
            return Err(self.conflict(at, "the files of a corpus cannot be read", Hint::NONE));
        };
        let binder = Binder {
            source: &statement.source,
            schema: self.schema,
            parameters: &[],
            regexp_work: self.regexp_work,
            views: self.views,
        };
        binder.query(selects)
    }

    /// TRUE or FALSE, or a text that says so.
    fn truth(&self, operand: &Operand, what: &str) -> Result<bool> {
        match self.value(&operand.kind) {
            Value::Integer(0) => Ok(false),
            Value::Integer(1) => Ok(true),
            _ => {
                let choices = [
                    ("true", true),
                    ("on", true),
                    ("false", false),
                    ("off", false),
                ];
                self.choice(operand, what, "true or false", &choices)
            }
        }
    }

    /// One of a few words, in any case.
    fn choice<T: Copy>(
        &self,
        operand: &Operand,
        what: &str,
        bounds: &str,
        choices: &[(&str, T)],
    ) -> Result<T> {
        let chosen = self.text(operand, what)?;
        let mut named = choices.iter();
        let found = named.find(|(name, _)| name.eq_ignore_ascii_case(&chosen));
        found
            .map(|(_, choice)| *choice)
            .ok_or_else(|| Error::OutOfRange {
                at: self.source.at(operand.at),
                what: what.to_owned(),
                bounds: bounds.to_owned(),
                found: format!("'{}'", shorten(&chosen)),
                hint: Hint::NONE,
            })
    }

    /// The encoding of the files.
    fn encoding(&self, operand: &Operand) -> Result<Encoding> {
        let name = self.text(operand, "the encoding")?;
        let label = name.trim().to_ascii_lowercase();
        Ok(match label.as_str() {
            "bytes" => Encoding::Bytes,
            "auto" => Encoding::Auto,
            _ if is_encoding(&label) => Encoding::Named(label),
            _ => {
                let names = [
                    "bytes", "auto", "utf-8", "utf-16", "utf-16le", "utf-16be", "utf-32",
                    "utf-32le", "utf-32be", "latin-1",
                ];
                let hint = did_you_mean(
                    &name,
                    &names,
                    "encodings are utf-32 and those of the Encoding Standard, such as",
                );
                return Err(self.no_such(operand.at, NameKind::Encoding, &name, hint));
            }
        })
    }

    pub(super) fn copy_query(
        &self,
        query: &[Select],
        path: &Operand,
        options: &[OptionSetting],
    ) -> Result<Plan> {
        let query = self.query(query)?;
        let path_at = path.at;
        let path = self.path(path, "the path")?;
        let mut names = RowFormat::ALL.map(RowFormat::name).to_vec();
        names.extend(TableFormat::ALL.map(TableFormat::name));
        let (mut chosen, mut table) = (None, None);
        for OptionSetting { key, value } in options {
            if !key.text.eq_ignore_ascii_case("format") {
                return Err(self.no_such_option(key, &["format"]));
            }
            let name = self.text(value, "the format")?;
            (chosen, table) = (RowFormat::named(&name), TableFormat::named(&name));
            if chosen.is_none() && table.is_none() {
                let hint = did_you_mean(&name, &names, "formats are");
                return Err(self.no_such(value.at, NameKind::Format, &name, hint));
            }
        }
        let (compression, content) = Compression::of_path(&path);
        if chosen.is_none() {
            table = table.or_else(|| TableFormat::named(extension(content)));
        }
        if let Some(format) = table {
            self.refuse_compression(compression, path_at)?;
            return Ok(Plan::CopyTable {
                kinds: query.column_kinds(),
                query,
                path,
                format,
            });
        }
        let standard_output = (path == "-").then_some(RowFormat::Csv);
        let format = chosen
            .or_else(|| RowFormat::named(extension(content)))
            .or(standard_output);
        let Some(format) = format else {
            let message = "the file's extension names no format";
            let formats = names.join(", ");
            let hint = Hint::new(format!(
                "add `WITH (format = 'csv')`; formats are {formats}"
            ));
            return Err(self.conflict(path_at, message, hint));
        };
        Ok(Plan::CopyQuery {
            query,
            path,
            format,
            compression,
        })
    }
}

/// The extension of a path; empty if it has none.
fn extension(path: &str) -> &str {
    let found = Path::new(path).extension();
    found.and_then(|name| name.to_str()).unwrap_or_default()
}

/// Whether a name in lower case is one of an encoding.
fn is_encoding(label: &str) -> bool {
    matches!(
        label,
        "utf16" | "utf32" | "utf-32" | "utf-32le" | "utf-32be" | "latin-1"
    ) || encoding_rs::Encoding::for_label_no_replacement(label.as_bytes()).is_some()
}

/// Reads `64MiB`, `512 KiB`, `1000`: a whole number and perhaps a unit, whose case does not matter.
fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "kib" => 10,
        "mib" => 20,
        "gib" => 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_whole_numbers_with_binary_units() {
        for (text, size) in [
            ("0", Some(0)),
            ("1000", Some(1000)),
            ("7B", Some(7)),
            (" 64 mib ", Some(64 << 20)),
            ("1GiB", Some(1 << 30)),
            ("17179869184GiB", None),
            ("18446744073709551616", None),
            ("1MB", None),
            ("1.5GiB", None),
            ("-1", None),
            ("GiB", None),
            ("", None),
        ] {
            assert_eq!(parse_size(text), size, "{text}");
        }
    }
}
