//! Files to segments: read, tokenize, build dictionary and grammar, hand over for writing.
//!
//! Text streams through in chunks; tokens pile up until a segment is full, then the segment is built with all threads
//! and handed over before the next one starts to grow. So memory is bounded by the limits of a segment, never by a
//! corpus or a file. The invariant: segments are a function of files and settings; where text is cut, how tokens are
//! numbered and what the grammar is depends on no thread, hash seed or clock.
//!
//! Where segments are written, and whether they become visible, is for the caller to say.

mod draft;
mod fill;
mod read;
mod texts;

use crate::answer::cost::construction_costs;
use crate::notice::Notice;
use crate::paths::encodings::ForeignText;
use crate::paths::sources::{Listing, OnError, SIZE_UNKNOWN, Source, Unreadable};
use crate::runtime::device::Devices;
use crate::runtime::interrupt::check;
use crate::segment::cache::Cache;
use crate::tokenize::{LocalDictionary, merge};
use crate::{Error, Progress, Result};
use draft::{Draft, Limits};
use fill::Filling;
use rayon::prelude::*;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
pub(crate) use texts::SourceTexts;
pub use texts::{OpenText, Texts, ViewTexts};
use zipfdb_kernels::{
    Constructed, Parameters, Stage, construct_observed, give_back_free_memory, gpu, token_buffer,
};
use zipfdb_storage::{CorpusSettings, Dictionary, FileEntry, Grammar, SegmentInfo, Tokenizer};

/// A segment has at most so many tokens, whatever its settings say: grammar construction may take 30 bytes for each, 6 GB
/// in all.
const SEGMENT_TOKENS_MAX: usize = 200_000_000;

/// A segment's chunks have at most so many dictionary entries: merging takes up to 100 bytes for each, and that only
/// matters for data in which hardly a token repeats.
const SEGMENT_ENTRIES_MAX: usize = 1 << 25;

/// Those entries have at most so many bytes.
const SEGMENT_ENTRY_BYTES_MAX: usize = 1 << 30;

/// Making a segment takes about so many bytes of memory for each byte of text, and for each token: whichever is more decides how
/// large it may be.
const MEMORY_A_BYTE: u64 = 3;
const MEMORY_A_TOKEN: u64 = 12;

/// However little memory there is, a segment may have so much text.
const SEGMENT_BYTES_MIN: u64 = 16 << 20;

/// What makes segments: until when, on which devices, and in how much memory.
#[derive(Clone, Copy)]
pub struct Means<'a> {
    /// Ends the work when it is set.
    pub stop: &'a AtomicBool,
    /// None for the CPU.
    pub devices: Option<&'a Devices>,
    /// What gives way to the work. Segments are smaller than their settings say where its limit asks for that.
    pub cache: Option<&'a Arc<Cache>>,
}

impl Means<'_> {
    /// Bytes of memory that the work may take, about.
    fn memory(&self) -> u64 {
        self.cache.map_or(u64::MAX, |cache| cache.limit())
    }
}

impl<'a> From<&'a AtomicBool> for Means<'a> {
    fn from(stop: &'a AtomicBool) -> Means<'a> {
        Means {
            stop,
            devices: None,
            cache: None,
        }
    }
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
    /// What else is to be said of the files.
    pub notices: Vec<Notice>,
    /// Those that are not UTF-8 and were taken as they are.
    pub(crate) foreign: Vec<(Source, ForeignText)>,
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
/// fails in the middle of a file that is larger than a chunk; whatever `publish` fails with; [`Error::Interrupted`] soon
/// after `means.stop` is set, unless a segment is being published: that ends first.
pub fn ingest<'a>(
    listing: Listing,
    settings: &CorpusSettings,
    on_error: OnError,
    progress: &dyn Progress,
    means: impl Into<Means<'a>>,
    publish: &mut (dyn FnMut(NewSegment) -> Result<SegmentInfo> + Send),
) -> Result<Report> {
    let means = means.into();
    let limits = limits(settings, means.memory());
    ingest_within(
        limits, listing, settings, on_error, progress, means, publish,
    )
}

