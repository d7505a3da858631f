//! Byte offsets of all occurrences of a word.
//!
//! In   a grammar, its lengths in bytes, its signatures, its parents if they are there; a word's terminals; root positions
//! Out  offsets u64, ascending, of the word's own first byte, counted from the start of the segment
//! Work whichever is estimated least, as for counts, plus O(occurrences):
//!      walk   parents upward from the word, then the root positions of what was reached
//!      scan   the root positions, entering only rules whose signature has the word's bits
//!      table  a link for every rule, then every root symbol of the range
//!
//! Walk and table build the same structure, `Sites`: for every rule that
//! contains the word the places in its body that lead to it. A rule with a
//! single such place is passed over: its link names what it leads to and how
//! far inside. Then every step down from the root branches or ends, so a root
//! symbol costs what it has occurrences, however deep or long the rules are.

use std::ops::Range;

use rayon::prelude::*;

use crate::cost::{LOCATED_PLACE_FACTOR, POSITIONS_SYMBOLS};
use crate::count::occurrences::{Climb, Fallback, choose};
use crate::grammar::lengths::SAMPLE_SYMBOLS;
use crate::numbers::symbol_slots::NONE;
use crate::{GrammarView, Lengths, Parents, Signatures};

/// The terminals of one word: `first..spaced` are the word alone,
/// `spaced..end` have a space before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WordTerminals {
    /// The first terminal.
    pub first: u32,
    /// The first terminal that begins with a space, `end` if none does.
    pub spaced: u32,
    /// One more than the last terminal.
    pub end: u32,
}

impl WordTerminals {
    /// What `terminal` leads to: the word, after its space if it has one.
    #[inline]
    fn link(&self, terminal: u32) -> Link {
        if terminal < self.first || terminal >= self.end {
            Link::NONE
        } else {
            Link {
                bytes: u64::from(terminal >= self.spaced),
                target: HIT,
            }
        }
    }
}

/// The target of a link that leads to an occurrence.
pub(crate) const HIT: u32 = NONE - 1;

/// Where the expansion of a symbol leads: `bytes` inside it begins an
/// occurrence, or the node `target`, or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) bytes: u64,
    pub(crate) target: u32,
}

impl Link {
    const NONE: Link = Link {
        bytes: 0,
        target: NONE,
    };

    /// The same link, `bytes` further on.
    #[inline]
    fn behind(self, bytes: u64) -> Link {
        Link {
            bytes: bytes.saturating_add(self.bytes),
            target: self.target,
        }
    }
}

/// For each rule that contains the word at two or more places of its body, a
/// node, these places: links from the start of the rule, ascending.
struct Sites {
    /// `[nodes + 1]` into `links`.
    offsets: Vec<u32>,
    links: Vec<Link>,
}

impl Sites {
    fn new() -> Self {
        Sites {
            offsets: vec![0],
            links: Vec::new(),
        }
    }

    /// The link of a rule whose body has these links: a new node if several.
    fn add_rule(&mut self, links: impl Iterator<Item = Link>) -> Link {
        let node = self.offsets.len() as u32 - 1;
        let link = self.add_links(node, links);
        if link.target == node {
            // The links are at most the body symbols, whose number is a u32.
            self.offsets.push(self.links.len() as u32);
        }
        link
    }

    /// As `add_rule`, but every rule is added, in order, and has a node of its
    /// own number, which stays empty if it is passed over.
    fn add_numbered(&mut self, rule: u32, links: impl Iterator<Item = Link>) -> Link {
        let link = self.add_links(rule, links);
        self.offsets.push(self.links.len() as u32);
        link
    }

    fn add_links(&mut self, node: u32, links: impl Iterator<Item = Link>) -> Link {
        let start = self.links.len();
        self.links.extend(links);
        match self.links.len() - start {
            0 => Link::NONE,
            1 => self.links.pop().expect("one link was just added"),
            _ => Link {
                bytes: 0,
                target: node,
            },
        }
    }

    /// Appends the nodes that another has, behind its own.
    fn append(&mut self, other: Sites) {
        let before = self.links.len() as u32;
        let offsets = other.offsets[1..].iter();
        self.offsets.extend(offsets.map(|offset| before + offset));
        self.links.extend(other.links);
    }

