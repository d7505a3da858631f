//! Words one after the other, as they stand in the files.
//!
//! The invariant: every word of the wanted files is given once, in order of file and place; memory is a stack as deep as
//! the grammar. It skips what comes before a place only by whole parts of files.

use std::mem;
use std::sync::Arc;

use zipfdb_kernels::GrammarView;

use crate::Result;
use crate::answer::CorpusView;
use crate::answer::stored_view::StoredView;
use crate::api::snapshot::Snapshot;
use crate::runtime::interrupt::Interrupt;
use crate::segment::SegmentView;

/// A word where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Occurrence {
    /// Place in [`crate::Snapshot::files`].
    pub(crate) file: u32,
    /// Number in the corpus' vocabulary.
    pub(crate) word: u32,
    /// 0-based number of the word in its file.
    pub(crate) position: u64,
    /// 0-based byte of the word's own first byte.
    pub(crate) offset: u64,
}

/// All words of some files.
pub(crate) struct WordStream {
    view: Arc<CorpusView>,
    /// Files to come, the next one last.
    files: Vec<u32>,
    /// The file at hand.
    current: Option<Current>,
    /// Stored words that were read ahead.
    buffer: Vec<Occurrence>,
}

/// A file of a stream.
struct Current {
    file: u32,
    /// Its stored words; none if it rests on no stored file, or when they are all read.
    stored: Option<StoredStream>,
    /// How many of its regions have been given.
    regions: usize,
}

/// Stored words of an edited file that are read at a time.
const STORED_WORDS: usize = 256;

impl WordStream {
    /// Over `files`, in the order given.
    pub(crate) fn new(view: Arc<CorpusView>, mut files: Vec<u32>) -> WordStream {
        files.reverse();
        WordStream {
            view,
            files,
            current: None,
            buffer: Vec::new(),
        }
    }

    /// Appends words to `buffer` until it holds at least `length` or there are no more, which it says by `false`.
    pub(crate) fn fill(&mut self, buffer: &mut Vec<Occurrence>, length: usize) -> Result<bool> {
        while buffer.len() < length {
            if self.current.is_none() {
                let Some(file) = self.files.pop() else {
                    return Ok(false);
                };
                let (stored, _) = self.view.resolve(file as usize);
                let view = self.view.stored();
                self.current = Some(Current {
                    file,
                    // Files are numbered by u32.
                    stored: stored.map(|file| StoredStream::new(view.clone(), vec![file as u32])),
                    regions: 0,
                });
            }
            if !self.read(buffer, length)? {
                self.current = None;
            }
        }
        Ok(true)
    }

    /// As `fill`, on the threads of the database, for a statement; once that has to end there are no more words.
    pub(crate) fn fill_until(
        &mut self,
        buffer: &mut Vec<Occurrence>,
        length: usize,
        snapshot: &Snapshot,
        interrupt: &Interrupt,
    ) -> Result<bool> {
        let nothing = WordStream::new(self.view.clone(), Vec::new());
        let (mut stream, mut words) = (mem::replace(self, nothing), mem::take(buffer));
        let (stream, words, has_more) = snapshot.ask(interrupt, move |_, _| {
            let has_more = stream.fill(&mut words, length)?;
            Ok((stream, words, has_more))
        })?;
        (*self, *buffer) = (stream, words);
        Ok(has_more)
    }

    /// Appends words of the file at hand; `false` if it has no more.
    fn read(&mut self, buffer: &mut Vec<Occurrence>, length: usize) -> Result<bool> {
        let current = self.current.as_mut().expect("a file is at hand");
        let Some(pending) = self.view.pending() else {
            return (current.stored.as_mut()).map_or(Ok(false), |words| words.fill(buffer, length));
        };
        let file = current.file;
        let edited = pending.edited_words(file as usize);
        self.buffer.clear();
        let has_more = match &mut current.stored {
            None => false,
            Some(stored) => stored.fill(&mut self.buffer, STORED_WORDS)?,
        };
        let mut give = |word, position, offset| {
            buffer.push(Occurrence {
                file,
                word,
                position,
                offset,
            });
        };
        for stored in self.buffer.drain(..) {
            let Some(edited) = &edited else {
                give(
                    pending.numbering.number(stored.word),
                    stored.position,
                    stored.offset,
                );
                continue;
            };
            while edited.starts_before(current.regions, stored.offset) {
                for (word, position, offset) in edited.words(current.regions) {
                    give(word, position, offset);
                }
                current.regions += 1;
            }
            if let Some((position, offset)) =
                edited.moved(current.regions, stored.position, stored.offset)
            {
                give(pending.numbering.number(stored.word), position, offset);
            }
        }
        if has_more {
            return Ok(true);
        }
        if let Some(edited) = &edited {
            for region in current.regions..edited.len() {
                for (word, position, offset) in edited.words(region) {
                    give(word, position, offset);
                }
            }
        }
        Ok(false)
    }
}

