//! How often words stand near hits, which are words too.
//!
//! In   a grammar over words, how often each symbol occurs, which words are hits, how far is near
//! Out  for each word how often it stands near a hit of the same file, once for each hit that it is near to
//! Work O(body and root symbols + rules * reach), and O(pairs of a hit and a near word in different symbols of a body or root)
//!
//! A hit and a word near it lie in different symbols of exactly one body or root, so each pair is counted there, times the
//! occurrences of the rule. What crosses from symbol to symbol is known from the first and last words of every rule; where neither
//! side has a hit near the cut, which bits of both say, nothing is looked at.

use std::array;
use std::ops::Range;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use crate::GrammarView;
use crate::grammar::grammar_view::AHEAD_SYMBOLS;
use crate::memory::huge_pages::on_huge_pages;
use crate::stop::{Stopped, check};

/// The farthest that a word may be from a hit: bits of both ends of a rule and their number are one integer.
pub const NEAR_WORDS_MAX: usize = 12;

/// Bits of a side of a [`HitMark`].
const SIDE_BITS: u32 = NEAR_WORDS_MAX as u32;

/// Rules that a thread takes at least.
const SHARE_RULES: usize = 1 << 9;

/// Symbols of a task, about.
const TASK_SYMBOLS: usize = 1 << 15;

/// Tasks that share counts: a quarter of those of a thread.
const SHARES_A_THREAD: usize = 4;

/// Counts of all words near hits: up to `reach.0` words before one, and up to `reach.1` behind.
///
/// `weights` has how often each symbol occurs, `is_hit` for each terminal whether it is a hit.
///
/// # Errors
///
/// If `stop` is set.
///
/// # Panics
///
/// When a reach is above [`NEAR_WORDS_MAX`].
pub fn near_word_counts(
    view: GrammarView<'_>,
    weights: &[u32],
    is_hit: &[bool],
    reach: (usize, usize),
    stop: &AtomicBool,
) -> Result<Vec<u64>, Stopped> {
    assert!(reach.0.max(reach.1) <= NEAR_WORDS_MAX);
    let ends = SymbolEnds::new(view, is_hit, reach, stop)?;
    let rules = &weights[view.terminal_count as usize..];
    let tasks = tasks(view);
    let share = tasks
        .len()
        .div_ceil(rayon::current_num_threads() * SHARES_A_THREAD);
    let nothing = || vec![0u64; view.terminal_count as usize];
    let counted = tasks.par_iter().with_min_len(share.max(1)).try_fold(
        nothing,
        |mut counts: Vec<u64>, task| {
            check(stop)?;
            match task {
                NearTask::Root(positions) => {
                    let first = view
                        .root_offsets
                        .partition_point(|&offset| offset as usize <= positions.start);
                    // Files are u32, and the position lies in one.
                    for file in first as u32 - 1..view.files() as u32 {
                        let root = view.root_range(file);
                        if root.start >= positions.end {
                            break;
                        }
                        let range = positions.start.max(root.start)..positions.end.min(root.end);
                        let range = range.start - root.start..range.end - root.start;
                        ends.add(view.file_root(file), range, 1, &mut counts);
                    }
                }
                NearTask::Bodies(some) => {
                    // Rules are u32.
                    for rule in some.start as u32..some.end as u32 {
                        let weight = u64::from(rules[rule as usize]);
                        if weight > 0 {
                            let body = view.body(rule);
                            ends.add(body, 0..body.len(), weight, &mut counts);
                        }
                    }
                }
            }
            Ok(counts)
        },
    );
    counted.try_reduce(nothing, |mut left, right| {
        for (count, more) in left.iter_mut().zip(right) {
            *count += more;
        }
        Ok(left)
    })
}

/// What is counted together.
enum NearTask {
    /// Positions of the root.
    Root(Range<usize>),
    /// Rules.
    Bodies(Range<usize>),
}

