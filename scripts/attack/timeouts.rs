//! How long statements of every kind outlive `statement_timeout`, on work that takes longer.
//!
//! A child opens a database of some text and runs one statement after the other, alone: what it takes to open or close the
//! database or to prepare a statement does not count. The invariant: a statement is done, or ends with the error of the
//! timeout, within `LATE`. Only a release build measures anything.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use zipfdb::{Database, Error, Value};

use crate::campaign::{Campaign, Outcome, Trial, ensure};
use crate::child::{Running, command, report_line};
use zipfdb_test_support::harness::Random;

const TIMEOUT: &str = "SET statement_timeout = '1s'";

/// One and a half times the timeout, and the most that a check of the clock may be late.
const LATE: Duration = Duration::from_millis(1600);

/// Time after which a child is ended.
const END: Duration = Duration::from_secs(1200);

/// Files of the text.
const FILES: usize = 64;

/// Different words; the n-th is about as frequent as 1/n.
const WORDS: f64 = 300_000.0;

/// Bytes of the large value, `?1`, which says this again and again.
const VALUE_SIZE: usize = 128 << 20;
const VALUE: &str = "abcdefg ";

/// What a trial runs, and what before and after it, without a timeout. `DIR` stands for the directory of the trials.
struct Statement {
    name: String,
    before: &'static str,
    sql: String,
    after: &'static str,
}

/// Statements of a row of the table.
struct Group {
    name: &'static str,
    /// Whether each runs in a database that was just opened.
    is_fresh: bool,
    /// Whether other threads keep all threads of the pool busy.
    is_busy: bool,
    statements: Vec<Statement>,
}

pub fn attack(campaign: &mut Campaign) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let prepared = OnceLock::new();
    let mebibytes = campaign.mebibytes;
    // Chains only print what the child has measured.
    let jobs = std::mem::replace(&mut campaign.jobs, 1);
    for group in groups() {
        let reported: OnceLock<HashMap<u64, String>> = OnceLock::new();
        let count = group.statements.len() as u64;
        campaign.run(group.name, count, |trial| {
            prepared.get_or_init(|| prepare(folder, mebibytes));
            let reported = reported.get_or_init(|| measure(folder, group.name));
            judge(&group, trial, reported)
        });
    }
    campaign.jobs = jobs;
}

/// Makes the text and a database of it.
fn prepare(folder: &Path, mebibytes: usize) {
    let (input, more) = (folder.join("input"), folder.join("more"));
    fs::create_dir(&input).unwrap();
    fs::create_dir(&more).unwrap();
    let mut random = Random::new(1);
    for number in 0..FILES {
        let mut text = String::new();
        while text.len() < (mebibytes << 20) / FILES {
            for _ in 0..12 {
                // Words that repeat little, so that there is much to decode and to count.
                let share = random.below(1 << 32) as f64 / f64::from(u32::MAX);
                text.push_str(&format!("w{} ", WORDS.powf(share) as u64));
            }
            text.push('\n');
        }
        let name = format!("part{number:02}");
        fs::write(input.join(&name), &text).unwrap();
        if number < FILES / 8 {
            fs::write(more.join(&name), &text).unwrap();
        }
    }
    let database = open(folder);
    let input = input.display();
    // Changes of `e` stay pending.
    database
        .execute_batch(&format!(
            "CREATE CORPUS c; COPY c FROM '{input}'; CREATE CORPUS e WITH (recompress_threshold = '1024GiB'); \
             CREATE CORPUS f WITH (recompress_threshold = '1024GiB')"
        ))
        .unwrap();
}

fn open(folder: &Path) -> Database {
    Database::options().open(folder.join("d.zdb")).unwrap()
}

/// What a child measured of the statements of a group, by their numbers.
fn measure(folder: &Path, group: &str) -> HashMap<u64, String> {
    let child = command(&["timeouts", group, folder.to_str().unwrap()]);
    let ended = Running::start(child).end_within(END);
    let number = |line: &str| -> Option<(u64, String)> {
        let (number, rest) = line.split_once(' ')?;
        Some((number.parse().ok()?, rest.to_owned()))
    };
    let mut reported: HashMap<u64, String> = ended.lines("statement").filter_map(number).collect();
    if let Err(problem) = ended.is_clean() {
        // The next one never ended.
        reported.insert(reported.len() as u64, problem);
    }
    reported
}

