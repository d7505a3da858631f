// The validation suite of ADBC (c/validation of apache/arrow-adbc) on the driver of this crate: what it may expect.
//
// Built and run by scripts/validate. The suite is about tables; a corpus has texts, so a sample is a corpus with metadata.

#include <cstdlib>
#include <string>

#include <arrow-adbc/adbc.h>
#include <gmock/gmock-matchers.h>
#include <gtest/gtest.h>
#include <nanoarrow/nanoarrow.h>

#include "validation/adbc_validation.h"
#include "validation/adbc_validation_util.h"

class ZipfQuirks : public adbc_validation::DriverQuirks {
 public:
  AdbcStatusCode SetupDatabase(struct AdbcDatabase* database,
                               struct AdbcError* error) const override {
    RAISE_ADBC(AdbcDatabaseSetOption(database, "driver", std::getenv("ZIPFDB_DRIVER"), error));
    RAISE_ADBC(AdbcDatabaseSetOption(database, "entrypoint", "AdbcZipfdbInit", error));
    return AdbcDatabaseSetOption(database, "uri", ":memory:", error);
  }

  AdbcStatusCode Run(struct AdbcConnection* connection, const std::string& sql,
                     struct AdbcError* error) const {
    adbc_validation::Handle<struct AdbcStatement> statement;
    RAISE_ADBC(AdbcStatementNew(connection, &statement.value, error));
    RAISE_ADBC(AdbcStatementSetSqlQuery(&statement.value, sql.c_str(), error));
    RAISE_ADBC(AdbcStatementExecuteQuery(&statement.value, nullptr, nullptr, error));
    return AdbcStatementRelease(&statement.value, error);
  }

  AdbcStatusCode DropTable(struct AdbcConnection* connection, const std::string& name,
                           struct AdbcError* error) const override {
    return Run(connection, "DROP CORPUS IF EXISTS \"" + name + "\"", error);
  }

  AdbcStatusCode DropView(struct AdbcConnection* connection, const std::string& name,
                          struct AdbcError* error) const override {
    return Run(connection, "DROP VIEW IF EXISTS \"" + name + "\"", error);
  }

  AdbcStatusCode CreateSampleTable(struct AdbcConnection* connection, const std::string& name,
                                   struct AdbcError* error) const override {
    RAISE_ADBC(Run(connection, "CREATE CORPUS \"" + name + "\" (int64s INTEGER, strings TEXT)", error));
    return Run(connection,
               "INSERT INTO \"" + name +
                   "\" (content, int64s, strings) VALUES ('a', 42, 'foo'), ('b', -42, NULL), ('c', NULL, '')",
               error);
  }

  // A corpus has a text for each row, and its metadata is read by `files`.
  std::string RewriteSql(std::string_view id, std::string sql) const override {
    if (id == "StatementTest::TestSqlBind::create-table-bindtest")
      return "CREATE CORPUS bindtest (col1 INTEGER, col2 TEXT)";
    if (id == "StatementTest::TestSqlBind::insert-bindtest")
      return "INSERT INTO bindtest (content, col1, col2) VALUES ('text', ?, ?)";
    if (id == "StatementTest::TestSqlBind::select-bindtest")
      return "SELECT col1, col2 FROM files('bindtest') ORDER BY col1 NULLS FIRST";
    if (id == "StatementTest::TestSqlQueryEmpty::create-table-queryempty")
      return "CREATE VIEW queryempty AS SELECT 1 AS foo";
    return sql;
  }

  // A batch without texts is no corpus, and `SELECT *` of a corpus gives words.
  bool supports_bulk_ingest(const char*) const override { return false; }
  bool supports_concurrent_statements() const override { return true; }
  bool supports_cancel() const override { return true; }
  bool supports_execute_schema() const override { return true; }
  bool supports_metadata_current_catalog() const override { return true; }
  bool supports_metadata_current_db_schema() const override { return true; }

  std::optional<adbc_validation::SqlInfoValue> supports_get_sql_info(uint32_t code) const override {
    switch (code) {
      case ADBC_INFO_DRIVER_NAME:
        return "ADBC driver of ZipfDB";
      case ADBC_INFO_DRIVER_VERSION:
      case ADBC_INFO_VENDOR_VERSION:
        return "0.1.0";
      case ADBC_INFO_VENDOR_NAME:
        return "ZipfDB";
      case ADBC_INFO_DRIVER_ADBC_VERSION:
        return ADBC_VERSION_1_1_0;
      default:
        return std::nullopt;
    }
  }
};

#define FIXTURE(NAME, TEST)                                               \
  class NAME : public ::testing::Test, public adbc_validation::TEST {     \
   public:                                                                \
    const adbc_validation::DriverQuirks* quirks() const override {        \
      return &quirks_;                                                    \
    }                                                                     \
    void SetUp() override { ASSERT_NO_FATAL_FAILURE(SetUpTest()); }       \
    void TearDown() override { ASSERT_NO_FATAL_FAILURE(TearDownTest()); } \
                                                                          \
   protected:                                                             \
    ZipfQuirks quirks_;                                                   \
  }

FIXTURE(ZipfDatabaseTest, DatabaseTest);
ADBCV_TEST_DATABASE(ZipfDatabaseTest)

FIXTURE(ZipfConnectionTest, ConnectionTest);
ADBCV_TEST_CONNECTION(ZipfConnectionTest)

FIXTURE(ZipfStatementTest, StatementTest);
ADBCV_TEST_STATEMENT(ZipfStatementTest)
