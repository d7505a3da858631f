//! Files to segments: read, tokenize, build dictionary and grammar, hand over for writing.
//!
//! Text streams through in chunks; tokens pile up until a segment is full, then the segment is built with all threads
//! and handed over before the next one starts to grow. So memory is bounded by the limits of a segment, never by a
//! corpus or a file. The invariant: segments are a function of files and settings; where text is cut, how tokens are
//! numbered and what the grammar is depends on no thread, hash seed or clock.
//!
//! Where segments are written, and whether they become visible, is for the caller to say.

mod draft;
mod read;

use crate::sources::{Listing, Source, Unreadable};
use crate::tokenize::{self, Interner, LocalDictionary};
use crate::{Error, Progress, Result};
use draft::{Draft, Drafts, Limits, Piece, TokenizedChunk};
use parking_lot::{Condvar, Mutex};
use rayon::prelude::*;
use read::{Chunk, Failure, Reader, read_file};
use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};
use zipfdb_kernels::{Parameters, Stage, construct};
use zipfdb_storage::{CorpusSettings, Dictionary, FileEntry, Grammar, SegmentInfo};

/// Text that shares an interner: large enough to meet most of its tokens often, small enough for them to stay in cache.
const CHUNK_BYTES_MAX: usize = 4 << 20;

/// A part of a file is never smaller, however small segments are to be.
const CHUNK_BYTES_MIN: usize = 4 << 10;

/// A segment has at most so many tokens, whatever its settings say: grammar construction takes up to 30 bytes for each,
/// 4 GB in all.
const SEGMENT_TOKENS_MAX: usize = 1 << 27;

/// A segment's chunks have at most so many dictionary entries: merging takes up to 100 bytes for each, and that only
/// matters for data in which hardly a token repeats.
const SEGMENT_ENTRIES_MAX: usize = 1 << 25;

/// Those entries have at most so many bytes.
const SEGMENT_ENTRY_BYTES_MAX: usize = 1 << 30;

/// How many chunks, for each thread, may be ahead of the slowest one.
const CHUNKS_AHEAD: usize = 4;

/// What to do about files that cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// Copy nothing.
    #[default]
    Stop,
    /// Leave them out and report them.
    Skip,
}

/// Everything that a segment file is written from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSegment {
    /// The files, or parts of files, by name.
    pub files: Vec<FileEntry>,
    /// Their tokens.
    pub dictionary: Dictionary,
    /// Their grammar.
    pub grammar: Grammar,
    /// Whether no other segment follows.
    pub is_last: bool,
}

/// What an ingest did and what it cost.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// How many files.
    pub files: u64,
    /// Their size.
    pub bytes: u64,
    /// How many words they have.
    pub words: u64,
    /// How many tokens they have.
    pub tokens: u64,
    /// The segments, in order.
    pub segments: Vec<SegmentInfo>,
    /// What was left out, by path.
    pub unreadable: Vec<Unreadable>,
    /// Where the time went.
    pub times: Times,
}

/// Time passed in each stage; together all the time there was.
///
/// Reading and tokenizing run side by side on all threads, so the time of both is divided in proportion to what the
/// threads spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Files to bytes.
    pub read: Duration,
    /// Bytes to tokens, numbered chunk by chunk.
    pub tokenize: Duration,
    /// The dictionaries of all chunks to one, and tokens numbered by it.
    pub dictionary: Duration,
    /// Repeated pairs to rules.
    pub rounds: Duration,
    /// Rules to the grammar.
    pub prune: Duration,
    /// The segment encoded and written by the caller.
    pub write: Duration,
}

