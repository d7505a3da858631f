//! Every access path of every operation, forced, compared with a scan of the plain text: on files in parts, several segments and
//! with pending edits.
//!
//! A path that an operation lists is tested without being named again, and a test fails if none of the corpora has a segment that
//! it answers.

#![allow(clippy::unwrap_used)]

use std::any::type_name;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use regex_automata::meta;
use regex_syntax::ParserBuilder;
use regex_syntax::hir::Hir;
use tempfile::TempDir;
use zipfdb_kernels::{CommonColumns, CountTable, FileOrder};
use zipfdb_search::grep::GrepAutomaton;
use zipfdb_storage::{CorpusSettings, IndexKind, IngestMode, Tokenizer};

use super::access_path::{PartitionOperation, PathName, Run, RunLog, answer};
use super::all_words::AllWordsFiles;
use super::count::{FileWordCount, WordCount};
use super::extract::{FileExtract, PartRange};
use super::file_counts::{FileWordTable, WordFileTable, WordSetTotals};
use super::frequent_words::FrequentWords;
use super::match_counts::MatchCounts;
use super::ngrams::NgramCounting;
use super::ngrams_of_files::ChosenNgrams;
use super::phrase::{PhraseCount, PhrasePositions};
use super::search::{FilePositions, FileSearch, SegmentPositions, SegmentSearch};
use super::tests::{Numbers, Texts, text, words};
use super::text_pass::{SymbolSteps, TextPass};
use super::word_counts::{FileSetTotals, FileTotals, WordTotals};
use super::word_files::FewWordFiles;
use super::{CorpusView, NgramPayload, NgramRequest, NgramsPart, Top, WithCounts, WithFiles};
use super::{FileSpans, SpanPlace, SpanQuestion, SpansOf};
use crate::Database;
use crate::handles::snapshot::Snapshot;
use crate::ingest::CopyOptions;
use crate::runtime::memory::ValueMemory;
use crate::segment::{SegmentView, StructureKind, WordFiles, word_order};

/// A database on disk, which is opened anew for each question, so that nothing is decoded.
struct CorpusOnDisk {
    folder: TempDir,
    /// The words of each file and where they begin, in order of name.
    files: Vec<TokenizedFile>,
}

/// The name of a file, its text, and its words with their offsets.
type TokenizedFile = (String, Vec<u8>, Vec<(Vec<u8>, u64)>);

