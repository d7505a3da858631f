//! What can be decoded or derived of a segment, by name.

use zipfdb_storage::IndexKind;

/// A decoded part or derived structure of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StructureKind {
    WordBlocks,
    Dictionary,
    Totals,
    Bodies,
    Grammar,
    Words,
    TokenForms,
    WordIndex,
    WordGrammar,
    WordUses,
    RuleFiles,
    WordLengths,
    WordSignatures,
    WordExpansions,
    RuleEnds,
    TokenWords,
    TokenExpansions,
    Lengths,
    Text,
    Signatures,
    Parents,
    Offsets,
    Positions,
    Suffixes,
    NgramTable,
    WordFiles,
    FileBits,
    FileWords,
    Postings,
    PostingsLists,
    OccurrenceIndex,
    SuffixIndex,
    NgramIndex,
    TextBlocks,
}

impl StructureKind {
    /// In order of their numbers.
    pub(crate) const ALL: [StructureKind; 34] = {
        use StructureKind::*;
        [
            WordBlocks,
            Dictionary,
            Totals,
            Bodies,
            Grammar,
            Words,
            TokenForms,
            WordIndex,
            WordGrammar,
            WordUses,
            RuleFiles,
            WordLengths,
            WordSignatures,
            WordExpansions,
            RuleEnds,
            TokenWords,
            TokenExpansions,
            Lengths,
            Text,
            Signatures,
            Parents,
            Offsets,
            Positions,
            Suffixes,
            NgramTable,
            WordFiles,
            FileBits,
            FileWords,
            Postings,
            PostingsLists,
            OccurrenceIndex,
            SuffixIndex,
            NgramIndex,
            TextBlocks,
        ]
    };

    /// What finds answers in an index of a kind.
    pub(crate) const fn of_index(kind: IndexKind) -> StructureKind {
        match kind {
            IndexKind::Postings => StructureKind::Postings,
            IndexKind::Occurrences => StructureKind::OccurrenceIndex,
            IndexKind::Suffixes => StructureKind::SuffixIndex,
            IndexKind::Ngrams => StructureKind::NgramIndex,
        }
    }

    /// As `caches('corpus')` shows it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            StructureKind::WordBlocks => "word blocks",
            StructureKind::Dictionary => "dictionary",
            StructureKind::Totals => "totals",
            StructureKind::Bodies => "bodies",
            StructureKind::Grammar => "grammar",
            StructureKind::Words => "words",
            StructureKind::TokenForms => "forms of tokens",
            StructureKind::WordIndex => "word index",
            StructureKind::WordGrammar => "word grammar",
            StructureKind::WordUses => "word users",
            StructureKind::RuleFiles => "files of rules",
            StructureKind::WordLengths => "word lengths",
            StructureKind::WordSignatures => "word signatures",
            StructureKind::WordExpansions => "expansions in words",
            StructureKind::RuleEnds => "rule ends",
            StructureKind::TokenWords => "lengths in words",
            StructureKind::TokenExpansions => "expansions in tokens",
            StructureKind::Lengths => "lengths",
            StructureKind::Text => "expansions",
            StructureKind::Signatures => "signatures",
            StructureKind::Parents => "parents",
            StructureKind::Offsets => "occurrence lists by offset",
            StructureKind::Positions => "occurrence lists by position",
            StructureKind::Suffixes => "suffix array",
            StructureKind::NgramTable => "n-gram table",
            StructureKind::WordFiles => "files of words",
            StructureKind::FileBits => "bit sets of files",
            StructureKind::FileWords => "words of files",
            StructureKind::Postings => "directory of postings",
            StructureKind::PostingsLists => "lists of postings",
            StructureKind::OccurrenceIndex => "directory of occurrences",
            StructureKind::SuffixIndex => "directory of suffixes",
            StructureKind::NgramIndex => "directory of n-grams",
            StructureKind::TextBlocks => "blocks of text",
        }
    }
}

/// What n-grams can come from beside the grammar.
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

/// What n-grams will come from once that is due.
#[derive(Clone, Copy)]
pub(crate) struct NgramPlan {
    pub(crate) structure: NgramStructure,
    /// Nanoseconds of one thread that building it takes, about.
    pub(crate) price: f64,
    /// Bytes that it takes, about.
    pub(crate) bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_stand_by_their_numbers() {
        for (number, kind) in StructureKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
        }
    }
}
