//! Every answer under `SET device = 'cuda'` equals the one under `'cpu'`.
//!
//! Runs on CUDA devices where there are some, else on two emulated ones, which
//! take a C++ compiler; without any it says so. Corpora are small, in many
//! segments, and files span several of them.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use tempfile::TempDir;
use zipfdb::ingest::CopyOptions;
use zipfdb::internal::DeviceCoder;
use zipfdb::mixed::Operation;
use zipfdb::{Database, Error, Value};
use zipfdb_kernels::gpu;
use zipfdb_storage::{Dictionary, EncodedGrammar, Grammar};
use zipfdb_test_support::samples::{self, Random, Sample, Shape};

/// Whether there are devices.
fn has_devices() -> bool {
    gpu::emulate(2);
    match gpu::devices() {
        Ok(_) => true,
        Err(absence) => {
            eprintln!("skipped: {absence}");
            false
        }
    }
}

/// Texts that repeat themselves and each other, of about `words` words each.
fn write_texts(folder: &Path, files: usize, words: usize) {
    let mut state = 7u64;
    let mut below = |end: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % end
    };
    let stock = [
        "the",
        "The",
        "cat",
        "sat",
        "on",
        "a",
        "mat",
        "and",
        "dog",
        "ran",
        "can't",
        "caf\u{e9}",
    ];
    let gaps = [" ", " ", " ", ", ", ".\n", "  "];
    let phrases: Vec<String> = (0..30)
        .map(|phrase| {
            let words = (0..2 + below(6)).map(|_| match below(8) {
                0 => format!("w{phrase}"),
                _ => stock[below(stock.len() as u64) as usize].to_owned(),
            });
            words.collect::<Vec<_>>().join(" ")
        })
        .collect();
    for file in 0..files {
        let mut text = String::new();
        for _ in 0..words / 4 {
            text += &phrases[below(30) as usize];
            text += gaps[below(6) as usize];
        }
        fs::write(folder.join(format!("{file:02}.txt")), text).unwrap();
    }
}

/// A database with one corpus, `c`, of several segments.
fn database(files: usize, words: usize) -> (TempDir, Database) {
    let folder = tempfile::tempdir().unwrap();
    write_texts(folder.path(), files, words);
    let database = Database::in_memory().unwrap();
    database
        .execute_batch("CREATE CORPUS c WITH (segment_size = '64KiB')")
        .unwrap();
    let corpus = database.corpus("c").unwrap();
    corpus
        .copy_from(folder.path(), &CopyOptions::default())
        .unwrap();
    (folder, database)
}

fn rows(database: &Database, sql: &str) -> Vec<Vec<Value>> {
    let rows = database.query(sql, ()).unwrap();
    rows.map(|row| row.unwrap().into_values()).collect()
}

/// The lines of EXPLAIN ANALYZE.
fn explained(database: &Database, sql: &str) -> String {
    let lines = rows(database, &format!("EXPLAIN ANALYZE {sql}"))
        .into_iter()
        .flatten();
    let lines = lines.map(|line| match line {
        Value::Text(line) => line,
        other => panic!("{other:?}"),
    });
    lines.collect::<Vec<_>>().join("\n")
}

const TASKS: [&str; 9] = [
    "SELECT word, COUNT(*) FROM c GROUP BY word ORDER BY word",
    "SELECT word, file, COUNT(*) FROM c GROUP BY word, file ORDER BY word, file",
    "SELECT * FROM term_vectors('c', 5) ORDER BY file, rank",
    "SELECT ngram, COUNT(*) FROM ngrams('c', 2) GROUP BY ngram ORDER BY ngram",
    "SELECT ngram, COUNT(*) FROM ngrams('c', 5) GROUP BY ngram ORDER BY ngram",
    "SELECT ngram, file, COUNT(*) FROM ngrams('c', 3) GROUP BY ngram, file ORDER BY ngram, file",
    "SELECT ngram, COUNT(*) AS n FROM ngrams('c', 3) GROUP BY ngram ORDER BY n DESC, ngram",
    "SELECT COUNT(*) FROM ngrams('c', 2) WHERE ngram = 'the cat'",
    "SELECT ngram, file, position, offset FROM ngrams('c', 2) WHERE ngram IN ('cat sat', 'a mat') ORDER BY 1, 2, 3",
];

