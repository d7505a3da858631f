//! Files to chunks of text, in order.
//!
//! A chunk is a few small files or a stretch of one large file that ends where [`chunk_end`] allows. The cuts depend on the
//! order, sizes and bytes of the files alone, never on where they come from ([`Texts`]).

use super::texts::{OpenText, RangedText, Texts, changed};
use crate::paths::sources::SIZE_UNKNOWN;
use crate::runtime::interrupt::{NEVER, check};
use crate::tokenize::{chunk_end, chunk_end_near};
use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use zipfdb_storage::Tokenizer;

/// The largest stretch without a place to cut; then it is cut between two characters, perhaps in a word.
const UNCUT_BYTES_MAX: usize = 64 << 20;

/// The most files of one chunk.
const FILES_MAX: usize = 4096;

/// Chunks of small texts that the system reads ahead.
const EXPECTED_CHUNKS: u64 = 2;

/// Bytes at the end of a chunk that are read first, to find its end.
const NEAR_BYTES: u64 = 4 << 10;

/// The next text to read.
pub enum Chunk<'a> {
    /// These files, still to be read one by one with [`read_file`].
    Files(Range<usize>),
    /// A stretch of one file, in the buffer given to [`DraftReader::next`] unless it is `unread`.
    Part {
        /// The file.
        source: usize,
        /// The start of the stretch in the file.
        first_byte: u64,
        /// Whether the file ends with it.
        is_last: bool,
        /// The rest that any thread may read instead of the reader: never the first stretch of a file.
        unread: Option<UnreadPart<'a>>,
    },
}

/// A stretch of a file that any thread can read.
pub struct UnreadPart<'a> {
    parts: Arc<dyn RangedText + 'a>,
    range: Range<u64>,
}

impl UnreadPart<'_> {
    /// Reads the stretch into `text`, which is cleared before.
    pub fn read(self, text: &mut Vec<u8>) -> io::Result<()> {
        text.clear();
        self.parts.read_part(self.range, text)
    }
}

/// Hands out the chunks of all files.
pub struct DraftReader<'a> {
    texts: &'a dyn Texts,
    tokenizer: Tokenizer,
    chunk_bytes: usize,
    /// The largest size of a chunk of several files.
    shared_bytes: usize,
    next_source: usize,
    /// The end of the texts that are read or were announced.
    expected: usize,
    /// The large file that is being read.
    large: Option<Large<'a>>,
}

/// A file that could not be read, and why.
#[derive(Debug)]
pub struct Failure {
    /// The file.
    pub source: usize,
    /// The error.
    pub error: io::Error,
    /// Whether chunks of the file were handed out before.
    pub is_partly_read: bool,
}

struct Large<'a> {
    source: usize,
    /// The bytes of the file that were handed out.
    first_byte: u64,
    reading: Reading<'a>,
}

/// The way a large file is read.
enum Reading<'a> {
    /// By the reader, from start to end.
    InOrder {
        opened: ReadingText<'a>,
        /// The bytes that were read and not handed out.
        rest: Vec<u8>,
    },
    /// By the threads that work on its stretches; the reader only finds where each ends.
    InParts {
        parts: Arc<dyn RangedText + 'a>,
        bytes: u64,
    },
}

