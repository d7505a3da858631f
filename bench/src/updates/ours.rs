//! Edits of a ZipfDB corpus, and queries with edits pending.

use std::path::Path;
use std::thread;
use std::time::Instant;

use zipfdb::ingest::NoProgress;

use zipfdb::mixed::Operation;

use zipfdb::{Corpus as Target, Database, Snapshot};

use super::background;
use super::plain::texts;
use super::{COMMITS, EDIT_BYTES, Edits, Figure, Unit, per_second, seconds};
use crate::Result;
use crate::corpus::Corpus;

/// A threshold in bytes that pending edits never reach.
const NO_RECOMPRESSION: u64 = 1 << 40;

/// Bytes of edits in the log that is replayed.
const LOG_BYTES: usize = 64 << 20;

/// Threads that commit at the same time.
const COMMITTERS: usize = 8;

pub fn run(
    corpus: &Corpus,
    edits: &Edits,
    directory: &Path,
    threads: usize,
) -> Result<Vec<Figure>> {
    let path = directory.join("corpus.zdb");
    let open = || Database::options().threads(threads).open(&path);
    let mut database = open()?;
    let mut target = database.corpus("corpus")?;
    target.set_recompress_threshold(NO_RECOMPRESSION)?;
    let names: Vec<&str> = corpus.files.iter().map(|file| &file.name[..]).collect();
    let mut figures = Vec::new();
    let mut push = |name, unit, value| {
        figures.push(Figure {
            name,
            engine: "ours",
            unit,
            value,
        });
    };
    let count = edits.inserts.len();
    let mut expected = texts(corpus)?;

    // Queries, first without edits.
    let one_percent = (corpus.size() / 100 / EDIT_BYTES as u64).max(1) as usize;
    let pending: Vec<(&str, u64, &[u8])> = (edits.inserts.iter().cycle().take(one_percent))
        .map(|insert| (names[insert.file], insert.offset, &insert.text[..]))
        .collect();
    let before = queries(corpus, &target.snapshot()?)?;
    target.insert_many(&pending)?;
    let first = seconds(|| Ok(target.snapshot().map(drop)?))?;
    let after = queries(corpus, &target.snapshot()?)?;
    let one_more = seconds(|| {
        target.append_many(&[(names[0], "one more")])?;
        Ok(target.snapshot().map(drop)?)
    })?;
    push("first snapshot with 1 % pending", Unit::Seconds, first);
    push("one more edit and a snapshot", Unit::Seconds, one_more);
    for ((name, before), (_, after)) in before.into_iter().zip(after) {
        push(name, Unit::Ratio, after / before);
    }
    insert_in_batch(
        &mut expected,
        pending.iter().map(|(name, offset, text)| {
            let file = names.binary_search(name).unwrap_or_default();
            (file, *offset, *text)
        }),
    );
    expected[0].extend(b"one more");
    compare(&target, &names, &expected)?;
    let text_bytes: usize = expected.iter().map(Vec::len).sum();
    let merge = seconds(|| Ok(target.recompress(&NoProgress).map(drop)?))?;
    push(
        "recompression of the corpus",
        Unit::MegabytesPerSecond,
        text_bytes as f64 / 1e6 / merge,
    );
    compare(&target, &names, &expected)?;

    // Edits. Files have only grown, so all places are still in them.
    let batch: Vec<(&str, u64, &[u8])> = (edits.inserts.iter())
        .map(|insert| (names[insert.file], insert.offset, &insert.text[..]))
        .collect();
    let rate = per_second(count, || Ok(target.insert_many(&batch)?))?;
    push("inserts in batch", Unit::PerSecond, rate);
    insert_in_batch(
        &mut expected,
        edits
            .inserts
            .iter()
            .map(|insert| (insert.file, insert.offset, &insert.text[..])),
    );
    let sequence: Vec<Operation<'_>> = (edits.inserts.iter())
        .map(|insert| Operation::Insert {
            file: names[insert.file],
            offset: insert.moved,
            text: &insert.text,
        })
        .collect();
    let rate = per_second(count, || Ok(target.mixed_many(&sequence).map(drop)?))?;
    push("inserts in sequence", Unit::PerSecond, rate);
    for insert in &edits.inserts {
        let at = insert.moved as usize;
        expected[insert.file].splice(at..at, insert.text.iter().copied());
    }
    let appends: Vec<(&str, &[u8])> = (edits.inserts.iter())
        .map(|insert| (names[insert.file], &insert.text[..]))
        .collect();
    let rate = per_second(count, || Ok(target.append_many(&appends)?))?;
    push("appends", Unit::PerSecond, rate);
    for insert in &edits.inserts {
        expected[insert.file].extend(&insert.text);
    }
    let snapshot = seconds(|| Ok(target.snapshot().map(drop)?))?;
    push(
        "first snapshot with all these edits",
        Unit::Seconds,
        snapshot,
    );
    compare(&target, &names, &expected)?;

    let one = [(names[0], &edits.inserts[0].text[..])];
    let rate = per_second(COMMITS, || {
        (0..COMMITS).try_for_each(|_| Ok(target.append_many(&one)?))
    })?;
    push("commits of one row", Unit::PerSecond, rate);
    let rate = per_second(COMMITS * COMMITTERS, || {
        let commit = || (0..COMMITS).try_for_each(|_| target.append_many(&one));
        thread::scope(|scope| {
            let threads: Vec<_> = (0..COMMITTERS).map(|_| scope.spawn(commit)).collect();
            for thread in threads {
                thread.join().map_err(|_| "a committer panicked")??;
            }
            Ok(())
        })
    })?;
    push("commits of one row, 8 threads", Unit::PerSecond, rate);

    let words = words_of(&target.snapshot()?)?;
    let readers = background::readers(&target, &names, &words)?;
    target.set_recompress_threshold(NO_RECOMPRESSION)?;
    target.recompress(&NoProgress)?;
    let long = "appended ".repeat(LOG_BYTES / 9 / 1000);
    for _ in 0..1000 {
        target.append_many(&[(names[0], &long)])?;
    }
    drop((target, database));
    let start = Instant::now();
    database = open()?;
    push(
        "reopening with 64 MiB of log",
        Unit::Seconds,
        start.elapsed().as_secs_f64(),
    );
    target = database.corpus("corpus")?;
    let rate = seconds(|| Ok(target.snapshot().map(drop)?))?;
    push("first snapshot after that", Unit::Seconds, rate);
    figures.extend(readers);
    drop((target, database));
    figures.extend(background::amplification(
        corpus, edits, directory, threads,
    )?);
    Ok(figures)
}