/// The paths of operations that have answered.
type Covered = BTreeSet<(&'static str, PathName)>;

impl CorpusOnDisk {
    /// Files of about these sizes in segments of `segment_size` bytes, edited if wanted.
    fn new(
        seed: u64,
        sizes: &[usize],
        segment_size: u64,
        ingest: IngestMode,
        is_edited: bool,
    ) -> CorpusOnDisk {
        let mut numbers = Numbers(seed);
        let folder = tempfile::tempdir().unwrap();
        let mut texts: Texts = (sizes.iter().enumerate())
            .map(|(number, &size)| (format!("file{number}"), text(&mut numbers, size)))
            .collect();
        let database = Database::open(folder.path()).unwrap();
        let settings = CorpusSettings {
            segment_size,
            ..CorpusSettings::default()
        };
        let corpus = database.create_corpus("c", settings).unwrap();
        // Packed text stays as it is.
        database
            .execute_batch("SET recompress_threads = 0")
            .unwrap();
        let sources = tempfile::tempdir().unwrap();
        for (name, text) in &texts {
            std::fs::write(sources.path().join(name), text).unwrap();
        }
        let options = CopyOptions {
            ingest: Some(ingest),
            ..CopyOptions::default()
        };
        corpus.copy_from(sources.path(), &options).unwrap();
        // With indexes of the other kinds, their structures would be read instead of built.
        let kinds = IndexKind::ALL.into_iter();
        for kind in kinds.take(if seed.is_multiple_of(2) { 1 } else { 4 }) {
            let name = kind.name();
            let options = match kind {
                IndexKind::Postings if seed % 4 == 1 => " WITH (unit = 'block:64')",
                IndexKind::Postings if seed % 4 == 2 => " WITH (reorder = 'on')",
                _ => "",
            };
            let sql = format!("CREATE INDEX {name} ON c USING {name}{options}");
            database.execute_batch(&sql).unwrap();
        }
        if is_edited {
            for _ in 0..12 {
                let names: Vec<String> = texts.keys().cloned().collect();
                let name = names[numbers.below(names.len() as u64) as usize].clone();
                let target = texts.get_mut(&name).unwrap();
                let at = numbers.below(target.len() as u64 + 1);
                let more = text(&mut numbers, 30);
                corpus.insert_many(&[(&name, at, &more)]).unwrap();
                target.splice(at as usize..at as usize, more);
            }
            let (new, other) = (text(&mut numbers, 300), text(&mut numbers, 200));
            corpus.append_many(&[("another", &new)]).unwrap();
            corpus.replace_many(&[("file1", &other)]).unwrap();
            corpus.delete_many(&["file0"]).unwrap();
            texts.insert("another".to_owned(), new);
            texts.insert("file1".to_owned(), other);
            texts.remove("file0");
        }
        drop(database);
        let files = texts.into_iter().map(|(name, text)| {
            let found = words(Tokenizer::Unicode, &text);
            (name, text, found)
        });
        CorpusOnDisk {
            folder,
            files: files.collect(),
        }
    }

    fn open(&self) -> Snapshot {
        let path: &Path = self.folder.path();
        let database = Database::options().read_only(true).threads(2).open(path);
        database.unwrap().corpus("c").unwrap().snapshot().unwrap()
    }

    /// Asks by each path of an operation, first with nothing decoded and once more.
    fn ask<O: PartitionOperation>(
        &self,
        covered: &mut Covered,
        check: impl Fn(&CorpusView, Run<'_>) + Sync,
    ) {
        for path in O::PATHS {
            let (snapshot, log, stop) = (self.open(), RunLog::default(), Arc::default());
            let run = Run {
                forced: Some(path.name),
                ..log.until(&stop)
            };
            for _ in 0..2 {
                snapshot.reader().install(|| check(snapshot.view(), run));
            }
            if log.paths().contains(&path.name) {
                covered.insert((type_name::<O>(), path.name));
            }
        }
    }

    /// The count of each word in each file, by word, in order.
    fn counts(&self) -> BTreeMap<&[u8], BTreeMap<u32, u64>> {
        let mut counts: BTreeMap<&[u8], BTreeMap<u32, u64>> = BTreeMap::new();
        for (file, (.., words)) in (0..).zip(&self.files) {
            for (word, _) in words {
                *counts.entry(word).or_default().entry(file).or_default() += 1;
            }
        }
        counts
    }

    /// The same of n-grams.
    fn ngrams(&self, n: usize) -> BTreeMap<Vec<&[u8]>, BTreeMap<u32, Vec<u64>>> {
        let mut found: BTreeMap<Vec<&[u8]>, BTreeMap<u32, Vec<u64>>> = BTreeMap::new();
        for (file, (.., words)) in (0..).zip(&self.files) {
            let words: Vec<&[u8]> = words.iter().map(|(word, _)| &word[..]).collect();
            for (position, ngram) in (0..).zip(words.windows(n)) {
                let of_ngram = found.entry(ngram.to_vec()).or_default();
                of_ngram.entry(file).or_default().push(position);
            }
        }
        found
    }
}

/// A row of words, by their texts.
fn texts_of<'a>(view: &'a CorpusView, words: &[u32]) -> Vec<&'a [u8]> {
    words.iter().map(|&word| view.word(word)).collect()
}

/// The number of a word.
fn number(view: &CorpusView, word: &[u8]) -> u32 {
    view.vocabulary().unwrap().find(word).unwrap().unwrap()
}

/// The rows of a table, by the texts of words: rows are words or columns are.
fn table_counts(
    view: &CorpusView,
    table: &CountTable,
    rows_are_words: bool,
) -> BTreeMap<Vec<u8>, BTreeMap<u32, u64>> {
    let mut counts: BTreeMap<Vec<u8>, BTreeMap<u32, u64>> = BTreeMap::new();
    for row in 0..table.rows() {
        assert!(table.row(row).is_sorted());
        for &(column, count) in table.row(row) {
            let (word, file) = if rows_are_words {
                (row as u32, column)
            } else {
                (column, row as u32)
            };
            let of_word = counts.entry(view.word(word).to_vec()).or_default();
            of_word.insert(file, u64::from(count));
        }
    }
    counts
}

