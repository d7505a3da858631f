//! The scan of `ngrams('corpus', n)`: sequences of words with their files and places, answered on the grammar.
//!
//! Invariant: what a strategy gives equals the plain scan's rows (`reference`), merged where that was allowed. N-grams told
//! by `=` or `IN` are looked up by their words; other conditions are decided once for each distinct n-gram where rows are
//! merged.

use std::cmp::{Ordering, Reverse};
use std::collections::HashMap;
use std::sync::Arc;

use rayon::prelude::*;
use zipfdb_kernels::FileOrder;
use zipfdb_sql::query::{Collation, NgramsColumn};
use zipfdb_sql::setting::Strategy;

use super::super::context::Context;
use super::super::explain::Description;
use super::super::ordered::sort_until;
use super::super::word_order::text_order;
use super::boundary::ScanRequest;
use super::count_ordered;
use super::counted::{CountedCursor, CountedNgram, add_up, merge, stored_totals};
use super::device_ngrams::DeviceNgramCursor;
use super::large_ngrams::{LargeNgrams, RowsByText};
use super::ngram_tables::{NgramCursor, NgramFileCursor, top_of_files};
use super::occurrences::{NgramPlaces, WindowCursor, WordWindows};
use super::ordered_ngrams::OrderedNgramFileCursor;
use super::plan::{ScanPath, ScanPlan, size_of_segments};
use super::question::{Grain, MergedOrder, ScanQuestion, SequenceColumn};
use super::rows::{RowCursor, SequenceScan, SequenceTask};
use super::selection::{WantedWords, bytes_of, is_text};
use crate::Result;
use crate::answer::cost::{NGRAM_FACTOR, NGRAM_TEXT_COST};
use crate::answer::{
    AllNgrams, CorpusView, CountOrder, FileAnswer, Ngram, NgramAnswer, NgramFileOrder,
    NgramFilePart, NgramOrder, NgramsPart, PhrasePlace, PlaceRanges, SpreadPlan, Top,
};
use crate::api::snapshot::Snapshot;
use crate::batch::TextDictionary;

/// What EXPLAIN says of rows that are made part by part.
const LARGE: &str = "in parts: all rows may take more than memory_limit";

/// Plans the scan of n-grams of `n` words, 1 to 8.
///
/// # Errors
/// If the strategy that is set cannot answer.
pub(super) fn scan(
    snapshot: Snapshot,
    n: u32,
    request: ScanRequest,
    context: &Context,
) -> Result<SequenceScan> {
    let schema = NgramsColumn::ALL.iter().map(|column| match column {
        NgramsColumn::Ngram => SequenceColumn::Ngram,
        NgramsColumn::File => SequenceColumn::File,
        NgramsColumn::Position => SequenceColumn::Position,
        NgramsColumn::Offset => SequenceColumn::Offset,
    });
    let question = ScanQuestion::new(snapshot, n as usize, schema.collect(), request, context)?;
    let mut plan = ScanPlan::of(&question, paths)?;
    let is_large = question.grain != Grain::Occurrence
        && !matches!(plan.strategy(), Strategy::Totals | Strategy::Parents)
        && table_bytes(&question) > context.settings.memory_limit();
    if is_large {
        // Parts come from the grammar.
        plan.prefer(|strategy| matches!(strategy, Strategy::Weights | Strategy::FileWeights));
    }
    let (values, files) = (question.values().map(<[_]>::len), question.files.len());
    let describe = move || {
        let what = match values {
            Some(values) => format!("{values} of {n} words"),
            None => format!("of {n} words"),
        };
        Description::new("n-grams", format!("{what} in {files} files"), None)
    };
    let has_order = |order: &MergedOrder| match order {
        MergedOrder::Text(_) => question.grain == Grain::FileWord,
        // Conditions and bounds on counts leave few n-grams, which are sorted after they were chosen.
        MergedOrder::Count { .. } => question.has_all_texts() && question.top.is_none(),
    };
    let order = (question.wanted_order).filter(|order| !is_large && has_order(order));
    let large = is_large.then_some(LARGE);
    let task = SequenceTask::new(question, &plan, order, describe, large);
    Ok(SequenceScan::new(task, start))
}

