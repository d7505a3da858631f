//! An order of files in which those that have words in common stand together: recursive graph bisection (Dhulipala et al., KDD
//! 2016).
//!
//! In   `[files]`: the words of each
//! Out  a permutation of the files
//! Work O(files of words, times the logarithm of the number of files), some rounds of it
//!
//! A half of the files is cut in two, and pairs of files change sides as long as that makes the lists of their words cheaper: a list of
//! d of n files takes about d log2(n / (d + 1)) bits of gaps in it. Then each half is cut alike. Invariant: the order depends on the
//! table alone, not on threads.

use crate::CountTable;

/// Rounds of exchanges at a cut.
const ROUNDS: usize = 20;

/// Fewer files are not cut.
const CUT_MIN: usize = 8;

/// Cuts above this depth are worked on in parallel.
const PARALLEL_DEPTH: usize = 4;

/// How many files of each side have a word, and what it gains if one of them moves to the other side.
#[derive(Clone, Copy, Default)]
struct WordSides {
    files: [u32; 2],
    gains: [f32; 2],
}

/// The files of `table`, whose rows are the words of each, ascending and below `words`, in an order of similarity: the file at each
/// place.
pub fn similar_order(table: &CountTable, words: u32) -> Vec<u32> {
    // Files are u32.
    let mut order: Vec<u32> = (0..table.rows() as u32).collect();
    cut(table, words, &mut order, 0, &mut Vec::new());
    order
}

fn cut(
    table: &CountTable,
    words: u32,
    files: &mut [u32],
    depth: usize,
    sides: &mut Vec<WordSides>,
) {
    if files.len() < CUT_MIN {
        return;
    }
    sides.resize(words as usize, WordSides::default());
    let (left, right) = files.split_at_mut(files.len() / 2);
    for _ in 0..ROUNDS {
        if !exchange(table, left, right, sides) {
            break;
        }
    }
    // Gains decided the order within a half; a fixed order makes the next cut independent of it.
    left.sort_unstable();
    right.sort_unstable();
    if depth < PARALLEL_DEPTH {
        rayon::join(
            || cut(table, words, left, depth + 1, &mut Vec::new()),
            || cut(table, words, right, depth + 1, &mut Vec::new()),
        );
    } else {
        cut(table, words, left, depth + 1, sides);
        cut(table, words, right, depth + 1, sides);
    }
}

/// Lets files change sides in pairs while both together gain; whether any did. Leaves no word counted.
fn exchange(
    table: &CountTable,
    left: &mut [u32],
    right: &mut [u32],
    sides: &mut [WordSides],
) -> bool {
    let mut met: Vec<u32> = Vec::new();
    for (side, files) in [&*left, &*right].into_iter().enumerate() {
        for &file in files {
            for &(word, _) in table.row(file as usize) {
                let counts = &mut sides[word as usize].files;
                if *counts == [0, 0] {
                    met.push(word);
                }
                counts[side] += 1;
            }
        }
    }
    let sizes = [left.len() as f32, right.len() as f32];
    let cost = |side: usize, files: u32| match files {
        0 => 0.0,
        files => files as f32 * (sizes[side] / (files as f32 + 1.0)).log2(),
    };
    for &word in &met {
        let WordSides { files, gains } = &mut sides[word as usize];
        let now = cost(0, files[0]) + cost(1, files[1]);
        for from in [0, 1] {
            let to = 1 - from;
            gains[from] = match files[from] {
                0 => 0.0,
                before => now - cost(from, before - 1) - cost(to, files[to] + 1),
            };
        }
    }
    let mut gained = [&*left, &*right].map(|files| {
        let files = files.iter().copied();
        files.map(|file| (0.0f32, file)).collect::<Vec<_>>()
    });
    for (side, files) in gained.iter_mut().enumerate() {
        for (gain, file) in files.iter_mut() {
            let words = table.row(*file as usize).iter();
            *gain = words
                .map(|&(word, _)| sides[word as usize].gains[side])
                .sum();
        }
        files.sort_unstable_by(|(first, file), (second, other)| {
            second.total_cmp(first).then(file.cmp(other))
        });
    }
    for word in met {
        sides[word as usize] = WordSides::default();
    }
    let [mut first, mut second] = gained;
    let pairs = first.iter_mut().zip(&mut second);
    let mut is_changed = false;
    for (one, other) in pairs.take_while(|(one, other)| one.0 + other.0 > 0.0) {
        std::mem::swap(&mut one.1, &mut other.1);
        is_changed = true;
    }
    for (files, gained) in [(left, first), (right, second)] {
        for (place, (_, file)) in files.iter_mut().zip(gained) {
            *place = file;
        }
    }
    is_changed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::construct::pairs::mix;
    use crate::grammar::test_grammars::in_pools;

    /// Files of some subjects, each with words of its own, in no order.
    fn subjects(files: u64, subjects: u64) -> CountTable {
        let row = |file: u64| {
            let subject = mix(file) % subjects;
            let words = (0..20).map(|at| (subject * 40 + mix(file << 8 | at) % 40) as u32);
            let mut words: Vec<(u32, u32)> = words.map(|word| (word, 1)).collect();
            words.sort_unstable();
            words.dedup();
            words
        };
        CountTable::of_rows((0..files).map(row).collect())
    }

    /// Bits of the gaps of all lists.
    fn bits(table: &CountTable, order: &[u32], words: usize) -> f64 {
        let mut last = vec![-1i64; words];
        let mut bits = 0.0;
        for (place, &file) in (0..).zip(order) {
            for &(word, _) in table.row(file as usize) {
                bits += ((place - last[word as usize]) as f64).log2() + 1.0;
                last[word as usize] = place;
            }
        }
        bits
    }

    #[test]
    fn files_of_a_subject_come_together() {
        for (files, count) in [(0, 1), (1, 1), (7, 2), (64, 4), (500, 10)] {
            let table = subjects(files, count);
            let words = count as u32 * 40;
            let order = similar_order(&table, words);
            let natural: Vec<u32> = (0..files as u32).collect();
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, natural);
            if files >= 64 {
                let of = |order: &[u32]| bits(&table, order, words as usize);
                assert!(of(&order) < of(&natural) * 0.8, "{files} files");
            }
        }
    }

    #[test]
    fn the_order_is_the_same_for_1_2_and_16_threads() {
        let table = subjects(300, 7);
        in_pools(|| similar_order(&table, 280));
    }
}
