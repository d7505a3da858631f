//! All threads at once: chunks of files to drafts, in order.
//!
//! One task at a time reads a chunk. It begins the next task, which reads on, then tokenizes the chunk or counts its words, and
//! hands it on. The invariant: chunks reach [`Drafts`] in the order in which they were handed out, so threads only affect the
//! time. No task waits for another: a thread that waits for its own parallel work may run a task in between, and must return from
//! it. A full draft ends the work until the next is wanted; the few chunks after it are kept for that.

use super::device_tokens::Cuts;
use super::draft::{
    ChunkContent, ContentForm, Draft, DraftChunk, Drafts, FileStretch, Limits, interned,
};
use super::read::{Chunk, DraftReader, Failure, read_file};
use super::texts::{HeldTexts, Texts};
use crate::ingest::Progress;
use crate::paths::sources::{OnError, Unreadable};
use crate::runtime::interrupt::check;
use crate::tokenize::{Interner, count_words, tokenize};
use crate::{Error, Result};
use parking_lot::Mutex;
use rayon::Scope;
use std::collections::BTreeMap;
use std::io;
use std::mem;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use zipfdb_storage::{CorpusSettings, IoReason, Tokenizer};

/// Text that shares an interner: large enough to repeat most tokens often, small enough for them to stay in cache.
const CHUNK_BYTES_MAX: usize = 4 << 20;

/// The least number of chunks of a segment of small files.
const CHUNKS_A_SEGMENT: u64 = 64;

/// The size of chunks of small files, even if their segment has fewer chunks then.
const SHARED_BYTES_MIN: usize = 1 << 20;

/// The least size of a part of a file, however small segments are.
const CHUNK_BYTES_MIN: usize = 4 << 10;

/// Chunks for each thread that may be ahead of the slowest one.
const CHUNKS_AHEAD: usize = 4;

/// Bytes of text for each token, about.
const BYTES_A_TOKEN: usize = 5;

/// Fills one draft after the other with the chunks of all files.
pub struct Filling<'a> {
    texts: &'a dyn Texts,
    settings: &'a CorpusSettings,
    form: ContentForm,
    /// Whether the CPU numbers tokens although a device was chosen: there may be too many different ones.
    is_numbering: AtomicBool,
    on_error: OnError,
    /// The number of chunks that may be ahead of the slowest one.
    ahead_max: usize,
    /// The reader of the reading task, with what it holds of the last texts that it handed out.
    reader: Mutex<(DraftReader<'a>, HeldTexts)>,
    arrivals: Mutex<Arrivals>,
    /// The part of the time in [`Filling::fill`] for reading, in proportion to what the threads spent.
    pub read_time: Duration,
    /// The part of the same time for tokenizing.
    pub tokenize_time: Duration,
}

/// The buffers of one task.
#[derive(Default)]
struct Worker {
    text: Vec<u8>,
    interner: Interner,
    /// The text of a chunk's files, where text is kept.
    kept: Vec<u8>,
    cuts: Cuts,
}

/// A chunk to read, and its number.
struct NextChunk<'a> {
    number: usize,
    chunk: Chunk<'a>,
    /// The texts to be read soon.
    expected: Range<usize>,
    /// The structures for reading the chunk.
    _held: HeldTexts,
}

/// Estimated tokens for each word: a space before a word is part of its token, other text between words is a gap token.
const TOKENS_A_WORD: f64 = 1.4;

/// The state of the chunks handed out and received.
struct Arrivals {
    /// The number of chunks handed out.
    chunks: usize,
    /// The number of running tasks, each with one chunk.
    tasks: usize,
    /// Whether a task is reading its chunk.
    is_reading: bool,
    /// The buffers that no task uses.
    workers: Vec<Worker>,
    drafts: Drafts,
    /// The number of chunks in `drafts`.
    next: usize,
    /// The chunks that arrived before an earlier one.
    early: BTreeMap<usize, DraftChunk>,
    /// Whether no further chunk may be started.
    stop: bool,
    /// The failure at the earliest chunk.
    failure: Option<(usize, Error)>,
    unreadable: Vec<Unreadable>,
    /// Thread time since the last draft.
    read: Duration,
    tokenize: Duration,
}

