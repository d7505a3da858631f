"""`Connection`, `Cursor`, `Snapshot` and `Transaction`: PEP 249 and what lies beyond it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from . import _sql, _zipfdb
from ._corpus import Corpus, CorpusEdits, FrozenCorpus, Progress
from ._relation import Relation, Row
from ._zipfdb import Database, InterfaceError, Reader
from ._zipfdb import Transaction as _Transaction

Params = Sequence[Any] | Mapping[str, Any] | None

# Statements that change texts, before which PEP 249 demands a transaction.
_CHANGES = re.compile(r"\s*(?:--[^\n]*\n\s*|/\*.*?\*/\s*)*(?:INSERT|REPLACE|UPDATE|DELETE)\b", re.IGNORECASE | re.DOTALL)


def connect(
    path: str | os.PathLike[str] = ":memory:",
    *,
    read_only: bool = False,
    shared: bool = False,
    create: bool = True,
    threads: int | None = None,
    autocommit: bool = True,
) -> Connection:
    """Opens a database: a directory, which is created if it is missing, or one in memory.

    `read_only` opens a database that another process may be writing to; `shared` takes the lock for writing only while something is
    written. Each statement commits by itself unless `BEGIN` or `begin()` has started a transaction; with `autocommit=False` the first
    statement that changes texts starts one, as PEP 249 demands.
    """
    place = None if path == ":memory:" else path
    return Connection(Database.open(place, read_only, shared, create, threads), autocommit)


class Connection:
    """An open database; made by `connect`. Threads may share it, and each may have its own by `session()`."""

    Warning = _zipfdb.Warning
    Error = _zipfdb.Error
    InterfaceError = _zipfdb.InterfaceError
    DatabaseError = _zipfdb.DatabaseError
    DataError = _zipfdb.DataError
    OperationalError = _zipfdb.OperationalError
    IntegrityError = _zipfdb.IntegrityError
    InternalError = _zipfdb.InternalError
    ProgrammingError = _zipfdb.ProgrammingError
    NotSupportedError = _zipfdb.NotSupportedError

    def __init__(self, database: Database, autocommit: bool) -> None:
        self._database = database
        self.autocommit = autocommit

    def cursor(self) -> Cursor:
        """A cursor of PEP 249."""
        self._database.in_transaction
        return Cursor(self)

    def execute(self, sql: str, params: Params = None) -> Cursor:
        """A cursor that has run a statement."""
        return self.cursor().execute(sql, params)

    def executemany(self, sql: str, params: Any) -> Cursor:
        """A cursor that has run a statement with each of many parameter sets."""
        return self.cursor().executemany(sql, params)

    def executescript(self, sql: str) -> None:
        """Runs all statements of a text, which have no parameters."""
        self._database.run_script(sql)

    def sql(self, sql: str, params: Params = None, *, progress: Progress | None = None) -> Relation:
        """Runs a statement. `progress` is called with a stage of long work, the bytes done and their total."""
        self._begin_for(sql)
        is_read_only = self._database.is_read_only(sql)
        return Relation(lambda: self._database.run(sql, params, progress), is_read_only)

    def corpus(self, name: str) -> Corpus:
        """The corpus of a name, in any case of letters."""
        return Corpus(self._database, self._database.corpus_name(name))

    def create_corpus(self, name: str, columns: Mapping[str, str] | None = None, **settings: Any) -> Corpus:
        """Creates a corpus, with columns of metadata (`{"author": "TEXT"}`) and settings such as `tokenizer="whitespace"`."""
        declared = ", ".join(f"{_sql.name(column)} {kind}" for column, kind in (columns or {}).items())
        declared = f" ({declared})" if declared else ""
        self._database.run(f"CREATE CORPUS {_sql.name(name)}{declared}{_sql.options(settings)}")
        return self.corpus(name)

    def drop_corpus(self, name: str) -> None:
        """Drops a corpus with all of its files."""
        self._database.run(f"DROP CORPUS {_sql.name(name)}")

    def corpora(self) -> list[str]:
        """The names of all corpora."""
        return self._database.corpora()

    def session(self) -> Connection:
        """Another connection to the same open database, with transactions of its own."""
        return Connection(self._database.session(), self.autocommit)

    def snapshot(self) -> Snapshot:
        """A state of the database that stays: `with con.snapshot() as snapshot`. It sees a corpus as it was when it first read it."""
        return Snapshot(self._database.reader())

    def transaction(self) -> Transaction:
        """Edits that happen together: `with con.transaction() as edits`. They are committed at its end, or rolled back by an exception."""
        return Transaction(self._database.begin())

    @property
    def in_transaction(self) -> bool:
        """Whether `BEGIN` has started a transaction that is not over."""
        return self._database.in_transaction

    @property
    def warnings(self) -> list[str]:
        """What was repaired or looked wrong since the database was opened."""
        return self._database.warnings

    def begin(self) -> None:
        """Starts a transaction of the statements that follow."""
        self._database.run("BEGIN")

    def commit(self) -> None:
        """Commits the transaction of statements, if there is one."""
        if self._database.in_transaction:
            self._database.run("COMMIT")

    def rollback(self) -> None:
        """Rolls the transaction of statements back, if there is one."""
        if self._database.in_transaction:
            self._database.run("ROLLBACK")

    def interrupt(self) -> None:
        """Ends all statements of the database that run now, from another thread."""
        self._database.interrupt()

    def close(self) -> None:
        """Gives the database back. It is closed once relations and snapshots of it are gone too. Nothing is committed."""
        self._database.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, kind: Any, *rest: Any) -> None:
        try:
            if kind is None:
                self.commit()
            else:
                self.rollback()
        finally:
            self.close()

    def _begin_for(self, sql: str) -> None:
        if not self.autocommit and _CHANGES.match(sql) and not self._database.in_transaction:
            self.begin()


class Cursor:
    """A cursor of PEP 249; made by `Connection.cursor`."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.arraysize = 1
        self._relation: Relation | None = None
        self._changed = -1
        self._is_closed = False

    def _open(self) -> Connection:
        if self._is_closed:
            raise InterfaceError("the cursor is closed")
        return self.connection

    def execute(self, sql: str, params: Params = None) -> Cursor:
        """Runs a statement. Parameters are a sequence for `?`, or a mapping for `:name`."""
        self._relation = self._open().sql(sql, params)
        self._changed = -1 if self._relation.description else self._relation.changed
        return self

    def executemany(self, sql: str, params: Any) -> Cursor:
        """Runs a statement with each of many parameter sets: sequences, mappings, or the rows of a stream of Arrow. It is parsed once."""
        connection = self._open()
        connection._begin_for(sql)
        sets = params if hasattr(params, "__arrow_c_stream__") else list(params)
        self._relation = Relation(lambda: connection._database.run_many(sql, sets), False)
        self._changed = -1 if self._relation.description else self._relation.changed
        return self

    def _answer(self) -> Relation:
        self._open()
        if self._relation is None or self._relation.description is None:
            raise _zipfdb.ProgrammingError("no statement with an answer was executed")
        return self._relation

    @property
    def description(self) -> list[tuple[Any, ...]] | None:
        """The columns of the answer: name, kind of the values, and five times None."""
        return self._relation.description if self._relation else None  # type: ignore[return-value]

    @property
    def rowcount(self) -> int:
        """The number of rows that the last statement has changed; -1 for one with an answer, whose rows are made as they are taken."""
        return self._changed

    def fetchone(self) -> Row | None:
        """The next row; None at the end."""
        return self._answer().fetchone()

    def fetchmany(self, size: int | None = None) -> list[Row]:
        """The next rows, at most `size` or else `arraysize`."""
        return self._answer().fetchmany(self.arraysize if size is None else size)

    def fetchall(self) -> list[Row]:
        """All rows that are left."""
        return self._answer().fetchall()

    def __iter__(self) -> Iterator[Row]:
        return iter(self._answer())

    def __next__(self) -> Row:
        row = self.fetchone()
        if row is None:
            raise StopIteration
        return row

    def nextset(self) -> None:
        """There is never another answer."""
        self._open()

    def setinputsizes(self, sizes: Any) -> None:
        """Does nothing, as PEP 249 allows."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Does nothing, as PEP 249 allows."""

    def close(self) -> None:
        """Ends the statement. The cursor cannot be used again."""
        self._open()
        if self._relation is not None:
            self._relation.close()
        self._is_closed = True

    def __enter__(self) -> Cursor:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


