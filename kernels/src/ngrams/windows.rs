//! The windows of n words that cross from one symbol to the next.
//!
//! In   a grammar over words; n; symbols that follow each other
//! Out  each window that ends in one of the symbols and begins before it, as a key, in order
//! Work O(body symbols) to know what every rule begins and ends with, then O(symbols * n)
//!
//! A window of n words lies inside one symbol or crosses from a symbol of a body
//! or root to the next. So each is found once: in the one body or root where it
//! crosses. What crosses is known from the first and last n - 1 words of every
//! rule. Where a symbol brings fewer windows than it can, which is hard to
//! predict, all are written and those that are none are written over.

use std::ops::Range;

use rayon::prelude::*;

use crate::GrammarView;
use crate::memory::huge_pages::on_huge_pages;
use crate::sort::window_keys::WindowKey;

/// The longest n-gram.
pub const NGRAM_WORDS_MAX: usize = 8;

/// Bits of the number of words of an [`Ends`].
const LENGTH_BITS: u32 = 4;

/// Rules that a thread takes at least.
const SHARE_RULES: usize = 1 << 9;

/// Symbols looked up together, which overlaps the latency of memory.
const BLOCK_SYMBOLS: usize = 1 << 8;

/// Windows of these symbols, and room for the excess of copies of fixed size.
const BLOCK_WINDOWS: usize = (BLOCK_SYMBOLS + 1) * (NGRAM_WORDS_MAX - 1);

/// How words make keys.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    /// Words of a window.
    pub(crate) n: u32,
    /// Bits of a word.
    pub(crate) bits: u32,
}

impl Shape {
    /// The shape of windows of `n` words, at least 2, of `word_count` different ones.
    pub(crate) fn new(word_count: u32, n: usize) -> Shape {
        let bits = u32::BITS - word_count.saturating_sub(1).leading_zeros();
        Shape {
            // At most `NGRAM_WORDS_MAX`.
            n: n as u32,
            // So the number of words fits where the n-th one would.
            bits: bits.max(LENGTH_BITS),
        }
    }
}

/// The first and last words of a symbol.
#[derive(Clone, Copy, Default)]
struct Ends<K> {
    /// The first n - 1 words, padded with zeros; in the highest bits their number.
    head: K,
    /// The last n - 1 words, if there are as many.
    tail: K,
}

/// The words before a symbol.
#[derive(Clone, Copy, Default)]
struct Last<K> {
    /// The last n - 1 words, or as many as there are.
    words: K,
    /// How many.
    length: u32,
}

/// What is needed to find windows.
pub(crate) struct Windows<'a, K> {
    pub(crate) view: GrammarView<'a>,
    pub(crate) shape: Shape,
    /// By rule.
    ends: Vec<Ends<K>>,
    /// The bits of n - 1 words and of n words.
    ends_mask: K,
    mask: K,
}

