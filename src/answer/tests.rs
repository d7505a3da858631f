//! Snapshots compared with a scan of the plain text.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zipfdb_kernels::NGRAM_WORDS_MAX;

use tempfile::TempDir;
use zipfdb_storage::{CorpusSettings, Dictionary, Grammar, SegmentForm, SegmentInfo, Tokenizer};

use rayon::prelude::*;

use super::access_path::Run;
use super::*;
use crate::Database;
use crate::handles::snapshot::Snapshot;
use crate::ingest::NoProgress;
use crate::maintain::ingest::{NewGrammar, NewSegment, ingest};
use crate::overlay::Overlay;
use crate::paths::sources::{OnError, list_sources};
use crate::runtime::device::Devices;
use crate::runtime::interrupt::NEVER;
use crate::segment::cache::Cache;
use crate::segment::{LiveSegment, NgramStructure, SegmentView, StructureKind, word_order};
use crate::tokenize::{Sink, has_glued_space, tokenize};
use crate::{Error, Result};

pub(super) type Texts = BTreeMap<String, Vec<u8>>;

/// The oracle: the words of a text and where they begin.
struct Words(Tokenizer, Vec<(Vec<u8>, u64)>);

impl Sink for Words {
    fn word(&mut self, text: &[u8], start: usize, end: usize) {
        let start = start + usize::from(has_glued_space(self.0, &text[start..end]));
        self.1.push((text[start..end].to_vec(), start as u64));
    }

    fn gap(&mut self, _: &[u8], _: usize, _: usize) {}
}

pub(super) fn words(tokenizer: Tokenizer, text: &[u8]) -> Vec<(Vec<u8>, u64)> {
    let mut words = Words(tokenizer, Vec::new());
    tokenize(tokenizer, text, &mut words);
    words.1
}

/// A small generator of numbers that are the same on all systems (splitmix64).
pub(super) struct Numbers(pub(super) u64);

impl Numbers {
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }
}

const VOCABULARY: [&str; 16] = [
    "the",
    "The",
    "THE",
    "new",
    "york",
    "New",
    "york1",
    "a",
    "A",
    "\u{e9}tude",
    "\u{c9}tude",
    "stra\u{df}e",
    "x",
    "42",
    "abcdefghijklmnopqrstuvwxyz",
    "abcdefghz",
];
const GAPS: [&str; 8] = [" ", " ", " ", ", ", "\n", "  ", ".", "\r\n\t-- "];

/// Text of about `size` bytes: random words, and phrases from the text before.
pub(super) fn text(numbers: &mut Numbers, size: usize) -> Vec<u8> {
    let mut text = Vec::new();
    while text.len() < size {
        if numbers.below(20) == 0 && text.len() > 50 {
            let from = numbers.below(text.len() as u64 - 40) as usize;
            // Only whole characters, so that words stay valid UTF-8.
            let phrase = String::from_utf8_lossy(&text[from..from + 40]).replace('\u{fffd}', "");
            text.extend_from_slice(phrase.as_bytes());
        } else {
            let word = VOCABULARY[numbers.below(16) as usize];
            text.extend_from_slice(word.as_bytes());
            text.extend_from_slice(GAPS[numbers.below(8) as usize].as_bytes());
        }
    }
    text
}

pub(super) fn texts(seed: u64, sizes: &[usize]) -> Texts {
    let mut numbers = Numbers(seed);
    (sizes.iter().enumerate())
        .map(|(number, &size)| (format!("dir/file{number}.txt"), text(&mut numbers, size)))
        .collect()
}

