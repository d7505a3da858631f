//! Files to segments: read, tokenize, build dictionary and grammar or pack the text, hand over for writing.
//!
//! Text streams through in chunks; tokens pile up until a segment is full, then the segment is built with all threads
//! and handed over before the next one starts to grow. So memory is bounded by the limits of a segment, never by a
//! corpus or a file. The invariant: segments are a function of files and settings; where text is cut, how tokens are
//! numbered and what the grammar is depends on no thread, hash seed or clock.
//!
//! The caller decides where segments are written, and whether they become visible.

mod build;
mod view_texts;

use self::build::{BuildStage, GrammarMaking, is_for_devices};
use crate::drafts::{
    ChunkContent, ContentForm, Draft, DraftFiles, Filling, Limits, SourceTexts, Texts,
};
use crate::ingest::Progress;
use crate::maintain::device_coder::ResidentGrammar;
use crate::notice::Notice;
use crate::paths::encodings::ForeignText;
use crate::paths::sources::{Listing, OnError, SIZE_UNKNOWN, Source, Unreadable};
use crate::runtime::device::Devices;
use crate::runtime::interrupt::check;
use crate::segment::cache::Cache;
use crate::{Error, Result};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
pub(crate) use view_texts::ViewTexts;
use zipfdb_kernels::gompresso::{PackCodec, PackOptions, PackedError, PackedPieces, pack_pieces};
use zipfdb_storage::{
    CorpusSettings, Dictionary, FileEntry, Grammar, IngestMode, SegmentForm, SegmentInfo,
};

/// The most tokens of a segment, whatever its settings: grammar construction may take 30 bytes for each, 6 GB in all.
const SEGMENT_TOKENS_MAX: usize = 200_000_000;

/// The most dictionary entries of a segment's chunks: merging takes up to 100 bytes for each. The limit only matters for data in
/// which hardly a token repeats.
const SEGMENT_ENTRIES_MAX: usize = 1 << 26;

/// The most bytes of those entries.
const SEGMENT_ENTRY_BYTES_MAX: usize = 1 << 30;

/// Bytes of memory for each byte of text, and for each token, that making a segment takes, about: the larger sum limits its size.
const MEMORY_A_BYTE: u64 = 3;
const MEMORY_A_TOKEN: u64 = 16;

/// The most text of a packed segment: queries that need all of its words decode it as a whole.
const PACKED_BYTES_MAX: u64 = 256 << 20;

/// The least new text that [`IngestMode::Auto`] packs first: less becomes a grammar in a second or two.
const PACKED_BYTES_MIN: u64 = 64 << 20;

/// The options of the fast packing.
fn pack_options() -> PackOptions {
    PackOptions {
        level: 1,
        ..PackOptions::new(PackCodec::Byte)
    }
}

/// The least text limit of a segment, however little memory there is.
const SEGMENT_BYTES_MIN: u64 = 16 << 20;

/// The resources for making segments: a stop flag, devices and memory.
#[derive(Clone, Copy)]
pub struct Means<'a> {
    /// Ends the work when it is set.
    pub stop: &'a AtomicBool,
    /// None for the CPU alone.
    pub devices: Option<&'a Devices>,
    /// The cache that makes room for the work. Its limit may make segments smaller than their settings say.
    pub cache: Option<&'a Arc<Cache>>,
}

impl Means<'_> {
    /// The memory that the work may take, in bytes, about.
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

/// The content of a new segment file.
pub(crate) enum NewSegment {
    /// A grammar; the copy in the memory of the device that built it is still there.
    Grammar(NewGrammar, Option<Box<ResidentGrammar>>),
    /// Packed text.
    Text(NewText),
}

impl NewSegment {
    /// Its files, or parts of files.
    pub(crate) fn files(&self) -> &[FileEntry] {
        match self {
            NewSegment::Grammar(new, _) => &new.files,
            NewSegment::Text(new) => &new.files,
        }
    }

    /// Whether no other segment follows.
    pub(crate) fn is_last(&self) -> bool {
        match self {
            NewSegment::Grammar(new, _) => new.is_last,
            NewSegment::Text(new) => new.is_last,
        }
    }
}

/// The content of a segment file with a grammar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewGrammar {
    /// The files, or parts of files, by name.
    pub files: Vec<FileEntry>,
    /// Their tokens.
    pub dictionary: Dictionary,
    /// Their grammar.
    pub grammar: Grammar,
    /// Whether no other segment follows.
    pub is_last: bool,
}

