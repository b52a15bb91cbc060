"""How a run went over time: `timeline.jsonl`, beside a result and no part of a submission.

LoadGen's logs hold percentiles of a whole run and nothing of when a query was slow. While a performance
run lasts, its counters are written down twice a second: one JSON object a line, after a first line that
says what was measured. What an interval's latency is depends on the scenario:

* SingleStream, MultiStream: the mean latency of the interval's queries (they follow one another).
* Server: median and 99th percentile of the queries answered in it, at most the latest 4,096.
* language benchmarks: the same of times to first token.
* Offline: no latency, as all samples are issued at once; only how many were answered.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from runner.settings import SAMPLES_PER_QUERY

TIMELINE = "timeline.jsonl"


@dataclass(frozen=True, kw_only=True)
class Interval:
    """What happened since the interval before; times in seconds.

    `end_s`: since LoadGen began; `samples`: answered in it; `waiting`: issued and not answered at
    its end; `mean_s`, `median_s`, `p99_s`: None where there is none.
    """

    end_s: float
    samples: int
    waiting: int = 0
    mean_s: float | None = None
    median_s: float | None = None
    p99_s: float | None = None


class TimelineWriter:
    """Writes intervals as they end."""

    def __init__(self, path: Path, scenario: str, what: str) -> None:
        self._stream: TextIO = path.open("w", encoding="utf-8")
        self._scenario = scenario
        self._before = (0.0, 0)
        self._line({"kind": "assay-timeline", "version": 1, "scenario": scenario, "of": what})

    def _line(self, content: dict[str, Any]) -> None:
        self._stream.write(json.dumps(content) + "\n")

    def add(self, now_s: float, done: int, issued: int, recent: Sequence[float] | None) -> None:
        """Another interval ends.

        Args:
            done: samples answered since the beginning.
            recent: the latest latencies of Server in seconds, the newest last.
        """
        then_s, before = self._before
        samples, passed = done - before, now_s - then_s
        self._before = (now_s, done)
        line: dict[str, Any] = {"end_s": round(now_s, 4), "samples": samples}
        if self._scenario in ("SingleStream", "MultiStream"):
            if samples:
                line["mean_s"] = passed / samples * SAMPLES_PER_QUERY[self._scenario]
        elif recent is not None:
            line["waiting"] = max(0, issued - done)
            newest = sorted(recent[-samples:]) if samples else []
            if newest:
                line["median_s"] = newest[len(newest) // 2]
                line["p99_s"] = newest[min(len(newest) - 1, len(newest) * 99 // 100)]
        self._line(line)

    def close(self) -> None:
        self._stream.close()


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """A run over time; `of`: what its latencies are of, "queries" or "first tokens"."""

    scenario: str
    of: str
    intervals: tuple[Interval, ...]


def read_timeline(path: Path) -> Timeline:
    """Read what `TimelineWriter` wrote; a last line that was cut is left out.

    Raises:
        ValueError: it is another kind of file.
        OSError: it cannot be read.
    """
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    try:
        head = json.loads(lines[0])
        if head["kind"] != "assay-timeline" or head["version"] != 1:
            raise ValueError
        scenario, of = str(head["scenario"]), str(head["of"])
    except (ValueError, IndexError, KeyError, TypeError):
        raise ValueError(f"{path}: found no timeline of a run") from None
    intervals = []
    for line in lines[1:]:
        try:
            intervals.append(Interval(**json.loads(line)))
        except (ValueError, TypeError):
            break
    return Timeline(scenario=scenario, of=of, intervals=tuple(intervals))


def beside(folder: Path) -> Path | None:
    """The folder of what belongs to a run and not to the submission; None where there is none.

    Args:
        folder: the folder of a run, or of a result in a tree.
    """
    if (folder / TIMELINE).is_file():
        return folder
    resolved = folder.resolve()
    for tree in resolved.parents:
        traces = traces_of(tree)
        if traces.is_dir():
            place = traces / resolved.relative_to(tree)
            for candidate in (place, *place.parents):
                if candidate == traces:
                    break
                if (candidate / TIMELINE).is_file():
                    return candidate
    return None


def traces_of(tree: Path) -> Path:
    """Where a tree's runs leave what is no part of a submission."""
    return tree.with_name(f"{tree.name}.traces")
