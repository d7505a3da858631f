"""PEP 249: constants, exceptions, cursors, transactions."""

import datetime

import pytest

import zipfdb


def test_constants_and_type_objects_are_those_of_pep_249():
    assert (zipfdb.apilevel, zipfdb.threadsafety, zipfdb.paramstyle) == ("2.0", 2, "qmark")
    assert "TEXT" == zipfdb.STRING and "INTEGER" == zipfdb.NUMBER and "DATE" == zipfdb.DATETIME
    assert zipfdb.BINARY != zipfdb.STRING
    assert zipfdb.Date(2020, 1, 31) == datetime.date(2020, 1, 31)
    assert zipfdb.Binary(b"a") == b"a"
    zipfdb.DateFromTicks(0), zipfdb.TimeFromTicks(0), zipfdb.TimestampFromTicks(0)


def test_exceptions_form_the_hierarchy_of_pep_249():
    assert issubclass(zipfdb.Warning, Exception) and issubclass(zipfdb.Error, Exception)
    assert issubclass(zipfdb.InterfaceError, zipfdb.Error) and issubclass(zipfdb.DatabaseError, zipfdb.Error)
    for name in ("DataError", "OperationalError", "IntegrityError", "InternalError", "ProgrammingError", "NotSupportedError"):
        assert issubclass(getattr(zipfdb, name), zipfdb.DatabaseError)
        assert getattr(zipfdb.Connection, name) is getattr(zipfdb, name)
    for name in ("Interrupted", "Timeout"):
        assert issubclass(getattr(zipfdb, name), zipfdb.OperationalError)


def test_errors_say_where_and_what_to_do(con):
    with pytest.raises(zipfdb.ProgrammingError) as caught:
        con.execute("SELECT\n  wrod FROM pets")
    assert caught.value.position == (2, 3, 9)
    assert caught.value.hint == 'did you mean "word"?'
    assert caught.value.excerpt.splitlines() == ["  wrod FROM pets", "  ^"]
    with pytest.raises(zipfdb.ProgrammingError) as caught:
        con.corpus("pets").extract("none.txt")
    assert caught.value.position is None
    with pytest.raises(zipfdb.DataError):
        con.execute("SELECT ?", [2**64])
    with pytest.raises(zipfdb.DataError):
        con.execute("SELECT ?", [object()])
    with pytest.raises(zipfdb.ProgrammingError):
        con.execute("SELECT ?", "one")


def test_cursors_give_rows_in_all_ways(con):
    cursor = con.cursor()
    assert cursor.description is None and cursor.rowcount == -1
    cursor.execute("SELECT word, COUNT(*) AS n FROM pets WHERE file = ? GROUP BY word ORDER BY n DESC, word", ["a.txt"])
    assert [column[:2] for column in cursor.description] == [("word", "TEXT"), ("n", "INTEGER")]
    assert all(len(column) == 7 for column in cursor.description)
    assert cursor.fetchone() == ("the", 2)
    assert cursor.fetchmany() == [("and", 1)]
    assert cursor.fetchmany(5) == [("cat", 1), ("dog", 1)]
    assert cursor.fetchone() is None and cursor.fetchmany(2) == [] and cursor.fetchall() == []
    assert list(con.execute("SELECT 1 UNION ALL SELECT 2")) == [(1,), (2,)]
    assert con.execute("SELECT COUNT(*) FROM pets").fetchall() == [(17,)]
    cursor.execute("INSERT INTO pets (file, content) VALUES ('x', 'y')")
    assert (cursor.rowcount, cursor.description) == (1, None)
    with pytest.raises(zipfdb.Error):
        cursor.fetchall()
    cursor.close()
    with pytest.raises(zipfdb.Error):
        cursor.execute("SELECT 1")


