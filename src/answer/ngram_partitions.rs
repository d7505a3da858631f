//! N-grams of a corpus that together do not fit into memory: in parts, each of one segment and small enough.
//!
//! Invariant: the parts of a segment are consecutive, and n-grams ascend within and between them; the counts of all parts, with
//! those of [`CorpusView::ngram_changes`], add up to those of the current corpus. The count of a word bounds the number of
//! n-grams that begin with it, so parts are cut without counting. The n-grams that begin with one word are in one part.

use std::sync::atomic::AtomicBool;

use zipfdb_kernels::NgramSet;

use super::access_path::{Run, answer};
use super::corpus_view::CorpusView;
use super::ngram_payload::{NgramPayload, NgramQuestion, NgramsPart};
use super::ngrams::NgramCounting;
use super::ngrams_of_files::{ChosenNgrams, ChosenQuestion};
use super::placement::DeviceOperation;
use super::stored_view::StoredView;
use super::word_counts::FileSetTotals;
use crate::Result;
use crate::segment::SegmentView;

/// A part of the n-grams of a segment.
#[derive(Debug)]
pub(crate) struct SegmentNgrams {
    segment: usize,
    /// The files of the segment that they are counted in; none for all.
    files: Option<Vec<u32>>,
    /// The n-grams, in the segment's numbers of words.
    set: NgramSet,
}

impl SegmentNgrams {
    /// The place of its segment.
    pub(crate) fn segment(&self) -> usize {
        self.segment
    }

    /// Whether both are of one segment.
    pub(crate) fn is_of_segment(&self, other: &SegmentNgrams) -> bool {
        self.segment == other.segment
    }
}

/// The change of an n-gram's count in a file against the parts: its words, the file, the change.
pub(crate) type NgramChange = (Vec<u32>, u32, i64);

impl StoredView {
    /// The n-grams of some stored files or of all, in parts of about `bytes` bytes, with or without their files.
    fn ngram_parts(
        &self,
        n: usize,
        files: Option<Vec<usize>>,
        with_files: bool,
        bytes: u64,
        run: Run<'_>,
    ) -> Result<Vec<SegmentNgrams>> {
        let asked: Vec<(usize, Option<Vec<u32>>)> = match files {
            None => (0..self.segments.len())
                .map(|index| (index, None))
                .collect(),
            Some(files) => (self.parts_by_segment(files.into_iter()))
                .map(|(index, files)| (index, Some(files)))
                .collect(),
        };
        let mut parts = Vec::new();
        for (index, files) in asked {
            let segment = self.segment_at(index);
            let chosen = match &files {
                None => None,
                Some(files) => Some(answer::<FileSetTotals>(&&files[..], &segment, run)?),
            };
            let totals = match &chosen {
                None => segment.totals()?,
                Some(chosen) => chosen,
            };
            let words = totals.iter().map(|&count| f64::from(count)).sum::<f64>();
            // An n-gram is found once where it crosses from a symbol to the next.
            let crossing = segment.size().0 as f64 * n.saturating_sub(1).max(1) as f64;
            let row = (size_of::<u32>() * (n + 1)) as f64;
            let bytes_of = |count: u32| {
                let ngrams = f64::from(count) * (crossing / words).min(1.0);
                let files = if with_files {
                    f64::from(count) * size_of::<(u32, u32)>() as f64
                } else {
                    0.0
                };
                ngrams * row + files
            };
            let (mut start, mut held) = (0, 0.0);
            let mut push = |first_words| {
                let set = NgramSet { n, first_words };
                parts.push(SegmentNgrams {
                    segment: index,
                    files: files.clone(),
                    set,
                });
            };
            for (word, &count) in (0u32..).zip(totals) {
                let more = bytes_of(count);
                if held > 0.0 && held + more > bytes as f64 {
                    push(start..word);
                    (start, held) = (word, 0.0);
                }
                held += more;
            }
            push(start..u32::MAX);
        }
        Ok(parts)
    }

