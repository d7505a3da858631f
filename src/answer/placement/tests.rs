//! Spread plans and devices that fail, over devices that count their work.

#![allow(clippy::unwrap_used)]
use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use zipfdb_kernels::FileOrder;
use zipfdb_kernels::gpu::{self, Extract, GpuError, WordQuery};

use super::super::access_path::{Run, RunLog, answer};
use super::super::counted_ngrams::WithCounts;
use super::super::device_partitions::in_batches;
use super::super::frequent_words::FrequentWords;
use super::super::ngram_files::WithFiles;
use super::super::ngram_payload::{
    NgramAnswer, NgramOrder, NgramPayload, NgramQuestion, NgramsPart,
};
use super::super::phrase::{PhraseCount, PhrasePositions};
use super::super::top_k::Top;
use super::super::word_counts::WordTotals;
use super::DeviceOperation;
use crate::ingest::CopyOptions;
use crate::runtime::device::{Kind, OnDevice};
use crate::segment::SegmentView;
use crate::{Corpus, Database, Error};

/// A corpus of some segments; none if there are no devices.
fn pets() -> Option<Database> {
    let texts = ["a", "b", "c"].map(|name| {
        let text = format!("the {name} cat and the dog ").repeat(3000);
        (name.to_owned(), text)
    });
    corpus_of("pets", &texts)
}

/// A corpus of files with these names and texts, in segments of 64 KiB; none if there are no devices.
fn corpus_of(name: &str, texts: &[(String, String)]) -> Option<Database> {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in texts {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let database = Database::in_memory().unwrap();
    if gpu::devices().is_err() {
        // For this database alone: tests beside it work on the CPU.
        let devices = &database.inner().shared().runtime.devices;
        if !devices.open(&gpu::emulated(2)) {
            println!("skipped: no CUDA device");
            return None;
        }
    }
    let create = format!("CREATE CORPUS {name} WITH (segment_size = '64KiB')");
    database
        .execute_batch(&format!("SET device = 'cpu'; {create}"))
        .unwrap();
    let corpus = database.corpus(name).unwrap();
    corpus
        .copy_from(folder.path(), &CopyOptions::default())
        .unwrap();
    database.execute_batch("SET device = 'auto'").unwrap();
    Some(database)
}

#[test]
fn the_cpu_answers_for_a_device_that_fails_unless_that_was_asked_for() {
    let Some(database) = pets() else { return };
    let snapshot = database.corpus("pets").unwrap().snapshot().unwrap();
    let (stored, never, log) = (
        snapshot.view().stored(),
        Arc::new(AtomicBool::new(false)),
        RunLog::default(),
    );
    let segments = stored.segments().len();
    // Enough work to make any device cheaper.
    let ask = || {
        let fails = |_: usize, _: &OnDevice<'_>| {
            Err(Error::Gpu(GpuError::Limit {
                what: "tests",
                items: 2,
                limit: 1,
            }))
        };
        let run = log.until(&never);
        let on_cpu =
            |index: usize| answer::<WordTotals>(&(), &stored.segment_at(index), run).map(|_| "cpu");
        let (places, costs) = (vec![None; segments], vec![0.0; segments]);
        let taken = stored.lookup_places(1 << 40);
        let places = (taken.as_ref()).map_or((Kind::Lookups, &places[..], &costs[..]), |taken| {
            taken.spread()
        });
        stored.spread(places, run, |_| true, on_cpu, fails)
    };
    assert!(segments > 2);
    assert_eq!(ask().unwrap(), vec!["cpu"; segments]);
    let devices = &database.inner().shared().runtime.devices;
    let failures: u64 = devices.all().iter().map(|device| device.failures()).sum();
    assert_eq!(failures, segments as u64);
    assert!(log.line().unwrap().starts_with("ran on: cpu"));
    database.execute_batch("SET device = 'cuda'").unwrap();
    assert!(matches!(ask(), Err(Error::Gpu(_))));
    database.execute_batch("SET device = 'cpu'").unwrap();
    assert_eq!(ask().unwrap(), vec!["cpu"; segments]);
}

