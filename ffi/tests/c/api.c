/* Every function of zipfdb.h, as a program in C and in C++ calls it. */
#include "stream.h"
#include "zipfdb.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#define OK(call)                                                                                   \
    do {                                                                                           \
        zipfdb_error *failed = (call);                                                             \
        if (failed != NULL) {                                                                      \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, zipfdb_error_message(failed));      \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static zipfdb_text text(const char *bytes) {
    zipfdb_text made;
    made.bytes = (const uint8_t *)bytes;
    made.length = strlen(bytes);
    return made;
}

static bool is(zipfdb_text found, const char *expected) {
    return found.length == strlen(expected) && memcmp(found.bytes, expected, found.length) == 0;
}

/* An error must be of this kind, and its message must hold these words. */
static void fails(zipfdb_error *error, zipfdb_error_kind kind, const char *words) {
    CHECK(error != NULL);
    if (zipfdb_error_get_kind(error) != kind || strstr(zipfdb_error_message(error), words) == NULL) {
        fprintf(stderr, "kind %d: %s\n", (int)zipfdb_error_get_kind(error), zipfdb_error_message(error));
        exit(1);
    }
    zipfdb_error_free(error);
}

static uint64_t count_of(const zipfdb_database *database, const char *word) {
    zipfdb_statement *statement;
    zipfdb_rows *rows;
    bool has_row;
    uint64_t count;
    OK(zipfdb_prepare(database, "SELECT COUNT(*) FROM pets WHERE word = :word", &statement));
    CHECK(zipfdb_parameter_count(statement) == 1);
    CHECK(zipfdb_parameter_number(statement, "word") == 1);
    CHECK(zipfdb_parameter_number(statement, "other") == 0);
    OK(zipfdb_bind_text(statement, 1, text(word)));
    OK(zipfdb_query(statement, &rows));
    zipfdb_statement_free(statement);
    OK(zipfdb_rows_next(rows, &has_row));
    CHECK(has_row);
    count = (uint64_t)zipfdb_value_integer(rows, 0);
    zipfdb_rows_free(rows);
    return count;
}

static void statements(const zipfdb_database *database) {
    zipfdb_statement *statement;
    zipfdb_rows *rows;
    bool has_row;
    uint64_t changed = 0;
    uint64_t line, column;
    zipfdb_error *error;

    OK(zipfdb_prepare(database, "INSERT INTO pets (file, content, age, weight) VALUES (?, ?, ?, ?)", &statement));
    OK(zipfdb_bind_text(statement, 1, text("b.txt")));
    OK(zipfdb_bind_blob(statement, 2, text("a black cat")));
    OK(zipfdb_bind_integer(statement, 3, 7));
    OK(zipfdb_bind_real(statement, 4, 2.5));
    OK(zipfdb_run(statement, &changed));
    CHECK(changed == 1);
    OK(zipfdb_bind_text(statement, 1, text("c.txt")));
    OK(zipfdb_bind_null(statement, 3));
    OK(zipfdb_run(statement, NULL));
    fails(zipfdb_bind_null(statement, 5), ZIPFDB_ERROR_KIND_INVALID, "no parameter 5: the statement has 4");
    fails(zipfdb_bind_null(statement, 0), ZIPFDB_ERROR_KIND_INVALID, "no parameter 0");
    fails(zipfdb_bind_text(statement, 1, text("\xff")), ZIPFDB_ERROR_KIND_INVALID, "not UTF-8 at byte 0");
    zipfdb_statement_free(statement);

    OK(zipfdb_prepare(database, "SELECT file, age, weight, file = 'b.txt' AS is_b FROM files('pets') ORDER BY file", &statement));
    OK(zipfdb_query(statement, &rows));
    CHECK(zipfdb_rows_columns(rows) == 4);
    CHECK(strcmp(zipfdb_rows_name(rows, 1), "age") == 0);
    CHECK(zipfdb_rows_name(rows, 4) == NULL);
    CHECK(zipfdb_value_kind(rows, 0) == ZIPFDB_KIND_NULL);
    OK(zipfdb_rows_next(rows, &has_row));
    CHECK(has_row && is(zipfdb_value_text(rows, 0), "a.txt"));
    OK(zipfdb_rows_next(rows, &has_row));
    CHECK(has_row && zipfdb_value_kind(rows, 0) == ZIPFDB_KIND_TEXT && is(zipfdb_value_text(rows, 0), "b.txt"));
    CHECK(zipfdb_value_kind(rows, 1) == ZIPFDB_KIND_INTEGER && zipfdb_value_integer(rows, 1) == 7);
    CHECK(zipfdb_value_kind(rows, 2) == ZIPFDB_KIND_REAL && zipfdb_value_real(rows, 2) == 2.5);
    CHECK(zipfdb_value_integer(rows, 3) == 1);
    CHECK(zipfdb_value_kind(rows, 9) == ZIPFDB_KIND_NULL && zipfdb_value_text(rows, 1).bytes == NULL);
    OK(zipfdb_rows_next(rows, &has_row));
    CHECK(has_row && zipfdb_value_kind(rows, 1) == ZIPFDB_KIND_NULL);
    OK(zipfdb_rows_next(rows, &has_row));
    CHECK(!has_row);
    OK(zipfdb_rows_next(rows, &has_row));
    CHECK(!has_row);
    zipfdb_rows_free(rows);
    zipfdb_statement_free(statement);

    OK(zipfdb_prepare(database, "SELECT COUNT(*) FROM pets WHERE word = 'a b'", &statement));
    OK(zipfdb_query(statement, &rows));
    CHECK(zipfdb_rows_changed(rows) == 0);
    CHECK(zipfdb_rows_notice(rows, 0) != NULL && zipfdb_rows_notice(rows, 9) == NULL);
    zipfdb_rows_free(rows);
    zipfdb_statement_free(statement);

    error = zipfdb_prepare(database, "SELECT word\nFROM pets WERE 1", &statement);
    CHECK(error != NULL && zipfdb_error_get_kind(error) == ZIPFDB_ERROR_KIND_SQL);
    CHECK(zipfdb_error_place(error, &line, &column) && line == 2);
    zipfdb_error_free(error);
    error = zipfdb_execute(database, "SELECT COUNT(*) FROM pet");
    CHECK(error != NULL && zipfdb_error_hint(error) != NULL && strstr(zipfdb_error_hint(error), "pets") != NULL);
    CHECK(zipfdb_error_place(error, &line, &column) && line == 1 && column == 22);
    zipfdb_error_free(error);
    fails(zipfdb_execute(database, NULL), ZIPFDB_ERROR_KIND_INVALID, "argument `sql` is NULL");
    fails(zipfdb_execute(NULL, ""), ZIPFDB_ERROR_KIND_INVALID, "argument `database` is NULL");
    fails(zipfdb_execute(database, "SELECT '\xff'"), ZIPFDB_ERROR_KIND_INVALID, "not UTF-8 at byte 8");
}

static void transactions(zipfdb_database *database) {
    zipfdb_transaction *edits;
    uint64_t changed = 0;
    OK(zipfdb_begin(database, &edits));
    OK(zipfdb_transaction_append(edits, "pets", "d.txt", text("the cow")));
    OK(zipfdb_transaction_insert(edits, "pets", "d.txt", 4, text("old ")));
    OK(zipfdb_transaction_replace(edits, "pets", "c.txt", text("a cow")));
    OK(zipfdb_transaction_delete(edits, "pets", "b.txt"));
    OK(zipfdb_transaction_execute(edits, "UPDATE pets SET age = 3 WHERE file = 'd.txt'", &changed));
    CHECK(changed == 1);
    fails(zipfdb_transaction_delete(edits, "pets", "none"), ZIPFDB_ERROR_KIND_INVALID, "no such file \"none\"");
    CHECK(count_of(database, "cow") == 0);
    OK(zipfdb_commit(edits));
    CHECK(count_of(database, "cow") == 2 && count_of(database, "old") == 1);
    OK(zipfdb_begin(database, &edits));
    OK(zipfdb_transaction_delete(edits, "pets", "d.txt"));
    zipfdb_rollback(edits);
    CHECK(count_of(database, "old") == 1);
}

static void batches(const zipfdb_database *database) {
    zipfdb_snapshot *snapshot;
    zipfdb_places *places;
    zipfdb_texts *texts;
    zipfdb_text words[3];
    zipfdb_range ranges[2];
    uint64_t counts[3] = {9, 9, 9};
    const zipfdb_place *found;
    size_t count = 9;
    words[0] = text("the");
    words[1] = text("unicorn");
    words[2] = text("cat");
    OK(zipfdb_snapshot_new(database, "pets", &snapshot));
    OK(zipfdb_count_many(snapshot, words, 3, counts));
    CHECK(counts[0] == 3 && counts[1] == 0 && counts[2] == 1);
    OK(zipfdb_count_many(snapshot, NULL, 0, NULL));
    fails(zipfdb_count_many(snapshot, NULL, 3, counts), ZIPFDB_ERROR_KIND_INVALID, "argument `words` is NULL");
    OK(zipfdb_search_many(snapshot, words, 3, &places));
    found = zipfdb_places_of(places, 0, &count);
    CHECK(count == 3 && strcmp(found[0].file, "a.txt") == 0 && found[0].offset == 0 && found[1].offset == 12);
    CHECK(strcmp(found[2].file, "d.txt") == 0);
    zipfdb_places_of(places, 1, &count);
    CHECK(count == 0);
    CHECK(zipfdb_places_of(places, 3, &count) == NULL && count == 0);
    zipfdb_places_free(places);
    ranges[0].file = "a.txt", ranges[0].offset = 4, ranges[0].length = 3;
    ranges[1].file = "d.txt", ranges[1].offset = 4, ranges[1].length = 99;
    OK(zipfdb_extract_many(snapshot, ranges, 2, &texts));
    CHECK(zipfdb_texts_count(texts) == 2);
    CHECK(is(zipfdb_texts_get(texts, 0), "cat") && is(zipfdb_texts_get(texts, 1), "old cow"));
    CHECK(zipfdb_texts_get(texts, 2).bytes == NULL);
    zipfdb_texts_free(texts);
    ranges[1].file = "none";
    fails(zipfdb_extract_many(snapshot, ranges, 2, &texts), ZIPFDB_ERROR_KIND_NOT_FOUND, "none");
    zipfdb_snapshot_free(snapshot);
    fails(zipfdb_snapshot_new(database, "pet", &snapshot), ZIPFDB_ERROR_KIND_NOT_FOUND, "pet");
}

/* Answers become texts: the stream of one statement goes into a corpus. */
static void streams(const zipfdb_database *database) {
    zipfdb_statement *statement;
    struct ArrowArrayStream stream, answers;
    struct ArrowSchema schema;
    struct ArrowArray batch;
    uint64_t count = 0;
    int64_t last = 0;
    OK(zipfdb_prepare(database, "SELECT word, COUNT(*) AS n FROM pets GROUP BY word ORDER BY n DESC, word LIMIT 2", &statement));
    OK(zipfdb_query_stream(statement, &stream));
    zipfdb_statement_free(statement);
    CHECK(stream.get_schema(&stream, &schema) == 0);
    CHECK(schema.n_children == 2 && strcmp(schema.children[1]->name, "n") == 0 && strcmp(schema.children[1]->format, "l") == 0);
    CHECK(schema.children[0]->dictionary != NULL);
    schema.release(&schema);
    CHECK(stream.get_next(&stream, &batch) == 0 && batch.length == 2);
    CHECK(((const int64_t *)batch.children[1]->buffers[1])[0] == 3);
    batch.release(&batch);
    CHECK(stream.get_next(&stream, &batch) == 0 && batch.release == NULL);
    stream.release(&stream);

    OK(zipfdb_execute(database, "CREATE CORPUS copies (age INTEGER)"));
    OK(zipfdb_prepare(database, "SELECT file, content, age FROM files('pets')", &statement));
    OK(zipfdb_query_stream(statement, &stream));
    zipfdb_statement_free(statement);
    OK(zipfdb_append_stream(database, "copies", &stream, &count));
    CHECK(count == 3 && stream.release == NULL);

    OK(zipfdb_prepare(database, "SELECT word FROM copies GROUP BY word ORDER BY word", &statement));
    OK(zipfdb_query_stream(statement, &stream));
    zipfdb_statement_free(statement);
    OK(zipfdb_prepare(database, "SELECT binding(), COUNT(*) FROM pets WHERE word = ?", &statement));
    OK(zipfdb_query_many_stream(statement, &stream, &answers));
    zipfdb_statement_free(statement);
    for (count = 0;; count += (uint64_t)batch.length, batch.release(&batch)) {
        CHECK(answers.get_next(&answers, &batch) == 0);
        if (batch.release == NULL)
            break;
        last = ((const int64_t *)batch.children[1]->buffers[1])[batch.length - 1];
    }
    CHECK(count == 7 && last == 3);
    answers.release(&answers);
    fails(zipfdb_append_stream(database, "copies", NULL, NULL), ZIPFDB_ERROR_KIND_INVALID, "argument `texts` is NULL");
}

int main(int count, char **arguments) {
    zipfdb_database *database, *session;
    zipfdb_interrupt_handle *interrupt;
    zipfdb_texts *names;
    zipfdb_options options;
    CHECK(count == 2);
    CHECK(zipfdb_version() != NULL && zipfdb_version()[0] != 0);

    memset(&options, 0, sizeof options);
    options.must_exist = true;
    fails(zipfdb_open(arguments[1], &options, &database), ZIPFDB_ERROR_KIND_NOT_FOUND, "there is no database");
    options.must_exist = false;
    options.threads = 2;
    OK(zipfdb_open(arguments[1], &options, &database));
    OK(zipfdb_execute(database, "CREATE CORPUS pets (age INTEGER, weight REAL)"));
    OK(zipfdb_append(database, "pets", "a.txt", text("the cat and the dog")));
    OK(zipfdb_corpora(database, &names));
    CHECK(zipfdb_texts_count(names) == 1 && is(zipfdb_texts_get(names, 0), "pets"));
    zipfdb_texts_free(names);
    CHECK(count_of(database, "the") == 2);
    statements(database);
    transactions(database);
    batches(database);
    streams(database);

    OK(zipfdb_session(database, &session));
    OK(zipfdb_interrupt_handle_new(session, &interrupt));
    zipfdb_interrupt(interrupt);
    zipfdb_interrupt_handle_free(interrupt);
    CHECK(count_of(session, "old") == 1);
    zipfdb_close(session);
    zipfdb_close(database);

    memset(&options, 0, sizeof options);
    options.read_only = true;
    OK(zipfdb_open(arguments[1], &options, &database));
    CHECK(count_of(database, "old") == 1);
    fails(zipfdb_append(database, "pets", "a.txt", text("x")), ZIPFDB_ERROR_KIND_STORAGE, "read-only");
    zipfdb_close(database);
    OK(zipfdb_open(":memory:", NULL, &database));
    zipfdb_close(database);
    zipfdb_close(NULL);
    return 0;
}
