//! Rounds that replace repeated pairs of adjacent symbols by rules.
//!
//! This is Re-Pair without its priority queue: a round replaces many different
//! pairs at once, those that are frequent and locally the most frequent. Every
//! step is a count, a sort, a scan or a compare over integers, so that any
//! number of threads, or a GPU, comes to the same rules. What a round does:
//!
//! 1. *Candidates* are the pairs of adjacent symbols of one file; in a run of
//!    one symbol only those at even offsets from the run's start. The count of
//!    a pair is the number of its candidates.
//! 2. M is the largest count; below 2 the rounds are over. The threshold is
//!    t = max(2, ceil(M * alpha)), at most M or 2, and never above the round
//!    before's.
//! 3. The priority of a candidate is (count, [`mix`] of the pair), compared in
//!    this order; a candidate whose count is below t has none. The mix is one
//!    to one, so equal priorities mean equal pairs, and two candidates side by
//!    side are never equal pairs: a tie cannot occur. Once a rule is deeper
//!    than [`DEPTH_MAX`], for good, the priority is the mix alone: counts can
//!    fall along a text so that every round makes rules of the last round's
//!    rules, mixes rise and fall at random.
//! 4. Twice: a candidate that is free and whose priority beats those of both
//!    neighbours that are free is taken. It and its neighbours are free no more.
//! 5. A pair taken at least twice becomes a rule. There always is one: the pair
//!    of the highest priority is taken wherever it is a candidate.
//! 6. The new rules get the next ids in the order of their pairs, as
//!    (left, right).
//! 7. What was taken of these pairs is replaced. If t = 2 and that shortened
//!    the sequence by less than 1/200, the rounds are over. If t > 2 and that
//!    shortened the sequence by less than 1/1000, which text hardly does, the
//!    next t is at most max(2, t / 2): so few rounds achieve little, and the
//!    work is bounded on any input. Lengths count symbols, no separators.
//!
//! The invariant: every rule is a pair of symbols of smaller ids, and the
//! sequence always expands to the input. Pruning is not done here.
//!
//! # How
//!
//! Positions have the number of their pair beside their symbol, and numbers
//! have exact counts, kept up to date from round to round. A round then looks
//! at all numbers once ([`select`]), moves what is behind the first replaced
//! pair of a chunk ([`replace`]), and numbers only the pairs that are new
//! ([`number`]). A GPU may as well count everything anew each round: numbers
//! never reach the result.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};

use rayon::prelude::*;

use crate::construct::constructed::{Parameters, Round};
use crate::construct::pairs::{DEPTH_MAX, LAST, Paired, SEPARATOR, WEAK, pair_at};
use crate::numbers::bits::{Bits, bits_of};
use crate::stop::{self, Stopped};

use chunked::Chunked;
use select::Priorities;

mod chunked;
mod number;
mod replace;
mod select;
mod square;

/// Numbers that may be out of use before they are handed out anew.
const UNUSED_NUMBERS_MIN: usize = 1 << 16;

/// The length that an array of `tokens` tokens of `files` files grows to in the rounds.
pub(crate) fn room(tokens: usize, files: usize) -> usize {
    let length = tokens + files;
    length + chunked::room_for_cuts(length)
}

/// Puts a [`SEPARATOR`] behind each file.
pub(crate) fn insert_separators(tokens: &mut Vec<u32>, file_offsets: &[u32]) {
    let files = file_offsets.len() - 1;
    tokens.reserve_exact(room(tokens.len(), files) - tokens.len());
    tokens.resize(tokens.len() + files, SEPARATOR);
    for f in (0..files).rev() {
        let (first, end) = (file_offsets[f] as usize, file_offsets[f + 1] as usize);
        tokens[end + f] = SEPARATOR;
        tokens.copy_within(first..end, first + f);
    }
}

