"""Charts with axes: lines and dots over a number, bounds as dashed lines. One shape, two drawings.

A `Chart` holds coordinates and ready labels and knows nothing of what it shows. `to_svg` draws it without
any library, for pages and files; `to_image` has Matplotlib draw it (extra `plot`), for PNG and PDF.
Colours are presentation attributes, so that a page's content security policy allows them, and follow the
page's text colour.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from reports.escape import html_text, one_line

WIDTH, HEIGHT = 640, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 74.0, 16.0, 28.0, 40.0
_LABEL_LIMIT = 80
_POINTS = 2000  # a picture has not more columns than that
COLOURS = ("#2563a8", "#c2571a", "#3c8043", "#8a3ea8", "#a8872b", "#557080", "#b03060", "#20807a")
BOUND = "#b3261e"


def missing(kind: str) -> str:
    """How to install what draws such pictures."""
    return f'{kind.upper()} pictures need Matplotlib: pip install "assay[plot]"; .svg needs nothing more.'


@dataclass(frozen=True, kw_only=True)
class Axis:
    """An axis in its own coordinates.

    `ticks`: place and label. `low`, `high`: its ends; values beyond them are drawn at the end.
    """

    label: str
    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]


@dataclass(frozen=True, kw_only=True)
class Series:
    """Points in the axes' coordinates, joined by a line or not; `spread`: half the height of a bar."""

    name: str
    points: tuple[tuple[float, float], ...]
    line: bool = True
    dots: bool = False
    spread: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Bound:
    """A dashed line at a place of one of the axes, with what it means."""

    label: str
    x: float | None = None
    y: float | None = None


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A picture of one thing; `words` says what it shows to who cannot see it."""

    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    bounds: tuple[Bound, ...] = ()
    words: str = ""


def linear(
    label: str, values: Iterable[float], tick: Callable[[float], str], zero: bool = True
) -> Axis:
    """An axis over the values, from zero where `zero`, with four to eight round ticks."""
    known = [value for value in values if math.isfinite(value)]
    low, high = min(known, default=0.0), max(known, default=1.0)
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if high <= low:
        high = low + (abs(low) or 1.0)
    step = _step((high - low) / 5)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    places = [step * n for n in range(first, last + 1)]
    return Axis(
        label=label, low=places[0], high=places[-1], ticks=tuple((p, tick(p)) for p in places)
    )


def _step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * n for n in (1, 2, 5, 10) if rough <= power * n * 1.0000001)


def logarithmic(label: str, values: Iterable[float], tick: Callable[[float], str]) -> Axis:
    """An axis of logarithms (base 10) over the positive values; `log` gives a value's place."""
    known = [log(value) for value in values if value > 0 and math.isfinite(value)]
    low, high = min(known, default=0.0), max(known, default=1.0)
    if high - low < 0.3:
        low, high = low - 0.15, high + 0.15
    room = (high - low) * 0.04
    low, high = low - room, high + room
    wanted: tuple[int, ...] = (1, 2, 5) if high - low < 2.5 else (1,)
    ticks = [
        10.0**power * n
        for power in range(math.floor(low), math.ceil(high) + 1)
        for n in wanted
        if low <= power + math.log10(n) <= high
    ]
    return Axis(label=label, low=low, high=high, ticks=tuple((log(t), tick(t)) for t in ticks))


