//! Connections: sessions of a database, each with transactions of its own.
//!
//! Invariant: `commit` and `rollback` are errors while statements are committed by themselves.

use std::collections::HashSet;

use adbc_core::error::{Error, Result, Status};
use adbc_core::options::{InfoCode, ObjectDepth, OptionConnection, OptionValue};
use adbc_core::{CancelHandle, Connection, Optionable};
use arrow_schema::Schema;

use super::objects::{Wanted, objects, table_types};
use super::session::{Batches, Cancel, Session};
use super::statement::ZipfStatement;
use super::status::{failed, no_option, not_implemented, switch, unconverted};
use super::{info, objects};

/// A connection.
pub struct ZipfConnection {
    session: Session,
}

impl ZipfConnection {
    pub(crate) fn new(database: zipfdb::Database) -> ZipfConnection {
        ZipfConnection {
            session: Session::new(database),
        }
    }

    /// # Errors
    /// If statements are committed by themselves.
    fn check_manual(&self, action: &str) -> Result<()> {
        if !self.session.is_autocommit() {
            return Ok(());
        }
        let message =
            format!("{action}: statements are committed by themselves; hint: turn autocommit off");
        Err(Error::with_message_and_status(
            message,
            Status::InvalidState,
        ))
    }
}

impl Optionable for ZipfConnection {
    type Option = OptionConnection;

    fn set_option(&mut self, key: OptionConnection, value: OptionValue) -> Result<()> {
        let name = key.as_ref().to_owned();
        match key {
            OptionConnection::AutoCommit => {
                let is_on = switch(&name, value)?;
                if is_on {
                    self.session.end("COMMIT")?;
                }
                self.session.set_autocommit(is_on);
                Ok(())
            }
            OptionConnection::ReadOnly => Err(not_implemented(
                "read-only connections (the database option `zipfdb.read_only`)",
            )),
            _ => Err(no_option(&name)),
        }
    }

    fn get_option_string(&self, key: OptionConnection) -> Result<String> {
        match key {
            OptionConnection::AutoCommit => Ok(self.session.is_autocommit().to_string()),
            // There is one of each, without a name.
            OptionConnection::CurrentCatalog | OptionConnection::CurrentSchema => Ok(String::new()),
            _ => Err(no_option(key.as_ref())),
        }
    }

    fn get_option_bytes(&self, key: OptionConnection) -> Result<Vec<u8>> {
        Err(no_option(key.as_ref()))
    }

    fn get_option_int(&self, key: OptionConnection) -> Result<i64> {
        Err(no_option(key.as_ref()))
    }

    fn get_option_double(&self, key: OptionConnection) -> Result<f64> {
        Err(no_option(key.as_ref()))
    }
}

impl Connection for ZipfConnection {
    type StatementType = ZipfStatement;

    fn new_statement(&mut self) -> Result<ZipfStatement> {
        Ok(ZipfStatement::new(self.session.clone()))
    }

    fn get_cancel_handle(&self) -> Box<dyn CancelHandle> {
        Box::new(Cancel(self.session.database.interrupt_handle()))
    }

    fn get_info(&self, codes: Option<HashSet<InfoCode>>) -> Result<Batches> {
        info::info(codes)
    }

    fn get_objects(
        &self,
        depth: ObjectDepth,
        catalog: Option<&str>,
        db_schema: Option<&str>,
        table_name: Option<&str>,
        table_type: Option<Vec<&str>>,
        column_name: Option<&str>,
    ) -> Result<Batches> {
        let wanted = Wanted {
            depth,
            catalog,
            db_schema,
            table_name,
            table_type,
            column_name,
        };
        objects(&self.session.database, &wanted)
    }

    fn get_table_schema(
        &self,
        catalog: Option<&str>,
        db_schema: Option<&str>,
        table_name: &str,
    ) -> Result<Schema> {
        let is_named = |name: Option<&str>| name.is_some_and(|name| !name.is_empty());
        if is_named(catalog) || is_named(db_schema) {
            let message = "catalogs and schemas have no names".to_owned();
            return Err(Error::with_message_and_status(message, Status::NotFound));
        }
        let columns = objects::columns(&self.session.database, table_name);
        let columns = columns.map_err(|error| match error {
            zipfdb::Error::Sql(error) => {
                Error::with_message_and_status(error.to_string(), Status::NotFound)
            }
            error => failed(error),
        })?;
        let schema = zipfdb_arrow::schema(&columns).map_err(unconverted)?;
        Ok(schema.as_ref().clone())
    }

    fn get_table_types(&self) -> Result<Batches> {
        table_types()
    }

    fn get_statistic_names(&self) -> Result<Batches> {
        Err(not_implemented("statistics"))
    }

    fn get_statistics(
        &self,
        _: Option<&str>,
        _: Option<&str>,
        _: Option<&str>,
        _: bool,
    ) -> Result<Batches> {
        Err(not_implemented("statistics"))
    }

    fn commit(&mut self) -> Result<()> {
        self.check_manual("commit")?;
        self.session.end("COMMIT")
    }

    fn rollback(&mut self) -> Result<()> {
        self.check_manual("rollback")?;
        self.session.end("ROLLBACK")
    }

    fn read_partition(&self, _: impl AsRef<[u8]>) -> Result<Batches> {
        Err(not_implemented("partitions of answers"))
    }
}
