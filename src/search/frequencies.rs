//! Hits grouped by words in or around them, and by metadata of their files.
//!
//! Invariant: a key is the numbers of words, or of a value, so texts are made once a group. Keys that ignore case take the first word
//! of the dictionary that folds to the same.

use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use rayon::prelude::*;
use zipfdb_search::measures::{KwicKey, KwicSlot};

use super::context::NearWords;
use super::hit::Hit;
use super::spans::SpanSearch;
use super::subcorpus::{FileGroups, Subcorpus};
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

/// What hits are grouped by.
pub(crate) enum GroupKey {
    Words(KwicKey),
    /// The value of the file.
    Metadata(FileGroups),
}

impl GroupKey {
    fn words(&self) -> Option<&KwicKey> {
        match self {
            GroupKey::Words(key) => Some(key),
            GroupKey::Metadata(_) => None,
        }
    }
}

/// A group of hits.
pub(crate) struct HitGroup {
    /// The texts of its keys, joined by one tab; the words of a key by one space. None where NULL is the only key.
    pub(crate) text: Option<Vec<u8>>,
    pub(crate) count: u64,
    pub(crate) files: u64,
    /// The words of the files with the values of the group.
    pub(crate) words: u64,
}

/// How far the words that keys name are from a hit.
pub(crate) fn reach<'k>(keys: impl IntoIterator<Item = &'k KwicKey>) -> (u64, u64) {
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

/// Groups the hits of a query in a subcorpus by keys; groups come by count, greatest first, then by text.
///
/// # Errors
/// If a segment is damaged, or the run must end.
pub(crate) fn frequencies(
    search: &SpanSearch,
    of: &Subcorpus,
    keys: &[GroupKey],
    run: Run<'_>,
) -> Result<Vec<HitGroup>> {
    let view: &Arc<CorpusView> = search.view();
    let widths = reach(keys.iter().filter_map(GroupKey::words));
    let mut of_words = keys.iter().filter_map(GroupKey::words);
    let numbers = if of_words.any(|key| key.ignores_case) {
        folded_numbers(view)?
    } else {
        Vec::new()
    };
    let mut of_words = keys.iter().filter_map(GroupKey::words);
    let has_file = of_words.any(|key| key.slot == KwicSlot::File);
    search.prepare_all(run)?;
    // Hits are held for one file at a time.
    let tasks = rayon::current_num_threads() * TASKS_A_THREAD;
    let files = of.files.par_iter();
    let groups = files
        .with_min_len(of.files.len().div_ceil(tasks).max(1))
        .try_fold(HitGroups::default, |mut groups, &file| {
            let (hits, words) = search.hits_in_context(file, widths, run)?;
            let mut group = Vec::new();
            for hit in &hits {
                check(run.stop)?;
                group.clear();
                for (index, key) in keys.iter().enumerate() {
                    if index > 0 {
                        group.push(BETWEEN);
                    }
                    let key = match key {
                        GroupKey::Words(key) => key,
                        GroupKey::Metadata(groups) => {
                            group.push(groups.numbers[file as usize]);
                            continue;
                        }
                    };
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
    let sizes = sizes_of_values(view, of, keys);
    let groups: Vec<(Vec<u32>, GroupCounts)> = groups.into_iter().collect();
    let made = groups
        .into_par_iter()
        .map(|(group, GroupCounts { count, files, .. })| HitGroup {
            text: text_of(view, keys, &group),
            count,
            files: if has_file { 1 } else { files },
            words: (sizes.get(&values_of(keys, &group)).copied()).unwrap_or(of.words),
        });
    let mut found: Vec<HitGroup> = made.collect();
    found.par_sort_by(|left, right| (right.count, &left.text).cmp(&(left.count, &right.text)));
    Ok(found)
}

/// The numbers of the values in a group.
fn values_of(keys: &[GroupKey], group: &[u32]) -> Vec<u32> {
    let parts = keys.iter().zip(group.split(|&word| word == BETWEEN));
    let values = parts.filter(|(key, _)| key.words().is_none());
    values.flat_map(|(_, part)| part.iter().copied()).collect()
}

/// The words of the files with the same values, by these; empty without keys of metadata.
fn sizes_of_values(
    view: &CorpusView,
    of: &Subcorpus,
    keys: &[GroupKey],
) -> HashMap<Vec<u32>, u64, FixedState> {
    let columns = keys.iter().filter_map(|key| match key {
        GroupKey::Words(_) => None,
        GroupKey::Metadata(groups) => Some(groups),
    });
    let columns: Vec<&FileGroups> = columns.collect();
    let mut sizes: HashMap<Vec<u32>, u64, FixedState> = HashMap::default();
    if columns.is_empty() {
        return sizes;
    }
    for &file in &of.files {
        let values = columns.iter().map(|groups| groups.numbers[file as usize]);
        *sizes.entry(values.collect()).or_default() += view.files()[file as usize].words;
    }
    sizes
}

/// The text of a group.
fn text_of(view: &CorpusView, keys: &[GroupKey], group: &[u32]) -> Option<Vec<u8>> {
    let text = view.words();
    let mut bytes = Vec::new();
    let parts = group.split(|&word| word == BETWEEN);
    for (index, (key, words)) in keys.iter().zip(parts).enumerate() {
        if index > 0 {
            bytes.push(b'\t');
        }
        let key = match (key, words) {
            (GroupKey::Metadata(groups), &[number, ..]) => {
                match &groups.texts[number as usize] {
                    Some(value) => bytes.extend(value.as_bytes()),
                    None if keys.len() == 1 => return None,
                    None => {}
                }
                continue;
            }
            (GroupKey::Metadata(_), []) => continue,
            (GroupKey::Words(key), _) => key,
        };
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
    Some(bytes)
}
