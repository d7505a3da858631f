//! The driver, loaded by the driver manager of ADBC as any program loads it.

#![allow(clippy::unwrap_used)]

use std::collections::HashSet;
use std::env;
use std::sync::Arc;

use adbc_core::error::Status;
use adbc_core::options::{
    AdbcVersion, InfoCode, IngestMode, ObjectDepth, OptionConnection, OptionDatabase,
    OptionStatement,
};
use adbc_core::{Connection, Database, Driver, Optionable, Statement};
use adbc_driver_manager::{ManagedConnection, ManagedDatabase, ManagedDriver};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{
    Date32Array, Int64Array, RecordBatch, RecordBatchIterator, RecordBatchReader, StringArray,
};
use arrow_schema::DataType;

fn driver() -> ManagedDriver {
    let folder = env::current_exe().unwrap().parent().unwrap().to_path_buf();
    let library = folder.join("libzipfdb_c.so");
    let init = Some(&b"AdbcZipfdbInit"[..]);
    ManagedDriver::load_dynamic_from_filename(library, init, AdbcVersion::V110).unwrap()
}

fn open(path: &str) -> ManagedDatabase {
    let options = [(OptionDatabase::Uri, path.into())];
    driver().new_database_with_opts(options).unwrap()
}

fn run(connection: &mut ManagedConnection, sql: &str) -> Option<i64> {
    let mut statement = connection.new_statement().unwrap();
    statement.set_sql_query(sql).unwrap();
    statement.execute_update().unwrap()
}

fn number(connection: &mut ManagedConnection, sql: &str) -> i64 {
    let mut statement = connection.new_statement().unwrap();
    statement.set_sql_query(sql).unwrap();
    let batch = statement.execute().unwrap().next().unwrap().unwrap();
    batch.column(0).as_primitive::<Int64Type>().value(0)
}

/// A corpus of two files, in memory.
fn pets() -> ManagedConnection {
    let mut connection = open(":memory:").new_connection().unwrap();
    run(
        &mut connection,
        "CREATE CORPUS pets (age INTEGER, day DATE)",
    );
    let insert = "INSERT INTO pets (file, content, age) VALUES ('a.txt', 'the cat and the dog', 3), ('b.txt', 'a cat', 5)";
    assert_eq!(run(&mut connection, insert), Some(2));
    connection
}

fn texts() -> RecordBatch {
    RecordBatch::try_from_iter([
        (
            "file",
            Arc::new(StringArray::from(vec!["c.txt", "d.txt"])) as _,
        ),
        (
            "content",
            Arc::new(StringArray::from(vec!["the cow ", "a cow "])) as _,
        ),
        (
            "day",
            Arc::new(Date32Array::from(vec![Some(18262), None])) as _,
        ),
    ])
    .unwrap()
}

#[test]
fn answers_are_batches() {
    let mut connection = pets();
    let mut statement = connection.new_statement().unwrap();
    let sql =
        "SELECT word, COUNT(*) AS n FROM pets WHERE age < ? GROUP BY word ORDER BY n DESC, word";
    statement.set_sql_query(sql).unwrap();
    statement.prepare().unwrap();
    assert_eq!(
        statement.get_parameter_schema().unwrap().field(0).name(),
        "1"
    );
    let schema = statement.execute_schema().unwrap();
    assert_eq!(schema.field(1).data_type(), &DataType::Int64);
    let ages = |ages: Vec<i64>| {
        RecordBatch::try_from_iter([("age", Arc::new(Int64Array::from(ages)) as _)]).unwrap()
    };
    statement.bind(ages(vec![4])).unwrap();
    let answer = statement.execute().unwrap();
    assert_eq!(answer.schema().as_ref(), &schema);
    let batches = answer.collect::<Result<Vec<_>, _>>().unwrap();
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 4);
    assert_eq!(batches[0].column(1).as_primitive::<Int64Type>().value(0), 2);
    // Rows that are bound are answered in order.
    let sets = RecordBatchIterator::new([Ok(ages(vec![4, 9]))], ages(vec![]).schema());
    statement.bind_stream(Box::new(sets)).unwrap();
    let answer = statement
        .execute()
        .unwrap()
        .map(|batch| batch.unwrap().num_rows());
    assert_eq!(answer.sum::<usize>(), 4 + 5);
}

#[test]
fn batches_become_texts() {
    let mut connection = pets();
    let mut ingest = |mode: IngestMode, target: &str| {
        let mut statement = connection.new_statement().unwrap();
        let table = OptionStatement::TargetTable;
        statement.set_option(table, target.into()).unwrap();
        statement
            .set_option(OptionStatement::IngestMode, mode.into())
            .unwrap();
        statement.bind(texts()).unwrap();
        statement.execute_update().map_err(|error| error.status)
    };
    assert_eq!(
        ingest(IngestMode::Create, "pets"),
        Err(Status::AlreadyExists)
    );
    assert_eq!(ingest(IngestMode::Append, "cows"), Err(Status::NotFound));
    assert_eq!(ingest(IngestMode::Append, "pets"), Ok(Some(2)));
    assert_eq!(ingest(IngestMode::Create, "cows"), Ok(Some(2)));
    assert_eq!(ingest(IngestMode::CreateAppend, "cows"), Ok(Some(2)));
    assert_eq!(
        number(
            &mut connection,
            "SELECT COUNT(*) FROM cows WHERE word = 'cow'"
        ),
        4
    );
    let mut statement = connection.new_statement().unwrap();
    statement
        .set_option(OptionStatement::TargetTable, "cows".into())
        .unwrap();
    statement
        .set_option(OptionStatement::IngestMode, IngestMode::Replace.into())
        .unwrap();
    statement.bind(texts()).unwrap();
    assert_eq!(statement.execute_update().unwrap(), Some(2));
    let sql = "SELECT COUNT(*) FROM files('cows') WHERE day = DATE '2020-01-01'";
    assert_eq!(number(&mut connection, sql), 1);
}

