//! Words in order, with their places in the files.
//!
//! The invariant: every word of the wanted files in the wanted places is returned once, in order of file and place; memory is a
//! stack as deep as the grammar and the next tokens. The text before the first wanted place of a file is not read: that place is
//! looked up.

use std::mem;
use std::ops::RangeInclusive;
use std::sync::Arc;

use zipfdb_kernels::Expansions;

use crate::Result;
use crate::answer::CorpusView;
use crate::answer::stored_view::StoredView;
use crate::answer::terminals::{root_of_file, take_terminals};
use crate::runtime::interrupt::Interrupt;
use crate::segment::{SegmentView, TokenForm, TokenForms, Unit};

/// An occurrence of a word.
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

/// The wanted places of words in their files: in both of these ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlaceRanges {
    pub(crate) offsets: RangeInclusive<u64>,
    pub(crate) positions: RangeInclusive<u64>,
}

impl PlaceRanges {
    /// Everywhere.
    pub(crate) const ALL: PlaceRanges = PlaceRanges {
        offsets: 0..=u64::MAX,
        positions: 0..=u64::MAX,
    };

    /// The estimated share of a file of `bytes` bytes and `words` words in them.
    pub(crate) fn share(&self, bytes: u64, words: u64) -> f64 {
        let share = |range: &RangeInclusive<u64>, all: u64| {
            let end = range.end().saturating_add(1).min(all);
            end.saturating_sub(*range.start()) as f64 / all.max(1) as f64
        };
        share(&self.offsets, bytes).min(share(&self.positions, words))
    }

    /// The first place from which words must be read; none for the start of a file.
    fn start(&self) -> Option<(Unit, u64)> {
        match (*self.offsets.start(), *self.positions.start()) {
            (0, 0) => None,
            (0, position) => Some((Unit::Words, position)),
            (offset, _) => Some((Unit::Bytes, offset)),
        }
    }

    /// Whether a word stands behind all of them.
    fn end_before(&self, word: &Occurrence) -> bool {
        word.offset > *self.offsets.end() || word.position > *self.positions.end()
    }

    fn is_empty(&self) -> bool {
        self.offsets.is_empty() || self.positions.is_empty()
    }
}

/// All words of some files, or those in some places of them and further words around these.
pub(crate) struct WordStream {
    view: Arc<CorpusView>,
    /// The files to come, the next one last.
    files: Vec<u32>,
    places: PlaceRanges,
    /// The number of wanted words behind the last place.
    words_behind: u64,
    /// The current file.
    current: Option<Current>,
    /// Stored words that were read ahead.
    buffer: Vec<Occurrence>,
}

/// A file of a stream.
struct Current {
    file: u32,
    /// Its stored words; none if it rests on no stored file, or when they are all read.
    stored: Option<StoredStream>,
    /// The number of its regions that were returned, or lie before the first wanted place.
    regions: usize,
    /// The number of the first word behind the last wanted place, once it was met.
    first_behind: Option<u64>,
}

/// Stored words of an edited file that are read at a time.
const STORED_WORDS: usize = 256;

/// The least number of tokens that are expanded at a time.
const TOKENS_MIN: usize = 64;

impl WordStream {
    /// A stream of the words of `files`, in the order given.
    pub(crate) fn new(view: Arc<CorpusView>, files: Vec<u32>) -> WordStream {
        WordStream::within(view, files, PlaceRanges::ALL, 0)
    }

    /// A stream of the words of `files` in some places, with `words_behind` words after the last place in each file. It may have
    /// words beside these.
    pub(crate) fn within(
        view: Arc<CorpusView>,
        mut files: Vec<u32>,
        places: PlaceRanges,
        words_behind: u64,
    ) -> WordStream {
        if places.is_empty() {
            files.clear()
        } else {
            files.reverse()
        }
        WordStream {
            view,
            files,
            places,
            words_behind,
            current: None,
            buffer: Vec::new(),
        }
    }

    /// Appends words to `buffer` until it holds at least `length`; `false` if there are no more.
    pub(crate) fn fill(&mut self, buffer: &mut Vec<Occurrence>, length: usize) -> Result<bool> {
        while buffer.len() < length {
            if self.current.is_none() {
                let Some(file) = self.files.pop() else {
                    return Ok(false);
                };
                self.current = Some(self.open(file)?);
            }
            let before = buffer.len();
            let has_more = self.read(buffer, length)?;
            let current = self.current.as_mut().expect("a file is at hand");
            let new = &buffer[before..];
            if current.first_behind.is_none() {
                let behind = new.partition_point(|word| !self.places.end_before(word));
                current.first_behind = new.get(behind).map(|word| word.position);
            }
            let is_enough = (current.first_behind.zip(new.last()))
                .is_some_and(|(first, last)| last.position - first + 1 >= self.words_behind);
            if !has_more || is_enough {
                self.current = None;
            }
        }
        Ok(true)
    }

    /// Moves to the first wanted place of a file.
    fn open(&self, file: u32) -> Result<Current> {
        let (stored, _) = self.view.resolve(file as usize);
        let pending = self.view.pending();
        let edited = pending.and_then(|pending| pending.edited_words(file as usize));
        let (regions, start) = match (self.places.start(), edited) {
            (Some((unit, place)), Some(edited)) => {
                let (regions, place) = edited.stored_start(unit, place);
                (regions, Some((unit, place)))
            }
            (start, _) => (0, start),
        };
        let view = self.view.stored();
        // Files are numbered by u32.
        let stored = stored.map(|stored| StoredStream::open(view.clone(), stored as u32, start));
        Ok(Current {
            file,
            stored: stored.transpose()?,
            regions,
            first_behind: None,
        })
    }

