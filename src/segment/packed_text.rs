//! Segments of packed text: read by range, and tokenized where a question needs words.
//!
//! Invariant: the result is the text that was packed, or an error: every block has a checksum, and so has every file. The tokens
//! are those of a grammar of the same files, as the same code makes both: they are a grammar without rules.

use std::io::{self, Read};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use zipfdb_kernels::gompresso::{
    BlockTable, BlockUnpacker, HEADER_SIZE, PackHeader, PackedError, References,
};
use zipfdb_sql::quote;
use zipfdb_storage::{Dictionary, FileEntry, Grammar, PathText, SegmentReader};

use super::data::WholeGrammar;
use super::kept_blocks::KeptBlocks;
use super::live_segment::Parts;
use super::root_chunks::RootChunks;
use super::segment_view::{SegmentStructure, SegmentView};
use super::structure::StructureKind;
use super::word_search::WordSearch;
use crate::drafts::{
    ContentForm, DraftFiles, Filling, Limits, OpenText, RangedText, SegmentTokens, Texts,
    each_text, numbered,
};
use crate::ingest::NoProgress;
use crate::paths::sources::OnError;
use crate::segment::cost::TEXT_SCAN_BYTE_COST;
use crate::{Error, Result};

/// The most blocks that are kept unpacked: neighbours of small files, and blocks that threads read at the same time.
const KEPT_BLOCKS: usize = 8;

/// The block table of a packed text, and the starts of files in it.
pub(crate) struct TextBlocks {
    table: BlockTable,
    /// `[files + 1]`
    starts: Vec<u64>,
    kept: KeptBlocks<u8>,
}

impl SegmentStructure for TextBlocks {
    const KIND: StructureKind = StructureKind::TextBlocks;

    fn bytes(&self) -> usize {
        let block = self.table.header().block_size as usize;
        self.table.bytes() + size_of_val(&self.starts[..]) + KEPT_BLOCKS * block
    }

    fn make(segment: &SegmentView, _: &AtomicBool) -> Result<Arc<TextBlocks>> {
        match &segment.parts {
            Parts::Text(stored) => Ok(Arc::new(TextBlocks::read(stored)?)),
            Parts::Stored(_) => Err(segment.inconsistent("it holds no packed text")),
            #[cfg(test)]
            Parts::Memory(_) => Err(segment.inconsistent("plain data is not packed")),
        }
    }
}

/// The error for damaged packed text.
fn damaged(stored: &SegmentReader) -> impl Fn(PackedError) -> Error {
    |source| Error::Packed {
        path: stored.path().to_owned(),
        source,
    }
}

impl TextBlocks {
    /// Reads the block table of a segment.
    ///
    /// # Errors
    /// If it cannot be read, or is damaged.
    pub(crate) fn read(stored: &SegmentReader) -> Result<TextBlocks> {
        let size = stored.text_size();
        let header = stored.read_text(0..size.min(HEADER_SIZE as u64))?;
        let header = PackHeader::read(&header).map_err(damaged(stored))?;
        let end = header.blocks_begin().min(size);
        let table = stored.read_text(size.min(HEADER_SIZE as u64)..end)?;
        let table = BlockTable::read(&header, &table, size).map_err(damaged(stored))?;
        let mut starts = vec![0];
        for file in stored.files()? {
            // The file table was checked to add up.
            starts.push(starts[starts.len() - 1] + file.bytes);
        }
        if starts.last() != Some(&header.size) {
            return Err(Error::Inconsistent {
                segment: stored.info().segment_id,
                reason: "the size of its text differs from that of its files".into(),
            });
        }
        Ok(TextBlocks {
            table,
            starts,
            kept: KeptBlocks::new(KEPT_BLOCKS),
        })
    }

    /// The range of a file in the text.
    fn file(&self, file: u32) -> Range<u64> {
        self.starts[file as usize]..self.starts[file as usize + 1]
    }

    /// A block of text.
    fn block(&self, stored: &SegmentReader, block: usize) -> Result<Arc<[u8]>> {
        self.kept.get(block, || {
            let bytes = stored.read_text(self.table.stored(block))?;
            let mut text = vec![0; self.table.block_len(block)];
            let mut unpacker = BlockUnpacker::default();
            let order = References::Sequential;
            (self
                .table
                .unpack(&mut unpacker, block, &bytes, &mut text, order))
            .map_err(damaged(stored))?;
            Ok(text)
        })
    }

