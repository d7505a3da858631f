//! Files to segments and back, with several numbers of threads.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::ingest::NoProgress;
use crate::paths::sources::{OnError, list_sources};
use crate::runtime::interrupt::NEVER;
use crate::tokenize::{Sink, tokenize};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use tempfile::TempDir;
use zipfdb_storage::{SegmentForm, Tokenizer};

const NO_LIMITS: Limits = Limits {
    bytes: u64::MAX,
    tokens: SEGMENT_TOKENS_MAX,
    entries: SEGMENT_ENTRIES_MAX,
    entry_bytes: SEGMENT_ENTRY_BYTES_MAX,
};

fn settings(tokenizer: Tokenizer, segment_size: u64) -> CorpusSettings {
    CorpusSettings {
        tokenizer,
        segment_size,
        ..CorpusSettings::default()
    }
}

fn grammar(segment: NewSegment) -> NewGrammar {
    match segment {
        NewSegment::Grammar(grammar, _) => grammar,
        NewSegment::Text(_) => panic!("it is packed text"),
    }
}

fn info(segment: &NewGrammar) -> SegmentInfo {
    SegmentInfo {
        segment_id: 0,
        size: 0,
        files: segment.files.len() as u32,
        bytes: segment.files.iter().map(|file| file.bytes).sum(),
        words: segment.files.iter().map(|file| file.words).sum(),
        tokens: segment.dictionary.len(),
        rules: segment.grammar.rule_count(),
        levels: segment.grammar.level_count(),
        symbols: segment.grammar.symbols.len() as u64,
        root_symbols: segment.grammar.root.len() as u64,
        form: SegmentForm::Grammar,
        sections: Vec::new(),
    }
}

fn run_within(
    limits: Limits,
    listing: Listing,
    settings: &CorpusSettings,
    on_error: OnError,
    threads: usize,
) -> Result<(Report, Vec<NewGrammar>)> {
    let mut segments = Vec::new();
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .unwrap();
    let limits = Limits {
        bytes: settings.segment_size,
        ..limits
    };
    let mut publish = |segment: NewSegment| {
        let segment = grammar(segment);
        let info = info(&segment);
        segments.push(segment);
        Ok(info)
    };
    let report = pool.install(|| {
        ingest_within(
            SegmentMaking::of(SegmentForm::Grammar, limits),
            listing,
            settings,
            on_error,
            &NoProgress,
            (&NEVER).into(),
            &mut publish,
        )
    })?;
    Ok((report, segments))
}

fn run(path: &Path, settings: &CorpusSettings) -> (Report, Vec<NewGrammar>) {
    let listing = list_sources(path, None, &NEVER).unwrap();
    run_within(NO_LIMITS, listing, settings, OnError::Stop, 2).unwrap()
}

/// The text of each file or part.
fn expand(segment: &NewGrammar) -> Vec<Vec<u8>> {
    let grammar = segment.grammar.clone().check().unwrap();
    assert_eq!(grammar.terminal_count, segment.dictionary.len());
    (0..segment.files.len() as u32)
        .map(|file| {
            let mut text = Vec::new();
            let mut symbols: Vec<u32> = grammar.root_of(file).iter().rev().copied().collect();
            while let Some(symbol) = symbols.pop() {
                match symbol.checked_sub(grammar.terminal_count) {
                    Some(rule) => symbols.extend(grammar.body(rule).iter().rev()),
                    None => text.extend_from_slice(segment.dictionary.token(symbol)),
                }
            }
            text
        })
        .collect()
}

/// The number of words that the tokenizer finds in a text.
#[derive(Default)]
struct WordCount(u64);

impl Sink for WordCount {
    fn word(&mut self, _text: &[u8], _start: usize, _end: usize) {
        self.0 += 1;
    }

    fn gap(&mut self, _text: &[u8], _start: usize, _end: usize) {}
}

