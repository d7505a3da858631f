//! Suite `cold`: the first question of a database that was just opened, its files in the page cache.
//!
//! Every measurement is a process of its own, which opens the database and asks one question twice. The word and the places
//! are those of the largest file that has some, found when the database was built. What indexes answer is asked again with
//! one of postings, one of occurrences and one of suffixes.

use std::path::PathBuf;
use std::time::Instant;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use zipfdb::{Database, Snapshot};

use crate::corpus::Corpus;
use crate::engines::{self, Engine, Purpose};
use crate::report::{Cell, MEGABYTE, Report, Table};
use crate::{Options, Result};

/// Bytes of an extract.
const EXTRACT_BYTES: u64 = 100;

/// What is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Question {
    Subject,
    Extract,
    SearchInFile,
    CountInFile,
    Count,
    FilesOfWord,
    PlacesInFile,
    Phrase,
    Content,
    WordCount,
    FilesWithWords,
    Places,
    PhraseCount,
    TopNgram,
    /// Creates an index.
    Postings,
    Occurrences,
    Suffixes,
}

impl Question {
    /// All that are measured.
    const MEASURED: [Question; 13] = [
        Question::Extract,
        Question::SearchInFile,
        Question::CountInFile,
        Question::Count,
        Question::FilesOfWord,
        Question::PlacesInFile,
        Question::Phrase,
        Question::Content,
        Question::WordCount,
        Question::FilesWithWords,
        Question::Places,
        Question::PhraseCount,
        Question::TopNgram,
    ];

    /// The indexes that are created.
    const INDEXES: [Question; 3] = [
        Question::Postings,
        Question::Occurrences,
        Question::Suffixes,
    ];

    /// Questions that the indexes answer.
    const INDEXED: [Question; 9] = [
        Question::SearchInFile,
        Question::CountInFile,
        Question::FilesOfWord,
        Question::PlacesInFile,
        Question::Phrase,
        Question::FilesWithWords,
        Question::Places,
        Question::PhraseCount,
        Question::TopNgram,
    ];

    /// The kind of index that is created; none if something is asked.
    fn index(self) -> Option<&'static str> {
        match self {
            Question::Postings => Some("postings"),
            Question::Occurrences => Some("occurrences"),
            Question::Suffixes => Some("suffixes"),
            _ => None,
        }
    }

    fn title(self) -> &'static str {
        match self {
            Question::Subject => "what is asked for",
            Question::Extract => "extract from a file",
            Question::SearchInFile => "search in a file",
            Question::CountInFile => "count in a file",
            Question::Count => "SQL: count of a word",
            Question::FilesOfWord => "SQL: files of a word with counts",
            Question::PlacesInFile => "SQL: places of a word in a file",
            Question::Phrase => "SQL: places of a phrase",
            Question::Content => "SQL: files whose content is LIKE a phrase",
            Question::WordCount => "SQL: all words with counts",
            Question::FilesWithWords => "SQL: files with both words",
            Question::Places => "SQL: places of a word",
            Question::PhraseCount => "SQL: count of a phrase",
            Question::TopNgram => "SQL: the most frequent 3-gram",
            Question::Postings => "CREATE INDEX USING postings",
            Question::Occurrences => "CREATE INDEX USING occurrences",
            Question::Suffixes => "CREATE INDEX USING suffixes",
        }
    }

    /// The statement that asks it; none if the Rust API does.
    fn sql(self, corpus: &str, subject: &Subject) -> Option<String> {
        let quoted = |text: &str| text.replace('\'', "''");
        let (file, word) = (quoted(&subject.file), quoted(&subject.words[0]));
        let phrase = quoted(&subject.words.join(" "));
        Some(match self {
            Question::Count => format!("SELECT COUNT(*) FROM \"{corpus}\" WHERE word = '{word}'"),
            Question::FilesOfWord => format!(
                "SELECT file, COUNT(*) FROM \"{corpus}\" WHERE word = '{word}' GROUP BY file"
            ),
            Question::PlacesInFile => {
                format!("SELECT offset FROM \"{corpus}\" WHERE word = '{word}' AND file = '{file}'")
            }
            Question::Phrase => {
                format!("SELECT file, offset FROM ngrams('{corpus}', 2) WHERE ngram = '{phrase}'")
            }
            Question::Places => {
                format!("SELECT file, offset FROM \"{corpus}\" WHERE word = '{word}'")
            }
            Question::PhraseCount => {
                format!("SELECT COUNT(*) FROM ngrams('{corpus}', 2) WHERE ngram = '{phrase}'")
            }
            Question::TopNgram => format!(
                "SELECT ngram, COUNT(*) AS n FROM ngrams('{corpus}', 3) GROUP BY ngram \
                 ORDER BY n DESC LIMIT 1"
            ),
            Question::Content => {
                format!("SELECT COUNT(*) FROM files('{corpus}') WHERE content LIKE '%{phrase}%'")
            }
            Question::FilesWithWords => {
                let second = quoted(&subject.words[1]);
                format!("SELECT file FROM files_with('{corpus}', '{word}', '{second}')")
            }
            Question::WordCount => {
                format!("SELECT word, COUNT(*) FROM \"{corpus}\" GROUP BY word")
            }
            _ => return None,
        })
    }
}