/// The content of a segment file of packed text.
pub(crate) struct NewText {
    /// The files, or parts of files, by name.
    pub(crate) files: Vec<FileEntry>,
    /// The number of their tokens, about.
    pub(crate) tokens: u64,
    /// Their text.
    pub(crate) packed: PackedPieces,
    /// Whether no other segment follows.
    pub(crate) is_last: bool,
}

/// The result of an ingest, and its cost.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The number of files.
    pub files: u64,
    /// Their size.
    pub bytes: u64,
    /// The number of their words.
    pub words: u64,
    /// The number of their tokens.
    pub tokens: u64,
    /// The segments, in order.
    pub segments: Vec<SegmentInfo>,
    /// The files that were left out, by path.
    pub unreadable: Vec<Unreadable>,
    /// Notices about the files.
    pub notices: Vec<Notice>,
    /// The files that are not UTF-8 and were taken as they are.
    pub(crate) foreign: Vec<(Source, ForeignText)>,
    /// The files that have grown since they were listed, and were taken up to their listed size.
    pub(crate) grown: Vec<Source>,
    /// The time spent in each stage.
    pub times: Times,
}

/// Time spent in each stage; the sum is the time of the ingest.
///
/// Reading and tokenizing run side by side on all threads, so their time is divided in proportion to what the threads spent on
/// each.
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
    /// Text to packed text.
    pub pack: Duration,
    /// The segment encoded and written by the caller.
    pub write: Duration,
}

/// Makes segments of the files of `listing`, and calls `publish` with one after the other.
///
/// Uses the current rayon pool. After an error the caller drops the segments published before.
///
/// # Errors
/// [`Error::Unreadable`] for files that cannot be read, unless `on_error` says to skip them; [`Error::Io`] if reading
/// fails in the middle of a file that is larger than a chunk; whatever `publish` fails with; [`Error::Interrupted`] soon
/// after `means.stop` is set, unless a segment is being published: that ends first.
pub(crate) fn ingest<'a>(
    form: SegmentForm,
    listing: Listing,
    settings: &CorpusSettings,
    on_error: OnError,
    progress: &dyn Progress,
    means: impl Into<Means<'a>>,
    publish: &mut Publish<'_>,
) -> Result<Report> {
    let means = means.into();
    let making = SegmentMaking::of(form, limits(settings, means.memory()));
    ingest_within(
        making, listing, settings, on_error, progress, means, publish,
    )
}

/// Writes a segment.
type Publish<'a> = dyn FnMut(NewSegment) -> Result<SegmentInfo> + Send + 'a;

/// As [`ingest`]: reports files that are left out, foreign or have grown too.
fn ingest_within(
    making: SegmentMaking,
    listing: Listing,
    settings: &CorpusSettings,
    on_error: OnError,
    progress: &dyn Progress,
    means: Means<'_>,
    publish: &mut Publish<'_>,
) -> Result<Report> {
    if on_error == OnError::Stop {
        listing.check_readable()?;
    }
    let texts = SourceTexts::new(listing.sources, listing.encoding);
    let mut report = make_segments(making, &texts, settings, on_error, progress, means, publish)?;
    report.foreign = texts.foreign();
    report.grown = texts.grown();
    report.unreadable.extend(listing.unreadable);
    report
        .unreadable
        .sort_by(|left, right| left.path.cmp(&right.path));
    Ok(report)
}

/// As [`ingest`], of any texts.
///
/// # Errors
/// As [`ingest`].
pub(crate) fn ingest_texts(
    form: SegmentForm,
    texts: &dyn Texts,
    settings: &CorpusSettings,
    on_error: OnError,
    progress: &dyn Progress,
    means: Means<'_>,
    publish: &mut Publish<'_>,
) -> Result<Report> {
    let making = SegmentMaking::of(form, limits(settings, means.memory()));
    make_segments(making, texts, settings, on_error, progress, means, publish)
}

/// The form of the first segments of `bytes` of new text in a corpus with this mode.
pub(crate) fn segment_form(mode: IngestMode, bytes: u64) -> SegmentForm {
    match mode {
        IngestMode::Fast => SegmentForm::Text,
        IngestMode::Auto if bytes >= PACKED_BYTES_MIN => SegmentForm::Text,
        IngestMode::Auto | IngestMode::Grammar => SegmentForm::Grammar,
    }
}

