//! Searches: the places of a word, in a file or in all, by bytes or by words, one by one or many at once.
//!
//! Invariant: occurrences are those in the current texts, ascending. Each segment finds them by the cheapest of the access paths
//! below; those in later parts of a file move by where the part begins, those behind edits by the length of the edits. Devices
//! answer a batch if they take all of it.

use std::borrow::Cow;
use std::mem;
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use rayon::prelude::*;
use zipfdb_kernels::gpu::{DeviceQueries, DeviceStructures, Gpu, SearchResults, WordQuery};
use zipfdb_kernels::{
    GrammarView, Lengths, Parents, Structures, WordPlaces, WordTerminals, cost_without_parents,
    locate, locate_in_file,
};
use zipfdb_sql::shorten;
use zipfdb_storage::{FileEntry, IndexKind};

use super::access_path::{AccessPath, PartitionOperation, PathName, Run, answer};
use super::batch_results::{FileOffsets, Found, FoundPart};
use super::corpus_view::CorpusView;
use super::count::{ANY_WORD, Lookup, WordInPart};
use super::device_partitions::in_file;
use super::file_index::Part;
use super::numbering::WordSource;
use super::placement::PlacementPlan;
use super::stored_view::StoredView;
use crate::bisect::gallop;
use crate::runtime::device::{Kind, OnDevice};
use crate::runtime::interrupt::check;
use crate::segment::cost::{
    DEVICE_LOOKUP_COST, DEVICE_SEARCH_COST, LISTS_BUILD_COST, LISTS_LOAD_COST, LISTS_LOOKUP_COST,
    LISTS_OCCURRENCE_COST, LOOKUP_COST, OCCURRENCE_COST, OCCURRENCE_INDEX_COST, PARENTS_BUILD_COST,
    SYMBOL_COST, Size,
};
use crate::segment::{
    LiveSegment, Offsets, Positions, SEARCH_SYMBOL_BYTES, SegmentView, StructureKind, TokenWords,
    Unit, WordLengths, WordSignatures,
};
use crate::{Error, Result};

/// The offsets of a word, which the segment has, in each file that has it; files ascend.
pub(crate) struct SegmentSearch;

/// Files of a segment, each with offsets or positions; files ascend.
type SegmentPlaces = Vec<(u32, Vec<u64>)>;

impl PartitionOperation for SegmentSearch {
    type Question<'a> = WordTerminals;
    type Answer = SegmentPlaces;

    const PATHS: &'static [AccessPath<SegmentSearch>] = &[
        AccessPath {
            name: PathName::OccurrenceLists,
            needs: &[],
            cost: |_, segment| segment.lists_cost(Unit::Bytes),
            run: |word, segment, run| {
                let offsets = match segment.lists(Unit::Bytes, run)? {
                    Some(lists) => {
                        lists.places(segment.word_of()?[word.first as usize], 0..u64::MAX)
                    }
                    None => segment.offsets_by_parents(*word)?,
                };
                segment.by_file(Unit::Bytes, offsets)
            },
        },
        AccessPath {
            name: PathName::OccurrenceIndex,
            needs: &[StructureKind::OccurrenceIndex],
            cost: |_, segment| segment.occurrence_index_cost(),
            run: |word, segment, run| match segment.find_on_disk(
                Unit::Bytes,
                word.first,
                0..u64::MAX,
            )? {
                Some(found) => segment.by_file(Unit::Bytes, found),
                None => answer::<SegmentSearch>(word, segment, run.unforced()),
            },
        },
        AccessPath {
            name: PathName::Parents,
            needs: &OFFSETS_NEEDS,
            cost: |_, segment| Some(segment.by_parents_cost(None)),
            run: |word, segment, run| {
                let begin = Instant::now();
                let offsets = segment.offsets_by_parents(*word)?;
                segment.spend_on_lists(Unit::Bytes, begin, run.stop)?;
                segment.by_file(Unit::Bytes, offsets)
            },
        },
    ];
}

/// The offsets of a word, which the segment has, in a file.
pub(crate) struct FileSearch;

impl PartitionOperation for FileSearch {
    type Question<'a> = WordInPart;
    type Answer = Vec<u64>;

    const PATHS: &'static [AccessPath<FileSearch>] = &[
        AccessPath {
            name: PathName::OccurrenceLists,
            needs: &[],
            cost: |_, segment| segment.lists_cost(Unit::Bytes),
            run: |question, segment, run| {
                let found = segment.in_lists(Unit::Bytes, *question, run)?;
                found.map_or_else(|| segment.file_offsets_by_parents(*question), Ok)
            },
        },
        AccessPath {
            name: PathName::OccurrenceIndex,
            needs: &[StructureKind::OccurrenceIndex],
            cost: |_, segment| segment.occurrence_index_cost(),
            run: |question, segment, run| {
                let found = segment.find_in_file_on_disk(Unit::Bytes, *question)?;
                let other = || answer::<FileSearch>(question, segment, run.unforced());
                found.map_or_else(other, Ok)
            },
        },
        AccessPath {
            name: PathName::Decode,
            needs: &[StructureKind::Bodies],
            cost: |question, segment| segment.alone_cost(question.file, StructureKind::Grammar),
            run: |question, segment, run| {
                let begin = Instant::now();
                let alone = segment.ask_alone(question.file, StructureKind::Grammar, |alone| {
                    alone.locate(question.word)
                })?;
                segment.spend_on_lists(Unit::Bytes, begin, run.stop)?;
                alone.map_or_else(|| segment.file_offsets_by_parents(*question), Ok)
            },
        },
        AccessPath {
            name: PathName::Parents,
            needs: &OFFSETS_NEEDS,
            cost: |question, segment| Some(segment.by_parents_cost(Some(question.file))),
            run: |question, segment, run| {
                let begin = Instant::now();
                let offsets = segment.file_offsets_by_parents(*question)?;
                segment.spend_on_lists(Unit::Bytes, begin, run.stop)?;
                Ok(offsets)
            },
        },
    ];
}

/// The positions of a word, which the segment has, in a file, counted in words.
pub(crate) struct FilePositions;

impl PartitionOperation for FilePositions {
    type Question<'a> = WordInPart;
    type Answer = Vec<u64>;