impl<'a> DraftReader<'a> {
    /// A reader of `texts` whose chunks have about `chunk_bytes` bytes at most; those of several files at most `shared_bytes`.
    pub fn new(
        texts: &'a dyn Texts,
        tokenizer: Tokenizer,
        chunk_bytes: usize,
        shared_bytes: usize,
    ) -> DraftReader<'a> {
        DraftReader {
            texts,
            tokenizer,
            chunk_bytes,
            shared_bytes,
            next_source: 0,
            expected: 0,
            large: None,
        }
    }

    /// The small texts to be read soon that were not announced yet: about the text of a few chunks.
    pub fn expected(&mut self) -> Range<usize> {
        let first = self.expected.max(self.next_source);
        let mut end = first;
        let mut bytes = 0;
        for text in self.next_source..self.texts.len() {
            bytes = self.texts.bytes(text).saturating_add(bytes);
            if bytes > EXPECTED_CHUNKS * self.shared_bytes as u64 {
                break;
            }
            end = end.max(text + 1);
        }
        self.expected = end;
        first..end
    }

    /// The next chunk; `text` is cleared and, for a part of a file, filled.
    ///
    /// After a failure the file is skipped: reading can go on with the next one. Waiting for a pipe fails once `stop` is
    /// set.
    pub fn next(
        &mut self,
        text: &mut Vec<u8>,
        stop: &AtomicBool,
    ) -> Result<Option<Chunk<'a>>, Failure> {
        text.clear();
        if self.large.is_none() {
            let first = self.next_source;
            let mut bytes = 0;
            for text in (first..self.texts.len()).take(FILES_MAX) {
                bytes = self.texts.bytes(text).saturating_add(bytes);
                let bytes_max = if text == first {
                    self.chunk_bytes
                } else {
                    self.shared_bytes
                };
                if bytes > bytes_max as u64 {
                    break;
                }
                self.next_source += 1;
            }
            if self.next_source > first {
                return Ok(Some(Chunk::Files(first..self.next_source)));
            }
            if first == self.texts.len() {
                return Ok(None);
            }
            self.next_source += 1;
            let reading = Reading::begin(self.texts, first).map_err(|error| Failure {
                source: first,
                error,
                is_partly_read: false,
            })?;
            self.large = Some(Large {
                source: first,
                first_byte: 0,
                reading,
            });
        }
        let mut large = self.large.take().expect("opened above");
        match large.next(text, self.tokenizer, self.chunk_bytes, stop) {
            Ok(chunk) => {
                if !matches!(chunk, Chunk::Part { is_last: true, .. }) {
                    self.large = Some(large);
                }
                Ok(Some(chunk))
            }
            Err(error) => Err(Failure {
                source: large.source,
                error,
                is_partly_read: large.first_byte > 0,
            }),
        }
    }
}

impl<'a> Reading<'a> {
    fn begin(texts: &'a dyn Texts, text: usize) -> io::Result<Reading<'a>> {
        Ok(match texts.open_ranged(text)? {
            Some(parts) => Reading::InParts {
                parts,
                bytes: texts.bytes(text),
            },
            None => Reading::InOrder {
                opened: ReadingText::open(texts, text)?,
                rest: Vec::new(),
            },
        })
    }
}

impl<'a> Large<'a> {
    fn next(
        &mut self,
        text: &mut Vec<u8>,
        tokenizer: Tokenizer,
        chunk_bytes: usize,
        stop: &AtomicBool,
    ) -> io::Result<Chunk<'a>> {
        let first_byte = self.first_byte;
        let mut unread = None;
        let is_last = match &mut self.reading {
            Reading::InOrder { opened, rest } => {
                let is_last = next_in_order(opened, rest, text, tokenizer, chunk_bytes, stop)?;
                self.first_byte += text.len() as u64;
                is_last
            }
            Reading::InParts { parts, bytes } => {
                let end = part_end(&**parts, first_byte..*bytes, tokenizer, chunk_bytes)?;
                let part = UnreadPart {
                    parts: Arc::clone(parts),
                    range: first_byte..end,
                };
                match first_byte {
                    // An unreadable file fails before a part of it is handed out.
                    0 => part.read(text)?,
                    _ => unread = Some(part),
                }
                self.first_byte = end;
                end == *bytes
            }
        };
        Ok(Chunk::Part {
            source: self.source,
            first_byte,
            is_last,
            unread,
        })
    }
}

/// Reads the next stretch of a text into `text`, beginning with the `rest` of the one before. Returns whether it is the last.
fn next_in_order(
    opened: &mut ReadingText<'_>,
    rest: &mut Vec<u8>,
    text: &mut Vec<u8>,
    tokenizer: Tokenizer,
    chunk_bytes: usize,
    stop: &AtomicBool,
) -> io::Result<bool> {
    text.try_reserve(rest.len())?;
    text.append(rest);
    let mut size = chunk_bytes;
    loop {
        let wanted = size.saturating_sub(text.len());
        opened.read(text, wanted, stop)?;
        if opened.bytes_left == 0 {
            opened.text.finish()?;
            return Ok(true);
        }
        if let Some(end) = stretch_end(tokenizer, text) {
            rest.try_reserve(text.len() - end)?;
            rest.extend_from_slice(&text[end..]);
            text.truncate(end);
            return Ok(false);
        }
        size *= 2;
    }
}

