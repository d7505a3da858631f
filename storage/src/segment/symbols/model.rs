//! Everything a chunk needs to be written or read: frequency classes, classes, contexts, tables, and the symbols of
//! each class in order.

use super::chunks::{self, BodyChunk};
use super::classes::{CLASSES_MAX, Ends, NONE};
use super::history::{FILLS, REPEATS};
use super::shape;
use crate::Dictionary;
use crate::segment::coding::Fault;
use crate::segment::coding::adaptive::{Bit, BitTree, Coder};
use crate::segment::coding::tables::Tables;
use rayon::prelude::*;
use std::ops::Range;

/// Frequency classes are `1..=FREQUENCIES`: the width in bits of how often a symbol is coded as new; 0 for never.
pub const FREQUENCIES: usize = 32;

/// What can be said of a symbol once its class is known: how far back it lies, or that it is new and how frequent.
pub const ACTIONS: usize = REPEATS + FREQUENCIES;

/// Action tables come twice: for bodies and for the root.
pub const PARTS: usize = 2;

/// A run of coded symbols that is one block of a section.
#[derive(Clone, Debug)]
pub enum Chunk {
    /// Bodies of one level.
    Bodies(BodyChunk),
    /// A part of the root.
    Root(Range<usize>),
}

impl Chunk {
    /// All chunks, in the order they are stored: bodies, then root.
    pub fn all(rule_offsets: &[u32], level_offsets: &[u32], root_length: usize) -> Vec<Chunk> {
        let bodies = chunks::of_bodies(rule_offsets, level_offsets)
            .into_iter()
            .map(Chunk::Bodies);
        bodies
            .chain(chunks::of_root(root_length).map(Chunk::Root))
            .collect()
    }

    /// Which action tables the chunk uses, below [`PARTS`].
    pub fn part(&self) -> usize {
        usize::from(matches!(self, Chunk::Root(_)))
    }
}

/// The row of the action tables for a class whose history is as full as `fill`.
#[inline(always)]
pub fn action_row(part: usize, classes: usize, class: usize, fill: usize) -> usize {
    (part * classes + class) * FILLS + fill
}

/// How many action tables there are.
pub fn action_rows(classes: usize) -> usize {
    PARTS * classes * FILLS
}

/// Class tables: one for all contexts together, then one a context that is expected to resemble it.
pub fn class_parent(row: usize) -> Option<usize> {
    (row > 0).then_some(0)
}

/// The row of the class tables for a context.
#[inline(always)]
pub fn class_row(context: usize) -> usize {
    context + 1
}

/// An action table is expected to resemble the one for a less full history, or else that of the class before.
pub fn action_parent(row: usize) -> Option<usize> {
    row.checked_sub(if row.is_multiple_of(FILLS) { FILLS } else { 1 })
}

/// The row of the frequency stream for symbol `symbol`: kinds of symbols are differently frequent.
pub fn frequency_row(symbol: usize, dictionary: &Dictionary, rule_offsets: &[u32]) -> usize {
    match symbol.checked_sub(dictionary.len() as usize) {
        None => usize::from(symbol >= dictionary.word_tokens() as usize),
        Some(rule) => match rule_offsets[rule + 1] - rule_offsets[rule] {
            length @ 0..5 => length as usize,
            5..7 => 5,
            7..11 => 6,
            _ => 7,
        },
    }
}

/// Rows of the frequency stream.
pub const FREQUENCY_ROWS: usize = 8;

/// Rows of the streams of body lengths and first symbols: one a level, the last for all above.
pub const LEVEL_ROWS: usize = 24;

/// Sets `rows` to the level of each rule, from 0, at most `LEVEL_ROWS - 1`.
pub fn set_level_rows(rows: &mut [u8], level_offsets: &[u32]) {
    for (level, rules) in level_offsets.windows(2).enumerate() {
        // LEVEL_ROWS fits.
        rows[rules[0] as usize..rules[1] as usize].fill(level.min(LEVEL_ROWS - 1) as u8);
    }
}

/// The shapes of all terminals.
pub struct Shapes {
    /// Shape of each terminal, as an index into `present`.
    pub of: Vec<u16>,
    /// How many different shapes there are.
    pub count: usize,
}

