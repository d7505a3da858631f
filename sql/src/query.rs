//! `Query`: a SELECT, checked: names are columns, types fit, parameters have their values.
//!
//! Invariant: every type is flat. Expressions of a block lie in one array, and each refers only to expressions before it,
//! so evaluating, cloning and dropping never recurse. What a query means is here; how it is answered is not.

use std::sync::Arc;

pub use crate::affinity::Affinity;
use crate::search_call::SearchCall;
use crate::value::{Value, ValueKind};

/// A SELECT with the subqueries it reads.
///
/// Each block reads a relation, nothing, or blocks before it; the last gives the result. A block that is read more than once, as
/// one of WITH may be, is answered as often. Blocks that expressions ask for are answered once, before the block of the expression.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// At least one; from the innermost SELECT outwards.
    pub blocks: Vec<Block>,
}

impl Query {
    /// Names of the columns of the result.
    pub fn columns(&self) -> impl Iterator<Item = &str> {
        let outputs = self.blocks.last().map_or(&[][..], |block| &block.outputs);
        outputs.iter().map(|output| output.name.as_str())
    }
}

/// One SELECT: rows of `source` that pass `filter`, perhaps grouped, then made into outputs, sorted and cut.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// Where rows come from.
    pub source: Source,
    /// The columns of files that stand behind the columns of the relation: those that the corpus declares.
    pub metadata: Vec<MetadataColumn>,
    /// All expressions of this block; ids are indices into it. An expression refers only to ones before it.
    pub expressions: Vec<Expression>,
    /// WHERE: all of these must be true. Conjuncts of a written AND are separate.
    pub filter: Vec<ExpressionId>,
    /// GROUP BY and aggregates; none for a query that makes a row of each row.
    pub aggregation: Option<Aggregation>,
    /// HAVING: all of these must be true of a group.
    pub having: Vec<ExpressionId>,
    /// The SELECT list.
    pub outputs: Vec<Output>,
    /// Equal rows of outputs are given once.
    pub distinct: bool,
    /// The first key decides, then the next; empty for any order.
    pub order_by: Vec<SortKey>,
    /// How many rows at most.
    pub limit: Option<u64>,
    /// How many rows to leave out first.
    pub offset: u64,
}

/// A column that a corpus declares for its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetadataColumn {
    /// Its number in the corpus.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// The type of its values: not BLOB.
    pub kind: ValueKind,
}

impl MetadataColumn {
    /// What kind of values it holds.
    pub fn affinity(&self) -> Affinity {
        match self.kind {
            ValueKind::Integer | ValueKind::Boolean => Affinity::Integer,
            ValueKind::Real => Affinity::Real,
            ValueKind::Text | ValueKind::Date | ValueKind::Timestamp => Affinity::Text,
            ValueKind::Blob => Affinity::Blob,
        }
    }
}

/// What FROM names.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// One row without columns: there is no FROM.
    Nothing,
    /// A corpus or a table function.
    Relation(Relation),
    /// Rows of constants: VALUES of an INSERT.
    Values {
        /// Values of each row, at least 1.
        width: usize,
        /// All values, one row after the other. They use no columns.
        values: Vec<ExpressionId>,
    },
    /// A block before this one, by index. Column `i` is its output `i`.
    Block(usize),
    /// All rows of some blocks before this one, one block after the other. Column `i` is output `i` of each.
    Union(Vec<usize>),
}

