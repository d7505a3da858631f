//! Where every word occurs: the grammar projected on each of its words.
//!
//! In   a grammar, its lengths in one unit; for each terminal its word and how far inside it begins
//! Out  for each word, roots: where it leads from each root symbol that contains it, ascending, and
//!      nodes: the places in the bodies of rules that contain it more than eight times; offsets u64, ascending
//! Work built: O(pairs of a symbol and a word in it, of bodies and root), by levels, then a counting sort by word.
//!      A search: a binary search for the file in the word's roots, then O(occurrences)
//!
//! A rule that contains a word once is passed over, as by [`locate`](crate::lookup::locate), whose walk up the rules finds the same for one
//! word: so every step down from the root branches or ends. An entry of the roots is the offset of an occurrence, or that of a
//! rule's expansion and its node; where that has few places these are entries of their own. All numbers are packed in bytes, offsets
//! as distances from the one before; of every 32nd entry of a word its place is kept. Nodes of a word lie side by side, so that a
//! search reads few lines of the cache.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use rayon::prelude::*;

use crate::lookup::locate::{Emitted, HIT, Link};
use crate::numbers::varints::{put, read, take};
use crate::stop::{Stopped, check};
use crate::{GAP, GrammarView, Lengths, PackedNumbers};

pub(crate) mod stored;

/// The bit that marks the number of a node, not an offset.
const NODE: u32 = 1 << 31;

/// Entries of roots, links and pairs for each symbol of the grammar at most, and however small the grammar.
const SYMBOL_ENTRIES_MAX: usize = 64;
const ENTRIES_MIN: usize = 1 << 20;

/// Entries of a word between two samples.
const SAMPLE_ENTRIES: usize = 32;

/// Bytes of a sample: an offset and a place, 32 bits each.
const SAMPLE_BYTES: usize = 8;

/// Words whose roots one task packs.
const TASK_WORDS: usize = 1 << 10;

/// Nodes whose links one task packs.
const TASK_NODES: usize = 1 << 14;

/// A rule gets a node for a word that it contains more often than this. Fewer places are copied to all that contains the rule: there
/// they take about as many bytes as the number of a node, and a search takes no step to them.
const INLINED_MAX: usize = 8;

/// Rules of a level that make one parallel task.
const TASK_RULES: usize = 1 << 10;

/// Root symbols between two checks of the stop flag.
const STOP_SYMBOLS: usize = 1 << 16;

/// For each word all its places in a segment.
#[derive(Debug, PartialEq, Eq)]
pub struct WordPlaces {
    /// Where each word begins in `roots`.
    words: PackedNumbers,
    /// For each word how many entries it has; of the 33rd and each 32nd after it the offset of the entry before and where the entry
    /// stands, counted from the first; then the entries: twice the distance from the one before, and 1 more if it has a node,
    /// which follows.
    roots: Vec<u8>,
    /// Where each node begins in `links`.
    nodes: PackedNumbers,
    /// For each node how many links it has, then the links: twice the distance from the start, and 1 more if it leads to a node, which
    /// follows.
    links: Vec<u8>,
}

/// Where a link leads: `start` inside begins an occurrence if the target is [`HIT`], else the expansion that the node
/// `target` belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LinkEnd {
    start: u32,
    target: u32,
}

/// A place of a word in a symbol, or the node of all its places there.
#[derive(Clone, Copy, Debug)]
struct WordNode {
    word: u32,
    step: LinkEnd,
}

/// Rules of one level, in order, with what they contain. The numbers of nodes count from the first of these.
#[derive(Default)]
struct LevelPart {
    /// For each rule where its places end.
    ends: Vec<usize>,
    places: Vec<WordNode>,
    /// For each node its word and where its links end.
    nodes: Vec<(u32, usize)>,
    links: Vec<LinkEnd>,
}

/// Nodes in the order in which levels give them: those that one leads to come before it.
#[derive(Default)]
struct LevelNodes {
    /// The word of each.
    words: Vec<u32>,
    /// Where each begins in `links`, which are as those of [`WordPlaces`].
    starts: PackedNumbers,
    links: Vec<u8>,
}

/// What the rules below a level contain.
struct LevelLists<'a, W> {
    view: GrammarView<'a>,
    lengths: &'a Lengths,
    word_of: W,
    /// `[rules + 1]` into `places`.
    offsets: Vec<usize>,
    places: Vec<WordNode>,
}

