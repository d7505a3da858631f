//! Questions of any length to one segment: the words behind a phrase, and the longest matches of a text.
//!
//! Invariant: an occurrence counts only if no broken place of the segment touches it, so answers are those of what edits left of the
//! segment. A suffix array answers, in memory or on disk; one that was built here with the order of long suffixes once comparing
//! places one by one has cost what that order costs. Without a suffix array each phrase is looked up by its cheapest path, and that
//! time pays for the suffix array, if the cache has room.

use std::time::Instant;

use rayon::prelude::*;
use zipfdb_kernels::{LongOrder, LongSuffixes, NGRAM_WORDS_MAX, RuleEnds, WordSuffixes, WordUses};
use zipfdb_storage::IndexKind;

use super::access_path::{AccessPath, PartitionOperation, PathName, Run, answer};
use super::correction::whole_words;
use super::ngrams::SUFFIX_BYTES;
use super::phrase::{PhraseCount, PhrasePlace, PhrasePositions, USES_SYMBOL_BYTES};
use super::terminals::take_terminals;
use crate::Result;
use crate::runtime::interrupt::check;
use crate::segment::cost::{
    LISTS_LOOKUP_COST, LONG_ORDER_COST, LOOKUP_COST, SUFFIX_BUILD_COST, SUFFIX_LOAD_COST,
};
use crate::segment::{SegmentView, StructureKind, WordExpansions};

/// A word that the segment does not have.
pub(super) const NO_WORD: u32 = u32::MAX;

/// Places that one task reads the next word of.
const TASK_PLACES: usize = 1 << 10;

/// Words of a text for which one task looks for matches.
const TASK_WORDS: usize = 32;

/// Words and the broken places of a segment, in the segment's numbers.
#[derive(Clone, Copy)]
pub(super) struct LongQuestion<'a> {
    pub(super) words: &'a [u32],
    /// Of the form that [`LongSuffixes`] takes.
    pub(super) broken: &'a [(u32, u32)],
}

/// The words behind a phrase of at least one word, ascending, each with how often.
pub(super) struct NextWordCounts;

impl PartitionOperation for NextWordCounts {
    type Question<'a> = LongQuestion<'a>;
    type Answer = Vec<(u32, u64)>;

    const PATHS: &'static [AccessPath<NextWordCounts>] = &[
        AccessPath {
            name: PathName::SuffixArray,
            needs: &[],
            cost: |_, segment| segment.ngram_structure_cost::<WordSuffixes>(2, LISTS_LOOKUP_COST),
            run: |question, segment, run| {
                let next = |suffixes: LongSuffixes<'_>| suffixes.next_words(question.words);
                // A word more than the phrase has orders what is counted.
                segment.ask_suffixes(question.words.len() + 1, question.broken, run, next)
            },
        },
        AccessPath {
            name: PathName::SuffixIndex,
            needs: &[StructureKind::SuffixIndex],
            cost: |question, segment| segment.suffix_index_cost(question, 1),
            run: |question, segment, run| {
                let begin = Instant::now();
                let Some(next) = segment.next_words_on_disk(question.words)? else {
                    return answer::<NextWordCounts>(question, segment, run.unforced());
                };
                segment.spend_on_suffixes(begin, run);
                Ok(next)
            },
        },
        AccessPath {
            name: PathName::EachPhrase,
            needs: &[StructureKind::WordGrammar, StructureKind::WordLengths],
            cost: |_, segment| Some(LOOKUP_COST / segment.thread_count()),
            run: |question, segment, run| {
                let begin = Instant::now();
                let next = segment.next_words_by_places(*question, run.unforced())?;
                segment.spend_on_suffixes(begin, run);
                Ok(next)
            },
        },
    ];
}

/// The first place of a phrase of at least one word.
pub(super) struct FirstPlace;

impl PartitionOperation for FirstPlace {
    type Question<'a> = LongQuestion<'a>;
    type Answer = Option<(u32, u64)>;

