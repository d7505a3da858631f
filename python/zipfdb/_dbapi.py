"""The constants, type objects and constructors of PEP 249."""

from __future__ import annotations

import datetime
from typing import Any

apilevel = "2.0"
# Threads may share the module and connections. A cursor is for one thread.
threadsafety = 2
paramstyle = "qmark"

Date = datetime.date
Time = datetime.time
Timestamp = datetime.datetime
Binary = bytes


def DateFromTicks(ticks: float) -> datetime.date:
    """The date of a number of seconds since the epoch, in local time."""
    return datetime.date.fromtimestamp(ticks)


def TimeFromTicks(ticks: float) -> datetime.time:
    """The time of day of a number of seconds since the epoch, in local time."""
    return datetime.datetime.fromtimestamp(ticks).time()


def TimestampFromTicks(ticks: float) -> datetime.datetime:
    """The moment of a number of seconds since the epoch, in local time."""
    return datetime.datetime.fromtimestamp(ticks)


class TypeObject:
    """Equals the names of the types of its columns, as `cursor.description` has them."""

    def __init__(self, *names: str) -> None:
        self.names = frozenset(names)

    def __eq__(self, other: Any) -> bool:
        if isinstance(other, TypeObject):
            return self.names == other.names
        return other in self.names

    def __hash__(self) -> int:
        return hash(self.names)

    def __repr__(self) -> str:
        return f"TypeObject({', '.join(sorted(self.names))})"


STRING = TypeObject("TEXT")
BINARY = TypeObject("BLOB")
NUMBER = TypeObject("INTEGER", "REAL", "BOOLEAN")
DATETIME = TypeObject("DATE", "TIMESTAMP")
ROWID = TypeObject()