impl WordPlaces {
    /// Size of the arrays.
    pub fn bytes(&self) -> usize {
        let WordPlaces {
            words,
            roots,
            nodes,
            links,
        } = self;
        words.bytes() + roots.len() + nodes.bytes() + links.len()
    }

    /// Finds all places of `words` words; `word_of` gives each terminal its word, or [`GAP`], and how much of the
    /// terminal, in the unit of `lengths`, lies before it.
    ///
    /// `None` if offsets do not fit into 31 bits, or if it would be out of proportion to the grammar: more than 64
    /// entries a symbol. Memory: 2 to 6 bytes a root symbol and word in it, 2 to 5 bytes a place in a body that holds a word
    /// of another one; while built also 4 to 8 bytes a root symbol and word in it, 12 bytes a rule and word in it, up to eight times
    /// as many where the word is there as often, and 4 bytes a word and thread.
    ///
    /// # Errors
    /// If it is stopped.
    pub fn new(
        view: GrammarView<'_>,
        lengths: &Lengths,
        words: u32,
        word_of: impl Fn(u32) -> (u32, u32) + Sync,
        stop: &AtomicBool,
    ) -> Result<Option<WordPlaces>, Stopped> {
        let longest = lengths.symbols.iter().chain(lengths.file_starts.last());
        if longest
            .max()
            .is_some_and(|&length| length >= u64::from(NODE))
        {
            return Ok(None);
        }
        let symbols = view.symbols.len() + view.root.len();
        let mut left = (symbols * SYMBOL_ENTRIES_MAX).max(ENTRIES_MIN);
        let mut lists = LevelLists {
            view,
            lengths,
            word_of,
            offsets: vec![0],
            places: Vec::new(),
        };
        let mut nodes = LevelNodes::default();
        for level in 0..view.levels() {
            let rules = view.level_rules(level);
            let tasks = rules.len().div_ceil(TASK_RULES);
            let parts: Vec<LevelPart> = (0..tasks)
                .into_par_iter()
                .map(|task| {
                    check(stop)?;
                    let first = rules.start + task * TASK_RULES;
                    Ok(lists.part(first..rules.end.min(first + TASK_RULES), left))
                })
                .collect::<Result<_, Stopped>>()?;
            for part in parts {
                let size = part.places.len() + part.links.len();
                match left.checked_sub(size) {
                    Some(rest) => left = rest,
                    None => return Ok(None),
                }
                // Below 2^31: there are at least two links a node, and `left` of them at most.
                lists.append(part.ends, part.places, nodes.words.len() as u32);
                nodes.append(&part.nodes, &part.links);
            }
        }
        let Some((offsets, roots)) = lists.roots(words, left, stop)? else {
            return Ok(None);
        };
        drop(lists);
        let numbers = nodes.numbers_by_word(words);
        let (starts, links) = nodes.renumbered(&numbers);
        let (words, roots) = pack_roots(&offsets, &roots, &numbers);
        Ok(Some(WordPlaces {
            words,
            roots,
            nodes: starts,
            links,
        }))
    }

    /// The offsets of `word` in a range of the segment that begins and ends where files do, ascending.
    ///
    /// Work: a binary search, then O(occurrences).
    pub fn places(&self, word: u32, range: Range<u64>) -> Vec<u64> {
        let nodes = |node: u32| {
            let mut at = self.nodes.get(node as usize) as usize;
            // The links are at most the body symbols, whose number is a u32.
            let count = read(&self.links, &mut at) as u32;
            (at, count)
        };
        let next = |at: &mut usize| {
            let (bytes, node) = read_entry(&self.links, at);
            let target = node.unwrap_or(HIT);
            Link { bytes, target }
        };
        let begin = self.words.get(word as usize) as usize;
        let cursor = RootCursor::new(&self.roots[begin..]);
        let mut cursor = cursor.expect("packed by this module");
        cursor.places(range, Emitted::new(self.nodes.len()), nodes, next)
    }
}

/// Appends a distance, and the node that follows if there is one.
#[inline(always)]
fn put_entry(bytes: &mut Vec<u8>, distance: u64, node: Option<u32>) {
    put(bytes, distance << 1 | u64::from(node.is_some()));
    if let Some(node) = node {
        put(bytes, u64::from(node));
    }
}

/// A distance, and the node that follows if there is one.
#[inline(always)]
fn read_entry(bytes: &[u8], at: &mut usize) -> (u64, Option<u32>) {
    let number = read(bytes, at);
    // Nodes are counted by 31 bits.
    let node = (number & 1 != 0).then(|| read(bytes, at) as u32);
    (number >> 1, node)
}

