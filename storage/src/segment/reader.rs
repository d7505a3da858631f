//! Reading a segment file: the frame at once, everything else when it is first asked for.
//!
//! Invariant: no byte of a section is examined before its checksum is verified, that of the section or, for a part that
//! is read again, one taken when the section was verified; and no number of it is believed before it is checked: a file
//! made to mislead, or changed while it is open, gives an error.
//!
//! The file stays open. Sections are read into memory to be decoded and dropped when they are.

use super::coding::{DecodeError, Fault, NoMemory, reserve};
use super::frame::{self, Frame, FrameFault, STORED};
use super::symbols::{self, Bodies, Coded, Counts, Part};
use super::{
    Dictionary, FileEntry, Section, SegmentColumn, SegmentForm, SegmentHeader, SegmentInfo,
    TokenRun, WordBlocks, content, files, metadata, tokens, totals,
};
use crate::backend::{Backend, BackendReader, Bytes};
use crate::error::io_error;
use crate::path_text::PathText;
use crate::{Error, Grammar, Result};
use parking_lot::Mutex;
use rayon::prelude::*;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// Bytes of a section that are read at a time where only its checksum is asked for.
const PIECE_SIZE: usize = 1 << 20;

/// An open segment file.
///
/// The file table is decoded at first use and kept. Other parts are decoded, in parallel on the current rayon pool, when
/// no caller holds them already, and kept as long as callers hold them. Threads that ask for the same part at the same
/// time may each decode it: waiting for one another inside a thread pool could wait for ever.
#[derive(Debug)]
pub struct SegmentReader {
    path: PathBuf,
    file: Arc<dyn BackendReader>,
    frame: Frame,
    files: OnceLock<Vec<FileEntry>>,
    dictionary: Decoded<Dictionary>,
    bodies: Decoded<Bodies>,
    grammar: Decoded<Grammar>,
}

/// A part that stays decoded while a caller holds it.
#[derive(Debug)]
struct Decoded<T>(Mutex<Weak<T>>);

impl<T> Decoded<T> {
    /// Not decoded yet.
    fn new() -> Decoded<T> {
        Decoded(Mutex::new(Weak::new()))
    }

    /// The part; without a lock while it is decoded, see [`SegmentReader`].
    fn get_or(&self, decode: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
        if let Some(decoded) = self.0.lock().upgrade() {
            return Ok(decoded);
        }
        let decoded = Arc::new(decode()?);
        let mut newest = self.0.lock();
        if let Some(other) = newest.upgrade() {
            return Ok(other); // another thread was first: the same
        }
        *newest = Arc::downgrade(&decoded);
        Ok(decoded)
    }
}

impl SegmentReader {
    /// Opens a file: checks its frame, decodes nothing.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be read, [`Error::Version`], [`Error::Checksum`] or [`Error::Corrupt`] if its frame
    /// is not that of a segment file of this version.
    pub fn open(backend: &dyn Backend, path: &Path) -> Result<SegmentReader> {
        let file = backend.open(path).map_err(io_error(path, "open"))?;
        SegmentReader::new(path, file)
    }

    /// Takes the content of a file; `path` is for messages.
    ///
    /// # Errors
    /// Those of [`SegmentReader::open`], but [`Error::Io`].
    pub fn from_bytes(path: &Path, file: Bytes) -> Result<SegmentReader> {
        SegmentReader::new(path, Arc::new(file))
    }

    /// Whether the other reads the same segment: all that its frame says, the checksums of all sections among it.
    pub(crate) fn is_same(&self, other: &SegmentReader) -> bool {
        self.frame == other.frame
    }

    fn new(path: &Path, file: Arc<dyn BackendReader>) -> Result<SegmentReader> {
        let frame = read_frame(path, &*file)?;
        Ok(SegmentReader {
            path: path.to_owned(),
            file,
            frame,
            files: OnceLock::new(),
            dictionary: Decoded::new(),
            bodies: Decoded::new(),
            grammar: Decoded::new(),
        })
    }

