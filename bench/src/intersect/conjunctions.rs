//! Conjunctions asked of whole engines: how many files have all of some words, by ZipfDB, tantivy and SQLite FTS5.
//!
//! Every engine has the same words of the same files, numbered alike: those of ZipfDB's tokenizer, which the others are given as
//! tokens. So every engine must count the same, and does before times are taken. All run on one thread, on indexes that are in the
//! page cache. Files are those of a corpus, and what it is cut into, so that there are enough of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Instant;

use serde_json::Value;
use zipfdb::answers::TermVectors;
use zipfdb::{Database, IngestMode, Snapshot};

use super::{Lists, Suite, mix};
use crate::Result;
use crate::corpus::Corpus;
use crate::engines::{
    Engine, Job, Purpose, database_directory, directory_size, fts5::MatchTable, ours,
    tantivy::TermIndex,
};
use crate::report::{MEGABYTE, Table};

/// Words of a conjunction.
const WORDS: std::ops::RangeInclusive<usize> = 2..=5;

/// Conjunctions of each number of words that are drawn.
const DRAWN: usize = 250;

/// Files in a folder of a corpus that is cut.
const FOLDER_FILES: usize = 1000;

/// Queries that are reported together, as words of a list.
struct Group {
    name: String,
    queries: Vec<Vec<u32>>,
}

/// Microseconds of each query; or of a query of a batch, on average.
struct Latencies(Vec<f64>);

impl Latencies {
    fn at(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let place = (sorted.len() as f64 * share) as usize;
        sorted.get(place).copied().unwrap_or(f64::NAN)
    }
}

