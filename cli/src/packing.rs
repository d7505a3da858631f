//! `zipf pack` and `zipf unpack`: files in blocks that are unpacked in parallel.
//!
//! Invariant: everything they say goes to standard error, and the file they write is there whole or not at all, also if a signal
//! ends them.

use std::path::Path;

use zipfdb::pack::PackedSizes;

use zipfdb::storage::PathText;

use zipfdb::InterruptHandle;

use crate::arguments::PackArguments;
use crate::error::Error;
use crate::interrupt::Signals;
use crate::message;
use crate::progress::Bars;

/// Packs a file and says how small it has become.
pub fn pack(arguments: &PackArguments, signals: &Signals) -> Result<(), Error> {
    let (source, target) = (&arguments.source, &arguments.target);
    let interrupt = InterruptHandle::new();
    let _running = signals.begin(interrupt.clone());
    let options = arguments.options();
    let packed = zipfdb::pack::pack_file(source, target, &options, &Bars::new(), &interrupt);
    let PackedSizes { text, packed, .. } =
        packed.map_err(|source| Error::of_packing("pack", source))?;
    let place = place(target);
    message::note(&format!("{text} bytes are {packed} {place}"));
    Ok(())
}

/// Unpacks a file.
pub fn unpack(source: &Path, target: &Path, signals: &Signals) -> Result<(), Error> {
    let interrupt = InterruptHandle::new();
    let _running = signals.begin(interrupt.clone());
    let unpacked = zipfdb::pack::unpack_file(source, target, &Bars::new(), &interrupt);
    let PackedSizes { text, .. } =
        unpacked.map_err(|source| Error::of_packing("unpack", source))?;
    message::note(&format!("{text} bytes are {}", place(target)));
    Ok(())
}

/// Where bytes went.
fn place(target: &Path) -> String {
    if target.as_os_str() == "-" {
        "on standard output".to_owned()
    } else {
        format!("in `{}`", PathText(target))
    }
}
