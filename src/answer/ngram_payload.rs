//! N-grams of an answer as they are made, of a segment and of a corpus, over a payload: their counts, or the files that have them.
//!
//! `NgramPayload` is what differs between the two. Invariant: with both the n-grams are the same, and the counts of an n-gram in its files
//! add up to its count. All n-grams of a corpus take several times its text; packed they take a fraction of it, and a part of them
//! at a time is read.

use std::borrow::Cow;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;
use zipfdb_kernels::gpu::{CutPlaces, Gpu, GpuError, MergedPart};
use zipfdb_kernels::{FileOrder, GrammarView, NgramSet, NgramTable, RuleFiles, WordSuffixes};

use super::corpus_view::CorpusView;
use super::correction::Window;
use super::path::{PathName, Run};
use super::pending_view::PendingView;
use super::top::Top;
use crate::Result;
use crate::runtime::device::ResidentWords;
use crate::segment::StructureKind;
use crate::segment::cost::Size;

/// A result of the kernels on a device.
pub(super) type DeviceResult<T> = std::result::Result<T, GpuError>;

/// The rows of some lists that are of one n-gram: the list and the place there of each.
pub(super) type RowPlaces<'a> = &'a [(usize, usize)];

/// The values of n-grams: their counts, or their files with counts.
pub(crate) trait NgramPayload: Clone + Debug + Send + Sync + 'static {
    /// Sorted n-grams as they are read.
    type Table: Clone + Debug + Default + Send + Sync;
    /// The same, packed.
    type Packed: Clone + Debug + Send + Sync;
    /// Some n-grams on a device.
    type DevicePart;
    /// All n-grams on a device until their rows are made.
    type DeviceRows: Debug + Send + Sync;
    /// The values of merged n-grams, without their words.
    type Rows: Default + Send + Sync;

    const HAS_FILES: bool;
    /// The path by the grammar, and what it needs.
    const GRAMMAR: PathName;
    const GRAMMAR_NEEDS: &'static [StructureKind];
    /// Nanoseconds: for a word of a suffix array, for a symbol of a table and for one on a device.
    const SUFFIX_COST: f64;
    const TABLE_COST: f64;
    const DEVICE_COST: f64;

    /// The work on the grammar of a segment, in nanoseconds of one thread.
    fn grammar_work(size: Size) -> f64;
    /// The same for some files of `words` words together.
    fn chosen_work(size: Size, files: u64, words: u64) -> f64;

    fn words(table: &Self::Table) -> &Vec<u32>;
    fn words_mut(table: &mut Self::Table) -> &mut Vec<u32>;
    /// How many n-grams a table has.
    fn len(table: &Self::Table) -> usize;
    fn packed_len(packed: &Self::Packed) -> usize;
    fn packed_first_word(packed: &Self::Packed) -> Option<u32>;
    fn unpacked(packed: &Self::Packed) -> Self::Table;

    fn of_suffixes(
        suffixes: &WordSuffixes,
        question: &NgramQuestion,
        stop: &AtomicBool,
    ) -> Result<Vec<Self::Table>>;
    fn of_table(
        table: &NgramTable,
        question: &NgramQuestion,
        stop: &AtomicBool,
    ) -> Result<Vec<Self::Table>>;
    /// By a grammar with its weights; `lists` are the files of its rules where these are needed.
    fn of_grammar(
        grammar: (GrammarView<'_>, &[u32]),
        lists: Option<&RuleFiles>,
        question: &NgramQuestion,
        stop: &AtomicBool,
    ) -> Result<Vec<Self::Packed>>;

    /// Calls `take` with the n-grams of a segment, and whether they are all.
    fn each_on(
        gpu: &Gpu,
        on: &ResidentWords,
        question: &NgramQuestion,
        memory: usize,
        take: &mut dyn FnMut(Self::DevicePart, bool) -> DeviceResult<()>,
    ) -> Result<()>;
    fn bytes(part: &Self::DevicePart) -> u64;
    /// All n-grams of n words, in an order.
    fn into_rows(
        part: Self::DevicePart,
        gpu: &Gpu,
        n: usize,
        order: &NgramOrder,
    ) -> DeviceResult<Self::DeviceRows>;
    /// Those of a set, or the ones of a part that `top` uses.
    fn download(
        part: Self::DevicePart,
        gpu: &Gpu,
        set: &NgramSet,
        top: Option<Top>,
    ) -> DeviceResult<Self::Table>;
    fn merged_rows(
        parts: &[MergedPart<'_, Self::DeviceRows>],
        cut: CutPlaces<'_>,
        words: usize,
        order: FileOrder,
    ) -> DeviceResult<Option<Self::DeviceRows>>;
    /// The device that has rows, the words of an n-gram, and the n-grams.
    fn of_rows(rows: Self::DeviceRows) -> (Gpu, usize, Self::DevicePart);
    fn ordered_rows(rows: Self::DeviceRows, order: &NgramOrder) -> DeviceResult<Self::DeviceRows> {
        if let NgramOrder::Words = order {
            return Ok(rows);
        }
        let (gpu, n, part) = Self::of_rows(rows);
        Self::into_rows(part, &gpu, n, order)
    }
    fn download_rows(rows: Self::DeviceRows, top: Option<Top>) -> DeviceResult<Self::Table> {
        let (gpu, n, part) = Self::of_rows(rows);
        Self::download(part, &gpu, &NgramSet::from(n), top)
    }

    /// The counts that [`Top`] chooses by.
    fn counts(table: &Self::Table) -> impl Iterator<Item = u64>;
    /// The n-grams of n words of which some counts are used, and these.
    fn chosen(table: &Self::Table, n: usize, is_used: impl Fn(u64) -> bool) -> Self::Table;
    /// The n-grams that `top` uses, found without all others; none if there is no such way.
    fn first(
        _view: &CorpusView,
        _n: usize,
        _top: Top,
        _run: Run<'_>,
    ) -> Result<Option<Vec<NgramsPart<Self>>>> {
        Ok(None)
    }

    /// Gives files other numbers, which ascend as they do.
    fn renumber_files(table: Self::Table, number: impl Fn(u32) -> u32 + Sync) -> Self::Table;
    /// Appends some rows of a table, whose files have other numbers.
    fn append(
        list: &mut Self::Rows,
        table: &Self::Table,
        rows: Range<usize>,
        file: impl Fn(u32) -> u32,
    );
    /// The rows of n-grams that occur once each, in these files.
    fn once(files: &[u32]) -> Self::Rows;
    /// Appends the sum of the rows of one n-gram.
    fn push_sum(
        sums: &mut Self::Rows,
        lists: &[(Vec<u32>, Self::Rows)],
        rows: RowPlaces<'_>,
        order: FileOrder,
    ) -> Result<()>;
    /// A table of n-grams.
    fn table(words: Vec<u32>, rows: Self::Rows) -> Self::Table;
    /// A table of n-grams of n words, packed if its counts can be.
    fn pack(n: usize, table: Self::Table) -> NgramsPart<Self>;
    /// A table of current words as changes leave it; these ascend.
    fn corrected(
        pending: &PendingView,
        shape: (usize, FileOrder),
        table: Self::Table,
        changes: &[(Window, u32, i64)],
    ) -> Result<Self::Table>;
}

/// In which order rows of n-grams come.
#[derive(Clone, Debug)]
pub(crate) enum NgramOrder {
    /// Ascending by the numbers of their words.
    Words,
    /// By these ranks of their words.
    Texts(Arc<[u32]>),
    /// By how often they occur, the greatest counts first if `descending`, where rows do not tell files apart. Of n-grams that
    /// occur as often the one whose words have smaller ranks comes first; without ranks the one whose words have smaller numbers.
    Counts {
        descending: bool,
        ranks: Option<Arc<[u32]>>,
    },
}

impl NgramOrder {
    /// What rows are compared by: their counts, whether the greatest come first, then ranks.
    pub(crate) fn keys(&self) -> (Option<bool>, Option<&[u32]>) {
        match self {
            NgramOrder::Words => (None, None),
            NgramOrder::Texts(ranks) => (None, Some(ranks)),
            NgramOrder::Counts { descending, ranks } => (Some(*descending), ranks.as_deref()),
        }
    }
}

/// Which n-grams of a segment are counted.
#[derive(Clone, Debug)]
pub(crate) struct NgramQuestion {
    pub(crate) set: NgramSet,
    /// Of the files of an n-gram.
    pub(crate) order: FileOrder,
    /// Those that this does not use may be missing.
    pub(crate) top: Option<Top>,
    /// If rows are made of them: a device that has all of them at once puts them in this order and keeps them until then.
    pub(crate) rows: Option<NgramOrder>,
    /// Of how many segments they are kept.
    pub(crate) segments: usize,
    /// Bytes for windows.
    pub(crate) memory: usize,
}

/// Which n-grams of a corpus are asked for.
#[derive(Clone, Debug)]
pub(crate) struct NgramRequest {
    pub(crate) n: usize,
    /// Those of these files, each named once, ascending; those of all if there are none.
    pub(crate) files: Option<Vec<u32>>,
    /// Of the files of an n-gram.
    pub(crate) order: FileOrder,
    /// As in [`NgramQuestion`].
    pub(crate) rows: Option<NgramOrder>,
    /// Those that this does not use may be missing.
    pub(crate) top: Option<Top>,
}

impl NgramRequest {
    /// All n-grams of n words.
    pub(crate) fn all(n: usize) -> NgramRequest {
        NgramRequest {
            n,
            files: None,
            order: FileOrder::File,
            rows: None,
            top: None,
        }
    }
}

/// N-grams of an answer, where they lie.
#[derive(Debug)]
pub(crate) enum NgramAnswer<P: NgramPayload> {
    /// On the host, in parts that follow each other.
    Parts(Vec<NgramsPart<P>>),
    /// All of them, in the order that was asked for, on a device.
    OnDevice(P::DeviceRows),
}

impl<P: NgramPayload> NgramAnswer<P> {
    /// The parts, on the host.
    ///
    /// # Errors
    /// Those of the device.
    pub(crate) fn into_parts(self) -> Result<Vec<NgramsPart<P>>> {
        match self {
            NgramAnswer::Parts(parts) => Ok(parts),
            NgramAnswer::OnDevice(rows) => {
                Ok(vec![NgramsPart::Plain(P::download_rows(rows, None)?)])
            }
        }
    }
}

/// Some n-grams: as a derived structure or a device gives them, or packed, as the grammar does.
#[derive(Clone, Debug)]
pub(crate) enum NgramsPart<P: NgramPayload> {
    Plain(P::Table),
    Packed(P::Packed),
}

impl<P: NgramPayload> NgramsPart<P> {
    /// Cuts the n-grams into stretches of at most `most`; packed ones stay one stretch. Gives the first word and the number of n-grams
    /// of each.
    pub(super) fn stretches(&self, n: usize, most: usize) -> Vec<(u32, usize)> {
        match self {
            NgramsPart::Plain(plain) => {
                let stretches = P::words(plain).chunks(most * n);
                stretches.map(|words| (words[0], words.len() / n)).collect()
            }
            NgramsPart::Packed(_) => {
                Vec::from_iter(self.first_word().map(|word| (word, self.len())))
            }
        }
    }

    /// How many n-grams there are.
    pub(crate) fn len(&self) -> usize {
        match self {
            NgramsPart::Plain(plain) => P::len(plain),
            NgramsPart::Packed(packed) => P::packed_len(packed),
        }
    }

    /// The word that the first n-gram begins with; none if there is no n-gram.
    pub(super) fn first_word(&self) -> Option<u32> {
        match self {
            NgramsPart::Plain(plain) => P::words(plain).first().copied(),
            NgramsPart::Packed(packed) => P::packed_first_word(packed),
        }
    }

    /// The n-grams, not packed.
    pub(crate) fn plain(&self) -> Cow<'_, P::Table> {
        match self {
            NgramsPart::Plain(plain) => Cow::Borrowed(plain),
            NgramsPart::Packed(packed) => Cow::Owned(P::unpacked(packed)),
        }
    }

    /// The n-grams of a part that is read no more, not packed.
    pub(crate) fn into_plain(self) -> P::Table {
        match self {
            NgramsPart::Plain(plain) => plain,
            NgramsPart::Packed(packed) => P::unpacked(&packed),
        }
    }
}

impl Top {
    /// The n-grams of n words that are used, of all. Parts are unpacked one by one, by all threads.
    pub(super) fn of_parts<P: NgramPayload>(
        self,
        parts: Vec<NgramsPart<P>>,
        n: usize,
    ) -> Vec<NgramsPart<P>> {
        let chosen =
            |table: &P::Table, last| P::chosen(table, n, |count| self.is_used(count, last));
        let of_part = |part: NgramsPart<P>| {
            let table = part.into_plain();
            chosen(&table, self.last(P::counts(&table)))
        };
        let used: Vec<P::Table> = parts.into_par_iter().map(of_part).collect();
        let last = self.last(used.iter().flat_map(|table| P::counts(table)));
        let used = used.into_iter().map(|table| match last {
            0 => table,
            _ => chosen(&table, last),
        });
        used.map(NgramsPart::Plain).collect()
    }
}