    /// Appends the offsets of all occurrences behind `link`, which begins at byte `at`.
    #[inline]
    fn emit(&self, at: u64, link: Link, emitted: &mut Emitted) {
        let nodes = |node: u32| {
            let (first, end) = (self.offsets[node as usize], self.offsets[node as usize + 1]);
            (first as usize, end - first)
        };
        let next = |at: &mut usize| {
            *at += 1;
            self.links[*at - 1]
        };
        emitted.emit(at, link, nodes, next);
    }
}

/// Occurrences that links led to, in the order in which these were followed.
///
/// Once there are many, it remembers where those behind each node stand: when the node comes again they are copied, at the speed of
/// memory, and the links of text that repeats are followed once.
pub(crate) struct Emitted {
    pub(crate) offsets: Vec<u64>,
    stack: Vec<OpenNode>,
    /// How many nodes there are.
    nodes: usize,
    /// The number of offsets up to which ranges are copied; beyond it links are followed.
    copied_max: usize,
    /// For each node where its offsets begin in `offsets`, and how many there are, in 32 bits each; 0 if that is not known.
    /// Empty before there are many.
    ranges: Vec<u64>,
    /// For each node whose range is known, the offset of its expansion there.
    bases: Vec<u64>,
}

/// A node whose links are being followed.
struct OpenNode {
    node: u32,
    /// How many links are left.
    left: u32,
    /// Where the next of them is.
    cursor: usize,
    base: u64,
    /// Where its offsets begin.
    first: usize,
}

/// Fewest occurrences of a search that remembers nodes.
const REMEMBERED_MIN: usize = 1 << 12;

/// Occurrences behind a node up to which they are not copied.
const COPIED_MIN: usize = 4;

impl Emitted {
    /// Empty, for links with `nodes` nodes.
    pub(crate) fn new(nodes: usize) -> Emitted {
        Emitted {
            offsets: Vec::new(),
            stack: Vec::new(),
            nodes,
            copied_max: usize::MAX,
            ranges: Vec::new(),
            bases: Vec::new(),
        }
    }

    /// The same of links that may lead in a circle: it is left to `next` to end that.
    pub(crate) fn of_untrusted(nodes: usize, offsets_max: usize) -> Emitted {
        Emitted {
            copied_max: offsets_max,
            ..Emitted::new(nodes)
        }
    }

    /// Appends the offsets of all occurrences behind `link`, which begins at byte `at`. `nodes` gives where the links of a
    /// node begin and how many there are, `next` gives one and goes on to the next.
    #[inline]
    pub(crate) fn emit(
        &mut self,
        at: u64,
        link: Link,
        nodes: impl Fn(u32) -> (usize, u32),
        next: impl Fn(&mut usize) -> Link,
    ) {
        let mut at = at.wrapping_add(link.bytes);
        let mut target = link.target;
        loop {
            match target {
                NONE => {}
                HIT => self.offsets.push(at),
                node if self.copy(node, at) => {}
                node => {
                    let (cursor, left) = nodes(node);
                    self.stack.push(OpenNode {
                        node,
                        left,
                        cursor,
                        base: at,
                        first: self.offsets.len(),
                    });
                }
            }
            let link = loop {
                let Some(open) = self.stack.last_mut() else {
                    return;
                };
                if open.left > 0 {
                    open.left -= 1;
                    break next(&mut open.cursor);
                }
                self.close();
            };
            let base = self.stack.last().map_or(0, |open| open.base);
            at = base.wrapping_add(link.bytes);
            target = link.target;
        }
    }

    /// Copies the offsets behind a node, which begins at byte `at`, if they are there.
    #[inline]
    fn copy(&mut self, node: u32, at: u64) -> bool {
        let range = self.ranges.get(node as usize).copied().unwrap_or_default();
        if range == 0 {
            return false;
        }
        let (first, count) = ((range >> u32::BITS) as usize, range as u32 as usize);
        let distance = at.wrapping_sub(self.bases[node as usize]);
        let copied = self.offsets.len();
        if copied + count > self.copied_max {
            return false;
        }
        self.offsets.extend_from_within(first..first + count);
        for offset in &mut self.offsets[copied..] {
            *offset = offset.wrapping_add(distance);
        }
        true
    }

    /// Takes the last node off the stack, whose links have all been followed.
    fn close(&mut self) {
        let Some(open) = self.stack.pop() else { return };
        let (end, count) = (self.offsets.len(), self.offsets.len() - open.first);
        if end < REMEMBERED_MIN || count <= COPIED_MIN || u32::try_from(end).is_err() {
            return;
        }
        if self.ranges.is_empty() {
            // Untouched zero pages take no memory.
            self.ranges = vec![0; self.nodes];
            self.bases = vec![0; self.nodes];
        }
        // Both fit 32 bits, as `end` does.
        self.ranges[open.node as usize] = (open.first as u64) << u32::BITS | count as u64;
        self.bases[open.node as usize] = open.base;
    }
}

