//! Learning the model from a grammar: what the writer decides and the reader is told.
//!
//! Nothing here has to be exact, only the same every time: all of it is sums and comparisons of integers over chunks
//! chosen by number, so it does not depend on threads.

use super::classes::{CLASSES_MAX, Ends, NONE, Past, of_body};
use super::contexts::{CONTEXTS_MAX, Contexts, GROUPS_MAX};
use super::model::{Chunk, Shapes, StoredClasses};
use crate::Grammar;
use crate::segment::coding::cluster::{Groups, Rows};
use crate::segment::coding::logarithm::{ONE_BIT, log2};
use rayon::prelude::*;
use std::ops::Range;

/// Most coded symbols that classes and contexts are learned from.
const SAMPLE: usize = 2 << 20;

/// Most symbols with classes of their own.
const OWN_MAX: usize = 16_384;

/// A repeat must save this factor of probability to be worth its own action.
const REPEAT_GAIN: u64 = 16;

/// Rounds of grouping tokens.
const ROUNDS: usize = 4;

/// A run of symbols coded one after the other: what is before it, if that is known, and the symbols.
pub type Run<'a> = (Option<u32>, &'a [u32]);

/// The runs of a chunk: one a body, less its first symbol; or one piece of the root.
pub fn runs<'a>(grammar: &'a Grammar, chunk: &Chunk) -> impl Iterator<Item = Run<'a>> + use<'a> {
    let (rules, root) = match chunk {
        Chunk::Bodies(chunk) => (chunk.rules.clone(), None),
        Chunk::Root(range) => (0..0, Some((None, &grammar.root[range.clone()]))),
    };
    let bodies = rules.map(|rule| {
        let body = grammar.body(rule as u32); // rules fit u32
        (Some(body[0]), &body[1..])
    });
    bodies.chain(root)
}

/// How many symbols a chunk codes.
pub fn coded_symbols(grammar: &Grammar, chunk: &Chunk) -> usize {
    match chunk {
        Chunk::Bodies(chunk) => {
            let symbols =
                grammar.rule_offsets[chunk.rules.end] - grammar.rule_offsets[chunk.rules.start];
            symbols as usize - chunk.rules.len()
        }
        Chunk::Root(range) => range.len(),
    }
}

/// How often each symbol is coded, and where as a repeat.
pub struct Usage {
    /// Of each symbol, how often it is coded as new: an estimate, for repeats may still be out of reach.
    pub fresh: Vec<u32>,
    /// Of each chunk, for each coded symbol, whether to look for it nearby.
    pub repeats: Vec<Vec<bool>>,
}

