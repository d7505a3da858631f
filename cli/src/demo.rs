//! `zipf demo`: builds a database from the bundled speeches and shows what it can do.
//!
//! Invariant: apart from times, paths and the sizes of the database's own files, every run of one version prints the
//! same. Every statement that is shown was run as it is shown. A database that was not built to its end is removed.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use zipfdb::ingest::Progress;
use zipfdb::storage::PathText;
use zipfdb::{Database, InterruptHandle, Row, Rows, Value};

use crate::error::Error;
use crate::interrupt::Signals;
use crate::message::{self, grouped};
use crate::output::{Format, LinesWriter, RowPrinter};
use crate::progress::Bars;
use crate::sample::{Speech, speeches};
use crate::session::is_explain;

/// One query of each kind. The extraction depends on the search before it: the offset is one that it finds.
const QUERIES: &[(&str, &str)] = &[
    (
        "What is in the database",
        "SELECT corpus, tokenizer, segments, files, bytes, words FROM corpora()",
    ),
    (
        "Word count: the most frequent words of all files",
        "SELECT word, COUNT(*) AS n FROM sotu GROUP BY word ORDER BY n DESC, word LIMIT 5",
    ),
    (
        "Sort: words in their order, with their counts",
        "SELECT word, COUNT(*) AS n FROM sotu WHERE word GLOB 'free*' GROUP BY word ORDER BY word LIMIT 5",
    ),
    (
        "Inverted index: the files that a word is in",
        "SELECT file, COUNT(*) AS n FROM sotu WHERE word = 'railroads' GROUP BY file ORDER BY file LIMIT 5",
    ),
    (
        "Term vector: the most frequent words of a file",
        "SELECT word, count FROM term_vectors('sotu', 5) WHERE file = '1941-Roosevelt-1.txt' ORDER BY rank",
    ),
    (
        "Sequence count: the most frequent three words in a row",
        "SELECT ngram, COUNT(*) AS n FROM ngrams('sotu', 3) GROUP BY ngram ORDER BY n DESC, ngram LIMIT 5",
    ),
    (
        "Ranked inverted index: the files that have a sequence most often",
        "SELECT ngram, file, COUNT(*) AS n FROM ngrams('sotu', 3) WHERE ngram = 'the American people' \
         GROUP BY ngram, file ORDER BY ngram, n DESC, file LIMIT 5",
    ),
    (
        "Count: one word in one file",
        "SELECT COUNT(word) AS n FROM sotu WHERE file = '1941-Roosevelt-1.txt' AND word = 'freedom'",
    ),
    (
        "Search: where it stands, as byte offsets",
        "SELECT offset FROM sotu WHERE file = '1941-Roosevelt-1.txt' AND word = 'freedom' ORDER BY offset",
    ),
    (
        "Phrase: where words stand in a row",
        "SELECT file, offset FROM ngrams('sotu', 3) WHERE ngram = 'four essential human' ORDER BY file, offset",
    ),
    (
        "Extract: the text around the fifth of the offsets, without unpacking the rest",
        "SELECT substr(content, 17428, 96) AS text FROM files('sotu') WHERE file = '1941-Roosevelt-1.txt'",
    ),
    (
        "How a query is answered",
        "EXPLAIN SELECT word, COUNT(*) AS n FROM sotu GROUP BY word ORDER BY n DESC, word LIMIT 5",
    ),
    (
        "What the compressed text is made of",
        "SELECT segment, tokens, rules, depth, symbols, root_symbols FROM segments('sotu')",
    ),
];

/// Most reruns of a query, which measure its cost when its data is in memory.
const RERUNS: usize = 5;
/// Queries are not run again for longer than this.
const RERUN_TIME: Duration = Duration::from_millis(500);

