//! Values of Python as values of SQL and the other way round.
//!
//! Invariant: nothing is rounded or cut: a value that SQL cannot hold is an error. Dates and moments are texts in SQL, and objects of
//! `datetime` where a column is declared so.

use std::collections::HashMap;

use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyString, PyTuple};
use zipfdb::batch::{Batch, BatchColumn};
use zipfdb::{Column, Statement, Value, ValueKind};

use crate::errors::{DataError, ProgrammingError};

/// A value for a parameter or a column.
///
/// # Errors
/// If SQL has no such value.
pub(crate) fn value(object: &Bound<'_, PyAny>) -> PyResult<Value> {
    if object.is_none() {
        return Ok(Value::Null);
    }
    if let Ok(text) = object.cast::<PyString>() {
        return Ok(Value::Text(text.to_cow()?.into_owned()));
    }
    if let Ok(truth) = object.cast::<PyBool>() {
        return Ok(Value::from(truth.is_true()));
    }
    if object.is_instance_of::<PyInt>() {
        return integer(object);
    }
    if object.is_instance_of::<PyFloat>() {
        return Ok(Value::Real(object.extract()?));
    }
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Ok(Value::Blob(bytes.as_bytes().to_vec()));
    }
    if let Ok(bytes) = object.cast::<PyByteArray>() {
        return Ok(Value::Blob(bytes.to_vec()));
    }
    if let Some(text) = moment_text(object)? {
        return Ok(Value::Text(text));
    }
    // Numbers of other libraries, such as those of numpy.
    if object.hasattr("__index__")? {
        return integer(object);
    }
    if object.hasattr("__float__")? && !object.hasattr("as_tuple")? {
        return Ok(Value::Real(object.extract()?));
    }
    let name = object.get_type().name()?;
    Err(DataError::new_err(format!(
        "a value of type `{name}` has no type in SQL; hint: pass None, bool, int, float, str, bytes, date or datetime"
    )))
}

fn integer(object: &Bound<'_, PyAny>) -> PyResult<Value> {
    match object.extract::<i64>() {
        Ok(integer) => Ok(Value::Integer(integer)),
        Err(_) => Err(DataError::new_err(format!(
            "the integer {} does not fit 64 bits; hint: pass it as float or str",
            object.repr()?
        ))),
    }
}

/// The text that a date or datetime has in SQL: UTC for one with a zone.
fn moment_text(object: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    let datetime = object.py().import("datetime")?;
    if object.is_instance(&datetime.getattr("datetime")?)? {
        let zone = object.getattr("tzinfo")?;
        let moment = if zone.is_none() {
            object.clone()
        } else {
            let utc = datetime.getattr("timezone")?.getattr("utc")?;
            object.call_method1("astimezone", (utc,))?
        };
        let kwargs = PyDict::new(object.py());
        kwargs.set_item("tzinfo", object.py().None())?;
        let moment = moment.call_method("replace", (), Some(&kwargs))?;
        let text: String = moment.call_method1("isoformat", (" ",))?.extract()?;
        let text = match text.split_once('.') {
            Some((seconds, fraction)) => format!("{seconds}.{}", fraction.trim_end_matches('0')),
            None => text,
        };
        return Ok(Some(text));
    }
    if object.is_instance(&datetime.getattr("date")?)? {
        return object.call_method0("isoformat")?.extract().map(Some);
    }
    Ok(None)
}

/// Values for the parameters of a statement: a sequence in order of their numbers, or a mapping by their names.
///
/// # Errors
/// If a name is missing, or SQL has no such value.
pub(crate) fn parameters(
    statement: &Statement,
    given: Option<&Bound<'_, PyAny>>,
) -> PyResult<Vec<Value>> {
    let Some(given) = given.filter(|given| !given.is_none()) else {
        return Ok(Vec::new());
    };
    if given.is_instance_of::<PyString>() || given.is_instance_of::<PyBytes>() {
        return Err(ProgrammingError::new_err(
            "parameters are a sequence or a mapping, not one text; hint: pass `(value,)`",
        ));
    }
    if !given.hasattr("keys")? {
        return given.try_iter()?.map(|item| value(&item?)).collect();
    }
    let plain = |name: &str| name.trim_start_matches([':', '@', '$']).to_owned();
    let names = statement.parameter_names().iter().enumerate();
    let values = names.map(|(index, name)| {
        let name = name
            .as_deref()
            .map_or_else(|| (index + 1).to_string(), plain);
        match given.get_item(&name) {
            Ok(item) => value(&item),
            Err(_) => Err(ProgrammingError::new_err(format!(
                "the mapping has no value for the parameter `{name}`"
            ))),
        }
    });
    values.collect()
}

/// A text or bytes of Python, borrowed without a copy.
pub(crate) enum Text {
    Text(PyBackedStr),
    Bytes(PyBackedBytes),
}

