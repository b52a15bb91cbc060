"""The explorer's rows as a file for notebooks and databases: CSV or Parquet."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

import msgspec

from reports import ReportError
from reports.escape import spreadsheet_cell
from reports.explore.rows import COLUMNS, Row

FORMATS = ("csv", "parquet")


def to_csv(rows: Sequence[Row]) -> str:
    """One line a row under the names of ``COLUMNS``; lists are joined by `` | ``, None is empty.

    Texts that a spreadsheet would take for a formula begin with an apostrophe.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        writer.writerow([_cell(getattr(row, name)) for name in COLUMNS])
    return out.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, list):
        value = " | ".join(value)
    return spreadsheet_cell(value) if isinstance(value, str) else value


def to_parquet(rows: Sequence[Row]) -> bytes:
    """The same columns, typed: text, double, 64-bit integer, boolean, list of text.

    Raises ReportError where pyarrow is not installed.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ReportError(
            f'Parquet needs the package pyarrow ({error}): pip install "assay[parquet]"'
        ) from error
    table = pyarrow.table(
        {name: [getattr(row, name) for row in rows] for name in COLUMNS}, schema=_schema(pyarrow)
    )
    out = io.BytesIO()
    pyarrow.parquet.write_table(table, out, compression="zstd")
    return out.getvalue()


def _schema(pyarrow: Any) -> Any:
    kinds: dict[Any, Any] = {
        str: pyarrow.string(),
        str | None: pyarrow.string(),
        int: pyarrow.int64(),
        int | None: pyarrow.int64(),
        float | None: pyarrow.float64(),
        bool: pyarrow.bool_(),
        list[str]: pyarrow.list_(pyarrow.string()),
    }
    fields = msgspec.structs.fields(Row)
    return pyarrow.schema([(field.name, kinds[field.type]) for field in fields])