    /// Calls `visit` with the bytes of a range of the text, in order and in pieces, until it breaks.
    fn visit(
        &self,
        stored: &SegmentReader,
        range: Range<u64>,
        mut visit: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<io::Result<()>> {
        let block_size = u64::from(self.table.header().block_size);
        let mut at = range.start;
        while at < range.end {
            // Blocks are counted by u32.
            let number = at / block_size;
            let text = self.block(stored, number as usize)?;
            let begin = number * block_size;
            let end = range.end.min(begin + text.len() as u64);
            // Within a block.
            let piece = &text[(at - begin) as usize..(end - begin) as usize];
            if let Err(error) = visit(piece) {
                return Ok(Err(error));
            }
            at = end;
        }
        Ok(Ok(()))
    }

    /// The bytes `offset..offset + length` of a file, as far as it goes.
    ///
    /// # Errors
    /// If they cannot be read, or are damaged.
    pub(crate) fn extract(
        &self,
        stored: &SegmentReader,
        file: u32,
        offset: u64,
        length: u64,
    ) -> Result<Vec<u8>> {
        let Range { start, end } = self.file(file);
        let start = start.saturating_add(offset).min(end);
        let range = start..start.saturating_add(length).min(end);
        let mut bytes = Vec::new();
        let read = self.append(stored, range, &mut bytes)?;
        read.map_err(|_| Error::NoMemory {
            what: "a text".into(),
            bytes: length.min(end - start),
        })?;
        Ok(bytes)
    }

    /// Appends the bytes of a range of the text. The inner result is an error if there is no memory for them.
    fn append(
        &self,
        stored: &SegmentReader,
        range: Range<u64>,
        bytes: &mut Vec<u8>,
    ) -> Result<io::Result<()>> {
        self.visit(stored, range, |piece| {
            bytes.try_reserve(piece.len())?;
            bytes.extend_from_slice(piece);
            Ok(())
        })
    }

    /// The content of a file, by its place in the file table.
    ///
    /// # Errors
    /// If it cannot be read, or is damaged.
    pub(crate) fn content(&self, stored: &SegmentReader, file: usize) -> Result<Vec<u8>> {
        let entry = &stored.files()?[file];
        // Files are numbered by u32.
        let content = self.extract(stored, file as u32, 0, entry.bytes)?;
        if crc32fast::hash(&content) == entry.crc32 {
            Ok(content)
        } else {
            Err(wrong_checksum(stored, entry))
        }
    }
}

fn wrong_checksum(stored: &SegmentReader, file: &FileEntry) -> Error {
    Error::Inconsistent {
        segment: stored.info().segment_id,
        reason: format!("the text of {} has another checksum", quote(&file.name)),
    }
}

impl SegmentView {
    /// The segment's packed text; none if it has a grammar.
    pub(crate) fn packed_text(&self) -> Option<&SegmentReader> {
        match &self.parts {
            Parts::Text(stored) => Some(stored),
            Parts::Stored(_) => None,
            #[cfg(test)]
            Parts::Memory(_) => None,
        }
    }

    /// Bytes of a file from packed text, as far as it goes; none if the segment has a grammar.
    ///
    /// # Errors
    /// If the text is damaged.
    pub(crate) fn extract_packed(
        &self,
        file: u32,
        offset: u64,
        length: u64,
    ) -> Result<Option<Vec<u8>>> {
        let Some(stored) = self.packed_text() else {
            return Ok(None);
        };
        let blocks = self.pin::<TextBlocks>()?;
        blocks.extract(stored, file, offset, length).map(Some)
    }

    /// Writes a file from packed text; the inner error is the target's. None if the segment has a grammar.
    ///
    /// # Errors
    /// If the text is damaged.
    pub(crate) fn write_packed(
        &self,
        file: u32,
        target: &mut dyn io::Write,
    ) -> Result<Option<io::Result<()>>> {
        let Some(stored) = self.packed_text() else {
            return Ok(None);
        };
        let blocks = self.pin::<TextBlocks>()?;
        let written = blocks.visit(stored, blocks.file(file), |piece| target.write_all(piece));
        written.map(Some)
    }

    /// Prepares the structure that extracts of the segment read; built if it is missing.
    ///
    /// # Errors
    /// If the segment is damaged.
    pub(crate) fn prepare_extracts(&self) -> Result<()> {
        match self.packed_text() {
            Some(_) => self.pin::<TextBlocks>().map(drop),
            None if self.is_read_by_chunks() => self.pin::<RootChunks>().map(drop),
            None => self.content().map(drop),
        }
    }

