//! COPY (SELECT ...) TO: rows to a file.
//!
//! `output` formats rows, `target` writes them. Threads of the pool format batches while the next ones are made. Invariant: the
//! output does not depend on threads.

mod packed;
#[cfg(feature = "formats")]
mod table;
mod target;

use std::sync::Arc;

use rayon::ThreadPool;
use zipfdb_sql::plan::{Compression, RowFormat, TableFormat};

pub(crate) use self::packed::PackedOutput;
#[cfg(feature = "formats")]
pub(crate) use self::table::export_table;
pub(crate) use self::target::ExportFile;
use crate::Result;
use crate::batch::{BATCH_ROWS, Batch, BatchColumn};
use crate::handles::row::Column;
use crate::handles::rows::Rows;
use crate::notice::Notice;
use crate::output::RowWriter;
use crate::runtime::prefetch::Prefetch;

/// Writes all rows. Returns the notices of the query and those of the file.
///
/// # Errors
/// If a row fails, or the target cannot be written.
pub(crate) fn export(
    mut rows: Rows,
    target: ExportFile,
    format: RowFormat,
    compression: Option<Compression>,
    pool: &Arc<ThreadPool>,
) -> Result<Vec<Notice>> {
    let names = rows.columns().iter().map(Column::name);
    let failed = |error| target.failed(error);
    let output = PackedOutput::new(compression, &target, failed)?;
    let mut writer = RowWriter::new(format, names, output);
    let notices = [rows.notices(), writer.notices()].concat();
    let mut formatted = Prefetch::new(pool, target.interrupt());
    loop {
        let batch = rows.next_batch(BATCH_ROWS)?;
        let is_formatted_ahead = batch.as_ref().is_some_and(is_of_short_values);
        while (!is_formatted_ahead || formatted.is_full())
            && let Some(rows) = formatted.next()?
        {
            writer.write_formatted(rows).map_err(failed)?;
        }
        match batch {
            Some(batch) if is_formatted_ahead => {
                let format = writer.take(batch);
                formatted.begin(move || Ok(format()));
            }
            Some(batch) => writer.write_batch(&batch).map_err(failed)?,
            None => break,
        }
    }
    let output = writer.finish().map_err(failed)?;
    output.finish().map_err(failed)?;
    target.finish()?;
    Ok(notices)
}

/// Refuses a format of tables that this program was built without.
///
/// # Errors
/// The feature that it needs.
pub(crate) fn check_table(format: TableFormat) -> Result<()> {
    #[cfg(feature = "formats")]
    {
        let format = match format {
            TableFormat::Parquet => zipfdb_formats::Format::Parquet,
            TableFormat::Arrow => zipfdb_formats::Format::Arrow,
        };
        zipfdb_formats::check_built_in(format).map_err(|error| crate::Error::Invalid {
            subject: "COPY ... TO".to_owned(),
            reason: error.to_string(),
        })
    }
    #[cfg(not(feature = "formats"))]
    {
        Err(crate::error::needs_formats(format.name()))
    }
}

/// Refuses to write a table.
#[cfg(not(feature = "formats"))]
pub(crate) fn export_table(
    _rows: Rows,
    _target: ExportFile,
    format: TableFormat,
    _kinds: &[Option<zipfdb_sql::ValueKind>],
) -> Result<Vec<Notice>> {
    check_table(format)?;
    Ok(Vec::new())
}