/// All words of some files as they are stored.
struct StoredStream {
    view: Arc<StoredView>,
    /// Files to come, the next one last.
    files: Vec<u32>,
    /// The file at hand, which of its parts, and the segment of that.
    current: Option<(u32, usize, Arc<SegmentView>)>,
    /// What is left of the root of that part, and of the bodies within: `[start, end)` in root or bodies.
    stack: Vec<(u32, u32)>,
    position: u64,
    offset: u64,
}

impl StoredStream {
    /// Over `files`, in the order given.
    fn new(view: Arc<StoredView>, mut files: Vec<u32>) -> StoredStream {
        files.reverse();
        StoredStream {
            view,
            files,
            current: None,
            stack: Vec::new(),
            position: 0,
            offset: 0,
        }
    }

    /// Appends words to `buffer` until it holds `length` or there are no more, which it says by `false`.
    fn fill(&mut self, buffer: &mut Vec<Occurrence>, length: usize) -> Result<bool> {
        let view = self.view.clone();
        let vocabulary = view.vocabulary()?;
        while buffer.len() < length {
            let Some((file, part_number, segment)) = self.current.clone() else {
                let Some(file) = self.files.pop() else {
                    return Ok(false);
                };
                (self.position, self.offset) = (0, 0);
                self.enter(file, 0)?;
                continue;
            };
            let part = &view.index.parts(file as usize)[part_number];
            let grammar = segment.view()?;
            let dictionary = segment.dictionary()?;
            let words = segment.word_of()?;
            while let Some(token) = self.next_token(grammar) {
                let size = dictionary.token(token).len() as u64;
                let word = words[token as usize];
                if word != zipfdb_kernels::GAP {
                    buffer.push(Occurrence {
                        file,
                        word: vocabulary.number(part.segment as usize, word),
                        position: self.position,
                        offset: self.offset + u64::from(dictionary.has_glued_space(token)),
                    });
                    self.position += 1;
                }
                self.offset += size;
                if buffer.len() >= length {
                    return Ok(true);
                }
            }
            if part_number + 1 < view.index.parts(file as usize).len() {
                self.enter(file, part_number + 1)?;
            } else {
                self.current = None;
            }
        }
        Ok(true)
    }

    fn enter(&mut self, file: u32, part_number: usize) -> Result<()> {
        let part = &self.view.index.parts(file as usize)[part_number];
        let segment = self.view.segment(part);
        let root = segment.view()?.root_range(part.file);
        self.current = Some((file, part_number, Arc::new(segment)));
        self.stack.clear();
        // Offsets into the root are u32.
        self.stack.push((root.start as u32, root.end as u32));
        Ok(())
    }

    /// The next token of the part at hand. The lowest entry of the stack lies in the root, the others in bodies.
    #[inline]
    fn next_token(&mut self, grammar: GrammarView<'_>) -> Option<u32> {
        loop {
            let depth = self.stack.len();
            let (start, end) = self.stack.last_mut()?;
            if start == end {
                self.stack.pop();
                continue;
            }
            let at = *start as usize;
            *start += 1;
            let is_done = start == end;
            let symbol = match depth {
                1 => grammar.root[at],
                _ => grammar.symbols[at],
            };
            let Some(rule) = grammar.rule(symbol) else {
                return Some(symbol);
            };
            if is_done && depth > 1 {
                self.stack.pop();
            }
            let body = grammar.body_range(rule);
            // Offsets into bodies are u32.
            self.stack.push((body.start as u32, body.end as u32));
        }
    }
}
