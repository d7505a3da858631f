//! N-grams of a segment or corpus, over a payload: their counts, or the files that have them.
//!
//! `NgramPayload` is the difference between the two. Invariant: with both the n-grams are the same, and the counts of an n-gram
//! in its files add up to its count. All n-grams of a corpus take several times its text; packed they take a fraction of it, and
//! they are read in parts.

use std::borrow::Cow;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;
use zipfdb_kernels::gpu::{CutPlaces, Gpu, GpuError, MergedPart};
use zipfdb_kernels::{FileOrder, GrammarView, NgramSet, NgramTable, RuleFiles, WordSuffixes};

use super::access_path::{PathName, Run};
use super::corpus_view::CorpusView;
use super::correction::Window;
use super::pending_view::PendingView;
use super::top_k::Top;
use crate::Result;
use crate::runtime::device::ResidentWords;
use crate::segment::StructureKind;
use crate::segment::cost::Size;

/// A result of the kernels on a device.
pub(super) type DeviceResult<T> = std::result::Result<T, GpuError>;

/// The rows of some lists for one n-gram: the list and the place there of each.
pub(super) type RowPlaces<'a> = &'a [(usize, usize)];

/// The values of n-grams: their counts, or their files with counts.
pub(crate) trait NgramPayload: Clone + Debug + Send + Sync + 'static {
    /// Sorted n-grams, unpacked.
    type Table: Clone + Debug + Default + Send + Sync;
    /// Sorted n-grams, packed.
    type Packed: Clone + Debug + Send + Sync;
    /// Some n-grams on a device.
    type DevicePart;
    /// All n-grams on a device until their rows are made.
    type DeviceRows: Debug + Send + Sync;
    /// The values of merged n-grams, without their words.
    type Rows: Default + Send + Sync;

    const HAS_FILES: bool;
    /// The path by the grammar, and the structures that it needs.
    const GRAMMAR: PathName;
    const GRAMMAR_NEEDS: &'static [StructureKind];
    /// Costs in nanoseconds: for a word of a suffix array, for a symbol of a table and for one on a device.
    const SUFFIX_COST: f64;
    const TABLE_COST: f64;
    const DEVICE_COST: f64;

    /// The work on the grammar of a segment, in nanoseconds of one thread.
    fn grammar_work(size: Size) -> f64;
    /// The same for some files with `words` words together.
    fn chosen_work(size: Size, files: u64, words: u64) -> f64;

    fn words(table: &Self::Table) -> &Vec<u32>;
    fn words_mut(table: &mut Self::Table) -> &mut Vec<u32>;
    /// The number of n-grams in a table.
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
    /// The n-grams of a grammar with its weights; `lists` are the files of its rules where these are needed.
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
    /// The n-grams of a set, or those of a part that `top` uses.
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
    /// The device of rows, the length of an n-gram in words, and the n-grams.
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
    /// The n-grams of n words with used counts, and these counts.
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

    /// Renumbers files; the numbers keep their order.
    fn renumber_files(table: Self::Table, number: impl Fn(u32) -> u32 + Sync) -> Self::Table;
    /// Appends some rows of a table, whose files are renumbered.
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
    /// A table of current words, corrected by changes, which ascend.
    fn corrected(
        pending: &PendingView,
        shape: (usize, FileOrder),
        table: Self::Table,
        changes: &[(Window, u32, i64)],
    ) -> Result<Self::Table>;
}

/// The order of rows of n-grams.
#[derive(Clone, Debug)]
pub(crate) enum NgramOrder {
    /// Ascending by the numbers of their words.
    Words,
    /// By these ranks of their words.
    Texts(Arc<[u32]>),
    /// By their counts, the greatest first if `descending`, where rows do not distinguish files. Of n-grams with equal counts the
    /// one whose words have smaller ranks comes first; without ranks the one whose words have smaller numbers.
    Counts {
        descending: bool,
        ranks: Option<Arc<[u32]>>,
    },
}

impl NgramOrder {
    /// The keys that rows are compared by: their counts, whether the greatest come first, then ranks.
    pub(crate) fn keys(&self) -> (Option<bool>, Option<&[u32]>) {
        match self {
            NgramOrder::Words => (None, None),
            NgramOrder::Texts(ranks) => (None, Some(ranks)),
            NgramOrder::Counts { descending, ranks } => (Some(*descending), ranks.as_deref()),
        }
    }
}

/// The n-grams of a segment to count.
#[derive(Clone, Debug)]
pub(crate) struct NgramQuestion {
    pub(crate) set: NgramSet,
    /// The order of the files of an n-gram.
    pub(crate) order: FileOrder,
    /// N-grams that it does not use may be missing.
    pub(crate) top: Option<Top>,
    /// The order of rows, if the result becomes rows: a device that has all n-grams at once sorts them and keeps them until then.
    pub(crate) rows: Option<NgramOrder>,
    /// The number of segments whose n-grams are kept on devices.
    pub(crate) segments: usize,
    /// Bytes for windows.
    pub(crate) memory: usize,
}

/// The n-grams of a corpus to count.
#[derive(Clone, Debug)]
pub(crate) struct NgramRequest {
    pub(crate) n: usize,
    /// The files to count in, each once, ascending; none for all files.
    pub(crate) files: Option<Vec<u32>>,
    /// The order of the files of an n-gram.
    pub(crate) order: FileOrder,
    /// As in [`NgramQuestion`].
    pub(crate) rows: Option<NgramOrder>,
    /// N-grams that it does not use may be missing.
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

/// The n-grams of an answer, on the host or on a device.
#[derive(Debug)]
pub(crate) enum NgramAnswer<P: NgramPayload> {
    /// On the host, in consecutive parts.
    Parts(Vec<NgramsPart<P>>),
    /// All of them, in the wanted order, on a device.
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

/// Some n-grams: plain, from a derived structure or a device, or packed, from the grammar.
#[derive(Clone, Debug)]
pub(crate) enum NgramsPart<P: NgramPayload> {
    Plain(P::Table),
    Packed(P::Packed),
}

impl<P: NgramPayload> NgramsPart<P> {
    /// Cuts the n-grams into stretches of at most `most`; packed ones stay one stretch. Returns the first word and the number of
    /// n-grams of each.
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

    /// The number of n-grams.
    pub(crate) fn len(&self) -> usize {
        match self {
            NgramsPart::Plain(plain) => P::len(plain),
            NgramsPart::Packed(packed) => P::packed_len(packed),
        }
    }

    /// The first word of the first n-gram; none if there is no n-gram.
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

    /// The n-grams of a part that is read for the last time, not packed.
    pub(crate) fn into_plain(self) -> P::Table {
        match self {
            NgramsPart::Plain(plain) => plain,
            NgramsPart::Packed(packed) => P::unpacked(&packed),
        }
    }
}

impl Top {
    /// The used n-grams of n words. Parts are unpacked one by one, by all threads.
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
