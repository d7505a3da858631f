//! Part `grep`: matches of fifty regular expressions within lines.
//!
//! No pattern can match a line feed, so that counts by line and counts over a whole text are the same, and those of all engines
//! are compared. ripgrep is asked only where the program `rg` is found, about packed text only if `zstd` is too.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use super::timed::{Asked, Outcome, ask_all, cells};
use super::{SearchOptions, Subject, Task};
use crate::Result;
use crate::corpus::Corpus;
use crate::report::{Cell, Table};

/// The patterns by class.
const PATTERNS: [(&str, [&str; 10]); 5] = [
    (
        "frequent literals",
        [
            "the", "and", "in", "data", "type", "name", "http", "user", "value", "set",
        ],
    ),
    (
        "rare literals",
        [
            "Postel",
            "deadbeef",
            "zymurgy",
            "quickly",
            "1984",
            "obsoleted",
            "transubstantiation",
            "Constantinople",
            "xylophone",
            "ZZZZ",
        ],
    ),
    (
        "classes",
        [
            "[0-9]+",
            "[A-Z]{3,}",
            "[a-f0-9]{8}",
            r"[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}",
            "[A-Za-z]+ing",
            r"\w+tion",
            "[aeiou]{4}",
            "[0-9]{4}-[0-9]{2}-[0-9]{2}",
            r"\d+%",
            "[A-Z][a-z]+ [A-Z][a-z]+",
        ],
    ),
    (
        "alternations",
        [
            "GET|POST|PUT|DELETE",
            "error|warning|failure",
            "January|February|March|April|May|June|July|August|September|October|November|December",
            "(read|write) (only|access)",
            "colou?r",
            "alice|bob|carol|dave",
            "MUST( NOT)?|SHOULD( NOT)?|MAY",
            "foo|bar|baz",
            "(un|re|dis)[a-z]+ed",
            "Sherlock|Holmes|Watson",
        ],
    ),
    (
        "anchors, wildcards, case",
        [
            "^the",
            r"\.$",
            r"\bcat\b",
            r"(?i)\bdatabase\b",
            "(?i)error",
            "the .* of the",
            r"in the \w+ of",
            r"\b\w{12,}\b",
            "^[A-Z].*:$",
            "https?://[a-z.]+",
        ],
    ),
];

/// The part of the budget that one engine has for packed text, whose program starts another one for each file.
const PACKED_SHARE: f64 = 0.5;

/// All patterns, one of each class after the other, so that a part of them has all classes.
pub fn all() -> Vec<&'static str> {
    let numbers = 0..PATTERNS[0].1.len();
    let patterns = numbers.flat_map(|number| PATTERNS.map(|(_, patterns)| patterns[number]));
    patterns.collect()
}

/// What is behind the columns.
pub fn note() -> String {
    let version = program("rg").unwrap_or_else(|| "no `rg` here".to_owned());
    format!(
        "Patterns: {} of each class. ZipfDB: `SELECT COUNT(*) FROM grep(..., 'ml')`, prepared, in one process; `new process`: a process \
         that opens the database, asks one pattern and ends. {version}: `rg -a -uuu -E none --count-matches`, a process a pattern, plain files in the page cache; `-z`: \
         the same on files packed by `zstd -3`. `in memory`: the crate regex-automata over all files in memory, in parallel by file. All count the same matches.",
        PATTERNS[0].1.len(),
    )
}

