//! The segments of a corpus as one: files and words by number, wherever they lie.
//!
//! The invariant: answers are exact however files are cut into parts: counts of parts add up, offsets move by where the
//! part begins, extracts go across the borders. It knows nothing of edits that are pending.

use std::io::{self, Write};
use std::ops::Deref;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use rayon::prelude::*;
use zipfdb_kernels::WordTerminals;
use zipfdb_kernels::gpu::{ExtractedBytes, SearchResults};

use super::file_index::{FileIndex, Part};
use super::found::{Found, FoundPart};
use crate::answer::FileSummary;
use crate::answer::found::FileOffsets;
use crate::answer::vocabulary::Vocabulary;
use crate::answer::word_numbers::WordNumbers;
use crate::overlay::StoredFiles;
use crate::runtime::device::{Devices, Run};
use crate::runtime::interrupt::check;
use crate::segment::cache::{Cache, Cached, CachedFacts, Slots};
use crate::segment::{LiveSegment, SegmentView, Unit, edge_words};
use crate::{Error, Result};

/// The segments of a corpus and where each of its files lies in them. Files are named by their place in order of name;
/// parallel work runs in the current pool.
pub(crate) struct StoredCorpus {
    name: String,
    pub(super) segments: Vec<Arc<LiveSegment>>,
    pub(super) index: FileIndex,
    /// Its vocabulary, in the cache.
    slots: Arc<Slots>,
    /// Words that edits met.
    pub(super) word_numbers: WordNumbers,
    devices: Arc<Devices>,
}

/// A stored corpus, and its vocabulary as long as the view is there, if it was needed: numbers of words mean nothing
/// without it.
pub(crate) struct StoredView {
    stored: Arc<StoredCorpus>,
    vocabulary: OnceLock<Arc<Vocabulary>>,
}

impl Deref for StoredView {
    type Target = StoredCorpus;

    fn deref(&self) -> &StoredCorpus {
        &self.stored
    }
}

/// The only slot.
const VOCABULARY: usize = 0;

/// What the slot holds.
fn typed(cached: Cached) -> Arc<Vocabulary> {
    let typed = cached.downcast();
    typed.expect("the slot holds a vocabulary")
}

/// With at least so many counts for one file in a batch, all its words are
/// counted at once.
const COUNTS_AT_ONCE_MIN: usize = 8;

/// Questions of a batch that one task answers at least.
const TASK_QUESTIONS_MIN: usize = 16;

/// Questions of a batch that one task looks up.
const TASK_LOOKUPS: usize = 128;

/// Names that are compared to find the most similar one, at most.
const COMPARED_NAMES_MAX: usize = 10_000;

/// Longer names are compared with none.
const COMPARED_BYTES_MAX: usize = 128;

impl StoredView {
    /// Reads the file tables of the segments.
    ///
    /// # Errors
    /// If one is damaged, or the parts of a file do not fit together.
    pub(crate) fn new(
        name: String,
        segments: Vec<Arc<LiveSegment>>,
        devices: Arc<Devices>,
        cache: &Arc<Cache>,
    ) -> Result<StoredView> {
        let tables = segments.iter().map(|segment| segment.files());
        let index = FileIndex::new(&tables.collect::<Result<Vec<_>>>()?);
        let index = index
            .map_err(|misfit| segments[misfit.segment as usize].inconsistent(misfit.reason))?;
        let stored = StoredCorpus {
            name,
            segments,
            index,
            slots: Slots::new(cache.clone(), 1),
            word_numbers: WordNumbers::new(),
            devices,
        };
        Ok(StoredView::of(Arc::new(stored)))
    }

    fn of(stored: Arc<StoredCorpus>) -> StoredView {
        StoredView {
            stored,
            vocabulary: OnceLock::new(),
        }
    }

    /// Another view of the same, which needs no vocabulary yet.
    pub(crate) fn again(&self) -> Arc<StoredView> {
        Arc::new(StoredView::of(self.stored.clone()))
    }

    /// Whether both are views of the same.
    pub(crate) fn is_same(&self, other: &StoredView) -> bool {
        Arc::ptr_eq(&self.stored, &other.stored)
    }