/// The segments made by ingesting the texts.
pub(super) fn segments_of(
    texts: &Texts,
    tokenizer: Tokenizer,
    segment_size: u64,
) -> Vec<NewGrammar> {
    let directory = TempDir::new().unwrap();
    for (name, text) in texts {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let settings = CorpusSettings {
        tokenizer,
        segment_size,
        ..CorpusSettings::default()
    };
    let mut segments = Vec::new();
    let mut publish = |segment: NewSegment| {
        let NewSegment::Grammar(segment, _) = segment else {
            panic!("it is packed text")
        };
        segments.push(segment);
        Ok(no_info())
    };
    let listing = list_sources(directory.path(), None, &NEVER).unwrap();
    ingest(
        SegmentForm::Grammar,
        listing,
        &settings,
        OnError::Stop,
        &NoProgress,
        &NEVER,
        &mut publish,
    )
    .unwrap();
    segments
}

fn no_info() -> SegmentInfo {
    SegmentInfo {
        segment_id: 0,
        size: 0,
        files: 0,
        bytes: 0,
        words: 0,
        tokens: 0,
        rules: 0,
        levels: 0,
        symbols: 0,
        root_symbols: 0,
        form: SegmentForm::Grammar,
        sections: Vec::new(),
    }
}

fn view((id, segment): (usize, NewGrammar)) -> Arc<LiveSegment> {
    let grammar = segment.grammar.check().unwrap();
    let view = LiveSegment::in_memory(id as u64, segment.files, segment.dictionary, grammar);
    Arc::new(view)
}

/// The segments as a corpus.
pub(super) fn stored(segments: Vec<NewGrammar>) -> Result<StoredView> {
    StoredView::new(
        "c".into(),
        segments.into_iter().enumerate().map(view).collect(),
        Devices::none(),
        &Arc::new(Cache::new(u64::MAX)),
    )
}

/// A snapshot whose parallel work runs on `threads` threads.
fn snapshot_on(threads: usize, segments: Vec<NewGrammar>) -> Snapshot {
    let stored = Arc::new(stored(segments).unwrap());
    let view = CorpusView::new(stored, Overlay::default(), Tokenizer::Unicode, &NEVER);
    snapshot_of(threads, view.unwrap())
}

/// A snapshot of a view whose parallel work runs on `threads` threads.
pub(super) fn snapshot_of(threads: usize, view: CorpusView) -> Snapshot {
    let directory = TempDir::new().unwrap();
    let database = Database::options().threads(threads);
    let database = database.open(directory.path().join("d")).unwrap();
    // The threads are those of a corpus on disk.
    let other = database.create_corpus("other", CorpusSettings::default());
    Snapshot::new(CorpusReader::new(
        other.unwrap().shared().runtime.clone(),
        Arc::new(view),
    ))
}

fn snapshot(segments: Vec<NewGrammar>) -> Snapshot {
    snapshot_on(2, segments)
}

/// Compares all answers with the texts.
pub(super) fn check(snapshot: &Snapshot, texts: &Texts, tokenizer: Tokenizer) {
    type File<'a> = (&'a str, &'a [u8], Vec<(Vec<u8>, u64)>);
    let files: Vec<File<'_>> = (texts.iter())
        .map(|(name, text)| (&name[..], &text[..], words(tokenizer, text)))
        .collect();
    let expected: Vec<FileSummary> = (files.iter())
        .map(|(name, text, words)| FileSummary {
            name: (*name).to_owned(),
            bytes: text.len() as u64,
            words: words.len() as u64,
        })
        .collect();
    assert_eq!(snapshot.files(), expected);
    for file in &expected {
        assert_eq!(snapshot.file(&file.name), Some(file));
    }
    assert_eq!(snapshot.file("nowhere"), None);
    let total: u64 = files.iter().map(|(.., words)| words.len() as u64).sum();
    assert_eq!(snapshot.total_words(), total);

    // Counts by word, of the corpus and of each file.
    let mut everywhere: BTreeMap<&[u8], u64> = BTreeMap::new();
    for (name, _, words) in &files {
        let mut counts: BTreeMap<&[u8], u64> = BTreeMap::new();
        for (word, _) in words {
            *counts.entry(word).or_default() += 1;
            *everywhere.entry(word).or_default() += 1;
        }
        let found = snapshot.words_in(name).unwrap();
        check_word_counts(&found, &counts);
    }
    let found = snapshot.words().unwrap();
    check_word_counts(&found, &everywhere);

    let names: Vec<Vec<&[u8]>> = (files.iter())
        .map(|(.., words)| words.iter().map(|(word, _)| &word[..]).collect())
        .collect();
    check_tables(snapshot, &names);
    let places: Vec<FileWords<'_>> = (files.iter())
        .map(|(name, _, words)| {
            (
                *name,
                words.iter().map(|(word, at)| (&word[..], *at)).collect(),
            )
        })
        .collect();
    check_phrases(snapshot, &places);
    // Once more from each n-gram structure; a suffix array is preferred to a table.
    for kind in [NgramStructure::Table, NgramStructure::Suffixes] {
        snapshot.view().stored().build_ngrams(kind).unwrap();
        check_ngrams(snapshot, &names);
        check_phrases(snapshot, &places);
    }

    let words: Vec<&[u8]> = everywhere.keys().copied().collect();
    check_places(snapshot, &places, &words);
    snapshot.view().stored().build_lists().unwrap();
    check_places(snapshot, &places, &words);

    // Extracts, most of all around the borders of parts, and whole files.
    let mut queries = Vec::new();
    let mut expected = Vec::new();
    for (name, text, _) in &files {
        let size = text.len() as u64;
        let stored = snapshot.view().stored();
        let parts = stored.find_file(name).map(|file| stored.index.parts(file));
        let parts = parts.unwrap_or_default().iter();
        let borders = parts.map(|part| part.first_byte);
        let mut offsets: Vec<u64> = borders
            .flat_map(|border| border.saturating_sub(3)..border + 4)
            .chain((0..size).step_by(1 + text.len() / 20))
            .chain([size - size.min(1), size, size + 1, u64::MAX])
            .collect();
        offsets.dedup();
        for offset in offsets {
            for length in [0, 1, 5, 64, size, u64::MAX] {
                let from = size.min(offset);
                let to = size.min(offset.saturating_add(length));
                let bytes = &text[from as usize..to as usize];
                assert!(snapshot.extract(name, offset, length).unwrap() == bytes);
                queries.push((*name, offset, length));
                expected.push(bytes);
            }
        }
        let mut written = Vec::new();
        snapshot.write_content(name, &mut written).unwrap();
        assert!(written == *text);
    }
    assert!(snapshot.extract_many(&queries).unwrap() == expected);
}

/// Counts and places of `words`, and of some missing ones, in every file and everywhere.
fn check_places(snapshot: &Snapshot, files: &[FileWords<'_>], words: &[&[u8]]) {
    let mut asked = words.to_vec();
    asked.extend([&b""[..], b" the", b"nowhere", b"\xff", b","]);
    let mut queries = Vec::new();
    let mut offsets_expected = Vec::new();
    let mut everywhere_expected = Vec::new();
    for &word in &asked {
        let mut by_file = Vec::new();
        let number = snapshot.view().vocabulary().unwrap().find(word).unwrap();
        for (name, words) in files {
            let same = (0..).zip(words).filter(|(_, (other, _))| *other == word);
            let (positions, offsets): (Vec<u64>, Vec<u64>) = same
                .map(|(position, &(_, offset))| (position, offset))
                .unzip();
            assert_eq!(snapshot.search_in(name, word).unwrap(), offsets);
            if let Some(number) = number {
                let file = snapshot.view().find(name).unwrap();
                let run = Run::to_the_end();
                let found = snapshot.view().positions_of(file, number, run).unwrap();
                assert_eq!(found, positions);
            }
            let count = snapshot.count_in(name, word).unwrap();
            assert_eq!(count, offsets.len() as u64);
            queries.push((*name, word));
            if !offsets.is_empty() {
                by_file.push(((*name).to_owned(), offsets.clone()));
            }
            offsets_expected.push(offsets);
        }
        assert_eq!(snapshot.search(word).unwrap(), by_file);
        let count: u64 = by_file.iter().map(|(_, o)| o.len() as u64).sum();
        assert_eq!(snapshot.count(word).unwrap(), count);
        everywhere_expected.push(by_file);
    }
    let counts: Vec<u64> = offsets_expected.iter().map(|o| o.len() as u64).collect();
    assert_eq!(snapshot.count_in_many(&queries).unwrap(), counts);
    // One query, and few for a file, take other paths than many.
    for few in [1, 4] {
        let few = queries.len().min(few);
        let found = snapshot.count_in_many(&queries[..few]).unwrap();
        assert_eq!(found, &counts[..few]);
        let found = snapshot.search_in_many(&queries[..few]).unwrap();
        assert_eq!(found, &offsets_expected[..few]);
    }
    assert_eq!(snapshot.search_in_many(&queries).unwrap(), offsets_expected);
    assert_eq!(snapshot.search_many(&asked).unwrap(), everywhere_expected);
    let counts: Vec<u64> = (everywhere_expected.iter())
        .map(|files| files.iter().map(|(_, o)| o.len() as u64).sum())
        .collect();
    assert_eq!(snapshot.count_many(&asked).unwrap(), counts);
}

#[test]
fn words_with_large_counts_and_few_words_of_many_are_sorted() {
    let many = "b ".repeat(2_000) + &"a ".repeat(2_000) + &"B ".repeat(1_500) + "c c d A";
    let other = (0..100).map(|number| format!("w{number} ")).collect();
    let texts = Texts::from([
        ("many".to_owned(), many.into_bytes()),
        ("one".to_owned(), b"b a B a".to_vec()),
        ("other".to_owned(), String::into_bytes(other)),
    ]);
    let snapshot = snapshot(segments_of(&texts, Tokenizer::Unicode, 1 << 30));
    let all = snapshot.words().unwrap();
    let expected: [(&[u8], u64); 5] = [
        (b"a", 2_002),
        (b"b", 2_001),
        (b"B", 1_501),
        (b"c", 2),
        (b"A", 1),
    ];
    assert_eq!(all.sorted()[..5], expected);
    assert!(all.sorted()[4..].is_sorted());
    let one = snapshot.words_in("one").unwrap();
    assert_eq!(one.sorted(), [(&b"a"[..], 2), (b"B", 1), (b"b", 1)]);
}

/// The tasks on all words and n-grams, compared with the words of each file.
fn check_tables(snapshot: &Snapshot, files: &[Vec<&[u8]>]) {
    let mut sorted: Vec<(&[u8], u64)> =
        count(files.iter().flatten().copied()).into_iter().collect();
    sorted.sort_by_key(|&(word, count)| (std::cmp::Reverse(count), word));
    assert_eq!(snapshot.words().unwrap().sorted(), sorted);

    let vectors = snapshot.term_vectors().unwrap();
    let top = vectors.top(3);
    assert_eq!(vectors.files(), files.len());
    for (file, words) in files.iter().enumerate() {
        let mut expected: Vec<(&[u8], u32)> = (count(words.iter().copied()).into_iter())
            .map(|(word, count)| (word, count as u32))
            .collect();
        expected.sort_by(|left, right| word_order::compare(left.0, right.0));
        assert_eq!(vectors.words(file).collect::<Vec<_>>(), expected);
        expected.sort_by_key(|&(word, count)| (std::cmp::Reverse(count), word));
        expected.truncate(3);
        assert_eq!(top[file], expected);
    }

    let index = snapshot.word_files().unwrap();
    check_files(&index, &ngram_files(files, 1));
    check_ngrams(snapshot, files);
}

/// All n-grams, with counts and with files.
fn check_ngrams(snapshot: &Snapshot, files: &[Vec<&[u8]>]) {
    for n in 1..=NGRAM_WORDS_MAX {
        let mut expected = ngram_files(files, n);
        let counts = snapshot.ngrams(n).unwrap();
        assert_eq!(counts.len(), expected.len());
        for ((ngram, count), (words, files)) in counts.iter().zip(&expected) {
            assert_eq!(ngram.text(), words.join(&b' '));
            let sum = files
                .iter()
                .map(|&(_, count)| u64::from(count))
                .sum::<u64>();
            assert_eq!(count, sum);
        }
        for (limit, descending) in [(1, true), (3, false), (20, true)] {
            let top = Top::of_all(limit, descending);
            let mut wanted: Vec<(Vec<u8>, u64)> = counts
                .iter()
                .map(|(ngram, count)| (ngram.text(), count))
                .collect();
            top.retain(&mut wanted, |&(_, count)| count);
            let view = snapshot.view();
            let request = NgramRequest {
                top: Some(top),
                ..NgramRequest::all(n)
            };
            let found = view
                .ngrams::<WithCounts>(request, Run::to_the_end())
                .unwrap();
            let found = found.into_parts().unwrap();
            let mut rows = Vec::new();
            for part in &found {
                part.for_each(n, |(words, count)| {
                    rows.push((Ngram::new(view, words).text(), count));
                });
            }
            assert_eq!(rows, wanted);
        }
        for (_, files) in &mut expected {
            files.sort_by_key(|&(file, count)| (std::cmp::Reverse(count), file));
        }
        check_files(&snapshot.ngram_files(n).unwrap(), &expected);
    }
}

/// The name of a file, and its words with their offsets.
type FileWords<'a> = (&'a str, Vec<(&'a [u8], u64)>);

/// Some phrases of each length, compared with the words of each file with their offsets.
fn check_phrases(snapshot: &Snapshot, files: &[FileWords<'_>]) {
    let check = |phrase: &[&[u8]]| {
        let mut expected = Vec::new();
        for (name, words) in files {
            let windows = words.windows(phrase.len());
            let same = windows.filter(|window| window.iter().map(|(word, _)| word).eq(phrase));
            let offsets: Vec<u64> = same.map(|window| window[0].1).collect();
            if !offsets.is_empty() {
                expected.push(((*name).to_owned(), offsets));
            }
        }
        let count: usize = expected.iter().map(|(_, offsets)| offsets.len()).sum();
        assert_eq!(snapshot.phrase_count(phrase).unwrap(), count as u64);
        assert_eq!(snapshot.phrase_search(phrase).unwrap(), expected);
    };
    for n in 1..=NGRAM_WORDS_MAX {
        for (_, words) in files {
            for window in words.windows(n).step_by(1 + words.len() / 7) {
                let phrase: Vec<&[u8]> = window.iter().map(|&(word, _)| word).collect();
                check(&phrase);
                // The last word again: seldom a phrase of the text.
                check(&[&phrase[1..], &[phrase[n - 1]]].concat());
            }
        }
        check(&vec![&b"nowhere"[..]; n]);
    }
    assert!(snapshot.phrase_count::<&str>(&[]).is_err());
    assert!(snapshot.phrase_search::<&str>(&[]).is_err());
}

fn check_files(found: &FileCounts, expected: &[NgramRow]) {
    assert_eq!(found.len(), expected.len());
    for ((ngram, found), (words, files)) in found.iter().zip(expected) {
        assert!(ngram.words().eq(words.iter().map(|word| &word[..])));
        assert_eq!(*found, files[..]);
    }
}

fn count<T: Ord>(items: impl Iterator<Item = T>) -> BTreeMap<T, u64> {
    let mut counts = BTreeMap::new();
    items.for_each(|item| *counts.entry(item).or_default() += 1);
    counts
}

/// The words of an n-gram, and the files that it occurs in with counts.
type NgramRow = (Vec<Vec<u8>>, Vec<(u32, u32)>);

fn ngram_files(files: &[Vec<&[u8]>], n: usize) -> Vec<NgramRow> {
    let mut rows: BTreeMap<Vec<&[u8]>, Vec<(u32, u32)>> = BTreeMap::new();
    for (file, words) in (0..).zip(files) {
        for (ngram, count) in count(words.windows(n)) {
            rows.entry(ngram.to_vec())
                .or_default()
                .push((file, count as u32));
        }
    }
    let rows = rows.into_iter();
    let mut rows: Vec<NgramRow> = rows
        .map(|(ngram, files)| (ngram.iter().map(|word| word.to_vec()).collect(), files))
        .collect();
    rows.sort_by(|left, right| {
        let words = left.0.iter().zip(&right.0);
        let mut orders = words.map(|(left, right)| word_order::compare(left, right));
        orders
            .find(|order| order.is_ne())
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    rows
}

fn check_word_counts(found: &WordCounts, expected: &BTreeMap<&[u8], u64>) {
    let mut expected: Vec<(&[u8], u64)> = expected.iter().map(|(&word, &n)| (word, n)).collect();
    expected.sort_by(|left, right| word_order::compare(left.0, right.0));
    assert_eq!(found.iter().collect::<Vec<_>>(), expected);
    assert_eq!(found.total(), expected.iter().map(|(_, n)| n).sum::<u64>());
    assert_eq!(found.is_empty(), expected.is_empty());
}

pub(super) const TOKENIZERS: [Tokenizer; 3] =
    [Tokenizer::Unicode, Tokenizer::Alnum, Tokenizer::Whitespace];

#[test]
fn all_answers_are_those_of_a_scan_of_the_text_with_any_tokenizer() {
    for (seed, tokenizer) in (0..).zip(TOKENIZERS) {
        let texts = texts(seed, &[0, 1, 30, 3_000, 0, 20_000]);
        let segments = segments_of(&texts, tokenizer, 1 << 30);
        assert_eq!(segments.len(), 1);
        check(&snapshot(segments), &texts, tokenizer);
    }
}

#[test]
fn all_answers_are_exact_over_segments_and_parts_of_files() {
    for (seed, tokenizer) in (10..).zip(TOKENIZERS) {
        let texts = texts(seed, &[900, 50_000, 5_000, 0, 30_000, 100]);
        let segments = segments_of(&texts, tokenizer, 16 << 10);
        let parts = segments.iter().flat_map(|segment| &segment.files);
        assert!(
            parts
                .clone()
                .any(|part| part.first_byte > 0 && !part.last_part)
        );
        check(&snapshot(segments.clone()), &texts, tokenizer);
        // A segment may come before one with an earlier part of the same file.
        check(
            &snapshot(segments.into_iter().rev().collect()),
            &texts,
            tokenizer,
        );
    }
}

#[test]
fn segments_of_several_publications_are_one_corpus() {
    let all = texts(20, &[2_000, 100, 8_000, 1_000, 4_000]);
    let mut segments = Vec::new();
    for publication in 0..3 {
        let some: Texts = (all.iter().enumerate())
            .filter(|(number, _)| number % 3 == publication)
            .map(|(_, (name, text))| (name.clone(), text.clone()))
            .collect();
        segments.extend(segments_of(&some, Tokenizer::Unicode, 1 << 30));
    }
    check(&snapshot(segments), &all, Tokenizer::Unicode);
}

#[test]
fn words_that_are_not_utf8_are_counted_and_found_as_bytes() {
    let mut texts = Texts::new();
    texts.insert(
        "a".into(),
        b"\xff\xfe the \xff\xfe\n\xff a\xc3\x28 A\xc3\x28 \xff".to_vec(),
    );
    texts.insert("b".into(), b"\xfe \xff the\xff THE\xff".to_vec());
    for segment_size in [1 << 30, 1] {
        let segments = segments_of(&texts, Tokenizer::Whitespace, segment_size);
        check(&snapshot(segments), &texts, Tokenizer::Whitespace);
    }
}

#[test]
fn words_that_start_with_a_space_of_their_own_are_words_like_others() {
    // UAX #29 joins a mark to the space before it, also where the mark is a word.
    let mut texts = Texts::new();
    let text = ", \u{ccb} \u{ccb}  \u{ccb}a \u{ccb},\u{ccb} a a \u{cca}x \u{cca}";
    texts.insert("a".into(), text.into());
    texts.insert("b".into(), text.repeat(20).into());
    let segments = segments_of(&texts, Tokenizer::Unicode, 1 << 30);
    check(&snapshot(segments), &texts, Tokenizer::Unicode);
}

#[test]
fn a_corpus_without_files_answers_too() {
    let empty = snapshot(Vec::new());
    check(&empty, &Texts::new(), Tokenizer::Unicode);
    let nothing = NewGrammar {
        files: Vec::new(),
        dictionary: Dictionary::default(),
        grammar: Grammar {
            rule_offsets: vec![0],
            level_offsets: vec![0],
            root_offsets: vec![0],
            ..Grammar::default()
        },
        is_last: true,
    };
    check(&snapshot(vec![nothing]), &Texts::new(), Tokenizer::Unicode);
}

#[test]
fn answers_stay_the_same_once_parents_are_there() {
    let texts = texts(30, &[40_000, 2_000, 9_000]);
    let segments = segments_of(&texts, Tokenizer::Unicode, 1 << 30);
    let snapshot = snapshot(segments);
    let segment = &SegmentView::of(&snapshot.view().segments()[0]);
    segment.make_parents_due();
    assert!(!segment.has_parents());
    snapshot.search("york").unwrap();
    assert!(segment.has_parents());
    check(&snapshot, &texts, Tokenizer::Unicode);
}

#[test]
fn answers_are_the_same_for_1_2_and_16_threads() {
    let texts = texts(40, &[60_000, 3_000, 70_000]);
    for threads in [1, 2, 16] {
        let segments = segments_of(&texts, Tokenizer::Unicode, 32 << 10);
        check(&snapshot_on(threads, segments), &texts, Tokenizer::Unicode);
    }
}

#[test]
fn queries_from_many_threads_at_once_neither_hang_nor_differ() {
    let texts = texts(50, &[20_000, 20_000]);
    let segments = segments_of(&texts, Tokenizer::Unicode, 8 << 10);
    let snapshot = &snapshot_on(2, segments);
    let expected = words(Tokenizer::Unicode, &texts["dir/file0.txt"]);
    let expected = expected.iter().filter(|(word, _)| word == b"the").count() as u64;
    // From other threads and from inside a pool, while structures are built.
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(move || {
                (0..8).into_par_iter().for_each(|_| {
                    let found = snapshot.search_in("dir/file0.txt", "the").unwrap();
                    assert_eq!(found.len() as u64, expected);
                    let count = snapshot.count_in("dir/file0.txt", "the").unwrap();
                    assert_eq!(count, expected);
                    snapshot.words().unwrap();
                    snapshot.search("york").unwrap();
                    snapshot.extract("dir/file1.txt", 100, 64).unwrap();
                });
            });
        }
    });
}

#[test]
fn an_unknown_file_is_an_error_that_names_it_and_the_most_similar_one() {
    let snapshot = snapshot(segments_of(
        &texts(60, &[10, 10]),
        Tokenizer::Unicode,
        1 << 30,
    ));
    let message = |error: Error| error.to_string();
    let expected =
        "no such file \"Dir/flie1.txt\" in corpus \"c\"; hint: did you mean \"dir/file1.txt\"?";
    let name = "Dir/flie1.txt";
    assert_eq!(message(snapshot.count_in(name, "a").unwrap_err()), expected);
    assert_eq!(
        message(snapshot.search_in(name, "a").unwrap_err()),
        expected
    );
    assert_eq!(message(snapshot.extract(name, 0, 1).unwrap_err()), expected);
    assert_eq!(message(snapshot.words_in(name).unwrap_err()), expected);
    assert_eq!(
        message(snapshot.write_content(name, &mut Vec::new()).unwrap_err()),
        expected
    );
    let queries = [("dir/file0.txt", "a"), (name, "a"), ("other", "a")];
    assert_eq!(
        message(snapshot.count_in_many(&queries).unwrap_err()),
        expected
    );
    assert_eq!(
        message(snapshot.search_in_many(&queries).unwrap_err()),
        expected
    );
    let queries = [("dir/file0.txt", 0, 1), (name, 0, 1)];
    assert_eq!(
        message(snapshot.extract_many(&queries).unwrap_err()),
        expected
    );
    assert_eq!(
        message(snapshot.count_in("something/else", "a").unwrap_err()),
        "no such file \"something/else\" in corpus \"c\""
    );
}

#[test]
fn a_segment_that_contradicts_its_file_table_is_an_error() {
    let texts = texts(70, &[500, 500]);
    let good = segments_of(&texts, Tokenizer::Unicode, 1 << 30).remove(0);
    let edited = |edit: &dyn Fn(&mut NewGrammar)| {
        let mut segment = good.clone();
        edit(&mut segment);
        segment
    };
    let broken = |edit: &dyn Fn(&mut NewGrammar)| snapshot(vec![edited(edit)]);
    let name = "dir/file0.txt";
    let is_inconsistent = |error: Error| matches!(error, Error::Inconsistent { segment: 0, .. });

    let longer = broken(&|segment| segment.files[0].bytes += 1);
    let errors = [
        longer.extract(name, 0, 1).unwrap_err(),
        longer.search_in(name, "the").unwrap_err(),
        longer.write_content(name, &mut Vec::new()).unwrap_err(),
    ];
    assert!(errors.into_iter().all(is_inconsistent));
    let wordier = broken(&|segment| segment.files[0].words += 1);
    assert!(is_inconsistent(wordier.words().unwrap_err()));
    assert!(is_inconsistent(wordier.count("the").unwrap_err()));
    let fewer_files = broken(&|segment| segment.files.truncate(1));
    assert!(is_inconsistent(fewer_files.count("the").unwrap_err()));
    let no_tokens = broken(&|segment| segment.dictionary = Dictionary::default());
    assert!(is_inconsistent(no_tokens.words().unwrap_err()));
    let missing_part = edited(&|segment| segment.files[0].last_part = false);
    assert!(is_inconsistent(stored(vec![missing_part]).err().unwrap()));
}

#[test]
fn words_that_are_not_in_order_are_an_error() {
    let dictionaries = [
        (&["b", "a"][..], "not in the order"),
        (&["a", "a"], "twice"),
        (&["a", " a", " a"], "twice"),
        (&[" a", "a"], "twice"),
        (&["a", " "], "empty"),
    ];
    for (tokens, fault) in dictionaries {
        let texts = Texts::from([("x".to_owned(), b"one two".to_vec())]);
        let mut segment = segments_of(&texts, Tokenizer::Unicode, 1 << 30).remove(0);
        let mut offsets = vec![0];
        for token in tokens {
            offsets.push(offsets[offsets.len() - 1] + token.len() as u64);
        }
        let bytes = tokens.concat().into_bytes();
        segment.dictionary = Dictionary::new(offsets, bytes, tokens.len() as u32, Vec::new());
        let snapshot = snapshot(vec![segment]);
        for error in [
            snapshot.count("a").unwrap_err(),
            snapshot.search("a").unwrap_err(),
            snapshot.words().unwrap_err(),
            snapshot
                .reader()
                .check_words(snapshot.view().segments()[0].id())
                .unwrap_err(),
        ] {
            assert!(error.to_string().contains(fault), "{tokens:?}: {error}");
        }
    }
}

#[test]
fn a_failing_target_is_an_error_with_the_files_name() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let snapshot = snapshot(segments_of(&texts(80, &[100]), Tokenizer::Unicode, 1 << 30));
    let error = snapshot
        .write_content("dir/file0.txt", &mut Full)
        .unwrap_err();
    assert!(matches!(&error, Error::Io { path, .. } if path.ends_with("dir/file0.txt")));
}

/// A database of some files with random words of many, and the words of each file.
fn many_words(folder: &Path) -> BTreeMap<String, Vec<String>> {
    let mut numbers = Numbers(90);
    let mut files = BTreeMap::new();
    for file in 0..40 {
        let words = (0..2000).map(|_| format!("w{}", numbers.below(400)));
        files.insert(format!("file{file:02}"), words.collect::<Vec<String>>());
    }
    let rows: Vec<(&String, String)> = (files.iter())
        .map(|(name, words)| (name, words.join(" ") + ".\n"))
        .collect();
    let database = Database::open(folder).unwrap();
    let corpus = (database.create_corpus("c", CorpusSettings::default())).unwrap();
    corpus.append_many(&rows).unwrap();
    corpus.recompress(&NoProgress).unwrap();
    files
}

/// The corpus of a database that was just opened.
fn opened(folder: &Path) -> Snapshot {
    let database = Database::options().read_only(true).open(folder).unwrap();
    database.corpus("c").unwrap().snapshot().unwrap()
}

#[test]
fn first_questions_are_answered_exactly_without_decoding_all_roots() {
    let folder = tempfile::tempdir().unwrap();
    let files = many_words(folder.path());
    let all = count(files.values().flatten().map(String::as_bytes));
    // Counts of words in files need only the grammar over words.
    let has_grammar = |snapshot: &Snapshot| {
        let segment = &snapshot.view().segments()[0];
        segment.has_grammar() || segment.has(StructureKind::WordGrammar)
    };

    let snapshot = opened(folder.path());
    check_word_counts(&snapshot.words().unwrap(), &all);
    assert_eq!(snapshot.count("w7").unwrap(), all[&b"w7"[..]]);
    assert!(!has_grammar(&snapshot));

    let name = "file17";
    let text = files[name].join(" ") + ".\n";
    let of_file = count(files[name].iter().map(String::as_bytes));
    let mut offsets = Vec::new();
    let mut offset = 0;
    for word in &files[name] {
        if word == "w7" {
            offsets.push(offset);
        }
        offset += word.len() as u64 + 1;
    }
    let extract = |snapshot: &Snapshot, offset: u64, length: u64| {
        let end = text.len().min((offset + length) as usize);
        let found = snapshot.extract(name, offset, length).unwrap();
        assert_eq!(found, text.as_bytes()[(offset as usize).min(end)..end]);
    };
    type Ask<'a> = Box<dyn Fn(&Snapshot) + Sync + 'a>;
    let questions: [Ask<'_>; 8] = [
        Box::new(|snapshot| {
            let counted = snapshot.count_in(name, "w7").unwrap();
            assert_eq!(counted, of_file[&b"w7"[..]]);
            assert_eq!(snapshot.count_in(name, "absent").unwrap(), 0);
        }),
        Box::new(|snapshot| assert_eq!(snapshot.search_in(name, "w7").unwrap(), offsets)),
        Box::new(|snapshot| {
            let view = snapshot.view();
            let word = view.vocabulary().unwrap().find(b"w7").unwrap().unwrap();
            let file = view.find_file(name).unwrap();
            let positions = view.positions_of(file, word, Run::to_the_end()).unwrap();
            assert!(
                (0..)
                    .zip(&files[name])
                    .filter(|(_, word)| *word == "w7")
                    .map(|(at, _)| at)
                    .eq(positions)
            );
        }),
        Box::new(|snapshot| check_word_counts(&snapshot.words_in(name).unwrap(), &of_file)),
        Box::new(|snapshot| extract(snapshot, 5000, 64)),
        Box::new(|snapshot| extract(snapshot, 0, 1)),
        Box::new(|snapshot| extract(snapshot, text.len() as u64 - 3, 64)),
        Box::new(|snapshot| {
            let mut found = Vec::new();
            snapshot.write_content(name, &mut found).unwrap();
            assert_eq!(found, text.as_bytes());
        }),
    ];
    for ask in &questions {
        let snapshot = opened(folder.path());
        ask(&snapshot);
        assert!(!has_grammar(&snapshot));
        (0..9).for_each(|_| ask(&snapshot));
        assert!(has_grammar(&snapshot));
        check_word_counts(&snapshot.words().unwrap(), &all);
    }
    let snapshot = opened(folder.path());
    (0..3).for_each(|_| questions.iter().for_each(|ask| ask(&snapshot)));
    let snapshot = opened(folder.path());
    (0..32)
        .into_par_iter()
        .for_each(|ask| questions[ask % 8](&snapshot));
}

/// The segment file of a database with one file, and where its totals begin and end, and the footer.
fn only_segment(folder: &Path, text: &str) -> (PathBuf, Vec<u8>, [usize; 3]) {
    let database = Database::open(folder).unwrap();
    let corpus = (database.create_corpus("c", CorpusSettings::default())).unwrap();
    corpus.append_many(&[("f", text)]).unwrap();
    corpus.recompress(&NoProgress).unwrap();
    drop(database);
    let entries = fs::read_dir(folder.join("segments")).unwrap();
    let mut paths = entries.map(|entry| entry.unwrap().path());
    let path = paths.find(|path| path.extension() == Some("seg".as_ref()));
    let path = path.unwrap();
    let bytes = fs::read(&path).unwrap();
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let tail = bytes.len() - 16;
    let footer = tail - number(tail);
    (
        path,
        bytes.clone(),
        [footer - number(tail - 12), footer, tail],
    )
}

#[test]
fn totals_of_another_text_never_contradict_an_answer_silently() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (path, bytes, [_, footer, tail]) = only_segment(folder.path(), "x x x y y");
    let (_, others, [start, end, _]) = only_segment(other.path(), "x x y y y");
    let [own_start, ..] = only_segment(tempfile::tempdir().unwrap().path(), "x x x y y").2;

    // The same file with the totals of the other text, and right checksums.
    let totals = &others[start..end];
    let mut wrong = bytes[..own_start].to_vec();
    wrong.extend_from_slice(totals);
    let entry = wrong.len() + (tail - 12 - footer);
    wrong.extend_from_slice(&bytes[footer..]);
    wrong[entry..entry + 8].copy_from_slice(&(totals.len() as u64).to_le_bytes());
    wrong[entry + 8..entry + 12].copy_from_slice(&crc32fast::hash(totals).to_le_bytes());
    let sealed = [&wrong[8..12], &wrong[own_start + totals.len()..entry + 12]].concat();
    wrong[entry + 16..entry + 20].copy_from_slice(&crc32fast::hash(&sealed).to_le_bytes());
    fs::write(&path, wrong).unwrap();

    let snapshot = opened(folder.path());
    assert_eq!(snapshot.count("x").unwrap(), 2, "as the file says");
    let error = snapshot.ngrams(2).err().unwrap();
    assert!(matches!(error, Error::Inconsistent { .. }), "{error}");
    let database = Database::open(folder.path()).unwrap();
    let checks = database.corpus("c").unwrap().check(&NoProgress).unwrap();
    let problem = checks[0].problem.as_ref().unwrap();
    assert!(problem.contains("as often as it says"), "{problem}");

    // The file goes with its three words, of which its table has two.
    let corpus = database.corpus("c").unwrap();
    corpus.replace_many(&[("f", "z")]).unwrap();
    let edited = corpus.snapshot().unwrap();
    for error in [edited.count("x").err(), edited.words().err()] {
        let error = error.unwrap();
        let is_reported = matches!(
            error,
            Error::Contradiction { .. } | Error::Inconsistent { .. }
        );
        assert!(is_reported, "{error}");
    }
}
