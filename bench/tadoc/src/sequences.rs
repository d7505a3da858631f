//! Sequences of words that bodies hold themselves: those that lie in no single rule of the body.
//!
//! A rule contributes its first and last words, its head and tail (ICDE 2021), so no rule is expanded. Each different sequence
//! gets a number. The invariant: over all bodies, each as often as it occurs, every sequence of a file is met once.

use rustc_hash::FxHashMap;

use crate::rows::Rows;

/// Words of a sequence.
pub const SEQUENCE_WORDS: usize = 3;

/// Words of a head or tail.
const END_WORDS: usize = SEQUENCE_WORDS - 1;

/// The distinct sequences of a text. A row of `local` has the numbers of the sequences that one body holds itself.
pub struct Sequences {
    pub words: Vec<[u32; SEQUENCE_WORDS]>,
    pub local: Rows,
}

/// First and last words of an expansion, at most two each.
#[derive(Clone, Copy, Default)]
struct Ends {
    head: [u32; END_WORDS],
    tail: [u32; END_WORDS],
    /// How many words the expansion has; 3 if more than two.
    words: usize,
}

impl Ends {
    fn push_word(&mut self, word: u32) {
        if self.words < END_WORDS {
            self.head[self.words] = word;
            self.tail[self.words] = word;
        } else {
            self.tail = [self.tail[1], word];
        }
        self.words = (self.words + 1).min(SEQUENCE_WORDS);
    }

    fn push(&mut self, ends: &Ends) {
        for &word in &ends.head[..ends.words.min(END_WORDS)] {
            self.push_word(word);
        }
        if ends.words > END_WORDS {
            self.tail = ends.tail;
            self.words = SEQUENCE_WORDS;
        }
    }
}

impl Sequences {
    /// `bodies` hold words below `first_body`, and above it the bodies that they use, which come later.
    pub fn new(bodies: &Rows, first_body: u32) -> Sequences {
        let mut ends = vec![Ends::default(); bodies.len()];
        for body in (0..bodies.len()).rev() {
            let mut all = Ends::default();
            for &element in bodies.row(body) {
                match element.checked_sub(first_body) {
                    None => all.push_word(element),
                    Some(used) => all.push(&ends[used as usize]),
                }
            }
            ends[body] = all;
        }
        let mut numbers: FxHashMap<[u32; SEQUENCE_WORDS], u32> = FxHashMap::default();
        let mut sequences = Sequences {
            words: Vec::new(),
            local: Rows::new(),
        };
        for body in 0..bodies.len() {
            // The words before the next, of which the last `known` exist.
            let (mut before, mut known) = ([0; END_WORDS], 0);
            let mut add = |word: u32, before: &mut [u32; END_WORDS], known: &mut usize| {
                if *known == END_WORDS {
                    let sequence = [before[0], before[1], word];
                    // A corpus has fewer sequences than words, and those fewer than a u32 counts.
                    let next = sequences.words.len() as u32;
                    let number = *numbers.entry(sequence).or_insert(next);
                    if number == next {
                        sequences.words.push(sequence);
                    }
                    sequences.local.push(number);
                }
                *before = [before[1], word];
                *known = (*known + 1).min(END_WORDS);
            };
            for &element in bodies.row(body) {
                let Some(used) = element.checked_sub(first_body) else {
                    add(element, &mut before, &mut known);
                    continue;
                };
                let ends = &ends[used as usize];
                for &word in &ends.head[..ends.words.min(END_WORDS)] {
                    add(word, &mut before, &mut known);
                }
                if ends.words > END_WORDS {
                    (before, known) = (ends.tail, END_WORDS);
                }
            }
            sequences.local.end_row();
        }
        sequences
    }
}
