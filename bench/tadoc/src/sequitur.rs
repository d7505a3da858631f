//! Sequitur (Nevill-Manning and Witten 1997): a grammar that grows by a token at a time.
//!
//! Invariants once a token is added: no pair of neighbours stands twice, but where both overlap in a run ("digram
//! uniqueness"), and every rule but the root is used at least twice ("rule utility"). A token takes constant time on average.
//! It knows neither files nor words.

/// Symbols from here on are rules, and from `GUARD` on guards. Terminals are below.
pub const RULE: u32 = 1 << 31;
const GUARD: u32 = 3 << 30;

/// No symbol.
const NONE: u32 = u32::MAX;

/// The rule that is the whole text.
const ROOT: u32 = 0;

/// The link of a body, which is a ring around its guard.
#[derive(Clone, Copy)]
struct Link {
    previous: u32,
    next: u32,
    /// A terminal, `RULE` and a rule, or `GUARD` and the rule whose body this closes. Unused links are guards too.
    symbol: u32,
}

#[derive(Clone, Copy)]
struct Rule {
    /// `NONE` once the rule is gone.
    guard: u32,
    uses: u32,
}

/// A grammar under construction. Bodies are doubly linked, pairs in a hash table: 12 bytes a symbol and 12 a pair, both with
/// room to grow.
pub struct Sequitur {
    links: Vec<Link>,
    /// The first of the unused links, chained by `next`.
    unused: u32,
    rules: Vec<Rule>,
    pairs: PairTable,
}

impl Sequitur {
    pub fn new() -> Sequitur {
        let mut sequitur = Sequitur {
            links: Vec::new(),
            unused: NONE,
            rules: Vec::new(),
            pairs: PairTable::new(),
        };
        sequitur.add_rule();
        sequitur
    }

    /// Adds a token, which is below 2^30, to the end of the text.
    pub fn push(&mut self, token: u32) {
        let guard = self.rules[ROOT as usize].guard;
        let last = self.link(guard).previous;
        let added = self.add_link(token);
        self.join(last, added);
        self.join(added, guard);
        self.check(last);
    }

    /// The bodies of all rules, the root first; ends construction.
    ///
    /// Rules that are used once although no token shows it, which takes several replacements within one step, are inlined
    /// before.
    pub fn finish(mut self) -> Vec<Vec<u32>> {
        loop {
            let at_single = |&at: &u32| self.is_single(at);
            let singles: Vec<u32> = (0..self.links.len() as u32).filter(at_single).collect();
            if singles.is_empty() {
                break;
            }
            for at in singles {
                // The steps before may have changed it.
                if self.is_single(at) {
                    self.inline(at);
                }
            }
        }
        let mut number = vec![NONE; self.rules.len()];
        let live = (0..self.rules.len()).filter(|&rule| self.rules[rule].guard != NONE);
        for (index, rule) in (0..).zip(live.clone()) {
            number[rule] = index;
        }
        let body = |rule: usize| {
            let guard = self.rules[rule].guard;
            let mut body = Vec::new();
            let mut at = self.link(guard).next;
            while at != guard {
                let symbol = self.link(at).symbol;
                body.push(match self.rule_of(symbol) {
                    Some(rule) => RULE | number[rule],
                    None => symbol,
                });
                at = self.link(at).next;
            }
            body
        };
        live.map(body).collect()
    }

    fn link(&self, at: u32) -> Link {
        self.links[at as usize]
    }

    fn is_guard(&self, at: u32) -> bool {
        self.link(at).symbol >= GUARD
    }

    /// The rule that a symbol stands for.
    fn rule_of(&self, symbol: u32) -> Option<usize> {
        (RULE..GUARD)
            .contains(&symbol)
            .then(|| (symbol - RULE) as usize)
    }

    /// Whether a link is the only use of a rule.
    fn is_single(&self, at: u32) -> bool {
        let rule = self.rule_of(self.link(at).symbol);
        rule.is_some_and(|rule| self.rules[rule].uses == 1)
    }

    fn add_rule(&mut self) -> u32 {
        // Rules are fewer than pushed tokens, which have 30 bits.
        let rule = self.rules.len() as u32;
        let guard = self.add_link(GUARD | rule);
        self.join(guard, guard);
        self.rules.push(Rule { guard, uses: 0 });
        rule
    }

    /// A link that stands nowhere yet.
    fn add_link(&mut self, symbol: u32) -> u32 {
        if let Some(rule) = self.rule_of(symbol) {
            self.rules[rule].uses += 1;
        }
        let link = Link {
            previous: NONE,
            next: NONE,
            symbol,
        };
        match self.unused {
            NONE => {
                self.links.push(link);
                (self.links.len() - 1) as u32
            }
            at => {
                self.unused = self.link(at).next;
                self.links[at as usize] = link;
                at
            }
        }
    }

