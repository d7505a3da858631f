//! Cursors of occurrences: windows of the words of files, and words or n-grams whose places were looked up.
//!
//! Invariant: occurrences come in order of file and place.

use std::ops::Range;
use std::sync::Arc;

use super::super::stable_sort::sort_until;
use super::ngram_matcher::NgramMatcher;
use super::rows::{BUFFER, BUFFER_MAX, RowCursor, SequenceRows};
use super::scan_spec::{ScanSpec, SequencePlace};
use super::selection::WantedWords;
use crate::Result;
use crate::answer::batch_results::FileOffsets;
use crate::answer::{NumberRun, NumberStream, Occurrence, PhrasePlace, PlaceRanges, WordStream};
use crate::expression::integer_of_count;

/// Words that are read at a time by their numbers alone: they fit into the caches of a processor.
const RUN_WORDS: u64 = 1 << 16;

/// Returns n consecutive words of a file at a time.
pub(super) struct WordWindows {
    stream: WordStream,
    n: usize,
    buffer: Vec<Occurrence>,
    /// The first word of the next window in `buffer`.
    next: usize,
    has_more: bool,
}

impl WordWindows {
    /// Windows that begin in some places of the files, and perhaps others.
    pub(super) fn new(question: &ScanSpec, places: &PlaceRanges) -> WordWindows {
        let (view, files) = (
            question.view().clone(),
            question.asked.files.numbers().to_vec(),
        );
        WordWindows {
            stream: WordStream::within(view, files, places.clone(), question.asked.n as u64 - 1),
            n: question.asked.n,
            buffer: Vec::with_capacity(BUFFER),
            next: 0,
            has_more: true,
        }
    }

    pub(super) fn next(&mut self, question: &ScanSpec) -> Result<Option<&[Occurrence]>> {
        while !self.at_hand(question, BUFFER_MAX)?.is_empty() {
            let window = self.next..self.next + self.n;
            self.next += 1;
            if is_of_one_file(&self.buffer[window.clone()]) {
                return Ok(Some(&self.buffer[window]));
            }
        }
        Ok(None)
    }

    /// The words from the next window on, at least those of one; none at the end. A read has about `count` words.
    fn at_hand(&mut self, question: &ScanSpec, count: usize) -> Result<&[Occurrence]> {
        while self.buffer.len() < self.next + self.n {
            if !self.has_more {
                return Ok(&[]);
            }
            question.interrupt().check()?;
            self.buffer.drain(..self.next);
            self.next = 0;
            let length = count.clamp(BUFFER, BUFFER_MAX);
            let (stream, buffer) = (&mut self.stream, &mut self.buffer);
            self.has_more = stream.fill_until(buffer, length, question.interrupt())?;
        }
        Ok(&self.buffer[self.next..])
    }
}

fn is_of_one_file(window: &[Occurrence]) -> bool {
    window[0].file == window[window.len() - 1].file
}

/// Returns all wanted words or n-grams, one by one.
pub(super) struct WindowCursor {
    windows: WordWindows,
    /// The wanted words; conditions on n-grams are decided for each.
    wanted: WantedWords,
    /// The words of the current n-gram.
    words: Vec<u32>,
}

impl WindowCursor {
    pub(super) fn new(question: &ScanSpec, wanted: WantedWords) -> WindowCursor {
        WindowCursor {
            windows: WordWindows::new(question, &question.asked.places.ranges),
            wanted,
            words: Vec::with_capacity(question.asked.n),
        }
    }
}

impl RowCursor for WindowCursor {
    fn advance(&mut self, question: &ScanSpec, rows: &mut SequenceRows) -> Result<bool> {
        let words = self.windows.at_hand(question, rows.room())?;
        if question.asked.n == 1 && question.asked.texts.is_all() && question.asked.has_all_places()
        {
            let words = &words[..words.len().min(rows.room())];
            let count = words.len();
            rows.push_words(words, question);
            self.windows.next += count;
            return Ok(count > 0);
        }
        let mut matcher = NgramMatcher::new(question);
        let windows = words.windows(question.asked.n).take(rows.room());
        let count = windows.len();
        for window in windows.filter(|window| is_of_one_file(window)) {
            let is_wanted = if question.asked.texts.is_all() {
                true
            } else if self.wanted.marks.is_some() {
                self.wanted.has(window[0].word)
            } else {
                self.words.clear();
                self.words.extend(window.iter().map(|word| word.word));
                matcher.passes(&self.words)?
            };
            if is_wanted {
                rows.push_window(window, question)?;
            }
        }
        self.windows.next += count;
        Ok(count > 0)
    }
}