/// Answers all tasks and batches on both sides. Tables that segments keep are those that were asked for first, so each side
/// has a database of its own.
fn check(cpu: &Database, cuda: &Database, tasks: &[&str]) {
    cpu.execute_batch("SET device = 'cpu'").unwrap();
    for sql in tasks {
        assert_eq!(rows(cuda, sql), rows(cpu, sql), "{sql}");
    }
    let [cpu, cuda] = [cpu, cuda].map(|database| database.corpus("c").unwrap().snapshot().unwrap());
    assert_eq!(
        cuda.word_files().unwrap().len(),
        cpu.word_files().unwrap().len()
    );
    let names: Vec<String> = cpu.files().iter().map(|file| file.name.clone()).collect();
    let words = ["the", "The", "w3", "w17", "can't", "missing", ""];
    let questions: Vec<(&str, &str)> = names
        .iter()
        .flat_map(|name| words.iter().map(move |word| (&name[..], *word)))
        .collect();
    assert_eq!(
        cuda.count_in_many(&questions).unwrap(),
        cpu.count_in_many(&questions).unwrap()
    );
    assert_eq!(
        cuda.search_in_many(&questions).unwrap(),
        cpu.search_in_many(&questions).unwrap()
    );
    let ranges: Vec<(&str, u64, u64)> = (0..100u64)
        .map(|number| {
            (
                &names[number as usize % names.len()][..],
                number * 997 % 90_000,
                number * 31,
            )
        })
        .chain([(&names[0][..], 0, u64::MAX)])
        .collect();
    assert_eq!(
        cuda.extract_many(&ranges).unwrap(),
        cpu.extract_many(&ranges).unwrap()
    );
}

#[test]
fn answers_equal_those_of_the_cpu() {
    if !has_devices() {
        return;
    }
    let ((_left, cpu), (_right, cuda)) = (database(5, 4000), database(5, 4000));
    cuda.execute_batch("SET device = 'cuda'").unwrap();
    let plan = explained(&cuda, TASKS[1]);
    let name = &gpu::devices().unwrap()[0].facts().name;
    assert!(plan.contains(&format!("ran on: {name}")), "{plan}");
    check(&cpu, &cuda, &TASKS);
    let resident = rows(
        &cuda,
        "SELECT SUM(resident), SUM(failures), MAX(used) > 0 FROM devices()",
    );
    let segments = rows(&cuda, "SELECT COUNT(*), 0, 1 FROM segments('c')");
    assert_eq!(resident, segments);
    // Pending edits correct what devices answer.
    for database in [&cpu, &cuda] {
        let insert = "INSERT INTO c (file, offset, content) VALUES ('00.txt', 7, ' the brand new w3 '), ('01.txt', 0, 'can')";
        database.execute_batch(insert).unwrap();
        database
            .execute_batch("DELETE FROM c WHERE file = '03.txt'")
            .unwrap();
    }
    check(&cpu, &cuda, &TASKS[..4]);
    check(&cpu, &cuda, &TASKS[6..7]);
}