/// What a table of n-grams takes at most, as the kernels make it and as rows. There are no more n-grams than places for them;
/// and every one that is not in a rule of its own crosses from one symbol of a body or root to the next.
fn table_bytes(question: &ScanQuestion) -> u64 {
    let n = question.n as u64;
    let places = question.files.words(question.view());
    let distinct = distinct_ngrams(question);
    // The words and a count: twice where tables of segments are merged, else with a row that counts references.
    let entry = size_of::<u32>() as u64 * n + size_of::<u64>() as u64;
    let counted = 2 * entry + (size_of::<u64>() + size_of::<CountedNgram>()) as u64;
    match question.grain {
        Grain::Word => distinct.saturating_mul(2 * entry),
        Grain::FileWord if question.files.is_all() => {
            let pairs = places.saturating_mul(size_of::<(u32, u32)>() as u64);
            distinct.saturating_mul(entry).saturating_add(pairs)
        }
        Grain::All => distinct.saturating_mul(counted),
        _ => places.saturating_mul(counted),
    }
}

/// How many n-grams the files have at most.
fn distinct_ngrams(question: &ScanQuestion) -> u64 {
    let (size, n) = (size_of_segments(question.view()), question.n as u64);
    let places = question.files.words(question.view());
    match n {
        1 => places.min(size.tokens),
        _ => places.min(size.symbols.saturating_mul(n - 1)),
    }
}

/// The ways to answer.
fn paths(question: &ScanQuestion) -> Result<Vec<ScanPath>> {
    let (grain, files, n) = (question.grain, &question.files, question.n);
    let stored = question.view().stored();
    let mut paths = Vec::new();
    if let Some(values) = question.values() {
        let counts_only = files.is_all() && matches!(grain, Grain::All | Grain::Word);
        let plan = stored.plan_phrase(n, counts_only, None)?;
        let few = values.len().max(1) as f64;
        paths.push(ScanPath::planned(Strategy::Parents, &plan).times(few));
    }
    match grain {
        Grain::All | Grain::File if question.has_all_texts() => {
            paths.push(ScanPath::totals(files.len() as u64));
        }
        Grain::All | Grain::Word if files.is_all() => {
            let plan = with_texts(stored.plan_ngrams(n, None)?, question);
            paths.push(ScanPath::planned(Strategy::Weights, &plan));
        }
        Grain::All | Grain::Word => {
            let plan = question.view().plan_ngrams_in(n, files.numbers())?;
            let plan = with_texts(plan, question);
            paths.push(ScanPath::planned(Strategy::Weights, &plan));
            paths.push(of_all_files(question)?);
        }
        Grain::File | Grain::FileWord if !files.is_all() => {
            paths.push(match of_chosen_files(question)? {
                Some(chosen) => chosen,
                None => of_all_files(question)?,
            });
        }
        Grain::File | Grain::FileWord => paths.push(of_all_files(question)?),
        Grain::Occurrence => {}
    }
    let stream = ScanPath::stream(question.view(), files, &question.places);
    paths.push(match grain {
        Grain::Occurrence if question.has_all_texts() => stream,
        // Each window is looked up in a hash table, or its text made.
        _ => stream.times(NGRAM_FACTOR),
    });
    Ok(paths)
}

/// A plan for all n-grams, with what their texts take where conditions look at them.
fn with_texts<'a>(plan: SpreadPlan<'a>, question: &ScanQuestion) -> SpreadPlan<'a> {
    match question.has_all_texts() {
        true => plan,
        false => plan.plus(distinct_ngrams(question) as f64 * NGRAM_TEXT_COST),
    }
}

/// N-grams with their files, those of others left out.
fn of_all_files(question: &ScanQuestion) -> Result<ScanPath> {
    let stored = question.view().stored();
    let plan = with_texts(stored.plan_ngram_files(question.n, None)?, question);
    Ok(ScanPath::planned(Strategy::FileWeights, &plan))
}

/// N-grams of the files that are asked for alone, if that is estimated to be faster than those of all files.
fn of_chosen_files(question: &ScanQuestion) -> Result<Option<ScanPath>> {
    let (view, n) = (question.view(), question.n);
    let all = with_texts(view.stored().plan_ngram_files(n, None)?, question);
    let chosen = view.plan_ngram_files_in(n, question.files.numbers())?;
    let chosen = with_texts(chosen, question);
    let is_chosen = !all.is_demanded() && chosen.cost() < all.cost();
    Ok(is_chosen.then(|| ScanPath::planned(Strategy::FileWeights, &chosen)))
}

