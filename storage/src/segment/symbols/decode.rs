//! Reading bodies and root.

use super::chunks;
use super::classes::{Ends, Past, of_body};
use super::contexts::Contexts;
use super::history::{History, REPEATS, distance_bits};
use super::model::{
    ACTIONS, FREQUENCIES, FREQUENCY_ROWS, LEVEL_ROWS, Ranking, Shapes, StoredClasses,
    action_parent, action_row, action_rows, class_parent, class_row, frequency_row, set_level_rows,
};
use crate::grammar::LEVELS_MAX;
use crate::segment::coding::adaptive::BitDecoder;
use crate::segment::coding::rans::{self, Below};
use crate::segment::coding::tables::{Lookup, Tables};
use crate::segment::coding::{
    DecodeError, Fault, blocks, check_expansion, filled, numbers, reserved, varint,
};
use crate::{Dictionary, Grammar};
use rayon::prelude::*;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// The sections of a grammar, as stored, but the one of rules.
pub struct Coded<'a> {
    /// Frequency classes, classes, contexts, tables.
    pub model: &'a [u8],
    /// All other symbols of bodies.
    pub bodies: &'a [u8],
    /// Lengths of the roots of files and their symbols.
    pub root: &'a [u8],
}

/// What the segment says of its grammar elsewhere.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    /// Tokens of the dictionary.
    pub tokens: u32,
    /// Rules.
    pub rules: u32,
    /// Levels.
    pub levels: u32,
    /// Symbols of all bodies.
    pub symbols: u64,
    /// Symbols of the root.
    pub root_symbols: u64,
    /// Files.
    pub files: u32,
}

/// Chunks that one thread decodes at a time, in turn, so that one's memory accesses hide behind another's arithmetic.
const LANES: usize = 4;

/// The rules of a grammar, and what it takes to decode roots, all or those of single files.
pub struct Bodies {
    /// The grammar; it has no files yet.
    rules: Arc<Grammar>,
    /// `[files + 1]`: where the root of each file begins.
    root_offsets: Vec<u32>,
    model: Model,
    root_chunks: Vec<RootChunk>,
}

/// A chunk of the root, which is read from the file again whenever it is needed.
struct RootChunk {
    /// Where it lies in its section.
    range: Range<usize>,
    /// CRC32 of its bytes as they were when the checksum of the section was verified.
    crc32: u32,
}

impl fmt::Debug for Bodies {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Bodies")
            .field("rules", &self.rules.rule_count())
            .finish_non_exhaustive()
    }
}

/// Rules that one task takes at least where all of a level are gone through.
const TASK_RULES: usize = 1 << 12;

/// Decodes what `rules` does not have of the bodies of a grammar whose terminals are the tokens of `dictionary`.
pub fn decode(
    coded: &Coded<'_>,
    counts: Counts,
    rules: Rules,
    dictionary: &Dictionary,
) -> Result<Bodies, (Part, DecodeError)> {
    check_expansion(coded.bodies.len(), counts.symbols.saturating_mul(4))
        .map_err(|fault| (Part::Bodies, fault.into()))?;
    check_expansion(coded.root.len(), counts.root_symbols.saturating_mul(4))
        .map_err(|fault| (Part::Root, fault.into()))?;
    let mut model =
        decode_model(coded.model, &rules, dictionary).map_err(|fault| (Part::Model, fault))?;
    let symbols =
        decode_bodies(coded.bodies, &rules, &mut model).map_err(|fault| (Part::Bodies, fault))?;
    let (root_offsets, root_chunks) =
        decode_root_extents(coded.root, counts).map_err(|fault| (Part::Root, fault))?;
    let rules = Grammar {
        terminal_count: dictionary.len(),
        rule_offsets: rules.offsets,
        symbols,
        level_offsets: rules.level_offsets,
        root_offsets: vec![0],
        root: Vec::new(),
    };
    match rules.fault() {
        Some(fault) => Err((Part::Bodies, Fault(fault).into())),
        None => Ok(Bodies {
            rules: Arc::new(rules),
            root_offsets,
            model,
            root_chunks,
        }),
    }
}

impl Bodies {
    /// The grammar without its roots: it has no files.
    pub fn rules(&self) -> &Arc<Grammar> {
        &self.rules
    }

