//! Replaces files of a corpus by files of the operating system, in one step.
//!
//! The invariant: readers see all old files or all new ones. The segments that hold replaced files are written again without
//! them, as by a recompression, together with the new files; edits in the log are merged on the way. The writer's lock is held
//! all the while, so no edit is made of a text that is replaced.

use std::collections::HashSet;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use zipfdb_storage::{CorpusRecord, IngestMode, SegmentForm};

use crate::Result;
use crate::answer::CorpusView;
use crate::drafts::{HeldTexts, OpenText, SourceTexts, Texts};
use crate::engine::core::Core;
use crate::ingest::Progress;
use crate::maintain::ingest::{
    Means, Report, ViewTexts, ingest_texts, segment_bytes, segment_form,
};
use crate::maintain::recompress::{ViewFiles, due, files_of, metadata_of, write};
use crate::maintain::source_values::SourceValues;
use crate::overlay::Overlay;
use crate::overlay::edits::Base;
use crate::paths::sources::{Listing, OnError, Unreadable};

/// Files to put into a corpus.
#[derive(Clone, Copy)]
pub(crate) struct NewFiles<'a> {
    pub(crate) listing: &'a Listing,
    /// What to do about unreadable files.
    pub(crate) on_error: OnError,
    /// The form of the new segments; none for the corpus' setting.
    pub(crate) ingest: Option<IngestMode>,
}

impl NewFiles<'_> {
    /// The form of the files' first segments in a corpus; files of unknown size may be large.
    pub(crate) fn form(&self, record: &CorpusRecord) -> SegmentForm {
        let sizes = self.listing.sources.iter().map(|source| source.bytes);
        let bytes = sizes.fold(0, u64::saturating_add);
        segment_form(self.ingest.unwrap_or(record.settings.ingest), bytes)
    }
}

/// Puts files into a corpus, replacing files of the same names; none if the corpus has no file of these names. A file
/// stays if its replacement cannot be read and may be left out.
///
/// The caller is no thread of the database's pool, as it waits for locks. `go_on` is called wherever it waits, and an error of it
/// ends the work; `stop` is set at the same time.
///
/// # Errors
/// As [`crate::maintain::ingest::ingest`], if a segment is damaged, the disk is full, the corpus was dropped, or that of
/// `go_on`: nothing has changed then.
pub(crate) fn replace(
    core: &Core,
    corpus: &str,
    new: NewFiles<'_>,
    progress: &dyn Progress,
    stop: &AtomicBool,
    go_on: &(dyn Fn() -> Result<()> + Sync),
) -> Result<Option<Report>> {
    let NewFiles {
        listing, on_error, ..
    } = new;
    if on_error == OnError::Stop {
        listing.check_readable()?;
    }
    let pool = &core.runtime.pool;
    let _one = core.runtime.recompressing.wait_while(go_on)?;
    let turn = core.runtime.writing.wait_while(go_on)?;
    let (record, stored) = core.stored_view(corpus)?;
    let form = new.form(&record);
    let overlay = core.edits.tip(record.id);
    let overlay = overlay.unwrap_or_else(|| Overlay::new(record.segments.as_slice().into()));
    let position = core.store.log_position();
    let tokenizer = record.settings.tokenizer;
    let view = pool.install(|| CorpusView::new(stored, overlay, tokenizer, stop))?;
    let view = Arc::new(view);

    let is_replacement = |name: &str| view.find_file(name).is_some();
    if !(listing.sources.iter()).any(|source| is_replacement(&source.name)) {
        return Ok(None);
    }
    // Unreadable sources, whose old files stay.
    let mut unreadable: Vec<Unreadable> = Vec::new();
    loop {
        go_on()?;
        let left_out: HashSet<&Path> = unreadable.iter().map(|left| left.path.as_path()).collect();
        let mut sources = listing.sources.clone();
        sources.retain(|source| !left_out.contains(&*source.path));
        let replacements: HashSet<Arc<Path>> = (sources.iter())
            .filter(|source| is_replacement(&source.name))
            .map(|source| source.path.clone())
            .collect();
        let new_names: HashSet<&str> = sources.iter().map(|source| source.name.as_str()).collect();
        let names = new_names
            .iter()
            .copied()
            .filter(|name| is_replacement(name));
        let full = segment_bytes(&record.settings, core.cache.limit());
        let replaced = due(&record, full, &view, names)?;
        let mut kept = files_of(&view, &replaced)?;
        kept.retain(|&file| !new_names.contains(&*view.files()[file as usize].name));
        let kept = ViewTexts::new(view.clone(), kept);
        drop(new_names);
        let texts = MergedTexts::new(kept, SourceTexts::new(sources, listing.encoding));

        let values = SourceValues::new(listing, &record.settings.metadata);
        let mut publication = (core.store).begin_recompression(corpus, &replaced, position)?;
        let mut base: Vec<u64> = (record.segments.iter().copied())
            .filter(|id| !replaced.contains(id))
            .collect();
        let means = Means {
            stop,
            devices: Some(&core.runtime.devices),
            cache: Some(&core.cache),
        };
        let mut report = pool.install(|| {
            let settings = &record.settings;
            ingest_texts(
                form,
                &texts,
                settings,
                on_error,
                progress,
                means,
                &mut |new| {
                    // A file that is replaced keeps its metadata, where its record has no value.
                    let metadata = metadata_of(&view, settings, new.files(), stop)?;
                    let metadata = values.put(metadata, new.files(), &left_out, stop)?;
                    let info = write(core, &mut publication, new, &metadata)?;
                    base.push(info.segment_id);
                    Ok(info)
                },
            )
        })?;
        let failed = (report.unreadable.iter()).filter(|left| replacements.contains(&*left.path));
        let failed: Vec<Unreadable> = failed.cloned().collect();
        if !failed.is_empty() {
            unreadable.extend(failed);
            continue;
        }
        go_on()?;
        base.sort_unstable();
        let base = Base {
            segments: base.into(),
            // All edits are merged, so none is applied again.
            files: &ViewFiles(&view),
            go_on,
        };
        let end = core.store.log_position();
        (core.edits).rebase(&turn, record.id, position, base, end, |swap| {
            Ok(publication.commit_with(swap)?)
        })?;
        report.foreign = texts.sources.foreign();
        report.grown = texts.sources.grown();
        report.unreadable.extend(unreadable);
        report.unreadable.extend(listing.unreadable.iter().cloned());
        (report.unreadable).sort_by(|left, right| left.path.cmp(&right.path));
        return Ok(Some(report));
    }
}