fn check_corpus(corpus: &CorpusOnDisk, covered: &mut Covered) {
    let counts = corpus.counts();
    let owned: BTreeMap<Vec<u8>, BTreeMap<u32, u64>> = (counts.iter())
        .map(|(word, files)| (word.to_vec(), files.clone()))
        .collect();
    let total = |files: &BTreeMap<u32, u64>| files.values().sum::<u64>();

    corpus.ask::<WordTotals>(covered, |view, run| {
        let totals = view.totals(run).unwrap();
        let found = (0..).zip(&totals).filter(|&(_, &count)| count > 0);
        let found: BTreeMap<&[u8], u64> = found
            .map(|(word, &count)| (view.word(word), count))
            .collect();
        let expected = counts.iter().map(|(&word, files)| (word, total(files)));
        assert_eq!(found, expected.collect());
    });
    corpus.ask::<FileSetTotals>(covered, |view, run| {
        for of_set in [
            |_: &u32| true,
            |file: &u32| file % 2 == 1,
            |file: &u32| *file > 1,
        ] {
            let files: Vec<u32> = (0..corpus.files.len() as u32).filter(of_set).collect();
            let totals = view.totals_of_set(&files, run).unwrap();
            for (&word, counts) in &counts {
                let of_files = counts.iter().filter(|(file, _)| of_set(file));
                let expected: u64 = of_files.map(|(_, count)| count).sum();
                assert_eq!(totals[number(view, word) as usize], expected);
            }
            let all: u64 = files
                .iter()
                .map(|&file| corpus.files[file as usize].2.len() as u64)
                .sum();
            assert_eq!(totals.iter().sum::<u64>(), all);
        }
    });
    corpus.ask::<FileTotals>(covered, |view, run| {
        for file in 0..corpus.files.len() {
            let found = view.totals_of(file, run).unwrap();
            assert!(found.is_sorted());
            let found: BTreeMap<&[u8], u64> = found
                .into_iter()
                .map(|(word, n)| (view.word(word), n))
                .collect();
            let mut expected: BTreeMap<&[u8], u64> = BTreeMap::new();
            for (&word, files) in &counts {
                expected.extend(files.get(&(file as u32)).map(|&count| (word, count)));
            }
            assert_eq!(found, expected);
        }
    });
    corpus.ask::<FileWordTable>(covered, |view, run| {
        let table = view.file_words(run).unwrap();
        assert_eq!(table.rows(), corpus.files.len());
        assert_eq!(table_counts(view, &table, false), owned);
    });
    corpus.ask::<FrequentWords>(covered, |view, run| {
        for limit in [1, 4, 10_000] {
            let found = view.frequent_words(limit, run).unwrap();
            let all = view.file_words(Run::to_the_end()).unwrap();
            assert_eq!(found, all.largest(limit));
        }
    });
    corpus.ask::<WordFileTable>(covered, |view, run| {
        let table = view.word_files(run).unwrap();
        assert_eq!(table_counts(view, &table, true), owned);
    });
    corpus.ask::<WordSetTotals>(covered, |view, run| {
        let vocabulary = view.vocabulary().unwrap();
        let is_in_set = |word: &[u8]| word.first().is_some_and(|byte| byte % 2 == 0);
        let in_set = (0..vocabulary.len() as u32).map(|word| is_in_set(vocabulary.word(word)));
        let found = view
            .word_set_counts(&in_set.collect::<Vec<_>>(), run)
            .unwrap();
        let expected = corpus
            .files
            .iter()
            .map(|(.., words)| words.iter().filter(|(word, _)| is_in_set(word)).count() as u64);
        assert!(found.into_iter().eq(expected));
    });
    corpus.ask::<FewWordFiles>(covered, |view, run| {
        let words: Vec<Vec<u8>> = owned.keys().cloned().chain([b"absent".to_vec()]).collect();
        let singles = words.iter().map(std::slice::from_ref);
        for few in singles.chain(words.chunks(3)) {
            let mut expected = BTreeMap::new();
            for (&file, &count) in few.iter().filter_map(|word| owned.get(word)).flatten() {
                *expected.entry(file).or_default() += count;
            }
            let expected: Vec<(u32, u64)> = expected.into_iter().collect();
            assert_eq!(view.files_of_words(few, run).unwrap(), expected);
        }
    });
    let (is_whole, is_at_hand) = (AtomicBool::new(false), AtomicBool::new(false));
    corpus.ask::<AllWordsFiles>(covered, |view, run| {
        let whole = view.pending().is_none() && view.stored().index.cut().is_empty();
        is_whole.fetch_or(whole, Ordering::Relaxed);
        let words: Vec<Vec<u8>> = owned.keys().cloned().chain([b"absent".to_vec()]).collect();
        for all in (1..=4).flat_map(|count| words.windows(count)) {
            let files = (0..corpus.files.len()).filter(|&file| {
                let has = |word: &Vec<u8>| {
                    let files = owned.get(word).into_iter().flatten();
                    files.into_iter().any(|(&found, _)| found as usize == file)
                };
                all.iter().all(has)
            });
            let expected: Vec<usize> = files.collect();
            if let Some(found) = view.files_of_all_at_hand(all).unwrap() {
                let count: usize = found.iter().map(CommonColumns::count).sum();
                assert_eq!(
                    (count, view.files_found(found)),
                    (expected.len(), expected.clone())
                );
                is_at_hand.store(true, Ordering::Relaxed);
            }
            assert_eq!(view.files_of_all(&[all], run).unwrap(), [expected]);
        }
    });
    assert_eq!(is_at_hand.into_inner(), is_whole.into_inner());
    let taken =
        |(_, text, _): &TokenizedFile| text[text.len() / 2..].iter().take(9).copied().collect();
    let mut literals: Vec<Vec<u8>> = corpus.files.iter().map(taken).collect();
    literals.extend([&b"a"[..], b" ", b"is nowhere"].map(<[u8]>::to_vec));
    literals.retain(|literal| !literal.is_empty());
    corpus.ask::<MatchCounts>(covered, |view, run| {
        for literal in &literals {
            for ignores_case in [false, true] {
                let automaton = GrepAutomaton::of_literal(literal, ignores_case, 1 << 20).unwrap();
                let escaped: String = (literal.iter())
                    .map(|byte| format!("\\x{byte:02x}"))
                    .collect();
                let flags = if ignores_case { "(?i-u)" } else { "(?-u)" };
                let (_, regex) = compiled(&format!("{flags}{escaped}"));
                check_counts(corpus, view, run, (&automaton, &regex));
            }
        }
        for expression in [
            "[a-c]+ \\w",
            "(?m)^.+$",
            "(?i)th?e|\\s\\w\\n",
            "\\b\\w",
            "(?m)e$",
            "t[^s]*s",
        ] {
            let (hir, regex) = compiled(expression);
            let automaton = GrepAutomaton::new(&hir, 1 << 20).unwrap();
            check_counts(corpus, view, run, (&automaton, &regex));
        }
    });
    corpus.ask::<TextPass>(covered, |view, run| {
        for expression in ["a", "[a-c]+ \\w", "(?m)^.*$", "(?i)th?e|\\s\\w\\n"] {
            let (hir, regex) = compiled(expression);
            let automaton = GrepAutomaton::new(&hir, 1 << 20).unwrap();
            let matches = SpansOf::Matches(Box::new(automaton));
            let question = SpanQuestion {
                has_lines: true,
                has_texts: true,
                ..SpanQuestion::new(view, matches, ValueMemory::default())
            };
            // Files are few.
            let files = (0..corpus.files.len() as u32).map(|file| (file, SpanPlace::default()));
            let found = view.spans_of_files(&question, &files.collect::<Vec<_>>(), run);
            for ((_, text, _), found) in corpus.files.iter().zip(found.unwrap()) {
                let FileSpans { spans, rest } = found.unwrap();
                let mut expected = regex.find_iter(text);
                for span in spans {
                    let found = expected.next().unwrap();
                    let range = span.offset as usize..(span.offset + span.length) as usize;
                    assert_eq!(range, found.range());
                    assert_eq!(span.text, text[range.clone()]);
                    let feeds = text[..range.start].iter().filter(|byte| **byte == b'\n');
                    assert_eq!(span.line, 1 + feeds.count() as u64);
                }
                assert!(rest.is_some() || expected.next().is_none());
            }
        }
    });
    let (is_stored, is_at_hand) = (AtomicBool::new(false), AtomicBool::new(false));
    corpus.ask::<WordCount>(covered, |view, run| {
        is_stored.fetch_or(view.pending().is_none(), Ordering::Relaxed);
        for (word, files) in &counts {
            assert_eq!(view.count(word, run).unwrap(), total(files));
            if let Some(count) = view.count_at_hand(&[&b"nowhere"[..], word]).unwrap() {
                assert_eq!(count, total(files));
                is_at_hand.store(true, Ordering::Relaxed);
            }
        }
        assert_eq!(view.count(b"nowhere", run).unwrap(), 0);
    });
    assert_eq!(is_at_hand.into_inner(), is_stored.into_inner());
    check_look_ups(corpus, covered);
    check_ngrams(corpus, covered);
    check_chosen_ngrams(corpus, covered);
    check_extracts(corpus, covered);
}

