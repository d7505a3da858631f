//! Files that are not regular: pipes, terminals and devices, named by a path.
//!
//! Invariant: no call waits longer than [`WAIT_MAX`]: an end that is not ready by then is
//! [`WouldBlock`](std::io::ErrorKind::WouldBlock), so that the caller can check for interruption.

use std::fs::{File, FileType};
use std::io;
use std::path::Path;
use std::time::Duration;

/// The longest time that a call waits for the other end.
pub(crate) const WAIT_MAX: Duration = Duration::from_millis(50);

/// Whether a path means standard input or output of the process; a file of this name is `./-`.
pub(crate) fn is_standard(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Opens the source of an import: standard input for `-`.
pub(crate) fn open_source(path: &Path) -> io::Result<File> {
    if is_standard(path) {
        standard_input()
    } else {
        open_to_read(path)
    }
}

/// Standard input of the process, which must not be buffered elsewhere.
#[cfg(unix)]
pub(crate) fn standard_input() -> io::Result<File> {
    use std::os::fd::AsFd;
    Ok(io::stdin().as_fd().try_clone_to_owned()?.into())
}

/// Standard output of the process.
#[cfg(unix)]
pub(crate) fn standard_output() -> io::Result<File> {
    use std::os::fd::AsFd;
    Ok(io::stdout().as_fd().try_clone_to_owned()?.into())
}

/// Whether a file is read to its end, or written, in order: a pipe or a device.
#[cfg(unix)]
pub(crate) fn is_stream(kind: FileType) -> bool {
    use std::os::unix::fs::FileTypeExt;
    kind.is_fifo() || kind.is_char_device() || kind.is_block_device()
}

/// Opens a file for reading, also a pipe without a writer.
#[cfg(unix)]
pub(crate) fn open_to_read(path: &Path) -> io::Result<File> {
    open(path, std::fs::OpenOptions::new().read(true))
}

/// Opens a file for appending. A pipe without a reader is not ready.
#[cfg(unix)]
pub(crate) fn open_to_write(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::FileTypeExt;
    let opened = open(path, std::fs::OpenOptions::new().append(true));
    let not_ready = rustix::io::Errno::NXIO.raw_os_error();
    match opened {
        Err(error)
            if error.raw_os_error() == Some(not_ready)
                && std::fs::metadata(path)?.file_type().is_fifo() =>
        {
            std::thread::sleep(WAIT_MAX);
            Err(io::ErrorKind::WouldBlock.into())
        }
        other => other,
    }
}

#[cfg(unix)]
fn open(path: &Path, options: &mut std::fs::OpenOptions) -> io::Result<File> {
    use rustix::fs::OFlags;
    use std::os::unix::fs::OpenOptionsExt;
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    options.custom_flags(flags.bits() as i32).open(path) // both are low bits
}

/// Waits until bytes can be read, or the end has been reached.
#[cfg(unix)]
pub(crate) fn wait_to_read(file: &File) -> io::Result<()> {
    wait(file, rustix::event::PollFlags::IN)
}

/// Waits until bytes can be written, or never will be.
#[cfg(unix)]
pub(crate) fn wait_to_write(file: &File) -> io::Result<()> {
    wait(file, rustix::event::PollFlags::OUT)
}

#[cfg(unix)]
fn wait(file: &File, flags: rustix::event::PollFlags) -> io::Result<()> {
    let mut polled = [rustix::event::PollFd::new(file, flags)];
    let time = rustix::event::Timespec {
        tv_sec: 0,
        tv_nsec: WAIT_MAX.as_nanos() as _, // below a second
    };
    match rustix::event::poll(&mut polled, Some(&time)) {
        Ok(0) | Err(rustix::io::Errno::INTR) => Err(io::ErrorKind::WouldBlock.into()),
        Ok(_) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

// Other systems read and write regular files only.
#[cfg(not(unix))]
mod elsewhere {
    use super::*;

    pub(crate) fn standard_input() -> io::Result<File> {
        use std::os::windows::io::AsHandle;
        Ok(io::stdin().as_handle().try_clone_to_owned()?.into())
    }

    pub(crate) fn standard_output() -> io::Result<File> {
        use std::os::windows::io::AsHandle;
        Ok(io::stdout().as_handle().try_clone_to_owned()?.into())
    }

    pub(crate) fn is_stream(_kind: FileType) -> bool {
        false
    }

    pub(crate) fn open_to_read(path: &Path) -> io::Result<File> {
        File::open(path)
    }

    pub(crate) fn open_to_write(path: &Path) -> io::Result<File> {
        std::fs::OpenOptions::new().append(true).open(path)
    }

    pub(crate) fn wait_to_read(_file: &File) -> io::Result<()> {
        Ok(())
    }

    pub(crate) fn wait_to_write(_file: &File) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(not(unix))]
pub(crate) use elsewhere::*;