#[test]
fn work_on_a_device_ends_when_it_is_stopped() {
    let Some(database) = pets() else { return };
    database.execute_batch("SET device = 'cuda:0'").unwrap();
    let snapshot = database.corpus("pets").unwrap().snapshot().unwrap();
    let stored = snapshot.view().stored();
    let stop = Arc::new(AtomicBool::new(false));
    let begun = AtomicUsize::new(0);
    let on_device = |index: usize, device: &OnDevice<'_>| {
        // The first kernel succeeds; the flag is set before the second.
        stored.segment_at(index).totals_on(device).unwrap();
        begun.fetch_add(1, Ordering::Relaxed);
        stop.store(true, Ordering::Relaxed);
        stored
            .segment_at(index)
            .ngrams_on::<WithCounts>(device, &all_ngrams(2))
    };
    let places = stored.lookup_places(1 << 40).unwrap();
    let run = Run::until(&stop);
    let answer = stored.spread(
        places.spread(),
        run,
        |_| true,
        |_| Ok(NgramAnswer::Parts(Vec::new())),
        on_device,
    );
    assert!(matches!(answer, Err(Error::Interrupted)));
    assert_eq!(begun.into_inner(), 1);
    // The CPU does not take over.
    assert_eq!(
        database.inner().shared().runtime.devices.all()[0].failures(),
        0
    );
    assert_eq!(snapshot.ngrams(2).unwrap().len(), 10);
}

#[test]
fn single_look_ups_run_on_a_device_that_is_demanded() {
    let Some(database) = pets() else { return };
    let statements = [
        "SELECT COUNT(word) FROM pets WHERE file = 'a' AND word = 'cat'",
        "SELECT file, word, COUNT(*) FROM pets WHERE file IN ('a', 'c') AND word IN ('a', 'the') GROUP BY file, word",
        "SELECT offset FROM pets WHERE file = 'b' AND word = 'dog'",
        "SELECT offset FROM pets WHERE file = 'b' AND word = 'cow'",
        "SELECT substr(content, 3, 40) FROM files('pets') WHERE file = 'c'",
        "SELECT COUNT(*) FROM ngrams('pets', 2) WHERE ngram = 'the cat'",
        "SELECT file, position, offset FROM ngrams('pets', 3) WHERE ngram IN ('a dog and', 'the dog and')",
        "SELECT file, offset FROM ngrams('pets', 1) WHERE ngram = 'cat'",
    ];
    let device = &database.inner().shared().runtime.devices.all()[0];
    let ask = |sql: &str| -> Vec<String> {
        let rows = database.query(sql, ()).unwrap();
        rows.map(|row| format!("{:?}", row.unwrap())).collect()
    };
    for _ in 0..2 {
        for sql in statements {
            database.execute_batch("SET device = 'cpu'").unwrap();
            let mut expected = ask(sql);
            database.execute_batch("SET device = 'cuda:0'").unwrap();
            device.limit_memory(Some(0));
            device.limit_memory(None);
            let mut found = ask(sql);
            // A word that no segment has is not searched.
            assert_eq!(device.segments() > 0, !sql.contains("cow"), "{sql}");
            expected.sort_unstable();
            found.sort_unstable();
            assert_eq!(found, expected, "{sql}");
            if !sql.contains("content") {
                let plan = ask(&format!("EXPLAIN {sql}")).concat();
                assert!(
                    plan.contains("path: device (") && plan.contains(device.name()),
                    "{plan}"
                );
            }
        }
        let corpus = database.corpus("pets").unwrap();
        let words = ["cat", "the", "none", "b"];
        let search = |setting: &str| {
            database.execute_batch(setting).unwrap();
            corpus.snapshot().unwrap().search_many(&words).unwrap()
        };
        let expected = search("SET device = 'cpu'");
        device.limit_memory(Some(0));
        device.limit_memory(None);
        assert_eq!(search("SET device = 'cuda:0'"), expected);
        assert!(device.segments() > 0);
        corpus
            .insert_many(&[("a", 8, "cat the "), ("b", 4, "dog "), ("c", 5, "x")])
            .unwrap();
    }
    assert_eq!(device.failures(), 0);
}

