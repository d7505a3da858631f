//! Counts of single words: in the corpus, and in a file, one by one or many at once.
//!
//! Invariant: counts are those of the current texts. Each segment looks a word up by the cheapest of the access paths below;
//! counts of segments and of the parts of a file add up, and edits add their changes. Devices answer a batch if they take all of
//! it.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use rayon::prelude::*;
use zipfdb_kernels::gpu::{DeviceQueries, DeviceStructures, Gpu, WordQuery};
use zipfdb_kernels::{WordTerminals, count_in_file};
use zipfdb_storage::IndexKind;

use super::access_path::{AccessPath, PartitionOperation, PathName, Run, answer};
use super::corpus_view::{CorpusView, TASK_QUESTIONS_MIN};
use super::device_partitions::in_file;
use super::file_index::Part;
use super::placement::PlacementPlan;
use super::stored_view::{SegmentViews, StoredView};
use super::word_counts::FileTotals;
use crate::Result;
use crate::overlay::changed_count::{changed, word_subject};
use crate::runtime::device::OnDevice;
use crate::runtime::interrupt::check;
use crate::segment::cost::{
    BLOCKS_COST, BLOCKS_TOTAL_COST, COUNT_ALL_SYMBOL_COST, COUNT_TABLE_LOAD_COST, POSTINGS_COST,
    TABLE_LOOKUP_COST,
};
use crate::segment::{LiveSegment, SegmentView, StructureKind, WordFiles};

/// The count of a word in a segment.
pub(crate) struct WordCount;

impl PartitionOperation for WordCount {
    type Question<'a> = &'a [u8];
    type Answer = u64;

    const PATHS: &'static [AccessPath<WordCount>] = &[
        AccessPath {
            name: PathName::WordTotals,
            needs: &[
                StructureKind::WordIndex,
                StructureKind::Words,
                StructureKind::Totals,
            ],
            cost: |_, _| Some(TABLE_LOOKUP_COST),
            run: |word, segment, _| segment.count_number(segment.word_number(word)?),
        },
        AccessPath {
            name: PathName::TextScan,
            needs: &[],
            cost: |_, segment| segment.text_scan_cost(),
            run: |word, segment, run| match segment.count_in_text(word, run.stop)? {
                Some(counts) => Ok(counts.iter().sum()),
                None => segment.count_number(segment.word_number(word)?),
            },
        },
        AccessPath {
            name: PathName::WordBlocks,
            needs: &[],
            // The other costs are those of decoding on all threads.
            cost: |_, segment| {
                let cost = segment.blocks_cost(BLOCKS_COST + BLOCKS_TOTAL_COST);
                segment.asks_blocks().then(|| cost / segment.thread_count())
            },
            run: |word, segment, _| match segment.count_in_blocks(word)? {
                Some(count) => Ok(count),
                None => segment.count_number(segment.word_number(word)?),
            },
        },
    ];
}

/// A word in a file of a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WordInPart {
    pub(crate) file: u32,
    pub(crate) word: WordTerminals,
}

/// The count of a word, which the segment has, in a file.
pub(crate) struct FileWordCount;

impl PartitionOperation for FileWordCount {
    type Question<'a> = WordInPart;
    type Answer = u64;

    const PATHS: &'static [AccessPath<FileWordCount>] = &[
        AccessPath {
            name: PathName::WordTotals,
            needs: &[StructureKind::Words, StructureKind::Totals],
            cost: |_, segment| {
                let is_only = segment.files().is_ok_and(|files| files.len() == 1);
                is_only.then_some(TABLE_LOOKUP_COST)
            },
            run: |question, segment, _| segment.count_number(segment.number_of(question.word)?),
        },
        AccessPath {
            name: PathName::CountTable,
            needs: &[],
            cost: |_, segment| match segment.pinned::<WordFiles>() {
                Some(_) => Some(TABLE_LOOKUP_COST),
                None => Some(f64::INFINITY),
            },
            run: |question, segment, run| {
                let table = segment.pin_until::<WordFiles>(run.stop)?;
                segment.count_in_table(table, *question)
            },
        },
        AccessPath {
            name: PathName::Postings,
            needs: &[],
            cost: |_, segment| {
                segment
                    .has_index(IndexKind::Postings)
                    .then_some(POSTINGS_COST)
            },
            run: |question, segment, run| {
                let begin = Instant::now();
                let Some(list) = segment.postings(question.word.first)? else {
                    // The index is damaged, and given up.
                    return answer::<FileWordCount>(question, segment, run.unforced());
                };
                let found = list.binary_search_by_key(&question.file, |&(file, _)| file);
                segment.spend_on_counts(begin, run.stop)?;
                Ok(found.map_or(0, |at| u64::from(list[at].1)))
            },
        },
        AccessPath {
            name: PathName::Decode,
            needs: &[StructureKind::Bodies],
            cost: |question, segment| segment.alone_cost(question.file, StructureKind::Grammar),
            run: |question, segment, run| {
                let begin = Instant::now();
                let alone = segment.ask_alone(question.file, StructureKind::Grammar, |alone| {
                    alone.count(question.word)
                })?;
                if !segment.has_room(segment.lookup_bytes()) {
                    segment.spend_on_counts(begin, run.stop)?;
                }
                alone.map_or_else(|| segment.count_by_parents(*question), Ok)
            },
        },
        AccessPath {
            name: PathName::Parents,
            needs: &[StructureKind::Signatures],
            cost: |question, segment| Some(segment.by_parents_cost(Some(question.file))),
            run: |question, segment, _| segment.count_by_parents(*question),
        },
    ];
}

