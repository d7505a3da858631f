//! The scan of a corpus: words with their files and places, answered on the grammar.
//!
//! Invariant: what a strategy gives equals the plain scan's rows (`reference`), merged where that was allowed. Conditions on
//! words are decided once for each word of the vocabulary, conditions on files once for each file. Nothing is decoded before
//! the first row is asked for.

use std::sync::Arc;

use zipfdb_kernels::CountTable;
use zipfdb_sql::query::WordsColumn;
use zipfdb_sql::setting::Strategy;

use super::super::context::Context;
use super::super::explain::{Answered, Describe, Description};
use super::super::ordered::sort_until;
use super::super::row::Operator;
use super::super::sort_numbers::sorted_rows;
use super::boundary::{Properties, RequestedColumn, RowOrder, Scan, ScanColumn, ScanRequest};
use super::plan::{Grain, ScanPath, ScanPlan, size_of_segments};
use super::selection::{FileSelection, WordSelection, is_text, places};
use crate::answer::cost::STREAM_COUNT_FACTOR;
use crate::answer::path::Run;
use crate::answer::{CorpusView, Occurrence, PlaceRanges, Top, WordStream};
use crate::api::snapshot::Snapshot;
use crate::batch::{Batch, BatchColumn, TextDictionary};
use crate::expression::{ColumnFilter, from_count, integer_of_count, text_or_blob};
use crate::runtime::interrupt::{Interrupt, Pace, check};
use crate::segment::SegmentView;
use crate::{Error, Result, Value};

pub(super) struct WordsScan {
    task: WordTask,
    description: Arc<Answered>,
    properties: Properties,
    rows: Option<WordRows>,
    interrupt: Interrupt,
}

/// What is asked, and how it is answered.
struct WordTask {
    snapshot: Snapshot,
    columns: Vec<WordsColumn>,
    grain: Grain,
    strategy: Strategy,
    files: FileSelection,
    /// Conditions on words: on `word` or `length`.
    word_filters: Arc<[ColumnFilter]>,
    /// Conditions on `position` or `offset`.
    place_filters: Vec<ColumnFilter>,
    /// Whether words come in order of their bytes; else in order of their numbers.
    by_bytes: bool,
    /// Whether files with a word come in order of how often it occurs there, most often first; then by name.
    by_count: bool,
    /// What the rows of some files may take, if rows of all would not fit the memory limit.
    part_bytes: Option<u64>,
    /// Which rows are used, if not all.
    top: Option<Top>,
}

/// A file and a word, by number, and how often; a number that rows do not tell is 0.
#[derive(Clone, Copy)]
struct CountedWord {
    file: u32,
    word: u32,
    times: u64,
}

/// Where rows come from, once they have begun.
enum WordRows {
    Counted(std::vec::IntoIter<CountedWord>),
    /// The words that are wanted, if some are not, of a table of all files; file and entry of it that come next.
    Table {
        table: Arc<CountTable>,
        is_wanted: Option<Vec<bool>>,
        file: usize,
        entry: usize,
    },
    /// The words of one file after the other.
    ByFile {
        files: std::vec::IntoIter<u32>,
        is_wanted: Option<Vec<bool>>,
        part_bytes: u64,
        snapshot: Snapshot,
        rows: std::vec::IntoIter<CountedWord>,
        /// What the rows were counted on, which the next ones need too.
        pinned: Vec<SegmentView>,
    },
    /// Occurrences of all words that are wanted, if some are not, in order of place.
    Stream {
        stream: WordStream,
        is_wanted: Option<Vec<bool>>,
        buffer: Vec<Occurrence>,
        next: usize,
        has_more: bool,
    },
    /// Occurrences of few words, file by file.
    Found {
        words: SoughtWords,
        files: std::vec::IntoIter<u32>,
        places: FilePlaces,
    },
}

/// Words that are looked up in files.
enum SoughtWords {
    /// By their numbers.
    Numbered(Vec<u32>),
    /// One word, of which rows tell only files and offsets.
    Unnumbered(Vec<u8>),
}

/// Where words stand in a file, in order.
#[derive(Default)]
struct FilePlaces {
    file: u32,
    /// One for each place, or one for all.
    words: Vec<u32>,
    offsets: Vec<u64>,
    /// Empty if nobody asks for them.
    positions: Vec<u64>,
    /// The place that comes next.
    next: usize,
}

impl FilePlaces {
    fn take(&mut self) -> Option<Occurrence> {
        let &offset = self.offsets.get(self.next)?;
        let word = *self.words.get(self.next).or(self.words.first())?;
        let position = self.positions.get(self.next).copied().unwrap_or_default();
        self.next += 1;
        Some(Occurrence {
            file: self.file,
            word,
            position,
            offset,
        })
    }
}

/// Rows that become a batch, by column; what is not asked for may be missing.
#[derive(Default)]
struct WordRowNumbers {
    files: Vec<u32>,
    words: Vec<u32>,
    positions: Vec<i64>,
    offsets: Vec<i64>,
    times: Vec<u64>,
}

impl WordRowNumbers {
    fn push_counted(&mut self, counted: CountedWord) {
        self.files.push(counted.file);
        self.words.push(counted.word);
        self.times.push(counted.times);
    }

    fn push_place(&mut self, occurrence: Occurrence) {
        self.files.push(occurrence.file);
        self.words.push(occurrence.word);
        self.positions.push(integer_of_count(occurrence.position));
        self.offsets.push(integer_of_count(occurrence.offset));
    }
}

