//! Decodes bodies and root.

use super::chunk_decoder::ChunkDecoder;
use super::chunks;
use super::classes::Ends;
use super::contexts::Contexts;
#[cfg(not(target_arch = "x86_64"))]
use super::lanes::decode_chunks;
use super::lanes::{ActionLookup, BodyWork, ChunkModel, ChunkWork, Trace};
use super::model::{
    ACTIONS, FREQUENCIES, FREQUENCY_ROWS, LEVEL_ROWS, PARTS, Shapes, StoredClasses, action_parent,
    action_rows, class_parent, class_row, frequency_row, set_level_rows,
};
use super::rank_table::RankTable;
#[cfg(target_arch = "x86_64")]
use super::wide_lanes::decode_chunks;
use crate::grammar::{LEVELS_MAX, has_from};
use crate::segment::coding::adaptive::BitDecoder;
use crate::segment::coding::tables::Tables;
use crate::segment::coding::{
    DecodeError, Fault, blocks, check_expansion, filled, numbers, reserve, reserved, varint,
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

/// The rules of a grammar, and what it takes to decode roots, all or those of single files.
pub struct Bodies {
    /// The grammar; it has no files yet.
    rules: Arc<Grammar>,
    /// `[files + 1]`: where the root of each file begins.
    root_offsets: Vec<u32>,
    model: RootModel,
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
    let model =
        decode_model(coded.model, &rules, dictionary).map_err(|fault| (Part::Model, fault))?;
    let (symbols, model) =
        decode_bodies(coded.bodies, &rules, model).map_err(|fault| (Part::Bodies, fault))?;
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
    /// Symbols of all roots that are coded together: a chunk, the least that can be decoded.
    pub const ROOT_CHUNK: usize = chunks::CHUNK_SYMBOLS;

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
        let mut work = reserved(chunks.len())?;
        let targets = root.chunks_mut(chunks::CHUNK_SYMBOLS);
        for (target, chunk) in targets.zip(&self.root_chunks[chunks]) {
            let range = chunk.range.start - first_byte..chunk.range.end - first_byte;
            work.push(root_work(&coded[range], chunk.crc32, target)?);
        }
        decode_chunks(work, &self.model.chunks, &self.model.actions)?;
        root.truncate(positions.end - start);
        root.drain(..positions.start - start);
        let symbols = self.rules.terminal_count + self.rules.rule_count();
        if has_from(&root, symbols) {
            return Err(Fault("it uses a symbol that does not exist").into());
        }
        Ok(root)
    }

    /// The roots of all files as pieces that are decoded one by one.
    pub(crate) fn root_pieces(&self) -> Result<RootPieces<'_>, DecodeError> {
        Ok(RootPieces {
            decoder: ChunkDecoder::new(&self.model.chunks, &self.model.actions)?,
            bodies: self,
        })
    }

    /// The whole grammar; `coded` are the bytes of the section of the root at [`Bodies::root_extent`] of
    /// [`Bodies::whole_root`].
    pub(crate) fn into_grammar(self, coded: &[u8]) -> Result<Grammar, DecodeError> {
        let root = self.decode_root(coded, self.whole_root())?;
        // No caller has the bodies yet.
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

/// The roots of all files in pieces.
pub(crate) struct RootPieces<'a> {
    bodies: &'a Bodies,
    decoder: ChunkDecoder<'a>,
}

impl RootPieces<'_> {
    /// How many pieces there are.
    pub(crate) fn len(&self) -> usize {
        self.bodies.root_chunks.len().div_ceil(PIECE_CHUNKS)
    }

    /// The positions of the symbols of a piece among those of all roots.
    pub(crate) fn positions(&self, piece: usize) -> Range<usize> {
        let start = piece * PIECE_SYMBOLS;
        start..self.bodies.root_size().min(start + PIECE_SYMBOLS)
    }

    /// Puts the symbols of a piece into `target`; `coded` are the bytes of the section at [`Bodies::root_extent`] of its
    /// positions. On this thread.
    pub(crate) fn decode(
        &self,
        piece: usize,
        coded: &[u8],
        target: &mut Vec<u32>,
    ) -> Result<(), DecodeError> {
        let positions = self.positions(piece);
        let first_byte = self.bodies.root_extent(&positions).start;
        let chunks = &self.bodies.root_chunks[chunks::of_positions(&positions)];
        target.clear();
        reserve(target, positions.len())?;
        target.resize(positions.len(), 0);
        let mut work = reserved(chunks.len())?;
        for (target, chunk) in target.chunks_mut(chunks::CHUNK_SYMBOLS).zip(chunks) {
            let range = chunk.range.start - first_byte..chunk.range.end - first_byte;
            work.push(root_work(&coded[range], chunk.crc32, target)?);
        }
        self.decoder.decode(work)?;
        let rules = &self.bodies.rules;
        let symbols = rules.terminal_count + rules.rule_count();
        if target.iter().copied().fold(0, u32::max) < symbols {
            Ok(())
        } else {
            Err(Fault("it uses a symbol that does not exist").into())
        }
    }
}

/// Chunks of the root that are decoded together where all of it is scanned: the capacity of the vectors.
const PIECE_CHUNKS: usize = 32;

/// Symbols of these chunks.
const PIECE_SYMBOLS: usize = PIECE_CHUNKS * chunks::CHUNK_SYMBOLS;