impl AsRef<[u8]> for Text {
    fn as_ref(&self) -> &[u8] {
        match self {
            Text::Text(text) => text.as_bytes(),
            Text::Bytes(bytes) => bytes,
        }
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Text {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Text> {
        if let Ok(text) = object.extract::<PyBackedStr>() {
            return Ok(Text::Text(text));
        }
        if let Ok(bytes) = object.extract::<PyBackedBytes>() {
            return Ok(Text::Bytes(bytes));
        }
        let name = object.get_type().name()?;
        Err(DataError::new_err(format!(
            "expected str or bytes, not `{name}`"
        )))
    }
}

/// Adds the rows of a batch, as tuples.
///
/// # Errors
/// If Python has no memory.
pub(crate) fn add_rows<'py>(
    py: Python<'py>,
    batch: &Batch,
    columns: &[Column],
    rows: &mut Vec<Bound<'py, PyTuple>>,
) -> PyResult<()> {
    let objects = batch.columns().iter().zip(columns);
    let objects = objects.map(|(column, described)| objects_of(py, column, described.kind()));
    let objects = objects.collect::<PyResult<Vec<_>>>()?;
    rows.reserve(batch.len());
    for row in 0..batch.len() {
        let values = objects.iter().map(|column| &column[row]);
        rows.push(PyTuple::new(py, values.collect::<Vec<_>>())?);
    }
    Ok(())
}

/// The values of a column as objects. Words that repeat are one object.
fn objects_of<'py>(
    py: Python<'py>,
    column: &BatchColumn,
    kind: Option<ValueKind>,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    match kind {
        Some(ValueKind::Boolean) => {
            return converted(py, column, |value| match value {
                Value::Integer(truth) => Ok(PyBool::new(py, *truth != 0).to_owned().into_any()),
                other => object(py, other),
            });
        }
        Some(ValueKind::Date) => return moments(py, column, "date"),
        Some(ValueKind::Timestamp) => return moments(py, column, "datetime"),
        _ => {}
    }
    match column {
        BatchColumn::Integers(integers) => {
            let integers = integers.iter().map(|integer| integer.into_pyobject(py));
            integers.map(|integer| Ok(integer?.into_any())).collect()
        }
        BatchColumn::Reals(reals) => Ok(reals
            .iter()
            .map(|real| PyFloat::new(py, *real).into_any())
            .collect()),
        BatchColumn::Words {
            indices,
            dictionary,
        } => {
            let mut known: HashMap<u32, Bound<'py, PyAny>> = HashMap::new();
            let words = indices.iter().map(|&index| {
                let word = known.entry(index);
                let word = word.or_insert_with(|| text_or_bytes(py, dictionary.bytes(index)));
                word.clone()
            });
            Ok(words.collect())
        }
        BatchColumn::Texts(texts) => {
            let texts = (0..texts.len()).map(|row| text_or_bytes(py, texts.get(row)));
            Ok(texts.collect())
        }
        column => converted(py, column, |value| object(py, value)),
    }
}

fn converted<'py>(
    _py: Python<'py>,
    column: &BatchColumn,
    convert: impl Fn(&Value) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    if let BatchColumn::Values(values) = column {
        return values.iter().map(convert).collect();
    }
    (0..column.len())
        .map(|row| convert(&column.value(row)))
        .collect()
}

fn moments<'py>(
    py: Python<'py>,
    column: &BatchColumn,
    class: &str,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let parse = py
        .import("datetime")?
        .getattr(class)?
        .getattr("fromisoformat")?;
    converted(py, column, |value| match value {
        // Before 3.11 a fraction must have three or six digits. The year 0000 is none of Python's.
        Value::Text(text) => match parse.call1((with_six_digits(text),)) {
            Ok(moment) => Ok(moment),
            Err(_) => object(py, value),
        },
        other => object(py, other),
    })
}

fn with_six_digits(text: &str) -> String {
    match text.split_once('.') {
        Some((seconds, fraction)) => format!("{seconds}.{fraction:0<6}"),
        None => text.to_owned(),
    }
}

/// A value as an object.
///
/// # Errors
/// If Python has no memory.
pub(crate) fn object<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Integer(integer) => integer.into_pyobject(py)?.into_any(),
        Value::Real(real) => PyFloat::new(py, *real).into_any(),
        Value::Text(text) => PyString::new(py, text).into_any(),
        Value::Blob(bytes) => PyBytes::new(py, bytes).into_any(),
    })
}

/// Bytes as SQL has them: a text if they are UTF-8.
pub(crate) fn text_or_bytes<'py>(py: Python<'py>, bytes: &[u8]) -> Bound<'py, PyAny> {
    match std::str::from_utf8(bytes) {
        Ok(text) => PyString::new(py, text).into_any(),
        Err(_) => PyBytes::new(py, bytes).into_any(),
    }
}

/// Numbers as bytes in the order of the machine, to be read as an array of 64-bit integers.
///
/// # Errors
/// If Python has no memory.
pub(crate) fn numbers<'py>(py: Python<'py>, numbers: &[u64]) -> PyResult<Bound<'py, PyByteArray>> {
    PyByteArray::new_with(py, size_of_val(numbers), |bytes| {
        let (places, _) = bytes.as_chunks_mut::<8>();
        places
            .iter_mut()
            .zip(numbers)
            .for_each(|(place, number)| *place = number.to_ne_bytes());
        Ok(())
    })
}

/// Numbers of an array of 64-bit integers.
///
/// # Errors
/// If the bytes are no such array.
pub(crate) fn numbers_of(bytes: &[u8]) -> PyResult<Vec<u64>> {
    match bytes.as_chunks::<8>() {
        (places, []) => Ok(places
            .iter()
            .map(|place| u64::from_ne_bytes(*place))
            .collect()),
        _ => Err(DataError::new_err("expected an array of 64-bit integers")),
    }
}