    const PATHS: &'static [AccessPath<FilePositions>] = &[
        AccessPath {
            name: PathName::OccurrenceLists,
            needs: &[],
            cost: |_, segment| segment.lists_cost(Unit::Words),
            run: |question, segment, run| {
                let found = segment.in_lists(Unit::Words, *question, run)?;
                found.map_or_else(|| segment.positions_by_parents(*question), Ok)
            },
        },
        AccessPath {
            name: PathName::OccurrenceIndex,
            needs: &[StructureKind::OccurrenceIndex],
            cost: |_, segment| segment.occurrence_index_cost(),
            run: |question, segment, run| {
                let found = segment.find_in_file_on_disk(Unit::Words, *question)?;
                let other = || answer::<FilePositions>(question, segment, run.unforced());
                found.map_or_else(other, Ok)
            },
        },
        AccessPath {
            name: PathName::Decode,
            needs: &[StructureKind::Bodies],
            cost: |question, segment| segment.alone_cost(question.file, StructureKind::WordGrammar),
            run: |question, segment, run| {
                let (file, word, begin) = (question.file, question.word, Instant::now());
                let alone = segment.ask_alone(file, StructureKind::WordGrammar, |alone| {
                    alone.positions(word)
                })?;
                segment.spend_on_lists(Unit::Words, begin, run.stop)?;
                alone.map_or_else(|| segment.positions_by_parents(*question), Ok)
            },
        },
        AccessPath {
            name: PathName::Parents,
            needs: &POSITIONS_NEEDS,
            cost: |_, _| Some(LOOKUP_COST),
            run: |question, segment, run| {
                let begin = Instant::now();
                let positions = segment.positions_by_parents(*question)?;
                segment.spend_on_lists(Unit::Words, begin, run.stop)?;
                Ok(positions)
            },
        },
    ];
}

/// The positions of a word, which the segment has, in each file that has it; files ascend.
pub(crate) struct SegmentPositions;

impl PartitionOperation for SegmentPositions {
    type Question<'a> = WordTerminals;
    type Answer = SegmentPlaces;

    const PATHS: &'static [AccessPath<SegmentPositions>] = &[
        AccessPath {
            name: PathName::OccurrenceLists,
            needs: &[],
            cost: |_, segment| segment.lists_cost(Unit::Words),
            run: |word, segment, run| {
                let positions = match segment.lists(Unit::Words, run)? {
                    Some(lists) => {
                        lists.places(segment.word_of()?[word.first as usize], 0..u64::MAX)
                    }
                    None => segment.all_positions_by_parents(*word)?,
                };
                segment.by_file(Unit::Words, positions)
            },
        },
        AccessPath {
            name: PathName::OccurrenceIndex,
            needs: &[StructureKind::OccurrenceIndex],
            cost: |_, segment| segment.occurrence_index_cost(),
            run: |word, segment, run| match segment.find_on_disk(
                Unit::Words,
                word.first,
                0..u64::MAX,
            )? {
                Some(found) => segment.by_file(Unit::Words, found),
                None => answer::<SegmentPositions>(word, segment, run.unforced()),
            },
        },
        AccessPath {
            name: PathName::Parents,
            needs: &POSITIONS_NEEDS,
            cost: |_, _| Some(LOOKUP_COST),
            run: |word, segment, run| {
                let begin = Instant::now();
                let positions = segment.all_positions_by_parents(*word)?;
                segment.spend_on_lists(Unit::Words, begin, run.stop)?;
                segment.by_file(Unit::Words, positions)
            },
        },
    ];
}

/// The structures for finding offsets by the grammar.
const OFFSETS_NEEDS: [StructureKind; 2] = [StructureKind::Lengths, StructureKind::Signatures];

/// The structures for finding positions by the grammar.
const POSITIONS_NEEDS: [StructureKind; 3] = [
    StructureKind::WordLengths,
    StructureKind::WordSignatures,
    StructureKind::WordUses,
];

/// Bytes of a token in text, about.
const BYTES_A_TOKEN: u64 = 5;

/// Bytes of occurrence lists for each symbol, about.
const LISTS_SYMBOL_BYTES: u64 = 16;

/// Bytes of parents for each symbol, about.
const PARENTS_SYMBOL_BYTES: u64 = 12;

/// The token at `place` of the segment, which lies in `file`, by lengths in one unit: where it begins in another unit, the token,
/// and the place within it. `enter` gets the symbols of the root, then of the bodies, from the one with the place on.
pub(super) fn descend(
    view: GrammarView<'_>,
    (lengths, others): (&Lengths, &Lengths),
    file: u32,
    place: u64,
    mut enter: impl FnMut(Range<usize>),
) -> (u64, u32, u64) {
    let (root_position, mut rest) = lengths.find_in_root(view, file, place);
    let mut start = others.root_start(view, root_position);
    let mut symbol = view.root[root_position];
    enter(root_position..view.root_range(file).end);
    while let Some(rule) = view.rule(symbol) {
        let index;
        (index, rest) = lengths.find_in_body(view, rule, rest);
        start += others.body_start(view, rule, index);
        symbol = view.body(rule)[index];
        let body = view.body_range(rule);
        enter(body.start + index..body.end);
    }
    (start, symbol, rest)
}

/// Goes one level down; the level above continues behind its symbol.
fn push_level(stack: &mut Vec<(u32, u32)>, symbols: Range<usize>) {
    if let Some(above) = stack.last_mut() {
        above.0 += 1;
    }
    // Offsets are u32.
    stack.push((symbols.start as u32, symbols.end as u32));
}

/// The start of a token of a file.
pub(super) struct TokenStart {
    /// The number of words before it.
    pub(super) position: u64,
    pub(super) offset: u64,
}

impl SegmentView {
    /// The cost of a look-up in occurrence lists; infinite if they are not due, none if the text has too many occurrences for
    /// them.
    fn lists_cost(&self, unit: Unit) -> Option<f64> {
        let lists = match unit {
            Unit::Bytes => self.pinned::<Offsets>().map(|lists| lists.0.is_some()),
            Unit::Words => self.pinned::<Positions>().map(|lists| lists.0.is_some()),
        };
        match lists {
            Some(true) => Some(LISTS_LOOKUP_COST),
            Some(false) => None,
            None if self.has_room(self.lists_bytes()) => {
                let is_due = self.budgets.places[unit as usize].is_due(self.lists_price());
                Some(if is_due {
                    LISTS_LOOKUP_COST
                } else {
                    f64::INFINITY
                })
            }
            None => None,
        }
    }

