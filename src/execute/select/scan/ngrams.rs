//! The scan of `ngrams('corpus', n)`: sequences of words with their files and places, answered on the grammar.
//!
//! Invariant: the rows of every strategy are those of the plain scan (`reference`), merged where that was allowed. N-grams given
//! by `=` or `IN` are looked up by their words; other conditions are decided once for each distinct n-gram where rows are merged.

use std::collections::HashMap;
use std::sync::Arc;

use rayon::prelude::*;
use zipfdb_kernels::FileOrder;
use zipfdb_sql::query::NgramsColumn;

use super::super::context::Context;
use super::super::explain::Description;
use super::super::stable_sort::sort_until;
use super::boundary::ScanRequest;
use super::counted::{CountedCursor, CountedNgram, merge, stored_totals};
use super::joined_ngrams;
use super::large_ngrams;
use super::ngram_matcher::NgramMatcher;
use super::ngram_rows::{NgramRowPayload, rows_of_parts, rows_on_device};
use super::occurrences::{NgramPlaces, WindowCursor, WordWindows};
use super::odd_ngrams::OddNgrams;
use super::ordered_ngrams;
use super::rows::{RowCursor, SequenceRows, SequenceScan, SequenceTask};
use super::scan_spec::{ScanSpec, SequenceColumn};
use super::selection::{WantedWords, bytes_of};
use super::text_rows::TextRows;
use crate::Result;
use crate::answer::{
    CorpusReader, CorpusView, Granularity, MergedOrder, NgramAnswer, NgramMethod, NgramOrder,
    NgramPayload, NgramRequest, NgramsPart, PhrasePlace, PlaceRanges, Top, WithCounts, WithFiles,
    plan_ngrams,
};
use crate::batch::BATCH_ROWS;

/// The detail of EXPLAIN for rows that are made part by part.
const LARGE: &str = "in parts: all rows may take more than memory_limit";

/// Plans the scan of n-grams of `n` words, 1 to 8.
///
/// # Errors
/// If the strategy of SET cannot answer.
pub(super) fn scan(
    reader: CorpusReader,
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
    let question = ScanSpec::new(reader, n as usize, schema.collect(), request, context)?;
    let asked = &question.asked;
    let plan = plan_ngrams(asked, question.view(), context.plan_settings())?;
    let method = *plan.method();
    let is_large = method == NgramMethod::Parts;
    let has_order = |order: &MergedOrder| match order {
        // Conditions and bounds on counts leave few n-grams, which are sorted after they were chosen.
        MergedOrder::Text(_) => asked.granularity == Granularity::FileWord || asked.texts.is_all(),
        MergedOrder::Count { .. } => asked.texts.is_all() && asked.top.is_none(),
    };
    let order = asked
        .wanted_order
        .filter(|order| !is_large && has_order(order));
    let task = SequenceTask::new(question, order, |question| {
        let (texts, files) = (&question.asked.texts, question.asked.files.len());
        let what = match texts.named() {
            Some(named) => format!("{named} of {n} words"),
            None => format!("of {n} words"),
        };
        Description {
            lines: plan.lines(is_large.then_some(LARGE)),
            ..Description::new("n-grams", format!("{what} in {files} files"), None)
        }
    });
    Ok(SequenceScan::new(task, move |task| start(task, method)))
}

fn start(task: &SequenceTask, method: NgramMethod) -> Result<Box<dyn RowCursor>> {
    let (question, asked) = (&task.question, &task.question.asked);
    let granularity = asked.granularity;
    // Marks of all words pay where all n-grams are decided.
    if !method.looks_up() && asked.has_all_places() {
        question.prepare_ngram_marks()?;
    }
    if granularity == Granularity::Occurrence {
        return match method {
            NgramMethod::LookUpPlaces => found(task),
            // The conditions are those on n-grams.
            _ => Ok(Box::new(WindowCursor::new(
                question,
                WantedWords { marks: None },
            ))),
        };
    }
    let is_by_text = granularity.is_by_text();
    if method.counts_all() && is_by_text {
        // Conditions are only decided row by row.
        let top = task.top.filter(|_| asked.texts.is_all());
        return match OddNgrams::find(task)? {
            None => tables(task, method, top),
            Some(odd) => {
                // Rows that are moved to other places make room for the same number of others among the first.
                let top = top.map(|top| top.with_more(odd.rows_max()));
                Ok(odd.among(tables(task, method, top)?))
            }
        };
    }
    if method.counts_all() {
        return totals(question, tables(task, method, None)?);
    }
    let mut counted = match method {
        NgramMethod::FileTotals => stored_totals(question),
        NgramMethod::LookUpCounts => look_up_counts(task)?,
        NgramMethod::LookUpPlaces => look_up_places(task)?,
        _ => expand(question)?,
    };
    merge(&mut counted, granularity, &mut question.interrupt().pace())?;
    if is_by_text {
        let rows = TextRows::new(question, task.order, |take| {
            (counted.iter()).try_for_each(|row| take((&row.words, row.file, row.times)))
        });
        return Ok(Box::new(rows?));
    }
    Ok(CountedCursor::boxed(counted))
}

