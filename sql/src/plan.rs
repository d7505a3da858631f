//! `Plan`: what a statement asks for, checked: every name exists, every type fits, every parameter has its value.
//!
//! Invariant: the types are flat and say only what the executor must do; a plan that type-checks here can be carried out
//! (files may still be missing). How it is carried out, by which algorithm, is not decided here.

use std::fmt;

use crate::query::{MetadataColumn, Query};
use crate::setting::Setting;
use crate::value::ValueKind;

/// What a statement asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Plan {
    /// `CREATE CORPUS`.
    CreateCorpus {
        /// Name as written. No corpus has it in any case, unless `if_not_exists`.
        name: String,
        /// A corpus of that name is left as it is.
        if_not_exists: bool,
        /// None for the default.
        tokenizer: Option<Tokenizer>,
        /// Bytes of text a segment holds at most; none for the default.
        segment_size: Option<u64>,
        /// Bytes of changes beyond which they are merged into segments; none for the default.
        recompress_threshold: Option<u64>,
        /// What imported files become; none for the default.
        ingest: Option<Ingest>,
        /// Names and types of the columns of files.
        columns: Vec<(String, ValueKind)>,
    },
    /// `ALTER CORPUS corpus ADD COLUMN`.
    AddColumn {
        /// The corpus.
        corpus: String,
        /// Name of the column, which no other of the corpus has.
        name: String,
        /// The type of its values.
        kind: ValueKind,
    },
    /// `ALTER CORPUS corpus DROP COLUMN`.
    DropColumn {
        /// The corpus.
        corpus: String,
        /// Name of the column.
        name: String,
    },
    /// `ALTER CORPUS corpus SET (...)`: options that are none stay as they are.
    AlterCorpus {
        /// The corpus.
        corpus: String,
        /// Bytes of text that segments made from now on hold at most.
        segment_size: Option<u64>,
        /// Bytes of changes beyond which they are merged into segments.
        recompress_threshold: Option<u64>,
        /// The form of imported files.
        ingest: Option<Ingest>,
    },
    /// `DROP CORPUS`.
    DropCorpus {
        /// Name of the corpus, which exists unless `if_exists`.
        name: String,
        /// A corpus that does not exist is no error.
        if_exists: bool,
    },
    /// `COPY corpus FROM 'path'`.
    CopyFrom {
        /// Corpus to add files to.
        corpus: String,
        /// A file, a directory or a glob.
        path: String,
        /// What to do about files that cannot be read.
        on_error: OnError,
        /// What to do about files whose names the corpus has already.
        on_conflict: OnConflict,
        /// The encoding of the files.
        encoding: Encoding,
        /// What the files become; none for what the corpus says.
        ingest: Option<Ingest>,
        /// How files are unpacked and cut into records.
        records: RecordOptions,
        /// Whether it goes on with what files get until it is interrupted.
        follow: bool,
    },
    /// `COPY corpus TO 'directory'`.
    CopyTo {
        /// Corpus whose files are written.
        corpus: String,
        /// Where to.
        directory: String,
    },
    /// `COPY corpus TO 'path.tar'`.
    CopyToArchive {
        /// Corpus whose files are written.
        corpus: String,
        /// The archive to write; `-` is standard output.
        path: String,
        /// How it is compressed; none if it is not.
        compression: Option<Compression>,
    },
    /// `CHECK corpus`.
    Check {
        /// Corpus to check.
        corpus: String,
    },
    /// `SELECT`.
    Query(Query),
    /// `EXPLAIN SELECT`.
    Explain {
        /// What is explained.
        query: Query,
        /// `EXPLAIN ANALYZE`: the query is carried out, and what happened is shown too.
        analyze: bool,
        /// How it is shown.
        format: ExplainFormat,
    },
    /// `CREATE VIEW`.
    CreateView {
        /// Name as written. No corpus and no view has it in any case, unless `if_not_exists`.
        name: String,
        /// Whether it belongs to the session alone.
        is_temporary: bool,
        /// A view of that name is left as it is.
        if_not_exists: bool,
        /// The SELECT.
        sql: String,
    },
    /// `DROP VIEW`.
    DropView {
        /// Name of the view, which exists unless `if_exists`.
        name: String,
        /// A view that does not exist is no error.
        if_exists: bool,
    },
    /// `CREATE INDEX`.
    CreateIndex {
        /// Name as written: 1 to 64 ASCII letters, digits and `_`.
        name: String,
        /// An index of that name is completed where files of it are missing or damaged.
        if_not_exists: bool,
        /// The corpus.
        corpus: String,
        /// What is stored.
        kind: IndexKind,
        /// How lists are made, where the kind has any.
        options: ListOptions,
    },
    /// `DROP INDEX`.
    DropIndex {
        /// Name of the index.
        name: String,
        /// An index that does not exist is no error.
        if_exists: bool,
    },
    /// `COPY (SELECT ...) TO 'path'`.
    CopyQuery {
        /// Whose rows are written.
        query: Query,
        /// The file to write; `-` is standard output.
        path: String,
        /// How rows are written.
        format: RowFormat,
        /// How the file is compressed; none if it is not.
        compression: Option<Compression>,
    },
    /// `COPY (SELECT ...) TO 'path.parquet'`, `COPY corpus TO 'path.parquet'`.
    CopyTable {
        /// Whose rows are written.
        query: Query,
        /// The file to write; `-` is standard output.
        path: String,
        /// How rows are written.
        format: TableFormat,
        /// The types of the columns, where they are known without a row; values of DATE and TIMESTAMP are texts.
        kinds: Vec<Option<ValueKind>>,
    },
    /// `SET name = value`, or RESET, which sets the default.
    Set(Setting),
    /// `INSERT INTO corpus (...)`, `REPLACE INTO corpus (...)`.
    ///
    /// Every row is one edit. Without offset it appends to the file, or makes it; at an offset it inserts into a file that
    /// is there; with `replace` the file has only this text afterwards. All rows see the text as it was before the statement.
    Insert {
        /// The corpus.
        corpus: String,
        /// What the columns of the query are, in its order: `Content` once, the others at most once, `Offset` never with `replace`
        /// or without `File`. Without `File` each row makes a file, whose name is a number.
        columns: Vec<InsertColumn>,
        /// Gives the rows. Their types are still to be checked: `file` TEXT, `offset` INTEGER and not negative, `content`
        /// TEXT or BLOB; none is NULL. For VALUES it is one block that reads [`crate::query::Source::Values`].
        query: Query,
        /// REPLACE.
        replace: bool,
    },
    /// `UPDATE corpus SET column = value, ...`.
    Update {
        /// The corpus.
        corpus: String,
        /// The columns that get values.
        columns: Vec<MetadataColumn>,
        /// Gives names of files, and a value for each column.
        query: Query,
    },
    /// `DELETE FROM corpus`.
    Delete {
        /// The corpus.
        corpus: String,
        /// Gives one column, the names of the files that go.
        query: Query,
    },
    /// `BEGIN`.
    Begin,
    /// `COMMIT`, `END`.
    Commit,
    /// `ROLLBACK`.
    Rollback,
    /// `RECOMPRESS corpus`.
    Recompress {
        /// The corpus whose changes are merged into segments.
        corpus: String,
    },
}