#[test]
fn transactions_commit_and_roll_back() {
    let mut connection = pets();
    let count = "SELECT COUNT(*) FROM pets WHERE word = 'cow'";
    assert_eq!(
        connection.commit().unwrap_err().status,
        Status::InvalidState
    );
    connection
        .set_option(OptionConnection::AutoCommit, false.into())
        .unwrap();
    let insert = "INSERT INTO pets (file, content) VALUES ('c.txt', 'cow')";
    run(&mut connection, insert);
    assert_eq!(number(&mut connection, count), 1);
    connection.rollback().unwrap();
    assert_eq!(number(&mut connection, count), 0);
    run(&mut connection, insert);
    connection.commit().unwrap();
    connection.rollback().unwrap();
    assert_eq!(number(&mut connection, count), 1);
    run(&mut connection, "DELETE FROM pets WHERE file = 'c.txt'");
    connection
        .set_option(OptionConnection::AutoCommit, true.into())
        .unwrap();
    assert_eq!(number(&mut connection, count), 0);
}

#[test]
fn objects_are_listed() {
    let mut connection = pets();
    run(
        &mut connection,
        "CREATE VIEW old AS SELECT word FROM pets WHERE age > 4",
    );
    let list = |depth, name: Option<&str>, types: Option<Vec<&str>>, column: Option<&str>| {
        let objects = connection
            .get_objects(depth, None, None, name, types, column)
            .unwrap();
        let batch = objects.map(Result::unwrap).next();
        batch.map_or(Vec::new(), |batch| {
            let schemas = batch
                .column(1)
                .as_list::<i32>()
                .values()
                .as_struct()
                .clone();
            let tables = schemas
                .column(1)
                .as_list::<i32>()
                .values()
                .as_struct()
                .clone();
            let columns = tables.column(2).as_list::<i32>();
            let names = tables.column(0).as_string::<i32>().iter();
            let count = |index| columns.value(index).len();
            let names = names
                .enumerate()
                .map(|(index, name)| (name.unwrap().to_owned(), count(index)));
            names.collect::<Vec<_>>()
        })
    };
    let named = |name: &str, columns| (name.to_owned(), columns);
    assert_eq!(
        list(ObjectDepth::Tables, None, None, None),
        [named("pets", 0), named("old", 0)]
    );
    let all = list(ObjectDepth::All, None, None, None);
    assert!(all[0].1 > 3 && all[1] == named("old", 1), "{all:?}");
    assert_eq!(
        list(ObjectDepth::All, Some("p%"), None, Some("a_e")),
        [named("pets", 1)]
    );
    assert_eq!(
        list(ObjectDepth::All, None, Some(vec!["VIEW"]), None),
        [named("old", 1)]
    );
    assert_eq!(list(ObjectDepth::Catalogs, None, None, None), []);
    let schema = connection.get_table_schema(None, None, "pets").unwrap();
    assert_eq!(
        schema.field_with_name("day").unwrap().data_type(),
        &DataType::Date32
    );
    let missing = connection.get_table_schema(None, None, "pet").unwrap_err();
    assert_eq!(missing.status, Status::NotFound);
    let types = connection
        .get_table_types()
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    assert_eq!(types.num_rows(), 2);
    let codes = HashSet::from([InfoCode::VendorName, InfoCode::DriverAdbcVersion]);
    let info = connection
        .get_info(Some(codes))
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    assert_eq!(info.num_rows(), 2);
    assert_eq!(
        connection
            .get_info(None)
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .num_rows(),
        8
    );
}

#[test]
fn errors_have_a_status_and_a_place() {
    let mut connection = pets();
    let mut statement = connection.new_statement().unwrap();
    statement
        .set_sql_query("SELECT COUNT(*)\nFROM pet")
        .unwrap();
    let error = statement
        .prepare()
        .and_then(|()| statement.execute_schema().map(drop));
    let error = error.unwrap_err();
    assert_eq!(error.status, Status::InvalidArguments);
    assert!(
        error.message.contains("2:6") && error.message.contains("pets"),
        "{}",
        error.message
    );
    let details = error.details.unwrap();
    assert_eq!(details[0], ("zipfdb.line".to_owned(), b"2".to_vec()));
    let mut empty = connection.new_statement().unwrap();
    assert_eq!(empty.prepare().unwrap_err().status, Status::InvalidState);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none.zdb");
    let options = [
        (OptionDatabase::Uri, path.to_str().unwrap().into()),
        (
            OptionDatabase::Other("zipfdb.read_only".to_owned()),
            true.into(),
        ),
    ];
    let error = driver().new_database_with_opts(options).err().unwrap();
    assert_eq!(error.status, Status::NotFound);
    assert!(
        error.message.contains("there is no database"),
        "{}",
        error.message
    );
    let options = [(
        OptionDatabase::Other("zipfdb.colour".to_owned()),
        true.into(),
    )];
    assert_eq!(
        driver()
            .new_database_with_opts(options)
            .err()
            .unwrap()
            .status,
        Status::NotFound
    );
}