fn start(task: &SequenceTask) -> Result<Box<dyn RowCursor>> {
    let (question, grain) = (&task.question, task.question.grain);
    if grain == Grain::Occurrence {
        if task.strategy == Strategy::Parents {
            return found(task);
        }
        // Conditions are those of n-grams.
        let wanted = WantedWords { marks: None };
        return Ok(Box::new(WindowCursor::new(question, wanted)));
    }
    if task.is_large {
        return start_large(task);
    }
    // What passes conditions is known only row by row.
    let top = task.top.filter(|_| question.has_all_texts());
    if task.strategy == Strategy::Weights && grain == Grain::Word && !has_spaces(question)? {
        match (task.order, top) {
            (None, Some(_)) => {
                let parts = counted_ngrams(task, top)?;
                return Ok(Box::new(NgramCursor::new(question, parts)));
            }
            (None, None) => {
                return Ok(match all_ngrams(task, NgramOrder::Words)? {
                    NgramAnswer::Parts(parts) => Box::new(NgramCursor::new(question, parts)),
                    NgramAnswer::OnDevice(rows) => Box::new(DeviceNgramCursor::new(question, rows)),
                });
            }
            (Some(order), _) => {
                if let Some(ordered) = ngrams_by_count(task, order)? {
                    return Ok(ordered);
                }
            }
        }
    }
    let is_table = task.strategy == Strategy::FileWeights && grain == Grain::FileWord;
    if is_table && question.files.is_all() {
        if task.order.is_none() {
            if !has_spaces(question)? {
                return start_file_table(task);
            }
        } else if let Some(ordered) = ordered_files(task)? {
            return Ok(ordered);
        }
    }
    let mut counted = match task.strategy {
        Strategy::Totals => stored_totals(question),
        Strategy::Parents => look_up(task)?,
        Strategy::Weights => weights(task)?,
        Strategy::FileWeights => file_weights(task)?,
        _ => expand(question)?,
    };
    merge(&mut counted, grain, &mut question.interrupt().pace())?;
    if matches!(grain, Grain::Word | Grain::FileWord) {
        merge_texts(question, &mut counted)?;
    }
    if let Some(top) = task.top {
        top.retain(&mut counted, |row| row.times);
    }
    if let Some(order) = task.order {
        sort_rows(question, &mut counted, order)?;
    }
    Ok(CountedCursor::boxed(counted))
}

/// The table of n-grams with their files, or the rows of it that are used.
fn start_file_table(task: &SequenceTask) -> Result<Box<dyn RowCursor>> {
    let (question, n) = (&task.question, task.question.n);
    if let Some(top) = task.top.filter(|_| question.has_all_texts()) {
        let used = task.answer(move |view, run| {
            top_of_files(top, view.top_ngram_files(n, top, run)?, n, run.stop)
        })?;
        return Ok(CountedCursor::boxed(used));
    }
    Ok(match all_with_files(task, NgramFileOrder::Words)? {
        NgramAnswer::Parts(parts) => Box::new(NgramFileCursor::new(question, parts)),
        NgramAnswer::OnDevice(rows) => Box::new(DeviceNgramCursor::with_files(question, rows)),
    })
}

/// N-grams with their files in order of texts, if the ranks of words tell it.
fn ordered_files(task: &SequenceTask) -> Result<Option<Box<dyn RowCursor>>> {
    let question = &task.question;
    let Some(ranks) = ranks_of_texts(question)? else {
        return Ok(None);
    };
    Ok(Some(
        match all_with_files(task, NgramFileOrder::Texts(ranks.clone()))? {
            NgramAnswer::Parts(parts) => {
                Box::new(OrderedNgramFileCursor::new(question, parts, ranks)?)
            }
            NgramAnswer::OnDevice(rows) => Box::new(DeviceNgramCursor::with_files(question, rows)),
        },
    ))
}

