//! The matches of a regular expression in files, and the lines of files.
//!
//! Invariant: matches and lines are those of the current bytes of a file, edits included. A file is read in windows, and its
//! matches come in parts of bounded size, each of which says where the next one begins.

use std::ops::{Range, RangeInclusive};

use memchr::{memchr, memchr_iter};
use rayon::prelude::*;
use zipfdb_search::grep::{
    GrepAutomaton, GrepSearch, GrepText, MatchCounter, Resumption, StepTable, WindowSizes,
};

use super::access_path::{Run, answer};
use super::corpus_view::CorpusView;
use super::placement::PlacementPlan;
use super::search::descend;
use super::stored_view::{SegmentViews, StoredView};
use super::text_pass::{PassQuestion, Passed, SymbolSteps, TextPass};
use crate::overlay::Piece;
use crate::runtime::interrupt::check;
use crate::runtime::memory::ValueMemory;
use crate::segment::{SegmentView, TokenLines};
use crate::{Error, Result};

/// Bytes that are read at a time: at a new place, and while a search goes on.
const WINDOW: WindowSizes = WindowSizes {
    least: 1 << 10,
    most: 256 << 10,
};

/// Bytes that are read at a time where each read decodes the root of its file: files are mostly smaller.
const COLD_WINDOW: WindowSizes = WindowSizes {
    least: 4 << 20,
    most: 4 << 20,
};

/// Structures for extracts are made for files that are at least 1/`COLD_SHARE` of the bytes of their segments.
const COLD_SHARE: u64 = 64;

/// Line feeds are counted byte by byte over this distance, and by a structure over longer ones.
const NEAR_BYTES: u64 = 1 << 10;

/// Bytes of packed text in which line feeds are counted at a time.
const COUNTED_BYTES: u64 = 1 << 20;

/// Files whose matches are counted by their places at a time.
const COUNTED_FILES: usize = 1 << 8;

/// The most spans of a part, and the most bytes of their texts.
const PART_SPANS: usize = 1 << 14;
const PART_BYTES: usize = 4 << 20;

/// The spans of files that are asked for.
pub(crate) struct SpanQuestion {
    pub(crate) of: SpansOf,
    /// Whether the numbers of lines are needed.
    pub(crate) has_lines: bool,
    /// Whether the bytes are needed.
    pub(crate) has_texts: bool,
    /// The limit for these.
    pub(crate) memory: ValueMemory,
    /// Whether most of the text will be searched.
    pub(crate) searches_most: bool,
    /// Counts matches without their places; none unless that was asked for.
    pub(crate) counter: Option<MatchCounter>,
    /// For each segment what the search, and the counter, have found of its rules.
    pub(crate) steps: Vec<SymbolSteps>,
    pub(crate) counts: Vec<SymbolSteps>,
}

impl SpanQuestion {
    /// A question about files of a view.
    pub(crate) fn new(view: &CorpusView, of: SpansOf, memory: ValueMemory) -> SpanQuestion {
        SpanQuestion {
            of,
            has_lines: false,
            has_texts: false,
            memory,
            searches_most: false,
            counter: None,
            steps: SymbolSteps::of_segments(view),
            counts: SymbolSteps::of_segments(view),
        }
    }

    /// Makes a counter of matches; false if there is none for the expression.
    pub(crate) fn make_counter(&mut self) -> bool {
        if let SpansOf::Matches(automaton) = &self.of {
            self.counter = automaton.counter();
        }
        self.counter.is_some()
    }

    /// The memory that was taken for the search, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let steps = self.steps.iter().chain(&self.counts);
        steps.map(SymbolSteps::bytes).sum()
    }

    /// The plan for searching all of a view; none where no expression is sought.
    ///
    /// # Errors
    /// If a segment is damaged.
    pub(crate) fn plan<'v>(&self, view: &'v CorpusView) -> Result<Option<PlacementPlan<'v>>> {
        match (&self.of, &self.counter) {
            (SpansOf::Matches(_), Some(counter)) => view.plan_match_counts(counter).map(Some),
            (SpansOf::Matches(automaton), None) => view.plan_pass(automaton.table()).map(Some),
            (SpansOf::Lines(_), _) => Ok(None),
        }
    }
}

