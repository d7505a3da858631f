//! Writing bodies and root.

use super::classes::{Ends, Past};
use super::contexts::Contexts;
use super::history::{History, REPEATS, split_distance};
use super::learn::{Learned, Usage, coded_symbols, learn, runs};
use super::model::{
    ACTIONS, Chunk, CodeTables, FREQUENCIES, FREQUENCY_ROWS, LEVEL_ROWS, Ranking, Shapes,
    action_parent, action_row, action_rows, class_parent, class_row, frequency_row, set_level_rows,
};
use crate::segment::coding::adaptive::BitEncoder;
use crate::segment::coding::rans::{self, Share};
use crate::segment::coding::tables::Tables;
use crate::segment::coding::{blocks, numbers, pad, varint};
use crate::{Dictionary, Grammar};
use rayon::prelude::*;

/// The sections of a grammar.
pub struct Encoded {
    /// Sizes of levels, lengths of bodies, their first symbols.
    pub rules: Vec<u8>,
    /// Frequency classes, classes, contexts, tables.
    pub model: Vec<u8>,
    /// All other symbols of bodies.
    pub bodies: Vec<u8>,
    /// Lengths of the roots of files and their symbols.
    pub root: Vec<u8>,
}

/// Encodes a grammar whose terminals are the tokens of `dictionary`; a few hundred nanoseconds a symbol.
///
/// The caller has checked that grammar and dictionary agree and that all symbols are below 2^31.
pub fn encode(grammar: &Grammar, dictionary: &Dictionary) -> Encoded {
    let chunks = Chunk::all(
        &grammar.rule_offsets,
        &grammar.level_offsets,
        grammar.root.len(),
    );
    let shapes = Shapes::new(dictionary, vec![0; dictionary.len() as usize]);
    let usage = Usage::new(grammar, &chunks);
    let frequencies = usage.frequencies();
    let learned = learn(grammar, &chunks, &shapes, &frequencies);
    let classes = learned.classes.classes;
    let ranks = Ranks::new(grammar, &learned, &frequencies);
    let contexts = &learned.contexts;
    let events: Vec<Vec<SymbolEvent>> = chunks
        .par_iter()
        .zip(&usage.repeats)
        .map(|(chunk, repeats)| events(grammar, chunk, repeats, classes, contexts, &ranks))
        .collect();
    let tables = count(&events, &chunks, classes, learned.contexts.count);
    let (class_shares, action_shares) = (tables.classes.shares(), tables.actions.shares());
    let coded: Vec<Vec<u8>> = chunks
        .par_iter()
        .zip(&events)
        .map(|(chunk, events)| {
            let mut encoder = rans::Encoder::new(events.len() / 2);
            let sizes = ranks.sizes_for(chunk);
            for event in events.iter().rev() {
                event.push(
                    &mut encoder,
                    chunk.part(),
                    classes,
                    sizes,
                    &class_shares,
                    &action_shares,
                );
            }
            encoder.finish()
        })
        .collect();
    let (coded_bodies, coded_root) =
        coded.split_at(chunks.iter().filter(|chunk| chunk.part() == 0).count());

    Encoded {
        rules: encode_rules(grammar),
        model: encode_model(grammar, dictionary, &shapes, &frequencies, learned, &tables),
        bodies: {
            let mut bodies = Vec::new();
            blocks::write(&mut bodies, coded_bodies);
            pad(&mut bodies, size_of_val(&grammar.symbols[..]) as u64);
            bodies
        },
        root: {
            let mut root = Vec::new();
            let lengths: Vec<u32> = grammar
                .root_offsets
                .windows(2)
                .map(|pair| pair[1] - pair[0])
                .collect();
            numbers::write(&mut root, &lengths, 1, |_| 0);
            blocks::write(&mut root, coded_root);
            pad(&mut root, size_of_val(&grammar.root[..]) as u64);
            root
        },
    }
}

