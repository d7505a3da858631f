//! N-grams: those of the stored files, without the windows that edits broke and with those they made.

use std::cmp::Reverse;
use std::ops::Range;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;
use zipfdb_kernels::{CountTable, FileOrder, NgramFiles};

use super::counts::{correct_few, corrected};
use super::windows::{Window, WindowChanges};
use super::{Edit, NONE, PendingView};
use crate::answer::ngram_packing::NgramFilePart;
use crate::answer::ngrams::{CountedNgrams, Counts, NgramsPart};
use crate::bisect::gallop;
use crate::overlay::changed_count::changed;
use crate::overlay::{Region, RegionWord};
use crate::runtime::device::Run;
use crate::runtime::interrupt::check;
use crate::{Error, Result};

/// Changes of n-grams in so few files are looked for one by one.
const FEW_FILES: usize = 32;

fn window_of(words: impl Iterator<Item = u32>) -> Window {
    let mut window = Window::default();
    for (place, word) in window.iter_mut().zip(words) {
        *place = word;
    }
    window
}

fn add_up(changes: &mut Vec<(Window, u32, i64)>) {
    changes.par_sort_unstable();
    changes.dedup_by(|next, kept| {
        let same = (next.0, next.1) == (kept.0, kept.1);
        if same {
            kept.2 += next.2;
        }
        same
    });
    changes.retain(|&(.., change)| change != 0);
}

impl Edit {
    /// The first words of the windows of a region's words, or of its stored words, that are not on both sides.
    fn changed_windows<'a>(
        &self,
        region: &'a Region,
        n: usize,
    ) -> [(Range<usize>, &'a [RegionWord]); 2] {
        let text = &region.text;
        [&text.words, &text.stored].map(|words| {
            let last = words.len().saturating_sub(n - 1);
            // Windows wholly in front of what changed, or behind it, are on both sides.
            let from = (text.same_front + 1).saturating_sub(n);
            let to = (words.len() - text.same_back).min(last);
            (from..to.max(from), &words[..])
        })
    }
}

impl PendingView {
    fn windows(&self, n: usize, stop: &AtomicBool) -> Result<&WindowChanges> {
        if let Some(known) = self.windows[n].get() {
            return Ok(known);
        }
        // Without a lock: see `segment_view`.
        let window = |words: &[RegionWord], first: usize| {
            let words = words[first..first + n].iter();
            window_of(words.map(|word| self.numbering.number_met(word.word)))
        };
        let of_edit = |edit: &Edit| {
            let (mut changes, mut places) = (Vec::new(), Vec::new());
            check(stop)?;
            for region in &edit.regions().regions {
                let [(now, words), (before, stored)] = edit.changed_windows(region, n);
                for first in now {
                    let window = window(words, first);
                    changes.push((window, edit.file, 1));
                    places.push((window, edit.file, region.words.start + first as u64));
                }
                for first in before {
                    changes.push((window(stored, first), edit.file, -1));
                }
            }
            Ok((changes, places))
        };
        let found: Vec<(Vec<_>, Vec<_>)> =
            (self.edits.par_iter().map(of_edit)).collect::<Result<_>>()?;
        let (changes, places): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        let (mut changes, mut places) = (changes.concat(), places.concat());
        check(stop)?;
        add_up(&mut changes);
        check(stop)?;
        places.par_sort_unstable();
        let built = WindowChanges { changes, places };
        let windows = self.windows[n].get_or_init(|| built);
        self.book();
        Ok(windows)
    }

    /// The changes of one n-gram.
    fn windows_of(&self, words: &[u32], stop: &AtomicBool) -> Result<&[(Window, u32, i64)]> {
        let window = window_of(words.iter().copied());
        let changes = &self.windows(words.len(), stop)?.changes;
        Ok(range_of(changes, |change| &change.0, window))
    }

