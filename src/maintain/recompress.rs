//! Edits and segments to new segments.
//!
//! The invariant: texts do not change. All edits in the log when a recompression begins are in its segments; later commits are
//! applied to these anew, and files imported meanwhile stay in segments of their own. Readers keep their snapshots, writers wait
//! only while the new segments replace the old ones.
//!
//! A full recompression makes all segments as one COPY of the current files would, so the bytes are the same. One that is *due*
//! takes the segments that edits touch, those of packed text, and small ones when too many have about the same size, so that
//! every byte is written again about once for each fourfold growth of the corpus, beside the cost of edits of its own segment.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rayon::ThreadPool;
use zipfdb_kernels::gompresso::PackedPieces;
use zipfdb_storage::{
    CorpusRecord, CorpusSettings, FileEntry, MetadataValue, Publication, SegmentColumn,
    SegmentForm, SegmentInfo, SegmentParts, SegmentWriter, TextParts,
};

use crate::answer::{CorpusView, StoredView, stored_value};
use crate::engine::core::Core;
use crate::ingest::Progress;
use crate::maintain::device_coder::encode_on_device;
use crate::maintain::ingest::{Means, NewSegment, ViewTexts, ingest_texts, segment_bytes};
use crate::overlay::edits::Base;
use crate::overlay::{Overlay, StoredFiles};
use crate::paths::sources::OnError;
use crate::tokenize::UNICODE_VERSION;
use crate::{Error, Result};

/// The result of a recompression.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Recompression {
    /// The number of segments that were replaced.
    pub replaced: usize,
    /// The new segments.
    pub segments: Vec<SegmentInfo>,
    /// The number of files that were written again.
    pub files: u64,
    /// Their size.
    pub bytes: u64,
}

/// What to recompress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Everything, so that the segments are those of one COPY.
    All,
    /// The segments that edits touch, those of packed text, and those that have become too small.
    Due,
    /// The segments that edits touch, to packed text, if they have no more text than is pending.
    Packed,
}

/// From this number on, segments that are not much larger than the text to be written are rewritten too.
const TIER_SEGMENTS_MAX: usize = 4;

/// A segment is much larger than a text from this factor on.
const TIER_FACTOR: u64 = 4;

/// The sizes of files in a view, which new segments keep.
pub(super) struct ViewFiles<'a>(pub(super) &'a CorpusView);

impl StoredFiles for ViewFiles<'_> {
    fn bytes(&self, file: &str) -> Option<u64> {
        let files = self.0.files();
        self.0.find_file(file).map(|file| files[file].bytes)
    }

    fn no_such_file(&self, file: &str) -> Error {
        self.0.no_such_file(file)
    }
}

/// The files of a view, and those imported after it: their segments are not among `known`, the segments of the view.
struct FilesSince<'a> {
    view: &'a CorpusView,
    stored: &'a StoredView,
    known: &'a [u64],
}

impl StoredFiles for FilesSince<'_> {
    fn bytes(&self, file: &str) -> Option<u64> {
        let in_view = ViewFiles(self.view).bytes(file);
        in_view.or_else(|| {
            let file = self.stored.find_file(file)?;
            let segments = self.stored.segments();
            let mut places = self.stored.segments_of(file);
            let is_new = places.all(|place| !self.known.contains(&segments[place].id()));
            is_new.then(|| self.stored.files()[file].bytes)
        })
    }

    fn no_such_file(&self, file: &str) -> Error {
        self.view.no_such_file(file)
    }
}

/// Checks that a corpus is still the same, and not another one created since with its name.
pub(crate) fn check_is_same(before: &CorpusRecord, now: &CorpusRecord) -> Result<()> {
    if before.id == now.id {
        Ok(())
    } else {
        Err(Error::Storage(zipfdb_storage::Error::NoSuchCorpus {
            corpus: before.name.clone(),
            missing: None,
        }))
    }
}