/// What questions are about.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Subject {
    file: String,
    /// Two words that follow each other there.
    words: [String; 2],
}

/// One measurement.
#[derive(Args)]
pub struct Job {
    #[arg(long)]
    question: Question,
    /// Where the database is.
    #[arg(long)]
    directory: PathBuf,
    #[arg(long)]
    threads: usize,
    /// What it is about, as JSON; empty where that is asked for.
    #[arg(long)]
    subject: String,
}

/// What a measurement found.
#[derive(Clone, Serialize, Deserialize)]
struct Outcome {
    question: Question,
    /// Whether there was an index.
    is_indexed: bool,
    /// Rows, places or bytes, of an index those of its file: the same in each run.
    answers: u64,
    /// To open the database.
    open_seconds: f64,
    /// To ask.
    seconds: f64,
    /// To ask the same again.
    again_seconds: f64,
    subject: Option<Subject>,
}

/// Measures, prints and writes.
pub fn run(options: &Options) -> Result<()> {
    let mut report = Report::new("cold", &options.output)?;
    for path in &options.corpus {
        let corpus = Corpus::open(path)?;
        let directory = engines::database_directory(options)?;
        engines::build(
            Engine::Ours,
            Purpose::Size,
            &corpus,
            directory.path(),
            options,
        )?;
        let ask = |question, subject: &str| {
            child(question, subject, directory.path().as_os_str(), options)
        };
        let subject = ask(Question::Subject, "")?.subject;
        let subject = serde_json::to_string(&subject.ok_or("there is nothing to ask for")?)?;
        let mut outcomes: Vec<Outcome> = Vec::new();
        let questions = (Question::MEASURED
            .map(|question| (question, false))
            .into_iter())
        .chain(Question::INDEXES.map(|question| (question, true)))
        .chain(Question::INDEXED.map(|question| (question, true)));
        for (question, is_indexed) in questions {
            eprintln!("{}: {}", corpus.name, question.title());
            let runs = match question.index() {
                // The index exists by then.
                Some(_) => 1,
                None => options.runs.max(1),
            };
            let mut runs = (0..runs)
                .map(|_| {
                    let outcome = ask(question, &subject)?;
                    Ok(Outcome {
                        is_indexed,
                        ..outcome
                    })
                })
                .collect::<Result<Vec<Outcome>>>()?;
            let before = outcomes.iter().find(|before| before.question == question);
            let expected = before.unwrap_or(&runs[0]).answers;
            if runs.iter().any(|run| run.answers != expected) {
                let title = question.title();
                return Err(format!("{}: answers differ: {title}", corpus.name).into());
            }
            outcomes.append(&mut runs);
        }
        report.add(&corpus, tables(&outcomes))?;
    }
    report.finish(vec![
        "The first question to a database that a new process opened, whose files are in the page cache, and the same question \
         asked again; without indexes and with those that are created after that."
            .to_owned(),
    ])
}

/// What questions take, and what indexes take.
fn tables(outcomes: &[Outcome]) -> Vec<Table> {
    let cell = |question: Question, is_indexed: bool, value: fn(&Outcome) -> f64| {
        let runs = outcomes.iter();
        let runs = runs.filter(|run| (run.question, run.is_indexed) == (question, is_indexed));
        Cell::of_runs(runs.map(value))
    };
    let first = |run: &Outcome| run.seconds * 1e3;
    let again = |run: &Outcome| run.again_seconds * 1e3;
    let mut questions = Table::new("ms", ["first", "again", "indexed, first", "indexed, again"]);
    let open = outcomes.iter().filter(|run| run.question.index().is_none());
    questions.row(
        "open",
        [Cell::of_runs(open.map(|run| run.open_seconds * 1e3))],
    );
    for question in Question::MEASURED {
        let cells = [
            cell(question, false, first),
            cell(question, false, again),
            cell(question, true, first),
            cell(question, true, again),
        ];
        questions.row(question.title(), cells);
    }
    let mut indexes = Table::new("indexes", ["s", "MB"]);
    for question in Question::INDEXES {
        let cells = [
            cell(question, true, |run| run.seconds),
            cell(question, true, |run| run.answers as f64 / MEGABYTE),
        ];
        indexes.row(question.title(), cells);
    }
    vec![questions, indexes]
}

