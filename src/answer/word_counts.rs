//! Word counts: of all words in the corpus, a segment or a file.
//!
//! Invariant: counts are those of the current texts. Each segment counts its words by the cheapest of the access paths below;
//! counts of segments add up, word by word; edits take off the words that they changed and those of files that are gone, and add
//! their own.

use std::sync::Arc;

use rayon::prelude::*;
use zipfdb_kernels::{file_set_weights, file_weights};

use super::access_path::{AccessPath, PartitionOperation, PathName, Run, answer, choose};
use super::corpus_view::CorpusView;
use super::pending_view::{PendingTable, PendingView};
use super::placement::{DeviceOperation, PlacementPlan};
use super::stored_view::{Kept, StoredView};
use super::vocabulary::Vocabulary;
use crate::Result;
use crate::merge::sum_equal;
use crate::overlay::add_up;
use crate::overlay::changed_count::changed;
use crate::runtime::device::OnDevice;
use crate::runtime::interrupt::check;
use crate::segment::cost::{
    ALONE_COST, ALONE_TOKEN_COST, FILE_COST, FILE_SYMBOL_COST, SYMBOL_COST, Size, WORD_COST,
};
use crate::segment::{LiveSegment, SegmentView, StructureKind};

/// Bytes for each word of a segment while words are counted: its count, and the data it is computed from.
const COUNTED_WORD_BYTES: u64 = 16;

/// The words of each of some files with counts, and the segments that were pinned for them.
type CountedFiles = (Vec<Vec<(u32, u64)>>, Vec<SegmentView>);

/// Counts of all words of a segment, by their numbers there.
pub(crate) struct WordTotals;

impl PartitionOperation for WordTotals {
    type Question<'a> = ();
    type Answer = Vec<u32>;

    const PATHS: &'static [AccessPath<WordTotals>] = &[
        AccessPath {
            name: PathName::WordTotals,
            needs: &[StructureKind::Words, StructureKind::Totals],
            cost: |(), segment| Some(segment.size().1 as f64 * WORD_COST),
            run: |(), segment, _| segment.totals().map(<[u32]>::to_vec),
        },
        AccessPath {
            name: PathName::Weights,
            needs: &[StructureKind::WordGrammar],
            cost: |(), segment| Some(segment.size().1 as f64 * WORD_COST),
            run: |(), segment, _| segment.grammar_totals().map(<[u32]>::to_vec),
        },
    ];
}

impl DeviceOperation for WordTotals {
    fn device_work(_: Size) -> f64 {
        // The copied grammar over words comes with the counts.
        f64::INFINITY
    }

    fn run_on((): &(), segment: &SegmentView, device: &OnDevice<'_>) -> Result<Vec<u32>> {
        segment.totals_on(device)
    }
}

/// Counts of all words of a segment in some of its files together, by their numbers there.
pub(crate) struct FileSetTotals;

impl PartitionOperation for FileSetTotals {
    /// The files, each once, ascending.
    type Question<'a> = &'a [u32];
    type Answer = Vec<u32>;

    const PATHS: &'static [AccessPath<FileSetTotals>] = &[
        AccessPath {
            name: PathName::WordTotals,
            needs: &[],
            cost: |files, segment| {
                let has_all = segment.extent().files == files.len() as u64;
                let all = has_all.then(|| choose::<WordTotals>(&(), segment, None).ok())?;
                Some(all?.cost())
            },
            run: |_, segment, run| answer::<WordTotals>(&(), segment, run.unforced()),
        },
        AccessPath {
            name: PathName::FileWeights,
            needs: &[StructureKind::WordGrammar],
            cost: |_, segment| {
                let symbols = segment.size().0 as f64;
                Some(symbols * SYMBOL_COST / segment.thread_count())
            },
            run: |files, segment, _| {
                let view = segment.word_grammar()?.view();
                let entries = segment.files()?;
                let words = files.iter().map(|&file| entries[file as usize].words);
                let totals = file_set_weights(view, files);
                let counted = totals.iter().map(|&count| u64::from(count));
                if counted.sum::<u64>() == words.sum::<u64>() {
                    Ok(totals)
                } else {
                    Err(segment
                        .inconsistent("files have other numbers of words than its table says"))
                }
            },
        },
    ];
}

/// The words of a file of a segment, ascending, with their counts.
pub(crate) struct FileTotals;

impl PartitionOperation for FileTotals {
    /// The file.
    type Question<'a> = u32;
    type Answer = Vec<(u32, u64)>;

