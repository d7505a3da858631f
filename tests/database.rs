//! What a host program may rely on: opening, importing, errors, reopening.

use std::fs;
use std::path::Path;

use zipfdb::ingest::{CopyOptions, NoProgress, OnConflict, OnError, TextEncoding};

use zipfdb::{CorpusSettings, Database, Reader, Rows, Value};

fn rows(database: &Database, sql: &str) -> Vec<Vec<Value>> {
    let rows = database
        .query(sql, ())
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
    rows.map(|row| row.unwrap().into_values()).collect()
}

fn message(database: &Database, sql: &str) -> String {
    match database.execute_batch(sql) {
        Ok(()) => panic!("{sql} should fail"),
        Err(error) => error.to_string(),
    }
}

fn text(text: &str) -> Value {
    Value::Text(text.into())
}

fn write(folder: &Path, name: &str, content: &[u8]) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// A folder with three files and an open database with corpus `c` that holds them.
fn small() -> (tempfile::TempDir, Database) {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "in/a.txt", b"the cat and the dog");
    write(folder.path(), "in/deep/b.txt", b"The end, the end");
    write(folder.path(), "in/empty", b"");
    let database = Database::open(folder.path().join("db.zdb")).unwrap();
    let corpus = database
        .create_corpus("c", CorpusSettings::default())
        .unwrap();
    corpus
        .copy_from(folder.path().join("in"), &CopyOptions::default())
        .unwrap();
    (folder, database)
}

#[test]
fn a_database_is_the_same_after_it_is_reopened() {
    let (folder, database) = small();
    let queries = [
        "SELECT word, COUNT(*) FROM c GROUP BY word ORDER BY word",
        "SELECT file, content, bytes, words FROM files('c') ORDER BY file",
        "SELECT file, offset FROM c WHERE word = 'the' ORDER BY file, offset",
        "SELECT * FROM corpora()",
    ];
    let before: Vec<_> = queries.iter().map(|sql| rows(&database, sql)).collect();
    assert_eq!(
        before[2],
        [
            vec![text("a.txt"), Value::Integer(0)],
            vec![text("a.txt"), Value::Integer(12)],
            vec![text("deep/b.txt"), Value::Integer(9)],
        ]
    );
    drop(database);
    let path = folder.path().join("db.zdb");
    let database = Database::open(&path).unwrap();
    let after: Vec<_> = queries.iter().map(|sql| rows(&database, sql)).collect();
    assert_eq!(before, after);
    assert_eq!(database.warnings(), Vec::<String>::new());
    drop(database);
    let database = Database::options().read_only(true).open(&path).unwrap();
    let after: Vec<_> = queries.iter().map(|sql| rows(&database, sql)).collect();
    assert_eq!(before, after);
    assert!(database.execute_batch("CREATE CORPUS d").is_err());
}

#[test]
fn a_read_only_database_is_never_created() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none.zdb");
    assert!(Database::options().read_only(true).open(&path).is_err());
    assert!(Database::options().create(false).open(&path).is_err());
    assert!(!path.exists());
}

#[test]
fn a_second_writer_is_refused_and_a_reader_is_not() {
    let (folder, database) = small();
    let path = folder.path().join("db.zdb");
    let error = Database::open(&path).unwrap_err().to_string();
    assert!(
        error.contains("open for writing in this process"),
        "{error}"
    );
    let reader = Database::options().read_only(true).open(&path).unwrap();
    assert_eq!(
        rows(&reader, "SELECT COUNT(*) FROM c"),
        rows(&database, "SELECT COUNT(*) FROM c")
    );
}

#[test]
fn a_database_in_memory_answers_like_one_on_disk() {
    let (folder, database) = small();
    let memory = Database::in_memory().unwrap();
    memory.execute_batch("CREATE CORPUS c").unwrap();
    let sql = format!("COPY c FROM '{}'", folder.path().join("in").display());
    memory.execute_batch(&sql).unwrap();
    for sql in [
        "SELECT word, COUNT(*) FROM c GROUP BY word ORDER BY word",
        "SELECT * FROM files('c')",
    ] {
        assert_eq!(rows(&memory, sql), rows(&database, sql));
    }
    assert_eq!(memory.path(), None);
}

