//! Phrases: the count and the places of consecutive words.
//!
//! Invariant: answers are those of the current texts. Each segment looks the words up by the cheapest of the access paths below,
//! in its own numbers; occurrences across a cut between the parts of a file are added, and those that edits broke or made are
//! taken off and added. A phrase may be longer than n-grams: paths that know eight words only do not answer it.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use zipfdb_kernels::gpu::{self, Gpu};
use zipfdb_kernels::{
    LongSuffixes, NGRAM_WORDS_MAX, NgramTable, WordSuffixes, WordUses, ngram_count,
    ngram_count_by_pass, ngram_positions, ngram_positions_by_pass,
};
use zipfdb_storage::IndexKind;

use super::access_path::{AccessPath, PartitionOperation, PathName, Run, answer};
use super::corpus_view::CorpusView;
use super::correction::{Window, range_of, window_of};
use super::device_partitions::RootPart;
use super::pending_view::{Edit, NONE, PendingView};
use super::placement::{DeviceOperation, PlacementPlan};
use super::stored_view::StoredView;
use crate::Result;
use crate::overlay::changed_count::changed;
use crate::runtime::device::{Kind, OnDevice, ResidentWords};
use crate::segment::cost::{
    ALONE_COST, DEVICE_PHRASE_COST, LISTS_LOOKUP_COST, LOOKUP_COST, OCCURRENCE_COST, POSTINGS_COST,
    SYMBOL_COST, Size, TABLE_LOOKUP_COST, USES_BUILD_COST,
};
use crate::segment::{Phrase, SegmentView, StructureKind, WordFiles};

/// The count of an n-gram in a segment, given by the segment's numbers of its words.
pub(crate) struct PhraseCount;

impl PartitionOperation for PhraseCount {
    type Question<'a> = &'a [u32];
    type Answer = u64;

    const PATHS: &'static [AccessPath<PhraseCount>] = &[
        AccessPath {
            name: PathName::SuffixArray,
            needs: &[],
            cost: |words, segment| {
                segment.ngram_structure_cost::<WordSuffixes>(ordered(words), LISTS_LOOKUP_COST)
            },
            run: |words, segment, run| {
                segment.totals()?;
                segment.ask_suffixes(words.len(), &[], run, |suffixes| suffixes.count(words))
            },
        },
        AccessPath {
            name: PathName::NgramTable,
            needs: &[],
            cost: |words, segment| {
                segment.ngram_structure_cost::<NgramTable>(words.len(), LISTS_LOOKUP_COST)
            },
            run: |words, segment, run| {
                segment.totals()?;
                Ok(segment.pin_until::<NgramTable>(run.stop)?.count(words))
            },
        },
        AccessPath {
            name: PathName::SuffixIndex,
            needs: &[StructureKind::SuffixIndex],
            cost: |words, segment| segment.ngram_index_cost(IndexKind::Suffixes, ordered(words)),
            run: |words, segment, run| {
                count_on_disk(words, segment, run, SegmentView::ngram_count_on_disk)
            },
        },
        AccessPath {
            name: PathName::NgramIndex,
            needs: &[StructureKind::NgramIndex],
            cost: |words, segment| segment.ngram_index_cost(IndexKind::Ngrams, words.len()),
            run: |words, segment, run| {
                count_on_disk(words, segment, run, SegmentView::ngram_total_on_disk)
            },
        },
        AccessPath {
            name: PathName::CountTable,
            needs: &SCAN_NEEDS,
            cost: by_table_cost,
            run: |words, segment, run| count_in(words, segment, &in_table(words, segment)?, run),
        },
        AccessPath {
            name: PathName::Postings,
            needs: &SCAN_NEEDS,
            cost: by_postings_cost,
            run: |words, segment, run| match in_postings(words, segment)? {
                Some(files) => count_in(words, segment, &files, run),
                None => answer::<PhraseCount>(words, segment, run.unforced()),
            },
        },
        AccessPath {
            name: PathName::RootScan,
            needs: &SCAN_NEEDS,
            cost: |words, segment| {
                let cost = segment.scan_cost(StructureKind::WordGrammar);
                cost.filter(|_| words.len() <= NGRAM_WORDS_MAX)
            },
            run: |words, segment, run| {
                let (phrase, begin) = (phrase_of(words, segment)?, Instant::now());
                let found = segment.scan_for_phrase(&phrase, run.stop, |file, readings| {
                    Ok(file.phrase(&phrase, readings)?.len() as u64)
                })?;
                segment.spend_on_scan(begin, run.stop)?;
                Ok(found.iter().map(|(_, count)| *count).sum())
            },
        },
        AccessPath {
            name: PathName::Parents,
            needs: &CROSSINGS_NEEDS,
            cost: |_, segment| segment.by_uses_cost(),
            run: |words, segment, run| {
                segment.totals()?;
                let grammar = segment.word_grammar()?;
                let (view, weights, ends) = (grammar.view(), grammar.weights(), segment.pin()?);
                let Some(uses) = segment.uses_if_due(run)? else {
                    return answer::<PhraseCount>(words, segment, run.unforced());
                };
                let begin = Instant::now();
                let count = ngram_count(view, uses, ends, weights, words, run.stop)?;
                segment.spend_on_ngrams(ordered(words), begin, run.stop)?;
                segment.spend_on_suffix_index(begin, run.stop)?;
                Ok(count)
            },
        },
        AccessPath {
            name: PathName::Crossings,
            needs: &CROSSINGS_NEEDS,
            cost: |_, segment| Some(segment.pass_cost()),
            run: |words, segment, run| {
                segment.totals()?;
                let grammar = segment.word_grammar()?;
                let (view, weights, ends) = (grammar.view(), grammar.weights(), segment.pin()?);
                let begin = Instant::now();
                let count = ngram_count_by_pass(view, ends, weights, words, run.stop)?;
                segment.budgets.uses.add_since(begin);
                segment.spend_on_ngrams(ordered(words), begin, run.stop)?;
                segment.spend_on_suffix_index(begin, run.stop)?;
                Ok(count)
            },
        },
    ];
}