/// The rows of some files take this part of the limit of memory.
const PART_SHARE: u64 = 4;

/// What EXPLAIN says of rows that are made file by file.
pub(super) const LARGE: &str = "file by file: all rows may take more than memory_limit";

/// The index of the column of words.
const WORD: usize = WordsColumn::Word as usize;

/// Occurrences that are made at a time.
const BUFFER: usize = 1024;

/// As many words are counted without the vocabulary.
const FEW_WORDS: usize = 8;

/// The value of the column of words, or of lengths, for a word.
fn word_value(word: &[u8], column: usize) -> Value {
    match column {
        WORD => text_or_blob(word.to_vec()),
        _ => from_count(word.len() as u64),
    }
}

impl WordsScan {
    pub(super) fn new(
        snapshot: Snapshot,
        request: ScanRequest,
        context: &Context,
    ) -> Result<WordsScan> {
        let columns: Vec<WordsColumn> = request.columns.iter().filter_map(column_of).collect();
        let (mut file_filters, mut word_filters, mut place_filters) = Default::default();
        for filter in request.filters {
            let filters: &mut Vec<ColumnFilter> = match WordsColumn::ALL.get(filter.column()) {
                Some(WordsColumn::File) => &mut file_filters,
                Some(WordsColumn::Word | WordsColumn::Length) => &mut word_filters,
                _ => &mut place_filters,
            };
            filters.push(filter);
        }
        let files = FileSelection::new(&snapshot, &file_filters)?;
        let asks = |wanted: &[WordsColumn]| columns.iter().any(|column| wanted.contains(column));
        let asks_file = asks(&[WordsColumn::File]);
        let asks_word = asks(&[WordsColumn::Word, WordsColumn::Length]);
        let asks_place = asks(&[WordsColumn::Position, WordsColumn::Offset]);
        let grain = if asks_place || !place_filters.is_empty() || !request.merge {
            Grain::Occurrence
        } else {
            match (asks_file, asks_word) {
                (false, false) => Grain::All,
                (true, false) => Grain::File,
                (false, true) => Grain::Word,
                (true, true) => Grain::FileWord,
            }
        };
        let word = (columns.iter()).position(|&column| column == WordsColumn::Word);
        let by_word_first = word.is_some()
            && request.wanted_order.first() == word.map(RowOrder::ascending).as_ref();
        let by_count = request.wanted_order.get(1) == Some(&RowOrder::MOST_OFTEN);
        let rows_max = match word_filters.is_empty() && place_filters.is_empty() {
            true => request.limit,
            false => None,
        };
        let places = places_of(&place_filters);
        let asked = WordScanQuestion {
            grain,
            files: &files,
            places: &places,
            few: WordSelection::values(&word_filters, WORD).map(|words| words.len() as u64),
            has_conditions: !word_filters.is_empty(),
            asks_position: asks_position(&columns, &place_filters),
            rows_max,
        };
        let view = snapshot.view();
        let forced = context.settings.strategy;
        let mut plan = ScanPlan::new(asked.paths(view)?, forced)?;
        if forced.is_none() && snapshot.knows_lookups() {
            plan.prefer(|strategy| strategy == Strategy::Parents);
        }
        let is_large = grain == Grain::FileWord
            && forced.is_none()
            && plan.strategy() != Strategy::Parents
            && pairs_bytes(view, &files) > context.settings.memory_limit();
        if is_large {
            // Each file on the grammar.
            plan.prefer(|strategy| strategy == Strategy::FileWeights);
        }
        let mut task = WordTask {
            snapshot,
            columns,
            grain,
            strategy: plan.strategy(),
            files,
            word_filters: word_filters.into(),
            place_filters,
            by_bytes: by_word_first && !is_large,
            by_count: by_count && grain == Grain::FileWord,
            part_bytes: is_large.then(|| context.settings.memory_limit() / PART_SHARE),
            top: None,
        };
        let properties = task.properties();
        task.top = request.top.filter(|_| properties.is_unique);
        // Sorting by bytes costs: only where it saves sorting above.
        task.by_bytes &= !properties.order.is_empty();
        let description = Answered::new(task.description(&plan));
        Ok(WordsScan {
            task,
            description,
            properties,
            rows: None,
            interrupt: context.interrupt.clone(),
        })
    }
}

fn column_of(requested: &RequestedColumn) -> Option<WordsColumn> {
    match requested.column {
        ScanColumn::Column(column) => WordsColumn::ALL.get(column).copied(),
        ScanColumn::Substr { .. } => None,
    }
}

/// What is asked, as far as it decides how rows are made.
struct WordScanQuestion<'a> {
    grain: Grain,
    files: &'a FileSelection,
    places: &'a PlaceRanges,
    /// How many words there are at most, if they are named.
    few: Option<u64>,
    has_conditions: bool,
    asks_position: bool,
    /// So many rows are used at most.
    rows_max: Option<u64>,
}

