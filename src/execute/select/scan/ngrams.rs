//! The scan of `ngrams('corpus', n)`: sequences of words with their files and places, answered on the grammar.
//!
//! Invariant: what a strategy gives equals the plain scan's rows (`reference`), merged where that was allowed. N-grams told
//! by `=` or `IN` are looked up by their words; other conditions are decided once for each distinct n-gram where rows are
//! merged. Nothing is decoded before the first row is asked for.

use std::cmp::{Ordering, Reverse};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use rayon::prelude::*;
use zipfdb_kernels::{FileOrder, NgramFiles};
use zipfdb_sql::query::{Collation, NgramsColumn};
use zipfdb_sql::setting::Strategy;

use super::super::context::Context;
use super::super::explain::{Answered, Describe, Description};
use super::super::ordered::sort_until;
use super::super::row::Operator;
use super::super::sort_numbers::sorted_ngrams;
use super::super::word_order::text_order;
use super::boundary::{Properties, RowOrder, Scan, ScanColumn, ScanRequest};
use super::large_ngrams::{LargeNgrams, LargeRow, RowShape, RowsByText};
use super::plan::{Grain, ScanPath, ScanPlan, size_of_segments};
use super::selection::{FileSelection, WordSelection, is_text, places};
use crate::answer::cost::NGRAM_FACTOR;
use crate::answer::{
    CorpusView, CountedNgrams, Ngram, NgramFilePart, NgramsPart, Occurrence, PhrasePlace,
    PlaceRanges, Top, WordStream,
};
use crate::api::snapshot::Snapshot;
use crate::batch::{Batch, BatchColumn, TextDictionary};
use crate::expression::{ColumnFilter, from_count, integer_of_count, text_or_blob};
use crate::runtime::interrupt::Interrupt;
use crate::{Result, Value};

pub(super) struct NgramsScan {
    task: NgramTask,
    rows: Option<NgramRows>,
    interrupt: Interrupt,
}

/// What is asked, and how it is answered.
struct NgramTask {
    snapshot: Snapshot,
    n: usize,
    columns: Vec<NgramsColumn>,
    /// As for words, with n-grams in their place.
    grain: Grain,
    strategy: Strategy,
    files: FileSelection,
    ngram_filters: Vec<ColumnFilter>,
    /// Conditions on `position` or `offset`.
    place_filters: Vec<ColumnFilter>,
    /// Which rows are used, if not all.
    top: Option<Top>,
    /// Rows of all files would not fit the limit of memory: they are made part by part.
    large: Option<Context>,
    /// Whether n-grams with their files come in order of their texts; else in order of their numbers.
    by_text: bool,
    /// In which order the files of an n-gram come then.
    file_order: FileOrder,
    description: Arc<Answered>,
}

/// N-grams with what rows tell of them.
struct CountedNgram {
    words: Arc<[u32]>,
    file: u32,
    times: u64,
}

fn by_file_and_words(left: &CountedNgram, right: &CountedNgram) -> Ordering {
    (left.file, &left.words).cmp(&(right.file, &right.words))
}

/// Where rows come from, once they have begun.
enum NgramRows {
    Counted(std::vec::IntoIter<CountedNgram>),
    /// A table of distinct n-grams with counts, in parts: the one that is read and its next row, and those behind it.
    Table {
        part: CountedNgrams,
        next: usize,
        parts: std::vec::IntoIter<NgramsPart>,
    },
    /// N-grams with their files, in parts: the one that is read and where in it the next row is, n-gram and entry of its
    /// row; and those behind it.
    FileTable {
        part: NgramFiles,
        ngram: usize,
        entry: usize,
        parts: std::vec::IntoIter<NgramFilePart>,
    },
    /// The same in order of their texts, and which n-gram and entry of its row come next.
    OrderedFileTable {
        table: OrderedNgramFiles,
        next: usize,
        entry: usize,
    },
    /// Words in order; n-grams are windows of them.
    Stream {
        stream: WordStream,
        buffer: Vec<Occurrence>,
        next: usize,
        has_more: bool,
        window: VecDeque<Occurrence>,
    },
    /// Part by part.
    Large(LargeNgrams),
    LargeByText(RowsByText),
    /// N-grams that were looked up, in order of their places.
    Found(std::vec::IntoIter<(Arc<[u32]>, PhrasePlace)>),
}

/// Words that are expanded at a time.
const BUFFER: usize = 1024;

/// What EXPLAIN says of rows that are made part by part.
const LARGE: &str = "in parts: all rows may take more than memory_limit";

const NGRAM: usize = NgramsColumn::Ngram as usize;