impl SegmentView {
    /// The count of the word with a number in the segment; 0 without a number.
    fn count_number(&self, number: Option<u32>) -> Result<u64> {
        match number {
            None => Ok(0),
            Some(number) => Ok(u64::from(self.totals()?[number as usize])),
        }
    }

    /// The count of a word in a file, by the table of all words and files.
    fn count_in_table(&self, table: &WordFiles, question: WordInPart) -> Result<u64> {
        let number = self.number_of(question.word)?;
        let files = number.map_or(&[][..], |number| table.0.row(number as usize));
        let found = files.binary_search_by_key(&question.file, |&(file, _)| file);
        Ok(found.map_or(0, |at| u64::from(files[at].1)))
    }

    /// The counts of words in a file, by the table of all words and files.
    fn counts_in_table(&self, lookups: &[Lookup], run: Run<'_>) -> Result<Vec<u64>> {
        let lookups = lookups.iter().map(Lookup::in_part);
        if self.files()?.len() == 1 && !self.has(StructureKind::WordFiles) {
            let count = |question: WordInPart| self.count_number(self.number_of(question.word)?);
            return lookups.map(count).collect();
        }
        let table = self.pin_until::<WordFiles>(run.stop)?;
        let count = |question| self.count_in_table(table, question);
        lookups.map(count).collect()
    }

    /// Counts a word in a file of the grammar; builds a table of all words and files once look-ups have taken as long.
    fn count_by_parents(&self, question: WordInPart) -> Result<u64> {
        let WordInPart { file, word } = question;
        let begin = Instant::now();
        let view = self.view()?;
        let tokens = self.about_tokens(view, file)?;
        let parents = self.parents(view, view.root_range(file), tokens)?;
        let signatures = self.signatures()?;
        let terminals = word.first..word.end;
        let count = count_in_file(view, parents, signatures, terminals, file, tokens);
        self.spend_on_counts(begin, &AtomicBool::new(false))?;
        Ok(count)
    }

    /// Adds the time of look-ups since `begin` to the budget of a table of all words and files; builds the table if it was due
    /// before. So a single long query does not build what only later ones use. If the cache has no room for the table beside what
    /// look-ups need, it is written to a temporary index.
    pub(super) fn spend_on_counts(&self, begin: Instant, stop: &AtomicBool) -> Result<()> {
        let budget = &self.budgets.counts;
        let (price, bytes) = self.count_table_price();
        let was_due = budget.is_due(price);
        budget.add_since(begin);
        let is_table_best = self.is_packed() || self.has_room(self.lookup_bytes());
        if was_due && is_table_best && self.has_room(bytes) {
            self.pin_if_due::<WordFiles>(budget, price, bytes, stop)?;
        } else if was_due && self.pinned::<WordFiles>().is_none() {
            self.write_index_if_due(IndexKind::Postings, budget, price, bytes, stop)?;
        }
        Ok(())
    }

    /// Adds the time of look-ups as `spend_on_counts` does, but builds no table. Returns whether one is due.
    pub(super) fn spend_at_hand(&self, begin: Instant) -> bool {
        let budget = &self.budgets.counts;
        budget.add_since(begin);
        let (price, bytes) = self.count_table_price();
        budget.is_due(price) && self.has_room(bytes)
    }