    /// Where the root of each file begins in all of them together, and where the last one ends: `[files + 1]`.
    pub fn root_offsets(&self) -> &[u32] {
        &self.root_offsets
    }

    /// Bytes of memory that the rules take, and what decoding roots takes beside them.
    pub fn memory(&self) -> (usize, usize) {
        let roots = size_of_val(&*self.root_offsets) + size_of_val(&*self.root_chunks);
        (self.rules.bytes(), roots + self.model.bytes())
    }

    /// Where the root of a file lies in all of them together.
    ///
    /// # Panics
    /// If there is no file of this number.
    pub fn root_range(&self, file: u32) -> Range<usize> {
        let file = file as usize;
        self.root_offsets[file] as usize..self.root_offsets[file + 1] as usize
    }

    /// Where the chunks that hold the symbols of the root at `positions` lie in the section.
    pub(crate) fn root_extent(&self, positions: &Range<usize>) -> Range<usize> {
        let chunks = &self.root_chunks[chunks::of_positions(positions)];
        match (chunks.first(), chunks.last()) {
            (Some(first), Some(last)) => first.range.start..last.range.end,
            _ => 0..0,
        }
    }

    /// The symbols of the root at `positions`, out of `coded`, the bytes of the section at [`Bodies::root_extent`].
    pub(crate) fn decode_root(
        &self,
        coded: &[u8],
        positions: Range<usize>,
    ) -> Result<Vec<u32>, DecodeError> {
        let chunks = chunks::of_positions(&positions);
        let start = chunks.start * chunks::CHUNK_SYMBOLS;
        let size = self.root_size().min(chunks.end * chunks::CHUNK_SYMBOLS);
        let mut root = filled(0u32, size.saturating_sub(start))?;
        let first_byte = self.root_extent(&positions).start;
        let mut lanes = reserved(chunks.len())?;
        let targets = root.chunks_mut(chunks::CHUNK_SYMBOLS);
        for (target, chunk) in targets.zip(&self.root_chunks[chunks]) {
            let coded = &coded[chunk.range.start - first_byte..chunk.range.end - first_byte];
            if crc32fast::hash(coded) != chunk.crc32 {
                return Err(Fault("it is not what it was when it was verified").into());
            }
            lanes.push((None, target, coded));
        }
        decode_chunks(lanes, &self.model, 1)?;
        root.truncate(positions.end - start);
        root.drain(..positions.start - start);
        let symbols = self.rules.terminal_count + self.rules.rule_count();
        if root.iter().any(|&symbol| symbol >= symbols) {
            return Err(Fault("it uses a symbol that does not exist").into());
        }
        Ok(root)
    }

    /// The whole grammar; `coded` are the bytes of the section of the root at [`Bodies::root_extent`] of
    /// [`Bodies::whole_root`].
    pub(crate) fn into_grammar(self, coded: &[u8]) -> Result<Grammar, DecodeError> {
        let root = self.decode_root(coded, self.whole_root())?;
        // Nobody else has the bodies yet.
        let rules = Arc::unwrap_or_clone(self.rules);
        Ok(Grammar {
            root_offsets: self.root_offsets,
            root,
            ..rules
        })
    }

    /// Where the roots of all files lie.
    pub(crate) fn whole_root(&self) -> Range<usize> {
        0..self.root_size()
    }

    /// Symbols of all roots.
    fn root_size(&self) -> usize {
        self.root_offsets[self.root_offsets.len() - 1] as usize
    }
}

/// The section at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Sizes of levels, lengths of bodies, their first symbols.
    Rules,
    /// Frequency classes, classes, contexts, tables.
    Model,
    /// All other symbols of bodies.
    Bodies,
    /// The root.
    Root,
}

/// The bodies without their symbols, but the first of each.
pub struct Rules {
    terminals: usize,
    level_offsets: Vec<u32>,
    offsets: Vec<u32>,
    first: Vec<u32>,
}

/// Decodes the section of rules, which needs no other.
pub fn decode_rules(section: &[u8], counts: Counts) -> Result<Rules, (Part, DecodeError)> {
    read_rules(section, counts).map_err(|error| (Part::Rules, error))
}