impl<'a, K: WindowKey> Windows<'a, K> {
    /// Finds the ends of all rules, level by level.
    pub(crate) fn new(view: GrammarView<'a>, shape: Shape) -> Windows<'a, K> {
        let mut windows = Windows {
            view,
            shape,
            ends: Vec::new(),
            ends_mask: K::ones((shape.n - 1) * shape.bits),
            mask: K::ones(shape.n * shape.bits),
        };
        let mut ends = on_huge_pages(vec![Ends::default(); view.rules()]);
        for level in 0..view.levels() {
            let rules = view.level_rules(level);
            let (done, open) = ends.split_at_mut(rules.start);
            (open[..rules.len()]
                .par_iter_mut()
                .zip(rules.start as u32..rules.end as u32))
            .with_min_len(SHARE_RULES)
            .for_each(|(ends, rule)| *ends = windows.join(view.body(rule), done));
        }
        windows.ends = ends;
        windows
    }

    /// The ends of a body, given those of the rules in it.
    fn join(&self, body: &[u32], ends: &[Ends<K>]) -> Ends<K> {
        let Shape { n, bits } = self.shape;
        let (mut head, mut length) = (K::default(), 0);
        for &symbol in body {
            let (words, more) = self.head(self.symbol_ends(symbol, ends));
            head = head.or(words.shr(length * bits));
            length = (length + more).min(n - 1);
            if length == n - 1 {
                break;
            }
        }
        let (mut tail, mut words) = (K::default(), 0);
        for &symbol in body.iter().rev() {
            let ends = self.symbol_ends(symbol, ends);
            let (head, more) = self.head(ends);
            let last = if more < n - 1 {
                head.shr((n - 1 - more) * bits)
            } else {
                ends.tail
            };
            tail = tail.or(last.shl(words * bits));
            words += more;
            if words >= n - 1 {
                break;
            }
        }
        Ends {
            head: head.or(K::from_word(length).shl(K::BITS - LENGTH_BITS)),
            tail: tail.and(self.ends_mask),
        }
    }

    /// The words at the beginning, and how many.
    #[inline(always)]
    fn head(&self, ends: Ends<K>) -> (K, u32) {
        // A few bits.
        let length = ends.head.shr(K::BITS - LENGTH_BITS).low() as u32;
        (ends.head.and(self.ends_mask), length)
    }

    /// The ends of a symbol. Without a branch: which symbols are rules is hard to predict.
    #[inline(always)]
    fn symbol_ends(&self, symbol: u32, ends: &[Ends<K>]) -> Ends<K> {
        let Shape { n, bits } = self.shape;
        let rule = symbol.checked_sub(self.view.terminal_count);
        let of_rule = ends.get(rule.unwrap_or(0) as usize).copied();
        let of_rule = of_rule.unwrap_or_default();
        let word = K::from_word(symbol);
        let one = K::from_word(1).shl(K::BITS - LENGTH_BITS);
        let head = word.shl((n - 2) * bits).or(one);
        Ends {
            head: if rule.is_some() { of_rule.head } else { head },
            tail: if rule.is_some() { of_rule.tail } else { word },
        }
    }

    /// Goes on by a symbol: writes the windows that end in it and begin before
    /// it, and says how many. With `is_full` there are n - 1 words before it.
    #[inline(always)]
    fn step(
        &self,
        n: u32,
        symbol: u32,
        last: &mut Last<K>,
        is_full: bool,
        found: &mut [K],
    ) -> usize {
        let bits = self.shape.bits;
        let ends = self.symbol_ends(symbol, &self.ends);
        let (head, length) = self.head(ends);
        let (mut next, mut count) = (ends.tail, 0);
        for index in 1..n {
            let key = (last.words.shl(index * bits)).or(head.shr((n - 1 - index) * bits));
            found[count] = key.and(self.mask);
            let is_window = index <= length && (is_full || last.length + index >= n);
            count += usize::from(is_window);
            if index == length && index < n - 1 {
                next = key.and(self.ends_mask);
            }
        }
        last.words = next;
        if !is_full {
            last.length = (last.length + length).min(n - 1);
        }
        count
    }

    /// Calls `emit` with all windows that cross symbols of `sequence` and end in its symbols at `range`.
    #[inline(always)]
    pub(crate) fn each(&self, sequence: &[u32], range: Range<usize>, emit: impl FnMut(K)) {
        match self.shape.n {
            2 => self.each_of(2, sequence, range, emit),
            3 => self.each_of(3, sequence, range, emit),
            n => self.each_of(n, sequence, range, emit),
        }
    }

    #[inline(always)]
    fn each_of(&self, n: u32, sequence: &[u32], range: Range<usize>, mut emit: impl FnMut(K)) {
        let mut found = [K::default(); BLOCK_WINDOWS];
        let mut last = Last::default();
        let before = range.start.saturating_sub(n as usize - 1);
        for &symbol in &sequence[before..range.start] {
            self.step(n, symbol, &mut last, false, &mut found);
        }
        for symbols in sequence[range].chunks(BLOCK_SYMBOLS) {
            self.look_ahead(symbols);
            let mut count = 0;
            if last.length == n - 1 {
                for &symbol in symbols {
                    count += self.step(n, symbol, &mut last, true, &mut found[count..]);
                }
            } else {
                for &symbol in symbols {
                    count += self.step(n, symbol, &mut last, false, &mut found[count..]);
                }
            }
            found[..count].iter().for_each(|&key| emit(key));
        }
    }

    /// Puts the ends of some symbols on the way into the cache: memory answers
    /// slowly but many questions at a time, the more the less else is done.
    #[inline(always)]
    fn look_ahead(&self, symbols: &[u32]) {
        let touched = symbols.iter().fold(0, |touched, &symbol| {
            let rule = symbol.saturating_sub(self.view.terminal_count);
            let ends = self.ends.get(rule as usize);
            touched ^ ends.map_or(0, |ends| ends.head.low())
        });
        // Reading is all: the value does not matter.
        std::hint::black_box(touched);
    }

    /// Calls `emit` with each of `rules` and each window that crosses symbols of its body.
    #[inline(always)]
    pub(crate) fn each_in_bodies(&self, rules: Range<usize>, emit: impl FnMut(u32, K)) {
        match self.shape.n {
            2 => self.each_in_bodies_of(2, rules, emit),
            3 => self.each_in_bodies_of(3, rules, emit),
            n => self.each_in_bodies_of(n, rules, emit),
        }
    }

    #[inline(always)]
    fn each_in_bodies_of(&self, n: u32, rules: Range<usize>, mut emit: impl FnMut(u32, K)) {
        let mut found = [K::default(); BLOCK_WINDOWS];
        let offset = |rule: usize| self.view.rule_offsets[rule] as usize;
        let (mut first, mut end) = (rules.start, rules.start);
        while first < rules.end {
            // As many bodies as are looked up together.
            let start = offset(first);
            while end < rules.end && offset(end + 1) - start <= BLOCK_SYMBOLS {
                end += 1;
            }
            if end == first {
                // Rules are u32.
                let rule = first as u32;
                let body = self.view.body(rule);
                self.each_of(n, body, 0..body.len(), |key| emit(rule, key));
                (first, end) = (first + 1, first + 1);
                continue;
            }
            let symbols = &self.view.symbols[start..offset(end)];
            self.look_ahead(symbols);
            for rule in first..end {
                let (mut last, mut count) = (Last::default(), 0);
                for &symbol in &symbols[offset(rule) - start..offset(rule + 1) - start] {
                    count += self.step(n, symbol, &mut last, false, &mut found[count..]);
                }
                found[..count]
                    .iter()
                    .for_each(|&key| emit(rule as u32, key));
            }
            first = end;
        }
    }
}
