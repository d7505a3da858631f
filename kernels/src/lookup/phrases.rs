//! Count and positions of one n-gram.
//!
//! In   a grammar over words without empty bodies; its [`WordUses`] and [`RuleEnds`]; the words of the n-gram.
//!      For counts the weights of all symbols, for positions the lengths in words
//! Out  the count, or the positions
//! Work count: O(places of the rarest word, and of rules that begin or end in a part of the n-gram around it);
//!      positions: as many steps more as there are rules above the occurrences
//!
//! An occurrence lies in one lowest rule, or in a root, where it crosses from a
//! symbol to the next. Upward from the rarest word: at each place as much of the
//! n-gram as there is must stand beside it. If all of it does, an occurrence is
//! found, as often as its rule occurs. If the body ends before it does, the rule
//! holds a part of the n-gram that reaches its border, and is a place to go on
//! from. A rule holds a given part in one way only, so nothing is met twice.

use std::sync::atomic::AtomicBool;

use crate::stop::{Stopped, check};
use crate::{GrammarView, Lengths, WordUses};

/// Steps between two checks of the stop flag.
const STOP_STEPS: usize = 1 << 14;

/// The first and the last word of every rule.
#[derive(Debug, PartialEq, Eq)]
pub struct RuleEnds {
    /// `[rules]`.
    pub words: Vec<(u32, u32)>,
}

impl RuleEnds {
    /// One pass over the rules. No body may be empty.
    pub fn new(view: GrammarView<'_>) -> RuleEnds {
        let mut words: Vec<(u32, u32)> = Vec::with_capacity(view.rules());
        for rule in 0..view.rules() as u32 {
            let body = view.body(rule);
            let (first, last) = (body[0], body[body.len() - 1]);
            let first = view
                .rule(first)
                .map_or(first, |rule| words[rule as usize].0);
            let last = view.rule(last).map_or(last, |rule| words[rule as usize].1);
            words.push((first, last));
        }
        RuleEnds { words }
    }

    /// Size of the array.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.words[..])
    }
}

/// How often the n-gram `words` occurs in all files; `weights` are those of all symbols.
pub fn ngram_count(
    view: GrammarView<'_>,
    uses: &WordUses,
    ends: &RuleEnds,
    weights: &[u32],
    words: &[u32],
    stop: &AtomicBool,
) -> Result<u64, Stopped> {
    let mut count = 0;
    find(view, uses, ends, words, stop, |found| {
        count += match found {
            Holder::InSymbol { symbol, .. } => u64::from(weights[symbol as usize]),
            Holder::InRoot { .. } => 1,
        };
    })?;
    Ok(count)
}

/// Where the n-gram `words` occurs: file and number of its first word in the
/// file, ascending. `lengths` are in words.
pub fn ngram_positions(
    view: GrammarView<'_>,
    uses: &WordUses,
    ends: &RuleEnds,
    lengths: &Lengths,
    words: &[u32],
    stop: &AtomicBool,
) -> Result<Vec<(u32, u64)>, Stopped> {
    // Positions in the segment.
    let mut starts = Vec::new();
    // Symbols and where in them the n-gram begins.
    let mut waiting = Vec::new();
    let length = |symbol: u32| lengths.symbols[symbol as usize];
    // From where a symbol begins to where the n-gram does.
    let shift = |at: u64, symbol: u32, part: Infix| match part.from {
        0 => at + length(symbol) - part.to as u64,
        from => at - from as u64,
    };
    find(view, uses, ends, words, stop, |found| match found {
        Holder::InSymbol {
            symbol,
            place: None,
        } => waiting.push((symbol, 0)),
        Holder::InSymbol {
            symbol,
            place: Some((index, part)),
        } => {
            let rule = symbol - view.terminal_count;
            let at = lengths.body_start(view, rule, index);
            waiting.push((symbol, shift(at, view.body(rule)[index], part)));
        }
        Holder::InRoot { position, part } => {
            let at = lengths.root_start(view, position);
            starts.push(shift(at, view.root[position], part));
        }
    })?;
    let mut steps = 0;
    while let Some((symbol, inside)) = waiting.pop() {
        let places = uses.parents.places(symbol);
        let positions = uses.parents.positions(symbol);
        steps += 1 + places.len() + positions.len();
        if steps > STOP_STEPS {
            check(stop)?;
            steps = 0;
        }
        for place in places {
            let rule = uses.parents.rules[place];
            let index = uses.parents.indexes[place] as usize;
            let at = lengths.body_start(view, rule, index);
            waiting.push((view.terminal_count + rule, at + inside));
        }
        for &position in positions {
            starts.push(lengths.root_start(view, position as usize) + inside);
        }
    }
    starts.sort_unstable();
    Ok(by_file(lengths, starts))
}

