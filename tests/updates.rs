//! Edits through the public API, against a map from names to texts: reopened, recompressed, in transactions.

use std::fs;
use std::sync::Mutex;

use zipfdb::ingest::{CopyOptions, NoProgress, Progress};

use zipfdb::mixed::{Answer, Operation};

use zipfdb::{Corpus, CorpusSettings, Database, Error, Tokenizer, Value};
use zipfdb_test_model::{Texts, edit_at_random};
use zipfdb_test_support::harness::Random;

fn text(random: &mut Random, words: usize) -> Vec<u8> {
    const WORDS: [&str; 10] = [
        "the ",
        "cat ",
        "sat",
        " on ",
        "mat. ",
        "\n",
        "caf\u{e9} ",
        "3.14 ",
        "don't ",
        "x",
    ];
    let words = (0..words).map(|_| WORDS[random.below(WORDS.len())]);
    words.collect::<String>().into_bytes()
}

/// A random edit of corpus and texts.
fn edit(random: &mut Random, corpus: &Corpus, texts: &mut Texts) {
    let count = 1 + random.below(12);
    let text = text(random, count);
    edit_at_random(random, corpus, texts, 8, text);
}

fn check(corpus: &Corpus, texts: &Texts) {
    let snapshot = corpus.snapshot().unwrap();
    let names: Vec<&str> = snapshot.files().iter().map(|file| &file.name[..]).collect();
    assert!(names.iter().eq(texts.keys()), "{names:?}");
    for (name, text) in texts {
        assert!(
            snapshot.extract(name, 0, u64::MAX).unwrap() == *text,
            "{name}"
        );
        let words = text.windows(3).filter(|window| *window == b"cat").count();
        let found = snapshot.words_in(name).unwrap().to_vec();
        let has_cat = found
            .iter()
            .any(|(word, _)| word.windows(3).any(|w| w == b"cat"));
        assert_eq!(has_cat, words > 0);
    }
}

fn segment_bytes(corpus: &Corpus) -> Vec<(u64, u64)> {
    let segments = corpus.segments().unwrap();
    segments
        .iter()
        .map(|segment| (segment.size, segment.bytes))
        .collect()
}

#[test]
fn edits_survive_reopening_and_recompression() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("d.zdb");
    let mut numbers = Random::new(1);
    let mut texts = Texts::new();
    let mut database = Database::open(&path).unwrap();
    database
        .create_corpus("c", CorpusSettings::default())
        .unwrap();
    for round in 0..12 {
        let corpus = database.corpus("c").unwrap();
        for _ in 0..numbers.below(10) {
            edit(&mut numbers, &corpus, &mut texts);
        }
        check(&corpus, &texts);
        match round % 3 {
            0 => {
                corpus.recompress(&NoProgress).unwrap();
                check(&corpus, &texts);
                assert!(corpus.recompress(&NoProgress).unwrap().is_none());
            }
            1 => {
                drop(corpus);
                drop(database);
                database = Database::open(&path).unwrap();
                assert_eq!(database.warnings(), Vec::<String>::new());
                check(&database.corpus("c").unwrap(), &texts);
            }
            _ => {}
        }
    }
}

