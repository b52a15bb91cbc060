"""How a measurement tells its caller what it does: events, never prints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

Phase = Literal[
    "start", "load", "warm-up", "ready", "running", "done", "warning", "failed", "search", "note"
]


@dataclass(frozen=True)
class Event:
    """One step of a run; `mode` is "performance", "accuracy" or a compliance test's name.

    `phase`: "start", "load" (model and data set), "warm-up", "ready" (LoadGen begins; `message`
    holds the estimate), "running" (about twice a second), "warning", "done", "failed",
    "search" (a step of the search for a load), "note" (something to know, no warning).
    `samples`: answered so far; `rate`: samples per second so far; `elapsed_s` since LoadGen
    began; `remaining_s`: estimated, None when not known.  `latency_ms`: of a query, so far: the
    mean in SingleStream and MultiStream, the 99th percentile of the latest in Server, else None;
    `late`: answered after Server's limit; `waiting`: issued and not answered (Server).
    """

    phase: Phase
    benchmark: str
    scenario: str
    mode: str
    message: str = ""
    samples: int = 0
    rate: float = 0.0
    elapsed_s: float = 0.0
    remaining_s: float | None = None
    latency_ms: float | None = None
    late: int = 0
    waiting: int = 0


class Progress(Protocol):
    """Anything that wants to hear of events; called in the thread that called the runner."""

    def on_event(self, event: Event) -> None: ...


class Silent:
    """Hears everything, says nothing."""

    def on_event(self, event: Event) -> None:
        return None
