//! Count and positions of one n-gram by one pass over a grammar, without lists of where symbols are used.
//!
//! In   a grammar over words without empty bodies; its [`RuleEnds`]; the words of the n-gram.
//!      For counts the weights of all symbols, for positions the lengths in words
//! Out  as [`crate::ngram_count`] and [`crate::ngram_positions`]
//! Work count: O(body and root symbols), parallel; positions: the same, and the bodies above and around each occurrence
//!
//! An occurrence lies in one lowest rule, or in a root, where it begins in one symbol and ends in a later one. So each is
//! found once: where symbols end with its beginning and what follows them goes on with the rest. A set of the symbols whose last
//! word is one of the n-gram rules out most symbols by one bit.

use std::ops::Range;
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use crate::lookup::phrases::{Infix, PhraseSearch, by_file};
use crate::numbers::bits::Bits;
use crate::stop::{Stopped, check};
use crate::{GrammarView, Lengths, RuleEnds};

/// Rules, or symbols of roots, of one task.
const TASK_ITEMS: usize = 1 << 16;

/// A search for an n-gram of at least two words.
struct PhrasePass<'a> {
    view: GrammarView<'a>,
    ends: &'a RuleEnds,
    words: &'a [u32],
    /// The symbols that end with a word which another one follows in the n-gram.
    begins: Bits,
}

/// Where an occurrence begins in a rule.
struct Crossing {
    rule: u32,
    /// Words of the rule before it.
    offset: u64,
}

/// How often the n-gram `words` occurs in all files; `weights` are those of all symbols.
///
/// # Errors
///
/// [`Stopped`].
pub fn ngram_count_by_pass(
    view: GrammarView<'_>,
    ends: &RuleEnds,
    weights: &[u32],
    words: &[u32],
    stop: &AtomicBool,
) -> Result<u64, Stopped> {
    let Some(pass) = PhrasePass::new(view, ends, words) else {
        return Ok(match *words {
            [word] if word < view.terminal_count => u64::from(weights[word as usize]),
            _ => 0,
        });
    };
    let in_bodies = in_tasks(view.rules(), stop, |rules| {
        let mut count = 0;
        for rule in rules {
            let weight = u64::from(weights[view.terminal_count as usize + rule]);
            let body = view.body(rule as u32);
            pass.each_in(body, 0..body.len(), |_, _| count += weight);
        }
        Ok(count)
    })?;
    let in_roots = in_tasks(view.root.len(), stop, |positions| {
        let mut count = 0;
        pass.each_in_roots(positions, |_, _| count += 1);
        Ok(count)
    })?;
    Ok(in_bodies.iter().chain(&in_roots).sum())
}

/// Where the n-gram `words` occurs: file and number of its first word in the file, ascending. `lengths` are in words.
///
/// # Errors
///
/// [`Stopped`].
pub fn ngram_positions_by_pass(
    view: GrammarView<'_>,
    ends: &RuleEnds,
    lengths: &Lengths,
    words: &[u32],
    stop: &AtomicBool,
) -> Result<Vec<(u32, u64)>, Stopped> {
    let pass = PhrasePass::new(view, ends, words);
    let length = |symbol: u32| lengths.symbols[symbol as usize];
    let crossings = match &pass {
        None => Vec::new(),
        Some(pass) => {
            let of_tasks = in_tasks(view.rules(), stop, |rules| {
                let mut found = Vec::new();
                // Rules are numbered by u32.
                for rule in rules.start as u32..rules.end as u32 {
                    let body = view.body(rule);
                    pass.each_in(body, 0..body.len(), |index, have| {
                        let end = lengths.body_start(view, rule, index) + length(body[index]);
                        let offset = end - have as u64;
                        found.push(Crossing { rule, offset });
                    });
                }
                Ok(found)
            })?;
            of_tasks.into_iter().flatten().collect()
        }
    };
    let inside = Inside::new(view, words, crossings);
    // Where an occurrence begins says which task finds it, so they ascend over all tasks.
    let found = in_tasks(view.root.len(), stop, |positions| {
        let mut starts = Vec::new();
        let mut at = lengths.root_start(view, positions.start);
        let mut holders = Vec::new();
        for &symbol in &view.root[positions.clone()] {
            if inside.holds(symbol) {
                holders.push((symbol, at));
                inside.descend(lengths, &mut holders, stop, |start| starts.push(start))?;
            }
            at = at.saturating_add(length(symbol));
        }
        if let Some(pass) = &pass {
            pass.each_in_roots(positions, |position, have| {
                let end = lengths.root_start(view, position) + length(view.root[position]);
                starts.push(end - have as u64);
            });
        }
        starts.sort_unstable();
        Ok(starts)
    })?;
    Ok(by_file(lengths, found.concat()))
}