/// Whether a batch has no values that may be large: those are written one by one.
fn is_of_short_values(batch: &Batch) -> bool {
    let is_short =
        |column: &BatchColumn| !matches!(column, BatchColumn::Texts(_) | BatchColumn::Values(_));
    batch.columns().iter().all(is_short)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::runtime::interrupt::Interrupts;
    use crate::runtime::start_pool;
    use crate::{Error, Value};

    fn pool() -> Arc<ThreadPool> {
        Arc::new(start_pool(Some(2)).unwrap())
    }

    fn export_to(path: &Path, rows: Rows, format: RowFormat) -> Result<Vec<Notice>> {
        let interrupt = Interrupts::default().begin(20_000);
        let target = ExportFile::open(path, None, &interrupt)?;
        export(rows, target, format, None, &pool())
    }

    fn rows(values: Vec<Result<Vec<Value>>>) -> Rows {
        let columns = ["n", "a \"b\""].map(|name| Column::new(name, None));
        let rows = values.into_iter();
        Rows::new(columns.into(), rows)
    }

    #[test]
    fn a_row_that_fails_leaves_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        fs::write(&path, "before").unwrap();
        let failing = rows(vec![
            Ok(vec![Value::Null, Value::Null]),
            Err(Error::Interrupted),
        ]);
        let error = export_to(&path, failing, RowFormat::Csv).unwrap_err();
        assert!(matches!(error, Error::Interrupted));
        assert_eq!(fs::read_to_string(&path).unwrap(), "before");
        assert_eq!(folder.path().read_dir().unwrap().count(), 1);
    }

    #[test]
    fn a_directory_that_is_not_there_is_an_error_with_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("no/out.csv");
        let error = export_to(&path, rows(vec![]), RowFormat::Csv).unwrap_err();
        assert!(error.to_string().contains("out.csv"), "{error}");
    }

    /// A line of names and two rows.
    fn few() -> Rows {
        let row = |number| Ok(vec![Value::Integer(number), Value::Null]);
        rows(vec![row(1), row(2)])
    }

    const FEW: &str = "n,\"a \"\"b\"\"\"\n1,\n2,\n";

    #[cfg(unix)]
    #[test]
    fn a_link_stays_and_what_it_leads_to_is_replaced() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        fs::create_dir(at("elsewhere")).unwrap();
        fs::write(at("elsewhere/there"), "before").unwrap();
        symlink("elsewhere/there", at("link")).unwrap();
        symlink("elsewhere/new", at("dangling")).unwrap();
        symlink("link", at("again")).unwrap();
        for (link, target) in [("link", "there"), ("dangling", "new"), ("again", "there")] {
            export_to(&at(link), few(), RowFormat::Csv).unwrap();
            assert!(fs::symlink_metadata(at(link)).unwrap().is_symlink());
            let written = fs::read_to_string(at("elsewhere").join(target)).unwrap();
            assert_eq!(written, FEW);
            fs::write(at("elsewhere/there"), "before").unwrap();
        }
        assert_eq!(fs::read_dir(at("elsewhere")).unwrap().count(), 2);
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_is_replaced_leaves_its_mode_and_owner() {
        use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        for mode in [0o600, 0o640, 0o444, 0o777] {
            let _ = fs::remove_file(&path);
            fs::write(&path, "before").unwrap();
            let _ = chown(&path, Some(1234), Some(4321)); // permitted to some users only
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let before = fs::metadata(&path).unwrap();
            export_to(&path, few(), RowFormat::Csv).unwrap();
            let after = fs::metadata(&path).unwrap();
            let access = |found: &fs::Metadata| (found.mode(), found.uid(), found.gid());
            assert_eq!(access(&after), access(&before));
            assert_ne!(after.ino(), before.ino());
        }
    }

    #[cfg(unix)]
    fn make_pipe(path: &Path) {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_is_written_into_however_slowly_it_is_read() {
        use std::os::unix::fs::FileTypeExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        make_pipe(&path);
        let source = path.clone();
        let reader = std::thread::spawn(move || fs::read_to_string(source).unwrap());
        // More than a pipe holds.
        let text = "x".repeat(300_000);
        let row = Ok(vec![Value::from(text.as_str()), Value::Null]);
        export_to(&path, rows(vec![row]), RowFormat::Tsv).unwrap();
        assert_eq!(reader.join().unwrap(), format!("n\ta \"b\"\n{text}\t\\N\n"));
        assert!(fs::metadata(&path).unwrap().file_type().is_fifo());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn waiting_for_a_reader_of_a_pipe_ends_when_time_is_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        make_pipe(&path);
        let interrupt = Interrupts::default().begin(100);
        let error = ExportFile::open(&path, None, &interrupt)
            .map(drop)
            .unwrap_err();
        assert!(matches!(error, Error::Timeout { .. }), "{error}");
        // A reader that reads nothing.
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK;
        let _reader = rustix::fs::open(&path, flags, rustix::fs::Mode::empty()).unwrap();
        let interrupt = Interrupts::default().begin(100);
        let target = ExportFile::open(&path, None, &interrupt).unwrap();
        let text = "x".repeat(300_000);
        let row = Ok(vec![Value::from(text.as_str()), Value::Null]);
        let error = export(rows(vec![row]), target, RowFormat::Tsv, None, &pool()).unwrap_err();
        assert!(matches!(error, Error::Timeout { .. }), "{error}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn devices_stay_and_a_full_one_says_so() {
        use std::os::unix::fs::FileTypeExt;
        export_to(Path::new("/dev/null"), few(), RowFormat::Csv).unwrap();
        let kind = fs::metadata("/dev/null").unwrap().file_type();
        assert!(kind.is_char_device());
        let error = export_to(Path::new("/dev/full"), few(), RowFormat::Csv).unwrap_err();
        let error = error.to_string();
        assert!(
            error.starts_with("cannot write /dev/full: No space left"),
            "{error}"
        );
        let error = export_to(Path::new("/dev"), few(), RowFormat::Csv).unwrap_err();
        assert!(
            error.to_string().starts_with("cannot create /dev: "),
            "{error}"
        );
    }
}
