//! The scan of a corpus: words with their files and places, answered on the grammar.
//!
//! Invariant: what a strategy gives equals the plain scan's rows (`reference`), merged where that was allowed. Conditions on
//! words are decided once for each word of the vocabulary, conditions on files once for each file.

use std::time::Instant;

use zipfdb_kernels::FileOrder;
use zipfdb_sql::query::WordsColumn;
use zipfdb_sql::setting::Strategy;

use super::super::context::Context;
use super::super::explain::Description;
use super::super::number_keys::{RowKey, RowKeyNumbers, sorted_rows, where_rows_are_sorted};
use super::super::ordered::sort_until;
use super::boundary::ScanRequest;
use super::counted::{CountedCursor, CountedWord, add_up, merge, stored_totals};
use super::occurrences::{LookupCursor, NumberCursor, SoughtWords, WindowCursor, WordWindows};
use super::plan::{ScanPath, ScanPlan, size_of_segments};
use super::question::{Grain, MergedOrder, ScanQuestion, SequenceColumn};
use super::rows::{RowCursor, SequenceScan, SequenceTask};
use super::selection::{WantedWords, bytes_of, is_text};
use super::word_tables::{FilePartCursor, LARGE, TableCursor, rows_bytes};
use crate::Result;
use crate::answer::CorpusReader;
use crate::answer::PlaceRanges;
use crate::answer::cost::{NUMBER_COST, STREAM_COST, STREAM_COUNT_FACTOR};
use crate::answer::found::FileOffsets;
use crate::answer::path::Run;
use crate::runtime::interrupt::check;

/// Nanoseconds that adding up counts of words by file takes for each word of the files.
const ADD_UP_COST: f64 = 25.0;

/// Nanoseconds that passing over the rows of words that are not wanted takes, for each word of the files.
const PASS_OVER_COST: f64 = 0.4;

/// As many words are counted without the vocabulary.
const FEW_WORDS: usize = 8;

/// Plans the scan.
///
/// # Errors
/// If the strategy that is set cannot answer.
pub(super) fn scan(
    reader: CorpusReader,
    request: ScanRequest,
    context: &Context,
) -> Result<SequenceScan> {
    let schema = WordsColumn::ALL.iter().map(|column| match column {
        WordsColumn::File => SequenceColumn::File,
        WordsColumn::Word => SequenceColumn::Word,
        WordsColumn::Position => SequenceColumn::Position,
        WordsColumn::Offset => SequenceColumn::Offset,
        WordsColumn::Length => SequenceColumn::Length,
    });
    let question = ScanQuestion::new(reader, 1, schema.collect(), request, context)?;
    let (grain, files) = (question.grain, &question.files);
    let forced = context.settings.strategy;
    let mut plan = ScanPlan::of(&question, paths)?;
    if forced.is_none() && question.reader.knows_lookups() {
        plan.prefer(|strategy| strategy == Strategy::Parents);
    }
    let is_large = grain == Grain::FileWord
        && forced.is_none()
        && plan.strategy() != Strategy::Parents
        && rows_bytes(question.view(), files) > context.settings.memory_limit();
    if is_large {
        // Each file on the grammar.
        plan.prefer(|strategy| strategy == Strategy::FileWeights);
    }
    let (values, has_all) = (question.values().map(<[_]>::len), question.has_all_texts());
    let files = (!files.is_all()).then(|| files.len());
    let describe = move || {
        let words = match values {
            Some(values) => format!("{values} words"),
            None if has_all => "all words".to_owned(),
            None => "words by a condition on the dictionary".to_owned(),
        };
        let of_files = files.map_or("all files".to_owned(), |files| format!("{files} files"));
        Description::new("words", format!("{words} in {of_files}"), None)
    };
    let order = question
        .wanted_order
        .filter(|order| !is_large && order.of_text().is_some());
    let large = is_large.then_some(LARGE);
    let task = SequenceTask::new(question, &plan, order, describe, large);
    Ok(SequenceScan::new(task, start))
}

