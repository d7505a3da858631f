//! COPY (SELECT ...) TO: rows to a file.
//!
//! How values look is the business of `format`, where they go that of `target`. Threads of the pool format batches while the next
//! ones are made. Invariant: what is written does not depend on threads.

mod dictionary_fields;
mod format;
mod target;
mod text_buffer;

use std::io::{self, Write};
use std::sync::Arc;

use rayon::ThreadPool;
use zipfdb_sql::plan::CopyFormat;

use self::format::{BUFFER_BYTES, ColumnDictionaries, RowFormat};
pub(crate) use self::target::ExportFile;
use self::text_buffer::TextBuffer;
use crate::Result;
use crate::api::rows::Rows;
use crate::batch::{BATCH_ROWS, Batch, BatchColumn};
use crate::runtime::ahead::WorkAhead;

/// Bytes of a buffer that is used again for another batch.
const KEPT_BYTES: usize = 1 << 20;

/// Writes all rows, with a line of names before them if the format has one. Returns how many rows there were.
///
/// # Errors
/// If a row fails, or the target cannot be written.
pub(crate) fn export(
    mut rows: Rows,
    target: ExportFile,
    format: CopyFormat,
    pool: &Arc<ThreadPool>,
) -> Result<u64> {
    let names = rows.columns().iter().map(|column| column.name().to_owned());
    let mut writer = RowWriter {
        format: Arc::new(RowFormat::new(format, names.collect())),
        dictionaries: ColumnDictionaries::default(),
        formatted: WorkAhead::new(pool, target.interrupt()),
        unused: Vec::new(),
        target: &target,
        count: 0,
    };
    // A query that fails at once writes nothing, also into a pipe.
    let mut batch = rows.next_batch(BATCH_ROWS)?;
    writer.put(&writer.format.head())?;
    while let Some(found) = batch {
        writer.take(found)?;
        batch = rows.next_batch(BATCH_ROWS)?;
    }
    let count = writer.finish()?;
    target.finish()?;
    Ok(count)
}

/// Writes batches.
struct RowWriter<'a> {
    format: Arc<RowFormat>,
    dictionaries: ColumnDictionaries,
    /// Batches that were taken and are not written.
    formatted: WorkAhead<TextBuffer>,
    unused: Vec<TextBuffer>,
    target: &'a ExportFile,
    /// Rows that were taken.
    count: u64,
}

impl RowWriter<'_> {
    /// Takes a batch, which is written now or later.
    fn take(&mut self, batch: Batch) -> Result<()> {
        let is_first = self.count == 0;
        self.count += batch.len() as u64;
        self.format.know(&batch, &mut self.dictionaries);
        let (format, dictionaries) = (self.format.clone(), self.dictionaries.clone());
        let mut buffer = self.unused.pop().unwrap_or_default();
        if !is_of_short_values(&batch) {
            self.write_formatted()?;
            let target = self.target;
            let written =
                format.write(
                    &batch,
                    &dictionaries,
                    is_first,
                    &mut buffer,
                    |buffer| match buffer.len() {
                        0..BUFFER_BYTES => Ok(()),
                        _ => flush(target, buffer),
                    },
                );
            (written.and_then(|()| flush(target, &mut buffer))).map_err(self.failed())?;
            self.unused.push(buffer);
            return Ok(());
        }
        if self.formatted.is_full() {
            self.write_next()?;
        }
        self.formatted.begin(move || {
            let written = format.write(&batch, &dictionaries, is_first, &mut buffer, |_| Ok(()));
            written.expect("memory takes all");
            Ok(buffer)
        });
        Ok(())
    }

    /// Writes the batch that was taken first; `false` if there is none.
    fn write_next(&mut self) -> Result<bool> {
        let Some(mut buffer) = self.formatted.next()? else {
            return Ok(false);
        };
        flush(self.target, &mut buffer).map_err(self.failed())?;
        self.unused.push(buffer);
        Ok(true)
    }

    /// Writes all batches that were taken.
    fn write_formatted(&mut self) -> Result<()> {
        while self.write_next()? {}
        Ok(())
    }

    fn put(&self, bytes: &[u8]) -> Result<()> {
        let mut target = self.target;
        target.write_all(bytes).map_err(self.failed())
    }

    fn failed(&self) -> impl Fn(io::Error) -> crate::Error {
        let target = self.target;
        move |error| target.failed(error)
    }

    /// Writes what is left; says how many rows there were.
    fn finish(mut self) -> Result<u64> {
        self.write_formatted()?;
        self.put(self.format.tail(self.count > 0))?;
        Ok(self.count)
    }
}

/// Whether a batch has no values that may be large: those are written one by one.
fn is_of_short_values(batch: &Batch) -> bool {
    let is_short =
        |column: &BatchColumn| !matches!(column, BatchColumn::Texts(_) | BatchColumn::Values(_));
    batch.columns().iter().all(is_short)
}

