//! Encodes bodies and root.

use super::classes::Ends;
use super::coder::{ChunkOffsets, EventCounts, SymbolCoder};
use super::contexts::Contexts;
use super::cpu_coder::CpuCoder;
use super::learn::{Learned, learn, learn_contexts};
use super::model::{
    ACTIONS, Chunk, CodeTables, FREQUENCY_ROWS, LEVEL_ROWS, Shapes, StoredClasses, action_parent,
    class_parent, frequency_row, set_level_rows,
};
use crate::segment::coding::adaptive::BitEncoder;
use crate::segment::coding::tables::Tables;
use crate::segment::coding::{blocks, numbers, pad, varint};
use crate::{Dictionary, Grammar};
use rayon::join;
use rayon::prelude::*;
use std::convert::Infallible;

/// The sections of a grammar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedGrammar {
    /// Sizes of levels, lengths of bodies, their first symbols.
    pub(in crate::segment) rules: Vec<u8>,
    /// Frequency classes, classes, contexts, tables.
    pub(in crate::segment) model: Vec<u8>,
    /// All other symbols of bodies.
    pub(in crate::segment) bodies: Vec<u8>,
    /// Lengths of the roots of files and their symbols.
    pub(in crate::segment) root: Vec<u8>,
}

impl EncodedGrammar {
    /// Encodes a grammar whose terminals are the tokens of `dictionary`, on the current pool; a few hundred nanoseconds a symbol.
    ///
    /// The caller has checked that grammar and dictionary agree and that all symbols are below 2^31.
    pub fn new(grammar: &Grammar, dictionary: &Dictionary) -> EncodedGrammar {
        let chunks = chunks_of(grammar);
        let begin = |_: &ChunkOffsets| Ok(CpuCoder::new(grammar, &chunks));
        let encoded: Result<_, Infallible> = EncodedGrammar::with(grammar, dictionary, begin);
        let Ok(encoded) = encoded;
        encoded
    }

    /// As [`EncodedGrammar::new`], with a coder that `begin` makes of the chunks: the same bytes.
    ///
    /// # Errors
    /// Those of the coder.
    pub fn with<C: SymbolCoder>(
        grammar: &Grammar,
        dictionary: &Dictionary,
        begin: impl FnOnce(&ChunkOffsets) -> Result<C, C::Error> + Send,
    ) -> Result<EncodedGrammar, C::Error> {
        let chunks = ChunkOffsets::new(grammar, &chunks_of(grammar));
        // What needs no answer of the coder is made while it works, by another thread: one that waits takes up what is
        // second, which should not be what takes long.
        let (symbols, rules) = join(
            || encode_symbols(grammar, dictionary, &chunks, begin),
            || encode_rules(grammar),
        );
        let [model, bodies, root] = symbols?;
        Ok(EncodedGrammar {
            rules,
            model,
            bodies,
            root,
        })
    }
}

/// The sections `model`, `bodies` and `root`.
fn encode_symbols<C: SymbolCoder>(
    grammar: &Grammar,
    dictionary: &Dictionary,
    chunks: &ChunkOffsets,
    begin: impl FnOnce(&ChunkOffsets) -> Result<C, C::Error> + Send,
) -> Result<[Vec<u8>; 3], C::Error> {
    let begin = || {
        let mut coder = begin(chunks)?;
        let frequencies = coder.frequencies()?;
        Ok::<_, C::Error>((coder, frequencies))
    };
    let shapes = || Shapes::new(dictionary, vec![0; dictionary.len() as usize]);
    let (begun, shapes) = join(begin, shapes);
    let (mut coder, frequencies) = begun?;
    // The offsets have an end at least.
    let total = chunks.offsets[chunks.offsets.len() - 1] as usize;
    let (learned, mut model) = join(
        || learn(grammar, total, &shapes, &frequencies, &mut coder),
        || encode_frequencies(grammar, dictionary, &frequencies),
    );
    let Learned {
        classes: mut stored,
        ends,
    } = learned?;
    let classes = stored.classes;
    let (contexts, mut small) = join(
        || learn_contexts(total, &ends, classes, &mut coder),
        || encode_classes(grammar, &shapes, &frequencies, &mut stored, &ends),
    );
    let contexts = contexts?;
    Contexts::code(&mut small, classes, Some(&contexts)).expect("writing does not fail");
    let counts = coder.event_counts(&contexts)?;
    let tables = tables(counts, classes);
    let (class_shares, action_shares) = (tables.classes.shares(), tables.actions.shares());
    let (blocks, small) = join(
        || coder.blocks(&class_shares, &action_shares),
        || {
            tables.classes.write(&mut small, class_parent);
            tables.actions.write(&mut small, action_parent);
            small.finish()
        },
    );
    blocks::write_part(&mut model, &small);
    let blocks = blocks?;
    let (body_blocks, root_blocks) = blocks.split_at(chunks.bodies);
    let mut bodies = Vec::new();
    blocks::write(&mut bodies, body_blocks);
    pad(&mut bodies, size_of_val(&grammar.symbols[..]) as u64);
    let mut root = Vec::new();
    let lengths: Vec<u32> = grammar
        .root_offsets
        .windows(2)
        .map(|pair| pair[1] - pair[0])
        .collect();
    numbers::write(&mut root, &lengths, 1, |_| 0);
    blocks::write(&mut root, root_blocks);
    pad(&mut root, size_of_val(&grammar.root[..]) as u64);
    Ok([model, bodies, root])
}

