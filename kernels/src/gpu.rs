//! Kernels on devices: what a device is asked to do, and who does it.
//!
//! Nothing here knows what a kernel computes.

mod driver;
mod emulator;