/// Cuts `items` numbers from 0 on into ranges, runs `task` on each range in parallel, and returns the results in order.
fn in_tasks<A: Send>(
    items: usize,
    stop: &AtomicBool,
    task: impl Fn(Range<usize>) -> Result<A, Stopped> + Sync,
) -> Result<Vec<A>, Stopped> {
    let starts = (0..items).into_par_iter().step_by(TASK_ITEMS);
    let done = starts.map(|start| {
        check(stop)?;
        task(start..items.min(start + TASK_ITEMS))
    });
    done.collect()
}

impl<'a> PhrasePass<'a> {
    /// None for fewer than two words, and for words that the grammar has not.
    fn new(view: GrammarView<'a>, ends: &'a RuleEnds, words: &'a [u32]) -> Option<PhrasePass<'a>> {
        let (_, beginnings) = words.split_last()?;
        if beginnings.is_empty() || words.iter().any(|&word| word >= view.terminal_count) {
            return None;
        }
        let of_rules = ends.words.iter().map(|&(_, last)| last);
        let lasts: Vec<u32> = (0..view.terminal_count).chain(of_rules).collect();
        Some(PhrasePass {
            begins: Bits::of(&lasts, |last| beginnings.contains(&last)),
            view,
            ends,
            words,
        })
    }

    /// Calls `visit` for each occurrence that begins in a symbol at one of the `indices` of a sequence and ends in a later symbol.
    /// `visit` gets that index and how many words of the n-gram the symbol ends with.
    #[inline]
    fn each_in(
        &self,
        sequence: &[u32],
        indices: Range<usize>,
        mut visit: impl FnMut(usize, usize),
    ) {
        for index in indices {
            if self.begins.get(sequence[index]) == 1 {
                self.each_at(sequence, index, &mut visit);
            }
        }
    }

    /// Calls `visit` as `each_in` does, for one index.
    fn each_at(&self, sequence: &[u32], index: usize, visit: &mut impl FnMut(usize, usize)) {
        let mut search = PhraseSearch::new(self.view, self.ends, self.words);
        for have in 1..self.words.len() {
            let part = Infix { from: 0, to: have };
            if search.ends_with(sequence[index], have)
                && (search.extend(sequence, index, part))
                    .is_some_and(|whole| whole.to == self.words.len())
            {
                visit(index, have);
            }
        }
    }

    /// Calls `visit` for each occurrence that begins in a symbol at one of the `positions` of all roots and ends in a later symbol
    /// of the same root. `visit` gets that position and how many words of the n-gram the symbol ends with.
    fn each_in_roots(&self, positions: Range<usize>, mut visit: impl FnMut(usize, usize)) {
        let offsets = self.view.root_offsets;
        let first = offsets.partition_point(|&offset| offset as usize <= positions.start);
        for file in first.saturating_sub(1)..self.view.files() {
            let range = offsets[file] as usize..offsets[file + 1] as usize;
            if range.start >= positions.end {
                break;
            }
            let from = range.start.max(positions.start);
            let to = range.end.min(positions.end).max(from);
            let indices = from - range.start..to - range.start;
            self.each_in(&self.view.root[range.clone()], indices, |index, have| {
                visit(range.start + index, have);
            });
        }
    }
}

/// Which symbols an n-gram lies in, and where in them.
struct Inside<'a> {
    view: GrammarView<'a>,
    /// Where rules hold it themselves; rules ascend.
    crossings: Vec<Crossing>,
    /// For each symbol whether its expansion has it.
    holds: Vec<bool>,
}

