//! The six tasks of TADOC on a grammar.
//!
//! What tasks read is made once, as TADOC makes it when it loads a grammar: bodies without the tokens that are no words, the
//! root by file. Word counts and sequence counts go top-down; tasks by file go the way that [`Traversal::choose`] says.

use crate::grammar::{Grammar, Symbol};
use crate::rows::{CountedRows, Rows};
use crate::sequences::{SEQUENCE_WORDS, Sequences};
use crate::traversal::{
    Traversal, Uses, counts_bottom_up, counts_top_down, files_top_down, items_bottom_up,
};

/// A grammar ready for tasks. Answers have words by number and files by number.
pub struct Tasks {
    files: usize,
    word_count: usize,
    traversal: Traversal,
    /// Words, and from `word_count` on bodies: first those of files, then those of rules. Users come first.
    bodies: Rows,
    /// The bodies that each body uses.
    children: Rows,
    /// The words that stand in each body itself.
    words: Rows,
    /// For each word its place in order of bytes.
    ranks: Vec<u32>,
}

/// Sequences with their counts.
pub struct SequenceCounts {
    /// By number.
    pub sequences: Vec<[u32; SEQUENCE_WORDS]>,
    /// By number.
    pub counts: Vec<u64>,
}

/// Sequences with their files.
pub struct SequenceFiles {
    /// By number.
    pub sequences: Vec<[u32; SEQUENCE_WORDS]>,
    /// For each sequence its files, the largest count first.
    pub files: CountedRows,
}

impl Tasks {
    /// `word_of` has for each terminal the number of its word, or one that is not below the length of `ranks`, which has for
    /// each word its place in order of bytes.
    pub fn new(grammar: &Grammar, word_of: &[u32], ranks: Vec<u32>) -> Tasks {
        let (files, word_count) = (grammar.files(), ranks.len());
        let word = |terminal: u32| {
            let word = word_of[terminal as usize];
            ((word as usize) < word_count).then_some(word)
        };
        let mut lengths = vec![0u64; grammar.rules()];
        for rule in (0..lengths.len()).rev() {
            let length = |symbol| match symbol {
                Symbol::Terminal(terminal) => u64::from(word(terminal).is_some()),
                Symbol::Splitter => 0,
                Symbol::Rule(used) => lengths[used],
            };
            lengths[rule] = grammar.symbols_of(rule).map(length).sum();
        }
        // A corpus has fewer words than a usize counts.
        let mut tasks = Tasks {
            files,
            word_count,
            traversal: Traversal::choose(files, lengths[0] as usize),
            bodies: Rows::new(),
            children: Rows::new(),
            words: Rows::new(),
            ranks,
        };
        for rule in 0..grammar.rules() {
            for symbol in grammar.symbols_of(rule) {
                match symbol {
                    Symbol::Terminal(terminal) => {
                        if let Some(word) = word(terminal) {
                            tasks.bodies.push(word);
                            tasks.words.push(word);
                        }
                    }
                    Symbol::Splitter => tasks.end_body(),
                    Symbol::Rule(used) if lengths[used] > 0 => {
                        // The root, rule 0, is cut into bodies of files. All are fewer than a u32 counts.
                        let body = (files + used - 1) as u32;
                        tasks.bodies.push(word_count as u32 + body);
                        tasks.children.push(body);
                    }
                    Symbol::Rule(_) => {}
                }
            }
            if rule > 0 {
                tasks.end_body();
            }
        }
        tasks
    }

    fn end_body(&mut self) {
        self.bodies.end_row();
        self.children.end_row();
        self.words.end_row();
    }

    /// Goes this way in tasks by file.
    pub fn with_traversal(self, traversal: Traversal) -> Tasks {
        Tasks { traversal, ..self }
    }

    /// The way that tasks by file go.
    pub fn traversal(&self) -> Traversal {
        self.traversal
    }

