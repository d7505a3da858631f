//! A question to a corpus: about words or n-grams, with a granularity, files, places and an order.
//!
//! Invariant: a question is plain data. Conditions that only SQL can decide are described here by what is known of them
//! beforehand, so that [`super::word_plan`] and [`super::ngram_plan`] can choose a method. A new kind of question (units) is one more granularity or one more kind of texts here, and a plan of its own beside those.

use std::borrow::Cow;
use std::sync::Arc;

use zipfdb_kernels::FileOrder;

use super::corpus_view::CorpusView;
use super::top_k::Top;
use super::word_cursor::PlaceRanges;

/// The keys by which rows are distinguished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Granularity {
    /// One row for all.
    All,
    File,
    /// A word or n-gram.
    Word,
    FileWord,
    /// Every occurrence is a row.
    Occurrence,
}

impl Granularity {
    /// Whether merged rows are distinguished by their files.
    pub(crate) fn is_by_file(self) -> bool {
        matches!(self, Granularity::File | Granularity::FileWord)
    }

    /// Whether merged rows are distinguished by their words or n-grams.
    pub(crate) fn is_by_text(self) -> bool {
        matches!(self, Granularity::Word | Granularity::FileWord)
    }
}

/// A question about words or n-grams.
pub(crate) struct Question {
    /// Words of an n-gram; 1 for words.
    pub(crate) n: usize,
    pub(crate) granularity: Granularity,
    pub(crate) files: FileSet,
    pub(crate) texts: TextSet,
    pub(crate) places: PlaceSet,
    /// The columns that rows have.
    pub(crate) shown: ShownParts,
    /// The most rows that are used.
    pub(crate) limit: Option<u64>,
    /// The merged rows that are used, if not all.
    pub(crate) top: Option<Top>,
    /// The order in which merged rows are wanted, if they can come in it.
    pub(crate) wanted_order: Option<MergedOrder>,
}

/// The wanted words or n-grams.
#[derive(Clone, Debug)]
pub(crate) enum TextSet {
    All,
    /// The texts that conditions name, as `word IN (...)` does.
    Named {
        /// Their number.
        count: u64,
        /// The distinct texts that pass all conditions, in order; none if there are many. The corpus may lack them.
        few: Option<Vec<Vec<u8>>>,
    },
    /// Those that pass a condition on the dictionary.
    Conditional,
}

impl TextSet {
    pub(crate) fn is_all(&self) -> bool {
        matches!(self, TextSet::All)
    }

    /// The number of texts that conditions name, if they do.
    pub(crate) fn named(&self) -> Option<u64> {
        match self {
            TextSet::Named { count, .. } => Some(*count),
            _ => None,
        }
    }

    /// The texts, if they are a few that conditions name.
    pub(crate) fn few(&self) -> Option<&[Vec<u8>]> {
        match self {
            TextSet::Named { few, .. } => few.as_deref(),
            _ => None,
        }
    }

    /// As in EXPLAIN.
    pub(crate) fn detail(&self) -> Cow<'static, str> {
        match self {
            TextSet::All => Cow::Borrowed("all words"),
            TextSet::Named { count, .. } => Cow::Owned(format!("{count} words")),
            TextSet::Conditional => Cow::Borrowed("words by a condition on the dictionary"),
        }
    }
}

/// The wanted places in files.
#[derive(Clone, Debug)]
pub(crate) struct PlaceSet {
    /// No wanted place is outside of these.
    pub(crate) ranges: PlaceRanges,
    pub(crate) conditions: PlaceConditions,
}

/// The kind of conditions on places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlaceConditions {
    /// Every place is wanted.
    None,
    /// Every place within the range of positions is wanted.
    PositionRange,
    /// Each place has to be decided.
    Any { positions: bool },
}

/// The parts of occurrences that rows have.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ShownParts {
    /// Words, n-grams or their lengths.
    pub(crate) texts: bool,
    pub(crate) positions: bool,
    pub(crate) offsets: bool,
}

impl Question {
    /// A question for the files of all words.
    #[cfg(test)]
    pub(crate) fn of_files(view: &CorpusView) -> Question {
        Question {
            n: 1,
            granularity: Granularity::File,
            files: FileSet::all(view),
            texts: TextSet::All,
            places: PlaceSet {
                ranges: PlaceRanges::ALL,
                conditions: PlaceConditions::None,
            },
            shown: ShownParts::default(),
            limit: None,
            top: None,
            wanted_order: None,
        }
    }

