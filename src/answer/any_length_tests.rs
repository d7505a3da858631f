//! Words of any length compared with a scan of the plain words: on random and repeated texts, files in parts, several segments and
//! pending edits, with and without the structures that answers may come from.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use zipfdb_kernels::{LongOrder, WordSuffixes};
use zipfdb_storage::Tokenizer;

use super::access_path::{PathName, Run};
use super::edit_tests::{edit, some_edits};
use super::tests::{Numbers, Texts, segments_of, snapshot_of, stored, text, texts, words};
use super::{CorpusView, StoredView};
use crate::handles::snapshot::Snapshot;
use crate::overlay::Overlay;
use crate::runtime::interrupt::NEVER;

/// The words of each file in order of name, with their offsets.
struct Plain(Vec<(String, FileWords)>);

/// Words with their offsets.
type FileWords = Vec<(Vec<u8>, u64)>;

impl Plain {
    fn new(texts: &Texts, tokenizer: Tokenizer) -> Plain {
        let files = texts.iter();
        Plain(
            files
                .map(|(name, text)| (name.clone(), words(tokenizer, text)))
                .collect(),
        )
    }

    /// The files and offsets of a phrase.
    fn places(&self, phrase: &[&[u8]]) -> Vec<(&str, u64)> {
        let mut places = Vec::new();
        for (name, words) in &self.0 {
            let windows = words.windows(phrase.len());
            let same = windows.filter(|window| {
                window
                    .iter()
                    .map(|(word, _)| &word[..])
                    .eq(phrase.iter().copied())
            });
            places.extend(same.map(|window| (&name[..], window[0].1)));
        }
        places
    }

    fn next_words(&self, context: &[&[u8]]) -> BTreeMap<&[u8], u64> {
        let mut next: BTreeMap<&[u8], u64> = BTreeMap::new();
        for (_, words) in &self.0 {
            for window in words.windows(context.len() + 1) {
                let (last, first) = window.split_last().unwrap();
                if first
                    .iter()
                    .map(|(word, _)| &word[..])
                    .eq(context.iter().copied())
                {
                    *next.entry(&last.0[..]).or_default() += 1;
                }
            }
        }
        next
    }

    /// For each word of a text the length of the longest match.
    fn longest(&self, text: &[&[u8]]) -> Vec<usize> {
        let mut longest = vec![0; text.len()];
        for (_, words) in &self.0 {
            // For each word of the text the length of the match at the word of the file, from the end.
            let mut behind = vec![0; text.len() + 1];
            for (word, _) in words.iter().rev() {
                for at in 0..text.len() {
                    behind[at] = if text[at] == &word[..] {
                        behind[at + 1] + 1
                    } else {
                        0
                    };
                    longest[at] = longest[at].max(behind[at]);
                }
            }
        }
        longest
    }

    /// Texts to ask about: stretches of files with words changed, dropped and put together.
    fn asked(&self, numbers: &mut Numbers) -> Vec<Vec<&[u8]>> {
        let all: Vec<&[(Vec<u8>, u64)]> = (self.0.iter())
            .map(|(_, words)| &words[..])
            .filter(|words| !words.is_empty())
            .collect();
        let mut asked = vec![Vec::new(), vec![&b"nowhere"[..]; 3]];
        for _ in 0..4 {
            let mut text: Vec<&[u8]> = Vec::new();
            for _ in 0..numbers.below(5) {
                let Some(words) = all.get(numbers.below(1 + all.len() as u64) as usize) else {
                    text.push(b"nowhere");
                    continue;
                };
                let start = numbers.below(words.len() as u64) as usize;
                let length = [1, 3, 12, 60][numbers.below(4) as usize];
                let stretch = words[start..].iter().take(length);
                text.extend(stretch.map(|(word, _)| &word[..]));
            }
            asked.push(text);
        }
        asked
    }
}