/// The same of bytes that may be cut off.
#[inline(always)]
fn take_entry(rest: &mut &[u8]) -> Option<(u64, Option<u32>)> {
    let number = take(rest)?;
    let node = match number & 1 {
        0 => None,
        _ => Some(u32::try_from(take(rest)?).ok()?),
    };
    Some((number >> 1, node))
}

/// Goes through the entries of a word.
struct RootCursor<'a> {
    samples: &'a [[u8; SAMPLE_BYTES]],
    /// Entries from here on.
    rest: &'a [u8],
    /// How many these are.
    left: usize,
    /// The offset of the entry before.
    offset: u64,
}

impl RootCursor<'_> {
    /// A cursor at the first entry of the word whose bytes these begin with; none if they are cut off.
    fn new(bytes: &[u8]) -> Option<RootCursor<'_>> {
        let mut rest = bytes;
        let left = usize::try_from(take(&mut rest)?).ok()?;
        let samples = samples_of(left).checked_mul(SAMPLE_BYTES)?;
        let (samples, rest) = rest.split_at_checked(samples)?;
        let (samples, _) = samples.as_chunks::<SAMPLE_BYTES>();
        Some(RootCursor {
            samples,
            rest,
            left,
            offset: 0,
        })
    }

    /// Goes on to at most 31 entries before the first at `offset` or behind it. To be called before any `next`.
    fn skip_to(&mut self, offset: u64) {
        let skipped = (self.samples).partition_point(|sample| sample_of(sample).0 < offset);
        if let Some(last) = skipped.checked_sub(1) {
            let (before, place) = sample_of(&self.samples[last]);
            self.offset = before;
            self.rest = self.rest.get(place..).unwrap_or_default();
            self.left = self.left.saturating_sub(skipped * SAMPLE_ENTRIES);
        }
    }

    /// The next entry: an offset, and the node of the expansion there. None behind the last, of which none are left then, and where
    /// the bytes are cut off.
    #[inline]
    fn next(&mut self) -> Option<(u64, Option<u32>)> {
        let left = self.left.checked_sub(1)?;
        let (distance, node) = take_entry(&mut self.rest)?;
        self.offset = self.offset.checked_add(distance)?;
        self.left = left;
        Some((self.offset, node))
    }

    /// The offsets in a range, which are put into `emitted`. `nodes` gives where the links of a node begin and how many there are,
    /// `next` gives one and goes on to the next.
    #[inline]
    fn places(
        &mut self,
        range: Range<u64>,
        mut emitted: Emitted,
        nodes: impl Fn(u32) -> (usize, u32),
        next: impl Fn(&mut usize) -> Link,
    ) -> Vec<u64> {
        self.skip_to(range.start);
        while let Some((start, node)) = self.next()
            && start < range.end
        {
            match node {
                _ if start < range.start => {}
                None => emitted.offsets.push(start),
                Some(target) => emitted.emit(start, Link { bytes: 0, target }, &nodes, &next),
            }
        }
        emitted.offsets
    }
}

/// The offset of the entry before, and where the entry stands.
fn sample_of(sample: &[u8; SAMPLE_BYTES]) -> (u64, usize) {
    let sample = u64::from_le_bytes(*sample);
    (sample & u64::from(u32::MAX), (sample >> u32::BITS) as usize)
}

/// The number of samples of a word with `entries` entries.
fn samples_of(entries: usize) -> usize {
    entries.saturating_sub(1) / SAMPLE_ENTRIES
}

/// The bytes of all items, one after the other, and where those of each item begin. `pack` appends the bytes of an item; a parallel task
/// packs `task_items` of them.
fn pack_all(
    items: usize,
    task_items: usize,
    pack: impl Fn(usize, &mut Vec<u8>) + Sync,
) -> (PackedNumbers, Vec<u8>) {
    let tasks = (0..items).into_par_iter().step_by(task_items);
    let parts: Vec<(Vec<usize>, Vec<u8>)> = tasks
        .map(|first| {
            let (mut begins, mut bytes) = (Vec::new(), Vec::new());
            for item in first..items.min(first + task_items) {
                begins.push(bytes.len());
                pack(item, &mut bytes);
            }
            (begins, bytes)
        })
        .collect();
    let mut starts = PackedNumbers::default();
    let mut packed = Vec::with_capacity(parts.iter().map(|(_, bytes)| bytes.len()).sum());
    for (begins, bytes) in parts {
        starts.extend(begins.iter().map(|begin| (packed.len() + begin) as u64));
        packed.extend_from_slice(&bytes);
    }
    starts.shrink();
    (starts, packed)
}