/// Makes segments of the files of `listing`, and calls `publish` with one after the other.
///
/// Uses the current rayon pool. An error leaves it to the caller to forget the segments that were published before.
///
/// # Errors
/// [`Error::Unreadable`] for files that cannot be read, unless `on_error` says to skip them; [`Error::Io`] if reading
/// fails in the middle of a file that is larger than a chunk; whatever `publish` fails with.
pub fn ingest(
    listing: Listing,
    settings: &CorpusSettings,
    on_error: OnError,
    progress: &dyn Progress,
    publish: &mut (dyn FnMut(NewSegment) -> Result<SegmentInfo> + Send),
) -> Result<Report> {
    let limits = Limits {
        bytes: settings.segment_size,
        tokens: SEGMENT_TOKENS_MAX,
        entries: SEGMENT_ENTRIES_MAX,
        entry_bytes: SEGMENT_ENTRY_BYTES_MAX,
    };
    ingest_within(limits, listing, settings, on_error, progress, publish)
}

fn ingest_within(
    limits: Limits,
    listing: Listing,
    settings: &CorpusSettings,
    on_error: OnError,
    progress: &dyn Progress,
    publish: &mut (dyn FnMut(NewSegment) -> Result<SegmentInfo> + Send),
) -> Result<Report> {
    if let (OnError::Stop, Some(first)) = (on_error, listing.unreadable.first()) {
        return Err(Error::Unreadable {
            path: first.path.clone(),
            reason: first.reason.clone(),
            more: listing.unreadable.len() - 1,
        });
    }
    let mut report = Report {
        unreadable: listing.unreadable,
        ..Report::default()
    };
    let mut filling = Filling::new(&listing.sources, settings, limits, on_error);
    let mut files = Files::new(&listing.sources);
    let mut bytes_left: u64 = listing.sources.iter().map(|source| source.bytes).sum();
    loop {
        progress.begin("tokenize", bytes_left);
        let filled = filling.fill(progress, &mut report)?;
        progress.end();
        let Some((draft, is_last)) = filled else {
            break;
        };
        let entries = files.entries(&draft);
        let bytes = entries.iter().map(|file| file.bytes).sum();
        bytes_left -= bytes;
        let segment = build(
            draft,
            entries,
            bytes,
            is_last,
            settings,
            progress,
            &mut report,
        );
        report.count(&segment);
        progress.begin("write", bytes);
        let start = Instant::now();
        report.segments.push(publish(segment)?);
        report.times.write += start.elapsed();
        progress.advance(bytes);
        progress.end();
        if is_last {
            break;
        }
    }
    report
        .unreadable
        .sort_unstable_by(|left, right| left.path.cmp(&right.path));
    Ok(report)
}

impl Report {
    fn count(&mut self, segment: &NewSegment) {
        for file in &segment.files {
            self.files += u64::from(file.last_part);
            self.bytes += file.bytes;
            self.words += file.words;
        }
    }
}

/// Makes a segment of a draft.
fn build(
    draft: Draft,
    files: Vec<FileEntry>,
    bytes: u64,
    is_last: bool,
    settings: &CorpusSettings,
    progress: &dyn Progress,
    report: &mut Report,
) -> NewSegment {
    progress.begin("dictionary", bytes);
    let start = Instant::now();
    let mut file_offsets = Vec::with_capacity(files.len() + 1);
    let mut pieces = draft
        .chunks
        .iter()
        .flat_map(|chunk| &chunk.pieces)
        .peekable();
    let mut token_count = 0;
    file_offsets.push(0);
    while let Some(piece) = pieces.next() {
        token_count += piece.tokens;
        if pieces.peek().is_none_or(|next| next.source != piece.source) {
            // Construction checks that tokens number less than 2^31.
            file_offsets.push(token_count as u32);
        }
    }
    let (dictionary, tokens) = renumber(draft);
    report.tokens += tokens.len() as u64;
    report.times.dictionary += start.elapsed();
    progress.advance(bytes);
    progress.end();

    let parameters = Parameters {
        alpha_numerator: settings.alpha_numerator,
        alpha_denominator: settings.alpha_denominator,
    };
    let terminal_count = dictionary.len();
    let mut stage = None;
    let mut end_stage = |next: Option<Stage>| {
        let now = Instant::now();
        if let Some((ended, start)) = stage {
            let time = match ended {
                Stage::Rounds => &mut report.times.rounds,
                Stage::Prune => &mut report.times.prune,
            };
            *time += now - start;
            progress.advance(bytes);
            progress.end();
        }
        match next {
            Some(Stage::Rounds) => progress.begin("rounds", bytes),
            Some(Stage::Prune) => progress.begin("prune", bytes),
            None => {}
        }
        stage = next.map(|next| (next, now));
    };
    let constructed = construct(
        tokens,
        &file_offsets,
        terminal_count,
        &parameters,
        &mut |stage| end_stage(Some(stage)),
    );
    end_stage(None);
    NewSegment {
        files,
        dictionary,
        grammar: Grammar {
            terminal_count,
            rule_offsets: constructed.rule_offsets,
            symbols: constructed.symbols,
            level_offsets: constructed.level_offsets,
            root_offsets: constructed.root_offsets,
            root: constructed.root,
        },
        is_last,
    }
}