#[test]
fn importing_a_name_twice_changes_nothing() {
    let (folder, database) = small();
    write(folder.path(), "more/a.txt", b"another");
    write(folder.path(), "more/new.txt", b"new");
    let sql = format!("COPY c FROM '{}'", folder.path().join("more").display());
    write(folder.path(), "more/deep/b.txt", b"another");
    let error = message(&database, &sql);
    let expected = "already has a file \"a.txt\" (";
    assert!(error.contains(expected), "{error}");
    let expected = ") and 1 more of these: \"deep/b.txt\"; hint: nothing was copied";
    assert!(error.contains(expected), "{error}");
    fs::remove_file(folder.path().join("more/deep/b.txt")).unwrap();
    assert_eq!(
        rows(&database, "SELECT COUNT(*) FROM files('c')"),
        [[Value::Integer(3)]]
    );
    fs::remove_file(folder.path().join("more/a.txt")).unwrap();
    database.execute_batch(&sql).unwrap();
    assert_eq!(
        rows(&database, "SELECT COUNT(*) FROM files('c')"),
        [[Value::Integer(4)]]
    );
    assert_eq!(
        rows(&database, "SELECT COUNT(*) FROM segments('c')"),
        [[Value::Integer(2)]]
    );
    assert_eq!(
        rows(
            &database,
            "SELECT content FROM files('c') WHERE file = 'new.txt'"
        ),
        [[Value::Blob(b"new".to_vec())]]
    );
}

#[cfg(unix)]
#[test]
fn unreadable_files_stop_an_import_unless_they_are_skipped() {
    let (folder, database) = small();
    write(folder.path(), "bad/good.txt", b"good");
    std::os::unix::fs::symlink("nowhere", folder.path().join("bad/dangling")).unwrap();
    let sql = format!("COPY c FROM '{}'", folder.path().join("bad").display());
    let error = message(&database, &sql);
    assert!(
        error.contains("dangling") && error.contains("on_error"),
        "{error}"
    );
    assert_eq!(
        rows(&database, "SELECT COUNT(*) FROM files('c')"),
        [[Value::Integer(3)]]
    );
    let options = CopyOptions {
        on_error: OnError::Skip,
        ..CopyOptions::default()
    };
    let corpus = database.corpus("c").unwrap();
    let report = corpus
        .copy_from(folder.path().join("bad"), &options)
        .unwrap();
    assert_eq!((report.files, report.unreadable.len()), (1, 1));
    assert_eq!(
        rows(&database, "SELECT COUNT(*) FROM files('c')"),
        [[Value::Integer(4)]]
    );
}

#[test]
fn a_path_that_matches_nothing_is_an_error() {
    let (folder, database) = small();
    for missing in ["nowhere", "in/*.none"] {
        let path = folder.path().join(missing);
        let error = message(&database, &format!("COPY c FROM '{}'", path.display()));
        assert!(error.contains(missing), "{error}");
    }
}

#[test]
fn a_glob_and_a_single_file_name_their_files() {
    let (folder, database) = small();
    database
        .execute_batch("CREATE CORPUS g; CREATE CORPUS s")
        .unwrap();
    let glob = folder.path().join("in/**/*.txt");
    database
        .execute_batch(&format!("COPY g FROM '{}'", glob.display()))
        .unwrap();
    assert_eq!(
        rows(&database, "SELECT file FROM files('g') ORDER BY file"),
        [[text("a.txt")], [text("deep/b.txt")]]
    );
    let single = folder.path().join("in/deep/b.txt");
    database
        .execute_batch(&format!("COPY s FROM '{}'", single.display()))
        .unwrap();
    assert_eq!(
        rows(&database, "SELECT file FROM files('s')"),
        [[text("b.txt")]]
    );
}

#[test]
fn files_are_never_overwritten_on_the_way_out() {
    let (folder, database) = small();
    let target = folder.path().join("out");
    write(&target, "deep/b.txt", b"precious");
    let error = message(&database, &format!("COPY c TO '{}'", target.display()));
    assert!(error.contains("b.txt"), "{error}");
    assert_eq!(fs::read(target.join("deep/b.txt")).unwrap(), b"precious");
}

