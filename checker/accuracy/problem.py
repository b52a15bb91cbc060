"""What went wrong while an accuracy log was read, as data.

Reading never judges: a ``Problem`` says what was seen and how often; whether it matters is for a
rule, a gate or the person reading to say.
"""

from __future__ import annotations

import msgspec


class AccuracyError(ValueError):
    """The score cannot be computed: ground truth, a library or the log itself is not usable.

    The message says what was missing and what to do about it.
    """


class Problem(msgspec.Struct, frozen=True):
    """One kind of irregularity: its name, a sentence for people, and how often it was met.

    ``offset`` is the byte offset in the log of the first case; ``index`` the first sample
    (qsl_idx) concerned. Either is None where it has no meaning.
    """

    kind: str
    message: str
    count: int = 1
    offset: int | None = None
    index: int | None = None


class _Tally(msgspec.Struct):
    count: int = 0
    offset: int | None = None
    index: int | None = None
    detail: str = ""
    examples: list[int] = []


DAMAGE = frozenset({"malformed", "not-hex", "too-long", "cut"})
"""Kinds of problems that leave a record unread."""


class Problems:
    """Collects irregularities by kind in constant memory, however many there are."""

    EXAMPLES = 5

    def __init__(self) -> None:
        self._tallies: dict[str, _Tally] = {}

    def add(
        self,
        kind: str,
        detail: str,
        *,
        offset: int | None = None,
        index: int | None = None,
        count: int = 1,
    ) -> None:
        """Count one more case of ``kind``; the first case's detail and place are kept."""
        tally = self._tallies.get(kind)
        if tally is None:
            tally = self._tallies[kind] = _Tally(0, offset, index, detail)
        tally.count += count
        if index is not None and len(tally.examples) < self.EXAMPLES:
            tally.examples.append(index)

    def __contains__(self, kind: str) -> bool:
        return kind in self._tallies

    def listed(self) -> list[Problem]:
        """The problems in the order in which each kind was first met."""
        out = []
        for kind, tally in self._tallies.items():
            message = tally.detail
            if tally.count > 1 and len(tally.examples) > 1:
                shown = ", ".join(map(str, tally.examples))
                more = ", …" if tally.count > len(tally.examples) else ""
                message = f"{message} ({tally.count} cases; samples {shown}{more})"
            elif tally.count > 1 and not tally.examples:
                message = f"{message} ({tally.count} cases, the first is shown)"
            out.append(
                Problem(
                    kind, message=message, count=tally.count, offset=tally.offset, index=tally.index
                )
            )
        return out
