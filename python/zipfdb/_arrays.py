"""Arrays of 64-bit integers, and lists of words: of numpy, Arrow, pandas and polars, or of Python alone.

numpy is used if it is there; without it arrays are `array.array`.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Any


def integers(data: bytearray) -> Any:
    """The 64-bit integers in the bytes, as an array of numpy or else of Python. numpy's uses the bytes themselves."""
    try:
        import numpy
    except ImportError:
        numbers = array("q")
        numbers.frombytes(data)
        return numbers
    return numpy.frombuffer(data, dtype=numpy.int64)


def integer_bytes(values: Any) -> bytes:
    """The bytes of non-negative 64-bit integers: an array with a buffer, or any iterable."""
    try:
        view = memoryview(values)
    except TypeError:
        return array("Q", values).tobytes()
    if view.itemsize == 8 and view.format in ("Q", "L"):
        return view.tobytes()
    return array("Q", view.tolist()).tobytes()


def words(values: Any) -> list[Any]:
    """A list of str or bytes: of a list, an array or column of numpy, Arrow, pandas or polars, or another iterable."""
    if isinstance(values, (str, bytes)):
        raise TypeError("expected several words, not one; hint: pass a list")
    if isinstance(values, list):
        return values
    for method in ("to_pylist", "to_list", "tolist"):
        convert = getattr(values, method, None)
        if convert is not None:
            return convert()
    if isinstance(values, Iterable):
        return list(values)
    raise TypeError(f"expected words, not {type(values).__name__}")