impl WordScanQuestion<'_> {
    /// The ways to answer.
    fn paths(&self, view: &CorpusView) -> Result<Vec<ScanPath>> {
        let (grain, files) = (self.grain, self.files);
        let (numbers, words) = (files.numbers(), files.words(view));
        let mut paths = Vec::new();
        // Look-ups come first: they are taken where others cost as much.
        if let Some(few) = self.few {
            let plan = match grain {
                // How often a word occurs is not known before its segment is decoded: Zipf's law gives the middle.
                Grain::Occurrence => {
                    let tokens = size_of_segments(view).tokens.max(1);
                    let occurrences = few * words / tokens * 8;
                    view.plan_search(few, numbers, occurrences, self.asks_position)?
                }
                _ => view.plan_file_counts(few, numbers)?,
            };
            paths.push(ScanPath::planned(Strategy::Parents, &plan));
        }
        match grain {
            Grain::All | Grain::File if !self.has_conditions => {
                paths.push(ScanPath::totals(numbers.len() as u64));
            }
            Grain::All | Grain::Word if files.is_all() => {
                let plan = match self.few {
                    Some(few) if grain == Grain::All && is_few(few) && !view.has_vocabulary() => {
                        view.plan_counts(few)?
                    }
                    _ => view.plan_totals()?,
                };
                paths.push(ScanPath::planned(Strategy::Weights, &plan));
            }
            Grain::All | Grain::File => {
                let plan = match self.few {
                    Some(few) if is_few(few) => view.plan_files_of_words()?,
                    _ => view.plan_word_set()?,
                };
                paths.push(ScanPath::planned(Strategy::LocalTables, &plan));
            }
            Grain::Word | Grain::FileWord | Grain::Occurrence => {}
        }
        if grain != Grain::Occurrence {
            let plan = match files.is_all() && numbers.len() > 1 {
                true => view.plan_file_words()?,
                false => view.plan_totals_of(numbers)?,
            };
            paths.push(ScanPath::planned(Strategy::FileWeights, &plan));
        }
        let stream = ScanPath::stream(view, files, self.places);
        paths.push(match (grain, self.rows_max) {
            // A stream stops when enough rows are out.
            (Grain::Occurrence, Some(rows)) => {
                stream.times((rows as f64 / words.max(1) as f64).min(1.0))
            }
            (Grain::Occurrence, None) => stream,
            _ => stream.times(STREAM_COUNT_FACTOR),
        });
        Ok(paths)
    }
}

/// Whether so many words are counted without the vocabulary.
fn is_few(words: u64) -> bool {
    words <= FEW_WORDS as u64
}

/// Where places lie that pass.
fn places_of(place_filters: &[ColumnFilter]) -> PlaceRanges {
    let (position, offset) = (WordsColumn::Position, WordsColumn::Offset);
    places(place_filters, position as usize, offset as usize)
}

/// Whether columns or filters of places ask for positions.
fn asks_position(columns: &[WordsColumn], place_filters: &[ColumnFilter]) -> bool {
    let filtered = place_filters.iter().map(ColumnFilter::column);
    let filtered = filtered.filter_map(|column| WordsColumn::ALL.get(column));
    (columns.iter().chain(filtered)).any(|&column| column == WordsColumn::Position)
}

/// What (file, word) rows take at most, as a table and as rows.
fn pairs_bytes(view: &CorpusView, files: &FileSelection) -> u64 {
    table_bytes(view, files)
        .saturating_add(pairs(view, files).saturating_mul(size_of::<CountedWord>() as u64))
}

/// What (file, word) pairs with their counts take as a table.
pub(super) fn table_bytes(view: &CorpusView, files: &FileSelection) -> u64 {
    pairs(view, files).saturating_mul(size_of::<(u32, u32)>() as u64)
}

/// How many (file, word) pairs there are at most: no file has more of them than words, or than there are tokens.
fn pairs(view: &CorpusView, files: &FileSelection) -> u64 {
    let tokens = size_of_segments(view).tokens;
    let words = |&file: &u32| view.files()[file as usize].words.min(tokens);
    let pairs = files.numbers().iter().map(words);
    pairs.fold(0, u64::saturating_add)
}

impl WordTask {
    fn properties(&self) -> Properties {
        let place = |wanted| self.columns.iter().position(|&column| column == wanted);
        let ascending = |column: Option<usize>| column.map(RowOrder::ascending);
        let (file, word) = (place(WordsColumn::File), place(WordsColumn::Word));
        let mut order: Vec<Option<RowOrder>> = match self.grain {
            Grain::All => Vec::new(),
            Grain::File => vec![ascending(file)],
            Grain::Word if self.by_bytes => vec![ascending(word)],
            Grain::Word => Vec::new(),
            Grain::FileWord if self.by_bytes && self.by_count => {
                vec![ascending(word), Some(RowOrder::MOST_OFTEN), ascending(file)]
            }
            Grain::FileWord if self.by_bytes => vec![ascending(word), ascending(file)],
            Grain::FileWord => vec![ascending(file)],
            Grain::Occurrence => vec![
                ascending(file),
                ascending(place(WordsColumn::Position).or(place(WordsColumn::Offset))),
            ],
        };
        // With one file, places alone are in order.
        if self.files.len() <= 1 && file.is_none() && self.grain == Grain::Occurrence {
            order.remove(0);
        }
        let order: Vec<RowOrder> = order.into_iter().map_while(|order| order).collect();
        let is_unique = match self.grain {
            Grain::All => true,
            Grain::File => file.is_some(),
            Grain::Word => word.is_some() && (self.files.is_all() || self.files.len() <= 1),
            Grain::FileWord => file.is_some() && word.is_some(),
            Grain::Occurrence => false,
        };
        Properties { order, is_unique }
    }