/// Compares all answers.
fn check(snapshot: &Snapshot, texts: &Texts, tokenizer: Tokenizer, numbers: &mut Numbers) {
    let plain = Plain::new(texts, tokenizer);
    for text in plain.asked(numbers) {
        check_matches(snapshot, &plain, &text);
        for length in [0, 1, 2, 7, 8, 9, 30] {
            if text.len() >= length {
                check_context(snapshot, &plain, &text[text.len() - length..]);
                check_context(snapshot, &plain, &text[..length]);
            }
        }
        for length in [1, 8, 9, 10, 17, 40] {
            for phrase in text.windows(length).step_by(1 + text.len() / 4) {
                let places = plain.places(phrase);
                assert_eq!(snapshot.phrase_count(phrase).unwrap(), places.len() as u64);
                let found = snapshot.phrase_search(phrase).unwrap();
                let found = (found.iter()).flat_map(|(file, offsets)| {
                    offsets.iter().map(move |&offset| (&file[..], offset))
                });
                assert!(found.eq(places), "{phrase:?}");
            }
        }
    }
}

fn check_context(snapshot: &Snapshot, plain: &Plain, context: &[&[u8]]) {
    let check = |found: super::NextWords, expected: &BTreeMap<&[u8], u64>| {
        let sum: u64 = expected.values().sum();
        assert!(found.words.is_sorted_by_key(|next| u64::MAX - next.count));
        for next in &found.words {
            let share = next.count as f64 / sum as f64;
            assert!((next.probability - share).abs() < 1e-9);
        }
        let words = found.words.iter().map(|next| (&next.word[..], next.count));
        assert_eq!(&words.collect::<BTreeMap<_, _>>(), expected, "{context:?}");
    };
    let expected = plain.next_words(context);
    let found = snapshot.next_words(context, false).unwrap();
    assert_eq!(found.context_words, context.len());
    check(found, &expected);
    let ends = (0..=context.len()).map(|start| &context[start..]);
    let mut ends = ends.map(|end| (end.len(), plain.next_words(end)));
    let (length, expected) = ends.find(|(_, next)| !next.is_empty()).unwrap_or_default();
    let found = snapshot.next_words(context, true).unwrap();
    assert_eq!(found.context_words, length);
    check(found, &expected);
}

fn check_matches(snapshot: &Snapshot, plain: &Plain, text: &[&[u8]]) {
    let longest = plain.longest(text);
    let mut expected = Vec::new();
    let mut end = 0;
    for (start, &words) in longest.iter().enumerate() {
        if start + words > end && words > 0 {
            expected.push((start, words));
            end = start + words;
        }
    }
    let found = snapshot.longest_matches(text, 0).unwrap();
    let spans = found.iter().map(|found| (found.position, found.words));
    assert_eq!(spans.collect::<Vec<_>>(), expected, "{text:?}");
    for found in &found {
        let places = plain.places(&text[found.position..found.position + found.words]);
        assert_eq!(found.count, places.len() as u64);
        assert!(places.contains(&(&found.file[..], found.offset)));
    }
    for n in [1, 4, 13] {
        let long: Vec<_> = found
            .iter()
            .filter(|found| found.words >= n)
            .cloned()
            .collect();
        assert_eq!(snapshot.longest_matches(text, n).unwrap(), long);
        let mut covered = BTreeSet::new();
        for (start, &words) in longest.iter().enumerate() {
            covered.extend(if words >= n {
                start..start + words
            } else {
                0..0
            });
        }
        let overlap = snapshot.overlap(text, n).unwrap();
        assert_eq!(
            (overlap.words, overlap.covered),
            (text.len(), covered.len())
        );
        let most = longest.iter().copied().max().unwrap_or(0);
        assert_eq!(overlap.longest.map_or(0, |found| found.words), most);
    }
}

