//! COPY (SELECT ...) TO: rows to a file.
//!
//! Invariant: under its name the file is either what it was before or complete and on disk. It is written beside, synced and
//! renamed; when anything fails, what was written is removed. How values look is the business of `format`.

mod format;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use zipfdb_sql::plan::CopyFormat;

use self::format::Writer;
use crate::rows::Rows;
use crate::{Error, Result};

/// Writes all rows to the file `path`, with a line of names before them if the format has one. Returns how many rows there
/// were.
///
/// # Errors
/// If a row fails, or the file cannot be written.
pub(crate) fn export(rows: Rows, path: &Path, format: CopyFormat) -> Result<u64> {
    let failed = |action| {
        move |source: io::Error| Error::Io {
            action,
            path: path.to_path_buf(),
            source,
        }
    };
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    // Unlike a temporary file it is as readable as others of the user; it is removed when it is dropped.
    let beside = tempfile::Builder::new()
        .prefix(".export-")
        .make_in(directory, |path| File::create_new(path))
        .map_err(failed("create"))?;
    let names: Vec<String> = rows
        .columns()
        .iter()
        .map(|column| column.name().to_owned())
        .collect();
    let target = BufWriter::with_capacity(1 << 16, beside.as_file());
    let mut writer = Writer::new(target, format, names);
    let mut count = 0;
    writer.begin().map_err(failed("write"))?;
    for row in rows {
        writer.row(row?.values()).map_err(failed("write"))?;
        count += 1;
    }
    let mut target = writer.end().map_err(failed("write"))?;
    target.flush().map_err(failed("write"))?;
    drop(target);
    beside.as_file().sync_all().map_err(failed("sync"))?;
    beside
        .persist(path)
        .map_err(|error| failed("write")(error.error))?;
    // Not every system can open a directory; where one can, the rename is made durable.
    if let Ok(directory) = File::open(directory) {
        directory.sync_all().map_err(failed("sync"))?;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Value;
    use crate::rows::{Column, Row};

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
        std::fs::write(&path, "what was there before").unwrap();
        export(rows, &path, format).unwrap();
        assert_eq!(folder.path().read_dir().unwrap().count(), 1);
        std::fs::read_to_string(&path).unwrap()
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
        std::fs::write(&path, "before").unwrap();
        let failing = rows(vec![
            Ok(vec![Value::Null, Value::Null]),
            Err(Error::Interrupted),
        ]);
        let error = export(failing, &path, CopyFormat::Csv).unwrap_err();
        assert!(matches!(error, Error::Interrupted));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "before");
        assert_eq!(folder.path().read_dir().unwrap().count(), 1);
    }

    #[test]
    fn a_directory_that_is_not_there_is_an_error_with_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("no/out.csv");
        let error = export(rows(vec![]), &path, CopyFormat::Csv).unwrap_err();
        assert!(error.to_string().contains("out.csv"), "{error}");
    }
}