fn chunks_of(grammar: &Grammar) -> Vec<Chunk> {
    Chunk::all(
        &grammar.rule_offsets,
        &grammar.level_offsets,
        grammar.root.len(),
    )
}

/// The tables that events ask for.
fn tables(mut counts: EventCounts, classes: usize) -> CodeTables {
    let (all, rows) = counts.classes.split_at_mut(classes);
    for row in rows.chunks_exact(classes) {
        all.iter_mut()
            .zip(row)
            .for_each(|(all, count)| *all += count);
    }
    CodeTables {
        classes: Tables::from_counts(classes, &counts.classes),
        actions: Tables::from_counts(ACTIONS, &counts.actions),
    }
}

fn encode_rules(grammar: &Grammar) -> Vec<u8> {
    let mut rules = Vec::new();
    for level in grammar.level_offsets.windows(2) {
        varint::write(&mut rules, u64::from(level[1] - level[0]));
    }
    let mut levels = vec![0; grammar.rule_count() as usize];
    set_level_rows(&mut levels, &grammar.level_offsets);
    let lengths: Vec<u32> = grammar
        .rule_offsets
        .windows(2)
        .map(|pair| pair[1] - pair[0] - 2)
        .collect();
    numbers::write(&mut rules, &lengths, LEVEL_ROWS, |rule| {
        usize::from(levels[rule])
    });
    // Bodies are sorted within a level, so first symbols do not fall there; where they do, the gap wraps around.
    let first = |rule: u32| grammar.body(rule)[0];
    let mut gaps: Vec<u32> = (0..grammar.rule_count())
        .into_par_iter()
        .map(|rule| first(rule).wrapping_sub(rule.checked_sub(1).map_or(0, first)))
        .collect();
    for level in grammar.level_offsets.windows(2) {
        gaps[level[0] as usize] = first(level[0]);
    }
    numbers::write(&mut rules, &gaps, LEVEL_ROWS, |rule| {
        usize::from(levels[rule])
    });
    rules
}

/// The frequency classes of all symbols.
fn encode_frequencies(grammar: &Grammar, dictionary: &Dictionary, frequencies: &[u8]) -> Vec<u8> {
    let mut model = Vec::new();
    let values: Vec<u32> = frequencies
        .iter()
        .map(|&frequency| u32::from(frequency))
        .collect();
    let row = |symbol| frequency_row(symbol, dictionary, &grammar.rule_offsets);
    numbers::write(&mut model, &values, FREQUENCY_ROWS, row);
    model
}

/// The beginning of the model's small part: classes. Contexts and tables follow.
fn encode_classes(
    grammar: &Grammar,
    shapes: &Shapes,
    frequencies: &[u8],
    classes: &mut StoredClasses,
    ends: &[Ends],
) -> BitEncoder {
    let first: Vec<u32> = (0..grammar.rule_count())
        .map(|rule| grammar.body(rule)[0])
        .collect();
    let mut coder = BitEncoder::default();
    let coded = Vec::with_capacity(frequencies.len());
    classes
        .code(&mut coder, shapes, frequencies, &first, Some(ends), coded)
        .expect("writing does not fail");
    coder
}