/// All passages that occur twice and cannot be made longer.
fn check_duplicates(snapshot: &Snapshot, texts: &Texts, tokenizer: Tokenizer, words_min: usize) {
    let plain = Plain::new(texts, tokenizer);
    let mut passages: BTreeMap<Vec<&[u8]>, Vec<(usize, usize)>> = BTreeMap::new();
    for (file, (_, words)) in plain.0.iter().enumerate() {
        for start in 0..words.len() {
            // Longer repeats do not occur in these texts.
            for end in start + words_min..=words.len().min(start + 80) {
                let passage = words[start..end].iter().map(|(word, _)| &word[..]);
                passages
                    .entry(passage.collect())
                    .or_default()
                    .push((file, start));
            }
        }
    }
    passages.retain(|passage, places| {
        let beside = |shift: isize| -> Option<BTreeSet<&[u8]>> {
            let words = places.iter().map(|&(file, start)| {
                let at = start.checked_add_signed(shift)?;
                Some(&plain.0[file].1.get(at)?.0[..])
            });
            words.collect()
        };
        let differs = |words: Option<BTreeSet<&[u8]>>| words.is_none_or(|words| words.len() > 1);
        places.len() > 1 && differs(beside(-1)) && differs(beside(passage.len() as isize))
    });
    let found = snapshot.duplicates(words_min as u32).unwrap();
    assert_eq!(found.len(), passages.len());
    let mut last = u64::MAX;
    for found in found {
        let found = found.unwrap();
        assert!(found.words * found.count <= last);
        last = found.words * found.count;
        let bytes = snapshot
            .extract(&found.file, found.offset, found.length)
            .unwrap();
        let passage = words(tokenizer, &bytes);
        let passage: Vec<&[u8]> = passage.iter().map(|(word, _)| &word[..]).collect();
        let places = &passages[&passage];
        assert_eq!(found.count, places.len() as u64);
        let files: BTreeSet<usize> = places.iter().map(|&(file, _)| file).collect();
        assert_eq!(found.files, files.len() as u64);
        let (file, start) = places[0];
        assert_eq!(
            (&found.file, found.position),
            (&plain.0[file].0, start as u64)
        );
    }
}

/// Builds the structures of all segments, or those that only hold the suffix array.
fn build(view: &StoredView, with_order: bool) {
    for index in 0..view.segments().len() {
        let segment = view.segment_at(index);
        segment.pin::<WordSuffixes>().unwrap();
        if with_order {
            segment.pin::<LongOrder>().unwrap();
        }
    }
}

/// Text of a few hundred words that repeats long stretches.
fn repeated(numbers: &mut Numbers, size: usize) -> Vec<u8> {
    let mut all = text(numbers, size / 4);
    while all.len() < size {
        let from = numbers.below(all.len() as u64 / 2) as usize;
        let stretch = String::from_utf8_lossy(&all[from..(from + 300).min(all.len())]);
        let stretch = stretch.replace('\u{fffd}', "");
        all.extend_from_slice(stretch.as_bytes());
        all.extend_from_slice(&text(numbers, 20));
    }
    all
}

fn check_stored(seed: u64, tokenizer: Tokenizer, segment_size: u64) {
    println!("seed {seed}");
    let mut numbers = Numbers(seed);
    let mut texts = texts(seed, &[0, 1, 900]);
    for (number, size) in [2_500, 60, 1_200].into_iter().enumerate() {
        texts.insert(
            format!("dir/repeated{number}"),
            repeated(&mut numbers, size),
        );
    }
    let segments = segments_of(&texts, tokenizer, segment_size);
    for state in 0..3 {
        let stored = Arc::new(stored(segments.clone()).unwrap());
        if state > 0 {
            build(&stored, state > 1);
        }
        let view = CorpusView::new(stored, Overlay::default(), tokenizer, &NEVER).unwrap();
        check(&snapshot_of(2, view), &texts, tokenizer, &mut numbers);
    }
    let stored = Arc::new(stored(segments).unwrap());
    let view = CorpusView::new(stored, Overlay::default(), tokenizer, &NEVER).unwrap();
    let snapshot = snapshot_of(2, view);
    for words_min in [2, 9, 20] {
        check_duplicates(&snapshot, &texts, tokenizer, words_min);
    }
}

