"""An embeddable database for text that stays compressed while it is queried.

>>> import zipfdb
>>> con = zipfdb.connect(":memory:")
>>> pets = con.create_corpus("pets")
>>> pets.append("a.txt", "the cat and the dog")
>>> con.sql("SELECT word, COUNT(*) AS n FROM pets GROUP BY word ORDER BY n DESC, word LIMIT 1").fetchall()
[('the', 2)]

The module follows PEP 249 (`connect`, cursors, exceptions), and has what users of duckdb and polars expect: `con.sql(...)` is a relation
with `.arrow()`, `.df()`, `.pl()` and `__arrow_c_stream__`. `con.corpus(name)` has edits, imports and questions without SQL.
"""

from ._connection import Connection, Cursor, Snapshot, Transaction, connect
from ._corpus import Corpus, CorpusView
from ._dbapi import (
    BINARY,
    DATETIME,
    NUMBER,
    ROWID,
    STRING,
    Binary,
    Date,
    DateFromTicks,
    Time,
    TimeFromTicks,
    Timestamp,
    TimestampFromTicks,
    apilevel,
    paramstyle,
    threadsafety,
)
from ._relation import Relation
from ._zipfdb import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    Interrupted,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Timeout,
    Warning,
    __version__,
)

__all__ = [
    "BINARY",
    "Binary",
    "Connection",
    "Corpus",
    "CorpusView",
    "Cursor",
    "DATETIME",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "Interrupted",
    "NUMBER",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "ROWID",
    "Relation",
    "STRING",
    "Snapshot",
    "Time",
    "TimeFromTicks",
    "Timeout",
    "Timestamp",
    "TimestampFromTicks",
    "Transaction",
    "Warning",
    "__version__",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]