/// A corpus or a table function.
#[derive(Debug, Clone, PartialEq)]
pub enum Relation {
    /// One row for each occurrence of a word: `FROM corpus`. Columns: [`WordsColumn`].
    Words {
        /// The corpus.
        corpus: String,
    },
    /// One row for each `n` consecutive words of a file. Columns: [`NgramsColumn`].
    Ngrams {
        /// The corpus.
        corpus: String,
        /// 1 to 8.
        n: u32,
    },
    /// The most frequent words of each file. Columns: [`TermVectorsColumn`].
    TermVectors {
        /// The corpus.
        corpus: String,
        /// Words of each file at most.
        k: u64,
    },
    /// One row for each file. Columns: [`FilesColumn`].
    Files {
        /// The corpus.
        corpus: String,
    },
    /// One row for each corpus. Columns: [`CorporaColumn`].
    Corpora,
    /// One row for each part of a file that the last import of the session left out. Columns: [`RejectsColumn`].
    Rejects,
    /// One row for each segment. Columns: [`SegmentsColumn`], then the sections of a segment file as the schema names them,
    /// each an INTEGER.
    Segments {
        /// The corpus.
        corpus: String,
    },
    /// One row for each index and segment, or one for an index without segments. Columns: [`IndexesColumn`].
    Indexes {
        /// The corpus.
        corpus: String,
    },
    /// One row for each file that has all of some words. Columns: [`FilesWithColumn`].
    FilesWith {
        /// The corpus.
        corpus: String,
        /// The bytes of the words, at least one.
        words: Vec<Vec<u8>>,
    },
    /// One row for each match of a regular expression. Columns: [`GrepColumn`].
    Grep {
        /// The corpus.
        corpus: String,
        /// The expression.
        regex: String,
        /// Letters of [`crate::regexp::GREP_FLAGS`].
        flags: String,
    },
    /// One row for each line of each file. Columns: [`LinesColumn`].
    Lines {
        /// The corpus.
        corpus: String,
    },
    /// One row for each word that stands behind a text. Columns: [`NextWordsColumn`].
    NextWords {
        /// The corpus.
        corpus: String,
        /// The bytes of the text.
        context: Vec<u8>,
        /// Whether the longest end of the text that any word follows is taken.
        backoff: bool,
    },
    /// One row for each place of a phrase. Columns: [`PhraseColumn`].
    Phrase {
        /// The corpus.
        corpus: String,
        /// The bytes of the phrase.
        text: Vec<u8>,
    },
    /// One row for each maximal match of a text. Columns: [`LongestMatchesColumn`].
    LongestMatches {
        /// The corpus.
        corpus: String,
        /// The bytes of the text.
        text: Vec<u8>,
    },
    /// One row for each maximal match of a text with some words. Columns: [`AttributeColumn`].
    Attribute {
        /// The corpus.
        corpus: String,
        /// The bytes of the text.
        text: Vec<u8>,
        /// The words of a match at least, at least 1.
        words_min: u64,
    },
    /// One row: which share of a text the corpus has. Columns: [`OverlapColumn`].
    Overlap {
        /// The corpus.
        corpus: String,
        /// The bytes of the text.
        text: Vec<u8>,
        /// The words of an n-gram, at least 1.
        n: u64,
    },
    /// One row for each maximal repeat. Columns: [`DuplicatesColumn`].
    Duplicates {
        /// The corpus.
        corpus: String,
        /// The words of a repeat at least, at least 1.
        words_min: u64,
    },
    /// One row for each decoded part or derived structure of a segment that is in memory. Columns: [`CachesColumn`].
    Caches {
        /// The corpus.
        corpus: String,
    },
    /// One row for each GPU. Columns: [`DevicesColumn`].
    Devices,
    /// One row for each setting of SET. Columns: [`SettingsColumn`].
    Settings,
    /// The rows of a table function of search. Columns: those of the call.
    Search(SearchCall),
}

impl Relation {
    /// The name and the kind of values of a column, by its place in the order of `*`. Those behind the columns of
    /// `segments('corpus')` are sections of segment files, which are not known here.
    pub fn column(&self, column: usize) -> Option<(&str, Affinity)> {
        macro_rules! column {
            ($columns:ty) => {
                <$columns>::ALL
                    .get(column)
                    .map(|column| (column.name(), column.affinity()))
            };
        }
        match self {
            Relation::Words { .. } => column!(WordsColumn),
            Relation::Ngrams { .. } => column!(NgramsColumn),
            Relation::TermVectors { .. } => column!(TermVectorsColumn),
            Relation::Files { .. } => column!(FilesColumn),
            Relation::Corpora => column!(CorporaColumn),
            Relation::Rejects => column!(RejectsColumn),
            Relation::Segments { .. } => column!(SegmentsColumn),
            Relation::Indexes { .. } => column!(IndexesColumn),
            Relation::FilesWith { .. } => column!(FilesWithColumn),
            Relation::Grep { .. } => column!(GrepColumn),
            Relation::Lines { .. } => column!(LinesColumn),
            Relation::NextWords { .. } => column!(NextWordsColumn),
            Relation::Phrase { .. } => column!(PhraseColumn),
            Relation::LongestMatches { .. } => column!(LongestMatchesColumn),
            Relation::Attribute { .. } => column!(AttributeColumn),
            Relation::Overlap { .. } => column!(OverlapColumn),
            Relation::Duplicates { .. } => column!(DuplicatesColumn),
            Relation::Caches { .. } => column!(CachesColumn),
            Relation::Devices => column!(DevicesColumn),
            Relation::Settings => column!(SettingsColumn),
            Relation::Search(call) => call.columns().nth(column),
        }
    }

