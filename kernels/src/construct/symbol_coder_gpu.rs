//! Coding the symbols of a grammar on a GPU: what a model is made of, and with its tables the blocks of a segment file.
//!
//! The invariant: counts and blocks are what the caller's own coder makes of the same arrays. What a class, a context or a share
//! is meant to say, and how they are chosen, is for the caller to know: here they are numbers.
//!
//! Coded are all symbols but the first of each body, and all of the roots. A *chunk* is a run of them that is coded alone, to
//! one block.

use std::ops::Range;

use rayon::prelude::*;

use crate::gpu::device::{Buffer, Gpu, arguments};
use crate::gpu::driver::{Launch, Source, THREADS};
use crate::gpu::error::GpuError;
use crate::gpu::primitives;
use crate::grammar::grammar_gpu::DeviceGrammar;

/// Coded symbols of a chunk of the roots.
pub const CHUNK_SYMBOLS: usize = 8192;

/// Frequency classes are `1..=FREQUENCIES`.
pub const FREQUENCIES: usize = 32;

/// Actions that repeat a symbol; those above are new symbols by frequency class.
pub const REPEATS: usize = 7;

/// How full a class may be, in the rows of actions.
pub const FILLS: usize = 4;

/// Symbols of a class among which a repeat is looked for.
pub const HISTORY: usize = 64;

/// Most classes.
pub const CLASSES_MAX: usize = 128;

/// Groups of what is before the last symbol.
pub const GROUPS_MAX: usize = 32;

/// A repeat must save this factor of probability to be looked for.
pub const REPEAT_GAIN: u64 = 16;

/// Shares of a row add up to `1 << PROBABILITY_BITS`.
pub const PROBABILITY_BITS: u32 = 12;

/// Actions of a row.
pub const ACTIONS: usize = REPEATS + FREQUENCIES;

/// Symbols of bodies and roots that are coded at most: places have two bits more.
pub const SYMBOLS_MAX: usize = 1 << 30;

/// Warps of a block, each with a chunk.
const WARPS: usize = THREADS as usize / WARP as usize;
const WARP: u32 = 32;

pub(crate) static SOURCE: Source = Source {
    name: "symbol_coder.cu",
    text: include_str!("symbol_coder.cu"),
    headers: &[],
    constants: &[
        ("CODER_THREADS", THREADS as u64),
        ("CODER_CHUNK_SYMBOLS", CHUNK_SYMBOLS as u64),
        ("CODER_FREQUENCIES", FREQUENCIES as u64),
        ("CODER_REPEATS", REPEATS as u64),
        ("CODER_FILLS", FILLS as u64),
        ("CODER_HISTORY", HISTORY as u64),
        ("CODER_CLASSES_MAX", CLASSES_MAX as u64),
        ("CODER_GROUPS_MAX", GROUPS_MAX as u64),
        ("CODER_REPEAT_GAIN", REPEAT_GAIN),
        ("CODER_PROBABILITY_BITS", PROBABILITY_BITS as u64),
    ],
};

/// Where the chunks of a grammar are.
#[derive(Clone, Copy, Debug)]
pub struct SymbolChunks<'a> {
    /// `[chunks + 1]`: where each begins among the coded symbols, and where the last one ends. None is empty.
    pub offsets: &'a [u32],
    /// How many chunks are of bodies, all before those of roots, which have [`CHUNK_SYMBOLS`] each but the last.
    pub bodies: usize,
    /// `[chunks]`: the symbols below which a chunk may use.
    pub limits: &'a [u32],
}

/// The coded symbols of a grammar in device memory. Its steps are in order: frequencies, neighbours, counts of pasts, counts of events, code.
#[derive(Debug)]
pub struct SymbolCoder {
    gpu: Gpu,
    /// Bodies, then roots.
    symbols: Buffer<u32>,
    /// By coded symbol: where it is in `symbols`, and how many are before it.
    places: Buffer<u32>,
    /// By coded symbol.
    coded: Buffer<u32>,
    /// By coded symbol: the one before of the same symbol, if it is near.
    previous: Buffer<u32>,
    chunks: Buffer<u32>,
    limits: Buffer<u32>,
    body_chunks: u32,
    frequencies: Buffer<u8>,
    /// By symbol, once they are given.
    ends: Buffer<u32>,
    classes: u32,
    events: Option<SymbolEvents>,
}

