//! The grammar of a corpus: all files behind each other, each closed by a splitting symbol of its own.
//!
//! Invariants: rule 0 is the root and the only one with splitting symbols, so no rule crosses the end of a file; a rule
//! stands before the rules of its body. Symbols are terminals, then splitting symbols, then rules.

use crate::rows::Rows;
use crate::sequitur::{RULE, Sequitur};

/// A corpus compressed by Sequitur.
pub struct Grammar {
    terminal_count: u32,
    files: u32,
    bodies: Rows,
}

/// What a symbol is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Symbol {
    Terminal(u32),
    /// The end of a file.
    Splitter,
    Rule(usize),
}

impl Grammar {
    /// Compresses the `tokens` of files, which are `file_offsets[i]..file_offsets[i + 1]` and below `terminal_count`.
    ///
    /// Cost: linear time on average; about 12 bytes for each symbol that the grammar has at a time and 16 to 32 for each pair.
    ///
    /// # Panics
    /// If terminals and files together are more than 2^30.
    pub fn new(tokens: &[u32], file_offsets: &[u32], terminal_count: u32) -> Grammar {
        // Files are numbered by u32.
        let files = (file_offsets.len() - 1) as u32;
        assert!(terminal_count < 1 << 29 && files < 1 << 29);
        let mut sequitur = Sequitur::new();
        for (file, range) in (0..).zip(file_offsets.windows(2)) {
            for &token in &tokens[range[0] as usize..range[1] as usize] {
                sequitur.push(token);
            }
            sequitur.push(terminal_count + file);
        }
        Grammar {
            terminal_count,
            files,
            bodies: users_first(&sequitur.finish(), terminal_count + files),
        }
    }

    /// How many files there are.
    pub fn files(&self) -> usize {
        self.files as usize
    }

    /// How many different tokens there may be.
    pub fn terminal_count(&self) -> u32 {
        self.terminal_count
    }

    /// How many rules there are, the root with them.
    pub fn rules(&self) -> usize {
        self.bodies.len()
    }

    /// How many symbols all bodies have.
    pub fn symbols(&self) -> usize {
        (0..self.rules()).map(|rule| self.body(rule).len()).sum()
    }

    /// The symbols of a rule's body, as they are stored.
    pub fn body(&self, rule: usize) -> &[u32] {
        self.bodies.row(rule)
    }

    pub(crate) fn symbol(&self, symbol: u32) -> Symbol {
        match symbol.checked_sub(self.terminal_count) {
            None => Symbol::Terminal(symbol),
            Some(other) if other < self.files => Symbol::Splitter,
            Some(other) => Symbol::Rule((other - self.files) as usize),
        }
    }

    /// The rule's body as what its symbols are.
    pub(crate) fn symbols_of(&self, rule: usize) -> impl DoubleEndedIterator<Item = Symbol> {
        self.body(rule).iter().map(|&symbol| self.symbol(symbol))
    }
}

/// Numbers rules so that each stands before those of its body, and rule r becomes symbol `first_rule` + r.
fn users_first(bodies: &[Vec<u32>], first_rule: u32) -> Rows {
    let rules = || bodies.iter().flatten().filter(|&&symbol| symbol >= RULE);
    let mut waiting = vec![0u32; bodies.len()];
    for &rule in rules() {
        waiting[(rule - RULE) as usize] += 1;
    }
    let mut order = vec![0];
    let mut numbers = vec![0; bodies.len()];
    let mut next = 0;
    while next < order.len() {
        for &symbol in bodies[order[next]].iter().filter(|&&symbol| symbol >= RULE) {
            let rule = (symbol - RULE) as usize;
            waiting[rule] -= 1;
            if waiting[rule] == 0 {
                // Rules are numbered by u32.
                numbers[rule] = order.len() as u32;
                order.push(rule);
            }
        }
        next += 1;
    }
    let mut rows = Rows::new();
    for rule in order {
        for &symbol in &bodies[rule] {
            rows.push(match symbol.checked_sub(RULE) {
                Some(rule) => first_rule + numbers[rule as usize],
                None => symbol,
            });
        }
        rows.end_row();
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_texts::files;

    #[test]
    fn rules_stand_before_those_of_their_bodies() {
        for (tokens, file_offsets) in files() {
            let grammar = Grammar::new(&tokens, &file_offsets, 20);
            for rule in 0..grammar.rules() {
                for symbol in grammar.symbols_of(rule) {
                    match symbol {
                        Symbol::Rule(used) => assert!(used > rule),
                        Symbol::Splitter => assert_eq!(rule, 0),
                        Symbol::Terminal(terminal) => assert!(terminal < 20),
                    }
                }
            }
            let splitters = grammar
                .symbols_of(0)
                .filter(|&symbol| symbol == Symbol::Splitter);
            assert_eq!(splitters.count(), grammar.files());
        }
    }
}
