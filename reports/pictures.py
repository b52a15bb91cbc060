"""The HTML report's pictures as small SVG texts.

A round's report holds thousands of them, so they carry no styles of their own: the page's style
sheet colours the classes, and follows the reader's dark mode. A picture whose numbers are not in
the table beside it has its content in words; the others are hidden from screen readers. Every text
goes through ``html_text``; every number is formatted here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from reports import arrange, figures
from reports.accelerators import Comparison, Kind
from reports.escape import html_text
from reports.margins import Bound, Margin, Picture, Row
from schemas.report import AccuracyScore, RunFacts

WIDTH = 320
WIDE = 420
_EDGE = 14.0
"""Room left and right of a wide picture's scale, so that a dot or a label at its end is whole."""


def svg(width: int, height: int, words: str, parts: Iterable[str]) -> str:
    """A picture with its content in words; without words it is hidden from screen readers."""
    named = f'role="img" aria-label="{html_text(words)}"' if words else 'aria-hidden="true"'
    return f'<svg {named} viewBox="0 0 {width} {height}" width="{width}">{"".join(parts)}</svg>'


def _px(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _dots(places: Iterable[float], y: float, kind: str) -> str:
    """Dots as one path of strokes without length; those that would cover each other once."""
    known = dict.fromkeys(map(_px, places))
    if not known:
        return ""
    return f'<path class="{kind}" d="{"".join(f"M{x} {_px(y)}h0" for x in known)}"/>'


def _lines(places: Iterable[float], top: float, bottom: float, kind: str) -> str:
    drawn = "".join(f"M{_px(x)} {_px(top)}V{_px(bottom)}" for x in places)
    return f'<path class="{kind}" d="{drawn}"/>' if drawn else ""


# --- one result --------------------------------------------------------------------------------


def accuracy(score: AccuracyScore) -> str:
    """A score on a line with its gate: the region that passes, the gate, the value, both ends.

    Empty where no gate applies or a value cannot be drawn.
    """
    values = [score.value, score.target, score.limit, score.reference]
    known = [value for value in values if value is not None and math.isfinite(value)]
    if not arrange.gated(score) or not math.isfinite(score.value):
        return ""
    low, high = min(known), max(known)
    room = (high - low or abs(high) or 1.0) * 0.25
    low, high = low - room, high + room
    start, end = 4.0, WIDTH - 4.0

    def x(value: float) -> float:
        return start + (end - start) * (value - low) / (high - low)

    left = x(score.target) if score.target is not None else start
    right = x(score.limit) if score.limit is not None else end
    bounds = [bound for bound in (score.target, score.limit) if bound is not None]
    reference = score.reference
    parts = [
        f'<path class="axis" d="M{_px(start)} 8H{_px(end)}"/>',
        f'<path class="pass" d="M{_px(left)} 4H{_px(max(right, left))}v8H{_px(left)}z"/>',
        _lines(map(x, bounds), 0, 16, "gate"),
        _lines([x(reference)] if reference is not None and math.isfinite(reference) else [], 3, 13, "ref"),
        _dots([x(score.value)], 8, "dots bad" if score.passed is False else "dots"),
        f'<text y="26">{figures.number(_three(low))}</text>',
        f'<text class="v" x="{WIDTH}" y="26">{figures.number(_three(high))}</text>',
    ]  # fmt: skip
    return svg(WIDTH, 28, "", parts)


def _three(value: float) -> float:
    return float(f"{value:.3g}")


def latency(values: dict[str, float], bound: Bound | None) -> str:
    """Percentiles as dots from zero to the greatest, the limit as a line; what is over it is red.

    The dot that the limit is for is larger. Empty where there is nothing to draw.
    """
    rows = percentiles(values)
    longest = max([value for _, value in rows] + ([bound.limit] if bound else []), default=0)
    if not rows or longest <= 0:
        return ""
    start, room = 4.0, WIDTH - 8.0

    def x(value: float) -> float:
        return start + room * value / longest

    kinds: dict[str, list[float]] = {}
    for at, value in rows:
        judged = bound is not None and at == bound.percentile
        kind = "dots" + (" j" if judged else "") + (" bad" if over(at, value, bound) else "")
        kinds.setdefault(kind, []).append(x(value))
    parts = [f'<path class="axis" d="M{_px(start)} 8H{_px(start + room)}"/>']
    parts += [_dots(places, 8, kind) for kind, places in kinds.items()]
    if bound is not None:
        parts.append(_lines([x(bound.limit)], 0, 16, "gate"))
    return svg(WIDTH, 16, "", parts)


def percentiles(values: dict[str, float]) -> list[tuple[float, float]]:
    """The percentiles among a run's figures, in percent, with their values, lowest first."""
    return sorted(
        (p, value)
        for key, value in values.items()
        if (p := figures.percentile(key)) is not None and math.isfinite(value) and value >= 0
    )


def over(percentile: float, value: float, bound: Bound | None) -> bool:
    """Whether a percentile breaks the limit: one above the limit's own percentile cannot."""
    return bound is not None and percentile <= bound.percentile and value > bound.limit


def when(text: str | None) -> datetime | None:
    """A run's start without its zone, or None where it is not a time."""
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
        # Clocks without a zone are compared as they are; mixing would fail.
        return found.replace(tzinfo=None) - (found.utcoffset() or timedelta())
    except (ValueError, OverflowError):
        return None


_STEPS = [
    *(timedelta(seconds=n) for n in (1, 2, 5, 10, 15, 30)),
    *(timedelta(minutes=n) for n in (1, 2, 5, 10, 15, 30)),
    *(timedelta(hours=n) for n in (1, 2, 3, 6, 12)),
    *(timedelta(days=n) for n in (1, 2, 7, 14, 30, 91, 365, 3653)),
]


def timeline(runs: Sequence[RunFacts]) -> str:
    """The runs that have a start and a duration on one time axis, first to last, with its dates."""
    timed = [
        (start, timedelta(seconds=run.duration_s), run)
        for run in runs
        if (start := when(run.started)) is not None
        and run.duration_s is not None
        and 0 <= run.duration_s < 1e8
        and start.year < 9000
    ]
    if len(timed) < 2:
        return ""
    timed.sort(key=lambda item: item[0])
    first = timed[0][0]
    last = max(start + duration for start, duration, _ in timed)
    total = (last - first) or timedelta(seconds=1)
    left, room = 92.0, WIDTH - 106.0

    def x(at: datetime) -> float:
        return left + room * ((at - first) / total)

    height = 14 * len(timed)
    ticks, text = _times(first, last, total)
    parts = [_lines(map(x, ticks), 0, height + 3, "grid")]
    words, bars = [], {False: "", True: ""}
    for index, (start, duration, run) in enumerate(timed):
        length = max(room * (duration / total), 2)
        bad = run.validity not in (None, "VALID")
        bars[bad] += f"M{_px(x(start))} {14 * index + 2}h{_px(length)}v10h-{_px(length)}z"
        parts.append(f'<text y="{14 * index + 11}">{html_text(run.kind, 13)}</text>')
        words.append(
            f"{run.kind} from {start:%Y-%m-%d %H:%M:%S} for {figures.seconds(duration.total_seconds())}"
        )
    parts += [
        f'<path class="{"bar bad" if bad else "bar"}" d="{drawn}"/>'
        for bad, drawn in bars.items()
        if drawn
    ]
    parts.append(f'<path class="axis" d="M{_px(left)} {height + 1}H{_px(left + room)}"/>')
    parts += [
        f'<text class="m" x="{_px(x(at))}" y="{height + 13}">{text(at)}</text>' for at in ticks
    ]
    shown = f"{first:%Y-%m-%d}" + (f" to {last:%Y-%m-%d}" if last.date() != first.date() else "")
    parts.append(f'<text y="{height + 13}">{shown[:10]}</text>')
    return svg(WIDTH, height + 16, f"Runs in time, {shown}: {'; '.join(words)}", parts)


def _times(
    first: datetime, last: datetime, total: timedelta
) -> tuple[list[datetime], Callable[[datetime], str]]:
    """At most four round times between two, and how to write them."""
    step = next((s for s in _STEPS if total / s <= 4), _STEPS[-1])
    midnight = first.replace(hour=0, minute=0, second=0, microsecond=0)
    at = midnight + step * math.ceil((first - midnight) / step)
    ticks: list[datetime] = []
    while at <= last and len(ticks) < 5:
        ticks.append(at)
        at += step
    pattern = "%H:%M:%S" if step < timedelta(minutes=1) else "%H:%M"
    if step >= timedelta(days=1):
        pattern = "%m-%d" if step < timedelta(days=365) else "%Y"
    return ticks, lambda moment: moment.strftime(pattern)


# --- many results ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scale:
    """A wide picture's axis: where a value is, and the ticks with their labels."""

    place: Callable[[float], float]
    ticks: list[tuple[float, str]]
    note: str = ""

    def x(self, value: float) -> float:
        """Where a value is drawn; what is beyond the axis is drawn at its end."""
        return _EDGE + (WIDE - 2 * _EDGE) * min(max(self.place(value), 0.0), 1.0)

    def axis(self) -> str:
        """The labelled axis, for the head of the column of pictures."""
        parts, free = [], -math.inf
        for value, label in self.ticks:
            x, half = self.x(value), 3.2 * len(label)
            # Labels that would run into each other or over an end give way; their ticks stay.
            if x - half > free and half <= x + _EDGE / 2 and x + half <= WIDE + _EDGE / 2:
                kind = "m" if x - half >= 0 and x + half <= WIDE else ("" if x < WIDE / 2 else "v")
                at = {"m": _px(x), "": "0", "v": str(WIDE)}[kind]
                parts.append(f'<text class="{kind}" x="{at}" y="10">{label}</text>')
                free = x + half + 4
        parts.append(_lines((self.x(value) for value, _ in self.ticks), 13, 18, "axis"))
        return svg(WIDE, 18, "", parts)

    def row(self, words: str, parts: Iterable[str]) -> str:
        """One row of dots over the axis's grid."""
        grid = _lines((self.x(value) for value, _ in self.ticks), 0, 18, "grid")
        return svg(WIDE, 18, words, [grid, *parts])


def linear(low: float, high: float, label: Callable[[float], str]) -> Scale:
    """An axis from ``low`` to ``high`` with four to eight round ticks."""
    span = (high - low) or abs(high) or 1.0
    rough = span / 5
    power = 10 ** math.floor(math.log10(rough))
    step = next(power * n for n in (1, 2, 5, 10) if rough <= power * n * 1.0000001)
    first = math.ceil(low / step - 1e-9)
    ticks = [step * n for n in range(first, math.floor(high / step + 1e-9) + 1)]
    return Scale(lambda value: (value - low) / span, [(tick, label(tick)) for tick in ticks])


def logarithmic(low: float, high: float, label: Callable[[float], str]) -> Scale:
    """A logarithmic axis from ``low`` to ``high``, both over zero, with ticks at 1, 2 and 5."""
    start, span = math.log10(low), (math.log10(high) - math.log10(low)) or 1.0
    wanted: tuple[int, ...] = (1, 2, 5) if span < 2.5 else (1,)
    ticks = [
        10.0**power * n
        for power in range(math.floor(start), math.ceil(start + span) + 1)
        for n in wanted
        if low * 0.999 <= 10.0**power * n <= high * 1.001
    ]
    return Scale(
        lambda value: (math.log10(value) - start) / span if value > 0 else 0.0,
        [(tick, label(tick)) for tick in ticks],
        "logarithmic scale",
    )


def _percent(value: float) -> str:
    return f"{value * 100:.4g}%"


def _signed(value: float) -> str:
    return "gate" if value == 0 else f"{value * 100:+.4g}%"


_NEAR = 0.005
"""Distances to a gate below half a percent are drawn to scale, larger ones by their magnitude."""


def margin_scale(picture: Picture) -> Scale:
    """The axis of one kind of margins."""
    shares = [margin.share for row in picture.rows for margin in row.margins]
    if picture.kind != "accuracy":
        return linear(0.0, min(max(1.05, *shares), 2.0), _percent)
    low, high = (math.asinh(bound / _NEAR) for bound in (min(-_NEAR, *shares), max(0.02, *shares)))
    marks = (-1.0, -0.1, -0.01, 0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 10.0)
    return Scale(
        lambda value: (math.asinh(value / _NEAR) - low) / (high - low),
        [(m, _signed(m)) for m in marks if low <= math.asinh(m / _NEAR) <= high],
        "linear near the gate, logarithmic farther away",
    )


def margin_text(kind: str, margin: Margin) -> str:
    """A margin as text: a share of the limit, or a distance to the gate."""
    if kind == "accuracy":
        side = "inside" if margin.share >= 0 else "outside"
        return f"{abs(margin.share) * 100:.3g}% {side}"
    return f"{margin.share * 100:.3g}% of the limit"


def margins(picture: Picture, row: Row, scale: Scale) -> str:
    """One row of margins: a dot a result, the bound as a line, red where it is broken."""
    bound = 0.0 if picture.kind == "accuracy" else 1.0
    nearest = picture.nearest(row)
    words = (
        f"{row.benchmark}, {row.what}: {figures.plural(len(row.margins), 'result')}, nearest "
        f"{arrange.title_of(nearest.result)} with {nearest.value}, bound {nearest.bound}, "
        f"{margin_text(picture.kind, nearest)}; {row.failing:,} fail"
    )
    kinds = [("dots", False), ("dots bad", True)]
    return scale.row(
        words,
        [
            _lines([scale.x(bound)], 0, 18, "gate"),
            *(
                _dots((scale.x(m.share) for m in row.margins if m.fails is bad), 9, kind)
                for kind, bad in kinds
            ),
        ],
    )


def accelerator_scale(comparison: Comparison) -> Scale:
    """The axis of one comparison: from zero, or logarithmic where the values lie far apart."""
    low, high = min(comparison.values), max(comparison.values)
    if high / low >= 20:
        return logarithmic(low, high, figures.number)
    return linear(0.0, high, figures.number)


def accelerators(comparison: Comparison, kind: Kind, scale: Scale) -> str:
    """One kind of accelerator: a dot a system."""
    values = [each.value for each in kind.results]
    spread = figures.number(values[0])
    if len(values) > 1:
        spread = f"{figures.number(values[-1])} to {spread}"
    words = (
        f"{kind.accelerator}, {kind.precision}: {figures.plural(len(values), 'system')}, {spread} "
        f"{comparison.unit} per accelerator"
    )
    return scale.row(words, [_dots(map(scale.x, values), 9, "dots")])