impl Usage {
    /// Counts all coded symbols and judges each by how near its last occurrence in the chunk is.
    pub fn new(grammar: &Grammar, chunks: &[Chunk]) -> Usage {
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

    /// The frequency class of each symbol.
    pub fn frequencies(&self) -> Vec<u8> {
        self.fresh
            .iter()
            .map(|&count| (u32::BITS - count.leading_zeros()) as u8)
            .collect()
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

/// Classes and contexts for a grammar.
pub struct Learned {
    /// What is stored of the classes.
    pub classes: StoredClasses,
    /// The ends of all symbols.
    pub ends: Vec<Ends>,
    /// Pasts to contexts.
    pub contexts: Contexts,
}

/// Learns classes and contexts.
pub fn learn(grammar: &Grammar, chunks: &[Chunk], shapes: &Shapes, frequencies: &[u8]) -> Learned {
    let total: usize = chunks
        .iter()
        .map(|chunk| coded_symbols(grammar, chunk))
        .sum();
    let step = total.div_ceil(SAMPLE).max(1);
    let sample: Vec<&Chunk> = chunks.iter().step_by(step).collect();
    // So many that each has something to learn from.
    let classes = (total / 1024).clamp(1, CLASSES_MAX).ilog2();
    let classes = 1usize << classes;

    let items = Items::new(grammar, shapes, frequencies, total);
    let (lefts, rights) = group_items(grammar, &sample, &items, classes);
    let class_of = |item: u32, groups: &Groups| groups.of[item as usize];
    let stored = StoredClasses {
        classes,
        threshold: items.threshold,
        shapes: (0..shapes.count as u32)
            .map(|shape| {
                (
                    class_of(items.own + shape, &lefts),
                    class_of(items.own + shape, &rights),
                )
            })
            .collect(),
    };
    let mut ends: Vec<Ends> = Vec::with_capacity(frequencies.len());
    for symbol in 0..frequencies.len() {
        let (left, right) = (
            class_of(items.left[symbol], &lefts),
            class_of(items.right[symbol], &rights),
        );
        let before = match symbol.checked_sub(shapes.of.len()) {
            None => NONE,
            Some(rule) => {
                let body = grammar.body(rule as u32); // rules fit u32
                let tail = &body[body.len() - 2..];
                of_body(tail.iter().map(|&symbol| ends[symbol as usize]), classes).before
            }
        };
        ends.push(Ends {
            left,
            right,
            before,
        });
    }
    let contexts = learn_contexts(grammar, &sample, &ends, classes, step as u64);
    Learned {
        classes: stored,
        ends,
        contexts,
    }
}

/// What classes are given to: frequent symbols each, all other tokens by shape.
struct Items {
    /// Symbols of this frequency class and above are items.
    threshold: u8,
    /// How many symbols are; shapes follow.
    own: u32,
    /// `own` and the number of shapes.
    count: usize,
    /// Of each symbol, the item at the left end of its expansion.
    left: Vec<u32>,
    /// And at the right end.
    right: Vec<u32>,
}

impl Items {
    fn new(grammar: &Grammar, shapes: &Shapes, frequencies: &[u8], total: usize) -> Items {
        let most = (total / 64).min(OWN_MAX);
        let mut having = [0usize; 64];
        for &frequency in frequencies {
            having[usize::from(frequency)] += 1;
        }
        let mut threshold = 33;
        let mut taken = 0;
        while threshold > 1 && taken + having[threshold - 1] <= most {
            threshold -= 1;
            taken += having[threshold];
        }
        let threshold = threshold as u8; // at most 33
        let own = taken as u32; // at most OWN_MAX
        let mut next = 0;
        let mut items = Items {
            threshold,
            own,
            count: own as usize + shapes.count,
            left: Vec::with_capacity(frequencies.len()),
            right: Vec::with_capacity(frequencies.len()),
        };
        for (symbol, &frequency) in frequencies.iter().enumerate() {
            let (left, right) = if frequency >= threshold {
                next += 1;
                (next - 1, next - 1)
            } else if let Some(&shape) = shapes.of.get(symbol) {
                (own + u32::from(shape), own + u32::from(shape))
            } else {
                let body = grammar.body((symbol - shapes.of.len()) as u32); // rules fit u32
                (
                    items.left[body[0] as usize],
                    items.right[body[body.len() - 1] as usize],
                )
            };
            items.left.push(left);
            items.right.push(right);
        }
        items
    }
}

/// Groups items twice: by what follows their right end, and by what is before their left end.
fn group_items(
    grammar: &Grammar,
    sample: &[&Chunk],
    items: &Items,
    classes: usize,
) -> (Groups, Groups) {
    let mut pairs: Vec<(u32, u32)> = sample
        .par_iter()
        .flat_map_iter(|chunk| {
            runs(grammar, chunk).flat_map(|(first, symbols)| {
                let before = first.into_iter().chain(symbols.iter().copied());
                let after = if first.is_some() {
                    symbols
                } else {
                    &symbols[1.min(symbols.len())..]
                };
                before.zip(after).map(|(before, &after)| {
                    (items.right[before as usize], items.left[after as usize])
                })
            })
        })
        .collect();
    pairs.par_sort_unstable();
    let following = Rows::from_sorted_pairs(items.count, &pairs);
    drop(pairs);
    let preceding = following.transposed(items.count);
    let mut rights = Groups::seeded(&following, classes);
    let mut lefts = Groups::seeded(&preceding, classes);
    if classes > 1 {
        for _ in 0..ROUNDS {
            rights.improve(&following, |item| lefts.of[item as usize], classes);
            lefts.improve(&preceding, |item| rights.of[item as usize], classes);
        }
    }
    (lefts, rights)
}

fn learn_contexts(
    grammar: &Grammar,
    sample: &[&Chunk],
    ends: &[Ends],
    classes: usize,
    step: u64,
) -> Contexts {
    let pasts = classes + 1;
    // (last, before, class) of every sampled place.
    let places: Vec<(Past, u8)> = sample
        .par_iter()
        .flat_map_iter(|chunk| {
            runs(grammar, chunk).flat_map(|(first, symbols)| {
                let nothing = Past::nothing(classes);
                let mut past = first.map_or(nothing, |first| nothing.after(ends[first as usize]));
                symbols.iter().map(move |&symbol| {
                    let ends = ends[symbol as usize];
                    let place = (past, ends.left);
                    past = past.after(ends);
                    place
                })
            })
        })
        .collect();
    let mut by_before: Vec<(u32, u32)> = places
        .iter()
        .map(|(past, class)| (u32::from(past.before), u32::from(*class)))
        .collect();
    by_before.par_sort_unstable();
    let rows = Rows::from_sorted_pairs(pasts, &by_before);
    drop(by_before);
    let mut groups = Groups::seeded(&rows, GROUPS_MAX.min(pasts));
    for _ in 0..ROUNDS {
        groups.improve(&rows, |class| class as u8, classes);
    }
    let mut counts = vec![0u32; pasts * GROUPS_MAX * classes];
    for (past, class) in places {
        let row =
            usize::from(past.last) * GROUPS_MAX + usize::from(groups.of[usize::from(past.before)]);
        counts[row * classes + usize::from(class)] += 1;
    }
    // Ask more of a split until there are few enough.
    let mut entry_cost = 5 * u64::from(ONE_BIT);
    loop {
        let of: Vec<Vec<u16>> = counts
            .par_chunks(GROUPS_MAX * classes)
            .map(|counts| merge_groups(counts, classes, step, entry_cost))
            .collect();
        let mut contexts = Contexts {
            groups: groups.of.clone(),
            of: Vec::new(),
            count: 0,
        };
        for of in of {
            let most = of.iter().copied().max().unwrap_or(0);
            contexts
                .of
                .extend(of.iter().map(|own| contexts.count as u16 + own)); // checked below
            contexts.count += usize::from(most) + 1;
        }
        if contexts.count <= CONTEXTS_MAX {
            return contexts;
        }
        entry_cost += entry_cost / 2;
    }
}

/// Which of the `GROUPS_MAX` rows of `counts` should share a table, numbered in order of first use.
///
/// Merges the pair that saves most, table entries against worse predictions, until none saves.
fn merge_groups(counts: &[u32], classes: usize, step: u64, entry_cost: u64) -> Vec<u16> {
    let cost = |row: &mut dyn Iterator<Item = u32>| {
        let (mut total, mut inner, mut entries) = (0u32, 0u64, 0u64);
        for count in row.filter(|count| *count > 0) {
            total += count;
            inner += u64::from(count) * u64::from(log2(count));
            entries += 1;
        }
        (u64::from(total) * u64::from(log2(total))).saturating_sub(inner) * step
            + entries * entry_cost
    };
    let mut rows: Vec<(Vec<u32>, u64, Vec<usize>)> = Vec::new();
    let mut empty = Vec::new();
    for (group, row) in counts.chunks_exact(classes).enumerate() {
        if row.iter().all(|&count| count == 0) {
            empty.push(group);
        } else {
            rows.push((row.to_vec(), cost(&mut row.iter().copied()), vec![group]));
        }
    }
    let together = |left: &(Vec<u32>, u64, Vec<usize>), right: &(Vec<u32>, u64, Vec<usize>)| {
        let merged = cost(
            &mut left
                .0
                .iter()
                .zip(&right.0)
                .map(|(left, right)| left + right),
        );
        // What merging saves; never when it costs more.
        (left.1 + right.1).checked_sub(merged)
    };
    let mut savings: Vec<Vec<Option<u64>>> = (0..rows.len())
        .map(|row| {
            (0..row)
                .map(|other| together(&rows[row], &rows[other]))
                .collect()
        })
        .collect();
    loop {
        let mut best: Option<(u64, usize, usize)> = None;
        for (row, savings) in savings.iter().enumerate() {
            for (other, &saved) in savings.iter().enumerate() {
                if let Some(saved) = saved
                    && best.is_none_or(|(most, _, _)| saved > most)
                {
                    best = Some((saved, row, other));
                }
            }
        }
        let Some((_, row, other)) = best else { break };
        let (taken, _, groups) = rows.swap_remove(row);
        savings.swap_remove(row);
        // The last row took the place of `row`: its savings are computed again.
        rows[other]
            .0
            .iter_mut()
            .zip(taken)
            .for_each(|(count, taken)| *count += taken);
        rows[other].2.extend(groups);
        rows[other].1 = cost(&mut rows[other].0.iter().copied());
        for changed in [row, other] {
            if changed < rows.len() {
                savings[changed] = (0..changed)
                    .map(|lower| together(&rows[changed], &rows[lower]))
                    .collect();
            }
        }
        for upper in 0..rows.len() {
            for changed in [row, other] {
                if changed < upper {
                    savings[upper][changed] = together(&rows[upper], &rows[changed]);
                }
            }
        }
    }
    // Groups that never occur go with the first context.
    let mut of = vec![0; GROUPS_MAX];
    rows.iter_mut()
        .for_each(|(_, _, members)| members.sort_unstable());
    rows.sort_unstable_by_key(|(_, _, members)| members[0]);
    for (context, (_, _, members)) in rows.iter().enumerate() {
        members
            .iter()
            .for_each(|&member| of[member] = context as u16); // below GROUPS_MAX
    }
    of
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_alike_are_merged_and_groups_unlike_are_not() {
        let mut counts = vec![0; GROUPS_MAX * 4];
        for group in [1, 2, 5] {
            counts[group * 4..][..4].copy_from_slice(&[500, 500, 1, 1]);
        }
        for group in [3, 9] {
            counts[group * 4..][..4].copy_from_slice(&[1, 1, 900, 2]);
        }
        let of = merge_groups(&counts, 4, 1, 160);
        assert_eq!((of[1], of[2], of[5]), (of[1], of[1], of[1]));
        assert_eq!(of[3], of[9]);
        assert_ne!(of[1], of[3]);
        let again = merge_groups(&counts, 4, 1, 1_000_000);
        assert!(again.iter().all(|&context| context == 0));
    }
}
