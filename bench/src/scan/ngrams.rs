//! N-grams of resident word ids: radix partition by first word, then a sort in cache.
//!
//! The invariant: a window of n words is one 64-bit integer: its first word counted from the first one of its bucket, its
//! other words, and its file. Buckets have about as many windows as fit a core's cache, from word counts that are known
//! before. It shares no code with the database.

use std::ops::Range;

use rayon::prelude::*;
use zipfdb_kernels::{CountTable, NgramCounts, NgramFiles};

use super::Scan;
use crate::Result;

/// Windows of a bucket, about.
const BUCKET_WINDOWS: u64 = 1 << 13;

/// Tasks a thread has.
const THREAD_TASKS: usize = 4;

/// Bits of a digit.
const DIGIT_BITS: u32 = 11;

/// Fewer items are sorted by comparing.
const COMPARED_ITEMS: usize = 96;

/// How windows become integers and fall into buckets.
struct Layout {
    n: usize,
    word_bits: u32,
    file_bits: u32,
    /// By word.
    bucket_of: Vec<u16>,
    /// By bucket.
    first_words: Vec<u32>,
}

impl Layout {
    fn new(scan: &Scan<'_>, counts: &[u32], n: usize, with_files: bool) -> Result<Layout> {
        let bits = |values: usize| usize::BITS - values.saturating_sub(1).leading_zeros();
        let word_bits = bits(scan.word_count as usize);
        let file_bits = if with_files { bits(scan.files()) } else { 0 };
        let rest = word_bits * (n as u32 - 1) + file_bits;
        let first_bits = u64::BITS.checked_sub(rest + 1);
        let first_bits = first_bits
            .ok_or("windows do not fit 64 bits")?
            .min(word_bits);
        let (mut bucket_of, mut first_words) = (Vec::with_capacity(counts.len()), vec![0]);
        let mut filled = 0;
        for (word, &count) in (0u32..).zip(counts) {
            let last = first_words[first_words.len() - 1];
            let is_full = filled > 0 && filled + u64::from(count) > BUCKET_WINDOWS;
            if is_full || u64::from(word - last) >> first_bits > 0 {
                first_words.push(word);
                filled = 0;
            }
            filled += u64::from(count);
            bucket_of.push(u16::try_from(first_words.len() - 1)?);
        }
        Ok(Layout {
            n,
            word_bits,
            file_bits,
            bucket_of,
            first_words,
        })
    }

    /// Calls `visit` with first word, all words and file of each window that begins in `range` of the words.
    #[inline(always)]
    fn each(&self, scan: &Scan<'_>, range: Range<usize>, mut visit: impl FnMut(u32, u64, u64)) {
        let offsets = scan.file_offsets;
        let mut file = offsets.partition_point(|&offset| offset as usize <= range.start) - 1;
        let mut start = range.start;
        let rest_mask = (1 << (self.word_bits * (self.n as u32 - 1))) - 1;
        while start < range.end {
            let file_end = offsets[file + 1] as usize;
            let end = (file_end + 1).saturating_sub(self.n).min(range.end);
            if start < end {
                let words = &scan.words[start..end + self.n - 1];
                let (before, ends) = words.split_at(self.n - 1);
                let push = |key, &word: &u32| key << self.word_bits | u64::from(word);
                let mut key = before.iter().fold(0, push);
                for (&first, word) in words.iter().zip(ends) {
                    key = push(key & rest_mask, word);
                    visit(first, key & rest_mask, file as u64);
                }
            }
            start = file_end.min(range.end);
            file += 1;
        }
    }

    /// The windows of all words, by task, in buckets.
    fn partition(&self, scan: &Scan<'_>) -> Vec<Partition> {
        let tasks = rayon::current_num_threads() * THREAD_TASKS;
        let part = scan.words.len().div_ceil(tasks).max(1);
        let rest_bits = self.word_bits * (self.n as u32 - 1);
        let task = |task: usize| {
            let range = task * part..scan.words.len().min((task + 1) * part);
            let mut starts = vec![0u32; self.first_words.len() + 1];
            // The last words of files begin no window; their room stays unused.
            for &word in &scan.words[range.clone()] {
                starts[usize::from(self.bucket_of[word as usize]) + 1] += 1;
            }
            for bucket in 0..self.first_words.len() {
                starts[bucket + 1] += starts[bucket];
            }
            let mut ends = starts.clone();
            let mut items = vec![0u64; range.len()];
            self.each(scan, range, |first, rest, file| {
                let bucket = usize::from(self.bucket_of[first as usize]);
                let inside = u64::from(first - self.first_words[bucket]);
                let key = inside << rest_bits | rest;
                let at = &mut ends[bucket];
                items[*at as usize] = key << self.file_bits | file & ((1 << self.file_bits) - 1);
                *at += 1;
            });
            Partition {
                items,
                starts,
                ends,
            }
        };
        (0..tasks.min(scan.words.len().div_ceil(part)))
            .into_par_iter()
            .map(task)
            .collect()
    }