    /// As `fill`, on the threads of the database, for a statement; there are no more words once that must end.
    pub(crate) fn fill_until(
        &mut self,
        buffer: &mut Vec<Occurrence>,
        length: usize,
        interrupt: &Interrupt,
    ) -> Result<bool> {
        let view = self.view.clone();
        let nothing = WordStream::new(view.clone(), Vec::new());
        let (mut stream, mut words) = (mem::replace(self, nothing), mem::take(buffer));
        let (stream, words, has_more) = interrupt.apart(view.pool(), move |_| {
            let has_more = stream.fill(&mut words, length)?;
            Ok((stream, words, has_more))
        })?;
        (*self, *buffer) = (stream, words);
        Ok(has_more)
    }

    /// Appends words of the current file; `false` if it has no more.
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

/// The stored words of a file, from some place on.
struct StoredStream {
    view: Arc<StoredView>,
    file: u32,
    /// Its current part, and the segment of that; none behind the last.
    current: Option<(usize, Arc<SegmentView>)>,
    /// The rest of the root of that part, and of the bodies within, as for [`take_terminals`].
    stack: Vec<(u32, u32)>,
    /// The next tokens.
    tokens: Vec<u32>,
    position: u64,
    offset: u64,
}

impl StoredStream {
    /// A stream from the token at a place on, or from the start of the file.
    fn open(view: Arc<StoredView>, file: u32, start: Option<(Unit, u64)>) -> Result<StoredStream> {
        let mut stream = StoredStream {
            view,
            file,
            current: None,
            stack: Vec::new(),
            tokens: Vec::new(),
            position: 0,
            offset: 0,
        };
        match start {
            None => stream.enter(0)?,
            Some((unit, place)) => stream.seek(unit, place)?,
        }
        Ok(stream)
    }

    /// Appends words to `buffer` until it holds at least `length`; `false` if there are no more.
    fn fill(&mut self, buffer: &mut Vec<Occurrence>, length: usize) -> Result<bool> {
        let view = self.view.clone();
        let vocabulary = view.vocabulary()?;
        let file = self.file;
        while buffer.len() < length {
            let Some((part_number, segment)) = self.current.clone() else {
                return Ok(false);
            };
            let part = &view.index.parts(file as usize)[part_number];
            let forms = &segment.pin::<TokenForms>()?.0;
            let numbers = vocabulary.numbers(part.segment as usize);
            while buffer.len() < length {
                let count = (length - buffer.len()).max(TOKENS_MIN);
                take_terminals::<Expansions>(&segment, &mut self.stack, count, &mut self.tokens)?;
                if self.tokens.is_empty() {
                    self.enter(part_number + 1)?;
                    break;
                }
                let next = Occurrence {
                    file,
                    word: 0,
                    position: self.position,
                    offset: self.offset,
                };
                let first = buffer.len();
                buffer.resize(first + self.tokens.len(), next);
                let (words, behind) = match numbers {
                    None => {
                        place_words(&self.tokens, forms, next, &mut buffer[first..], |word| word)
                    }
                    Some(numbers) => {
                        // Words are numbered by u32.
                        let number = |word: u32| numbers.get(word as usize) as u32;
                        place_words(&self.tokens, forms, next, &mut buffer[first..], number)
                    }
                };
                buffer.truncate(first + words);
                (self.position, self.offset) = (behind.position, behind.offset);
            }
        }
        Ok(true)
    }

    /// Moves to the start of a part, if there is one more.
    fn enter(&mut self, part_number: usize) -> Result<()> {
        self.current = None;
        if let Some(part) = self.view.index.parts(self.file as usize).get(part_number) {
            let segment = self.view.segment(part);
            self.stack = root_of_file(segment.view()?, part.file);
            self.current = Some((part_number, Arc::new(segment)));
        }
        Ok(())
    }

    /// Moves to the token at a place; behind the last one if no token is there.
    fn seek(&mut self, unit: Unit, place: u64) -> Result<()> {
        let view = self.view.clone();
        let mut words_before = 0;
        for (number, part) in view.index.parts(self.file as usize).iter().enumerate() {
            let segment = view.segment(part);
            let words = segment.files()?[part.file as usize].words;
            let (before, length) = match unit {
                Unit::Bytes => (part.first_byte, part.bytes),
                Unit::Words => (words_before, words),
            };
            if place < before + length {
                let token = segment.token_at(part.file, unit, place - before, &mut self.stack)?;
                self.position = words_before + token.position;
                self.offset = part.first_byte + token.offset;
                self.current = Some((number, Arc::new(segment)));
                return Ok(());
            }
            words_before += words;
        }
        Ok(())
    }
}

/// Writes the places of the words of some tokens, of which the first begins at `next`. Returns the number of words and the start
/// of the token behind them. `words` has a place for each token.
#[inline]
fn place_words(
    tokens: &[u32],
    forms: &[TokenForm],
    mut next: Occurrence,
    words: &mut [Occurrence],
    number: impl Fn(u32) -> u32,
) -> (usize, Occurrence) {
    let mut count = 0;
    for &token in tokens {
        let form = forms[token as usize];
        let (word, before) = form.word();
        // Gaps are written too, and then overwritten: a branch on them would often be mispredicted.
        words[count] = Occurrence {
            word,
            offset: next.offset + u64::from(before),
            ..next
        };
        count += usize::from(form.is_word());
        next.position += u64::from(form.is_word());
        next.offset += u64::from(form.bytes);
    }
    for word in &mut words[..count] {
        word.word = number(word.word);
    }
    (count, next)
}
