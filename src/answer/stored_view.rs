//! The segments of a corpus as one: files and words by number, wherever they lie.
//!
//! The invariant: a file's parts lie in segments in the order of the index, and words have the numbers of the vocabulary. This
//! file has the data; the operations have their own files. Pending edits are not known here.

use std::collections::BTreeSet;
use std::iter;
use std::ops::Deref;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock, Weak};

use rayon::prelude::*;

use super::access_path::Run;
use super::file_index::{FileIndex, Part};
use crate::answer::FileSummary;
use crate::answer::vocabulary::Vocabulary;
use crate::answer::word_numbers::WordNumbers;
use crate::bisect::partition_point;
use crate::overlay::StoredFiles;
use crate::runtime::device::Devices;
use crate::runtime::interrupt::check;
use crate::segment::cache::{Cache, CachedFacts, Slots};
use crate::segment::{LiveSegment, SegmentView, edge_words};
use crate::{Error, Result};

/// The segments of a corpus and the places of its files in them. Files are named by their place in order of name; parallel work
/// runs in the current pool.
pub(crate) struct StoredCorpus {
    name: String,
    pub(super) segments: Vec<Arc<LiveSegment>>,
    pub(super) index: FileIndex,
    /// Its vocabulary, how often each word occurs, and tables of all segments, in the cache.
    slots: Arc<Slots>,
    /// The numbers of words that edits met.
    pub(super) word_numbers: WordNumbers,
    devices: Arc<Devices>,
}

/// A stored corpus, with its vocabulary as long as the view lives, once it was needed: numbers of words have no meaning without
/// it.
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

/// What the cache holds of a corpus beside what it holds of segments, by slot.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kept {
    Vocabulary,
    WordTotals,
    FileWords,
    WordFiles,
    Metadata,
    /// What searches keep between statements.
    SearchTerms,
}

/// The same by name, as `caches()` shows it.
const KINDS: [&str; 6] = [
    "vocabulary",
    "word_totals",
    "file_words",
    "word_files",
    "metadata",
    "search_terms",
];

/// The most names that are compared to find the most similar one.
const COMPARED_NAMES_MAX: usize = 10_000;