#[test]
fn names_that_do_not_exist_are_pointed_at() {
    let (_folder, database) = small();
    database.execute_batch("CREATE CORPUS reviews").unwrap();
    let error = message(&database, "SELECT COUNT(*) FROM revews");
    assert_eq!(
        error,
        "1:22: no such corpus \"revews\"; hint: did you mean \"reviews\"?"
    );
    let corpus = database.corpus("C").unwrap();
    assert_eq!(corpus.name(), "c");
    let error = corpus
        .snapshot()
        .unwrap()
        .count_in_many(&[("a.tx", "the")])
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "no such file \"a.tx\" in corpus \"c\"; hint: did you mean \"a.txt\"?"
    );
    // In SQL a file that does not exist has no rows, as in any other condition.
    assert_eq!(
        rows(
            &database,
            "SELECT COUNT(word) FROM c WHERE file = 'a.tx' AND word = 'the'"
        ),
        [[Value::Integer(0)]]
    );
}

#[test]
fn substr_counts_bytes_from_one_as_on_blobs() {
    let (_folder, database) = small();
    let substr = |arguments: &str| {
        let sql =
            format!("SELECT substr(content, {arguments}) FROM files('c') WHERE file = 'a.txt'");
        rows(&database, &sql).remove(0).remove(0)
    };
    assert_eq!(substr("5, 3"), Value::Blob(b"cat".to_vec()));
    assert_eq!(substr("17"), Value::Blob(b"dog".to_vec()));
    assert_eq!(substr("-3, 2"), Value::Blob(b"do".to_vec()));
    assert_eq!(substr("100, 3"), Value::Blob(Vec::new()));
    assert_eq!(substr("NULL, 3"), Value::Null);
}

#[test]
fn a_dropped_corpus_is_gone_but_a_snapshot_of_it_is_not() {
    let (folder, database) = small();
    let snapshot = database.corpus("c").unwrap().snapshot().unwrap();
    database.execute_batch("DROP CORPUS c").unwrap();
    assert!(database.query("SELECT COUNT(*) FROM c", ()).is_err());
    assert_eq!(snapshot.count("the").unwrap(), 3);
    drop(snapshot);
    let segments = fs::read_dir(folder.path().join("db.zdb/segments")).unwrap();
    let left: Vec<_> = segments
        .map(|entry| entry.unwrap().file_name())
        .filter(|name| name.to_string_lossy().ends_with(".seg"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    database.execute_batch("CREATE CORPUS c").unwrap();
    assert_eq!(
        rows(&database, "SELECT COUNT(*) FROM c"),
        [[Value::Integer(0)]]
    );
}

#[test]
fn a_damaged_segment_is_reported_and_never_believed() {
    let (folder, database) = small();
    assert_eq!(rows(&database, "CHECK c").len(), 1);
    drop(database);
    let segments = folder.path().join("db.zdb/segments");
    let path = fs::read_dir(segments)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|extension| extension == "seg"))
        .unwrap();
    let whole = fs::read(&path).unwrap();
    let sql = "SELECT file, content FROM files('c')";
    let expected = {
        let database = Database::open(folder.path().join("db.zdb")).unwrap();
        rows(&database, sql)
    };
    // Every 7th byte keeps this quick; the segment's own tests flip each one.
    for at in (0..whole.len()).step_by(7) {
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << (at % 8);
        fs::write(&path, &damaged).unwrap();
        let database = Database::options()
            .read_only(true)
            .threads(1)
            .open(folder.path().join("db.zdb"));
        let answer = database.and_then(|database| {
            let check: zipfdb::Result<Vec<_>> = database.query("CHECK c", ())?.collect();
            assert!(check.is_err(), "CHECK misses a flipped bit at byte {at}");
            database.query(sql, ())?.collect::<zipfdb::Result<Vec<_>>>()
        });
        if let Ok(answer) = answer {
            let answer: Vec<_> = answer.into_iter().map(|row| row.into_values()).collect();
            assert_eq!(answer, expected, "byte {at}");
        }
    }
}

#[test]
fn the_same_text_gives_the_same_bytes_with_any_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    for number in 0..40 {
        let text = format!(
            "file {number} says hello to file {} and the world\n",
            number / 2
        );
        write(
            folder.path(),
            &format!("in/{number}"),
            text.repeat(50 + number).as_bytes(),
        );
    }
    let mut seen: Option<Vec<Vec<u8>>> = None;
    for threads in [1, 2, 16] {
        let path = folder.path().join(format!("{threads}.zdb"));
        let database = Database::options().threads(threads).open(&path).unwrap();
        let settings = CorpusSettings {
            segment_size: 64 << 10,
            ..CorpusSettings::default()
        };
        let corpus = database.create_corpus("c", settings).unwrap();
        corpus
            .copy_from(folder.path().join("in"), &CopyOptions::default())
            .unwrap();
        assert!(corpus.check(&NoProgress).unwrap().len() > 1);
        let mut files: Vec<_> = fs::read_dir(path.join("segments"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "seg"))
            .collect();
        files.sort();
        let bytes: Vec<Vec<u8>> = files.iter().map(|path| fs::read(path).unwrap()).collect();
        match &seen {
            None => seen = Some(bytes),
            Some(first) => assert!(*first == bytes, "{threads} threads"),
        }
    }
}

