//! Hits in context: sorted by words in or around them, sampled by a seed, with their texts.
//!
//! Invariant: the order of hits that compare equal is that of the corpus, and a sample depends on the seed and the hits alone, so a
//! page is the same each time.

use std::cmp::Ordering;
use std::sync::Arc;

use rayon::prelude::*;
use zipfdb_search::measures::{CountSample, KwicKey, KwicSlot, PercentSample, SampleSize};

use super::context::{NearWords, by_file};
use super::frequencies::{append_words_of_key, folded_numbers, reach};
use super::hit::Hit;
use super::spans::SpanSearch;
use crate::Result;
use crate::answer::access_path::Run;
use crate::answer::{CorpusView, Occurrence, PlaceRanges, WordStream};
use crate::runtime::interrupt::check;

/// A sample of the hits of a query, in their order. All hits are counted, and those of the files with some of the sample are read.
///
/// # Errors
/// If a segment is damaged, or the run must end.
pub(crate) fn sample(
    search: &SpanSearch,
    size: SampleSize,
    seed: u64,
    run: Run<'_>,
) -> Result<Vec<Hit>> {
    let files: Vec<u32> = (0..search.view().files().len() as u32).collect();
    let counts = search.counts(&files, run)?;
    let all = 0..counts.iter().sum::<u64>();
    // The numbers of the hits, ascending.
    let numbers: Vec<u64> = match size {
        SampleSize::Percent(percent) => {
            let sample = PercentSample::new(seed, percent);
            all.filter(|&number| sample.contains(number)).collect()
        }
        SampleSize::Count(count) => {
            let mut sample = CountSample::new(seed, count);
            all.for_each(|number| sample.add(number));
            sample.finish()
        }
    };
    let mut rest = &numbers[..];
    let mut before = 0;
    let mut asked: Vec<(u32, u64, &[u64])> = Vec::new();
    for (file, count) in files.into_iter().zip(counts) {
        let (of_file, later) = rest.split_at(rest.partition_point(|&at| at < before + count));
        if !of_file.is_empty() {
            asked.push((file, before, of_file));
        }
        (rest, before) = (later, before + count);
    }
    let of_files = asked.into_par_iter().map(|(file, before, numbers)| {
        let hits = search.hits_of(file, run)?;
        let chosen = numbers
            .iter()
            .map(|number| hits[(number - before) as usize]);
        Ok(chosen.collect::<Vec<Hit>>())
    });
    Ok(of_files.collect::<Result<Vec<_>>>()?.concat())
}

/// Sorts hits by keys.
///
/// # Errors
/// If a segment is damaged, or the run must end.
pub(crate) fn sort(
    search: &SpanSearch,
    hits: Vec<Hit>,
    keys: &[KwicKey],
    run: Run<'_>,
) -> Result<Vec<Hit>> {
    let view = search.view();
    let (left, right) = reach(keys);
    let folded = if keys.iter().any(|key| key.ignores_case) {
        folded_numbers(view)?
    } else {
        Vec::new()
    };
    let files: Vec<&[Hit]> = by_file(&hits).collect();
    // Words are in dictionary order, so their numbers sort as their texts do. The keys of a file are one list: for each key of each
    // hit the number of its words, then these.
    let of_files = files.par_iter().map(|hits| {
        let words = NearWords::around(view, hits, left, right, run)?;
        let (mut starts, mut numbers) = (Vec::with_capacity(hits.len()), Vec::new());
        for hit in *hits {
            check(run.stop)?;
            starts.push(numbers.len());
            for key in keys {
                let length = numbers.len();
                numbers.push(0);
                append_words_of_key(search, key, hit, &words, &mut numbers, run)?;
                // Files have fewer words than 2^32.
                numbers[length] = (numbers.len() - length - 1) as u32;
                if key.ignores_case {
                    for word in &mut numbers[length + 1..] {
                        *word = folded[*word as usize];
                    }
                }
            }
        }
        Ok((starts, numbers))
    });
    let of_files: Vec<(Vec<usize>, Vec<u32>)> = of_files.collect::<Result<_>>()?;
    let mut keyed: Vec<(&[u32], Hit)> = Vec::with_capacity(hits.len());
    let all_starts = of_files.iter().flat_map(|(starts, numbers)| {
        let of_hit = move |&start: &usize| &numbers[start..];
        starts.iter().map(of_hit)
    });
    keyed.extend(all_starts.zip(hits.iter().copied()));
    keyed.par_sort_by(|(left, left_hit), (right, right_hit)| {
        let (mut left, mut right) = (*left, *right);
        for key in keys {
            let (left_words, right_words) = (take_words(&mut left), take_words(&mut right));
            let order = match key.slot {
                KwicSlot::File => left_hit.file.cmp(&right_hit.file),
                KwicSlot::Position => left_hit.start.cmp(&right_hit.start),
                _ => left_words.cmp(right_words),
            };
            let order = if key.is_descending {
                order.reverse()
            } else {
                order
            };
            if order != Ordering::Equal {
                return order;
            }
        }
        left_hit.cmp(right_hit)
    });
    Ok(keyed.into_iter().map(|(_, hit)| hit).collect())
}