/// Files of a corpus that stay and files of the operating system, by name.
struct MergedTexts {
    kept: ViewTexts,
    sources: SourceTexts,
    order: Vec<MergedText>,
}

#[derive(Clone, Copy)]
enum MergedText {
    Kept(usize),
    Source(usize),
}

impl MergedTexts {
    fn new(kept: ViewTexts, sources: SourceTexts) -> MergedTexts {
        let order = (0..kept.len()).map(MergedText::Kept);
        let mut order: Vec<MergedText> = order
            .chain((0..sources.len()).map(MergedText::Source))
            .collect();
        order.sort_by_key(|&text| match text {
            MergedText::Kept(text) => kept.name(text),
            MergedText::Source(text) => sources.name(text),
        });
        MergedTexts {
            kept,
            sources,
            order,
        }
    }

    fn of(&self, text: usize) -> (&dyn Texts, usize) {
        match self.order[text] {
            MergedText::Kept(text) => (&self.kept, text),
            MergedText::Source(text) => (&self.sources, text),
        }
    }
}

impl Texts for MergedTexts {
    fn len(&self) -> usize {
        self.order.len()
    }

    fn name(&self, text: usize) -> &str {
        let (texts, text) = self.of(text);
        texts.name(text)
    }

    fn bytes(&self, text: usize) -> u64 {
        let (texts, text) = self.of(text);
        texts.bytes(text)
    }

    fn path(&self, text: usize) -> PathBuf {
        let (texts, text) = self.of(text);
        texts.path(text)
    }

    fn open(&self, text: usize) -> io::Result<Box<dyn OpenText + '_>> {
        let (texts, text) = self.of(text);
        texts.open(text)
    }

    fn hold(&self, texts: Range<usize>, stop: &AtomicBool) -> HeldTexts {
        // Files that stay keep their order.
        let mut kept = self.order[texts].iter().filter_map(|text| match text {
            MergedText::Kept(text) => Some(*text),
            MergedText::Source(_) => None,
        });
        let first = kept.next()?;
        let last = kept.next_back().unwrap_or(first);
        self.kept.hold(first..last + 1, stop)
    }

    fn may_be_left_out(&self, text: usize) -> bool {
        let (texts, text) = self.of(text);
        texts.may_be_left_out(text)
    }
}