#[test]
fn words_of_any_length_are_answered_as_by_a_scan_of_the_text() {
    check_stored(900, Tokenizer::Unicode, 1 << 30);
    check_stored(901, Tokenizer::Whitespace, 1 << 30);
}

#[test]
fn words_of_any_length_are_answered_over_segments_and_parts_of_files() {
    check_stored(910, Tokenizer::Unicode, 1 << 10);
    check_stored(911, Tokenizer::Alnum, 600);
}

fn check_edited(seed: u64, tokenizer: Tokenizer, segment_size: u64) {
    println!("seed {seed}");
    let mut numbers = Numbers(seed);
    let mut texts = texts(seed, &[300, 0, 40]);
    for (number, size) in [1_000, 600].into_iter().enumerate() {
        texts.insert(
            format!("dir/repeated{number}"),
            repeated(&mut numbers, size),
        );
    }
    let segments = segments_of(&texts, tokenizer, segment_size);
    for state in 0..3 {
        let (mut texts, mut overlay) = (texts.clone(), Overlay::default());
        let stored = Arc::new(stored(segments.clone()).unwrap());
        if state > 0 {
            build(&stored, state > 1);
        }
        for round in 0..3 {
            for _ in 0..1 + round * 2 {
                let edits = some_edits(&mut numbers, &texts);
                overlay.apply(&edits, &*stored, &mut || Ok(())).unwrap();
                edit(&mut texts, &edits);
            }
            let view = CorpusView::new(stored.clone(), overlay.clone(), tokenizer, &NEVER);
            let snapshot = snapshot_of(2, view.unwrap());
            check(&snapshot, &texts, tokenizer, &mut numbers);
            check_duplicates(&snapshot, &texts, tokenizer, 10);
        }
    }
}

#[test]
fn words_of_any_length_are_answered_on_the_edited_texts() {
    check_edited(920, Tokenizer::Unicode, 1 << 30);
    check_edited(921, Tokenizer::Whitespace, 1 << 30);
}

#[test]
fn words_of_any_length_are_answered_on_edited_files_in_parts() {
    check_edited(930, Tokenizer::Unicode, 600);
    check_edited(931, Tokenizer::Alnum, 900);
}

#[test]
fn a_phrase_longer_than_n_grams_is_counted_by_every_path_that_can() {
    let mut numbers = Numbers(940);
    let texts = Texts::from([("a".to_owned(), repeated(&mut numbers, 4_000))]);
    let plain = Plain::new(&texts, Tokenizer::Unicode);
    let stored = Arc::new(stored(segments_of(&texts, Tokenizer::Unicode, 1 << 30)).unwrap());
    let view = CorpusView::new(stored, Overlay::default(), Tokenizer::Unicode, &NEVER).unwrap();
    let all: Vec<&[u8]> = plain.0[0].1.iter().map(|(word, _)| &word[..]).collect();
    for phrase in [&all[..9], &all[20..50], &all[10..200]] {
        let expected = plain.places(phrase).len() as u64;
        let vocabulary = view.vocabulary().unwrap();
        let numbers = phrase
            .iter()
            .map(|word| vocabulary.find(word).unwrap().unwrap());
        let numbers: Vec<u32> = numbers.collect();
        for forced in [
            PathName::SuffixArray,
            PathName::NgramTable,
            PathName::CountTable,
            PathName::RootScan,
            PathName::Parents,
            PathName::Crossings,
        ] {
            let run = Run {
                forced: Some(forced),
                ..Run::to_the_end()
            };
            assert_eq!(view.ngram_count(&numbers, run).unwrap(), expected);
            assert_eq!(
                view.ngram_places(&numbers, run).unwrap().len() as u64,
                expected
            );
        }
    }
}