    /// The price of a table of all words and files, in nanoseconds and bytes.
    fn count_table_price(&self) -> (u64, u64) {
        let (symbols, _) = self.size();
        let cost = if self.has_index(IndexKind::Postings) {
            COUNT_TABLE_LOAD_COST
        } else {
            COUNT_ALL_SYMBOL_COST
        };
        // The number of distinct words of a file grows about with the square root of its length (Heaps' law). The sum over files
        // is largest where all files have the same length, so this is the most that the law gives. The price is below 2^39.
        let (words, files) = self.text_size();
        let of_file = DISTINCT_FACTOR * (words as f64 / files.max(1) as f64).sqrt();
        let entries = symbols.min((files as f64 * of_file) as u64);
        let bytes = entries * size_of::<(u32, u32)>() as u64;
        ((symbols as f64 * cost) as u64, bytes)
    }

    /// The count of a word in a file.
    pub(super) fn count_in_file(&self, question: WordInPart, run: Run<'_>) -> Result<u64> {
        if question.word.first == question.word.end {
            Ok(0)
        } else {
            answer::<FileWordCount>(&question, self, run)
        }
    }

    /// Builds the structures for counts in files.
    fn prepare_counts(&self) -> Result<()> {
        self.signatures().map(drop)
    }

    /// The count of each word in its file; the segment has all of the words, and files ascend.
    pub(super) fn count_on(
        &self,
        device: &OnDevice<'_>,
        queries: &[WordQuery],
    ) -> Result<Vec<u64>> {
        let of_file = |query: &WordQuery| query.file;
        let ask = |gpu: &Gpu, on: &DeviceStructures, queries: &[WordQuery]| {
            let queries = DeviceQueries::upload(gpu, queries)?;
            Ok(gpu.download(&on.count(gpu, &queries)?)?)
        };
        let add = |sum: &mut u64, count, _| *sum += count;
        self.look_up_on(device, queries, of_file, in_file, ask, add)
    }
}

impl LiveSegment {
    /// Whether a table in memory has the counts of words in files.
    fn can_count_now(&self) -> bool {
        let is_single = || self.files().is_ok_and(|files| files.len() == 1);
        let has_totals = || self.counted.get().is_some() && self.has(StructureKind::Totals);
        // Both need the numbers of words.
        self.has(StructureKind::Words)
            && (self.has(StructureKind::WordFiles) || (has_totals() && is_single()))
    }
}

/// The number of counts of one file in a batch from which on all words of the file are counted at once. Fewer are counted one by
/// one; a table in memory answers each count itself.
const COUNTS_AT_ONCE_MIN: usize = 8;

/// Estimated distinct words of a file, as a multiple of the square root of its words.
const DISTINCT_FACTOR: f64 = 16.0;

/// Questions of a batch that one task looks up.
const TASK_LOOKUPS: usize = 128;

/// A word to look for in a part of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lookup {
    pub(super) part: Part,
    pub(super) word: WordTerminals,
    /// The question of the batch that it belongs to.
    pub(super) question: usize,
}

impl Lookup {
    /// The segment of the part.
    pub(super) fn segment(&self) -> usize {
        self.part.segment as usize
    }

    /// The question to the segment of the part.
    pub(super) fn in_part(&self) -> WordInPart {
        WordInPart {
            file: self.part.file,
            word: self.word,
        }
    }
}

/// The counts of words in one and the same part of this segment.
fn count_in_part(segment: &SegmentView, lookups: &[Lookup], run: Run<'_>) -> Result<Vec<u64>> {
    let part = lookups[0].part;
    if run.forced.is_none() && segment.can_count_now() {
        return segment.counts_in_table(lookups, run);
    }
    if lookups.len() < COUNTS_AT_ONCE_MIN {
        return (lookups.iter())
            .map(|lookup| segment.count_in_file(lookup.in_part(), run))
            .collect();
    }
    let counts = answer::<FileTotals>(&part.file, segment, run)?;
    let count = |lookup: &Lookup| {
        let Some(word) = segment.number_of(lookup.word)? else {
            return Ok(0);
        };
        let found = counts.binary_search_by_key(&word, |&(word, _)| word);
        Ok(found.map_or(0, |at| counts[at].1))
    };
    lookups.iter().map(count).collect()
}