fn child(
    question: Question,
    subject: &str,
    directory: &std::ffi::OsStr,
    options: &Options,
) -> Result<Outcome> {
    let name = question.to_possible_value();
    let name = name.map_or_else(String::new, |value| value.get_name().to_owned());
    engines::run_self(
        "cold-child",
        &[
            ("--question", name.as_ref()),
            ("--directory", directory),
            ("--threads", options.threads.to_string().as_ref()),
            ("--subject", subject.as_ref()),
        ],
    )
}

/// The child's side: asks one question and prints how long that took.
pub fn run_child(job: &Job) -> Result<()> {
    if let Some(kind) = job.question.index() {
        return create_index(job, kind);
    }
    let begin = Instant::now();
    let (database, snapshot) = engines::ours::open(&job.directory, job.threads)?;
    let open_seconds = begin.elapsed().as_secs_f64();
    let ask_timed = || -> Result<(u64, Option<Subject>, f64)> {
        let begin = Instant::now();
        let (answers, subject) = match job.question {
            Question::Subject => (0, Some(subject(&snapshot)?)),
            question => (ask(question, &job.subject, &database, &snapshot)?, None),
        };
        Ok((answers, subject, begin.elapsed().as_secs_f64()))
    };
    let (answers, subject, seconds) = ask_timed()?;
    let (.., again_seconds) = ask_timed()?;
    let outcome = Outcome {
        question: job.question,
        is_indexed: false,
        answers,
        open_seconds,
        seconds,
        again_seconds,
        subject,
    };
    println!("{}", serde_json::to_string(&outcome)?);
    Ok(())
}

/// Creates an index and prints how long that took, and how large it is.
fn create_index(job: &Job, kind: &str) -> Result<()> {
    let database = engines::ours::open_to_write(&job.directory, job.threads)?;
    let corpus = database.corpora().into_iter().next().ok_or("no corpus")?;
    let begin = Instant::now();
    database.execute_batch(&format!("CREATE INDEX {kind} ON \"{corpus}\" USING {kind}"))?;
    let seconds = begin.elapsed().as_secs_f64();
    let sizes = database.query(
        &format!("SELECT SUM(bytes) FROM indexes('{corpus}') WHERE kind = '{kind}'"),
        (),
    )?;
    let size = sizes.into_iter().next().ok_or("no index")??;
    let zipfdb::Value::Integer(bytes) = size[0] else {
        return Err("an index without a file".into());
    };
    let outcome = Outcome {
        question: job.question,
        is_indexed: true,
        answers: bytes.try_into()?,
        open_seconds: 0.0,
        seconds,
        again_seconds: 0.0,
        subject: None,
    };
    println!("{}", serde_json::to_string(&outcome)?);
    Ok(())
}

fn ask(question: Question, subject: &str, database: &Database, snapshot: &Snapshot) -> Result<u64> {
    let subject: Subject = serde_json::from_str(subject)?;
    let (file, word) = (&subject.file[..], &subject.words[0]);
    let corpus = database.corpora().into_iter().next().ok_or("no corpus")?;
    if let Some(sql) = question.sql(&corpus, &subject) {
        let mut rows = 0;
        for row in database.query(&sql, ())? {
            row?;
            rows += 1;
        }
        return Ok(rows);
    }
    Ok(match question {
        Question::Extract => {
            let bytes = snapshot.file(file).ok_or("no such file")?.bytes;
            snapshot.extract(file, bytes / 2, EXTRACT_BYTES)?.len() as u64
        }
        Question::SearchInFile => snapshot.search_in(file, word)?.len() as u64,
        _ => snapshot.count_in(file, word)?,
    })
}

/// Two words that follow each other in the middle of the largest file that has some there, letters alone.
fn subject(snapshot: &Snapshot) -> Result<Subject> {
    let mut files: Vec<_> = snapshot.files().iter().collect();
    files.sort_by_key(|file| std::cmp::Reverse(file.bytes));
    for file in files {
        let bytes = snapshot.extract(&file.name, file.bytes / 2, 1 << 16)?;
        let text = String::from_utf8_lossy(&bytes);
        let mut lines = text.split(|letter: char| !letter.is_ascii_alphabetic() && letter != ' ');
        let words = lines.find_map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            // What is cut at both ends may be a part of a word.
            let inner = words.get(1..words.len().saturating_sub(1))?;
            let mut pairs = inner.windows(2);
            pairs
                .find(|pair| pair.iter().all(|word| word.len() > 3))
                .map(|pair| [pair[0], pair[1]].map(str::to_owned))
        });
        if let Some(words) = words {
            return Ok(Subject {
                file: file.name.clone(),
                words,
            });
        }
    }
    Err("no two words follow each other".into())
}