impl NgramsScan {
    pub(super) fn new(
        snapshot: Snapshot,
        n: u32,
        request: ScanRequest,
        context: &Context,
    ) -> Result<NgramsScan> {
        let columns = request.columns.iter();
        let columns = columns.filter_map(|requested| match requested.column {
            ScanColumn::Column(column) => NgramsColumn::ALL.get(column).copied(),
            ScanColumn::Substr { .. } => None,
        });
        let columns: Vec<NgramsColumn> = columns.collect();
        let (mut file_filters, mut ngram_filters, mut place_filters) = Default::default();
        for filter in request.filters {
            let filters: &mut Vec<ColumnFilter> = match NgramsColumn::ALL.get(filter.column()) {
                Some(NgramsColumn::File) => &mut file_filters,
                Some(NgramsColumn::Ngram) => &mut ngram_filters,
                _ => &mut place_filters,
            };
            filters.push(filter);
        }
        let files = FileSelection::new(&snapshot, &file_filters)?;
        let asks = |wanted| columns.contains(&wanted);
        let asks_place = asks(NgramsColumn::Position) || asks(NgramsColumn::Offset);
        let grain = if asks_place || !place_filters.is_empty() || !request.merge {
            Grain::Occurrence
        } else {
            match (asks(NgramsColumn::File), asks(NgramsColumn::Ngram)) {
                (false, false) => Grain::All,
                (true, false) => Grain::File,
                (false, true) => Grain::Word,
                (true, true) => Grain::FileWord,
            }
        };
        let places = places_of(&place_filters);
        let filters = (&ngram_filters[..], &places);
        let paths = paths(snapshot.view(), n as usize, grain, &files, filters)?;
        let mut plan = ScanPlan::new(paths, context.settings.strategy)?;
        let is_table = !matches!(plan.strategy(), Strategy::Totals | Strategy::Parents);
        let limit = context.settings.memory_limit();
        let is_large = grain != Grain::Occurrence
            && is_table
            && table_bytes(snapshot.view(), grain, &files, u64::from(n)) > limit;
        if is_large {
            // Parts come from the grammar.
            plan.prefer(|strategy| matches!(strategy, Strategy::Weights | Strategy::FileWeights));
        }
        let what = match WordSelection::values(&ngram_filters, NGRAM) {
            Some(values) => format!("{} of {n} words", values.len()),
            None => format!("of {n} words"),
        };
        let detail = format!("{what} in {} files", files.len());
        let mut description = Description::new("n-grams", detail, None);
        description.lines = plan.lines(is_large.then_some(LARGE));
        let ngram = (columns.iter()).position(|&column| column == NgramsColumn::Ngram);
        let by_text = ngram.is_some()
            && request.wanted_order.first() == ngram.map(RowOrder::ascending).as_ref()
            && grain == Grain::FileWord
            && !is_large;
        let by_count = request.wanted_order.get(1) == Some(&RowOrder::MOST_OFTEN);
        let mut scan = NgramsScan {
            task: NgramTask {
                snapshot,
                // 1 to 8.
                n: n as usize,
                columns,
                grain,
                strategy: plan.strategy(),
                files,
                ngram_filters,
                place_filters,
                top: None,
                large: is_large.then(|| context.clone()),
                by_text,
                file_order: match by_text && by_count {
                    true => FileOrder::Count,
                    false => FileOrder::File,
                },
                description: Answered::new(description),
            },
            rows: None,
            interrupt: context.interrupt.clone(),
        };
        scan.task.top = request.top.filter(|_| scan.properties().is_unique);
        Ok(scan)
    }
}

/// What a table of n-grams takes at most, as the kernels make it and as rows. There are no more n-grams than places for them;
/// and every one that is not in a rule of its own crosses from one symbol of a body or root to the next.
fn table_bytes(view: &CorpusView, grain: Grain, files: &FileSelection, n: u64) -> u64 {
    let size = size_of_segments(view);
    let places = files.words(view);
    let distinct = match n {
        1 => places.min(size.tokens),
        _ => places.min(size.symbols.saturating_mul(n - 1)),
    };
    // The words and a count: twice where tables of segments are merged, else with a row that counts references.
    let entry = (size_of::<u32>() * n as usize + size_of::<u64>()) as u64;
    let (rows, row) = match grain {
        Grain::Word => (distinct, 2 * entry),
        Grain::FileWord if files.is_all() => {
            let pairs = places.saturating_mul(size_of::<(u32, u32)>() as u64);
            return distinct.saturating_mul(entry).saturating_add(pairs);
        }
        Grain::All => (
            distinct,
            2 * entry + (size_of::<u64>() + size_of::<CountedNgram>()) as u64,
        ),
        _ => (
            places,
            2 * entry + (size_of::<u64>() + size_of::<CountedNgram>()) as u64,
        ),
    };
    rows.saturating_mul(row)
}

/// Where places lie that pass.
fn places_of(place_filters: &[ColumnFilter]) -> PlaceRanges {
    let (position, offset) = (NgramsColumn::Position, NgramsColumn::Offset);
    places(place_filters, position as usize, offset as usize)
}

/// The ways to answer.
fn paths(
    view: &CorpusView,
    n: usize,
    grain: Grain,
    files: &FileSelection,
    (ngram_filters, places): (&[ColumnFilter], &PlaceRanges),
) -> Result<Vec<ScanPath>> {
    let stored = view.stored();
    let few = WordSelection::values(ngram_filters, NGRAM).map(|ngrams| ngrams.len() as f64);
    let mut paths = Vec::new();
    if let Some(few) = few {
        let counts_only = files.is_all() && matches!(grain, Grain::All | Grain::Word);
        let plan = stored.plan_phrase(n, counts_only, None)?;
        paths.push(ScanPath::planned(Strategy::Parents, &plan).times(few.max(1.0)));
    }
    match grain {
        Grain::All | Grain::File if ngram_filters.is_empty() => {
            paths.push(ScanPath::totals(files.len() as u64));
        }
        Grain::All | Grain::Word if files.is_all() => {
            let plan = stored.plan_ngrams(n, None)?;
            paths.push(ScanPath::planned(Strategy::Weights, &plan));
        }
        Grain::All | Grain::File | Grain::Word | Grain::FileWord => {
            let plan = stored.plan_ngram_files(n, None)?;
            paths.push(ScanPath::planned(Strategy::FileWeights, &plan));
        }
        Grain::Occurrence => {}
    }
    let stream = ScanPath::stream(view, files, places);
    paths.push(match grain {
        Grain::Occurrence if ngram_filters.is_empty() => stream,
        // Each window is looked up in a hash table, or its text made.
        _ => stream.times(NGRAM_FACTOR),
    });
    Ok(paths)
}