    fn description(&self, plan: &ScanPlan) -> Description {
        let words = match WordSelection::values(&self.word_filters, WORD) {
            Some(values) => format!("{} words", values.len()),
            None if self.word_filters.is_empty() => "all words".to_owned(),
            None => "words by a condition on the dictionary".to_owned(),
        };
        let files = match self.files.is_all() {
            true => "all files".to_owned(),
            false => format!("{} files", self.files.len()),
        };
        let mut description = Description::new("words", format!("{words} in {files}"), None);
        description.lines = plan.lines(self.part_bytes.map(|_| LARGE));
        description
    }

    /// The numbers of the words that pass, ascending; none for all.
    fn words(&self, interrupt: &Interrupt) -> Result<Option<Vec<u32>>> {
        WordSelection::numbers(
            &self.snapshot,
            &self.word_filters,
            WORD,
            word_value,
            interrupt,
        )
    }

    /// The words that pass, if they are a few that conditions name: whether the corpus has them is not known.
    fn few_words(&self) -> Result<Option<Vec<Vec<u8>>>> {
        let values = match WordSelection::values(&self.word_filters, WORD) {
            Some(values) if is_few(values.len() as u64) => values,
            _ => return Ok(None),
        };
        let mut words: Vec<Vec<u8>> = Vec::new();
        for value in values {
            let word = match value {
                Value::Text(text) => text.as_bytes(),
                Value::Blob(bytes) => bytes,
                Value::Null | Value::Integer(_) | Value::Real(_) => continue,
            };
            let mut filters = self.word_filters.iter();
            let passes = filters.try_fold(true, |passes, filter| {
                let value = word_value(word, filter.column());
                Ok::<_, Error>(passes && filter.matches(&value)?)
            })?;
            if passes {
                words.push(word.to_vec());
            }
        }
        words.sort_unstable();
        words.dedup();
        Ok(Some(words))
    }

    /// How often a few words occur, in all files together or in each, if rows tell no words and the answer needs no
    /// vocabulary.
    fn few_counts(
        &self,
        interrupt: &Interrupt,
        description: &Arc<Answered>,
    ) -> Result<Option<Vec<CountedWord>>> {
        let is_total = match (self.grain, self.strategy) {
            (Grain::All, Strategy::Weights) if !self.snapshot.view().has_vocabulary() => true,
            (Grain::All | Grain::File, Strategy::LocalTables) => false,
            _ => return Ok(None),
        };
        let Some(words) = self.few_words()? else {
            return Ok(None);
        };
        let log = description.clone();
        let row = |file: u32, times: u64| CountedWord {
            file,
            word: 0,
            times,
        };
        if is_total {
            let count = self.snapshot.ask(interrupt, move |view, stop| {
                words.iter().try_fold(0u64, |sum, word| {
                    check(stop)?;
                    Ok(sum + view.count(word, log.log.until(stop))?)
                })
            })?;
            return Ok(Some(vec![row(0, count)]));
        }
        let counts = self.snapshot.ask(interrupt, move |view, stop| {
            view.files_of_words(&words, log.log.until(stop))
        })?;
        let files = self.files.numbers().iter();
        Ok(Some(match self.grain {
            Grain::File => files
                .map(|&file| row(file, counts[file as usize]))
                .collect(),
            _ => vec![row(0, files.map(|&file| counts[file as usize]).sum())],
        }))
    }

    /// The only word whose occurrences are rows, if it is looked up, rows tell only its files and offsets, and the vocabulary is
    /// not there.
    fn unnumbered_word(&self) -> Result<Option<Vec<u8>>> {
        let places = self.place_filters.iter().map(ColumnFilter::column);
        let filtered = places.filter_map(|column| WordsColumn::ALL.get(column));
        let mut told = self.columns.iter().chain(filtered);
        let is_asked = self.grain == Grain::Occurrence
            && self.strategy == Strategy::Parents
            && told.all(|column| matches!(column, WordsColumn::File | WordsColumn::Offset))
            && !self.snapshot.view().has_vocabulary();
        let words = match is_asked {
            true => self.few_words()?.unwrap_or_default(),
            false => Vec::new(),
        };
        Ok(<[Vec<u8>; 1]>::try_from(words).ok().map(|[word]| word))
    }