    /// The cost of a look-up by parents, in a file or in all. Parents that the cache has no room for are not there, and the roots are
    /// read instead.
    pub(super) fn by_parents_cost(&self, file: Option<u32>) -> f64 {
        let symbols = self.size().0;
        if self.has(StructureKind::Parents) || self.has_room(symbols * PARENTS_SYMBOL_BYTES) {
            return LOOKUP_COST;
        }
        let entry = file.and_then(|file| self.files().ok()?.get(file as usize));
        let share = entry.map_or(1.0, |entry| {
            entry.bytes as f64 / self.text_bytes().max(1) as f64
        });
        LOOKUP_COST + symbols as f64 * share * SYMBOL_COST
    }

    /// The price of building occurrence lists, or of reading them back from an index, in nanoseconds.
    fn lists_price(&self) -> u64 {
        let work = if self.has_index(IndexKind::Occurrences) {
            self.size().0 as f64 * LISTS_LOAD_COST
        } else {
            self.text_size().0 as f64 * LISTS_BUILD_COST
        };
        // Below 2^40.
        (work / self.thread_count()) as u64
    }

    fn lists_bytes(&self) -> u64 {
        self.size().0 * LISTS_SYMBOL_BYTES
    }

    /// The places of words, counted in bytes or words from the start of the segment; none if they take too much memory, or
    /// another thread builds them.
    fn lists(&self, unit: Unit, run: Run<'_>) -> Result<Option<&WordPlaces>> {
        let budget = &self.budgets.places[unit as usize];
        let (price, bytes) = (self.lists_price(), self.lists_bytes());
        let is_forced = run.forced == Some(PathName::OccurrenceLists);
        let lists = match unit {
            Unit::Bytes if is_forced => Some(&self.pin_until::<Offsets>(run.stop)?.0),
            Unit::Words if is_forced => Some(&self.pin_until::<Positions>(run.stop)?.0),
            Unit::Bytes => {
                let lists = self.pin_if_due::<Offsets>(budget, price, bytes, run.stop)?;
                lists.map(|lists| &lists.0)
            }
            Unit::Words => {
                let lists = self.pin_if_due::<Positions>(budget, price, bytes, run.stop)?;
                lists.map(|lists| &lists.0)
            }
        };
        Ok(lists.and_then(Option::as_ref))
    }

    /// Adds the time of a search since `begin` to the budget of occurrence lists that the cache has no room for. If they were due
    /// before they are written to a temporary index.
    fn spend_on_lists(&self, unit: Unit, begin: Instant, stop: &AtomicBool) -> Result<()> {
        let (price, bytes) = (self.lists_price(), self.lists_bytes());
        if self.has_room(bytes) {
            return Ok(());
        }
        let budget = &self.budgets.places[unit as usize];
        let was_due = budget.is_due(price);
        budget.add_since(begin);
        if was_due {
            self.write_index_if_due(IndexKind::Occurrences, budget, price, bytes, stop)?;
        }
        Ok(())
    }

    /// The occurrences of a word in a file, counted from its start, by lists.
    fn in_lists(&self, unit: Unit, question: WordInPart, run: Run<'_>) -> Result<Option<Vec<u64>>> {
        let Some(lists) = self.lists(unit, run)? else {
            return Ok(None);
        };
        let range = self.file_range(unit, question.file)?;
        let start = range.start;
        let mut found = match self.number_of(question.word)? {
            Some(number) => lists.places(number, range),
            None => Vec::new(),
        };
        for occurrence in &mut found {
            *occurrence -= start;
        }
        Ok(Some(found))
    }

    /// Offsets of a word, counted from the start of the segment.
    fn offsets_by_parents(&self, word: WordTerminals) -> Result<Vec<u64>> {
        let begin = Instant::now();
        let view = self.view()?;
        let range = 0..view.root.len();
        let tokens = self.bytes()? / BYTES_A_TOKEN;
        let structures = self.structures(view, range.clone(), tokens)?;
        let offsets = locate(structures, word, range, tokens);
        self.budgets.places[Unit::Bytes as usize].add_since(begin);
        Ok(offsets)
    }

    /// Offsets in a file.
    fn file_offsets_by_parents(&self, question: WordInPart) -> Result<Vec<u64>> {
        let WordInPart { file, word } = question;
        let view = self.view()?;
        let tokens = self.about_tokens(view, file)?;
        let begin = Instant::now();
        let structures = self.structures(view, view.root_range(file), tokens)?;
        let offsets = locate_in_file(structures, word, file, tokens);
        self.budgets.places[Unit::Bytes as usize].add_since(begin);
        Ok(offsets)
    }

    /// Positions in a file.
    fn positions_by_parents(&self, question: WordInPart) -> Result<Vec<u64>> {
        let words = self.files()?[question.file as usize].words;
        self.locate_words(question.word, |structures, word| {
            locate_in_file(structures, word, question.file, words)
        })
    }

    /// Positions of a word, counted from the start of the segment.
    fn all_positions_by_parents(&self, word: WordTerminals) -> Result<Vec<u64>> {
        let words = self.text_size().0;
        self.locate_words(word, |structures, word| {
            let root = 0..structures.view.root.len();
            locate(structures, word, root, words)
        })
    }

