//! The scan of `ngrams('corpus', n)`: sequences of words with their files and places, answered on the grammar.
//!
//! Invariant: what a strategy gives equals the plain scan's rows (`reference`), merged where that was allowed. N-grams told
//! by `=` or `IN` are looked up by their words; other conditions are decided once for each distinct n-gram where rows are
//! merged.

use std::collections::HashMap;
use std::sync::Arc;

use rayon::prelude::*;
use zipfdb_kernels::FileOrder;
use zipfdb_sql::query::NgramsColumn;
use zipfdb_sql::setting::Strategy;

use super::super::context::Context;
use super::super::explain::Description;
use super::super::ordered::sort_until;
use super::boundary::ScanRequest;
use super::counted::{CountedCursor, CountedNgram, merge, stored_totals};
use super::large_ngrams;
use super::ngram_matcher::NgramMatcher;
use super::ngram_rows::{NgramRowPayload, rows_of_parts, rows_on_device};
use super::occurrences::{NgramPlaces, WindowCursor, WordWindows};
use super::odd_ngrams::OddNgrams;
use super::ordered_ngrams;
use super::plan::{ScanPath, ScanPlan, size_of_segments};
use super::question::{Grain, MergedOrder, ScanQuestion, SequenceColumn};
use super::rows::{RowCursor, SequenceRows, SequenceScan, SequenceTask};
use super::selection::{WantedWords, bytes_of};
use super::text_rows::TextRows;
use crate::Result;
use crate::answer::CorpusReader;
use crate::answer::cost::{NGRAM_FACTOR, NGRAM_TEXT_COST};
use crate::answer::{
    CorpusView, CountedNgrams, NgramAnswer, NgramOrder, NgramRequest, NgramsPart, PhrasePlace,
    PlaceRanges, SpreadPlan, Top, WithCounts, WithFiles,
};
use crate::batch::BATCH_ROWS;

/// What EXPLAIN says of rows that are made part by part.
const LARGE: &str = "in parts: all rows may take more than memory_limit";

/// Plans the scan of n-grams of `n` words, 1 to 8.
///
/// # Errors
/// If the strategy that is set cannot answer.
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
    let question = ScanQuestion::new(reader, n as usize, schema.collect(), request, context)?;
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
        // Conditions and bounds on counts leave few n-grams, which are sorted after they were chosen.
        MergedOrder::Text(_) => question.grain == Grain::FileWord || question.has_all_texts(),
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
            let plan = with_texts(stored.plan_ngrams::<WithCounts>(n, None)?, question);
            paths.push(ScanPath::planned(Strategy::Weights, &plan));
        }
        Grain::All | Grain::Word => {
            let plan = question
                .view()
                .plan_ngrams_in::<WithCounts>(n, files.numbers())?;
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
    let plan = with_texts(stored.plan_ngrams::<WithFiles>(question.n, None)?, question);
    Ok(ScanPath::planned(Strategy::FileWeights, &plan))
}

/// N-grams of the files that are asked for alone, if that is estimated to be faster than those of all files.
fn of_chosen_files(question: &ScanQuestion) -> Result<Option<ScanPath>> {
    let (view, n) = (question.view(), question.n);
    let all = with_texts(view.stored().plan_ngrams::<WithFiles>(n, None)?, question);
    let chosen = view.plan_ngrams_in::<WithFiles>(n, question.files.numbers())?;
    let chosen = with_texts(chosen, question);
    let is_chosen = !all.is_demanded() && chosen.cost() < all.cost();
    Ok(is_chosen.then(|| ScanPath::planned(Strategy::FileWeights, &chosen)))
}

fn start(task: &SequenceTask) -> Result<Box<dyn RowCursor>> {
    let (question, grain) = (&task.question, task.question.grain);
    // A look at all words pays where all n-grams are decided.
    if task.strategy != Strategy::Parents && question.has_all_places() {
        question.prepare_ngram_marks()?;
    }
    let is_table =
        task.is_large || matches!(task.strategy, Strategy::Weights | Strategy::FileWeights);
    match grain {
        Grain::Occurrence if task.strategy == Strategy::Parents => found(task),
        // Conditions are those of n-grams.
        Grain::Occurrence => Ok(Box::new(WindowCursor::new(
            question,
            WantedWords { marks: None },
        ))),
        Grain::Word | Grain::FileWord if is_table => {
            // What passes conditions is known only row by row.
            let top = task.top.filter(|_| question.has_all_texts());
            match OddNgrams::find(task)? {
                None => tables(task, top),
                Some(odd) => {
                    // Those that are put in places of their own leave as many others among the first.
                    let top = top.map(|top| top.with_more(odd.rows_max()));
                    Ok(odd.among(tables(task, top)?))
                }
            }
        }
        Grain::All | Grain::File if is_table => totals(question, tables(task, None)?),
        _ => {
            let mut counted = match task.strategy {
                Strategy::Totals => stored_totals(question),
                Strategy::Parents => look_up(task)?,
                _ => expand(question)?,
            };
            merge(&mut counted, grain, &mut question.interrupt().pace())?;
            if matches!(grain, Grain::Word | Grain::FileWord) {
                let rows = TextRows::new(question, task.order, |take| {
                    (counted.iter()).try_for_each(|row| take((&row.words, row.file, row.times)))
                });
                return Ok(Box::new(rows?));
            }
            Ok(CountedCursor::boxed(counted))
        }
    }
}

