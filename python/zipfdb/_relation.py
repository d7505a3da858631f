"""`Relation`: the answer of a statement, to be taken as tuples, as a table of Arrow, or by pandas and polars."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from . import _html
from ._zipfdb import InterfaceError, NotSupportedError, Rows

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

# Rows that are read at a time for tuples.
_BATCH_ROWS = 4096

Row = tuple[Any, ...]


def _needs(package: str, method: str) -> NotSupportedError:
    return NotSupportedError(f"{method} needs the package {package}; hint: pip install {package}")


class Relation:
    """The answer of a statement; made by `Connection.sql`.

    The statement has run up to its first row when the relation is made. Tuples are taken in turn, each once. A table of Arrow, pandas or
    polars has all rows: if some were taken before, a statement that only reads runs again, as it does for tuples after a table. Libraries that know Arrow's PyCapsule interface
    (duckdb, polars, pandas, pyarrow, datafusion) read a relation itself.
    """

    def __init__(self, run: Callable[[], Rows], is_repeatable: bool) -> None:
        self._run = run
        self._is_repeatable = is_repeatable
        self._rows = run()
        # Whether no row was taken yet, and whether all were taken as a table.
        self._is_fresh = True
        self._is_taken = False
        self._tuples: deque[Row] = deque()

    @property
    def columns(self) -> list[str]:
        """The names of the columns; none if the statement has no answer."""
        return [name for name, _ in self._rows.columns]

    @property
    def description(self) -> list[tuple[str, str | None, None, None, None, None, None]] | None:
        """The columns as PEP 249 describes them: name, kind of the values, and nothing else."""
        columns = self._rows.columns
        return [(name, kind, None, None, None, None, None) for name, kind in columns] or None

    @property
    def changed(self) -> int:
        """The number of rows that the statement has inserted, replaced, deleted, or of files that it has copied."""
        return self._rows.changed

    @property
    def notices(self) -> list[str]:
        """What is worth knowing about the statement, without being an error."""
        return self._rows.notices

    def fetchone(self) -> Row | None:
        """The next row; None at the end."""
        if not self._tuples:
            self._tuples.extend(self._fetch(_BATCH_ROWS))
        return self._tuples.popleft() if self._tuples else None

    def fetchmany(self, size: int = 1) -> list[Row]:
        """The next rows, at most `size`; none at the end."""
        rows: list[Row] = []
        while len(rows) < size:
            row = self.fetchone()
            if row is None:
                break
            rows.append(row)
        return rows

    def fetchall(self) -> list[Row]:
        """All rows that are left."""
        rows = list(self._tuples)
        self._tuples.clear()
        while batch := self._fetch(1 << 16):
            rows += batch
        return rows

    def __iter__(self) -> Iterator[Row]:
        while (row := self.fetchone()) is not None:
            yield row

    def close(self) -> None:
        """Ends the statement and gives its memory back."""
        self._tuples.clear()
        self._is_fresh = False
        self._is_repeatable = False
        self._rows.close()

    def _fetch(self, rows_max: int) -> list[Row]:
        if self._is_taken:
            self._run_again()
        self._is_fresh = False
        return self._rows.fetch(rows_max)

    def _all_rows(self) -> Rows:
        """Rows of which none was taken, to be taken by the caller."""
        if not self._is_fresh:
            self._run_again()
        self._is_fresh = False
        self._is_taken = True
        return self._rows

    def _run_again(self) -> None:
        if not self._is_repeatable:
            raise InterfaceError("rows were taken, and the statement may not run again; hint: take all rows at once")
        self._tuples.clear()
        self._rows = self._run()
        self._is_taken = False

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """All rows as a stream of Arrow in a PyCapsule."""
        return self._all_rows().stream(False)

    def arrow(self) -> pyarrow.Table:
        """All rows as a table of pyarrow. Columns `word`, `file` and `ngram` have dictionaries."""
        try:
            import pyarrow
        except ImportError as error:
            raise _needs("pyarrow", "arrow()") from error
        return pyarrow.table(_Stream(self._all_rows().stream(True)))

    def reader(self) -> pyarrow.RecordBatchReader:
        """All rows as a reader of pyarrow, which reads them when it is asked for them."""
        try:
            import pyarrow
        except ImportError as error:
            raise _needs("pyarrow", "reader()") from error
        return pyarrow.RecordBatchReader.from_stream(self)

    def df(self, categories: bool = False) -> pandas.DataFrame:
        """All rows as a DataFrame of pandas. With `categories` columns with dictionaries are categorical."""
        try:
            import pandas  # noqa: F401
        except ImportError as error:
            raise _needs("pandas", "df()") from error
        table = self.arrow()
        if not categories:
            import pyarrow

            for index, field in enumerate(table.schema):
                if pyarrow.types.is_dictionary(field.type):
                    column = table.column(index).cast(field.type.value_type)
                    table = table.set_column(index, field.name, column)
        return table.to_pandas()

    def pl(self, categories: bool = False) -> polars.DataFrame:
        """All rows as a DataFrame of polars. With `categories` columns with dictionaries are categorical."""
        try:
            import polars
        except ImportError as error:
            raise _needs("polars", "pl()") from error
        frame = polars.DataFrame(_Stream(self._all_rows().stream(True)))
        if categories:
            return frame
        return frame.with_columns(polars.col(polars.Categorical).cast(polars.String))

    def _first_rows(self) -> tuple[list[str], list[Row], bool]:
        """The first rows that are left, which stay there, and whether there are more."""
        while len(self._tuples) <= _html.ROWS_MAX and (batch := self._fetch(_BATCH_ROWS)):
            self._tuples.extend(batch)
        rows = [self._tuples[index] for index in range(min(_html.ROWS_MAX, len(self._tuples)))]
        return self.columns, rows, len(self._tuples) > len(rows)

    def __repr__(self) -> str:
        if not self.columns:
            return f"<zipfdb.Relation: {self.changed} rows changed>"
        return _html.text(*self._first_rows())

    def _repr_html_(self) -> str:
        return _html.table(*self._first_rows())


class _Stream:
    """A capsule as an object that has one."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._capsule