/// Inserts at offsets before any of the inserts; equal ones in their order.
fn insert_in_batch<'a>(
    texts: &mut [Vec<u8>],
    inserts: impl Iterator<Item = (usize, u64, &'a [u8])>,
) {
    let mut by_file: Vec<Vec<(u64, &[u8])>> = vec![Vec::new(); texts.len()];
    for (file, offset, text) in inserts {
        by_file[file].push((offset, text));
    }
    for (text, mut inserts) in texts.iter_mut().zip(by_file) {
        inserts.sort_by_key(|&(offset, _)| offset);
        let mut edited = Vec::with_capacity(text.len() + inserts.len() * EDIT_BYTES);
        let mut done = 0;
        for (offset, inserted) in inserts {
            let at = offset as usize;
            edited.extend_from_slice(&text[done..at]);
            edited.extend_from_slice(inserted);
            done = at;
        }
        edited.extend_from_slice(&text[done..]);
        *text = edited;
    }
}

fn compare(target: &Target, names: &[&str], expected: &[Vec<u8>]) -> Result<()> {
    let snapshot = target.snapshot()?;
    for (name, text) in names.iter().zip(expected) {
        if snapshot.extract(name, 0, u64::MAX)? != *text {
            return Err(format!("{name}: the text is not what it should be").into());
        }
    }
    Ok(())
}

/// All words, the most frequent first.
fn words_of(snapshot: &Snapshot) -> Result<Vec<String>> {
    let counts = snapshot.words()?;
    let words = counts.sorted().into_iter();
    let words = words.map(|(word, _)| String::from_utf8_lossy(word).into_owned());
    Ok(words.collect())
}

/// Seconds that a timed loop lasts at least; shorter queries are repeated, since waking a thread takes longer than one.
const SECONDS_MIN: f64 = 2e-3;

/// Seconds of each kind of query, the best of five.
fn queries(corpus: &Corpus, snapshot: &Snapshot) -> Result<Vec<(&'static str, f64)>> {
    let words = words_of(snapshot)?;
    let files = corpus.files.len();
    let asked: Vec<(&str, &str)> = (0..1000)
        .map(|question| {
            let file = &corpus.files[question * 7919 % files].name;
            // Frequent words and rare ones.
            let word = &words[(question * question * 13) % words.len().min(20_000)];
            (&file[..], &word[..])
        })
        .collect();
    let mut found = Vec::new();
    let mut time = |name, work: &dyn Fn() -> Result<()>| -> Result<()> {
        work()?;
        let times = (SECONDS_MIN / seconds(work)?).ceil().clamp(1.0, 1000.0);
        let mut best = f64::INFINITY;
        for _ in 0..5 {
            best = best.min(seconds(|| (0..times as usize).try_for_each(|_| work()))?);
        }
        found.push((name, best / times));
        Ok(())
    };
    time("1 % pending: word count", &|| {
        Ok(snapshot.words().map(drop)?)
    })?;
    time("1 % pending: sort", &|| {
        drop(snapshot.words()?.sorted());
        Ok(())
    })?;
    time("1 % pending: inverted index", &|| {
        Ok(snapshot.word_files().map(drop)?)
    })?;
    time("1 % pending: term vectors", &|| {
        Ok(snapshot.term_vectors().map(drop)?)
    })?;
    time("1 % pending: sequence count", &|| {
        Ok(snapshot.ngrams(3).map(drop)?)
    })?;
    time("1 % pending: ranked inverted index", &|| {
        Ok(snapshot.ngram_files(3).map(drop)?)
    })?;
    time("1 % pending: count", &|| {
        asked
            .iter()
            .try_for_each(|(file, word)| Ok(snapshot.count_in(file, word).map(drop)?))
    })?;
    time("1 % pending: search", &|| {
        asked
            .iter()
            .try_for_each(|(file, word)| Ok(snapshot.search_in(file, word).map(drop)?))
    })?;
    time("1 % pending: extract 64 B", &|| {
        (asked.iter().zip(0..)).try_for_each(|((file, _), question)| {
            let size = snapshot.file(file).map_or(0, |file| file.bytes);
            Ok(snapshot
                .extract(file, question * 104_729 % size.max(1), 64)
                .map(drop)?)
        })
    })?;
    time("1 % pending: phrase count", &|| {
        (asked.iter().zip(&asked[1..])).try_for_each(|((_, first), (_, second))| {
            Ok(snapshot.phrase_count(&[first, second]).map(drop)?)
        })
    })?;
    Ok(found)
}