#[test]
fn recompression_makes_the_segments_of_one_import_of_the_current_texts() {
    let folder = tempfile::tempdir().unwrap();
    let mut numbers = Random::new(2);
    let mut texts = Texts::new();
    let settings = CorpusSettings {
        segment_size: 3_000,
        ..CorpusSettings::default()
    };
    let edited = Database::open(folder.path().join("edited.zdb")).unwrap();
    let corpus = edited.create_corpus("c", settings.clone()).unwrap();
    for name in 0..8 {
        texts.insert(format!("d/{name}"), text(&mut numbers, 900));
    }
    let import = folder.path().join("import");
    let write = |texts: &Texts| {
        let _ = fs::remove_dir_all(&import);
        for (name, text) in texts {
            fs::create_dir_all(import.join("d")).unwrap();
            fs::write(import.join(name), text).unwrap();
        }
    };
    write(&texts);
    corpus.copy_from(&import, &CopyOptions::default()).unwrap();
    for _ in 0..40 {
        edit(&mut numbers, &corpus, &mut texts);
    }
    corpus.recompress(&NoProgress).unwrap().unwrap();
    check(&corpus, &texts);

    write(&texts);
    let fresh = Database::open(folder.path().join("fresh.zdb")).unwrap();
    let imported = fresh.create_corpus("c", settings).unwrap();
    imported
        .copy_from(&import, &CopyOptions::default())
        .unwrap();
    assert_eq!(segment_bytes(&corpus), segment_bytes(&imported));
    let files = |name: &str| -> Vec<Vec<u8>> {
        let folder = folder.path().join(name).join("segments");
        let mut paths: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|e| e.unwrap().path())
            .collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "seg"));
        paths.sort();
        // The sections end where the footer begins.
        let sections = |path| {
            let bytes: Vec<u8> = fs::read(path).unwrap();
            let end = bytes.len() - 16;
            let size = u32::from_le_bytes(bytes[end..end + 4].try_into().unwrap());
            bytes[..end - size as usize].to_vec()
        };
        paths.iter().map(sections).collect()
    };
    let (edited, fresh) = (files("edited.zdb"), files("fresh.zdb"));
    assert!(edited.len() > 2);
    assert!(edited == fresh);
}

#[test]
fn a_transaction_happens_as_a_whole_or_not_at_all() {
    let database = Database::in_memory().unwrap();
    let corpus = database
        .create_corpus("c", CorpusSettings::default())
        .unwrap();
    corpus.append_many(&[("a", "the cat")]).unwrap();
    let before = corpus.snapshot().unwrap();
    let mut edits = database.begin().unwrap();
    edits
        .insert_many("c", &[("a", 3, " black"), ("a", 0, "see ")])
        .unwrap();
    // The offsets of the next call see what this one did.
    edits.insert_many("c", &[("a", 4, "how ")]).unwrap();
    let text = |snapshot: zipfdb::Snapshot| snapshot.extract("a", 0, 99).unwrap();
    assert_eq!(text(edits.snapshot("c").unwrap()), b"see how the black cat");
    assert_eq!(text(corpus.snapshot().unwrap()), b"the cat");
    for (rows, fault) in [
        (
            [("a", 99, "x")],
            "row 1: offset 99 is past the end of file \"a\", which has 21 bytes",
        ),
        ([("b", 0, "x")], "row 1: no such file \"b\" in corpus \"c\""),
    ] {
        let error = edits.insert_many("c", &rows).unwrap_err();
        assert_eq!(error.to_string(), fault);
    }
    edits.commit().unwrap();
    assert_eq!(text(corpus.snapshot().unwrap()), b"see how the black cat");
    assert_eq!(text(before), b"the cat");

    let mut edits = database.begin().unwrap();
    edits.delete_many("c", &["a"]).unwrap();
    edits.rollback();
    assert_eq!(corpus.files().unwrap().len(), 1);
    for name in ["", "/a", "a/../b", "a//b", "a\0b", "."] {
        assert!(corpus.append_many(&[(name, "x")]).is_err(), "{name:?}");
    }
}

#[test]
fn the_appends_of_a_call_reach_their_files_in_order_or_name_the_row_that_cannot() {
    let database = Database::in_memory().unwrap();
    let corpus = database
        .create_corpus("c", CorpusSettings::default())
        .unwrap();
    let rows = [
        ("b", "one"),
        ("a", "x"),
        ("b", ""),
        ("b", " two"),
        ("e", ""),
    ];
    corpus.append_many(&rows).unwrap();
    // Names are compared by their text.
    let rows: Vec<(String, &str)> = [("a", " y"), ("b", " three"), ("a", " z")]
        .map(|(name, text)| (name.to_owned(), text))
        .into();
    corpus.append_many(&rows).unwrap();
    let rows = [("a", " not"), ("a", " this"), ("../b", "x"), ("../b", "y")];
    let error = corpus.append_many(&rows).unwrap_err();
    assert!(error.to_string().starts_with("row 3: "), "{error}");
    let texts = [("a", "x y z"), ("b", "one two three"), ("e", "")];
    let texts = texts.map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec()));
    check(&corpus, &texts.into());
}