/// Counts and searches of words in files.
/// An expression, parsed and as a search of plain text.
fn compiled(expression: &str) -> (Hir, meta::Regex) {
    let parser = ParserBuilder::new().utf8(false).build().parse(expression);
    let hir = parser.unwrap();
    let config = meta::Config::new().utf8_empty(false);
    let mut builder = meta::Regex::builder();
    let regex = builder.configure(config).build_from_hir(&hir).unwrap();
    (hir, regex)
}

/// Compares the number of matches of each file with a search of its plain text.
fn check_counts(
    corpus: &CorpusOnDisk,
    view: &CorpusView,
    run: Run<'_>,
    (automaton, regex): (&GrepAutomaton, &meta::Regex),
) {
    let counter = automaton.counter().unwrap();
    // Files are few.
    let files: Vec<u32> = (0..corpus.files.len() as u32).collect();
    let steps = SymbolSteps::of_segments(view);
    let found = view.match_counts(&counter, &files, &steps, run).unwrap();
    for ((file, (_, text, _)), found) in corpus.files.iter().enumerate().zip(found) {
        let expected = regex.find_iter(text).count() as u64;
        assert_eq!(found.unwrap_or(expected), expected, "{regex:?}");
        assert!(found.is_none() || view.only_segment(file).is_some());
    }
}

