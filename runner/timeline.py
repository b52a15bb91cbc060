"""Writing down how a run goes, twice a second; see `schemas.timeline` for what the file means."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from runner.settings import SAMPLES_PER_QUERY
from schemas.timeline import KIND, VERSION, Head, Interval


class TimelineWriter:
    """Writes intervals as they end.

    Args:
        of: what the latencies are of, "queries" or "first tokens".
    """

    def __init__(self, path: Path, scenario: str, of: str) -> None:
        self._stream = path.open("wb")
        self._scenario = scenario
        self._before = (0.0, 0)
        self._line(Head(kind=KIND, version=VERSION, scenario=scenario, of=of))

    def _line(self, content: msgspec.Struct) -> None:
        self._stream.write(msgspec.json.encode(content) + b"\n")

    def add(self, now_s: float, done: int, issued: int, recent: Sequence[float] | None) -> None:
        """Another interval ends.

        Args:
            now_s: seconds since LoadGen began.
            done: samples answered since then.
            issued: samples issued since then.
            recent: the latest latencies of Server in seconds, the newest last.
        """
        then_s, before = self._before
        samples = done - before
        self._before = (now_s, done)
        mean = median = p99 = None
        waiting = 0
        if self._scenario in ("SingleStream", "MultiStream"):
            if samples:
                mean = (now_s - then_s) / samples * SAMPLES_PER_QUERY[self._scenario]
        elif recent is not None:
            waiting = max(0, issued - done)
            newest = sorted(recent[-samples:]) if samples else []
            if newest:
                median = newest[len(newest) // 2]
                p99 = newest[min(len(newest) - 1, len(newest) * 99 // 100)]
        self._line(
            Interval(
                end_s=round(now_s, 4),
                samples=samples,
                waiting=waiting,
                mean_s=mean,
                median_s=median,
                p99_s=p99,
            )
        )

    def close(self) -> None:
        """No more intervals come."""
        self._stream.close()
