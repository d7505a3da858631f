//! N-grams with odd words, which are read apart from all others and merged into their rows.
//!
//! The text of an n-gram is its words with a space between them. A word that holds a space is odd: different n-grams may have one
//! text. Where rows come in order of texts a word that holds a control character or is not UTF-8 is odd too: ranks of words do
//! not give the order of such texts.
//!
//! Invariant: all n-grams without odd words have the same number of spaces, those with a word that holds a space have more, so no
//! n-gram of one kind equals one of the other. The former come from any cursor as if there were no odd words; the latter are read
//! where odd words stand and grouped by their texts. Work: proportional to the occurrences of odd words, or one pass over the
//! files if these are many.

use std::sync::Arc;

use rayon::prelude::*;

use super::counted::CountedNgram;
use super::ngram_matcher::NgramMatcher;
use super::occurrences::WordWindows;
use super::rows::{RowCursor, RowPiece, SequenceRows, SequenceTask};
use super::scan_spec::ScanSpec;
use super::selection::{TASK_WORDS, is_text};
use super::text_rows::{TextRows, key_of};
use crate::Result;
use crate::answer::access_path::Run;
use crate::answer::{Granularity, MergedOrder};
use crate::answer::{PlaceRanges, WordStream};
use crate::bisect::partition_point;
use crate::runtime::interrupt::check;

/// The number of words whose pass over the files takes as long as finding one place in them.
const SEEK_WORDS: u64 = 1 << 9;

/// N-grams with odd words to be merged with the rows of others.
pub(super) struct OddNgrams {
    /// For each word whether it is odd.
    marks: Arc<[bool]>,
    /// The most rows with odd words.
    rows_max: u64,
    order: Option<MergedOrder>,
    rows: TextRows,
    /// The next of these rows, and its key.
    next: Option<(Vec<u8>, CountedNgram)>,
    /// The cursor of the others; none behind its last row.
    plain: Option<Box<dyn RowCursor>>,
    /// Rows of that cursor.
    piece: RowPiece,
}

impl OddNgrams {
    /// The n-grams with odd words of the wanted files, in the order of the task; none if no word is odd.
    ///
    /// # Errors
    /// If a segment is damaged, a run cannot be written, or the statement must end.
    pub(super) fn find(task: &SequenceTask) -> Result<Option<OddNgrams>> {
        let (question, order) = (&task.question, task.order);
        let Some(marks) = odd_words(question, order)? else {
            return Ok(None);
        };
        let (mut matcher, mut rows_max) = (NgramMatcher::new(question), 0);
        let mut rows = TextRows::new(question, order, |take| {
            each_window(question, &marks, |file, words| {
                rows_max += 1;
                let file = match question.asked.granularity {
                    Granularity::FileWord => file,
                    _ => 0,
                };
                if matcher.passes(words)? {
                    take((words, file, 1))
                } else {
                    Ok(())
                }
            })
        })?;
        Ok(Some(OddNgrams {
            next: rows.next()?,
            marks,
            rows_max,
            order,
            rows,
            plain: None,
            piece: RowPiece::default(),
        }))
    }

    /// The most rows, before those with equal texts are merged.
    pub(super) fn rows_max(&self) -> u64 {
        self.rows_max
    }

    /// Merges these with the rows of a cursor, which has them too in other places and comes in the order of the task.
    pub(super) fn among(mut self, plain: Box<dyn RowCursor>) -> Box<dyn RowCursor> {
        self.plain = Some(plain);
        Box::new(self)
    }

    /// The place of the next odd row in the piece: at its end if it is behind all rows, and without an order.
    fn place(&self, question: &ScanSpec) -> usize {
        let left = self.piece.left();
        let Some((key, _)) = self.next.as_ref().filter(|_| self.order.is_some()) else {
            return left.end;
        };
        let is_before =
            |row: usize| key_of(question, self.order, self.piece.row(question.asked.n, row)) < *key;
        if left.is_empty() || is_before(left.end - 1) {
            return left.end;
        }
        left.start + partition_point(left.len(), |row| is_before(left.start + row))
    }
}