fn check_look_ups(corpus: &CorpusOnDisk, covered: &mut Covered) {
    let counts = corpus.counts();
    let asked: Vec<&[u8]> = counts.keys().copied().chain([&b"nowhere"[..]]).collect();
    let of_word = |words: &[(Vec<u8>, u64)], word: &[u8]| -> Vec<(u64, u64)> {
        let same = (0..).zip(words).filter(|(_, (other, _))| other == word);
        same.map(|(position, &(_, offset))| (position, offset))
            .collect()
    };
    corpus.ask::<FileWordCount>(covered, |view, run| {
        for (file, (.., words)) in corpus.files.iter().enumerate() {
            for &word in &asked {
                let expected = of_word(words, word).len() as u64;
                assert_eq!(view.count_in(file, word, run).unwrap(), expected);
            }
        }
    });
    corpus.ask::<FileSearch>(covered, |view, run| {
        for (file, (.., words)) in corpus.files.iter().enumerate() {
            for &word in &asked {
                let offsets = of_word(words, word).into_iter().map(|(_, offset)| offset);
                let found = view.search_in(file, word, run).unwrap();
                assert_eq!(found, offsets.collect::<Vec<_>>());
            }
        }
    });
    corpus.ask::<FilePositions>(covered, |view, run| {
        for (file, (.., words)) in corpus.files.iter().enumerate() {
            for &word in counts.keys() {
                let positions = of_word(words, word)
                    .into_iter()
                    .map(|(position, _)| position);
                let found = view.positions_of(file, number(view, word), run).unwrap();
                assert_eq!(found, positions.collect::<Vec<_>>());
            }
        }
    });
    corpus.ask::<SegmentPositions>(covered, |view, run| {
        for &word in counts.keys() {
            let expected = corpus.files.iter().map(|(.., words)| {
                let positions = of_word(words, word).into_iter();
                positions.map(|(position, _)| position).collect()
            });
            let found = view.all_positions(number(view, word), run).unwrap();
            assert_eq!(found, expected.collect::<Vec<Vec<u64>>>());
        }
    });
    corpus.ask::<SegmentSearch>(covered, |view, run| {
        for &word in &asked {
            let expected = corpus
                .files
                .iter()
                .enumerate()
                .filter_map(|(file, (.., words))| {
                    let offsets: Vec<u64> = of_word(words, word)
                        .into_iter()
                        .map(|(_, offset)| offset)
                        .collect();
                    (!offsets.is_empty()).then_some((file, offsets))
                });
            let found = view.search(word, run).unwrap();
            assert_eq!(found, expected.collect::<Vec<_>>());
        }
    });
}

