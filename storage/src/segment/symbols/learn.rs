//! Learning the model from a grammar: the choices of the writer that are stored for the reader.
//!
//! Nothing here has to be exact, only the same every time: all of it is sums and comparisons of integers over chunks
//! chosen by number, so it does not depend on threads.

use super::classes::{CLASSES_MAX, Ends, NONE, of_body};
use super::coder::{NeighbourCount, SymbolCoder};
use super::contexts::{CONTEXTS_MAX, Contexts, GROUPS_MAX};
use super::model::{Shapes, StoredClasses};
use crate::Grammar;
use crate::segment::coding::cluster::{Groups, Rows};
use crate::segment::coding::logarithm::{ONE_BIT, log2};
use rayon::prelude::*;

/// Most coded symbols that classes and contexts are learned from.
const SAMPLE: usize = 2 << 20;

/// Most symbols with classes of their own.
const OWN_MAX: usize = 16_384;

/// Rounds of grouping tokens.
const ROUNDS: usize = 4;

/// Classes for a grammar.
pub struct Learned {
    /// What is stored of the classes.
    pub classes: StoredClasses,
    /// The ends of all symbols.
    pub ends: Vec<Ends>,
}

/// Learns classes of a grammar with `total` coded symbols.
///
/// # Errors
/// Those of the coder.
pub fn learn<C: SymbolCoder>(
    grammar: &Grammar,
    total: usize,
    shapes: &Shapes,
    frequencies: &[u8],
    coder: &mut C,
) -> Result<Learned, C::Error> {
    let step = sample_step(total);
    // At least 1024 symbols a class on average.
    let classes = (total / 1024).clamp(1, CLASSES_MAX).ilog2();
    let classes = 1usize << classes;

    let items = Items::new(grammar, shapes, frequencies, total);
    let neighbours = coder.neighbours(&items.left, &items.right, items.count, step)?;
    let (lefts, rights) = group_items(&neighbours, items.count, classes);
    drop(neighbours);
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
    let ends = by_level(grammar, |symbol, lower: &[Ends]| Ends {
        left: class_of(items.left[symbol], &lefts),
        right: class_of(items.right[symbol], &rights),
        before: match symbol.checked_sub(shapes.of.len()) {
            None => NONE,
            Some(rule) => {
                let body = grammar.body(rule as u32); // rules fit u32
                let tail = &body[body.len() - 2..];
                of_body(tail.iter().map(|&symbol| lower[symbol as usize]), classes).before
            }
        },
    });
    Ok(Learned {
        classes: stored,
        ends,
    })
}

/// Learns contexts of a grammar with `total` coded symbols, whose ends are known.
///
/// # Errors
/// Those of the coder.
pub fn learn_contexts<C: SymbolCoder>(
    total: usize,
    ends: &[Ends],
    classes: usize,
    coder: &mut C,
) -> Result<Contexts, C::Error> {
    let step = sample_step(total);
    let counts = coder.past_counts(ends, classes, step)?;
    Ok(contexts_of(&counts, classes, step as u64))
}

/// The step of sampled chunks of a grammar with `total` coded symbols: one chunk
/// in this many.
fn sample_step(total: usize) -> usize {
    total.div_ceil(SAMPLE).max(1)
}

/// What classes are given to: frequent symbols each, all other tokens by shape.
struct Items {
    /// Symbols of this frequency class and above are items.
    threshold: u8,
    /// How many symbols are; shapes follow.
    own: u32,
    /// `own` and the number of shapes.
    count: usize,
    /// For each symbol, the item at the left end of its expansion.
    left: Vec<u32>,
    /// For each symbol, the item at the right end.
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
        // Symbols fit u32.
        let owners: Vec<u32> = (frequencies.par_iter().enumerate())
            .filter(|(_, frequency)| **frequency >= threshold)
            .map(|(symbol, _)| symbol as u32)
            .collect();
        let ends = by_level(grammar, |symbol, lower: &[(u32, u32)]| {
            if frequencies[symbol] >= threshold {
                let number = owners.partition_point(|&owner| (owner as usize) < symbol) as u32;
                (number, number)
            } else if let Some(&shape) = shapes.of.get(symbol) {
                (own + u32::from(shape), own + u32::from(shape))
            } else {
                let body = grammar.body((symbol - shapes.of.len()) as u32); // rules fit u32
                let last = body[body.len() - 1];
                (lower[body[0] as usize].0, lower[last as usize].1)
            }
        });
        let (left, right) = ends.into_par_iter().unzip();
        Items {
            threshold,
            own,
            count: own as usize + shapes.count,
            left,
            right,
        }
    }
}