/// Returns all wanted words by their numbers, where rows do not have their bytes.
pub(super) struct NumberCursor {
    stream: NumberStream,
    wanted: WantedWords,
    /// Runs that were read and not begun.
    runs: std::vec::IntoIter<NumberRun>,
    /// The current run, and its next word.
    run: NumberRun,
    next: usize,
}

impl NumberCursor {
    pub(super) fn new(question: &ScanSpec) -> Result<NumberCursor> {
        let (view, files) = (
            question.view().clone(),
            question.asked.files.numbers().to_vec(),
        );
        Ok(NumberCursor {
            stream: NumberStream::within(
                view,
                files,
                question.asked.places.ranges.positions.clone(),
            ),
            wanted: question.wanted_words()?,
            runs: Vec::new().into_iter(),
            run: NumberRun::default(),
            next: 0,
        })
    }

    /// Moves to the next run; `false` if there is none.
    fn go_on(&mut self, question: &ScanSpec) -> Result<bool> {
        if self.runs.len() == 0 {
            question.interrupt().check()?;
            let count = match question.asked.limit {
                Some(limit) if self.wanted.marks.is_none() => limit.clamp(1, RUN_WORDS),
                _ => RUN_WORDS,
            };
            // At most `RUN_WORDS`.
            let runs = (self.stream).read_until(count as usize, question.interrupt())?;
            self.runs = runs.into_iter();
        }
        (self.run, self.next) = (self.runs.next().unwrap_or_default(), 0);
        Ok(!self.run.words.is_empty())
    }
}

impl RowCursor for NumberCursor {
    fn advance(&mut self, question: &ScanSpec, rows: &mut SequenceRows) -> Result<bool> {
        if self.next == self.run.words.len() && !self.go_on(question)? {
            return Ok(false);
        }
        let words = &self.run.words[self.next..];
        let words = &words[..words.len().min(rows.room())];
        let position = self.run.position + self.next as u64;
        match &self.wanted.marks {
            None => rows.push_run(self.run.file, position, words, question),
            Some(marks) => {
                for (position, &word) in (position..).zip(words) {
                    if marks[word as usize] {
                        rows.push_run(self.run.file, position, &[word], question);
                    }
                }
            }
        }
        self.next += words.len();
        Ok(true)
    }
}

/// Words that are looked up in files.
pub(super) enum SoughtWords {
    /// By their numbers.
    Numbered(Vec<u32>),
    /// One word, of which rows have only files and offsets.
    Unnumbered(Vec<u8>),
    /// By their numbers, with their offsets in each file: files ascend.
    Found(Vec<(u32, Vec<FileOffsets>)>),
}

/// Returns the occurrences of few words, file by file.
pub(super) struct LookupCursor {
    sought: SoughtWords,
    files: std::vec::IntoIter<u32>,
    /// The current file, and the places of words in it.
    file: u32,
    places: FilePlaces,
    /// The next place.
    next: usize,
}

/// The places of words in a file, in order.
#[derive(Default)]
struct FilePlaces {
    words: Vec<u32>,
    offsets: Vec<u64>,
    /// Empty if positions are not needed.
    positions: Vec<u64>,
}

impl LookupCursor {
    pub(super) fn new(question: &ScanSpec, sought: SoughtWords) -> LookupCursor {
        LookupCursor {
            sought,
            files: question.asked.files.numbers().to_vec().into_iter(),
            file: 0,
            places: FilePlaces::default(),
            next: 0,
        }
    }
}

impl RowCursor for LookupCursor {
    fn advance(&mut self, question: &ScanSpec, rows: &mut SequenceRows) -> Result<bool> {
        if self.next == self.places.offsets.len() {
            let Some(file) = self.files.next() else {
                return Ok(false);
            };
            question.interrupt().check()?;
            self.places = FilePlaces::find(question, file, &self.sought)?;
            (self.file, self.next) = (file, 0);
        } else if question.asked.has_all_places() || question.asked.is_cut_by_positions() {
            let end = (self.places.offsets.len()).min(self.next.saturating_add(rows.room()));
            self.places.append_to(self.file, self.next..end, rows);
            self.next = end;
        } else {
            rows.push_place(&self.places.get(self.file, self.next), question)?;
            self.next += 1;
        }
        Ok(true)
    }
}