    /// Positions that a search of the grammar over words finds.
    fn locate_words(
        &self,
        word: WordTerminals,
        search: impl FnOnce(Structures<'_>, WordTerminals) -> Vec<u64>,
    ) -> Result<Vec<u64>> {
        let Some(number) = self.number_of(word)? else {
            return Ok(Vec::new());
        };
        let structures = Structures {
            view: self.word_grammar()?.view(),
            lengths: self.word_lengths()?,
            signatures: &self.pin::<WordSignatures>()?.0,
            parents: Some(&self.word_uses()?.parents),
        };
        let terminals = WordTerminals {
            first: number,
            spaced: number + 1,
            end: number + 1,
        };
        let begin = Instant::now();
        let positions = search(structures, terminals);
        self.budgets.places[Unit::Words as usize].add_since(begin);
        Ok(positions)
    }

    /// The range of a file, counted from the start of the segment.
    fn file_range(&self, unit: Unit, file: u32) -> Result<Range<u64>> {
        let lengths = match unit {
            Unit::Bytes => self.pinned::<Lengths>(),
            Unit::Words => self.pinned::<WordLengths>().map(|lengths| &lengths.0),
        };
        if let Some(lengths) = lengths {
            return Ok(lengths.file_range(file));
        }
        let length = |file: &FileEntry| match unit {
            Unit::Bytes => file.bytes,
            Unit::Words => file.words,
        };
        let files = self.files()?;
        let start = files[..file as usize].iter().map(length).sum();
        Ok(start..start + length(&files[file as usize]))
    }

    /// The cost of the places of a word by an index on disk, in nanoseconds; none without one.
    fn occurrence_index_cost(&self) -> Option<f64> {
        self.has_index(IndexKind::Occurrences)
            .then_some(OCCURRENCE_INDEX_COST)
    }

    /// The places of a word, given its first token, by an index on disk; none without one.
    fn find_on_disk(&self, unit: Unit, token: u32, range: Range<u64>) -> Result<Option<Vec<u64>>> {
        let begin = Instant::now();
        let found = self.places_on_disk(unit, token, range)?;
        self.budgets.places[unit as usize].add_since(begin);
        Ok(found)
    }

    /// The occurrences of a word in a file, counted from its start, by an index on disk; none without one.
    fn find_in_file_on_disk(&self, unit: Unit, question: WordInPart) -> Result<Option<Vec<u64>>> {
        let range = self.file_range(unit, question.file)?;
        let start = range.start;
        let found = self.find_on_disk(unit, question.word.first, range)?;
        let from_start = |found: Vec<u64>| found.into_iter().map(|place| place - start).collect();
        Ok(found.map(from_start))
    }

    /// The offsets of a word's own first bytes at places of it, given its first token; each place is a file and a position there,
    /// ascending. None without an index, or if the grammar is in memory, which is as fast.
    pub(super) fn offsets_on_disk(
        &self,
        token: u32,
        places: &[(u32, u64)],
    ) -> Result<Option<Vec<u64>>> {
        if self.has_grammar() || !self.has_index(IndexKind::Occurrences) {
            return Ok(None);
        }
        let all = 0..u64::MAX;
        let positions = self.places_on_disk(Unit::Words, token, all.clone())?;
        let offsets = self.places_on_disk(Unit::Bytes, token, all)?;
        let (Some(positions), Some(offsets)) = (positions, offsets) else {
            return Ok(None);
        };
        let (mut found, mut rest) = (Vec::with_capacity(places.len()), &positions[..]);
        // The start of the current file, added up on the way: there may be very many files.
        let files = self.files()?;
        let (mut file, mut first_word, mut first_byte) = (0, 0, 0);
        for of_file in places.chunk_by(|left, right| left.0 == right.0) {
            let next = of_file[0].0 as usize;
            for passed in &files[file..next] {
                first_word += passed.words;
                first_byte += passed.bytes;
            }
            file = next;
            for (_, position) in of_file {
                let position = first_word + position;
                rest = &rest[gallop(rest.len(), |at| rest[at] < position)..];
                let offset = offsets.get(positions.len() - rest.len());
                match (rest.first(), offset) {
                    (Some(&same), Some(offset)) if same == position => {
                        found.push(offset - first_byte);
                    }
                    // One of the indexes is not of this text, or both are damaged in a way that their checksums do not show.
                    _ => return Ok(None),
                }
            }
        }
        Ok(Some(found))
    }

    /// Offsets in the segment as those in each of its files.
    fn by_file(&self, unit: Unit, offsets: Vec<u64>) -> Result<SegmentPlaces> {
        let lengths = match unit {
            Unit::Bytes => self.pinned::<Lengths>(),
            Unit::Words => self.pinned::<WordLengths>().map(|lengths| &lengths.0),
        };
        let starts: Cow<'_, [u64]> = match lengths {
            Some(lengths) => Cow::Borrowed(&lengths.file_starts),
            None => {
                let mut start = 0;
                let ends = self.files()?.iter().map(|file| {
                    start += match unit {
                        Unit::Bytes => file.bytes,
                        Unit::Words => file.words,
                    };
                    start
                });
                std::iter::once(0).chain(ends).collect()
            }
        };
        let mut rest = &offsets[..];
        let mut files = Vec::new();
        while let Some(&first) = rest.first() {
            // The last file that starts at or before it: empty ones lie before.
            let file = starts[..starts.len() - 1].partition_point(|&start| start <= first) - 1;
            let inside = rest.partition_point(|&offset| offset < starts[file + 1]);
            let (these, others) = rest.split_at(inside);
            let these = these.iter().map(|offset| offset - starts[file]).collect();
            // A segment's files are counted by a u32.
            files.push((file as u32, these));
            rest = others;
        }
        Ok(files)
    }

    /// The offsets of a word in a file.
    fn search_in_file(&self, question: WordInPart, run: Run<'_>) -> Result<Vec<u64>> {
        if question.word.first == question.word.end {
            Ok(Vec::new())
        } else {
            answer::<FileSearch>(&question, self, run)
        }
    }

    /// The places of each word in its file; files ascend.
    pub(super) fn search_on(
        &self,
        device: &OnDevice<'_>,
        queries: &[WordQuery],
    ) -> Result<Vec<FoundPart<SearchResults>>> {
        let of_file = |query: &WordQuery| query.file;
        let ask = |gpu: &Gpu, on: &DeviceStructures, queries: &[WordQuery]| {
            let uploaded = DeviceQueries::upload(gpu, queries)?;
            let found = SearchResults::download(gpu, &on.search(gpu, &uploaded)?)?;
            Ok(FoundPart::of_batch(found, queries.len()))
        };
        let add = |offsets: &mut FoundPart<SearchResults>, more: FoundPart<_>, first| {
            offsets.extend(more.items().iter().map(|offset| first + offset));
        };
        self.look_up_on(device, queries, of_file, in_file, ask, add)
    }

