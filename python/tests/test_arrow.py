"""Answers as tables of Arrow, pandas and polars, and tables as texts."""

import random

import duckdb
import pandas
import polars
import pyarrow
import pytest

import zipfdb

COUNTS = "SELECT word, COUNT(*) AS n FROM pets GROUP BY word ORDER BY n DESC, word"


def test_all_libraries_read_the_same_rows(con):
    rows = con.execute(COUNTS).fetchall()
    relation = con.sql(COUNTS)
    table = relation.arrow()
    assert [tuple(row.values()) for row in table.to_pylist()] == rows
    assert table.schema.field("word").type == pyarrow.dictionary(pyarrow.int32(), pyarrow.large_string())
    assert table.schema.field("n").type == pyarrow.int64()
    # A statement that only reads runs again.
    frame = relation.df()
    assert list(frame.itertuples(index=False, name=None)) == rows
    assert str(relation.df(categories=True)["word"].dtype) == "category"
    frame = relation.pl()
    assert frame.rows() == rows and frame.schema["word"] == polars.String
    assert relation.pl(categories=True).schema["word"] == polars.Categorical
    assert relation.reader().read_all().equals(table)
    assert relation.fetchall() == rows and relation.fetchall() == []


def test_duckdb_joins_relations_by_name(con):
    rel = con.sql("SELECT word, file, COUNT(*) AS n FROM pets GROUP BY word, file").reader()
    written = pandas.DataFrame({"file": ["a.txt", "b.txt"], "year": [2020, 2021]})
    found = duckdb.sql("SELECT year, SUM(n) FROM rel JOIN written USING (file) GROUP BY year ORDER BY year").fetchall()
    assert written.shape == (2, 2) and found == [(2020, 5), (2021, 9)]


def test_polars_and_pyarrow_read_the_capsule_themselves(con):
    relation = con.sql(COUNTS)
    assert polars.DataFrame(relation).height == 11
    assert pyarrow.table(relation).num_rows == 11
    assert pyarrow.table(con.sql("SELECT word FROM pets WHERE word = 'none'")).num_rows == 0
    with pytest.raises(zipfdb.InterfaceError, match="may not run again"):
        changed = con.sql("INSERT INTO pets (file, content) VALUES ('x', 'y')")
        pyarrow.table(changed)
        pyarrow.table(changed)


def test_kinds_and_null_come_through(con):
    con.corpus("pets").set_metadata("a.txt", author="Ann", day="2020-01-31", at="2020-01-31 10:00:00", good=False, likes=3)
    files = con.sql("SELECT file, author, day, at, good, likes, words FROM files('pets') ORDER BY file")
    table = files.arrow()
    types = [str(field.type) for field in table.schema]
    assert types[1:] == ["large_string", "date32[day]", "timestamp[us]", "bool", "int64", "int64"]
    rows = con.sql("SELECT file, author, day, at, good, likes, words FROM files('pets') ORDER BY file").fetchall()
    assert [tuple(row.values()) for row in table.to_pylist()] == rows
    assert table.column("author").null_count == 2


def test_random_texts_come_through(con):
    chance = random.Random(7)
    corpus = con.create_corpus("random")
    for number in range(30):
        text = " ".join(chance.choice(["a", "b", "\u00e9t\u00e9", "the", "The", "x1"]) for _ in range(chance.randrange(40)))
        corpus.append(f"f{number % 11}", text)
        if number == 15:
            corpus.recompress()
    for sql in ["SELECT * FROM random", "SELECT word, file, COUNT(*) FROM random GROUP BY word, file ORDER BY 1, 2", "SELECT ngram, COUNT(*) FROM ngrams('random', 2) GROUP BY ngram ORDER BY 2 DESC, 1", "SELECT * FROM files('random')"]:
        rows = con.execute(sql).fetchall()
        assert [tuple(row.values()) for row in con.sql(sql).arrow().to_pylist()] == rows
        assert con.sql(sql).pl().rows() == rows


@pytest.mark.parametrize("make", [pyarrow.table, polars.DataFrame, pandas.DataFrame], ids=["pyarrow", "polars", "pandas"])
def test_tables_become_texts_with_metadata(con, make):
    columns = {"file": ["x", "y"], "content": ["one two", "two"], "author": ["Ann", None], "likes": [1, 2]}
    assert con.corpus("pets").copy_from(make(columns)) == 2
    assert con.corpus("pets").count("two") == 2
    shown = con.execute("SELECT file, author, likes FROM files('pets') WHERE likes > 0 ORDER BY file").fetchall()
    assert shown == [("x", "Ann", 1), ("y", None, 2)]


def test_names_of_columns_can_be_given_and_faults_write_nothing(con):
    table = pyarrow.table({"name": ["x", None], "text": ["one", "two"]})
    assert con.corpus("pets").copy_from(table, file="name", content="text") == 2
    assert len(con.corpus("pets")) == 5
    with pytest.raises(zipfdb.DataError, match='no column "content"'):
        con.corpus("pets").copy_from(table)
    with pytest.raises(zipfdb.Error, match="no such column"):
        con.corpus("pets").copy_from(pyarrow.table({"content": ["z"], "wrong": [1]}))

    def failing():
        yield pyarrow.record_batch({"content": ["late one"]})
        raise ValueError("of the source")

    batches = pyarrow.RecordBatchReader.from_batches(pyarrow.schema({"content": pyarrow.string()}), failing())
    with pytest.raises(zipfdb.OperationalError, match="of the source"):
        con.corpus("pets").copy_from(batches)
    assert con.corpus("pets").count("late") == 0


def test_parameters_come_from_tables(con):
    words = polars.DataFrame({"word": ["dog", "none"]})
    found = con.executemany("SELECT binding(), COUNT(*) FROM pets WHERE word = ?", words).fetchall()
    assert found == [(0, 3), (1, 0)]


def test_an_error_after_the_first_rows_reaches_the_consumer(con):
    text = con.create_corpus("bytes", tokenizer="whitespace")
    text.append("f", b"good \xff")
    with pytest.raises(zipfdb.DataError, match="not UTF-8"):
        con.sql("SELECT word FROM bytes").arrow()
    with pytest.raises(Exception, match="not UTF-8"):
        pyarrow.table(con.sql("SELECT word FROM bytes"))
    assert con.sql("SELECT CAST(word AS BLOB) AS word FROM bytes").arrow().num_rows == 2
    assert con.execute("SELECT word FROM bytes").fetchall() == [("good",), (b"\xff",)]
