//! The targets of rows and packed texts.
//!
//! Invariant: under the name of a regular file is either the old content or all of the new one, on disk: it is a new file, synced
//! before it gets the name, and removed when a step fails. A symbolic link stays and leads to the new file, which has mode and
//! owner of the one it replaces. Files that are not regular, and standard output, are written into. No target is in a database.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::error::io_error;
use crate::new_files::{Directory, NewFile, PLAIN, PRIVATE};
use crate::paths::streams;
use crate::runtime::interrupt::Interrupt;
use crate::{Error, Result, paths};

/// The target of rows or bytes.
pub(crate) struct ExportFile {
    /// The path from the statement.
    path: PathBuf,
    kind: TargetKind,
    interrupt: Interrupt,
}

enum TargetKind {
    /// A new file, and its place.
    New {
        file: NewFile,
        directory: Directory,
        name: OsString,
        access: Access,
        /// Whether it replaces a file of this name.
        replaces: bool,
    },
    /// A pipe or device, or the target of a descriptor of the process.
    Stream(File),
    /// Standard output of the process, which other code writes to as well: its earlier output stays first.
    StandardOutput(File),
}

/// The permissions of a complete file. Before that only its owner can read it, unless it is `Plain`.
enum Access {
    /// Those that the umask leaves.
    Plain,
    /// These.
    As(Permissions),
    /// Those of the replaced file.
    Replaced(Box<Metadata>),
}

/// The most bytes that a pipe takes at once, if it takes any.
const PIPE_BYTES: usize = 4096;

impl ExportFile {
    /// Opens the target of `path`, to replace a regular file; `own` is the directory of the database, if it has one. Waits for a
    /// reader of a pipe.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be opened, [`Error::Invalid`] if it is inside a database.
    pub(crate) fn open(
        path: &Path,
        own: Option<&Path>,
        interrupt: &Interrupt,
    ) -> Result<ExportFile> {
        if let Some(stream) = ExportFile::stream(path, own, interrupt)? {
            return Ok(stream);
        }
        let access = match fs::metadata(path) {
            Ok(replaced) => Access::Replaced(Box::new(replaced)),
            Err(_) => Access::Plain,
        };
        ExportFile::regular(path, access, true, interrupt)
    }

    /// Opens the target of `path`, where no regular file may exist. The new file gets `permissions`, if there are any, when it is
    /// complete.
    ///
    /// # Errors
    /// As `open`, and [`Error::Invalid`] if a file exists there that is not written into.
    pub(crate) fn create(
        path: &Path,
        permissions: Option<Permissions>,
        interrupt: &Interrupt,
    ) -> Result<ExportFile> {
        if let Some(stream) = ExportFile::stream(path, None, interrupt)? {
            return Ok(stream);
        }
        if path.symlink_metadata().is_ok() {
            return Err(exists(path));
        }
        let access = permissions.map_or(Access::Plain, Access::As);
        ExportFile::regular(path, access, false, interrupt)
    }

    /// Opens a target that is written into; none if `path` means a regular file, or no file yet.
    fn stream(
        path: &Path,
        own: Option<&Path>,
        interrupt: &Interrupt,
    ) -> Result<Option<ExportFile>> {
        let failed = io_error("create", path);
        let kind = if streams::is_standard(path) || is_standard_output(path) {
            TargetKind::StandardOutput(streams::standard_output().map_err(failed)?)
        } else {
            paths::refuse_database(path, own)?;
            match fs::metadata(path) {
                Ok(found) if found.is_dir() => {
                    return Err(failed(io::ErrorKind::IsADirectory.into()));
                }
                Ok(found) if !found.is_file() || is_descriptor(path) => loop {
                    match streams::open_to_write(path) {
                        // A pipe that the process has already was open for reading: its reader is gone.
                        Err(error) if is_not_ready(&error) && is_descriptor(path) => {
                            return Err(io_error("write", path)(io::ErrorKind::BrokenPipe.into()));
                        }
                        Err(error) if is_not_ready(&error) => interrupt.check()?,
                        opened => break TargetKind::Stream(opened.map_err(failed)?),
                    }
                },
                Ok(_) => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(failed(error)),
            }
        };
        Ok(Some(ExportFile {
            path: path.to_path_buf(),
            kind,
            interrupt: interrupt.clone(),
        }))
    }