/// The end of the first stretch of `rest`: the same as if the text were read in order.
fn part_end(
    parts: &dyn RangedText,
    rest: Range<u64>,
    tokenizer: Tokenizer,
    chunk_bytes: usize,
) -> io::Result<u64> {
    let mut size = chunk_bytes as u64;
    loop {
        let end = rest.start + size;
        if end >= rest.end {
            return Ok(rest.end);
        }
        let mut text = Vec::new();
        let near = end - NEAR_BYTES.min(size)..end;
        parts.read(near.clone(), &mut text)?;
        if let Some(place) = chunk_end_near(tokenizer, &text) {
            return Ok(near.start + place as u64);
        }
        text.clear();
        parts.read(rest.start..end, &mut text)?;
        if let Some(place) = stretch_end(tokenizer, &text) {
            return Ok(rest.start + place as u64);
        }
        size *= 2;
    }
}

/// The end of the stretch that begins with `text`; none if more text is needed.
fn stretch_end(tokenizer: Tokenizer, text: &[u8]) -> Option<usize> {
    let uncut = || (text.len() >= UNCUT_BYTES_MAX).then(|| whole_characters(text));
    chunk_end(tokenizer, text).or_else(uncut)
}

/// The size of `text` without an incomplete UTF-8 character at its end.
fn whole_characters(text: &[u8]) -> usize {
    let tail = text.len().saturating_sub(char::MAX.len_utf8() - 1);
    let is_begun = |&place: &usize| match std::str::from_utf8(&text[place..]) {
        Ok(_) => false,
        Err(error) => error.valid_up_to() == 0 && error.error_len().is_none(),
    };
    (tail..text.len()).find(is_begun).unwrap_or(text.len())
}

/// Reads a whole file into `text`, which is cleared before.
pub fn read_file(texts: &dyn Texts, source: usize, text: &mut Vec<u8>) -> io::Result<()> {
    text.clear();
    let mut opened = ReadingText::open(texts, source)?;
    // Texts of unknown size are never read whole, and reading the others does not block.
    opened.read(text, usize::MAX, &NEVER)?;
    opened.text.finish()
}

/// A file that is read from start to end.
struct ReadingText<'a> {
    text: Box<dyn OpenText + 'a>,
    bytes_left: u64,
}