/// The count of an n-gram by an index that `ask` reads, or by another path if that is damaged.
fn count_on_disk(
    words: &[u32],
    segment: &SegmentView,
    run: Run<'_>,
    ask: impl FnOnce(&SegmentView, &[u32]) -> Result<Option<u64>>,
) -> Result<u64> {
    let begin = Instant::now();
    let Some(count) = ask(segment, words)? else {
        return answer::<PhraseCount>(&words, segment, run.unforced());
    };
    segment.spend_on_ngrams(ordered(words), begin, run.stop)?;
    Ok(count)
}

/// A place of an n-gram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PhrasePlace {
    pub(crate) file: u32,
    /// The number of its first word in the file.
    pub(crate) position: u64,
    /// The offset of that word's own first byte, if known without further work.
    pub(crate) offset: Option<u64>,
}

/// The places of an n-gram in a segment.
pub(crate) struct PhrasePositions;

impl PartitionOperation for PhrasePositions {
    type Question<'a> = &'a [u32];
    type Answer = Vec<PhrasePlace>;

    const PATHS: &'static [AccessPath<PhrasePositions>] = &[
        AccessPath {
            name: PathName::SuffixArray,
            needs: &[],
            cost: |words, segment| {
                segment.ngram_structure_cost::<WordSuffixes>(ordered(words), LISTS_LOOKUP_COST)
            },
            run: |words, segment, run| {
                let positions = |suffixes: LongSuffixes<'_>| suffixes.positions(words);
                let found = segment.ask_suffixes(words.len(), &[], run, positions)?;
                Ok(places_of(found))
            },
        },
        AccessPath {
            name: PathName::SuffixIndex,
            needs: &[StructureKind::SuffixIndex],
            cost: |words, segment| segment.ngram_index_cost(IndexKind::Suffixes, ordered(words)),
            run: |words, segment, run| {
                let begin = Instant::now();
                let Some(found) = segment.ngram_places_on_disk(words)? else {
                    return answer::<PhrasePositions>(words, segment, run.unforced());
                };
                segment.spend_on_ngrams(ordered(words), begin, run.stop)?;
                let token = segment.tokens_of_one(words[0])?.first;
                let offsets = segment.offsets_on_disk(token, &found)?;
                let mut places = places_of(found);
                for (place, offset) in places.iter_mut().zip(offsets.into_iter().flatten()) {
                    place.offset = Some(offset);
                }
                Ok(places)
            },
        },
        AccessPath {
            name: PathName::CountTable,
            needs: &SCAN_NEEDS,
            cost: by_table_cost,
            run: |words, segment, run| places_in(words, segment, &in_table(words, segment)?, run),
        },
        AccessPath {
            name: PathName::Postings,
            needs: &SCAN_NEEDS,
            cost: by_postings_cost,
            run: |words, segment, run| match in_postings(words, segment)? {
                Some(files) => places_in(words, segment, &files, run),
                None => answer::<PhrasePositions>(words, segment, run.unforced()),
            },
        },
        AccessPath {
            name: PathName::RootScan,
            needs: &SCAN_NEEDS,
            cost: |words, segment| {
                let cost = segment.scan_cost(StructureKind::WordGrammar);
                cost.filter(|_| words.len() <= NGRAM_WORDS_MAX)
            },
            run: |words, segment, run| {
                let (phrase, begin) = (phrase_of(words, segment)?, Instant::now());
                let found = segment.scan_for_phrase(&phrase, run.stop, |file, readings| {
                    file.phrase(&phrase, readings)
                })?;
                segment.spend_on_scan(begin, run.stop)?;
                Ok(places_by_file(found))
            },
        },
        AccessPath {
            name: PathName::Parents,
            needs: &PLACES_NEEDS,
            cost: |_, segment| segment.by_uses_cost(),
            run: |words, segment, run| {
                let (view, ends) = (segment.word_grammar()?.view(), segment.pin()?);
                let lengths = segment.word_lengths()?;
                let Some(uses) = segment.uses_if_due(run)? else {
                    return answer::<PhrasePositions>(words, segment, run.unforced());
                };
                let begin = Instant::now();
                let positions = ngram_positions(view, uses, ends, lengths, words, run.stop)?;
                segment.spend_on_occurrences(ordered(words), begin, run.stop)?;
                segment.spend_on_suffix_index(begin, run.stop)?;
                Ok(places_of(positions))
            },
        },
        AccessPath {
            name: PathName::Crossings,
            needs: &PLACES_NEEDS,
            // A pass over bodies, one over those that hold the phrase, one over roots.
            cost: |_, segment| Some(2.0 * segment.pass_cost()),
            run: |words, segment, run| {
                let (view, ends) = (segment.word_grammar()?.view(), segment.pin()?);
                let lengths = segment.word_lengths()?;
                let begin = Instant::now();
                let positions = ngram_positions_by_pass(view, ends, lengths, words, run.stop)?;
                segment.budgets.uses.add_since(begin);
                segment.spend_on_occurrences(ordered(words), begin, run.stop)?;
                segment.spend_on_suffix_index(begin, run.stop)?;
                Ok(places_of(positions))
            },
        },
    ];
}