    /// The corpus whose files rows are of, where conditions on metadata of files choose rows, or what rows are made of. Where the
    /// relation has a column `file` that names one for every row, its rows have the metadata of this file too.
    pub fn corpus_of_files(&self) -> Option<&str> {
        match self {
            Relation::Words { corpus }
            | Relation::Ngrams { corpus, .. }
            | Relation::TermVectors { corpus, .. }
            | Relation::Files { corpus }
            | Relation::FilesWith { corpus, .. }
            | Relation::Grep { corpus, .. }
            | Relation::Lines { corpus } => Some(corpus),
            Relation::Search(call) => Some(&call.corpus),
            _ => None,
        }
    }

    /// The number of columns without metadata, and the place of the name of the file among them, of a relation of files; no place
    /// where a row is of many files.
    pub fn columns_of_files(&self) -> Option<(usize, Option<usize>)> {
        macro_rules! columns {
            ($columns:ty) => {
                (<$columns>::ALL.len(), Some(<$columns>::File as usize))
            };
        }
        Some(match self {
            Relation::Words { .. } => columns!(WordsColumn),
            Relation::Ngrams { .. } => columns!(NgramsColumn),
            Relation::TermVectors { .. } => columns!(TermVectorsColumn),
            Relation::Files { .. } => columns!(FilesColumn),
            Relation::FilesWith { .. } => columns!(FilesWithColumn),
            Relation::Grep { .. } => columns!(GrepColumn),
            Relation::Lines { .. } => columns!(LinesColumn),
            // The first column names the file.
            Relation::Search(call) => {
                let file = call.names_files().then_some(0);
                (call.columns().count(), file)
            }
            _ => return None,
        })
    }
}

/// Declares the columns of a relation, in the order of `*`.
macro_rules! columns {
    ($(#[$docs:meta])* $name:ident { $($(#[$doc:meta])* $column:ident = $sql:literal: $affinity:ident,)* }) => {
        $(#[$docs])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$doc])* $column,)*
        }

        impl $name {
            /// All columns in the order of `*`; [`Expression::Column`] is an index into it.
            pub const ALL: &[$name] = &[$($name::$column,)*];

            /// The name in SQL.
            pub fn name(self) -> &'static str {
                match self {
                    $($name::$column => $sql,)*
                }
            }

            /// What kind of values it holds.
            pub fn affinity(self) -> Affinity {
                match self {
                    $($name::$column => Affinity::$affinity,)*
                }
            }
        }
    };
}

columns! {
    /// Columns of a corpus.
    WordsColumn {
        /// TEXT: name of the file.
        File = "file": Text,
        /// TEXT: the word as it stands there; a BLOB if it is not UTF-8.
        Word = "word": Text,
        /// INTEGER: 0-based number of the word in its file.
        Position = "position": Integer,
        /// INTEGER: 0-based byte of the word's first byte in its file.
        Offset = "offset": Integer,
        /// INTEGER: bytes of the word.
        Length = "length": Integer,
    }
}

columns! {
    /// Columns of `ngrams('corpus', n)`.
    NgramsColumn {
        /// TEXT: the words, joined by one space; a BLOB if one is not UTF-8.
        Ngram = "ngram": Text,
        /// TEXT: name of the file.
        File = "file": Text,
        /// INTEGER: 0-based number of the first word in its file.
        Position = "position": Integer,
        /// INTEGER: 0-based byte of the first word in its file.
        Offset = "offset": Integer,
    }
}

columns! {
    /// Columns of `term_vectors('corpus', k)`.
    TermVectorsColumn {
        /// TEXT: name of the file.
        File = "file": Text,
        /// TEXT: the word; a BLOB if it is not UTF-8.
        Word = "word": Text,
        /// INTEGER: how often it occurs in the file.
        Count = "count": Integer,
        /// INTEGER: 1 for the most frequent word of the file; equal counts are ordered by the bytes of the word.
        Rank = "rank": Integer,
    }
}

columns! {
    /// Columns of `files('corpus')`.
    FilesColumn {
        /// TEXT: name.
        File = "file": Text,
        /// BLOB: the file's bytes.
        Content = "content": Blob,
        /// INTEGER: size in bytes.
        Bytes = "bytes": Integer,
        /// INTEGER: number of words.
        Words = "words": Integer,
    }
}