    /// Whether a pass over packed text pays for a few words: its tokens are neither in memory nor due.
    fn is_text_worth_scanning(&self) -> bool {
        self.is_packed()
            && self.pinned::<Dictionary>().is_none()
            && !self.budgets.dictionary.is_due(self.tokens_price())
    }

    /// The time of a pass over packed text, in nanoseconds of all threads.
    pub(crate) fn text_scan_cost(&self) -> Option<f64> {
        let cost = || self.text_bytes() as f64 * TEXT_SCAN_BYTE_COST / self.thread_count();
        self.is_text_worth_scanning().then(cost)
    }

    /// The time of tokenizing packed text, in nanoseconds of all threads.
    fn tokens_price(&self) -> u64 {
        // Below 2^39.
        self.missing(&[StructureKind::Grammar]) as u64
    }

    /// For each file the count of a word, by a pass over packed text that tokenizes only around the word's bytes; none if the
    /// segment has a grammar.
    ///
    /// # Errors
    /// If the text is damaged, or `stop` is set.
    pub(crate) fn count_in_text(&self, word: &[u8], stop: &AtomicBool) -> Result<Option<Vec<u64>>> {
        let Some(stored) = self.packed_text() else {
            return Ok(None);
        };
        let begin = Instant::now();
        let texts = StoredTexts {
            stored,
            blocks: self.pin::<TextBlocks>()?,
            files: stored.files()?,
        };
        let settings = &stored.header().settings;
        let search = WordSearch::new(settings.tokenizer, word);
        let found = each_text(&texts, settings, stop, |_, text| search.count(text));
        let found = found.map_err(|error| inconsistent_text(stored, error))?;
        let mut counts = vec![0; texts.files.len()];
        for (file, count) in found {
            counts[file] += count;
        }
        self.budgets.dictionary.add_since(begin);
        Ok(Some(counts))
    }

    /// The dictionary and the grammar, which has no rules, of packed text. The grammar is stored in the cache too.
    pub(super) fn tokenized_dictionary(
        &self,
        stored: &SegmentReader,
        stop: &AtomicBool,
    ) -> Result<Arc<Dictionary>> {
        let begin = Instant::now();
        let (dictionary, grammar) = self.tokenize(stored, stop)?;
        if self.pinned::<WholeGrammar>().is_none() {
            // The price of either is that of both.
            self.hold(Arc::new(grammar), begin.elapsed().as_nanos() as u64);
        }
        Ok(Arc::new(dictionary))
    }

    /// As `tokenized_dictionary`, but the dictionary is stored in the cache.
    pub(super) fn tokenized_grammar(
        &self,
        stored: &SegmentReader,
        stop: &AtomicBool,
    ) -> Result<Arc<WholeGrammar>> {
        let begin = Instant::now();
        let (dictionary, grammar) = self.tokenize(stored, stop)?;
        if self.pinned::<Dictionary>().is_none() {
            self.hold(Arc::new(dictionary), begin.elapsed().as_nanos() as u64);
        }
        Ok(Arc::new(grammar))
    }