impl NgramTask {
    fn start(&self, interrupt: &Interrupt) -> Result<NgramRows> {
        let files = self.files.numbers().to_vec();
        if self.grain == Grain::Occurrence && self.strategy != Strategy::Parents {
            return Ok(NgramRows::Stream {
                stream: WordStream::within(
                    self.snapshot.view().clone(),
                    files,
                    places_of(&self.place_filters),
                    self.n as u64 - 1,
                ),
                buffer: Vec::with_capacity(BUFFER),
                next: 0,
                has_more: true,
                window: VecDeque::new(),
            });
        }
        if let Some(context) = &self.large {
            return self.start_large(context);
        }
        if self.strategy == Strategy::Parents {
            return self.look_up(interrupt);
        }
        if self.strategy == Strategy::Weights
            && self.grain == Grain::Word
            && !self.has_spaces(interrupt)?
        {
            // What passes conditions is known only row by row.
            let top = self.top.filter(|_| self.ngram_filters.is_empty());
            return Ok(NgramRows::Table {
                part: CountedNgrams::none(),
                next: 0,
                parts: self.table(top, interrupt)?.into_iter(),
            });
        }
        let by_file = self.strategy == Strategy::FileWeights && self.grain == Grain::FileWord;
        let words = TextDictionary::words(self.snapshot.view());
        if by_file
            && self.by_text
            && self.files.is_all()
            && let Some(order) = text_order(&words, true, Collation::Binary, interrupt)?
        {
            let parts = self.file_table(interrupt)?.into_iter();
            let parts = parts.map(NgramFilePart::into_plain).collect();
            let ranks = order.ranks(&words).unwrap_or_default();
            return Ok(NgramRows::OrderedFileTable {
                table: OrderedNgramFiles::new(parts, self.n, ranks, interrupt)?,
                next: 0,
                entry: 0,
            });
        }
        if by_file && !self.by_text && self.files.is_all() && !self.has_spaces(interrupt)? {
            let parts = self.file_table(interrupt)?;
            return Ok(match self.top.filter(|_| self.ngram_filters.is_empty()) {
                Some(top) => {
                    let parts = parts.into_iter().map(NgramFilePart::into_plain);
                    let parts: Vec<NgramFiles> = parts.collect();
                    NgramRows::Counted(self.top_of_files(top, &parts).into_iter())
                }
                None => NgramRows::FileTable {
                    part: NgramFiles::default(),
                    ngram: 0,
                    entry: 0,
                    parts: parts.into_iter(),
                },
            });
        }
        let mut counted = match self.strategy {
            Strategy::Totals => self.stored_totals(&files),
            Strategy::Weights => self.weights(interrupt)?,
            Strategy::FileWeights => self.file_weights(interrupt)?,
            _ => self.expand(files, interrupt)?,
        };
        self.fold(&mut counted, interrupt)?;
        if let Some(top) = self.top {
            top.retain(&mut counted, |row| row.times);
        }
        if self.by_text {
            self.sort_by_text(&mut counted, interrupt)?;
        }
        Ok(NgramRows::Counted(counted.into_iter()))
    }

    /// Sorts by text as values compare, then as the files of an n-gram come.
    fn sort_by_text(&self, counted: &mut Vec<CountedNgram>, interrupt: &Interrupt) -> Result<()> {
        let mut pace = interrupt.pace();
        let mut texts: Vec<((bool, Vec<u8>), CountedNgram)> = Vec::with_capacity(counted.len());
        for row in counted.drain(..) {
            let text = Ngram::new(self.snapshot.view(), &row.words).text();
            pace.work(text.len())?;
            // What is not text is a BLOB, and comes after all texts.
            texts.push(((!is_text(&text), text), row));
        }
        let rank = |row: &CountedNgram| match self.file_order {
            FileOrder::File => Reverse(0),
            FileOrder::Count => Reverse(row.times),
        };
        sort_until(&mut texts, &mut pace, |left, right| {
            (&left.0, rank(&left.1), left.1.file).cmp(&(&right.0, rank(&right.1), right.1.file))
        })?;
        counted.extend(texts.into_iter().map(|(_, row)| row));
        Ok(())
    }

    /// Rows part by part.
    fn start_large(&self, context: &Context) -> Result<NgramRows> {
        let shape = RowShape {
            n: self.n,
            by_file: matches!(self.grain, Grain::File | Grain::FileWord),
        };
        let wanted = (!self.files.is_all()).then(|| {
            let mut wanted = vec![false; self.snapshot.files().len()];
            let files = self.files.numbers().iter();
            files.for_each(|&file| wanted[file as usize] = true);
            wanted
        });
        let (snapshot, log) = (&self.snapshot, &self.description);
        let mut rows = LargeNgrams::new(snapshot, shape, wanted, log, context)?;
        if matches!(self.grain, Grain::Word | Grain::FileWord) {
            if !self.has_spaces(&context.interrupt)? {
                return Ok(NgramRows::Large(rows));
            }
            let text_of = |row: &LargeRow| {
                let words = row.words(self.n);
                let text = || Ngram::new(self.snapshot.view(), words).text();
                Ok(self.passes(words)?.then(text))
            };
            let rows = RowsByText::new(rows, context, text_of)?;
            return Ok(NgramRows::LargeByText(rows));
        }
        let mut times = vec![0; self.snapshot.files().len().max(1)];
        while let Some(row) = rows.next()? {
            if self.passes(row.words(self.n))? {
                times[row.file as usize] += row.times;
            }
        }
        let nothing: Arc<[u32]> = Arc::default();
        // Files are u32.
        let counted = (0..).zip(times).filter(|&(_, times)| times > 0);
        let counted = counted.map(|(file, times)| CountedNgram {
            words: nothing.clone(),
            file,
            times,
        });
        Ok(NgramRows::Counted(counted.collect::<Vec<_>>().into_iter()))
    }

