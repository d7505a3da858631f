//! Files of a few words: the counts of words, given by their bytes, in each file, added up.
//!
//! Invariant: counts are those of the current texts, and no vocabulary is needed. Each segment looks its words up by the cheapest
//! of the access paths below; counts of the parts of a file add up, and edits add their changes.

use std::time::Instant;

use rayon::prelude::*;
use zipfdb_kernels::{set_weights, weight_of, word_set_counts};
use zipfdb_storage::IndexKind;

use super::access_path::{AccessPath, PartitionOperation, PathName, Run, answer};
use super::corpus_view::CorpusView;
use super::placement::PlacementPlan;
use super::stored_view::StoredView;
use crate::Result;
use crate::overlay::changed_count::{changed, word_subject};
use crate::runtime::interrupt::check;
use crate::segment::cost::{POSTINGS_COST, SYMBOL_COST, TABLE_LOOKUP_COST};
use crate::segment::{SegmentView, StructureKind};

/// For each file of a segment the sum of the counts of some distinct words.
pub(crate) struct FewWordFiles;

impl PartitionOperation for FewWordFiles {
    type Question<'a> = &'a [&'a [u8]];
    type Answer = Vec<u64>;

    const PATHS: &'static [AccessPath<FewWordFiles>] = &[
        AccessPath {
            name: PathName::CountTable,
            needs: &[],
            cost: in_table_cost,
            run: |words, segment, run| {
                let table = segment.word_files(run.stop)?;
                let mut counts = vec![0; segment.files()?.len()];
                for word in segment.find_words(words)? {
                    let number = segment.number_of(word)?;
                    let files = number.map_or(&[][..], |number| table.row(number as usize));
                    for &(file, count) in files {
                        counts[file as usize] += u64::from(count);
                    }
                }
                Ok(counts)
            },
        },
        AccessPath {
            name: PathName::Postings,
            needs: &[],
            cost: in_postings_cost,
            run: |words, segment, run| {
                let begin = Instant::now();
                let mut counts = vec![0; segment.files()?.len()];
                for word in *words {
                    let found = segment.find_one_word(word)?;
                    if found.first == found.end {
                        continue;
                    }
                    let Some(list) = segment.postings(found.first)? else {
                        // The index is damaged, and given up.
                        return answer::<FewWordFiles>(words, segment, run.unforced());
                    };
                    for (file, count) in list {
                        counts[file as usize] += u64::from(count);
                    }
                }
                segment.spend_on_counts(begin, run.stop)?;
                Ok(counts)
            },
        },
        AccessPath {
            name: PathName::TextScan,
            needs: &[],
            cost: |words, segment| Some(words.len() as f64 * segment.text_scan_cost()?),
            run: |words, segment, run| {
                let mut sums = vec![0; segment.files()?.len()];
                for word in *words {
                    let Some(counts) = segment.count_in_text(word, run.stop)? else {
                        return answer::<FewWordFiles>(words, segment, run.unforced());
                    };
                    sums.iter_mut()
                        .zip(counts)
                        .for_each(|(sum, count)| *sum += count);
                }
                Ok(sums)
            },
        },
        AccessPath {
            name: PathName::RootScan,
            needs: &[StructureKind::Bodies],
            cost: |_, segment| segment.scan_cost(StructureKind::WordGrammar),
            run: |words, segment, run| {
                let begin = Instant::now();
                let words = segment.find_words(words)?;
                let is_in = |token: u32| {
                    let mut words = words.iter();
                    words.any(|word| (word.first..word.end).contains(&token))
                };
                let weights = set_weights(segment.bodies_view()?, is_in);
                let found = segment.scan_roots(run.stop, |fragment| {
                    let count = weight_of(&weights, fragment.symbols);
                    (count > 0).then_some(count)
                })?;
                let mut counts = vec![0; segment.files()?.len()];
                for (file, count) in found {
                    counts[file as usize] += count;
                }
                segment.spend_on_counts(begin, run.stop)?;
                Ok(counts)
            },
        },
        AccessPath {
            name: PathName::LocalTables,
            needs: &[StructureKind::WordGrammar],
            cost: |_, segment| {
                Some(segment.size().0 as f64 * SYMBOL_COST * 2.0 / segment.thread_count())
            },
            run: |words, segment, run| {
                let view = segment.word_grammar()?.view();
                let numbers = segment.find_words(words)?.into_iter();
                let numbers = numbers.map(|word| segment.number_of(word));
                let numbers: Vec<Option<u32>> = numbers.collect::<Result<_>>()?;
                let begin = Instant::now();
                let counts = word_set_counts(view, |word| numbers.contains(&Some(word)));
                segment.spend_on_counts(begin, run.stop)?;
                Ok(counts)
            },
        },
    ];
}

/// The cost of words that are looked up in a table in memory, in nanoseconds.
pub(super) fn in_table_cost(words: &&[&[u8]], segment: &SegmentView) -> Option<f64> {
    if segment.has(StructureKind::WordFiles) {
        Some(words.len() as f64 * TABLE_LOOKUP_COST)
    } else {
        Some(f64::INFINITY)
    }
}

/// The cost of words whose lists are read from an index, in nanoseconds; none without one.
pub(super) fn in_postings_cost(words: &&[&[u8]], segment: &SegmentView) -> Option<f64> {
    let cost = words.len() as f64 * POSTINGS_COST;
    segment.has_index(IndexKind::Postings).then_some(cost)
}

impl StoredView {
    /// As [`CorpusView::files_of_words`], of the stored files.
    fn files_of_words(&self, words: &[Vec<u8>], run: Run<'_>) -> Result<Vec<u64>> {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let mut counts = vec![0; self.files().len()];
        for index in 0..self.segments().len() {
            check(run.stop)?;
            let segment = self.segment_at(index);
            let found = answer::<FewWordFiles>(&&words[..], &segment, run)?;
            for (number, count) in (0..).zip(found) {
                counts[self.file_number(index, number) as usize] += count;
            }
        }
        Ok(counts)
    }
}

impl CorpusView {
    /// Plans [`CorpusView::files_of_words`].
    ///
    /// # Errors
    /// If a segment is damaged.
    pub(crate) fn plan_files_of_words(&self) -> Result<PlacementPlan<'_>> {
        (self.stored()).plan_on_cpu::<FewWordFiles>(&&[&b""[..]][..], None)
    }

    /// For each file the sum of the counts of some distinct words.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(crate) fn files_of_words(&self, words: &[Vec<u8>], run: Run<'_>) -> Result<Vec<u64>> {
        let found = self.stored().files_of_words(words, run)?;
        let Some(pending) = self.pending() else {
            return Ok(found);
        };
        let files = (0..pending.files.len()).into_par_iter().map(|file| {
            let count = pending.stored_file(file).map_or(0, |stored| found[stored]);
            let Some(edit) = pending.edit(file) else {
                return Ok(count);
            };
            let change = words.iter().map(|word| edit.text.change_of(word)).sum();
            changed(count, change, || word_subject(&words[0]))
        });
        files.collect()
    }
}
