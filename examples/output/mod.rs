//! The standard output of an example, which ends quietly where a pipe such as `| head -1` reads no further.

use std::error::Error;
use std::io::{self, Write};

/// Runs an example, for which a closed output is no failure.
pub fn run(
    example: impl FnOnce(&mut dyn Write) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    match example(&mut io::stdout().lock()) {
        Err(error) if is_closed(&*error) => Ok(()),
        done => done,
    }
}

fn is_closed(error: &(dyn Error + 'static)) -> bool {
    (error.downcast_ref::<io::Error>())
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
