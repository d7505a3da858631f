//! `Plan`: what a statement asks for, checked: every name exists, every type fits, every parameter has its value.
//!
//! Invariant: the types are flat and say only what the executor must do; a plan that type-checks here can be carried out
//! (files may still be missing). How it is carried out, by which algorithm, is not decided here.

use std::fmt;

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

/// A SELECT: rows, then sorted, then cut.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// Which rows, and the columns of each.
    pub rows: Rows,
    /// Names of the columns of the result. `rows` may have more columns behind these, which are only to sort by.
    pub columns: Vec<String>,
    /// The first key decides, then the next; empty for any order.
    pub order_by: Vec<OrderBy>,
    /// How many rows at most.
    pub limit: Option<u64>,
    /// How many rows to leave out first.
    pub offset: u64,
}

/// One key of ORDER BY.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrderBy {
    /// 0-based index into the columns of the rows.
    pub column: usize,
    /// Greatest first.
    pub descending: bool,
}

/// The rows of a query before they are sorted and cut.
#[derive(Debug, Clone, PartialEq)]
pub enum Rows {
    /// One row for each corpus: `FROM corpora()`.
    Corpora {
        /// Names of the corpora wanted.
        corpora: Keys,
        /// Columns of each row.
        columns: Vec<CorporaColumn>,
    },
    /// One row for each segment: `FROM segments('corpus')`.
    Segments {
        /// The corpus.
        corpus: String,
        /// Columns of each row.
        columns: Vec<SegmentsColumn>,
    },
    /// One row for each file: `FROM files('corpus')`.
    Files {
        /// The corpus.
        corpus: String,
        /// Names of the files wanted.
        files: Keys,
        /// Columns of each row.
        columns: Vec<FilesColumn>,
    },
    /// One row for each word that occurs: `FROM corpus GROUP BY word`.
    WordCounts {
        /// The corpus.
        corpus: String,
        /// Names of the files to count in.
        files: Keys,
        /// Words to count.
        words: Keys,
        /// Columns of each row.
        columns: Vec<WordCountsColumn>,
    },
    /// One row for each occurrence of some words: `FROM corpus WHERE word = '...'`.
    Occurrences {
        /// The corpus.
        corpus: String,
        /// Names of the files to search.
        files: Keys,
        /// Words to find: sorted by their bytes, without duplicates, perhaps none.
        words: Vec<String>,
        /// Columns of each row.
        columns: Vec<OccurrencesColumn>,
    },
    /// One row, whose columns all hold the number of rows that something else would have: `SELECT COUNT(*)`.
    Count(Counted),
}

/// What a count counts.
#[derive(Debug, Clone, PartialEq)]
pub enum Counted {
    /// Corpora.
    Corpora {
        /// Names of those to count.
        corpora: Keys,
    },
    /// Segments of a corpus.
    Segments {
        /// The corpus.
        corpus: String,
    },
    /// Files of a corpus.
    Files {
        /// The corpus.
        corpus: String,
        /// Names of those to count.
        files: Keys,
    },
    /// Occurrences of words in a corpus.
    Words {
        /// The corpus.
        corpus: String,
        /// Names of the files to count in.
        files: Keys,
        /// Words to count.
        words: Keys,
    },
}

/// The values that a name or word may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Keys {
    /// Any value.
    All,
    /// One of these: sorted by their bytes, without duplicates. None at all if the conditions contradict each other.
    These(Vec<String>),
}

/// A column of `corpora()`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CorporaColumn {
    /// TEXT: name.
    Corpus,
    /// TEXT: name of the tokenizer.
    Tokenizer,
    /// INTEGER: number of segments.
    Segments,
    /// INTEGER: number of files.
    Files,
    /// INTEGER: bytes of text.
    Bytes,
    /// INTEGER: number of words.
    Words,
    /// INTEGER: bytes on disk.
    Size,
    /// REAL: `size / bytes`, NULL without text.
    Ratio,
}

impl CorporaColumn {
    /// All columns in the order of `*`.
    pub const ALL: [CorporaColumn; 8] = [
        CorporaColumn::Corpus,
        CorporaColumn::Tokenizer,
        CorporaColumn::Segments,
        CorporaColumn::Files,
        CorporaColumn::Bytes,
        CorporaColumn::Words,
        CorporaColumn::Size,
        CorporaColumn::Ratio,
    ];