    fn start(&self, interrupt: &Interrupt, description: &Arc<Answered>) -> Result<WordRows> {
        if let Some(mut counted) = self.few_counts(interrupt, description)? {
            counted.retain(|row| row.times > 0);
            if let Some(top) = self.top {
                top.retain(&mut counted, |row| row.times);
            }
            return Ok(WordRows::Counted(counted.into_iter()));
        }
        let files = self.files.numbers().to_vec();
        if let Some(word) = self.unnumbered_word()? {
            return Ok(WordRows::Found {
                words: SoughtWords::Unnumbered(word),
                files: files.into_iter(),
                places: FilePlaces::default(),
            });
        }
        let words = self.words(interrupt)?;
        if self.grain == Grain::Occurrence {
            return Ok(match (self.strategy, words) {
                (Strategy::Parents, Some(words)) => WordRows::Found {
                    words: SoughtWords::Numbered(words),
                    files: files.into_iter(),
                    places: FilePlaces::default(),
                },
                (_, words) => WordRows::Stream {
                    stream: WordStream::within(
                        self.snapshot.view().clone(),
                        files,
                        places_of(&self.place_filters),
                        0,
                    ),
                    is_wanted: self.marked(words)?,
                    buffer: Vec::with_capacity(BUFFER),
                    next: 0,
                    has_more: true,
                },
            });
        }
        if let Some(part_bytes) = self.part_bytes {
            return Ok(WordRows::ByFile {
                files: files.into_iter(),
                is_wanted: self.marked(words)?,
                part_bytes,
                snapshot: self.snapshot.clone(),
                rows: Vec::new().into_iter(),
                pinned: Vec::new(),
            });
        }
        let is_table = self.grain == Grain::FileWord && self.strategy == Strategy::FileWeights;
        if is_table
            && self.files.is_all()
            && files.len() > 1
            && !self.by_bytes
            && self.top.is_none()
        {
            return Ok(WordRows::Table {
                table: self.table(interrupt, description)?,
                is_wanted: self.marked(words)?,
                file: 0,
                entry: 0,
            });
        }
        let mut counted = match self.strategy {
            Strategy::Totals => self.stored_totals(&files),
            Strategy::Weights => self.weights(words, interrupt, description)?,
            Strategy::LocalTables => self.local_tables(&files, words, interrupt, description)?,
            Strategy::Parents => self.look_up(&files, words.unwrap_or_default(), interrupt)?,
            Strategy::FileWeights => self.file_weights(&files, words, interrupt, description)?,
            Strategy::RootStream | Strategy::Decode => {
                let mut counting = Counting::new(&self.snapshot, self.marked(words)?, interrupt)?;
                let mut counted = Vec::new();
                for file in files {
                    counted.append(&mut counting.count(file, interrupt)?);
                }
                counted
            }
        };
        let mut pace = interrupt.pace();
        match self.grain {
            Grain::All => {
                let times = counted.iter().map(|row| row.times).sum();
                counted = vec![CountedWord {
                    file: 0,
                    word: 0,
                    times,
                }];
            }
            Grain::File => sum_by(&mut counted, &mut pace, |row| row.file)?,
            // Weights have one row for each word.
            Grain::Word if self.strategy == Strategy::Weights => {}
            Grain::Word if self.properties().is_unique => {
                sum_by(&mut counted, &mut pace, |row| row.word)?;
            }
            Grain::Word | Grain::FileWord | Grain::Occurrence => {}
        }
        counted.retain(|row| row.times > 0);
        if let Some(top) = self.top {
            top.retain(&mut counted, |row| row.times);
        }
        if self.by_bytes {
            self.sort_by_bytes(&mut counted, interrupt)?;
        }
        Ok(WordRows::Counted(counted.into_iter()))
    }

    /// Sorts by the bytes of words, then by file, or how often they occur there and file.
    fn sort_by_bytes(&self, counted: &mut Vec<CountedWord>, interrupt: &Interrupt) -> Result<()> {
        let view = self.snapshot.view();
        self.snapshot.ask(interrupt, |view, _| {
            view.byte_ranks();
            Ok(())
        })?;
        let ranks = view.byte_ranks();
        let mut pace = interrupt.pace();
        // For each word that counts: what is not text is a BLOB, and comes after all texts.
        let blobs = ranks.len() as u64;
        let mut places = vec![u64::MAX; ranks.len()];
        for row in &*counted {
            pace.step()?;
            let place = &mut places[row.word as usize];
            if *place == u64::MAX {
                let rank = u64::from(ranks[row.word as usize]);
                let is_text = is_text(view.word(row.word));
                *place = if is_text { rank } else { blobs + rank };
            }
        }
        let rank = |row: &CountedWord| match self.by_count {
            true => u64::MAX - row.times,
            false => 0,
        };
        if u32::try_from(counted.len()).is_err() {
            return sort_until(counted, &mut pace, |left, right| {
                let place = |row: &CountedWord| (places[row.word as usize], rank(row), row.file);
                place(left).cmp(&place(right))
            });
        }
        let words = counted.iter().map(|row| places[row.word as usize]);
        let ranks = self.by_count.then(|| counted.iter().map(rank).collect());
        let files = counted.iter().map(|row| u64::from(row.file));
        let numbers = [Some(words.collect()), ranks, Some(files.collect())];
        let numbers = numbers.into_iter().flatten().collect();
        let order = sorted_rows(counted.len(), numbers, &mut pace)?;
        *counted = order.iter().map(|&row| counted[row as usize]).collect();
        Ok(())
    }

    /// For each word whether it is wanted; none if all are.
    fn marked(&self, words: Option<Vec<u32>>) -> Result<Option<Vec<bool>>> {
        let Some(words) = words else { return Ok(None) };
        let mut marked = vec![false; self.snapshot.view().vocabulary()?.len()];
        for word in words {
            marked[word as usize] = true;
        }
        Ok(Some(marked))
    }

    fn stored_totals(&self, files: &[u32]) -> Vec<CountedWord> {
        let all = self.snapshot.files();
        let count = |&file: &u32| CountedWord {
            file,
            word: 0,
            times: all[file as usize].words,
        };
        files.iter().map(count).collect()
    }

    fn weights(
        &self,
        words: Option<Vec<u32>>,
        interrupt: &Interrupt,
        description: &Arc<Answered>,
    ) -> Result<Vec<CountedWord>> {
        let description = description.clone();
        let totals = self.snapshot.ask(interrupt, move |view, stop| {
            view.totals(description.log.until(stop))
        })?;
        let count = |word: u32| CountedWord {
            file: 0,
            word,
            times: totals[word as usize],
        };
        Ok(match words {
            Some(words) => words.into_iter().map(count).collect(),
            // Words are numbered by u32.
            None => (0..totals.len() as u32).map(count).collect(),
        })
    }

