"""The HTML report's pictures as small SVG texts, each with its content in words.

A round's report holds thousands of them, so they carry no styles of their own: the page's style
sheet colours the classes, and follows the reader's dark mode. Every text goes through
``html_text``; every number is formatted here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime

from reports import arrange, figures
from reports.escape import html_text
from schemas.report import AccuracyScore, RunFacts

WIDTH = 320


def _svg(height: int, words: str, parts: Sequence[str]) -> str:
    return (
        f'<svg role="img" viewBox="0 0 {WIDTH} {height}" '
        f'aria-label="{html_text(words)}">{"".join(parts)}</svg>'
    )


def _px(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


class _Bars:
    """Bars gathered into one path for each colour: a tenth of the elements, half the bytes."""

    def __init__(self) -> None:
        self._drawn: dict[bool, str] = {False: "", True: ""}

    def add(self, x: float, y: int, length: float, *, bad: bool) -> None:
        self._drawn[bad] += f"M{_px(x)} {y + 2}h{_px(length)}v10h-{_px(length)}z"

    def paths(self) -> list[str]:
        names = {False: "bar", True: "bar bad"}
        return [f'<path class="{names[bad]}" d="{d}"/>' for bad, d in self._drawn.items() if d]


def accuracy(score: AccuracyScore) -> str:
    """A score on a line with its gate: the region that passes, the gate, the value.

    Empty where there is no gate or a value that cannot be drawn.
    """
    values = [score.value, score.target, score.limit, score.reference]
    known = [value for value in values if value is not None and math.isfinite(value)]
    if (score.target is None and score.limit is None) or not math.isfinite(score.value):
        return ""
    low, high = min(known), max(known)
    room = (high - low or abs(high) or 1.0) * 0.25
    low, high = low - room, high + room

    def x(value: float) -> float:
        return 4 + (WIDTH - 8) * (value - low) / (high - low)

    left = x(score.target) if score.target is not None else 4.0
    right = x(score.limit) if score.limit is not None else WIDTH - 4.0
    parts = [
        f'<path class="axis" d="M4 12H{WIDTH - 4}"/>',
        f'<rect class="pass" x="{_px(left)}" y="7" width="{_px(max(right - left, 0))}" '
        'height="10"/>',
    ]
    parts += [
        f'<path class="gate" d="M{_px(x(bound))} 2V22"/>'
        for bound in (score.target, score.limit)
        if bound is not None
    ]
    if score.reference is not None and math.isfinite(score.reference):
        parts.append(f'<path class="ref" d="M{_px(x(score.reference))} 6V18"/>')
    kind = "dot bad" if score.passed is False else "dot"
    parts.append(f'<circle class="{kind}" cx="{_px(x(score.value))}" cy="12" r="5"/>')
    return _svg(24, accuracy_words(score), parts)


def accuracy_words(score: AccuracyScore) -> str:
    """A score against its gate in words."""
    words = f"{score.metric} {figures.number(score.value)}"
    gate = arrange.gate_text(score).replace("≥", "at least").replace("≤", "at most")
    if gate:
        words += f"; gate {gate}"
    if score.reference is not None:
        words += f"; reference {figures.number(score.reference)}"
    margin = arrange.margin(score)
    if margin is not None and math.isfinite(margin):
        side = "inside" if margin >= 0 else "outside"
        words += f"; {abs(margin) * 100:.3g} % {side} the gate"
    return words


def latency(values: dict[str, float], limit: float | None, at: float | None, what: str) -> str:
    """Latency percentiles as bars, with the limit as a line through them.

    ``at`` is the percentile to which the limit applies. Empty where there is nothing to draw.
    """
    rows = sorted(
        (p, value)
        for key, value in values.items()
        if (p := figures.percentile(key)) is not None and math.isfinite(value) and value >= 0
    )
    if not rows:
        return ""
    longest = max([value for _, value in rows] + ([limit] if limit else []))
    if longest <= 0:
        return ""
    start, room = 44, WIDTH - 44 - 66

    def w(value: float) -> float:
        return room * min(value / longest, 1.0)

    parts, words, bars = [], [], _Bars()
    for index, (p, value) in enumerate(rows):
        y = 14 * index
        over = limit is not None and (at is None or p <= at) and value > limit
        judged = at is not None and p == at
        name = f"p{p:g}"
        bars.add(start, y, max(w(value), 1), bad=over)
        parts.append(
            f'<text class="{"j" if judged else "l"}" y="{y + 10}">{name}</text>'
            f'<text class="v" x="{WIDTH}" y="{y + 10}">{figures.nanoseconds(value)}</text>'
        )
        words.append(f"{name} {figures.nanoseconds(value)}")
    height = 14 * len(rows)
    parts = [*bars.paths(), *parts]
    text = f"{what}: {', '.join(words)}"
    if limit:
        parts.append(f'<path class="gate" d="M{_px(start + w(limit))} 0V{height}"/>')
        text += f"; limit {figures.nanoseconds(limit)}"
        text += f" at p{at:g}" if at is not None else ""
    return _svg(height, text, parts)


def _when(text: str | None) -> datetime | None:
    if not text:
        return None
    try:
        when = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    except ValueError:
        return None
    # Clocks without a zone are compared as they are; mixing would fail.
    return when.replace(tzinfo=None) - (when.utcoffset() or when - when)


def timeline(runs: Sequence[RunFacts]) -> str:
    """The runs that have a start and a duration on one time axis, first to last."""
    timed = [
        (start, run.duration_s, run)
        for run in runs
        if (start := _when(run.started)) is not None
        and run.duration_s is not None
        and math.isfinite(run.duration_s)
        and run.duration_s >= 0
    ]
    if len(timed) < 2:
        return ""
    timed.sort(key=lambda item: item[0])
    first = timed[0][0]
    spans = [((start - first).total_seconds(), duration, run) for start, duration, run in timed]
    total = max(offset + duration for offset, duration, _ in spans) or 1.0
    start_x, room = 92, WIDTH - 94
    parts, words, bars = [], [], _Bars()
    for index, (offset, duration, run) in enumerate(spans):
        y = 14 * index
        x = start_x + room * offset / total
        kind = html_text(run.kind, 13)
        bad = run.validity not in (None, "VALID")
        bars.add(min(x, WIDTH - 3), y, max(room * duration / total, 2), bad=bad)
        parts.append(f'<text class="l" y="{y + 10}">{kind}</text>')
        words.append(f"{run.kind} after {figures.seconds(offset)} for {figures.seconds(duration)}")
    return _svg(14 * len(spans), f"Runs in time: {'; '.join(words)}", [*bars.paths(), *parts])


def share(part: float, whole: float) -> str:
    """A bar for a value among its peers; the number stands beside it, so it has no words."""
    length = 120 * min(max(part / whole, 0), 1) if whole > 0 else 0
    return (
        '<svg class="share" aria-hidden="true" viewBox="0 0 120 10" width="120" height="10">'
        f'<rect class="bar" width="{_px(length)}" height="10"/></svg>'
    )
