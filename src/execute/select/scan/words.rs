//! The scan of a corpus: words with their files and places, answered on the grammar.
//!
//! Invariant: the rows of every method are those of the plain scan (`reference`), merged where that was allowed. Conditions on
//! words are decided once for each word of the vocabulary, conditions on files once for each file.

use std::time::Instant;

use zipfdb_kernels::FileOrder;
use zipfdb_sql::query::WordsColumn;

use super::super::context::Context;
use super::super::explain::Description;
use super::super::number_keys::{RowKey, RowKeyNumbers, sorted_rows, where_rows_are_sorted};
use super::super::stable_sort::sort_until;
use super::boundary::ScanRequest;
use super::counted::{CountedCursor, CountedWord, add_up, merge, stored_totals};
use super::occurrences::{LookupCursor, NumberCursor, SoughtWords, WindowCursor, WordWindows};
use super::rows::{RowCursor, SequenceScan, SequenceTask};
use super::scan_spec::{ScanSpec, SequenceColumn};
use super::selection::{bytes_of, is_text};
use super::word_tables::{FilePartCursor, LARGE, TableCursor};
use crate::Result;
use crate::answer::access_path::Run;
use crate::answer::{
    CorpusReader, Granularity, Lookups, MergedOrder, PlaceRanges, WordMethod, plan_words,
};
use crate::expression::ColumnFilter;
use crate::runtime::interrupt::check;

/// Plans the scan.
///
/// # Errors
/// If the strategy of SET cannot answer.
pub(super) fn scan(
    reader: CorpusReader,
    request: ScanRequest,
    context: &Context,
) -> Result<SequenceScan> {
    let question = spec(reader, request, context)?;
    let (asked, reader) = (&question.asked, &question.reader);
    let plan = plan_words(asked, reader, context.plan_settings(), &context.interrupt)?;
    let is_large = matches!(plan.method(), WordMethod::FileParts);
    let order = (asked.wanted_order).filter(|order| !is_large && order.of_text().is_some());
    let task = SequenceTask::new(question, order, |question| {
        let words = question.asked.texts.detail();
        let files = &question.asked.files;
        let of_files = if files.is_all() {
            "all files".to_owned()
        } else {
            format!("{} files", files.len())
        };
        Description {
            lines: plan.lines(is_large.then_some(LARGE)),
            ..Description::new("words", format!("{words} in {of_files}"), None)
        }
    });
    let method = plan.into_method();
    Ok(SequenceScan::new(task, move |task| start(task, method)))
}

fn spec(reader: CorpusReader, request: ScanRequest, context: &Context) -> Result<ScanSpec> {
    let schema = WordsColumn::ALL.iter().map(|column| match column {
        WordsColumn::File => SequenceColumn::File,
        WordsColumn::Word => SequenceColumn::Word,
        WordsColumn::Position => SequenceColumn::Position,
        WordsColumn::Offset => SequenceColumn::Offset,
        WordsColumn::Length => SequenceColumn::Length,
    });
    ScanSpec::new(reader, 1, schema.collect(), request, context)
}

/// Adds the look-ups of the scan, if names of files and words define them.
///
/// # Errors
/// If a condition fails.
pub(in super::super) fn lookups(
    lookups: &mut Lookups,
    reader: &CorpusReader,
    request: ScanRequest,
    context: &Context,
) -> Result<()> {
    let is_of_files = |filter: &ColumnFilter| {
        filter.column() == WordsColumn::File as usize && filter.values().is_some()
    };
    if request.filters.iter().any(is_of_files) {
        let question = spec(reader.clone(), request, context)?;
        let words = question.values().unwrap_or_default().iter();
        lookups.add(&question.asked, words.filter_map(bytes_of));
    }
    Ok(())
}