    /// The n-grams and files of a table that are used.
    fn top_of_files(&self, top: Top, parts: &[NgramFiles]) -> Vec<CountedNgram> {
        let entries = || {
            parts.iter().flat_map(|part| {
                let ngrams = part.words.chunks_exact(self.n).enumerate();
                ngrams.flat_map(|(row, words)| {
                    let files = part.files.row(row).iter();
                    files.map(move |&(file, times)| (words, file, u64::from(times)))
                })
            })
        };
        let last = top.last(entries().map(|(_, _, times)| times));
        let used = entries().filter(|&(_, _, times)| top.is_used(times, last));
        let used = used.map(|(words, file, times)| CountedNgram {
            words: words.into(),
            file,
            times,
        });
        used.collect()
    }

    /// Adds up what rows do not tell apart. Rows of equal words stand next to each other.
    fn fold(&self, counted: &mut Vec<CountedNgram>, interrupt: &Interrupt) -> Result<()> {
        let mut pace = interrupt.pace();
        counted.retain(|row| row.times > 0);
        match self.grain {
            Grain::All => {
                let times = counted.iter().map(|row| row.times).sum();
                counted.truncate(usize::from(times > 0));
                counted.iter_mut().for_each(|row| row.times = times);
            }
            Grain::File => {
                sort_until(counted, &mut pace, |left, right| left.file.cmp(&right.file))?;
                counted.dedup_by(|next, kept| {
                    let same = next.file == kept.file;
                    if same {
                        kept.times += next.times;
                    }
                    same
                });
            }
            Grain::Word | Grain::FileWord => self.fold_texts(counted, interrupt)?,
            Grain::Occurrence => {}
        }
        Ok(())
    }

    /// One row for each text, or for each text and file. Different words make the same text only if one holds a space.
    fn fold_texts(&self, counted: &mut Vec<CountedNgram>, interrupt: &Interrupt) -> Result<()> {
        let mut pace = interrupt.pace();
        if self.grain == Grain::Word {
            counted.iter_mut().for_each(|row| row.file = 0);
        }
        if self.has_spaces(interrupt)? {
            let view = self.snapshot.view();
            let text = |row: &CountedNgram| (Ngram::new(view, &row.words).text(), row.file);
            let mut same: HashMap<(Vec<u8>, u32), CountedNgram> = HashMap::new();
            for row in counted.drain(..) {
                pace.step()?;
                let times = row.times;
                same.entry(text(&row))
                    .and_modify(|kept| kept.times += times)
                    .or_insert(row);
            }
            counted.extend(same.into_values());
            sort_until(counted, &mut pace, by_file_and_words)?;
        } else {
            counted.dedup_by(|next, kept| {
                let same = next.file == kept.file && next.words == kept.words;
                if same {
                    kept.times += next.times;
                }
                same
            });
        }
        Ok(())
    }

    /// Whether a word holds a space.
    fn has_spaces(&self, interrupt: &Interrupt) -> Result<bool> {
        self.snapshot.ask(interrupt, |view, _| {
            let vocabulary = view.vocabulary()?;
            // Words are numbered by u32.
            let words = (0..vocabulary.len() as u32).into_par_iter();
            Ok(words.any(|word| vocabulary.word(word).contains(&b' ')))
        })
    }

    fn text(&self, words: &[u32]) -> Value {
        text_or_blob(Ngram::new(self.snapshot.view(), words).text())
    }

    fn passes(&self, words: &[u32]) -> Result<bool> {
        if self.ngram_filters.is_empty() {
            return Ok(true);
        }
        let text = self.text(words);
        let mut filters = self.ngram_filters.iter();
        filters.try_fold(true, |passes, filter| Ok(passes && filter.matches(&text)?))
    }

    fn stored_totals(&self, files: &[u32]) -> Vec<CountedNgram> {
        let nothing: Arc<[u32]> = Arc::default();
        let count = |&file: &u32| CountedNgram {
            words: nothing.clone(),
            file,
            times: (self.snapshot.files()[file as usize].words + 1).saturating_sub(self.n as u64),
        };
        files.iter().map(count).collect()
    }

    /// All n-grams, or those that are used.
    fn table(&self, top: Option<Top>, interrupt: &Interrupt) -> Result<Vec<NgramsPart>> {
        let (n, description) = (self.n, self.description.clone());
        self.snapshot.ask(interrupt, move |view, stop| {
            view.ngrams(n, top, description.log.until(stop))
        })
    }

    fn weights(&self, interrupt: &Interrupt) -> Result<Vec<CountedNgram>> {
        let mut counted = Vec::new();
        let mut pace = interrupt.pace();
        for part in self.table(None, interrupt)? {
            for (words, times) in part.into_counted().iter(self.n) {
                pace.step()?;
                if self.passes(words)? {
                    counted.push(CountedNgram {
                        words: words.into(),
                        file: 0,
                        times,
                    });
                }
            }
        }
        Ok(counted)
    }

