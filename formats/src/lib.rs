//! Sources to records, and files to write: archives, compressed files, JSON, CSV, mailboxes, web archives and logs.
//!
//! [`read_source`] reads a file or a stream and gives its records to a [`RecordSink`]: the bytes of a text, then a [`Record`] with name,
//! fields and place. [`Compressor`] and [`TarWriter`] write. Invariant: memory is bounded by [`Limits`], whatever a source claims, and
//! no source causes a panic. Databases are not known here, and no file is written but temporary ones.
//!
//! ```
//! use zipfdb_formats::{Input, ReadOptions, Record, RecordSink, Reject, Result, read_source};
//!
//! #[derive(Default)]
//! struct Texts(Vec<u8>, Vec<String>);
//! impl RecordSink for Texts {
//!     fn text(&mut self, bytes: &[u8]) -> Result<()> {
//!         self.0.extend_from_slice(bytes);
//!         Ok(())
//!     }
//!     fn record(&mut self, record: Record) -> Result<()> {
//!         let text = String::from_utf8_lossy(&std::mem::take(&mut self.0)).into_owned();
//!         self.1.push(format!("{:?} at {}: {text}", record.name, record.place));
//!         Ok(())
//!     }
//!     fn reject(&mut self, reject: Reject) -> Result<()> {
//!         Err(zipfdb_formats::Error::Rejected { reject })
//!     }
//! }
//!
//! let mut texts = Texts::default();
//! let lines = Box::new(&b"{\"file\":\"a\",\"text\":\"one\"}\n"[..]);
//! read_source(b"x.jsonl", Input::Stream(lines), &ReadOptions::default(), &mut texts)?;
//! assert_eq!(texts.1, ["Given(\"a\") at line 1: one"]);
//! # Ok::<(), zipfdb_formats::Error>(())
//! ```

#![forbid(unsafe_code)]

mod archive;
mod compression;
mod error;
mod format;
mod limits;
mod member;
mod options;
mod record;
mod records;
mod roles;
mod source;
mod tables;

pub use archive::TarWriter;
pub use compression::{Compression, Compressor};
pub use error::{Error, Place, Reject, Result};
pub use format::Format;
pub use limits::Limits;
pub use options::{Cutting, Decode, FieldPattern, ReadOptions};
pub use record::{FieldKind, FieldValue, Record, RecordName, RecordSink};
pub use source::{Input, is_named_format, is_plain_text, read_source};
pub use tables::{TableWriter, check_built_in};
