//! The same algorithms on GPUs.
//!
//! The invariant: every kernel gives bit for bit what its CPU twin in this
//! crate gives. A kernel lies in a `.cu` file with its launches in the `.rs`
//! beside it; both know a device only as a [`Gpu`], behind which is a CUDA
//! device (`cuda`) or, in tests and with the feature `emulator`, a host that
//! runs the kernels as C++.
//! Layers, from below: `driver` is what a device can do, `pool` its
//! memory, `device` buffers and launches, `primitives` scan, sort and the
//! like, and then the algorithms.
//!
//! Nothing here chooses between CPU and GPU: the planner does.

#[cfg(any(test, feature = "measure"))]
pub mod baseline;
mod coded_lists;
mod codes;
mod compile;
mod construct;
mod cuda;
mod device;
mod device_words;
mod driver;
#[cfg(any(test, feature = "emulator"))]
mod emulator;
#[cfg(feature = "measure")]
mod energy;
mod error;
mod fan_in;
mod file_counts;
mod file_words;
mod gompresso;
mod grammar;
mod intern;
mod intersect;
mod levels;
mod local_tables;
mod lookups;
mod merge;
mod merge_sort;
mod ngram_merge;
mod ngram_order;
mod ngram_rows;
mod ngrams;
mod pair_rounds;
mod phrases;
mod pool;
pub mod primitives;
#[cfg(any(test, feature = "measure"))]
mod profile;
mod prune;
mod query_batches;
mod renumber;
mod signature;
mod splices;
mod step;
mod structures;
pub mod symbol_coder;
mod tables;
#[cfg(test)]
mod test_devices;
mod top;
mod traversal;
mod weights;

pub use coded_lists::DeviceCodedLists;
pub use construct::{
    DeviceConstructed, TOKENS_MAX, construct, construct_resident, construct_uploaded,
};
pub use cuda::Absence;
pub use device::{Buffer, DeviceFacts, Gpu};
pub use device_words::DeviceWords;
#[cfg(feature = "emulator")]
pub use emulator::{Asked, emulate, emulated, record_asked, take_asked};
#[cfg(feature = "measure")]
pub use energy::EnergyMeter;
pub use error::GpuError;
pub use file_counts::{FileUses, file_word_counts, word_file_counts};
pub use gompresso::{DevicePacked, DeviceUnpackError};
pub use grammar::{ComingGrammar, DeviceGrammar};
pub use intern::{CutText, InternedTokens, TEXT_BYTES_MAX, TokenCut};
pub use intersect::{DeviceLists, ListSearch};
pub use local_tables::{Traversal, TraversalCosts, file_word_counts_bottom_up};
pub use lookups::{DeviceQueries, Extract, Extracted, ExtractedBytes, SearchResults, WordQuery};
pub use ngram_merge::{CutPlaces, MergedPart};
pub use ngram_rows::{DeviceNgramFileRows, DeviceNgramRows, ShownNgramFiles};
pub use ngrams::{
    DeviceNgramFiles, DeviceNgrams, each_ngram_counts, each_ngram_file_counts, ngram_counts,
    ngram_file_counts,
};
pub use phrases::{DeviceWordUses, ngram_count, ngram_places};
#[cfg(any(test, feature = "measure"))]
pub use profile::{KernelTime, Profile};
pub use query_batches::QueryIds;
pub use splices::{DeviceInserts, DeviceSplices};
pub use step::Step;
pub use structures::{DeviceParents, DeviceStructures, FileWeights, Terminals};
pub use tables::DeviceTable;
pub use weights::{weights, weights_with_root, words_by_count};

use driver::Source;
use rayon::prelude::*;

/// Every `.cu` file.
const SOURCES: &[&Source] = &[
    &primitives::SOURCE,
    &structures::SOURCE,
    &lookups::SOURCE,
    &merge_sort::SOURCE,
    &pair_rounds::SOURCE,
    &phrases::SOURCE,
    &prune::SOURCE,
    &renumber::SOURCE,
    &splices::SOURCE,
    &traversal::SOURCE,
    &fan_in::SOURCE,
    &weights::SOURCE,
    &tables::SOURCE,
    &top::SOURCE,
    &ngram_order::SOURCE,
    &ngram_merge::SOURCE,
    &merge::SOURCE,
    &codes::SOURCE,
    &local_tables::SOURCE,
    &file_words::SOURCE,
    &gompresso::SOURCE,
    &ngrams::SOURCE,
    &symbol_coder::SOURCE,
    &intern::SOURCE,
    &intersect::SOURCE,
    &coded_lists::SOURCE,
    &query_batches::SOURCE,
    #[cfg(any(test, feature = "measure"))]
    &baseline::SOURCE,
];

/// The devices of this machine, found by the first call: the CUDA devices, or emulated ones where there are none, if they
/// were asked for.
///
/// # Errors
///
/// [`Absence`] when there are none.
pub fn devices() -> Result<&'static [Gpu], &'static Absence> {
    let found = cuda::devices();
    #[cfg(feature = "emulator")]
    if let (Err(_), Some(emulated)) = (&found, emulator::devices()) {
        return Ok(emulated);
    }
    found
}

/// Compiles every kernel for an architecture, as `sm_90`, which needs NVRTC and no device: file names, and bytes of
/// machine code.
///
/// # Errors
///
/// [`GpuError::Compile`] of the first that does not compile.
pub fn compile_all(architecture: &str) -> Result<Vec<(&'static str, usize)>, GpuError> {
    let compiled = SOURCES.par_iter().map(|source| {
        let kernels = signature::kernels(source).into_par_iter();
        let sizes = kernels.map(|name| {
            let cubin = compile::cubin(source.kernel(name), architecture, None)?;
            Ok(cubin.len())
        });
        let size: Result<usize, GpuError> = sizes.sum();
        Ok((source.name, size?))
    });
    compiled.collect()
}
