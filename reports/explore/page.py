"""The explorer: one self-contained page over any number of reports.

No network and no other file: the data is embedded as compressed columns, the page draws its own SVG,
and its content security policy allows nothing but the style and the script that it carries.
"""

from __future__ import annotations

import base64
import gzip
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from reports.escape import visible
from reports.explore.rows import COLUMNS, Row
from reports.page import asset, environment, policy_hash

_NUMBERS = frozenset(
    field.name
    for field in msgspec.structs.fields(Row)
    if field.type in (float, int, float | None, int | None)
)


def render(rows: Sequence[Row], links: Mapping[str, str] | None = None) -> str:
    """The page as HTML.

    links: for a round, the address before a result's path, so that a result links to its files.
    """
    from markupsafe import Markup

    style, script = (asset(name) for name in ("explore.css", "explore.js"))
    rounds = sorted({row.round for row in rows}, key=_order)
    html = (
        environment()
        .get_template("explore.html")
        .render(
            style=Markup(style),
            script=Markup(script),
            style_hash=policy_hash(style),
            script_hash=policy_hash(script),
            data=Markup(packed(rows, rounds, links or {})),
            count=f"{len(rows):,}",
            rounds=[visible(name) for name in rounds],
        )
    )
    return f"{html.rstrip()}\n"


def _order(round: str) -> tuple[list[int], str]:
    return [int(part) for part in re.findall(r"\d{1,6}", round)], round


def packed(rows: Sequence[Row], rounds: Sequence[str], links: Mapping[str, str]) -> str:
    """The rows as base64 of gzip of JSON: numbers as they are, texts as indices of a dictionary."""
    columns: dict[str, Any] = {}
    for name in COLUMNS:
        values = [getattr(row, name) for row in rows]
        columns[name] = values if name in _NUMBERS else _indexed(values)
    safe = {name: url for name, url in links.items() if url.startswith(("https://", "http://"))}
    document = {"rounds": rounds, "links": safe, "count": len(rows), "columns": columns}
    data = gzip.compress(msgspec.json.encode(document), 9, mtime=0)
    return base64.b64encode(data).decode("ascii")


def _indexed(values: Sequence[Any]) -> dict[str, Any]:
    """Values as places in a list that holds each of them once."""
    known: dict[Any, int] = {}
    places = []
    for value in values:
        key = tuple(value) if isinstance(value, list) else value
        places.append(known.setdefault(key, len(known)))
    return {"values": [_safe(value) for value in known], "at": places}


def _safe(value: Any) -> Any:
    if isinstance(value, str):
        return visible(value)
    return [visible(text) for text in value] if isinstance(value, tuple) else value
