//! What the wrappers of kernels ask of a device.
//!
//! The invariant: what is asked of one driver happens in the order in which it
//! is asked. Nothing here chooses a device or knows a kernel.

use std::fmt;

/// A device did not do what it was asked to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GpuError {
    /// `call` failed, and the driver says why.
    Failed { call: &'static str, message: String },
}

impl fmt::Display for GpuError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GpuError::Failed { call, message } = self;
        write!(f, "{call}: {message}")
    }
}

impl std::error::Error for GpuError {}

/// One in-order queue of work on one device. Addresses are the device's.
pub(crate) trait Driver: Send + Sync + fmt::Debug {
    /// Memory of at least one byte, with undefined contents.
    fn allocate(&self, bytes: usize) -> Result<u64, GpuError>;
    fn free(&self, address: u64);
    fn upload(&self, to: u64, bytes: &[u8]) -> Result<(), GpuError>;
    /// Waits for the bytes.
    fn download(&self, from: u64, bytes: &mut [u8]) -> Result<(), GpuError>;
    fn copy(&self, to: u64, from: u64, bytes: usize) -> Result<(), GpuError>;
    fn fill(&self, to: u64, byte: u8, bytes: usize) -> Result<(), GpuError>;
    fn launch(
        &self,
        kernel: &Kernel,
        launch: Launch,
        arguments: &[Argument],
    ) -> Result<(), GpuError>;
    /// Waits for everything asked so far.
    fn synchronize(&self) -> Result<(), GpuError>;
}

/// A file of kernels.
#[derive(Debug)]
pub(crate) struct Source {
    pub name: &'static str,
    pub text: &'static str,
    /// Numbers that kernels share with their wrappers.
    pub definitions: &'static [(&'static str, u64)],
}

/// A function of a source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernel {
    pub source: &'static Source,
    pub name: &'static str,
}

/// How many threads run a kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Launch {
    pub blocks: u32,
    pub threads: u32,
}

/// An argument of a kernel: a number or an address.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Argument {
    U32(u32),
    U64(u64),
}