    fn remove_link(&mut self, at: u32) {
        if let Some(rule) = self.rule_of(self.link(at).symbol) {
            self.rules[rule].uses -= 1;
        }
        self.links[at as usize] = Link {
            previous: NONE,
            next: self.unused,
            symbol: GUARD,
        };
        self.unused = at;
    }

    fn join(&mut self, left: u32, right: u32) {
        self.links[left as usize].next = right;
        self.links[right as usize].previous = left;
    }

    /// The symbols of a link and the next, if both are in a body.
    fn pair(&self, at: u32) -> Option<[u32; 2]> {
        if self.is_guard(at) {
            return None;
        }
        let link = self.link(at);
        let next = self.link(link.next).symbol;
        (next < GUARD).then_some([link.symbol, next])
    }

    /// Restores uniqueness of the pair at a link; whether the pair was replaced.
    fn check(&mut self, at: u32) -> bool {
        let Some(pair) = self.pair(at) else {
            return false;
        };
        let found = self.pairs.find_or_insert(pair, at);
        if found == at || self.link(found).next == at || self.link(at).next == found {
            return false;
        }
        self.replace_both(pair, at, found);
        true
    }

    /// Replaces a pair that stands at two places by a rule.
    fn replace_both(&mut self, pair: [u32; 2], at: u32, found: u32) {
        let before = self.link(found).previous;
        let after = self.link(self.link(found).next).next;
        let rule = if before == after && self.link(before).symbol != GUARD | ROOT {
            let rule = self.link(before).symbol - GUARD;
            self.replace(at, rule);
            rule
        } else {
            let rule = self.add_rule();
            let guard = self.rules[rule as usize].guard;
            let [first, second] = pair.map(|symbol| self.add_link(symbol));
            self.join(guard, first);
            self.join(first, second);
            self.join(second, guard);
            self.pairs.set(pair, first);
            self.replace(found, rule);
            self.replace(at, rule);
            rule
        };
        // Both symbols have lost a use. What followed may have made the rule itself go.
        let ends: [fn(Link) -> u32; 2] = [|guard| guard.next, |guard| guard.previous];
        for end in ends {
            let guard = self.rules[rule as usize].guard;
            if guard == NONE {
                return;
            }
            let at = end(self.link(guard));
            if self.is_single(at) {
                self.inline(at);
            }
        }
    }

    /// Puts a rule in the place of the pair at a link.
    fn replace(&mut self, at: u32, rule: u32) {
        let second = self.link(at).next;
        let (before, after) = (self.link(at).previous, self.link(second).next);
        self.forget(before);
        self.forget(at);
        self.forget(second);
        self.remove_link(at);
        self.remove_link(second);
        let added = self.add_link(RULE | rule);
        self.join(before, added);
        self.join(added, after);
        self.index_run(self.link(before).previous);
        self.index_run(after);
        if !self.check(before) {
            self.check(added);
        }
    }

    /// Puts the body of a rule in the place of its only use.
    fn inline(&mut self, at: u32) {
        let Link {
            previous,
            next,
            symbol,
        } = self.link(at);
        let rule = (symbol - RULE) as usize;
        let guard = self.rules[rule].guard;
        let (first, last) = (self.link(guard).next, self.link(guard).previous);
        self.forget(previous);
        self.forget(at);
        self.remove_link(at);
        self.remove_link(guard);
        self.rules[rule].guard = NONE;
        self.join(previous, first);
        self.join(last, next);
        // A check of a link that went meanwhile does nothing, and of one that was used again no harm.
        self.check(last);
        self.check(previous);
    }

    /// Takes the pair at a link out of the table, if it is this one that stands there.
    fn forget(&mut self, at: u32) {
        if let Some(pair) = self.pair(at) {
            self.pairs.remove(pair, at);
        }
    }

    /// In a run of three, one of two pairs is in the table. When that one goes, the other has to come in.
    fn index_run(&mut self, at: u32) {
        if let Some(pair) = self.pair(at)
            && pair[0] == pair[1]
        {
            self.pairs.find_or_insert(pair, at);
        }
    }
}

#[derive(Clone, Copy)]
struct Entry {
    pair: [u32; 2],
    /// Where the pair stands; `NONE` in an empty slot.
    at: u32,
}

const EMPTY: Entry = Entry {
    pair: [0; 2],
    at: NONE,
};

/// Where each pair stands: a hash table with linear probing, at most three quarters full.
struct PairTable {
    entries: Vec<Entry>,
    len: usize,
}

impl PairTable {
    fn new() -> PairTable {
        PairTable {
            entries: vec![EMPTY; 1 << 10],
            len: 0,
        }
    }