#[test]
fn ngrams_come_from_devices_in_any_order() {
    if !has_devices() {
        return;
    }
    let one = Database::in_memory().unwrap();
    let folder = tempfile::tempdir().unwrap();
    write_texts(folder.path(), 3, 2000);
    let copy = format!("CREATE CORPUS c; COPY c FROM '{}'", folder.path().display());
    one.execute_batch(&copy).unwrap();
    let (_folder, several) = database(5, 4000);
    for (database, segments) in [(&one, 1..2), (&several, 2..100)] {
        let found = rows(database, "SELECT COUNT(*) FROM segments('c')");
        let [Value::Integer(count)] = found[0][..] else {
            panic!("{found:?}")
        };
        assert!(segments.contains(&count), "{count}");
        database.execute_batch("SET device = 'cuda'").unwrap();
        for with_file in ["", ", file"] {
            let sql = format!(
                "SELECT ngram{with_file}, COUNT(*) FROM ngrams('c', 3) GROUP BY ngram{with_file}"
            );
            let plan = explained(database, &sql);
            assert!(!plan.contains("ran on: cpu"), "{plan}");
        }
        for n in [1, 3] {
            for (with_file, end) in [
                ("", "ORDER BY ngram"),
                ("", "ORDER BY n DESC, ngram"),
                ("", "ORDER BY n DESC, ngram DESC"),
                ("", "ORDER BY n DESC, ngram LIMIT 7"),
                ("", "HAVING COUNT(*) > 3"),
                ("", ""),
                (", file", "ORDER BY ngram, file"),
                (", file", "ORDER BY ngram, n DESC, file"),
                (", file", "ORDER BY n DESC, ngram, file LIMIT 9"),
                (", file", ""),
            ] {
                let sql = format!(
                    "SELECT ngram{with_file}, COUNT(*) AS n FROM ngrams('c', {n}) GROUP BY ngram{with_file} {end}"
                );
                let [cpu, cuda] = ["cpu", "cuda"].map(|device| {
                    let set = format!("SET device = '{device}'");
                    database.execute_batch(&set).unwrap();
                    let mut found = rows(database, &sql);
                    if !end.contains("ORDER") {
                        found.sort_by_cached_key(|row| format!("{row:?}"));
                    }
                    found
                });
                assert_eq!(cuda, cpu, "{sql}, {count} segments");
            }
            let sql = format!(
                "SELECT COUNT(*), SUM(n) FROM (SELECT ngram, file, COUNT(*) AS n FROM ngrams('c', {n}) GROUP BY ngram, file)"
            );
            let found = rows(database, &sql);
            let sql = format!(
                "SELECT COUNT(DISTINCT ngram || ' ' || file), COUNT(*) FROM ngrams('c', {n})"
            );
            assert_eq!(found, rows(database, &sql));
        }
    }
}

#[test]
fn segments_that_do_not_fit_together_come_one_after_the_other() {
    if !has_devices() {
        return;
    }
    let ((_left, cpu), (_right, cuda)) = (database(3, 6000), database(3, 6000));
    cuda.execute_batch("SET device = 'cuda:0'; SET gpu_memory_limit = '4MiB'")
        .unwrap();
    check(&cpu, &cuda, &TASKS[1..4]);
    let sql = "SELECT SUM(resident), MAX(used) <= MAX(memory_limit) FROM devices()";
    let found = rows(&cuda, sql);
    assert!(matches!(found[0][0], Value::Integer(1..)), "{found:?}");
    assert_eq!(found[0][1], Value::Integer(1));
    // What nothing fits is an error that says so.
    let text = (0..30_000u64).map(|number| format!("w{} ", number * number % 9973));
    let row = [Value::from(&text.collect::<String>()[..])];
    cuda.execute_batch("SET gpu_memory_limit = '64KiB'; CREATE CORPUS d")
        .unwrap();
    let insert = "INSERT INTO d (file, content) VALUES ('one', ?)";
    cuda.query(insert, &row).unwrap();
    cuda.execute_batch("SET device = 'cpu'; RECOMPRESS d; SET device = 'cuda:0'")
        .unwrap();
    let sql = "SELECT ngram, COUNT(*) FROM ngrams('d', 5) GROUP BY ngram";
    let error = cuda.query(sql, ()).unwrap().find_map(Result::err).unwrap();
    assert!(error.to_string().contains("gpu_memory_limit"), "{error}");
}

#[test]
fn small_work_stays_on_the_cpu() {
    if !has_devices() {
        return;
    }
    let (_folder, database) = database(2, 1000);
    for sql in TASKS {
        let plan = explained(&database, sql);
        assert!(plan.contains("device: cpu"), "{plan}");
        assert!(!plan.contains("ran on: emulator"), "{plan}");
    }
    assert_eq!(
        rows(&database, "SELECT SUM(used), SUM(resident) FROM devices()"),
        [[0, 0].map(Value::Integer)]
    );
}

#[test]
fn segments_leave_devices_when_they_are_dropped() {
    if !has_devices() {
        return;
    }
    let (_folder, database) = database(2, 1000);
    database.execute_batch("SET device = 'cuda'").unwrap();
    rows(&database, TASKS[3]);
    let used = "SELECT SUM(used) > 0, SUM(resident) > 0 FROM devices()";
    assert_eq!(rows(&database, used), [[1, 1].map(Value::Integer)]);
    database.execute_batch("DROP CORPUS c").unwrap();
    assert_eq!(rows(&database, used), [[0, 0].map(Value::Integer)]);
}

