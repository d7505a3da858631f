//! What a device is asked of one segment, and what it needs for that.
//!
//! The invariant: answers are those of the whole segment, also where memory is too short for it. Then batches of questions
//! are halved, and if not even what they need fits, it is made for some files at a time: their roots over the same rules.
//! What is found of parts is put together here.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::ops::Range;

use rayon::prelude::*;
use zipfdb_kernels::gpu::{
    self, DeviceGrammar, DeviceNgramFiles, DeviceNgrams, DeviceQueries, DeviceStructures, Extract,
    ExtractedBytes, Gpu, GpuError, SearchResults, Terminals, WordQuery,
};
use zipfdb_kernels::{CountTable, FileOrder, GrammarView, NgramCounts, NgramFiles};

use super::found::FoundPart;
use super::segment_view::SegmentView;
use super::tasks::{Ngrams, join, merge_all, rows};
use crate::device::{OnDevice, ResidentWords};
use crate::{Error, Result};

impl SegmentView {
    /// How often each word occurs.
    pub(super) fn totals_on(&self, device: &OnDevice<'_>) -> Result<Vec<u32>> {
        let mut totals = vec![0u32; self.word_count()? as usize];
        let parts = self.with_words(device, |gpu, on| {
            let mut counts = vec![0u32; totals.len()];
            gpu.download_from(&on.weights, 0, &mut counts)?;
            Ok(counts)
        })?;
        for (_, counts) in parts {
            // A segment has less than 2^32 words.
            let both = totals.iter_mut().zip(counts);
            both.for_each(|(total, count)| *total += count);
        }
        self.check_totals(&totals)?;
        Ok(totals)
    }

    /// A row for each word: its files with counts.
    pub(super) fn word_files_on(&self, device: &OnDevice<'_>) -> Result<CountTable> {
        let parts = self.with_words(device, |gpu, on| {
            let table = gpu::word_file_counts(gpu, &on.grammar, on.uses(gpu)?)?;
            Ok(table.download(gpu)?)
        })?;
        let parts = parts.into_iter().map(|(first, mut table)| {
            add_to_files(&mut table, first);
            table
        });
        let mut parts: Vec<CountTable> = parts.collect();
        if parts.len() == 1 {
            return Ok(parts.swap_remove(0));
        }
        // Files of later parts follow those of earlier ones.
        let words = 0..self.word_count()? as usize;
        let row = |word| {
            parts
                .iter()
                .flat_map(move |part| part.row(word).iter().copied())
        };
        Ok(CountTable::of_rows(
            words.map(|word| row(word).collect()).collect(),
        ))
    }

    /// A row for each file: its words with counts.
    pub(super) fn file_words_on(&self, device: &OnDevice<'_>) -> Result<CountTable> {
        let mut parts = self.with_words(device, |gpu, on| {
            let table = gpu::file_word_counts(gpu, &on.grammar, on.uses(gpu)?)?;
            Ok(table.download(gpu)?)
        })?;
        if parts.len() == 1 {
            return Ok(parts.swap_remove(0).1);
        }
        let rows = parts.iter().flat_map(|(_, part)| rows(part));
        Ok(CountTable::of_rows(rows.collect()))
    }

    /// All n-grams with their counts, in parts.
    pub(super) fn ngrams_on(&self, device: &OnDevice<'_>, n: usize) -> Result<Vec<NgramCounts>> {
        let mut parts = self.with_words(device, |gpu, on| {
            let mut found = Vec::new();
            let mut take = |part: DeviceNgrams| {
                found.push(part.download(gpu)?);
                Ok(())
            };
            let memory = window_bytes(gpu);
            gpu::each_ngram_counts(gpu, &on.grammar, &on.weights, n, memory, &mut take)?;
            Ok(found)
        })?;
        if parts.len() == 1 {
            return Ok(parts.swap_remove(0).1);
        }
        let lists = parts.into_iter().map(|(_, found)| {
            join(found.into_iter().map(|part| Ngrams {
                words: part.words,
                values: part.counts,
            }))
        });
        // A segment has less than 2^32 words.
        let merged = merge_all(lists.collect(), n, |sum, count| *sum += count);
        Ok(vec![NgramCounts {
            words: merged.words,
            counts: merged.values,
        }])
    }

