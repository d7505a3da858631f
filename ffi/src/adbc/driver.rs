//! The driver and its databases.

use std::collections::BTreeMap;
use std::path::Path;

use adbc_core::error::{Error, Result, Status};
use adbc_core::options::{OptionConnection, OptionDatabase, OptionValue};
use adbc_core::{Database, Driver, Optionable};

use super::connection::ZipfConnection;
use super::status::{failed, no_option, not_implemented, switch, text};

/// Opens a database for reading only.
const READ_ONLY: &str = "zipfdb.read_only";
/// Shares a database with other processes.
const SHARED: &str = "zipfdb.shared";
/// The number of threads that work for a database.
const THREADS: &str = "zipfdb.threads";

/// The driver.
#[derive(Default)]
pub struct ZipfDriver;

/// A database that is open.
pub struct ZipfDatabase {
    database: zipfdb::Database,
    /// The options that it was opened with.
    options: BTreeMap<String, String>,
}

impl Driver for ZipfDriver {
    type DatabaseType = ZipfDatabase;

    fn new_database(&mut self) -> Result<ZipfDatabase> {
        self.new_database_with_opts([])
    }

    fn new_database_with_opts(
        &mut self,
        opts: impl IntoIterator<Item = (OptionDatabase, OptionValue)>,
    ) -> Result<ZipfDatabase> {
        let mut wanted = zipfdb::Database::options();
        let mut options = BTreeMap::new();
        for (option, value) in opts {
            let name = option.as_ref().to_owned();
            let shown = match &value {
                OptionValue::String(text) => text.clone(),
                OptionValue::Int(number) => number.to_string(),
                other => format!("{other:?}"),
            };
            match (&option, name.as_str()) {
                (OptionDatabase::Uri, _) => drop(text(&name, value)?),
                (_, READ_ONLY) => wanted = wanted.read_only(switch(&name, value)?),
                (_, SHARED) => wanted = wanted.shared(switch(&name, value)?),
                (_, THREADS) => wanted = wanted.threads(threads(&shown)?),
                (OptionDatabase::Username | OptionDatabase::Password, _) => {
                    return Err(not_implemented("users and passwords"));
                }
                _ => return Err(no_option(&name)),
            }
            options.insert(name, shown);
        }
        let uri = options
            .get(OptionDatabase::Uri.as_ref())
            .map_or(":memory:", String::as_str);
        let database = match uri {
            "" | ":memory:" => wanted.in_memory(),
            uri => wanted.open(Path::new(uri.strip_prefix("file:").unwrap_or(uri))),
        };
        Ok(ZipfDatabase {
            database: database.map_err(failed)?,
            options,
        })
    }
}

fn threads(text: &str) -> Result<usize> {
    text.parse().map_err(|_| {
        let message = format!("option `{THREADS}`: a number is expected, and `{text}` was given");
        Error::with_message_and_status(message, Status::InvalidArguments)
    })
}

impl Database for ZipfDatabase {
    type ConnectionType = ZipfConnection;

    fn new_connection(&self) -> Result<ZipfConnection> {
        self.new_connection_with_opts([])
    }

    fn new_connection_with_opts(
        &self,
        opts: impl IntoIterator<Item = (OptionConnection, OptionValue)>,
    ) -> Result<ZipfConnection> {
        let mut connection = ZipfConnection::new(self.database.session());
        for (option, value) in opts {
            connection.set_option(option, value)?;
        }
        Ok(connection)
    }
}

impl Optionable for ZipfDatabase {
    type Option = OptionDatabase;

    fn set_option(&mut self, key: OptionDatabase, _: OptionValue) -> Result<()> {
        let message = format!("option `{}`: the database is open already", key.as_ref());
        Err(Error::with_message_and_status(
            message,
            Status::InvalidState,
        ))
    }

    fn get_option_string(&self, key: OptionDatabase) -> Result<String> {
        let value = self.options.get(key.as_ref()).cloned();
        value.ok_or_else(|| no_option(key.as_ref()))
    }

    fn get_option_bytes(&self, key: OptionDatabase) -> Result<Vec<u8>> {
        Err(no_option(key.as_ref()))
    }

    fn get_option_int(&self, key: OptionDatabase) -> Result<i64> {
        Err(no_option(key.as_ref()))
    }

    fn get_option_double(&self, key: OptionDatabase) -> Result<f64> {
        Err(no_option(key.as_ref()))
    }
}
