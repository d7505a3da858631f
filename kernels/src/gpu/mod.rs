//! The same algorithms on GPUs.
//!
//! The invariant: every kernel gives bit for bit what its CPU twin in this
//! crate gives. A kernel lies in a `.cu` file with its launches in the `.rs`
//! beside it; both know a device only as a [`Gpu`], behind which is a CUDA
//! device ([`cuda`]) or, in tests and with the feature `emulator`, a host that
//! runs the kernels as C++.
//! Layers, from below: [`driver`] is what a device can do, [`pool`] its
//! memory, [`gpu`](self) buffers and launches, `primitives` scan, sort and the
//! like, and then the algorithms.
//!
//! Nothing here chooses between CPU and GPU: the planner does.

mod compile;
mod construct;
mod cuda;
mod device;
mod driver;
#[cfg(any(test, feature = "emulator"))]
mod emulator;
mod error;
mod grammar;
mod lookups;
mod merge_sort;
mod pair_rounds;
mod pool;
pub mod primitives;
mod prune;
mod renumber;
mod structures;
#[cfg(test)]
mod test_devices;

pub use construct::{DeviceConstructed, Step, TOKENS_MAX, construct, construct_resident};
pub use cuda::Absence;
pub use device::{Buffer, DeviceFacts, Gpu};
pub use error::GpuError;
pub use grammar::DeviceGrammar;
pub use lookups::{DeviceQueries, Extract, Extracted, ExtractedBytes, SearchResults, WordQuery};
#[cfg(feature = "emulator")]
pub use emulator::emulate;
pub use structures::{DeviceParents, DeviceStructures, FileWeights, Terminals};

use driver::Source;

/// Every `.cu` file.
const SOURCES: [&Source; 7] = [
    &primitives::SOURCE,
    &structures::SOURCE,
    &lookups::SOURCE,
    &merge_sort::SOURCE,
    &pair_rounds::SOURCE,
    &prune::SOURCE,
    &renumber::SOURCE,
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
    let compiled = SOURCES.iter().map(|source| {
        let cubin = compile::cubin(source, architecture, None)?;
        Ok((source.name, cubin.len()))
    });
    compiled.collect()
}