#[test]
fn texts_with_few_words_or_none_are_answered_too() {
    if !has_devices() {
        return;
    }
    let databases = ["cpu", "cuda"].map(|device| {
        let database = Database::in_memory().unwrap();
        database
            .execute_batch(&format!(
                "SET device = '{device}'; CREATE CORPUS c; CREATE CORPUS nothing"
            ))
            .unwrap();
        database
    });
    let tasks = [
        "SELECT word, file, COUNT(*) FROM c GROUP BY word, file ORDER BY word, file",
        "SELECT ngram, COUNT(*) FROM ngrams('c', 1) GROUP BY ngram ORDER BY ngram",
        "SELECT ngram, file, COUNT(*) FROM ngrams('c', 8) GROUP BY ngram, file ORDER BY ngram, file",
        "SELECT word, COUNT(*) FROM nothing GROUP BY word",
        "SELECT ngram, COUNT(*) FROM ngrams('nothing', 2) GROUP BY ngram",
    ];
    for texts in [
        &["", " \n"][..],
        &["one"],
        &["a b c d e f g h i a b c d e f g h i"],
    ] {
        for database in &databases {
            database.execute_batch("DELETE FROM c").unwrap();
            for (number, text) in texts.iter().enumerate() {
                let row = [Value::from(&number.to_string()[..]), Value::from(*text)];
                let insert = "INSERT INTO c (file, content) VALUES (?, ?)";
                database.query(insert, &row).unwrap();
            }
            database.execute_batch("RECOMPRESS c").unwrap();
        }
        for sql in tasks {
            assert_eq!(
                rows(&databases[1], sql),
                rows(&databases[0], sql),
                "{sql}, {texts:?}"
            );
        }
        let questions = [("0", "one"), ("0", "a"), ("0", "")];
        let ranges = [("0", 0, 100), ("0", 1, 1), ("0", 50, 1)];
        let answers = databases.each_ref().map(|database| {
            let snapshot = database.corpus("c").unwrap().snapshot().unwrap();
            let counts = snapshot.count_in_many(&questions).unwrap();
            let places = snapshot.search_in_many(&questions).unwrap();
            (counts, places, snapshot.extract_many(&ranges).unwrap())
        });
        assert_eq!(answers[1], answers[0], "{texts:?}");
    }
}

#[test]
fn parameter_sets_are_answered_together() {
    if !has_devices() {
        return;
    }
    let ((_left, cpu), (_right, cuda)) = (database(3, 3000), database(3, 3000));
    cpu.execute_batch("SET device = 'cpu'").unwrap();
    // A quarter of this is less than all occurrences take: they come in several batches.
    cuda.execute_batch("SET device = 'cuda'; SET memory_limit = '1MiB'")
        .unwrap();
    let words = ["the", "the", "missing", "can't", "dog"];
    let word_sets: Vec<Vec<Value>> = (0..150)
        .map(|set| {
            let file = format!("{:02}.txt", set % 4);
            vec![
                Value::from(&file[..]),
                Value::from(words[set % words.len()]),
            ]
        })
        .collect();
    let ranges = (0..60).map(|set: i64| {
        vec![
            Value::from("01.txt"),
            Value::Integer(set * 301),
            Value::Integer(set),
        ]
    });
    let ranges: Vec<Vec<Value>> = ranges.collect();
    let questions = [
        (
            "SELECT binding(), COUNT(*) FROM c WHERE file = ? AND word = ?",
            &word_sets,
        ),
        (
            "SELECT binding(), offset FROM c WHERE file = ? AND word = ? ORDER BY offset",
            &word_sets,
        ),
        (
            "SELECT binding(), position, offset FROM c WHERE file = ? AND word = ?",
            &word_sets,
        ),
        (
            "SELECT binding(), substr(content, ?2, ?3) FROM files('c') WHERE file = ?1",
            &ranges,
        ),
    ];
    for edited in [false, true] {
        for (sql, sets) in &questions {
            let answers = [&cpu, &cuda].map(|database| {
                let rows = database.query_many(sql, sets).unwrap();
                rows.map(|row| row.unwrap().into_values())
                    .collect::<Vec<_>>()
            });
            assert!(answers[0].len() > 30, "{sql}");
            assert_eq!(answers[1], answers[0], "{sql}, {edited}");
        }
        let resident = rows(&cuda, "SELECT SUM(resident) > 0 FROM devices()");
        assert_eq!(resident, [[Value::Integer(1)]]);
        for database in [&cpu, &cuda] {
            let insert =
                "INSERT INTO c (file, offset, content) VALUES ('00.txt', 7, ' the brand new w3 ')";
            database.execute_batch(insert).unwrap();
        }
    }
}

