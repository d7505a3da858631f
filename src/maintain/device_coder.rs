//! Encodes the grammars of new segments on a device.
//!
//! The invariant: the bytes are those of the CPU. A device only counts and codes; every decision on counts is made by the same
//! code.

use std::borrow::Cow;
use std::sync::Arc;

use rayon::prelude::*;
use zipfdb_kernels::gpu::symbol_coder::{self as kernel, SymbolBlocks, SymbolChunks};
use zipfdb_kernels::gpu::{DeviceGrammar, Gpu};
use zipfdb_storage::symbol_coder::{
    ChunkOffsets, Contexts, Ends, EventCounts, NeighbourCount, Share, SymbolCoder, SymbolLimits,
};
use zipfdb_storage::{Dictionary, EncodedGrammar, Grammar};

use crate::runtime::device::{Device, Devices};
use crate::segment::cost::encoding_costs;
use crate::segment::view_of;
use crate::{Error, Result};

/// The kernels have the numbers of the format compiled in.
const _: () = {
    let format = SymbolLimits::FORMAT;
    assert!(format.chunk_symbols == kernel::CHUNK_SYMBOLS);
    assert!(format.frequencies == kernel::FREQUENCIES);
    assert!(format.repeats == kernel::REPEATS);
    assert!(format.fills == kernel::FILLS);
    assert!(format.history == kernel::HISTORY);
    assert!(format.classes_max == kernel::CLASSES_MAX);
    assert!(format.groups_max == kernel::GROUPS_MAX);
    assert!(format.repeat_gain == kernel::REPEAT_GAIN);
    assert!(format.probability_bits == kernel::PROBABILITY_BITS);
};

/// A grammar in the memory of the device that built it.
pub(crate) struct ResidentGrammar {
    pub(crate) device: Arc<Device>,
    pub(crate) grammar: DeviceGrammar,
}

/// Encodes a grammar on a device; none if the CPU is cheaper or the device lacks memory. The grammar is copied there unless it is
/// `resident` on that device.
///
/// # Errors
/// If a device fails that SET names.
pub(crate) fn encode_on_device(
    grammar: &Grammar,
    dictionary: &Dictionary,
    devices: &Devices,
    resident: Option<Box<ResidentGrammar>>,
) -> Result<Option<EncodedGrammar>> {
    let symbols = grammar.symbols.len() + grammar.root.len();
    let costs = encoding_costs(symbols, devices.threads());
    let distinct = (grammar.terminal_count + grammar.rule_count()) as usize;
    let Some(device) = devices.for_encoding(symbols, distinct, costs) else {
        return Ok(None);
    };
    let resident = resident.filter(|resident| Arc::ptr_eq(&resident.device, device));
    let encoded = device.with_gpu(|gpu| {
        EncodedGrammar::with(grammar, dictionary, |chunks| match &resident {
            Some(resident) => DeviceCoder::of_resident(gpu, &resident.grammar, chunks),
            None => DeviceCoder::new(gpu, grammar, chunks),
        })
    });
    match encoded {
        Err(error @ Error::Gpu(_)) if devices.falls_back() => {
            device.count_failure(&error);
            Ok(None)
        }
        encoded => encoded.map(Some),
    }
}

/// A coder that runs on a device.
#[derive(Debug)]
pub struct DeviceCoder {
    coder: kernel::SymbolCoder,
    /// The coded frequencies of all symbols, once known.
    frequencies: Vec<u8>,
    /// The coded symbols, at the end.
    blocks: Option<SymbolBlocks>,
}

impl DeviceCoder {
    /// A coder of a grammar with these chunks, which it copies to the device.
    ///
    /// # Errors
    /// [`Error::Gpu`].
    pub fn new(gpu: &Gpu, grammar: &Grammar, chunks: &ChunkOffsets) -> Result<DeviceCoder> {
        let view = view_of(grammar, &grammar.root_offsets, &grammar.root);
        DeviceCoder::of_resident(gpu, &DeviceGrammar::upload(gpu, view)?, chunks)
    }

    /// A coder of a grammar in the memory of the device, with these chunks.
    ///
    /// # Errors
    /// [`Error::Gpu`].
    pub fn of_resident(
        gpu: &Gpu,
        grammar: &DeviceGrammar,
        chunks: &ChunkOffsets,
    ) -> Result<DeviceCoder> {
        let chunks = SymbolChunks {
            offsets: &chunks.offsets,
            bodies: chunks.bodies,
            limits: &chunks.limits,
        };
        Ok(DeviceCoder {
            coder: kernel::SymbolCoder::new(gpu, grammar, chunks)?,
            frequencies: Vec::new(),
            blocks: None,
        })
    }
}

impl SymbolCoder for DeviceCoder {
    type Error = Error;

    fn frequencies(&mut self) -> Result<Vec<u8>> {
        self.frequencies = self.coder.frequencies()?;
        Ok(self.frequencies.clone())
    }

    fn neighbours(
        &mut self,
        lefts: &[u32],
        rights: &[u32],
        items: usize,
        step: usize,
    ) -> Result<Vec<NeighbourCount>> {
        let counts = self.coder.neighbours(lefts, rights, items, step)?;
        let counts = counts.into_par_iter();
        let counts = counts.map(|(right, left, count)| NeighbourCount { right, left, count });
        Ok(counts.collect())
    }

    fn past_counts(&mut self, ends: &[Ends], classes: usize, step: usize) -> Result<Vec<u32>> {
        let packed = ends.par_iter().zip(&self.frequencies);
        let packed = packed.map(|(ends, &frequency)| {
            u32::from_le_bytes([ends.left, ends.right, ends.before, frequency])
        });
        let packed: Vec<u32> = packed.collect();
        Ok(self.coder.past_counts(&packed, classes, step)?)
    }

    fn event_counts(&mut self, contexts: &Contexts) -> Result<EventCounts> {
        let counts = self
            .coder
            .event_counts(&contexts.of, &contexts.groups, contexts.count)?;
        Ok(EventCounts {
            classes: counts.classes,
            actions: counts.actions,
        })
    }

    fn blocks(&mut self, classes: &[Share], actions: &[Share]) -> Result<Vec<Cow<'_, [u8]>>> {
        let packed = |shares: &[Share]| shares.iter().map(|share| share.packed()).collect();
        let (classes, actions): (Vec<u32>, Vec<u32>) = (packed(classes), packed(actions));
        let blocks = self.blocks.insert(self.coder.code(&classes, &actions)?);
        let bounds = blocks.offsets.windows(2);
        let blocks = bounds.map(|bounds| blocks.bytes(bounds[0]..bounds[1]));
        Ok(blocks.map(Cow::Borrowed).collect())
    }
}
