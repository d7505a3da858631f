//! Statements that try to take the process with them: deep, huge, or small with huge values.
//!
//! The invariant: a statement gives rows or an error, needs no memory out of proportion to `memory_limit`, and does not
//! outlive `statement_timeout` for long (how long exactly is measured elsewhere).

use std::fmt::Write;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, setrlimit};
use zipfdb::{CorpusSettings, Database};

use crate::campaign::{Campaign, Outcome, Trial, ensure};
use crate::child::{Running, command, tell};
use zipfdb_test_support::harness::Random;

/// What a statement may take before it is a failure: its timeout is 1 s.
const LATE: Duration = Duration::from_secs(5);

/// When a child is ended.
const END: Duration = Duration::from_secs(20);

/// Address space of the process, and memory beyond which a statement has taken too much.
const ADDRESS_SPACE: u64 = 6 << 30;
const MEMORY_MAX_KIB: u64 = 1 << 20;

/// How many kinds of statements there are.
const KINDS: u64 = 24;

pub fn attack(campaign: &mut Campaign) {
    campaign.run("statements", campaign.share(100), statement);
}

fn statement(trial: &Trial) -> Outcome {
    let child = command(&["hostile", &trial.number.to_string()]);
    let ended = Running::start(child).end_within(END);
    let (name, _) = make(trial.number);
    ended
        .is_clean()
        .map_err(|problem| format!("{name}: {problem}"))?;
    let number = |word: &str| {
        ended
            .lines(word)
            .next()
            .and_then(|value| value.parse::<u64>().ok())
    };
    let (Some(millis), Some(memory)) = (number("millis"), number("memory")) else {
        return Err(format!("{name}: {}", ended.output));
    };
    ensure(u128::from(millis) < LATE.as_millis(), || {
        format!("{name}: {millis} ms")
    })?;
    ensure(memory < MEMORY_MAX_KIB, || {
        format!("{name}: {memory} KiB of memory")
    })?;
    let is_error = ended.lines("error").next().is_some();
    trial.passed(if is_error { "error" } else { "rows" });
    Ok(())
}