columns! {
    /// Columns of `corpora()`.
    CorporaColumn {
        /// TEXT: name.
        Corpus = "corpus": Text,
        /// TEXT: name of the tokenizer.
        Tokenizer = "tokenizer": Text,
        /// INTEGER: number of segments.
        Segments = "segments": Integer,
        /// INTEGER: number of files.
        Files = "files": Integer,
        /// INTEGER: bytes of text.
        Bytes = "bytes": Integer,
        /// INTEGER: number of words.
        Words = "words": Integer,
        /// INTEGER: bytes of its segments on disk.
        Size = "size": Integer,
        /// REAL: `size / bytes`, NULL without text.
        Ratio = "ratio": Real,
        /// INTEGER: about how many bytes of changes are not merged into segments yet.
        Pending = "pending": Integer,
        /// REAL: what share of a recompression is done, NULL if none runs.
        Recompressed = "recompressed": Real,
        /// TEXT: why changes cannot be merged in the background, NULL if nothing is known against it.
        RecompressError = "recompress_error": Text,
    }
}

columns! {
    /// Columns of `rejects()`.
    RejectsColumn {
        /// TEXT: path of the file; of a member of an archive `archive/member`.
        File = "file": Text,
        /// INTEGER: the line, from 1; NULL where the whole file is meant.
        Line = "line": Integer,
        /// INTEGER: the byte of the line, from 1; NULL where it is unknown.
        Column = "column": Integer,
        /// TEXT: why it could not be read.
        Error = "error": Text,
    }
}

columns! {
    /// Columns of `segments('corpus')`, before those of the sections.
    SegmentsColumn {
        /// INTEGER: id of the segment.
        Segment = "segment": Integer,
        /// INTEGER: number of files, parts of large files counted one by one.
        Files = "files": Integer,
        /// INTEGER: bytes of text.
        Bytes = "bytes": Integer,
        /// INTEGER: number of words.
        Words = "words": Integer,
        /// INTEGER: bytes on disk.
        Size = "size": Integer,
        /// INTEGER: entries of the dictionary.
        Tokens = "tokens": Integer,
        /// INTEGER: rules of the grammar.
        Rules = "rules": Integer,
        /// INTEGER: levels of the grammar.
        Depth = "depth": Integer,
        /// INTEGER: symbols in the bodies of the rules.
        Symbols = "symbols": Integer,
        /// INTEGER: symbols in the root.
        RootSymbols = "root_symbols": Integer,
        /// REAL: `size / bytes`, NULL without text.
        Ratio = "ratio": Real,
        /// REAL: what share of the recompression is done that is to replace the segment, NULL if none is.
        Recompressed = "recompressed": Real,
        /// TEXT: what the text is stored as: `grammar` or `text`.
        Form = "form": Text,
    }
}

columns! {
    /// Columns of `indexes('corpus')`.
    IndexesColumn {
        /// TEXT: name of the index.
        Index = "name": Text,
        /// TEXT: what it stores.
        Kind = "kind": Text,
        /// TEXT: how its lists are coded, as it was asked for.
        Codec = "codec": Text,
        /// TEXT: what its lists are of, `file` or `block:N`.
        Unit = "unit": Text,
        /// TEXT: `on` where files are numbered by what they have in common, else `off`.
        Reorder = "reorder": Text,
        /// INTEGER: id of the segment, NULL if the corpus has none.
        Segment = "segment": Integer,
        /// INTEGER: bytes on disk, NULL if the segment's part has not been built or is damaged.
        Bytes = "bytes": Integer,
        /// REAL: milliseconds that building it took, NULL if `bytes` is.
        BuildTime = "build_time": Real,
        /// INTEGER: how often queries have read of it since the database was opened.
        Uses = "uses": Integer,
    }
}

columns! {
    /// Columns of `files_with('corpus', 'word', ...)`.
    FilesWithColumn {
        /// TEXT: name of the file.
        File = "file": Text,
    }
}

columns! {
    /// Columns of `grep('corpus', regex, flags)`.
    GrepColumn {
        /// TEXT: name of the file.
        File = "file": Text,
        /// INTEGER: 0-based byte of the match in its file.
        Offset = "offset": Integer,
        /// INTEGER: bytes of the match.
        Length = "length": Integer,
        /// INTEGER: 1-based number of the line of its first byte.
        Line = "line": Integer,
        /// TEXT: the matched bytes; a BLOB if they are not UTF-8.
        Match = "match": Text,
    }
}

columns! {
    /// Columns of `next_words('corpus', 'context')`.
    NextWordsColumn {
        /// TEXT: the word; a BLOB if it is not UTF-8.
        Word = "word": Text,
        /// INTEGER: how often it stands behind the context.
        Count = "count": Integer,
        /// REAL: its share of all words behind the context.
        Probability = "probability": Real,
        /// INTEGER: words of the context that were looked up, its last ones.
        ContextWords = "context_words": Integer,
    }
}