/// Asks all engines and compares them.
pub fn measure(corpus: &Corpus, scratch: &Path, search: &SearchOptions) -> Result<Vec<Table>> {
    let database = scratch.join("ours");
    let ours = search.child(Task::Grep, Subject::Ours, corpus, &database, None)?;
    let plain = search.child(Task::Grep, Subject::Plain, corpus, &database, None)?;
    let fresh = new_processes(corpus, &database, search)?;
    let mut ripgrep = Outcome::of(Vec::new());
    let mut packed = Outcome::of(Vec::new());
    if search.options.wants("ripgrep") && program("rg").is_some() {
        eprintln!("{}: grep of ripgrep", corpus.name);
        ripgrep = ask_ripgrep(&corpus.path, &[], search, search.budget)?;
        if program("zstd").is_some() {
            let folder = scratch.join("packed");
            pack(corpus, &folder)?;
            eprintln!("{}: grep of ripgrep -z", corpus.name);
            packed = ask_ripgrep(&folder, &["-z"], search, search.budget * PACKED_SHARE)?;
            fs::remove_dir_all(&folder)?;
        }
    }
    for (other, title) in [
        (&plain, "regex-automata"),
        (&fresh, "a new process"),
        (&ripgrep, "ripgrep"),
        (&packed, "ripgrep -z"),
    ] {
        let compared = ours.compare(other, "ZipfDB", title);
        compared.map_err(|error| format!("{}: {error}", corpus.name))?;
    }
    let columns = [
        "ZipfDB first",
        "ZipfDB warm",
        "ZipfDB p99",
        "new process",
        "rg",
        "rg p99",
        "rg -z",
        "in memory",
        "in memory p99",
    ];
    let mut classes = Table::new("grep, ms", columns);
    let row = |patterns: &[&str]| {
        let of = |outcome: &Outcome| {
            let found = patterns
                .iter()
                .filter_map(|name| outcome.find(name))
                .cloned();
            let found: Vec<Asked> = found.collect();
            cells(&found.iter().collect::<Vec<_>>(), 1e3)
        };
        let [first, warm, p99] = of(&ours);
        let [fresh, ..] = of(&fresh);
        let [_, rg, rg_p99] = of(&ripgrep);
        let [packed, ..] = of(&packed);
        let [_, memory, memory_p99] = of(&plain);
        [
            first, warm, p99, fresh, rg, rg_p99, packed, memory, memory_p99,
        ]
    };
    for (class, patterns) in &PATTERNS {
        classes.row(*class, row(patterns));
    }
    classes.row("all", row(&all()));
    let mut each = Table::new(
        "pattern, ms",
        ["matches", "first", "warm", "new process", "rg", "in memory"],
    );
    for one in &ours.asked {
        let warm = |outcome: &Outcome| {
            let found = outcome.find(&one.name);
            Cell::from(
                found
                    .and_then(|found| found.warm())
                    .map(|seconds| seconds * 1e3),
            )
        };
        let fresh = fresh.find(&one.name).map(|fresh| fresh.first * 1e3);
        let cells = [
            Cell::from(one.answer),
            Cell::from(one.first * 1e3),
            warm(&ours),
            Cell::from(fresh),
            warm(&ripgrep),
            warm(&plain),
        ];
        each.row(one.name.replace('|', "\\|"), cells);
    }
    Ok(vec![classes, each.detail()])
}

/// Asks each pattern in a process of its own.
fn new_processes(corpus: &Corpus, database: &Path, search: &SearchOptions) -> Result<Outcome> {
    let begin = Instant::now();
    let mut outcome = Outcome::of(Vec::new());
    for pattern in all() {
        if begin.elapsed().as_secs_f64() >= search.budget {
            break;
        }
        let begin = Instant::now();
        let answer = search.once(corpus, database, pattern)?;
        let first = begin.elapsed().as_secs_f64();
        outcome
            .asked
            .extend(answer.asked.into_iter().map(|one| Asked { first, ..one }));
    }
    Ok(outcome)
}

/// The first line that a program says of its version, if there is one.
fn program(name: &str) -> Option<String> {
    let output = Command::new(name).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(text.lines().next().unwrap_or_default().to_owned())
}

/// Each file of a corpus as `zstd -3` packs it.
fn pack(corpus: &Corpus, folder: &Path) -> Result<()> {
    for (number, file) in corpus.files.iter().enumerate() {
        fs::create_dir_all(folder)?;
        let packed = zstd::bulk::compress(&fs::read(&file.path)?, 3)?;
        fs::write(folder.join(format!("{number}.zst")), packed)?;
    }
    Ok(())
}

fn ask_ripgrep(
    folder: &Path,
    options: &[&str],
    search: &SearchOptions,
    budget: f64,
) -> Result<Outcome> {
    let patterns: Vec<String> = all().into_iter().map(str::to_owned).collect();
    let runs = search.options.runs.max(1);
    let asked = ask_all(&patterns, runs, budget, |index| {
        let mut command = Command::new("rg");
        command.args(["--no-config", "-a", "-uuu", "-E", "none", "--count-matches"]);
        command.args(["--with-filename", "--color", "never", "-j"]);
        command
            .arg(search.options.threads.to_string())
            .args(options);
        command.arg("-e").arg(&patterns[index]).arg(folder);
        let output = command.stdin(Stdio::null()).output()?;
        // 1 is no match.
        if !matches!(output.status.code(), Some(0 | 1)) {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
        }
        let mut count = 0u64;
        for line in output.stdout.split(|&byte| byte == b'\n') {
            if let Some(colon) = line.iter().rposition(|&byte| byte == b':') {
                count += std::str::from_utf8(&line[colon + 1..])?.parse::<u64>()?;
            }
        }
        Ok((count, Vec::new()))
    })?;
    Ok(Outcome::of(asked))
}