impl<'a> Filling<'a> {
    /// A filling that has read nothing yet.
    pub fn new(
        texts: &'a dyn Texts,
        settings: &'a CorpusSettings,
        form: ContentForm,
        limits: Limits,
        on_error: OnError,
    ) -> Filling<'a> {
        Filling {
            texts,
            settings,
            form,
            is_numbering: AtomicBool::new(false),
            on_error,
            ahead_max: ahead_max(settings, limits),
            reader: Mutex::new((
                DraftReader::new(
                    texts,
                    settings.tokenizer,
                    chunk_bytes(settings),
                    shared_bytes(settings, limits),
                ),
                None,
            )),
            arrivals: Mutex::new(Arrivals {
                chunks: 0,
                tasks: 0,
                is_reading: false,
                workers: Vec::new(),
                drafts: Drafts::new(limits, settings.tokenizer),
                next: 0,
                early: BTreeMap::new(),
                stop: false,
                failure: None,
                unreadable: Vec::new(),
                read: Duration::ZERO,
                tokenize: Duration::ZERO,
            }),
            read_time: Duration::ZERO,
            tokenize_time: Duration::ZERO,
        }
    }

    /// The next draft and whether it is the last; `None` if there are no files.
    ///
    /// Uses the current rayon pool. After an error there is no next draft.
    ///
    /// # Errors
    /// [`Error::Unreadable`] and [`Error::Io`] for the first file that cannot be read and must not be skipped;
    /// [`Error::Interrupted`] once `stop` is set.
    pub fn fill(
        &mut self,
        progress: &dyn Progress,
        stop: &AtomicBool,
    ) -> Result<Option<(Draft, bool)>> {
        let start = Instant::now();
        let mut no_more = false;
        if !self.arrivals.get_mut().drafts.has_full() {
            self.arrivals.get_mut().stop = false;
            let filling = &*self;
            rayon::scope(|scope| filling.begin(scope, progress, stop));
            // Building a segment needs the memory.
            self.arrivals.get_mut().workers = Vec::new();
            self.reader.get_mut().1 = None;
            check(stop)?;
            // Without a stop the tasks ended at the last file.
            no_more = !self.arrivals.get_mut().stop;
        }
        let arrivals = self.arrivals.get_mut();
        if let Some((_, error)) = arrivals.failure.take() {
            return Err(error);
        }
        let wall = start.elapsed();
        let read = mem::take(&mut arrivals.read).as_secs_f64();
        let tokenize = mem::take(&mut arrivals.tokenize).as_secs_f64();
        let both = read + tokenize;
        let share = if both > 0.0 { read / both } else { 0.0 };
        self.read_time += wall.mul_f64(share);
        self.tokenize_time += wall - wall.mul_f64(share);
        Ok(arrivals.drafts.pop(no_more))
    }

    /// The files that were skipped so far.
    pub fn take_unreadable(&mut self) -> Vec<Unreadable> {
        mem::take(&mut self.arrivals.get_mut().unreadable)
    }

    /// Begins a task for the next chunk, unless another one reads, every thread has one, or too many chunks wait for a slow one:
    /// then a task that ends begins it.
    fn begin<'s>(&'s self, scope: &Scope<'s>, progress: &'s dyn Progress, stop: &'s AtomicBool) {
        let mut arrivals = self.arrivals.lock();
        if arrivals.is_reading
            || arrivals.stop
            || arrivals.tasks == rayon::current_num_threads()
            || arrivals.chunks > arrivals.next + self.ahead_max
        {
            return;
        }
        arrivals.is_reading = true;
        arrivals.tasks += 1;
        let mut worker = arrivals.workers.pop().unwrap_or_default();
        drop(arrivals);
        scope.spawn(move |scope| {
            let has_more = self.work(&mut worker, scope, progress, stop);
            {
                let mut arrivals = self.arrivals.lock();
                arrivals.tasks -= 1;
                arrivals.workers.push(worker);
            }
            if has_more {
                self.begin(scope, progress, stop);
            }
        });
    }

    /// Reads and tokenizes a chunk; `false` if there are no more, or the work must end.
    fn work<'s>(
        &'s self,
        worker: &mut Worker,
        scope: &Scope<'s>,
        progress: &'s dyn Progress,
        stop: &'s AtomicBool,
    ) -> bool {
        let start = Instant::now();
        let next = self.next(worker, stop);
        self.arrivals.lock().is_reading = false;
        let Some(NextChunk {
            number,
            chunk,
            expected,
            _held,
        }) = next
        else {
            return false;
        };
        let form = match self.form {
            ContentForm::Cut if self.is_numbering.load(Ordering::Relaxed) => ContentForm::Tokens,
            form => form,
        };
        let mut made = MadeChunk {
            form,
            pieces: Vec::new(),
            read: start.elapsed(),
            tokenize: Duration::ZERO,
        };
        self.begin(scope, progress, stop);
        self.texts.expect(expected);
        match chunk {
            Chunk::Files(files) => {
                for source in files {
                    if check(stop).is_err() {
                        self.stop();
                        return false;
                    }
                    let start = Instant::now();
                    let result = read_file(self.texts, source, &mut worker.text);
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
                unread,
            } => {
                let start = Instant::now();
                let result = unread.map_or(Ok(()), |part| part.read(&mut worker.text));
                made.read += start.elapsed();
                match result {
                    Ok(()) => made.push(self, worker, source, first_byte, is_last),
                    Err(error) => self.fail(
                        number,
                        Failure {
                            source,
                            error,
                            is_partly_read: true,
                        },
                    ),
                }
            }
        }
        progress.advance(made.pieces.iter().map(|piece| piece.bytes).sum());
        let start = Instant::now();
        let content = worker.take(form, self.settings.tokenizer, &made.pieces);
        made.tokenize += start.elapsed();
        self.arrive(number, made, content);
        true
    }

    /// Hands out the next chunk; none if there are no more, or a draft is full.
    fn next(&self, worker: &mut Worker, stop: &AtomicBool) -> Option<NextChunk<'a>> {
        let mut reader = self.reader.lock();
        let (reader, held) = &mut *reader;
        loop {
            if check(stop).is_err() {
                self.stop();
            }
            let number = {
                let arrivals = self.arrivals.lock();
                if arrivals.stop {
                    return None;
                }
                arrivals.chunks
            };
            match reader.next(&mut worker.text, stop) {
                Ok(chunk) => {
                    let chunk = chunk?;
                    if let Chunk::Files(files) = &chunk {
                        *held = self.texts.hold(files.clone(), stop);
                    }
                    self.arrivals.lock().chunks += 1;
                    return Some(NextChunk {
                        number,
                        chunk,
                        expected: reader.expected(),
                        _held: held.clone(),
                    });
                }
                Err(failure) => self.fail(number, failure),
            }
        }
    }

    /// Keeps further tasks from beginning.
    fn stop(&self) {
        self.arrivals.lock().stop = true;
    }

    fn arrive(&self, number: usize, made: MadeChunk, content: ChunkContent) {
        let mut arrivals = self.arrivals.lock();
        let arrivals = &mut *arrivals;
        arrivals.read += made.read;
        arrivals.tokenize += made.tokenize;
        let chunk = DraftChunk {
            pieces: made.pieces,
            content,
        };
        arrivals.early.insert(number, chunk);
        while let Some(chunk) = arrivals.early.remove(&arrivals.next) {
            arrivals.next += 1;
            if arrivals.drafts.push(chunk) {
                self.is_numbering.store(true, Ordering::Relaxed);
            }
        }
        arrivals.stop |= arrivals.drafts.has_full();
    }

    /// Records that a file of chunk `number` cannot be read.
    fn fail(&self, number: usize, failure: Failure) {
        let path = self.texts.path(failure.source);
        let mut arrivals = self.arrivals.lock();
        let may_be_left_out = self.texts.may_be_left_out(failure.source);
        if self.on_error == OnError::Skip && !failure.is_partly_read && may_be_left_out {
            let reason = IoReason(&failure.error).to_string();
            (arrivals.unreadable).push(Unreadable::whole(path, reason));
            return;
        }
        let error = if failure.is_partly_read {
            Error::Io {
                action: "read",
                path,
                source: failure.error,
            }
        } else {
            unreadable(self.texts, failure.source, &failure.error)
        };
        if arrivals
            .failure
            .as_ref()
            .is_none_or(|(first, _)| number < *first)
        {
            arrivals.failure = Some((number, error));
        }
        arrivals.stop = true;
    }
}