/// The part of the memory for making a segment. The rest is for what is read meanwhile, by many threads.
fn memory_of_making(memory: u64) -> u64 {
    memory / 32 * 27
}

/// The text limit of a segment: that of its settings, or less if `memory` bytes do not allow that.
pub(crate) fn segment_bytes(settings: &CorpusSettings, memory: u64) -> u64 {
    let allowed = (memory_of_making(memory) / MEMORY_A_BYTE).max(SEGMENT_BYTES_MIN);
    settings.segment_size.min(allowed)
}

fn limits(settings: &CorpusSettings, memory: u64) -> Limits {
    let tokens = (memory_of_making(memory) / MEMORY_A_TOKEN)
        .max(SEGMENT_BYTES_MIN * MEMORY_A_BYTE / MEMORY_A_TOKEN);
    Limits {
        bytes: segment_bytes(settings, memory),
        tokens: usize::try_from(tokens)
            .map_or(SEGMENT_TOKENS_MAX, |tokens| tokens.min(SEGMENT_TOKENS_MAX)),
        entries: SEGMENT_ENTRIES_MAX,
        entry_bytes: SEGMENT_ENTRY_BYTES_MAX,
    }
}

/// How drafts are made, and turned into segments.
struct SegmentMaking {
    form: ContentForm,
    limits: Limits,
    build: fn(NewDraft<'_>, &mut Report) -> Result<NewSegment>,
}

impl SegmentMaking {
    fn of(form: SegmentForm, limits: Limits) -> SegmentMaking {
        match form {
            SegmentForm::Grammar => SegmentMaking {
                form: ContentForm::Tokens,
                limits,
                build: |draft, report| {
                    let (new, resident) = build(draft, report)?;
                    Ok(NewSegment::Grammar(new, resident))
                },
            },
            SegmentForm::Text => SegmentMaking {
                form: ContentForm::Text,
                limits: Limits {
                    bytes: limits.bytes.min(PACKED_BYTES_MAX),
                    ..limits
                },
                build: |draft, report| pack_draft(draft, report).map(NewSegment::Text),
            },
        }
    }
}

/// A draft with the facts for making a segment of it.
struct NewDraft<'a> {
    draft: Draft,
    files: Vec<FileEntry>,
    /// `[files + 1]`: where the tokens of each start.
    file_offsets: Vec<u32>,
    is_last: bool,
    settings: &'a CorpusSettings,
    progress: &'a dyn Progress,
    means: Means<'a>,
}

fn make_segments(
    making: SegmentMaking,
    texts: &dyn Texts,
    settings: &CorpusSettings,
    on_error: OnError,
    progress: &dyn Progress,
    means: Means<'_>,
    publish: &mut Publish<'_>,
) -> Result<Report> {
    let SegmentMaking {
        form,
        limits,
        build,
    } = making;
    let mut report = Report::default();
    let sizes = (0..texts.len()).map(|text| texts.bytes(text));
    let sizes = sizes.filter(|&size| size != SIZE_UNKNOWN);
    let mut bytes_left = sizes.fold(0, u64::saturating_add);
    let form = match form {
        ContentForm::Tokens if is_for_devices(bytes_left, limits, means.devices) => {
            ContentForm::Cut
        }
        form => form,
    };
    let mut filling = Filling::new(texts, settings, form, limits, on_error);
    let mut files = DraftFiles::new(texts);
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
        let (files, file_offsets) = files.entries(&draft);
        let bytes = bytes_of(&files);
        bytes_left = bytes_left.saturating_sub(bytes);
        report.count(&files);
        let draft = NewDraft {
            draft,
            files,
            file_offsets,
            is_last,
            settings,
            progress,
            means,
        };
        let segment = build(draft, &mut report)?;
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
    fn count(&mut self, files: &[FileEntry]) {
        for file in files {
            self.files += u64::from(file.last_part);
            self.bytes += file.bytes;
            self.words += file.words;
        }
    }
}

fn bytes_of(files: &[FileEntry]) -> u64 {
    files.iter().map(|file| file.bytes).sum()
}