/// Cuts root and bodies.
fn tasks(view: GrammarView<'_>) -> Vec<NearTask> {
    let root = view.root.len();
    let starts = (0..root).step_by(TASK_SYMBOLS);
    let mut tasks: Vec<NearTask> =
        (starts.map(|start| NearTask::Root(start..root.min(start + TASK_SYMBOLS)))).collect();
    let mut first = 0;
    while first < view.rules() {
        let until = view.rule_offsets[first] as usize + TASK_SYMBOLS;
        let end = view
            .rule_offsets
            .partition_point(|&offset| offset as usize <= until)
            - 1;
        let end = end.clamp(first + 1, view.rules());
        tasks.push(NearTask::Bodies(first..end));
        first = end;
    }
    tasks
}

/// Which of the first and of the last words of a symbol are hits, nearest to the end first, and how many words are known.
#[derive(Clone, Copy, Default)]
struct HitMark(u32);

impl HitMark {
    fn new(head: &[bool], tail: &[bool]) -> HitMark {
        let bits = |hits: &[bool]| {
            let places = (0..).zip(hits);
            places.fold(0, |bits, (place, &is_hit)| {
                bits | u32::from(is_hit) << place
            })
        };
        // At most `NEAR_WORDS_MAX`.
        let length = head.len() as u32;
        HitMark(bits(head) | bits(tail) << SIDE_BITS | length << (2 * SIDE_BITS))
    }

    #[inline(always)]
    fn head(self) -> u32 {
        self.0 & low_bits(NEAR_WORDS_MAX)
    }

    #[inline(always)]
    fn tail(self) -> u32 {
        self.0 >> SIDE_BITS & low_bits(NEAR_WORDS_MAX)
    }

    #[inline(always)]
    fn length(self) -> u32 {
        self.0 >> (2 * SIDE_BITS)
    }
}

/// This many lowest bits, of at most [`NEAR_WORDS_MAX`].
#[inline(always)]
fn low_bits(count: usize) -> u32 {
    (1 << count) - 1
}

/// The first and last words of all symbols.
struct SymbolEnds<'a> {
    view: GrammarView<'a>,
    /// Words before a hit that are near, and behind one.
    reach: (usize, usize),
    /// Words that are known at either end of a rule at most.
    width: usize,
    /// By symbol.
    marks: Vec<HitMark>,
    /// `[rules * width]`: the first words of each rule, first ones first, and the last words, last ones first.
    heads: Vec<u32>,
    tails: Vec<u32>,
}

/// What is known of the rules of lower levels.
#[derive(Clone, Copy)]
struct LowerEnds<'a> {
    terminals: u32,
    width: usize,
    marks: &'a [HitMark],
    heads: &'a [u32],
    tails: &'a [u32],
}

impl<'a> LowerEnds<'a> {
    /// The words of one side of a symbol, of which `words` has those of rules.
    #[inline(always)]
    fn end(self, words: &'a [u32], symbol: &'a u32) -> &'a [u32] {
        let Some(rule) = symbol.checked_sub(self.terminals) else {
            return array::from_ref(symbol);
        };
        let length = self.marks[*symbol as usize].length() as usize;
        &words[rule as usize * self.width..][..length]
    }
}