/// The result of `of` for each symbol; `of` gets the results for the symbols of lower levels. Parallel on the current
/// pool.
fn by_level<T: Copy + Default + Send + Sync>(
    grammar: &Grammar,
    of: impl Fn(usize, &[T]) -> T + Sync,
) -> Vec<T> {
    /// Symbols that one task takes at least.
    const TASK_SYMBOLS: usize = 4096;
    let rules = grammar.level_offsets.iter();
    let ends = rules.map(|&rule| (grammar.terminal_count + rule) as usize);
    let mut said = vec![T::default(); (grammar.terminal_count + grammar.rule_count()) as usize];
    let mut start = 0;
    for end in ends {
        let (lower, level) = said[..end].split_at_mut(start);
        (level.par_iter_mut().enumerate())
            .with_min_len(TASK_SYMBOLS)
            .for_each(|(index, item)| *item = of(start + index, lower));
        start = end;
    }
    said
}

/// Groups `items` items twice: by what follows their right end, and by what is before their left end.
fn group_items(neighbours: &[NeighbourCount], items: usize, classes: usize) -> (Groups, Groups) {
    let following = Rows::from_sorted_counts(items, neighbours, |pair| {
        (pair.right, pair.left, pair.count)
    });
    let preceding = following.transposed(items);
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

/// Learns contexts of `[pasts][pasts][classes]` counts; `step` times as many places as counted follow them.
fn contexts_of(of_pasts: &[u32], classes: usize, step: u64) -> Contexts {
    let pasts = classes + 1;
    let mut by_before = vec![0u32; pasts * classes];
    for of_last in of_pasts.chunks_exact(pasts * classes) {
        add(&mut by_before, of_last);
    }
    let rows = Rows::from_dense(classes, &by_before);
    let mut groups = Groups::seeded(&rows, GROUPS_MAX.min(pasts));
    for _ in 0..ROUNDS {
        groups.improve(&rows, |class| class as u8, classes);
    }
    let mut mergers: Vec<Merger> = of_pasts
        .par_chunks(pasts * classes)
        .map(|of_last| {
            let mut counts = vec![0u32; GROUPS_MAX * classes];
            for (&group, of_before) in groups.of.iter().zip(of_last.chunks_exact(classes)) {
                add(&mut counts[usize::from(group) * classes..], of_before);
            }
            Merger::new(&counts, classes, step)
        })
        .collect();
    // Merge what saves; then, if there are too many contexts, what costs least.
    let mut count: usize = mergers
        .iter()
        .map(|merger| merger.groups.len().max(1))
        .sum();
    for merger in &mut mergers {
        merger.taken = merger.merges.partition_point(|merge| merge.price <= 0);
        count -= merger.taken;
    }
    let mut dear: Vec<(i64, usize)> = mergers
        .iter()
        .enumerate()
        .flat_map(|(last, merger)| {
            merger.merges[merger.taken..]
                .iter()
                .map(move |merge| (merge.price, last))
        })
        .collect();
    dear.sort_unstable();
    for (_, last) in dear.into_iter().take(count.saturating_sub(CONTEXTS_MAX)) {
        mergers[last].taken += 1;
    }
    let mut contexts = Contexts {
        groups: groups.of,
        of: Vec::new(),
        count: 0,
    };
    for merger in mergers {
        let of = merger.contexts();
        let most = of.iter().copied().max().unwrap_or(0);
        // Together at most CONTEXTS_MAX.
        contexts
            .of
            .extend(of.iter().map(|own| contexts.count as u16 + own));
        contexts.count += usize::from(most) + 1;
    }
    contexts
}

/// Adds counts to the first of others.
fn add(sums: &mut [u32], counts: &[u32]) {
    sums.iter_mut()
        .zip(counts)
        .for_each(|(sum, count)| *sum += count);
}

/// What an entry of a table costs to store, in the unit of [`log2`].
const ENTRY_COST: u64 = 5 * ONE_BIT as u64;

/// Which groups of what is before one last class should share a table.
struct Merger {
    /// Groups that occur.
    groups: Vec<usize>,
    /// Best first, until all are one.
    merges: Vec<ClusterMerge>,
    /// How many of them are made.
    taken: usize,
}

/// Two rows of counts that become one.
struct ClusterMerge {
    /// Index into [`Merger::groups`] of the row that stays, and of the one that goes.
    rows: (usize, usize),
    /// What is lost in predictions less what is saved in tables; never falls from one merge to the next, so that a
    /// limit on it takes a prefix.
    price: i64,
}

impl Merger {
    /// Merges the rows of `counts`, each of `classes`, two by two; `step` times as many places as counted follow them.
    fn new(counts: &[u32], classes: usize, step: u64) -> Merger {
        let rows: Vec<&[u32]> = counts.chunks_exact(classes).collect();
        let groups: Vec<usize> = (0..rows.len())
            .filter(|&row| rows[row].iter().any(|&count| count > 0))
            .collect();
        let mut rows: Vec<Option<(Vec<u32>, i64)>> = groups
            .iter()
            .map(|&row| Some((rows[row].to_vec(), cost(rows[row].iter().copied(), step))))
            .collect();
        let price = |rows: &[Option<(Vec<u32>, i64)>], stays: usize, goes: usize| {
            let ((stays, stays_cost), (goes, goes_cost)) =
                (rows[stays].as_ref()?, rows[goes].as_ref()?);
            let together = stays.iter().zip(goes).map(|(stays, goes)| stays + goes);
            Some(cost(together, step) - stays_cost - goes_cost)
        };
        let mut prices: Vec<Vec<Option<i64>>> = (0..rows.len())
            .map(|goes| (0..goes).map(|stays| price(&rows, stays, goes)).collect())
            .collect();
        let mut merges = Vec::new();
        let mut highest = i64::MIN;
        for _ in 1..groups.len() {
            let pairs = prices.iter().enumerate().flat_map(|(goes, prices)| {
                prices
                    .iter()
                    .enumerate()
                    .filter_map(move |(stays, price)| Some(((*price)?, stays, goes)))
            });
            let (least, stays, goes) = pairs.min().expect("two rows are left");
            highest = highest.max(least);
            merges.push(ClusterMerge {
                rows: (stays, goes),
                price: highest,
            });
            let gone = rows[goes].take();
            if let (Some((counts, own)), Some((gone, _))) = (&mut rows[stays], gone) {
                counts
                    .iter_mut()
                    .zip(gone)
                    .for_each(|(count, gone)| *count += gone);
                *own = cost(counts.iter().copied(), step);
            }
            for other in 0..rows.len() {
                let (low, high) = (stays.min(other), stays.max(other));
                if low < high {
                    prices[high][low] = price(&rows, low, high);
                }
                let (low, high) = (goes.min(other), goes.max(other));
                if low < high {
                    prices[high][low] = None;
                }
            }
        }
        Merger {
            groups,
            merges,
            taken: 0,
        }
    }

    /// The context of each group, numbered in order of first use; groups that never occur go with the first.
    fn contexts(&self) -> Vec<u16> {
        let mut stands_for: Vec<usize> = (0..self.groups.len()).collect();
        for merge in &self.merges[..self.taken] {
            let (stays, goes) = merge.rows;
            stands_for
                .iter_mut()
                .filter(|row| **row == goes)
                .for_each(|row| *row = stays);
        }
        let mut contexts = vec![0; GROUPS_MAX];
        let mut numbers = Vec::new();
        for (&group, &row) in self.groups.iter().zip(&stands_for) {
            let number = numbers
                .iter()
                .position(|&known| known == row)
                .unwrap_or_else(|| {
                    numbers.push(row);
                    numbers.len() - 1
                });
            contexts[group] = number as u16; // below GROUPS_MAX
        }
        contexts
    }
}

/// What a row of counts costs: its predictions and its table.
fn cost(row: impl Iterator<Item = u32>, step: u64) -> i64 {
    let (mut total, mut inner, mut entries) = (0u32, 0u64, 0u64);
    for count in row {
        total += count;
        inner += u64::from(count) * u64::from(log2(count));
        entries += u64::from(count > 0);
    }
    let bits = (u64::from(total) * u64::from(log2(total))).saturating_sub(inner);
    // Counts are sampled: far below 2^63.
    (bits * step + entries * ENTRY_COST) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_alike_are_merged_first_and_groups_unlike_last() {
        let mut counts = vec![0; GROUPS_MAX * 4];
        for group in [1, 2, 5] {
            counts[group * 4..][..4].copy_from_slice(&[500, 500, 1, 1]);
        }
        for group in [3, 9] {
            counts[group * 4..][..4].copy_from_slice(&[1, 1, 900, 2]);
        }
        let mut merger = Merger::new(&counts, 4, 1);
        assert!(merger.merges.is_sorted_by_key(|merge| merge.price));
        merger.taken = merger.merges.partition_point(|merge| merge.price <= 0);
        let of = merger.contexts();
        assert_eq!((of[1], of[2], of[5]), (0, 0, 0));
        assert_eq!((of[3], of[9]), (1, 1));
        assert_eq!(of[0], 0);
        merger.taken = 4;
        assert!(merger.contexts().iter().all(|&context| context == 0));
    }
}