fn encode_rules(grammar: &Grammar) -> Vec<u8> {
    let mut rules = Vec::new();
    for level in grammar.level_offsets.windows(2) {
        varint::write(&mut rules, u64::from(level[1] - level[0]));
    }
    let mut levels = vec![0; grammar.rule_count() as usize];
    set_level_rows(&mut levels, &grammar.level_offsets);
    let lengths: Vec<u32> = grammar
        .rule_offsets
        .windows(2)
        .map(|pair| pair[1] - pair[0] - 2)
        .collect();
    numbers::write(&mut rules, &lengths, LEVEL_ROWS, |rule| {
        usize::from(levels[rule])
    });
    // Bodies are sorted within a level, so first symbols do not fall there; where they do, the gap wraps around.
    let mut gaps = Vec::with_capacity(lengths.len());
    for level in grammar.level_offsets.windows(2) {
        let mut last = 0;
        for rule in level[0]..level[1] {
            let first = grammar.body(rule)[0];
            gaps.push(first.wrapping_sub(last));
            last = first;
        }
    }
    numbers::write(&mut rules, &gaps, LEVEL_ROWS, |rule| {
        usize::from(levels[rule])
    });
    rules
}

fn encode_model(
    grammar: &Grammar,
    dictionary: &Dictionary,
    shapes: &Shapes,
    frequencies: &[u8],
    mut learned: Learned,
    tables: &CodeTables,
) -> Vec<u8> {
    let mut model = Vec::new();
    let values: Vec<u32> = frequencies
        .iter()
        .map(|&frequency| u32::from(frequency))
        .collect();
    let row = |symbol| frequency_row(symbol, dictionary, &grammar.rule_offsets);
    numbers::write(&mut model, &values, FREQUENCY_ROWS, row);
    let first: Vec<u32> = (0..grammar.rule_count())
        .map(|rule| grammar.body(rule)[0])
        .collect();
    let mut coder = BitEncoder::default();
    let known = "writing does not fail";
    let ends = Vec::with_capacity(frequencies.len());
    learned
        .classes
        .code(
            &mut coder,
            shapes,
            frequencies,
            &first,
            Some(&learned.ends),
            ends,
        )
        .expect(known);
    Contexts::code(&mut coder, learned.classes.classes, Some(&learned.contexts)).expect(known);
    tables.classes.write(&mut coder, class_parent);
    tables.actions.write(&mut coder, action_parent);
    blocks::write_part(&mut model, &coder.finish());
    model
}

/// Where each symbol stands in its bucket, and how large buckets are for each level.
struct Ranks {
    /// Of each symbol.
    of: Vec<Ranked>,
    /// `[levels + 1][buckets]`: symbols that bodies of a level may use; the last one for the root.
    sizes: Vec<Vec<u32>>,
}

/// All that writing a symbol takes, together since it comes from memory that no cache holds.
#[derive(Clone, Copy)]
struct Ranked {
    rank: u32,
    ends: Ends,
    frequency: u8,
}

impl Ranks {
    fn new(grammar: &Grammar, learned: &Learned, frequencies: &[u8]) -> Ranks {
        let mut sizes = vec![0; learned.classes.classes * FREQUENCIES];
        let mut of = Vec::with_capacity(frequencies.len());
        let mut levels = Vec::with_capacity(grammar.level_offsets.len());
        for &rule in &grammar.level_offsets {
            let open = of.len()..(grammar.terminal_count + rule) as usize;
            let ends = &learned.ends[open.clone()];
            for (&ends, &frequency) in ends.iter().zip(&frequencies[open]) {
                let mut rank = 0;
                if frequency > 0 {
                    let size: &mut u32 = &mut sizes[Ranking::bucket(ends.left, frequency)];
                    rank = *size;
                    *size += 1;
                }
                of.push(Ranked {
                    rank,
                    ends,
                    frequency,
                });
            }
            levels.push(sizes.clone());
        }
        Ranks { of, sizes: levels }
    }

    fn sizes_for(&self, chunk: &Chunk) -> &[u32] {
        match chunk {
            Chunk::Bodies(chunk) => &self.sizes[chunk.level],
            Chunk::Root(_) => &self.sizes[self.sizes.len() - 1],
        }
    }
}