#[test]
fn several_statements_run_in_order_and_stop_at_the_first_error() {
    let database = Database::in_memory().unwrap();
    let error = message(
        &database,
        "CREATE CORPUS a; CREATE CORPUS a; CREATE CORPUS b",
    );
    assert!(error.contains('a'), "{error}");
    assert_eq!(database.corpora(), ["a"]);
    assert!(database.query("SELECT 1; SELECT 2", ()).is_err());
    database
        .execute_batch("CREATE CORPUS IF NOT EXISTS a; DROP CORPUS IF EXISTS zz")
        .unwrap();
}

/// All files of a corpus with their texts.
fn contents(database: &Database, corpus: &str) -> Vec<(String, Vec<u8>)> {
    let snapshot = database.corpus(corpus).unwrap().snapshot().unwrap();
    let files = snapshot.files().iter();
    files
        .map(|file| {
            let text = snapshot.extract(&file.name, 0, u64::MAX).unwrap();
            (file.name.to_string(), text)
        })
        .collect()
}

#[test]
fn files_that_are_there_are_left_or_replaced_if_that_is_asked() {
    let (folder, database) = small();
    write(folder.path(), "more/a.txt", b"another");
    write(folder.path(), "more/new.txt", b"new");
    let copy = |how: &str| {
        let path = folder.path().join("more");
        let sql = format!(
            "COPY c FROM '{}' WITH (on_conflict = '{how}')",
            path.display()
        );
        let rows = database.query(&sql, ()).unwrap();
        rows.notices()
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    let left = "1 of the files were in the corpus already and stay as they are: a.txt";
    assert_eq!(copy("skip"), [left]);
    let text_of = |file: &str| {
        let sql = format!("SELECT content FROM files('c') WHERE file = '{file}'");
        rows(&database, &sql)[0][0].clone()
    };
    assert_eq!(
        text_of("a.txt"),
        Value::Blob(b"the cat and the dog".to_vec())
    );
    assert_eq!(text_of("new.txt"), Value::Blob(b"new".to_vec()));
    assert_eq!(copy("replace"), [""; 0]);
    assert_eq!(text_of("a.txt"), Value::Blob(b"another".to_vec()));
    assert_eq!(contents(&database, "c").len(), 4);
}

/// Replaces files again and again, in corpora of several segments and with edits that are not merged, and compares with a map.
#[test]
fn replaced_files_are_those_of_a_map() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db.zdb");
    let mut database = Database::open(&path).unwrap();
    let settings = CorpusSettings {
        segment_size: 64 << 10,
        ..CorpusSettings::default()
    };
    database.create_corpus("c", settings).unwrap();
    let mut expected = std::collections::BTreeMap::new();
    let mut random = 1_u64;
    let mut draw = move |below: u64| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (random >> 33) % below
    };
    for round in 0..12 {
        let import = folder.path().join(format!("import{round}"));
        for _ in 0..6 {
            let name = format!("d{}/f{}", draw(3), draw(6));
            let length = [0, 30, 3_000, 90_000][draw(4) as usize];
            let text: String = (0..length / 6)
                .map(|_| format!("w{:04} ", draw(900)))
                .collect();
            write(&import, &name, text.as_bytes());
            expected.insert(name, text.into_bytes());
        }
        let corpus = database.corpus("c").unwrap();
        let options = CopyOptions {
            on_conflict: OnConflict::Replace,
            ..CopyOptions::default()
        };
        corpus.copy_from(&import, &options).unwrap();
        let found = contents(&database, "c");
        assert!(
            found.iter().map(|(name, text)| (name, text)).eq(&expected),
            "{round}"
        );
        // Edits for the next round, one of them of a file that only the log has.
        let edited = expected
            .keys()
            .nth(draw(expected.len() as u64) as usize)
            .cloned()
            .unwrap();
        corpus.append_many(&[(&edited, " more")]).unwrap();
        expected
            .get_mut(&edited)
            .unwrap()
            .extend_from_slice(b" more");
        let made = format!("d0/f{}", draw(6));
        corpus.append_many(&[(&made, "made ")]).unwrap();
        expected
            .entry(made)
            .or_default()
            .extend_from_slice(b"made ");
        let deleted = expected
            .keys()
            .nth(draw(expected.len() as u64) as usize)
            .cloned()
            .unwrap();
        corpus.delete_many(&[&deleted]).unwrap();
        expected.remove(&deleted);
        if round % 3 == 2 {
            drop((corpus, database));
            database = Database::open(&path).unwrap();
        }
        let found = contents(&database, "c");
        assert!(
            found.iter().map(|(name, text)| (name, text)).eq(&expected),
            "{round}"
        );
    }
    let words = rows(&database, "SELECT COUNT(*) FROM c WHERE word = 'more'");
    let more = |text: &Vec<u8>| String::from_utf8_lossy(text).matches("more").count() as i64;
    assert_eq!(words, [[Value::Integer(expected.values().map(more).sum())]]);
    assert!(
        database
            .query("CHECK c", ())
            .unwrap()
            .all(|row| row.is_ok())
    );
}