/// The child: one statement, and what it took.
pub fn run(number: u64) {
    let limit = Rlimit {
        current: Some(ADDRESS_SPACE),
        maximum: Some(ADDRESS_SPACE),
    };
    setrlimit(Resource::As, limit).unwrap();
    let database = Database::options().threads(2).in_memory().unwrap();
    let corpus = database
        .create_corpus("c", CorpusSettings::default())
        .unwrap();
    let text = "the cat sat on the mat ".repeat(2000);
    let long = "a".repeat(200_000);
    corpus.append_many(&[("a", &text), ("b", &long)]).unwrap();
    database.execute("SET statement_timeout = '1s'").unwrap();
    database.execute("SET memory_limit = '16MiB'").unwrap();
    let (_, sql) = make(number);
    let start = Instant::now();
    let rows = database.query(&sql).and_then(|rows| {
        rows.map(|row| row.map(drop))
            .collect::<Result<Vec<()>, _>>()
    });
    tell(&format!("millis {}", start.elapsed().as_millis()));
    match rows {
        Ok(rows) => tell(&format!("rows {}", rows.len())),
        Err(error) => {
            let text: String = error.to_string().chars().take(300).collect();
            tell(&format!("error {text}"));
        }
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    tell(&format!("memory {}", peak.trim().trim_end_matches(" kB")));
}

/// `inner` within `count` calls.
fn nested(open: &str, inner: &str, close: &str, count: usize) -> String {
    open.repeat(count) + inner + &close.repeat(count)
}

/// The name of a statement, and its text.
fn make(number: u64) -> (String, String) {
    let mut random = Random::new(number);
    let depth = [10, 100, 1000, 20_000, 300_000][random.below(5)];
    let few = 5 + random.below(40);
    let text = format!("'{}'", "a".repeat(1 + random.below(300)));
    let (name, sql) = match number % KINDS {
        0 => (
            "parentheses",
            format!("SELECT {}", nested("(", "1", ")", depth)),
        ),
        1 => {
            let inner = nested("replace(", &text, ",'a','aaaaaaaaaa')", few);
            ("nested replace", format!("SELECT length({inner})"))
        }
        2 => (
            "nested hex",
            format!("SELECT length({})", nested("hex(", &text, ")", few)),
        ),
        3 => (
            "nested quote",
            format!("SELECT length({})", nested("quote(", "''''", ")", few)),
        ),
        4 => {
            let inner = format!("(SELECT {text} AS x)");
            let query = nested("(SELECT x || x AS x FROM ", &inner, ")", few);
            ("doubled text", format!("SELECT length(x) FROM {query}"))
        }
        5 => {
            let inner = format!("(SELECT {text} AS x)");
            let query = nested(
                "(SELECT concat(x,x,x,x,x,x,x,x) AS x FROM ",
                &inner,
                ")",
                few,
            );
            ("eightfold text", format!("SELECT length(x) FROM {query}"))
        }
        6 => {
            let list = vec!["7"; depth].join(",");
            (
                "long list",
                format!("SELECT COUNT(*) FROM c WHERE length IN ({list})"),
            )
        }
        7 => {
            let size = 1 << (10 + random.below(15));
            (
                "huge literal",
                format!("SELECT length('{}')", "x".repeat(size)),
            )
        }
        8 => {
            let pattern = "%a".repeat(few) + "%b";
            (
                "LIKE",
                format!(
                    "SELECT COUNT(*) FROM files('c') WHERE CAST(content AS TEXT) LIKE '{pattern}'"
                ),
            )
        }
        9 => {
            let pattern = "*[a-z]".repeat(few) + "*B";
            (
                "GLOB",
                format!(
                    "SELECT COUNT(*) FROM files('c') WHERE CAST(content AS TEXT) GLOB '{pattern}'"
                ),
            )
        }
        10 => {
            let patterns = [
                "(a*)*(a*)*b",
                "(a{1000}){1000}",
                "((((a?){100}){100}){100}){100}",
                "(x+x+)+y",
                "\\w{5000}\\pL{5000}",
                "(.*)(.*)(.*)(.*)(.*)[^a]$",
            ];
            let pattern = patterns[random.below(patterns.len())];
            (
                "REGEXP",
                format!(
                    "SELECT COUNT(*) FROM files('c') WHERE CAST(content AS TEXT) REGEXP '{pattern}'"
                ),
            )
        }
        11 => ("minus chain", format!("SELECT {} 1", "- ".repeat(depth))),
        12 => ("NOT chain", format!("SELECT {} 1", "NOT ".repeat(depth))),
        13 => ("AND chain", format!("SELECT 1{}", " AND 1".repeat(depth))),
        14 => (
            "sum chain",
            format!("SELECT length{} FROM c", " + length".repeat(depth)),
        ),
        15 => (
            "join chain",
            format!("SELECT length({text}{})", " || word".repeat(depth)) + " FROM c",
        ),
        16 => {
            let query = nested("(SELECT * FROM ", "c", ")", depth);
            ("subqueries", format!("SELECT COUNT(*) FROM {query}"))
        }
        17 => {
            let columns = (0..depth).fold(String::new(), |mut columns, column| {
                let _ = write!(columns, "word || {column}, ");
                columns
            });
            (
                "columns",
                format!("SELECT {columns} 1 FROM c GROUP BY word"),
            )
        }
        18 => {
            let extreme = [
                "9223372036854775807",
                "-9223372036854775808",
                "1e308",
                "NULL",
            ];
            let mut value = || extreme[random.below(extreme.len())];
            let (a, b, c) = (value(), value(), value());
            let sql = format!(
                "SELECT substr(content, {a}, {b}), round({a}, {b}), abs({c}), char({a}, {b}), {a} % {b}, {a} / {c}, \
                 {a} * {b}, CAST({a} AS INTEGER) FROM files('c') LIMIT {a} OFFSET {b}"
            );
            ("extremes", sql)
        }
        19 => {
            let k = ["9223372036854775807", "4294967296", "1000000"][random.below(3)];
            (
                "term vectors",
                format!("SELECT * FROM term_vectors('c', {k}) ORDER BY word DESC, rank"),
            )
        }
        20 => {
            let sql = "SELECT n.ngram, COUNT(*) FROM ngrams('c', 8) AS n GROUP BY ngram ORDER BY 2, 1 DESC";
            ("n-grams", sql.to_owned())
        }
        21 => {
            let sql = format!(
                "SELECT trim(content, {text}), upper(replace(content, 'a', {text})) FROM files('c') ORDER BY 2, 1"
            );
            ("large rows", sql)
        }
        22 => {
            let names = [
                "../x",
                "",
                "a/../../b",
                "/etc/passwd",
                "CON",
                "a\u{202e}b",
                "nul\u{0}l",
            ];
            let name = match random.below(names.len() + 1) {
                at if at < names.len() => names[at].to_owned(),
                _ => "n".repeat(depth),
            };
            (
                "names",
                format!("INSERT INTO c (file, content) VALUES ('{name}', 'x')"),
            )
        }
        _ => {
            let parts = [
                "SELECT ",
                "FROM ",
                "c ",
                "(",
                ")",
                "'",
                "\"",
                "WHERE ",
                "word ",
                ", ",
                "COUNT(*) ",
                "GROUP BY ",
                "-- ",
                "/* ",
                "ORDER BY ",
                "1e999 ",
                "X'0",
                "CASE ",
                "WHEN ",
                "NULL ",
                "? ",
                "?99999999 ",
                ":p ",
                "; ",
                "INSERT INTO ",
                "\u{0}",
                "COPY ",
                "TO ",
            ];
            let count = 1 + random.below(60);
            let sql = (0..count)
                .map(|_| parts[random.below(parts.len())])
                .collect();
            ("confusion", sql)
        }
    };
    (format!("{name} ({depth}, {few})"), sql)
}