    /// All n-grams with their files, in parts.
    pub(super) fn ngram_files_on(
        &self,
        device: &OnDevice<'_>,
        n: usize,
        order: FileOrder,
    ) -> Result<Vec<NgramFiles>> {
        let parts = self.with_words(device, |gpu, on| {
            let mut found = Vec::new();
            let mut take = |part: DeviceNgramFiles| {
                found.push(part.download(gpu)?);
                Ok(())
            };
            let (words, weights, uses) = (&on.grammar, &on.weights, on.uses(gpu)?);
            let (shape, memory) = ((n, order), window_bytes(gpu));
            gpu::each_ngram_file_counts(gpu, words, weights, uses, shape, memory, &mut take)?;
            Ok(found)
        })?;
        let parts = parts.into_iter();
        let parts = parts.map(|(first, found)| {
            let numbered = found.into_iter().map(|part| {
                let mut files = part.files.into_table();
                add_to_files(&mut files, first);
                NgramFiles {
                    words: part.words,
                    files: files.into(),
                }
            });
            numbered.collect::<Vec<NgramFiles>>()
        });
        let mut parts: Vec<Vec<NgramFiles>> = parts.collect();
        if parts.len() == 1 {
            return Ok(parts.swap_remove(0));
        }
        let lists = parts.into_iter().map(|found| {
            join(found.into_iter().map(|part| Ngrams {
                values: rows(&part.files.into_table()),
                words: part.words,
            }))
        });
        let join_rows = |row: &mut Vec<(u32, u32)>, more| row.extend(more);
        let mut merged = merge_all(lists.collect(), n, join_rows);
        (merged.values.par_iter_mut()).for_each(|row| match order {
            FileOrder::File => row.sort_unstable_by_key(|&(file, _)| file),
            FileOrder::Count => row.sort_unstable_by_key(|&(file, count)| (Reverse(count), file)),
        });
        Ok(vec![NgramFiles {
            words: merged.words,
            files: CountTable::of_rows(merged.values).into(),
        }])
    }

    /// Works with the words of all files, or of some at a time if memory does not allow for all: the first file of each part,
    /// and what was found.
    fn with_words<A>(
        &self,
        device: &OnDevice<'_>,
        work: impl Fn(&Gpu, &ResidentWords) -> Result<A>,
    ) -> Result<Vec<(u32, A)>> {
        let view = self.word_grammar()?.view();
        let residence = self.residence();
        by_files(view, |part| match part {
            None => device.with_words(residence, view, &work),
            Some((view, _)) => device.with_some_words(view, &work),
        })
    }

    /// How often each word occurs in its file; none of the words is missing from the segment, and files ascend.
    pub(super) fn count_on(
        &self,
        device: &OnDevice<'_>,
        queries: &[WordQuery],
    ) -> Result<Vec<u64>> {
        let of_file = |query: &WordQuery| query.file;
        let in_part = |query: WordQuery, file| WordQuery { file, ..query };
        self.look_up_on(device, queries, of_file, in_part, |gpu, on, queries| {
            let queries = DeviceQueries::upload(gpu, queries)?;
            Ok(gpu.download(&on.count(gpu, &queries)?)?)
        })
    }

    /// Where each word occurs in its file; files ascend.
    pub(super) fn search_on(
        &self,
        device: &OnDevice<'_>,
        queries: &[WordQuery],
    ) -> Result<Vec<FoundPart<SearchResults>>> {
        let of_file = |query: &WordQuery| query.file;
        let in_part = |query: WordQuery, file| WordQuery { file, ..query };
        self.look_up_on(device, queries, of_file, in_part, |gpu, on, queries| {
            let uploaded = DeviceQueries::upload(gpu, queries)?;
            let found = SearchResults::download(gpu, &on.search(gpu, &uploaded)?)?;
            Ok(FoundPart::of_batch(found, queries.len()))
        })
    }

    /// Bytes of files, which ascend.
    pub(super) fn extract_on(
        &self,
        device: &OnDevice<'_>,
        ranges: &[Extract],
    ) -> Result<Vec<FoundPart<ExtractedBytes>>> {
        let of_file = |range: &Extract| range.file;
        let in_part = |range: Extract, file| Extract { file, ..range };
        self.look_up_on(device, ranges, of_file, in_part, |gpu, on, ranges| {
            let found = on.extract(gpu, ranges)?.download(gpu)?;
            Ok(FoundPart::of_batch(found, ranges.len()))
        })
    }

    /// Answers questions sorted by file, in batches that fit into memory; if not even what look-ups need does, for some files
    /// at a time.
    fn look_up_on<Q: Copy, A>(
        &self,
        device: &OnDevice<'_>,
        questions: &[Q],
        of_file: impl Fn(&Q) -> u32,
        in_part: impl Fn(Q, u32) -> Q,
        ask: impl Fn(&Gpu, &DeviceStructures, &[Q]) -> Result<Vec<A>>,
    ) -> Result<Vec<A>> {
        let view = self.view()?;
        let answers = by_files(view, |part| {
            let Some((part, files)) = part else {
                let build = |gpu: &Gpu, grammar| {
                    let files = 0..view.files() as u32;
                    self.structures_on(gpu, view, grammar, files)
                };
                let found = RefCell::new(Vec::with_capacity(questions.len()));
                device.with_lookups(self.residence(), build, |gpu, on| {
                    let found = &mut *found.borrow_mut();
                    in_batches(questions, BATCH_MIN, found, |batch| ask(gpu, on, batch))
                })?;
                return Ok(found.into_inner());
            };
            let from = questions.partition_point(|question| of_file(question) < files.start);
            let to = questions.partition_point(|question| of_file(question) < files.end);
            let questions = questions[from..to].iter();
            let questions = questions.map(|&q| in_part(q, of_file(&q) - files.start));
            let questions: Vec<Q> = questions.collect();
            let found = RefCell::new(Vec::with_capacity(questions.len()));
            if questions.is_empty() {
                return Ok(found.into_inner());
            }
            let batch_min = if files.len() == 1 { 1 } else { BATCH_MIN };
            device.with_gpu(|gpu| {
                let on = self.structures_on(gpu, part, None, files.clone())?;
                let found = &mut *found.borrow_mut();
                in_batches(&questions, batch_min, found, |batch| ask(gpu, &on, batch))
            })?;
            Ok(found.into_inner())
        })?;
        Ok(answers.into_iter().flat_map(|(_, found)| found).collect())
    }