/// The ways to answer.
fn paths(question: &ScanQuestion) -> Result<Vec<ScanPath>> {
    let (grain, files, view) = (question.grain, &question.files, question.view());
    if counted_at_hand(question)?.is_some() {
        // To estimate others would take longer than that. The strategy is for the case that it is gone once rows are made.
        let strategy = match files.is_all() {
            true => Strategy::Weights,
            false => Strategy::Parents,
        };
        return Ok(vec![ScanPath::at_hand(strategy)]);
    }
    let (numbers, words) = (files.numbers(), files.words(view));
    // How many words there are at most, if they are named.
    let few = question.values().map(|words| words.len() as u64);
    let mut paths = Vec::new();
    // Look-ups come first: they are taken where others cost as much.
    if let Some(few) = few {
        paths.push(look_up_path(question, few)?);
    }
    let is_few = few.filter(|&few| few <= FEW_WORDS as u64);
    match grain {
        Grain::All | Grain::File if question.has_all_texts() => {
            paths.push(ScanPath::totals(numbers.len() as u64));
        }
        Grain::All | Grain::Word if files.is_all() => {
            let plan = match is_few {
                Some(few) if grain == Grain::All && !view.has_vocabulary() => {
                    view.plan_counts(few)?
                }
                _ => view.plan_totals()?,
            };
            paths.push(ScanPath::planned(Strategy::Weights, &plan));
        }
        Grain::Word => {
            let plan = view.plan_totals_of_set(numbers)?;
            paths.push(ScanPath::planned(Strategy::Weights, &plan));
        }
        Grain::All | Grain::File => {
            let plan = if is_few.is_some() {
                view.plan_files_of_words()?
            } else {
                view.plan_word_set()?
            };
            paths.push(ScanPath::planned(Strategy::LocalTables, &plan));
        }
        Grain::FileWord | Grain::Occurrence => {}
    }
    if grain != Grain::Occurrence {
        let plan = if question.has_table_of_files() {
            view.plan_file_words()?
        } else {
            view.plan_totals_of(numbers)?
        };
        let path = ScanPath::planned(Strategy::FileWeights, &plan);
        let is_added_up = matches!(grain, Grain::All | Grain::Word) && numbers.len() > 1;
        let cost_of_word = match (is_added_up, question.has_all_texts()) {
            (true, _) => ADD_UP_COST,
            (false, true) => 0.0,
            (false, false) => PASS_OVER_COST,
        };
        paths.push(path.plus(words as f64 * cost_of_word));
    }
    let has_conditions = !question.has_all_texts() || !question.has_all_places();
    let rows_max = question.limit.filter(|_| !has_conditions);
    let stream = ScanPath::stream(view, files, &question.places);
    paths.push(match (grain, rows_max) {
        (Grain::Occurrence, rows) => {
            // A stream stops when enough rows are out.
            let share = rows.map_or(1.0, |rows| rows as f64 / words.max(1) as f64);
            let stream = stream.times(share.min(1.0));
            match numbers_cost(question) {
                Some(cost) => ScanPath::streamed(files, cost.min(stream.cost())),
                None => stream,
            }
        }
        _ => stream.times(STREAM_COUNT_FACTOR),
    });
    Ok(paths)
}

/// Nanoseconds for the words of the files by their numbers alone; none if rows tell more, or where their bytes are is told sooner.
fn numbers_cost(question: &ScanQuestion) -> Option<f64> {
    if !question.has_all_in_positions() || question.columns.contains(&SequenceColumn::Offset) {
        return None;
    }
    let (view, places) = (question.view(), &question.places);
    let words = question.files.words_in(view, places);
    let limit = question.limit.filter(|_| question.has_all_texts());
    let rows = limit.map_or(words, |limit| limit.min(words)) as f64;
    let cost = view.missing_for_numbers(&places.positions) + rows * NUMBER_COST;
    (cost < view.missing_for_stream() + rows * STREAM_COST).then_some(cost)
}

/// Looking up a few words.
fn look_up_path(question: &ScanQuestion, few: u64) -> Result<ScanPath> {
    let (files, view) = (&question.files, question.view());
    let plan = if question.grain == Grain::Occurrence {
        // How often a word occurs is not known before its segment is decoded: Zipf's law gives the middle.
        let tokens = size_of_segments(view).tokens.max(1);
        let occurrences = few * files.words(view) / tokens * 8;
        let asks_position = question.looks_up_positions();
        if is_searched_at_once(question) {
            let plan = view.plan_search_at_once(occurrences)?;
            return Ok(ScanPath::planned(Strategy::Parents, &plan));
        }
        view.plan_search(few, files.numbers(), occurrences, asks_position)?
    } else {
        view.plan_file_counts(few, files.numbers())?
    };
    Ok(ScanPath::planned(Strategy::Parents, &plan))
}