#[test]
fn a_file_of_a_name_that_edits_know_can_be_imported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("d.zdb");
    let import = folder.path().join("a.txt");
    fs::write(&import, "imported").unwrap();
    let database = Database::open(&path).unwrap();
    let corpus = database
        .create_corpus("c", CorpusSettings::default())
        .unwrap();
    corpus
        .append_many(&[("a.txt", "appended"), ("b", "b")])
        .unwrap();
    assert!(corpus.copy_from(&import, &CopyOptions::default()).is_err());
    corpus.delete_many(&["a.txt"]).unwrap();
    corpus.copy_from(&import, &CopyOptions::default()).unwrap();
    let texts = Texts::from([
        ("a.txt".into(), "imported".into()),
        ("b".into(), "b".into()),
    ]);
    check(&corpus, &texts);
    drop((corpus, database));
    let database = Database::open(&path).unwrap();
    check(&database.corpus("c").unwrap(), &texts);
}

#[test]
fn a_file_that_was_created_and_deleted_since_can_be_imported() {
    let folder = tempfile::tempdir().unwrap();
    let import = folder.path().join("a.txt");
    fs::write(&import, "imported").unwrap();
    let database = Database::open(folder.path().join("d.zdb")).unwrap();
    let corpus = database
        .create_corpus("c", CorpusSettings::default())
        .unwrap();
    corpus.append_many(&[("a.txt", "appended")]).unwrap();
    corpus.delete_many(&["a.txt"]).unwrap();
    corpus.copy_from(&import, &CopyOptions::default()).unwrap();
    let texts = Texts::from([("a.txt".into(), "imported".into())]);
    check(&corpus, &texts);
    assert!(corpus.recompress(&NoProgress).unwrap().is_none());
}

/// Drops a corpus and creates another one of its name when work begins.
struct Recreate(Database);

impl Progress for Recreate {
    fn begin(&self, stage: &str, _total: u64) {
        if stage == "tokenize" {
            self.0.drop_corpus("c").unwrap();
            let settings = CorpusSettings::default();
            self.0.create_corpus("c", settings).unwrap();
        }
    }
    fn advance(&self, _amount: u64) {}
    fn end(&self) {}
}

#[test]
fn a_recompression_ends_with_its_corpus_even_if_another_has_the_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("d.zdb");
    let database = Database::open(&path).unwrap();
    let corpus = database
        .create_corpus("c", CorpusSettings::default())
        .unwrap();
    corpus.append_many(&[("a", "the cat")]).unwrap();
    let error = corpus.recompress(&Recreate(database.clone())).unwrap_err();
    assert_eq!(error.to_string(), "no such corpus `c`");
    check(&corpus, &Texts::new());
    drop((corpus, database));
    let database = Database::open(&path).unwrap();
    check(&database.corpus("c").unwrap(), &Texts::new());
}