def test_values_come_back_as_they_were_given(con):
    moment = datetime.datetime(2020, 1, 31, 10, 0, 0, 250000)
    zone = datetime.timezone(datetime.timedelta(hours=2))
    for given, expected in [
        (None, None),
        (7, 7),
        (-(2**63), -(2**63)),
        (0.5, 0.5),
        ("\u00e4", "\u00e4"),
        (b"\xff", b"\xff"),
        (bytearray(b"a"), b"a"),
        (True, 1),
        (datetime.date(2020, 1, 31), "2020-01-31"),
        (moment, "2020-01-31 10:00:00.25"),
        (moment.replace(tzinfo=zone), "2020-01-31 08:00:00.25"),
    ]:
        assert con.execute("SELECT ?", [given]).fetchone() == (expected,)
    assert con.execute("SELECT :a, :b, :a", {"a": 1, "b": "x"}).fetchone() == (1, "x", 1)
    with pytest.raises(zipfdb.ProgrammingError):
        con.execute("SELECT :a", {"b": 1})


def test_declared_columns_have_types_of_python(con):
    moment = datetime.datetime(2020, 1, 31, 10, 0, 0, 250000)
    con.corpus("pets").set_metadata("a.txt", author="Ann", day=moment.date(), at=moment, good=True, likes=3)
    row = con.execute("SELECT author, day, at, good, likes FROM files('pets') WHERE file = 'a.txt'").fetchone()
    assert row == ("Ann", moment.date(), moment, True, 3)
    assert row[3] is True
    assert con.corpus("pets").metadata("a.txt")["day"] == moment.date()
    assert con.execute("SELECT day FROM files('pets') WHERE file = 'b.txt'").fetchone() == (None,)


def test_executemany_runs_a_statement_for_each_set(con):
    insert = "INSERT INTO pets (file, content) VALUES (?, ?)"
    assert con.executemany(insert, [("x", "one"), ("y", "two")]).rowcount == 2
    counts = con.executemany("SELECT binding(), COUNT(*) FROM pets WHERE word = ?", [["dog"], ["none"], ["one"]])
    assert counts.fetchall() == [(0, 3), (1, 0), (2, 1)]


def count(con, word):
    return con.execute("SELECT COUNT(*) FROM pets WHERE word = ?", [word]).fetchone()[0]


def test_statements_commit_by_themselves_unless_a_transaction_has_begun(con):
    other = con.session()
    con.execute("DELETE FROM pets WHERE file = 'c/d.txt'")
    assert count(other, "und") == 0
    con.begin()
    assert con.in_transaction
    con.execute("DELETE FROM pets WHERE file = 'a.txt'")
    assert (count(con, "and"), count(other, "and")) == (0, 1)
    with pytest.raises(zipfdb.ProgrammingError, match="in a transaction"):
        con.corpus("pets").append("a.txt", "x")
    con.rollback()
    assert count(con, "and") == 1
    con.commit()


def test_without_autocommit_changes_wait_for_commit(tmp_path):
    with zipfdb.connect(tmp_path / "x.zdb", autocommit=False) as con:
        con.create_corpus("pets")
        other = con.session()
        con.execute("INSERT INTO pets (file, content) VALUES ('a', 'one')")
        assert (count(con, "one"), count(other, "one")) == (1, 0)
        con.rollback()
        assert count(con, "one") == 0
        con.execute(" -- a comment\n insert INTO pets (file, content) VALUES ('a', 'two')")
        con.commit()
        assert count(other, "two") == 1
        con.execute("DELETE FROM pets")
        other.close()
    with zipfdb.connect(tmp_path / "x.zdb", read_only=True) as con:
        assert count(con, "two") == 0
        with pytest.raises(zipfdb.Error, match="read"):
            con.execute("DELETE FROM pets")


def test_an_exception_rolls_back(tmp_path):
    path = tmp_path / "x.zdb"
    with pytest.raises(KeyError):
        with zipfdb.connect(path, autocommit=False) as con:
            con.create_corpus("pets")
            con.execute("INSERT INTO pets (file, content) VALUES ('a', 'one')")
            raise KeyError
    with zipfdb.connect(path) as con:
        assert count(con, "one") == 0
    with pytest.raises(zipfdb.InterfaceError):
        con.execute("SELECT 1")


def test_a_database_that_is_missing_is_not_read(tmp_path):
    with pytest.raises(zipfdb.OperationalError):
        zipfdb.connect(tmp_path / "none.zdb", read_only=True)
    with pytest.raises(zipfdb.OperationalError):
        zipfdb.connect(tmp_path / "none.zdb", create=False)