/// The answers of a segment to look-ups of a batch.
type Ask<A> = fn(&SegmentView, &OnDevice<'_>, &[WordQuery]) -> Result<Vec<A>>;

impl StoredView {
    fn count(&self, word: &[u8], run: Run<'_>) -> Result<u64> {
        let segments = self.segments().par_iter();
        let counts =
            segments.map(|segment| answer::<WordCount>(&word, &SegmentView::of(segment), run));
        counts.try_reduce(|| 0, |left, right| Ok(left + right))
    }

    fn count_in(&self, file: usize, word: &[u8], run: Run<'_>) -> Result<u64> {
        let parts = self.index.parts(file).iter();
        let counts = parts.map(|part| {
            let segment = self.segment(part);
            let word = segment.find_one_word(word)?;
            segment.count_in_file(
                WordInPart {
                    file: part.file,
                    word,
                },
                run,
            )
        });
        counts.sum()
    }

    /// The count of each word. Works on groups of segments that the cache has room for together.
    fn count_words<W: AsRef<[u8]> + Sync>(&self, words: &[W], run: Run<'_>) -> Result<Vec<u64>> {
        let mut counts = vec![0; words.len()];
        for group in self.groups_in_room(LiveSegment::dictionary_bytes) {
            check(run.stop)?;
            let segments: Vec<SegmentView> = group.iter().map(SegmentView::of).collect();
            for segment in &segments {
                segment.totals()?;
            }
            let counted = words.par_iter().zip(&mut counts);
            counted
                .with_min_len(TASK_QUESTIONS_MIN)
                .try_for_each(|(word, count)| {
                    for segment in &segments {
                        *count += answer::<WordCount>(&word.as_ref(), segment, run)?;
                    }
                    Result::Ok(())
                })?;
        }
        Ok(counts)
    }

    /// The count of each word in its stored file.
    fn count_each(&self, questions: &[(usize, &[u8])], run: Run<'_>) -> Result<Vec<u64>> {
        self.count_lookups(&self.look_up(questions)?, questions.len(), run)
    }

    /// The counts of `questions` questions from their look-ups.
    ///
    /// # Errors
    /// If a segment is damaged, a device fails, or the run must end.
    pub(crate) fn count_lookups(
        &self,
        lookups: &[Lookup],
        questions: usize,
        run: Run<'_>,
    ) -> Result<Vec<u64>> {
        let mut counts = vec![0; questions];
        if let Some(found) =
            self.on_devices::<FileWordCount, _>(lookups, run, SegmentView::count_on)?
        {
            for (lookup, count) in found {
                counts[lookup.question] += count;
            }
            return Ok(counts);
        }
        let same_part = |left: &Lookup, right: &Lookup| left.part == right.part;
        for lookups in self.in_room(lookups, Lookup::segment) {
            let segments = self.prepare(lookups, SegmentView::prepare_counts)?;
            let tasks = lookups.chunk_by(same_part).flat_map(|lookups| {
                // Otherwise all words of a part are counted at once.
                let size = if segments.of(&lookups[0].part).can_count_now() {
                    TASK_LOOKUPS
                } else {
                    lookups.len()
                };
                lookups.chunks(size)
            });
            let tasks: Vec<&[Lookup]> = tasks.collect();
            let found: Vec<Vec<u64>> = (tasks.par_iter())
                .map(|lookups| {
                    check(run.stop)?;
                    count_in_part(segments.of(&lookups[0].part), lookups, run)
                })
                .collect::<Result<_>>()?;
            for (lookup, count) in lookups.iter().zip(found.iter().flatten()) {
                counts[lookup.question] += count;
            }
        }
        Ok(counts)
    }

    /// Finds the parts of files, and words in them; sorted by segment and file. Words are looked up in groups of segments that
    /// the cache has room for together.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub(crate) fn look_up(&self, questions: &[(usize, &[u8])]) -> Result<Vec<Lookup>> {
        let mut parts: Vec<(Part, usize)> = (questions.par_iter().enumerate())
            .flat_map_iter(|(question, &(file, _))| {
                let parts = self.index.parts(file).iter();
                parts.map(move |&part| (part, question))
            })
            .collect();
        parts.par_sort_unstable_by_key(|(part, question)| (part.segment, part.file, *question));
        let mut lookups = Vec::with_capacity(parts.len());
        for parts in self.in_room(&parts, |(part, _)| part.segment as usize) {
            let segments = SegmentViews::new(self);
            let tasks = parts.par_iter().with_min_len(TASK_LOOKUPS);
            let of_group = tasks.map(|&(part, question)| {
                let word = segments.of(&part).find_word(questions[question].1)?;
                Ok(Lookup {
                    part,
                    word,
                    question,
                })
            });
            lookups.extend(of_group.collect::<Result<Vec<_>>>()?);
        }
        Ok(lookups)
    }

    /// Builds what the segments of these look-ups need, before their tasks start, so that each structure is built once.
    pub(super) fn prepare(
        &self,
        lookups: &[Lookup],
        prepare: impl Fn(&SegmentView) -> Result<()>,
    ) -> Result<SegmentViews<'_>> {
        let segments = SegmentViews::new(self);
        let same_segment = |left: &Lookup, right: &Lookup| left.part.segment == right.part.segment;
        for lookups in lookups.chunk_by(same_segment) {
            prepare(segments.of(&lookups[0].part))?;
        }
        Ok(segments)
    }

    /// Answers look-ups, sorted by segment, if devices do so for all segments; look-ups of words that a segment does not have are
    /// left out. None if the CPU answers, by operation `O`.
    pub(super) fn on_devices<'a, O, A: Send>(
        &self,
        lookups: &'a [Lookup],
        run: Run<'_>,
        ask: Ask<A>,
    ) -> Result<Option<Vec<(&'a Lookup, A)>>>
    where
        O: for<'q> PartitionOperation<Question<'q> = WordInPart>,
    {
        let any = WordInPart {
            file: 0,
            word: ANY_WORD,
        };
        let Some(places) = self.lookup_places_of::<O>(lookups.len() as u64, &any) else {
            return Ok(None);
        };
        let of_segment = |index: usize| -> Vec<&Lookup> {
            let from = lookups.partition_point(|lookup| (lookup.part.segment as usize) < index);
            let to = lookups.partition_point(|lookup| lookup.part.segment as usize <= index);
            let known = lookups[from..to].iter();
            known
                .filter(|lookup| lookup.word.first < lookup.word.end)
                .collect()
        };
        let asked: Vec<Vec<&Lookup>> = (0..self.segments().len()).map(of_segment).collect();
        let found = self.spread(
            places.spread(),
            run,
            |index| !asked[index].is_empty(),
            |_| Ok(None),
            |index, device| {
                let lookups = &asked[index];
                if lookups.is_empty() {
                    return Ok(Some(Vec::new()));
                }
                let queries = lookups.iter().map(|lookup| WordQuery {
                    word: lookup.word,
                    file: lookup.part.file,
                });
                let queries: Vec<WordQuery> = queries.collect();
                let found = ask(&self.segment_at(index), device, &queries)?;
                Ok(Some(lookups.iter().copied().zip(found).collect::<Vec<_>>()))
            },
        )?;
        // If one device fails, the CPU answers all.
        let found: Option<Vec<_>> = found.into_iter().collect();
        Ok(found.map(|found| found.into_iter().flatten().collect()))
    }
}