    /// The n-grams of a part.
    fn ngrams_of<P: NgramPayload>(
        &self,
        part: &SegmentNgrams,
        run: Run<'_>,
    ) -> Result<Vec<NgramsPart<P>>> {
        let question = NgramQuestion {
            set: part.set.clone(),
            ..self.all_ngrams(part.set.n)
        };
        let found = match &part.files {
            None => self.of_part::<NgramCounting<P>>(&question, part.segment, run)?,
            Some(files) => {
                let (ngrams, segment) = (question, self.segment_at(part.segment));
                answer::<ChosenNgrams<P>>(&ChosenQuestion { ngrams, files }, &segment, run)?
            }
        };
        let found = found.into_parts()?;
        if self.segments.len() == 1 {
            // The words and files of the only segment have the numbers of those of the corpus.
            return Ok(found);
        }
        let numbers = if P::HAS_FILES {
            self.file_numbers(part.segment)?
        } else {
            Vec::new()
        };
        let numbered = found.into_iter().map(|table| {
            let mut table = table.into_plain();
            self.to_numbers(part.segment, P::words_mut(&mut table))?;
            let table = P::renumber_files(table, |file| numbers[file as usize]);
            Ok(NgramsPart::Plain(table))
        });
        numbered.collect()
    }

    /// The answer of the segment of a part, on its device or on the CPU.
    fn of_part<O: DeviceOperation>(
        &self,
        question: &O::Question<'_>,
        segment: usize,
        run: Run<'_>,
    ) -> Result<O::Answer> {
        // The sources of the grammar over words may be evicted.
        self.cache().trim();
        let answers = self.each_asked::<O>(question, |index| index == segment, run)?;
        let found = answers.into_iter().flatten().next();
        found.ok_or_else(|| self.segments[segment].inconsistent("it gave no n-grams"))
    }
}

impl CorpusView {
    /// N-grams of n words, of some files or of all, in parts of about `bytes` bytes, with or without their files.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(crate) fn ngram_parts(
        &self,
        n: usize,
        files: Option<&[u32]>,
        with_files: bool,
        bytes: u64,
        run: Run<'_>,
    ) -> Result<Vec<SegmentNgrams>> {
        self.stored().vocabulary()?;
        let files = files.map(|files| self.stored_of(files).collect());
        (self.stored()).ngram_parts(n, files, with_files, bytes, run)
    }

    /// Pins the structures that the parts of a segment are made of, as long as the caller keeps the result: otherwise they would
    /// be built again for each part where memory is short.
    ///
    /// # Errors
    /// If a segment is damaged, or `stop` is set.
    pub(crate) fn prepare_ngram_parts(
        &self,
        segment: usize,
        n: usize,
        with_files: bool,
        stop: &AtomicBool,
    ) -> Result<SegmentView> {
        let segment = self.stored().segment_at(segment);
        segment.prepare_ngrams(n, with_files, stop)?;
        Ok(segment)
    }

    /// The n-grams of a part, ascending; their files as they are stored: see [`CorpusView::file_now`].
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(crate) fn ngrams_of<P: NgramPayload>(
        &self,
        part: &SegmentNgrams,
        run: Run<'_>,
    ) -> Result<Vec<NgramsPart<P>>> {
        let found = self.stored().ngrams_of(part, run)?;
        let Some(pending) = self.pending() else {
            return Ok(found);
        };
        let renumbered = found.into_iter().map(|part: NgramsPart<P>| {
            let mut table = part.into_plain();
            pending.renumber([P::words_mut(&mut table)].into_iter());
            NgramsPart::Plain(table)
        });
        Ok(renumbered.collect())
    }

    /// The changes of n-grams of n words by cuts between the parts of files and by edits, against the parts; ascending.
    ///
    /// # Errors
    /// If a segment is damaged, or `stop` is set.
    pub(crate) fn ngram_changes(&self, n: usize, stop: &AtomicBool) -> Result<Vec<NgramChange>> {
        let mut cut = self.stored().cut_ngrams(n, |_| true)?;
        let mut changes = Vec::new();
        if let Some(pending) = self.pending() {
            pending.renumber([&mut cut.words].into_iter());
            let of_edits = pending.windows(n, stop)?.changes.iter();
            changes.extend(
                of_edits.map(|(words, file, change)| (words[..n].to_vec(), *file, *change)),
            );
        }
        let rows = cut.words.chunks_exact(n).zip(&cut.files);
        changes.extend(
            rows.filter_map(|(words, &file)| Some((words.to_vec(), self.file_now(file)?, 1))),
        );
        changes.sort_unstable();
        Ok(changes)
    }
}