    /// Whether rows are all occurrences between two positions in their files, and do not show the positions.
    pub(crate) fn is_cut_by_positions(&self) -> bool {
        self.places.conditions == PlaceConditions::PositionRange && !self.shown.positions
    }

    /// Whether rows or conditions on places use positions.
    pub(crate) fn uses_positions(&self) -> bool {
        self.shown.positions
            || match self.places.conditions {
                PlaceConditions::None => false,
                PlaceConditions::PositionRange => true,
                PlaceConditions::Any { positions } => positions,
            }
    }

    /// Whether the positions of looked-up words are needed.
    pub(crate) fn looks_up_positions(&self) -> bool {
        self.uses_positions() && !self.is_cut_by_positions()
    }

    /// Whether all occurrences that conditions on files and texts leave are rows.
    pub(crate) fn has_all_places(&self) -> bool {
        self.places.conditions == PlaceConditions::None
    }

    /// Whether each of several files is wanted, so that a table of all files answers.
    pub(crate) fn has_table_of_files(&self) -> bool {
        self.files.is_all() && self.files.len() > 1
    }
}

/// An order of merged rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MergedOrder {
    /// By word or n-gram, whose files come in this order.
    Text(FileOrder),
    /// By count; rows have no files. If `by_text`, then by words or n-grams.
    Count { descending: bool, by_text: bool },
}

impl MergedOrder {
    /// The order of files where rows come by word or n-gram.
    pub(crate) fn of_text(self) -> Option<FileOrder> {
        match self {
            MergedOrder::Text(of_files) => Some(of_files),
            MergedOrder::Count { .. } => None,
        }
    }
}

/// Some files of a corpus, by number, ascending.
#[derive(Clone, Debug)]
pub(crate) struct FileSet {
    files: Arc<[u32]>,
    is_all: bool,
}

impl FileSet {
    /// Files, ascending and distinct.
    pub(crate) fn new(view: &CorpusView, files: Vec<u32>) -> FileSet {
        FileSet {
            is_all: files.len() == view.files().len(),
            files: files.into(),
        }
    }

    /// All files of a corpus.
    pub(crate) fn all(view: &CorpusView) -> FileSet {
        FileSet {
            files: view.file_numbers().clone(),
            is_all: true,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether it has all files of the corpus.
    pub(crate) fn is_all(&self) -> bool {
        self.is_all
    }

    pub(crate) fn numbers(&self) -> &[u32] {
        &self.files
    }

    /// The numbers of the files; none for all files.
    pub(crate) fn some(&self) -> Option<Vec<u32>> {
        (!self.is_all).then(|| self.files.to_vec())
    }

    /// Whether a file is one of them.
    pub(crate) fn has(&self, file: u32) -> bool {
        self.is_all || self.files.binary_search(&file).is_ok()
    }

    /// For each of `all` files whether it is one of them; none for all files.
    pub(crate) fn marks(&self, all: usize) -> Option<Vec<bool>> {
        (!self.is_all).then(|| {
            let mut marks = vec![false; all];
            let files = self.files.iter();
            files.for_each(|&file| marks[file as usize] = true);
            marks
        })
    }

    /// The number of words in the files.
    pub(crate) fn words(&self, view: &CorpusView) -> u64 {
        let files = self.files.iter();
        files.map(|&file| view.files()[file as usize].words).sum()
    }

    /// The number of their words in some places, about.
    pub(crate) fn words_in(&self, view: &CorpusView, places: &PlaceRanges) -> u64 {
        let files = self.files.iter().map(|&file| &view.files()[file as usize]);
        let words = files.map(|file| file.words as f64 * places.share(file.bytes, file.words));
        // At most the number of words.
        words.sum::<f64>() as u64
    }

    /// The most different (file, word) pairs: a file has at most one for each of its words and for each token.
    pub(crate) fn pairs(&self, view: &CorpusView) -> u64 {
        let (_, tokens) = view.symbols_and_tokens();
        let words = |&file: &u32| view.files()[file as usize].words.min(tokens);
        self.files.iter().map(words).fold(0, u64::saturating_add)
    }
}
