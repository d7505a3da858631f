//! `Plan`: what a statement asks for, checked: every name exists, every type fits, every parameter has its value.
//!
//! Invariant: the types are flat and say only what the executor must do; a plan that type-checks here can be carried out
//! (files may still be missing). How it is carried out, by which algorithm, is not decided here.

use std::fmt;

use crate::query::Query;
use crate::setting::Setting;

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
    },
    /// `ALTER CORPUS corpus SET (...)`: options that are none stay as they are.
    AlterCorpus {
        /// The corpus.
        corpus: String,
        /// Bytes of text that segments made from now on hold at most.
        segment_size: Option<u64>,
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
    },
    /// `COPY corpus TO 'directory'`.
    CopyTo {
        /// Corpus whose files are written.
        corpus: String,
        /// Where to.
        directory: String,
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
    },
    /// `COPY (SELECT ...) TO 'path'`.
    CopyQuery {
        /// Whose rows are written.
        query: Query,
        /// The file to write.
        path: String,
        /// How rows are written.
        format: CopyFormat,
    },
    /// `SET name = value`, or RESET, which sets the default.
    Set(Setting),
}

/// How `COPY (SELECT ...) TO` writes rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyFormat {
    /// Values between commas, with a line of names first.
    Csv,
    /// Values between tabs, with a line of names first.
    Tsv,
    /// One array of objects.
    Json,
    /// One object a line.
    JsonLines,
}

impl CopyFormat {
    /// All formats.
    pub const ALL: [CopyFormat; 4] = [
        CopyFormat::Csv,
        CopyFormat::Tsv,
        CopyFormat::Json,
        CopyFormat::JsonLines,
    ];

    /// The name in SQL, which is also the extension of such files.
    pub fn name(self) -> &'static str {
        match self {
            CopyFormat::Csv => "csv",
            CopyFormat::Tsv => "tsv",
            CopyFormat::Json => "json",
            CopyFormat::JsonLines => "jsonl",
        }
    }
}

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