/// File and number of the word in the file, of words of the segment that ascend.
pub(crate) fn by_file(lengths: &Lengths, starts: Vec<u64>) -> Vec<(u32, u64)> {
    let mut file = 0;
    let position = |start| {
        while lengths.file_starts[file as usize + 1] <= start {
            file += 1;
        }
        (file, start - lengths.file_starts[file as usize])
    };
    starts.into_iter().map(position).collect()
}

/// Words `from..to` of the n-gram. What holds a part begins with it unless `from`
/// is 0, and ends with it unless `to` is n.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Infix {
    pub(crate) from: usize,
    pub(crate) to: usize,
}

/// A symbol or root that holds the n-gram.
enum Holder {
    /// `symbol` is a rule, which holds it around `index` of its body, whose
    /// symbol holds a part; or the only word of it.
    InSymbol {
        symbol: u32,
        place: Option<(usize, Infix)>,
    },
    /// A root holds it around `position`, whose symbol holds a part.
    InRoot { position: usize, part: Infix },
}

/// Calls `visit` for every rule and root where the n-gram crosses symbols.
fn find(
    view: GrammarView<'_>,
    uses: &WordUses,
    ends: &RuleEnds,
    words: &[u32],
    stop: &AtomicBool,
    mut visit: impl FnMut(Holder),
) -> Result<(), Stopped> {
    if words.iter().any(|&word| word >= view.terminal_count) {
        return Ok(());
    }
    let places = |word: u32| uses.rules(word).len() + uses.parents.positions(word).len();
    let rarest = (0..words.len()).min_by_key(|&index| places(words[index]));
    let Some(rarest) = rarest else {
        return Ok(());
    };
    if let &[word] = words {
        visit(Holder::InSymbol {
            symbol: word,
            place: None,
        });
        return Ok(());
    }
    let mut search = PhraseSearch::new(view, ends, words);
    let complete = |part: Infix| part.from == 0 && part.to == words.len();
    let first = Infix {
        from: rarest,
        to: rarest + 1,
    };
    let mut waiting = vec![(words[rarest], first)];
    let mut steps = 0;
    while let Some((symbol, part)) = waiting.pop() {
        for place in uses.parents.places(symbol) {
            steps += 1;
            if steps % STOP_STEPS == 0 {
                check(stop)?;
            }
            let rule = uses.parents.rules[place];
            let index = uses.parents.indexes[place] as usize;
            let holder = view.terminal_count + rule;
            match search.extend(view.body(rule), index, part) {
                Some(whole) if complete(whole) => visit(Holder::InSymbol {
                    symbol: holder,
                    place: Some((index, part)),
                }),
                Some(part) => waiting.push((holder, part)),
                None => {}
            }
        }
        let positions = uses.parents.positions(symbol);
        for (&position, file) in positions.iter().zip(uses.files(symbol)) {
            steps += 1;
            if steps % STOP_STEPS == 0 {
                check(stop)?;
            }
            let (range, position) = (view.root_range(file), position as usize);
            let index = position - range.start;
            if search
                .extend(&view.root[range], index, part)
                .is_some_and(complete)
            {
                visit(Holder::InRoot { position, part });
            }
        }
    }
    Ok(())
}

/// Compares what stands beside each other with an n-gram.
pub(crate) struct PhraseSearch<'a> {
    view: GrammarView<'a>,
    ends: &'a RuleEnds,
    words: &'a [u32],
    /// Bodies entered, what is left of each.
    stack: Vec<&'a [u32]>,
}