/// The largest size of a chunk, about: it alone decides where texts of a corpus are cut.
pub(super) fn chunk_bytes(settings: &CorpusSettings) -> usize {
    usize::try_from(settings.segment_size)
        .unwrap_or(CHUNK_BYTES_MAX)
        .clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX)
}

/// The largest size of a chunk of several files: each thread has one, and some are kept for the next segment.
fn shared_bytes(settings: &CorpusSettings, limits: Limits) -> usize {
    let part = usize::try_from(limits.bytes / CHUNKS_A_SEGMENT).unwrap_or(usize::MAX);
    chunk_bytes(settings).min(part.max(SHARED_BYTES_MIN))
}

/// The number of chunks that may be ahead of the slowest one: some for each thread, and at most half of the limit of a segment
/// where memory is short.
fn ahead_max(settings: &CorpusSettings, limits: Limits) -> usize {
    let bytes = (limits.tokens / 2).saturating_mul(BYTES_A_TOKEN);
    let at_once = CHUNKS_AHEAD * rayon::current_num_threads();
    at_once.min((bytes / chunk_bytes(settings)).max(2))
}

/// The error for a text that cannot be read.
pub(super) fn unreadable(texts: &dyn Texts, source: usize, error: &io::Error) -> Error {
    Error::Unreadable {
        path: texts.path(source),
        reason: IoReason(error).to_string(),
        more: 0,
    }
}