    /// For each word its offsets in each file that has it.
    fn search_all_on<W: AsRef<[u8]>>(
        &self,
        device: &OnDevice<'_>,
        words: &[W],
    ) -> Result<Vec<SegmentPlaces>> {
        let found = words.iter().map(|word| self.find_one_word(word.as_ref()));
        let found = found.collect::<Result<Vec<_>>>()?;
        let known: Vec<(usize, WordTerminals)> = (found.into_iter().enumerate())
            .filter(|(_, word)| word.first < word.end)
            .collect();
        let mut all: Vec<SegmentPlaces> = words.iter().map(|_| Vec::new()).collect();
        if known.is_empty() {
            return Ok(all);
        }
        // A segment's files are counted by a u32.
        let files = 0..self.files()?.len() as u32;
        let queries = files.flat_map(|file| {
            let known = known.iter();
            known.map(move |&(_, word)| WordQuery { word, file })
        });
        let queries: Vec<WordQuery> = queries.collect();
        let offsets = self.search_on(device, &queries)?;
        let asked = queries.iter().zip(known.iter().cycle());
        for ((query, &(number, _)), offsets) in asked.zip(offsets) {
            if !offsets.items().is_empty() {
                all[number].push((query.file, offsets.items().to_vec()));
            }
        }
        Ok(all)
    }

    #[cfg(test)]
    pub(crate) fn build_lists(&self) -> Result<()> {
        self.pin::<Offsets>()?;
        self.pin::<Positions>().map(drop)
    }

    /// Whether there are occurrence lists. Text with too many occurrences has none.
    fn has_lists(&self, unit: Unit) -> bool {
        match unit {
            Unit::Bytes => (self.pinned::<Offsets>()).is_some_and(|lists| lists.0.is_some()),
            Unit::Words => (self.pinned::<Positions>()).is_some_and(|lists| lists.0.is_some()),
        }
    }

    /// The offset of the own first byte of word number `position`, which the file has.
    ///
    /// Work: one step down the grammar a level.
    pub(crate) fn offset_of_word(&self, file: u32, position: u64) -> Result<u64> {
        let view = self.view()?;
        let (words, bytes) = (self.token_words()?, self.lengths()?);
        let start = words.file_range(file).start;
        let (offset, token, _) = descend(view, (words, bytes), file, start + position, drop);
        let space = u64::from(self.dictionary()?.has_glued_space(token));
        Ok(offset - bytes.file_range(file).start + space)
    }

    /// The number of words of a file that begin before byte `offset` of it, which the file has.
    ///
    /// Work: one step down the grammar a level.
    pub(crate) fn words_before(&self, file: u32, offset: u64) -> Result<u64> {
        let view = self.view()?;
        let (words, bytes) = (self.token_words()?, self.lengths()?);
        let start = bytes.file_range(file).start;
        let (before, token, rest) = descend(view, (bytes, words), file, start + offset, drop);
        let before = before - words.file_range(file).start;
        let dictionary = self.dictionary()?;
        let is_word = token < dictionary.word_tokens();
        let space = u64::from(is_word && dictionary.has_glued_space(token));
        Ok(before + u64::from(is_word && rest > space))
    }

    /// The token at a byte or word of a file, which the file has. `stack` gets the rest of the root from there, then of the
    /// bodies within: `[start, end)` in root or bodies.
    ///
    /// Work: one step down the grammar a level.
    pub(super) fn token_at(
        &self,
        file: u32,
        unit: Unit,
        place: u64,
        stack: &mut Vec<(u32, u32)>,
    ) -> Result<TokenStart> {
        let view = self.view()?;
        let (words, bytes) = (self.token_words()?, self.lengths()?);
        let (lengths, others) = match unit {
            Unit::Bytes => (bytes, words),
            Unit::Words => (words, bytes),
        };
        let start = lengths.file_range(file).start;
        stack.clear();
        let enter = |symbols| push_level(stack, symbols);
        let (other, _, rest) = descend(view, (lengths, others), file, start + place, enter);
        let (this, other) = (place - rest, other - others.file_range(file).start);
        let (position, offset) = match unit {
            Unit::Bytes => (other, this),
            Unit::Words => (this, other),
        };
        Ok(TokenStart { position, offset })
    }

    /// The rest of a file's root in the grammar over words, from word number `position` on, which the file has; as that of
    /// [`SegmentView::token_at`].
    ///
    /// Work: one step down the grammar a level.
    pub(super) fn left_from_word(&self, file: u32, position: u64) -> Result<Vec<(u32, u32)>> {
        let (view, words) = (self.word_grammar()?.view(), self.word_lengths()?);
        let (start, mut stack) = (words.file_range(file).start, Vec::new());
        let enter = |symbols| push_level(&mut stack, symbols);
        descend(view, (words, words), file, start + position, enter);
        Ok(stack)
    }

    /// Lengths of the grammar over tokens, in words.
    pub(super) fn token_words(&self) -> Result<&Lengths> {
        Ok(&self.pin::<TokenWords>()?.0)
    }

    /// Builds the structures for offsets.
    pub(crate) fn prepare_offsets(&self) -> Result<()> {
        self.signatures()?;
        self.lengths().map(drop)
    }