/// Merges edits and segments of a corpus; none if there is nothing to do. Parallel work runs in `pool`; the caller is no thread
/// of it, as it waits for locks.
///
/// `go_on` is called wherever it waits, and an error of it ends the work; `stop` is set at the same time.
///
/// # Errors
/// If a segment is damaged, the disk is full, the corpus was dropped, or that of `go_on`: nothing has changed then.
pub(crate) fn recompress(
    core: &Core,
    pool: &ThreadPool,
    corpus: &str,
    scope: Scope,
    progress: &dyn Progress,
    stop: &AtomicBool,
    go_on: &(dyn Fn() -> Result<()> + Sync),
) -> Result<Option<Recompression>> {
    let _one = core.runtime.recompressing.wait_while(go_on)?;
    // Everything in the log up to here is in the tip.
    let (record, stored, overlay, position, is_pending) = {
        let _turn = core.runtime.writing.wait_while(go_on)?;
        let (record, stored) = core.stored_view(corpus)?;
        let overlay = core.edits.tip(record.id);
        let overlay = overlay.unwrap_or_else(|| Overlay::new(record.segments.as_slice().into()));
        let is_pending = core.edits.is_pending(record.id);
        let position = core.store.log_position();
        (record, stored, overlay, position, is_pending)
    };
    let is_edited = !overlay.is_empty();
    let tokenizer = record.settings.tokenizer;
    let view = pool.install(|| CorpusView::new(stored.clone(), overlay, tokenizer, stop))?;
    let view = Arc::new(view);
    let full = segment_bytes(&record.settings, core.cache.limit());
    let replaced: Vec<u64> = match scope {
        Scope::All
            if !is_edited
                && is_one_copy(&record, &stored, full)
                && !has_dropped_columns(&record, &stored)? =>
        {
            Vec::new()
        }
        Scope::All => record.segments.clone(),
        Scope::Due => due(&record, full, &view, std::iter::empty())?,
        Scope::Packed => match few_touched(&record, &view)? {
            Some(touched) => touched,
            None => return Ok(None),
        },
    };
    // Edits that cancel each other out are merged too, so that the log holds nothing more of their files.
    if replaced.is_empty() && !is_edited && !is_pending {
        return Ok(None);
    }
    let files = files_of(&view, &replaced)?;
    let texts = ViewTexts::new(view.clone(), files);
    let mut publication = core
        .store
        .begin_recompression(corpus, &replaced, position)?;
    check_is_same(&record, publication.corpus())?;
    let mut segments = Vec::new();
    let form = match scope {
        Scope::All | Scope::Due => SegmentForm::Grammar,
        Scope::Packed => SegmentForm::Text,
    };
    let means = Means {
        stop,
        devices: Some(&core.runtime.devices),
        cache: Some(&core.cache),
    };
    let bytes = texts.total_bytes();
    let meter = (core.runtime.underway).begin(record.id, &replaced, bytes, progress);
    let report = pool.install(|| {
        let (settings, on_error) = (&record.settings, OnError::Stop);
        ingest_texts(
            form,
            &texts,
            settings,
            on_error,
            &meter,
            means,
            &mut |new| {
                let metadata = metadata_of(&view, &record.settings, new.files(), stop)?;
                let info = write(core, &mut publication, new, &metadata)?;
                segments.push(info.segment_id);
                Ok(info)
            },
        )
    })?;

    let turn = core.runtime.writing.wait_while(go_on)?;
    go_on()?;
    // Files may have been imported meanwhile, to segments of their own.
    let (now, stored) = core.stored_view(corpus)?;
    check_is_same(&record, &now)?;
    let files = FilesSince {
        view: &view,
        stored: &stored,
        known: &record.segments,
    };
    let kept = now.segments.iter().filter(|id| !replaced.contains(id));
    let mut base: Vec<u64> = segments.iter().chain(kept).copied().collect();
    base.sort_unstable();
    let base = Base {
        segments: base.into(),
        files: &files,
        go_on,
    };
    let end = core.store.log_position();
    (core.edits).rebase(&turn, record.id, position, base, end, |swap| {
        Ok(publication.commit_with(swap)?)
    })?;
    Ok(Some(Recompression {
        replaced: replaced.len(),
        segments: report.segments,
        files: report.files,
        bytes: report.bytes,
    }))
}