#[cfg(unix)]
#[test]
fn a_file_whose_replacement_cannot_be_read_stays() {
    let (folder, database) = small();
    write(folder.path(), "more/a.txt", b"not utf-8: \xff");
    write(folder.path(), "more/deep/b.txt", b"utf-8");
    write(folder.path(), "more/new.txt", b"new");
    let copy = |on_error| {
        let options = CopyOptions {
            on_error,
            on_conflict: OnConflict::Replace,
            encoding: TextEncoding::named("utf-8").unwrap(),
            ..CopyOptions::default()
        };
        (database.corpus("c").unwrap()).copy_from(folder.path().join("more"), &options)
    };
    let before = contents(&database, "c");
    let error = copy(OnError::Stop).unwrap_err().to_string();
    assert!(error.contains("a.txt: not UTF-8 at byte 11"), "{error}");
    assert_eq!(contents(&database, "c"), before);
    let report = copy(OnError::Skip).unwrap();
    assert_eq!(report.unreadable.len(), 1);
    let expected = [
        ("a.txt", &b"the cat and the dog"[..]),
        ("deep/b.txt", b"utf-8"),
        ("empty", b""),
        ("new.txt", b"new"),
    ];
    let expected = expected.map(|(name, text)| (name.to_owned(), text.to_vec()));
    assert_eq!(contents(&database, "c"), expected);
    // Nothing is left that could be replaced.
    fs::remove_file(folder.path().join("more/deep/b.txt")).unwrap();
    fs::remove_file(folder.path().join("more/new.txt")).unwrap();
    assert_eq!(copy(OnError::Skip).unwrap().unreadable.len(), 1);
    assert_eq!(contents(&database, "c"), expected);
}

#[test]
fn files_of_other_encodings_are_reported_and_decoded_if_that_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let utf16: Vec<u8> = "\u{feff}na\u{ef}ve words"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    write(folder.path(), "in/latin.txt", b"caf\xe9 words");
    write(folder.path(), "in/utf16.txt", &utf16);
    write(folder.path(), "in/utf8.txt", "na\u{ef}ve words".as_bytes());
    let database = Database::in_memory().unwrap();
    let copy = |corpus: &str, with: &str| {
        database
            .execute_batch(&format!("CREATE CORPUS {corpus}"))
            .unwrap();
        let path = folder.path().join("in");
        let rows = database.query(
            &format!("COPY {corpus} FROM '{}' {with}", path.display()),
            (),
        )?;
        let notices = rows.notices().iter().map(ToString::to_string);
        Ok::<Vec<String>, zipfdb::Error>(notices.collect())
    };
    let notices = copy("plain", "").unwrap();
    assert_eq!(notices.len(), 2, "{notices:?}");
    assert!(
        notices[0].contains("UTF-16") && notices[0].contains("utf16.txt"),
        "{notices:?}"
    );
    assert!(
        notices[0].contains("hint: COPY ... WITH (encoding = 'auto')"),
        "{notices:?}"
    );
    assert!(
        notices[1].contains("latin.txt") && notices[1].contains("latin-1"),
        "{notices:?}"
    );
    assert_eq!(contents(&database, "plain")[1].1, utf16);

    let notices = copy("auto", "WITH (encoding = 'auto')").unwrap();
    assert_eq!(notices.len(), 1, "{notices:?}");
    let sql = "SELECT COUNT(*) FROM auto WHERE word = 'na' || char(239) || 've'";
    assert_eq!(rows(&database, sql), [[Value::Integer(2)]]);
    assert_eq!(contents(&database, "auto")[0].1, b"caf\xe9 words");

    let error = copy("strict", "WITH (encoding = 'utf-8')")
        .unwrap_err()
        .to_string();
    assert!(error.contains("latin.txt: not UTF-8 at byte 3"), "{error}");
    fs::remove_file(folder.path().join("in/utf16.txt")).unwrap();
    fs::remove_file(folder.path().join("in/utf8.txt")).unwrap();
    assert_eq!(
        copy("latin", "WITH (encoding = 'latin-1')").unwrap(),
        [""; 0]
    );
    let sql = "SELECT COUNT(*) FROM latin WHERE word = 'caf' || char(233)";
    assert_eq!(rows(&database, sql), [[Value::Integer(1)]]);
}

