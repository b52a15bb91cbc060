"""What the rules about power share: how client.json, server.json and PTDaemon's log are read."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

from checker.parse.documents import Document
from checker.parse.power import Message, PowerLogs, SampleLog, seconds_of
from checker.rule import Problem
from schemas.round import Round

LOGS = {"logs": "performance.power"}
"""Needs of a result's rule: what was measured."""

SERVER = {"server": "performance.power.server", "stated": "performance.power.server.fields"}
CLIENT = {"client": "performance.power.client", "asked": "performance.power.client.fields"}
SAMPLES = {"logs": "power", "samples": "power.samples", "inside": "power.inside"}
"""Needs of a run's rule: the samples, and which of them are inside LoadGen's interval."""


def has_power(round: Round) -> bool:
    """Whether the round knows power measurements."""
    return bool(round.layout.power.required)


def number_of(value: object) -> float | None:
    """A finite number of a JSON document."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def phases(document: Document) -> dict[str, list[tuple[float, float | None]]]:
    """Each phase's instants as (clock, monotonic clock), seconds; {} for what is not one."""
    found: dict[str, list[tuple[float, float | None]]] = {}
    stated = document.fields.get("phases")
    for name, instants in stated.items() if isinstance(stated, dict) else ():
        times = []
        for instant in instants if isinstance(instants, list) else []:
            pair = instant if isinstance(instant, list) else [instant]
            clock = number_of(pair[0]) if pair else None
            if clock is None or not math.isfinite(clock):
                break
            times.append((clock, number_of(pair[1]) if len(pair) > 1 else None))
        else:
            found[name] = times
    return found


def exchange(document: Document, key: str) -> list[tuple[str, str]]:
    """Commands and replies of ``messages`` or ``ptd_messages``."""
    entries = document.fields.get(key)
    return [
        (str(entry.get("cmd", "")), str(entry.get("reply", "")))
        for entry in (entries if isinstance(entries, list) else [])
        if isinstance(entry, dict)
    ]


def identity(server: Document) -> str | None:
    """What PTDaemon answered when asked who it is: the meter, its version."""
    replies = (r for c, r in exchange(server, "ptd_messages") if c == "Identify" and "," in r)
    return next(replies, None)


def testing_value(server: Document, command: str) -> float | None:
    """The last number that PTDaemon answered to a command while the run was measured."""
    value, testing = None, False
    for asked, reply in exchange(server, "ptd_messages"):
        if asked.startswith("Go,"):
            testing = asked.rstrip().endswith("_testing")
        if asked == command and testing:
            try:
                value = float(reply.split(",")[1])
            except (IndexError, ValueError):
                continue
    return value


def while_measured(logs: PowerLogs, message: Message) -> bool:
    """Whether PTDaemon wrote a message while the run was measured."""
    time = seconds_of(message.stamp)
    if time is None or logs.begin is None or logs.end is None:
        return False
    return logs.begin <= time <= logs.end


def sources_digest(sources: dict[str, Any]) -> str:
    """One checksum for a table of source checksums, whatever its order."""
    text = json.dumps(sources, sort_keys=True)
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def round_ms(value: float) -> float:
    """Milliseconds as a reader needs them."""
    return float(f"{value:.0f}")


def at_sample(
    samples: SampleLog, index: int, message: str, found: object, required: object, **more: Any
) -> Problem:
    """A problem with one sample of spl.txt, at its line."""
    line = samples.lines[index]
    return Problem(message, found=found, required=required, path=samples.path, line=line, **more)