fn start(task: &SequenceTask) -> Result<Box<dyn RowCursor>> {
    let (question, strategy) = (&task.question, task.strategy);
    if matches!(strategy, Strategy::Weights | Strategy::Parents)
        && let Some(counted) = counted_at_hand(question)?
    {
        return finish(task, vec![counted]);
    }
    if let Some(counted) = few_counts(task)? {
        return finish(task, counted);
    }
    if let Some(word) = unnumbered_word(task)? {
        let sought = match search_at_once(task, &word)? {
            Some(found) => SoughtWords::Found(found),
            None => SoughtWords::Unnumbered(word),
        };
        return Ok(Box::new(LookupCursor::new(question, sought)));
    }
    let words = question.words()?;
    if question.grain == Grain::Occurrence {
        return Ok(match (strategy, words) {
            (Strategy::Parents, Some(words)) => {
                let sought = SoughtWords::Numbered(words);
                Box::new(LookupCursor::new(question, sought))
            }
            (_, words) => {
                let wanted = WantedWords::new(question.view(), words)?;
                match numbers_cost(question) {
                    Some(_) => Box::new(NumberCursor::new(question, wanted)),
                    None => Box::new(WindowCursor::new(question, wanted)),
                }
            }
        });
    }
    if strategy == Strategy::Parents {
        return finish(task, look_up(question, &words.unwrap_or_default())?);
    }
    if strategy == Strategy::Weights {
        return finish(task, weights(task, words)?);
    }
    let wanted = WantedWords::new(question.view(), words)?;
    if task.is_large {
        return Ok(Box::new(FilePartCursor::new(question, wanted)));
    }
    let is_table = question.grain == Grain::FileWord
        && strategy == Strategy::FileWeights
        && question.has_table_of_files();
    if is_table && task.order.is_none() && task.top.is_none() {
        let table = task.answer(|view, run| view.file_words(run))?;
        return Ok(Box::new(TableCursor::new(table, wanted)));
    }
    let counted = match strategy {
        Strategy::Totals => stored_totals(question),
        Strategy::LocalTables => local_tables(task, wanted)?,
        Strategy::FileWeights => file_weights(task, &wanted)?,
        _ => expand(question, &wanted)?,
    };
    finish(task, counted)
}

