//! Metadata of files: random schemas, values, edits, merges and reopened databases against plain maps; and what crashes leave.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use zipfdb::ingest::{CopyOptions, NoProgress, OnConflict};
use zipfdb::{Database, Record, Value};
use zipfdb_storage::Backend;
use zipfdb_test_support::faulty::{Faulty, Mode};
use zipfdb_test_support::harness::{Random, contents, scratch};
use zipfdb_test_support::power_cut::{PowerCut, PowerCutBackend};

/// A file: its words, and its values by column.
#[derive(Clone, Debug, Default, PartialEq)]
struct Post {
    words: Vec<&'static str>,
    values: BTreeMap<String, Value>,
}

/// The corpus as plain data.
#[derive(Clone, Debug, Default, PartialEq)]
struct Posts {
    /// Names and types.
    columns: Vec<(String, &'static str)>,
    files: BTreeMap<String, Post>,
}

const WORDS: [&str; 6] = ["the", "war", "and", "peace", "ends", "War"];
const TYPES: [&str; 6] = ["TEXT", "INTEGER", "REAL", "BOOLEAN", "DATE", "TIMESTAMP"];

fn value_of(kind: &str, random: &mut Random) -> Value {
    if random.below(4) == 0 {
        return Value::Null;
    }
    let number = random.below(5) as i64;
    match kind {
        "TEXT" => Value::Text(["", "en", "fr", "a'b", "\u{e4}"][number as usize].to_owned()),
        "INTEGER" => Value::Integer([i64::MIN, -1, 0, 7, i64::MAX][number as usize]),
        "REAL" => Value::Real(number as f64 / 2.0 - 1.0),
        "BOOLEAN" => Value::Integer(number % 2),
        "DATE" => Value::Text(format!("20{:02}-0{}-1{number}", 10 + number, number + 1)),
        _ => Value::Text(format!("199{number}-01-01 0{number}:00:00")),
    }
}

/// The value of a literal, and the literal.
fn literal(kind: &str, random: &mut Random) -> (Value, String) {
    let value = value_of(kind, random);
    let written = match (kind, &value) {
        ("DATE", Value::Text(text)) => format!("DATE '{text}'"),
        ("TIMESTAMP", Value::Text(text)) => format!("TIMESTAMP '{}Z'", text.replace(' ', "T")),
        _ => value.to_string(),
    };
    (value, written)
}

impl Posts {
    fn column(&self, random: &mut Random) -> Option<(String, &'static str)> {
        let count = self.columns.len();
        (count > 0).then(|| self.columns[random.below(count)].clone())
    }

    fn value(&self, file: &str, column: &str) -> Value {
        let values = &self.files[file].values;
        values.get(column).cloned().unwrap_or(Value::Null)
    }

    /// A condition on metadata in SQL, and the files that pass it.
    fn condition(&self, random: &mut Random) -> (String, BTreeSet<String>) {
        let Some((column, kind)) = self.column(random) else {
            return ("TRUE".to_owned(), self.files.keys().cloned().collect());
        };
        let (value, written) = literal(kind, random);
        let least = value.clone();
        type Test = Box<dyn Fn(&Value) -> bool>;
        let (sql, passes): (String, Test) = match random.below(4) {
            0 => (
                format!("{column} IS {written}"),
                Box::new(move |found| found.compare(&value).is_eq()),
            ),
            1 => (
                format!("{column} >= {written}"),
                Box::new(move |found| {
                    *found != Value::Null && least != Value::Null && found.compare(&least).is_ge()
                }),
            ),
            2 => (
                format!("{column} IS NOT NULL"),
                Box::new(|found| *found != Value::Null),
            ),
            _ => (
                format!("coalesce({column}, {written}) IS {written}"),
                Box::new(move |found| *found == Value::Null || found.compare(&value).is_eq()),
            ),
        };
        let passing = self
            .files
            .keys()
            .filter(|file| passes(&self.value(file, &column)));
        (sql, passing.cloned().collect())
    }

    /// As `condition`, of one or of two, perhaps with names.
    fn conditions(&self, random: &mut Random) -> (String, BTreeSet<String>) {
        let (first, mut passing) = self.condition(random);
        match random.below(4) {
            0 => {
                let (second, others) = self.condition(random);
                passing.extend(others);
                (format!("({first} OR {second})"), passing)
            }
            1 => {
                let name = format!("f{}", random.below(9));
                let named = self.files.contains_key(&name).then(|| name.clone());
                passing.extend(named);
                (format!("({first} OR file = '{name}')"), passing)
            }
            2 => {
                let (second, others) = self.condition(random);
                passing.retain(|file| others.contains(file) && file.as_str() > "f2");
                (format!("{first} AND {second} AND file > 'f2'"), passing)
            }
            _ => (first, passing),
        }
    }

