//! One entry of a dictionary section: a word with its spaces, coded as its difference from the entry before.

use super::context::Context;
use super::spelling::{CASE_BIT_ROWS, Event, HEADS, SHARED_ESCAPE, SHARED_ROWS, SHARED_SAME};

/// Longest beginning taken from the entry before.
const SHARED_MAX: usize = 255;

/// A word and which of its tokens exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The word as it is written.
    pub word: Vec<u8>,
    spacing: u8,
}

/// For each token of an entry, whether it has a space. Only the bare word; only with a space before it; first the one, then the other.
pub const SPACINGS: [&[bool]; 3] = [&[false], &[true], &[false, true]];

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

    /// How many tokens the entry is.
    pub fn tokens(&self) -> usize {
        SPACINGS[usize::from(self.spacing)].len()
    }
}

/// How a word is capitalised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Capitals {
    /// No capital.
    #[default]
    None = 0,
    /// The first letter.
    First = 1,
    /// All letters.
    All = 2,
    /// Coded letter by letter.
    Mixed = 3,
}

impl Capitals {
    /// In order of their numbers.
    pub const ALL: [Capitals; 4] = [
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

/// The state that the next entry is coded against.
#[derive(Default)]
pub struct Previous {
    folded: Vec<u8>,
    shared: usize,
    capitals: Capitals,
    spacing: u8,
}

impl Previous {
    /// Appends the events that code `entry` as a difference, and takes its
    /// place.
    pub fn write(&mut self, entry: &Entry, events: &mut Vec<Event>) {
        let folded = entry.word.to_ascii_lowercase();
        let row = shared_row(self.shared);
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
        events.push(Event::head(
            head_row(same, self.spacing, self.capitals),
            head,
        ));
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
}

/// The row of the shared length of an entry after one that shared `shared` bytes.
pub fn shared_row(shared: usize) -> usize {
    shared.min(SHARED_ROWS - 1)
}

/// The row of the head of an entry, which has the same folded word as the one before or not, after such an entry.
pub fn head_row(same: bool, spacing: u8, capitals: Capitals) -> usize {
    usize::from(same) * HEADS + usize::from(spacing) * Capitals::ALL.len() + capitals as usize
}

/// The row for the case of a letter after `byte`; 0 at the beginning.
pub fn case_bit_row(byte: u8) -> usize {
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