/// Merges rows, and gives those that are used, in order.
fn finish(task: &SequenceTask, mut counted: Vec<CountedWord>) -> Result<Box<dyn RowCursor>> {
    let (question, mut pace) = (&task.question, task.question.interrupt().pace());
    // Weights have one row for each word.
    let has_weights = task.strategy == Strategy::Weights;
    if question.grain == Grain::Word && task.properties.is_unique && !has_weights {
        sort_until(&mut counted, &mut pace, |left, right| {
            left.word().cmp(&right.word())
        })?;
        add_up(&mut counted, |left, right| left.word() == right.word());
    }
    merge(&mut counted, question.grain, &mut pace)?;
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
    question: &ScanQuestion,
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
    // For each word that counts: what is not text is a BLOB, and comes after all texts.
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

/// The words that pass, if they are a few that conditions name: whether the corpus has them is not known.
fn few_words(question: &ScanQuestion) -> Result<Option<Vec<Vec<u8>>>> {
    let Some(values) = question.values().filter(|values| values.len() <= FEW_WORDS) else {
        return Ok(None);
    };
    let mut words: Vec<Vec<u8>> = Vec::new();
    for word in values.iter().filter_map(bytes_of) {
        if question.passes_word(word)? {
            words.push(word.to_vec());
        }
    }
    words.sort_unstable();
    words.dedup();
    Ok(Some(words))
}

/// How often a few words occur in all files or in one, if rows tell no more, whatever way may be taken, and it is told by what is
/// at hand.
fn counted_at_hand(question: &ScanQuestion) -> Result<Option<CountedWord>> {
    let (files, view) = (&question.files, question.view());
    let file = match (question.grain, files.numbers()) {
        (Grain::All, _) if files.is_all() => None,
        (Grain::All | Grain::File, &[file]) if view.can_count_now(file as usize) => Some(file),
        _ => return Ok(None),
    };
    if !question.is_free() {
        return Ok(None);
    }
    let Some(words) = few_words(question)? else {
        return Ok(None);
    };
    match file {
        Some(file) => counted_in_file(question, file, &words).map(Some),
        None => {
            let count = view.count_at_hand(&words)?;
            Ok(count.map(|count| CountedWord::of_file(0, count)))
        }
    }
}

/// How often words occur in a file, all together.
fn counted_in_file(question: &ScanQuestion, file: u32, words: &[Vec<u8>]) -> Result<CountedWord> {
    let interrupt = question.interrupt();
    let mut times = 0;
    for word in words {
        interrupt.check()?;
        times += (question.reader).count(file as usize, word, interrupt)?;
    }
    Ok(CountedWord::of_file(file, times))
}

/// How often a few words occur, in all files together or in each, if rows tell no words and the answer needs no
/// vocabulary.
fn few_counts(task: &SequenceTask) -> Result<Option<Vec<CountedWord>>> {
    /// Files that are asked one by one rather than decoding the dictionary first.
    const FEW_FILES: usize = 16;
    let question = &task.question;
    let has_vocabulary = question.view().has_vocabulary();
    let is_asked = match (question.grain, task.strategy) {
        (Grain::All, Strategy::Weights) => !has_vocabulary,
        (Grain::All | Grain::File, Strategy::Parents) => {
            let is_few = question.files.numbers().len() <= FEW_FILES;
            is_few && !has_vocabulary && !question.view().stored().devices().are_demanded()
        }
        (Grain::All | Grain::File, Strategy::LocalTables) => true,
        _ => false,
    };
    if !is_asked {
        return Ok(None);
    }
    let Some(words) = few_words(question)? else {
        return Ok(None);
    };
    if task.strategy == Strategy::Parents {
        let files = question.files.numbers().iter();
        let counted = files.map(|&file| counted_in_file(question, file, &words));
        return counted.collect::<Result<_>>().map(Some);
    }
    if task.strategy == Strategy::Weights {
        let count = task.answer(move |view, run| {
            words.iter().try_fold(0u64, |sum, word| {
                check(run.stop)?;
                Ok(sum + view.count(word, run)?)
            })
        })?;
        return Ok(Some(vec![CountedWord::of_file(0, count)]));
    }
    let counts = task.answer(move |view, run| view.files_of_words(&words, run))?;
    Ok(Some(of_files(question, &counts)))
}

/// The counts of the files that are wanted, of those of all.
fn of_files(question: &ScanQuestion, counts: &[u64]) -> Vec<CountedWord> {
    let files = question.files.numbers().iter();
    files
        .map(|&file| CountedWord::of_file(file, counts[file as usize]))
        .collect()
}

/// Whether rows are the occurrences of one word and tell only its files and offsets, and the vocabulary is not there.
fn has_unnumbered_word(question: &ScanQuestion) -> bool {
    let numbered = [
        SequenceColumn::Word,
        SequenceColumn::Length,
        SequenceColumn::Position,
    ];
    question.grain == Grain::Occurrence
        && question.values().is_some_and(|words| words.len() == 1)
        && !numbered.iter().any(|&column| question.uses(column))
        && !question.view().has_vocabulary()
}

/// Whether such a word is looked for in all files at once: if it is asked for in many of them.
fn is_searched_at_once(question: &ScanQuestion) -> bool {
    /// Fewer files are asked one by one.
    const FILES_MIN: usize = 16;
    has_unnumbered_word(question)
        && question.files.numbers().len() >= FILES_MIN
        && !question.reader.knows_lookups()
        && !question.view().stored().devices().are_demanded()
}

/// That word, if it is looked up.
fn unnumbered_word(task: &SequenceTask) -> Result<Option<Vec<u8>>> {
    let question = &task.question;
    if task.strategy != Strategy::Parents || !has_unnumbered_word(question) {
        return Ok(None);
    }
    let words = few_words(question)?.unwrap_or_default();
    Ok(<[Vec<u8>; 1]>::try_from(words).ok().map(|[word]| word))
}

/// Where a word stands, in all files at once, if it is not frequent.
fn search_at_once(task: &SequenceTask, word: &[u8]) -> Result<Option<Vec<FileOffsets>>> {
    /// More offsets than fit into 8 MiB are found file by file.
    const OFFSETS_MAX: u64 = 1 << 20;
    if !is_searched_at_once(&task.question) {
        return Ok(None);
    }
    let sought = word.to_vec();
    task.answer(move |view, run| match view.count(&sought, run)? {
        ..=OFFSETS_MAX => view.search(&sought, run).map(Some),
        _ => Ok(None),
    })
}

fn weights(task: &SequenceTask, words: Option<Vec<u32>>) -> Result<Vec<CountedWord>> {
    let files = &task.question.files;
    let some = (!files.is_all()).then(|| files.numbers().to_vec());
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

fn local_tables(task: &SequenceTask, wanted: WantedWords) -> Result<Vec<CountedWord>> {
    let Some(marks) = wanted.marks else {
        return Ok(stored_totals(&task.question));
    };
    let counts = task.answer(move |view, run| view.word_set_counts(&marks, run))?;
    Ok(of_files(&task.question, &counts))
}

fn look_up(question: &ScanQuestion, words: &[u32]) -> Result<Vec<CountedWord>> {
    let (reader, view, interrupt) = (&question.reader, question.view(), question.interrupt());
    if !reader.knows_lookups() && question.view().stored().devices().are_demanded() {
        return look_up_at_once(question, words);
    }
    let mut counted = Vec::new();
    for &file in question.files.numbers() {
        interrupt.check()?;
        for &word in words {
            let times = reader.count(file as usize, view.word(word), interrupt)?;
            counted.push(CountedWord::new(file, word, times));
        }
    }
    Ok(counted)
}

/// Looks up all words in all files as one batch.
fn look_up_at_once(question: &ScanQuestion, words: &[u32]) -> Result<Vec<CountedWord>> {
    let (files, words) = (question.files.numbers().to_vec(), words.to_vec());
    question.ask(move |view, stop| {
        let names = view.files();
        let pairs = files
            .iter()
            .flat_map(|&file| words.iter().map(move |&word| (file, word)));
        let pairs: Vec<(u32, u32)> = pairs.collect();
        let questions = pairs
            .iter()
            .map(|&(file, word)| (&names[file as usize].name[..], view.word(word)));
        let questions: Vec<(&str, &[u8])> = questions.collect();
        let counts = view.count_many(&questions, Run::until(stop))?;
        let rows = pairs.into_iter().zip(counts);
        Ok(rows
            .map(|((file, word), times)| CountedWord::new(file, word, times))
            .collect())
    })
}

fn file_weights(task: &SequenceTask, wanted: &WantedWords) -> Result<Vec<CountedWord>> {
    let question = &task.question;
    let mut counted = Vec::new();
    if question.has_table_of_files() {
        let table = task.answer(|view, run| view.file_words(run))?;
        for file in 0..table.rows() {
            question.interrupt().check()?;
            let row = table.row(file).iter().filter(|entry| wanted.has(entry.0));
            // Files are numbered by u32.
            let count = |&(word, times)| CountedWord::new(file as u32, word, u64::from(times));
            counted.extend(row.map(count));
        }
        return Ok(counted);
    }
    // Look-ups would have taken longer, for they lack a table.
    let is_few = question.values().is_some();
    for &file in question.files.numbers() {
        question.interrupt().check()?;
        let row = task.answer(move |view, run| {
            let begin = Instant::now();
            let row = view.totals_of(file as usize, run)?;
            if is_few {
                view.spend_on_counts(file as usize, begin, run.stop)?;
            }
            Ok(row)
        })?;
        let row = row.into_iter().filter(|entry| wanted.has(entry.0));
        counted.extend(row.map(|(word, times)| CountedWord::new(file, word, times)));
    }
    Ok(counted)
}

/// Counts the words of files by expanding them; words of a file ascend.
fn expand(question: &ScanQuestion, wanted: &WantedWords) -> Result<Vec<CountedWord>> {
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