/// The dictionary of a draft, and the tokens of all its files numbered by it.
fn renumber(draft: Draft) -> (Dictionary, Vec<u32>) {
    let mut locals: Vec<LocalDictionary> = Vec::with_capacity(draft.chunks.len());
    let mut chunks: Vec<Vec<u32>> = Vec::with_capacity(draft.chunks.len());
    for chunk in draft.chunks {
        locals.push(chunk.dictionary);
        chunks.push(chunk.ids);
    }
    let merged = tokenize::merge(&locals);
    drop(locals);
    let mut tokens = vec![0; chunks.iter().map(Vec::len).sum()];
    let mut ranges = Vec::with_capacity(chunks.len());
    let mut rest = &mut tokens[..];
    for chunk in &chunks {
        let (range, after) = rest.split_at_mut(chunk.len());
        ranges.push(range);
        rest = after;
    }
    ranges
        .into_par_iter()
        .zip(chunks)
        .zip(merged.ids)
        .for_each(|((range, chunk), ids)| {
            for (token, id) in range.iter_mut().zip(chunk) {
                *token = ids[id as usize];
            }
        });
    (merged.dictionary, tokens)
}

/// Makes the file entries of one draft after the other.
struct Files<'a> {
    sources: &'a [Source],
    /// Words of a file that is not complete yet.
    words_before: u64,
}

impl<'a> Files<'a> {
    fn new(sources: &'a [Source]) -> Files<'a> {
        Files {
            sources,
            words_before: 0,
        }
    }

    fn entries(&mut self, draft: &Draft) -> Vec<FileEntry> {
        let mut entries = Vec::new();
        let mut pieces = draft
            .chunks
            .iter()
            .flat_map(|chunk| &chunk.pieces)
            .peekable();
        while let Some(first) = pieces.next() {
            let mut piece = first.clone();
            while let Some(next) = pieces.next_if(|next| next.source == first.source) {
                piece.bytes += next.bytes;
                piece.words += next.words;
                piece.is_last = next.is_last;
                piece.crc32.combine(&next.crc32);
            }
            if piece.first_byte == 0 {
                self.words_before = 0;
            }
            entries.push(FileEntry {
                name: self.sources[piece.source].name.clone(),
                bytes: piece.bytes,
                words: piece.words,
                crc32: piece.crc32.finalize(),
                first_byte: piece.first_byte,
                first_word: self.words_before,
                last_part: piece.is_last,
            });
            self.words_before += piece.words;
        }
        entries
    }
}

/// Fills one draft after the other with the chunks of all files.
struct Filling<'a> {
    sources: &'a [Source],
    settings: &'a CorpusSettings,
    on_error: OnError,
    workers: Vec<Worker>,
    reading: Mutex<Reading<'a>>,
    arrivals: Mutex<Arrivals>,
    /// Signalled when `next` of the arrivals grows or they stop.
    arrived: Condvar,
}

/// What one thread reads and tokenizes with.
#[derive(Default)]
struct Worker {
    text: Vec<u8>,
    interner: Interner,
}

struct Reading<'a> {
    reader: Reader<'a>,
    /// How many chunks have been handed out.
    chunks: usize,
}