/// The spans of a file.
pub(crate) enum SpansOf {
    /// The matches of an expression.
    Matches(Box<GrepAutomaton>),
    /// Its lines, without the line feeds at their ends, with these numbers.
    Lines(RangeInclusive<u64>),
}

/// A span of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TextSpan {
    pub(crate) offset: u64,
    pub(crate) length: u64,
    /// The number of the line in which it begins, from 1; 0 if it is not needed.
    pub(crate) line: u64,
    /// Its bytes, if they are needed.
    pub(crate) text: Vec<u8>,
}

/// The place from which the spans of a file go on.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SpanPlace {
    resumption: Resumption,
    feeds: LineFeeds,
}

/// The number of line feeds before an offset.
#[derive(Debug, Clone, Copy, Default)]
struct LineFeeds {
    offset: u64,
    count: u64,
}

/// Some spans of a file.
#[derive(Debug)]
pub(crate) struct FileSpans {
    pub(crate) spans: Vec<TextSpan>,
    /// Where the next ones begin; none if there are no more.
    pub(crate) rest: Option<SpanPlace>,
}

/// A file as a text to search.
struct FileText<'v> {
    view: &'v CorpusView,
    segments: SegmentViews<'v>,
    file: usize,
    /// Its stored and inserted pieces, with their offsets.
    pieces: Vec<(u64, Piece)>,
    steps: &'v [SymbolSteps],
    sizes: WindowSizes,
    run: Run<'v>,
}

impl<'v> FileText<'v> {
    fn new(
        view: &'v CorpusView,
        file: usize,
        steps: &'v [SymbolSteps],
        run: Run<'v>,
    ) -> FileText<'v> {
        let mut start = 0;
        let pieces = view.pieces(file, 0, u64::MAX).into_iter().map(|piece| {
            let length = piece.len();
            start += length;
            (start - length, piece)
        });
        FileText {
            segments: SegmentViews::new(view.stored()),
            pieces: pieces.collect(),
            view,
            file,
            steps,
            sizes: if view.can_extract_now(file) {
                WINDOW
            } else {
                COLD_WINDOW
            },
            run,
        }
    }

    /// The stored file that its stored pieces are of.
    fn stored(&self) -> usize {
        // Only a file that rests on a stored one has such pieces.
        self.view.resolve(self.file).0.unwrap_or_default()
    }

    /// The number of line feeds in a range.
    fn line_feeds(&self, range: Range<u64>) -> Result<u64> {
        let mut count = 0;
        let pieces = (self.view).pieces(self.file, range.start, range.end - range.start);
        for piece in pieces {
            check(self.run.stop)?;
            count += match piece {
                Piece::Inserted(text) => count_feeds(&text),
                Piece::Stored(range) => {
                    let (stored, segments) = (self.stored(), &self.segments);
                    (self.view.stored()).line_feeds(segments, stored, range, self.run)?
                }
            };
        }
        Ok(count)
    }
}

impl GrepText for FileText<'_> {
    type Error = Error;

    fn len(&self) -> u64 {
        self.view.files()[self.file].bytes
    }

    fn window_sizes(&self) -> WindowSizes {
        self.sizes
    }

    fn read(&mut self, range: Range<u64>, bytes: &mut Vec<u8>) -> Result<()> {
        check(self.run.stop)?;
        let pieces = (self.view).pieces(self.file, range.start, range.end - range.start);
        bytes.clear();
        for piece in pieces {
            match piece {
                Piece::Inserted(text) => bytes.extend_from_slice(&text),
                Piece::Stored(range) => {
                    let part = (self.stored(), range.start, range.end - range.start);
                    let run = self.run.unforced();
                    let read = (self.view.stored()).extract_of(&self.segments, part, run)?;
                    if bytes.is_empty() {
                        *bytes = read;
                    } else {
                        bytes.extend_from_slice(&read);
                    }
                }
            }
        }
        if bytes.len() as u64 == range.end - range.start {
            Ok(())
        } else {
            Err(self.view.shorter_than_its_size(self.file))
        }
    }

    fn pass(&mut self, table: &StepTable, state: u16, at: u64) -> Result<(u16, u64)> {
        let mut passed = Passed { state, at };
        // From the piece on that has the place.
        let next = self.pieces.partition_point(|(start, _)| *start <= at);
        for (start, piece) in &self.pieces[next.saturating_sub(1)..] {
            let Piece::Stored(range) = piece else { break };
            let begin = range.start + (passed.at - start);
            let Passed { state, at } = self.view.stored().pass_over(
                (&self.segments, self.steps),
                self.stored(),
                begin..range.end,
                (table, passed.state),
                self.run,
            )?;
            passed = Passed {
                state,
                at: start + (at - range.start),
            };
            if at < range.end {
                break;
            }
        }
        Ok((passed.state, passed.at))
    }

    fn check(&self) -> Result<()> {
        check(self.run.stop)
    }
}