    /// Builds what look-ups in some files need.
    fn structures_on(
        &self,
        gpu: &Gpu,
        view: GrammarView<'_>,
        grammar: Option<DeviceGrammar>,
        files: Range<u32>,
    ) -> Result<DeviceStructures> {
        let signatures = self.signatures(self.view()?)?;
        let dictionary = self.dictionary()?;
        let mut offsets = Vec::with_capacity(dictionary.len() as usize + 1);
        let mut bytes = Vec::new();
        offsets.push(0);
        for token in dictionary.iter() {
            bytes.extend_from_slice(token);
            offsets.push(bytes.len() as u64);
        }
        if u32::try_from(bytes.len()).is_err() {
            return Err(self.inconsistent("its tokens have 4 GiB or more"));
        }
        let terminals = Terminals {
            offsets: &offsets,
            bytes: &bytes,
            signatures: &signatures.bits[..view.terminal_count as usize],
        };
        let grammar = match grammar {
            Some(grammar) => grammar,
            None => DeviceGrammar::upload(gpu, view)?,
        };
        let built = DeviceStructures::new(gpu, grammar, terminals)?;
        let starts = built.file_starts.windows(2);
        let lengths = starts.map(|range| range[1] - range[0]);
        let files = &self.files()?[files.start as usize..files.end as usize];
        match lengths.eq(files.iter().map(|file| file.bytes)) {
            true => Ok(built),
            false => Err(self.inconsistent("a file has not as many bytes as it says")),
        }
    }
}

/// Batches are made smaller than this only if there is nothing else to do about memory.
const BATCH_MIN: usize = 1 << 10;

/// Questions of a batch, at most.
const BATCH_MAX: usize = 1 << 22;

/// Answers those questions that have not been, as many at a time as fit.
pub(super) fn in_batches<Q, A>(
    questions: &[Q],
    batch_min: usize,
    answers: &mut Vec<A>,
    ask: impl Fn(&[Q]) -> Result<Vec<A>>,
) -> Result<()> {
    let mut size = BATCH_MAX;
    while answers.len() < questions.len() {
        let rest = &questions[answers.len()..];
        let batch = &rest[..size.min(rest.len())];
        match ask(batch) {
            Err(error) if is_too_much(&error) && batch.len() > batch_min => {
                size = batch.len().div_ceil(2).max(batch_min);
            }
            found => answers.extend(found?),
        }
    }
    Ok(())
}

/// Work that is done for all files of a grammar, or, where that is too much for a device, for half of them at a time, and so
/// on: `work` is given nothing for all, or the grammar of some files and which they are. The first file of each part and what
/// was found, in order.
fn by_files<'a, A>(
    view: GrammarView<'a>,
    work: impl Fn(Option<(GrammarView<'_>, Range<u32>)>) -> Result<A>,
) -> Result<Vec<(u32, A)>> {
    // Files are numbered by u32.
    let all = 0..view.files() as u32;
    let mut found = Vec::new();
    let mut rest = vec![all.clone()];
    while let Some(files) = rest.pop() {
        let answer = match files == all {
            true => work(None),
            false => {
                let offsets = &view.root_offsets[files.start as usize..=files.end as usize];
                let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
                let offsets: Vec<u32> = offsets.iter().map(|offset| offset - first).collect();
                let part = GrammarView {
                    root_offsets: &offsets,
                    root: &view.root[first as usize..last as usize],
                    ..view
                };
                work(Some((part, files.clone())))
            }
        };
        match answer {
            Err(error) if is_too_much(&error) && files.len() > 1 => {
                let middle = files.start + (files.end - files.start) / 2;
                rest.extend([middle..files.end, files.start..middle]);
            }
            answer => found.push((files.start, answer?)),
        }
    }
    Ok(found)
}

/// Whether less of the same work may be done.
fn is_too_much(error: &Error) -> bool {
    matches!(
        error,
        Error::Gpu(GpuError::Memory { .. } | GpuError::Limit { .. })
    )
}

/// Gives the files of tables the numbers that they have in the segment.
fn add_to_files(table: &mut CountTable, first: u32) {
    if first > 0 {
        let entries = table.entries.par_iter_mut();
        entries.for_each(|(file, _)| *file += first);
    }
}

/// Memory for windows of n-grams: what leaves room for sorting them.
fn window_bytes(gpu: &Gpu) -> usize {
    /// So many that a sort takes them.
    const MOST: u64 = 4 << 30;
    let free = gpu.memory_limit().saturating_sub(gpu.memory_used());
    // At most 2^32 bytes; less where addresses are short.
    usize::try_from((free / 4).min(MOST)).unwrap_or(usize::MAX)
}