/// The rows of n-grams in the order of tables, equal words once, or those of them that `top` uses.
fn tables(
    task: &SequenceTask,
    method: NgramMethod,
    top: Option<Top>,
) -> Result<Box<dyn RowCursor>> {
    let question = &task.question;
    if method == NgramMethod::Parts {
        return large_ngrams::rows(task);
    }
    let order = match task.order {
        None => NgramOrder::Words,
        Some(MergedOrder::Text(_)) => NgramOrder::Texts(ranks_of_texts(question)?),
        Some(MergedOrder::Count {
            descending,
            by_text,
        }) => NgramOrder::Counts {
            descending,
            ranks: by_text.then(|| ranks_of_texts(question)).transpose()?,
        },
    };
    let is_by_file = question.asked.granularity.is_by_file();
    let answer = match method {
        NgramMethod::CountsByFile { chosen } if is_by_file => {
            let answer = counts_by_file(task, chosen, &order, top)?;
            return rows_of(question, answer, &order, |parts| match &order {
                NgramOrder::Texts(ranks) => ordered_ngrams::rows_of(question, parts, ranks.clone()),
                _ => unreachable!("n-grams with files are ordered by text or not at all"),
            });
        }
        NgramMethod::CountsByFile { chosen } => summed_over_files(task, chosen)?,
        _ => {
            let request = NgramRequest {
                files: question.asked.files.some(),
                ..request_of(question.asked.n, &order, top)
            };
            task.answer(move |view, run| view.ngrams::<WithCounts>(request, run))?
        }
    };
    rows_of(question, answer, &order, |parts| {
        joined_ngrams::rows_of(question, parts, &order)
    })
}

/// The rows of an answer in an order; `ordered` sorts parts that come by the numbers of words.
fn rows_of<P: NgramRowPayload>(
    question: &Arc<ScanSpec>,
    answer: NgramAnswer<P>,
    order: &NgramOrder,
    ordered: impl FnOnce(Vec<NgramsPart<P>>) -> Result<Box<dyn RowCursor>>,
) -> Result<Box<dyn RowCursor>> {
    match (answer, order) {
        (NgramAnswer::OnDevice(rows), _) => Ok(rows_on_device::<P>(question, rows)),
        (NgramAnswer::Parts(parts), NgramOrder::Words) => Ok(rows_of_parts(question, parts)),
        (NgramAnswer::Parts(parts), _) => ordered(parts),
    }
}

/// For each word a rank: texts of n-grams without odd words compare as the ranks of their words one after the other.
fn ranks_of_texts(question: &ScanSpec) -> Result<Arc<[u32]>> {
    question.ask(|view, _| {
        view.vocabulary()?;
        Ok(view.byte_ranks().into())
    })
}

/// Adds up the rows of a cursor: all, or by file.
fn totals(question: &ScanSpec, mut cursor: Box<dyn RowCursor>) -> Result<Box<dyn RowCursor>> {
    let mut times = vec![0; question.reader.view().files().len().max(1)];
    let mut has_more = true;
    while has_more {
        question.interrupt().check()?;
        let mut rows = SequenceRows::new(BATCH_ROWS);
        has_more = cursor.fill(question, &mut rows)?;
        for (&file, &more) in rows.files.iter().zip(&rows.times) {
            times[file as usize] += more;
        }
    }
    // Files are u32.
    let counted = (0..).zip(times).filter(|&(_, times)| times > 0);
    let counted = counted.map(|(file, times)| CountedNgram::of_file(file, times));
    Ok(CountedCursor::boxed(counted.collect()))
}

/// The n-grams of the wanted files with their counts in all of these, from their counts by file.
fn summed_over_files(task: &SequenceTask, chosen: bool) -> Result<NgramAnswer<WithCounts>> {
    let (question, n) = (&task.question, task.question.asked.n);
    let parts = counts_by_file(task, chosen, &NgramOrder::Words, None)?.into_parts()?;
    let wanted = question.clone();
    let is_wanted = move |file| wanted.asked.files.has(file);
    let counted = question.ask(move |_, _| {
        let parts = parts.into_par_iter();
        Ok(parts.map(|part| counted_in(part, n, &is_wanted)).collect())
    });
    counted.map(NgramAnswer::Parts)
}

/// All n-grams, in this order if a device has them, or those that `top` uses.
fn request_of(n: usize, order: &NgramOrder, top: Option<Top>) -> NgramRequest {
    NgramRequest {
        rows: top.is_none().then(|| order.clone()),
        top,
        ..NgramRequest::all(n)
    }
}

