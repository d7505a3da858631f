//! What is in a database, as ADBC lists it: one catalog and one schema without names, in which corpora and views are tables.

use adbc_core::error::{Error, Result, Status};
use adbc_core::options::ObjectDepth;
use adbc_core::schemas::{GET_OBJECTS_SCHEMA, GET_TABLE_TYPES_SCHEMA};
use arrow_array::{RecordBatch, RecordBatchIterator};
use arrow_json::ReaderBuilder;
use arrow_schema::SchemaRef;
use serde::Serialize;
use zipfdb::{Column, Database};

use super::session::Batches;
use super::status::failed;

/// The types of tables.
const CORPUS: &str = "CORPUS";
const VIEW: &str = "VIEW";

/// Which objects are listed. Names are patterns with `%` and `_`.
pub(crate) struct Wanted<'a> {
    pub(crate) depth: ObjectDepth,
    pub(crate) catalog: Option<&'a str>,
    pub(crate) db_schema: Option<&'a str>,
    pub(crate) table_name: Option<&'a str>,
    pub(crate) table_type: Option<Vec<&'a str>>,
    pub(crate) column_name: Option<&'a str>,
}

#[derive(Serialize)]
struct CatalogRow {
    catalog_name: &'static str,
    catalog_db_schemas: Option<Vec<SchemaRow>>,
}

#[derive(Serialize)]
struct SchemaRow {
    db_schema_name: &'static str,
    db_schema_tables: Option<Vec<TableRow>>,
}

#[derive(Serialize)]
struct TableRow {
    table_name: String,
    table_type: &'static str,
    table_columns: Option<Vec<ColumnRow>>,
    /// There are no constraints.
    table_constraints: Option<[(); 0]>,
}

#[derive(Serialize)]
struct ColumnRow {
    column_name: String,
    ordinal_position: i32,
    xdbc_type_name: Option<&'static str>,
    xdbc_is_nullable: &'static str,
}

#[derive(Serialize)]
struct TableType {
    table_type: &'static str,
}

/// Lists the objects of a database.
pub(crate) fn objects(database: &Database, wanted: &Wanted<'_>) -> Result<Batches> {
    let is_listed = matches(wanted.catalog, "");
    let schemas = match wanted.depth {
        ObjectDepth::Catalogs => None,
        _ if !matches(wanted.db_schema, "") => Some(Vec::new()),
        ObjectDepth::Schemas => Some(vec![SchemaRow {
            db_schema_name: "",
            db_schema_tables: None,
        }]),
        ObjectDepth::All | ObjectDepth::Tables | ObjectDepth::Columns => {
            let tables = Some(tables(database, wanted)?);
            Some(vec![SchemaRow {
                db_schema_name: "",
                db_schema_tables: tables,
            }])
        }
    };
    let row = CatalogRow {
        catalog_name: "",
        catalog_db_schemas: schemas,
    };
    let rows = if is_listed { vec![row] } else { Vec::new() };
    batches(&GET_OBJECTS_SCHEMA, &rows)
}

/// Lists the types of tables.
pub(crate) fn table_types() -> Result<Batches> {
    let rows = [CORPUS, VIEW].map(|table_type| TableType { table_type });
    batches(&GET_TABLE_TYPES_SCHEMA, &rows)
}

/// The columns of a corpus or a view.
pub(crate) fn columns(database: &Database, table: &str) -> zipfdb::Result<Vec<Column>> {
    database
        .prepare(&format!("SELECT * FROM {}", quoted(table)))?
        .columns()
}

/// A name as SQL quotes it.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn tables(database: &Database, wanted: &Wanted<'_>) -> Result<Vec<TableRow>> {
    let corpora = database.corpora().into_iter().map(|name| (name, CORPUS));
    let views = database.views().into_iter().map(|name| (name, VIEW));
    let is_wanted = |(name, table_type): &(String, &str)| {
        let is_of_type = wanted
            .table_type
            .as_ref()
            .is_none_or(|types| types.contains(table_type));
        is_of_type && matches(wanted.table_name, name)
    };
    let mut rows = Vec::new();
    for (table_name, table_type) in corpora.chain(views).filter(is_wanted) {
        let has_columns = matches!(wanted.depth, ObjectDepth::All | ObjectDepth::Columns);
        let table_columns = if has_columns {
            let columns = columns(database, &table_name).map_err(failed)?;
            Some(column_rows(&columns, wanted))
        } else {
            None
        };
        rows.push(TableRow {
            table_name,
            table_type,
            table_columns,
            table_constraints: has_columns.then_some([]),
        });
    }
    Ok(rows)
}

fn column_rows(columns: &[Column], wanted: &Wanted<'_>) -> Vec<ColumnRow> {
    let rows = (1..)
        .zip(columns)
        .map(|(ordinal_position, column)| ColumnRow {
            column_name: column.name().to_owned(),
            ordinal_position,
            xdbc_type_name: column.kind().map(|kind| kind.name()),
            xdbc_is_nullable: "YES",
        });
    rows.filter(|row| matches(wanted.column_name, &row.column_name))
        .collect()
}

/// Whether a name matches a pattern, in which `%` is any text and `_` any character; no pattern matches every name.
fn matches(pattern: Option<&str>, name: &str) -> bool {
    let Some(pattern) = pattern else {
        return true;
    };
    let name = name.chars().collect::<Vec<_>>();
    // Whether the pattern up to here matches the first characters of the name, by their number.
    let mut is_match = vec![false; name.len() + 1];
    is_match[0] = true;
    for character in pattern.chars() {
        let mut next = vec![false; name.len() + 1];
        next[0] = character == '%' && is_match[0];
        for (index, own) in name.iter().enumerate() {
            next[index + 1] = if character == '%' {
                next[index] || is_match[index + 1]
            } else {
                is_match[index] && (character == '_' || character == *own)
            };
        }
        is_match = next;
    }
    is_match[name.len()]
}

/// Rows as batches of a schema.
fn batches(schema: &SchemaRef, rows: &[impl Serialize]) -> Result<Batches> {
    let batch = read(schema, rows)
        .map_err(|error| Error::with_message_and_status(error.to_string(), Status::Internal))?;
    Ok(Box::new(RecordBatchIterator::new(
        batch.map(Ok),
        schema.clone(),
    )))
}

fn read(
    schema: &SchemaRef,
    rows: &[impl Serialize],
) -> std::result::Result<Option<RecordBatch>, arrow_schema::ArrowError> {
    let mut decoder = ReaderBuilder::new(schema.clone()).build_decoder()?;
    decoder.serialize(rows)?;
    decoder.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_names() {
        assert!(matches(None, "") && matches(Some(""), "") && matches(Some("%"), ""));
        assert!(matches(Some("p%s"), "pets") && matches(Some("%e_s"), "pets"));
        assert!(matches(Some("%%"), "pets") && matches(Some("pets"), "pets"));
        assert!(!matches(Some(""), "pets") && !matches(Some("pet"), "pets"));
        assert!(!matches(Some("_"), "") && !matches(Some("P%"), "pets"));
    }
}