fn ingest_within(
    limits: Limits,
    listing: Listing,
    settings: &CorpusSettings,
    on_error: OnError,
    progress: &dyn Progress,
    means: Means<'_>,
    publish: &mut (dyn FnMut(NewSegment) -> Result<SegmentInfo> + Send),
) -> Result<Report> {
    if let (OnError::Stop, Some(first)) = (on_error, listing.unreadable.first()) {
        return Err(Error::Unreadable {
            path: first.path.clone(),
            reason: first.reason.clone(),
            more: listing.unreadable.len() - 1,
        });
    }
    let texts = SourceTexts::new(listing.sources, listing.encoding);
    let mut report = make_segments(limits, &texts, settings, on_error, progress, means, publish)?;
    report.foreign = texts.foreign();
    report.unreadable.extend(listing.unreadable);
    report
        .unreadable
        .sort_unstable_by(|left, right| left.path.cmp(&right.path));
    Ok(report)
}

/// As [`ingest`], of any texts.
///
/// # Errors
/// As [`ingest`].
pub fn ingest_texts<'a>(
    texts: &dyn Texts,
    settings: &CorpusSettings,
    on_error: OnError,
    progress: &dyn Progress,
    means: impl Into<Means<'a>>,
    publish: &mut (dyn FnMut(NewSegment) -> Result<SegmentInfo> + Send),
) -> Result<Report> {
    let means = means.into();
    make_segments(
        limits(settings, means.memory()),
        texts,
        settings,
        on_error,
        progress,
        means,
        publish,
    )
}

/// How much text a segment may have: what its settings say, or less where so many bytes of memory do not allow that.
pub(crate) fn segment_bytes(settings: &CorpusSettings, memory: u64) -> u64 {
    let allowed = (memory / MEMORY_A_BYTE).max(SEGMENT_BYTES_MIN);
    settings.segment_size.min(allowed)
}

fn limits(settings: &CorpusSettings, memory: u64) -> Limits {
    let tokens = (memory / MEMORY_A_TOKEN).max(SEGMENT_BYTES_MIN * MEMORY_A_BYTE / MEMORY_A_TOKEN);
    Limits {
        bytes: segment_bytes(settings, memory),
        tokens: usize::try_from(tokens)
            .map_or(SEGMENT_TOKENS_MAX, |tokens| tokens.min(SEGMENT_TOKENS_MAX)),
        entries: SEGMENT_ENTRIES_MAX,
        entry_bytes: SEGMENT_ENTRY_BYTES_MAX,
    }
}