fn start(task: &SequenceTask, method: WordMethod) -> Result<Box<dyn RowCursor>> {
    let question = &task.question;
    let counted = match method {
        WordMethod::Known { file, count } => vec![CountedWord::of_file(file, count)],
        WordMethod::FileTotals => stored_totals(question),
        WordMethod::CountWords(words) => count_words(task, words)?,
        WordMethod::CountInFiles(words) => count_in_files(question, &words)?,
        WordMethod::LookUp { at_once: true } => look_up_at_once(question)?,
        WordMethod::LookUp { at_once: false } => look_up(question)?,
        WordMethod::CountByFile(words) => {
            let found = task.answer(move |view, run| view.files_of_words(&words, run))?;
            of_files(question, |file| {
                let found_file = found.binary_search_by_key(&file, |(file, _)| *file);
                found_file.map_or(0, |at| found[at].1)
            })
        }
        WordMethod::CountSetByFile => {
            let marks = question.wanted_words()?.marks.unwrap_or_default();
            let counts = task.answer(move |view, run| view.word_set_counts(&marks, run))?;
            of_files(question, |file| counts[file as usize])
        }
        WordMethod::Totals | WordMethod::TotalsOfFiles => totals(task)?,
        WordMethod::FileTable => {
            let wanted = question.wanted_words()?;
            let table = task.answer(|view, run| view.file_words(run))?;
            let table = TableCursor::new(table, wanted);
            let is_merged = question.asked.granularity != Granularity::FileWord;
            if !is_merged && task.order.is_none() && task.top.is_none() {
                return Ok(Box::new(table));
            }
            table.into_rows(question)?
        }
        WordMethod::EachFile => each_file(task)?,
        WordMethod::Expand => expand(question)?,
        WordMethod::FileParts => return boxed(FilePartCursor::new(question)?),
        WordMethod::SearchAll(words) => {
            return boxed(LookupCursor::new(question, search_all(task, words)?));
        }
        WordMethod::SearchFiles(word) => {
            return boxed(LookupCursor::new(question, SoughtWords::Unnumbered(word)));
        }
        WordMethod::Search => {
            let sought = SoughtWords::Numbered(looked_up(question)?);
            return boxed(LookupCursor::new(question, sought));
        }
        WordMethod::Numbers => return boxed(NumberCursor::new(question)?),
        WordMethod::Stream => {
            return boxed(WindowCursor::new(question, question.wanted_words()?));
        }
    };
    finish(task, counted)
}

fn boxed(cursor: impl RowCursor + 'static) -> Result<Box<dyn RowCursor>> {
    Ok(Box::new(cursor))
}

/// Merges rows, and returns the used ones, in order.
fn finish(task: &SequenceTask, mut counted: Vec<CountedWord>) -> Result<Box<dyn RowCursor>> {
    let (question, mut pace) = (&task.question, task.question.interrupt().pace());
    let ascends = |left: &CountedWord, right: &CountedWord| left.word() < right.word();
    let is_by_word = question.asked.granularity == Granularity::Word && task.properties.is_unique;
    if is_by_word && !counted.is_sorted_by(ascends) {
        sort_until(&mut counted, &mut pace, |left, right| {
            left.word().cmp(&right.word())
        })?;
        add_up(&mut counted, |left, right| left.word() == right.word());
    }
    merge(&mut counted, question.asked.granularity, &mut pace)?;
    if let Some(top) = task.top {
        top.retain(&mut counted, |row| row.times);
    }
    if let Some(of_files) = task.order.and_then(MergedOrder::of_text) {
        sort_by_bytes(question, &mut counted, of_files)?;
    }
    Ok(CountedCursor::boxed(counted))
}

