//! `zipf repair`: what can be read of a damaged database, in a new one.
//!
//! Invariant: everything it says goes to standard error, and it succeeds only if nothing is lost.

use std::path::Path;

use zipfdb::storage::PathText;

use zipfdb::InterruptHandle;

use crate::error::Error;
use crate::interrupt::Signals;
use crate::message;
use crate::progress::Bars;

/// Builds the new database, by default next to the damaged one.
pub fn run(database: &Path, target: Option<&Path>, signals: &Signals) -> Result<(), Error> {
    let target = match target {
        Some(target) => target.to_path_buf(),
        None => {
            // Without a slash at its end, which would put the new one into it.
            let mut name = database.components().as_path().as_os_str().to_owned();
            name.push(".repaired");
            name.into()
        }
    };
    let interrupt = InterruptHandle::new();
    let _running = signals.begin(interrupt.clone());
    let repaired = zipfdb::repair::repair(database, &target, &Bars::new(), &interrupt);
    let report = repaired.map_err(|source| Error::Repair {
        source: Box::new(source),
        path: database.to_path_buf(),
    })?;
    for note in &report.notes {
        message::note(note);
    }
    for lost in &report.lost {
        message::note(&format!("lost: {lost}"));
    }
    message::note(&format!(
        "{} corpora with {} files, {} bytes, are in `{}`",
        report.corpora,
        report.files,
        report.bytes,
        PathText(&target)
    ));
    match report.lost.len() {
        0 => Ok(()),
        count => Err(Error::Lost {
            count,
            path: target,
        }),
    }
}
