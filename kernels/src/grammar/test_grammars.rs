//! Grammars for tests, with the oracle that expands them by definition.
//!
//! Every grammar obeys the invariant of `GrammarView`. Terminals come as in a
//! segment: word tokens first, a word's plain and spaced token next to each
//! other, gap tokens last. Not compiled outside tests.

use crate::{GAP, GrammarView, Lengths, Signatures, SymbolText, WordGrammar, WordTerminals};

/// A grammar with its token text.
#[derive(Clone, Debug)]
pub(crate) struct TestGrammar {
    pub(crate) word_terminals: u32,
    pub(crate) tokens: Vec<Vec<u8>>,
    rule_offsets: Vec<u32>,
    symbols: Vec<u32>,
    level_offsets: Vec<u32>,
    root_offsets: Vec<u32>,
    root: Vec<u32>,
}

impl TestGrammar {
    /// Builds a grammar of `rules`, given so that bodies use only earlier
    /// rules as `terminals + index`, renumbered by level here.
    fn new(
        tokens: Vec<Vec<u8>>,
        word_terminals: u32,
        rules: &[Vec<u32>],
        files: &[Vec<u32>],
    ) -> Self {
        let terminals = tokens.len() as u32;
        let mut levels = vec![0usize; rules.len()];
        for (rule, body) in rules.iter().enumerate() {
            let used = body.iter().filter_map(|s| s.checked_sub(terminals));
            levels[rule] = used.map(|r| levels[r as usize] + 1).max().unwrap_or(0);
        }
        let mut order: Vec<usize> = (0..rules.len()).collect();
        order.sort_by_key(|&rule| levels[rule]);
        let mut number = vec![0u32; rules.len()];
        for (new, &old) in order.iter().enumerate() {
            number[old] = new as u32;
        }
        let renumber = |&symbol: &u32| match symbol.checked_sub(terminals) {
            None => symbol,
            Some(rule) => terminals + number[rule as usize],
        };
        let (mut rule_offsets, mut symbols) = (vec![0], Vec::new());
        for &old in &order {
            symbols.extend(rules[old].iter().map(renumber));
            rule_offsets.push(symbols.len() as u32);
        }
        let level_count = levels.iter().max().map_or(0, |l| l + 1);
        let level_offsets = (0..=level_count)
            .map(|level| levels.iter().filter(|&&l| l < level).count() as u32)
            .collect();
        let (mut root_offsets, mut root) = (vec![0], Vec::new());
        for file in files {
            root.extend(file.iter().map(renumber));
            root_offsets.push(root.len() as u32);
        }
        TestGrammar {
            word_terminals,
            tokens,
            rule_offsets,
            symbols,
            level_offsets,
            root_offsets,
            root,
        }
    }