    fn local_tables(
        &self,
        files: &[u32],
        words: Option<Vec<u32>>,
        interrupt: &Interrupt,
        description: &Arc<Answered>,
    ) -> Result<Vec<CountedWord>> {
        let Some(marked) = self.marked(words)? else {
            return Ok(self.stored_totals(files));
        };
        let description = description.clone();
        let counts = self.snapshot.ask(interrupt, move |view, stop| {
            view.word_set_counts(&marked, description.log.until(stop))
        })?;
        let count = |&file: &u32| CountedWord {
            file,
            word: 0,
            times: counts[file as usize],
        };
        Ok(files.iter().map(count).collect())
    }

    fn look_up(
        &self,
        files: &[u32],
        words: Vec<u32>,
        interrupt: &Interrupt,
    ) -> Result<Vec<CountedWord>> {
        let mut counted = Vec::new();
        for &file in files {
            interrupt.check()?;
            for &word in &words {
                let times = self.snapshot.count_at(file as usize, word, interrupt)?;
                counted.push(CountedWord { file, word, times });
            }
        }
        Ok(counted)
    }

    /// A row for each file: its words with counts.
    fn table(&self, interrupt: &Interrupt, description: &Arc<Answered>) -> Result<Arc<CountTable>> {
        let description = description.clone();
        self.snapshot.ask(interrupt, move |view, stop| {
            view.file_words(description.log.until(stop))
        })
    }

    fn file_weights(
        &self,
        files: &[u32],
        words: Option<Vec<u32>>,
        interrupt: &Interrupt,
        description: &Arc<Answered>,
    ) -> Result<Vec<CountedWord>> {
        let marked = self.marked(words)?;
        let is_wanted = |word: u32| (marked.as_ref()).is_none_or(|marked| marked[word as usize]);
        let mut counted = Vec::new();
        if self.files.is_all() && files.len() > 1 {
            let table = self.table(interrupt, description)?;
            for file in 0..table.rows() {
                interrupt.check()?;
                let row = table.row(file).iter().filter(|entry| is_wanted(entry.0));
                counted.extend(row.map(|&(word, times)| CountedWord {
                    // Files are numbered by u32.
                    file: file as u32,
                    word,
                    times: u64::from(times),
                }));
            }
            return Ok(counted);
        }
        for &file in files {
            interrupt.check()?;
            let description = description.clone();
            let row = self.snapshot.ask(interrupt, move |view, stop| {
                view.totals_of(file as usize, description.log.until(stop))
            })?;
            let row = row.into_iter().filter(|entry| is_wanted(entry.0));
            counted.extend(row.map(|(word, times)| CountedWord { file, word, times }));
        }
        Ok(counted)
    }

    fn value(&self, column: WordsColumn, occurrence: Occurrence) -> Value {
        let word = || self.snapshot.view().word(occurrence.word);
        match column {
            WordsColumn::File => {
                Value::Text(self.snapshot.files()[occurrence.file as usize].name.clone())
            }
            WordsColumn::Word => text_or_blob(word().to_vec()),
            WordsColumn::Length => from_count(word().len() as u64),
            WordsColumn::Position => from_count(occurrence.position),
            WordsColumn::Offset => from_count(occurrence.offset),
        }
    }