fn judge(group: &Group, trial: &Trial, reported: &HashMap<u64, String>) -> Outcome {
    let name = &group.statements[trial.number as usize].name;
    let reported = reported
        .get(&trial.number)
        .map_or("was not run", String::as_str);
    let (millis, how) = reported.split_once(' ').unwrap_or(("", reported));
    let Ok(millis) = millis.parse::<u64>() else {
        return Err(format!("{name}: {reported}"));
    };
    ensure(Duration::from_millis(millis) <= LATE, || {
        format!("{name}: too late, {millis} ms, {how}")
    })?;
    match how {
        "done" => trial.passed("done"),
        "timeout" => trial.passed("timeout"),
        other => return Err(format!("{name}: {other}")),
    }
    Ok(())
}

/// The child.
pub fn run(group: &str, folder: &Path) {
    let groups = groups();
    let group = groups.iter().find(|other| other.name == group).unwrap();
    let value = [Value::Text(VALUE.repeat(VALUE_SIZE / VALUE.len()))];
    let mut database = open(folder);
    for (number, statement) in group.statements.iter().enumerate() {
        if group.is_fresh {
            drop(database);
            database = open(folder);
        }
        let text = |sql: &str| sql.replace("DIR", folder.to_str().unwrap());
        database.execute_batch(&text(statement.before)).unwrap();
        let sql = text(&statement.sql);
        let parameters: &[Value] = if sql.contains("?1") { &value } else { &[] };
        database.execute_batch(TIMEOUT).unwrap();
        let is_over = AtomicBool::new(!group.is_busy);
        let (took, result) = std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| keep_busy(&database, &is_over));
            }
            if group.is_busy {
                std::thread::sleep(Duration::from_millis(300));
            }
            let start = Instant::now();
            let result = database
                .query(&sql, parameters)
                .and_then(|mut rows| rows.try_for_each(|row| row.map(drop)));
            let took = start.elapsed();
            is_over.store(true, Ordering::Relaxed);
            (took, result)
        });
        let how = match result {
            Ok(()) => "done".to_owned(),
            Err(Error::Timeout { .. }) => "timeout".to_owned(),
            Err(error) => error.to_string().replace('\n', " "),
        };
        let took = took.as_millis();
        report_line(&format!("statement {number} {took} {how}"));
        database.execute_batch("RESET statement_timeout").unwrap();
        // A transaction may be open.
        let _ = database.execute_batch("ROLLBACK");
        database.execute_batch(&text(statement.after)).unwrap();
    }
}

/// Work that takes all threads of the pool, again and again.
fn keep_busy(database: &Database, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        let rows = database.query(
            "SELECT ngram, COUNT(*) FROM ngrams('c', 5) GROUP BY ngram",
            (),
        );
        let next = rows.map(|mut rows| rows.next().map(drop));
        drop(next);
    }
}

fn groups() -> Vec<Group> {
    let plain = |name, sql: String| Statement {
        name,
        before: "",
        sql,
        after: "",
    };
    let values = VALUES.lines().map(|line| {
        let expression = line.trim();
        plain(expression.to_owned(), format!("SELECT {expression}"))
    });
    let contents = CONTENTS.lines().map(|line| {
        let condition = line.trim();
        let sql = format!("SELECT COUNT(*) FROM files('c') WHERE {condition}");
        plain(condition.to_owned(), sql)
    });
    let whole = |text: &'static str| -> Vec<Statement> {
        let lines = text.lines().map(str::trim);
        lines
            .map(|sql| plain(sql.to_owned(), sql.to_owned()))
            .collect()
    };
    let changes = CHANGES.iter().map(|&(before, sql, after)| Statement {
        name: format!("{before}; {sql}")
            .trim_start_matches("; ")
            .to_owned(),
        before,
        sql: sql.to_owned(),
        after,
    });
    let group = |name, statements| Group {
        name,
        is_fresh: false,
        is_busy: false,
        statements,
    };
    vec![
        group("values", values.collect()),
        group("contents", contents.collect()),
        group("queries", whole(QUERIES)),
        group("changes", changes.collect()),
        Group {
            is_fresh: true,
            ..group("first", whole(FIRST))
        },
        Group {
            is_busy: true,
            ..group("busy", whole(BUSY))
        },
    ]
}