#[test]
fn texts_of_utf32_are_reported_and_decoded() {
    let folder = tempfile::tempdir().unwrap();
    let text = "na\u{ef}ve \u{1f600} words";
    let little = |text: &str| -> Vec<u8> {
        text.chars()
            .flat_map(|c| u32::from(c).to_le_bytes())
            .collect()
    };
    write(
        folder.path(),
        "in/marked.txt",
        &little(&format!("\u{feff}{text}")),
    );
    write(folder.path(), "in/plain.txt", &little(text));
    let database = Database::in_memory().unwrap();
    let copy = |corpus: &str, with: &str| -> Vec<String> {
        let create = format!("CREATE CORPUS {corpus}");
        database.execute_batch(&create).unwrap();
        let path = folder.path().join("in");
        let sql = format!("COPY {corpus} FROM '{}' {with}", path.display());
        let rows = database.query(&sql, ()).unwrap();
        rows.notices().iter().map(ToString::to_string).collect()
    };
    let notices = copy("plain", "");
    let [marked, plain] = &notices[..] else {
        panic!("{notices:?}");
    };
    assert!(
        marked.contains("byte order mark of UTF-32") && marked.contains("marked.txt"),
        "{marked}"
    );
    assert!(
        plain.contains("look like UTF-32") && plain.contains("plain.txt"),
        "{plain}"
    );
    for (number, encoding) in ["utf-32", "UTF-32LE"].into_iter().enumerate() {
        let corpus = format!("c{number}");
        let with = format!("WITH (encoding = '{encoding}')");
        assert_eq!(copy(&corpus, &with), [""; 0]);
        for (_, content) in contents(&database, &corpus) {
            assert_eq!(content, text.as_bytes(), "{encoding}");
        }
    }
    assert_eq!(copy("auto", "WITH (encoding = 'auto')").len(), 1);
    assert_eq!(contents(&database, "auto")[0].1, text.as_bytes());
}

#[test]
fn files_that_are_no_text_are_reported_by_what_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let mut tar = vec![b' '; 1024];
    tar[257..263].copy_from_slice(b"ustar\0");
    for (name, content) in [
        ("in/1.gz", &b"\x1f\x8b\x08\0words"[..]),
        ("in/2.gz", b"\x1f\x8b\x08\0more"),
        ("in/a.tar", &tar),
        ("in/b.pdf", b"%PDF-1.7 words"),
        ("in/c.png", b"\x89PNG\r\n\x1a\n"),
        ("in/d.txt", b"words"),
    ] {
        write(folder.path(), name, content);
    }
    // A large one is read in parts.
    let large = [&b"\xfd7zXZ\0"[..], &b"words ".repeat(1 << 20)].concat();
    write(folder.path(), "in/e.xz", &large);
    let database = Database::in_memory().unwrap();
    database.execute_batch("CREATE CORPUS c").unwrap();
    let path = folder.path().join("in");
    let sql = format!("COPY c FROM '{}'", path.display());
    let rows = database.query(&sql, ()).unwrap();
    let notices = rows.notices().iter().map(ToString::to_string);
    let top = format!("{}/", path.display());
    let notices: Vec<String> = notices.map(|notice| notice.replace(&top, "")).collect();
    assert_eq!(
        notices,
        [
            "2 of the files look like gzip and were copied byte for byte: 1.gz, 2.gz; hint: COPY ... WITH (format = 'auto') unpacks them",
            "1 of the files look like xz and were copied byte for byte: e.xz; hint: COPY ... WITH (format = 'auto') unpacks them",
            "1 of the files look like tar and were copied byte for byte: a.tar; \
             hint: COPY ... WITH (format = 'auto') unpacks them",
            "1 of the files look like PDF and were copied byte for byte: b.pdf; \
             hint: extract their text first, as `pdftotext` does of PDF",
            "1 of the files look like PNG and were copied byte for byte: c.png",
        ]
    );
    assert_eq!(contents(&database, "c")[6].1, large);
}