/// What is written of each coded symbol.
#[derive(Debug)]
struct SymbolEvents {
    classes: Buffer<u32>,
    actions: Buffer<u32>,
    values: Buffer<u32>,
}

/// How often contexts ask for classes, and rows for actions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventCounts {
    /// `[contexts + 1][classes]`; the first row is 0.
    pub classes: Vec<u32>,
    /// `[2][classes][FILLS][ACTIONS]`: bodies, then roots.
    pub actions: Vec<u32>,
}

/// The blocks of all chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SymbolBlocks {
    /// `[chunks + 1]` into `words`.
    pub offsets: Vec<u32>,
    /// Block behind block, as in memory of low bytes first.
    pub words: Vec<u32>,
}

impl SymbolBlocks {
    /// The bytes of some words.
    pub fn bytes(&self, words: Range<u32>) -> &[u8] {
        bytemuck::cast_slice(&self.words[words.start as usize..words.end as usize])
    }
}

impl SymbolCoder {
    /// Finds the coded symbols of a grammar, and which are looked for nearby. Takes about 56 bytes of device memory for each at its
    /// peak, that of any step.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    ///
    /// # Panics
    ///
    /// When the chunks are not those of such a grammar.
    pub fn new(
        gpu: &Gpu,
        grammar: &DeviceGrammar,
        chunks: SymbolChunks<'_>,
    ) -> Result<SymbolCoder, GpuError> {
        let bodies = grammar.symbols.len();
        let items = bodies + grammar.root.len();
        if items >= SYMBOLS_MAX {
            return Err(GpuError::Limit {
                what: "symbols of bodies and roots",
                items: items as u64,
                limit: SYMBOLS_MAX as u64,
            });
        }
        let coded_count = items - grammar.rules();
        assert!(!chunks.offsets.is_empty(), "no end of the chunks");
        assert!(
            chunks.offsets[chunks.offsets.len() - 1] as usize == coded_count,
            "chunks of other symbols"
        );
        assert!(
            chunks.offsets.is_sorted_by(|left, right| left < right),
            "an empty chunk"
        );
        assert!(
            chunks.limits.len() + 1 == chunks.offsets.len(),
            "a limit for each chunk"
        );
        let symbols = gpu.allocate::<u32>(items)?;
        gpu.copy(&symbols, 0, &grammar.symbols, bodies)?;
        gpu.copy(&symbols, bodies, &grammar.root, grammar.root.len())?;
        let coded = gpu.allocate::<u32>(coded_count)?;
        let places = gpu.allocate::<u32>(coded_count)?;
        let indices = gpu.allocate::<u32>(coded_count)?;
        let uses = gpu.zeroed::<u32>(grammar.symbol_count())?;
        let owners = primitives::expand(gpu, &grammar.rule_offsets, bodies)?;
        gpu.launch_looping(
            SOURCE.kernel("coded_places_kernel").whole(),
            items,
            arguments! {
                symbols,
                count: as_u32(items),
                body_symbols: as_u32(bodies),
                rule_offsets: &grammar.rule_offsets,
                rules: as_u32(grammar.rules()),
                owners,
                coded,
                places,
                indices,
                uses,
            },
        )?;
        drop(owners);
        let bits = width(grammar.symbol_count());
        let (sorted, indices) = primitives::sorted_pairs(gpu, &coded, &indices, 0..bits)?;
        let previous = gpu.allocate::<u32>(coded_count)?;
        let repeats = gpu.zeroed::<u32>(grammar.symbol_count())?;
        let offsets = gpu.upload(chunks.offsets)?;
        gpu.launch_looping(
            SOURCE.kernel("previous_kernel").whole(),
            coded_count,
            arguments! {
                sorted,
                indices,
                count: as_u32(coded_count),
                chunks: &offsets,
                chunk_count: as_u32(chunks.limits.len()),
                uses,
                previous,
                repeats,
            },
        )?;
        let frequencies = gpu.allocate::<u8>(grammar.symbol_count())?;
        gpu.launch_looping(
            SOURCE.kernel("frequencies_kernel").whole(),
            grammar.symbol_count(),
            arguments! { uses, repeats, count: as_u32(grammar.symbol_count()), frequencies },
        )?;
        Ok(SymbolCoder {
            gpu: gpu.clone(),
            symbols,
            places,
            coded,
            previous,
            chunks: offsets,
            limits: gpu.upload(chunks.limits)?,
            body_chunks: as_u32(chunks.bodies),
            frequencies,
            ends: gpu.allocate(0)?,
            classes: 0,
            events: None,
        })
    }