    /// The name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            CorporaColumn::Corpus => "corpus",
            CorporaColumn::Tokenizer => "tokenizer",
            CorporaColumn::Segments => "segments",
            CorporaColumn::Files => "files",
            CorporaColumn::Bytes => "bytes",
            CorporaColumn::Words => "words",
            CorporaColumn::Size => "size",
            CorporaColumn::Ratio => "ratio",
        }
    }
}

/// A column of `segments('corpus')`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SegmentsColumn {
    /// INTEGER: id of the segment.
    Segment,
    /// INTEGER: number of files, parts of large files counted one by one.
    Files,
    /// INTEGER: bytes of text.
    Bytes,
    /// INTEGER: number of words.
    Words,
    /// INTEGER: bytes on disk.
    Size,
    /// INTEGER: entries of the dictionary.
    Tokens,
    /// INTEGER: rules of the grammar.
    Rules,
    /// INTEGER: levels of the grammar.
    Depth,
    /// INTEGER: symbols in the bodies of the rules.
    Symbols,
    /// INTEGER: symbols in the root.
    RootSymbols,
    /// REAL: `size / bytes`, NULL without text.
    Ratio,
    /// INTEGER: bytes of a section of the file, by its index in `Schema::section_columns`.
    Section(usize),
}

impl SegmentsColumn {
    /// All columns but those of sections, in the order of `*`; the sections follow.
    pub const FIXED: [SegmentsColumn; 11] = [
        SegmentsColumn::Segment,
        SegmentsColumn::Files,
        SegmentsColumn::Bytes,
        SegmentsColumn::Words,
        SegmentsColumn::Size,
        SegmentsColumn::Tokens,
        SegmentsColumn::Rules,
        SegmentsColumn::Depth,
        SegmentsColumn::Symbols,
        SegmentsColumn::RootSymbols,
        SegmentsColumn::Ratio,
    ];

    /// The name in SQL; none for a section, which the schema names.
    pub fn name(self) -> Option<&'static str> {
        Some(match self {
            SegmentsColumn::Segment => "segment",
            SegmentsColumn::Files => "files",
            SegmentsColumn::Bytes => "bytes",
            SegmentsColumn::Words => "words",
            SegmentsColumn::Size => "size",
            SegmentsColumn::Tokens => "tokens",
            SegmentsColumn::Rules => "rules",
            SegmentsColumn::Depth => "depth",
            SegmentsColumn::Symbols => "symbols",
            SegmentsColumn::RootSymbols => "root_symbols",
            SegmentsColumn::Ratio => "ratio",
            SegmentsColumn::Section(_) => return None,
        })
    }
}

/// A column of `files('corpus')`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilesColumn {
    /// TEXT: name.
    File,
    /// BLOB: the file's bytes.
    Content,
    /// INTEGER: size in bytes.
    Bytes,
    /// INTEGER: number of words.
    Words,
    /// BLOB: `substr(content, start, length)`; `substr_range` tells which bytes.
    Substr {
        /// The second argument.
        start: i64,
        /// The third, if there is one.
        length: Option<i64>,
    },
    /// NULL: `substr` with a NULL among its arguments.
    Null,
}

impl FilesColumn {
    /// All columns in the order of `*`.
    pub const ALL: [FilesColumn; 4] = [
        FilesColumn::File,
        FilesColumn::Content,
        FilesColumn::Bytes,
        FilesColumn::Words,
    ];

    /// The name in SQL; none for what is not a plain column.
    pub fn name(self) -> Option<&'static str> {
        Some(match self {
            FilesColumn::File => "file",
            FilesColumn::Content => "content",
            FilesColumn::Bytes => "bytes",
            FilesColumn::Words => "words",
            FilesColumn::Substr { .. } | FilesColumn::Null => return None,
        })
    }
}

/// A column of a word count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WordCountsColumn {
    /// TEXT: the word.
    Word,
    /// INTEGER: how often it occurs, at least once.
    Count,
}

/// A column of the occurrences of words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OccurrencesColumn {
    /// TEXT: name of the file.
    File,
    /// TEXT: the word.
    Word,
    /// INTEGER: 0-based byte of the word's first character in its file.
    Offset,
    /// INTEGER: bytes of the word.
    Length,
}