impl Shapes {
    /// Looks at every token; `of` has a number for each.
    pub fn new(dictionary: &Dictionary, mut of: Vec<u16>) -> Shapes {
        let words = dictionary.word_tokens();
        let tokens = (0..dictionary.len()).into_par_iter().with_min_len(4096);
        (&mut of).into_par_iter().zip(tokens).for_each(|(of, id)| {
            let token = dictionary.token(id);
            // Below SHAPES.
            *of = (if id < words {
                shape::of_word(token)
            } else {
                shape::of_gap(token)
            }) as u16;
        });
        let mut number = vec![0u16; shape::SHAPES];
        for &shape in &of {
            number[usize::from(shape)] = 1;
        }
        let mut count = 0;
        for number in number.iter_mut().filter(|number| **number == 1) {
            *number = count;
            count += 1;
        }
        for shape in &mut of {
            *shape = number[usize::from(*shape)];
        }
        Shapes {
            of,
            count: usize::from(count),
        }
    }
}

/// The classes that are stored: of shapes and of frequent symbols.
#[derive(Clone, Debug, Default)]
pub struct StoredClasses {
    /// How many classes there are: a power of two, at most [`CLASSES_MAX`].
    pub classes: usize,
    /// Symbols of this frequency class and above have classes of their own.
    pub threshold: u8,
    /// Left and right class of each shape that occurs.
    pub shapes: Vec<(u8, u8)>,
}

impl StoredClasses {
    /// Writes the classes and those in `ends`, or reads them. Returns the ends of all symbols, complete for terminals;
    /// for rules `before` is unknown, and so is `right` below the threshold. They go to `result`, which has none yet.
    pub fn code(
        &mut self,
        coder: &mut impl Coder,
        shapes: &Shapes,
        frequencies: &[u8],
        first_of_rule: &[u32],
        ends: Option<&[Ends]>,
        mut result: Vec<Ends>,
    ) -> Result<Vec<Ends>, Fault> {
        let bits = coder.raw(self.classes.max(1).ilog2(), 4);
        if bits > CLASSES_MAX.ilog2() {
            return Err(Fault("it has too many classes"));
        }
        self.classes = 1 << bits;
        self.threshold = coder.raw(u32::from(self.threshold), 6) as u8; // 6 bits
        self.shapes.resize(shapes.count, (0, 0));
        let mut left = ClassModel::new(bits);
        let mut right = ClassModel::new(bits);
        let mut last = (0, 0);
        for pair in &mut self.shapes {
            *pair = (
                left.code(coder, Some(last.0), pair.0),
                right.code(coder, Some(last.1), pair.1),
            );
            last = *pair;
        }
        let mut left = ClassModel::new(bits);
        let mut right = ClassModel::new(bits);
        for (symbol, &frequency) in frequencies.iter().enumerate() {
            let mut own = match shapes.of.get(symbol) {
                Some(&shape) => {
                    let (left, right) = self.shapes[usize::from(shape)];
                    Ends {
                        left,
                        right,
                        before: NONE,
                    }
                }
                None => {
                    // The caller has checked that first symbols are lower.
                    let first: Ends = result[first_of_rule[symbol - shapes.of.len()] as usize];
                    Ends {
                        left: first.left,
                        right: 0,
                        before: 0,
                    }
                }
            };
            if frequency >= self.threshold {
                let known = ends.map_or(own, |ends| ends[symbol]);
                own.left = left.code(coder, Some(own.left), known.left);
                own.right = right.code(
                    coder,
                    (own.before == NONE).then_some(own.right),
                    known.right,
                );
            }
            result.push(own);
        }
        Ok(result)
    }
}

/// What the small coder has learned about classes.
struct ClassModel {
    same: Bit,
    tree: BitTree,
}

impl ClassModel {
    fn new(bits: u32) -> ClassModel {
        ClassModel {
            same: Bit::default(),
            tree: BitTree::new(bits),
        }
    }

    /// Writes `class`, or reads one, knowing what it probably is.
    fn code(&mut self, coder: &mut impl Coder, expected: Option<u8>, class: u8) -> u8 {
        match expected {
            Some(expected) if coder.bit(&mut self.same, class == expected) => expected,
            _ => self.tree.code(coder, u32::from(class)) as u8, // at most 7 bits
        }
    }
}

/// Buckets: the symbols of one class and one frequency class, ranked by id.
pub struct Ranking;

impl Ranking {
    /// The bucket of a class and a frequency class that is not 0.
    #[inline(always)]
    pub fn bucket(class: u8, frequency: u8) -> usize {
        usize::from(class) * FREQUENCIES + usize::from(frequency) - 1
    }
}

/// The tables of classes and actions.
pub struct CodeTables {
    /// By [`class_row`].
    pub classes: Tables,
    /// By [`action_row`].
    pub actions: Tables,
}