/// Expressions of a large value.
const VALUES: &str = "\
    ?1 LIKE '%a%b%q%'
    ?1 NOT LIKE '%h_x%' ESCAPE '!'
    like('%x%', ?1)
    ?1 GLOB '*a*[x-z]q*'
    glob('*q*', ?1)
    ?1 REGEXP 'q[a-z]*q[0-9]*z'
    regexp('(a|b|c)*q', ?1)
    length(?1)
    octet_length(?1)
    instr(?1, 'gh')
    length(replace(?1, 'a', 'bcdef'))
    length(replace(replace(?1, 'abc', 'aabbcc'), 'c', 'dd'))
    length(lower(?1))
    length(upper(?1))
    length(trim(?1, 'abcdefg '))
    length(ltrim(?1, 'abcdefg '))
    length(rtrim(?1, 'abcdefg '))
    length(?1 || ?1)
    length(concat(?1, ?1, ?1))
    length(concat_ws(?1, 'a', 'b', 'c'))
    length(hex(?1))
    length(hex(hex(?1)))
    length(quote(?1))
    length(quote(replace(?1, ' ', '''')))
    length(quote(CAST(?1 AS BLOB)))
    length(substr(?1, 2))
    length(substr(?1, -100000000, 90000000))
    length(coalesce(NULL, upper(?1)))
    length(nullif(?1, lower(?1)))
    length(iif(1, ?1, 'x'))
    length(max(?1, 'a'))
    ?1 = upper(?1) COLLATE NOCASE
    ?1 || char(228) < upper(?1 || char(228)) COLLATE NOCASE
    ?1 IN ('a', 'b', ?1)
    ?1 BETWEEN 'a' AND ?1
    CASE ?1 WHEN 'x' THEN 1 WHEN ?1 THEN 2 END
    CAST(?1 AS INTEGER) + CAST(replace(?1, 'abcdefg ', '12345678') AS INTEGER)
    CAST(replace(?1, 'abcdefg ', '12345678') AS REAL)
    round(replace(?1, 'abcdefg ', '12345678'))
    replace(?1, 'abcdefg ', '12345678') = 1
    COUNT(DISTINCT ?1)
    MIN(?1 COLLATE NOCASE)";

/// Conditions on the contents of files.
const CONTENTS: &str = "\
    content LIKE '%a%b%c%q_z%'
    content GLOB '*a*b*[x-z]q*'
    content REGEXP 'q[a-z]*q[0-9]*z'
    instr(content, 'qqq') > 0
    length(replace(content, 'w', 'abc')) < 0
    length(lower(content)) < 0
    length(upper(content)) < 0
    length(trim(content, 'w0123456789 ')) < 0
    length(hex(content)) < 0
    length(quote(content)) < 0
    length(content || content) < 0
    length(substr(content, 3)) < 0
    content < lower(content)
    content = upper(content) COLLATE NOCASE";

const QUERIES: &str = "\
    SELECT COUNT(*) FROM c WHERE word = 'w77'
    SELECT COUNT(*) FROM c WHERE word IN ('w1', 'w2', 'w3', 'w4', 'w5') AND file > 'part1'
    SELECT word, position, offset FROM c
    SELECT file, word, position, offset, length FROM c WHERE offset BETWEEN 1000 AND 1000000
    SELECT file, position FROM c WHERE word = 'w1'
    SELECT word, position FROM c WHERE file = 'part00'
    SELECT word, COUNT(*) AS n FROM c GROUP BY word ORDER BY n DESC
    SELECT word, COUNT(*) FROM c GROUP BY word ORDER BY word
    SELECT file, COUNT(*) FROM c GROUP BY file
    SELECT file, word, COUNT(*) FROM c GROUP BY file, word
    SELECT word, file, COUNT(*) FROM c GROUP BY word, file ORDER BY word, file
    SELECT file, word, COUNT(*) FROM c WHERE file > 'part2' GROUP BY file, word
    SELECT lower(word) AS w, COUNT(*) FROM c GROUP BY w HAVING COUNT(*) > 10
    SELECT word COLLATE NOCASE AS w, COUNT(*) FROM c GROUP BY w ORDER BY 2 DESC LIMIT 20 OFFSET 20
    SELECT file, COUNT(DISTINCT word) FROM c GROUP BY file
    SELECT COUNT(DISTINCT word || file), MIN(word), MAX(offset), AVG(length), SUM(length), TOTAL(position) FROM c
    SELECT file, AVG(length), COUNT(*) FILTER (WHERE word LIKE 'w1%') FROM c GROUP BY file
    SELECT DISTINCT word FROM c WHERE position % 7 = 3
    SELECT DISTINCT file, offset FROM c
    SELECT word, offset FROM c ORDER BY offset % 1000, word
    SELECT word, offset FROM c ORDER BY offset % 1000, word LIMIT 1000000
    SELECT offset % 1000003 AS k, COUNT(*) FROM c GROUP BY k
    SELECT file, offset AS k, COUNT(*) FROM c GROUP BY file, k
    SELECT COUNT(*) FROM c WHERE word LIKE '%7%'
    SELECT COUNT(*) FROM c WHERE word REGEXP '7.*7' OR word GLOB '*9*8*'
    SELECT MAX(n) FROM (SELECT file, word, COUNT(*) AS n FROM c GROUP BY file, word)
    SELECT COUNT(*) FROM (SELECT DISTINCT w FROM (SELECT substr(word, 2, 2) AS w, offset FROM c ORDER BY offset))
    SELECT CASE WHEN length > 5 THEN 'long' ELSE upper(word) END AS k, COUNT(*) FROM c GROUP BY k
    SELECT * FROM term_vectors('c', 100)
    SELECT word, COUNT(*) FROM term_vectors('c', 1000000) GROUP BY word ORDER BY 2 DESC
    SELECT * FROM term_vectors('c') WHERE file = 'part00' ORDER BY rank
    SELECT ngram, COUNT(*) AS n FROM ngrams('c', 1) GROUP BY ngram ORDER BY n DESC LIMIT 10
    SELECT ngram, COUNT(*) AS n FROM ngrams('c', 2) GROUP BY ngram ORDER BY n DESC LIMIT 10
    SELECT ngram, file, COUNT(*) FROM ngrams('c', 5) GROUP BY ngram, file
    SELECT ngram, COUNT(*) FROM ngrams('c', 2) WHERE file > 'part3' GROUP BY ngram
    SELECT ngram, COUNT(*) FROM ngrams('c', 3) WHERE ngram LIKE '%7%' GROUP BY ngram
    SELECT file, COUNT(*) FROM ngrams('c', 2) WHERE ngram GLOB 'w1*' GROUP BY file
    SELECT * FROM ngrams('c', 3)
    SELECT COUNT(DISTINCT ngram) FROM ngrams('c', 8)
    SELECT file, position, offset FROM ngrams('c', 2) WHERE ngram = 'w1 w2'
    SELECT COUNT(*) FROM ngrams('c', 2) WHERE ngram IN ('w1 w2', 'w2 w1', 'w1 w1')
    SELECT file, bytes, words, length(content) FROM files('c')
    SELECT SUM(bytes), AVG(words) FROM files('c') WHERE file GLOB 'part*'
    SELECT content FROM files('c')
    SELECT file, substr(content, -80) FROM files('c')
    SELECT content FROM files('c') ORDER BY content
    SELECT DISTINCT content FROM files('c')
    SELECT content, COUNT(*) FROM files('c') GROUP BY content
    SELECT * FROM corpora()
    SELECT * FROM segments('c')
    SELECT * FROM devices()
    SELECT * FROM settings()
    EXPLAIN SELECT word, COUNT(*) FROM c GROUP BY word
    EXPLAIN ANALYZE SELECT * FROM ngrams('c', 8)
    CHECK c
    COPY (SELECT * FROM c) TO 'DIR/rows.csv'
    COPY (SELECT * FROM c) TO 'DIR/rows.tsv'
    COPY (SELECT * FROM c) TO 'DIR/rows.json'
    COPY (SELECT file, content FROM files('c')) TO 'DIR/rows.jsonl'
    COPY c TO 'DIR/out'";

/// What comes before, what is measured, what comes after. Commits are small enough for a slow disk: once one is being written,
/// the statement waits for that.
const CHANGES: [(&str, &str, &str); 33] = [
    ("", "CREATE CORPUS g", "DROP CORPUS IF EXISTS g"),
    ("", "CREATE CORPUS IF NOT EXISTS c", ""),
    ("", "ALTER CORPUS e SET (segment_size = '64MiB')", ""),
    ("", "SET memory_limit = '512MiB'", "RESET memory_limit"),
    ("", "RESET memory_limit", ""),
    ("", "COPY f FROM 'DIR/more'", ""),
    ("", "COPY f FROM 'DIR/inp*/**/part*'", ""),
    (
        "",
        "INSERT INTO e (file, content) VALUES ('x', substr(?1, 1, 33554432))",
        "DELETE FROM e",
    ),
    (
        "",
        "INSERT INTO e (file, content) SELECT word, substr(?1, 1, 33554432) FROM c GROUP BY word LIMIT 30",
        "DELETE FROM e",
    ),
    (
        "",
        "REPLACE INTO e (file, content) VALUES ('x', substr(upper(?1), 1, 33554432))",
        "DELETE FROM e",
    ),
    (
        "",
        "INSERT INTO e (file, content) SELECT file, content FROM files('c')",
        "DELETE FROM e",
    ),
    (
        "",
        "INSERT INTO e (file, content) SELECT file, content FROM files('c') LIMIT 8",
        "DELETE FROM e",
    ),
    (
        "",
        "INSERT INTO e (file, content) SELECT file, word FROM c",
        "DELETE FROM e",
    ),
    (
        "",
        "INSERT INTO e (file, content) SELECT word || '/' || file, 'x' FROM c GROUP BY word, file LIMIT 500000",
        "DELETE FROM e",
    ),
    (
        "INSERT INTO e (file, content) VALUES ('x', 'one two three')",
        "INSERT INTO e (file, offset, content) SELECT 'x', position % 13, word FROM c LIMIT 1000000",
        "DELETE FROM e",
    ),
    (
        "",
        "REPLACE INTO e (file, content) SELECT file, content FROM files('c')",
        "DELETE FROM e",
    ),
    ("", "BEGIN", ""),
    ("BEGIN", "COMMIT", ""),
    ("BEGIN", "ROLLBACK", ""),
    (
        "BEGIN; INSERT INTO e (file, content) SELECT file, content FROM files('c') LIMIT 8",
        "COMMIT",
        "DELETE FROM e",
    ),
    (
        "BEGIN; INSERT INTO e (file, content) SELECT file, content FROM files('c')",
        "COMMIT",
        "DELETE FROM e",
    ),
    (
        "BEGIN; INSERT INTO e (file, content) SELECT file, content FROM files('c')",
        "ROLLBACK",
        "",
    ),
    (
        "BEGIN; INSERT INTO e (file, content) SELECT file, content FROM files('c')",
        "SELECT word, COUNT(*) FROM e GROUP BY word",
        "",
    ),
    (
        "INSERT INTO e (file, content) SELECT file, content FROM files('c')",
        "SELECT word, COUNT(*) FROM e GROUP BY word",
        "",
    ),
    (
        "",
        "SELECT ngram, COUNT(*) FROM ngrams('e', 3) GROUP BY ngram",
        "",
    ),
    ("", "SELECT COUNT(*) FROM e WHERE word = 'w77'", ""),
    ("", "SELECT file, bytes, words FROM files('e')", ""),
    ("", "SELECT * FROM corpora()", ""),
    ("", "CHECK e", ""),
    ("", "DELETE FROM e WHERE file LIKE 'part0%'", ""),
    ("", "RECOMPRESS e", ""),
    ("", "DELETE FROM e", ""),
    (
        "INSERT INTO c (file, content) VALUES ('part00', ' w1 w2')",
        "RECOMPRESS c",
        "DROP CORPUS e",
    ),
];

/// The first statement of a database that was just opened.
const FIRST: &str = "\
    SELECT COUNT(*) FROM c WHERE word = 'w77'
    SELECT word, COUNT(*) FROM c GROUP BY word
    SELECT word, position, offset FROM c
    SELECT file, position FROM c WHERE word = 'w1'
    SELECT file, word, COUNT(*) FROM c GROUP BY file, word
    SELECT COUNT(*) FROM c WHERE file = 'part00' AND word = 'w77'
    SELECT * FROM term_vectors('c', 100)
    SELECT ngram, COUNT(*) FROM ngrams('c', 3) GROUP BY ngram
    SELECT * FROM ngrams('c', 3)
    SELECT file, position, offset FROM ngrams('c', 2) WHERE ngram = 'w1 w2'
    SELECT content FROM files('c')
    SELECT substr(content, 1000, 80) FROM files('c')
    SELECT * FROM segments('c')
    INSERT INTO c (file, offset, content) VALUES ('part00', 5, 'x')
    CHECK c
    RECOMPRESS c
    COPY c TO 'DIR/first'";

/// Statements that share the pool with others.
const BUSY: &str = "\
    SELECT 1
    SELECT * FROM corpora()
    SELECT COUNT(*) FROM c WHERE word = 'w77'
    SELECT word, COUNT(*) FROM c GROUP BY word ORDER BY word
    SELECT word, position, offset FROM c
    SELECT file, position FROM c WHERE word = 'w1'
    SELECT file, word, COUNT(*) FROM c GROUP BY file, word
    SELECT * FROM term_vectors('c', 100)
    SELECT ngram, COUNT(*) FROM ngrams('c', 3) GROUP BY ngram
    SELECT file, position, offset FROM ngrams('c', 2) WHERE ngram = 'w1 w2'
    SELECT content FROM files('c')
    SELECT substr(content, 1000, 80) FROM files('c')
    INSERT INTO f (file, content) SELECT file, content FROM files('c') LIMIT 8
    DELETE FROM f
    COPY f FROM 'DIR/more'
    CHECK c
    RECOMPRESS c";