#[test]
fn rows_of_all_ngrams_leave_a_device_when_they_are_wanted() {
    // One segment with n-grams for some batches.
    let mut state = 7u32;
    let words = (0..9_000).map(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        format!("w{} ", (state >> 16) % 90)
    });
    let text = ("f".to_owned(), words.collect());
    let Some(database) = corpus_of("one", &[text]) else {
        return;
    };
    let counted = |n: usize, more: &str| {
        format!("SELECT ngram, COUNT(*) AS n FROM ngrams('one', {n}) {more}")
    };
    let statements = [
        counted(3, "GROUP BY ngram ORDER BY n DESC, ngram"),
        counted(2, "GROUP BY ngram ORDER BY n, ngram LIMIT 9 OFFSET 5000"),
        counted(
            2,
            "WHERE ngram LIKE '%w7%' GROUP BY ngram ORDER BY n DESC, ngram",
        ),
        counted(3, "GROUP BY ngram"),
        counted(1, "GROUP BY ngram"),
        counted(3, "WHERE ngram LIKE '%w7%' GROUP BY ngram"),
        format!(
            "SELECT COUNT(*), SUM(n) FROM ({})",
            counted(3, "GROUP BY ngram")
        ),
    ];
    let ask = |sql: &str| -> Vec<String> {
        let rows = database.query(sql, ()).unwrap();
        let mut rows: Vec<String> = rows.map(|row| format!("{:?}", row.unwrap())).collect();
        if !sql.contains("ORDER BY") {
            rows.sort_unstable();
        }
        rows
    };
    for sql in &statements {
        database.execute_batch("SET device = 'cpu'").unwrap();
        let expected = ask(sql);
        database.execute_batch("SET device = 'cuda:0'").unwrap();
        assert_eq!(ask(sql), expected, "{sql}");
    }
    let device = &database.inner().shared().runtime.devices.all()[0];
    let mut rows = database.query(&statements[3], ()).unwrap();
    rows.next().unwrap().unwrap();
    let with_rows = device.memory_used();
    drop(rows);
    // Threads of the pool drop their copies before they do other work.
    let corpus = database.corpus("one").unwrap();
    corpus.snapshot().unwrap().reader().pool().broadcast(|_| ());
    assert!(device.memory_used() < with_rows);
    assert_eq!(device.failures(), 0);
}

#[test]
fn batches_of_words_are_looked_up_in_lists_on_devices() {
    // Word k is in every k-th file, and files are long enough for some segments; one of them is in parts.
    let texts: Vec<(String, String)> = (0..90)
        .map(|file| {
            let words = (1..40).filter(|word| file % word == 0);
            let text: String = words.map(|word| format!("w{word} ")).collect();
            let copies = if file == 60 { 1500 } else { 20 + file };
            (format!("f{file:02}"), text.repeat(copies))
        })
        .collect();
    let Some(database) = corpus_of("numbers", &texts) else {
        return;
    };
    let corpus = database.corpus("numbers").unwrap();
    let queries: Vec<Vec<String>> = (0..200usize)
        .map(|query| {
            let words = (0..query % 5).map(|k| 1 + (query * (7 + k) + 3 * k) % (41 - query / 7));
            words.map(|word| format!("w{word}")).collect()
        })
        .collect();
    let devices = database.inner().shared().runtime.devices.all();
    let run_line = |sql: &str| -> String {
        let rows = database
            .query(&format!("EXPLAIN ANALYZE {sql}"), ())
            .unwrap();
        rows.map(|row| format!("{:?}", row.unwrap())).collect()
    };
    let mut texts = texts;
    for is_edited in [false, true] {
        if is_edited {
            let edits = [
                ("f00", 0, "w39 new "),
                ("f07", 4, "x"),
                ("f60", 9, " w7 w7 "),
            ];
            corpus.insert_many(&edits).unwrap();
            for (name, at, text) in edits {
                let file = texts.iter_mut().find(|(file, _)| file == name).unwrap();
                file.1.insert_str(at as usize, text);
            }
            database
                .execute_batch("DELETE FROM numbers WHERE file = 'f12'")
                .unwrap();
            texts.retain(|(file, _)| file != "f12");
        }
        let expected: Vec<Vec<&str>> = (queries.iter())
            .map(|query| {
                let files = texts.iter().filter(|(_, text)| {
                    let words: Vec<&str> = text.split_whitespace().collect();
                    query.iter().all(|word| words.contains(&&word[..]))
                });
                files.map(|(file, _)| &file[..]).collect()
            })
            .collect();
        let snapshot = corpus.snapshot().unwrap();
        database.execute_batch("SET device = 'cpu'").unwrap();
        assert_eq!(snapshot.files_with_many(&queries).unwrap(), expected);
        assert!(!run_line("SELECT file FROM files_with('numbers', 'w2', 'w3')").contains("cuda"));
        database.execute_batch("SET device = 'cuda'").unwrap();
        assert_eq!(snapshot.files_with_many(&queries).unwrap(), expected);
        let plan = run_line("SELECT file FROM files_with('numbers', 'w2', 'w3')");
        assert!(
            plan.contains("path: device (") && plan.contains("ran on: "),
            "{plan}"
        );
        let ran = plan.split("ran on: ").nth(1).unwrap();
        assert!(
            devices.iter().any(|device| ran.contains(device.name())),
            "{plan}"
        );
    }
    assert!(devices.iter().all(|device| device.failures() == 0));
    let segments = corpus.snapshot().unwrap().view().segments().len() as u64;
    assert!(segments > 2);
    let snapshot = corpus.snapshot().unwrap();
    let plan = snapshot.view().plan_files_of_all(&queries, None).unwrap();
    let (places, _) = plan.places();
    for (place, segment) in places.iter().zip(snapshot.view().stored().segments()) {
        assert!(place.unwrap().holds(segment.residence(), Kind::Lists));
    }
    // With few files no device pays for a batch.
    database.execute_batch("SET device = 'auto'").unwrap();
    let (places, _) = snapshot
        .view()
        .plan_files_of_all(&queries, None)
        .unwrap()
        .places();
    assert!(places.iter().all(Option::is_none));
}

