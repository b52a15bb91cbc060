"""Which processors a run may use: `--cpus 0-7,16-23` or `--cpus node1`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from runner.errors import SettingsError

_NODES = Path("/sys/devices/system/node")


def parse_cpus(text: str) -> tuple[int, ...]:
    """The processors that a list names, sorted: numbers, ranges, NUMA nodes, with commas between.

    Raises:
        SettingsError: not such a list, or this process may not use one of them.
    """
    found: set[int] = set()
    for part in (part.strip() for part in text.split(",")):
        node = re.fullmatch(r"node(\d{1,4})", part)
        if node:
            found.update(_of_node(int(node[1])))
            continue
        ends = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?", part)
        if ends is None or int(ends[2] or ends[1]) < int(ends[1]):
            raise SettingsError(
                f"found {part!r} in the list of processors; expected numbers, ranges or NUMA nodes, such as "
                "0-7,16 or node0."
            )
        found.update(range(int(ends[1]), int(ends[2] or ends[1]) + 1))
    allowed = os.sched_getaffinity(0)
    if not found <= allowed:
        raise SettingsError(
            f"found processors {cpu_list(found - allowed)}; expected some of {cpu_list(allowed)}, which "
            "this process may use."
        )
    return tuple(sorted(found))


def _of_node(number: int) -> tuple[int, ...]:
    path = _NODES / f"node{number}" / "cpulist"
    try:
        text = path.read_text(encoding="ascii").strip()
    except OSError as error:
        raise SettingsError(f"found no NUMA node {number} on this machine ({path}).") from error
    return parse_cpus(text) if text else ()


def cpu_list(numbers: Iterable[int]) -> str:
    """Processor numbers as the kernel lists them: `0-3,8`."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][-1] + 1:
            parts[-1][1:] = [number]
        else:
            parts.append([number])
    return ",".join("-".join(map(str, part)) for part in parts)