    fn slot(&self, pair: [u32; 2]) -> usize {
        let key = u64::from(pair[0]) << 32 | u64::from(pair[1]);
        let mixed = (key ^ key >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // The table has a power of two of slots.
        (mixed >> (u64::BITS - self.entries.len().trailing_zeros())) as usize
    }

    /// The slot that has `pair`, or an empty one for it.
    fn find(&self, pair: [u32; 2]) -> usize {
        let mut slot = self.slot(pair);
        while self.entries[slot].at != NONE && self.entries[slot].pair != pair {
            slot = (slot + 1) & (self.entries.len() - 1);
        }
        slot
    }

    /// Where `pair` stands: at `at` if it is new.
    fn find_or_insert(&mut self, pair: [u32; 2], at: u32) -> u32 {
        let slot = self.find(pair);
        if self.entries[slot].at != NONE {
            return self.entries[slot].at;
        }
        self.entries[slot] = Entry { pair, at };
        self.len += 1;
        if self.len > self.entries.len() / 4 * 3 {
            let larger = vec![EMPTY; self.entries.len() * 2];
            for entry in std::mem::replace(&mut self.entries, larger) {
                if entry.at != NONE {
                    let slot = self.find(entry.pair);
                    self.entries[slot] = entry;
                }
            }
        }
        at
    }

    /// Moves a pair that is there.
    fn set(&mut self, pair: [u32; 2], at: u32) {
        let slot = self.find(pair);
        self.entries[slot].at = at;
    }

    /// Takes a pair out, if it stands at `at`.
    fn remove(&mut self, pair: [u32; 2], at: u32) {
        let mut hole = self.find(pair);
        if self.entries[hole].at != at {
            return;
        }
        self.len -= 1;
        let mask = self.entries.len() - 1;
        let mut next = hole;
        loop {
            next = (next + 1) & mask;
            let entry = self.entries[next];
            if entry.at == NONE {
                break;
            }
            // An entry may move to the hole unless its own slot lies behind it.
            let home = self.slot(entry.pair);
            if next.wrapping_sub(home) & mask >= next.wrapping_sub(hole) & mask {
                self.entries[hole] = entry;
                hole = next;
            }
        }
        self.entries[hole] = EMPTY;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::test_texts::{Random, texts};

    fn grammar(text: &[u32]) -> Vec<Vec<u32>> {
        let mut sequitur = Sequitur::new();
        for &token in text {
            sequitur.push(token);
        }
        sequitur.finish()
    }

    fn expand(bodies: &[Vec<u32>], rule: usize, text: &mut Vec<u32>) {
        for &symbol in &bodies[rule] {
            if symbol >= RULE {
                expand(bodies, (symbol - RULE) as usize, text)
            } else {
                text.push(symbol)
            }
        }
    }

    #[test]
    fn a_grammar_expands_to_its_text() {
        for text in texts() {
            let mut expanded = Vec::new();
            expand(&grammar(&text), 0, &mut expanded);
            assert_eq!(expanded, text);
        }
    }

    #[test]
    fn no_pair_stands_twice_but_overlapping() {
        for text in texts() {
            let mut seen: HashMap<[u32; 2], (usize, usize)> = HashMap::new();
            for (rule, body) in grammar(&text).iter().enumerate() {
                for (at, pair) in body.windows(2).enumerate() {
                    let first = *seen.entry([pair[0], pair[1]]).or_insert((rule, at));
                    let is_run = pair[0] == pair[1] && first.0 == rule && at == first.1 + 1;
                    assert!(first == (rule, at) || is_run, "{pair:?} in {text:?}");
                }
            }
        }
    }

    #[test]
    fn every_rule_is_used_twice() {
        for text in texts() {
            let bodies = grammar(&text);
            let mut uses = vec![0; bodies.len()];
            for &symbol in bodies.iter().flatten().filter(|&&symbol| symbol >= RULE) {
                uses[(symbol - RULE) as usize] += 1;
            }
            assert!(uses[1..].iter().all(|&uses| uses >= 2), "{text:?}");
            assert!(bodies[1..].iter().all(|body| body.len() >= 2), "{text:?}");
        }
    }

    #[test]
    fn the_grammar_of_the_paper_is_found() {
        let text: Vec<u32> = b"abcdbcabcdbc"
            .iter()
            .map(|&byte| u32::from(byte))
            .collect();
        let bodies = grammar(&text);
        let mut lengths: Vec<usize> = bodies.iter().map(Vec::len).collect();
        lengths[1..].sort_unstable();
        // S -> A A, A -> a B d B, B -> b c.
        assert_eq!(lengths, [2, 2, 4]);
    }

    #[test]
    fn the_table_of_pairs_is_a_map() {
        let mut random = Random(7);
        let (mut table, mut map) = (PairTable::new(), HashMap::new());
        for _ in 0..20_000 {
            let pair = [random.below(40), random.below(40)];
            let at = random.below(3);
            match random.below(3) {
                0 => {
                    table.remove(pair, at);
                    if map.get(&pair) == Some(&at) {
                        map.remove(&pair);
                    }
                }
                _ => assert_eq!(
                    table.find_or_insert(pair, at),
                    *map.entry(pair).or_insert(at)
                ),
            }
            assert_eq!(table.len, map.len());
        }
    }
}