    pub(crate) fn view(&self) -> GrammarView<'_> {
        GrammarView {
            terminal_count: self.tokens.len() as u32,
            rule_offsets: &self.rule_offsets,
            symbols: &self.symbols,
            level_offsets: &self.level_offsets,
            root_offsets: &self.root_offsets,
            root: &self.root,
        }
    }

    /// Lengths in bytes.
    pub(crate) fn lengths(&self) -> Lengths {
        Lengths::new(self.view(), |t| self.tokens[t as usize].len() as u64)
    }

    pub(crate) fn symbol_text(&self) -> SymbolText {
        SymbolText::new(self.view(), &self.lengths(), |t| &self.tokens[t as usize])
    }

    /// With the number of its first terminal as a word's number.
    pub(crate) fn signatures(&self) -> Signatures {
        let words = self.words();
        Signatures::new(self.view(), |terminal| {
            let word = words.iter().find(|w| (w.first..w.end).contains(&terminal));
            word.map_or(terminal, |word| word.first)
        })
    }

    /// The tokens of every word.
    pub(crate) fn words(&self) -> Vec<WordTerminals> {
        let mut words = Vec::new();
        let mut first = 0;
        while first < self.word_terminals {
            let spaced = |terminal: u32| self.tokens[terminal as usize][0] == b' ';
            let pair = !spaced(first)
                && first + 1 < self.word_terminals
                && spaced(first + 1)
                && self.tokens[first as usize + 1][1..] == self.tokens[first as usize][..];
            let end = first + 1 + u32::from(pair);
            words.push(WordTerminals {
                first,
                spaced: if spaced(first) { first } else { first + 1 },
                end,
            });
            first = end;
        }
        words
    }

    /// For each terminal the index of its word in [`Self::words`] or [`GAP`]; how many words.
    pub(crate) fn word_of(&self) -> (Vec<u32>, u32) {
        let words = self.words();
        let mut word_of = vec![GAP; self.tokens.len()];
        for (number, word) in (0..).zip(&words) {
            word_of[word.first as usize..word.end as usize].fill(number);
        }
        (word_of, words.len() as u32)
    }

    /// The oracle: the words of a file.
    pub(crate) fn file_words(&self, file: u32) -> Vec<u32> {
        let (word_of, _) = self.word_of();
        let words = self.expand(file).into_iter().map(|t| word_of[t as usize]);
        words.filter(|&word| word != GAP).collect()
    }

    /// The oracle: the words of every file.
    pub(crate) fn all_file_words(&self) -> Vec<Vec<u32>> {
        (0..self.view().files() as u32)
            .map(|file| self.file_words(file))
            .collect()
    }

    pub(crate) fn word_grammar(&self) -> WordGrammar {
        let (word_of, word_count) = self.word_of();
        WordGrammar::new(self.view(), &word_of, word_count)
    }

    /// The oracle: replaces rules by their bodies until none is left.
    pub(crate) fn expand_symbols(&self, symbols: &[u32]) -> Vec<u32> {
        let mut expansion = Vec::new();
        let mut rest: Vec<u32> = symbols.iter().rev().copied().collect();
        while let Some(symbol) = rest.pop() {
            match self.view().rule(symbol) {
                None => expansion.push(symbol),
                Some(rule) => rest.extend(self.view().body(rule).iter().rev()),
            }
        }
        expansion
    }

    pub(crate) fn expand(&self, file: u32) -> Vec<u32> {
        self.expand_symbols(self.view().file_root(file))
    }

    /// The oracle: the bytes of a file.
    pub(crate) fn content(&self, file: u32) -> Vec<u8> {
        let tokens = self.expand(file);
        tokens
            .iter()
            .flat_map(|&t| self.tokens[t as usize].iter().copied())
            .collect()
    }

    /// The oracle: offsets in its file of all occurrences of a word.
    pub(crate) fn offsets(&self, file: u32, word: WordTerminals) -> Vec<u64> {
        let (mut at, mut offsets) = (0, Vec::new());
        for terminal in self.expand(file) {
            if (word.first..word.end).contains(&terminal) {
                offsets.push(at + u64::from(terminal >= word.spaced));
            }
            at += self.tokens[terminal as usize].len() as u64;
        }
        offsets
    }
}

/// A small generator of numbers that are the same everywhere.
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Numbers(seed)
    }

    /// A number below `limit` (splitmix64).
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }
}

/// Tokens of `words` words and `gaps` gaps. Of three words one has both tokens,
/// one only the plain, one only the spaced one. Lengths differ, some exceed 16.
fn tokens(words: u32, gaps: u32) -> (Vec<Vec<u8>>, u32) {
    let mut tokens = Vec::new();
    for word in 0..words {
        let text = format!("w{word:0width$}", width = [1, 4, 20][word as usize / 3 % 3]);
        if word % 3 != 2 {
            tokens.push(text.clone().into_bytes());
        }
        if word % 3 != 1 {
            tokens.push(format!(" {text}").into_bytes());
        }
    }
    let word_terminals = tokens.len() as u32;
    for gap in 0..gaps {
        tokens.push(vec![b'!' + gap as u8; [1, 2, 64][gap as usize % 3]]);
    }
    (tokens, word_terminals)
}

