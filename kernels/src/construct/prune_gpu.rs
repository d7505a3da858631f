//! Pruning on a GPU: rules that do not pay are replaced by their bodies.
//!
//! The invariant: what is left is what the CPU's `prune` leaves, with the rules
//! in the order of their levels. Roots are written last, when rules have their
//! new symbols.

use crate::construct::pair_rounds_gpu::DevicePaired;
use crate::gpu::device::{Buffer, Gpu, arguments};
use crate::gpu::driver::{Launch, Source, THREADS};
use crate::gpu::error::GpuError;
use crate::gpu::levels::{self, STATE_ITEMS, Walk};
use crate::gpu::primitives::{self, LookBack};

/// Positions that a block takes.
const TILE: usize = 2048;

/// Symbols that a block writes: few, as each waits for several loads, one after the other.
const WRITE_TILE: usize = 512;

/// Rules of a piece whose shapes are found, pieces that rounds share at most, and blocks of a multiprocessor.
const SHAPES: u32 = 1024;
const SHAPES_JOINED: u32 = 1;
const SHAPES_RESIDENT: u32 = 4;

pub(crate) static SOURCE: Source = Source {
    name: "prune.cu",
    text: include_str!("prune.cu"),
    headers: &[levels::HEADER],
    constants: &[
        ("PRUNE_THREADS", THREADS as u64),
        ("PRUNE_TILE", TILE as u64),
        ("PRUNE_WRITE_TILE", WRITE_TILE as u64),
    ],
};

/// The rules that pay and their bodies, and what the roots come from.
pub(super) struct DevicePruned {
    paired: DevicePaired,
    terminal_count: u32,
    /// By old rule: length, height and whether it stays.
    shapes: Buffer<u64>,
    /// Old rules in the order of their levels; those that do not stay come first.
    pub(super) order: Buffer<u32>,
    /// `[rules + 1]`: the body of `order[i]` is `symbols[offsets[i]..offsets[i + 1]]`.
    pub(super) offsets: Buffer<u32>,
    /// Old symbols.
    pub(super) symbols: Buffer<u32>,
    /// By level, level 0 being that of rules that do not stay: the first in `order`; the end behind.
    pub(super) starts: Vec<usize>,
    /// By level: the first in `symbols`; the end behind.
    pub(super) symbol_starts: Vec<usize>,
    /// Both on the device, one behind the other.
    pub(super) bounds: Buffer<u32>,
    /// By position of the sequence where its symbols begin in the root.
    position_offsets: Buffer<u32>,
    pub(super) root_offsets: Buffer<u32>,
    root_length: usize,
}

/// Prunes the grammar that the rounds left.
pub(super) fn prune(
    gpu: &Gpu,
    paired: DevicePaired,
    files: usize,
    terminal_count: u32,
) -> Result<DevicePruned, GpuError> {
    let rules = paired.rules();
    let shapes = find_shapes(gpu, &paired, terminal_count)?;
    let (position_offsets, root_offsets) =
        find_root_offsets(gpu, &paired, &shapes, files, terminal_count)?;

    let level_max = as_u32(paired.round_ends.len()) + 1;
    let levels = gpu.allocate::<u32>(rules)?;
    let order = gpu.allocate::<u32>(rules)?;
    gpu.launch(
        SOURCE.kernel("level_kernel").whole(),
        gpu.looping(rules),
        arguments! { shapes, rules: as_u32(rules), levels, order },
    )?;
    let bits = u32::BITS - level_max.leading_zeros();
    let (levels, order) = primitives::sort_pairs(gpu, levels, order, 0..bits)?;
    let lengths = gpu.allocate::<u32>(rules)?;
    // By level the first rule, by level the first symbol, and the symbols of roots. Without rules all begin at 0.
    let levels_end = level_max as usize + 1;
    let bounds = gpu.zeroed::<u32>(2 * levels_end + 1)?;
    gpu.launch(
        SOURCE.kernel("level_start_kernel").whole(),
        gpu.looping(rules),
        arguments! {
            shapes,
            levels,
            order,
            rules: as_u32(rules),
            level_max,
            starts: &bounds,
            lengths,
        },
    )?;
    let offsets: Buffer<u32> = primitives::scan(gpu, &lengths)?;
    gpu.launch(
        SOURCE.kernel("level_offset_kernel"),
        gpu.looping(levels_end),
        arguments! {
            starts: &bounds,
            offsets,
            level_max,
            position_offsets,
            length: as_u32(paired.length),
        },
    )?;
    let words = gpu.download(&bounds)?;
    let words: Vec<usize> = words.into_iter().map(|word| word as usize).collect();
    let (starts, symbol_starts) = words[..2 * levels_end].split_at(levels_end);
    let root_length = words[2 * levels_end];
    let symbol_count = symbol_starts.last().copied().unwrap_or(0);
    let symbols = gpu.allocate::<u32>(symbol_count)?;
    gpu.launch(
        SOURCE.kernel("bodies_kernel").moving(symbol_count * 4),
        Launch::tiles(symbol_count, WRITE_TILE),
        arguments! {
            pairs: &paired.pairs,
            shapes,
            terminal_count,
            order,
            offsets,
            rules: as_u32(rules),
            symbols,
            count: as_u32(symbol_count),
        },
    )?;
    Ok(DevicePruned {
        paired,
        terminal_count,
        shapes,
        order,
        offsets,
        symbols,
        starts: starts.to_vec(),
        symbol_starts: symbol_starts.to_vec(),
        bounds,
        position_offsets,
        root_offsets,
        root_length,
    })
}