impl Suite<'_> {
    /// Conjunctions on the files of a corpus, and on what it is cut into.
    pub(super) fn conjunctions(&mut self, corpus: &Corpus, texts: &[Vec<u8>]) -> Result<()> {
        let titles = ["ZipfDB with text", "its postings", "tantivy", "FTS5"];
        let mut sizes = Table::new("MB", titles);
        let titles = [
            "ZipfDB, counted",
            "its p99",
            "with names",
            "p99 with names",
            "in batches",
            "tantivy",
            "tantivy p99",
            "FTS5",
            "FTS5 p99",
            "queries",
            "found",
        ];
        let mut times = Table::new("us a query", titles);
        self.conjunctions_on("files", corpus, &mut sizes, &mut times)?;
        let pieces = self.options.pieces;
        if pieces > corpus.files.len() {
            let directory = database_directory(&self.options.common)?;
            cut(texts, corpus.size() as usize / pieces, directory.path())?;
            let pieces = Corpus::open(directory.path())?;
            self.conjunctions_on("pieces", &pieces, &mut sizes, &mut times)?;
        }
        self.tables.extend([sizes, times]);
        Ok(())
    }

    fn conjunctions_on(
        &self,
        unit: &str,
        corpus: &Corpus,
        sizes: &mut Table,
        times: &mut Table,
    ) -> Result<()> {
        let common = &self.options.common;
        let directory = database_directory(common)?;
        let own = |name: &str| -> Result<_> {
            let path = directory.path().join(name);
            fs::create_dir(&path)?;
            Ok(path)
        };
        let job = Job {
            engine: Engine::Ours,
            purpose: Purpose::Ingest,
            corpus: corpus.path.clone(),
            directory: own("ours")?,
            threads: common.threads,
        };
        eprintln!("{} {unit}: {}", self.corpus, Engine::Ours.title());
        ours::ingest(&job, corpus, IngestMode::Grammar)?;
        let database = ours::open_to_write(&job.directory, common.threads)?;
        database.execute_batch("CREATE INDEX by_word ON corpus USING postings")?;
        let index_size = number(&database, "SELECT SUM(bytes) FROM indexes('corpus')")?;
        drop(database);
        let files_size = directory_size(&job.directory)?;
        let (database, snapshot) = ours::open(&job.directory, common.threads)?;
        let lists = lists_of(&snapshot)?;
        let vectors = snapshot.term_vectors()?;
        let groups = self.groups(&lists)?;

        eprintln!("{} {unit}: {}", self.corpus, Engine::Tantivy.title());
        let tantivy = own("tantivy")?;
        let term_index = TermIndex::fill(&tantivy, documents(&vectors))?;
        eprintln!("{} {unit}: {}", self.corpus, Engine::Fts5.title());
        let fts5 = own("fts5")?;
        let match_table = MatchTable::fill(&fts5, documents(&vectors))?;
        drop((vectors, snapshot, database));
        let bytes = [
            files_size,
            index_size.unsigned_abs(),
            directory_size(&tantivy)?,
            directory_size(&fts5)?,
        ];
        sizes.row(unit, bytes.map(|bytes| bytes as f64 / MEGABYTE));

        let words: Vec<&[u8]> = lists.by_number();
        let (database, snapshot) = ours::open(&job.directory, 1)?;
        let mut count_matches = match_table.counter()?;
        for group in &groups {
            let of_words = |query: &Vec<u32>| -> Vec<&[u8]> {
                query.iter().map(|&word| words[word as usize]).collect()
            };
            let asked: Vec<Vec<&[u8]>> = group.queries.iter().map(of_words).collect();
            let expected: Vec<u64> = (snapshot.files_with_many(&asked)?.iter())
                .map(|files| files.len() as u64)
                .collect();
            let measure = |name: &str, ask: &mut dyn FnMut(usize) -> Result<u64>| {
                self.latencies(name, &expected, ask)
            };
            let counted = measure("ZipfDB", &mut |query| {
                Ok(snapshot.count_files_with(&asked[query])? as u64)
            })?;
            let named = measure("ZipfDB with names", &mut |query| {
                Ok(snapshot.files_with(&asked[query])?.len() as u64)
            })?;
            let mut seconds: Vec<f64> = Vec::new();
            for _ in 0..self.runs {
                let begin = Instant::now();
                snapshot.files_with_many(&asked)?;
                seconds.push(begin.elapsed().as_secs_f64());
            }
            seconds.sort_by(f64::total_cmp);
            let in_batches = seconds[seconds.len() / 2] * 1e6 / asked.len() as f64;
            let queries: Vec<_> = asked.iter().map(|words| term_index.query(words)).collect();
            let tantivy = measure("tantivy", &mut |query| term_index.count(&queries[query]))?;
            let queries: Vec<String> = asked.iter().map(|words| MatchTable::query(words)).collect();
            let fts5 = measure("FTS5", &mut |query| count_matches(&queries[query]))?;
            let found = Latencies(expected.iter().map(|&count| count as f64).collect());
            let numbers = [
                counted.at(0.5),
                counted.at(0.99),
                named.at(0.5),
                named.at(0.99),
                in_batches,
                tantivy.at(0.5),
                tantivy.at(0.99),
                fts5.at(0.5),
                fts5.at(0.99),
                asked.len() as f64,
                found.at(0.5),
            ];
            times.row(format!("{unit}: {}", group.name), numbers);
        }
        drop((snapshot, database));
        Ok(())
    }

    /// Asks everything once, which has to give the same numbers, and then once for each run: for each query the median.
    fn latencies(
        &self,
        name: &str,
        expected: &[u64],
        ask: &mut dyn FnMut(usize) -> Result<u64>,
    ) -> Result<Latencies> {
        for (query, &count) in expected.iter().enumerate() {
            let found = ask(query)?;
            if found != count {
                return Err(format!("{name} finds {found} files of {count}, query {query}").into());
            }
        }
        let mut times = vec![Vec::with_capacity(self.runs); expected.len()];
        for _ in 0..self.runs {
            for (query, times) in times.iter_mut().enumerate() {
                let begin = Instant::now();
                ask(query)?;
                times.push(begin.elapsed().as_secs_f64() * 1e6);
            }
        }
        let median = |mut times: Vec<f64>| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        };
        Ok(Latencies(times.into_iter().map(median).collect()))
    }

    /// Queries by tag, web queries by number of words, and drawn ones.
    fn groups(&self, lists: &Lists) -> Result<Vec<Group>> {
        let mut groups: BTreeMap<String, Vec<Vec<u32>>> = BTreeMap::new();
        let mut add = |name: &str, mut words: Vec<u32>| {
            words.sort_unstable();
            words.dedup();
            let count = words.len();
            if WORDS.contains(&count) {
                let name = format!("{name}, {count} words");
                groups.entry(name).or_default().push(words);
            }
        };
        if let Some(path) = &self.options.tagged {
            for line in fs::read_to_string(path)?.lines() {
                let query: Value = serde_json::from_str(line)?;
                let tags = query["tags"].as_array().into_iter().flatten();
                let tag = tags
                    .filter_map(Value::as_str)
                    .find_map(|tag| tag.strip_prefix("intersection:"));
                let Some((tag, text)) = tag.zip(query["query"].as_str()) else {
                    continue;
                };
                let words = text.split_whitespace().map(|word| {
                    let word = word.trim_start_matches('+');
                    lists.words.get(word.as_bytes()).copied()
                });
                // A word that no file has would leave nothing to intersect.
                if let Some(words) = words.collect::<Option<Vec<u32>>>() {
                    add(&format!("tag {tag}"), words);
                }
            }
        }
        for words in self.read_queries(lists)? {
            add("web", words);
        }
        let mut state = 0;
        for count in WORDS {
            for _ in 0..DRAWN {
                // Words of postings are drawn, so that frequent words are frequent.
                let words = (0..count).map(|_| {
                    state += 1;
                    let at = (mix(state) % lists.ids.len() as u64) as u32;
                    lists.offsets.partition_point(|&offset| offset <= at) as u32 - 1
                });
                add("drawn", words.collect());
            }
        }
        let groups = groups.into_iter();
        Ok(groups
            .map(|(name, queries)| Group { name, queries })
            .collect())
    }
}