class Snapshot:
    """A state of the database that stays; made by `Connection.snapshot`."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def sql(self, sql: str, params: Params = None) -> Relation:
        """Runs a statement that reads."""
        return Relation(lambda: self._reader.run(sql, params), True)

    def corpus(self, name: str) -> FrozenCorpus:
        """Questions about a corpus without SQL."""
        return FrozenCorpus(self._reader, name)

    def corpora(self) -> list[str]:
        """The names of all corpora."""
        return self._reader.corpora()

    def close(self) -> None:
        """Gives back what the state keeps in memory and on disk."""
        self._reader.close()

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


class Transaction:
    """Statements and edits that happen together or not at all; made by `Connection.transaction`. Other writers wait for its end."""

    def __init__(self, edits: _Transaction) -> None:
        self._edits = edits

    def sql(self, sql: str, params: Sequence[Any] | None = None) -> Relation:
        """Runs a statement, which sees the edits made so far."""
        return Relation(lambda: self._edits.run(sql, params), False)

    def corpus(self, name: str) -> CorpusEdits:
        """A corpus with the edits made so far."""
        return CorpusEdits(self._edits, name)

    def commit(self) -> None:
        """Makes the edits happen."""
        self._edits.commit()

    def rollback(self) -> None:
        """Discards the edits."""
        self._edits.rollback()

    def __enter__(self) -> Transaction:
        return self

    def __exit__(self, kind: Any, *rest: Any) -> None:
        if self._edits.is_open:
            if kind is None:
                self._edits.commit()
            else:
                self._edits.rollback()