    const PATHS: &'static [AccessPath<FirstPlace>] = &[
        AccessPath {
            name: PathName::SuffixArray,
            needs: &[],
            cost: |_, segment| segment.ngram_structure_cost::<WordSuffixes>(2, LISTS_LOOKUP_COST),
            run: |question, segment, run| {
                let first = |suffixes: LongSuffixes<'_>| suffixes.first_position(question.words);
                segment.ask_suffixes(question.words.len(), question.broken, run, first)
            },
        },
        AccessPath {
            name: PathName::EachPhrase,
            needs: &[],
            cost: |_, segment| Some(LOOKUP_COST / segment.thread_count()),
            run: |question, segment, run| {
                let begin = Instant::now();
                let starts = segment.file_places()?;
                let places = segment.whole_places(*question, &starts, run.unforced())?;
                segment.spend_on_suffixes(begin, run);
                Ok(places.first().map(|place| (place.file, place.position)))
            },
        },
    ];
}

/// A match of the words from a place of a text on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentMatch {
    /// Its length; 0 if the first word does not occur, and then the place means nothing.
    pub(super) words: usize,
    pub(super) file: u32,
    pub(super) position: u64,
}

/// For each word of a text the longest match that begins with it. Words that the segment lacks are [`NO_WORD`].
pub(super) struct LongestInSegment;

impl PartitionOperation for LongestInSegment {
    type Question<'a> = LongQuestion<'a>;
    type Answer = Vec<SegmentMatch>;

    const PATHS: &'static [AccessPath<LongestInSegment>] = &[
        AccessPath {
            name: PathName::SuffixArray,
            needs: &[],
            cost: |question, segment| {
                let work = question.words.len() as f64 * LISTS_LOOKUP_COST;
                segment.ngram_structure_cost::<WordSuffixes>(2, work)
            },
            run: |question, segment, run| {
                let words = question.words;
                let all = |suffixes: LongSuffixes<'_>, places: &WordSuffixes| {
                    let matches = (0..words.len()).into_par_iter().with_min_len(TASK_WORDS);
                    let matches = matches.map(|start| {
                        check(run.stop)?;
                        Ok(match suffixes.longest(&words[start..]) {
                            None => NO_MATCH,
                            Some((words, place)) => {
                                let (file, position) = places.position_of(place);
                                SegmentMatch {
                                    words,
                                    file,
                                    position,
                                }
                            }
                        })
                    });
                    matches.collect::<Result<Vec<SegmentMatch>>>()
                };
                let places = segment.pin_until::<WordSuffixes>(run.stop)?;
                let asked = |suffixes: LongSuffixes<'_>| all(suffixes, places);
                segment.ask_suffixes(usize::MAX, question.broken, run, asked)?
            },
        },
        AccessPath {
            name: PathName::SuffixIndex,
            needs: &[StructureKind::SuffixIndex],
            cost: |question, segment| segment.suffix_index_cost(question, question.words.len()),
            run: |question, segment, run| {
                let begin = Instant::now();
                let Some(found) = segment.longest_on_disk(question.words, run.stop)? else {
                    return answer::<LongestInSegment>(question, segment, run.unforced());
                };
                segment.spend_on_suffixes(begin, run);
                let found = found
                    .into_iter()
                    .map(|(words, file, position)| SegmentMatch {
                        words,
                        file,
                        position,
                    });
                Ok(found.collect())
            },
        },
        AccessPath {
            name: PathName::EachPhrase,
            needs: &MANY_PHRASES_NEEDS,
            cost: |question, segment| {
                Some(2.0 * question.words.len() as f64 * LOOKUP_COST / segment.thread_count())
            },
            run: |question, segment, run| {
                let begin = Instant::now();
                let found = segment.longest_by_phrases(*question, run.unforced())?;
                segment.spend_on_suffixes(begin, run);
                Ok(found)
            },
        },
    ];
}

