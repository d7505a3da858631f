//! One entry of a dictionary section: a word with its spaces, told by how it differs from the entry before.

use super::context::Context;
use super::spelling::{
    CASE_BIT_ROWS, Event, HEADS, Lookups, SHARED_ESCAPE, SHARED_ROWS, SHARED_SAME,
};
use crate::segment::coding::Fault;
use crate::segment::coding::rans::{Below, Decoder};

/// Longest beginning taken from the entry before.
const SHARED_MAX: usize = 255;

/// A word and which of its tokens exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The word as it is written.
    pub word: Vec<u8>,
    spacing: u8,
}

/// Only the bare word; only with a space before it; first the one, then the other.
const SPACINGS: [&[bool]; 3] = [&[false], &[true], &[false, true]];

impl Entry {
    /// The entry that begins with `token`, and takes `next` too if that is the same word with a space.
    pub fn parse(token: &[u8], next: Option<&[u8]>, spaced: bool) -> Entry {
        match token {
            [b' ', word @ ..] if spaced && !word.is_empty() => Entry {
                word: word.to_vec(),
                spacing: 1,
            },
            word => {
                let both = spaced && next.and_then(|next| next.strip_prefix(b" ")) == Some(word);
                Entry {
                    word: word.to_vec(),
                    spacing: u8::from(both) * 2,
                }
            }
        }
    }

    /// For each token of the entry, whether it has a space.
    pub fn spaces(&self) -> impl Iterator<Item = bool> + use<> {
        SPACINGS[usize::from(self.spacing)].iter().copied()
    }

    /// How many tokens the entry is.
    pub fn tokens(&self) -> usize {
        SPACINGS[usize::from(self.spacing)].len()
    }
}

/// How a word is capitalised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Capitals {
    #[default]
    None = 0,
    First = 1,
    All = 2,
    /// Told letter by letter.
    Mixed = 3,
}

impl Capitals {
    const ALL: [Capitals; 4] = [
        Capitals::None,
        Capitals::First,
        Capitals::All,
        Capitals::Mixed,
    ];

    fn of(word: &[u8]) -> Capitals {
        let capitals = word.iter().filter(|byte| byte.is_ascii_uppercase()).count();
        if capitals == 0 {
            Capitals::None
        } else if capitals == 1 && word[0].is_ascii_uppercase() {
            Capitals::First
        } else if word.iter().all(|byte| !byte.is_ascii_lowercase()) {
            Capitals::All
        } else {
            Capitals::Mixed
        }
    }
}

/// What the next entry is told by.
#[derive(Default)]
pub struct Previous {
    folded: Vec<u8>,
    shared: usize,
    capitals: Capitals,
    spacing: u8,
}

impl Previous {
    /// Tells `entry` by its difference and takes its place.
    pub fn write(&mut self, entry: &Entry, events: &mut Vec<Event>) {
        let folded = entry.word.to_ascii_lowercase();
        let row = self.shared_row();
        let same = folded == self.folded;
        if same {
            events.push(Event::shared(row, SHARED_SAME));
        } else {
            let shared = folded
                .iter()
                .zip(&self.folded)
                .take_while(|(left, right)| left == right)
                .count();
            let shared = shared.min(SHARED_MAX);
            events.push(Event::shared(row, shared.min(SHARED_ESCAPE)));
            if shared >= SHARED_ESCAPE {
                events.push(Event::raw(shared - SHARED_ESCAPE));
            }
            let mut context = Context::first(&self.folded, &folded[..shared]);
            for &byte in &folded[shared..] {
                events.push(Event::byte(context, byte));
                context = context.next(byte);
            }
            events.push(Event::end(context));
            self.shared = shared;
        }
        let capitals = Capitals::of(&entry.word);
        let head = usize::from(entry.spacing) * Capitals::ALL.len() + capitals as usize;
        events.push(Event::head(self.head_row(same), head));
        if capitals == Capitals::Mixed {
            let mut row = 0;
            for &byte in &entry.word {
                if byte.is_ascii_alphabetic() {
                    events.push(Event::case_bit(row, byte.is_ascii_uppercase()));
                }
                row = case_bit_row(byte);
            }
        }
        self.folded = folded;
        self.capitals = capitals;
        self.spacing = entry.spacing;
    }

    /// Reads what [`Previous::write`] wrote; the word may have at most `size_max` bytes.
    pub fn read(
        &mut self,
        decoder: &mut Decoder<'_>,
        lookups: &Lookups,
        size_max: usize,
    ) -> Result<Entry, Fault> {
        let shared = lookups.shared(decoder, self.shared_row());
        let same = shared == SHARED_SAME;
        if !same {
            let shared = if shared == SHARED_ESCAPE {
                SHARED_ESCAPE + decoder.below(Below::bits(8)) as usize
            } else {
                shared
            };
            if shared > self.folded.len() {
                return Err(Fault("a token shares more than the one before has"));
            }
            let mut context = Context::first(&self.folded, &self.folded[..shared]);
            self.folded.truncate(shared);
            while let Some(byte) = lookups.byte(decoder, context) {
                if self.folded.len() >= size_max {
                    return Err(Fault("a token is too long"));
                }
                self.folded.push(byte);
                context = context.next(byte);
            }
            self.shared = shared;
        }
        if self.folded.is_empty() {
            return Err(Fault("a token is empty"));
        }
        let head = lookups.head(decoder, self.head_row(same));
        self.spacing = (head / Capitals::ALL.len()) as u8; // below HEADS
        self.capitals = Capitals::ALL[head % Capitals::ALL.len()];
        let mut word = self.folded.clone();
        match self.capitals {
            Capitals::None => {}
            Capitals::First => word[0].make_ascii_uppercase(),
            Capitals::All => word.make_ascii_uppercase(),
            Capitals::Mixed => {
                let mut row = 0;
                for byte in &mut word {
                    if byte.is_ascii_alphabetic() && lookups.case_bit(decoder, row) {
                        byte.make_ascii_uppercase();
                    }
                    row = case_bit_row(*byte);
                }
            }
        }
        Ok(Entry {
            word,
            spacing: self.spacing,
        })
    }

    fn shared_row(&self) -> usize {
        self.shared.min(SHARED_ROWS - 1)
    }

    fn head_row(&self, same: bool) -> usize {
        usize::from(same) * HEADS
            + usize::from(self.spacing) * Capitals::ALL.len()
            + self.capitals as usize
    }
}

/// The row for the case of a letter after `byte`; 0 at the beginning.
fn case_bit_row(byte: u8) -> usize {
    let row = if byte.is_ascii_uppercase() {
        1
    } else if byte.is_ascii_lowercase() {
        2
    } else {
        3
    };
    debug_assert!(row < CASE_BIT_ROWS);
    row
}