/// Puts chunks back in order.
struct Arrivals {
    drafts: Drafts,
    /// How many chunks are in `drafts`.
    next: usize,
    /// Those that arrived before an earlier one.
    early: BTreeMap<usize, TokenizedChunk>,
    /// Nobody should start another chunk.
    stop: bool,
    /// The failure at the earliest chunk.
    failure: Option<(usize, Error)>,
    unreadable: Vec<Unreadable>,
    /// Thread time since the draft before.
    read: Duration,
    tokenize: Duration,
}

impl<'a> Filling<'a> {
    fn new(
        sources: &'a [Source],
        settings: &'a CorpusSettings,
        limits: Limits,
        on_error: OnError,
    ) -> Filling<'a> {
        let chunk_bytes = usize::try_from(settings.segment_size)
            .unwrap_or(CHUNK_BYTES_MAX)
            .clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX);
        Filling {
            sources,
            settings,
            on_error,
            workers: (0..rayon::current_num_threads())
                .map(|_| Worker::default())
                .collect(),
            reading: Mutex::new(Reading {
                reader: Reader::new(sources, settings.tokenizer, chunk_bytes),
                chunks: 0,
            }),
            arrivals: Mutex::new(Arrivals {
                drafts: Drafts::new(limits),
                next: 0,
                early: BTreeMap::new(),
                stop: false,
                failure: None,
                unreadable: Vec::new(),
                read: Duration::ZERO,
                tokenize: Duration::ZERO,
            }),
            arrived: Condvar::new(),
        }
    }

    /// The next draft and whether it is the last; `None` if there are no files.
    fn fill(
        &mut self,
        progress: &dyn Progress,
        report: &mut Report,
    ) -> Result<Option<(Draft, bool)>> {
        let start = Instant::now();
        let mut no_more = false;
        if !self.arrivals.get_mut().drafts.has_full() {
            self.arrivals.get_mut().stop = false;
            let mut workers = std::mem::take(&mut self.workers);
            workers.par_iter_mut().for_each(|worker| {
                let _stop = StopOnPanic(self);
                self.work(worker, progress);
            });
            self.workers = workers;
            // Nobody stopped the workers, so they ran out of files.
            no_more = !self.arrivals.get_mut().stop;
        }
        let arrivals = self.arrivals.get_mut();
        if let Some((_, error)) = arrivals.failure.take() {
            return Err(error);
        }
        report.unreadable.append(&mut arrivals.unreadable);
        let wall = start.elapsed();
        let read = std::mem::take(&mut arrivals.read).as_secs_f64();
        let tokenize = std::mem::take(&mut arrivals.tokenize).as_secs_f64();
        let share = if read > 0.0 {
            read / (read + tokenize)
        } else {
            0.0
        };
        report.times.read += wall.mul_f64(share);
        report.times.tokenize += wall - wall.mul_f64(share);
        Ok(arrivals.drafts.pop(no_more))
    }

    /// Reads and tokenizes chunks until a draft is full or there are no more.
    fn work(&self, worker: &mut Worker, progress: &dyn Progress) {
        loop {
            let (number, chunk, read) = {
                let mut reading = self.reading.lock();
                if self.arrivals.lock().stop {
                    return;
                }
                let start = Instant::now();
                match reading.reader.next(&mut worker.text) {
                    Ok(Some(chunk)) => {
                        reading.chunks += 1;
                        (reading.chunks - 1, chunk, start.elapsed())
                    }
                    Ok(None) => return,
                    Err(failure) => {
                        self.fail(reading.chunks, failure);
                        continue;
                    }
                }
            };
            self.wait_for_others(number);
            let mut made = MadeChunk {
                tokenized: TokenizedChunk {
                    pieces: Vec::new(),
                    ids: Vec::new(),
                    dictionary: LocalDictionary::default(),
                },
                read,
                tokenize: Duration::ZERO,
            };
            match chunk {
                Chunk::Files(files) => {
                    for source in files {
                        let start = Instant::now();
                        let result = read_file(&self.sources[source], &mut worker.text);
                        made.read += start.elapsed();
                        match result {
                            Ok(()) => made.push(self, worker, source, 0, true),
                            Err(error) => self.fail(
                                number,
                                Failure {
                                    source,
                                    error,
                                    is_partly_read: false,
                                },
                            ),
                        }
                    }
                }
                Chunk::Part {
                    source,
                    first_byte,
                    is_last,
                } => made.push(self, worker, source, first_byte, is_last),
            }
            (made.tokenized.ids, made.tokenized.dictionary) = worker.interner.take();
            made.tokenized.ids.shrink_to_fit();
            progress.advance(made.tokenized.pieces.iter().map(|piece| piece.bytes).sum());
            self.arrive(number, made);
        }
    }

    /// Keeps fast threads from piling up chunks behind a slow one.
    fn wait_for_others(&self, number: usize) {
        let ahead_max = CHUNKS_AHEAD * rayon::current_num_threads();
        let mut arrivals = self.arrivals.lock();
        while number > arrivals.next + ahead_max && !arrivals.stop {
            self.arrived.wait(&mut arrivals);
        }
    }

    fn arrive(&self, number: usize, made: MadeChunk) {
        let mut arrivals = self.arrivals.lock();
        let arrivals = &mut *arrivals;
        arrivals.read += made.read;
        arrivals.tokenize += made.tokenize;
        arrivals.early.insert(number, made.tokenized);
        while let Some(chunk) = arrivals.early.remove(&arrivals.next) {
            arrivals.next += 1;
            arrivals.drafts.push(chunk);
        }
        arrivals.stop |= arrivals.drafts.has_full();
        self.arrived.notify_all();
    }

    /// Notes that a file of chunk `number` cannot be read.
    fn fail(&self, number: usize, failure: Failure) {
        let path = self.sources[failure.source].path.clone();
        let mut arrivals = self.arrivals.lock();
        if self.on_error == OnError::Skip && !failure.is_partly_read {
            let reason = failure.error.to_string();
            arrivals.unreadable.push(Unreadable { path, reason });
            return;
        }
        let error = if failure.is_partly_read {
            Error::Io {
                action: "read",
                path,
                source: failure.error,
            }
        } else {
            Error::Unreadable {
                path,
                reason: failure.error.to_string(),
                more: 0,
            }
        };
        if arrivals
            .failure
            .as_ref()
            .is_none_or(|(first, _)| number < *first)
        {
            arrivals.failure = Some((number, error));
        }
        arrivals.stop = true;
        self.arrived.notify_all();
    }
}

