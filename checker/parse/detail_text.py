"""The plain-text detail log that LoadGen wrote up to v0.7, under today's key names.

A line is ``"pid": 1, "tid": 2, "ts": 3ns : name : value``; lines without that head continue the
record above them (git log, git status, SHA-1 table). The results of such a run stand only in its
summary log: see `checker.parse.summary.into_detail`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from checker.parse.detail import LONG, UNSET, DetailLog, add, count_of_indices, entry_of
from checker.parse.reading import Fault, nul_fault

_HEAD = re.compile(
    rb'^"pid": (\d{1,20}), "tid": (\d{1,20}), "ts": (-?\d{1,20})ns : ?(.*)$', re.DOTALL
)
_SHA1 = re.compile(r"^([0-9a-f]{40}) (\S.*)$")
_QUERIES = re.compile(
    r'^"queries" : (?P<queries>\d{1,20}), '
    r'"samples per query" : (?P<samples>\d{1,20}), "duration" : (?P<duration>\d{1,20})'
)
_TIME = re.compile(r'"time" : (.*)$')
_SET = re.compile(r'"set" : "?(\[[\d,\s]*\]?)')

_NAMES = {
    "version": "loadgen_version",
    "build_date_local": "loadgen_build_date_local",
    "build_date_utc": "loadgen_build_date_utc",
    "git_commit_date": "loadgen_git_commit_date",
    "Date + time of test": "test_datetime",
    "System Under Test (SUT) name": "sut_name",
    "Query Sample Library (QSL) name": "qsl_name",
    "QSL total size": "qsl_reported_total_count",
    "QSL performance size*": "qsl_reported_performance_count",
    "QSL performance size": "qsl_reported_performance_count",
}
_WORDS = ("scenario", "test_mode")
"""Settings whose values are words; every other one is a number, true or false."""
_SETTING_NAMES = {"Scenario": "scenario", "Test mode": "test_mode"}
_MODES = {
    "performance": "PerformanceOnly",
    "accuracy": "AccuracyOnly",
    "submission": "SubmissionRun",
    "find peak performance": "FindPeakPerformance",
}
_SCENARIOS = {
    "single stream": "SingleStream",
    "multi stream": "MultiStream",
    "multi stream free": "MultiStreamFree",
}


def setting_name(name: str) -> str:
    """``min_duration (ms)`` as ``min_duration_ms``."""
    return _SETTING_NAMES.get(name) or re.sub(r"\s*\((ms|ns)\)$", r"_\1", name)


_DIGITS = 30
_WHOLE = re.compile(rf"[+-]?\d{{1,{_DIGITS}}}")


def plain_value(text: str) -> Any:
    """A value as written, typed: booleans, integers, floats; everything else stays text."""
    if text.isdigit() and text.isascii() and len(text) <= _DIGITS:
        return int(text)
    low = text.lower()
    if low in ("true", "false"):
        return low == "true"
    if _WHOLE.fullmatch(text):
        return int(text)
    try:
        return float(text)
    except ValueError:
        return text


def canonical_scenario(text: str) -> str:
    """``Single Stream`` as ``SingleStream``."""
    return _SCENARIOS.get(text.strip().lower(), text.strip())


def canonical_mode(text: str) -> str:
    """``Performance`` as ``PerformanceOnly``."""
    return _MODES.get(text.strip().lower(), text.strip())


def read_text_log(log: DetailLog, number: int, first: bytes, rest: Iterable[bytes]) -> int:
    """Fill ``log`` from a text log whose first line is already read. Returns the line count."""
    section = ""
    settled = False  # settings have begun: no more lines that continue the one above
    below: str | None = None
    sha1: dict[str, str] = {}
    sha1_line = 0
    status: list[str] = []

    def lines() -> Iterable[tuple[int, bytes]]:
        yield number, first
        yield from enumerate(rest, number + 1)

    last = number
    matched = 0
    nul = encoded = False
    for at, line in lines():
        last = at
        if b"\0" in line:
            if not nul:
                nul = True
                log.faults.append(nul_fault(log.path, at))
            line = line.replace(b"\0", b"")
        foreign = not (encoded or line.isascii()) and _foreign(log, at, line)
        encoded = encoded or foreign
        found = _HEAD.match(line.rstrip(b"\r"))
        if found is None:
            text = line.decode("utf-8", "backslashreplace").strip()
            table = _SHA1.match(text)
            if below == "sha1" and table:
                sha1[table.group(2)] = table.group(1)
            elif below == "status" and text and len(status) < 200:
                status.append(text)
            elif line.startswith(b'"pid"'):
                _damaged(log, at, f"is cut off: {text[:60]!r}")
            elif settled and text and not foreign:
                _damaged(log, at, f"is not a record: {text[:60]!r}")
            continue
        matched += 1
        pid, tid, ts = int(found.group(1)), int(found.group(2)), int(found.group(3)) / 1e6
        text = found.group(4).decode("utf-8", "backslashreplace").strip()
        below = None

        def put(
            key: str,
            value: Any,
            *,
            error: bool = False,
            warning: bool = False,
            at: int = at,
            ts: float = ts,
            pid: int = pid,
            tid: int = tid,
        ) -> None:
            add(
                log,
                entry_of(
                    key,
                    at,
                    value=value,
                    time_ms=ts,
                    is_error=error,
                    is_warning=warning,
                    pid=pid,
                    tid=tid,
                ),
            )

        if text.startswith("ERROR"):
            put("error_runtime", text[5:].lstrip(" :"), error=True)
            continue
        if text.startswith("WARNING"):
            put("warning_generic_message", text[7:].lstrip(" :"), warning=True)
            continue
        if text.startswith("Found Audit Config file"):
            put("warning_generic_message", text, warning=True)
            continue
        if text.startswith(("Effective Settings", "Requested Settings")):
            section = "effective_" if text.startswith("Eff") else "requested_"
            settled = True
            continue
        if text.startswith(("Loading QSL", "Starting ")):
            section = ""
        name, separator, value = text.partition(" : ") if " : " in text else text.partition(":")
        name, value = name.strip(), value.strip()
        if text.startswith("SHA1 of files"):
            below, sha1_line = "sha1", at
        elif name == "git_status":
            below = "status"
        elif text.startswith("Loading QSL"):
            members = _SET.search(text)
            listed = members.group(1) if members else ""
            if not listed.endswith("]"):
                _damaged(log, at, "holds no whole list of samples")
            count = count_of_indices(listed.encode()) if len(listed) > LONG else None
            put("loaded_qsl_set", UNSET if count is not None else _integers(listed))
            if count is not None:
                log.all("loaded_qsl_set")[-1].raw = msgspec.Raw(listed.encode())
                log.lengths[at] = count
        elif name.startswith("GeneratedQueries"):
            counts = _QUERIES.search(text.partition(":")[2].strip())
            if counts:
                put("generated_query_count", int(counts["queries"]))
                put("generated_samples_per_query", int(counts["samples"]))
                put("generated_query_duration", int(counts["duration"]))
        elif text.startswith(("POWER_BEGIN", "POWER_END")):
            when = _TIME.search(text)
            put(
                "power_begin" if text.startswith("POWER_BEGIN") else "power_end",
                when.group(1).strip() if when else text,
            )
        elif not section and name in _NAMES and separator:
            put(_NAMES[name], plain_value(value) if "size" in name else value)
        elif section and separator and name:
            key = setting_name(name)
            typed: Any = plain_value(value)
            if key == "scenario":
                typed = canonical_scenario(value)
            elif key == "test_mode":
                typed = canonical_mode(value)
            put(section + key, typed)
            if isinstance(typed, str) and key not in _WORDS:
                log.refuse(section + key, "a number, true or false")
        elif text.startswith("Starting "):
            put("generic_message", text.rstrip(":"))
    if sha1:
        add(log, entry_of("loadgen_file_sha1", sha1_line, value=sha1))
    if status:
        add(log, entry_of("loadgen_git_status_message", sha1_line, value="\n".join(status)))
    if not matched:
        log.faults.append(
            Fault(
                path=log.path,
                kind="syntax",
                message="the file holds no LoadGen record",
                line=1,
                fix="use the detail log that LoadGen wrote",
            )
        )
    return last


def _damaged(log: DetailLog, line: int, what: str) -> None:
    """A Fault of a line; of a log in ruins the first ones are enough."""
    if len(log.faults) < 5:
        log.faults.append(
            Fault(
                path=log.path,
                kind="syntax",
                message=f"line {line} {what}",
                line=line,
                fix="use the detail log as LoadGen wrote it; do not edit or truncate it",
            )
        )


def _foreign(log: DetailLog, number: int, line: bytes) -> bool:
    """Whether a line is not UTF-8 text, which is a Fault."""
    try:
        line.decode("utf-8")
    except UnicodeDecodeError as error:
        what = f"line {number} is not UTF-8 text (byte 0x{line[error.start]:02x})"
        log.faults.append(
            Fault(
                path=log.path,
                kind="encoding",
                message=what,
                line=number,
                fix="use the detail log as LoadGen wrote it",
            )
        )
        return True
    return False


def _integers(text: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d{1,20}", text)]