    fn new_text(random: &mut Random) -> Vec<&'static str> {
        (0..random.below(12))
            .map(|_| WORDS[random.below(WORDS.len())])
            .collect()
    }

    /// Makes a random change here and in a database.
    fn change(&mut self, database: &Database, folder: &Path, random: &mut Random) {
        let name = format!("f{}", random.below(9));
        match random.below(12) {
            0 if self.columns.len() < 5 => {
                let column = format!("c{}", random.below(7));
                let kind = TYPES[random.below(TYPES.len())];
                let sql = format!("ALTER CORPUS posts ADD COLUMN {column} {kind}");
                if self.columns.iter().any(|(known, _)| *known == column) {
                    database.execute_batch(&sql).unwrap_err();
                } else {
                    database.execute_batch(&sql).unwrap();
                    self.columns.push((column, kind));
                }
            }
            1 if random.below(3) == 0 => {
                if let Some((column, _)) = self.column(random) {
                    let sql = format!("ALTER CORPUS posts DROP COLUMN {column}");
                    database.execute_batch(&sql).unwrap();
                    self.columns.retain(|(known, _)| *known != column);
                    for post in self.files.values_mut() {
                        post.values.remove(&column);
                    }
                }
            }
            2 | 3 => {
                let Some((column, kind)) = self.column(random) else {
                    return;
                };
                let (value, written) = literal(kind, random);
                let (condition, passing) = self.conditions(random);
                let sql = format!("UPDATE posts SET {column} = {written} WHERE {condition}");
                let changed = database.execute(&sql, ()).unwrap();
                assert_eq!(changed, passing.len() as u64, "{sql}");
                for file in passing {
                    let post = self.files.get_mut(&file).unwrap();
                    post.values.insert(column.clone(), value.clone());
                }
            }
            4 => {
                let (condition, passing) = self.condition(random);
                if passing.len() > 3 {
                    return;
                }
                let sql = format!("DELETE FROM posts WHERE {condition}");
                assert_eq!(database.execute(&sql, ()).unwrap(), passing.len() as u64);
                self.files.retain(|file, _| !passing.contains(file));
            }
            5 => {
                database.execute_batch("RECOMPRESS posts").unwrap();
            }
            6 => {
                let words = Posts::new_text(random);
                let sql = "REPLACE INTO posts (file, content) VALUES (?, ?)";
                database.execute(sql, (&name, words.join(" "))).unwrap();
                self.files.entry(name).or_default().words = words;
            }
            7 => {
                let words = Posts::new_text(random);
                let path = folder.join("in");
                std::fs::create_dir_all(&path).unwrap();
                std::fs::write(path.join(&name), words.join(" ")).unwrap();
                let options = CopyOptions {
                    on_conflict: OnConflict::Replace,
                    ..CopyOptions::default()
                };
                let corpus = database.corpus("posts").unwrap();
                corpus.copy_from(path.join(&name), &options).unwrap();
                self.files.entry(name).or_default().words = words;
            }
            8 => {
                // Without a name; numbers are no names of other files here.
                let words = Posts::new_text(random);
                let before: BTreeSet<String> = self.files.keys().cloned().collect();
                let record = Record::new(words.join(" "));
                let mut post = Post {
                    words,
                    values: BTreeMap::new(),
                };
                let record = match self.column(random) {
                    Some((column, kind)) => {
                        let value = value_of(kind, random);
                        post.values.insert(column.clone(), value.clone());
                        record.with(column, value)
                    }
                    None => record,
                };
                let corpus = database.corpus("posts").unwrap();
                corpus.append_records(&[record]).unwrap();
                let files = corpus.files().unwrap();
                let mut new = files.iter().filter(|file| !before.contains(&file.name));
                let new = new.next().unwrap().name.clone();
                assert!(new.parse::<u32>().is_ok(), "{new}");
                self.files.insert(new, post);
            }
            _ => {
                let words = Posts::new_text(random);
                let mut columns = String::new();
                let mut values = String::new();
                let mut set = BTreeMap::new();
                for (column, kind) in &self.columns {
                    if random.below(2) == 0 {
                        let (value, written) = literal(kind, random);
                        columns.push_str(&format!(", {column}"));
                        values.push_str(&format!(", {written}"));
                        set.insert(column.clone(), value);
                    }
                }
                let known = self.files.entry(name.clone()).or_default();
                // A word is not glued to the one before it.
                let text = if known.words.is_empty() {
                    words.join(" ")
                } else {
                    format!(" {}", words.join(" "))
                };
                let sql = format!(
                    "INSERT INTO posts (file, content{columns}) VALUES ('{name}', '{text}'{values})"
                );
                database.execute(&sql, ()).unwrap();
                known.words.extend(words);
                known.values.extend(set);
            }
        }
    }

