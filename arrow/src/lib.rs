//! Answers of ZipfDB as batches of [Apache Arrow](https://arrow.apache.org), and batches as parameters and texts.
//!
//! [`IntoRecordBatches`] makes [`RecordBatches`] of [`zipfdb::Rows`]: a `RecordBatchReader`, or a stream of Arrow's C interface for
//! libraries in other languages. Numbers and texts pass without a copy, and words, names of files and n-grams are numbers with a
//! dictionary. In the other direction [`records`] makes texts with metadata of a batch and [`parameter_sets`] values for the
//! parameters of a statement; `ArrowArrayStreamReader` reads batches of a C stream. The C interface is the feature `ffi`, which is on by default.
//!
//! ```
//! use std::sync::Arc;
//!
//! use arrow_array::cast::AsArray;
//! use arrow_array::types::{Int32Type, Int64Type};
//! use arrow_array::{Int64Array, RecordBatch, StringArray};
//! use zipfdb::Database;
//! use zipfdb_arrow::{IntoRecordBatches, RecordColumns, parameter_sets, records};
//!
//! let db = Database::in_memory()?;
//! db.execute_batch("CREATE CORPUS pets (year INTEGER)")?;
//!
//! // Texts with metadata come from a batch.
//! let texts = RecordBatch::try_from_iter([
//!     ("file", Arc::new(StringArray::from(vec!["a.txt", "b.txt"])) as _),
//!     ("content", Arc::new(StringArray::from(vec!["the cat and the dog", "the dog"])) as _),
//!     ("year", Arc::new(Int64Array::from(vec![2020, 2021])) as _),
//! ])?;
//! db.corpus("pets")?.append_records(&records(&texts, &RecordColumns::default())?)?;
//!
//! // Answers are batches.
//! let sql = "SELECT word, COUNT(*) AS n FROM pets WHERE year <= 2021 GROUP BY word ORDER BY n DESC, word";
//! let mut batches = db.query(sql, ())?.into_record_batches()?;
//! let batch = batches.next().expect("there are words")?;
//! let words = batch.column(0).as_dictionary::<Int32Type>();
//! let words = words.downcast_dict::<arrow_array::LargeStringArray>().expect("words are texts");
//! assert_eq!(words.into_iter().next(), Some(Some("the")));
//! assert_eq!(batch.column(1).as_primitive::<Int64Type>().value(0), 3);
//!
//! // A batch has values for the parameters of a statement.
//! let words = RecordBatch::try_from_iter([("word", Arc::new(StringArray::from(vec!["cat", "dog"])) as _)])?;
//! let count = "SELECT binding(), COUNT(*) FROM pets WHERE word = ?";
//! assert_eq!(db.query_many(count, &parameter_sets(&words)?)?.count(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod arrays;
#[cfg(feature = "ffi")]
mod c_stream;
mod error;
mod moments;
mod record_batches;
mod records;
mod schema;
mod text_arrays;
mod text_views;
mod values;

pub use arrays::array;
#[cfg(feature = "ffi")]
pub use arrow_array::ffi_stream::{ArrowArrayStreamReader, FFI_ArrowArrayStream};
#[cfg(feature = "ffi")]
pub use c_stream::c_stream;
pub use error::{Error, Result};
pub use record_batches::{IntoRecordBatches, RecordBatches};
pub use records::{RecordColumns, records};
pub use schema::schema;
pub use text_arrays::TextArrays;
pub use values::parameter_sets;