impl LineFeeds {
    /// Moves on to a later offset.
    fn advance(&mut self, search: &mut GrepSearch<'_, FileText<'_>>, offset: u64) -> Result<()> {
        self.count += if offset - self.offset <= NEAR_BYTES {
            let mut bytes = Vec::new();
            search.copy(self.offset..offset, &mut bytes)?;
            count_feeds(&bytes)
        } else {
            search.text().line_feeds(self.offset..offset)?
        };
        self.offset = offset;
        Ok(())
    }
}

/// The number of line feeds.
fn count_feeds(bytes: &[u8]) -> u64 {
    memchr_iter(b'\n', bytes).count() as u64
}

impl SegmentView {
    /// The number of line feeds of a file before an offset.
    ///
    /// Work: one step down the grammar a level.
    fn feeds_before(&self, file: u32, offset: u64) -> Result<u64> {
        let (view, lines, bytes) = (self.view()?, &self.pin::<TokenLines>()?.0, self.lengths()?);
        let (of_lines, of_bytes) = (lines.file_range(file), bytes.file_range(file));
        if offset >= of_bytes.end - of_bytes.start {
            return Ok(of_lines.end - of_lines.start);
        }
        let place = of_bytes.start + offset;
        let (before, token, rest) = descend(view, (bytes, lines), file, place, drop);
        let token = self.dictionary()?.token(token);
        // Within the token.
        Ok(before - of_lines.start + count_feeds(&token[..rest as usize]))
    }

    /// The number of line feeds in a range of a file.
    fn line_feeds(&self, file: u32, range: Range<u64>, run: Run<'_>) -> Result<u64> {
        if !self.is_packed() {
            return Ok(self.feeds_before(file, range.end)? - self.feeds_before(file, range.start)?);
        }
        let mut count = 0;
        let mut at = range.start;
        while at < range.end {
            check(run.stop)?;
            let length = COUNTED_BYTES.min(range.end - at);
            let text = self.extract_packed(file, at, length)?;
            count += text.as_deref().map_or(0, count_feeds);
            at += length;
        }
        Ok(count)
    }

    /// The offset behind line feed number `number` of a file, from 0; none if it has fewer.
    ///
    /// Work: one step down the grammar a level; of packed text all of it.
    fn after_feed(&self, file: u32, number: u64, run: Run<'_>) -> Result<Option<u64>> {
        if self.is_packed() {
            let bytes = self.files()?[file as usize].bytes;
            let (mut left, mut at) = (number, 0);
            while at < bytes {
                check(run.stop)?;
                let text = self
                    .extract_packed(file, at, COUNTED_BYTES)?
                    .unwrap_or_default();
                let feeds = count_feeds(&text);
                if left < feeds {
                    return Ok(nth_feed(&text, left).map(|feed| at + feed + 1));
                }
                left -= feeds;
                at += COUNTED_BYTES;
            }
            return Ok(None);
        }
        let (view, lines, bytes) = (self.view()?, &self.pin::<TokenLines>()?.0, self.lengths()?);
        let (of_lines, of_bytes) = (lines.file_range(file), bytes.file_range(file));
        if number >= of_lines.end - of_lines.start {
            return Ok(None);
        }
        let place = of_lines.start + number;
        let (start, token, rest) = descend(view, (lines, bytes), file, place, drop);
        let feed = nth_feed(self.dictionary()?.token(token), rest);
        Ok(feed.map(|feed| start - of_bytes.start + feed + 1))
    }
}