    /// As [`super::StoredView::ngrams`].
    pub(crate) fn ngrams(&self, n: usize, run: Run<'_>) -> Result<Vec<NgramsPart>> {
        let parts = self.stored.ngrams(n, None, run)?.into_iter();
        let mut parts: Vec<CountedNgrams> = parts.map(NgramsPart::into_counted).collect();
        if parts.is_empty() {
            parts.push(CountedNgrams {
                words: Vec::new(),
                counts: Counts::Merged(Vec::new()),
            });
        }
        self.renumber(parts.iter_mut().map(|part| &mut part.words));
        let mut changes = self.windows(n, run.stop)?.changes.clone();
        for change in &mut changes {
            change.1 = NONE;
        }
        for &file in &self.gone {
            check(run.stop)?;
            let words = self.stored.words_of(file as usize)?;
            let words: Vec<u32> = words.iter().map(|&w| self.numbering.number(w)).collect();
            let windows = words.windows(n);
            changes.extend(windows.map(|words| (window_of(words.iter().copied()), NONE, -1)));
        }
        check(run.stop)?;
        add_up(&mut changes);
        check(run.stop)?;
        let ranges = ranges_of(parts.iter().map(|part| &part.words[..]), n, &changes);
        let merged_parts = (parts.into_par_iter().zip(ranges)).map(|(part, range)| {
            let changes = &changes[range];
            if changes.is_empty() {
                return Ok(NgramsPart::Counted(part));
            }
            let mut words = Vec::with_capacity(part.words.len() + changes.len() * n);
            let mut counts = Vec::with_capacity(part.len() + changes.len());
            merge(&part.words, n, changes, |step| {
                match step {
                    MergeStep::Same(rows) => {
                        words.extend_from_slice(&part.words[rows.start * n..rows.end * n]);
                        part.counts.append_to(rows, &mut counts);
                    }
                    MergeStep::Changed(ngram, row, changes) => {
                        let change: i64 = changes.iter().map(|change| change.2).sum();
                        let before = row.map_or(0, |row| part.counts.get(row));
                        let count = changed(before, change, || self.ngram_subject(ngram))?;
                        if count > 0 {
                            words.extend_from_slice(ngram);
                            counts.push(count);
                        }
                    }
                }
                Ok(())
            })?;
            Ok(NgramsPart::Counted(CountedNgrams {
                words,
                counts: Counts::Merged(counts),
            }))
        });
        merged_parts.collect()
    }

    /// As [`super::StoredView::ngram_files`].
    pub(crate) fn ngram_files(
        &self,
        n: usize,
        order: FileOrder,
        run: Run<'_>,
    ) -> Result<Vec<NgramFilePart>> {
        let parts = self.stored.ngram_files(n, order, run)?.into_iter();
        let mut parts: Vec<NgramFiles> = parts.map(NgramFilePart::into_plain).collect();
        if parts.is_empty() {
            parts.push(NgramFiles {
                words: Vec::new(),
                files: CountTable::of_rows(Vec::new()).into(),
            });
        }
        self.renumber(parts.iter_mut().map(|part| &mut part.words));
        let changes = &self.windows(n, run.stop)?.changes[..];
        let ranges = ranges_of(parts.iter().map(|part| &part.words[..]), n, changes);
        // Then rows that no edit has changed stay as they are.
        let is_same = (0..).zip(&self.number_of).all(|(file, &now)| file == now);
        let merged_parts = (parts.into_par_iter().zip(ranges)).map(|(part, range)| {
            if is_same && range.is_empty() {
                return Ok(NgramFilePart::Plain(part));
            }
            let mut found = EditedRows {
                part: &part,
                words: Vec::with_capacity(part.words.len()),
                numbers: Vec::with_capacity(part.files.rows()),
                rows: CountTable::of_rows(Vec::new()),
            };
            let mut few = Vec::with_capacity(FEW_FILES);
            merge(&part.words, n, &changes[range], |step| {
                match step {
                    MergeStep::Same(rows) if is_same => found.keep(n, rows),
                    MergeStep::Same(rows) => {
                        for row in rows {
                            let ngram = &part.words[row * n..][..n];
                            found.push(ngram, self.files_now(part.files.row(row)));
                        }
                    }
                    MergeStep::Changed(ngram, row, changes) => {
                        let stored = row.map_or(&[][..], |row| part.files.row(row));
                        let of_files = changes.iter().map(|&(_, file, change)| (file, change));
                        if stored.len() + changes.len() <= FEW_FILES {
                            few.clear();
                            few.extend(self.files_now(stored));
                            correct_few(&mut few, of_files, || self.ngram_subject(ngram))?;
                            sort(&mut few, order);
                            found.push(ngram, few.drain(..));
                            return Ok(());
                        }
                        let mut now: Vec<(u32, u32)> = self.files_now(stored).collect();
                        now.sort_unstable();
                        let subject = |_| self.ngram_subject(ngram);
                        let mut row = corrected(&now, of_files, subject)?;
                        if order == FileOrder::Count {
                            sort(&mut row, order);
                        }
                        found.push(ngram, row.into_iter());
                    }
                }
                Ok(())
            })?;
            let EditedRows {
                words,
                numbers,
                rows,
                ..
            } = found;
            Ok(NgramFilePart::Plain(NgramFiles {
                words,
                files: part.files.chosen(rows, numbers),
            }))
        });
        merged_parts.collect()
    }