#[test]
fn segments_are_the_same_wherever_their_tokens_are_numbered() {
    if !has_devices() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    write_texts(folder.path(), 3, 2000);
    let long_word = "long".repeat(10_000);
    let texts: [(&str, &[u8]); 5] = [
        ("empty", b""),
        ("gaps", b" \n\n ... \n\n    \t"),
        ("long", long_word.as_bytes()),
        ("bytes", b"not \xff\xfe UTF-8, \xc3 and \0"),
        ("kanji", "\u{6f22}\u{5b57} and e\u{301} ".as_bytes()),
    ];
    for (name, text) in texts {
        fs::write(folder.path().join(name), text).unwrap();
    }
    for (tokenizer, segment_size) in [
        ("unicode", "1MiB"),
        ("unicode", "64KiB"),
        ("alnum", "64KiB"),
        ("whitespace", "64KiB"),
    ] {
        let settings = format!("tokenizer = '{tokenizer}', segment_size = '{segment_size}'");
        let made = |device| {
            copied(
                folder.path(),
                &format!("SET device = '{device}'"),
                &settings,
            )
        };
        assert!(made("cuda") == made("cpu"), "{settings}");
    }
}

/// The segment files of a new database into which a folder was copied.
fn copied(folder: &Path, settings: &str, of_corpus: &str) -> Vec<(String, Vec<u8>)> {
    let path = tempfile::tempdir().unwrap();
    let database = Database::open(path.path()).unwrap();
    for statement in [settings, &format!("CREATE CORPUS c WITH ({of_corpus})")] {
        database.execute_batch(statement).unwrap();
    }
    let corpus = database.corpus("c").unwrap();
    corpus.copy_from(folder, &CopyOptions::default()).unwrap();
    segment_files(path.path())
}

/// The segment files of a database, by name.
fn segment_files(database: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(database.join("segments")).unwrap();
    let mut files: Vec<(String, Vec<u8>)> = entries
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, fs::read(path).unwrap())
        })
        .collect();
    files.sort_unstable();
    files
}

#[test]
fn segments_are_the_same_wherever_their_grammars_are_built() {
    if !has_devices() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    write_texts(folder.path(), 2, 3000);
    let made = |device: &str| {
        let path = tempfile::tempdir().unwrap();
        let database = Database::open(path.path()).unwrap();
        database
            .execute_batch(&format!("SET device = '{device}'"))
            .unwrap();
        database.execute_batch("CREATE CORPUS c").unwrap();
        let corpus = database.corpus("c").unwrap();
        corpus
            .copy_from(folder.path(), &CopyOptions::default())
            .unwrap();
        let copied = segment_files(path.path());
        let insert = "INSERT INTO c (file, offset, content) VALUES ('00.txt', 3, 'some new words')";
        database.execute_batch(insert).unwrap();
        database.execute_batch("RECOMPRESS c").unwrap();
        (copied, segment_files(path.path()))
    };
    assert_eq!(made("cuda"), made("cpu"));
}

/// Whether a device encodes a grammar to the bytes of the CPU.
fn is_encoded_alike(grammar: &Grammar, dictionary: &Dictionary) -> bool {
    let gpu = &gpu::devices().unwrap()[0];
    let found = EncodedGrammar::with(grammar, dictionary, |chunks| {
        DeviceCoder::new(gpu, grammar, chunks)
    });
    found.unwrap() == EncodedGrammar::new(grammar, dictionary)
}

