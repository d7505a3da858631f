//! Look-ups at any place of the text, without expanding it (ICDE 2020, TPDS 2023).
//!
//! Structures that are made once: for each symbol its offset in the expansion of its rule; for each rule its places in the
//! text; for each token the rules that hold it. A count or a search looks up the places of those rules that lie in the file; an
//! extract expands only what it gives. The text of all files together has less than 4 GiB.

use crate::grammar::{Grammar, Symbol};
use crate::rows::Rows;

/// The texts of terminals, and the terminals of words.
#[derive(Clone, Copy)]
pub struct Dictionary<'a> {
    /// `[terminals + 1]` into `bytes`.
    pub offsets: &'a [u64],
    /// The texts one after the other.
    pub bytes: &'a [u8],
    /// By number of the word.
    pub words: &'a [WordTerminals],
}

/// The terminals of a word.
#[derive(Clone, Copy)]
pub struct WordTerminals {
    /// The first of all.
    pub first: u32,
    /// The first that has a space before the word.
    pub spaced: u32,
    /// The end of all.
    pub end: u32,
}

/// A grammar ready for look-ups.
pub struct Lookups<'a> {
    grammar: &'a Grammar,
    dictionary: Dictionary<'a>,
    /// `[files + 1]`: where files begin in the text.
    file_starts: Vec<u32>,
    /// For each rule where its symbols begin in its expansion.
    starts: Rows,
    /// For each rule where it begins in the text, ascending; the root begins at 0.
    places: Rows,
    /// For each terminal the rules that hold it, and where in their expansion, one after the other; the root by itself.
    holders: Rows,
    /// For each terminal where it stands in the root, ascending.
    in_root: Rows,
}

impl<'a> Lookups<'a> {
    /// Makes the structures: 4 bytes for each symbol, 4 for each time that a rule occurs in the text, and 8 for each terminal
    /// in a body.
    ///
    /// # Panics
    /// If the text has 4 GiB or more.
    pub fn new(grammar: &'a Grammar, dictionary: Dictionary<'a>) -> Lookups<'a> {
        let lengths = lengths(grammar, dictionary);
        u32::try_from(lengths[0]).expect("the text has less than 4 GiB");
        let (mut starts, mut file_starts) = (Rows::new(), vec![0]);
        for rule in 0..grammar.rules() {
            let mut start = 0;
            for symbol in grammar.symbols_of(rule) {
                // Less than the length of the text.
                starts.push(start as u32);
                start += match symbol {
                    Symbol::Terminal(terminal) => dictionary.text(terminal).len() as u64,
                    Symbol::Rule(used) => lengths[used],
                    Symbol::Splitter => {
                        file_starts.push(start as u32);
                        0
                    }
                };
            }
            starts.end_row();
        }
        let (holders, in_root) = occurrences(grammar, &starts);
        Lookups {
            grammar,
            dictionary,
            file_starts,
            places: places(grammar, &starts),
            starts,
            holders,
            in_root,
        }
    }

    /// Where the text of a file begins and ends.
    fn range(&self, file: usize) -> (u32, u32) {
        (self.file_starts[file], self.file_starts[file + 1])
    }

    /// Bytes of a file.
    pub fn file_size(&self, file: usize) -> u64 {
        let (start, end) = self.range(file);
        u64::from(end - start)
    }

    /// How often a word occurs in a file.
    pub fn count(&self, file: usize, word: usize) -> u64 {
        let range = self.range(file);
        let word = self.dictionary.words[word];
        let mut count = 0;
        for terminal in word.first as usize..word.end as usize {
            count += within(self.in_root.row(terminal), range).len();
            for holder in self.holders.row(terminal).chunks_exact(2) {
                count += within(self.places.row(holder[0] as usize), range).len();
            }
        }
        count as u64
    }

    /// Where a word begins in a file, in bytes, ascending.
    pub fn search(&self, file: usize, word: usize) -> Vec<u64> {
        let range = self.range(file);
        let word = self.dictionary.words[word];
        let mut found = Vec::new();
        for terminal in word.first..word.end {
            // The word begins behind its space.
            let in_terminal = u32::from(terminal >= word.spaced);
            let terminal = terminal as usize;
            let mut take = |place: u32| found.push(u64::from(place + in_terminal - range.0));
            within(self.in_root.row(terminal), range)
                .iter()
                .for_each(|&place| take(place));
            for holder in self.holders.row(terminal).chunks_exact(2) {
                for &place in within(self.places.row(holder[0] as usize), range) {
                    take(place + holder[1]);
                }
            }
        }
        found.sort_unstable();
        found
    }

    /// `length` bytes of a file from `offset` on, or all up to its end.
    pub fn extract(&self, file: usize, offset: u64, length: u64) -> Vec<u8> {
        let mut text = Vec::new();
        self.extract_into(file, offset, length, &mut text);
        text
    }

    /// As `extract`, behind what `text` has.
    pub fn extract_into(&self, file: usize, offset: u64, length: u64, text: &mut Vec<u8>) {
        let size = self.file_size(file);
        let offset = offset.min(size);
        let length = length.min(size - offset) as usize;
        if length == 0 {
            return;
        }
        let end = text.len() + length;
        // At most the size of the text.
        let mut skipped = self.file_starts[file] + offset as u32;
        // Rules, each with the index of the symbol to go on with.
        let mut open = vec![(0, self.symbol_at(0, skipped))];
        skipped -= self.starts.row(0)[open[0].1];
        while let Some((rule, index)) = open.pop() {
            let body = self.grammar.body(rule);
            if index + 1 < body.len() {
                open.push((rule, index + 1));
            }
            match self.grammar.symbol(body[index]) {
                Symbol::Terminal(terminal) => {
                    let token = &self.dictionary.text(terminal)[skipped as usize..];
                    text.extend_from_slice(&token[..token.len().min(end - text.len())]);
                    skipped = 0;
                }
                Symbol::Rule(used) => {
                    let at = self.symbol_at(used, skipped);
                    skipped -= self.starts.row(used)[at];
                    open.push((used, at));
                }
                Symbol::Splitter => {}
            }
            if text.len() == end {
                break;
            }
        }
    }

    /// The last symbol of a body that begins at `offset` or before.
    fn symbol_at(&self, rule: usize, offset: u32) -> usize {
        match offset {
            0 => 0,
            _ => {
                self.starts
                    .row(rule)
                    .partition_point(|&start| start <= offset)
                    - 1
            }
        }
    }
}

