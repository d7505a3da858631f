//! The views of a database: one small file with a name and a SELECT for each.
//!
//! Invariant: `VIEWS` is replaced as a whole, by a rename, so it holds all views of one moment. Without it there are none. Bytes:
//! `storage/FORMAT.md`. What a view's text means is not known here.

use std::path::Path;

use crate::Result;
use crate::backend::Backend;
use crate::replace::RecordFile;

/// The name of the file in a database directory.
pub(crate) const FILE_NAME: &str = "VIEWS";

const FILE: RecordFile = RecordFile {
    name: FILE_NAME,
    magic: b"ZIPFVIE\x01",
    part: "views",
};

/// A view: a name for a SELECT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewRecord {
    /// Its name, which no corpus has in any case.
    pub name: String,
    /// The SELECT.
    pub sql: String,
}

/// Reads the views of the database in the directory `database`.
pub(crate) fn read(backend: &dyn Backend, database: &Path) -> Result<Vec<ViewRecord>> {
    FILE.read(backend, database, |_, records| decode(records))
}

fn decode(mut rest: &[u8]) -> Option<Vec<ViewRecord>> {
    let mut views = Vec::new();
    while !rest.is_empty() {
        let name = take_text(&mut rest)?;
        let sql = take_text(&mut rest)?;
        views.push(ViewRecord { name, sql });
    }
    Some(views)
}

fn take_text(rest: &mut &[u8]) -> Option<String> {
    let (size, behind) = rest.split_first_chunk::<8>()?;
    let size = usize::try_from(u64::from_le_bytes(*size)).ok()?;
    let (text, behind) = behind.split_at_checked(size)?;
    *rest = behind;
    String::from_utf8(text.to_vec()).ok()
}

/// Replaces the views of the database in the directory `database`. Durable when it returns; an error leaves the views before or
/// these.
pub(crate) fn write(backend: &dyn Backend, database: &Path, views: &[ViewRecord]) -> Result<()> {
    FILE.write(backend, database, |bytes| {
        for text in views.iter().flat_map(|view| [&view.name, &view.sql]) {
            bytes.extend((text.len() as u64).to_le_bytes());
            bytes.extend(text.as_bytes());
        }
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::Error;
    use crate::backend::MemoryBackend;
    use crate::replace::replace_file;

    #[test]
    fn views_are_read_back_and_every_cut_and_flipped_bit_is_damage() {
        let backend = MemoryBackend::new();
        let database = Path::new("a.zdb");
        backend.create_directory(database).unwrap();
        assert_eq!(read(&backend, database).unwrap(), []);
        let view = |name: &str, sql: &str| ViewRecord {
            name: name.to_owned(),
            sql: sql.to_owned(),
        };
        let views = [
            view("a", "SELECT 1"),
            view("\u{e9}", ""),
            view("c", "SELECT 'x'"),
        ];
        write(&backend, database, &views).unwrap();
        assert_eq!(read(&backend, database).unwrap(), views);
        let path = database.join(FILE.name);
        let bytes = backend.read(&path).unwrap().to_vec();
        let mut changed: Vec<Vec<u8>> = (0..bytes.len()).map(|end| bytes[..end].to_vec()).collect();
        for bit in 0..8 * bytes.len() {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            changed.push(flipped);
        }
        for bytes in changed {
            replace_file(&backend, database, FILE.name, &bytes).unwrap();
            assert!(matches!(
                read(&backend, database),
                Err(Error::Corrupt { .. })
            ));
        }
        write(&backend, database, &views[1..2]).unwrap();
        assert_eq!(read(&backend, database).unwrap(), views[1..2]);
    }
}