/// A chunk of the root to be decoded, whose bytes are still those that were verified.
fn root_work<'a>(
    coded: &'a [u8],
    crc32: u32,
    target: &'a mut [u32],
) -> Result<ChunkWork<'a>, Fault> {
    if crc32fast::hash(coded) != crc32 {
        return Err(Fault("it is not what it was when it was verified"));
    }
    Ok(ChunkWork {
        coded,
        target,
        bodies: None,
    })
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

/// What the section of the model says, and what of it is needed to decode bodies alone.
struct Model {
    threshold: u8,
    frequencies: Vec<u8>,
    ends: Vec<Ends>,
    ranks: Vec<u32>,
    /// For each level, and for the root: where the ranks that it may use end in each bucket.
    rank_ends: Vec<Vec<u32>>,
    /// What symbols leave behind; so far those of terminals.
    traces: Vec<Trace>,
    body_actions: ActionLookup,
    root: RootModel,
}

/// The tables that decode roots.
struct RootModel {
    chunks: ChunkModel,
    actions: ActionLookup,
}

impl RootModel {
    /// Bytes of memory that it takes.
    fn bytes(&self) -> usize {
        self.chunks.bytes() + self.actions.bytes()
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
    let mut levels = reserved(rules.level_offsets.len())?;
    levels.push(0..rules.terminals);
    let rules_of_levels = rules.level_offsets.windows(2);
    levels.extend(
        rules_of_levels
            .map(|level| rules.terminals + level[0] as usize..rules.terminals + level[1] as usize),
    );
    let (tables, ranks) = rayon::join(
        || -> Result<_, DecodeError> {
            let contexts = Contexts::code(&mut coder, classes, None)?;
            let rows = class_row(contexts.count);
            let of_classes = Tables::read(&mut coder, rows, classes, class_parent)?;
            let of_actions =
                Tables::read(&mut coder, action_rows(classes), ACTIONS, action_parent)?;
            coder.finish()?;
            Ok((contexts, of_classes.lookup_all()?, of_actions))
        },
        || RankTable::new(classes, &frequencies, &ends, &levels),
    );
    let ((contexts, class_tables, action_tables), table) = (tables?, ranks?);
    let mut chunks = ChunkModel::new(
        classes,
        &contexts,
        class_tables,
        table.starts,
        table.symbols,
    )?;
    let mut traces = filled(Trace::default(), symbols)?;
    let terminals = &mut traces[..rules.terminals];
    (terminals.par_iter_mut().zip(&ends))
        .with_min_len(TASK_RULES)
        .for_each(|(trace, &ends)| *trace = Trace::of(ends, &contexts));
    chunks.set_traces(&table.of[..rules.terminals], terminals);
    let part_rows = action_rows(classes) / PARTS;
    Ok(Model {
        threshold: stored.threshold,
        frequencies,
        ends,
        ranks: table.of,
        rank_ends: table.ends,
        traces,
        body_actions: action_tables.lookup(0..part_rows)?,
        root: RootModel {
            chunks,
            actions: action_tables.lookup(part_rows..2 * part_rows)?,
        },
    })
}

/// The symbols of all bodies, and what roots are decoded with.
fn decode_bodies(
    mut input: &[u8],
    rules: &Rules,
    model: Model,
) -> Result<(Vec<u32>, RootModel), DecodeError> {
    let Model {
        threshold,
        frequencies,
        ends,
        ranks,
        rank_ends,
        mut traces,
        body_actions,
        mut root,
    } = model;
    let chunks = chunks::of_bodies(&rules.offsets, &rules.level_offsets);
    let coded = blocks::read(&mut input, chunks.len())?;
    let mut coded = coded.into_iter();
    let mut symbols = filled(0u32, rules.offsets[rules.offsets.len() - 1] as usize)?;
    let own_right = |rule: usize| {
        let symbol = rules.terminals + rule;
        (frequencies[symbol] >= threshold).then(|| ends[symbol].right)
    };
    let mut rest = &mut symbols[..];
    for (chunks, rank_ends) in chunks
        .chunk_by(|left, right| left.level == right.level)
        .zip(&rank_ends)
    {
        root.chunks.admit(rank_ends);
        let (first_rule, end) = (chunks[0].rules.start, chunks[chunks.len() - 1].rules.end);
        let (lower, upper) = traces.split_at_mut(rules.terminals + first_rule);
        let mut level_traces = &mut upper[..end - first_rule];
        let mut work = reserved(chunks.len())?;
        for (chunk, coded) in chunks.iter().zip(coded.by_ref()) {
            let (start, end) = (chunk.rules.start, chunk.rules.end);
            let size = (rules.offsets[end] - rules.offsets[start]) as usize;
            let (target, after) = std::mem::take(&mut rest).split_at_mut(size);
            rest = after;
            let (traces, after) = level_traces.split_at_mut(end - start);
            level_traces = after;
            work.push(ChunkWork {
                coded,
                target,
                bodies: Some(BodyWork {
                    offsets: &rules.offsets[start..=end],
                    first: &rules.first[start..end],
                    lower,
                    own_right: &own_right,
                    first_rule: start,
                    traces,
                }),
            });
        }
        decode_chunks(work, &root.chunks, &body_actions)?;
        let level = rules.terminals + first_rule..rules.terminals + end;
        root.chunks
            .set_traces(&ranks[level.clone()], &traces[level]);
    }
    root.chunks.admit(&rank_ends[rank_ends.len() - 1]);
    Ok((symbols, root))
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