    /// Whether the place of an occurrence is wanted.
    fn passes(&self, occurrence: Occurrence) -> Result<bool> {
        for filter in &self.place_filters {
            let column = WordsColumn::ALL[filter.column()];
            if !filter.matches(&self.value(column, occurrence))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The batch of some rows.
    fn batch(&self, mut rows: WordRowNumbers) -> Batch {
        let view = self.snapshot.view();
        let count = rows.files.len();
        let mut columns = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            columns.push(match column {
                WordsColumn::File => BatchColumn::Words {
                    indices: std::mem::take(&mut rows.files),
                    dictionary: TextDictionary::files(view),
                },
                WordsColumn::Word => BatchColumn::Words {
                    // Lengths are told by words too.
                    indices: rows.words.clone(),
                    dictionary: TextDictionary::words(view),
                },
                WordsColumn::Length => {
                    let lengths = rows.words.iter().map(|&word| view.word(word).len());
                    BatchColumn::Integers(
                        lengths
                            .map(|length| integer_of_count(length as u64))
                            .collect(),
                    )
                }
                WordsColumn::Position => BatchColumn::Integers(std::mem::take(&mut rows.positions)),
                WordsColumn::Offset => BatchColumn::Integers(std::mem::take(&mut rows.offsets)),
            });
        }
        let times = (!rows.times.is_empty()).then_some(rows.times);
        Batch::new(columns, count, times)
    }

    /// The batch of the next places in a file, all of which are wanted; none if there are no more.
    fn places_batch(&self, places: &mut FilePlaces, rows_max: usize) -> Option<Batch> {
        let rest = places.offsets.len() - places.next;
        let these = places.next..places.next + rest.min(rows_max);
        if these.is_empty() {
            return None;
        }
        places.next = these.end;
        let integers = |numbers: &[u64]| {
            BatchColumn::Integers(numbers.iter().copied().map(integer_of_count).collect())
        };
        let words = || match &places.words[..] {
            [word] => vec![*word; these.len()],
            words => words[these.clone()].to_vec(),
        };
        let view = self.snapshot.view();
        let columns = self.columns.iter().map(|column| match column {
            WordsColumn::File => BatchColumn::Words {
                indices: vec![places.file; these.len()],
                dictionary: TextDictionary::files(view),
            },
            WordsColumn::Word => BatchColumn::Words {
                indices: words(),
                dictionary: TextDictionary::words(view),
            },
            WordsColumn::Length => {
                let lengths = words().into_iter().map(|word| view.word(word).len() as u64);
                integers(&lengths.collect::<Vec<_>>())
            }
            WordsColumn::Position => integers(&places.positions[these.clone()]),
            WordsColumn::Offset => integers(&places.offsets[these.clone()]),
        });
        Some(Batch::new(columns.collect(), these.len(), None))
    }

    fn asks_position(&self) -> bool {
        asks_position(&self.columns, &self.place_filters)
    }

    /// The offsets of a word, told by its number, in a file.
    fn offsets(&self, file: u32, word: u32, interrupt: &Interrupt) -> Result<Vec<u64>> {
        let word = self.snapshot.view().word(word);
        (self.snapshot).offsets_at(file as usize, word, interrupt)
    }

    /// The occurrences of some words in a file, in order of place.
    fn find(&self, file: u32, words: &SoughtWords, interrupt: &Interrupt) -> Result<FilePlaces> {
        match words {
            SoughtWords::Numbered(words) => self.find_numbered(file, words, interrupt),
            SoughtWords::Unnumbered(word) => Ok(FilePlaces {
                file,
                words: vec![0],
                offsets: (self.snapshot).offsets_at(file as usize, word, interrupt)?,
                ..FilePlaces::default()
            }),
        }
    }

    /// As `find`, of words that are told by their numbers.
    fn find_numbered(&self, file: u32, words: &[u32], interrupt: &Interrupt) -> Result<FilePlaces> {
        let asks_position = self.asks_position();
        let positions_of = |word: u32| match asks_position {
            true => (self.snapshot).positions_at(file as usize, word, interrupt),
            false => Ok(Vec::new()),
        };
        if let [word] = *words {
            return Ok(FilePlaces {
                file,
                offsets: self.offsets(file, word, interrupt)?,
                positions: positions_of(word)?,
                words: vec![word],
                next: 0,
            });
        }
        let mut found = Vec::new();
        for &word in words {
            let offsets = self.offsets(file, word, interrupt)?;
            let positions = positions_of(word)?;
            let position_of = |index: usize| positions.get(index).copied().unwrap_or_default();
            let places = offsets.into_iter().enumerate();
            found.extend(places.map(|(index, offset)| (offset, position_of(index), word)));
        }
        sort_until(&mut found, &mut interrupt.pace(), |left, right| {
            left.0.cmp(&right.0)
        })?;
        let mut places = FilePlaces {
            file,
            ..FilePlaces::default()
        };
        for (offset, position, word) in found {
            places.offsets.push(offset);
            places.positions.push(position);
            places.words.push(word);
        }
        Ok(places)
    }
}

/// Counts the words of files by expanding them.
struct Counting {
    snapshot: Snapshot,
    /// For each word whether it is wanted; none if all are.
    marked: Option<Vec<bool>>,
    /// By word; zeros between files.
    counts: Vec<u64>,
}

impl Counting {
    fn new(
        snapshot: &Snapshot,
        marked: Option<Vec<bool>>,
        interrupt: &Interrupt,
    ) -> Result<Counting> {
        snapshot.prepare_words(interrupt)?;
        Ok(Counting {
            snapshot: snapshot.clone(),
            marked,
            counts: vec![0; snapshot.view().vocabulary()?.len()],
        })
    }