    /// A new file for the place that `path` leads to.
    fn regular(
        path: &Path,
        access: Access,
        replaces: bool,
        interrupt: &Interrupt,
    ) -> Result<ExportFile> {
        let failed = io_error("create", path);
        let place = paths::resolve(path).map_err(&failed)?;
        let (Some(parent), Some(name)) = (place.parent(), place.file_name()) else {
            return Err(failed(io::ErrorKind::IsADirectory.into()));
        };
        let directory = Directory::open(parent).map_err(&failed)?;
        let mode = match access {
            Access::Plain => PLAIN,
            Access::As(_) | Access::Replaced(_) => PRIVATE,
        };
        Ok(ExportFile {
            path: path.to_path_buf(),
            kind: TargetKind::New {
                file: NewFile::create(&directory, mode).map_err(&failed)?,
                directory,
                name: name.to_owned(),
                access,
                replaces,
            },
            interrupt: interrupt.clone(),
        })
    }

    /// Makes the new content the file's, durably.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Invalid`] if a file that may not be replaced was made meanwhile, or that the statement must end;
    /// then the old file stays.
    pub(crate) fn finish(self) -> Result<()> {
        let ExportFile {
            path,
            kind,
            interrupt,
        } = self;
        let TargetKind::New {
            file,
            directory,
            name,
            access,
            replaces,
        } = kind
        else {
            return Ok(());
        };
        let accessible = match &access {
            Access::Plain => Ok(()),
            Access::As(permissions) => file.file().set_permissions(permissions.clone()),
            Access::Replaced(replaced) => keep_access(file.file(), replaced),
        };
        accessible.map_err(io_error("create", &path))?;
        let failed = io_error("sync", &path);
        // If the statement ends during the sync, the new file is removed and the sync ends on this descriptor.
        let written = file.file().try_clone().map_err(&failed)?;
        interrupt.apart_from_all(move || written.sync_all().map_err(failed))?;
        let named = if replaces {
            file.replace(&name)
        } else {
            file.publish(&name).map(drop)
        };
        named.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => exists(&path),
            _ => io_error("write", &path)(error),
        })?;
        directory.sync().map_err(io_error("sync", &path))
    }

    /// The new file, if it is one: it can be written at any place.
    pub(crate) fn new_file(&self) -> Option<&File> {
        match &self.kind {
            TargetKind::New { file, .. } => Some(file.file()),
            TargetKind::Stream(_) | TargetKind::StandardOutput(_) => None,
        }
    }

    /// The interrupt of the statement.
    pub(super) fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// The error of a failed write: that the statement was interrupted, if it was.
    pub(crate) fn failed(&self, source: io::Error) -> Error {
        let interrupted = self.interrupt.check().err();
        interrupted.unwrap_or_else(|| io_error("write", &self.path)(source))
    }
}

impl Write for &ExportFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (mut file, bytes) = match &self.kind {
            TargetKind::New { file, .. } => return file.file().write(bytes),
            TargetKind::Stream(file) => (file, bytes),
            // It waits for its reader: at most one buffer of the pipe at a time.
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

/// Whether a path names the descriptor of standard output.
fn is_standard_output(path: &Path) -> bool {
    let descriptor = ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];
    descriptor.iter().any(|name| path == Path::new(name))
}

fn is_not_ready(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

/// Whether a path names a descriptor of the process: the target of that is never replaced.
fn is_descriptor(path: &Path) -> bool {
    ["/dev/stdout", "/dev/stderr", "/dev/fd", "/proc/self/fd"]
        .iter()
        .any(|descriptors| path.starts_with(descriptors))
}

/// The error for a file at the place of a new one.
fn exists(path: &Path) -> Error {
    Error::Invalid {
        subject: path.display().to_string(),
        reason: "it exists; hint: name a file that does not, or remove it".into(),
    }
}

/// Gives a new file mode and owner of the one it replaces. Where the owner cannot be kept no user gains access.
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
    file.set_permissions(Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn keep_access(file: &File, replaced: &Metadata) -> io::Result<()> {
    file.set_permissions(replaced.permissions())
}