impl<'a> PhraseSearch<'a> {
    pub(crate) fn new(
        view: GrammarView<'a>,
        ends: &'a RuleEnds,
        words: &'a [u32],
    ) -> PhraseSearch<'a> {
        PhraseSearch {
            view,
            ends,
            words,
            stack: Vec::new(),
        }
    }

    /// Whether `symbol` ends with the first `have` words of the n-gram, of which there is one at least.
    pub(crate) fn ends_with(&mut self, symbol: u32, have: usize) -> bool {
        self.matched::<false>(symbol, &self.words[..have]) == Some(have)
    }

    /// The part of the n-gram around the part that `sequence[index]` holds;
    /// `None` if other words stand there.
    pub(crate) fn extend(&mut self, sequence: &[u32], index: usize, part: Infix) -> Option<Infix> {
        let Infix { mut from, mut to } = part;
        for &symbol in sequence[..index].iter().rev() {
            if from == 0 {
                break;
            }
            from -= self.matched::<false>(symbol, &self.words[..from])?;
        }
        for &symbol in &sequence[index + 1..] {
            if to == self.words.len() {
                break;
            }
            to += self.matched::<true>(symbol, &self.words[to..])?;
        }
        Some(Infix { from, to })
    }

    /// How many of `words`, not none, stand at the border of `symbol`: all, or
    /// the whole symbol if it is shorter. Forward from the first, or backward from the last.
    /// `None` if others do.
    fn matched<const FORWARD: bool>(&mut self, symbol: u32, words: &[u32]) -> Option<usize> {
        self.stack.clear();
        let mut matched = 0;
        let mut symbol = symbol;
        loop {
            let expected = if FORWARD {
                words[matched]
            } else {
                words[words.len() - 1 - matched]
            };
            let rule = self.view.rule(symbol);
            let border = match rule.map(|rule| self.ends.words[rule as usize]) {
                None => symbol,
                Some((first, last)) => {
                    if FORWARD {
                        first
                    } else {
                        last
                    }
                }
            };
            if border != expected {
                return None;
            }
            match rule {
                Some(rule) => self.stack.push(self.view.body(rule)),
                None => matched += 1,
            }
            if matched == words.len() {
                return Some(matched);
            }
            symbol = loop {
                let Some(rest) = self.stack.last_mut() else {
                    return Some(matched);
                };
                let next = if FORWARD {
                    rest.split_first()
                } else {
                    rest.split_last()
                };
                match next {
                    Some((&symbol, behind)) => {
                        *rest = behind;
                        break symbol;
                    }
                    None => self.stack.pop(),
                };
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::test_grammars::{self, Numbers, TestGrammar};

    static GO: AtomicBool = AtomicBool::new(false);

    fn check_grammar(grammar: &TestGrammar, lengths_of: &[usize], random: u64) {
        let words = grammar.word_grammar();
        let view = words.view();
        let uses = WordUses::new(view);
        let ends = RuleEnds::new(view);
        let lengths = Lengths::new(view, |_| 1);
        let files = grammar.all_file_words();
        let mut numbers = Numbers::new(7);
        for &n in lengths_of {
            // What occurs, and what may not.
            let mut ngrams: Vec<Vec<u32>> = Vec::new();
            for file in &files {
                let step = (file.len() / 12).max(1);
                ngrams.extend(file.windows(n).step_by(step).map(<[u32]>::to_vec));
            }
            for _ in 0..random {
                let limit = u64::from(view.terminal_count) + 1;
                ngrams.push((0..n).map(|_| numbers.below(limit) as u32).collect());
            }
            for ngram in ngrams {
                let mut expected = Vec::new();
                for (file, words) in (0..).zip(&files) {
                    let windows = (0..).zip(words.windows(n));
                    let found = windows.filter(|(_, window)| *window == ngram);
                    expected.extend(found.map(|(position, _)| (file, position)));
                }
                let found = ngram_positions(view, &uses, &ends, &lengths, &ngram, &GO);
                assert_eq!(found, Ok(expected.clone()), "{ngram:?} in {grammar:?}");
                let count = ngram_count(view, &uses, &ends, words.weights(), &ngram, &GO);
                assert_eq!(count, Ok(expected.len() as u64));
            }
        }
    }

    #[test]
    fn phrases_of_small_grammars_are_where_they_are_in_the_expansion() {
        for grammar in test_grammars::all_small().step_by(2) {
            check_grammar(&grammar, &[1, 2, 3, 4], 2);
        }
    }

    #[test]
    fn phrases_of_random_and_extreme_grammars_are_where_they_are_in_the_expansion() {
        for grammar in test_grammars::random_many(60) {
            check_grammar(&grammar, &[1, 2, 3, 5, 8, 20], 4);
        }
        for grammar in [
            test_grammars::deep_chain(300),
            test_grammars::long_body(2_000),
            test_grammars::runs(10),
            test_grammars::many_files(40),
            test_grammars::fibonacci(15),
            test_grammars::thue_morse(9),
        ] {
            check_grammar(&grammar, &[1, 2, 3, 5, 8, 30], 4);
        }
    }

    #[test]
    fn an_ngram_without_words_is_nowhere() {
        check_grammar(&test_grammars::runs(4), &[], 0);
        let words = test_grammars::runs(4).word_grammar();
        let (view, uses) = (words.view(), WordUses::new(words.view()));
        let ends = RuleEnds::new(view);
        let count = ngram_count(view, &uses, &ends, words.weights(), &[], &GO);
        assert_eq!(count, Ok(0));
    }
}