/// Rules of a level, root symbols or root positions that make one parallel task.
const TASK_ITEMS: usize = 1 << 13;

/// The structures of one segment that locating reads.
#[derive(Clone, Copy, Debug)]
pub struct Structures<'a> {
    /// The grammar.
    pub view: GrammarView<'a>,
    /// Its lengths in bytes.
    pub lengths: &'a Lengths,
    /// Its signatures.
    pub signatures: &'a Signatures,
    /// Its parents; without them there is no walk.
    pub parents: Option<&'a Parents>,
}

/// The offsets, from the start of the segment, of all occurrences of `word` in
/// the expansion of `root[positions]`, ascending.
///
/// `tokens` is about how many terminals that expands to; it only decides which
/// way is taken.
pub fn locate(
    structures: Structures<'_>,
    word: WordTerminals,
    positions: Range<usize>,
    tokens: u64,
) -> Vec<u64> {
    if positions.is_empty() || word.first == word.end {
        return Vec::new();
    }
    let Structures { view, lengths, .. } = structures;
    let source = SearchedSegment {
        view,
        lengths,
        word,
    };
    let (fallback, budget) = choose(view, &positions, tokens);
    if let Some(parents) = structures.parents
        && let Some(offsets) = source.by_walk(parents, &positions, budget / LOCATED_PLACE_FACTOR)
    {
        return offsets;
    }
    match fallback {
        Fallback::Scan => source.by_scan(structures.signatures, &positions),
        Fallback::Table => source.by_table(&positions),
    }
}

/// As [`locate`] for one file; offsets count from the start of the file.
pub fn locate_in_file(
    structures: Structures<'_>,
    word: WordTerminals,
    file: u32,
    tokens: u64,
) -> Vec<u64> {
    let positions = structures.view.root_range(file);
    let mut offsets = locate(structures, word, positions, tokens);
    let start = structures.lengths.file_starts[file as usize];
    for offset in &mut offsets {
        *offset -= start;
    }
    offsets
}

/// A segment and the word looked for.
#[derive(Clone, Copy)]
struct SearchedSegment<'a> {
    view: GrammarView<'a>,
    lengths: &'a Lengths,
    word: WordTerminals,
}