#[test]
fn lists_that_do_not_fit_are_copied_for_some_queries_at_a_time() {
    let texts: Vec<(String, String)> = (0..300)
        .map(|file| {
            let words = (1..60).filter(|word| file % word < 3);
            let text: String = words.map(|word| format!("w{word} ")).collect();
            (format!("f{file:03}"), text)
        })
        .collect();
    let Some(database) = corpus_of("numbers", &texts) else {
        return;
    };
    let queries: Vec<Vec<String>> = (1..60)
        .map(|word| vec![format!("w{word}"), format!("w{}", word * 7 % 60)])
        .collect();
    let snapshot = database.corpus("numbers").unwrap().snapshot().unwrap();
    let expected = snapshot.files_with_many(&queries).unwrap();
    assert!(expected.iter().filter(|files| !files.is_empty()).count() > 20);
    database.execute_batch("SET device = 'cuda:0'").unwrap();
    let device = &database.inner().shared().runtime.devices.all()[0];
    let mut in_parts = 0;
    for limit in (10..24).map(|bits| 1 << bits) {
        device.limit_memory(Some(0));
        device.limit_memory(Some(limit));
        match snapshot.files_with_many(&queries) {
            Ok(found) => {
                assert_eq!(found, expected, "{limit}");
                in_parts += usize::from(device.segments() == 0);
            }
            Err(error) => {
                assert!(matches!(error, Error::Gpu(GpuError::Memory { .. })));
                assert_eq!(in_parts, 0, "{limit}");
            }
        }
    }
    assert!(in_parts > 0 && device.segments() > 0);
}

#[test]
fn segments_are_shared_out_and_stay_where_they_are() {
    let Some(database) = pets() else { return };
    database.execute_batch("SET device = 'cuda'").unwrap();
    let snapshot = database.corpus("pets").unwrap().snapshot().unwrap();
    let devices = database.inner().shared().runtime.devices.all();
    snapshot.ngrams(2).unwrap();
    let held = |device: usize| devices[device].segments();
    let all: u64 = (0..devices.len()).map(held).sum();
    assert_eq!(all, snapshot.view().segments().len() as u64);
    let used = (0..devices.len()).filter(|&device| held(device) > 0);
    assert_eq!(used.count() as u64, all.min(devices.len() as u64));
    let stored = snapshot.view().stored();
    let plan = stored.plan_ngrams::<WithCounts>(2, None).unwrap();
    for (choice, segment) in plan.choices.iter().zip(stored.segments()) {
        let (device, _) = choice.device.unwrap();
        assert!(device.holds(segment.residence(), Kind::Words));
    }
}