/// A placeholder for any word in estimates.
pub(super) const ANY_WORD: WordTerminals = WordTerminals {
    first: 0,
    spaced: 0,
    end: 0,
};

impl CorpusView {
    /// Plans counts of `words` words in the corpus.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub(crate) fn plan_counts(&self, words: u64) -> Result<PlacementPlan<'_>> {
        let all = 0..self.segments().len();
        let questions = all.map(|index| (index, words, &b""[..]));
        self.stored().plan_questions::<WordCount>(questions, None)
    }

    /// Plans counts of `words` words in each of some files.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub(crate) fn plan_file_counts(&self, words: u64, files: &[u32]) -> Result<PlacementPlan<'_>> {
        let partitions = self.partitions_of(files).into_iter();
        let word = ANY_WORD;
        let questions = partitions
            .map(|(index, count, file)| (index, count * words, WordInPart { file, word }));
        (self.stored()).plan_lookups::<FileWordCount>(questions)
    }

    /// The count of a word.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub(crate) fn count(&self, word: &[u8], run: Run<'_>) -> Result<u64> {
        let count = self.stored().count(word, run)?;
        let Some(pending) = self.pending() else {
            return Ok(count);
        };
        let Some(number) = pending.find_word(word)? else {
            return Ok(count);
        };
        let changes = pending.changes()?;
        let found = changes.binary_search_by_key(&number, |&(word, _)| word);
        let change = found.map_or(0, |at| changes[at].1);
        changed(count, change, || word_subject(word))
    }

    /// The sum of the counts of some words, on this thread, if structures in memory answer it; none if a structure would have to
    /// be built first, or the pool may be faster.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub(crate) fn count_at_hand<W: AsRef<[u8]>>(&self, words: &[W]) -> Result<Option<u64>> {
        /// The number of look-ups that take about as long as waking the pool.
        const LOOKUPS_MAX: usize = 64;
        let segments = self.segments().len();
        if self.pending().is_some() || segments.saturating_mul(words.len()) > LOOKUPS_MAX {
            return Ok(None);
        }
        let mut count = 0;
        for index in 0..segments {
            let segment = self.stored().segment_at(index);
            let needed = [StructureKind::Words, StructureKind::Totals];
            if !segment.pin_words_at_hand() || !segment.pin_at_hand(&needed) {
                return Ok(None);
            }
            for word in words {
                count += segment.count_number(segment.word_number(word.as_ref())?)?;
            }
        }
        Ok(Some(count))
    }

    /// The count of each of some words.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub(crate) fn count_words<W: AsRef<[u8]> + Sync>(
        &self,
        words: &[W],
        run: Run<'_>,
    ) -> Result<Vec<u64>> {
        let Some(pending) = self.pending() else {
            return self.stored().count_words(words, run);
        };
        pending.changes()?;
        let words = words.par_iter();
        words.map(|word| self.count(word.as_ref(), run)).collect()
    }

    /// The count of a word in a file.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub(crate) fn count_in(&self, file: usize, word: &[u8], run: Run<'_>) -> Result<u64> {
        let (stored, edit) = self.resolve(file);
        let count = match stored {
            None => 0,
            Some(stored) => self.stored().count_in(stored, word, run)?,
        };
        match edit {
            None => Ok(count),
            Some(edit) => changed(count, edit.text.change_of(word), || word_subject(word)),
        }
    }

    /// Adds the time since `begin` of counting a few words in a file by counting all of its words; builds a table of words and
    /// files where that is due.
    ///
    /// # Errors
    /// If building it fails.
    pub(crate) fn spend_on_counts(
        &self,
        file: usize,
        begin: Instant,
        stop: &AtomicBool,
    ) -> Result<()> {
        let (Some(stored), _) = self.resolve(file) else {
            return Ok(());
        };
        let mut segments = self.stored().segments_of(stored);
        segments.try_for_each(|place| self.stored().segment_at(place).spend_on_counts(begin, stop))
    }

    /// The count of each word in its file.
    ///
    /// # Errors
    /// If there is no such file, a segment is damaged, a device fails, or the run must end.
    pub(crate) fn count_many<F, W>(&self, questions: &[(F, W)], run: Run<'_>) -> Result<Vec<u64>>
    where
        F: AsRef<str> + Sync,
        W: AsRef<[u8]> + Sync,
    {
        self.count_each(&self.find_files(questions)?, run)
    }

    /// The count of each word in a file, given by its place.
    ///
    /// # Errors
    /// If a segment is damaged, a device fails, or the run must end.
    pub(crate) fn count_each(
        &self,
        questions: &[(usize, &[u8])],
        run: Run<'_>,
    ) -> Result<Vec<u64>> {
        self.ask_each(
            questions,
            |asked| self.stored().count_each(asked, run),
            |count, edit, word| changed(count, edit.text.change_of(word), || word_subject(word)),
        )
    }

    /// Whether a table in memory has the counts of a file's words.
    pub(crate) fn can_count_now(&self, file: usize) -> bool {
        self.holds_for_parts(file, |segment| segment.can_count_now())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use super::*;
    use crate::Database;
    use crate::ingest::CopyOptions;

    #[test]
    fn the_question_after_a_long_one_builds_the_table_of_words() {
        let sources = tempfile::tempdir().unwrap();
        for name in ["a", "b"] {
            let text = format!("the {name} cat and the dog ").repeat(200);
            std::fs::write(sources.path().join(name), text).unwrap();
        }
        let database = Database::in_memory().unwrap();
        database.execute_batch("CREATE CORPUS c").unwrap();
        let corpus = database.corpus("c").unwrap();
        corpus
            .copy_from(sources.path(), &CopyOptions::default())
            .unwrap();
        let snapshot = corpus.snapshot().unwrap();
        let segment = snapshot.view().stored().segment_at(0);
        let stop = AtomicBool::new(false);
        // Longer than building takes.
        let long_ago = Instant::now().checked_sub(Duration::from_secs(20)).unwrap();
        segment.spend_on_counts(long_ago, &stop).unwrap();
        assert!(!segment.has(StructureKind::WordFiles));
        segment.spend_on_counts(Instant::now(), &stop).unwrap();
        assert!(segment.has(StructureKind::WordFiles));
    }
}
