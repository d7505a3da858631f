"""Names and values as SQL writes them."""

from __future__ import annotations

from typing import Any


def name(text: str) -> str:
    """A name in quotes."""
    return '"' + text.replace('"', '""') + '"'


def literal(value: Any) -> str:
    """A text, number, truth value or None as a literal."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    return "'" + str(value).replace("'", "''") + "'"


def options(values: dict[str, Any]) -> str:
    """`WITH (name = value, ...)` of the options that are not None, or nothing."""
    given = [f"{key} = {literal(value)}" for key, value in values.items() if value is not None]
    return f" WITH ({', '.join(given)})" if given else ""


def call(function: str, corpus: str, positional: list[Any], named: dict[str, Any]) -> tuple[str, list[Any]]:
    """A call of a table function, with its values as parameters."""
    values = [value for value in positional if value is not None]
    arguments = [literal(corpus)] + ["?"] * len(values)
    for key, value in named.items():
        if value is not None:
            arguments.append(f"{key} => ?")
            values.append(value)
    return f"{function}({', '.join(arguments)})", values