    fn structures<'a>(
        &'a self,
        view: GrammarView<'a>,
        positions: Range<usize>,
        tokens: u64,
    ) -> Result<Structures<'a>> {
        Ok(Structures {
            view,
            lengths: self.lengths()?,
            signatures: self.signatures()?,
            parents: self.parents(view, positions, tokens)?,
        })
    }

    /// The parents, if they are in memory or due.
    pub(super) fn parents(
        &self,
        view: GrammarView<'_>,
        positions: Range<usize>,
        tokens: u64,
    ) -> Result<Option<&Parents>> {
        if let Some(parents) = self.pinned() {
            return Ok(Some(parents));
        }
        let symbols = (view.symbols.len() + view.root.len()) as u64;
        // Below 2^36.
        let (budget, price) = (
            &self.budgets.parents,
            (symbols as f64 * PARENTS_BUILD_COST) as u64,
        );
        let cost = cost_without_parents(view, positions, tokens);
        budget.add(cost.min(price));
        let never = AtomicBool::new(false);
        self.pin_if_due(budget, price, symbols * PARENTS_SYMBOL_BYTES, &never)
    }

    /// For each word its offsets in each file that has it.
    fn search_each<W>(&self, words: &[W], run: Run<'_>) -> Result<Vec<SegmentPlaces>>
    where
        W: AsRef<[u8]> + Sync,
    {
        let words = words.par_iter();
        words.map(|word| self.search(word.as_ref(), run)).collect()
    }

    /// A word's offsets in each file that has it.
    fn search(&self, word: &[u8], run: Run<'_>) -> Result<SegmentPlaces> {
        let word = self.find_one_word(word)?;
        if word.first == word.end {
            Ok(Vec::new())
        } else {
            answer::<SegmentSearch>(&word, self, run)
        }
    }

    #[cfg(test)]
    pub(crate) fn make_parents_due(&self) {
        self.budgets.parents.make_due();
    }

    #[cfg(test)]
    pub(crate) fn has_parents(&self) -> bool {
        self.has(StructureKind::Parents)
    }
}

impl LiveSegment {
    /// The bytes that searches pin, about.
    fn search_bytes(&self) -> u64 {
        if self.has(StructureKind::Offsets) || self.has_index(IndexKind::Occurrences) {
            0
        } else {
            self.size().0 * SEARCH_SYMBOL_BYTES
        }
    }

    /// Whether the offsets of words are known without building a structure.
    fn has_offsets_now(&self) -> bool {
        self.has(StructureKind::TokenWords) && self.has(StructureKind::Lengths)
    }
}