/// The place of a line feed, from 0.
fn nth_feed(bytes: &[u8], number: u64) -> Option<u64> {
    let number = usize::try_from(number).ok()?;
    memchr_iter(b'\n', bytes)
        .nth(number)
        .map(|feed| feed as u64)
}

impl StoredView {
    /// Passes over a range of a stored file.
    fn pass_over(
        &self,
        (segments, steps): (&SegmentViews<'_>, &[SymbolSteps]),
        file: usize,
        range: Range<u64>,
        (table, state): (&StepTable, u16),
        run: Run<'_>,
    ) -> Result<Passed> {
        let mut passed = Passed {
            state,
            at: range.start,
        };
        for part in self.index.parts(file) {
            let to = range.end.min(part.first_byte + part.bytes);
            if to <= passed.at {
                continue;
            }
            if part.first_byte >= range.end {
                break;
            }
            let question = PassQuestion {
                table: Some(table),
                steps: &steps[part.segment as usize],
                file: part.file,
                from: passed.at - part.first_byte,
                to: to - part.first_byte,
                state: passed.state,
                searched: Some(part.bytes),
            };
            let Passed { state, at } = answer::<TextPass>(&question, segments.of(part), run)?;
            passed = Passed {
                state,
                at: part.first_byte + at,
            };
            if passed.at < to {
                break;
            }
        }
        Ok(passed)
    }

    /// The number of line feeds in a range of a stored file.
    fn line_feeds(
        &self,
        segments: &SegmentViews<'_>,
        file: usize,
        range: Range<u64>,
        run: Run<'_>,
    ) -> Result<u64> {
        let mut count = 0;
        for part in self.index.parts(file) {
            let from = range.start.max(part.first_byte);
            let to = range.end.min(part.first_byte + part.bytes);
            if from < to {
                let range = from - part.first_byte..to - part.first_byte;
                count += segments.of(part).line_feeds(part.file, range, run)?;
            }
        }
        Ok(count)
    }

    /// The offset behind line feed number `number`, from 0, of a range of a stored file that has it.
    fn after_feed(
        &self,
        segments: &SegmentViews<'_>,
        file: usize,
        (range, number): (Range<u64>, u64),
        run: Run<'_>,
    ) -> Result<Option<u64>> {
        let mut left = number;
        for part in self.index.parts(file) {
            let from = range.start.max(part.first_byte);
            let to = range.end.min(part.first_byte + part.bytes);
            if from >= to {
                continue;
            }
            let segment = segments.of(part);
            let range = from - part.first_byte..to - part.first_byte;
            let feeds = segment.line_feeds(part.file, range.clone(), run)?;
            if left < feeds {
                let before = segment.line_feeds(part.file, 0..range.start, run)?;
                let found = segment.after_feed(part.file, before + left, run)?;
                return Ok(found.map(|offset| part.first_byte + offset));
            }
            left -= feeds;
        }
        Ok(None)
    }
}

impl CorpusView {
    /// The next spans of some files, in parallel. Each file has its own error.
    ///
    /// # Errors
    /// If the run must end.
    pub(crate) fn spans_of_files(
        &self,
        question: &SpanQuestion,
        files: &[(u32, SpanPlace)],
        run: Run<'_>,
    ) -> Result<Vec<Result<FileSpans>>> {
        let segments = files
            .iter()
            .flat_map(|&(file, _)| self.segments_of(file as usize));
        let mut segments: Vec<usize> = segments.collect();
        segments.sort_unstable();
        segments.dedup();
        let asked: u64 = files
            .iter()
            .map(|&(file, _)| self.files()[file as usize].bytes)
            .sum();
        let stored = segments
            .iter()
            .map(|&segment| self.segments()[segment].text_bytes());
        if asked < stored.sum::<u64>() / COLD_SHARE {
            segments.clear();
        }
        // Shared structures are made once, and stay until all files are read; a file reports damage itself.
        let _pinned = match self.stored().with_extracts(segments.clone(), run.stop) {
            Err(error @ (Error::Interrupted | Error::Timeout { .. })) => return Err(error),
            pinned => pinned.ok(),
        };
        if question.searches_most
            && let SpansOf::Matches(automaton) = &question.of
            && let Some(table) = automaton.table()
        {
            for &segment in &segments {
                let view = self.stored().segment_at(segment);
                if !view.is_packed() {
                    view.prepare_steps(table, &question.steps[segment], run)?;
                }
            }
        }
        let found = files.par_iter().with_max_len(1);
        let found = found.map(|&(file, place)| match &question.of {
            SpansOf::Matches(automaton) => {
                self.matches_in(question, automaton, (file as usize, place), run)
            }
            SpansOf::Lines(lines) => self.lines_in(question, lines, (file as usize, place), run),
        });
        let found = found.collect();
        check(run.stop)?;
        Ok(found)
    }