impl SearchedSegment<'_> {
    fn by_scan(&self, signatures: &Signatures, positions: &Range<usize>) -> Vec<u64> {
        let SearchedSegment {
            view,
            lengths,
            word,
        } = *self;
        let mask = signatures.mask(word.first..word.end);
        let mut starts = RootStarts::new(view, lengths);
        let mut offsets = Vec::new();
        view.traverse(
            positions.clone(),
            |symbol| signatures.bits[symbol as usize] & mask != 0,
            |position| starts.find(position),
            |symbol| lengths.symbols[symbol as usize],
            |at, terminal| {
                let link = word.link(terminal);
                if link.target == HIT {
                    offsets.push(at + link.bytes);
                }
            },
        );
        offsets
    }

    /// `None` if more than `budget` places would have to be visited.
    fn by_walk(
        &self,
        parents: &Parents,
        positions: &Range<usize>,
        budget: u64,
    ) -> Option<Vec<u64>> {
        let SearchedSegment { view, word, .. } = *self;
        let mut walk = Ascent::new(view, parents, budget);
        for terminal in word.first..word.end {
            walk.rise(terminal, word.link(terminal))?;
        }
        let mut sites = Sites::new();
        let mut body: Vec<(u32, Link)> = Vec::new();
        for level in 0..view.levels() {
            for (rule, slot) in walk.climb.take_level(level) {
                walk.collect_places(slot, &mut body);
                let link = sites.add_rule(self.measure(rule, &body));
                walk.links[slot as usize] = link;
                walk.rise(view.terminal_count + rule, link)?;
            }
        }

        if walk.reached.len() * POSITIONS_SYMBOLS > positions.len() {
            let found = (positions.clone()).map(|position| {
                let link = match view.root[position] {
                    terminal if terminal < view.terminal_count => word.link(terminal),
                    symbol => match walk.climb.find(symbol - view.terminal_count) {
                        NONE => Link::NONE,
                        slot => walk.links[slot as usize],
                    },
                };
                (position, link)
            });
            return Some(self.emit_root(&sites, found.filter(|(_, link)| link.target != NONE)));
        }
        let mut found: Vec<(u32, Link)> = Vec::new();
        for &(symbol, link) in &walk.reached {
            let positions = parents.positions_in(symbol, positions);
            found.extend(positions.iter().map(|&at| (at, link)));
        }
        // A root position holds one symbol: no two are equal.
        found.par_sort_unstable_by_key(|&(position, _)| position);
        Some(concat((found.par_chunks(TASK_ITEMS)).map(|found| {
            self.emit_root(&sites, found.iter().map(|&(at, link)| (at as usize, link)))
        })))
    }

    fn by_table(&self, positions: &Range<usize>) -> Vec<u64> {
        let SearchedSegment { view, word, .. } = *self;
        let terminals = view.terminal_count as usize;
        // Apart, because for most symbols only the target is examined.
        let mut targets = vec![NONE; view.symbol_count()];
        let mut bytes = vec![0u64; view.symbol_count()];
        for terminal in word.first..word.end {
            let link = word.link(terminal);
            targets[terminal as usize] = link.target;
            bytes[terminal as usize] = link.bytes;
        }
        let mut sites = Sites::new();
        for level in 0..view.levels() {
            let rules = view.level_rules(level);
            let (lower, upper) = targets.split_at_mut(terminals + rules.start);
            let (lower_bytes, upper_bytes) = bytes.split_at_mut(terminals + rules.start);
            let (lower, lower_bytes) = (&*lower, &*lower_bytes);
            // Nodes are numbered as rules, so that tasks need not agree on numbers.
            let fill = |(task, (targets, bytes)): (usize, (&mut [u32], &mut [u64]))| {
                let mut sites = Sites::new();
                let mut body: Vec<(u32, Link)> = Vec::new();
                let first = rules.start + task * TASK_ITEMS;
                for (index, (target, bytes)) in targets.iter_mut().zip(bytes).enumerate() {
                    // Rules and indexes in bodies are u32.
                    let rule = (first + index) as u32;
                    body.clear();
                    for (index, &symbol) in (0..).zip(view.body(rule)) {
                        let target = lower[symbol as usize];
                        if target != NONE {
                            let bytes = lower_bytes[symbol as usize];
                            body.push((index, Link { bytes, target }));
                        }
                    }
                    let link = sites.add_numbered(rule, self.measure(rule, &body));
                    (*target, *bytes) = (link.target, link.bytes);
                }
                sites
            };
            let targets = &mut upper[..rules.len()];
            let bytes = &mut upper_bytes[..rules.len()];
            if rules.len() <= TASK_ITEMS {
                sites.append(fill((0, (targets, bytes))));
            } else {
                let tasks = targets.par_chunks_mut(TASK_ITEMS);
                let tasks = tasks.zip(bytes.par_chunks_mut(TASK_ITEMS)).enumerate();
                let parts: Vec<Sites> = tasks.map(fill).collect();
                parts.into_iter().for_each(|part| sites.append(part));
            }
        }
        let root = &view.root[positions.clone()];
        concat(
            (root.par_chunks(TASK_ITEMS).enumerate()).map(|(task, root)| {
                let found = (positions.start + task * TASK_ITEMS..)
                    .zip(root)
                    .filter(|&(_, &symbol)| targets[symbol as usize] != NONE)
                    .map(|(position, &symbol)| {
                        let target = targets[symbol as usize];
                        let bytes = bytes[symbol as usize];
                        (position, Link { bytes, target })
                    });
                self.emit_root(&sites, found)
            }),
        )
    }

    /// The links of `places` in the body of `rule`, ascending by index, each
    /// moved to count from the start of the rule.
    fn measure(&self, rule: u32, places: &[(u32, Link)]) -> impl Iterator<Item = Link> {
        let SearchedSegment { view, lengths, .. } = *self;
        let body = view.body(rule);
        let (mut at, mut start) = (0, 0u64);
        places.iter().map(move |&(index, link)| {
            let index = index as usize;
            if index - at > SAMPLE_SYMBOLS {
                start = lengths.body_start(view, rule, index);
            } else {
                for &symbol in &body[at..index] {
                    start = start.saturating_add(lengths.symbols[symbol as usize]);
                }
            }
            at = index;
            link.behind(start)
        })
    }

    /// The offsets behind links at these root positions, which ascend.
    fn emit_root(&self, sites: &Sites, found: impl Iterator<Item = (usize, Link)>) -> Vec<u64> {
        let mut starts = RootStarts::new(self.view, self.lengths);
        let mut emitted = Emitted::new(sites.offsets.len() - 1);
        for (position, link) in found {
            sites.emit(starts.find(position), link, &mut emitted);
        }
        emitted.offsets
    }
}

