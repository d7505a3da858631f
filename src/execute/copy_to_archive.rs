//! COPY ... TO an archive: writes the files of a corpus as tar, perhaps compressed.
//!
//! Invariant: the archive gets its name when it is complete, and COPY ... FROM it restores names and bytes of all files.

use std::path::Path;

use zipfdb_sql::plan::Compression;

use crate::Result;
use crate::handles::corpus::Corpus;
use crate::ingest::Progress;
use crate::runtime::interrupt::Interrupt;

/// Writes all files and returns how many there are.
#[cfg(feature = "formats")]
pub(super) fn copy_to_archive(
    corpus: &Corpus,
    path: &Path,
    compression: Option<Compression>,
    progress: &dyn Progress,
    interrupt: &Interrupt,
) -> Result<u64> {
    use std::io::{BufWriter, Write};

    use crate::execute::export::{ExportFile, PackedOutput};

    /// Bytes of a file that are written at a time.
    const BUFFER_BYTES: usize = 1 << 18;

    let shared = corpus.shared();
    let reader = corpus.reader(interrupt)?;
    let files = reader.view().files();
    progress.begin("write", files.iter().map(|file| file.bytes).sum());
    interrupt.check()?;
    let target = ExportFile::open(path, shared.directory().as_deref(), interrupt)?;
    let failed = |error| target.failed(error);
    reader.prepare_content(interrupt)?;
    let output = PackedOutput::new(compression, &target, failed)?;
    let output = BufWriter::with_capacity(BUFFER_BYTES, output);
    let mut archive = zipfdb_formats::TarWriter::new(output).map_err(failed)?;
    for (index, file) in files.iter().enumerate() {
        interrupt.check()?;
        let name = crate::paths::bytes_of_name(&file.name);
        archive.begin_file(&name, file.bytes).map_err(failed)?;
        let written = reader.view().write_file(index, archive.target())?;
        written.map_err(failed)?;
        archive.end_file(file.bytes).map_err(failed)?;
        progress.advance(file.bytes);
    }
    let mut output = archive.finish().map_err(failed)?;
    output.flush().map_err(failed)?;
    let output = output
        .into_inner()
        .map_err(|error| failed(error.into_error()))?;
    output.finish().map_err(failed)?;
    target.finish()?;
    progress.end();
    Ok(files.len() as u64)
}

/// Refuses to write an archive.
#[cfg(not(feature = "formats"))]
pub(super) fn copy_to_archive(
    _corpus: &Corpus,
    _path: &Path,
    _compression: Option<Compression>,
    _progress: &dyn Progress,
    _interrupt: &Interrupt,
) -> Result<u64> {
    Err(crate::error::needs_formats("an archive"))
}