impl DevicePruned {
    /// Old rules, also those that do not stay.
    pub(super) fn rules(&self) -> usize {
        self.paired.rules()
    }

    /// The roots of the files, rules by their new symbols `ids`.
    pub(super) fn root(&self, gpu: &Gpu, ids: &Buffer<u32>) -> Result<Buffer<u32>, GpuError> {
        assert!(ids.len() == self.rules(), "one new symbol for each rule");
        let root = gpu.allocate::<u32>(self.root_length)?;
        gpu.launch(
            SOURCE
                .kernel("root_kernel")
                .moving((2 * self.paired.length + self.root_length) * 4),
            Launch::tiles(self.root_length, WRITE_TILE),
            arguments! {
                sequence: &self.paired.sequence,
                length: as_u32(self.paired.length),
                pairs: &self.paired.pairs,
                shapes: &self.shapes,
                terminal_count: self.terminal_count,
                offsets: &self.position_offsets,
                ids,
                root,
                count: as_u32(self.root_length),
            },
        )?;
        Ok(root)
    }
}

/// By rule: length, height and whether it stays.
fn find_shapes(
    gpu: &Gpu,
    paired: &DevicePaired,
    terminal_count: u32,
) -> Result<Buffer<u64>, GpuError> {
    let rules = paired.rules();
    // The counters of the walk lie behind.
    let uses = gpu.zeroed::<u32>(rules + STATE_ITEMS)?;
    // A pair is two symbols.
    let bodies = (&paired.pairs, 2 * rules);
    gpu.launch(
        SOURCE.kernel("uses_kernel").moving(bodies.1 * 4),
        gpu.looping(bodies.1),
        arguments! { symbols: bodies.0, count: bodies.1, terminal_count, uses },
    )?;
    gpu.launch(
        SOURCE.kernel("uses_kernel").moving(paired.length * 4),
        gpu.looping(paired.length),
        arguments! { symbols: &paired.sequence, count: paired.length, terminal_count, uses },
    )?;
    let shapes = gpu.allocate::<u64>(rules)?;
    let mut first = 0;
    let rounds = paired.round_ends.iter().map(|&end| {
        let end = as_u32(end);
        std::mem::replace(&mut first, end)..end
    });
    let rounds: Vec<_> = rounds.collect();
    let walk = Walk::new(gpu, &[], &rounds, SHAPES, SHAPES_JOINED)?;
    let launch = Launch {
        blocks: walk.blocks(gpu, SHAPES_RESIDENT),
        threads: THREADS,
    };
    let mut arguments = arguments! { pairs: &paired.pairs, uses, terminal_count, shapes }.to_vec();
    arguments.extend(walk.arguments(uses.at(rules)));
    gpu.launch(
        SOURCE.kernel("shape_kernel").moving(rules * (8 + 4 + 8)),
        launch,
        &arguments,
    )?;
    Ok(shapes)
}

/// Where the symbols of each position begin in the root, and those of each file.
fn find_root_offsets(
    gpu: &Gpu,
    paired: &DevicePaired,
    shapes: &Buffer<u64>,
    files: usize,
    terminal_count: u32,
) -> Result<(Buffer<u32>, Buffer<u32>), GpuError> {
    let offsets = gpu.allocate::<u32>(paired.length + 1)?;
    // Without files there is one offset, 0.
    let root_offsets = gpu.zeroed::<u32>(files + 1)?;
    let launch = Launch::tiles(paired.length, TILE);
    let look_back = LookBack::<u64>::new(gpu, launch.blocks as usize)?;
    gpu.launch(
        SOURCE
            .kernel("root_offset_kernel")
            .moving((2 * paired.length + files) * 4),
        launch,
        arguments! {
            sequence: &paired.sequence,
            length: as_u32(paired.length),
            terminal_count,
            shapes,
            offsets,
            root_offsets,
            words: look_back.words(),
            ticket: look_back.ticket(),
        },
    )?;
    Ok((offsets, root_offsets))
}

/// Lengths are checked once, by `construct`.
fn as_u32(length: usize) -> u32 {
    u32::try_from(length).expect("at most the number of tokens and files")
}