/// Sorts by the bytes of words, then by their files.
fn sort_by_bytes(
    question: &ScanSpec,
    counted: &mut Vec<CountedWord>,
    of_files: FileOrder,
) -> Result<()> {
    let view = question.view();
    question.ask(|view, _| {
        view.byte_ranks();
        Ok(())
    })?;
    let ranks = view.byte_ranks();
    let mut pace = question.interrupt().pace();
    // For each used word; BLOBs come after all texts.
    let blobs = ranks.len() as u64;
    let mut places = vec![u64::MAX; ranks.len()];
    for row in &*counted {
        pace.step()?;
        let place = &mut places[row.word() as usize];
        if *place == u64::MAX {
            let rank = u64::from(ranks[row.word() as usize]);
            let is_text = is_text(view.word(row.word()));
            *place = if is_text { rank } else { blobs + rank };
        }
    }
    let by_count = of_files == FileOrder::Count;
    let rank = |row: &CountedWord| if by_count { u64::MAX - row.times } else { 0 };
    let place = |row: &CountedWord| places[row.word() as usize];
    if u32::try_from(counted.len()).is_err() {
        return sort_until(counted, &mut pace, |left, right| {
            let key = |row: &CountedWord| (place(row), rank(row), row.file);
            key(left).cmp(&key(right))
        });
    }
    let ranks = by_count.then(|| counted.iter().map(rank).collect());
    let files = counted.iter().map(|row| u64::from(row.file)).collect();
    let numbers = [
        Some(counted.iter().map(place).collect()),
        ranks,
        Some(files),
    ];
    let numbers: Vec<Vec<u64>> = numbers.into_iter().flatten().collect();
    let keys = numbers.iter().map(|numbers| RowKey {
        numbers: RowKeyNumbers::Plain(numbers),
        descending: false,
    });
    let keys: Vec<RowKey<'_>> = keys.collect();
    let (pool, interrupt) = (view.pool(), question.interrupt());
    let order = where_rows_are_sorted(counted.len(), pool, interrupt, |stop| {
        sorted_rows(counted.len(), &keys, stop)
    })?;
    *counted = order.iter().map(|&row| counted[row as usize]).collect();
    Ok(())
}

/// The counts of the wanted files, from those of all.
fn of_files(question: &ScanSpec, count: impl Fn(u32) -> u64) -> Vec<CountedWord> {
    let files = question.asked.files.numbers().iter();
    files
        .map(|&file| CountedWord::of_file(file, count(file)))
        .collect()
}

/// The sum of the counts of each of a few words in all files.
fn count_words(task: &SequenceTask, words: Vec<Vec<u8>>) -> Result<Vec<CountedWord>> {
    let count = task.answer(move |view, run| {
        words.iter().try_fold(0, |sum, word| {
            check(run.stop)?;
            Ok(sum + view.count(word, run)?)
        })
    })?;
    Ok(vec![CountedWord::of_file(0, count)])
}

/// The counts of a few words in each file.
fn count_in_files(question: &ScanSpec, words: &[Vec<u8>]) -> Result<Vec<CountedWord>> {
    let (reader, interrupt) = (&question.reader, question.interrupt());
    let files = question.asked.files.numbers().iter();
    let counted = files.map(|&file| {
        let count = reader.count_sum(file as usize, words, interrupt)?;
        Ok(CountedWord::of_file(file, count))
    });
    counted.collect()
}

/// The numbers of the words that are looked up.
fn looked_up(question: &ScanSpec) -> Result<Vec<u32>> {
    Ok(question.words()?.unwrap_or_default())
}

/// Looks up each word in each file.
fn look_up(question: &ScanSpec) -> Result<Vec<CountedWord>> {
    let (words, view, interrupt) = (looked_up(question)?, question.view(), question.interrupt());
    let mut counted = Vec::new();
    for &file in question.asked.files.numbers() {
        interrupt.check()?;
        for &word in &words {
            let times = (question.reader).count(file as usize, view.word(word), interrupt)?;
            counted.push(CountedWord::new(file, word, times));
        }
    }
    Ok(counted)
}

/// Looks up all words in all files as one batch.
fn look_up_at_once(question: &ScanSpec) -> Result<Vec<CountedWord>> {
    let (words, files) = (
        looked_up(question)?,
        question.asked.files.numbers().to_vec(),
    );
    question.ask(move |view, stop| {
        let pairs = files
            .iter()
            .flat_map(|&file| words.iter().map(move |&word| (file, word)));
        let pairs: Vec<(u32, u32)> = pairs.collect();
        let questions = pairs.iter();
        let questions = questions.map(|&(file, word)| (file as usize, view.word(word)));
        let counts = view.count_each(&questions.collect::<Vec<_>>(), Run::until(stop))?;
        let rows = pairs.into_iter().zip(counts);
        Ok(rows
            .map(|((file, word), times)| CountedWord::new(file, word, times))
            .collect())
    })
}