/// The n-grams of a part in wanted files, with their counts in these.
fn counted_in(
    part: NgramsPart<WithFiles>,
    n: usize,
    is_wanted: &impl Fn(u32) -> bool,
) -> NgramsPart<WithCounts> {
    let part = part.into_plain();
    let (mut words, mut counts) = (Vec::new(), Vec::new());
    for (row, ngram) in part.words.chunks_exact(n).enumerate() {
        let files = part.files.row(row).iter();
        let files = files.filter(|entry| is_wanted(entry.0));
        let times: u64 = files.map(|entry| u64::from(entry.1)).sum();
        if times > 0 {
            words.extend_from_slice(ngram);
            counts.push(times);
        }
    }
    NgramsPart::Plain(WithCounts::table(words, counts))
}

/// N-grams with their files, unless `chosen` perhaps with unwanted ones among them: all, in this order if a device has them, or
/// those that `top` uses.
fn counts_by_file(
    task: &SequenceTask,
    chosen: bool,
    order: &NgramOrder,
    top: Option<Top>,
) -> Result<NgramAnswer<WithFiles>> {
    let asked = &task.question.asked;
    let of_files = task.order.and_then(MergedOrder::of_text);
    let request = NgramRequest {
        files: asked.files.some().filter(|_| chosen),
        order: of_files.unwrap_or(FileOrder::File),
        // Counts in unwanted files would be among the first.
        ..request_of(asked.n, order, top.filter(|_| asked.files.is_all()))
    };
    task.answer(move |view, run| view.ngrams(request, run))
}

/// Counts by expanding the files.
fn expand(question: &ScanSpec) -> Result<Vec<CountedNgram>> {
    let by_file = question.asked.granularity.is_by_file();
    let mut counts: HashMap<(Arc<[u32]>, u32), u64> = HashMap::new();
    let mut windows = WordWindows::new(question, &PlaceRanges::ALL);
    while let Some(window) = windows.next(question)? {
        let file = if by_file { window[0].file } else { 0 };
        let words: Arc<[u32]> = window.iter().map(|word| word.word).collect();
        *counts.entry((words, file)).or_default() += 1;
    }
    let mut counted = Vec::with_capacity(counts.len());
    let (mut pace, mut matcher) = (question.interrupt().pace(), NgramMatcher::new(question));
    for ((words, file), times) in counts {
        pace.step()?;
        if matcher.passes(&words)? {
            counted.push(CountedNgram { words, file, times });
        }
    }
    Ok(counted)
}

/// Counts n-grams named by conditions, in all files together.
fn look_up_counts(task: &SequenceTask) -> Result<Vec<CountedNgram>> {
    let passing = passing(&task.question)?.into_iter();
    let counted = passing.map(|words| {
        let sought = words.clone();
        let times = task.answer(move |view, run| view.ngram_count(&sought, run))?;
        Ok(CountedNgram {
            words,
            file: 0,
            times,
        })
    });
    counted.collect()
}

/// Counts n-grams named by conditions, by file.
fn look_up_places(task: &SequenceTask) -> Result<Vec<CountedNgram>> {
    let mut counted: Vec<CountedNgram> = Vec::new();
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

/// The occurrences of n-grams named by conditions.
fn found(task: &SequenceTask) -> Result<Box<dyn RowCursor>> {
    let mut found = places(task)?;
    let mut pace = task.question.interrupt().pace();
    sort_until(&mut found, &mut pace, |left, right| left.1.cmp(&right.1))?;
    Ok(Box::new(NgramPlaces(found.into_iter())))
}

/// The places of n-grams named by conditions, n-gram by n-gram.
fn places(task: &SequenceTask) -> Result<Vec<(Arc<[u32]>, PhrasePlace)>> {
    let question = &task.question;
    let mut found = Vec::new();
    for words in passing(question)? {
        let sought = words.clone();
        let places = task.answer(move |view, run| view.ngram_places(&sought, run))?;
        let places = places
            .into_iter()
            .filter(|place| question.asked.files.has(place.file));
        found.extend(places.map(|place| (words.clone(), place)));
    }
    Ok(found)
}

/// The n-grams named by conditions whose words the corpus has, if they pass.
fn passing(question: &ScanSpec) -> Result<Vec<Arc<[u32]>>> {
    let texts = question.values().unwrap_or_default().iter();
    let mut passing: Vec<Vec<u8>> = Vec::new();
    for text in texts.filter_map(bytes_of) {
        if question.passes_text(text)? {
            passing.push(text.to_vec());
        }
    }
    let (n, are_texts_used) = (question.asked.n, question.asked.shown.texts);
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
        // A word may hold spaces of its own, so a text can be more than one n-gram: the rest of the text, and the words before
        // it.
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