fn read_rules(mut input: &[u8], counts: Counts) -> Result<Rules, DecodeError> {
    let terminals = counts.tokens;
    let rules = counts.rules as usize;
    check_expansion(input.len(), rules as u64 * 4)?;
    if u64::from(terminals) + rules as u64 >= 1 << 31 {
        return Err(Fault("it has too many symbols").into());
    }
    if counts.levels as usize > input.len().min(LEVELS_MAX) {
        return Err(Fault("it has fewer levels than it claims, or too many").into());
    }
    let mut level_offsets = vec![0u32];
    for _ in 0..counts.levels {
        let last = level_offsets[level_offsets.len() - 1];
        let next = last
            .checked_add(varint::read_u32(&mut input)?)
            .filter(|&next| next <= counts.rules && next > last);
        level_offsets.push(next.ok_or(Fault("a level has no rules or too many"))?);
    }
    if level_offsets[level_offsets.len() - 1] != counts.rules {
        return Err(Fault("levels do not hold all rules").into());
    }
    let mut levels = filled(0, rules)?;
    set_level_rows(&mut levels, &level_offsets);
    let row = |rule: usize| usize::from(levels[rule]);
    let lengths = numbers::read(&mut input, rules, LEVEL_ROWS, row)?;
    let mut offsets = reserved(rules + 1)?;
    offsets.push(0u32);
    for length in lengths {
        let next = length
            .checked_add(2)
            .and_then(|length| offsets[offsets.len() - 1].checked_add(length));
        offsets.push(next.ok_or(Fault("bodies are too long"))?);
    }
    if u64::from(offsets[rules]) != counts.symbols {
        return Err(Fault("lengths of bodies do not add up").into());
    }
    let mut first = numbers::read(&mut input, rules, LEVEL_ROWS, row)?;
    for level in level_offsets.windows(2) {
        let mut last = 0u32;
        for first in &mut first[level[0] as usize..level[1] as usize] {
            last = last.wrapping_add(*first);
            if last >= terminals + level[0] {
                let fault = Fault("a body begins with a rule that is not of a lower level");
                return Err(fault.into());
            }
            *first = last;
        }
    }
    Ok(Rules {
        terminals: terminals as usize,
        level_offsets,
        offsets,
        first,
    })
}

struct Model {
    classes: usize,
    threshold: u8,
    frequencies: Vec<u8>,
    ends: Vec<Ends>,
    contexts: Contexts,
    class_lookup: Lookup,
    action_lookup: Lookup,
    /// By class and action.
    buckets: Vec<Bucket>,
    /// The ends of the symbols of all buckets: what decoding waits for, so kept small. Filled level by level.
    ranked_ends: Vec<RankedEnds>,
    /// The symbols themselves, looked up when a chunk is done.
    ranked: Vec<u32>,
}

/// Entries after the last symbol in both, for ranks that damaged chunks lead to.
const RANKED_SPARE: usize = 2;

/// What an action of a class leads to: for new ones the symbols of one frequency class, for repeats distances.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    /// Where they begin in [`Model::ranked`]; the least distance.
    start: u32,
    /// How many may be used by now; 1 for repeats.
    size: u32,
    /// How one of them is written.
    below: Below,
}

/// What a symbol leaves behind for the next one.
#[derive(Clone, Copy, Debug, Default)]
struct RankedEnds {
    right: u8,
    before: u8,
}

impl Model {
    /// Bytes of memory that grow with the symbols.
    fn bytes(&self) -> usize {
        size_of_val(&*self.frequencies)
            + size_of_val(&*self.ends)
            + size_of_val(&*self.buckets)
            + size_of_val(&*self.ranked_ends)
            + size_of_val(&*self.ranked)
    }

    /// Lets symbols be used from now on.
    fn admit(&mut self, symbols: Range<usize>) {
        for symbol in symbols.filter(|&symbol| self.frequencies[symbol] > 0) {
            let ends = self.ends[symbol];
            let action = REPEATS + usize::from(self.frequencies[symbol]) - 1;
            let bucket = &mut self.buckets[usize::from(ends.left) * ACTIONS + action];
            let rank = (bucket.start + bucket.size) as usize;
            self.ranked[rank] = symbol as u32; // below 2^31
            self.ranked_ends[rank] = RankedEnds {
                right: ends.right,
                before: ends.before,
            };
            bucket.size += 1;
        }
        for actions in self.buckets.chunks_exact_mut(ACTIONS) {
            for bucket in actions[REPEATS..]
                .iter_mut()
                .filter(|bucket| bucket.size > 0)
            {
                bucket.below = Below::new(bucket.size);
            }
        }
    }
}