    const PATHS: &'static [AccessPath<FileTotals>] = &[
        AccessPath {
            name: PathName::Decode,
            needs: &[StructureKind::Bodies, StructureKind::Words],
            cost: |&file, segment| segment.alone_cost(file, StructureKind::WordGrammar),
            run: |&file, segment, run| {
                let word_of = segment.word_of()?;
                match segment.ask_alone(file, StructureKind::WordGrammar, |alone| {
                    alone.word_counts(word_of)
                })? {
                    Some(counts) => Ok(counts),
                    None => by_weights(file, segment, run),
                }
            },
        },
        AccessPath {
            name: PathName::FileWeights,
            needs: &[StructureKind::WordGrammar],
            cost: |&file, segment| {
                let words = file_entry(segment, file).map_or(0, |(words, _)| words);
                Some(file_weights_cost(segment.extent(), 1, words))
            },
            run: |&file, segment, run| by_weights(file, segment, run),
        },
    ];
}

fn by_weights(file: u32, segment: &SegmentView, _: Run<'_>) -> Result<Vec<(u32, u64)>> {
    let view = segment.word_grammar()?.view();
    let entry = &segment.files()?[file as usize];
    Ok(file_weights(view, file, entry.words, entry.words))
}

/// Words and bytes of a file of a segment.
fn file_entry(segment: &SegmentView, file: u32) -> Option<(u64, u64)> {
    let entry = segment.files().ok()?.get(file as usize)?;
    Some((entry.words, entry.bytes))
}

/// The cost of the weights of all words in files that together have `words` words.
pub(crate) fn file_weights_cost(size: Size, files: u64, words: u64) -> f64 {
    // A file has at most one symbol for each word; all files together have about the symbols of roots and bodies.
    let share = match size.words {
        0 => 0.0,
        all => words as f64 / all as f64,
    };
    let symbols = (size.symbols as f64 * share).max(1.0);
    files as f64 * FILE_COST + symbols * FILE_SYMBOL_COST
}

impl SegmentView {
    /// Checks the weights of words in the grammar against the file table.
    fn grammar_totals(&self) -> Result<&[u32]> {
        let totals = &self.word_grammar()?.weights()[..self.word_count()? as usize];
        self.check_totals(totals)?;
        Ok(totals)
    }

    /// As [`WordTotals`], on a device.
    pub(super) fn totals_on(&self, device: &OnDevice<'_>) -> Result<Vec<u32>> {
        let mut totals = vec![0u32; self.word_count()? as usize];
        let parts = self.with_words(device, |gpu, on, _| {
            let mut counts = vec![0u32; totals.len()];
            gpu.download_from(&on.weights, 0, &mut counts)?;
            Ok(counts)
        })?;
        for (_, counts) in parts {
            // A segment has fewer than 2^32 words.
            let both = totals.iter_mut().zip(counts);
            both.for_each(|(total, count)| *total += count);
        }
        self.check_totals(&totals)?;
        Ok(totals)
    }

    /// The cost of the root of a file alone; none if a grammar in memory answers as well, or the roots of all files are due.
    pub(super) fn alone_cost(&self, file: u32, grammar: StructureKind) -> Option<f64> {
        if !self.is_alone_worth_asking(grammar) {
            return None;
        }
        let (words, bytes) = file_entry(self, file)?;
        let tokens = words.max(bytes / crate::segment::GAP_BYTES);
        // The other costs are those of decoding on all threads, so that the choice does not depend on their number.
        Some((ALONE_COST + tokens as f64 * ALONE_TOKEN_COST) / self.thread_count())
    }
}

/// Adds the counts of a segment's words to those of the corpus.
fn add_counts(totals: &mut [u64], vocabulary: &Vocabulary, segment: usize, counts: &[u32]) {
    let counts = counts.iter().map(|&count| u64::from(count));
    match vocabulary.numbers(segment) {
        // The words of the only segment have the numbers of those of the corpus.
        None => (totals.iter_mut().zip(counts)).for_each(|(total, count)| *total += count),
        Some(numbers) => (numbers.iter().zip(counts))
            .for_each(|(number, count)| totals[number as usize] += count),
    }
}

impl StoredView {
    /// The count of each word in the stored files, by its number.
    fn totals(&self, run: Run<'_>) -> Result<Vec<u64>> {
        let vocabulary = run.preparing("vocabulary", || self.vocabulary())?;
        let add_up = || {
            let mut totals = vec![0u64; vocabulary.len()];
            let bytes = |segment: &LiveSegment| segment.size().1 * COUNTED_WORD_BYTES;
            let mut first = 0;
            for group in self.groups_in_room(bytes) {
                let group = first..first + group.len();
                first = group.end;
                let is_asked = |index: usize| group.contains(&index);
                let counts = self.each_asked::<WordTotals>(&(), is_asked, run)?;
                for (index, counts) in counts.into_iter().enumerate() {
                    add_counts(&mut totals, vocabulary, index, &counts.unwrap_or_default());
                }
            }
            Ok(totals)
        };
        if self.segments().len() == 1 {
            // They are held with the segment.
            return add_up();
        }
        let bytes = |totals: &Vec<u64>| size_of_val(&totals[..]);
        (self.kept(Kept::WordTotals, run, bytes, add_up)).map(Arc::unwrap_or_clone)
    }