fn words(tokenizer: Tokenizer, text: &[u8]) -> u64 {
    let mut count = WordCount::default();
    tokenize(tokenizer, text, &mut count);
    count.0
}

/// Checks that the segments hold exactly the files below `top`, and every number about them.
fn check(top: &Path, settings: &CorpusSettings, report: &Report, segments: &[NewGrammar]) {
    let mut files: Vec<(String, Vec<u8>, u64)> = Vec::new();
    let mut is_open = false;
    for (index, segment) in segments.iter().enumerate() {
        assert_eq!(segment.is_last, index + 1 == segments.len());
        for (entry, text) in segment.files.iter().zip(expand(segment)) {
            assert_eq!(entry.bytes, text.len() as u64);
            assert_eq!(entry.crc32, crc32fast::hash(&text));
            assert_eq!(entry.words, words(settings.tokenizer, &text));
            if is_open {
                let file = files.last_mut().unwrap();
                assert_eq!(file.0, entry.name);
                assert_eq!(file.1.len() as u64, entry.first_byte);
                assert_eq!(file.2, entry.first_word);
                file.1.extend_from_slice(&text);
                file.2 += entry.words;
            } else {
                assert_eq!((entry.first_byte, entry.first_word), (0, 0));
                files.push((entry.name.clone(), text, entry.words));
            }
            is_open = !entry.last_part;
        }
    }
    assert!(!is_open);
    let listing = list_sources(top, None, &NEVER).unwrap();
    assert_eq!(files.len(), listing.sources.len());
    for (source, (name, text, word_count)) in listing.sources.iter().zip(&files) {
        assert_eq!(*name, source.name);
        assert!(*text == fs::read(&source.path).unwrap(), "{name}");
        assert_eq!(*word_count, words(settings.tokenizer, text), "{name}");
    }
    assert_eq!(report.files, files.len() as u64);
    assert_eq!(
        report.bytes,
        files.iter().map(|file| file.1.len() as u64).sum::<u64>()
    );
    assert_eq!(report.words, files.iter().map(|file| file.2).sum::<u64>());
    assert_eq!(report.segments.len(), segments.len());
}

/// Numbered lines that repeat each other here and there.
fn prose(lines: u32) -> String {
    (0..lines)
        .map(|line| {
            let mixed = line.wrapping_mul(2_654_435_761) >> 20;
            format!(
                "{line}. The {} of caf\u{e9} {} can't be {}, said no-one.\n",
                mixed % 7,
                mixed % 100,
                if mixed % 3 == 0 { "known" } else { "seen" }
            )
        })
        .collect()
}

