//! Hits grouped by words in or around them.
//!
//! Invariant: a key is the numbers of words, so texts are made once a group. Keys that ignore case take the first word of the
//! dictionary that folds to the same.

use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use rayon::prelude::*;
use zipfdb_search::measures::{KwicKey, KwicSlot};

use super::context::NearWords;
use super::hit::Hit;
use super::spans::SpanSearch;
use super::words::folded;
use crate::answer::CorpusView;
use crate::answer::access_path::Run;
use crate::runtime::interrupt::check;
use crate::{Error, Result};

/// Between the keys of a group. Words are numbered below it.
const BETWEEN: u32 = u32::MAX;

/// Tasks for each thread, which count groups apart.
const TASKS_A_THREAD: usize = 4;

/// HitGroups by the words of their keys.
type HitGroups = HashMap<Vec<u32>, GroupCounts, FixedState>;

#[derive(Default)]
struct GroupCounts {
    count: u64,
    files: u64,
    /// The last file with a hit of the group.
    last_file: Option<u32>,
}

/// A group of hits.
pub(crate) struct HitGroup {
    /// The texts of its keys, joined by one tab; the words of a key by one space.
    pub(crate) text: Vec<u8>,
    pub(crate) count: u64,
    pub(crate) files: u64,
}

/// How far the words that keys name are from a hit.
pub(crate) fn reach(keys: &[KwicKey]) -> (u64, u64) {
    let mut reach = (0, 0);
    for key in keys {
        match key.slot {
            KwicSlot::Left(words) => reach.0 = reach.0.max(u64::from(words)),
            KwicSlot::Right(words) => reach.1 = reach.1.max(u64::from(words)),
            _ => {}
        }
    }
    reach
}

/// For each word the number that stands for it where case is ignored: the first word that folds to the same.
pub(crate) fn folded_numbers(view: &CorpusView) -> Result<Vec<u32>> {
    let words = view.vocabulary()?;
    let text = view.words();
    let mut numbers = Vec::with_capacity(words.len());
    let mut last: Option<(u32, Vec<u8>)> = None;
    // Words are numbered by u32, and those that fold to the same are neighbours.
    for word in 0..words.len() as u32 {
        let folded = folded(text(word)).into_owned();
        match &last {
            Some((first, known)) if *known == folded => numbers.push(*first),
            _ => {
                numbers.push(word);
                last = Some((word, folded));
            }
        }
    }
    Ok(numbers)
}

/// Appends the words of a key of a hit to `to`.
///
/// # Errors
/// If a segment is damaged, or the run must end.
pub(crate) fn append_words_of_key(
    search: &SpanSearch,
    key: &KwicKey,
    hit: &Hit,
    words: &NearWords,
    to: &mut Vec<u32>,
    run: Run<'_>,
) -> Result<()> {
    let one = |position: Option<u64>| position.and_then(|position| words.word(position));
    match &key.slot {
        KwicSlot::Left(distance) => {
            to.extend(one(hit.start.checked_sub(u64::from(*distance))));
        }
        KwicSlot::Right(distance) => to.extend(one(Some(hit.end + u64::from(*distance) - 1))),
        KwicSlot::FromStart(number) => {
            let position = hit.start + u64::from(*number) - 1;
            to.extend(one((position < hit.end).then_some(position)));
        }
        KwicSlot::FromEnd(number) => {
            let position = hit.end.checked_sub(u64::from(*number));
            to.extend(one(position.filter(|position| *position >= hit.start)));
        }
        KwicSlot::Hit => to.extend(words.get(hit.start..hit.end)),
        KwicSlot::Capture(name) => {
            let place = search.captures().iter().position(|known| known == name);
            let captures = search.captures_of(hit, run)?;
            let range = place.and_then(|place| captures.get(place)?.clone());
            if let Some(range) = range {
                to.extend(words.get(range));
            }
        }
        KwicSlot::File | KwicSlot::Position => {}
    }
    Ok(())
}

/// HitGroups the hits of a query by keys; groups come by count, greatest first, then by text.
///
/// # Errors
/// If a segment is damaged, or the run must end.
pub(crate) fn frequencies(
    search: &SpanSearch,
    keys: &[KwicKey],
    run: Run<'_>,
) -> Result<Vec<HitGroup>> {
    let view: &Arc<CorpusView> = search.view();
    let (left, right) = reach(keys);
    let numbers = if keys.iter().any(|key| key.ignores_case) {
        folded_numbers(view)?
    } else {
        Vec::new()
    };
    let has_file = keys.iter().any(|key| key.slot == KwicSlot::File);
    search.prepare_all(run)?;
    // Files are numbered by u32. Hits are held for one file at a time.
    let files = (0..view.files().len() as u32).into_par_iter();
    let tasks = rayon::current_num_threads() * TASKS_A_THREAD;
    let groups = files
        .with_min_len(view.files().len().div_ceil(tasks))
        .try_fold(HitGroups::default, |mut groups, file| {
            let hits = search.hits_of(file, run)?;
            let words = NearWords::around(view, &hits, left, right, run)?;
            let mut group = Vec::new();
            for hit in &hits {
                check(run.stop)?;
                group.clear();
                for (index, key) in keys.iter().enumerate() {
                    if index > 0 {
                        group.push(BETWEEN);
                    }
                    match key.slot {
                        KwicSlot::File => group.push(hit.file),
                        KwicSlot::Position => {
                            // The halves of the number.
                            group.extend([(hit.start >> 32) as u32, hit.start as u32]);
                        }
                        _ => {
                            let first = group.len();
                            append_words_of_key(search, key, hit, &words, &mut group, run)?;
                            if key.ignores_case {
                                for word in &mut group[first..] {
                                    *word = numbers[*word as usize];
                                }
                            }
                        }
                    }
                }
                let counts = groups.entry_ref(&group[..]).or_default();
                counts.count += 1;
                if counts.last_file != Some(file) {
                    counts.last_file = Some(file);
                    counts.files += 1;
                }
            }
            Ok::<_, Error>(groups)
        });
    let groups = groups.try_reduce(HitGroups::default, |mut left, mut right| {
        if left.len() < right.len() {
            (left, right) = (right, left);
        }
        // Tasks have different files.
        for (group, counts) in right {
            let known = left.entry(group).or_default();
            known.count += counts.count;
            known.files += counts.files;
        }
        Ok(left)
    })?;
    let text = view.words();
    let mut found: Vec<HitGroup> = groups
        .into_iter()
        .map(|(group, GroupCounts { count, files, .. })| {
            let mut bytes = Vec::new();
            for (index, (key, words)) in keys
                .iter()
                .zip(group.split(|&word| word == BETWEEN))
                .enumerate()
            {
                if index > 0 {
                    bytes.push(b'\t');
                }
                match (&key.slot, words) {
                    (KwicSlot::File, [file]) => {
                        bytes.extend(view.files()[*file as usize].name.as_bytes());
                    }
                    (KwicSlot::Position, [high, low]) => {
                        let position = u64::from(*high) << 32 | u64::from(*low);
                        bytes.extend(position.to_string().as_bytes());
                    }
                    _ => {
                        let words = words.iter().map(|&word| {
                            if key.ignores_case {
                                folded(text(word)).into_owned()
                            } else {
                                text(word).to_vec()
                            }
                        });
                        bytes.extend(words.collect::<Vec<_>>().join(&b' '));
                    }
                }
            }
            HitGroup {
                text: bytes,
                count,
                files: if has_file { 1 } else { files },
            }
        })
        .collect();
    found.par_sort_by(|left, right| (right.count, &left.text).cmp(&(left.count, &right.text)));
    Ok(found)
}
