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

mod codes;
mod compile;
mod construct;
mod cuda;
mod device;
mod device_words;
mod driver;
#[cfg(any(test, feature = "emulator"))]
mod emulator;
mod error;
mod fan_in;
mod file_counts;
mod file_words;
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
mod prune;
mod query_batches;
mod renumber;
mod signature;
mod splices;
mod step;
mod structures;
pub mod symbol_coder;
mod tables;
#[cfg(any(test, feature = "emulator"))]
#[doc(hidden)]
pub mod test_devices;
mod top;
mod traversal;
mod weights;

pub use construct::{
    DeviceConstructed, TOKENS_MAX, construct, construct_resident, construct_uploaded,
};
pub use cuda::Absence;
pub use device::{Buffer, DeviceFacts, Gpu};
pub use device_words::DeviceWords;
#[cfg(feature = "emulator")]
pub use emulator::{Asked, emulate, emulated, record_asked, take_asked};
pub use error::GpuError;
pub use file_counts::{FileUses, file_word_counts, word_file_counts};
pub use grammar::{ComingGrammar, DeviceGrammar};
pub use intern::{CutText, InternedTokens, TEXT_BYTES_MAX, TokenCut};
pub use intersect::DeviceLists;
pub use local_tables::{Traversal, TraversalCosts, file_word_counts_bottom_up};
pub use lookups::{DeviceQueries, Extract, Extracted, ExtractedBytes, SearchResults, WordQuery};
pub use ngram_merge::{CutPlaces, MergedPart};
pub use ngram_rows::{DeviceNgramFileRows, DeviceNgramRows, ShownNgramFiles};
pub use ngrams::{
    DeviceNgramFiles, DeviceNgrams, each_ngram_counts, each_ngram_file_counts, ngram_counts,
    ngram_file_counts,
};
pub use phrases::{DeviceWordUses, ngram_count, ngram_places};
pub use query_batches::QueryIds;
pub use splices::{DeviceInserts, DeviceSplices};
pub use step::Step;
pub use structures::{DeviceParents, DeviceStructures, FileWeights, Terminals};
pub use tables::DeviceTable;
pub use weights::{weights, weights_with_root, words_by_count};

use driver::Source;

/// What kernels of other crates are made of: sources and launches, and what they share with kernels of this crate.
///
/// For `bench/kernels`, whose kernels no database runs. It follows what this crate needs, and is no interface for others.
#[doc(hidden)]
pub mod building_blocks {
    pub use super::compile::compile_sources;
    pub use super::device::arguments;
    pub use super::device_words::COLUMNS_MAX;
    pub use super::driver::{Argument, Driver, Header, Kernel, Launch, Source, THREADS};
    pub use super::file_words::{table_of_keys, window_rows};
    pub use super::intersect::{LIST_SEARCH_HEADER, PlainListNumbers};
    pub use super::ngrams::rank_rows;
    pub use super::query_batches::{
        BatchAnswers, BatchQueries, answer_batches, batches_of, shortest_first, survivors_of,
    };
    pub use super::tables::of_cells;
    pub use super::weights::root_counts;
}

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
    &ngrams::SOURCE,
    &symbol_coder::SOURCE,
    &intern::SOURCE,
    &intersect::SOURCE,
    &query_batches::SOURCE,
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
    compile::compile_sources(SOURCES, architecture)
}