    /// What edits do to n-grams of n words: words, file and change.
    pub(crate) fn ngram_changes(
        &self,
        n: usize,
        stop: &AtomicBool,
    ) -> Result<&[(Window, u32, i64)]> {
        Ok(&self.windows(n, stop)?.changes)
    }

    /// Gives n-grams of stored words the numbers they have now.
    pub(crate) fn renumber<'a>(&self, lists: impl Iterator<Item = &'a mut Vec<u32>>) {
        if let Some(numbers) = self.numbering.numbers() {
            for words in lists {
                let words = words.par_iter_mut();
                words.for_each(|word| *word = numbers[*word as usize]);
            }
        }
    }

    /// As [`super::StoredView::ngram_count`].
    pub(crate) fn ngram_count(&self, words: &[u32], stop: &AtomicBool) -> Result<u64> {
        let change: i64 = (self.windows_of(words, stop)?.iter())
            .map(|change| change.2)
            .sum();
        let stored = match self.numbering.to_stored(words) {
            None => 0,
            Some(words) if self.gone.is_empty() => self.stored.ngram_count(&words, stop)?,
            Some(words) => {
                let places = self.stored.ngram_positions(&words, stop)?.into_iter();
                let stays = |&(file, _): &(u32, u64)| self.number_of[file as usize] != NONE;
                places.filter(stays).count() as u64
            }
        };
        changed(stored, change, || self.ngram_subject(words))
    }

    /// How an error calls an n-gram.
    fn ngram_subject(&self, words: &[u32]) -> String {
        let words = words
            .iter()
            .map(|&word| String::from_utf8_lossy(self.word(word)));
        format!("the n-gram \"{}\"", words.collect::<Vec<_>>().join(" "))
    }

    /// As [`super::StoredView::ngram_positions`].
    pub(crate) fn ngram_positions(
        &self,
        words: &[u32],
        stop: &AtomicBool,
    ) -> Result<Vec<(u32, u64)>> {
        let n = words.len();
        let mut places = Vec::new();
        if let Some(words) = self.numbering.to_stored(words) {
            for (stored, position) in self.stored.ngram_positions(&words, stop)? {
                let file = self.number_of[stored as usize];
                if file == NONE {
                    continue;
                }
                match self.edit(file as usize) {
                    None => places.push((file, position)),
                    Some(edit) => {
                        let now = edit.moved_window(position, n);
                        places.extend(now.map(|position| (file, position)));
                    }
                }
            }
        }
        let window = window_of(words.iter().copied());
        let made = range_of(&self.windows(n, stop)?.places, |place| &place.0, window);
        places.extend(made.iter().map(|&(_, file, position)| (file, position)));
        places.sort_unstable();
        Ok(places)
    }

    /// The offset of the own first byte of a word, told by its number in its file.
    pub(crate) fn offset_of_word(&self, file: u32, position: u64) -> Result<u64> {
        let stored = self.stored_file(file as usize);
        let Some(edit) = self.edit(file as usize) else {
            return self
                .stored
                .offset_of_word(self.stored_of[file as usize], position);
        };
        let regions = edit.regions();
        let next = regions
            .regions
            .partition_point(|region| region.words.end <= position);
        if let Some(region) = regions.regions.get(next)
            && region.words.contains(&position)
        {
            // Within the words of a region, which lie in memory.
            let word = region.text.words[(position - region.words.start) as usize];
            return Ok(region.bytes.start + u64::from(word.offset));
        }
        let (Some(stored), true) = (stored, position < regions.word_count) else {
            return Err(Error::Invalid {
                subject: self.files[file as usize].name.clone(),
                reason: format!("it has no word number {position}"),
            });
        };
        let before = match next.checked_sub(1) {
            None => position,
            Some(last) => {
                let last = &regions.regions[last];
                position - last.words.end + last.stored_words.end
            }
        };
        let offset = self.stored.offset_of_word(stored as u32, before)?;
        Ok(regions.moved_byte(offset, next))
    }
}

impl Edit {
    /// Where a window of `n` stored words is now; none if an edit broke it.
    fn moved_window(&self, position: u64, n: usize) -> Option<u64> {
        let regions = &self.regions().regions;
        let end = position + n as u64;
        // What changed in a region that begins before the window's end and ends behind its start.
        let next = regions.partition_point(|region| region.stored_words.end <= position);
        for region in regions[next..]
            .iter()
            .take_while(|region| region.stored_words.start < end)
        {
            if region.text.is_same() {
                continue;
            }
            let changed_start = region.stored_words.start + region.text.same_front as u64;
            let changed_end = region.stored_words.end - region.text.same_back as u64;
            if position >= changed_end {
                // Behind what changed, in the same region: words move as at its end.
                return Some(position + region.words.end - region.stored_words.end);
            }
            if end > changed_start {
                return None;
            }
        }
        Some(self.regions().moved_word(position, next))
    }
}