columns! {
    /// Columns of `lines('corpus')`.
    LinesColumn {
        /// TEXT: name of the file.
        File = "file": Text,
        /// INTEGER: 1-based number of the line in its file.
        Line = "line": Integer,
        /// INTEGER: 0-based byte of the line in its file.
        Offset = "offset": Integer,
        /// INTEGER: bytes of the line, without the line feed at its end.
        Length = "length": Integer,
        /// TEXT: the line, without the line feed at its end; a BLOB if it is not UTF-8.
        Text = "text": Text,
    }
}

columns! {
    /// Columns of `phrase('corpus', 'text')`.
    PhraseColumn {
        /// TEXT: name of the file.
        File = "file": Text,
        /// INTEGER: 0-based number of the first word in the file.
        Position = "position": Integer,
        /// INTEGER: 0-based byte where it begins in the file.
        Offset = "offset": Integer,
        /// INTEGER: its bytes in the file.
        Length = "length": Integer,
    }
}

columns! {
    /// Columns of `longest_matches('corpus', 'text')`.
    LongestMatchesColumn {
        /// INTEGER: 0-based number of the first word in the text.
        Position = "position": Integer,
        /// INTEGER: words of the match.
        Words = "words": Integer,
        /// INTEGER: how often it occurs in the corpus.
        Count = "count": Integer,
        /// TEXT: name of a file that has it.
        File = "file": Text,
        /// INTEGER: 0-based byte where it begins there.
        Offset = "offset": Integer,
        /// TEXT: the match as the given text has it; a BLOB if it is not UTF-8.
        Text = "text": Text,
    }
}

columns! {
    /// Columns of `attribute('corpus', 'text', words)`.
    AttributeColumn {
        /// INTEGER: 0-based number of the first word in the text.
        Position = "position": Integer,
        /// INTEGER: words of the match.
        Words = "words": Integer,
        /// INTEGER: 0-based byte where it begins in the text.
        TextOffset = "text_offset": Integer,
        /// INTEGER: its bytes in the text.
        TextLength = "text_length": Integer,
        /// INTEGER: how often it occurs in the corpus.
        Count = "count": Integer,
        /// TEXT: name of a file that has it.
        File = "file": Text,
        /// INTEGER: 0-based byte where it begins there.
        Offset = "offset": Integer,
    }
}

columns! {
    /// Columns of `overlap('corpus', 'text', n)`.
    OverlapColumn {
        /// INTEGER: words of the text.
        Words = "words": Integer,
        /// INTEGER: how many of them lie in an n-gram that the corpus has.
        Covered = "covered": Integer,
        /// REAL: `covered / words`, NULL without words.
        Share = "share": Real,
        /// INTEGER: words of the longest match; 0 without one.
        Longest = "longest": Integer,
        /// INTEGER: 0-based number of its first word in the text, NULL without one.
        Position = "position": Integer,
        /// INTEGER: how often it occurs in the corpus.
        Count = "count": Integer,
        /// TEXT: name of a file that has it, NULL without one.
        File = "file": Text,
        /// INTEGER: 0-based byte where it begins there, NULL without one.
        Offset = "offset": Integer,
    }
}

columns! {
    /// Columns of `duplicates('corpus', words)`.
    DuplicatesColumn {
        /// INTEGER: words of the passage.
        Words = "words": Integer,
        /// INTEGER: how often it occurs.
        Count = "count": Integer,
        /// INTEGER: number of files that have it.
        Files = "files": Integer,
        /// TEXT: name of the first file that has it.
        File = "file": Text,
        /// INTEGER: 0-based number of its first word there.
        Position = "position": Integer,
        /// INTEGER: 0-based byte where it begins there.
        Offset = "offset": Integer,
        /// INTEGER: its bytes there.
        Length = "length": Integer,
    }
}

columns! {
    /// Columns of `caches('corpus')`.
    CachesColumn {
        /// INTEGER: id of the segment, NULL of what belongs to all of them.
        Segment = "segment": Integer,
        /// TEXT: what it is.
        Kind = "kind": Text,
        /// INTEGER: bytes of memory that it takes.
        Bytes = "bytes": Integer,
        /// REAL: milliseconds that making it took.
        Price = "price": Real,
        /// INTEGER: how often work on the segment took it from the cache, the work that made it included.
        Uses = "uses": Integer,
    }
}

columns! {
    /// Columns of `devices()`.
    DevicesColumn {
        /// TEXT: name, as SET takes it.
        Device = "device": Text,
        /// TEXT: what its driver calls it.
        Model = "model": Text,
        /// TEXT: what kernels are compiled for.
        Architecture = "architecture": Text,
        /// INTEGER: bytes of its memory.
        Memory = "memory": Integer,
        /// INTEGER: bytes that this database may use of it.
        MemoryLimit = "memory_limit": Integer,
        /// INTEGER: bytes that this database uses of it.
        Used = "used": Integer,
        /// INTEGER: number of segments that lie in its memory.
        Resident = "resident": Integer,
        /// INTEGER: how often it has failed and the CPU did its work.
        Failures = "failures": Integer,
    }
}