fn make_segments(
    limits: Limits,
    texts: &dyn Texts,
    settings: &CorpusSettings,
    on_error: OnError,
    progress: &dyn Progress,
    means: Means<'_>,
    publish: &mut (dyn FnMut(NewSegment) -> Result<SegmentInfo> + Send),
) -> Result<Report> {
    let mut report = Report::default();
    let mut filling = Filling::new(texts, settings, limits, on_error);
    let mut files = Files::new(texts);
    let sizes = (0..texts.len()).map(|text| texts.bytes(text));
    let sizes = sizes.filter(|&size| size != SIZE_UNKNOWN);
    let mut bytes_left = sizes.fold(0, u64::saturating_add);
    let mut reservation = means.cache.map(|cache| cache.reservation());
    loop {
        if let Some(reservation) = &mut reservation {
            let bytes = bytes_left.min(limits.bytes).saturating_mul(MEMORY_A_BYTE);
            reservation.set(bytes.min(means.memory()));
        }
        progress.begin("tokenize", bytes_left);
        let filled = filling.fill(progress, means.stop)?;
        progress.end();
        let Some((draft, is_last)) = filled else {
            break;
        };
        let entries = files.entries(&draft);
        let bytes = bytes_of(&entries.0);
        bytes_left = bytes_left.saturating_sub(bytes);
        let segment = build(
            draft,
            entries,
            is_last,
            settings,
            progress,
            means,
            &mut report,
        )?;
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
    report.times.read = filling.read_time;
    report.times.tokenize = filling.tokenize_time;
    report.unreadable = filling.take_unreadable();
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

fn bytes_of(files: &[FileEntry]) -> u64 {
    files.iter().map(|file| file.bytes).sum()
}

/// Makes a segment of a draft and its [`Files::entries`].
fn build(
    draft: Draft,
    (files, file_offsets): (Vec<FileEntry>, Vec<u32>),
    is_last: bool,
    settings: &CorpusSettings,
    progress: &dyn Progress,
    means: Means<'_>,
    report: &mut Report,
) -> Result<NewSegment> {
    let bytes = bytes_of(&files);
    progress.begin("dictionary", bytes);
    let start = Instant::now();
    let (dictionary, tokens) = renumber(settings.tokenizer, draft, files.len())?;
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
        means,
    )?;
    end_stage(None);
    check(means.stop)?;
    Ok(NewSegment {
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
    })
}

/// Builds a grammar, on a device if that is wanted and its memory allows it: the same one.
fn construct(
    tokens: Vec<u32>,
    file_offsets: &[u32],
    terminal_count: u32,
    parameters: &Parameters,
    on_stage: &mut dyn FnMut(Stage),
    means: Means<'_>,
) -> Result<Constructed> {
    let threads = rayon::current_num_threads();
    let device = means.devices.and_then(|devices| {
        let device =
            devices.for_construction(tokens.len(), construction_costs(tokens.len(), threads))?;
        Some((devices, device))
    });
    if let Some((devices, device)) = device {
        let on_stage = RefCell::new(&mut *on_stage);
        let built = device.with_gpu(|gpu| {
            let mut on_stage = on_stage.borrow_mut();
            let (files, stop) = (file_offsets, means.stop);
            Ok(gpu::construct(
                gpu,
                &tokens,
                files,
                terminal_count,
                parameters,
                &mut **on_stage,
                stop,
            )?)
        });
        match built {
            Err(error @ Error::Gpu(_)) if devices.falls_back() => device.count_failure(&error),
            built => return built,
        }
    }
    Ok(construct_observed(
        tokens,
        file_offsets,
        terminal_count,
        parameters,
        on_stage,
        &mut |_| {},
        means.stop,
    )?)
}

/// The dictionary of a draft, and the tokens of all its files, so many, numbered by it.
fn renumber(
    tokenizer: Tokenizer,
    draft: Draft,
    file_count: usize,
) -> Result<(Dictionary, Vec<u32>)> {
    let mut locals: Vec<LocalDictionary> = Vec::with_capacity(draft.chunks.len());
    let mut chunks: Vec<Vec<u32>> = Vec::with_capacity(draft.chunks.len());
    for chunk in draft.chunks {
        locals.push(chunk.dictionary);
        chunks.push(chunk.ids);
    }
    let merged = merge(tokenizer, &locals);
    drop(locals);
    let count = chunks.iter().map(Vec::len).sum();
    let mut tokens = token_buffer(count, file_count).ok_or_else(|| Error::NoMemory {
        what: "the tokens of a segment".into(),
        bytes: (count * size_of::<u32>()) as u64,
    })?;
    tokens.resize(count, 0);
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
    // Chunks were many small arrays, whose memory the large ones that follow could not use.
    give_back_free_memory();
    Ok((merged.dictionary, tokens))
}

/// Makes the file entries of one draft after the other.
struct Files<'a> {
    texts: &'a dyn Texts,
    /// Words of a file that is not complete yet.
    words_before: u64,
}

impl<'a> Files<'a> {
    fn new(texts: &'a dyn Texts) -> Files<'a> {
        Files {
            texts,
            words_before: 0,
        }
    }

    /// The files of a draft, and `[files + 1]` where their tokens start.
    fn entries(&mut self, draft: &Draft) -> (Vec<FileEntry>, Vec<u32>) {
        let mut entries = Vec::new();
        let mut token_offsets = vec![0];
        let mut tokens = 0;
        let pieces = draft.chunks.iter().flat_map(|chunk| &chunk.pieces);
        let mut pieces = pieces.peekable();
        while let Some(first) = pieces.next() {
            let mut file = first.clone();
            while let Some(next) = pieces.next_if(|next| next.source == file.source) {
                file.bytes += next.bytes;
                file.tokens += next.tokens;
                file.words += next.words;
                file.is_last = next.is_last;
                file.crc32.combine(&next.crc32);
            }
            if file.first_byte == 0 {
                self.words_before = 0;
            }
            entries.push(FileEntry {
                name: self.texts.name(file.source).to_owned(),
                bytes: file.bytes,
                words: file.words,
                crc32: file.crc32.finalize(),
                first_byte: file.first_byte,
                first_word: self.words_before,
                last_part: file.is_last,
            });
            self.words_before += file.words;
            tokens += file.tokens;
            // Construction checks that the tokens are fewer than 2^31.
            token_offsets.push(tokens as u32);
        }
        (entries, token_offsets)
    }
}

#[cfg(test)]
mod tests;