/// The content of a chunk in the making, and the time spent on it.
struct MadeChunk {
    form: ContentForm,
    pieces: Vec<FileStretch>,
    read: Duration,
    tokenize: Duration,
}

impl MadeChunk {
    /// Makes the worker's text the next piece.
    fn push(
        &mut self,
        filling: &Filling<'_>,
        worker: &mut Worker,
        source: usize,
        first_byte: u64,
        is_last: bool,
    ) {
        let start = Instant::now();
        let mut crc32 = crc32fast::Hasher::new();
        crc32.update(&worker.text);
        let bytes = worker.text.len() as u64;
        let (tokens, words) = worker.take_in(self.form, filling.settings.tokenizer);
        self.pieces.push(FileStretch {
            source,
            source_bytes: filling.texts.bytes(source),
            first_byte,
            is_last,
            bytes,
            tokens,
            words,
            crc32,
        });
        self.tokenize += start.elapsed();
    }
}

impl Worker {
    /// Appends the text to the content of the chunk. Returns the numbers of tokens and of words; for text that is kept the former
    /// is an estimate.
    fn take_in(&mut self, form: ContentForm, tokenizer: Tokenizer) -> (usize, u64) {
        match form {
            ContentForm::Tokens => {
                let interner = &mut self.interner;
                let (tokens, words) = (interner.tokens(), interner.words());
                tokenize(tokenizer, &self.text, interner);
                (interner.tokens() - tokens, interner.words() - words)
            }
            ContentForm::Cut => {
                let (tokens, words) = self.cuts.counts();
                tokenize(tokenizer, &self.text, &mut self.cuts);
                let (tokens_after, words_after) = self.cuts.counts();
                self.keep();
                (tokens_after - tokens, words_after - words)
            }
            ContentForm::Text => {
                let words = count_words(tokenizer, &self.text);
                self.keep();
                // Less than the bytes in memory.
                ((words as f64 * TOKENS_A_WORD) as usize, words)
            }
        }
    }

    /// Appends the text to the kept text.
    fn keep(&mut self) {
        if self.kept.is_empty() {
            mem::swap(&mut self.kept, &mut self.text)
        } else {
            self.kept.extend_from_slice(&self.text)
        }
    }

    /// Takes the kept text.
    fn take_kept(&mut self) -> Vec<u8> {
        let mut text = mem::take(&mut self.kept);
        text.shrink_to_fit();
        text
    }