    /// The number of matches in each of some files, which ascend. Each file has its own error.
    ///
    /// # Errors
    /// If the run must end.
    pub(crate) fn count_matches(
        &self,
        question: &SpanQuestion,
        files: &[u32],
        run: Run<'_>,
    ) -> Result<Vec<Result<u64>>> {
        let known = match &question.counter {
            Some(counter) => self.match_counts(counter, files, &question.counts, run),
            None => Ok(Vec::new()),
        };
        let known = match known {
            Err(error @ (Error::Interrupted | Error::Timeout { .. })) => return Err(error),
            // The search meets the error of a damaged segment at the first file that it concerns.
            known => known.unwrap_or_default(),
        };
        let count_of = |place: usize| known.get(place).copied().flatten();
        let mut counts: Vec<Result<u64>> = (0..files.len())
            .map(|place| Ok(count_of(place).unwrap_or(0)))
            .collect();
        let unknown = (0..files.len()).filter(|&place| count_of(place).is_none());
        let mut left: Vec<(usize, SpanPlace)> =
            unknown.map(|place| (place, SpanPlace::default())).collect();
        while !left.is_empty() {
            let some = left.len().min(COUNTED_FILES);
            let asked = left[..some].iter();
            let asked: Vec<(u32, SpanPlace)> =
                asked.map(|&(place, from)| (files[place], from)).collect();
            let found = self.spans_of_files(question, &asked, run)?;
            let mut more = Vec::new();
            for (&(place, _), found) in left[..some].iter().zip(found) {
                match (found, &mut counts[place]) {
                    (Ok(FileSpans { spans, rest }), Ok(count)) => {
                        *count += spans.len() as u64;
                        more.extend(rest.map(|rest| (place, rest)));
                    }
                    (Err(error), count) => *count = Err(error),
                    (Ok(_), Err(_)) => {}
                }
            }
            more.extend_from_slice(&left[some..]);
            left = more;
        }
        Ok(counts)
    }

    /// The next matches in a file.
    fn matches_in(
        &self,
        question: &SpanQuestion,
        automaton: &GrepAutomaton,
        (file, place): (usize, SpanPlace),
        run: Run<'_>,
    ) -> Result<FileSpans> {
        let mut text = FileText::new(self, file, &question.steps, run);
        let mut search = GrepSearch::new(automaton, &mut text, place.resumption);
        let mut feeds = place.feeds;
        let (mut spans, mut bytes) = (Vec::new(), 0);
        while spans.len() < PART_SPANS && bytes < PART_BYTES {
            let Some(found) = search.next_match()? else {
                return Ok(FileSpans { spans, rest: None });
            };
            let mut next = TextSpan {
                offset: found.start,
                length: found.end - found.start,
                line: 0,
                text: Vec::new(),
            };
            if question.has_lines {
                feeds.advance(&mut search, found.start)?;
                next.line = feeds.count + 1;
            }
            if question.has_texts {
                next.text = question.memory.buffer("a match", next.length)?;
                search.copy(found, &mut next.text)?;
                bytes += next.text.len();
            }
            spans.push(next);
        }
        let rest = SpanPlace {
            resumption: search.place(),
            feeds,
        };
        Ok(FileSpans {
            spans,
            rest: Some(rest),
        })
    }