/// A tokenized chunk and the time it took.
struct MadeChunk {
    tokenized: TokenizedChunk,
    read: Duration,
    tokenize: Duration,
}

impl MadeChunk {
    /// Tokenizes the worker's text as the next piece.
    fn push(
        &mut self,
        filling: &Filling<'_>,
        worker: &mut Worker,
        source: usize,
        first_byte: u64,
        is_last: bool,
    ) {
        let start = Instant::now();
        let interner = &mut worker.interner;
        let (tokens, words) = (interner.tokens(), interner.words());
        tokenize::tokenize(filling.settings.tokenizer, &worker.text, interner);
        let mut crc32 = crc32fast::Hasher::new();
        crc32.update(&worker.text);
        self.tokenized.pieces.push(Piece {
            source,
            source_bytes: filling.sources[source].bytes,
            first_byte,
            is_last,
            bytes: worker.text.len() as u64,
            tokens: interner.tokens() - tokens,
            words: interner.words() - words,
            crc32,
        });
        self.tokenize += start.elapsed();
    }
}

/// Wakes everybody up if a thread panics, who would wait for its chunk for ever otherwise.
struct StopOnPanic<'a, 'b>(&'a Filling<'b>);

impl Drop for StopOnPanic<'_, '_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.arrivals.lock().stop = true;
            self.0.arrived.notify_all();
        }
    }
}

#[cfg(test)]
mod tests;