impl<'a> ReadingText<'a> {
    fn open(texts: &'a dyn Texts, text: usize) -> io::Result<ReadingText<'a>> {
        Ok(ReadingText {
            text: texts.open(text)?,
            bytes_left: texts.bytes(text),
        })
    }

    /// Appends the next `bytes` bytes, or all that are left, to `text`.
    fn read(&mut self, text: &mut Vec<u8>, bytes: usize, stop: &AtomicBool) -> io::Result<()> {
        let bytes = self.bytes_left.min(bytes as u64);
        text.try_reserve(bytes as usize)?;
        let size = text.len() as u64 + bytes;
        loop {
            let missing = size - text.len() as u64;
            match (&mut self.text).take(missing).read_to_end(text) {
                Ok(_) => break,
                // The bytes read before are in `text`.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    check(stop).map_err(io::Error::other)?;
                }
                Err(error) => return Err(error),
            }
        }
        let is_short = (text.len() as u64) < size;
        match self.bytes_left {
            SIZE_UNKNOWN if is_short => self.bytes_left = 0,
            SIZE_UNKNOWN => {}
            _ if is_short => return Err(changed()),
            _ => self.bytes_left -= bytes,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::texts::SourceTexts;
    use super::*;
    use crate::paths::encodings::TextEncoding;
    use crate::paths::sources::{Source, SourceIdentity};
    use std::fs::{self, File};
    use std::path::PathBuf;
    use std::time::{Duration, SystemTime};
    use tempfile::TempDir;

    fn source(top: &TempDir, name: &str, content: &[u8]) -> Source {
        let path: PathBuf = top.path().join(name);
        fs::write(&path, content).unwrap();
        Source {
            name: name.to_owned(),
            bytes: content.len() as u64,
            identity: SourceIdentity::of(&fs::metadata(&path).unwrap()),
            path: path.into(),
            decoding: None,
            unpacked: None,
        }
    }

    /// Reads a file to its end, and changes it after `chunks` chunks.
    fn read_while(
        texts: &dyn Texts,
        chunks: usize,
        change: impl Fn(),
    ) -> Result<Vec<u8>, io::Error> {
        let mut reader = DraftReader::new(texts, Tokenizer::Unicode, 1000, 1000);
        let (mut read, mut text) = (Vec::new(), Vec::new());
        for number in 0.. {
            if number == chunks {
                change();
            }
            match reader.next(&mut text, &NEVER) {
                Ok(Some(Chunk::Part { unread, .. })) => {
                    if let Some(part) = unread {
                        part.read(&mut text)?;
                    }
                    read.extend_from_slice(&text);
                }
                Ok(Some(Chunk::Files(_))) => panic!("the file is larger than a chunk"),
                Ok(None) => break,
                Err(failure) => {
                    assert_eq!(failure.is_partly_read, number > 0);
                    return Err(failure.error);
                }
            }
        }
        Ok(read)
    }

    const SENTENCES: &[u8] = b"some words and then some more ";

    /// Reads a file that changes after `chunks` chunks, in parts and in order. Returns what was read, and the number of files
    /// reported as grown.
    fn read_changing(
        chunks: usize,
        change: impl Fn(&Source),
    ) -> Vec<(Result<Vec<u8>, String>, usize)> {
        let read = |is_in_order| {
            let top = TempDir::new().unwrap();
            let sources = vec![source(&top, "file", &SENTENCES.repeat(400))];
            let texts = SourceTexts::new(sources.clone(), TextEncoding::BYTES);
            let change = || change(&sources[0]);
            let read = if is_in_order {
                read_while(&InOrder(&texts), chunks, change)
            } else {
                read_while(&texts, chunks, change)
            };
            (read.map_err(|error| error.to_string()), texts.grown().len())
        };
        [false, true].map(read).into()
    }

    fn append(source: &Source, content: &[u8]) {
        let mut file = File::options().append(true).open(&source.path).unwrap();
        io::Write::write_all(&mut file, content).unwrap();
    }

    #[test]
    fn a_file_that_only_grows_is_read_as_far_as_it_went() {
        let expected = Ok(SENTENCES.repeat(400));
        for chunks in [0, 2] {
            for (read, grown) in read_changing(chunks, |source| append(source, b"and one more")) {
                assert_eq!((read, grown), (expected.clone(), 1), "{chunks}");
            }
        }
        for (read, grown) in read_changing(usize::MAX, |_| {}) {
            assert_eq!((read, grown), (expected.clone(), 0));
        }
    }

    #[test]
    fn a_file_that_changes_halfway_is_an_error() {
        let write = |source: &Source, content: &[u8]| fs::write(&source.path, content).unwrap();
        let replace = |source: &Source| {
            let beside = source.path.with_extension("new");
            fs::write(&beside, SENTENCES.repeat(500)).unwrap();
            fs::rename(&beside, &source.path).unwrap();
        };
        let touch = |source: &Source| {
            let later = SystemTime::now() + Duration::from_secs(5);
            let file = File::options().write(true).open(&source.path).unwrap();
            file.set_modified(later).unwrap();
        };
        let changed = (Err("it changed while it was read".to_owned()), 0);
        for read in [
            read_changing(2, |source| write(source, b"shorter")),
            read_changing(2, |source| write(source, &b"longer ".repeat(5000))),
            read_changing(2, touch),
            read_changing(0, |source| write(source, b"shorter")),
            read_changing(0, replace),
        ] {
            assert_eq!(read, [changed.clone(), changed.clone()]);
        }
    }

    /// A text that is larger than any memory.
    struct Huge;

    impl Texts for Huge {
        fn len(&self) -> usize {
            1
        }

        fn name(&self, _text: usize) -> &str {
            "huge"
        }

        fn bytes(&self, _text: usize) -> u64 {
            1 << 60
        }

        fn path(&self, _text: usize) -> PathBuf {
            "huge".into()
        }

        fn open(&self, _text: usize) -> io::Result<Box<dyn OpenText + '_>> {
            Ok(Box::new(Huge))
        }
    }

    impl Read for Huge {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            Ok(buffer.len())
        }
    }

