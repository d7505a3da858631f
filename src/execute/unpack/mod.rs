//! Sources that COPY ... FROM unpacks, and what it does without the feature `formats`.
//!
//! Invariant: without the feature, an import that names a format is refused, and every other one copies files as they are.

#[cfg(feature = "formats")]
mod fields;
#[cfg(feature = "formats")]
mod texts;

use std::collections::BTreeMap;
use std::sync::Arc;

use zipfdb_sql::plan::RecordOptions;
use zipfdb_storage::{MetadataColumn, MetadataKind, MetadataSchema};

use crate::paths::encodings::TextEncoding;
use crate::paths::sources::OnError;
use crate::runtime::spill_directory::SpillDirectory;

#[cfg(feature = "formats")]
pub(super) use texts::unpack;

/// How an import unpacks its sources.
#[cfg_attr(not(feature = "formats"), allow(dead_code))]
pub(super) struct Unpacking<'a> {
    pub(super) records: &'a RecordOptions,
    pub(super) encoding: TextEncoding,
    pub(super) on_error: OnError,
    pub(super) directory: &'a SpillDirectory,
    /// The columns that the corpus has.
    pub(super) schema: &'a MetadataSchema,
}

/// Fields of records that no column of the corpus takes, with the number of records that have them.
pub(super) type LeftFields = BTreeMap<Arc<str>, u64>;

/// What becomes of the fields of records. They have numbers: declared columns first, then other fields.
#[derive(Default)]
pub(super) struct ImportedFields {
    /// The columns that the corpus had.
    pub(super) declared: Vec<MetadataColumn>,
    /// The columns to be made, in the order in which their fields were met.
    pub(super) new: Vec<NewColumn>,
    /// The fields that are left out.
    pub(super) left: LeftFields,
}

/// A column to be made for a field.
pub(super) struct NewColumn {
    /// The number of the field.
    pub(super) field: u32,
    /// Its name.
    pub(super) name: String,
    /// The type of its values.
    pub(super) kind: MetadataKind,
}

/// Leaves sources as they are.
///
/// # Errors
/// If an option of formats is set.
#[cfg(not(feature = "formats"))]
pub(super) fn unpack(
    listing: crate::paths::sources::Listing,
    _path: &std::path::Path,
    unpacking: &Unpacking<'_>,
    _stop: &std::sync::atomic::AtomicBool,
) -> crate::Result<(crate::paths::sources::Listing, ImportedFields)> {
    let records = unpacking.records;
    let is_plain = records
        .format
        .as_deref()
        .is_none_or(|format| format == "bytes");
    let only_format = RecordOptions {
        format: records.format.clone(),
        ..RecordOptions::NONE
    };
    if is_plain && *records == only_format {
        return Ok((listing, ImportedFields::default()));
    }
    Err(crate::error::needs_formats("the format of files"))
}