impl FilePlaces {
    fn find(question: &ScanSpec, file: u32, sought: &SoughtWords) -> Result<FilePlaces> {
        let (reader, interrupt) = (&question.reader, question.interrupt());
        let is_cut = question.asked.is_cut_by_positions();
        let wanted = is_cut.then(|| question.wanted_bytes(file)).transpose()?;
        let cut = |mut offsets: Vec<u64>| {
            if let Some(wanted) = &wanted {
                offsets.truncate(offsets.partition_point(|offset| *offset < wanted.end));
                offsets.drain(..offsets.partition_point(|offset| *offset < wanted.start));
            }
            offsets
        };
        let offsets_of = |word: &[u8]| -> Result<Vec<u64>> {
            Ok(cut(reader.offsets(file as usize, word, interrupt)?))
        };
        let words = match sought {
            SoughtWords::Numbered(words) => &words[..],
            SoughtWords::Unnumbered(word) => {
                return Ok(FilePlaces::of_word(0, offsets_of(word)?, Vec::new()));
            }
            SoughtWords::Found(found) => {
                let of_words = found.iter().map(|(word, found)| {
                    let at = found.binary_search_by_key(&(file as usize), |(file, _)| *file);
                    let offsets = at.map_or(Vec::new(), |at| found[at].1.clone());
                    FilePlaces::of_word(*word, cut(offsets), Vec::new())
                });
                return FilePlaces::merged(of_words.collect(), question);
            }
        };
        let asks_position = question.asked.looks_up_positions();
        let mut of_words = Vec::with_capacity(words.len());
        for &word in words {
            let offsets = offsets_of(question.view().word(word))?;
            let positions = if asks_position {
                reader.positions(file as usize, word, interrupt)?
            } else {
                Vec::new()
            };
            of_words.push(FilePlaces::of_word(word, offsets, positions));
        }
        FilePlaces::merged(of_words, question)
    }

    fn of_word(word: u32, offsets: Vec<u64>, positions: Vec<u64>) -> FilePlaces {
        FilePlaces {
            words: vec![word; offsets.len()],
            offsets,
            positions,
        }
    }

    /// The places of several words, merged.
    fn merged(of_words: Vec<FilePlaces>, question: &ScanSpec) -> Result<FilePlaces> {
        let of_words = match <[FilePlaces; 1]>::try_from(of_words) {
            Ok([places]) => return Ok(places),
            Err(of_words) => of_words,
        };
        let mut found = Vec::new();
        for places in of_words {
            let position_of = |index| places.positions.get(index).copied().unwrap_or_default();
            let offsets = places.offsets.iter().zip(&places.words).enumerate();
            let place = |(index, (&offset, &word))| (offset, position_of(index), word);
            found.extend(offsets.map(place));
        }
        let mut pace = question.interrupt().pace();
        sort_until(&mut found, &mut pace, |left, right| left.0.cmp(&right.0))?;
        let mut merged = FilePlaces::default();
        for (offset, position, word) in found {
            merged.offsets.push(offset);
            merged.positions.push(position);
            merged.words.push(word);
        }
        Ok(merged)
    }

    fn get(&self, file: u32, index: usize) -> SequencePlace<'_> {
        SequencePlace {
            words: &self.words[index..=index],
            file,
            position: self.positions.get(index).copied().unwrap_or_default(),
            offset: Some(self.offsets[index]),
        }
    }

    /// Appends places, all of which are wanted.
    fn append_to(&self, file: u32, places: Range<usize>, rows: &mut SequenceRows) {
        rows.files.resize(rows.len() + places.len(), file);
        rows.words.extend_from_slice(&self.words[places.clone()]);
        let integers = |numbers: &[u64], target: &mut Vec<i64>| {
            target.extend(numbers.iter().copied().map(integer_of_count));
        };
        integers(&self.offsets[places.clone()], &mut rows.offsets);
        integers(
            self.positions.get(places).unwrap_or_default(),
            &mut rows.positions,
        );
    }
}

/// Returns n-grams that were looked up, in order of their places.
pub(super) struct NgramPlaces(pub(super) std::vec::IntoIter<(Arc<[u32]>, PhrasePlace)>);

impl RowCursor for NgramPlaces {
    fn advance(&mut self, question: &ScanSpec, rows: &mut SequenceRows) -> Result<bool> {
        let Some((
            words,
            PhrasePlace {
                file,
                position,
                offset,
            },
        )) = self.0.next()
        else {
            return Ok(false);
        };
        let place = SequencePlace {
            words: &words,
            file,
            position,
            offset,
        };
        rows.push_place(&place, question)?;
        Ok(true)
    }
}