#[test]
fn a_file_that_grows_while_it_is_copied_is_copied_as_far_as_it_went() {
    /// Appends to the file when its text has been cut into words, before it is known to be the same.
    struct Appending(std::path::PathBuf);
    impl zipfdb::ingest::Progress for Appending {
        fn begin(&self, stage: &str, _total: u64) {
            if stage == "tokenize" {
                let mut file = fs::File::options().append(true).open(&self.0).unwrap();
                std::io::Write::write_all(&mut file, b"and one more").unwrap();
            }
        }
        fn advance(&self, _amount: u64) {}
        fn end(&self) {}
    }
    let folder = tempfile::tempdir().unwrap();
    let text = b"some words ".repeat(1 << 20);
    write(folder.path(), "a.log", &text);
    let path = folder.path().join("a.log");
    let database = Database::in_memory().unwrap();
    let corpus = database
        .create_corpus("c", CorpusSettings::default())
        .unwrap();
    let appending = Appending(path.clone());
    let options = CopyOptions {
        progress: &appending,
        ..CopyOptions::default()
    };
    let report = corpus.copy_from(&path, &options).unwrap();
    assert_eq!(
        report
            .notices
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>(),
        [format!(
            "1 of the files grew while they were read and were copied up to where they ended at first: {}",
            path.display()
        )]
    );
    assert!(contents(&database, "c")[0].1 == text);
}

#[cfg(target_os = "linux")]
#[test]
fn names_that_are_not_utf8_come_back_as_they_were() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let folder = tempfile::tempdir().unwrap();
    let names: [&[u8]; 4] = [b"caf\xe9.txt", b"plain", b"\\xe9", b"\\x5cxe9"];
    for directory in [&b"d\xff"[..], b"d"] {
        let directory = folder.path().join("in").join(OsStr::from_bytes(directory));
        fs::create_dir_all(&directory).unwrap();
        for name in names {
            fs::write(directory.join(OsStr::from_bytes(name)), name).unwrap();
        }
    }
    let database = Database::in_memory().unwrap();
    let corpus = database
        .create_corpus("c", CorpusSettings::default())
        .unwrap();
    corpus
        .copy_from(folder.path().join("in"), &CopyOptions::default())
        .unwrap();
    let sql = "SELECT content FROM files('c') WHERE file = 'd\\xff/caf\\xe9.txt'";
    assert_eq!(
        rows(&database, sql),
        [[Value::Blob(b"caf\xe9.txt".to_vec())]]
    );
    let out = folder.path().join("out");
    corpus.copy_to(&out, &NoProgress).unwrap();
    for directory in [&b"d\xff"[..], b"d"] {
        let directory = out.join(OsStr::from_bytes(directory));
        for name in names {
            let text = fs::read(directory.join(OsStr::from_bytes(name))).unwrap();
            assert_eq!(text, name);
        }
        assert_eq!(fs::read_dir(&directory).unwrap().count(), names.len());
    }
}

