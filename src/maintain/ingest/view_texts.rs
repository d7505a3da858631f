//! Files of a corpus as texts to make segments of.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::answer::CorpusView;
use crate::drafts::{HeldTexts, OpenText, Texts};
use crate::segment::SegmentView;

/// Files of a corpus at one moment.
pub struct ViewTexts {
    view: Arc<CorpusView>,
    /// The numbers of the files, ascending.
    files: Vec<u32>,
    /// The segments that are being read.
    held: Mutex<Weak<HeldSegments>>,
}

/// Segments whose texts are being read, with the structures for it.
struct HeldSegments {
    /// Their places.
    segments: BTreeSet<usize>,
    _views: Vec<SegmentView>,
}

impl ViewTexts {
    /// Some files of a view, ascending.
    pub fn new(view: Arc<CorpusView>, files: Vec<u32>) -> ViewTexts {
        ViewTexts {
            view,
            files,
            held: Mutex::default(),
        }
    }

    /// The size of all of them, in bytes.
    pub fn total_bytes(&self) -> u64 {
        (0..self.files.len()).map(|text| self.bytes(text)).sum()
    }
}

impl Texts for ViewTexts {
    fn len(&self) -> usize {
        self.files.len()
    }

    fn name(&self, text: usize) -> &str {
        &self.view.files()[self.files[text] as usize].name
    }

    fn bytes(&self, text: usize) -> u64 {
        self.view.files()[self.files[text] as usize].bytes
    }

    fn path(&self, text: usize) -> PathBuf {
        self.name(text).into()
    }

    fn hold(&self, texts: Range<usize>, stop: &AtomicBool) -> HeldTexts {
        let files = self.files[texts].iter();
        let segments: BTreeSet<usize> = files
            .flat_map(|&file| self.view.segments_of(file as usize))
            .collect();
        let held = self.held.lock().upgrade();
        let held = held.filter(|held| held.segments == segments);
        Some(held.unwrap_or_else(|| {
            // The read that meets the damage reports it.
            let views = (self.view.stored()).with_extracts(segments.iter().copied(), stop);
            let made = Arc::new(HeldSegments {
                _views: views.unwrap_or_default(),
                segments,
            });
            *self.held.lock() = Arc::downgrade(&made);
            made
        }))
    }

    fn open(&self, text: usize) -> io::Result<Box<dyn OpenText + '_>> {
        Ok(Box::new(OpenViewText {
            view: &self.view,
            file: self.files[text] as usize,
            offset: 0,
        }))
    }
}

struct OpenViewText<'a> {
    view: &'a CorpusView,
    file: usize,
    offset: u64,
}

/// Bytes that are extracted at a time.
const EXTRACT_BYTES: usize = 1 << 18;

impl Read for OpenViewText<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = buffer.len().min(EXTRACT_BYTES);
        let bytes = self.view.extract(self.file, self.offset, length as u64);
        let bytes = bytes.map_err(io::Error::other)?;
        buffer[..bytes.len()].copy_from_slice(&bytes);
        self.offset += bytes.len() as u64;
        Ok(bytes.len())
    }
}

impl OpenText for OpenViewText<'_> {
    fn finish(&self) -> io::Result<()> {
        Ok(())
    }
}