/// The structures for looking up many phrases on the grammar.
const MANY_PHRASES_NEEDS: [StructureKind; 3] = [
    StructureKind::WordGrammar,
    StructureKind::RuleEnds,
    StructureKind::WordUses,
];

/// No match.
const NO_MATCH: SegmentMatch = SegmentMatch {
    words: 0,
    file: 0,
    position: 0,
};

impl SegmentView {
    /// Asks the suffix array a question of some words, without the places that `broken` rules out.
    pub(super) fn ask_suffixes<A>(
        &self,
        words: usize,
        broken: &[(u32, u32)],
        run: Run<'_>,
        ask: impl FnOnce(LongSuffixes<'_>) -> A,
    ) -> Result<A> {
        let suffixes = self.pin_until::<WordSuffixes>(run.stop)?;
        if words <= NGRAM_WORDS_MAX || suffixes.is_fully_ordered() {
            return Ok(ask(LongSuffixes::new(suffixes, None, broken)));
        }
        let budget = &self.budgets.long_order;
        let all_words = self.extent().words;
        let price = (all_words as f64 * LONG_ORDER_COST / self.thread_count()) as u64; // below 2^40
        let bytes = all_words * size_of::<u32>() as u64;
        let order = self.pin_if_due::<LongOrder>(budget, price, bytes, run.stop)?;
        let begin = Instant::now();
        let answer = ask(LongSuffixes::new(suffixes, order, broken));
        if order.is_none() {
            budget.add_since(begin);
        }
        Ok(answer)
    }

    /// The cost of some look-ups in a suffix array on disk, in nanoseconds; none without one, or where edits broke places.
    fn suffix_index_cost(&self, question: &LongQuestion<'_>, lookups: usize) -> Option<f64> {
        let cost = self.ngram_index_cost(IndexKind::Suffixes, NGRAM_WORDS_MAX)?;
        question.broken.is_empty().then_some(cost * lookups as f64)
    }

    /// Adds the time of a question since `begin` to the budget of the suffix array, and builds that if it was due before.
    fn spend_on_suffixes(&self, begin: Instant, run: Run<'_>) {
        let budget = &self.budgets.suffixes;
        let words = self.extent().words as f64;
        let cost = if self.has_index(IndexKind::Suffixes) {
            SUFFIX_LOAD_COST
        } else {
            SUFFIX_BUILD_COST
        };
        let price = (words * cost / self.thread_count()) as u64; // below 2^40
        let bytes = self.extent().words * SUFFIX_BYTES + self.build_bytes() as u64;
        let was_due = budget.is_due(price);
        budget.add_since(begin);
        if was_due {
            // An error does not end a query that has its answer; a later one tries again.
            drop(self.pin_if_due::<WordSuffixes>(budget, price, bytes, run.stop));
        }
    }

    /// Words of a file from number `position` on, at most `count`, which the file has.
    pub(super) fn words_from(&self, file: u32, position: u64, count: usize) -> Result<Vec<u32>> {
        let mut words = Vec::new();
        if count > 0 {
            let mut stack = self.left_from_word(file, position)?;
            take_terminals::<WordExpansions>(self, &mut stack, count, &mut words)?;
            words.truncate(count);
        }
        Ok(words)
    }

    /// The places of a phrase that no broken place touches, ascending.
    fn whole_places(
        &self,
        question: LongQuestion<'_>,
        starts: &[u64],
        run: Run<'_>,
    ) -> Result<Vec<PhrasePlace>> {
        let mut places = answer::<PhrasePositions>(&question.words, self, run)?;
        if !question.broken.is_empty() {
            places.retain(|place| {
                let at = starts[place.file as usize] + place.position;
                whole_words(question.broken, at) >= question.words.len() as u64
            });
        }
        Ok(places)
    }

    fn next_words_by_places(
        &self,
        question: LongQuestion<'_>,
        run: Run<'_>,
    ) -> Result<Vec<(u32, u64)>> {
        let (files, starts) = (self.files()?, self.file_places()?);
        let distance = question.words.len() as u64;
        let places = self.whole_places(question, &starts, run)?;
        self.word_lengths()?;
        let next = |places: &[PhrasePlace]| {
            check(run.stop)?;
            let mut next = Vec::with_capacity(places.len());
            for place in places {
                let position = place.position + distance;
                let at = starts[place.file as usize] + place.position;
                if position < files[place.file as usize].words
                    && whole_words(question.broken, at) > distance
                {
                    next.extend(self.words_from(place.file, position, 1)?);
                }
            }
            Ok(next)
        };
        let next = places.par_chunks(TASK_PLACES).map(next);
        let mut next = next.collect::<Result<Vec<Vec<u32>>>>()?.concat();
        next.par_sort_unstable();
        let runs = next.chunk_by(|left, right| left == right);
        Ok(runs.map(|run| (run[0], run.len() as u64)).collect())
    }

    /// The longest matches by counts of phrases: the match of a word reaches at least as far as that of the word before, and its
    /// length is found by doubling and halving.
    fn longest_by_phrases(
        &self,
        question: LongQuestion<'_>,
        run: Run<'_>,
    ) -> Result<Vec<SegmentMatch>> {
        let (text, starts) = (question.words, self.file_places()?);
        if self.has_room(self.extent().symbols * USES_SYMBOL_BYTES) {
            // Each phrase alone would scan the roots until that has cost as much.
            self.pin_until::<RuleEnds>(run.stop)?;
            self.pin_until::<WordUses>(run.stop)?;
        }
        let occurs = |words: &[u32]| -> Result<bool> {
            check(run.stop)?;
            let count = answer::<PhraseCount>(&words, self, run)?;
            if count == 0 || question.broken.is_empty() {
                return Ok(count > 0);
            }
            let all = (question.broken.iter()).map(|(start, end)| u64::from(end - start));
            let touched: u64 = all.map(|places| places + words.len() as u64 - 1).sum();
            if count > touched {
                return Ok(true);
            }
            let question = LongQuestion { words, ..question };
            Ok(!self.whole_places(question, &starts, run)?.is_empty())
        };
        let mut found: Vec<SegmentMatch> = Vec::with_capacity(text.len());
        for start in 0..text.len() {
            let rest = &text[start..];
            let known = rest.iter().take_while(|&&word| word != NO_WORD);
            let rest = &rest[..known.count()];
            let before = found.last().filter(|before| before.words > 1);
            // The length that occurs, and one that does not.
            let mut least = before.map_or(0, |before| before.words - 1);
            let (mut most, mut step) = (rest.len() + 1, 1);
            while least + 1 < most {
                let length = (least + step).min(most - 1);
                if occurs(&rest[..length])? {
                    (least, step) = (length, step * 2);
                } else {
                    most = length;
                    break;
                }
            }
            while least + 1 < most {
                let middle = least + (most - least) / 2;
                if occurs(&rest[..middle])? {
                    least = middle;
                } else {
                    most = middle;
                }
            }
            found.push(match before {
                _ if least == 0 => NO_MATCH,
                // It lies in that match.
                Some(before) if before.words == least + 1 => SegmentMatch {
                    words: least,
                    position: before.position + 1,
                    ..*before
                },
                _ => {
                    let words = &rest[..least];
                    let question = LongQuestion { words, ..question };
                    let places = self.whole_places(question, &starts, run)?;
                    let place = places
                        .first()
                        .ok_or_else(|| self.inconsistent("a phrase has a count, and no place"))?;
                    SegmentMatch {
                        words: least,
                        file: place.file,
                        position: place.position,
                    }
                }
            });
        }
        Ok(found)
    }
}