/// Writes a segment of a publication.
pub(crate) fn write(
    core: &Core,
    publication: &mut Publication,
    segment: NewSegment,
    metadata: &[SegmentColumn],
) -> Result<SegmentInfo> {
    let is_last = segment.is_last();
    let (header, path) = publication.next_segment(UNICODE_VERSION, is_last)?;
    let backend = core.store.backend();
    match segment {
        NewSegment::Grammar(new, resident) => {
            let parts = SegmentParts {
                header: &header,
                files: &new.files,
                dictionary: &new.dictionary,
                grammar: &new.grammar,
                metadata,
            };
            SegmentWriter::write_with(backend, &path, parts, |grammar, dictionary| {
                let devices = &core.runtime.devices;
                encode_on_device(grammar, dictionary, devices, resident)
            })
        }
        NewSegment::Text(new) => {
            let PackedPieces { front, blocks } = &new.packed;
            let pieces = [front].into_iter().chain(blocks);
            let text: Vec<&[u8]> = pieces.map(|piece| &piece[..]).collect();
            let parts = TextParts {
                header: &header,
                files: &new.files,
                tokens: new.tokens,
                text: &text,
                metadata,
            };
            Ok(SegmentWriter::write_text(backend, &path, parts)?)
        }
    }
}

/// The metadata that files of these names have in a view, but columns in which none has a value. Files that the view lacks have
/// none.
pub(crate) fn metadata_of(
    view: &CorpusView,
    settings: &CorpusSettings,
    files: &[FileEntry],
    stop: &AtomicBool,
) -> Result<Vec<SegmentColumn>> {
    let declared = settings.metadata.columns();
    if declared.is_empty() {
        return Ok(Vec::new());
    }
    let places = files.iter().map(|file| view.find_file(&file.name));
    let places: Vec<Option<usize>> = places.collect();
    let mut columns = Vec::new();
    for column in declared {
        let known = view.metadata(column, stop)?;
        let value = |place: &Option<usize>| {
            let value = place.and_then(|place| stored_value(column.kind, &known.value(place)));
            value.unwrap_or(MetadataValue::Null)
        };
        let values: Vec<MetadataValue> = places.iter().map(value).collect();
        if values.iter().any(|value| *value != MetadataValue::Null) {
            columns.push(SegmentColumn::new(column.clone(), &values)?);
        }
    }
    Ok(columns)
}

/// Whether the segments are those of one COPY of the files, if segments have up to `full` bytes of text.
fn is_one_copy(record: &CorpusRecord, stored: &StoredView, full: u64) -> bool {
    let headers = stored
        .segments()
        .iter()
        .filter_map(|segment| segment.header());
    let headers: Vec<_> = headers.collect();
    headers.len() == record.segments.len()
        && !stored.segments().iter().any(|segment| segment.is_packed())
        && headers
            .windows(2)
            .all(|pair| pair[0].publication == pair[1].publication)
        && (headers.iter()).all(|header| {
            header.settings.segment_size == record.settings.segment_size
                && header.unicode_version == UNICODE_VERSION
        })
        && (0..)
            .zip(&headers)
            .all(|(index, header)| header.publication_index == index)
        && headers.last().is_none_or(|header| header.publication_last)
        // Less memory may have made them smaller.
        && (stored.segments().windows(2))
            .all(|pair| pair[0].text_bytes() + pair[1].text_bytes() > full)
}