/// The items of an n-gram in a list that ascends by n-gram.
fn range_of<T>(list: &[T], window_of: impl Fn(&T) -> &Window, window: Window) -> &[T] {
    let from = list.partition_point(|item| *window_of(item) < window);
    let count = list[from..].partition_point(|item| *window_of(item) == window);
    &list[from..from + count]
}

/// For each part the changes of n-grams from its first one up to that of the next; the first part has those before it too.
fn ranges_of<'a>(
    parts: impl Iterator<Item = &'a [u32]>,
    n: usize,
    changes: &[(Window, u32, i64)],
) -> Vec<Range<usize>> {
    let firsts: Vec<Option<Window>> = parts
        .map(|words| (!words.is_empty()).then(|| window_of(words[..n].iter().copied())))
        .collect();
    let mut ranges = vec![0..0; firsts.len()];
    let mut end = changes.len();
    for (range, first) in ranges.iter_mut().zip(&firsts).rev() {
        let start = match first {
            None => end,
            Some(first) => changes.partition_point(|change| change.0 < *first).min(end),
        };
        *range = start..end;
        end = start;
    }
    if let Some(first) = ranges.first_mut() {
        first.start = 0;
    }
    ranges
}

/// Puts files with counts in order.
fn sort(files: &mut [(u32, u32)], order: FileOrder) {
    match order {
        FileOrder::File => files.sort_unstable(),
        FileOrder::Count => files.sort_unstable_by_key(|&(file, count)| (Reverse(count), file)),
    }
}

/// N-grams with their files, most of which are rows of a part.
struct EditedRows<'a> {
    part: &'a NgramFiles,
    words: Vec<u32>,
    numbers: Vec<u32>,
    /// Those that are not.
    rows: CountTable,
}

impl EditedRows<'_> {
    /// Takes n-grams of the part with their rows.
    fn keep(&mut self, n: usize, rows: Range<usize>) {
        self.words
            .extend_from_slice(&self.part.words[rows.start * n..rows.end * n]);
        // There are fewer rows than windows.
        let numbers = rows.map(|row| self.part.files.number(row) as u32);
        self.numbers.extend(numbers);
    }

    /// Takes an n-gram, unless no file has it.
    fn push(&mut self, ngram: &[u32], files: impl Iterator<Item = (u32, u32)>) {
        let before = self.rows.entries.len();
        self.rows.entries.extend(files);
        if self.rows.entries.len() > before {
            self.numbers
                .push((self.part.files.end() + self.rows.rows()) as u32);
            self.rows.offsets.push(self.rows.entries.len());
            self.words.extend_from_slice(ngram);
        }
    }
}

/// A step through stored n-grams and changes, in order.
enum MergeStep<'a> {
    /// Stored n-grams that no change is of, by their rows.
    Same(Range<usize>),
    /// An n-gram, its row if it is stored, and its changes.
    Changed(&'a [u32], Option<usize>, &'a [(Window, u32, i64)]),
}

/// Goes through n-grams and changes in order.
fn merge(
    words: &[u32],
    n: usize,
    changes: &[(Window, u32, i64)],
    mut visit: impl FnMut(MergeStep<'_>) -> Result<()>,
) -> Result<()> {
    let (mut row, rows) = (0, words.len() / n);
    for changes in changes.chunk_by(|left, right| left.0 == right.0) {
        let ngram = &changes[0].0[..n];
        let end = row + smaller(&words[row * n..], n, ngram);
        if row < end {
            visit(MergeStep::Same(row..end))?;
        }
        let is_stored = words.get(end * n..(end + 1) * n) == Some(ngram);
        visit(MergeStep::Changed(ngram, is_stored.then_some(end), changes))?;
        row = end + usize::from(is_stored);
    }
    match row < rows {
        true => visit(MergeStep::Same(row..rows)),
        false => Ok(()),
    }
}

/// How many of sorted n-grams are smaller than one. Work: logarithmic in that number.
fn smaller(words: &[u32], n: usize, ngram: &[u32]) -> usize {
    let rows = words.len() / n;
    let is_smaller = |row: usize| words[row * n..][..n] < *ngram;
    gallop(rows, is_smaller)
}