/// Finds where root symbols begin, asked in ascending order.
struct RootStarts<'a> {
    view: GrammarView<'a>,
    lengths: &'a Lengths,
    position: usize,
    start: u64,
}

impl<'a> RootStarts<'a> {
    fn new(view: GrammarView<'a>, lengths: &'a Lengths) -> Self {
        RootStarts {
            view,
            lengths,
            position: 0,
            start: 0,
        }
    }

    /// Where the root symbol at `position`, not before the last one asked for,
    /// begins. Work: at most 16 lengths.
    #[inline]
    fn find(&mut self, position: usize) -> u64 {
        if position - self.position > SAMPLE_SYMBOLS {
            self.start = self.lengths.root_start(self.view, position);
        } else {
            for &symbol in &self.view.root[self.position..position] {
                self.start += self.lengths.symbols[symbol as usize];
            }
        }
        self.position = position;
        self.start
    }
}

/// The parts one after the other.
fn concat(parts: impl IndexedParallelIterator<Item = Vec<u64>>) -> Vec<u64> {
    let mut parts: Vec<Vec<u64>> = parts.collect();
    match parts.len() {
        1 => parts.remove(0),
        _ => parts.concat(),
    }
}

/// A place of the word, or of a rule that contains it, in the body of a rule:
/// one of that rule's list.
struct Place {
    index: u32,
    /// The next place in the same rule, or [`NONE`].
    next: u32,
    link: Link,
}

/// A climb that keeps the places it came through.
struct Ascent<'a> {
    view: GrammarView<'a>,
    parents: &'a Parents,
    budget: u64,
    climb: Climb,
    places: Vec<Place>,
    /// By slot: the last place found in the rule.
    heads: Vec<u32>,
    /// By slot: the rule's link, once its level is done.
    links: Vec<Link>,
    /// Every symbol passed, with its link.
    reached: Vec<(u32, Link)>,
}

impl<'a> Ascent<'a> {
    fn new(view: GrammarView<'a>, parents: &'a Parents, budget: u64) -> Self {
        Ascent {
            view,
            parents,
            budget,
            climb: Climb::new(view),
            places: Vec::new(),
            heads: Vec::new(),
            links: Vec::new(),
            reached: Vec::new(),
        }
    }

    /// Notes the places of `symbol`, which leads to `link`, in all bodies;
    /// `None` if that exceeds the budget.
    fn rise(&mut self, symbol: u32, link: Link) -> Option<()> {
        let range = self.parents.places(symbol);
        if (self.places.len() + range.len()) as u64 > self.budget {
            return None;
        }
        self.reached.push((symbol, link));
        let rules = &self.parents.rules[range.clone()];
        for (&rule, &index) in rules.iter().zip(&self.parents.indexes[range]) {
            let (slot, new) = self.climb.reach(self.view, rule);
            if new {
                self.heads.push(NONE);
                self.links.push(Link::NONE);
            }
            // The places are at most the body symbols, whose number is a u32.
            let place = self.places.len() as u32;
            let next = std::mem::replace(&mut self.heads[slot as usize], place);
            self.places.push(Place { index, next, link });
        }
        Some(())
    }

