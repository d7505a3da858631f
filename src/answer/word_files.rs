//! Files of a few words: the files that have one of some words, given by their bytes, with their counts added up.
//!
//! Invariant: counts are those of the current texts, files ascend, none has a count of 0, and no vocabulary is needed. Each segment
//! looks its words up by the cheapest of the access paths below; counts of the parts of a file add up, and edits add their changes.
//! Files without the words cost nothing where lists of words answer.

use std::time::Instant;

use zipfdb_kernels::{set_weights, weight_of, word_set_counts};
use zipfdb_storage::IndexKind;

use super::access_path::{AccessPath, PartitionOperation, PathName, Run, answer};
use super::corpus_view::CorpusView;
use super::placement::PlacementPlan;
use super::stored_view::StoredView;
use crate::Result;
use crate::merge::sum_equal;
use crate::overlay::changed_count::{changed, word_subject};
use crate::runtime::interrupt::check;
use crate::segment::cost::{POSTINGS_COST, SYMBOL_COST, TABLE_LOOKUP_COST};
use crate::segment::{SegmentView, StructureKind};

/// Files, ascending, each with the sum of the counts of some words in it, which is not 0.
pub(crate) type FilesWithCounts = Vec<(u32, u64)>;

/// The files of a segment that have one of some distinct words.
pub(crate) struct FewWordFiles;

impl PartitionOperation for FewWordFiles {
    type Question<'a> = &'a [&'a [u8]];
    type Answer = FilesWithCounts;

    const PATHS: &'static [AccessPath<FewWordFiles>] = &[
        AccessPath {
            name: PathName::CountTable,
            needs: &[],
            cost: in_table_cost,
            run: |words, segment, run| {
                let table = segment.word_files(run.stop)?;
                let mut files = Vec::new();
                for word in segment.find_words(words)? {
                    let number = segment.number_of(word)?;
                    let of_word = number.map_or(&[][..], |number| table.row(number as usize));
                    files.extend(
                        of_word
                            .iter()
                            .map(|&(file, count)| (file, u64::from(count))),
                    );
                }
                Ok(summed(files))
            },
        },
        AccessPath {
            name: PathName::Postings,
            needs: &[],
            cost: in_postings_cost,
            run: |words, segment, run| {
                let begin = Instant::now();
                let mut files = Vec::new();
                for word in *words {
                    let found = segment.find_one_word(word)?;
                    if found.first == found.end {
                        continue;
                    }
                    let Some(list) = segment.postings(found.first)? else {
                        // The index is damaged, and given up.
                        return answer::<FewWordFiles>(words, segment, run.unforced());
                    };
                    files.extend(
                        list.into_iter()
                            .map(|(file, count)| (file, u64::from(count))),
                    );
                }
                segment.spend_on_counts(begin, run.stop)?;
                Ok(summed(files))
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
                Ok(with_counts(sums))
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
                segment.spend_on_counts(begin, run.stop)?;
                Ok(summed(found))
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
                Ok(with_counts(counts))
            },
        },
    ];
}

/// Files in any order, each once with all its counts.
fn summed(mut files: FilesWithCounts) -> FilesWithCounts {
    // Lists of words one behind the other: the sort merges them.
    files.sort_by_key(|(file, _)| *file);
    sum_equal(
        &mut files,
        |left, right| left.0 == right.0,
        |kept, next| kept.1 += next.1,
    );
    files
}

/// The files whose counts, in order of file, are not 0.
fn with_counts(counts: Vec<u64>) -> FilesWithCounts {
    let files = (0..).zip(counts);
    files.filter(|(_, count)| *count > 0).collect()
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
    fn files_of_words(&self, words: &[Vec<u8>], run: Run<'_>) -> Result<FilesWithCounts> {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let mut files = Vec::new();
        for index in 0..self.segments().len() {
            check(run.stop)?;
            let segment = self.segment_at(index);
            let found = answer::<FewWordFiles>(&&words[..], &segment, run)?;
            let found = found.into_iter();
            files.extend(found.map(|(number, count)| (self.file_number(index, number), count)));
        }
        Ok(summed(files))
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

    /// The files that have one of some distinct words, ascending, each with the sum of their counts.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(crate) fn files_of_words(
        &self,
        words: &[Vec<u8>],
        run: Run<'_>,
    ) -> Result<FilesWithCounts> {
        let found = self.stored().files_of_words(words, run)?;
        let Some(pending) = self.pending() else {
            return Ok(found);
        };
        let found = found.into_iter();
        let now = found.filter_map(|(file, count)| Some((pending.file_now(file)?, count)));
        let mut now = now.peekable();
        let mut files = Vec::new();
        for edit in &pending.edits {
            while let Some(other) = now.next_if(|(file, _)| *file < edit.file) {
                files.push(other);
            }
            let same = now.next_if(|(file, _)| *file == edit.file);
            let change = words.iter().map(|word| edit.text.change_of(word)).sum();
            let count = same.map_or(0, |(_, count)| count);
            let count = changed(count, change, || word_subject(&words[0]))?;
            files.extend((count > 0).then_some((edit.file, count)));
        }
        files.extend(now);
        Ok(files)
    }
}