/// Packs entries of all words; those of word w are `roots[offsets[w]..offsets[w + 1]]`, where a node, which has the highest bit
/// set, stands behind its offset. `numbers` has the number that each node gets.
fn pack_roots(offsets: &[u32], roots: &[u32], numbers: &[u32]) -> (PackedNumbers, Vec<u8>) {
    pack_all(offsets.len() - 1, TASK_WORDS, |word, bytes| {
        let range = offsets[word] as usize..offsets[word + 1] as usize;
        pack_word(&roots[range], numbers, bytes);
    })
}

/// Packs the entries of a word.
fn pack_word(roots: &[u32], numbers: &[u32], bytes: &mut Vec<u8>) {
    let count = roots.iter().filter(|&&entry| entry < NODE).count();
    put(bytes, count as u64);
    let mut sample = bytes.len();
    bytes.resize(sample + samples_of(count) * SAMPLE_BYTES, 0);
    let first = bytes.len();
    let mut before = 0u32;
    let (mut entries, mut packed) = (roots.iter().peekable(), 0);
    while let Some(&offset) = entries.next() {
        if packed > 0 && packed % SAMPLE_ENTRIES == 0 {
            // Below 2^32: entries take at most two bytes for each unit up to the next, of which there are fewer than 2^31.
            let place = (bytes.len() - first) as u64;
            let kept = place << u32::BITS | u64::from(before);
            bytes[sample..sample + SAMPLE_BYTES].copy_from_slice(&kept.to_le_bytes());
            sample += SAMPLE_BYTES;
        }
        let node = entries.next_if(|&&entry| entry >= NODE);
        let number = node.map(|node| numbers[(node - NODE) as usize]);
        put_entry(bytes, u64::from(offset - before), number);
        before = offset;
        packed += 1;
    }
}

impl LevelNodes {
    /// Appends nodes, each with its word and where its links end.
    fn append(&mut self, nodes: &[(u32, usize)], links: &[LinkEnd]) {
        let mut first = 0;
        for &(word, end) in nodes {
            self.words.push(word);
            self.starts.push(self.links.len() as u64);
            put(&mut self.links, (end - first) as u64);
            for link in &links[first..end] {
                let node = (link.target != HIT).then_some(link.target);
                put_entry(&mut self.links, u64::from(link.start), node);
            }
            first = end;
        }
    }

    /// The number that each node gets where those of a word lie side by side, and words in order.
    fn numbers_by_word(&self, words: u32) -> Vec<u32> {
        let mut next = vec![0u32; words as usize + 1];
        for &word in &self.words {
            next[word as usize + 1] += 1;
        }
        let mut sum = 0;
        for next in &mut next {
            sum += *next;
            *next = sum;
        }
        let number = |&word: &u32| {
            let next = &mut next[word as usize];
            *next += 1;
            *next - 1
        };
        self.words.iter().map(number).collect()
    }

    /// Where links begin, and the links, in the order of these numbers and with them.
    fn renumbered(&self, numbers: &[u32]) -> (PackedNumbers, Vec<u8>) {
        let mut old = vec![0u32; numbers.len()];
        for (node, &number) in (0..).zip(numbers) {
            old[number as usize] = node;
        }
        pack_all(old.len(), TASK_NODES, |number, bytes| {
            let mut at = self.starts.get(old[number] as usize) as usize;
            let count = read(&self.links, &mut at);
            put(bytes, count);
            for _ in 0..count {
                let (start, node) = read_entry(&self.links, &mut at);
                put_entry(bytes, start, node.map(|node| numbers[node as usize]));
            }
        })
    }
}