impl DeviceOperation for PhraseCount {
    fn device_work(size: Size) -> f64 {
        size.symbols as f64 * DEVICE_PHRASE_COST
    }

    fn run_on(words: &&[u32], segment: &SegmentView, device: &OnDevice<'_>) -> Result<u64> {
        let words = *words;
        segment.totals()?;
        let parts = segment.with_words(device, |gpu, on, _| {
            Ok(gpu::ngram_count(gpu, &on.grammar, &on.weights, words)?)
        })?;
        let mut count: u64 = parts.iter().map(|(_, count)| count).sum();
        segment.for_each_cut_window(&parts, words.len(), |_, window| {
            count += u64::from(window.words == words);
        })?;
        Ok(count)
    }
}

impl DeviceOperation for PhrasePositions {
    fn device_work(size: Size) -> f64 {
        // A pass to count them, one to find them.
        2.0 * PhraseCount::device_work(size)
    }

    fn run_on(
        words: &&[u32],
        segment: &SegmentView,
        device: &OnDevice<'_>,
    ) -> Result<Vec<PhrasePlace>> {
        let parts = segment.with_words(device, |gpu: &Gpu, on: &ResidentWords, _| {
            let (grammar, uses) = (&on.grammar, on.word_uses(gpu)?);
            let places = gpu::ngram_places(gpu, grammar, &on.weights, uses, words)?;
            Ok(gpu.download(&places)?)
        })?;
        let places = segment.places_of_parts(parts, words)?;
        segment.by_file_words(&places)
    }
}

