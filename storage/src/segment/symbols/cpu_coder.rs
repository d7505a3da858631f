//! Counting and coding symbols on the threads of the current pool.
//!
//! Invariant: nothing depends on how many threads there are.

use super::classes::{Ends, Past};
use super::coder::{EventCounts, NeighbourCount, REPEAT_GAIN, SymbolCoder};
use super::contexts::Contexts;
use super::history::{History, REPEATS, distance_bits, split_distance};
use super::model::{ACTIONS, Chunk, FREQUENCIES, Ranking, action_row, action_rows, class_row};
use super::runs::{Run, coded_symbols, runs};
use crate::Grammar;
use crate::segment::coding::cluster::{count_pairs, pair_key};
use crate::segment::coding::rans::{self, Share};
use rayon::prelude::*;
use std::borrow::Cow;
use std::convert::Infallible;
use std::ops::Range;

/// The coder of the CPU.
pub struct CpuCoder<'a> {
    grammar: &'a Grammar,
    chunks: &'a [Chunk],
    /// For each chunk and coded symbol, whether to look for it nearby.
    repeats: Vec<Vec<bool>>,
    frequencies: Vec<u8>,
    /// Once there are classes.
    ranks: Ranks,
    classes: usize,
    /// Events of each chunk, once there are contexts.
    events: Vec<Vec<SymbolEvent>>,
}

impl<'a> CpuCoder<'a> {
    /// A coder of a grammar with these chunks.
    pub fn new(grammar: &'a Grammar, chunks: &'a [Chunk]) -> CpuCoder<'a> {
        CpuCoder {
            grammar,
            chunks,
            repeats: Vec::new(),
            frequencies: Vec::new(),
            ranks: Ranks::default(),
            classes: 0,
            events: Vec::new(),
        }
    }

    /// The runs of every `step`-th chunk, chunk by chunk.
    fn sample<T: Send, I: Iterator<Item = T>>(
        &self,
        step: usize,
        of_run: impl Fn(Run<'a>) -> I + Sync,
    ) -> Vec<T> {
        let chunks: Vec<&Chunk> = self.chunks.iter().step_by(step).collect();
        let chunks = chunks.par_iter();
        chunks
            .flat_map_iter(|chunk| runs(self.grammar, chunk).flat_map(&of_run))
            .collect()
    }
}

impl SymbolCoder for CpuCoder<'_> {
    type Error = Infallible;

    fn frequencies(&mut self) -> Result<Vec<u8>, Infallible> {
        let usage = Usage::new(self.grammar, self.chunks);
        let width = |&count: &u32| (u32::BITS - count.leading_zeros()) as u8;
        self.repeats = usage.repeats;
        self.frequencies = usage.fresh.iter().map(width).collect();
        Ok(self.frequencies.clone())
    }

    fn neighbours(
        &mut self,
        lefts: &[u32],
        rights: &[u32],
        _items: usize,
        step: usize,
    ) -> Result<Vec<NeighbourCount>, Infallible> {
        let mut pairs = self.sample(step, |(first, symbols)| {
            let before = first.into_iter().chain(symbols.iter().copied());
            let after = if first.is_some() {
                symbols
            } else {
                &symbols[1.min(symbols.len())..]
            };
            before
                .zip(after)
                .map(|(before, &after)| pair_key(rights[before as usize], lefts[after as usize]))
        });
        pairs.par_sort_unstable();
        let counted = count_pairs(&pairs).into_par_iter();
        let counted = counted.map(|(right, left, count)| NeighbourCount { right, left, count });
        Ok(counted.collect())
    }

    fn past_counts(
        &mut self,
        ends: &[Ends],
        classes: usize,
        step: usize,
    ) -> Result<Vec<u32>, Infallible> {
        self.classes = classes;
        self.ranks = Ranks::new(self.grammar, ends, classes, &self.frequencies);
        let nothing = Past::nothing(classes);
        let pasts = classes + 1;
        let places = self.sample(step, |(first, symbols)| {
            let mut past = first.map_or(nothing, |first| nothing.after(ends[first as usize]));
            symbols.iter().map(move |&symbol| {
                let ends = ends[symbol as usize];
                let row = usize::from(past.last) * pasts + usize::from(past.before);
                past = past.after(ends);
                // At most CLASSES_MAX + 1 of each.
                (row * classes + usize::from(ends.left)) as u32
            })
        });
        let mut counts = vec![0; pasts * pasts * classes];
        for place in places {
            counts[place as usize] += 1;
        }
        Ok(counts)
    }

    fn event_counts(&mut self, contexts: &Contexts) -> Result<EventCounts, Infallible> {
        let (grammar, classes, ranks) = (self.grammar, self.classes, &self.ranks);
        self.events = (self.chunks.par_iter())
            .zip(&self.repeats)
            .map(|(chunk, repeats)| events(grammar, chunk, repeats, classes, contexts, ranks))
            .collect();
        Ok(count(&self.events, self.chunks, classes, contexts.count))
    }

    fn blocks(
        &mut self,
        classes: &[Share],
        actions: &[Share],
    ) -> Result<Vec<Cow<'_, [u8]>>, Infallible> {
        let blocks = self.chunks.par_iter().zip(&self.events);
        let blocks = blocks.map(|(chunk, events)| {
            let mut encoder = rans::Encoder::new(events.len() / 2);
            let sizes = self.ranks.sizes_for(chunk);
            for event in events.iter().rev() {
                event.push(
                    &mut encoder,
                    chunk.part(),
                    self.classes,
                    sizes,
                    classes,
                    actions,
                );
            }
            Cow::Owned(encoder.finish())
        });
        Ok(blocks.collect())
    }
}