impl StoredView {
    /// For each word the stored files that have it, each with its offsets. Works on groups of segments that the cache has room
    /// for together.
    fn search_words<W>(&self, words: &[W], run: Run<'_>) -> Result<Vec<Vec<FileOffsets>>>
    where
        W: AsRef<[u8]> + Sync,
    {
        let mut found = match self.search_words_on_devices(words, run)? {
            Some(found) => found,
            None => self.search_words_on_cpu(words, run)?,
        };
        let of_word = |word: usize| {
            let found = found
                .iter_mut()
                .map(|of_segment| mem::take(&mut of_segment[word]));
            self.joined(found)
        };
        Ok((0..words.len()).map(of_word).collect())
    }

    /// For each segment and word the files of it that have the word, each with its offsets.
    fn search_words_on_cpu<W>(&self, words: &[W], run: Run<'_>) -> Result<Vec<Vec<SegmentPlaces>>>
    where
        W: AsRef<[u8]> + Sync,
    {
        let mut found = Vec::with_capacity(self.segments().len());
        for group in self.groups_in_room(LiveSegment::search_bytes) {
            let of_group = group.par_iter().map(|segment| {
                let segment = SegmentView::of(segment);
                if words.len() > 1 {
                    segment.prepare_offsets()?;
                }
                segment.search_each(words, run)
            });
            found.extend(of_group.collect::<Result<Vec<_>>>()?);
        }
        Ok(found)
    }

    /// As `search_words_on_cpu`, where devices answer for a segment; none if they answer for none.
    fn search_words_on_devices<W>(
        &self,
        words: &[W],
        run: Run<'_>,
    ) -> Result<Option<Vec<Vec<SegmentPlaces>>>>
    where
        W: AsRef<[u8]> + Sync,
    {
        if !self.devices().may_take_any() {
            return Ok(None);
        }
        let plan = || self.plan_search_at_once(words.len() as u64, run.forced);
        let plan = self.planned_with_devices(plan)?;
        let (places, costs) = plan.places();
        if places.iter().all(Option::is_none) {
            return Ok(None);
        }
        let found = self.spread(
            (Kind::Lookups, &places, &costs),
            run,
            |_| true,
            |index| self.segment_at(index).search_each(words, run),
            |index, device| self.segment_at(index).search_all_on(device, words),
        )?;
        Ok(Some(found))
    }

    /// Plans a search for `words` words in all files at once.
    fn plan_search_at_once(
        &self,
        words: u64,
        forced: Option<PathName>,
    ) -> Result<PlacementPlan<'_>> {
        let work = |size: Size| {
            let of_word =
                size.files as f64 * DEVICE_LOOKUP_COST + size.symbols as f64 * DEVICE_SEARCH_COST;
            words as f64 * of_word
        };
        let needs = &[StructureKind::Grammar, StructureKind::Signatures];
        self.plan_apart::<SegmentSearch>((&ANY_WORD, words), forced, Kind::Lookups, needs, work)
    }

    /// Offsets in the files of each segment, as those of stored files; ascending.
    fn joined(&self, found: impl Iterator<Item = SegmentPlaces>) -> Vec<FileOffsets> {
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
        files
    }

    /// The places of a word in a stored file: offsets of its first bytes, ascending.
    fn search_in(&self, file: usize, word: &[u8], run: Run<'_>) -> Result<Vec<u64>> {
        let mut offsets = Vec::new();
        for part in self.index.parts(file) {
            let segment = self.segment(part);
            let word = segment.find_one_word(word)?;
            let question = WordInPart {
                file: part.file,
                word,
            };
            append(
                &mut offsets,
                segment.search_in_file(question, run)?,
                part.first_byte,
            );
        }
        Ok(offsets)
    }

    /// The positions of a word in a stored file; ascending.
    fn positions_of(&self, file: usize, word: u32, run: Run<'_>) -> Result<Vec<u64>> {
        let (mut positions, mut before) = (Vec::new(), 0);
        for part in self.index.parts(file) {
            let segment = self.segment(part);
            let word = segment.find_word(self.known_vocabulary().word(word))?;
            if word.first < word.end {
                let question = WordInPart {
                    file: part.file,
                    word,
                };
                let found = answer::<FilePositions>(&question, &segment, run)?.into_iter();
                positions.extend(found.map(|position| before + position));
            }
            before += segment.files()?[part.file as usize].words;
        }
        Ok(positions)
    }

    /// For each stored file the positions of a word; ascending.
    fn all_positions(&self, word: u32, run: Run<'_>) -> Result<Vec<Vec<u64>>> {
        let text = self.known_vocabulary().word(word);
        let mut positions = vec![Vec::new(); self.files().len()];
        // Files of several parts, with the number of the part.
        let mut cut: Vec<(usize, usize, Vec<u64>)> = Vec::new();
        for index in 0..self.segments().len() {
            check(run.stop)?;
            let segment = self.segment_at(index);
            let word = segment.find_word(text)?;
            if word.first == word.end {
                continue;
            }
            for (number, found) in answer::<SegmentPositions>(&word, &segment, run)? {
                let file = self.file_number(index, number) as usize;
                let parts = self.index.parts(file);
                let is_it = |part: &Part| (part.segment as usize, part.file) == (index, number);
                match parts {
                    [_] => positions[file] = found,
                    _ => cut.extend(parts.iter().position(is_it).map(|part| (file, part, found))),
                }
            }
        }
        cut.sort_unstable_by_key(|&(file, part, _)| (file, part));
        for (file, part, found) in cut {
            let mut before = 0;
            for part in &self.index.parts(file)[..part] {
                before += self.segment(part).files()?[part.file as usize].words;
            }
            append(&mut positions[file], found, before);
        }
        Ok(positions)
    }

    /// For each stored file and word the offsets.
    fn search_each(&self, questions: &[(usize, &[u8])], run: Run<'_>) -> Result<Vec<Vec<u64>>> {
        let found = self.search_lookups(&self.look_up(questions)?, questions.len(), run)?;
        Ok(found.into_each(|offsets, first, more| {
            offsets.extend(more.iter().map(|offset| first + offset));
        }))
    }

    /// The offsets of `questions` questions from their look-ups, each part from its first byte.
    ///
    /// # Errors
    /// If a segment is damaged, a device fails, or the run must end.
    pub(crate) fn search_lookups(
        &self,
        lookups: &[Lookup],
        questions: usize,
        run: Run<'_>,
    ) -> Result<Found<SearchResults>> {
        let found = match self.on_devices::<FileSearch, _>(lookups, run, SegmentView::search_on)? {
            Some(found) => found,
            None => {
                let mut found = Vec::with_capacity(lookups.len());
                for lookups in self.in_room(lookups, Lookup::segment) {
                    let segments = self.prepare(lookups, SegmentView::prepare_offsets)?;
                    let of_group = lookups.par_iter().map(|lookup| {
                        check(run.stop)?;
                        let segment = segments.of(&lookup.part);
                        let offsets = segment.search_in_file(lookup.in_part(), run)?;
                        Ok((lookup, FoundPart::Own(offsets)))
                    });
                    found.extend(of_group.collect::<Result<Vec<_>>>()?);
                }
                found
            }
        };
        let key = |lookup: &Lookup| (lookup.question, lookup.part.first_byte);
        let found = found.into_iter().map(|(lookup, part)| (key(lookup), part));
        Ok(Found::new(questions, found.collect()))
    }

    /// The offset of the own first byte of a word, given by its position in its stored file.
    fn offset_of_word(&self, file: u32, position: u64) -> Result<u64> {
        let mut before = 0;
        for part in self.index.parts(file as usize) {
            let segment = self.segment(part);
            let words = segment.files()?[part.file as usize].words;
            if position < before + words {
                let offset = segment.offset_of_word(part.file, position - before)?;
                return Ok(part.first_byte + offset);
            }
            before += words;
        }
        Err(no_such_word(&self.files()[file as usize].name, position))
    }

    /// The number of words of a stored file that begin before a byte of it.
    ///
    /// # Errors
    /// If a segment is damaged.
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

    /// Builds the occurrence lists of each segment.
    #[cfg(test)]
    pub(crate) fn build_lists(&self) -> Result<()> {
        (self.segments().iter()).try_for_each(|segment| SegmentView::of(segment).build_lists())
    }
}

fn no_such_word(file: &str, position: u64) -> Error {
    Error::Invalid {
        subject: shorten(file),
        reason: format!("it has no word number {position}"),
    }
}

/// Appends offsets, moved by `first_byte`.
fn append(offsets: &mut Vec<u64>, found: Vec<u64>, first_byte: u64) {
    if offsets.is_empty() && first_byte == 0 {
        *offsets = found;
    } else {
        offsets.extend(found.into_iter().map(|offset| first_byte + offset));
    }
}

impl PlacementPlan<'_> {
    /// The same plan with the cost of `occurrences` occurrences.
    fn plus_occurrences(self, occurrences: u64) -> Self {
        let occurrence_cost = if self.is_all_by(PathName::OccurrenceLists) {
            LISTS_OCCURRENCE_COST
        } else {
            OCCURRENCE_COST
        };
        self.plus(occurrences as f64 * occurrence_cost)
    }
}