def log(value: float) -> float:
    """A value's place on a logarithmic axis; what is not above zero is far below it."""
    return math.log10(value) if value > 0 else -math.inf


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _thinned(points: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
    """No more points than can be told apart, with the highest of those that share a place."""
    if len(points) <= _POINTS:
        return points
    size = math.ceil(len(points) / _POINTS)
    return [
        max(points[at : at + size], key=lambda point: point[1])
        for at in range(0, len(points), size)
    ]


# What XML does not allow at all, not even escaped; an SVG file with one of these cannot be opened.
_NO_XML = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")


def _text(value: str, limit: int = _LABEL_LIMIT) -> str:
    return _NO_XML.sub("\ufffd", html_text(value, limit))


class _Drawing:
    """A chart in an SVG picture's pixels."""

    def __init__(self, chart: Chart, top: float) -> None:
        self.chart = chart
        self.left, self.right = _LEFT, WIDTH - _RIGHT
        self.top, self.bottom = top + _TOP, top + HEIGHT - _BOTTOM
        self.parts: list[str] = []

    def _place(self, axis: Axis, value: float, start: float, end: float) -> float:
        share = (value - axis.low) / (axis.high - axis.low) if axis.high > axis.low else 0.5
        return start + (end - start) * min(max(share, 0.0), 1.0)

    def x(self, value: float) -> float:
        return self._place(self.chart.x, value, self.left, self.right)

    def y(self, value: float) -> float:
        return self._place(self.chart.y, value, self.bottom, self.top)

    def draw(self) -> list[str]:
        chart, parts = self.chart, self.parts
        parts.append(
            f'<text x="{_number(self.left)}" y="{_number(self.top - 14)}" font-weight="bold">'
            f"{_text(chart.title)}</text>"
        )
        self._axes()
        for number, series in enumerate(chart.series):
            self._series(series, COLOURS[number % len(COLOURS)])
        for bound in chart.bounds:
            self._bound(bound)
        if len(chart.series) > 1:
            self._legend()
        return parts

    def _axes(self) -> None:
        grid = "".join(
            f"M{_number(self.left)} {_number(self.y(at))}H{_number(self.right)}"
            for at, _ in self.chart.y.ticks
        ) + "".join(
            f"M{_number(self.x(at))} {_number(self.top)}V{_number(self.bottom)}"
            for at, _ in self.chart.x.ticks
        )
        self.parts.append(
            f'<path d="{grid}" stroke="currentColor" stroke-opacity=".14" fill="none"/>'
        )
        self.parts.append(
            f'<path d="M{_number(self.left)} {_number(self.top)}V{_number(self.bottom)}'
            f'H{_number(self.right)}" stroke="currentColor" stroke-opacity=".6" fill="none"/>'
        )
        free = -math.inf
        for at, label in self.chart.x.ticks:
            x, half = self.x(at), 3.2 * len(label)
            if x - half > free:  # labels that would run into each other give way; their lines stay
                self.parts.append(
                    f'<text x="{_number(x)}" y="{_number(self.bottom + 14)}" '
                    f'text-anchor="middle">{_text(label)}</text>'
                )
                free = x + half + 4
        for at, label in self.chart.y.ticks:
            self.parts.append(
                f'<text x="{_number(self.left - 5)}" y="{_number(self.y(at) + 3.5)}" '
                f'text-anchor="end">{_text(label)}</text>'
            )
        middle = (self.left + self.right) / 2
        self.parts.append(
            f'<text x="{_number(middle)}" y="{_number(self.bottom + 31)}" text-anchor="middle" '
            f'fill-opacity=".75">{_text(self.chart.x.label)}</text>'
        )
        y = (self.top + self.bottom) / 2
        self.parts.append(
            f'<text transform="translate(12 {_number(y)}) rotate(-90)" text-anchor="middle" '
            f'fill-opacity=".75">{_text(self.chart.y.label)}</text>'
        )

    def _series(self, series: Series, colour: str) -> None:
        points = [(self.x(x), self.y(y)) for x, y in _thinned(series.points)]
        if series.line and len(points) > 1:
            drawn = "L".join(f"{_number(x)} {_number(y)}" for x, y in points)
            self.parts.append(
                f'<path d="M{drawn}" stroke="{colour}" stroke-width="1.6" fill="none" '
                'stroke-linejoin="round"/>'
            )
        bars = "".join(
            f"M{_number(self.x(x))} {_number(self.y(y - half))}V{_number(self.y(y + half))}"
            for (x, y), half in zip(series.points, series.spread, strict=False)
        )
        if bars:
            self.parts.append(
                f'<path d="{bars}" stroke="{colour}" stroke-opacity=".55" fill="none"/>'
            )
        if series.dots or len(points) == 1:
            drawn = "".join(f"M{_number(x)} {_number(y)}h0" for x, y in points)
            self.parts.append(
                f'<path d="{drawn}" stroke="{colour}" stroke-width="6" stroke-linecap="round" '
                'fill="none"/>'
            )

    def _bound(self, bound: Bound) -> None:
        if bound.y is not None:
            y = self.y(bound.y)
            line = f"M{_number(self.left)} {_number(y)}H{_number(self.right)}"
            under = y < self.top + 14  # else it would run into the title
            at = f'x="{_number(self.right - 3)}" y="{_number(y + (12 if under else -4))}" text-anchor="end"'
        else:
            x = self.x(bound.x or 0.0)
            line = f"M{_number(x)} {_number(self.top)}V{_number(self.bottom)}"
            # On the side where there is room.
            late = x > (self.left + self.right) / 2
            side = 'text-anchor="end"' if late else ""
            at = f'x="{_number(x + (-4 if late else 4))}" y="{_number(self.bottom - 6)}" {side}'
        self.parts.append(
            f'<path d="{line}" stroke="{BOUND}" stroke-width="1.4" stroke-dasharray="5 3" fill="none"/>'
            f'<text {at} fill="{BOUND}">{_text(bound.label)}</text>'
        )

    def _legend(self) -> None:
        x = self.right
        for number, series in reversed(list(enumerate(self.chart.series))):
            name = one_line(series.name, 40)
            x -= 6.2 * len(name) + 20
            if x < self.left + 6.6 * len(self.chart.title):
                break  # the words name them all
            colour = COLOURS[number % len(COLOURS)]
            y = self.top - 18
            self.parts.append(
                f'<path d="M{_number(x)} {_number(y)}h10" stroke="{colour}" stroke-width="3"/>'
                f'<text x="{_number(x + 14)}" y="{_number(y + 4)}">{_text(name)}</text>'
            )


def to_svg(charts: Sequence[Chart], *, alone: bool = False) -> str:
    """The charts below one another as one SVG text.

    Args:
        alone: as a file of its own, with a white ground; else as part of a page.
    """
    height = HEIGHT * len(charts)
    parts = [part for n, chart in enumerate(charts) for part in _Drawing(chart, HEIGHT * n).draw()]
    words = " ".join(chart.words or chart.title for chart in charts)
    space = ' xmlns="http://www.w3.org/2000/svg"' if alone else ""
    ground = f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>' if alone else ""
    return (
        f'<svg{space} role="img" aria-label="{_text(words, 2000)}" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" font-family="system-ui, sans-serif" font-size="11" fill="currentColor">'
        f"{ground}{''.join(parts)}</svg>"
    )


def to_image(charts: Sequence[Chart], kind: str) -> bytes:
    """The charts below one another as Matplotlib draws them.

    Args:
        kind: "png" or "pdf".

    Raises:
        ImportError: Matplotlib is not installed; see `missing`.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # Not pyplot: it looks for a display and keeps every figure.
    figure = Figure(figsize=(8, 3.25 * len(charts)), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(charts), 1, squeeze=False)[:, 0]
    for each, chart in zip(axes, charts, strict=True):
        _fill(each, chart)
    out = io.BytesIO()
    figure.savefig(out, format=kind, metadata={"CreationDate": None} if kind == "pdf" else None)
    return out.getvalue()


def _fill(axes: Any, chart: Chart) -> None:
    """Draw a chart into Matplotlib's axes. Dollar signs would begin a formula."""

    def plain(text: str) -> str:
        return one_line(text, _LABEL_LIMIT).replace("$", r"\$")

    axes.set_title(plain(chart.title), loc="left", fontsize=10, fontweight="bold")
    for number, series in enumerate(chart.series):
        x, y = zip(*series.points, strict=True) if series.points else ((), ())
        style = {
            "color": COLOURS[number % len(COLOURS)],
            "linestyle": "-" if series.line else "none",
            "marker": "o" if series.dots or len(x) == 1 else None,
            "markersize": 4,
            "linewidth": 1.3,
            "label": plain(series.name).lstrip("_"),
        }
        if series.spread:
            axes.errorbar(x, y, yerr=series.spread, capsize=2, **style)
        else:
            axes.plot(x, y, **style)
    for bound in chart.bounds:
        if bound.y is not None:
            axes.axhline(bound.y, color=BOUND, linestyle="--", linewidth=1.2)
            place, align = (1.0, bound.y), "right"
            transform = axes.get_yaxis_transform()
        else:
            axes.axvline(bound.x, color=BOUND, linestyle="--", linewidth=1.2)
            place, align = (bound.x or 0.0, 0.02), "left"
            transform = axes.get_xaxis_transform()
        axes.text(
            *place, f" {plain(bound.label)} ", transform=transform, color=BOUND, ha=align,
            va="bottom", fontsize=8,
        )  # fmt: skip
    for axis, name in ((chart.x, "x"), (chart.y, "y")):
        getattr(axes, f"set_{name}label")(plain(axis.label), fontsize=9)
        places, labels = zip(*axis.ticks, strict=True) if axis.ticks else ((), ())
        getattr(axes, f"set_{name}ticks")(places, [plain(label) for label in labels], fontsize=8)
        getattr(axes, f"set_{name}lim")(axis.low, axis.high)
    axes.grid(alpha=0.25)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    if len(chart.series) > 1:
        axes.legend(fontsize=8, frameon=False)