    /// As `totals`, in some stored files together.
    fn totals_of_set(&self, files: impl Iterator<Item = usize>, run: Run<'_>) -> Result<Vec<u64>> {
        let vocabulary = run.preparing("vocabulary", || self.vocabulary())?;
        let mut totals = vec![0u64; vocabulary.len()];
        for (index, files) in self.parts_by_segment(files) {
            check(run.stop)?;
            let segment = self.segment_at(index);
            let counts = answer::<FileSetTotals>(&&files[..], &segment, run)?;
            add_counts(&mut totals, vocabulary, index, &counts);
        }
        Ok(totals)
    }

    /// The words of a stored file with their counts, ascending.
    fn totals_of(&self, file: usize, run: Run<'_>) -> Result<Vec<(u32, u64)>> {
        let vocabulary = self.vocabulary()?;
        let parts = self.index.parts(file);
        let mut counts = Vec::new();
        for part in parts {
            let found = answer::<FileTotals>(&part.file, &self.segment(part), run)?;
            let number = |(word, n)| (vocabulary.number(part.segment as usize, word), n);
            counts.extend(found.into_iter().map(number));
        }
        if parts.len() > 1 {
            counts.sort_unstable_by_key(|&(word, _)| word);
            sum_equal(
                &mut counts,
                |left, right| left.0 == right.0,
                |kept, next| kept.1 += next.1,
            );
        }
        Ok(counts)
    }

    /// Builds the structures for counts of all words of files; pinned as long as the caller keeps the result.
    fn prepare_totals(&self, files: &[usize]) -> Result<Vec<SegmentView>> {
        let mut places: Vec<usize> = (files.iter())
            .flat_map(|&file| self.segments_of(file))
            .collect();
        places.sort_unstable();
        places.dedup();
        let views = places.into_iter().map(|place| {
            let segment = self.segment_at(place);
            segment.word_grammar()?;
            Ok(segment)
        });
        views.collect()
    }
}

impl PendingView {
    /// Counts of the words of the stored files, by their current numbers.
    fn renumbered(&self, stored: Vec<u64>) -> Vec<u64> {
        let Some(numbers) = self.numbering.numbers() else {
            return stored;
        };
        let mut totals = vec![0; self.numbering.len()];
        for (&number, count) in numbers.iter().zip(stored) {
            totals[number as usize] = count;
        }
        totals
    }

    /// The changes of the count of each word against the stored files; ascending.
    pub(super) fn changes(&self) -> Result<&[(u32, i64)]> {
        if let Some(changes) = self.changes.get() {
            return Ok(changes);
        }
        // The numbers of all words are faster than a search for each of many.
        self.numbering.numbers();
        let of_edits = (self.edits.par_iter()).flat_map_iter(|edit| edit.changes(&self.numbering));
        let mut changes: Vec<(u32, i64)> = of_edits.copied().collect();
        for &file in &self.gone {
            let counts = self.stored.totals_of(file as usize, Run::to_the_end())?;
            // Counts are below 2^63.
            let taken = counts.into_iter();
            changes.extend(taken.map(|(word, n)| (self.numbering.number(word), -(n as i64))));
        }
        add_up(&mut changes);
        let changes = self.changes.get_or_init(|| changes);
        self.book();
        Ok(changes)
    }
}

