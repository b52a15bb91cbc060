"""The "endpoints" kind of result (from v6.1): config.yaml, result_summary.json and
accuracy_results.json in place of LoadGen's logs."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from checker.parse.documents import Document, read_json
from checker.parse.reading import Fault, File, Folder, Unreadable, lines_of, read_text


class Endpoints(msgspec.Struct):
    """One endpoints result's documents; each is None when its file is absent.

    audits: by file name. A document's own path may have a near name or another folder than the
    round expects.
    """

    path: str
    config: Document | None = None
    summary: Document | None = None
    accuracy: Document | None = None
    audits: dict[str, Document] = {}
    faults: list[Fault] = []

    @property
    def documents(self) -> list[Document | None]:
        """All of them; None for each that is absent."""
        return [self.config, self.summary, self.accuracy, *self.audits.values()]

    def document(self, kind: str) -> Document | None:
        """The document of a kind (``config``, ``performance``, ``accuracy``); None when absent."""
        documents = {"config": self.config, "performance": self.summary, "accuracy": self.accuracy}
        return documents[kind]

    def setting(self, *keys: str) -> Any:
        """A value of config.yaml by its path, None when absent."""
        return _dig(self.config.value if self.config is not None else None, keys)

    def measured(self, *keys: str) -> Any:
        """A value of result_summary.json by its path, None when absent."""
        return _dig(self.summary.value if self.summary is not None else None, keys)

    def number(self, *keys: str) -> float | None:
        """A finite or infinite number of result_summary.json; None when it is not a number."""
        return as_number(self.measured(*keys))

    def percentile(self, quantity: str, percent: float, *, early: bool = False) -> float | None:
        """A percentile of ``ttft``, ``tpot`` or ``latency`` in ns; keys ``99`` and ``99.0`` agree."""
        table = self.measured(quantity, "early_stopping_percentiles" if early else "percentiles")
        if not isinstance(table, dict):
            return None
        for key, value in table.items():
            try:
                same = abs(float(key) - percent) < 1e-9
            except ValueError:
                continue
            if same and isinstance(value, int | float) and not isinstance(value, bool):
                return float(value)
        return None


def as_number(value: Any) -> float | None:
    """A JSON or YAML number as a float, infinite when it is too large; None when it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _dig(value: Any, keys: tuple[str, ...]) -> Any:
    for key in keys:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


_MAX_YAML = 64 * 1024


def read_yaml(file: File) -> Document:
    """Read one YAML file: at most 64 KiB, nested at most 64 deep, no tags, no aliases.

    Never raises; problems are in ``faults``.
    """
    from checker.parse.plain_yaml import composed

    document = Document(file.path)
    try:
        text, faults = read_text(file, _MAX_YAML)
    except Unreadable as error:
        document.faults.append(error.fault)
        return document
    document.faults.extend(faults)
    document.text = text
    if not text.strip():
        document.faults.append(Fault(file.path, "empty", "the file is empty", 1))
        return document
    try:
        # A tab at the end of a line is an error in YAML, though nobody sees it.
        clean = "\n".join(line for _, line in lines_of(text))
        document.value, twice = composed(clean)
        document.duplicates.extend(twice)
    except Exception as error:  # the library raises of every kind for what it does not expect
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark is not None else None
        where = f"line {line} column {mark.column + 1}" if mark is not None else "the file"
        # The library's own text is several lines with quotations of the file.
        what = getattr(error, "problem", None) or str(error)
        document.faults.append(
            Fault(
                path=file.path,
                kind="syntax",
                message=f"{where} is not valid YAML: {what[:160]}",
                line=line,
                fix="fix the YAML",
            )
        )
    return document


def read_endpoints(
    path: str,
    config: File | None,
    summary: File | None,
    accuracy: File | None,
    audit: Folder | None,
) -> Endpoints:
    """Read one endpoints result's documents. Never raises."""
    result = Endpoints(path)
    if config is not None:
        result.config = read_yaml(config)
    if summary is not None:
        result.summary = read_json(summary)
    if accuracy is not None:
        result.accuracy = read_json(accuracy)
    if audit is not None:
        result.audits = {
            name: read_json(file)
            for name, file in sorted(audit.files.items())
            if name.endswith(".json")
        }
    for document in result.documents:
        if document is not None:
            result.faults.extend(document.faults)
    return result