    /// All words, numbered.
    pub(crate) fn vocabulary(&self) -> Result<&Vocabulary> {
        if let Some(vocabulary) = self.pinned_vocabulary() {
            return Ok(vocabulary);
        }
        let begin = Instant::now();
        let built = Arc::new(Vocabulary::new(&self.segments)?);
        let (bytes, price) = (built.bytes() as u64, begin.elapsed().as_nanos() as u64);
        let held = self.slots.put(VOCABULARY, built, bytes, price);
        Ok(self.vocabulary.get_or_init(|| typed(held)))
    }

    pub(super) fn has_vocabulary(&self) -> bool {
        self.pinned_vocabulary().is_some()
    }

    /// The vocabulary of whoever has numbers of words of this view.
    pub(super) fn known_vocabulary(&self) -> &Vocabulary {
        let vocabulary = self.pinned_vocabulary();
        vocabulary.expect("whoever has numbers of words made the vocabulary")
    }

    fn pinned_vocabulary(&self) -> Option<&Vocabulary> {
        if let Some(vocabulary) = self.vocabulary.get() {
            return Some(vocabulary);
        }
        let held = self.slots.get(VOCABULARY)?;
        Some(self.vocabulary.get_or_init(|| typed(held)))
    }

    /// All files, in order of name.
    pub(crate) fn files(&self) -> &[FileSummary] {
        self.index.files()
    }

    pub(crate) fn segments(&self) -> &[Arc<LiveSegment>] {
        &self.segments
    }

    /// What the cache knows of the vocabulary, if it holds that.
    pub(crate) fn cached_vocabulary(&self) -> Option<CachedFacts> {
        self.slots.facts().pop()
    }

    pub(super) fn cache(&self) -> &Arc<Cache> {
        self.slots.cache()
    }

    pub(crate) fn devices(&self) -> &Arc<Devices> {
        &self.devices
    }

    /// The segment of a part, to work with.
    pub(super) fn segment(&self, part: &Part) -> SegmentView {
        SegmentView::of(self.live(part))
    }

    fn live(&self, part: &Part) -> &Arc<LiveSegment> {
        &self.segments[part.segment as usize]
    }

    /// The file of a name.
    pub(crate) fn find_file(&self, name: &str) -> Option<usize> {
        self.index.find(name)
    }