/// Builds the database and prints the report to `output`, in tables for a terminal of `width` columns.
///
/// Without a directory the database is built in a fresh temporary one, which is kept.
pub fn run(
    directory: Option<&Path>,
    width: Option<u16>,
    output: &mut dyn Write,
    signals: &Signals,
) -> Result<(), Error> {
    let building = signals.begin(InterruptHandle::new());
    let (path, fresh) = match directory {
        Some(path) => (path.to_path_buf(), None),
        None => {
            let fresh = fresh_directory()?;
            (fresh.path().join("sotu.zdb"), Some(fresh))
        }
    };
    refuse_existing(&path)?;
    let existed = path.is_dir();
    let mut demo = Demo {
        speeches: speeches(),
        width,
        output,
        signals,
    };
    let built = demo.heading(&path).and_then(|()| demo.build(&path));
    let time = built.inspect_err(|_| {
        // An error of removing would hide the one that matters.
        let _ = remove_built(&path, existed);
    })?;
    if let Some(fresh) = fresh {
        let _ = fresh.keep();
    }
    drop(building);
    demo.sizes(&path, time)?;
    demo.queries(&path)?;
    demo.farewell(&path)
}

struct Demo<'a> {
    speeches: Vec<Speech>,
    width: Option<u16>,
    output: &'a mut dyn Write,
    signals: &'a Signals,
}