    /// The words of a file, ascending.
    fn count(&mut self, file: u32, interrupt: &Interrupt) -> Result<Vec<CountedWord>> {
        let mut stream = WordStream::new(self.snapshot.view().clone(), vec![file]);
        let (mut met, mut buffer, mut has_more) = (Vec::new(), Vec::new(), true);
        while has_more {
            interrupt.check()?;
            buffer.clear();
            has_more = stream.fill_until(&mut buffer, BUFFER, &self.snapshot, interrupt)?;
            for occurrence in &buffer {
                let word = occurrence.word as usize;
                if self.marked.as_ref().is_none_or(|marked| marked[word]) {
                    if self.counts[word] == 0 {
                        met.push(occurrence.word);
                    }
                    self.counts[word] += 1;
                }
            }
        }
        sort_until(&mut met, &mut interrupt.pace(), u32::cmp)?;
        let counts = &mut self.counts;
        let counted = met.into_iter().map(|word| CountedWord {
            file,
            word,
            times: std::mem::take(&mut counts[word as usize]),
        });
        Ok(counted.collect())
    }
}

/// The rows of the next files, as many as take about so many bytes, and what they were counted on; none if there are no more.
fn counted_part(
    snapshot: &Snapshot,
    files: &mut std::vec::IntoIter<u32>,
    bytes: u64,
    interrupt: &Interrupt,
) -> Result<Option<(Vec<CountedWord>, Vec<SegmentView>)>> {
    let mut part = Vec::new();
    let mut held = 0u64;
    while held < bytes
        && let Some(file) = files.next()
    {
        let words = snapshot.files()[file as usize].words;
        // The counts of a file, and its rows.
        let row = size_of::<(u32, u64)>() + size_of::<CountedWord>();
        held = held.saturating_add(words.saturating_mul(row as u64));
        part.push(file);
    }
    if part.is_empty() {
        return Ok(None);
    }
    let counted = snapshot.ask(interrupt, move |view, stop| {
        let (totals, pinned) = view.totals_of_each(&part, Run::until(stop))?;
        let rows = part.into_iter().zip(totals).flat_map(|(file, words)| {
            let words = words.into_iter();
            words.map(move |(word, times)| CountedWord { file, word, times })
        });
        Ok((rows.collect(), pinned))
    })?;
    Ok(Some(counted))
}

/// Adds up the rows of equal keys.
fn sum_by(
    rows: &mut Vec<CountedWord>,
    pace: &mut Pace,
    key: impl Fn(&CountedWord) -> u32,
) -> Result<()> {
    sort_until(rows, pace, |left, right| key(left).cmp(&key(right)))?;
    rows.dedup_by(|next, kept| {
        let same = key(next) == key(kept);
        if same {
            kept.times += next.times;
        }
        same
    });
    Ok(())
}

impl WordsScan {
    /// What is asked, where rows come from, and who ends it.
    fn begin(&mut self) -> Result<(&WordTask, &mut WordRows, &Interrupt)> {
        let rows = match &mut self.rows {
            Some(rows) => rows,
            none => none.insert(self.task.start(&self.interrupt, &self.description)?),
        };
        Ok((&self.task, rows, &self.interrupt))
    }
}

impl WordRows {
    /// The next count, if these are counts.
    fn counted(&mut self, interrupt: &Interrupt) -> Result<Option<CountedWord>> {
        loop {
            match self {
                WordRows::Counted(rows) => return Ok(rows.next()),
                WordRows::Table {
                    table,
                    is_wanted,
                    file,
                    entry,
                } => {
                    if *file == table.rows() {
                        return Ok(None);
                    }
                    let Some(&(word, times)) = table.row(*file).get(*entry) else {
                        (*file, *entry) = (*file + 1, 0);
                        interrupt.check()?;
                        continue;
                    };
                    *entry += 1;
                    let is_wanted = (is_wanted.as_ref()).is_none_or(|wanted| wanted[word as usize]);
                    if is_wanted && times > 0 {
                        return Ok(Some(CountedWord {
                            // Files are numbered by u32.
                            file: *file as u32,
                            word,
                            times: u64::from(times),
                        }));
                    }
                }
                WordRows::ByFile {
                    files,
                    is_wanted,
                    part_bytes,
                    snapshot,
                    rows,
                    pinned,
                } => {
                    for counted in rows.by_ref() {
                        let word = counted.word as usize;
                        if is_wanted.as_ref().is_none_or(|wanted| wanted[word]) {
                            return Ok(Some(counted));
                        }
                    }
                    let part = counted_part(snapshot, files, *part_bytes, interrupt)?;
                    let Some((part, used)) = part else {
                        return Ok(None);
                    };
                    (*rows, *pinned) = (part.into_iter(), used);
                }
                WordRows::Stream { .. } | WordRows::Found { .. } => return Ok(None),
            }
        }
    }

    /// The next occurrence, if these are occurrences, whether or not its place is wanted.
    fn occurrence(&mut self, task: &WordTask, interrupt: &Interrupt) -> Result<Option<Occurrence>> {
        loop {
            match self {
                WordRows::Stream {
                    stream,
                    is_wanted,
                    buffer,
                    next,
                    has_more,
                } => {
                    while let Some(&occurrence) = buffer.get(*next) {
                        *next += 1;
                        let wanted = (is_wanted.as_ref())
                            .is_none_or(|wanted| wanted[occurrence.word as usize]);
                        if wanted {
                            return Ok(Some(occurrence));
                        }
                    }
                    if !*has_more {
                        return Ok(None);
                    }
                    interrupt.check()?;
                    buffer.clear();
                    *next = 0;
                    *has_more = stream.fill_until(buffer, BUFFER, &task.snapshot, interrupt)?;
                }
                WordRows::Found {
                    words,
                    files,
                    places,
                } => {
                    if let Some(occurrence) = places.take() {
                        return Ok(Some(occurrence));
                    }
                    let Some(file) = files.next() else {
                        return Ok(None);
                    };
                    interrupt.check()?;
                    *places = task.find(file, words, interrupt)?;
                }
                WordRows::Counted(_) | WordRows::Table { .. } | WordRows::ByFile { .. } => {
                    return Ok(None);
                }
            }
        }
    }
}

impl Operator for WordsScan {
    fn next_batch(&mut self, rows_max: usize) -> Result<Option<Batch>> {
        self.interrupt.check()?;
        let (task, rows, interrupt) = self.begin()?;
        if let WordRows::Found { places, .. } = rows
            && task.place_filters.is_empty()
            && let Some(batch) = task.places_batch(places, rows_max.max(1))
        {
            return Ok(Some(batch));
        }
        let mut taken = WordRowNumbers::default();
        while taken.files.len() < rows_max.max(1) {
            if task.grain != Grain::Occurrence {
                match rows.counted(interrupt)? {
                    Some(counted) => taken.push_counted(counted),
                    None => break,
                }
            } else {
                match rows.occurrence(task, interrupt)? {
                    Some(occurrence) if task.passes(occurrence)? => taken.push_place(occurrence),
                    Some(_) => {}
                    None => break,
                }
            }
        }
        Ok((!taken.files.is_empty()).then(|| task.batch(taken)))
    }
}

impl Scan for WordsScan {
    fn properties(&self) -> Properties {
        self.properties.clone()
    }

    fn description(&self) -> Arc<dyn Describe> {
        self.description.clone()
    }

    fn into_operator(self: Box<Self>) -> Box<dyn Operator> {
        self
    }
}
