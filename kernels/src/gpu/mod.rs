//! Devices, and what the kernels of all subjects share: launches, memory, scan and sort.
//!
//! The invariant: every kernel gives bit for bit what its CPU twin in this
//! crate gives. A kernel lies in a `.cu` file in the folder of its subject, with its launches in
//! the `_gpu.rs` beside it; both know a device only as a [`Gpu`], behind which is a CUDA
//! device (`cuda`) or, in tests and with the feature `emulator`, a host that
//! runs the kernels as C++.
//! Layers, from below: `driver` is what a device can do, `pool` its
//! memory, `device` buffers and launches, `primitives` scan, sort and the
//! like. What users ask of devices has its names here too, wherever it lies.
//!
//! Nothing here chooses between CPU and GPU: the planner does.

pub(crate) mod compile;
pub(crate) mod cuda;
pub(crate) mod device;
pub(crate) mod driver;
#[cfg(any(test, feature = "emulator"))]
pub(crate) mod emulator;
pub(crate) mod error;
pub(crate) mod levels;
pub(crate) mod merge_sort;
pub(crate) mod pool;
pub mod primitives;
pub(crate) mod signature;
#[cfg(any(test, feature = "emulator"))]
#[doc(hidden)]
pub mod test_devices;

pub use crate::construct::construct_gpu::{
    DeviceConstructed, TOKENS_MAX, construct, construct_resident, construct_uploaded,
};
pub use crate::construct::intern_gpu::{CutText, InternedTokens, TEXT_BYTES_MAX, TokenCut};
pub use crate::construct::step::Step;
pub use crate::construct::symbol_coder_gpu as symbol_coder;
pub use crate::count::file_counts_gpu::{FileUses, file_word_counts, word_file_counts};
pub use crate::count::local_tables_gpu::{Traversal, TraversalCosts, file_word_counts_bottom_up};
pub use crate::count::tables_gpu::DeviceTable;
pub use crate::edit::splices_gpu::{DeviceInserts, DeviceSplices};
pub use crate::grammar::grammar_gpu::{ComingGrammar, DeviceGrammar};
pub use crate::grammar::weights_gpu::{weights, words_by_count};
pub use crate::grammar::words_gpu::DeviceWords;
pub use crate::lookup::lookups_gpu::{
    DeviceQueries, Extract, Extracted, ExtractedBytes, SearchResults, WordQuery,
};
pub use crate::lookup::phrases_gpu::{DeviceWordUses, ngram_count, ngram_places};
pub use crate::lookup::structures_gpu::{DeviceParents, DeviceStructures, FileWeights, Terminals};
pub use crate::ngrams::all_ngrams_gpu::{
    DeviceNgramFiles, DeviceNgrams, each_ngram_counts, each_ngram_file_counts, ngram_counts,
    ngram_file_counts,
};
pub use crate::ngrams::ngram_merge_gpu::{CutPlaces, MergedPart};
pub use crate::ngrams::ngram_rows_gpu::{DeviceNgramFileRows, DeviceNgramRows, ShownNgramFiles};
pub use crate::postings::intersect_gpu::DeviceLists;
pub use crate::postings::query_batches_gpu::QueryIds;
pub use crate::sources::compile_all;
pub use cuda::Absence;
pub use device::{Buffer, DeviceFacts, Gpu};
#[cfg(feature = "emulator")]
pub use emulator::{Asked, emulate, emulated, record_asked, take_asked};
pub use error::GpuError;

/// What kernels of other crates are made of: sources and launches, and what they share with kernels of this crate.
///
/// For `bench/kernels`, whose kernels no database runs. It follows what this crate needs, and is no interface for others.
#[doc(hidden)]
pub mod building_blocks {
    pub use super::compile::compile_sources;
    pub use super::device::arguments;
    pub use super::driver::{
        Argument, Driver, Header, Kernel, Launch, NamedArgument, Source, THREADS,
    };
    pub use crate::count::key_tables_gpu::table_of_keys;
    pub use crate::count::tables_gpu::of_cells;
    pub use crate::grammar::traversal_gpu::hot_in_root;
    pub use crate::grammar::weights_gpu::root_counts;
    pub use crate::grammar::words_gpu::COLUMNS_MAX;
    pub use crate::ngrams::all_ngrams_gpu::rank_rows;
    pub use crate::ngrams::file_windows_gpu::window_rows;
    pub use crate::postings::intersect_gpu::{LIST_SEARCH_HEADER, PlainListNumbers};
    pub use crate::postings::query_batches_gpu::{
        BatchAnswers, BatchQueries, answer_batches, batches_of, shortest_first, survivors_of,
    };
}

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