/// The rows of n-grams as tables have them, equal words once, or those of them that `top` uses.
fn tables(task: &SequenceTask, top: Option<Top>) -> Result<Box<dyn RowCursor>> {
    let question = &task.question;
    if task.is_large {
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
    match question.grain {
        Grain::File | Grain::FileWord => {
            let answer = ngrams_with_files(task, &order, top)?;
            rows_of(question, answer, order)
        }
        _ => rows_of(question, counted_ngrams(task, &order, top)?, order),
    }
}

/// The rows of an answer in an order.
fn rows_of<P: NgramRowPayload>(
    question: &Arc<ScanQuestion>,
    answer: NgramAnswer<P>,
    order: NgramOrder,
) -> Result<Box<dyn RowCursor>> {
    match (answer, order) {
        (NgramAnswer::OnDevice(rows), _) => Ok(rows_on_device::<P>(question, rows)),
        (NgramAnswer::Parts(parts), NgramOrder::Words) => Ok(rows_of_parts(question, parts)),
        (NgramAnswer::Parts(parts), order) => ordered_ngrams::rows_of(question, parts, order),
    }
}

/// For each word a rank: texts of n-grams without odd words compare as the ranks of their words one after the other.
fn ranks_of_texts(question: &ScanQuestion) -> Result<Arc<[u32]>> {
    question.ask(|view, _| {
        view.vocabulary()?;
        Ok(view.byte_ranks().into())
    })
}

/// Adds up the rows of a cursor: all, or by file.
fn totals(question: &ScanQuestion, mut cursor: Box<dyn RowCursor>) -> Result<Box<dyn RowCursor>> {
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

/// The n-grams of the files that are asked for: all, in this order if a device has them, or those that `top` uses.
fn counted_ngrams(
    task: &SequenceTask,
    order: &NgramOrder,
    top: Option<Top>,
) -> Result<NgramAnswer<WithCounts>> {
    let (question, n) = (&task.question, task.question.n);
    if !question.files.is_all() && task.strategy == Strategy::FileWeights {
        let parts = ngrams_with_files(task, &NgramOrder::Words, None)?.into_parts()?;
        let wanted = question.clone();
        let is_wanted = move |file| wanted.files.has(file);
        let counted = question.ask(move |_, _| {
            let parts = parts.into_par_iter();
            Ok(parts.map(|part| counted_in(part, n, &is_wanted)).collect())
        });
        return counted.map(NgramAnswer::Parts);
    }
    let request = NgramRequest {
        files: (!question.files.is_all()).then(|| question.files.numbers().to_vec()),
        ..request_of(n, order, top)
    };
    task.answer(move |view, run| view.ngrams(request, run))
}

/// All n-grams, in this order if a device has them, or those that `top` uses.
fn request_of(n: usize, order: &NgramOrder, top: Option<Top>) -> NgramRequest {
    NgramRequest {
        rows: top.is_none().then(|| order.clone()),
        top,
        ..NgramRequest::all(n)
    }
}

/// The n-grams of a part that wanted files have, with their counts in these.
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
    NgramsPart::Plain(CountedNgrams { words, counts })
}

/// N-grams with their files, others than those that are asked for perhaps among them: all, in this order if a device has them, or
/// those that `top` uses.
fn ngrams_with_files(
    task: &SequenceTask,
    order: &NgramOrder,
    top: Option<Top>,
) -> Result<NgramAnswer<WithFiles>> {
    let question = &task.question;
    let is_chosen = !question.files.is_all() && of_chosen_files(question)?.is_some();
    let of_files = task.order.and_then(MergedOrder::of_text);
    let request = NgramRequest {
        files: is_chosen.then(|| question.files.numbers().to_vec()),
        order: of_files.unwrap_or(FileOrder::File),
        // Counts in files that are not asked for would be among the first.
        ..request_of(question.n, order, top.filter(|_| question.files.is_all()))
    };
    task.answer(move |view, run| view.ngrams(request, run))
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
    let (mut pace, mut matcher) = (question.interrupt().pace(), NgramMatcher::new(question));
    for ((words, file), times) in counts {
        pace.step()?;
        if matcher.passes(&words)? {
            counted.push(CountedNgram { words, file, times });
        }
    }
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