impl Demo<'_> {
    fn heading(&mut self, path: &Path) -> Result<(), Error> {
        self.say(&format!(
            "ZipfDB {} keeps text compressed and answers SQL without unpacking it. This demo builds a database from\n\
             {} speeches on the State of the Union, 1941 to 2026 (works of the US government, public domain), in\n  {}\n",
            env!("CARGO_PKG_VERSION"),
            self.speeches.len(),
            PathText(path)
        ))
    }

    /// Writes the speeches to a temporary directory, imports them from there and closes the database.
    fn build(&mut self, path: &Path) -> Result<Duration, Error> {
        let folder = tempfile::Builder::new()
            .prefix("zipf-speeches-")
            .tempdir()
            .map_err(|source| cannot_write(&std::env::temp_dir(), source))?;
        for speech in &self.speeches {
            let target = folder.path().join(&speech.name);
            fs::write(&target, &speech.text).map_err(|source| cannot_write(&target, source))?;
        }
        let source = PathText(folder.path()).whole().replace('\'', "''");
        let database = open(path)?;
        let begun = Instant::now();
        for statement in [
            "CREATE CORPUS sotu".to_string(),
            format!("COPY sotu FROM '{source}'"),
        ] {
            self.say(&format!("zipf> {statement};"))?;
            self.query(&database, &statement)?;
        }
        // Closing writes the catalog, which is part of the work.
        drop(database);
        Ok(begun.elapsed())
    }

    fn sizes(&mut self, path: &Path, time: Duration) -> Result<(), Error> {
        let database = open(path)?;
        let totals = self.query(&database, "SELECT files, bytes, words FROM corpora()")?;
        drop(database);
        let [
            Value::Integer(files),
            Value::Integer(bytes),
            Value::Integer(words),
        ] = totals.rows.first().map_or(&[][..], Row::values)
        else {
            return Ok(());
        };
        let text: Vec<u8> = self
            .speeches
            .iter()
            .flat_map(|speech| speech.text.bytes())
            .collect();
        let speed = text.len() as f64 / 1e6 / time.as_secs_f64();
        self.say(&format!(
            "{} files, {} bytes, {} words in {}: {speed:.1} MB/s\n",
            grouped(*files as u64),
            grouped(*bytes as u64),
            grouped(*words as u64),
            message::time(time)
        ))?;
        let stored = stored_files(path)?;
        let ours = stored.iter().map(|(_, size)| size).sum();
        let all = text.len() as u64;
        self.say("Size in bytes")?;
        for (name, size) in [
            ("the text", all),
            ("gzip -6", gzip_size(&text)),
            ("xz -6", xz_size(&text)),
            ("ZipfDB, ready to be queried", ours),
        ] {
            let percent = 100.0 * size as f64 / all as f64;
            self.say(&format!(
                "  {name:<28} {:>10}  {percent:>5.1} %",
                grouped(size)
            ))?;
        }
        self.say("of which")?;
        for (name, size) in &stored {
            self.say(&format!("  {name:<28} {:>10}", grouped(*size)))?;
        }
        self.say("")
    }

    fn queries(&mut self, path: &Path) -> Result<(), Error> {
        let database = open(path)?;
        for (title, sql) in QUERIES {
            self.say(&format!("-- {title}\nzipf> {sql};"))?;
            let first = self.query(&database, sql)?;
            self.answer(&first, is_explain(sql))?;
            let mut again: Option<Duration> = None;
            let begun = Instant::now();
            for _ in 0..RERUNS {
                if begun.elapsed().max(first.time) < RERUN_TIME {
                    let time = self.query(&database, sql)?.time;
                    again = Some(again.map_or(time, |best| best.min(time)));
                }
            }
            let again = again.map(|best| format!(", again {}", message::time(best)));
            self.say(&format!(
                "{}{}\n",
                message::time(first.time),
                again.unwrap_or_default()
            ))?;
        }
        Ok(())
    }

    fn farewell(&mut self, path: &Path) -> Result<(), Error> {
        let path = quoted(path);
        self.say(&format!(
            "The database stays. Go on with\n\
             \x20 zipf {path}                  a prompt; .help helps\n\
             \x20 zipf {path} --format json -c \"SELECT file, bytes FROM files('sotu')\"\n\
             \x20 zipf {path} -c \"COPY sotu TO 'speeches'\"      the files, byte for byte\n\
             \x20 zipf my.zdb -c \"CREATE CORPUS c; COPY c FROM 'path/to/text'\"      your own text\n\
             and remove it with\n\
             \x20 rm -r {path}"
        ))?;
        self.output
            .flush()
            .map_err(|source| Error::Output { source })
    }

    /// Runs a statement to its end.
    fn query(&self, database: &Database, sql: &str) -> Result<Answer, Error> {
        let failed = |source| Error::of_statement(source, None, 1);
        self.signals.check()?;
        let _running = self.signals.begin(database.interrupt_handle());
        let begun = Instant::now();
        let bars = Bars::new();
        let rows: Rows = database
            .query_with_progress(sql, (), &bars as &dyn Progress)
            .map_err(failed)?;
        let columns = rows
            .columns()
            .iter()
            .map(|column| column.name().to_string())
            .collect();
        let rows = rows.collect::<Result<Vec<Row>, _>>().map_err(failed)?;
        Ok(Answer {
            columns,
            rows,
            time: begun.elapsed(),
        })
    }

    fn say(&mut self, line: &str) -> Result<(), Error> {
        writeln!(self.output, "{line}").map_err(|source| Error::Output { source })
    }

    fn answer(&mut self, answer: &Answer, is_tree: bool) -> Result<(), Error> {
        let written = |source| Error::Output { source };
        let columns: Vec<&str> = answer.columns.iter().map(String::as_str).collect();
        let mut writer: Box<dyn RowPrinter> = if is_tree {
            Box::new(LinesWriter::new(self.output))
        } else {
            Format::Table.writer(&columns, self.width, self.output)
        };
        for row in &answer.rows {
            writer.row(row.values()).map_err(written)?;
        }
        writer.finish().map_err(written)
    }
}

/// A result that was read to its end.
struct Answer {
    columns: Vec<String>,
    rows: Vec<Row>,
    time: Duration,
}

fn open(path: &Path) -> Result<Database, Error> {
    let opened = Database::options().create(true).open(path);
    opened.map_err(|source| Error::Open {
        source: Box::new(source),
        path: path.to_path_buf(),
    })
}

