//! Statements: SQL with parameters from batches, and texts that go into a corpus.
//!
//! Invariant: a statement with a target puts the bound batches into it; any other runs its SQL, with bound rows once for each.

use adbc_core::error::{Error, Result, Status};
use adbc_core::options::{OptionStatement, OptionValue};
use adbc_core::{CancelHandle, Optionable, PartitionedResult, Statement};
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{DataType, Field, FieldRef, Schema};
use zipfdb::Value;
use zipfdb_arrow::{IntoRecordBatches, RecordColumns, parameter_sets, records};

use super::objects::quoted;
use super::session::{Batches, Cancel, Session};
use super::status::{failed, no_option, not_implemented, text, unconverted, unread};

/// The column of an ingested batch that has the names of files.
const NAME_COLUMN: &str = "zipfdb.ingest.name";
/// The column of an ingested batch that has their texts.
const TEXT_COLUMN: &str = "zipfdb.ingest.text";

/// A statement.
pub struct ZipfStatement {
    session: Session,
    sql: Option<String>,
    bound: Option<Bound>,
    target: Option<String>,
    mode: Mode,
    columns: RecordColumns,
}

/// What is bound.
enum Bound {
    Batch(RecordBatch),
    Stream(Box<dyn RecordBatchReader + Send>),
}

/// What becomes of the corpus that texts are put into.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// It must not be there.
    Create,
    /// It must be there.
    Append,
    /// It is dropped first.
    Replace,
    /// It is created if it is not there.
    CreateAppend,
}

impl Mode {
    const NAMES: [(&str, Mode); 4] = [
        ("adbc.ingest.mode.create", Mode::Create),
        ("adbc.ingest.mode.append", Mode::Append),
        ("adbc.ingest.mode.replace", Mode::Replace),
        ("adbc.ingest.mode.create_append", Mode::CreateAppend),
    ];
}

impl ZipfStatement {
    pub(crate) fn new(session: Session) -> ZipfStatement {
        ZipfStatement {
            session,
            sql: None,
            bound: None,
            target: None,
            mode: Mode::Create,
            columns: RecordColumns::default(),
        }
    }

    fn prepared(&self) -> Result<zipfdb::Statement> {
        let sql = self.sql.as_deref().ok_or_else(|| {
            let message = "the statement has no SQL text";
            Error::with_message_and_status(message, Status::InvalidState)
        })?;
        self.session.database.prepare(sql).map_err(failed)
    }

    /// The rows that are bound, as values for parameters; none without a bound batch. Each is used once.
    fn parameters(&mut self) -> Result<Option<Vec<Vec<Value>>>> {
        match self.bound.take() {
            None => Ok(None),
            Some(Bound::Batch(batch)) => Ok(Some(parameter_sets(&batch).map_err(unconverted)?)),
            Some(Bound::Stream(stream)) => {
                let mut sets = Vec::new();
                for batch in stream {
                    sets.extend(parameter_sets(&batch.map_err(unread)?).map_err(unconverted)?);
                }
                Ok(Some(sets))
            }
        }
    }

    fn rows(&mut self) -> Result<zipfdb::Rows> {
        let statement = self.prepared()?;
        let parameters = self.parameters()?;
        self.session.begin()?;
        let rows = match parameters {
            None => statement.query(()),
            Some(sets) => match &sets[..] {
                [set] => statement.query(set),
                sets => statement.query_many(sets),
            },
        };
        rows.map_err(failed)
    }

