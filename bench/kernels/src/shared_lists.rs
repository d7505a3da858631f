//! All lists of an index as one grammar over their gaps, for corpora whose files are versions of each other.
//!
//! The invariant: any list is decoded or sought alone, and whatever bytes are opened, nothing panics and ids that come out
//! ascend below the universe.
//!
//! Words of versions have the same lists, or lists that differ by a run: Re-Pair of the gaps (Claude and Navarro, 2010) gives
//! each of them a symbol or few. The grammar is made as that of a text whose files are the lists, so no rule crosses lists.
//! A list is the codes of its symbols, by Huffman; where it ends follows from how many ids it has. Every 32nd list has the bit
//! where it begins. How many ids a rule has and what they span is computed when the lists are opened.

use zipfdb_kernels::postings::MalformedPostings;
use zipfdb_kernels::postings::building_blocks::{
    BitInput, BitWriter, PackedArray, bit_length, decode_interpolative, encode_interpolative,
};
use zipfdb_kernels::{Parameters, construct};

use crate::prefix_code::{self, PrefixCode};

/// Lists that share an offset.
const SHARED: usize = 32;

/// Appends lists: list i is `ids[offsets[i]..offsets[i + 1]]`, which ascend.
///
/// Takes memory of about 20 bytes an id, and time as the construction of a grammar.
///
/// # Panics
///
/// When offsets do not rise from 0 to the number of ids, or there are more ids and lists than construction takes.
pub fn encode_shared_lists(offsets: &[u32], ids: &[u32], bytes: &mut Vec<u8>) {
    let mut tokens = Vec::with_capacity(ids.len());
    for bounds in offsets.windows(2) {
        let mut next = 0;
        for &id in &ids[bounds[0] as usize..bounds[1] as usize] {
            tokens.push(id - next);
            next = id + 1;
        }
    }
    let mut gaps = tokens.clone();
    gaps.sort_unstable();
    gaps.dedup();
    for token in &mut tokens {
        let index = gaps.binary_search(token);
        // The number of gaps is at most that of tokens.
        *token = index.expect("gaps are those of all tokens") as u32;
    }
    let terminals = gaps.len() as u32;
    let parameters = Parameters::default();
    let grammar = construct(tokens, offsets, terminals, &parameters, &mut |_| {});
    let rules = grammar.rule_offsets.len() - 1;
    let mut writer = BitWriter::new(bytes);
    let gap_end = gaps.last().map_or(0, |&gap| u64::from(gap) + 1);
    writer.put_number(gap_end);
    writer.put_number(gaps.len() as u64);
    encode_interpolative(&gaps, 0, gap_end, &mut writer);
    writer.put_number(rules as u64);
    let symbols = terminals as usize + rules;
    // Rules only hold symbols before them.
    for (rule, bounds) in grammar.rule_offsets.windows(2).enumerate() {
        let body = &grammar.symbols[bounds[0] as usize..bounds[1] as usize];
        (0..body.len() - 2).for_each(|_| writer.put(1, 1));
        writer.put(0, 1);
        let width = bit_length((terminals as usize + rule) as u64);
        (body.iter()).for_each(|&symbol| writer.put(symbol.into(), width));
    }
    let mut counts = vec![0; symbols];
    (grammar.root.iter()).for_each(|&symbol| counts[symbol as usize] += 1);
    let lengths = prefix_code::lengths(&counts);
    prefix_code::put_lengths(&lengths, &mut writer);
    let roots = grammar.root_offsets.windows(2);
    let root = |bounds: &[u32]| &grammar.root[bounds[0] as usize..bounds[1] as usize];
    let mut begins = Vec::new();
    let mut at = 0;
    for (list, bounds) in roots.clone().enumerate() {
        if list % SHARED == 0 && list > 0 {
            begins.push(at);
        }
        let own = root(bounds).iter();
        at += own
            .map(|&symbol| u64::from(lengths[symbol as usize]))
            .sum::<u64>();
    }
    let width = bit_length(begins.last().copied().unwrap_or(0));
    writer.put(width.into(), 6);
    begins.iter().for_each(|&begin| writer.put(begin, width));
    let code = PrefixCode::new(lengths).expect("lengths of a code");
    let codes = code.codes();
    for bounds in roots {
        (root(bounds).iter()).for_each(|&symbol| code.put(&codes, symbol, &mut writer));
    }
    writer.finish();
}