/// All n-grams in order of their counts, if the ranks of words tell the order of texts where that is asked for.
fn ngrams_by_count(task: &SequenceTask, order: MergedOrder) -> Result<Option<Box<dyn RowCursor>>> {
    let question = &task.question;
    let MergedOrder::Count {
        descending,
        by_text,
    } = order
    else {
        return Ok(None);
    };
    let ranks = match by_text {
        false => None,
        true => match ranks_of_texts(question)? {
            None => return Ok(None),
            ranks => ranks,
        },
    };
    let order = CountOrder { descending, ranks };
    Ok(Some(
        match all_ngrams(task, NgramOrder::Count(order.clone()))? {
            NgramAnswer::Parts(parts) => count_ordered::by_count(question, parts, &order)?,
            NgramAnswer::OnDevice(rows) => Box::new(DeviceNgramCursor::new(question, rows)),
        },
    ))
}

/// For each word a rank: texts of n-grams compare as the ranks of their words one after the other. None if no ranks tell their
/// order.
fn ranks_of_texts(question: &ScanQuestion) -> Result<Option<Arc<[u32]>>> {
    let words = TextDictionary::words(question.view());
    let on = (question.snapshot.pool(), question.interrupt());
    let order = text_order(&words, true, Collation::Binary, on)?;
    Ok(order.map(|order| order.ranks(&words).unwrap_or_default().into()))
}

/// Rows part by part.
fn start_large(task: &SequenceTask) -> Result<Box<dyn RowCursor>> {
    let question = &task.question;
    let mut rows = LargeNgrams::new(task)?;
    if matches!(question.grain, Grain::Word | Grain::FileWord) {
        if has_spaces(question)? {
            return Ok(Box::new(RowsByText::new(rows, question)?));
        }
        return Ok(Box::new(rows));
    }
    let mut times = vec![0; question.snapshot.files().len().max(1)];
    while let Some(row) = rows.next()? {
        if question.passes_ngram(row.words(question.n))? {
            times[row.file as usize] += row.times;
        }
    }
    // Files are u32.
    let counted = (0..).zip(times).filter(|&(_, times)| times > 0);
    let counted = counted.map(|(file, times)| CountedNgram::of_file(file, times));
    Ok(CountedCursor::boxed(counted.collect()))
}

/// Sorts as values compare: by text and files, or by count.
fn sort_rows(
    question: &ScanQuestion,
    counted: &mut Vec<CountedNgram>,
    order: MergedOrder,
) -> Result<()> {
    let mut pace = question.interrupt().pace();
    let mut texts: Vec<((bool, Vec<u8>), CountedNgram)> = Vec::with_capacity(counted.len());
    for row in counted.drain(..) {
        let text = Ngram::new(question.view(), &row.words).text();
        pace.work(text.len())?;
        // What is not text is a BLOB, and comes after all texts.
        texts.push(((!is_text(&text), text), row));
    }
    let rank = |row: &CountedNgram| match order {
        MergedOrder::Text(FileOrder::File) => Reverse(0),
        MergedOrder::Count {
            descending: false, ..
        } => Reverse(!row.times),
        _ => Reverse(row.times),
    };
    sort_until(&mut texts, &mut pace, |left, right| {
        let by_count = rank(&left.1).cmp(&rank(&right.1));
        let by_text = left.0.cmp(&right.0);
        let [first, second] = match order {
            MergedOrder::Text(_) => [by_text, by_count],
            MergedOrder::Count { .. } => [by_count, by_text],
        };
        first.then(second).then(left.1.file.cmp(&right.1.file))
    })?;
    counted.extend(texts.into_iter().map(|(_, row)| row));
    Ok(())
}

/// Makes one row of each text, or of each text and file. Rows of equal words stand next to each other; different words make
/// the same text only if one holds a space.
fn merge_texts(question: &ScanQuestion, counted: &mut Vec<CountedNgram>) -> Result<()> {
    if question.grain == Grain::Word {
        counted.iter_mut().for_each(|row| row.file = 0);
    }
    if !has_spaces(question)? {
        add_up(counted, |left, right| {
            left.file == right.file && left.words == right.words
        });
        return Ok(());
    }
    let mut pace = question.interrupt().pace();
    let mut same: HashMap<(Vec<u8>, u32), CountedNgram> = HashMap::new();
    for row in counted.drain(..) {
        pace.step()?;
        let text = Ngram::new(question.view(), &row.words).text();
        let times = row.times;
        same.entry((text, row.file))
            .and_modify(|kept| kept.times += times)
            .or_insert(row);
    }
    counted.extend(same.into_values());
    sort_until(counted, &mut pace, by_file_and_words)
}