    /// Puts the places of the rule in `slot` into `body`, ascending by index.
    fn collect_places(&self, slot: u32, body: &mut Vec<(u32, Link)>) {
        body.clear();
        let mut next = self.heads[slot as usize];
        while next != NONE {
            let place = &self.places[next as usize];
            body.push((place.index, place.link));
            next = place.next;
        }
        body.sort_unstable_by_key(|&(index, _)| index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::test_grammars::{self, TestGrammar, in_pools};

    fn check(grammar: &TestGrammar) {
        let view = grammar.view();
        let lengths = &grammar.lengths();
        let (parents, signatures) = (&Parents::new(view), &grammar.signatures());
        for word in grammar.words() {
            let source = SearchedSegment {
                view,
                lengths,
                word,
            };
            let mut all = Vec::new();
            for file in 0..view.files() as u32 {
                let offsets = grammar.offsets(file, word);
                let positions = &view.root_range(file);
                let start = lengths.file_starts[file as usize];
                let global: Vec<u64> = offsets.iter().map(|offset| offset + start).collect();
                let walked = source.by_walk(parents, positions, u64::MAX);
                assert_eq!(walked.as_ref(), Some(&global));
                assert_eq!(source.by_scan(signatures, positions), global);
                assert_eq!(source.by_table(positions), global);
                for parents in [None, Some(parents)] {
                    let structures = Structures {
                        view,
                        lengths,
                        signatures,
                        parents,
                    };
                    for tokens in [0, 100, u64::MAX] {
                        assert_eq!(locate_in_file(structures, word, file, tokens), offsets);
                    }
                }
                all.extend(global);
            }
            let positions = &(0..view.root.len());
            let walked = source.by_walk(parents, positions, u64::MAX);
            assert_eq!(walked.as_ref(), Some(&all));
            assert_eq!(source.by_table(positions), all);
        }
    }

    #[test]
    fn all_ways_to_locate_equal_a_scan_of_the_expansion_of_all_small_grammars() {
        test_grammars::all_small().for_each(|grammar| check(&grammar));
    }

    #[test]
    fn all_ways_to_locate_equal_a_scan_of_the_expansion_of_random_and_extreme_grammars() {
        test_grammars::random_many(100).for_each(|grammar| check(&grammar));
        check(&test_grammars::deep_chain(1_000));
        check(&test_grammars::long_body(50_000));
        check(&test_grammars::runs(14));
    }

    #[test]
    fn a_rule_with_one_way_to_the_word_is_passed_over() {
        let hit = |bytes| Link { bytes, target: HIT };
        let mut sites = Sites::new();
        assert_eq!(sites.add_rule([].into_iter()), Link::NONE);
        assert_eq!(sites.add_rule([hit(4)].into_iter()), hit(4));
        let node = sites.add_rule([hit(4), hit(7)].into_iter());
        assert_eq!(sites.add_rule([node.behind(3)].into_iter()), node.behind(3));
        assert_eq!(sites.offsets, [0, 2]);

        let mut emitted = Emitted::new(1);
        sites.emit(100, node.behind(3), &mut emitted);
        assert_eq!(emitted.offsets, [107, 110]);
    }

    #[test]
    fn occurrences_behind_nodes_that_come_again_are_those_behind_their_links() {
        let mut sites = Sites::new();
        let hit = |bytes| Link { bytes, target: HIT };
        let mut links = vec![hit(3)];
        let mut expected: Vec<Vec<u64>> = vec![vec![3]];
        for level in 0..24u64 {
            // Each leads to two or three of those before it, at different distances.
            let parts = [level, level.saturating_sub(1), level / 2];
            let parts = &parts[..2 + level as usize % 2];
            let places = (0..)
                .zip(parts)
                .map(|(place, &part)| (place << 20, part as usize));
            let link = sites.add_rule(
                places
                    .clone()
                    .map(|(start, part)| links[part].behind(start)),
            );
            links.push(link);
            let offsets = places
                .flat_map(|(start, part)| expected[part].iter().map(move |offset| start + offset));
            expected.push(offsets.collect());
        }
        let mut emitted = Emitted::new(sites.offsets.len() - 1);
        let mut all = Vec::new();
        for (at, link) in [(50, 12), (1 << 40, 24), (7, 24), (1 << 50, 23)] {
            sites.emit(at, links[link], &mut emitted);
            all.extend(expected[link].iter().map(|offset| at + offset));
        }
        assert!(all.len() > 4 * REMEMBERED_MIN);
        assert!(!emitted.ranges.is_empty());
        assert!(emitted.offsets == all);
    }

    #[test]
    fn offsets_are_the_same_for_1_2_and_16_threads() {
        for grammar in [
            test_grammars::long_body(300_000),
            test_grammars::repeated_text(30),
        ] {
            let view = grammar.view();
            let (lengths, parents) = (&grammar.lengths(), &Parents::new(view));
            for word in grammar.words().into_iter().take(4) {
                let source = SearchedSegment {
                    view,
                    lengths,
                    word,
                };
                let positions = &(0..view.root.len());
                let walked = in_pools(|| source.by_walk(parents, positions, u64::MAX));
                assert!(walked == Some(in_pools(|| source.by_table(positions))));
            }
        }
    }
}
