//! `zipf pack` and `zipf unpack`: files in blocks that are unpacked in parallel.
//!
//! Invariant: everything they say goes to standard error, and the file they write is there whole or not at all.

use std::path::Path;

use zipfdb::PackedSizes;

use crate::arguments::PackArguments;
use crate::error::Error;
use crate::message;
use crate::progress::Bars;

/// Packs a file and says how small it has become.
pub fn pack(arguments: &PackArguments) -> Result<(), Error> {
    let (source, target) = (&arguments.source, &arguments.target);
    let packed = zipfdb::pack_file(source, target, &arguments.options(), &Bars::new());
    let PackedSizes { text, packed, .. } = packed.map_err(|source| Error::Pack {
        action: "pack",
        source: Box::new(source),
    })?;
    let target = target.display();
    message::note(&format!("{text} bytes are {packed} in `{target}`"));
    Ok(())
}

/// Unpacks a file.
pub fn unpack(source: &Path, target: &Path) -> Result<(), Error> {
    let unpacked = zipfdb::unpack_file(source, target, &Bars::new());
    let PackedSizes { text, .. } = unpacked.map_err(|source| Error::Pack {
        action: "unpack",
        source: Box::new(source),
    })?;
    message::note(&format!("{text} bytes are in `{}`", target.display()));
    Ok(())
}