#[test]
fn what_was_used_least_recently_makes_room() {
    let Some(database) = pets() else { return };
    database.execute_batch("SET device = 'cuda:0'").unwrap();
    let snapshot = database.corpus("pets").unwrap().snapshot().unwrap();
    let device = &database.inner().shared().runtime.devices.all()[0];
    let segments = snapshot.view().segments();
    let never = Arc::default();
    let use_segment = |index: usize| {
        SegmentView::of(&segments[index])
            .totals_on(&device.until(&never))
            .unwrap()
    };
    (0..segments.len()).for_each(|index| drop(use_segment(index)));
    use_segment(0);
    let used = device.memory_used();
    // A byte less than all of them: one must be evicted, and it is not the one that was used last.
    device.limit_memory(Some(used - 1));
    let holds = |index: usize| device.holds(segments[index].residence(), Kind::Words);
    assert!(holds(0) && !holds(1) && holds(2), "{used}");
}

/// A corpus of random words: `files` has the number of words of each file. Few pairs repeat, so most symbols are in the roots.
fn random_words(database: &Database, name: &str, files: &[usize]) -> Corpus {
    let folder = tempfile::tempdir().unwrap();
    let mut state = 3u64;
    for (file, &words) in files.iter().enumerate() {
        let text = (0..words).map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            format!("w{}", (state >> 33) % 400)
        });
        let text = text.collect::<Vec<_>>().join(" ");
        std::fs::write(folder.path().join(format!("{file:03}")), text).unwrap();
    }
    let create = format!("SET device = 'cpu'; CREATE CORPUS {name}");
    database.execute_batch(&create).unwrap();
    let corpus = database.corpus(name).unwrap();
    corpus
        .copy_from(folder.path(), &CopyOptions::default())
        .unwrap();
    corpus
}