impl CorpusView {
    /// Plans [`CorpusView::totals`].
    ///
    /// # Errors
    /// If a segment is damaged.
    pub(crate) fn plan_totals(&self) -> Result<PlacementPlan<'_>> {
        self.stored().plan::<WordTotals>(&(), None)
    }

    /// Plans [`CorpusView::totals_of_each`].
    ///
    /// # Errors
    /// If a segment is damaged.
    pub(crate) fn plan_totals_of(&self, files: &[u32]) -> Result<PlacementPlan<'_>> {
        let partitions = self.partitions_of(files).into_iter();
        (self.stored()).plan_questions::<FileTotals>(partitions, None)
    }

    /// Plans [`CorpusView::totals_of_set`].
    ///
    /// # Errors
    /// If a segment is damaged.
    pub(crate) fn plan_totals_of_set(&self, files: &[u32]) -> Result<PlacementPlan<'_>> {
        let parts = self.stored().parts_by_segment(self.stored_of(files));
        let parts: Vec<(usize, Vec<u32>)> = parts.collect();
        let questions = parts.iter().map(|(index, files)| (*index, 1, &files[..]));
        (self.stored()).plan_questions::<FileSetTotals>(questions, None)
    }

    /// The count of each word in some files together, each given once; by its number.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(crate) fn totals_of_set(&self, files: &[u32], run: Run<'_>) -> Result<Vec<u64>> {
        let stored = self.stored().totals_of_set(self.stored_of(files), run)?;
        let Some(pending) = self.pending() else {
            return Ok(stored);
        };
        let mut totals = pending.renumbered(stored);
        for &file in files {
            let Some(edit) = self.resolve(file as usize).1 else {
                continue;
            };
            for &(word, change) in edit.changes(&pending.numbering) {
                let total = &mut totals[word as usize];
                *total = changed(*total, change, || pending.subject(word))?;
            }
        }
        Ok(totals)
    }

    /// The stored files that some files rest on.
    pub(super) fn stored_of(&self, files: &[u32]) -> impl Iterator<Item = usize> {
        files
            .iter()
            .filter_map(|&file| self.resolve(file as usize).0)
    }

    /// The count of each word, by its number.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(crate) fn totals(&self, run: Run<'_>) -> Result<Vec<u64>> {
        let Some(pending) = self.pending() else {
            return self.stored().totals(run);
        };
        let bytes = |totals: &Vec<u64>| size_of_val(&totals[..]);
        let totals = pending.table(PendingTable::Totals, bytes, || {
            self.corrected_totals(pending, run)
        })?;
        Ok(totals.to_vec())
    }

    fn corrected_totals(&self, pending: &PendingView, run: Run<'_>) -> Result<Vec<u64>> {
        let mut totals = pending.renumbered(self.stored().totals(run)?);
        for &(word, change) in pending.changes()? {
            let total = &mut totals[word as usize];
            *total = changed(*total, change, || pending.subject(word))?;
        }
        Ok(totals)
    }

    /// The words of a file with their counts, ascending.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub(crate) fn totals_of(&self, file: usize, run: Run<'_>) -> Result<Vec<(u32, u64)>> {
        let (stored, edit) = self.resolve(file);
        let mut counts = match stored {
            None => Vec::new(),
            Some(stored) => self.stored().totals_of(stored, run)?,
        };
        let Some(pending) = self.pending() else {
            return Ok(counts);
        };
        for (word, _) in &mut counts {
            *word = pending.numbering.number(*word);
        }
        let Some(edit) = edit else {
            return Ok(counts);
        };
        let changes = edit.changes(&pending.numbering);
        let mut merged = Vec::with_capacity(counts.len() + changes.len());
        let mut rest = counts.into_iter().peekable();
        for &(word, change) in changes {
            while let Some(count) = rest.next_if(|count| count.0 < word) {
                merged.push(count);
            }
            let count = rest.next_if(|count| count.0 == word).map_or(0, |c| c.1);
            let count = changed(count, change, || pending.subject(word))?;
            if count > 0 {
                merged.push((word, count));
            }
        }
        merged.extend(rest);
        Ok(merged)
    }

    /// The words of each of some files with their counts, ascending; and the segments that were pinned for the last of them, as
    /// long as the caller keeps these.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(crate) fn totals_of_each(&self, files: &[u32], run: Run<'_>) -> Result<CountedFiles> {
        let stored = |file: u32| self.resolve(file as usize).0;
        // One segment after the other: the structures for its files are built once, and not evicted between them.
        let first_segment = |file: u32| self.stored().segments_of(stored(file)?).next();
        let mut order: Vec<(Option<usize>, usize)> = (files.iter().enumerate())
            .map(|(place, &file)| (first_segment(file), place))
            .collect();
        order.sort_unstable();
        let mut totals = vec![Vec::new(); files.len()];
        let mut pinned = Vec::new();
        for group in order.chunk_by(|left, right| left.0 == right.0) {
            let files_of_group = group.iter().map(|&(_, place)| files[place]);
            let stored: Vec<usize> = files_of_group.filter_map(stored).collect();
            pinned = self.stored().prepare_totals(&stored)?;
            let counted = group.par_iter().map(|&(_, place)| {
                check(run.stop)?;
                Ok((place, self.totals_of(files[place] as usize, run)?))
            });
            for (place, counts) in counted.collect::<Result<Vec<_>>>()? {
                totals[place] = counts;
            }
        }
        Ok((totals, pinned))
    }
}