/// All grammars with a word of two tokens, up to two rules with bodies of up to
/// two symbols (none and empty ones too), and two files whose roots have up to
/// three symbols together.
pub(crate) fn all_small() -> impl Iterator<Item = TestGrammar> {
    fn strings(alphabet: u32, size_max: usize) -> Vec<Vec<u32>> {
        let mut all = vec![vec![]];
        let mut last = all.clone();
        for _ in 0..size_max {
            last = (last.iter())
                .flat_map(|s| (0..alphabet).map(move |c| [&s[..], &[c]].concat()))
                .collect();
            all.extend(last.iter().cloned());
        }
        all
    }
    let mut rule_sets: Vec<Vec<Vec<u32>>> = vec![vec![]];
    for first in strings(2, 2) {
        for second in strings(3, 2) {
            rule_sets.push(vec![first.clone(), second]);
        }
    }
    rule_sets.into_iter().flat_map(|rules| {
        let roots = strings(2 + rules.len() as u32, 3);
        roots.into_iter().flat_map(move |root| {
            let rules = rules.clone();
            (0..=root.len()).map(move |cut| {
                let (tokens, words) = tokens(1, 0);
                let files = [root[..cut].to_vec(), root[cut..].to_vec()];
                TestGrammar::new(tokens, words, &rules, &files)
            })
        })
    })
}

/// Random grammars, some with empty files, long bodies and runs.
pub(crate) fn random_many(count: u64) -> impl Iterator<Item = TestGrammar> {
    (0..count).map(random)
}

/// A random grammar whose files expand to at most some ten thousand tokens.
pub(crate) fn random(seed: u64) -> TestGrammar {
    let mut numbers = Numbers::new(seed);
    let words = 1 + numbers.below(12) as u32;
    let gaps = numbers.below(4) as u32;
    let (tokens, word_terminals) = tokens(words, gaps);
    let terminals = tokens.len() as u64;
    let rule_count = numbers.below(40);
    let mut rules: Vec<Vec<u32>> = Vec::new();
    let mut expanded: Vec<u64> = Vec::new();
    for rule in 0..rule_count {
        let size = match numbers.below(8) {
            0 => numbers.below(2),
            1 => 15 + numbers.below(40),
            _ => 2 + numbers.below(3),
        };
        let run = numbers.below(6) == 0;
        let mut body: Vec<u32> = Vec::new();
        let mut tokens_below = 0;
        for index in 0..size {
            let mut symbol = numbers.below(terminals + rule) as u32;
            if run && index > 0 {
                symbol = body[0];
            }
            let tokens_in = |symbol: u32| match symbol.checked_sub(terminals as u32) {
                None => 1,
                Some(rule) => expanded[rule as usize],
            };
            if tokens_below + tokens_in(symbol) > 400 {
                symbol = numbers.below(terminals) as u32;
            }
            tokens_below += tokens_in(symbol);
            body.push(symbol);
        }
        rules.push(body);
        expanded.push(tokens_below);
    }
    let files: Vec<Vec<u32>> = (0..1 + numbers.below(5))
        .map(|_| {
            let size = [0, 1, 7, 50][numbers.below(4) as usize];
            (0..size)
                .map(|_| numbers.below(terminals + rule_count) as u32)
                .collect()
        })
        .collect();
    TestGrammar::new(tokens, word_terminals, &rules, &files)
}

/// Files that share rules of a random grammar; each third is empty.
pub(crate) fn many_files(files: u32) -> TestGrammar {
    let (tokens, words) = tokens(40, 3);
    let terminals = tokens.len() as u64;
    let mut numbers = Numbers::new(u64::from(files));
    let mut rules: Vec<Vec<u32>> = Vec::new();
    for rule in 0..200u64 {
        let lowest = rule / 25 * 25;
        let body = (0..2 + numbers.below(3))
            .map(|_| numbers.below(terminals + lowest) as u32)
            .collect();
        rules.push(body);
    }
    let files: Vec<Vec<u32>> = (0..files)
        .map(|file| {
            let size = if file % 3 == 1 { 0 } else { 5 };
            (0..size)
                .map(|_| numbers.below(terminals + 200) as u32)
                .collect()
        })
        .collect();
    TestGrammar::new(tokens, words, &rules, &files)
}

