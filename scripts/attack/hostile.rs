//! Statements that try to take the process with them: deep, huge, or small with huge values.
//!
//! Values that are parsed or compiled, such as patterns, formats and paths, are made by expressions, so that no limit on statements
//! bounds them. The invariant: a statement gives rows or an error of less than 1,000 bytes, needs no memory out of proportion to
//! `memory_limit`, and does not outlive `statement_timeout` for long (how long exactly is measured elsewhere). The number of
//! a trial decides its statement.

use std::fmt::Write;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, setrlimit};
use zipfdb::{CorpusSettings, Database, Value};

use crate::campaign::{Campaign, Outcome, Trial, ensure};
use crate::child::{Running, command, report_line};
use zipfdb_test_support::harness::{Random, scratch};

/// Most time of a statement, whose timeout is 1 s.
const LATE: Duration = Duration::from_secs(5);

/// Time after which a child is ended.
const END: Duration = Duration::from_secs(20);

/// Address space of the process, and memory beyond which a statement has taken too much.
const ADDRESS_SPACE: u64 = 6 << 30;
const MEMORY_MAX_KIB: u64 = 1 << 20;

/// The same where a value is hostile: nothing that large is asked for.
const VALUE_MEMORY_MAX_KIB: u64 = 192 << 10;

/// Bytes of the longest message.
const MESSAGE_BYTES_MAX: u64 = 1000;

/// Number of kinds of statements.
const KINDS: u64 = 39;

pub fn attack(campaign: &mut Campaign) {
    campaign.run("statements", campaign.share(100), statement);
}

fn statement(trial: &Trial) -> Outcome {
    let child = command(&["hostile", &trial.number.to_string()]);
    let ended = Running::start(child).end_within(END);
    let name = make(trial.number, "").name;
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
    let memory_max = match value_kind(trial.number) {
        Some(_) => VALUE_MEMORY_MAX_KIB,
        None => MEMORY_MAX_KIB,
    };
    ensure(memory < memory_max, || {
        format!("{name}: {memory} KiB of memory")
    })?;
    ensure(
        number("message").is_none_or(|bytes| bytes < MESSAGE_BYTES_MAX),
        || format!("{name}: a message of {:?} bytes", number("message")),
    )?;
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
    database
        .execute_batch("SET statement_timeout = '1s'")
        .unwrap();
    database
        .execute_batch("SET memory_limit = '16MiB'")
        .unwrap();
    let folder = scratch();
    let letters = folder.path().join("a".repeat(250));
    std::fs::create_dir(&letters).unwrap();
    std::fs::write(letters.join("a".repeat(250)), &text).unwrap();
    let Hostile {
        sql, parameters, ..
    } = make(number, &folder.path().display().to_string());
    let start = Instant::now();
    let rows = database.query(&sql, &parameters).and_then(|rows| {
        rows.map(|row| row.map(drop))
            .collect::<Result<Vec<()>, _>>()
    });
    report_line(&format!("millis {}", start.elapsed().as_millis()));
    match rows {
        Ok(rows) => report_line(&format!("rows {}", rows.len())),
        Err(error) => {
            let text = error.to_string();
            report_line(&format!("message {}", text.len()));
            let text: String = text.replace('\n', " ").chars().take(300).collect();
            report_line(&format!("error {text}"));
        }
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    report_line(&format!("memory {}", peak.trim().trim_end_matches(" kB")));
}

/// `inner` within `count` calls.
fn nested(open: &str, inner: &str, close: &str, count: usize) -> String {
    open.repeat(count) + inner + &close.repeat(count)
}

/// A statement.
struct Hostile {
    name: String,
    sql: String,
    parameters: Vec<Value>,
}

/// One of some texts.
fn one<'a>(random: &mut Random, texts: &[&'a str]) -> &'a str {
    texts[random.below(texts.len())]
}

/// An expression whose value is a text many times over, some million bytes at most.
fn repeated(random: &mut Random, text: &str) -> String {
    let count = [100, 5_000, 40_000, 100_000, 1_000_000][random.below(5)];
    let text = text.replace('\'', "''");
    match random.below(4) {
        0 => format!("replace(printf('%.*c', {count}, 'x'), 'x', '{text}')"),
        1 => format!("replace(hex(printf('%0*d', {count}, 0)), '30', '{text}')"),
        2 => format!("replace(format('%*s', {count}, ''), ' ', '{text}')"),
        _ => {
            // A thousandth at a time, as it can be folded.
            let part = format!("replace(format('%*s', {}, ''), ' ', '{text}')", count / 100);
            format!("replace(format('%*s', 100, ''), ' ', {part})")
        }
    }
}