/// What an index stores of each segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IndexKind {
    /// For each word its files with counts.
    Postings,
    /// For each word where it occurs.
    Occurrences,
    /// All words in the order of what follows them.
    Suffixes,
    /// All n-grams in order, each once.
    Ngrams,
}

impl IndexKind {
    /// All kinds.
    pub const ALL: [IndexKind; 4] = [
        IndexKind::Postings,
        IndexKind::Occurrences,
        IndexKind::Suffixes,
        IndexKind::Ngrams,
    ];

    /// The name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            IndexKind::Postings => "postings",
            IndexKind::Occurrences => "occurrences",
            IndexKind::Suffixes => "suffixes",
            IndexKind::Ngrams => "ngrams",
        }
    }
}

/// How the lists of an index of postings are made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ListOptions {
    /// How they are coded, in lower case; none for the best for each list.
    pub codec: Option<String>,
    /// Words of a block that they are of; none for lists of files.
    pub unit: Option<u32>,
    /// Whether files are numbered by what they have in common.
    pub is_reordered: bool,
}

/// How lists of files of an index may be coded, as `codec` names them.
pub const POSTINGS_CODECS: [&str; 12] = [
    "auto",
    "pfd",
    "newpfd",
    "parapfd",
    "lrc",
    "lrcseg",
    "seglrc",
    "hs256_lrc",
    "hs128_lrc",
    "ef",
    "bp128",
    "roaring",
];

/// A column that INSERT gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InsertColumn {
    /// TEXT: name of the file.
    File,
    /// INTEGER: the byte of the file before which the text goes, from 0.
    Offset,
    /// TEXT or BLOB: the text.
    Content,
    /// A column that the corpus declares.
    Metadata(MetadataColumn),
}

impl InsertColumn {
    /// All columns that every corpus has.
    pub const ALL: [InsertColumn; 3] = [
        InsertColumn::File,
        InsertColumn::Offset,
        InsertColumn::Content,
    ];

    /// The name in SQL.
    pub fn name(&self) -> &str {
        match self {
            InsertColumn::File => "file",
            InsertColumn::Offset => "offset",
            InsertColumn::Content => "content",
            InsertColumn::Metadata(column) => &column.name,
        }
    }
}

/// How EXPLAIN shows a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExplainFormat {
    /// An indented line for each operator.
    Text,
    /// One JSON object.
    Json,
}

/// How rows are written as text, by `COPY (SELECT ...) TO` and by what prints them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RowFormat {
    /// Values between commas, with a line of names first.
    Csv,
    /// Values between tabs, with a line of names first.
    Tsv,
    /// One array of objects.
    Json,
    /// One object a line.
    JsonLines,
}