    impl OpenText for Huge {
        fn finish(&self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_text_that_memory_cannot_hold_is_an_error() {
        let error = read_file(&Huge, 0, &mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
    }

    #[test]
    fn small_files_share_a_chunk_and_large_ones_have_several() {
        let top = TempDir::new().unwrap();
        let large = b"some words ".repeat(230);
        let sources = vec![
            source(&top, "a", b"one"),
            source(&top, "b", b""),
            source(&top, "c", &large),
            source(&top, "d", &b"x".repeat(999)),
            source(&top, "e", b"yy"),
        ];
        let texts = SourceTexts::new(sources.clone(), TextEncoding::BYTES);
        let mut reader = DraftReader::new(&texts, Tokenizer::Unicode, 1000, 1000);
        let mut text = Vec::new();
        let mut chunks = Vec::new();
        let mut read = Vec::new();
        while let Ok(Some(chunk)) = reader.next(&mut text, &NEVER) {
            chunks.push(match chunk {
                Chunk::Files(files) => format!("{files:?}"),
                Chunk::Part {
                    first_byte,
                    is_last,
                    unread,
                    ..
                } => {
                    assert_eq!(first_byte, read.len() as u64);
                    if let Some(part) = unread {
                        part.read(&mut text).unwrap();
                    }
                    read.extend_from_slice(&text);
                    format!("{} {is_last}", text.len())
                }
            });
        }
        assert_eq!(
            chunks,
            ["0..2", "994 false", "996 false", "540 true", "3..4", "4..5"]
        );
        assert_eq!(read, large);
    }

    #[test]
    fn a_stretch_without_a_place_to_cut_grows() {
        let top = TempDir::new().unwrap();
        let content = [&b"x".repeat(10_000)[..], &b" y".repeat(9000)].concat();
        let sources = vec![source(&top, "file", &content)];
        let texts = SourceTexts::new(sources.clone(), TextEncoding::BYTES);
        let mut reader = DraftReader::new(&texts, Tokenizer::Unicode, 1000, 1000);
        let mut text = Vec::new();
        assert!(reader.next(&mut text, &NEVER).is_ok());
        assert!(text.len() > 10_000 && text.len() < content.len());
    }

    /// Texts that can only be read in order.
    struct InOrder<'a>(&'a SourceTexts);

    impl Texts for InOrder<'_> {
        fn len(&self) -> usize {
            self.0.len()
        }

        fn name(&self, text: usize) -> &str {
            self.0.name(text)
        }

        fn bytes(&self, text: usize) -> u64 {
            self.0.bytes(text)
        }

        fn path(&self, text: usize) -> PathBuf {
            self.0.path(text)
        }

        fn open(&self, text: usize) -> io::Result<Box<dyn OpenText + '_>> {
            self.0.open(text)
        }
    }

    #[test]
    fn parts_of_a_file_are_those_that_reading_it_in_order_finds() {
        let top = TempDir::new().unwrap();
        let mut random = 7u64;
        let mut next = move || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random
        };
        let mixed: Vec<u8> = (0..400)
            .flat_map(|_| {
                let piece: &[u8] = match next() % 8 {
                    0..3 => b"some words, and more",
                    3 => "\u{4e2d}\u{6587}\u{3042}".as_bytes(),
                    4 => "na\u{ef}ve \u{1f600}\u{301}".as_bytes(),
                    5 => b"x",
                    6 => b"\xff\xc3\n",
                    _ => b"  ",
                };
                piece.repeat((next() % 400) as usize)
            })
            .collect();
        let unbroken = "\u{1f600}".repeat(30_000);
        for content in [&mixed[..], unbroken.as_bytes(), &mixed[..10_000]] {
            let sources = vec![source(&top, "file", content)];
            let texts = SourceTexts::new(sources, TextEncoding::BYTES);
            for tokenizer in [Tokenizer::Unicode, Tokenizer::Alnum, Tokenizer::Whitespace] {
                for chunk_bytes in [700, 5000, 9000] {
                    let chunks = |texts: &dyn Texts| {
                        let mut reader =
                            DraftReader::new(texts, tokenizer, chunk_bytes, chunk_bytes);
                        let (mut chunks, mut text) = (Vec::new(), Vec::new());
                        while let Some(chunk) = reader.next(&mut text, &NEVER).unwrap() {
                            let Chunk::Part { unread, .. } = chunk else {
                                panic!("the file is larger than a chunk");
                            };
                            if let Some(part) = unread {
                                part.read(&mut text).unwrap();
                            }
                            chunks.push(text.clone());
                        }
                        chunks
                    };
                    let found = chunks(&texts);
                    assert_eq!(found.concat(), content);
                    assert!(
                        found == chunks(&InOrder(&texts)),
                        "{tokenizer:?} {chunk_bytes}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_character_that_has_only_begun_is_left_for_the_next_stretch() {
        for (text, whole) in [
            (&b"a\xf0\x9f\x98"[..], 1),
            (b"a\xc3", 1),
            ("a\u{1f600}".as_bytes(), 5),
            (b"a\x80\x80\x80\x80", 5),
            (b"\xff", 1),
            (b"", 0),
        ] {
            assert_eq!(whole_characters(text), whole, "{text:?}");
        }
    }
}