    fn file_table(&self, interrupt: &Interrupt) -> Result<Vec<NgramFilePart>> {
        let (n, order, description) = (self.n, self.file_order, self.description.clone());
        self.snapshot.ask(interrupt, move |view, stop| {
            view.ngram_files(n, order, description.log.until(stop))
        })
    }

    fn file_weights(&self, interrupt: &Interrupt) -> Result<Vec<CountedNgram>> {
        let parts = self.file_table(interrupt)?;
        let wanted = self.files.numbers();
        let is_wanted = |file: u32| self.files.is_all() || wanted.binary_search(&file).is_ok();
        let mut counted = Vec::new();
        let mut pace = interrupt.pace();
        for part in parts {
            let part = part.into_plain();
            for (row, words) in part.words.chunks_exact(self.n).enumerate() {
                pace.step()?;
                let mut files = part
                    .files
                    .row(row)
                    .iter()
                    .filter(|entry| is_wanted(entry.0));
                let Some(first) = files.next() else { continue };
                if !self.passes(words)? {
                    continue;
                }
                let words: Arc<[u32]> = words.into();
                counted.extend(std::iter::once(first).chain(files).map(|&(file, times)| {
                    CountedNgram {
                        words: words.clone(),
                        file,
                        times: u64::from(times),
                    }
                }));
            }
        }
        Ok(counted)
    }

    /// Counts by expanding the files.
    fn expand(&self, files: Vec<u32>, interrupt: &Interrupt) -> Result<Vec<CountedNgram>> {
        let by_file = matches!(self.grain, Grain::File | Grain::FileWord);
        let mut counts: HashMap<(Arc<[u32]>, u32), u64> = HashMap::new();
        for file in files {
            let mut stream = WordStream::new(self.snapshot.view().clone(), vec![file]);
            let (mut buffer, mut has_more) = (Vec::new(), true);
            let mut window: VecDeque<u32> = VecDeque::with_capacity(self.n);
            while has_more {
                interrupt.check()?;
                buffer.clear();
                has_more = stream.fill_until(&mut buffer, BUFFER, &self.snapshot, interrupt)?;
                for occurrence in &buffer {
                    if window.len() == self.n {
                        window.pop_front();
                    }
                    window.push_back(occurrence.word);
                    if window.len() == self.n {
                        let words: Arc<[u32]> = window.iter().copied().collect();
                        let file = if by_file { file } else { 0 };
                        *counts.entry((words, file)).or_default() += 1;
                    }
                }
            }
        }
        let mut counted = Vec::with_capacity(counts.len());
        let mut pace = interrupt.pace();
        for ((words, file), times) in counts {
            pace.step()?;
            if self.passes(&words)? {
                counted.push(CountedNgram { words, file, times });
            }
        }
        sort_until(&mut counted, &mut pace, by_file_and_words)?;
        Ok(counted)
    }

    /// The n-grams that conditions name and whose words the corpus has, if they pass.
    fn named(&self, interrupt: &Interrupt) -> Result<Vec<Arc<[u32]>>> {
        let values = WordSelection::values(&self.ngram_filters, NGRAM).unwrap_or_default();
        let (values, n) = (values.to_vec(), self.n);
        let named = self
            .snapshot
            .ask(interrupt, move |view, _| named(view, &values, n))?;
        let mut passing = Vec::new();
        for words in named {
            if self.passes(&words)? {
                passing.push(words);
            }
        }
        Ok(passing)
    }

    fn look_up(&self, interrupt: &Interrupt) -> Result<NgramRows> {
        let named = self.named(interrupt)?;
        if self.files.is_all() && matches!(self.grain, Grain::All | Grain::Word) {
            let mut counted = Vec::new();
            for words in named {
                let (wanted, description) = (words.clone(), self.description.clone());
                let times = self.snapshot.ask(interrupt, move |view, stop| {
                    view.ngram_count(&wanted, description.log.until(stop))
                })?;
                counted.push(CountedNgram {
                    words,
                    file: 0,
                    times,
                });
            }
            self.fold(&mut counted, interrupt)?;
            return Ok(NgramRows::Counted(counted.into_iter()));
        }
        let wanted = self.files.numbers();
        let mut found = Vec::new();
        for words in named {
            let (sought, description) = (words.clone(), self.description.clone());
            let places = self.snapshot.ask(interrupt, move |view, stop| {
                view.ngram_places(&sought, description.log.until(stop))
            })?;
            let places = places.into_iter();
            let places = places
                .filter(|place| self.files.is_all() || wanted.binary_search(&place.file).is_ok());
            found.extend(places.map(|place| (words.clone(), place)));
        }
        if self.grain == Grain::Occurrence {
            sort_until(&mut found, &mut interrupt.pace(), |left, right| {
                left.1.cmp(&right.1)
            })?;
            return Ok(NgramRows::Found(found.into_iter()));
        }
        let mut counted: Vec<CountedNgram> = Vec::new();
        for (words, PhrasePlace { file, .. }) in found {
            match counted.last_mut() {
                Some(last) if last.file == file && last.words == words => last.times += 1,
                _ => counted.push(CountedNgram {
                    words,
                    file,
                    times: 1,
                }),
            }
        }
        self.fold(&mut counted, interrupt)?;
        if self.by_text {
            self.sort_by_text(&mut counted, interrupt)?;
        }
        Ok(NgramRows::Counted(counted.into_iter()))
    }
}

