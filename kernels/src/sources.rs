//! All `.cu` files of this crate.

use crate::gpu::GpuError;
use crate::gpu::compile::compile_sources;
use crate::gpu::driver::Source;
use crate::{construct, count, edit, gpu, grammar, lookup, ngrams, postings};

/// Every `.cu` file.
pub(crate) const SOURCES: &[&Source] = &[
    &gpu::primitives::SOURCE,
    &lookup::structures_gpu::SOURCE,
    &lookup::lookups_gpu::SOURCE,
    &gpu::merge_sort::SOURCE,
    &construct::pair_rounds_gpu::SOURCE,
    &lookup::phrases_gpu::SOURCE,
    &construct::prune_gpu::SOURCE,
    &construct::renumber_gpu::SOURCE,
    &edit::splices_gpu::SOURCE,
    &grammar::traversal_gpu::SOURCE,
    &grammar::fan_in_gpu::SOURCE,
    &grammar::weights_gpu::SOURCE,
    &count::tables_gpu::SOURCE,
    &ngrams::top_gpu::SOURCE,
    &ngrams::ngram_order_gpu::SOURCE,
    &ngrams::ngram_merge_gpu::SOURCE,
    &count::merge_gpu::SOURCE,
    &ngrams::codes_gpu::SOURCE,
    &count::local_tables_gpu::SOURCE,
    &count::rule_words_gpu::SOURCE,
    &count::file_words_gpu::SOURCE,
    &count::root_words_gpu::SOURCE,
    &count::key_tables_gpu::SOURCE,
    &ngrams::file_windows_gpu::SOURCE,
    &ngrams::all_ngrams_gpu::SOURCE,
    &construct::symbol_coder_gpu::SOURCE,
    &construct::intern_gpu::SOURCE,
    &postings::intersect_gpu::SOURCE,
    &postings::query_batches_gpu::SOURCE,
];

/// Compiles every kernel for an architecture, as `sm_90`, which needs NVRTC and no device: file names, and bytes of
/// machine code.
///
/// # Errors
///
/// [`GpuError::Compile`] of the first that does not compile.
pub fn compile_all(architecture: &str) -> Result<Vec<(&'static str, usize)>, GpuError> {
    compile_sources(SOURCES, architecture)
}