fn decode_model(
    mut input: &[u8],
    rules: &Rules,
    dictionary: &Dictionary,
) -> Result<Model, DecodeError> {
    let symbols = rules.terminals + rules.first.len();
    let row = |symbol| frequency_row(symbol, dictionary, &rules.offsets);
    let mut frequencies = reserved(symbols)?;
    for value in numbers::read(&mut input, symbols, FREQUENCY_ROWS, row)? {
        match u8::try_from(value) {
            Ok(frequency) if usize::from(frequency) <= FREQUENCIES => frequencies.push(frequency),
            _ => return Err(Fault("a frequency class does not exist").into()),
        }
    }
    let mut coder = BitDecoder::new(blocks::read_part(&mut input)?);
    let mut stored = StoredClasses::default();
    let ends = stored.code(
        &mut coder,
        &Shapes::new(dictionary, filled(0, rules.terminals)?),
        &frequencies,
        &rules.first,
        None,
        reserved(symbols)?,
    )?;
    let classes = stored.classes;
    let contexts = Contexts::code(&mut coder, classes, None)?;
    let class_tables = Tables::read(&mut coder, class_row(contexts.count), classes, class_parent)?;
    let action_tables = Tables::read(&mut coder, action_rows(classes), ACTIONS, action_parent)?;
    coder.finish()?;
    let mut buckets = vec![Bucket::default(); classes * ACTIONS];
    let mut ranked = 0;
    for (actions, sizes) in buckets
        .chunks_exact_mut(ACTIONS)
        .zip(Ranking::sizes(classes, &frequencies, &ends).chunks_exact(FREQUENCIES))
    {
        let (repeats, new) = actions.split_at_mut(REPEATS);
        for (action, bucket) in repeats.iter_mut().enumerate() {
            let (bits, start) = distance_bits(action);
            *bucket = Bucket {
                start,
                size: 1,
                below: Below::bits(bits),
            };
        }
        for (bucket, &size) in new.iter_mut().zip(sizes) {
            bucket.start = ranked;
            ranked += size;
        }
    }
    let mut model = Model {
        classes,
        threshold: stored.threshold,
        frequencies,
        ends,
        contexts,
        class_lookup: class_tables.lookup()?,
        action_lookup: action_tables.lookup()?,
        buckets,
        ranked_ends: filled(RankedEnds::default(), ranked as usize + RANKED_SPARE)?,
        ranked: filled(0, ranked as usize + RANKED_SPARE)?,
    };
    model.admit(0..rules.terminals);
    Ok(model)
}

fn decode_bodies(
    mut input: &[u8],
    rules: &Rules,
    model: &mut Model,
) -> Result<Vec<u32>, DecodeError> {
    let chunks = chunks::of_bodies(&rules.offsets, &rules.level_offsets);
    let coded = blocks::read(&mut input, chunks.len())?;
    let mut symbols = filled(0u32, rules.offsets[rules.offsets.len() - 1] as usize)?;
    let mut next_chunk = 0;
    for (level, level_rules) in rules.level_offsets.windows(2).enumerate() {
        let level_rules = level_rules[0] as usize..level_rules[1] as usize;
        let level_chunks = chunks[next_chunk..]
            .iter()
            .take_while(|chunk| chunk.level == level)
            .count();
        let level_chunks = next_chunk..next_chunk + level_chunks;
        next_chunk = level_chunks.end;
        let mut lanes = reserved(level_chunks.len())?;
        let mut rest = &mut symbols[rules.offsets[level_rules.start] as usize..];
        for (chunk, coded) in chunks[level_chunks.clone()]
            .iter()
            .zip(&coded[level_chunks])
        {
            let size = (rules.offsets[chunk.rules.end] - rules.offsets[chunk.rules.start]) as usize;
            let (target, after) = rest.split_at_mut(size);
            rest = after;
            lanes.push((Some((rules, chunk.rules.clone())), target, *coded));
        }
        decode_chunks(lanes, model, 0)?;
        let Model {
            classes,
            threshold,
            frequencies,
            ends,
            ..
        } = model;
        // Bodies use symbols of lower levels only.
        let (done, open) = ends.split_at_mut(rules.terminals + level_rules.start);
        let frequencies = &frequencies[rules.terminals + level_rules.start..];
        (open[..level_rules.len()].par_iter_mut())
            .zip(&frequencies[..level_rules.len()])
            .zip(level_rules.clone())
            .with_min_len(TASK_RULES)
            .for_each(|((ends, frequency), rule)| {
                let body = &symbols[rules.offsets[rule] as usize..rules.offsets[rule + 1] as usize];
                let last = &body[body.len() - 2..];
                let derived = of_body(last.iter().map(|&symbol| done[symbol as usize]), *classes);
                ends.before = derived.before;
                if frequency < threshold {
                    ends.right = derived.right;
                }
            });
        let symbols = rules.terminals + level_rules.start..rules.terminals + level_rules.end;
        model.admit(symbols);
    }
    Ok(symbols)
}