/// N-grams of some files.
fn check_chosen_ngrams(corpus: &CorpusOnDisk, covered: &mut Covered) {
    let chosen: [fn(u32) -> bool; 4] = [|_| true, |file| file % 2 == 1, |file| file > 1, |_| false];
    for (n, is_chosen) in [1, 2, 3, 8]
        .into_iter()
        .flat_map(|n| chosen.map(|chosen| (n, chosen)))
    {
        let files: Vec<u32> = (0..corpus.files.len() as u32)
            .filter(|&file| is_chosen(file))
            .collect();
        let mut expected = BTreeMap::new();
        for (words, places) in corpus.ngrams(n) {
            let places = places.into_iter();
            let counts = places.map(|(file, places)| (file, places.len() as u32));
            let counts: Vec<(u32, u32)> = counts.filter(|&(file, _)| is_chosen(file)).collect();
            if !counts.is_empty() {
                expected.insert(words, counts);
            }
        }
        corpus.ask::<ChosenNgrams<WithCounts>>(covered, |view, run| {
            let mut found = BTreeMap::new();
            for table in &parts_of::<WithCounts>(view, in_files(&files, n), run) {
                table.for_each(n, |(words, count)| {
                    assert!(found.insert(texts_of(view, words), count).is_none());
                });
            }
            let sum = |counts: &Vec<(u32, u32)>| counts.iter().map(|&(_, n)| u64::from(n)).sum();
            let sums = expected
                .iter()
                .map(|(words, counts)| (words.clone(), sum(counts)));
            assert_eq!(found, sums.collect::<BTreeMap<_, u64>>());
            let top = Top::of_all(3, true);
            let request = NgramRequest {
                top: Some(top),
                ..in_files(&files, n)
            };
            let most: u64 = (parts_of::<WithCounts>(view, request, run).iter())
                .map(|table| {
                    let mut most = 0;
                    table.for_each(n, |(_, count)| most = most.max(count));
                    most
                })
                .max()
                .unwrap_or(0);
            assert_eq!(most, found.values().copied().max().unwrap_or(0));
        });
        corpus.ask::<ChosenNgrams<WithFiles>>(covered, |view, run| {
            let mut found = BTreeMap::new();
            let tables = parts_of::<WithFiles>(view, in_files(&files, n), run).into_iter();
            for table in tables.map(NgramsPart::into_plain) {
                for (row, words) in table.words.chunks_exact(n).enumerate() {
                    let counts = table.files.row(row).to_vec();
                    assert!(found.insert(texts_of(view, words), counts).is_none());
                }
            }
            assert_eq!(found, expected);
        });
    }
}

fn in_files(files: &[u32], n: usize) -> NgramRequest {
    NgramRequest {
        files: Some(files.to_vec()),
        ..NgramRequest::all(n)
    }
}

fn parts_of<P: NgramPayload>(
    view: &CorpusView,
    request: NgramRequest,
    run: Run<'_>,
) -> Vec<NgramsPart<P>> {
    view.ngrams(request, run).unwrap().into_parts().unwrap()
}