    /// `[symbols]`: the width in bits of how often each is coded as new, if every near one is within reach.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    pub fn frequencies(&self) -> Result<Vec<u8>, GpuError> {
        self.gpu.download(&self.frequencies)
    }

    /// Counts what stands before what, in every `step`-th chunk: pairs of `rights[symbol before]` and `lefts[symbol]`, in order,
    /// as two halves of a number, and how often each occurs. Both are below `items`.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    ///
    /// # Panics
    ///
    /// When there are not as many of both as symbols.
    pub fn neighbours(
        &self,
        lefts: &[u32],
        rights: &[u32],
        items: usize,
        step: usize,
    ) -> Result<Vec<(u32, u32, u32)>, GpuError> {
        let symbols = self.frequencies.len();
        assert!(lefts.len() == symbols, "an item for each symbol");
        assert!(rights.len() == symbols, "an item for each symbol");
        let (lefts, rights) = (self.gpu.upload(lefts)?, self.gpu.upload(rights)?);
        let bits = width(items);
        let keys = self.gpu.allocate::<u64>(self.coded.len())?;
        self.gpu.launch_looping(
            SOURCE.kernel("neighbours_kernel").whole(),
            keys.len(),
            arguments! {
                symbols: &self.symbols,
                places: &self.places,
                count: as_u32(keys.len()),
                chunks: &self.chunks,
                chunk_count: as_u32(self.limits.len()),
                step: as_u32(step),
                lefts,
                rights,
                bits,
                keys,
            },
        )?;
        let keys = primitives::sort_keys(&self.gpu, keys, 0..2 * bits + 1)?;
        let (keys, counts) = primitives::sums_by_key(&self.gpu, &keys, None)?;
        let keys = self.gpu.download(&keys)?;
        let counts = self.gpu.download(&counts)?;
        // Each half has `bits` bits, counts are at most the number of symbols; what is no pair comes last.
        let end = keys.partition_point(|&key| key < 1 << (2 * bits));
        let pairs = keys[..end].par_iter().zip(&counts[..end]);
        let mask = (1 << bits) - 1;
        Ok(pairs
            .map(|(key, &count)| ((key >> bits) as u32, (key & mask) as u32, count as u32))
            .collect())
    }

    /// `[classes + 1][classes + 1][classes]`: how often each left class comes, in every `step`-th chunk, where the last symbol has
    /// a right class and something another before that; `classes` where nothing is.
    ///
    /// `ends` has of each symbol, from the lowest byte on: its left class, its right class, the class before its end, which is 255
    /// if the symbol is one token, and its frequency.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    ///
    /// # Panics
    ///
    /// When there are too many classes, or not as many ends as symbols.
    pub fn past_counts(
        &mut self,
        ends: &[u32],
        classes: usize,
        step: usize,
    ) -> Result<Vec<u32>, GpuError> {
        assert!(ends.len() == self.frequencies.len(), "ends for each symbol");
        assert!(classes <= CLASSES_MAX, "too many classes");
        self.ends = self.gpu.upload(ends)?;
        self.classes = as_u32(classes);
        let counts = self
            .gpu
            .zeroed::<u32>((classes + 1) * (classes + 1) * classes)?;
        self.gpu.launch_looping(
            SOURCE.kernel("past_counts_kernel").whole(),
            self.coded.len(),
            arguments! {
                symbols: &self.symbols,
                places: &self.places,
                count: as_u32(self.coded.len()),
                chunks: &self.chunks,
                chunk_count: as_u32(self.limits.len()),
                step: as_u32(step),
                ends: &self.ends,
                classes: self.classes,
                counts,
            },
        )?;
        self.gpu.download(&counts)
    }

    /// Makes the events of all coded symbols and counts them. `contexts` has the context of each last class and group, below
    /// `context_count`, and `groups` the group of each class before that.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    ///
    /// # Panics
    ///
    /// When `contexts` or `groups` has another length than classes and groups need, or [`SymbolCoder::past_counts`] was not asked before.
    pub fn event_counts(
        &mut self,
        contexts: &[u16],
        groups: &[u8],
        context_count: usize,
    ) -> Result<EventCounts, GpuError> {
        let (gpu, classes) = (&self.gpu, self.classes as usize);
        assert!(classes > 0, "counts of pasts come first");
        assert!(
            contexts.len() == (classes + 1) * GROUPS_MAX,
            "a context for each past"
        );
        assert!(groups.len() == classes + 1, "a group for each class");
        let (symbols, coded) = (self.ends.len(), self.coded.len());
        // Symbols by bucket: a class and a frequency.
        let buckets = classes * FREQUENCIES;
        let keys = gpu.allocate::<u32>(symbols)?;
        let ids = gpu.allocate::<u32>(symbols)?;
        gpu.launch_looping(
            SOURCE.kernel("buckets_kernel").whole(),
            symbols,
            arguments! {
                ends: &self.ends,
                count: as_u32(symbols),
                buckets: as_u32(buckets),
                keys,
                symbols: &ids,
            },
        )?;
        let (keys, ids) = primitives::sort_pairs(gpu, keys, ids, 0..width(buckets + 1))?;
        let starts = primitives::offsets_of_keys(gpu, &keys, as_u32(buckets))?;
        let ranks = gpu.allocate::<u32>(symbols)?;
        gpu.launch_looping(
            SOURCE.kernel("bucket_ranks_kernel").whole(),
            symbols,
            arguments! { keys, symbols: &ids, count: as_u32(symbols), starts, ranks },
        )?;
        let met = gpu.allocate::<u32>(coded)?;
        gpu.launch(
            SOURCE.kernel("met_kernel").whole(),
            Launch::tiles(self.limits.len(), WARPS),
            arguments! {
                coded: &self.coded,
                ends: &self.ends,
                chunks: &self.chunks,
                chunk_count: as_u32(self.limits.len()),
                met,
            },
        )?;
        let events = SymbolEvents {
            classes: gpu.allocate(coded)?,
            actions: gpu.allocate(coded)?,
            values: gpu.allocate(coded)?,
        };
        let class_counts = gpu.zeroed::<u32>((context_count + 1) * classes)?;
        let action_counts = gpu.zeroed::<u32>(2 * classes * FILLS * ACTIONS)?;
        gpu.launch_looping(
            SOURCE.kernel("events_kernel").whole(),
            coded,
            arguments! {
                symbols: &self.symbols,
                places: &self.places,
                count: as_u32(coded),
                chunks: &self.chunks,
                chunk_count: as_u32(self.limits.len()),
                ends: &self.ends,
                previous: &self.previous,
                met,
                contexts: &gpu.upload(contexts)?,
                groups: &gpu.upload(groups)?,
                limits: &self.limits,
                bucket_symbols: &ids,
                bucket_starts: &starts,
                ranks,
                classes: self.classes,
                body_chunks: self.body_chunks,
                event_classes: &events.classes,
                event_actions: &events.actions,
                event_values: &events.values,
                class_counts,
                action_counts,
            },
        )?;
        let counts = EventCounts {
            classes: gpu.download(&class_counts)?,
            actions: gpu.download(&action_counts)?,
        };
        self.events = Some(events);
        Ok(counts)
    }

    /// Codes all chunks. Shares are laid out as the counts of events are, each `start << 16 | frequency`.
    ///
    /// # Errors
    ///
    /// [`GpuError`].
    ///
    /// # Panics
    ///
    /// When there are no events yet.
    pub fn code(
        &mut self,
        class_shares: &[u32],
        action_shares: &[u32],
    ) -> Result<SymbolBlocks, GpuError> {
        let events = self.events.take().expect("counts of events come first");
        let gpu = &self.gpu;
        let chunk_count = self.limits.len();
        let words = gpu.allocate::<u32>(2 * (self.coded.len() + chunk_count))?;
        let sizes = gpu.allocate::<u32>(chunk_count)?;
        // What multiplies instead of a division, by frequency.
        let reciprocals = (0..=1u64 << PROBABILITY_BITS)
            .map(|frequency| u64::MAX.checked_div(frequency).unwrap_or(0));
        let reciprocals: Vec<u64> = reciprocals.collect();
        gpu.launch(
            SOURCE
                .kernel("code_kernel")
                .moving(self.coded.len() * 3 * size_of::<u32>()),
            Launch {
                blocks: as_u32(chunk_count),
                threads: WARP,
            },
            arguments! {
                chunks: &self.chunks,
                event_classes: &events.classes,
                event_actions: &events.actions,
                event_values: &events.values,
                class_shares: &gpu.upload(class_shares)?,
                action_shares: &gpu.upload(action_shares)?,
                reciprocals: &gpu.upload(&reciprocals)?,
                words,
                sizes,
            },
        )?;
        let offsets = primitives::scan::<u32, u32>(gpu, &sizes)?;
        let on_host = gpu.download(&offsets)?;
        let joined = gpu.allocate::<u32>(on_host[chunk_count] as usize)?;
        gpu.launch(
            SOURCE
                .kernel("join_words_kernel")
                .moving(joined.len() * 2 * size_of::<u32>()),
            Launch {
                blocks: as_u32(chunk_count),
                threads: THREADS,
            },
            arguments! { chunks: &self.chunks, words, offsets, joined },
        )?;
        Ok(SymbolBlocks {
            words: gpu.download(&joined)?,
            offsets: on_host,
        })
    }
}

