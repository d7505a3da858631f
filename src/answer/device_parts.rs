//! What a device is asked of one segment, and what it needs for that.
//!
//! The invariant: answers are those of the whole segment, also where memory is too short for it. Then batches of questions
//! are halved, and if not even what they need fits, it is made for some files at a time, and of a file that is still too
//! large for some symbols of its root: parts of the roots over the same rules. What is found of parts is put together here,
//! with the n-grams that a cut goes through. So there must be memory for the rules and what is made of them, no more.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use rayon::prelude::*;
use zipfdb_kernels::gpu::{
    self, DeviceGrammar, DeviceNgramFiles, DeviceNgrams, DeviceQueries, DeviceStructures, Extract,
    ExtractedBytes, Gpu, GpuError, SearchResults, Terminals, WordQuery,
};
use zipfdb_kernels::{CountTable, FileOrder, GrammarView, NgramCounts, NgramFiles, NgramSet};

use super::merge::{Ngrams, add_up, join, merge_all, rows};
use super::ngram_packing::{NgramCountPart, NgramFilePart};
use crate::answer::found::FoundPart;
use crate::runtime::device::{OnDevice, ResidentWords};
use crate::segment::{SegmentView, edge_words};
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
        let parts = parts.into_iter().map(|(part, mut table)| {
            add_to_files(&mut table, part.files.start);
            table
        });
        let mut parts: Vec<CountTable> = parts.collect();
        if parts.len() == 1 {
            return Ok(parts.swap_remove(0));
        }
        let words = (0..self.word_count()? as usize).into_par_iter();
        let row = |word| {
            let rows = parts.iter().map(|part| part.row(word));
            let mut row = rows.collect::<Vec<_>>().concat();
            add_up(&mut row).map(|()| row)
        };
        Ok(CountTable::of_rows(words.map(row).collect::<Result<_>>()?))
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
        let mut merged: Vec<Vec<(u32, u32)>> = Vec::new();
        for (part, table) in parts {
            for (file, row) in (part.files.start as usize..).zip(rows(&table)) {
                if file == merged.len() {
                    merged.push(row);
                } else {
                    // The rest of a file that is cut.
                    merged[file].extend(row);
                    add_up(&mut merged[file])?;
                }
            }
        }
        Ok(CountTable::of_rows(merged))
    }

    /// As `word_files_on`; the cache holds the table.
    pub(super) fn word_files_held(&self, device: &OnDevice<'_>) -> Result<Arc<CountTable>> {
        let begin = Instant::now();
        let table = self.word_files_on(device)?;
        Ok(self.hold_word_files(table, begin.elapsed().as_nanos() as u64))
    }

    /// As `file_words_on`; likewise.
    pub(super) fn file_words_held(&self, device: &OnDevice<'_>) -> Result<Arc<CountTable>> {
        let begin = Instant::now();
        let table = self.file_words_on(device)?;
        Ok(self.hold_file_words(table, begin.elapsed().as_nanos() as u64))
    }

    /// N-grams with their counts, in parts.
    pub(super) fn ngrams_on(
        &self,
        device: &OnDevice<'_>,
        set: &NgramSet,
    ) -> Result<Vec<NgramCountPart>> {
        let mut parts = self.with_words(device, |gpu, on| {
            let mut found = Vec::new();
            let mut take = |part: DeviceNgrams| {
                found.push(part.download(gpu)?.of_set(set));
                Ok(())
            };
            let (some, memory) = (set.clone(), window_bytes(gpu));
            gpu::each_ngram_counts(gpu, &on.grammar, &on.weights, some, memory, &mut take)?;
            Ok(found)
        })?;
        if parts.len() == 1 {
            let found = parts.swap_remove(0).1.into_iter();
            return Ok(found.map(NgramCountPart::Plain).collect());
        }
        let cut = self.cut_ngrams(&parts, set)?;
        let cut = Ngrams {
            values: vec![1; cut.values.len()],
            words: cut.words,
        };
        let lists = parts.into_iter().map(|(_, found)| {
            join(found.into_iter().map(|part| Ngrams {
                words: part.words,
                values: part.counts,
            }))
        });
        // A segment has less than 2^32 words.
        let lists = lists.chain([cut]).collect();
        let merged = merge_all(lists, set.n, |sum: &mut u32, count| *sum += count);
        Ok(vec![NgramCountPart::Plain(NgramCounts {
            words: merged.words,
            counts: merged.values,
        })])
    }

    /// N-grams with their files, in parts.
    pub(super) fn ngram_files_on(
        &self,
        device: &OnDevice<'_>,
        set: &NgramSet,
        order: FileOrder,
    ) -> Result<Vec<NgramFilePart>> {
        let parts = self.with_words(device, |gpu, on| {
            let mut found = Vec::new();
            let mut take = |part: DeviceNgramFiles| {
                found.push(part.download(gpu)?.of_set(set));
                Ok(())
            };
            let (words, weights, uses) = (&on.grammar, &on.weights, on.uses(gpu)?);
            let (shape, memory) = ((set.clone(), order), window_bytes(gpu));
            gpu::each_ngram_file_counts(gpu, words, weights, uses, shape, memory, &mut take)?;
            Ok(found)
        })?;
        let mut parts = parts;
        if parts.len() == 1 {
            let found = parts.swap_remove(0).1.into_iter();
            return Ok(found.map(NgramFilePart::Plain).collect());
        }
        let cut = self.cut_ngrams(&parts, set)?;
        let cut = Ngrams {
            words: cut.words,
            values: cut.values.into_iter().map(|file| vec![(file, 1)]).collect(),
        };
        let lists = parts.into_iter().map(|(part, found)| {
            join(found.into_iter().map(|found| {
                let mut files = found.files.into_table();
                add_to_files(&mut files, part.files.start);
                Ngrams {
                    values: rows(&files),
                    words: found.words,
                }
            }))
        });
        let join_rows = |row: &mut Vec<(u32, u32)>, more| row.extend(more);
        let mut merged = merge_all(lists.chain([cut]).collect(), set.n, join_rows);
        (merged.values.par_iter_mut()).try_for_each(|row| {
            add_up(row)?;
            if order == FileOrder::Count {
                row.sort_unstable_by_key(|&(file, count)| (Reverse(count), file));
            }
            Ok::<(), Error>(())
        })?;
        Ok(vec![NgramFilePart::Plain(NgramFiles {
            words: merged.words,
            files: CountTable::of_rows(merged.values).into(),
        })])
    }

    /// The n-grams that begin in one part of a file and end in a later one, sorted, each with its file; one for each place.
    fn cut_ngrams<A>(&self, parts: &[(RootPart, A)], set: &NgramSet) -> Result<Ngrams<u32>> {
        let n = set.n;
        let view = self.word_grammar()?.view();
        let words = |part: &RootPart, from_end| {
            let symbols = &view.root[part.root.clone()];
            let ends = [0, symbols.len() as u32];
            let only = GrammarView {
                root_offsets: &ends,
                root: symbols,
                ..view
            };
            edge_words(only, 0, n - 1, from_end)
        };
        let mut found: Vec<(Vec<u32>, u32)> = Vec::new();
        for (place, (part, _)) in parts.iter().enumerate() {
            let file = part.files.end - 1;
            let later = parts[place + 1..].iter().map(|(part, _)| part);
            let mut later = later.take_while(|part| part.files.start == file).peekable();
            if later.peek().is_none() {
                continue;
            }
            let mut around = words(part, true);
            let before = around.len();
            for part in later {
                if around.len() - before >= n - 1 {
                    break;
                }
                around.extend(words(part, false));
            }
            around.truncate(before + n - 1);
            found.extend(around.windows(n).map(|window| (window.to_vec(), file)));
        }
        found.retain(|(words, _)| set.first_words.contains(&words[0]));
        found.sort_unstable();
        let values = found.iter().map(|&(_, file)| file).collect();
        let words = found.into_iter().flat_map(|(words, _)| words).collect();
        Ok(Ngrams { words, values })
    }

    /// Works with the words of all files, or of a part of them at a time if memory does not allow for all: the parts in order,
    /// and what was found.
    fn with_words<A>(
        &self,
        device: &OnDevice<'_>,
        work: impl Fn(&Gpu, &ResidentWords) -> Result<A>,
    ) -> Result<Vec<(RootPart, A)>> {
        let view = self.word_grammar()?.view();
        let residence = self.residence();
        in_parts(view, |_, of_part| match of_part {
            None => device.with_words(residence, view, &work),
            Some(view) => device.with_some_words(view, &work),
        })
    }

    /// How often each word occurs in its file; none of the words is missing from the segment, and files ascend.
    pub(super) fn count_on(
        &self,
        device: &OnDevice<'_>,
        queries: &[WordQuery],
    ) -> Result<Vec<u64>> {
        let of_file = |query: &WordQuery| query.file;
        let ask = |gpu: &Gpu, on: &DeviceStructures, queries: &[WordQuery]| {
            let queries = DeviceQueries::upload(gpu, queries)?;
            Ok(gpu.download(&on.count(gpu, &queries)?)?)
        };
        let add = |sum: &mut u64, count, _| *sum += count;
        self.look_up_on(device, queries, of_file, in_file, ask, add)
    }

    /// Where each word occurs in its file; files ascend.
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

    /// Bytes of files, which ascend.
    pub(super) fn extract_on(
        &self,
        device: &OnDevice<'_>,
        ranges: &[Extract],
    ) -> Result<Vec<FoundPart<ExtractedBytes>>> {
        let of_file = |range: &Extract| range.file;
        let in_part = |range: Extract, file, bytes: Option<&Range<u64>>| {
            let all = 0..u64::MAX;
            let bytes = bytes.unwrap_or(&all);
            let from = range.offset.max(bytes.start);
            let to = range.offset.saturating_add(range.length).min(bytes.end);
            (from < to).then(|| Extract {
                file,
                offset: from - bytes.start,
                length: to - from,
            })
        };
        let ask = |gpu: &Gpu, on: &DeviceStructures, ranges: &[Extract]| {
            let found = on.extract(gpu, ranges)?.download(gpu)?;
            Ok(FoundPart::of_batch(found, ranges.len()))
        };
        let add = |bytes: &mut FoundPart<ExtractedBytes>, more: FoundPart<_>, _| {
            bytes.extend(more.items().iter().copied());
        };
        self.look_up_on(device, ranges, of_file, in_part, ask, add)
    }

    /// Answers questions sorted by file, in batches that fit into memory; if not even what look-ups need does, in parts of the
    /// roots. `in_part` is a question as one to a part, whose file has another number there, and of whose file only some
    /// bytes may be there; `add` adds the answer of a part that begins at some byte of its file.
    fn look_up_on<Q: Copy, A: Default>(
        &self,
        device: &OnDevice<'_>,
        questions: &[Q],
        of_file: impl Fn(&Q) -> u32,
        in_part: impl Fn(Q, u32, Option<&Range<u64>>) -> Option<Q>,
        ask: impl Fn(&Gpu, &DeviceStructures, &[Q]) -> Result<Vec<A>>,
        add: impl Fn(&mut A, A, u64),
    ) -> Result<Vec<A>> {
        let view = self.view()?;
        let mut parts = in_parts(view, |part, of_part| {
            let Some(of_part) = of_part else {
                let build = |gpu: &Gpu, grammar| self.structures_on(gpu, view, grammar, part, None);
                let found = RefCell::new(Vec::with_capacity(questions.len()));
                device.with_lookups(self.residence(), build, |gpu, on| {
                    let found = &mut *found.borrow_mut();
                    in_batches(questions, BATCH_MIN, found, |batch| ask(gpu, on, batch))
                })?;
                return Ok((0, Vec::new(), found.into_inner()));
            };
            let bytes = self.bytes_of(part)?;
            let from = questions.partition_point(|question| of_file(question) < part.files.start);
            let to = questions.partition_point(|question| of_file(question) < part.files.end);
            let (mut numbers, mut asked) = (Vec::new(), Vec::new());
            for (number, &question) in (from..to).zip(&questions[from..to]) {
                let file = of_file(&question) - part.files.start;
                if let Some(question) = in_part(question, file, bytes.as_ref()) {
                    numbers.push(number);
                    asked.push(question);
                }
            }
            let found = RefCell::new(Vec::with_capacity(asked.len()));
            if !asked.is_empty() {
                let batch_min = if part.files.len() == 1 { 1 } else { BATCH_MIN };
                device.with_gpu(|gpu| {
                    let on = self.structures_on(gpu, of_part, None, part, bytes.as_ref())?;
                    let found = &mut *found.borrow_mut();
                    in_batches(&asked, batch_min, found, |batch| ask(gpu, &on, batch))
                })?;
            }
            let first = bytes.map_or(0, |bytes| bytes.start);
            Ok((first, numbers, found.into_inner()))
        })?;
        if let [(_, (_, _, found))] = &mut parts[..] {
            return Ok(std::mem::take(found));
        }
        let mut answers: Vec<A> = Vec::new();
        answers.resize_with(questions.len(), A::default);
        for (_, (first, numbers, found)) in parts {
            for (number, found) in numbers.into_iter().zip(found) {
                add(&mut answers[number], found, first);
            }
        }
        Ok(answers)
    }

    /// Which bytes of its only file a part has; none if it has all.
    fn bytes_of(&self, part: &RootPart) -> Result<Option<Range<u64>>> {
        let view = self.view()?;
        let is_whole = |file| view.root_range(file) == part.root;
        if part.files.len() > 1 || is_whole(part.files.start) {
            return Ok(None);
        }
        let lengths = self.lengths()?;
        let start = lengths.file_range(part.files.start).start;
        let at = |position| lengths.root_start(view, position) - start;
        Ok(Some(at(part.root.start)..at(part.root.end)))
    }

    /// Builds what look-ups in a part need: `part_bytes` of one file, or all of some files.
    fn structures_on(
        &self,
        gpu: &Gpu,
        view: GrammarView<'_>,
        grammar: Option<DeviceGrammar>,
        part: &RootPart,
        part_bytes: Option<&Range<u64>>,
    ) -> Result<DeviceStructures> {
        let signatures = self.signatures()?;
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
        let files = &self.files()?[part.files.start as usize..part.files.end as usize];
        let is_right = match part_bytes {
            Some(part) => lengths.eq([part.end - part.start]),
            None => lengths.eq(files.iter().map(|file| file.bytes)),
        };
        match is_right {
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

/// A part of the roots: some files, or some symbols of one file's root.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RootPart {
    files: Range<u32>,
    root: Range<usize>,
}

impl RootPart {
    /// The halves, first and second; none of a symbol. A file is cut when there is no other.
    fn halves(&self, view: GrammarView<'_>) -> Option<[RootPart; 2]> {
        let (files, root) = (&self.files, &self.root);
        let middle_file = files.start + (files.end - files.start) / 2;
        if middle_file > files.start {
            let middle = view.root_range(middle_file).start;
            return Some([
                RootPart {
                    files: files.start..middle_file,
                    root: root.start..middle,
                },
                RootPart {
                    files: middle_file..files.end,
                    root: middle..root.end,
                },
            ]);
        }
        let middle = root.start + root.len() / 2;
        (middle > root.start).then(|| {
            [root.start..middle, middle..root.end].map(|root| RootPart {
                files: files.clone(),
                root,
            })
        })
    }
}

/// A question about a word, to a part where its file has this number.
fn in_file(query: WordQuery, file: u32, _: Option<&Range<u64>>) -> Option<WordQuery> {
    Some(WordQuery { file, ..query })
}

/// Work that is done for all roots of a grammar, or, where that is too much for a device, for half of them at a time, and so
/// on: `work` is given a part, and its grammar if it is not all. The parts and what was found, in order.
fn in_parts<A>(
    view: GrammarView<'_>,
    work: impl Fn(&RootPart, Option<GrammarView<'_>>) -> Result<A>,
) -> Result<Vec<(RootPart, A)>> {
    let all = RootPart {
        // Files are numbered by u32.
        files: 0..view.files() as u32,
        root: 0..view.root.len(),
    };
    let mut found = Vec::new();
    let mut rest = vec![all.clone()];
    while let Some(part) = rest.pop() {
        let answer = match part == all {
            true => work(&part, None),
            false => {
                // Of a file that is cut only what lies in the part.
                let (start, end) = (part.root.start, part.root.end);
                let offsets =
                    &view.root_offsets[part.files.start as usize..=part.files.end as usize];
                let within = |&offset: &u32| ((offset as usize).clamp(start, end) - start) as u32;
                let offsets: Vec<u32> = offsets.iter().map(within).collect();
                let of_part = GrammarView {
                    root_offsets: &offsets,
                    root: &view.root[part.root.clone()],
                    ..view
                };
                work(&part, Some(of_part))
            }
        };
        match answer {
            Err(error) if is_too_much(&error) => match part.halves(view) {
                Some([first, second]) => rest.extend([second, first]),
                None => return Err(error),
            },
            answer => found.push((part, answer?)),
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