impl SegmentView {
    /// The places of a phrase in a segment, counted in words from its start, from the places in each of its parts; ascending.
    fn places_of_parts(
        &self,
        mut parts: Vec<(RootPart, Vec<u64>)>,
        words: &[u32],
    ) -> Result<Vec<u64>> {
        if let [_] = parts[..] {
            return Ok(parts.swap_remove(0).1);
        }
        let (view, lengths) = (self.word_grammar()?.view(), self.word_lengths()?);
        let mut places = Vec::new();
        for (part, found) in &parts {
            let start = lengths.root_start(view, part.root.start);
            places.extend(found.iter().map(|place| start + place));
        }
        self.for_each_cut_window(&parts, words.len(), |part, window| {
            if window.words == words {
                let end = lengths.root_start(view, part.root.end);
                places.push(end - window.words_of_part as u64);
            }
        })?;
        places.sort_unstable();
        Ok(places)
    }

    /// Places counted in words from the start of the segment, ascending, as those in files.
    fn by_file_words(&self, places: &[u64]) -> Result<Vec<PhrasePlace>> {
        let mut found = Vec::with_capacity(places.len());
        let (mut rest, mut start) = (places, 0);
        for (file, entry) in (0..).zip(self.files()?) {
            if rest.is_empty() {
                break;
            }
            let end = start + entry.words;
            let (inside, after) = rest.split_at(rest.partition_point(|&place| place < end));
            found.extend(inside.iter().map(|&place| PhrasePlace {
                file,
                position: place - start,
                offset: None,
            }));
            (rest, start) = (after, end);
        }
        if rest.is_empty() {
            Ok(found)
        } else {
            Err(self.inconsistent("files have more words than they say"))
        }
    }
}

/// The words of a phrase by which n-gram structures order it.
fn ordered(words: &[u32]) -> usize {
    words.len().min(NGRAM_WORDS_MAX)
}

/// The structures for counting phrases by the grammar.
const CROSSINGS_NEEDS: [StructureKind; 2] = [StructureKind::WordGrammar, StructureKind::RuleEnds];

/// The structures for finding places by the grammar.
const PLACES_NEEDS: [StructureKind; 3] = [
    StructureKind::WordGrammar,
    StructureKind::RuleEnds,
    StructureKind::WordLengths,
];

/// The structures for finding places in roots that are not kept.
const SCAN_NEEDS: [StructureKind; 2] = [StructureKind::Bodies, StructureKind::Words];

/// Bytes of the users of words and rules for each symbol, about.
pub(super) const USES_SYMBOL_BYTES: u64 = 5;

/// A phrase of words, given by their numbers in the segment.
fn phrase_of(words: &[u32], segment: &SegmentView) -> Result<Phrase> {
    let words = words.iter().map(|&word| segment.tokens_of(word));
    Ok(Phrase::new(&words.collect::<Result<Vec<_>>>()?))
}

/// The files that may have a phrase by an index; none without one.
fn in_postings(words: &[u32], segment: &SegmentView) -> Result<Option<Vec<u32>>> {
    let tokens = words.iter().map(|&word| Ok(segment.tokens_of(word)?.first));
    segment.phrase_files(&tokens.collect::<Result<Vec<u32>>>()?)
}

/// The files that have all words of a phrase, by the table of words and files.
fn in_table(words: &[u32], segment: &SegmentView) -> Result<Vec<u32>> {
    let table = segment.pin::<WordFiles>()?;
    // A plan may ask for words that an empty segment lacks.
    let row = |&word: &u32| {
        if (word as usize) < table.0.rows() {
            table.0.row(word as usize)
        } else {
            &[]
        }
    };
    let mut rows: Vec<&[(u32, u32)]> = words.iter().map(row).collect();
    rows.sort_unstable_by_key(|row| row.len());
    let Some((rarest, others)) = rows.split_first() else {
        return Ok(Vec::new());
    };
    let files = rarest.iter().map(|&(file, _)| file);
    let has =
        |row: &&[(u32, u32)], file| row.binary_search_by_key(&file, |&(file, _)| file).is_ok();
    let files = files.filter(|&file| others.iter().all(|row| has(row, file)));
    Ok(files.collect())
}