/// Lists that were opened.
#[derive(Clone, Debug)]
pub struct SharedLists<'a> {
    offsets: &'a [u32],
    universe: u32,
    gaps: Vec<u32>,
    rule_offsets: Vec<usize>,
    bodies: Vec<u32>,
    /// By symbol: how many ids it has, and how far the last is behind what was before the first; none if too many or too far.
    lengths: Vec<u32>,
    spans: Vec<u32>,
    code: PrefixCode,
    begins: PackedArray<'a>,
    input: BitInput<'a>,
}

impl<'a> SharedLists<'a> {
    /// Reads the grammar of lists whose offsets and universe are known.
    ///
    /// # Errors
    ///
    /// [`MalformedPostings`] if no encoder wrote that.
    pub fn new(
        bytes: &'a [u8],
        offsets: &'a [u32],
        universe: u32,
    ) -> Result<SharedLists<'a>, MalformedPostings> {
        let mut input = BitInput::new(bytes);
        if offsets.is_empty() || !offsets.is_sorted() {
            return Err(MalformedPostings);
        }
        let gap_end = input.number()?;
        let gap_count = input.number()?;
        let ids = u64::from(offsets[offsets.len() - 1]);
        if gap_end > universe.into() || gap_count > gap_end || gap_count > ids {
            return Err(MalformedPostings);
        }
        let mut gaps = vec![0; gap_count as usize]; // at most the ids
        decode_interpolative(&mut gaps, 0, gap_end, &mut input);
        let rules = input.number()?;
        // A rule takes a bit at least.
        if rules > bytes.len() as u64 * 8 {
            return Err(MalformedPostings);
        }
        let mut lists = SharedLists {
            offsets,
            universe,
            lengths: vec![1; gaps.len()],
            spans: gaps.iter().map(|&gap| gap + 1).collect(),
            rule_offsets: vec![0],
            bodies: Vec::new(),
            code: PrefixCode::new(Vec::new())?,
            begins: input.array(0, 0)?,
            input,
            gaps,
        };
        let symbols = lists.gaps.len() + rules as usize; // at most the bits
        for symbol in lists.gaps.len()..symbols {
            lists.read_rule(symbol as u64)?;
        }
        let mut input = lists.input;
        lists.code = PrefixCode::read(symbols, &mut input)?;
        let width = input.read(6) as u32;
        let groups = (offsets.len() - 1).saturating_sub(1) / SHARED;
        lists.begins = input.array(groups, width)?;
        lists.input = input;
        Ok(lists)
    }

    /// Reads the body of the rule that is that symbol.
    fn read_rule(&mut self, symbol: u64) -> Result<(), MalformedPostings> {
        let mut length = 2;
        while self.input.read(1) == 1 {
            length += 1;
        }
        let width = bit_length(symbol);
        let (mut ids, mut span) = (0u32, 0u32);
        for _ in 0..length {
            let part = self.input.read(width);
            self.input.check_end()?;
            if part >= symbol {
                return Err(MalformedPostings);
            }
            let part = part as usize; // a symbol before
            ids = (ids.checked_add(self.lengths[part])).ok_or(MalformedPostings)?;
            span = (span.checked_add(self.spans[part])).ok_or(MalformedPostings)?;
            self.bodies.push(part as u32);
        }
        self.lengths.push(ids);
        self.spans.push(span);
        self.rule_offsets.push(self.bodies.len());
        Ok(())
    }

    /// How many lists there are.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn count(&self, list: usize) -> u32 {
        self.offsets[list + 1] - self.offsets[list]
    }

    /// Where a list begins: passes over those before that share its offset.
    fn input(&self, list: usize) -> Result<BitInput<'a>, MalformedPostings> {
        let group = list / SHARED;
        let begin = (group.checked_sub(1)).map_or(0, |index| self.begins.get(index));
        let mut input = self.input;
        input.at = input.at.saturating_add(begin as usize); // 57 bits at most
        for before in group * SHARED..list {
            self.each_symbol(before, &mut input, |_| Ok(true))?;
        }
        Ok(input)
    }

    /// Visits the symbols of a list, until one is not wanted.
    fn each_symbol(
        &self,
        list: usize,
        input: &mut BitInput<'_>,
        mut visit: impl FnMut(u32) -> Result<bool, MalformedPostings>,
    ) -> Result<(), MalformedPostings> {
        let mut rest = self.count(list);
        while rest > 0 {
            let symbol = self.code.symbol(input)?;
            let own = self.lengths[symbol as usize];
            rest = rest.checked_sub(own).ok_or(MalformedPostings)?;
            input.check_end()?;
            if !visit(symbol)? {
                break;
            }
        }
        Ok(())
    }

    /// Appends the ids of a list; on an error what was appended is taken away.
    ///
    /// # Errors
    ///
    /// [`MalformedPostings`].
    ///
    /// # Panics
    ///
    /// When there is no such list.
    pub fn decode(&self, list: usize, ids: &mut Vec<u32>) -> Result<(), MalformedPostings> {
        self.decode_from(list, &mut self.input(list)?, ids)
    }

    fn decode_from(
        &self,
        list: usize,
        input: &mut BitInput<'_>,
        ids: &mut Vec<u32>,
    ) -> Result<(), MalformedPostings> {
        let begin = ids.len();
        let mut next = 0;
        let mut stack = Vec::new();
        let decoded = self.each_symbol(list, input, |symbol| {
            self.check_span(next, symbol)?;
            self.expand(symbol, &mut next, &mut stack, ids);
            Ok(true)
        });
        if decoded.is_err() {
            ids.truncate(begin);
        }
        decoded
    }

    /// Whether a symbol's ids are below the universe.
    fn check_span(&self, next: u32, symbol: u32) -> Result<(), MalformedPostings> {
        let end = next.checked_add(self.spans[symbol as usize]);
        if end.is_some_and(|end| end <= self.universe) {
            Ok(())
        } else {
            Err(MalformedPostings)
        }
    }

    /// Appends the ids of a symbol, of which there are few enough; the first is `next` or more.
    fn expand(&self, symbol: u32, next: &mut u32, stack: &mut Vec<u32>, ids: &mut Vec<u32>) {
        stack.push(symbol);
        while let Some(symbol) = stack.pop() {
            match self.body(symbol) {
                Ok(body) => stack.extend(body.iter().rev()),
                Err(gap) => {
                    ids.push(*next + gap);
                    *next += gap + 1;
                }
            }
        }
    }

    /// The body of a rule, or the gap that a terminal is.
    fn body(&self, symbol: u32) -> Result<&[u32], u32> {
        match (symbol as usize).checked_sub(self.gaps.len()) {
            Some(rule) => Ok(&self.bodies[self.rule_offsets[rule]..self.rule_offsets[rule + 1]]),
            None => Err(self.gaps[symbol as usize]),
        }
    }

    /// The first id of a list that is `at_least` or more. Symbols that end before are not expanded.
    ///
    /// # Errors
    ///
    /// [`MalformedPostings`].
    ///
    /// # Panics
    ///
    /// When there is no such list.
    pub fn seek(&self, list: usize, at_least: u32) -> Result<Option<u32>, MalformedPostings> {
        let mut next = 0;
        let mut found = None;
        self.each_symbol(list, &mut self.input(list)?, |symbol| {
            self.check_span(next, symbol)?;
            let end = next + self.spans[symbol as usize];
            if end <= at_least {
                next = end;
                return Ok(true);
            }
            found = Some(self.seek_in(symbol, next, at_least));
            Ok(false)
        })?;
        Ok(found)
    }

    /// The first id that is `at_least` or more of a symbol whose last one is.
    fn seek_in(&self, mut symbol: u32, mut next: u32, at_least: u32) -> u32 {
        loop {
            let body = match self.body(symbol) {
                Ok(body) => body,
                Err(gap) => return next + gap,
            };
            for &part in body {
                symbol = part;
                let end = next + self.spans[part as usize];
                if end > at_least {
                    break;
                }
                next = end;
            }
        }
    }
}

