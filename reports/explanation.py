"""The evidence of one result: everything that an audit tested, as text or as a page."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

from reports import figures
from reports.escape import html_text, one_line
from reports.page import asset, environment, policy_hash
from reports.pictures import WIDE as _WIDTH
from reports.pictures import svg
from schemas.explanation import Bounded, Explanation, Percentiles, Tested

_VALUES = 8
_DECIMALS = 6


def to_text(explanation: Explanation) -> str:
    """What was tested, findings first, as lines of a terminal or text file."""
    return "\n".join(one_line(line).rstrip() for line in _lines(explanation)) + "\n"


def summary(explanation: Explanation) -> str:
    """How many tests there were, and how they ended."""
    counts = {name: explanation.count(name) for name in ("agrees", "finding", "not tested")}
    done = counts["agrees"] + counts["finding"]
    return (
        f"{done:,} tests: {counts['agrees']:,} agree, {counts['finding']:,} with a finding; "
        f"{counts['not tested']:,} could not be made."
    )


def _lines(explanation: Explanation) -> Iterator[str]:
    yield f"Evidence for {explanation.key} ({explanation.round})"
    if explanation.metric is not None:
        yield f"Metric: {_number(explanation.metric.value)} {explanation.metric.unit}"
    for score in explanation.accuracy:
        yield f"Accuracy: {score.metric} {_number(score.value)} {figures.score_unit(score)}".rstrip()
    yield summary(explanation)
    for one in explanation.tested:
        if one.outcome == "not tested":
            continue
        yield ""
        mark = one.severity if one.outcome == "finding" else "agrees"
        yield f"{mark:<8} {one.rule} {one.name}: {one.summary}"
        yield f"    {one.path}"
        for message in one.findings:
            yield f"    {message}"
        if one.figure is not None:
            yield f"    {bounded(one.figure)}"
        if one.values:
            yield f"    {'; '.join(values(one))}"
    for head, rows in _grouped(explanation):
        yield ""
        yield f"Not tested, {head}:"
        yield f"    {', '.join(rows)}"


def _grouped(explanation: Explanation) -> Iterator[tuple[str, list[str]]]:
    """The tests that could not be made, by reason, each rule once."""
    groups: dict[str, dict[str, None]] = {}
    for one in explanation.tested:
        if one.outcome == "not tested":
            groups.setdefault(one.reason or "", {})[f"{one.rule} {one.name}"] = None
    yield from ((reason, list(rules)) for reason, rules in groups.items())


def bounded(figure: Bounded) -> str:
    """A figure and its bounds in words."""
    unit = f" {figure.unit}" if figure.unit else ""
    match figure.low, figure.high:
        case float(low), float(high):
            expected = f"{_number(low)} to {_number(high)}{unit}"
        case float(low), None:
            expected = f"at least {_number(low)}{unit}"
        case None, float(high):
            expected = f"at most {_number(high)}{unit}"
        case _:
            expected = "any"
    return f"{figure.formula} = {_number(figure.value)}{unit}; expected {expected}"


def values(one: Tested) -> list[str]:
    """What the rule read: key, value and line in the log; the first few."""
    shown = []
    for key, value in list(one.values.items())[:_VALUES]:
        line = one.lines.get(key)
        shown.append(f"{key} {_value(value)}" + (f" (line {line:,})" if line else ""))
    if len(one.values) > _VALUES:
        shown.append(f"{len(one.values) - _VALUES} more")
    return shown


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return _number(value) if isinstance(value, int | float) else str(value)


def _number(value: float) -> str:
    return figures.number(value, _DECIMALS)


def to_html(explanation: Explanation) -> str:
    """One page with a picture of each bounded figure and of the percentiles."""
    from markupsafe import Markup

    style = asset("style.css")
    template = environment().get_template("explanation.html")
    return template.render(
        one=explanation,
        summary=summary(explanation),
        style=Markup(style),
        style_hash=policy_hash(style),
        tested=[t for t in explanation.tested if t.outcome != "not tested"],
        untested=list(_grouped(explanation)),
        figures=[t for t in explanation.tested if t.figure is not None],
        wrong=any(t.severity in ("error", "warning") for t in explanation.tested),
        bounded=bounded,
        values=values,
        number=_number,
        bar=bar,
        curve=curve,
        t=lambda value: Markup(html_text(str(value))),
    )


def bar(figure: Bounded) -> Any:
    """A figure on its scale: the region that genuine logs keep to, and the value."""
    known = [v for v in (figure.low, figure.high, figure.value) if v is not None]
    low, high = min(known), max(known)
    room = (high - low or abs(high) or 1.0) * 0.15
    low, high = low - room, high + room

    def x(value: float) -> float:
        return 8 + (_WIDTH - 16) * (value - low) / (high - low)

    left = x(figure.low) if figure.low is not None else 8
    right = x(figure.high) if figure.high is not None else _WIDTH - 8
    inside = (figure.low is None or figure.low <= figure.value) and (
        figure.high is None or figure.value <= figure.high
    )
    return _svg(
        28,
        bounded(figure),
        [
            f'<path class="axis" d="M8 10H{_WIDTH - 8}"/>',
            f'<path class="pass" d="M{left:.1f} 4H{right:.1f}v12H{left:.1f}z"/>',
            f'<path class="dots{"" if inside else " bad"}" d="M{x(figure.value):.1f} 10h0"/>',
            f'<text x="8" y="27">{html_text(_number(low + room))}</text>',
            f'<text x="{_WIDTH - 8}" y="27" text-anchor="end">{html_text(_number(high - room))}</text>',
        ],
    )


def curve(latency: Percentiles) -> Any:
    """Percentiles from the median to p99.9, on a log scale, with the limit of the 99th."""
    points = sorted((float(p), value / 1e6) for p, value in latency.values.items())
    limit = latency.limit / 1e6 if latency.limit is not None else None
    known = [value for _, value in points] + ([limit] if limit else [])
    low, high = math.log10(min(known)) - 0.05, math.log10(max(known)) + 0.05
    height, step = 150, (_WIDTH - 110) / max(1, len(points) - 1)

    def y(value: float) -> float:
        return 12 + (height - 34) * (high - math.log10(value)) / (high - low)

    places = [(84 + index * step, y(value)) for index, (_, value) in enumerate(points)]
    parts = [
        f'<path class="axis" fill="none" d="M84 12V{height - 22}H{_WIDTH - 10}"/>',
        f'<path class="axis" fill="none" d="M{" ".join(f"{a:.1f} {b:.1f}" for a, b in places)}"/>',
    ]
    for (place, level), (percent, value) in zip(places, points, strict=True):
        late = limit is not None and percent == 99 and value > limit
        parts.append(f'<path class="dots{" bad" if late else ""}" d="M{place:.1f} {level:.1f}h0"/>')
        parts.append(
            f'<text x="{place:.1f}" y="{height - 8}" text-anchor="middle">p{percent:g}</text>'
        )
    parts += [
        f'<text x="78" y="{y(value) + 4:.1f}" text-anchor="end">{_number(float(f"{value:.4g}"))}</text>'
        for value in (min(known), max(known))
    ]
    words = ", ".join(f"p{percent:g} {_number(round(value, 3))} ms" for percent, value in points)
    if limit is not None:
        parts.append(f'<path class="gate" d="M84 {y(limit):.1f}H{_WIDTH - 10}"/>')
        words += f"; limit of the 99th percentile {_number(limit)} ms"
    return _svg(height, f"{latency.name}: {words}", parts)


def _svg(height: int, words: str, parts: Iterable[str]) -> Any:
    from markupsafe import Markup

    return Markup(svg(_WIDTH, height, words, parts))