impl RowFormat {
    /// All formats.
    pub const ALL: [RowFormat; 4] = [
        RowFormat::Csv,
        RowFormat::Tsv,
        RowFormat::Json,
        RowFormat::JsonLines,
    ];

    /// The name in SQL, which is also the extension of such files.
    pub fn name(self) -> &'static str {
        match self {
            RowFormat::Csv => "csv",
            RowFormat::Tsv => "tsv",
            RowFormat::Json => "json",
            RowFormat::JsonLines => "jsonl",
        }
    }

    /// The format of a name, in capital or small letters.
    pub fn named(name: &str) -> Option<RowFormat> {
        let mut formats = RowFormat::ALL.into_iter();
        formats.find(|format| format.name().eq_ignore_ascii_case(name))
    }
}

/// How rows are written as a table with types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TableFormat {
    /// Apache Parquet.
    Parquet,
    /// Apache Arrow IPC.
    Arrow,
}

impl TableFormat {
    /// All formats.
    pub const ALL: [TableFormat; 2] = [TableFormat::Parquet, TableFormat::Arrow];

    /// The name in SQL, which is also the extension of such files.
    pub fn name(self) -> &'static str {
        match self {
            TableFormat::Parquet => "parquet",
            TableFormat::Arrow => "arrow",
        }
    }

    /// The format of a name, in capital or small letters.
    pub fn named(name: &str) -> Option<TableFormat> {
        let mut formats = TableFormat::ALL.into_iter();
        formats.find(|format| format.name().eq_ignore_ascii_case(name))
    }
}

/// How a file is compressed that COPY writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Compression {
    /// gzip, `.gz`.
    Gzip,
    /// Zstandard, `.zst`.
    Zstd,
}

impl Compression {
    /// The compression that the extension of a path names, and the path without the extension.
    pub fn of_path(path: &str) -> (Option<Compression>, &str) {
        let extensions = [(".gz", Compression::Gzip), (".zst", Compression::Zstd)];
        for (extension, compression) in extensions {
            let Some(start) = path.len().checked_sub(extension.len()) else {
                continue;
            };
            if path.is_char_boundary(start) && path[start..].eq_ignore_ascii_case(extension) {
                return (Some(compression), &path[..start]);
            }
        }
        (None, path)
    }
}

/// How files become records that COPY reads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecordOptions {
    /// A name of [`FILE_FORMATS`]; none where the path decides.
    pub format: Option<String>,
    /// The field with the text.
    pub text: Option<String>,
    /// The field with the name.
    pub name: Option<String>,
    /// A regular expression whose named groups are fields.
    pub fields: Option<String>,
    /// Whether fields without a column of their name get one.
    pub creates_columns: bool,
    /// Whether tags of HTML and XML are blanked.
    pub strips_tags: bool,
    /// Bytes that one file may unpack to; none for the usual limit.
    pub unpack_limit: Option<u64>,
}

impl RecordOptions {
    /// No option.
    pub const NONE: RecordOptions = RecordOptions {
        format: None,
        text: None,
        name: None,
        fields: None,
        creates_columns: false,
        strips_tags: false,
        unpack_limit: None,
    };
}

/// Formats of files that COPY reads: `bytes` as they are, `auto` by their names, and those of records.
pub const FILE_FORMATS: [&str; 15] = [
    "auto",
    "bytes",
    "text",
    "jsonl",
    "json",
    "csv",
    "tsv",
    "mbox",
    "warc",
    "html",
    "xml",
    "line",
    "paragraph",
    "parquet",
    "arrow",
];

/// A rule by which text is cut into words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tokenizer {
    /// Unicode word boundaries.
    Unicode,
    /// Runs of alphanumeric characters.
    Alnum,
    /// Runs of anything but whitespace.
    Whitespace,
}

impl Tokenizer {
    /// All tokenizers.
    pub const ALL: [Tokenizer; 3] = [Tokenizer::Unicode, Tokenizer::Alnum, Tokenizer::Whitespace];

    /// The name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Tokenizer::Unicode => "unicode",
            Tokenizer::Alnum => "alnum",
            Tokenizer::Whitespace => "whitespace",
        }
    }
}

impl fmt::Display for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What COPY does about a file that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnError {
    /// Fail, and add nothing.
    #[default]
    Stop,
    /// Report the file and go on.
    Skip,
}

/// The form of imported files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ingest {
    /// Segments with a grammar.
    Grammar,
    /// Packed text, which is made grammars in the background.
    Fast,
    /// The latter where there is much text.
    Auto,
}

/// What COPY does about a file whose name the corpus has already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnConflict {
    /// Fail, and add nothing.
    #[default]
    Error,
    /// Leave the file of the corpus as it is.
    Skip,
    /// Put the new file in its place.
    Replace,
}

/// What the bytes of files mean that COPY reads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Encoding {
    /// The bytes are the text.
    #[default]
    Bytes,
    /// A byte order mark decides; without one the bytes are the text.
    Auto,
    /// `utf-16`, `latin-1` or a label of the Encoding Standard.
    Named(String),
}