/// The wanted words with their counts in all wanted files together.
fn totals(task: &SequenceTask) -> Result<Vec<CountedWord>> {
    let (words, some) = (task.question.words()?, task.question.asked.files.some());
    let totals = task.answer(move |view, run| match &some {
        None => view.totals(run),
        Some(files) => view.totals_of_set(files, run),
    })?;
    let count = |word: u32| CountedWord::new(0, word, totals[word as usize]);
    Ok(match words {
        Some(words) => words.into_iter().map(count).collect(),
        // Words are numbered by u32.
        None => (0..totals.len() as u32).map(count).collect(),
    })
}

/// The wanted words of each wanted file.
fn each_file(task: &SequenceTask) -> Result<Vec<CountedWord>> {
    let question = &task.question;
    let wanted = question.wanted_words()?;
    // Look-ups would have taken longer, as they lack a table.
    let is_named = question.asked.texts.named().is_some();
    let mut counted = Vec::new();
    for &file in question.asked.files.numbers() {
        question.interrupt().check()?;
        let row = task.answer(move |view, run| {
            let begin = Instant::now();
            let row = view.totals_of(file as usize, run)?;
            if is_named {
                view.spend_on_counts(file as usize, begin, run.stop)?;
            }
            Ok(row)
        })?;
        let row = row.into_iter().filter(|entry| wanted.has(entry.0));
        counted.extend(row.map(|(word, times)| CountedWord::new(file, word, times)));
    }
    Ok(counted)
}

/// The offsets of words in all files at once, if they are not frequent.
fn search_all(task: &SequenceTask, words: Vec<Vec<u8>>) -> Result<SoughtWords> {
    /// Offsets that take more than 1/`MEMORY_SHARE` of the memory limit are found file by file.
    const MEMORY_SHARE: u64 = 64;
    let question = &task.question;
    let asks_numbers = question.asked.shown.texts;
    let bytes_max = question.context.settings.memory_limit() / MEMORY_SHARE;
    let offsets_max = bytes_max / size_of::<u64>() as u64;
    let sought = words.clone();
    let found = task.answer(move |view, run| {
        if view.count_words(&sought, run)?.iter().sum::<u64>() > offsets_max {
            return Ok(None);
        }
        let found = view.search_words(&sought, run)?.into_iter();
        let numbered = found.zip(&sought).map(|(found, word)| {
            let number = if asks_numbers {
                view.vocabulary()?.find(word)?
            } else {
                None
            };
            // A word that the corpus lacks has no occurrence.
            Ok((number.unwrap_or_default(), found))
        });
        numbered.collect::<Result<Vec<_>>>().map(Some)
    })?;
    Ok(match (found, <[Vec<u8>; 1]>::try_from(words)) {
        (Some(found), _) => SoughtWords::Found(found),
        (None, Ok([word])) if !asks_numbers => SoughtWords::Unnumbered(word),
        (None, _) => SoughtWords::Numbered(looked_up(question)?),
    })
}

/// Counts the words of files by expanding them; words of a file ascend.
fn expand(question: &ScanSpec) -> Result<Vec<CountedWord>> {
    let wanted = question.wanted_words()?;
    question.reader.prepare_words(question.interrupt())?;
    let mut counts = vec![0u64; question.view().vocabulary()?.len()];
    let mut windows = WordWindows::new(question, &PlaceRanges::ALL);
    let (mut counted, mut met, mut current) = (Vec::new(), Vec::new(), None);
    loop {
        let next = windows.next(question)?.map(|window| window[0]);
        let file = next.map(|word| word.file);
        if file != current
            && let Some(file) = std::mem::replace(&mut current, file)
        {
            sort_until(&mut met, &mut question.interrupt().pace(), u32::cmp)?;
            counted.extend(met.drain(..).map(|word| {
                let times = std::mem::take(&mut counts[word as usize]);
                CountedWord::new(file, word, times)
            }));
        }
        let Some(word) = next.map(|word| word.word) else {
            return Ok(counted);
        };
        if wanted.has(word) {
            if counts[word as usize] == 0 {
                met.push(word);
            }
            counts[word as usize] += 1;
        }
    }
}