/// Whether a segment has a column that the corpus no longer has.
fn has_dropped_columns(record: &CorpusRecord, stored: &StoredView) -> Result<bool> {
    let declared = record.settings.metadata.columns();
    for segment in stored.segments() {
        let columns = segment.metadata()?;
        let is_declared =
            |found: &SegmentColumn| declared.iter().any(|known| known.id == found.column.id);
        if !columns.iter().all(is_declared) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The segments to replace, if files with the names `going` leave their segments with the edited files, and segments have up to
/// `full` bytes of text.
pub(super) fn due<'a>(
    record: &CorpusRecord,
    full: u64,
    view: &'a CorpusView,
    going: impl Iterator<Item = &'a str>,
) -> Result<Vec<u64>> {
    let stored = view.stored();
    let sizes: Vec<u64> = (stored.segments().iter())
        .map(|segment| segment.text_bytes())
        .collect();
    let names = view.overlay().names().chain(going);
    // The text to be written again: the edited files, and the others of their segments.
    let (mut chosen, bytes) = touched(view, names);
    chosen.extend((0..sizes.len()).filter(|&segment| stored.segments()[segment].is_packed()));
    loop {
        close(stored, &mut chosen)?;
        let written = bytes + chosen.iter().map(|&segment| sizes[segment]).sum::<u64>();
        let of_tier = |&segment: &usize| {
            !chosen.contains(&segment)
                && sizes[segment] < full / 2
                && sizes[segment] / TIER_FACTOR < written
        };
        let smaller: Vec<usize> = (0..sizes.len()).filter(of_tier).collect();
        if smaller.len() < TIER_SEGMENTS_MAX {
            break;
        }
        chosen.extend(smaller);
    }
    Ok(ids(record, chosen))
}

/// The segments that edits touch, and those with other parts of their files, if they have no more text than is pending.
fn few_touched(record: &CorpusRecord, view: &CorpusView) -> Result<Option<Vec<u64>>> {
    let stored = view.stored();
    let names = view.overlay().names();
    let (mut chosen, _) = touched(view, names);
    close(stored, &mut chosen)?;
    let sizes = chosen
        .iter()
        .map(|&segment| stored.segments()[segment].text_bytes());
    let are_few = sizes.sum::<u64>() <= view.overlay().pending_bytes();
    Ok(are_few.then(|| ids(record, chosen)))
}

/// The segments with files of these names, by place, and the bytes of those files that no segment has.
fn touched<'a>(view: &CorpusView, names: impl Iterator<Item = &'a str>) -> (BTreeSet<usize>, u64) {
    let stored = view.stored();
    let (mut segments, mut new) = (BTreeSet::new(), 0);
    for name in names {
        match stored.find_file(name) {
            Some(file) => segments.extend(stored.segments_of(file)),
            None => {
                let file = view.find_file(name);
                new += file.map_or(0, |file| view.files()[file].bytes);
            }
        }
    }
    (segments, new)
}

/// The numbers of segments.
fn ids(record: &CorpusRecord, segments: BTreeSet<usize>) -> Vec<u64> {
    let segments = segments.into_iter();
    segments.map(|segment| record.segments[segment]).collect()
}

/// Adds the segments that have parts of files of chosen ones.
fn close(stored: &StoredView, chosen: &mut BTreeSet<usize>) -> Result<()> {
    let mut rest: Vec<usize> = chosen.iter().copied().collect();
    while let Some(segment) = rest.pop() {
        for file in stored.files_in(segment)? {
            for other in stored.segments_of(file) {
                if chosen.insert(other) {
                    rest.push(other);
                }
            }
        }
    }
    Ok(())
}

/// The files of the new segments: those in the replaced segments, and those that no segment has.
pub(super) fn files_of(view: &CorpusView, replaced: &[u64]) -> Result<Vec<u32>> {
    let stored = view.stored();
    let mut is_kept = vec![false; view.files().len()];
    for (index, segment) in stored.segments().iter().enumerate() {
        if replaced.contains(&segment.id()) {
            continue;
        }
        for file in stored.files_in(index)? {
            if let Some(file) = view.find_file(&stored.files()[file].name) {
                is_kept[file] = true;
            }
        }
    }
    // Files are numbered by u32.
    let files = (0..is_kept.len() as u32).filter(|&file| !is_kept[file as usize]);
    Ok(files.collect())
}

#[cfg(test)]
mod tests;