fn by_file_and_words(left: &CountedNgram, right: &CountedNgram) -> Ordering {
    (left.file, &left.words).cmp(&(right.file, &right.words))
}

/// Whether a word holds a space.
fn has_spaces(question: &ScanQuestion) -> Result<bool> {
    question.ask(|view, _| {
        let vocabulary = view.vocabulary()?;
        // Words are numbered by u32.
        let words = (0..vocabulary.len() as u32).into_par_iter();
        Ok(words.any(|word| vocabulary.word(word).contains(&b' ')))
    })
}

/// The n-grams of the files that are asked for, or those that `top` uses.
fn counted_ngrams(task: &SequenceTask, top: Option<Top>) -> Result<Vec<NgramsPart>> {
    let (files, n) = (&task.question.files, task.question.n);
    let some = (!files.is_all()).then(|| files.numbers().to_vec());
    task.answer(move |view, run| match &some {
        None => view.ngrams(n, top, run),
        Some(files) => view.ngrams_in(n, files, top, run),
    })
}

/// All n-grams of the files that are asked for, in this order if a device has them.
fn all_ngrams(task: &SequenceTask, order: NgramOrder) -> Result<AllNgrams> {
    match task.question.files.is_all() {
        true => {
            let n = task.question.n;
            task.answer(move |view, run| view.ngram_rows(n, order, run))
        }
        false => counted_ngrams(task, None).map(NgramAnswer::Parts),
    }
}

fn weights(task: &SequenceTask) -> Result<Vec<CountedNgram>> {
    let (question, n) = (&task.question, task.question.n);
    let mut counted = Vec::new();
    let mut pace = question.interrupt().pace();
    for part in counted_ngrams(task, None)? {
        for (words, times) in part.into_counted().iter(n) {
            pace.step()?;
            if question.passes_ngram(words)? {
                counted.push(CountedNgram {
                    words: words.into(),
                    file: 0,
                    times,
                });
            }
        }
    }
    Ok(counted)
}

/// N-grams with their files, others than those that are asked for among them.
fn file_table(task: &SequenceTask) -> Result<Vec<NgramFilePart>> {
    let (question, n) = (&task.question, task.question.n);
    if !question.files.is_all() && of_chosen_files(question)?.is_some() {
        let files = question.files.numbers().to_vec();
        return task.answer(move |view, run| view.ngram_files_in(n, &files, run));
    }
    let of_files = order_of_files(task);
    task.answer(move |view, run| view.ngram_files(n, of_files, run))
}

/// All n-grams with the files, of which all are asked for; in this order if a device has them.
fn all_with_files(task: &SequenceTask, rows: NgramFileOrder) -> Result<FileAnswer> {
    let (n, of_files) = (task.question.n, order_of_files(task));
    task.answer(move |view, run| view.ngram_file_rows(n, of_files, rows, run))
}

/// In which order the files of an n-gram are asked for.
fn order_of_files(task: &SequenceTask) -> FileOrder {
    let of_files = task.order.and_then(MergedOrder::of_text);
    of_files.unwrap_or(FileOrder::File)
}

fn file_weights(task: &SequenceTask) -> Result<Vec<CountedNgram>> {
    let question = &task.question;
    let mut counted = Vec::new();
    let mut pace = question.interrupt().pace();
    for part in file_table(task)? {
        let part = part.into_plain();
        for (row, words) in part.words.chunks_exact(question.n).enumerate() {
            pace.step()?;
            let files = part.files.row(row).iter();
            let mut files = files.filter(|entry| question.files.has(entry.0)).peekable();
            if files.peek().is_none() || !question.passes_ngram(words)? {
                continue;
            }
            let words: Arc<[u32]> = words.into();
            counted.extend(files.map(|&(file, times)| CountedNgram {
                words: words.clone(),
                file,
                times: u64::from(times),
            }));
        }
    }
    Ok(counted)
}

