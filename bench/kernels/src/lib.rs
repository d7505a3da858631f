//! Kernels and codecs that only comparisons run: ways to do what a database does otherwise, and what kernels are measured by.
//!
//! The invariant: answers are those of `zipfdb-kernels`, or of the definition, whichever way is taken. What is here was measured and
//! lost, or serves a paper's tables: no statement and no command reaches it, so it is no part of what a database ships. It is written with
//! the `building_blocks` of `zipfdb-kernels`.

pub mod baseline;
mod coded_lists;
mod device_searches;
mod energy;
mod gompresso;
mod list_searches;
mod prefix_code;
mod profile;
mod row_tops;
mod segment_sums;
mod set_operations;
mod shared_lists;

pub use coded_lists::DeviceCodedLists;
pub use device_searches::{ListSearch, SearchedLists};
pub use energy::EnergyMeter;
pub use gompresso::{DevicePacked, DeviceUnpackError};
pub use list_searches::{ListIndex, SafeRange, SearchMethod, intersect_plain};
pub use profile::{KernelTime, Profile};
pub use row_tops::row_tops;
pub use segment_sums::segment_sums;
pub use set_operations::{difference, intersect, intersect_count, union};
pub use shared_lists::{SharedLists, decode_shared_lists, encode_shared_lists};

use zipfdb_kernels::gpu::GpuError;
use zipfdb_kernels::gpu::building_blocks::{Header, Source, compile_sources};

/// What kernels that search by lines include.
const LINES_HEADER: Header = ("lines.cuh", include_str!("lines.cuh"));

/// Every `.cu` file.
const SOURCES: &[&Source] = &[
    &baseline::SOURCE,
    &coded_lists::SOURCE,
    &device_searches::SOURCE,
    &gompresso::SOURCE,
    &row_tops::SOURCE,
    &segment_sums::SOURCE,
];

/// Compiles every kernel of this crate for an architecture, as [`compile_all`](zipfdb_kernels::gpu::compile_all) those of
/// `zipfdb-kernels`.
///
/// # Errors
///
/// [`GpuError::Compile`] of the first that does not compile.
pub fn compile_all(architecture: &str) -> Result<Vec<(&'static str, usize)>, GpuError> {
    compile_sources(SOURCES, architecture)
}
