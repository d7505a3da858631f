//! Where the rows of COPY (SELECT ...) TO go.
//!
//! Invariant: under the name of a regular file is either what was there before or the whole answer, on disk: it is written
//! beside, synced and renamed, and removed when anything fails. A symbolic link stays and leads to the new file, which
//! has mode and owner of the one it replaces. What is no regular file, and standard output, is written into. Nothing goes
//! into a database.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::paths::streams;
use crate::runtime::interrupt::Interrupt;
use crate::{Error, Result, paths};

/// What rows are written to.
pub(crate) struct ExportFile {
    /// As it was given.
    path: PathBuf,
    kind: TargetKind,
    interrupt: Interrupt,
}

enum TargetKind {
    /// A new file, beside the path that it gets.
    Beside {
        file: NamedTempFile<File>,
        path: PathBuf,
        replaced: Option<Box<Metadata>>,
    },
    /// A pipe or device, or what a descriptor of the process leads to.
    Stream(File),
    /// Standard output of the process, which others write to as well: what was written before stays before.
    StandardOutput(File),
}

/// The path that means standard output.
const STANDARD_OUTPUT: &str = "-";

/// Most bytes that a pipe takes at once, if it takes any.
const PIPE_BYTES: usize = 4096;

impl ExportFile {
    /// Opens what `path` means; `own` is the directory of the database, if it has one. Waits for somebody to read a pipe.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be opened, [`Error::Invalid`] if it is inside a database.
    pub(crate) fn open(
        path: &Path,
        own: Option<&Path>,
        interrupt: &Interrupt,
    ) -> Result<ExportFile> {
        let failed = |source| Error::Io {
            action: "create",
            path: path.to_path_buf(),
            source,
        };
        if path.as_os_str() == STANDARD_OUTPUT {
            let file = standard_output().map_err(failed)?;
            return Ok(ExportFile {
                path: path.to_path_buf(),
                kind: TargetKind::StandardOutput(file),
                interrupt: interrupt.clone(),
            });
        }
        paths::refuse_database(path, own)?;
        let found = match fs::metadata(path) {
            Ok(found) => Some(found),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(error)),
        };
        let kind = match found {
            Some(found) if found.is_dir() => {
                return Err(failed(io::ErrorKind::IsADirectory.into()));
            }
            Some(found) if !found.is_file() || is_descriptor(path) => loop {
                match streams::open_to_write(path) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => interrupt.check()?,
                    opened => break TargetKind::Stream(opened.map_err(failed)?),
                }
            },
            replaced => {
                let path = paths::resolve(path).map_err(failed)?;
                let directory = path.parent().unwrap_or(&path);
                // Unlike a temporary file it is as readable as others of the user, and no more than the one it replaces.
                let file = tempfile::Builder::new()
                    .prefix(".export-")
                    .make_in(directory, |path| create(path, replaced.as_ref()))
                    .map_err(failed)?;
                TargetKind::Beside {
                    file,
                    path,
                    replaced: replaced.map(Box::new),
                }
            }
        };
        Ok(ExportFile {
            path: path.to_path_buf(),
            kind,
            interrupt: interrupt.clone(),
        })
    }

    /// Makes what was written the content of the file, for good.
    ///
    /// # Errors
    /// [`Error::Io`], or that the statement has to end; then the file is as it was before.
    pub(super) fn finish(self) -> Result<()> {
        let failed = |action| {
            let path = self.path.clone();
            move |source| Error::Io {
                action,
                path,
                source,
            }
        };
        let TargetKind::Beside {
            file,
            path,
            replaced,
        } = self.kind
        else {
            return Ok(());
        };
        if let Some(replaced) = replaced {
            keep_access(file.as_file(), &replaced).map_err(failed("create"))?;
        }
        // A file that nobody waits for any more is gone.
        let written = file.as_file().try_clone().map_err(failed("sync"))?;
        let sync = failed("sync");
        (self.interrupt).apart_from_all(move || written.sync_all().map_err(sync))?;
        file.persist(&path)
            .map_err(|error| failed("write")(error.error))?;
        // Not every system can open a directory; where one can, the rename is made durable.
        if let Some(Ok(directory)) = path.parent().map(File::open) {
            directory.sync_all().map_err(failed("sync"))?;
        }
        Ok(())
    }

    /// The statement that writes.
    pub(super) fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// What is said of a write that failed: that the statement was interrupted, if it was.
    pub(super) fn failed(&self, source: io::Error) -> Error {
        self.interrupt.check().err().unwrap_or_else(|| Error::Io {
            action: "write",
            path: self.path.clone(),
            source,
        })
    }
}

impl Write for &ExportFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (mut file, bytes) = match &self.kind {
            TargetKind::Beside { file, .. } => return file.as_file().write(bytes),
            TargetKind::Stream(file) => (file, bytes),
            // It waits for its reader: not with more than fits.
            TargetKind::StandardOutput(file) => (file, &bytes[..bytes.len().min(PIPE_BYTES)]),
        };
        loop {
            match streams::wait_to_write(file).and_then(|()| file.write(bytes)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.interrupt.check().map_err(io::Error::other)?;
                }
                written => return written,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(unix)]
fn standard_output() -> io::Result<File> {
    use std::os::fd::AsFd;
    Ok(io::stdout().as_fd().try_clone_to_owned()?.into())
}

#[cfg(windows)]
fn standard_output() -> io::Result<File> {
    use std::os::windows::io::AsHandle;
    Ok(io::stdout().as_handle().try_clone_to_owned()?.into())
}

/// Whether a path names a descriptor of the process: what that leads to is never replaced.
fn is_descriptor(path: &Path) -> bool {
    ["/dev/stdout", "/dev/stderr", "/dev/fd", "/proc/self/fd"]
        .iter()
        .any(|descriptors| path.starts_with(descriptors))
}

#[cfg(unix)]
fn create(path: &Path, replaced: Option<&Metadata>) -> io::Result<File> {
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
    let mode = replaced.map_or(0o666, |file| file.permissions().mode() & 0o777);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(mode).open(path)
}

#[cfg(not(unix))]
fn create(path: &Path, _replaced: Option<&Metadata>) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path)
}

/// Gives a new file mode and owner of the one it replaces. Where the owner cannot be kept nobody gains access.
#[cfg(unix)]
fn keep_access(file: &File, replaced: &Metadata) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
    let now = file.metadata()?;
    let mut mode = replaced.mode() & 0o7777;
    let mut keep = |owner, group, lost: u32| {
        if fchown(file, owner, group).is_err() {
            mode &= !lost;
        }
    };
    if now.gid() != replaced.gid() {
        keep(None, Some(replaced.gid()), 0o2070);
    }
    if now.uid() != replaced.uid() {
        keep(Some(replaced.uid()), None, 0o4000);
    }
    file.set_permissions(fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn keep_access(file: &File, replaced: &Metadata) -> io::Result<()> {
    file.set_permissions(replaced.permissions())
}