/// Where the roots of files begin, and where the chunks lie in the section.
fn decode_root_extents(
    section: &[u8],
    counts: Counts,
) -> Result<(Vec<u32>, Vec<RootChunk>), DecodeError> {
    let mut input = section;
    let lengths = numbers::read(&mut input, counts.files as usize, 1, |_| 0)?;
    let mut offsets = reserved(lengths.len() + 1)?;
    offsets.push(0u32);
    for length in lengths {
        let next = offsets[offsets.len() - 1].checked_add(length);
        offsets.push(next.ok_or(Fault("roots are too long"))?);
    }
    let root_size = offsets[offsets.len() - 1];
    if u64::from(root_size) != counts.root_symbols {
        return Err(Fault("lengths of roots do not add up").into());
    }
    let chunk_count = chunks::of_root(root_size as usize).len();
    let sizes = blocks::read_sizes(&mut input, chunk_count)?;
    let mut end = section.len() - input.len();
    let mut chunks = reserved(chunk_count)?;
    for size in sizes {
        let start = end;
        // What lies in the section fits.
        end = start
            .checked_add(size)
            .filter(|&end| end <= section.len())
            .ok_or(Fault("it ends early"))?;
        chunks.push(RootChunk {
            range: start..end,
            crc32: crc32fast::hash(&section[start..end]),
        });
    }
    Ok((offsets, chunks))
}

type Work<'a> = (Option<(&'a Rules, Range<usize>)>, &'a mut [u32], &'a [u8]);

fn decode_chunks(work: Vec<Work<'_>>, model: &Model, part: usize) -> Result<(), Fault> {
    let mut work: Vec<Option<Work<'_>>> = work.into_iter().map(Some).collect();
    work.par_chunks_mut(LANES).try_for_each(|work| {
        let mut lanes: Vec<Lane<'_>> = work
            .iter_mut()
            .filter_map(Option::take)
            .map(|(bodies, target, coded)| Lane::new(model, bodies, target, coded))
            .collect();
        // Together as long as all have symbols left, then each to its end.
        let together = lanes.iter().map(|lane| lane.left).min().unwrap_or(0);
        if let Ok(lanes) = <&mut [Lane<'_>; LANES]>::try_from(&mut lanes[..]) {
            for _ in 0..together {
                // Step by step for all lanes: each step is a chain of loads, and those of different lanes overlap.
                let mut classes = [0; LANES];
                for (lane, class) in lanes.iter_mut().zip(&mut classes) {
                    *class = lane.class(model);
                }
                let mut actions = [0; LANES];
                for ((lane, action), &class) in lanes.iter_mut().zip(&mut actions).zip(&classes) {
                    *action = lane.action(model, part, class);
                }
                let mut ranks = [0; LANES];
                for (((lane, rank), &class), &action) in
                    lanes.iter_mut().zip(&mut ranks).zip(&classes).zip(&actions)
                {
                    *rank = lane.rank(model, class, action);
                }
                let ends = ranks.map(|rank| model.ranked_ends[rank as usize]);
                for (((lane, &class), rank), ends) in
                    lanes.iter_mut().zip(&classes).zip(ranks).zip(ends)
                {
                    lane.settle(class, rank, ends);
                }
            }
        }
        for lane in &mut lanes {
            while lane.left > 0 {
                let class = lane.class(model);
                let action = lane.action(model, part, class);
                let rank = lane.rank(model, class, action);
                lane.settle(class, rank, model.ranked_ends[rank as usize]);
            }
            if lane.bad {
                return Err(Fault("it uses a symbol that does not exist"));
            }
            lane.decoder.finish()?;
            lane.resolve(model);
        }
        Ok(())
    })
}