/// The cost of reading the roots of files with all words of a phrase, in nanoseconds of all threads; none if the table of words
/// and files is not in memory.
fn by_table_cost(words: &&[u32], segment: &SegmentView) -> Option<f64> {
    if words.len() > NGRAM_WORDS_MAX {
        return None;
    }
    // None if the cache has a grammar that answers as well, or it is time to decode that.
    segment.scan_cost(StructureKind::WordGrammar)?;
    segment.pinned::<WordFiles>()?;
    let files = in_table(words, segment).ok()?.len();
    let roots = files as f64 * ALONE_COST / segment.thread_count();
    Some(words.len() as f64 * TABLE_LOOKUP_COST + roots)
}

/// The count of a phrase in some files, by their roots.
fn count_in(words: &[u32], segment: &SegmentView, files: &[u32], run: Run<'_>) -> Result<u64> {
    let (phrase, begin) = (phrase_of(words, segment)?, Instant::now());
    let found = segment.look_for_phrase(&phrase, files, run.stop, |file, readings| {
        Ok(file.phrase(&phrase, readings)?.len() as u64)
    })?;
    segment.spend_on_suffix_index(begin, run.stop)?;
    Ok(found.iter().map(|(_, count)| *count).sum())
}

/// The places of a phrase in some files, by their roots.
fn places_in(
    words: &[u32],
    segment: &SegmentView,
    files: &[u32],
    run: Run<'_>,
) -> Result<Vec<PhrasePlace>> {
    let (phrase, begin) = (phrase_of(words, segment)?, Instant::now());
    let found = segment.look_for_phrase(&phrase, files, run.stop, |file, readings| {
        file.phrase(&phrase, readings)
    })?;
    segment.spend_on_suffix_index(begin, run.stop)?;
    Ok(places_by_file(found))
}

/// The cost of reading the roots of files with all words of a phrase by an index, in nanoseconds of all threads; none if the
/// cache has a grammar that answers as well, or it is time to decode that.
fn by_postings_cost(words: &&[u32], segment: &SegmentView) -> Option<f64> {
    if !segment.has_index(IndexKind::Postings) || words.len() > NGRAM_WORDS_MAX {
        return None;
    }
    // A phrase is seldom in more than a tenth of the text of a pass.
    let scan = segment.scan_cost(StructureKind::WordGrammar)?;
    Some(words.len() as f64 * POSTINGS_COST + scan / 10.0)
}

/// Places of a phrase in files that were read.
fn places_by_file(found: Vec<(u32, Vec<(u64, u64)>)>) -> Vec<PhrasePlace> {
    let places = found.into_iter().flat_map(|(file, places)| {
        let places = places.into_iter();
        places.map(move |(position, offset)| PhrasePlace {
            file,
            position,
            offset: Some(offset),
        })
    });
    places.collect()
}

/// Places whose offsets are not known.
fn places_of(positions: Vec<(u32, u64)>) -> Vec<PhrasePlace> {
    let places = positions.into_iter().map(|(file, position)| PhrasePlace {
        file,
        position,
        offset: None,
    });
    places.collect()
}

impl SegmentView {
    /// The cost of a pass over all bodies and roots, in nanoseconds of all threads.
    fn pass_cost(&self) -> f64 {
        self.size().0 as f64 * SYMBOL_COST / self.thread_count()
    }

    /// Adds the time of a scan of all roots since `begin` to the budgets of what saves scans, if the cache has no room for the
    /// grammar: a suffix array, and files of words, which say which roots to read.
    fn spend_on_scan(&self, begin: Instant, stop: &AtomicBool) -> Result<()> {
        if self.has_room(self.lookup_bytes()) {
            return Ok(());
        }
        self.spend_on_suffix_index(begin, stop)?;
        self.spend_on_counts(begin, stop)
    }

    /// The cost of a phrase found from its rarest word, in all files at once, in nanoseconds; infinite if the users of symbols
    /// are not due, none if the cache has no room for them.
    fn by_uses_cost(&self) -> Option<f64> {
        let Size { words, tokens, .. } = self.extent();
        let occurrences = words / tokens.max(1);
        let cost = LOOKUP_COST + occurrences as f64 * OCCURRENCE_COST;
        if self.has(StructureKind::WordUses) {
            return Some(cost);
        }
        let (price, bytes) = self.uses_price();
        self.has_room(bytes).then(|| {
            if self.budgets.uses.is_due(price) {
                cost
            } else {
                f64::INFINITY
            }
        })
    }

