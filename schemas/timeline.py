"""How a run went over time: `timeline.jsonl`, which the runner leaves beside a result.

LoadGen's logs hold percentiles of a whole run and nothing of when a query was slow. The first line
says what was measured, each other line what happened since the one before. What a latency is depends on the
scenario:

* SingleStream, MultiStream: the mean latency of the interval's queries (they follow one another).
* Server: median and 99th percentile of the queries answered in it, at most the latest 4,096.
* language benchmarks: the same of times to first token.
* Offline: no latency, as all samples are issued at once; only how many were answered.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

NAME = "timeline.jsonl"
KIND, VERSION = "assay-timeline", 1
_LARGEST = 64 * 2**20


class Interval(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
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


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """The first line."""

    kind: str
    version: int
    scenario: str
    of: str


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """A run over time; `of`: what its latencies are of, "queries" or "first tokens"."""

    scenario: str
    of: str
    intervals: list[Interval]


def read_timeline(path: Path) -> Timeline:
    """Read such a file; what follows a line that was cut is left out.

    Raises:
        ValueError: it is another kind of file.
        OSError: it cannot be read.
    """
    with path.open("rb") as stream:
        lines = stream.read(_LARGEST).splitlines()
    try:
        head = msgspec.json.decode(lines[0] if lines else b"", type=Head)
        if (head.kind, head.version) != (KIND, VERSION):
            raise ValueError
    except ValueError:  # msgspec's own errors are ValueErrors too
        raise ValueError(f"{path}: found no timeline of a run") from None
    decode = msgspec.json.Decoder(Interval).decode
    intervals = []
    for line in lines[1:]:
        try:
            intervals.append(decode(line))
        except ValueError:
            break
    return Timeline(scenario=head.scenario, of=head.of, intervals=intervals)


def beside(folder: Path) -> Path | None:
    """The folder of what belongs to a run and not to the submission; None where there is none.

    Args:
        folder: the folder of a run, or of a result in a tree.
    """
    if (folder / NAME).is_file():
        return folder
    resolved = folder.resolve()
    for tree in resolved.parents:
        traces = traces_of(tree)
        if traces.is_dir():
            place = traces / resolved.relative_to(tree)
            for candidate in (place, *place.parents):
                if candidate == traces:
                    break
                if (candidate / NAME).is_file():
                    return candidate
    return None


def traces_of(tree: Path) -> Path:
    """Where a tree's runs leave what does not belong in a submission."""
    whole = tree if tree.name else tree.resolve()  # "." has no name of its own
    return whole.parent / f"{whole.name}.traces"