impl CorpusView {
    /// Plans a search for `words` words in each of some files, with about `occurrences` occurrences together; by words too, if
    /// positions are needed.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub(crate) fn plan_search(
        &self,
        words: u64,
        files: &[u32],
        occurrences: u64,
        asks_position: bool,
    ) -> Result<PlacementPlan<'_>> {
        let questions = || {
            let (partitions, word) = (self.partitions_of(files).into_iter(), ANY_WORD);
            partitions
                .map(move |(index, count, file)| (index, count * words, WordInPart { file, word }))
        };
        let mut plan = (self.stored()).plan_lookups::<FileSearch>(questions())?;
        if asks_position {
            let positions = (self.stored()).plan_questions::<FilePositions>(questions(), None)?;
            plan = positions.plus(plan.cost());
        }
        Ok(plan.plus_occurrences(occurrences))
    }

    /// Plans a search for `words` words with about `occurrences` occurrences in all files at once.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub(crate) fn plan_search_at_once(
        &self,
        words: u64,
        occurrences: u64,
    ) -> Result<PlacementPlan<'_>> {
        let plan = self.stored().plan_search_at_once(words, None)?;
        Ok(plan.plus_occurrences(occurrences))
    }

    /// The files that have a word, each with its offsets.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(crate) fn search(&self, word: &[u8], run: Run<'_>) -> Result<Vec<FileOffsets>> {
        let found = self.search_words(&[word], run)?;
        Ok(found.into_iter().flatten().collect())
    }

    /// Corrects the stored files that have a word, each with its offsets, by the edits.
    fn corrected_search(
        &self,
        word: &[u8],
        stored: Vec<FileOffsets>,
        run: Run<'_>,
    ) -> Result<Vec<FileOffsets>> {
        let Some(pending) = self.pending() else {
            return Ok(stored);
        };
        // Edited files are searched below.
        let is_plain = |file: usize| pending.edit(file).is_none();
        let plain = stored.into_iter().filter_map(|(stored, offsets)| {
            // Files are numbered by u32.
            let file = pending.file_now(stored as u32)? as usize;
            is_plain(file).then_some((file, offsets))
        });
        let mut found: Vec<FileOffsets> = plain.collect();
        let edited: Vec<FileOffsets> = (pending.edits.par_iter())
            .map(|edit| {
                let file = edit.file as usize;
                Ok((file, self.search_in(file, word, run)?))
            })
            .collect::<Result<_>>()?;
        let edited = edited.into_iter();
        found.extend(edited.filter(|(_, offsets)| !offsets.is_empty()));
        found.sort_unstable_by_key(|&(file, _)| file);
        Ok(found)
    }

    /// For each word the files that have it, each with its offsets.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(crate) fn search_words<W>(&self, words: &[W], run: Run<'_>) -> Result<Vec<Vec<FileOffsets>>>
    where
        W: AsRef<[u8]> + Sync,
    {
        let stored = self.stored().search_words(words, run)?;
        let words = words.par_iter().zip(stored);
        words
            .map(|(word, stored)| self.corrected_search(word.as_ref(), stored, run))
            .collect()
    }

    /// The places of a word in a file: offsets of its first bytes, ascending.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(crate) fn search_in(&self, file: usize, word: &[u8], run: Run<'_>) -> Result<Vec<u64>> {
        let (stored, edit) = self.resolve(file);
        let offsets = match stored {
            None => Vec::new(),
            Some(stored) => self.stored().search_in(stored, word, run)?,
        };
        Ok(match edit {
            None => offsets,
            Some(edit) => edit.text.moved_offsets(word, offsets),
        })
    }

    /// For each file and word the offsets.
    ///
    /// # Errors
    /// If there is no such file, a segment is damaged, a device fails, or the run must end.
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

    /// For each file, given by its place, and word the offsets.
    ///
    /// # Errors
    /// If a segment is damaged, a device fails, or the run must end.
    pub(crate) fn search_each(
        &self,
        questions: &[(usize, &[u8])],
        run: Run<'_>,
    ) -> Result<Vec<Vec<u64>>> {
        self.ask_each(
            questions,
            |asked| self.stored().search_each(asked, run),
            |offsets, edit, word| Ok(edit.text.moved_offsets(word, offsets)),
        )
    }

    /// The positions of a word, given by its number, in a file; ascending.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(crate) fn positions_of(&self, file: usize, word: u32, run: Run<'_>) -> Result<Vec<u64>> {
        let Some(pending) = self.pending() else {
            return self.stored().positions_of(file, word, run);
        };
        let stored = match (pending.stored_file(file), pending.numbering.source(word)) {
            (Some(stored), WordSource::Stored(word)) => {
                self.stored().positions_of(stored, word, run)?
            }
            _ => Vec::new(),
        };
        Ok(match pending.edit(file) {
            None => stored,
            Some(edit) => (edit.text).moved_positions(pending.numbering.met(word), stored),
        })
    }

    /// For each file the positions of a word, given by its number; ascending.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(crate) fn all_positions(&self, word: u32, run: Run<'_>) -> Result<Vec<Vec<u64>>> {
        let Some(pending) = self.pending() else {
            return self.stored().all_positions(word, run);
        };
        let mut stored = match pending.numbering.source(word) {
            WordSource::Stored(word) => self.stored().all_positions(word, run)?,
            WordSource::Fresh(_) => Vec::new(),
        };
        let files = 0..self.files().len();
        let of_files = files.map(|file| {
            let source = pending.stored_file(file);
            let found = source.and_then(|source| stored.get_mut(source).map(mem::take));
            let found = found.unwrap_or_default();
            match pending.edit(file) {
                None => found,
                Some(edit) => (edit.text).moved_positions(pending.numbering.met(word), found),
            }
        });
        Ok(of_files.collect())
    }

    /// The offset of the own first byte of a word, given by its position in its file.
    ///
    /// # Errors
    /// If a segment is damaged, or the file has no such word.
    pub(crate) fn offset_of_word(&self, file: u32, position: u64) -> Result<u64> {
        let (stored, edit) = self.resolve(file as usize);
        // A file's place is a u32.
        let of_stored = |position| match stored {
            Some(stored) => self.stored().offset_of_word(stored as u32, position),
            None => Err(no_such_word(&self.files()[file as usize].name, position)),
        };
        let Some(edit) = edit else {
            return of_stored(position);
        };
        let regions = edit.regions();
        let next = regions
            .regions
            .partition_point(|region| region.words.end <= position);
        if let Some(region) = regions.regions.get(next)
            && region.words.contains(&position)
        {
            // Within the words of a region, which are in memory.
            let word = region.text.words[(position - region.words.start) as usize];
            return Ok(region.bytes.start + u64::from(word.offset));
        }
        if position >= regions.word_count {
            return Err(no_such_word(&self.files()[file as usize].name, position));
        }
        let before = match next.checked_sub(1) {
            None => position,
            Some(last) => {
                let last = &regions.regions[last];
                position - last.words.end + last.stored_words.end
            }
        };
        Ok(regions.moved_byte(of_stored(before)?, next))
    }

    /// Whether occurrence lists of the words in a file are in memory.
    pub(crate) fn has_lists(&self, file: usize, unit: Unit) -> bool {
        self.holds_for_parts(file, |segment| SegmentView::of(segment).has_lists(unit))
    }

    /// Whether the offsets of a file's words are known without building a structure.
    pub(crate) fn has_offsets_now(&self, file: usize) -> bool {
        self.holds_for_parts(file, |segment| segment.has_offsets_now())
    }
}