/// Asks how far a recompression is at each stage, and interrupts it when one begins.
struct Asking(Database, Mutex<Vec<(Value, Value)>>, &'static str);

impl Progress for Asking {
    fn begin(&self, stage: &str, _total: u64) {
        let share = |sql| self.0.query(sql, ()).unwrap().next().unwrap().unwrap()[0].clone();
        let corpus = share("SELECT recompressed FROM corpora()");
        let segment = share("SELECT recompressed FROM segments('c')");
        self.1.lock().unwrap().push((corpus, segment));
        if stage == self.2 {
            self.0.interrupt_handle().interrupt();
        }
    }
    fn advance(&self, _amount: u64) {}
    fn end(&self) {}
}

#[test]
fn a_recompression_reports_how_far_it_is_and_can_be_interrupted() {
    let database = Database::in_memory().unwrap();
    let corpus = database
        .create_corpus("c", CorpusSettings::default())
        .unwrap();
    corpus.append_many(&[("a", "the cat")]).unwrap();
    corpus.recompress(&NoProgress).unwrap();
    corpus.append_many(&[("a", " and the dog")]).unwrap();
    let texts = Texts::from([("a".into(), "the cat and the dog".into())]);
    let before = corpus.segments().unwrap();
    for stage in ["tokenize", "dictionary", "rounds", "prune", "write", "none"] {
        let asking = Asking(database.clone(), Mutex::default(), stage);
        let ended = corpus.recompress(&asking);
        let shares = asking.1.into_inner().unwrap();
        assert_eq!(shares[0], (Value::Real(0.0), Value::Real(0.0)));
        for pair in shares.windows(2) {
            assert!(matches!(
                (&pair[0], &pair[1]),
                ((Value::Real(before), _), (Value::Real(after), Value::Real(same)))
                    if before < after && *after < 1.0 && after == same
            ));
        }
        assert_eq!(corpus.recompressed_share().unwrap(), None);
        check(&corpus, &texts);
        if stage == "none" {
            assert_eq!(ended.unwrap().unwrap().replaced, 1);
        } else {
            assert!(matches!(ended, Err(Error::Interrupted)), "{stage}");
            assert!(corpus.segments().unwrap() == before);
        }
    }
}

#[test]
fn words_of_edits_are_found_after_files_with_other_words_were_imported() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::in_memory().unwrap();
    let corpus = database
        .create_corpus("c", CorpusSettings::default())
        .unwrap();
    corpus.append_many(&[("a", "the cat saw the dog")]).unwrap();
    // The words found around an edit are kept.
    let found = |word: &str| corpus.snapshot().unwrap().search_in("a", word).unwrap();
    assert_eq!(found("cat"), [4]);
    for (name, text) in [("b", "zebra"), ("c", "bee eel dog")] {
        let import = folder.path().join(name);
        fs::write(&import, text).unwrap();
        corpus.copy_from(&import, &CopyOptions::default()).unwrap();
        assert_eq!(found("cat"), [4]);
        assert_eq!(found("dog"), [16]);
    }
    corpus.append_many(&[("b", " bee")]).unwrap();
    assert_eq!(corpus.snapshot().unwrap().count("bee").unwrap(), 2);
}

#[test]
fn much_that_is_pending_is_recompressed_in_the_background() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("d.zdb");
    let mut numbers = Random::new(3);
    let mut texts = Texts::new();
    let database = Database::open(&path).unwrap();
    let settings = CorpusSettings {
        recompress_threshold: 4_000,
        ..CorpusSettings::default()
    };
    let corpus = database.create_corpus("c", settings).unwrap();
    for _ in 0..150 {
        edit(&mut numbers, &corpus, &mut texts);
    }
    check(&corpus, &texts);
    assert!(!corpus.segments().unwrap().is_empty());
    drop((corpus, database));
    let database = Database::open(&path).unwrap();
    check(&database.corpus("c").unwrap(), &texts);
}