/// The words of an n-gram, and its files with counts.
type NgramWithFiles<'a> = (&'a [u32], &'a [(u32, u32)]);

/// N-grams with their files in order of their texts.
struct OrderedNgramFiles {
    parts: Vec<NgramFiles>,
    /// `[parts]`: the number of the first n-gram of each.
    starts: Vec<usize>,
    /// Numbers of n-grams.
    order: Vec<u32>,
}

impl OrderedNgramFiles {
    /// Of n-grams whose texts compare as the ranks of their words.
    fn new(
        parts: Vec<NgramFiles>,
        n: usize,
        ranks: &[u32],
        interrupt: &Interrupt,
    ) -> Result<OrderedNgramFiles> {
        let mut starts = Vec::with_capacity(parts.len());
        let mut words = Vec::new();
        for part in &parts {
            starts.push(words.len() / n);
            words.extend_from_slice(&part.words);
        }
        let order = sorted_ngrams(&words, n, ranks, &mut interrupt.pace())?;
        Ok(OrderedNgramFiles {
            parts,
            starts,
            order,
        })
    }

    /// The n-gram of n words in this place of the order, and its files with counts; none behind the last.
    fn ngram(&self, place: usize, n: usize) -> Option<NgramWithFiles<'_>> {
        let ngram = *self.order.get(place)? as usize;
        let part = self.starts.partition_point(|&start| start <= ngram) - 1;
        let row = ngram - self.starts[part];
        let part = &self.parts[part];
        Some((&part.words[row * n..(row + 1) * n], part.files.row(row)))
    }
}

/// The n-grams of n words that these values name and whose words the corpus has.
fn named(view: &CorpusView, values: &[Value], n: usize) -> Result<Vec<Arc<[u32]>>> {
    let vocabulary = view.vocabulary()?;
    let mut named = Vec::new();
    for value in values {
        let text = match value {
            Value::Text(text) => text.as_bytes(),
            Value::Blob(bytes) => bytes,
            Value::Null | Value::Integer(_) | Value::Real(_) => continue,
        };
        // A word may hold spaces of its own, so a text can be more than one n-gram. What is left of the text, and the
        // words before it.
        let mut open: Vec<(&[u8], Vec<u32>)> = vec![(text, Vec::new())];
        while let Some((rest, words)) = open.pop() {
            let mut add = |word: &[u8], rest: Option<&'_ [u8]>| -> Result<()> {
                let Some(number) = vocabulary.find(word)? else {
                    return Ok(());
                };
                let mut words = words.clone();
                words.push(number);
                match rest {
                    None if words.len() == n => named.push(Arc::from(words)),
                    // The text lives as long as the filter.
                    Some(rest) if words.len() < n => {
                        let from = text.len() - rest.len();
                        open.push((&text[from..], words));
                    }
                    _ => {}
                }
                Ok(())
            };
            for (at, _) in rest.iter().enumerate().filter(|(_, byte)| **byte == b' ') {
                add(&rest[..at], Some(&rest[at + 1..]))?;
            }
            add(rest, None)?;
        }
    }
    named.sort_unstable();
    named.dedup();
    Ok(named)
}

/// Rows that become a batch, by column.
#[derive(Default)]
struct NgramRowNumbers {
    /// `[rows * n]`.
    words: Vec<u32>,
    files: Vec<u32>,
    times: Vec<u64>,
    positions: Vec<i64>,
    offsets: Vec<i64>,
}

/// A row, before its values are made.
struct NgramRow<'a> {
    words: &'a [u32],
    file: u32,
    times: u64,
    position: u64,
    /// None if it is worked out only where it is asked for.
    offset: Option<u64>,
}

impl NgramRow<'_> {
    /// Of a count.
    fn counted(words: &[u32], file: u32, times: u64) -> NgramRow<'_> {
        NgramRow {
            words,
            file,
            times,
            position: 0,
            offset: Some(0),
        }
    }
}

impl NgramTask {
    /// Works out the byte where an n-gram begins, if that is not known yet.
    fn offset(&self, row: &NgramRow<'_>, interrupt: &Interrupt) -> Result<u64> {
        let (file, position) = (row.file, row.position);
        let view = self.snapshot.view();
        match row.offset {
            Some(offset) => Ok(offset),
            None if view.can_tell_offsets_now(file as usize) => view.offset_of_word(file, position),
            None => (self.snapshot).ask(interrupt, move |view, _| {
                view.offset_of_word(file, position)
            }),
        }
    }