/// Asks a corpus of one segment all questions, with all memory and with a share of what they take.
fn check_parts(database: &Database, corpus: &Corpus, share: (u64, u64)) {
    let words = ["w1", "w22", "w333", "w44", "w155", "none"];
    database.execute_batch("SET device = 'cuda:0'").unwrap();
    let snapshot = corpus.snapshot().unwrap();
    let segment = &snapshot.view().stored().segment_at(0);
    let files = 0..segment.files().unwrap().len() as u32;
    let tokens = words.map(|word| segment.find_word(word.as_bytes()).unwrap());
    let queries = files.clone().flat_map(|file| {
        let tokens = tokens.into_iter().filter(|word| word.first < word.end);
        tokens.map(move |word| WordQuery { word, file })
    });
    let queries: Vec<WordQuery> = queries.cycle().take(1200).collect();
    let mut sorted = queries.clone();
    sorted.sort_by_key(|query| query.file);
    let ranges = files.flat_map(|file| {
        [
            (0, 300),
            (u64::from(file), 7),
            (150, u64::MAX),
            (9000, 9000),
        ]
        .map(|range| Extract {
            file,
            offset: range.0,
            length: range.1,
        })
    });
    let ranges: Vec<Extract> = ranges.collect();
    let device = &database.inner().shared().runtime.devices.all()[0];
    type Ask<'a> = Box<dyn Fn(&OnDevice<'_>) -> crate::Result<String> + 'a>;
    let by_count_question = NgramQuestion {
        rows: Some(NgramOrder::Counts {
            descending: true,
            ranks: None,
        }),
        ..all_ngrams(2)
    };
    let words = segment.word_grammar().unwrap().view().terminal_count;
    // Backwards.
    let ranks: Arc<[u32]> = (0..words).rev().collect();
    type FileRows = Vec<(Vec<u32>, Vec<(u32, u32)>)>;
    let with_files = |on: &OnDevice<'_>, rows, top| -> crate::Result<(bool, FileRows)> {
        let question = NgramQuestion {
            order: FileOrder::Count,
            top,
            rows,
            ..all_ngrams(2)
        };
        let answer = segment.ngrams_on::<WithFiles>(on, &question)?;
        let is_kept = matches!(answer, NgramAnswer::OnDevice(_));
        let mut rows = Vec::new();
        for part in answer.into_parts()?.into_iter().map(NgramsPart::into_plain) {
            let files = (0..part.files.rows()).map(|row| part.files.row(row).to_vec());
            rows.extend(part.words.chunks(2).map(<[u32]>::to_vec).zip(files));
        }
        Ok((is_kept, rows))
    };
    let asks: [Ask<'_>; 16] = [
        Box::new(|on| Ok(format!("{:?}", segment.totals_on(on)?))),
        Box::new(|on| Ok(format!("{:?}", segment.word_files_on(on)?))),
        Box::new(|on| Ok(format!("{:?}", segment.file_words_on(on)?))),
        Box::new(|on| {
            let found = FrequentWords::run_on(&7, segment, on)?;
            assert_eq!(found, segment.file_words_on(on)?.largest(7));
            Ok(format!("{found:?}"))
        }),
        Box::new(|on| {
            Ok(format!(
                "{:?}",
                joined(segment.ngrams_on(on, &all_ngrams(3))?)
            ))
        }),
        Box::new(|on| {
            Ok(format!(
                "{:?}",
                joined(segment.ngrams_on(on, &all_ngrams(8))?)
            ))
        }),
        Box::new(|on| {
            let top = Top {
                limit: 9,
                descending: true,
                counts: (0, 12),
            };
            let question = NgramQuestion {
                top: Some(top),
                ..all_ngrams(2)
            };
            // Parts may return more than is used.
            let (words, counts) = joined(segment.ngrams_on(on, &question)?);
            let mut rows: Vec<_> = words.chunks(2).zip(counts).collect();
            top.retain(&mut rows, |&(_, count)| count);
            let all = joined(segment.ngrams_on(on, &all_ngrams(2))?);
            let mut expected: Vec<_> = all.0.chunks(2).zip(all.1).collect();
            top.retain(&mut expected, |&(_, count)| count);
            assert_eq!(rows, expected);
            Ok(format!("{rows:?}"))
        }),
        Box::new(|on| {
            let answer = segment.ngrams_on(on, &by_count_question)?;
            let is_in_order = matches!(answer, NgramAnswer::OnDevice(_));
            let (words, counts) = joined(answer);
            let mut rows: Vec<_> = counts
                .into_iter()
                .map(Reverse)
                .zip(words.chunks(2))
                .collect();
            assert_eq!(rows.is_sorted(), is_in_order);
            // Parts come in their own order.
            rows.sort_unstable();
            Ok(format!("{rows:?}"))
        }),
        Box::new(|on| Ok(format!("{:?}", with_files(on, None, None)?.1))),
        Box::new(|on| {
            let (is_kept, rows) = with_files(on, Some(NgramOrder::Words), None)?;
            assert!(is_kept || rows.is_sorted_by_key(|row| &row.0));
            Ok(format!("{rows:?}"))
        }),
        Box::new(|on| {
            let top = Top::of_all(5, true);
            let counted = |rows: FileRows| {
                let rows = rows.into_iter().flat_map(|(words, files)| {
                    files.into_iter().map(move |file| (words.clone(), file))
                });
                let mut rows: Vec<_> = rows.collect();
                // Parts may return more than is used.
                top.retain(&mut rows, |&(_, (_, count))| u64::from(count));
                rows
            };
            let rows = counted(with_files(on, None, Some(top))?.1);
            assert_eq!(rows, counted(with_files(on, None, None)?.1));
            Ok(format!("{rows:?}"))
        }),
        Box::new(|on| {
            let of_texts = NgramOrder::Texts(ranks.clone());
            let (is_kept, mut rows) = with_files(on, Some(of_texts), None)?;
            let of_row = |row: &(Vec<u32>, Vec<(u32, u32)>)| {
                let words = row.0.iter();
                words
                    .map(|&word| ranks[word as usize])
                    .collect::<Vec<u32>>()
            };
            assert_eq!(rows.is_sorted_by_key(of_row), is_kept);
            // Parts come in their own order.
            rows.sort_unstable();
            Ok(format!("{rows:?}"))
        }),
        Box::new(|on| {
            let (words, counts) = joined(segment.ngrams_on(on, &all_ngrams(2))?);
            let ngrams = words.chunks(2).zip(counts).step_by(97);
            let mut all = Vec::new();
            for (words, count) in ngrams {
                assert_eq!(PhraseCount::run_on(&words, segment, on)?, count);
                let places = PhrasePositions::run_on(&words, segment, on)?;
                assert_eq!(places.len() as u64, count);
                assert!(places.is_sorted());
                all.push(places);
            }
            Ok(format!("{all:?}"))
        }),
        Box::new(|on| Ok(format!("{:?}", segment.count_on(on, &sorted)?))),
        Box::new(|on| Ok(format!("{:?}", segment.search_on(on, &sorted)?))),
        Box::new(|on| Ok(format!("{:?}", segment.extract_on(on, &ranges)?))),
    ];
    let never = Arc::default();
    for (number, ask) in asks.iter().enumerate() {
        device.limit_memory(Some(0));
        device.limit_memory(None);
        device.take_memory_used_max();
        let whole = ask(&device.until(&never)).unwrap();
        let used = device.take_memory_used_max();
        let limit = used * share.0 / share.1;
        device.limit_memory(Some(0));
        device.limit_memory(Some(limit));
        device.take_memory_used_max();
        let found = ask(&device.until(&never)).unwrap();
        assert_eq!(found, whole, "{number} in {limit} of {used}");
        assert!(device.take_memory_used_max() <= limit);
    }
    // Not even the rules fit.
    device.limit_memory(Some(0));
    device.limit_memory(Some(2000));
    let error = asks[0](&device.until(&never)).unwrap_err().to_string();
    let needed = "bytes of memory are needed at least";
    assert!(error.contains(needed), "{error}");
    device.limit_memory(None);
}