/// A chunk being decoded.
struct Lane<'a> {
    decoder: rans::Decoder<'a>,
    history: History,
    past: Past,
    target: &'a mut [u32],
    /// Where the next symbol goes.
    place: usize,
    /// Where the next body begins, whose first symbol is known.
    body_end: usize,
    /// Coded symbols left.
    left: usize,
    /// The rules whose bodies these are; none for the root.
    bodies: Option<(&'a Rules, Range<usize>)>,
    next_rule: usize,
    bad: bool,
}

impl<'a> Lane<'a> {
    fn new(
        model: &Model,
        bodies: Option<(&'a Rules, Range<usize>)>,
        target: &'a mut [u32],
        coded: &'a [u8],
    ) -> Lane<'a> {
        let known = bodies.as_ref().map_or(0, |(_, rules)| rules.len());
        Lane {
            decoder: rans::Decoder::new(coded),
            history: History::new(model.classes),
            past: Past::nothing(model.classes),
            place: 0,
            body_end: if bodies.is_some() { 0 } else { target.len() },
            left: target.len() - known,
            target,
            next_rule: bodies.as_ref().map_or(0, |(_, rules)| rules.start),
            bodies,
            bad: false,
        }
    }

    /// The class of the next symbol.
    #[inline(always)]
    fn class(&mut self, model: &Model) -> usize {
        if self.place == self.body_end {
            self.next_body(model);
        }
        model
            .class_lookup
            .symbol(&mut self.decoder, class_row(model.contexts.of(self.past)))
    }

    /// Which symbol of the class, roughly.
    #[inline(always)]
    fn action(&mut self, model: &Model, part: usize, class: usize) -> usize {
        let row = action_row(part, model.classes, class, self.history.fill(class));
        model.action_lookup.symbol(&mut self.decoder, row)
    }

    /// Its place in the ranking.
    #[inline(always)]
    fn rank(&mut self, model: &Model, class: usize, action: usize) -> u32 {
        // Both kinds of action lead to a place in the ranking without a branch: it would be mispredicted too often.
        let bucket = model.buckets[class * ACTIONS + action];
        let value = bucket.start.wrapping_add(self.decoder.below(bucket.below));
        let repeat = u32::from(action < REPEATS).wrapping_neg();
        let rank = self.history.symbol(class, value) & repeat | value & !repeat;
        self.bad |= bucket.size == 0 || (repeat != 0) & !self.history.reaches(class, value);
        rank
    }

    /// Takes the symbol that was found; for now its place in the ranking stands for it.
    #[inline(always)]
    fn settle(&mut self, class: usize, rank: u32, ends: RankedEnds) {
        self.target[self.place] = rank;
        self.place += 1;
        self.left -= 1;
        self.history.push(class, rank);
        self.past = self.past.after(Ends {
            left: 0,
            right: ends.right,
            before: ends.before,
        });
    }

    #[cold]
    fn next_body(&mut self, model: &Model) {
        if let Some((rules, range)) = &mut self.bodies
            && self.next_rule < range.end
        {
            let (rule, first) = (self.next_rule, rules.first[self.next_rule]);
            self.next_rule += 1;
            self.body_end = self.place + (rules.offsets[rule + 1] - rules.offsets[rule]) as usize;
            self.place += 1;
            self.past = Past::nothing(model.classes).after(model.ends[first as usize]);
        }
    }

    /// Puts symbols where their places in the ranking are.
    fn resolve(&mut self, model: &Model) {
        let resolve = |ranks: &mut [u32]| {
            ranks
                .iter_mut()
                .for_each(|rank| *rank = model.ranked[*rank as usize])
        };
        match &self.bodies {
            None => resolve(self.target),
            Some((rules, range)) => {
                let mut rest = &mut self.target[..];
                for rule in range.clone() {
                    let (body, after) =
                        rest.split_at_mut((rules.offsets[rule + 1] - rules.offsets[rule]) as usize);
                    body[0] = rules.first[rule];
                    resolve(&mut body[1..]);
                    rest = after;
                }
            }
        }
    }
}