/// What is written of one coded symbol.
struct SymbolEvent {
    context: u16,
    class: u8,
    action: u8,
    /// How full the history of the class is.
    fill: u8,
    /// Rank in the bucket, or the distance's raw bits.
    value: u32,
}

impl SymbolEvent {
    fn push(
        &self,
        encoder: &mut rans::Encoder,
        part: usize,
        classes: usize,
        sizes: &[u32],
        class_shares: &[Share],
        action_shares: &[Share],
    ) {
        let (class, action) = (usize::from(self.class), usize::from(self.action));
        match action.checked_sub(REPEATS) {
            None => encoder.push_raw(self.value, super::history::distance_bits(action).0),
            Some(frequency) => {
                encoder.push_below(self.value, sizes[class * FREQUENCIES + frequency])
            }
        }
        encoder.push(
            action_shares
                [action_row(part, classes, class, usize::from(self.fill)) * ACTIONS + action],
        );
        encoder.push(class_shares[class_row(usize::from(self.context)) * classes + class]);
    }
}

fn events(
    grammar: &Grammar,
    chunk: &Chunk,
    repeats: &[bool],
    classes: usize,
    contexts: &Contexts,
    ranks: &Ranks,
) -> Vec<SymbolEvent> {
    let mut history = History::new(classes);
    let mut events = Vec::with_capacity(coded_symbols(grammar, chunk));
    for (first, symbols) in runs(grammar, chunk) {
        let nothing = Past::nothing(classes);
        let mut past = first.map_or(nothing, |first| {
            nothing.after(ranks.of[first as usize].ends)
        });
        for &symbol in symbols {
            let Ranked {
                rank,
                ends,
                frequency,
            } = ranks.of[symbol as usize];
            let class = usize::from(ends.left);
            let distance = if repeats[events.len()] {
                history.find(class, symbol)
            } else {
                None
            };
            let (action, value) = match distance {
                Some(distance) => {
                    let (action, _, raw) = split_distance(distance);
                    (action, raw)
                }
                None => (REPEATS + usize::from(frequency) - 1, rank),
            };
            events.push(SymbolEvent {
                context: contexts.of(past) as u16, // below CONTEXTS_MAX
                class: ends.left,
                action: action as u8,            // below ACTIONS
                fill: history.fill(class) as u8, // below FILLS
                value,
            });
            history.push(class, symbol);
            past = past.after(ends);
        }
    }
    events
}

/// Makes the tables that the events ask for.
fn count(
    events: &[Vec<SymbolEvent>],
    chunks: &[Chunk],
    classes: usize,
    contexts: usize,
) -> CodeTables {
    let class_size = class_row(contexts) * classes;
    let size = class_size + action_rows(classes) * ACTIONS;
    let part = events.len().div_ceil(rayon::current_num_threads()).max(1);
    let mut counts = events
        .par_chunks(part)
        .zip(chunks.par_chunks(part))
        .map(|(events, chunks)| {
            let mut counts = vec![0u32; size];
            for (events, chunk) in events.iter().zip(chunks) {
                for event in events {
                    let class = usize::from(event.class);
                    counts[class_row(usize::from(event.context)) * classes + class] += 1;
                    let row = action_row(chunk.part(), classes, class, usize::from(event.fill));
                    counts[class_size + row * ACTIONS + usize::from(event.action)] += 1;
                }
            }
            counts
        })
        .reduce_with(|mut left, right| {
            left.iter_mut()
                .zip(right)
                .for_each(|(left, right)| *left += right);
            left
        })
        .unwrap_or_else(|| vec![0; size]);
    let (in_classes, in_actions) = counts.split_at_mut(class_size);
    let (all, rows) = in_classes.split_at_mut(classes);
    for row in rows.chunks_exact(classes) {
        all.iter_mut()
            .zip(row)
            .for_each(|(all, count)| *all += count);
    }
    CodeTables {
        classes: Tables::from_counts(classes, in_classes),
        actions: Tables::from_counts(ACTIONS, in_actions),
    }
}
