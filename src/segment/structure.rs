//! The kinds of structures that are decoded or derived of a segment.

use zipfdb_storage::IndexKind;

/// Defines [`StructureKind`]: each kind once, with the name that `caches('corpus')` shows.
macro_rules! structure_kinds {
    ($($kind:ident = $name:literal,)+) => {
        /// A decoded part or derived structure of a segment.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum StructureKind {
            $($kind,)+
        }

        impl StructureKind {
            /// In order of their numbers.
            pub(crate) const ALL: &'static [StructureKind] = &[$(StructureKind::$kind,)+];

            /// The name in `caches('corpus')`.
            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(StructureKind::$kind => $name,)+
                }
            }
        }
    };
}

structure_kinds! {
    WordBlocks = "word blocks",
    Dictionary = "dictionary",
    Totals = "totals",
    Bodies = "bodies",
    Grammar = "grammar",
    Words = "words",
    TokenForms = "forms of tokens",
    WordIndex = "word index",
    WordGrammar = "word grammar",
    WordUses = "word users",
    RuleFiles = "files of rules",
    WordLengths = "word lengths",
    WordSignatures = "word signatures",
    WordExpansions = "expansions in words",
    RuleEnds = "rule ends",
    TokenWords = "lengths in words",
    TokenLines = "lengths in lines",
    TokenExpansions = "expansions in tokens",
    Lengths = "lengths",
    Text = "expansions",
    Signatures = "signatures",
    Parents = "parents",
    Offsets = "occurrence lists by offset",
    Positions = "occurrence lists by position",
    Suffixes = "suffix array",
    LongOrder = "order of long suffixes",
    NgramTable = "n-gram table",
    WordFiles = "files of words",
    FileBits = "bit sets of files",
    FileWords = "words of files",
    Postings = "directory of postings",
    PostingsLists = "lists of postings",
    OccurrenceIndex = "directory of occurrences",
    SuffixIndex = "directory of suffixes",
    NgramIndex = "directory of n-grams",
    TextBlocks = "blocks of text",
    RootChunks = "chunks of roots",
}

impl StructureKind {
    /// The structure that reads an index of a kind.
    pub(crate) const fn of_index(kind: IndexKind) -> StructureKind {
        match kind {
            IndexKind::Postings => StructureKind::Postings,
            IndexKind::Occurrences => StructureKind::OccurrenceIndex,
            IndexKind::Suffixes => StructureKind::SuffixIndex,
            IndexKind::Ngrams => StructureKind::NgramIndex,
        }
    }
}

/// The structures that n-grams can come from beside the grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NgramStructure {
    Suffixes,
    Table,
}

impl NgramStructure {
    pub(crate) fn kind(self) -> StructureKind {
        match self {
            NgramStructure::Suffixes => StructureKind::Suffixes,
            NgramStructure::Table => StructureKind::NgramTable,
        }
    }
}

/// The structure that n-grams will come from once it is due.
#[derive(Clone, Copy)]
pub(crate) struct NgramPlan {
    pub(crate) structure: NgramStructure,
    /// The time of building it, in nanoseconds of one thread, about.
    pub(crate) price: f64,
    /// The memory that it takes, in bytes, about.
    pub(crate) bytes: u64,
}