#[test]
fn every_operation_of_a_mixed_batch_sees_the_edits_before_it() {
    let mut numbers = Random::new(4);
    let database = Database::options().threads(2).in_memory().unwrap();
    let corpus = database
        .create_corpus("c", CorpusSettings::default())
        .unwrap();
    let mut texts = Texts::new();
    for name in 0..3 {
        texts.insert(format!("d/{name}"), text(&mut numbers, 200));
    }
    let rows: Vec<_> = texts.iter().collect();
    corpus.append_many(&rows).unwrap();
    for round in 0..4 {
        if round == 1 {
            corpus.recompress(&NoProgress).unwrap();
        }
        let names: Vec<String> = (0..4).map(|name| format!("d/{name}")).collect();
        let inserted: Vec<Vec<u8>> = (0..300).map(|_| text(&mut numbers, 3)).collect();
        let (mut operations, mut expected) = (Vec::new(), Vec::new());
        for text in &inserted {
            let file = &names[numbers.below(4)][..];
            let word = [&b"cat"[..], b"the", b"x", b"3.14"][numbers.below(4)];
            let size = texts.get(file).map(Vec::len);
            let Some(size) = size.filter(|_| numbers.below(10) < 7) else {
                texts.entry(file.into()).or_default().extend(text);
                operations.push(Operation::Append { file, text });
                expected.push(Answer::Edited);
                continue;
            };
            let offset = numbers.below(size + 1) as u64;
            // A corpus of its own says what the words of a text are.
            let words = || {
                let plain = Database::in_memory().unwrap();
                let plain = plain.create_corpus("c", CorpusSettings::default()).unwrap();
                plain.append_many(&[(file, &texts[file])]).unwrap();
                plain.snapshot().unwrap().search_in(file, word).unwrap()
            };
            match numbers.below(4) {
                0 => {
                    operations.push(Operation::Count { file, word });
                    expected.push(Answer::Count(words().len() as u64));
                }
                1 => {
                    operations.push(Operation::Search { file, word });
                    expected.push(Answer::Offsets(words()));
                }
                2 => {
                    let length = numbers.below(30) as u64;
                    let text = texts[file].iter().skip(offset as usize);
                    operations.push(Operation::Extract {
                        file,
                        offset,
                        length,
                    });
                    expected.push(Answer::Bytes(text.take(length as usize).copied().collect()));
                }
                _ => {
                    let at = offset as usize;
                    texts
                        .get_mut(file)
                        .unwrap()
                        .splice(at..at, text.iter().copied());
                    operations.push(Operation::Insert { file, offset, text });
                    expected.push(Answer::Edited);
                }
            }
        }
        assert!(corpus.mixed_many(&operations).unwrap() == expected);
        check(&corpus, &texts);
    }
    let file = "nowhere";
    let error = corpus
        .mixed_many(&[Operation::Count { file, word: b"a" }])
        .unwrap_err();
    let message = "operation 1: no such file \"nowhere\" in corpus \"c\"";
    assert_eq!(error.to_string(), message);
}

#[test]
fn answers_of_a_mixed_batch_are_those_of_many_small_ones() {
    let mut numbers = Random::new(5);
    let corpora = [(), (), ()].map(|()| {
        let database = Database::options().threads(2).in_memory().unwrap();
        (database.create_corpus("c", CorpusSettings::default())).unwrap()
    });
    let names = ["few", "many", "new"];
    let texts = [text(&mut numbers, 50), text(&mut numbers, 900)];
    let rows: Vec<_> = names.iter().zip(&texts).collect();
    for corpus in &corpora {
        corpus.append_many(&rows).unwrap();
        corpus.recompress(&NoProgress).unwrap();
    }
    // Every file has more edits than its layers take, and one has had some before.
    let mut sizes = [texts[0].len(), texts[1].len(), 0];
    let edits: Vec<Vec<u8>> = (0..5_000).map(|_| text(&mut numbers, 2)).collect();
    let mut operations = Vec::new();
    for text in &edits {
        let at = [1, 1, 1, 1, 1, 0, 2, 2][numbers.below(8)];
        let (file, size) = (names[at], sizes[at]);
        let word = [&b"cat"[..], b"the", b"x", b"3.14", b"don't"][numbers.below(5)];
        let kind = if size == 0 { 9 } else { numbers.below(10) };
        let offset = numbers.below(size + 1) as u64;
        operations.push(match kind {
            0 => Operation::Count { file, word },
            1 => Operation::Search { file, word },
            2 => Operation::Extract {
                file,
                offset,
                length: 40,
            },
            kind => {
                sizes[at] += text.len();
                match kind {
                    9 => Operation::Append { file, text },
                    _ => Operation::Insert { file, offset, text },
                }
            }
        });
    }
    let [at_once, in_parts, one_by_one] = &corpora;
    let (first, rest) = operations.split_at(700);
    let expected = at_once.mixed_many(first).unwrap();
    let expected = [expected, at_once.mixed_many(rest).unwrap()].concat();
    for (corpus, count) in [(in_parts, 70), (one_by_one, 1)] {
        let mut found = Vec::new();
        for part in operations.chunks(count) {
            found.extend(corpus.mixed_many(part).unwrap());
        }
        for (place, operation) in operations.iter().enumerate() {
            assert_eq!(found[place], expected[place], "{place}: {operation:?}");
        }
        let texts = [at_once, corpus].map(|corpus| {
            let ranges = names.map(|name| (name, 0, u64::MAX));
            (corpus.snapshot().unwrap()).extract_many(&ranges).unwrap()
        });
        assert!(texts[0] == texts[1]);
    }
}