impl<'a> SymbolEnds<'a> {
    /// Finds the ends of all rules, level by level.
    fn new(
        view: GrammarView<'a>,
        is_hit: &[bool],
        reach: (usize, usize),
        stop: &AtomicBool,
    ) -> Result<SymbolEnds<'a>, Stopped> {
        let width = reach.0.max(reach.1).max(1);
        let terminals = view.terminal_count as usize;
        let mut marks = on_huge_pages(Vec::with_capacity(view.symbol_count()));
        marks.extend(
            is_hit[..terminals]
                .iter()
                .map(|&hit| HitMark::new(&[hit], &[hit])),
        );
        marks.resize(view.symbol_count(), HitMark::default());
        let mut heads = on_huge_pages(vec![0; view.rules() * width]);
        let mut tails = on_huge_pages(vec![0; view.rules() * width]);
        for level in 0..view.levels() {
            check(stop)?;
            let rules = view.level_rules(level);
            let (lower_marks, marks) = marks.split_at_mut(terminals + rules.start);
            let (lower_heads, heads) = heads.split_at_mut(rules.start * width);
            let (lower_tails, tails) = tails.split_at_mut(rules.start * width);
            let lower = LowerEnds {
                terminals: view.terminal_count,
                width,
                marks: lower_marks,
                heads: lower_heads,
                tails: lower_tails,
            };
            let ends = (heads.par_chunks_mut(width)).zip(tails.par_chunks_mut(width));
            let of_level = marks[..rules.len()].par_iter_mut().zip(ends);
            // Rules are u32.
            (of_level.zip(rules.start as u32..rules.end as u32))
                .with_min_len(SHARE_RULES)
                .for_each(|((mark, (head, tail)), rule)| {
                    let body = view.body(rule);
                    let words = (body.iter()).flat_map(|symbol| lower.end(lower.heads, symbol));
                    let length = fill(words, head);
                    let words =
                        (body.iter().rev()).flat_map(|symbol| lower.end(lower.tails, symbol));
                    fill(words, tail);
                    let hits = |words: &[u32]| {
                        let mut hits = [false; NEAR_WORDS_MAX];
                        for (hit, &word) in hits.iter_mut().zip(words) {
                            *hit = is_hit[word as usize];
                        }
                        hits
                    };
                    let (heads, tails) = (hits(&head[..length]), hits(&tail[..length]));
                    *mark = HitMark::new(&heads[..length], &tails[..length]);
                });
        }
        Ok(SymbolEnds {
            view,
            reach,
            width,
            marks,
            heads,
            tails,
        })
    }

    fn all(&self) -> LowerEnds<'_> {
        LowerEnds {
            terminals: self.view.terminal_count,
            width: self.width,
            marks: &self.marks,
            heads: &self.heads,
            tails: &self.tails,
        }
    }

    /// Adds the words near hits of other symbols of a sequence, where the later one of both lies in `range`.
    fn add(&self, sequence: &[u32], range: Range<usize>, weight: u64, counts: &mut [u64]) {
        let ends = self.all();
        let (left, right) = self.reach;
        // The hits before a symbol, nearest first.
        let (mut before, mut known) = (0, 0);
        for &symbol in sequence[..range.start].iter().rev() {
            if known >= SIDE_BITS {
                break;
            }
            let mark = self.marks[symbol as usize];
            before |= mark.tail() << known;
            known += mark.length();
        }
        before &= low_bits(right);
        let mut next_marks = [HitMark::default(); AHEAD_SYMBOLS];
        let mut at = range.start;
        for symbols in sequence[range].chunks(AHEAD_SYMBOLS) {
            for (mark, &symbol) in next_marks.iter_mut().zip(symbols) {
                *mark = self.marks[symbol as usize];
            }
            for (symbol, mark) in symbols.iter().zip(next_marks) {
                if before != 0 {
                    for (distance, &word) in ends.end(ends.heads, symbol).iter().enumerate() {
                        let hits = before & low_bits(right.saturating_sub(distance));
                        if hits == 0 {
                            break;
                        }
                        counts[word as usize] += weight * u64::from(hits.count_ones());
                    }
                }
                let head = mark.head() & low_bits(left);
                if head != 0 {
                    let words = sequence[..at].iter().rev();
                    let words = words.flat_map(|symbol| ends.end(ends.tails, symbol));
                    for (distance, &word) in words.enumerate() {
                        let hits = head & low_bits(left.saturating_sub(distance));
                        if hits == 0 {
                            break;
                        }
                        counts[word as usize] += weight * u64::from(hits.count_ones());
                    }
                }
                before = (before << mark.length() | mark.tail()) & low_bits(right);
                at += 1;
            }
        }
    }
}