fn flush(mut target: &ExportFile, buffer: &mut TextBuffer) -> io::Result<()> {
    target.write_all(buffer.bytes())?;
    buffer.clear(KEPT_BYTES);
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::api::rows::{Column, Row};
    use crate::runtime::interrupt::Interrupts;
    use crate::runtime::start_pool;
    use crate::{Error, Value};

    fn pool() -> Arc<ThreadPool> {
        Arc::new(start_pool(Some(2)).unwrap())
    }

    fn export_to(path: &Path, rows: Rows, format: CopyFormat) -> Result<u64> {
        let interrupt = Interrupts::default().begin(20_000);
        let target = ExportFile::open(path, None, &interrupt)?;
        export(rows, target, format, &pool())
    }

    fn rows(values: Vec<Result<Vec<Value>>>) -> Rows {
        let columns = ["n", "a \"b\""].map(Column::new);
        let rows = values.into_iter().map(|values| values.map(Row::new));
        Rows::new(columns.into(), rows)
    }

    fn awkward() -> Rows {
        rows(vec![
            Ok(vec![
                Value::Integer(1),
                Value::from("a,\"b\"\r\n\tc\\\u{1}\u{e9}"),
            ]),
            Ok(vec![Value::Real(0.1 + 0.2), Value::Blob(vec![0, 0xff])]),
            Ok(vec![Value::Null, Value::from("")]),
        ])
    }

    fn exported(format: CopyFormat, rows: Rows) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        fs::write(&path, "what was there before").unwrap();
        export_to(&path, rows, format).unwrap();
        assert_eq!(folder.path().read_dir().unwrap().count(), 1);
        fs::read_to_string(&path).unwrap()
    }

    #[test]
    fn each_format_is_exactly_this() {
        assert_eq!(
            exported(CopyFormat::Csv, awkward()),
            "n,\"a \"\"b\"\"\"\n1,\"a,\"\"b\"\"\r\n\tc\\\u{1}\u{e9}\"\n0.30000000000000004,00ff\n,\"\"\n"
        );
        assert_eq!(
            exported(CopyFormat::Tsv, awkward()),
            "n\ta \"b\"\n1\ta,\"b\"\\r\\n\\tc\\\\\u{1}\u{e9}\n0.30000000000000004\t00ff\n\\N\t\n"
        );
        assert_eq!(
            exported(CopyFormat::JsonLines, awkward()),
            concat!(
                "{\"n\":1,\"a \\\"b\\\"\":\"a,\\\"b\\\"\\r\\n\\tc\\\\\\u0001\u{e9}\"}\n",
                "{\"n\":0.30000000000000004,\"a \\\"b\\\"\":\"00ff\"}\n",
                "{\"n\":null,\"a \\\"b\\\"\":\"\"}\n",
            )
        );
        let one = || rows(vec![Ok(vec![Value::Integer(1), Value::Real(1e15)])]);
        assert_eq!(
            exported(CopyFormat::Json, one()),
            "[\n{\"n\":1,\"a \\\"b\\\"\":1.0e+15}\n]\n"
        );
        assert_eq!(exported(CopyFormat::Json, rows(vec![])), "[\n]\n");
        assert_eq!(
            exported(CopyFormat::Csv, rows(vec![])),
            "n,\"a \"\"b\"\"\"\n"
        );
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
        let error = export_to(&path, failing, CopyFormat::Csv).unwrap_err();
        assert!(matches!(error, Error::Interrupted));
        assert_eq!(fs::read_to_string(&path).unwrap(), "before");
        assert_eq!(folder.path().read_dir().unwrap().count(), 1);
    }

    #[test]
    fn a_directory_that_is_not_there_is_an_error_with_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("no/out.csv");
        let error = export_to(&path, rows(vec![]), CopyFormat::Csv).unwrap_err();
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
            export_to(&at(link), few(), CopyFormat::Csv).unwrap();
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
            let _ = chown(&path, Some(1234), Some(4321)); // who may, does
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let before = fs::metadata(&path).unwrap();
            export_to(&path, few(), CopyFormat::Csv).unwrap();
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
        export_to(&path, rows(vec![row]), CopyFormat::Tsv).unwrap();
        assert_eq!(reader.join().unwrap(), format!("n\ta \"b\"\n{text}\t\\N\n"));
        assert!(fs::metadata(&path).unwrap().file_type().is_fifo());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn waiting_for_somebody_to_read_a_pipe_ends_when_time_is_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        make_pipe(&path);
        let interrupt = Interrupts::default().begin(100);
        let error = ExportFile::open(&path, None, &interrupt)
            .map(drop)
            .unwrap_err();
        assert!(matches!(error, Error::Timeout { .. }), "{error}");
        // One who reads nothing.
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK;
        let _reader = rustix::fs::open(&path, flags, rustix::fs::Mode::empty()).unwrap();
        let interrupt = Interrupts::default().begin(100);
        let target = ExportFile::open(&path, None, &interrupt).unwrap();
        let text = "x".repeat(300_000);
        let row = Ok(vec![Value::from(text.as_str()), Value::Null]);
        let error = export(rows(vec![row]), target, CopyFormat::Tsv, &pool()).unwrap_err();
        assert!(matches!(error, Error::Timeout { .. }), "{error}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn devices_stay_and_a_full_one_says_so() {
        use std::os::unix::fs::FileTypeExt;
        export_to(Path::new("/dev/null"), few(), CopyFormat::Csv).unwrap();
        let kind = fs::metadata("/dev/null").unwrap().file_type();
        assert!(kind.is_char_device());
        let error = export_to(Path::new("/dev/full"), few(), CopyFormat::Csv).unwrap_err();
        let error = error.to_string();
        assert!(
            error.starts_with("cannot write /dev/full: No space left"),
            "{error}"
        );
        let error = export_to(Path::new("/dev"), few(), CopyFormat::Csv).unwrap_err();
        assert!(
            error.to_string().starts_with("cannot create /dev: "),
            "{error}"
        );
    }
}