#[test]
fn random_grammars_have_the_same_bytes_wherever_they_are_encoded() {
    if !has_devices() {
        return;
    }
    for seed in 0..60 {
        let mut random = Random(seed);
        let mut below = |end| random.below(end) as u32;
        let shape = Shape {
            seed,
            tokens: [0, 1, 2, 30, 300][below(5) as usize],
            levels: below(6),
            rules_per_level: 1 + below(60),
            files: below(4),
            root_symbols: 1 + below(900),
            body_max: 1 + below(40),
        };
        let sample = samples::random(shape);
        assert!(
            is_encoded_alike(&sample.grammar, &sample.dictionary),
            "{shape:?}"
        );
    }
}

#[test]
fn grammars_of_many_chunks_have_the_same_bytes_wherever_they_are_encoded() {
    /// Coded symbols of a chunk of the root.
    const CHUNK: usize = 8192;
    if !has_devices() {
        return;
    }
    let Sample {
        mut grammar,
        dictionary,
        ..
    } = samples::random(Shape {
        seed: 3,
        tokens: 6_000,
        levels: 3,
        rules_per_level: 4_000,
        files: 0,
        root_symbols: 1,
        body_max: 12,
    });
    assert!(grammar.symbols.len() > CHUNK);
    let end = u64::from(grammar.terminal_count + grammar.rule_count());
    for length in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK] {
        let mut random = Random(length as u64);
        grammar.root = (0..length).map(|_| random.skewed(end) as u32).collect();
        // A file begins where a chunk does not.
        grammar.root_offsets = vec![0, length as u32 / 3, length as u32];
        assert!(is_encoded_alike(&grammar, &dictionary), "{length} symbols");
    }
}

#[test]
fn batches_of_operations_are_answered_as_by_the_cpu() {
    if !has_devices() {
        return;
    }
    let ((_left, cpu), (_right, cuda)) = (database(3, 3000), database(3, 3000));
    cpu.execute_batch("SET device = 'cpu'").unwrap();
    cuda.execute_batch("SET device = 'cuda'").unwrap();
    let mut state = 5u64;
    let mut below = |end: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % end
    };
    let words: [&[u8]; 6] = [b"the", b"new", b"w3", b"cat", b"missing", b"mat"];
    let texts: [&[u8]; 6] = [b" the new ", b"w3", b"", b"cat, ", b"x", b" new mat "];
    let names = ["00.txt", "01.txt", "02.txt", "created"];
    // Sizes as they are when the operations come.
    let snapshot = cpu.corpus("c").unwrap().snapshot().unwrap();
    let mut sizes = names.map(|name| snapshot.file(name).map(|file| file.bytes));
    for round in 0..4 {
        let mut operations = Vec::new();
        while operations.len() < 150 {
            let at = below(4) as usize;
            let (file, text) = (names[at], texts[below(6) as usize]);
            let word = words[below(6) as usize];
            let kind = if sizes[at].is_none() { 9 } else { below(12) };
            let size = sizes[at].unwrap_or(0);
            operations.push(match kind {
                0 => Operation::Count { file, word },
                1 => Operation::Search { file, word },
                2 => Operation::Extract {
                    file,
                    offset: below(size + 9),
                    length: below(400),
                },
                3..=8 => {
                    let offset = below(size + 1);
                    sizes[at] = Some(size + text.len() as u64);
                    Operation::Insert { file, offset, text }
                }
                _ => {
                    sizes[at] = Some(size + text.len() as u64);
                    Operation::Append { file, text }
                }
            });
        }
        let answers = [&cpu, &cuda].map(|database| {
            let corpus = database.corpus("c").unwrap();
            corpus.mixed_many(&operations).unwrap()
        });
        for (place, operation) in operations.iter().enumerate() {
            let found = &answers[1][place];
            assert_eq!(*found, answers[0][place], "{round}, {place}: {operation:?}");
        }
        // A refused edit is refused with the same words, and nothing has happened.
        let (file, text) = (names[1], texts[1]);
        let offset = sizes[1].unwrap() + 3;
        let refused = [
            Operation::Append { file, text },
            Operation::Insert { file, offset, text },
            Operation::Append { file, text },
        ];
        let errors = [&cpu, &cuda].map(|database| {
            let corpus = database.corpus("c").unwrap();
            corpus.mixed_many(&refused).unwrap_err().to_string()
        });
        assert_eq!(errors[1], errors[0]);
        let texts = [&cpu, &cuda].map(|database| {
            let snapshot = database.corpus("c").unwrap().snapshot().unwrap();
            let ranges = names.map(|name| (name, 0, u64::MAX));
            let many: Vec<(&str, u64, u64)> = (0..80)
                .map(|number| (names[number as usize % 4], number * 301, number * 17))
                .chain(ranges)
                .collect();
            snapshot.extract_many(&many).unwrap()
        });
        assert!(texts[1] == texts[0]);
        if round == 1 {
            for database in [&cpu, &cuda] {
                database.execute_batch("RECOMPRESS c").unwrap();
            }
        }
    }
    let sql = "SELECT SUM(resident) > 0, SUM(failures) FROM devices()";
    assert_eq!(rows(&cuda, sql), [[1, 0].map(Value::Integer)]);
}