impl Lists {
    /// The words by their numbers.
    fn by_number(&self) -> Vec<&[u8]> {
        let mut words = vec![&[][..]; self.words.len()];
        for (word, &number) in &self.words {
            words[number as usize] = word;
        }
        words
    }
}

/// The lists of all words as a database has them.
fn lists_of(snapshot: &Snapshot) -> Result<Lists> {
    let index = snapshot.word_files()?;
    let mut lists = Lists {
        universe: u32::try_from(snapshot.files().len())?,
        offsets: vec![0],
        ids: Vec::new(),
        counts: Vec::new(),
        words: Default::default(),
    };
    for (number, (word, files)) in (0..).zip(index.iter()) {
        lists.words.insert(word.text(), number);
        lists.ids.extend(files.iter().map(|&(file, _)| file));
        lists.offsets.push(u32::try_from(lists.ids.len())?);
    }
    Ok(lists)
}

/// The words of each file, each once.
fn documents(vectors: &TermVectors) -> impl Iterator<Item = Vec<&[u8]>> {
    (0..vectors.files()).map(|file| vectors.words(file).map(|(word, _)| word).collect())
}

/// The one number that a query gives.
fn number(database: &Database, sql: &str) -> Result<i64> {
    let mut rows = database.query(sql, ())?;
    match rows
        .next()
        .transpose()?
        .map(zipfdb::Row::into_values)
        .as_deref()
    {
        Some([zipfdb::Value::Integer(number)]) => Ok(*number),
        _ => Err(format!("{sql}: no number").into()),
    }
}

/// Cuts texts at ends of lines into pieces of at least `size` bytes, except for the last of a text, and writes each piece as a file.
fn cut(texts: &[Vec<u8>], size: usize, directory: &Path) -> Result<()> {
    let mut count = 0;
    for text in texts {
        let mut rest = &text[..];
        while !rest.is_empty() {
            let from = size.min(rest.len());
            let line = rest[from..].iter().position(|&byte| byte == b'\n');
            let (piece, others) = rest.split_at(line.map_or(rest.len(), |line| from + line + 1));
            rest = others;
            let folder = directory.join(format!("{:05}", count / FOLDER_FILES));
            if count % FOLDER_FILES == 0 {
                fs::create_dir(&folder)?;
            }
            fs::write(folder.join(format!("{:03}", count % FOLDER_FILES)), piece)?;
            count += 1;
        }
    }
    Ok(())
}