    /// The file of each name of a batch.
    fn find_many<'a>(
        &self,
        names: impl IndexedParallelIterator<Item = &'a str>,
    ) -> Result<Vec<usize>> {
        let names = names.with_min_len(TASK_QUESTIONS_MIN);
        // Names are compared for the first unknown one only.
        let found: Vec<_> = names
            .map(|name| self.index.find(name).ok_or(name))
            .collect();
        let found = found.into_iter().collect::<std::result::Result<_, &str>>();
        found.map_err(|name| self.no_such_file(name))
    }

    /// What to say of a file that is not there.
    pub(crate) fn no_such_file(&self, name: &str) -> Error {
        self.no_such_file_of(name, self.files())
    }

    /// As `no_such_file`, if these are the files.
    pub(super) fn no_such_file_of(&self, name: &str, files: &[FileSummary]) -> Error {
        Error::NoSuchFile {
            corpus: self.name.clone(),
            file: name.to_owned(),
            nearest: nearest(name, files),
        }
    }

    /// Whether the bytes where words of a file begin are told without building anything first.
    pub(crate) fn can_tell_offsets_now(&self, file: usize) -> bool {
        let mut parts = self.index.parts(file).iter();
        parts.all(|part| self.live(part).can_tell_offsets_now())
    }

    /// Whether places of words in a file are kept.
    pub(crate) fn has_places(&self, file: usize, unit: Unit) -> bool {
        let mut parts = self.index.parts(file).iter();
        parts.all(|part| self.segment(part).has_places(unit))
    }

    /// Whether words of a file are counted by a look-up in a table.
    pub(crate) fn can_count_now(&self, file: usize) -> bool {
        let mut parts = self.index.parts(file).iter();
        parts.all(|part| self.live(part).can_count_now())
    }

    pub(crate) fn can_extract_now(&self, file: usize) -> bool {
        let mut parts = self.index.parts(file).iter();
        parts.all(|part| self.live(part).can_extract_now())
    }

    /// The place of the segment that has all of a file.
    pub(crate) fn only_segment(&self, file: usize) -> Option<u32> {
        match self.index.parts(file) {
            [part] => Some(part.segment),
            _ => None,
        }
    }

    pub(crate) fn count(&self, word: &[u8]) -> Result<u64> {
        let segments = self.segments.par_iter();
        let counts = segments.map(|segment| SegmentView::of(segment).count(word));
        counts.try_reduce(|| 0, |left, right| Ok(left + right))
    }

    /// How often a word occurs in a file.
    pub(crate) fn count_in(&self, file: usize, word: &[u8]) -> Result<u64> {
        let parts = self.index.parts(file).iter();
        let counts = parts.map(|part| {
            let segment = self.segment(part);
            segment.count_in_file(part.file, segment.find_word(word)?)
        });
        counts.sum()
    }

    pub(crate) fn count_words<W: AsRef<[u8]> + Sync>(&self, words: &[W]) -> Result<Vec<u64>> {
        let segments: Vec<SegmentView> = self.segments.iter().map(SegmentView::of).collect();
        for segment in &segments {
            segment.totals()?;
        }
        let count = |word: &W| {
            let segments = segments.iter();
            let counts = segments.map(|segment| segment.count(word.as_ref()));
            counts.sum()
        };
        let words = words.par_iter().with_min_len(TASK_QUESTIONS_MIN);
        words.map(count).collect()
    }

    pub(crate) fn count_many<F, W>(&self, questions: &[(F, W)], run: Run<'_>) -> Result<Vec<u64>>
    where
        F: AsRef<str> + Sync,
        W: AsRef<[u8]> + Sync,
    {
        self.count_each(&self.find_files(questions)?, run)
    }

    /// How often each word occurs in its file.
    pub(crate) fn count_each(
        &self,
        questions: &[(usize, &[u8])],
        run: Run<'_>,
    ) -> Result<Vec<u64>> {
        self.count_lookups(&self.look_up(questions)?, questions.len(), run)
    }

    /// The counts of so many questions that were looked up.
    pub(crate) fn count_lookups(
        &self,
        lookups: &[Lookup],
        questions: usize,
        run: Run<'_>,
    ) -> Result<Vec<u64>> {
        if let Some(found) = self.on_devices(lookups, run, SegmentView::count_on)? {
            let mut counts = vec![0; questions];
            for (lookup, count) in found {
                counts[lookup.question] += count;
            }
            return Ok(counts);
        }
        let segments = self.prepare(lookups, SegmentView::prepare_counts)?;
        let same_part = |left: &Lookup, right: &Lookup| left.part == right.part;
        let parts: Vec<&[Lookup]> = lookups.chunk_by(same_part).collect();
        let found: Vec<Vec<u64>> = (parts.par_iter())
            .map(|lookups| {
                check(run.stop)?;
                count_in_part(segments.of(&lookups[0].part), lookups)
            })
            .collect::<Result<_>>()?;
        let mut counts = vec![0; questions];
        for (lookup, count) in lookups.iter().zip(found.iter().flatten()) {
            counts[lookup.question] += count;
        }
        Ok(counts)
    }

    /// The files that have a word, each with its offsets.
    pub(crate) fn search(&self, word: &[u8], stop: &AtomicBool) -> Result<Vec<FileOffsets>> {
        let found: Vec<Vec<(u32, Vec<u64>)>> = (self.segments.par_iter())
            .map(|segment| {
                let segment = SegmentView::of(segment);
                segment.locate(segment.find_word(word)?, stop)
            })
            .collect::<Result<_>>()?;
        let mut parts: Vec<(usize, u64, Vec<u64>)> = Vec::new();
        for (segment, files) in (0..).zip(found) {
            for (number, offsets) in files {
                let file = self.index.file_of(segment, number);
                let mut same = self.index.parts(file).iter();
                let part = same.find(|part| (part.segment, part.file) == (segment, number));
                let part = part.expect("a file has the parts that belong to it");
                parts.push((file, part.first_byte, offsets));
            }
        }
        parts.sort_unstable_by_key(|&(file, first_byte, _)| (file, first_byte));
        let mut files: Vec<FileOffsets> = Vec::with_capacity(parts.len());
        for (file, first_byte, found) in parts {
            match files.last_mut() {
                Some((last, offsets)) if *last == file => append(offsets, found, first_byte),
                _ => {
                    let mut offsets = Vec::new();
                    append(&mut offsets, found, first_byte);
                    files.push((file, offsets));
                }
            }
        }
        Ok(files)
    }

    pub(crate) fn search_in(
        &self,
        file: usize,
        word: &[u8],
        stop: &AtomicBool,
    ) -> Result<Vec<u64>> {
        let mut offsets = Vec::new();
        for part in self.index.parts(file) {
            let segment = self.segment(part);
            let found = segment.locate_in_file(part.file, segment.find_word(word)?, stop)?;
            append(&mut offsets, found, part.first_byte);
        }
        Ok(offsets)
    }

    pub(crate) fn search_words<W>(
        &self,
        words: &[W],
        stop: &AtomicBool,
    ) -> Result<Vec<Vec<FileOffsets>>>
    where
        W: AsRef<[u8]> + Sync,
    {
        // Pinned until all are found.
        let segments: Vec<SegmentView> = self.segments.iter().map(SegmentView::of).collect();
        segments.iter().try_for_each(SegmentView::prepare_offsets)?;
        let words = words.par_iter();
        words.map(|word| self.search(word.as_ref(), stop)).collect()
    }

    pub(crate) fn search_many<F, W>(
        &self,
        questions: &[(F, W)],
        run: Run<'_>,
    ) -> Result<Vec<Vec<u64>>>
    where
        F: AsRef<str> + Sync,
        W: AsRef<[u8]> + Sync,
    {
        self.search_each(&self.find_files(questions)?, run)
    }

    /// For each file and word the offsets.
    pub(crate) fn search_each(
        &self,
        questions: &[(usize, &[u8])],
        run: Run<'_>,
    ) -> Result<Vec<Vec<u64>>> {
        let found = self.search_lookups(&self.look_up(questions)?, questions.len(), run)?;
        Ok(found.into_each(|offsets, first, more| {
            offsets.extend(more.iter().map(|offset| first + offset));
        }))
    }

    /// The offsets of so many questions that were looked up, each part from its first byte.
    pub(crate) fn search_lookups(
        &self,
        lookups: &[Lookup],
        questions: usize,
        run: Run<'_>,
    ) -> Result<Found<SearchResults>> {
        let found = match self.on_devices(lookups, run, SegmentView::search_on)? {
            Some(found) => found,
            None => {
                let segments = self.prepare(lookups, SegmentView::prepare_offsets)?;
                (lookups.par_iter())
                    .map(|lookup| {
                        check(run.stop)?;
                        let segment = segments.of(&lookup.part);
                        let offsets =
                            segment.locate_in_file(lookup.part.file, lookup.word, run.stop)?;
                        Ok((lookup, FoundPart::Own(offsets)))
                    })
                    .collect::<Result<_>>()?
            }
        };
        let key = |lookup: &Lookup| (lookup.question, lookup.part.first_byte);
        let found = found.into_iter().map(|(lookup, part)| (key(lookup), part));
        Ok(Found::new(questions, found.collect()))
    }

    pub(crate) fn extract(&self, file: usize, offset: u64, length: u64) -> Result<Vec<u8>> {
        self.extract_of(&SegmentViews::new(self), file, offset, length)
    }

    /// As `extract`, of segments that are worked with.
    fn extract_of(
        &self,
        segments: &SegmentViews<'_>,
        file: usize,
        offset: u64,
        length: u64,
    ) -> Result<Vec<u8>> {
        let end = offset.saturating_add(length);
        let parts = self.index.parts(file);
        let first = parts.partition_point(|part| part.first_byte + part.bytes <= offset);
        let mut bytes = Vec::new();
        for part in parts[first..]
            .iter()
            .take_while(|part| part.first_byte < end)
        {
            let (from, segment) = (offset.max(part.first_byte), segments.of(part));
            let extracted = segment.extract(part.file, from - part.first_byte, end - from)?;
            if bytes.is_empty() {
                bytes = extracted;
            } else {
                bytes.extend_from_slice(&extracted);
            }
        }
        Ok(bytes)
    }

    pub(crate) fn extract_many<F: AsRef<str> + Sync>(
        &self,
        ranges: &[(F, u64, u64)],
        run: Run<'_>,
    ) -> Result<Vec<Vec<u8>>> {
        let files = self.find_many(ranges.par_iter().map(|(file, ..)| file.as_ref()))?;
        let ranges = files.into_iter().zip(ranges);
        let ranges = ranges.map(|(file, &(_, offset, length))| (file, offset, length));
        self.extract_each(&ranges.collect::<Vec<_>>(), run)
    }

    /// The bytes of many ranges of files.
    pub(crate) fn extract_each(
        &self,
        ranges: &[(usize, u64, u64)],
        run: Run<'_>,
    ) -> Result<Vec<Vec<u8>>> {
        let found = self.extracts(ranges, run)?;
        Ok(found.into_each(|bytes, _, more| bytes.extend_from_slice(more)))
    }

    /// Likewise, each in the parts that it was found in.
    pub(crate) fn extracts(
        &self,
        ranges: &[(usize, u64, u64)],
        run: Run<'_>,
    ) -> Result<Found<ExtractedBytes>> {
        if let Some(extracts) = self.extracts_on_devices(ranges, run)? {
            return Ok(extracts);
        }
        let segments = SegmentViews::new(self);
        for &(file, ..) in ranges {
            for part in self.index.parts(file) {
                segments.of(part).content()?;
            }
        }
        let tasks = ranges.par_iter().enumerate();
        let tasks = tasks.with_min_len(TASK_QUESTIONS_MIN);
        let extract = |(range, &(file, offset, length)): (usize, &(usize, u64, u64))| {
            check(run.stop)?;
            let bytes = self.extract_of(&segments, file, offset, length)?;
            Ok(((range, 0), FoundPart::Own(bytes)))
        };
        let found = tasks.map(extract).collect::<Result<_>>()?;
        Ok(Found::new(ranges.len(), found))
    }

    /// Builds what counts of all words of files need; pinned as long as the caller keeps it.
    pub(crate) fn prepare_totals(&self, files: &[usize]) -> Result<Vec<SegmentView>> {
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

    /// Builds what telling words around edits needs, and moving places; pinned as long as the caller keeps it.
    pub(crate) fn prepare_edits(&self, stop: &AtomicBool) -> Result<Vec<SegmentView>> {
        self.vocabulary()?;
        let prepare = |segment| {
            let segment = SegmentView::of(segment);
            check(stop)?;
            segment.content()?;
            check(stop)?;
            segment.prepare_offsets()?;
            Ok(segment)
        };
        self.segments.iter().map(prepare).collect()
    }

    /// How many bytes of text there are.
    pub(crate) fn bytes(&self) -> u64 {
        self.segments
            .iter()
            .map(|segment| segment.text_bytes())
            .sum()
    }

    /// The segments that have parts of a file, by their places.
    pub(crate) fn segments_of(&self, file: usize) -> impl Iterator<Item = usize> {
        self.index
            .parts(file)
            .iter()
            .map(|part| part.segment as usize)
    }

    /// The files that a segment has parts of.
    pub(crate) fn files_in(&self, segment: usize) -> Result<impl Iterator<Item = usize>> {
        let entries = self.segments[segment].files()?.len() as u32;
        // Segments of a corpus are counted by u32.
        Ok((0..entries).map(move |number| self.index.file_of(segment as u32, number)))
    }

    /// How many words of a file begin before a byte of it.
    pub(crate) fn words_before(&self, file: usize, offset: u64) -> Result<u64> {
        let mut words = 0;
        for part in self.index.parts(file) {
            let segment = self.segment(part);
            if offset < part.first_byte + part.bytes {
                return Ok(words + segment.words_before(part.file, offset - part.first_byte)?);
            }
            words += segment.files()?[part.file as usize].words;
        }
        Ok(words)
    }

    /// All words of a file, by number.
    pub(crate) fn words_of(&self, file: usize) -> Result<Vec<u32>> {
        let vocabulary = self.vocabulary()?;
        let mut words = Vec::new();
        for part in self.index.parts(file) {
            let segment = self.segment(part);
            let view = segment.word_grammar()?.view();
            let found = edge_words(view, part.file, usize::MAX, false).into_iter();
            words.extend(found.map(|word| vocabulary.number(part.segment as usize, word)));
        }
        Ok(words)
    }

    /// Writes a file; the inner error is the target's.
    pub(crate) fn write_file(&self, file: usize, target: &mut dyn Write) -> Result<io::Result<()>> {
        for part in self.index.parts(file) {
            if let Err(error) = self.segment(part).write_content(part.file, target)? {
                return Ok(Err(error));
            }
        }
        Ok(Ok(()))
    }

    /// The files of questions about words.
    fn find_files<'a, F, W>(&self, questions: &'a [(F, W)]) -> Result<Vec<(usize, &'a [u8])>>
    where
        F: AsRef<str> + Sync,
        W: AsRef<[u8]> + Sync,
    {
        let files = self.find_many(questions.par_iter().map(|(file, _)| file.as_ref()))?;
        let words = questions.iter().map(|(_, word)| word.as_ref());
        Ok(files.into_iter().zip(words).collect())
    }

    /// Finds the parts of files, and words in them; sorted by segment and file.
    pub(crate) fn look_up(&self, questions: &[(usize, &[u8])]) -> Result<Vec<Lookup>> {
        let segments = SegmentViews::new(self);
        let tasks = questions.par_chunks(TASK_LOOKUPS).enumerate();
        let lookups = tasks.map(|(task, questions)| {
            let mut lookups = Vec::with_capacity(questions.len());
            for (question, &(file, word)) in (task * TASK_LOOKUPS..).zip(questions) {
                for &part in self.index.parts(file) {
                    lookups.push(Lookup {
                        part,
                        word: segments.of(&part).find_word(word)?,
                        question,
                    });
                }
            }
            Ok(lookups)
        });
        let mut lookups = lookups.collect::<Result<Vec<_>>>()?.concat();
        lookups.par_sort_unstable_by_key(|lookup| {
            (lookup.part.segment, lookup.part.file, lookup.question)
        });
        Ok(lookups)
    }

    /// Builds what the segments of these look-ups need: before their tasks start, so that no two of them build the same.
    fn prepare(
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
}

/// The segments that one piece of work meets, pinned until it is done.
pub(super) struct SegmentViews<'a> {
    stored: &'a StoredView,
    views: Vec<OnceLock<Box<SegmentView>>>,
}

impl<'a> SegmentViews<'a> {
    pub(super) fn new(stored: &'a StoredView) -> SegmentViews<'a> {
        let views = stored.segments.iter().map(|_| OnceLock::new());
        SegmentViews {
            stored,
            views: views.collect(),
        }
    }

    /// The segment of a part.
    pub(super) fn of(&self, part: &Part) -> &SegmentView {
        let view = &self.views[part.segment as usize];
        view.get_or_init(|| Box::new(self.stored.segment(part)))
    }
}

impl StoredFiles for StoredView {
    fn bytes(&self, file: &str) -> Option<u64> {
        self.find_file(file).map(|file| self.files()[file].bytes)
    }

    fn no_such_file(&self, file: &str) -> Error {
        StoredView::no_such_file(self, file)
    }
}

/// A word to look for in a part of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lookup {
    pub(super) part: Part,
    pub(super) word: WordTerminals,
    /// The question of the batch that it belongs to.
    pub(super) question: usize,
}

/// The counts of words in one and the same part, of this segment.
fn count_in_part(segment: &SegmentView, lookups: &[Lookup]) -> Result<Vec<u64>> {
    let part = lookups[0].part;
    if lookups.len() < COUNTS_AT_ONCE_MIN {
        return (lookups.iter())
            .map(|lookup| segment.count_in_file(part.file, lookup.word))
            .collect();
    }
    let counts = segment.word_counts(part.file)?;
    let count = |lookup: &Lookup| {
        let Some(word) = segment.number_of(lookup.word)? else {
            return Ok(0);
        };
        let found = counts.binary_search_by_key(&word, |&(word, _)| word);
        Ok(found.map_or(0, |at| counts[at].1))
    };
    lookups.iter().map(count).collect()
}

/// The most similar of the files' names, if it is probably what was meant.
fn nearest(name: &str, files: &[FileSummary]) -> Option<String> {
    if name.len() > COMPARED_BYTES_MAX {
        return None;
    }
    let lower = name.to_lowercase();
    let distance_max = (lower.chars().count() / 4).clamp(1, 3);
    let names = files.iter().map(|file| &file.name);
    let (distance, nearest) = names
        .filter(|name| name.len() <= COMPARED_BYTES_MAX)
        .take(COMPARED_NAMES_MAX)
        .map(|name| (strsim::osa_distance(&lower, &name.to_lowercase()), name))
        .min_by_key(|&(distance, _)| distance)?;
    (distance <= distance_max).then(|| nearest.clone())
}

/// Appends offsets that count from `first_byte`.
fn append(offsets: &mut Vec<u64>, found: Vec<u64>, first_byte: u64) {
    if offsets.is_empty() && first_byte == 0 {
        *offsets = found;
    } else {
        offsets.extend(found.into_iter().map(|offset| first_byte + offset));
    }
}