impl<W: Fn(u32) -> (u32, u32) + Sync> LevelLists<'_, W> {
    /// Calls `take` with what `symbol` contains.
    #[inline]
    fn of(&self, symbol: u32, mut take: impl FnMut(WordNode)) {
        match self.view.rule(symbol) {
            Some(rule) => {
                let rule = rule as usize;
                let places = &self.places[self.offsets[rule]..self.offsets[rule + 1]];
                places.iter().copied().for_each(take);
            }
            None => {
                let (word, start) = (self.word_of)(symbol);
                if word != GAP {
                    let target = HIT;
                    let step = LinkEnd { start, target };
                    take(WordNode { word, step });
                }
            }
        }
    }

    /// What rules of the next level contain; ends early once that is more than `left` entries.
    fn part(&self, rules: Range<usize>, left: usize) -> LevelPart {
        let mut part = LevelPart::default();
        let mut found: Vec<WordNode> = Vec::new();
        for rule in rules {
            let mut before = 0u32;
            // Rules are counted by a u32, and the length of an expansion fits 31 bits.
            for &symbol in self.view.body(rule as u32) {
                self.of(symbol, |WordNode { word, step }| {
                    let start = before + step.start;
                    found.push(WordNode {
                        word,
                        step: LinkEnd { start, ..step },
                    });
                });
                before += self.lengths.symbols[symbol as usize] as u32;
            }
            // Stable: places of a word keep the order of the body. It finds the runs, which are ascending.
            found.sort_by_key(|place| place.word);
            for same in found.chunk_by(|left, right| left.word == right.word) {
                let is_hit = |place: &WordNode| place.step.target == HIT;
                if same.len() == 1 || same.len() <= INLINED_MAX && same.iter().all(is_hit) {
                    part.places.extend_from_slice(same);
                    continue;
                }
                let target = NODE | part.nodes.len() as u32;
                part.links.extend(same.iter().map(|place| place.step));
                part.nodes.push((same[0].word, part.links.len()));
                let step = LinkEnd { start: 0, target };
                part.places.push(WordNode { step, ..same[0] });
            }
            found.clear();
            part.ends.push(part.places.len());
            if part.places.len() + part.links.len() > left {
                break;
            }
        }
        part
    }

    /// Appends what the next rules contain, whose nodes count from `first_node`.
    fn append(&mut self, ends: Vec<usize>, places: Vec<WordNode>, first_node: u32) {
        let before = self.places.len();
        self.offsets.extend(ends.iter().map(|end| before + end));
        self.places.extend(places.into_iter().map(|mut place| {
            place.step.target = moved(place.step.target, first_node);
            place
        }));
    }

    /// For each word where its entries begin, and the entries; `None` if there are more than `left`.
    #[expect(
        clippy::type_complexity,
        reason = "two arrays, named where they are taken"
    )]
    fn roots(
        &self,
        words: u32,
        left: usize,
        stop: &AtomicBool,
    ) -> Result<Option<(Vec<u32>, Vec<u32>)>, Stopped> {
        let root = self.view.root;
        let size = root
            .len()
            .div_ceil(rayon::current_num_threads())
            .max(STOP_SYMBOLS);
        let parts: Vec<Range<usize>> = (0..root.len())
            .step_by(size)
            .map(|start| start..root.len().min(start + size))
            .collect();
        let mut cursors: Vec<Vec<u32>> = parts
            .par_iter()
            .map(|part| {
                let mut counts = vec![0u32; words as usize];
                for symbols in root[part.clone()].chunks(STOP_SYMBOLS) {
                    check(stop)?;
                    for &symbol in symbols {
                        self.of(symbol, |place| {
                            // Entries begin at different offsets, which fit 31 bits.
                            counts[place.word as usize] += 1 + u32::from(place.step.target != HIT);
                        });
                    }
                }
                Ok(counts)
            })
            .collect::<Result<_, Stopped>>()?;
        let mut offsets = Vec::with_capacity(words as usize + 1);
        let mut end = 0u32;
        for word in 0..words as usize {
            offsets.push(end);
            for counts in &mut cursors {
                let count = counts[word];
                counts[word] = end;
                end += count;
            }
        }
        offsets.push(end);
        if end as usize > left {
            return Ok(None);
        }
        let roots: Vec<AtomicU32> = (0..end).map(|_| AtomicU32::new(0)).collect();
        parts
            .into_par_iter()
            .zip(&mut cursors)
            .try_for_each(|(part, cursors)| {
                let mut before = self.lengths.root_start(self.view, part.start) as u32;
                for symbols in root[part].chunks(STOP_SYMBOLS) {
                    check(stop)?;
                    for &symbol in symbols {
                        self.of(symbol, |WordNode { word, step }| {
                            let cursor = &mut cursors[word as usize];
                            let mut put = |entry| {
                                roots[*cursor as usize].store(entry, Ordering::Relaxed);
                                *cursor += 1;
                            };
                            put(before + step.start);
                            if step.target != HIT {
                                put(NODE | step.target);
                            }
                        });
                        before += self.lengths.symbols[symbol as usize] as u32;
                    }
                }
                Ok(())
            })?;
        let roots = roots.into_iter().map(AtomicU32::into_inner).collect();
        Ok(Some((offsets, roots)))
    }
}