/// A value that is parsed or compiled when the statement runs, in an expression or two.
fn make_value(kind: u64, random: &mut Random, folder: &str) -> (&'static str, String, Vec<Value>) {
    let text_of = |random: &mut Random| {
        one(
            random,
            &[
                "word",
                "file",
                "CAST(content AS TEXT)",
                "'a'",
                "'\u{e4}b \u{e4}'",
            ],
        )
        .to_owned()
    };
    let relation = |text: &str| {
        if text.contains("content") {
            "files('c')"
        } else {
            "c"
        }
    };
    let mut parameters = Vec::new();
    let (name, sql) = match kind {
        0 => {
            let parts = [
                r"\w{9}",
                r"(?i)[^\w ]{9}",
                r"\pL",
                "(a|b)",
                "(a?){9}",
                "[a-z]+",
                r"\b\w*",
                "|",
                "(",
                "[",
                "(?i)",
                ".",
                "a",
                "a?",
                r"(?i)[\W\d]",
                "(a)",
                r"[^\w\s]{9}",
                r"\p{Greek}",
                "x{0,9}",
                r"\",
                "\u{e4}",
                "(?:",
            ];
            let part = one(random, &parts);
            let pattern = repeated(random, part);
            let text = text_of(random);
            let from = relation(&text);
            let sql = match random.below(4) {
                0 => format!("SELECT COUNT(*) FROM {from} WHERE {text} REGEXP {pattern}"),
                1 => format!(
                    "SELECT regexp_extract({text}, {pattern}, {}) FROM {from}",
                    random.below(3)
                ),
                2 => format!("SELECT regexp_replace({text}, {pattern}, '<\\1>', 'g') FROM {from}"),
                // Another pattern for each row.
                _ => format!("SELECT COUNT(*) FROM c WHERE {text} REGEXP {pattern} || position"),
            };
            ("repeated pattern of REGEXP", sql)
        }
        1 => {
            let part = one(
                random,
                &[
                    "a?",
                    r"\w",
                    "(a|b|\u{e4})",
                    "[^a]",
                    ".",
                    "(?:a{9}){9}",
                    r"(?i)\pL",
                ],
            );
            let count = [300, 3_000, 30_000, 3_000_000][random.below(4)];
            let pattern = match random.below(3) {
                0 => format!("'({part}){{' || {count} || '}}'"),
                1 => format!("concat('(?:(?:{part}){{1,', {count}, '}}x|b)+$')"),
                _ => format!(
                    "printf('((%s){{%d}}){{%d}}', '{part}', {}, 100)",
                    count / 100
                ),
            };
            let text = text_of(random);
            let from = relation(&text);
            (
                "counted pattern of REGEXP",
                format!("SELECT COUNT(*) FROM {from} WHERE {text} REGEXP {pattern}"),
            )
        }
        2 => {
            let part = one(
                random,
                &[
                    "%a",
                    "_%",
                    "*[a-z]",
                    "[",
                    "?*",
                    "a",
                    "%",
                    "*[^a-z\u{e4}]",
                    "\u{e4}%",
                ],
            );
            let pattern = repeated(random, part);
            let matcher = one(random, &["LIKE", "GLOB"]);
            let text = text_of(random);
            let from = relation(&text);
            let other = if random.below(2) == 0 {
                ""
            } else {
                " || position"
            };
            let from = if other.is_empty() { from } else { "c" };
            let text = if other.is_empty() { &text } else { "word" };
            (
                "repeated pattern of LIKE",
                format!("SELECT COUNT(*) FROM {from} WHERE {text} {matcher} {pattern}{other}"),
            )
        }
        3 => {
            // Each keeps what it was compiled to.
            let matched = |number: u64| match number % 3 {
                0 => format!(r"word REGEXP '^\w{{{}}}[^{number}]+$'", 1 + number % 90),
                1 => format!("word LIKE replace(format('%*s', 20000, '{number}'), ' ', '%a')"),
                _ => format!("word GLOB replace(format('%*s', 10000, '{number}'), ' ', '*[a-z]')"),
            };
            let count = [10, 100, 900][random.below(3)];
            let conditions: Vec<String> = (0..count).map(matched).collect();
            (
                "many patterns",
                format!("SELECT COUNT(*) FROM c WHERE {}", conditions.join(" OR ")),
            )
        }
        4 => {
            let part = one(
                random,
                &[
                    "[",
                    "{\"a\":",
                    "1,",
                    "\"\\u0041\",",
                    "9",
                    " ",
                    "[]",
                    "-",
                    "\"",
                    "\\",
                ],
            );
            let inner = repeated(random, part);
            let json = match random.below(3) {
                0 => inner,
                1 => format!("'[' || {inner} || '1]'"),
                _ => format!("concat('{{\"a\":[', {inner}, '1],\"b\":1}}')"),
            };
            let path = one(random, &["$", "$[0]", "$[#-1]", "$.a", "$.b", "$.a[#-2]"]);
            let sql = match random.below(3) {
                0 => format!("SELECT json_extract({json}, '{path}')"),
                1 => format!("SELECT {json} -> '{path}', {json} ->> 0"),
                _ => format!(
                    "SELECT json_extract(x{}) FROM (SELECT {json} AS x)",
                    format!(", '{path}'").repeat(300)
                ),
            };
            ("JSON", sql)
        }
        5 => {
            let part = one(
                random,
                &["a", ".a", "[0]", "[", "$", ".\"", "[#-1]", "\u{1}", "9"],
            );
            let path = repeated(random, part);
            let dollar = one(random, &["'$' || ", ""]);
            (
                "path of JSON",
                format!(
                    "SELECT json_extract('[[{{\"a\":[1]}}]]', {dollar}{path}), '{{\"a\":1}}' -> ({path})"
                ),
            )
        }
        6 => {
            let part = one(
                random,
                &[
                    "%f",
                    "%n",
                    "%.0f",
                    "%-",
                    "%!s",
                    "%,.99999d",
                    "%*d",
                    "%",
                    "%c",
                    "%Q",
                    "%99999s",
                    "%.1000000f",
                    "%l",
                    "%z",
                    "%g",
                ],
            );
            let pattern = repeated(random, part);
            let argument = one(
                random,
                &["1e308", "-1", "9223372036854775807", "content", "0.1"],
            );
            (
                "format",
                format!(
                    "SELECT length(format({pattern}, {argument}, {argument}, {argument})) FROM files('c')"
                ),
            )
        }
        7 => {
            let part = one(
                random,
                &[
                    "+1 day",
                    "localtime",
                    "0",
                    "+",
                    "start of ",
                    "9",
                    " ",
                    "\u{e4}",
                    "weekday ",
                ],
            );
            let modifier = repeated(random, part);
            (
                "modifier of a date",
                format!(
                    "SELECT date('now', {modifier}), datetime({modifier}), time('2000-01-01 ' || {modifier})"
                ),
            )
        }
        8 => {
            let part = one(
                random,
                &["%J", "%f", "%Y-%m", "%", "a", "%%", "%U%V%W", "\u{e4}"],
            );
            let pattern = repeated(random, part);
            (
                "format of strftime",
                format!("SELECT length(strftime({pattern}, '2001-02-03'))"),
            )
        }
        9 => {
            let part = one(
                random,
                &["9", "0", "1e", ".5", " ", "-", "00000000000000000001"],
            );
            let digits = repeated(random, part);
            let cast = one(random, &["INTEGER", "REAL", "NUMERIC", "TEXT", "BLOB"]);
            (
                "text as a number",
                format!(
                    "SELECT length(CAST({digits} AS {cast})), {digits} + 1, round({digits}), abs('0.' || {digits})"
                ),
            )
        }
        10 => {
            let part = one(
                random,
                &[
                    "a",
                    "ab",
                    "\u{e4}\u{1f600}",
                    "\\0",
                    "\\\\",
                    "\\9",
                    "g",
                    "i",
                    "\\",
                ],
            );
            let value = repeated(random, part);
            let sql = match random.below(5) {
                0 => format!("SELECT length(trim(content, {value})) FROM files('c')"),
                1 => format!(
                    "SELECT split_part({value}, 'a', {}), split_part({value}, '', -1)",
                    ["-1", "1", "-9000000"][random.below(3)]
                ),
                2 => format!("SELECT regexp_replace(word, 'a', {value}) FROM c"),
                3 => format!("SELECT regexp_replace(word, 'a', 'b', {value}) FROM c"),
                _ => format!(
                    "SELECT instr(content, {value}), replace({value}, 'a', ''), concat_ws({value}, word, word) FROM files('c') AS f"
                ),
            };
            ("texts that are searched for", sql)
        }
        11 => {
            let part = one(random, &["*a", "a*", "?", "[a-b]", "**/", "[", "a"]);
            let count = [10, 60, 120, 20_000, 1_000_000][random.below(5)];
            let end = one(random, &["b/x", "b", "", "/**/x"]);
            let top = one(random, &["**/", "", "*/"]);
            parameters.push(Value::Text(format!(
                "{folder}/{top}{}{end}",
                part.repeat(count)
            )));
            ("glob", "COPY c FROM ?".to_owned())
        }
        12 => {
            let long = one(random, &["utf-", "x", "\u{1}", "'", "\u{e4}"]).repeat(300_000);
            parameters.push(Value::Text(long));
            let statements = [
                "COPY c FROM '/' WITH (encoding = ?)",
                "COPY c FROM ?",
                "COPY c TO ?",
                "COPY (SELECT 1) TO ?",
                "SET device = ?",
                "SET memory_limit = ?",
                "SET statement_timeout = ?",
                "SET strategy = ?",
                "SET durability = ?",
                "SELECT * FROM ngrams('c', ?)",
                "CREATE CORPUS x WITH (tokenizer = ?)",
                "DELETE FROM c WHERE file = ?",
                "INSERT INTO c (file, content) VALUES (?1, ?1)",
                "SELECT content FROM files('c') WHERE file = ?",
                "SELECT COUNT(*) FROM ngrams('c', 2) WHERE ngram = ?",
                "SELECT * FROM files_with('c', ?)",
            ];
            (
                "setting, option or name",
                one(random, &statements).to_owned(),
            )
        }
        13 => {
            let part = one(random, &[r"\w{9}", "a|", "%a", "[", "$.a", "%f", "1", "("]);
            parameters.push(Value::Text(part.repeat(700_000)));
            parameters.push(Value::Text("a".repeat(1_000_000)));
            let expressions = [
                "?2 REGEXP ?1",
                "word REGEXP ?1",
                "?2 LIKE ?1",
                "?2 GLOB ?1",
                "json_extract(?1, ?1)",
                "format(?1, ?2)",
                "strftime(?1, ?2)",
                "date(?1, ?2)",
                "regexp_replace(?2, 'a', ?1, 'g')",
                "CAST(?1 AS REAL)",
                "trim(?2, ?1)",
                "?2 LIKE word ESCAPE ?1",
            ];
            (
                "parameter",
                format!(
                    "SELECT length({}), length(?1), length(?2) FROM c LIMIT 100",
                    one(random, &expressions)
                ),
            )
        }
        _ => {
            let part = one(random, &["a", r"\w", "x"]);
            let pattern = repeated(random, part);
            let name = one(
                random,
                &[
                    "date",
                    "strftime",
                    "abs",
                    "char",
                    "unicode",
                    "round",
                    "group_concat",
                    "median",
                ],
            );
            (
                "calls of calls",
                format!(
                    "SELECT {name}({pattern} || word) FROM c WHERE word LIKE {pattern} OR word > {pattern}"
                ),
            )
        }
    };
    (name, sql, parameters)
}

/// The statement of a trial, which may read below a folder.
fn make(number: u64, folder: &str) -> Hostile {
    let mut random = Random::new(number);
    if let Some(kind) = value_kind(number) {
        let (name, sql, parameters) = make_value(kind, &mut random, folder);
        let name = format!("{name} ({number}: {sql:.200})");
        return Hostile {
            name,
            sql,
            parameters,
        };
    }
    let (name, sql) = make_literal(number, &mut random);
    Hostile {
        name,
        sql,
        parameters: Vec::new(),
    }
}

/// Kinds whose values are written in the statement.
const LITERAL_KINDS: u64 = 24;

/// The kind of a trial whose value is hostile.
fn value_kind(number: u64) -> Option<u64> {
    (number % KINDS).checked_sub(LITERAL_KINDS)
}

fn make_literal(number: u64, random: &mut Random) -> (String, String) {
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
