//! Data-parallel grammar algorithms on plain slices.
//!
//! Every algorithm takes plain slices and gives plain vectors, works over
//! integers only, and runs on the current rayon pool. Results never depend on
//! the number of threads. Nothing here knows files, disks, SQL or text.

mod construct;
mod pair_rounds;
mod prune;
mod renumber;

pub use construct::{Constructed, Parameters, Stage, construct};