/// Longer names are not compared.
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
            slots: Slots::new(cache.clone(), KINDS.len()),
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

    /// The segments in groups that share no file, each by their places, ascending.
    pub(crate) fn partitions(&self) -> Vec<Vec<usize>> {
        // For each segment the first segment of its group.
        let mut first: Vec<usize> = (0..self.segments.len()).collect();
        fn find(first: &[usize], mut segment: usize) -> usize {
            while first[segment] != segment {
                segment = first[segment];
            }
            segment
        }
        for file in self.index.cut() {
            let groups = self.segments_of(*file as usize);
            let mut groups: Vec<usize> = groups.map(|segment| find(&first, segment)).collect();
            groups.sort_unstable();
            for &group in &groups[1..] {
                first[group] = groups[0];
            }
        }
        let mut partitions: Vec<Vec<usize>> = vec![Vec::new(); self.segments.len()];
        for segment in 0..self.segments.len() {
            partitions[find(&first, segment)].push(segment);
        }
        partitions.retain(|partition| !partition.is_empty());
        partitions
    }

    /// Some of the segments, which share no file with the others, as a corpus of their own.
    ///
    /// # Errors
    /// If they share a file with others.
    pub(crate) fn of_segments(&self, places: &[usize]) -> Result<StoredView> {
        let segments = places.iter().map(|&place| self.segments[place].clone());
        let (name, devices) = (self.name.clone(), self.devices.clone());
        StoredView::new(name, segments.collect(), devices, self.cache())
    }

    /// Another view of the same corpus, without a vocabulary yet.
    pub(crate) fn again(&self) -> Arc<StoredView> {
        Arc::new(StoredView::of(self.stored.clone()))
    }

    /// Whether both are views of the same corpus.
    pub(crate) fn is_same(&self, other: &StoredView) -> bool {
        Arc::ptr_eq(&self.stored, &other.stored)
    }

    /// A reference that recognizes later views of the same corpus.
    pub(crate) fn downgrade(&self) -> Weak<StoredCorpus> {
        Arc::downgrade(&self.stored)
    }

    /// All words, numbered.
    pub(crate) fn vocabulary(&self) -> Result<&Vocabulary> {
        if let Some(vocabulary) = self.vocabulary.get() {
            return Ok(vocabulary);
        }
        let make = || Vocabulary::new(&self.segments);
        let held = (self.slots).get_or_make(Kept::Vocabulary as usize, Vocabulary::bytes, make)?;
        Ok(self.vocabulary.get_or_init(|| held))
    }

    pub(super) fn has_vocabulary(&self) -> bool {
        self.pinned_vocabulary().is_some()
    }

    /// The vocabulary, which must have been made before.
    pub(super) fn known_vocabulary(&self) -> &Vocabulary {
        let vocabulary = self.pinned_vocabulary();
        vocabulary.expect("made before numbers of words were given")
    }

    fn pinned_vocabulary(&self) -> Option<&Vocabulary> {
        if let Some(vocabulary) = self.vocabulary.get() {
            return Some(vocabulary);
        }
        let held = self.slots.get(Kept::Vocabulary as usize)?.downcast().ok()?;
        Some(self.vocabulary.get_or_init(|| held))
    }

    /// All files, in order of name.
    pub(crate) fn files(&self) -> &[FileSummary] {
        self.index.files()
    }

    pub(crate) fn segments(&self) -> &[Arc<LiveSegment>] {
        &self.segments
    }

    /// The segments in groups, in order. `bytes` returns the memory that work on a segment pins: a group takes at most half of
    /// the cache, or is one segment. The other half is for temporary structures of threads.
    pub(super) fn groups_in_room(
        &self,
        bytes: impl Fn(&LiveSegment) -> u64,
    ) -> impl Iterator<Item = &[Arc<LiveSegment>]> {
        let limit = self.cache().limit() / 2;
        let mut rest = &self.segments[..];
        iter::from_fn(move || {
            let mut room = limit;
            let fits = |segment: &&Arc<LiveSegment>| {
                let left = room.checked_sub(bytes(segment));
                room = left.unwrap_or(0);
                left.is_some()
            };
            let count = rest.iter().take_while(fits).count().max(1);
            let group;
            (group, rest) = rest.split_at_checked(count)?;
            Some(group)
        })
    }

    /// Items sorted by segment, in groups of those whose segments the cache has room for together.
    pub(super) fn in_room<'i, T>(
        &self,
        items: &'i [T],
        segment_of: impl Fn(&T) -> usize,
    ) -> Vec<&'i [T]> {
        let mut groups = Vec::new();
        let (mut first, mut rest) = (0, items);
        for segments in self.groups_in_room(LiveSegment::lookup_bytes) {
            first += segments.len();
            let count = rest.partition_point(|item| segment_of(item) < first);
            let group;
            (group, rest) = rest.split_at(count);
            groups.push(group);
        }
        // Items without a segment, where there are no segments.
        groups.push(rest);
        groups.retain(|group| !group.is_empty());
        groups
    }

    /// The structures of the corpus in the cache, beside those of segments: their names and states.
    pub(crate) fn cached(&self) -> impl Iterator<Item = (&'static str, CachedFacts)> {
        let facts = self.slots.facts().into_iter();
        facts.map(|facts| (KINDS[facts.index], facts))
    }

    /// What several segments say together, made by `make` if the cache does not hold it. It is made anew where a path or a device
    /// is demanded.
    pub(super) fn kept<T: Send + Sync + 'static>(
        &self,
        kind: Kept,
        run: Run<'_>,
        bytes: impl Fn(&T) -> usize,
        make: impl FnOnce() -> Result<T>,
    ) -> Result<Arc<T>> {
        if run.forced.is_some() || self.devices.are_demanded() {
            return make().map(Arc::new);
        }
        self.slots.get_or_make(kind as usize, bytes, make)
    }

    /// The place in the cache of what is kept.
    pub(super) fn slot(&self, kind: Kept) -> (&Arc<Slots>, usize) {
        (&self.slots, kind as usize)
    }

    pub(super) fn cache(&self) -> &Arc<Cache> {
        self.slots.cache()
    }

    pub(crate) fn devices(&self) -> &Arc<Devices> {
        &self.devices
    }

    /// A view of the segment of a part.
    pub(super) fn segment(&self, part: &Part) -> SegmentView {
        SegmentView::of(self.live(part))
    }

    pub(super) fn live(&self, part: &Part) -> &Arc<LiveSegment> {
        &self.segments[part.segment as usize]
    }

    /// The file of a name.
    pub(crate) fn find_file(&self, name: &str) -> Option<usize> {
        self.index.find(name)
    }

    /// The error for a missing file.
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

    /// Builds the structures for finding words around edits of some files, and for moving places; pinned as long as the caller
    /// keeps the result.
    pub(super) fn prepare_edits(
        &self,
        files: impl Iterator<Item = usize>,
        stop: &AtomicBool,
    ) -> Result<Vec<SegmentView>> {
        let segments = files.flat_map(|file| self.segments_of(file));
        let segments: BTreeSet<usize> = segments.collect();
        let prepare = |segment| {
            let segment = self.segment_at(segment);
            check(stop)?;
            segment.content()?;
            check(stop)?;
            segment.prepare_offsets()?;
            Ok(segment)
        };
        segments.into_iter().map(prepare).collect()
    }

    /// Views of the first of some segments, given by their places, with the structures for extracts, up to half of the cache. So
    /// threads that begin together share them.
    ///
    /// # Errors
    /// If a segment is damaged, or `stop` is set.
    pub(crate) fn with_extracts(
        &self,
        segments: impl IntoIterator<Item = usize>,
        stop: &AtomicBool,
    ) -> Result<Vec<SegmentView>> {
        let (mut room, mut views) = (self.cache().limit() / 2, Vec::new());
        for index in segments {
            let segment = self.segment_at(index);
            let Some(left) = room.checked_sub(segment.lookup_bytes()) else {
                break;
            };
            room = left;
            check(stop)?;
            segment.prepare_extracts()?;
            views.push(segment);
        }
        Ok(views)
    }

    /// The bytes of text.
    pub(crate) fn bytes(&self) -> u64 {
        self.segments
            .iter()
            .map(|segment| segment.text_bytes())
            .sum()
    }

    /// The places of the segments that have parts of a file.
    pub(crate) fn segments_of(&self, file: usize) -> impl Iterator<Item = usize> {
        self.index
            .parts(file)
            .iter()
            .map(|part| part.segment as usize)
    }

    /// The parts of some files by segment: the places of segments, each with the entries of its file table, ascending.
    pub(super) fn parts_by_segment(
        &self,
        files: impl Iterator<Item = usize>,
    ) -> impl Iterator<Item = (usize, Vec<u32>)> {
        let mut entries = vec![Vec::new(); self.segments.len()];
        for part in files.flat_map(|file| self.index.parts(file)) {
            entries[part.segment as usize].push(part.file);
        }
        let asked = entries.into_iter().enumerate();
        asked
            .filter(|(_, entries)| !entries.is_empty())
            .map(|(index, mut entries)| {
                entries.sort_unstable();
                (index, entries)
            })
    }

    /// The files that a segment has parts of.
    pub(crate) fn files_in(&self, segment: usize) -> Result<impl Iterator<Item = usize>> {
        let entries = self.segments[segment].files()?.len() as u32;
        // Segments of a corpus are counted by u32.
        Ok((0..entries).map(move |number| self.index.file_of(segment as u32, number)))
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

    /// A view of the segment at a place.
    pub(super) fn segment_at(&self, index: usize) -> SegmentView {
        SegmentView::of(&self.segments[index])
    }

    /// The file that a segment's file is a part of.
    pub(super) fn file_number(&self, segment: usize, number: u32) -> u32 {
        // Both are counted by u32.
        self.index.file_of(segment as u32, number) as u32
    }

    /// For each entry of a segment's file table the file that it is a part of.
    pub(super) fn file_numbers(&self, segment: usize) -> Result<Vec<u32>> {
        let entries = self.segments[segment].files()?.len() as u32;
        Ok((0..entries)
            .map(|number| self.file_number(segment, number))
            .collect())
    }

    /// Gives words of a segment the numbers of the corpus.
    pub(super) fn to_numbers(&self, segment: usize, words: &mut [u32]) -> Result<()> {
        let vocabulary = self.vocabulary()?;
        if vocabulary.numbers(segment).is_some() {
            let words = words.par_iter_mut();
            words.for_each(|word| *word = vocabulary.number(segment, *word));
        }
        Ok(())
    }

    /// The segment's numbers of words; none if it lacks one of them.
    pub(super) fn segment_words(&self, segment: usize, words: &[u32]) -> Result<Option<Vec<u32>>> {
        // The numbers of the corpus are those of its only segment.
        if self.segments.len() == 1 {
            return Ok(Some(words.to_vec()));
        }
        let Some(numbers) = self.vocabulary()?.numbers(segment) else {
            return Ok(Some(words.to_vec()));
        };
        let find = |&word: &u32| {
            let at = partition_point(numbers.len(), |at| numbers.get(at) < u64::from(word));
            // Numbers are u32.
            (at < numbers.len() && numbers.get(at) == u64::from(word)).then_some(at as u32)
        };
        Ok(words.iter().map(find).collect())
    }
}

/// The segments of one piece of work, pinned until it is done.
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

/// The most similar of the files' names, if it is similar enough.
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