#[test]
fn what_does_not_fit_is_done_in_parts() {
    let Some(database) = pets() else { return };
    let many = random_words(&database, "many", &[100; 70]);
    check_parts(&database, &many, (3, 4));
}

#[test]
fn a_file_that_does_not_fit_is_done_in_parts() {
    let Some(database) = pets() else { return };
    let one = random_words(&database, "one", &[2000]);
    check_parts(&database, &one, (2, 3));
    let few = random_words(&database, "few", &[10, 900, 0, 200]);
    check_parts(&database, &few, (3, 4));
}

fn all_ngrams(n: usize) -> NgramQuestion {
    NgramQuestion {
        set: n.into(),
        order: FileOrder::File,
        top: None,
        rows: None,
        segments: 1,
        memory: usize::MAX,
    }
}

fn joined(answer: NgramAnswer<WithCounts>) -> (Vec<u32>, Vec<u64>) {
    let parts = answer
        .into_parts()
        .unwrap()
        .into_iter()
        .map(NgramsPart::into_plain);
    let parts = parts.map(|part| {
        let counts = WithCounts::counts(&part).collect::<Vec<u64>>();
        (part.words, counts)
    });
    let (words, counts): (Vec<_>, Vec<_>) = parts.unzip();
    (words.concat(), counts.concat())
}

#[test]
fn batches_are_halved_until_they_fit() {
    let questions: Vec<u32> = (0..100).collect();
    let asked = std::cell::RefCell::new(Vec::new());
    let memory = |bytes| {
        Err(Error::Gpu(GpuError::Memory {
            device: "test".into(),
            bytes,
            needed: bytes,
            limit: 0,
        }))
    };
    let ask = |batch: &[u32]| {
        asked.borrow_mut().push(batch.len());
        match batch.len() {
            0..=30 => Ok(batch.to_vec()),
            len => memory(len as u64),
        }
    };
    let mut answers = Vec::new();
    in_batches(&questions, 1, &mut answers, ask).unwrap();
    assert_eq!(answers, questions);
    assert_eq!(*asked.borrow(), [100, 50, 25, 25, 25, 25]);
    let mut answers = Vec::new();
    let found = in_batches(&questions, 40, &mut answers, ask);
    assert!(matches!(found, Err(Error::Gpu(_))) && answers.is_empty());
}

#[test]
fn grammars_are_built_on_devices() {
    let Some(database) = pets() else { return };
    let device = &database.inner().shared().runtime.devices.all()[0];
    assert_eq!(device.take_memory_used_max(), 0);
    database.execute_batch("SET device = 'cuda'").unwrap();
    database.execute_batch("RECOMPRESS pets").unwrap();
    database
        .execute_batch("INSERT INTO pets (file, content) VALUES ('d', 'a new cat')")
        .unwrap();
    database.execute_batch("RECOMPRESS pets").unwrap();
    assert!(device.take_memory_used_max() > 0);
    assert_eq!(device.segments(), 0);
}