    /// Sorts every bucket by its words, stably, and lets `merge` make something of it.
    fn parts<P: Send>(
        &self,
        scan: &Scan<'_>,
        merge: impl Fn(usize, &[u64]) -> P + Sync + Send,
    ) -> Vec<P> {
        let tasks = self.partition(scan);
        let bucket = |(items, scratch): &mut (Vec<u64>, Scratch), bucket: usize| {
            items.clear();
            for task in &tasks {
                let range = task.starts[bucket] as usize..task.ends[bucket] as usize;
                items.extend_from_slice(&task.items[range]);
            }
            sort(items, self.file_bits, scratch);
            merge(bucket, items)
        };
        (0..self.first_words.len())
            .into_par_iter()
            .map_init(Default::default, bucket)
            .collect()
    }

    /// How many different keys sorted items have.
    fn distinct(&self, items: &[u64]) -> usize {
        let next = items.iter().skip(1);
        let changes = items
            .iter()
            .zip(next)
            .map(|(a, b)| usize::from((a ^ b) >> self.file_bits > 0));
        changes.sum::<usize>() + usize::from(!items.is_empty())
    }

    #[inline(always)]
    fn unpack(&self, bucket: usize, item: u64, words: &mut [u32]) {
        let mut key = item >> self.file_bits;
        for word in words[1..].iter_mut().rev() {
            *word = (key & ((1 << self.word_bits) - 1)) as u32;
            key >>= self.word_bits;
        }
        words[0] = self.first_words[bucket] + key as u32;
    }
}

/// The windows of one task.
struct Partition {
    items: Vec<u64>,
    /// By bucket: where its windows begin and end.
    starts: Vec<u32>,
    ends: Vec<u32>,
}

#[derive(Default)]
struct Scratch {
    items: Vec<u64>,
    counts: Vec<u32>,
}

/// Sorts by all but the `low` lowest bits, stably, by digits.
fn sort(items: &mut Vec<u64>, low: u32, scratch: &mut Scratch) {
    if items.len() < COMPARED_ITEMS {
        items.sort_by_key(|item| item >> low);
        return;
    }
    let differing = items.iter().fold(0, |all, item| all | (item ^ items[0])) >> low;
    let bits = u64::BITS - differing.leading_zeros();
    let passes = bits.div_ceil(DIGIT_BITS);
    let digit_bits = bits.div_ceil(passes.max(1));
    let mask = (1 << digit_bits) - 1;
    let digit = |item: u64, pass: u32| (item >> (low + pass * digit_bits) & mask) as usize;
    scratch.counts.clear();
    scratch.counts.resize((passes as usize) << digit_bits, 0);
    for &item in &*items {
        for pass in 0..passes {
            scratch.counts[(pass as usize) << digit_bits | digit(item, pass)] += 1;
        }
    }
    scratch.items.resize(items.len(), 0);
    for (pass, counts) in (0..passes).zip(scratch.counts.chunks_mut(1 << digit_bits)) {
        let mut before = 0;
        for count in &mut *counts {
            (*count, before) = (before, before + *count);
        }
        let target = &mut scratch.items[..];
        for &item in &*items {
            let at = &mut counts[digit(item, pass)];
            target[*at as usize] = item;
            *at += 1;
        }
        std::mem::swap(items, &mut scratch.items);
    }
}

/// All n-grams with counts; `counts` are those of the words.
pub fn counts<const N: usize>(scan: &Scan<'_>, counts: &[u32]) -> Result<Vec<NgramCounts>> {
    let layout = Layout::new(scan, counts, N, false)?;
    Ok(layout.parts(scan, |bucket, items| {
        let distinct = layout.distinct(items);
        let (mut words, mut counts) = (vec![0; distinct * N], vec![0; distinct]);
        let (mut row, mut last) = (0, items.first().copied().unwrap_or(0));
        for &item in items {
            row += usize::from(item != last);
            last = item;
            layout.unpack(bucket, item, &mut words[row * N..][..N]);
            counts[row] += 1;
        }
        NgramCounts { words, counts }
    }))
}

/// All n-grams with their files, the largest count first.
pub fn files<const N: usize>(scan: &Scan<'_>, counts: &[u32]) -> Result<Vec<NgramFiles>> {
    let layout = Layout::new(scan, counts, N, true)?;
    let file_mask = (1 << layout.file_bits) - 1;
    Ok(layout.parts(scan, |bucket, items| {
        let distinct = layout.distinct(items);
        let mut words = vec![0; distinct * N];
        let mut offsets = Vec::with_capacity(distinct + 1);
        offsets.push(0);
        let mut entries: Vec<(u32, u32)> = Vec::with_capacity(items.len());
        let runs = items.chunk_by(|a, b| (a ^ b) >> layout.file_bits == 0);
        for (words, run) in words.chunks_exact_mut(N).zip(runs) {
            layout.unpack(bucket, run[0], words);
            let start = entries.len();
            for file in run.iter().map(|item| (item & file_mask) as u32) {
                match entries[start..].last_mut() {
                    Some(last) if last.0 == file => last.1 += 1,
                    _ => entries.push((file, 1)),
                }
            }
            let row = &mut entries[start..];
            if row.len() > 1 {
                row.sort_unstable_by_key(|&(file, count)| (std::cmp::Reverse(count), file));
            }
            offsets.push(entries.len());
        }
        NgramFiles {
            words,
            files: CountTable { offsets, entries }.into(),
        }
    }))
}