#[test]
fn words_that_edits_of_a_mixed_batch_join_and_split_are_reported() {
    /// Nothing shows where words end for long stretches, characters come in parts, and spaces join words.
    const PARTS: [&str; 12] = [
        "ab",
        "b",
        "\u{e9}",
        "\u{301}",
        "\u{1f1e9}",
        "\u{202f}",
        "'",
        ".",
        "1",
        " ",
        "\n",
        "\u{200d}",
    ];
    let mut numbers = Random::new(6);
    let text = |numbers: &mut Random, parts: usize, kinds: usize| {
        let parts = (0..parts).map(|_| PARTS[numbers.below(kinds)]);
        parts.collect::<String>().into_bytes()
    };
    let (unicode, alnum) = (Tokenizer::Unicode, Tokenizer::Alnum);
    let rounds = [(4, unicode), (9, unicode), (12, unicode), (12, unicode)];
    let rounds = rounds.into_iter().chain([(9, alnum), (12, alnum)]);
    let rounds = rounds.chain([(12, Tokenizer::Whitespace), (10, Tokenizer::Whitespace)]);
    for (round, (kinds, tokenizer)) in rounds.enumerate() {
        let settings = CorpusSettings {
            tokenizer,
            ..CorpusSettings::default()
        };
        let database = Database::options().threads(2).in_memory().unwrap();
        let corpus = database.create_corpus("c", settings.clone()).unwrap();
        let file = "f";
        let mut now = text(&mut numbers, 700, kinds);
        corpus.append_many(&[(file, &now)]).unwrap();
        if round % 2 == 0 {
            corpus.recompress(&NoProgress).unwrap();
        }
        let inserted: Vec<Vec<u8>> = (0..60).map(|_| text(&mut numbers, 3, kinds)).collect();
        let mut states = Vec::new();
        let mut places = Vec::new();
        for text in &inserted {
            let offset = numbers.below(now.len() + 1);
            now.splice(offset..offset, text.iter().copied());
            places.push(offset as u64);
            states.push(now.clone());
        }
        // Each state is a corpus of its own; some are asked about, for all words that there are in any of them.
        let asked: Vec<usize> = (0..states.len())
            .filter(|_| numbers.below(3) == 0)
            .collect();
        let plain = |state: &Vec<u8>| {
            let plain = Database::in_memory().unwrap();
            let plain = plain.create_corpus("c", settings.clone()).unwrap();
            plain.append_many(&[(file, state)]).unwrap();
            plain.snapshot().unwrap()
        };
        let snapshots: Vec<_> = asked.iter().map(|&state| plain(&states[state])).collect();
        let mut words: Vec<Vec<u8>> = (snapshots.iter())
            .flat_map(|snapshot| snapshot.words().unwrap().to_vec())
            .map(|(word, _)| word.to_vec())
            .collect();
        words.sort_unstable();
        words.dedup();
        let (mut operations, mut expected) = (Vec::new(), Vec::new());
        for (state, (text, &offset)) in inserted.iter().zip(&places).enumerate() {
            operations.push(Operation::Insert { file, offset, text });
            expected.push(Answer::Edited);
            let Ok(snapshot) = asked.binary_search(&state) else {
                continue;
            };
            for word in &words {
                let found = snapshots[snapshot].search_in(file, word).unwrap();
                operations.push(Operation::Count { file, word });
                expected.push(Answer::Count(found.len() as u64));
                operations.push(Operation::Search { file, word });
                expected.push(Answer::Offsets(found));
            }
        }
        let found = corpus.mixed_many(&operations).unwrap();
        for (place, operation) in operations.iter().enumerate() {
            assert_eq!(
                found[place], expected[place],
                "{round}, {place}: {operation:?}"
            );
        }
    }
}