/// Files of one symbol, a rule of 200 others, of three words each, with a word before it.
pub(crate) fn copies(files: u32) -> TestGrammar {
    let (tokens, words) = tokens(60, 0);
    let terminals = tokens.len() as u64;
    let mut numbers = Numbers::new(u64::from(files));
    let mut rules: Vec<Vec<u32>> = (0..200)
        .map(|_| (0..3).map(|_| numbers.below(terminals) as u32).collect())
        .collect();
    let lowest = terminals as u32;
    rules.push((lowest..lowest + 200).collect());
    let files: Vec<Vec<u32>> = (0..files)
        .map(|file| vec![file % lowest, lowest + 200])
        .collect();
    TestGrammar::new(tokens, words, &rules, &files)
}

/// Rule `k` is rule `k - 1` with a terminal before, behind or around it.
pub(crate) fn deep_chain(depth: u32) -> TestGrammar {
    let (tokens, words) = tokens(4, 2);
    let terminals = tokens.len() as u32;
    let mut rules = vec![vec![0, 1]];
    for depth in 1..depth {
        let (below, side) = (terminals + depth - 1, depth % terminals);
        rules.push(match depth % 3 {
            0 => vec![below, side],
            1 => vec![side, below],
            _ => vec![side, below, side],
        });
    }
    let top = terminals + depth - 1;
    let files = [vec![top, 3, top], vec![], vec![terminals + depth / 2, top]];
    TestGrammar::new(tokens, words, &rules, &files)
}

/// Rule `k` is rule `k - 1` with the `k`-th token behind it: it contains all words up to there.
pub(crate) fn nested_vocabulary(words: u32) -> TestGrammar {
    let (tokens, words) = tokens(words, 0);
    let terminals = tokens.len() as u32;
    let first = [vec![0, 1]].into_iter();
    let next = (2..terminals).map(|token| vec![terminals + token - 2, token]);
    let rules: Vec<Vec<u32>> = first.chain(next).collect();
    let top = terminals + rules.len() as u32 - 1;
    TestGrammar::new(tokens, words, &rules, &[vec![top, top]])
}

/// A rule whose body has `size` symbols, used by two files and another rule.
pub(crate) fn long_body(size: u32) -> TestGrammar {
    let (tokens, words) = tokens(9, 3);
    let terminals = tokens.len() as u32;
    let mut numbers = Numbers::new(u64::from(size));
    let mut rules = vec![vec![0, 1], vec![terminals, 5, terminals]];
    // Terminal 7 occurs once, in the middle; terminal 6 nowhere in the body.
    let long = (0..size)
        .map(
            |index| match numbers.below(u64::from(terminals) + 2) as u32 {
                _ if index == size / 2 => 7,
                6 | 7 => 8,
                symbol => symbol,
            },
        )
        .collect();
    rules.push(long);
    rules.push(vec![terminals + 2, 6]);
    let files = [vec![terminals + 2, 3], vec![6, 2, terminals + 3]];
    TestGrammar::new(tokens, words, &rules, &files)
}

/// A run of `2^log` equal tokens as a tower of pairs, after another word.
pub(crate) fn runs(log: u32) -> TestGrammar {
    let (tokens, words) = tokens(2, 1);
    let terminals = tokens.len() as u32;
    let mut rules = vec![vec![1, 1]];
    for below in 0..log - 1 {
        rules.push(vec![terminals + below; 2]);
    }
    let files = [
        vec![0, terminals + log - 1, 1],
        vec![terminals + log / 2; 3],
    ];
    TestGrammar::new(tokens, words, &rules, &files)
}