    /// Compares the answers of a database with those of the plain data.
    fn check(&self, database: &Database, random: &mut Random) {
        let names: String = self
            .columns
            .iter()
            .map(|(name, _)| format!(", {name}"))
            .collect();
        let all = format!("SELECT file, words{names} FROM files('posts') ORDER BY file");
        let expected = self.files.iter().map(|(file, post)| {
            let mut row = vec![Value::from(file), Value::Integer(post.words.len() as i64)];
            row.extend(
                self.columns
                    .iter()
                    .map(|(column, _)| self.value(file, column)),
            );
            row
        });
        assert_eq!(rows(database, &all), expected.collect::<Vec<_>>(), "{all}");
        for _ in 0..3 {
            self.check_condition(database, random);
        }
    }

    fn check_condition(&self, database: &Database, random: &mut Random) {
        let (condition, passing) = self.conditions(random);
        // Every relation answers as if the files were named.
        let named: Vec<String> = passing.iter().map(|file| format!("'{file}'")).collect();
        let named = format!("file IN ({})", named.join(", "));
        for relation in [
            "posts",
            "ngrams('posts', 2)",
            "term_vectors('posts', 2)",
            "files('posts')",
            "files_with('posts', 'war')",
            "grep('posts', 'p?e')",
            "lines('posts')",
            "hits('posts', '[lc=\"war\"]')",
            "concordance('posts', '\"war\"')",
            "concordance('posts', '\"war\"', sort => 'R1', sample => 5, seed => 1)",
            "search('posts', 'war OR peace')",
        ] {
            let query = |condition: &str| {
                rows(
                    database,
                    &format!(
                        "SELECT file, COUNT(*) FROM {relation} WHERE {condition} GROUP BY 1 ORDER BY 1"
                    ),
                )
            };
            assert_eq!(query(&condition), query(&named), "{relation}: {condition}");
        }
        let query = |condition: &str| {
            rows(
                database,
                &format!(
                    "SELECT word, file, position FROM posts WHERE {condition} AND word > 'a' ORDER BY 1, 2, 3 LIMIT 5"
                ),
            )
        };
        assert_eq!(query(&condition), query(&named), "{condition}");

        let Some((column, _)) = self.column(random) else {
            return;
        };
        let mut words: Vec<(Value, &str, i64)> = Vec::new();
        for file in &passing {
            for word in &self.files[file].words {
                let value = self.value(file, &column);
                let same = words
                    .iter_mut()
                    .find(|(known, text, _)| *known == value && text == word);
                match same {
                    Some((.., count)) => *count += 1,
                    None => words.push((value, word, 1)),
                }
            }
        }
        words.sort_by(|(a, word, _), (b, other, _)| a.compare(b).then(word.cmp(other)));
        let sql = format!(
            "SELECT {column}, word, COUNT(*) FROM posts WHERE {condition} GROUP BY 1, 2 ORDER BY 1, 2"
        );
        let expected = words.iter().map(|(value, word, count)| {
            vec![value.clone(), Value::from(*word), Value::Integer(*count)]
        });
        assert_eq!(rows(database, &sql), expected.collect::<Vec<_>>(), "{sql}");

        let mut totals: Vec<(Value, i64)> = Vec::new();
        for (value, word, count) in words {
            if word == "war" {
                match totals.iter_mut().find(|(known, _)| *known == value) {
                    Some((_, total)) => *total += count,
                    None => totals.push((value, count)),
                }
            }
        }
        // By count, then by value.
        totals.sort_by(|(a, count), (b, other)| other.cmp(count).then(a.compare(b)));
        totals.truncate(2);
        let sql = format!(
            "SELECT {column}, COUNT(*) FROM posts WHERE word = 'war' AND {condition} GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 2"
        );
        let expected = totals
            .into_iter()
            .map(|(value, count)| vec![value, Value::Integer(count)]);
        assert_eq!(rows(database, &sql), expected.collect::<Vec<_>>(), "{sql}");
    }
}

fn rows(database: &Database, sql: &str) -> Vec<Vec<Value>> {
    let rows = database
        .query(sql, ())
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
    rows.map(|row| {
        row.unwrap_or_else(|error| panic!("{sql}: {error}"))
            .into_values()
    })
    .collect()
}