    /// Identifies the segment: a checksum of its id and of size and checksum of each section.
    pub fn fingerprint(&self) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&self.frame.header.segment_id.to_le_bytes());
        // Sections that came later count where they are, so that index files of earlier builds stay valid.
        let (earlier, later) = self.frame.extents.split_at(STORED.len() - 1);
        for extent in earlier
            .iter()
            .chain(later.iter().filter(|extent| extent.size > 0))
        {
            hasher.update(&(extent.size as u64).to_le_bytes());
            hasher.update(&extent.crc32.to_le_bytes());
        }
        hasher.finalize()
    }

    /// Where the file is, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The header of the segment.
    pub fn header(&self) -> &SegmentHeader {
        &self.frame.header
    }

    /// Facts that need no decoding.
    pub fn info(&self) -> &SegmentInfo {
        &self.frame.info
    }

    /// The files, in order of their ids.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::NoMemory`], [`Error::Checksum`] or [`Error::Corrupt`] if they cannot be decoded.
    pub fn files(&self) -> Result<&[FileEntry]> {
        if self.files.get().is_none() {
            let decoded = self.decode_files()?;
            let _ = self.files.set(decoded); // another thread was first: the same
        }
        Ok(self.files.get().expect("it is set"))
    }

    /// The metadata of the files; no columns if the file has none.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::NoMemory`], [`Error::Checksum`] or [`Error::Corrupt`] if it cannot be decoded.
    pub fn metadata(&self) -> Result<Vec<SegmentColumn>> {
        let section = self.section(Section::Metadata)?;
        metadata::decode(&section, self.info().files)
            .map_err(|error| self.failed(Section::Metadata, error))
    }

    /// The tokens.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::NoMemory`], [`Error::Checksum`] or [`Error::Corrupt`] if they cannot be decoded.
    pub fn dictionary(&self) -> Result<Arc<Dictionary>> {
        self.dictionary.get_or(|| self.decode_dictionary())
    }

    /// How often each word occurs in the files, in order of [`Dictionary::word_offsets`]; none if the file does not say.
    /// Decodes the dictionary too, but no grammar; only [`SegmentReader::verify`] compares with that.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::NoMemory`], [`Error::Checksum`] or [`Error::Corrupt`] if they cannot be decoded.
    pub fn totals(&self) -> Result<Option<Vec<u32>>> {
        let section = self.section(Section::Totals)?;
        totals::decode(&section, &*self.dictionary()?)
            .map_err(|error| self.failed(Section::Totals, error))
    }

    /// The words in blocks, for single look-ups without the dictionary; none if the file does not say how many words begin in
    /// each. Decodes no word.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::NoMemory`], [`Error::Checksum`] or [`Error::Corrupt`] if they cannot be read.
    pub fn word_blocks(&self) -> Result<Option<WordBlocks>> {
        let words = self.section(Section::Words)?;
        let totals = self.section(Section::Totals)?;
        let failed = |error| self.failed(Section::Words, error);
        let mut rest = &*words;
        let own_spaces = tokens::decode_ids(&mut rest, self.info().tokens).map_err(failed)?;
        let start = words.len() - rest.len();
        WordBlocks::new(words, start, own_spaces, totals, self.info().tokens).map_err(failed)
    }

    /// The first token of a block of words.
    ///
    /// # Errors
    /// [`Error::NoMemory`] or [`Error::Corrupt`] if it cannot be decoded.
    ///
    /// # Panics
    /// If there is no such block.
    pub fn first_token(&self, blocks: &WordBlocks, block: usize) -> Result<TokenRun> {
        let token = blocks.first_token(block);
        token.map_err(|error| self.failed(Section::Words, error))
    }

    /// The tokens of some blocks of words.
    ///
    /// # Errors
    /// [`Error::NoMemory`] or [`Error::Corrupt`] if they cannot be decoded.
    ///
    /// # Panics
    /// If there are no such blocks.
    pub fn block_tokens(&self, blocks: &WordBlocks, range: Range<usize>) -> Result<TokenRun> {
        let tokens = blocks.tokens(range);
        tokens.map_err(|error| self.failed(Section::Words, error))
    }

    /// The number of the word whose first token is this one: how many words come before it. Decodes a block of words.
    ///
    /// # Errors
    /// [`Error::NoMemory`] or [`Error::Corrupt`] if it cannot be decoded, or the token is not the first of its word.
    pub fn word_number(&self, blocks: &WordBlocks, token: u32) -> Result<u32> {
        let number = blocks.word_number(token);
        number.map_err(|error| self.failed(Section::Totals, error))
    }

    /// A run of tokens that has those of the word with a number, and the place of its first one in the run. Decodes a block of
    /// words.
    ///
    /// # Errors
    /// [`Error::NoMemory`] or [`Error::Corrupt`] if it cannot be decoded, or there is no such word.
    pub fn numbered_word(&self, blocks: &WordBlocks, number: u32) -> Result<(TokenRun, u32)> {
        let word = blocks.word(number);
        word.map_err(|error| self.failed(Section::Totals, error))
    }

    /// How often the word occurs whose first token is this one. Decodes a few blocks of words.
    ///
    /// # Errors
    /// [`Error::NoMemory`] or [`Error::Corrupt`] if they cannot be decoded, or the token is not the first of its word.
    pub fn word_total(&self, blocks: &WordBlocks, token: u32) -> Result<u32> {
        let total = blocks.total(token);
        total.map_err(|error| self.failed(Section::Totals, error))
    }

    /// The grammar with its roots, checked. Decodes the dictionary too.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::NoMemory`], [`Error::Checksum`] or [`Error::Corrupt`] if it cannot be decoded.
    pub fn grammar(&self) -> Result<Arc<Grammar>> {
        self.grammar.get_or(|| {
            let (bodies, section) = self.decode_bodies()?;
            let extent = bodies.root_extent(&bodies.whole_root());
            bodies
                .into_grammar(&section[extent])
                .map_err(|error| self.failed(Section::Root, error))
        })
    }

    /// The grammar without its roots, checked. Decodes the dictionary too.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::NoMemory`], [`Error::Checksum`] or [`Error::Corrupt`] if it cannot be decoded.
    pub fn bodies(&self) -> Result<Arc<Bodies>> {
        self.bodies.get_or(|| Ok(self.decode_bodies()?.0))
    }

    /// The roots of all files, one after the other, checked; `bodies` are those of this segment.
    ///
    /// # Errors
    /// Those of [`SegmentReader::root_of`].
    pub fn roots(&self, bodies: &Bodies) -> Result<Vec<u32>> {
        self.decode_root(bodies, bodies.whole_root())
    }

    /// The root of a file, checked; `bodies` are those of this segment. Costs O(tokens of the file).
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be read, [`Error::Corrupt`] if it cannot be decoded.
    ///
    /// # Panics
    /// If there is no file of this number.
    pub fn root_of(&self, bodies: &Bodies, file: u32) -> Result<Vec<u32>> {
        self.decode_root(bodies, bodies.root_range(file))
    }

    /// The symbols of all roots from `positions.start` to `positions.end`, which they have, checked; `bodies` are those of this segment.
    /// Decodes the chunks that hold them.
    ///
    /// # Errors
    /// Those of [`SegmentReader::root_of`].
    pub fn root_symbols(&self, bodies: &Bodies, positions: Range<usize>) -> Result<Vec<u32>> {
        self.decode_root(bodies, positions)
    }

    /// Has the roots of all files decoded piece by piece, and gives each piece with the position of its first symbol among
    /// all of them to `visit`; what that returns, in order. The roots are not kept; `bodies` are those of this segment. Once `stop` is set
    /// it ends soon, and what it says does not count.
    ///
    /// # Errors
    /// Those of [`SegmentReader::root_of`].
    pub fn scan_roots<A: Send>(
        &self,
        bodies: &Bodies,
        stop: &AtomicBool,
        visit: impl Fn(usize, &[u32]) -> A + Sync,
    ) -> Result<Vec<A>> {
        let failed = |error| self.failed(Section::Root, error);
        let pieces = bodies.root_pieces().map_err(failed)?;
        let numbers = (0..pieces.len()).into_par_iter();
        (numbers.filter(|_| !stop.load(Ordering::Relaxed)))
            .map_init(Vec::new, |symbols, piece| {
                let positions = pieces.positions(piece);
                let coded = self.read(Section::Root, bodies.root_extent(&positions))?;
                pieces.decode(piece, &coded, symbols).map_err(failed)?;
                Ok(visit(positions.start, symbols))
            })
            .collect()
    }

    fn decode_root(&self, bodies: &Bodies, positions: Range<usize>) -> Result<Vec<u32>> {
        let coded = self.read(Section::Root, bodies.root_extent(&positions))?;
        bodies
            .decode_root(&coded, positions)
            .map_err(|error| self.failed(Section::Root, error))
    }

    /// Bytes of packed text; 0 of a segment that has a grammar.
    pub fn text_size(&self) -> u64 {
        self.extent(Section::Text).size as u64
    }

    /// Bytes of packed text, which are within its size. They are not verified here: what reads packed text has a checksum for each
    /// part of it.
    ///
    /// # Errors
    /// [`Error::Io`] if they cannot be read.
    pub fn read_text(&self, range: Range<u64>) -> Result<Bytes> {
        // Within a section, whose size is a usize.
        self.read(Section::Text, range.start as usize..range.end as usize)
    }

    /// Checks everything: all checksums, all sections, and that the grammar expands to files of the sizes, word counts
    /// and checksums in the file table. Costs about the time of writing all files. Packed text is not unpacked.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::NoMemory`], [`Error::Checksum`] or [`Error::Corrupt`] with the first thing found wrong.
    pub fn verify(&self) -> Result<()> {
        self.verify_until(&AtomicBool::new(false))
    }

    /// As [`SegmentReader::verify`], until `stop` is set: then it ends soon, and what it says does not count.
    ///
    /// # Errors
    /// Those of [`SegmentReader::verify`].
    pub fn verify_until(&self, stop: &AtomicBool) -> Result<()> {
        if read_frame(&self.path, &*self.file)? != self.frame {
            let fault = Fault("it is not what it was when the file was opened");
            return Err(self.failed(Section::Frame, fault));
        }
        for section in STORED {
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            self.verify_section(section)?;
        }
        self.metadata()?;
        if self.info().form == SegmentForm::Text {
            return self.files().map(drop);
        }
        let (dictionary, grammar) = (self.dictionary()?, self.grammar()?);
        let verified = content::verify(self.files()?, &dictionary, &grammar, stop);
        if stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        verified.map_err(|error| self.failed(Section::Root, error))?;
        if let Some(totals) = self.totals()? {
            totals::verify(&totals, &dictionary, &grammar)
                .map_err(|error| self.failed(Section::Totals, error))?;
        }
        let words = dictionary.word_tokens() as usize;
        totals::read_words_before(&self.section(Section::Totals)?, words)
            .and_then(|words| match words {
                Some(words) => Ok(totals::verify_words_before(&words, &dictionary)?),
                None => Ok(()),
            })
            .map_err(|error| self.failed(Section::Totals, error))
    }

    /// The content of a file, or of the part of one that is here.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::NoMemory`], [`Error::Checksum`] or [`Error::Corrupt`] if the segment cannot be decoded
    /// or the content is not what the file table
    /// says.
    ///
    /// # Panics
    /// If there is no file of this number.
    pub fn content(&self, file: usize) -> Result<Vec<u8>> {
        let (files, dictionary, grammar) = (self.files()?, self.dictionary()?, self.grammar()?);
        let mut content = Vec::new();
        // Files are numbered by u32.
        let root = grammar.root_of(file as u32);
        content::expand(&files[file], root, &dictionary, &grammar, |bytes| {
            // Grows with what there is: the size that the file table claims may be any.
            if content.try_reserve(bytes.len()).is_err() {
                let bytes = files[file].bytes;
                return Err(DecodeError::NoMemory(NoMemory { bytes }));
            }
            content.extend_from_slice(bytes);
            Ok(())
        })
        .map_err(|error| self.failed(Section::Root, error))?;
        Ok(content)
    }

    fn decode_files(&self) -> Result<Vec<FileEntry>> {
        let failed = |error| self.failed(Section::Files, error);
        let files =
            files::decode(&self.section(Section::Files)?, self.info().files).map_err(failed)?;
        let sum = |of: fn(&FileEntry) -> u64| {
            files
                .iter()
                .try_fold(0u64, |sum, file| sum.checked_add(of(file)))
        };
        if sum(|file| file.bytes) != Some(self.info().bytes)
            || sum(|file| file.words) != Some(self.info().words)
        {
            return Err(failed(Fault("sizes of files do not add up").into()));
        }
        Ok(files)
    }

    fn decode_dictionary(&self) -> Result<Dictionary> {
        let (word_section, gap_section) =
            (self.section(Section::Words)?, self.section(Section::Gaps)?);
        let mut word_section = &*word_section;
        let own_spaces = tokens::decode_ids(&mut word_section, self.info().tokens)
            .map_err(|error| self.failed(Section::Words, error))?;
        let decode =
            |section, bytes| tokens::decode(bytes).map_err(|error| self.failed(section, error));
        let (words, gaps) = rayon::join(
            || decode(Section::Words, word_section),
            || decode(Section::Gaps, &gap_section),
        );
        let (mut words, gaps) = (words?, gaps?);
        let word_tokens = words.offsets.len() - 1;
        if (word_tokens + gaps.offsets.len() - 1) as u64 != u64::from(self.info().tokens) {
            return Err(self.failed(
                Section::Words,
                Fault("it has not as many tokens as it claims"),
            ));
        }
        let starts_with_space = |id: &u32| {
            let offsets = words.offsets.get(*id as usize..=*id as usize + 1);
            offsets.is_some_and(|range| words.bytes[range[0] as usize] == b' ')
        };
        if !own_spaces.iter().all(starts_with_space) {
            return Err(self.failed(Section::Words, Fault("a space belongs to no word")));
        }
        let end = words.bytes.len() as u64;
        reserve(&mut words.bytes, gaps.bytes.len())
            .and_then(|()| reserve(&mut words.offsets, gaps.offsets.len() - 1))
            .map_err(|error| self.failed(Section::Gaps, error))?;
        words.bytes.extend_from_slice(&gaps.bytes);
        words
            .offsets
            .extend(gaps.offsets[1..].iter().map(|offset| end + offset));
        Ok(Dictionary::new(
            words.offsets,
            words.bytes,
            word_tokens as u32,
            own_spaces,
        )) // at most `info.tokens`
    }

    /// The bodies, and the section of the root.
    fn decode_bodies(&self) -> Result<(Bodies, Bytes)> {
        let info = self.info();
        let counts = Counts {
            tokens: info.tokens,
            rules: info.rules,
            levels: info.levels,
            symbols: info.symbols,
            root_symbols: info.root_symbols,
            files: info.files,
        };
        let failed = |(part, error): (Part, DecodeError)| {
            let section = match part {
                Part::Rules => Section::Rules,
                Part::Model => Section::Model,
                Part::Bodies => Section::Bodies,
                Part::Root => Section::Root,
            };
            self.failed(section, error)
        };
        let (dictionary, parts) = rayon::join(
            || self.dictionary(),
            || {
                let model = self.section(Section::Model)?;
                let bodies = self.section(Section::Bodies)?;
                let root = self.section(Section::Root)?;
                let rules = symbols::decode_rules(&self.section(Section::Rules)?, counts);
                Ok((model, bodies, root, rules.map_err(failed)?))
            },
        );
        let (dictionary, (model, bodies, root, rules)) = (dictionary?, parts?);
        let coded = Coded {
            model: &model,
            bodies: &bodies,
            root: &root,
        };
        let bodies = symbols::decode(&coded, counts, rules, &dictionary).map_err(failed)?;
        Ok((bodies, root))
    }

    /// The bytes of a section, verified.
    fn section(&self, section: Section) -> Result<Bytes> {
        let bytes = self.read(section, 0..self.extent(section).size)?;
        self.check(section, crc32fast::hash(&bytes))?;
        Ok(bytes)
    }

    /// Verifies the bytes of a section and keeps none.
    fn verify_section(&self, section: Section) -> Result<()> {
        let size = self.extent(section).size;
        let mut hasher = crc32fast::Hasher::new();
        for start in (0..size).step_by(PIECE_SIZE) {
            hasher.update(&self.read(section, start..size.min(start + PIECE_SIZE))?);
        }
        self.check(section, hasher.finalize())
    }

    fn check(&self, section: Section, found: u32) -> Result<()> {
        let extent = self.extent(section);
        if found != extent.crc32 {
            return Err(Error::Checksum {
                path: self.path.clone(),
                part: section.name(),
                offset: extent.start as u64,
                expected: extent.crc32,
                found,
            });
        }
        Ok(())
    }

    /// Bytes of a section, not verified.
    fn read(&self, section: Section, range: Range<usize>) -> Result<Bytes> {
        // Within the file, whose size is a u64.
        let start = (self.extent(section).start + range.start) as u64;
        let bytes = self.file.read_at(start, range.len() as u64);
        bytes.map_err(io_error(&self.path, "read"))
    }

    fn extent(&self, section: Section) -> frame::Extent {
        let index = STORED.iter().position(|&stored| stored == section);
        self.frame.extents[index.expect("the frame is never asked for")]
    }

    /// Why a section was not decoded.
    fn failed(&self, section: Section, error: impl Into<DecodeError>) -> Error {
        let (path, part) = (self.path.clone(), section.name());
        match error.into() {
            DecodeError::Fault(Fault(fault)) => Error::Corrupt { path, part, fault },
            DecodeError::NoMemory(error) => error.of(format!("{part} of {}", PathText(&path))),
        }
    }
}

fn read_frame(path: &Path, file: &dyn BackendReader) -> Result<Frame> {
    let corrupt = |fault| Error::Corrupt {
        path: path.to_owned(),
        part: Section::Frame.name(),
        fault,
    };
    let size = usize::try_from(file.size())
        .map_err(|_| corrupt("it is larger than this system can address"))?;
    let read = |range: Range<usize>| {
        (file.read_at(range.start as u64, range.len() as u64)).map_err(io_error(path, "read"))
    };
    let head = read(0..size.min(frame::HEAD_SIZE))?;
    let end = read(size.saturating_sub(frame::END_SIZE_MAX)..size)?;
    frame::read(&head, &end, size).map_err(|fault| match fault {
        FrameFault::Version(found) => Error::Version {
            path: path.to_owned(),
            found,
            supported: frame::VERSION_MAX,
        },
        FrameFault::Checksum {
            offset,
            expected,
            found,
        } => Error::Checksum {
            path: path.to_owned(),
            part: "footer",
            offset: offset as u64,
            expected,
            found,
        },
        FrameFault::Corrupt(fault) => corrupt(fault),
    })
}