/// N-grams and phrases.
fn check_ngrams(corpus: &CorpusOnDisk, covered: &mut Covered) {
    for n in [1, 2, 3, 8] {
        let expected = corpus.ngrams(n);
        let count =
            |files: &BTreeMap<u32, Vec<u64>>| files.values().map(Vec::len).sum::<usize>() as u64;
        corpus.ask::<NgramCounting<WithCounts>>(covered, |view, run| {
            let tables = parts_of::<WithCounts>(view, NgramRequest::all(n), run);
            let mut rows: Vec<(Vec<&[u8]>, u64)> = Vec::new();
            for table in &tables {
                table.for_each(n, |(words, count)| {
                    rows.push((texts_of(view, words), count))
                });
            }
            let key = |words: &[&[u8]], other: &[&[u8]]| {
                let mut orders = words
                    .iter()
                    .zip(other)
                    .map(|(a, b)| word_order::compare(a, b));
                orders
                    .find(|order| order.is_ne())
                    .unwrap_or(std::cmp::Ordering::Equal)
            };
            assert!(rows.is_sorted_by(|left, right| key(&left.0, &right.0).is_lt()));
            let same = expected
                .iter()
                .map(|(words, files)| (words.clone(), count(files)));
            assert_eq!(rows.into_iter().collect::<BTreeMap<_, _>>(), same.collect());
            let among = Top {
                limit: u64::MAX,
                descending: false,
                counts: (2, 3),
            };
            let mut counts: Vec<u64> = expected.values().map(count).collect();
            counts.sort_unstable_by(|left, right| right.cmp(left));
            let last = counts.get(4).copied().unwrap_or(0);
            for (top, least, most) in [(Top::of_all(5, true), last, u64::MAX), (among, 2, 3)] {
                let mut counts = counts.clone();
                counts.retain(|&count| least <= count && count <= most);
                let request = NgramRequest {
                    top: Some(top),
                    ..NgramRequest::all(n)
                };
                let tables = parts_of::<WithCounts>(view, request, run);
                let mut found: Vec<u64> = Vec::new();
                for table in &tables {
                    table.for_each(n, |(_, count)| found.push(count));
                }
                found.sort_unstable_by(|left, right| right.cmp(left));
                assert_eq!(found, counts);
            }
        });
        for order in [FileOrder::File, FileOrder::Count] {
            corpus.ask::<NgramCounting<WithFiles>>(covered, |view, run| {
                let mut found = BTreeMap::new();
                let request = NgramRequest {
                    order,
                    ..NgramRequest::all(n)
                };
                let tables = parts_of::<WithFiles>(view, request, run).into_iter();
                for table in tables.map(NgramsPart::into_plain) {
                    for (row, words) in table.words.chunks_exact(n).enumerate() {
                        let files = table.files.row(row).to_vec();
                        found.insert(texts_of(view, words), files);
                    }
                }
                let rows = expected.iter().map(|(words, files)| {
                    let files = files
                        .iter()
                        .map(|(&file, places)| (file, places.len() as u32));
                    let mut files: Vec<(u32, u32)> = files.collect();
                    if order == FileOrder::Count {
                        files.sort_by_key(|&(file, count)| (std::cmp::Reverse(count), file));
                    }
                    (words.clone(), files)
                });
                assert_eq!(found, rows.collect());
            });
        }
        let numbers = |view: &CorpusView, words: &[&[u8]]| -> Vec<u32> {
            words.iter().map(|word| number(view, word)).collect()
        };
        let some: Vec<_> = expected.iter().step_by(1 + expected.len() / 40).collect();
        corpus.ask::<PhraseCount>(covered, |view, run| {
            keep_tables_alone(view, run);
            for (words, files) in &some {
                let words = numbers(view, words);
                assert_eq!(view.ngram_count(&words, run).unwrap(), count(files));
            }
        });
        corpus.ask::<PhrasePositions>(covered, |view, run| {
            keep_tables_alone(view, run);
            for (words, files) in &some {
                let words = numbers(view, words);
                let places = files.iter().flat_map(|(&file, positions)| {
                    positions.iter().map(move |&position| (file, position))
                });
                let found = view.ngram_places(&words, run).unwrap();
                let positions = found.iter().map(|place| (place.file, place.position));
                assert!(positions.eq(places));
                for place in found {
                    let of_file = &corpus.files[place.file as usize].2;
                    let offset = of_file[place.position as usize].1;
                    assert_eq!(place.offset.unwrap_or(offset), offset);
                }
            }
        });
    }
}