/// For each word whether it is odd; none if no word is.
fn odd_words(question: &ScanSpec, order: Option<MergedOrder>) -> Result<Option<Arc<[bool]>>> {
    let is_by_text = match order {
        None => false,
        Some(MergedOrder::Text(_)) => true,
        Some(MergedOrder::Count { by_text, .. }) => by_text,
    };
    let is_odd = move |word: &[u8]| {
        if is_by_text {
            word.iter().any(|&byte| byte <= b' ') || !is_text(word)
        } else {
            word.contains(&b' ')
        }
    };
    question.ask(move |view, _| {
        let vocabulary = view.vocabulary()?;
        // Words are numbered by u32.
        let words = (0..vocabulary.len() as u32).into_par_iter();
        let marks = words
            .with_min_len(TASK_WORDS)
            .map(|word| is_odd(vocabulary.word(word)));
        let marks: Vec<bool> = marks.collect();
        Ok(marks.contains(&true).then(|| marks.into()))
    })
}

/// Calls `visit` with the file and words of each window of n words with an odd one.
fn each_window(
    question: &Arc<ScanSpec>,
    marks: &Arc<[bool]>,
    mut visit: impl FnMut(u32, &[u32]) -> Result<()>,
) -> Result<()> {
    let is_odd = |words: &[u32]| words.iter().any(|&word| marks[word as usize]);
    let n = question.asked.n;
    let Some(stretches) = odd_stretches(question, marks)? else {
        let mut windows = WordWindows::new(question, &PlaceRanges::ALL);
        let mut words = Vec::with_capacity(n);
        while let Some(window) = windows.next(question)? {
            words.clear();
            words.extend(window.iter().map(|word| word.word));
            if is_odd(&words) {
                visit(window[0].file, &words)?;
            }
        }
        return Ok(());
    };
    for (file, words) in stretches {
        let mut windows = words.windows(n).filter(|window| is_odd(window));
        windows.try_for_each(|window| visit(file, window))?;
    }
    Ok(())
}

/// A file and some consecutive words of it.
type WordsOfFile = (u32, Vec<u32>);

/// Words of the wanted files: they include all windows of odd words, each once. None if a pass over the files is faster.
fn odd_stretches(
    question: &Arc<ScanSpec>,
    marks: &Arc<[bool]>,
) -> Result<Option<Vec<WordsOfFile>>> {
    let (whole, marks) = (question.clone(), marks.clone());
    question.ask(move |view, stop| {
        let asked = &whole.asked;
        let seeks_max = asked.files.words(view) / SEEK_WORDS;
        let (mut found, mut seeks): (Vec<(u32, u64)>, u64) = (Vec::new(), 0);
        // Words are numbered by u32.
        for (word, _) in (0u32..).zip(marks.iter()).filter(|(_, is_odd)| **is_odd) {
            let places = view.ngram_places(&[word], Run::until(stop))?;
            seeks += 1 + places.len() as u64;
            if seeks > seeks_max {
                return Ok(None);
            }
            let places = places.iter().map(|place| (place.file, place.position));
            found.extend(places.filter(|&(file, _)| asked.files.has(file)));
        }
        found.sort_unstable();
        // At most 8.
        let around = asked.n as u64 - 1;
        let stretches = found.chunk_by(|left, right| {
            left.0 == right.0 && right.1.saturating_sub(around) <= left.1 + around
        });
        let words = stretches.map(|places| {
            check(stop)?;
            let ((file, first), (_, last)) = (places[0], places[places.len() - 1]);
            let positions = first.saturating_sub(around)..=last + around;
            let places = PlaceRanges {
                positions: positions.clone(),
                ..PlaceRanges::ALL
            };
            let mut stream = WordStream::within(whole.view().clone(), vec![file], places, 0);
            let (mut words, mut count) = (Vec::new(), 1);
            while stream.fill(&mut words, count)? {
                count = words.len() + 1;
            }
            words.retain(|word| positions.contains(&word.position));
            Ok((file, words.into_iter().map(|word| word.word).collect()))
        });
        words.collect::<Result<_>>().map(Some)
    })
}

impl RowCursor for OddNgrams {
    fn advance(&mut self, question: &ScanSpec, rows: &mut SequenceRows) -> Result<bool> {
        if self.piece.left().is_empty()
            && let Some(plain) = &mut self.plain
        {
            let mut made = SequenceRows::new(rows.rows_max());
            if !plain.fill(question, &mut made)? {
                self.plain = None;
            }
            made.retain(question.asked.n, |words| {
                words.iter().all(|&word| !self.marks[word as usize])
            });
            self.piece = RowPiece::new(made);
            return Ok(true);
        }
        let place = self.place(question);
        if place > self.piece.left().start {
            self.piece.give(question.asked.n, place, rows);
            return Ok(true);
        }
        let Some((_, row)) = self.next.take() else {
            return Ok(false);
        };
        rows.push_counted(&row.words, row.file, row.times);
        self.next = self.rows.next()?;
        Ok(true)
    }
}