/// How often each symbol is coded, and where as a repeat.
struct Usage {
    /// For each symbol, how often it is coded as new: an estimate, for repeats may still be out of
    /// reach.
    fresh: Vec<u32>,
    /// For each chunk and coded symbol, whether to look for it nearby.
    repeats: Vec<Vec<bool>>,
}

impl Usage {
    /// Counts all coded symbols and judges each by how near its last occurrence in the chunk is.
    fn new(grammar: &Grammar, chunks: &[Chunk]) -> Usage {
        let symbols = grammar.terminal_count as usize + grammar.rule_count() as usize;
        let total: usize = chunks
            .iter()
            .map(|chunk| coded_symbols(grammar, chunk))
            .sum();
        let parts = parts(chunks.len());
        let add = |mut left: Vec<u32>, right: Vec<u32>| {
            left.iter_mut()
                .zip(right)
                .for_each(|(left, right)| *left += right);
            left
        };
        let mut fresh = parts
            .par_iter()
            .map(|part| {
                let mut counts = vec![0u32; symbols];
                for run in chunks[part.clone()]
                    .iter()
                    .flat_map(|chunk| runs(grammar, chunk))
                {
                    run.1
                        .iter()
                        .for_each(|&symbol| counts[symbol as usize] += 1);
                }
                counts
            })
            .reduce_with(add)
            .unwrap_or_else(|| vec![0; symbols]);
        let judged: Vec<(Vec<Vec<bool>>, Vec<u32>)> = parts
            .par_iter()
            .map(|part| {
                // Place of the last occurrence, counted through all chunks of this part.
                let mut last = vec![0u32; symbols];
                let mut repeated = vec![0u32; symbols];
                let mut place = 0u32;
                let flags = chunks[part.clone()]
                    .iter()
                    .map(|chunk| {
                        let start = place;
                        let mut flags = Vec::with_capacity(coded_symbols(grammar, chunk));
                        for &symbol in runs(grammar, chunk).flat_map(|run| run.1) {
                            place += 1;
                            let before = std::mem::replace(&mut last[symbol as usize], place);
                            let near = before > start
                                && u64::from(place - before)
                                    * u64::from(fresh[symbol as usize])
                                    * REPEAT_GAIN
                                    < total as u64;
                            repeated[symbol as usize] += u32::from(near);
                            flags.push(near);
                        }
                        flags
                    })
                    .collect();
                (flags, repeated)
            })
            .collect();
        let mut repeats = Vec::with_capacity(chunks.len());
        for (flags, repeated) in judged {
            repeats.extend(flags);
            fresh
                .iter_mut()
                .zip(repeated)
                .for_each(|(fresh, repeated)| *fresh -= repeated);
        }
        Usage { fresh, repeats }
    }
}

/// Splits `0..count` into as many ranges as there are threads.
fn parts(count: usize) -> Vec<Range<usize>> {
    let size = count.div_ceil(rayon::current_num_threads()).max(1);
    (0..count)
        .step_by(size)
        .map(|start| start..(start + size).min(count))
        .collect()
}

/// Where each symbol stands in its bucket, and how large buckets are for each level.
#[derive(Default)]
struct Ranks {
    /// Rank of each symbol.
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
    fn new(grammar: &Grammar, ends: &[Ends], classes: usize, frequencies: &[u8]) -> Ranks {
        let mut sizes = vec![0; classes * FREQUENCIES];
        let mut of = Vec::with_capacity(frequencies.len());
        let mut levels = Vec::with_capacity(grammar.level_offsets.len());
        for &rule in &grammar.level_offsets {
            let open = of.len()..(grammar.terminal_count + rule) as usize;
            let ends = &ends[open.clone()];
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
            None => encoder.push_raw(self.value, distance_bits(action).0),
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

/// Counts what events ask tables for.
fn count(
    events: &[Vec<SymbolEvent>],
    chunks: &[Chunk],
    classes: usize,
    contexts: usize,
) -> EventCounts {
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
    let actions = counts.split_off(class_size);
    EventCounts {
        classes: counts,
        actions,
    }
}