    /// Puts the bound batches into the corpus `target`, and returns the number of texts.
    fn ingest(&mut self, target: &str) -> Result<i64> {
        let bound = self.bound.take().ok_or_else(|| {
            let message = format!("no batch is bound that could go into `{target}`");
            Error::with_message_and_status(message, Status::InvalidState)
        })?;
        let (schema, mut batches): (_, Box<dyn Iterator<Item = _>>) = match bound {
            Bound::Batch(batch) => (batch.schema(), Box::new([Ok(batch)].into_iter())),
            Bound::Stream(stream) => (stream.schema(), stream),
        };
        self.make_corpus(target, &schema)?;
        let database = &self.session.database;
        let mut count = 0;
        self.session.begin()?;
        batches.try_for_each(|batch| {
            let records = records(&batch.map_err(unread)?, &self.columns).map_err(unconverted)?;
            count += records.len() as i64;
            let corpus = database.corpus(target).map_err(failed)?;
            corpus.append_records(&records).map_err(failed)
        })?;
        Ok(count)
    }

    fn make_corpus(&self, target: &str, schema: &Schema) -> Result<()> {
        let database = &self.session.database;
        let exists = database.corpora().iter().any(|name| name == target);
        match (self.mode, exists) {
            (Mode::Create, true) => {
                let message = format!("there is a corpus `{target}` already");
                return Err(Error::with_message_and_status(
                    message,
                    Status::AlreadyExists,
                ));
            }
            (Mode::Append, false) => {
                let message = format!("there is no corpus `{target}`");
                return Err(Error::with_message_and_status(message, Status::NotFound));
            }
            (Mode::Append | Mode::CreateAppend, true) => return Ok(()),
            (Mode::Replace, true) => database.drop_corpus(target).map_err(failed)?,
            (Mode::Create | Mode::Replace | Mode::CreateAppend, false) => {}
        }
        let is_metadata = |field: &&FieldRef| {
            !field.name().eq_ignore_ascii_case(&self.columns.file)
                && !field.name().eq_ignore_ascii_case(&self.columns.content)
        };
        let mut columns = Vec::new();
        for field in schema.fields().iter().filter(is_metadata) {
            let kind = column_type(field.data_type()).ok_or_else(|| {
                let message = format!(
                    "column `{}`: no column of a corpus holds {}",
                    field.name(),
                    field.data_type()
                );
                Error::with_message_and_status(message, Status::InvalidArguments)
            })?;
            columns.push(format!("{} {kind}", quoted(field.name())));
        }
        let columns = match &columns[..] {
            [] => String::new(),
            columns => format!(" ({})", columns.join(", ")),
        };
        let sql = format!("CREATE CORPUS {}{columns}", quoted(target));
        database.execute_batch(&sql).map_err(failed)
    }
}

/// The type of a declared column that holds values of a type of Arrow.
fn column_type(data_type: &DataType) -> Option<&'static str> {
    match data_type {
        DataType::Boolean => Some("BOOLEAN"),
        DataType::Date32 | DataType::Date64 => Some("DATE"),
        DataType::Timestamp(..) => Some("TIMESTAMP"),
        DataType::Float16 | DataType::Float32 | DataType::Float64 => Some("REAL"),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => Some("TEXT"),
        DataType::Dictionary(_, values) => column_type(values),
        other if other.is_integer() => Some("INTEGER"),
        _ => None,
    }
}

impl Optionable for ZipfStatement {
    type Option = OptionStatement;

    fn set_option(&mut self, key: OptionStatement, value: OptionValue) -> Result<()> {
        let name = key.as_ref().to_owned();
        let value = text(&name, value)?;
        match (key, name.as_str()) {
            (OptionStatement::TargetTable, _) => self.target = Some(value),
            (OptionStatement::IngestMode, _) => {
                let mode = Mode::NAMES.iter().find(|(known, _)| *known == value);
                let Some((_, mode)) = mode else {
                    let message = format!("option `{name}`: no mode `{value}`");
                    return Err(Error::with_message_and_status(
                        message,
                        Status::InvalidArguments,
                    ));
                };
                self.mode = *mode;
            }
            (_, NAME_COLUMN) => self.columns.file = value,
            (_, TEXT_COLUMN) => self.columns.content = value,
            (OptionStatement::TargetCatalog | OptionStatement::TargetDbSchema, _) => {
                return Err(not_implemented("catalogs and schemas"));
            }
            (OptionStatement::Temporary, _) if value == "false" => {}
            (OptionStatement::Temporary, _) => return Err(not_implemented("temporary corpora")),
            _ => return Err(no_option(&name)),
        }
        Ok(())
    }