    /// Whether the place of a row is wanted.
    fn is_wanted(&self, row: &NgramRow<'_>, interrupt: &Interrupt) -> Result<bool> {
        for filter in &self.place_filters {
            let column = NgramsColumn::ALL[filter.column()];
            if !filter.matches(&self.value(row, column, interrupt)?)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn value(
        &self,
        row: &NgramRow<'_>,
        column: NgramsColumn,
        interrupt: &Interrupt,
    ) -> Result<Value> {
        Ok(match column {
            NgramsColumn::Ngram => self.text(row.words),
            NgramsColumn::File => {
                Value::Text(self.snapshot.files()[row.file as usize].name.clone())
            }
            NgramsColumn::Position => from_count(row.position),
            NgramsColumn::Offset => from_count(self.offset(row, interrupt)?),
        })
    }

    /// Appends a row whose place is wanted.
    fn push(
        &self,
        row: &NgramRow<'_>,
        rows: &mut NgramRowNumbers,
        interrupt: &Interrupt,
    ) -> Result<()> {
        rows.words.extend_from_slice(row.words);
        rows.files.push(row.file);
        rows.times.push(row.times);
        rows.positions.push(integer_of_count(row.position));
        let offset = match self.columns.contains(&NgramsColumn::Offset) {
            true => self.offset(row, interrupt)?,
            false => 0,
        };
        rows.offsets.push(integer_of_count(offset));
        Ok(())
    }

    /// The batch of some rows.
    fn batch(&self, mut rows: NgramRowNumbers) -> Batch {
        let view = self.snapshot.view();
        let count = rows.times.len();
        let columns = self.columns.iter().map(|column| match column {
            NgramsColumn::Ngram => BatchColumn::Ngrams {
                n: self.n,
                indices: std::mem::take(&mut rows.words),
                dictionary: TextDictionary::words(view),
            },
            NgramsColumn::File => BatchColumn::Words {
                indices: std::mem::take(&mut rows.files),
                dictionary: TextDictionary::files(view),
            },
            NgramsColumn::Position => BatchColumn::Integers(std::mem::take(&mut rows.positions)),
            NgramsColumn::Offset => BatchColumn::Integers(std::mem::take(&mut rows.offsets)),
        });
        Batch::new(columns.collect(), count, Some(rows.times))
    }
}

impl NgramsScan {
    /// Hands the rows that come next to `take`, which says whether it wants another.
    fn rows(
        &mut self,
        mut take: impl FnMut(&NgramTask, &NgramRow<'_>, &Interrupt) -> Result<bool>,
    ) -> Result<()> {
        let NgramsScan {
            task,
            rows,
            interrupt,
        } = self;
        let rows = match rows {
            Some(rows) => rows,
            none => none.insert(task.start(interrupt)?),
        };
        let mut take = |row: NgramRow<'_>| match task.is_wanted(&row, interrupt)? {
            true => take(task, &row, interrupt),
            false => Ok(true),
        };
        match rows {
            NgramRows::Counted(rows) => {
                for CountedNgram { words, file, times } in rows {
                    if !take(NgramRow::counted(&words, file, times))? {
                        return Ok(());
                    }
                }
            }
            NgramRows::Table { part, next, parts } => loop {
                while *next < part.len() {
                    let row = *next;
                    *next += 1;
                    if row.is_multiple_of(BUFFER) {
                        interrupt.check()?;
                    }
                    let words = &part.words[row * task.n..(row + 1) * task.n];
                    if task.passes(words)?
                        && !take(NgramRow::counted(words, 0, part.counts.get(row)))?
                    {
                        return Ok(());
                    }
                }
                let Some(following) = parts.next() else {
                    return Ok(());
                };
                (*part, *next) = (following.into_counted(), 0);
            },
            NgramRows::FileTable {
                part,
                ngram,
                entry,
                parts,
            } => loop {
                while *ngram < part.files.rows() {
                    let words = &part.words[*ngram * task.n..(*ngram + 1) * task.n];
                    let row = part.files.row(*ngram);
                    // Conditions on the n-gram are decided once, before its first file.
                    if *entry == row.len() || (*entry == 0 && !task.passes(words)?) {
                        (*ngram, *entry) = (*ngram + 1, 0);
                        if ngram.is_multiple_of(BUFFER) {
                            interrupt.check()?;
                        }
                        continue;
                    }
                    let (file, times) = row[*entry];
                    *entry += 1;
                    if !take(NgramRow::counted(words, file, u64::from(times)))? {
                        return Ok(());
                    }
                }
                let Some(following) = parts.next() else {
                    return Ok(());
                };
                (*part, *ngram, *entry) = (following.into_plain(), 0, 0);
            },
            NgramRows::OrderedFileTable { table, next, entry } => {
                while let Some((words, row)) = table.ngram(*next, task.n) {
                    if *entry == row.len() || (*entry == 0 && !task.passes(words)?) {
                        (*next, *entry) = (*next + 1, 0);
                        if next.is_multiple_of(BUFFER) {
                            interrupt.check()?;
                        }
                        continue;
                    }
                    let (file, times) = row[*entry];
                    *entry += 1;
                    if !take(NgramRow::counted(words, file, u64::from(times)))? {
                        return Ok(());
                    }
                }
            }
            NgramRows::Large(rows) => {
                while let Some(row) = rows.next()? {
                    let words = row.words(task.n);
                    if task.passes(words)? && !take(NgramRow::counted(words, row.file, row.times))?
                    {
                        return Ok(());
                    }
                }
            }
            NgramRows::LargeByText(rows) => {
                while let Some(row) = rows.next()? {
                    let words = row.words(task.n);
                    if !take(NgramRow::counted(words, row.file, row.times))? {
                        return Ok(());
                    }
                }
            }
            NgramRows::Found(places) => {
                for (words, place) in places {
                    let row = NgramRow {
                        words: &words,
                        file: place.file,
                        times: 1,
                        position: place.position,
                        offset: place.offset,
                    };
                    if !take(row)? {
                        return Ok(());
                    }
                }
            }
            NgramRows::Stream {
                stream,
                buffer,
                next,
                has_more,
                window,
            } => loop {
                let Some(&occurrence) = buffer.get(*next) else {
                    if !*has_more {
                        return Ok(());
                    }
                    interrupt.check()?;
                    buffer.clear();
                    *next = 0;
                    *has_more = stream.fill_until(buffer, BUFFER, &task.snapshot, interrupt)?;
                    continue;
                };
                *next += 1;
                let first = window.front();
                if first.is_some_and(|first| first.file != occurrence.file) {
                    window.clear();
                }
                if window.len() == task.n {
                    window.pop_front();
                }
                window.push_back(occurrence);
                if window.len() < task.n {
                    continue;
                }
                let words: Vec<u32> = window.iter().map(|word| word.word).collect();
                let first = window[0];
                let row = NgramRow {
                    words: &words,
                    file: first.file,
                    times: 1,
                    position: first.position,
                    offset: Some(first.offset),
                };
                if task.passes(&words)? && !take(row)? {
                    return Ok(());
                }
            },
        }
        Ok(())
    }

    /// Rows of a table that are all wanted, copied as they lie there; none if these are other rows.
    fn whole_rows(&mut self, rows_max: usize) -> Option<NgramRowNumbers> {
        let NgramsScan { task, rows, .. } = self;
        if !task.ngram_filters.is_empty() || !task.place_filters.is_empty() {
            return None;
        }
        let mut taken = NgramRowNumbers::default();
        match rows {
            Some(NgramRows::Table { part, next, parts }) => {
                // Parts may be smaller than a batch.
                while taken.times.len() < rows_max {
                    let rows = rows_max - taken.times.len();
                    let these = *next..part.len().min(next.saturating_add(rows));
                    *next = these.end;
                    let words = &part.words[these.start * task.n..these.end * task.n];
                    taken.words.extend_from_slice(words);
                    part.counts.append_to(these, &mut taken.times);
                    if *next == part.len() {
                        let Some(following) = parts.next() else {
                            break;
                        };
                        (*part, *next) = (following.into_counted(), 0);
                    }
                }
            }
            Some(NgramRows::FileTable {
                part,
                ngram,
                entry,
                parts,
            }) => {
                while taken.times.len() < rows_max {
                    if *ngram == part.files.rows() {
                        let Some(following) = parts.next() else {
                            break;
                        };
                        (*part, *ngram) = (following.into_plain(), 0);
                        continue;
                    }
                    let words = &part.words[*ngram * task.n..(*ngram + 1) * task.n];
                    let row = part.files.row(*ngram);
                    *entry += taken.push_files(words, &row[*entry..], rows_max);
                    if *entry == row.len() {
                        (*ngram, *entry) = (*ngram + 1, 0);
                    }
                }
            }
            Some(NgramRows::OrderedFileTable { table, next, entry }) => {
                while taken.times.len() < rows_max
                    && let Some((words, row)) = table.ngram(*next, task.n)
                {
                    *entry += taken.push_files(words, &row[*entry..], rows_max);
                    if *entry == row.len() {
                        (*next, *entry) = (*next + 1, 0);
                    }
                }
            }
            _ => return None,
        }
        Some(taken)
    }
}

impl NgramRowNumbers {
    /// Appends rows of an n-gram with its first files, as many as there is room for; says how many.
    fn push_files(&mut self, words: &[u32], files: &[(u32, u32)], rows_max: usize) -> usize {
        let files = &files[..files.len().min(rows_max - self.times.len())];
        self.words.extend(files.iter().flat_map(|_| words));
        self.files.extend(files.iter().map(|&(file, _)| file));
        let times = files.iter().map(|&(_, times)| u64::from(times));
        self.times.extend(times);
        files.len()
    }
}

impl Operator for NgramsScan {
    fn next_batch(&mut self, rows_max: usize) -> Result<Option<Batch>> {
        self.interrupt.check()?;
        let rows_max = rows_max.max(1);
        let mut taken = self.whole_rows(rows_max).unwrap_or_default();
        if taken.times.is_empty() {
            self.rows(|task, row, interrupt| {
                task.push(row, &mut taken, interrupt)?;
                Ok(taken.times.len() < rows_max)
            })?;
        }
        Ok((!taken.times.is_empty()).then(|| self.task.batch(taken)))
    }
}

impl Scan for NgramsScan {
    fn properties(&self) -> Properties {
        let place = |wanted| {
            self.task
                .columns
                .iter()
                .position(|&column| column == wanted)
        };
        let (ngram, file) = (place(NgramsColumn::Ngram), place(NgramsColumn::File));
        let ascending = |column: Option<usize>| column.map(RowOrder::ascending);
        let order = match self.task.grain {
            Grain::Occurrence => vec![
                ascending(file),
                ascending(place(NgramsColumn::Position).or(place(NgramsColumn::Offset))),
            ],
            Grain::File => vec![ascending(file)],
            Grain::FileWord if self.task.by_text => match self.task.file_order {
                FileOrder::File => vec![ascending(ngram), ascending(file)],
                FileOrder::Count => {
                    let by_count = Some(RowOrder::MOST_OFTEN);
                    vec![ascending(ngram), by_count, ascending(file)]
                }
            },
            Grain::All | Grain::Word | Grain::FileWord => Vec::new(),
        };
        let is_unique = match self.task.grain {
            Grain::All => true,
            Grain::File => file.is_some(),
            Grain::Word => ngram.is_some(),
            Grain::FileWord => file.is_some() && ngram.is_some(),
            Grain::Occurrence => false,
        };
        Properties {
            order: order.into_iter().map_while(|order| order).collect(),
            is_unique,
        }
    }

    fn description(&self) -> Arc<dyn Describe> {
        self.task.description.clone()
    }

    fn into_operator(self: Box<Self>) -> Box<dyn Operator> {
        self
    }
}