impl<'a> Inside<'a> {
    fn new(view: GrammarView<'a>, words: &[u32], crossings: Vec<Crossing>) -> Inside<'a> {
        let mut holds = vec![false; view.terminal_count as usize + view.rules()];
        if let &[word] = words
            && word < view.terminal_count
        {
            holds[word as usize] = true;
        }
        for crossing in &crossings {
            holds[(view.terminal_count + crossing.rule) as usize] = true;
        }
        // What a body has is numbered before its rule.
        for rule in 0..view.rules() as u32 {
            let symbol = (view.terminal_count + rule) as usize;
            if !holds[symbol] {
                let mut body = view.body(rule).iter();
                holds[symbol] = body.any(|&inner| holds[inner as usize]);
            }
        }
        Inside {
            view,
            crossings,
            holds,
        }
    }

    fn holds(&self, symbol: u32) -> bool {
        self.holds[symbol as usize]
    }

    /// Calls `visit` for each occurrence in symbols that hold it, each of which stands somewhere: with where that begins.
    fn descend(
        &self,
        lengths: &Lengths,
        holders: &mut Vec<(u32, u64)>,
        stop: &AtomicBool,
        mut visit: impl FnMut(u64),
    ) -> Result<(), Stopped> {
        let mut steps = 0;
        while let Some((symbol, at)) = holders.pop() {
            let Some(rule) = self.view.rule(symbol) else {
                visit(at);
                continue;
            };
            let own = (self.crossings).partition_point(|crossing| crossing.rule < rule);
            let own = self.crossings[own..].iter();
            for crossing in own.take_while(|crossing| crossing.rule == rule) {
                visit(at + crossing.offset);
            }
            let mut inner_at = at;
            for &inner in self.view.body(rule) {
                if self.holds(inner) {
                    holders.push((inner, inner_at));
                }
                inner_at = inner_at.saturating_add(lengths.symbols[inner as usize]);
            }
            steps += 1;
            if steps % TASK_ITEMS == 0 {
                check(stop)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::test_grammars::{self, Numbers, TestGrammar};
    use crate::{WordUses, ngram_count, ngram_positions};

    static GO: AtomicBool = AtomicBool::new(false);

    fn check_grammar(grammar: &TestGrammar, lengths_of: &[usize]) {
        let words = grammar.word_grammar();
        let view = words.view();
        let (uses, ends) = (WordUses::new(view), RuleEnds::new(view));
        let lengths = Lengths::new(view, |_| 1);
        let files = grammar.all_file_words();
        let mut numbers = Numbers::new(11);
        for &n in lengths_of {
            let step = |file: &Vec<u32>| (file.len() / 12).max(1);
            let windows = files
                .iter()
                .flat_map(|file| file.windows(n).step_by(step(file)).map(<[u32]>::to_vec));
            let mut ngrams: Vec<Vec<u32>> = windows.collect();
            for _ in 0..3 {
                let limit = u64::from(view.terminal_count) + 1;
                ngrams.push((0..n).map(|_| numbers.below(limit) as u32).collect());
            }
            for ngram in ngrams {
                assert_eq!(
                    ngram_count_by_pass(view, &ends, words.weights(), &ngram, &GO),
                    ngram_count(view, &uses, &ends, words.weights(), &ngram, &GO),
                    "{ngram:?} in {grammar:?}"
                );
                assert_eq!(
                    ngram_positions_by_pass(view, &ends, &lengths, &ngram, &GO),
                    ngram_positions(view, &uses, &ends, &lengths, &ngram, &GO),
                    "{ngram:?} in {grammar:?}"
                );
            }
        }
    }

    #[test]
    fn a_pass_finds_what_users_of_symbols_lead_to() {
        for grammar in test_grammars::all_small().step_by(3) {
            check_grammar(&grammar, &[1, 2, 3, 4]);
        }
        for grammar in test_grammars::random_many(60) {
            check_grammar(&grammar, &[1, 2, 3, 5, 8, 20]);
        }
        for grammar in [
            test_grammars::deep_chain(300),
            test_grammars::long_body(2_000),
            test_grammars::runs(10),
            test_grammars::many_files(40),
            test_grammars::fibonacci(15),
            test_grammars::thue_morse(9),
        ] {
            check_grammar(&grammar, &[1, 2, 3, 5, 8, 30]);
        }
    }

    #[test]
    fn an_ngram_of_no_words_is_nowhere() {
        let words = test_grammars::runs(4).word_grammar();
        let (view, lengths) = (words.view(), Lengths::new(words.view(), |_| 1));
        let ends = RuleEnds::new(view);
        let count = ngram_count_by_pass(view, &ends, words.weights(), &[], &GO);
        assert_eq!(count, Ok(0));
        let positions = ngram_positions_by_pass(view, &ends, &lengths, &[], &GO);
        assert_eq!(positions, Ok(Vec::new()));
    }

    #[test]
    fn a_pass_ends_when_it_is_stopped() {
        let words = test_grammars::runs(10).word_grammar();
        let (view, stop) = (words.view(), AtomicBool::new(true));
        let ends = RuleEnds::new(view);
        let count = ngram_count_by_pass(view, &ends, words.weights(), &[0, 0], &stop);
        assert_eq!(count, Err(Stopped));
    }
}