/// Leaves the table of words and files of each segment, and no grammar, so that phrases are answered by it.
fn keep_tables_alone(view: &CorpusView, run: Run<'_>) {
    if run.forced != Some(PathName::CountTable) {
        return;
    }
    for segment in view.stored().segments() {
        SegmentView::of(segment).pin::<WordFiles>().unwrap();
        for kind in [StructureKind::WordGrammar, StructureKind::Grammar] {
            segment.slots.forget(kind as usize);
        }
    }
}

/// Bytes of stored files; those of edited ones are made of these.
fn check_extracts(corpus: &CorpusOnDisk, covered: &mut Covered) {
    corpus.ask::<FileExtract>(covered, |view, run| {
        for (file, (_, text, _)) in corpus.files.iter().enumerate() {
            let (stored, edit) = view.resolve(file);
            for offset in (0..text.len() as u64 + 2).step_by(1 + text.len() / 9) {
                let found = view.extract(file, offset, 40).unwrap();
                let end = text.len().min(offset as usize + 40);
                assert_eq!(found, text[(offset as usize).min(end)..end]);
            }
            let Some(stored) = stored.filter(|_| edit.is_none()) else {
                continue;
            };
            for part in view.stored().index.parts(stored) {
                let of_part = &text[part.first_byte as usize..][..part.bytes as usize];
                let segment = view.stored().segment(part);
                let range = |offset, length| PartRange {
                    file: part.file,
                    offset,
                    length,
                };
                let found = answer::<FileExtract>(&range(0, u64::MAX), &segment, run);
                assert_eq!(found.unwrap(), of_part);
                let found = answer::<FileExtract>(&range(part.bytes / 2, 7), &segment, run);
                let from = of_part.len() / 2;
                assert_eq!(found.unwrap(), of_part[from..of_part.len().min(from + 7)]);
            }
        }
    });
}

/// The paths that an operation lists, with its name.
fn listed<O: PartitionOperation>() -> Vec<(&'static str, PathName)> {
    let paths = O::PATHS.iter();
    paths.map(|path| (type_name::<O>(), path.name)).collect()
}

#[test]
fn every_access_path_of_every_operation_answers_as_a_scan_of_the_text() {
    let mut covered = Covered::new();
    let grammar = IngestMode::Grammar;
    for (seed, sizes, segment_size, ingest) in [
        (700, &[900, 300, 1, 5_000, 40][..], 1 << 30, grammar),
        (701, &[700, 400, 9_000, 1, 2_000], 3_000, grammar),
        (704, &[500, 900, 4_000], 3_000, grammar),
        (705, &[900, 30, 1, 3_000], 1 << 30, grammar),
        // Files that have little in common are counted by words.
        (702, &[60; 60], 1 << 30, grammar),
        (703, &[800, 1, 6_000, 30], 3_000, IngestMode::Fast),
    ] {
        for is_edited in [false, true] {
            check_corpus(
                &CorpusOnDisk::new(seed, sizes, segment_size, ingest, is_edited),
                &mut covered,
            );
        }
    }
    let listed = [
        listed::<WordTotals>(),
        listed::<FileSetTotals>(),
        listed::<FileTotals>(),
        listed::<FileWordTable>(),
        listed::<FrequentWords>(),
        listed::<WordFileTable>(),
        listed::<WordSetTotals>(),
        listed::<FewWordFiles>(),
        listed::<AllWordsFiles>(),
        listed::<MatchCounts>(),
        listed::<TextPass>(),
        listed::<NgramCounting<WithCounts>>(),
        listed::<NgramCounting<WithFiles>>(),
        listed::<ChosenNgrams<WithCounts>>(),
        listed::<ChosenNgrams<WithFiles>>(),
        listed::<PhraseCount>(),
        listed::<PhrasePositions>(),
        listed::<WordCount>(),
        listed::<FileWordCount>(),
        listed::<SegmentSearch>(),
        listed::<FileSearch>(),
        listed::<FilePositions>(),
        listed::<SegmentPositions>(),
        listed::<FileExtract>(),
    ];
    let missing: Vec<_> = (listed.into_iter().flatten())
        .filter(|path| !covered.contains(path))
        .collect();
    assert!(missing.is_empty(), "not answered: {missing:?}");
}