    /// The price of the users of words and rules, in nanoseconds and bytes.
    fn uses_price(&self) -> (u64, u64) {
        let symbols = self.size().0;
        // Below 2^39.
        let price = symbols as f64 * USES_BUILD_COST / self.thread_count();
        (price as u64, symbols * USES_SYMBOL_BYTES)
    }

    /// The users of words and rules; none if they are neither in memory nor due, or another thread builds them.
    fn uses_if_due(&self, run: Run<'_>) -> Result<Option<&WordUses>> {
        if run.forced == Some(PathName::Parents) {
            return self.pin_until(run.stop).map(Some);
        }
        let (price, bytes) = self.uses_price();
        self.pin_if_due(&self.budgets.uses, price, bytes, run.stop)
    }
}

impl StoredView {
    /// The answer of each segment that has all words of an n-gram, by its cheapest path or on its device.
    fn ask_phrase<O>(&self, words: &[u32], run: Run<'_>) -> Result<Vec<Option<O::Answer>>>
    where
        O: DeviceOperation + for<'q> PartitionOperation<Question<'q> = &'q [u32]>,
    {
        let all = 0..self.segments().len();
        let asked = all.map(|index| self.segment_words(index, words));
        let asked: Vec<Option<Vec<u32>>> = asked.collect::<Result<_>>()?;
        let on_cpu = |index: usize| {
            let words = asked[index].as_deref();
            words
                .map(|words| answer::<O>(&words, &self.segment_at(index), run))
                .transpose()
        };
        // Devices compare the words of n-grams only.
        if words.len() > NGRAM_WORDS_MAX || !self.devices().may_take_any() {
            return (0..asked.len()).map(on_cpu).collect();
        }
        let plan = || self.plan_phrase_by::<O>(words.len(), run.forced);
        let plan = self.planned_with_devices(plan)?;
        let (places, costs) = plan.places();
        self.spread(
            (Kind::Words, &places, &costs),
            run,
            |index| asked[index].is_some(),
            on_cpu,
            |index, device| {
                let words = asked[index].as_deref();
                words
                    .map(|words| O::run_on(&words, &self.segment_at(index), device))
                    .transpose()
            },
        )
    }

    /// The count of an n-gram in the stored files.
    fn ngram_count(&self, words: &[u32], run: Run<'_>) -> Result<u64> {
        let counts = self.ask_phrase::<PhraseCount>(words, run)?;
        let count: u64 = counts.into_iter().flatten().sum();
        let mut cut = 0;
        self.for_each_cut_ngram(
            words.len(),
            |_| true,
            |found, _, _| cut += u64::from(found == words),
        )?;
        Ok(count + cut)
    }

    /// The places of an n-gram in the stored files; ascending.
    fn ngram_places(&self, words: &[u32], run: Run<'_>) -> Result<Vec<PhrasePlace>> {
        let mut found = Vec::new();
        let answers = self.ask_phrase::<PhrasePositions>(words, run)?;
        for (index, of_segment) in answers.into_iter().enumerate() {
            let Some(of_segment) = of_segment else {
                continue;
            };
            let entries = self.segments()[index].files()?;
            found.extend(of_segment.into_iter().map(|place| {
                let entry = &entries[place.file as usize];
                PhrasePlace {
                    file: self.file_number(index, place.file),
                    position: entry.first_word + place.position,
                    offset: place.offset.map(|offset| entry.first_byte + offset),
                }
            }));
        }
        self.for_each_cut_ngram(
            words.len(),
            |_| true,
            |cut, file, position| {
                if cut == words {
                    found.push(PhrasePlace {
                        file,
                        position,
                        offset: None,
                    });
                }
            },
        )?;
        found.sort_unstable();
        Ok(found)
    }

    /// Plans a search for phrases of n words, for counts only or with places.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub(crate) fn plan_phrase(
        &self,
        n: usize,
        counts_only: bool,
        forced: Option<PathName>,
    ) -> Result<PlacementPlan<'_>> {
        if counts_only {
            self.plan_phrase_by::<PhraseCount>(n, forced)
        } else {
            self.plan_phrase_by::<PhrasePositions>(n, forced)
        }
    }

    fn plan_phrase_by<O>(&self, n: usize, forced: Option<PathName>) -> Result<PlacementPlan<'_>>
    where
        O: DeviceOperation + for<'q> PartitionOperation<Question<'q> = &'q [u32]>,
    {
        let words = vec![0; n];
        let needs = &[StructureKind::WordGrammar];
        self.plan_apart::<O>((&&words[..], 1), forced, Kind::Words, needs, O::device_work)
    }
}