/// Fills `target` with the first of some words; how many there are.
fn fill<'a>(words: impl Iterator<Item = &'a u32>, target: &mut [u32]) -> usize {
    let mut length = 0;
    for (word, &found) in target.iter_mut().zip(words) {
        *word = found;
        length += 1;
    }
    length
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ChosenFiles;
    use crate::grammar::test_grammars::{self, TestGrammar, in_pools};

    static GO: AtomicBool = AtomicBool::new(false);

    fn naive(
        files: &[Vec<u32>],
        is_hit: &[bool],
        reach: (usize, usize),
        word_count: usize,
    ) -> Vec<u64> {
        let mut counts = vec![0; word_count];
        for words in files {
            for (hit, _) in words
                .iter()
                .enumerate()
                .filter(|(_, word)| is_hit[**word as usize])
            {
                let behind = words.len().min(hit + 1 + reach.1);
                let near = words[hit.saturating_sub(reach.0)..hit].iter();
                for &word in near.chain(&words[hit + 1..behind]) {
                    counts[word as usize] += 1;
                }
            }
        }
        counts
    }

    fn check_grammar(grammar: &TestGrammar, reaches: &[(usize, usize)]) {
        let words = grammar.word_grammar();
        let view = words.view();
        let files = grammar.all_file_words();
        let count = view.terminal_count as usize;
        for step in 1..=3 {
            let is_hit: Vec<bool> = (0..count).map(|word| word % step == 0).collect();
            for &reach in reaches {
                let found = near_word_counts(view, words.weights(), &is_hit, reach, &GO);
                assert_eq!(
                    found.expect("not stopped"),
                    naive(&files, &is_hit, reach, count),
                    "{grammar:?} {step} {reach:?}"
                );
                let some: Vec<u32> = (0..view.files() as u32).step_by(2).collect();
                let chosen = ChosenFiles::new(view, &some);
                let (view, weights) = (chosen.view(view), chosen.weights());
                let found = near_word_counts(view, weights, &is_hit, reach, &GO);
                let some: Vec<Vec<u32>> = files.iter().step_by(2).cloned().collect();
                assert_eq!(
                    found.expect("not stopped"),
                    naive(&some, &is_hit, reach, count)
                );
            }
        }
    }

    #[test]
    fn words_near_hits_of_small_grammars_are_those_of_the_expansion() {
        let reaches = [(0, 1), (1, 0), (2, 1), (3, 3)];
        test_grammars::all_small()
            .step_by(3)
            .for_each(|grammar| check_grammar(&grammar, &reaches));
    }

    #[test]
    fn words_near_hits_of_random_and_extreme_grammars_are_those_of_the_expansion() {
        let extreme = [
            test_grammars::deep_chain(200),
            test_grammars::long_body(80_000),
            test_grammars::runs(9),
            test_grammars::many_files(40),
            test_grammars::fibonacci(15),
            test_grammars::thue_morse(9),
        ];
        let reaches = [(0, 0), (5, 5), (1, 12), (12, 3), (12, 12)];
        for grammar in test_grammars::random_many(30).chain(extreme) {
            check_grammar(&grammar, &reaches);
        }
    }

    #[test]
    fn counts_are_the_same_for_1_2_and_16_threads_and_a_set_flag_stops() {
        let grammar = test_grammars::repeated_text(40);
        let words = grammar.word_grammar();
        let is_hit = vec![true; words.view().terminal_count as usize];
        let count = || near_word_counts(words.view(), words.weights(), &is_hit, (5, 5), &GO);
        assert!(in_pools(count).is_ok());
        let stop = AtomicBool::new(true);
        let stopped = near_word_counts(words.view(), words.weights(), &is_hit, (5, 5), &stop);
        assert_eq!(stopped, Err(Stopped));
    }
}
