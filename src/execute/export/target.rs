//! Where rows and packed texts go.
//!
//! Invariant: under the name of a regular file is either what was there before or all that was written, on disk: it is a new file,
//! synced before it gets the name, and gone when anything fails. A symbolic link stays and leads to the new file, which
//! has mode and owner of the one it replaces. What is no regular file, and standard output, is written into. Nothing goes
//! into a database.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::error::io_error;
use crate::new_files::{Directory, NewFile, PLAIN, PRIVATE};
use crate::paths::streams;
use crate::runtime::interrupt::Interrupt;
use crate::{Error, Result, paths};

/// What rows or bytes are written to.
pub(crate) struct ExportFile {
    /// As it was given.
    path: PathBuf,
    kind: TargetKind,
    interrupt: Interrupt,
}

enum TargetKind {
    /// A new file, and the place that it gets.
    New {
        file: NewFile,
        directory: Directory,
        name: OsString,
        access: Access,
        /// Whether a file of this name gives way.
        replaces: bool,
    },
    /// A pipe or device, or what a descriptor of the process leads to.
    Stream(File),
    /// Standard output of the process, which others write to as well: what was written before stays before.
    StandardOutput(File),
}

/// What a file that is complete allows. Before that it is readable for its owner only, unless it is `Plain`.
enum Access {
    /// What the umask leaves.
    Plain,
    /// What these say.
    As(Permissions),
    /// As the file allows that it replaces.
    Replaced(Box<Metadata>),
}

/// Most bytes that a pipe takes at once, if it takes any.
const PIPE_BYTES: usize = 4096;

impl ExportFile {
    /// Opens what `path` means, to replace a regular file; `own` is the directory of the database, if it has one. Waits for a reader
    /// of a pipe.
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

    /// Opens what `path` means, where no regular file may be. The new file gets `permissions`, if there are any, when it is
    /// complete.
    ///
    /// # Errors
    /// As `open`, and [`Error::Invalid`] if something is there that is not written into.
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

    /// Opens what is written into; none if `path` means a regular file, or nothing yet.
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
                        // A pipe that the process has already was read by something: that is gone.
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

    /// A new file that gets the place that `path` leads to.
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

    /// Makes what was written the content of the file, for good.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Invalid`] if a file that may not be replaced has come meanwhile, or that the statement has to end; then the
    /// file is as it was before.
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
        // A file that is not waited for any more is gone.
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

    /// The new file, if it is one: it may be written at any place.
    pub(crate) fn new_file(&self) -> Option<&File> {
        match &self.kind {
            TargetKind::New { file, .. } => Some(file.file()),
            TargetKind::Stream(_) | TargetKind::StandardOutput(_) => None,
        }
    }

    /// The statement that writes.
    pub(super) fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    /// What is said of a write that failed: that the statement was interrupted, if it was.
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

/// Whether a path names the descriptor of standard output.
fn is_standard_output(path: &Path) -> bool {
    let descriptor = ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];
    descriptor.iter().any(|name| path == Path::new(name))
}

fn is_not_ready(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

/// Whether a path names a descriptor of the process: what that leads to is never replaced.
fn is_descriptor(path: &Path) -> bool {
    ["/dev/stdout", "/dev/stderr", "/dev/fd", "/proc/self/fd"]
        .iter()
        .any(|descriptors| path.starts_with(descriptors))
}

/// Something is where a new file should be.
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