/// Appends the ids of all lists; on an error what was appended is taken away.
///
/// # Errors
///
/// [`MalformedPostings`] if no encoder wrote these bytes for lists of these lengths.
pub fn decode_shared_lists(
    bytes: &[u8],
    offsets: &[u32],
    universe: u32,
    ids: &mut Vec<u32>,
) -> Result<(), MalformedPostings> {
    let lists = SharedLists::new(bytes, offsets, universe)?;
    let begin = ids.len();
    let mut input = lists.input;
    let mut all = 0..lists.len();
    let decoded = all.try_for_each(|list| lists.decode_from(list, &mut input, ids));
    if decoded.is_err() {
        ids.truncate(begin);
    }
    decoded
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use zipfdb_kernels::gpu::test_devices::mix;

    use super::*;

    /// Lists of versions: ranges of files with some missing.
    fn versions(lists: u64, universe: u32) -> (Vec<u32>, Vec<u32>) {
        let (mut offsets, mut ids) = (vec![0], Vec::new());
        for list in 0..lists {
            let first = (mix(list % 40) % u64::from(universe)) as u32;
            let end = first + (mix(list % 60) % u64::from(universe - first + 1)) as u32;
            ids.extend(
                (first..end).filter(|&id| !mix(u64::from(id) ^ (list % 7)).is_multiple_of(20)),
            );
            offsets.push(ids.len() as u32);
        }
        (offsets, ids)
    }

    #[test]
    fn lists_come_back_together_and_alone() {
        for (count, universe) in [(0, 1), (1, 1), (1, 30), (33, 15), (2000, 15), (300, 200)] {
            let (offsets, ids) = versions(count, universe);
            let mut bytes = Vec::new();
            encode_shared_lists(&offsets, &ids, &mut bytes);
            let mut decoded = Vec::new();
            decode_shared_lists(&bytes, &offsets, universe, &mut decoded).unwrap();
            assert_eq!(decoded, ids);
            let lists = SharedLists::new(&bytes, &offsets, universe).unwrap();
            assert_eq!(lists.len(), offsets.len() - 1);
            for list in (0..lists.len()).step_by(7) {
                let expected = &ids[offsets[list] as usize..offsets[list + 1] as usize];
                decoded.clear();
                lists.decode(list, &mut decoded).unwrap();
                assert_eq!(decoded, expected);
                for at_least in 0..universe + 2 {
                    let first = expected.iter().copied().find(|&id| id >= at_least);
                    assert_eq!(lists.seek(list, at_least), Ok(first));
                }
            }
        }
    }

    #[test]
    fn lists_of_versions_take_few_bits_each() {
        let (offsets, ids) = versions(2000, 15);
        let mut bytes = Vec::new();
        encode_shared_lists(&offsets, &ids, &mut bytes);
        assert!(bytes.len() < 2500, "{} bytes", bytes.len());
    }

    proptest! {
        #[test]
        fn damaged_lists_give_an_error_or_ids_that_ascend(
            flips in prop::collection::vec((any::<prop::sample::Index>(), 1..=255u8), 0..4),
            cut in prop::option::of(any::<prop::sample::Index>()),
        ) {
            let (offsets, ids) = versions(200, 40);
            let mut bytes = Vec::new();
            encode_shared_lists(&offsets, &ids, &mut bytes);
            for (at, change) in flips {
                let at = at.index(bytes.len());
                bytes[at] ^= change;
            }
            if let Some(cut) = cut {
                bytes.truncate(cut.index(bytes.len() + 1));
            }
            let mut decoded = vec![3];
            match decode_shared_lists(&bytes, &offsets, 40, &mut decoded) {
                Err(MalformedPostings) => prop_assert_eq!(&decoded, &[3]),
                Ok(()) => {
                    for bounds in offsets.windows(2) {
                        let own = &decoded[1..][bounds[0] as usize..bounds[1] as usize];
                        prop_assert!(own.is_sorted_by(|a, b| a < b));
                        prop_assert!(own.iter().all(|&id| id < 40));
                    }
                }
            }
            if let Ok(lists) = SharedLists::new(&bytes, &offsets, 40) {
                for list in 0..lists.len() {
                    if let Ok(Some(id)) = lists.seek(list, 20) {
                        prop_assert!((20..40).contains(&id));
                    }
                }
            }
        }
    }
}