    /// The next lines of a file, of those wanted.
    fn lines_in(
        &self,
        question: &SpanQuestion,
        wanted: &RangeInclusive<u64>,
        (file, place): (usize, SpanPlace),
        run: Run<'_>,
    ) -> Result<FileSpans> {
        let mut text = FileText::new(self, file, &[], run);
        let length = text.len();
        let LineFeeds {
            mut offset,
            mut count,
        } = place.feeds;
        let none = || FileSpans {
            spans: Vec::new(),
            rest: None,
        };
        if count + 1 < *wanted.start() {
            let Some(start) = self.line_start(file, *wanted.start(), run)? else {
                return Ok(none());
            };
            (offset, count) = (start, wanted.start() - 1);
        }
        let (mut spans, mut bytes) = (Vec::new(), 0);
        // The bytes that were read, from `start` on.
        let (mut window, mut start) = (Vec::new(), offset);
        let mut size = text.sizes.least as u64;
        while spans.len() < PART_SPANS && bytes < PART_BYTES {
            if offset >= length || count >= *wanted.end() {
                return Ok(FileSpans { spans, rest: None });
            }
            let mut line = TextSpan {
                offset,
                length: 0,
                line: count + 1,
                text: Vec::new(),
            };
            let mut at = offset;
            loop {
                let end = start + window.len() as u64;
                if at >= end && at < length {
                    text.read(at..length.min(at + size), &mut window)?;
                    start = at;
                    size = (2 * size).min(text.sizes.most as u64);
                    continue;
                }
                // Within the window.
                let rest = &window[(at - start) as usize..];
                let feed = memchr(b'\n', rest);
                let part = &rest[..feed.unwrap_or(rest.len())];
                if question.has_texts {
                    let known = line.text.len() as u64 + part.len() as u64;
                    question.memory.check("a line", known)?;
                    line.text.extend_from_slice(part);
                }
                at += part.len() as u64;
                if feed.is_some() || at >= length {
                    line.length = at - offset;
                    count += u64::from(feed.is_some());
                    offset = at + u64::from(feed.is_some());
                    break;
                }
            }
            bytes += line.text.len();
            spans.push(line);
        }
        let feeds = LineFeeds { offset, count };
        Ok(FileSpans {
            spans,
            rest: Some(SpanPlace {
                resumption: Resumption::default(),
                feeds,
            }),
        })
    }

    /// The error for a file whose segment has fewer bytes than its file table says.
    fn shorter_than_its_size(&self, file: usize) -> Error {
        let name = zipfdb_sql::quote(&self.files()[file].name);
        let reason = format!("file {name} is shorter than its size");
        match self.segments_of(file).next() {
            Some(segment) => self.segments()[segment].inconsistent(reason),
            None => Error::Invalid {
                subject: name,
                reason: "it is shorter than its size".into(),
            },
        }
    }

    /// The offset at which a line of a file begins; none if it has fewer. Lines are numbered from 1.
    fn line_start(&self, file: usize, line: u64, run: Run<'_>) -> Result<Option<u64>> {
        // The line begins behind this line feed, from 0.
        let Some(mut left) = line.checked_sub(2) else {
            return Ok((line == 1).then_some(0));
        };
        let text = FileText::new(self, file, &[], run);
        for (at, piece) in &text.pieces {
            check(run.stop)?;
            let feeds = match piece {
                Piece::Inserted(inserted) => count_feeds(inserted),
                Piece::Stored(_) => text.line_feeds(*at..at + piece.len())?,
            };
            if left >= feeds {
                left -= feeds;
                continue;
            }
            return match piece {
                Piece::Inserted(inserted) => Ok(nth_feed(inserted, left).map(|feed| at + feed + 1)),
                Piece::Stored(range) => {
                    let (stored, sought) = (text.stored(), (range.clone(), left));
                    let found = (self.stored()).after_feed(&text.segments, stored, sought, run)?;
                    Ok(found.map(|offset| at + offset - range.start))
                }
            };
        }
        Ok(None)
    }
}