columns! {
    /// Columns of `settings()`.
    SettingsColumn {
        /// TEXT: name, as SET takes it.
        Setting = "setting": Text,
        /// TEXT: the value in force.
        Value = "value": Text,
        /// TEXT: the value at the start.
        Default = "default": Text,
        /// TEXT: what it does, one sentence.
        Description = "description": Text,
    }
}

/// Index of an expression in its block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExpressionId(pub u32);

/// An expression. Truth is as in SQLite: NULL is unknown, numbers are true unless 0, texts and blobs by the number they
/// begin with; what compares or tests gives 1, 0 or NULL.
#[derive(Debug, Clone, PartialEq)]
pub enum Expression {
    /// A literal, or the value of a parameter. Shared: it may be large, and expressions are copied.
    Value(Arc<Value>),
    /// A column of the block's source, by index. Not above an aggregation.
    Column(usize),
    /// A key of the aggregation, by index. Only above it: in HAVING, outputs and ORDER BY.
    Key(usize),
    /// An aggregate, by index. Only above the aggregation.
    Aggregate(usize),
    /// The value with an affinity applied, as SQLite does before it compares: a text that is a number becomes that number
    /// (Integer, which stands for SQLite's NUMERIC here), a number becomes its text (Text); anything else stays as it is.
    Affine {
        /// The operand that is converted.
        operand: ExpressionId,
        /// To what.
        affinity: Affinity,
    },
    /// `CAST(operand AS type)`: the value becomes one of that type.
    Cast {
        /// The operand that is converted.
        operand: ExpressionId,
        /// To what; never `Affinity::None`.
        affinity: Affinity,
    },
    /// `NOT operand`.
    Not(ExpressionId),
    /// `- operand`.
    Negate(ExpressionId),
    /// Arithmetic, `||`, AND, OR.
    Binary {
        /// Which.
        operator: BinaryOperator,
        /// Left operand.
        left: ExpressionId,
        /// Right operand; AND and OR need not evaluate it.
        right: ExpressionId,
    },
    /// A comparison. Affinities are applied already. Order: NULL, numbers, texts by collation, blobs.
    Compare {
        /// Which.
        comparison: Comparison,
        /// Left operand.
        left: ExpressionId,
        /// Right operand.
        right: ExpressionId,
        /// How texts compare.
        collation: Collation,
    },
    /// `operand IS NULL`, or with `negated` `operand IS NOT NULL`.
    IsNull {
        /// The operand that is tested.
        operand: ExpressionId,
        /// NOT.
        negated: bool,
    },
    /// `operand IN (list)`. An empty list gives 0, whatever the operand.
    In {
        /// What is looked for; affinities are applied already.
        operand: ExpressionId,
        /// Where.
        list: Vec<ExpressionId>,
        /// NOT IN.
        negated: bool,
        /// How texts compare.
        collation: Collation,
    },
    /// `operand IN (SELECT ...)`.
    InSubquery {
        /// What is looked for; affinities are applied already.
        operand: ExpressionId,
        /// The block whose only output gives the values, by index.
        block: usize,
        /// The affinity that is applied to each of them.
        affinity: Affinity,
        /// NOT IN.
        negated: bool,
        /// How texts compare.
        collation: Collation,
    },
    /// What `InSubquery` becomes when its block has been answered. Binding makes none.
    InValues {
        /// The operand that is looked for.
        operand: ExpressionId,
        /// Where.
        values: Arc<Vec<Arc<Value>>>,
        /// NOT IN.
        negated: bool,
        /// How texts compare.
        collation: Collation,
    },
    /// `(SELECT ...)`: the only output of a block in its first row; NULL without rows.
    Subquery {
        /// The block, by index.
        block: usize,
    },
    /// `EXISTS (SELECT ...)`: whether a block has rows.
    Exists {
        /// The block, by index.
        block: usize,
    },
    /// `text LIKE pattern`, GLOB or REGEXP.
    Match {
        /// Which language the pattern is in.
        matcher: Matcher,
        /// The text that is matched.
        text: ExpressionId,
        /// The pattern.
        pattern: ExpressionId,
        /// ESCAPE of LIKE: one character.
        escape: Option<ExpressionId>,
        /// NOT LIKE and so on.
        negated: bool,
    },
    /// CASE. Branches are tried in order.
    Case {
        /// `CASE operand WHEN`: each condition is already a comparison with it, so this form needs nothing of its own.
        branches: Vec<(ExpressionId, ExpressionId)>,
        /// ELSE; NULL without.
        otherwise: Option<ExpressionId>,
    },
    /// A scalar function. The number of arguments has been checked.
    Call {
        /// Which.
        function: Function,
        /// Its arguments.
        arguments: Vec<ExpressionId>,
        /// How texts compare: for [`Function::Max`], [`Function::Min`] and [`Function::NullIf`].
        collation: Collation,
    },
}