/// Runs the rounds on a sequence that holds `files` separators.
pub(crate) fn pair_rounds(
    sequence: Vec<u32>,
    files: usize,
    terminal_count: u32,
    parameters: &Parameters,
    on_round: &mut dyn FnMut(&Round),
    stop: &AtomicBool,
) -> Result<Paired, Stopped> {
    let chunked = Chunked::new(sequence, chunked::CHUNK_MIN);
    rounds_in_chunks(chunked, files, terminal_count, parameters, on_round, stop)
}

fn rounds_in_chunks(
    mut chunked: Chunked,
    files: usize,
    terminal_count: u32,
    parameters: &Parameters,
    on_round: &mut dyn FnMut(&Round),
    stop: &AtomicBool,
) -> Result<Paired, Stopped> {
    let mut rules = Rules::new(terminal_count);
    let mut counts = number::number_all(&mut chunked, terminal_count, stop)?;
    chunked.refresh();
    // By number: zeros between rounds, see `select` and `name_rules`.
    let mut uses: Vec<AtomicU32> = Vec::new();
    let mut threshold = u32::MAX;
    let mut rounds = 0;
    loop {
        stop::check(stop)?;
        let most = counts.par_iter().with_min_len(1 << 14).max();
        let most = most.copied().unwrap_or(0);
        if most < 2 {
            break;
        }
        rounds += 1;
        threshold = threshold.min(parameters.threshold(most));
        let hot = Bits::of(&counts, |count| count >= threshold);
        let live = Bits::of(&counts, |count| count >= 2);
        if uses.len() < counts.len() {
            uses = counts.iter().map(|_| AtomicU32::new(0)).collect();
        }

        let priorities = Priorities {
            counts: &counts,
            hot: &hot,
            mix_only: rules.depth_max > DEPTH_MAX,
        };
        let mut taken = select::select(&chunked, &priorities, &uses);
        stop::check(stop)?;
        let mut new = taken_again(&chunked.symbols, &hot, &uses);
        new.par_sort_unstable();
        rules.name(&new, &uses);
        taken.par_iter_mut().for_each(|taken| taken.name(&uses));
        let unused = new.par_iter();
        unused.for_each(|&(_, number)| uses[number as usize].store(0, Relaxed));

        let length = chunked.length() - files;
        let rules_new = new.len() as u32;
        drop(new);
        let fresh = replace::replace(&mut chunked, &taken, &live, &mut counts);
        drop(taken);
        stop::check(stop)?;
        chunked.refresh();
        number::number_fresh(&mut chunked, &fresh, &mut counts, stop)?;
        drop(fresh);
        if counts.len() > 2 * live.count() + UNUSED_NUMBERS_MIN {
            number::squeeze(&mut chunked, &mut counts);
        }
        chunked.merge();

        on_round(&Round {
            length: length as u64,
            most,
            threshold,
            rules: rules_new,
        });
        let removed = length - (chunked.length() - files);
        if threshold == 2 && removed * LAST < length {
            break;
        }
        if removed * WEAK < length {
            threshold = (threshold / 2).max(2);
        }
    }
    Ok(Paired {
        pairs: rules.pairs,
        sequence: chunked.into_sequence(),
        rounds,
    })
}

impl Parameters {
    /// The threshold that belongs to the largest count.
    pub(crate) fn threshold(&self, most: u32) -> u32 {
        let wanted = (u64::from(most) * u64::from(self.alpha_numerator))
            .div_ceil(u64::from(self.alpha_denominator));
        // Not above `most`, so it fits.
        wanted.min(u64::from(most)).max(2) as u32
    }
}

/// The rules that there are.
struct Rules {
    terminal_count: u32,
    pairs: Vec<u64>,
    depths: Vec<u16>,
    depth_max: u16,
}

impl Rules {
    fn new(terminal_count: u32) -> Rules {
        Rules {
            terminal_count,
            pairs: Vec::new(),
            depths: Vec::new(),
            depth_max: 0,
        }
    }

