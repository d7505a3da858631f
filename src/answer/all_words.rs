//! Files that have all of some words.
//!
//! Invariant: answers are those of the current texts. Each segment finds the files that it has whole by the cheapest of the
//! access paths below, or a device finds those of many queries at once; a file that is cut into parts or edited is asked for each
//! word alone. Source: Ao et al., "Efficient Parallel Lists Intersection", PVLDB 4(8), 2011, section 4, for lists of an index.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use rayon::prelude::*;
use zipfdb_kernels::gpu::{DeviceLists, Gpu};
use zipfdb_kernels::{CommonColumns, RowBits};
use zipfdb_storage::IndexKind;

use super::access_path::{AccessPath, PartitionOperation, PathName, Run, answer, choose};
use super::corpus_view::CorpusView;
use super::device_partitions::{in_batches, is_too_much};
use super::placement::PlacementPlan;
use super::word_files::{FewWordFiles, in_postings_cost, in_table_cost};
use crate::Result;
use crate::runtime::device::{Kind, OnDevice};
use crate::runtime::interrupt::check;
use crate::segment::{FileBits, SegmentView, StructureKind};

/// Candidates of a batch on a device (Ao et al. 6.1).
const BATCH_CANDIDATES: usize = 1 << 20;

/// Nanoseconds of building bit sets for each entry of the table of files of words, of which few rows get one.
const FILE_BITS_ENTRY_COST: f64 = 1.5;

/// Ids of a hash bucket of a list there, about: the fastest of the paper (4.4).
const HASH_BUCKET: usize = 16;

/// The files of a segment that have all of some words; ascending.
pub(crate) struct AllWordsFiles;

impl PartitionOperation for AllWordsFiles {
    type Question<'a> = &'a [&'a [u8]];
    type Answer = Vec<u32>;

    const PATHS: &'static [AccessPath<AllWordsFiles>] = &[
        AccessPath {
            name: PathName::CountTable,
            needs: &[],
            cost: in_table_cost,
            run: |words, segment, run| Ok(in_table(words, segment, run.stop)?.into_columns()),
        },
        AccessPath {
            name: PathName::Postings,
            needs: &[],
            cost: in_postings_cost,
            run: |words, segment, run| {
                let begin = Instant::now();
                let Some(files) = in_postings(words, segment)? else {
                    return each_word(words, segment, run);
                };
                segment.spend_on_counts(begin, run.stop)?;
                Ok(files)
            },
        },
        AccessPath {
            name: PathName::EachWord,
            needs: &[],
            cost: |words, segment| {
                let one = choose::<FewWordFiles>(words, segment, None).ok()?;
                Some(words.len() as f64 * one.cost())
            },
            run: |words, segment, run| each_word(words, segment, run),
        },
    ];
}

/// The files of a segment that have all of some words, if structures in memory answer. Builds nothing in parallel.
fn at_hand(words: &[&[u8]], segment: &SegmentView) -> Result<Option<CommonColumns>> {
    if !segment.pin_words_at_hand() {
        return Ok(None);
    }
    if segment.pin_at_hand(&[StructureKind::WordFiles, StructureKind::Words]) {
        return in_table(words, segment, &AtomicBool::new(false)).map(Some);
    }
    if !segment.has_index(IndexKind::Postings) || !segment.pin_at_hand(&[StructureKind::Postings]) {
        return Ok(None);
    }
    let begin = Instant::now();
    let found = in_postings(words, segment)?;
    // A caller that may wait for other threads builds the table.
    let is_due = segment.spend_at_hand(begin);
    Ok(found.filter(|_| !is_due).map(CommonColumns::Columns))
}

/// The files of a table's rows. Builds bit sets of long rows once that is due, on this thread.
fn in_table(words: &[&[u8]], segment: &SegmentView, stop: &AtomicBool) -> Result<CommonColumns> {
    let table = segment.word_files(stop)?;
    let Some(numbers) = numbers_of(segment, words)? else {
        return Ok(CommonColumns::Columns(Vec::new()));
    };
    if let Some(bits) = segment.pinned::<FileBits>() {
        return Ok(bits.0.common(table, &numbers));
    }
    let begin = Instant::now();
    let found = RowBits::default().common(table, &numbers);
    let budget = &segment.budgets.file_bits;
    budget.add_since(begin);
    let entries = table.entries.len() as u64;
    let price = (entries as f64 * FILE_BITS_ENTRY_COST) as u64; // below 2^40
    segment.pin_if_due::<FileBits>(budget, price, entries * size_of::<u32>() as u64, stop)?;
    Ok(found)
}

/// The files by lists of an index; none if it is damaged, and given up.
fn in_postings(words: &[&[u8]], segment: &SegmentView) -> Result<Option<Vec<u32>>> {
    let mut tokens = Vec::with_capacity(words.len());
    for word in words {
        let found = segment.find_one_word(word)?;
        if found.first == found.end {
            return Ok(Some(Vec::new()));
        }
        tokens.push(found.first);
    }
    segment.common_postings(&tokens)
}