/// Takes the words of the next key off the keys of a hit.
fn take_words<'a>(keys: &mut &'a [u32]) -> &'a [u32] {
    let Some((length, rest)) = keys.split_first() else {
        return &[];
    };
    let (words, rest) = rest.split_at(*length as usize);
    *keys = rest;
    words
}

/// How much context a hit has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HitContext {
    Words {
        left: u64,
        right: u64,
    },
    /// At most this many bytes, of whole characters.
    Bytes {
        left: u64,
        right: u64,
    },
}

/// A hit with its text.
#[derive(Default)]
pub(crate) struct ConcordanceLine {
    /// The offset of its first byte in the file.
    pub(crate) offset: u64,
    pub(crate) left: Vec<u8>,
    pub(crate) text: Vec<u8>,
    pub(crate) right: Vec<u8>,
}

/// A text that begins anywhere in a text in UTF-8, without the rest of a character at its start.
fn without_cut_start(text: &[u8]) -> &[u8] {
    let is_inner = |byte: &&u8| **byte & 0b1100_0000 == 0b1000_0000;
    let cut = text.iter().take(3).take_while(is_inner).count();
    &text[cut..]
}

/// A text that ends anywhere in a text in UTF-8, without the begin of a character at its end.
fn without_cut_end(text: &[u8]) -> &[u8] {
    let rest = text
        .utf8_chunks()
        .last()
        .map_or(&[][..], |chunk| chunk.invalid());
    let is_cut = str::from_utf8(rest).is_err_and(|error| error.error_len().is_none());
    let cut = if is_cut { rest.len() } else { 0 };
    &text[..text.len() - cut]
}

/// Reads the text of a hit and around it.
///
/// # Errors
/// If a segment is damaged.
pub(crate) fn line(
    view: &Arc<CorpusView>,
    hit: Hit,
    context: HitContext,
) -> Result<ConcordanceLine> {
    let summary = &view.files()[hit.file as usize];
    let (words_left, words_right) = match context {
        HitContext::Words { left, right } => (left, right),
        HitContext::Bytes { .. } => (0, 0),
    };
    let first = hit.start.saturating_sub(words_left).min(summary.words - 1);
    let end = hit
        .end
        .saturating_add(words_right)
        .clamp(first + 1, summary.words);
    let places = PlaceRanges {
        positions: first..=end - 1,
        ..PlaceRanges::ALL
    };
    let mut stream = WordStream::within(view.clone(), vec![hit.file], places, 0);
    let mut words: Vec<Occurrence> = Vec::new();
    stream.fill(&mut words, (end - first) as usize + 1)?;
    words.retain(|word| (first..end).contains(&word.position));
    let word = |position: u64| &words[(position - first) as usize];
    let word_end = |position: u64| {
        let word = word(position);
        word.offset + view.word(word.word).len() as u64
    };
    // Two captures may show nothing between them.
    let behind = match hit.end.checked_sub(1) {
        Some(last) if last >= hit.start => word_end(last),
        _ => word(hit.start.min(end - 1)).offset,
    };
    let offset = word(hit.start.min(end - 1)).offset.min(behind);
    let (text_start, text_end) = match context {
        HitContext::Words { .. } => (word(first).offset, word_end(end - 1)),
        HitContext::Bytes { left, right } => (
            offset.saturating_sub(left),
            behind.saturating_add(right).min(summary.bytes),
        ),
    };
    let text = view.extract(hit.file as usize, text_start, text_end - text_start)?;
    let (before, rest) = text.split_at((offset - text_start) as usize);
    let (text, right) = rest.split_at((behind - offset) as usize);
    let (before, right) = match context {
        HitContext::Words { .. } => (before, right),
        HitContext::Bytes { .. } => (without_cut_start(before), without_cut_end(right)),
    };
    Ok(ConcordanceLine {
        offset,
        left: before.to_vec(),
        text: text.to_vec(),
        right: right.to_vec(),
    })
}