    /// Makes rules of ascending pairs; `ids` gets their ids, by number.
    fn name(&mut self, new: &[(u64, u32)], ids: &[AtomicU32]) {
        let next = self.terminal_count + self.pairs.len() as u32;
        let named = new.par_iter().enumerate();
        named.for_each(|(rank, &(_, number))| {
            ids[number as usize].store(next + rank as u32, Relaxed);
        });
        self.pairs.reserve_exact(new.len());
        self.depths.reserve_exact(new.len());
        for &(pair, _) in new {
            let left = self.depth((pair >> 32) as u32);
            let right = self.depth(pair as u32);
            let depth = left.max(right).saturating_add(1);
            self.depth_max = self.depth_max.max(depth);
            self.pairs.push(pair);
            self.depths.push(depth);
        }
    }

    fn depth(&self, symbol: u32) -> u16 {
        match symbol.checked_sub(self.terminal_count) {
            Some(rule) => self.depths[rule as usize],
            None => 0,
        }
    }
}

/// The pairs that were taken more than once, with their numbers; makes `uses` zeros again.
fn taken_again(symbols: &[u32], hot: &Bits, uses: &[AtomicU32]) -> Vec<(u64, u32)> {
    let of_word = |(w, &word): (usize, &u64)| {
        bits_of(word).filter_map(move |bit| {
            let number = w as u32 * 64 + bit;
            let place = uses[number as usize].swap(0, Relaxed);
            let again = place & select::AGAIN != 0;
            again.then(|| {
                (
                    pair_at(symbols, (place & !select::AGAIN) as usize - 1),
                    number,
                )
            })
        })
    };
    let words = hot.words().par_iter().enumerate().with_min_len(1 << 8);
    words.flat_map_iter(of_word).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::construct::pairs::mix;

    fn rounds(files: &[&[u32]], chunk_min: usize) -> (Vec<u64>, Vec<u32>) {
        let mut sequence = Vec::new();
        for file in files {
            sequence.extend_from_slice(file);
            sequence.push(SEPARATOR);
        }
        let terminal_count = 1 + files.concat().into_iter().max().unwrap_or(0);
        let paired = rounds_in_chunks(
            Chunked::new(sequence, chunk_min),
            files.len(),
            terminal_count,
            &Parameters::default(),
            &mut |_| {},
            &AtomicBool::new(false),
        )
        .unwrap();
        (paired.pairs, paired.sequence)
    }

    /// Texts that repeat themselves in many ways, next to each other.
    fn texts() -> Vec<Vec<u32>> {
        let mut state = 1;
        let mut below = move |end: u64| {
            state += 1;
            (mix(state) % end) as u32
        };
        let mut texts = Vec::new();
        for alphabet in [1, 2, 3, 5, 30] {
            for longest in [1, 3, 200] {
                let mut text: Vec<u32> = Vec::new();
                while text.len() < 4000 {
                    let length = 1 + below(longest) as usize;
                    match below(4) {
                        0 => text.extend(std::iter::repeat_n(below(alphabet), length)),
                        1 => text.extend([below(alphabet), below(alphabet)].repeat(length)),
                        2 => text.extend((0..length).map(|_| below(alphabet))),
                        _ => {
                            let first = below(text.len() as u64 + 1) as usize;
                            let end = text.len().min(first + length);
                            text.extend_from_within(first..end);
                        }
                    }
                }
                texts.push(text);
            }
        }
        texts
    }

    #[test]
    fn where_chunks_are_cut_changes_nothing() {
        for text in texts() {
            let cut = text.len() / 3;
            let files = [&text[..cut], &[], &text[cut..]];
            let whole = rounds(&files, 1 << 20);
            for chunk_min in [16, 17, 23, 64] {
                assert!(rounds(&files, chunk_min) == whole);
            }
        }
    }

    #[test]
    fn separators_stand_behind_each_file() {
        let mut tokens = vec![1, 2, 3, 4];
        insert_separators(&mut tokens, &[0, 0, 3, 3, 4]);
        let end = SEPARATOR;
        assert_eq!(tokens, [end, 1, 2, 3, end, end, 4, end]);
    }
}