/// The distinct words, in order.
fn different<W: AsRef<[u8]>>(words: &[W]) -> Vec<&[u8]> {
    let words: BTreeSet<&[u8]> = words.iter().map(AsRef::as_ref).collect();
    words.into_iter().collect()
}

/// Asks for the files of each word, and keeps those that have all.
fn each_word(words: &[&[u8]], segment: &SegmentView, run: Run<'_>) -> Result<Vec<u32>> {
    let run = run.unforced();
    let mut files: Option<Vec<u32>> = None;
    for word in words {
        let found = answer::<FewWordFiles>(&std::slice::from_ref(word), segment, run)?;
        let has = |file: &u32| found.binary_search_by_key(file, |(file, _)| *file).is_ok();
        files = Some(match files {
            None => found.into_iter().map(|(file, _)| file).collect(),
            Some(files) => files.into_iter().filter(has).collect(),
        });
    }
    Ok(files.unwrap_or_default())
}

/// The numbers of words in a segment; none if it lacks one.
fn numbers_of(segment: &SegmentView, words: &[&[u8]]) -> Result<Option<Vec<u32>>> {
    let numbers = words.iter().map(|word| segment.word_number(word));
    numbers.collect()
}

/// Answers queries to a segment on a device: the files that have all words of each.
fn on_device(
    queries: &[Vec<&[u8]>],
    segment: &SegmentView,
    device: &OnDevice<'_>,
    run: Run<'_>,
) -> Result<Vec<Vec<u32>>> {
    let numbers = queries
        .par_iter()
        .map(|words| {
            if words.is_empty() {
                Ok(None)
            } else {
                numbers_of(segment, words)
            }
        })
        .collect::<Result<Vec<Option<Vec<u32>>>>>()?;
    let mut found = vec![Vec::new(); queries.len()];
    let (mut places, mut asked) = (Vec::new(), Vec::new());
    for (place, numbers) in numbers.into_iter().enumerate() {
        if let Some(numbers) = numbers {
            places.push(place);
            asked.push(numbers);
        }
    }
    if asked.is_empty() {
        return Ok(found);
    }
    let table = segment.word_files(run.stop)?;
    let files = segment.files()?.len() as u32; // numbered by u32
    let copy = |gpu: &Gpu, words: &[u32]| {
        let (mut offsets, mut ids) = (vec![0], Vec::new());
        for &word in words {
            ids.extend(table.row(word as usize).iter().map(|&(file, _)| file));
            offsets.push(ids.len() as u32); // a segment has fewer words
        }
        Ok(DeviceLists::new(gpu, &offsets, &ids, files, HASH_BUCKET)?)
    };
    let ask = |gpu: &Gpu, lists: &DeviceLists, queries: &[Vec<u32>]| {
        let found = lists.intersect(gpu, queries, BATCH_CANDIDATES)?;
        let ranges = found.offsets.windows(2);
        let answers = ranges.map(|range| found.ids[range[0]..range[1]].to_vec());
        Ok(answers.collect::<Vec<Vec<u32>>>())
    };
    let all: Vec<u32> = (0..table.rows() as u32).collect(); // words are numbered by u32
    let answers = device.with_lists(
        segment.residence(),
        |gpu| copy(gpu, &all),
        |gpu, lists| ask(gpu, lists, &asked),
    );
    let answers = match answers {
        Err(error) if is_too_much(&error) => {
            let mut answers = Vec::with_capacity(asked.len());
            in_batches(&asked, 1, &mut answers, |queries| {
                let mut words = queries.concat();
                words.sort_unstable();
                words.dedup();
                let place = |word: &u32| words.partition_point(|other| other < word) as u32;
                let queries = queries
                    .iter()
                    .map(|query| query.iter().map(place).collect());
                let queries: Vec<Vec<u32>> = queries.collect();
                device.with_gpu(|gpu| ask(gpu, &copy(gpu, &words)?, &queries))
            })?;
            answers
        }
        answers => answers?,
    };
    for (place, files) in places.into_iter().zip(answers) {
        found[place] = files;
    }
    Ok(found)
}