    fn uses(&self) -> Uses<'_> {
        Uses {
            files: self.files,
            children: &self.children,
        }
    }

    fn counts(&self, items: &Rows, item_count: usize, traversal: Traversal) -> Vec<u64> {
        match traversal {
            Traversal::TopDown => counts_top_down(&self.uses(), items, item_count),
            Traversal::BottomUp => counts_bottom_up(&self.uses(), items, item_count),
        }
    }

    /// For each item its files with counts.
    fn item_files(&self, items: &Rows, item_count: usize) -> CountedRows {
        match self.traversal {
            Traversal::TopDown => files_top_down(&self.uses(), items, item_count),
            Traversal::BottomUp => {
                items_bottom_up(&self.uses(), items, item_count).transposed(item_count)
            }
        }
    }

    fn sequences(&self) -> Sequences {
        // Words are numbered by u32.
        Sequences::new(&self.bodies, self.word_count as u32)
    }

    /// How often each word occurs.
    pub fn word_counts(&self) -> Vec<u64> {
        self.counts(&self.words, self.word_count, Traversal::TopDown)
    }

    /// Words with their counts, the largest first, equal counts in order of bytes.
    pub fn sorted(&self) -> Vec<(u32, u64)> {
        let mut sorted: Vec<(u32, u64)> = (0..).zip(self.word_counts()).collect();
        let rank = |word: u32| self.ranks[word as usize];
        sorted.sort_unstable_by_key(|&(word, count)| (std::cmp::Reverse(count), rank(word)));
        sorted
    }

    /// For each word its files, ascending, with counts.
    pub fn inverted_index(&self) -> CountedRows {
        self.item_files(&self.words, self.word_count)
    }

    /// For each file its words, ascending, with counts.
    pub fn term_vectors(&self) -> CountedRows {
        match self.traversal {
            Traversal::TopDown => self.inverted_index().transposed(self.files),
            Traversal::BottomUp => items_bottom_up(&self.uses(), &self.words, self.word_count),
        }
    }

    /// How often each sequence of three words occurs.
    pub fn sequence_counts(&self) -> SequenceCounts {
        let Sequences { words, local } = self.sequences();
        SequenceCounts {
            counts: self.counts(&local, words.len(), Traversal::TopDown),
            sequences: words,
        }
    }

    /// For each sequence of three words its files, the largest count first.
    pub fn ranked_inverted_index(&self) -> SequenceFiles {
        let Sequences { words, local } = self.sequences();
        let mut files = self.item_files(&local, words.len());
        files.sort_by_count();
        SequenceFiles {
            sequences: words,
            files,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::test_texts::files;

    /// Tokens from here on are no words.
    const FIRST_GAP: u32 = 15;

    const WAYS: [Traversal; 2] = [Traversal::TopDown, Traversal::BottomUp];

    /// The words of each file: two tokens a word.
    fn words(tokens: &[u32], file_offsets: &[u32]) -> Vec<Vec<u32>> {
        let file = |range: &[u32]| {
            let tokens = tokens[range[0] as usize..range[1] as usize].iter();
            tokens
                .filter(|&&token| token < FIRST_GAP)
                .map(|token| token / 2)
                .collect()
        };
        file_offsets.windows(2).map(file).collect()
    }

    /// The tasks on a corpus, each way, with the words of its files.
    fn all() -> impl Iterator<Item = (Vec<Vec<u32>>, Tasks)> {
        let word_of: Vec<u32> = (0..20)
            .map(|token| {
                if token < FIRST_GAP {
                    token / 2
                } else {
                    u32::MAX
                }
            })
            .collect();
        files().into_iter().flat_map(move |(tokens, file_offsets)| {
            let grammar = Grammar::new(&tokens, &file_offsets, 20);
            let words = words(&tokens, &file_offsets);
            WAYS.map(|way| {
                let ranks = (0..8).rev().collect();
                (
                    words.clone(),
                    Tasks::new(&grammar, &word_of, ranks).with_traversal(way),
                )
            })
        })
    }

    /// How often each item occurs in each file.
    fn by_file<T: Ord + Clone>(files: &[Vec<T>]) -> Vec<BTreeMap<T, u32>> {
        let counts = |file: &Vec<T>| {
            let mut counts = BTreeMap::new();
            for item in file {
                *counts.entry(item.clone()).or_insert(0) += 1;
            }
            counts
        };
        files.iter().map(counts).collect()
    }

    fn sequences(files: &[Vec<u32>]) -> Vec<Vec<[u32; 3]>> {
        let windows = |file: &Vec<u32>| {
            file.windows(3)
                .map(|words| [words[0], words[1], words[2]])
                .collect()
        };
        files.iter().map(windows).collect()
    }

    #[test]
    fn word_counts_are_those_of_the_text() {
        for (files, tasks) in all() {
            let mut expected = vec![0; 8];
            for &word in files.iter().flatten() {
                expected[word as usize] += 1;
            }
            for way in WAYS {
                assert_eq!(tasks.counts(&tasks.words, 8, way), expected);
            }
            assert_eq!(tasks.word_counts(), expected);
            let mut sorted: Vec<(u32, u64)> = (0..).zip(expected).collect();
            sorted.sort_by_key(|&(word, count)| (std::cmp::Reverse(count), 7 - word));
            assert_eq!(tasks.sorted(), sorted);
        }
    }

    #[test]
    fn files_of_words_are_those_of_the_text() {
        for (files, tasks) in all() {
            let (index, vectors) = (tasks.inverted_index(), tasks.term_vectors());
            for (file, counts) in by_file(&files).into_iter().enumerate() {
                assert_eq!(
                    vectors.row(file),
                    counts.clone().into_iter().collect::<Vec<_>>()
                );
                for word in 0..8 {
                    let count = index
                        .row(word as usize)
                        .iter()
                        .find(|entry| entry.0 == file as u32);
                    assert_eq!(count.map(|entry| entry.1), counts.get(&word).copied());
                }
            }
            assert_eq!((index.len(), vectors.len()), (8, files.len()));
            assert!((0..8).all(|word| index.row(word).is_sorted_by(|a, b| a.0 < b.0)));
        }
    }

    #[test]
    fn sequences_are_those_of_the_text() {
        for (files, tasks) in all() {
            let mut expected: BTreeMap<[u32; 3], u64> = BTreeMap::new();
            for &sequence in sequences(&files).iter().flatten() {
                *expected.entry(sequence).or_insert(0) += 1;
            }
            let found = tasks.sequence_counts();
            let Sequences { words, local } = tasks.sequences();
            for way in WAYS {
                assert_eq!(tasks.counts(&local, words.len(), way), found.counts);
            }
            assert_eq!(found.sequences.len(), expected.len());
            let found: BTreeMap<_, _> = found.sequences.into_iter().zip(found.counts).collect();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn files_of_sequences_are_those_of_the_text() {
        for (files, tasks) in all() {
            let mut expected: BTreeMap<[u32; 3], Vec<(u32, u32)>> = BTreeMap::new();
            for (file, counts) in (0..).zip(by_file(&sequences(&files))) {
                for (sequence, count) in counts {
                    expected.entry(sequence).or_default().push((file, count));
                }
            }
            for row in expected.values_mut() {
                row.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
            }
            let found = tasks.ranked_inverted_index();
            assert_eq!(found.sequences.len(), expected.len());
            for (number, sequence) in found.sequences.iter().enumerate() {
                assert_eq!(found.files.row(number), expected[sequence]);
            }
        }
    }

    #[test]
    fn many_small_files_go_bottom_up() {
        assert_eq!(Traversal::choose(134_631, 100_000_000), Traversal::BottomUp);
        assert_eq!(Traversal::choose(15, 10_000_000), Traversal::TopDown);
        assert_eq!(Traversal::choose(2_265, 20_000_000), Traversal::TopDown);
    }
}
