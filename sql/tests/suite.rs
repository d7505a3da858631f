//! Tests through the public interface, in one program, because each is linked with the whole crate.
//!
//! No test depends on what another one does.

#![allow(clippy::unwrap_used)]

mod documentation;
mod errors;
mod hostile;
mod plan_text;
mod plans;
mod properties;

use zipfdb_sql::query::MetadataColumn;
use zipfdb_sql::{Schema, ValueKind};

/// A corpus `posts` whose files have these columns.
struct Posts(&'static [(&'static str, ValueKind)]);

impl Schema for Posts {
    fn corpora(&self) -> Vec<String> {
        vec!["posts".to_owned()]
    }

    fn metadata(&self, _corpus: &str) -> Vec<MetadataColumn> {
        // The numbers of two columns that were dropped stay unused.
        let columns = (2..).zip(self.0).map(|(id, &(name, kind))| MetadataColumn {
            id,
            name: name.to_owned(),
            kind,
        });
        columns.collect()
    }
}