/// Operators of two operands that are not comparisons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BinaryOperator {
    /// Three-valued AND.
    And,
    /// Three-valued OR.
    Or,
    /// `+`. Integers that overflow become REAL, here and below, as in SQLite.
    Add,
    /// `-`.
    Subtract,
    /// `*`.
    Multiply,
    /// `/`: of integers the quotient towards zero; NULL by zero.
    Divide,
    /// `%`: of both operands cast to INTEGER; NULL by zero.
    Remainder,
    /// `||`.
    Concatenate,
}

/// Comparisons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Comparison {
    /// `=`, `==`.
    Equal,
    /// `<>`, `!=`.
    NotEqual,
    /// `<`.
    Less,
    /// `<=`.
    LessOrEqual,
    /// `>`.
    Greater,
    /// `>=`.
    GreaterOrEqual,
    /// `IS`, `IS NOT DISTINCT FROM`: two NULLs are equal, and the answer is never NULL.
    Is,
    /// `IS NOT`, `IS DISTINCT FROM`.
    IsNot,
}

/// How texts are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Collation {
    /// By their bytes.
    #[default]
    Binary,
    /// By the bytes of their Unicode simple case foldings.
    NoCase,
}

/// Pattern languages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Matcher {
    /// `%` and `_`; ASCII letters in any case, as in SQLite.
    Like,
    /// `*`, `?`, `[a-z]`, `[^a-z]`; case counts.
    Glob,
    /// A regular expression (crate `regex`) that matches anywhere in the text.
    Regexp,
}

/// Scalar functions, as SQLite documents them unless said otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Function {
    /// `abs(x)`; an error for -2^63.
    Abs,
    /// `binding()`: 0-based number of the parameter set that the row answers.
    Binding,
    /// `ceil(x)`: the least whole number that is not less.
    Ceiling,
    /// `char(codepoint, ...)`.
    Char,
    /// `coalesce(x, y, ...)`.
    Coalesce,
    /// `concat(x, ...)`: NULLs are left out.
    Concat,
    /// `concat_ws(separator, x, ...)`.
    ConcatWs,
    /// `date(moment, modifier, ...)`.
    Date,
    /// `date_trunc(part, moment)`: the first day or second of the year, month, ... of a moment.
    DateTrunc,
    /// `datetime(moment, modifier, ...)`.
    DateTime,
    /// `day(moment)`: the day of the month.
    Day,
    /// `exp(x)`.
    Exponential,
    /// `floor(x)`: the greatest whole number that is not greater.
    Floor,
    /// `format(pattern, x, ...)`.
    Format,
    /// `greatest(x, y, ...)`: as `max`, but NULLs are left out.
    Greatest,
    /// `hex(x)`.
    Hex,
    /// `highlight(before, after)`: the text of a row of `search()` with its matches marked. The first and the
    /// last argument are columns of the row, on which the text depends; the others are literals.
    Highlight,
    /// `ifnull(x, y)`.
    IfNull,
    /// `iif(condition, x, y)`, `iif(condition, x)`.
    Iif,
    /// `instr(x, y)`.
    Instr,
    /// `json_extract(text, path, ...)`.
    JsonExtract,
    /// `text -> path`: a part of a JSON text, as JSON.
    JsonPart,
    /// `text ->> path`: a part of a JSON text, as a value.
    JsonValue,
    /// `julianday(moment, modifier, ...)`.
    JulianDay,
    /// `least(x, y, ...)`: as `min`, but NULLs are left out.
    Least,
    /// `length(x)`: characters of a text, bytes of a blob.
    Length,
    /// `log(x)` to base 10, `log(base, x)`.
    Logarithm,
    /// `log10(x)`.
    Logarithm10,
    /// `log2(x)`.
    Logarithm2,
    /// `lower(x)`: Unicode lowercase.
    Lower,
    /// `ltrim(x)`, `ltrim(x, characters)`.
    LeftTrim,
    /// `max(x, y, ...)` of at least two.
    Max,
    /// `min(x, y, ...)` of at least two.
    Min,
    /// `month(moment)`: the number of the month.
    Month,
    /// `ln(x)`.
    NaturalLogarithm,
    /// `nullif(x, y)`.
    NullIf,
    /// `octet_length(x)`: bytes.
    OctetLength,
    /// `pow(x, y)`.
    Power,
    /// `quote(x)`: as an SQL literal.
    Quote,
    /// `regexp_extract(x, pattern)`, `regexp_extract(x, pattern, group)`: the first match, or what a group of it holds; an
    /// empty text without one.
    RegexpExtract,
    /// `regexp_replace(x, pattern, replacement)`, `regexp_replace(x, pattern, replacement, options)`.
    RegexpReplace,
    /// `replace(x, from, to)`.
    Replace,
    /// `round(x)`, `round(x, digits)`.
    Round,
    /// `rtrim(x)`, `rtrim(x, characters)`.
    RightTrim,
    /// `sign(x)`.
    Sign,
    /// `snippet(before, after, ellipsis, words)`: a part of that text; arguments as of [`Function::Highlight`].
    Snippet,
    /// `split_part(x, separator, number)`.
    SplitPart,
    /// `sqrt(x)`.
    SquareRoot,
    /// `strftime(format, moment, modifier, ...)`.
    Strftime,
    /// `substr(x, start)`, `substr(x, start, length)`: characters of a text, bytes of a blob.
    Substr,
    /// `time(moment, modifier, ...)`.
    Time,
    /// `trim(x)`, `trim(x, characters)`.
    Trim,
    /// `typeof(x)`.
    TypeOf,
    /// `unicode(x)`.
    Unicode,
    /// `unixepoch(moment, modifier, ...)`: seconds since 1970.
    UnixEpoch,
    /// `upper(x)`: Unicode uppercase.
    Upper,
    /// `zipfdb_version()`.
    Version,
    /// `year(moment)`.
    Year,
}