/// Counts by expanding the files.
fn expand(question: &ScanQuestion) -> Result<Vec<CountedNgram>> {
    let by_file = matches!(question.grain, Grain::File | Grain::FileWord);
    let mut counts: HashMap<(Arc<[u32]>, u32), u64> = HashMap::new();
    let mut windows = WordWindows::new(question, &PlaceRanges::ALL);
    while let Some(window) = windows.next(question)? {
        let file = if by_file { window[0].file } else { 0 };
        let words: Arc<[u32]> = window.iter().map(|word| word.word).collect();
        *counts.entry((words, file)).or_default() += 1;
    }
    let mut counted = Vec::with_capacity(counts.len());
    let mut pace = question.interrupt().pace();
    for ((words, file), times) in counts {
        pace.step()?;
        if question.passes_ngram(&words)? {
            counted.push(CountedNgram { words, file, times });
        }
    }
    sort_until(&mut counted, &mut pace, by_file_and_words)?;
    Ok(counted)
}

/// Counts n-grams that conditions name.
fn look_up(task: &SequenceTask) -> Result<Vec<CountedNgram>> {
    let question = &task.question;
    let mut counted: Vec<CountedNgram> = Vec::new();
    if question.files.is_all() && matches!(question.grain, Grain::All | Grain::Word) {
        for words in passing(question)? {
            let sought = words.clone();
            let times = task.answer(move |view, run| view.ngram_count(&sought, run))?;
            counted.push(CountedNgram {
                words,
                file: 0,
                times,
            });
        }
        return Ok(counted);
    }
    for (words, PhrasePlace { file, .. }) in places(task)? {
        match counted.last_mut() {
            Some(last) if last.file == file && last.words == words => last.times += 1,
            _ => counted.push(CountedNgram {
                words,
                file,
                times: 1,
            }),
        }
    }
    Ok(counted)
}

/// The occurrences of n-grams that conditions name.
fn found(task: &SequenceTask) -> Result<Box<dyn RowCursor>> {
    let mut found = places(task)?;
    let mut pace = task.question.interrupt().pace();
    sort_until(&mut found, &mut pace, |left, right| left.1.cmp(&right.1))?;
    Ok(Box::new(NgramPlaces(found.into_iter())))
}

/// Where n-grams that conditions name stand in the files, n-gram by n-gram.
fn places(task: &SequenceTask) -> Result<Vec<(Arc<[u32]>, PhrasePlace)>> {
    let question = &task.question;
    let mut found = Vec::new();
    for words in passing(question)? {
        let sought = words.clone();
        let places = task.answer(move |view, run| view.ngram_places(&sought, run))?;
        let places = places
            .into_iter()
            .filter(|place| question.files.has(place.file));
        found.extend(places.map(|place| (words.clone(), place)));
    }
    Ok(found)
}

/// The n-grams that conditions name and whose words the corpus has, if they pass.
fn passing(question: &ScanQuestion) -> Result<Vec<Arc<[u32]>>> {
    let texts = question.values().unwrap_or_default().iter();
    let mut passing: Vec<Vec<u8>> = Vec::new();
    for text in texts.filter_map(bytes_of) {
        if question.passes_text(text)? {
            passing.push(text.to_vec());
        }
    }
    let (n, are_texts_used) = (question.n, question.uses(SequenceColumn::Ngram));
    question.ask(move |view, _| {
        if are_texts_used {
            view.vocabulary()?;
        }
        named(view, &passing, n)
    })
}

/// The n-grams of n words that have these texts and whose words the corpus has.
fn named(view: &CorpusView, texts: &[Vec<u8>], n: usize) -> Result<Vec<Arc<[u32]>>> {
    let mut named = Vec::new();
    for text in texts {
        // A word may hold spaces of its own, so a text can be more than one n-gram. What is left of the text, and the
        // words before it.
        let mut open: Vec<(&[u8], Vec<u32>)> = vec![(text, Vec::new())];
        while let Some((rest, words)) = open.pop() {
            let mut add = |word: &[u8], rest: Option<&'_ [u8]>| -> Result<()> {
                let Some(number) = view.number_of(word)? else {
                    return Ok(());
                };
                let mut words = words.clone();
                words.push(number);
                match rest {
                    None if words.len() == n => named.push(Arc::from(words)),
                    // The text lives as long as the filter.
                    Some(rest) if words.len() < n => {
                        let from = text.len() - rest.len();
                        open.push((&text[from..], words));
                    }
                    _ => {}
                }
                Ok(())
            };
            for (at, _) in rest.iter().enumerate().filter(|(_, byte)| **byte == b' ') {
                add(&rest[..at], Some(&rest[at + 1..]))?;
            }
            add(rest, None)?;
        }
    }
    named.sort_unstable();
    named.dedup();
    Ok(named)
}