impl PendingView {
    /// The changes of one n-gram.
    fn windows_of(&self, words: &[u32], stop: &AtomicBool) -> Result<&[(Window, u32, i64)]> {
        let window = window_of(words.iter().copied());
        let changes = &self.windows(words.len(), stop)?.changes;
        Ok(range_of(changes, |change| &change.0, window))
    }
}

impl CorpusView {
    /// The count of a phrase, given by the numbers of its words.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(crate) fn ngram_count(&self, words: &[u32], run: Run<'_>) -> Result<u64> {
        let Some(pending) = self.pending() else {
            return self.stored().ngram_count(words, run);
        };
        if words.len() > NGRAM_WORDS_MAX {
            return Ok(self.ngram_places(words, run)?.len() as u64);
        }
        let change: i64 = (pending.windows_of(words, run.stop)?.iter())
            .map(|change| change.2)
            .sum();
        let count = match pending.numbering.to_stored(words) {
            None => 0,
            Some(words) if pending.gone.is_empty() => self.stored().ngram_count(&words, run)?,
            Some(words) => {
                let found = self.stored().ngram_places(&words, run)?.into_iter();
                let stays = |place: &PhrasePlace| pending.file_now(place.file).is_some();
                found.filter(stays).count() as u64
            }
        };
        changed(count, change, || pending.ngram_subject(words))
    }

    /// The places of an n-gram: file, and number of its first word in it; ascending.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    #[cfg(test)]
    pub(crate) fn ngram_positions(&self, words: &[u32], run: Run<'_>) -> Result<Vec<(u32, u64)>> {
        let places = self.ngram_places(words, run)?.into_iter();
        Ok(places.map(|place| (place.file, place.position)).collect())
    }

    /// The places of a phrase, given by the numbers of its words; ascending.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(crate) fn ngram_places(&self, words: &[u32], run: Run<'_>) -> Result<Vec<PhrasePlace>> {
        let Some(pending) = self.pending() else {
            return self.stored().ngram_places(words, run);
        };
        let n = words.len();
        let mut found = Vec::new();
        if let Some(words) = pending.numbering.to_stored(words) {
            for place in self.stored().ngram_places(&words, run)? {
                let file = pending.number_of[place.file as usize];
                if file == NONE {
                    continue;
                }
                match pending.edit(file as usize) {
                    None => found.push(PhrasePlace { file, ..place }),
                    Some(edit) => {
                        let now = edit.moved_window(place.position, n);
                        found.extend(now.map(|position| PhrasePlace {
                            file,
                            position,
                            offset: None,
                        }));
                    }
                }
            }
        }
        let made = self.made_places(pending, words, run.stop)?.into_iter();
        found.extend(made.map(|(file, position)| PhrasePlace {
            file,
            position,
            offset: None,
        }));
        found.sort_unstable();
        Ok(found)
    }
}

impl Edit {
    /// The current position of a window of `n` stored words; none if an edit broke it.
    pub(super) fn moved_window(&self, position: u64, n: usize) -> Option<u64> {
        let regions = &self.regions().regions;
        let end = position + n as u64;
        // The change in a region that begins before the window's end and ends behind its start.
        let next = regions.partition_point(|region| region.stored_words.end <= position);
        let mut moved = None;
        for region in regions[next..]
            .iter()
            .take_while(|region| region.stored_words.start < end)
        {
            let Some(changed) = region.changed_words() else {
                continue;
            };
            if position >= changed.end {
                // Behind the change, in the same region: words move as at its end. A long window may reach the next region.
                moved = Some(position + region.words.end - region.stored_words.end);
            } else if end > changed.start {
                return None;
            }
        }
        Some(moved.unwrap_or_else(|| self.regions().moved_word(position, next)))
    }
}
