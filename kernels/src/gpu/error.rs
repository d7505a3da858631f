//! Errors of GPUs.
//!
//! The invariant: a message names the call, the device and what to do. None of
//! these panics, and none leaves a device half set up: it is used no more.

use std::path::PathBuf;

use crate::stop::Stopped;

/// A failure of a device, of its driver or of the compiler of its kernels.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GpuError {
    /// The driver refused a call, or an earlier launch failed.
    #[error("{device}: {call} failed: {reason}")]
    Call {
        /// The device, as `cuda:0`.
        device: String,
        /// The call of the driver, or the kernel that was launched.
        call: String,
        /// Name and text of the error.
        reason: String,
    },

    /// Device memory is used up, or the limit of what may be used.
    #[error(
        "{device}: {needed} bytes of memory are needed at least, {bytes} of them for one array, and the limit is {limit}; \
         hint: raise gpu_memory_limit or set device = 'cpu'"
    )]
    Memory {
        /// The device, as `cuda:0`.
        device: String,
        /// What was asked for.
        bytes: u64,
        /// Bytes needed, those in use included.
        needed: u64,
        /// Most bytes that may be in use.
        limit: u64,
    },

    /// More than one call takes on a device, whatever its memory.
    #[error("{items} {what} are more than the {limit} that a GPU takes; hint: set device = 'cpu'")]
    Limit {
        /// What there is too much of, as `tokens`.
        what: &'static str,
        /// How many there are.
        items: u64,
        /// How many there may be.
        limit: u64,
    },

    /// The flag that ends a computation was set.
    #[error(transparent)]
    Stopped(Stopped),

    /// A kernel does not compile, which is a fault of ours or of an unusual architecture.
    #[error("{source_name} does not compile for {architecture}: {log}")]
    Compile {
        /// The `.cu` file.
        source_name: String,
        /// As `sm_90`.
        architecture: String,
        /// The messages of the compiler.
        log: String,
    },

    /// Where compiled kernels are kept cannot be written; they are compiled anew each time.
    #[error("{path}: cannot keep compiled kernels: {reason}")]
    Cache {
        /// The file.
        path: PathBuf,
        /// What the system says.
        reason: String,
    },
}