/// A Fibonacci word, each rule the two before it, and one of its parts.
pub(crate) fn fibonacci(rules: u32) -> TestGrammar {
    let (tokens, words) = tokens(3, 1);
    let terminals = tokens.len() as u32;
    let mut bodies = vec![vec![0, 2], vec![terminals, 0]];
    for rule in 2..rules {
        bodies.push(vec![terminals + rule - 1, terminals + rule - 2]);
    }
    let top = terminals + rules - 1;
    TestGrammar::new(tokens, words, &bodies, &[vec![top, 5, top], vec![top - 3]])
}

/// A Thue-Morse word: for each length a rule and its complement.
pub(crate) fn thue_morse(log: u32) -> TestGrammar {
    let (tokens, words) = tokens(2, 0);
    let terminals = tokens.len() as u32;
    let mut bodies = vec![vec![0, 2], vec![2, 0]];
    for level in 1..log {
        let (plain, other) = (terminals + 2 * level - 2, terminals + 2 * level - 1);
        bodies.push(vec![plain, other]);
        bodies.push(vec![other, plain]);
    }
    let top = terminals + 2 * log - 2;
    TestGrammar::new(
        tokens,
        words,
        &bodies,
        &[vec![top], vec![0], vec![top + 1, top - 2]],
    )
}

/// `rules` rules, each twice the one before: longer than any file can be. No
/// file uses them.
pub(crate) fn doubling(rules: u32) -> TestGrammar {
    let (tokens, words) = tokens(1, 0);
    let terminals = tokens.len() as u32;
    let mut bodies = vec![vec![0, 0]];
    for below in 0..rules - 1 {
        bodies.push(vec![terminals + below; 2]);
    }
    TestGrammar::new(tokens, words, &bodies, &[vec![0]])
}

/// Each rule holds the first one `times` times, and the one before.
pub(crate) fn held_often(rules: u32, times: usize) -> TestGrammar {
    let (tokens, words) = tokens(3, 1);
    let terminals = tokens.len() as u32;
    let mut bodies = vec![vec![0, 1]];
    for rule in 1..rules {
        let mut body = vec![terminals; times];
        body.extend([terminals + rule - 1, rule % terminals]);
        bodies.push(body);
    }
    let top = terminals + rules - 1;
    TestGrammar::new(
        tokens,
        words,
        &bodies,
        &[vec![top, 1], vec![], vec![terminals]],
    )
}

/// Asserts that `run` gives the same result on 1, 2 and 16 threads, and returns it.
pub(crate) fn in_pools<T: Send + PartialEq + std::fmt::Debug>(run: impl Fn() -> T + Sync) -> T {
    let in_pool = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        pool.build().expect("threads can be started").install(&run)
    };
    let one = in_pool(1);
    assert!(one == in_pool(2), "2 threads give another result than 1");
    assert!(one == in_pool(16), "16 threads give another result than 1");
    one
}

/// Two files of `times` repeats of a few long phrases, several MiB of text, so
/// that pieces meet rules again that they wrote before.
pub(crate) fn repeated_text(times: u32) -> TestGrammar {
    let (tokens, words) = tokens(9, 3);
    let terminals = tokens.len() as u64;
    let mut numbers = Numbers::new(7);
    let mut rules: Vec<Vec<u32>> = Vec::new();
    for rule in 0..300u64 {
        let lowest = rule.saturating_sub(20);
        let body = (0..3)
            .map(|_| match numbers.below(2) {
                0 => numbers.below(terminals) as u32,
                _ if rule % 20 == 0 => 0,
                _ => (terminals + lowest / 20 * 20 + numbers.below(rule % 20)) as u32,
            })
            .collect();
        rules.push(body);
    }
    let mut file = |symbols: u32| -> Vec<u32> {
        (0..symbols)
            .map(|_| (terminals + numbers.below(300)) as u32)
            .collect()
    };
    let files = [file(times * 1_000), file(times)];
    TestGrammar::new(tokens, words, &rules, &files)
}