#[test]
fn views_last_but_those_of_a_session_and_reopen_read_only() {
    let (folder, database) = small();
    database
        .execute_batch("CREATE VIEW counts AS SELECT word, COUNT(*) AS n FROM c GROUP BY word")
        .unwrap();
    database
        .execute_batch("CREATE TEMP VIEW often AS SELECT word FROM counts WHERE n > 2")
        .unwrap();
    let often = "SELECT word FROM often";
    assert_eq!(rows(&database, often), [[text("the")]]);
    let other = database.session();
    assert!(message(&other, often).contains("no such corpus \"often\""));
    let counts = "SELECT n FROM counts WHERE word = 'the'";
    assert_eq!(rows(&other, counts), [[Value::Integer(3)]]);
    database.execute_batch("BEGIN").unwrap();
    let refused = message(&database, "CREATE VIEW one AS SELECT 1");
    assert!(refused.contains("transaction"), "{refused}");
    database.execute_batch("ROLLBACK").unwrap();
    drop((database, other));

    let path = folder.path().join("db.zdb");
    let reader = Database::options().read_only(true).open(&path).unwrap();
    assert_eq!(rows(&reader, counts), [[Value::Integer(3)]]);
    assert!(message(&reader, often).contains("no such corpus"));
    assert!(message(&reader, "DROP VIEW counts").contains("read"));
    reader
        .execute_batch("CREATE TEMP VIEW often AS SELECT n FROM counts")
        .unwrap();
    drop(reader);
    let database = Database::open(&path).unwrap();
    database.execute_batch("DROP VIEW counts").unwrap();
    assert!(message(&database, counts).contains("no such corpus \"counts\""));
}

#[test]
fn partitions_of_a_corpus_add_up_to_it() {
    let folder = tempfile::tempdir().unwrap();
    // Files of 20 KB, one of 300 KB, which several segments share, and as many again.
    for file in 0..14 {
        let words: u64 = if file == 7 { 60_000 } else { 4_000 };
        let content: Vec<String> = (0..words)
            .map(|word| format!("w{}", word * word % (37 + file)))
            .collect();
        write(
            folder.path(),
            &format!("in/{file}.txt"),
            content.join(" ").as_bytes(),
        );
    }
    let database = Database::in_memory().unwrap();
    let settings = CorpusSettings {
        segment_size: 64 << 10,
        ..CorpusSettings::default()
    };
    let corpus = database.create_corpus("c", settings).unwrap();
    corpus
        .copy_from(folder.path().join("in"), &CopyOptions::default())
        .unwrap();
    let partitions = corpus.snapshot().unwrap().partitions().unwrap();
    let is_cut = |segments: &[u64]| segments.len() > 2;
    assert!(partitions.len() > 3);
    assert!(
        partitions
            .iter()
            .any(|partition| is_cut(&partition.segments))
    );
    let parts: Vec<Reader> = (partitions.iter())
        .map(|partition| database.partition("C", &partition.segments).unwrap())
        .collect();
    let values =
        |rows: Rows| -> Vec<Vec<Value>> { rows.map(|row| row.unwrap().into_values()).collect() };
    for sql in [
        "SELECT file, word, position, offset FROM c",
        "SELECT file, ngram, COUNT(*) FROM ngrams('c', 3) GROUP BY file, ngram",
        "SELECT file, word, count FROM term_vectors('c', 3)",
        "SELECT file, content, words FROM files('c')",
    ] {
        let sorted = |mut rows: Vec<Vec<Value>>| {
            rows.sort_by_key(|row| format!("{row:?}"));
            rows
        };
        let of_part = |part: &Reader| values(part.query(sql, ()).unwrap());
        let found = parts.iter().flat_map(of_part).collect();
        assert_eq!(sorted(found), sorted(rows(&database, sql)), "{sql}");
    }
    let sql = "SELECT COUNT(*) FROM c WHERE word = 'w0'";
    let count = |part: &Reader| part.query_row(sql, (), |row| row.get::<u64>(0)).unwrap();
    let all = database
        .query_row(sql, (), |row| row.get::<u64>(0))
        .unwrap();
    assert_eq!(parts.iter().map(count).sum::<u64>(), all);
    // A snapshot of a part is of that part.
    let snapshot = parts[0].snapshot("C").unwrap();
    assert_eq!(snapshot.count("w0").unwrap(), count(&parts[0]));

    let cut = partitions
        .iter()
        .find(|partition| is_cut(&partition.segments));
    let refused = |segments: &[u64]| database.partition("c", segments).unwrap_err().to_string();
    assert!(refused(&cut.unwrap().segments[1..]).contains("share files"));
    assert!(refused(&[999]).contains("no segment 999"));
    assert!(parts[0].query("DELETE FROM c", ()).is_err());
    corpus.append_many(&[("new.txt", "w0")]).unwrap();
    assert!(refused(&partitions[0].segments).contains("RECOMPRESS"));
    assert_eq!(corpus.snapshot().unwrap().partitions(), None);
}
