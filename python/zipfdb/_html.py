"""Rows as tables of HTML, for notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

# Rows and characters of a value that a table shows.
ROWS_MAX = 20
TEXT_MAX = 200

_KWIC = ("left", "hit", "right")


def shown(value: Any) -> str:
    """A value as a table shows it."""
    if value is None:
        return "NULL"
    text = repr(value) if isinstance(value, (bytes, float)) else str(value)
    return text if len(text) <= TEXT_MAX else text[: TEXT_MAX - 3] + "..."


def _cell(name: str, value: Any, is_concordance: bool) -> str:
    text = escape(shown(value))
    align = "left"
    if is_concordance:
        # The words next to the hit are what matters: cut the far ends, and align at the hit.
        align = {"left": "right", "hit": "center"}.get(name, "left")
        if name == "hit":
            text = f"<b>{text}</b>"
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        align = "right"
    return f'<td style="text-align: {align}; white-space: pre-wrap">{text}</td>'


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]], more: bool) -> str:
    """A table. Columns `left`, `hit` and `right` of a concordance are aligned at the hit."""
    is_concordance = all(name in columns for name in _KWIC)
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(_cell(name, value, is_concordance) for name, value in zip(columns, row)) + "</tr>"
        for row in rows
    )
    rest = f"<p>the first {len(rows)} rows</p>" if more else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"


def text(columns: Sequence[str], rows: Sequence[Sequence[Any]], more: bool) -> str:
    """The same in plain letters."""
    cells = [list(columns)] + [[shown(value).replace("\n", " ") for value in row] for row in rows]
    widths = [max(len(row[index]) for row in cells) for index in range(len(columns))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in cells]
    lines.insert(1, "  ".join("-" * width for width in widths))
    if more:
        lines.append("...")
    return "\n".join(lines)