/// GROUP BY and the aggregates of a block.
#[derive(Debug, Clone, PartialEq)]
pub struct Aggregation {
    /// Rows with equal keys are one group. No keys: all rows are one group, even if there are none.
    pub keys: Vec<GroupKey>,
    /// What is computed of each group; [`Expression::Aggregate`] is an index into it.
    pub aggregates: Vec<Aggregate>,
}

/// A key of GROUP BY.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupKey {
    /// Evaluated on rows of the source.
    pub expression: ExpressionId,
    /// Which texts are equal. A group shows the smallest of its keys by bytes.
    pub collation: Collation,
}

/// An aggregate function and what it is applied to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Aggregate {
    /// Which.
    pub function: AggregateFunction,
    /// Evaluated on rows of the source; none only for `COUNT(*)`.
    pub argument: Option<ExpressionId>,
    /// Equal arguments count once.
    pub distinct: bool,
    /// For DISTINCT, MIN and MAX.
    pub collation: Collation,
    /// FILTER (WHERE ...).
    pub filter: Option<ExpressionId>,
    /// The second argument, which depends on no row: the separator of `GroupConcat`, the fraction of `PercentileCont`.
    pub parameter: Option<ExpressionId>,
    /// The order of the arguments of `GroupConcat`, evaluated on rows of the source; then by the arguments themselves.
    pub order_by: Vec<SortKey>,
}

/// Aggregate functions. All but COUNT and TOTAL are NULL when no argument is not NULL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AggregateFunction {
    /// Rows, or arguments that are not NULL.
    Count,
    /// An error if integers overflow.
    Sum,
    /// The sum as REAL, 0.0 of nothing.
    Total,
    /// The mean as REAL.
    Avg,
    /// The smallest.
    Min,
    /// The greatest.
    Max,
    /// All as text, joined by the separator.
    GroupConcat,
    /// The number in the middle as REAL.
    Median,
    /// The number at a fraction of the way through all, between two of them if need be, as REAL.
    PercentileCont,
    /// The standard deviation of all.
    StddevPop,
    /// The standard deviation of a sample; NULL of one number.
    StddevSamp,
    /// The variance of all.
    VarPop,
    /// The variance of a sample; NULL of one number.
    VarSamp,
}

/// A column of the result.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// Its alias, or the expression as it was written.
    pub name: String,
    /// Evaluated on a row of the source, or on a group.
    pub expression: ExpressionId,
}

/// A key of ORDER BY.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SortKey {
    /// Evaluated where outputs are. With DISTINCT it is the expression of an output.
    pub expression: ExpressionId,
    /// Greatest first.
    pub descending: bool,
    /// NULLs before all else; otherwise behind. By default first when ascending, last when descending.
    pub nulls_first: bool,
    /// How texts compare.
    pub collation: Collation,
}