    fn get_option_string(&self, key: OptionStatement) -> Result<String> {
        let value = match (&key, key.as_ref()) {
            (OptionStatement::TargetTable, _) => self.target.clone(),
            (OptionStatement::IngestMode, _) => {
                let mode = Mode::NAMES.iter().find(|(_, mode)| *mode == self.mode);
                mode.map(|(name, _)| (*name).to_owned())
            }
            (_, NAME_COLUMN) => Some(self.columns.file.clone()),
            (_, TEXT_COLUMN) => Some(self.columns.content.clone()),
            _ => None,
        };
        value.ok_or_else(|| no_option(key.as_ref()))
    }

    fn get_option_bytes(&self, key: OptionStatement) -> Result<Vec<u8>> {
        Err(no_option(key.as_ref()))
    }

    fn get_option_int(&self, key: OptionStatement) -> Result<i64> {
        Err(no_option(key.as_ref()))
    }

    fn get_option_double(&self, key: OptionStatement) -> Result<f64> {
        Err(no_option(key.as_ref()))
    }
}

impl Statement for ZipfStatement {
    fn bind(&mut self, batch: RecordBatch) -> Result<()> {
        self.bound = Some(Bound::Batch(batch));
        Ok(())
    }

    fn bind_stream(&mut self, reader: Box<dyn RecordBatchReader + Send>) -> Result<()> {
        self.bound = Some(Bound::Stream(reader));
        Ok(())
    }

    fn execute(&mut self) -> Result<Batches> {
        if let Some(target) = self.target.clone() {
            self.ingest(&target)?;
            let none = arrow_array::RecordBatchIterator::new([], Schema::empty().into());
            return Ok(Box::new(none));
        }
        let batches = self.rows()?.into_record_batches().map_err(unconverted)?;
        Ok(Box::new(batches))
    }

    fn execute_update(&mut self) -> Result<Option<i64>> {
        if let Some(target) = self.target.clone() {
            return self.ingest(&target).map(Some);
        }
        let mut rows = self.rows()?;
        let changed = rows.changed();
        rows.try_for_each(|row| row.map(drop)).map_err(failed)?;
        Ok(i64::try_from(changed).ok())
    }

    fn execute_schema(&mut self) -> Result<Schema> {
        let columns = self.prepared()?.columns().map_err(failed)?;
        let schema = zipfdb_arrow::schema(&columns).map_err(unconverted)?;
        Ok(schema.as_ref().clone())
    }

    fn execute_partitions(&mut self) -> Result<PartitionedResult> {
        Err(not_implemented("partitions of answers"))
    }

    fn get_parameter_schema(&self) -> Result<Schema> {
        let statement = self.prepared()?;
        let names = statement.parameter_names();
        let fields = (0..statement.parameter_count()).map(|index| {
            let name = names.get(index).cloned().flatten();
            let name = name.unwrap_or_else(|| (index + 1).to_string());
            Field::new(name, DataType::Null, true)
        });
        Ok(Schema::new(fields.collect::<Vec<_>>()))
    }

    fn prepare(&mut self) -> Result<()> {
        self.prepared().map(drop)
    }

    fn set_sql_query(&mut self, query: impl AsRef<str>) -> Result<()> {
        self.sql = Some(query.as_ref().to_owned());
        self.target = None;
        Ok(())
    }

    fn set_substrait_plan(&mut self, _: impl AsRef<[u8]>) -> Result<()> {
        Err(not_implemented("plans of Substrait"))
    }

    fn get_cancel_handle(&self) -> Box<dyn CancelHandle> {
        Box::new(Cancel(self.session.database.interrupt_handle()))
    }
}