impl CorpusView {
    /// Plans [`CorpusView::files_of_all`].
    ///
    /// # Errors
    /// If a segment is damaged.
    pub(crate) fn plan_files_of_all<W>(
        &self,
        queries: &[Vec<W>],
        forced: Option<PathName>,
    ) -> Result<PlacementPlan<'_>> {
        // Counted in memory.
        let words: u64 = queries.iter().map(|words| words.len() as u64).sum();
        let counts = (queries.len() as u64, words);
        (self.stored()).plan_lists::<AllWordsFiles>(&&[&b""[..]][..], counts, forced)
    }

    /// The files that have all of some words, ascending, for each of some queries; all files where there are no words.
    ///
    /// # Errors
    /// If a segment is damaged, a demanded device fails, or the run must end.
    pub(crate) fn files_of_all<W: AsRef<[u8]>>(
        &self,
        queries: &[&[W]],
        run: Run<'_>,
    ) -> Result<Vec<Vec<usize>>> {
        let queries: Vec<Vec<&[u8]>> = queries.iter().map(|words| different(words)).collect();
        let stored = self.stored();
        let plan = || self.plan_files_of_all(&queries, run.forced);
        let plan = stored.planned_with_devices(plan)?;
        let (places, costs) = plan.places();
        let on_cpu = |index: usize| {
            let segment = stored.segment_at(index);
            let answers = queries.par_iter().map(|words| {
                check(run.stop)?;
                if words.is_empty() {
                    return Ok(Vec::new());
                }
                answer::<AllWordsFiles>(&&words[..], &segment, run)
            });
            answers.collect::<Result<Vec<Vec<u32>>>>()
        };
        let found = stored.spread(
            (Kind::Lists, &places, &costs),
            run,
            |_| true,
            on_cpu,
            |index, device| on_device(&queries, &stored.segment_at(index), device, run),
        )?;
        let answers = queries.par_iter().enumerate().map(|(query, words)| {
            check(run.stop)?;
            self.files_of_found(words, |segment| &found[segment][query], run)
        });
        answers.collect()
    }

    /// The files of each segment that have all of some words, on this thread; none if a structure would have to be built first, or
    /// lists do not answer all of it.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub(crate) fn files_of_all_at_hand<W: AsRef<[u8]>>(
        &self,
        words: &[W],
    ) -> Result<Option<Vec<CommonColumns>>> {
        let (stored, words) = (self.stored(), different(words));
        if words.is_empty() || !self.has_whole_files() || stored.devices().are_demanded() {
            return Ok(None);
        }
        let mut found = Vec::with_capacity(stored.segments().len());
        for index in 0..stored.segments().len() {
            match at_hand(&words, &stored.segment_at(index))? {
                Some(files) => found.push(files),
                None => return Ok(None),
            }
        }
        Ok(Some(found))
    }

    /// The files found by segments, all of which are whole there.
    pub(crate) fn files_found(&self, found: Vec<CommonColumns>) -> Vec<usize> {
        let found = found.into_iter().map(CommonColumns::into_columns);
        let found: Vec<Vec<u32>> = found.collect();
        self.whole_files(|segment| &found[segment])
    }

    /// The files that have all of some words, from the whole files found by each segment.
    fn files_of_found<'a>(
        &self,
        words: &[&[u8]],
        found: impl Fn(usize) -> &'a [u32],
        run: Run<'_>,
    ) -> Result<Vec<usize>> {
        if words.is_empty() {
            return Ok((0..self.files().len()).collect());
        }
        let mut files = self.whole_files(found);
        let mut others = self.files_in_several_places();
        for word in words {
            let questions = others.iter().map(|&file| (file, *word));
            let questions: Vec<(usize, &[u8])> = questions.collect();
            let mut counts = self.count_each(&questions, run)?.into_iter();
            others.retain(|_| counts.next().is_some_and(|count| count > 0));
        }
        files.extend(others);
        files.sort_unstable();
        Ok(files)
    }

    /// Whether every file is whole in one segment and there are no edits.
    pub(super) fn has_whole_files(&self) -> bool {
        self.pending().is_none() && self.stored().index.cut().is_empty()
    }

    /// The files found by segments that have them whole, ascending.
    fn whole_files<'a>(&self, found: impl Fn(usize) -> &'a [u32]) -> Vec<usize> {
        let (stored, all_whole) = (self.stored(), self.has_whole_files());
        let whole = |segment: usize, file: u32| {
            let file = stored.file_number(segment, file);
            if all_whole {
                return Some(file as usize);
            }
            let file = self.file_now(file)? as usize;
            self.only_part(file).map(|_| file)
        };
        let mut files = Vec::new();
        for segment in 0..stored.segments().len() {
            let in_segment = found(segment).iter();
            files.reserve(in_segment.len());
            files.extend(in_segment.filter_map(|&file| whole(segment, file)));
        }
        files.sort_unstable();
        files
    }

    /// The files that are cut into parts or edited, ascending.
    fn files_in_several_places(&self) -> Vec<usize> {
        let cut = self.stored().index.cut().iter();
        let cut = cut.filter_map(|&file| self.file_now(file));
        let edited = self.pending().into_iter();
        let edited = edited.flat_map(|pending| pending.edits.iter().map(|edit| edit.file));
        let mut files: Vec<usize> = cut.chain(edited).map(|file| file as usize).collect();
        files.sort_unstable();
        files.dedup();
        files
    }
}