/// A target of a part whose nodes count from `first_node` on.
fn moved(target: u32, first_node: u32) -> u32 {
    match target {
        HIT => HIT,
        target if target >= NODE => target - NODE + first_node,
        target => target,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::grammar::test_grammars::{self, TestGrammar, in_pools};

    static GO: AtomicBool = AtomicBool::new(false);

    pub(super) fn places_of(grammar: &TestGrammar) -> WordPlaces {
        let (word_of, word_count) = grammar.word_of();
        let words = grammar.words();
        let word_of = |terminal: u32| match word_of[terminal as usize] {
            GAP => (GAP, 0),
            word => (word, u32::from(terminal >= words[word as usize].spaced)),
        };
        WordPlaces::new(grammar.view(), &grammar.lengths(), word_count, word_of, &GO)
            .expect("not stopped")
            .expect("small")
    }

    fn check_places(grammar: &TestGrammar) {
        let (view, lengths) = (grammar.view(), grammar.lengths());
        let places = places_of(grammar);
        for (number, word) in (0..).zip(grammar.words()) {
            let mut all = Vec::new();
            for file in 0..view.files() as u32 {
                let range = lengths.file_range(file);
                let offsets = grammar.offsets(file, word);
                let offsets: Vec<u64> = offsets.iter().map(|offset| range.start + offset).collect();
                assert_eq!(places.places(number, range), offsets);
                all.extend(offsets);
            }
            assert_eq!(places.places(number, 0..u64::MAX), all);
        }
    }

    #[test]
    fn places_equal_a_scan_of_the_expansion_of_all_small_grammars() {
        test_grammars::all_small().for_each(|grammar| check_places(&grammar));
    }

    #[test]
    fn places_equal_a_scan_of_the_expansion_of_random_and_extreme_grammars() {
        test_grammars::random_many(100).for_each(|grammar| check_places(&grammar));
        check_places(&test_grammars::deep_chain(1_000));
        check_places(&test_grammars::long_body(50_000));
        check_places(&test_grammars::runs(14));
    }

    #[test]
    fn positions_are_places_in_the_grammar_over_words() {
        for grammar in test_grammars::random_many(20) {
            let words = grammar.word_grammar();
            let view = words.view();
            let lengths = Lengths::new(view, |_| 1);
            let places =
                WordPlaces::new(view, &lengths, view.terminal_count, |word| (word, 0), &GO)
                    .expect("not stopped")
                    .expect("small");
            let mut all: Vec<Vec<u64>> = vec![Vec::new(); view.terminal_count as usize];
            let expanded = grammar.all_file_words().concat();
            for (position, word) in (0..).zip(expanded) {
                all[word as usize].push(position);
            }
            for (word, all) in (0..).zip(all) {
                assert_eq!(places.places(word, 0..u64::MAX), all);
            }
        }
    }

    #[test]
    fn places_are_the_same_for_1_2_and_16_threads() {
        for grammar in [
            test_grammars::long_body(300_000),
            test_grammars::repeated_text(30),
        ] {
            in_pools(|| places_of(&grammar));
        }
    }

    #[test]
    fn it_can_be_stopped_and_is_not_made_of_what_is_too_long() {
        let grammar = test_grammars::long_body(1_000);
        let view = grammar.view();
        let new = |lengths: &Lengths, stop| {
            WordPlaces::new(view, lengths, 1, |_| (GAP, 0), &AtomicBool::new(stop))
        };
        assert_eq!(new(&grammar.lengths(), true), Err(Stopped));
        let long = Lengths::new(view, |_| u64::from(NODE));
        assert_eq!(new(&long, false), Ok(None));
    }

    #[test]
    fn what_is_out_of_proportion_is_not_made() {
        // Each rule has all words: the square of what the grammar has.
        let grammar = test_grammars::nested_vocabulary(3_000);
        let (view, lengths) = (grammar.view(), grammar.lengths());
        let words = |terminal| (terminal, 0);
        let made = WordPlaces::new(view, &lengths, view.terminal_count, words, &GO);
        assert_eq!(made, Ok(None));
    }
}
