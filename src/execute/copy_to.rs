//! COPY ... TO: writes the files of a corpus below a directory.
//!
//! Nothing that exists is overwritten, and no name leads out of the directory:
//! names come from a file that may have been tampered with.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Component, Path, PathBuf};

use rayon::prelude::*;

use crate::corpus::Corpus;
use crate::{Error, Progress, Result};

/// Writes all files and returns how many there are.
pub(crate) fn copy_to(corpus: &Corpus, directory: &Path, progress: &dyn Progress) -> Result<u64> {
    let snapshot = corpus.snapshot()?;
    let files = snapshot.files();
    progress.begin("write", files.iter().map(|file| file.bytes).sum());
    fs::create_dir_all(directory).map_err(io_error("create", directory))?;
    let written: Result<()> = corpus.shared().pool.install(|| {
        files.par_iter().enumerate().try_for_each(|(index, file)| {
            let path = target_path(directory, &file.name)?;
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent).map_err(io_error("create", parent))?;
            }
            let target = File::create_new(&path).map_err(io_error("create", &path))?;
            let mut writer = BufWriter::with_capacity(1 << 18, target);
            let written = snapshot.write_file(index, &mut writer)?;
            written.map_err(io_error("write", &path))?;
            writer.flush().map_err(io_error("write", &path))?;
            progress.advance(file.bytes);
            Ok(())
        })
    });
    written?;
    progress.end();
    Ok(files.len() as u64)
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