/// `ZIPFDB_MODEL_ROUNDS` runs more seeds, `ZIPFDB_SEED` other ones.
#[test]
fn any_changes_of_metadata_leave_the_answers_of_plain_rows() {
    let rounds = std::env::var("ZIPFDB_MODEL_ROUNDS");
    let rounds: u64 = rounds.map_or(6, |rounds| rounds.parse().unwrap());
    let first = Random::seed(1);
    for seed in first..first + rounds {
        let mut random = Random::new(seed);
        let folder = scratch();
        let path = folder.path().join("d.zdb");
        let open = || Database::options().threads(2).open(&path).unwrap();
        let mut database = open();
        database
            .execute_batch("CREATE CORPUS posts (c0 TEXT, c1 DATE)")
            .unwrap();
        let mut posts = Posts {
            columns: vec![("c0".to_owned(), "TEXT"), ("c1".to_owned(), "DATE")],
            files: BTreeMap::new(),
        };
        println!("seed {seed}");
        for _ in 0..60 {
            posts.change(&database, folder.path(), &mut random);
            match random.below(6) {
                0 => {
                    drop(database);
                    database = open();
                    posts.check(&database, &mut random);
                }
                1 | 2 => posts.check(&database, &mut random),
                _ => {}
            }
        }
        let checks = database
            .corpus("posts")
            .unwrap()
            .check(&NoProgress)
            .unwrap();
        assert!(
            checks.iter().all(|check| check.problem.is_none()),
            "{checks:?}"
        );
        posts.check(&database, &mut random);
    }
}

/// Statements each of which changes all rows, or none.
const STEPS: [&str; 9] = [
    "CREATE CORPUS posts (author TEXT, likes INTEGER)",
    "INSERT INTO posts (file, content, author, likes) VALUES ('a', 'the war', 'Ann', 1), ('b', 'peace', 'Bob', 2)",
    "UPDATE posts SET likes = likes + 1, author = upper(author)",
    "ALTER CORPUS posts ADD COLUMN day DATE",
    "UPDATE posts SET day = '2020-01-31' WHERE likes > 2",
    "RECOMPRESS posts",
    "BEGIN; UPDATE posts SET likes = NULL; DELETE FROM posts WHERE author = 'ANN'; COMMIT",
    "ALTER CORPUS posts DROP COLUMN author",
    "RECOMPRESS posts",
];

/// All that can be asked of the metadata.
fn state(database: &Database) -> String {
    let Ok(corpus) = database.corpus("posts") else {
        return String::new();
    };
    let columns = corpus.settings().unwrap().metadata;
    let rows = database
        .query("SELECT * FROM files('posts') ORDER BY file", ())
        .unwrap();
    let rows: Vec<String> = rows.map(|row| format!("{:?}", row.unwrap())).collect();
    format!("{columns:?} {rows:?}")
}

/// The states before and after each step.
fn states() -> Vec<String> {
    let database = Database::in_memory().unwrap();
    let mut states = vec![state(&database)];
    for step in STEPS {
        database.execute_batch(step).unwrap();
        states.push(state(&database));
    }
    states
}

#[test]
fn a_power_cut_leaves_metadata_before_or_after_each_statement() {
    let states = states();
    let mut syncs = 0;
    loop {
        let folder = scratch();
        let root = folder.path().join("root");
        std::fs::create_dir(&root).unwrap();
        let backend = PowerCutBackend(Arc::new(PowerCut::new(&root, syncs)));
        let options = Database::options().threads(1);
        let options = options.backend(Arc::new(backend.clone()) as Arc<dyn Backend>);
        let mut done = 0;
        if let Ok(database) = options.open(root.join("d.zdb")) {
            let performed = |step: &&str| database.execute_batch(step).is_ok();
            done = STEPS.into_iter().take_while(performed).count();
        }
        let mut disk = backend.0.disk.lock().unwrap();
        let finished = disk.last.is_none();
        disk.last.get_or_insert_with(|| contents(&root));
        for variant in 0..3 {
            let target = folder.path().join(format!("after{variant}"));
            let mut chance = (variant > 0).then(|| Random::new(u64::from(3 * syncs + variant)));
            disk.restore(disk.live[&root], &target, &mut chance);
            let database = Database::options()
                .threads(1)
                .open(target.join("d.zdb"))
                .unwrap();
            let found = state(&database);
            let possible = &states[done..states.len().min(done + 2)];
            assert!(
                possible.contains(&found),
                "{syncs} syncs, {done} steps: {found} is none of {possible:?}"
            );
        }
        if finished {
            assert_eq!(done, STEPS.len());
            assert!(syncs > 20, "{syncs} syncs are too few to believe");
            return;
        }
        syncs += 1;
    }
}