    fn tokenize(
        &self,
        stored: &SegmentReader,
        stop: &AtomicBool,
    ) -> Result<(Dictionary, WholeGrammar)> {
        let texts = StoredTexts {
            stored,
            blocks: self.pin::<TextBlocks>()?,
            files: stored.files()?,
        };
        let SegmentTokens {
            files,
            file_offsets,
            dictionary,
            tokens,
        } = tokens_of(&texts, stop)?;
        let stored_files = texts.files.iter().zip(&files);
        let differs = |(stored, found): &(&FileEntry, &FileEntry)| {
            (stored.bytes, stored.words, stored.crc32) != (found.bytes, found.words, found.crc32)
        };
        if files.len() != texts.files.len() {
            return Err(
                self.inconsistent("the number of files in its text differs from its file table")
            );
        }
        if let Some((file, found)) = stored_files.clone().find(differs) {
            return Err(if file.crc32 == found.crc32 {
                self.inconsistent(
                    "the number of words of a file differs from its file table, in this version of Unicode; \
                     hint: copy the files of the corpus into a new one",
                )
            } else {
                wrong_checksum(stored, file)
            });
        }
        let rules = Grammar {
            terminal_count: dictionary.len(),
            rule_offsets: vec![0],
            symbols: Vec::new(),
            level_offsets: vec![0],
            root_offsets: vec![0],
            root: Vec::new(),
        };
        let grammar = WholeGrammar {
            rules: Arc::new(rules),
            root_offsets: file_offsets,
            root: tokens,
        };
        Ok((dictionary, grammar))
    }
}

/// The error for a segment whose text cannot be read.
fn inconsistent_text(stored: &SegmentReader, error: Error) -> Error {
    match error {
        Error::Unreadable { path, reason, .. } => Error::Inconsistent {
            segment: stored.info().segment_id,
            reason: format!(
                "the text of \"{}\" cannot be read: {reason}",
                PathText(&path)
            ),
        },
        error => error,
    }
}

/// The tokens of all files of a segment.
fn tokens_of(texts: &StoredTexts<'_>, stop: &AtomicBool) -> Result<SegmentTokens> {
    let settings = &texts.stored.header().settings;
    // The writer has ensured that the text fits into one segment.
    let limits = Limits {
        bytes: u64::MAX,
        tokens: usize::MAX,
        entries: usize::MAX,
        entry_bytes: usize::MAX,
    };
    let form = ContentForm::Tokens;
    let mut filling = Filling::new(texts, settings, form, limits, OnError::Stop);
    let filled = filling
        .fill(&NoProgress, stop)
        .map_err(|error| inconsistent_text(texts.stored, error))?;
    let Some((draft, _)) = filled else {
        return Ok(SegmentTokens::default());
    };
    let (files, file_offsets) = DraftFiles::new(texts).entries(&draft);
    let buffer = |count| {
        let mut tokens = Vec::new();
        tokens.try_reserve_exact(count).ok()?;
        Some(tokens)
    };
    let (dictionary, tokens) = numbered(settings.tokenizer, draft, buffer)?;
    Ok(SegmentTokens {
        files,
        file_offsets,
        dictionary,
        tokens,
    })
}

/// The files of a segment as texts to be cut into chunks.
struct StoredTexts<'a> {
    stored: &'a SegmentReader,
    blocks: &'a TextBlocks,
    files: &'a [FileEntry],
}

impl Texts for StoredTexts<'_> {
    fn len(&self) -> usize {
        self.files.len()
    }

    fn name(&self, text: usize) -> &str {
        &self.files[text].name
    }

    fn bytes(&self, text: usize) -> u64 {
        self.files[text].bytes
    }

    fn path(&self, text: usize) -> PathBuf {
        self.name(text).into()
    }

    fn open(&self, text: usize) -> io::Result<Box<dyn OpenText + '_>> {
        Ok(Box::new(OpenStored {
            texts: self,
            // Files are numbered by u32.
            rest: self.blocks.file(text as u32),
        }))
    }

    fn open_ranged(&self, text: usize) -> io::Result<Option<Arc<dyn RangedText + '_>>> {
        Ok(Some(Arc::new(RangedStored {
            texts: self,
            // Files are numbered by u32.
            file: self.blocks.file(text as u32),
        })))
    }
}

struct RangedStored<'a> {
    texts: &'a StoredTexts<'a>,
    /// The range in the text of the segment.
    file: Range<u64>,
}

impl RangedText for RangedStored<'_> {
    fn read(&self, range: Range<u64>, text: &mut Vec<u8>) -> io::Result<()> {
        // The text must fit into memory.
        text.try_reserve_exact((range.end - range.start) as usize)?;
        let range = self.file.start + range.start..self.file.start + range.end;
        let blocks = self.texts.blocks;
        let appended = blocks.append(self.texts.stored, range, text);
        appended.map_err(io::Error::other)?
    }
}

struct OpenStored<'a> {
    texts: &'a StoredTexts<'a>,
    rest: Range<u64>,
}

impl Read for OpenStored<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let block_size = u64::from(self.texts.blocks.table.header().block_size);
        // As far as the block goes.
        let end = (self.rest.start / block_size + 1) * block_size;
        let end = end
            .min(self.rest.end)
            .min(self.rest.start + buffer.len() as u64);
        let mut read = 0;
        let range = self.rest.start..end;
        let visited = self.texts.blocks.visit(self.texts.stored, range, |piece| {
            buffer[read..read + piece.len()].copy_from_slice(piece);
            read += piece.len();
            Ok(())
        });
        visited.map_err(io::Error::other)??;
        self.rest.start = end;
        Ok(read)
    }
}

impl OpenText for OpenStored<'_> {
    fn finish(&self) -> io::Result<()> {
        Ok(())
    }
}
