//! Memory of the host: on huge pages, and given back to the system.

pub(crate) mod free_memory;
pub(crate) mod huge_pages;