fn difficult_files() -> TempDir {
    let top = TempDir::new().unwrap();
    let files: [(&str, Vec<u8>); 12] = [
        ("empty", Vec::new()),
        ("a/space", b" ".to_vec()),
        ("a/nul", vec![0; 100]),
        ("a/crlf", b"one\r\ntwo\r\n\r\n".to_vec()),
        ("b/not-utf8", (0..=255).cycle().take(3000).collect()),
        ("b/one-word", b"x".repeat(30_000)),
        ("b/one-gap", b"-".repeat(30_000)),
        ("b/han", "\u{4e2d}\u{6587}".repeat(4000).into_bytes()),
        ("c/prose", prose(2000).into_bytes()),
        ("c/prose-again", prose(300).into_bytes()),
        ("d", b"last".to_vec()),
        ("zero", Vec::new()),
    ];
    for (name, content) in files {
        let path = top.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    top
}

#[test]
fn every_file_expands_back_byte_for_byte() {
    let top = difficult_files();
    for tokenizer in Tokenizer::ALL {
        for segment_size in [1, 10_000, 40_000, 1 << 30] {
            let settings = settings(tokenizer, segment_size);
            let (report, segments) = run(top.path(), &settings);
            check(top.path(), &settings, &report, &segments);
            assert_eq!(segments.len() == 1, segment_size == 1 << 30);
            // A single piece may be larger: a part has at least CHUNK_BYTES_MIN bytes, and a word is not cut.
            let size = |segment: &NewGrammar| segment.files.iter().map(|file| file.bytes).sum();
            let largest: u64 = segments.iter().map(size).max().unwrap();
            assert!(largest <= segment_size.max(30_000));
        }
    }
}

#[test]
fn segments_do_not_depend_on_the_number_of_threads() {
    let top = difficult_files();
    for segment_size in [10_000, 1 << 30] {
        for tokens in [2000, SEGMENT_TOKENS_MAX] {
            let settings = settings(Tokenizer::Unicode, segment_size);
            let limits = Limits {
                tokens,
                ..NO_LIMITS
            };
            let run = |threads| {
                let listing = list_sources(top.path(), None, &NEVER).unwrap();
                run_within(limits, listing, &settings, OnError::Stop, threads).unwrap()
            };
            let (report, one) = run(1);
            check(top.path(), &settings, &report, &one);
            for threads in [2, 16] {
                let (_, many) = run(threads);
                assert!(
                    many == one,
                    "{threads} threads, segments of {segment_size} bytes"
                );
            }
        }
    }
}

#[test]
fn a_file_larger_than_a_segment_is_cut_between_words() {
    let top = TempDir::new().unwrap();
    fs::write(top.path().join("book"), prose(3000)).unwrap();
    let settings = settings(Tokenizer::Unicode, 20_000);
    let (report, segments) = run(top.path(), &settings);
    check(top.path(), &settings, &report, &segments);
    assert!(segments.len() > 7);
    for segment in &segments {
        assert_eq!(segment.files.len(), 1);
        assert!(segment.files[0].bytes <= 20_000);
    }
}

#[test]
fn few_tokens_a_segment_cut_a_file_that_has_more() {
    let top = TempDir::new().unwrap();
    fs::write(top.path().join("a"), prose(10)).unwrap();
    fs::write(top.path().join("book"), prose(500_000)).unwrap();
    fs::write(top.path().join("z"), prose(10)).unwrap();
    let settings = settings(Tokenizer::Unicode, 1 << 30);
    let limits = Limits {
        tokens: 3_000_000,
        ..NO_LIMITS
    };
    let listing = list_sources(top.path(), None, &NEVER).unwrap();
    let (report, segments) = run_within(limits, listing, &settings, OnError::Stop, 2).unwrap();
    check(top.path(), &settings, &report, &segments);
    let names: Vec<Vec<&str>> = segments
        .iter()
        .map(|segment| segment.files.iter().map(|file| &file.name[..]).collect())
        .collect();
    assert_eq!(names[0], ["a"]);
    assert_eq!(names[1], ["book"]);
    assert_eq!(names.last().unwrap()[..], ["book", "z"]);
}

#[test]
fn nothing_makes_no_segment() {
    let top = TempDir::new().unwrap();
    let settings = CorpusSettings::default();
    let (report, segments) = run(top.path(), &settings);
    assert_eq!((report.files, segments.len()), (0, 0));
    fs::write(top.path().join("empty"), "").unwrap();
    let (report, segments) = run(top.path(), &settings);
    assert_eq!((report.files, segments.len()), (1, 1));
    check(top.path(), &settings, &report, &segments);
}

#[test]
fn a_file_that_changes_or_vanishes_is_an_error_or_left_out() {
    for segment_size in [10_000, 1 << 30] {
        let top = difficult_files();
        let listing = list_sources(top.path(), None, &NEVER).unwrap();
        fs::write(top.path().join("a/crlf"), "shorter").unwrap();
        fs::write(top.path().join("c/new"), prose(2001)).unwrap();
        fs::rename(top.path().join("c/new"), top.path().join("c/prose")).unwrap();
        fs::remove_file(top.path().join("d")).unwrap();
        let settings = settings(Tokenizer::Unicode, segment_size);
        let run = |on_error| run_within(NO_LIMITS, listing.clone(), &settings, on_error, 2);
        let error = run(OnError::Stop).unwrap_err();
        assert!(matches!(error, Error::Unreadable { .. }));
        let (report, segments) = run(OnError::Skip).unwrap();
        let left_out: Vec<(&Path, &str)> = report
            .unreadable
            .iter()
            .map(|unreadable| {
                let name = unreadable.path.strip_prefix(top.path()).unwrap();
                (name, &unreadable.reason[..])
            })
            .collect();
        assert_eq!(
            left_out,
            [
                (Path::new("a/crlf"), "it changed while it was read"),
                (Path::new("c/prose"), "it changed while it was read"),
                (Path::new("d"), "No such file or directory (os error 2)"),
            ]
        );
        for path in ["a/crlf", "c/prose"] {
            fs::remove_file(top.path().join(path)).unwrap();
        }
        check(top.path(), &settings, &report, &segments);
    }
}

#[test]
fn unreadable_paths_of_the_listing_stop_or_are_reported() {
    let top = difficult_files();
    std::os::unix::fs::symlink("nowhere", top.path().join("b/link")).unwrap();
    std::os::unix::fs::symlink("nowhere", top.path().join("c/link")).unwrap();
    let settings = CorpusSettings::default();
    let listing = list_sources(top.path(), None, &NEVER).unwrap();
    let error = run_within(NO_LIMITS, listing.clone(), &settings, OnError::Stop, 2).unwrap_err();
    assert!(
        matches!(error, Error::Unreadable { more: 1, .. }),
        "{error}"
    );
    let (report, _) = run_within(NO_LIMITS, listing, &settings, OnError::Skip, 2).unwrap();
    assert_eq!(report.unreadable.len(), 2);
    assert_eq!(report.files, 12);
}

#[test]
fn the_first_error_of_publish_ends_the_ingest() {
    let top = difficult_files();
    let mut calls = 0;
    let result = ingest(
        SegmentForm::Grammar,
        list_sources(top.path(), None, &NEVER).unwrap(),
        &settings(Tokenizer::Unicode, 10_000),
        OnError::Stop,
        &NoProgress,
        &NEVER,
        &mut |segment| {
            calls += 1;
            match calls {
                3 => Err(Error::Invalid {
                    subject: "segment".to_owned(),
                    reason: "the third".to_owned(),
                }),
                _ => Ok(info(&grammar(segment))),
            }
        },
    );
    assert_eq!(result.unwrap_err().to_string(), "segment: the third");
    assert_eq!(calls, 3);
}

/// Checks the order of calls and adds up what was done.
#[derive(Default)]
struct Watch(Mutex<(Option<String>, BTreeMap<String, u64>)>);

impl Progress for Watch {
    fn begin(&self, stage: &str, _total: u64) {
        let before = self.0.lock().0.replace(stage.to_owned());
        assert_eq!(before, None);
    }

    fn advance(&self, amount: u64) {
        let (stage, done) = &mut *self.0.lock();
        *done.entry(stage.clone().unwrap()).or_default() += amount;
    }

    fn end(&self) {
        assert!(self.0.lock().0.take().is_some());
    }
}

#[test]
fn every_stage_reports_its_progress_in_bytes() {
    let top = difficult_files();
    let watch = Watch::default();
    let report = ingest(
        SegmentForm::Grammar,
        list_sources(top.path(), None, &NEVER).unwrap(),
        &settings(Tokenizer::Unicode, 40_000),
        OnError::Stop,
        &watch,
        &NEVER,
        &mut |segment| Ok(info(&grammar(segment))),
    )
    .unwrap();
    let (stage, done) = watch.0.into_inner();
    assert_eq!(stage, None);
    for stage in ["tokenize", "dictionary", "rounds", "prune", "write"] {
        assert_eq!(done[stage], report.bytes, "{stage}");
    }
}