#[test]
fn work_on_devices_ends_when_time_is_up() {
    if !has_devices() {
        return;
    }
    let (_folder, database) = database(3, 3000);
    // Nothing is copied to a device and back in so short a time.
    database
        .execute_batch("SET device = 'cuda'; SET statement_timeout = 1")
        .unwrap();
    let error = database.query(TASKS[4], ()).unwrap().find_map(Result::err);
    assert!(matches!(error, Some(Error::Timeout { .. })), "{error:?}");
    let sets: Vec<Vec<Value>> = (0..2000)
        .map(|set| vec![Value::from(&format!("{:02}.txt", set % 3)[..])])
        .collect();
    let sql = "SELECT COUNT(*) FROM c WHERE file = ? AND word = 'the'";
    let answer = database.query_many(sql, &sets);
    let error = answer.map_or_else(Some, |mut rows| rows.find_map(Result::err));
    assert!(matches!(error, Some(Error::Timeout { .. })), "{error:?}");
    // Calls of Rust end as statements do.
    let corpus = database.corpus("c").unwrap();
    let snapshot = corpus.snapshot().unwrap();
    let (file, word) = ("00.txt", b"the");
    let words = vec![(file, word); 2000];
    let operations = vec![Operation::Count { file, word }; 20_000];
    let ranges = vec![(file, 0, 4000); 2000];
    type Call<'a> = &'a dyn Fn() -> zipfdb::Result<usize>;
    let calls: [(&str, Call); 6] = [
        ("ngrams", &|| snapshot.ngrams(4).map(|found| found.len())),
        ("ranked", &|| snapshot.ngram_files(3).map(|_| 0)),
        ("counts", &|| {
            snapshot.count_in_many(&words).map(|found| found.len())
        }),
        ("searches", &|| {
            snapshot.search_in_many(&words).map(|found| found.len())
        }),
        ("extracts", &|| {
            snapshot.extract_many(&ranges).map(|found| found.len())
        }),
        ("mixed", &|| {
            corpus.mixed_many(&operations).map(|found| found.len())
        }),
    ];
    // A call may end before the watch of the clock stops it.
    let ends = calls.map(|(_, call)| call());
    database.execute_batch("SET statement_timeout = 0").unwrap();
    // Emulated, that many searches take seconds.
    let models = rows(&database, "SELECT model FROM devices()");
    let is_emulated = models[0] == [Value::from("host emulator")];
    assert!(!is_emulated || matches!(ends[3], Err(Error::Timeout { .. })));
    for ((name, call), end) in calls.into_iter().zip(ends) {
        match end {
            Ok(found) => assert_eq!(found, call().unwrap(), "{name}"),
            Err(error) => assert!(matches!(error, Error::Timeout { .. }), "{name}: {error}"),
        }
    }
    assert!(!rows(&database, TASKS[4]).is_empty());
    assert_eq!(snapshot.count_in_many(&words).unwrap().len(), 2000);
    let failures = rows(&database, "SELECT SUM(failures) FROM devices()");
    assert_eq!(failures, [[Value::Integer(0)]]);
}

#[test]
fn a_device_that_is_not_there_is_an_error_that_says_why() {
    has_devices();
    let database = Database::in_memory().unwrap();
    let error = database
        .execute_batch("SET device = 'cuda:77'")
        .unwrap_err();
    assert!(error.to_string().contains("SET device = 'auto'"), "{error}");
    let value = "SELECT value FROM settings() WHERE setting = 'device'";
    assert_eq!(rows(&database, value), [[Value::from("auto")]]);
}
