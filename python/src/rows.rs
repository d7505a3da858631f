//! `Rows`: the answer of a statement, taken as tuples or as a stream of Arrow.
//!
//! Invariant: each row is given once. Taking the stream takes all rows that are left.

use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{RecordBatchIterator, RecordBatchReader};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList};
use zipfdb::{Column, InterruptHandle};
use zipfdb_arrow::{IntoRecordBatches, TextArrays, c_stream};

use crate::errors::{InterfaceError, raised, raised_by_arrow};
use crate::streams::capsule;
use crate::values::add_rows;
use crate::work::{Held, work};

/// The answer of a statement.
#[pyclass(frozen, module = "zipfdb._zipfdb")]
pub(crate) struct Rows {
    /// None once the rows are taken as a stream.
    rows: Mutex<Held<Option<zipfdb::Rows>>>,
    columns: Vec<Column>,
    changed: u64,
    notices: Vec<String>,
    interrupt: InterruptHandle,
    texts: Arc<TextArrays>,
}

impl Rows {
    pub(crate) fn new(rows: zipfdb::Rows, texts: &Arc<TextArrays>) -> Rows {
        Rows {
            columns: rows.columns().to_vec(),
            changed: rows.changed(),
            notices: rows.notices().iter().map(ToString::to_string).collect(),
            interrupt: rows.interrupt_handle().unwrap_or_default(),
            rows: Mutex::new(Held::new(Some(rows))),
            texts: texts.clone(),
        }
    }
}

#[pymethods]
impl Rows {
    /// Pairs of the name of a column and the kind of its values, or None.
    #[getter]
    fn columns(&self) -> Vec<(&str, Option<&'static str>)> {
        let columns = self.columns.iter();
        let named = columns.map(|column| (column.name(), column.kind().map(|kind| kind.name())));
        named.collect()
    }

    /// The number of rows that the statement has changed.
    #[getter]
    fn changed(&self) -> u64 {
        self.changed
    }

    /// Notices about the statement.
    #[getter]
    fn notices(&self) -> Vec<String> {
        self.notices.clone()
    }

    /// The next rows as tuples: at least one and at most `rows_max`, or none at the end.
    fn fetch<'py>(&self, py: Python<'py>, rows_max: usize) -> PyResult<Bound<'py, PyList>> {
        let next = work(py, &self.interrupt, || {
            let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
            let rows = rows.get_mut()?.as_mut();
            let rows =
                rows.ok_or_else(|| InterfaceError::new_err("the rows are taken as a stream"))?;
            Ok::<_, PyErr>(rows.next_batch(rows_max))
        })??;
        let mut tuples = Vec::new();
        if let Some(batch) = next.map_err(|error| raised(py, error))? {
            add_rows(py, &batch, &self.columns, &mut tuples)?;
        }
        PyList::new(py, tuples)
    }

    /// The rows that are left as a stream of Arrow. If they are `collected`, they are read before, so that Ctrl-C ends the statement.
    fn stream<'py>(&self, py: Python<'py>, collected: bool) -> PyResult<Bound<'py, PyCapsule>> {
        let stream = work(py, &self.interrupt, || {
            let mut held = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
            let rows = held.get_mut()?.take();
            let rows =
                rows.ok_or_else(|| InterfaceError::new_err("the rows are taken as a stream"))?;
            let read = || {
                let batches = rows.into_record_batches_with(&self.texts)?;
                if !collected {
                    return Ok(c_stream(batches));
                }
                let schema = batches.schema();
                let batches = batches.collect::<Result<Vec<_>, _>>()?;
                let batches = batches.into_iter().map(Ok);
                Ok(c_stream(RecordBatchIterator::new(batches, schema)))
            };
            Ok::<_, PyErr>(read())
        })??;
        capsule(py, stream.map_err(|error| raised_by_arrow(py, error))?)
    }

    /// Ends the statement and gives its memory back.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| {
            let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
            drop(rows.get_mut()?.take());
            Ok(())
        })
    }
}