/// A new directory, which is removed unless it is kept.
fn fresh_directory() -> Result<TempDir, Error> {
    let parent = std::env::temp_dir();
    let created = tempfile::Builder::new()
        .prefix("zipf-demo-")
        .tempdir_in(&parent);
    created.map_err(|source| cannot_write(&parent, source))
}

/// Nothing is built over something else; an empty directory is nothing.
fn refuse_existing(path: &Path) -> Result<(), Error> {
    let is_free = match fs::read_dir(path) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    };
    if is_free {
        return Ok(());
    }
    let is_database = path.join("catalog").is_dir() || path.join("segments").is_dir();
    Err(Error::DemoExists {
        path: path.to_path_buf(),
        is_database,
    })
}

/// Removes what is in a directory, and the directory unless it `existed` before.
fn remove_built(path: &Path, existed: bool) -> io::Result<()> {
    if !existed {
        return fs::remove_dir_all(path);
    }
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// The files of the database by name, with their sizes.
fn stored_files(path: &Path) -> Result<Vec<(String, u64)>, Error> {
    let mut files = Vec::new();
    let mut folders = vec![path.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let cannot_read = |source| Error::File {
            action: "cannot read",
            path: folder.clone(),
            source,
        };
        for entry in fs::read_dir(&folder).map_err(cannot_read)? {
            let entry = entry.map_err(cannot_read)?;
            let metadata = entry.metadata().map_err(cannot_read)?;
            if metadata.is_dir() {
                folders.push(entry.path());
            } else {
                let file = entry.path();
                let name = file.strip_prefix(path).unwrap_or(&file);
                let name = PathText(name).whole();
                files.push((name, metadata.len()));
            }
        }
    }
    files.sort();
    Ok(files)
}

fn gzip_size(text: &[u8]) -> u64 {
    let mut encoder =
        flate2::write::GzEncoder::new(Counter::default(), flate2::Compression::new(6));
    encoder
        .write_all(text)
        .and_then(|()| encoder.finish())
        .expect("counting cannot fail")
        .bytes
}

fn xz_size(text: &[u8]) -> u64 {
    let options = lzma_rust2::XzOptions::with_preset(6);
    let mut encoder =
        lzma_rust2::XzWriter::new(Counter::default(), options).expect("preset 6 exists");
    encoder
        .write_all(text)
        .and_then(|()| encoder.finish())
        .expect("counting cannot fail")
        .bytes
}

/// Counts what is written to it.
#[derive(Default)]
struct Counter {
    bytes: u64,
}

impl Write for Counter {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.bytes += buffer.len() as u64;
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn cannot_write(path: &Path, source: io::Error) -> Error {
    Error::File {
        action: "cannot write",
        path: path.to_path_buf(),
        source,
    }
}

/// A path as a shell takes it.
fn quoted(path: &Path) -> String {
    let path = PathText(path).whole();
    let is_plain = |character: char| character.is_alphanumeric() || "/\\._-:".contains(character);
    if path.chars().all(is_plain) {
        path
    } else {
        format!("'{}'", path.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted_where_a_shell_needs_it() {
        assert_eq!(quoted("/tmp/x-1.zdb".as_ref()), "/tmp/x-1.zdb");
        assert_eq!(quoted("it's my.zdb".as_ref()), "'it'\\''s my.zdb'");
    }

    #[test]
    fn the_extracted_text_is_before_the_fifth_offset() {
        let speech = &speeches()[0];
        assert_eq!(speech.name, "1941-Roosevelt-1.txt");
        assert!(
            speech.text[17_427..]
                .starts_with("a world founded upon four essential human freedoms.")
        );
        assert!(speech.text[17_493..].starts_with("freedom of speech"));
    }

    #[test]
    fn compressors_count_what_the_commands_write() {
        // `gzip -6` writes 28 bytes and `xz -6` 72 for this text.
        let text = "the ".repeat(1_000);
        assert!((25..60).contains(&gzip_size(text.as_bytes())));
        assert!((60..120).contains(&xz_size(text.as_bytes())));
    }
}