/// Bits of numbers below `end`.
fn width(end: usize) -> u32 {
    usize::BITS - end.saturating_sub(1).leading_zeros()
}

/// Lengths are checked once, and symbols are u32.
fn as_u32(length: usize) -> u32 {
    u32::try_from(length).expect("at most the number of symbols")
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use super::*;
    use crate::GrammarView;
    use crate::gpu::test_devices::{Numbers, on_devices};

    /// A grammar of numbers.
    struct Grammar {
        terminal_count: u32,
        rule_offsets: Vec<u32>,
        symbols: Vec<u32>,
        level_offsets: Vec<u32>,
        root_offsets: Vec<u32>,
        root: Vec<u32>,
    }

    impl Grammar {
        /// A random grammar. A level is given as its number of rules and the most symbols of a body, a root as its length.
        fn random(
            seed: u64,
            terminal_count: u32,
            levels: &[(usize, u32)],
            roots: &[usize],
        ) -> Self {
            let mut numbers = Numbers::new(seed);
            // Low symbols are frequent.
            let mut symbol = |end: u32| {
                let low = numbers.below(1, end)[0] + 1;
                numbers.below(1, low)[0]
            };
            let mut grammar = Grammar {
                terminal_count,
                rule_offsets: vec![0],
                symbols: Vec::new(),
                level_offsets: vec![0],
                root_offsets: vec![0],
                root: Vec::new(),
            };
            let mut end = terminal_count;
            for &(rules, longest) in levels {
                for _ in 0..rules {
                    let length = 2 + symbol(longest - 1);
                    (0..length).for_each(|_| grammar.symbols.push(symbol(end)));
                    grammar.rule_offsets.push(grammar.symbols.len() as u32);
                }
                end += rules as u32;
                grammar.level_offsets.push(end - terminal_count);
            }
            for &length in roots {
                (0..length).for_each(|_| grammar.root.push(symbol(end)));
                grammar.root_offsets.push(grammar.root.len() as u32);
            }
            grammar
        }

        fn view(&self) -> GrammarView<'_> {
            GrammarView {
                terminal_count: self.terminal_count,
                rule_offsets: &self.rule_offsets,
                symbols: &self.symbols,
                level_offsets: &self.level_offsets,
                root_offsets: &self.root_offsets,
                root: &self.root,
            }
        }

        /// The chunks, and how many of them are of bodies. A chunk has its runs and the number below which its symbols are; a run has
        /// the symbol before it, if that is known, and its symbols.
        /// Chunks of bodies end with the rule that brings them to `size` coded symbols.
        fn chunks(&self, size: usize) -> (Vec<Chunk<'_>>, usize) {
            let mut chunks = Vec::new();
            for level in self.level_offsets.windows(2) {
                let limit = self.terminal_count + level[0];
                let mut runs: Vec<Run<'_>> = Vec::new();
                let mut coded = 0;
                for rule in level[0] as usize..level[1] as usize {
                    let bounds =
                        self.rule_offsets[rule] as usize..self.rule_offsets[rule + 1] as usize;
                    let body = &self.symbols[bounds];
                    runs.push((Some(body[0]), &body[1..]));
                    coded += body.len() - 1;
                    if coded >= size || rule + 1 == level[1] as usize {
                        chunks.push((std::mem::take(&mut runs), limit));
                        coded = 0;
                    }
                }
            }
            let bodies = chunks.len();
            let rules = self.rule_offsets.len() - 1;
            let limit = self.terminal_count + rules as u32;
            let roots = self.root.chunks(CHUNK_SYMBOLS);
            chunks.extend(roots.map(|root| (vec![(None, root)], limit)));
            (chunks, bodies)
        }
    }

    type Run<'a> = (Option<u32>, &'a [u32]);
    type Chunk<'a> = (Vec<Run<'a>>, u32);

    /// What the model of a test says: arrays that need not make sense.
    struct Model {
        items: usize,
        lefts: Vec<u32>,
        rights: Vec<u32>,
        classes: usize,
        ends: Vec<u32>,
        contexts: Vec<u16>,
        context_count: usize,
        groups: Vec<u8>,
    }

    impl Model {
        fn random(seed: u64, classes: usize, terminals: usize, frequencies: &[u8]) -> Model {
            let mut numbers = Numbers::new(seed);
            let symbols = frequencies.len();
            let items = 1 + symbols / 3;
            let (class_end, context_count) = (classes as u32, 2 * classes);
            let ends = (0..symbols).map(|symbol| {
                let class = numbers.below(3, class_end);
                let before = if symbol < terminals { NONE } else { class[2] };
                class[0] | class[1] << 8 | before << 16 | u32::from(frequencies[symbol]) << 24
            });
            let ends = ends.collect();
            let below = |numbers: &mut Numbers, len, end| numbers.below(len, end);
            let contexts = below(
                &mut numbers,
                (classes + 1) * GROUPS_MAX,
                context_count as u32,
            );
            let groups = below(&mut numbers, classes + 1, GROUPS_MAX as u32);
            Model {
                items,
                lefts: below(&mut numbers, symbols, items as u32),
                rights: below(&mut numbers, symbols, items as u32),
                classes,
                ends,
                contexts: contexts.iter().map(|&context| context as u16).collect(),
                context_count,
                groups: groups.iter().map(|&group| group as u8).collect(),
            }
        }
    }

    const NONE: u32 = 255;

    /// The right classes of the last two of these ends.
    fn past(before: &[u32], classes: usize) -> (usize, usize) {
        let mut past = (classes, classes);
        for ends in before {
            let (right, before) = (ends >> 8 & 255, ends >> 16 & 255);
            past = match before {
                NONE => (right as usize, past.0),
                _ => (right as usize, before as usize),
            };
        }
        past
    }

    /// Index of a class' share, index of an action's, raw value and its bits.
    type Event = (usize, usize, u32, u32);

    /// The events of a chunk, symbol by symbol.
    fn events(
        chunk: &Chunk<'_>,
        part: usize,
        model: &Model,
        is_near: impl Fn(u32, usize) -> bool,
    ) -> Vec<Event> {
        let mut events = Vec::new();
        let mut histories: Vec<Vec<u32>> = vec![Vec::new(); model.classes];
        let mut last: HashMap<u32, usize> = HashMap::new();
        for (first, symbols) in &chunk.0 {
            let mut before: Vec<u32> = Vec::new();
            before.extend(first.map(|first| model.ends[first as usize]));
            for &symbol in *symbols {
                let ends = model.ends[symbol as usize];
                let (class, frequency) = ((ends & 255) as usize, (ends >> 24) as usize);
                let history = &mut histories[class];
                let met_before = last.insert(symbol, events.len());
                let found = history
                    .iter()
                    .rev()
                    .take(HISTORY)
                    .position(|&met| met == symbol);
                let repeat = met_before
                    .filter(|&met| is_near(symbol, events.len() - met))
                    .and(found);
                let (action, value, bits) = match repeat {
                    Some(distance) => {
                        let width = (usize::BITS - distance.leading_zeros()) as usize;
                        let bits = width.saturating_sub(1) as u32;
                        (width, distance as u32 & ((1 << bits) - 1), bits)
                    }
                    None => {
                        let equals = (0..chunk.1).filter(|&other| {
                            let ends = model.ends[other as usize];
                            (ends & 255) as usize == class && (ends >> 24) as usize == frequency
                        });
                        let equals: Vec<u32> = equals.collect();
                        let rank = equals.iter().position(|&other| other == symbol);
                        let rank = rank.map_or(0, |rank| rank as u32);
                        let size = equals.len() as u32;
                        let bits = size.ilog2();
                        let short = (2 << bits) - size;
                        let action = REPEATS + frequency - 1;
                        match rank.checked_sub(short) {
                            None => (action, rank, bits),
                            Some(rest) => {
                                (action, (rest & 1) << bits | (short + rest / 2), bits + 1)
                            }
                        }
                    }
                };
                let (last_class, class_before) = past(&before, model.classes);
                let group = usize::from(model.groups[class_before]);
                let context = usize::from(model.contexts[last_class * GROUPS_MAX + group]);
                let fill = ((history.len() / 16 + 1).ilog2() as usize).min(FILLS - 1);
                let row = (part * model.classes + class) * FILLS + fill;
                let class_index = (context + 1) * model.classes + class;
                events.push((class_index, row * ACTIONS + action, value, bits));
                history.push(symbol);
                before.push(ends);
            }
        }
        events
    }

    /// A block: the state, then the words in the order in which they are read.
    fn coded(events: &[Event], class_shares: &[u32], action_shares: &[u32]) -> Vec<u32> {
        let mut state = 1u64 << 31;
        let mut words = Vec::new();
        let mut push = |room: u128, next: &dyn Fn(u64) -> u64| {
            if u128::from(state) >= room {
                words.push(state as u32);
                state >>= 32;
            }
            state = next(state);
        };
        for &(class, action, value, bits) in events.iter().rev() {
            push(1 << (63 - bits), &|state| state << bits | u64::from(value));
            for share in [action_shares[action], class_shares[class]] {
                let (start, frequency) = (u64::from(share >> 16), u64::from(share & 0xffff));
                push(u128::from(frequency) << 51, &|state| {
                    ((state / frequency) << PROBABILITY_BITS) + state % frequency + start
                });
            }
        }
        words.extend([(state >> 32) as u32, state as u32]);
        words.reverse();
        words
    }

    /// Shares for rows of counts: each that is not 0 has one, the last one the rest.
    fn shares(counts: &[u32], row: usize) -> Vec<u32> {
        let rows = counts.chunks(row).flat_map(|counts| {
            let used: Vec<usize> = (0..counts.len()).filter(|&i| counts[i] > 0).collect();
            let mut shares = vec![0; counts.len()];
            let mut start = 0;
            for (number, &index) in used.iter().enumerate() {
                let frequency = match used.len() - number {
                    1 => (1 << PROBABILITY_BITS) - start,
                    left => (((1 << PROBABILITY_BITS) - start) / left as u32 / 2).max(1),
                };
                shares[index] = start << 16 | frequency;
                start += frequency;
            }
            shares
        });
        rows.collect()
    }

    /// Compares every step on a device with the same by definition.
    fn check(
        gpu: &Gpu,
        grammar: &Grammar,
        size: usize,
        classes: usize,
        step: usize,
    ) -> Result<(), GpuError> {
        let (chunks, bodies) = grammar.chunks(size);
        let mut offsets = vec![0];
        for (runs, _) in &chunks {
            let coded: usize = runs.iter().map(|(_, symbols)| symbols.len()).sum();
            offsets.push(offsets[offsets.len() - 1] + coded as u32);
        }
        let limits: Vec<u32> = chunks.iter().map(|(_, limit)| *limit).collect();
        let on_device = DeviceGrammar::upload(gpu, grammar.view())?;
        let places = SymbolChunks {
            offsets: &offsets,
            bodies,
            limits: &limits,
        };
        let mut coder = SymbolCoder::new(gpu, &on_device, places)?;

        // Frequencies.
        let total = u64::from(offsets[offsets.len() - 1]);
        let mut uses = vec![0u64; on_device.symbol_count()];
        let runs = || chunks.iter().flat_map(|(runs, _)| runs);
        for &symbol in runs().flat_map(|(_, symbols)| *symbols) {
            uses[symbol as usize] += 1;
        }
        let is_near =
            |symbol: u32, distance| distance as u64 * uses[symbol as usize] * REPEAT_GAIN < total;
        let mut fresh = uses.clone();
        for (runs, _) in &chunks {
            let mut last: HashMap<u32, usize> = HashMap::new();
            for (at, &symbol) in runs.iter().flat_map(|(_, symbols)| *symbols).enumerate() {
                let before = last.insert(symbol, at);
                let near = before.is_some_and(|before| is_near(symbol, at - before));
                fresh[symbol as usize] -= u64::from(near);
            }
        }
        let width = |&count: &u64| (u64::BITS - count.leading_zeros()) as u8;
        let frequencies: Vec<u8> = fresh.iter().map(width).collect();
        assert_eq!(coder.frequencies()?, frequencies);

        // Neighbours and pasts.
        let terminals = grammar.terminal_count as usize;
        let model = Model::random(total, classes, terminals, &frequencies);
        let mut neighbours: BTreeMap<(u32, u32), u32> = BTreeMap::new();
        let mut pasts = vec![0; (classes + 1) * (classes + 1) * classes];
        for (first, symbols) in chunks.iter().step_by(step).flat_map(|(runs, _)| runs) {
            let all: Vec<u32> = first.iter().chain(*symbols).copied().collect();
            for pair in all.windows(2) {
                let (right, left) = (
                    model.rights[pair[0] as usize],
                    model.lefts[pair[1] as usize],
                );
                *neighbours.entry((right, left)).or_default() += 1;
            }
            let ends: Vec<u32> = all
                .iter()
                .map(|&symbol| model.ends[symbol as usize])
                .collect();
            for at in all.len() - symbols.len()..all.len() {
                let (last, before) = past(&ends[..at], classes);
                let row = last * (classes + 1) + before;
                pasts[row * classes + (ends[at] & 255) as usize] += 1;
            }
        }
        let expected = neighbours.into_iter();
        let expected: Vec<_> = expected
            .map(|((right, left), count)| (right, left, count))
            .collect();
        let found = coder.neighbours(&model.lefts, &model.rights, model.items, step)?;
        assert_eq!(found, expected);
        assert_eq!(coder.past_counts(&model.ends, classes, step)?, pasts);

        // Events and blocks.
        let parts = (0..chunks.len()).map(|chunk| usize::from(chunk >= bodies));
        let of_parts = chunks.iter().zip(parts);
        let events = of_parts.map(|(chunk, part)| events(chunk, part, &model, is_near));
        let events: Vec<Vec<Event>> = events.collect();
        let mut counts = EventCounts {
            classes: vec![0; (model.context_count + 1) * classes],
            actions: vec![0; 2 * classes * FILLS * ACTIONS],
        };
        for (class, action, ..) in events.iter().flatten() {
            counts.classes[*class] += 1;
            counts.actions[*action] += 1;
        }
        let found = coder.event_counts(&model.contexts, &model.groups, model.context_count)?;
        assert!(found == counts);
        let class_shares = shares(&counts.classes, classes);
        let action_shares = shares(&counts.actions, ACTIONS);
        let blocks = coder.code(&class_shares, &action_shares)?;
        assert_eq!(blocks.offsets.len(), chunks.len() + 1);
        for (chunk, events) in events.iter().enumerate() {
            let block = blocks.offsets[chunk] as usize..blocks.offsets[chunk + 1] as usize;
            let expected = coded(events, &class_shares, &action_shares);
            assert!(blocks.words[block] == expected, "block {chunk}");
        }
        Ok(())
    }

    #[test]
    fn nothing_and_little_equal_the_definition() {
        on_devices(|gpu| {
            check(gpu, &Grammar::random(1, 1, &[], &[]), 9, 1, 1)?;
            check(gpu, &Grammar::random(1, 1, &[], &[0, 0]), 9, 1, 1)?;
            check(gpu, &Grammar::random(1, 1, &[], &[1]), 9, 1, 1)?;
            check(gpu, &Grammar::random(1, 3, &[], &[0, 40]), 9, 2, 1)?;
            check(gpu, &Grammar::random(1, 3, &[(1, 2)], &[]), 9, 2, 1)?;
            check(
                gpu,
                &Grammar::random(1, 5, &[(1, 9), (1, 2)], &[2, 3]),
                9,
                4,
                1,
            )
        });
    }

    #[test]
    fn chunks_of_any_size_equal_the_definition() {
        on_devices(|gpu| {
            for (seed, size) in [(2, 1), (3, 31), (4, 32), (5, 33), (6, 100)] {
                let grammar = Grammar::random(seed, 40, &[(30, 5), (1, 150), (20, 3)], &[90, 0, 7]);
                check(gpu, &grammar, size, 4, 1)?;
                check(gpu, &grammar, size, 8, 3)?;
            }
            Ok(())
        });
    }

    #[test]
    fn chunks_of_roots_equal_the_definition() {
        on_devices(|gpu| {
            for length in [CHUNK_SYMBOLS, CHUNK_SYMBOLS + 1] {
                let grammar =
                    Grammar::random(7, 3_000, &[(300, 6)], &[length / 3, length - length / 3]);
                check(gpu, &grammar, 700, CLASSES_MAX, 1)?;
            }
            Ok(())
        });
    }
}
