//! Renumbering on a GPU: rules by level, inside a level by body.
//!
//! The invariant: rules and bodies are those of the CPU's `renumber`. Levels
//! are sorted one after the other, since bodies are compared in the new
//! symbols of the levels below; the host does not wait between them.

use crate::construct::prune_gpu::DevicePruned;
use crate::gpu::device::{Buffer, Gpu, arguments};
use crate::gpu::driver::{Launch, Source, THREADS};
use crate::gpu::error::GpuError;
use crate::gpu::merge_sort::{Bodies, Items};

/// Symbols or rules that a block takes: few, as each waits for several loads, one after the other.
const TILE: usize = 512;

const WARP: usize = 32;

/// Most rules and most symbols of a level that one block renumbers.
const SMALL: usize = 1024;
const SMALL_SYMBOLS: usize = 16 * SMALL;

/// Rules are in the upper part of a base, symbols in the lower bits.
const RULES_SHIFT: u32 = 31;

pub(crate) static SOURCE: Source = Source {
    name: "renumber.cu",
    text: include_str!("renumber.cu"),
    headers: &[],
    constants: &[
        ("RENUMBER_THREADS", THREADS as u64),
        ("RENUMBER_TILE", TILE as u64),
        ("RENUMBER_SMALL", SMALL as u64),
    ],
};

/// Rules in their final order.
pub(super) struct Renumbered {
    pub(super) rule_offsets: Buffer<u32>,
    pub(super) symbols: Buffer<u32>,
    /// `[levels + 1]`.
    pub(super) level_offsets: Vec<u32>,
    /// `[levels + 1]`: where the bodies of levels begin in `symbols`.
    pub(super) level_symbols: Vec<u32>,
    /// By old rule: its new symbol, if it stays.
    pub(super) ids: Buffer<u32>,
}

/// Puts the rules in order.
pub(super) fn renumber(
    gpu: &Gpu,
    pruned: &DevicePruned,
    terminal_count: u32,
) -> Result<Renumbered, GpuError> {
    // The first level with a body is 1; those behind the last one are empty.
    let level_sizes = pruned.starts[1..]
        .windows(2)
        .map(|window| window[1] - window[0]);
    let levels = level_sizes.clone().take_while(|&size| size > 0).count();
    let largest = level_sizes.clone().max().unwrap_or(0);
    let rules_max: usize = level_sizes.sum();
    let symbols_max = pruned.symbols.len();

    let ids = gpu.allocate::<u32>(pruned.rules())?;
    let renamed = gpu.allocate::<u32>(symbols_max)?;
    let mut rule_offsets = gpu.zeroed::<u32>(rules_max + 1)?;
    let sources = gpu.allocate::<u32>(rules_max)?;
    let bases = gpu.zeroed::<u64>(levels + 1)?;
    let mut items = Items::new(gpu, largest)?;
    let is_small = |level: usize| {
        let rules = pruned.starts[level + 1] - pruned.starts[level];
        let symbols = pruned.symbol_starts[level + 1] - pruned.symbol_starts[level];
        rules <= SMALL && symbols <= SMALL_SYMBOLS
    };
    // Of all levels at a time.
    let tiles = (1..=levels).map(|level| {
        let rules = pruned.starts[level + 1] - pruned.starts[level];
        1 + rules.div_ceil(TILE)
    });
    let look_back = gpu.zeroed::<u64>(tiles.sum())?;
    let mut look_back_next = 0;
    let mut next = 1;
    while next <= levels {
        let level = next;
        while next <= levels && is_small(next) {
            next += 1;
        }
        if next > level {
            let sizes = pruned.starts[level..=next].windows(2);
            let threads = sizes.map(|window| window[1] - window[0]).max();
            let launch = Launch {
                blocks: 1,
                // At most SMALL.
                threads: threads.unwrap_or(0).next_multiple_of(WARP) as u32,
            };
            gpu.launch(
                SOURCE.kernel("small_levels_kernel"),
                launch,
                arguments! {
                    bodies: &pruned.symbols,
                    symbols: &renamed,
                    offsets: &pruned.offsets,
                    order: &pruned.order,
                    starts: pruned.bounds.at(0),
                    symbol_starts: pruned.bounds.at(pruned.starts.len()),
                    level_first: as_u32(level),
                    level_end: as_u32(next),
                    terminal_count,
                    ids,
                    rule_offsets,
                    sources,
                    bases,
                },
            )?;
            continue;
        }
        next += 1;
        let rules = pruned.starts[level]..pruned.starts[level + 1];
        let symbols = pruned.symbol_starts[level]..pruned.symbol_starts[level + 1];
        let launch = gpu.looping(symbols.len());
        gpu.launch(
            SOURCE
                .kernel("level_bodies_kernel")
                .moving(symbols.len() * 2 * 4),
            launch,
            arguments! {
                bodies: &pruned.symbols,
                symbols: &renamed,
                offsets: &pruned.offsets,
                ids,
                terminal_count,
                first: as_u32(symbols.start),
                end: as_u32(symbols.end),
                rule_first: as_u32(rules.start),
                rule_end: as_u32(rules.end),
                keys: items.keys(),
                values: items.values(),
            },
        )?;
        let bodies = Bodies {
            symbols: &renamed,
            offsets: &pruned.offsets,
        };
        items.sort(gpu, rules.len(), Some(bodies))?;
        let launch = Launch::tiles(rules.len(), TILE);
        // A ticket, and words behind it.
        let ticket = look_back_next;
        look_back_next += 1 + launch.blocks as usize;
        gpu.launch(
            SOURCE.kernel("rank_kernel"),
            launch,
            arguments! {
                keys: items.keys(),
                values: items.values(),
                count: as_u32(rules.len()),
                symbols: &renamed,
                offsets: &pruned.offsets,
                order: &pruned.order,
                terminal_count,
                ids,
                rule_offsets,
                sources,
                bases: bases.at(level - 1),
                words: look_back.at(ticket + 1),
                ticket: look_back.at(ticket),
            },
        )?;
    }
    let bases = gpu.download(&bases)?;
    // Both are at most the number of tokens.
    let level_offsets: Vec<u32> = bases
        .iter()
        .map(|base| (base >> RULES_SHIFT) as u32)
        .collect();
    let symbols_mask = (1 << RULES_SHIFT) - 1;
    let level_symbols: Vec<u32> = bases
        .iter()
        .map(|base| (base & symbols_mask) as u32)
        .collect();
    let rules = level_offsets[levels] as usize;
    let symbol_count = level_symbols[levels] as usize;
    rule_offsets.truncate(rules + 1);
    let symbols = gpu.allocate::<u32>(symbol_count)?;
    gpu.launch(
        SOURCE
            .kernel("copy_bodies_kernel")
            .moving(symbol_count * 2 * 4),
        Launch::tiles(symbol_count, TILE),
        arguments! {
            symbols: &renamed,
            offsets: &pruned.offsets,
            sources,
            rule_offsets,
            rules: as_u32(rules),
            symbols_out: &symbols,
            count: as_u32(symbol_count),
        },
    )?;
    Ok(Renumbered {
        rule_offsets,
        symbols,
        level_offsets,
        level_symbols,
        ids,
    })
}

/// Lengths are checked once, by `construct`.
fn as_u32(length: usize) -> u32 {
    u32::try_from(length).expect("at most the number of tokens and files")
}