#[test]
fn a_call_that_fails_leaves_metadata_before_or_after_each_statement() {
    let states = states();
    let mut calls = 0;
    loop {
        let folder = scratch();
        let path = folder.path().join("d.zdb");
        let faults = Faulty::new(Mode::Done, calls);
        let options = Database::options().threads(1);
        let options = options.backend(Arc::new(faults.clone()) as Arc<dyn Backend>);
        let mut done = 0;
        if let Ok(database) = options.open(&path) {
            let performed = |step: &&str| database.execute_batch(step).is_ok();
            done = STEPS.into_iter().take_while(performed).count();
        }
        faults.left.store(i64::MAX, Ordering::Relaxed);
        let database = Database::options().threads(1).open(&path).unwrap();
        let found = state(&database);
        let possible = &states[done..states.len().min(done + 2)];
        assert!(
            possible.contains(&found),
            "call {calls}: {found} is none of {possible:?}"
        );
        if done == STEPS.len() {
            return;
        }
        calls += 1 + calls / 16;
    }
}

#[test]
fn a_repaired_database_has_the_metadata() {
    let folder = scratch();
    let [source, target] = ["d.zdb", "r.zdb"].map(|name| folder.path().join(name));
    let database = Database::options().threads(1).open(&source).unwrap();
    for step in &STEPS[..6] {
        database.execute_batch(step).unwrap();
    }
    database
        .execute_batch("UPDATE posts SET likes = 9 WHERE file = 'a'")
        .unwrap();
    let before = state(&database);
    drop(database);
    let interrupt = zipfdb::InterruptHandle::new();
    let report = zipfdb::repair::repair(&source, &target, &NoProgress, &interrupt).unwrap();
    assert_eq!(report.lost, Vec::<String>::new());
    let database = Database::options().threads(1).open(&target).unwrap();
    assert_eq!(state(&database), before);
}

#[test]
fn columns_of_answers_say_the_declared_types() {
    use zipfdb::ValueKind;
    let database = Database::in_memory().unwrap();
    let create = "CREATE CORPUS posts (author TEXT, likes INT, rating REAL, is_open BOOLEAN, day DATE, at TIMESTAMP)";
    database.execute_batch(create).unwrap();
    let posts = database.corpus("posts").unwrap();
    let record = Record::new("a text")
        .named("a")
        .with("day", "2020-01-31")
        .with("is_open", true);
    posts
        .append_records(&[record.with("likes", 3).with("rating", 2)])
        .unwrap();
    let sql = "SELECT author, likes, rating, is_open, day, at, max(day), year(day) FROM posts GROUP BY 1, 2, 3, 4, 5, 6";
    let rows = database.query(sql, ()).unwrap();
    let kinds: Vec<Option<ValueKind>> = rows.columns().iter().map(|column| column.kind()).collect();
    let expected = [
        ValueKind::Text,
        ValueKind::Integer,
        ValueKind::Real,
        ValueKind::Boolean,
        ValueKind::Date,
        ValueKind::Timestamp,
        ValueKind::Date,
        ValueKind::Integer,
    ];
    assert_eq!(kinds, expected.map(Some));
    let read = |row: &zipfdb::Row| {
        let likes: i64 = row.get("likes")?;
        let (rating, is_open): (f64, bool) = (row.get("rating")?, row.get("is_open")?);
        let (author, day): (Option<String>, String) = (row.get("author")?, row.get("day")?);
        Ok((author, likes, rating, is_open, day))
    };
    let row = database.query_row(sql, (), read).unwrap();
    assert_eq!(row, (None, 3, 2.0, true, "2020-01-31".to_owned()));

    for (record, expected) in [
        (
            Record::new("x").with("autor", "a"),
            "row 1: autor: there is no such column; hint: declared columns are author, likes, rating, is_open, day, at",
        ),
        (
            Record::new("x").with("day", "today"),
            "row 1: day: \"today\" is no date; hint: a date is written as `YYYY-MM-DD`",
        ),
        (
            Record::new("x").with("likes", "3"),
            "row 1: likes: TEXT stands where INTEGER is expected; hint: `CAST(x AS type)` converts values",
        ),
    ] {
        let error = posts.append_records(&[record]).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    assert!(
        posts
            .set_metadata("none", &[("likes", Value::Integer(1))])
            .is_err()
    );
    assert_eq!(posts.files().unwrap().len(), 1);
}