impl<'a> Dictionary<'a> {
    fn text(&self, terminal: u32) -> &'a [u8] {
        let at = terminal as usize;
        // Texts in memory have a usize of bytes.
        &self.bytes[self.offsets[at] as usize..self.offsets[at + 1] as usize]
    }
}

/// Of ascending places, those that lie in a file.
fn within(places: &[u32], (start, end): (u32, u32)) -> &[u32] {
    let first = places.partition_point(|&place| place < start);
    let length = places[first..].partition_point(|&place| place < end);
    &places[first..first + length]
}

/// Bytes of the expansion of each rule.
fn lengths(grammar: &Grammar, dictionary: Dictionary<'_>) -> Vec<u64> {
    let mut lengths = vec![0; grammar.rules()];
    for rule in (0..lengths.len()).rev() {
        let length = |symbol| match symbol {
            Symbol::Terminal(terminal) => dictionary.text(terminal).len() as u64,
            Symbol::Splitter => 0,
            Symbol::Rule(used) => lengths[used],
        };
        lengths[rule] = grammar.symbols_of(rule).map(length).sum();
    }
    lengths
}

/// For each rule its places: those of its users and where it begins in them.
fn places(grammar: &Grammar, starts: &Rows) -> Rows {
    let mut found: Vec<Vec<u32>> = vec![Vec::new(); grammar.rules()];
    found[0].push(0);
    let mut places = Rows::new();
    for rule in 0..grammar.rules() {
        let mut own = std::mem::take(&mut found[rule]);
        own.sort_unstable();
        for (symbol, &start) in grammar.symbols_of(rule).zip(starts.row(rule)) {
            if let Symbol::Rule(used) = symbol {
                found[used].extend(own.iter().map(|place| place + start));
            }
        }
        own.into_iter().for_each(|place| places.push(place));
        places.end_row();
    }
    places
}

/// For each terminal the rules that hold it, and its places in the root.
fn occurrences(grammar: &Grammar, starts: &Rows) -> (Rows, Rows) {
    let terminals = grammar.terminal_count() as usize;
    let (mut held, mut standing) = (vec![Vec::new(); terminals], vec![Vec::new(); terminals]);
    for rule in 0..grammar.rules() {
        for (symbol, &start) in grammar.symbols_of(rule).zip(starts.row(rule)) {
            match symbol {
                Symbol::Terminal(terminal) if rule == 0 => standing[terminal as usize].push(start),
                // Rules are numbered by u32.
                Symbol::Terminal(terminal) => held[terminal as usize].extend([rule as u32, start]),
                _ => {}
            }
        }
    }
    let rows = |lists: Vec<Vec<u32>>| {
        let mut rows = Rows::new();
        for list in lists {
            list.into_iter().for_each(|item| rows.push(item));
            rows.end_row();
        }
        rows
    };
    (rows(held), rows(standing))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_texts::{DICTIONARY, Random, files, plain};

    #[test]
    fn answers_are_those_of_the_text() {
        let mut random = Random(3);
        for (tokens, file_offsets) in files() {
            let grammar = Grammar::new(&tokens, &file_offsets, 20);
            let lookups = Lookups::new(&grammar, DICTIONARY);
            for (file, text) in plain(&tokens, &file_offsets).iter().enumerate() {
                let range = file_offsets[file] as usize..file_offsets[file + 1] as usize;
                for (word, terminals) in DICTIONARY.words.iter().enumerate() {
                    let (mut at, mut expected) = (0, Vec::new());
                    for &token in &tokens[range.clone()] {
                        if (terminals.first..terminals.end).contains(&token) {
                            expected.push(at + u64::from(token >= terminals.spaced));
                        }
                        at += DICTIONARY.text(token).len() as u64;
                    }
                    assert_eq!(lookups.count(file, word), expected.len() as u64);
                    assert_eq!(lookups.search(file, word), expected);
                }
                assert_eq!(lookups.file_size(file), text.len() as u64);
                assert_eq!(lookups.extract(file, 0, u64::MAX), *text);
                for _ in 0..20 {
                    let offset = random.below(text.len() as u32 + 3) as usize;
                    let length = random.below(30) as usize;
                    let rest = &text[offset.min(text.len())..];
                    let expected = &rest[..length.min(rest.len())];
                    assert_eq!(
                        lookups.extract(file, offset as u64, length as u64),
                        expected
                    );
                }
            }
        }
    }
}