    /// Takes the content of the chunk, which has these pieces.
    fn take(
        &mut self,
        form: ContentForm,
        tokenizer: Tokenizer,
        pieces: &[FileStretch],
    ) -> ChunkContent {
        match form {
            ContentForm::Tokens => ChunkContent::taken(&mut self.interner),
            ContentForm::Cut => {
                let text = self.take_kept();
                match self.cuts.take() {
                    Some(cuts) => ChunkContent::Cut { text, cuts },
                    None => interned(tokenizer, &text, pieces),
                }
            }
            ContentForm::Text => ChunkContent::Text(self.take_kept()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::{Cursor, Read};
    use std::path::PathBuf;
    use std::thread;

    use rayon::prelude::*;

    use super::super::texts::OpenText;
    use super::*;
    use crate::ingest::NoProgress;
    use crate::runtime::start_pool;

    /// Texts that are decoded on all threads, like those of a corpus.
    struct SharedOut {
        texts: usize,
    }

    const TEXT: &[u8] = b"text that a chunk has room for;  ";

    struct Decoded(Cursor<Vec<u8>>);

    impl Texts for SharedOut {
        fn len(&self) -> usize {
            self.texts
        }

        fn name(&self, _text: usize) -> &str {
            "text"
        }

        fn bytes(&self, _text: usize) -> u64 {
            3300
        }

        fn path(&self, _text: usize) -> PathBuf {
            "text".into()
        }

        fn open(&self, text: usize) -> io::Result<Box<dyn OpenText + '_>> {
            let parts = (0..100).into_par_iter().with_max_len(1).map(|part: usize| {
                // The thread that splits the work has to wait for others.
                thread::sleep(Duration::from_micros((text + part) as u64 % 3 * 10));
                TEXT
            });
            let parts: Vec<&[u8]> = parts.collect();
            Ok(Box::new(Decoded(Cursor::new(parts.concat()))))
        }
    }

    impl Read for Decoded {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.read(buffer)
        }
    }

    impl OpenText for Decoded {
        fn finish(&self) -> io::Result<()> {
            Ok(())
        }
    }

    /// For each draft its texts and the tokens of each of its chunks.
    type Filled = Vec<(Vec<usize>, Vec<Vec<Vec<u8>>>)>;

    fn filled(form: ContentForm, threads: usize, tokens: usize, entries: usize) -> Filled {
        let pool = start_pool(Some(threads)).unwrap();
        let settings = CorpusSettings {
            segment_size: 1,
            ..CorpusSettings::default()
        };
        let limits = Limits {
            bytes: 1 << 40,
            tokens,
            entries,
            entry_bytes: 1 << 40,
        };
        let texts = SharedOut { texts: 300 };
        pool.install(|| {
            let mut filling = Filling::new(&texts, &settings, form, limits, OnError::Stop);
            let (mut drafts, stop) = (Vec::new(), AtomicBool::new(false));
            while let Some((mut draft, _)) = filling.fill(&NoProgress, &stop).unwrap() {
                draft.intern(settings.tokenizer);
                let pieces = draft.chunks.iter().flat_map(|chunk| &chunk.pieces);
                let sources = pieces.map(|piece| piece.source).collect();
                let tokens = |chunk: &DraftChunk| match &chunk.content {
                    ChunkContent::Tokens { ids, dictionary } => {
                        let tokens = ids.iter().map(|&id| dictionary.token(id).to_vec());
                        tokens.collect()
                    }
                    _ => panic!("tokens were asked for"),
                };
                drafts.push((sources, draft.chunks.iter().map(tokens).collect()));
            }
            drafts
        })
    }

    #[test]
    fn threads_that_wait_for_parts_of_a_text_keep_no_chunk_from_others() {
        // Few chunks may be ahead of the slowest one.
        let filled = |threads| filled(ContentForm::Tokens, threads, 20_000, 1 << 40);
        let expected = filled(1);
        assert!(expected.len() > 2);
        let sources = expected.iter().flat_map(|(sources, _)| sources);
        assert!(sources.copied().eq(0..300));
        for threads in [2, 3, 16] {
            assert!(filled(threads) == expected, "{threads} threads");
        }
    }

    #[test]
    fn tokens_that_are_left_to_devices_make_the_same_drafts() {
        // Entries end drafts, tokens do, or neither.
        for (tokens, entries) in [(1 << 30, 40), (20_000, 9_000), (1 << 30, 1 << 30)] {
            let filled = |form| filled(form, 3, tokens, entries);
            let expected = filled(ContentForm::Tokens);
            assert_eq!(expected.len() > 2, tokens.min(entries) < 1 << 30);
            assert!(filled(ContentForm::Cut) == expected, "{tokens} {entries}");
        }
    }
}