/// Reports the stages of a build and measures their time.
struct BuildStages<'a> {
    progress: &'a dyn Progress,
    bytes: u64,
    times: &'a mut Times,
    current: Option<(BuildStage, Instant)>,
}

impl BuildStages<'_> {
    /// Ends the stage that has begun, and begins the next.
    fn begin(&mut self, next: Option<BuildStage>) {
        let now = Instant::now();
        if let Some((ended, start)) = self.current {
            let time = match ended {
                BuildStage::Dictionary => &mut self.times.dictionary,
                BuildStage::Rounds => &mut self.times.rounds,
                BuildStage::Prune => &mut self.times.prune,
            };
            *time += now - start;
            self.progress.advance(self.bytes);
            self.progress.end();
        }
        let name = next.map(|stage| match stage {
            BuildStage::Dictionary => "dictionary",
            BuildStage::Rounds => "rounds",
            BuildStage::Prune => "prune",
        });
        if let Some(name) = name {
            self.progress.begin(name, self.bytes);
        }
        self.current = next.map(|next| (next, now));
    }
}

/// Makes a grammar of a draft of tokens.
fn build(
    new: NewDraft<'_>,
    report: &mut Report,
) -> Result<(NewGrammar, Option<Box<ResidentGrammar>>)> {
    // A file table counts tokens by u32.
    report.tokens += u64::from(new.file_offsets[new.files.len()]);
    let mut stages = BuildStages {
        progress: new.progress,
        bytes: bytes_of(&new.files),
        times: &mut report.times,
        current: None,
    };
    let making = GrammarMaking {
        settings: new.settings,
        file_offsets: &new.file_offsets,
        devices: new.means.devices,
        stop: new.means.stop,
    };
    let made = making.make(new.draft, &mut |stage| stages.begin(Some(stage)));
    stages.begin(None);
    let (dictionary, grammar, resident) = made?;
    check(new.means.stop)?;
    let new = NewGrammar {
        files: new.files,
        dictionary,
        grammar,
        is_last: new.is_last,
    };
    Ok((new, resident.map(Box::new)))
}

/// Packs a draft of text.
fn pack_draft(new: NewDraft<'_>, report: &mut Report) -> Result<NewText> {
    let bytes = bytes_of(&new.files);
    new.progress.begin("pack", bytes);
    let start = Instant::now();
    let texts = (new.draft.chunks.iter()).filter_map(|chunk| match &chunk.content {
        ChunkContent::Text(text) => Some(&text[..]),
        ChunkContent::Tokens { .. } | ChunkContent::Cut { .. } => None,
    });
    let mut begins = vec![0];
    let texts: Vec<&[u8]> = texts
        .inspect(|text| begins.push(begins[begins.len() - 1] + text.len() as u64))
        .collect();
    let text = |range: Range<u64>| gathered(&texts, &begins, range);
    let packed = pack_pieces(bytes, text, &pack_options(), new.means.stop);
    let packed = packed.map_err(|error| match error {
        PackedError::Stopped(_) => Error::Interrupted,
        error => Error::Invalid {
            subject: "the text of a segment".into(),
            reason: error.to_string(),
        },
    })?;
    // Counted by u32.
    let tokens = u64::from(new.file_offsets[new.files.len()]);
    report.tokens += tokens;
    report.times.pack += start.elapsed();
    new.progress.advance(bytes);
    new.progress.end();
    Ok(NewText {
        files: new.files,
        tokens,
        packed,
        is_last: new.is_last,
    })
}

/// A range of the concatenation of texts, given where each begins.
fn gathered<'a>(texts: &[&'a [u8]], begins: &[u64], range: Range<u64>) -> Cow<'a, [u8]> {
    // Empty texts share their beginning with the next one: the last text that begins at the range or before it holds its start.
    let first = begins.partition_point(|&begin| begin <= range.start) - 1;
    let begin = (range.start - begins[first]) as usize; // within a text
    let wanted = (range.end - range.start) as usize;
    let within = texts[first].len().min(begin + wanted);
    let front = &texts[first][begin..within];
    if front.len() == wanted {
        return front.into();
    }
    let mut bytes = front.to_vec();
    for text in &texts[first + 1..] {
        bytes.extend_from_slice(&text[..text.len().min(wanted - bytes.len())]);
        if bytes.len() == wanted {
            break;
        }
    }
    bytes.into()
}

#[cfg(test)]
mod tests;
