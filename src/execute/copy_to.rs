//! COPY ... TO: writes the files of a corpus below a directory.
//!
//! Nothing that exists is overwritten, no file is left that is not complete, and no name leads out of the directory:
//! names come from a file that may have been tampered with.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::AtomicBool;

use rayon::prelude::*;

use crate::corpus::Corpus;
use crate::interrupt::{Interrupt, check};
use crate::{Error, Progress, Result};

/// Writes all files and returns how many there are.
pub(crate) fn copy_to(
    corpus: &Corpus,
    directory: &Path,
    progress: &dyn Progress,
    interrupt: &Interrupt,
) -> Result<u64> {
    let snapshot = corpus.snapshot()?;
    let files = snapshot.files();
    progress.begin("write", files.iter().map(|file| file.bytes).sum());
    interrupt.check()?;
    fs::create_dir_all(directory).map_err(io_error("create", directory))?;
    let written: Result<()> = interrupt.watch(&snapshot, |stop| {
        snapshot.prepare_content()?;
        files.par_iter().enumerate().try_for_each(|(index, file)| {
            let path = target_path(directory, &file.name)?;
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent).map_err(io_error("create", parent))?;
            }
            check(stop)?;
            let target = File::create_new(&path).map_err(io_error("create", &path))?;
            let mut writer = BufWriter::with_capacity(1 << 18, Stoppable { target, stop });
            let written = snapshot
                .write_file(index, &mut writer)
                .and_then(|written| written.map_err(io_error("write", &path)))
                .and_then(|()| writer.flush().map_err(io_error("write", &path)));
            if let Err(error) = written {
                // Not to be written again when the writer is dropped.
                drop(writer.into_parts());
                // What matters is why it is not complete.
                let _ = fs::remove_file(&path);
                return check(stop).and(Err(error));
            }
            progress.advance(file.bytes);
            Ok(())
        })
    });
    written?;
    progress.end();
    Ok(files.len() as u64)
}

/// A file that cannot be written any more once a flag is set.
struct Stoppable<'a> {
    target: File,
    stop: &'a AtomicBool,
}

impl Write for Stoppable<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        check(self.stop).map_err(io::Error::other)?;
        self.target.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.target.flush()
    }
}

/// Where a file goes, if its name stays below the directory.
fn target_path(directory: &Path, name: &str) -> Result<PathBuf> {
    let relative = Path::new(name);
    let stays_below = !name.is_empty()
        && relative
            .components()
            .all(|component| matches!(component, Component::Normal(_)));
    if !stays_below {
        return Err(Error::Invalid {
            subject: format!("file \"{name}\""),
            reason: "its name leads out of the target directory, so it is not written".into(),
        });
    }
    Ok(directory.join(relative))
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_path_buf();
    move |source| Error::Io {
        action,
        path,
        source,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_name_cannot_lead_out_of_the_directory() {
        let below = Path::new("out");
        assert_eq!(
            target_path(below, "a/b.txt").unwrap(),
            Path::new("out/a/b.txt")
        );
        for name in ["", "..", "../x", "a/../../x", "/etc/x", "a/.."] {
            assert!(target_path(below, name).is_err(), "{name}");
        }
    }
}
